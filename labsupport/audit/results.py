"""Checks of the results: are failures counted, are there enough values, which definition was used, were they repeated?"""

import numpy as np

from labsupport.audit.finding import BROKEN, DOUBTFUL, HOLDS, UNKNOWN, Finding
from labsupport.audit.load import graded, worst
from labsupport.queueing.intervals import quantile, smallest_n_for_quantile
from labsupport.queueing.series import integrated_autocorrelation_time
from labsupport.queueing.slo import attainment, meets

MANY, FEW = 100, 30  # independent values for a mean that can be trusted, and for one that can't


def label(p):
    """P99 for 0.99."""
    return f"P{100 * p:.6g}"


def failures(run):
    """Failures and cut-offs counted as infinite: which percentiles are left?"""
    title = "Are failed and cut-off requests counted as misses?"
    log, claims, lesson = run.log, run.claims, "06_goodput"
    known = log is not None or (run.record.summary is not None and run.record.summary.ok is not None)
    if not known and claims.failed is None:
        reason = (
            "The file does not say how many requests failed. Percentiles of the survivors look better than they are; "
            "ask the tool for the failures."
        )
        return Finding("failures", title, UNKNOWN, {}, reason, lesson)
    if log is not None:
        ok, held = run.ok, len(log)
    elif known:
        ok, held = run.record.summary.ok, len(run.record.summary.ok)
    else:
        ok, held = None, claims.requests
    failed = int((~ok).sum()) if known else claims.failed
    numbers = {"requests": held, "failed or cut off": failed}
    missing = 0
    if claims.requests and known and claims.requests > held and run.record.tool != "CSV":
        missing = claims.requests - held
        numbers["sent but not in the file"] = missing
    total = (held or 0) + missing
    share = (failed + missing) / total if total else 0.0
    quantity, p = run.top
    numbers["failed or missing (%)"] = 100 * share
    seconds = claims.duration_s
    if log is not None and seconds is None and np.isfinite(log.finish).any():
        seconds = float(log.finish[np.isfinite(log.finish)].max() - log.arrival[0])
    good = total - failed - missing
    if seconds:
        numbers["good answers per second (1/s)"] = good / seconds
    if log is not None and failed and good:
        ends = log.response[np.isfinite(log.response)]
        middle = float(np.median(run.response))
        numbers["median of the good ones (s)"] = middle
        numbers["median of all that ended (s)"] = float(np.median(ends))
        numbers["quantile of all at which the good ones' median lies"] = float((ends <= middle).mean())
        alive = np.where(ok, log.response, np.inf)
        numbers[f"{label(p)} of the survivors (s)"] = float(np.quantile(run.response, p))
        numbers[f"{label(p)}, failures infinite (s)"] = quantile(alive, p).value
    elif log is None and failed and good > 0:
        numbers["quantile of all at which the good ones' median lies, if failures are quicker"] = (
            failed + good / 2
        ) / total
    piled = 0.0
    if run.response is not None:
        piled = _pile(run.response)
    if piled:
        numbers["answers that end together at the longest time (%)"] = 100 * piled
    verdict = worst(graded(share, 0.1 * (1 - p), 1 - p - 1e-6), graded(piled, 0.002, 0.01))
    if verdict == HOLDS:
        reason = (
            f"{100 * share:.2g}% of the requests failed, too few to move {label(p)}. It may be quoted as a percentile of "
            "all requests."
        )
    elif share > 0.1 * (1 - p):
        infinite = "infinite" if share > 1 - p else "higher than printed"
        reason = (
            f"{100 * share:.3g}% of the requests failed or are missing, so {label(p)} of all requests is {infinite}. "
            "Percentiles of survivors improve as more requests fail; count failures as misses."
        )
    else:
        reason = (
            f"{100 * piled:.2g}% of the answers end at the same longest time, as a time-out makes them. Their true times "
            "are longer, and they should count as failed."
        )
    return Finding("failures", title, verdict, numbers, reason, lesson)


def _pile(response):
    """Share of the response times within 0.5% of the longest, where that is far from the others; else 0."""
    values = response[np.isfinite(response)]
    if len(values) < 20 or values.max() < 1.2 * np.median(values):
        return 0.0
    near = values >= values.max() * 0.995
    return float(near.mean()) if near.sum() >= 5 else 0.0


def quantile_size(run):
    """Enough requests for the percentiles that are claimed, with their intervals."""
    title = "Are there enough requests for the percentiles that are claimed?"
    lesson = "09_sample_size"
    quantity, p = run.top
    values = None
    if run.log is not None or run.response is not None:
        values = _values(run, quantity)
    n = len(values) if values is not None else run.sent
    if not n:
        reason = "The number of requests is not in the file. Without it no percentile can be judged."
        return Finding("quantile_size", title, UNKNOWN, {}, reason, lesson)
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
            "see the next check."
        )
    return Finding("quantile_size", title, verdict, numbers, reason, lesson)


def _values(run, quantity):
    """The quantity's values in s of the successes, or their response times where it is not recorded."""
    if run.log is not None:
        if quantity == "ttft" and run.log.first_token is not None:
            return run.log.ttft[run.ok]
        if quantity == "tpot" and run.log.first_token is not None and run.log.output_tokens is not None:
            values = run.log.tpot[run.ok]
            return values[~np.isnan(values)] if not np.isnan(values).all() else run.response
        return run.response if len(run.response) else None
    summary = run.record.summary
    values = summary.durations.get(quantity, run.response)
    values = values[summary.ok] if summary.ok is not None and len(values) == len(summary.ok) else values
    values = values[~np.isnan(values)]
    return values if len(values) else None


def dependence(run):
    """Autocorrelation: how many independent values are the requests worth?"""
    title = "How many independent values are the requests worth?"
    lesson = "09_sample_size"
    values = None if run.log is None else run.response[np.isfinite(run.response)]
    if values is None or len(values) < 100 or values.max() <= values.min():
        reason = (
            "Fewer than 100 response times of different length have an order. Their dependence cannot be estimated; "
            "repeat the run and compare the runs instead."
        )
        return Finding("dependence", title, UNKNOWN, {}, reason, lesson)
    steps = integrated_autocorrelation_time(values)
    worth = len(values) / steps
    numbers = {"requests": len(values), "requests per independent one": steps, "effective sample": worth}
    verdict = HOLDS if worth >= MANY else DOUBTFUL if worth >= FEW else BROKEN
    start = f"{len(values)} requests are worth about {worth:.3g} independent ones for the mean."
    if verdict == HOLDS:
        reason = f"{start} Intervals should still be made from batches or from repeated runs."
    else:
        reason = f"{start} Intervals that take them as independent are far too short: run longer or repeat."
    return Finding("dependence", title, verdict, numbers, reason, lesson)


def goodput(run):
    """Goodput and attainment under the definitions of different tools, side by side."""
    title = "What are goodput and attainment, by each tool's definition?"
    log, claims, slo, lesson = run.log, run.claims, run.slo, "06_goodput"
    if claims.goodput is not None and claims.rate:
        numbers = {"goodput that is claimed (1/s)": claims.goodput}
        numbers["claimed goodput over throughput (attainment of the survivors)"] = (
            claims.goodput / claims.rate
        )
        if claims.requests and claims.failed is not None:
            kept = claims.goodput / claims.rate * (claims.requests - claims.failed) / claims.requests
            numbers["the same over all that were sent"] = kept
    else:
        numbers = {}
    if claims.attainment is not None:
        numbers["attainment that is claimed"] = claims.attainment
    usable = {name: limit for name, limit in slo.items() if log is not None and _has(log, name)}
    if not usable:
        reason = (
            "No SLO is given, or the file has no records to judge it by. Attainment cannot be counted; name the limits "
            "(--slo ttft=0.5)."
        )
        return Finding("goodput", title, UNKNOWN, numbers, reason, lesson)
    kept = meets(log, usable)
    end = np.isfinite(log.finish)
    seconds = claims.duration_s or float(
        (log.finish[end].max() if end.any() else log.arrival[-1]) - log.arrival[0]
    )
    main = attainment(log, usable)
    share = main.value
    shares = {"of all sent, failures as misses (SGLang)": share}
    if run.ok.any():
        shares["of the survivors only"] = float(kept[run.ok].mean())
    if log.intended is not None and {"response", "ttft"} & set(usable):
        early = kept.copy()
        if "response" in usable:
            early &= log.finish - log.intended <= usable["response"]
        if "ttft" in usable:
            early &= log.first_token - log.intended <= usable["ttft"]
        shares["of all sent, clock from the intended send"] = float(early.mean())
    if "tpot" in usable and log.longest_gap is not None:
        shares["of all sent, each gap between tokens within the TPOT limit"] = float(
            (kept & (log.longest_gap <= usable["tpot"])).mean()
        )
    numbers |= {f"attainment {name}": value for name, value in shares.items()}
    numbers["attainment with its interval"] = str(main)
    if seconds > 0:
        numbers["goodput: good ones over the duration (vLLM, AIPerf) (1/s)"] = float(kept.sum()) / seconds
    # Sending as fast as the SLO allows would be another definition; it needs several runs.
    spread = max(shares.values()) - min(shares.values())
    told = claims.attainment
    if told is not None:
        near = min(shares, key=lambda name: abs(shares[name] - told))
        miss = abs(told - share)
        slack = max(
            0.005, 3 * np.sqrt(share * (1 - share) / len(log)) if near == next(iter(shares)) else 0.005
        )
        verdict = HOLDS if miss <= slack else BROKEN
        if verdict == BROKEN:
            how = f"that is the share {near}" if abs(shares[near] - told) < 0.01 else "no definition gives it"
            reason = (
                f"{told:.4g} is claimed, but {share:.4g} of the requests that were sent kept the promise; {how}. Quote "
                "the share of all that were sent."
            )
            return Finding("goodput", title, verdict, numbers, reason, lesson)
    verdict = graded(spread, 0.02, np.inf)
    if verdict == HOLDS:
        reason = f"All definitions give about {share:.4g}. Name the limits with the one that is quoted."
    else:
        reason = (
            f"The definitions differ: from {min(shares.values()):.4g} to {max(shares.values()):.4g}. All are right; they "
            "start the clock at different moments or leave out different requests, so name the one that is quoted."
        )
    return Finding("goodput", title, verdict, numbers, reason, lesson)


def _has(log, name):
    needs = {"ttft": ("first_token",), "tpot": ("first_token", "output_tokens")}.get(name, ())
    return all(getattr(log, column) is not None for column in needs)


def tpot_itl(run):
    """TPOT of requests against the gaps between tokens."""
    title = "Is TPOT a mean over requests, and the gap (ITL) one over tokens?"
    log, claims, lesson = run.log, run.claims, "06_goodput"
    numbers, by_request, by_token = {}, None, None
    if log is not None and log.first_token is not None and log.output_tokens is not None:
        each = log.tpot
        found = run.ok & ~np.isnan(each)
        if found.any():
            by_request = float(each[found].mean())
            decode = log.finish[found] - log.first_token[found]
            by_token = float(decode.sum() / (log.output_tokens[found] - 1).sum())
            numbers |= {"mean TPOT of the records, over requests (s)": by_request}
            numbers["the same, over tokens (s)"] = by_token
    for name, key in (("TPOT", "tpot"), ("ITL", "itl")):
        if key in claims.mean:
            numbers[f"mean {name} that is claimed (s)"] = claims.mean[key]
    tpot, itl = claims.mean.get("tpot"), claims.mean.get("itl")
    if by_request is None and (tpot is None or itl is None):
        reason = (
            "Token counts and moments, or both means, are not in the file. TPOT and ITL cannot be compared; say which "
            "of the two is quoted."
        )
        return Finding("tpot_itl", title, UNKNOWN, numbers, reason, lesson)
    if by_request is not None and tpot is not None and abs(tpot / max(by_request, 1e-300) - 1) > 0.03:
        like = abs(tpot / max(by_token, 1e-300) - 1) < 0.03
        verdict = BROKEN if like or abs(tpot / max(by_request, 1e-300) - 1) > 0.1 else DOUBTFUL
        which = "the mean over tokens, which long answers dominate" if like else "neither mean of the records"
        reason = (
            f"The TPOT that is claimed, {1e3 * tpot:.4g} ms, is {which}. The mean over requests is "
            f"{1e3 * by_request:.4g} ms, and that is what a promise to each request means."
        )
        return Finding("tpot_itl", title, verdict, numbers, reason, lesson)
    if by_token is not None and itl is not None and itl > 1.2 * by_token:
        reason = (
            f"The gaps that are claimed are {itl / by_token:.3g} times the time per token: a chunk of the stream holds "
            "several tokens. ITL then measures chunks; compare TPOT instead."
        )
        return Finding("tpot_itl", title, DOUBTFUL, numbers, reason, lesson)
    a, b = (by_request, by_token) if tpot is None or itl is None else (tpot, itl)
    ratio = a / b if b > 0 else 1.0
    numbers["over requests / over tokens"] = ratio
    if abs(ratio - 1) > 0.1:
        reason = (
            f"{1e3 * a:.4g} ms over requests and {1e3 * b:.4g} ms over tokens are both right: one weighs each request "
            "alike, the other each token. It is no bug; short answers pay more per token, so say which is quoted."
        )
    else:
        reason = f"{1e3 * a:.4g} ms over requests and {1e3 * b:.4g} ms over tokens are close. Quote either by its name."
    return Finding("tpot_itl", title, HOLDS, numbers, reason, lesson)


def repeats(run):
    """Repeated prompts within the run, and the same prompts or seed as in an earlier run: a prefix cache answers."""
    title = "Were prompts repeated, so that a prefix cache could answer?"
    lesson, record = "09_sample_size", run.record
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
        return Finding("repeats", title, UNKNOWN, numbers, reason, lesson)
    verdict = worst(*verdicts)
    if verdict == HOLDS:
        reason = f"{told[0]} A prefix cache has nothing to answer with."
    else:
        rest = "A prefix cache may have answered instead of the model: flush it, or change the seed of the prompts."
        reason = f"{told[verdicts.index(verdict)]} {rest}"
    return Finding("repeats", title, verdict, numbers, reason, lesson)


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


def printed(run):
    """Do the means and percentiles that the tool prints follow from its own records?"""
    title = "Do the printed numbers follow from the records?"
    lesson = "11_benchmark_audit"
    numbers, off = {}, []
    for name in ("response", "ttft", "tpot"):
        if run.log is None and (run.record.summary is None or name not in run.record.summary.durations):
            continue
        if run.log is not None and name != "response" and not _has(run.log, name):
            continue
        values = _values(run, name)
        if values is None or not len(values) or not np.isfinite(values).all():
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
        return Finding("printed", title, UNKNOWN, numbers, reason, lesson)
    most, where = max(off)
    verdict = graded(most, 0.02, 0.1)
    if verdict == HOLDS:
        reason = f"All {len(off)} printed numbers follow from the records within {100 * most:.2g}%. They describe this run."
    else:
        reason = (
            f"The {where} differs by {100 * most:.3g}% from what the records give. The file was cut or edited, or the tool "
            "counts other requests than it saves."
        )
    return Finding("printed", title, verdict, numbers, reason, lesson)
