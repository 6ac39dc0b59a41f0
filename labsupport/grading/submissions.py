"""Finds the submissions in a folder or .zip as it comes from nbgrader, Canvas, Moodle, Gradescope or by hand.

    s1.ipynb · s1_01_little.ipynb           a file per student
    s1/anything.ipynb                       a folder per student
    s1/01_little/01_little.ipynb            nbgrader's exchange
    lis1_4711_90210_01_little.ipynb         Canvas: name, number of the student, number of the file
    Ada Li_4711_assignsubmission_file_/…    Moodle: name, number of the participant
    submission_90210/… submission_metadata.yml        Gradescope's "Export Submissions"

Nothing is unpacked to disk, and no link is followed.
"""

from __future__ import annotations

import math
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath

from .classroom import Student, normal

ENDINGS = (".ipynb", ".py")
LARGEST = 20_000_000  # bytes
_CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<number>\d+)_\d+_")
_MOODLE = re.compile(r"(?P<name>.+)_\d+_assignsubmission_file_?$")


@dataclass(frozen=True)
class Found:
    """A file that was handed in; `inside` names it within the .zip `path`."""

    path: Path
    at: str  # below the folder that was given
    time: datetime
    inside: str = ""
    refused: str = ""

    def read(self) -> bytes:
        """The file's bytes. Raises ValueError, in one sentence, when it cannot be read."""
        if self.refused:
            raise ValueError(self.refused)
        try:
            if self.inside:
                with zipfile.ZipFile(self.path) as archive, archive.open(self.inside) as file:
                    data = file.read(LARGEST + 1)
            else:
                # No link, and no pipe that never ends, even if it was put there a moment ago.
                flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
                with open(os.open(self.path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
                    data = file.read(LARGEST + 1)
        except Exception as error:  # a broken or encrypted archive raises one of many kinds
            raise ValueError(f"{self.at} cannot be read ({type(error).__name__}: {error})") from None
        if len(data) > LARGEST:
            raise ValueError(f"{self.at} has more than {LARGEST // 10**6} MB")
        return data


@dataclass
class Submission:
    """What one student handed in; `file` is None when that is nothing."""

    student: Student
    file: Found | None = None
    notes: list[str] = field(default_factory=list)
    enrolled: bool = True

    def late_days(self, due: datetime | None) -> int:
        """Begun days after `due`."""
        if due is None or self.file is None:
            return 0
        return max(0, math.ceil((self.file.time - due).total_seconds() / 86400))


def collect(place: Path, stem: str, stems: list[str], students: tuple[Student, ...]) -> list[Submission]:
    """One submission for each student of the roster in its order, then for those who are not on it.

    Files of other exercises, by their names among `stems`, are passed over. Raises ValueError when `place` is
    neither a folder nor a .zip.
    """
    files = [file for file in _files(place) if _concerns(file.at, stem, stems)]
    who = _Who(students, place, files)
    handed: dict[str, list[Found]] = {}
    known = {student.id: student for student in students}
    for file in files:
        student = who.handed_in(file.at, stem)
        known.setdefault(student.id, student)
        handed.setdefault(student.id, []).append(file)
    enrolled = {student.id for student in students} or set(known)
    rows = [student for student in known.values() if student.id in enrolled]
    rows += sorted((known[id] for id in known.keys() - enrolled), key=lambda student: student.id)
    if not students:
        rows.sort(key=lambda student: student.id)
    return [_newest(student, handed.get(student.id, []), stem, student.id in enrolled) for student in rows]


def _newest(student: Student, files: list[Found], stem: str, enrolled: bool) -> Submission:
    if not files:
        return Submission(student, None, ["Nothing was handed in."], enrolled)
    readable = [file for file in files if not file.refused]
    notes = [file.refused for file in files if file.refused] if readable else []
    choice = [file for file in readable if stem in file.at] or readable or files
    newest = max(choice, key=lambda file: (file.time, file.at))
    if len(readable) > 1:
        others = ", ".join(sorted(file.at for file in readable if file is not newest))
        notes.append(f"Of {len(readable)} files {newest.at} counts, the newest; not graded: {others}.")
    if len(PurePosixPath(newest.at).parts) > 1 and not any(
        stem in part for part in PurePosixPath(newest.at).parts
    ):
        notes.append(f"{newest.at} was taken for {stem}; no file has that name.")
    return Submission(student, newest, notes, enrolled)


def _concerns(at: str, stem: str, stems: list[str]) -> bool:
    """Whether a file may belong to exercise `stem`: none of its names says that it is another one's."""
    return stem in at or not any(other in at for other in stems)


# -- whose it is -------------------------------------------------------------------------------------


class _Who:
    """Tells from the path of a file who handed it in."""

    def __init__(self, students: tuple[Student, ...], place: Path, files: list[Found]):
        self.students = students
        self.by_id = {student.id.casefold(): student for student in students}
        self.by_name = {normal(student.name).casefold(): student for student in students if student.name}
        self.by_number = {student.canvas_id: student for student in students if student.canvas_id}
        self.by_email = {student.email.casefold(): student for student in students if student.email}
        self.gradescope = _gradescope(place)

    def handed_in(self, at: str, stem: str) -> Student:
        parts = [normal(part) for part in PurePosixPath(at).parts]
        parts[-1] = PurePosixPath(parts[-1]).stem
        for part in parts:
            if part in self.gradescope:
                sid, email, name = self.gradescope[part]
                found = self._student(sid) or self.by_email.get(email.casefold()) or self._student(email)
                return found or Student(sid or email or part, name, email)
            if found := self._of_roster(part):
                return found
        return self._guess(parts, stem)

    def _student(self, text: str) -> Student | None:
        return self.by_id.get(normal(text).casefold())

    def _of_roster(self, part: str) -> Student | None:
        if found := self._student(part):
            return found
        if (canvas := _CANVAS.match(part)) and canvas["number"] in self.by_number:
            return self.by_number[canvas["number"]]
        if (moodle := _MOODLE.match(part)) and (found := self.by_name.get(moodle["name"].casefold())):
            return found
        # The longest id that the name begins with: s1_01_little, not s of another student.
        words = part.casefold()
        cuts = [i for i, c in enumerate(words) if c in "_- ."]
        return next((self.by_id[words[:cut]] for cut in reversed(cuts) if words[:cut] in self.by_id), None)

    @staticmethod
    def _guess(parts: list[str], stem: str) -> Student:
        """Without a row in the roster: the outermost folder, else the file's name."""
        name = parts[0]
        if moodle := _MOODLE.match(name):
            return Student(moodle["name"], moodle["name"])
        if len(parts) == 1 and (canvas := _CANVAS.match(name)):
            return Student(canvas["number"], canvas["name"], canvas_id=canvas["number"])
        short = re.sub(rf"[-_ .]*{re.escape(stem)}.*$", "", name)
        return Student(short or name)


def _gradescope(place: Path) -> dict[str, tuple[str, str, str]]:
    """Folder to (id, email, name) of the first submitter, from Gradescope's list of an export."""
    lists = [path for path in place.rglob("submission_metadata.yml")] if place.is_dir() else []
    if not lists or lists[0].is_symlink():
        return {}
    found, folder = {}, ""
    # A handful of lines of known form; a YAML reader would be one more thing to trust.
    for line in lists[0].read_text(encoding="utf-8", errors="replace").splitlines():
        if head := re.match(r"(\S[^:]*):\s*$", line):
            folder = head[1]
        elif (field_ := re.match(r"\s+-?\s*:(sid|email|name):\s*(.*)$", line)) and folder:
            values = found.setdefault(folder, {})
            values.setdefault(field_[1], field_[2].strip().strip("'\""))
    return {
        folder: (row.get("sid", ""), row.get("email", ""), row.get("name", "")) for folder, row in found.items()
    }


# -- the files ---------------------------------------------------------------------------------------


def _files(place: Path) -> list[Found]:
    if place.is_file() and place.suffix == ".zip":
        return list(_zipped(place, place.name, ""))
    if not place.is_dir():
        raise ValueError(f"{place} is neither a folder nor a .zip with submissions")
    return list(_in_folder(place, ""))


def _in_folder(folder: Path, below: str) -> Iterator[Found]:
    stamp = _stamp(folder)
    with os.scandir(folder) as entries:
        entries = sorted(entries, key=lambda entry: entry.name)
    for entry in entries:
        at, path = f"{below}{entry.name}", Path(entry.path)
        if entry.name.startswith((".", "__MACOSX")):
            continue
        if entry.is_symlink():
            if path.suffix in (*ENDINGS, ".zip", ""):
                yield Found(path, at, datetime.fromtimestamp(0), refused=f"{at} is a link, which is not followed.")
        elif entry.is_dir():
            yield from _in_folder(path, f"{at}/")
        elif path.suffix in (*ENDINGS, ".zip"):
            info = entry.stat(follow_symlinks=False)
            time = stamp or datetime.fromtimestamp(info.st_mtime)
            if not stat.S_ISREG(info.st_mode):
                yield Found(path, at, time, refused=f"{at} is no ordinary file.")
            elif path.suffix == ".zip":
                yield from _zipped(path, at, f"{at.removesuffix('.zip')}/")
            else:
                yield Found(path, at, time)


def _stamp(folder: Path) -> datetime | None:
    """When nbgrader received what is in this folder."""
    path = folder / "timestamp.txt"
    if path.is_symlink() or not path.is_file():
        return None
    try:
        text = path.read_text(encoding="utf-8", errors="replace")[:40].strip()
        return datetime.fromisoformat(re.match(r"[\d-]+[ T][\d:.]+", text)[0])
    except (TypeError, ValueError):
        return None


def _zipped(path: Path, at: str, below: str) -> Iterator[Found]:
    """The files in an archive; a way out of it is refused, whoever would follow it."""
    time = datetime.fromtimestamp(path.stat().st_mtime)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except Exception as error:
        yield Found(path, at, time, refused=f"{at} is no archive that can be read ({type(error).__name__}).")
        return
    for entry in sorted(entries, key=lambda entry: entry.filename):
        name = entry.filename.replace("\\", "/")
        parts = PurePosixPath(name).parts
        if entry.is_dir() or any(part.startswith((".", "__MACOSX")) and part != ".." for part in parts):
            continue
        refused = ""
        if stat.S_ISLNK(entry.external_attr >> 16):
            refused = f"{name} in {path.name} is a link, which is not followed."
        elif name.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", name):
            refused = f"{name} in {path.name} points outside the archive."
        elif PurePosixPath(name).suffix not in ENDINGS:
            continue
        elif entry.file_size > LARGEST:
            refused = f"{name} in {path.name} has more than {LARGEST // 10**6} MB."
        try:
            time = datetime(*entry.date_time)
        except ValueError:
            pass
        inner = "/".join(part for part in parts if part not in ("/", ".."))
        yield Found(path, f"{below}{inner}", time, entry.filename, refused)
