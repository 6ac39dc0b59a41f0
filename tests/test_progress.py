"""The learner's progress file: nothing is lost, and nothing stops a lesson."""

import json
import os
import subprocess
import sys

import pytest

from labsupport import cli
from labsupport.lab import progress


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.delenv("QLAB_PROGRESS", raising=False)
    monkeypatch.setenv("QLAB_WORK", str(tmp_path / "work"))
    monkeypatch.setattr(progress, "_lost", False)
    monkeypatch.setattr(progress, "_memory", progress._empty())
    return tmp_path / "work" / "progress.json"


def entry(file, stem, question):
    return json.loads(file.read_text())["questions"][stem][question]


def test_nothing_is_written_before_the_first_record(own_file):
    assert progress.prediction("01.kv") is None
    assert progress.summary() is not None
    assert not own_file.parent.exists()


def test_attempts_are_counted_up_to_the_first_pass(own_file):
    assert [progress.record("01_little", "L7", passed) for passed in (False, False, True, False)] == [
        1,
        2,
        3,
        3,
    ]
    kept = entry(own_file, "01_little", "L7")
    assert kept["tried"] == 3 and kept["passed"] is True
    assert kept["first"] <= kept["last"]


def test_predictions_are_kept_and_replaced():
    progress.record_prediction("01.kv", 40.0)
    progress.record_prediction("01.kv", 43)
    assert progress.prediction("01.kv") == 43
    with pytest.raises(TypeError, match="list"):
        progress.record_prediction("01.kv", [1])


def test_summary_counts_the_questions_of_the_exercises(tmp_path, monkeypatch):
    (tmp_path / "01_toy.json").write_text(
        json.dumps({"cases": [{"q": "a"}, {"q": "a"}, {"q": "b"}, {"q": "c"}]})
    )
    monkeypatch.setenv("QLAB_EXERCISES", str(tmp_path))
    progress.record("01_toy", "a", True)
    progress.record("01_toy", "b", False)
    [lesson] = progress.summary()
    assert (lesson.questions, lesson.passed, lesson.tried) == (3, ("a",), ("b",))
    assert str(lesson) == "01_toy: 1 of 3 passed; tried, not passed yet: b"


def test_progress_ends_with_what_to_do_next(tmp_path, monkeypatch, capsys):
    for stem, questions in (("01_toy", "ab"), ("02_toy", "cd"), ("03_toy", "e")):
        (tmp_path / f"{stem}.json").write_text(json.dumps({"cases": [{"q": q} for q in questions]}))
    monkeypatch.setenv("QLAB_EXERCISES", str(tmp_path))

    def said():
        assert cli.main(["progress"]) == 0
        return capsys.readouterr().out.splitlines()[-2:]

    assert said() == ["0 of 5 questions passed.", "Next: qlab lab 01"]
    progress.record_prediction("02.toy", 1.0)  # a lesson that was begun comes before one that was not
    assert said()[1].startswith("Next: the rest of exercises/02_toy.ipynb;")
    progress.record("03_toy", "e", False)  # and a question that was tried before both
    assert said()[1].startswith("Next: e in exercises/03_toy.ipynb;")
    for stem, questions in (("01_toy", "ab"), ("02_toy", "cd"), ("03_toy", "e")):
        for question in questions:
            progress.record(stem, question, True)
    assert said() == ["5 of 5 questions passed.", "Next: a benchmark of your own, with qlab audit."]


def test_reset_forgets_everything():
    progress.record("01_little", "L7", True)
    progress.record_prediction("01.kv", 1.0)
    progress.reset()
    assert progress.prediction("01.kv") is None
    assert all(not lesson.passed for lesson in progress.summary())


def test_export_as_json_and_csv(tmp_path):
    progress.record("01_little", "L7", False)
    assert json.loads(progress.export(tmp_path / "p.json").read_text())["questions"]["01_little"]
    header, row = progress.export(str(tmp_path / "p.csv")).read_text().splitlines()
    assert header == "lesson,question,tried,passed,first,last"
    assert row.startswith("01_little,L7,1,False,")
    with pytest.raises(ValueError, match=r"\.json or \.csv"):
        progress.export(tmp_path / "p.xlsx")


@pytest.mark.parametrize(
    "broken",
    [b"", b"{", b"\xff\xfe", b"[]", b'{"version": 2, "questions": {}, "predictions": {}}', b'{"version": 1}',
     b'{"version": 1, "questions": {"a": {"b": 3}}, "predictions": {}}'],
)  # fmt: skip
def test_a_broken_file_is_kept_and_progress_starts_anew(own_file, broken, capsys):
    own_file.parent.mkdir()
    own_file.write_bytes(broken)
    own_file.with_name("progress.json.bad").write_bytes(b"an earlier one")
    progress.record("01_little", "L7", True)
    assert own_file.with_name("progress.json.bad2").read_bytes() == broken
    assert own_file.with_name("progress.json.bad").read_bytes() == b"an earlier one"
    assert entry(own_file, "01_little", "L7")["passed"]
    assert capsys.readouterr().out.count("\n") == 1


def test_off_writes_nothing_but_remembers(own_file, monkeypatch):
    monkeypatch.setenv("QLAB_PROGRESS", "off")
    assert progress.record("01_little", "L7", False) == 1
    assert progress.record("01_little", "L7", False) == 2
    progress.record_prediction("01.kv", 5.0)
    assert progress.prediction("01.kv") == 5.0
    assert not own_file.parent.exists()


def test_the_variable_may_name_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("QLAB_PROGRESS", str(tmp_path / "elsewhere" / "p.json"))
    progress.record("01_little", "L7", True)
    assert entry(tmp_path / "elsewhere" / "p.json", "01_little", "L7")["passed"]


def test_a_folder_that_cannot_be_written_is_said_once(own_file, capsys):
    own_file.parent.parent.mkdir(exist_ok=True)
    own_file.parent.write_text("a file where the folder should be")
    assert progress.record("01_little", "L7", False) == 1
    assert progress.record("01_little", "L7", False) == 2
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and "only until this kernel stops" in said


def test_a_disk_that_is_full_loses_nothing_of_before(own_file, monkeypatch, capsys):
    progress.record_prediction("01.kv", 7.0)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(progress.course, "write", full)
    progress.record("01_little", "L7", False)
    assert progress.record("01_little", "L7", False) == 2
    assert progress.prediction("01.kv") == 7.0
    assert "No space left" in capsys.readouterr().out


def test_kernels_that_write_at_once_lose_nothing(own_file):
    code = (
        "import sys\nfrom labsupport.lab import progress\n"
        "for i in range(25): progress.record('01_little', f'{sys.argv[1]}-{i}', True)\n"
        "for i in range(25): progress.record('01_little', 'shared', False)"
    )
    kernels = [subprocess.Popen([sys.executable, "-c", code, str(k)], env=os.environ) for k in range(4)]
    assert [kernel.wait(60) for kernel in kernels] == [0] * 4
    questions = json.loads(own_file.read_text())["questions"]["01_little"]
    assert len(questions) == 4 * 25 + 1
    assert questions["shared"]["tried"] == 4 * 25
    assert not list(own_file.parent.glob("*.part"))
