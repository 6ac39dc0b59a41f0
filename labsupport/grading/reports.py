"""What is written about graded submissions: tables for teachers, a page and a Gradescope file per student."""

from __future__ import annotations

import csv
import hashlib
import html
import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from labsupport import course
from labsupport.lab import compare
from labsupport.lab.report import ASIDE, NOT_YET, PASSED, Line
from labsupport.lab.words import judge

from .cases import Spec
from .classroom import Student, normal
from .sandbox import UNSAFE, Outcome
from .submissions import Submission

PAGES = ".pages.json"  # which page belongs to which submission


@dataclass(frozen=True)
class Result:
    """One student's answers beside the right ones."""

    submission: Submission
    spec: Spec
    entries: list[dict]
    outcome: Outcome
    late_days: int = 0
    unsafe: bool = False

    @property
    def student(self) -> Student:
        return self.submission.student

    @property
    def questions(self) -> list[str]:
        return self.spec.questions

    @cached_property
    def passed(self) -> list[bool]:
        """For each case, whether the answer is right."""
        return [compare.passed(*pair) for pair in zip(self.entries, self.outcome.seen, strict=True)]

    def points(self, question: str | None = None) -> float:
        """Points earned in one question, or in all."""
        pairs = zip(self.entries, self.passed, strict=True)
        return sum(entry["points"] for entry, right in pairs if right and question in (None, entry["q"]))

    def most(self, question: str | None = None) -> float:
        """Points that can be earned."""
        return sum(entry["points"] for entry in self.entries if question in (None, entry["q"]))

    @property
    def notes(self) -> list[str]:
        return [*([UNSAFE] if self.unsafe else []), *self.submission.notes, *self.outcome.notes]

    def row(self) -> dict[str, str]:
        """The row in grades.csv."""
        return {
            "student": self.student.id,
            "name": self.student.name,
            **{q: f"{self.points(q):g}" for q in self.questions},
            "total": f"{self.points():g}",
            "of": f"{self.most():g}",
            "late days": str(self.late_days),
            "notes": " ".join(self.notes),
        }

    def cases(self, question: str) -> list[tuple[dict, bool, str, list[Line]]]:
        """Entry, whether it is right, its name, and what may be said of it, for each case of a question."""
        told, said, hidden, public = [], [], 0, 0
        for entry, seen, right in zip(self.entries, self.outcome.seen, self.passed, strict=True):
            if entry["q"] != question:
                continue
            if not entry["public"]:
                hidden += 1
                told.append((entry, right, f"{question}: hidden case {hidden}", []))
                continue
            public += 1
            line = _line(entry, seen)
            if line.advice and line.advice in said:
                line = replace(line, advice="The same as above.")
            said.append(line.advice)
            hints = [] if right or line.state != NOT_YET else entry["hints"]
            lines = [line, *(Line(question, ASIDE, advice=f"Hint: {hint}") for hint in hints)]
            told.append((entry, right, f"{question}: case {public}", lines))
        return told


def _line(entry: dict, seen: dict) -> Line:
    if "lost" in seen:
        return Line(entry["q"], NOT_YET, entry["expr"], f" has no answer: {seen['lost']}.")
    return replace(judge(entry, seen), curve=None)


# -- files -------------------------------------------------------------------------------------------


def file_names(ids: Iterable[str]) -> dict[str, str]:
    """A file name without ending for each id, safe on every system and different from the others."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for id in ids:
        name = re.sub(r"[^\w@+=, .-]", "_", normal(id)).strip(" .")[:80] or "_"
        if name != id or name.casefold() in taken or re.match(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", name, re.I):
            name = f"{name}-{hashlib.sha256(id.encode('utf-8', 'replace')).hexdigest()[:8]}"
        taken.add(name.casefold())
        names[id] = name
    return names


def write_student(result: Result, path: Path) -> None:
    """Write `path`.results.json and `path`.html."""
    course.write(path.with_name(f"{path.name}.results.json"), gradescope(result))
    course.write(path.with_name(f"{path.name}.html"), page(result))


def write_tables(results: list[Result], out: Path) -> None:
    """Write grades.csv, grades.canvas.csv and grades.moodle.csv, and not-on-roster.csv where it is needed."""
    enrolled = [result for result in results if result.submission.enrolled]
    others = [result for result in results if not result.submission.enrolled]
    tables = {
        "grades.csv": table([result.row() for result in enrolled]),
        "grades.canvas.csv": canvas(enrolled),
        "grades.moodle.csv": moodle(enrolled),
        "not-on-roster.csv": table([result.row() for result in others]),
    }
    for name, text in tables.items():
        if text:
            course.write(out / name, text)
        else:
            (out / name).unlink(missing_ok=True)


# -- tables ------------------------------------------------------------------------------------------


def safe(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    text = "".join(c if c.isprintable() else " " for c in text)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") or text.lstrip()[:1] in ("=", "+", "-", "@") else text


def table(rows: list[dict[str, str]]) -> str:
    """Rows with the same keys as CSV; nothing when there are none."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(map(safe, rows[0]))
    writer.writerows([safe(value) for value in row.values()] for row in rows)
    return text.getvalue()


def canvas(results: list[Result]) -> str:
    """What "Import grades" of Canvas takes: its five columns, then the exercise with its largest score."""
    rows = [
        {
            "Student": result.student.name or result.student.id,
            "ID": result.student.canvas_id,
            "SIS User ID": "",
            "SIS Login ID": result.student.id,
            "Section": result.student.section,
            _title(result): f"{result.points():g}",
        }
        for result in results
    ]
    if rows:
        blank = dict.fromkeys(rows[0], "")
        rows.insert(0, blank | {"Student": "    Points Possible", _title(results[0]): f"{results[0].most():g}"})
    return table(rows)


def moodle(results: list[Result]) -> str:
    """What "Import > CSV file" of Moodle's grades takes: columns to know the student by, and the points."""
    return table(
        [
            {
                "ID number": result.student.id,
                "Email address": result.student.email,
                "Full name": result.student.name,
                _title(result): f"{result.points():g}",
                f"{_title(result)} (feedback)": " ".join(result.notes),
            }
            for result in results
        ]
    )


def _title(result: Result) -> str:
    return f"{result.spec.stem.partition('_')[0]} {result.spec.title}"


# -- one student -------------------------------------------------------------------------------------


def gradescope(result: Result) -> str:
    """The results.json of Gradescope's autograder."""
    tests = []
    for question in result.questions:
        for entry, right, name, lines in result.cases(question):
            test = {
                "score": entry["points"] if right else 0,
                "max_score": entry["points"],
                "status": "passed" if right else "failed",
                "name": name,
            }
            if lines:
                test["output"] = "\n".join(map(str, lines))
            tests.append(test)
    whole = {
        "score": result.points(),
        "execution_time": result.outcome.seconds,
        "output": "\n".join(result.notes),
        "output_format": "text",
        "test_output_format": "text",
        "tests": tests,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 1.8rem 0 0.4rem; }
code { overflow-wrap: anywhere; } li, div { overflow-wrap: anywhere; }
.points { font-weight: 600; }
table { border-collapse: collapse; } td, th { padding: 0.15rem 1.2rem 0.15rem 0; text-align: left; }
td:last-child, th:last-child { text-align: right; padding-right: 0; }
"""


def page(result: Result) -> str:
    """The student's feedback as one HTML file that needs nothing else."""
    name = result.student.name or result.student.id
    title = f"{_title(result)}: {name}"
    body = [
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="points">{result.points():g} of {result.most():g} points</p>',
    ]
    if result.late_days:
        body.append(f"<p>Handed in {result.late_days} day{'s' if result.late_days > 1 else ''} late.</p>")
    if result.notes:
        body.append(f"<ul>{''.join(f'<li>{html.escape(note)}</li>' for note in result.notes)}</ul>")
    rows = [(q, f"{result.points(q):g} of {result.most(q):g}") for q in result.questions]
    cells = "".join(f"<tr><td>{html.escape(q)}</td><td>{points}</td></tr>" for q, points in rows)
    body.append(f'<table><thead><tr><th scope="col">question</th><th scope="col">points</th></tr></thead>{cells}</table>')
    for question, points in rows:
        body.append(f"<h2>{html.escape(question)}: {points}</h2>")
        for entry, right, name, lines in result.cases(question):
            if not lines:
                earned = entry["points"] if right else 0
                state = PASSED if right else NOT_YET
                said = f"{earned:g} of {entry['points']:g} points"
                lines = [Line(name.partition(": ")[2].capitalize(), state, "", said)]
            body += [line.html() for line in lines]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )
