"""Lesson 01, Little's law: one area counted by time and by request, and how much memory it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import course
from .lab import Explorer, Still, Table, choice, slider, style
from .queueing import simulate, theory, workload
from .queueing.requestlog import RequestLog
from .queueing.statistics import (
    mean_replications,
    number_in_system_steps,
    time_average_in_system,
    time_weighted_mean,
)
from .records import traces
from .records.public import conversation  # noqa: F401  (the lesson calls it by this module's name)

# -- the law ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sides:
    """Both sides of Little's law for one window, in requests, and what they are made of.

    in_system (L) : time average of the number in system, from the steps of N(t).
    rate (lambda) : requests per second; response (W) : mean response time in seconds; span : seconds.
    """

    in_system: float
    rate: float
    response: float
    span: float

    @property
    def product(self) -> float:
        """lambda * W in requests, counted request by request."""
        return self.rate * self.response


def sides(log: RequestLog) -> Sides:
    """L and lambda * W of a run that starts and ends empty, by two separate computations (Little, 1961)."""
    span = float(log.finish.max() - log.arrival[0])
    return Sides(time_average_in_system(log), len(log) / span, float(log.response.mean()), span)


SYSTEMS = {
    "M/M/1: one server": "mm1",
    "heavy-tailed service (SCV 10), one server": "heavy",
    "4 servers, one shared queue": "shared",
    "one server that takes batches": "batch",
    "closed loop: 6 users": "closed",
}
_USERS = 6


def run(
    system: str, rate: float, service_mean: float, rng: np.random.Generator, n: int, until_s=np.inf
) -> RequestLog:
    """One finished run through one of SYSTEMS, empty before and after.

    rate : arrival rate in requests/s (closed loop: what the users would send if answers took no time).
    service_mean : mean service time in s of one request that is served alone.
    n, until_s : at most `n` requests (closed loop: about `n`, until the first user has had n / 6), none after `until_s`.
    """
    u = rng.random(n)
    if system == "closed":
        shape = (_USERS, -(-n // _USERS))
        think = workload.exponential(_USERS / rate).ppf(rng.random(shape))
        service = workload.exponential(service_mean).ppf(rng.random(shape))
        return simulate.closed_loop(think, service, stop_with_first=True).between(0, until_s)
    arrival = workload.poisson(rng, rate, n)
    arrival = arrival[: max(1, np.searchsorted(arrival, until_s))]
    law = workload.lognormal(service_mean, 10) if system == "heavy" else workload.exponential(service_mean)
    service = law.ppf(u)[: len(arrival)]
    if system == "shared":
        return simulate.fcfs_servers(arrival, service, 4)
    if system == "batch":
        return simulate.dynamic_batches(arrival, 0.8 * service_mean, 0.2 * service_mean, 8)
    return simulate.fcfs(arrival, service)


def _load(system: str, rate: float, service_mean: float) -> float:
    """Arrival rate over capacity; a closed loop has none, since its users wait."""
    work = rate * service_mean
    return {"shared": work / 4, "batch": work * (0.8 / 8 + 0.2), "closed": 0.0}.get(system, work)


# -- explorer: one area, counted twice ----------------------------------------------------------------

_WINDOW = 30.0  # requests arrive for this many seconds; then the run goes on until it is empty


@dataclass(frozen=True)
class _Area:
    log: RequestLog
    sides: Sides
    load: float


def _area_run(system, rate, service, seed) -> _Area:
    log = run(system, rate, service, np.random.default_rng(seed), n=120, until_s=_WINDOW)
    return _Area(log, sides(log), _load(system, rate, service))


def _area_picture(figure):
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.set(ylabel="N(t)\nrequests inside")
    bottom.set(xlabel="time (s)", ylabel="request number")
    by_time = top.fill_between([0, 1], [0, 1], step="post", color=style.SKY, alpha=0.6, lw=0)
    steps = top.plot([], [], color=style.BLUE, drawstyle="steps-post", lw=1.8)[0]
    mean = top.plot([], [], color=style.INK, ls="--", lw=1.5)[0]
    waits = bottom.hlines([0], [0], [0], color=style.ORANGE)
    serves = bottom.hlines([0], [0], [0], color=style.BLUE)
    head = top.set_title(" ", pad=6), bottom.set_title(" ", pad=6)
    style.label(bottom, 0.985, 0.28, "waiting", style.BROWN, transform=bottom.transAxes, ha="right")
    style.label(bottom, 0.985, 0.10, "then in service", style.BLUE, transform=bottom.transAxes, ha="right")

    def move(area: _Area) -> str:
        log, s = area.log, area.sides
        t, n = number_in_system_steps(log)
        end = style.step_up(log.finish.max(), [40, 60, 100, 200, 400, 1000])
        most = style.step_up(n.max(), [4, 8, 16, 32, 64, 128])
        rows = style.step_up(len(log), [12, 24, 48, 96, 128])
        for ax, high in ((top, most), (bottom, rows)):
            style.limits(ax, (0, end), (0, high))
        corners = np.column_stack([np.repeat(t, 2)[1:], np.repeat(n, 2)[:-1]])
        by_time.set_verts([np.vstack([[t[0], 0], corners, [t[-1], 0]])])
        steps.set_data(t, n)
        mean.set_data([t[0], t[-1]], [s.in_system] * 2)
        row = np.arange(len(log)) + 0.5
        for bars, a, b in ((waits, log.arrival, log.start), (serves, log.start, log.finish)):
            bars.set_segments(np.stack([np.column_stack([a, row]), np.column_stack([b, row])], axis=1))
            bars.set_linewidth(90 / rows)
        area_s = s.in_system * s.span
        unstable = f"   (load {area.load:.2g}: unstable)" if area.load >= 1 else ""
        head[0].set_text(f"By time: area {area_s:.1f} / {s.span:.1f} s  →  L = {s.in_system:.3f}{unstable}")
        head[1].set_text(f"By request: λ {s.rate:.3f}/s × W {s.response:.3f} s  →  λW = {s.product:.3f}")
        return (
            f"Two pictures of the same area for {len(log)} requests. By time: on average {s.in_system:.3f} requests "
            f"inside over {s.span:.1f} s. By request: {s.rate:.3f} per second, each inside for {s.response:.3f} s on "
            f"average, product {s.product:.3f}.{unstable and ' The load is 1 or more: unstable, the queue grows.'}"
        )

    return [by_time, steps, mean, waits, serves, *head], move


def area(**setting) -> Explorer:
    """Explorer: N(t) of one finished run, its area coloured by time and by request."""
    controls = [
        choice("system", "system", SYSTEMS),
        slider("rate", "arrival rate λ", "requests/s", 0.1, 2.0, 0.9, step=0.05),
        slider("service", "mean service time", "s", 0.1, 2.0, 0.9, step=0.05),
    ]
    return Explorer(
        "little.area", controls, _area_run, _area_picture, sample=True, size=(9, 4.6), setting=setting
    )


# -- explorer: how much memory is that? ---------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """What the KV cache of a transformer depends on (grouped-query attention: Ainslie et al., 2023).

    bytes_per_value : of one number in the cache (2 for fp16); weights_gb : of the weights, in 1e9 bytes.
    """

    name: str
    layers: int
    kv_heads: int
    head_size: int
    bytes_per_value: int
    weights_gb: float

    @property
    def bytes_per_token(self) -> int:
        """Keys and values of one token in all layers, in bytes."""
        return 2 * self.layers * self.kv_heads * self.head_size * self.bytes_per_value

    def cache_gb(self, requests: float, context_tokens: float) -> float:
        """KV cache in GB (1e9 bytes) of this many requests with this many tokens each."""
        return requests * context_tokens * self.bytes_per_token / 1e9


MODELS = {
    m.name: m
    for m in (
        Model("Llama-3-8B", 32, 8, 128, 2, 16.1),
        Model("Llama-2-7B (no grouped heads)", 32, 32, 128, 2, 13.5),
        Model("Qwen2.5-7B", 28, 4, 128, 2, 15.2),
        Model("Llama-3-70B, 8-bit weights", 80, 8, 128, 2, 70.6),
    )
}
GPU_GB = 80.0


def largest_rate(model: Model, response_s: float, context_tokens: float, memory_gb: float) -> float:
    """Throughput ceiling in requests/s that the memory sets: L_max / W (Little's law turned round)."""
    return memory_gb * 1e9 / (context_tokens * model.bytes_per_token) / response_s


@dataclass(frozen=True)
class _Memory:
    model: Model
    rate: float
    response: float
    context: float  # tokens

    @property
    def inside(self) -> float:
        return self.rate * self.response

    @property
    def gb(self) -> float:
        return self.model.cache_gb(self.inside, self.context)

    @property
    def free(self) -> float:
        return GPU_GB - self.model.weights_gb


def _memory_of(model, rate, response, context) -> _Memory:
    return _Memory(MODELS[model], rate, response, context * 1024)


def _count(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def _memory_picture(figure):
    ax = figure.subplots()
    rates = np.geomspace(1, 200, 2)
    ax.set(
        xscale="log", yscale="log", xlim=(1, 200), ylim=(0.01, 3e6),
        xlabel="arrival rate λ (requests/s)", ylabel="KV cache (GB)", title=" ",
    )  # fmt: skip
    ax.set_xticks([1, 2, 5, 10, 20, 50, 100, 200], ["1", "2", "5", "10", "20", "50", "100", "200"])
    ax.set_yticks([0.01, 1, 100, 1e4, 1e6], ["0.01", "1", "100", "10,000", "1,000,000"])
    ax.minorticks_off()
    line = ax.plot([], [], color=style.BLUE)[0]
    gpu = ax.plot([1, 200], [1, 1], color=style.VERMILLION, ls="--")[0]
    over = ax.fill_between([1, 200], [1, 1], [3e6, 3e6], color=style.VERMILLION, alpha=0.08, lw=0)
    ceiling = ax.plot([], [], color=style.GREEN, ls=":")[0]
    point = ax.plot([], [], "o", ms=11, color=style.BLUE, clip_on=False)[0]
    gpu_text = style.label(ax, 1.06, 1, "", style.VERMILLION, va="bottom")
    ceiling_text = style.label(ax, 1, 0.014, "", style.GREEN, va="bottom")
    title = ax.set_title(" ")

    def move(m: _Memory) -> str:
        line.set_data(rates, [m.model.cache_gb(r * m.response, m.context) for r in rates])
        point.set_data([m.rate], [m.gb])
        gpu.set_ydata([m.free, m.free])
        over.set_verts([np.array([[1, m.free], [200, m.free], [200, 3e6], [1, 3e6]])])
        gpu_text.set(
            y=m.free * 1.1, text=f"{m.free:.3g} GB: what one {GPU_GB:.0f} GB GPU has left beside the weights"
        )
        top = largest_rate(m.model, m.response, m.context, m.free)
        ceiling.set_data([top, top] if 1 <= top <= 200 else [], [0.01, m.free] if 1 <= top <= 200 else [])
        beyond = " (left of this axis)" if top < 1 else " (right of this axis)" if top > 200 else ""
        ceiling_text.set(
            text=f" ceiling {top:.3g}/s{beyond} ", x=min(max(top, 1), 200), ha="right" if top > 30 else "left"
        )
        title.set_text(
            f"L = {m.rate:g}/s × {m.response:g} s = {_count(m.inside)} requests inside  →  {_count(m.gb)} GB of KV cache"
        )
        fits = "fits beside" if m.gb <= m.free else f"needs {m.gb / m.free:.3g} times the memory left beside"
        return (
            f"KV cache against arrival rate for {m.model.name}. At {m.rate:g} requests per second, {m.response:g} s each "
            f"and {m.context:,.0f} tokens, {_count(m.inside)} requests are inside with {_count(m.gb)} GB of KV cache; this "
            f"{fits} the weights on one {GPU_GB:.0f} GB GPU. The memory allows {top:.3g} requests per second."
        )

    return [over, line, gpu, ceiling, point, gpu_text, ceiling_text, title], move


def memory(**setting) -> Explorer:
    """Explorer: requests inside and the GB of KV cache they hold, against one GPU's memory."""
    controls = [
        choice("model", "model", list(MODELS)),
        slider("rate", "arrival rate λ", "requests/s", 1.0, 200.0, 20.0, per_decade=20),
        slider("response", "time in system W", "s", 1.0, 120.0, 8.0, per_decade=20),
        slider("context", "context per request", "K tokens", 0.5, 128.0, 2.0, per_decade=20),
    ]
    return Explorer("little.memory", controls, _memory_of, _memory_picture, setting=setting)


EXPLORERS = (area, memory)

# -- check it, break it -------------------------------------------------------------------------------

_CASES = (("mm1", 0.8), ("heavy", 0.8), ("shared", 3.2), ("batch", 2.0), ("closed", 0.8))


def _theory(system: str, rate: float) -> float:
    """Mean number in system for mean service 1 s, from the closed form or the exact chain."""
    if system == "heavy":
        return theory.MG1(rate, 1, 10).mean_in_system
    if system == "shared":
        return theory.MMc(rate, 1, 4).mean_in_system
    if system == "batch":
        return rate * theory.DynamicBatching(rate, 0.8, 0.2, 8).mean_response
    if system == "closed":
        loop = theory.MachineRepairman(_USERS, _USERS / rate, 1)
        return loop.throughput * loop.mean_response
    return theory.MM1(rate, 1).mean_in_system


def five_systems(replications=20, n=10_000) -> Table:
    """Both sides of the law in five systems, each simulated `replications` times with `n` requests."""
    names = {value: name for name, value in SYSTEMS.items()}
    rows = []
    for system, rate in _CASES:
        both = [sides(run(system, rate, 1, np.random.default_rng(seed), n)) for seed in range(replications)]
        gap = max(abs(s.in_system / s.product - 1) for s in both)
        left, right = (
            mean_replications([getattr(s, side) for s in both]) for side in ("in_system", "product")
        )
        rows.append((names[system], left.brief, right.brief, f"{gap:.0e}", _theory(system, rate)))
    return Table(
        ("system", "L, by time", "λW, by request", "largest relative gap in one run", "L in theory"),
        tuple(rows),
        f"Mean service 1 s; 95% intervals from {replications} independent runs of {n:,} requests.",
    )


def _unfinished(rho, replications, checkpoints, seed):
    """At each checkpoint T (s): L(T) by time, and throughput times mean response of what has finished."""
    rng = np.random.default_rng(seed)
    n = int(1.6 * checkpoints[-1])
    out = np.zeros((2, replications, len(checkpoints)))
    for r in range(replications):
        log = simulate.fcfs(workload.poisson(rng, rho, n), workload.exponential(1).ppf(rng.random(n)))
        for k, t in enumerate(checkpoints):
            out[0, r, k] = time_average_in_system(log, 0, t)
            out[1, r, k] = log.response[log.finish <= t].sum() / t
    return out


def unfinished_runs(loads=(0.8, 1.1), replications=30, seed=1) -> Still:
    """Break it: the two sides when the run is cut at T, below and above a load of 1 (same random numbers)."""
    t = np.linspace(10, 400, 40)
    runs = {rho: _unfinished(rho, replications, t, seed) for rho in loads}

    def picture(figure):
        axes = figure.subplots(1, len(loads))
        for ax, (rho, both) in zip(axes, runs.items(), strict=True):
            for values, colour in zip(both, (style.BLUE, style.VERMILLION), strict=True):
                means = [mean_replications(column) for column in values.T]
                ax.fill_between(
                    t, [e.low for e in means], [e.high for e in means], color=colour, alpha=0.2, lw=0
                )
                ax.plot(t, [e.value for e in means], color=colour)
            state = "unstable" if rho >= 1 else "stable"
            ax.set(
                title=f"load {rho:g}: {state} ({replications} runs, 95% bands)", xlim=(0, 400), ylim=(0, None)
            )
            ax.set(xlabel="run cut at T (s)", ylabel="requests")
            style.label(ax, 0.03, 0.97, "L, by time", style.BLUE, transform=ax.transAxes, va="top")
            style.label(
                ax, 0.97, 0.05, "λW of finished", style.VERMILLION, transform=ax.transAxes, ha="right"
            )

        def move(_):
            last = {rho: [mean_replications(v[:, -1]).value for v in both] for rho, both in runs.items()}
            said = "; ".join(f"at load {rho:g} L = {a:.1f} and λW = {b:.1f}" for rho, (a, b) in last.items())
            return f"Both sides of Little's law when runs are cut at T. At T = 400 s: {said}."

        return [], move

    return Still(picture, None)


def gauges(loads=(0.2, 0.5, 0.8), replications=20, n=5_000) -> Table:
    """Break it: a gauge sampled every 0.1 s, but only while the server is busy, against the time average."""
    rows = []
    for rho in loads:
        true, busy = [], []
        for seed in range(replications):
            log = run("mm1", rho, 1, np.random.default_rng(seed), n)
            samples = log.in_system(np.arange(0, log.finish[-1], 0.1))
            true.append(time_average_in_system(log))
            busy.append(samples[samples > 0].mean())
        rows.append(
            (f"{rho:g}", mean_replications(true).brief, mean_replications(busy).brief, f"{1 / rho:.3g}")
        )
    return Table(
        ("utilisation", "L, by time", "mean of samples taken while busy", "ratio in theory, 1/ρ"),
        tuple(rows),
        f"M/M/1, mean service 1 s, the same random numbers in each row; 95% intervals from {replications} runs.",
    )


# -- real input ---------------------------------------------------------------------------------------


def assumed_log(trace, base_s=0.2, prompt_s=0.0002, output_s=0.03) -> RequestLog:
    """The trace as a log whose response times are assumed: base + prompt tokens + output tokens, in s each.

    No request waits: the trace says when requests came and how long they were, not how they were served.
    """
    first = trace.arrival + base_s + prompt_s * trace.prompt_tokens
    return RequestLog(
        trace.arrival,
        trace.arrival,
        first + output_s * trace.output_tokens,
        first_token=first,
        prompt_tokens=trace.prompt_tokens,
        output_tokens=trace.output_tokens,
    )


def real_trace(trace) -> Still:
    """N(t) of the trace with assumed response times, and both sides of the law."""
    log = assumed_log(trace)
    s = sides(log)

    def picture(figure):
        ax = figure.subplots()
        t = np.arange(0, log.finish.max(), 5.0)
        ax.plot(t / 60, log.in_system(t), color=style.BLUE, lw=1)
        ax.axhline(s.in_system, color=style.VERMILLION, ls="--")
        style.label(
            ax,
            0.99,
            0.05,
            f"dashed: L = {s.in_system:.2f}",
            style.VERMILLION,
            transform=ax.transAxes,
            ha="right",
        )
        ax.set(xlabel="time (minutes)", ylabel="requests inside", xlim=(0, t[-1] / 60), ylim=(0, None))
        gap = abs(s.in_system / s.product - 1)
        ax.set_title(
            f"{len(log):,} requests: λW = {s.rate:.3f}/s × {s.response:.3f} s = {s.product:.3f};  "
            f"L and λW differ by {gap:.0e}\n{trace.name}"
        )

        def move(_):
            return (
                f"Requests inside over time, {trace.name}. Mean {s.in_system:.2f}; arrival rate {s.rate:.3f} per second "
                f"times mean response {s.response:.3f} s gives the same, with a relative difference of {gap:.0e}."
            )

        return [], move

    return Still(picture, None)


def trace_memory(trace) -> Table:
    """KV cache of the trace under the assumed response times: by mean context, and request by request."""
    log, model = assumed_log(trace), MODELS["Llama-3-8B"]
    s = sides(log)
    tokens = log.prompt_tokens + log.output_tokens  # reserved from the first moment on
    held = float(np.sum(log.response * tokens) / s.span)  # Little's law with tokens for requests: H = λG
    rows = (
        ("L, requests inside", s.in_system),
        ("L × mean context, GB", model.cache_gb(s.in_system, float(tokens.mean()))),
        ("each request's own context × its own time, GB", model.cache_gb(1, held)),
    )
    caption = f"{trace.name}; {model.name}. No intervals: each line counts one finished run, with assumed response times."
    return Table(("quantity", "value"), rows, caption)


def three_counts(log: RequestLog, gauge: traces.Gauge) -> tuple[float, ...]:
    """How many requests were inside, on average: from the records, and from the gauge in three ways."""
    return (
        sides(log).product,
        time_weighted_mean(gauge.time, gauge.running + gauge.waiting),
        time_weighted_mean(gauge.time, gauge.running),
        float(gauge.running.mean()),
    )


def vllm_sweep() -> Table:
    """Requests inside at three loads of a public vLLM test: request records against the engine's own gauge."""
    rows, source = [], "BurstGPT's public vLLM logs, 500 prompts per load"
    for scale in (100, 500, 1000):
        names = (f"detail_log_scale{scale}_prompt500.json", f"vllm_log_scale{scale}_prompt500.csv")
        files = [course.data(f"burstgpt_vllm_sweep/{name}") for name in names]
        if all(files):
            test = traces.burstgpt_sweep(*files)
        else:
            source = "SYNTHETIC STAND-IN (4 servers and a gauge): get the real logs with `qlab data`"
            test = _synthetic_test(scale)
        rows.append((f"scale {scale}", *three_counts(*test)))
    head = (
        "load", "λW, from the requests", "gauge: running + waiting, by time", "gauge: running, by time",
        "gauge: running, plain mean",
    )  # fmt: skip
    return Table(head, tuple(rows), f"{source}. One finished run per load, counted: no intervals.")


def _synthetic_test(scale: int) -> tuple[RequestLog, traces.Gauge]:
    """500 requests through 4 servers at a load that grows with `scale`; the gauge is silent when all are idle."""
    log = run("shared", 4 * scale / (scale + 300), 1, np.random.default_rng(scale), 500)
    time = np.arange(log.arrival[0], log.finish.max(), 0.5)
    inside = log.in_system(time)
    busy = (inside > 0) | (np.diff(inside, prepend=1) != 0)  # the line that says 0 is still written
    time, inside = time[busy], inside[busy]
    return log, traces.Gauge(time, np.minimum(inside, 4), np.maximum(inside - 4, 0), inside / inside.max())
