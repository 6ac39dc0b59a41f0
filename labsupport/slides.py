"""Lessons as slides in JupyterLab, with live sliders and a kernel; `pages.slides` writes those that need none."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from labsupport import course, lab_server

EXTENSIONS = Path(__file__).with_name("jupyter_slides")
KEYS = (
    "Keys: right or Page Down for the next step, left or Page Up for the one before, Escape for the notebook.\n"
    "A slider reached with Tab takes the arrows; one moved with the mouse leaves them to the slides."
)


def serve(
    lesson: str,
    *,
    port: int | None = None,
    ip: str = "127.0.0.1",
    browser: bool = True,
    options: list[str] | None = None,
) -> None:
    """Show a lesson as slides in JupyterLab until it is stopped; the arguments are those of `lab_server.serve`.

    What is shown are copies of their own, in `slides/` of the work folder: a lecture leaves the learner's copies,
    progress and layout alone. Like those they stay as they are once they were changed and saved.
    Raises ModuleNotFoundError where jupyterlab-slideshow is missing, and what `lab_server.serve` raises.
    """
    if importlib.util.find_spec("jupyterlab_slideshow") is None:
        raise ModuleNotFoundError(
            'live slides need the package jupyterlab-slideshow; pip install "queueing-lab[slides]", '
            "or write slides that need no kernel: qlab slides --static"
        )
    from jupyterlab.commands import get_user_settings_dir

    stem, work = course.stem(lesson), course.work() / "slides"
    shutil.rmtree(work / ".jupyter", ignore_errors=True)  # the layout that the last lecture was left in
    os.environ["QLAB_PROGRESS"] = "off"  # what the room predicts is forgotten with the lecture
    print(KEYS)
    with tempfile.TemporaryDirectory(prefix="qlab-slides-") as folder:
        # JupyterLab would keep "presenting" among the user's own settings, and `qlab lab` would present as well.
        settings, own = Path(folder), Path(get_user_settings_dir())
        if own.is_dir():
            shutil.copytree(own, settings, ignore=shutil.ignore_patterns("jupyterlab-slideshow"), dirs_exist_ok=True)
        # Running a deck is no change that must be kept: the next lecture shows the lesson as it then is.
        documents = settings / "@jupyterlab" / "docmanager-extension" / "plugin.jupyterlab-settings"
        documents.parent.mkdir(parents=True, exist_ok=True)
        documents.write_text('{"autosave": false}', encoding="utf-8")
        lab_server.serve(
            stem,
            port=port,
            ip=ip,
            browser=browser,
            work=work,
            options=[
                f"--LabApp.user_settings_dir={settings}",
                f"--LabApp.extra_labextensions_path={EXTENSIONS}",
                *(options or []),
            ],
        )
