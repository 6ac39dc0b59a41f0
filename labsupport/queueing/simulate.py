"""What happens to the requests: simulators, each a pure function of arrays that returns a RequestLog.

Common to all: `arrival` (n,) are arrival times in s, sorted; `service` (n,) are service times in s, or one
number for all. Randomness is made outside (see `workload`). Rows of the log are in arrival order. Every run
begins empty and, overloaded or not, goes on until all are served. Impossible input raises ValueError or
TypeError in one sentence.

Large inputs (above 200,000 requests) go through loops that numba compiles, where it is installed; the results
are the same bit for bit. The environment variable QLAB_NUMBA=0 switches that off.
"""

import functools
import os
import types
from dataclasses import dataclass

import numpy as np

from labsupport.queueing import kernels
from labsupport.queueing.requestlog import RequestLog

_BLOCK = (
    16_384  # requests whose prefix sums are taken in one go: stays in cache and keeps rounding errors small
)
_COMPILE_ABOVE = 200_000  # requests; compiling takes a second or two, which a slider's first draw must not


def fcfs(arrival, service):
    """One server, first come first served: Lindley's recursion (1952) by prefix sums.

    A request that needn't wait waits exactly 0.
    """
    arrival, service = _inputs(arrival, service)
    return _log(arrival, *_fcfs(arrival, service))


def _fcfs(arrival, service):
    """(start, finish), block by block so that all but the result stays in the processor's cache."""
    start, finish = np.empty((2, len(arrival)))
    walks, lows = np.empty((2, min(_BLOCK, len(arrival))))
    left, last = 0.0, arrival[:1]  # the work that the previous request left behind, and when it came
    for begin in range(0, len(arrival), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        came, work = arrival[block], service[block]
        walk = walks[: len(came)]
        walk[:1] = left - (came[:1] - last)
        np.subtract(came[:-1], came[1:], out=walk[1:])
        walk[1:] += work[:-1]
        _reflect(walk, lows[: len(came)])
        np.add(came, walk, out=start[block])
        np.add(start[block], work, out=finish[block])
        left, last = walk[-1:] + work[-1:], came[-1:]
    return start, finish


def fcfs_waits(interarrival, service):
    """Waiting times in s at one FCFS server, for one run (n,) or many runs at once (runs, n).

    interarrival[..., k] is the time in s between arrivals k - 1 and k (the first one does not matter), and
    service[..., k] the service time in s of request k. Much faster than a log for each run.
    """
    interarrival, service = _durations("interarrival", interarrival), _durations("service", service)
    if interarrival.shape != service.shape or not service.ndim:
        raise ValueError(
            f"interarrival has shape {interarrival.shape} and service {service.shape}; "
            "give both as (n,) or (runs, n)."
        )
    steps = np.zeros(service.shape)
    np.subtract(service[..., :-1], interarrival[..., 1:], out=steps[..., 1:])
    return _waits(steps)


def _waits(steps):
    """In place: the waits after these steps, service minus interarrival time (along the last axis)."""
    n = steps.shape[-1]
    lows = np.empty((*steps.shape[:-1], min(_BLOCK, n)))
    for begin in range(0, n, _BLOCK):
        walk = steps[..., begin : begin + _BLOCK]
        if begin:
            walk[..., 0] += steps[..., begin - 1]
        _reflect(walk, lows[..., : walk.shape[-1]])
    return steps


def _reflect(walk, low):
    """In place: from steps to the walk that is kept from falling below 0; `low` is room to work in.

    This is walk - min(0, its lowest so far), which is exactly 0 where the walk is at its lowest.
    """
    np.cumsum(walk, axis=-1, out=walk)
    first = walk[..., 0].copy()
    walk[..., 0] = np.minimum(first, 0)  # for a moment, so that the lowest is at most 0 throughout
    np.minimum.accumulate(walk, axis=-1, out=low)
    walk[..., 0] = first
    walk -= low


def fcfs_servers(arrival, service, servers):
    """One queue for several equal servers; whoever falls free takes the next (Kiefer and Wolfowitz 1955)."""
    servers = _whole("servers", servers)
    arrival, service = _inputs(arrival, service)
    n = len(arrival)
    if servers == 1 or not n:
        return fcfs(arrival, service)
    if service.min() == service.max():
        # Equal services end in the order in which they began, so the servers take turns.
        rounds = -(-n // servers)
        turns = np.append(arrival, np.full(rounds * servers - n, arrival[-1])).reshape(rounds, servers).T
        steps = service[0] - np.diff(turns, prepend=turns[:, :1])
        steps[:, 0] = 0
        start = arrival + _waits(steps).T.ravel()[:n]
    else:
        (start,) = _run(kernels.shared_queue, n, [arrival, service, servers], [float])
    return _log(arrival, start, start + service)


def dynamic_batches(arrival, fixed_s, per_item_s, cap):
    """A server that takes all who wait, up to `cap`, as soon as it is free.

    A batch of b takes fixed_s + b * per_item_s. Its members share start and finish: the number of batches is
    len(np.unique(log.start)).
    """
    return timeout_batches(arrival, fixed_s, per_item_s, cap, 0.0)


def timeout_batches(arrival, fixed_s, per_item_s, cap, timeout_s):
    """As `dynamic_batches`, but a batch waits until `cap` are there or its first member has waited timeout_s.

    The timer starts when the first member arrives, also while the server is busy. Whoever arrives before the
    batch begins belongs to it, up to `cap`.
    """
    arrival, _ = _inputs(arrival, 0.0)
    fixed_s, per_item_s = _duration("fixed_s", fixed_s), _duration("per_item_s", per_item_s)
    cap, timeout_s = _whole("cap", cap), _duration("timeout_s", timeout_s)
    n = len(arrival)
    inputs = [arrival, fixed_s, per_item_s, cap, timeout_s]
    start, first, batches = _run(kernels.batches, n, inputs, [float, int], [n, n + 1])
    start, size = start[:batches], np.diff(first[: batches + 1])
    finish = per_item_s * size
    finish += fixed_s
    finish += start
    return _log(arrival, np.repeat(start, size), np.repeat(finish, size))


def closed_loop(think, service, *, servers=1, schedule=None, stalls=None, stop_with_first=False):
    """Users who send a request, wait for its answer, think, and send the next; FCFS servers.

    think     (users, rounds) in s: think[u, r] passes before user u sends request r
    service   (users, rounds) in s
    servers   equal servers at one queue
    schedule  (users, rounds) in s: request r is not sent before schedule[u, r], as by a load generator with
              pacing; becomes the log's column `intended`
    stalls    a `Stalls`: all servers stand still meanwhile
    stop_with_first  nobody sends any more once the first user has all answers, so that all users are in the
              loop as long as anybody sends; otherwise the log has users * rounds rows

    The log is in the order of sending, users mixed; `arrival` is the moment of sending.
    """
    if servers != 1 or schedule is not None or stalls is not None or stop_with_first:
        options = dict(servers=servers, schedule=schedule, stalls=stalls, stop_with_first=stop_with_first)
        return closed_with_open(think, service, [], [], **options)[0]
    think, service = _rounds(think, service)
    inputs = [think.ravel(), service.ravel(), max(think.shape[1], 1)]
    return _log(*_run(kernels.closed_loop, think.size, inputs, [float] * 3))


def closed_with_open(
    think, service, arrival, open_service, *, servers=1, schedule=None, stalls=None, stop_with_first=False
):
    """A closed loop that shares its servers with open arrivals: (log of the loop, log of the others).

    arrival and open_service (n,) in s are the requests that come whatever happens; the rest is as in
    `closed_loop`. Of two requests at the same moment the open one is served first.
    """
    paced, stalls = schedule is not None, Stalls(0, 1) if stalls is None else _stalls(stalls)
    think, service, schedule = _one_more(*_rounds(think, service, schedule if paced else 0))
    arrival, open_service = _inputs(arrival, open_service)
    users, stride = think.shape
    n, m = users * (stride - 1), len(arrival)
    inputs = [
        *(think.ravel(), service.ravel(), schedule.ravel(), stride, arrival, open_service),
        _whole("servers", servers),
        (stalls.first_s, stalls.length_s, stalls.period_s),
        bool(stop_with_first),
    ]
    order, send, start, finish, open_start, open_finish, sent = _run(
        kernels.closed_with_open, n + m, inputs, [int, float, float, float, float, float], [n, n, n, n, m, m]
    )
    intended = schedule.ravel()[order[:sent]] if paced else None
    loop = _log(send[:sent], start[:sent], finish[:sent], intended=intended)
    return loop, _log(arrival, open_start, open_finish)


def _rounds(think, *others):
    """The columns of a closed loop, checked: think, service and what else is given."""
    think = _durations("think", think)
    if think.ndim != 2:
        raise ValueError(f"think has shape {think.shape}; give one row for each user, one column a round.")
    names = "service", "schedule"
    return [think, *(_like(name, column, think) for name, column in zip(names, others, strict=False))]


def _one_more(*columns):
    """The columns with one more round: nobody sends it, for its think time is inf."""
    return (np.pad(column, ((0, 0), (0, 1)), constant_values=np.inf) for column in columns)


@dataclass(frozen=True)
class Stalls:
    """Every period_s a server stands still for length_s, from first_s + k period_s on, k = 0, 1, 2, …

    Nothing begins in a stall, and what was being served goes on after it. first_s is half a period unless
    given, so that a run of k periods holds k whole stalls.
    """

    length_s: float
    period_s: float
    first_s: float | None = None

    def __post_init__(self):
        length_s, period_s = _duration("length_s", self.length_s), _duration("period_s", self.period_s)
        if not length_s < period_s:
            raise ValueError(f"length_s = {length_s:g} must be below period_s = {period_s:g}.")
        first_s = period_s / 2 if self.first_s is None else _duration("first_s", self.first_s)
        for name, value in (("length_s", length_s), ("period_s", period_s), ("first_s", first_s)):
            object.__setattr__(self, name, value)

    def worked(self, t):
        """Time in s in which the server could work until time(s) t in s."""
        stalls, into = self._last_stall(t)
        return t - stalls * self.length_s - np.clip(into, 0, self.length_s)

    def reached(self, worked):
        """The earliest time(s) in s at which `worked` s of work were possible: the inverse of `worked`."""
        worked = np.asarray(worked, dtype=np.float64)
        stalls = np.ceil((worked - self.first_s) / (self.period_s - self.length_s))
        return worked + np.maximum(stalls, 0) * self.length_s

    def resumed(self, t):
        """The first time(s) in s at or after t at which the server works."""
        _, into = self._last_stall(t)
        return np.where((into >= 0) & (into < self.length_s), t - into + self.length_s, t)

    def _last_stall(self, t):
        """How many stalls had ended before the last that began until t, and the time since that one began."""
        since = np.asarray(t, dtype=np.float64) - self.first_s
        before = np.maximum(np.floor(since / self.period_s), 0)
        return before, since - before * self.period_s


def stalled(arrival, service, stalls):
    """One FCFS server that stalls (`Stalls`): `fcfs` on a clock that stands still during the stalls."""
    arrival, service = _inputs(arrival, service)
    came = _stalls(stalls).worked(arrival)
    begun, ended = _fcfs(came, service)
    start = stalls.resumed(np.maximum(stalls.reached(begun), arrival))
    return _log(arrival, start, np.maximum(stalls.reached(ended), start))


def _stalls(stalls):
    if not isinstance(stalls, Stalls):
        raise TypeError(
            f"stalls must be a Stalls such as Stalls(length_s=1, period_s=10), not {stalls!r:.40}."
        )
    return stalls


def fan_out(arrival, service):
    """Requests of k tasks each; the slowest task ends the request.

    Task j of request i needs service[i, j] s at FCFS server j. The log's `start` is the moment the first task
    begins.
    """
    service = _durations("service", service)
    if service.ndim != 2 or not service.shape[1]:
        raise ValueError(f"service has shape {service.shape}; give (n, k): one row per request, k tasks.")
    arrival, _ = _inputs(arrival, service[:, 0])
    start, finish = np.full(len(arrival), np.inf), np.zeros(len(arrival))
    for task in np.ascontiguousarray(service.T):
        begun, ended = _fcfs(arrival, task)
        np.minimum(start, begun, out=start)
        np.maximum(finish, ended, out=finish)
    return _log(arrival, start, finish)


@dataclass(frozen=True, eq=False)
class Hedged:
    """A log of hedged requests, with what the hedging cost.

    copied  (n,) bool: the request was sent twice
    work_s  (n,) time in s that servers spent on it, both copies together
    extra_load  work done beyond the service times asked for, as a share of these (0.05: 5% more). May be
            negative: calling off a slow task can save more than the copies cost.
    """

    log: RequestLog
    copied: np.ndarray
    work_s: np.ndarray
    extra_load: float


def hedged(arrival, service, backup, servers, delay_s, u, *, cancel=True):
    """Hedged requests (Dean and Barroso 2013) at FCFS servers with a queue each. Returns a `Hedged`.

    Request i joins a random server, where it needs service[i]. If it has not finished delay_s after its
    arrival, a copy that needs backup[i] joins another random server; the first to finish answers. With
    `cancel` the other is then called off at once, whether it waits or is in service; without, it runs to its
    end and only adds load. u (n, 2), uniform in [0, 1), chooses the servers. delay_s may be inf: no copies.

    The log's `start` is when the first of the two begins.
    """
    servers = _whole("servers", servers, least=2)
    arrival, service = _inputs(arrival, service)
    backup = _like("backup", backup, service)
    delay_s = _duration("delay_s", delay_s, finite=False)
    u = _uniforms(u, (len(arrival), 2))
    home = (u[:, 0] * servers).astype(int)
    other = (home + 1 + (u[:, 1] * (servers - 1)).astype(int)) % servers
    start, finish, work, copied = _run(
        kernels.hedged,
        len(arrival),
        [arrival, service, backup, home, other, servers, delay_s, bool(cancel)],
        [float, float, float, float],
    )
    asked = service.sum()
    extra = float(work.sum() / asked - 1) if asked else 0.0
    return Hedged(_log(arrival, start, finish), copied.astype(bool), work, extra)


def hedged_latency(first, second, delay_s):
    """Hedging without queues: min(first, delay_s + second) from draws of the latency in s, any shape.

    Returns (latency, copied); copied is True where the first answer took longer than delay_s, so that
    copied.mean() is the share of requests that are sent twice.
    """
    first = _durations("first", first)
    second = _like("second", second, first)
    delay_s = _duration("delay_s", delay_s, finite=False)
    return np.minimum(first, delay_s + second), first > delay_s


def routed(arrival, service, servers, policy, u=None):
    """Equal FCFS servers with a queue each; every request joins one on arrival and stays there.

    policy  "random"        any, with the same probability
            "round_robin"   one after the other
            "power_of_two"  the shorter of two random queues (Mitzenmacher 2001)
            "jsq"           the shortest queue, ties at random
            "shared"        for comparison, one queue for all: `fcfs_servers`
    u (n,), uniform in [0, 1), makes the random choices. A queue's length counts the request in service too.
    The same arrival, service and u with another policy is a comparison under common random numbers.
    """
    if policy not in POLICIES:
        raise ValueError(f"policy = {policy!r} is not known; choose one of {', '.join(POLICIES)}.")
    servers = _whole("servers", servers)
    arrival, service = _inputs(arrival, service)
    n = len(arrival)
    if policy == "shared" or servers == 1:
        return fcfs_servers(arrival, service, servers)
    if policy == "round_robin":
        return _separate(arrival, service, np.arange(n) % servers, servers)
    if u is None:
        raise ValueError(f"policy {policy!r} chooses at random; give u, one uniform number per request.")
    u = _uniforms(u, (n,))
    if policy == "random":
        return _separate(arrival, service, (u * servers).astype(int), servers)
    (start,) = _run(
        kernels.join_shorter, n, [arrival, service, u, servers, policy == "power_of_two"], [float]
    )
    return _log(arrival, start, start + service)


POLICIES = ("random", "round_robin", "power_of_two", "jsq", "shared")


def _separate(arrival, service, server, servers):
    start = np.empty(len(arrival))
    for s in range(servers):
        mine = np.flatnonzero(server == s)
        start[mine], _ = _fcfs(arrival[mine], service[mine])
    return _log(arrival, start, start + service)


def processor_sharing(arrival, service):
    """One server that works on all N requests inside at once, at 1/N of its speed each.

    This is the limit of continuous batching when its steps are short.
    Exact, by virtual time (Parekh and Gallager 1993). Nobody waits: `start` equals `arrival`, and the log's
    `service` is the whole response time, not the work.
    """
    arrival, service = _inputs(arrival, service)
    (finish,) = _run(kernels.processor_sharing, len(arrival), [arrival, service], [float])
    return _log(arrival, arrival, finish)


def shortest_first(arrival, service):
    """One server that takes the shortest waiting request next and finishes it first: non-preemptive SJF."""
    arrival, service = _inputs(arrival, service)
    (start,) = _run(kernels.shortest_first, len(arrival), [arrival, service], [float])
    return _log(arrival, start, start + service)


def _run(kernel, events, inputs, kinds, sizes=None):
    """Runs a kernel on its inputs and new output columns; returns these, and what it returns if anything."""
    sizes = sizes or [events] * len(kinds)
    columns = [np.empty(size, kind) for size, kind in zip(sizes, kinds, strict=True)]
    compiled = _compiled(kernel) if events > _COMPILE_ABOVE and os.environ.get("QLAB_NUMBA") != "0" else None
    if compiled:
        # Strided or read-only arrays are other types to numba, for which it would compile once more.
        inputs = [np.require(x, requirements="CW") if isinstance(x, np.ndarray) else x for x in inputs]
        result = compiled(*inputs, *columns)
    else:  # plain loops are several times slower on arrays than on lists and memory views
        inputs = [x.tolist() if isinstance(x, np.ndarray) else x for x in inputs]
        result = kernel(*inputs, *map(memoryview, columns))
    for column in columns:
        column.flags.writeable = False  # a log then needn't copy it
    return columns if result is None else [*columns, result]


@functools.cache
def _compiled(kernel):
    """The kernel compiled by numba; None where numba is not installed."""
    try:
        from numba import njit
    except ImportError:
        return None
    names = kernel.__globals__ | {
        name: njit(inline="always")(function) for name, function in kernels.COMPILED_INSTEAD.items()
    }
    kernel = kernels.COMPILED_INSTEAD.get(kernel.__name__, kernel)
    kernel = types.FunctionType(kernel.__code__, names, kernel.__name__)
    try:
        return njit(cache=True, nogil=True)(kernel)  # threads then run side by side
    except RuntimeError:  # there is no place to keep compiled code
        return njit(nogil=True)(kernel)


def _log(arrival, start, finish, **columns):
    """A log whose start and finish are ours: it needn't copy them when they are read-only."""
    start.flags.writeable = finish.flags.writeable = False
    return RequestLog(arrival, start, finish, **columns)


def _inputs(arrival, service):
    arrival = _durations("arrival", arrival)
    if arrival.ndim != 1:
        raise ValueError(f"arrival has shape {arrival.shape}; give one row of times in s.")
    early = arrival[1:] < arrival[:-1]
    if early.any():
        row = int(early.argmax()) + 1
        raise ValueError(f"arrival is not sorted at row {row}; sort the requests by arrival first.")
    return arrival, _like("service", service, arrival)


def _like(name, values, other):
    """Durations shaped like `other`; one number stands for all."""
    values = _durations(name, values)
    if not values.ndim:
        return np.full(other.shape, values)
    if values.shape != other.shape:
        raise ValueError(f"{name} has shape {values.shape}; give {other.shape}, one value for each request.")
    return values


def _durations(name, values):
    try:
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold numbers, not {values!r:.40}.") from None
    if values.size and not (values.min() >= 0 and values.max() < np.inf):  # also where there is a NaN
        at = tuple(int(i) for i in np.argwhere(~((values >= 0) & (values < np.inf)))[0])
        raise ValueError(f"{name}{list(at)} = {values[at]:g}; give finite times in s, none below 0.")
    return values


def _duration(name, value, finite=True):
    if not isinstance(value, (int, float, np.number)) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, not {value!r:.40}.")
    if not 0 <= value or (finite and value == np.inf):
        raise ValueError(f"{name} = {value:g}; give a {'finite ' * finite}time in s, not below 0.")
    return float(value)


def _whole(name, value, least=1):
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} = {value!r:.40} must be a whole number of at least {least}.")
    return int(value)


def _uniforms(u, shape):
    u = np.asarray(u, dtype=np.float64)
    if u.shape != shape or not ((u >= 0) & (u < 1)).all():
        raise ValueError(f"u must hold uniform numbers in [0, 1) of shape {shape}; use rng.random({shape}).")
    return u
