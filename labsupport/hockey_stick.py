"""Lesson 02, the hockey stick: waiting and response times against utilisation, and what a promise costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .lab import Explorer, Still, Table, choice, slider, style
from .queueing import simulate, statistics, theory
from .queueing.requestlog import RequestLog
from .queueing.statistics import Estimate, mean_replications
from .records import traces
from .records.public import conversation  # noqa: F401  (the lesson calls it by this module's name)

# -- one server, M/M/1, mean service 1 ------------------------------------------------------------------

STATISTICS = {"mean": None, "P50": 0.5, "P95": 0.95, "P99": 0.99}
QUANTITIES = {"response time": "response", "waiting time": "wait"}
NAMES = {value: name for name, value in QUANTITIES.items()}


def exact(utilisation, statistic: str, quantity: str):
    """A statistic of the response or waiting time in M/M/1, in mean service times; arrays allowed."""
    queue, p = theory.MM1(utilisation, 1.0), STATISTICS[statistic]
    return getattr(queue, f"mean_{quantity}") if p is None else getattr(queue, f"{quantity}_quantile")(p)


def measured(times: np.ndarray, statistic: str) -> float:
    """The same statistic of the times of one run."""
    p = STATISTICS[statistic]
    return float(times.mean() if p is None else np.quantile(times, p))


@lru_cache(maxsize=20)
def _units(seed: int, run: int, n: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Unit gaps and services (n + 1,) and one uniform; a longer draw begins with the shorter one."""
    gaps, services, start = (np.random.default_rng([seed, run, part]) for part in range(3))
    return gaps.standard_exponential(n + 1), services.standard_exponential(n + 1), start.random()


def steady_run(utilisation: float, n: int, seed: int, run: int = 0, quantity="response") -> np.ndarray:
    """Times (n,), in mean service times, of an M/M/1 run that begins in its steady state.

    Before it comes one request whose response time is drawn from its long-run law; so the waits that follow have
    theirs from the first one on, and there is no warm-up to leave out. Another utilisation or a larger n uses the
    same unit random numbers; another `run` is independent.
    """
    gaps, services, u = _units(seed, run, max(n, 20_000))
    gaps, services = gaps[: n + 1] / utilisation, services[: n + 1].copy()
    services[0] = -math.log1p(-u) / (1 - utilisation)  # a request before the first: its response time
    times = simulate.fcfs_waits(gaps, services)
    return (times if quantity == "wait" else np.add(times, services, out=times))[1:]


# -- explorer: the curve --------------------------------------------------------------------------------

_RUNS = 10
_GRID = np.append(np.linspace(0.002, 0.9, 120), 1 - np.geomspace(0.098, 1e-5, 80))
_LONG = 50  # autocorrelation times from which on the bias of a run's quantile is a few per cent at most


@dataclass(frozen=True)
class _Point:
    utilisation: float
    statistic: str
    quantity: str
    requests: int
    exact: float
    runs: np.ndarray  # the statistic of each run
    estimate: Estimate

    @property
    def biased(self) -> bool:
        """Whether the runs are so short that the mean of their quantiles is off, however many runs there are."""
        needed = _LONG * theory.mm1_wait_autocorrelation_time(self.utilisation)
        return self.statistic != "mean" and self.requests < needed


def _point(utilisation, statistic, quantity, requests, seed) -> _Point:
    runs = (steady_run(utilisation, requests, seed, run, quantity) for run in range(_RUNS))
    values = np.array([measured(times, statistic) for times in runs])
    value = exact(utilisation, statistic, quantity)
    return _Point(utilisation, statistic, quantity, requests, value, values, mean_replications(values))


def _formula(statistic: str, quantity: str) -> str:
    if statistic == "mean":
        return "S / (1 − ρ)" if quantity == "response" else "ρ S / (1 − ρ)"
    factor = {"P50": 2, "P95": 20, "P99": 100}[statistic]
    return f"ln({factor}) S / (1 − ρ)" if quantity == "response" else f"max(0, ln {factor}ρ) S / (1 − ρ)"


_LIMITS = (12, 30, 120, 300, 600, 2000)  # of the time axis, so that it jumps seldom


def _curve_picture(figure):
    ax = figure.subplots()
    style.room(figure, right=0)
    ax.set(xlim=(0, 1), xlabel="utilisation ρ", ylabel="time (mean service times)")
    ax.set_xticks(np.arange(0, 1.01, 0.1))
    colours = {"response": style.BLUE, "wait": style.VERMILLION}
    lines = {q: ax.plot([], [], color=colours[q], ls=ls)[0] for q, ls in (("response", "-"), ("wait", "--"))}
    names = {
        q: style.label(ax, 0.02, y, "", colours[q], transform=ax.transAxes, va="top")
        for q, y in (("response", 0.97), ("wait", 0.885))
    }
    runs = ax.plot([], [], "_", ms=22, mew=1.6, color=style.GREY, clip_on=False, zorder=3)[0]
    interval = ax.plot([], [], color=style.INK, lw=5, solid_capstyle="butt", zorder=4)[0]
    centre = ax.plot([], [], "o", ms=9, color=style.INK, mec="white", clip_on=False, zorder=5)[0]
    style.label(ax, 0.02, 0.79, "— one run each", style.GREY, transform=ax.transAxes, va="top")
    style.label(ax, 0.02, 0.705, "● mean of the runs, 95% interval", transform=ax.transAxes, va="top")
    short = style.label(ax, 0.02, 0.62, "", style.PURPLE, transform=ax.transAxes, va="top")
    title = ax.set_title("\n ")

    def move(point: _Point) -> str:
        e, u, name = point.estimate, point.utilisation, NAMES[point.quantity]
        most = max(point.exact, e.high, point.runs.max())
        limits = _LIMITS[point.statistic == "P99" :]  # at 12 its curve would run through the labels
        top = next((limit for limit in limits if limit >= most), 1.1 * most)
        if ax.get_ylim() != (0, top):
            ax.set_ylim(0, top)
        for q, line in lines.items():
            line.set_data(_GRID, exact(_GRID, point.statistic, q))
            line.set(linewidth=3.5 if q == point.quantity else 1.3)
            names[q].set_text(
                f"{point.statistic.capitalize()} of the {NAMES[q]}: {_formula(point.statistic, q)}"
                + ", dashed" * (q == "wait")
            )
        runs.set_data(np.full(_RUNS, u), point.runs)
        interval.set_data([u, u], [max(e.low, 0), e.high])
        centre.set_data([u], [e.value])
        short.set_text(f"runs this short give a biased {point.statistic}" if point.biased else "")
        span = f"{point.runs.min():.3g} to {point.runs.max():.3g}"
        head = f"{point.statistic.capitalize()} of the {name} at ρ = {u:g}"
        times = f"{point.exact:.3g} mean service time{'' if f'{point.exact:.3g}' == '1' else 's'}"
        title.set_text(
            f"{head}: {times} by the formula\n"
            f"{_RUNS} runs of {point.requests:,} requests: {e.brief}, single runs {span}"
        )
        bias = " The runs are too short for this quantile: their mean is biased." if point.biased else ""
        return (
            f"The {point.statistic} of the waiting time and of the response time against utilisation, both rising without "
            f"bound towards 1. At utilisation {u:g} the {name} is {times} by the formula. "
            f"{_RUNS} simulated runs of {point.requests:,} requests give {span}; their mean with its 95% interval is "
            f"{e.brief}.{bias}"
        )

    return [*lines.values(), *names.values(), runs, interval, centre, short, title], move


def curve(**setting) -> Explorer:
    """Explorer: mean and percentiles of the waiting and response time against utilisation, with ten runs."""
    controls = [
        slider("utilisation", "utilisation ρ", "", 0.05, 0.99, 0.5, step=0.01),
        choice("statistic", "statistic", list(STATISTICS)),
        choice("quantity", "of the", QUANTITIES),
        slider("requests", "requests per run", "", 1000, 400_000, 20_000, per_decade=10),
    ]
    return Explorer(
        "hockey_stick.curve", controls, _point, _curve_picture, sample=True, size=(9, 4.6), setting=setting
    )


# -- explorer: the promise ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Allowed:
    """What a promise leaves of a server. `rate` is None where not even an idle server keeps the promise.

    statistic : "mean", "P95", ... that is promised; idle_s : its value in an idle server, s.
    rate : largest arrival rate in requests/s for one server; servers : how many the whole load needs.
    """

    statistic: str
    idle_s: float
    rate: float | None
    utilisation: float | None
    servers: int | None

    @property
    def hours(self) -> int | None:
        """Server-hours (GPU-hours, if a server is a GPU) in a day."""
        return None if self.servers is None else 24 * self.servers


def allowed(target_s, service_s, load, statistic, quantity="response") -> Allowed:
    """The utilisation at which M/M/1 servers keep a promise, and how many of them `load` requests/s need.

    Each server has its own queue and gets its share of the requests at random, so each is M/M/1.

    target_s : longest time allowed, s; service_s : mean service time, s; load : requests/s for all servers together.
    statistic : what must stay within the target, "mean" or a percentile such as "P99"; quantity : of the "response"
    or of the "wait". ValueError in one sentence where a number is not positive or a word is unknown.
    """
    for name, value, unit in (("target_s", target_s, "seconds"), ("service_s", service_s, "seconds"),
                              ("load", load, "requests per second")):  # fmt: skip
        if not 0 < value < math.inf:
            raise ValueError(f"{name}={value!r} is not a positive finite number; give {unit} above 0.")
    p, work = _share(statistic), load * service_s
    idle = 0.0 if quantity == "wait" else service_s * (1 if p is None else -math.log1p(-p))
    if target_s <= idle:
        return Allowed(statistic, idle, None, None, None)
    rate = theory.largest_rate(theory.MM1(0.5 / service_s, service_s), target_s, quantity, p)
    servers = math.ceil(load / rate * (1 - 1e-9))  # a whole number of servers is not rounded up
    return Allowed(statistic, idle, rate, rate * service_s, max(servers, math.floor(work) + 1))


def _share(statistic: str) -> float | None:
    """0.99 for "P99", None for "mean"."""
    try:
        p = None if statistic == "mean" else float(statistic.removeprefix("P")) / 100
    except (AttributeError, ValueError):
        p = math.nan
    if p is not None and not 0 < p < 1:
        raise ValueError(f'statistic={statistic!r} is unknown; give "mean" or a percentile such as "P99".')
    return p


_PROMISED = {"mean": style.GREEN, "P95": style.BLUE, "P99": style.VERMILLION}


@dataclass(frozen=True)
class _Promise:
    quantity: str
    target: float
    service: float
    load: float
    rows: tuple[Allowed, ...]

    def __getitem__(self, statistic: str) -> Allowed:
        return next(row for row in self.rows if row.statistic == statistic)

    @property
    def work(self) -> int:
        """Servers that the work alone would fill, with no time promised."""
        return math.ceil(self.load * self.service * (1 - 1e-9))


def _promise(quantity, target, service, load) -> _Promise:
    rows = tuple(allowed(target, service, load, statistic, quantity) for statistic in _PROMISED)
    return _Promise(quantity, target, service, load, rows)


def _many(number: float, unit: str = "") -> str:
    text = f"{number:,.0f}" if number < 1e6 else f"{number / 1e6:,.3g} M"
    return f"{text} {unit}{'s' if number != 1 else ''}" if unit else text


def _percent(utilisation: float) -> str:
    text = f"{100 * utilisation:.3g}%"
    return text if text != "100%" else "over 99.9%"


def _promise_picture(figure):
    left, right = figure.subplots(1, 2)
    style.room(figure, left=0.045, right=0)
    left.set(xlim=(0, 1), xlabel="utilisation ρ", ylabel="time (s)")
    left.yaxis.set_major_formatter("{x:g}")
    right.set(xlim=(0, 100), ylim=(-0.5, 2.7), xlabel="allowed utilisation (%)")
    right.set_yticks(range(3), [*_PROMISED][::-1])
    right.grid(visible=False, axis="y")
    target = left.plot([0, 1], [1, 1], color=style.INK, ls="--", lw=1.6)[0]
    lines, drops, points, names, bars, texts = {}, {}, {}, {}, {}, {}
    for y, (statistic, colour) in zip((2, 1, 0), _PROMISED.items(), strict=True):
        lines[statistic] = left.plot([], [], color=colour)[0]
        drops[statistic] = left.plot([], [], color=colour, ls=":", lw=1.6)[0]
        points[statistic] = left.plot([], [], "o", ms=9, color=colour, zorder=5, clip_on=False)[0]
        names[statistic] = style.label(left, 0, 0, "", colour, va="bottom")
        bars[statistic] = right.barh(y, 0, height=0.3, color=colour)[0]
        texts[statistic] = style.label(right, 1, y + 0.2, "", colour, va="bottom", fontsize=12)
    head, cost = left.set_title("\n "), right.set_title("\n ")
    steps = [a * 10.0**k for k in range(-3, 4) for a in (1, 2, 5)]

    def move(promise: _Promise) -> str:
        idle = max(row.idle_s for row in promise.rows)  # where the highest curve begins
        top = next(step for step in steps if step >= max(1.9 * promise.target, 1.15 * idle))
        if left.get_ylim() != (0, top):
            left.set_ylim(0, top)
        target.set_ydata([promise.target] * 2)
        said = []
        level, before = 0, 0.0
        for row in sorted(promise.rows, key=lambda row: row.utilisation or 0):
            s = row.statistic
            lines[s].set_data(_GRID, promise.service * exact(_GRID, s, promise.quantity))
            if row.rate is None:
                x, y, u, need = [], [], 0, f"not kept: {row.idle_s:.3g} s in an idle server"
                said.append(f"{s}: not kept even by an idle server, which takes {row.idle_s:.3g} s")
            else:
                x, y, u = [row.utilisation] * 2, [0, promise.target], row.utilisation
                need = f"{_percent(u)}: {_many(row.servers, 'server')}, {_many(row.hours)} h/day"
                said.append(f"{s}: {need}")
            drops[s].set_data(x, y)
            points[s].set_data(x[:1], y[1:])
            beside = dict(x=u - 0.015, ha="right") if u > 0.15 else dict(x=u + 0.02, ha="left")
            level, before = (level + 1 if x and u - before < 0.16 else 0), u  # names that would touch
            height = promise.target + (0.02 + 0.09 * level) * top if x else row.idle_s + 0.03 * top
            names[s].set(text=s, y=height, **beside)
            bars[s].set_width(100 * u)
            texts[s].set_text(need)
        what = NAMES[promise.quantity]
        head.set_text(
            f"{what.capitalize()}, mean service {promise.service:g} s\ndashed: the promise, {promise.target:g} s"
        )
        work = f"{promise.load:,g}/s: work for {_many(promise.work, 'server')}"
        cost.set_text(f"{work}\nand to keep the promise:")
        return (
            f"Mean, P95 and P99 of the {what} against utilisation for a mean service of {promise.service:g} s, and what a "
            f"promise of {promise.target:g} s allows. Requests at {work}. Allowed utilisation, servers, server-hours a day: "
            f"{'; '.join(said)}."
        )

    moving = [target, head, cost]
    for group in (lines, drops, points, names, bars, texts):
        moving += group.values()
    return moving, move


def promise(**setting) -> Explorer:
    """Explorer: which utilisation a promise on mean, P95 or P99 allows, and how many servers that takes."""
    controls = [
        choice("quantity", "promise on the", QUANTITIES),
        slider("target", "longest time allowed", "s", 0.1, 60.0, 2.0, per_decade=20),
        slider("service", "mean service time", "s", 0.01, 10.0, 0.2, per_decade=20),
        slider("load", "load to carry", "requests/s", 1.0, 1000.0, 120.0, per_decade=20),
    ]
    return Explorer("hockey_stick.promise", controls, _promise, _promise_picture, setting=setting)


EXPLORERS = (curve, promise)

# -- why and check it -----------------------------------------------------------------------------------


def two_times(arrival_rate=8.0, service_s=0.1) -> Table:
    """Waiting and response time of one server under their own names: means, median and P99, in s."""
    queue = theory.MM1(arrival_rate, service_s)
    rows = tuple(
        (
            NAMES[q],
            getattr(queue, f"mean_{q}"),
            *(getattr(queue, f"{q}_quantile")(p) for p in (0.5, 0.95, 0.99)),
            inside,
        )
        for q, inside in (("wait", queue.mean_queue), ("response", queue.mean_in_system))
    )
    return Table(
        ("time", "mean (s)", "P50 (s)", "P95 (s)", "P99 (s)", "requests, λ × mean"),
        rows,
        f"M/M/1 with λ = {arrival_rate:g}/s, S = {service_s:g} s, ρ = {queue.utilisation:g}. No intervals: formulas.",
    )


def one_more_point(utilisations=(0.5, 0.8, 0.9, 0.95, 0.98)) -> Table:
    """The price of one more point of utilisation: growth of the mean response time."""
    rows = []
    for u in utilisations:
        before, after = (exact(x, "mean", "response") for x in (u, u + 0.01))
        rows.append((f"{u:.0%} → {u + 0.01:.0%}", before, after, f"+{100 * (after / before - 1):.3g}%"))
    return Table(
        ("utilisation", "W / S before", "W / S after", "growth"),
        tuple(rows),
        "No intervals: W = S / (1 − ρ).",
    )


def check_formulas(utilisations=(0.5, 0.7, 0.8, 0.9, 0.95), n=100_000, runs=20, seed=2) -> Table:
    """Mean and P99 of the response time, formula beside simulation, in mean service times."""
    rows = []
    for u in utilisations:
        values = {"mean": [], "P99": []}
        for run in range(runs):
            times = steady_run(u, n, seed, run)
            for statistic, seen in values.items():
                seen.append(measured(times, statistic))
        row = [f"{u:g}"]
        for statistic, seen in values.items():
            row += [exact(u, statistic, "response"), mean_replications(seen).brief]
        rows.append(tuple(row))
    return Table(
        ("ρ", "mean W / S", "simulated", "P99 / S", "simulated"),
        tuple(rows),
        f"95% intervals from {runs} runs of {n:,} requests; the same random numbers in each row.",
    )


def one_run(utilisation=0.95, n=400_000, runs=40, seed=3) -> Table:
    """How far one long run is off, and what an interval claims that takes its requests for independent."""
    from scipy.stats import binomtest

    seen = {"mean": [], "P99": []}
    for run in range(runs):
        times = steady_run(utilisation, n, seed, run)
        for statistic, estimates in seen.items():
            estimates.append(_as_if_independent(times, statistic))
    columns = []
    for statistic, estimates in seen.items():
        true = exact(utilisation, statistic, "response")
        off = [100 * abs(e.value / true - 1) for e in estimates]
        claimed = 100 * np.mean([e.half_width for e in estimates]) / true
        hits = sum(e.covers(true) for e in estimates)
        share = binomtest(hits, runs).proportion_ci()
        columns.append(
            (
                f"{true:.4g}",
                mean_replications([e.value for e in estimates]).brief,
                f"{mean_replications(off).brief} %",
                f"{max(off):.3g} %",
                f"±{claimed:.1g} %",
                f"{hits} of {runs} [{share.low:.0%}, {share.high:.0%}]",
            )
        )
    lines = (
        "formula", "mean of all runs", "one run is off by, on average", "the worst run is off by",
        "a naive interval* claims", "which holds in, runs",
    )  # fmt: skip
    return Table(
        ("", *seen),
        tuple(zip(lines, *columns, strict=True)),
        f"Response time / S at ρ = {utilisation:g}, {runs} runs of {n:,} requests; 95% intervals from the runs. The "
        "worst has none: it is the largest seen. *From one run, as if its requests were independent.",
    )


def _as_if_independent(times: np.ndarray, statistic: str) -> Estimate:
    p = STATISTICS[statistic]
    return mean_replications(times) if p is None else statistics.quantile(times, p)


# -- break it -------------------------------------------------------------------------------------------


def overload(loads=(0.8, 0.95, 1.0, 1.05), n=3000, runs=1000, seed=4) -> Still:
    """Break it: the expected wait of the k-th request after an empty start, below, at and above a load of 1."""
    rng = np.random.default_rng(seed)
    gaps, services = rng.standard_exponential((2, runs, n))
    k = np.linspace(0, n - 1, 40).astype(int)
    simulated = {
        u: [mean_replications(w) for w in simulate.fcfs_waits(gaps / u, services)[:, k].T] for u in loads
    }
    formula = {u: theory.mm1_transient_wait(u, 1.0, n) for u in loads}

    def picture(figure):
        ax = figure.subplots()
        for (u, means), colour in zip(simulated.items(), style.CYCLE, strict=False):
            ax.fill_between(
                k, [e.low for e in means], [e.high for e in means], color=colour, alpha=0.25, lw=0
            )
            ax.plot(np.arange(n)[::10], formula[u][::10], color=colour)
            state = "" if u < 1 else ", unstable"
            style.label(ax, n + 20, formula[u][-1], f"ρ = {u:g}{state}", colour, va="center")
        ax.set(xlim=(0, 1.28 * n), ylim=(0, None), xlabel="requests since the empty start")
        ax.set(ylabel="mean waiting time\n(mean service times)")
        ax.set_xticks(np.arange(0, n + 1, 500))
        ax.set_title(f"Lines: exact. Bands: 95% from {runs:,} runs, the same random numbers at each load")

        def move(_):
            said = ", ".join(f"{simulated[u][-1].brief} at load {u:g}" for u in loads)
            return (
                f"Mean waiting time of the k-th request after an empty start. At request {n:,} it is {said} mean service "
                "times, with 95% intervals. Below 1 it settles; from 1 on it grows for as long as the run lasts."
            )

        return [], move

    return Still(picture, None, size=(9, 4.2))


def uneven_load(halves=((0.75, 0.75), (0.65, 0.85), (0.55, 0.95)), half=100_000, runs=30, seed=5) -> Table:
    """Break it: the same average utilisation, made of two halves; response times in mean service times."""
    rows = []
    for pair in halves:
        values = [_two_halves(pair, half, np.random.default_rng([seed, run])) for run in range(runs)]
        mean, p99 = (mean_replications(column).brief for column in zip(*values, strict=True))
        by_formula = half_by_half(pair)
        rows.append((f"{pair[0]:.0%}, {pair[1]:.0%}", by_formula[0], mean, by_formula[1], p99))
    return Table(
        ("halves", "mean*", "simulated", "P99*", "simulated"),
        tuple(rows),
        f"Response time / S, each half {half:,} mean service times long. *Formula for each half, weighted by requests. "
        f"95% intervals from {runs} runs, the same random numbers in each row.",
    )


def _two_halves(pair, half, rng) -> tuple[float, float]:
    """Mean and P99 of the response time of one run with arrival rate pair[0], then pair[1] (service mean 1)."""
    n = int(2.2 * half)
    expected = np.cumsum(rng.standard_exponential(n))  # arrivals of rate 1, on the axis of expected arrivals
    edges = np.array([0, half * pair[0], half * sum(pair)])
    arrival = np.interp(expected[expected < edges[-1]], edges, [0, half, 2 * half])
    response = simulate.fcfs(arrival, rng.standard_exponential(n)[: len(arrival)]).response
    return float(response.mean()), float(np.quantile(response, 0.99))


def half_by_half(pair) -> tuple[float, float]:
    """Mean and P99 of the response time if each half is an M/M/1 queue in its steady state (service mean 1)."""
    from scipy.optimize import brentq

    u = np.asarray(pair, float)
    share = u / u.sum()  # of the requests
    queue = theory.MM1(u, 1.0)
    p99 = brentq(lambda t: share @ queue.response_cdf(t) - 0.99, 0, queue.response_quantile(0.99).max() + 1)
    return float(share @ queue.mean_response), float(p99)


# -- in LLM serving: a prefill server -------------------------------------------------------------------


def bill(target_s=2.0, service_s=0.2, load=120.0) -> Table:
    """What a promise on the response time costs: GPUs and GPU-hours for the mean, P95 and P99."""
    p = _promise("response", target_s, service_s, load)
    rows = [("none: always busy", "100%", p.work, f"{24 * p.work:,}", "")]
    needed = [(row.statistic, row.servers) for row in p.rows]
    shared = theory.smallest_servers(load, service_s, target_s, p=0.99) if p["P99"].servers else None
    for name, gpus in [*needed, ("P99, one shared queue", shared)]:
        if gpus is None:  # more GPUs do not help
            rows.append((name, "not kept by an idle GPU", "–", "–", "–"))
            continue
        extra = f"+{gpus / p.work - 1:.0%}"
        rows.append((name, f"{load * service_s / gpus:.0%}", gpus, f"{24 * gpus:,}", extra))
    return Table(
        (f"promise: ≤ {target_s:g} s", "utilisation", "GPUs", "GPU-hours/day", "extra"),
        tuple(rows),
        f"{load:g} requests/s, {service_s:g} s each on average; one queue per GPU (M/M/1), or one for all (M/M/c). "
        "No intervals: formulas.",
    )


def prefill(trace: traces.Trace, tokens_per_s: float) -> RequestLog:
    """The trace's prompts through one prefill server, one prompt at a time; the response time is the TTFT."""
    return simulate.fcfs(trace.arrival, trace.prompt_tokens / tokens_per_s)


def offered_tokens(trace: traces.Trace) -> float:
    """Prompt tokens per second, averaged over the trace: a speed of this much would be 100% utilisation."""
    return float(trace.prompt_tokens.sum() / (trace.arrival[-1] - trace.arrival[0]))


def replay_utilisation(trace: traces.Trace, target_s: float, p=0.99) -> float:
    """The largest average utilisation at which a share p of the trace's prompts has its first token in time."""
    offered, low, high = offered_tokens(trace), 0.001, 1.0
    for _ in range(30):  # a faster server is never worse
        middle = (low + high) / 2
        kept = np.quantile(prefill(trace, offered / middle).response, p) <= target_s
        low, high = (middle, high) if kept else (low, middle)
    return low


def formula_utilisation(rate: float, target_s: float, p=0.99) -> float:
    """The utilisation at which an M/M/1 server with `rate` requests/s keeps the p-quantile of the response time.

    Not the number of requests changes here but the speed of the server: from P(response > t) =
    exp(-(mu - lambda) t) follows mu = lambda + ln(1 / (1 - p)) / t.
    """
    return rate / (rate - math.log1p(-p) / target_s)


def busy_minutes(trace: traces.Trace, target_s=2.0, average=0.6) -> Still:
    """The trace through one prefill server: load minute by minute, and P99 of TTFT against the average load."""
    offered, rate = offered_tokens(trace), len(trace.arrival) / (trace.arrival[-1] - trace.arrival[0])
    edges = np.arange(0, trace.arrival[-1], 60.0)  # whole minutes only
    tokens = np.histogram(trace.arrival, edges, weights=trace.prompt_tokens)[0]
    load = 100 * average * tokens / 60 / offered
    u = np.round(np.arange(0.1, 0.951, 0.05), 2)
    p99 = [np.quantile(prefill(trace, offered / x).response, 0.99) for x in u]
    kept, promised = replay_utilisation(trace, target_s), formula_utilisation(rate, target_s)

    def picture(figure):
        left, right = figure.subplots(1, 2)
        left.stairs(load, edges / 60, baseline=None, color=style.BLUE, lw=1.8)
        left.axhline(100 * average, color=style.INK, ls="--", lw=1.5)
        left.axhline(100, color=style.VERMILLION, ls="--", lw=1.5)
        levels = f"dashed: average {average:.0%}, capacity 100%"
        style.label(left, 0.99, 0.03, levels, transform=left.transAxes, ha="right")
        left.set(xlabel="time (minutes)", ylabel="load in each minute (%)")
        left.set(xlim=(0, edges[-1] / 60), ylim=(0, None))
        left.set_title(f"{(load > 100).sum()} of {len(load)} minutes bring more than 100%")
        right.plot(_GRID, exact(_GRID, "P99", "response") * _GRID / rate, color=style.GREY)
        right.plot(u, p99, "o-", color=style.BLUE)
        right.axhline(target_s, color=style.INK, ls="--", lw=1.5)
        style.label(right, 0.02, target_s, f"promise: {target_s:g} s", va="bottom")
        style.label(right, 0.60, 0.3, "M/M/1", style.GREY)
        style.label(right, 0.40, 100, "this hour", style.BLUE, ha="right")
        right.set(yscale="log", xlim=(0, 1), ylim=(0.05, 2000))
        right.set(xlabel="average utilisation", ylabel="P99 of TTFT (s)")
        right.set_yticks([0.1, 1, 10, 100, 1000], ["0.1", "1", "10", "100", "1,000"])
        figure.suptitle(f"{trace.name}: one prefill server", x=0.01, ha="left", fontsize=13)
        right.set_title(f"≤ {target_s:g} s: M/M/1 up to {promised:.0%}, this hour {kept:.0%}")

        def move(_):
            return (
                f"{trace.name}: prompts through one prefill server. Left, the load of each minute when the average is "
                f"{average:.0%}: {(load > 100).sum()} of {len(load)} minutes bring more than 100%, the busiest "
                f"{load.max():.0f}%. Right, P99 of the time to first token against average utilisation: the M/M/1 formula "
                f"keeps {target_s:g} s up to {promised:.0%}, this hour only up to {kept:.0%}."
            )

        return [], move

    return Still(picture, None)


def prefill_speed(trace: traces.Trace, target_s=2.0, minutes=10) -> Table:
    """The prefill speed that a promise on P99 of TTFT needs: by formula for two rates, and by replay."""
    hour = trace.arrival[-1] - trace.arrival[0]
    edges = np.arange(0, trace.arrival[-1], 60.0)
    count = np.histogram(trace.arrival, edges)[0]
    tokens = np.histogram(trace.arrival, edges, weights=trace.prompt_tokens)[0]
    window = np.ones(min(minutes, len(count)))
    count, tokens = np.convolve(count, window, "valid"), np.convolve(tokens, window, "valid")
    busiest = tokens.argmax()
    rows = []
    for name, n, sum_tokens, seconds in (
        ("formula, whole trace", len(trace.arrival), trace.prompt_tokens.sum(), hour),
        (f"formula, busiest {len(window)} min", count[busiest], tokens[busiest], 60 * len(window)),
    ):
        rate = n / seconds
        speed = sum_tokens / n * rate / formula_utilisation(rate, target_s)
        rows.append((name, float(rate), f"{sum_tokens / n:,.0f}", speed))
    kept = replay_utilisation(trace, target_s)
    rows.append(
        (
            "replay",
            len(trace.arrival) / hour,
            f"{trace.prompt_tokens.mean():,.0f}",
            offered_tokens(trace) / kept,
        )
    )
    average = offered_tokens(trace)
    return Table(
        ("how", "prompts/s", "tokens each", "tokens/s needed", "ρ"),
        tuple((*row[:3], f"{row[3]:,.0f}", f"{average / row[3]:.0%}") for row in rows),
        f"{trace.name}; prefill speed for P99 of TTFT ≤ {target_s:g} s, and the average utilisation ρ then. No intervals: "
        "formulas, and one recorded trace.",
    )
