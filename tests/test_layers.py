"""What holds the course together: who imports whom, what stands where, what a lesson consists of."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest

from labsupport import course

ROOT = Path(__file__).resolve().parent.parent
STEMS = sorted(
    {
        path.stem
        for room in ("notebooks", "solutions", "exercises")
        for path in (ROOT / room).glob("[0-9][0-9]_*")
    }
)
LESSONS = {stem.partition("_")[2] for stem in STEMS}
TOP = {"README.md", "pyproject.toml", "LICENSE", "notebooks", "labsupport", "exercises", "solutions", "tests"}

# Part of labsupport -> the other parts it may import. `cli` may import all.
MAY_IMPORT = {
    "queueing": set(),
    "course": set(),
    "records": {"queueing", "course"},
    "loadtest": {"queueing", "records", "course"},
    "audit": {"queueing", "records", "lab", "course"},
    "lab": {"queueing", "course"},
    "grading": {"lab", "course"},
    "copies": {"course"},
    "pages": {"lab", "course"},
    "lab_server": {"copies", "course"},
    "app": {"lab_server", "course"},
    "slides": {"lab_server", "course"},
    "sizing": {"queueing", "lab"},
    **{lesson: {"queueing", "records", "loadtest", "audit", "lab", "course", "sizing"} for lesson in LESSONS},
}
SOURCES = sorted((ROOT / "labsupport").rglob("*.py"))
HEAVY = {"scipy.stats", "numba", "matplotlib", "ipywidgets", "IPython", "jupytext", "pandas"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> set[str]:
    """Full names of all modules and names that a module imports, wherever in it."""
    package = path.relative_to(ROOT).parent.parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def calls(path: Path) -> set[str]:
    """Dotted names of all functions that a module calls."""
    return {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    }


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_imports_run_one_way(path):
    part = path.relative_to(ROOT / "labsupport").parts[0].removesuffix(".py")
    used = {full.split(".")[1] for full in imports(path) if full.startswith("labsupport.")}
    if part == "cli":
        return
    if part == "__init__":
        assert used == set()
    else:
        assert part in MAY_IMPORT, f"{part} is no lesson and no known part of labsupport"
        assert used - {part, "__version__"} <= MAY_IMPORT[part]


@pytest.mark.parametrize("path", [path for path in SOURCES if "queueing" in path.parts], ids=name)
def test_science_knows_no_file_clock_or_screen(path):
    pure = {"__future__", "abc", "bisect", "collections", "dataclasses", "enum", "functools", "heapq", "itertools"}
    pure |= {"math", "numbers", "operator", "types", "typing", "warnings"}
    tops = {full.split(".")[0] for full in imports(path)}
    assert tops <= pure | {"os", "numpy", "scipy", "numba", "labsupport"}
    of_system = {call for call in calls(path) if call.startswith("os.")}
    assert of_system <= {"os.environ.get"}, "os is there for the switch QLAB_NUMBA alone"
    assert not calls(path) & {"open", "print", "input", "np.load", "np.save", "np.loadtxt", "np.savetxt"}


def test_course_needs_only_the_standard_library():
    tops = {full.split(".")[0] for full in imports(ROOT / "labsupport" / "course.py")}
    assert tops <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_randomness_comes_from_a_generator(path):
    seeded = {"default_rng", "Generator", "SeedSequence", "PCG64"}
    for call in calls(path):
        module, _, function = call.rpartition(".")
        assert module not in ("np.random", "numpy.random") or function in seeded, f"{call} uses global state"


def test_importing_is_light():
    """Also of each part of the science: a page that reads a log waits for no statistics package."""
    modules = [f"labsupport.queueing.{path.stem}" for path in ROOT.glob("labsupport/queueing/[!_]*.py")]
    assert "labsupport.queueing.simulate" in modules
    code = f"""
import sys, time
import numpy
start = time.perf_counter()
import labsupport, labsupport.queueing
print(time.perf_counter() - start)
import {", ".join(modules)}
print(*sorted({HEAVY} & set(sys.modules)))
"""
    seconds = []
    for _ in range(5):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
        took, heavy = run.stdout.split("\n")[:2]
        assert heavy == ""
        seconds.append(float(took))
    assert min(seconds) < (0.25 if os.environ.get("CI") != "true" else 0.5)


def tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: only git knows what belongs to the course")
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return run.stdout.split("\0")[:-1]


def test_top_level_holds_only_what_the_readme_names():
    tops = {file.split("/")[0] for file in tracked()}
    assert "README.md" in tops
    assert {top for top in tops if not top.startswith(".")} <= TOP


def test_no_notebook_file_is_tracked():
    assert [file for file in tracked() if file.endswith(".ipynb")] == []


def test_there_are_lessons():
    assert course.stems()


@pytest.mark.parametrize("stem", STEMS)
def test_lesson_has_all_its_rooms(stem):
    title = stem.partition("_")[2]
    rooms = [f"notebooks/{stem}.py", f"labsupport/{title}.py", f"solutions/{stem}.py", f"solutions/{stem}.toml"]
    rooms += [f"exercises/{stem}.py", f"exercises/{stem}.json", f"tests/test_{title}.py"]
    assert [room for room in rooms if not (ROOT / room).is_file()] == []


@pytest.mark.parametrize("stem", course.stems())
def test_cells_of_a_lesson_are_short_and_have_their_slide_type(stem):
    cells = jupytext.read(ROOT / "notebooks" / f"{stem}.py").cells
    assert any(cell.cell_type == "code" for cell in cells)
    for cell in cells:
        slide = cell.metadata.get("slideshow", {}).get("slide_type")
        assert slide in {"slide", "subslide", "fragment", "notes", "skip", "-"}, f"slide type {slide}:\n{cell.source}"
        if cell.cell_type == "code":
            assert len(cell.source.splitlines()) <= 12, f"more than 12 lines:\n{cell.source}"
