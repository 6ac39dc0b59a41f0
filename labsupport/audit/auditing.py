"""All checks of an audit, on a log, a record, or the files of a series of runs."""

from dataclasses import replace

import numpy as np

from labsupport.audit import bookkeeping, evidence, promises, sending
from labsupport.audit.finding import Audit, Run
from labsupport.queueing.requestlog import RequestLog
from labsupport.queueing.slo import QUANTITIES
from labsupport.records.reading import read_all
from labsupport.records.record import Claims, Record

CHECKS = {
    check.__name__: check
    for check in (
        bookkeeping.little,
        bookkeeping.peak,
        sending.offered,
        sending.loop,
        sending.arrivals,
        evidence.stability,
        evidence.warmup,
        promises.failures,
        evidence.quantile_size,
        evidence.dependence,
        promises.goodput,
        promises.tpot_itl,
        evidence.repeats,
        bookkeeping.printed,
    )
}


def audit(log, claims=None, *, slo=None, prompts=None, gauge=None, earlier=()):
    """What may be concluded from a benchmark: an `Audit` of one `Finding` per check.

    log      a RequestLog, or a Record from `labsupport.records.read`
    claims   what the tool printed, as `labsupport.records.Claims`; a Record brings its own
    slo      limits in s, such as {"ttft": 0.5, "tpot": 0.05}, or one number for the response time; by default those
             of the claims
    prompts  one number per request, equal for equal prompts; gauge: an engine's samples (`records.traces.Gauge`)
    earlier  Records of runs before this one, to find repeated prompts
    """
    record = log if isinstance(log, Record) else None
    if record is None:
        if not isinstance(log, RequestLog):
            raise TypeError(
                f"log is a {type(log).__name__}; give a RequestLog, or a Record from records.read."
            )
        record = Record("log", log)
    given = {"claims": claims, "prompts": prompts, "gauge": gauge}
    record = replace(record, **{name: value for name, value in given.items() if value is not None})
    if not isinstance(record.claims, Claims):
        raise TypeError(f"claims is a {type(record.claims).__name__}; give labsupport.records.Claims(...).")
    if record.log is not None and record.prompts is not None and len(record.prompts) != len(record.log):
        raise ValueError(
            f"prompts has {len(record.prompts)} values but the log {len(record.log)} requests; give one for each."
        )
    run = Run(record, _limits(record.claims.slo if slo is None else slo), tuple(earlier))
    with np.errstate(all="ignore"):  # a tool may claim 1e308; what comes of it is shown as inf
        return Audit(record, tuple(check(run) for check in CHECKS.values()), run.slo)


def audit_records(records, slo=None):
    """Audits of a series of runs in order: each is compared with those before; a gauge joins the log it overlaps."""
    gauges = [record for record in records if record.gauge is not None]
    audits, earlier = [], []
    for record in records:
        if record.gauge is not None and len(gauges) < len(records):
            continue
        for other in gauges:
            if record.log is not None and (joined := _on_clock(record, other.gauge)) is not None:
                record = replace(record, gauge=joined)
        audits.append(audit(record, slo=slo, earlier=earlier))
        earlier.append(record)
    return audits


def audit_files(paths, slo=None):
    """Audits of result files, as `audit_records`; raises as `labsupport.records.read` does."""
    return audit_records([record for path in paths for record in read_all(path)], slo)


def _on_clock(record, gauge):
    """The gauge on the log's clock, or None where the two do not overlap."""
    time = gauge.time - record.zero
    last = record.log.finish.max(initial=0.0)
    if not len(time) or time[-1] < 0 or time[0] > last:
        return None
    return replace(gauge, time=time)


def _limits(slo):
    limits = {"response": slo} if isinstance(slo, (int, float)) else dict(slo or {})
    for name, limit in limits.items():
        if name not in QUANTITIES:
            raise ValueError(f"slo names {name!r}; choose from {', '.join(QUANTITIES)}.")
        if not isinstance(limit, (int, float)) or not limit > 0:
            raise ValueError(f"slo for {name} is {limit!r}; give a number of seconds above 0.")
    return limits
