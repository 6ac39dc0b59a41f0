"""The loops inside the simulators, one request (or one batch) at a time.

Each is plain Python that writes into columns made by the caller. `simulate` runs it on lists as it stands, or
compiles the same source with numba and runs it on arrays; so only what both understand is used here. An empty
heap is written [(0.0, 0)][:0] because numba must see the type of its elements.
"""

from bisect import bisect_right
from heapq import heapify, heappop, heappush, heapreplace


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
    """Batch by batch: its start and the index of its first member. Returns the number of batches."""
    n = len(arrival)
    count, i, free = 0, 0, 0.0
    while i < n:
        begin = arrival[i] + timeout
        if i + cap <= n and arrival[i + cap - 1] < begin:
            begin = arrival[i + cap - 1]  # full before the timer rings
        if begin < free:
            begin = free
        start[count] = begin
        first[count] = i
        count += 1
        members = bisect_right(arrival, begin, i, min(i + cap, n)) - i
        free = begin + (fixed + per_item * members)
        i += members
    return count


def closed_loop(
    think, service, schedule, rounds, guest_arrival, guest_service, servers, stalls, stop_with_first,
    order, arrival, start, finish, guest_start, guest_finish,
):  # fmt: skip
    """Users who wait for their answer, and guests who do not, at one queue. Returns the closed requests sent.

    Request k belongs to user k // rounds. `due` holds the moment of everybody's next request.
    """
    total, guests = len(think), len(guest_arrival)
    paced = len(schedule) > 0
    first_stall, stall, period = stalls
    free = [0.0] * servers
    due = [(think[k], k) for k in range(0, total, rounds)]
    if paced:
        due = [(max(t, schedule[k]), k) for t, k in due]
    heapify(due)
    sent = guest = 0
    last_send = float("inf")
    while due or guest < guests:
        if guest < guests and (not due or guest_arrival[guest] <= due[0][0]):
            k = -1
            begin, work = guest_arrival[guest], guest_service[guest]
        else:
            begin, k = due[0]
            work = service[k]
            if begin > last_send:
                due.clear()
                continue
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
            continue
        start[sent] = begin
        finish[sent] = end
        sent += 1
        k += 1
        if k % rounds == 0:
            heappop(due)
            if stop_with_first and end < last_send:
                last_send = end
        else:
            again = end + think[k]
            if paced and again < schedule[k]:
                again = schedule[k]
            heapreplace(due, (again, k))
    return sent


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
