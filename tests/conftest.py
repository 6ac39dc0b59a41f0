"""What all tests share: a work folder of their own, and lessons and solutions run as notebooks."""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
import threading
from pathlib import Path

import browser
import hypothesis
import jupytext
import pytest
from nbval.plugin import IPyNbFile

from labsupport.pages import executed
from labsupport.pages import site as site_pages

ROOT = Path(__file__).resolve().parent.parent


# A busy machine is no failure, and what lands depends on no luck; elsewhere the search goes on with each run.
hypothesis.settings.register_profile(
    "course",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
hypothesis.settings.load_profile("course")


class PercentFile(IPyNbFile):
    """A py:percent source, run cell by cell by nbval; ids name the source, the kernel runs in `folder`."""

    folder: Path
    strict = False

    @property
    def fspath(self):
        """nbval reads the notebook and places its kernel by this; all else goes by `path`, the source."""
        return type(super().fspath)(self.folder / self.path.with_suffix(".ipynb").name)

    def collect(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        jupytext.write(jupytext.read(self.path), str(self.fspath))
        yield from super().collect()

    def setup(self):
        with pytest.MonkeyPatch.context() as patch:
            if self.strict:
                patch.setenv("QLAB_STRICT", "1")
            super().setup()


class CollectSources:
    """Collects notebooks/*.py and solutions/*.py, which lie outside the reach of this file's own hooks."""

    def __init__(self, folder: Path):
        self.folder = folder

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector):
        found = yield
        if file_path.suffix != ".py" or file_path.parent not in (ROOT / "notebooks", ROOT / "solutions"):
            return found
        source = PercentFile.from_parent(parent, path=file_path)
        source.folder = self.folder / file_path.parent.name
        source.strict = file_path.parent.name == "solutions"
        return [source]


def pytest_configure(config: pytest.Config) -> None:
    folder = tempfile.TemporaryDirectory(prefix="qlab-tests-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    # In the environment, so that kernels, servers and commands started by a test have it too.
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setenv("QLAB_WORK", str(Path(folder.name) / "work"))
    patch.setenv("QLAB_PROGRESS", str(Path(folder.name) / "progress.json"))
    patch.delenv("QLAB_STRICT", raising=False)
    config.pluginmanager.register(CollectSources(Path(folder.name)))


@pytest.fixture(scope="session")
def executed_lessons(request):
    """The notebooks of all lessons by stem, run as for pages without a kernel; once, whoever asks first."""
    return executed.executed(cache=request.config.cache.mkdir("executed"))


@pytest.fixture(scope="session")
def site(executed_lessons, tmp_path_factory) -> Path:
    """The whole site, in a folder of its own."""
    return site_pages.build(tmp_path_factory.mktemp("site") / "out", executed_lessons).parent


@pytest.fixture
def interrupt_load(monkeypatch):
    """`interrupt_load(after_s)`: the interrupt button is pressed so long after a real load began, 0 for before it."""
    from labsupport import loadtest

    real = loadtest.run

    def interrupt_load(after_s: float) -> None:
        def interrupted(*loads, **options):
            if not after_s:
                raise KeyboardInterrupt
            threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT)).start()
            return real(*loads, **options)

        monkeypatch.setattr(loadtest, "run", interrupted)

    return interrupt_load


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """A browser context of Playwright; where there is no Chromium the test is skipped, or fails in CI."""
    missing = None
    if importlib.util.find_spec("playwright") is None:
        missing = "Playwright is not installed; pip install playwright"
    elif browser.find_chromium() is None:
        missing = "no Chromium found; install one or name it in the environment variable CHROMIUM"
    if missing:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(missing)
    with browser.chromium(tmp_path_factory.mktemp("profile")) as context:
        yield context


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """JupyterLab on the course's own lessons, as `qlab lab` starts it, with an empty work folder."""
    with browser.qlab_lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture
def notebook(chromium, lab):
    """Opens a notebook of the work folder in a tab of its own: `notebook("notebooks/01_little.ipynb")`."""
    opened = []

    def open_notebook(path: str, server: browser.Lab = lab) -> browser.Notebook:
        opened.append(browser.Notebook(chromium.new_page(), server, path))
        return opened[-1]

    yield open_notebook
    for one in opened:
        one.close()
