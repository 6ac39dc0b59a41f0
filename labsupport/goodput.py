"""Lesson 06, SLO attainment and goodput: what a server finishes against what keeps the promise.

Rates are requests per second. Times that a reader sees are milliseconds or seconds, as their names end in _ms or _s.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from .lab import Explorer, Still, Table, choice, slider, style
from .queueing import engine, simulate, theory, workload
from .queueing.requestlog import RequestLog
from .queueing.statistics import (
    Estimate,
    attainment,
    goodput_rate,
    largest_rate_meeting,
    mean_batches,
    mean_replications,
    meets,
    paired,
    quantile,
)

# -- the server of lesson 05: a batch of b takes 5 + 0.5 b ms, at most 32 in a batch -----------------------

FIXED_S, PER_ITEM_S, CAP = 0.005, 0.0005, 32
CEILING = theory.batch_capacity(FIXED_S, PER_ITEM_S, CAP)
SLO_MS = 50.0


def serve(unit: np.ndarray, rate: float) -> RequestLog:
    """The log of requests that come at `rate`; `unit` are arrival times at 1/s, so that rates share their pattern."""
    return simulate.dynamic_batches(unit / rate, FIXED_S, PER_ITEM_S, CAP)


@lru_cache(maxsize=64)
def _unit(seed: tuple, n: int) -> np.ndarray:
    """Poisson arrivals at one request per second."""
    return np.random.default_rng(seed).standard_exponential(n).cumsum()


def served_for(rate: float, seconds: float, seed: tuple) -> RequestLog:
    """The log of the requests that come within `seconds`; all of them are served, however long that takes."""
    enough = rate * seconds + 8 * math.sqrt(rate * seconds) + 10
    unit = _unit(seed, 1 << math.ceil(math.log2(enough)))
    return serve(unit[: np.searchsorted(unit, rate * seconds)], rate)


@lru_cache(maxsize=4096)
def exact_attainment(rate: float, slo_ms: float) -> float:
    """Share of the requests within the SLO in the long run, from the exact chain; 0 from the ceiling on."""
    if rate >= CEILING:
        return 0.0  # the queue grows without end, so in the long run everyone is late
    return float(theory.DynamicBatching(rate, FIXED_S, PER_ITEM_S, CAP).response_cdf(slo_ms / 1e3))


# From 0 to the ceiling, close together where attainment falls.
_EXACT_AT = CEILING * np.array(
    [0.02, 0.1, 0.18, 0.26, 0.36, 0.48, 0.6, 0.7, 0.78, 0.85, 0.9, 0.93, 0.95, 0.965, 0.98, 0.99, 0.997]
)


@lru_cache(maxsize=32)
def exact_curve(slo_ms: float) -> tuple[np.ndarray, np.ndarray]:
    """Rates and exact attainment there, ending with the fall to 0 at the ceiling."""
    shares = np.ones(len(_EXACT_AT))
    for k in reversed(range(len(_EXACT_AT))):  # attainment rises to the left: once it is 1 it stays so
        shares[k] = exact_attainment(_EXACT_AT[k], slo_ms)
        if shares[k] > 1 - 1e-9:
            break
    return np.append(_EXACT_AT, [CEILING, 2250]), np.append(shares, [0, 0])


@lru_cache(maxsize=256)
def exact_largest_rate(slo_ms: float, share: float, xtol=0.1) -> float:
    """Goodput (a): the largest rate at which in the long run `share` of the requests are within the SLO."""
    from scipy.optimize import brentq

    rates, shares = exact_curve(slo_ms)
    k = int(np.argmax(shares < share))
    low, high = rates[k - 1] if k else 0.01, min(rates[k], CEILING * (1 - 1e-6))
    return brentq(lambda rate: exact_attainment(rate, slo_ms) - share, low, high, xtol=xtol)


# -- explorer: three curves --------------------------------------------------------------------------------

_RUNS = 4
_GRID = np.array([100, 300, 600, 900, 1100, 1200, 1300, 1350, 1400, 1425, 1450, 1475, 1500, 1525, 1550, 1600,
                  1700, 1850, 2000, 2200.0])  # fmt: skip


@dataclass(frozen=True)
class _Run:
    """One run from empty: response times in the order of arrival, and where its halves begin and end."""

    seconds: float
    response: np.ndarray  # s
    came: int  # how many come in the first half
    done: tuple[int, int]  # how many are finished at half-time, and at the end of the run

    @classmethod
    def of(cls, rate, seconds, seed):
        log = served_for(rate, seconds, seed)
        done = np.searchsorted(
            log.finish, [seconds / 2, seconds], "right"
        )  # batches end in the order of arrival
        came = np.searchsorted(log.arrival, seconds / 2)
        return cls(seconds, log.response.astype(np.float32), int(came), tuple(map(int, done)))

    def numbers(self, slo_s: float, second_half: bool) -> tuple[float, float, float]:
        """Throughput and attainment, and goodput (b), of the run or of its second half."""
        came, done, span = (
            (self.came, self.done[0], self.seconds / 2) if second_half else (0, 0, self.seconds)
        )
        offered, served = self.response[came:], self.response[done : self.done[1]]
        within = np.count_nonzero(offered <= slo_s) / max(1, len(offered))
        return len(served) / span, within, np.count_nonzero(served <= slo_s) / span


@lru_cache(maxsize=32)
def _runs(rate: float, seconds: float, seed: int) -> list[_Run]:
    return [_Run.of(rate, seconds, (seed, run)) for run in range(_RUNS)]


@lru_cache(maxsize=4)
def _grid_runs(seconds: float, seed: int) -> list[list[_Run]]:
    return [[_Run.of(rate, seconds, (seed, run)) for run in range(_RUNS)] for rate in _GRID]


def _three(runs, slo_ms, second_half=False):
    """Throughput, attainment and goodput (b): (runs, 3) numbers, and three Estimates."""
    numbers = np.array([run.numbers(slo_ms / 1e3, second_half) for run in runs])
    return numbers, tuple(mean_replications(column) for column in numbers.T)


def crossing(rates: np.ndarray, shares: np.ndarray, target: float) -> float:
    """Where the line through the points first falls below the target; inf if it does not, 0 if it starts below."""
    below = np.flatnonzero(shares < target)
    if not len(below):
        return math.inf
    k = below[0]
    if k == 0:
        return 0.0
    return rates[k - 1] + (rates[k] - rates[k - 1]) * (shares[k - 1] - target) / (shares[k - 1] - shares[k])


@dataclass(frozen=True)
class _Curves:
    rate: float
    slo_ms: float
    share: float
    seconds: float
    second_half: bool
    here: tuple[Estimate, Estimate, Estimate]  # throughput, attainment, goodput (b) at `rate`
    grid: list[tuple[Estimate, Estimate, Estimate]]
    exact: tuple[np.ndarray, np.ndarray]
    largest: float  # goodput (a), long run
    measured: Estimate  # goodput (a) by these runs


def _curves(rate, slo, share, seconds, warm_up, seed) -> _Curves:
    # The grid is simulated once for each run length; what the other sliders move is only counted anew.
    results = [_three(runs, slo, warm_up) for runs in _grid_runs(seconds, seed)]
    crossings = [crossing(_GRID, column, share / 100) for column in np.array([n[:, 1] for n, _ in results]).T]
    if min(crossings) == 0:
        measured = Estimate(0.0, reason=f"below {_GRID[0]:g}/s")
    elif max(crossings) == math.inf:
        measured = Estimate(math.inf, reason=f"above {_GRID[-1]:,.0f}/s")
    else:
        measured = mean_replications(crossings)
    return _Curves(
        rate, slo, share / 100, seconds, warm_up, _three(_runs(rate, seconds, seed), slo, warm_up)[1],
        [estimates for _, estimates in results], exact_curve(slo), exact_largest_rate(slo, share / 100, 0.5), measured,
    )  # fmt: skip


def _percent(e: Estimate) -> str:
    """An attainment in per cent; the ends of the interval stay within 0 and 100."""
    if e.low == e.high and e.value in (0, 1):  # no spread, so no interval: it would have no length
        return "100% (all)" if e.value else "0% (none)"
    if e.low is None:
        return f"{100 * e.value:.3g}%"
    scaled = replace(e, value=100 * e.value, low=max(0, 100 * e.low), high=min(100, 100 * e.high))
    return f"{scaled.brief}%"


def _pm(e: Estimate) -> str:
    """Value ± half of the interval, with two digits of that: shorter than both ends, for narrow tables."""
    half = e.half_width
    if half <= 1e-9 * max(1, abs(e.value)):
        return f"{e.value:.3g} (every run)"
    digits = max(0, 1 - math.floor(math.log10(half)))
    return f"{e.value:.{digits}f} ± {half:.{digits}f}"


def _bars(x, estimates, factor, most):
    """Interval bars; a share stays within 0 and 1, a rate above 0."""
    return [
        [(a, factor * max(e.low, 0)), (a, factor * min(e.high, most))]
        for a, e in zip(x, estimates, strict=True)
    ]


def _curves_picture(figure):
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.25, 1])
    top.set(ylabel="requests/s", xlim=(0, 2250), ylim=(0, 1750))
    bottom.set(xlabel="arrival rate (requests/s)", ylabel="attainment (%)", ylim=(-4, 108))
    top.set_yticks([0, 500, 1000, 1500], ["0", "500", "1,000", "1,500"])
    bottom.set_yticks([0, 25, 50, 75, 100])
    bottom.xaxis.set_major_formatter("{x:,.0f}")
    top.plot([0, CEILING, 2250], [0, CEILING, CEILING], color=style.BLUE, lw=1.5)
    good = top.plot([], [], color=style.GREEN, lw=1.5)[0]
    good_text = style.label(top, 0, 0, "goodput (b)", style.GREEN, va="center")
    kept = bottom.plot([], [], color=style.PURPLE, lw=1.5)[0]
    points, bars = [], []
    for ax, colour, mark in ((top, style.BLUE, "s"), (bottom, style.PURPLE, "o"), (top, style.GREEN, "o")):
        points.append(ax.plot([], [], mark, ms=6, color=colour, mec="white", mew=0.6)[0])
        bars.append(ax.vlines([0], [0], [0], color=colour, lw=3, alpha=0.5))
    marks = [ax.axvline(0, color=style.INK, lw=1, ls=":") for ax in (top, bottom)]
    dots = [ax.plot([], [], "o", ms=11, mfc="none", mec=style.INK, mew=2)[0] for ax in (top, bottom, top)]
    target = bottom.plot([], [], color=style.INK, ls="--", lw=1.4)[0]
    a_line = bottom.plot([], [], color=style.VERMILLION, lw=2)[0]
    a_text = style.label(bottom, 0, 8, "", style.VERMILLION, fontsize=12, ha="right", linespacing=1.3)
    share_text = style.label(bottom, 2240, 0, "", style.INK, fontsize=12, ha="right", va="top")
    style.label(top, 2190, CEILING + 25, "throughput", style.BLUE, ha="right", va="bottom")
    head = top.set_title("\n ", pad=6)
    foot = bottom.set_title(" ", pad=6)

    def move(c: _Curves) -> str:
        rates, shares = c.exact
        good.set_data(rates, rates * shares)
        good_text.set(**_beside_the_fall(rates, rates * shares))
        kept.set_data(rates, 100 * shares)
        for k, factor in enumerate((1, 100, 1)):
            column = [row[k] for row in c.grid]
            points[k].set_data(_GRID, [factor * e.value for e in column])
            bars[k].set_segments(_bars(_GRID, column, factor, 1 if k == 1 else math.inf))
        for line in marks:
            line.set_xdata([c.rate] * 2)
        for dot, e, factor in zip(dots, c.here, (1, 100, 1), strict=True):
            dot.set_data([c.rate], [factor * e.value])
        target.set_data([0, 2250], [100 * c.share] * 2)
        above = c.share < 0.8  # room for the label
        share_text.set(
            y=100 * c.share + (2 if above else -3),
            va="bottom" if above else "top",
            text=f"target {100 * c.share:g}%",
        )
        a_line.set_data([c.largest] * 2, [0, 100 * c.share])
        runs = f"{c.measured.brief}/s" if c.measured.low is not None else c.measured.reason
        beside = (
            c.largest - 15 if c.largest > 900 else 2240
        )  # else above the points at 0, right of the ceiling
        a_text.set(x=beside, text=f"goodput (a), long run: {c.largest:,.0f}/s\nby these runs: {runs}")
        throughput, within, goodput = c.here
        state = ". Above the ceiling: unstable" if c.rate >= CEILING else ""
        short = "second half counted" if c.second_half else "all counted"
        first = f"At {c.rate:,g}/s: throughput {_pm(throughput)}, goodput (b) {_pm(goodput)} requests/s"
        second = f"{_RUNS} runs of {c.seconds:g} s, {short}; lines: long run, exact{state}"
        head.set_text(f"{first}\n{second}")
        foot.set_text(f"Attainment within {c.slo_ms:g} ms: {_percent(within)}")
        return (
            f"Throughput, goodput and attainment against the arrival rate, for responses within {c.slo_ms:g} ms. {first}; "
            f"attainment {_percent(within)}. {second}. Goodput (a), the largest rate with {100 * c.share:g}% attainment: "
            f"{c.largest:,.0f} per second in the long run, by these runs {runs}."
        )

    moving = [good, good_text, kept, *points, *bars, *marks, *dots, target, a_line, a_text, share_text, head, foot]
    return moving, move


def _beside_the_fall(rates, goodput) -> dict:
    """Where the curve's name has room: under its falling side, or beyond it where the curve is low."""
    peak = int(np.argmax(goodput))
    half = float(np.interp(-goodput[peak] / 2, -goodput[peak:], rates[peak:]))
    if goodput[peak] > 600:
        return {"x": half - 25, "y": 0.3 * goodput[peak], "ha": "right"}
    return {"x": half + 25, "y": 0.5 * goodput[peak] + 130, "ha": "left"}


def three_curves(**setting) -> Explorer:
    """Explorer: throughput, attainment and goodput of the batch server against its arrival rate."""
    controls = [
        slider("rate", "arrival rate", "requests/s", 100, 2200, 1450, step=10),
        slider("slo", "SLO", "ms", 10.0, 100.0, SLO_MS, values=[10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100]),
        slider("share", "target share", "%", 50, 99, 90, step=1),
        slider("seconds", "run length", "s", 1, 30, 10, values=[1, 2, 3, 5, 10, 15, 20, 30]),
        choice("warm_up", "warm-up", {"counted": False, "first half left out": True}),
    ]
    return Explorer("goodput.three_curves", controls, _curves, _curves_picture, sample=True, size=(9, 4.6),
                    setting=setting)  # fmt: skip


# -- explorer: two promises --------------------------------------------------------------------------------

# The decode step is the line of lesson 05 (7.06 + 0.074 b ms); reading a prompt costs 0.1 ms per token.
STEP_S, PER_SEQUENCE_S, PER_PROMPT_TOKEN_S = 0.00706, 0.0000737, 0.0001
_REQUESTS = 1500


def machine(slots: int) -> engine.Engine:
    """One engine with continuous batching of at most `slots` sequences; a prompt is read in a step of its own."""
    return engine.Engine(
        STEP_S, PER_SEQUENCE_S, prefill_s=0, per_prompt_token_s=PER_PROMPT_TOKEN_S, slots=slots
    )


@lru_cache(maxsize=32)
def chats(seed: tuple, n=_REQUESTS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Poisson arrivals at 1/s, prompt and output tokens.

    Lognormal, with the medians of Azure's conversation trace of 2023: 1,020 and 129 tokens.
    """
    rng = np.random.default_rng(seed)
    u = rng.random((2, n))
    prompt, output = (
        np.ceil(workload.lognormal_from_median(median, sigma).ppf(row)).clip(1, most)
        for median, sigma, most, row in ((1020, 0.9, 8000, u[0]), (129, 1.0, 2000, u[1]))
    )
    return rng.standard_exponential(n).cumsum(), prompt, output


def middle(log: RequestLog) -> RequestLog:
    """Without the first fifth of the requests, when the engine was emptier, and the last tenth, when fewer followed."""
    a, b = log.arrival[[len(log) // 5, -(len(log) // 10)]]
    return log.between(a, b)


def kept_by(log: RequestLog, ttft_s: float, tpot_ms: float) -> tuple[np.ndarray, np.ndarray]:
    """Who kept the promise on TTFT, and who the one on TPOT."""
    return meets(log, {"ttft": ttft_s}), meets(log, {"tpot": tpot_ms / 1e3})


@dataclass(frozen=True)
class _Promises:
    rate: float
    slots: int
    ttft_s: float
    tpot_ms: float
    capacity: float
    log: RequestLog

    @property
    def stable(self) -> bool:
        return self.rate < 0.97 * self.capacity

    def share(self, ttft: bool, tpot: bool) -> Estimate:
        """Share of the requests that kept or broke the two promises so."""
        first, later = kept_by(self.log, self.ttft_s, self.tpot_ms)
        return self._mean((first == ttft) & (later == tpot))

    def kept(self, which: int) -> Estimate:
        """Share that kept the promise on TTFT (0) or on TPOT (1), whatever became of the other."""
        return self._mean(kept_by(self.log, self.ttft_s, self.tpot_ms)[which])

    def _mean(self, here: np.ndarray) -> Estimate:
        if self.stable:
            return mean_batches(here.astype(float))
        reason = "unstable" if self.rate >= self.capacity else "too near the capacity"
        return Estimate(float(here.mean()), reason=reason)


@lru_cache(maxsize=64)
def _chat_log(rate: float, slots: int, seed: tuple) -> RequestLog:
    unit, prompt, output = chats(seed)
    return engine.serve(unit / rate, prompt, output, machine(slots))


def _promises(rate, slots, ttft, tpot, seed) -> _Promises:
    _, prompt, output = chats((seed,))
    capacity = machine(slots).capacity(prompt, output)
    return _Promises(rate, slots, ttft, tpot, capacity, middle(_chat_log(rate, slots, (seed,))))


_TTFT_LIMITS, _TPOT_LIMITS = (0.01, 1000.0), (3.0, 2000.0)


def _promises_picture(figure):
    ax = figure.subplots()
    ax.set(
        xscale="log",
        yscale="log",
        xlim=_TTFT_LIMITS,
        ylim=_TPOT_LIMITS,
        xlabel="TTFT (s)",
        ylabel="TPOT (ms)",
    )
    ax.set_xticks([0.01, 0.1, 1, 10, 100, 1000], ["0.01", "0.1", "1", "10", "100", "1,000"])
    ax.set_yticks(
        [5, 10, 20, 50, 100, 200, 500, 1000, 2000],
        ["5", "10", "20", "50", "100", "200", "500", "1,000", "2,000"],
    )
    ax.minorticks_off()
    good = ax.fill_between([0, 1], [0, 0], [1, 1], color=style.GREEN, alpha=0.1, lw=0)
    cloud = ax.plot([], [], ".", ms=4, color=style.BLUE, alpha=0.45)[0]
    lines = [ax.axvline(1, color=style.INK, ls="--", lw=1.4), ax.axhline(1, color=style.INK, ls="--", lw=1.4)]
    corners = {
        (True, True): style.label(ax, 0.01, 0.03, "", style.GREEN, transform=ax.transAxes),
        (False, True): style.label(ax, 0.99, 0.03, "", style.VERMILLION, transform=ax.transAxes, ha="right"),
        (True, False): style.label(ax, 0.01, 0.97, "", style.VERMILLION, transform=ax.transAxes, va="top"),
        (False, False): style.label(
            ax, 0.99, 0.97, "", style.VERMILLION, transform=ax.transAxes, ha="right", va="top"
        ),
    }
    words = {(True, True): "both kept", (False, True): "TTFT broken", (True, False): "TPOT broken",
             (False, False): "both broken"}  # fmt: skip
    head = ax.set_title("\n ")

    def move(p: _Promises) -> str:
        cloud.set_data(p.log.ttft.clip(*_TTFT_LIMITS), (1e3 * p.log.tpot).clip(*_TPOT_LIMITS))
        lines[0].set_xdata([p.ttft_s] * 2)
        lines[1].set_ydata([p.tpot_ms] * 2)
        x, y = (_TTFT_LIMITS[0], p.ttft_s), (_TPOT_LIMITS[0], p.tpot_ms)
        good.set_verts([np.array([(x[0], y[0]), (x[1], y[0]), (x[1], y[1]), (x[0], y[1])])])
        said = []
        for key, text in corners.items():
            e = p.share(*key)
            text.set_text(f"{words[key]}: {_percent(e)}")
            said.append(text.get_text())
        both = p.share(True, True)
        state = "" if p.stable else ": unstable" if p.rate >= p.capacity else ": too near for intervals"
        if both.low is None:
            rate = f"{p.rate * both.value:.3g}"
        else:
            low, high = max(0.0, p.rate * both.low), min(p.rate, p.rate * both.high)
            rate = replace(both, value=p.rate * both.value, low=low, high=high).brief
        first = f"{p.rate:g}/s, throughput ceiling {p.capacity:.2f}/s{state}. Both kept by {rate} requests/s"
        second = f"TTFT alone is kept by {_percent(p.kept(0))}, TPOT alone by {_percent(p.kept(1))}"
        head.set_text(f"{first}\n{second}")
        return (
            f"TTFT and TPOT of each of {len(p.log):,} requests, with limits of {p.ttft_s:g} s and {p.tpot_ms:g} ms "
            f"and {p.slots} slots. {first}. {'; '.join(said)}. {second}."
        )

    return [good, cloud, *lines, *corners.values(), head], move


def two_promises(**setting) -> Explorer:
    """Explorer: TTFT against TPOT of each request of one engine, and who keeps which promise."""
    controls = [
        slider("rate", "arrival rate", "requests/s", 0.5, 8.0, 4.0, step=0.25),
        slider(
            "slots",
            "slots of the batch",
            "requests",
            4,
            256,
            64,
            values=[4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256],
        ),
        slider("ttft", "promise on TTFT", "s", 0.1, 10.0, 1.0, per_decade=10),
        slider("tpot", "promise on TPOT", "ms", 10.0, 500.0, 50.0, per_decade=10),
    ]
    return Explorer("goodput.two_promises", controls, _promises, _promises_picture, sample=True, size=(9, 4.6),
                    setting=setting)  # fmt: skip


EXPLORERS = (three_curves, two_promises)

# -- check it ----------------------------------------------------------------------------------------------


def one_minute(rates=(500, 1000, 1400, 1450, 1500, 2000), seconds=60, runs=8) -> Table:
    """Throughput, attainment and goodput (b) of runs of one minute, beside the exact attainment of the long run."""
    rows = []
    for rate in rates:
        throughput, within, good = _three([_Run.of(rate, seconds, (60, run)) for run in range(runs)], SLO_MS)[
            1
        ]
        exact = 100 * exact_attainment(rate, SLO_MS)
        share = _percent(within)
        if within.half_width:  # shorter than both ends: the table is wide
            share = f"{_pm(replace(within, value=100 * within.value, low=100 * within.low, high=100 * within.high))}%"
        rows.append((f"{rate:,}", _pm(throughput), share, f"{exact:.4g}%", _pm(good)))
    return Table(
        ("λ (1/s)", "throughput (1/s)", "attainment", "long run", "goodput (b) (1/s)"),
        tuple(rows),
        f"SLO {SLO_MS:g} ms. 95% intervals from {runs} runs of {seconds} s, the same unit arrivals at every rate. "
        "Long run: exact attainment.",
    )


def minute_of_overload(rate=2000, seconds=60) -> Estimate:
    """Attainment in per cent of all who come within one minute above the ceiling, the mean of eight runs."""
    runs = [_Run.of(rate, seconds, (60, run)) for run in range(8)]
    e = _three(runs, SLO_MS)[1][1]
    return replace(e, value=100 * e.value, low=100 * e.low, high=100 * e.high)


def reading_the_grid(steps=(200, 100, 50, 25, 10, 1), share=0.9) -> Table:
    """Goodput (a) as a load test with a grid of rates reports it: the last rate that still keeps the target."""
    rows = []
    for step in steps:
        grid = range(1000, math.ceil(CEILING) + step, step)  # at 1,000/s nearly everyone is in time
        first_late = bisect.bisect_left(grid, True, key=lambda rate: exact_attainment(rate, SLO_MS) < share)
        rate = grid[first_late - 1]
        attained, beyond = (f"{100 * exact_attainment(r, SLO_MS):.2f}%" for r in (rate, rate + step))
        rows.append((step, f"{rate:,}", attained, beyond))
    return Table(
        ("step between rates (1/s)", "last rate that keeps 90% (1/s)", "attainment there", "one step on"),
        tuple(rows),
        f"Within {SLO_MS:g} ms, in the long run. Exact: no intervals.",
    )


def by_bisection(seconds=30, runs=10, share=0.9) -> Table:
    """Goodput (a) by bisection on simulated runs, with an interval, beside the exact one."""

    def measure(rate):
        return mean_replications([attainment_of(rate, seconds, (40, run)) for run in range(runs)])

    found = largest_rate_meeting(measure, share, 1300, 1523, rtol=5e-4)
    rows = (
        (f"bisection, {runs} runs of {seconds} s at each of {found.n} rates", found.brief),
        ("exact chain", f"{exact_largest_rate(SLO_MS, share):,.0f}"),
    )
    return Table(
        ("how", "goodput (a) (1/s)"),
        rows,
        f"{100 * share:g}% within {SLO_MS:g} ms. 95% interval: the rates whose own interval of attainment holds the target. "
        "Same unit arrivals at every rate; only those that come in the second half of a run are counted.",
    )


def attainment_of(rate: float, seconds: float, seed: tuple) -> float:
    """Attainment of those who come in the second half of one run; the load goes on to its end."""
    log = served_for(rate, seconds, seed)
    return float(meets(log.between(seconds / 2, seconds), SLO_MS / 1e3).mean())


# -- break it ----------------------------------------------------------------------------------------------


def overload(rates=(1400, 1600, 2000), seconds=10, seed=(3, 0)) -> Still:
    """Response time of each request against the moment it came: one run below and two above the ceiling."""
    logs = {rate: served_for(rate, seconds, seed) for rate in rates}

    def picture(figure):
        ax = figure.subplots()
        ax.axhline(SLO_MS / 1e3, color=style.INK, ls="--", lw=1.4)
        for (rate, log), colour in zip(
            logs.items(), (style.BLUE, style.PURPLE, style.VERMILLION), strict=True
        ):
            some = slice(None, None, max(1, len(log) // 1500))
            ax.plot(log.arrival[some], log.response[some], color=colour, lw=1.6)
            state = "stable" if rate < CEILING else "unstable"
            within = 100 * meets(log, SLO_MS / 1e3).mean()
            at = log.response[np.searchsorted(log.arrival, 7.0)] if rate > CEILING else 0.0068
            style.label(
                ax,
                7.0,
                1.25 * at,
                f"{rate:,}/s, {state}: {within:.3g}% in time",
                colour,
                va="bottom",
                ha="right",
            )
        ax.set(
            yscale="log",
            xlim=(0, seconds),
            ylim=(0.004, 6),
            xlabel="moment of arrival (s)",
            ylabel="response time (s)",
        )
        ax.set_yticks([0.005, 0.01, 0.05, 0.1, 0.5, 1, 5], ["0.005", "0.01", "0.05", "0.1", "0.5", "1", "5"])
        ax.minorticks_off()
        style.label(
            ax, seconds, SLO_MS / 1e3 * 1.05, f"SLO {SLO_MS:g} ms", style.INK, ha="right", va="bottom"
        )
        ax.set_title("One run at each rate, same unit arrivals. Single runs: no intervals")

        def move(_):
            said = "; ".join(f"at {rate} per second {100 * meets(log, SLO_MS / 1e3).mean():.3g}% are in time and the last "
                             f"response takes {log.response[-1]:.3g} s" for rate, log in logs.items())  # fmt: skip
            return f"Response time against the moment of arrival over {seconds} s, on a log axis: {said}."

        return [], move

    return Still(picture, None)


def fixed_count(counts=(250, 500, 1000, 2000, 4000, 8000), stable=1200, unstable=2000, runs=8) -> Table:
    """What a test of a fixed number of requests reports, for a stable and an unstable rate, and its goodput (a)."""
    rows = []
    for n in counts:
        units = [_unit((70, run), 1 << 13)[:n] for run in range(runs)]

        def measure(rate, units=units):
            return mean_replications([meets(serve(unit, rate), SLO_MS / 1e3).mean() for unit in units])

        low, high = (
            mean_replications([1e3 * serve(unit, rate).response.mean() for unit in units])
            for rate in (stable, unstable)
        )
        rows.append(
            (
                f"{n:,}",
                _pm(low),
                _pm(high),
                largest_rate_meeting(measure, 0.9, 500, 30_000, rtol=2e-3).brief,
            )
        )
    model = theory.DynamicBatching(stable, FIXED_S, PER_ITEM_S, CAP)
    largest = f"{exact_largest_rate(SLO_MS, 0.9):,.0f}"
    rows.append(("long run", f"{1e3 * model.mean_response:.2f}", "grows without end", largest))
    return Table(
        (
            "requests",
            f"mean response at {stable:,}/s (ms)",
            f"at {unstable:,}/s (ms)",
            "goodput (a) reported (1/s)",
        ),
        tuple(rows),
        f"90% within {SLO_MS:g} ms. 95% intervals from {runs} runs; the same unit arrivals in all rows and at all rates.",
    )


def twice_as_long(rates=(1400, 1450, 1500, 2000), seconds=(30, 60), runs=8) -> Table:
    """The check of a fixed duration: attainment of those who came in the last fifth of a run, and then of a longer one."""
    rows = []
    for rate in rates:
        cells = []
        for t in seconds:
            logs = [served_for(rate, t, (80, run)).between(0.8 * t, t) for run in range(runs)]
            cells.append(np.array([100 * meets(log, SLO_MS / 1e3).mean() for log in logs]))
        rows.append(
            (
                f"{rate:,}",
                *(_percent(mean_replications(c / 100)) for c in cells),
                _pm(paired(cells[0], cells[-1])),
            )
        )
    return Table(
        ("λ (1/s)", *(f"run of {t} s" for t in seconds), "change (points)"),
        tuple(rows),
        f"Share within {SLO_MS:g} ms of the requests that come in the last fifth of a run. 95% intervals from {runs} "
        "runs; a longer run continues a shorter one, so the change is paired.",
    )


# -- sums of percentiles -----------------------------------------------------------------------------------


def p99_of_sum_exact() -> float:
    """P99 of the sum of two independent exponential stages with mean 1 s (a gamma law of shape 2), in s."""
    from scipy.special import gammaincinv

    return float(gammaincinv(2, 0.99))


def two_stages(n=100_000, seed=8) -> dict[str, tuple[np.ndarray, np.ndarray, float, float]]:
    """Times of two stages (s) made from the same uniforms in three ways; exact P99 of one stage and of the sum."""
    u, v = np.random.default_rng(seed).random((2, n))
    one, stall = math.log(100), 0.009
    return {
        "independent": (-np.log1p(-u), -np.log1p(-v), one, p99_of_sum_exact()),
        "slow together": (-np.log1p(-u), -np.log1p(-u), one, 2 * one),
        "0.9% stall for 10 s": (1 + 10 * (u < stall), 1 + 10 * (v < stall), 1.0, 12.0),
    }


def sums_of_p99() -> Table:
    """Sum of the stages' P99 against the P99 of the sum, in three cases."""
    rows = []
    for name, (a, b, one, both) in two_stages().items():
        rows.append((name, f"{one:.4f}", f"{2 * one:.4f}", f"{both:.4f}", quantile(a + b, 0.99).brief))
    return Table(
        ("two stages", "P99 of each (s)", "sum of P99s", "P99 of the sum", "simulated (s)"),
        tuple(rows),
        "First two: exponential, mean 1 s each; last: 1 s, or 11 s in 0.9% of the requests, independently. Exact "
        "values, and 100,000 requests with 95% order-statistic intervals; the rows share their uniforms.",
    )


# -- in LLM serving ----------------------------------------------------------------------------------------


def mean_tpot(log: RequestLog) -> float:
    """Mean TPOT in s: every request counts the same; requests of one token have none."""
    return float(np.nanmean(log.tpot))


def mean_itl(log: RequestLog) -> float:
    """Mean inter-token latency in s: every gap between two tokens counts the same."""
    gaps = log.output_tokens - 1
    return float(np.nansum(log.tpot * gaps) / gaps.sum())


def two_requests() -> RequestLog:
    """A short answer behind a long prompt, and a long answer: 2 and 200 tokens."""
    return RequestLog([0, 0], [0, 0], [0.3, 4.18], first_token=[0.2, 0.2], output_tokens=[2, 200])


def two_means(rate=4.5, slots=(16, 64, 256), runs=8) -> Table:
    """Mean TPOT and mean inter-token latency of the same requests: by hand for two, and for an engine."""
    log = two_requests()
    rows = [("2 and 200 tokens", *(f"{1e3 * f(log):.2f}" for f in (mean_tpot, mean_itl)),
             f"{mean_tpot(log) / mean_itl(log):.2f}")]  # fmt: skip
    for s in slots:
        logs = [middle(_chat_log(rate, s, (90, run))) for run in range(runs)]
        both = np.array([(1e3 * mean_tpot(log), 1e3 * mean_itl(log)) for log in logs])
        rows.append((f"{rate:g}/s, {s} slots", *(_pm(mean_replications(c)) for c in both.T),
                     _pm(mean_replications(both[:, 0] / both[:, 1]))))  # fmt: skip
    return Table(
        ("requests", "mean TPOT (ms)", "mean ITL (ms)", "ratio"),
        tuple(rows),
        f"First row: the two requests, counted, no interval. Others: the engine, 95% intervals from {runs} runs of "
        f"{_REQUESTS:,} requests, the same for all rows.",
    )


def rate_for_promises(slots, ttft_s, tpot_ms, share=0.9, runs=8) -> Estimate:
    """Goodput (a) of one engine in requests/s: the largest rate at which `share` of the requests keep both promises.

    0 with the reason where an engine that serves one request at a time does not keep them either; the throughput
    ceiling where even there they are kept. Chats as in `chats`, engine as in `machine(slots)`.
    """
    slo = {"ttft": ttft_s, "tpot": tpot_ms / 1e3}
    ceiling = machine(slots).capacity(*chats((90, 0), 20_000)[1:])

    def measure(rate):
        logs = [middle(_chat_log(rate, slots, (90, run))) for run in range(runs)]
        return mean_replications([meets(log, slo).mean() for log in logs])

    alone = 0.001  # per second: hardly ever two at a time
    if measure(alone).value < share:
        return Estimate(0.0, reason=f"alone, {_percent(measure(alone))} keep both")
    if measure(ceiling).value >= share:
        return Estimate(ceiling, reason="kept up to the ceiling")
    found = largest_rate_meeting(measure, share, alone, ceiling, rtol=1e-2)
    if found.low is not None:
        return found
    # The upper end is no rate that an engine can complete: the interval ends at the ceiling.
    low = largest_rate_meeting(lambda rate: measure(rate).low, share, alone, ceiling, rtol=1e-2).value
    return replace(found, low=low, high=ceiling, reason="")


def gpus(offered=40, ttft_s=1.0, tpot_ms=50.0, share=0.9, slots=(16, 64, 256)) -> Table:
    """How many engines a chat service needs: by the throughput ceiling, and by goodput (a), which keeps the promise.

    offered : requests/s of the whole service; ttft_s, tpot_ms : the promise to each request, in s and in ms per token;
    share : of the requests that must keep both; slots : largest batches to compare. The engine is that of `machine`,
    the chats those of `chats`.
    """
    if not offered > 0:
        raise ValueError(f"offered = {offered!r} must be a rate above 0 in requests/s.")
    if not 0 < share < 1:
        raise ValueError(f"share = {share!r} must lie between 0 and 1; 0.9 for 90% of the requests.")
    _, prompt, output = chats((90, 0), 20_000)
    rows = []
    for s in slots:
        ceiling = machine(s).capacity(prompt, output)
        good = rate_for_promises(s, ttft_s, tpot_ms, share)
        safe = good.value if good.low is None else good.low
        shown = good.brief if good.low is not None else f"{good.value:.3g} ({good.reason})"
        needed = math.ceil(offered / safe) if safe > 0 else "no number"
        rows.append((s, f"{ceiling:.2f}", shown, math.ceil(offered / ceiling), needed))
    return Table(
        ("slots", "throughput ceiling (1/s)", "goodput (a) (1/s)", "GPUs by the ceiling", "GPUs by goodput"),
        tuple(rows),
        f"{offered}/s in all; {100 * share:g}% with TTFT ≤ {ttft_s:g} s and TPOT ≤ {tpot_ms:g} ms. Ceiling: computed. "
        "Goodput: 95% intervals from 8 runs, the same chats at every rate and in every row; GPUs by its lower end.",
    )


def failures() -> Table:
    """A test of 30 s with 160 good answers and 441 refusals, counted in several ways."""
    good, refused, span, slo_s = 160, 441, 30.0, 2.0
    n = good + refused
    arrival = np.linspace(0, span - 1.5, n)
    ok = np.arange(n) * good // n != (np.arange(n) + 1) * good // n  # spread evenly
    finish = arrival + np.where(ok, 1.0, 0.17)
    log = RequestLog(arrival, np.where(ok, arrival, np.inf), finish, ok=ok)
    survivors, everyone = attainment(log.response[ok], slo_s), attainment(log, slo_s)
    position = (refused + good / 2) / n
    rows = (
        ("answers per second, refusals included", f"{n / span:.1f}"),
        ("median response over all answers", f"{np.median(log.response):.2f} s, that of a refusal"),
        ("where the good answers' median lies among all", f"at the {position:.2f} quantile"),
        ("attainment among the good answers", f"{100 * survivors.value:.0f}%"),
        ("attainment, failures as misses", f"{100 * everyone.value:.1f}%"),
        ("goodput (b)", f"{goodput_rate(log, slo_s, 0, span).value:.2f} requests/s"),
    )
    caption = (
        "160 good answers of 1 s, 441 refusals after 0.17 s, SLO 2 s, one test of 30 s. Counts: no intervals."
    )
    return Table(("counted", "value"), rows, caption)
