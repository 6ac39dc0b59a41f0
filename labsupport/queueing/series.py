"""What a series says: number in system over time, dependence, warm-up, variability and burstiness."""

import math

import numpy as np

from labsupport.queueing._checks import as_series


def number_in_system_steps(log):
    """The step function N(t), number of requests in the system, from its events.

    Returns (times, counts): N(t) = counts[i] for times[i] <= t < times[i + 1], counts[-1] after the last
    event, 0 before the first. A request is inside for arrival <= t < finish; events at one time are one step.
    """
    finish = np.sort(log.finish[np.isfinite(log.finish)], kind="stable")
    events = np.concatenate([log.arrival, finish])
    order = np.argsort(events, kind="stable")  # merges the two sorted halves, tenfold faster than sorting
    times = events[order]
    counts = np.cumsum(np.where(order < len(log), 1, -1))
    last = np.diff(times, append=np.inf) > 0
    return times[last], counts[last]


def time_average_in_system(log, t0=None, t1=None):
    """Time average of N(t) over [t0, t1] in s, by default from the first arrival to the last finish.

    The area under the steps of N(t) over the length of the window. It never adds up response times, so
    comparing it with arrival rate times mean response time checks Little's law (Little, 1961) by two separate
    computations. They agree exactly over the default window; one that cuts through requests has end effects.
    """
    if len(log) == 0:
        raise ValueError("log holds no request; give one with at least one.")
    if t1 is None and np.isinf(log.finish).any():
        unfinished = int(np.isinf(log.finish).sum())
        raise ValueError(
            f"t1 is needed: {unfinished} requests never finish; give the window's end in seconds."
        )
    t0 = float(log.arrival[0] if t0 is None else t0)
    t1 = float(log.finish.max() if t1 is None else t1)
    if not (math.isfinite(t0) and math.isfinite(t1) and t0 < t1):
        raise ValueError(f"the window from t0={t0!r} to t1={t1!r} has no length; give t0 < t1 in seconds.")
    times, counts = number_in_system_steps(log)
    edges = np.clip(np.append(times, t1), t0, t1)  # steps outside the window get no length
    return float(counts @ np.diff(edges)) / (t1 - t0)


def idle_while_waiting(log, servers, t0=None, t1=None):
    """Share of [t0, t1] (s) in which a request waits although one of `servers` equal servers is idle.

    By default from the first arrival to the last finish. One queue for all servers has 0. Separate queues
    have more: capacity that is there, but not where the request is.
    """
    if len(log) == 0:
        raise ValueError("log holds no request; give one with at least one.")
    arrival, start, finish = (np.sort(times, kind="stable") for times in (log.arrival, log.start, log.finish))
    t0, t1 = float(arrival[0] if t0 is None else t0), float(finish[-1] if t1 is None else t1)
    if not (math.isfinite(t0) and math.isfinite(t1) and t0 < t1):
        raise ValueError(f"the window from t0={t0!r} to t1={t1!r} has no length; give t0 < t1 in seconds.")
    events = np.concatenate([arrival, start, finish, [t0, t1]])
    times = np.clip(np.sort(events, kind="stable"), t0, t1)  # merges sorted parts
    begun = np.searchsorted(start, times, "right")
    waiting = np.searchsorted(arrival, times, "right") > begun
    idle = begun - np.searchsorted(finish, times, "right") < servers
    return float((waiting & idle)[:-1] @ np.diff(times)) / (t1 - t0)


def peak_in_system(log):
    """Largest number of requests in the system at any moment, exact; 0 for an empty log.

    A request that leaves at the moment another arrives is not counted with it.
    """
    return int(number_in_system_steps(log)[1].max(initial=0))


def time_weighted_mean(times, values):
    """Mean of a gauge over time: each sample holds from its time until the next sample's.

    times   increasing, in s, at least two
    values  one sample per time; the last one has no duration and so no weight

    The plain mean of the samples is something else where they are not evenly spaced, as in a log that
    is only written while the system is busy.
    """
    times, values = as_series("times", times), as_series("values", values)
    if len(times) != len(values) or len(times) < 2:
        raise ValueError(
            f"there are {len(times)} times and {len(values)} values; give as many, at least two."
        )
    if not (np.diff(times) > 0).all():
        raise ValueError("times does not increase throughout; sort the samples and drop repeated times.")
    return float(values[:-1] @ np.diff(times) / (times[-1] - times[0]))


def autocorrelation(series, lags=None):
    """Autocorrelation r[0..lags] of a series (all lags when None), r[0] = 1, by FFT.

    The estimator that divides by n at every lag (Priestley, Spectral Analysis, 1981): biased towards 0 at
    long lags, and of less variance there. ValueError for a constant series, where it is not defined.
    """
    x = as_series("series", series)
    n = len(x)
    lags = n - 1 if lags is None else int(lags)
    if not 0 <= lags < n:
        raise ValueError(f"lags is {lags} but the series has {n} values; give 0 to {n - 1}.")
    if x.min() == x.max():
        raise ValueError(
            f"all {n} values of the series are {x[0]:g}, which has no autocorrelation; give others."
        )
    x = x - x.mean()
    size = 1 << (n + lags).bit_length()  # zero padding: lags must not wrap around
    covariance = np.fft.irfft(np.abs(np.fft.rfft(x, size)) ** 2, size)[: lags + 1]
    return covariance / covariance[0]


def integrated_autocorrelation_time(series):
    """Integrated autocorrelation time 1 + 2 (r1 + r2 + ...): how many values are worth one independent one.

    The sum stops where pairs r[2k] + r[2k+1] cease to be positive, and the pairs are kept from rising
    (initial monotone sequence; Geyer, 1992): noise at long lags would otherwise swamp it. It is itself
    uncertain unless the series is some hundred times longer than the result. M/M/1 waits at utilisation r
    have (2 + 5r - 4r^2 + r^3) / ((2 - r)(1 - r)^2) (Daley, 1968).
    """
    r = autocorrelation(series)
    pairs = r[: len(r) // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    total = 2 * np.minimum.accumulate(pairs[:stop]).sum() - 1
    return float(max(total, 1 / max(1, math.log10(len(r)))))  # as Vehtari et al. (2021) bound it for Stan


def effective_size(series):
    """Number of independent values that would give the mean of the series the same variance.

    Length over `integrated_autocorrelation_time`; more than the length where high follows low and low high.
    """
    return len(series) / integrated_autocorrelation_time(series)


def mser5(series):
    """How many values at the start of a run to discard as warm-up; a multiple of 5, or None.

    The cut that minimises the squared standard error of the mean of what remains, on means of 5 (White, 1997;
    Spratt, 1998). None when that cut leaves less than half of the series: the run is too short for its
    warm-up, or has no steady state.
    """
    series = as_series("series", series)
    means = series[: len(series) // 5 * 5].reshape(-1, 5).mean(axis=1)
    if len(means) < 10:
        return None
    means = means - means.mean()
    left = np.arange(len(means), 5, -1)  # a cut that leaves only a few means looks good by chance
    total, squares = (np.cumsum(m[::-1])[::-1][: len(left)] for m in (means, means**2))
    cut = int(np.argmin((squares - total**2 / left) / left**2))
    return None if cut > len(means) // 2 else 5 * cut


def scv(values):
    """Squared coefficient of variation, variance / mean^2, of these values.

    The variance divides by n, so `(1 + scv) * mean**2` is exactly the mean square of the same values.
    """
    values = as_series("values", values)
    if values.mean() == 0:
        raise ValueError("the mean of values is 0, so their SCV is not defined; give positive values.")
    return float(values.var() / values.mean() ** 2)


def index_of_dispersion(arrival, window_s):
    """Index of dispersion for counts: variance / mean of the arrivals per window of `window_s` seconds.

    arrival  sorted times in s; windows follow one another from the first arrival, an incomplete last window
             is left out. The variance divides by one less than the number of windows, which is often small.

    1 for Poisson arrivals at every window; it grows with the window where busy times cluster, which the SCV
    of the gaps alone does not show (Gusella, 1991).
    """
    arrival = as_series("arrival", arrival)
    if not window_s > 0:
        raise ValueError(f"window_s is {window_s!r}; give a length in seconds above 0.")
    if (np.diff(arrival) < 0).any():
        raise ValueError("arrival is not sorted; sort it first.")
    windows = int((arrival[-1] - arrival[0]) // window_s)
    if windows < 2:
        raise ValueError(
            f"window_s={window_s:g} fits {windows} times into {arrival[-1] - arrival[0]:g} s of arrivals; "
            "give a shorter window or more arrivals."
        )
    edges = arrival[0] + window_s * np.arange(windows + 1)
    counts = np.diff(np.searchsorted(arrival, edges, "left"))
    return float(counts.var(ddof=1) / counts.mean())


def backfill(recorded, expected_interval):
    """Recorded latencies with those that a stalled closed-loop tool left out filled in, both in s.

    Each value v above the expected interval i between a connection's requests is followed by v - i, v - 2i,
    ... down to i: what the requests not sent meanwhile would have seen (HdrHistogram's
    recordValueWithExpectedInterval; Tene, How NOT to Measure Latency, 2015). Returns the recorded values
    followed by the filled ones. It assumes one stall per slow value: a server that is slow but not stalled
    gets values it does not deserve.
    """
    recorded = as_series("recorded", recorded)
    if not expected_interval > 0:
        raise ValueError(f"expected_interval is {expected_interval!r}; give seconds above 0.")
    if recorded.min() < 0:
        raise ValueError(f"recorded holds {recorded.min():g}; a latency is 0 s or more.")
    # v/i may come out just below the whole number that it is
    fills = np.maximum(np.floor(recorded / expected_interval * (1 + 1e-12)) - 1, 0)
    if fills.sum() > 1e8:
        raise ValueError(
            f"expected_interval={expected_interval:g} s would fill in {fills.sum():.3g} values; "
            "check that it and recorded are in the same unit."
        )
    fills = fills.astype(int)
    step = np.arange(fills.sum()) - np.repeat(np.cumsum(fills) - fills, fills) + 1
    return np.concatenate([recorded, np.repeat(recorded, fills) - step * expected_interval])
