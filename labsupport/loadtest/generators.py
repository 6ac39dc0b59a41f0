"""Who decides when the next request is sent: a user who has got an answer, or a schedule."""

import asyncio
import math
from itertools import count

import numpy as np

from labsupport.loadtest.client import Client, Row
from labsupport.loadtest.clock import until
from labsupport.loadtest.loadlog import load_log
from labsupport.queueing.workload import Law

WHEN_FULL = ("queue", "skip", "drop")


class Load:
    """What the generators share: requests to one URL, and the log of them.

    `session.run` calls `drive(begin)` in its event loop, cancels it to cut the run short, and then asks for
    `result(begin, reason)`.
    """

    def __init__(self, url, timeout_s, output_tokens, prompt_tokens, model):
        self.url = url
        self.timeout_s = _above_0("timeout_s", timeout_s)
        self.completions = output_tokens is not None
        self.prompt_tokens = _whole("prompt_tokens", prompt_tokens)
        self._client = Client(url, self.timeout_s, self.prompt_tokens, model)
        tokens = [None] if output_tokens is None else np.atleast_1d(output_tokens).tolist()
        sizes = {n: self._client.message(n if n is None else _whole("output_tokens", n)) for n in tokens}
        self._messages = [sizes[n] for n in tokens]
        self.rows = []
        self.skipped = 0

    @property
    def sent(self):
        return len(self.rows)

    def _row(self, intended, due):
        row = Row(intended, due)
        self.rows.append(row)
        return row

    async def _send(self, row, number):
        await self._client.send(row, self._messages[number % len(self._messages)], self.completions)

    async def drive(self, begin):
        self.rows, self.skipped = [], 0
        try:
            async with asyncio.timeout_at(begin + self.span_s + self.timeout_s):
                await self._drive(begin)
        except TimeoutError:
            pass  # what is unanswered now stays so
        finally:
            await self._client.close()

    def result(self, begin, reason):
        prompt_tokens = self.prompt_tokens if self.completions else None
        return load_log(self.rows, begin, prompt_tokens=prompt_tokens, skipped=self.skipped, reason=reason)


class ClosedLoop(Load):
    """A fixed number of users, each of whom thinks, sends a request, waits for its answer, and thinks again.

    url            of the server; with output_tokens, the path /v1/completions is added if it has none
    users          number of users N
    duration_s     no request is sent after this; the run ends when the last answer is there, at most
                   timeout_s later
    think          think time Z in s: a number or a Law, drawn with `seed`; the first request is preceded by one
    timeout_s      a request is given up after this many seconds; it is then not ok and never finishes
    output_tokens  None: GET; a number, or an array used in turn: streamed completions of so many tokens
    prompt_tokens  words of the prompt of each completion
    model          its model; servers of real models want theirs

    The load is not given but found: X = N / (R + Z).
    """

    def __init__(
        self,
        url,
        users,
        duration_s,
        think=0.0,
        *,
        timeout_s=60.0,
        output_tokens=None,
        prompt_tokens=8,
        model="queueing-lab",
        seed=0,
    ):
        super().__init__(url, timeout_s, output_tokens, prompt_tokens, model)
        self.users = _whole("users", users)
        self.span_s = _above_0("duration_s", duration_s)
        if not isinstance(think, Law) and not (_number(think) and 0 <= think < math.inf):
            raise ValueError(f"think = {think!r:.40} must be a think time in s, 0 or more, or a Law.")
        self.think = think
        self.seed = seed

    async def _drive(self, begin):
        self._number = count()
        async with asyncio.TaskGroup() as users:
            for seed in np.random.SeedSequence(self.seed).spawn(self.users):
                users.create_task(self._user(begin, self._thinking(seed)))

    def _thinking(self, seed):
        while isinstance(self.think, Law):
            rng = np.random.default_rng(seed)
            while True:
                yield from self.think.sample(rng, 100).tolist()
        while True:
            yield float(self.think)

    async def _user(self, begin, thinking):
        clock = asyncio.get_running_loop().time
        moment = begin
        for think_s in thinking:
            moment += think_s
            if moment >= begin + self.span_s:
                return
            await until(moment)
            row = self._row(moment, moment)
            await self._send(row, next(self._number))
            moment = row.finish if row.finish < math.inf else clock()


class OpenLoop(Load):
    """Requests sent at intended times, whatever the server does: users who do not know of each other.

    url            of the server; with output_tokens, the path /v1/completions is added if it has none
    intended       intended send times in s from the beginning of the run, sorted: poisson(rng, 100, 3000)
    cap            largest number of requests in flight, or None
    when_full      what happens to a request whose time comes while `cap` are in flight:
                   "queue"  it waits in the generator until one comes back, first come first served. Its
                            `arrival` in the log is when it was sent, `intended` when it should have been: a
                            tool that starts its clock at sending does not see this wait
                   "skip"   it is not sent and leaves no row, only the count `skipped`: gone from every
                            statistic
                   "drop"   it is not sent and leaves a row that is not ok: a miss for `attainment`
    timeout_s      a request is given up after this many seconds; and the run ends at most so long after the
                   last intended time. What is unanswered then is not ok and never finishes.
    output_tokens  None: GET; a number, or one per request: streamed completions of so many tokens
    prompt_tokens  words of the prompt of each completion
    model          its model; servers of real models want theirs
    """

    def __init__(
        self,
        url,
        intended,
        *,
        cap=None,
        when_full="queue",
        timeout_s=60.0,
        output_tokens=None,
        prompt_tokens=8,
        model="queueing-lab",
    ):
        super().__init__(url, timeout_s, output_tokens, prompt_tokens, model)
        times = np.asarray(intended, dtype=np.float64)
        if times.ndim != 1 or not len(times) or not (np.isfinite(times) & (times >= 0)).all():
            raise ValueError("intended must be one row of at least one finite time in s, none below 0.")
        if (np.diff(times) < 0).any():
            raise ValueError(
                f"intended is not sorted at row {int(np.argmax(np.diff(times) < 0)) + 1}; sort it."
            )
        self.intended = times
        self.span_s = float(times[-1])
        self.cap = math.inf if cap is None else _whole("cap", cap)
        if when_full not in WHEN_FULL:
            raise ValueError(f"when_full = {when_full!r} is unknown; choose one of {', '.join(WHEN_FULL)}.")
        self.when_full = when_full

    async def _drive(self, begin):
        loop = asyncio.get_running_loop()
        self._in_flight = 0
        self._full_until = -math.inf
        self._room = asyncio.Event()
        schedule = (self.intended + begin).tolist()
        unsent = 0
        try:
            async with asyncio.TaskGroup() as flights:
                for number, intended in enumerate(schedule):
                    await until(intended)
                    full = self._in_flight >= self.cap
                    if full and self.when_full == "queue":
                        self._room.clear()
                        await self._room.wait()
                    unsent = number + 1
                    if full and self.when_full == "skip":
                        self.skipped += 1
                    elif full and self.when_full == "drop":
                        now = loop.time()
                        self._not_sent(intended, now, finish=now)
                    else:
                        self._in_flight += 1
                        due = max(intended, self._full_until)
                        flights.create_task(self._flight(intended, due, number))
        finally:
            now = loop.time()  # what the end of the run finds in the generator's own queue
            for intended in schedule[unsent:]:
                if intended <= now:
                    self._not_sent(intended, now)

    async def _flight(self, intended, due, number):
        try:
            await self._send(self._row(intended, due), number)
        finally:
            if self._in_flight == self.cap:
                self._full_until = asyncio.get_running_loop().time()
                self._room.set()
            self._in_flight -= 1

    def _not_sent(self, intended, moment, finish=math.inf):
        row = self._row(intended, math.inf)
        row.sent, row.finish = moment, finish


def _number(value):
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _above_0(name, value):
    if not (_number(value) and 0 < value < math.inf):
        raise ValueError(f"{name} = {value!r:.40} must be a number of seconds above 0.")
    return float(value)


def _whole(name, value):
    if not (_number(value) and value >= 1 and value == int(value)):
        raise ValueError(f"{name} = {value!r:.40} must be a whole number, 1 or more.")
    return int(value)
