"""Lesson 03, head-of-line blocking: what one long service does to those behind it, and what the order changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .lab import Explorer, Still, Table, choice, slider, style
from .lab.table import plus_minus
from .queueing import simulate, theory, workload
from .queueing.statistics import Estimate, mean_batches, mean_replications, paired, quantile_replications
from .records import public
from .records.public import code, conversation

# -- service times ------------------------------------------------------------------------------------

FAMILIES = {
    "lognormal": "lognormal",
    "gamma": "gamma",
    "short or long: 2% are long": "two",
}
LONG_SHARE = 0.02


def law(family: str, scv: float, mean: float = 1.0) -> workload.Law:
    """Service times (s) of one of FAMILIES with this mean (s) and squared coefficient of variation.

    "two": a share LONG_SHARE of the requests has one long service time, all others have one short.
    """
    if family == "two":
        long = int(1 / LONG_SHARE)  # one value in so many
        spread = np.sqrt(scv / (long - 1))
        return workload.empirical([mean * (1 - spread)] * (long - 1) + [mean * (1 + spread * (long - 1))])
    return {"lognormal": workload.lognormal, "gamma": workload.gamma}[family](mean, scv)


_REQUESTS, _WARM_UP = 100_000, 5_000  # of one run; the first ones, after an empty start, are left out


@lru_cache(maxsize=4)
def _unit_numbers(seed):
    """Unit random numbers of one run: exponential gaps and uniforms for the service times."""
    rng = np.random.default_rng(seed)
    return rng.standard_exponential(_REQUESTS), rng.random(_REQUESTS)


@lru_cache(maxsize=8)
def _services(family, scv, seed):
    """Service times with mean 1 s: the same uniforms for every family and SCV."""
    return law(family, scv).ppf(_unit_numbers(seed)[1])


def _relaxation(utilisation, scv) -> float:
    """Requests until an M/G/1 queue has forgotten its state, in heavy traffic (Abate and Whitt 1987)."""
    return 2 * (utilisation / (1 - utilisation)) ** 2 * (1 + scv)


def _mean_wait(wait, family, scv, utilisation) -> Estimate:
    """Mean of one run's waiting times, by batch means where these cover: tried on 60 runs at many settings."""
    batch = len(wait) / 20
    if (family == "lognormal" and scv > 9) or batch < 2 * _relaxation(utilisation, scv):
        reason = f"{_REQUESTS:,} requests are too few here"
        return Estimate(float(wait.mean()), reason=reason)
    return mean_batches(wait)


# -- explorer: one long request, and the mean wait ----------------------------------------------------

_CANDIDATES = slice(200, 400)  # the block is made by the longest of these requests
_ROWS = 40  # so many requests are drawn at most


@dataclass(frozen=True)
class BusyPeriod:
    """The busy period around one request, the *block*; times in s from the first request's arrival.

    index : the block's place among the requests of the busy period.
    caused : waiting time in s of all others that would not be there without the block.
    """

    arrival: np.ndarray
    service: np.ndarray
    wait: np.ndarray
    index: int
    caused: float

    @property
    def behind(self) -> int:
        """Requests that came while the block was in service."""
        start = self.arrival[self.index] + self.wait[self.index]
        arrived = (self.arrival > start) & (self.arrival <= start + self.service[self.index])
        return int(np.count_nonzero(arrived))


def busy_period(gap, service, wait, k) -> BusyPeriod:
    """The busy period that request `k` belongs to, cut out of one FCFS run (all times in s)."""
    begin = int(np.flatnonzero(wait[: k + 1] == 0)[-1])
    free = np.flatnonzero(wait[k + 1 :] == 0)
    end = k + 1 + int(free[0]) if len(free) else len(wait)
    arrival = np.cumsum(gap[begin:end]) - gap[begin]
    rest = np.delete(np.arange(end - begin), k - begin)
    # Without the block the busy period can only become shorter, so nobody after it is concerned.
    without = simulate.fcfs(arrival[rest], service[begin:end][rest]).wait.sum()
    caused = max(0.0, round(float(wait[begin:end][rest].sum() - without), 9))
    return BusyPeriod(arrival, service[begin:end], wait[begin:end], k - begin, caused)


@dataclass(frozen=True)
class _Variance:
    block: BusyPeriod
    queue: theory.MG1
    simulated: Estimate


def _variance_run(family, scv, utilisation, seed) -> _Variance:
    gap, u = _unit_numbers(seed)
    gap, service = gap / utilisation, _services(family, scv, seed)
    wait = simulate.fcfs_waits(gap, service)
    k = _CANDIDATES.start + int(np.argmax(u[_CANDIDATES]))  # the same request at every setting
    simulated = _mean_wait(wait[_WARM_UP:], family, scv, utilisation)
    queue = theory.MG1(utilisation, 1.0, scv)
    return _Variance(busy_period(gap, service, wait, k), queue, simulated)


def _scale(value, steps) -> float:
    """The smallest axis limit that holds the value, so that the axes jump seldom."""
    return next((s for s in steps if value <= s), steps[-1])


_LIMITS = [float(f"{m}e{e}") for e in range(-1, 6) for m in (1, 2, 5)]


def _number(x: float) -> str:
    """Three digits, and never an exponent."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def _short(e: Estimate) -> str:
    """Value and interval where there is one, three digits each; why there is none is said elsewhere."""
    ends = "" if e.low is None else f" [{_number(e.low)}, {_number(e.high)}]"
    return f"{_number(e.value)}{ends}"


def _variance_picture(figure):
    left, right = figure.subplots(1, 2, width_ratios=[4, 3])
    left.set(xlabel="time (s)", ylabel="request number")
    left.yaxis.get_major_locator().set_params(integer=True)
    right.set(xlabel="SCV of the service time", ylabel="mean wait (s)", xlim=(0, 26))
    waits, serves, block = (
        left.hlines([0], [0], [0], color=colour) for colour in (style.ORANGE, style.BLUE, style.VERMILLION)
    )
    above = {"va": "top", "transform": left.transAxes}
    for x, text, colour in (
        (0.02, "waiting", style.BROWN),
        (0.19, "then in service", style.BLUE),
        (0.53, "longest", style.VERMILLION),
    ):
        style.label(left, x, 0.99, text, colour, **above)
    cut = style.label(left, 0.99, 0.03, "", style.GREY, ha="right", transform=left.transAxes)
    line = right.plot([], [], color=style.BLUE)[0]
    bar = right.plot([], [], color=style.VERMILLION, lw=2)[0]
    point = right.plot([], [], "o", ms=9, color=style.VERMILLION, clip_on=False)[0]
    small = {"transform": right.transAxes, "fontsize": 12, "va": "top", "in_layout": False}
    exact, sampled, why = (
        style.label(right, 0.03, y, "", colour, **small)
        for y, colour in ((0.99, style.BLUE), (0.91, style.VERMILLION), (0.83, style.GREY))
    )
    right.set_title(" \nMean wait")
    title = left.set_title(" \n ")
    scv = np.array([0.0, 26.0])

    def move(v: _Variance) -> str:
        b, e, q = v.block, v.simulated, v.queue
        first = max(0, b.index - 6) if len(b.arrival) > _ROWS else 0
        rows = slice(first, first + _ROWS)
        arrival = b.arrival[rows] - b.arrival[first]
        start = arrival + b.wait[rows]
        finish = start + b.service[rows]
        k, n = b.index - first, len(arrival)
        most = _scale(n, [10, _ROWS])
        means = [theory.MG1(q.utilisation, 1.0, x).mean_wait for x in scv]
        high = _scale(max(means[1], e.value if e.high is None else e.high), [2, 10, 40, 80, 160, 400])
        for ax, x, y in (
            (left, (0, _scale(finish[-1], [20, *_LIMITS[8:]])), (0, 1.12 * most)),  # room for the words above
            (right, (0, 26), (0, 1.2 * high)),
        ):
            if (ax.get_xlim(), ax.get_ylim()) != (x, y):
                ax.set(xlim=x, ylim=y)
        row = np.arange(n) + 0.5
        for bars, a, z in ((waits, arrival, start), (serves, start, finish)):
            bars.set_segments(np.stack([np.column_stack([a, row]), np.column_stack([z, row])], axis=1))
        block.set_segments([[(start[k], row[k]), (finish[k], row[k])]])
        for bars in (waits, serves, block):
            bars.set_linewidth(160 / most)
        cut.set_text("" if n == len(b.arrival) else f"{n} of {len(b.arrival)} shown")
        line.set_data(scv, means)
        point.set_data([q.service_scv], [e.value])
        bar.set_data([q.service_scv] * 2, [e.value] * 2 if e.low is None else [e.low, e.high])
        none = "" if e.low is not None else f"no interval: {e.reason}"
        why.set_text(style.sentence(none, 26))
        longest = f"{b.service[b.index]:.3g} s"
        come = {0: "nobody comes", 1: "1 comes"}.get(b.behind, f"{b.behind} come")
        less = f"{_number(b.caused)} s less in all" if b.caused else "no less"
        title.set_text(f"Longest of 200: {longest}; {come} meanwhile.\nWithout it the others wait {less}.")
        exact.set_text(f"theory {_number(q.mean_wait)} s")
        sampled.set_text(f"simulated {_short(e)} s")
        return (
            f"Left, Gantt chart of a busy period of {len(b.arrival)} request{'s' * (len(b.arrival) > 1)}, {n} shown: each "
            f"waits for all before it. The longest of 200 requests takes {longest}, and {come} meanwhile; without it the "
            f"others wait {less}. Right, mean wait against the SCV of the service time, a rising straight line. At "
            f"utilisation {q.utilisation:g}, mean service 1 s and SCV {q.service_scv:g} theory gives "
            f"{_number(q.mean_wait)} s; simulated with {_REQUESTS:,} requests: {_short(e)} s{none and f' ({none})'}."
        )

    return [waits, serves, block, cut, line, bar, point, exact, sampled, why, title], move


def variance(**setting) -> Explorer:
    """Explorer: the busy period around a long request, and the mean wait against the SCV of the service time."""
    controls = [
        slider("scv", "SCV of service time", "", 0.0, 25.0, 4.0, step=0.5),
        choice("family", "service times", FAMILIES),
        slider("utilisation", "utilisation ρ", "", 0.05, 0.9, 0.7, step=0.05),
    ]
    return Explorer(
        "head_of_line.variance", controls, _variance_run, _variance_picture,
        sample=True, size=(9, 4.6), setting=setting,
    )  # fmt: skip


# -- explorer: what an arrival finds ------------------------------------------------------------------

_GAP, _BEFORE, _WINDOW = 2.0, 200.0, 40.0  # s: mean time between arrivals, lead time, what is drawn


@dataclass(frozen=True)
class Found:
    """What arrivals found at a server that is always busy; all in s, `hit` and `rest` one value per arrival.

    service, end : length and end of each service; time : of the arrivals.
    hit : length of the service an arrival falls into, rest : what is left of it.
    """

    service: np.ndarray
    end: np.ndarray
    time: np.ndarray
    hit: np.ndarray
    rest: np.ndarray
    scv: float

    def mean(self, values) -> Estimate:
        """Mean of `hit` or `rest`; neighbours often fall into one service, so the interval is by batch means."""
        if len(values) < 1000:
            return Estimate(float(values.mean()), reason="fewer than 1,000 arrivals")
        return mean_batches(values)


@lru_cache(maxsize=4)
def _row_of_services(scv, seed):
    rng = np.random.default_rng(seed)
    unit_times = np.cumsum(rng.standard_exponential(10_000))
    return workload.gamma(1.0, scv).ppf(rng.random(25_000)), unit_times


def arrivals_find(scv, arrivals, seed) -> Found:
    """Gamma services of mean 1 s one after the other, and `arrivals` moments at random to look at them."""
    service, time = _row_of_services(scv, seed)
    end, time = np.cumsum(service), _BEFORE + _GAP * time[:arrivals]
    time = time[time < end[-1]]
    at = np.searchsorted(end, time, side="right")
    return Found(service, end - _BEFORE, time - _BEFORE, service[at], end[at] - time, scv)


def _inspection_picture(figure):
    from matplotlib.collections import PolyCollection

    top, bottom = figure.subplots(2, 1, height_ratios=[3, 2])
    top.set(xlabel="time (s)", ylabel="rest of the\nservice (s)", xlim=(0, _WINDOW))
    missed, hit = (
        top.add_collection(PolyCollection([[(0, 0)] * 3], facecolor=colour, edgecolor="white", lw=0.4))
        for colour in (style.SKY, style.ORANGE)
    )
    dots = top.plot([], [], "o", ms=7, color=style.INK, clip_on=False)[0]
    bars = bottom.barh([2, 1, 0], [0, 0, 0], height=0.6, color=[style.SKY, style.ORANGE, style.PALE])
    bottom.set_yticks([2, 1, 0], ["all services", "those hit", "rest when hit"])
    bottom.set(xlabel="mean (s); red mark: theory", ylim=(-0.6, 2.6))
    bottom.grid(axis="y", visible=False)
    ranges = [bottom.plot([], [], color=style.INK, lw=2)[0] for _ in range(2)]
    marks = bottom.plot([], [], "|", ms=26, mew=3, color=style.VERMILLION)[0]
    texts = [style.label(bottom, 0, y, "", va="center", in_layout=False) for y in (2, 1, 0)]
    title = top.set_title(" ")

    def move(f: Found) -> str:
        shown = (f.end > 0) & (f.end - f.service < _WINDOW)
        end, length = f.end[shown], f.service[shown]
        corners = np.stack([np.column_stack([end - length, 0 * end]), np.column_stack([end - length, length]),
                            np.column_stack([end, 0 * end])], axis=1)  # fmt: skip
        was_hit = np.isin(np.flatnonzero(shown), np.searchsorted(f.end, f.time, side="right"))
        missed.set_verts(corners[~was_hit])
        hit.set_verts(corners[was_hit])
        seen = f.time < _WINDOW
        dots.set_data(f.time[seen], f.rest[seen])
        means = f.mean(f.hit), f.mean(f.rest)
        exact = 1 + f.scv, (1 + f.scv) / 2
        most = [max(x, m.value if m.high is None else m.high) for x, m in zip(exact, means, strict=True)]
        high = _scale(1.9 * most[0], _LIMITS)
        tall = _scale(np.minimum(length, end).max(), _LIMITS)  # the first began before the window
        if (bottom.get_xlim()[1], top.get_ylim()[1]) != (high, tall):
            bottom.set_xlim(0, high)
            top.set_ylim(0, tall)
        for bar, value in zip(bars, (1.0, means[0].value, means[1].value), strict=True):
            bar.set_width(value)
        why = "" if means[0].low is not None else " (no intervals below 1,000 arrivals)"
        texts[0].set(x=1 + 0.015 * high, text=f"1 s{why}")
        for y, m, x, end_, line, text in zip((1, 0), means, exact, most, ranges, texts[1:], strict=True):
            ends = [] if m.low is None else [m.low, m.high]
            line.set_data(ends, [y] * len(ends))
            text.set(x=end_ + 0.015 * high, text=f"{_short(m)} s, theory {x:g} s")
        marks.set_data(exact, (1, 0))
        n = f"{len(f.time):,} arrival{'s' if len(f.time) > 1 else ''}"
        marked = "is a dot" if len(f.time) == 1 else "are dots"
        part = "" if seen.all() else f" ({int(seen.sum())} shown)"
        title.set_text(f"{n}{part}; a dot is the rest of the service that each falls into")
        return (
            f"Above, the rest of the service in progress falls from the service time to 0, again and again; {n} {marked} "
            f"on it. Below, means: a service takes 1 s; those hit take {_short(means[0])} s (theory {exact[0]:g}); the rest "
            f"when hit is {_short(means[1])} s (theory {exact[1]:g}). SCV {f.scv:g}.{why}"
        )

    return [missed, hit, dots, *bars, *ranges, marks, *texts, title], move


def inspection(**setting) -> Explorer:
    """Explorer: draw arrivals into a row of services and see which ones they hit."""
    controls = [
        slider("arrivals", "arrivals", "", 1, 10_000, 20, per_decade=10),
        slider("scv", "SCV of service time", "", 0.0, 9.0, 4.0, step=0.5),
    ]
    return Explorer(
        "head_of_line.inspection", controls, arrivals_find, _inspection_picture,
        sample=True, size=(9, 4.8), setting=setting,
    )  # fmt: skip


# -- explorer: answers of very different length, in three orders ----------------------------------------

MEDIAN_TOKENS, SIGMA, MS_PER_TOKEN, ARRIVAL_RATE = 120, 1.2, 6.0, 0.243376  # the lesson's service
ORDERS = {
    "first come, first served": "fcfs",
    "shortest first": "sjf",
    "processor sharing (continuous batching's limit)": "ps",
}
_RUNS, _RUN = 10, 10_000


def one_at_a_time(
    arrival_rate=ARRIVAL_RATE, median_tokens=MEDIAN_TOKENS, sigma=SIGMA, ms_per_token=MS_PER_TOKEN
) -> theory.MG1:
    """A server that writes one answer at a time; answer lengths are lognormal. Waits come from `.wait_quantile`.

    arrival_rate : requests/s, Poisson; median_tokens : of an answer; sigma : standard deviation of its logarithm.
    ms_per_token : ms to write one token.
    """
    service = workload.lognormal_from_median(median_tokens * ms_per_token / 1000, sigma)
    return theory.MG1.of_law(arrival_rate, service)


def mean_lost(order: str, sigma: float, utilisation: float) -> float:
    """Mean time lost to other requests (response time less the request's own service time), in mean service times.

    M/G/1 with lognormal service: Pollaczek and Khinchin for "fcfs", Phipps (1956) for "sjf", Sakata et al.
    (1971) for "ps".
    """
    from scipy.special import ndtr

    if order == "ps":
        return utilisation / (1 - utilisation)
    residual = utilisation * np.exp(sigma**2) / 2
    if order == "fcfs":
        return float(residual / (1 - utilisation))
    # A request waits for the work of shorter ones alone: a share ndtr(z - sigma) of the load, where z is the
    # normal score of its own length.
    z = np.linspace(-9, 9, 3001)
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    return float(residual * np.sum(density / (1 - utilisation * ndtr(z - sigma)) ** 2) * (z[1] - z[0]))


@lru_cache(maxsize=16)
def _lost(order, sigma, utilisation, seed):
    """Times lost in _RUNS runs of _RUN requests (runs, requests), sorted in each run; mean service time 1."""
    rng = np.random.default_rng(seed)
    gap = rng.standard_exponential((_RUNS, _RUN)) / utilisation
    service = workload.lognormal(1.0, np.expm1(sigma**2)).sample(rng, (_RUNS, _RUN))
    if order == "fcfs":
        lost = simulate.fcfs_waits(gap, service)
    else:
        serve = {"sjf": simulate.shortest_first, "ps": simulate.processor_sharing}[order]
        lost = np.array([serve(np.cumsum(g), s).response - s for g, s in zip(gap, service, strict=True)])
    return np.sort(np.maximum(lost, 0), axis=1)


@dataclass(frozen=True)
class _Tail:
    order: str
    queue: theory.MG1
    tokens: float  # mean length of an answer
    mean: float  # of the time lost, s, in theory
    p99: Estimate
    lost: np.ndarray  # s (runs, requests), sorted in each run
    fcfs: np.ndarray  # s, the same requests, first come, first served


def _p99(lost, utilisation, sigma) -> Estimate:
    """P99 of the time lost by independent runs, where these are long enough to cover (tried at the limits)."""
    if _RUN < 150 * _relaxation(utilisation, np.expm1(sigma**2)):
        pooled = float(np.quantile(lost, 0.99))  # less biased than the mean over short runs
        return Estimate(pooled, reason=f"runs of {_RUN:,} requests are too short here")
    i, part = divmod(0.99 * (_RUN - 1), 1)  # what np.quantile does, on values that are sorted already
    below, above = lost[:, int(i)], lost[:, int(i) + 1]
    return mean_replications(below + part * (above - below))


def _tail_run(sigma, ms_per_token, utilisation, order, seed) -> _Tail:
    tokens = MEDIAN_TOKENS * np.exp(sigma**2 / 2)
    mean_s = tokens * ms_per_token / 1000
    lost, fcfs = (mean_s * _lost(o, sigma, utilisation, seed) for o in (order, "fcfs"))
    return _Tail(
        order,
        one_at_a_time(utilisation / mean_s, MEDIAN_TOKENS, sigma, ms_per_token),
        tokens,
        mean_s * mean_lost(order, sigma, utilisation),
        _p99(lost, utilisation, sigma),
        lost,
        fcfs,
    )


def _share_above(sorted_runs, t) -> np.ndarray:
    """Share of all values that exceed each of the times t; a difference of equal times may be 1e-12."""
    return 1 - sum(np.searchsorted(run, t + 1e-9, side="right") for run in sorted_runs) / sorted_runs.size


def _tail_picture(figure):
    ax = figure.subplots()
    style.room(figure, left=0)
    ax.xaxis.set_major_formatter("{x:,g}")
    ax.set(
        yscale="log", ylim=(1e-3, 1), xlabel="time lost to other requests (s)",
        ylabel="share of requests\nthat lose more", title=" \n ",
    )  # fmt: skip
    ax.set_yticks([1, 0.1, 0.01, 0.001], ["1", "0.1", "0.01", "0.001"])
    ax.minorticks_off()
    ax.axhline(0.01, color=style.GREY, ls=":", lw=1.5)
    other = ax.plot([], [], color=style.GREY, lw=1.6, ls="--")[0]
    line = ax.plot([], [], color=style.BLUE)[0]
    bar = ax.plot([], [], color=style.VERMILLION, lw=4, solid_capstyle="butt")[0]
    point = ax.plot([], [], "o", ms=9, color=style.VERMILLION)[0]
    p99 = style.label(ax, 0, 0.0125, "", style.VERMILLION, in_layout=False)
    p99.set_bbox(dict(facecolor="white", alpha=0.85, lw=0, pad=1))  # the dashed curve may pass behind it
    name = style.label(ax, 0.985, 0.97, "", style.BLUE, transform=ax.transAxes, ha="right", va="top")
    dashed = style.label(ax, 0.985, 0.87, "", style.GREY, transform=ax.transAxes, ha="right", va="top")
    title = ax.set_title(" \n ")
    names = {order: text.partition(" (")[0] for text, order in ORDERS.items()}

    def move(t: _Tail) -> str:
        end = _scale(max(1.6 * t.p99.value, *(x[:, -_RUN // 500].mean() for x in (t.lost, t.fcfs))), _LIMITS)
        if ax.get_xlim()[1] != end:
            ax.set_xlim(0, end)
        at = np.linspace(0, end, 500)
        for curve, values in ((line, t.lost), (other, t.fcfs)):
            curve.set_data(at, _share_above(values, at))
        other.set_visible(t.order != "fcfs")
        name.set_text(names[t.order])
        dashed.set_text("dashed: the same requests, first come, first served" if t.order != "fcfs" else "")
        e, q = t.p99, t.queue
        point.set_data([e.value], [0.01])
        bar.set_data([e.value] * 2 if e.low is None else [e.low, e.high], [0.01] * 2)
        none = "" if e.low is not None else f"no interval: {e.reason}"
        free = e.value < 0.5 * end  # right of the curve; else there is room below it
        said = f"P99 {_short(e)} s\n{style.sentence(none, 28)}".strip()
        x, y = (e.value + 0.01 * end, 0.0125) if free else (e.value - 0.01 * end, 0.008)
        p99.set(x=x, y=y, text=said, ha="left" if free else "right", va="bottom" if free else "top")
        what = "nobody waits" if t.order == "ps" else f"{100 * (1 - q.utilisation):.0f}% do not wait"
        mean = "time lost" if t.order == "ps" else "wait"
        title.set_text(
            f"{q.arrival_rate:.3g} requests/s; mean answer {t.tokens:.0f} tokens = {q.service_mean:.3g} s, "
            f"SCV {q.service_scv:.3g}\nTheory: mean {mean} {_number(t.mean)} s, {what}"
        )
        return (
            f"Share of requests that lose more than a given time to others, on a log axis. {names[t.order].capitalize()}, "
            f"utilisation {q.utilisation:.2g}, answers of {t.tokens:.0f} tokens on average with SCV {q.service_scv:.3g}: "
            f"mean {mean} {_number(t.mean)} s and {what} in theory; P99 {_short(e)} s{none and f' ({none})'} simulated."
        )

    return [line, other, bar, point, p99, name, dashed, title], move


def tokens(**setting) -> Explorer:
    """Explorer: the tail of the time lost to others, for answers of very different length, in three orders."""
    controls = [
        slider("sigma", "sigma of log length", "", 0.4, 1.6, SIGMA, step=0.1),
        slider("ms_per_token", "time per token", "ms", 1.0, 50.0, MS_PER_TOKEN, per_decade=20),
        slider("utilisation", "utilisation ρ", "", 0.05, 0.9, 0.36, step=0.05),
        choice("order", "order of service", ORDERS),
    ]
    return Explorer(
        "head_of_line.tokens", controls, _tail_run, _tail_picture,
        sample=True, size=(9, 4.4), setting=setting,
    )  # fmt: skip


EXPLORERS = (variance, inspection, tokens)

# -- check it -----------------------------------------------------------------------------------------


def mean_waits(utilisation=0.7, scvs=(0.0, 1.0, 4.0, 25.0)) -> Table:
    """Mean wait in theory and simulated for three families of service times with the same mean and SCV."""
    rows = []
    for scv in scvs:
        gap = _unit_numbers(1)[0] / utilisation
        found = []
        for family in FAMILIES.values():
            wait = simulate.fcfs_waits(gap, _services(family, scv, 1))[_WARM_UP:]
            e = _mean_wait(wait, family, scv, utilisation)
            found.append(_short(e) + (" (no interval)" if e.low is None else ""))
        rows.append((f"{scv:g}", theory.MG1(utilisation, 1.0, scv).mean_wait, *found))
    return Table(
        ("SCV", "theory", *(name.partition(":")[0] for name in FAMILIES)),
        tuple(rows),
        f"Mean wait in s at utilisation {utilisation:g}, mean service 1 s. Simulated: one run of {_REQUESTS:,} requests, "
        "the same random numbers in every cell; 95% intervals from 20 batch means. The lognormal with SCV 25 has none: its "
        "longest requests are too rare for this run.",
    )


# -- break it -----------------------------------------------------------------------------------------


def assumptions(utilisation=0.7, scv=4.0, runs=20, n=10_000, together=50) -> Table:
    """Break it: the mean wait when arrivals are not Poisson, or long requests come together."""
    rng = np.random.default_rng(3)
    u, size = rng.random((runs, n)), workload.lognormal(1.0, scv).ppf(rng.random((runs, n)))
    poisson = workload.exponential(1 / utilisation).ppf(u)
    in_blocks = np.sort(size.reshape(runs, -1, together), axis=2).reshape(runs, n)
    cases = {
        "nothing dropped": (poisson, size),
        "arrivals by the clock": (np.full((runs, n), 1 / utilisation), size),
        "arrivals in bursts": (workload.gamma(1 / utilisation, 4).ppf(u), size),
        "long requests come together": (poisson, in_blocks),
    }
    means = {name: simulate.fcfs_waits(gap, x).mean(axis=1) for name, (gap, x) in cases.items()}
    base, *_ = means.values()
    rows = tuple(
        (name, mean_replications(m).brief, "" if m is base else paired(base, m).brief)
        for name, m in means.items()
    )
    return Table(
        ("assumption dropped", "mean wait (s)", "change (s)"),
        rows,
        f"Utilisation {utilisation:g}, mean service 1 s, SCV {scv:g}; in theory "
        f"{theory.MG1(utilisation, 1, scv).mean_wait:.3f} s. Bursts: gamma interarrival times with SCV 4. Together: each "
        f"{together} requests sorted by length. 95% intervals from {runs} runs of {n:,} requests with the same random "
        "numbers in each line.",
    )


def p99_of_runs(n, runs=40, seed=5) -> np.ndarray:
    """P99 of the wait (s) in each of `runs` runs of `n` requests at the lesson's service (one_at_a_time)."""
    rng = np.random.default_rng([seed, n])
    law = one_at_a_time().service_law
    return np.array(
        [
            np.quantile(
                simulate.fcfs_waits(rng.standard_exponential(n) / ARRIVAL_RATE, law.sample(rng, n)), 0.99
            )
            for _ in range(runs)
        ]
    )


def short_runs(sizes=(500, 5_000, 20_000, 200_000), runs=40) -> Still:
    """Break it: the P99 wait that one run reports, 40 times for each length of run."""
    found = {n: p99_of_runs(n, runs) for n in sizes}
    exact = one_at_a_time().wait_quantile(0.99)

    def picture(figure):
        ax = figure.subplots()
        high = 80
        for row, values in enumerate(found.values()):
            y = row + np.linspace(-0.28, 0.28, runs)
            ax.plot(np.minimum(values, high), y, "o", ms=6, color=style.BLUE, alpha=0.5, mew=0)
            spread = values.std(ddof=1) / values.mean()
            style.label(
                ax, 0.99, (row + 0.5) / len(found), f"one run differs by {100 * spread:.0f}%", style.BLUE,
                transform=ax.transAxes, ha="right", va="center",
            )  # fmt: skip
        ax.axvline(exact, color=style.VERMILLION, ls="--")
        style.label(ax, exact + 0.6, len(found) - 0.46, f"theory {exact:.1f} s", style.VERMILLION, va="top")
        ax.set_yticks(range(len(found)), [f"{n:,}" for n in found])
        ax.grid(axis="y", visible=False)
        ax.set(xlim=(0, high), ylim=(-0.5, len(found) - 0.4), xlabel="P99 of the wait in one run (s)")
        ax.set_ylabel("requests in the run")
        ax.set_title(f"{runs} runs of each length; the percentage is their standard deviation")

        def move(_):
            said = "; ".join(f"{n:,} requests: {v.min():.0f} to {v.max():.0f} s" for n, v in found.items())
            return f"P99 wait reported by {runs} runs of each length, exact value {exact:.1f} s. {said}."

        return [], move

    return Still(picture, None)


# -- in LLM serving -----------------------------------------------------------------------------------


def orders(utilisation=0.7, runs=20, n=5_000) -> Table:
    """Mean response time of the same requests in three orders, for four laws of the service time."""
    rng = np.random.default_rng(4)
    arrival = np.cumsum(rng.standard_exponential((runs, n)), axis=1) / utilisation
    u = rng.random((runs, n))
    laws = {
        "constant (SCV 0)": workload.deterministic(1.0),
        "exponential (SCV 1)": workload.exponential(1.0),
        "lognormal (SCV 4)": workload.lognormal(1.0, 4),
        "short or long (SCV 25)": law("two", 25),
    }
    serve = simulate.fcfs, simulate.shortest_first, simulate.processor_sharing
    rows = []
    for name, x in laws.items():
        service = x.ppf(u)
        means = [[f(a, s).response.mean() for a, s in zip(arrival, service, strict=True)] for f in serve]
        rows.append((name, *(plus_minus(mean_replications(m)) for m in means)))
    return Table(
        ("service times", *(text.partition(" (")[0] for text in ORDERS)),
        tuple(rows),
        f"Mean response time in s at utilisation {utilisation:g}, mean service 1 s; theory for processor sharing: "
        f"1 s / (1 − {utilisation:g}) = {1 / (1 - utilisation):.3f} s. ± half a 95% interval from {runs} runs of {n:,} "
        "requests, the same random numbers in every cell.",
    )


def capped(service: workload.Law, longest_s: float, n=4000) -> workload.Law:
    """The law of service times that are cut off at `longest_s`, from `n` quantiles of the law without a cap."""
    return workload.empirical(np.minimum(service.ppf((np.arange(n) + 0.5) / n), longest_s))


def remedies(
    arrival_rate=ARRIVAL_RATE, median_tokens=MEDIAN_TOKENS, sigma=SIGMA, ms_per_token=MS_PER_TOKEN,
    narrower=0.8, longest_tokens=1000,
) -> Table:  # fmt: skip
    """The practitioner's question: half the load, or less variance? Exact waits, one answer at a time.

    arrival_rate : requests/s, Poisson; median_tokens : of an answer; sigma : standard deviation of its logarithm.
    ms_per_token : ms to write one token; narrower : a sigma below today's; longest_tokens : a limit on the answers.
    ValueError where the server cannot keep up, or a number is not positive.
    """
    today = one_at_a_time(arrival_rate, median_tokens, sigma, ms_per_token)
    if not 0 < narrower < sigma:
        raise ValueError(f"narrower={narrower!r} is not between 0 and sigma={sigma:g}; give a smaller sigma than today's.")
    if not longest_tokens > 0:
        raise ValueError(f"longest_tokens={longest_tokens!r} leaves no answer; give a number of tokens above 0.")
    service = today.service_law
    narrow = workload.lognormal_from_median(median_tokens * ms_per_token / 1000, narrower)
    at = theory.MG1.of_law
    cases = {
        f"today: σ = {sigma:g}": today,
        "half the load: two servers": at(arrival_rate / 2, service),
        "half the variance, same mean": at(arrival_rate, workload.lognormal(service.mean, service.scv / 2)),
        f"σ = {narrower:g}, same mean": at(arrival_rate, narrow.scaled(service.mean / narrow.mean)),
        f"σ = {narrower:g}, same median": at(arrival_rate, narrow),
        f"answers cut at {longest_tokens:,} tokens": at(arrival_rate, capped(service, longest_tokens * ms_per_token / 1000)),
    }
    rows = tuple(
        (name, q.utilisation, q.service_mean, q.service_scv, q.mean_wait, q.wait_quantile(0.99))
        for name, q in cases.items()
    )
    return Table(
        ("", "ρ", "E[S] (s)", "SCV", "mean wait (s)", "P99 wait (s)"),
        rows,
        f"{arrival_rate:.3g} requests/s in all, median {median_tokens:g} tokens, {ms_per_token:g} ms per token, one answer "
        "at a time. Two servers: each request goes to either at random. No intervals: theory.",
    )


def real_lengths(utilisation=0.36, runs=20, n=50_000) -> Table:
    """What the real answer lengths of two services would make others wait, one at a time at 6 ms per token."""
    rows, rng = [], np.random.default_rng(6)
    gap = rng.standard_exponential((runs, n)) / utilisation
    u = rng.random((runs, n))
    traces = {"conversation": conversation(), "code completion": code()}
    lengths = {name: workload.empirical(trace.output_tokens) for name, trace in traces.items()}
    lengths["this lesson, σ = 1.2"] = workload.lognormal_from_median(MEDIAN_TOKENS, SIGMA)
    for name, tokens in lengths.items():
        service = tokens.scaled(MS_PER_TOKEN / 1000)
        wait = simulate.fcfs_waits(gap * service.mean, service.ppf(u))
        longest = tokens.ppf(0.99)
        mean = theory.MG1(utilisation / service.mean, service.mean, service.scv).mean_wait
        rows.append(
            (name, tokens.mean, float(longest), tokens.scv, mean, quantile_replications(wait, 0.99).brief)
        )
    return Table(
        ("answer lengths", "mean", "P99", "SCV", "mean wait (s)", "P99 wait (s)"),
        tuple(rows),
        f"{public.names(*traces.values())}. Lengths in tokens, {MS_PER_TOKEN:g} ms each, prompts left out; Poisson arrivals "
        f"at utilisation {utilisation:g}. Mean wait: theory. P99: 95% intervals from {runs} runs of {n:,} requests, "
        "the same random numbers in each line.",
    )
