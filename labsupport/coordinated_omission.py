"""Lesson 08, coordinated omission: what a load generator that waits leaves out, and two ways to put it back."""

from __future__ import annotations

import io
import math
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .lab import Explorer, Still, Table, choice, slider, style
from .lab.table import plus_minus
from .queueing import simulate
from .queueing.simulate import Stalls
from .queueing.statistics import Estimate, backfill, mean_replications, quantile_replications

SERVICE_S = 0.001  # mean service time of the simulated server, exponential
SLOW_S = 0.020  # no request is that slow by itself: P(service > 20 ms) = e^-20

# -- users and tools on a server that stalls --------------------------------------------------------------


def early(length_s: float, period_s: float) -> Stalls:
    """Stalls that leave nearly all of the working time of a period after them, to catch up."""
    return Stalls(length_s, period_s, 0.05 * (period_s - length_s))


@lru_cache(maxsize=24)
def _units(kind: str, seed: int, run: int, n: int) -> np.ndarray:
    """n unit exponential variates; "gap", "user" and "tool" draw apart, and a longer draw begins with the shorter."""
    return np.random.default_rng([("gap", "user", "tool").index(kind), seed, run]).standard_exponential(n)


def _drawn(kind, seed, run, n):
    return _units(kind, seed, run, 1 << max(10, math.ceil(math.log2(n))))[:n]


def users(stalls: Stalls, rate: float, seed: int, run: int = 0, periods: int = 1) -> np.ndarray:
    """Response times in s of open users at `rate` per s, who come during `periods` periods of the stalls."""
    span = periods * stalls.period_s
    n = int(rate * span + 6 * math.sqrt(rate * span) + 20)  # six standard deviations above the mean
    arrival = np.cumsum(_drawn("gap", seed, run, n)) / rate
    arrival = arrival[arrival < span]
    return simulate.stalled(
        arrival, SERVICE_S * _drawn("user", seed, run, n)[: len(arrival)], stalls
    ).response


@dataclass(frozen=True)
class Recorded:
    """What a tool with one connection recorded, in s; `intended` is None where there was no schedule.

    sent : from the actual send; intended : from the intended one; interval : what it thinks lies between sends.
    """

    sent: np.ndarray
    intended: np.ndarray | None
    interval: float

    @property
    def filled(self) -> np.ndarray:
        """`sent` with what was not sent filled in (HdrHistogram's correction)."""
        return backfill(self.sent, self.interval)


def tool(stalls: Stalls, pacing: float, seed: int, run: int = 0, periods: int = 1) -> Recorded:
    """A tool with one connection that has a server to itself: one request every `pacing` s, 0: back to back.

    A request is never sent before the answer to the last one is there.
    """
    span = periods * stalls.period_s
    if pacing:
        due = np.arange(0, span - 1e-9, pacing)
        finish = simulate.stalled(due, SERVICE_S * _drawn("tool", seed, run, len(due)), stalls).finish
        send = np.maximum(due, np.concatenate([[0], finish[:-1]]))
        return Recorded(finish - send, finish - due, pacing)
    n = int(1.05 * span / SERVICE_S + 1000)
    finish = stalls.reached(np.cumsum(SERVICE_S * _drawn("tool", seed, run, n)))
    sent = np.diff(finish, prepend=0.0)[
        : 1 + np.searchsorted(finish, span)
    ]  # each is sent at the finish before
    return Recorded(sent, None, span / len(sent))


def fluid_quantile(p: float, stalls: Stalls, rate: float, service_s=SERVICE_S) -> float:
    """p-quantile in s of the open users' response time, by the stalls alone.

    Who comes t s after a stall began waits length - (1 - rho) t s: for the rest of it and for those who came
    before. So P(response > x) = (length - x) / ((1 - rho) period).
    """
    return max(stalls.length_s - (1 - p) * (1 - rate * service_s) * stalls.period_s, 0.0)


def fluid_mean(stalls: Stalls, rate: float, service_s=SERVICE_S) -> float:
    """Mean response time in s by the stalls, and the service on top: length² / (2 (1 - rho) period) + S."""
    return stalls.length_s**2 / (2 * (1 - rate * service_s) * stalls.period_s) + service_s


# -- explorer: the stall ----------------------------------------------------------------------------------

_RUNS = 10
_NINES = np.linspace(0, 4, 161)
_PACING = {"back to back": 0.0, "one every 10 ms": 0.01, "one every 100 ms": 0.1}
_CORRECTION = {"off: what it waited for": False, "on: back-filled afterwards": True}


@dataclass(frozen=True)
class _Stall:
    stalls: Stalls
    true: tuple  # quantiles in s at _NINES
    recorded: tuple
    true_p99: Estimate
    tool_p99: Estimate
    slow: tuple[float, float]  # users' and tool's values above SLOW_S, per stall
    corrected: bool
    load: float


def _stall(length, period, rate, pacing, corrected, seed) -> _Stall:
    stalls = early(length, period)
    true = [users(stalls, rate, seed, run) for run in range(_RUNS)]
    tools = [tool(stalls, pacing, seed, run) for run in range(_RUNS)]
    recorded = [t.filled if corrected else t.sent for t in tools]
    true_curve, recorded_curve = _curve(true), _curve(recorded)
    return _Stall(
        stalls,
        true_curve,
        recorded_curve,
        _p99(true, true_curve),
        _p99(recorded, recorded_curve),
        tuple(sum(int(np.sum(r > SLOW_S)) for r in runs) / _RUNS for runs in (true, recorded)),
        corrected,
        rate * SERVICE_S / (1 - length / period),
    )


def _curve(runs):
    """Nines and the pooled quantiles there, in ms, up to where one value is left above."""
    pooled = 1e3 * np.concatenate(runs)
    nines = _NINES[_NINES <= math.log10(len(pooled))]
    at = np.minimum(((1 - 10.0**-nines) * len(pooled)).astype(int), len(pooled) - 1)
    pooled.sort()
    return nines, pooled[at]


def _p99(runs, curve) -> Estimate:
    """P99 in ms of all runs together, as drawn, with the spread of the runs' own; of a short run alone it is too low."""
    value = float(curve[1][np.searchsorted(curve[0], 2.0)])
    half = quantile_replications([1e3 * r for r in runs], 0.99).half_width
    return Estimate(value, max(value - half, 0.0), value + half, method="runs", n=len(runs))


def _nines_axis(ax, most=4):
    ax.set(xlim=(0, most), ylim=(0.1, 20_000), yscale="log", ylabel="response time (ms)")
    ax.set(xlabel="share of the requests that were at most so slow: one more nine at each step")
    ticks = {0: "0", 0.301: "50%", 1: "90%", 2: "99%", 3: "99.9%", 4: "99.99%"}
    ax.set_xticks([x for x in ticks if x <= most], [text for x, text in ticks.items() if x <= most])
    ax.set_yticks([0.1, 1, 10, 100, 1000, 10_000], ["0.1", "1", "10", "100", "1,000", "10,000"])
    ax.minorticks_off()
    ax.axvline(2, color=style.GREY, ls=":", lw=1.5)


def _brief(e: Estimate) -> str:
    return (
        f"{e.value:,.3g} [{e.low:,.3g}, {e.high:,.3g}]"
        if e.high < 1000
        else f"{e.value:,.0f} [{e.low:,.0f}, {e.high:,.0f}]"
    )


def _stall_picture(figure):
    ax = figure.subplots()
    figure.get_layout_engine().set(rect=(0, 0, 0.985, 1))  # the last tick's label is centred on the edge
    _nines_axis(ax)
    lines = [ax.plot([], [], color=c, lw=2.6)[0] for c in (style.BLUE, style.VERMILLION)]
    marks = [ax.plot([], [], "o", ms=10, color=c)[0] for c in (style.BLUE, style.VERMILLION)]
    bars = [ax.plot([], [], color=style.INK, lw=2.5, zorder=4)[0] for _ in range(2)]
    said = [
        style.label(ax, 0, y, "", c, transform=ax.transAxes, va="bottom")
        for y, c in ((1.085, style.BLUE), (1.015, style.VERMILLION))
    ]
    note = style.label(ax, 0.985, 0.03, "", style.INK, transform=ax.transAxes, ha="right", fontsize=12)
    names = [style.label(ax, 2.07, 1, name, c) for name, c in (("users", style.BLUE), ("tool", style.VERMILLION))]
    ax.set_title(" \n ", fontsize=12)

    def move(m: _Stall) -> str:
        for line, mark, bar, (x, y), e in zip(
            lines, marks, bars, (m.true, m.recorded), (m.true_p99, m.tool_p99), strict=True
        ):
            line.set_data(x, y)
            mark.set_data([2], [e.value])
            bar.set_data([2, 2], np.clip([e.low, e.high], 0.1, 20_000))
        upper = int(m.tool_p99.value > m.true_p99.value)  # its name stands above its point where there is room
        for k, e in enumerate((m.true_p99, m.tool_p99)):
            above = k == upper and e.value < 8000
            names[k].set(y=e.value * (1.35 if above else 0.72), va="bottom" if above else "top")
        unstable = "  (unstable: grows with the run)" if m.load >= 1 else ""
        how = ", back-filled" if m.corrected else ""
        said[0].set_text(f"users: P99 = {_brief(m.true_p99)} ms{unstable}")
        said[1].set_text(f"tool{how}: P99 = {_brief(m.tool_p99)} ms")
        note.set_text(
            f"slower than 20 ms, per stall: {m.slow[0]:,.4g} of the users' requests, {m.slow[1]:,.4g} of the tool's\n"
            f"P99 with 95% intervals from {_RUNS} runs of one period"
        )
        return (
            f"Percentiles of the response time on an axis of nines; stalls of {m.stalls.length_s:g} s every "
            f"{m.stalls.period_s:g} s. Users: P99 {_brief(m.true_p99)} ms{unstable}. Tool{how}: P99 "
            f"{_brief(m.tool_p99)} ms; 95% intervals from {_RUNS} runs of one period. "
            f"Slower than 20 ms per stall: {m.slow[0]:.4g} requests of users, "
            f"{m.slow[1]:.4g} of the tool."
        )

    return [*lines, *marks, *bars, *said, *names, note], move


def stall(**setting) -> Explorer:
    """Explorer: percentiles that users see and that a one-connection tool records on a server that stalls."""
    controls = [
        slider("length", "length of a stall", "s", 0.05, 5.0, 1.0, per_decade=20),
        slider("period", "from stall to stall", "s", 6.0, 30.0, 10.0, step=1.0),
        slider("rate", "users' rate", "requests/s", 10, 500, 100, per_decade=20),
        choice("pacing", "the tool sends", _PACING),
        choice("corrected", "correction", _CORRECTION),
    ]
    return Explorer(
        "coordinated_omission.stall", controls, _stall, _stall_picture, sample=True, setting=setting
    )


EXPLORERS = (stall,)

# -- check it ---------------------------------------------------------------------------------------------

DEFAULT = early(1.0, 10.0)


def _row(runs) -> tuple[str, ...]:
    """P95, P99 and mean in ms over independent runs, each ± its 95% interval."""
    ms = [1e3 * r for r in runs]
    quantiles = [quantile_replications(ms, p) for p in (0.95, 0.99)]
    return tuple(plus_minus(e) for e in (*quantiles, mean_replications([r.mean() for r in ms])))


_HEAD = ("who, and which clock", "P95", "P99", "mean")


def formula(
    cases=((0.2, 10.0), (1.0, 10.0), (1.4, 20.0), (15.0, 30.0)), rate=100.0, replications=20
) -> Table:
    """P99 and mean of open users, by the formula and simulated."""
    rows = []
    for length, period in cases:
        stalls = early(length, period)
        _, p99, mean = _row([users(stalls, rate, 3, run) for run in range(replications)])
        by_formula = 1e3 * fluid_quantile(0.99, stalls, rate), 1e3 * fluid_mean(stalls, rate)
        p99_formula, mean_formula = (f"{x:,.0f}" if x >= 100 else f"{x:.3g}" for x in by_formula)
        rows.append((f"{length:g} s every {period:g} s", p99_formula, p99, mean_formula, mean))
    return Table(
        ("stall", "P99, formula", "simulated", "mean, formula", "simulated"),
        tuple(rows),
        f"ms; {rate:g} users/s, Poisson. ± 95% intervals from {replications} runs of one period, the same users in each "
        "row.",
    )


def shared(run: int, stalls=DEFAULT, rate=100.0) -> tuple[np.ndarray, np.ndarray]:
    """Response times in s of a back-to-back tool and of users who share one server, for one period."""
    rng = np.random.default_rng([9, run])
    n, m = int(1.1 * stalls.period_s / SERVICE_S), int(rate * stalls.period_s)
    arrival = np.sort(rng.uniform(0, stalls.period_s, m))  # Poisson arrivals, given their number
    service = rng.exponential(SERVICE_S, (1, n))
    loop, guests = simulate.closed_with_open(
        np.zeros((1, n)), service, arrival, rng.exponential(SERVICE_S, m), stalls=stalls
    )
    return loop.between(0, stalls.period_s).response, guests.response


def clocks(stalls=DEFAULT, rate=100.0, replications=20) -> Table:
    """What users see, and what a one-connection tool says about it, by pacing, clock and correction."""
    both = [shared(run, stalls, rate) for run in range(replications)]
    alone = [tool(stalls, 0.0, 3, run) for run in range(replications)]
    paced = [tool(stalls, 0.01, 3, run) for run in range(replications)]
    rows = (
        ("users, open", *_row([users(stalls, rate, 3, run) for run in range(replications)])),
        ("back to back, alone", *_row([t.sent for t in alone])),
        ("back to back, shared", *_row([loop for loop, _ in both])),
        ("10 ms, actual send", *_row([t.sent for t in paced])),
        ("10 ms, intended send", *_row([t.intended for t in paced])),
        ("10 ms, back-filled", *_row([t.filled for t in paced])),
    )
    return Table(
        _HEAD,
        rows,
        f"ms. Stall {stalls.length_s:g} s every {stalls.period_s:g} s, {rate:g} users/s. ± 95% intervals from "
        f"{replications} runs of one period.",
    )


# -- break it ---------------------------------------------------------------------------------------------


def slow_samples(connections: int, stalls=None, rate=200.0) -> tuple[int, int, float]:
    """Slow requests in one stall: recorded by a tool of so many connections, and met by users; and the tool's P99 in s.

    Tool and users both offer `rate` per s by the clock to one server with enough slots; the tool shares its rate
    out to its connections, each of which waits for its answer.
    """
    stalls = Stalls(2.0, 60.0) if stalls is None else stalls
    rounds = int(rate * stalls.period_s / connections)
    schedule = (np.arange(rounds)[None, :] * connections + np.arange(connections)[:, None] + 0.25) / rate
    m = int(rate * stalls.period_s)
    loop, open_users = simulate.closed_with_open(
        np.zeros_like(schedule),
        np.full_like(schedule, SERVICE_S),
        (np.arange(m) + 0.75) / rate,
        np.full(m, SERVICE_S),
        servers=connections + 1000,
        schedule=schedule,
        stalls=stalls,
    )
    slow = (int(np.sum(log.response > 2 * SERVICE_S)) for log in (loop, open_users))
    return *slow, float(np.quantile(loop.response, 0.99))


def connections(counts=(1, 10, 100, 400)) -> Table:
    """Slow requests in a stall of 2 s at 200/s: how many a tool records, by its number of connections."""
    rows = []
    for n in counts:
        recorded, met, p99 = slow_samples(n)
        rows.append((n, recorded, met, f"{met / recorded:.3g}", f"{1e3 * p99:,.4g}"))
    return Table(
        ("connections", "slow, recorded", "slow, met by users", "ratio", "tool's P99 (ms)"),
        tuple(rows),
        "Stall of 2 s in a minute; users and tool offer 200/s each by the clock, constant service of 1 ms. Counted: no "
        "intervals.",
    )


def slow_alone(share=0.005, slow_s=1.0, pacing=0.01, replications=20, n=20_000) -> Table:
    """A server that never stalls, with a slot for everybody; a share of the requests takes `slow_s` by itself."""
    true, sent, intended, filled = [], [], [], []
    for run in range(replications):
        rng = np.random.default_rng([5, run])
        service = np.where(rng.random(n) < share, slow_s, rng.exponential(SERVICE_S, n))
        true.append(service)  # nobody waits for anybody
        due = np.arange(n) * pacing
        log = simulate.fcfs(due, service)  # one connection: its own queue is the only one
        sent.append(log.service)
        intended.append(log.response)
        filled.append(backfill(log.service, pacing))
    rows = (
        ("users", *_row(true)),
        ("10 ms, actual send", *_row(sent)),
        ("10 ms, back-filled", *_row(filled)),
        ("10 ms, intended send", *_row(intended)),
    )
    return Table(
        _HEAD,
        rows,
        f"ms. {100 * share:g}% of the requests take {slow_s:g} s by themselves, the others 1 ms on average; the same "
        f"requests in each row. ± 95% intervals from {replications} runs.",
    )


# -- in practice ------------------------------------------------------------------------------------------


def hidden_waits(n=8, rate=10.0, service_s=0.5) -> Table:
    """n requests intended at `rate` through a cap of one, each `service_s` at the server: two clocks."""
    due = np.arange(n) / rate
    log = simulate.fcfs(due, np.full(n, service_s))
    rows = [
        (i + 1, f"{d:.1f}", f"{s:.1f}", f"{f - s:.1f}", f"{f - d:.1f}")
        for i, (d, s, f) in enumerate(zip(due, log.start, log.finish, strict=True))
    ]
    rows.append(("mean", "", "", f"{log.service.mean():.2f}", f"{log.response.mean():.2f}"))
    return Table(
        ("request", "intended at (s)", "sent at (s)", "from sending (s)", "from intended (s)"),
        tuple(rows),
        f"The clock after the cap hides {log.wait.mean():.2f} s on average, {log.wait.max():.1f} s at most. Constant "
        "times: no intervals.",
    )


def after_a_stall(length_s, period_s, service_s, utilisation=0.0) -> Table:
    """What users and a waiting tool see of stalls: mean, P95 and P99 of the response time, by the formulas of the lesson.

    length_s, period_s : a stall of `length_s` every `period_s` s (a single stall: the length of the run); service_s : mean
    response time outside the stalls in s; utilisation : of the server outside the stalls, which is how long it takes
    to catch up; 0 where it has a slot for everybody. The tool has one connection and sends back to back.
    """
    if not 0 < length_s < period_s:
        raise ValueError(f"length_s = {length_s!r} must lie between 0 and period_s = {period_s!r} s.")
    if not 0 < service_s < period_s - length_s:
        raise ValueError(f"service_s = {service_s!r} must lie between 0 and the {period_s - length_s:g} s without stall.")
    if not 0 <= utilisation < 1 - length_s / period_s:
        raise ValueError(f"utilisation = {utilisation!r} must be at least 0 and below {1 - length_s / period_s:.3g}: with "
                         "more the server never catches up.")  # fmt: skip
    stalls, rate = Stalls(length_s, period_s), utilisation / service_s
    met = length_s / ((1 - utilisation) * period_s)  # share of the users who come in a stall or while it is caught up
    sent = round((period_s - length_s) / service_s) + 1  # per stall
    tail = [fluid_quantile(p, stalls, rate, service_s) + service_s for p in (0.95, 0.99)]
    waited = [length_s if 1 / sent > 1 - p else service_s for p in (0.95, 0.99)]
    rows = (
        ("users", f"{met:.3g}", *(f"{x:.3g}" for x in (fluid_mean(stalls, rate, service_s), *tail))),
        ("tool that waits", f"{1 / sent:.3g}", *(f"{x:.3g}" for x in (period_s / sent, *waited))),
    )
    return Table(
        ("who", "share that met a stall", "mean (s)", "P95 (s)", "P99 (s)"),
        rows,
        f"A stall of {length_s:g} s every {period_s:g} s, otherwise {service_s:g} s, utilisation {utilisation:g}. By "
        "formula: no intervals.",
    )


# -- a real server ----------------------------------------------------------------------------------------

LIVE_SERVICE_S = 0.002
OPEN, CLOSED, FILLED, HEY, WRK = "open generator", "closed generator", "closed, back-filled", "hey", "wrk"
CLOCKS = {
    OPEN: "intended send",
    CLOSED: "actual send",
    FILLED: "actual send, then filled",
    HEY: "actual send",
    WRK: "actual send, then filled",
}


@dataclass(frozen=True)
class Live:
    """Quantiles in s of each clock of a real run: functions of p, or NaN where a tool does not print it.

    quantiles : {name: {p: s}}; counts : {name: number of values}; problems : what went wrong or is missing.
    """

    quantiles: dict
    counts: dict
    problems: tuple[str, ...] = ()
    seconds: float = 0.0
    lateness_p99: float = math.nan
    stalls: int = 3  # that had begun when the run ended

    @property
    def said(self) -> str:
        return " ".join(self.problems)

    def p99(self, name: str) -> float:
        """P99 in s, NaN where it was not measured."""
        return self.quantiles.get(name, {}).get(0.99, math.nan)

    def __repr__(self):
        return self.said or f"Measured with {len(self.quantiles)} clocks."

    def _repr_html_(self):
        return f'<div role="status">{self!r}</div>'


_AT = tuple(float(p) for p in 1 - 10.0 ** -np.linspace(0.02, 2.3, 80)) + (0.5, 0.9, 0.95, 0.99)


def live(seconds=9, progress=True) -> Live:
    """One real server that stalls 1 s three times in `seconds`, and up to five clocks on it at the same time.

    The open generator sends 100/s (Poisson, given their number); the closed one, hey and wrk have one connection
    each, back to back. The server has a slot for each, service 2 ms. What is not installed is left out, with a
    sentence. `seconds` is a whole number from 4 on; 30 for the run with a stall every 10 s.
    """
    if not isinstance(seconds, int) or seconds < 4:
        raise ValueError(
            f"seconds = {seconds!r} must be a whole number from 4 on, so that three stalls of 1 s fit."
        )
    try:
        from .loadtest.server_process import TOO_EARLY, need_packages

        need_packages()
    except ImportError as error:
        return Live({}, {}, (f"Not run: {error}.",))
    from .loadtest import ClosedLoop, Hey, OpenLoop, Wrk, run, serving

    intended = np.sort(np.random.default_rng(8).uniform(0, seconds, int(100 * seconds)))
    problems, heard, logs = [], io.StringIO(), None
    try:
        with serving(LIVE_SERVICE_S, concurrency=4, stalls=Stalls(1.0, seconds / 3)) as url:
            loads = [OpenLoop(url, intended), ClosedLoop(url, 1, seconds)]
            for make in (Hey, Wrk):
                try:
                    loads.append(make(url, seconds))
                except FileNotFoundError as error:
                    problems.append(f"{error}.")
            with redirect_stderr(heard):  # what it says there stands in `problems` too
                logs = run(*loads, progress=progress)
    except KeyboardInterrupt:
        if logs is None:
            return Live({}, {}, (TOO_EARLY,))
    except OSError as error:
        return Live({}, {}, (f"Not run: {error}",))
    users_log, tool_log, *reports = logs
    problems += [f"{name}: {p}" for name, log in ((OPEN, users_log), (CLOSED, tool_log)) for p in log.problems]
    problems += [p for report in reports for p in report.problems]
    recorded = tool_log.response[tool_log.ok]
    if not len(recorded) or not users_log.answers:
        return Live({}, {}, ("No answer came: nothing was measured.", *problems))
    lasted = tool_log.sent_for(seconds)
    measured = {
        OPEN: users_log.response_from_intended[users_log.ok],
        CLOSED: recorded,
        FILLED: backfill(recorded, lasted / len(recorded)),
    }
    quantiles = {
        name: dict(zip(_AT, np.quantile(r, _AT).tolist(), strict=True)) for name, r in measured.items()
    }
    counts = {name: len(r) for name, r in measured.items()}
    for report in reports:
        quantiles[report.tool], counts[report.tool] = report.quantiles_s, report.requests
    stalls = sum(seconds / 3 * (k + 0.5) < lasted for k in range(3))
    return Live(quantiles, counts, tuple(problems), lasted, users_log.lateness_p99, stalls)


def live_table(measured: Live):
    """P50 and P99 by each clock of a real run, and when the clock was started."""
    if not measured.quantiles:
        return measured
    rows = []
    for name, started in CLOCKS.items():
        if name not in measured.quantiles:
            rows.append((name, started, "not installed", "", ""))
            continue
        p50, p99 = (1e3 * measured.quantiles[name].get(p, math.nan) for p in (0.5, 0.99))
        rows.append(
            (
                name,
                started,
                f"{measured.counts[name]:,}",
                f"{p50:,.3g}",
                f"{p99:,.3g}" if p99 < 1000 else f"{p99:,.0f}",
            )
        )
    caption = (
        f"One real run of {measured.seconds:g} s; stalls of 1 s in it: {measured.stalls}. No intervals: each stall is one "
        f"observation. {measured.said}"
    )
    return Table(("generator", "clock starts at", "values", "P50 (ms)", "P99 (ms)"), tuple(rows), caption)


def live_picture(measured: Live):
    """Percentiles by each clock of a real run, on an axis of nines."""
    if not measured.quantiles:
        return measured
    looks = {
        OPEN: dict(color=style.BLUE), CLOSED: dict(color=style.VERMILLION), FILLED: dict(color=style.GREEN, ls="--"),
        HEY: dict(color=style.PURPLE, ls="", marker="D", ms=9), WRK: dict(color=style.INK, ls="", marker="s", ms=9),
    }  # fmt: skip

    def picture(figure):
        ax = figure.subplots()
        _nines_axis(ax, 3.5)
        ax.set_xticks([0, 0.301, 1, 2], ["0", "50%", "90%", "99%"])
        ends = []
        for name, found in measured.quantiles.items():
            p = np.array(sorted(found))
            x, y = -np.log10(1 - p), 1e3 * np.array([found[q] for q in p])
            ax.plot(x, y, **looks[name])
            ends.append([math.log10(y[-1]), name])
        ends.sort()
        for before, this in zip(ends, ends[1:], strict=False):  # labels keep their distance
            this[0] = max(this[0], before[0] + 0.36)
        for level, name in ends:
            p99 = 1e3 * measured.p99(name)
            text = f"{name}: {p99:,.3g} ms" if p99 < 1000 else f"{name}: {p99:,.0f} ms"
            style.label(ax, 2.36, 10**level, text, looks[name]["color"], va="center")
        ax.set_title("one real run; P99 beside each name")

        def move(_):
            said = "; ".join(f"{name} {1e3 * measured.p99(name):.3g} ms" for name in measured.quantiles)
            return f"Percentiles of one real run on an axis of nines, by clock. P99: {said}. {measured.said}"

        return [], move

    return Still(picture, None)
