"""How fast the simulators are, as ratios measured in one process: run as a script, prints a table.

One server is measured end to end (draw, simulate, log) against drawing the same random numbers by numpy. Several
servers, closed loops and batches are measured against the same system in SimPy (extra `bench`), both given the
same random numbers beforehand. Both sides run in turns and the best run of each counts. Exits with 1 when a ratio
is below what the course promises.
"""

import os
import sys
import time
from functools import partial
from importlib.util import find_spec

import numpy as np
import simpy

from labsupport.queueing import simulate, workload

N_SIMPY, N_PLAIN, N_COMPILED = 9_600, 100_800, 1_000_800  # requests
# The processor's time is what a busy machine changes least; Windows counts it in steps of 16 ms.
CLOCK = time.perf_counter if sys.platform == "win32" else time.process_time


def seconds_per_request(*pairs, repeats):
    """The best time per request of each (call, number of requests), all measured in turns."""
    best = [float("inf")] * len(pairs)
    for _ in range(repeats):
        for i, (call, n) in enumerate(pairs):
            begin = CLOCK()
            call()
            best[i] = min(best[i], (CLOCK() - begin) / n)
    return best


def plain(call):
    """The call with compiling switched off."""

    def run():
        os.environ["QLAB_NUMBA"] = "0"
        call()
        del os.environ["QLAB_NUMBA"]

    return run


def generator():
    return np.random.default_rng(1)


# --- each system: its random numbers, the simulator here, and the same in SimPy (returns response times) ------


def draw(n):
    rng = generator()
    return rng.standard_exponential(n), rng.standard_exponential(n)


def one_server(n):
    rng = generator()
    return simulate.fcfs(workload.poisson(rng, 0.8, n), rng.standard_exponential(n))


class Pool:
    """Eight servers at one queue, 80% utilised."""

    name, promise = "eight servers", (15, 150)

    def inputs(self, n):
        rng = generator()
        return workload.poisson(rng, 6.4, n), rng.standard_exponential(n)

    def here(self, arrival, service):
        return simulate.fcfs_servers(arrival, service, 8)

    def simpy(self, arrival, service):
        env, response = simpy.Environment(), []
        servers = simpy.Resource(env, 8)

        def request(service):
            arrival = env.now
            with servers.request() as turn:
                yield turn
                yield env.timeout(service)
            response.append(env.now - arrival)

        def source():
            for gap, work in zip(np.diff(arrival, prepend=0).tolist(), service.tolist(), strict=True):
                yield env.timeout(gap)
                env.process(request(work))

        env.process(source())
        env.run()
        return response


class Loop:
    """Users with exponential think times at one server."""

    def __init__(self, users, think_s):
        self.name, self.users, self.think_s = f"closed loop, {users} users", users, think_s
        # SimPy's cost hardly depends on the number of users; that of a heap of users does.
        self.promise = (15 if users <= 12 else 12), 150

    def inputs(self, n):
        rng, shape = generator(), (self.users, n // self.users)
        return self.think_s * rng.standard_exponential(shape), rng.standard_exponential(shape)

    def here(self, think, service):
        return simulate.closed_loop(think, service)

    def simpy(self, think, service):
        env, response = simpy.Environment(), []
        server = simpy.Resource(env, 1)

        def user(pauses, services):
            for pause, work in zip(pauses, services, strict=True):
                yield env.timeout(pause)
                arrival = env.now
                with server.request() as turn:
                    yield turn
                    yield env.timeout(work)
                response.append(env.now - arrival)

        for rows in zip(think.tolist(), service.tolist(), strict=True):
            env.process(user(*rows))
        env.run()
        return response


class Batches:
    """A batching server with 5 + 0.5 b ms and at most 32 at once."""

    promise = 15, 150

    def __init__(self, rate):
        self.name, self.rate = f"batches, {rate} requests/s", rate

    def inputs(self, n):
        return (workload.poisson(generator(), self.rate, n),)

    def here(self, arrival):
        return simulate.dynamic_batches(arrival, 0.005, 0.0005, 32)

    def simpy(self, arrival):
        env, response = simpy.Environment(), []
        waiting = simpy.Store(env)

        def source():
            for gap in np.diff(arrival, prepend=0).tolist():
                yield env.timeout(gap)
                waiting.put(env.now)

        def server():
            while len(response) < len(arrival):
                batch = [(yield waiting.get())]
                while waiting.items and len(batch) < 32:
                    batch.append((yield waiting.get()))
                yield env.timeout(0.005 + 0.0005 * len(batch))
                response.extend(env.now - came for came in batch)

        env.process(source())
        env.process(server())
        env.run()
        return response


SYSTEMS = Pool(), Loop(12, 9.0), Loop(50, 50.0), Batches(100), Batches(1000)


def main():
    below = []

    def row(name, baseline, ours, promise):
        ratio = baseline / ours
        below.extend([name] if ratio < promise else [])
        print(f"{name:<46}{baseline * 1e9:>12.0f}{ours * 1e9:>12.1f}{ratio:>9.2f}{promise:>9.2f}")

    print(f"{'':<46}{'baseline':>12}{'here':>12}{'ratio':>9}{'promise':>9}")
    print(f"{'':<46}{'ns/request':>12}{'ns/request':>12}")
    for n in (N_PLAIN, N_COMPILED):
        pair = (lambda n=n: draw(n), n), (lambda n=n: one_server(n), n)
        row(f"one server, {n} requests, against drawing", *seconds_per_request(*pair, repeats=50), 0.3)
    for system in SYSTEMS:
        few, many, most = (system.inputs(n) for n in (N_SIMPY, N_PLAIN, N_COMPILED))
        # Speeds may only be compared when both simulate the same.
        same = np.sort(system.here(*few).response), np.sort(system.simpy(*few))
        np.testing.assert_allclose(*same, rtol=1e-6, atol=1e-9, err_msg=system.name)
        runs = [(partial(system.simpy, *few), N_SIMPY), (plain(partial(system.here, *many)), N_PLAIN)]
        if find_spec("numba"):
            runs.append((partial(system.here, *most), N_COMPILED))
            system.here(*most)  # compiles
        baseline, *ours = seconds_per_request(*runs, repeats=10)
        names = f"{system.name}, against SimPy", "  compiled"
        for name, seconds, promise in zip(names, ours, system.promise, strict=False):
            row(name, baseline, seconds, promise)
    if not find_spec("numba"):
        print("numba is not installed: nothing was compiled")
    if below:
        print("below the promise:", ", ".join(name.strip() for name in below))
    return bool(below)


if __name__ == "__main__":
    sys.exit(main())
