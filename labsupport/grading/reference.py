"""What is right in each case and what is wrong in a well-known way, by evaluating both in the solution."""

from __future__ import annotations

import io
import math
from contextlib import redirect_stdout

from labsupport.lab import compare
from labsupport.lab.words import judge

from .cases import Case, Mistake, Spec, fill, parameters


def reference(spec: Spec, names: dict, values: dict | None = None) -> list[dict]:
    """All cases, hidden ones too, as dicts for `labsupport.lab.compare`, with what the solution answers.

    names : of the finished solution, from `Solution.run`.
    values : of the parameters, by default the textbook's.
    Raises ValueError when the solution fails a case, or a mistake cannot be told from something else.
    """
    values = parameters(spec) if values is None else values
    entries = [_entry(case, names, values) for case in spec.cases]
    for case, entry in zip(spec.cases, entries, strict=True):
        for known in case.mistakes:
            _add_own(entry, known, values, names)
    _add_wrong_functions(spec, entries, values, names)
    return entries


def rounded(value):
    """Plain data with floats to ten significant digits, and zero where only rounding noise is left of a zero.

    The last digits depend on the machine; what is committed must not.
    """
    noise = 1e-12 * max(
        (abs(number) for number in compare.numbers(value) if math.isfinite(number)), default=0
    )

    def each(item):
        if isinstance(item, float):
            return 0.0 if abs(item) < noise else float(f"{item:.10g}") + 0.0  # and -0.0 becomes 0.0
        if isinstance(item, list):
            return [each(part) for part in item]
        return {key: each(part) for key, part in item.items()} if isinstance(item, dict) else item

    return each(value)


def _entry(case: Case, names: dict, values: dict) -> dict:
    expr = fill(case.expr, values)
    seen = compare.observe(expr, names)
    entry = {"q": case.q, "expr": expr, "points": case.points, "rtol": case.rtol, "mistakes": []}
    entry["hints"] = [fill(hint, values) for hint in case.hints]
    if case.within:
        entry["within"] = list(case.within)
    elif case.raises:
        entry["raises"] = case.raises
    else:
        entry["value"] = rounded(seen.get("value"))
    if not compare.passed(entry, seen):
        raise ValueError(f"{case.where}: the solution fails its own case: {judge(entry, seen)}")
    if case.curve:
        entry["curve"] = {**case.curve, "x": _curve_over(case, entry, names, values)}
    return entry


def _curve_over(case: Case, entry: dict, names: dict, values: dict) -> list[float]:
    x = compare.observe(fill(case.curve["x"], values), names).get("value")
    for what, column in (("x of the curve", x), ("the answer", entry.get("value"))):
        if not isinstance(column, list) or not all(map(compare.is_number, column)) or len(column) != len(x):
            raise ValueError(f"{case.where}: {what} is not a list of numbers, one for each x")
    return rounded(x)


# -- mistakes ---------------------------------------------------------------------------------------


def _add_own(entry: dict, known: Mistake, values: dict, names: dict) -> None:
    """Add a case's own mistake, unless it is the right answer or another mistake in other words."""
    seen = compare.observe(fill(known.expr, values), names)
    wrong = _wrong(known, seen, values)
    variant = f" with {values}" if values else ""
    if wrong is None:
        raise ValueError(f"{known.where}: {known.expr} yields nothing that a learner could answer: {seen}")
    if _is_right(entry, wrong, seen):
        raise ValueError(
            f"{known.where}: the mistake equals the right answer{variant}; they cannot be told apart"
        )
    if any(_alike(entry, wrong, other) and other["say"] != wrong["say"] for other in entry["mistakes"]):
        raise ValueError(
            f"{known.where}: another mistake of this case has the same value{variant}, in other words"
        )
    entry["mistakes"].append(wrong)


def _add_wrong_functions(spec: Spec, entries: list[dict], values: dict, names: dict) -> None:
    """Add each [[mistake]] to the cases of its question that tell it apart; one of them must be public."""
    found = []  # mistake, case, entry, what comes of it
    for known in spec.mistakes:
        mine = [(case, entry) for case, entry in zip(spec.cases, entries, strict=True) if case.q == known.q]
        seens = _with_wrong_function(known, [entry["expr"] for _, entry in mine], names)
        for (case, entry), seen in zip(mine, seens, strict=True):
            wrong = _wrong(known, seen, values)
            if wrong is not None and not _is_right(entry, wrong, seen):
                found.append((known, case, entry, wrong))
    told = []
    for known, case, entry, wrong in found:
        others = entry["mistakes"] + [other for _, at, _, other in found if at is case]
        if not any(_alike(entry, wrong, other) and other["say"] != wrong["say"] for other in others):
            told.append((known, case, entry, wrong))
    for known in spec.mistakes:
        if not any(at is known and case.public for at, case, _, _ in told):
            variant = f" with {values}" if values else ""
            raise ValueError(
                f"{known.where}: no public case of {known.q!r} tells this mistake from the right answer and "
                f"from the other mistakes{variant}; add a case that does"
            )
    for _, _, entry, wrong in told:
        entry["mistakes"].append(wrong)


def _with_wrong_function(known: Mistake, exprs: list[str], names: dict) -> list[dict]:
    """What `exprs` give after the mistake's code."""
    kept = dict(names)
    try:
        # Among the very names that the solution's functions look up, so that they too use the wrong one.
        with redirect_stdout(io.StringIO()):
            exec(compile(known.code, known.where, "exec"), names)
        return [compare.observe(expr, names) for expr in exprs]
    except Exception as error:
        raise ValueError(
            f"{known.where}: the code of the mistake raised {type(error).__name__}: {error}"
        ) from None
    finally:
        names.clear()
        names.update(kept)


def _wrong(known: Mistake, seen: dict, values: dict) -> dict | None:
    """A mistake as it stands in a case; None when what was seen is nothing to recognise it by."""
    wrong = {"say": fill(known.say, values)}
    if known.rtol is not None:
        wrong["rtol"] = known.rtol
    if "value" in seen:
        return {**wrong, "value": rounded(seen["value"])}
    return {**wrong, "raises": seen["raised"][0]} if "raised" in seen else None


def _is_right(entry: dict, wrong: dict, seen: dict) -> bool:
    """Whether the mistake passes, or the right answer would be taken for it."""
    return compare.passed(entry, seen) or ("value" in entry and _taken_for(entry, entry, wrong))


def _alike(entry: dict, one: dict, other: dict) -> bool:
    return _taken_for(entry, one, other) or _taken_for(entry, other, one)


def _taken_for(entry: dict, outcome: dict, wrong: dict) -> bool:
    """Whether an answer with this outcome would be called by the name of the mistake `wrong`."""
    seen = {"raised": [outcome["raises"]]} if "raises" in outcome else {"value": outcome["value"]}
    return compare.mistake({**entry, "mistakes": [wrong]}, seen) is not None
