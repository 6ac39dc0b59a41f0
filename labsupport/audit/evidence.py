"""Is there a steady state, and are there enough independent values for what is claimed?"""

import numpy as np

from labsupport.audit.finding import BROKEN, DOUBTFUL, HOLDS, UNKNOWN, check, graded, label, worst
from labsupport.queueing.intervals import quantile, smallest_n_for_quantile
from labsupport.queueing.series import integrated_autocorrelation_time, mser5

MANY, FEW = 100, 30  # independent values for a mean that can be trusted, and for one that can't


@check("Was the system stable, or did it fill up during the run?", "06_goodput")
def stability(run):
    """Growth during the run: does the number inside rise from beginning to end?"""
    log = run.ended
    if log is None or len(log) < 100 or log.arrival[-1] <= log.arrival[0]:
        numbers = {"requests with moments": 0 if log is None else len(log)}
        reason = (
            "Fewer than 100 requests have moments. Growth during the run cannot be told; run longer and keep the "
            "records of each request."
        )
        return UNKNOWN, numbers, reason
    t = np.linspace(log.arrival[0], log.arrival[-1], 2001)[1:]
    parts = log.in_system(t).reshape(10, -1).mean(axis=1)
    rises = np.sign(np.subtract.outer(parts, parts))[np.tril_indices(10, -1)].sum() / 45  # Kendall's tau
    first, last = float(parts[:3].mean()), float(parts[-3:].mean())
    left = int(log.in_system(log.arrival[-1]))
    numbers = {
        "inside, first three tenths": first,
        "inside, last three tenths": last,
        "Kendall's tau of ten parts": rises,
    }
    numbers |= {"inside at the last send": left, "that is, of all (%)": 100 * left / len(log)}
    growth = last / max(first, 1e-9)
    verdict = HOLDS
    if rises >= 0.7 and growth > 1.5 and last - first > 3 * np.sqrt(max(first, 1)):
        verdict = BROKEN
    elif (rises >= 0.6 or left > 0.2 * len(log)) and growth > 1.3 and last - first > 1:
        verdict = DOUBTFUL
    if verdict == HOLDS:
        reason = (
            f"The number inside does not rise steadily: {first:.3g} in the first three tenths, {last:.3g} in the last. "
            "A mean over the run describes the system."
        )
    else:
        reason = (
            f"The number inside rises from {first:.3g} to {last:.3g} and {left} are left when the sending ends. Such a "
            "run has no steady latency: twice the run would give about twice the number."
        )
    return verdict, numbers, reason


@check("How much of the run is warm-up or drain?", "09_sample_size")
def warmup(run):
    """Is the beginning different from the rest, and how much of the run is its drain?"""
    log = run.log
    values = None if run.response is None else run.response[np.isfinite(run.response)]
    if log is None or len(values) < 100:
        reason = (
            "Fewer than 100 requests with moments succeeded. Warm-up and drain cannot be told from the rest; keep the "
            "records of each request."
        )
        return UNKNOWN, {}, reason
    last = float(log.finish[np.isfinite(log.finish)].max())
    drain = max(last - log.arrival[-1], 0) / (last - log.arrival[0])
    cut = mser5(values)
    numbers = {
        "drain (% of the run)": 100 * drain,
        "MSER-5 would cut (requests)": "no steady part" if cut is None else cut,
    }
    high, low = 0.0, np.inf
    later = values[len(values) // 2 :]
    for share in (0.02, 0.05, 0.1, 0.2):
        if (size := int(share * len(values))) < 10:
            continue
        parts = later[: len(later) // size * size].reshape(-1, size).mean(axis=1)
        first = values[:size].mean()
        # Against the slowest (fastest) part of the second half: by chance the first is rarely beyond even that.
        high = max(high, first / max(parts.max(), 1e-300))
        low = min(low, first / max(parts.min(), 1e-300))
    numbers |= {"first part over the slowest later part": high, "first part over the fastest later part": low}
    verdict = worst(
        graded(high, 1.4, 2.5),
        HOLDS if low >= 0.4 and cut is not None else DOUBTFUL,
        graded(drain, 0.2, 0.5),
    )
    if verdict == HOLDS:
        reason = (
            f"The beginning is no slower than later parts, and {100 * drain:.2g}% of the run is drain. Neither changes "
            "the result much."
        )
    elif high > 1.4:
        reason = (
            f"The first requests took {high:.3g} times as long as the slowest later part. They are warm-up (compiling, "
            "filling caches) and should be left out, or run before the clock starts."
        )
    elif low < 0.4:
        reason = (
            "The first requests were far quicker than any later part: the system was still filling. Leave the beginning "
            "out, or run longer."
        )
    elif cut is None:
        reason = (
            "No part of the run looks steady: the beginning still shows in the second half. Leave out more of it, and "
            "run longer."
        )
    else:
        reason = (
            f"{100 * drain:.3g}% of the run passed after the last send, with ever fewer requests inside. A rate over the "
            "whole run is too low; count in the time of sending."
        )
    return verdict, numbers, reason


@check("Are there enough requests for the percentiles that are claimed?", "09_sample_size")
def quantile_size(run):
    """Enough requests for the percentiles that are claimed, with their intervals."""
    quantity, p = run.top
    values = run.values(quantity)
    n = len(values) if values is not None else run.sent
    if not n or (values is None and run.record.trace is not None):
        reason = (
            "How many response times there are is not in the file. Without it no percentile can be judged."
        )
        return UNKNOWN, {}, reason
    needed = smallest_n_for_quantile(p)
    numbers = {"requests": n, f"needed for an interval of {label(p)}": needed}
    numbers[f"chance that the run saw anything above {label(p)} (%)"] = 100 * (1 - p**n)
    verdict = HOLDS if n >= needed else BROKEN
    if values is not None:
        for each in sorted({0.5, p} | {q for name, q in run.claims.quantiles if name == quantity}):
            estimate = quantile(values, each)
            numbers[f"{label(each)} of {quantity} (s)"] = str(estimate)
            if each == p and estimate.low is not None and estimate.value > 0:
                width = estimate.half_width / estimate.value
                verdict = worst(verdict, graded(width, 0.25, np.inf))
    if verdict == BROKEN:
        reason = (
            f"{n} requests are fewer than the {needed} that any interval for {label(p)} needs. The number printed is "
            f"near the longest response seen, and the chance that anything above {label(p)} was seen is "
            f"{100 * (1 - p**n):.3g}%."
        )
    elif verdict == DOUBTFUL:
        reason = (
            f"{n} requests are enough for an interval of {label(p)}, but it is wide. A difference of a quarter could be "
            "chance."
        )
    else:
        reason = (
            f"{n} requests are enough for {label(p)}, which needs {needed}. The interval takes requests as independent; "
            "whether they are is a check of its own."
        )
    return verdict, numbers, reason


@check("How many independent values are the requests worth?", "09_sample_size")
def dependence(run):
    """Autocorrelation: how many independent values are the requests worth?"""
    values = None if run.log is None else run.response[np.isfinite(run.response)]
    if values is None or len(values) < 100 or values.max() <= values.min():
        reason = (
            "Fewer than 100 response times of different length have an order. Their dependence cannot be estimated; "
            "repeat the run and compare the runs instead."
        )
        return UNKNOWN, {}, reason
    steps = integrated_autocorrelation_time(values)
    worth = len(values) / steps
    numbers = {"requests": len(values), "requests per independent one": steps, "effective sample": worth}
    verdict = HOLDS if worth >= MANY else DOUBTFUL if worth >= FEW else BROKEN
    start = f"{len(values)} requests are worth about {worth:.3g} independent ones for the mean."
    if verdict == HOLDS:
        reason = f"{start} Intervals should still be made from batches or from repeated runs."
    else:
        reason = f"{start} Intervals that take them as independent are far too short: run longer or repeat."
    return verdict, numbers, reason


@check("Were prompts repeated, so that a prefix cache could answer?", "09_sample_size")
def repeats(run):
    """Repeated prompts within the run, and the same prompts or seed as in an earlier run: a prefix cache answers."""
    record = run.record
    numbers, verdicts, told = {}, [], []
    if record.prompts is not None and len(record.prompts) > 1:
        share = 1 - len(np.unique(record.prompts)) / len(record.prompts)
        numbers["requests whose prompt came before (%)"] = 100 * share
        verdicts.append(graded(share, 0.01, 0.2))
        told.append(f"{100 * share:.3g}% of the requests repeat a prompt of this run.")
    for other in run.earlier:
        same = _same_prompts(record, other)
        if not same:
            continue
        before, now = _rate(other), _rate(record)
        faster = now / before if before and now else None
        numbers[f"same prompts as {other.name or other.tool}"] = same
        if faster:
            numbers["throughput, as a multiple of that run's"] = faster
        verdicts.append(BROKEN if faster and faster > 1.1 else DOUBTFUL)
        told.append(
            f"This run repeats the prompts of {other.name or 'an earlier run'} ({same})"
            + (f" at {faster:.3g} times its throughput." if faster else ".")
        )
        break
    if not verdicts:
        reason = (
            "The prompts are not in the file, and no earlier run with the same ones was given. Whether a prefix cache "
            "answered is unknown; give all runs of a series together."
        )
        return UNKNOWN, numbers, reason
    verdict = worst(*verdicts)
    if verdict == HOLDS:
        reason = f"{told[0]} A prefix cache has nothing to answer with."
    else:
        rest = "A prefix cache may have answered instead of the model: flush it, or change the seed of the prompts."
        reason = f"{told[verdicts.index(verdict)]} {rest}"
    return verdict, numbers, reason


def _tokens(record):
    if record.log is not None:
        return record.log.prompt_tokens
    return None if record.summary is None else record.summary.tokens.get("prompt")


def _same_prompts(record, other):
    """Why two runs seem to have the same prompts, or "" if they don't."""
    a, b = _tokens(record), _tokens(other)
    if a is not None and b is not None:
        if len(a) == len(b) >= 20 and len(np.unique(a)) > 5 and np.array_equal(np.sort(a), np.sort(b)):
            return "the same prompt lengths"
        return ""
    seed = record.claims.seed
    return f"seed {seed}" if seed is not None and seed == other.claims.seed else ""


def _rate(record):
    if record.claims.rate is not None:
        return record.claims.rate
    log = record.log
    if log is None or not np.isfinite(log.finish).any():
        return None
    seconds = log.finish[np.isfinite(log.finish)].max() - log.arrival[0]
    return float(np.isfinite(log.finish).sum() / seconds) if seconds > 0 else None
