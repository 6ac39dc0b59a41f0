"""What a teacher keeps outside the course: the roster, the salt of personal variants, and hidden cases.

The folder, which `--private` names, may hold

    roster.csv       one row per student; `id` is needed, name, email, section, canvas_id are used where given.
                     A gradebook exported by Canvas and a list of participants from Moodle can be used as they are.
    salt             one line of secret text; with it each student's numbers differ, as [params] allows.
    01_little.toml   more [[case]] and [[mistake]] for the questions of that exercise, hidden unless public = true.
"""

from __future__ import annotations

import csv
import io
import os
import secrets
import unicodedata
from dataclasses import dataclass, replace
from pathlib import Path

from . import cases

# Names of a column, in small letters, the preferred one first.
_ID = ("id", "student", "student_id", "username")
_KNOWN = {"name": ("name",), "email": ("email",), "section": ("section",), "canvas_id": ("canvas_id",)}


@dataclass(frozen=True)
class Student:
    """A row of the roster; only `id` is always there."""

    id: str
    name: str = ""
    email: str = ""
    section: str = ""
    canvas_id: str = ""


def normal(text: str) -> str:
    """An id or name as it is compared: composed characters, no blanks around it."""
    return unicodedata.normalize("NFC", text).strip()


def read_roster(path: Path) -> list[Student]:
    """The students in a CSV file, in its order.

    Raises ValueError, in one sentence, when there is no column of ids or an id is there twice.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8; save it as CSV UTF-8") from None
    dialect = ";" if text.partition("\n")[0].count(";") > text.partition("\n")[0].count(",") else ","
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=dialect)
    titles = {normal(title).casefold(): title for title in rows.fieldnames or ()}
    students = [student for row in rows if (student := _student(row, titles, path))]
    seen: set[str] = set()
    for student in students:
        if student.id.casefold() in seen:
            raise ValueError(f"{path}: the id {student.id!r} is there twice; give each student one row")
        seen.add(student.id.casefold())
    if not students:
        raise ValueError(f"{path} has no students; write a line of titles with `id` and one line for each")
    return students


def _student(row: dict, titles: dict[str, str], path: Path) -> Student | None:
    def of(*names: str) -> str:
        found = (row.get(titles[name]) for name in names if name in titles)
        return next((normal(value) for value in found if value and value.strip()), "")

    if "sis login id" in titles:  # a gradebook of Canvas, whose `ID` is its own number
        student = Student(
            of("sis login id", "sis user id"), of("student"), section=of("section"), canvas_id=of("id")
        )
        # Below the titles stands a row "Points Possible", and a test student may have no login.
        return student if student.id and student.canvas_id else None
    if "email address" in titles:  # participants from Moodle
        name = " ".join(filter(None, (of("first name"), of("last name", "surname")))) or of("full name")
        email = of("email address")
        return Student(of("id number", "username", "id") or email, name, email)
    if not any(name in titles for name in _ID):
        raise ValueError(f"{path} has no column `id`; it has {', '.join(titles.values()) or 'no titles'}")
    known = {key: of(*names) for key, names in _KNOWN.items()}
    if not (student_id := of(*_ID)):
        if any(known.values()):
            raise ValueError(f"{path}: a row without an id: {', '.join(filter(None, known.values()))}")
        return None
    return Student(student_id, **known)


@dataclass(frozen=True)
class Classroom:
    """What is known about a class; all of it may be missing."""

    folder: Path | None = None
    students: tuple[Student, ...] = ()
    salt: str = ""

    @classmethod
    def read(cls, folder: Path | None = None, roster: Path | None = None) -> Classroom:
        """From a teacher's folder; `roster` replaces the one in it. Raises ValueError, OSError."""
        if folder is not None and not folder.is_dir():
            raise ValueError(f"{folder} is no folder; --private names the folder with roster.csv, salt and cases")
        if roster is None and folder is not None and (folder / "roster.csv").is_file():
            roster = folder / "roster.csv"
        students = tuple(read_roster(roster)) if roster else ()
        salt = folder / "salt" if folder else None
        text = salt.read_text(encoding="utf-8").strip() if salt and salt.is_file() else ""
        if salt and salt.is_file() and len(text) < 16:
            raise ValueError(f"{salt} has fewer than 16 characters, which can be guessed; delete it for a new one")
        return cls(folder, students, text)

    def spec(self, path: Path) -> cases.Spec:
        """The cases of a solution's .toml with the hidden ones of this class."""
        spec = cases.read(path)
        mine = self.folder / path.name if self.folder else None
        return cases.extended(spec, mine) if mine and mine.is_file() else spec

    def values(self, spec: cases.Spec, student: str) -> dict[str, int | float]:
        """The numbers of a student's variant, the textbook's in a class without a salt."""
        return cases.parameters(spec, student, self.salt) if self.salt else cases.parameters(spec)

    def with_salt(self) -> Classroom:
        """The same class with a salt, which is made and kept if there is none."""
        if self.salt:
            return self
        if self.folder is None:
            raise ValueError("personal variants need a folder that keeps their salt; name it with --private")
        salt = secrets.token_hex(32)
        handle = os.open(self.folder / "salt", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(salt + "\n")
        return replace(self, salt=salt)
