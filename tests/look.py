"""Screenshots of a lesson in a real browser, for the eye: python tests/look.py LESSON FOLDER [WIDTHxHEIGHT …]

One picture of every cell with its output, at each window size (default 1280x800 and 1024x768), after running all.
Prints what went wrong in outputs, callbacks and the browser.
"""

import sys
import tempfile
from pathlib import Path

import browser

from labsupport import course


def main(lesson: str, folder: str, *sizes: str) -> None:
    stem, folder = course.stem(lesson), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, browser.qlab_lab(Path(scratch), stem) as lab:
        for size in sizes or ("1280x800", "1024x768"):
            width, height = map(int, size.split("x"))
            profile = Path(scratch) / f"profile-{size}"
            with browser.chromium(profile, viewport={"width": width, "height": height}) as context:
                notebook = browser.Notebook(context.new_page(), lab, f"notebooks/{stem}.ipynb")
                notebook.run_all()
                print(size, notebook.errors() or "no errors")
                cells = notebook.page.locator(".jp-Notebook .jp-Cell")
                for n in range(cells.count()):
                    cells.nth(n).scroll_into_view_if_needed()
                    cells.nth(n).screenshot(path=folder / f"{stem}-{width}-{n:02d}.png")
                notebook.page.evaluate("() => document.querySelector('.qlab-explorer')?.scrollIntoView({block: 'center'})")
                notebook.page.screenshot(path=folder / f"{stem}-{width}-window.png")
                notebook.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
