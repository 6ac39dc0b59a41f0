"""A small table for a cell's output, the same in HTML and as plain text."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass

_CELL = "text-align:left;white-space:nowrap"
_NAME = "text-align:left;font-weight:normal;min-width:{:.2g}em"  # wraps where the table would be too wide


@dataclass(frozen=True)
class Table:
    """Rows under a head; numbers are shown with four significant digits, everything else by `str`.

    caption : one sentence that says what the rows are and why numbers carry an interval or none.
    """

    head: tuple
    rows: tuple
    caption: str = ""

    def _texts(self) -> list[list[str]]:
        return [
            [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in self.rows
        ]

    def __str__(self):
        lines = [list(self.head), *self._texts()]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.head))]
        text = "\n".join(
            "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
        )
        return f"{text}\n{self.caption}" if self.caption else text

    __repr__ = __str__

    def _repr_html_(self):
        # A corner without a word is no header of its column.
        head = "".join(
            f'<th scope="col" style="text-align:left">{html.escape(str(h))}</th>' if h else "<td></td>" for h in self.head
        )
        name = _NAME.format(min(8, 0.65 * max((len(first) for first, *_ in self._texts()), default=0)))
        body = "".join(
            f'<tr><th scope="row" style="{name}">{html.escape(first)}</th>'
            + "".join(f'<td style="{_CELL}">{html.escape(c)}</td>' for c in rest)
            + "</tr>"
            for first, *rest in self._texts()
        )
        caption = (
            f'<caption style="text-align:left;caption-side:bottom">{html.escape(self.caption)}</caption>'
        )
        return (
            f'<table style="font-size:110%">{caption if self.caption else ""}'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


class Note(str):
    """A sentence for a cell's output, without the quotes of a string."""

    __repr__ = str.__str__

    def _repr_html_(self):
        return f"<p>{html.escape(self)}</p>"


def plus_minus(estimate) -> str:
    """An `Estimate` as value ± half the length of its interval, for narrow tables: two digits of the latter."""
    half = estimate.half_width
    if not half:
        return f"{estimate.value:.3g}"
    digits = max(0, 1 - math.floor(math.log10(half)))
    return f"{estimate.value:,.{digits}f} ± {half:,.{digits}f}"
