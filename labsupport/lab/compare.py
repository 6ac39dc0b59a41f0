"""What an answer is, and when it is right: used in the notebook, and by grading outside the sandbox.

An answer is plain data: None, booleans, numbers, text, and lists and dicts of them, bounded in size.
`observe` evaluates an expression among the learner's names and returns what happened as plain data; `passed`,
`mistake` and `compare` judge plain data only, so no method of a learner's object has a say.

A *case* is a dict as in exercises/NN_stem.json: `q`, `expr` and one of `value`, `within` (low, high) and
`raises`; `rtol`; `mistakes`, each with `say` and one of `value` and `raises`; and what is shown beside these.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout

import numpy as np

RTOL = 1e-6
MOST_VALUES = 100_000
MOST_TEXT = 20_000
DEEPEST = 12
PRINTED = 1_000  # characters kept of what an expression prints
_SOURCE = "<case>"


# -- from the learner's objects to plain data -------------------------------------------------------


def plain(value):
    """The answer `value` as plain data: arrays, tuples and ranges become lists, numpy's scalars Python's.

    Raises TypeError that says what `value` is when it cannot be compared, and NotImplementedError when three
    dots stand where an answer should be.
    """
    return _plain(value, [MOST_VALUES], DEEPEST)


def _plain(value, left: list[int], depth: int):
    # By the true type, and by its own methods: a subclass can override neither.
    kind = type(value)
    left[0] -= 1
    if left[0] < 0 or depth < 0:
        raise TypeError(f"more than {MOST_VALUES:,} values" if depth >= 0 else "lists nested too deep")
    if value is None or kind is bool:
        return value
    if value is ...:
        raise NotImplementedError
    if issubclass(kind, np.ndarray | np.generic):
        return _from_numpy(np.asarray(value), left, depth)
    if issubclass(kind, int):
        number = int.__int__(value)
        if abs(number) >= 10**300:
            raise TypeError("a number with more than 300 digits")
        return number
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, str):
        if str.__len__(value) > MOST_TEXT:
            raise TypeError(f"text of more than {MOST_TEXT:,} characters")
        return str.__str__(value)
    if issubclass(kind, list | tuple | range):
        base = next(base for base in (list, tuple, range) if issubclass(kind, base))
        return [_plain(item, left, depth - 1) for item in base.__iter__(value)]
    if issubclass(kind, dict):
        pairs = [(_key(key), _plain(item, left, depth - 1)) for key, item in dict.items(value)]
        if len({key for key, _ in pairs}) < len(pairs):
            raise TypeError("a dict with two keys that read the same")
        return dict(pairs)
    raise TypeError(_type_name(kind))


def _from_numpy(array: np.ndarray, left: list[int], depth: int):
    if array.size > left[0] + 1:
        raise TypeError(f"an array of {array.size:,} values (at most {MOST_VALUES:,} can be compared)")
    if array.dtype.kind not in "biufUO":
        raise TypeError(f"an array of type {array.dtype}")
    if array.dtype.kind == "f":
        array = array.astype(float)
    items = array.tolist()
    if array.ndim == 0 and type(items) not in (bool, int, float, str):
        raise TypeError("an array that holds one object")
    return _plain(items, left, depth)


def _key(key) -> str:
    if key is None or issubclass(type(key), bool | int | float | str | np.generic):
        return str(_plain(key, [1], 0))
    raise TypeError("a dict whose keys are neither text nor numbers")


def _type_name(kind: type) -> str:
    name = kind.__name__
    name = {"builtin_function_or_method": "function", "ufunc": "function", "type": "class"}.get(name, name)
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


# -- evaluating an expression ----------------------------------------------------------------------


def observe(expr: str, names: dict) -> dict:
    """What comes of evaluating `expr` among `names`; never raises, not even for Ctrl-C.

    Returns plain data with one of these keys: `value`; `blank` (the code is still to be written); `missing`
    (a name that `expr` needs and that does not exist yet); `raised` (names of the exception's class and of
    its bases, with its `message` and the learner's `line` and `code` that raised it); `unusable` (what came
    back instead of an answer); `stopped`. `printed` is added when anything was printed.
    """
    out = _Printed()
    try:
        with redirect_stdout(out), redirect_stderr(_Printed()):
            seen = _evaluate(expr, names)
    except KeyboardInterrupt:
        seen = {"stopped": True}
    except BaseException as error:
        seen = {"raised": [type(error).__name__], "message": "", "line": None, "code": ""}
    if out.text:
        seen["printed"] = out.text
    return seen


def _evaluate(expr: str, names: dict) -> dict:
    try:
        value = eval(compile(expr, _SOURCE, "eval"), dict(names))
    except KeyboardInterrupt:
        raise
    except NotImplementedError:
        return {"blank": True}
    except BaseException as error:  # even SystemExit: "Run all" goes on
        return _raised(error, names)
    try:
        return {"value": plain(value)}
    except NotImplementedError:
        return {"blank": True}
    except TypeError as error:
        return {"unusable": str(error)}


def _raised(error: BaseException, names: dict) -> dict:
    frames = list(_frames(error))
    if isinstance(error, NameError) and frames[-1][0].f_code.co_filename == _SOURCE:
        return {"missing": str(error.name)}
    line, code = None, ""
    for frame, number in frames:
        if frame.f_globals is names:
            line, code = number, linecache.getline(frame.f_code.co_filename, number).strip()
    try:
        message = " ".join(str(error).split())[:200]
    except BaseException:
        message = ""
    bases = [kind.__name__ for kind in type(error).__mro__ if kind is not object]
    return {"raised": bases, "message": message, "line": line, "code": code[:120]}


def _frames(error: BaseException) -> Iterator[tuple]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


class _Printed:
    """Stands for a stream and keeps the beginning of what is written."""

    encoding = "utf-8"

    def __init__(self):
        self.text = ""

    def write(self, text) -> int:
        text = str(text)
        self.text += text[: PRINTED - len(self.text)]
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


# -- judging plain data ----------------------------------------------------------------------------


def is_number(value) -> bool:
    """Whether plain data is a number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def compare(got, expected, rtol: float = RTOL, nan: bool = False) -> bool:
    """Whether the plain data `got` equals `expected`, each number to the relative tolerance `rtol`.

    A zero may be off by 1e-12 of the largest expected number. NaN equals nothing, unless `nan`. Text is
    compared without regard to case and to blanks around it.
    """
    return next(differences(got, expected, rtol, nan), None) is None


def differences(got, expected, rtol: float = RTOL, nan: bool = False) -> Iterator[tuple[list, object]]:
    """Where `got` differs from `expected`: a path of positions and keys, and what `got` has there."""
    slack = 1e-12 * (max((abs(x) for x in numbers(expected) if math.isfinite(x)), default=0) or 1)
    yield from _differences(got, expected, rtol, nan, slack, [])


def _differences(got, expected, rtol, nan, slack, path) -> Iterator[tuple[list, object]]:
    if isinstance(expected, list) and isinstance(got, list) and len(got) == len(expected):
        for i, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
            yield from _differences(mine, theirs, rtol, nan, slack, [*path, i])
    elif isinstance(expected, dict) and isinstance(got, dict) and got.keys() == expected.keys():
        for key in expected:
            yield from _differences(got[key], expected[key], rtol, nan, slack, [*path, key])
    elif not _same(got, expected, rtol, nan, slack):
        yield path, got


def _same(got, expected, rtol, nan, slack) -> bool:
    if is_number(got) and is_number(expected):
        try:
            got, expected = float(got), float(expected)
        except OverflowError:
            return False
        if not (math.isfinite(got) and math.isfinite(expected)):
            return got == expected or (nan and math.isnan(got) and math.isnan(expected))
        return abs(got - expected) <= (rtol * abs(expected) if expected else slack)
    if isinstance(got, str) and isinstance(expected, str):
        return got.strip().casefold() == expected.strip().casefold()
    return got is expected and (got is None or isinstance(got, bool))


def numbers(value) -> Iterator[float]:
    """All numbers in plain data."""
    if is_number(value):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)


def passed(case: dict, seen: dict) -> bool:
    """Whether what `observe` saw is what the case asks for."""
    if "raises" in case:
        return case["raises"] in seen.get("raised", ())
    if "value" not in seen:
        return False
    if "within" in case:
        low, high = case["within"]
        return is_number(seen["value"]) and low <= seen["value"] <= high
    return compare(seen["value"], case["value"], case.get("rtol", RTOL))


def mistake(case: dict, seen: dict) -> str | None:
    """What to say to whoever gave a well-known wrong answer; None when it is none of the case's mistakes."""
    for known in case.get("mistakes", ()):
        if "raises" in known:
            found = seen.get("raised", [None])[0] == known["raises"]
        else:
            rtol = known.get("rtol", case.get("rtol", RTOL))
            found = "value" in seen and compare(seen["value"], known["value"], rtol, nan=True)
        if found:
            return known["say"]
    return None
