"""Lesson 07, open and closed loops: who decides when the next request is sent, and what a test then sees."""

from __future__ import annotations

import io
import math
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np

from .lab import Explorer, Still, Table, slider, style
from .lab.table import plus_minus
from .queueing import simulate, theory, workload
from .queueing.requestlog import RequestLog
from .queueing.statistics import Estimate, mean_batches, mean_replications

# -- two loops around one server; mean service 1 s, exponential -----------------------------------------

_RUNS = 10
_REQUESTS, _OPEN_REQUESTS = 600, 6_000  # per run; the open loop costs less to simulate


@lru_cache(maxsize=12)
def _units(seed: int, run: int, n: int = 12_000) -> tuple[np.ndarray, np.ndarray, float]:
    """Unit think times (or gaps) and service times, and one uniform."""
    rng = np.random.default_rng([seed, run])
    return rng.standard_exponential(n), rng.standard_exponential(n), float(rng.random())


def closed_run(users: int, think: float, seed: int, run: int = 0, n: int = _REQUESTS) -> RequestLog:
    """A closed loop of `users` with exponential think times of mean `think` s, from its steady state on.

    At time 0 the number of thinking users is drawn from its long-run law, a Poisson law of mean `think` cut at
    `users`; the others stand in the queue. The log holds the requests that come later, about `n` of them or four
    per user. Another setting rescales the same unit random numbers.
    """
    rounds = max(-(-n // users), 5)
    thinks, services, u = _units(seed, run)
    shape = (rounds, users)
    first = think * thinks[: rounds * users].reshape(shape).T.copy()
    first[: users - _thinking(users, think, u), 0] = 0
    log = simulate.closed_loop(first, services[: rounds * users].reshape(shape).T, stop_with_first=True)
    return log.between(np.nextafter(0, 1), np.inf)


def _thinking(users: int, think: float, u: float) -> int:
    """Number of thinking users in the long run, by inversion of `u` (the machine repairman's law, Palm 1947)."""
    if think == 0:
        return 0
    j = np.arange(users + 1)
    logs = np.concatenate([[0], np.cumsum(np.log(think) - np.log(j[1:]))])
    weights = np.exp(logs - logs.max()).cumsum()
    return int(min(np.searchsorted(weights, u * weights[-1]), users))


def open_run(rate: float, seed: int, run: int = 0, n: int = _OPEN_REQUESTS) -> RequestLog:
    """M/M/1 at `rate` per s: from its steady state on if it has one, from an empty system otherwise.

    The steady state comes from one request before the first, whose response time is drawn from its long-run law.
    Uses the same unit service times as `closed_run`.
    """
    gaps, services, u = _units(seed, run)
    services = services[: n + 1].copy()
    services[0] = -math.log1p(-u) / (1 - rate) if rate < 1 else services[0]
    arrival = np.concatenate([[0], np.cumsum(gaps[:n] / rate)])
    return simulate.fcfs(arrival, services).between(np.nextafter(0, 1), np.inf)


def throughput(log: RequestLog) -> float:
    """Requests sent per second, up to the last one."""
    return len(log) / float(log.arrival[-1])


def estimates(logs) -> tuple[Estimate, Estimate]:
    """X in 1/s and mean R in s over independent runs."""
    return (
        mean_replications([throughput(log) for log in logs]),
        mean_replications([float(log.response.mean()) for log in logs]),
    )


@lru_cache(maxsize=256)
def closed_curve(think: float, most: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Exact X (1/s) and R (s) for 1 … `most` users and mean service 1 s, by mean-value analysis."""
    exact = theory.mva(most, think, [1.0])
    return exact.throughput, exact.response_s


def _open_response(rate: float) -> float:
    """Exact mean response time in M/M/1, s; infinite from 1/s on."""
    return theory.MM1(rate, 1.0).mean_response if rate < 1 else math.inf


# -- explorer: two loops ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Loops:
    users: int
    think: float
    rate: float  # of the open loop, 1/s
    closed: theory.MachineRepairman
    simulated: tuple[Estimate, Estimate]
    open_response: Estimate

    @property
    def open_exact(self) -> float:
        return _open_response(self.rate)

    @property
    def unstable(self) -> bool:
        return self.rate >= 1


def _loops(users, think, share, seed) -> _Loops:
    closed = theory.MachineRepairman(users, think, 1.0)
    rate = share * min(closed.throughput, 1.0)
    runs = [closed_run(users, think, seed, run) for run in range(_RUNS)]
    opened = [float(open_run(rate, seed, run).response.mean()) for run in range(_RUNS)]
    return _Loops(users, think, rate, closed, estimates(runs), mean_replications(opened))


_TOP = 1500.0


def _seconds(x: float) -> str:
    return f"{x:,.0f} s" if x >= 100 else f"{x:.3g} s"


def _loops_picture(figure):
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.4))
    n = np.arange(1, 501)
    left.set(xscale="log", xlim=(1, 500), ylim=(0, 1.3), xlabel="users N", ylabel="throughput X (requests/s)")
    left.set_xticks([1, 5, 10, 50, 100, 500], ["1", "5", "10", "50", "100", "500"])
    left.set_yticks([0, 0.5, 1])
    left.minorticks_off()
    left.axhline(1, color=style.GREY, ls="--", lw=1.3)
    style.label(left, 1.06, 1.02, "capacity 1/S", style.GREY, va="bottom", fontsize=12)
    ramp = left.plot([], [], color=style.GREY, ls="--", lw=1.3)[0]
    knee = left.plot([], [], color=style.GREEN, ls=":", lw=1.8)[0]
    knee_text = style.label(left, 1, 1.17, "", style.GREEN, va="bottom")
    curve = left.plot([], [], color=style.BLUE)[0]
    point = left.plot([], [], "o", ms=10, color=style.BLUE, clip_on=False)[0]
    right.set(
        xlim=(0, 1.55), ylim=(0.5, _TOP), yscale="log",
        xlabel="closed: throughput X; open: rate λ (requests/s)", ylabel="mean response time R (s)",
    )  # fmt: skip
    right.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    right.minorticks_off()
    right.axvspan(1, 1.55, color=style.PALE, alpha=0.5, lw=0)
    style.label(right, 1.275, 0.6, "above capacity", style.GREY, ha="center", fontsize=12)
    rates = np.linspace(0.005, 0.9985, 300)
    right.plot(rates, theory.MM1(rates, 1.0).mean_response, color=style.VERMILLION)
    loop = right.plot([], [], color=style.BLUE)[0]
    marks = [
        right.plot([], [], "o", ms=10, color=c, clip_on=False)[0] for c in (style.BLUE, style.VERMILLION)
    ]
    bars = [right.plot([], [], color=style.INK, lw=2.5, clip_on=False, zorder=4)[0] for _ in range(2)]
    said = [
        style.label(right, -0.17, y, "", c, transform=right.transAxes, va="bottom", fontsize=12)
        for y, c in ((1.085, style.VERMILLION), (1.015, style.BLUE))
    ]
    note = "lines: exact\nblack: 95% intervals,\n10 runs, the same\nrandom numbers"
    style.label(right, 0.02, 0.97, note, style.GREY, transform=right.transAxes, va="top", fontsize=12)
    head = left.set_title(" \n ", color=style.BLUE, fontsize=12)

    def move(m: _Loops) -> str:
        x, r = closed_curve(m.think)
        knee_at = m.closed.saturation_users
        curve.set_data(n, x)
        ramp.set_data(n[n <= 1.3 * knee_at], n[n <= 1.3 * knee_at] / (m.think + 1))
        knee.set_data([knee_at, knee_at], [0, 1.16])
        left_of_it = knee_at >= 6  # the ramp runs on its right
        knee_text.set(
            x=knee_at * (0.92 if left_of_it else 1.4), text=f"N* = {knee_at:g}", ha="right" if left_of_it else "left"
        )
        point.set_data([m.users], [m.closed.throughput])
        loop.set_data(x, r)
        sim_x, sim_r = m.simulated
        values = (m.closed.mean_response, m.open_response.value if m.unstable else m.open_exact)
        for mark, bar, where, y, e in zip(
            marks, bars, (m.closed.throughput, m.rate), values, (sim_r, m.open_response), strict=True
        ):
            mark.set_data([where], [min(y, 0.9 * _TOP)])
            mark.set_marker("^" if y > _TOP else "o")  # an arrowhead for what lies above the axis
            bar.set_data([where] * 2, np.clip([e.low, e.high], 0.5, _TOP))
        head.set_text(
            f"closed: X = {m.closed.throughput:.3f}/s\nsimulated {plus_minus(sim_x)}"
        )
        exact = "unstable" if m.unstable else f"R = {_seconds(m.open_exact)}"
        opened = f"mean response time {_seconds(m.open_exact)}, simulated {m.open_response.brief}."
        if m.unstable:
            opened = (
                f"unstable, the first {_OPEN_REQUESTS:,} requests took {m.open_response.brief} s on average, and "
                "in a longer run it would be more."
            )
        said[0].set_text(f"open, {m.rate:.3f}/s: {exact}, simulated {plus_minus(m.open_response)} s")
        said[1].set_text(f"closed: R = {_seconds(m.closed.mean_response)}, simulated {plus_minus(sim_r)} s")
        return (
            f"One server, mean service 1 s. Closed loop of {m.users} users who think {m.think:g} s: throughput "
            f"{m.closed.throughput:.3f} per second, never above 1; mean response time {_seconds(m.closed.mean_response)}, "
            f"simulated {sim_r.brief}; saturation from {knee_at:g} users on. Open loop at {m.rate:.3f} per second: "
            + opened
        )

    return [ramp, knee, knee_text, curve, point, loop, *marks, *bars, *said, head], move


def two_loops(**setting) -> Explorer:
    """Explorer: throughput and mean response time of a closed and an open loop around one server."""
    controls = [
        slider("users", "closed: users N", "users", 1, 500, 12, per_decade=20),
        slider("think", "closed: think time Z", "s", 0.0, 50.0, 9.0, step=0.5),
        slider("share", "open: rate λ", "times X", 0.05, 1.5, 1.0, step=0.05),
    ]
    return Explorer(
        "open_closed.two_loops", controls, _loops, _loops_picture, sample=True, size=(9, 4.6), setting=setting
    )


EXPLORERS = (two_loops,)

# -- check it ---------------------------------------------------------------------------------------------


def population(users=(1, 10, 12, 50, 100, 500), think=9.0, replications=20) -> Table:
    """X and R of the closed loop, exact and simulated, and R of an open loop at the same rate."""
    rows = []
    for n in users:
        exact = theory.MachineRepairman(n, think, 1.0)
        x, r = estimates([closed_run(n, think, 2, run, 2_000) for run in range(replications)])
        same = "unstable" if exact.throughput >= 1 - 1e-9 else f"{_open_response(exact.throughput):.4g}"
        rows.append((n, f"{exact.throughput:.3f}", plus_minus(x), exact.mean_response, plus_minus(r), same))
    return Table(
        ("users", "X, exact", "simulated", "R, exact", "simulated", "R, open, at rate X"),
        tuple(rows),
        f"Requests/s and s; S = 1 s, Z = {think:g} s. ± 95% intervals from {replications} runs; the same unit random "
        "numbers in each row.",
    )


# -- break it 1: variable service -------------------------------------------------------------------------


def variability(scvs=(0.0, 1.0, 4.0, 16.0), users=12, think=9.0, replications=20, n=3_000) -> Table:
    """X and R of a closed loop whose service varies more and more, against an open loop at the same rate."""
    rows = []
    for scv in scvs:
        law = workload.lognormal(1.0, scv) if scv else workload.deterministic(1.0)
        logs = [_varied(law, users, think, run, n) for run in range(replications)]
        x, r = estimates(logs)
        open_r = [theory.MG1(rate, 1.0, scv).mean_response for rate in (x.value, x.low, x.high)]
        shown = f"{open_r[0]:.3g} [{open_r[1]:.3g}, {open_r[2]:.3g}]"
        rows.append((f"{scv:g}", plus_minus(x), plus_minus(r), shown, f"{open_r[0] / r.value:.2g}"))
    return Table(
        ("SCV of service", "closed: X", "closed: R", "open at that X: R", "open / closed"),
        tuple(rows),
        f"{users} users, Z = {think:g} s, S = 1 s, lognormal. Closed: ± 95% intervals from {replications} runs, the same "
        "uniforms in each row. Open: Pollaczek–Khinchin, at the ends of X's interval.",
    )


def _varied(law, users, think, run, n) -> RequestLog:
    rng = np.random.default_rng([7, run])
    shape = (-(-n // users), users)
    thinks, services = think * rng.standard_exponential(shape).T, law.ppf(rng.random(shape)).T
    log = simulate.closed_loop(thinks, services, stop_with_first=True)
    warm = float(log.arrival[len(log) // 10])
    late = log.between(warm, np.inf)
    return RequestLog(late.arrival - warm, late.start - warm, late.finish - warm)


# -- break it 2: an open loop with a cap is half a closed one ---------------------------------------------

RULES = ("queue", "skip", "drop")


def through_cap(intended: np.ndarray, answer: np.ndarray, cap: int, when_full: str) -> RequestLog:
    """Requests that a tool wants to send at `intended` s, at most `cap` in flight; each answer takes `answer` s.

    when_full : "queue" sends it later, "skip" leaves it out of the log, "drop" keeps it as not ok. `start` is when
    it was sent, `arrival` and `intended` when it was due.
    """
    if when_full not in RULES:
        raise ValueError(f"when_full = {when_full!r} is unknown; choose one of {', '.join(RULES)}.")
    if when_full == "queue":
        log = simulate.fcfs_servers(intended, answer, cap)
        return RequestLog(intended, log.start, log.finish, intended=intended)
    sent, flights = np.zeros(len(intended), bool), []
    for i, t in enumerate(intended):
        while flights and flights[0] <= t:
            heappop(flights)
        if len(flights) < cap:
            sent[i] = True
            heappush(flights, t + answer[i])
    start, finish = np.where(sent, intended, np.inf), np.where(sent, intended + answer, np.inf)
    keep = sent if when_full == "skip" else np.ones(len(sent), bool)
    return RequestLog(intended[keep], start[keep], finish[keep], intended=intended[keep], ok=sent[keep])


CAP, RATE, ANSWER_S, SLO_S = 8, 12.0, 0.6, 1.0


def capped(rule: str, run: int, n=600) -> RequestLog:
    """One run of `caps`: 12 requests/s, Poisson, answers of 0.6 s (gamma, SCV 0.1), at most 8 in flight."""
    rng = np.random.default_rng([12, run])
    return through_cap(
        workload.poisson(rng, RATE, n), workload.gamma(ANSWER_S, 0.1).ppf(rng.random(n)), CAP, rule
    )


def caps(replications=20, n=600) -> Table:
    """What three tools report that offer 12/s through a cap of 8 to one server, and what the users got."""
    rows = []
    for rule in RULES:
        p99, true, within, kept = [], [], [], []
        for run in range(replications):
            log = capped(rule, run, n)
            sent = np.isfinite(log.finish)
            told = (log.finish - np.where(sent, log.start, 0))[sent]
            late = (log.finish - log.intended)[sent]
            p99.append(np.quantile(told, 0.99))
            true.append(np.quantile(late, 0.99))
            within.append(100 * np.sum(told <= SLO_S) / len(log))
            kept.append(100 * np.sum(late <= SLO_S) / n)
        rows.append((rule, *(plus_minus(mean_replications(v)) for v in (p99, true, within, kept))))
    return Table(
        (
            "at the cap",
            "P99, from sending (s)",
            "P99, from intended (s)",
            "within 1 s (%), tool",
            "of all (%)",
        ),
        tuple(rows),
        f"{RATE:g}/s, Poisson, {n} requests; answers {ANSWER_S:g} s (gamma, SCV 0.1). ± 95% intervals from {replications} "
        "runs, the same requests in each row. P99 of what was sent.",
    )


# -- reports of closed tests ------------------------------------------------------------------------------


def do_they_agree(*reports, think_s=0.0) -> Table:
    """Whether reports of closed tests agree with themselves: X (R + Z) against N, and the time per request 1/X.

    reports : (users, throughput in requests/s, mean response time in s) of each test; think_s : mean think time Z of
    its users, 0 where they send again at once. By the interactive response-time law N = X (R + Z) (Denning and Buzen,
    1978) the product gives back N. Past saturation 1/X is what one request costs the whole server, in s.
    """
    if not reports:
        raise ValueError("no report given; pass (users, requests/s, mean response time in s) for each test.")
    if not think_s >= 0:
        raise ValueError(f"think_s = {think_s!r} must be 0 or more seconds.")
    rows = []
    for report in reports:
        if len(report) != 3 or not all(x > 0 for x in report):
            raise ValueError(f"report {report!r} must be (users, requests/s, mean response time in s), all above 0.")
        n, x, r = report
        inside = x * (r + think_s)
        rows.append((f"{n:g}", f"{x:g}", f"{r:g}", f"{inside:.3g}", f"{100 * inside / n:.3g}%", f"{1 / x:.3g}"))
    return Table(
        ("users N", "X (1/s)", "R (s)", "X (R + Z)", "of N", "1/X (s)"),
        tuple(rows),
        f"Z = {think_s:g} s. Near 100% of N: the numbers agree (start and end of a run cost a few per cent). Far below: "
        "users were idle or requests not counted; above: one of the three is wrong. Printed means: no intervals.",
    )


# -- a real server ----------------------------------------------------------------------------------------

SERVICE_S, THINK_S = 0.010, 0.090
LOADS = ("closed, 12 users", "closed, 50 users", "open, 150/s")


@dataclass(frozen=True)
class Live:
    """Logs of a real run by name of the load, and sentences on what went wrong or is missing."""

    logs: dict
    problems: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def said(self) -> str:
        return " ".join(self.problems)

    def _repr_html_(self):
        return f'<div role="status">{self.said or f"{len(self.logs)} loads measured."}</div>'

    def __repr__(self):
        return self.said or f"{len(self.logs)} loads measured."


def live(seconds=3.0, progress=True) -> Live:
    """Drive real HTTP servers on loopback, each one's service exponential with mean 10 ms, one at a time.

    Three loads at the same moment, a server for each: 12 and 50 users who think 90 ms, and an open loop at 1.5
    times the capacity. The servers take the same service times. Without the extra `load` nothing runs, and the
    result says what to install.
    """
    try:
        from .loadtest.server_process import TOO_EARLY, need_packages

        need_packages()
    except ImportError as error:
        return Live({}, (f"Not run: {error}.",))
    from contextlib import ExitStack

    from .loadtest import ClosedLoop, OpenLoop, run, serving

    intended = workload.poisson(np.random.default_rng(7), 1.5 / SERVICE_S, int(3 / SERVICE_S * seconds))
    intended = intended[intended < seconds]
    think = workload.exponential(THINK_S)
    logs, heard = None, io.StringIO()
    try:
        with ExitStack() as servers:
            urls = [servers.enter_context(serving(workload.exponential(SERVICE_S), seed=7)) for _ in range(3)]
            loads = [ClosedLoop(urls[i], users, seconds, think, seed=i) for i, users in enumerate((12, 50))]
            with redirect_stderr(heard):  # what it says there stands in `problems` too, and then in the caption
                logs = run(*loads, OpenLoop(urls[2], intended, timeout_s=10), progress=progress)
    except KeyboardInterrupt:
        if logs is None:
            return Live({}, (TOO_EARLY,))
    except OSError as error:
        return Live({}, (f"Not run: {error}",))
    problems = tuple(f"{name}: {p}" for name, log in zip(LOADS, logs, strict=True) for p in log.problems)
    lasted = max(log.sent_for(seconds) for log in logs)
    return Live(dict(zip(LOADS, logs, strict=True)), problems, lasted)



def live_picture(measured: Live):
    """Response times of a real run against the moment of sending; three loads."""
    if not measured.logs:
        return measured

    def picture(figure):
        ax = figure.subplots()
        ax.set(yscale="log", ylim=(0.3, 30_000), xlim=(0, 1.35 * measured.seconds))
        ax.set(xlabel="sent at (s)", ylabel="response time (ms)")
        ax.set_xticks(np.arange(0, measured.seconds + 0.1, max(1, math.ceil(measured.seconds / 8))))
        ax.set_yticks([1, 10, 100, 1000, 10_000], ["1", "10", "100", "1,000", "10,000"])
        ax.minorticks_off()
        words = []
        for (name, log), colour in zip(
            measured.logs.items(), (style.BLUE, style.GREEN, style.VERMILLION), strict=True
        ):
            good = log.ok
            late = 1e3 * log.response[good]
            ax.plot(log.arrival[good], np.maximum(late, 0.3), ".", ms=4, color=colour, alpha=0.7)
            end = float(np.median(late[-max(1, len(late) // 10) :])) if len(late) else math.nan
            y = (40, 400, max(2500, end) if len(late) else 2500)[len(words)]
            said = f"at the end: {end:,.0f} ms" if len(late) else "no answer"
            style.label(ax, 1.02 * measured.seconds, y, f"{name}\n{said}", colour, va="center")
            words.append(f"{name}: {said.removeprefix('at the end: ')}")
        ax.set_title("one real run, each load against its own server of capacity 100/s")

        def move(_):
            return (
                "Response times of a real run against the moment of sending. Median over the last tenth of the answers: "
                f"{'; '.join(words)}. The open loop's rise for as long as it runs; the closed loops' do not. {measured.said}"
            )

        return [], move

    return Still(picture, None)


def live_table(measured: Live):
    """X, R and X (R + Z) of the real run's loads, and what the exact formula says."""
    if not measured.logs:
        return measured
    rows = []
    for name, log in measured.logs.items():
        good = log.response[log.ok]
        late = good[len(good) // 5 :]  # the first fifth is warm-up
        x = rate_after(log, measured.seconds)
        if len(late) < 20:  # too few for ten batches
            rows.append((name, "–", f"{len(good)} answers", "–", "too short a run"))
        elif name.startswith("closed"):
            n = int(name.split()[1])
            exact = theory.MachineRepairman(n, THINK_S, SERVICE_S)
            mean = mean_batches(1e3 * late, batches=10)
            in_loop = f"{x * (late.mean() + THINK_S):.3g}"
            formula = f"{exact.throughput:.1f}; {1e3 * exact.mean_response:.3g}"
            rows.append((name, f"{x:.1f}", plus_minus(mean), in_loop, formula))
        else:
            rows.append((name, f"{x:.1f}", f"{1e3 * late.mean():,.0f}, rising", "–", "100; none"))
    seconds = f"{measured.seconds:g} s without its first fifth"
    caption = (
        f"One run of {seconds}; ± 95% intervals from 10 batch means, none where R rises for as long as the run lasts. "
        f"{measured.said}"
    )
    head = ("load", "X (1/s)", "R (ms)", "X (R + Z)", "exact X; R")
    return Table(head, tuple(rows), caption)


def rate_after(log: RequestLog, seconds: float) -> float:
    """Good answers per second between a fifth of the run and the end of sending."""
    seconds = log.sent_for(seconds)
    begin = seconds / 5
    if seconds <= 0:
        return 0.0
    return float(np.sum(log.ok & (log.finish >= begin) & (log.finish < seconds))) / (seconds - begin)
