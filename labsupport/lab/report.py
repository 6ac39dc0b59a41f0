"""What a check says: one line per case, the same as plain text and in the notebook, light or dark."""

from __future__ import annotations

import html
import math
import sys
from dataclasses import dataclass, field

PASSED, NOT_YET, TO_DO, ASIDE = "passed", "not yet", "to do", ""

# Grey levels and hues that stand out from a white and from a black ground; the words say the same.
_EDGE = {
    PASSED: "solid #2E8B57",
    NOT_YET: "dashed #D1660F",
    TO_DO: "dotted #808080",
    ASIDE: "solid transparent",
}


@dataclass(frozen=True)
class Line:
    """The verdict on one case: `expr` and what came of it, and the advice; or, without a state, an aside.

    curve : for a case over x values, the dict that `picture` draws.
    """

    question: str
    state: str
    expr: str = ""
    result: str = ""
    advice: str = ""
    curve: dict | None = None

    def __str__(self):
        if self.state == PASSED:
            return f"{self.question} ✓ {self.expr}{self.result}"
        if self.state == ASIDE:
            return f"   {self.advice}"
        said = " ".join(filter(None, (f"{self.expr}{self.result}", self.advice)))
        return f"{self.question} {self.state}{f': {said}' if said else ''}"

    def html(self) -> str:
        expr = (
            f'<code style="color:inherit;background:none">{html.escape(self.expr)}</code>'
            if self.expr
            else ""
        )
        said = " ".join(filter(None, (expr + html.escape(self.result), html.escape(self.advice))))
        mark = {PASSED: '<span role="img" aria-label="passed">✓</span>', ASIDE: ""}.get(
            self.state, self.state
        )
        colon = ":" if said and self.state in (NOT_YET, TO_DO) else ""
        head = f"<b>{html.escape(self.question)} {mark}</b>{colon} "
        line = f"{head if self.state else ''}{said}"
        drawn = picture(self.curve) if self.curve else ""
        style = f"border-left:4px {_EDGE[self.state]};padding-left:0.6em;margin:0.25em 0"
        return f'<div style="{style}">{line}</div>{drawn}'


@dataclass(frozen=True)
class Report:
    """The lines of one check, or of all checks of a file.

    at_least : a `status` that the lines cannot mend: 1 for a run that was cut short, 2 for a file that cannot
    be read.
    """

    lines: list[Line] = field(default_factory=list)
    at_least: int = 0

    @property
    def passed(self) -> bool:
        """Whether there are verdicts and each of them is "passed"."""
        return self.status == 0

    @property
    def status(self) -> int:
        """Exit status: 0 when everything is passed, 1 when not, 2 when a file cannot be read."""
        states = {line.state for line in self.lines if line.state != ASIDE}
        return max(self.at_least, 0 if states == {PASSED} else 1)

    def __str__(self):
        return "\n".join(map(str, self.lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return (
            f'<div role="status" style="line-height:1.45">{"".join(line.html() for line in self.lines)}</div>'
        )

    def show(self) -> None:
        """Display it in a notebook, print it elsewhere, even where the terminal has no check mark."""
        if "IPython" in sys.modules:
            from IPython import get_ipython

            if get_ipython() is not None:
                from IPython.display import display

                display(self)
                return
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        print(str(self).encode(encoding, "replace").decode(encoding))


def picture(curve: dict) -> str:
    """The learner's curve over the reference, as an HTML image with alt text."""
    from .canvas import Still

    def draw(figure):
        from . import style

        ax = figure.subplots()
        ax.set_xlabel(curve["xlabel"])
        ax.set_ylabel(curve["ylabel"])
        x, mine, reference = ([v if math.isfinite(v) else math.nan for v in curve[key]] for key in _CURVES)
        ax.plot(x, reference, color=style.GREY, alpha=0.65, linewidth=7, solid_capstyle="round")
        ax.plot(x, mine, color=style.BLUE, linestyle="--", marker="o", markersize=4)
        ax.legend(["reference", "yours"], loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
        ax.margins(0.05)
        return [], lambda alt: alt

    return Still(draw, _alt(curve), size=(6.5, 3.6))._repr_mimebundle_()["text/html"]


_CURVES = ("x", "mine", "reference")


def _alt(curve: dict) -> str:
    x, mine, reference = curve["x"], curve["mine"], curve["reference"]
    over = f"{curve['ylabel']} over {curve['xlabel']}, {x[0]:g} to {x[-1]:g}: your curve over the reference."
    gaps = [abs(a - b) for a, b in zip(mine, reference, strict=True)]
    worst = max(range(len(x)), key=lambda i: gaps[i] if math.isfinite(gaps[i]) else math.inf)
    return (
        f"{over} They are farthest apart at {x[worst]:g}, where yours is {mine[worst]:.4g} "
        f"and the reference {reference[worst]:.4g}."
    )
