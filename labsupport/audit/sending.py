"""Who decided when to send, at what rate and in which pattern?"""

import numpy as np

from labsupport.audit.finding import BROKEN, DOUBTFUL, HOLDS, UNKNOWN, check, graded, worst
from labsupport.queueing.series import index_of_dispersion, scv

LATE_S, LATE_SHARE = 0.001, 0.1  # lateness below these matters to nobody: absolute, and of the P99


@check("Was the offered rate really offered, and was it served?", "07_open_closed")
def offered(run):
    """Offered against sent rate, and achieved rate net of the drain at the end."""
    claims, arrival = run.claims, run.arrival
    if arrival is None or len(arrival) < 30 or arrival[-1] <= arrival[0]:
        return _offered_by_claims(run)
    n, span = len(arrival), float(arrival[-1] - arrival[0])
    sent = (n - 1) / span
    numbers = {"sent rate (1/s)": sent}
    if run.log is not None and np.isfinite(run.log.finish).any():
        last = float(run.log.finish[np.isfinite(run.log.finish)].max())
        total = max(last - arrival[0], span)
        numbers |= {"achieved over the whole run (1/s)": int(run.ok.sum()) / total, "drain (s)": total - span}
    asked = claims.offered_rate
    if asked is None and run.log is not None and run.log.intended is not None:
        intended = np.sort(run.log.intended)
        if intended[-1] > intended[0]:
            asked = (n - 1) / float(intended[-1] - intended[0])
    if asked is None:
        reason = (
            "What rate was asked for is not in the file. The sent rate is what the system was offered, by whoever "
            "decided when to send."
        )
        return UNKNOWN, numbers, reason
    numbers["asked rate (1/s)"] = asked
    # The rate of n gaps is itself uncertain; its relative variance is SCV / n, more where arrivals cluster.
    spread = claims.scv
    if spread is None:
        spread = scv(np.diff(arrival))
        spread = max(spread, index_of_dispersion(arrival, span / 20.5)) if n >= 400 else spread
    tolerance = max(0.03, 3 * np.sqrt(max(spread, 0.1) / n))
    short = 1 - sent / asked
    numbers["short of the asked rate (%)"] = 100 * short
    verdict = graded(abs(short), tolerance, max(0.05, 1.5 * tolerance))
    if verdict == HOLDS:
        reason = (
            f"{sent:.4g}/s were sent where {asked:.4g}/s were asked for. What is achieved over the whole run is less "
            "because the last requests drain after the sending ends; that alone is no overload."
        )
    elif short > 0:
        reason = (
            f"{asked:.4g}/s were asked for and {sent:.4g}/s were sent: the generator falls behind its schedule. It "
            "sleeps after each send, is too slow, or waits for a free connection, so the system was spared."
        )
    else:
        reason = f"{sent:.4g}/s were sent, more than the {asked:.4g}/s asked for. The results belong to the higher rate."
    return verdict, numbers, reason


def _offered_by_claims(run):
    claims, n = run.claims, run.sent
    if claims.offered_rate is None or not claims.rate or not n:
        reason = (
            "Offered rate, achieved rate and number of requests are not all known. Nothing can be compared; note the "
            "rate that was asked for with the result."
        )
        return UNKNOWN, {}, reason
    span, total = n / claims.offered_rate, n / claims.rate
    drain = total - span
    numbers = {"offered (1/s)": claims.offered_rate, "achieved (1/s)": claims.rate, "sending (s)": span}
    numbers["drain (s)"] = drain
    slowest = max((v for (name, p), v in claims.quantiles.items() if name == "ttft"), default=None)
    if drain <= 0.1 * total or (slowest is not None and slowest < 0.05 * drain and drain < 0.5 * total):
        reason = (
            f"{n} requests at {claims.offered_rate:.4g}/s take {span:.4g} s to send, and {drain:.3g} s of drain make "
            f"{claims.rate:.4g}/s of it. The last answers explain the difference: it is no overload."
        )
        return HOLDS, numbers, reason, "06_goodput"
    numbers |= {"wait of the last request, were it overload (s)": drain, "mean wait then (s)": drain / 2}
    verdict = BROKEN if drain > 0.5 * total else DOUBTFUL
    reason = (
        f"Sending took {span:.4g} s, but the last answer came {drain:.4g} s later: the system completes less than is "
        "offered. A latency of such a run measures how long it lasted, not the system."
    )
    return verdict, numbers, reason, "06_goodput"


@check("Who decides when the next request is sent (open, closed, capped)?", "07_open_closed")
def loop(run):
    """Open, closed or capped: does the system decide when the next request is sent?"""
    log, claims = run.log, run.claims
    numbers, verdicts, told = {}, [], []
    if claims.dropped:
        share = claims.dropped / (claims.dropped + (run.sent or 0))
        numbers["never sent (%)"] = 100 * share
        verdicts.append(graded(share, 0.001, 0.01))
        told.append(f"{claims.dropped} requests were dropped because no connection was free.")
    if log is not None and log.intended is not None:
        late = log.arrival - log.intended
        p99 = float(np.quantile(late, 0.99))
        seen = run.response[np.isfinite(run.response)]
        scale = float(np.quantile(seen, 0.99)) if len(seen) else 0.0
        numbers |= {"hidden wait, mean (s)": float(late.mean()), "hidden wait, P99 (s)": p99}
        numbers["hidden wait, most (s)"] = float(late.max())
        if len(seen):
            ends = (log.finish - log.intended)[run.ok]
            numbers |= {
                "P99 from the send (s)": scale,
                "P99 from the intended send (s)": float(np.quantile(ends, 0.99)),
            }
        verdicts.append(
            HOLDS if p99 <= LATE_S else graded(p99 / max(scale, 1e-12), LATE_SHARE / 2, LATE_SHARE)
        )
        told.append(
            f"Requests were sent {float(late.mean()) * 1e3:.3g} ms after their moment on average, {p99 * 1e3:.3g} ms at P99."
        )
    elif "client_queue" in claims.mean and claims.mean.get("response"):
        hidden = claims.mean["client_queue"]
        numbers["hidden wait, mean (s)"] = hidden
        verdicts.append(
            HOLDS
            if hidden <= LATE_S
            else graded(hidden / claims.mean["response"], LATE_SHARE / 2, LATE_SHARE)
        )
        told.append(
            f"The tool says that requests waited {hidden * 1e3:.3g} ms on average before they were sent."
        )
    if log is not None and len(run.ended) >= 50:
        verdict, sentence, found = _who_sends(run.ended)
        numbers |= found
        # Beside a schedule only this counts: a closed loop can be punctual too, its schedule follows the answers.
        if log.intended is None or verdict in (DOUBTFUL, BROKEN):
            verdicts.append(verdict)
            told.append(sentence)
    if claims.users is not None and not told:
        verdicts.append(DOUBTFUL)
        told.append(f"{claims.users:g} users each wait for their answer: a closed loop.")
    if claims.cap is not None and claims.rate is not None and "response" in claims.mean and log is None:
        use = claims.rate * claims.mean["response"] / claims.cap
        numbers["use of the cap (%)"] = 100 * use
        verdicts.append(graded(use, 0.8, 0.95) if claims.offered_rate is not None else DOUBTFUL)
        told.append(f"{100 * use:.0f}% of the allowed {claims.cap:g} in flight are in use.")
    if not verdicts:
        reason = (
            "Neither the schedule nor the moments of sending are in the file. Whether requests waited in the client "
            "is unknown; use a tool that records the intended moment."
        )
        return UNKNOWN, numbers, reason
    verdict = worst(*verdicts)
    rest = (
        "The load did not wait for the system, so slow moments are seen in full."
        if verdict == HOLDS
        else "Waiting before the send is not in the latencies: users who come at their own time wait longer than they say."
    )
    told = told[verdicts.index(verdict)]
    return verdict, numbers, f"{told} {rest}"


def _who_sends(log):
    """(verdict, sentence, numbers) from moments alone: do sends follow answers?

    In a closed loop without think time, or behind a cap that binds, a request is sent the moment another returns.
    A send then stands just after a finish. Open arrivals fall anywhere between two finishes.
    """
    finish = np.sort(log.finish[np.isfinite(log.finish)])
    place = np.searchsorted(finish, log.arrival, "right")
    between = (place > 0) & (place < len(finish))
    if between.sum() < 30:
        return UNKNOWN, "Too few requests overlap to tell whether sends follow answers.", {}
    at = place[between]
    gap = finish[at] - finish[at - 1]
    since = log.arrival[between] - finish[at - 1]
    after = since <= np.maximum(0.05 * gap, 1e-9)
    share = float(after.mean())
    inside = log.in_system(log.arrival)[between]  # those who just came included
    full = inside >= inside.max()
    numbers = {
        "sends right after an answer (%)": 100 * share,
        "sends into a full cap (%)": 100 * float(full.mean()),
    }
    if share > 0.5:
        return (
            BROKEN,
            f"{100 * share:.0f}% of the requests are sent right after an answer: a closed loop.",
            numbers,
        )
    if share > 0.15 and full.mean() > 0.1 and after[full].mean() > 0.6:
        sentence = f"{100 * share:.0f}% of the requests are sent right after an answer, at a full cap of {inside.max()}."
        return BROKEN, sentence, numbers
    if share > 0.2:
        return DOUBTFUL, f"{100 * share:.0f}% of the requests are sent right after an answer.", numbers
    slower = _sends_when_busy(log)
    if slower is not None:
        numbers["send rate above the median number inside, over that below"] = slower
        if slower < 0.6:
            return DOUBTFUL, "Fewer requests are sent while more are inside, as users do who wait.", numbers
    return HOLDS, "Sends do not follow answers: an open loop, as far as moments show.", numbers


def _sends_when_busy(log):
    """Rate of sends while more than the median are inside over the rate while fewer are; None if regular or few.

    Poisson arrivals see time averages, so the ratio is 1 for them; regular ones avoid busy times by themselves.
    """
    gaps = np.diff(log.arrival)
    if len(gaps) < 500 or gaps.mean() == 0 or scv(gaps) < 0.7:
        return None
    t = np.linspace(log.arrival[0], log.arrival[-1], 4 * len(log))
    over_time = log.in_system(t)
    before = log.in_system(log.arrival) - 1
    middle = np.median(over_time)
    high, low = (over_time > middle).mean(), (over_time <= middle).mean()
    if min(high, low) < 0.1:
        return None
    ratio = ((before > middle).mean() / high) / max((before <= middle).mean() / low, 1e-12)
    return float(ratio)


@check("Is the arrival pattern the one that is claimed?", "04_bursts_pooling_fanout")
def arrivals(run):
    """Variability of the arrivals: SCV, index of dispersion, ticks and repeated gaps, against what was asked for."""
    arrival, claims = run.arrival, run.claims
    if arrival is None or len(arrival) < 100 or arrival[-1] <= arrival[0]:
        known = 0 if arrival is None else len(arrival)
        numbers = {"arrivals": known}
        if claims.burstiness is not None:
            b = claims.burstiness
            numbers |= {
                "SCV if b is a gamma shape (1/b)": 1 / b,
                "SCV if b is a coefficient of variation (b²)": b * b,
            }
        reason = (
            f"{known} moments of arrival are known, and 100 are needed. A pattern cannot be told from fewer; a "
            "burstiness parameter means different things in different tools."
        )
        return UNKNOWN, numbers, reason
    gaps = np.diff(arrival)
    n, mean = len(gaps), float(gaps.mean())
    found = scv(gaps)
    zero = float((gaps <= 1e-12).mean())
    numbers = {"SCV of the gaps": found, "gaps of zero (%)": 100 * zero}
    numbers |= (
        {"index of dispersion, 10 mean gaps": index_of_dispersion(arrival, 10 * mean)} if n >= 200 else {}
    )
    long = index_of_dispersion(arrival, 100 * mean) if n >= 2000 else None
    if long is not None:
        numbers["index of dispersion, 100 mean gaps"] = long
    tick, again = _ticks(gaps)
    if tick:
        numbers["tick of the clock (s)"] = tick
    numbers["gaps in a sequence that came before (%)"] = 100 * again
    if b := claims.burstiness:
        numbers |= {
            "SCV if b is a gamma shape (1/b)": 1 / b,
            "SCV if b is a coefficient of variation (b²)": b * b,
        }
    # Very bursty gaps may be zero to the last digit, but then others are nearly zero; on ticks none are.
    apart = gaps[gaps > 1e-12].min() > 1e-3 * mean
    if zero > 0.2 or (zero > 0.02 and apart) or (tick and tick > 0.2 * mean):
        verdict = BROKEN if zero > 0.2 or (tick and tick > mean) else DOUBTFUL
        reason = (
            f"{100 * zero:.3g}% of the gaps are zero: the moments stand on ticks"
            f"{f' of {tick:.3g} s' if tick else ''}. What happened within a tick is lost, so neither bursts nor waiting "
            "can be told from these moments."
        )
        return verdict, numbers, reason
    if again > 0.1 and not tick and found > 0.01:
        reason = (
            f"{100 * again:.0f}% of the gaps follow one another as earlier ones did, to the nanosecond. A recorded piece "
            "of traffic was probably played several times, so there is less evidence than there are requests."
        )
        return BROKEN, numbers, reason
    expected = 1.0 if claims.scv is None else claims.scv
    numbers["SCV that is claimed" if claims.scv is not None else "SCV of Poisson arrivals"] = expected
    error = np.sqrt((2 * expected**2 + 2 * expected) / n) + 0.01  # asymptotic, gamma gaps
    off = abs(found - expected)
    verdict = (
        BROKEN
        if off > max(6 * error, 0.3 * expected)
        else DOUBTFUL
        if off > max(4 * error, 0.1 * expected)
        else HOLDS
    )
    clustered = False
    if long is not None:
        windows = int((arrival[-1] - arrival[0]) // (100 * mean))
        allowed = max(expected, 0.1) * (1 + 5 * np.sqrt(2 / (windows - 1)) + 0.1)
        clustered = long > allowed
    if clustered:
        verdict = worst(verdict, BROKEN if long > 2 * allowed else DOUBTFUL)
    if claims.scv is None and verdict == BROKEN:
        verdict = DOUBTFUL  # nobody said Poisson
    if verdict == HOLDS:
        reason = (
            f"The gaps have an SCV of {found:.3g}, as {expected:.3g} lets one expect, and busy times do not cluster. "
            "Results hold for this pattern; real users may be burstier."
        )
    else:
        what = (
            "busy times cluster over long windows"
            if clustered and off <= 4 * error
            else f"their SCV is {found:.3g}"
        )
        meant = "what the tool was asked for" if claims.scv is not None else "Poisson arrivals"
        reason = (
            f"The arrivals are not {meant} (SCV {expected:.3g}): {what}. Waiting grows with the variability of the "
            "arrivals, so the result holds for this pattern alone."
        )
    return verdict, numbers, reason


def _ticks(gaps):
    """(tick of the clock in s or None, share of gaps that follow the same two others as before, to 1 ns).

    Single gaps are equal by chance in long runs; three in a row hardly ever are, unless traffic was replayed.
    """
    whole = np.round(gaps * 1e9).astype(np.int64)
    rows = whole.astype(np.uint64)
    rows = rows[2:] + rows[1:-1] * np.uint64(0x9E3779B97F4A7C15) + rows[:-2] * np.uint64(0xC2B2AE3D27D4EB4F)
    again = 1 - len(np.unique(rows)) / len(rows)
    whole = whole[whole > 0]
    values = np.unique(whole)
    if len(values) < 2:
        return None, again  # equal intervals
    tick = int(values[0])
    odd = np.abs(whole / tick - np.round(whole / tick)) > 0.02
    on_ticks = odd.mean() < 0.01 and tick >= 1000 and len(values) < 0.8 * len(whole)
    return (tick / 1e9 if on_ticks else None), again
