"""Lays the feedback pages out as the submissions were, for whatever hands them back.

nbgrader's exchange, Moodle ("Upload multiple feedback files in a zip") and Canvas ("Upload submissions") each
find the student by the folder or file name that they gave the submission.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path, PurePosixPath

from .reports import PAGES


def collect(graded: Path, to: Path) -> list[str]:
    """Copy the page of every submission in `graded` to the new folder or .zip `to`; returns the copies' names.

    Raises ValueError when nothing was graded there, or `to` exists.
    """
    if not (graded / PAGES).is_file():
        raise ValueError(f"nothing was graded in {graded}; name the folder that qlab grade wrote to")
    if to.exists():
        raise ValueError(f"{to} exists already; name a new folder or .zip")
    pages = {
        str(PurePosixPath(at).with_suffix(".html")): (graded / page).read_bytes()
        for at, page in json.loads((graded / PAGES).read_text(encoding="utf-8")).items()
    }
    if to.suffix == ".zip":
        with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in pages.items():
                archive.writestr(name, data)
    else:
        for name, data in pages.items():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            (to / name).write_bytes(data)
    return list(pages)
