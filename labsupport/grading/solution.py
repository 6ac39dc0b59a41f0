"""A solution's .py file, and the exercise that is left when what stands between the markers is taken out.

Inside a function a block becomes `raise NotImplementedError`; elsewhere each name that is needed later
becomes three dots. Both are "to do" for a check, and neither stops "Run all".
"""

from __future__ import annotations

import ast
import io
import os
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from labsupport.lab import compare

from .cases import Spec, fill, parameters, read

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Block:
    """Lines of a solution that are removed, markers included; counted from 1. `inside` names the function."""

    first: int
    last: int
    indent: str
    inside: str
    statements: tuple[ast.stmt, ...]


@dataclass(frozen=True)
class Solution:
    """One solution as it stands in its file, and the exercise that is left without its blocks."""

    where: str
    text: str
    spec: Spec
    blank: str

    @classmethod
    def read(cls, path: Path) -> Solution:
        """Raises ValueError, in one sentence with file and line, when the file or its .toml is wrong."""
        where = f"{path.parent.name}/{path.name}"
        spec = read(path.with_suffix(".toml"))
        try:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
        except UnicodeDecodeError:
            raise ValueError(f"{where} is not UTF-8; save it as UTF-8") from None
        except SyntaxError as error:
            raise ValueError(f"{where} line {error.lineno}: {error.msg}") from None
        _refuse_checks_without_cases(tree, spec, where)
        blank = _blank(text, _blocks(text, tree, where), _names_asked(spec), where)
        try:
            ast.parse(blank)
        except SyntaxError as error:
            line = blank.splitlines()[(error.lineno or 1) - 1].strip()
            raise ValueError(f"{where}: without its solution, {line!r} is not Python: {error.msg}") from None
        return cls(where, text, spec, blank)

    def run(self) -> dict:
        """The names of the finished solution; its checks are left out, their cases are still to be made."""
        return _run(self.text, self.where)

    def refuse_what_blank_passes(self) -> None:
        """Raises ValueError when the blank exercise stops "Run all", or a case in it is not "to do"."""
        names = _run(self.blank, self.where.replace("solutions/", "exercises/"))
        for case in self.spec.cases:
            expr = fill(case.expr, parameters(self.spec))
            seen = compare.observe(expr, names)
            if "blank" not in seen:
                raise ValueError(
                    f"{case.where}: in the blank exercise {expr} is not to do, but {str(seen)[:150]}; "
                    "ask for what the learner writes"
                )


def _run(text: str, where: str) -> dict:
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if not _opens(node) and not _checks(node)]
    names = {"__name__": "__main__"}
    os.environ.setdefault("MPLBACKEND", "Agg")
    try:
        with redirect_stdout(io.StringIO()):
            exec(compile(tree, where, "exec"), names)
    except (Exception, SystemExit) as error:
        trace, line = error.__traceback__, None
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == where else line
            trace = trace.tb_next
        raise ValueError(f'{where} line {line} stops "Run all": {type(error).__name__}: {error}') from error
    return names


def _opens(node: ast.stmt) -> bool:
    """Whether a statement is `check = exercise(…)`."""
    return isinstance(node, ast.Assign) and _is_call(node.value, "exercise")


def _checks(node: ast.stmt) -> bool:
    """Whether a statement is nothing but `check(…)`."""
    return isinstance(node, ast.Expr) and _is_call(node.value, "check")


def _is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _refuse_checks_without_cases(tree: ast.Module, spec: Spec, where: str) -> None:
    opening = f'check = exercise("{spec.stem}")'
    opened = [node for node in tree.body if _opens(node)]
    if len(opened) != 1 or ast.unparse(opened[0]) != ast.unparse(ast.parse(opening)):
        line = f" line {opened[0].lineno}" if opened else ""
        raise ValueError(f"{where}{line}: there must be one line {opening}")
    asked = set()
    alone = {id(node.value) for node in tree.body if _checks(node)}
    for node in ast.walk(tree):
        if not _is_call(node, "check"):
            continue
        question = ast.unparse(node)[len("check(") : -1]
        if id(node) not in alone or len(node.args) != 1 or not isinstance(node.args[0], ast.Constant):
            raise ValueError(
                f'{where} line {node.lineno}: check({question}) must be a line of its own, as check("q")'
            )
        if node.args[0].value not in spec.questions:
            raise ValueError(f"{where} line {node.lineno}: check({question}) has no case in {spec.stem}.toml")
        asked.add(node.args[0].value)
    for case in spec.cases:
        if case.q not in asked:
            raise ValueError(f'{case.where}: {where} has no check("{case.q}") for this case')


def _names_asked(spec: Spec) -> set[str]:
    values = parameters(spec)
    exprs = [fill(case.expr, values) for case in spec.cases]
    return {name.id for expr in exprs for name in ast.walk(ast.parse(expr)) if isinstance(name, ast.Name)}


def _blocks(text: str, tree: ast.Module, where: str) -> list[Block]:
    blocks, begun = [], None
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        mark = line.strip()
        at = f"{where} line {number}"
        if mark == BEGIN:
            if begun:
                raise ValueError(f"{at}: {BEGIN} again before the END of the one in line {begun}")
            begun = number
        elif mark == END:
            if not begun:
                raise ValueError(f"{at}: {END} without a BEGIN")
            blocks.append(_block(lines, begun, number, tree, where))
            begun = None
        elif re.search(r"#.*(BEGIN|END) SOLUTION", line, re.IGNORECASE):
            raise ValueError(f"{at}: {mark!r} is no marker; write {BEGIN} or {END} on a line of its own")
        elif begun and re.match(r"# %%", line):
            raise ValueError(f"{where} line {begun}: {BEGIN} has no END before the next cell, line {number}")
    if begun:
        raise ValueError(f"{where} line {begun}: {BEGIN} without an END")
    if not blocks:
        raise ValueError(f"{where}: there is no {BEGIN}; an exercise needs something to do")
    return blocks


def _block(lines: list[str], first: int, last: int, tree: ast.Module, where: str) -> Block:
    at = f"{where} line {first}"
    indent = lines[first - 1].removesuffix(BEGIN)
    inner = tuple(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and first < node.lineno and node.end_lineno < last
    )
    nested = {id(node) for outer in inner for node in ast.walk(outer) if node is not outer}
    inner = tuple(node for node in inner if id(node) not in nested)
    if not inner:
        raise ValueError(f"{at}: nothing stands between the markers")
    around = [node for node in ast.walk(tree) if isinstance(node, _DEFS) and node.lineno < first]
    around = [node for node in around if node.end_lineno >= inner[0].end_lineno]
    around.sort(key=lambda node: node.lineno)
    if around and isinstance(around[-1], ast.ClassDef):
        raise ValueError(f"{at}: the markers stand in class {around[-1].name}; put them inside its methods")
    return Block(first, last, indent, ".".join(node.name for node in around), inner)


def _blank(text: str, blocks: list[Block], asked: set[str], where: str) -> str:
    kept = {
        node.id
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and not any(block.first < node.lineno < block.last for block in blocks)
    }
    lines = text.splitlines()
    for block in reversed(blocks):
        lines[block.first - 1 : block.last] = _stand_in(block, kept | asked, where)
    return "\n".join(lines) + "\n"


def _stand_in(block: Block, needed: set[str], where: str) -> list[str]:
    """What the learner finds instead: code that raises inside a function, three dots elsewhere."""
    if block.inside:
        return [
            f"{block.indent}# Your code here, in place of the next line.",
            f'{block.indent}raise NotImplementedError("{block.inside} is still to be written")',
        ]
    bound = []
    for node in block.statements:
        if isinstance(node, _DEFS) and node.name in needed:
            raise ValueError(
                f"{where} line {node.lineno}: {node.name} is removed as a whole; put the markers inside it"
            )
        if not isinstance(node, _DEFS):
            stored = (name for name in ast.walk(node) if isinstance(name, ast.Name))
            bound += [name.id for name in stored if isinstance(name.ctx, ast.Store) and name.id in needed]
    values = [f"{block.indent}{name} = ..." for name in dict.fromkeys(bound)]
    return [f"{block.indent}# Your code here{', in place of the dots' if values else ''}.", *values]
