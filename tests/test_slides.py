"""Slides: live in JupyterLab, and as pages that need no kernel; what lessons say to the speaker."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import browser
import jupytext
import nbformat
import pytest

from labsupport import cli, course, slides
from labsupport.lab.aloud import BEFORE
from labsupport.pages import slides as static

SCREEN = {"width": 1024, "height": 768}  # of the projector that everything must fit
STEPS = ("slide", "subslide", "fragment")


def slide_type(cell) -> str:
    return cell.metadata.get("slideshow", {}).get("slide_type", "")


@pytest.fixture(scope="module", params=course.stems())
def lesson(request):
    return jupytext.read(course.root() / "notebooks" / f"{request.param}.py")


# -- what is written in the lessons --------------------------------------------------------------------


def test_every_cell_has_its_slide_type(lesson):
    assert slide_type(lesson.cells[0]) == "slide"
    for cell in lesson.cells:
        assert slide_type(cell) in {*STEPS, "notes", "skip"}, cell.source


def test_speaker_notes_plan_the_lecture_and_have_questions_to_ask(lesson):
    notes = [cell.source.replace("\n", " ") for cell in lesson.cells if slide_type(cell) == "notes"]
    assert notes[0].startswith("Lecture: ")
    total, plan = static.plan(lesson)
    assert sum(int(re.search(r" (\d+)$", part)[1]) for part in plan.split(", ")) == total
    assert 20 <= total <= 30 and total < int(re.search(r"\*Time:\* (\d+) minutes", lesson.cells[0].source)[1])
    asked = [note for note in notes if re.search(r"\b[Aa]sk\b|\bvote\b|\bhands\b", note)]
    assert len(asked) >= 2, "fewer than two places where the speaker asks something"


# -- pages without a kernel ---------------------------------------------------------------------------


def cell(kind: str, source: str, slide: str, *outputs):
    made = getattr(nbformat.v4, f"new_{kind}_cell")(source, metadata={"slideshow": {"slide_type": slide}})
    if kind == "code":
        made.outputs = list(outputs)
    return made


SMALL = nbformat.v4.new_notebook(
    cells=[
        cell("markdown", "# 01 Small\n\n[next](02_other.ipynb), [work](../exercises/01_small.ipynb)", "slide"),
        cell("markdown", "Lecture: 7 minutes. All 7.\nAsk: *why*?", "notes"),
        cell("code", "secret = 1", "skip"),
        cell("markdown", "$x^2$ <a href='https://example.org'>web</a>", "fragment"),
        cell("code", "hidden()", "subslide", nbformat.v4.new_output("stream", text="said\n")),
        cell("code", "html()", "fragment", nbformat.v4.new_output("display_data", {"text/html": "<b>bold</b>"})),
    ]
)


def test_deck_has_slides_fragments_and_notes_and_no_code():
    made = static.deck(SMALL, ["01_small", "02_other"])
    body = re.sub(r"<(script|style).*?</\1>", "", made, flags=re.DOTALL)
    assert body.count("<section") == body.count("</section") == 3, "one slide of two subslides"
    assert body.count('class="fragment"') == 2
    assert '<aside class="notes">' in body and "<em>why</em>" in body and 'data-minutes="7"' in body
    assert "<math" in body and "$" not in body
    assert "said" in body and "<b>bold</b>" in body
    assert not re.search("secret|hidden|html\\(\\)", body), "code is shown"


def test_links_of_a_deck_lead_to_decks_that_are_there():
    links = re.findall(r"<a href=[\"'](.*?)[\"']", static.deck(SMALL, ["01_small", "02_other"]))
    assert links == ["02_other.html", "https://example.org"]
    assert re.findall(r"<a href=[\"'](.*?)[\"']", static.deck(SMALL)) == ["https://example.org"]


def test_build_writes_an_index_and_keeps_other_peoples_files(tmp_path):
    stems = course.stems()[:2]
    notebooks = dict.fromkeys(stems, SMALL)
    assert static.build(tmp_path / "new", stems[:1], notebooks=notebooks).name == f"{stems[0]}.html"
    index = static.build(tmp_path / "new", stems, notebooks=notebooks)
    assert re.findall('href="(.*?)"', index.read_text()) == [f"{stem}.html" for stem in stems]
    assert all((tmp_path / "new" / f"{stem}.html").is_file() for stem in stems)
    static.build(tmp_path / "new", stems, notebooks=notebooks)  # over earlier slides

    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(ValueError, match="not of earlier slides; name another folder"):
        static.build(tmp_path, stems, notebooks=notebooks)
    with pytest.raises(ValueError, match="is a file; name a folder"):
        static.build(tmp_path / "index.html", stems, notebooks=notebooks)
    assert (tmp_path / "index.html").read_text() == "mine"
    with pytest.raises(ValueError, match="choose one of"):
        static.build(tmp_path / "other", ["99"], notebooks=notebooks)


@pytest.fixture(scope="module")
def decks(executed_lessons, tmp_path_factory):
    """Static slides of all lessons, in a folder."""
    return static.build(tmp_path_factory.mktemp("slides"), notebooks=executed_lessons).parent


class Deck:
    """A deck opened from disk, with no network, and every request that it makes."""

    # What can be seen of the slide must lie inside it: below there are its number and the arrows.
    STATE = """() => {
        const slide = Reveal.getCurrentSlide(), scale = Reveal.getScale();
        const seen = [...slide.querySelectorAll('.text > *, .output > *')].map(e => e.getBoundingClientRect());
        const small = [...slide.querySelectorAll('.text, .text *, table *, .qlab-frames > div *')]
            .filter(e => !e.closest('math, aside') && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
            .filter(e => parseFloat(getComputedStyle(e).fontSize) < 18).map(e => e.textContent);
        return {
            at: Object.values(Reveal.getIndices()).join('/'),
            right: Math.max(0, ...seen.map(box => box.right)) / scale,
            bottom: Math.max(0, ...seen.map(box => box.bottom)) / scale,
            picture: Number(document.querySelector('.reveal').style.getPropertyValue('--picture') || 1),
            small,
            broken: [...slide.querySelectorAll('img')].filter(i => i.complete && !i.naturalWidth).map(i => i.alt),
        };
    }"""

    def __init__(self, page, path: Path):
        self.page, self.asked, self.errors = page, [], []
        page.set_viewport_size(SCREEN)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_function("() => window.Reveal?.isReady()")

    def walk(self, key: str) -> list[dict]:
        """The states that pressing a key leads through, this one first, until nothing moves."""
        states = [self.page.evaluate(self.STATE)]
        while True:
            self.page.keyboard.press(key)
            state = self.page.evaluate(self.STATE)
            if state["at"] == states[-1]["at"]:
                return states
            states.append(state)

    def picture(self, frames) -> str:
        """Words of the picture that can be seen."""
        return frames.evaluate(
            """box => [...box.querySelectorAll('img')].filter(i => getComputedStyle(i).visibility === 'visible')
                .map(i => i.alt).join('|')"""
        )


@pytest.fixture
def offline(chromium):
    chromium.set_offline(True)
    yield chromium
    chromium.set_offline(False)


@pytest.mark.browser
@pytest.mark.parametrize("stem", course.stems())
def test_deck_fits_the_projector_and_arrows_go_through_it(offline, decks, executed_lessons, stem):
    deck = Deck(offline.new_page(), decks / f"{stem}.html")
    forward = deck.walk("ArrowRight")
    steps = [cell for cell in executed_lessons[stem].cells if slide_type(cell) in STEPS]
    assert len(forward) == len(steps)
    for state in forward:
        assert state["bottom"] <= SCREEN["height"] - 24, f"step {state['at']} is too high"
        assert state["right"] <= SCREEN["width"] - 40, f"step {state['at']} is too wide"
        assert state["picture"] >= 0.85, f"step {state['at']}: a picture is too small; give it a slide of its own"
        assert not state["small"], f"step {state['at']} has text that the back row cannot read"
        assert not state["broken"], f"step {state['at']} lacks a picture"
    back = deck.walk("ArrowLeft")
    assert [state["at"] for state in back] == [state["at"] for state in reversed(forward)]

    # An explorer's slider moves its picture; the arrows then belong to it, and after the mouse to the deck.
    frames = deck.page.locator("section.present > section.present .qlab-frames")
    while not (frames.count() and frames.is_visible()):
        deck.page.keyboard.press("ArrowRight")
    at, seen = deck.page.evaluate(deck.STATE)["at"], deck.picture(frames)
    slider = frames.locator("input")
    slider.focus()
    deck.page.keyboard.press("ArrowRight")
    moved = deck.picture(frames)
    assert moved and moved != seen and "|" not in moved
    assert deck.page.evaluate(deck.STATE)["at"] == at
    slider.click(position={"x": 3, "y": 5})
    assert deck.picture(frames) != moved
    deck.page.keyboard.press("ArrowRight")
    assert deck.page.evaluate(deck.STATE)["at"] != at

    # An answer that is opened fits too.
    for details in deck.page.locator("details").all():
        details.evaluate("one => { Reveal.slide(...Object.values(Reveal.getIndices(one.closest('section'))), 99) }")
        details.evaluate("one => { one.open = true }")
        assert deck.page.evaluate(deck.STATE)["bottom"] <= SCREEN["height"] - 24, details.inner_text()

    assert not [url for url in deck.asked if not url.startswith(("file:", "data:", "blob:"))]
    assert not deck.errors
    deck.page.close()


@pytest.mark.browser
def test_speaker_view_shows_the_notes_from_disk(offline, decks):
    deck = Deck(offline.new_page(), decks / f"{course.stems()[0]}.html")
    with offline.expect_page() as opened:
        deck.page.keyboard.press("s")
    notes = opened.value.locator(".speaker-controls-notes .value")
    notes.filter(has_text="Lecture:").wait_for(timeout=20_000)
    for _ in range(3):
        deck.page.keyboard.press("ArrowRight")
    notes.filter(has_not_text="Lecture:").filter(has_text="minutes: Predict").wait_for(timeout=20_000)
    opened.value.close()
    deck.page.close()


# -- live -----------------------------------------------------------------------------------------------


def test_without_the_extension_one_sentence_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert cli.main(["slides", "01"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and 'pip install "queueing-lab[slides]"' in said and "--static" in said


@pytest.mark.parametrize(("arguments", "told"), [([], "name one lesson"), (["01", "02"], "name one lesson")])
def test_one_lesson_is_shown_at_a_time(arguments, told, capsys):
    assert cli.main(["slides", *arguments]) == 2
    assert told in capsys.readouterr().err


class LiveDeck:
    """The lesson that `qlab slides` presents."""

    PICTURE = f'.jp-deck-mod-visible .qlab-explorer img.widget-image:not([alt="{BEFORE}"]):not([title="{BEFORE}"])'

    def __init__(self, page, lab: browser.Lab):
        self.page, self.errors = page, []
        page.set_viewport_size(SCREEN)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(lab.url)
        page.wait_for_function("() => document.body.dataset.jpDeckMode === 'presenting'", timeout=60_000)
        page.wait_for_function(  # all cells have been run
            """() => {
                const panel = window.jupyterapp?.shell.currentWidget;
                const code = panel?.content.widgets.filter(cell => cell.model.type === 'code');
                return code?.length && code.every(cell => cell.model.executionCount)
                    && panel.sessionContext.session.kernel.status === 'idle';
            }""",
            timeout=120_000,
        )

    @property
    def at(self) -> int:
        return self.page.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex")

    def press(self, key: str) -> int:
        self.page.keyboard.press(key)
        self.page.wait_for_timeout(150)  # pictures are fitted with the next frame
        return self.at

    def over(self) -> int:
        """By how many pixels the slide is higher or wider than the screen."""
        return self.page.evaluate(
            """() => {
                const part = document.querySelector('.jp-Deck .jp-WindowedPanel-outer');
                return Math.max(part.scrollHeight - part.clientHeight, part.scrollWidth - part.clientWidth);
            }"""
        )

    def alt(self) -> str:
        return self.page.locator(self.PICTURE).first.evaluate("image => image.alt || image.title")

    def wait_for_another(self, alt: str) -> None:
        self.page.wait_for_function(
            """([picture, alt]) => {
                const image = document.querySelector(picture);
                return image && (image.alt || image.title) !== alt && image.complete;
            }""",
            arg=[self.PICTURE, alt],
        )


@pytest.fixture(scope="module")
def deck_lab(tmp_path_factory):
    if importlib.util.find_spec("jupyterlab_slideshow") is None:
        pytest.skip('live slides are not installed; pip install "queueing-lab[slides]"')
    with browser.qlab_lab(tmp_path_factory.mktemp("deck"), "00", command="slides") as running:
        yield running


@pytest.mark.browser
def test_live_slides_have_sliders_and_leave_the_learners_files_alone(chromium, deck_lab):
    deck = LiveDeck(chromium.new_page(), deck_lab)
    cells = jupytext.read(course.root() / "notebooks" / f"{course.stem('00')}.py").cells
    steps = [n for n, cell in enumerate(cells) if slide_type(cell) in STEPS]

    assert deck.at == 0
    seen, first_explorer = [0], None
    for key in ["ArrowRight", "PageDown"] * (len(steps) // 2):
        if len(seen) < len(steps):
            seen.append(deck.press(key))
            assert deck.over() <= 0, f"cell {seen[-1]} does not fit"
            if first_explorer is None and deck.page.locator(deck.PICTURE).count():
                first_explorer = seen[-1]
                alt = deck.alt()
                handle = deck.page.locator(".jp-deck-mod-visible .noUi-handle").first
                box = handle.bounding_box()
                deck.page.mouse.move(box["x"] + 8, box["y"] + 8)
                deck.page.mouse.down()
                deck.page.mouse.move(box["x"] - 60, box["y"] + 8, steps=4)
                deck.page.mouse.up()
                deck.wait_for_another(alt)
                alt = deck.alt()
                handle.focus()
                deck.page.keyboard.press("ArrowRight")
                deck.wait_for_another(alt)
                assert deck.at == seen[-1], "the slider's arrow turned the page"
                deck.page.locator(".jp-deck-mod-visible .noUi-base").first.click(position={"x": 20, "y": 2})
    assert seen == steps
    assert first_explorer is not None
    assert [deck.press("ArrowLeft") for _ in steps[1:]] == steps[-2::-1]
    assert not deck.errors

    deck.press("Escape")
    deck.page.wait_for_function("() => !document.body.dataset.jpDeckMode")
    deck.page.close()
    assert {path.name for path in deck_lab.work.iterdir()} == {"slides"}, "something lies among the learner's files"


def test_slides_run_with_the_users_settings_and_keep_none_of_their_own(tmp_path, monkeypatch):
    pytest.importorskip("jupyterlab_slideshow")
    own = tmp_path / "own" / "@jupyterlab" / "apputils-extension"
    own.mkdir(parents=True)
    (own / "themes.jupyterlab-settings").write_text('{"theme": "JupyterLab Dark"}')
    monkeypatch.setenv("JUPYTERLAB_SETTINGS_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("QLAB_WORK", str(tmp_path / "work"))
    monkeypatch.setenv("QLAB_PROGRESS", "")
    served = {}

    def serve(stem, *, work, options, **others):
        [settings] = [option.partition("=")[2] for option in options if "user_settings_dir" in option]
        theme = Path(settings) / "@jupyterlab" / "apputils-extension" / "themes.jupyterlab-settings"
        served.update(stem=stem, work=work, theme=theme.read_text())

    monkeypatch.setattr(slides.lab_server, "serve", serve)
    slides.serve("3")
    assert served == {
        "stem": course.stem("3"),
        "work": tmp_path / "work" / "slides",
        "theme": '{"theme": "JupyterLab Dark"}',
    }
    assert [path.name for path in (tmp_path / "own").rglob("*") if path.is_file()] == ["themes.jupyterlab-settings"]
