"""The course for those who do not see it, or not its colours: names, keyboard, words for pictures, contrast."""

from __future__ import annotations

import importlib
import re

import browser
import nbformat
import numpy as np
import pytest
from matplotlib import colors
from matplotlib.patheffects import withStroke
from matplotlib.text import Text

from labsupport import course
from labsupport.lab import Table, style
from labsupport.lab.aloud import BEFORE
from labsupport.lab.canvas import Canvas
from labsupport.lab.report import NOT_YET, PASSED, TO_DO, Line, Report

READABLE = 4.5  # WCAG 2.1, contrast of text, level AA


def luminance(colour) -> np.ndarray:
    """Relative luminance of one colour or of many (WCAG 2.1)."""
    rgb = colors.to_rgba_array(colour)[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ (0.2126, 0.7152, 0.0722)


def contrast(one, other) -> float:
    low, high = sorted((luminance(one)[0], luminance(other)[0]))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_as_wcag_defines_it():
    assert contrast("white", "black") == pytest.approx(21)
    assert contrast("#777777", "white") == pytest.approx(4.48, abs=0.005)  # the known grey that just fails


# -- figures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["BLUE", "VERMILLION", "GREEN", "PURPLE", "BROWN", "GREY", "INK"])
def test_every_text_colour_is_readable_on_white(name):
    assert contrast(getattr(style, name), "white") >= READABLE


def test_waiting_and_service_differ_without_hue():
    """The two fills that lie side by side in timelines, in a black and white print."""
    assert contrast(style.ORANGE, style.BLUE) >= 2


def explorers():
    for stem in course.stems():
        for make in importlib.import_module(f"labsupport.{stem.partition('_')[2]}").EXPLORERS:
            yield pytest.param(make, id=f"{stem}.{make.__name__}")


def unreadable(canvas: Canvas) -> list[str]:
    """Texts of a picture that stand out too little from the colours behind them; leaves the picture without text."""
    canvas.png()
    texts = [t for t in canvas._figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    boxes = [text.get_window_extent() for text in texts]
    for text in texts:
        text.set_visible(False)
    canvas._figure.stale = True
    picture, found = np.asarray(canvas._pixels()), []
    for text, box in zip(texts, boxes, strict=True):
        rows = slice(max(0, canvas.height - round(box.y1)), max(0, canvas.height - round(box.y0)))
        behind = picture[rows, max(0, round(box.x0)) : max(0, round(box.x1))].reshape(-1, 3)
        if not len(behind):  # a tick outside the axes
            continue
        if any(isinstance(effect, withStroke) for effect in text.get_path_effects()):
            grounds = np.array([[1, 1, 1]])  # its halo
        else:
            shades, pixels = np.unique(np.minimum(behind // 8 * 8 + 7, 255), axis=0, return_counts=True)
            grounds = shades[pixels >= 0.2 * len(behind)] / 255
        alpha = 1 if text.get_alpha() is None else text.get_alpha()
        for ground in grounds:
            ink = alpha * np.array(colors.to_rgb(text.get_color())) + (1 - alpha) * ground
            if contrast(ink, ground) < READABLE:
                found.append(f"{text.get_text()!r} on {colors.to_hex(ground)}")
    return found


@pytest.mark.parametrize("make", list(explorers()))
def test_all_text_of_a_picture_is_readable_where_it_stands(make):
    assert unreadable(make()._canvas) == []


def test_unreadable_text_is_found():
    def picture(figure):
        ax = figure.subplots()
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.axvspan(0.4, 1, color=style.BLUE)
        for x, text, colour in ((0.1, "pale", style.SKY), (0.5, "dark", style.INK), (0.7, "fine", "white")):
            ax.text(x, 0.5, text, color=colour)
        return [], lambda _: "Three words."

    assert [found.split("'")[1] for found in unreadable(Canvas(picture))] == ["pale", "dark"]


# -- HTML ---------------------------------------------------------------------------------------------


def test_table_says_what_its_headers_are_of():
    page = Table(("", "L"), (("M/M/1", 4.0),), "Exact.")._repr_html_()
    assert re.findall(r'<th scope="(\w+)"[^>]*>(.*?)</th>', page) == [("col", "L"), ("row", "M/M/1")]
    assert "<caption" in page


def test_feedback_says_its_state_in_words_and_is_announced():
    lines = [Line("L1", state, "f(1)", " = 2") for state in (PASSED, NOT_YET, TO_DO)]
    page = Report(lines)._repr_html_()
    assert page.startswith('<div role="status"')
    assert 'aria-label="passed"' in page and "not yet" in page and "to do" in page


def test_refused_value_is_an_alert():
    explorer = next(explorers()).values[0]()
    name, field = next(iter(explorer._fields.items()))
    field.value = 10 * explorer.controls[name].values[-1]
    assert f'<span role="alert">{name} must be within' in explorer._message.value


# -- a lesson and an exercise in JupyterLab -----------------------------------------------------------

EXPLORER = ".qlab-explorer >> nth=0"


@pytest.fixture(scope="module")
def lesson(chromium, lab):
    """A lesson that has been run, for all tests of this file; they only read, or put back what they move."""
    opened = browser.Notebook(chromium.new_page(), lab, "notebooks/02_hockey_stick.ipynb")
    opened.run_all()
    opened.page.locator(EXPLORER).scroll_into_view_if_needed()
    opened.page.wait_for_selector(f"{EXPLORER} >> .noUi-handle[aria-label]")
    yield opened
    opened.close()


def show_theme(page, shown: str) -> None:
    """Switch JupyterLab to its theme `Light` or `Dark`."""
    page.evaluate(
        "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", f"JupyterLab {shown}"
    )
    page.wait_for_function(
        "light => document.body.dataset.jpThemeLight === light", arg=str(shown == "Light").lower()
    )


@pytest.mark.browser
@pytest.mark.parametrize("shown", ["Dark", "Light"])
def test_axe_finds_nothing_serious_in_a_lesson(lesson, shown):
    show_theme(lesson.page, shown)
    assert browser.violations(lesson.page, browser.OURS) == []


FEEDBACK = """\
from labsupport.lab.report import ASIDE, NOT_YET, PASSED, TO_DO, Line, Report
curve = {"x": [1, 2, 3], "mine": [1, 2, 4], "reference": [1, 2, 3], "xlabel": "users", "ylabel": "time (s)"}
Report([
    Line("H1", PASSED, "wait(1)", " = 2"), Line("H2", NOT_YET, "wait(2)", " gave 3.", "Is the unit right?", curve),
    Line("H3", TO_DO), Line("H2", ASIDE, advice="Hint 1 of 2: draw it."),
])
"""


@pytest.mark.browser
def test_axe_finds_nothing_serious_in_an_exercise(notebook, lab):
    """With every kind of feedback."""
    cells = nbformat.read(lab.work / "exercises" / "02_hockey_stick.ipynb", as_version=4)
    cells.cells.append(nbformat.v4.new_code_cell(FEEDBACK))
    nbformat.write(cells, lab.work / "exercises" / "feedback.ipynb")
    exercise = notebook("exercises/feedback.ipynb")
    exercise.run_all()
    assert not exercise.errors()
    for shown in ("Dark", "Light"):
        show_theme(exercise.page, shown)
        assert browser.violations(exercise.page, browser.OURS) == []
    [curve] = exercise.page.locator(".jp-OutputArea-output").get_by_role("img", name="your curve over").all()
    assert "farthest apart at 3" in curve.get_attribute("alt")


@pytest.mark.browser
def test_axe_finds_an_image_without_words(lesson):
    lesson.page.evaluate(
        "() => document.querySelector('.jp-RenderedMarkdown').insertAdjacentHTML('beforeend', '<img id=mute>')"
    )
    assert any("mute" in violation for violation in browser.violations(lesson.page, browser.OURS))
    lesson.page.evaluate("() => document.querySelector('#mute').remove()")


@pytest.mark.browser
def test_explorer_is_heard_as_it_is_seen(lesson):
    """Each control has its name, the slider its value and not its position, and there is one picture, in words."""
    explorer = lesson.page.locator(EXPLORER)
    slider = explorer.get_by_role("slider", name="utilisation ρ")
    assert slider.get_attribute("aria-valuetext") == "0.5"
    assert explorer.get_by_role("spinbutton", name="utilisation ρ").input_value() == "0.5"
    [picture] = explorer.get_by_role("img").all()
    words = picture.get_attribute("alt")
    assert words.startswith("The mean of the waiting time") and "At utilisation 0.5 " in words

    slider.focus()
    lesson.page.keyboard.press("ArrowRight")
    lesson.page.wait_for_function(
        "() => document.querySelector('.qlab-explorer .noUi-handle').ariaValueText === '0.51'"
    )
    said = explorer.get_by_role("img", name="At utilisation 0.51 ")
    said.wait_for()
    assert explorer.get_by_role("img").count() == 1 and BEFORE not in said.get_attribute("alt")
    lesson.page.keyboard.press("ArrowLeft")
    explorer.get_by_role("img", name="At utilisation 0.5 ").wait_for()


@pytest.mark.browser
def test_tab_goes_through_all_controls_in_their_order_and_past_the_picture(lesson):
    explorer = lesson.page.locator(EXPLORER)
    explorer.get_by_role("spinbutton", name="utilisation ρ").focus()
    passed = []
    while len(passed) < 12:
        passed.append(lesson.page.evaluate(
            """() => {
                const at = document.activeElement;
                if (!document.querySelector('.qlab-explorer').contains(at)) return '';
                return at.ariaLabel || at.labels?.[0]?.textContent || at.textContent;
            }"""
        ))  # fmt: skip
        if not passed[-1]:
            break
        lesson.page.keyboard.press("Tab")
    assert passed == [
        "utilisation ρ", "utilisation ρ", "statistic", "of the", "requests per run", "requests per run",
        "New sample", "Reset", "Setting as Python", "",
    ]  # fmt: skip


@pytest.mark.browser
def test_setting_as_python_is_a_named_field(lesson):
    button = lesson.page.locator(EXPLORER).get_by_role("button", name="Setting as Python")
    button.press("Enter")
    line = lesson.page.locator(EXPLORER).get_by_role("textbox", name="in Python")
    line.wait_for()
    assert line.input_value() == "hockey_stick.curve()"
    button.press("Enter")
    line.wait_for(state="hidden")


@pytest.mark.browser
def test_prediction_is_made_with_the_keyboard_and_confirmed(lesson):
    field = lesson.page.get_by_role("spinbutton", name="your prediction (requests/s)")
    field.fill("3")
    field.press("Tab")
    lesson.page.keyboard.press("Enter")
    lesson.page.get_by_role("status").filter(has_text="Kept: 3 requests/s").wait_for()
    recalled = lesson.page.get_by_role("status").filter(has_text="You predicted 3 requests/s; the value is ")
    recalled.wait_for()


# -- pages without a kernel -----------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_the_site(chromium, site, scheme):
    page = chromium.new_page()
    page.emulate_media(color_scheme=scheme)
    for name in ("index", "notebooks/glossary", "notebooks/02_hockey_stick", "notebooks/05_batching",
                 "exercises/02_hockey_stick"):  # fmt: skip
        page.goto((site / f"{name}.html").as_uri())
        # Answers and code lie folded: what is hidden is not looked at.
        page.evaluate("() => document.querySelectorAll('details').forEach(folded => { folded.open = true })")
        assert browser.violations(page) == [], name
    page.close()
