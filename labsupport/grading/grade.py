"""Grades the submissions of a class: runs each apart, compares outside, and writes what came of it.

What a submission answered is kept in OUT/.graded, one file per student with a fingerprint of the submission
and of what it was asked. A run that was interrupted, or is repeated after a case was changed, runs only what
has no such file; the comparison itself is repeated for all.
"""

from __future__ import annotations

import csv
import hashlib
import inspect
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath

from labsupport import __version__, course
from labsupport.lab import compare, run_cells

from . import reports, runner, sandbox
from .cases import Spec
from .classroom import Classroom
from .reference import reference
from .sandbox import Job, Limits, Outcome, SandboxError
from .solution import Solution
from .submissions import Found, Submission, collect


@dataclass
class Grading:
    """What `grade` did: the results in the order of the roster, what it could not grade, and whose marks moved."""

    results: list[reports.Result]
    failed: dict[str, str] = field(default_factory=dict)
    moved: list[str] = field(default_factory=list)
    ran: int = 0


def grade(
    stem: str,
    place: Path,
    out: Path,
    *,
    solutions: Path | None = None,
    private: Path | None = None,
    roster: Path | None = None,
    due: datetime | None = None,
    limits: Limits | None = None,
    unsafe: bool = False,
    jobs: int = 1,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Grading:
    """Grade all submissions to exercise `stem` in the folder or .zip `place` and write the reports to `out`.

    executor : any of `concurrent.futures`; by default `jobs` at once on this machine.
    progress : called with how many of how many have run.
    Raises ValueError where something is wrong with the teacher's side, before any submission runs; for
    anything that a submission does there is a result.
    """
    limits = limits or Limits()
    classroom = Classroom.read(private, roster)
    solutions = solutions or course.root() / "solutions"
    _refuse_to_show(solutions=solutions, submissions=place, private=private, out=out)
    if executor is None and not unsafe and (reason := sandbox.refusal()):
        raise ValueError(
            f"{reason}; or, if you trust every submission, grade with --unsafe-no-sandbox, "
            "which every report will say"
        )
    expected = Expected(stem, solutions, classroom)
    stems = sorted({path.stem for path in solutions.glob("*.toml")})
    submissions = collect(place, stem, stems, classroom.students)
    if not any(submission.file for submission in submissions):
        raise ValueError(f"{place} holds no .ipynb or .py file for {stem}")
    asked = {submission.student.id: expected.of(submission.student.id) for submission in submissions}

    out.mkdir(parents=True, exist_ok=True)
    records = out / ".graded"
    records.mkdir(exist_ok=True)
    names = reports.file_names([submission.student.id for submission in submissions])
    grading = Grading([])
    results: dict[str, reports.Result] = {}

    def finish(submission: Submission, outcome: Outcome) -> None:
        id = submission.student.id
        late = submission.late_days(due)
        result = reports.Result(submission, expected.spec, asked[id], outcome, late, unsafe)
        reports.write_student(result, out / names[id])
        results[id] = result

    def todo() -> Iterator[tuple[Submission, Job, str]]:
        """What has to run; the rest is finished on the way."""
        for submission in submissions:
            id = submission.student.id
            entries = asked[id]
            try:
                data = submission.file.read() if submission.file else b""
            except ValueError as error:
                submission.notes.append(str(error))
                data = None
            if submission.file is None or data is None:
                finish(submission, Outcome([{"blank": True} for _ in entries]))
                continue
            exprs = tuple(entry["expr"] for entry in in_turn(entries))
            job = Job(PurePosixPath(_name(submission.file)).suffix, data, exprs, limits, unsafe)
            print_ = _fingerprint(job)
            if (known := _known(records / f"{names[id]}.json", print_)) is not None:
                finish(submission, _turned_back(known, entries))
            else:
                yield submission, job, print_

    count = sum(submission.file is not None for submission in submissions)
    sandbox.ready()
    own = ThreadPoolExecutor(jobs) if executor is None else None
    pending: dict[Future, tuple[Submission, str]] = {}

    def settle(least: int) -> None:
        """Wait until at most `least` are still running."""
        while len(pending) > least:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                submission, print_ = pending.pop(future)
                id = submission.student.id
                try:
                    outcome = future.result()
                except SandboxError as error:
                    grading.failed[id] = str(error)
                else:
                    kept = {"fingerprint": print_, "outcome": asdict(outcome)}
                    course.write(records / f"{names[id]}.json", json.dumps(kept))
                    finish(submission, _turned_back(outcome, asked[id]))
                    grading.ran += 1
                progress(len(results), len(submissions))

    try:
        progress(0, count)
        for submission, job, print_ in todo():
            pending[(executor or own).submit(sandbox.run, job)] = (submission, print_)
            settle(2 * jobs - 1)
        settle(0)
    except BaseException:
        for future in pending:
            future.cancel()
        sandbox.stop_all()
        raise
    finally:
        if own:
            own.shutdown(cancel_futures=True)
    grading.results = [
        results[submission.student.id] for submission in submissions if submission.student.id in results
    ]
    grading.moved = _moved(out / "grades.csv", grading.results)
    reports.write_tables(grading.results, out)
    files = {result.submission.file.at: names[result.student.id] for result in grading.results if result.submission.file}
    course.write(out / reports.PAGES, json.dumps({at: f"{name}.html" for at, name in files.items()}, indent=1))
    return grading


class Expected:
    """The cases of an exercise with what the solution answers, worked out once for each set of numbers."""

    def __init__(self, stem: str, solutions: Path, classroom: Classroom):
        path = solutions / f"{stem}.py"
        if not path.is_file():
            there = ", ".join(sorted(path.stem for path in solutions.glob("*.toml"))) or "none"
            raise ValueError(f"{solutions} has no solution {stem}.py (there: {there}); name the folder: --solutions")
        self.solution = Solution.read(path)
        self.classroom = classroom
        self.spec: Spec = classroom.spec(path.with_suffix(".toml"))
        self.names = self.solution.run()
        self._known: dict[tuple, list[dict]] = {}

    def of(self, student: str | None) -> list[dict]:
        """All cases as a student is asked them, each with `public`; the textbook's without a student."""
        values = self.classroom.values(self.spec, student) if student is not None else None
        key = tuple((values or {}).items())
        if key not in self._known:
            try:
                entries = reference(self.spec, self.names, values)
            except ValueError as error:
                if values is None or not self.classroom.salt:
                    raise
                raise ValueError(f"the numbers of student {student!r} do not work: {error}") from None
            for case, entry in zip(self.spec.cases, entries, strict=True):
                entry["public"] = case.public
            self._known[key] = entries
        return self._known[key]


def in_turn(entries: list[dict]) -> list[dict]:
    """The cases in the order of asking: hidden ones last, so that no public answer can tell of them."""
    return sorted(entries, key=lambda entry: not entry["public"])


def _turned_back(outcome: Outcome, entries: list[dict]) -> Outcome:
    """What was seen, in the order of the cases."""
    order = sorted(range(len(entries)), key=lambda i: not entries[i]["public"])
    seen = dict(zip(order, outcome.seen, strict=True))
    return Outcome([seen[i] for i in range(len(entries))], outcome.notes, outcome.seconds)


def _name(file: Found) -> str:
    return file.inside or file.path.name


# -- what is known from an earlier run ---------------------------------------------------------------


def _fingerprint(job: Job) -> str:
    code = [inspect.getsource(module) for module in (runner, run_cells, compare)]
    asked = [job.ending, job.exprs, [float(value) for value in asdict(job.limits).values()], job.unsafe, __version__, code]
    return hashlib.sha256(json.dumps(asked).encode() + job.data).hexdigest()


def _known(path: Path, print_: str) -> Outcome | None:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Outcome(**kept["outcome"]) if kept["fingerprint"] == print_ else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def forget(out: Path) -> None:
    """Forget what submissions answered, so that all of them run again."""
    shutil.rmtree(out / ".graded", ignore_errors=True)


def _moved(path: Path, results: list[reports.Result]) -> list[str]:
    """One sentence for each student whose points differ from those in the last table."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            before = {row["student"]: row for row in csv.DictReader(file)}
    except (OSError, ValueError, LookupError):
        return []
    moved = []
    for result in results:
        old, new = before.get(reports.safe(result.student.id)), result.row()
        if old and old.get("total") != new["total"]:
            where = [q for q in result.questions if old.get(q) != new[q]]
            moved.append(f"{result.student.id}: {old.get('total')} -> {new['total']} ({', '.join(where)})")
    return moved


def _refuse_to_show(**places: Path | None) -> None:
    """Raises ValueError when a submission could read one of the teacher's places."""
    for what, place in places.items():
        for seen in sandbox.shown():
            if place is not None and Path(os.path.realpath(place)).is_relative_to(os.path.realpath(seen)):
                raise ValueError(f"{what} {place} lies in {seen}, which every submission can read; move it elsewhere")
