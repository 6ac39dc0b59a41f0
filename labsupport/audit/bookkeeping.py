"""Does what the tool prints fit together, and does it fit its records?"""

import numpy as np

from labsupport.audit.finding import (
    AGREE,
    BROKEN,
    DISAGREE,
    DOUBTFUL,
    HOLDS,
    UNKNOWN,
    check,
    graded,
    label,
)
from labsupport.queueing.series import peak_in_system, time_average_in_system, time_weighted_mean


@check("Do throughput, latency and concurrency fit together (L = X·W)?", "01_little")
def little(run):
    """L = X W: what the tool prints, what the records say and what a gauge or the tool's own count says agree."""
    log, claims = run.log, run.claims
    numbers, references = {}, {}
    if log is not None:
        done = np.isfinite(log.finish)
        if done.any() and log.finish[done].max() > log.arrival[0]:
            end = float(log.finish[done].max())
            inside = float(log.response[done].sum() / (end - log.arrival[0]))
            numbers["λ·W of the records"] = inside
            if done.all():
                numbers["L of the records, as an area"] = time_average_in_system(log, t1=end)
            references["the records"] = inside
    if (gauge := run.record.gauge) is not None and len(gauge.time) > 1:
        numbers["L of the gauge, running and waiting, by time"] = time_weighted_mean(
            gauge.time, gauge.running + gauge.waiting
        )
        numbers["L of the gauge, running only, by time"] = time_weighted_mean(gauge.time, gauge.running)
        numbers["plain mean of the gauge's samples (not L)"] = float(gauge.running.mean())
    if claims.inside is not None:
        references["the tool's own mean concurrency"] = claims.inside
    if claims.users is not None and not references:
        references["the number of users"] = claims.users
    if claims.rate is not None and "response" in claims.mean:
        product = claims.rate * claims.mean["response"]
        numbers |= {"X (1/s)": claims.rate, "W (s)": claims.mean["response"], "X·W": product}
        if (gauged := numbers.get("L of the gauge, running and waiting, by time")) is not None:
            references["the engine's gauge"] = gauged
    elif "L of the gauge, running and waiting, by time" in numbers and references:
        product = numbers["L of the gauge, running and waiting, by time"]
    elif "L of the records, as an area" in numbers:
        reason = (
            "Counted as an area and as rate times mean response time, the records give the same L. The tool prints "
            "nothing to compare it with, so this says only that the records are complete."
        )
        return HOLDS, numbers, reason
    else:
        reason = (
            "Throughput and mean response time are not both known. Without them nothing can be compared; ask the tool "
            "for both."
        )
        return UNKNOWN, numbers, reason
    if claims.cap is not None and product > claims.cap * (1 + AGREE):
        numbers["cap"] = claims.cap
        reason = (
            f"X·W is {product:.4g}, but at most {claims.cap:g} requests were allowed in flight. Rate or response time "
            "must be wrong."
        )
        return BROKEN, numbers, reason
    if not references:
        reason = (
            f"X·W says that {product:.4g} requests were in flight on average. The tool gives no count to compare "
            "it with; it is a result, not a test."
        )
        return UNKNOWN, numbers, reason
    name, reference = min(references.items(), key=lambda item: -abs(product / max(item[1], 1e-300) - 1))
    numbers[f"L by {name}"] = reference
    if name == "the number of users" and "response" in claims.mean and claims.mean["response"] > 0:
        numbers["throughput that these users would make (1/s)"] = reference / claims.mean["response"]
    # A client that needs time between answer and next request lowers X·W: that makes no counter wrong.
    slack = 0.25 if name == "the number of users" and product < reference else DISAGREE
    verdict = graded(abs(product / reference - 1) if reference > 0 else np.inf, AGREE, slack)
    if verdict == HOLDS:
        reason = f"{product:.4g} in flight by one count and {reference:.4g} by {name}: they agree. The counters fit."
    else:
        reason = (
            f"One count gives {product:.4g} requests in flight, another ({name}) {reference:.4g}. Either a counter or a "
            "clock is wrong, or time is spent where the tool does not look: in the client, or between requests."
        )
    return verdict, numbers, reason


@check("Is the reported peak concurrency a real one?", "01_little")
def peak(run):
    """Exact peak concurrency against the one that is reported."""
    log, claims = run.ended, run.claims
    numbers, exact = {}, None
    if log is not None:
        exact = peak_in_system(log)
        numbers["exact peak"] = exact
        if (bins := seconds_peak(log)) is not None:
            numbers["peak by bins of one second"] = bins
    if claims.rate is not None and "response" in claims.mean:
        numbers["L = X·W"] = claims.rate * claims.mean["response"]
    if claims.cap is not None:
        numbers["cap"] = claims.cap
    if claims.peak is None:
        reason = "The tool reports no peak. What the records give is exact and may be quoted."
        if exact is None:
            reason = "Neither the tool nor the file tells a peak. Nothing can be compared."
        return UNKNOWN, numbers, reason
    numbers["reported peak"] = claims.peak
    bound = min((x for x in (exact, claims.cap) if x is not None), default=None)
    if bound is None:
        reason = (
            "There are no moments and no cap to compare the reported peak with. It may be counted in bins."
        )
        return UNKNOWN, numbers, reason
    if claims.peak > bound:
        verdict = BROKEN if claims.peak > bound * (1 + AGREE) + 1 or bound == claims.cap else DOUBTFUL
        reason = (
            f"The tool reports {claims.peak:g}, but never more than {bound:g} were in flight. It counts all requests "
            "that touch the same second, one after the other included."
        )
    elif exact is not None and claims.peak < exact * (1 - DISAGREE):
        verdict = DOUBTFUL
        reason = f"The tool reports {claims.peak:g}, the records {exact}. It leaves requests out, probably failures."
    elif exact is None:
        verdict = UNKNOWN
        reason = "The reported peak lies below the cap. Without moments it cannot be counted again."
    else:
        verdict, reason = (
            HOLDS,
            "Counted event by event, the peak is what the tool reports. It may be quoted.",
        )
    return verdict, numbers, reason


def seconds_peak(log):
    """Peak concurrency as tools count it who put requests into bins of a second: an upper bound, often far off."""
    done = np.isfinite(log.finish)
    if not done.any():
        return None
    first = np.floor(log.arrival[done] - log.arrival[0])
    last = np.maximum(np.ceil(log.finish[done] - log.arrival[0]), first + 1)
    seconds, where = np.unique(np.append(first, last), return_inverse=True)
    begun, over = (np.bincount(part, minlength=len(seconds)) for part in np.split(where, 2))
    return int(np.cumsum(begun - over).max())


@check("Do the printed numbers follow from the records?", "11_benchmark_audit")
def printed(run):
    """Do the means and percentiles that the tool prints follow from its own records?"""
    numbers, off = {}, []
    for name in ("response", "ttft", "tpot"):
        if run.log is None and (run.record.summary is None or name not in run.record.summary.durations):
            continue
        if run.log is not None and not run.has(name):
            continue
        values = run.values(name)
        if values is None or not np.isfinite(values).all():
            continue
        pairs = [("mean", run.claims.mean.get(name), float(values.mean()))]
        pairs += [
            (label(p), told, float(np.quantile(values, p)))
            for (quantity, p), told in sorted(run.claims.quantiles.items())
            if quantity == name
        ]
        for what, told, own in pairs:
            if told is not None:
                numbers[f"{what} of {name}, printed and recomputed (s)"] = f"{told:.4g} and {own:.4g}"
                off.append((abs(told / own - 1) if own else abs(told), f"{what} of {name}"))
    if not off:
        reason = "The tool prints no number that its records could be compared with. Nothing can be recomputed; keep both."
        return UNKNOWN, numbers, reason
    most, where = max(off)
    verdict = graded(most, 0.02, 0.1)
    if verdict == HOLDS:
        reason = f"All {len(off)} printed numbers follow from the records within {100 * most:.2g}%. They describe this run."
    else:
        reason = (
            f"The {where} differs by {100 * most:.3g}% from what the records give. The file was cut or edited, or the tool "
            "counts other requests than it saves."
        )
    return verdict, numbers, reason
