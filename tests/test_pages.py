"""The site: every page opened from disk with networking off, links, figures, search, frames; and how it is built."""

from __future__ import annotations

import json
import re
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from labsupport import cli, course
from labsupport.lab.check import questions
from labsupport.pages import executed, markdown
from labsupport.pages import site as builder


@pytest.fixture(scope="session")
def pages(site) -> dict[str, Parsed]:
    return {path.relative_to(site).as_posix(): Parsed(path) for path in sorted(site.rglob("*.html"))}


class Parsed(HTMLParser):
    """What a page holds: ids, tags with their attributes, and its words. Templates count: a script shows them."""

    def __init__(self, path: Path):
        super().__init__()
        self.path, self.ids, self.tags, self.words = path, [], [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if "id" in attrs:
            self.ids.append(attrs["id"])

    def handle_data(self, data):
        self.words.append(data)

    def all(self, *names: str) -> list[dict]:
        return [attrs for tag, attrs in self.tags if tag in names]


# -- what is written ------------------------------------------------------------------------------------


def test_there_is_a_page_for_each_lesson_exercise_and_the_glossary(pages):
    wanted = {f"{room}/{stem}.html" for room in ("notebooks", "exercises") for stem in course.stems()}
    assert set(pages) == wanted | {"index.html", "notebooks/glossary.html"}


def test_front_page_is_the_map_of_the_lessons(pages):
    front = " ".join(" ".join(pages["index.html"].words).split())
    for stem in course.stems():
        source = (course.root() / "notebooks" / f"{stem}.py").read_text(encoding="utf-8")
        title, question = re.search(r"^# # (.+)$", source, re.M)[1], re.search(r"^# \*\*(.+)\*\*$", source, re.M)[1]
        minutes = re.search(r"\*Time:\* (\d+) minutes", source)[1]
        assert title in front and question in front
        assert f"{title} {question} {minutes} minutes · {len(questions(stem))} exercise questions" in front


def test_no_link_or_anchor_is_broken_and_nothing_is_asked_of_the_network(site, pages):
    checked = 0
    for name, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), f"{name} has an id twice"
        for attrs in page.all("a"):
            to = urlsplit(attrs["href"])
            if to.scheme in ("http", "https"):
                continue  # a reader may follow it; the page itself does not
            assert not to.scheme, f"{name} links to {attrs['href']}"
            target = (page.path.parent / unquote(to.path)).resolve() if to.path else page.path
            other = pages.get(target.relative_to(site.resolve()).as_posix() if target != page.path else name)
            assert other, f"{name} links to {attrs['href']}, which is not there"
            assert not to.fragment or unquote(to.fragment) in other.ids, f"{name}: no anchor {attrs['href']}"
            checked += 1
        for attrs in page.all("img", "script", "link", "iframe", "source", "video"):
            address = attrs.get("src") or attrs.get("href") or ""
            inside = address.startswith("data:") or not address or (page.path.parent / address).is_file()
            assert inside, f"{name} loads {address[:100]}"
    assert checked > 500


def test_every_picture_has_a_text_alternative(pages):
    for name, page in pages.items():
        pictures = page.all("img")
        if name.startswith("notebooks/") and "glossary" not in name:
            assert len(pictures) > 10, f"{name} has {len(pictures)} pictures"
            assert all(len(attrs.get("alt") or "") > 20 for attrs in pictures), name
        assert all("alt" in attrs for attrs in pictures), name


def test_a_lesson_page_is_light_enough(pages):
    for name, page in pages.items():
        assert page.path.stat().st_size < 12e6, f"{name} has {page.path.stat().st_size / 1e6:.1f} MB"


@pytest.mark.parametrize("stem", course.stems())
def test_lesson_page_shows_what_the_lesson_says_and_leaves_out_what_only_a_lecturer_sees(executed_lessons, pages, stem):
    page = pages[f"notebooks/{stem}.html"]
    words = " ".join(" ".join(page.words).split())
    cells = executed_lessons[stem].cells
    code = sum(cell.cell_type == "code" for cell in cells)
    assert sum("code" in attrs.get("class", "") for attrs in page.all("details")) == code
    asked = sum("predict(" in cell.source or "ask_" in cell.source for cell in cells)
    assert words.count("In JupyterLab you commit a number here") == asked
    assert "VBox(" not in words and "Traceback" not in words and "FloatText" not in words
    assert not re.search(r"\$[^$]*\\\w+[^$]*\$", words), "a formula is left as LaTeX"
    for cell in cells:
        if cell.metadata.get("slideshow", {}).get("slide_type") == "notes":
            first = re.search(r"[\w ,:]{15,}", cell.source)[0].strip()
            assert first not in words, f"speaker notes are on the page: {first}"
    answers = sum(cell.source.count("<summary>") for cell in cells)
    assert sum(tag == "summary" for tag, _ in page.tags) == code + answers + 1


@pytest.mark.parametrize("stem", course.stems())
def test_exercise_page_is_the_blank_exercise(pages, stem):
    words = " ".join(pages[f"exercises/{stem}.html"].words)
    joined = " ".join(words.split())
    assert all(f'check( "{q}" )' in joined or f'"{q}"' in joined for q in questions(stem))
    assert "NotImplementedError" in joined and "BEGIN SOLUTION" not in joined


def test_search_leads_to_sections_and_terms_that_are_there(site, pages):
    script = (site / "search.js").read_text(encoding="utf-8")
    entries = json.loads(script.removeprefix("const SEARCH = ").rstrip(";\n"))
    assert {entry[0] for entry in entries} == set(pages) - {"index.html"}
    assert all(not anchor or anchor in pages[path].ids for path, _, anchor, _, _ in entries)
    assert not any("data:image" in entry[4] or "<" in entry[3] for entry in entries)
    assert any(entry[3].startswith("arrival rate") and "到达率" in entry[4] for entry in entries)


# -- in a browser -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def offline(chromium):
    """A tab without a network, and every address that was asked for."""
    chromium.set_offline(True)
    page = chromium.new_page()
    page.asked, page.wrong = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("console", lambda said: said.type == "error" and page.wrong.append(said.text))
    yield page
    page.close()
    chromium.set_offline(False)


@pytest.mark.browser
def test_every_page_opens_from_disk_without_a_request_or_an_error(site, pages, offline):
    for name in pages:
        offline.goto((site / name).as_uri())
        broken = offline.evaluate(
            """async () => {
                for (const image of document.images) image.loading = 'eager';
                const bad = [];
                for (const image of document.images) await image.decode().catch(() => bad.push(image.alt));
                return bad;
            }"""
        )
        assert broken == [], f"{name}: figures that cannot be shown"
        wide = offline.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} is {wide} px wider than the window"
    assert {urlsplit(url).scheme for url in offline.asked} <= {"file", "data"}
    assert offline.wrong == []


@pytest.mark.browser
@pytest.mark.parametrize("stem", course.stems())
def test_frames_slider_moves_picture_and_texts_at_constant_height(site, offline, stem):
    offline.goto((site / "notebooks" / f"{stem}.html").as_uri())
    boxes = offline.locator(".qlab-frames")
    assert boxes.count() >= 1
    for box in boxes.all():
        slider, output = box.get_by_role("slider"), box.locator("output")
        assert box.locator("label").inner_text()

        def state(box=box, slider=slider, output=output):
            shown = box.evaluate(
                "box => [...box.querySelectorAll('img')].filter(i => i.checkVisibility({visibilityProperty: true}))"
                ".map(i => [i.src, i.alt])"
            )
            assert len(shown) == 1, "not one picture is shown"
            assert slider.get_attribute("aria-valuetext") == output.inner_text()
            return shown[0], output.inner_text(), box.bounding_box()["height"]

        before = state()
        forth, back = ("ArrowRight", "ArrowLeft")
        if slider.input_value() == slider.get_attribute("max"):
            forth, back = back, forth
        slider.press(forth)
        after = state()
        assert after[1] != before[1] and after[2] == before[2]
        slider.press(back)
        assert state() == before
        ends = {}
        for key in ("Home", "End"):
            slider.press(key)
            ends[key] = state()
        assert ends["Home"][0] != ends["End"][0] and ends["Home"][2] == ends["End"][2] == before[2]
    assert offline.wrong == []


@pytest.mark.browser
def test_on_a_phone_only_pictures_tables_and_formulas_scroll_sideways(site, offline):
    size = offline.viewport_size
    offline.set_viewport_size({"width": 390, "height": 800})
    for name in ("index.html", "notebooks/05_batching.html", "exercises/05_batching.html", "notebooks/glossary.html"):
        offline.goto((site / name).as_uri())
        offline.evaluate("() => document.fonts.ready")
        assert offline.evaluate("() => document.documentElement.scrollWidth") <= 390, name
        unreachable = offline.evaluate(
            """() => [...document.querySelectorAll('main *')].filter(e => e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0
                && e.clientWidth && getComputedStyle(e).overflowX === 'auto').map(e => e.outerHTML.slice(0, 80))"""
        )
        assert unreachable == [], f"{name}: scrolls, but not by keyboard"
    offline.set_viewport_size(size)


@pytest.mark.browser
def test_page_without_script_shows_the_start_of_each_explorer(site, executed_lessons, chromium):
    page = chromium.new_page()
    cdp = chromium.new_cdp_session(page)
    cdp.send("Emulation.setScriptExecutionDisabled", {"value": True})
    page.goto((site / "notebooks" / "01_little.html").as_uri())
    for box in page.locator(".qlab-frames").all():
        assert box.locator("img").count() == 1 and box.locator("img").is_visible()
        assert not box.locator("input").is_visible()
    page.close()


@pytest.mark.browser
def test_search_finds_a_word_and_goes_there_from_the_keyboard(site, offline):
    offline.goto((site / "exercises" / "01_little.html").as_uri())
    field = offline.get_by_role("searchbox", name="Search all pages")
    field.fill("coordinated omission")
    first = offline.locator("#found a").first
    assert "oordinated omission" in first.inner_text()
    field.press("Enter")
    offline.wait_for_url("**/*.html*")
    assert "oordinated omission" in offline.title() or "Glossary" in offline.title()
    offline.get_by_role("searchbox").fill("到达率")
    assert "arrival rate" in offline.locator("#found").inner_text()
    offline.get_by_role("searchbox").fill("zebra giraffe")
    assert offline.locator("#found [role=status]").inner_text() == "Nothing found for zebra giraffe"


@pytest.mark.browser
def test_skip_link_comes_first_and_answers_open(site, offline):
    offline.goto((site / "notebooks" / "01_little.html").as_uri())
    offline.keyboard.press("Tab")
    assert offline.evaluate("() => document.activeElement.textContent") == "Skip to the content"
    answer = offline.locator("details:not(.code, .contents)").first
    assert not answer.locator("p").first.is_visible()
    answer.locator("summary").click()
    assert answer.locator("p").first.is_visible()


@pytest.mark.browser
def test_brackets_of_a_formula_grow_with_what_is_between_them(site, offline):
    """Without a font for formulas, which few systems have, they stay as high as a letter."""
    offline.goto((site / "notebooks" / "05_batching.html").as_uri())
    offline.evaluate("() => document.fonts.ready")
    bracket, fraction = offline.evaluate(
        """() => {
            const bracket = [...document.querySelectorAll('mo')].find(
                mo => mo.textContent === '[' && mo.nextElementSibling?.matches('mfrac, mrow:has(> mfrac)'));
            return [bracket, bracket.nextElementSibling].map(element => element.getBoundingClientRect().height);
        }"""
    )
    assert bracket > 0.8 * fraction


# -- how it is built ------------------------------------------------------------------------------------------


def test_folder_with_something_else_is_refused_and_an_earlier_site_is_not(tmp_path, capsys, monkeypatch):
    (tmp_path / "thesis.txt").write_text("precious")
    assert cli.main(["site", str(tmp_path)]) == 2
    assert f"{tmp_path} holds something else than an earlier site; name a new or empty folder" in capsys.readouterr().err
    (tmp_path / "index.html").write_text("<h1>mine</h1>")
    assert cli.main(["site", str(tmp_path)]) == 2
    assert (tmp_path / "index.html").read_text() == "<h1>mine</h1>"

    few = {"01_little": small_notebook()}
    first = builder.build(tmp_path / "site", few)
    (tmp_path / "site" / "notebooks" / "99_gone.html").touch()
    assert builder.build(tmp_path / "site", few) == first
    assert not (tmp_path / "site" / "notebooks" / "99_gone.html").exists()


def test_missing_package_is_said_before_lessons_are_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", None)
    monkeypatch.setattr(builder, "executed", lambda **_: pytest.fail("the lessons are run"))
    assert cli.main(["site", str(tmp_path / "site")]) == 2
    assert "pip install latex2mathml" in capsys.readouterr().err


def small_notebook() -> nbformat.NotebookNode:
    title = "# 01 Little's law\n\n**How many?**\n\n*Time:* 45 minutes."
    out = nbformat.v4.new_output("stream", text="a <b> \x1b[31mred\x1b[0m")
    code = nbformat.v4.new_code_cell("print()", outputs=[out])
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(title), code])


def test_printed_text_is_escaped(tmp_path):
    page = builder.build(tmp_path / "site", {"01_little": small_notebook()}).parent / "notebooks" / "01_little.html"
    assert "a &lt;b&gt; " in page.read_text() and "red</span>" in page.read_text()


def test_markdown_of_a_page():
    made = markdown.to_html("## *Why* $x<y$\n\n$$L = \\lambda W$$\n\n| a |\n|---|\n| [b](b.ipynb#c) |", builder._link)
    assert '<h2 id="why-x-y"><em>Why</em> <math' in made and made.count("<math") == 2
    assert 'display="block"' in made and '<th scope="col">a</th>' in made and 'href="b.html#c"' in made
    assert list(markdown.headings(made))[0][:2] == (2, "why-x-y")
    assert builder._link("https://example.org/a.py") == "https://example.org/a.py"


# -- lessons that have been run ----------------------------------------------------------------------------------


@pytest.fixture
def toy_course(tmp_path, monkeypatch):
    """A course of one lesson, 01_toy, and a folder to keep what has been run."""
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setattr(course, "root", lambda: tmp_path)

    def write(code: str, text: str = "Words") -> None:
        source = f"# %% [markdown]\n# {text}\n\n# %%\n{code}\n"
        (tmp_path / "notebooks" / "01_toy.py").write_text(source, encoding="utf-8")

    return write


def run(tmp_path) -> nbformat.NotebookNode:
    return executed.executed(["01_toy"], cache=tmp_path / "kept")["01_toy"]


def test_lesson_is_run_once_without_a_learners_folder_and_again_when_its_code_changes(toy_course, tmp_path):
    toy_course("import os, random\nprint(random.random(), os.environ['QLAB_PROGRESS'], os.environ['QLAB_WORK'])")
    first = run(tmp_path).cells[1].outputs[0].text
    assert " off " in first and not Path(first.split()[-1]).exists(), "the lesson's folder was not a passing one"
    toy_course("import os, random\nprint(random.random(), os.environ['QLAB_PROGRESS'], os.environ['QLAB_WORK'])", "Others")
    again = run(tmp_path)
    assert again.cells[0].source == "Others" and again.cells[1].outputs[0].text == first
    toy_course("import random\nprint(random.random())")
    assert run(tmp_path).cells[1].outputs[0].text != first
    assert len(list((tmp_path / "kept").glob("*.ipynb"))) == 1, "what nobody needs any more is kept"


def test_lessons_that_measure_a_server_run_alone(monkeypatch, tmp_path):
    seen = []

    def kept(stem, *_):
        seen.append(stem)
        time.sleep(0.05)
        seen.append(stem)

    monkeypatch.setattr(executed, "_kept", kept)
    assert list(executed.executed(cache=tmp_path, jobs=4)) == course.stems()
    measuring = [stem for stem in course.stems() if executed._measures(stem)]
    assert "08_coordinated_omission" in measuring and "01_little" not in measuring
    assert seen[-2 * len(measuring) :] == [stem for stem in measuring for _ in range(2)]


def test_widgets_alone_leave_nothing_and_explorers_become_frames(toy_course, tmp_path):
    toy_course("import ipywidgets\nfrom labsupport import arrivals\ndisplay(ipywidgets.IntProgress())\narrivals.clumping()")
    (output,) = run(tmp_path).cells[1].outputs
    assert set(output.data) == {"text/plain", "text/html"} and "qlab-frames" in output.data["text/html"]


def test_lesson_that_raises_is_named_with_its_error(toy_course, tmp_path):
    toy_course("1 / 0")
    with pytest.raises(ValueError, match="lesson 01_toy stops with ZeroDivisionError: division by zero"):
        run(tmp_path)
    assert not list((tmp_path / "kept").glob("*.ipynb"))
