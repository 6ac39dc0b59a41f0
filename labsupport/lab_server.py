"""JupyterLab for the course: the learner's copies, the course's settings, and a word on where to look.

The settings in `jupyter_config/` are defaults laid under the user's own, which stay as they are. They keep
widget messages in the kernel's main thread (on a subshell a slider's callback would run beside the cell that
draws), hold all cells on the page so that figures do not jump, ask nothing about news, and open py:percent
sources as notebooks. Voilà, where it is installed, stays out of JupyterLab: it is for `qlab app`, and fills the
terminal with warnings.
"""

from __future__ import annotations

import errno
import logging
import os
import platform
import secrets
import shlex
import socket
import sys
import webbrowser
from pathlib import Path

from labsupport import copies, course

SETTINGS = Path(__file__).with_name("jupyter_config")
FIRST_PORT = 8888
LOOPBACK = {"": "127.0.0.1", "*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # of the wildcards


def serve(
    lesson: str | None = None,
    *,
    port: int | None = None,
    ip: str = "127.0.0.1",
    browser: bool = True,
    options: list[str] | None = None,
    work: Path | None = None,
) -> None:
    """Run JupyterLab on the learner's copies until it is stopped.

    `lesson` is anything `course.stem` understands; without one, JupyterLab opens as it was left, and the
    first time with the first lesson. Without `port` the first free one from 8888 on is taken. `options` go to
    JupyterLab as they are; one given twice counts as none. `work` is the folder of the copies (default
    `course.work()`). Raises ValueError for an unknown lesson and for a port or address that cannot be used,
    OSError where the work folder cannot be written.
    """
    stem = course.stem(lesson) if lesson is not None else None
    chosen = free_port(ip, port)
    work = work or course.work()
    try:
        news = copies.make_copies(work)
    except OSError as error:
        raise OSError(
            f"the work folder {work} cannot be written ({error.strerror}); "
            "name a folder of yours in the environment variable QLAB_WORK"
        ) from None
    # Layouts name files; those of the user's other JupyterLabs name files that are not here.
    layouts = work / ".jupyter" / "workspaces"
    if stem is None and not layouts.exists():
        stem = next(iter(course.stems()), None)
    page = f"/lab/tree/notebooks/{stem}.ipynb" if stem else "/lab"

    os.environ.update(environment(work))
    token = os.environ.get("JUPYTER_TOKEN") or secrets.token_hex(24)
    obstacle = why_no_browser() if browser else None
    print(*news, f"Your copies of lessons and exercises are in {work}.", sep="\n")
    print("JupyterLab is starting.", flush=True)

    import zmq
    from jupyterlab.labapp import LabApp
    from tornado.websocket import WebSocketClosedError

    # A tab closed while a kernel speaks is no news; tornado leaves a traceback about it.
    logging.getLogger("asyncio").addFilter(
        lambda record: not (record.exc_info and isinstance(record.exc_info[1], WebSocketClosedError))
    )
    server = LabApp.initialize_server(
        argv=[
            f"--ServerApp.root_dir={work}",
            f"--ServerApp.ip={ip}",
            f"--ServerApp.port={chosen}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.open_browser={browser and obstacle is None}",
            f"--ServerApp.use_redirect_file={browser_reads_files()}",
            f"--ServerApp.allow_root={is_root()}",
            "--ServerApp.answer_yes=True",
            f"--IdentityProvider.token={token}",
            f"--LabApp.default_url={page}",
            f"--LabApp.workspaces_dir={layouts}",
            # Without it each kernel prints that it talks to the server in plain text.
            f"--KernelManager.transport_encryption={'auto' if zmq.has('curve') else 'disabled'}",
            "--Application.log_level=ERROR",
            *(options or []),
        ]
    )
    if port is None and chosen != FIRST_PORT:
        print(f"Port {FIRST_PORT} is taken, so this is port {chosen}.")
    if is_root():
        print("This runs as root, as is usual in a container: whoever has the address below is root here.")
    scheme = "https" if server.certfile else "http"
    url = f"{scheme}://{LOOPBACK.get(ip, ip)}:{server.port}{server.base_url.rstrip('/')}{page}"
    if not browser:
        obstacle = "Open this address in a browser:"
    print(obstacle or "JupyterLab opens in your browser; if it does not, open this address there:")
    print(f"    {url}?token={server.identity_provider.token}")
    if obstacle:
        print(from_elsewhere(server.port, ip))
    print("Ctrl-C in this terminal stops it; your notebooks stay.", flush=True)
    server.start()


def environment(work: Path) -> dict[str, str]:
    """The variables that JupyterLab and its kernels need for the course."""
    others = os.environ.get("JUPYTER_CONFIG_PATH")
    return {
        "QLAB_WORK": str(work),  # for the kernels, whose current folder is another
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, [str(SETTINGS), others])),
        "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel is this Python, whatever the user's folders hold
        # The explorers' matrices are small: on a busy machine BLAS threads make a slider wait up to ten times as long.
        "OPENBLAS_NUM_THREADS": os.environ.get("OPENBLAS_NUM_THREADS", "1"),
    }


def prepare() -> None:
    """For a JupyterLab that a hub starts: make the copies, and print what a shell sets before."""
    work = course.work()
    for news in copies.make_copies(work):
        print(news, file=sys.stderr)
    for name, value in environment(work).items():
        print(f"export {name}={shlex.quote(value)}")


def free_port(ip: str, port: int | None) -> int:
    """`port` if a server can listen on it at address `ip`; if it is None, the first free one from 8888 on."""
    from tornado.netutil import bind_sockets

    if port is not None and not 0 <= port <= 65535:
        raise ValueError(f"port {port} does not exist; choose one between 1024 and 65535")
    for candidate in [port] if port is not None else range(FIRST_PORT, FIRST_PORT + 100):
        try:
            for bound in bind_sockets(candidate, ip):
                candidate = bound.getsockname()[1]
                bound.close()
            return candidate
        except socket.gaierror:
            raise ValueError(f"address {ip!r} is not known here; use 127.0.0.1, or 0.0.0.0 for all") from None
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise ValueError(
                    f"address {ip!r} does not belong to this machine; use 127.0.0.1, or 0.0.0.0 for all"
                ) from None
    if port is None:
        raise ValueError(f"ports {FIRST_PORT} to {FIRST_PORT + 99} are taken; name a free one with --port")
    raise ValueError(f"port {port} is taken or not allowed; leave --port out and a free one is found")


def why_no_browser() -> str | None:
    """Why no browser can be opened from here, as a sentence that leads to the address; None when one can."""
    on_linux = sys.platform.startswith("linux")
    if on_linux and not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        return "This machine has no screen to open a browser on. Open this address in a browser:"
    try:
        webbrowser.get()
    except webbrowser.Error:
        return "No browser was found on this machine. Open this address in one:"
    return None


def browser_reads_files() -> bool:
    """Whether Jupyter may hand its token over in a file, which hides it from other users' list of processes.

    A browser of Ubuntu's snap packages cannot read files in hidden folders, one on the Windows side of WSL none.
    """
    return not (Path("/snap/bin").exists() or "microsoft" in platform.release().lower())


def from_elsewhere(port: int, ip: str) -> str:
    """How to reach a server on `port` from another machine."""
    if ip in LOOPBACK:
        return f"From another machine use {socket.gethostname()} in place of {LOOPBACK[ip]}."
    tunnel = f"ssh -N -L {port}:{ip}:{port} {os.environ.get('USER', 'you')}@{socket.gethostname()}"
    lines = f"If your browser is on another machine, run this there first:\n    {tunnel}"
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        lines += f"\nIf this is a container, publish port {port} and start with --ip 0.0.0.0."
    return lines


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
