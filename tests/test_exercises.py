"""Exercises are made from solutions: what is taken out, what is refused, and the whole course as it stands."""

import hashlib
import hmac
import json
import shutil
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsupport.grading import cases, make
from labsupport.grading.reference import reference, rounded
from labsupport.grading.solution import Solution, _run
from labsupport.lab import compare
from labsupport.lab.check import Check
from labsupport.lab.report import NOT_YET, TO_DO
from labsupport.lab.words import judge

ROOT = Path(__file__).resolve().parent.parent


# -- the whole course -------------------------------------------------------------------------------

SOLUTIONS = sorted((ROOT / "solutions").glob("*.py"))
MISTAKES = [
    pytest.param(path.stem, known, id=f"{path.stem}: {known.where.partition('line ')[2] or known.where}")
    for path in SOLUTIONS
    for spec in [cases.read(path.with_suffix(".toml"))]
    for known in (*spec.mistakes, *(known for case in spec.cases for known in case.mistakes))
]
each_solution = pytest.mark.parametrize("stem", [path.stem for path in SOLUTIONS])


@cache
def solved(stem):
    solution = Solution.read(ROOT / "solutions" / f"{stem}.py")
    return solution, solution.run()


@contextmanager
def wrong(names, code):
    """The names of a solution with a function redefined, as by a learner."""
    kept = dict(names)
    try:
        exec(code, names)
        yield names
    finally:
        names.clear()
        names.update(kept)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder of exercises made anew from the course's solutions."""
    root = tmp_path_factory.mktemp("course")
    shutil.copytree(ROOT / "solutions", root / "solutions")
    make.build(root)
    return root / "exercises"


@pytest.fixture
def course(built, monkeypatch):
    monkeypatch.setenv("QLAB_EXERCISES", str(built))
    monkeypatch.setenv("QLAB_PROGRESS", "off")


def test_exercises_are_byte_for_byte_what_the_solutions_make():
    assert SOLUTIONS, "no solutions were found, so nothing was tested"
    assert make.check(ROOT) == []


@each_solution
def test_the_solution_passes(stem, course):
    _, names = solved(stem)
    report = Check(stem).report(None, names)
    assert report.passed, str(report)


@each_solution
def test_the_blank_exercise_is_to_do(stem, course):
    solution, _ = solved(stem)
    report = Check(stem).report(None, _run(solution.blank, stem))
    assert {line.state for line in report.lines} == {TO_DO}
    assert {line.question for line in report.lines} == set(solution.spec.questions)


@pytest.mark.parametrize(("stem", "known"), MISTAKES)
def test_a_named_mistake_fails_with_its_own_words(stem, known, course):
    solution, names = solved(stem)
    say = cases.fill(known.say, cases.parameters(solution.spec))
    if known.code:
        with wrong(names, known.code):
            report = Check(stem).report(known.q, names)
        assert not report.passed
        assert say in str(report)
        return
    case = next(case for case in solution.spec.cases if known in case.mistakes)
    entry = reference(solution.spec, names)[solution.spec.cases.index(case)]
    line = judge(entry, compare.observe(cases.fill(known.expr, cases.parameters(solution.spec)), names))
    assert line.state == NOT_YET
    assert line.advice == say


# -- a small course ---------------------------------------------------------------------------------

PY = '''\
# %% [markdown]
# # A toy, not “real”

# %%
import numpy as np
from labsupport.lab import exercise

check = exercise("01_toy")


# %%
def wait(load):
    """Mean waiting time in service times."""
    if load >= 1:
        raise ValueError("load must be below 1")
    ### BEGIN SOLUTION
    idle = 1 - load
    return load / idle
    ### END SOLUTION


# %%
check("wait")


# %%
def waits(loads):
    return [wait(load) for load in loads]


check("waits")

# %%
half = 0.5
### BEGIN SOLUTION
scratch = half * 2
answer = int(scratch) + 7
# a remark
letter = "b"
### END SOLUTION
print("given")

# %%
check("answer")
'''

TOML = """\
title = "Toy"

[params]
load = {textbook = 0.8, low = 0.6, high = 0.9, step = 0.1}

[[case]]
q = "wait"
expr = "wait({load})"
points = 2
hint = ["Look at load = {load}.", "Divide."]
[[case.mistake]]
expr = "{load} / (1 + {load})"
say = "The sign."
[[case.mistake]]
expr = "1 / 0"
say = "Divided by zero."

[[case]]
q = "wait"
expr = "wait(0.25)"
public = false

[[case]]
q = "wait"
expr = "[] if wait(0) else wait(1.5)"
raises = "ValueError"

[[case]]
q = "waits"
expr = "waits(np.linspace(0, 0.9, 4))"
rtol = 1e-3
curve = {x = "np.linspace(0, 0.9, 4)", xlabel = "load", ylabel = "wait (service times)"}

[[case]]
q = "answer"
expr = "[answer, {'a': letter}]"
[[case.mistake]]
expr = "[answer + 1, {'a': letter}]"
say = "One too many."

[[case]]
q = "answer"
expr = "answer + np.sqrt(answer - answer) if answer is not ... else answer"
within = [7.9, 8.1]

[[mistake]]
q = "waits"
code = "def wait(load): return 1 / (1 - load)"
say = "That is the response time."

[[mistake]]
q = "waits"
code = "def waits(loads): return [0.0, 0.0, 0.0, 0.0]"
say = "Nobody waits?"
"""


def toy(root, py=PY, toml=TOML, stem="01_toy"):
    (root / "solutions").mkdir(exist_ok=True)
    (root / "solutions" / f"{stem}.py").write_text(py, encoding="utf-8")
    (root / "solutions" / f"{stem}.toml").write_text(toml, encoding="utf-8")
    return root


def public(root):
    return json.loads((root / "exercises" / "01_toy.json").read_text(encoding="utf-8"))["cases"]


def test_the_blocks_are_taken_out(tmp_path):
    made = make.build(toy(tmp_path))
    assert [path.name for path in made] == ["01_toy.py", "01_toy.json"]
    text = made[0].read_text(encoding="utf-8")
    before, after = PY.split("    ### BEGIN SOLUTION\n", 1)
    assert text.startswith(before)
    assert text[len(before) :].startswith(
        "    # Your code here, in place of the next line.\n"
        '    raise NotImplementedError("wait is still to be written")\n\n\n# %%\ncheck("wait")'
    )
    # `scratch` is the solution's own; what the checks ask for is left as dots.
    assert text.endswith(
        "half = 0.5\n# Your code here, in place of the dots.\nanswer = ...\nletter = ...\n"
        'print("given")\n\n# %%\ncheck("answer")\n'
    )


def test_the_public_cases_hold_what_the_solution_answers(tmp_path):
    make.build(toy(tmp_path))
    wait, refused, waits, answer, about = public(tmp_path)
    assert (wait["expr"], wait["value"], wait["points"], wait["rtol"]) == ("wait(0.8)", 4.0, 2, 1e-6)
    assert wait["hints"] == ["Look at load = 0.8.", "Divide."]
    assert wait["mistakes"] == [
        {"say": "The sign.", "value": 0.4444444444},
        {"say": "Divided by zero.", "raises": "ZeroDivisionError"},
    ]
    assert refused["raises"] == "ValueError" and "value" not in refused
    assert about["within"] == [7.9, 8.1] and "value" not in about
    assert answer["value"] == [8, {"a": "b"}]
    assert waits["curve"] == {"x": [0.0, 0.3, 0.6, 0.9], "xlabel": "load", "ylabel": "wait (service times)"}
    # `waits` calls `wait`, and so does the mistake that redefines it.
    assert waits["mistakes"] == [
        {"say": "That is the response time.", "value": [1.0, 1.428571429, 2.5, 10.0]},
        {"say": "Nobody waits?", "value": [0.0, 0.0, 0.0, 0.0]},
    ]
    assert "0.25" not in json.dumps(public(tmp_path))  # the hidden case


def test_each_toy_answer_is_judged(tmp_path, monkeypatch):
    make.build(toy(tmp_path))
    monkeypatch.setenv("QLAB_EXERCISES", str(tmp_path / "exercises"))
    monkeypatch.setenv("QLAB_PROGRESS", "off")
    solution = Solution.read(tmp_path / "solutions" / "01_toy.py")
    names = solution.run()
    assert Check("01_toy").report(None, names).passed
    blank = Check("01_toy").report(None, _run(solution.blank, "blank"))
    assert [str(line) for line in blank.lines] == ["wait to do", "waits to do", "answer to do"]
    with wrong(names, "def wait(load): return 1 / (1 - load)"):
        assert "That is the response time." in str(Check("01_toy").report("waits", names))
    assert Check("01_toy").report(None, names).passed


def test_building_again_changes_nothing(tmp_path):
    first = {path: path.read_bytes() for path in make.build(toy(tmp_path))}
    assert {path: path.read_bytes() for path in make.build(tmp_path)} == first
    assert all(text.endswith(b"\n") and b"\r" not in text for text in first.values())
    assert make.check(tmp_path) == []


def test_windows_line_ends_make_the_same_files(tmp_path):
    first = [path.read_bytes() for path in make.build(toy(tmp_path))]
    for path in (tmp_path / "solutions").iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert [path.read_bytes() for path in make.build(tmp_path)] == first


def test_check_names_what_differs_is_missing_or_left_over(tmp_path):
    make.build(toy(tmp_path))
    room = tmp_path / "exercises"
    (room / ".gitkeep").touch()
    (room / "01_toy.py").write_text("mine")
    (room / "01_toy.json").unlink()
    (room / "00_old.py").touch()
    assert [said.partition(" ")[0] for said in make.check(tmp_path)] == [
        "exercises/01_toy.py",
        "exercises/01_toy.json",
        "exercises/00_old.py",
    ]


def test_nothing_found_is_an_error(tmp_path):
    for command in (make.build, make.check):
        with pytest.raises(ValueError, match="holds no solutions"):
            command(tmp_path)
    (tmp_path / "solutions").mkdir()
    with pytest.raises(ValueError, match="holds no solutions"):
        make.check(tmp_path)


@pytest.mark.parametrize("gone", ["01_toy.py", "01_toy.toml"])
def test_half_a_solution_is_refused(tmp_path, gone):
    toy(tmp_path)
    (tmp_path / "solutions" / gone).unlink()
    with pytest.raises(ValueError, match=f"solutions/{gone} is missing"):
        make.check(tmp_path)


def test_one_exercise_is_made_and_checked_without_the_others(tmp_path):
    toy(tmp_path)
    toy(tmp_path, PY.replace("01_toy", "02_toy"), stem="02_toy")
    assert {path.stem for path in make.build(tmp_path, ["02_toy"])} == {"02_toy"}
    assert make.check(tmp_path, ["02_toy"]) == []
    assert len(make.check(tmp_path, ["01_toy"])) == len(make.check(tmp_path)) == 2


def test_nothing_is_written_when_any_solution_is_refused(tmp_path):
    toy(tmp_path)
    toy(tmp_path, PY.replace("01_toy", "02_toy"), TOML.replace("wait(0.25)", "wait(1.25)"), "02_toy")
    with pytest.raises(ValueError, match=r"solutions/02_toy\.toml line 18"):
        make.build(tmp_path)
    assert not (tmp_path / "exercises").exists()


# Each: where, the text that is changed, what it becomes, and what is said.
REFUSED = [
    ("py", "    ### END SOLUTION\n", "", r"\.py line 16: ### BEGIN SOLUTION has no END before the next cell, line 21"),
    ("py", '### END SOLUTION\nprint("given")\n\n# %%\n', "", r"\.py line 35: ### BEGIN SOLUTION without an END"),
    ("py", "scratch = half * 2", "### BEGIN SOLUTION", r"\.py line 36: ### BEGIN SOLUTION again .* line 35"),
    ("py", "half = 0.5\n### BEGIN SOLUTION\n", "half = 1\n", r"\.py line 39: ### END SOLUTION without"),
    ("py", "    ### END SOLUTION", "    ### END SOLUTIONS", r"\.py line 19: '### END SOLUTIONS' is no marker"),
    ("py", "# a remark", "# %%", r"\.py line 35: ### BEGIN SOLUTION has no END before the next cell, line 38"),
    ("py", 'exercise("01_toy")', 'exercise("02_toy")', r'\.py line 8: there must be one line check = ex.*"01_toy"'),
    ("py", 'check = exercise("01_toy")', "", r"\.py: there must be one line check = "),
    ("py", 'check("wait")', "", r'\.toml line 6: solutions/01_toy\.py has no check\("wait"\)'),
    ("py", 'check("wait")', 'check("wiat")', r"\.py line 23: check\('wiat'\) has no case"),
    ("py", 'check("wait")', 'x = check("wait")', r"\.py line 23: check\('wait'\) must be a line of its own"),
    ("py", 'check("wait")', "check(PLACE)", r"\.py line 23: check\(PLACE\) must be"),
    ("py", "import numpy", "import numpy as", r"\.py line 5: "),
    ("py", "import numpy", "import nunpy", r'\.py line 5 stops "Run all": ModuleNotFoundError'),
    ("py", 'print("given")', "print(answer + 1)", r'exercises/01_toy\.py line 36 stops "Run all": TypeError'),
    ("py", "answer = int(scratch) + 7", "def answer(): pass", r"line 37: answer is removed as a whole"),
    ("py", "def wait(load):", "class wait:", r"\.py line 16: the markers stand in class wait"),
    ("py", 'scratch = half * 2\nanswer = int(scratch) + 7\n# a remark\nletter = "b"\n', "", "line 35: nothing stands"),
    ("toml", 'title = "Toy"', "", r"\.toml: title = None; give a text"),
    ("toml", 'title = "Toy"', "title = Toy", r"\.toml: Invalid value \(at line 1"),
    ("toml", "points = 2", "point = 2", r"\.toml line 6: 'point' is unknown; did you mean 'points'\?"),
    ("toml", "points = 2", "points = -1", r"\.toml line 6: points = -1"),
    ("toml", "public = false", 'public = "no"', r"\.toml line 18: public = 'no'; give true or false"),
    ("toml", "rtol = 1e-3", "rtol = 2", r"\.toml line 28: rtol = 2; give a number from 0"),
    ("toml", "within = [7.9, 8.1]", "within = [8.1, 7.9]", r"\.toml line 41: within"),
    ("toml", "within = [7.9, 8.1]", "within = [1, 2]", r"line 41: the solution fails its own case: .* gave 8"),
    ("toml", 'raises = "ValueError"', 'raises = "Exception"', "line 23: raises = 'Exception' is what unwritten"),
    ("toml", 'raises = "ValueError"', 'raises = "KeyError"', "line 23: the solution fails its own case"),
    ("toml", 'expr = "wait(0.25)"', 'expr = "wait(0.25"', r"line 18: 'wait\(0\.25' is not Python"),
    ("toml", 'expr = "wait(0.25)"', 'expr = "wiat(0.25)"', "line 18: the solution fails its own case"),
    ("toml", 'expr = "wait(0.25)"', 'expr = "{wait(0.25)}"', "line 18: the solution fails .* a set"),
    ("toml", 'expr = "wait(0.25)"', 'expr = "wait(0.25) * np.nan"', "line 18: .* gave nan"),
    ("toml", 'expr = "wait(0.25)"', 'expr = "half"', "line 18: in the blank exercise half is not to do"),
    ("toml", "public = false", "raises = 'ValueError'", "line 18: the solution fails its own case"),
    ("toml", '{load} / (1 + {load})"', '{load} / (1 - {load})"', "line 6, mistake 1: .* equals the right answer"),
    ("toml", '{load} / (1 + {load})"', '4.000001"', "line 6, mistake 1: .* equals the right answer"),
    ("toml", '{load} / (1 + {load})"', '1.5 * ({load} / 0.6) ** 2"', "mistake 1: .*right answer with {'load': 0.6}"),
    ("toml", '"1 / 0"', '"{load} / (1 + {load}) + 1e-9"', "line 6, mistake 2: another mistake of this case"),
    ("toml", '"1 / 0"', '"letter_"', "line 6, mistake 2: letter_ yields nothing .*missing"),
    ("toml", 'say = "The sign."', "", "line 6, mistake 1: say = None"),
    ("toml", "np.linspace(0, 0.9, 4)\", xl", "np.linspace(0, 0.9, 5)\", xl", "line 28: the answer is not a list .* each x"),
    ("toml", "xlabel = ", "label = ", "line 28, curve: 'label' is unknown; did you mean '.label'"),
    ("toml", "low = 0.6", "low = 0.65", r"\[params\] load: whole steps from low do not lead to high = 0\.9"),
    ("toml", "step = 0.1", "step = 0", r"\[params\] load: low must be below high, and step above 0"),
    ("toml", "high = 0.9", "high = 1.0", r"line 6: the solution fails .* load must be below 1"),
    ("toml", 'q = "waits"\ncode = "def wait(', 'q = "wiats"\ncode = "def wait(', "line 46: no case asks .*'wiats'"),
    ("toml", "return 1 / (1 - load)", "return load / (1 - load)", "line 46: no public case of 'waits' tells this"),
    ("toml", "return [0.0, 0.0, 0.0, 0.0]", "return [1 / (1 - x) for x in loads]", "line 46: no public case of"),
    ("toml", "def wait(load): return 1", "def wait(load) return 1", "line 46: 'def wait.*' is not Python"),
    ("toml", 'code = "def waits', 'code = "x = 1 / 0; waits', "line 51: .* not Python"),
    ("toml", 'code = "def waits(loads): return [0.0, 0.0, 0.0, 0.0]"', 'code = "1 / 0"', "line 51: .* ZeroDivisionError"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "old", "new", "said"), REFUSED)
def test_what_could_not_work_is_refused_with_file_and_line(tmp_path, where, old, new, said):
    py, toml = PY, TOML
    if where == "py":
        assert old in py
        py = py.replace(old, new, 1)
    else:
        assert old in toml
        toml = toml.replace(old, new, 1)
    with pytest.raises(ValueError, match=said) as refused:
        make.check(toy(tmp_path, py, toml))
    assert str(refused.value).startswith(("solutions/01_toy.", "exercises/01_toy.py"))
    assert "\n" not in str(refused.value)


def test_a_question_needs_a_public_case(tmp_path):
    hidden = TOML.replace("rtol = 1e-3\n", "public = false\n")
    with pytest.raises(ValueError, match="line 28: question 'waits' has no public case"):
        make.check(toy(tmp_path, toml=hidden))


def test_wrong_functions_that_one_case_cannot_tell_apart_are_told_by_another(tmp_path):
    more = '\n[[case]]\nq = "waits"\nexpr = "waits([0.0])"\n'
    toml = TOML.replace("return [0.0, 0.0, 0.0, 0.0]", "return [0.0] * 4 if len(loads) > 1 else [1.0]")
    make.build(toy(tmp_path, toml=toml + more))
    first, second = (case for case in public(tmp_path) if case["q"] == "waits")
    assert len(first["mistakes"]) == 2 and second["mistakes"] == []


def blank(tmp_path, body, *asked):
    py = f'from labsupport.lab import exercise\n\ncheck = exercise("01_toy")\n{body}\ncheck("q")\n'
    rows = "".join(f'[[case]]\nq = "q"\nexpr = "{expr}"\n' for expr in asked)
    make.build(toy(tmp_path, py, f'title = "T"\n{rows}'))
    text = (tmp_path / "exercises" / "01_toy.py").read_text()
    return text.split('check = exercise("01_toy")\n')[1].removesuffix('\ncheck("q")\n')


def test_a_method_is_named_with_its_class(tmp_path):
    body = """
class Bucket:
    size = 3

    def take(self, n):
        def all_of_it():
            return 0
        ### BEGIN SOLUTION
        return n if n <= self.size else all_of_it()
        ### END SOLUTION
"""
    assert '        raise NotImplementedError("Bucket.take is still to be written")\n' in blank(
        tmp_path, body, "Bucket().take(2)"
    )


def test_only_names_that_are_needed_become_dots(tmp_path):
    body = """
rates = [1, 2]
if rates:
    ### BEGIN SOLUTION
    def helper(x):
        mean = x
        return mean
    total = 0
    for rate in rates:
        total += helper(rate)
    mean: float = total / len(rates)
    low, high = rates
    ### END SOLUTION
spread = lambda: high - low
"""
    kept = "    # Your code here, in place of the dots.\n    mean = ...\n    low = ...\n    high = ...\n"
    assert kept in blank(tmp_path, body, "mean")


# -- numbers ----------------------------------------------------------------------------------------


@given(st.floats(-1e300, 1e300))
def test_rounding_keeps_ten_digits(value):
    once = rounded(value)
    assert rounded(once) == once
    assert compare.compare(once, value, rtol=5.1e-10) or value == 0


def test_rounding_noise_becomes_zero():
    assert rounded([0.1, 2.2e-17, -0.0, 3]) == [0.1, 0.0, 0.0, 3]
    assert json.dumps(rounded({"a": -0.0})) == '{"a": 0.0}'
    assert rounded([1, True, None, "x", float("inf")]) == [1, True, None, "x", float("inf")]


@pytest.fixture
def spec(tmp_path):
    return cases.read(toy(tmp_path) / "solutions" / "01_toy.toml")


def test_without_a_student_the_textbook(spec):
    assert cases.parameters(spec) == {"load": 0.8}


def test_a_student_has_the_same_numbers_every_time(spec):
    drawn = [cases.parameters(spec, f"student {i}", "salt")["load"] for i in range(400)]
    assert drawn == [cases.parameters(spec, f"student {i}", "salt")["load"] for i in range(400)]
    # Each of the four values with probability 1/4: 100 expected, sd 8.7; |z| < 4.
    assert {value: abs(drawn.count(value) - 100) < 35 for value in set(drawn)} == dict.fromkeys(
        (0.6, 0.7, 0.8, 0.9), True
    )
    other = [cases.parameters(spec, f"student {i}", "pepper")["load"] for i in range(400)]
    assert 50 < sum(a == b for a, b in zip(drawn, other, strict=True)) < 150


def test_the_numbers_come_from_hmac_sha256(spec):
    digest = hmac.new(b"salt", "Zoë\x0001_toy\x00load".encode(), hashlib.sha256).hexdigest()
    value = [0.6, 0.7, 0.8, 0.9][int(digest, 16) % 4]
    assert cases.parameters(spec, "Zoë", "salt") == {"load": value}
    assert cases.parameters(spec, " Zoe\u0308 ", "salt") == {"load": value}  # typed on another keyboard


def test_a_student_without_a_salt_is_refused(spec):
    with pytest.raises(ValueError, match="needs a salt"):
        cases.parameters(spec, "s1")


def test_whole_numbers_stay_whole():
    param = cases.Param(120, 60, 240, 6)
    assert [param.value(i) for i in (0, 1, param.steps)] == [60, 66, 240]
    assert isinstance(param.value(1), int)


def test_a_variant_has_its_own_expressions_and_answers(tmp_path, spec):
    names = Solution.read(tmp_path / "solutions" / "01_toy.py").run()
    wait = reference(spec, names, {"load": 0.6})[0]
    assert wait["expr"] == "wait(0.6)"
    assert wait["value"] == pytest.approx(1.5)
    assert wait["mistakes"][0]["value"] == pytest.approx(0.375)
    assert wait["hints"][0] == "Look at load = 0.6."
