"""Runs with one known flaw each, and clean ones, made with the course's own simulators.

Lesson 11 shows them, its exercises use some, and the tests of the audit must find every flaw. A generator takes a
numpy Generator and the number of requests, and returns a `Record`.
"""

from dataclasses import fields, replace

import numpy as np

from labsupport.audit.bookkeeping import seconds_peak
from labsupport.audit.finding import ended
from labsupport.queueing import simulate, workload
from labsupport.queueing.requestlog import RequestLog
from labsupport.queueing.slo import attainment
from labsupport.queueing.statistics import peak_in_system
from labsupport.records import Claims, Record


def columns(log):
    return {f.name: c for f in fields(log) if (c := getattr(log, f.name)) is not None}


def described(log, rate, slo_share=0.95, **more):
    """The record of a log with the claims that an honest tool would print."""
    ok = np.ones(len(log), bool) if log.ok is None else log.ok
    good = log.response[ok]
    seconds = float(log.finish[np.isfinite(log.finish)].max() - log.arrival[0])
    slo = {"ttft": float(np.quantile(log.ttft[ok], slo_share))}
    claims = Claims(
        requests=len(log),
        failed=int((~ok).sum()),
        duration_s=seconds,
        rate=len(good) / seconds,
        offered_rate=rate,
        burstiness=1.0,
        scv=1.0,
        mean={
            "response": float(good.mean()),
            "ttft": float(log.ttft[ok].mean()),
            "tpot": float(np.nanmean(log.tpot[ok])),
        },
        quantiles={("response", p): float(np.quantile(good, p)) for p in (0.5, 0.95, 0.99)},
        peak=peak_in_system(ended(log)),
        slo=slo,
        attainment=attainment(log, slo).value,
    )
    return Record("made", log, claims=replace(claims, **more), prompts=np.arange(len(log)), name="made")


def with_tokens(rng, log, intended=None):
    """The log with a first token after a fifth of the service, token counts and, if wanted, a schedule."""
    given = {} if intended is None else {"intended": intended}
    tokens = {
        "prompt_tokens": rng.integers(1, 4000, len(log)),
        "output_tokens": 1 + rng.geometric(1 / 60, len(log)),
    }
    first = log.start + 0.2 * (log.finish - log.start)
    return RequestLog(**columns(log) | given | tokens, first_token=first)


def system(rng):
    """(rate, service law, servers) of a stable system at 30 to 80% utilisation."""
    rate, servers = rng.uniform(1, 50), int(rng.integers(1, 9))
    law = workload.gamma(servers * rng.uniform(0.3, 0.8) / rate, rng.choice([0.25, 1.0, 1.5]))
    return rate, law, servers


def open_run(rng, n, arrival=None, punctual=True, at=None):
    """An open run: Poisson arrivals, or those given as a function of the rate, into a stable system."""
    rate, law, servers = system(rng) if at is None else at
    arrival = workload.poisson(rng, rate, n) if arrival is None else arrival(rate)
    log = simulate.fcfs_servers(arrival, law.sample(rng, n), servers)
    late = rng.exponential(1e-4, n) if punctual else None
    return with_tokens(rng, log, None if late is None else np.maximum(arrival - late, 0)), rate


def clean(rng, n=20_000):
    """No flaw: what is sent at the scheduled moment, and half of the time a file without the schedule."""
    log, rate = open_run(rng, n, punctual=bool(rng.random() < 0.5))
    return described(log, rate)


def wrong_mean(rng, n=2000):
    """The mean response time leaves a part out."""
    log, rate = open_run(rng, n)
    record = described(log, rate)
    mean = record.claims.mean | {"response": record.claims.mean["response"] * rng.uniform(0.4, 0.9)}
    return replace(record, claims=replace(record.claims, mean=mean))


def binned_peak(rng, n=3000):
    """Peak concurrency counted in bins of one second, of requests that are much shorter."""
    log, rate = open_run(rng, n, at=(rng.uniform(20, 80), workload.exponential(rng.uniform(0.005, 0.01)), 1))
    return described(log, rate, peak=seconds_peak(log))


def behind_schedule(rng, n=4000):
    """The generator sleeps an exponential time after each send, which itself takes time."""
    send = rng.uniform(0.06, 0.3)  # of a mean gap

    def arrival(rate):
        return np.cumsum(rng.exponential(1 / rate, n) + send / rate)

    log, rate = open_run(rng, n, arrival, punctual=False)
    return described(log, rate)


def hidden_queue(rng, n=2000):
    """A cap that binds: requests wait in the client, and the clock starts afterwards."""
    cap, rate = int(rng.integers(1, 17)), rng.uniform(1, 50)
    intended = workload.poisson(rng, rate, n)
    service = workload.gamma(cap * rng.uniform(0.85, 1.1) / rate, 0.5).sample(rng, n)
    log = simulate.fcfs_servers(intended, service, cap)
    order = np.argsort(log.start, kind="stable")
    sent = RequestLog(log.start[order], log.start[order], log.finish[order], intended=intended[order])
    return described(with_tokens(rng, sent), rate, cap=cap)


def hidden_queue_untold(rng, n=2000):
    """The same, from a tool that does not save the schedule."""
    record = hidden_queue(rng, n)
    told = columns(record.log)
    del told["intended"]
    return replace(record, log=RequestLog(**told))


def closed(rng, n=2000):
    """Users who send again as soon as they have an answer, said to be an open load."""
    users = int(rng.integers(2, 40))
    rounds = max(n // users, 2)
    service = workload.exponential(0.1).sample(rng, (users, rounds))
    think = np.full((users, rounds), rng.uniform(0, 1e-6))
    log = simulate.closed_loop(think, service)
    schedule = log.arrival if rng.random() < 0.5 else None  # of a user: the moment when the last answer came
    return described(with_tokens(rng, log, schedule), (len(log) - 1) / float(log.arrival[-1]))


def bursty(rng, n=4000):
    """Arrivals with an SCV of 2 to 8 that are said to be Poisson."""
    scv = rng.uniform(2, 8)
    log, rate = open_run(rng, n, lambda rate: workload.renewal(rng, workload.gamma(1 / rate, scv), n))
    return described(log, rate)


def clustered(rng, n=8000):
    """Poisson arrivals whose rate changes: the gaps alone show little, long windows much."""

    def arrival(rate):
        return workload.mmpp(rng, [0.4 * rate, 1.6 * rate], [200 / rate, 200 / rate], n)

    log, rate = open_run(rng, n, arrival)
    return described(log, rate)


def ticks(rng, n=4000):
    """Moments rounded down to a clock whose tick holds several requests."""

    def arrival(rate):
        tick = rng.uniform(0.3, 5) / rate
        return np.floor(workload.poisson(rng, rate, n) / tick) * tick

    log, rate = open_run(rng, n, arrival, punctual=False)
    return described(log, rate)


def replayed(rng, n=4000):
    """A recorded minute of traffic played again and again."""
    times = int(rng.integers(3, 20))
    once = n // times

    def arrival(rate):
        return np.cumsum(np.tile(rng.exponential(1 / rate, once), times))

    log, rate = open_run(rng, once * times, arrival, punctual=False)
    return described(log, rate)


def overloaded(rng, n=None):
    """More is offered than is served."""
    n = int(rng.integers(500, 5000)) if n is None else n
    servers, rate = int(rng.integers(1, 9)), rng.uniform(1, 50)
    law = workload.exponential(servers * rng.uniform(1.15, 2) / rate)
    log, rate = open_run(rng, n, at=(rate, law, servers))
    return described(log, rate)


def overloaded_and_cut(rng, n=None):
    """More is offered than is served, and what is still inside at the end of the sending is cut off."""
    record = overloaded(rng, n)
    log = record.log
    told = columns(log)
    ok = log.finish <= log.arrival[-1]
    never = {name: np.where(ok, told[name], np.inf) for name in ("start", "first_token", "finish")}
    rate = record.claims.offered_rate
    return described(RequestLog(**told | never | {"ok": ok}), rate)


def cold(rng, n=4000):
    """The first requests take several times as long."""
    rate, law, servers = system(rng)
    arrival, service = workload.poisson(rng, rate, n), law.sample(rng, n)
    first = int(n * rng.uniform(0.02, 0.1))
    service[:first] *= rng.uniform(4, 10)
    log = simulate.fcfs_servers(arrival, service, servers)
    return described(with_tokens(rng, log, arrival), rate)


def long_drain(rng, n=1000):
    """A few very long answers after the last send make up most of the run."""
    log, rate = open_run(rng, n)
    told = columns(log)
    finish = told["finish"].copy()
    finish[-5:] = log.arrival[-1] * (1 + rng.uniform(0.4, 2, 5))
    return described(RequestLog(**told | {"finish": finish}), rate)


def survivors(rng, n=4000):
    """Failed requests are left out of the percentiles."""
    log, rate = open_run(rng, n)
    told = columns(log)
    ok = rng.random(len(log)) > rng.uniform(0.015, 0.2)
    finish, first = told["finish"].copy(), told["first_token"].copy()
    finish[~ok] = first[~ok] = np.inf
    return described(RequestLog(**told | {"finish": finish, "first_token": first, "ok": ok}), rate)


def cut_off(rng, n=4000):
    """Answers that took longer than a time-out count as if they had ended then."""
    log, rate = open_run(rng, n, at=(20.0, workload.lognormal(0.04, 16), 1))
    told = columns(log)
    limit = float(np.quantile(log.response, rng.uniform(0.9, 0.985)))
    finish = np.minimum(told["finish"], log.arrival + limit)
    told |= {name: np.minimum(told[name], finish) for name in ("start", "first_token")}
    return described(RequestLog(**told | {"finish": finish}), rate)


def too_few(rng, n=None):
    """A P99 of some dozens of requests."""
    log, rate = open_run(rng, int(rng.integers(10, 360)) if n is None else n)
    return described(log, rate)


def dependent(rng, n=3000):
    """One short run close to saturation."""
    rate = rng.uniform(1, 50)
    log, rate = open_run(rng, n, at=(rate, workload.exponential(rng.uniform(0.96, 0.99) / rate), 1))
    return described(log, rate)


def kind_attainment(rng, n=4000):
    """The attainment that is claimed is that of the survivors."""
    record = survivors(rng, n)
    log = record.log
    kept = log.ttft[log.ok] <= record.claims.slo["ttft"]
    return replace(record, claims=replace(record.claims, attainment=float(kept.mean())))


def mean_over_tokens(rng, n=4000):
    """The TPOT that is claimed is the mean over tokens."""
    log, rate = open_run(rng, n)
    found = ~np.isnan(log.tpot)
    decode = (log.finish - log.first_token)[found].sum()
    record = described(log, rate)
    mean = record.claims.mean | {"tpot": float(decode / (log.output_tokens[found] - 1).sum())}
    return replace(record, claims=replace(record.claims, mean=mean))


def repeated(rng, n=2000):
    """A few prompts, used again and again."""
    record = described(*open_run(rng, n))
    return replace(record, prompts=rng.integers(0, int(rng.integers(5, 1500)), n))


FLAWS = {  # flaw -> the check that must find it
    wrong_mean: "little",
    binned_peak: "peak",
    behind_schedule: "offered",
    hidden_queue: "loop",
    hidden_queue_untold: "loop",
    closed: "loop",
    bursty: "arrivals",
    clustered: "arrivals",
    ticks: "arrivals",
    replayed: "arrivals",
    overloaded: "stability",
    overloaded_and_cut: "stability",
    cold: "warmup",
    long_drain: "warmup",
    survivors: "failures",
    cut_off: "failures",
    too_few: "quantile_size",
    dependent: "dependence",
    kind_attainment: "goodput",
    mean_over_tokens: "tpot_itl",
    repeated: "repeats",
}
