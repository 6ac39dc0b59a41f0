"""Grading: every kind of submission comes out right, hurts nobody, and every report can be trusted."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from pathlib import Path

import jsonschema
import jupytext
import pytest
import submissions as handed_in
from submissions import FULL, HIDDEN, HONEST, HONEST_POINTS, PEAK, RIGHT, STEM, WRONG, Case, notebook, right

from labsupport.grading import cases, classroom, reports, sandbox
from labsupport.grading.grade import Expected, grade
from labsupport.grading.release import release
from labsupport.grading.sandbox import UNSAFE, Job, Limits, Outcome
from labsupport.grading.submissions import Found, Submission, collect
from labsupport.lab import compare
from labsupport.lab.run_cells import read_cells

ROOT = Path(__file__).resolve().parent.parent
SOLUTIONS = ROOT / "solutions"
STEMS = sorted(path.stem for path in SOLUTIONS.glob("*.toml"))
LIMITS = Limits(cell_s=3.0, total_s=60.0, memory_gb=1.0)
OPTIONS = ["--cell-seconds", "3", "--seconds", "60", "--memory", "1", "--jobs", "4"]
TABLE = handed_in.cases(Path("/nowhere"), 1)
FOLDERS = ["misnamed", "twice", "exchange", "linked", "linked-folder", "pipe"]
FOLDERS += ["zip-good", "zip-out", "zip-root", "zip-link", "zip-broken"]

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the sandbox needs Linux")


@pytest.fixture(scope="session")
def sandboxed():
    """Skips, or fails in CI, where there is no sandbox to test."""
    if (reason := sandbox.refusal()) is not None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


def qlab(*arguments, **more) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "labsupport.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, **more)


def rows(path: Path) -> dict[str, dict]:
    with open(path, encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def without_time(folder: Path) -> dict[str, str]:
    """All reports in a folder, without how long anything took."""
    files = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file()}
    return {name: re.sub(r'"execution_time": [\d.]+', "", text) for name, text in files.items()}


# -- all kinds of submissions in one run -------------------------------------------------------------


class Run:
    """One grading of everything in tests/submissions.py, hostile ones beside honest ones."""

    def __init__(self, base: Path, table, honest: list[str], *options: str):
        self.marker = base / f"marker-{os.getpid()}"
        with socket.create_server(("127.0.0.1", 0)) as server:
            table = table(handed_in.cases(self.marker, server.getsockname()[1]))
            self.expected = handed_in.write(base / "in", table, honest)
            private = base / "private"
            private.mkdir()
            (private / f"{STEM}.toml").write_text(handed_in.PRIVATE_CASES, encoding="utf-8")
            roster = ["id,name", *(f'"{id}",Student' for id in self.expected if id != "kernel"), "absent,Nobody"]
            (private / "roster.csv").write_text("\n".join(roster), encoding="utf-8")
            self.before = self.snapshot(base)
            self.out = base / "out"
            self.done = qlab(
                "grade", STEM, base / "in", "--private", private, "--out", self.out, *OPTIONS, *options,
                env={**os.environ, "SECRET_OF_THE_TEACHER": "1234"},
            )
            self.after = self.snapshot(base)
            server.setblocking(False)
            try:
                server.accept()
                self.called = True
            except BlockingIOError:
                self.called = False
        assert self.done.returncode == 0, self.done
        self.rows = rows(self.out / "grades.csv")

    @staticmethod
    def snapshot(base: Path) -> dict[str, bytes]:
        """Everything beside the submissions and in the course that a hostile one could reach for."""
        files = [*(base / "in").rglob("*"), *(base / "private").rglob("*"), *(ROOT / "labsupport/lab").glob("*.py")]
        files += [*SOLUTIONS.glob(f"{STEM}.*"), *(ROOT / "exercises").glob(f"{STEM}.*")]
        return {str(path): path.read_bytes() for path in files if path.is_file() and path.name != "pipe.ipynb"}


@pytest.fixture(scope="session")
def graded(sandboxed, tmp_path_factory):
    return Run(tmp_path_factory.mktemp("graded"), lambda table: table, list(HONEST))


@linux
@pytest.mark.parametrize("id", [*TABLE, *HONEST, *FOLDERS])
def test_submission_comes_out_right(graded, id):
    case = graded.expected[id]
    row = rows(graded.out / "not-on-roster.csv")[id] if id == "kernel" else graded.rows[id]
    assert float(row["total"]) == case.points, row["notes"]
    assert case.says in row["notes"]
    assert row["of"] == str(FULL)


@linux
def test_every_case_of_the_table_is_there(graded):
    assert graded.expected.keys() == {*TABLE, *HONEST, *FOLDERS}


@linux
def test_questions_of_a_spoilt_cell_are_the_only_ones_lost(graded):
    for id in ("endless", "swallows", "os-exit", "segfault", "syntax", "kills-itself"):
        lost = {q for q, most in graded.rows["right"].items() if graded.rows[id][q] != most}
        assert lost - {"student", "total", "notes"} == {"peak"}
        assert "Code cell 10" in graded.rows[id]["notes"]


@linux
def test_nothing_outside_changes(graded):
    assert graded.before == graded.after
    assert not graded.marker.exists()
    assert not graded.called, "a submission reached a server of this machine"
    left = [path for path in Path("/home").rglob("left-behind")] + list(Path("/tmp").glob("left-behind"))
    assert left == []


@linux
def test_no_process_is_left(graded):
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in lines if graded.marker.name.encode() in line]


@linux
def test_memory_of_all_processes_together_is_limited(sandboxed):
    """Each of eight stays below the limit."""
    cells = right(extra=handed_in.MEMORY.replace("300_000_000", "100_000_000"))
    job = Job(".ipynb", notebook(cells).encode(), ("reports",), Limits(cell_s=60.0, memory_gb=0.6))
    outcome = sandbox.run(job)
    assert outcome.seen == [{"value": "bc"}]
    assert "it used more than 0.6 GB of memory" in outcome.notes[0]


@linux
def test_hidden_cases_are_found_nowhere(graded):
    kept = json.loads((graded.out / ".graded" / "searcher.json").read_text(encoding="utf-8"))
    spec = cases.extended(cases.read(SOLUTIONS / f"{STEM}.toml"), graded.out.parent / "private" / f"{STEM}.toml")
    order = sorted(spec.cases, key=lambda case: not case.public)
    at = next(i for i, case in enumerate(order) if case.expr == "reports")
    assert kept["outcome"]["seen"][at] == {"value": ""}


@linux
def test_hidden_cases_are_shown_nowhere(graded):
    """Not even by a submission that remembers what it was asked."""
    pages = list(graded.out.glob("*.html")) + list(graded.out.glob("*.json")) + list(graded.out.glob("*.csv"))
    assert len(pages) > 2 * len(graded.rows)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for secret in (HIDDEN, "371", "reports.upper()", "time_in_system(160, 20)"):
            assert secret not in text, f"{secret} in {page.name}"
    assert "asked so far" in (graded.out / "remembers.html").read_text(encoding="utf-8")


@linux
def test_who_handed_in_nothing_and_who_is_not_on_the_roster(graded):
    assert graded.rows["absent"]["total"] == "0"
    assert graded.rows["absent"]["notes"] == "Nothing was handed in."
    assert "kernel" not in graded.rows
    assert "kernel" not in (graded.out / "grades.canvas.csv").read_text(encoding="utf-8")


@linux
def test_what_a_student_wrote_is_escaped(graded):
    page = (graded.out / "markup.html").read_text(encoding="utf-8")
    assert "&lt;img src=x" in page and "&lt;script&gt;" in page
    assert "<script" not in page and "<img" not in page


@linux
def test_results_have_gradescopes_form(graded):
    files = list(graded.out.glob("*.results.json"))
    assert len(files) == len(graded.rows) + 1
    for file in files:
        result = json.loads(file.read_text(encoding="utf-8"))
        jsonschema.validate(result, GRADESCOPE)
        assert result["score"] == sum(test["score"] for test in result["tests"])


# As "Autograder Specifications" of Gradescope's documentation lists the keys of results.json.
_VISIBILITY = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
_FORMAT = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
GRADESCOPE = {
    "type": "object",
    "additionalProperties": False,
    "anyOf": [{"required": ["score"]}, {"required": ["tests"]}],
    "properties": {
        "score": {"type": "number"},
        "execution_time": {"type": "number"},
        "output": {"type": "string"},
        "output_format": _FORMAT,
        "test_output_format": _FORMAT,
        "test_name_format": _FORMAT,
        "visibility": _VISIBILITY,
        "stdout_visibility": _VISIBILITY,
        "extra_data": {"type": "object"},
        "leaderboard": {"type": "array"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "score": {"type": "number"},
                    "max_score": {"type": "number"},
                    "status": {"enum": ["passed", "failed"]},
                    "name": {"type": "string"},
                    "name_format": _FORMAT,
                    "number": {"type": "string"},
                    "output": {"type": "string"},
                    "output_format": _FORMAT,
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "visibility": _VISIBILITY,
                    "extra_data": {"type": "object"},
                },
            },
        },
    },
}


def peak_memory_kb(pid: int) -> int:
    """Largest resident memory so far; what getrusage says counts the process that this one was forked from."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return int(found[1]) if (found := re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)) else 0


@linux
@pytest.mark.skipif(os.environ.get("CI") != "true", reason="takes a minute, so it runs in CI only (CI=true)")
def test_two_hundred_submissions_in_two_minutes(sandboxed, tmp_path):
    place = hand_in(tmp_path / "in", 200)
    command = [sys.executable, "-m", "labsupport.cli", "grade", STEM, place, "--out", tmp_path / "out", "--jobs", "2"]
    begun = time.monotonic()
    run, largest = subprocess.Popen(command, cwd=ROOT), 0
    while run.poll() is None:
        largest = max(largest, peak_memory_kb(run.pid))
        time.sleep(0.02)
    assert run.returncode == 0 and time.monotonic() - begun < 120
    assert 0 < largest < 500 * 1024, "kB of the grader itself"
    marks = {row["student"]: row["total"] for row in rows(tmp_path / "out" / "grades.csv").values()}
    assert marks == {f"s{i:02d}": "17" if i % 3 else "15" for i in range(200)}


# -- without a sandbox -------------------------------------------------------------------------------


def attacks(table: dict[str, Case]) -> dict[str, Case]:
    """What can run on a machine that has to go on; the others take memory, processes or files without end."""
    formats = ("format", "bom", "crlf", "latin", "学", "two words", "same-ids", "kernel", "twice", "disorder")
    return {id: case for id, case in table.items() if case.unsafe and not id.startswith(formats)}


@pytest.fixture(scope="session")
def unsafe(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("unsafe"), attacks, ["h00", "h01"], "--unsafe-no-sandbox")


@linux
def test_the_same_marks_without_a_sandbox(unsafe):
    assert len(unsafe.rows) > 30
    for id, row in unsafe.rows.items():
        points = unsafe.expected[id].points if id != "absent" else 0
        assert float(row["total"]) == points, row


@linux
def test_every_report_says_that_there_was_no_sandbox(unsafe):
    assert UNSAFE in unsafe.done.stderr
    for id, row in unsafe.rows.items():
        assert row["notes"].startswith(UNSAFE)
        name = reports.file_names([id])[id]
        assert UNSAFE in (unsafe.out / f"{name}.html").read_text(encoding="utf-8").replace("&#x27;", "'")
        assert UNSAFE in json.loads((unsafe.out / f"{name}.results.json").read_text("utf-8"))["output"]


def test_without_a_sandbox_it_works_on_every_system(tmp_path):
    """Where no limit holds, a submission may still stop or end Python without harm to the others."""
    (tmp_path / "in").mkdir()
    for id in ("right", "wrong", "sys-exit", "os-exit", "syntax", "corrupt"):
        data = TABLE[id].content.encode()
        (tmp_path / "in" / f"{id}.ipynb").write_bytes(data)
    done = grade(STEM, tmp_path / "in", tmp_path / "out", unsafe=True, jobs=2)
    assert done.failed == {}
    marks = {result.student.id: result.points() for result in done.results}
    lost = FULL - 17  # the two points of cases in a teacher's folder
    assert marks == {id: max(0, TABLE[id].points - lost) for id in marks}


def test_no_sandbox_is_never_silent(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "s1.ipynb").write_text(notebook(RIGHT), encoding="utf-8")
    done = qlab("grade", STEM, tmp_path / "in", "--out", tmp_path / "out", env={**os.environ, "PATH": "/nowhere"})
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "--unsafe-no-sandbox" in done.stderr
    assert not (tmp_path / "out").exists()


# -- going on, and regrading -------------------------------------------------------------------------


def hand_in(folder: Path, n: int) -> Path:
    folder.mkdir()
    for i in range(n):
        cells = right(peak=None if i % 3 else "def peak_in_system(*a): return 1")
        (folder / f"s{i:02d}.ipynb").write_text(notebook(cells), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def undisturbed(sandboxed, tmp_path_factory):
    base = tmp_path_factory.mktemp("undisturbed")
    grade(STEM, hand_in(base / "in", 10), base / "out", limits=LIMITS, jobs=2)
    return base


@linux
@pytest.mark.parametrize("number", [2, 9], ids=["ctrl-c", "kill"])
def test_an_interrupted_run_goes_on(undisturbed, tmp_path, number):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "labsupport.cli", "grade", STEM, undisturbed / "in", "--out", out]
    command += ["--cell-seconds", "3", "--seconds", "60", "--memory", "1", "--jobs", "1"]
    run = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    kept: list[Path] = []
    deadline = time.monotonic() + 120
    while len(kept) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
        kept = list((out / ".graded").glob("*.json"))
    run.send_signal(number)
    said = run.communicate(timeout=60)[1]
    assert run.returncode == (130 if number == 2 else -9)
    assert number == 9 or said == "Stopped. What has run is kept; the same command goes on from here.\n"
    kept = list((out / ".graded").glob("*.json"))
    assert 3 <= len(kept) < 10 and not (out / "grades.csv").exists()
    times = {path: path.stat().st_mtime_ns for path in kept}
    done = grade(STEM, undisturbed / "in", out, limits=LIMITS, jobs=2)
    assert done.ran == 10 - len(kept)
    assert {path: path.stat().st_mtime_ns for path in kept} == times
    assert without_time(out) == without_time(undisturbed / "out")


@pytest.fixture
def solutions(tmp_path):
    """A copy of the solutions, to change."""
    folder = tmp_path / "solutions"
    folder.mkdir()
    for suffix in (".py", ".toml"):
        shutil.copy(SOLUTIONS / f"{STEM}{suffix}", folder)
    return folder


@linux
def test_a_corrected_case_is_compared_again_and_run_only_where_it_is_new(sandboxed, tmp_path, solutions):
    place, out = hand_in(tmp_path / "in", 3), tmp_path / "out"
    first = grade(STEM, place, out, solutions=solutions, limits=LIMITS)
    assert first.ran == 3 and first.moved == []
    file = solutions / f"{STEM}.toml"
    text = file.read_text(encoding="utf-8")
    one = 'expr = "peak_in_system(np.array([0.0, 0.1, 0.2, 0.9]), np.array([0.15, 0.25, 0.95, 1.2]))"\n'
    assert one in text
    file.write_text(text.replace(one + "points = 1", one + "within = [1, 2]\npoints = 3"), encoding="utf-8")
    second = grade(STEM, place, out, solutions=solutions, limits=LIMITS)
    assert second.ran == 0, "the same questions have the same answers"
    # s00 answers 1 everywhere, which was right in one of three cases and is now right in two.
    assert second.moved == ["s00: 15 -> 18 (peak)", "s01: 17 -> 19 (peak)", "s02: 17 -> 19 (peak)"]
    (place / "s01.ipynb").write_text(notebook(WRONG), encoding="utf-8")
    third = grade(STEM, place, out, solutions=solutions, limits=LIMITS)
    assert third.ran == 1 and third.moved[0].startswith("s01: 19 -> 0")
    file.write_text(text.replace("busy_clients(12.65, 0.209)", "busy_clients(12.65, 0.4)"), encoding="utf-8")
    assert grade(STEM, place, out, solutions=solutions, limits=LIMITS).ran == 3


@linux
def test_any_executor_gives_the_same_files(undisturbed, tmp_path):
    with ProcessPoolExecutor(2) as executor:
        grade(STEM, undisturbed / "in", tmp_path / "out", limits=LIMITS, jobs=2, executor=executor)
    assert without_time(tmp_path / "out") == without_time(undisturbed / "out")


@linux
def test_a_dask_cluster_gives_the_same_files(undisturbed, tmp_path):
    if importlib.util.find_spec("distributed") is None:
        pytest.skip('Dask is not installed; pip install "queueing-lab[cluster]"')
    from dask.distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        done = qlab(
            "grade", STEM, undisturbed / "in", "--out", tmp_path / "out", "--dask", address, *OPTIONS[:-2]
        )
    assert done.returncode == 0, done.stderr
    assert without_time(tmp_path / "out") == without_time(undisturbed / "out")


@linux
def test_what_the_machine_does_is_no_students_zero(undisturbed, tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "command", lambda: [sys.executable, "-c", "raise SystemExit(3)"])
    done = grade(STEM, undisturbed / "in", tmp_path / "out", limits=LIMITS)
    assert done.results == [] and len(done.failed) == 10
    assert "exit status 3" in done.failed["s00"]
    assert list((tmp_path / "out").glob("s*")) == []


# -- what comes out of the sandbox is not believed ----------------------------------------------------


@pytest.mark.parametrize(
    "seen",
    [
        None, 1, [], {}, {"passed": True}, {"value": 1, "points": 3}, {"raised": "ValueError"}, {"raised": []},
        {"raised": [1]}, {"missing": 3}, {"blank": "yes"}, {"value": [0] * 200_000}, {"value": "x" * 30_000},
        {"value": json.loads("[" * 100 + "]" * 100)},
    ],
    ids=lambda seen: str(seen)[:30],
)  # fmt: skip
def test_an_answer_of_another_form_is_refused(seen):
    with pytest.raises(sandbox._Forged):
        sandbox.checked(seen)


def test_text_from_a_student_is_one_line_without_control_characters():
    assert sandbox.clean("a\x00b\x1b[31m\n\u202ec" + "x" * 9999) == ("a b [31m c" + "x" * 9999)[:1000]


# -- the exercises of the course ---------------------------------------------------------------------


@pytest.fixture(scope="session")
def expected():
    known = {}

    def of(stem: str) -> Expected:
        if stem not in known:
            known[stem] = Expected(stem, SOLUTIONS, classroom.Classroom())
        return known[stem]

    return of


def result_of(expected: Expected, outcome: Outcome) -> reports.Result:
    return reports.Result(Submission(classroom.Student("s")), expected.spec, expected.of(None), outcome)


@linux
@pytest.mark.parametrize("room, share", [("solutions", 1), ("exercises", 0)])
@pytest.mark.parametrize("stem", STEMS)
def test_solutions_earn_all_and_blanks_nothing(sandboxed, expected, stem, room, share):
    data = (ROOT / room / f"{stem}.py").read_bytes()
    exprs = tuple(entry["expr"] for entry in expected(stem).of(None))
    outcome = sandbox.run(Job(".py", data, exprs, Limits(memory_gb=3)))
    assert outcome.notes == []
    result = result_of(expected(stem), outcome)
    assert result.points() == share * result.most() and result.most() > 0


@pytest.mark.parametrize("stem", STEMS)
def test_each_named_mistake_loses_its_question_and_is_named(expected, stem):
    right = expected(stem)
    entries = right.of(None)
    answers = [compare.observe(entry["expr"], right.names) for entry in entries]
    count = 0
    for known in right.spec.mistakes:
        kept = dict(right.names)
        exec(compile(known.code, "<mistake>", "exec"), right.names)
        seen = [compare.observe(entry["expr"], right.names) if entry["q"] == known.q else answer
                for entry, answer in zip(entries, answers, strict=True)]  # fmt: skip
        right.names.clear()
        right.names.update(kept)
        check_loses(result_of(right, Outcome(seen)), known.q, cases.fill(known.say, cases.parameters(right.spec)))
        count += 1
    for i, entry in enumerate(entries):
        for wrong in entry["mistakes"]:
            seen = list(answers)
            seen[i] = {"value": wrong["value"]} if "value" in wrong else {**RAISED, "raised": [wrong["raises"]]}
            check_loses(result_of(right, Outcome(seen)), entry["q"], wrong["say"] if entry["public"] else "")
            count += 1
    assert count >= len(right.spec.questions) / 2


RAISED = {"message": "", "line": None, "code": ""}


def check_loses(result: reports.Result, question: str, say: str) -> None:
    lost = [q for q in result.questions if result.points(q) < result.most(q)]
    assert lost == [question]
    assert say in "\n".join(json.loads(reports.gradescope(result))["tests"][i].get("output", "")
                            for i in range(len(result.entries)))  # fmt: skip


@pytest.mark.parametrize("path", sorted([*SOLUTIONS.glob("*.py"), *ROOT.glob("notebooks/*.py")]), ids=lambda p: p.name)
def test_cells_of_a_py_file_are_those_that_jupytext_reads(path):
    cells = [cell.source.rstrip() for cell in jupytext.read(path).cells if cell.cell_type == "code"]
    assert [cell.rstrip() for cell in read_cells(path)] == cells


# -- personal numbers, hand-outs and feedback ---------------------------------------------------------


@pytest.fixture
def private(tmp_path):
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "roster.csv").write_text("id,name\nada,Ada\nbob,Bob\n", encoding="utf-8")
    return folder


@linux
def test_from_hand_out_to_marks(sandboxed, private, tmp_path):
    """Each student's own check and the grading agree; another's numbers earn nothing."""
    done = qlab("release", STEM, tmp_path / "out", "--private", private)
    assert done.returncode == 0 and "salt" in done.stdout
    assert (private / "salt").stat().st_mode & 0o077 == 0
    cases_of = {}
    for id in ("ada", "bob"):
        own = json.loads((tmp_path / "out" / id / f"{STEM}.json").read_text(encoding="utf-8"))["cases"]
        cases_of[id] = next(case for case in own if case["q"] == "queue_and_prefill")
        text = (tmp_path / "out" / id / f"{STEM}.ipynb").read_text(encoding="utf-8")
        assert f"Numbers for {id}" in text and "SOLUTION" not in text
    assert cases_of["ada"]["expr"] != cases_of["bob"]["expr"]
    by_heart = f"def queue_and_prefill(*a): return {cases_of['ada']['value']!r}"
    for id in ("ada", "bob"):
        path = tmp_path / "out" / id / f"{STEM}.ipynb"
        path.write_text(notebook([*RIGHT, by_heart]), encoding="utf-8")
    checked = qlab("check", tmp_path / "out" / "ada" / f"{STEM}.ipynb")
    assert f"queue_and_prefill ✓ {cases_of['ada']['expr']}" in checked.stdout
    done = qlab(
        "grade", STEM, tmp_path / "out", "--private", private, "--out", tmp_path / "marks",
        "--due", "2020-01-01", *OPTIONS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    marks = rows(tmp_path / "marks" / "grades.csv")
    assert [marks[id]["queue_and_prefill"] for id in ("ada", "bob")] == ["2", "0"]
    assert [marks[id]["time_in_system"] for id in ("ada", "bob")] == ["2", "2"]
    assert int(marks["ada"]["late days"]) > 365
    done = qlab("feedback", tmp_path / "marks", tmp_path / "back.zip")
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "back.zip") as archive:
        assert sorted(archive.namelist()) == [f"ada/{STEM}.html", f"bob/{STEM}.html"]


def test_a_hand_out_holds_nothing_else(tmp_path):
    made = release(STEM, SOLUTIONS, classroom.Classroom(), tmp_path / "all.zip")
    again = release(STEM, SOLUTIONS, classroom.Classroom(), tmp_path / "again.zip")
    assert made == again == [f"{STEM}.ipynb", f"{STEM}.json"]
    assert (tmp_path / "all.zip").read_bytes() == (tmp_path / "again.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        text, public = (archive.read(name).decode() for name in made)
    assert public == (ROOT / "exercises" / f"{STEM}.json").read_text(encoding="utf-8")
    assert "SOLUTION" not in text and "in_system / throughput" not in text
    assert "time_in_system(160, 20)" not in text + public, "a hidden case"
    assert "](.." not in text, "a link that leads nowhere"


@pytest.mark.parametrize("exists", ["folder", "file.zip"])
def test_a_hand_out_replaces_nothing(tmp_path, exists):
    (tmp_path / exists).mkdir()
    with pytest.raises(ValueError, match="exists already"):
        release(STEM, SOLUTIONS, classroom.Classroom(), tmp_path / exists)


# -- who handed in what ------------------------------------------------------------------------------

CANVAS = "Student,ID,SIS User ID,SIS Login ID,Section\n    Points Possible,,,,\n\"Li, Ada\",4711,,ali,A\n"
MOODLE = "First name,Last name,ID number,Email address\nAda,Li,,ada@uni.example\n"
GRADESCOPE_LIST = """---
submission_90210:
  :submitters:
  - :name: Ada Li
    :sid: ''
    :email: ada@uni.example
  :created_at: 2025-03-01
"""


@pytest.mark.parametrize(
    "roster, file, id",
    [
        ("id\nali\n", "ali.ipynb", "ali"),
        ("id\nali\n", "ALI_01_little.ipynb", "ali"),
        ("id\nali\nali_b\n", "ali_b_01_little.ipynb", "ali_b"),
        ("id\nali\n", "ali/whatever.ipynb", "ali"),
        ("id\nali\n", "ali/01_little/01_little.ipynb", "ali"),
        ("id\nali\n", "submitted/ali/01_little/01_little.ipynb", "ali"),
        (CANVAS, "liada_4711_90210_01_little-1.ipynb", "ali"),
        (CANVAS, "liada_LATE_4711_90210_01_little.ipynb", "ali"),
        (MOODLE, "Ada Li_123_assignsubmission_file_/01_little.ipynb", "ada@uni.example"),
        (MOODLE, "export/submission_90210/01_little.ipynb", "ada@uni.example"),
        ("", "ali_01_little.ipynb", "ali"),
        ("", "ali/01_little/01_little.ipynb", "ali"),
        ("", "01_little.ipynb", "01_little"),
    ],
)
def test_submissions_are_found_as_they_come(tmp_path, roster, file, id):
    path = tmp_path / "in" / file
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    if "submission_" in file and "export" in file:
        (tmp_path / "in" / "export" / "submission_metadata.yml").write_text(GRADESCOPE_LIST)
    students = ()
    if roster:
        (tmp_path / "roster.csv").write_text(roster, encoding="utf-8")
        students = tuple(classroom.read_roster(tmp_path / "roster.csv"))
    found = collect(tmp_path / "in", STEM, STEMS, students)
    assert [(s.student.id, s.enrolled) for s in found if s.file] == [(id, True)]


@pytest.mark.parametrize("text, reason", [
    ("name\nAda\n", "no column `id`"), ("id\n", "no students"), ("id\na\nA\n", "twice"),
    ("id,name\n,Ada\n", "without an id"),
])  # fmt: skip
def test_a_roster_that_makes_no_sense_is_refused(tmp_path, text, reason):
    (tmp_path / "roster.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=reason):
        classroom.read_roster(tmp_path / "roster.csv")


def test_late_days_are_begun_days():
    at = [datetime(2025, 3, 1, 18, 0), datetime(2025, 3, 1, 18, 1), datetime(2025, 3, 3, 18, 0)]
    handed = [Submission(classroom.Student("s"), Found(Path("x"), "x", time)) for time in at]
    assert [one.late_days(datetime(2025, 3, 1, 18, 0)) for one in handed] == [0, 1, 2]


def test_what_submissions_could_read_holds_nothing_of_the_teachers(tmp_path):
    inside = Path(sys.prefix) / "private"
    with pytest.raises(ValueError, match="every submission can read"):
        grade(STEM, inside, tmp_path / "out")


# -- tables ------------------------------------------------------------------------------------------


@pytest.fixture
def odd_names():
    spec = cases.read(SOLUTIONS / f"{STEM}.toml")
    entries = [{"q": case.q, "expr": case.expr, "points": case.points, "public": True, "value": 1} for case in spec.cases]
    seen = [{"value": 1}] * len(entries)
    people = [("s,1", 'O"Hara, "Bo"'), ("=1+1", "=HYPERLINK(1)"), ("学生", "\u674e\n明")]
    people += [("-2", "@SUM(1)"), ("a\tb", "\t=1")]
    return [
        reports.Result(Submission(classroom.Student(id, name, canvas_id="7")), spec, entries, Outcome(seen, ["=no,\r\n te"]))
        for id, name in people
    ]


@pytest.mark.parametrize("write", [reports.canvas, reports.moodle, lambda all: reports.table([one.row() for one in all])])
def test_no_cell_is_a_formula_and_every_row_is_whole(odd_names, write):
    table = list(csv.reader(io.StringIO(write(odd_names), newline="")))
    assert {len(row) for row in table} == {len(table[0])}
    cells = [cell for row in table for cell in row]
    assert not [cell for cell in cells if cell.lstrip()[:1] in ("=", "+", "-", "@")]
    assert not [cell for cell in cells if "\n" in cell or "\t" in cell]
    assert 'O"Hara, "Bo"' in cells or "s,1" in cells


def test_canvas_and_moodle_find_their_columns(odd_names):
    canvas = list(csv.DictReader(io.StringIO(reports.canvas(odd_names))))
    assert list(canvas[0])[:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert canvas[0]["Student"] == "    Points Possible" and canvas[0]["01 Little's law"] == "17"
    assert canvas[1]["SIS Login ID"] == "s,1" and canvas[1]["01 Little's law"] == "17"
    moodle = list(csv.DictReader(io.StringIO(reports.moodle(odd_names))))
    assert list(moodle[0])[:3] == ["ID number", "Email address", "Full name"]


def test_file_names_are_safe_and_different():
    names = reports.file_names(["a/b", "a_b", "A_B", "..", "CON", "学生", "x" * 300, "a b"])
    assert len({name.casefold() for name in names.values()}) == len(names)
    assert all(re.fullmatch(r"[\w ,@+=.-]{1,95}", name) and not name.startswith(".") for name in names.values())
    assert names["学生"] == "学生" and names["a b"] == "a b"


# -- the page ----------------------------------------------------------------------------------------


@linux
@pytest.mark.browser
@pytest.mark.parametrize("id", ["markup", "odd-answers", "right", "endless"])
def test_feedback_fits_a_phone(graded, chromium, id):
    page = chromium.new_page()
    try:
        page.set_viewport_size({"width": 360, "height": 740})
        page.goto((graded.out / f"{id}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.locator("h2").count() == 7
        assert page.locator("script").count() == 0 and page.locator("img").count() == 0
        folder = os.environ.get("QLAB_SCREENSHOTS")
        if folder:
            page.screenshot(path=Path(folder) / f"feedback-{id}.png", full_page=True)
    finally:
        page.close()


def test_honest_points_are_stated():
    assert set(HONEST_POINTS.values()) == {FULL, FULL - PEAK}
