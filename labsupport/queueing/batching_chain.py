"""The Markov chain behind dynamic batching: how many wait when a batch ends, and how long requests take.

Poisson arrivals; a free server takes what is waiting, at most `cap` requests, at once, and an idle one takes
the next request alone; a batch of b takes service_s[b - 1] seconds, b = 1 .. cap. The number n that waits
when a batch ends is a Markov chain: the next batch has b = min(max(n, 1), cap) requests and leaves behind
max(n - b, 0) plus a Poisson number of new ones (Neuts 1967, bulk service).

Plain functions of numbers that `theory.DynamicBatching` has checked.
"""

from typing import NamedTuple

import numpy as np


class Ends(NamedTuple):
    """P(n requests wait when a batch ends), n = 0 .. N; from N on it falls by `ratio` with each request."""

    probability: np.ndarray
    ratio: float


class Means(NamedTuple):
    batch: float
    cycle_s: float  # from the end of one batch to the end of the next
    busy_s: float  # of it, serving
    service_s: float  # the length of the batch that a request is in, per request
    in_system: float


def solve(rate: float, service_s: np.ndarray) -> Ends:
    """The stationary chain, at any load below capacity.

    A few batches above the cap the tail is geometric to the last digit, so N + 1 equations describe the
    infinite chain exactly. N is doubled until the solution itself shows that.
    """
    cap = len(service_s)
    ratio = _tail_ratio(cap, rate * service_s[-1])
    top = cap + 16 + 8 * int(np.ceil(np.sqrt(cap)))
    while True:
        probability = _solve(rate, service_s, top, ratio)
        before, last = probability[-2:]
        if abs(last - ratio * before) < 1e-11 * last + 1e-14:  # the second term is rounding
            return Ends(probability, ratio)
        top *= 2


def _solve(rate: float, service_s: np.ndarray, top: int, ratio: float) -> np.ndarray:
    cap = len(service_s)
    state = np.arange(top + 1)
    left = np.maximum(state - cap, 0)
    arrivals = (rate * service_s[np.clip(state, 1, cap) - 1])[:, None]
    step = _poisson(state - left[:, None], arrivals)  # step[n, m]: from n to m
    # States above `top` are a geometric continuation of it; one step takes them back by `cap` at most.
    beyond = np.arange(1, cap + 1)
    step[top] += ratio**beyond @ _poisson(state - (top + beyond - cap)[:, None], rate * service_s[-1])
    equations = step.T - np.eye(top + 1)
    # One balance equation follows from the others; the sum of all probabilities takes its place.
    equations[top] = 1.0
    equations[top, top] = 1 / (1 - ratio)
    return np.maximum(np.linalg.solve(equations, np.eye(top + 1)[top]), 0.0)


def _tail_ratio(cap: int, load: float) -> float:
    """1 / z, where z > 1 solves cap ln z = load (z - 1); `load` requests arrive during a full batch."""
    low = high = np.log(cap / load)  # of y = ln z; the left side leads most at z = cap / load
    while cap * high > load * np.expm1(high):
        low, high = high, 2 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cap * middle > load * np.expm1(middle) else (low, middle)
    return float(np.exp(-high))


def _poisson(count, mean):
    """P(Poisson(mean) = count), elementwise; 0 for negative counts."""
    from scipy.special import gammaln

    size = np.maximum(count, 0)
    chance = np.exp(size * np.log(np.maximum(mean, 1e-300)) - mean - gammaln(size + 1.0))
    return np.where(count < 0, 0.0, chance) if np.min(count) < 0 else chance


def means(rate: float, service_s: np.ndarray, ends: Ends) -> Means:
    """Averages over cycles, a cycle being the wait for a request if there is none, and one batch.

    While a batch lasts s seconds, those it found stay and new ones come: n s + rate s**2 / 2 request-seconds.
    """
    cap, full = len(service_s), service_s[-1]
    chance, ratio = ends
    top = len(chance) - 1
    n = np.arange(top + 1)
    batch = np.clip(n, 1, cap)
    s = service_s[batch - 1]
    tail = chance[top] * ratio / (1 - ratio)  # P(n > top)
    tail_n = tail * (top + 1 / (1 - ratio))  # E[n; n > top]
    busy_s = chance @ s + tail * full
    cycle_s = busy_s + chance[0] / rate
    request_s = chance @ (np.maximum(n, 1) * s + rate * s**2 / 2) + tail_n * full + tail * rate * full**2 / 2
    mean_batch = chance @ batch + tail * cap
    served_s = (chance @ (batch * s) + tail * cap * full) / mean_batch
    return Means(*map(float, (mean_batch, cycle_s, busy_s, served_s, request_s / cycle_s)))


def within(t: float, rate: float, service_s: np.ndarray, ends: Ends) -> float:
    """P(response time <= t), exact up to a quadrature error of about 1e-9.

    A request that finds the server idle takes service_s[0]. Any other arrives when the batch in service has v
    seconds left and q requests wait in front of it. Then m = q // cap full batches go first, its own starts
    after w = v + m * service_s[-1], and has as size the q % cap in front, itself and those who came behind it
    within w, at most `cap`. It is in time if a batch of that size fits into t - w.
    """
    cap, full = len(service_s), service_s[-1]
    if t < service_s[0] or t == np.inf:
        return float(t == np.inf)
    cycle_s = means(rate, service_s, ends).cycle_s
    in_time_s = ends.probability[0] / rate
    for m in range(int((t - service_s[0]) / full) + 1):
        if in_time_s > cycle_s * (1 - 1e-12):
            break
        spare = t - m * full - service_s  # an own batch of size b is in time where v <= spare[b - 1]
        v, weight = _nodes(min(full, spare[0]), np.concatenate([service_s, spare]), 2 / rate)
        ahead = _ahead(m * cap, v, rate, service_s, ends)
        in_time_s += weight @ (ahead * _fits(v, v + m * full, rate, spare)).sum(axis=1)
    return float(min(in_time_s / cycle_s, 1.0))


def _nodes(end: float, breaks: np.ndarray, longest: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on (0, end), in pieces without a break and at most `longest`."""
    even = np.linspace(0, end, int(end / longest) + 2)
    edges = np.unique(np.concatenate([even, breaks[(breaks > 0) & (breaks < end)]]))
    x, w = np.polynomial.legendre.leggauss(4)
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()


def _ahead(first: int, v: np.ndarray, rate: float, service_s: np.ndarray, ends: Ends) -> np.ndarray:
    """Density in v of `first` + j requests waiting in front, j = 0 .. cap - 1; shape (len(v), cap)."""
    cap = len(service_s)
    q = first + np.arange(cap)
    chance = ends.probability[1:].copy()
    chance[0] += ends.probability[0]  # after an idle time the batch is one request, as with n = 1
    density = np.zeros((len(v), cap))
    for starts, s in zip(chance[: cap - 1], service_s[: cap - 1], strict=True):  # these leave nobody behind
        if starts > 1e-16:
            now = v[: np.searchsorted(v, s)]  # v is sorted
            density[: len(now)] += starts * _poisson(q, rate * (s - now)[:, None])
    most = rate * service_s[-1]
    new = np.arange(int(most + 12 * np.sqrt(most) + 40))  # more do not arrive within one batch
    n = cap + q - new[:, None]  # a full batch that leaves q - new behind
    last = len(chance)
    starts = np.where(n < cap, 0.0, chance[np.clip(n, 1, last) - 1] * ends.ratio ** np.maximum(n - last, 0))
    return density + _poisson(new, rate * (service_s[-1] - v)[:, None]) @ starts


def _fits(v: np.ndarray, w: np.ndarray, rate: float, spare: np.ndarray) -> np.ndarray:
    """P(the own batch is in time | v, and j requests in front within it); shape (len(v), cap)."""
    from scipy.special import pdtr

    size = (v[:, None] <= spare).sum(axis=1)[:, None]  # the largest that is in time
    behind = size - 1 - np.arange(len(spare))
    chance = pdtr(np.maximum(behind, 0), rate * w[:, None])
    return np.where(size == len(spare), 1.0, np.where(behind < 0, 0.0, chance))
