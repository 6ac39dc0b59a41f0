"""Who comes when, and how much they want: laws of durations and sizes, and arrival times.

Every sampler takes a `numpy.random.Generator` and draws unit random numbers that it then rescales, so the
same seed with another rate or mean gives the same pattern, stretched: common random numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

# Probabilities, close together at both ends: a quantile function is smooth between them, so a slider that cannot wait
# for exact quantiles may interpolate.
GRID = np.concatenate([[0], np.geomspace(1e-7, 0.01, 200, endpoint=False), np.linspace(0.01, 0.99, 900)])
GRID = np.concatenate([GRID, 1 - np.geomspace(0.01, 1e-9, 500)[1:]])


@dataclass(frozen=True)
class Law:
    """A law of non-negative random quantities: service times in s, interarrival times in s, tokens.

    mean  in the unit of the quantity
    scv   squared coefficient of variation, variance / mean^2 (0: constant, 1: exponential)

    Made by `deterministic`, `exponential`, `gamma`, `lognormal`, `hyperexponential` and `empirical`.
    """

    name: str
    mean: float
    scv: float
    _scale: float = field(repr=False)  # the three functions below describe X / _scale
    _sample: Callable = field(repr=False)
    _ppf: Callable = field(repr=False)
    _lst: Callable = field(repr=False)

    def sample(self, rng, size):
        """Independent values of the given size (an int or a shape), drawn from `rng`."""
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng must be a numpy.random.Generator, not {rng!r:.40}; use default_rng(seed).")
        return self._scale * self._sample(rng, size)

    def ppf(self, u):
        """The quantile at probability u (any shape, in [0, 1]): the inverse of the distribution function.

        The same uniforms with another mean or scv give common random numbers.
        """
        u = np.asarray(u, dtype=np.float64)
        if not ((u >= 0) & (u <= 1)).all():
            raise ValueError("u must lie in [0, 1]; give probabilities, not percentages.")
        return self._scale * self._ppf(u)

    def lst(self, s):
        """The Laplace-Stieltjes transform E[exp(-s X)] at s >= 0 (any shape, in 1 / unit of X).

        s may be complex with a real part of 0 or more, as numerical inversion needs it.
        """
        s = np.asarray(s)
        s = s.astype(np.complex128 if s.dtype.kind == "c" else np.float64)
        if not (s.real >= 0).all():
            raise ValueError("s must be 0 or more; the transform of a heavy tail does not exist below 0.")
        return self._lst(s * self._scale)

    def scaled(self, factor):
        """The law of factor * X: the same shape, another mean."""
        factor = _positive("factor", factor)
        return replace(self, mean=self.mean * factor, _scale=self._scale * factor)


def deterministic(mean):
    """Always exactly `mean`."""
    return Law(
        "deterministic",
        _positive("mean", mean),
        0.0,
        float(mean),
        lambda rng, size: np.ones(size),
        lambda u: np.ones_like(u),
        lambda s: np.exp(-s),
    )


def exponential(mean):
    """The memoryless law: P(X > x) = exp(-x / mean)."""
    return Law(
        "exponential",
        _positive("mean", mean),
        1.0,
        float(mean),
        lambda rng, size: rng.standard_exponential(size),
        _exponential_ppf,
        lambda s: 1 / (1 + s),
    )


def gamma(mean, scv):
    """Gamma with shape 1 / scv: from clockwork (scv 0) over exponential (scv 1) to bursts (scv > 1)."""
    mean, scv = _positive("mean", mean), _spread(scv)
    if scv == 0:
        return replace(deterministic(mean), name="gamma")

    def ppf(u):
        from scipy.special import gammaincinv

        return scv * gammaincinv(1 / scv, u)

    return Law(
        "gamma",
        mean,
        scv,
        mean,
        lambda rng, size: scv * rng.standard_gamma(1 / scv, size),
        ppf,
        lambda s: np.exp(-np.log1p(s * scv) / scv),
    )


def lognormal(mean, scv):
    """exp of a normal with variance log(1 + scv): the usual shape of output lengths."""
    mean, scv = _positive("mean", mean), _spread(scv)
    if scv == 0:
        return replace(deterministic(mean), name="lognormal")
    variance = np.log1p(scv)
    sigma = np.sqrt(variance)

    def ppf(u):
        from scipy.special import ndtri

        return np.exp(sigma * ndtri(u) - variance / 2)

    def lst(s):
        # No closed form. The trapezium rule converges exponentially for such a smooth integrand: this step
        # and range leave less than 1e-14 up to scv 10^4.
        # For complex s the path is shifted (Cauchy), so that the integrand hardly oscillates.
        z, step = np.linspace(-10, 10, 201, retstep=True)
        if s.dtype.kind == "c":
            z = z - 1j * np.clip(np.angle(s) / sigma, -1.5, 1.5)[..., None]
        weight = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * step
        return (np.exp(-s[..., None] * np.exp(sigma * z - variance / 2)) * weight).sum(axis=-1)

    return Law(
        "lognormal",
        mean,
        scv,
        mean,
        lambda rng, size: np.exp(sigma * rng.standard_normal(size) - variance / 2),
        ppf,
        lst,
    )


def lognormal_from_median(median, sigma):
    """Lognormal by its median and the standard deviation sigma of log X (0 <= sigma)."""
    variance = _spread(sigma, "sigma") ** 2
    return lognormal(_positive("median", median) * np.exp(variance / 2), np.expm1(variance))


def hyperexponential(mean, scv):
    """A mixture of two exponentials, scv >= 1, with balanced means: each gives half the mean (Tijms 1994)."""
    mean, scv = _positive("mean", mean), _spread(scv)
    if scv < 1:
        raise ValueError(
            f"scv = {scv:g} is below 1, which no mixture of exponentials reaches; use gamma(...)."
        )
    p = (1 + np.sqrt((scv - 1) / (scv + 1))) / 2
    q = 1 / (2 * p * (scv + 1))  # 1 - p, without cancellation for large scv
    a, b = 2 * p, 2 * q  # the two rates, for mean 1

    def ppf(u):
        """Newton on log S(x) = log(1 - u). It is convex and falls, so it climbs to the root from below."""
        log_v = np.log1p(-np.minimum(u, 1 - 2**-53))
        x = np.maximum.reduce([-log_v / (p * a + q * b), (np.log(p) - log_v) / a, (np.log(q) - log_v) / b])
        for _ in range(30):
            head, tail = p * np.exp(-a * x), q * np.exp(-b * x)
            step = (np.log(head + tail) - log_v) * (head + tail) / (a * head + b * tail)
            x = x + step
            if (np.abs(step) <= 1e-15 * (1 + x)).all():
                break
        return np.where(u == 1, np.inf, np.maximum(x, 0))

    return Law(
        "hyperexponential",
        mean,
        scv,
        mean,
        lambda rng, size: rng.standard_exponential(size) / np.where(rng.random(size) < p, a, b),
        ppf,
        lambda s: p * a / (a + s) + q * b / (b + s),
    )


def empirical(values):
    """The law that draws one of the given values (1-d, not negative), each with the same probability."""
    values = np.sort(_times("values", values))
    if not len(values) or not values.mean() > 0:
        raise ValueError("values must hold at least one number above 0.")
    values.flags.writeable = False
    last = len(values) - 1
    return Law(
        "empirical",
        float(values.mean()),
        float(values.var() / values.mean() ** 2),
        1.0,
        lambda rng, size: values[rng.integers(len(values), size=size)],
        lambda u: values[np.clip(np.ceil(u * len(values)).astype(int) - 1, 0, last)],
        lambda s: np.exp(-s[..., None] * values).mean(axis=-1),
    )


def poisson(rng, rate, n):
    """Arrival times (n,) in s of a Poisson process with `rate` arrivals per second."""
    rate, n = _positive("rate", rate), _count(n)
    times = exponential(1.0).sample(rng, n)
    np.cumsum(times, out=times)
    times /= rate
    return times


def renewal(rng, law, n):
    """Arrival times (n,) in s with independent interarrival times from `law`; its rate is 1 / law.mean."""
    if not isinstance(law, Law):
        raise TypeError(f"law must be a Law such as gamma(mean=0.1, scv=4), not {law!r:.40}.")
    return np.cumsum(law.sample(rng, _count(n)))


def mmpp(rng, rates, mean_stay_s, n):
    """Arrival times (n,) in s of a Markov-modulated Poisson process: bursts that last.

    The process stays in state i for an exponential time with mean mean_stay_s[i] (or the one number given)
    and meanwhile brings rates[i] arrivals per second, which may be 0 (on-off bursts). Then it goes to the
    next state, and from the last to the first. It begins in equilibrium: the mean rate is
    sum(rates * stay) / sum(stay).
    """
    rates = _times("rates", rates)
    if len(rates) < 2 or not rates.any():
        raise ValueError("rates must hold at least two arrival rates, not all 0; use poisson(...) for one.")
    stay = np.asarray(mean_stay_s, dtype=np.float64)
    if stay.shape not in ((), rates.shape) or not ((stay > 0) & np.isfinite(stay)).all():
        raise ValueError(
            f"mean_stay_s = {mean_stay_s!r:.40} must be above 0 and finite: one number, or one per rate."
        )
    stay = np.broadcast_to(stay, rates.shape)
    # A Poisson process of rate 1 on the axis of expected arrivals, carried back to time (Cinlar 1975).
    expected = np.cumsum(exponential(1.0).sample(rng, _count(n)))
    first = int(np.searchsorted(np.cumsum(stay / stay.sum()), rng.random(), "right")) % len(rates)
    times, counts = np.zeros(1), np.zeros(1)
    cycles = 1 + expected[-1] / (rates * stay).sum() if len(expected) else 0
    if not cycles * len(rates) < 1e8:
        raise ValueError(f"{n} arrivals would take {cycles:.0e} bursts; give larger rates or mean_stay_s.")
    while len(expected) and counts[-1] <= expected[-1]:
        state = (first + len(times) - 1 + np.arange(int(cycles) * len(rates))) % len(rates)
        stays = stay[state] * rng.standard_exponential(len(state))
        times = np.append(times, times[-1] + np.cumsum(stays))
        counts = np.append(counts, counts[-1] + np.cumsum(stays * rates[state]))
    return np.interp(expected, counts, times)


def replay(times_s, speed=1.0):
    """Times (1-d, sorted, in s) of a recorded trace from its first arrival on, `speed` times faster."""
    times_s, speed = np.asarray(times_s, dtype=np.float64), _positive("speed", speed)
    if times_s.ndim != 1 or not np.isfinite(times_s).all():
        raise ValueError("times_s must be one row of finite times in s.")
    if (np.diff(times_s) < 0).any():
        row = int(np.argmax(np.diff(times_s) < 0)) + 1
        raise ValueError(
            f"times_s is not sorted at row {row}; sort the trace, sizes included, by time first."
        )
    return (times_s - times_s[:1]) / speed


def spread_ticks(rng, times_s, tick_s):
    """Times that were rounded down to ticks of `tick_s`, moved to random places within their tick and sorted.

    What the ticks hid cannot come back; this is a plain guess at a trace that would be recorded the same way.
    """
    times_s, tick_s = _times("times_s", times_s), _positive("tick_s", tick_s)
    return np.sort(times_s + tick_s * rng.random(len(times_s)))


def _exponential_ppf(u):
    with np.errstate(divide="ignore"):
        return -np.log1p(-u)


def _positive(name, value):
    if not isinstance(value, (int, float, np.number)) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, not {value!r:.40}.")
    if not 0 < value < np.inf:
        raise ValueError(f"{name} = {value!r} must be above 0 and finite.")
    return float(value)


def _spread(value, name="scv"):
    return 0.0 if isinstance(value, (int, float, np.number)) and value == 0 else _positive(name, value)


def _count(n):
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 0:
        raise ValueError(f"n = {n!r:.40} must be a whole number of arrivals, 0 or more.")
    return int(n)


def _times(name, values):
    try:
        values = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold numbers, not {values!r:.40}.") from None
    if values.ndim != 1 or not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError(f"{name} must be one row of finite numbers, none below 0.")
    return values
