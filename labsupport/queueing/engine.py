"""LLM serving engines with continuous batching: one, several behind a router, or prefill and decode apart.

What is simulated, as vLLM, SGLang and TensorRT-LLM do it (Yu et al. 2022, Orca; Kwon et al. 2023, vLLM):

An engine works in steps. A step reads prompt tokens (prefill), writes one token for each sequence in the batch
(decode), or does both, and takes

    step_s + per_sequence_s * sequences + per_context_token_s * their context tokens   if it decodes
    + prefill_s + per_prompt_token_s * prompt tokens                                   if it reads prompts

A sequence's context is its prompt and the tokens written so far. Requests join and leave between steps. A request
occupies one of the `slots` from the step that begins to read its prompt; the step that ends reading writes its
first token; every step in the batch writes one more; with its last token it leaves.
"""

import math
from dataclasses import dataclass

import numpy as np

from labsupport.queueing import engine_kernel, simulate
from labsupport.queueing.admission import Admission
from labsupport.queueing.engine_gaps import Decoding
from labsupport.queueing.requestlog import RequestLog

ORDERS = ("fcfs", "shortest_prompt")
KV_POLICIES = ("preempt", "reserve")
ROUTERS = ("round_robin", "random", "least_loaded")
COSTS = ("step_s", "per_sequence_s", "per_context_token_s", "prefill_s", "per_prompt_token_s")
_NO_LIMIT = 1 << 60
_LEAST_LOADED, _REFUSED = -1, -2


@dataclass(frozen=True)
class Engine:
    """The costs of one engine's steps in s, and its limits.

    step_s                fixed time of a step that decodes: launching it, reading the weights
    per_sequence_s        added for each sequence that decodes
    per_context_token_s   added for each token of their contexts, whose KV is read
    prefill_s             fixed time of a step that reads prompt tokens
    per_prompt_token_s    added for each prompt token it reads
    slots         sequences in the batch, at most
    kv_tokens     tokens whose KV fits in memory; requests with more than that are refused with an error
    kv_policy     "reserve": a request enters when prompt + output tokens fit, and keeps that room (Orca).
                  "preempt": it enters when its prompt and one more token for each sequence fit, and grows with
                  each token; when a step doesn't fit, the sequence last in order is thrown out, waits again, and
                  reads its prompt and what it has written anew (vLLM, recompute)
    chunk_tokens  None: one whole prompt is read in a step of its own, as soon as there is a slot and room, and
                  decoding stands still meanwhile. A number: each step decodes, and reads at most so many prompt
                  tokens on top (chunked prefill; Agrawal et al. 2023, Sarathi)
    token_budget  with chunk_tokens or instead of it: tokens in a step, at most; decoding comes first
    order         "fcfs", or "shortest_prompt" first. Nobody overtakes the first in order, also where it doesn't fit
    """

    step_s: float
    per_sequence_s: float = 0.0
    per_context_token_s: float = 0.0
    prefill_s: float = 0.0
    per_prompt_token_s: float = 0.0
    slots: int = 64
    kv_tokens: float = math.inf
    kv_policy: str = "preempt"
    chunk_tokens: int | None = None
    token_budget: int | None = None
    order: str = "fcfs"

    def __post_init__(self):
        for name in COSTS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
                raise TypeError(f"{name} must be a number of seconds, not {value!r:.40}.")
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} = {value!r} must be finite and 0 or more, in seconds.")
        if not self.step_s + self.per_sequence_s > 0:
            raise ValueError("step_s and per_sequence_s are both 0; a step that decodes must take some time.")
        _whole("slots", self.slots)
        if self.kv_tokens != math.inf:
            _whole("kv_tokens", self.kv_tokens, 2, "; math.inf means no limit")
        if self.chunk_tokens is not None:
            _whole("chunk_tokens", self.chunk_tokens, 1, "; None reads whole prompts in steps of their own")
        if self.token_budget is not None:
            _whole("token_budget", self.token_budget, self.slots, " (slots), or decoding alone would not fit")
        _one_of("kv_policy", self.kv_policy, KV_POLICIES)
        _one_of("order", self.order, ORDERS)

    def step_time(self, sequences, context_tokens=0, prompt_tokens=0):
        """Time in s of a step that decodes `sequences` with that context in all, and reads prompt tokens."""
        decode = self.step_s + self.per_sequence_s * sequences + self.per_context_token_s * context_tokens
        prefill = self.prefill_s + self.per_prompt_token_s * prompt_tokens
        return decode * (sequences > 0) + prefill * (prompt_tokens > 0)

    def capacity(self, prompt_tokens, output_tokens):
        """Requests per second that one engine completes with every slot always taken, for requests like these.

        1 / (mean time that a request's prompt and its share of each step take). No rate above it can be
        sustained. A KV budget that leaves slots empty lowers it, and so does chunking where prefill_s > 0.
        """
        prompt, output = _tokens(prompt_tokens, output_tokens)
        if not len(prompt):
            raise ValueError("prompt_tokens is empty; give the tokens of at least one request.")
        written = output - 1  # by decoding; the first token comes from the prefill
        context = prompt * written + output * written / 2
        per_token = self.step_s / self.slots + self.per_sequence_s
        decode = per_token * written + self.per_context_token_s * context
        return float(1 / np.mean(self.prefill_s + self.per_prompt_token_s * prompt + decode))


@dataclass(frozen=True)
class Pool:
    """Several equal engines behind a router, which sends each request on when it arrives.

    router  "round_robin"; "random", by the uniforms `u` given to `serve`; or "least_loaded": the engine with the
            fewest requests inside, the next in turn where several have
    """

    engine: Engine
    engines: int
    router: str = "round_robin"

    def __post_init__(self):
        if not isinstance(self.engine, Engine):
            raise TypeError(f"engine must be an Engine, not {self.engine!r:.40}.")
        _whole("engines", self.engines)
        _one_of("router", self.router, ROUTERS)


@dataclass(frozen=True)
class Split:
    """Prefill and decode on engines of their own (Zhong et al. 2024, DistServe; Patel et al. 2024, Splitwise).

    prefill, decode       an Engine or a Pool each
    transfer_s            between the first token and the arrival of a request's KV at the decode engines, in s
    transfer_per_token_s  added for each prompt token

    The prefill engines write the first token, and keep no KV once it is written. Decode engines never chunk:
    they read tokens only after a preemption.
    """

    prefill: Engine | Pool
    decode: Engine | Pool
    transfer_s: float = 0.0
    transfer_per_token_s: float = 0.0

    def __post_init__(self):
        for name in ("prefill", "decode"):
            if not isinstance(getattr(self, name), (Engine, Pool)):
                raise TypeError(f"{name} must be an Engine or a Pool, not {getattr(self, name)!r:.40}.")
        for name in ("transfer_s", "transfer_per_token_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(
                    f"{name} = {getattr(self, name)!r} must be finite and 0 or more, in seconds."
                )


@dataclass(frozen=True, eq=False)
class EngineRun:
    """A log, and what the engines did meanwhile.

    log          the RequestLog that `serve` returns
    engine       (n,) the engine that wrote the request's last token; -1 if it was refused. In a Split the decode
                 engines are numbered after the prefill engines
    preemptions  (n,) how often the request was thrown out and read again
    stretches    structured array: a row for each run of steps in which the same sequences decoded, engine by
                 engine: `engine`, `begin_s`, `steps`, `sequences`, `kv_tokens` (held during the first step),
                 `step_s` (time of the first step), `growth_s` (each further one takes so much longer), `stall_s`
                 (how long the sequences of the row before had stood still at `begin_s`)
    """

    log: RequestLog
    engine: np.ndarray
    preemptions: np.ndarray
    _decoding: Decoding

    @property
    def stretches(self):
        return self._decoding.stretches

    def __repr__(self):
        return f"EngineRun({self.log!r}, {len(self.stretches)} stretches)"

    def gaps(self):
        """The times between consecutive tokens of a request, in s, and how often each occurred.

        This is the inter-token latency, where every token counts the same. Two arrays of equal length.
        """
        return self._decoding.gaps()

    def gap_quantile(self, p):
        """The smallest gap in s that a share p of all gaps does not exceed; NaN if there is no gap."""
        if not 0 < p <= 1:
            raise ValueError(f"p is {p!r}; give a share above 0 and up to 1, such as 0.99 for 99%.")
        gap_s, count = self.gaps()
        if not len(gap_s):
            return math.nan
        order = np.argsort(gap_s)
        below = np.cumsum(count[order])
        # p * count may be rounded up past a whole number
        return float(gap_s[order[np.searchsorted(below, p * below[-1] * (1 - 1e-12))]])


def serve(arrival, prompt_tokens, output_tokens, system, *, u=None, admission=None, admitted=None):
    """The log of requests served by an Engine, a Pool or a Split.

    arrival        (n,) in s, sorted
    prompt_tokens  whole numbers, at least 1: one per request, or one for all
    output_tokens  the same; how many each request wants written
    u              (n,) uniform in [0, 1), for a router that chooses at random
    admission      an `Admission`: thresholds at the door of the engine (of a Split, of its prefill engine)
    admitted       (n,) bool: who may come to that door, such as from `token_bucket`

    In the log, `start` is the beginning of the step that first reads the prompt and `longest_gap` the longest
    time between two consecutive tokens. A refused request is not ok, has written no token and finishes when it
    arrives.

    A pure function: the same arrays with another system are a comparison under common random numbers. Raises
    ValueError or TypeError in one sentence.
    """
    return run(arrival, prompt_tokens, output_tokens, system, u=u, admission=admission, admitted=admitted).log


def run(arrival, prompt_tokens, output_tokens, system, *, u=None, admission=None, admitted=None):
    """As `serve`, with what the engines did: an EngineRun."""
    arrival = simulate._inputs(arrival, 0.0)[0]
    prompt, output = _tokens(prompt_tokens, output_tokens, len(arrival))
    n = len(arrival)
    if u is not None:
        u = simulate._uniforms(u, (n,))
    if admission is not None and not isinstance(admission, Admission):
        raise TypeError(f"admission must be an Admission, not {admission!r:.40}; give a mask as admitted=.")
    allowed = np.ones(n, dtype=bool)
    if admitted is not None:
        allowed = np.asarray(admitted)
        if allowed.shape != (n,) or allowed.dtype != bool:
            raise ValueError(f"admitted must hold {n} times True or False, one per request.")
    if isinstance(system, Split):
        served = _split(system, arrival, prompt, output, u, allowed, admission)
    elif isinstance(system, (Engine, Pool)):
        served = _pool(system, arrival, prompt, output, u, allowed, admission)
    else:
        raise TypeError(f"system must be an Engine, a Pool or a Split, not {system!r:.40}.")
    refused = served.engine < 0
    log = RequestLog(
        arrival,
        served.start,
        served.finish,
        first_token=served.first,
        prompt_tokens=prompt,
        output_tokens=np.where(refused, 0, output),
        longest_gap=served.longest,
        ok=None if admission is None and admitted is None else ~refused,
    )
    return EngineRun(log, served.engine, served.preemptions, served.decoding)


@dataclass
class _Served:
    """What happened to requests at one pool, or at both of a Split; columns as in EngineRun and its log."""

    start: np.ndarray
    first: np.ndarray
    finish: np.ndarray
    longest: np.ndarray
    engine: np.ndarray
    preemptions: np.ndarray
    decoding: Decoding


def _split(system, arrival, prompt, output, u, allowed, admission):
    """The prefill pool serves every request as if it wanted one token; the decode pool writes the others."""
    _check_room(system.decode, prompt, output)
    served = _pool(system.prefill, arrival, prompt, np.ones_like(output), u, allowed, admission)
    engines = getattr(system.prefill, "engines", 1)
    ready = served.first + (system.transfer_s + system.transfer_per_token_s * prompt)
    k = np.flatnonzero((served.engine >= 0) & (output > 1))
    k = k[np.argsort(ready[k], kind="stable")]
    decode = _pool(
        system.decode,
        ready[k],
        prompt[k],
        output[k],
        None if u is None else (u[k] * engines) % 1,  # what the first choice has not used is uniform again
        np.ones(len(k), bool),
        None,
        delivered=served.first[k],
    )
    columns = (served.finish, served.longest, served.engine, served.preemptions)
    finish, longest, engine, preemptions = (column.copy() for column in columns)
    finish[k] = decode.finish
    longest[k] = decode.longest
    engine[k] = decode.engine + engines
    preemptions[k] += decode.preemptions
    decode.decoding.stretches["engine"] += engines
    return _Served(served.start, served.first, finish, longest, engine, preemptions, decode.decoding)


def _pool(system, arrival, prompt, output, u, allowed, admission, delivered=None):
    """Requests at the engines of one pool.

    delivered  when their first tokens were delivered elsewhere: they come with their KV and are to be decoded
    """
    _check_room(system, prompt, output)
    pool = system if isinstance(system, Pool) else Pool(system, 1)
    engine, n = pool.engine, len(arrival)
    by_rank = rank = np.arange(n)
    if engine.order == "shortest_prompt":
        by_rank = np.argsort(prompt, kind="stable")
        rank = np.empty_like(by_rank)
        rank[by_rank] = np.arange(n)
    chunked = (engine.chunk_tokens or engine.token_budget) is not None and delivered is None
    homes = np.where(allowed, _homes(pool, allowed, u), _REFUSED)
    watched = admission is not None or bool((homes == _LEAST_LOADED).any())
    door = admission or Admission()
    inputs = [
        *(arrival, prompt, output, rank, by_rank, homes),
        np.full(n, int(delivered is not None)),  # written
        np.where(delivered is None, prompt, 0),  # unread
        arrival if delivered is None else delivered,
        pool.engines,
        tuple(float(getattr(engine, name)) for name in COSTS),
        (
            int(engine.slots),
            int(min(engine.kv_tokens, _NO_LIMIT)),
            int((chunked and engine.chunk_tokens) or _NO_LIMIT),
            int((chunked and engine.token_budget) or _NO_LIMIT),
            chunked,
            engine.kv_policy == "reserve",
            engine.order == "shortest_prompt",
        ),
        (
            *(watched, admission is not None, float(door.max_waiting)),
            *(float(door.max_kv_share * engine.kv_tokens), float(door.max_p99_ttft_s), float(door.recent_s)),
        ),
    ]
    # Compiling this kernel takes several seconds the first time, so it must be worth it.
    work = n * (pool.engines if watched else 1) // 5
    *columns, (stretches, cut_short, (paused, pauses)) = simulate._run(
        engine_kernel.serve, work, inputs, [float] * 4 + [int] * 4, [n] * 8
    )
    start, first, finish, token_at, joined, ended, preemptions, served_by = columns
    # Visits to the batch: those that lasted to the end, then those cut short.
    request, joined, ended, token_at = (
        np.concatenate([whole[served_by >= 0], cut.astype(whole.dtype)])
        for whole, cut in zip((np.arange(n), joined, ended, token_at), cut_short, strict=True)
    )
    decoding = Decoding.of(
        *(stretches, engine.per_context_token_s),
        *(request, served_by[request], joined, ended, token_at),
        *(paused.astype(int), pauses),
    )
    return _Served(start, first, finish, decoding.longest_gaps(n), served_by, preemptions, decoding)


def _check_room(system, prompt, output):
    kv_tokens = (system.engine if isinstance(system, Pool) else system).kv_tokens
    size = prompt + output
    if len(size) and size.max() > kv_tokens:
        raise ValueError(
            f"kv_tokens = {kv_tokens} has no room for the {size.max()} tokens, prompt and output, of row "
            f"{size.argmax()}; give a larger budget or shorter requests."
        )


def _homes(pool, allowed, u):
    """The engine of each request, or that the least loaded one is to be found when it arrives."""
    if pool.engines == 1:
        return np.zeros(len(allowed), int)
    if pool.router == "round_robin":
        return (np.cumsum(allowed) - 1) % pool.engines
    if pool.router == "least_loaded":
        return np.full(len(allowed), _LEAST_LOADED)
    if u is None:
        raise ValueError("router 'random' chooses at random; give u, one uniform number per request.")
    return (u * pool.engines).astype(int)


def _tokens(prompt_tokens, output_tokens, n=None):
    """Two equally long integer arrays."""
    columns = []
    for name, values in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens)):
        try:
            values = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must hold numbers, not {values!r:.40}.") from None
        bad = ~((values >= 1) & (values == np.floor(values)) & (values < 2**40))
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(
                f"{name} holds {values.ravel()[row]:g} in row {row}; give whole numbers of at least 1, such as "
                "np.maximum(1, np.round(x))."
            )
        columns.append(values.astype(np.int64))
    try:
        prompt, output = (
            np.broadcast_arrays(*columns) if n is None else (np.broadcast_to(c, n) for c in columns)
        )
    except ValueError:
        shapes = " and ".join(str(c.shape) for c in columns)
        rows = (
            "of the same length" if n is None else f"of the {n} rows that arrival has, or one number for all"
        )
        raise ValueError(
            f"prompt_tokens and output_tokens have shapes {shapes}; give columns {rows}."
        ) from None
    return np.atleast_1d(prompt), np.atleast_1d(output)


def _whole(name, value, least=1, hint=""):
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} = {value!r:.40} must be a whole number of at least {least}{hint}.")


def _one_of(name, value, choices):
    if value not in choices:
        raise ValueError(f"{name} is {value!r:.40}; choose from {', '.join(choices)}.")
