"""Runs one submission apart from everything else and brings back what its answers are, as plain data.

A process of its own per submission, in namespaces of its own (bubblewrap): no network, a read-only system, an
empty home, its own process numbers; it sees Python, the dependencies, labsupport and the course's data files,
but neither the solutions nor anything of the teacher's. `labsupport.grading.runner` runs inside and is asked
one step after the other. All that comes from there is treated as written by the student.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from labsupport import course
from labsupport.lab import compare

LONGEST = 4_000_000  # bytes of one answer
PATIENCE = 120  # s for Python to start and to read the submission, before any of the student's code runs
UNSAFE = (
    "Graded without a sandbox: the student's code could read and change what the grader's account can, "
    "the solutions and other submissions included."
)


@dataclass(frozen=True)
class Limits:
    """What one submission may use: seconds per cell and per question, and in all; memory; processes; files."""

    cell_s: float = 30
    total_s: float = 300
    memory_gb: float = 3
    processes: int = 64
    file_mb: int = 64


@dataclass(frozen=True)
class Job:
    """One submission to run: its file's ending and bytes, and the expressions to evaluate, in order."""

    ending: str
    data: bytes
    exprs: tuple[str, ...]
    limits: Limits = Limits()
    unsafe: bool = False


@dataclass
class Outcome:
    """What came of a job.

    seen : one dict per expression, as `compare.observe` gives, or with `lost` and the reason.
    notes : sentences about cells, for the student and the teacher.
    """

    seen: list[dict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0


class SandboxError(RuntimeError):
    """The sandbox itself did not work; nothing is known about the submission."""


def run(job: Job) -> Outcome:
    """Run the cells, then evaluate the expressions; where something ends the process, go on without it.

    Raises SandboxError when the process does not even start; whatever the submission does is an outcome.
    """
    begun = time.monotonic()
    outcome, notes, without = Outcome(), {}, set()
    total = f"all of it was stopped after {job.limits.total_s:g} s"
    while len(outcome.seen) < len(job.exprs):
        cell = None
        try:
            with _Box(job, begun + job.limits.total_s) as box:
                names = box.start()
                if isinstance(names, str):
                    notes[-1], lost = names, "the file cannot be read"
                    break
                for i, name in enumerate(names):
                    if i not in without:
                        cell, called = i, f"Code cell {i + 1} ({name})"
                        if error := box.run(i):
                            notes.setdefault(i, f"{called} raised {error}; the other cells still ran.")
                cell = None
                for expr in job.exprs[len(outcome.seen) :]:
                    outcome.seen.append(box.ask(expr))
            continue
        except _Over:
            lost = total
            if cell is not None:
                notes[cell] = f"{called} was still running when {total}."
            break
        except _Forged as error:
            # An honest notebook cannot come here by accident: the streams are no longer where print writes.
            lost = "the submission wrote into the grader's own channel"
            notes[-1] = f"The submission wrote into the grader's own channel ({error}), so it earns no points."
            outcome.seen.clear()
            break
        except _Lost as error:
            if cell is None:
                outcome.seen.append({"lost": str(error)})
            else:
                without.add(cell)
                notes[cell] = f"{called} was left out: {error}."
    missing = len(job.exprs) - len(outcome.seen)
    outcome.seen += [{"lost": lost} for _ in range(missing)]
    outcome.notes = [notes[i] for i in sorted(notes)]
    outcome.seconds = round(time.monotonic() - begun, 2)
    return outcome


def ready() -> None:
    """Let processes start again after `stop_all`."""
    _stopped.clear()


def stop_all() -> None:
    """Kill what runs here now and let nothing start any more: for Ctrl-C."""
    _stopped.set()
    for box in list(_running):
        box.kill()


_running: set[_Box] = set()
_stopped = threading.Event()
_uids = itertools.count()


class _Lost(Exception):
    """The process has ended, or had to be ended."""


class _Over(Exception):
    """The time for the whole submission is over."""


class _Forged(Exception):
    """What came is not what the runner writes."""


class _Box:
    """One process with `runner`, from its start to its end; nothing of it is left on exit."""

    def __init__(self, job: Job, end: float):
        self.job, self.end = job, end
        self.lines: queue.Queue[bytes] = queue.Queue(maxsize=2)

    def __enter__(self):
        if _stopped.is_set():
            raise SandboxError("stopped")
        self.folder = Path(tempfile.mkdtemp(prefix="qlab-grade-")) if self.job.unsafe else None
        self.process = subprocess.Popen(
            unsafe_command() if self.job.unsafe else command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder or "/",
            env=_environment(self.folder) if self.job.unsafe else {},  # /proc/1/environ shows what is given here
            start_new_session=True,  # Ctrl-C is for the grader
        )
        _running.add(self)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.kill()
        self._close(self.process.stdin)  # what was killed too early to take its children along ends by this
        self.process.wait()
        while self.reader.is_alive():
            try:
                self.lines.get(timeout=0.02)
            except queue.Empty:
                pass
        self._close(self.process.stdout)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        _running.discard(self)

    def kill(self) -> None:
        for pid in self._tree():  # with bubblewrap's processes go all that they hold
            _kill(pid)
        if self.job.unsafe and os.name != "nt":
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except OSError:
                pass
        self.process.kill()

    @staticmethod
    def _close(stream) -> None:
        try:
            stream.close()
        except OSError:  # the rest of a step that nobody reads any more
            pass

    # -- the three kinds of step -------------------------------------------------------------------

    def start(self) -> list[str] | str:
        """First lines of the submission's code cells, or why it cannot be read."""
        job = self.job
        limits = {
            "AS": int(job.limits.memory_gb * 2**30),
            "CPU": int(job.limits.total_s) + 1,
            "FSIZE": job.limits.file_mb * 2**20,
            "NPROC": job.limits.processes + (_my_tasks() if job.unsafe else 0),
            "NOFILE": 256,
            "CORE": 0,
        }
        data = base64.b64encode(job.data).decode()
        self.end += PATIENCE  # the machine's business, not the student's
        begun = time.monotonic()
        try:
            said = self._step(PATIENCE, file=f"submission{job.ending}", data=data, limits=limits)
        except (_Lost, _Over, _Forged) as error:
            raise SandboxError(f"Python did not start in the sandbox: {error}") from None
        self.end += time.monotonic() - begun - PATIENCE
        return said["unreadable"] if "unreadable" in said else said["cells"]

    def run(self, cell: int) -> str | None:
        """Run a cell; what it raised."""
        seconds = self.job.limits.cell_s
        error = self._step(seconds, cell=cell, seconds=seconds).get("error")
        return None if error is None else clean(error)

    def ask(self, expr: str) -> dict:
        """What comes of an expression."""
        seconds = self.job.limits.cell_s
        return checked(self._step(seconds, expr=expr, seconds=seconds).get("seen"))

    # -- one step ----------------------------------------------------------------------------------

    def _step(self, patience: float, **step) -> dict:
        step["id"] = secrets.token_hex(8)
        # Python inside raises first, which spares the cell's names; this is for code that goes on regardless.
        late = time.monotonic() + 1.2 * patience + 1
        self._send(json.dumps(step).encode() + b"\n")
        while True:
            try:
                return _parsed(self.lines.get(timeout=0.2), step["id"], self._end)
            except queue.Empty:
                pass
            if time.monotonic() > self.end:
                raise _Over(f"no answer within {self.job.limits.total_s:g} s")
            if time.monotonic() > late:
                raise _Lost(f"it did not stop after {patience:g} s")
            self._watch()

    def _send(self, data: bytes) -> None:
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except OSError:  # it has ended; the reader says how
            pass

    def _read(self) -> None:
        while True:
            line = self.process.stdout.readline(LONGEST)
            self.lines.put(line)
            if not line.endswith(b"\n"):
                return

    def _end(self) -> str:
        """How the process ended, in words."""
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            return "it closed the grader's channel"
        number = -code if code < 0 else code - 128
        if number in (getattr(signal, name, None) for name in ("SIGKILL", "SIGXCPU")):
            return "Python was killed"
        try:
            return f"Python crashed ({signal.Signals(number).name})"
        except ValueError:
            return f"it ended Python (exit status {code})"

    def _watch(self) -> None:
        """End a process whose children together use more than one may: no limit of the system counts these."""
        if not sys.platform.startswith("linux"):
            return
        most, limits = self.job.limits.memory_gb * 2**30, self.job.limits
        tree = self._tree()
        if len(tree) > limits.processes + 8:
            raise _Lost(f"it started more than {limits.processes} processes")
        if sum(map(_resident, tree)) > most and sum(map(_proportional, tree)) > most:
            raise _Lost(f"it used more than {limits.memory_gb:g} GB of memory")

    def _tree(self) -> list[int]:
        """The process and all that descend from it, where the system tells."""
        if self.process.poll() is not None:  # its number may be another's by now
            return []
        tree = [self.process.pid]
        for pid in tree:
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    tree += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
            except OSError:
                pass
        return tree


def _resident(pid: int) -> int:
    """Bytes of memory that a process has for itself, with what it shares with its forks."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _proportional(pid: int) -> int:
    """The same, with shared memory divided among those who share it."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(row.split()[1]) * 1024 for row in rows if row.startswith("Pss_Anon:"))
    except OSError:
        return _resident(pid)


def _my_tasks() -> int:
    """How many tasks this user has: the system's limit counts them with those of an unsafe run."""
    try:
        mine = [entry for entry in os.scandir("/proc") if entry.name.isdigit()]
        mine = [entry for entry in mine if entry.stat().st_uid == os.getuid()]
        return sum(len(os.listdir(f"{entry.path}/task")) for entry in mine)
    except OSError:
        return 4096


def _kill(pid: int) -> None:
    try:
        os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    except OSError:
        pass


# -- what comes back ---------------------------------------------------------------------------------


def _parsed(line: bytes, token: str, end) -> dict:
    if not line:
        raise _Lost(end())
    if not line.endswith(b"\n"):
        raise _Lost(f"it answered with more than {LONGEST // 10**6} MB" if len(line) == LONGEST else end())
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise _Forged("a line that is no JSON") from None
    if not isinstance(said, dict) or said.get("id") != token:
        raise _Forged("an answer to nothing that was asked")
    return said


def checked(seen) -> dict:
    """`seen` if it is what `compare.observe` could have returned; raises when it is not."""
    kinds = {
        "value": object,
        "blank": bool,
        "missing": str,
        "raised": list,
        "message": str,
        "line": int | None,
        "code": str,
        "unusable": str,
        "stopped": bool,
        "printed": str,
    }
    if not isinstance(seen, dict) or not seen or not seen.keys() <= kinds.keys():
        raise _Forged("an answer of unknown form")
    seen = dict(seen)
    for key, value in seen.items():
        if not isinstance(value, kinds[key]):
            raise _Forged("an answer of unknown form")
        if isinstance(value, str) and key != "value":
            seen[key] = clean(value)
    if not all(isinstance(name, str) for name in seen.get("raised", ())) or seen.get("raised") == []:
        raise _Forged("an answer of unknown form")
    if "raised" in seen:
        seen["raised"] = [clean(name) for name in seen["raised"][:50]]
        seen = {"message": "", "line": None, "code": "", **seen}
    if "value" in seen:
        try:
            seen["value"] = compare.plain(seen["value"])
        except (TypeError, RecursionError):
            raise _Forged("an answer larger than any") from None
    return seen


def clean(text) -> str:
    """Text from a student as one line without control characters, cut where it is long."""
    text = "".join(c if c.isprintable() else " " for c in str(text)[:2000])
    return " ".join(text.split())[: compare.PRINTED]


# -- the command -------------------------------------------------------------------------------------


def refusal() -> str | None:
    """Why there is no sandbox on this machine and what to do about it, in one sentence; None where it works."""
    if not sys.platform.startswith("linux"):
        return "the sandbox (bubblewrap) needs Linux; grade in a Linux virtual machine, in WSL 2 or on a server"
    missing = [name for name in _tools() if not shutil.which(name)]
    if missing:
        return f"{missing[0]} is not installed; install it, on Debian and Ubuntu with: apt install bubblewrap"
    trial = [*command()[: -len(_RUNNER)], "-c", "import labsupport.grading.runner; print('works')"]
    try:
        done = subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={}, timeout=120)
    except subprocess.TimeoutExpired:
        return "bubblewrap did not start Python within 120 s"
    if done.stdout == "works\n":
        return None
    said = " ".join(done.stderr.split())[-200:] or f"exit status {done.returncode}"
    return (
        f"bubblewrap does not work here ({said}); it needs version 0.8 and user namespaces, which Ubuntu 24.04 "
        "allows after: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    )


_RUNNER = ("-m", "labsupport.grading.runner")


def _tools() -> tuple[str, ...]:
    return ("bwrap", "setpriv") if os.getuid() == 0 else ("bwrap",)


def command() -> list[str]:
    """The command that starts `runner` in a sandbox."""
    places = _places()
    if os.getuid() == 0:
        # The limit on processes counts nothing for root, in a user namespace neither; so a user of its own each.
        uid = str(2**24 + (os.getpid() * 4096 + next(_uids) % 4096) % 2**30)
        start, drop = (
            ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"],
            ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--inh-caps", "-all"],
        )
    else:
        start = ["--unshare-all", "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534"]
        drop = []
    bwrap = shutil.which("bwrap") or "bwrap"
    return [bwrap, *start, *places, "--", *drop, sys.executable, *_RUNNER]


def shown() -> list[Path]:
    """Folders of this machine that a submission can read."""
    python = {Path(sys.prefix), Path(sys.base_prefix), Path(os.path.realpath(sys.executable)).parents[1]}
    system = {Path(place) for place in ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin")}
    return sorted(place for place in python | system | set(_data().values()) if place.is_dir())


def _data() -> dict[str, Path]:
    """Real data files of the course, which the solution may have read too: variable and folder."""
    places = {"QLAB_CACHE": course.cache()}
    if named := os.environ.get("QLAB_DATA"):
        places["QLAB_DATA"] = Path(named).expanduser().resolve()
    return {name: place for name, place in places.items() if place.is_dir()}


@cache
def _places() -> tuple[str, ...]:
    """bubblewrap's arguments for what is there to see."""
    options = ["--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
    for place in shown():
        if place.is_symlink():
            options += ["--symlink", os.readlink(place), str(place)]
    options += ["--proc", "/proc", "--dev", "/dev"]
    for folder, megabytes in (("/tmp", 256), ("/dev/shm", 64)):
        options += ["--perms", "1777", "--size", str(megabytes * 2**20), "--tmpfs", folder]
    data = _data()
    bound = [(place, place) for place in shown() if not place.is_symlink() and place not in data.values()]
    bound += [(course.PACKAGE, Path("/lab/labsupport"))]
    bound += [(place, Path("/data", name)) for name, place in data.items()]
    # bubblewrap makes folders that only root may enter, unless they are named before.
    for folder in sorted({folder for _, there in bound for folder in there.parents} - {Path("/"), Path("/tmp")}):
        options += ["--perms", "0755", "--dir", str(folder)]
    for here, there in bound:
        options += ["--ro-bind", str(here), str(there)]
    for library in ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"):
        options += ["--ro-bind-try", library, library]
    if (course.PACKAGE / "_course").is_dir():  # the public cases of a wheel, with their right answers
        for package in (course.PACKAGE, Path("/lab/labsupport")):
            options += ["--tmpfs", str(package / "_course")]
    options += ["--perms", "1777", "--size", str(256 * 2**20), "--tmpfs", "/home"]
    options += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/home"]
    environment = {**_environment(Path("/home")), "PYTHONPATH": "/lab"}
    environment |= {name: f"/data/{name}" for name in data}
    return (*options, *itertools.chain(*(("--setenv", *pair) for pair in environment.items())))


def unsafe_command() -> list[str]:
    return [sys.executable, *_RUNNER]


def _environment(home: Path) -> dict[str, str]:
    """What Python is told inside; nothing of the teacher's environment."""
    needed = {key: os.environ[key] for key in ("SYSTEMROOT",) if key in os.environ}
    return needed | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "HOME": str(home),
        "USERPROFILE": str(home),
        "TMPDIR": "/tmp" if home == Path("/home") else str(home),
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONPATH": str(course.PACKAGE.parent),
        "QLAB_PROGRESS": "off",
        # One thread each: the jobs share the cores, and threads count as processes.
        **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
    }
