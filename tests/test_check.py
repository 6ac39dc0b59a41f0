"""Checks in the notebook: what is said to a learner, and that nothing she writes stops them."""

import enum
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsupport.lab import compare, exercise, progress
from labsupport.lab.check import Check, check_file
from labsupport.lab.report import NOT_YET, PASSED, TO_DO, Report
from labsupport.lab.run_cells import read_cells
from labsupport.lab.words import judge

X = [0.5, 0.8, 0.9]
CASES = [
    {
        "q": "L7",
        "expr": "time_in_system(120, 15)",
        "value": 8.0,
        "hints": ["Which law?", "W = L/X."],
        "mistakes": [
            {"value": 0.125, "say": "That is X/L."},
            {"raises": "OverflowError", "say": "Factorials overflow."},
            {"value": math.nan, "say": "Infinity divided by infinity."},
        ],
    },
    {"q": "L7", "expr": "time_in_system(160, 20)", "value": 8.0},
    {"q": "refuse", "expr": "time_in_system(1, 0)", "raises": "ValueError"},
    {"q": "about", "expr": "simulated()", "within": [0.9, 1.1]},
    {"q": "letter", "expr": "answer", "value": "bc"},
    {
        "q": "curve",
        "expr": "waits()",
        "value": [1.0, 4.0, 9.0],
        "curve": {"x": X, "xlabel": "utilisation", "ylabel": "wait (s)"},
    },
]
RIGHT = """
import numpy as np

def time_in_system(inside, rate):
    if rate <= 0:
        raise ValueError("rate must be above 0")
    return inside / rate

def simulated():
    return 1.02

answer = "bc"

def waits():
    return np.array([1, 4, 9])
"""


@pytest.fixture(autouse=True)
def course(tmp_path, monkeypatch):
    """A course with one exercise, and a progress file of its own."""
    room = tmp_path / "exercises"
    room.mkdir()
    (room / "01_toy.json").write_text(json.dumps({"title": "Toy", "cases": CASES}))
    monkeypatch.setenv("QLAB_EXERCISES", str(room))
    monkeypatch.setenv("QLAB_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(progress, "_lost", False)


def names(code):
    found = {"__name__": "__main__"}
    exec(code, found)
    return found


def says(question, code):
    return str(Check("01_toy").report(question, names(code)))


def function(body):
    """A learner's time_in_system with this body."""
    return f"import math, sys, numpy as np\ndef time_in_system(inside, rate):\n    {body}\n"


# -- plain data -------------------------------------------------------------------------------------


class Lies(float):
    def __eq__(self, other):
        return True

    def __float__(self):
        return 8.0

    __hash__ = None


class Pretends:
    __class__ = float

    def __float__(self):
        return 8.0


class Endless(list):
    def __iter__(self):
        while True:
            yield 8.0

    def __len__(self):
        return 3


class Colour(enum.IntEnum):
    RED = 3


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (np.True_, True),
        (np.int8(3), 3),
        (np.float32(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (np.array(8.0), 8.0),
        (np.str_("b"), "b"),
        (Colour.RED, 3),
        (Lies(1.0), 1.0),
        (Endless([1.0]), [1.0]),
        ((1, [2.0, "x"]), [1, [2.0, "x"]]),
        (range(3), [0, 1, 2]),
        (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
        (np.array([1, None, "a"], dtype=object), [1, None, "a"]),
        ({1: np.float64(2), "b": (3,)}, {"1": 2.0, "b": [3]}),
    ],
)
def test_answers_become_plain_data(value, expected):
    got = compare.plain(value)
    assert got == expected and json.loads(json.dumps(got)) == expected
    assert type(got) is type(expected)


LOOP = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({1, 2}, "a set"),
        (len, "a function"),
        (object(), "an object"),
        pytest.param(Pretends(), "a Pretends", id="Pretends"),
        (1j, "a complex"),
        (np.array([1j]), "complex128"),
        (np.zeros(10**6), "1,000,000 values"),
        ([0.0] * 200_000, "100,000 values"),
        ("x" * 30_000, "text of more than"),
        (10**400, "more than 300 digits"),
        (LOOP, "nested too deep"),
        ({1: 0, "1": 0}, "two keys"),
        ({(1, 2): 0}, "neither text nor numbers"),
        (np.array({1}, dtype=object), "one object"),
    ],
)
def test_what_is_no_answer_is_named(value, said):
    with pytest.raises(TypeError, match=said):
        compare.plain(value)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (8, 8.0),
        (8.0 * (1 + 9e-7), 8.0),
        (1e-13, 0.0),
        ([1e-17, 5.0], [0.0, 5.0]),
        (" B ", "b"),
        (math.inf, math.inf),
        ({"a": [1.0]}, {"a": [1]}),
    ],
)
def test_equal_answers(got, expected):
    assert compare.compare(got, expected)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (8.0 * (1 + 2e-6), 8.0),
        (True, 1),
        (1, True),
        (math.nan, math.nan),
        (math.inf, -math.inf),
        (math.inf, 8.0),
        (1e-9, 0.0),
        (0.0, 1e-12),
        ("8", 8),
        ([8.0], 8.0),
        ([1.0], [1.0, 2.0]),
        ({"a": 1}, {"b": 1}),
        (None, 0),
        (10**400, 8.0),
        ("b", "c"),
    ],
)
def test_different_answers(got, expected):
    assert not compare.compare(got, expected)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN, PLAIN)
def test_every_answer_equals_itself_and_comparing_never_raises(one, other):
    assert compare.compare(one, one)
    assert compare.compare(compare.plain(one), one)
    assert compare.compare(one, other) in (True, False)


@given(st.floats(1e-200, 1e200), st.floats(1e-9, 0.1), st.sampled_from([-1, 1]))
def test_the_tolerance_is_relative(value, rtol, sign):
    assert compare.compare(value * (1 + sign * 0.99 * rtol), value, rtol)
    assert not compare.compare(value * (1 + sign * 1.01 * rtol), value, rtol)


# -- observing --------------------------------------------------------------------------------------


def test_what_raised_is_named_with_its_bases_and_the_learners_line():
    found = names("")
    exec(compile("def f():\n    x = {}\n    return x['a']", "cell", "exec"), found)
    seen = compare.observe("f()", found)
    assert seen["raised"] == ["KeyError", "LookupError", "Exception", "BaseException"]
    assert seen["line"] == 3


def test_observing_leaves_no_names_behind():
    found = names("y = 2")
    before = dict(found)
    assert compare.observe("[(z := y), [y for y in (1,)]]", found) == {"value": [2, [1]]}
    assert found == before


def test_what_is_printed_is_cut():
    found = names("def f():\n    while_ = [print('x' * 1000) for _ in range(1000)]\n    return 1")
    seen = compare.observe("f()", found)
    assert seen["value"] == 1 and len(seen["printed"]) == compare.PRINTED


def test_interrupting_is_an_observation():
    assert compare.observe("f()", names("def f():\n    raise KeyboardInterrupt")) == {"stopped": True}


# -- the words --------------------------------------------------------------------------------------


def test_a_right_answer():
    assert says("L7", RIGHT) == ("L7 ✓ time_in_system(120, 15) = 8\nL7 ✓ time_in_system(160, 20) = 8")
    assert says("refuse", RIGHT) == "refuse ✓ time_in_system(1, 0) raises ValueError"
    assert says("about", RIGHT) == "about ✓ simulated() = 1.02"
    assert says("letter", RIGHT) == "letter ✓ answer = 'bc'"
    assert says("curve", RIGHT) == "curve ✓ waits() = [1, 4, 9]"


def test_what_is_still_to_do():
    assert says("L7", function("raise NotImplementedError('…')")) == "L7 to do"
    assert says("letter", "answer = ...") == "letter to do"
    assert says("L7", "") == "L7 to do: time_in_system does not exist yet; run the cell that defines it."


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return rate / inside", "gave 0.125. That is X/L."),
        ("return 8000.0", "gave 8000. That is 1000 times too large: is the unit right?"),
        ("return 8 / 60", "gave 0.13333333. That is 60 times too small: is the unit right?"),
        ("return -8", "gave -8. That has the wrong sign."),
        ("return 8.001", "gave 8.001. It is 0.01% off the right value: was something rounded?"),
        ("return 3", "gave 3."),
        ("return math.nan", "gave nan. Infinity divided by infinity."),
        ("return [8.0]", "returned a list of 1 value; a single number is expected."),
        ("return '8'", "returned text; a single number is expected."),
        ("return True", "returned True; a single number is expected."),
        ("return {8.0}", "returned a set; a single number is expected."),
        ("inside / rate", "returned nothing; a single number is expected. Is there a return?"),
        ("return inside / None", "raised TypeError: unsupported operand"),
        ("return typo", "raised NameError: name 'typo' is not defined"),
        ("print('look', inside); return 3", "gave 3. (It printed: look 120)"),
    ],
)
def test_a_wrong_answer(body, said):
    line = says("L7", function(body)).splitlines()[0]
    assert line.startswith(f"L7 not yet: time_in_system(120, 15) {said}")


@pytest.mark.parametrize(
    ("question", "code", "said"),
    [
        ("refuse", function("return inside"), "time_in_system(1, 0) gave 1; ValueError should be raised."),
        ("refuse", function("return inside / rate"), "division by zero; ValueError should be raised."),
        ("about", "def simulated(): return 1.2", "simulated() gave 1.2."),
        ("about", "def simulated(): return [1]", "returned a list of 1 value; a single number is expected."),
        ("letter", "answer = 'b'", "letter not yet: answer is 'b'."),
        ("letter", "answer = 3", "answer is a single number; text is expected."),
        ("letter", "answer = None", "answer is None; text is expected."),
        (
            "curve",
            "def waits(): return [1, 4, 8]",
            "It differs first at position 2 (8 there, counted from 0).",
        ),
        (
            "curve",
            "def waits(): return [1, 4]",
            "returned a list of 2 values; a list of 3 values is expected.",
        ),
    ],
)
def test_a_wrong_answer_of_another_kind(question, code, said):
    assert said in says(question, code)


def test_a_mistake_may_be_an_exception():
    [line, *_] = says("L7", function("return math.factorial(1000) / 1.0")).splitlines()
    assert " raised OverflowError: " in line and line.endswith(". Factorials overflow.")


def test_the_same_advice_is_given_once():
    first, second, *_ = says("L7", function("return 8000.0")).splitlines()
    assert second.endswith("gave 8000. The same as above.") and "1000 times" in first


def test_hints_come_one_by_one():
    wrong = function("return 3")
    assert says("L7", wrong).splitlines()[2:] == ["   Hint 1 of 2: Which law? (The next try shows another.)"]
    both = ["   Hint 1 of 2: Which law?", "   Hint 2 of 2: W = L/X."]
    assert says("L7", wrong).splitlines()[2:] == both
    assert says("L7", wrong).splitlines()[2:] == both


def test_a_named_mistake_stands_for_the_first_hint():
    # The second case has no such mistake, so a function that is wrong in both gets the hint as well.
    only_first = function("return rate / inside if inside == 120 else 8")
    assert says("L7", only_first).count("Hint") == 0
    assert says("L7", only_first).count("Hint") == 1
    assert says("L7", only_first).count("Hint") == 2


def test_what_is_to_do_or_passed_costs_no_attempt():
    says("L7", function("raise NotImplementedError"))
    assert "01_toy" not in progress._current()["questions"]
    says("L7", RIGHT)
    says("L7", RIGHT)
    assert progress._current()["questions"]["01_toy"]["L7"]["tried"] == 1


def test_an_unknown_question_or_exercise_is_one_sentence(monkeypatch):
    assert "it has L7, refuse, about, letter, curve" in says("L8", RIGHT)
    assert "choose one of 01_toy" in str(Check("02_toy").report("L7", {}))
    monkeypatch.setenv("QLAB_EXERCISES", "/nowhere")
    assert "choose one of none yet" in str(Check("01_toy").report("L7", {}))


# -- never raises -----------------------------------------------------------------------------------

NASTY = [
    "raise SystemExit",
    "raise KeyboardInterrupt",
    "raise BaseException",
    "return time_in_system(inside, rate)",
    "raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})()",
    "return type('A', (), {'__eq__': lambda a, b: [0 for _ in iter(int, 1)], '__class__': float})()",
    "return np.zeros(10**7)",
    "return iter(int, 1)",
    "sys.stdout.close(); return 3",
    "sys.stdout = None; return 3",
    "print('\\x1b[31m', b'\\xff'); return np.ma.masked",
    "return type('T', (type,), {'__name__': property(lambda t: 1 / 0)})('C', (), {})()",
    "return '<script>alert(1)</script>'",
]


@pytest.mark.parametrize("body", NASTY)
def test_a_check_never_raises(body, capsys, monkeypatch):
    found = names(function(body) + "from labsupport.lab import exercise\ncheck = exercise('01_toy')")
    out = sys.stdout
    exec("check('L7')", found)
    assert sys.stdout is out
    assert capsys.readouterr().out.startswith("L7 not yet: time_in_system(120, 15) ")
    html = Check("01_toy").report("L7", found)._repr_html_()
    assert "<script" not in html
    monkeypatch.setenv("QLAB_STRICT", "1")
    with pytest.raises(AssertionError, match="L7 not yet"):
        exec("check('L7')", found)


@pytest.mark.parametrize("question", ["L7", "L8", None])
def test_strict_raises_for_all_that_is_not_passed(question, monkeypatch):
    monkeypatch.setenv("QLAB_STRICT", "1")
    check = exercise("01_toy")
    blank = {"check": check, **names(function("raise NotImplementedError"))}
    with pytest.raises(AssertionError):
        exec(f"check({question!r})", blank)


def test_strict_says_nothing_more_about_what_is_passed(monkeypatch, capsys):
    monkeypatch.setenv("QLAB_STRICT", "1")
    exec("check()", {"check": exercise("01_toy"), **names(RIGHT)})
    assert capsys.readouterr().out.count("✓") == len(CASES)


def test_a_broken_cases_file_is_one_sentence(tmp_path):
    for broken in ("", "[]", '{"cases": [{}]}'):
        (tmp_path / "exercises" / "01_toy.json").write_text(broken)
        assert "cannot be read" in says("L7", RIGHT)


# -- how it looks -----------------------------------------------------------------------------------


class Text(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.text, self.images = "", []
        self.feed(html)

    def handle_data(self, data):
        self.text += data

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.images.append(dict(attrs))


def test_the_notebook_says_the_same_as_the_terminal():
    code = RIGHT.replace("inside / rate", "rate / inside").replace('"bc"', "...")
    report = Check("01_toy").report(None, names(code))
    assert {line.state for line in report.lines} >= {PASSED, NOT_YET, TO_DO}
    html = report._repr_html_()
    assert html.startswith('<div role="status"')
    said = re.sub(r"\s+", " ", Text(html).text).replace(" ", "")
    assert said == re.sub(r"\s+", "", str(report))


def test_no_text_has_a_colour_of_its_own():
    html = Check("01_toy").report(None, names("answer = 'x<y'"))._repr_html_()
    assert "x&lt;y" in html
    assert set(re.findall(r"(?<!-)\bcolor:([^;\"]+)", html)) <= {"inherit"}
    assert set(re.findall(r"background:([^;\"]+)", html)) <= {"none"}


def test_a_curve_is_drawn_over_the_reference():
    line = judge(CASES[-1], {"value": [1.0, math.inf, 5.0]})
    [image] = Text(line.html()).images
    assert "your curve over the reference" in image["alt"] and "at 0.8" in image["alt"]
    assert not Text(judge(CASES[-1], {"value": [1.0, 2.0]}).html()).images
    assert not Text(judge(CASES[-1], {"value": [1.0, 2.0, None]}).html()).images


def test_a_terminal_without_check_marks(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    Report([judge(CASES[0], {"value": 8.0})]).show()
    out.flush()
    assert out.buffer.getvalue() == b"L7 ? time_in_system(120, 15) = 8\n"


def test_in_a_notebook_each_check_is_displayed_and_the_rest_still_runs():
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook()
    cells = [
        "from labsupport.lab import exercise\ncheck = exercise('01_toy')",
        "check('L7'); check('letter')",
        "3",
    ]
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    first, second = notebook.cells[1].outputs
    assert first.data["text/plain"].startswith("L7 to do") and 'role="status"' in first.data["text/html"]
    assert second.data["text/plain"].startswith("letter to do")
    assert notebook.cells[2].outputs[0].data["text/plain"] == "3"


# -- a whole file -----------------------------------------------------------------------------------

OPEN = "from labsupport.lab import exercise\ncheck = exercise('01_toy')"


def learner(folder, *cells, name="01_toy.ipynb"):
    path = folder / name
    sources = [{"cell_type": "code", "source": cell} for cell in cells]
    path.write_text(json.dumps({"cells": sources, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def test_a_file_of_right_answers_passes(tmp_path):
    # Written on Windows, with the checks deleted, and with what only works in a notebook.
    text = f"\ufeff# %%\n# %matplotlib inline\n{OPEN}\n\n# %% [markdown]\n# Text\n\n# %%\n{RIGHT}"
    path = tmp_path / "meine Übung.py"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    report = check_file(path)
    assert str(report) == str(Check("01_toy").report(None, names(RIGHT)))
    assert (report.status, report.passed) == (0, True)
    assert progress._current()["questions"]["01_toy"]["curve"]["passed"]


def test_a_cell_that_raises_does_not_stop_the_later_ones(tmp_path):
    path = learner(
        tmp_path,
        OPEN + "\ncheck('L7')",
        "# a comment\n1 / 0",
        "def broken(:",
        "input('name?')",
        "exit()",
        "import sys; sys.exit(3)",
        "!true\nfrom pathlib import Path\nPath('beside').write_text('x')",
        "print('x' * 10_000_000)",
        "raise KeyboardInterrupt",
        RIGHT.replace('"bc"', "'b'") + "check('letter')",
    )
    report = check_file(path)
    said = str(report).splitlines()
    assert (
        "   Code cell 2 (1 / 0) raised ZeroDivisionError: division by zero; the later cells still ran."
        in said
    )
    assert [line.split()[2] for line in said if line.startswith("   Code cell")] == list("234569")
    assert "letter not yet: answer is 'b'." in said
    assert sum("✓" in line for line in said) == len(CASES) - 1
    assert report.status == 1
    assert (tmp_path / "beside").exists()
    # Each question is asked once, at the end.
    assert progress._current()["questions"]["01_toy"]["letter"]["tried"] == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no alarms on this system")
def test_an_endless_cell_and_an_endless_answer_are_stopped(tmp_path):
    path = learner(tmp_path, OPEN, "while True: pass", RIGHT.replace("return 1.02", "while True: pass"))
    report = check_file(path, seconds=5)
    said = str(report)
    assert "Code cell 2 (while True: pass) raised TimeoutError: still running after 1.25 s" in said
    assert "about not yet: simulated() raised TimeoutError" in said
    assert "curve ✓" in said and report.status == 1


@pytest.mark.parametrize(
    ("seconds", "cell", "said"),
    [
        (
            3,
            "import time\nwhile True:\n    try:\n        time.sleep(9)\n    except BaseException: pass",
            "   Everything was stopped after 3 s in the middle of code cell 2 (import time).",
        ),
        (
            60,
            "import os; os._exit(7)",
            "   Python ended with exit status 7 in the middle of code cell 2 (import os; os._exit(7)).",
        ),
    ],
)
def test_a_file_that_cannot_be_finished_says_where(tmp_path, seconds, cell, said):
    report = check_file(learner(tmp_path, OPEN, cell, RIGHT), seconds)
    assert str(report) == said and report.status == 1


def test_the_name_of_the_file_tells_the_exercise_when_the_first_cell_is_gone(tmp_path):
    assert check_file(learner(tmp_path, RIGHT, name="01_toy.new.ipynb")).status == 0
    nameless = check_file(learner(tmp_path, RIGHT, name="mine.ipynb"))
    assert nameless.status == 2 and "has no exercise" in str(nameless)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("gone.ipynb", None, "gone.ipynb cannot be read: No such file or directory."),
        ("a.txt", b"", "a.txt cannot be checked: choose a .py or an .ipynb file."),
        ("a.ipynb", b"", "a.ipynb is no notebook that can be read (JSONDecodeError"),
        ("a.ipynb", b"[]", "a.ipynb is no notebook that can be read ("),
        ("a.ipynb", b'{"cells": [3]}', "a.ipynb is no notebook that can be read ("),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(said)):
        read_cells(tmp_path / name)


def test_an_unreadable_file_has_status_2(tmp_path):
    report = check_file(tmp_path / "nowhere" / "gone.ipynb")
    assert (
        report.status == 2 and str(report).strip() == "gone.ipynb cannot be read: No such file or directory."
    )


def test_old_and_odd_notebooks_are_read(tmp_path):
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["a = 1\n", "b = 2"]}]}], "nbformat": 3}
    (tmp_path / "old.ipynb").write_text(json.dumps(old))
    assert read_cells(tmp_path / "old.ipynb") == ["a = 1\nb = 2"]
    odd = {
        "cells": [
            {"cell_type": "code"},
            {"cell_type": "markdown", "source": "x"},
            {"cell_type": "code", "source": "é"},
        ]
    }
    (tmp_path / "odd.ipynb").write_bytes(json.dumps(odd, ensure_ascii=False).encode("latin-1"))
    assert read_cells(tmp_path / "odd.ipynb") == ["", "é"]


@pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals")
def test_ctrl_c_stops_the_run_and_all_it_started(tmp_path):
    mine = """
import os, subprocess, time
child = subprocess.Popen(["sleep", "60"])
open("pids.part", "w").write(f"{os.getpid()} {child.pid}")
os.rename("pids.part", "pids")
time.sleep(60)
"""
    code = f"""
from labsupport.lab.check import check_file
try:
    check_file({str(learner(tmp_path, OPEN, mine))!r})
except KeyboardInterrupt:
    print("clean")
"""
    run = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until((tmp_path / "pids").exists)
    run.send_signal(signal.SIGINT)
    assert run.communicate(timeout=20) == ("clean\n", "")
    for pid in (tmp_path / "pids").read_text().split():
        wait_until(lambda pid=pid: not _runs(int(pid)))


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def _runs(pid):
    """Whether the process exists; one that has ended and waits to be collected does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not os.path.isdir("/proc/self")
