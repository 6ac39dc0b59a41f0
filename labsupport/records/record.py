"""What a result file holds: what was measured, what the tool says of it, and what cannot be known."""

from dataclasses import dataclass, field

import numpy as np

from labsupport.queueing.requestlog import RequestLog
from labsupport.records.traces import Gauge, Trace


@dataclass(frozen=True)
class Claims:
    """What a tool printed or was told, in s and 1/s; None where it says nothing.

    requests          requests sent, failures included; failed: those that failed or were cut off
    duration_s        how long the run took; rate: what the tool calls throughput, in requests/s
    offered_rate      rate it was asked to send at; burstiness: parameter of the gaps, and scv, the squared
                      coefficient of variation that it means (tools define the parameter differently)
    cap               largest number in flight it was allowed; users: closed-loop connections or threads
    mean, quantiles   {"response": s} and {("response", 0.99): s}; names: response, ttft, tpot, itl,
                      client_queue, intended (response from the intended send)
    peak, inside      most and mean number of requests in flight
    goodput           good requests/s; attainment: share of good ones; slo: limits in s by name
    dropped           requests never sent because no connection was free
    seed              of prompts or arrivals
    """

    requests: int | None = None
    failed: int | None = None
    duration_s: float | None = None
    rate: float | None = None
    offered_rate: float | None = None
    burstiness: float | None = None
    scv: float | None = None
    cap: float | None = None
    users: float | None = None
    mean: dict[str, float] = field(default_factory=dict)
    quantiles: dict[tuple[str, float], float] = field(default_factory=dict)
    peak: float | None = None
    inside: float | None = None
    goodput: float | None = None
    attainment: float | None = None
    slo: dict[str, float] = field(default_factory=dict)
    dropped: int | None = None
    seed: int | None = None

    def __post_init__(self):
        """Refuses what is no number, in one sentence; NaN and inf, where a tool measured nothing, become None."""
        for name, value in vars(self).items():
            if name in ("mean", "quantiles", "slo"):
                kept = {key: number for key, v in value.items() if (number := _number(name, v)) is not None}
                object.__setattr__(self, name, kept)
            elif name != "seed":
                object.__setattr__(self, name, _number(name, value))
        for name in ("cap", "users", "offered_rate", "burstiness"):
            if getattr(self, name) == 0:
                raise ValueError(f"{name} is 0; give more than 0, or None where there is none.")
        for name, limit in self.slo.items():
            if limit == 0:
                raise ValueError(f"slo limits {name} to 0; give seconds above 0, or leave it out.")
        for _, p in self.quantiles:
            if not 0 < p < 1:
                raise ValueError(f"quantiles names the share {p!r}; give one between 0 and 1, such as 0.99.")
        if self.failed is not None and self.requests is not None and self.failed > self.requests:
            raise ValueError(
                f"failed is {self.failed} of {self.requests} requests; failed ones count as requests."
            )


def _number(name, value):
    if value is None:
        return None
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} is {value!r:.40}; give a number, or None where it is unknown.")
    if not np.isfinite(float(value)):
        return None
    if value < 0:
        raise ValueError(f"{name} is {value!r}; give 0 or more.")
    return value


@dataclass(frozen=True, eq=False)
class Summary:
    """What is left where no request has a moment: durations in s per request (if any), by name.

    durations  {"response": array, "ttft": array, ...}, one value per request, in the file's order
    tokens     {"prompt": array, "output": array}
    ok         bool per request, or None
    """

    durations: dict[str, np.ndarray] = field(default_factory=dict)
    tokens: dict[str, np.ndarray] = field(default_factory=dict)
    ok: np.ndarray | None = None

    def __post_init__(self):
        for name, values in self.durations.items():
            good = values if self.ok is None else values[self.ok]
            bad = (good < 0) | np.isinf(good) | (np.isnan(good) if name == "response" else False)
            if bad.any():
                raise ValueError(
                    f"{name} of a request that succeeded is {good[bad][0]:g}; give seconds, 0 or more."
                )


@dataclass(frozen=True, eq=False)
class Record:
    """One run, read from a file.

    tool     what wrote it
    log      what happened to each request, or None where the file does not say when they came
    summary  otherwise: what is known without moments
    trace    arrivals and tokens alone; gauge: an engine's own samples
    claims   what the tool itself says
    prompts  one number per request that is equal for equal prompts, in the log's order; None if unknown
    zero     the moment of the log's zero on the clock of the file, in s, where a gauge log needs it
    unknown  sentences on what this file cannot tell
    name     file and, where it holds several runs, which of them
    """

    tool: str
    log: RequestLog | None = None
    summary: Summary | None = None
    claims: Claims = field(default_factory=Claims)
    trace: Trace | None = None
    gauge: Gauge | None = None
    prompts: np.ndarray | None = None
    zero: float = 0.0
    unknown: tuple[str, ...] = ()
    name: str = ""

    def __repr__(self):
        held = next((x for x in (self.log, self.trace) if x is not None), None)
        if held is None:
            held = "gauge samples" if self.gauge is not None else "aggregates only"
        return f"Record({self.name}: {self.tool}, {held})"


NO_MOMENTS = (
    "The file does not say when requests were sent: no number in the system, no arrival pattern, no growth "
    "during the run can be computed."
)
NO_REQUESTS = "The file holds aggregates only: no interval, no other percentile and no other SLO can be computed from it."
NO_SERVICE = "The client does not see when service began: waiting and service time are not told apart."
FROM_SEND = "The clock starts at sending: what a request waited inside the load generator is not in the file."
NO_INTENDED = (
    "The intended send times are not in the file: whether the generator kept its schedule is unknown."
)


LONGEST_S = 1e10  # three centuries; differences of later moments lose their microseconds, too


def request_log(arrival, finish, ok=None, *, prompts=None, **columns):
    """(RequestLog, prompts) from columns in any order and on any clock, whose zero becomes the first moment.

    A request that is not ok and has no finish (inf or NaN) never started either. The first token is moved
    into [arrival, finish], from which rounding may have put it out.
    """
    arrival, finish = (np.array(column, dtype=float) for column in (arrival, finish))
    columns = {name: np.array(column, dtype=float) for name, column in columns.items()}
    good = np.ones(len(arrival), bool) if ok is None else np.array(ok, dtype=bool)
    finish[~good & ~np.isfinite(finish)] = np.inf
    if not np.isfinite(arrival).all():
        raise ValueError("a request has no moment of sending")
    if "intended" in columns:
        missing = ~np.isfinite(columns["intended"])
        columns["intended"][missing] = arrival[missing]
    moments = [arrival, *(columns[name] for name in ("intended",) if name in columns)]
    zero = min((float(column.min()) for column in moments if len(column)), default=0.0)
    arrival, finish = arrival - zero, finish - zero
    longest = float(max(arrival.max(initial=0), finish[np.isfinite(finish)].max(initial=0)))
    if longest > LONGEST_S:
        raise ValueError(f"a moment lies {longest:.3g} s after the first, so the unit of the times is another")
    columns |= {
        name: columns[name] - zero for name in ("intended", "first_token", "start") if name in columns
    }
    if "first_token" in columns:
        first = columns["first_token"]
        first[~good & ~np.isfinite(first)] = np.inf
        first[good & np.isnan(first)] = finish[good & np.isnan(first)]  # an answer in one piece
        here = np.isfinite(first)
        first[here] = np.clip(first[here], arrival[here], finish[here])
    if "start" not in columns:
        columns["start"] = np.where(np.isfinite(finish), arrival, np.inf)
    order = np.argsort(arrival, kind="stable")
    log = RequestLog.from_unsorted(
        arrival=arrival, finish=finish, **({} if good.all() else {"ok": good}), **columns
    )
    return log, None if prompts is None else np.asarray(prompts)[order]


def distinct(values):
    """Numbers that are equal where the (hashable) values are."""
    seen = {}
    return np.array([seen.setdefault(value, len(seen)) for value in values])
