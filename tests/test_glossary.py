"""The glossary: every term, symbol and link is the lessons' own, and the learner finds it beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from labsupport import copies, course

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "notebooks" / "glossary.md").read_text(encoding="utf-8")
HEAD = "| English | 中文 | symbol | unit | meaning | lessons |"
UNITS = {"", "1", "s", "s²", "unit²", "as the quantity", "requests", "requests/s", "requests = requests/s × s"}
UNITS |= {"bytes", "tokens", "tasks", "servers", "users", "connections"}
# The words of a lesson write a letter, its formulas a command.
LETTERS = dict(zip("λρσβθτμ", ["lambda", "rho", "sigma", "beta", "theta", "tau", "mu"], strict=True))


@dataclass(frozen=True)
class Term:
    """A row of the glossary: `home` is the lesson of its section, `lessons` those that it links to."""

    home: str
    english: str
    chinese: str
    symbol: str
    unit: str
    meaning: str
    lessons: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The ways in which lessons may call it: before the parentheses, and in them."""
        name, _, others = self.english.partition(" (")
        if len(others) < 3:  # goodput (a) is one name
            return [self.english]
        return [name, others.rstrip(")")]


def terms() -> list[Term]:
    found = []
    for section in TEXT.split("\n## ")[1:]:
        home = re.match(r"\[(\d\d) [^]]+\]\((\d\d_\w+)\.py\)\n", section)
        assert home and home[2].startswith(home[1]), f"no lesson in the heading {section.splitlines()[0]!r}"
        table = [line for line in section.splitlines() if line.startswith("|")]
        assert table[:2] == [HEAD, "|---" * 6 + "|"]
        for line in table[2:]:
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            assert len(cells) == 6, f"{len(cells)} cells instead of 6: {line}"
            links = re.findall(r"\[(\d\d)\]\((\d\d_\w+)\.py\)", cells[5])
            assert cells[5] == ", ".join(f"[{number}]({stem}.py)" for number, stem in links)
            assert all(stem.startswith(number) for number, stem in links)
            found.append(Term(home[2], *cells[:5], tuple(stem for _, stem in links)))
    return found


TERMS = terms()


def words(stem: str) -> str:
    """All that a learner reads in a lesson and its exercise, line by line as in the files."""
    files = [f"notebooks/{stem}.py", f"solutions/{stem}.py", f"solutions/{stem}.toml"]
    return "\n".join((ROOT / file).read_text(encoding="utf-8") for file in files)


def plain(text: str) -> str:
    """Text without line ends and signs of emphasis."""
    return re.sub(r"[*\\]", "", re.sub(r"\n(# )?", " ", text))


def bare(formula: str) -> str:
    """A formula, or a text with formulas, without what only sets it: spaces, commands, braces."""
    for letter, command in LETTERS.items():
        formula = formula.replace(f"\\{command}", letter)
    formula = re.sub(r"\\(dfrac|frac|cdot|times|text|mathrm|max|[,;!])", "", formula)
    return re.sub(r"[\s*{}\\]", "", formula)


def test_rows_are_complete():
    for term in TERMS:
        assert term.english and term.chinese and term.unit in UNITS, term
        assert re.search(r"[\u4e00-\u9fff]", term.chinese), f"{term.english} has no Chinese"
        assert term.meaning.endswith(".") and len(term.meaning) <= 150, term
        assert (term.symbol + term.meaning).count("$") % 2 == 0, term
        assert all(re.fullmatch(r"\$[^$]+\$", part) for part in term.symbol.split(", ") if part), term


def test_lessons_that_a_term_names_use_it():
    for term in TERMS:
        assert term.lessons == (term.home, *sorted(set(term.lessons) - {term.home})), term
        for stem in term.lessons:
            text = plain(words(stem))
            names = [rf"(?<!\w){re.escape(plain(name))}s?(?!\w)" for name in term.names]
            assert any(re.search(name, text, re.I) for name in names), f"{stem} has none of {term.names}"


def test_symbols_are_those_of_the_lesson():
    for term in TERMS:
        text = words(term.home).replace("\n#", "\n")
        for symbol in filter(None, term.symbol.split(", ")):
            wanted = bare(symbol.strip("$"))
            if len(wanted) == 1:  # a letter by itself, not one of a word
                letter = f"\\\\{LETTERS[wanted]}|{wanted}" if wanted in LETTERS else wanted
                assert re.search(rf"(?<![A-Za-z])({letter})(?![A-Za-z])", text), f"{term.home} has no {symbol}"
            else:
                assert wanted in bare(text), f"{term.home} does not write {symbol}"


def test_nothing_is_there_twice():
    for kind in ("english", "chinese"):
        values = [getattr(term, kind) for term in TERMS]
        assert [value for value in set(values) if values.count(value) > 1] == []
    for stem in course.stems():
        symbols = [symbol for term in TERMS if term.home == stem for symbol in term.symbol.split(", ") if symbol]
        assert len(set(symbols)) == len(symbols), f"{stem}: one symbol for two things in {symbols}"


@pytest.mark.parametrize("stem", course.stems())
def test_lesson_has_terms_and_links_to_the_glossary(stem):
    assert any(term.home == stem for term in TERMS)
    assert "](glossary.md)" in words(stem)


def test_copy_lies_beside_the_lessons_and_leads_to_them(tmp_path):
    copies.make_copies(tmp_path)
    copy = (tmp_path / "notebooks" / "glossary.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", copy)
    assert len(links) > len(TERMS)
    for link in links:
        assert (tmp_path / "notebooks" / link).is_file(), f"the glossary links to {link}"


def test_copy_is_the_learners_as_soon_as_she_changes_it(tmp_path, monkeypatch):
    folder, work = tmp_path / "course", tmp_path / "work"
    (folder / "notebooks").mkdir(parents=True)
    monkeypatch.setattr(course, "root", lambda: folder)
    original, copy = folder / "notebooks" / "glossary.md", work / "notebooks" / "glossary.md"

    original.write_text("one\n")
    assert copies.make_copies(work) == [] and copy.read_text() == "one\n"
    original.write_text("two\n")
    assert copies.make_copies(work) == [] and copy.read_text() == "two\n", "nobody has touched it"

    copy.write_text("two, and my own word\n")
    original.write_text("three\n")
    [news] = copies.make_copies(work)
    assert "glossary.new.md" in news
    assert copy.read_text() == "two, and my own word\n"
    assert copy.with_name("glossary.new.md").read_text() == "three\n"
    assert copies.make_copies(work) == []
