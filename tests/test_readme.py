"""The README and its companions say what is there: links, commands, the map of lessons."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from labsupport import cli, course

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / ".github").glob("*.md"))]
README = PAGES[0].read_text(encoding="utf-8")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def outside_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


@each_page
def test_links_lead_somewhere(page):
    text = outside_code(page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if heading:
            titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.M)
            ids = [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]
            assert heading in ids, f"{page.name} links to {link}"


def parsers() -> dict[str, argparse.ArgumentParser]:
    made = {}
    for name, (_, define) in cli.COMMANDS.items():
        made[name] = argparse.ArgumentParser(exit_on_error=False)
        define(made[name])
    return made


def commands(text: str) -> list[str]:
    """All `qlab …` of a page, in fenced blocks and between backticks."""
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S))
    inline = re.findall(r"`(qlab [^`]+)`", outside_code(text))
    in_blocks = re.findall(r"(?:^|&& )(?:\S*/)?(qlab [^\n#&;|]+)", blocks, re.M)
    return [command.strip() for command in in_blocks + inline]


@each_page
def test_commands_exist_and_take_these_arguments(page):
    known = parsers()
    for command in commands(page.read_text(encoding="utf-8")):
        words = [word for word in shlex.split(command)[1:] if word != "…"]
        if "--" in words:
            words = words[: words.index("--")]
        if words == ["--version"]:
            continue
        assert words[0] in known, f"{page.name}: there is no `qlab {words[0]}`"
        options = set(known[words[0]]._option_string_actions)
        for word in words[1:]:
            if word.startswith("-"):
                assert word.partition("=")[0] in options, f"{page.name}: `{command}` has an unknown option {word}"


def test_readme_names_commands():
    assert {"lab", "check", "progress", "audit"} <= {shlex.split(command)[1] for command in commands(README)}


@pytest.mark.parametrize("stem", course.stems())
def test_lesson_is_on_the_map(stem):
    number, _, name = stem.partition("_")
    [row] = [line for line in README.splitlines() if line.startswith(f"| {number} |")]
    _, _, lesson, question, minutes, *rooms = (cell.strip() for cell in row.split("|")[:-1])
    links = re.findall(r"\]\(([^)]+)\)", " ".join([lesson, *rooms]))
    assert links == [
        f"notebooks/{stem}.py",
        f"labsupport/{name}.py",
        f"exercises/{stem}.py",
        f"solutions/{stem}.py",
        f"tests/test_{name}.py",
    ]
    head = (ROOT / "notebooks" / f"{stem}.py").read_text(encoding="utf-8")
    assert f"# **{question}**\n" in head, f"lesson {number} asks another question than its row in the README"
    assert f"*Time:* {minutes} minutes." in head


def test_map_has_no_lesson_that_is_not_there():
    assert re.findall(r"^\| (\d\d) \|", README, re.M) == [stem[:2] for stem in course.stems()]
