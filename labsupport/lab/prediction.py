"""Predictions: a learner commits to a number before the plot; the lesson shows it back later."""

from __future__ import annotations

import html
from collections import defaultdict

import ipywidgets as widgets

from . import frames, progress


class Asked(widgets.VBox):
    """Questions that wait for a number; a page without a kernel shows the questions alone.

    questions : of this and, where `children` are `Asked` too, of all of them in turn.
    """

    def __init__(self, children, *questions: str):
        super().__init__(children)
        self.questions = [*questions, *(q for c in children if isinstance(c, Asked) for q in c.questions)]

    def _repr_mimebundle_(self, include=None, exclude=None, **kw):
        asked = "".join(f"<p><b>Predict.</b> {html.escape(q)}</p>" for q in self.questions)
        still = {
            "text/plain": "\n".join(f"Predict. {q}" for q in self.questions),
            "text/html": f"{asked}<p><small>In JupyterLab you commit a number here, before you go on.</small></p>",
        }
        if frames.wanted():
            return still
        live = super()._repr_mimebundle_(include=include, exclude=exclude, **kw)
        data, meta = live if isinstance(live, tuple) else (live, {})
        return {**data, **still}, dict(meta)


def predict(key: str, question: str, unit: str = "") -> Asked:
    """Ask for a number and keep it under `key`; it can be changed until it is shown back.

    Parameters
    ----------
    key : lesson and name, such as `01.kv_cache`; `recall` uses the same.
    question : one sentence.
    unit : of the number, shown beside the field.
    """
    earlier = progress.prediction(key)
    name = f"your prediction{f' ({unit})' if unit else ''}"
    field = widgets.FloatText(
        earlier,
        description=name,
        style={"description_width": "initial"},
        layout=widgets.Layout(width="340px"),
    )
    button = widgets.Button(description="Commit", tooltip="Keep this number; the lesson comes back to it")
    said = widgets.HTML(_kept(earlier, unit) if earlier is not None else "")

    def keep(_):
        progress.record_prediction(key, field.value)
        said.value = _kept(field.value, unit)
        for recalled, shown in _shown[key]:
            recalled.predicted = field.value
            shown.value = recalled._repr_html_()

    button.on_click(keep)
    asked = widgets.HTML(f"<b>Predict.</b> {html.escape(question)}")
    return Asked([asked, widgets.HBox([field, button]), said], f"{question} ({unit})" if unit else question)


def recall(key: str, value, unit: str = "") -> Recalled:
    """Show the prediction kept under `key` beside `value`, the number (or the `Estimate`) that the lesson has found."""
    return Recalled(key, progress.prediction(key), value, unit)


# What was recalled under a key, and where it stands: all cells may have run before anything is committed.
_shown: dict[str, list[tuple[Recalled, widgets.HTML]]] = defaultdict(list)


class Recalled:
    """A prediction beside what came out; it follows when another number is committed."""

    def __init__(self, key: str, predicted: float | None, value, unit: str):
        self.key, self.predicted, self.unit = key, predicted, unit
        self.value = getattr(value, "value", value)
        self._interval = ""
        if getattr(value, "low", None) is not None:
            self._interval = f" (simulated, 95% interval {value.low:.3g} to {value.high:.3g})"

    def __str__(self):
        found = f"{self.value:.4g} {self.unit}".strip() + self._interval
        if frames.wanted():
            return f"The value is {found}."
        if self.predicted is None:
            return f"The value is {found}. You have not committed a prediction: next time, commit one first."
        mine = f"{self.predicted:.4g} {self.unit}".strip()
        return f"You predicted {mine}; the value is {found}. {_verdict(self.predicted, self.value)}"

    __repr__ = __str__

    def _repr_html_(self):
        return f'<div role="status"><b>{html.escape(str(self))}</b></div>'

    def _repr_mimebundle_(self, include=None, exclude=None, **kw):
        still = {"text/plain": str(self), "text/html": self._repr_html_()}
        if frames.wanted():
            return still
        shown = widgets.HTML(still["text/html"])
        _shown[self.key].append((self, shown))
        live = shown._repr_mimebundle_(include=include, exclude=exclude, **kw)
        data, meta = live if isinstance(live, tuple) else (live, {})
        return {**data, **still}, dict(meta)


def _kept(value: float, unit: str) -> str:
    return f'<span role="status">Kept: {value:g} {html.escape(unit)}. Go on.</span>'


def _verdict(predicted: float, value: float) -> str:
    if value == 0 or predicted / value <= 0:
        return f"You were {abs(predicted - value):.3g} off."
    ratio = predicted / value
    if abs(ratio - 1) <= 0.05:
        return "That is within 5%."
    return f"You were {max(ratio, 1 / ratio):.2g} times too {'high' if ratio > 1 else 'low'}."
