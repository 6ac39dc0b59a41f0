"""The hand-out of an exercise: the notebook without its answers and the public cases, for all or for each student.

What a hand-out holds is made anew from the solution, so neither answers, hidden cases nor outputs of a run can
be left in it. With personal numbers every student gets the same notebook, a cell that names the numbers, and
public cases with them; a check takes the cases that lie beside the notebook.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path

from . import reports
from .cases import parameters
from .classroom import Classroom, Student
from .grade import Expected
from .solution import BEGIN, END

KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}


def release(stem: str, solutions: Path, classroom: Classroom, out: Path) -> list[str]:
    """Write the hand-out to the new folder or .zip `out`; returns the names of its files.

    A class with a roster gets a folder for each student, with numbers of his or her own if it has a salt too.
    Raises ValueError when `out` exists, or a solution, a case or a student's numbers do not work.
    """
    if out.exists():
        raise ValueError(f"{out} exists already; name a new folder or .zip, so that nothing of an old one is left")
    expected = Expected(stem, solutions, classroom)
    expected.solution.refuse_what_blank_passes()
    if not classroom.students:
        files = dict(_files(expected, None))
    else:
        names = reports.file_names(student.id for student in classroom.students)
        files = {
            f"{names[student.id]}/{name}": text
            for student in classroom.students
            for name, text in _files(expected, student)
        }
    _write(files.items(), out)
    return list(files)


def _files(expected: Expected, student: Student | None) -> Iterable[tuple[str, str]]:
    spec = expected.spec
    public = [entry for entry in expected.of(student.id if student else None) if entry["public"]]
    public = [{key: value for key, value in entry.items() if key != "public"} for entry in public]
    cases = {"title": spec.title, "cases": public}
    values = expected.classroom.values(spec, student.id) if student else parameters(spec)
    told = _numbers(values, student) if student and expected.classroom.salt and values else ""
    yield f"{spec.stem}.ipynb", _notebook(expected.solution.blank, told)
    yield f"{spec.stem}.json", json.dumps(cases, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _numbers(values: dict, student: Student) -> str:
    rows = "\n".join(f"| {name} | {value} |" for name, value in values.items())
    return (
        f"**Numbers for {student.id}.** The checks, and the grading, use these; other students have others.\n\n"
        f"| name | value |\n|---|---|\n{rows}"
    )


def _notebook(text: str, told: str) -> str:
    import jupytext
    import nbformat

    if BEGIN in text or END in text:
        raise ValueError("the exercise still holds a marker of a solution")
    notebook = jupytext.reads(text, "py:percent")
    notebook.metadata = nbformat.NotebookNode(kernelspec=KERNEL)
    if told:
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell(told))
    for i, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{i}"  # the same in every copy, and no random number in a hand-out
        if cell.cell_type == "markdown":  # links into the course lead nowhere from here
            cell.source = re.sub(
                r"\[([^]]+)\]\(\.\./notebooks/(\w+)\.ipynb\)", r"\1 (`qlab lab \2`)", cell.source
            )
    return nbformat.writes(notebook, version=4) + "\n"


def _write(files: Iterable[tuple[str, str]], out: Path) -> None:
    if out.suffix == ".zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in files:
                archive.writestr(zipfile.ZipInfo(name), text)  # dated 1980, so that equal content is equal
        return
    for name, text in files:
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
