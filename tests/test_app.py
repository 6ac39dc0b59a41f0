"""`qlab app`: lessons without their code, by Voilà."""

from __future__ import annotations

import builtins
import os
import re
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import nbformat
import pytest

from labsupport import app, cli, course
from labsupport.lab.aloud import BEFORE


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apps")
    app.write(folder)
    return {path.stem: nbformat.read(path, as_version=4) for path in folder.glob("*.ipynb")}


def test_all_lessons_and_the_glossary_are_written(written):
    assert set(written) == {*course.stems(), "glossary"}
    assert written["02_hockey_stick"].metadata["title"] == "02 The hockey stick"


def test_speaker_notes_stay_behind_and_every_link_leads_somewhere(written):
    for stem, notebook in written.items():
        text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        assert not any(cell.metadata.get("slideshow", {}).get("slide_type") == "notes" for cell in notebook.cells)
        links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
        assert links
        for link in links:
            name, _, _ = link.partition("#")
            assert not name or name.removesuffix(".ipynb") in written, f"{stem}: {link}"
    assert "the exercises (in JupyterLab: `qlab lab 02`)" in written["02_hockey_stick"].cells[-3].source


def test_missing_voila_is_one_sentence(monkeypatch, capsys):
    real = builtins.__import__

    def without(name, *args, **kw):
        if name.startswith("voila"):
            raise ImportError(name)
        return real(name, *args, **kw)

    monkeypatch.setattr(builtins, "__import__", without)
    assert cli.main(["app", "02", "--no-browser"]) == 2
    assert capsys.readouterr().err == (
        "qlab: a lesson as an app needs Voilà, which is not installed; "
        'pip install "queueing-lab[app]" brings it\n'
    )


def test_unknown_lesson_is_one_sentence(capsys):
    pytest.importorskip("voila")
    assert cli.main(["app", "99"]) == 2
    assert capsys.readouterr().err.startswith("qlab: lesson '99' does not exist; choose one of 00_arrivals")


@contextmanager
def served(folder, *arguments):
    """The address that `qlab app ARGUMENTS` prints, once it answers."""
    printed = folder / "printed.txt"
    with printed.open("w") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "labsupport.cli", "app", "--no-browser", "--port=0", *arguments],
            stdout=out, stderr=out, cwd=folder, env={**os.environ, "QLAB_WORK": str(folder / "work")},
        )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end and server.poll() is None:
            if address := re.search(r"http://\S+", printed.read_text()):
                try:
                    # Not the lesson: that would run it.
                    urllib.request.urlopen(address[0].partition("/voila/")[0], timeout=5).close()
                    break
                except OSError:
                    pass
            time.sleep(0.1)
        else:
            raise AssertionError(f"no answer:\n{printed.read_text()}")
        yield address[0]
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.browser
def test_slider_of_an_app_moves_the_picture(chromium, tmp_path):
    """Without the code, and without a word to any other machine."""
    picture = f'.qlab-explorer img.widget-image:not([title="{BEFORE}"])'
    with served(tmp_path, "02") as address:
        page, asked = chromium.new_page(), []
        page.on("response", lambda response: asked.append(response.url))
        page.goto(address, wait_until="commit", timeout=60_000)
        page.wait_for_function("picture => document.querySelector(picture)?.naturalWidth > 400", arg=picture, timeout=60_000)
        assert page.title() == "02 The hockey stick"
        assert page.get_by_text("from labsupport import").count() == 0
        words = page.locator(picture).first.get_attribute("title")
        page.get_by_role("slider", name="utilisation ρ").first.press("ArrowRight")
        # Until the last cell has run, the kernel has no ear for a slider.
        page.wait_for_function(
            "([picture, words]) => document.querySelector(picture).title !== words", arg=[picture, words], timeout=60_000
        )
        assert "At utilisation 0.51" in page.locator(picture).first.get_attribute("title")
        assert page.locator("mjx-container").count() > 5, "formulas are not set"
        page.close()
        assert {url.split("/")[2] for url in asked if url.startswith("http")} == {address.split("/")[2]}
