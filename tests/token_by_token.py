"""The engines of labsupport.queueing.engine once more, in the plainest way: one step and one token after the other."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from labsupport.queueing.engine import Engine, Pool, Split


@dataclass
class Request:
    row: int
    arrival: float
    prompt: int
    output: int
    unread: int  # tokens to read before the next one can be written
    start: float = math.inf
    tokens: list = field(default_factory=list)  # when each was written
    preemptions: int = 0
    engine: int = -1

    @property
    def size(self):
        return self.prompt + len(self.tokens)


class PlainEngine:
    def __init__(self, limits: Engine, chunked: bool):
        self.limits, self.chunked = limits, chunked
        self.now, self.step_ends = 0.0, None
        self.waiting, self.batch, self.reading = [], [], None
        self.decoding, self.finishing = [], []
        self.first_tokens = []  # (when, TTFT)

    def order(self, request):
        by_prompt = self.limits.order == "shortest_prompt"
        return (request.prompt if by_prompt else 0, request.row)

    def held(self, request, reading=False):
        if self.limits.kv_policy == "reserve":
            return request.prompt + request.output
        return request.size + (1 if reading else 0)

    @property
    def kv(self):
        return (
            sum(self.held(r) for r in self.batch)
            + sum(self.held(r, True) for r in self.finishing)
            + (self.held(self.reading, True) if self.reading else 0)
        )

    @property
    def growth(self):
        return 0 if self.limits.kv_policy == "reserve" else len(self.batch)

    @property
    def inside(self):
        reading = [self.reading] if self.reading else []
        return len(self.waiting) + len(self.batch) + len(self.finishing) + len(reading)

    def run_until(self, t):
        """All steps that end at t or before, and the beginning of the one under way at t."""
        while True:
            if self.step_ends is not None:
                if self.step_ends > t:
                    return
                self.end_step()
            if self.now >= t or not self.inside:
                return
            self.begin_step()

    def push(self, request, t):
        if not self.inside:
            self.now = max(self.now, t)
        self.waiting.append(request)

    def begin_step(self):
        cost, limit = self.limits, self.limits.kv_tokens
        while self.kv + self.growth > limit:
            victim = max(self.batch + ([self.reading] if self.reading else []), key=self.order)
            if victim is self.reading:
                self.reading = None
            else:
                self.batch.remove(victim)
            victim.unread = victim.size
            victim.preemptions += 1
            self.waiting.append(victim)
        room = math.inf
        if self.chunked:
            room = min(cost.chunk_tokens or math.inf, (cost.token_budget or math.inf) - len(self.batch))
        read = 0
        while room > 0:
            if not self.reading:
                if not self.waiting or len(self.batch) + len(self.finishing) == cost.slots:
                    break
                head = min(self.waiting, key=self.order)
                if self.kv + self.growth + self.held(head, True) > limit:
                    break
                self.waiting.remove(head)
                if not head.preemptions:
                    head.start = self.now
                if not head.unread:
                    self.batch.append(head)
                    continue
                self.reading = head
            piece = min(self.reading.unread, room)
            self.reading.unread -= piece
            read += piece
            room -= piece
            if not self.reading.unread:
                self.finishing.append(self.reading)
                self.reading = None
                if not self.chunked:
                    break
        self.decoding = list(self.batch) if self.chunked or not read else []
        seconds = 0.0
        if self.decoding:
            context = sum(r.size for r in self.decoding)
            seconds += (
                cost.step_s + cost.per_sequence_s * len(self.decoding) + cost.per_context_token_s * context
            )
        if read:
            seconds += cost.prefill_s + cost.per_prompt_token_s * read
        self.step_ends = self.now + seconds

    def end_step(self):
        self.now, self.step_ends = self.step_ends, None
        for request in self.decoding + self.finishing:
            request.tokens.append(self.now)
        self.first_tokens += [(self.now, self.now - r.arrival) for r in self.finishing if len(r.tokens) == 1]
        self.batch = [r for r in self.batch + self.finishing if len(r.tokens) < r.output]
        self.finishing, self.decoding = [], []
        assert self.kv <= self.limits.kv_tokens


def serve_pool(requests, pool, u, admitted, admission, decode_only=False):
    engine = pool.engine
    chunked = (engine.chunk_tokens or engine.token_budget) is not None and not decode_only
    engines = [PlainEngine(engine, chunked) for _ in range(pool.engines)]
    latest, turn = -1, -1
    for k, request in enumerate(requests):
        for one in engines:
            one.run_until(request.arrival)
        if not admitted[k]:
            continue
        turn += 1
        if pool.router == "round_robin":
            e = turn % pool.engines
        elif pool.router == "random":
            e = int(u[k] * pool.engines)
        else:
            turns = [(latest + j + 1) % pool.engines for j in range(pool.engines)]
            e = latest = min(turns, key=lambda j: engines[j].inside)
        one = engines[e]
        if admission:
            recent = [x for t, x in one.first_tokens if request.arrival - admission.recent_s < t]
            p99 = np.quantile(recent, 0.99, method="inverted_cdf") if recent else 0
            if (
                len(one.waiting) >= admission.max_waiting
                or one.kv >= admission.max_kv_share * engine.kv_tokens
                or p99 >= admission.max_p99_ttft_s
            ):
                continue
        request.engine = e
        one.push(request, request.arrival)
    for one in engines:
        one.run_until(math.inf)


def serve(arrival, prompt, output, system, u=None, admission=None, admitted=None):
    """One Request per row, each with the times of its tokens."""
    rows = zip(arrival, prompt, output, strict=True)
    requests = [Request(i, float(a), int(p), int(o), int(p)) for i, (a, p, o) in enumerate(rows)]
    admitted = [True] * len(requests) if admitted is None else admitted
    if not isinstance(system, Split):
        pool = system if isinstance(system, Pool) else Pool(system, 1)
        serve_pool(requests, pool, u, admitted, admission)
        return requests
    prefill, decode = (s if isinstance(s, Pool) else Pool(s, 1) for s in (system.prefill, system.decode))
    first = [replace(r, output=1, tokens=[]) for r in requests]
    serve_pool(first, prefill, u, admitted, admission)
    moving = []
    for request, read in zip(requests, first, strict=True):
        request.start, request.engine, request.tokens = read.start, read.engine, read.tokens
        request.preemptions = read.preemptions
        if read.tokens and request.output > 1:
            ready = read.tokens[0] + (system.transfer_s + system.transfer_per_token_s * request.prompt)
            moving.append(replace(request, arrival=ready, unread=0, preemptions=0))
    moving.sort(key=lambda r: r.arrival)
    rows = [r.row for r in moving]
    for k, request in enumerate(moving):
        request.row = k
    u = None if u is None else [u[row] * prefill.engines % 1 for row in rows]
    serve_pool(moving, decode, u, [True] * len(moving), None, decode_only=True)
    for row, request in zip(rows, moving, strict=True):
        requests[row].tokens = request.tokens
        requests[row].preemptions += request.preemptions
        requests[row].engine = request.engine + prefill.engines
    return requests
