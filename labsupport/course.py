"""Where the course keeps its lessons, the learner's own work and the real data files."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def in_clone() -> bool:
    """Whether the package runs from a clone, with the lessons beside it."""
    return (PACKAGE.parent / "notebooks").is_dir() and (PACKAGE.parent / "pyproject.toml").is_file()


def root() -> Path:
    """Folder that holds `notebooks/` and `exercises/`: the clone, or the copy inside the wheel."""
    return PACKAGE.parent if in_clone() else PACKAGE / "_course"


def stems() -> list[str]:
    """Stems of all lessons in order, such as `01_little`."""
    return sorted(path.stem for path in (root() / "notebooks").glob("[0-9][0-9]_*.py"))


def stem(name: str | int) -> str:
    """Full stem of the lesson meant by `1`, `"01"`, `"little"` or `"01_little"`.

    Raises ValueError, listing the lessons there are, when no lesson is meant.
    """
    wanted = str(name).strip().removesuffix(".py").removesuffix(".ipynb")
    for candidate in stems():
        number, _, title = candidate.partition("_")
        if wanted in (candidate, title) or (wanted.isdigit() and int(wanted) == int(number)):
            return candidate
    raise ValueError(f"lesson {name!r} does not exist; choose one of {', '.join(stems()) or 'none yet'}")


def work() -> Path:
    """Folder of the learner's own copies and progress; not created here.

    The environment variable QLAB_WORK names it; else it is `work/` in the clone, or in the current folder.
    """
    if named := os.environ.get("QLAB_WORK"):
        return Path(named).expanduser().resolve()
    return (PACKAGE.parent if in_clone() else Path.cwd()) / "work"


def cache() -> Path:
    """Folder of downloaded data files: QLAB_CACHE, else `queueing-lab` in the user's cache folder."""
    if named := os.environ.get("QLAB_CACHE"):
        return Path(named).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "queueing-lab"


def data(name: str) -> Path | None:
    """File of real data such as `azure_2023/AzureLLMInferenceTrace_conv.csv`, or None where it is not.

    Looked for in the folder named by the environment variable QLAB_DATA, then among what
    `labsupport.records.download.fetch` has downloaded. Raises ValueError when QLAB_DATA names no folder.
    """
    folders = [cache()]
    if named := os.environ.get("QLAB_DATA"):
        folders.insert(0, Path(named).expanduser())
        if not folders[0].is_dir():
            raise ValueError(f"QLAB_DATA is {named!r}, which is no folder; correct or unset that variable.")
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def write(path: Path, text: str) -> None:
    """Write a file as UTF-8, whole or not at all; half an emoji becomes a question mark."""
    half = path.with_name(f".{path.name[:80]}.{os.getpid()}.part")
    try:
        half.write_bytes(text.encode("utf-8", "replace"))
        os.replace(half, path)
    finally:
        half.unlink(missing_ok=True)
