"""Lessons as apps: Voilà shows them without their code, with live explorers and a kernel for each visitor."""

from __future__ import annotations

import os
import re
import tempfile
import webbrowser
from pathlib import Path

from labsupport import course, lab_server

# Voilà's page asks a content network for icons that no lesson has; nothing here asks anything of anyone.
HEADERS = {"Content-Security-Policy": "style-src 'self' 'unsafe-inline'; font-src 'self' data:"}


def serve(
    lesson: str | None = None,
    *,
    port: int | None = None,
    ip: str = "127.0.0.1",
    browser: bool = True,
    options: list[str] | None = None,
) -> None:
    """Show the lessons of the course as apps until stopped, and open `lesson` (default: the first one).

    On this machine alone, predictions go to the learner's own progress. At any other `ip` many may come: then
    each visitor's are kept as long as her page. `options` go to Voilà as they are. Raises ImportError where
    Voilà is missing, ValueError for an unknown lesson and for a port or address that cannot be used.
    """
    try:
        from voila.app import Voila
    except ImportError:
        raise ImportError(
            'a lesson as an app needs Voilà, which is not installed; pip install "queueing-lab[app]" brings it'
        ) from None
    from tornado.ioloop import IOLoop

    stem = course.stem(lesson if lesson is not None else course.stems()[0])
    chosen = lab_server.free_port(ip, port)
    os.environ.update(lab_server.environment(course.work()))
    if ip not in ("127.0.0.1", "::1", "localhost"):
        os.environ["QLAB_PROGRESS"] = "off"
    with tempfile.TemporaryDirectory(prefix="qlab-app-", ignore_cleanup_errors=True) as folder:
        write(Path(folder))
        app = Voila()
        app.initialize(
            [
                folder,
                f"--Voila.ip={ip}",
                f"--Voila.port={chosen}",
                "--Voila.port_retries=0",
                "--Voila.open_browser=False",
                "--Voila.log_level=ERROR",
                "--VoilaConfiguration.show_tracebacks=True",
                "--VoilaConfiguration.progressive_rendering=True",  # the first explorer waits for no later cell
                # Widgets, and nothing else that happens to be installed for JupyterLab.
                "--VoilaConfiguration.extension_allowlist=@jupyter-widgets/jupyterlab-manager",
                "--VoilaConfiguration.extension_allowlist=@voila-dashboards/widgets-manager8",
                *(options or []),
            ]
        )
        app.tornado_settings = {"headers": HEADERS, **app.tornado_settings}
        url = f"http://{lab_server.LOOPBACK.get(ip, ip)}:{app.port}{app.base_url}voila/render/{stem}.ipynb"
        obstacle = lab_server.why_no_browser() if browser else "Open this address in a browser:"
        print(obstacle or "The lesson opens in your browser; if it does not, open this address there:")
        print(f"    {url}")
        if obstacle:
            print(lab_server.from_elsewhere(app.port, ip))
        print("It takes some seconds to run. Ctrl-C in this terminal stops it.", flush=True)
        if obstacle is None:
            IOLoop.current().add_callback(webbrowser.open, url)  # once the server listens
        app.start()


def write(folder: Path) -> None:
    """Write the lessons into `folder` as notebooks for readers who see no code, and the glossary."""
    import jupytext
    import nbformat

    for source in sorted((course.root() / "notebooks").glob("[0-9][0-9]_*.py")):
        notebook = jupytext.read(source)
        notebook.metadata.pop("jupytext", None)
        notebook.cells = [cell for cell in notebook.cells if _slide_type(cell) != "notes"]
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = _links(cell.source)
        notebook.metadata["title"] = re.search(r"^# (.+)", notebook.cells[0].source, re.MULTILINE)[1]
        nbformat.write(notebook, folder / f"{source.stem}.ipynb")
    for source in sorted((course.root() / "notebooks").glob("*.md")):
        text = _links(source.read_text(encoding="utf-8"))
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook.metadata["title"] = source.stem.capitalize()
        nbformat.write(notebook, folder / f"{source.stem}.ipynb")


def _slide_type(cell) -> str | None:
    return cell.metadata.get("slideshow", {}).get("slide_type")


def _links(text: str) -> str:
    """The text with its links leading to other apps; exercises are code, so they are named and not linked."""
    text = re.sub(
        r"\[([^]]+)\]\(\.\./exercises/(\d\d)_\w+\.(?:ipynb|py)\)", r"\1 (in JupyterLab: `qlab lab \2`)", text
    )
    return re.sub(r"\]\((\w+)\.(?:py|md)(#[^)]*)?\)", r"](\1.ipynb\2)", text)
