"""Other places to run the course: their configuration does what the README says, as far as can be tried here."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

from labsupport import course, lab_server

ROOT = Path(__file__).resolve().parent.parent
PLACES = (ROOT / ".github" / "PLACES.md").read_text(encoding="utf-8")
# `python3 -m venv .venv && .venv/bin/pip install … && .venv/bin/qlab lab 01`, in a container without the venv
_, INSTALL, OPEN = re.search(r"^(python3 -m venv .*/qlab lab.*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)[
    1
].split(" && ")
INSTALL, OPEN = INSTALL.removeprefix(".venv/bin/"), OPEN.removeprefix(".venv/bin/")

pytestmark = pytest.mark.skipif(os.name == "nt", reason="these places run Linux")


@pytest.fixture
def shell(tmp_path):
    """Runs a command of one of the places in an empty home, with this Python's `qlab`."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "qlab").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m labsupport.cli "$@"\n')
    (bin_ / "jupyterhub-singleuser").write_text('#!/bin/sh\necho "singleuser $@"\nenv\n')
    for command in bin_.iterdir():
        command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    environment.pop("QLAB_WORK", None)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])

    def run(command: list[str], **more: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment | more, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def settings(printed: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in printed.splitlines() if "=" in line)


def check_prepared(printed: str, work: Path) -> None:
    found = settings(printed)
    assert found["QLAB_WORK"] == str(work)
    assert found["JUPYTER_CONFIG_PATH"].split(os.pathsep)[0] == str(lab_server.SETTINGS)
    assert found["OPENBLAS_NUM_THREADS"]
    assert {path.stem for path in (work / "notebooks").glob("*.ipynb")} >= set(course.stems())


def test_development_container_does_what_the_readme_says():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert container["postCreateCommand"] == INSTALL
    command = shlex.split(container["postAttachCommand"])
    assert " ".join(command[: len(OPEN.split())]) == OPEN
    port = command[command.index("--port") + 1]
    assert container["forwardPorts"] == [int(port)] and list(container["portsAttributes"]) == [port]


def test_containers_have_a_python_that_the_course_runs_on():
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    least = tuple(map(int, needed.removeprefix(">=").split(".")))
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    for named in (container["image"], (ROOT / ".binder" / "runtime.txt").read_text(encoding="utf-8").strip()):
        assert tuple(map(int, re.fullmatch(r"python[:-](3\.\d+)", named)[1].split("."))) >= least


def test_binder_installs_as_the_readme_says_and_starts_prepared(shell, tmp_path):
    assert (ROOT / ".binder" / "postBuild").read_text(encoding="utf-8").splitlines()[-1] == INSTALL
    for script in ("postBuild", "start"):
        assert os.access(ROOT / ".binder" / script, os.X_OK)
    shell(["bash", "-n", str(ROOT / ".binder" / "postBuild")])
    printed = shell([str(ROOT / ".binder" / "start"), "env"], QLAB_WORK=str(tmp_path / "work"))
    check_prepared(printed, tmp_path / "work")
    assert "`lab/tree/work/notebooks/01_little.ipynb`" in PLACES and "01_little" in course.stems()


def test_hub_starts_each_users_server_prepared(shell, tmp_path):
    hub = types.SimpleNamespace(Spawner=types.SimpleNamespace())
    exec(re.search(r"```python\n(.*?)```", PLACES, re.S)[1], {"c": hub})
    command = [part.replace("/opt/tljh/user/bin", str(tmp_path / "bin")) for part in hub.Spawner.cmd]
    printed = shell([*command, "--port=1234"])
    assert printed.startswith("singleuser --port=1234\n")
    work = tmp_path / "queueing-lab"
    check_prepared(printed, work)
    page = hub.Spawner.default_url.removeprefix("/lab/tree/")
    assert (tmp_path / page).is_file() and not (work / "progress.json").exists()


def test_every_qlab_command_of_the_page_exists(shell):
    commands = set(re.findall(r"`qlab (\w+)", PLACES))
    assert commands >= {"app", "data"}
    for command in commands:
        assert shell(["qlab", command, "--help"]).startswith(f"usage: qlab {command}")
