"""The loops inside the simulators, one request (or one batch) at a time.

Each is plain Python that writes into columns made by the caller. `simulate` runs it on lists as it stands, or
compiles the same source with numba and runs it on arrays; so only what both understand is used here. An empty
heap is written [(0.0, 0)][:0] because numba must see the type of its elements.
"""

from bisect import bisect_right
from heapq import heapify, heappop, heappush, heapreplace

import numpy as np


def shared_queue(arrival, service, servers, start):
    """One queue, several servers: a heap of the times at which servers fall free."""
    free = [0.0] * servers
    for i in range(len(arrival)):
        begin = free[0]
        if begin < arrival[i]:
            begin = arrival[i]
        start[i] = begin
        heapreplace(free, begin + service[i])


def batches(arrival, fixed, per_item, cap, timeout, start, first):
    """Batch by batch: its start and the index of its first member, then n. Returns the number of batches."""
    n, count, i, free = len(arrival), 0, 0, 0.0
    while i < n:
        begin = arrival[i] + timeout
        if begin <= free:
            begin = free
        elif timeout > 0.0 and i + cap <= n and arrival[i + cap - 1] < begin:
            begin = max(free, arrival[i + cap - 1])  # full before the timer rings
        start[count] = begin
        first[count] = i
        count += 1
        end = i + 1
        if end < n and arrival[end] <= begin:
            most = i + cap
            end = bisect_right(arrival, begin, end, most if most < n else n)
        free = begin + (fixed + per_item * (end - i))
        i = end
    first[count] = n
    return count


def closed_loop(think, service, rounds, arrival, start, finish):
    """Users who wait for their answers, at one server.

    User u owns the places from u * rounds on in think and service. `due` holds the moment of everybody's next
    request and its place.
    """
    due = [(think[k], k) for k in range(0, len(think), rounds)]
    heapify(due)
    think.append(0.0)
    think[::rounds] = [float("inf")] * (len(due) + 1)  # read again only after the last request of the user before
    free = 0.0
    for i in range(len(arrival)):
        begin, k = due[0]
        arrival[i] = begin
        if begin < free:
            begin = free
        start[i] = begin
        finish[i] = free = begin + service[k]
        k += 1
        heapreplace(due, (free + think[k], k))


def closed_with_open(
    think, service, schedule, stride, guest_arrival, guest_service, servers, stalls, stop_with_first,
    order, arrival, start, finish, guest_start, guest_finish,
):  # fmt: skip
    """As `closed_loop`, with all its options, and with guests who come whatever happens.

    After a user's last request there stands an infinite think time. Returns the number of closed requests sent;
    order holds their places.
    """
    guests, guest, sent = len(guest_arrival), 0, 0
    never = first_done = float("inf")
    first_stall, stall, period = stalls
    free = [0.0] * servers
    due = [(max(think[k], schedule[k]), k) for k in range(0, len(think), stride)]
    due.append((never, -1))  # so that it is never empty
    heapify(due)
    while True:
        begin, k = due[0]
        if begin > first_done and stop_with_first:
            begin = never
        if guest < guests and guest_arrival[guest] <= begin:
            begin, work, k = guest_arrival[guest], guest_service[guest], -1
        elif begin == never:
            return sent
        else:
            work = service[k]
            order[sent] = k
            arrival[sent] = begin
        if begin < free[0]:
            begin = free[0]
        end = begin + work
        if stall > 0.0:
            # The stall that began last before `begin` (or the first one ever), and the next one.
            this = first_stall + max(0.0, (begin - first_stall) // period) * period
            if this <= begin < this + stall:
                begin = this + stall
            following = this if begin < this else this + period
            end = begin + work
            if end > following:
                left = end - following
                skipped = left // (period - stall)
                if skipped * (period - stall) == left:
                    skipped -= 1.0  # done at the very moment the next stall begins
                end = following + skipped * period + stall + (left - skipped * (period - stall))
        heapreplace(free, end)
        if k < 0:
            guest_start[guest] = begin
            guest_finish[guest] = end
            guest += 1
        else:
            start[sent] = begin
            finish[sent] = end
            sent += 1
            k += 1
            if think[k] == never and end < first_done:
                first_done = end
            heapreplace(due, (max(end + think[k], schedule[k]), k))


def join_shorter(arrival, service, u, servers, two, start):
    """Each request joins the shorter of two random queues, or the shortest of all, and stays there."""
    free = [0.0] * servers
    length = [0] * servers  # in queue and in service
    leaving = [(0.0, 0)][:0]
    for i in range(len(arrival)):
        now = arrival[i]
        while leaving and leaving[0][0] <= now:
            length[heappop(leaving)[1]] -= 1
        if two:
            pair = int(u[i] * (servers * (servers - 1)))  # an ordered pair of different servers
            chosen, other = pair // (servers - 1), pair % (servers - 1)
            if other >= chosen:
                other += 1
            if length[other] < length[chosen]:
                chosen = other
        else:
            shortest = min(length)
            chosen = length.index(shortest)
            for _ in range(int(u[i] * length.count(shortest))):  # ties at random
                chosen = length.index(shortest, chosen + 1)
        begin = free[chosen]
        if begin < now:
            begin = now
        start[i] = begin
        free[chosen] = begin + service[i]
        length[chosen] += 1
        heappush(leaving, (free[chosen], chosen))


def processor_sharing(arrival, service, finish):
    """Virtual time runs at 1 / (requests inside): each leaves when it has advanced by its service time."""
    now = virtual = 0.0
    inside = [(0.0, 0)][:0]  # (virtual time of leaving, request)
    for i in range(len(arrival) + 1):
        until = arrival[i] if i < len(arrival) else float("inf")
        while inside:
            end = now + max(0.0, inside[0][0] - virtual) * len(inside)
            if end > until:
                break
            virtual, k = heappop(inside)
            finish[k] = now = end
        if i == len(arrival):
            break
        if inside:
            virtual += (until - now) / len(inside)
        else:
            virtual = 0.0  # an empty system is a good moment to forget rounding errors
        now = until
        heappush(inside, (virtual + service[i], i))


def shortest_first(arrival, service, start):
    """Whenever the server falls free it takes the shortest job that waits."""
    n, i, now = len(arrival), 0, 0.0
    waiting = [(0.0, 0)][:0]
    while i < n or waiting:
        if not waiting and now < arrival[i]:
            now = arrival[i]
        while i < n and arrival[i] <= now:
            heappush(waiting, (service[i], i))
            i += 1
        work, k = heappop(waiting)
        start[k] = now
        now += work


def hedged(
    arrival, service, backup, home, other, servers, delay, cancel, start, finish, work, copied
):  # fmt: skip
    """Copy n + k follows task k to another server where k has not finished `delay` after its arrival.

    Queues are linked lists; running[s] is the task that server s works on (-1: none). A task called off while
    it waits stays in its list and is skipped; one called off in service leaves a stale entry in `ending`.
    """
    n = len(arrival)
    never, nobody = float("inf"), -1
    running, head, tail = [nobody] * servers, [nobody] * servers, [nobody] * servers
    behind, begun = [nobody] * (2 * n), [0.0] * (2 * n)
    for k in range(n):
        start[k] = finish[k] = -1.0
        work[k] = copied[k] = 0.0
    ending = [(0.0, 0)][:0]
    i = due = 0  # the next request to arrive, the next to be looked at for a copy
    while i < n or ending:
        next_arrival = arrival[i] if i < n else never
        next_copy = arrival[due] + delay if due < i else never
        now = min(next_arrival, next_copy)
        if ending and ending[0][0] <= now:  # ends come first: done exactly after `delay` is in time
            now, task = heappop(ending)
            k, twin = (task, task + n) if task < n else (task - n, task - n)
            s, there = (home[k], other[k]) if task < n else (other[k], home[k])
            if running[s] != task:
                continue
            running[s] = nobody
            work[k] += now - begun[task]
            if finish[k] < 0.0:
                finish[k] = now
                if cancel and running[there] == twin:
                    running[there] = nobody
                    work[k] += now - begun[twin]
        else:
            if next_copy <= next_arrival:
                k, due = due, due + 1
                if finish[k] >= 0.0:
                    continue
                copied[k] = 1.0
                s, task = other[k], k + n
            else:
                s, task = home[i], i
                i += 1
            there = s
            if head[s] == nobody:
                head[s] = task
            else:
                behind[tail[s]] = task
            tail[s] = task
        for server in (s, there):
            while running[server] == nobody and head[server] != nobody:
                task = head[server]
                head[server] = behind[task]
                k = task if task < n else task - n
                if cancel and finish[k] >= 0.0:
                    continue
                running[server] = task
                begun[task] = now
                if start[k] < 0.0:
                    start[k] = now
                heappush(ending, (now + (service[k] if task < n else backup[k]), task))


def _bisect_right(times, t, low, high):
    while low < high:
        middle = (low + high) // 2
        if t < times[middle]:
            high = middle
        else:
            low = middle + 1
    return low


def _heapreplace(heap, item):
    last = len(heap) - 1
    i, child = 0, 1
    while child < last:
        child += int(heap[child + 1] < heap[child])  # a sum, not a branch that the processor mispredicts
        if not heap[child] < item:
            break
        heap[i] = heap[child]
        i, child = child, 2 * child + 1
    if child == last and heap[child] < item:
        heap[i] = heap[child]
        i = child
    heap[i] = item


def _closed_loop(think, service, rounds, arrival, start, finish):
    """`closed_loop` with the heap in two arrays, root at 1: of the next moments, and of the users they belong to."""
    users = len(think) // rounds
    place = np.arange(users) * rounds
    due, user = np.full(2 * users + 2, np.inf), np.full(2 * users + 2, users)
    user[1 : users + 1] = np.argsort(think[place])
    due[1 : users + 1] = think[place[user[1 : users + 1]]]
    free = 0.0
    for i in range(len(arrival)):
        begin, u = due[1], user[1]
        k = place[u]
        arrival[i] = begin
        if begin < free:
            begin = free
        start[i] = begin
        finish[i] = free = begin + service[k]
        place[u] = k = k + 1
        again = free + think[k] if k < (u + 1) * rounds else np.inf
        hole, child = 1, 2
        while child <= users:
            a, b = due[child], due[child + 1]
            child += int((b < a) | ((b == a) & (user[child + 1] < user[child])))  # a sum: see _heapreplace
            if due[child] > again or (due[child] == again and user[child] > u):
                break
            due[hole], user[hole] = due[child], user[child]
            hole, child = child, 2 * child
        due[hole], user[hole] = again, u


# What is compiled in place of what Python runs: numba has no bisect_right, and a slower heapreplace; and for
# many users a heap of tuples is slow.
COMPILED_INSTEAD = {
    "bisect_right": _bisect_right,
    "heapreplace": _heapreplace,
    "closed_loop": _closed_loop,
}
