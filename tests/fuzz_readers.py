"""Fuzzing of every reader of `labsupport.records`, and of the audit of whatever a reader accepts. Run by hand.

    python tests/fuzz_readers.py                      10 minutes, on one core
    python tests/fuzz_readers.py --seconds 60 --seed 7 --keep found/

Seeds are the samples in QLAB_DATA (the beginning of the long ones) and small files for the formats without a sample.
A change keeps the structure in mind: values of JSON, CSV and printed numbers are swapped for odd ones, keys and lines are
dropped, doubled, mixed with another file's. Where atheris is installed (`pip install atheris`, CPython 3.11 to 3.13 on
Linux or macOS) its coverage of the readers guides the search; otherwise the same changes are drawn at random.

It counts as a finding, once for each place in the code: an exception other than the documented one (ValueError in one
sentence that begins with the path), a warning, more than 5 s of CPU time for a file of at most 64 KB, a file opened for
writing or anything else that changes the disk, starts a process or opens a socket, and memory beyond 1.5 GB.
Exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

try:
    import atheris
except ImportError:
    atheris = None

from labsupport import course

LONGEST, CPU_S, MEMORY = 1 << 16, 5, 3 << 29
SAMPLES = ("loadtools/wrk.txt", "azure_2023/AzureLLMInferenceTrace_code.csv",
           "burstgpt_vllm_sweep/vllm_log_scale100_prompt500.csv", "mooncake_fast25/synthetic_trace.jsonl")  # fmt: skip
MORE = {  # formats, and branches of formats, that the samples leave out
    "burstgpt.csv": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,0,1087,API log\n",
    "plain.csv": "arrival,start,finish,intended,first_token,prompt_tokens,output_tokens,ok,prompt\n"
    + "".join(f"{i},{i}.1,{i}.9,{i},{i}.3,10,5,true,p{i % 7}\n" for i in range(1, 60)),
    "vegeta.json": 3 * ('{"attack":"","seq":0,"code":200,"timestamp":"2026-01-01T00:00:00.5Z","latency":7000000,'
    '"error":""}\n'),
    "hey.txt": "\nSummary:\n  Total:\t1.0 secs\n  Average:\t0.0050 secs\n  Requests/sec:\t199.5\n\nLatency distribution:\n"
    "  50% in 0.0040 secs\n  99% in 0.0200 secs\n\nStatus code distribution:\n  [200]\t190 responses\n"
    "  [503]\t10 responses\n\nError distribution:\n  [3]\tGet http://x: EOF\n",
    "closed.csv": "arrival,finish\n" + "".join(f"{i / 4},{i / 4 + 0.25 * (i % 3 + 1)}\n" for i in range(600)),
}  # fmt: skip
ODD = [
    None, True, False, 0, -1, 1, -0.0, 0.5, 1e-320, 1e19, 1e308, -1e308, 2**63, 2**64, 10**30, 10**400, float("nan"),
    float("inf"), "", " ", "nan", "inf", "-inf", "1e999", "0x10", "1_000", "٣", "²", "None", "\u2028", "\ud800", "a" * 5000,
    "2023-11-16 18:17:03.9799600", "9999-12-31T23:59:59.999999999Z", "0001-01-01T00:00:00Z", "2026-01-01T00:00:00",
    [], {}, [[]], [None], {"": None}, [1, "x"], [1e308] * 3,
]  # fmt: skip


class Hang(BaseException):
    """More CPU time than a file of this size may take; no reader may catch it."""


class Touched(BaseException):
    """A reader did something else than read."""


# What a change looks like -----------------------------------------------------------------------------------------


def _changed_json(value, rng):
    """The value with one place in it changed."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = rng.choice(list(keys))
        what = rng.random()
        if what < 0.75:
            value[key] = _changed_json(value[key], rng)
        elif what < 0.9:
            del value[key]
        elif isinstance(value, dict):
            value[rng.choice([*value, "x"])] = value[key]
        else:
            value.extend([value[key]] * rng.choice([1, 2, 150]))
        return value
    if isinstance(value, (int, float)) and abs(value) < 1e300 and rng.random() < 0.4:
        return rng.choice([-value, 0, value * 1e-6, value * 0.5, value + 1, value * 1000, value * 1e6])
    return rng.choice(ODD)


def _written(value):
    return json.dumps(value, ensure_ascii=True)


def _changed_table(line, rng):
    """A line of a table or of printed text with one of its fields or numbers changed."""
    for separator in (",", " ", "\t"):
        if separator in line:
            fields = line.split(separator)
            at = rng.randrange(len(fields))
            try:
                fields[at] = repr(_changed_json(float(fields[at]), rng))
            except ValueError:
                fields[at] = str(rng.choice(ODD))
            return separator.join(fields)
    return str(rng.choice(ODD))


def changed(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """The file with one to three changes."""
    text = data.decode("utf-8", errors="surrogateescape")
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        rows = text.split("\n")
        kind = rng.random()
        if kind < 0.5 and text.lstrip()[:1] in ("{", "["):
            try:
                text = _written(_changed_json(json.loads(text), rng))
            except (ValueError, RecursionError):
                at = rng.randrange(len(rows))
                try:
                    rows[at] = _written(_changed_json(json.loads(rows[at]), rng))
                except (ValueError, RecursionError):
                    rows[at] = rows[at][: rng.randrange(len(rows[at]) + 1)]
                text = "\n".join(rows)
        elif kind < 0.75:
            at = rng.randrange(len(rows))
            rows[at] = _changed_table(rows[at], rng)
            text = "\n".join(rows)
        elif kind < 0.8:
            text = text[: rng.randrange(len(text) + 1)]
        elif kind < 0.9:
            at = rng.randrange(len(rows))
            rows[at : at + 1] = rng.choice([[], [rows[at]] * 2, [rows[at]] * 300, [""], [rows[0]]])
            text = "\n".join(rows)
        elif kind < 0.95:
            other = rng.choice(others).decode("utf-8", errors="surrogateescape").split("\n")
            rows.insert(rng.randrange(len(rows) + 1), rng.choice(other))
            text = "\n".join(rows)
        else:
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(["\0", "\r", "\ufeff", '"', "[", "{", "\udcff", "-", "9" * 400]) + text[at:]
    return text.encode("utf-8", errors="surrogatepass" if rng.random() < 0.5 else "replace")[:LONGEST]


def seeds() -> dict[str, bytes]:
    """Small files of every format, by name."""
    found = {name: text.encode() for name, text in MORE.items()}
    for sample in SAMPLES:
        folder, here = sample.partition("/")[0], course.data(sample)
        if here is None:
            print(f"{folder} is not in QLAB_DATA: its formats start from nothing", file=sys.stderr)
            continue
        for path in sorted(here.parent.iterdir()):
            if path.suffix not in (".json", ".jsonl", ".csv", ".txt"):
                continue
            data = path.read_bytes()
            if path.name.startswith("detail_log"):
                data = json.dumps(dict(list(json.loads(data).items())[:8])).encode()
            elif len(data) > 8192:
                data = data[:8192].rpartition(b"\n")[0] + b"\n"
            found[f"{folder}_{path.name}"] = data[:LONGEST]
    return found


# What is watched --------------------------------------------------------------------------------------------------


class Watch:
    """Runs one input, and keeps what was found."""

    def __init__(self, path: Path, keep: Path | None):
        self.path, self.keep = path, keep
        self.count, self.tools, self.found, self.slowest = 0, Counter(), {}, 0.0
        self.accepted: list[bytes] = []  # what a reader takes leads further in than what it refuses at once
        self.inside = False
        sys.addaudithook(self._hook)

    def _hook(self, event, args):
        if not self.inside:
            return
        if event == "open":
            path, mode, flags = args
            writes = mode is not None and set(mode) & set("wax+")
            if writes or (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                raise Touched(f"opened {path!r} with mode {mode!r}")
        elif event.split(".")[0] in ("os", "shutil", "socket", "subprocess") and event not in ("os.listdir", "os.scandir"):
            raise Touched(f"{event}{args!r:.100}")

    def __call__(self, data: bytes):
        from labsupport.audit import audit_records, report
        from labsupport.records import read_all

        self.count += 1
        self.path.write_bytes(data)
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
        start, step = time.process_time(), "read"
        self.inside = True
        try:
            try:
                found = read_all(self.path)
            except ValueError as problem:
                told = str(problem)
                if not told.startswith(str(self.path)) or "\n" in told or len(told) > 600 + len(str(self.path)):
                    raise AssertionError(f"no sentence about the file: {told[:300]!r}") from problem
                self.tools["refused"] += 1
                return
            self.tools.update(record.tool if "trace" not in str(record.tool) else "trace" for record in found[:1])
            if len(self.accepted) < 5000:
                self.accepted.append(data)
            step = "audit"
            audits = audit_records(found[:3])
            step = "report"
            for audit in audits:
                report.text(audit)
                report.sheet_text(audit)
            json.loads(report.to_json(audits), parse_constant=_no_json)
            if len(self.accepted) % 20 == 0:  # pictures take a hundred times longer than all the rest
                report.html(audits)
        except (Exception, Hang, Touched) as problem:  # everything is a finding
            self.inside = False
            self.note(step, problem, data)
        finally:
            self.inside = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self.slowest = max(self.slowest, time.process_time() - start)

    def note(self, step, problem, data):
        source = problem.__cause__ or problem
        frames = [f for f in traceback.extract_tb(source.__traceback__) if "labsupport" in f.filename]
        where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        key = (step, type(problem).__name__, where)
        if key in self.found:
            return
        self.found[key] = str(problem)
        print(f"\nFOUND in {step}: {type(problem).__name__} at {where}: {str(problem)[:300]}", flush=True)
        print("".join(traceback.format_list(frames[-3:])), flush=True)
        if self.keep:
            (self.keep / f"{step}_{key[1]}_{where.replace(':', '_')}").write_bytes(data)


def _draw_once(path):
    """Before anybody watches: matplotlib may write down which fonts there are."""
    from labsupport.audit import audit_files, report

    path.write_text(MORE["closed.csv"])
    report.html(audit_files([path]))


def _no_json(name):
    raise ValueError(f"the JSON report holds {name}")


def _hang(*_):
    raise Hang(f"more than {CPU_S} s of CPU time")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the inputs that made findings")
    parser.add_argument("--random", action="store_true", help="without atheris, even where it is installed")
    args = parser.parse_args()
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("error")  # a warning on the screen is no sentence either
    guided = atheris is not None and not args.random
    if guided:
        with atheris.instrument_imports(include=["labsupport.records", "labsupport.audit"]):
            import labsupport.audit.report
            import labsupport.records.reading  # noqa: F401
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    signal.signal(signal.SIGVTALRM, _hang)
    began, starts = time.monotonic(), seeds()
    folder = Path(tempfile.mkdtemp(prefix="fuzz_readers_"))
    _draw_once(folder / "file")
    watch = Watch(folder / "file", args.keep)
    others = list(starts.values())
    for data in others:
        watch(data)

    def told():
        seconds = time.monotonic() - began
        print(
            f"\n{watch.count:,} files in {seconds:.0f} s {'guided by coverage' if guided else 'at random'}, slowest "
            f"{watch.slowest:.2f} s CPU, most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB; "
            f"{len(watch.found)} findings. {dict(watch.tools.most_common())}",
            flush=True,
        )

    if guided:
        corpus = folder / "corpus"
        corpus.mkdir()
        for name, data in starts.items():
            (corpus / name).write_bytes(data)

        def mutator(data, most, seed):
            rng = random.Random(seed)
            if rng.random() < 0.15:
                return atheris.Mutate(data, most)
            base = data if rng.random() < 0.3 else rng.choice(rng.choice([others, watch.accepted]))
            return changed(base, rng, others)[:most]

        options = [f"-max_total_time={args.seconds}", f"-max_len={LONGEST}", f"-seed={args.seed}", "-timeout=3600"]
        options += ["-rss_limit_mb=0", "-verbosity=0", "-len_control=0", f"-artifact_prefix={folder}/"]

        def one(data):
            watch(data)
            if time.monotonic() - began > args.seconds:
                told()
                os._exit(int(bool(watch.found)))  # libFuzzer would end the process without a word

        atheris.Setup([sys.argv[0], *options, str(corpus)], one, custom_mutator=mutator)
        atheris.Fuzz()
    rng = random.Random(args.seed)
    while time.monotonic() - began < args.seconds:
        watch(changed(rng.choice(rng.choice([others, watch.accepted])), rng, others))
    told()
    return int(bool(watch.found))


if __name__ == "__main__":
    sys.exit(main())
