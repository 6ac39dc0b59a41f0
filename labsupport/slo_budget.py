"""Lesson 10, the budget of a promise: who is let in, what each stage may take, how many engines it needs.

Rates are requests per second, times are seconds unless a name ends in _ms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from . import course
from .lab import Explorer, Still, Table, choice, slider, style
from .lab.table import plus_minus
from .queueing import engine, simulate, theory, workload
from .queueing.admission import Admission, token_bucket
from .queueing.requestlog import RequestLog
from .queueing.statistics import Estimate, mean_replications, meets, quantile
from .records import traces
from .sizing import Plan, percent, plan, smallest

# -- the engine and the chats of lesson 06 -----------------------------------------------------------------

# A decode step of b sequences takes 7.06 + 0.0737 b ms (lesson 05), a prompt 0.1 ms per token. KV for 100,000 tokens.
MACHINE = engine.Engine(0.00706, 0.0000737, per_prompt_token_s=0.0001, slots=64, kv_tokens=100_000)
PROMPT, OUTPUT = (
    (1020, 0.9, 8000),
    (129, 1.0, 2000),
)  # median, sigma, longest; medians of Azure's conversations
TTFT_S = 2.0


@lru_cache(maxsize=64)
def _units(seed: tuple, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Poisson arrivals at 1/s (n,) and two rows of uniforms (2, n) for prompts and outputs."""
    arrivals, lengths = (np.random.default_rng([*seed, part]) for part in range(2))
    return arrivals.standard_exponential(n).cumsum(), lengths.random((n, 2)).T


def _tokens(u, median, sigma, most) -> np.ndarray:
    return np.ceil(workload.lognormal_from_median(median, sigma).ppf(u)).clip(1, most)


@lru_cache(maxsize=64)
def chats(seed: tuple, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Poisson arrivals at 1/s, prompt tokens and output tokens (n,); a longer draw begins with the shorter one."""
    unit, u = _units(seed, n)
    return unit, _tokens(u[0], *PROMPT), _tokens(u[1], *OUTPUT)


@lru_cache(maxsize=1)
def capacity() -> float:
    """Requests of this kind that one engine completes per second with all slots taken."""
    _, prompt, output = chats((0,), 100_000)
    return MACHINE.capacity(prompt, output)


# -- explorer: the budget ----------------------------------------------------------------------------------

STAGES = ("queue", "prefill", "decode", "network")
NETWORK_S, STALL_S = 0.05, 20.0
_SIGMAS = (None, 0.7, 0.8, 0.5)  # None: exponential; else lognormal
_N = 20_000


def stage_quantile(mean: float, sigma: float | None, p):
    """Quantile in s of one stage: exponential, or lognormal with that sigma of the logarithm."""
    from scipy.special import ndtri

    if sigma is None:
        return -mean * np.log1p(-np.asarray(p))
    return mean * np.exp(sigma * ndtri(p) - sigma**2 / 2)


def stage_p99(mean: float, sigma: float | None, stall: float, p=0.99) -> float:
    """Exact P99 in s of a stage that in a share `stall` of the requests takes STALL_S longer."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    def below(t):
        if t <= 0:
            return 0.0
        return (
            -math.expm1(-t / mean)
            if sigma is None
            else float(ndtr((math.log(t / mean) + sigma**2 / 2) / sigma))
        )

    def missing(t):
        return (1 - stall) * below(t) + stall * below(t - STALL_S) - p

    high = float(stage_quantile(mean, sigma, p)) + STALL_S + 1e-9
    return brentq(missing, 0.0, high, xtol=1e-9)


@lru_cache(maxsize=4)
def _normals(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A common normal (n,), one of each stage's own (4, n), and uniforms for the stalls (4, n)."""
    rng = np.random.default_rng([10, seed])
    return rng.standard_normal(_N), rng.standard_normal((4, _N)), rng.random((4, _N))


def stages(means, dependence: float, stall: float, seed: int) -> np.ndarray:
    """Times (4, n) in s of the stages of n requests.

    dependence  correlation, 0 to 1, of the normal numbers behind the four times of a request
    stall       share of the requests that a stage holds up for STALL_S, drawn apart for each stage
    """
    from scipy.special import log_ndtr

    common, own, u = _normals(seed)
    rows = []
    for mean, sigma, z, v in zip(means, _SIGMAS, own, u, strict=True):
        z = math.sqrt(dependence) * common + math.sqrt(1 - dependence) * z
        base = -mean * log_ndtr(-z) if sigma is None else mean * np.exp(sigma * z - sigma**2 / 2)
        rows.append(base + STALL_S * (v < stall) if stall else base)
    return np.array(rows)


@dataclass(frozen=True)
class Budget:
    """Four stages and their sum, in s: means (4,), exact P99s (4,), P99 of the sum, and what it consists of (4,)."""

    means: np.ndarray
    p99s: np.ndarray
    p99: Estimate
    parts: np.ndarray
    stall: float
    dependence: float

    @property
    def sum_of_p99s(self) -> float:
        return float(self.p99s.sum())


def slowest_parts(times: np.ndarray) -> np.ndarray:
    """Mean time (stages,) of each stage among the 1% of requests around the P99 of the sum; scaled to add up to it."""
    total = times.sum(axis=0)
    n = len(total)
    low, high = int(0.985 * n), int(0.995 * n)
    near = np.argpartition(total, (low, high))[low:high]
    parts = times[:, near].mean(axis=1)
    return parts * np.quantile(total, 0.99) / parts.sum()


def _budget_of(queue, prefill, decode, dependence, stall, seed) -> Budget:
    means = np.array([queue, prefill, decode, NETWORK_S])
    times = stages(means, dependence, stall / 100, seed)
    p99s = np.array([stage_p99(m, s, stall / 100) for m, s in zip(means, _SIGMAS, strict=True)])
    p99 = quantile(times.sum(axis=0), 0.99)
    return Budget(means + stall / 100 * STALL_S, p99s, p99, slowest_parts(times), stall, dependence)


_COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE)


def _budget_picture(figure):
    ax = figure.subplots()
    rows = ("means, added", "P99s, added", "P99 of the sum")
    ax.set(xlabel="time (s)", xlim=(0, 10), ylim=(-0.55, 3.05))
    ax.set_yticks([2, 1, 0], rows)
    ax.tick_params(axis="y", length=0, labelsize=13, labelcolor=style.INK)
    ax.grid(axis="y", visible=False)
    bars = [[ax.barh(y, 1, 0.55, color=colour, alpha=0.75)[0] for colour in _COLOURS] for y in (2, 1, 0)]
    values = [style.label(ax, 0, y, "", style.INK, va="center") for y in (2, 1, 0)]
    interval = ax.plot([], [], color=style.INK, lw=2, marker="|", ms=12, zorder=5)[0]
    names = []
    for k, (name, colour) in enumerate(
        zip(STAGES, (style.BLUE, style.BROWN, style.GREEN, style.PURPLE), strict=True)
    ):
        names.append(style.label(ax, 0.02 + 0.16 * k, 0.965, name, colour, transform=ax.transAxes, va="top"))
    head = ax.set_title("\n ", pad=6)

    def move(b: Budget) -> str:
        lines = (b.means, b.p99s, b.parts)
        end = style.step_up(1.28 * max(b.sum_of_p99s, b.p99.high), [5, 10, 20, 40, 80, 160, 320])
        style.limits(ax, (0, end), (-0.55, 3.05))
        for row, parts, text, y in zip(bars, lines, values, (2, 1, 0), strict=True):
            left = 0.0
            for bar, width in zip(row, parts, strict=True):
                bar.set(x=left, width=width)
                left += width
            said = f"{b.p99.brief} s" if y == 0 else f"{left:.3g} s"
            text.set(x=max(left, b.p99.high if y == 0 else 0) + 0.012 * end, text=said)
        interval.set_data([b.p99.low, b.p99.high], [0, 0])
        gap = b.sum_of_p99s / b.p99.value - 1
        if b.p99.covers(b.sum_of_p99s):
            verdict = "The sum of the P99s lies within the interval of the P99 of the sum"
        elif gap > 0:
            verdict = f"The sum of the P99s is {100 * gap:.0f}% too large"
        else:
            verdict = f"The sum of the P99s is {-100 * gap:.0f}% too small: no bound"
        head.set_text(f"{verdict}\nLowest bar: split as in the 1% of requests around the P99")
        shares = ", ".join(
            f"{n} {100 * x / b.parts.sum():.0f}%" for n, x in zip(STAGES, b.parts, strict=True)
        )
        return (
            f"Three stacked bars over queue, prefill, decode and network, dependence {b.dependence:g}, each stage stalls in "
            f"{b.stall:g}% of the requests. Means add up to {b.means.sum():.3g} s. The P99s add up to "
            f"{b.sum_of_p99s:.3g} s; P99 of the sum is {b.p99.brief} s, made of {shares}. {verdict}."
        )

    return [*(bar for row in bars for bar in row), *values, interval, *names, head], move


def budget(**setting) -> Explorer:
    """Explorer: the P99s of four stages, added, against the P99 of their sum."""
    controls = [
        slider("queue", "queue, mean", "s", 0.05, 5.0, 0.3, per_decade=10),
        slider("prefill", "prefill, mean", "s", 0.05, 5.0, 0.2, per_decade=10),
        slider("decode", "decode, mean", "s", 0.1, 10.0, 1.0, per_decade=10),
        slider("dependence", "dependence", "", 0.0, 1.0, 0.0, step=0.05),
        slider("stall", f"stalls of {STALL_S:g} s, each stage", "%", 0.0, 2.0, 0.0, step=0.1),
    ]
    return Explorer("slo_budget.budget", controls, _budget_of, _budget_picture, sample=True, setting=setting)


# -- the door ----------------------------------------------------------------------------------------------

_RUN_S, _FROM_S, _RUNS = 120.0, 20.0, 4
_MOST = 4096  # requests drawn for a run, more than twice the capacity brings in 2 minutes
SLO = {"ttft": TTFT_S}


@dataclass(frozen=True)
class Outcome:
    """What became of the requests that came after the first 20 s of each of several runs of 2 minutes.

    One number per run: offered, admitted and good [requests/s; good: first token within TTFT_S], p99 [s], the P99 of
    the admitted requests' TTFT. log: the first run.
    """

    offered: np.ndarray
    admitted: np.ndarray
    good: np.ndarray
    p99: np.ndarray
    log: RequestLog

    def mean(self, name: str) -> Estimate:
        e = mean_replications(getattr(self, name))
        return replace(e, low=max(0.0, e.low))  # neither a rate nor a time is negative


def _arrivals(load: float, run: tuple, bursts: bool):
    """Arrival times up to 2 minutes, and tokens; another load has the same pattern and the same requests."""
    rate = load * capacity()
    unit, prompt, output = chats(run, _MOST)
    if bursts:
        unit = _bursty(run)
    keep = np.searchsorted(unit, rate * _RUN_S)
    return unit[:keep] / rate, prompt[:keep], output[:keep]


@lru_cache(maxsize=32)
def _bursty(run: tuple) -> np.ndarray:
    """Arrivals at 1/s on average, in bursts: half that rate, and now and then three times that rate for 30 requests."""
    return workload.mmpp(np.random.default_rng([*run, 7]), (0.5, 3.0), (40.0, 10.0), _MOST)


def through(load: float, seed: int, door: Admission | tuple | None, bursts=False, runs=_RUNS) -> Outcome:
    """Requests at `load` times the capacity of one engine behind a door.

    door  None: open; an Admission; or (rate, burst) of a token bucket, in requests/s and requests
    """
    logs = []
    for run in range(runs):
        arrival, prompt, output = _arrivals(load, (seed, run), bursts)
        gate = {}
        if isinstance(door, Admission):
            gate["admission"] = door
        elif door is not None:
            gate["admitted"] = token_bucket(arrival, *door)
        logs.append(engine.serve(arrival, prompt, output, MACHINE, **gate))
    return _outcome(logs)


def _outcome(logs) -> Outcome:
    span = _RUN_S - _FROM_S
    numbers = []
    for log in logs:
        part = slice(np.searchsorted(log.arrival, _FROM_S), None)
        ok = np.ones(len(log), bool) if log.ok is None else log.ok
        ttft = log.ttft[part][ok[part]]
        p99 = float(np.quantile(ttft, 0.99)) if len(ttft) else math.nan
        numbers.append(
            (len(log.arrival[part]) / span, len(ttft) / span, meets(log, SLO)[part].sum() / span, p99)
        )
    return Outcome(*np.array(numbers).T, logs[0])


@lru_cache(maxsize=64)
def _open(load: float, seed: int, bursts=False) -> Outcome:
    return through(load, seed, None, bursts)


@dataclass(frozen=True)
class _Door:
    load: float
    words: str
    open: Outcome
    shut: Outcome


_OFF = {"waiting": 100, "kv": 100, "p99": 200}


def _door_of(load, waiting, kv, p99, seed) -> _Door:
    limits = {
        "max_waiting": math.inf if waiting >= _OFF["waiting"] else waiting,
        "max_kv_share": math.inf if kv >= _OFF["kv"] else kv / 100,
        "max_p99_ttft_s": math.inf if p99 >= _OFF["p99"] else p99 / 100 * TTFT_S,
    }
    said = []
    if limits["max_waiting"] < math.inf:
        said.append(f"waiting < {waiting}")
    if limits["max_kv_share"] < math.inf:
        said.append(f"KV < {kv}%")
    if limits["max_p99_ttft_s"] < math.inf:
        said.append(f"recent P99 < {limits['max_p99_ttft_s']:.2g} s")
    free = _open(load, seed)
    shut = through(load, seed, Admission(**limits)) if said else free
    return _Door(load, " and ".join(said) or "everybody", free, shut)


def _bar_panel(ax, rows):
    """Horizontal bars of rates with intervals, their names above them; returns what moves and a function that moves it."""
    ax.set(xlabel="requests/s", ylim=(-0.5, len(rows) - 0.1), yticks=[])
    ax.grid(axis="y", visible=False)
    spots = range(len(rows) - 1, -1, -1)
    bars = [
        ax.barh(y, 1, 0.4, color=colour, alpha=0.75)[0] for y, (_, colour) in zip(spots, rows, strict=True)
    ]
    texts = [
        ax.text(0, y + 0.27, "", color=colour, va="bottom", fontsize=12)
        for y, (_, colour) in zip(spots, rows, strict=True)
    ]
    lines = [ax.plot([], [], color=style.INK, lw=2, marker="|", ms=8)[0] for _ in rows]

    def move(estimates):
        for bar, text, line, y, e, (name, _) in zip(bars, texts, lines, spots, estimates, rows, strict=True):
            bar.set_width(e.value)
            line.set_data([e.low, e.high], [y, y])
            text.set_text(f"{name} {e.brief}")

    return [*bars, *texts, *lines], move


def _ttft_panel(ax):
    ax.set(
        yscale="log", xlim=(0, _RUN_S), ylim=(0.02, 300), xlabel="moment of arrival (s)", ylabel="TTFT (s)"
    )
    ax.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    ax.minorticks_off()
    ax.axhline(TTFT_S, color=style.INK, ls="--", lw=1.4)
    promise = style.label(
        ax,
        _RUN_S * 0.99,
        TTFT_S * 1.08,
        f"promise {TTFT_S:g} s",
        style.INK,
        ha="right",
        va="bottom",
        fontsize=12,
    )
    free = ax.plot([], [], ".", ms=4, color=style.GREY, alpha=0.5)[0]
    shut = ax.plot([], [], ".", ms=5, color=style.BLUE)[0]
    return free, shut, promise


def _points(log: RequestLog):
    ok = np.ones(len(log), bool) if log.ok is None else log.ok
    return log.arrival[ok], log.ttft[ok].clip(0.02, 300)


def _admission_picture(figure):
    left, right = figure.subplots(1, 2, width_ratios=[1.5, 1])
    free, shut, promise = _ttft_panel(left)
    names = [  # moving, so that points do not cover them
        promise,
        style.label(left, 0.02, 0.97, "open door", style.GREY, transform=left.transAxes, va="top"),
        style.label(left, 0.98, 0.03, "with the thresholds", style.BLUE, transform=left.transAxes, ha="right"),
    ]
    rows = (
        ("come:", style.GREY),
        ("admitted:", style.BLUE),
        ("good:", style.GREEN),
        ("good, open door:", style.VERMILLION),
    )
    bars, move_bars = _bar_panel(right, rows)
    right.set_xlim(0, 2.25 * capacity())
    right.axvline(capacity(), color=style.INK, lw=1, ls=":")
    style.label(right, capacity() * 1.03, 3.72, "capacity", style.INK, fontsize=11, va="center")
    head = figure.text(0.012, 0.985, "\n ", va="top", fontsize=13)
    left.set_title("\n ")  # room for the heading

    def move(d: _Door) -> str:
        free.set_data(*_points(d.open.log))
        shut.set_data(*_points(d.shut.log))
        estimates = [
            d.shut.mean("offered"),
            d.shut.mean("admitted"),
            d.shut.mean("good"),
            d.open.mean("good"),
        ]
        move_bars(estimates)
        state = ", unstable with an open door" if d.load >= 1 else ""
        first = f"Load {d.load:g} × capacity{state}. Admitted: {d.words}"
        p99, p99_open = d.shut.mean("p99"), d.open.mean("p99")
        second = f"P99 TTFT of the admitted {p99.brief} s; with an open door {p99_open.brief} s"
        head.set_text(f"{first}\n{second}")
        return (
            f"TTFT of each request against its arrival with and without a door, and rates. {first}. {second}. Per second "
            f"{estimates[0].brief} come, {estimates[1].brief} are admitted, {estimates[2].brief} have their "
            f"first token within {TTFT_S:g} s; with an open door {estimates[3].brief}. 95% intervals from "
            f"{_RUNS} runs of 2 minutes."
        )

    return [free, shut, *names, *bars, head], move


def admission(**setting) -> Explorer:
    """Explorer: thresholds at the door of one engine, and what becomes of those who come."""
    controls = [
        slider("load", "load / capacity", "", 0.5, 2.0, 1.3, step=0.05),
        slider(
            "waiting",
            "max waiting (100: off)",
            "requests",
            1,
            100,
            3,
            values=[1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64],
        ),
        slider("kv", "max KV share (100: off)", "%", 30, 100, 100, step=5),
        slider("p99", "max P99 / SLO (200: off)", "%", 20, 200, 200, step=10),
    ]
    return Explorer("slo_budget.admission", controls, _door_of, _admission_picture, sample=True, size=(9, 4.4),
                    setting=setting)  # fmt: skip


# -- explorer: the token bucket ----------------------------------------------------------------------------


def bucket_level(arrival, admitted, rate, burst) -> tuple[np.ndarray, np.ndarray]:
    """Corners (times in s, tokens) of the bucket's level: just before and just after each arrival."""
    times, levels, level, last = [0.0], [float(burst)], float(burst), 0.0
    for t, taken in zip(arrival, admitted, strict=True):
        full = last + (burst - level) / rate
        if full < t:
            times.append(full)
            levels.append(burst)
        level = min(burst, level + rate * (t - last))
        times += [t, t]
        levels.append(level)
        level -= taken
        levels.append(level)
        last = t
    return np.array(times), np.array(levels)


@dataclass(frozen=True)
class _Bucket:
    load: float
    rate: float
    burst: int
    bursts: bool
    open: Outcome
    shut: Outcome


def _bucket_of(load, rate, burst, arrivals, seed) -> _Bucket:
    door = (rate / 100 * capacity(), burst)
    bursts = arrivals == "bursts"
    return _Bucket(load, *door, bursts, _open(load, seed, bursts), through(load, seed, door, bursts))


def _bucket_picture(figure):
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.5])
    top.set(ylabel="tokens", ylim=(0, 10))
    level = top.plot([], [], color=style.GREEN, lw=1.3)[0]
    refused = top.plot([], [], "|", ms=9, color=style.VERMILLION)[0]
    free, shut, promise = _ttft_panel(bottom)
    at = dict(transform=bottom.transAxes, fontsize=12)
    names = [
        promise,
        style.label(bottom, 0.01, 0.97, "open door", style.GREY, va="top", **at),
        style.label(bottom, 0.99, 0.04, "behind the bucket", style.BLUE, ha="right", **at),
    ]
    head = top.set_title("\n\n ", pad=6, fontsize=12.5)

    def move(b: _Bucket) -> str:
        log = b.shut.log
        level.set_data(*bucket_level(log.arrival, log.ok, b.rate, b.burst))
        out = log.arrival[~log.ok]
        high = style.step_up(1.12 * b.burst, [2.5, 6, 12, 25, 60, 120, 250, 600])
        style.limits(top, (0, _RUN_S), (-0.1 * high, high))
        refused.set_data(out, np.full(len(out), -0.04 * high))
        free.set_data(*_points(b.open.log))
        shut.set_data(*_points(log))
        kind = "bursty" if b.bursts else "Poisson"
        state = "; unstable with an open door" if b.load >= 1 else ""
        good, free_good = b.shut.mean("good"), b.open.mean("good")
        first = f"{kind} arrivals at {b.load:g} × capacity{state}. r = {b.rate:.2f}/s, B = {b.burst}"
        come, admitted, p99 = (b.shut.mean(name).brief for name in ("offered", "admitted", "p99"))
        second = f"Come {come}/s, admitted {admitted}/s; P99 TTFT {p99} s"
        third = f"Good {good.brief}/s; with an open door {free_good.brief}/s"
        head.set_text(f"{first}\n{second}\n{third}")
        return (
            f"Level of a token bucket over two minutes and TTFT of each request. {first}. {second}. {third}. "
            f"95% intervals from {_RUNS} runs. {len(out)} of {len(log)} requests refused in the run shown."
        )

    return [level, refused, free, shut, *names, head], move


def bucket(**setting) -> Explorer:
    """Explorer: a token bucket before one engine: its level, whom it refuses, and the TTFT of the others."""
    controls = [
        slider("load", "load / capacity", "", 0.5, 2.0, 1.3, step=0.05),
        slider("rate", "inflow r", "% of capacity", 50, 150, 90, step=5),
        slider("burst", "size B", "requests", 1, 500, 10, per_decade=6),
        choice("arrivals", "arrivals", {"Poisson": "poisson", "in bursts": "bursts"}),
    ]
    return Explorer("slo_budget.bucket", controls, _bucket_of, _bucket_picture, sample=True, size=(9, 4.8),
                    setting=setting)  # fmt: skip


# -- explorer: one engine or two ---------------------------------------------------------------------------

# No limit on KV here: the question is who stands still while a prompt is read.
_FREE = replace(MACHINE, kv_tokens=math.inf)
_TRANSFER = {"transfer_s": 0.005, "transfer_per_token_s": 1e-6}
_REQUESTS = 400


def three_systems(chunk: int) -> dict[str, engine.Pool | engine.Split]:
    """Two GPUs in three ways."""
    return {
        "two engines, whole prompts": engine.Pool(_FREE, 2, "least_loaded"),
        f"two engines, chunks of {chunk}": engine.Pool(replace(_FREE, chunk_tokens=chunk), 2, "least_loaded"),
        "one for prefill, one for decode": engine.Split(_FREE, _FREE, **_TRANSFER),
    }


@lru_cache(maxsize=64)
def _two_gpus(which: int, rate: float, prompt: int, output: int, chunk: int, seed: int) -> np.ndarray:
    """(runs, 3): P99 of TTFT in s, P99 of TPOT in ms, longest stall in ms; the first fifth of a run left out."""
    system = list(three_systems(chunk).values())[which]
    numbers = []
    for run in range(_RUNS):
        unit, u = _units((seed, run), _REQUESTS)
        tokens = _tokens(u[0], prompt, 0.9, 20_000), _tokens(u[1], output, 1.0, 8000)
        log = engine.serve(unit / rate, *tokens, system)
        part = slice(_REQUESTS // 5, None)
        numbers.append(
            (
                np.quantile(log.ttft[part], 0.99),
                1e3 * np.nanquantile(log.tpot[part], 0.99),
                1e3 * log.longest_gap[part].max(),
            )
        )
    return np.array(numbers)


@lru_cache(maxsize=64)
def loads_of(rate: float, prompt: int, output: int) -> tuple[float, float, float]:
    """Load of the three systems: the arrival rate over what each can complete at most; the split's is its fuller part."""
    u = _units((0,), 20_000)[1]
    p, o = _tokens(u[0], prompt, 0.9, 20_000), _tokens(u[1], output, 1.0, 8000)
    shared = rate / (2 * _FREE.capacity(p, o))
    reading = rate * float(np.mean(_FREE.per_prompt_token_s * p))
    writing = rate / replace(_FREE, per_prompt_token_s=0.0).capacity(p, o)
    return shared, shared, max(reading, writing)


@dataclass(frozen=True)
class _Gpus:
    setting: tuple
    names: tuple
    numbers: tuple  # of each system: three Estimates
    loads: tuple


def _gpus_of(chunk, rate, prompt, output, seed) -> _Gpus:
    runs = [_two_gpus(k, rate, prompt, output, chunk if k == 1 else 512, seed) for k in range(3)]
    numbers = tuple(tuple(mean_replications(column) for column in r.T) for r in runs)
    return _Gpus((rate, prompt, output), tuple(three_systems(chunk)), numbers, loads_of(rate, prompt, output))


def _gpus_picture(figure):
    axes = figure.subplots(1, 3)
    colours = (style.VERMILLION, style.BLUE, style.GREEN)
    panels = (
        ("P99 TTFT (s)", (0.03, 1000)),
        ("P99 TPOT (ms)", (5, 2000)),
        ("longest stall (ms)", (5, 100_000)),
    )
    moving, dots, lines, texts = [], [], [], []
    for ax, (what, limits) in zip(axes, panels, strict=True):
        ax.set(xscale="log", xlim=limits, ylim=(-0.45, 2.75), yticks=[], xlabel=what)
        ax.grid(axis="y", visible=False)
        ticks = [t for t in (0.1, 1, 10, 100, 1000, 10_000) if limits[0] <= t <= limits[1]]
        ax.set_xticks(ticks, [f"{t:,g}" for t in ticks])
        ax.minorticks_off()
        dots.append([ax.plot([], [], "o", ms=10, color=c)[0] for c in colours])
        lines.append([ax.plot([], [], color=c, lw=4, alpha=0.5, solid_capstyle="butt")[0] for c in colours])
        place = {"transform": ax.get_yaxis_transform(), "ha": "center", "va": "bottom", "fontsize": 12}
        texts.append([ax.text(0.5, 2.14 - k, "", color=c, **place) for k, c in enumerate(colours)])
        moving += [*dots[-1], *lines[-1], *texts[-1]]
    names = [
        style.label(
            axes[0],
            0.0,
            2 - k + 0.42,
            "",
            c,
            transform=axes[0].get_yaxis_transform(),
            va="bottom",
            fontsize=12,
        )
        for k, c in enumerate(colours)
    ]
    head = figure.text(0.012, 0.985, "\n ", va="top", fontsize=13)
    axes[0].set_title("\n ")

    def move(g: _Gpus) -> str:
        said = []
        for k, (name, load) in enumerate(zip(g.names, g.loads, strict=True)):
            names[k].set_text(f"{name}{', unstable' if load >= 1 else ''}")
            for column, e in enumerate(g.numbers[k]):
                low, high = max(e.low, panels[column][1][0]), min(e.high, panels[column][1][1])
                dots[column][k].set_data([e.value], [2 - k])
                lines[column][k].set_data([low, high], [2 - k, 2 - k])
                texts[column][k].set_text(replace(e, low=max(0.0, e.low)).brief)
            words = [
                f"{what} {replace(e, low=max(0.0, e.low)).brief}"
                for (what, _), e in zip(panels, g.numbers[k], strict=True)
            ]
            said.append(f"{names[k].get_text()}: {', '.join(words)}")
        rate, prompt, output = g.setting
        first = f"2 GPUs, {rate:g}/s, prompts of {prompt:,} and outputs of {output:,} tokens (medians)"
        second = f"95% intervals: {_RUNS} runs of {_REQUESTS} requests, the same for all three"
        head.set_text(f"{first}\n{second}")
        return f"Two GPUs in three ways. {first}. {'; '.join(said)}. {second}."

    return [*moving, *names, head], move


def one_or_two(**setting) -> Explorer:
    """Explorer: two GPUs that both read and write, whole prompts or chunks, or one for each."""
    controls = [
        slider(
            "chunk",
            "chunk of a prompt",
            "tokens",
            64,
            4096,
            512,
            values=[64, 128, 256, 512, 1024, 2048, 4096],
        ),
        slider("rate", "arrival rate", "requests/s", 0.5, 12.0, 5.0, step=0.5),
        slider(
            "prompt",
            "prompt, median",
            "tokens",
            100,
            4000,
            1020,
            values=[100, 200, 300, 500, 700, 1500, 2000, 3000],
        ),
        slider("output", "output, median", "tokens", 10, 1000, 129, values=[20, 50, 80, 200, 300, 500]),
    ]
    return Explorer("slo_budget.one_or_two", controls, _gpus_of, _gpus_picture, sample=True, size=(9, 4.6),
                    setting=setting)  # fmt: skip


# -- check it: Erlang C ------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _service_units(seed: tuple, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Poisson arrivals at 1/s and uniforms for service times."""
    rng = np.random.default_rng(seed)
    return rng.standard_exponential(n).cumsum(), rng.random(n)


def kept_by_servers(arrival, service, servers, target_s, quantity) -> float:
    """Share of the requests whose wait or response time is within target_s; the first fifth is left out."""
    log = simulate.fcfs_servers(arrival, service, servers)
    return float(np.mean(getattr(log, quantity)[len(log) // 5 :] <= target_s))


def erlang(rate=40.0, service_s=0.5, targets=((3.0, "response"), (2.5, "response"), (0.5, "wait"), (0.1, "wait")), runs=10,
           n=10_000) -> Table:  # fmt: skip
    """The smallest number of servers by Erlang C for several promises: what it keeps, and what one fewer keeps."""
    rows = []
    for target, quantity in targets:
        servers = theory.smallest_servers(rate, service_s, target, quantity, 0.99)
        kept = []
        for run in range(runs):
            unit, u = _service_units((21, run), n)
            kept.append(kept_by_servers(unit / rate, -service_s * np.log1p(-u), servers, target, quantity))
        models = [
            theory.MMc(rate, service_s, c) if rate * service_s < c else None for c in (servers, servers - 1)
        ]
        exact = [f"{100 * getattr(m, f'{quantity}_cdf')(target):.2f}%" if m else "unstable" for m in models]
        simulated = _points_of(mean_replications(kept))
        rows.append((f"{quantity} ≤ {target:g} s", servers, exact[0], simulated, exact[1]))
    return Table(
        ("99% of", "servers", "kept", "simulated", "with one fewer"),
        tuple(rows),
        f"M/M/c, {rate:g}/s, mean service {service_s:g} s: {rate * service_s:g} servers busy on average. 95% intervals from "
        f"{runs} runs of {n:,} requests, the same in all rows.",
    )


def _points_of(e: Estimate) -> str:
    """A share in per cent with half the length of its interval, for narrow tables."""
    return f"{plus_minus(replace(e, value=100 * e.value, low=100 * e.low, high=100 * e.high))}%"


# -- explorer: how many engines ----------------------------------------------------------------------------

_PLAN_RUNS, _PLAN_TPOT_S = 4, 0.1
# Medians of prompt and output, in tokens; the first two are those of Azure's traces of 2023.
_LENGTHS = {"chat": (1020, 129), "code": (1469, 13), "documents": (4000, 129), "reasoning": (300, 1000)}


@dataclass(frozen=True)
class _Sizing:
    rate: float
    ttft_s: float
    share: float
    plan: Plan | None
    reason: str = ""


def _plan_seconds(rate: float) -> float:
    """Length of a run: short enough for a slider, and at least half a minute."""
    return max(30.0, 500 / rate)


def _sizing_of(rate, lengths, cost, ttft, share, seed) -> _Sizing:
    prompt, output = _LENGTHS[lengths]
    costs = {name: cost * getattr(_FREE, name) for name in engine.COSTS}
    u = _units((seed, 0), 2000)[1]
    tokens = {
        "prompt_tokens": _tokens(u[0], prompt, 0.9, 20_000),
        "output_tokens": _tokens(u[1], output, 1.0, 8000),
    }
    slo = {"ttft": ttft, "tpot": _PLAN_TPOT_S}
    try:
        found = plan(replace(_FREE, **costs), slo, share / 100, rate=rate, **tokens, router="round_robin",
                     seconds=_plan_seconds(rate), runs=_PLAN_RUNS, seed=seed, most=256)  # fmt: skip
    except ValueError as error:
        return _Sizing(rate, ttft, share, None, str(error))
    return _Sizing(rate, ttft, share, found)


def _sizing_picture(figure):
    ax = figure.subplots()
    ax.set(xlim=(0, 10), ylim=(-4, 108), xlabel="engines", ylabel="attainment (%)")
    ax.set_yticks([0, 25, 50, 75, 100])
    ax.xaxis.get_major_locator().set_params(integer=True)
    answer = ax.fill_between([0, 1], [0, 0], [1, 1], color=style.GREEN, alpha=0.12, lw=0)
    target = ax.plot([], [], color=style.INK, ls="--", lw=1.4)[0]
    floor = ax.plot([], [], color=style.GREY, ls=":", lw=1.8)[0]
    floor_text = style.label(ax, 0, 4, "", style.GREY, ha="right", fontsize=12)
    target_text = style.label(ax, 0, 0, "", style.INK, ha="right", va="top", fontsize=12)
    answer_text = style.label(ax, 0, 4, "", style.GREEN, fontsize=12)
    bars = ax.vlines([0], [0], [0], color=style.BLUE, lw=4, alpha=0.5)
    points = ax.plot([], [], "o", ms=9, color=style.BLUE)[0]
    said = ax.text(0.5, 0.5, "", transform=ax.transAxes, ha="center", va="center", color=style.VERMILLION)
    head = ax.set_title("\n ")

    def move(z: _Sizing) -> str:
        if z.plan is None:
            for line in (points, target, floor):
                line.set_data([], [])
            bars.set_segments([])
            answer.set_verts([])
            for text in (floor_text, target_text, answer_text):
                text.set_text("")
            said.set_text(style.sentence(z.reason, 60))
            head.set_text("No answer\n ")
            return z.reason
        said.set_text("")
        p, e = z.plan, z.plan.engines
        tried = sorted(n for n in p.attainment)
        last = e.high if e.high < math.inf else max(tried)
        end = style.step_up(1.15 * last + 1, [5, 10, 20, 40, 80, 160, 320])
        style.limits(ax, (0, end), (-4, 108))
        shown = [n for n in tried if n <= end]
        points.set_data(shown, [100 * p.attainment[n].value for n in shown])
        bars.set_segments(
            [
                [(n, max(0, 100 * p.attainment[n].low)), (n, min(100, 100 * p.attainment[n].high))]
                for n in shown
            ]
        )
        left, right = e.low - 0.4, last + 0.4
        answer.set_verts([np.array([(left, -4), (right, -4), (right, 108), (left, 108)])])
        target.set_data([0, end], [100 * p.share] * 2)
        target_text.set(x=0.99 * end, y=100 * p.share - 2, text=f"target {100 * p.share:g}%")
        answer_text.set(x=right + 0.01 * end, text="shaded: 95% interval of the number")
        answer_text.set_ha("left")
        if right > 0.55 * end:  # no room on the right of the band
            answer_text.set(x=left + 0.01 * end)
        floor.set_data([p.floor - 0.5] * 2, [-4, 108])
        floor_text.set(x=p.floor - 0.5 - 0.01 * end, text="unstable " if p.floor > 0.3 * end else "")
        interval = f"{e.low:.0f} to {e.high:.0f}" if e.high < math.inf else f"{e.low:.0f} or more"
        unit = "engine" if e.value == 1 else "engines"
        first = f"{e.value} {unit} [{interval}] for {z.share:g}% of {z.rate:g} requests/s in time; load {p.load:.2f}"
        near = "; near the capacity: too short" if p.load > 0.9 else ""
        second = f"95% intervals: {_PLAN_RUNS} runs of {_plan_seconds(z.rate):.0f} s, the same requests for all{near}"
        head.set_text(f"{first}\n{second}")
        found = ", ".join(f"{n}: {percent(p.attainment[n])}" for n in shown)
        return (
            f"Attainment against the number of engines. {first}. TTFT within {z.ttft_s:g} s, TPOT within "
            f"{1e3 * _PLAN_TPOT_S:g} ms. {found}. Fewer than {p.floor} are unstable. {second}."
        )

    return [answer, target, floor, floor_text, target_text, answer_text, bars, points, said, head], move


def engines(**setting) -> Explorer:
    """Explorer: how many engines a promise needs, from rate, lengths, step costs, SLO and target share, by `plan`."""
    controls = [
        slider("rate", "arrival rate", "requests/s", 2.0, 40.0, 10.0, per_decade=10),
        choice(
            "lengths",
            "prompt and output",
            {f"{name}: medians {p:,} and {o:,} tokens": name for name, (p, o) in _LENGTHS.items()},
        ),
        slider(
            "cost",
            "step costs, factor",
            "",
            0.5,
            2.0,
            1.0,
            values=[0.5, 0.7, 1.4, 2.0],
        ),
        slider("ttft", "promise on TTFT", "s", 0.2, 10.0, 2.0, per_decade=10),
        slider("share", "target share", "%", 50, 99, 95, step=1),
    ]
    return Explorer("slo_budget.engines", controls, _sizing_of, _sizing_picture, sample=True, setting=setting)


EXPLORERS = (budget, admission, bucket, one_or_two, engines)


# -- break it ----------------------------------------------------------------------------------------------

_CASES = (
    ("exponential, Poisson", workload.exponential(1.0), False),
    ("constant, Poisson", workload.deterministic(1.0), False),
    ("SCV 4, Poisson", workload.lognormal(1.0, 4.0), False),
    ("exponential, bursts", workload.exponential(1.0), True),
    ("SCV 4, bursts", workload.lognormal(1.0, 4.0), True),
)


def beyond_erlang(rate=40.0, service_s=0.5, target_s=0.5, share=0.99, runs=8, n=10_000) -> Table:
    """Servers for a promise on the wait, found by simulation, where Erlang C's assumptions hold and where they do not."""
    asked = theory.smallest_servers(rate, service_s, target_s, "wait", share)
    rows = []
    for name, law, bursts in _CASES:
        loads = []
        for run in range(runs):
            unit, u = _service_units((21, run), n)
            if bursts:  # at twice and half the mean rate by turns, a few seconds each
                unit = workload.mmpp(np.random.default_rng([22, run]), (0.5, 2.0), (200.0, 100.0), n)
            loads.append((unit / rate, service_s * law.ppf(u)))

        def attained(servers, loads=loads):
            return mean_replications([kept_by_servers(*load, servers, target_s, "wait") for load in loads])

        found, seen = smallest(attained, share, int(rate * service_s) + 1, 400)
        there = attained(asked) if asked not in seen else seen[asked]
        rows.append((name, asked, _points_of(there), f"{found.value} [{found.low:.0f}, {found.high:.0f}]"))
    return Table(
        ("service, arrivals", "Erlang C", "kept then", "simulation"),
        tuple(rows),
        f"{rate:g}/s, mean service {service_s:g} s, {100 * share:g}% must wait at most {target_s:g} s. 95% intervals from "
        f"{runs} runs of {n:,} requests; the rows share their uniforms. Bursts: on average 5 s at half the rate, "
        "2.5 s at twice the rate.",
    )


_DOORS = (
    ("open door", style.VERMILLION, lambda: None),
    ("P99 < 0.8 SLO alone", style.PURPLE, lambda: Admission(max_p99_ttft_s=0.8 * TTFT_S)),
    ("bucket, r = 0.9 C, B = 10", style.GREEN, lambda: (0.9 * capacity(), 10)),
    ("fewer than 3 waiting", style.BLUE, lambda: Admission(max_waiting=3)),
)


@lru_cache(maxsize=2)
def door_curves(loads=(0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0), seed=5, runs=8):
    """Goodput (b) over capacity of each door at each load: {name: [Estimate]}, the same requests everywhere."""
    curves = {}
    for name, _, door in _DOORS:
        outcomes = [through(load, seed, door(), runs=runs) for load in loads]
        curves[name] = [mean_replications(o.good / capacity()) for o in outcomes]
    return loads, curves


def doors() -> Still:
    """Goodput (b) against load for four doors."""
    loads, curves = door_curves()

    def picture(figure):
        ax = figure.subplots()
        ax.plot([0, 1, 2.05], [0, 1, 1], color=style.GREY, lw=1.2, ls=":")
        at = {"open door": (1.2, 0.12), "P99 < 0.8 SLO alone": (1.58, 0.22), "bucket, r = 0.9 C, B = 10": (1.53, 0.67),
              "fewer than 3 waiting": (1.33, 1.02)}  # fmt: skip
        for (name, colour, _), shift in zip(_DOORS, (-0.012, -0.004, 0.004, 0.012), strict=True):
            estimates = curves[name]
            x = np.array(loads) + shift  # side by side, or one interval hides the other
            ax.plot(x, [e.value for e in estimates], "o-", ms=5, lw=1.8, color=colour)
            ax.vlines(
                x,
                [max(0, e.low) for e in estimates],
                [e.high for e in estimates],
                color=colour,
                lw=4,
                alpha=0.4,
            )
            style.label(ax, *at[name], name, colour, va="bottom")
        ax.set(xlabel="load / capacity", ylabel="goodput (b) / capacity", xlim=(0.45, 2.05), ylim=(0, 1.12))
        ax.set_title(
            f"Good: first token within {TTFT_S:g} s. 8 runs of 2 minutes, the same requests for all,\n"
            "with 95% intervals. From load 1 on the open door is unstable. Dotted: the most there is"
        )

        def move(_):
            said = "; ".join(
                f"{name}: "
                + ", ".join(
                    f"{e.brief} at {load:g}"
                    for load, e in zip(loads, found, strict=True)
                    if load in (0.85, 1.3, 2.0)
                )
                for name, found in curves.items()
            )
            return f"Goodput over capacity against load for four doors. {said}."

        return [], move

    return Still(picture, None)


def good_share(load=1.3, seed=1) -> Estimate:
    """Per cent of the requests with their first token in time, at `load` times the capacity with an open door."""
    o = _open(load, seed)
    e = mean_replications(100 * o.good / o.offered)
    return replace(e, low=max(0.0, e.low))


def three_doors(load=1.3, seed=5, runs=8) -> Table:
    """What becomes of the same requests at one load: open door, thresholds of the source, and each alone."""
    every = Admission(max_waiting=3, max_kv_share=0.9, max_p99_ttft_s=0.8 * TTFT_S)
    cases = (
        ("open door", None),
        ("fewer than 3 waiting", Admission(max_waiting=3)),
        ("KV below 90%", Admission(max_kv_share=0.9)),
        ("P99 below 0.8 SLO", Admission(max_p99_ttft_s=0.8 * TTFT_S)),
        ("all three", every),
    )
    rows = []
    for name, door in cases:
        o = through(load, seed, door, runs=runs)
        rows.append((name, *(plus_minus(o.mean(column)) for column in ("admitted", "p99", "good"))))
    offered = plus_minus(through(load, seed, None, runs=runs).mean("offered"))
    return Table(
        ("door", "admitted (1/s)", "P99 TTFT (s)", "good (1/s)"),
        tuple(rows),
        f"{offered}/s come, {load:g} times the capacity of {capacity():.2f}/s. 95% intervals from {runs} runs of 2 minutes, "
        f"the same requests in all rows. SLO: {TTFT_S:g} s.",
    )


def bucket_hour(rate=0.0167, burst=20, seconds=3600) -> Table:
    """A token bucket with a request every second for an hour: who gets in, minute by minute."""
    arrival = np.arange(1.0, seconds + 1)
    inside = token_bucket(arrival, rate, burst)
    rows = [
        (f"first {t:,} s", int(inside[arrival <= t].sum()), f"{burst + rate * t:.1f}")
        for t in (10, 20, 60, 600, seconds)
    ]
    return Table(
        ("window", "admitted", "bound B + r t"),
        tuple(rows),
        f"r = {rate:g}/s, B = {burst}; a request every second. Counted: no intervals.",
    )


# -- in LLM serving ----------------------------------------------------------------------------------------

STEP_S, PREFILL_S = 0.015, 0.5


def freezes(rates=(0.5, 1.0), steps=40_000, runs=5) -> Table:
    """One long answer, 15 ms a token, while prompts of 0.5 s come: how many gaps they hit, and the P99 of the gaps."""
    machine = engine.Engine(step_s=STEP_S, per_prompt_token_s=PREFILL_S / 1000)
    rows = []
    for rate in rates:
        hit, p99, stall = [], [], []
        n = int(steps * (STEP_S + 0.03) * 2)
        for run in range(runs):
            unit = np.random.default_rng([23, run]).standard_exponential(n).cumsum()
            prompts, outputs = np.append(1, np.full(n, 1000)), np.append(steps + 1, np.ones(n, int))
            done = engine.run(np.append(0, unit / rate), prompts, outputs, machine)
            gap, count = done.gaps()
            hit.append(count[gap > 0.1].sum() / count.sum())
            p99.append(1e3 * done.gap_quantile(0.99))
            stall.append(1e3 * done.log.longest_gap[0])
        rows.append((f"{rate:g}/s", f"{-100 * math.expm1(-rate * STEP_S):.2f}%", _points_of(mean_replications(hit)),
                     plus_minus(mean_replications(p99)), plus_minus(mean_replications(stall))))  # fmt: skip
    return Table(
        ("prompts", "gaps hit", "simulated", "P99 (ms)", "longest (ms)"),
        tuple(rows),
        f"One answer of {steps:,} tokens, {1e3 * STEP_S:g} ms a step; a prompt takes {PREFILL_S:g} s. 95% intervals from "
        f"{runs} runs, the same unit arrivals.",
    )


def conversation() -> traces.Trace:
    """Azure's conversation trace of 2023, or a labelled synthetic stand-in where the file is not here."""
    path = course.data("azure_2023/AzureLLMInferenceTrace_conv.csv")
    if path:
        return traces.azure(path)
    rng, n = np.random.default_rng(2023), 19_366
    return traces.Trace(
        workload.poisson(rng, 5.53, n),
        np.ceil(rng.lognormal(np.log(1020), 0.9, n)).clip(1, 14_000),
        np.ceil(rng.lognormal(np.log(129), 1.0, n)).clip(1, 1000),
        "SYNTHETIC STAND-IN (Poisson, lognormal): get the real trace with `qlab data`",
    )
