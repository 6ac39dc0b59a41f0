"""The look of every figure: a colour-blind-safe palette, sizes for the back row, direct labels.

The ground of a figure is always white, so that one picture reads the same in the light theme, in the dark
theme and on a projector.
"""

from __future__ import annotations

import textwrap

# Okabe & Ito (2008), the text colours darkened to a contrast of at least 4.5:1 on white.
BLUE = "#0072B2"
VERMILLION = "#C04A00"
GREEN = "#007A5A"
PURPLE = "#A3417F"
BROWN = "#8A5A00"  # text beside ORANGE fills
GREY = "#595959"
INK = "#1A1A1A"
# Fills only: too light for text.
SKY = "#56B4E9"
ORANGE = "#E69F00"
PALE = "#D9D9D9"

CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, GREY)

DPI = 100
SIZE = (9.0, 4.2)

RC = {
    "font.family": "DejaVu Sans",
    "font.size": 13,
    "axes.titlesize": 13,
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.labelsize": 13,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "text.color": INK,
    "lines.linewidth": 2.2,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "text.hinting": "none",  # a third faster, and a slider waits for its labels
    "svg.hashsalt": "queueing-lab",
}


def label(ax, x, y, text="", color=INK, **kw):
    """Put a direct label beside a curve; it has a white halo, so that lines behind it do not cut the text."""
    from matplotlib.patheffects import withStroke

    kw.setdefault("fontsize", 13)
    kw.setdefault("zorder", 6)
    return ax.text(x, y, text, color=color, path_effects=[withStroke(linewidth=3, foreground="white")], **kw)


def sentence(text: str, width: int = 70) -> str:
    """Wrap a sentence so that it fits in a figure."""
    return "\n".join(textwrap.wrap(text, width))


def room(figure, left: float = 0.035, right: float = 0.03) -> None:
    """Leave shares of the width free at the sides: the layout is settled at the first draw, later numbers may be longer."""
    figure.get_layout_engine().set(rect=(left, 0, 1 - left - right, 1))


def step_up(value: float, steps) -> float:
    """The smallest of the rising `steps` that holds the value, so that an axis jumps seldom."""
    return next((step for step in steps if value <= step), steps[-1])


def limits(ax, x: tuple[float, float], y: tuple[float, float]) -> None:
    """Set both axes' limits, only where they change: a change costs a full redraw."""
    if tuple(ax.get_xlim()) != tuple(x):
        ax.set_xlim(x)
    if tuple(ax.get_ylim()) != tuple(y):
        ax.set_ylim(y)
