"""What is said about an answer, in words for the learner."""

from __future__ import annotations

import math

from . import compare
from .report import NOT_YET, PASSED, TO_DO, Line


def judge(case: dict, seen: dict) -> Line:
    """The verdict on what `compare.observe` saw of one case, in words for the learner."""
    q, expr = case["q"], case["expr"]
    curve = _curve(case, seen)
    if compare.passed(case, seen):
        result = f" raises {case['raises']}" if "raises" in case else f" = {show(seen['value'])}"
        return Line(q, PASSED, expr, result, curve=curve)
    if "blank" in seen:
        return Line(q, TO_DO)
    if "missing" in seen:
        return Line(q, TO_DO, advice=f"{seen['missing']} does not exist yet; run the cell that defines it.")
    advice = compare.mistake(case, seen) or _advice(case, seen)
    if seen.get("printed"):
        advice = f"{advice} (It printed: {' '.join(seen['printed'].split())[:200]})".strip()
    return Line(q, NOT_YET, expr, _result(case, seen), advice, curve)


def _result(case: dict, seen: dict) -> str:
    """What came back, as the end of a sentence that begins with the expression."""
    call = "(" in case["expr"]
    wanted = f"{case['raises']} should be raised" if "raises" in case else f"{_kind(case)} is expected"
    if "stopped" in seen:
        return " was stopped before it had finished."
    if "raised" in seen:
        said = f": {seen['message']}" if seen["message"] else ""
        where = f" (line {seen['line']}: {seen['code']})" if seen.get("code") else ""
        instead = f"; {wanted}" if "raises" in case else ""
        return f" raised {seen['raised'][0]}{said}{where}{instead}."
    if "unusable" in seen:
        return f" {'returned' if call else 'is'} {seen['unusable']}; {wanted}."
    value = seen["value"]
    if value is None:
        return f" returned nothing; {wanted}. Is there a return?" if call else f" is None; {wanted}."
    if "raises" not in case and describe(value) != _kind(case):
        what = show(value) if isinstance(value, bool) else describe(value)
        return f" {'returned' if call else 'is'} {what}; {wanted}."
    return f" {'gave' if call else 'is'} {show(value, 8)}{f'; {wanted}' if 'raises' in case else ''}."


def _advice(case: dict, seen: dict) -> str:
    """What can be said about a wrong value that is no mistake of the case's own."""
    if "value" not in seen or "value" not in case or describe(seen["value"]) != _kind(case):
        return ""
    got, expected = seen["value"], case["value"]
    if not compare.is_number(expected):
        path, value = next(compare.differences(got, expected, case.get("rtol", compare.RTOL)))
        where = " of ".join(
            f"position {step}" if isinstance(step, int) else repr(step) for step in path[::-1]
        )
        counted = ", counted from 0" if any(isinstance(step, int) for step in path) else ""
        return f"It differs first at {where} ({show(value, 8)} there{counted})." if path else ""
    if not (expected and math.isfinite(got) and math.isfinite(expected)):
        return ""
    for factor in (1000, 60, 100):
        if compare.compare(got, expected * factor):
            return f"That is {factor} times too large: is the unit right?"
        if compare.compare(got * factor, expected):
            return f"That is {factor} times too small: is the unit right?"
    if compare.compare(got, -expected):
        return "That has the wrong sign."
    off = abs(got / expected - 1)
    return f"It is {100 * off:.1g}% off the right value: was something rounded?" if off < 0.01 else ""


def _kind(case: dict) -> str:
    return "a single number" if "within" in case else describe(case["value"])


def describe(value) -> str:
    """What kind of thing plain data is, as far as an answer must agree with it."""
    if value is None:
        return "None"
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return f"a list of {len(value)} value{'s' if len(value) != 1 else ''}"
    if isinstance(value, dict):
        return f"a dict with the keys {', '.join(sorted(value))}"[:200] if value else "an empty dict"
    return "a single number"


def show(value, digits: int = 6) -> str:
    """Plain data as a learner would write it, cut where it is long."""
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:60] + "…")
    if isinstance(value, list):
        items = [show(item, digits) for item in value[:6]]
        return f"[{', '.join(items)}{f', … {len(value)} values' if len(value) > 6 else ''}]"
    if isinstance(value, dict):
        items = [f"{key!r}: {show(item, digits)}" for key, item in list(value.items())[:6]]
        return f"{{{', '.join(items)}{f', … {len(value)} keys' if len(value) > 6 else ''}}}"
    return repr(value)


def _curve(case: dict, seen: dict) -> dict | None:
    """The dict for `report.picture`, when the case has a curve and the answer can be drawn."""
    value = seen.get("value")
    if "curve" not in case or not isinstance(value, list) or len(value) != len(case["value"]):
        return None
    if not all(map(compare.is_number, value)):
        return None
    return {**case["curve"], "mine": value, "reference": case["value"]}
