"""Frames on a page from disk with networking off: key press to the new picture on screen, and frames without a picture.

    python tests/benchmarks/bench_pages.py [SITE] [--steps N]

SITE is what `qlab site` has written (without it, one is made in a passing folder). For every explorer of every
lesson it prints the median and the 95th percentile in ms from the key press to the paint that shows the new picture
(the browser's own event timing, which counts decoding and is rounded to 8 ms, and beside it the time to the frame
after the change), and of the frames in a film of the moving slider those whose picture is blank.
"""

import argparse
import base64
import io
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import browser  # noqa: E402

from labsupport.pages import site  # noqa: E402

WATCH = """box => {
    window.bench = {paints: [], frames: [], missing: 0};
    new PerformanceObserver(list => {
        for (const entry of list.getEntries()) if (entry.name === 'keydown') bench.paints.push(entry.duration);
    }).observe({type: 'event', durationThreshold: 16, buffered: false});
    const shown = () => [...box.querySelectorAll('img')].filter(image => image.style.visibility !== 'hidden');
    let before = shown()[0], pressed = null;
    addEventListener('keydown', event => { pressed = event.timeStamp }, true);
    const frame = () => {
        const now = shown();
        if (now.length !== 1 || !now[0].complete || !now[0].naturalWidth) bench.missing += 1;
        if (pressed !== null && now[0] !== before) {
            const channel = new MessageChannel(), since = pressed;
            [pressed, before] = [null, now[0]];
            channel.port1.onmessage = () => bench.frames.push(performance.now() - since);
            channel.port2.postMessage(0);
        }
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
}"""


class Screencast:
    """Every frame that the browser sends to the screen while it is open."""

    def __init__(self, page):
        self.cdp, self.frames = page.context.new_cdp_session(page), []
        self.cdp.on("Page.screencastFrame", self._keep)

    def _keep(self, frame):
        self.frames.append(frame["data"])
        self.cdp.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

    def __enter__(self):
        self.cdp.send("Page.startScreencast", {"format": "png", "everyNthFrame": 1})
        return self

    def __exit__(self, *_):
        self.cdp.send("Page.stopScreencast")

    def blank(self, box: dict) -> int:
        """How many of the frames have less than 0.5% of ink in the part of the window that `box` gives."""
        found = 0
        for data in self.frames:
            image = Image.open(io.BytesIO(base64.b64decode(data))).convert("L")
            part = image.crop((box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]))
            found += (np.asarray(part) < 200).mean() < 0.005
        return found


def measure(context, address: str, number: int, steps: int) -> dict:
    """One explorer: timed first, then filmed, since encoding a film takes longer than what is timed."""
    page = context.new_page()
    page.goto(address)
    box = page.locator(".qlab-frames").nth(number)
    slider, figure = box.get_by_role("slider"), box.locator("figure")
    slider.scroll_into_view_if_needed()
    page.evaluate("() => scrollBy(0, 300)")
    last = int(slider.get_attribute("max"))

    def move(times):
        slider.press("Home")
        for step in range(times):
            page.wait_for_timeout(60)
            page.keyboard.press("ArrowRight" if step // last % 2 == 0 else "ArrowLeft")
        page.wait_for_timeout(200)

    slider.focus()
    page.wait_for_timeout(300)
    box.evaluate(WATCH)
    move(steps)
    found = page.evaluate("() => bench")
    with Screencast(page) as cast:
        move(10)
    sent, blank = len(cast.frames), cast.blank(figure.bounding_box())
    page.close()
    return {"paints": found["paints"], "frames": found["frames"], "sent": sent, "blank": blank + found["missing"]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("site", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.site or site.build(Path(scratch) / "site", say=print).parent
        every = []
        print(f"{'':42} {'paint':>6} {'P95':>5} {'frame':>6} {'P95':>5} {'sent':>6} {'blank':>6}")
        with browser.chromium(Path(scratch) / "profile") as context:
            context.set_offline(True)
            for path in sorted((folder / "notebooks").glob("[0-9]*.html")):
                for number in range(path.read_text(encoding="utf-8").count('class="qlab-frames"')):
                    r = measure(context, path.resolve().as_uri(), number, given.steps)
                    every += [r]
                    print(f"{path.stem + ' ' + str(number + 1):42} {row(r['paints'])} {row(r['frames'])} "
                          f"{r['sent']:6} {r['blank']:6}", flush=True)  # fmt: skip
    paints, frames = ([ms for r in every for ms in r[key]] for key in ("paints", "frames"))
    print(f"{'all':42} {row(paints)} {row(frames)} {sum(r['sent'] for r in every):6} "
          f"{sum(r['blank'] for r in every):6}")  # fmt: skip


def row(samples: list[float]) -> str:
    return f"{statistics.median(samples):6.0f} {np.quantile(samples, 0.95):5.0f}"


if __name__ == "__main__":
    main()
