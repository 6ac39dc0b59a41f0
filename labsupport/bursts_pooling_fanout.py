"""Lesson 04, bursts, pooling and fan-out: idle capacity at the wrong time and in the wrong place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .lab import Explorer, Still, Table, choice, slider, style
from .queueing import simulate, statistics, theory, workload
from .queueing.requestlog import RequestLog
from .queueing.statistics import Estimate, mean_replications, paired, quantile_replications
from .records import public, traces
from .records.public import MOONCAKE_TICK_S, code, conversation, mooncake


def _scale(value, steps) -> float:
    """The smallest axis limit that holds the value, so that the axes jump seldom."""
    return next((s for s in steps if value <= s), steps[-1])


_LIMITS = [m * 10.0**e for e in range(-2, 5) for m in (1, 2, 5)]


def _number(x: float) -> str:
    """Three digits, and never an exponent."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}" if x >= 1e-4 or x == 0 else "< 0.0001"


# -- pooling: where a request may wait ------------------------------------------------------------------

ROUTING = {
    "random: any server": "random",
    "round robin: each server in turn": "round_robin",
    "power of two: the shorter of two random queues": "power_of_two",
    "JSQ: join the shortest queue": "jsq",
    "one shared queue": "shared",
}
SHORT = {"random": "random", "round_robin": "round robin", "power_of_two": "power of two", "jsq": "JSQ"}
SHORT |= {"shared": "shared queue"}
SERVICES = {"exponential (SCV 1)": 1.0, "constant (SCV 0)": 0.0, "heavy-tailed (SCV 10)": 10.0}


def service_law(scv: float) -> workload.Law:
    """Service times with mean 1: constant, exponential, or else lognormal."""
    laws = {0.0: workload.deterministic(1), 1.0: workload.exponential(1)}
    return laws[scv] if scv in laws else workload.lognormal(1, scv)


def long_run_wait(policy: str, servers: int, utilisation: float, scv: float = 1.0) -> float | None:
    """Mean waiting time in mean service times, Poisson arrivals; None where no formula is known.

    Random routing leaves each server an M/G/1 queue. Round robin gives a server every c-th request, so its
    interarrival times are Erlang; with constant service the shared queue serves in turn too, and both agree.
    """
    if policy == "random" or servers == 1:
        return theory.MG1(utilisation, 1, scv).mean_wait
    if policy == "round_robin" and scv == 1:
        return theory.GM1(workload.gamma(1 / utilisation, 1 / servers), 1).mean_wait
    if policy in ("round_robin", "shared") and scv == 0:
        return theory.MDc(servers * utilisation, 1, servers).mean_wait
    if policy == "shared" and scv == 1:
        return theory.MMc(servers * utilisation, 1, servers).mean_wait
    return None


def routed_runs(servers, utilisation, scv, seed, n) -> dict[str, RequestLog]:
    """The same `n` requests under every routing policy, one log each; times in mean service times.

    Arrivals, service times and the router's random choices are the same in all five: common random numbers.
    """
    gaps, u, choices = _requests(seed, n)
    arrival, service = np.cumsum(gaps) / (servers * utilisation), service_law(scv).ppf(u)
    return {p: simulate.routed(arrival, service, servers, p, choices) for p in simulate.POLICIES}


@lru_cache(maxsize=4)
def _requests(seed, n):
    rngs = [np.random.default_rng([4, seed, part]) for part in range(3)]
    return rngs[0].standard_exponential(n), rngs[1].random(n), rngs[2].random(n)


@dataclass(frozen=True)
class _Race:
    logs: dict[str, RequestLog]
    servers: int
    utilisation: float
    scv: float
    routing: str  # the policy that is drawn

    @property
    def warm_up(self) -> int:
        """Requests at the start that are left out, since the run begins empty."""
        return len(self.logs["shared"]) // 5

    @property
    def counted(self) -> int:
        return len(self.logs["shared"]) - self.warm_up

    def mean_wait(self, policy) -> float:
        return float(self.logs[policy].wait[self.warm_up :].mean())

    @property
    def wasted(self) -> float:
        """Share of the time in which a request waits while a server is idle."""
        log = self.logs[self.routing]
        return statistics.idle_while_waiting(log, self.servers, log.arrival[self.warm_up], log.arrival[-1])

    @property
    def too_short(self) -> bool:
        """Whether a single queue has not forgotten its start often enough (Asmussen 2003, ch. X)."""
        relaxation = 2 * (self.utilisation / (1 - self.utilisation)) ** 2 * (1 + self.scv)
        return len(self.logs["shared"]) / self.servers < 8 * relaxation


@lru_cache(maxsize=2)
def _logs(servers, utilisation, scv, seed):
    return routed_runs(servers, utilisation, scv, seed, min(max(300 * servers, 5000), 12_000))


def _race(servers, utilisation, service, routing, seed) -> _Race:
    return _Race(_logs(servers, utilisation, service, seed), servers, utilisation, service, routing)


def _times(ratio: float) -> str:
    """How many times: two digits, and no more than a short run can tell."""
    return "> 1,000" if ratio > 1000 else f"= {ratio:.0f}" if ratio >= 10 else f"= {ratio:.2g}"


_SHOWN = 40.0  # mean service times in the upper pictures


def _pooling_picture(figure):
    above, below, bottom = figure.subplots(3, 1, height_ratios=(1.25, 0.7, 2.1))
    style.room(figure, left=0)
    time = np.linspace(0, _SHOWN, 601)
    for ax in (above, below):
        ax.set_xlim(0, _SHOWN)
    above.set_xticks(np.arange(0, _SHOWN + 1, 10), [])
    above.set_yscale("symlog", linthresh=1, linscale=0.6)  # one scale for all settings
    above.set(ylim=(0, 2000))
    above.set_yticks([0, 1, 10, 100, 1000], ["0", "1", "10", "100", "1,000"])
    above.minorticks_off()
    above.set_ylabel("requests\nwaiting", color=style.BROWN)
    below.set(ylim=(100, 0), yticks=(0, 50, 100), xlabel="time (mean service times)")
    below.set_ylabel("% servers\nidle", color=style.BLUE)
    waiting = above.fill_between([0], [0], color=style.ORANGE, lw=0)
    idle = below.fill_between([0], [0], color=style.SKY, lw=0)
    rows = np.arange(len(simulate.POLICIES))[::-1]
    bottom.set_yticks(rows, [SHORT[p] for p in simulate.POLICIES])
    bottom.set_ylim(-0.6, 4.6)
    bottom.set_xlabel("mean waiting time (mean service times); mark: long run, by formula")
    bottom.grid(visible=False)
    bars = bottom.barh(rows, 0.0, height=0.62, color=style.PALE)
    marks = bottom.plot([], [], "|", color=style.INK, ms=18, mew=2.5)[0]
    beside = bottom.get_yaxis_transform()  # x in axes, y in rows
    values = [bottom.text(0.69, y, "", va="center", transform=beside) for y in rows]
    corner = dict(ha="right", va="bottom", fontsize=12, transform=bottom.transAxes)
    note = bottom.text(1, 1.04, "", color=style.PURPLE, **corner)
    bottom.set_title("The same requests in each row (counted: no intervals)")
    title = above.set_title(" ")

    def move(race: _Race) -> str:
        log = race.logs[race.routing]
        t = log.arrival[-1] - _SHOWN + time
        begun = np.searchsorted(np.sort(log.start), t, "right")
        queue = np.searchsorted(log.arrival, t, "right") - begun
        busy = begun - np.searchsorted(np.sort(log.finish), t, "right")
        for fill, values_at in ((waiting, queue), (idle, 100 * (1 - busy / race.servers))):
            fill.set_verts([np.vstack([[0, 0], np.column_stack([time, values_at]), [_SHOWN, 0]])])
        mean = {p: race.mean_wait(p) for p in simulate.POLICIES}
        formula = [long_run_wait(p, race.servers, race.utilisation, race.scv) for p in simulate.POLICIES]
        known = [(x, y) for x, y in zip(formula, rows, strict=True) if x is not None]
        limit = _scale(1.5 * max(*mean.values(), *(x for x, _ in known)), [0.1, 0.3, 1, 3, 10, 30, 100, 300])
        if bottom.get_xlim() != (0, limit):
            bottom.set_xlim(0, limit)
        marks.set_data([x for x, _ in known], [y for _, y in known])
        for bar, text, (policy, value) in zip(bars, values, mean.items(), strict=True):
            bar.set(width=value, color=style.BLUE if policy == race.routing else style.PALE)
            several = policy != "shared" and race.servers > 1 and mean["shared"] > 0
            times = f" {_times(value / mean['shared'])} × shared" if several else ""
            text.set_text(_number(value) + times)
        share, name = race.wasted, SHORT[race.routing]
        wasted = "never" if share < 1e-6 else f"{share:.0%} of the time"
        title.set_text(f"{name}: a request waits while a server is idle: {wasted}")
        short = "too short for the long run" if race.too_short else ""
        note.set_text(short)
        each = ", ".join(f"{SHORT[p]} {_number(value)}" for p, value in mean.items())
        return (
            f"{race.servers} server{'s' * (race.servers > 1)} at utilisation {race.utilisation:g}. Above, requests waiting "
            f"and servers idle over time with {name}: a request waits while a server is idle {wasted}. Below, the mean "
            f"waiting time of the same {race.counted:,} requests in mean service times: {each}. One run, "
            f"counted{short and '; ' + short}."
        )

    return [waiting, idle, *bars, marks, *values, note, title], move


def pooling(**setting) -> Explorer:
    """Explorer: the same requests and servers under five ways of routing."""
    controls = [
        slider("servers", "servers", "", 1, 64, 8, step=1),
        slider("utilisation", "utilisation ρ", "", 0.3, 0.95, 0.8, step=0.05),
        choice("service", "service times", SERVICES),
        choice("routing", "routing", ROUTING),
    ]
    return Explorer("bursts_pooling_fanout.pooling", controls, _race, _pooling_picture, sample=True,
                    size=(9, 4.6), setting=setting)  # fmt: skip


def routing(servers=8, utilisation=0.8, replications=20, n=10_000) -> Table:
    """Five routing policies on common random numbers, with intervals on the differences."""
    warm_up, waits = n // 5, {policy: [] for policy in simulate.POLICIES}
    for seed in range(replications):
        for policy, log in routed_runs(servers, utilisation, 1.0, seed, n).items():
            waits[policy].append(log.wait[warm_up:].mean())
    rows, above = [], None
    for policy, mine in waits.items():
        change = paired(waits[above], mine).brief if above else ""
        exact = long_run_wait(policy, servers, utilisation)
        rows.append((SHORT[policy], mean_replications(mine).brief, change, exact or "–"))
        above = policy
    head = ("routing", "mean wait", "change from above", "formula")
    caption = (
        f"{servers} servers, ρ = {utilisation:g}, times in mean service times. 95% intervals from {replications} runs of "
        f"{n - warm_up:,} requests; every policy got the same ones, so the changes are paired."
    )
    return Table(head, tuple(rows), caption)


def adding_servers(offered_load=6.4, most=16) -> Table:
    """M/M/c as servers are added at the same load: each one buys less than the one before."""
    rows, before = [], None
    for servers in range(math.floor(offered_load) + 1, most + 1):
        queue = theory.MMc(offered_load, 1, servers)
        saved = before - queue.mean_wait if before else ""
        rows.append((servers, f"{queue.utilisation:.0%}", queue.wait_probability, queue.mean_wait, saved))
        before = queue.mean_wait
    head = ("servers", "utilisation", "P(wait)", "mean wait", "saved by the last server")
    return Table(head, tuple(rows), "M/M/c, times in mean service times. Formula, so no intervals.")


def servers_needed(rate: float, service_s: float, target_s: float, p: float | None = 0.99) -> dict[str, int]:
    """Servers that keep a waiting time within `target_s` seconds: its p-quantile, or its mean for p = None.

    rate in requests/s, Poisson; service exponential with mean `service_s` s. One number for each way of
    routing that has a formula: "shared", "round_robin", "random".
    """
    shared = theory.smallest_servers(rate, service_s, target_s, "wait", p)
    alone = theory.largest_rate(theory.MM1(0.5 / service_s, service_s), target_s, "wait", p)
    random = math.ceil(rate / alone * (1 - 1e-9))

    def wait(servers):  # of round robin
        queue = theory.GM1(workload.gamma(servers / rate, 1 / servers), service_s)
        return queue.mean_wait if p is None else queue.wait_quantile(p)

    in_turn = next(c for c in range(shared, random + 1) if c > rate * service_s and wait(c) <= target_s)
    return {"shared": shared, "round_robin": in_turn, "random": random}


def fleet(rates=(10, 40, 160), service_s=0.15, target_s=0.5, p=0.99) -> Table:
    """How many GPUs a promise about the waiting time needs, by arrival rate and routing."""
    rows = []
    for rate in rates:
        needed = servers_needed(rate, service_s, target_s, p)
        cells = [f"{n}  ({rate * service_s / n:.0%} busy)" for n in needed.values()]
        rows.append((f"{rate:g}/s", *cells, needed["random"] - needed["shared"]))
    promise = "mean" if p is None else f"P{100 * p:g}"
    head = ("arrival rate", "shared queue", "round robin", "random", "saved against random")
    caption = (
        f"GPUs for {promise} of the waiting time ≤ {target_s:g} s, service {service_s:g} s (exponential), Poisson arrivals. "
        "Formulas, so no intervals."
    )
    return Table(head, tuple(rows), caption)


# -- bursts: when requests come -------------------------------------------------------------------------

_RUNS, _REQUESTS = 20, 8_000  # of gamma arrivals, for one estimate


@lru_cache(maxsize=2)
def _burst_units(seed):
    """Unit numbers of all runs: place of each gap among workload.GRID, unit services, one uniform per run."""
    rng = np.random.default_rng([4, seed])
    u = rng.random((_RUNS, _REQUESTS))
    below = np.searchsorted(workload.GRID, u, "right") - 1
    below = np.minimum(below, len(workload.GRID) - 2)
    part = (u - workload.GRID[below]) / np.diff(workload.GRID)[below]
    return below, part, rng.standard_exponential((_RUNS, _REQUESTS)), rng.random(_RUNS)


@lru_cache(maxsize=4)
def _unit_gaps(scv, seed):
    """Gamma gaps with mean 1, from the same uniforms at every SCV: the quantile function, interpolated.

    Exact quantiles would take a second, which a slider cannot wait for.
    """
    below, part, _, _ = _burst_units(seed)
    quantiles = workload.gamma(1, scv).ppf(workload.GRID)
    return quantiles[below] + part * np.diff(quantiles)[below]


def bursty_runs(scv, utilisation, seed=1) -> tuple[np.ndarray, np.ndarray]:
    """Gaps and waiting times (runs, requests) of gamma/M/1 in mean service times, from the steady state on.

    Before each run there is a request that waits as in the long run (Kendall 1953), so no warm-up is left out.
    """
    _, _, service, u = _burst_units(seed)
    gaps = _unit_gaps(scv, seed) / utilisation
    queue = theory.GM1(workload.gamma(1 / utilisation, scv), 1)
    service = service.copy()
    service[:, 0] -= np.log1p(-np.maximum(u - (1 - queue.root), 0) / queue.root) / (1 - queue.root)
    return gaps[:, 1:], simulate.fcfs_waits(gaps, service)[:, 1:]


@dataclass(frozen=True)
class _Bursts:
    scv: float
    utilisation: float
    gaps: np.ndarray  # of the first run
    wait: np.ndarray
    simulated: Estimate
    exact: float

    @property
    def approximate(self) -> float:
        return theory.vut_wait(self.utilisation, 1, self.scv, 1)


def _burst_run(scv, utilisation, seed) -> _Bursts:
    gaps, wait = bursty_runs(scv, utilisation, seed)
    exact = theory.GM1(workload.gamma(1 / utilisation, scv), 1).mean_wait
    return _Bursts(scv, utilisation, gaps[0], wait[0], mean_replications(wait.mean(axis=1)), exact)


_SCVS = np.geomspace(0.1, 16, 25)


@lru_cache(maxsize=32)
def _exact_curve(utilisation) -> np.ndarray:
    return np.array([theory.GM1(workload.gamma(1 / utilisation, scv), 1).mean_wait for scv in _SCVS])


_WINDOW = 100.0  # mean service times in the picture of the waits


def _burst_picture(figure):
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    left.set(xlim=(0, _WINDOW), xlabel="time of arrival (mean service times)")
    left.set_ylabel("wait (mean service times)")
    right.set(xscale="log", xlim=(0.1, 16), xlabel="SCV of the interarrival times, $c_a^2$")
    right.set_ylabel("mean wait (mean service times)")
    right.set_xticks([0.1, 0.25, 0.5, 1, 2, 4, 8, 16], ["0.1", "0.25", "0.5", "1", "2", "4", "8", "16"])
    right.minorticks_off()
    waits = left.vlines([0], [0], [0], color=style.ORANGE, lw=2)
    rug = left.plot([], [], "|", color=style.BLUE, ms=10, mew=1.3, clip_on=False)[0]
    exact = right.plot([], [], color=style.BLUE)[0]
    vut = right.plot([], [], color=style.VERMILLION, ls="--")[0]
    bar = right.plot([], [], color=style.INK, lw=5, solid_capstyle="butt")[0]
    dot = right.plot([], [], "o", ms=8, color=style.INK, mec="white", clip_on=False)[0]
    words = [
        right.text(0.03, y, "", color=colour, transform=right.transAxes, va="top", fontsize=12)
        for y, colour in ((0.98, style.BLUE), (0.90, style.VERMILLION), (0.82, style.INK))
    ]
    heads = left.set_title(" "), right.set_title(" ")

    def move(b: _Bursts) -> str:
        when = np.cumsum(b.gaps)
        shown = when <= _WINDOW
        when, wait = when[shown], b.wait[: len(shown)][shown]
        feet, tops = np.column_stack([when, 0 * wait]), np.column_stack([when, wait])
        waits.set_segments(np.stack([feet, tops], axis=1))
        rug.set_data(when, 0 * when)
        curve, line = _exact_curve(b.utilisation), theory.vut_wait(b.utilisation, 1, _SCVS, 1)
        exact.set_data(_SCVS, curve)
        vut.set_data(_SCVS, line)
        e = b.simulated
        bar.set_data([b.scv] * 2, [e.low, e.high])
        dot.set_data([b.scv], [e.value])
        highest = wait.max(initial=0.1), max(curve[-1], e.high)
        for ax, most, steps in zip((left, right), highest, (_COARSE, _LIMITS), strict=True):
            top = _scale(most, steps)
            if ax.get_ylim() != (0, top):
                ax.set_ylim(0, top)
        words[0].set_text(f"exact: {_number(b.exact)}")
        off = f"{b.approximate / b.exact - 1:+.0%}".replace("-", "−")
        words[1].set_text(f"VUT, dashed: {_number(b.approximate)} ({off})")
        words[2].set_text(f"simulated: {e.brief}")
        heads[0].set_text(f"{len(when)} arrivals at load {b.utilisation:g}, and their waits")
        heads[1].set_text(f"SCV {b.scv:g}, load {b.utilisation:g}")
        return (
            f"Left, {len(when)} arrivals in {_WINDOW:g} mean service times and the wait of each. Right, the mean wait "
            f"against the SCV of the interarrival times at utilisation {b.utilisation:g}. At SCV {b.scv:g} it is "
            f"{_number(b.exact)} mean service times exactly, {_number(b.approximate)} by the VUT approximation, and "
            f"simulated {e.brief} with a 95% interval from {e.n} runs of {_REQUESTS - 1:,} requests."
        )

    return [waits, rug, exact, vut, bar, dot, *words, *heads], move


_COARSE = (0.5, 2, 5, 20, 50, 200, 500, 2000)


def bursts(**setting) -> Explorer:
    """Explorer: gamma arrivals from clockwork to bursts at one exponential server: exact, VUT, simulated."""
    controls = [
        slider("scv", "SCV of gaps", "", 0.1, 16.0, 4.0, per_decade=10),
        slider("utilisation", "utilisation ρ", "", 0.3, 0.95, 0.7, step=0.05),
    ]
    return Explorer("bursts_pooling_fanout.bursts", controls, _burst_run, _burst_picture, sample=True,
                    setting=setting)  # fmt: skip


def bursty_waits(utilisation=0.7, scvs=(0.25, 0.5, 1, 2, 4, 9), seed=1) -> Table:
    """Gamma arrivals at one exponential server: exact, approximation, bound and simulation."""
    rows = []
    for scv in scvs:
        exact = theory.GM1(workload.gamma(1 / utilisation, scv), 1).mean_wait
        vut = float(theory.vut_wait(utilisation, 1, scv, 1))
        bound = float(theory.kingman_bound(utilisation, 1, scv, 1))
        simulated = mean_replications(bursty_runs(scv, utilisation, seed)[1].mean(axis=1))
        rows.append((f"{scv:g}", exact, simulated.brief, vut, f"{vut / exact:.3f}", bound))
    head = ("SCV of gaps", "exact (G/M/1)", "simulated", "VUT", "VUT / exact", "Kingman's upper bound")
    caption = (
        f"Mean wait in mean service times, ρ = {utilisation:g}; 95% intervals from {_RUNS} runs of {_REQUESTS - 1:,} "
        "requests, the same random numbers in every row."
    )
    return Table(head, tuple(rows), caption)


# -- real arrivals: what the SCV does not say -----------------------------------------------------------


class Traces(NamedTuple):
    """Three public traces, or their stand-ins."""

    conversation: traces.Trace
    code: traces.Trace
    mooncake: traces.Trace

    @property
    def names(self) -> str:
        """Names of the three; a stand-in says what it is."""
        return public.names(*self)


def real_traces() -> Traces:
    """The traces that `dispersion` and `what_scv_misses` look at."""
    return Traces(conversation(), code(), mooncake())


def _shuffled(trace, rng) -> np.ndarray:
    """Arrival times (s) with the trace's own gaps in random order: the same SCV, no memory."""
    return np.concatenate([[0.0], np.cumsum(rng.permutation(trace.gaps))])


def _cut_silences(trace, longest_s) -> np.ndarray:
    """Arrival times (s) with every longer gap cut to `longest_s` seconds."""
    return np.concatenate([[0.0], np.cumsum(np.minimum(trace.gaps, longest_s))])


def replayed_wait(arrival, service_s, replications=20) -> Estimate:
    """Mean wait, in mean service times, of these arrivals at one exponential server.

    The interval covers the draw of the service times, the same in every call; there is one trace only.
    """
    law, waits = workload.exponential(service_s), []
    for seed in range(replications):
        service = law.sample(np.random.default_rng([4, seed]), len(arrival))
        waits.append(simulate.fcfs(arrival, service).wait.mean() / service_s)
    return mean_replications(waits)


@dataclass(frozen=True)
class Replay:
    """One row of `what_scv_misses`. Waits in mean service times; `dispersion` is the IDC at 60 s."""

    name: str
    utilisation: float
    scv: float
    dispersion: float
    forecast: float
    wait: Estimate


def replay(name, arrival, service_s, replications=20) -> Replay:
    """What SCV and IDC say of these arrival times (s), and what happens to them at one exponential server."""
    gaps = np.diff(arrival)
    scv, load = statistics.scv(gaps), float(service_s / gaps.mean())
    dispersion = statistics.index_of_dispersion(arrival, 60.0)
    forecast = float(theory.vut_wait(load, 1, scv, 1))
    return Replay(name, load, scv, dispersion, forecast, replayed_wait(arrival, service_s, replications))


def replays(three: Traces, replications=20) -> list[Replay]:
    """Three traces, each beside a copy with the same or another SCV, at the same service time."""
    chat, program, kimi = three
    rng = np.random.default_rng(4)
    busy, light = 0.7, 0.1  # load of the traces as recorded
    cases = (
        ("conversation", chat, chat.arrival, busy),
        ("gaps shuffled", chat, _shuffled(chat, rng), busy),
        ("code", program, program.arrival, light),
        ("silences cut to 5 s", program, _cut_silences(program, 5.0), light),
        ("Mooncake", kimi, kimi.arrival, busy),
        ("ticks spread out", kimi, kimi.without_ticks(MOONCAKE_TICK_S, rng).arrival, busy),
    )
    return [replay(name, arrival, load / trace.rate, replications) for name, trace, arrival, load in cases]


def what_scv_misses(three: Traces, replications=20) -> Table:
    """SCV, index of dispersion, the wait that the SCV forecasts, and the wait of the replayed trace."""
    rows = [
        (r.name, f"{r.utilisation:.0%}", r.scv, r.dispersion, r.forecast, r.wait.brief)
        for r in replays(three, replications)
    ]
    head = ("arrivals", "load", "SCV", "IDC, 60 s", "VUT wait", "wait, replayed")
    caption = (
        f"{three.names}. Mean waits in mean service times, one exponential server. 95% "
        "intervals: one trace, "
        f"{replications} draws of service times, the same in each row."
    )
    return Table(head, tuple(rows), caption)


def dispersion(three: Traces) -> Still:
    """Index of dispersion of the three traces against the window, beside Poisson and gamma arrivals."""
    windows = np.geomspace(0.1, 300, 36)
    chat, program, kimi = three
    rng = np.random.default_rng(4)
    scv = statistics.scv(chat.gaps)
    renewal = workload.renewal(rng, workload.gamma(1 / chat.rate, scv), len(chat))
    spread = kimi.without_ticks(MOONCAKE_TICK_S, rng).arrival
    names = [
        f"{name}, SCV {statistics.scv(np.diff(arrival)):.3g}"
        for name, arrival in (("code", program.arrival), ("Mooncake", kimi.arrival))
    ]
    curves = (  # arrivals, colour, line, label and where it stands: window in s, factor on the curve, alignment
        (program.arrival, style.PURPLE, "-", names[0], 1.2, 3.0, "right"),
        (chat.arrival, style.BLUE, "-", f"conversation, SCV {scv:.3g}", 40, 2.1, "right"),
        (renewal, style.BLUE, ":", f"gamma gaps, SCV {scv:.3g}", 290, 0.42, "right"),
        (kimi.arrival, style.VERMILLION, "-", names[1], 0.11, 1.5, "left"),
        (spread, style.VERMILLION, "--", "Mooncake without ticks", 0.11, 0.55, "left"),
    )

    def picture(figure):
        ax = figure.subplots()
        ax.set(xscale="log", yscale="log", xlim=(0.1, 300), ylim=(0.3, 400), xlabel="window (s)")
        ax.set(ylabel="index of dispersion")
        ax.set_title(f"Variance / mean of the arrivals per window; one trace each, counted\n{three.names}")
        ax.set_xticks([0.1, 1, 10, 60, 300], ["0.1", "1", "10", "60", "300"])
        ax.set_yticks([1, 10, 100], ["1 (Poisson)", "10", "100"])
        ax.minorticks_off()
        ax.axhline(1, color=style.INK, lw=1)
        said = []
        for arrival, colour, dash, name, x, factor, side in curves:
            values = np.array([statistics.index_of_dispersion(arrival, w) for w in windows])
            ax.plot(windows, values, color=colour, ls=dash)
            style.label(ax, x, factor * np.interp(x, windows, values), name, colour, ha=side, va="center")
            said.append(f"{name}: {statistics.index_of_dispersion(arrival, 60):.3g}")
        alt = f"Index of dispersion against the window, log axes. {three.names}. At 60 s: {'; '.join(said)}."
        return [], lambda _: alt

    return Still(picture, None, size=(9, 4.8))


# -- fan-out: the slowest of many ------------------------------------------------------------------------

MEDIAN_MS = 10.0  # of one task


@dataclass(frozen=True)
class Task:
    """A task's latency in ms: lognormal, median MEDIAN_MS, and P99 `spread` times the median.

    hedge : a copy is sent when the task has not answered at this quantile of its latency; None for never.
    Task and copy are independent, and nothing queues.
    """

    spread: float
    hedge: float | None = None

    @property
    def law(self) -> workload.Law:
        return _task_law(self.spread)

    @property
    def delay_ms(self) -> float:
        """When the copy is sent."""
        return math.inf if self.hedge is None else float(self.law.ppf(self.hedge))

    def tail(self, t_ms):
        """P(the task, or its copy, takes longer than t_ms)."""
        late = _lognormal_tail(self.spread, t_ms)
        return late * _lognormal_tail(self.spread, np.asarray(t_ms) - self.delay_ms)

    def quantile(self, p: float, tasks: int = 1) -> float:
        """The latency in ms of the slowest of `tasks` that a share p of the requests does not exceed."""
        from scipy.optimize import brentq

        one = p ** (1 / tasks)  # all must be done
        highest = float(self.law.ppf(one))
        if self.hedge is None:
            return highest
        return brentq(lambda t: self.tail(t) - (1 - one), 1e-3, highest * (1 + 1e-9), xtol=1e-9)


@lru_cache(maxsize=64)
def _task_law(spread):
    from scipy.special import ndtri

    return workload.lognormal_from_median(MEDIAN_MS, math.log(spread) / float(ndtri(0.99)))


def _lognormal_tail(spread, t_ms):
    from scipy.special import ndtr, ndtri

    with np.errstate(divide="ignore"):
        return ndtr(-np.log(np.maximum(t_ms, 0) / MEDIAN_MS) * (ndtri(0.99) / math.log(spread)))


@dataclass(frozen=True)
class _FanOut:
    tasks: int
    plain: Task
    task: Task  # hedged, perhaps

    @property
    def over(self) -> float:
        """Share of the requests that take longer than one task's P99."""
        return float(theory.fan_out_probability(self.tasks, 0.01))


def _fan_out(tasks, spread, hedge) -> _FanOut:
    return _FanOut(tasks, Task(spread), Task(spread, hedge or None))


_T = np.geomspace(1, 10_000, 320)


def _fan_out_picture(figure):
    ax, side = figure.subplots(1, 2, width_ratios=(2.5, 1))
    side.set_axis_off()
    ax.set(xscale="log", yscale="log", xlim=(1, 10_000), ylim=(0.001, 1.3))
    ax.set(xlabel="latency (ms)", ylabel="share that takes longer")
    ax.set_xticks([1, 10, 100, 1000, 10_000], ["1", "10", "100", "1,000", "10,000"])
    ax.set_yticks([0.001, 0.01, 0.1, 0.5, 1], ["0.1%", "1% (P99)", "10%", "50%", "100%"])
    ax.minorticks_off()
    p99 = ax.plot([], [], color=style.GREY, lw=1.2, ls=":")[0]
    styles = ((style.GREY, "-"), (style.VERMILLION, "-"), (style.BLUE, "--"))
    lines = [ax.plot([], [], color=colour, ls=dash)[0] for colour, dash in styles]
    dots = [ax.plot([], [], "o", ms=8, color=colour, mec="white")[0] for colour, _ in styles]
    words = [
        side.text(0, y, "", color=colour, va="top", linespacing=1.4)
        for y, (colour, _) in zip((0.97, 0.68, 0.39), styles, strict=True)
    ]
    title = ax.set_title(" ")

    def move(f: _FanOut) -> str:
        several = "1 task" if f.tasks == 1 else f"{f.tasks:,} tasks"
        cases = [("one task", f.plain, 1), (f"request of {several}", f.plain, f.tasks)]
        if f.task.hedge is not None:
            cases.append((f"hedged after {_number(f.task.delay_ms)} ms", f.task, f.tasks))
        for artist in (lines[2], dots[2]):
            artist.set_data([], [])
        words[2].set_text("never hedged")
        said = []
        for line, dot, text, (name, task, tasks) in zip(lines, dots, words, cases, strict=False):
            late = np.minimum(task.tail(_T), 1 - 1e-16)
            line.set_data(_T, -np.expm1(tasks * np.log1p(-late)))
            points = [task.quantile(p, tasks) for p in (0.5, 0.99)]
            dot.set_data(points, [0.5, 0.01])
            parts = [name, f"median {_number(points[0])} ms", f"P99 {_number(points[1])} ms"]
            if task.hedge is not None:
                parts.append(f"{1 - task.hedge:.0%} more tasks sent")
            text.set_text("\n".join(parts))
            said.append(", ".join(parts))
        limit = _number(f.plain.quantile(0.99))
        p99.set_data([f.plain.quantile(0.99)] * 2, [0.001, 1])
        share = f"{100 * f.over:.3g}%" if f.over < 0.9995 else "over 99.9%"
        over = f"{share} of the requests take longer than one task's P99, {limit} ms"
        title.set_text(f"Never hedged, {over}")
        return f"Share that takes longer, against latency in ms, on log axes. {'; '.join(said)}. Never hedged, {over}."

    return [p99, *lines, *dots, *words, title], move


HEDGES = {"never": 0.0} | {f"after one task's P{100 * p:g}": p for p in (0.5, 0.8, 0.9, 0.95, 0.99)}


def fan_out(**setting) -> Explorer:
    """Explorer: latency of a request that waits for the slowest of its tasks, and what hedging does to it."""
    controls = [
        slider("tasks", "tasks per request k", "", 1, 1000, 100, per_decade=10),
        slider("spread", "P99 / median of a task", "", 2.5, 25.0, 10.0, per_decade=10),
        choice("hedge", "send a copy", HEDGES),
    ]
    return Explorer("bursts_pooling_fanout.fan_out", controls, _fan_out, _fan_out_picture, setting=setting)


EXPLORERS = (bursts, pooling, fan_out)


COPIES = ("none", "the loser is called off", "both run to the end", "as long as the first")


def hedging(loads=(0.2, 0.5, 0.8), servers=16, spread=10.0, replications=8, n=10_000) -> Table:
    """Hedged requests at servers that queue: P99 of the response time and the extra work, by what the copy does."""
    rows = []
    for load in loads:
        runs = [_hedged_runs(load, servers, Task(spread).law, seed, n) for seed in range(replications)]
        for copies, column in zip(COPIES, zip(*runs, strict=True), strict=True):
            rows.append((f"{load:.0%}", copies, *_hedged_cells(column)))
    head = ("load", "copies", "P99 response (ms)", "work added")
    caption = (
        f"{servers} servers with a queue each; one task: median {MEDIAN_MS:g} ms, P99 {MEDIAN_MS * spread:g} ms. Copy after "
        f"P95 of the unhedged response time. 95% intervals from {replications} runs of {n * 9 // 10:,} requests, the same "
        "random numbers in every row. † Copies still rise when the runs end: no steady state, P99 grows with the run."
    )
    return Table(head, tuple(rows), caption)


def _hedged_runs(load, servers, law, seed, n) -> list[simulate.Hedged]:
    """The same requests with each kind of COPIES."""
    rng = np.random.default_rng([4, seed])
    arrival = workload.poisson(rng, servers * load / law.mean, n)
    work, other, u = law.sample(rng, n), law.sample(rng, n), rng.random((n, 2))
    plain = simulate.hedged(arrival, work, other, servers, math.inf, u)
    delay = float(np.quantile(plain.log.response[n // 10 :], 0.95))
    kinds = ((other, True), (other, False), (work, True))  # the copy's work; is the loser called off?
    hedged = [simulate.hedged(arrival, work, copy, servers, delay, u, cancel=off) for copy, off in kinds]
    return [plain, *hedged]


def _hedged_cells(runs) -> tuple[str, str]:
    """P99 of the response time, work added; the first tenth, after an empty start, is left out of P99."""
    n = len(runs[0].log)
    p99 = quantile_replications([run.log.response[n // 10 :] for run in runs], 0.99)
    early, late = (sum(run.copied[part].sum() for run in runs) for part in (np.s_[: n // 2], np.s_[n // 2 :]))
    if not early:
        return p99.brief, ""
    extra = mean_replications([100 * run.extra_load for run in runs])
    return f"{p99.brief}{' †' if late > 1.5 * early else ''}", f"{extra.value:+.1f} ± {extra.half_width:.1f}%"
