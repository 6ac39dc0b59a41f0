"""Slider to new pixels: explorers against `interact` with a fresh figure, in one browser run.

    python tests/benchmarks/bench_explorer.py [--steps N] [--all | little.area hockey_stick.curve ...]

Prints a table in ms (median, 95th percentile, blank frames, changes of height, lag after a fast drag) and the ratio
of the medians. The machine's noise hits both rows alike: judge by the ratio where the milliseconds disagree.
"""

import argparse
import importlib
import statistics
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import browser  # noqa: E402

from labsupport import course  # noqa: E402
from labsupport.lab.explorer import BEFORE  # noqa: E402

BASELINE = """\
%matplotlib inline
import numpy as np, matplotlib.pyplot as plt
from ipywidgets import interact, FloatSlider
from labsupport import little
from labsupport.queueing.statistics import number_in_system_steps
@interact(rate=FloatSlider(0.9, min=0.1, max=2.0, step=0.05))
def draw(rate):
    log = little.run("mm1", rate, 0.9, np.random.default_rng(1), 120, 30.0)
    s, (t, n) = little.sides(log), number_in_system_steps(log)
    fig, (top, bottom) = plt.subplots(2, 1, figsize=(9, 5), sharex=True, layout="constrained")
    top.fill_between(t, n, step="post"); top.plot(t, n, drawstyle="steps-post")
    top.axhline(s.in_system, ls="--"); top.set(ylabel="N(t)", title=f"L = {s.in_system:.3f}")
    row = np.arange(len(log))
    bottom.hlines(row, log.arrival, log.start, color="C1"); bottom.hlines(row, log.start, log.finish)
    bottom.set(xlabel="time (s)", ylabel="request", title=f"lambda W = {s.product:.3f}")
    plt.show()"""

# Time from the key press to the frame after the new picture is decoded; a blank frame is one with no picture in it.
WATCH = """() => {
    const output = document.querySelector('.jp-OutputArea-output');
    window.bench = {samples: [], blank: 0, heights: new Set(), shown: null};
    // An explorer's two images take turns on top; what `interact` shows is a single one.
    const picture = () => document.querySelector('.jp-OutputArea-output img:not([title="BEFORE"])');
    // While a new source loads, `complete` is false and the old picture stays; without width there is none.
    const source = () => picture()?.complete ? picture().src : bench.shown;
    let pressed = null, before = source();
    addEventListener('keydown', e => { if (e.key.startsWith('Arrow')) { pressed = e.timeStamp; before = source() } }, true);
    const frame = () => {
        const now = source();
        // Blank is when neither image can be seen.
        const seen = [...document.querySelectorAll('.jp-OutputArea-output img')].some(i => i.naturalWidth);
        if (!seen) bench.blank += 1;
        bench.heights.add(Math.round(document.querySelector('.jp-OutputArea').getBoundingClientRect().height));
        if (pressed !== null && now && now !== before) {
            const channel = new MessageChannel(), since = pressed;
            pressed = null;
            channel.port1.onmessage = () => bench.samples.push(performance.now() - since);
            channel.port2.postMessage(0);
        }
        if (now !== bench.shown) { bench.shown = now; bench.changed = performance.now() }
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
}""".replace("BEFORE", BEFORE)


def measure(context, lab, name: str, source: str, steps: int) -> dict:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    jupytext.write(notebook, str(lab.work / "notebooks" / f"{name}.ipynb"))
    opened = browser.Notebook(context.new_page(), lab, f"notebooks/{name}.ipynb")
    opened.run_all()
    page = opened.page
    handle = page.locator(".noUi-handle").first
    handle.scroll_into_view_if_needed()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.jp-OutputArea-output img')].some(i => i.naturalWidth > 400)"
    )
    handle.focus()
    page.wait_for_timeout(1500)
    page.evaluate(WATCH)
    room = float(handle.get_attribute("aria-valuenow")) - float(handle.get_attribute("aria-valuemin"))
    there, back = ("ArrowLeft", "ArrowRight") if room >= 3 else ("ArrowRight", "ArrowLeft")
    for step in range(steps + 3):
        page.keyboard.press(there if (step // 3) % 2 == 0 else back)
        page.wait_for_function("n => bench.samples.length >= n", arg=step + 1, timeout=20_000)
        page.wait_for_timeout(60)
    lag = drag(page, handle)
    found = page.evaluate("() => ({samples: bench.samples, blank: bench.blank, heights: bench.heights.size})")
    assert not opened.errors(), opened.errors()
    opened.close()
    samples = sorted(found["samples"][3:])  # the first steps warm up caches
    return {
        "median": statistics.median(samples),
        "p95": samples[int(0.95 * len(samples))],
        "blank": found["blank"],
        "heights": found["heights"],
        "lag": lag,
    }


def drag(page, handle) -> float:
    """Time from releasing a fast drag to the last change of the picture, in ms."""
    box, track = handle.bounding_box(), page.locator(".noUi-target").first.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, y)
    page.mouse.down()
    for step in range(40):
        page.mouse.move(track["x"] + track["width"] * (0.1 + 0.8 * step / 39), y)
    released = page.evaluate("() => performance.now()")
    page.mouse.up()
    page.wait_for_timeout(3000)
    return page.evaluate("() => bench.changed") - released


def everyone() -> list[str]:
    modules = (importlib.import_module(f"labsupport.{stem.partition('_')[2]}") for stem in course.stems())
    return [
        f"{module.__name__.partition('.')[2]}.{make.__name__}"
        for module in modules
        for make in module.EXPLORERS
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("explorers", nargs="*", default=["little.area"])
    parser.add_argument("--all", action="store_true", help="every explorer of the course")
    parser.add_argument("--steps", type=int, default=60)
    given = parser.parse_args()
    names = everyone() if given.all else given.explorers
    cells = {n: f"import labsupport.{n.partition('.')[0]}\nlabsupport.{n}()" for n in names} | {
        "interact": BASELINE
    }
    rows = {}
    print(f"{'':34} {'median':>7} {'P95':>7} {'drag lag':>9} {'blank':>6} {'heights':>8}")
    with tempfile.TemporaryDirectory() as scratch, browser.qlab_lab(Path(scratch), "01") as lab:
        with browser.chromium(Path(scratch) / "profile") as context:
            for name, source in cells.items():
                r = rows[name] = measure(context, lab, name, source, given.steps)
                print(
                    f"{name:34} {r['median']:7.0f} {r['p95']:7.0f} {r['lag']:9.0f} {r['blank']:6} {r['heights']:8}",
                    flush=True,
                )
    worst = max((r["median"], name) for name, r in rows.items() if name != "interact")
    print(f"ratio of medians, {worst[1]} / interact: {worst[0] / rows['interact']['median']:.2f}")


if __name__ == "__main__":
    main()
