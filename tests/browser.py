"""A real browser on JupyterLab as `qlab lab` starts it: for tests and benchmarks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
APPLICATIONS = (  # where macOS and Windows keep a browser that is on no PATH
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
QUIET = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]


def find_chromium() -> str | None:
    """The browser named by CHROMIUM, else the first one found where Chromium and its kin are kept."""
    found = [os.environ.get("CHROMIUM"), *map(shutil.which, CHROMIUMS), *filter(os.path.exists, APPLICATIONS)]
    return next(filter(None, found), None)


@contextmanager
def chromium(profile: Path, **options) -> Iterator:
    """A Playwright browser context with an empty profile; `options` go to Playwright."""
    from playwright.sync_api import sync_playwright

    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    defaults = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(profile),
            executable_path=find_chromium(),
            args=QUIET + ["--no-sandbox"] * as_root,
            **defaults | options,
        )
        try:
            yield context
        finally:
            context.close()


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: the address it printed, the work folder, and what it printed in all."""

    url: str
    work: Path
    printed: Path

    def address(self, path: str) -> str:
        """URL of a path on this server, such as `/api/contents`."""
        base, query = re.fullmatch(r"(http://[^/]+)/.*\?(token=\w+)", self.url).groups()
        return f"{base}{path}?{query}"


@contextmanager
def qlab_lab(
    folder: Path, *arguments: str, environment: dict[str, str] | None = None, command: str = "lab"
) -> Iterator[Lab]:
    """`qlab COMMAND ARGUMENTS` with all of a user's own settings and files under `folder`, until it is left."""
    work, printed = folder / "work", folder / "printed.txt"
    jupyter = {name: str(folder / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    jupyter["JUPYTER_RUNTIME_DIR"] = str(folder / "run")
    called = [sys.executable, "-m", "labsupport.cli", command, "--no-browser", "--port=0", *arguments]
    folder.mkdir(parents=True, exist_ok=True)
    with printed.open("w") as out:
        server = subprocess.Popen(
            [*called, "--", "--LabApp.expose_app_in_browser=True"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=folder,
            env={**os.environ, **jupyter, "QLAB_WORK": str(work), **(environment or {})},
        )
    try:
        yield Lab(_answering(server, printed), work, printed)
    finally:
        server.terminate()
        server.wait(30)


def _answering(server: subprocess.Popen, printed: Path, seconds: float = 60) -> str:
    """The address that a starting server prints, once there is an answer from it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        if address := re.search(r"http://\S+", printed.read_text()):
            try:
                urllib.request.urlopen(address[0], timeout=5).close()
                return address[0]
            except OSError:
                pass
        time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not answer within {seconds:g} s:\n{printed.read_text()}")


class Notebook:
    """One notebook in one browser tab."""

    def __init__(self, page, lab: Lab, path: str):
        self.page, self.lab, self.path = page, lab, path
        self.console: list[str] = []
        page.on("console", self._listen)
        page.on("pageerror", lambda error: self.console.append(str(error)))
        page.goto(f"{lab.address(f'/lab/tree/{path}')}&reset", timeout=60_000)
        page.wait_for_function(
            "path => window.jupyterapp?.shell?.currentWidget?.context?.path === path",
            arg=path,
            timeout=60_000,
        )
        page.evaluate(
            """async () => {
                await jupyterapp.restored;
                const widget = jupyterapp.shell.currentWidget;
                await widget.context.ready;
                await widget.sessionContext.ready;
                const kernel = widget.sessionContext.session.kernel;
                await kernel.info;
                // No cell shows what a widget's callback raises: it is only heard here.
                window.heard = [];
                kernel.iopubMessage.connect((_, {header, content}) => {
                    const text = content.ename ? `${content.ename}: ${content.evalue}` : content.text;
                    if (header.msg_type === 'error' || /^Traceback/m.test(text)) heard.push(text);
                });
            }"""
        )

    def _listen(self, message) -> None:
        # A page on loopback cannot reach the rest of the world; that is no fault of the notebook.
        if message.type == "error" and "net::ERR" not in message.text:
            self.console.append(message.text)

    def run_all(self, seconds: float = 300) -> None:
        """Run all cells and wait until the kernel has nothing left to do."""
        # Not awaited here, since only the wait below has a time limit.
        self.page.evaluate(
            "() => { jupyterapp.commands.execute('notebook:run-all-cells').then(ok => { window.ran = ok }) }"
        )
        self.page.wait_for_function("() => window.ran !== undefined", timeout=1000 * seconds)
        self.idle(seconds)

    def idle(self, seconds: float = 60) -> None:
        self.page.wait_for_function(
            "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'",
            timeout=1000 * seconds,
        )

    def errors(self) -> list[str]:
        """What went wrong so far: in outputs, in callbacks, and in the browser."""
        shown = self.page.evaluate(
            """() => jupyterapp.shell.currentWidget.content.widgets
                .flatMap(cell => cell.model.outputs?.toJSON() ?? [])
                .filter(output => output.output_type === 'error')
                .map(output => `${output.ename}: ${output.evalue}`)"""
        )
        return shown + self.page.evaluate("() => heard") + self.console

    def close(self) -> None:
        self.page.evaluate("async () => { await jupyterapp.shell.currentWidget.sessionContext.shutdown() }")
        self.page.close()


# What the course puts into a notebook; JupyterLab's own frame is not ours to judge.
OURS = [[".jp-Notebook .jp-RenderedMarkdown"], [".jp-Notebook .jp-OutputArea-output"]]


def violations(page, include: list[list[str]] | None = None) -> list[str]:
    """What axe-core calls serious or critical on the page, or in the parts of it that `include` selects."""
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate(AXE_SCRIPT)
    found = page.evaluate(
        "async include => await axe.run(include ? {include} : document, {resultTypes: ['violations']})", include
    )
    assert found["passes"], "axe has looked at nothing"
    return [
        f"{violation['id']} ({violation['impact']}): {node['html'][:200]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
