"""Inside the sandbox: runs the cells of one submission, then evaluates what it is asked.

Each step is one line of JSON on standard input, answered by one line on what was standard output. A step
carries a random `id` that its answer repeats: what a cell writes in advance is recognised as no answer. No
step carries a right answer, so code that reads all of this process still does not know one.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from pathlib import Path

from labsupport.lab import check, compare
from labsupport.lab.run_cells import alarm, first_line, new_shell, read_cells


def main() -> None:
    steps, answers = _take_streams()
    me = os.getpid()

    def answer(step: dict, **said) -> None:
        if os.getpid() != me:  # a fork that a cell left behind: one of us has to speak
            os._exit(0)
        print(json.dumps({"id": step["id"], **said}), file=answers, flush=True)

    step = json.loads(steps.readline())
    _limit(step["limits"])
    try:
        cells = _read(step["file"], base64.b64decode(step["data"]))
    except ValueError as error:
        return answer(step, unreadable=str(error))
    check.held = True  # what a check shows in the notebook is nobody's concern here
    shell = new_shell()
    answer(step, cells=[first_line(cell) for cell in cells])
    for line in steps:
        step = json.loads(line)
        if "cell" in step:
            answer(step, error=_run(shell, cells[step["cell"]], step["seconds"]))
        else:
            with alarm(step["seconds"]):
                seen = compare.observe(step["expr"], shell.user_ns)
            answer(step, seen=seen)


def _take_streams():
    """Keep standard input and output for the steps; what the cells read and write goes nowhere."""
    steps = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    return steps, answers


def _limit(limits: dict[str, int]) -> None:
    """Set what the system counts for this process and those it starts; they cannot be raised again."""
    try:
        import resource
    except ImportError:  # Windows counts nothing of this
        return
    for name, value in limits.items():
        which = getattr(resource, f"RLIMIT_{name}", None)
        try:
            hard = resource.getrlimit(which)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(which, (value, value))
        except (TypeError, ValueError, OSError):  # not on this system
            pass


def _read(name: str, data: bytes) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        return read_cells(path)


def _run(shell, cell: str, seconds: float) -> str | None:
    """Run one cell; what it raised, in one line."""
    try:
        with alarm(seconds):
            ran = shell.run_cell(cell, store_history=False)
        error = ran.error_before_exec or ran.error_in_exec
    except BaseException as stopped:
        error = stopped
    if error is None:
        return None
    try:
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    except BaseException:  # an exception with a __str__ of its own
        return type(error).__name__


if __name__ == "__main__":
    main()
