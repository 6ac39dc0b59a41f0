"""The learner's own copies of lessons and exercises, as notebooks in her work folder, and of the glossary.

A copy becomes hers with its first change, which includes the outputs of running it, and is then never
written to again: when the original changes, the new version is put beside it as `NAME.new.ipynb` or
`NAME.new.md`. Only a file that still is, byte for byte, what was made here follows its original.
"""

from __future__ import annotations

import hashlib
import json
import re
from itertools import count
from pathlib import Path

from labsupport import course

KERNELSPEC = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}


def make_copies(work: Path | None = None) -> list[str]:
    """Make the notebooks that are missing in `work` (default `course.work()`) and offer newer versions.

    All lessons and exercises are copied at once, so that the links between them lead somewhere. Returns one
    sentence for each newer version offered, which happens once. Raises OSError where `work` cannot be
    written.
    """
    work = work or course.work()
    manifest = work / ".qlab.json"
    known = _read_manifest(manifest)
    news = []
    for source in originals():
        text = source.read_text(encoding="utf-8")
        copy = f"{source.parent.name}/{source.stem}{'.md' if source.suffix == '.md' else '.ipynb'}"
        if known["version"].get(copy) == _digest(text) and (work / copy).exists():
            continue
        content = _linked(text) if source.suffix == ".md" else _notebook(text)
        made = _place(work, copy, content, known["made"])
        if made:
            (work / made).parent.mkdir(parents=True, exist_ok=True)
            course.write(work / made, content)
            known["made"][made] = _digest(content)
        if made not in (None, copy):
            news.append(f"{copy} is as you left it; its newer version is beside it, {Path(made).name}.")
        known["version"][copy] = _digest(text)
        course.write(manifest, json.dumps(known, indent=1))
    return news


def originals() -> list[Path]:
    """The sources of all lessons and exercises, and the glossary that the lessons link to."""
    rooms = [course.root() / "notebooks", course.root() / "exercises"]
    sources = [path for room in rooms for path in sorted(room.glob("[0-9][0-9]_*.py"))]
    return sources + sorted(rooms[0].glob("*.md"))


def _place(work: Path, copy: str, content: str, made: dict[str, str]) -> str | None:
    """Name of the file that `content` may be written to; None when the learner has the same already."""
    stem, dot, ending = copy.rpartition(".")
    for n in count():
        name = copy if n == 0 else f"{stem}.new{n if n > 1 else ''}{dot}{ending}"
        try:
            there = (work / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return name
        if there == content or ending == "ipynb" and _cells(there) == _cells(content):
            return None
        if made.get(name) == _digest(there):
            return name


def _notebook(text: str) -> str:
    import jupytext
    import nbformat

    notebook = jupytext.reads(text, "py:percent")
    # A copy is a notebook of its own: pairing it with a script would write beside it.
    notebook.metadata.pop("jupytext", None)
    notebook.metadata.setdefault("kernelspec", KERNELSPEC)
    return nbformat.writes(notebook) + "\n"


def _linked(text: str) -> str:
    """The text with its links to lessons, which are scripts here, leading to the copies."""
    return re.sub(r"\]\((\d\d_\w+)\.py\)", r"](\1.ipynb)", text)


def _cells(notebook: str) -> list[tuple[str, str]] | None:
    try:
        cells = json.loads(notebook)["cells"]
        return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except (ValueError, LookupError, TypeError):  # not a notebook any more: then it is hers
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read_manifest(path: Path) -> dict[str, dict[str, str]]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return {"version": dict(known["version"]), "made": dict(known["made"])}
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return {"version": {}, "made": {}}
