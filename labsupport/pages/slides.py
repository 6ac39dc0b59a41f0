"""Lessons as slides that need no kernel and no network: one HTML file each, shown by reveal.js."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from nbconvert import SlidesExporter
from nbformat import NotebookNode

from labsupport import course

from . import markdown
from .executed import executed

FOLDER = Path(__file__).parent
MARK = "Queueing Lab slides"  # by which earlier slides are known


def build(
    out: str | Path = "slides",
    lessons: Iterable[str] | None = None,
    *,
    notebooks: Mapping[str, NotebookNode] | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Path:
    """Write the slides of `lessons` (all without it) to the folder `out`; returns the page to open first.

    A file holds everything that its deck needs. `notebooks` are the lessons as `executed` returns them; those that
    are not there are run where they are not kept from an earlier time, and `say` gets a line for each.
    Raises ValueError for an unknown lesson and where `out` holds an index.html that is not of earlier slides.
    """
    out, stems = Path(out), [course.stem(lesson) for lesson in (course.stems() if lessons is None else lessons)]
    index = out / "index.html"
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; name a folder for the slides")
    if index.is_file() and MARK not in index.read_text(encoding="utf-8", errors="replace"):
        raise ValueError(f"{index} is not of earlier slides; name another folder for the slides")
    markdown.mathml("x")  # to hear of a missing package before the lessons are run
    given = dict(notebooks or {})
    given |= executed([stem for stem in stems if stem not in given], say=say)
    out.mkdir(parents=True, exist_ok=True)
    there = {path.stem for path in out.glob("[0-9][0-9]_*.html")} | set(stems)
    for stem in stems:
        (out / f"{stem}.html").write_text(deck(given[stem], there), encoding="utf-8")
    if len(stems) == 1:
        return out / f"{stems[0]}.html"
    titles = {stem: _title((course.root() / "notebooks" / f"{stem}.py").read_text("utf-8")) for stem in sorted(there)}
    index.write_text(_index(titles), encoding="utf-8")
    return index


def deck(notebook: NotebookNode, stems: Iterable[str] = ()) -> str:
    """HTML of the slides of a lesson that has been run; links to the lessons `stems` lead to their slides.

    What other links lead to is not there without the course, so they stay as words; web addresses stay.
    """
    files = {f"{stem}.ipynb": f"{stem}.html" for stem in stems}

    def written(source: str) -> str:
        made = markdown.to_html(source, lambda url: url if "://" in url else files.get(url, ""))
        return re.sub(r'<a href="">(.*?)</a>', r"\1", made)

    exporter = SlidesExporter(template_name="slides", extra_template_basedirs=[str(FOLDER / "decks")])
    exporter.register_filter("deck_markdown", written)
    scripts = [FOLDER / "reveal" / "reveal.js", FOLDER / "reveal" / "notes.js", FOLDER / "decks" / "deck.js"]
    styles = [FOLDER / "reveal" / "reveal.css", FOLDER / "decks" / "deck.css"]
    made, _ = exporter.from_notebook_node(
        notebook,
        resources={
            "title": _title(notebook.cells[0].source),
            "mark": MARK,
            "plan": plan(notebook),
            "style": markdown.math_css() + "\n".join(path.read_text(encoding="utf-8") for path in styles),
            # As data, a script needs no care for what HTML reads in it.
            "scripts": [base64.b64encode(path.read_bytes()).decode() for path in scripts],
        },
    )
    return made


def plan(notebook: NotebookNode) -> tuple[int, str]:
    """Minutes of the lecture and how they are shared out, as the first speaker notes say; 0 and "" where they do not."""
    for cell in notebook.cells:
        if found := re.match(r"Lecture: (\d+) minutes\.\s(.*?\d)\.(?:\s|$)", cell.source, re.DOTALL):
            return int(found[1]), " ".join(found[2].split())
    return 0, ""


def _title(source: str) -> str:
    return re.search(r"^(?:# )?# (\d.+)$", source, re.MULTILINE)[1]


def _index(titles: dict[str, str]) -> str:
    items = "".join(f'<li><a href="{stem}.html">{html.escape(title)}</a></li>' for stem, title in titles.items())
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="{MARK}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Queueing Lab: slides</title>'
        "<style>body{font:1.1rem/1.8 system-ui,sans-serif;margin:2rem auto;max-width:40rem;padding:0 1rem}"
        "ul{list-style:none;padding:0}a{color:#005f94}</style></head><body><main><h1>Queueing Lab: slides</h1>"
        f"<ul>{items}</ul><p>Right and left turn the pages, S opens the speaker's notes, Esc shows all slides, "
        "F fills the screen. Each file works alone, from disk and without a network.</p></main></body></html>\n"
    )
