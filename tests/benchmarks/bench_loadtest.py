"""How well the load generators and the server keep time: run as a script (extra `load`), prints tables.

A null server in a second process is sent Poisson arrivals; one user without think time finds how much a connection
carries; a server with a known service time shows what loopback and Python add to it; closed loops are held against
the interactive response time law R = N/X - Z. With --stalls, five clocks run side by side for 30 s on a server that
stalls three times for 1 s (needs hey and wrk). Exits with 1 when a promise of the course is not kept.

A busy machine spoils all of it: the column `plain` says how late a program was that only sleeps until the same
moments and works for 0.1 ms.
"""

import argparse
import subprocess
import sys
import time

import numpy as np

from labsupport.loadtest import ClosedLoop, Hey, OpenLoop, Wrk, run, serving
from labsupport.queueing.simulate import Stalls
from labsupport.queueing.statistics import backfill
from labsupport.queueing.workload import exponential, poisson

PLAIN = """
import sys, time
due = [float(word) for word in sys.stdin.read().split()]
begin, late = time.monotonic(), []
for moment in due:
    time.sleep(max(0, begin + moment - time.monotonic()))
    late.append(time.monotonic() - begin - moment)
    end = time.monotonic() + 1e-4
    while time.monotonic() < end:
        pass
print(sorted(late)[int(0.99 * len(late))])
"""


def milliseconds(values, *quantiles):
    return " ".join(f"{1e3 * q:8.2f}" for q in np.quantile(values, quantiles))


def open_generator(seconds):
    """Lateness at each rate; whether 99% leave within 3 ms at 1,000/s."""
    print(
        "open, null server  lateness in ms: P50      P99      max   plain P99   response: P50      P99  CPU us/req"
    )
    kept = False
    for rate in (100, 300, 1000, 2000, 4000):
        times = poisson(np.random.default_rng(1), rate, rate * seconds)
        plain = subprocess.Popen(
            [sys.executable, "-c", PLAIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with serving() as url:
            plain.stdin.write(" ".join(map(str, times)))
            plain.stdin.close()
            plain.stdin = None
            used = time.process_time()
            log = run(OpenLoop(url, times), progress=False)
            used = time.process_time() - used
        control = float(plain.communicate()[0])
        late = milliseconds(log.lateness, 0.5, 0.99, 1)
        response = milliseconds(log.response, 0.5, 0.99)
        print(
            f"{rate:10,} /s        {late}    {1e3 * control:8.2f}      {response}    {1e6 * used / len(log):8.0f}"
        )
        kept = kept or (rate == 1000 and log.lateness_p99 < 0.003)
    return kept


def one_connection():
    with serving() as url:
        log = run(ClosedLoop(url, 1, 3.0), progress=False)
    print(f"\none connection, null server: {len(log) / 3:,.0f} /s, response ms P50, P99:", end="")
    print(milliseconds(log.response, 0.5, 0.99))


def service():
    print("\nservice time in ms    response less service: P1      P50      P99")
    for service_s in (0.001, 0.005, 0.02):
        with serving(service_s, concurrency=4) as url:
            log = run(OpenLoop(url, np.arange(200) * 0.025), progress=False)
        print(
            f"{service_s * 1e3:10.0f}                 {milliseconds(log.response - service_s, 0.01, 0.5, 0.99)}"
        )


def closed_generator():
    """R against N/X - Z; whether all agree within 2%."""
    print("\nclosed: users   think s   service s     X /s    R ms    N/X - Z ms   ratio")
    kept = True
    for users, think, service_s in ((1, 0.0, 0.01), (10, 0.05, 0.01), (20, 0.05, 0.005), (50, 0.1, 0.005)):
        with serving(exponential(service_s)) as url:
            log = run(ClosedLoop(url, users, 8.0, think), progress=False)
        begin, end = 0.5, log.arrival[-1] - 0.5
        inside = log.between(begin, end)
        rate = np.count_nonzero((log.finish >= begin) & (log.finish < end)) / (end - begin)
        law = users / rate - think
        measured = (inside.finish - inside.intended).mean()  # a late send is part of the cycle
        kept = kept and abs(measured / law - 1) < 0.02
        print(
            f"{users:13}  {think:8.3f}  {service_s:10.3f} {rate:8.1f} {1e3 * measured:7.2f} {1e3 * law:13.2f} "
            f"{measured / law:7.3f}"
        )
    return kept


def five_clocks(seconds):
    """P99 of five clocks on one server with three stalls; whether claim C5 holds."""
    intended = np.sort(np.random.default_rng(8).uniform(0, seconds, 100 * seconds))
    with serving(0.001, concurrency=4, stalls=Stalls(1.0, seconds / 3)) as url:
        loads = OpenLoop(url, intended), ClosedLoop(url, 1, seconds), Hey(url, seconds), Wrk(url, seconds)
        users, tool, hey, wrk = run(*loads, progress=False)
    p99 = {
        "open, from the intended send": np.quantile(users.response_from_intended, 0.99),
        "closed, from the actual send": np.quantile(tool.response, 0.99),
        "closed, corrected": np.quantile(backfill(tool.response, seconds / len(tool)), 0.99),
        "hey": hey.p99,
        "wrk": wrk.p99,
    }
    print(f"\nthree stalls of 1 s in {seconds} s: P99 in ms")
    for clock, value in p99.items():
        print(f"  {clock:30} {1e3 * value:8.1f}")
    users, closed, corrected, *_ = p99.values()
    return closed < 0.02 and users > 0.5 and abs(corrected / users - 1) < 0.25


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stalls", action="store_true", help="also the five clocks, for 30 s")
    parser.add_argument("--seconds", type=int, default=5, help="length of each open run")
    arguments = parser.parse_args()
    promises = {"99% within 3 ms of intention at 1,000/s": open_generator(arguments.seconds)}
    one_connection()
    service()
    promises["R = N/X - Z within 2%"] = closed_generator()
    if arguments.stalls:
        promises["claim C5"] = five_clocks(30)
    print()
    for promise, kept in promises.items():
        print(f"{'kept' if kept else 'NOT KEPT':9} {promise}")
    return int(not all(promises.values()))


if __name__ == "__main__":
    sys.exit(main())
