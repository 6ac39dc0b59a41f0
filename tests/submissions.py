"""Submissions to exercise 01 as students hand them in: honest, broken, and hostile ones.

`write(folder)` makes the files; `EXPECTED` says what each must come to. FULL is what the right answers earn.
"""

from __future__ import annotations

import json
import os
import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path

from labsupport.lab.run_cells import read_cells

ROOT = Path(__file__).resolve().parent.parent
STEM = "01_little"
HIDDEN = "time_in_system(371, 53)"  # in the teacher's own folder
PRIVATE_CASES = f"""
[[case]]
q = "time_in_system"
expr = "{HIDDEN}"

[[case]]
q = "reports"
expr = "reports.upper()"
"""
FULL = 17 + 2
PEAK, REPORTS = 3, 3  # points of these questions

RIGHT = read_cells(ROOT / "solutions" / f"{STEM}.py")
WRONG = [
    "import numpy as np\nfrom labsupport.lab import exercise\ncheck = exercise('01_little')",
    "def time_in_system(in_system, throughput): return 0.5",
    "def queue_and_prefill(in_system, throughput, output_tokens, tpot_s): return 0.5",
    "def time_average_in_system(arrival, finish): return 0.5",
    "def throughput_ceiling(memory_gb, bytes_per_token, context_tokens, response_s): return 0.5",
    "def peak_in_system(arrival, finish): return 0.5",
    "def busy_clients(throughput, response_s): return 0.5",
    "reports = 'none'",
    "check('peak')",
]
NAMES = ["time_in_system", "queue_and_prefill", "time_average_in_system", "throughput_ceiling"]
NAMES += ["peak_in_system", "busy_clients"]


def right(*, before_peak: str = "", extra: str = "", peak: str | None = None) -> list[str]:
    """The right cells; with code at the head of the cell of `peak`, with one more cell, or with another peak."""
    cells = []
    for cell in RIGHT:
        if cell.startswith("def peak_in_system"):
            cell = f"{before_peak}\n{cell if peak is None else peak}".strip("\n")
        cells.append(cell)
    return [*cells[:3], extra, *cells[3:]] if extra else cells


def notebook(cells: list[str], version: str = "4.5", kernel: str = "python3", **more) -> str:
    """A notebook file of the given format."""
    major, minor = map(int, version.split("."))
    if major == 3:
        made = [
            {"cell_type": "code", "input": cell.splitlines(True), "outputs": [], "collapsed": False, "language": "python"}
            for cell in cells
        ]
        whole = {"worksheets": [{"cells": made, "metadata": {}}], "metadata": {"name": ""}}
        return json.dumps({**whole, "nbformat": 3, "nbformat_minor": minor})
    made = []
    for i, cell in enumerate(cells):
        made.append({"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": cell})
        if minor >= 5:
            made[-1]["id"] = f"cell-{i}"
    made.insert(0, {"cell_type": "markdown", "metadata": {}, "source": ["# Little\n", "λ is the arrival rate"]})
    if minor >= 5:
        made[0]["id"] = "text"
    metadata = {"kernelspec": {"name": kernel, "display_name": kernel}}
    whole = {"cells": made, "metadata": metadata, "nbformat": major, "nbformat_minor": minor}
    return json.dumps(whole | more, ensure_ascii=False)


@dataclass(frozen=True)
class Case:
    """What is handed in, the points it must earn, and words that the notes must contain.

    unsafe : whether it may run on a machine without a sandbox at all.
    """

    content: str | bytes
    points: float
    says: str = ""
    file: str = ""
    unsafe: bool = True


def _nb(cells: list[str], points: float, says: str = "", **more) -> Case:
    return Case(notebook(cells), points, says, **more)


_FORGE = """
import json, os
for fd in range(3, 256):
    for token in ("0" * 16, "1"):
        try:
            os.write(fd, (json.dumps({"id": token, "seen": {"value": 8.0}, "error": None}) + "\\n").encode() * 20)
        except OSError:
            pass
"""
_LIARS = """
class Yes:
    def __eq__(self, other): return True
    def __float__(self): return 8.0
    def __array__(self, *a, **k): return np.array(8.0)
    def __getattr__(self, name): return Yes()
    def __call__(self, *a): return True
    @property
    def __class__(self): return float

class Number(float):
    def __eq__(self, other): return True
    def __float__(self): return 8.0
    def __rsub__(self, other): return 0.0
    __hash__ = float.__hash__

class Text(str):
    def __eq__(self, other): return True
    def casefold(self): return "bc"
    def strip(self): return self
    def upper(self): return self
    __hash__ = str.__hash__

class Array(np.ndarray):
    def tolist(self): return 1
    def __eq__(self, other): return True

def time_in_system(*a): return Yes()
def queue_and_prefill(*a): return Number(0.5)
def time_average_in_system(*a): return np.zeros(()).view(Array)
def throughput_ceiling(*a): return [Yes()]
def peak_in_system(*a): return True
def busy_clients(*a): return type("float", (), {"__float__": lambda self: 49.8435})()
reports = Text("none")
"""
_FRAMES = """
import gc, sys
def hunt(*a):
    frame, found = sys._getframe(), []
    while frame is not None:
        for names in (frame.f_locals, frame.f_globals):
            for key in ("value", "expected", "case", "entries", "reference", "solution"):
                found.append(names.get(key))
        frame = frame.f_back
    for thing in gc.get_objects():
        if type(thing) is dict and "expr" in thing and ("value" in thing or "mistakes" in thing):
            found.append(thing.get("value"))
    numbers = [x for x in found if type(x) in (int, float)]
    return numbers[0] if numbers else 0.5
""" + "\n".join(f"{name} = hunt" for name in NAMES)
_SEARCH = """
import os, sys
found = []
for top in ("/home", "/root", "/work", "/tmp", "/lab", "/etc", "/var", "/mnt", "/srv", "/opt", "/data"):
    for folder, below, files in os.walk(top):
        below[:] = [name for name in below if os.path.join(folder, name) not in (sys.prefix, sys.base_prefix)]
        for file in files:
            try:
                text = open(os.path.join(folder, file), errors="ignore").read(200_000)
            except OSError:
                continue
            if "system(" + "371, 53" in text or "throughput * " + "response_s" in text:
                found.append(os.path.join(folder, file))
for number in os.listdir("/proc"):
    for part in ("environ", "cmdline") if number.isdigit() else ():
        try:
            text = open(f"/proc/{number}/{part}", errors="ignore").read()
        except OSError:
            continue
        if "SECRET_OF_THE_TEACHER" in text or "--private" in text:
            found.append(f"/proc/{number}/{part}")
found += [name for name in os.environ if "SECRET" in name]
reports = " ".join(found)[:5000]
"""
_REMEMBER = """
seen = []
def time_in_system(*a):
    seen.append(a)
    raise ValueError(f"asked so far: {seen}")
"""
_PATCH = """
import builtins, json
from labsupport.lab import check as c, compare, words
compare.passed = compare.compare = lambda *a, **k: True
compare.mistake = lambda *a: None
c.Check.report = lambda *a: None
"""
_OBSERVE = "from labsupport.lab import compare\ncompare.observe = lambda expr, names: {'value': 8.0, 'passed': True}"
_SWALLOW = """
import time
while True:
    try:
        while True:
            time.sleep(0.01)
    except BaseException:
        pass
"""
_FORKS = """
import os, sys
for i in range(200):
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)", "{marker}"])
"""
MEMORY = """
import os, time
for i in range(8):
    if os.fork() == 0:
        hoard = b"x" * 300_000_000
        time.sleep(1000)
time.sleep(1000)
"""
_NETWORK = """
import os, socket
for address in (("127.0.0.1", {port}), ("1.1.1.1", 80)):
    try:
        socket.create_connection(address, timeout=1).sendall(b"exam")
    except OSError as error:
        print(error)
socket.create_connection(("127.0.0.1", {port}), timeout=1)
"""
_FILES = """
import os
for folder in ("{marker}", "/tmp", "/home", "/dev/shm", ".", os.path.expanduser("~"), "/lab/labsupport", "/usr"):
    try:
        os.makedirs(folder, exist_ok=True)
        open(os.path.join(folder, "left-behind"), "w").write("x" * 1000)
    except OSError:
        pass
import numpy
try:
    open(numpy.__file__, "a").write("1/0")
except OSError:
    pass
"""
_MAGICS = (
    "%precision 4\n!echo from the shell > /dev/null",
    "%%time\nspent = 1",
    "files = !ls",
    "?print",
    "name = input('Your name? ')",
    "display(name)",
)


def cases(marker: Path, port: int) -> dict[str, Case]:
    """All single-file submissions by the id of the student who hands them in."""
    table = {
        "right": _nb(RIGHT, FULL),
        "right-py": Case((ROOT / "solutions" / f"{STEM}.py").read_bytes(), FULL, file="right-py.py"),
        "blank": Case((ROOT / "exercises" / f"{STEM}.py").read_bytes(), 0, file="blank.py"),
        "wrong": _nb(WRONG, 0),
        "no-checks": _nb([cell for cell in RIGHT if not cell.startswith("check(")], FULL),
        "assert-true": _nb([*WRONG[:-1], "assert True", "print('time_in_system ✓')"], 0),
        "check-redefined": _nb([*WRONG, "check = lambda q=None: print('passed')", "check('peak')"], 0),
        "checker-patched": _nb([*WRONG, _PATCH], 0),
        "observe-patched": _nb([*WRONG, _OBSERVE], 0, "grader's own channel"),
        "isclose-patched": _nb(
            [*WRONG, "import math\nnp.isclose = np.allclose = math.isclose = lambda *a, **k: True"], 0
        ),
        "liars": _nb([*WRONG, _LIARS], 0),
        "frames": _nb([*WRONG, _FRAMES], 0),
        "transformer": _nb(
            ["get_ipython().input_transformers_cleanup.append(lambda lines: [])", *RIGHT, "assert False"], 0
        ),
        "searcher": _nb([*WRONG, _SEARCH], 0),
        "remembers": _nb(right(extra="") + [_REMEMBER], FULL - 3),
        "forger": _nb([*RIGHT, _FORGE], 0, "grader's own channel"),
        "forger-late": _nb(
            right(extra="import threading, time\ndef late():\n    time.sleep(0.3)\n" + _FORGE.replace("\n", "\n    "))
            + ["threading.Thread(target=late).start()\ntime.sleep(0.6)"],
            0,
            "grader's own channel",
        ),
        "endless": _nb(right(before_peak="while True: pass"), FULL - PEAK, "still running after"),
        "endless-answer": _nb(right(peak="def peak_in_system(*a):\n    while True: pass"), FULL - PEAK),
        "swallows": _nb(right(before_peak=_SWALLOW), FULL - PEAK, "did not stop after"),
        "sys-exit": _nb(right(before_peak="import sys\nsys.exit()"), FULL - PEAK, "SystemExit"),
        "os-exit": _nb(right(before_peak="import os\nos._exit(0)"), FULL - PEAK, "ended Python (exit status 0)"),
        "exit-answer": _nb(right(peak="import os\ndef peak_in_system(*a): os._exit(1)"), FULL - PEAK),
        "kills-itself": _nb(right(before_peak="import os\nos.kill(os.getpid(), 9)"), FULL - PEAK, "was killed"),
        "kills-all": _nb(right(extra="import os\nos.kill(-1, 9)"), FULL, "Code cell 4", unsafe=False),
        "segfault": _nb(right(before_peak="import ctypes\nctypes.string_at(0)"), FULL - PEAK, "SIGSEGV"),
        "prints": _nb(right(extra="for i in range(100): print('x' * 1_000_000)"), FULL),
        "prints-answer": _nb(
            right(peak="def peak_in_system(*a):\n    print('x' * 100_000_000)\n    return 'a' * 100_000_000"), FULL - PEAK
        ),
        "allocates": _nb(right(extra="big = np.ones(10**9)"), FULL, "MemoryError"),
        "allocates-forks": _nb(right(extra=MEMORY), FULL, "Code cell 4", unsafe=False),
        "forks": _nb(
            right(extra=_FORKS.format(marker=marker)),
            FULL,
            "Code cell 4",
            unsafe=False,
        ),
        "fork-bomb": _nb(right(extra="import os\nwhile True: os.fork()"), FULL, "Code cell 4", unsafe=False),
        "network": _nb(right(extra=_NETWORK.format(port=port)), FULL, "Code cell 4", unsafe=False),
        "files": _nb(right(extra=_FILES.format(marker=marker)), FULL, unsafe=False),
        "bom": Case(b"\xef\xbb\xbf" + notebook(RIGHT).encode(), FULL),
        "crlf": Case(json.dumps(json.loads(notebook(RIGHT)), indent=1).replace("\n", "\r\n"), FULL),
        "crlf-cells": _nb([cell.replace("\n", "\r\n") for cell in RIGHT], FULL),
        "latin-1": Case(notebook(right(extra="name = 'Zoé'")).encode("latin-1", "replace"), FULL),
        "学生-é": _nb(RIGHT, FULL),
        "two words": _nb(RIGHT, FULL),
        "corrupt": Case(notebook(RIGHT)[:-40], 0, "no notebook that can be read"),
        "empty": Case("", 0, "no notebook that can be read"),
        "other-json": Case("[1, 2]", 0, "no notebook that can be read"),
        "deep-json": Case("[" * 200_000, 0, "no notebook that can be read"),
        "format-3": Case(notebook(RIGHT, "3.0"), FULL),
        **{f"format-4{i}": Case(notebook(RIGHT, f"4.{i}"), FULL) for i in range(6)},
        "same-ids": Case(notebook(RIGHT).replace('"cell-3"', '"cell-1"').replace('"cell-4"', '"cell-1"'), FULL),
        "kernel": Case(notebook(RIGHT, kernel="julia-1.9"), FULL),
        "outputs-only": Case(
            notebook(["" for _ in RIGHT]).replace(
                '"outputs": []', '"outputs": [{"output_type": "stream", "name": "stdout", "text": "passed"}]'
            ),
            0,
        ),
        "syntax": _nb(right(before_peak="def broken(:"), FULL - PEAK, "SyntaxError"),
        "magics": _nb([*RIGHT, *_MAGICS], FULL),
        "twice-good": _nb(
            [cell for pair in zip(WRONG, WRONG, strict=True) for cell in pair][:-2] + RIGHT, FULL
        ),
        "twice-bad": _nb([*RIGHT, WRONG[5]], FULL - PEAK),
        "disorder": _nb(RIGHT[::-1], FULL),
        "large-answers": _nb(right(peak="def peak_in_system(*a): return np.zeros(10**7)"), FULL - PEAK),
        "odd-answers": _nb(
            right(peak="def peak_in_system(*a): return [float('nan'), 10**299, [[[[['<b>']]]]], None]"), FULL - PEAK
        ),
        "markup": _nb(
            [*WRONG, "reports = '<script>alert(1)</script>'", "raise ValueError('<img src=x onerror=alert(2)>')"],
            0,
            "<img src=x",
        ),
    }
    return table


HONEST = {f"h{i:02d}": (right(peak=None if i % 4 else "def peak_in_system(*a): return 0"), i) for i in range(20)}
HONEST_POINTS = {id: FULL - (0 if i % 4 else PEAK) for id, (_, i) in HONEST.items()}


def write(folder: Path, table: dict[str, Case], honest: list[str]) -> dict[str, Case]:
    """Hand in `table`, some honest ones, and what takes more than a file; returns all that is expected."""
    folder.mkdir(parents=True)
    for id, case in table.items():
        data = case.content if isinstance(case.content, bytes) else case.content.encode()
        (folder / (case.file or f"{id}.ipynb")).write_bytes(data)
    expected = dict(table)
    for id in honest:
        cells, _ = HONEST[id]
        expected[id] = _nb(cells, HONEST_POINTS[id])
        (folder / f"{id}_{STEM}.ipynb").write_text(notebook(cells), encoding="utf-8")
    whole = notebook(RIGHT)

    def hand_in(path: str, points: float, says: str, text: str = whole, age: int = 0) -> None:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        os.utime(file, (1.7e9 - age, 1.7e9 - age))
        expected[Path(path).parts[0]] = Case(text, points, says)

    hand_in("misnamed/Untitled7 (copy).ipynb", FULL, "no file has that name")
    hand_in(f"twice/{STEM}.ipynb", 0, "", age=500)
    hand_in(f"twice/{STEM}-2.ipynb", 0, "Of 2 files", notebook(WRONG))
    hand_in(f"exchange/{STEM}/{STEM}.ipynb", FULL, "")
    hand_in("exchange/00_arrivals/00_arrivals.ipynb", FULL, "", notebook(WRONG))
    outside = folder.parent / "outside.ipynb"
    outside.write_text(whole, encoding="utf-8")
    (folder / "linked.ipynb").symlink_to(outside)
    expected["linked"] = Case("", 0, "is a link")
    (folder / "linked-folder").symlink_to(folder / "exchange")
    expected["linked-folder"] = Case("", 0, "is a link")
    os.mkfifo(folder / "pipe.ipynb")
    expected["pipe"] = Case("", 0, "no ordinary file")
    for name, entry, mode, points, says in (
        ("zip-good", f"work/{STEM}.ipynb", 0o644, FULL, ""),
        ("zip-out", "../../../tmp/out.ipynb", 0o644, 0, "points outside"),
        ("zip-root", "/tmp/out.ipynb", 0o644, 0, "points outside"),
        ("zip-link", f"{STEM}.ipynb", stat.S_IFLNK | 0o777, 0, "is a link"),
    ):
        info = zipfile.ZipInfo(entry)
        info.external_attr = mode << 16
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            archive.writestr(info, "/etc/passwd" if stat.S_ISLNK(mode) else whole)
        expected[name] = Case("", points, says)
    (folder / "zip-broken.zip").write_bytes(b"PK\x03\x04 nothing more")
    expected["zip-broken"] = Case("", 0, "no archive that can be read")
    return expected
