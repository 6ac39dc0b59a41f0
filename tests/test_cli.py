"""The command `qlab`, and the learner's copies that `qlab lab` makes."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request

import browser
import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labsupport import __version__, cli, copies, course, lab_server

HEADER = "# %% [markdown]\n# # Lesson\n\n# %%\n"


@pytest.fixture
def original(tmp_path, monkeypatch):
    """The source of the only lesson of a small course."""
    (tmp_path / "course" / "notebooks").mkdir(parents=True)
    monkeypatch.setattr(course, "root", lambda: tmp_path / "course")
    lesson = tmp_path / "course" / "notebooks" / "03_stem.py"
    lesson.write_text(HEADER + "x = 1\n")
    return lesson


def sources(notebook) -> list[str]:
    return [cell.source for cell in nbformat.read(notebook, as_version=4).cells]


def run_cell(notebook, text: str) -> None:
    """What running does to a notebook: its code cell gets an output."""
    content = nbformat.read(notebook, as_version=4)
    content.cells[-1].outputs = [nbformat.v4.new_output("stream", text=text)]
    nbformat.write(content, notebook)


# -- copies ------------------------------------------------------------------------------------------


def test_copies_are_whole_notebooks_and_their_links_lead_somewhere(tmp_path):
    copies.make_copies(tmp_path)
    made = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*.ipynb"))
    assert made == sorted(
        f"{path.parent.name}/{path.stem}.ipynb"
        for room in ("notebooks", "exercises")
        for path in (course.root() / room).glob("[0-9][0-9]_*.py")
    )
    assert made
    for name in made:
        notebook = nbformat.read(tmp_path / name, as_version=4)
        nbformat.validate(notebook)
        assert notebook.metadata.kernelspec.name == "python3"
        assert "jupytext" not in notebook.metadata, "it would be paired with a script"
        for cell in notebook.cells:
            for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", cell.source):
                assert (tmp_path / name).parent.joinpath(link).exists(), f"{name} links to {link}"


def test_changed_copy_is_kept_and_the_newer_version_put_beside_it_once(original, tmp_path):
    copy, beside = (tmp_path / "work" / "notebooks" / f"03_stem{end}.ipynb" for end in ("", ".new"))
    assert copies.make_copies(tmp_path / "work") == []
    assert sources(copy) == ["# Lesson", "x = 1"]
    run_cell(copy, "hers")
    hers = copy.read_bytes()

    original.write_text(HEADER + "x = 2\n")
    [news] = copies.make_copies(tmp_path / "work")
    assert "notebooks/03_stem.ipynb" in news and "03_stem.new.ipynb" in news
    assert copy.read_bytes() == hers
    assert sources(beside) == ["# Lesson", "x = 2"]

    beside.unlink()
    assert copies.make_copies(tmp_path / "work") == []
    assert not beside.exists(), "offered again after she has deleted it"


def test_copy_nobody_has_touched_follows_its_original(original, tmp_path):
    copies.make_copies(tmp_path)
    original.write_text(HEADER + "x = 2\n")
    assert copies.make_copies(tmp_path) == []
    assert sources(tmp_path / "notebooks" / "03_stem.ipynb") == ["# Lesson", "x = 2"]
    assert len(list(tmp_path.glob("notebooks/*"))) == 1


def test_nothing_is_offered_to_a_learner_who_has_the_same_cells(original, tmp_path):
    copies.make_copies(tmp_path)
    run_cell(tmp_path / "notebooks" / "03_stem.ipynb", "hers")
    original.write_text(HEADER.replace("[markdown]", '[markdown] tags=["new"]') + "x = 1\n")
    assert copies.make_copies(tmp_path) == []
    assert len(list(tmp_path.glob("notebooks/*"))) == 1


@pytest.mark.parametrize("manifest", ["", "[]", '{"version": 3, "made": {}}', "\x00"])
def test_lost_manifest_costs_nothing_of_hers(original, tmp_path, manifest):
    copies.make_copies(tmp_path)
    copy = tmp_path / "notebooks" / "03_stem.ipynb"
    copy.write_bytes(b"\xff not a notebook any more")
    (tmp_path / ".qlab.json").write_text(manifest)
    assert len(copies.make_copies(tmp_path)) == 1
    assert copy.read_bytes() == b"\xff not a notebook any more"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["original", "copy", "new", "new2", "delete", "open"]), max_size=12))
def test_nothing_of_hers_is_ever_overwritten(tmp_path_factory, steps):
    """Whatever the order of changes and openings, each file that she wrote holds what she last wrote."""
    folder = tmp_path_factory.mktemp("any")
    (folder / "notebooks").mkdir()
    original, hers = folder / "notebooks" / "03_stem.py", {}
    original.write_text(HEADER + "x = 0\n")
    files = {
        "copy": folder / "work" / "notebooks" / "03_stem.ipynb",
        "new": folder / "work" / "notebooks" / "03_stem.new.ipynb",
        "new2": folder / "work" / "notebooks" / "03_stem.new2.ipynb",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(course, "root", lambda: folder)
        for number, step in enumerate(["open", *steps, "open"]):
            if step == "original":
                original.write_text(HEADER + f"x = {number}\n")
            elif step == "open":
                copies.make_copies(folder / "work")
            elif step == "delete":
                files["copy"].unlink(missing_ok=True)
                hers.pop(files["copy"], None)
            elif files[step].exists():
                run_cell(files[step], f"output {number}")
                hers[files[step]] = files[step].read_bytes()
    assert all(path.read_bytes() == content for path, content in hers.items())
    held = [sources(path)[-1] for path in (folder / "work" / "notebooks").glob("*.ipynb")]
    assert f"x = {number}" in held or original.read_text().removeprefix(HEADER).strip() in held


# -- the command -------------------------------------------------------------------------------------


def test_alone_it_shows_a_worked_example(capsys):
    assert cli.main([]) == 0
    assert "qlab lab 01" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_each_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([name, "--help"])
    assert f"usage: qlab {name}" in capsys.readouterr().out


@pytest.fixture
def taken():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lab", "99"], f"lesson '99' does not exist; choose one of {', '.join(course.stems())}"),
        (["lab", "--port=70000"], "port 70000 does not exist"),
        (["lab", "--port=TAKEN"], "port TAKEN is taken or not allowed; leave --port out"),
        (["lab", "--ip=192.0.2.1"], "address '192.0.2.1' does not belong to this machine"),
        (["lab", "--ip=not an address"], "address 'not an address' is not known here"),
        (["progress", "--export=x.txt"], "choose a name that ends in .json or .csv"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments, said, taken, capsys):
    arguments, said = ([text.replace("TAKEN", str(taken)) for text in texts] for texts in (arguments, [said]))
    assert cli.main(arguments) == 2
    printed = capsys.readouterr()
    assert said[0] in printed.err and printed.err.count("\n") == 1 and printed.out == ""


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["lab", "--port=x"], ["check"], ["progress", "--reset", "--export=x.csv"]]
)
def test_what_cannot_be_parsed_is_one_sentence(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    printed = capsys.readouterr()
    assert "--help" in printed.err and printed.err.count("\n") == 1 and printed.out == ""


def test_work_folder_that_cannot_be_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("QLAB_WORK", str(tmp_path / "file" / "work"))
    assert cli.main(["lab", "--no-browser"]) == 2
    assert "QLAB_WORK" in (said := capsys.readouterr().err) and said.count("\n") == 1


def test_ctrl_c_ends_quietly(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.COMMANDS, "wait", ("wait", lambda parser: interrupted))
    assert cli.main(["wait"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pipe to break on Windows")
def test_reader_that_goes_away_gets_no_traceback():
    command = subprocess.Popen(
        [sys.executable, "-m", "labsupport.cli"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    command.stdout.close()
    assert command.communicate()[1] == b""


def test_exercises_are_checked_and_problems_named(monkeypatch, capsys):
    from labsupport.grading import make

    monkeypatch.setattr(make, "check", lambda root, only: ["exercises/01_little.py is missing"])
    assert cli.main(["exercises", "--check"]) == 1
    assert capsys.readouterr().err == "exercises/01_little.py is missing\n"
    monkeypatch.setattr(make, "check", lambda root, only: [f"not {only}"] if only != ["01_little"] else [])
    assert cli.main(["exercises", "--check", "little"]) == 0


def test_check_ends_with_the_worst_status_of_its_files(capsys):
    blank = str(course.root() / "exercises" / "01_little.py")
    assert cli.main(["check", blank]) == 1
    assert "to do" in capsys.readouterr().out
    assert cli.main(["check", blank, "no such file.py"]) == 2
    assert "no such file" in capsys.readouterr().out


# -- JupyterLab --------------------------------------------------------------------------------------


def test_port_that_is_taken_is_passed_over(monkeypatch, taken):
    monkeypatch.setattr(lab_server, "FIRST_PORT", taken)
    assert taken < lab_server.free_port("127.0.0.1", None) < taken + 100


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is always a screen")
def test_machine_without_a_screen(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert "no screen" in lab_server.why_no_browser()
    monkeypatch.setenv("BROWSER", sys.executable)
    assert lab_server.why_no_browser() is None


def test_how_to_reach_it_from_elsewhere():
    assert "ssh -N -L 8889:127.0.0.1:8889 " in lab_server.from_elsewhere(8889, "127.0.0.1")
    assert socket.gethostname() in lab_server.from_elsewhere(8889, "0.0.0.0")


def test_lab_serves_the_lesson_with_this_python_and_the_courses_settings(tmp_path):
    stem = course.stems()[0]
    others = tmp_path / "JUPYTER_DATA_DIR" / "kernels" / "python3"
    others.mkdir(parents=True)
    another = {"argv": ["another python"], "display_name": "Another", "language": "python"}
    (others / "kernel.json").write_text(json.dumps(another))
    wanted = json.loads((lab_server.SETTINGS / "labconfig/default_setting_overrides.json").read_text())

    def get(path: str):
        with urllib.request.urlopen(lab.address(path)) as answer:
            return json.load(answer)

    with browser.qlab_lab(tmp_path, stem[:2], environment={"JUPYTER_PREFER_ENV_PATH": "0"}) as lab:
        assert f"/lab/tree/notebooks/{stem}.ipynb?token=" in lab.url
        assert get(f"/api/contents/notebooks/{stem}.ipynb")["content"]["cells"]
        assert get("/api/kernelspecs")["kernelspecs"]["python3"]["spec"]["display_name"] != "Another"
        for name, values in wanted.items():
            properties = get(f"/lab/api/settings/{name}")["schema"]["properties"]
            assert {key: properties[key]["default"] for key in values} == values
    assert "Traceback" not in lab.printed.read_text()
