"""Predictions: a learner commits to a number before the plot; the lesson shows it back later."""

from __future__ import annotations

import html

import ipywidgets as widgets

from . import progress


def predict(key: str, question: str, unit: str = "") -> widgets.VBox:
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

    button.on_click(keep)
    asked = widgets.HTML(f"<b>Predict.</b> {html.escape(question)}")
    return widgets.VBox([asked, widgets.HBox([field, button]), said])


def recall(key: str, value: float, unit: str = "") -> Recalled:
    """Show the prediction kept under `key` beside `value`, the number that the lesson has found."""
    return Recalled(progress.prediction(key), value, unit)


class Recalled:
    """A prediction beside what came out."""

    def __init__(self, predicted: float | None, value: float, unit: str):
        self.predicted, self.value, self.unit = predicted, value, unit

    def __str__(self):
        found = f"{self.value:.4g} {self.unit}".strip()
        if self.predicted is None:
            return f"The value is {found}. You have not committed a prediction: next time, commit one first."
        mine = f"{self.predicted:.4g} {self.unit}".strip()
        return f"You predicted {mine}; the value is {found}. {_verdict(self.predicted, self.value)}"

    __repr__ = __str__

    def _repr_html_(self):
        return f'<div role="status"><b>{html.escape(str(self))}</b></div>'


def _kept(value: float, unit: str) -> str:
    return f'<span role="status">Kept: {value:g} {html.escape(unit)}. Go on.</span>'


def _verdict(predicted: float, value: float) -> str:
    if value == 0 or predicted / value <= 0:
        return f"You were {abs(predicted - value):.3g} off."
    ratio = predicted / value
    if abs(ratio - 1) <= 0.05:
        return "That is within 5%."
    return f"You were {max(ratio, 1 / ratio):.2g} times too {'high' if ratio > 1 else 'low'}."
