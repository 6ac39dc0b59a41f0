"""Lessons as notebooks that have been run for a page without a kernel, kept until their sources change."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from labsupport import course

LIVE = "application/vnd.jupyter.widget-view+json"
SECONDS = 300  # that one cell may take


def executed(
    stems: Iterable[str] | None = None,
    *,
    cache: Path | None = None,
    jobs: int | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> dict[str, NotebookNode]:
    """Notebooks of the lessons `stems` (all without it) with outputs, explorers as frames and no widgets.

    A lesson is run only where `cache` (default: `pages` in `course.cache()`) has none of the same sources; `jobs`
    of them run at once (default: one per core; those that measure a real server run alone, at the end), and `say`
    gets a line for each one that has been run. Neither the learner's folder nor her progress is touched.
    Raises ValueError, with the lesson and the error, where a cell raises.
    """
    stems = list(course.stems() if stems is None else stems)
    cache = Path(cache or course.cache() / "pages")
    cache.mkdir(parents=True, exist_ok=True)
    data = _data_files()
    measuring = [stem for stem in stems if _measures(stem)]
    others = [stem for stem in stems if stem not in measuring]
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        made = dict(zip(others, pool.map(lambda stem: _kept(stem, cache, data, say), others), strict=True))
    made |= {stem: _kept(stem, cache, data, say) for stem in measuring}
    return {stem: made[stem] for stem in stems}


def _kept(stem: str, cache: Path, data: str, say: Callable[[str], object]) -> NotebookNode:
    notebook = jupytext.read(course.root() / "notebooks" / f"{stem}.py")
    for n, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{n}"  # else a random one
    # Only the code makes the outputs: text and slide types may change without another run.
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    digest = hashlib.sha256("\0".join([data, _packages(), *(cell.source for cell in code)]).encode())
    for module in _modules(stem):
        digest.update(module.read_bytes())
    file = cache / f"{stem}-{digest.hexdigest()[:16]}.ipynb"
    # Two processes that need the same lesson: the second one waits for the first one's.
    with _alone(cache / f"{stem}.lock"):
        if not file.exists():
            _run(stem, notebook)
            for old in cache.glob(f"{stem}-*"):
                old.unlink()
            half = file.with_suffix(".part")
            nbformat.write(notebook, half)
            half.replace(file)
            say(f"{stem} has been run.")
            return notebook
        kept = nbformat.read(file, as_version=4)
    ran = [cell for cell in kept.cells if cell.cell_type == "code"]
    for cell, before in zip(code, ran, strict=True):
        cell.outputs, cell.execution_count = before.outputs, before.execution_count
    return notebook


def _run(stem: str, notebook: NotebookNode) -> None:
    with tempfile.TemporaryDirectory(prefix="qlab-pages-", ignore_cleanup_errors=True) as folder:
        places = [str(course.PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, places)),
            "QLAB_PAGES": "frames",
            "QLAB_PROGRESS": "off",
            "QLAB_WORK": folder,
            "OPENBLAS_NUM_THREADS": "1",
            "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel is this Python, whatever the user's folders hold
        }
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            store_widget_state=False,
            extra_arguments=["--IPKernelApp.log_level=ERROR"],
        )
        try:
            client.execute(env=environment)
        except CellExecutionError as error:
            raise ValueError(f"lesson {stem} stops with {error.ename}: {error.evalue}") from None
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)
            cell.outputs = [output for output in cell.outputs if _stays(output)]


def _stays(output: NotebookNode) -> bool:
    """Whether an output says something without a kernel: a widget alone, such as a progress bar, does not."""
    data = output.get("data", {})
    live = data.pop(LIVE, None)
    return live is None or any(kind != "text/plain" for kind in data)


def _measures(stem: str) -> bool:
    """Whether the lesson puts load on a real server: beside another lesson it would measure that lesson too."""
    module = course.PACKAGE / f"{stem.partition('_')[2]}.py"
    return module.is_file() and "from .loadtest" in module.read_text(encoding="utf-8")


def _modules(stem: str) -> list[Path]:
    """The sources that a lesson's outputs may depend on: not the other lessons', nor what no lesson imports."""
    own, apart = stem.partition("_")[2], {"grading", "pages", "cli", "copies", "lab_server", "slides", "app"}
    apart |= {lesson.partition("_")[2] for lesson in course.stems()} - {own}
    paths = sorted(course.PACKAGE.rglob("*.py"))
    return [p for p in paths if p.relative_to(course.PACKAGE).parts[0].removesuffix(".py") not in apart] + [
        Path(__file__)
    ]


def _packages() -> str:
    names = ("numpy", "scipy", "matplotlib", "pillow", "ipywidgets")
    return " ".join([platform.python_version(), *map(importlib.metadata.version, names)])


def _data_files() -> str:
    """Names and sizes of the real data: with their download they take the place of stand-ins."""
    folders = [Path(folder) for folder in (os.environ.get("QLAB_DATA"), course.cache()) if folder]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if "pages" not in path.parts]
    return " ".join(f"{path.name} {path.stat().st_size}" for path in files if path.is_file())


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait until no other process holds the lock file, and hold it; other threads have other lessons."""
    with open(lock, "a") as handle:
        if os.name == "nt":
            import msvcrt

            handle.seek(0)
            msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
