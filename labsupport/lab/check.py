"""`check = exercise("01_little")` and `check("L7")`: instant feedback on the learner's own code.

A check never stops "Run all": whatever the code under it does, it says so in one line. Under QLAB_STRICT=1,
as in the course's own tests, anything that is not passed raises AssertionError instead.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from labsupport import course

from . import compare, progress
from .report import ASIDE, NOT_YET, PASSED, TO_DO, Line, Report
from .words import judge

opened: list[Check] = []  # the checks of this process, for `check_file`
held = False  # whether calls of a check do nothing, because `check_file` asks all questions at the end


def exercise(stem: str) -> Check:
    """The check of one exercise, such as `01_little`; call it with the name of a question."""
    check = Check(stem)
    opened.append(check)
    return check


class Check:
    """Checks the questions of one exercise among the names of whoever calls it."""

    def __init__(self, stem: str):
        self.stem = stem

    def __call__(self, question: str | None = None) -> None:
        """Show one line for each public case of the question (of all questions without a name)."""
        if held:
            return
        report = self.report(question, sys._getframe(1).f_globals)
        report.show()
        if os.environ.get("QLAB_STRICT") == "1" and not report.passed:
            raise AssertionError(str(report))

    def report(self, question: str | None, names: dict) -> Report:
        """What `check(question)` shows for answers that are among `names`; the attempt is recorded."""
        try:
            cases = load(self.stem)["cases"]
            asked = dict.fromkeys(case["q"] for case in cases)
        except (OSError, ValueError, LookupError, TypeError) as error:
            return Report([Line("", ASIDE, advice=f"The cases of {self.stem!r} cannot be read: {error}.")])
        if question is not None and question not in asked:
            advice = f"There is no question {question!r} in {self.stem}; it has {', '.join(asked)}."
            return Report([Line("", ASIDE, advice=advice)])
        lines = []
        for q in asked if question is None else [question]:
            lines += self._question(q, [case for case in cases if case["q"] == q], names)
        return Report(lines)

    def _question(self, q: str, cases: list[dict], names: dict) -> list[Line]:
        lines, hints, named = [], [], True
        for case in cases:
            seen = compare.observe(case["expr"], names)
            line = judge(case, seen)
            if line.state == NOT_YET and line.advice and line.advice in (above.advice for above in lines):
                line = replace(line, advice="The same as above.")
            if line not in lines:  # two cases of one blank function are "to do" once
                lines.append(line)
            if line.state == NOT_YET:
                hints += [hint for hint in case.get("hints", ()) if hint not in hints]
                named = named and compare.mistake(case, seen) is not None
            if "stopped" in seen:
                return lines
        states = {line.state for line in lines}
        if NOT_YET not in states and TO_DO in states:
            return lines
        tried = progress.record(self.stem, q, states == {PASSED})
        # A mistake that was called by its name is a hint already.
        shown = hints[: tried - 1 if named else tried]
        for i, hint in enumerate(shown, 1):
            more = " (The next try shows another.)" if i == len(shown) < len(hints) else ""
            lines.append(Line(q, ASIDE, advice=f"Hint {i} of {len(hints)}: {hint}{more}"))
        return lines


# -- where the cases are ----------------------------------------------------------------------------


def folder() -> Path:
    """The folder of the exercises and their public cases: QLAB_EXERCISES, else the course's own."""
    named = os.environ.get("QLAB_EXERCISES")
    return Path(named) if named else course.root() / "exercises"


def stems() -> list[str]:
    """Stems of all exercises, in order."""
    return sorted(path.stem for path in folder().glob("*.json"))


def questions(stem: str) -> list[str]:
    """The questions of one exercise that have public cases, none when there is no such exercise."""
    return list(dict.fromkeys(case["q"] for case in load(stem)["cases"])) if stem in stems() else []


def load(stem: str) -> dict:
    """Title and public cases of one exercise, as in its .json file."""
    # Numbers of one's own, as a teacher may hand them out, lie beside the notebook.
    file = Path(f"{stem}.json") if Path(f"{stem}.json").is_file() else folder() / f"{stem}.json"
    if not file.is_file():
        raise ValueError(f"no exercise has this name; choose one of {', '.join(stems()) or 'none yet'}")
    return json.loads(file.read_text(encoding="utf-8"))


# -- a whole file -----------------------------------------------------------------------------------


def check_file(path: str | Path, seconds: float = 120) -> Report:
    """Run the learner's own .py (py:percent) or .ipynb file from the top and check all questions at its end.

    It runs in an interpreter of its own, in the file's folder, trusted as it is in Jupyter. A cell that
    raises, or takes more than a quarter of `seconds`, is named and the later cells still run; after `seconds`
    all of it is stopped. `status` of the report is 0 when all questions are passed, 1 when not, 2 when the
    file cannot be read. Ctrl-C stops the run, and KeyboardInterrupt goes on to the caller.
    """
    path = Path(path).resolve()
    command = [sys.executable, "-m", "labsupport.lab.run_cells", str(path), str(seconds / 4)]
    # The package may be found by way of the current folder only, which is another one for the file.
    places = [str(course.PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places)), "MPLBACKEND": "Agg"}
    # A session of its own, so that what the learner's code has started is stopped with it.
    run = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd=path.parent if path.parent.is_dir() else None,
        start_new_session=True,
    )
    try:
        said, error = run.communicate(timeout=seconds)
        end = f"Python ended with exit status {run.returncode}"
    except subprocess.TimeoutExpired:
        _kill(run)
        said, error = run.communicate()
        end = f"everything was stopped after {seconds:g} s"
    finally:
        if run.poll() is None:
            _kill(run)
            run.communicate()
    return _report(said.decode("utf-8", "replace"), end, error.decode("utf-8", "replace"))


def _kill(run: subprocess.Popen) -> None:
    if os.name == "nt":
        run.kill()
    else:
        os.killpg(run.pid, signal.SIGKILL)


def _report(said: str, end: str, error: str) -> Report:
    """The report from the lines of JSON that `run_cells` writes: one before each step and one after it."""
    lines, doing = [], "starting Python"
    for text in said.splitlines():
        try:
            step = json.loads(text)
        except ValueError:  # the last line, cut when the process was stopped
            break
        if "unreadable" in step:
            return Report([Line("", ASIDE, advice=step["unreadable"])], at_least=2)
        if "finished" in step:
            return Report(lines)
        doing = step.get("doing", doing)
        lines += [Line(**line) for line in step.get("lines", ())]
    reason = error.strip().splitlines()[-1:] if doing == "starting Python" else []
    advice = f"{end} in the middle of {doing}{''.join(f': {line}' for line in reason)}."
    return Report([*lines, Line("", ASIDE, advice=advice[0].upper() + advice[1:])], at_least=1)
