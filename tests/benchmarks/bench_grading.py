"""How fast and how large grading is: run as a script, prints a table.

Two hundred right notebooks of exercise 01 are graded with two jobs. Then nbgrader, installed into an environment
of its own, autogrades an equal assignment (the same cells, the same cases as assertions) and `qlab grade` a class
of the same size, in turns on the same machine, one submission at a time. Exits with 1 when grading takes more than
120 s, the grader more than 500 MB, or a submission more than a third of nbgrader's time.

    python tests/benchmarks/bench_grading.py [--nbgrader PYTHON]    an environment that has nbgrader already
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import submissions  # noqa: E402

CLASS, TURN, TURNS = 200, 4, 3
MOST_SECONDS, MOST_MB, LEAST_RATIO = 120, 500, 3


def timed(command: list, folder: Path | None = None) -> tuple[float, float]:
    """Seconds of the clock, and MB of the largest process; CPU seconds in a sandbox are nobody's child's."""
    begun = time.perf_counter()
    # nbgrader calls a script of its environment by name.
    path = {"PATH": os.pathsep.join([str(Path(command[0]).parent), os.environ["PATH"]])}
    environment = {**os.environ, **path}
    run = subprocess.Popen(
        [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder, env=environment
    )
    said = run.stdout.read().decode(errors="replace")
    _, status, usage = os.wait4(run.pid, 0)
    if status:
        raise SystemExit(f"{command[:4]} failed:\n{said[-3000:]}")
    return time.perf_counter() - begun, usage.ru_maxrss / 1024


def grade(place: Path, out: Path, jobs: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "labsupport.cli", "grade", submissions.STEM, place, "--out", out]
    took = timed([*command, "--jobs", jobs], submissions.ROOT)
    with open(out / "grades.csv", encoding="utf-8", newline="") as file:
        marks = [row["total"] for row in csv.DictReader(file)]
    assert marks and set(marks) == {"17"}, marks
    return took


def hand_in(folder: Path, n: int) -> Path:
    folder.mkdir()
    for i in range(n):
        (folder / f"s{i:03d}.ipynb").write_text(submissions.notebook(submissions.RIGHT), encoding="utf-8")
    return folder


def assignment() -> str:
    """Exercise 01 for nbgrader: its cells, and its cases as assertions."""
    public = json.loads((submissions.ROOT / "exercises" / f"{submissions.STEM}.json").read_text(encoding="utf-8"))

    def cell(i: int, source: str, **flags) -> dict:
        kind = {"grade": False, "solution": False, "locked": False, "task": False, **flags}
        metadata = {"nbgrader": {"grade_id": f"cell-{i}", "schema_version": 3, "cell_type": "code", **kind}}
        made = {"cell_type": "code", "metadata": metadata, "source": source, "outputs": []}
        return {**made, "execution_count": None, "id": f"cell-{i}"}

    code = [source for source in submissions.RIGHT if not source.startswith("check(")]
    code[0] = "import numpy as np"
    cells = [cell(i, source, solution=True) for i, source in enumerate(code)]
    for i, case in enumerate(public["cases"]):
        right = repr(case["value"])
        test = f"got = {case['expr']}\nassert " + (
            f"got == {right}" if isinstance(case["value"], str) else f"np.isclose(got, {right}, rtol=1e-6)"
        )
        cells.append(cell(100 + i, test, grade=True, locked=True, points=case["points"]))
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


def install(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    timed([python, "-m", "pip", "install", "-q", "nbgrader", "numpy>=2"])
    return python


class Nbgrader:
    """A course of nbgrader with one assignment."""

    def __init__(self, python: Path, folder: Path):
        self.python, self.folder = python, folder
        source = folder / "source" / "ex" / f"{submissions.STEM}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_text(assignment(), encoding="utf-8")
        (folder / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'course'\n")
        self.call("generate_assignment", "ex", "--force")

    def call(self, *arguments) -> tuple[float, float]:
        return timed([self.python, "-m", "nbgrader", *arguments], self.folder)

    def grade(self, n: int, turn: int) -> float:
        for i in range(n):
            to = self.folder / "submitted" / f"t{turn}s{i}" / "ex" / f"{submissions.STEM}.ipynb"
            to.parent.mkdir(parents=True)
            to.write_text(assignment(), encoding="utf-8")
        took, _ = self.call("autograde", "ex", "--CourseDirectory.student_id", f"t{turn}s*")
        assert len(list((self.folder / "autograded").glob(f"t{turn}s*"))) == n
        return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nbgrader", type=Path, metavar="PYTHON", help="an environment that has nbgrader already")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        base = Path(base)
        seconds, megabytes = grade(hand_in(base / "class", CLASS), base / "out", 2)
        print(f"{CLASS} submissions, 2 jobs: {seconds:.1f} s (at most {MOST_SECONDS})", flush=True)
        print(f"largest process of the grader: {megabytes:.0f} MB (at most {MOST_MB})", flush=True)
        nbgrader = Nbgrader(args.nbgrader or install(base / "venv"), base / "course")
        ours, theirs = [], []
        for turn in range(TURNS):
            theirs.append(nbgrader.grade(TURN, turn) / TURN)
            ours.append(grade(hand_in(base / f"turn{turn}", TURN), base / f"out{turn}", 1)[0] / TURN)
        ratio = min(theirs) / min(ours)
        print(f"per submission, {TURN} at a time, best of {TURNS}: nbgrader {min(theirs):.2f} s, qlab {min(ours):.2f} s")
        print(f"ratio {ratio:.1f} (at least {LEAST_RATIO})")
    return int(seconds > MOST_SECONDS or megabytes > MOST_MB or ratio < LEAST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
