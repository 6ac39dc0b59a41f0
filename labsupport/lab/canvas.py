"""One figure off screen: drawn once, then only what moves is drawn again.

A *picture* is a function of a matplotlib Figure that lays out axes and returns `(moving, move)`:
the artists that change, and a function of a result that changes them and returns the alt text.
No pyplot here: a figure that pyplot knows can be caught half-drawn by the notebook's own display hook.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from . import style

Picture = Callable[[Figure], tuple[list, Callable[[object], str]]]


class Canvas:
    """A picture and its current state; `show` moves it; `png`, `jpeg` and `small_png` return it.

    A background without the moving artists is kept, and these are drawn over it (blitting); the whole
    figure is drawn again only when something else, such as an axis limit, has changed.
    """

    def __init__(self, picture: Picture, size: tuple[float, float] = style.SIZE):
        self.alt = ""
        self._background = None
        with rc_context(style.RC):
            self._figure = Figure(figsize=size, dpi=style.DPI, layout="constrained")
            self._agg = FigureCanvasAgg(self._figure)
            self.width, self.height = self._agg.get_width_height()  # some versions of matplotlib round, some cut off
            moving, self._move = picture(self._figure)
        self._moving = sorted(moving, key=lambda artist: artist.get_zorder())
        for artist in self._moving:
            artist.set_animated(True)

    def show(self, result) -> None:
        """Move the artists to `result` and take the alt text for it."""
        with rc_context(style.RC):
            self.alt = self._move(result)

    def png(self) -> bytes:
        """The picture as PNG bytes."""
        return self._encoded("png", compress_level=1)

    def jpeg(self) -> bytes:
        """The picture as JPEG bytes without colour subsampling: a quarter of the time of PNG, for a moving slider."""
        return self._encoded("jpeg", quality=95, subsampling=0)

    def small_png(self) -> bytes:
        """The picture as PNG bytes in 128 colours: a fifth of the size of an SVG, for pages that hold many."""
        out = io.BytesIO()
        # Median cut keeps white pure; the faster octree makes it a grey of 254.
        few = self._pixels().quantize(128, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        few.save(out, "png", compress_level=6)
        return out.getvalue()

    def _encoded(self, kind: str, **options) -> bytes:
        out = io.BytesIO()
        self._pixels().save(out, kind, **options)
        return out.getvalue()

    def _pixels(self) -> Image.Image:
        with rc_context(style.RC):
            self._draw()
        size = (self.width, self.height)
        return Image.frombuffer("RGBA", size, self._agg.buffer_rgba(), "raw", "RGBA", 0, 1).convert("RGB")

    def _draw(self) -> None:
        # Animated artists never make the figure stale: stale means that the background has changed.
        if self._background is None or self._figure.stale:
            self._agg.draw()
            if self._background is None:
                self._figure.set_layout_engine("none")  # later draws keep this layout, so no axis jumps
                self._agg.draw()
            self._background = self._agg.copy_from_bbox(self._figure.bbox)
        else:
            self._agg.restore_region(self._background)
        for artist in self._moving:
            artist.axes.draw_artist(artist) if artist.axes else artist.draw(self._agg.get_renderer())


class Still:
    """A picture of one result for a cell's output: with alt text, and the same wherever it is shown."""

    def __init__(self, picture: Picture, result, size: tuple[float, float] = style.SIZE):
        self.canvas = Canvas(picture, size)
        self.canvas.show(result)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return bundle(self.canvas.png(), self.canvas.alt, self.canvas.width)


def notice(text: str, size: tuple[float, float]) -> Canvas:
    """A picture that says one sentence, in the size of the picture it stands for."""

    def picture(figure):
        words = figure.text(0.5, 0.5, "", ha="center", va="center", fontsize=15, color=style.VERMILLION)

        def move(result):
            words.set_text(style.sentence(result))
            return result

        return [words], move

    canvas = Canvas(picture, size)
    canvas.show(text)
    return canvas


def bundle(png: bytes, alt: str, width: int) -> dict:
    """Mime bundle of a picture: alt text as plain text and as the image's alternative."""
    source = base64.b64encode(png).decode()
    tag = f'<img alt="{html.escape(alt)}" style="max-width:100%" width="{width}" src="data:image/png;base64,{source}">'
    return {"text/plain": alt, "text/html": tag, "image/png": png}
