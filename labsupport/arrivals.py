"""Lesson 00, arrivals: what one second looks like when only the average is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import special

from .lab import Explorer, Still, Table, slider, style
from .queueing import simulate, theory, workload
from .queueing.intervals import Estimate
from .queueing.requestlog import RequestLog
from .queueing.statistics import (
    attainment,
    index_of_dispersion,
    mean_batches,
    mean_replications,
    quantile_replications,
)
from .records import public

# -- counts -------------------------------------------------------------------------------------------


def probability(k, expected):
    """P(N = k) of a Poisson count whose mean is `expected` = arrival rate (1/s) * window (s) (Poisson, 1837)."""
    return np.exp(special.xlogy(k, expected) - expected - special.gammaln(np.asarray(k) + 1.0))


def tail(threshold, expected):
    """P(N > threshold) of a Poisson count whose mean is `expected`."""
    return special.pdtrc(threshold, expected)


def smallest_threshold(expected: float, share: float) -> int:
    """The budget for a window: smallest whole C with P(N > C) <= share, for a Poisson count.

    expected : mean count = arrival rate (1/s) * window (s), 0 or more; share : of the windows that may exceed C, in
    (0, 1). ValueError for others.
    """
    if not 0 <= expected < np.inf:
        raise ValueError(f"expected must be a finite count of 0 or more, got {expected!r}; give rate * window")
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, got {share!r}; give a share such as 0.01, not percent")
    reach = int(expected + 10 * np.sqrt(expected) + 20)
    while tail(reach, expected) > share:
        reach *= 2
    return int(np.argmax(tail(np.arange(reach + 1), expected) <= share))


_WINDOWS = 400


@lru_cache(maxsize=4)
def _unit_arrivals(seed: int, n: int) -> np.ndarray:
    """A Poisson process of rate 1; another rate or window only stretches it."""
    return np.cumsum(np.random.default_rng(seed).exponential(size=n))


def counts(rate: float, window_s: float, seed: int, windows: int = _WINDOWS) -> np.ndarray:
    """Arrivals in each of `windows` successive windows of one Poisson process."""
    expected = rate * window_s
    size = int(expected * windows + 10 * np.sqrt(expected * windows) + 100)
    times = _unit_arrivals(seed, 1 << size.bit_length())
    return np.diff(np.searchsorted(times, np.arange(windows + 1) * expected))


@dataclass(frozen=True)
class _Counts:
    expected: float
    threshold: int
    counts: np.ndarray

    @property
    def beyond(self) -> Estimate:
        """Share of the windows with more than `threshold` arrivals (Wilson's interval)."""
        within = attainment(self.counts.astype(float), self.threshold)
        return Estimate(
            1 - within.value, 1 - within.high, 1 - within.low, within.confidence, "windows", within.n
        )

    @property
    def mean(self) -> Estimate:
        return mean_replications(self.counts)  # windows of a Poisson process are independent

    @property
    def variance(self) -> Estimate:
        n = len(self.counts)
        return mean_replications((self.counts - self.counts.mean()) ** 2 * n / (n - 1))


def _counts_of(rate, window, threshold, seed) -> _Counts:
    return _Counts(rate * window, threshold, counts(rate, window, seed))


def _chance(p: float) -> str:
    """A probability in three digits; one that no run of a few hundred windows could show has none."""
    return f"= {p:.3g}" if 1e-4 <= p <= 0.9999 else "below 0.0001" if p < 0.5 else "above 0.9999"


_RIGHT = (10, 20, 50, 100, 200, 300, 600, 1200, 2500)  # ends of the axis, so that it jumps seldom


def _counts_picture(figure):
    ax = figure.subplots()
    style.room(figure, left=0.03)
    ax.set(xlabel="requests in one window", ylabel="probability, share of windows")
    bars = ax.fill_between([0, 1], [0, 1], step="mid", color=style.SKY, alpha=0.7, lw=0)
    curve = ax.plot([], [], color=style.BLUE, marker="o", ms=3, lw=1)[0]
    over = ax.fill_between([0, 1], [0, 1], step="mid", color=style.VERMILLION, alpha=0.8, lw=0)
    limit = ax.plot([], [], color=style.VERMILLION, ls="--", lw=1.8)[0]
    head = ax.set_title("\n ")
    risk = style.label(ax, 0.985, 0.93, "", style.VERMILLION, transform=ax.transAxes, ha="right")
    style.label(
        ax, 0.985, 0.80, f"bars: {_WINDOWS} simulated windows", style.BLUE, transform=ax.transAxes, ha="right"
    )
    style.label(ax, 0.985, 0.70, "dots: Poisson", style.BLUE, transform=ax.transAxes, ha="right")

    def move(r: _Counts) -> str:
        m = r.expected
        right = style.step_up(m + 4.5 * np.sqrt(m), _RIGHT)
        left = right * max(part for part in (0, 0.25, 0.5) if part * right <= max(0, m - 4.5 * np.sqrt(m)))
        # At most a hundred bars or so: wide windows are drawn in groups of whole counts.
        group = max(1, int((right - left) / 100))
        edges = np.arange(int(left), int(right) + group + 1, group) - 0.5
        share = np.histogram(r.counts, edges)[0] / len(r.counts) / group
        highest = max(1.25 * float(probability(np.floor(m), m)), 1.02 * share.max())
        top = style.step_up(highest, (0.02, 0.04, 0.06, 0.1, 0.2, 0.5, 1.0))
        style.limits(ax, (left - 0.5, right), (0, top))
        _columns(bars, edges, share)
        k = np.arange(int(left), int(right) + 1, group)
        p = probability(k, m)
        curve.set_data(k, p)
        past = k > r.threshold
        _columns(over, np.append(k[past] - group / 2, k[past][-1:] + group / 2), p[past])
        shown = left < r.threshold < right
        limit.set_data([r.threshold + 0.5] * 2 if shown else [], [0, top] if shown else [])
        chance, beyond, mean, variance = _chance(float(tail(r.threshold, m))), r.beyond, r.mean, r.variance
        head.set_text(f"mean = variance = λt = {m:.4g}\nsimulated: mean {mean.brief}, variance {variance.brief}")
        risk.set_text(f"P(N > {r.threshold}) {chance}; simulated {beyond.brief}")
        return (
            f"Requests in one window: Poisson with mean and variance {m:.4g}, over the counts of {_WINDOWS} simulated "
            f"windows with mean {mean.brief} and variance {variance.brief}. More than {r.threshold} come with probability "
            f"{chance.removeprefix('= ')}; simulated share {beyond}."
        )

    return [bars, over, curve, limit, head, risk], move


def _columns(patch, edges, heights):
    """Columns over `edges` (one more than `heights`) as one polygon."""
    if len(heights) == 0:
        patch.set_verts([np.zeros((1, 2))])
        return
    x, y = np.repeat(edges, 2), np.concatenate([[0], np.repeat(heights, 2), [0]])
    patch.set_verts([np.column_stack([x, y])])


def count(**setting) -> Explorer:
    """Explorer: how many requests come in one window, and how often more than a threshold."""
    controls = [
        slider("rate", "arrival rate λ", "requests/s", 1.0, 200.0, 100.0, per_decade=20),
        slider("window", "window t", "s", 0.1, 10.0, 1.0, per_decade=20),
        slider("threshold", "threshold C", "requests", 1, 2500, 120, per_decade=30),
    ]
    return Explorer("arrivals.count", controls, _counts_of, _counts_picture, sample=True, setting=setting)


# -- clumping -----------------------------------------------------------------------------------------

_SERVICE = 0.1  # s, as in the five requests of the lesson
_CUSTOMERS, _WARM_UP = 60_000, 5_000
_SHOWN = 40


@lru_cache(maxsize=8)
def _uniforms(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(_CUSTOMERS)


@lru_cache(maxsize=64)
def _unit_gaps(scv_: float, seed: int) -> np.ndarray:
    """Gaps of mean 1 with the wanted variability, from the same uniform numbers."""
    if scv_ == 0:
        return np.ones(_CUSTOMERS)
    # Exact quantiles would take a fifth of a second, which a slider cannot wait for.
    return np.interp(_uniforms(seed), workload.GRID, workload.gamma(1, scv_).ppf(workload.GRID))


@dataclass(frozen=True)
class _Clump:
    scv: float
    load: float
    log: RequestLog
    mean_wait: Estimate


def _clump_of(scv, load, seed) -> _Clump:
    arrival = np.cumsum(_unit_gaps(scv, seed)) * _SERVICE / load
    log = simulate.fcfs(arrival, np.full(_CUSTOMERS, _SERVICE))
    return _Clump(scv, load, log, _mean_wait(log.wait[_WARM_UP:], scv, load))


def _mean_wait(wait, scv, load) -> Estimate:
    """Mean of one run's waiting times (s), by batch means where a batch is long enough to forget the one before."""
    relaxation = 2 * (load / (1 - load)) ** 2 * scv  # requests, in heavy traffic (Abate and Whitt 1987)
    if len(wait) / 20 < 2 * relaxation:
        return Estimate(float(wait.mean()), reason=f"{_CUSTOMERS:,} requests are too few here")
    return mean_batches(wait, 20)


def _clump_picture(figure):
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2.6])
    style.room(figure)
    top.set(yticks=[], ylabel="arrivals")
    top.grid(False)
    bottom.set(xlabel="time (s)", ylabel="waiting time (ms)")
    ticks = top.vlines([0], 0, 1, color=style.INK, lw=1.6)
    waits = bottom.vlines([0], 0, 1, color=style.ORANGE, lw=4)
    head = top.set_title(" ")

    def move(r: _Clump) -> str:
        arrival, wait = r.log.arrival[:_SHOWN], 1000 * r.log.wait[:_SHOWN]
        arrival = arrival - arrival[0]
        end = style.step_up(arrival[-1] * 1.02, (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 50, 75, 100, 300))
        highest = style.step_up(1.1 * wait.max(), (100, 200, 400, 1000, 2000, 4000, 10_000))
        style.limits(bottom, (-0.01 * end, end), (0, highest))
        style.limits(top, (-0.01 * end, end), (0, 1))
        ticks.set_segments([[(x, 0.1), (x, 0.9)] for x in arrival])
        waits.set_segments([[(x, 0), (x, y)] for x, y in zip(arrival, wait, strict=True)])
        kind = {0: "clockwork", 1: "Poisson"}.get(
            r.scv, "more regular than Poisson" if r.scv < 1 else "bursts"
        )
        e = r.mean_wait
        low, high = (None, None) if e.low is None else (1000 * e.low, 1000 * e.high)
        mean = replace(e, value=1000 * e.value, low=low, high=high)
        said = "nobody waits, and nothing is random"
        if r.scv > 0:
            said = f"mean wait {mean.brief} ms" if e.low is not None else f"mean wait {mean.value:,.0f} ms ({e.reason})"
        if r.scv == 1:
            said += f"; M/D/1: {1000 * theory.MD1(r.load / _SERVICE, _SERVICE).mean_wait:.4g} ms"
        head.set_text(f"{kind}: {said}")
        how = "" if r.scv == 0 or e.low is None else " (95%, batch means)"
        return (
            f"The first {_SHOWN} arrivals at a rate of {r.load / _SERVICE:.3g}/s, {kind} (SCV {r.scv:g}), and the "
            f"waiting time of each at a server that needs {1000 * _SERVICE:.0f} ms. Over "
            f"{_CUSTOMERS:,} requests: {said}{how}."
        )

    return [ticks, waits, head], move


def clumping(**setting) -> Explorer:
    """Explorer: the same rate from clockwork over Poisson to bursts, and who waits for it."""
    scvs = (0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0,
            8.0, 10.0, 12.0, 16.0)  # fmt: skip
    controls = [
        slider("scv", "SCV of the gaps", "", scvs[0], scvs[-1], 1.0, values=scvs),
        slider("load", "utilisation ρ", "", 0.1, 0.95, 0.8, step=0.05),
    ]
    return Explorer(
        "arrivals.clumping", controls, _clump_of, _clump_picture, sample=True, size=(9, 4.6), setting=setting
    )


EXPLORERS = (count, clumping)


# -- five requests, check, break ----------------------------------------------------------------------


def five_requests() -> Table:
    """Five requests of 100 ms each at one server: evenly spaced, and all at once."""
    spaced = simulate.fcfs(np.arange(5) * _SERVICE, np.full(5, _SERVICE)).wait
    together = simulate.fcfs(np.zeros(5), np.full(5, _SERVICE)).wait
    rows = tuple(
        (f"{k + 1}", f"{1000 * a:.0f}", f"{1000 * b:.0f}")
        for k, (a, b) in enumerate(zip(spaced, together, strict=True))
    )
    head = ("request", "waiting time (ms), one every 100 ms", "waiting time (ms), all at once")
    return Table(
        head, rows, "One server, 100 ms of service each. Nothing is random, so there are no intervals."
    )


def md1_check(loads=(0.5, 0.7, 0.8, 0.9), replications=20, customers=60_000) -> Table:
    """M/D/1 with 10 requests/s of capacity: mean and P99 of the waiting time, simulated and exact."""
    rows = []
    for load in loads:
        model, runs = theory.MD1(load / _SERVICE, _SERVICE), []
        for seed in range(replications):
            rng = np.random.default_rng(seed)  # the same unit random numbers at every load
            arrival = workload.poisson(rng, load / _SERVICE, customers)
            runs.append(1000 * simulate.fcfs(arrival, np.full(customers, _SERVICE)).wait[customers // 10 :])
        mean, p99 = mean_replications([r.mean() for r in runs]), quantile_replications(runs, 0.99)
        rows.append(
            (f"{load:g}", mean.brief, 1000 * model.mean_wait, p99.brief, 1000 * model.wait_quantile(0.99))
        )
    caption = (
        f"Waiting time in ms; 95% intervals from {replications} runs of {customers:,} requests, the first tenth left out; "
        "common random numbers at all loads."
    )
    return Table(
        ("utilisation", "mean, simulated", "mean, exact", "P99, simulated", "P99, exact"),
        tuple(rows),
        caption,
    )


def against_poisson() -> Table:
    """Break it: requests per second in real traces, against a Poisson process of the same rate."""
    rows = []
    traces = {"conversation": public.conversation(), "code": public.code()}
    for name, trace in traces.items():
        per_second = np.bincount(trace.arrival.astype(int))[: int(trace.arrival[-1])]
        m = per_second.mean()
        limit = smallest_threshold(m, 0.01)
        dispersion = (index_of_dispersion(trace.arrival, window) for window in (1.0, 60.0))
        rows.append((name, m, *dispersion, limit, f"{(per_second > limit).mean():.1%}"))
    head = ("trace", "mean per second", "variance / mean, 1 s", "variance / mean, 60 s", "C for 1%", "seconds above C")
    caption = f"{public.names(*traces.values())}. Whole traces, counted: no intervals. Poisson: variance / mean = 1."
    return Table(head, tuple(rows), caption)


def not_the_queue(rate=100.0, capacities=(105, 110, 120, 124, 140), replications=10, seconds=2000) -> Table:
    """Break it: P(N > C) beside what a queue really does that serves C requests/s, one after the other."""
    rows = []
    for capacity in capacities:
        share, p99 = [], []
        for seed in range(replications):
            arrival = workload.poisson(np.random.default_rng(seed), rate, int(rate * seconds))
            wait = simulate.fcfs(arrival, np.full(len(arrival), 1 / capacity)).wait[len(arrival) // 10 :]
            share.append((wait > 0).mean())
            p99.append(wait)
        p99 = quantile_replications([1000 * w for w in p99], 0.99)
        rows.append((capacity, f"{100 * tail(capacity, rate):.3g}%", mean_replications(share).brief, p99.brief))
    caption = f"Poisson, {rate:g} requests/s; 95% intervals from {replications} runs; common random numbers in all rows."
    head = (
        "capacity C (requests/s)",
        "P(N > C in one second)",
        "share that waits, simulated",
        "P99 wait (ms), simulated",
    )
    return Table(head, tuple(rows), caption)


def first_token(rate=8.0, service_s=0.1, prefill_s=0.1) -> Still:
    """In LLM serving: time to first token = waiting time + prefill, against the arrival rate (M/D/1)."""
    rates = np.linspace(0.1, 0.985 / service_s, 200)

    def picture(figure):
        ax = figure.subplots()
        wait = np.array([theory.MD1(r, service_s).mean_wait for r in rates])
        ax.fill_between(rates, 0, 1000 * prefill_s * np.ones_like(rates), color=style.SKY, alpha=0.6, lw=0)
        ax.fill_between(
            rates, 1000 * prefill_s, 1000 * (prefill_s + wait), color=style.ORANGE, alpha=0.6, lw=0
        )
        here = 1000 * (theory.MD1(rate, service_s).mean_wait + prefill_s)
        ax.plot([rate], [here], "o", color=style.INK, ms=9)
        style.label(ax, rate - 0.15, here + 25, f"{rate:g}/s: {here:.0f} ms", ha="right")
        style.label(ax, 0.3, 1000 * prefill_s / 2, "prefill", style.BLUE, va="center")
        style.label(ax, 6.2, 1000 * prefill_s + 22, "waiting time", style.BROWN, va="bottom")
        ax.set(xlim=(0, 10), ylim=(0, 1000), xlabel="arrival rate λ (requests/s)", ylabel="mean TTFT (ms)")

        def move(_):
            return (
                f"Mean time to first token against the arrival rate: prefill of {1000 * prefill_s:.0f} ms plus the mean "
                f"M/D/1 waiting time at a capacity of {1 / service_s:g} requests per second. At {rate:g}/s: {here:.0f} ms."
            )

        return [], move

    return Still(picture, None)
