"""The simulators against theory, against slow independent ones, and against what holds for every run."""

import inspect
import math
import os
import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from labsupport.queueing import kernels, workload
from labsupport.queueing import simulate as sim
from labsupport.queueing.requestlog import RequestLog

# --- slow simulators to compare with: a clock that walks from event to event, and lists ----------------------


def walk(arrival, service, servers=1, pick=lambda waiting: 0):
    """Start times with one queue; `pick` chooses the place in the queue that is served next."""
    start, waiting, busy, i = [0.0] * len(arrival), [], [], 0
    while i < len(arrival) or busy:
        now = min([*busy, *arrival[i : i + 1]])
        while now in busy:
            busy.remove(now)
        while i < len(arrival) and arrival[i] == now:
            waiting.append(i)
            i += 1
        while waiting and len(busy) < servers:
            k = waiting.pop(pick(waiting))
            start[k] = now
            busy.append(now + service[k])
    return start


def walk_batches(arrival, fixed, per_item, cap, timeout):
    """(start, finish) of each request, looking at every moment at which something may happen."""
    times, waiting, free, now, i = [None] * len(arrival), [], 0.0, 0.0, 0
    while i < len(arrival) or waiting:
        moments = list(arrival[i : i + 1])
        if waiting:
            moments.append(max(free, arrival[waiting[0]] + timeout if len(waiting) < cap else now))
        now = min(moments)
        while i < len(arrival) and arrival[i] == now:
            waiting.append(i)
            i += 1
        ready = len(waiting) >= cap or (waiting and now >= arrival[waiting[0]] + timeout)
        if ready and now >= free:
            batch, waiting = waiting[:cap], waiting[cap:]
            free = now + (fixed + per_item * len(batch))
            for k in batch:
                times[k] = now, free
    return times


def through(begin, work, stalls):
    """(start, finish) of work that begins at `begin`, piece by piece between the stalls."""
    start, k = None, 0
    while True:
        stall = stalls.first_s + k * stalls.period_s
        if stall <= begin < stall + stalls.length_s:
            begin = stall + stalls.length_s
        elif begin < stall:
            start = begin if start is None else start
            if work <= stall - begin:
                return start, begin + work
            work, begin = work - (stall - begin), stall + stalls.length_s
        k += 1


def walk_closed(think, service, arrival, open_service, servers, schedule, stalls):
    """Rows (arrival, start, finish) of the loop and of the open requests; everybody's next request is looked at."""
    rounds = len(think[0])
    due = [max(think[u][0], schedule[u][0]) for u in range(len(think))]
    sent, i, free, loop, other = [0] * len(think), 0, [0.0] * servers, [], []
    while any(r < rounds for r in sent) or i < len(arrival):
        asking = [(due[u], 1, u) for u in range(len(think)) if sent[u] < rounds]
        asking += [(a, 0, -1) for a in arrival[i : i + 1]]
        now, _, user = min(asking)
        work = open_service[i] if user < 0 else service[user][sent[user]]
        start, finish = through(max(now, min(free)), work, stalls)
        free[free.index(min(free))] = finish
        (other if user < 0 else loop).append((now, start, finish))
        if user < 0:
            i += 1
            continue
        sent[user] += 1
        if sent[user] < rounds:
            due[user] = max(finish + think[user][sent[user]], schedule[user][sent[user]])
    return loop, other


def walk_routed(arrival, service, servers, policy, u):
    start, finish, at = [], [], []
    for i, now in enumerate(arrival):
        length = [sum(f > now for f, s in zip(finish, at, strict=True) if s == j) for j in range(servers)]
        if policy == "jsq":
            best = [j for j in range(servers) if length[j] == min(length)]
            chosen = best[int(u[i] * len(best))]
        elif policy == "power_of_two":
            pairs = list(permutations(range(servers), 2))
            one, two = pairs[int(u[i] * len(pairs))]
            chosen = two if length[two] < length[one] else one
        else:
            chosen = int(u[i] * servers) if policy == "random" else i % servers
        start.append(max([now] + [f for f, s in zip(finish, at, strict=True) if s == chosen]))
        finish.append(start[-1] + service[i])
        at.append(chosen)
    return start


def walk_sharing(arrival, service):
    finish, inside, now, i = [0.0] * len(arrival), {}, 0.0, 0
    while i < len(arrival) or inside:
        leave = now + min(inside.values()) * len(inside) if inside else math.inf
        then = min([leave, *arrival[i : i + 1]])
        inside = {k: left - (then - now) / len(inside) for k, left in inside.items()}
        now = then
        for k in [k for k, left in inside.items() if left <= 1e-9]:
            del inside[k]
            finish[k] = now
        while i < len(arrival) and arrival[i] == now:
            inside[i] = service[i]
            i += 1
    return finish


def walk_hedged(arrival, service, backup, servers, delay, u, cancel):
    """(start, finish, work, copied); u is such that no two events coincide."""
    n = len(arrival)
    home = [int(x * servers) for x in u[:, 0]]
    others = [[s for s in range(servers) if s > h] + [s for s in range(servers) if s < h] for h in home]
    place = {(i, 0): home[i] for i in range(n)} | {
        (i, 1): others[i][int(u[i, 1] * (servers - 1))] for i in range(n)
    }
    queue = [[] for _ in range(servers)]  # the first is in service
    ends, start, finish, work, copied = {}, [None] * n, [None] * n, [0.0] * n, [False] * n
    events = sorted(
        [(a, 0, i) for i, a in enumerate(arrival)] + [(a + delay, 1, i) for i, a in enumerate(arrival)]
    )
    while events or ends:
        if ends and (not events or min(ends.values())[0] <= events[0][0]):
            task = min(ends, key=lambda t: ends[t])
            now, begun = ends.pop(task)
            queue[place[task]].remove(task)
            i, twin = task[0], (task[0], 1 - task[1])
            work[i] += now - begun
            if finish[i] is None:
                finish[i] = now
                if cancel and twin in queue[place[twin]]:
                    queue[place[twin]].remove(twin)
                    if twin in ends:
                        work[i] += now - ends.pop(twin)[1]
        else:
            now, which, i = events.pop(0)
            if which == 0 or finish[i] is None:
                queue[place[i, which]].append((i, which))
                copied[i] = which == 1
        for line in queue:
            if line and line[0] not in ends:
                i, which = line[0]
                ends[i, which] = now + (backup[i] if which else service[i]), now
                start[i] = now if start[i] is None else start[i]
    return start, finish, work, copied


# --- inputs in quarters, so that sums are exact, and moments coincide ----------------------------------------


def quarters(high):
    return st.integers(0, high).map(lambda k: k / 4)


@st.composite
def runs(draw, gap=12, work=12, longest=25):
    rows = draw(st.lists(st.tuples(quarters(gap), quarters(work), st.integers(0, 999)), max_size=longest))
    gaps, service, u = np.array(rows, dtype=float).reshape(-1, 3).T
    return np.cumsum(gaps), service, u / 1000


@given(runs())
def test_fcfs_and_shortest_first_equal_the_walk(run):
    arrival, service, _ = run
    assert sim.fcfs(arrival, service).start.tolist() == walk(arrival, service)
    shortest = walk(
        arrival, service, pick=lambda waiting: waiting.index(min(waiting, key=lambda k: service[k]))
    )
    assert sim.shortest_first(arrival, service).start.tolist() == shortest


@given(runs(gap=4), st.integers(1, 6))
def test_several_servers_equal_the_walk(run, servers):
    arrival, service, _ = run
    assert sim.fcfs_servers(arrival, service, servers).start.tolist() == walk(arrival, service, servers)
    equal = np.full(len(arrival), 2.5)  # has a formula of its own
    assert sim.fcfs_servers(arrival, 2.5, servers).start.tolist() == walk(arrival, equal, servers)


@given(runs(gap=4), quarters(8), quarters(3), st.integers(1, 5), st.one_of(st.just(0.0), quarters(30)))
def test_batches_equal_the_walk(run, fixed, per_item, cap, timeout):
    arrival, _, _ = run
    expected = walk_batches(arrival, fixed, per_item, cap, timeout)
    log = sim.timeout_batches(arrival, fixed, per_item, cap, timeout)
    assert list(zip(log.start, log.finish, strict=True)) == expected
    if timeout == 0:
        assert sim.dynamic_batches(arrival, fixed, per_item, cap).finish.tolist() == log.finish.tolist()


@given(
    st.integers(1, 4).flatmap(
        lambda rounds: st.lists(
            st.lists(st.tuples(quarters(20), quarters(8), quarters(60)), min_size=rounds, max_size=rounds),
            min_size=1,
            max_size=4,
        )
    ),
    runs(longest=8),
    st.integers(1, 3),
    st.tuples(st.integers(0, 8), st.integers(9, 30), st.integers(0, 30)),
)
def test_closed_loops_with_stalls_and_company_equal_the_walk(users, run, servers, stall):
    think, service, schedule = np.moveaxis(np.array(users), 2, 0)
    schedule = np.sort(schedule, axis=1)
    arrival, open_service, _ = run
    stalls = sim.Stalls(*(x / 4 for x in stall))
    loop, other = walk_closed(
        think.tolist(), service.tolist(), arrival, open_service, servers, schedule.tolist(), stalls
    )
    logs = sim.closed_with_open(
        think, service, arrival, open_service, servers=servers, schedule=schedule, stalls=stalls
    )
    for log, rows in zip(logs, (loop, other), strict=True):
        assert list(zip(log.arrival, log.start, log.finish, strict=True)) == rows
    assert sorted(logs[0].intended) == sorted(schedule.ravel())
    assert (logs[0].arrival >= logs[0].intended).all()
    alone = sim.closed_loop(think, service, servers=servers)
    never = sim.Stalls(0, 1)
    loop, _ = walk_closed(think.tolist(), service.tolist(), [], [], servers, 0 * schedule, never)
    assert list(zip(alone.arrival, alone.start, alone.finish, strict=True)) == loop


@given(runs(), st.tuples(st.integers(0, 8), st.integers(9, 30), st.integers(0, 30)))
def test_a_stalling_server_works_piece_by_piece(run, stall):
    arrival, service, _ = run
    stalls = sim.Stalls(*(x / 4 for x in stall))
    _, rows = walk_closed([[0.0]], [[0.0]], arrival + 1, service, 1, [[0.0]], stalls)
    log = sim.stalled(arrival + 1, service, stalls)
    np.testing.assert_allclose(
        np.c_[log.arrival, log.start, log.finish], np.reshape(rows, (-1, 3)), atol=1e-12
    )


@given(runs(gap=4), st.integers(2, 5), st.sampled_from(["random", "round_robin", "power_of_two", "jsq"]))
def test_routing_equals_the_walk(run, servers, policy):
    arrival, service, u = run
    log = sim.routed(arrival, service, servers, policy, u)
    assert log.start.tolist() == walk_routed(arrival, service, servers, policy, u)


@given(runs())
def test_processor_sharing_equals_the_walk(run):
    arrival, service, _ = run
    log = sim.processor_sharing(arrival, service)
    np.testing.assert_allclose(log.finish, walk_sharing(arrival, service), atol=1e-8)
    assert (log.wait == 0).all()


@given(st.integers(0, 10**6), st.integers(0, 30), st.integers(2, 5), st.floats(0, 4), st.booleans())
def test_hedging_equals_the_walk(seed, n, servers, delay, cancel):
    rng = np.random.default_rng(seed)
    arrival = workload.poisson(rng, 0.8 * servers, n)
    service, backup, u = rng.standard_exponential(n), rng.standard_exponential(n), rng.random((n, 2))
    run = sim.hedged(arrival, service, backup, servers, delay, u, cancel=cancel)
    start, finish, work, copied = walk_hedged(arrival, service, backup, servers, delay, u, cancel)
    assert run.log.start.tolist() == start and run.log.finish.tolist() == finish
    assert run.copied.tolist() == copied
    np.testing.assert_allclose(run.work_s, work, atol=1e-12)
    if n:
        assert run.extra_load == pytest.approx(sum(work) / service.sum() - 1, abs=1e-12)


@given(runs(), st.integers(1, 4))
def test_fan_out_is_as_slow_as_its_slowest_task(run, k):
    arrival, service, u = run
    tasks = np.stack([np.roll(service, j) for j in range(k)], axis=1)
    log = sim.fan_out(arrival, tasks)
    starts = [walk(arrival, task) for task in tasks.T]
    assert log.start.tolist() == np.min(starts, axis=0).tolist()
    assert log.finish.tolist() == np.max(starts + tasks.T, axis=0).tolist()


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 30))
def test_many_replications_at_once_equal_one_by_one(seed, several, n):
    gaps, service = np.random.default_rng(seed).integers(0, 13, (2, several, n)) / 4
    waits = sim.fcfs_waits(gaps, service)
    assert waits.tolist() == [
        sim.fcfs(np.cumsum(g), s).wait.tolist() for g, s in zip(gaps, service, strict=True)
    ]


def test_long_runs_keep_their_digits_and_their_zeros():
    rng = np.random.default_rng(2)
    n = 150_000  # several blocks
    arrival, service = workload.poisson(rng, 1, n), 0.9 * rng.standard_exponential(n)
    wait, exact = 0.0, np.empty(n)
    for i, (step, work) in enumerate(zip(np.diff(arrival).tolist() + [0.0], service.tolist(), strict=True)):
        exact[i] = wait
        wait = max(0.0, wait + work - step)
    log = sim.fcfs(arrival, service)
    assert np.abs(log.wait - exact).max() < 1e-9
    assert ((log.wait == 0) == (exact == 0)).all() and 0.08 < (log.wait == 0).mean() < 0.12
    several = sim.fcfs_waits(np.diff(arrival, prepend=0).reshape(5, -1), service.reshape(5, -1))
    one = sim.fcfs(arrival.reshape(5, -1)[3], service.reshape(5, -1)[3])
    np.testing.assert_allclose(several[3], one.wait, atol=1e-9)


def test_five_at_once_wait_one_after_the_other():
    assert sim.fcfs([0, 0, 0, 0, 0], 0.125).wait.tolist() == [0, 0.125, 0.25, 0.375, 0.5]  # P5, in eighths
    assert sim.fcfs([0, 0.125, 0.25, 0.375, 0.5], 0.125).wait.tolist() == [0, 0, 0, 0, 0]


# --- what holds for every run of every simulator -------------------------------------------------------------

SIMULATORS = {
    "fcfs": lambda a, s, u: sim.fcfs(a, s),
    "servers": lambda a, s, u: sim.fcfs_servers(a, s, 3),
    "servers_equal": lambda a, s, u: sim.fcfs_servers(a, 2.25, 3),
    "dynamic": lambda a, s, u: sim.dynamic_batches(a, 2.0, 0.5, 4),
    "timeout": lambda a, s, u: sim.timeout_batches(a, 2.0, 0.5, 4, 3.0),
    "loop": lambda a, s, u: sim.closed_loop(np.outer([1, 2, 3], s), 0.75),
    "closed": lambda a, s, u: sim.closed_loop(s[::-1].reshape(1, -1).repeat(3, 0), s[:1].sum(), servers=2),
    "stop": lambda a, s, u: sim.closed_loop(np.outer([1, 2, 3], s), 0.75, stop_with_first=True),
    "paced": lambda a, s, u: sim.closed_loop(s[None], s[None], schedule=a[None], stalls=sim.Stalls(1, 9)),
    "mixed_closed": lambda a, s, u: sim.closed_with_open(s[None], s[None], a, 0.75)[0],
    "mixed_open": lambda a, s, u: sim.closed_with_open(s[None], s[None], a, 0.75)[1],
    "stalled": lambda a, s, u: sim.stalled(a, s, sim.Stalls(1.25, 7)),
    "fan_out": lambda a, s, u: sim.fan_out(a, np.stack([s, s[::-1]], axis=1)),
    "hedged": lambda a, s, u: sim.hedged(a, s, s[::-1], 3, 2.0, np.stack([u, u], 1)).log,
    "hedged_through": lambda a, s, u: sim.hedged(a, s, s, 3, 2, np.stack([u, u], 1), cancel=False).log,
    **{
        policy: lambda a, s, u, policy=policy: sim.routed(a, s, 4, policy, u)
        for policy in ("random", "round_robin", "power_of_two", "jsq", "shared")
    },
    "sharing": lambda a, s, u: sim.processor_sharing(a, s),
    "shortest": lambda a, s, u: sim.shortest_first(a, s),
}
OPEN = set(SIMULATORS) - {"loop", "closed", "stop", "paced", "mixed_closed"}


def area(log):
    """The integral of the number in the system, event by event."""
    events = sorted([(t, 1) for t in log.arrival] + [(t, -1) for t in log.finish])
    total = inside = last = 0.0
    for t, change in events:
        total += inside * (t - last)
        inside, last = inside + change, t
    assert inside == 0
    return total


@pytest.mark.parametrize("name", SIMULATORS)
@settings(max_examples=20)
@given(run=runs(gap=6))
def test_every_run_obeys_littles_law_and_nobody_waits_less_than_nothing(name, run):
    arrival, service, u = run
    log = SIMULATORS[name](arrival, service, u)
    assert isinstance(log, RequestLog)
    assert (log.wait >= 0).all() and (log.service >= 0).all() and (np.diff(log.arrival) >= 0).all()
    if name in OPEN:
        assert log.arrival.tolist() == arrival.tolist()
    if len(log):
        # L = lambda W over a run that begins and ends empty; both sides times its length
        assert area(log) == pytest.approx(len(log) * log.response.mean(), rel=1e-9, abs=1e-9)


@given(runs())
def test_one_server_is_busy_whenever_there_is_work(run):
    arrival, service, _ = run
    logs = [f(arrival, service) for f in (sim.fcfs, sim.shortest_first, sim.processor_sharing)]
    logs.append(sim.fcfs_servers(arrival, service, 1))
    # Busy periods do not depend on the order: a request that finds nobody inside finds nobody in any order.
    alone = [log.in_system(arrival - 1e-6) == 0 for log in logs]
    ends = [np.maximum.accumulate(log.finish)[np.append(alone[0][1:], True)] for log in logs if len(arrival)]
    for other, end in zip(alone[1:], ends[1:], strict=False):
        assert other.tolist() == alone[0].tolist()
        assert np.max(end, initial=0) == pytest.approx(np.max(ends[0], initial=0))


@given(runs(gap=2), st.integers(2, 4))
def test_nobody_waits_while_a_server_is_idle(run, servers):
    arrival, service, _ = run
    service = service + 0.25
    log = sim.fcfs_servers(arrival, service, servers)
    assert (np.diff(log.start) >= 0).all()  # first come first served
    for i in np.flatnonzero(log.wait > 0):
        before = log.start[i] - 0.125
        assert ((log.start <= before) & (before < log.finish)).sum() == servers


@given(runs(), quarters(20), quarters(5))
def test_the_simplest_case_of_each_is_the_fcfs_server(run, fixed, per_item):
    arrival, service, u = run
    one = sim.fcfs(arrival, service).finish.tolist()
    assert sim.fcfs_servers(arrival, service, 1).finish.tolist() == one
    assert sim.fan_out(arrival, service[:, None]).finish.tolist() == one
    assert sim.stalled(arrival, service, sim.Stalls(0, 10)).finish.tolist() == one
    assert sim.closed_loop(arrival[:, None], service[:, None]).finish.tolist() == one
    for policy in sim.POLICIES:
        assert sim.routed(arrival, service, 1, policy, u).finish.tolist() == one
    batches = sim.dynamic_batches(arrival, fixed, per_item, 1).finish.tolist()
    assert batches == sim.fcfs(arrival, fixed + per_item).finish.tolist()
    hedged = sim.hedged(arrival, service, service, 3, math.inf, np.stack([u, u], 1))
    assert hedged.log.finish.tolist() == sim.routed(arrival, service, 3, "random", u).finish.tolist()
    assert not hedged.copied.any() and hedged.extra_load == pytest.approx(0)
    assert (sim.fcfs_servers(arrival, service, max(1, len(arrival))).wait == 0).all()


@given(st.lists(quarters(40), min_size=1, max_size=12))
def test_sharing_among_all_from_the_start(service):
    log = sim.processor_sharing(np.full(len(service), 2.0), service)
    small_first, n = sorted(service), len(service)
    # while the k-th smallest is inside, it and the n - k larger ones have had the same
    expected = [2 + sum(small_first[:k]) + (n - k) * s for k, s in enumerate(small_first)]
    np.testing.assert_allclose(sorted(log.finish), expected, rtol=1e-12)
    assert np.argsort(service, kind="stable").tolist() == np.argsort(log.finish, kind="stable").tolist()


@given(runs(gap=40), runs(gap=40), quarters(12))
def test_hedging_without_queues_is_the_smaller_of_two(run, other, delay):
    n = min(len(run[1]), len(other[1]))
    first, second = run[1][:n], other[1][:n]
    latency, copied = sim.hedged_latency(first, second, delay)
    far_apart = 100.0 * np.arange(n)
    log = sim.hedged(far_apart, first, second, 2, delay, np.zeros((n, 2)))
    assert latency.tolist() == log.log.response.tolist() and copied.tolist() == log.copied.tolist()
    # what the two copies cost until the first is done
    assert log.work_s.tolist() == (latency + np.where(copied, latency - delay, 0)).tolist()


@pytest.mark.parametrize("name", sorted(OPEN - {"hedged"}))
def test_overload_makes_the_queue_grow_to_the_end(name):
    rng = np.random.default_rng(4)
    n = 4000
    log = SIMULATORS[name](workload.poisson(rng, 10, n), 1 + rng.standard_exponential(n), rng.random(n))
    tenth = n // 10
    assert len(log) == n
    if name not in ("sharing", "shortest"):  # where small requests that come last leave early
        assert log.response[-tenth:].mean() > 3 * log.response[:tenth].mean()
    assert log.in_system(log.arrival[-1]) > 5 * log.in_system(log.arrival[tenth])


# --- theory --------------------------------------------------------------------------------------------------


def agrees(values, truth, rounding=0.0, z=4):
    """Whether the mean over independent replications is within z standard errors of the truth."""
    values = np.asarray(values)
    return abs(values.mean() - truth) < rounding + z * values.std(ddof=1) / math.sqrt(len(values))


def replications(simulate, seed, count=20):
    """simulate(rng) for each of `count` independent generators, as columns of an array."""
    return np.array([simulate(rng) for rng in np.random.default_rng(seed).spawn(count)]).T


def settled(log):
    """Without the first fifth, in which the run forgets that it began empty."""
    return log.between(log.arrival[len(log) // 5], np.inf)


@pytest.mark.parametrize("rho, mean_of_1000", [(0.8, 3.9), (0.95, 13.320549)])
def test_mm1_from_empty(rho, mean_of_1000):
    rng = np.random.default_rng(5)
    gaps, service = rng.standard_exponential((2, 2000, 1000))
    waits = sim.fcfs_waits(gaps / rho, service)
    assert agrees(waits.mean(axis=1), mean_of_1000)
    if rho == 0.95:
        assert agrees(waits[:, -1], 16.836958)


@pytest.mark.parametrize(
    "law, scv",
    [(workload.gamma, 0), (workload.gamma, 1), (workload.hyperexponential, 4), (workload.gamma, 25)],
)
def test_one_server_with_any_service_law(law, scv):
    def mean_wait(rng):
        arrival = workload.poisson(rng, 0.7, 60_000)
        return settled(sim.fcfs(arrival, law(1, scv).sample(rng, 60_000))).wait.mean()

    assert agrees(replications(mean_wait, 6), 0.7 / 0.3 * (1 + scv) / 2)  # Pollaczek and Khinchin


def test_md1_percentiles():
    def shares(rng):
        wait = settled(sim.fcfs(workload.poisson(rng, 0.8, 40_000), 1.0)).wait
        return [(wait <= q).mean() for q in (1.275940, 6.620325, 10.355887)]

    for share, p in zip(replications(shares, 7), (0.5, 0.95, 0.99), strict=True):
        assert agrees(share, p)


@pytest.mark.parametrize("ca2, truth", [(0.25, 1.23669363388), (4, 6.76171368863)])
def test_bursty_arrivals(ca2, truth):
    def mean_wait(rng):
        arrival = workload.renewal(rng, workload.gamma(1 / 0.7, ca2), 60_000)
        return settled(sim.fcfs(arrival, rng.standard_exponential(60_000))).wait.mean()

    assert agrees(replications(mean_wait, 8), truth)


def test_eight_servers():
    def figures(rng):
        arrival = workload.poisson(rng, 6.4, 20_000)
        log = settled(sim.fcfs_servers(arrival, rng.standard_exponential(20_000), 8))
        equal = settled(sim.fcfs_servers(arrival, 1.0, 8))
        return log.wait.mean(), (log.wait > 0).mean(), equal.wait.mean()

    for values, truth in zip(
        replications(figures, 9), (0.286028078401, 0.457644925442, 0.1519538026), strict=True
    ):
        assert agrees(values, truth)


T2 = {  # arrivals per second: mean response in ms, mean batch
    100: (7.00953, 1.129822),
    500: (10.55433, 3.384867),
    1000: (15.83322, 10.000331),
    1400: (26.84475, 23.333334),
    1450: (30.84469, 26.363636),
    1480: (36.24037, 28.461538),
}


def batch_figures(log):
    return log.response.mean() * 1e3, len(log) / len(np.unique(log.start))


@pytest.mark.parametrize("rate", T2)
def test_dynamic_batches(rate):
    def figures(rng):
        return batch_figures(
            settled(sim.dynamic_batches(workload.poisson(rng, rate, 20_000), 0.005, 0.0005, 32))
        )

    for values, truth in zip(replications(figures, 10), T2[rate], strict=True):
        assert agrees(values, truth)


def test_waiting_for_a_batch_at_low_load():  # T4
    def figures(rng):
        log = sim.timeout_batches(workload.poisson(rng, 100, 20_000), 0.005, 0.0005, 32, 0.02)
        return batch_figures(settled(log))

    response, batch = replications(figures, 11)
    # Members: one and those of the next 20 ms, 1 + Poisson(2), so E[b] = 3 and E[b^2] = 11. The first waits
    # 20 ms and the others 10 ms on average; the server is always free by then.
    assert agrees(response, (20 + 2 * 10 + 5 * 3 + 0.5 * 11) / 3)
    assert agrees(response, 20.17, rounding=0.005) and agrees(batch, 3.0)


@pytest.mark.parametrize("rate, ratio", [(100, 2.88), (1000, 1.67), (1400, 1.17), (1450, 1.11)])
def test_what_waiting_for_a_batch_costs(rate, ratio):  # T5, under common random numbers
    def ratio_of_means(rng):
        arrival = workload.poisson(rng, rate, 20_000)
        timeout = settled(sim.timeout_batches(arrival, 0.005, 0.0005, 32, 0.02))
        return (
            timeout.response.mean() / settled(sim.dynamic_batches(arrival, 0.005, 0.0005, 32)).response.mean()
        )

    assert agrees(replications(ratio_of_means, 12), ratio, rounding=0.005)


def test_overloaded_batches_work_at_their_ceiling():
    log = sim.dynamic_batches(workload.poisson(np.random.default_rng(13), 2000, 120_000), 0.005, 0.0005, 32)
    assert (log.finish < 60).sum() / 60 == pytest.approx(32 / (0.005 + 32 * 0.0005), rel=1e-3)


@pytest.mark.parametrize(
    "users, think, throughput, response",
    [(12, 9, 0.916913388534, 4.08738660604), (50, 50, 0.895212544496, 5.85265790497), (100, 9, 1.0, 91.0)],
)
def test_closed_loop(users, think, throughput, response):
    rounds = 20_000 // users

    def figures(rng):
        think_s, service = (
            think * rng.standard_exponential((users, rounds)),
            rng.standard_exponential((users, rounds)),
        )
        log = sim.closed_loop(think_s, service, stop_with_first=True)
        rest = settled(log)
        return (len(rest) - 1) / (rest.arrival[-1] - rest.arrival[0]), rest.response.mean()

    x, r = replications(figures, 14)
    assert agrees(x, throughput) and agrees(r, response)


def test_a_loop_with_a_server_for_everybody_never_waits():
    rng = np.random.default_rng(15)
    log = sim.closed_loop(rng.random((7, 50)), rng.random((7, 50)), servers=7)
    assert len(log) == 350 and (log.wait == 0).all()


def test_stopping_with_the_first_keeps_the_loop_full():
    rng = np.random.default_rng(16)
    think, service = rng.random((9, 40)), rng.random((9, 40))
    whole, cut = sim.closed_loop(think, service), sim.closed_loop(think, service, stop_with_first=True)
    n = len(cut)
    assert 9 < n < len(whole) == 360
    np.testing.assert_array_equal(cut.finish, whole.finish[:n])
    # one user is done at the first moment at which 40 answers came back to the same user: nobody sends later
    assert whole.arrival[n] > cut.arrival[-1] and cut.finish.max() > cut.arrival[-1]
    alone = sim.closed_loop(think[:1], service[:1], stop_with_first=True)
    assert len(alone) == 40


def test_two_tasks_in_parallel():
    def mean_response(rng):
        return settled(
            sim.fan_out(workload.poisson(rng, 0.5, 20_000), rng.standard_exponential((20_000, 2)))
        ).response.mean()

    assert agrees(replications(mean_response, 17), (12 - 0.5) / 8 / (1 - 0.5))  # Nelson and Tantawi (1988)


def test_median_of_a_hundred_tasks():  # B9: lognormal with median 10 ms and P99 100 ms
    rng = np.random.default_rng(18)
    sigma = math.log(10) / stats.norm.ppf(0.99)
    log = sim.fan_out(1e6 * np.arange(10_000), 10 * np.exp(sigma * rng.standard_normal((10_000, 100))))
    assert agrees(log.response <= 114.37, 0.5)


@pytest.mark.parametrize("servers", [2, 4])
def test_copies_to_two_servers_at_once(servers):
    rate = 0.7 * servers

    def figures(rng):
        n = 5000
        service = rng.standard_exponential((2, n))
        run = sim.hedged(workload.poisson(rng, rate, n), *service, servers, 0.0, rng.random((n, 2)))
        return settled(run.log).response.mean(), run.extra_load

    # Redundancy-d with d = 2 (Gardner et al. 2017). With memoryless services calling off costs no work.
    truth = sum(1 / (servers * (servers - 1) / (i - 1) - rate) for i in range(2, servers + 1))
    response, extra = replications(figures, 19)
    assert agrees(response, truth) and agrees(extra, 0)


def test_hedging_cuts_the_tail_of_a_light_load():
    rng = np.random.default_rng(20)
    first, second = workload.lognormal(1, 4).sample(rng, (2, 100_000))
    delay = float(workload.lognormal(1, 4).ppf(0.95))
    latency, copied = sim.hedged_latency(first, second, delay)
    assert agrees(copied, 0.05)
    law = stats.lognorm(math.sqrt(math.log(5)), scale=1 / math.sqrt(5))
    t = 8.555465  # P99 of one
    assert agrees(latency > t, law.sf(t) * law.sf(t - delay)) and law.sf(t) == pytest.approx(0.01)


def test_routing_on_the_same_workload():  # B7
    def waits(rng):
        n = 20_000
        arrival, service, u = workload.poisson(rng, 6.4, n), rng.standard_exponential(n), rng.random(n)
        return [settled(sim.routed(arrival, service, 8, policy, u)).wait.mean() for policy in order]

    order = ["random", "round_robin", "power_of_two", "jsq", "shared"]
    means = replications(waits, 21, count=10)
    for worse, better in zip(means[:-1], means[1:], strict=True):
        difference = worse - better  # under common random numbers
        assert difference.mean() > 4 * difference.std(ddof=1) / math.sqrt(len(difference))
    assert agrees(means[0], 4.0) and agrees(means[-1], 0.286028078401)
    # Taking turns, each server sees Erlang-8 gaps: the root of sigma = E[exp(-(1 - sigma) A)] below 1
    root = optimize.brentq(lambda s: (1 + (1 - s) / 6.4) ** -8 - s, 0, 0.99)
    assert agrees(means[1], root / (1 - root))


@pytest.mark.parametrize(
    "law", [workload.deterministic(1), workload.exponential(1), workload.lognormal(1, 4)]
)
def test_processor_sharing_does_not_mind_the_law(law):  # K10
    def figures(rng):
        n = 20_000
        arrival, service = workload.poisson(rng, 0.7, n), law.sample(rng, n)
        log = settled(sim.processor_sharing(arrival, service))
        size = service[-len(log) :]
        return log.response.mean(), (log.response - size / 0.3).mean()

    response, beyond_its_size = replications(figures, 22)
    assert agrees(response, 1 / 0.3)
    assert agrees(beyond_its_size, 0)  # E[response given size] = size / (1 - rho)


def test_shortest_first():  # K10
    def figures(rng):
        n = 20_000
        arrival, service = workload.poisson(rng, 0.8, n), rng.standard_exponential(n)
        orders = sim.shortest_first, sim.fcfs
        return [settled(order(arrival, service)).wait.mean() for order in orders]

    def wait(x):  # of a job of size x (Phipps 1956): work in service over (1 - load of shorter jobs)^2
        shorter = 0.8 * (1 - math.exp(-x) * (1 + x))
        return 0.8 / (1 - shorter) ** 2

    mean, _ = integrate.quad(lambda x: wait(x) * math.exp(-x), 0, np.inf)
    shortest, fcfs = replications(figures, 23)
    assert agrees(shortest, mean) and agrees(fcfs, 4) and (shortest < fcfs).all()


# --- a server that stalls: 1 ms of work, 1 s of stall every 10 s (C1 to C4) -----------------------------------


def test_what_users_see_of_the_stalls():
    def figures(rng):
        response = sim.stalled(workload.poisson(rng, 100, 60_000), 0.001, sim.Stalls(1, 10)).response
        return response.mean(), *np.quantile(response, [0.95, 0.99])

    for values, truth in zip(replications(figures, 24), (0.057, 0.552, 0.912), strict=True):
        assert agrees(values, truth, rounding=0.0005)


def test_what_a_tool_that_waits_sees_of_them():
    stalls = sim.Stalls(1, 10)

    def figures(rng):
        n = 20_000
        service = 0.001 * rng.standard_exponential((1, n))
        users = workload.poisson(rng, 100, 5000), 0.001 * rng.standard_exponential(5000)
        alone = sim.closed_loop(0 * service, service, stalls=stalls)
        shared, _ = sim.closed_with_open(0 * service, service, *users, stalls=stalls)
        paced = sim.closed_loop(0 * service, service, schedule=0.01 * np.arange(n)[None], stalls=stalls)
        logs = alone, shared.between(0, users[0][-1]), paced
        return [np.quantile(log.response, 0.99) * 1e3 for log in logs] + [
            np.quantile(paced.finish - paced.intended, 0.99)
        ]

    alone, shared, paced, corrected = replications(figures, 25, count=8)
    assert agrees(alone, 4.6, rounding=0.05) and agrees(shared, 5.2, rounding=0.05)
    assert agrees(paced, 4.7, rounding=0.05) and agrees(corrected, 0.9, rounding=0.05)
    constant = sim.closed_loop(np.zeros((1, 20_000)), 0.001, stalls=stalls)
    assert 0.001 <= np.quantile(constant.response, 0.99) <= 0.002


def test_ten_connections_record_ten_slow_samples():
    stalls = sim.Stalls(2, 60)
    tool = sim.closed_loop(np.zeros((10, 1000)), 1 / 200, stalls=stalls)
    assert (tool.response > 1).sum() == 10
    users = np.arange(12_000) / 200
    assert ((users >= stalls.first_s) & (users < stalls.first_s + 2)).sum() == 400


# --- compiled loops ------------------------------------------------------------------------------------------


def test_compiled_loops_give_the_same_bits(monkeypatch):
    pytest.importorskip("numba", reason="numba is not installed: nothing is compiled")
    rng = np.random.default_rng(26)
    n = 3000
    arrival, service, u = workload.poisson(rng, 3, n), rng.standard_exponential(n), rng.random(n)

    def results():
        logs = [f(arrival, service, u) for f in SIMULATORS.values()]
        return [np.c_[log.arrival, log.start, log.finish] for log in logs]

    monkeypatch.setattr(sim, "_COMPILE_ABOVE", 100)
    monkeypatch.setenv("QLAB_NUMBA", "0")
    sim._compiled.cache_clear()
    plain = results()
    assert not sim._compiled.cache_info().currsize
    monkeypatch.delenv("QLAB_NUMBA")
    compiled = results()
    loops = [f for name, f in vars(kernels).items() if inspect.isfunction(f) and not name.startswith("_")]
    assert sim._compiled.cache_info().currsize == len(loops)  # SIMULATORS left none out
    for one, other, name in zip(plain, compiled, SIMULATORS, strict=True):
        assert np.array_equal(one, other), name


@pytest.mark.parametrize(
    "n, numba, loaded", [(200_000, "1", False), (200_001, "0", False), (200_001, "1", True)]
)
def test_only_a_large_input_loads_numba(n, numba, loaded):
    if loaded:
        pytest.importorskip("numba", reason="numba is not installed: nothing is compiled")
    code = f"""
import sys
import numpy as np
from labsupport.queueing import simulate
assert not {{"numba", "scipy", "matplotlib"}} & set(sys.modules)
simulate.fcfs_servers(np.arange({n}), np.arange({n}) % 3, 2)
print("numba" in sys.modules)
"""
    environment = os.environ | {"QLAB_NUMBA": numba}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert run.stdout == f"{loaded}\n", run.stderr


# --- what is refused -----------------------------------------------------------------------------------------

A, S = [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]
THINK = np.ones((2, 3))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: sim.fcfs([0, 2, 1], S), ValueError, "arrival is not sorted at row 2; sort"),
        (lambda: sim.fcfs([0, np.nan, 1], S), ValueError, r"arrival\[1\] = nan; give finite times"),
        (lambda: sim.fcfs([[0, 1, 2]], S), ValueError, "arrival has shape .1, 3.; give one row"),
        (
            lambda: sim.fcfs(A, [1, -1, 1]),
            ValueError,
            r"service\[1\] = -1; give finite times in s, none below 0",
        ),
        (lambda: sim.fcfs(A, [1, 2]), ValueError, "service has shape .2,.; give .3,."),
        (lambda: sim.fcfs(A, "abc"), TypeError, "service must hold numbers, not 'abc'"),
        (
            lambda: sim.fcfs_waits(A, [1, 2]),
            ValueError,
            "interarrival has shape .3,. and service .2,.; give both",
        ),
        (lambda: sim.fcfs_waits(1, 2), ValueError, "give both as"),
        (lambda: sim.fcfs_servers(A, S, 0), ValueError, "servers = 0 must be a whole number of at least 1"),
        (lambda: sim.fcfs_servers(A, S, 2.5), ValueError, "servers = 2.5"),
        (lambda: sim.dynamic_batches(A, -1, 1, 4), ValueError, "fixed_s = -1; give a finite time in s"),
        (lambda: sim.dynamic_batches(A, 1, "x", 4), TypeError, "per_item_s must be a number, not 'x'"),
        (lambda: sim.dynamic_batches(A, 1, 1, 0), ValueError, "cap = 0 must be"),
        (lambda: sim.timeout_batches(A, 1, 1, 4, math.inf), ValueError, "timeout_s = inf; give a finite"),
        (lambda: sim.closed_loop([1, 2], 1), ValueError, "think has shape .2,.; give one row for each user"),
        (lambda: sim.closed_loop(THINK, S), ValueError, "service has shape .3,.; give .2, 3."),
        (lambda: sim.closed_loop(THINK, 1, schedule=A), ValueError, "schedule has shape"),
        (lambda: sim.closed_loop(THINK, 1, servers=0), ValueError, "servers = 0"),
        (lambda: sim.closed_with_open(THINK, 1, [1, 0], 1), ValueError, "arrival is not sorted at row 1"),
        (lambda: sim.Stalls(3, 2), ValueError, "length_s = 3 must be below period_s = 2"),
        (lambda: sim.Stalls(1, 2, math.nan), ValueError, "first_s = nan; give"),
        (lambda: sim.stalled(A, S, 3), TypeError, "stalls must be a Stalls such as .*, not 3"),
        (lambda: sim.closed_loop(THINK, 1, stalls=(1, 10)), TypeError, "stalls must be a Stalls"),
        (lambda: sim.fan_out(A, S), ValueError, "service has shape .3,.; give .n, k."),
        (lambda: sim.fan_out(A, np.ones((2, 4))), ValueError, "service has shape"),
        (lambda: sim.hedged(A, S, S, 1, 1, np.zeros((3, 2))), ValueError, "servers = 1 .* at least 2"),
        (lambda: sim.hedged(A, S, S, 2, -1, np.zeros((3, 2))), ValueError, "delay_s = -1; give a time in s"),
        (lambda: sim.hedged(A, S, S, 2, 1, np.zeros(3)), ValueError, "u must hold uniform numbers .*3, 2"),
        (lambda: sim.hedged_latency(S, [1], 1), ValueError, "second has shape"),
        (
            lambda: sim.routed(A, S, 2, "lifo", S),
            ValueError,
            "policy = 'lifo' is not known; choose one of random",
        ),
        (lambda: sim.routed(A, S, 2, "jsq"), ValueError, "give u, one uniform"),
        (lambda: sim.routed(A, S, 2, "jsq", S), ValueError, "u must hold uniform numbers in .0, 1."),
        (lambda: sim.processor_sharing(A, [1, np.inf, 1]), ValueError, r"service\[1\] = inf"),
        (lambda: sim.shortest_first([-1, 0, 1], S), ValueError, r"arrival\[0\] = -1"),
    ],
)
def test_refuses_impossible_input_in_one_sentence(call, error, words):
    with pytest.raises(error, match=words) as refusal:
        call()
    assert str(refusal.value).endswith(".") and "\n" not in str(refusal.value)
