"""A moving picture of a lesson's first explorer: python tests/film.py LESSON FILE.gif [STEPS]

Opens the lesson in a real browser, runs it, presses the right arrow STEPS times (default 44) on the first slider, and keeps
how the explorer looks after each. The picture in the README is `python tests/film.py 02 .github/explorer.gif`.
"""

import io
import sys
import tempfile
from pathlib import Path

import browser
from PIL import Image

from labsupport import course

STEP_MS, END_MS, TIMES = 150, 3000, 3  # it stops after three times: what moves for ever keeps readers from reading


def main(lesson: str, file: str, steps: str = "44") -> None:
    stem = course.stem(lesson)
    with tempfile.TemporaryDirectory() as scratch, browser.qlab_lab(Path(scratch), stem) as lab:
        with browser.chromium(Path(scratch) / "profile", viewport={"width": 1240, "height": 1000}) as context:
            notebook = browser.Notebook(context.new_page(), lab, f"notebooks/{stem}.ipynb")
            notebook.run_all()
            explorer = notebook.page.locator(".qlab-explorer").first
            explorer.scroll_into_view_if_needed()
            explorer.locator(".noUi-handle").first.focus()
            shots = [explorer.screenshot()]
            for _ in range(int(steps)):
                notebook.page.keyboard.press("ArrowRight")
                notebook.idle()
                notebook.page.wait_for_timeout(400)  # the picture has come and is decoded
                shots.append(explorer.screenshot())
            notebook.close()
    pages = [Image.open(io.BytesIO(shot)).convert("RGB") for shot in shots]
    # One palette for all, or colours flicker.
    colours = pages[-1].quantize(48, dither=Image.Dither.NONE)
    first, *others = [page.quantize(palette=colours, dither=Image.Dither.NONE) for page in pages]
    durations = [END_MS // 2] + [STEP_MS] * (len(others) - 1) + [END_MS]
    first.save(file, save_all=True, append_images=others, duration=durations, loop=TIMES, optimize=True)
    print(f"{file}: {len(pages)} pictures, {Path(file).stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
