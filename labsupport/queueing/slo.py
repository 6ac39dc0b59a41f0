"""Was the promise kept: SLO attainment, goodput, and the largest rate that still keeps it."""

import math
from collections.abc import Mapping

import numpy as np

from labsupport.queueing._checks import as_share
from labsupport.queueing.intervals import Estimate, mean_replications
from labsupport.queueing.requestlog import RequestLog

QUANTITIES = ("response", "wait", "ttft", "tpot")


def meets(log, slo):
    """Which requests kept the promise, as a bool array.

    log  a RequestLog, or latencies in s (inf or NaN for a failed request)
    slo  the largest response time in s, or limits by name, all of which must hold:
         {"ttft": 0.5, "tpot": 0.05}; names are response, wait, ttft and tpot

    A request that failed (`ok` is False) kept nothing, however quickly it failed. A request of one output
    token has no TPOT and cannot break a promise on it.
    """
    if not isinstance(log, RequestLog):
        if isinstance(slo, Mapping):
            raise TypeError("slo names quantities, which only a RequestLog has; give one number in seconds.")
        latencies = np.asarray(log, dtype=np.float64)
        return np.isfinite(latencies) & (latencies <= _limit("slo", slo))
    limits = slo if isinstance(slo, Mapping) else {"response": slo}
    if unknown := sorted(set(limits) - set(QUANTITIES)):
        raise ValueError(f"slo names {unknown[0]!r}; choose from {', '.join(QUANTITIES)}.")
    kept = np.ones(len(log), dtype=bool) if log.ok is None else log.ok.copy()
    for name, limit in limits.items():
        values = getattr(log, name)
        kept &= (values <= _limit(f"slo for {name}", limit)) | (np.isnan(values) & (name == "tpot"))
    return kept


def attainment(log, slo, confidence=0.95, method="wilson"):
    """SLO attainment: the share of all requests, failures included, that kept the promise of `meets`.

    method  "wilson" (Wilson, 1927) or "exact" (Clopper and Pearson, 1934)

    The binomial interval takes requests as independent. Those of one queue are not: for them put the
    attainment of several replications into `mean_replications`.
    """
    from scipy.stats import binomtest

    if method not in ("wilson", "exact"):
        raise ValueError(f'method is {method!r}; choose "wilson" or "exact".')
    kept = meets(log, slo)
    if kept.size == 0:
        raise ValueError("log holds no request, so no share of them is defined; give at least one.")
    test = binomtest(int(kept.sum()), kept.size)
    low, high = map(float, test.proportion_ci(as_share("confidence", confidence), method))
    label = "requests, Wilson" if method == "wilson" else "requests, Clopper-Pearson"
    return Estimate(float(kept.mean()), low, high, confidence, label, kept.size)


def goodput_rate(log, slo, t0=None, t1=None, batches=20, confidence=0.95):
    """Goodput (b): requests per second that finish in (t0, t1] having kept the promise of `meets`.

    t0, t1   window in s; by default from the first arrival to the last finish
    slo      as for `meets`; math.inf counts all that succeeded, which is the throughput
    batches  the window is cut into this many equal parts, whose rates give Student's t interval

    Attainment divides by what was offered and so hides how much was served; this does not.
    """
    kept = meets(log, slo)
    finite = log.finish[np.isfinite(log.finish)]
    if len(finite) == 0 and None in (t0, t1):
        raise ValueError("no request of the log finishes; give the window t0, t1 in seconds.")
    # The window is open at its start, where nothing can have been served yet.
    t0 = float(log.arrival[0] if t0 is None else t0)
    t1 = float(finite.max() if t1 is None else t1)
    if not t0 < t1 < math.inf:
        raise ValueError(f"the window from t0={t0!r} to t1={t1!r} has no length; give t0 < t1 in seconds.")
    edges = np.linspace(t0, t1, batches + 1)
    counts = np.diff(np.searchsorted(np.sort(log.finish[kept]), edges, "right"))
    rate = mean_replications(counts / ((t1 - t0) / batches), confidence)
    return Estimate(rate.value, rate.low, rate.high, confidence, "batches of time", batches, rate.reason)


def largest_rate_meeting(measure, target, low, high, rtol=1e-3):
    """Goodput (a): the largest arrival rate at which attainment is still at least `target`, by bisection.

    measure    function of a rate in 1/s that returns the attainment there, an `Estimate` (or a number, and
               then the result has no interval); use the same random numbers at every rate, as in
               `lambda rate: sweep(run, [rate], seeds, executor).at(rate)` of `queueing.sweep`
    target     share of requests that must keep the promise, such as 0.9
    low, high  rates in 1/s between which attainment falls through the target
    rtol       relative precision of the rates

    The interval holds the rates whose own interval contains the target: it runs from where the lower ends
    fall through it to where the upper ends do. Raises ValueError when the answer lies outside [low, high].
    """
    target = as_share("target", target)
    if not 0 < low < high:
        raise ValueError(f"low={low!r} and high={high!r} are no range of rates; give 0 < low < high in 1/s.")
    seen = {}

    def at(rate):
        if rate not in seen:
            found = measure(rate)
            seen[rate] = found if isinstance(found, Estimate) else Estimate(float(found))
        return seen[rate]

    def fails(rate, end):
        return getattr(at(rate), end) < target

    def bracket(end):
        """Neighbouring rates: the first keeps the target, the second doesn't; None where there are none."""
        if fails(low, end) or not fails(high, end):
            return None
        above = min(rate for rate in seen if fails(rate, end))
        below = max(rate for rate in seen if rate < above)  # what was measured before narrows the search
        while above - below > rtol * above:
            middle = (below + above) / 2
            below, above = (below, middle) if fails(middle, end) else (middle, above)
        return below, above

    found = bracket("value")
    if found is None:
        if fails(low, "value"):
            problem, remedy = f"at low={low:g}/s it is only {at(low).value:.4g}", "give a smaller low"
        else:
            problem, remedy = f"at high={high:g}/s it still is {at(high).value:.4g}", "give a larger high"
        raise ValueError(f"attainment crosses target={target:g} outside the range: {problem}; {remedy}.")
    confidence = at(low).confidence
    if any(estimate.low is None for estimate in seen.values()):
        reason = "attainment was measured without intervals"
    else:
        lower, upper = bracket("low"), bracket("high")
        if lower and upper:
            return Estimate(found[0], lower[0], upper[1], confidence, "rates tried", len(seen))
        reason = f"its ends lie outside {low:g} to {high:g}/s; widen that range or measure more precisely"
    return Estimate(found[0], confidence=confidence, method="rates tried", n=len(seen), reason=reason)


def _limit(name, value):
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not value >= 0:
        raise ValueError(f"{name} is {value!r}; give a number of seconds, 0 or more.")
    return value
