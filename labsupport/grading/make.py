"""exercises/ from solutions/: the learner's files and the public cases with right and wrong answers.

All answers come from running the solution, and a case that could not do its work is refused: one that the
solution fails, one that the blank exercise passes, a mistake that cannot be told from the right answer.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection
from pathlib import Path

from .cases import Spec
from .reference import reference
from .solution import Solution


def build(root: Path, only: Collection[str] = ()) -> list[Path]:
    """Make exercises/NN_stem.py and .json from every solution under `root`, or from those of the stems `only`.

    Returns the paths of all that were made.

    Raises ValueError, in one sentence with file and line, when a solution or a case is refused; then nothing
    is written.
    """
    made = _compose(Path(root), only)
    for path, text in made.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    return list(made)


def check(root: Path, only: Collection[str] = ()) -> list[str]:
    """One sentence for each file in exercises/ that is missing, left over, or not what `build` makes.

    With stems in `only`, nothing else is looked at.

    Raises ValueError as `build` does, and when there is no solution at all.
    """
    root = Path(root)
    made = _compose(root, only)
    found = []
    for path, text in made.items():
        name = path.relative_to(root).as_posix()
        if not path.is_file():
            found.append(f"{name} is missing; run `qlab exercises`")
        elif path.read_bytes() != text.encode():
            found.append(f"{name} is not what solutions/ makes; change those and run `qlab exercises`")
    for path in sorted((root / "exercises").glob("*")):
        if path not in made and not only and not path.name.startswith("."):
            found.append(f"{path.relative_to(root).as_posix()} belongs to no solution; delete it")
    return found


def _compose(root: Path, only: Collection[str]) -> dict[Path, str]:
    """What stands in each file of exercises/, or in those of the stems `only`."""
    room = root / "solutions"
    stems = sorted(only or {path.stem for path in room.glob("*") if path.suffix in (".py", ".toml")})
    if not stems:
        raise ValueError(
            f"{room} holds no solutions; there must be at least one NN_stem.py with its NN_stem.toml"
        )
    made = {}
    for stem in stems:
        for path in (room / f"{stem}.py", room / f"{stem}.toml"):
            if not path.is_file():
                raise ValueError(
                    f"solutions/{path.name} is missing; a solution is a .py and a .toml of one stem"
                )
        solution = Solution.read(room / f"{stem}.py")
        made[root / "exercises" / f"{stem}.py"] = solution.blank
        made[root / "exercises" / f"{stem}.json"] = _public(solution)
    return made


def _public(solution: Solution) -> str:
    names = solution.run()
    cases = reference(solution.spec, names)
    for values in _corners(solution.spec):
        reference(solution.spec, names, values)
    solution.refuse_what_blank_passes()
    public = [entry for case, entry in zip(solution.spec.cases, cases, strict=True) if case.public]
    whole = {"title": solution.spec.title, "cases": public}
    return json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _corners(spec: Spec) -> list[dict]:
    """The variants with each parameter at one of its ends: where a case works there, it works between."""
    ends = itertools.product(*((param.low, param.high) for param in spec.params.values()))
    return [dict(zip(spec.params, values, strict=True)) for values in ends] if spec.params else []
