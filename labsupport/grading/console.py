"""What `qlab grade`, `qlab release` and `qlab feedback` say on the terminal."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from labsupport import course

from . import feedback as feedbacks
from . import grade as grading
from . import release as releasing
from .classroom import Classroom
from .sandbox import UNSAFE, Limits


def grade(args: argparse.Namespace) -> int:
    """Grade with the options of `qlab grade`; 0 when every submission has its marks."""
    out = Path(args.out)
    solutions = _solutions(args)
    if args.jobs < 1:
        raise ValueError(f"--jobs {args.jobs} grades nothing; give 1 or more")
    if args.fresh:
        grading.forget(out)
    if args.unsafe_no_sandbox:
        print(UNSAFE, file=sys.stderr)
    bar = _Bar()
    with _executor(args.dask) as (executor, workers):
        try:
            done = grading.grade(
                _stem(args.lesson, solutions),
                Path(args.submissions),
                out,
                solutions=solutions,
                private=Path(args.private) if args.private else None,
                roster=Path(args.roster) if args.roster else None,
                due=args.due.replace(tzinfo=None) if args.due else None,
                limits=Limits(cell_s=args.cell_seconds, total_s=args.seconds, memory_gb=args.memory),
                unsafe=args.unsafe_no_sandbox,
                jobs=workers or args.jobs,
                executor=executor,
                progress=bar.show,
            )
        except KeyboardInterrupt:
            bar.clear()
            print("Stopped. What has run is kept; the same command goes on from here.", file=sys.stderr)
            raise
        finally:
            bar.clear()
    _summary(done, out)
    return 1 if done.failed else 0


def release(args: argparse.Namespace) -> int:
    """Hand out with the options of `qlab release`."""
    solutions = _solutions(args)
    classroom = _classroom(args)
    out = Path(args.out)
    if classroom.students and not classroom.salt and not args.same_numbers:
        classroom = classroom.with_salt()
        print(f"Made {classroom.folder / 'salt'}: keep it, the grading needs it for the same numbers.")
    if args.same_numbers:
        classroom = dataclasses.replace(classroom, salt="")
    files = releasing.release(_stem(args.lesson, solutions), solutions, classroom, out)
    print(f"{len(files)} files: {out}")
    return 0


def feedback(args: argparse.Namespace) -> int:
    """Lay out the pages with the options of `qlab feedback`."""
    pages = feedbacks.collect(Path(args.graded), Path(args.to))
    print(f"{len(pages)} pages: {args.to}")
    return 0


def _solutions(args: argparse.Namespace) -> Path:
    return Path(args.solutions) if args.solutions else course.root() / "solutions"


def _classroom(args: argparse.Namespace) -> Classroom:
    return Classroom.read(
        Path(args.private) if args.private else None, Path(args.roster) if args.roster else None
    )


def _summary(done: grading.Grading, out: Path) -> None:
    enrolled = [result for result in done.results if result.submission.enrolled]
    others = len(done.results) - len(enrolled)
    kept = len(done.results) - done.ran
    print(f"{len(done.results)} graded{f' ({kept} without running again)' if kept else ''}: {out / 'grades.csv'}")
    if others:
        print(f"{others} not on the roster: {out / 'not-on-roster.csv'}")
    for sentence in done.moved:
        print(f"moved: {sentence}")
    for student, reason in done.failed.items():
        print(f"not graded: {student}: {reason}", file=sys.stderr)


def _stem(lesson: str, solutions: Path) -> str:
    """The exercise meant by `1`, `01`, `little` or `01_little`, among the solutions there are."""
    stems = sorted(path.stem for path in solutions.glob("*.toml"))
    for stem in stems:
        number, _, title = stem.partition("_")
        if lesson in (stem, title) or (lesson.isdigit() and number.isdigit() and int(lesson) == int(number)):
            return stem
    raise ValueError(
        f"there is no solution of exercise {lesson!r} in {solutions}; choose one of {', '.join(stems) or 'none'}, "
        "or name another folder: --solutions"
    )


@contextmanager
def _executor(address: str | None):
    """The executor of a Dask cluster, and how many submissions it runs at once; nothing without an address."""
    if address is None:
        yield None, None
        return
    try:
        from dask.distributed import Client
    except ImportError:
        raise ValueError('--dask needs Dask; install it with: pip install "queueing-lab[cluster]"') from None
    with Client(address, set_as_default=False) as client:
        yield client.get_executor(), max(1, sum(client.nthreads().values()))


class _Bar:
    """How far it is and how long it still takes, on a terminal."""

    def __init__(self):
        self.begun = time.monotonic()
        self.first: int | None = None

    def show(self, done: int, total: int) -> None:
        if not sys.stderr.isatty():
            return
        self.first = done if self.first is None else self.first
        ran, took = done - self.first, time.monotonic() - self.begun
        left = f", {_minutes(took / ran * (total - done))} left" if ran else ""
        filled = round(30 * done / max(total, 1))
        sys.stderr.write(f"\r\x1b[K[{'#' * filled:<30}] {done} of {total}{left}")
        sys.stderr.flush()

    def clear(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _minutes(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"
