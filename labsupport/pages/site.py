"""The course as a site to read: pages that work from disk, without a kernel and without a network.

The folders are those of the course, so that a link between two notebooks leads to the page of the other when its
ending is changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat
from jinja2 import Environment, FileSystemLoader
from nbconvert.filters import Highlight2HTML, ansi2html

from labsupport import course
from labsupport.lab.check import questions

from . import markdown
from .executed import executed

TEMPLATES = Path(__file__).with_name("templates")
MARK = '<meta name="generator" content="Queueing Lab">'  # by which an earlier site is known


@dataclass(frozen=True)
class Page:
    """One page: its path in the site, its title as plain text, a sentence for search engines, and the HTML of <main>."""

    path: str
    title: str
    description: str
    body: str


@dataclass(frozen=True)
class Lesson:
    """What the first cell of a lesson says: title, question and minutes; and the lesson's page, with its first picture."""

    stem: str
    title: str
    question: str
    minutes: int
    picture: str
    page: Page

    path = property(lambda self: self.page.path)
    exercise = property(lambda self: f"exercises/{self.stem}.html")
    questions = property(lambda self: len(questions(self.stem)))


def build(
    out: str | Path = "site",
    notebooks: dict[str, nbformat.NotebookNode] | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Path:
    """Write the site to the folder `out` and return its first page.

    `notebooks` are the lessons as `executed` returns them; without it they are run where they are not kept from an
    earlier time, and `say` is told of it. Raises ValueError where `out` holds something else than an earlier site.
    """
    out = Path(out)
    _refuse(out)
    markdown.mathml("x")  # to hear of a missing package before the lessons are run
    if notebooks is None:
        say("Lessons that have changed since the last time are run, which may take some minutes.")
        notebooks = executed(say=say)
    lessons = [_lesson(stem, notebook) for stem, notebook in notebooks.items()]
    exercises = [_exercise(lesson) for lesson in lessons]
    glossary = _glossary()
    front = Page(
        "index.html",
        "Queueing Lab",
        "Queueing and performance evaluation for people who serve LLMs",
        _template("index.html.j2").render(lessons=lessons, glossary=glossary and glossary.path),
    )
    pages = [front, *(lesson.page for lesson in lessons), *exercises, *([glossary] if glossary else [])]

    for folder in ("notebooks", "exercises"):
        (out / folder).mkdir(parents=True, exist_ok=True)
        for old in (out / folder).glob("*.html"):
            old.unlink()
    rows = [[lesson.page for lesson in lessons], exercises]
    turns = {page.path: (row, at) for row in rows for at, page in enumerate(row)}
    for page in pages:
        row, at = turns.get(page.path, ([page], 0))
        html = _template("page.html.j2").render(
            page=page,
            root="../" * page.path.count("/"),
            before=row[at - 1] if at else None,
            after=row[at + 1] if at + 1 < len(row) else None,
            glossary=glossary and glossary.path,
        )
        (out / page.path).write_text(html, encoding="utf-8")
    styles = (TEMPLATES / "site.css").read_text(encoding="utf-8")
    # Inside the style sheet, since not every browser takes a font from another folder of a disk.
    (out / "site.css").write_text(markdown.math_css() + styles, encoding="utf-8")
    (out / "site.js").write_bytes((TEMPLATES / "site.js").read_bytes())
    index = [entry for page in pages[1:] for entry in _entries(page)]
    script = f"const SEARCH = {json.dumps(index, ensure_ascii=False, separators=(',', ':'))};\n"
    (out / "search.js").write_text(script, encoding="utf-8")
    return out / front.path


def _refuse(out: Path) -> None:
    first = out / "index.html"
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; name a folder for the site")
    earlier = first.is_file() and MARK in first.read_text(encoding="utf-8", errors="replace")
    if out.is_dir() and any(out.iterdir()) and not earlier:
        raise ValueError(f"{out} holds something else than an earlier site; name a new or empty folder")


# -- pages ------------------------------------------------------------------------------------------------


def _lesson(stem: str, notebook: nbformat.NotebookNode) -> Lesson:
    first = notebook.cells[0].source
    title, question, minutes = (
        re.search(pattern, first, re.MULTILINE)[1]
        for pattern in (r"^# (.+)$", r"^\*\*(.+)\*\*$", r"\*Time:\* (\d+) minutes")
    )
    note = (
        '<div class="note"><p>Each slider here moves one setting. In JupyterLab all of them move, and the '
        f"exercises are checked: <code>qlab lab {stem[:2]}</code>.</p></div>"
    )
    cells = [cell for cell in notebook.cells if cell.metadata.get("slideshow", {}).get("slide_type") != "notes"]
    body = _cells(cells, fold=True, after_title=note)
    picture = re.search(r'<img alt="[^"]*" data-at[^>]* src="([^"]*)"', body)
    page = Page(f"notebooks/{stem}.html", title, question, _with_contents(body))
    return Lesson(stem, title, question, int(minutes), picture[1] if picture else "", page)


def _exercise(lesson: Lesson) -> Page:
    notebook = jupytext.read(course.root() / "exercises" / f"{lesson.stem}.py")
    title = re.search(r"^# (.+)$", notebook.cells[0].source, re.MULTILINE)[1]
    note = (
        '<div class="note"><p>Here they can be read. To solve them, with a check and hints for each: '
        f"<code>qlab lab {lesson.stem[:2]}</code>, then <code>exercises/{lesson.stem}.ipynb</code>.</p></div>"
    )
    body = _cells(notebook.cells, fold=False, after_title=note)
    return Page(lesson.exercise, title, f"{title}: {lesson.questions} questions", _with_contents(body))


def _glossary() -> Page | None:
    source = course.root() / "notebooks" / "glossary.md"
    if not source.is_file():
        return None
    body = _term_ids(markdown.to_html(source.read_text(encoding="utf-8"), _link))
    title = next(markdown.text(inner) for level, _, inner in markdown.headings(body) if level == 1)
    return Page("notebooks/glossary.html", title, "The terms of the course", f'<div class="glossary">{body}</div>')


def _term_ids(body: str) -> str:
    """Give each row of the glossary an id by its term, so that search can lead there, and say that the second is Chinese."""

    def named(match):
        return f'<tr id="{markdown.slug(match[1])}">\n  <td>{match[1]}</td>\n  <td lang="zh">'

    return re.sub(r"<tr>\n  <td>(.*?)</td>\n  <td>", named, body)


def _cells(cells, *, fold: bool, after_title: str) -> str:
    return _template("cells.html.j2").render(cells=cells, fold=fold, after_title=after_title)


def _with_contents(body: str) -> str:
    """The page with a list of its sections below its title and what is said of it."""
    items = "".join(f'<li><a href="#{i}">{text}</a></li>' for level, i, text in markdown.headings(body) if level == 2)
    contents = f'<details class="contents"><summary>On this page</summary><ol>{items}</ol></details>'
    head, note, rest = body.partition('<div class="note">')
    return f"{head}{contents}{note}{rest}"


def _link(address: str) -> str:
    """A link between sources or notebooks of the course as one between pages."""
    path, mark, anchor = address.partition("#")
    if "://" not in path and path.endswith((".ipynb", ".py", ".md")):
        path = f"{path.rpartition('.')[0]}.html"
    return path + mark + anchor


def _template(name: str):
    environment = Environment(loader=FileSystemLoader(TEMPLATES))
    environment.filters |= {
        "markdown": lambda source: markdown.to_html(source, _link),
        "code": Highlight2HTML(pygments_lexer="python"),
        "ansi": ansi2html,
    }
    return environment.get_template(name)


# -- search -----------------------------------------------------------------------------------------------


def _entries(page: Page) -> list[list[str]]:
    """What search finds of a page: path, title of the page, anchor, heading and text of each section or term."""
    body = re.sub(r"<(script|template|style)>.*?</\1>|<div class=\"note\">.*?</div>", " ", page.body, flags=re.DOTALL)
    body = re.sub(r'<img alt="([^"]*)"[^>]*>', lambda image: f" {image[1]} ", body)
    body = re.sub(r'<details class="contents">.*?</details>', " ", body)
    found = []
    for section in re.split(r"(?=<h[1-6] id=|<tr id=)", body)[1:]:
        if term := re.match(r'<tr id="([^"]*)">\s*<td>(.*?)</td>(.*?)</tr>', section, re.DOTALL):
            anchor, heading, rest = term.groups()
        else:
            level, anchor, heading = next(markdown.headings(section))
            anchor = "" if level == 1 else anchor
            rest = section.partition(f"</h{level}>")[2]
        found.append([page.path, page.title, anchor, markdown.text(heading), markdown.text(rest)])
    return found
