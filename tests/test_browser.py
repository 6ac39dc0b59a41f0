"""Lessons in a real browser: they run, sliders move pictures, the course's JupyterLab settings hold."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import browser
import nbformat
import pytest

from labsupport import course
from labsupport.lab.explorer import BEFORE

pytestmark = pytest.mark.browser

PICTURE = f'img.widget-image:not([title="{BEFORE}"])'
DRAWN = f"""([explorer, alt]) => {{
    const image = explorer.querySelector('{PICTURE}');
    return image && image.title !== alt && image.complete && image.naturalWidth > 400;
}}"""


class Explorer:
    """One explorer of a notebook, as a reader sees it."""

    def __init__(self, notebook: browser.Notebook, root):
        self.notebook, self.root = notebook, root
        self.handle = root.locator(".noUi-handle").first
        self.handle.scroll_into_view_if_needed()
        notebook.page.wait_for_function(DRAWN, arg=[root.element_handle(), ""])

    @property
    def picture(self):
        """The image on top: another one after each change."""
        return self.root.locator(PICTURE).first

    @property
    def alt(self) -> str:
        return self.picture.get_attribute("title") or ""

    @property
    def pixels(self) -> str:
        return self.picture.evaluate(
            """async image => {
                const bytes = await (await fetch(image.src)).arrayBuffer();
                const digest = await crypto.subtle.digest('SHA-256', bytes);
                return Array.from(new Uint8Array(digest), byte => byte.toString(16)).join('');
            }"""
        )

    @property
    def height(self) -> float:
        """Height of the whole output: a change would move the page under the reader's eyes."""
        return self.root.bounding_box()["height"]

    @contextmanager
    def moving(self):
        """Do something to the controls, and wait until the picture is another one and drawn."""
        alt = self.alt
        yield
        self.notebook.page.wait_for_function(DRAWN, arg=[self.root.element_handle(), alt])
        self.notebook.idle()

    def there_and_back(self) -> None:
        """One step of the first slider by keyboard changes picture and words; the step back restores both."""
        alt, pixels, height = self.alt, self.pixels, self.height
        at_end = self.handle.get_attribute("aria-valuenow") == self.handle.get_attribute("aria-valuemax")
        step, back = ("ArrowLeft", "ArrowRight") if at_end else ("ArrowRight", "ArrowLeft")
        self.handle.focus()
        with self.moving():
            self.notebook.page.keyboard.press(step)
        assert self.pixels != pixels
        assert self.height == height
        with self.moving():
            self.notebook.page.keyboard.press(back)
        assert (self.alt, self.pixels) == (alt, pixels), "the same setting shows another picture"

    def dragged(self) -> None:
        """A drag by mouse over the first slider changes the picture and no height."""
        pixels, height = self.pixels, self.height
        handle, track = self.handle.bounding_box(), self.root.locator(".noUi-target").first.bounding_box()
        x, y = handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2
        mouse, right = self.notebook.page.mouse, x > track["x"] + track["width"] / 2
        with self.moving():
            mouse.move(x, y)
            mouse.down()
            for part in (0.8, 0.5, 0.2) if right else (0.2, 0.5, 0.8):  # never to end where it began
                mouse.move(track["x"] + part * track["width"], y, steps=5)
            mouse.up()
        assert self.pixels != pixels
        assert self.height == height


@pytest.mark.parametrize("stem", course.stems())
def test_lesson_runs_and_every_first_slider_moves_its_picture(notebook, stem):
    lesson = notebook(f"notebooks/{stem}.ipynb")
    lesson.run_all()
    assert not lesson.errors()
    assert browser.violations(lesson.page, browser.OURS) == []
    explorers = [Explorer(lesson, root) for root in lesson.page.locator(".qlab-explorer").all()]
    assert explorers
    for explorer in explorers:
        explorer.there_and_back()
    explorers[0].handle.scroll_into_view_if_needed()
    explorers[0].dragged()
    assert not lesson.errors()


@pytest.mark.parametrize("stem", course.stems())
def test_exercise_opens_and_runs_blank(notebook, stem):
    """Run all on an exercise nobody has filled in says what is to do and stops nowhere."""
    exercise = notebook(f"exercises/{stem}.ipynb")
    exercise.run_all()
    assert not exercise.errors()


LESSON_THAT_BREAKS = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %%
import ipywidgets
slider = ipywidgets.IntSlider()
slider.observe(lambda change: 1 / 0, "value")
slider
"""


@pytest.fixture(scope="module")
def plain_lab(tmp_path_factory):
    """`qlab lab` of a course that has one lesson, with a callback that raises."""
    folder = tmp_path_factory.mktemp("plain")
    shutil.copytree(course.PACKAGE, folder / "clone" / "labsupport")
    (folder / "clone" / "pyproject.toml").touch()
    (folder / "clone" / "notebooks").mkdir()
    (folder / "clone" / "notebooks" / "01_breaks.py").write_text(LESSON_THAT_BREAKS)
    with browser.qlab_lab(folder, "1", environment={"PYTHONPATH": str(folder / "clone")}) as running:
        yield running


def test_error_in_a_callback_is_heard(notebook, plain_lab):
    lesson = notebook("notebooks/01_breaks.ipynb", plain_lab)
    lesson.run_all()
    assert not lesson.errors()
    lesson.page.locator(".noUi-handle").first.focus()
    lesson.page.keyboard.press("ArrowRight")
    lesson.page.wait_for_function("() => heard.length > 0")
    assert "ZeroDivisionError" in "".join(lesson.errors())


def test_address_that_qlab_prints_opens_the_lesson_with_the_courses_settings(chromium, plain_lab):
    page = chromium.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(plain_lab.url)
    page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget?.context?.path", timeout=60_000)
    found = page.evaluate(
        """async () => {
            await jupyterapp.restored;
            const widget = jupyterapp.shell.currentWidget;
            await widget.sessionContext.ready;
            return {
                path: widget.context.path,
                windowing: widget.content.notebookConfig.windowingMode,
                subshells: widget.sessionContext.session.kernel.commsOverSubshells,
            };
        }"""
    )
    assert found == {"path": "notebooks/01_breaks.ipynb", "windowing": "none", "subshells": "disabled"}

    shutil.copy(plain_lab.work.parent / "clone" / "notebooks" / "01_breaks.py", plain_lab.work)
    cells = page.evaluate(
        """async () => {
            const widget = await jupyterapp.commands.execute('docmanager:open', {path: '01_breaks.py'});
            await widget.context.ready;
            return widget.content.widgets?.length;
        }"""
    )
    assert cells == 1, "a py:percent source opens as text"

    page.wait_for_timeout(3000)  # JupyterLab asks about news a moment after it has started
    assert page.locator(".jp-Dialog, .jp-toast-message, .Toastify__toast").count() == 0
    assert not [url for url in asked if "/lab/api/news" in url or "/lab/api/update" in url]
    assert "warning" not in plain_lab.printed.read_text().lower(), "the kernel alarms whoever looks at the terminal"
    page.close()


def test_frames_switch_without_a_kernel(notebook, lab):
    """The other mode of an explorer: all pictures are in the page, and the slider works when the kernel is gone."""
    source = "from labsupport import little\nlittle.memory().frames('model')"
    frames = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    frames.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(frames, lab.work / "notebooks" / "frames.ipynb")
    page = notebook("notebooks/frames.ipynb")
    page.run_all()
    pictures = page.page.locator(".qlab-frames img")
    shown = [picture for picture in pictures.all() if picture.is_visible()]
    assert pictures.count() == 4 and len(shown) == 1
    before = shown[0].get_attribute("alt")
    assert before.startswith("KV cache against arrival rate for Llama-3-8B")
    page.page.evaluate("async () => { await jupyterapp.shell.currentWidget.sessionContext.session.kernel.shutdown() }")
    slider = page.page.get_by_role("slider", name="model")
    assert slider.get_attribute("aria-valuetext") == "Llama-3-8B"
    slider.press("ArrowRight")
    shown = [picture for picture in pictures.all() if picture.is_visible()]
    assert len(shown) == 1
    assert shown[0].get_attribute("alt").startswith("KV cache against arrival rate for Llama-2-7B")
    assert slider.get_attribute("aria-valuetext") == "Llama-2-7B (no grouped heads)"
    assert page.page.locator(".qlab-frames output").inner_text() == "Llama-2-7B (no grouped heads)"
