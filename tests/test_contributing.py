"""A lesson added by the very steps of CONTRIBUTING, in a copy of the course, is accepted by the suite."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("labsupport", "notebooks", "solutions", "exercises", "tests", ".github")
FILES = ("README.md", "LICENSE", "pyproject.toml")
LESSON = "12_fast_or_many"
# Where there are tests of every lesson, those in a browser apart: collecting all files takes longer than running these.
ASKED = [f"tests/test_{name}.py" for name in ("layers", "explorer", "exercises", "readme", "glossary", "fast_or_many")]
ASKED += [f"{room}/{LESSON}.py" for room in ("notebooks", "solutions")]


def steps() -> list[str]:
    """The blocks of commands in the section on adding a lesson, one for each numbered step."""
    text = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(r"^## Add a lesson\n(.*?)^## Add a reader\n", text, re.M | re.S)[1]
    blocks = re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)
    assert len(blocks) == len(re.findall(r"^\*\*\d\. ", section, re.M)), "a step has no commands, or two blocks"
    return blocks


def run(folder: Path, blocks: list[str]) -> subprocess.CompletedProcess:
    """Run the commands in a copy of the course, as a contributor does in an activated environment."""
    # Of the other lessons only the last: what -k leaves out anyway would still be collected, for half a minute.
    left_out = shutil.ignore_patterns("__pycache__", "*.ipynb", "0?_*", "10_*")
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=left_out)
    for file in FILES:
        shutil.copy(ROOT / file, folder)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "QLAB_"))}
    bin = Path(sys.executable).parent
    environment["PATH"] = os.pathsep.join([str(bin), environment["PATH"]])
    environment["PYTHONPATH"] = str(folder)  # the copy, not what is installed
    environment["PYTEST_ADDOPTS"] = f"-p no:cacheprovider --junitxml=results.xml {' '.join(ASKED)}"
    # ruff is for those who change the course; whoever only runs its tests may not have it.
    lines = ["set -euo pipefail", *([] if shutil.which("ruff", path=environment["PATH"]) else ["ruff() { :; }"])]
    script = "\n".join([*lines, *blocks])
    return subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True)


def accepted(folder: Path) -> list[str]:
    """Names of the tests that passed; the outcome of all others is none, since -k chose only this lesson's."""
    cases = ElementTree.parse(folder / "results.xml").iter("testcase")
    return [f"{case.get('classname')}::{case.get('name')}" for case in cases if len(case) == 0]


@pytest.mark.skipif(sys.platform == "win32", reason="the steps are written for a POSIX shell")
def test_lesson_added_by_the_steps_is_accepted(tmp_path):
    done = run(tmp_path, steps())
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    names = accepted(tmp_path)
    for wanted in (
        f"test_lesson_has_all_its_rooms[{LESSON}]",
        f"test_cells_of_a_lesson_are_short_and_have_their_slide_type[{LESSON}]",
        "test_imports_run_one_way[labsupport/fast_or_many.py]",
        f"test_explorer_draws_at_both_ends_of_every_control[{LESSON}.curve]",
        f"test_explorer_is_named_as_python_opens_it[{LESSON}.curve]",
        f"test_the_solution_passes[{LESSON}]",
        f"test_the_blank_exercise_is_to_do[{LESSON}]",
        "test_claim[F1]",
        f"test_lesson_is_on_the_map[{LESSON}]",
        f"test_lesson_has_terms_and_links_to_the_glossary[{LESSON}]",
    ):
        assert any(name.endswith(wanted) for name in names), f"{wanted} did not pass"
    mistakes = [name for name in names if f"test_a_named_mistake_fails_with_its_own_words[{LESSON}: " in name]
    assert len(mistakes) == 2
    for room in ("notebooks", "solutions"):
        source = (tmp_path / room / f"{LESSON}.py").read_text(encoding="utf-8")
        cells = len(re.findall(r"^# %%(?! \[markdown\])", source, re.M))
        ran = [name for name in names if name.startswith(f"{room}.{LESSON}::Cell")]
        assert len(ran) == cells > 0, f"{len(ran)} of {cells} cells of {room}/{LESSON}.py ran"
