"""Runs the cells of one file and then asks all questions; a process of its own for `check.check_file`.

Each step is one line of JSON on standard output: `doing` before it, `lines` after it, `finished` at the end.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from . import check
from .report import ASIDE, Line


def read_cells(path: Path) -> list[str]:
    """Sources of the code cells of a .py (py:percent) or .ipynb file of any notebook format.

    Raises ValueError, in one sentence, when the file cannot be read.
    """
    if path.suffix not in (".py", ".ipynb"):
        raise ValueError(f"{path.name} cannot be checked: choose a .py or an .ipynb file.")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror}.") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:  # saved by an old Windows editor
        text = raw.decode("latin-1")
    text = text.replace("\r\n", "\n")
    try:
        if path.suffix == ".py":
            return _percent_cells(text)
        # Not by nbformat: it takes a second to import, and refuses what Jupyter opens.
        notebook = json.loads(text)
        sheets = notebook.get(
            "worksheets", [notebook]
        )  # so it was before version 4, with `input` for `source`
        cells = [cell for sheet in sheets for cell in sheet["cells"] if cell["cell_type"] == "code"]
        return ["".join(cell["source"] if "source" in cell else cell.get("input", "")) for cell in cells]
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise ValueError(f"{path.name} is no notebook that can be read ({reason}).") from None


def _percent_cells(text: str) -> list[str]:
    """Sources of the code cells of a .py file; as jupytext reads them, which takes two seconds to import."""
    text = re.sub(r"\A# ---\n(#.*\n)*?# ---\n", "", text)
    parts = re.split(r"^# ?%%(.*)$", text, flags=re.MULTILINE)
    cells = [parts[0]]
    for mark, source in zip(parts[1::2], parts[2::2], strict=True):
        if not re.search(r"\[(markdown|md|raw)\]", mark):
            cells.append(source)
    return [cell.strip("\n") for cell in cells if cell.strip()]


def main(path: Path, cell_seconds: float) -> None:
    """Run and ask; no cell or question may take longer than `cell_seconds` (where there are alarms)."""
    out = _take_stdout()

    def say(**step) -> None:
        print(json.dumps(step), file=out, flush=True)

    say(doing=f"reading {path.name}")
    try:
        cells = read_cells(path)
    except ValueError as error:
        return say(unreadable=str(error))
    check.held = True
    shell = new_shell()
    for i, cell in enumerate(cells, 1):
        named = f"code cell {i} ({first_line(cell)})"
        say(doing=named)
        try:
            with alarm(cell_seconds):
                ran = shell.run_cell(cell, store_history=False)
            error = ran.error_before_exec or ran.error_in_exec
        except BaseException as stopped:
            error = stopped
        if error is not None:
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            advice = f"{named[0].upper()}{named[1:]} raised {reason}; the later cells still ran."
            say(lines=[asdict(Line("", ASIDE, advice=advice))])
    stems = list(dict.fromkeys(each.stem for each in check.opened)) or _stem_of(path)
    if not stems:
        return say(unreadable=f'{path.name} has no exercise: a line such as check = exercise("01_little").')
    for stem in stems:
        for question in check.questions(stem):
            say(doing=f"question {question}")
            with alarm(cell_seconds):
                report = check.Check(stem).report(question, shell.user_ns)
            say(lines=[asdict(line) for line in report.lines])
    say(finished=True)


def _take_stdout():
    """Keep standard output for the steps; what the cells read and write goes nowhere."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    return out


def new_shell():
    """IPython without a history and without windows."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Shell(InteractiveShell):
        def enable_gui(self, gui=None):
            """`%matplotlib inline` asks for it; there is no window to open."""

    config = Config()
    config.HistoryManager.enabled = False
    return Shell.instance(config=config)


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in what runs longer than `seconds`, where there are alarms."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_):
        raise TimeoutError(f"still running after {seconds:g} s")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def first_line(cell: str) -> str:
    """What a cell is called when it is spoken of."""
    line = next((line.strip() for line in cell.splitlines() if line.strip() and not line.startswith("#")), "")
    return line if len(line) <= 50 else line[:49] + "…"


def _stem_of(path: Path) -> list[str]:
    """The exercise that a copy such as `01_little.new.ipynb` is of, by its name."""
    name = re.match(r"\w+", path.name)
    return [name[0]] if name and name[0] in check.stems() else []


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
