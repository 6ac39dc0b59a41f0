"""Lesson 09, sample size: how far a P99 moves when the test is repeated, what correlated waits are worth, A against B."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .lab import Explorer, Still, Table, choice, slider, style
from .lab.table import plus_minus
from .queueing import simulate, statistics, theory, workload
from .queueing.statistics import (
    Estimate,
    mean_batches,
    mean_replications,
    paired,
    quantile_replications,
    unpaired,
)
from .records import traces
from .records.public import conversation  # noqa: F401  (the lesson calls it by this module's name)

# -- one test, repeated: independent response times -------------------------------------------------------

PERCENTILES = {"P50": 0.5, "P90": 0.9, "P95": 0.95, "P99": 0.99, "P99.9": 0.999}


@dataclass(frozen=True)
class Tests:
    """A test of n independent requests, repeated: what each repetition says about the p-quantile.

    truth : the true quantile, in mean response times. estimates, low, high : (repetitions,), relative to the truth (1 is
    right); low and high are None where n is too small for any distribution-free 95% interval.
    formula : relative standard deviation of the estimate for large n.
    """

    n: int
    p: float
    truth: float
    formula: float
    estimates: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None

    @property
    def spread(self) -> Estimate:
        """Relative standard deviation of the estimates, with an interval from that of the squared deviations."""
        e = mean_replications((self.estimates - self.estimates.mean()) ** 2)
        return Estimate(*(math.sqrt(max(x, 0)) for x in (e.value, e.low, e.high)), method=e.method, n=e.n)

    @property
    def spread_percent(self) -> Estimate:
        """`spread` in per cent."""
        e = self.spread
        return Estimate(100 * e.value, 100 * e.low, 100 * e.high, method=e.method, n=e.n)

    @property
    def bias(self) -> Estimate:
        """Mean of the estimates over the truth, minus 1."""
        return mean_replications(self.estimates - 1)

    @property
    def covered(self) -> np.ndarray | None:
        """Which intervals hold the truth."""
        return None if self.low is None else (self.low <= 1) & (self.high >= 1)


@lru_cache(maxsize=256)
def _ranks(n: int, p: float) -> tuple[float, Estimate]:
    """The interval for the p-quantile of the values 1, 2, …, n: its ends are ranks."""
    return statistics.quantile(np.arange(1.0, n + 1), p)


def _uniform_order_statistics(n: int, ranks: list[int], u: np.ndarray) -> dict[int, np.ndarray]:
    """The values of these ranks (rising) among n uniform numbers, for each column of u (len(ranks), repetitions).

    The largest asked for is beta distributed, and each lower one is a beta distributed share of the one above it
    (David and Nagaraja, Order Statistics, 2003, ch. 2). So a test of a million requests costs no more than one of fifty.
    """
    from scipy.special import betaincinv

    values, above, top = {}, n + 1, 1.0
    for rank, row in zip(reversed(ranks), u, strict=False):
        top = top * betaincinv(rank, above - rank, row)
        values[rank], above = top, rank
    return values


def repeat_test(n: int, p: float, cv: float, u: np.ndarray) -> Tests:
    """Tests of n requests with lognormal response times of mean 1 and coefficient of variation `cv`.

    u : (4, repetitions) uniform numbers; the same ones with another n, p or cv are common random numbers.
    The estimate is numpy's quantile of the n values, the interval that of `statistics.quantile`.
    """
    from scipy.special import ndtri

    law, e = workload.lognormal(1.0, cv * cv), _ranks(n, p)
    truth = float(law.ppf(p))
    at = e.value  # the rank that numpy's quantile interpolates at
    below, above = math.floor(at + 1e-9), min(math.floor(at + 1e-9) + 1, n)
    wanted = {below, above} if e.low is None else {int(e.low), below, above, int(e.high)}
    found = _uniform_order_statistics(n, sorted(wanted), u)
    values = {rank: law.ppf(np.minimum(v, 1 - 1e-16)) / truth for rank, v in found.items()}
    estimates = values[below] + (at - below) * (values[above] - values[below])
    low, high = (None, None) if e.low is None else (values[int(e.low)], values[int(e.high)])
    density = math.exp(-0.5 * float(ndtri(p)) ** 2) / math.sqrt(
        2 * math.pi * math.log1p(cv * cv)
    )  # truth * pdf
    return Tests(n, p, truth, math.sqrt(p * (1 - p) / n) / density, estimates, low, high)


# -- explorer: P99 of n -----------------------------------------------------------------------------------

_REPETITIONS = 1000
_SHOWN = 30  # of them, with their intervals


@dataclass(frozen=True)
class _P99:
    name: str
    cv: float
    tests: Tests


def _p99_of(n, cv, percentile, seed) -> _P99:
    u = np.random.default_rng([9, seed]).random((4, _REPETITIONS))
    return _P99(percentile, cv, repeat_test(n, PERCENTILES[percentile], cv, u))


def _percent(e: Estimate, digits=2) -> str:
    """An estimate of a share as `+1.2% [-0.3, +2.7]`."""
    ends = [100 * x for x in (e.value, e.low, e.high)]
    width = ends[2] - ends[1]
    if width < 1e-9:  # no spread, so no interval
        return f"{ends[0]:.3g}% each time"
    decimals = max(0, digits - 1 - math.floor(math.log10(width)))
    value, low, high = (f"{x:+.{decimals}f}" for x in ends)
    return f"{value}% [{low}, {high}]"


def _count(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def _p99_picture(figure):
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.15))
    figure.get_layout_engine().set(rect=(0.01, 0, 0.975, 1))
    top.set(ylim=(0, 1.6), yticks=[])
    top.set_ylabel("tests", labelpad=12)
    bottom.set(ylim=(_SHOWN, -1), yticks=[], xlabel="error of the measured percentile (% of the true one)")
    bottom.set_ylabel(f"{_SHOWN} of them", labelpad=12)
    bars = top.stairs([0], [0, 1], fill=True, color=style.SKY)
    middle = top.plot([], [], color=style.BLUE, lw=5, solid_capstyle="butt")[0]
    words = style.label(top, 0.99, 0.99, "", style.BLUE, transform=top.transAxes, ha="right", va="top")
    for ax in (top, bottom):
        ax.axvline(0, color=style.INK, ls="--", lw=1.5)
    hit = bottom.hlines([0], [0], [0], color=style.BLUE, lw=2)
    missed = bottom.hlines([0], [0], [0], color=style.VERMILLION, lw=3)
    points = bottom.plot([], [], "o", ms=4.5, color=style.INK)[0]
    none = style.label(
        bottom, 0.99, 0.5, "", style.VERMILLION, transform=bottom.transAxes, ha="right", va="center"
    )
    title = top.set_title("\n ")
    rows = np.arange(_SHOWN)

    def move(r: _P99) -> str:
        t = r.tests
        error = 100 * (t.estimates - 1)
        low, high = np.quantile(error, (0.025, 0.975))
        least, most = np.quantile(error, (0.005, 0.995))
        if t.low is not None:
            most = max(most, 100 * (np.median(t.high) - 1))
        limit = style.step_up(max(-least, most), (0.2, 0.5, 2, 5, 20, 50, 100, 150, 200, 500, 2000))
        left = -min(limit, 100)
        if bottom.get_xlim() != (left, limit):
            bottom.set_xlim(left, limit)
        counts, edges = np.histogram(error, np.linspace(left, limit, 61))
        bars.set_data(counts / counts.max(), edges)
        middle.set_data([low, high], [1.12, 1.12])
        words.set_text(f"95% of the tests: {low:+.3g}% to {high:+.3g}%")
        points.set_data(error[:_SHOWN], rows)
        if t.low is None:
            needed = statistics.smallest_n_for_quantile(t.p)
            segments, ok = np.zeros((_SHOWN, 2, 2)), np.ones(_SHOWN, bool)
            segments[:, :, 0] = 1e9
            said = f"no 95% interval exists for {r.name}:\nn = {t.n:,} is below {needed:,}"
            covered = f"No distribution-free 95% interval exists: {t.n:,} requests are fewer than {needed:,}."
        else:
            ends = [100 * (x[:_SHOWN] - 1) for x in (t.low, t.high)]
            segments = np.stack([np.column_stack([end, rows]) for end in ends], axis=1)
            ok, said = t.covered[:_SHOWN], ""
            covered = (
                f"{_SHOWN - ok.sum()} of {_SHOWN} intervals drawn, and {(~t.covered).sum()} of all {_REPETITIONS:,}, "
                "miss the true value."
            )
        hit.set_segments(segments[ok])
        missed.set_segments(segments[~ok])
        none.set_text(said)
        spread = f"sd {t.spread_percent.value:.3g}% [{t.spread_percent.low:.3g}, {t.spread_percent.high:.3g}]"
        above = _count(t.n * (1 - t.p))
        title.set_text(
            f"True {r.name}: {t.truth:.3g} × the mean. {_REPETITIONS:,} tests of {t.n:,} requests, "
            f"≈ {above} of them above it:\n{spread} (formula {100 * t.formula:.3g}%), bias {_percent(t.bias)}"
        )
        return (
            f"Distribution of the measured {r.name} in {_REPETITIONS:,} tests of {t.n:,} independent requests, lognormal, "
            f"CV {r.cv:g}. The true value is {t.truth:.3g} times the mean. Relative {spread}, by the "
            f"formula for large n {100 * t.formula:.3g}%; bias {_percent(t.bias)}; 95% of the tests are off by "
            f"{low:+.3g}% to {high:+.3g}%. {covered}"
        )

    return [bars, middle, words, hit, missed, points, none, title], move


def p99(**setting) -> Explorer:
    """Explorer: a test of n requests, repeated: how far its percentile moves, and what its interval is worth."""
    controls = [
        slider("n", "requests n", "", 50, 1_000_000, 500, per_decade=10),
        slider("cv", "tail: CV of the response", "", 0.25, 4.0, 2.0, step=0.25),
        choice("percentile", "percentile", list(PERCENTILES), "P99"),
    ]
    return Explorer(
        "sample_size.p99", controls, _p99_of, _p99_picture, sample=True, size=(9, 4.8), setting=setting
    )


# -- many M/M/1 runs at once --------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _units(seed: int, part: int, runs: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit gaps and services (runs, n + 1) and one uniform per run."""
    rng = np.random.default_rng([seed, part])
    gaps, services = rng.standard_exponential((2, runs, n + 1))
    return gaps, services, rng.random(runs)


def steady_waits(utilisation: float, units, n: int, service_mean=1.0) -> np.ndarray:
    """Waiting times (runs, n) of M/M/1 runs that begin in their steady state, from `_units`.

    `utilisation` is the arrival rate; with another `service_mean` the load is their product. Before each run comes one
    request whose response time has its long-run law, so the waits have theirs from the first one on: no warm-up.
    """
    gaps, services, u = units
    gaps, services = gaps[:, : n + 1] / utilisation, services[:, : n + 1] * service_mean
    services[:, 0] = -np.log1p(-u) / (1 / service_mean - utilisation)
    return simulate.fcfs_waits(gaps, services)[:, 1:]


# -- explorer: correlated -----------------------------------------------------------------------------------

_RUNS = 10
_LONGEST = 100_000


def as_if_independent(series: np.ndarray) -> Estimate:
    """The textbook interval mean ± t s / sqrt(n): right for independent values, far too short for waits in a row."""
    e = mean_replications(series)
    return Estimate(e.value, e.low, e.high, e.confidence, "values, taken as independent", e.n)


def by_effective_size(series: np.ndarray, time: float) -> Estimate:
    """Mean with a normal interval for len(series) / time independent values; time: integrated autocorrelation time."""
    worth = len(series) / time
    half = 1.96 * series.std() / math.sqrt(worth)
    mean = float(series.mean())
    return Estimate(mean, mean - half, mean + half, 0.95, "effective values", round(worth))


@dataclass(frozen=True)
class _Correlated:
    utilisation: float
    n: int
    lags: np.ndarray
    autocorrelation: np.ndarray
    time: float  # integrated autocorrelation time by the formula, requests
    measured: float  # ... and as the run itself says
    truth: float
    intervals: dict[str, Estimate]


_LAGS = np.unique(np.geomspace(1, 10_000, 120).astype(int))


def _correlated_run(utilisation, n, batches, seed) -> _Correlated:
    waits = steady_waits(utilisation, _units(seed, 0, _RUNS, _LONGEST), n)
    first = waits[0]
    if first.max() == 0:
        raise ValueError(
            "nobody waited in this run; choose a higher utilisation, a longer run or another sample."
        )
    lags = _LAGS[_LAGS < n // 2]
    measured = statistics.integrated_autocorrelation_time(first)
    intervals = {
        "as if independent": as_if_independent(first),
        f"{batches} batch means": mean_batches(first, batches),
        "effective sample": by_effective_size(first, measured),
        f"{_RUNS} runs this long": mean_replications(waits.mean(axis=1)),
    }
    return _Correlated(
        utilisation,
        n,
        lags,
        statistics.autocorrelation(first, int(lags[-1]))[lags],
        float(theory.mm1_wait_autocorrelation_time(utilisation)),
        measured,
        theory.MM1(utilisation, 1.0).mean_wait,
        intervals,
    )


def _correlated_picture(figure):
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    left.set(xscale="log", xlim=(1, 10_000), ylim=(-0.5, 1.05))
    left.set(xlabel="lag k (requests apart)", ylabel="autocorrelation of the waits")
    left.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    left.minorticks_off()
    left.axhline(0, color=style.GREY, lw=1)
    curve = left.plot([], [], color=style.BLUE)[0]
    mark = left.plot([], [], color=style.PURPLE, ls=":")[0]
    tau = style.label(left, 1, 0.98, "", style.PURPLE, va="top")
    right.set(ylim=(3.6, -0.75), yticks=[], xlabel="mean wait (% off the true mean)")
    right.vlines(np.zeros(4), np.arange(4) - 0.14, np.arange(4) + 0.14, color=style.INK, lw=2)
    colours = (style.VERMILLION, style.BLUE, style.PURPLE, style.GREEN)
    lines = [right.plot([], [], color=c, lw=5, solid_capstyle="butt")[0] for c in colours]
    points = [right.plot([], [], "o", ms=5, color=style.INK)[0] for _ in colours]
    names = [style.label(right, 0.01, y - 0.22, "", c, transform=right.get_yaxis_transform(), va="bottom", fontsize=12)
             for y, c in enumerate(colours)]  # fmt: skip
    heads = left.set_title("\n "), right.set_title("\n ")

    def move(r: _Correlated) -> str:
        curve.set_data(r.lags, r.autocorrelation)
        mark.set_data([r.time] * 2, [-0.5, 1.05])
        near = r.time > 100
        tau.set(
            x=r.time * (0.85 if near else 1.2), ha="right" if near else "left", text=f"τ = {_count(r.time)}"
        )
        error = {
            k: [100 * (x / r.truth - 1) for x in (e.low, e.value, e.high)] for k, e in r.intervals.items()
        }
        limit = style.step_up(
            max(abs(x) for ends in error.values() for x in ends), (5, 20, 60, 150, 400, 1500)
        )
        if right.get_xlim() != (-limit, limit):
            right.set_xlim(-limit, limit)
        said = []
        for y, ((name, e), line, point, label) in enumerate(
            zip(r.intervals.items(), lines, points, names, strict=True)
        ):
            low, value, high = error[name]
            line.set_data([low, high], [y, y])
            point.set_data([value], [y])
            verdict = "" if e.covers(r.truth) else "  – misses"
            label.set_text(f"{name}: {e.brief}{verdict}")
            said.append(f"{name} {e.brief}{', which misses it' if verdict else ''}")
        worth, here = r.n / r.time, r.n / r.measured
        heads[0].set_text(
            f"{r.n:,} waits in a row are worth\n{_count(worth)} (n/τ; this run says {_count(here)})"
        )
        heads[1].set_text(
            f"Four 95% intervals from one sample\n| the true mean wait, {r.truth:.4g} service times"
        )
        return (
            f"M/M/1 at utilisation {r.utilisation:g}, {r.n:,} waits in a row. Left, their autocorrelation against the lag: "
            f"{r.autocorrelation[0]:.2f} between neighbours. The integrated autocorrelation time is {_count(r.time)} "
            f"requests, so the run is worth {_count(worth)} independent waits; by its own estimate {_count(here)}. Right, "
            f"95% intervals for the mean wait, truly {r.truth:.4g} service times: {'; '.join(said)}."
        )

    return [curve, mark, tau, *lines, *points, *names, *heads], move


def correlated(**setting) -> Explorer:
    """Explorer: how far apart two waits must be to be independent, and four intervals for the mean wait."""
    controls = [
        slider("utilisation", "utilisation ρ", "", 0.1, 0.95, 0.9, step=0.05),
        slider("n", "waits in a row", "", 1000, _LONGEST, 33_000, per_decade=10),
        slider("batches", "batches", "", 5, 100, 20, step=5),
    ]
    return Explorer(
        "sample_size.correlated", controls, _correlated_run, _correlated_picture, sample=True, size=(9, 4.4),
        setting=setting,
    )  # fmt: skip


# -- explorer: A against B ----------------------------------------------------------------------------------

_PAIRS = 100
_MOST = 10_000


def mean_responses(utilisation: float, speed_up: float, n: int, units) -> np.ndarray:
    """Mean response time of each run, for a service `speed_up` (0.01: 1%) shorter than 1 at arrival rate `utilisation`."""
    service = 1 - speed_up
    return steady_waits(utilisation, units, n, service).mean(axis=1) + service * units[1][:, 1 : n + 1].mean(
        axis=1
    )


def true_change(utilisation: float, speed_up: float) -> float:
    """Long-run change of the mean response time, relative to A's: -0.048 for 1% shorter services at 80%."""
    a = theory.MM1(utilisation, 1.0).mean_response
    return theory.MM1(utilisation, 1 - speed_up).mean_response / a - 1


@dataclass(frozen=True)
class Comparison:
    """Pairs of runs of A and B: `common` ones share their random numbers, `independent` ones don't.

    Changes are B - A of the mean response time, relative to A's long-run mean; `truth` is the long-run change.
    """

    speed_up: float
    n: int
    utilisation: float
    truth: float
    common: np.ndarray
    independent: np.ndarray
    common_change: Estimate
    independent_change: Estimate
    shown: bool = True  # whether the common ones are in the foreground

    @property
    def gain(self) -> float:
        """How many times the variance of a difference falls with common random numbers."""
        spread = self.common.var()
        return math.inf if spread == 0 else float(self.independent.var() / spread)


@lru_cache(maxsize=8)
def _runs_of_a(utilisation, n, seed, pairs):
    return mean_responses(utilisation, 0.0, n, _units(seed, 1, pairs, max(n, _MOST)))


def compare(speed_up, n, utilisation, seed, pairs=_PAIRS, shown=True) -> Comparison:
    """A against B, whose services are shorter by the share `speed_up`: `pairs` runs of n requests each, both ways."""
    truth = theory.MM1(utilisation, 1.0).mean_response
    a = _runs_of_a(utilisation, n, seed, pairs) / truth
    same, other = (
        mean_responses(utilisation, speed_up, n, _units(seed, part, pairs, max(n, _MOST))) / truth
        for part in (1, 2)
    )
    change = true_change(utilisation, speed_up)
    return Comparison(
        speed_up, n, utilisation, change, same - a, other - a, paired(a, same), unpaired(a, other), shown
    )


def _compare_at(speed_up, n, utilisation, common, seed) -> Comparison:
    return compare(speed_up / 100, n, utilisation, seed, shown=common)


def _faster(changes: np.ndarray) -> str:
    return f"B is faster in {(changes < 0).sum()} of {len(changes)}"


def _a_against_b_picture(figure):
    ax = figure.subplots()
    figure.get_layout_engine().set(rect=(0.01, 0, 0.975, 1))  # room for the longest labels of the ends
    ax.set(ylim=(0, 1.6), yticks=[], xlabel="B − A, mean response time (% of A's long-run mean)")
    ax.set_ylabel("pairs of runs", labelpad=12)
    ghost = ax.stairs([0], [0, 1], color=style.GREY, lw=1.4)
    bars = ax.stairs([0], [0, 1], fill=True, color=style.SKY)
    ax.axvline(0, color=style.INK, lw=1.5)
    true = ax.plot([], [], color=style.GREEN, ls="--")[0]
    interval = ax.plot([], [], color=style.BLUE, lw=5, solid_capstyle="butt")[0]
    notes = [
        style.label(ax, 0.01, y, text, colour, transform=ax.transAxes, va="top")
        for y, text, colour in (
            (0.97, "dashed: true change", style.GREEN),
            (0.89, "bar: 95% interval of the mean", style.BLUE),
            (0.81, "", style.GREY),
        )
    ]
    style.label(ax, 0.99, 0.97, "B slower →", transform=ax.transAxes, ha="right", va="top")
    title = ax.set_title("\n ")

    def move(c: Comparison) -> str:
        mine, other = (c.common, c.independent) if c.shown else (c.independent, c.common)
        e = c.common_change if c.shown else c.independent_change
        limit = style.step_up(100 * np.abs(c.independent).max(), (3, 6, 10, 20, 40, 80, 150, 300, 600, 1500))
        if ax.get_xlim() != (-limit, limit):
            ax.set_xlim(-limit, limit)
        for patch, values in ((bars, mine), (ghost, other)):
            counts, edges = np.histogram(100 * values, np.linspace(-limit, limit, 62))
            patch.set_data(counts / counts.max(), edges)
        true.set_data([100 * c.truth] * 2, [0, 1])
        interval.set_data([100 * e.low, 100 * e.high], [1.08, 1.08])
        way = "The same requests for A and B" if c.shown else "Different requests for A and B"
        rest = "different requests" if c.shown else "the same requests"
        notes[2].set_text(f"grey outline: {rest}")
        title.set_text(
            f"{way}, {len(mine)} pairs: {_faster(mine)}\n"
            f"mean change {_percent(e)}; true change {100 * c.truth:+.2f}%"
        )
        gain = f" The same requests make the variance of a difference {c.gain:,.3g} times smaller."
        gain = "" if math.isinf(c.gain) else gain
        return (
            f"Histogram of {len(mine)} differences in mean response time, B minus A, {c.n:,} requests per run at "
            f"utilisation {c.utilisation:g}; B's service times are {100 * c.speed_up:g}% shorter. {way}: "
            f"{_faster(mine)}; mean change {_percent(e)} (95% interval in brackets), "
            f"true change {100 * c.truth:+.2f}%. With {rest}: {_faster(other)}.{gain}"
        )

    return [ghost, bars, true, interval, notes[2], title], move


def a_against_b(**setting) -> Explorer:
    """Explorer: the difference of two systems, run by run, with and without common random numbers."""
    controls = [
        slider("speed_up", "B's service shorter by", "%", 0.0, 10.0, 1.0, step=0.5),
        slider("n", "requests per run", "", 500, _MOST, 5000, per_decade=10),
        slider("utilisation", "utilisation of A", "", 0.3, 0.95, 0.8, step=0.05),
        choice("common", "A and B get", {"different requests": False, "the same requests": True}),
    ]
    return Explorer(
        "sample_size.a_against_b", controls, _compare_at, _a_against_b_picture, sample=True, setting=setting
    )


EXPLORERS = (p99, correlated, a_against_b)

# -- check it -------------------------------------------------------------------------------------------------


def _share(kept) -> str:
    """`93% [88, 96]`: a share of repetitions with its Wilson interval."""
    from scipy.stats import binomtest

    kept = np.asarray(kept)
    ends = binomtest(int(kept.sum()), len(kept)).proportion_ci(method="wilson")
    return f"{kept.mean():.0%} [{100 * ends.low:.0f}, {100 * ends.high:.0f}]"


def spread_of_p99(sizes=(100, 500, 1000, 10_000, 100_000), cv=2.0, repetitions=4000, seed=1) -> Table:
    """Relative standard deviation of a measured P99: simulated and by the formula for large n."""
    u = np.random.default_rng(seed).random((4, repetitions))
    rows = []
    for n in sizes:
        t = repeat_test(n, 0.99, cv, u)
        sd = plus_minus(t.spread_percent)
        rows.append((f"{n:,}", f"{n / 100:,.0f}", sd, f"{100 * t.formula:.3g}", _percent(t.bias, 1)))
    return Table(
        ("n", "above P99", "sd, %", "formula, %", "bias"),
        tuple(rows),
        f"Lognormal response times, CV {cv:g}. 95% intervals from {repetitions:,} repetitions, with the same random numbers "
        "in each row.",
    )


def intervals_for_p99(n=2000, cv=2.0, repetitions=200, resamples=200, seed=2) -> Table:
    """Three intervals for P99 of n independent values: how often they hold the true one, and how long they are."""
    law, rng = workload.lognormal(1.0, cv * cv), np.random.default_rng(seed)
    truth = float(law.ppf(0.99))
    made = {"order statistics": [], "bootstrap, percentile": [], "P99 ± 1.96 s/√n (wrong)": []}
    for _ in range(repetitions):
        x = law.sample(rng, n)
        made["order statistics"].append(statistics.quantile(x, 0.99))
        made["bootstrap, percentile"].append(statistics.bootstrap(x, _p99_along, rng, resamples=resamples))
        value, half = float(np.quantile(x, 0.99)), 1.96 * float(x.std()) / math.sqrt(n)
        made["P99 ± 1.96 s/√n (wrong)"].append(Estimate(value, value - half, value + half))
    rows = []
    for name, intervals in made.items():
        width = mean_replications([100 * (e.high - e.low) / truth for e in intervals])
        rows.append((name, _share([e.covers(truth) for e in intervals]), width.brief))
    return Table(
        ("95% interval", "holds the true P99 in", "its length, % of the true P99"),
        tuple(rows),
        f"{repetitions} tests of {n:,} independent requests, lognormal, CV {cv:g}, the same values for each method.",
    )


def _p99_along(values, axis=-1):
    return np.quantile(values, 0.99, axis=axis)


def how_long(p=0.999, rate=50.0, above=100, tau=1.0) -> Table:
    """How many requests a p-quantile needs, and how long a test at `rate` requests/s takes to send them.

    above : requests wanted above the quantile (with 100 its standard deviation is a few per cent); tau : integrated
    autocorrelation time in requests, 1 where they do not disturb each other. The time comes after the warm-up. The first
    row is the least for any distribution-free 95% interval (David and Nagaraja, 2003).
    """
    if not (0 < p < 1 and rate > 0 and above > 0 and tau >= 1):
        raise ValueError(f"p = {p!r} must lie between 0 and 1, rate = {rate!r} and above = {above!r} above 0, "
                         f"tau = {tau!r} at least 1.")  # fmt: skip
    needs = (
        ("any 95% interval", statistics.smallest_n_for_quantile(p)),
        (f"{above:g} requests above it", math.ceil(round(above / (1 - p), 6))),
    )
    rows = []
    for what, n in needs:
        sent = math.ceil(n * tau)
        minutes = sent / rate / 60
        longer = f"{minutes:.3g} min" if minutes < 120 else f"{minutes / 60:,.0f} h"
        rows.append((what, f"{n:,}", f"{sent:,}", f"{sent / rate:,.0f} s = {longer}"))
    return Table(
        ("for", "independent requests", "in a row", f"at {rate:g}/s"),
        tuple(rows),
        f"P{100 * p:g}; τ = {tau:g}: a request in a row is worth 1/τ. Counted: no intervals.",
    )


def mlperf(rate=50.0) -> Table:
    """How many queries MLPerf Inference asks for, and how long that takes at `rate` requests/s."""
    rows = []
    for p in (0.90, 0.95, 0.97, 0.99):
        exact, rounded = statistics.mlperf_query_count(p, multiple=1), statistics.mlperf_query_count(p)
        rows.append(
            (
                f"P{100 * p:.0f}",
                f"{exact:,}",
                f"{rounded:,}",
                f"{rounded * (1 - p):,.0f}",
                f"{rounded / rate / 60:.0f} min",
            )
        )
    return Table(
        ("percentile", "queries", "rounded up to 8,192s", "of them above it", f"at {rate:g}/s"),
        tuple(rows),
        "For 99% confidence that the share of late queries is known to (1 − p)/20. No intervals: formula.",
    )


# -- break it: waits in a row -----------------------------------------------------------------------------------

METHODS = ("waits as independent*", "10 batches", "50 batches", "10 such runs")


def cover(method: str, waits: np.ndarray, p: float | None, rng, resamples=200) -> Estimate:
    """The 95% interval of one of METHODS for the mean wait (p None) or its p-quantile; waits (runs, n).

    All but the last method use the first run alone. For a quantile the batches give the spread and the whole run the
    value ("sectioning", Asmussen and Glynn, Stochastic Simulation, 2007, ch. 3): a short batch's own P99 is too low.
    """
    if method == METHODS[0]:
        if p is None:
            return statistics.bootstrap(waits[0], np.mean, rng, resamples=resamples)
        return statistics.quantile(waits[0], p)
    if method == METHODS[3]:
        return mean_replications(waits.mean(axis=1)) if p is None else quantile_replications(waits, p)
    batches = int(method.split()[0])
    if p is None:
        return mean_batches(waits[0], batches)
    sections = waits[0, waits.shape[1] % batches :].reshape(batches, -1)
    value, half = float(np.quantile(waits[0], p)), quantile_replications(sections, p).half_width
    return Estimate(value, value - half, value + half, method="sections", n=batches)


def coverage(utilisation=0.9, n=33_000, repetitions=60, seed=1) -> Table:
    """How often four 95% intervals hold the true mean wait and its true P99; shows a progress bar while it works.

    Each repetition is 10 runs of n waits from an empty M/M/1 queue, as a real test begins.
    """
    import ipywidgets as widgets
    from IPython.display import display

    queue = theory.MM1(utilisation, 1.0)
    truths = {None: queue.mean_wait, 0.99: queue.wait_quantile(0.99)}
    bar = widgets.IntProgress(
        max=repetitions,
        description="repetitions",
        style={"description_width": "initial"},
        tooltip="repetitions done",
    )
    display(bar)
    made = {(method, p): [] for method in METHODS for p in truths}
    try:
        for repetition in range(repetitions):
            rng = np.random.default_rng([seed, repetition])
            gaps, services = rng.standard_exponential((2, 10, n))
            waits = simulate.fcfs_waits(gaps / utilisation, services)
            for (method, p), found in made.items():
                found.append(cover(method, waits, p, rng))
            bar.value += 1
    except KeyboardInterrupt:  # what is done counts
        if not bar.value:
            raise
        made = {key: found[: bar.value] for key, found in made.items()}
    finally:
        bar.close()
    rows = []
    for method in METHODS:
        row = [method]
        for p, truth in truths.items():
            half = np.mean([e.half_width for e in made[method, p]]) / truth
            row += [_share([e.covers(truth) for e in made[method, p]]), f"{100 * half:.2g}%"]
        rows.append(tuple(row))
    done = len(made[METHODS[0], None])
    stopped = "" if done == repetitions else f" STOPPED after {done} of {repetitions} repetitions."
    return Table(
        ("95% interval from", "holds the mean", "its ±", "holds P99", "its ±"),
        tuple(rows),
        f"M/M/1 at utilisation {utilisation:g}, mean wait {truths[None]:.4g}, P99 {truths[0.99]:.4g} service times. Shares "
        f"of {done} repetitions, with 95% intervals; the first three methods use the same {n:,} waits. "
        f"*Bootstrap; for P99 order statistics.{stopped}",
    )


# -- break it: a short run --------------------------------------------------------------------------------------


def mean_of_first(utilisation: float, n: int) -> np.ndarray:
    """Expected mean wait over the first 1, 2, …, n requests of M/M/1 that starts empty (service mean 1)."""
    return np.cumsum(theory.mm1_transient_wait(utilisation, 1.0, n)) / np.arange(1, n + 1)


def short_runs(utilisation=0.95, lengths=(300, 1000, 3000, 10_000), shown=10, runs=1000, seed=4) -> Still:
    """Runs from an empty system: what they say on average, exactly and simulated, and what ten of them say."""
    n = max(lengths)
    rng = np.random.default_rng(seed)
    exact = mean_of_first(utilisation, n)
    k = np.unique(np.geomspace(100, n, 60).astype(int))
    half = np.array(
        [2 * exact[i - 1] - exact[i // 2 - 1] for i in k]
    )  # the mean over the second half of i requests
    values = {m: [] for m in lengths}
    for _ in range(10):  # in parts, to spare memory
        gaps, services = rng.standard_exponential((2, runs // 10, n))
        waits = simulate.fcfs_waits(gaps / utilisation, services)
        for m in lengths:
            values[m].append(waits[:, :m].mean(axis=1))
    values = {m: np.concatenate(v) for m, v in values.items()}
    means = {m: mean_replications(v) for m, v in values.items()}
    truth = theory.MM1(utilisation, 1.0).mean_wait

    def picture(figure):
        ax = figure.subplots()
        ax.set(xscale="log", xlim=(90, 1.25 * n), ylim=(0, 2.6 * truth))
        ax.set(xlabel="length of the run (requests)", ylabel="mean wait (mean service times)")
        ax.set_xticks([100, 300, 1000, 3000, 10_000], ["100", "300", "1,000", "3,000", "10,000"])
        ax.minorticks_off()
        ax.axhline(truth, color=style.INK, ls="--", lw=1.5)
        ax.plot(k, exact[k - 1], color=style.BLUE)
        ax.plot(k, half, color=style.GREEN, lw=1.6)
        for m in lengths:
            ax.plot(
                np.full(shown, m), values[m][:shown], "_", ms=24, mew=1.6, color=style.GREY, clip_on=False
            )
            ax.plot([m, m], [means[m].low, means[m].high], color=style.BLUE, lw=7, solid_capstyle="butt")
        style.label(ax, 95, truth, f"long run: {truth:.3g}", va="bottom")
        style.label(ax, 340, 0.83 * truth, "second half only", style.GREEN, ha="left", va="bottom")
        style.label(ax, 1200, 0.53 * truth, "whole run, exact", style.BLUE, va="bottom")
        style.label(ax, 95, 2.45 * truth, f"— {shown} single runs each", style.GREY, va="top")
        ax.set_title(
            f"M/M/1 at {utilisation:g} from empty. First 1,000 requests: {exact[999]:.4g} on average, exactly;\n"
            f"{runs:,} simulated runs: {means[1000].brief} (thick bars: 95% intervals)"
        )

        def move(_):
            said = "; ".join(
                f"{m:,} requests: exactly {exact[m - 1]:.4g}, simulated {means[m].brief}, {shown} single runs "
                f"{values[m][:shown].min():.3g} to {values[m][:shown].max():.3g}"
                for m in lengths
            )
            return (
                f"Mean wait of runs that start empty, against their length, at utilisation {utilisation:g}; in the long run "
                f"it is {truth:.3g}. {said}. Leaving out the first half of the run brings it nearer to that."
            )

        return [], move

    return Still(picture, None, size=(9, 4.6))


def no_latency(rate=200.0, capacity=2.3, sent=(1000, 2000, 4000)) -> Table:
    """Requests at `rate` into a server that completes `capacity` a second, both as clockwork: waits in s."""
    rows = []
    for n in sent:
        log = simulate.fcfs(np.arange(n) / rate, 1 / capacity)
        rows.append(
            (f"{n:,}", f"{n / rate:.0f} s", f"{log.wait.mean():.0f} s", f"{np.quantile(log.wait, 0.99):.0f} s",
             f"{log.wait[-1]:.0f} s")
        )  # fmt: skip
    return Table(
        ("requests sent", "sent within", "mean wait", "P99 of the wait", "last wait"),
        tuple(rows),
        f"{rate:g} requests/s into a server that completes {capacity:g}/s: unstable. No intervals: clockwork.",
    )


# -- A against B, in numbers ------------------------------------------------------------------------------------


def one_per_cent(speed_up=0.01, utilisation=0.8, n=5000, pairs=40, seed=3) -> Table:
    """B's services are 1% shorter: what 40 pairs of runs say, with different and with the same requests."""
    c = compare(speed_up, n, utilisation, seed, pairs=pairs)
    rows = []
    for name, changes, e, method in (
        ("different", c.independent, c.independent_change, "unpaired"),
        ("the same", c.common, unpaired(np.zeros(pairs), c.common), None),
        ("the same", c.common, c.common_change, "paired"),
    ):
        if method is None:  # the same runs, judged as if they were not pairs
            a = _runs_of_a(utilisation, n, seed, pairs) / theory.MM1(utilisation, 1.0).mean_response
            e, method = unpaired(a, a + changes), "unpaired (wrong)"
        sd = changes.std(ddof=1)
        needed = max(2, math.ceil((1.96 * sd / abs(c.truth)) ** 2)) if method != "unpaired (wrong)" else "–"
        rows.append((name, f"{(changes < 0).sum()} of {pairs}", method, _percent(e), needed))
    return Table(
        ("requests of A and B", "B faster in", "interval", "change of the mean response", "pairs to see it"),
        tuple(rows),
        f"M/M/1, utilisation {utilisation:g}, {n:,} requests per run; the true change is {100 * c.truth:+.2f}%. Last "
        "column: pairs after which the 95% interval's half-width is the change itself.",
    )


# -- in LLM serving -----------------------------------------------------------------------------------------------


def mean_ttft(trace: traces.Trace, tokens_per_s: float, sections: int) -> np.ndarray:
    """Mean TTFT in s of each of `sections` equal parts of the trace's time, each from an empty prefill server."""
    edges = np.linspace(trace.arrival[0], trace.arrival[-1] + 1e-6, sections + 1)
    cut = np.searchsorted(trace.arrival, edges)
    parts = [slice(a, b) for a, b in zip(cut, cut[1:], strict=False)]
    return np.array(
        [
            simulate.fcfs(trace.arrival[s], trace.prompt_tokens[s] / tokens_per_s).response.mean()
            for s in parts
        ]
    )


def before_and_after(trace: traces.Trace, speed_up=0.02, average=0.4, sections=12) -> Table:
    """Three ways to compare prefill server A with B, whose prefills are 2% shorter, on the same hour of requests."""
    speed = trace.prompt_tokens.sum() / (trace.arrival[-1] - trace.arrival[0]) / average
    a, b = (mean_ttft(trace, speed / (1 - x), sections) for x in (0.0, speed_up))
    half = sections // 2
    ways = (
        ("A first half hour, A second half hour", unpaired(a[:half], a[half:]), a[:half].mean()),
        ("A first half hour, B second half hour", unpaired(a[:half], b[half:]), a[:half].mean()),
        (f"A and B in turn, {60 // sections} minutes each", unpaired(a[::2], b[1::2]), a[::2].mean()),
        (f"both on all {sections} sections, paired", paired(a, b), a.mean()),
    )
    rows = tuple((name, f"{1000 * base:.0f} ms", _percent(_over(e, base))) for name, e, base in ways)
    return Table(
        ("comparison", "A's mean TTFT", "change"),
        rows,
        f"{trace.name}; one prefill server, {average:.0%} busy on average; B's prefills are {speed_up:.0%} shorter. 95% "
        f"intervals from {sections} sections of {60 // sections} minutes, each from an empty server.",
    )


def _over(e: Estimate, base: float) -> Estimate:
    return Estimate(e.value / base, e.low / base, e.high / base, e.confidence, e.method, e.n)
