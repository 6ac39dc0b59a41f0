"""Explorers: a computation, a picture and a few named controls, in two modes.

Live, a slider calls the kernel, which moves what moves in the picture. As frames, all positions of one
slider are drawn beforehand and switched in the browser, so that a saved page needs no kernel.

A lesson writes `compute(**parameters) -> result` and `picture(figure) -> (moving, move)` (see `canvas`);
everything else is here.
"""

from __future__ import annotations

import collections
import math
import threading
from dataclasses import dataclass

import ipywidgets as widgets
import numpy as np
import traitlets

from . import canvas, frames, style
from .aloud import BEFORE, alert, voice

# ipykernel may run callbacks on a second thread beside the running cell.
_LOCK = threading.RLock()


@dataclass(frozen=True)
class Control:
    """A parameter that a reader can set: the name in Python, the label on screen, all positions."""

    name: str
    label: str
    unit: str
    values: tuple
    start: object
    options: tuple = ()  # texts of the positions of a choice; empty for numbers

    def __post_init__(self):
        if self.start not in self.values:
            raise ValueError(
                f"start of control {self.name!r} is {self.start!r}, which is no position of it; "
                f"choose one of {self.values[0]!r} … {self.values[-1]!r}"
            )

    def checked(self, value):
        """`value` if it can be set; ValueError or TypeError with one sentence otherwise."""
        if self.options:
            if value not in self.values:
                raise ValueError(
                    f"{self.name} must be one of {list(self.values)}, got {value!r}; choose one of these"
                )
            return value
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise TypeError(f"{self.name} must be a number, got {value!r}; give a value in {self.range}")
        if not self.values[0] <= value <= self.values[-1]:
            raise ValueError(
                f"{self.name} must be within {self.range}, got {value:g}; choose a value in that range"
            )
        return int(round(value)) if isinstance(self.start, int) else float(value)

    @property
    def range(self) -> str:
        return f"{self.values[0]:g} to {self.values[-1]:g} {self.unit}".strip()

    def text(self, value) -> str:
        """A value as a reader sees it: with its unit, or the name of the choice."""
        if self.options:
            return self.options[self.values.index(value)]
        return f"{value:,.10g} {self.unit}".strip()

    def nearest(self, value) -> int:
        """Position of the slider for a value, which may lie between two positions."""
        if self.options:
            return self.values.index(value)
        return int(np.argmin(np.abs(np.asarray(self.values, float) - value)))


def slider(name, label, unit, low, high, start, *, step=None, per_decade=None, values=None) -> Control:
    """A numeric control from `low` to `high`: with `step`, with `per_decade` positions per decade, or at `values`.

    Whole numbers for `low`, `high` and `start` make a whole-number parameter. `start` is always a position.
    """
    if sum(way is not None for way in (step, per_decade, values)) != 1:
        raise ValueError(f"control {name!r} needs one of step, per_decade and values; give just one")
    whole = all(isinstance(x, int) for x in (low, high, start))
    if step is not None:
        values = [round(low + step * k, 9) for k in range(round((high - low) / step) + 1)]
    elif per_decade is not None:
        digits = 2 if per_decade <= 20 else 3  # round numbers are easier to read aloud
        raw = np.geomspace(low, high, round(per_decade * math.log10(high / low)) + 1)
        values = [float(f"{x:.{digits}g}") for x in raw[1:-1]]  # the ends stay: 128 would become 130
    positions = {round(x) if whole else float(x) for x in (*values, low, high, start)}
    return Control(name, label, unit, tuple(sorted(positions)), start)


def choice(name, label, options, start=None) -> Control:
    """A control with a few named positions; `options` maps what is shown to the value that is passed."""
    if not isinstance(options, dict):
        options = {str(option): option for option in options}
    values = tuple(options.values())
    return Control(name, label, "", values, values[0] if start is None else start, tuple(options))


class _Picture(widgets.Image):
    # The browser's view reads `description` when a tooltip is set, and dies without it.
    description = traitlets.Unicode("").tag(sync=True)


class Explorer(widgets.VBox):
    """A picture that follows its controls.

    Parameters
    ----------
    name : how the explorer is called in Python, such as `little.area`; used in "Setting as Python".
    controls : list of Control.
    compute : function of the controls' names (and of `seed` where `sample` is true) to a result.
    picture : function of a matplotlib Figure to `(moving, move)`, see `canvas`.
    sample : whether the result is random; then a "New sample" button changes the seed, and nothing else does.
    setting : values other than the start values, by name; ValueError or TypeError where one can't be set.
    framed : the control that moves on a page without a kernel, by default the first slider.
    """

    def __init__(
        self, name, controls, compute, picture, *, sample=False, size=style.SIZE, setting=None, framed=None
    ):
        self.name, self._compute, self._picture = name, compute, picture
        self.controls: dict[str, Control] = {c.name: c for c in controls}
        if sample:
            self.controls["seed"] = Control("seed", "sample", "", tuple(range(1, 1001)), 1)
        self._size = size
        sliders = (c.name for c in self.controls.values() if not c.options)
        self._framed = framed or next(sliders, next(iter(self.controls)))
        self._values = {c.name: c.start for c in self.controls.values()}
        self._quiet = False
        self.error: Exception | None = None
        self.result = None
        self._canvas = self._shown = canvas.Canvas(picture, size)
        # A browser shows nothing while it loads a picture: the ones before stand behind it.
        self._images = collections.deque(
            _Picture(
                format="jpeg",
                tooltip=BEFORE,
                layout=widgets.Layout(width="100%", height="auto", grid_area="p"),
            )
            for _ in range(3)
        )
        self._shows = 0
        shown = widgets.GridBox(
            [*self._images, voice()],
            layout=widgets.Layout(
                width=f"{self._canvas.width}px",
                max_width="100%",
                grid_template_areas="'p'",
                overflow="visible",  # else it may scroll by half a pixel, which takes a stop of the Tab key
            ),
        )
        self._message = widgets.HTML(layout=widgets.Layout(min_height="1.6em"))
        self._fields, self._sliders = {}, {}
        rows = [self._row(c) for c in self.controls.values() if c.name != "seed"]
        super().__init__([*rows, self._buttons(sample), self._message, shown])
        self.add_class("qlab-explorer")
        self.set(**(setting or {}))

    # -- what a reader or a test can ask ------------------------------------------------------------

    @property
    def setting(self) -> dict:
        """Current value of every control."""
        return dict(self._values)

    @property
    def alt(self) -> str:
        """What the picture shows at the current setting, in words."""
        return self._shown.alt

    @property
    def as_python(self) -> str:
        """The current setting as a line of Python; values left at their start are not named."""
        changed = {k: v for k, v in self._values.items() if v != self.controls[k].start}
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"

    def set(self, **setting) -> Explorer:
        """Set controls by name; raises where a value can't be set or drawn."""
        for key, value in setting.items():
            if key not in self.controls:
                raise ValueError(
                    f"{self.name} has no control {key!r}; choose from {', '.join(self.controls)}"
                )
            setting[key] = self.controls[key].checked(value)
        self._change(setting)
        if self.error is not None:
            raise self.error
        return self

    def reset(self) -> Explorer:
        """Back to the start values, the sample included."""
        return self.set(**{c.name: c.start for c in self.controls.values()})

    def png(self) -> bytes:
        """The picture at the current setting."""
        return self._shown.png()

    def frames(self, control: str | None = None) -> frames.Frames:
        """The same picture with one slider that needs no kernel: every position is drawn beforehand.

        control : name of the control that moves, by default `framed`; the others stay as they are. Of more than
        100 positions every second, third, … is taken, and always the current one.
        """
        control = control or self._framed
        if control not in self.controls:
            raise ValueError(f"{self.name} has no control {control!r}; choose from {', '.join(self.controls)}")
        c, now = self.controls[control], self._values[control]
        every = -(-len(c.values) // _MOST_FRAMES)
        values = list(dict.fromkeys([*c.values[::every], c.values[-1], now]))
        values.sort(key=c.values.index if c.options else None)
        drawing, pictures, alts = canvas.Canvas(self._picture, self._size), [], []
        for value in values:
            try:
                drawing.show(self._compute(**self._values | {control: value}))
                shown = drawing
            except Exception as error:
                shown = canvas.notice(f"This setting cannot be drawn: {error}", self._size)
            pictures.append(shown.small_png())
            alts.append(shown.alt)
        others = [f"{o.label} {o.text(self._values[o.name])}" for o in self.controls.values() if o.name != control]
        return frames.Frames(
            label=c.label,
            texts=tuple(map(c.text, values)),
            pictures=tuple(pictures),
            alts=tuple(alts),
            start=values.index(now),
            width=drawing.width,
            height=drawing.height,
            others=f"Here: {', '.join(others)}." if others else "",
        )

    # -- controls ------------------------------------------------------------------------------------

    def _row(self, c: Control) -> widgets.Widget:
        if c.options:
            box = widgets.Dropdown(
                options=list(zip(c.options, c.values, strict=True)), value=c.start, description=c.label,
                style=_LABEL, layout=widgets.Layout(width="640px", max_width="99%"),
            )  # fmt: skip
            box.observe(lambda change: self._from_browser({c.name: change["new"]}), "value")
            self._sliders[c.name] = box
            return box
        # The field takes exact values, and gives the slider its name (see `aloud`).
        kind = widgets.IntText if isinstance(c.start, int) else widgets.FloatText
        field = kind(c.start, description=c.label, style=_LABEL, layout=widgets.Layout(width="270px"),
                     tooltip=f"{c.label}: {c.range}")  # fmt: skip
        bar = widgets.SelectionSlider(
            options=[(f"{value:g}", value) for value in c.values], value=c.start, readout=False, layout=_REST
        )
        field.observe(lambda change: self._from_browser({c.name: change["new"]}), "value")
        bar.observe(lambda change: self._from_browser({c.name: change["new"]}), "value")
        self._fields[c.name], self._sliders[c.name] = field, bar
        unit = widgets.Label(c.unit, layout=widgets.Layout(width="90px"))
        return widgets.HBox([field, unit, bar], layout=widgets.Layout(max_width="840px"))

    def _buttons(self, sample: bool) -> widgets.HBox:
        line = widgets.Text(
            description="in Python", style=_NARROW, layout=widgets.Layout(width="490px", display="none")
        )
        self._line = line

        def button(text, tip, action):
            b = widgets.Button(description=text, tooltip=tip, layout=widgets.Layout(width="auto"))
            b.on_click(lambda _: action())
            return b

        def reveal():
            line.layout.display = None if line.layout.display == "none" else "none"
            line.value = self.as_python

        def another():
            self._from_browser({"seed": self._values["seed"] % 1000 + 1})

        made = [
            button("Reset", "Back to the start values", lambda: self._from_browser(
                {c.name: c.start for c in self.controls.values()})),
            button("Setting as Python", "Show the line that opens the explorer at this setting", reveal),
            line,
        ]  # fmt: skip
        if sample:
            made.insert(0, button("New sample", "Draw other random numbers, keep the setting", another))
        return widgets.HBox(made)

    def _from_browser(self, setting: dict) -> None:
        if self._quiet:
            return
        try:
            setting = {key: self.controls[key].checked(value) for key, value in setting.items()}
        except (ValueError, TypeError) as error:
            self._message.value = alert(str(error))
            setting = {}
        else:
            self._message.value = ""
        self._change(setting)

    # -- drawing --------------------------------------------------------------------------------------

    def _change(self, setting: dict) -> None:
        with _LOCK:
            self._values |= setting
            self._follow()
            try:
                self.result = self._compute(**self._values)
                self._canvas.show(self.result)
                picture, self._shown, self.error = self._canvas.jpeg(), self._canvas, None
            except Exception as error:
                # A callback's traceback is shown nowhere: say it in the picture's place.
                self._shown = canvas.notice(f"This setting cannot be drawn: {error}", self._size)
                picture, self.error = self._shown.jpeg(), error
                self._message.value = alert(self._shown.alt, seen=False)
            self._turn(picture)

    def _turn(self, picture: bytes) -> None:
        """Give the picture to the image that has been on screen longest ago, and bring that to the front."""
        before, front = self._images[-1], self._images[0]
        self._images.rotate(-1)
        self._shows += 1
        with front.hold_sync():  # one message, so that the browser decodes one picture
            front.tooltip, front.value = self._shown.alt, picture
        front.layout.order = str(self._shows)
        before.tooltip = BEFORE

    def _follow(self) -> None:
        """Let every control show the current value."""
        self._quiet = True
        try:
            for name, bar in self._sliders.items():
                bar.index = self.controls[name].nearest(self._values[name])
            for name, field in self._fields.items():
                if field.value != self._values[name]:
                    field.value = self._values[name]
            if self._line.layout.display != "none":  # each message costs the slider a millisecond
                self._line.value = self.as_python
        finally:
            self._quiet = False

    def _repr_mimebundle_(self, include=None, exclude=None, **kw):
        if frames.wanted():
            shown = self.frames()
            return {"text/plain": repr(shown), "text/html": shown._repr_html_()}
        live = super()._repr_mimebundle_(include=include, exclude=exclude, **kw)
        data, meta = live if isinstance(live, tuple) else (live, {})
        # What a page without a kernel shows; the plain text has no random id, so that runs compare equal.
        return {**data, **canvas.bundle(self.png(), self.alt, self._canvas.width)}, dict(meta)


_LABEL = {"description_width": "170px"}
_NARROW = {"description_width": "70px"}
_REST = widgets.Layout(flex="1 1 160px", width="auto", margin="2px 12px 2px 2px")  # room for the handle at the end
_MOST_FRAMES = 100  # of 20 to 30 kB each
