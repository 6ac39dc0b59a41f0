"""The server's model of itself: slots, service times and stalls, kept in virtual time.

A request's start and finish are computed from the finish of the one before it, so that the delays of
timers and of Python do not add up: a request may be answered a tenth of a millisecond late, but the next one
starts as if it had not been.
"""

import asyncio
import math
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle

from labsupport.loadtest.clock import until
from labsupport.queueing.simulate import Stalls


@dataclass(frozen=True)
class Behaviour:
    """What the server is told to do; times in s.

    service_s    service times of the first, second, ... request, from the first again at the end
    concurrency  number of requests served at the same time, first come first served
    token_s      a completion of n tokens takes n - 1 times this on top of its service time
    stalls       when no request makes progress, counted from the first request; or None
    """

    service_s: tuple[float, ...] = (0.0,)
    concurrency: int = 1
    token_s: float = 0.0
    stalls: Stalls | None = None

    def __post_init__(self):
        if not self.service_s or not all(0 <= s < math.inf for s in self.service_s):
            raise ValueError("service must hold at least one time in s, all finite and none below 0.")
        whole = isinstance(self.concurrency, int) and not isinstance(self.concurrency, bool)
        if not (whole and self.concurrency >= 1):
            raise ValueError(
                f"concurrency = {self.concurrency!r} must be a whole number of slots, 1 or more."
            )
        if not 0 <= self.token_s < math.inf:
            raise ValueError(f"token_s = {self.token_s!r} must be a time in s, 0 or more and finite.")
        if not isinstance(self.stalls, Stalls | None):
            raise TypeError(f"stalls must be Stalls(length_s, period_s), not {self.stalls!r:.40}.")


class Slots:
    """`count` equal slots, handed out in the order of asking."""

    def __init__(self, count):
        self.idle = count
        self.waiting = deque()

    async def take(self, now):
        """Wait for a slot; returns the moment from which it is free, `now` if one is idle."""
        if self.idle:
            self.idle -= 1
            return now
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # both in one moment: the slot goes to the next
                self.give(turn.result())
            raise

    def give(self, moment):
        """Give a slot back, free from `moment` on."""
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(moment)
                return
        self.idle += 1


class Turn:
    """One request's time in a slot, in s from the server's first request."""

    def __init__(self, server, arrived, begun):
        self.server = server
        self.queue_s = begun - arrived
        self.moment = begun

    async def work(self, seconds):
        """Sleep until so much more work is done."""
        stalls = self.server.behaviour.stalls
        if stalls is None:
            self.moment += seconds
        else:
            done = float(stalls.reached(stalls.worked(self.moment) + seconds))
            self.moment = max(self.moment, done)
        await until(self.server.began + self.moment)


class VirtualServer:
    """Serves by a `Behaviour`, on the clock of the running event loop."""

    def __init__(self, behaviour):
        self.behaviour = behaviour
        self.began = None  # the moment of the first request
        self._service = cycle(behaviour.service_s)
        self._slots = Slots(behaviour.concurrency)

    def _now(self):
        return asyncio.get_running_loop().time() - self.began

    @asynccontextmanager
    async def slot(self):
        """Wait for a slot and hold it; yields the request's `Turn` and its service time in s.

        A request that is cancelled gives its slot, or its place in the queue, back at once.
        """
        if self.began is None:
            self.began = asyncio.get_running_loop().time()
        arrived, service_s = self._now(), next(self._service)
        begun = max(arrived, await self._slots.take(arrived))
        if self.behaviour.stalls is not None:
            begun = float(self.behaviour.stalls.resumed(begun))
        turn = Turn(self, arrived, begun)
        try:
            yield turn, service_s
        finally:
            self._slots.give(min(turn.moment, self._now()))
