"""Are failures counted, and by which definition are goodput and time per token meant?"""

import numpy as np

from labsupport.audit.finding import BROKEN, DOUBTFUL, HOLDS, UNKNOWN, check, graded, label, worst
from labsupport.queueing.intervals import quantile
from labsupport.queueing.slo import attainment, meets


@check("Are failed and cut-off requests counted as misses?", "06_goodput")
def failures(run):
    """Failures and cut-offs counted as infinite: which percentiles are left?"""
    log, claims = run.log, run.claims
    known = log is not None or (run.record.summary is not None and run.record.summary.ok is not None)
    if not known and claims.failed is None:
        reason = (
            "The file does not say how many requests failed. Percentiles of the survivors look better than they are; "
            "ask the tool for the failures."
        )
        return UNKNOWN, {}, reason
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
    if held is None:
        reason = (
            "The number of requests is not in the file, so failures have no share. Percentiles of the survivors look "
            "better than they are; ask the tool for both."
        )
        return UNKNOWN, {"failed or cut off": failed}, reason
    total = held + missing
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
    return verdict, numbers, reason


def _pile(response):
    """Share of the response times within 0.5% of the longest, where they stand apart from those just below; else 0."""
    values = response[np.isfinite(response)]
    if len(values) < 20 or values.max() < 1.2 * np.median(values):
        return 0.0
    near, below = (int((values >= values.max() * least).sum()) for least in (0.995, 0.99))
    # A run that ends in a burst has answers close to the longest, too, but as many a little below.
    return near / len(values) if near >= 5 and near > 4 * (below - near) else 0.0


@check("What are goodput and attainment, by each tool's definition?", "06_goodput")
def goodput(run):
    """Goodput and attainment under the definitions of different tools, side by side."""
    log, claims, slo = run.log, run.claims, run.slo
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
    usable = {name: limit for name, limit in slo.items() if run.has(name)}
    if not usable:
        reason = (
            "No SLO is given, or the file has no records to judge it by. Attainment cannot be counted; name the limits "
            "(--slo ttft=0.5)."
        )
        return UNKNOWN, numbers, reason
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
            return verdict, numbers, reason
    verdict = graded(spread, 0.02, np.inf)
    if verdict == HOLDS:
        reason = f"All definitions give about {share:.4g}. Name the limits with the one that is quoted."
    else:
        reason = (
            f"The definitions differ: from {min(shares.values()):.4g} to {max(shares.values()):.4g}. All are right; they "
            "start the clock at different moments or leave out different requests, so name the one that is quoted."
        )
    return verdict, numbers, reason


@check("Is TPOT a mean over requests, and the gap (ITL) one over tokens?", "06_goodput")
def tpot_itl(run):
    """TPOT of requests against the gaps between tokens."""
    log, claims = run.log, run.claims
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
        return UNKNOWN, numbers, reason
    if by_request is not None and tpot is not None and abs(tpot / max(by_request, 1e-300) - 1) > 0.03:
        like = abs(tpot / max(by_token, 1e-300) - 1) < 0.03
        verdict = BROKEN if like or abs(tpot / max(by_request, 1e-300) - 1) > 0.1 else DOUBTFUL
        which = "the mean over tokens, which long answers dominate" if like else "neither mean of the records"
        reason = (
            f"The TPOT that is claimed, {1e3 * tpot:.4g} ms, is {which}. The mean over requests is "
            f"{1e3 * by_request:.4g} ms, and that is what a promise to each request means."
        )
        return verdict, numbers, reason
    if by_token is not None and itl is not None and itl > 1.2 * by_token:
        reason = (
            f"The gaps that are claimed are {itl / by_token:.3g} times the time per token: a chunk of the stream holds "
            "several tokens. ITL then measures chunks; compare TPOT instead."
        )
        return DOUBTFUL, numbers, reason
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
    return HOLDS, numbers, reason
