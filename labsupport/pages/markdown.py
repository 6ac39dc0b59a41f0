"""Markdown of the lessons as HTML that needs neither script nor network: formulas become MathML."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath


def to_html(source: str, link: Callable[[str], str] = str) -> str:
    """HTML of a Markdown text; `link` maps each address to the one that is written.

    Headings get an id made of their words, tables a frame that scrolls. Raises ModuleNotFoundError where
    latex2mathml is missing.
    """
    made = MarkdownWithMath(renderer=_Renderer(link)).render(source)
    made = made.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
    return re.sub("<th(?=[ >])", '<th scope="col"', made)


def mathml(formula: str, display: str = "inline") -> str:
    """A LaTeX formula as MathML, for which browsers need no script; `display` is "inline" or "block"."""
    try:
        from latex2mathml.converter import convert
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "pages need the package latex2mathml for their formulas; pip install latex2mathml"
        ) from None
    return convert(formula.strip(), display=display)


def math_css() -> str:
    """CSS that gives formulas a font whose brackets and roots stretch, the font included: few systems have one."""
    font = base64.b64encode(Path(__file__).with_name("templates").joinpath("math.woff2").read_bytes()).decode()
    return (
        f'@font-face {{ font-family: "Queueing Lab Math"; src: url(data:font/woff2;base64,{font}) format("woff2"); }}\n'
        'math { font-family: "Queueing Lab Math", math; }\n'
    )


def text(html: str) -> str:
    """The words of a piece of HTML."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


class _Renderer(IPythonRenderer):
    def __init__(self, link: Callable[[str], str]):
        super().__init__(escape=False, exclude_anchor_links=True)
        self._link = link

    def link(self, text, url, title=None):
        return super().link(text, self._link(url), title)

    def heading(self, text, level, **attrs):
        return f'<h{level} id="{slug(text)}">{text}</h{level}>\n'

    def inline_math(self, body):
        return mathml(body)

    def block_math(self, body):
        return f'<span class="formula scroll">{mathml(body, "block")}</span>'


def slug(heading: str) -> str:
    """The id of a heading: its words in lower case."""
    return "-".join(re.findall(r"\w+", text(heading).lower()))


def headings(html: str) -> Iterator[tuple[int, str, str]]:
    """Level, id and HTML of each heading that `to_html` has made."""
    for level, anchor, inner in re.findall(r'<h([1-6]) id="([^"]*)">(.*?)</h\1>', html):
        yield int(level), anchor, inner
