"""What the learner has tried, passed and predicted: one small JSON file in her work folder.

The file is `progress.json` in `course.work()`, or the one that QLAB_PROGRESS names, made with the first
record. With QLAB_PROGRESS=off, and where no file can be written, the records last as long as the process.
Nothing here raises because of the file: a check or a prediction never stops for it.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TypeVar

from labsupport import course

from . import frames
from .table import Note, Table

Result = TypeVar("Result")


def path() -> Path | None:
    """The file that holds the progress; None when QLAB_PROGRESS=off."""
    named = os.environ.get("QLAB_PROGRESS", "")
    if named.lower() == "off":
        return None
    return Path(named).expanduser().resolve() if named else course.work() / "progress.json"


def record(stem: str, question: str, passed: bool) -> int:
    """Count one attempt at a question and return how many there were up to the first pass."""

    def count_attempt(state):
        new = {"tried": 0, "passed": False, "first": _now(), "last": ""}
        entry = state["questions"].setdefault(stem, {}).setdefault(question, new)
        entry["last"] = _now()
        if not entry["passed"]:
            entry["tried"] += 1
            entry["passed"] = bool(passed)
        return entry["tried"]

    return _change(count_attempt)


def record_prediction(key: str, value: float | str) -> None:
    """Keep the number (or word) that the learner predicts under `key`; a later one replaces it.

    Raises TypeError when `value` is anything else.
    """
    if not isinstance(value, int | float | str):
        raise TypeError(f"prediction {key!r} is a {type(value).__name__}; a number or a word can be kept")
    _change(lambda state: state["predictions"].update({key: {"value": value, "time": _now()}}))


def prediction(key: str) -> float | str | None:
    """What `record_prediction` kept under `key`; None when nothing was predicted."""
    return _current()["predictions"].get(key, {}).get("value")


@dataclass(frozen=True)
class Lesson:
    """How far one exercise is: its number of questions, and those passed and those only tried."""

    stem: str
    questions: int
    passed: tuple[str, ...]
    tried: tuple[str, ...]
    predicted: bool = False

    @property
    def opened(self) -> bool:
        """Whether there is any record of the lesson: a prediction, or an attempt at a question."""
        return bool(self.predicted or self.passed or self.tried)

    def __str__(self):
        if not self.opened:
            return f"{self.stem}: not begun, {self.questions} questions"
        trying = f"; tried, not passed yet: {', '.join(self.tried)}" if self.tried else ""
        return f"{self.stem}: {len(self.passed)} of {self.questions} passed{trying}"


def summary() -> list[Lesson]:
    """One `Lesson` for each exercise of the course, in order, and for others that were recorded."""
    from .check import questions, stems

    state = _current()
    recorded, predicted = state["questions"], {key.partition(".")[0] for key in state["predictions"]}
    return [
        Lesson(
            stem,
            len(set(questions(stem)) | set(recorded.get(stem, {}))),
            tuple(q for q, entry in recorded.get(stem, {}).items() if entry["passed"]),
            tuple(q for q, entry in recorded.get(stem, {}).items() if not entry["passed"]),
            stem[:2] in predicted,
        )
        for stem in sorted({*stems(), *recorded})
    ]


def advice() -> list[str]:
    """How many questions are passed in all, and what to do next: end what was tried, then what was begun, then go on."""
    lessons = [lesson for lesson in summary() if lesson.questions]
    total = f"{sum(len(x.passed) for x in lessons)} of {sum(x.questions for x in lessons)} questions passed."
    left = [lesson for lesson in lessons if len(lesson.passed) < lesson.questions]
    if not left:
        return [total, "Next: a benchmark of your own, with qlab audit."]
    lesson = min(left, key=lambda x: (not x.tried, not x.opened, x.stem))
    number = lesson.stem[:2]
    if lesson.tried:
        return [total, f"Next: {lesson.tried[0]} in exercises/{lesson.stem}.ipynb; to open the lesson: qlab lab {number}"]
    if lesson.opened:
        return [total, f"Next: the rest of exercises/{lesson.stem}.ipynb; to open the lesson: qlab lab {number}"]
    return [total, f"Next: qlab lab {number}"]


def table() -> Table | Note:
    """What is passed, tried and not begun in all lessons, as the last cell of a lesson shows it."""
    if frames.wanted():
        return Note("In JupyterLab you see here what you have passed in each lesson; in a terminal: qlab progress.")
    return Table(
        ("exercise", "passed", "tried, not passed yet"),
        tuple(
            (x.stem, f"{len(x.passed)} of {x.questions}" if x.opened else "not begun", ", ".join(x.tried))
            for x in summary()
        ),
        f"Kept in {path() or 'memory'} on this machine and sent nowhere. "
        "In a terminal: qlab progress, with --export FILE or --reset.",
    )


def reset() -> None:
    """Forget all attempts and predictions."""
    _change(lambda state: state.update(_empty()))


def export(to: str | Path) -> Path:
    """Write the records to `to`: all of them as `.json`, or the questions as `.csv` with one row each.

    Raises ValueError for another ending, OSError where `to` cannot be written.
    """
    to, state = Path(to), _current()
    if to.suffix == ".json":
        text = _dump(state)
    elif to.suffix == ".csv":
        out = io.StringIO()
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["lesson", "question", "tried", "passed", "first", "last"])
        for stem, questions in sorted(state["questions"].items()):
            for question, entry in questions.items():
                rows.writerow([stem, question, *(entry[key] for key in ("tried", "passed", "first", "last"))])
        text = out.getvalue()
    else:
        raise ValueError(f"progress cannot go to {to.name!r}: choose a name that ends in .json or .csv")
    course.write(to, text)
    return to


# -- the file ---------------------------------------------------------------------------------------


def _empty() -> dict:
    return {"version": 1, "questions": {}, "predictions": {}}


_memory = _empty()  # stands for the file when that is off or lost
_lost = False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _current() -> dict:
    file = path()
    if not _lost and file is not None:
        try:
            if not file.exists():
                return _empty()
            with _locked(file):
                return _read(file) or _empty()
        except OSError as error:
            _lose(error)
    return _memory


def _change(edit: Callable[[dict], Result]) -> Result:
    """Apply `edit` to the records and write them, while other kernels wait; returns what `edit` returns."""
    file = path()
    if not _lost and file is not None:
        try:
            with _locked(file):
                state = _read(file) or _empty()
                result = edit(state)
                course.write(file, _dump(state))
                return result
        except OSError as error:
            _lose(error)
    return edit(_memory)


def _lose(error: OSError) -> None:
    """Go on in memory, from what the file says if it can at least be read."""
    global _lost
    _lost = True
    try:
        _memory.update(_read(path()) or _empty())
    except OSError:
        pass
    reason = error.strerror or type(error).__name__
    print(f"Progress is kept only until this kernel stops: {path()} cannot be used ({reason}).")


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Wait until no other kernel uses the file, and keep it for oneself."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file.with_name(f"{file.name}.lock"), "a") as handle:  # closing it lets the next one in
        try:
            if os.name == "nt":
                import msvcrt

                handle.seek(0)
                msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)
            else:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # some network drives cannot lock; two kernels at once are rarer than such a drive
            pass
        yield


def _read(file: Path) -> dict | None:
    """The records in `file`; None when there are none. A file that makes no sense is moved aside."""
    try:
        state = json.loads(file.read_bytes())
        entries = [entry for lesson in state["questions"].values() for entry in lesson.values()]
        keys = {"tried", "passed", "first", "last"}
        if state["version"] != 1 or not all(keys <= entry.keys() for entry in entries):
            raise ValueError("not the records of this course")
        if not all("value" in entry for entry in state["predictions"].values()):
            raise ValueError("not the predictions of this course")
        return state
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, AttributeError):
        names = (file.with_name(f"{file.name}{'.bad' if n == 1 else f'.bad{n}'}") for n in count(1))
        aside = next(name for name in names if not name.exists())
        file.replace(aside)
        print(f"{file} could not be read; it is kept as {aside.name}, and progress starts anew.")
        return None


def _dump(state: dict) -> str:
    return json.dumps(state, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
