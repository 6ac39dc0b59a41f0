"""Lesson 05, batch service: batches that grow with the load, and how to read a latency-throughput curve.

Rates and throughputs are requests per second. Times that a reader sees are milliseconds (names end in _ms).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from .lab import Asked, Explorer, Still, Table, predict, recall, slider, style
from .queueing import simulate, theory, workload
from .queueing.requestlog import RequestLog
from .queueing.statistics import Estimate, mean_batches, mean_replications
from .queueing.sweep import sweep

# -- a server that takes batches --------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """A batch of b requests takes fixed_ms + b * per_item_ms; a free server takes all who wait, up to `cap`."""

    fixed_ms: float
    per_item_ms: float
    cap: int

    def __str__(self):
        return f"{self.fixed_ms:g} + {self.per_item_ms:g} b ms, cap {self.cap}"

    @property
    def ceiling(self) -> float:
        """Largest throughput in requests/s: full batches, one after the other."""
        return theory.batch_capacity(self.fixed_ms / 1e3, self.per_item_ms / 1e3, self.cap)

    @property
    def low_load_ms(self) -> float:
        """Response time of a request that finds the server idle."""
        return self.fixed_ms + self.per_item_ms

    def at(self, rate: float) -> theory.DynamicBatching:
        """The exact model at this arrival rate.

        A cap far above the batches that occur changes nothing but the number of equations: it is lowered.
        """
        mean, busy = self.mean_batch_if_busy(rate), rate * self.per_item_ms / 1e3
        cap = self.cap
        if busy < 1 and rate < self.ceiling:
            cap = min(cap, math.ceil(mean + 8 * math.sqrt(mean / (1 - busy**2)) + 10))
        return theory.DynamicBatching(rate, self.fixed_ms / 1e3, self.per_item_ms / 1e3, cap)

    def mean_batch_if_busy(self, rate: float) -> float:
        """a λ / (1 − β λ): the mean batch of a server that never idles and never reaches its cap."""
        spare = 1 - rate * self.per_item_ms / 1e3
        return math.inf if spare <= 0 else rate * self.fixed_ms / 1e3 / spare

    def response_ms(self, rate: float) -> float:
        """Exact mean response time at a rate below the ceiling."""
        return self.at(rate).mean_response * 1e3

    def rate_within(self, target_ms: float) -> float | None:
        """Largest rate whose mean response time is within the target; None if not even an idle server's is."""
        return None if target_ms <= self.low_load_ms else _rate_within(self, target_ms)

    def knee(self) -> tuple[float, float]:
        """Throughput (requests/s) and mean response (ms) where throughput / response is largest (Kleinrock, 1979)."""
        return _knee(self)


@lru_cache(maxsize=256)
def _knee(server: Server) -> tuple[float, float]:
    """From the drawn curve, then the vertex of a parabola through three exact points."""
    rates, ms = curve_of(server)
    rate = float(rates[np.argmax(rates / ms)])
    step = min(0.03 * rate, 0.4 * (server.ceiling - rate))
    low, mid, high = (math.log(r / server.response_ms(r)) for r in (rate - step, rate, rate + step))
    if low + high < 2 * mid:
        rate += step * float(np.clip((high - low) / (2 * (2 * mid - low - high)), -1, 1))
    return rate, server.response_ms(rate)


@lru_cache(maxsize=256)
def _shape(server: Server):
    """Mean response (ms) × (1 − load) as a smooth function of the load: exact at its nodes, else within 1%.

    The nodes lie close together where the curve bends. Large caps make large equations, so they get fewer nodes.
    """
    from scipy.interpolate import CubicSpline

    low, high = (20, 24) if server.cap <= 32 else (8, 9)
    loads = np.concatenate([np.geomspace(0.002, 0.15, low), 1 - np.geomspace(0.77, 0.0005, high)])
    ms = [server.low_load_ms, *(server.response_ms(load * server.ceiling) for load in loads)]
    loads = np.append(0, loads)
    return CubicSpline(loads, ms * (1 - loads))


_DRAWN = np.concatenate(  # loads
    [[0], np.geomspace(0.001, 0.1, 25), np.linspace(0.105, 0.9, 160), 1 - np.geomspace(0.098, 0.0005, 40)]
)


@lru_cache(maxsize=256)
def curve_of(server: Server) -> tuple[np.ndarray, np.ndarray]:
    """Throughputs (n,) in requests/s from 0 nearly to the ceiling, and mean response times (n,) in ms."""
    return _DRAWN * server.ceiling, _shape(server)(_DRAWN) / (1 - _DRAWN)


def _rate_within(server: Server, target_ms: float) -> float:
    """From the drawn curve, then two secant steps on the exact one."""
    rates, ms = curve_of(server)
    if target_ms >= ms[-1]:  # so near the ceiling that no picture shows the difference
        return float(rates[-1])
    last, rate = 0.0, float(np.interp(target_ms, ms, rates))
    off = server.low_load_ms - target_ms
    for _ in range(3):
        before, off = off, server.response_ms(rate) - target_ms
        if abs(off) < 1e-4 * target_ms:
            break
        slope = (off - before) / (rate - last)
        last, rate = rate, min(rate - off / slope, (rate + server.ceiling) / 2)
    return rate


_CAPS = (1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 14, 16, 20, 24, 32, 40, 48, 64, 80, 96, 112, 128)
A, B = Server(5.0, 0.5, 32), Server(20.0, 0.25, 128)

# -- explorer: the timeline -------------------------------------------------------------------------------

_REQUESTS, _WARM_UP = 40_000, 4_000
_TOO_NEAR = 0.95  # of the ceiling: from here on the run is too short for an interval that can be believed


@lru_cache(maxsize=16)
def _unit_arrivals(seed: int, n: int = _REQUESTS) -> np.ndarray:
    """Poisson arrivals at one request per second: another rate is the same pattern on another clock."""
    return np.random.default_rng(seed).standard_exponential(n).cumsum()


def batch_sizes_of(log: RequestLog) -> np.ndarray:
    """How many requests share the batch of each request."""
    _, which, sizes = np.unique(log.start, return_inverse=True, return_counts=True)
    return sizes[which]


def _steady(values: np.ndarray, load: float) -> Estimate:
    """Mean of the values of successive requests after the warm-up, with an interval where one is due."""
    values = values[len(values) // 10 :]
    if load < _TOO_NEAR:
        return mean_batches(values)
    reason = "unstable" if load >= 1 else f"load above {_TOO_NEAR}"
    return Estimate(float(values.mean()), reason=reason)


def _mean_batch(log: RequestLog, load: float) -> Estimate:
    """Mean batch, each batch counted once: one over the mean over requests of 1 / size."""
    e = _steady(1 / batch_sizes_of(log), load)
    low, high = (None, None) if e.low is None else (1 / e.high, 1 / e.low)
    return replace(e, value=1 / e.value, low=low, high=high)


@dataclass(frozen=True)
class _Timeline:
    server: Server
    rate: float
    timeout_ms: float
    log: RequestLog
    response: Estimate  # ms
    batch: Estimate
    at_once: Estimate | None  # ms, of the same arrivals without a timeout; None if there is none anyway
    longer: Estimate | None  # ms, response minus at_once, request by request

    @property
    def load(self) -> float:
        return self.rate / self.server.ceiling

    @property
    def busy(self) -> str:
        """Busy share: exact without a timeout, else from the mean batch of the run."""
        if self.load >= 1:
            return "always"
        if not self.timeout_ms:
            share = 100 * self.server.at(self.rate).utilisation
            return f"{share:.3g}% (exact)" if share < 99.95 else "over 99.9% (exact)"
        sizes = self.batch.value, self.batch.high, self.batch.low
        shares = [None if b is None else 100 * busy_share(self.server, self.rate, b) for b in sizes]
        return "% ".join(replace(self.batch, **dict(zip(("value", "low", "high"), shares, strict=True))).brief.split(" ", 1))


def _timeline_run(cap, fixed, per_item, rate, timeout, seed) -> _Timeline:
    server = Server(fixed, per_item, cap)
    load = rate / server.ceiling
    arrival = _unit_arrivals(seed) / rate
    log = simulate.timeout_batches(arrival, fixed / 1e3, per_item / 1e3, cap, timeout / 1e3)
    response, batch = _steady(log.response * 1e3, load), _mean_batch(log, load)
    if not timeout:
        return _Timeline(server, rate, timeout, log, response, batch, None, None)
    at_once = simulate.dynamic_batches(arrival, fixed / 1e3, per_item / 1e3, cap).response * 1e3
    longer = _steady(log.response * 1e3 - at_once, load)
    return _Timeline(server, rate, timeout, log, response, batch, _steady(at_once, load), longer)


_ROWS = (60, 120, 240, 480)
_SIZES = (2, 4, 8, 16, 32, 64, 128)


def _round_up(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 5, 7, 10, ... times a power of ten: axis limits that jump seldom."""
    scale = 10.0 ** math.floor(math.log10(value))
    return next(s * scale for s in (1, 1.5, 2, 3, 5, 7, 10) if value <= s * scale * (1 + 1e-9))


def _boxes(left, right, height) -> list[np.ndarray]:
    """Corners of rectangles that stand on the time axis."""
    zero = np.zeros_like(height)
    return [*np.stack([[left, zero], [left, height], [right, height], [right, zero]]).transpose(2, 0, 1)]


def _timeline_picture(figure):
    from matplotlib.collections import PolyCollection

    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.3, 1])
    figure.get_layout_engine().set(rect=(0.03, 0, 0.94, 1))
    top.set(ylabel="request number", ylim=(0, 60))
    bottom.set(xlabel="time (ms)", ylabel="requests\nin the batch", xlim=(0, 100), ylim=(0, 38))
    bottom.set_yticks([0, 16, 32])
    waits = top.hlines([0], [0], [0], color=style.ORANGE)
    serves = top.hlines([0], [0], [0], color=style.BLUE, capstyle="projecting")  # seen however short
    fixed = PolyCollection([], facecolor=style.PALE, edgecolor=style.GREY, lw=0.8)
    items = PolyCollection([], facecolor=style.SKY, edgecolor=style.GREY, lw=0.8)
    bottom.add_collection(fixed, autolim=False)
    bottom.add_collection(items, autolim=False)
    cap_line = bottom.plot([0, 1], [1, 1], color=style.VERMILLION, ls="--", lw=1.6,
                           transform=bottom.get_yaxis_transform())[0]  # fmt: skip
    cap_text = style.label(bottom, 0.005, 1, "", style.VERMILLION, va="bottom", fontsize=12,
                           transform=bottom.get_yaxis_transform())  # fmt: skip
    style.label(top, 0.985, 0.22, "waiting", style.BROWN, transform=top.transAxes, ha="right")
    style.label(top, 0.985, 0.06, "then in service", style.BLUE, transform=top.transAxes, ha="right")
    head = top.set_title("\n ", pad=6, fontsize=12)
    busy_text = bottom.set_title(" ", pad=6, fontsize=12)

    def move(run: _Timeline) -> str:
        log, server = run.log, run.server
        sizes = np.diff(np.append(np.unique(log.start, return_index=True)[1], len(log)))
        members = sizes.cumsum()
        rows = next((r for r in _ROWS if np.searchsorted(members, r) >= 8), _ROWS[-1])
        shown = int(np.searchsorted(members, rows)) + 1
        start, finish = np.unique(log.start)[:shown] * 1e3, np.unique(log.finish)[:shown] * 1e3
        size = sizes[:shown]
        end = _round_up(finish[-1])
        round_size = next(s for s in _SIZES if size.max() <= s)
        most = 1.22 * round_size
        if top.get_ylim()[1] != rows or bottom.get_xlim()[1] != end or bottom.get_ylim()[1] != most:
            top.set_ylim(0, rows)
            bottom.set(xlim=(0, end), ylim=(0, most), yticks=[0, round_size // 2, round_size])
        row = np.arange(rows) + 0.5
        for bars, a, b in ((waits, log.arrival, log.start), (serves, log.start, log.finish)):
            a, b = a[:rows] * 1e3, b[:rows] * 1e3
            b = np.where(b > a, np.maximum(b, a + 0.002 * end), b)  # shorter than a pixel is not drawn
            bars.set_segments(np.stack([np.column_stack([x, row]) for x in (a, b)], axis=1))
            bars.set_linewidth(max(0.7, 105 / rows))
        ready = start + server.fixed_ms
        fixed.set_verts(_boxes(start, ready, size))
        items.set_verts(_boxes(ready, finish, size))
        seen = server.cap < most
        cap_line.set_ydata([server.cap] * 2 if seen else [])
        cap_line.set_xdata([0, 1] if seen else [])
        cap_text.set(y=server.cap, text=f"cap {server.cap}" if seen else "")
        state = ": unstable, the queue grows" if run.load >= 1 else ""
        first = f"load {run.load:.3g} of the ceiling {server.ceiling:,.0f}/s{state}"
        if run.load >= 1:
            second = "a mean would measure the length of the run, not the server"
        elif run.at_once is None:
            first += f"   mean batch {run.batch.brief}"
            exact = server.response_ms(run.rate)
            second = f"mean response {run.response.brief} ms   exact: {exact:.4g} ms"
        else:
            first += f"   mean batch {run.batch.brief}"
            second = f"mean response {run.response.brief} ms: longer by {run.longer.brief} than at once"
        head.set_text(f"{first}\n{second}")
        busy = f"server busy {run.busy}"
        busy_text.set_text(f"box = batch (left: fixed cost, right: per request)   {busy}")
        return (
            f"The first {rows} requests at {run.rate:g} per second, served in batches of at most {server.cap} that take "
            f"{server.fixed_ms:g} + {server.per_item_ms:g} b ms, with a timeout of {run.timeout_ms:g} ms; the largest "
            f"batch in view has {size.max()}. In the whole run: {first}; {second}; {busy}."
        )

    return [waits, serves, fixed, items, cap_line, cap_text, head, busy_text], move


def timeline(**setting) -> Explorer:
    """Explorer: requests that wait and are served in batches, with or without waiting on purpose."""
    controls = [
        slider("rate", "arrival rate λ", "requests/s", 10, 3000, 500, per_decade=20),
        slider("cap", "largest batch B", "requests", 1, 128, 32, values=_CAPS),
        slider("fixed", "fixed cost a", "ms", 0.5, 50.0, 5.0, per_decade=20),
        slider("per_item", "cost per request β", "ms", 0.05, 5.0, 0.5, per_decade=20),
        slider("timeout", "timeout", "ms", 0, 50, 0, step=1),
    ]
    return Explorer("batching.timeline", controls, _timeline_run, _timeline_picture, sample=True, size=(9, 4.3),
                    setting=setting)  # fmt: skip


# -- explorer: the curve ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pair:
    a: Server
    b: Server
    target_ms: float

    @property
    def rates(self) -> tuple[float | None, float | None]:
        return self.a.rate_within(self.target_ms), self.b.rate_within(self.target_ms)


def _pair(cap, fixed, per_item, target) -> _Pair:
    return _Pair(A, Server(fixed, per_item, cap), target)


_X_LIMITS = (2000, 3000, 5000, 10_000)
_Y_LIMITS = (25, 50, 100, 200, 400)
_MARKS = ("○  low load", "◆  knee", "     there", "⋮   ceiling", "●  at target")
_ROW_HEIGHTS = (0.76, 0.61, 0.49, 0.34, 0.19)


def _per_second(rate: float | None) -> str:
    return "never" if rate is None else f"{rate:,.0f} /s" if rate >= 10 else f"{rate:.2g} /s"


def _times(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 1.1 else f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


def _compared(a: float | None, b: float | None) -> str:
    """Who carries more, in words."""
    if a is None or b is None:
        who = [name for name, rate in (("A", a), ("B", b)) if rate is None]
        return f"{' and '.join(who)} cannot keep the target even when idle"
    if abs(a / b - 1) < 0.003:
        return "A and B carry the same"
    more, less = ("A", "B") if a > b else ("B", "A")
    return f"{more} carries {_times(max(a, b) / min(a, b))} times as much as {less}"


def _curve_picture(figure):
    ax, side = figure.subplots(1, 2, width_ratios=[2.4, 1.4])
    figure.get_layout_engine().set(rect=(0.02, 0, 0.97, 1))
    side.set_axis_off()
    ax.set(xlim=(0, 2000), ylim=(0, 100), xlabel="throughput (requests/s)", ylabel="mean response time (ms)")
    ax.xaxis.set_major_locator(_ticks(5))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    colours = {"A": style.BLUE, "B": style.VERMILLION}
    target = ax.plot([], [], color=style.INK, ls="--", lw=1.6)[0]
    target_text = style.label(ax, 1.005, 0, "", va="center", fontsize=12,
                              transform=ax.get_yaxis_transform())  # fmt: skip
    drawn, columns = {}, {}
    for x, (name, colour) in zip((0.68, 1.04), colours.items(), strict=True):
        drawn[name] = [
            ax.plot([], [], color=colour)[0],
            ax.plot([], [], color=colour, ls=":", lw=1.6)[0],  # ceiling
            ax.plot([], [], color=colour, lw=1, alpha=0.6)[0],  # drop line
            ax.plot([], [], "o", ms=9, mfc="white", mec=colour, mew=2, clip_on=False, zorder=4)[0],
            ax.plot([], [], "D", ms=9, color=colour, mec="white", zorder=5)[0],
            ax.plot([], [], "o", ms=10, color=colour, mec="white", zorder=5)[0],
            style.label(ax, 0, 0, name, colour, fontsize=16, weight="bold", va="top"),
        ]
        side.text(x, 0.9, name, color=colour, fontsize=16, weight="bold", ha="right")
        columns[name] = [side.text(x, y, "", color=colour, ha="right", fontsize=12) for y in _ROW_HEIGHTS]
    for y, mark in zip(_ROW_HEIGHTS, _MARKS, strict=True):
        side.text(0.0, y, mark, fontsize=12)
    head = ax.set_title("\n ")

    def move(pair: _Pair) -> str:
        right = next(x for x in _X_LIMITS if x >= max(pair.a.ceiling, pair.b.ceiling))
        high = next(y for y in _Y_LIMITS if y >= 1.6 * pair.target_ms and y >= 1.3 * pair.b.low_load_ms)
        if (ax.get_xlim()[1], ax.get_ylim()[1]) != (right, high):
            ax.set(xlim=(0, right), ylim=(0, high))
        target.set_data([0, right], [pair.target_ms] * 2)
        target_text.set(y=pair.target_ms, text=f"target\n{pair.target_ms:g} ms")
        rates = pair.rates
        said = []
        for (name, artists), server, rate in zip(drawn.items(), (pair.a, pair.b), rates, strict=True):
            line, ceiling, drop, low, knee, met, text = artists
            x, y = curve_of(server)
            line.set_data(np.append(x, server.ceiling), np.append(y, max(y[-1], 2 * high)))
            ceiling.set_data([server.ceiling] * 2, [0, high])
            low.set_data([0], [server.low_load_ms])
            knee_rate, knee_ms = server.knee()
            knee.set_data([knee_rate], [knee_ms])
            met.set_data([] if rate is None else [rate], [] if rate is None else [pair.target_ms])
            drop.set_data([] if rate is None else [rate] * 2, [] if rate is None else [0, pair.target_ms])
            other = pair.b if name == "A" else pair.a
            smaller = server.ceiling < other.ceiling or server.ceiling == other.ceiling and name == "A"
            left = smaller and server.ceiling > 0.06 * right
            at = server.ceiling + right * (-0.012 if left else 0.012)
            # Where the other curve would run through the name it stands lower, below that curve.
            there = np.interp(at, *curve_of(other)) / high if at < other.ceiling else 0
            y = 0.985 if not 0.85 < there < 1.12 else 0.79
            text.set(x=at, y=y * high, ha="right" if left else "left")
            values = (
                f"{server.low_load_ms:.4g} ms",
                _per_second(knee_rate),
                f"{knee_ms:.3g} ms",
                _per_second(server.ceiling),
                _per_second(rate),
            )
            for cell, value in zip(columns[name], values, strict=True):
                cell.set_text(value)
            said.append(
                f"{name} ({server}): low-load latency {values[0]}, knee {values[1]} with {values[2]}, "
                f"ceiling {values[3]}, within the target {values[4]}"
            )
        within = _compared(*rates)
        ceilings = _compared(pair.a.ceiling, pair.b.ceiling)
        head.set_text(f"A: {pair.a}     B: {pair.b}\nWithin {pair.target_ms:g} ms: {within}.")
        return (
            f"Mean response time against throughput of two servers, with a target of {pair.target_ms:g} ms. "
            f"{'. '.join(said)}. Within the target: {within}; by their ceilings: {ceilings}."
        )

    moving = [*(a for artists in drawn.values() for a in artists), *(c for cells in columns.values() for c in cells)]
    return [target, target_text, head, *moving], move


def _ticks(n):
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(n)


def curve(**setting) -> Explorer:
    """Explorer: exact latency-throughput curves of A (5 + 0.5 b ms, cap 32) and of B, at one latency target."""
    controls = [
        slider("cap", "B: largest batch", "requests", 1, 128, 128, values=_CAPS),
        slider("fixed", "B: fixed cost a", "ms", 1.0, 40.0, 20.0, per_decade=20),
        slider("per_item", "B: cost per request β", "ms", 0.1, 5.0, 0.25, per_decade=20),
        slider("target", "latency target", "ms", 10, 200, 30, step=5),
    ]
    return Explorer("batching.curve", controls, _pair, _curve_picture, size=(9, 4.5), setting=setting)


EXPLORERS = (timeline, curve)

# -- mark it yourself -------------------------------------------------------------------------------------

_UNKNOWN = Server(12.0, 0.8, 24)
_QUESTIONS = {
    "low_load": ("Low-load latency: mean response time when almost nobody comes?", "ms"),
    "knee": ("Knee: throughput where a line through the origin touches the curve from below?", "requests/s"),
    "ceiling": ("Ceiling: throughput that the curve never passes?", "requests/s"),
}


@lru_cache(maxsize=1)
def _measured(runs=5, n=30_000, seed=5) -> tuple[np.ndarray, list[Estimate]]:
    """A load test of the unknown server: 13 rates, and the mean response time at each in ms."""
    rates = np.array([20, 50, 100, 200, 300, 400, 500, 600, 650, 700, 730, 750, 760.0])

    def response(rate, rng):
        return _batches(_UNKNOWN, rng.standard_exponential(n).cumsum() / rate).response[n // 10 :].mean() * 1e3

    return rates, sweep(response, rates, [1000 * seed + run for run in range(runs)]).estimates()


def _batches(server: Server, arrival: np.ndarray, timeout_ms=0.0) -> RequestLog:
    costs = server.fixed_ms / 1e3, server.per_item_ms / 1e3
    return simulate.timeout_batches(arrival, *costs, server.cap, timeout_ms / 1e3)


def _points(ax):
    rates, measured = _measured()
    for rate, e in zip(rates, measured, strict=True):
        ax.plot([rate, rate], [e.low, e.high], color=style.BLUE, lw=5, alpha=0.5, solid_capstyle="butt")
    ax.plot(rates, [e.value for e in measured], "o", color=style.BLUE, ms=7, mec="white")
    ax.set(xlim=(0, 900), ylim=(0, 100), xlabel="throughput (requests/s)", ylabel="mean response time (ms)")
    return rates, measured


def unknown_server() -> Still:
    """A latency-throughput curve as a load test gives it: 13 rates, five runs each."""

    def picture(figure):
        ax = figure.subplots()
        rates, measured = _points(ax)
        ax.set_xticks(range(0, 901, 100))
        ax.set_title("13 rates, five runs of 30,000 requests each; bars: 95% intervals")

        def move(_):
            said = ", ".join(f"{e.brief} ms at {rate:g} per second" for rate, e in zip(rates, measured, strict=True))
            return f"Measured mean response times with 95% intervals from five runs: {said}."

        return [], move

    return Still(picture, None, size=(9, 4.0))


def ask_marks() -> Asked:
    """Fields for the three marks that the reader reads off the measured curve."""
    return Asked([predict(f"05.{key}", *question) for key, question in _QUESTIONS.items()])


def true_marks() -> dict[str, float]:
    """The marks of the unknown server: ms, requests/s, requests/s."""
    return {"low_load": _UNKNOWN.low_load_ms, "knee": _UNKNOWN.knee()[0], "ceiling": _UNKNOWN.ceiling}


def compare_marks() -> Still:
    """The measured curve with its three marks, and dashed lines where the reader put hers."""
    hers = {key: recall(f"05.{key}", value).predicted for key, value in true_marks().items()}
    committed = any(value is not None for value in hers.values())

    def picture(figure):
        ax = figure.subplots()
        _points(ax)
        knee, knee_ms = _UNKNOWN.knee()
        ax.plot(*curve_of(_UNKNOWN), color=style.BLUE, lw=1.5)
        ax.plot([0, 900], [0, 900 * knee_ms / knee], color=style.GREEN, lw=1.5)
        ax.axvline(_UNKNOWN.ceiling, color=style.VERMILLION, ls=":")
        ax.plot([0], [_UNKNOWN.low_load_ms], "o", ms=10, mfc="white", mec=style.PURPLE, mew=2, clip_on=False, zorder=5)
        ax.plot([knee], [knee_ms], "D", ms=10, color=style.GREEN, mec="white", zorder=5)
        style.label(ax, 14, 26, "low-load latency", style.PURPLE)
        style.label(ax, knee - 8, knee_ms + 4, "knee", style.GREEN, ha="right")
        style.label(ax, _UNKNOWN.ceiling + 8, 90, "ceiling", style.VERMILLION)
        ax.set_title(f"The marks of {_UNKNOWN}{'; dashed: your readings' if committed else ''}")
        for key, colour in (("low_load", style.PURPLE), ("knee", style.GREEN), ("ceiling", style.VERMILLION)):
            if hers[key] is not None:
                (ax.axhline if key == "low_load" else ax.axvline)(hers[key], color=colour, lw=1, ls="--")

        def move(_):
            return f"The measured curve with its marks. {'. '.join(map(' '.join, _readings()))}."

        return [], move

    return Still(picture, None, size=(9, 4.0))


def _readings() -> list[tuple[str, str, str, str]]:
    """Each mark: its name, the reader's value, the value, and how far off she was."""
    rows = []
    for key, value in true_marks().items():
        question, unit = _QUESTIONS[key]
        hers = recall(f"05.{key}", value).predicted
        mine, off = ("none committed", "") if hers is None else (f"{hers:.4g} {unit}", f"{100 * (hers / value - 1):+.1f}%")
        rows.append((question.partition(":")[0], mine, f"{value:.4g} {unit}", off))
    return rows


def marks_table() -> Table:
    """How far off the reader's three marks are."""
    return Table(
        ("mark", "you read", "value", "you are off by"),
        tuple(_readings()),
        f"{_UNKNOWN}. No intervals: the values are exact. The knee is flat: 10% off there changes little.",
    )


# -- why and check it -------------------------------------------------------------------------------------


def capacities(server=A, batches=(1, 2, 4, 8, 16, 32, 64, 128)) -> Table:
    """What one batch takes and what the server then carries, batch by batch, and in the limit."""
    rows = []
    for b in batches:
        s = replace(server, cap=b)
        took = s.fixed_ms + b * s.per_item_ms
        rows.append((b, took, took / b, s.ceiling, s.ceiling / replace(server, cap=1).ceiling))
    limit = theory.batch_capacity(server.fixed_ms / 1e3, server.per_item_ms / 1e3)
    rows.append(("∞", "", server.per_item_ms, limit, limit / replace(server, cap=1).ceiling))
    return Table(
        ("batch", "takes (ms)", "per request (ms)", "ceiling (requests/s)", "times batch 1"),
        tuple(rows),
        f"A batch of b takes {server.fixed_ms:g} + {server.per_item_ms:g} b ms. No intervals: computed, not measured.",
    )


def _narrow(e: Estimate) -> str:
    """Value ± half the interval with one digit, for tables of many columns."""
    digits = max(0, -math.floor(math.log10(e.half_width)))
    return f"{e.value:,.{digits}f} ± {e.half_width:,.{digits}f}"


def exact_and_simulated(rates=(100, 500, 1000, 1400, 1450, 1480), runs=10, n=20_000) -> Table:
    """Server A at six rates: exact mean response and mean batch beside simulated ones."""
    rows = []
    units = [_unit_arrivals(5000 + run, n) for run in range(runs)]
    for rate in rates:
        logs = [_batches(A, unit / rate) for unit in units]
        response = mean_replications([log.response[n // 10 :].mean() * 1e3 for log in logs])
        batch = mean_replications([1 / np.mean(1 / batch_sizes_of(log)[n // 10 :]) for log in logs])
        exact, rule = A.at(rate), A.mean_batch_if_busy(rate)
        rows.append((rate, f"{exact.mean_response * 1e3:.4g}", _narrow(response), f"{exact.mean_batch:.4g}", _narrow(batch),
                     f"{rule:.4g}"))  # fmt: skip
    return Table(
        ("λ (1/s)", "mean response (ms)", "simulated", "mean batch", "simulated", "aλ/(1 − βλ)"),
        tuple(rows),
        f"{A}. Exact values, and simulated ones ± half a 95% interval from {runs} runs of "
        f"{n:,} requests (same unit random numbers).",
    )


# -- break it ---------------------------------------------------------------------------------------------


def busy_share(server: Server, rate: float, mean_batch: float) -> float:
    """Share of time in which the server works: each batch costs fixed_ms, each request per_item_ms."""
    return rate * (server.fixed_ms / mean_batch + server.per_item_ms) / 1e3


def waiting_on_purpose(timeout_ms=20, rates=(100, 500, 1000, 1400, 1450), runs=10, n=20_000) -> Table:
    """Server A with and without a timeout on the same arrivals."""
    rows = []
    units = [_unit_arrivals(5000 + run, n) for run in range(runs)]
    for rate in rates:
        at_once, late = ([_batches(A, unit / rate, wait) for unit in units] for wait in (0, timeout_ms))
        means = [np.array([log.response[n // 10 :].mean() for log in logs]) for logs in (at_once, late)]
        sizes = [1 / np.mean(1 / batch_sizes_of(log)[n // 10 :]) for log in late]
        busy = mean_replications([100 * busy_share(A, rate, size) for size in sizes])
        exact = A.at(rate)
        late_ms, ratio = mean_replications(1e3 * means[1]), mean_replications(means[1] / means[0])
        rows.append((rate, exact.mean_response * 1e3, _narrow(late_ms), _narrow(ratio),
                     f"{100 * exact.utilisation:.4g}", _narrow(busy)))  # fmt: skip
    return Table(
        ("λ (1/s)", "at once (ms)", f"wait {timeout_ms} ms (ms)", "ratio", "busy (%): at once", "wait"),
        tuple(rows),
        f"{A}: mean response. ± half a 95% interval from {runs} runs of {n:,} requests; each ratio is of two systems "
        "with the same arrivals. Without ±: exact.",
    )


def run_lengths(seconds=(1, 10, 60), rates=(1400, 1600, 2000), runs=10) -> Table:
    """Mean response of the requests that come within a run of so many seconds, below and above the ceiling."""
    rows = []
    for rate in rates:
        units = [_unit_arrivals(7000 + run, int(1.2 * rate * seconds[-1])) for run in range(runs)]
        responses = [(_batches(A, unit / rate), unit / rate) for unit in units]
        cells = [
            mean_replications([1e3 * log.response[arrival < t].mean() for log, arrival in responses]) for t in seconds
        ]
        side = "below" if rate < A.ceiling else "above"
        rows.append((f"{rate:,} ({side})", *(_narrow(e) for e in cells)))
    return Table(
        ("λ (1/s)", *(f"run of {t} s: ms" for t in seconds)),
        tuple(rows),
        f"{A}, ceiling {A.ceiling:,.0f}/s: mean response. ± half a 95% interval from {runs} runs; a longer run "
        "continues a shorter one.",
    )


_SCVS = {1: ("SCV 1 (Poisson)", style.BLUE), 4: ("SCV 4", style.GREEN), 16: ("SCV 16", style.PURPLE)}
_BURST_RATES = np.array([100, 400, 700, 1000, 1200, 1300, 1400])


@lru_cache(maxsize=1)
def _bursty(runs=8, n=12_000) -> dict[int, list[Estimate]]:
    """Mean response (ms) of server A at each of _BURST_RATES, by the SCV of the gamma interarrival times."""
    out = {}
    for scv in _SCVS:
        law = workload.gamma(1, scv)
        units = [law.ppf(np.random.default_rng([9, run]).random(n)).cumsum() for run in range(runs)]
        out[scv] = [
            mean_replications([_batches(A, unit / rate).response[n // 10 :].mean() * 1e3 for unit in units])
            for rate in _BURST_RATES
        ]
    return out


def bursts() -> Still:
    """Break it: the same server when the same number of requests comes in bursts."""
    results = _bursty()

    def picture(figure):
        ax = figure.subplots()
        x, y = curve_of(A)
        ax.plot(x, y, color=style.BLUE, lw=1.2)
        for scv, (name, colour) in _SCVS.items():
            values = results[scv]
            ax.fill_between(_BURST_RATES, [e.low for e in values], [e.high for e in values], color=colour, alpha=0.2, lw=0)
            ax.plot(_BURST_RATES, [e.value for e in values], "o-" if scv > 1 else "o", color=colour, ms=6, mec="white")
            k, ha, va = {1: (3, "left", "top"), 4: (3, "right", "bottom"), 16: (2, "right", "bottom")}[scv]
            style.label(ax, _BURST_RATES[k] + (12 if ha == "left" else -12), values[k].value, name, colour, ha=ha, va=va)
        ax.axhline(30, color=style.INK, ls="--", lw=1.6)
        style.label(ax, 10, 30.8, "target 30 ms")
        ax.axvline(A.ceiling, color=style.VERMILLION, ls=":")
        style.label(ax, A.ceiling + 12, 66, "ceiling", style.VERMILLION)
        ax.set(xlim=(0, 1700), ylim=(0, 75), xlabel="throughput (requests/s)", ylabel="mean response time (ms)")
        ax.set_title(f"{A}, by the SCV of the gaps between arrivals. 8 runs, same\nuniforms for all; bands: 95% intervals")

        def move(_):
            at = list(_BURST_RATES).index(1000)
            said = "; ".join(f"{name}: {results[scv][at].brief} ms" for scv, (name, _) in _SCVS.items())
            return (
                "Mean response time of server A against throughput for gaps between arrivals with an SCV of 1, 4 and 16. "
                f"At 1000 requests per second: {said}. The ceiling of {A.ceiling:,.0f} per second is the same for all."
            )

        return [], move

    return Still(picture, None, size=(9, 4.4))


# -- in LLM serving ---------------------------------------------------------------------------------------


def fit(batch_1: float, ms_1: float, batch_2: float, ms_2: float) -> tuple[float, float]:
    """Fixed and marginal cost in ms of a step, from its length at two batch sizes: the line through two points."""
    if batch_1 == batch_2:
        raise ValueError(f"batch_1 and batch_2 are both {batch_1!r}; give the step at two different batch sizes.")
    per_item = (ms_2 - ms_1) / (batch_2 - batch_1)
    return ms_1 - per_item * batch_1, per_item


REPORTED = (16, 8.24, 32, 9.42)  # batch, ms per token, twice: a public serving report


def decode_steps(batches=(1, 16, 32, 64, 128, 256)) -> Table:
    """What the line through the two reported points says about other batch sizes."""
    fixed, per_item = fit(*REPORTED)
    rows = []
    for b in batches:
        step = fixed + per_item * b
        kind = "reported" if b in REPORTED else "the line"
        rows.append((b, f"{step:.2f}", f"{1e3 * b / step:,.0f}", f"{100 * fixed / step:.0f}%", kind))
    return Table(
        ("batch", "TPOT (ms)", "throughput (tokens/s)", "fixed part of the step", "from"),
        tuple(rows),
        f"Line: {fixed:.2f} + {per_item:.5f} b ms. No intervals: the report gives two numbers without any.",
    )


def largest_batch(target_ms: float, fixed_ms: float, per_item_ms: float) -> int:
    """The largest batch whose step takes at most target_ms; 0 where not even one request fits."""
    return max(0, math.floor((target_ms - fixed_ms) / per_item_ms * (1 + 1e-12)))


def share_within(server: Server, rate: float, target_ms: float) -> float:
    """Share of the requests whose response time is within the target; 0 in an unstable system."""
    return float(server.at(rate).response_cdf(target_ms / 1e3)) if rate < server.ceiling else 0.0


def which_batch(rate=1000, target_ms=50, fixed_ms=5.0, per_item_ms=0.5, share=0.99,
                caps=(8, 10, 11, 12, 14, 16, 24, 32)) -> Table:  # fmt: skip
    """Which largest batch carries `rate` requests/s with a share of them within target_ms?"""
    rows = []
    for cap in caps:
        server = Server(fixed_ms, per_item_ms, cap)
        if rate >= server.ceiling:
            rows.append((cap, server.ceiling, "unstable", "unstable", "0%", "no"))
            continue
        model = server.at(rate)
        within = share_within(server, rate, target_ms)
        percent = f"{100 * within:.2f}%" if within < 0.9999 else "over 99.99%"
        rows.append((cap, server.ceiling, f"{model.mean_batch:.3g}", f"{model.mean_response * 1e3:.3g}", percent,
                     "yes" if within >= share else "no"))  # fmt: skip
    return Table(
        ("cap", "ceiling (1/s)", "mean batch", "mean response (ms)", f"within {target_ms:g} ms", f"P{100 * share:g} kept"),
        tuple(rows),
        f"{rate:,} requests/s, Poisson; a batch of b takes {fixed_ms:g} + {per_item_ms:g} b ms. Exact: no intervals.",
    )


def smallest_cap(rate, target_ms, fixed_ms, per_item_ms, share=0.99, largest=128) -> int | None:
    """The smallest cap that carries `rate` requests/s with this share within target_ms; None if none up to `largest`.

    rate : requests/s, Poisson; target_ms : longest response time of a share `share` of the requests, in (0, 1).
    fixed_ms, per_item_ms : a batch of b takes fixed_ms + b * per_item_ms. ValueError where a number makes no sense.
    """
    if not 0 < share < 1:
        raise ValueError(f"share={share!r} is not between 0 and 1; give 0.99 for 99% of the requests.")
    for name, value, unit in (("rate", rate, "requests per second"), ("target_ms", target_ms, "milliseconds")):
        if not 0 < value < math.inf:
            raise ValueError(f"{name}={value!r} is not a positive finite number; give {unit} above 0.")
    for cap in range(1, largest + 1):
        server = Server(fixed_ms, per_item_ms, cap)
        if rate < server.ceiling and share_within(server, rate, target_ms) >= share:
            return cap
    return None
