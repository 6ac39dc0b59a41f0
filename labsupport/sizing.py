"""How many engines keep a promise: `plan`, from a rate and lengths or from a trace.

Rates are requests per second, times are seconds.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .lab import Table
from .queueing import engine, workload
from .queueing.statistics import Estimate, mean_batches, mean_replications, meets
from .queueing.sweep import run_all


def percent(e: Estimate) -> str:
    """A share in per cent; the ends of the interval stay within 0 and 100."""
    if e.low is None:
        return f"{100 * e.value:.4g}%"
    low, high = max(0.0, 100 * e.low), min(100.0, 100 * e.high)
    return f"{replace(e, value=100 * e.value, low=low, high=high).brief}%"


def smallest(
    attained: Callable[[int], Estimate], share: float, least: int, most: int
) -> tuple[Estimate, dict]:
    """The smallest number from `least` to `most` whose attainment reaches `share`, and all that was measured.

    attained  the attainment with a number of engines, an Estimate with an interval; taken to rise with the number
    The interval: from the first number whose upper end reaches the share to the first whose lower end does. An end
    that `most` does not reach is infinite. Raises ValueError where not even the value reaches it.
    """
    seen: dict[int, Estimate] = {}

    def reaches(number, end):
        if number not in seen:
            seen[number] = attained(number)
        return getattr(seen[number], end) >= share

    def first(end):
        below, step, number = least - 1, 1, least
        while not reaches(number, end):
            if number >= most:
                return math.inf
            below, number, step = number, min(number + step, most), 2 * step
        while number - below > 1:
            middle = (below + number) // 2
            below, number = (below, middle) if reaches(middle, end) else (middle, number)
        return number

    value = first("value")
    if value == math.inf:
        raise ValueError(
            f"attainment is only {seen[most].value:.4g} with {most} engines, below share = {share:g}; allow more time, "
            "a smaller share, or raise `most`."
        )
    low, high = first("high"), first("low")
    method = f"attainment with {len(seen)} numbers of engines"
    return Estimate(value, low, high, seen[value].confidence, method), seen


@dataclass(frozen=True)
class Plan:
    """How many engines a promise needs.

    engines     Estimate: the smallest number whose attainment reaches the share; its interval runs from the first number
                whose upper end reaches it to the first whose lower end does. Buy `engines.high`.
    attainment  number of engines -> measured attainment, for every number tried
    floor       the fewest engines that can complete what comes in, whatever the latency
    load        arrival rate over what engines.value engines can complete
    alone       share of the requests that keep the promise with an engine to themselves: no number gives more
    rate        offered, in requests/s; source: what was offered, in words
    """

    engines: Estimate
    attainment: dict
    floor: int
    load: float
    alone: float
    rate: float
    slo: dict
    share: float
    source: str

    def __str__(self):
        e = self.engines
        interval = f"{e.low:.0f} to {e.high:.0f}" if e.high < math.inf else f"{e.low:.0f} or more"
        promise = " and ".join(
            f"{name.upper() if name[0] == 't' else name} ≤ {limit:g} s" for name, limit in self.slo.items()
        )
        near = " Near the capacity a queue settles slowly: double the run and see whether the answer stays."
        near = near if self.load > 0.9 else ""
        return (
            f"{e.value} engines [{interval}] for {self.rate:.4g}/s ({self.source}), {100 * self.share:g}% with {promise}; "
            f"load {self.load:.2f}. To complete them at all: {self.floor}.{near}"
        )

    __repr__ = __str__

    def _repr_html_(self):
        rows = tuple((number, percent(self.attainment[number])) for number in sorted(self.attainment))
        method = next(iter(self.attainment.values())).method
        caption = f"95% intervals from {next(iter(self.attainment.values())).n} {method}; the same requests in every row."
        return (
            f"<b>{html.escape(str(self))}</b>" + Table(("engines", "attainment"), rows, caption)._repr_html_()
        )


def plan(
    machine: engine.Engine, slo, share=0.99, *, rate=None, prompt_tokens=None, output_tokens=None, trace=None, speed=1.0,
    router="least_loaded", seconds=180.0, runs=8, seed=1, most=1024, executor=None,
) -> Plan:  # fmt: skip
    """How many engines keep a promise, with an interval.

    machine    an Engine: the costs of a step in s, slots and KV budget of one of them
    slo        limits in s by name, all of which must hold: {"ttft": 1.0, "tpot": 0.05}; or one number, for the response time
    share      of all requests that must keep them

    Either what comes, as a model:
    rate       requests/s, Poisson
    prompt_tokens, output_tokens   one number each, or equally long arrays, whose rows are drawn at random
    seconds, runs, seed   `runs` independent runs of `seconds` s; the first fifth of each is not counted. Student's t
               interval over the runs. Near its capacity a service fills up slowly: double `seconds`, and see whether
               the answer stays

    or as it came:
    trace      with columns arrival [s], prompt_tokens and output_tokens, such as a Trace or a RequestLog; it is replayed
               `speed` times faster. The interval is from the means of 20 equal parts of it: it covers chance within this
               trace, and no other day

    router     of the engine.Pool; most: engines tried at most
    executor   a `concurrent.futures.Executor` that serves the runs side by side, of threads, processes or a Dask cluster;
               the numbers are those without one. The trace is one run, so it gains nothing

    The same requests meet every number of engines. Raises ValueError or TypeError in one sentence.
    """
    if not isinstance(machine, engine.Engine):
        raise TypeError(f"machine must be an Engine with the costs of its steps, not {machine!r:.40}.")
    if not 0 < share < 1:
        raise ValueError(f"share = {share!r} must lie between 0 and 1, such as 0.99.")
    limits = dict(slo) if isinstance(slo, Mapping) else {"response": slo}
    if (trace is None) == (rate is None):
        raise ValueError("give either rate, prompt_tokens and output_tokens, or trace; not both.")
    if trace is not None:
        if len(trace) < 200:
            raise ValueError(
                f"trace holds {len(trace)} requests, too few for an interval; give at least 200, or a rate."
            )
        arrival = workload.replay(trace.arrival, speed)
        loads = [_Load(0, arrival, trace.prompt_tokens.clip(1), trace.output_tokens.clip(1))]
        rate, source = (len(trace) - 1) / arrival[-1], getattr(trace, "name", "replayed log")
        source += f", {speed:g} times faster" if speed != 1 else ""
    else:
        loads = _drawn(rate, prompt_tokens, output_tokens, seconds, runs, seed)
        source = f"Poisson, {runs} runs of {seconds:g} s"
    kept = partial(_kept, machine, router, limits, seed)

    def attained(number):
        found = run_all(kept, [{"engines": number, "load": load} for load in loads], executor)
        if trace is not None:
            return mean_batches(found[0])
        starts = [np.searchsorted(load.arrival, seconds / 5) for load in loads]
        return mean_replications([one[start:].mean() for one, start in zip(found, starts, strict=True)])

    prompt, output = (np.concatenate([getattr(load, name) for load in loads]) for name in ("prompt", "output"))
    alone = _alone(machine, prompt, output, limits)
    if alone < share:
        raise ValueError(
            f"no number of engines keeps the promise for share = {share:g}: with an engine to itself only {alone:.4g} of "
            "the requests keep it; allow more time, a smaller share, or faster steps."
        )
    per_engine = machine.capacity(prompt, output)
    floor = int(rate / per_engine) + 1
    engines, seen = smallest(attained, share, floor, max(most, floor))
    return Plan(
        engines, seen, floor, rate / per_engine / engines.value, alone, float(rate), limits, share, source
    )


@dataclass(frozen=True, eq=False, repr=False)
class _Load:
    """What comes in one run: arrivals in s, prompt and output tokens."""

    number: int
    arrival: np.ndarray
    prompt: np.ndarray
    output: np.ndarray

    def __repr__(self):
        return f"run {self.number}"


def _kept(machine, router, limits, seed, engines, load):
    """1.0 or 0.0 for each request of a load: whether it keeps all limits."""
    system = engine.Pool(machine, engines, router)
    u = np.random.default_rng([seed, load.number, 3]).random(len(load.arrival)) if router == "random" else None
    return meets(engine.serve(load.arrival, load.prompt, load.output, system, u=u), limits).astype(float)


def _drawn(rate, prompt_tokens, output_tokens, seconds, runs, seed):
    """Arrivals and tokens of each run."""
    for name, value in (("rate", rate), ("seconds", seconds)):
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float, np.number))
            or not 0 < value < math.inf
        ):
            raise ValueError(f"{name} = {value!r:.40} must be a finite number above 0.")
    if isinstance(runs, bool) or not isinstance(runs, (int, np.integer)) or runs < 2:
        raise ValueError(
            f"runs = {runs!r:.40} must be a whole number of at least 2, or there is no interval."
        )
    if prompt_tokens is None or output_tokens is None:
        raise ValueError(
            "prompt_tokens and output_tokens are missing; give numbers or arrays beside the rate."
        )
    if rate * seconds < 100:
        raise ValueError(
            f"seconds = {seconds:g} brings only {rate * seconds:.3g} requests a run; give at least {100 / rate:.4g}."
        )
    prompts, outputs = np.broadcast_arrays(np.atleast_1d(prompt_tokens), np.atleast_1d(output_tokens))
    loads = []
    for run in range(runs):
        arrivals, lengths = (np.random.default_rng([seed, run, part]) for part in range(2))
        n = int(rate * seconds + 8 * math.sqrt(rate * seconds))
        unit = arrivals.standard_exponential(n).cumsum()
        row = (lengths.random(n) * len(prompts)).astype(int)
        keep = np.searchsorted(unit, rate * seconds)
        loads.append(_Load(run, unit[:keep] / rate, prompts[row][:keep], outputs[row][:keep]))
    return loads


def _alone(machine, prompt, output, limits) -> float:
    """Share of the requests that keep the promise with nobody else inside; at most 5,000 of them are tried."""
    some = slice(None, None, -(-len(prompt) // 5000))
    prompt, output = prompt[some], output[some]
    longest = 2 * (
        machine.step_time(1, prompt.max() + output.max()) * output.max()
        + machine.step_time(0, 0, prompt.max())
        + 1
    )
    chunks = math.ceil(prompt.max() / (machine.chunk_tokens or machine.token_budget or prompt.max()))
    longest += 2 * chunks * machine.prefill_s
    return float(
        meets(engine.serve(np.arange(len(prompt)) * longest, prompt, output, machine), limits).mean()
    )
