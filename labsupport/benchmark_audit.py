"""Lesson 11, "Can this benchmark be believed?": files with one known flaw, and what an audit says of them."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from labsupport import course
from labsupport.audit import CHECKS, audit, audit_records, flaws
from labsupport.audit.finding import BROKEN, DOUBTFUL, HOLDS, UNKNOWN, VERDICTS, Audit, Finding
from labsupport.audit.report import number
from labsupport.lab import Explorer, Table, choice, slider, style
from labsupport.queueing import simulate, theory, workload
from labsupport.queueing.intervals import Estimate
from labsupport.queueing.requestlog import RequestLog
from labsupport.queueing.series import scv
from labsupport.records import Record, read
from labsupport.records.traces import Gauge

FOUND = (BROKEN, DOUBTFUL)

# -- explorer -----------------------------------------------------------------------------------------

FILES = {
    "clean": flaws.clean,
    "mean response time leaves a part out": flaws.wrong_mean,
    "peak counted in bins of a second": flaws.binned_peak,
    "generator sleeps after each send": flaws.behind_schedule,
    "waiting hidden behind a cap": flaws.hidden_queue,
    "closed loop said to be open": flaws.closed,
    "bursty arrivals said to be Poisson": flaws.bursty,
    "moments rounded to a clock's ticks": flaws.ticks,
    "a recorded minute played again": flaws.replayed,
    "more offered than served": flaws.overloaded,
    "cold start": flaws.cold,
    "long drain": flaws.long_drain,
    "failures left out of the percentiles": flaws.survivors,
    "long answers cut off by a time-out": flaws.cut_off,
    "one run close to saturation": flaws.dependent,
    "attainment of the survivors": flaws.kind_attainment,
    "TPOT averaged over tokens": flaws.mean_over_tokens,
    "few prompts, used again and again": flaws.repeated,
    "a mystery: New sample draws another": None,
}
NAMES = {
    "little": "L = X·W",
    "peak": "peak in flight",
    "offered": "offered rate",
    "loop": "open or closed",
    "arrivals": "arrival pattern",
    "stability": "stable?",
    "warmup": "warm-up, drain",
    "failures": "failures counted",
    "quantile_size": "enough requests",
    "dependence": "enough evidence",
    "goodput": "attainment",
    "tpot_itl": "TPOT and ITL",
    "repeats": "repeated prompts",
    "printed": "printed numbers",
}
_SIGN = {HOLDS: "✓", DOUBTFUL: "?", BROKEN: "✗", UNKNOWN: "–"}
_COLOUR = {HOLDS: style.GREEN, DOUBTFUL: style.BROWN, BROKEN: style.VERMILLION, UNKNOWN: style.GREY}


@lru_cache(64)
def audited(file: str, requests: int, seed: int) -> Audit:
    """The audit of a generated file of FILES; a mystery is one of the others, drawn by the seed."""
    rng = np.random.default_rng([11, seed])
    make = FILES[file]
    if make is None:
        others = [other for other in FILES.values() if other is not None]
        make = others[np.random.default_rng([12, seed]).integers(len(others))]
    return audit(make(rng, requests))


@dataclass(frozen=True, eq=False)
class _Checked:
    file: str
    audit: Audit
    finding: Finding


def _checked(file, check, requests, seed) -> _Checked:
    found = audited(file, requests, seed)
    return _Checked(file, found, found[check])


def counted(found: Audit) -> str:
    """How many checks have which verdict, in words."""
    return ", ".join(
        f"{len(found.having(v))} {v}" for v in (BROKEN, DOUBTFUL, HOLDS, UNKNOWN) if found.having(v)
    )


def _checks_picture(figure):
    ax = figure.subplots()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.axis("off")
    heights = np.linspace(0.89, 0.03, len(CHECKS))
    frame = ax.plot([], [], color=style.INK, lw=1.5)[0]  # around the selected check
    rows = []
    for check, y in zip(CHECKS, heights, strict=True):
        ax.text(0.20, y, NAMES[check], fontsize=12, va="center")
        rows.append(ax.text(0.015, y, "", fontsize=12, va="center"))
    head = ax.text(0.015, 0.965, "", fontsize=13, va="center", weight="bold")
    title, said, told = (
        ax.text(0.42, y, "", fontsize=size, va="top", linespacing=1.25)
        for y, size in ((0.91, 13), (0.78, 12), (0.53, 11.5))
    )
    title.set_weight("bold")

    def move(c: _Checked) -> str:
        found = c.finding
        for row, finding in zip(rows, c.audit, strict=True):
            row.set(text=f"{_SIGN[finding.verdict]} {finding.verdict}", color=_COLOUR[finding.verdict])
        y = heights[list(CHECKS).index(found.check)]
        frame.set_data(
            [0.005, 0.395, 0.395, 0.005, 0.005], [y - 0.03, y - 0.03, y + 0.03, y + 0.03, y - 0.03]
        )
        head.set_text(f"{len(c.audit.record.log):,} requests: {counted(c.audit)}")
        title.set_text(style.sentence(found.title, 46))
        said.set(text=style.sentence(f"{found.verdict}: {found.reason}", 58), color=_COLOUR[found.verdict])
        numbers = [f"{name}: {number(value)}" for name, value in found.numbers.items()]
        told.set_text("\n".join(style.sentence(line, 60).replace("\n", "\n    ") for line in numbers))
        listed = "; ".join(f"{NAMES[f.check]} {f.verdict}" for f in c.audit)
        return (
            f"Audit of a file ({c.file}) with {len(c.audit.record.log):,} requests. {listed}. Selected: {found.title} "
            f"{found.verdict}. {found.reason} Numbers: {'; '.join(numbers) or 'none'}."
        )

    return [frame, *rows, head, title, said, told], move


def checks(**setting) -> Explorer:
    """Explorer: a generated file with one known flaw, the verdict of every check, and one check's reason and numbers."""
    controls = [
        choice("file", "file", {name: name for name in FILES}),
        choice("check", "check", {f"{i}. {NAMES[c]}": c for i, c in enumerate(CHECKS, 1)}),
        slider("requests", "requests", "in the file", 100, 5000, 2000, per_decade=10),
    ]
    return Explorer(
        "benchmark_audit.checks",
        controls,
        _checked,
        _checks_picture,
        sample=True,
        size=(9, 5),
        setting=setting,
        framed="file",
    )


EXPLORERS = (checks,)

# -- predict ------------------------------------------------------------------------------------------


@lru_cache(1)
def capped(rate=12.0, cap=8, service_s=0.62, n=4000) -> RequestLog:
    """Requests at `rate` per second through a cap in the client; the log's arrival is the send after the cap."""
    rng = np.random.default_rng(23)
    intended = workload.poisson(rng, rate, n)
    log = simulate.fcfs_servers(intended, workload.gamma(service_s, 0.1).sample(rng, n), cap)
    order = np.argsort(log.start, kind="stable")
    return RequestLog(log.start[order], log.start[order], log.finish[order], intended=intended[order])


def two_clocks() -> tuple[float, float]:
    """P99 of the response time in s of `capped`: from the send, and from the moment the user came."""
    log = capped()
    return float(np.quantile(log.response, 0.99)), float(np.quantile(log.finish - log.intended, 0.99))


def two_clocks_table(limit_s=1.0) -> Table:
    """P99 and attainment of `capped` by both clocks."""
    log = capped()
    rows = tuple(
        (name, float(np.quantile(times, 0.99)), f"{100 * np.mean(times <= limit_s):.1f}%")
        for name, times in (
            ("the send (in the file)", log.response),
            ("the moment the user came", log.finish - log.intended),
        )
    )
    return Table(
        ("the clock starts at", "P99 (s)", f"within {limit_s:g} s"),
        rows,
        f"One simulated file of {len(log):,} requests, 12/s through a cap of 8. No intervals: both clocks read the same "
        "requests.",
    )


# -- check it and break it ----------------------------------------------------------------------------


def share(hits: int, n: int) -> Estimate:
    """A share of independent files with its 95% interval (Wilson, 1927)."""
    z, p = 1.959964, hits / n
    middle, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
    return Estimate(p, max(0.0, low), min(1.0, high), 0.95, "files, Wilson", n)


_SHOWN = (
    "wrong_mean",
    "binned_peak",
    "behind_schedule",
    "hidden_queue",
    "bursty",
    "overloaded",
    "cold",
    "survivors",
)


def detection(files=20, sizes=(100, 400, 2000)) -> Table:
    """How often the right check finds each flaw in files of three sizes; last row: clean files with any alarm."""
    rows = []
    for make, check in ((getattr(flaws, name), flaws.FLAWS[getattr(flaws, name)]) for name in _SHOWN):
        hits = [
            sum(audit(make(np.random.default_rng([31, s]), n))[check].verdict in FOUND for s in range(files))
            for n in sizes
        ]
        rows.append((NAMES[check], *(share(hit, files).brief for hit in hits)))
    alarms = []
    for n in sizes:
        found = [audit(flaws.clean(np.random.default_rng([32, s]), n)) for s in range(files)]
        alarms.append(share(sum(a.worst in FOUND for a in found), files).brief)
    rows.append(("clean: any alarm", *alarms))
    head = ("flaw of the check", *(f"{n:,} requests" for n in sizes))
    return Table(
        head,
        tuple(rows),
        f"Share of {files} generated files called doubtful or broken; 95% intervals (Wilson).",
    )


@lru_cache(1)
def edited(n=4000, cut=0.05) -> tuple[Record, Record]:
    """An honest run with the engine's own gauge, and the same after somebody deleted its slowest requests."""
    rng = np.random.default_rng(5)
    log, rate = flaws.open_run(rng, n, punctual=False, at=(10.0, workload.lognormal(0.3, 1.0), 6))
    time = np.arange(0.0, log.finish.max(), 0.25)
    inside = log.in_system(time)
    gauge = Gauge(time, np.minimum(inside, 6), np.maximum(inside - 6, 0), inside / inside.max())
    keep = log.response <= np.quantile(log.response, 1 - cut)
    kept = RequestLog(**{name: column[keep] for name, column in flaws.columns(log).items()})
    return tuple(
        replace(flaws.described(part, rate * len(part) / n), gauge=gauge, name=name)
        for part, name in ((log, "as measured"), (kept, "slowest 5% deleted"))
    )


def deleted() -> Table:
    """Break it: the same run before and after its slowest requests were deleted, without and with the engine's gauge."""
    rows = []
    for record in edited():
        alone, both = audit(replace(record, gauge=None)), audit(record)
        p99 = float(np.quantile(record.log.response, 0.99))
        told = ", ".join(NAMES[f.check] for f in alone if f.verdict in FOUND) or "none"
        witness = [value for name, value in both["little"].numbers.items() if "running and waiting" in name]
        inside = alone["little"].numbers["λ·W of the records"]
        rows.append((record.name, p99, told, inside, witness[0], both["little"].verdict))
    return Table(
        ("file", "P99 (s)", "alarms", "λW of the file", "L of the engine's gauge", "L = X·W, with the gauge"),
        tuple(rows),
        "One simulated run of 4,000 requests, the same in both rows. Counted, so no intervals.",
    )


def burstiness(rate=10.0, utilisation=0.8, shapes=(0.25, 0.5, 1.0, 2.0)) -> Table:
    """One parameter b in two tools: SCV of the gaps, as theory and in a generated file, and the mean wait it causes."""
    rows = []
    for b in shapes:
        for meaning, squared in (("gamma shape: 1/b", 1 / b), ("coefficient of variation: b²", b * b)):
            law = workload.gamma(1 / rate, squared)
            gaps = np.diff(workload.renewal(np.random.default_rng(25), law, 20_000))
            wait = theory.GM1(law, utilisation / rate).mean_wait
            rows.append((f"{b:g}", meaning, squared, scv(gaps), f"{1e3 * wait:.0f}"))
    return Table(
        ("b", "what the tool means", "SCV", "SCV of 20,000 gaps", "mean wait (ms)"),
        tuple(rows),
        f"{rate:g}/s, one exponential server at {utilisation:g} utilisation. The wait is exact (G/M/1); the gaps are "
        "one sample, no interval.",
    )


# -- result files -------------------------------------------------------------------------------------


def vllm_text(record: Record, detailed=True) -> str:
    """The record as vLLM `bench serve` would save it: JSON with aggregates, `detailed` also with every request."""
    log, claims = record.log, record.claims
    ok = np.ones(len(log), bool) if log.ok is None else log.ok
    told = {
        "num_prompts": len(log),
        "completed": int(ok.sum()),
        "failed": int((~ok).sum()),
        "duration": claims.duration_s,
        "request_rate": claims.offered_rate,
        "burstiness": claims.burstiness,
        "max_concurrency": claims.cap,
        "request_throughput": claims.rate,
        "max_concurrent_requests": claims.peak,
    }
    told |= {
        f"mean_{key}_ms": 1e3 * claims.mean[name]
        for key, name in (("ttft", "ttft"), ("tpot", "tpot"), ("e2el", "response"))
    }
    told["p99_e2el_ms"] = 1e3 * claims.quantiles["response", 0.99]
    if detailed:
        first, finish = (np.where(ok, column, log.arrival) for column in (log.first_token, log.finish))
        told |= {
            "start_times": log.arrival.tolist(),
            "ttfts": (first - log.arrival).tolist(),
            "itls": [[gap] if good else [] for gap, good in zip((finish - first).tolist(), ok, strict=True)],
            "input_lens": log.prompt_tokens.tolist(),
            "output_lens": log.output_tokens.tolist(),
            "errors": ["" if good else "503" for good in ok],
        }
    return json.dumps(told)


def wrk_text(record: Record) -> str:
    """The record as `wrk` would print it: a mean, a few percentiles, a rate."""
    log, claims = record.log, record.claims
    shown = "\n".join(
        f"     {100 * p:.0f}%  {1e3 * np.quantile(log.response, p):.2f}ms" for p in (0.5, 0.75, 0.9, 0.99)
    )
    seconds, mean, spread, most = (
        claims.duration_s,
        log.response.mean(),
        log.response.std(),
        log.response.max(),
    )
    return (
        f"Running {seconds:.0f}s test @ http://127.0.0.1:8000/\n  1 threads and {claims.cap or 1:g} connections\n"
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n"
        f"    Latency   {1e3 * mean:.2f}ms  {1e3 * spread:.2f}ms  {most:.2f}s  90.00%\n"
        f"    Req/Sec   {claims.rate:.2f}  1.00  {claims.rate:.2f}  90.00%\n  Latency Distribution\n{shown}\n"
        f"  {len(log)} requests in {seconds:.2f}s, 1.00MB read\nRequests/sec:  {claims.rate:.2f}\nTransfer/sec:  1.00KB\n"
    )


def _through_file(name: str, text: str) -> Record:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8")
        return read(path)


def same_run() -> Table:
    """One run with a hidden queue, as three tools would save it: what an audit can still see."""
    made = flaws.hidden_queue(np.random.default_rng(8))
    saved = {
        "vLLM, --save-detailed": ("vllm.json", vllm_text(made)),
        "vLLM, plain": ("plain.json", vllm_text(made, detailed=False)),
        "wrk": ("wrk.txt", wrk_text(made)),
    }
    rows = []
    for tool, (name, text) in saved.items():
        found = audit(_through_file(name, text))
        counts = [len(found.having(verdict)) for verdict in VERDICTS]
        rows.append((tool, *counts, found["loop"].verdict))
    return Table(
        ("saved by", *VERDICTS, "open or closed?"),
        tuple(rows),
        "The same 2,000 simulated requests in each row, written in the tool's format and read back.",
    )


def verdicts(*found: Audit) -> Table:
    """Audits side by side: one row per check."""
    rows = [
        (NAMES[check], *(f"{_SIGN[a[check].verdict]} {a[check].verdict}" for a in found)) for check in CHECKS
    ]
    return Table(("check", *(a.record.name for a in found)), tuple(rows), "")


def _stand_in(scale: int) -> Record:
    rng = np.random.default_rng(scale)
    service = workload.exponential(1.0).sample(rng, 500)
    log = simulate.fcfs_servers(workload.poisson(rng, 4.2 * scale / (scale + 300), 500), service, 4)
    time = np.arange(0.0, log.finish.max(), 0.25)
    inside = log.in_system(time)
    return Record(
        "synthetic", log, gauge=Gauge(time, np.minimum(inside, 4), np.maximum(inside - 4, 0), inside / 50)
    )


@lru_cache(1)
def sweep() -> tuple[tuple[Audit, ...], str]:
    """Audits of a public vLLM load test at three loads, client's records and engine's gauge, and where they are from."""
    found, source = [], "BurstGPT's public vLLM logs, 500 prompts per load"
    for scale in (100, 500, 1000):
        names = (f"detail_log_scale{scale}_prompt500.json", f"vllm_log_scale{scale}_prompt500.csv")
        files = [course.data(f"burstgpt_vllm_sweep/{name}") for name in names]
        if all(files):
            (one,) = audit_records([read(path) for path in files])
        else:
            source = "SYNTHETIC STAND-IN (4 servers and a gauge): get the real logs with `qlab data`"
            one = audit(_stand_in(scale))
        found.append(replace(one, record=replace(one.record, name=f"scale {scale}")))
    return tuple(found), source


def real_sweep() -> Table:
    """Verdicts on the three loads, one row per check."""
    found, source = sweep()
    table = verdicts(*found)
    shown = tuple(row for row in table.rows if any(UNKNOWN not in cell for cell in row[1:]))
    left = ", ".join(row[0] for row in table.rows if row not in shown)
    caption = (
        f"{source}. Counted in one finished run per load: no intervals. These files cannot tell: {left}."
    )
    return replace(table, rows=shown, caption=caption)


# -- the five files of the exercises ------------------------------------------------------------------

FLAW_OF = {"a": "behind_schedule", "b": "survivors", "c": "wrong_mean", "d": "bursty", "e": "binned_peak"}
_SEED = {"a": 4, "b": 0, "c": 0, "d": 0, "e": 0}


def result_text(letter: str) -> str:
    """The text of one of the five result files, in the format of vLLM's `--save-detailed`."""
    if letter not in FLAW_OF:
        raise ValueError(f"letter is {letter!r}; choose one of {', '.join(FLAW_OF)}.")
    return vllm_text(getattr(flaws, FLAW_OF[letter])(np.random.default_rng([7, _SEED[letter]]), 4000))


@lru_cache(5)
def result_file(letter: str) -> Record:
    """The Record of result file a, b, c, d or e, as `labsupport.records.read` gives it."""
    return _through_file(f"result_{letter}.json", result_text(letter))


def save(letter: str, folder=None) -> Path:
    """Write a result file into a folder (default: the learner's own), for `qlab audit`; returns its path."""
    folder = course.work() if folder is None else Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"result_{letter}.json"
    path.write_text(result_text(letter), encoding="utf-8")
    return path
