"""The cases of an exercise, as a teacher writes them in solutions/NN_stem.toml.

    title = "Little's law"

    [params]                                     # numbers that a personal variant may change
    rate = {textbook = 15, low = 10, high = 30, step = 5}

    [[case]]
    q = "L7"                                     # the question: check("L7") in the notebook
    expr = "time_in_system(120, {rate})"         # evaluated among the names of the finished notebook
    points = 2
    hint = ["Which law ties the two numbers?", "W = L/X."]

    [[case.mistake]]
    expr = "{rate} / 120"                        # evaluated among the names of the solution
    say = "That is X/L; Little's law gives W = L/X."

    [[mistake]]                                  # a wrong function, tried in every case of its question
    q = "L7"
    code = "def time_in_system(inside, rate): return rate / inside"
    say = "…"

The right value is never written down: it comes from evaluating `expr` in the solution. A case may have
`public = false`, `rtol`, one of `within = [low, high]` and `raises = "ValueError"`, and, for an answer that
is an array over x, `curve = {x = "…", xlabel = "…", ylabel = "…"}`.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import tomllib
import unicodedata
from dataclasses import dataclass, field, replace
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path

from labsupport.lab.compare import RTOL, is_number


@dataclass(frozen=True)
class Param:
    """A number that differs between students: low, low + step, … up to high."""

    textbook: int | float
    low: int | float
    high: int | float
    step: int | float

    @property
    def steps(self) -> int:
        """How many steps lead from low to high."""
        return int((Decimal(str(self.high)) - Decimal(str(self.low))) / Decimal(str(self.step)))

    def value(self, i: int) -> int | float:
        """The value after `i` steps, in decimals as they are written: 0.1 + 2 * 0.1 is 0.3."""
        value = Decimal(str(self.low)) + i * Decimal(str(self.step))
        return int(value) if isinstance(self.low, int) and isinstance(self.step, int) else float(value)


@dataclass(frozen=True)
class Mistake:
    """A well-known wrong answer and what to say to whoever gives it.

    expr : of a case's own mistake, yields the wrong answer.
    code : of a question's mistake, redefines a function wrongly.
    """

    say: str
    where: str
    q: str
    expr: str = ""
    code: str = ""
    rtol: float | None = None


@dataclass(frozen=True)
class Case:
    """One expression that is asked for, and how what comes back is judged; `where` names file and line."""

    q: str
    expr: str
    where: str
    points: float = 1
    public: bool = True
    rtol: float = RTOL
    within: tuple[float, float] | None = None
    raises: str = ""
    hints: tuple[str, ...] = ()
    curve: dict[str, str] | None = None
    mistakes: tuple[Mistake, ...] = ()


@dataclass(frozen=True)
class Spec:
    """All cases of one exercise; `stem` such as `01_little`."""

    stem: str
    title: str
    cases: tuple[Case, ...]
    mistakes: tuple[Mistake, ...] = ()
    params: dict[str, Param] = field(default_factory=dict)

    @property
    def questions(self) -> list[str]:
        return list(dict.fromkeys(case.q for case in self.cases))


def read(path: Path) -> Spec:
    """The cases in a .toml file.

    Raises ValueError, in one sentence with file and line, when something is missing or unknown.
    """
    where = f"{path.parent.name}/{path.name}"
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{where}: {error}") from None
    _keys(table, {"title", "case", "mistake", "params"}, where)
    spec = Spec(
        path.stem,
        _text(table, "title", where),
        tuple(_case(row, at) for row, at in _rows(table, "case", text, where)),
        tuple(_mistake(row, at) for row, at in _rows(table, "mistake", text, where)),
        {name: _param(name, row, where) for name, row in table.get("params", {}).items()},
    )
    if not spec.cases:
        raise ValueError(f"{where} has no [[case]]; a question needs at least one")
    for known in spec.mistakes:
        if known.q not in spec.questions:
            raise ValueError(
                f"{known.where}: no case asks question {known.q!r}; choose from {spec.questions}"
            )
    for q in spec.questions:
        mine = [case for case in spec.cases if case.q == q]
        if not any(case.public for case in mine):
            raise ValueError(
                f"{mine[0].where}: question {q!r} has no public case, so its check has nothing to say"
            )
    return spec


def extended(spec: Spec, path: Path) -> Spec:
    """`spec` with the cases and mistakes of another file for its questions; hidden unless `public = true`.

    Raises ValueError, in one sentence with file and line, as `read` does.
    """
    where = f"{path.parent.name}/{path.name}"
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{where}: {error}") from None
    _keys(table, {"case", "mistake"}, where)
    rows = [({"public": False, **row}, at) for row, at in _rows(table, "case", text, where)]
    more = tuple(_case(row, at) for row, at in rows)
    wrong = tuple(_mistake(row, at) for row, at in _rows(table, "mistake", text, where))
    for item in (*more, *wrong):
        if item.q not in spec.questions:
            raise ValueError(f"{item.where}: {spec.stem} has no question {item.q!r}; choose from {spec.questions}")
    return replace(spec, cases=spec.cases + more, mistakes=spec.mistakes + wrong)


# -- personal variants ------------------------------------------------------------------------------


def parameters(spec: Spec, student: str | None = None, salt: str | None = None) -> dict[str, int | float]:
    """The numbers of one student's variant; the textbook's without a student.

    Drawn by HMAC-SHA256 with the salt as key, so that nobody without the salt can tell them beforehand; each
    number depends on student, exercise and name only. Raises ValueError for a student without a salt.
    """
    if student is None:
        return {name: param.textbook for name, param in spec.params.items()}
    if not salt:
        raise ValueError(
            f"the variant of student {student!r} needs a salt; take it from the teacher's folder"
        )
    student = unicodedata.normalize("NFC", student).strip()
    values = {}
    for name, param in spec.params.items():
        message = "\0".join((student, spec.stem, name)).encode()
        drawn = int.from_bytes(hmac.new(salt.encode(), message, hashlib.sha256).digest(), "big")
        values[name] = param.value(drawn % (param.steps + 1))
    return values


def fill(text: str, values: dict[str, int | float]) -> str:
    """`text` with each {name} of a parameter replaced by its value; other braces stay, as in a dict."""
    return re.sub(r"\{(\w+)\}", lambda m: repr(values[m[1]]) if m[1] in values else m[0], text)


# -- reading the tables -----------------------------------------------------------------------------


def _rows(table: dict, name: str, text: str, where: str) -> list[tuple[dict, str]]:
    """The rows [[name]] of a table, each with the file and line where it begins."""
    rows = table.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{where}: {name} is not a list of tables; write [[{name}]] above each")
    header = re.compile(rf"\s*\[\[\s*{name}\s*\]\]")
    lines = [n for n, line in enumerate(text.splitlines(), 1) if header.match(line)]
    if len(lines) != len(rows):  # written inline, or a header inside a text
        return [(row, where) for row in rows]
    return [(row, f"{where} line {n}") for row, n in zip(rows, lines, strict=True)]


def _case(row: dict, where: str) -> Case:
    known = {"q", "expr", "points", "public", "rtol", "within", "raises", "hint", "curve", "mistake"}
    _keys(row, known, where)
    points, public = row.get("points", 1), row.get("public", True)
    if not _is_number(points) or points < 0:
        raise ValueError(f"{where}: points = {points!r}; give a number that is not negative")
    if not isinstance(public, bool):
        raise ValueError(f"{where}: public = {public!r}; give true or false")
    if "within" in row and "raises" in row:
        raise ValueError(f"{where}: within and raises exclude each other; keep one")
    within, raises = row.get("within"), row.get("raises", "")
    if within is not None and not (
        isinstance(within, list)
        and len(within) == 2
        and all(map(_is_number, within))
        and within[0] <= within[1]
    ):
        raise ValueError(f"{where}: within = {within!r}; give [low, high]")
    if "raises" in row and not (isinstance(raises, str) and raises.isidentifier()):
        raise ValueError(f"{where}: raises = {raises!r}; give the name of an exception")
    if raises in ("NotImplementedError", "NameError", "Exception", "BaseException"):
        raise ValueError(
            f"{where}: raises = {raises!r} is what unwritten code does too; name a narrower exception"
        )
    q, mistakes = _text(row, "q", where), row.get("mistake", [])
    if not isinstance(mistakes, list):
        raise ValueError(f"{where}: mistake is not a list of tables; write [[case.mistake]] above each")
    return Case(
        q,
        _expr(row, "expr", where),
        where,
        points,
        public,
        _rtol(row, where),
        tuple(within) if within is not None else None,
        raises,
        _hints(row, where),
        _curve(row, where),
        tuple(_case_mistake(known, f"{where}, mistake {i}", q) for i, known in enumerate(mistakes, 1)),
    )


def _case_mistake(row: dict, where: str, q: str) -> Mistake:
    _keys(row, {"expr", "say", "rtol"}, where)
    rtol = _rtol(row, where) if "rtol" in row else None
    return Mistake(_text(row, "say", where), where, q, expr=_expr(row, "expr", where), rtol=rtol)


def _mistake(row: dict, where: str) -> Mistake:
    _keys(row, {"q", "code", "say"}, where)
    code = _text(row, "code", where)
    _compiles(code, "exec", where)
    return Mistake(_text(row, "say", where), where, _text(row, "q", where), code=code)


def _param(name: str, row, where: str) -> Param:
    at = f"{where}: [params] {name}"
    if not isinstance(row, dict) or not name.isidentifier():
        raise ValueError(f"{at} is not name = {{textbook = …, low = …, high = …, step = …}}")
    _keys(row, {"textbook", "low", "high", "step"}, at)
    for key in ("textbook", "low", "high", "step"):
        if not _is_number(row.get(key)):
            raise ValueError(f"{at}: {key} = {row.get(key)!r}; give a number")
    param = Param(**row)
    if not (param.low < param.high and param.step > 0):
        raise ValueError(f"{at}: low must be below high, and step above 0")
    last = param.value(param.steps)
    if last != param.high:
        raise ValueError(f"{at}: whole steps from low do not lead to high = {param.high}, but to {last}")
    return param


def _hints(row: dict, where: str) -> tuple[str, ...]:
    hint = row.get("hint", [])
    hints = [hint] if isinstance(hint, str) else hint
    if not isinstance(hints, list) or not all(isinstance(text, str) and text.strip() for text in hints):
        raise ValueError(f"{where}: hint = {hint!r}; give a text or a list of texts")
    return tuple(hints)


def _curve(row: dict, where: str) -> dict[str, str] | None:
    if "curve" not in row:
        return None
    curve, where = row["curve"], f"{where}, curve"
    if not isinstance(curve, dict):
        raise ValueError(f"{where}: give {{x = …, xlabel = …, ylabel = …}}")
    _keys(curve, {"x", "xlabel", "ylabel"}, where)
    return {"x": _expr(curve, "x", where), **{key: _text(curve, key, where) for key in ("xlabel", "ylabel")}}


def _rtol(row: dict, where: str) -> float:
    rtol = row.get("rtol", RTOL)
    if not _is_number(rtol) or not 0 <= rtol < 1:
        raise ValueError(f"{where}: rtol = {rtol!r}; give a number from 0 up to 1")
    return rtol


def _expr(row: dict, key: str, where: str) -> str:
    expr = _text(row, key, where)
    # A parameter in braces is a set to Python, which is well-formed too.
    _compiles(expr, "eval", where)
    return expr


def _compiles(code: str, mode: str, where: str) -> None:
    try:
        compile(code, where, mode)
    except SyntaxError as error:
        raise ValueError(f"{where}: {code.strip().splitlines()[0]!r} is not Python: {error.msg}") from None


def _text(row: dict, key: str, where: str) -> str:
    if not isinstance(row.get(key), str) or not row[key].strip():
        raise ValueError(f"{where}: {key} = {row.get(key)!r}; give a text")
    return row[key].strip()


def _keys(row: dict, known: set[str], where: str) -> None:
    for key in row:
        if key not in known:
            close = get_close_matches(key, known, 1)
            meant = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(sorted(known))}"
            raise ValueError(f"{where}: {key!r} is unknown; {meant}")


def _is_number(value) -> bool:
    return is_number(value) and math.isfinite(value)
