"""Closed forms and exact numerics of queues: the values a simulator has to agree with.

Rates are requests per second and times are seconds. The waiting time ends where the service starts; the
response time is the waiting time plus the service time. Requests are served in order of arrival.

An open queue is a frozen dataclass, such as `MM1(arrival_rate=8, service_mean=0.1)`: its properties are the
stationary means, its methods the distributions. Bad input raises a ValueError or TypeError that names the
argument, its value and the remedy; a utilisation of 1 or more is bad input, as no stationary state exists.

`arrival_rate` of MM1, MMc and MG1 may be an array, and then every answer has one value per rate: the cheap
way to draw a curve. The other models take one rate. `t` and `p` may be arrays in all of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from labsupport.queueing import batching_chain

# Checks ----------------------------------------------------------------------------------------------------

RATE, SECONDS = "give requests per second above 0", "give seconds above 0"
SECONDS_OR_0 = "give seconds, 0 or more"
SERVERS = "give the number of servers, 1 or more"
USERS = "give the number of users, 1 or more"
LOAD = "give arrival_rate * service_mean"
BUSY = "give the busy share of the servers, such as 0.8"
PERCENTILE = "give a share between 0 and 1, such as 0.99 for P99"
SCV = "give variance over squared mean: 0 for constant, 1 for exponential"


def _real(name: str, value, remedy: str, good: Callable, what: str):
    """`value` as a float or a read-only array of floats; an error about its first bad element."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name}={value!r:.60} is not a number; {remedy}.")
    array = array.astype(float)
    bad = np.argwhere(~good(array))
    if len(bad):
        place = "".join(f"[{i}]" for i in bad[0])
        raise ValueError(f"{name}{place}={array[tuple(bad[0])]:g} is not {what}; {remedy}.")
    array.flags.writeable = False
    return array if array.ndim else float(array)


def _positive(name: str, value, remedy: str):
    if isinstance(value, float) and 0 < value < math.inf:  # the usual case, quickly
        return float(value)
    return _real(name, value, remedy, lambda x: (x > 0) & (x < np.inf), "a positive finite number")


def _not_negative(name: str, value, remedy: str):
    return _real(name, value, remedy, lambda x: (x >= 0) & (x < np.inf), "a finite number from 0 up")


def _share(name: str, value, remedy: str = PERCENTILE):
    return _real(name, value, remedy, lambda x: (x > 0) & (x < 1), "inside (0, 1)")


def _counts(name: str, value, remedy: str):
    return _real(name, value, remedy, lambda x: (x >= 1) & (x % 1 == 0), "a whole number from 1 up")


def _time(value):
    return _real("t", value, "give seconds", lambda x: ~np.isnan(x), "a time")


def _one(name: str, value):
    if np.ndim(value):
        raise TypeError(f"{name} has {np.size(value)} values where one is needed; make one call for each.")
    return value


def _count(name: str, value, remedy: str) -> int:
    if type(value) is int and value > 0:
        return value
    return int(_one(name, _counts(name, value, remedy)))


def _stable(utilisation, loaded: str) -> None:
    if np.any(utilisation >= 1):
        raise ValueError(
            f"{loaded} give a utilisation of {np.max(utilisation):g}, and from 1 on the queue grows for "
            "ever; lower the arrival rate, shorten the service or add servers."
        )


def _law(name: str, law):
    if not (callable(getattr(law, "lst", None)) and hasattr(law, "mean") and hasattr(law, "scv")):
        raise TypeError(
            f"{name}={law!r:.60} has no .mean, .scv and .lst(s); give a law such as workload.gamma(mean, scv)."
        )
    return law


def _set(model, **values) -> None:
    for name, value in values.items():
        object.__setattr__(model, name, value)


def _plain(value):
    return value if np.ndim(value) else float(value)


def _boundary(above: Callable, low, high):
    """The point of [low, high] from which the condition `above` holds, elementwise, to the last digit."""
    low, high = np.broadcast_arrays(np.asarray(low, dtype=float), high)
    high = np.where(above(low), low, high)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.all((middle <= low) | (middle >= high)):
            break
        is_above = above(middle)
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    return _plain(high)


def _quantile_above(least: float, step: float, cdf: Callable, p):
    """The p-quantile of a costly distribution without jumps above `least`: doubled steps, then Brent's method."""
    from scipy.optimize import brentq

    def quantile(p):
        if cdf(least) >= p:
            return least
        low, high = least, least + step
        while cdf(high) < p:
            low, high = high, 2 * high
        return brentq(lambda t: cdf(t) - p, low, high, xtol=1e-11 * step, rtol=1e-11)

    return _plain(np.vectorize(quantile, otypes=[float])(_share("p", p)))


# Open queues -----------------------------------------------------------------------------------------------


class _Open:
    """What every open queue shares: its load and Little's law."""

    servers = 1

    def __post_init__(self):
        _set(self, arrival_rate=_positive("arrival_rate", self.arrival_rate, RATE))
        self._check_service()

    def _check_service(self):
        _set(self, service_mean=_one("service_mean", _positive("service_mean", self.service_mean, SECONDS)))
        rate, service, servers = self.arrival_rate, self.service_mean, self.servers
        if servers != 1 or type(servers) is not int:
            servers = _count("servers", servers, SERVERS)
            _set(self, servers=servers)
        _stable(
            self.utilisation,
            f"arrival_rate={np.max(rate):g}, service_mean={service:g} and servers={servers}",
        )

    def at_rate(self, arrival_rate):
        """The same system at another arrival rate (1/s)."""
        return replace(self, arrival_rate=arrival_rate)

    @property
    def capacity(self) -> float:
        """The arrival rate (1/s) at which the utilisation reaches 1."""
        return self.servers / self.service_mean

    @property
    def utilisation(self):
        """Busy share of the servers: arrival_rate * service_mean / servers."""
        return self.arrival_rate * self.service_mean / self.servers

    @property
    def mean_response(self):
        """Mean response time, s."""
        return self.mean_wait + self.service_mean

    @property
    def mean_queue(self):
        """Mean number of requests waiting (Little 1961)."""
        return self.arrival_rate * self.mean_wait

    @property
    def mean_in_system(self):
        """Mean number of requests waiting or in service (Little 1961)."""
        return self.arrival_rate * self.mean_response


class _ExponentialWait(_Open):
    """A wait that is 0 or exponential: P(wait > t) = wait_probability * exp(-_decay * t)."""

    @property
    def mean_wait(self):
        """Mean waiting time, s, over all requests."""
        return self.wait_probability / self._decay

    def wait_cdf(self, t):
        """P(waiting time <= t seconds)."""
        t = np.asarray(_time(t))
        waiting = self.wait_probability * np.exp(-self._decay * np.maximum(t, 0))
        return _plain(np.where(t < 0, 0.0, 1 - waiting))

    def wait_quantile(self, p):
        """The waiting time (s) that a share p of the requests does not exceed; 0 where enough do not wait."""
        over = self.wait_probability / (1 - np.asarray(_share("p", p)))
        return _plain(np.log(np.maximum(over, 1)) / self._decay)


class _ExponentialResponse(_ExponentialWait):
    """A wait as above and one exponential server: the response time is exponential with the same decay."""

    def response_cdf(self, t):
        """P(response time <= t seconds)."""
        return _plain(-np.expm1(-self._decay * np.maximum(_time(t), 0)))

    def response_quantile(self, p):
        """The response time (s) that a share p of the requests does not exceed."""
        return _plain(-np.log1p(-np.asarray(_share("p", p))) / self._decay)


@dataclass(frozen=True)
class MM1(_ExponentialResponse):
    """Poisson arrivals, exponential service, one server (Kleinrock 1975).

    P(wait > t) = rho exp(-(mu - lambda) t), P(response > t) = exp(-(mu - lambda) t), mu = 1 / service_mean.
    `arrival_rate` in 1/s, a number or an array; `service_mean` in s.
    """

    arrival_rate: Any
    service_mean: float

    @property
    def wait_probability(self):
        """P(waiting time > 0): the utilisation."""
        return self.utilisation

    @property
    def _decay(self):
        return (1 - self.utilisation) / self.service_mean


@dataclass(frozen=True)
class MMc(_ExponentialWait):
    """Poisson arrivals, exponential service, `servers` servers and one queue (Erlang 1917).

    P(wait > t) = C exp(-(c mu - lambda) t) with Erlang's C. `arrival_rate` in 1/s, a number or an array;
    `service_mean` in s. For 1000 servers one rate takes 0.1 ms and an array of 200 takes 2 ms.
    """

    arrival_rate: Any
    service_mean: float
    servers: int

    @cached_property
    def wait_probability(self):
        """P(waiting time > 0): Erlang C."""
        return erlang_c(self.servers, self.arrival_rate * self.service_mean)

    @property
    def _decay(self):
        return self.servers * (1 - self.utilisation) / self.service_mean

    def response_cdf(self, t):
        """P(response time <= t seconds): the sum of the wait and an independent exponential service."""
        t = np.clip(_time(t), 0, 1e290)
        wait, serve = self._decay, 1 / self.service_mean
        # (exp(-serve t) - exp(-wait t)) / (wait - serve), written so that wait = serve is no special case
        gap = np.maximum(np.abs(wait - serve) * t, 1e-300)
        both = t * np.exp(-np.minimum(wait, serve) * t) * -np.expm1(-gap) / gap
        return _plain(-np.expm1(-serve * t) - self.wait_probability * serve * both)

    def response_quantile(self, p):
        """The response time (s) that a share p of the requests does not exceed; the root of response_cdf."""
        p = np.asarray(_share("p", p))
        high = self.mean_response / (1 - p)  # Markov: P(T > t) <= E[T] / t
        return _boundary(lambda t: self.response_cdf(t) >= p, 0.0, high)


def erlang_b(servers, offered_load):
    """P(a request is lost) with `servers` servers and no queue, for any service law (Erlang 1917).

    `offered_load` = arrival_rate * service_mean, a number or an array; it may exceed `servers`.
    """
    load = _positive("offered_load", offered_load, LOAD)
    return 1 / _one_over_b(_count("servers", servers, SERVERS), load)


def erlang_c(servers, offered_load):
    """P(a request waits) in M/M/c: B / (1 - rho (1 - B)) with Erlang's B (Erlang 1917).

    `offered_load` = arrival_rate * service_mean below `servers`, a number or an array.
    """
    servers = _count("servers", servers, SERVERS)
    load = _positive("offered_load", offered_load, LOAD)
    rho = load / servers
    _stable(rho, f"offered_load={np.max(load):g} and servers={servers}")
    return 1 / (rho + (1 - rho) * _one_over_b(servers, load))


def _one_over_b(servers: int, load):
    """1/B_k = 1 + (k / load) / B_k-1: no factorial to overflow, only positive terms, so no digits lost."""
    inverse = 1.0
    with np.errstate(over="ignore"):  # 1/B beyond 1e308 means that B is 0 in floating point
        for k in range(1, servers + 1):
            inverse = 1.0 + k / load * inverse
    return inverse


@dataclass(frozen=True)
class MG1(_Open):
    """Poisson arrivals, any service law, one server (Pollaczek 1930, Khinchin 1932).

    The means depend on the service law through `service_mean` (s) and `service_scv` (variance over squared
    mean) alone. `arrival_rate` in 1/s, a number or an array. The distribution of the wait needs the whole
    law: `MG1.of_law(arrival_rate, law)`.
    """

    arrival_rate: Any
    service_mean: float
    service_scv: float
    service_law: Any = field(default=None, kw_only=True, repr=False)

    def __post_init__(self):
        super().__post_init__()
        _set(self, service_scv=_one("service_scv", _not_negative("service_scv", self.service_scv, SCV)))

    @staticmethod
    def of_law(arrival_rate, service_law) -> "MG1":
        """M/G/1 with a service law of `workload` (or anything with .mean, .scv and .lst(s) for complex s)."""
        law = _law("service_law", service_law)
        return MG1(arrival_rate, law.mean, law.scv, service_law=law)

    @property
    def mean_residual(self):
        """Mean rest (s) of a service that an arrival finds going on: E[S**2] / (2 E[S])."""
        return self.service_mean * (1 + self.service_scv) / 2

    @property
    def wait_probability(self):
        """P(waiting time > 0): the utilisation."""
        return self.utilisation

    @property
    def mean_wait(self):
        """Mean waiting time, s, over all requests: rho / (1 - rho) * mean_residual."""
        return self.utilisation / (1 - self.utilisation) * self.mean_residual

    @property
    def mean_response_processor_sharing(self):
        """Mean response time (s) if all present share the server equally: E[S] / (1 - rho), whatever the SCV.

        Not first come, first served (Sakata, Noguchi and Oizumi 1971).
        """
        return self.service_mean / (1 - self.utilisation)

    def wait_cdf(self, t):
        """P(waiting time <= t seconds), one rate; needs `MG1.of_law`.

        Numerical inversion (Abate and Whitt 1995, algorithm Euler) of the transform of Pollaczek and Khinchin:
        within 1e-10 where the service law has a density, 1e-4 close to the jumps of one that has none.
        """
        rate, rho, law = _one("arrival_rate", self.arrival_rate), self.utilisation, self.service_law
        if law is None:
            raise TypeError("service_law=None leaves the wait's law open; use MG1.of_law(arrival_rate, law).")

        def tail_transform(s):
            return (1 - (1 - rho) * s / (s - rate * (1 - law.lst(s)))) / s

        def cdf(t):
            if t <= 0 or t == math.inf:
                return 0.0 if t < 0 else 1.0 if t > 0 else 1 - rho
            return 1 - _euler(tail_transform, t)

        return _plain(np.vectorize(cdf, otypes=[float])(_time(t)))

    def wait_quantile(self, p):
        """The waiting time (s) that a share p of the requests does not exceed; the root of wait_cdf."""
        return _quantile_above(0.0, self.mean_residual, self.wait_cdf, p)


def _euler(transform: Callable, t: float) -> float:
    """f(t) > 0 from its Laplace transform: an alternating series, its last partial sums averaged."""
    plain, averaged, a = 40, 15, 24.0  # leaves exp(-a)
    k = np.arange(plain + averaged + 1)
    terms = np.where(k % 2, -1, 1) * transform((a + 2j * np.pi * k) / (2 * t)).real
    terms[0] /= 2
    binomial = [math.comb(averaged, j) / 2**averaged for j in range(averaged + 1)]
    return math.exp(a / 2) / t * float(np.cumsum(terms)[plain:] @ binomial)


@dataclass(frozen=True)
class MD1(MG1):
    """Poisson arrivals, constant service, one server (Erlang 1909), with its waiting-time distribution.

    `arrival_rate` in 1/s: one number, or for the means an array; `service_mean` in s.
    """

    service_scv: float = field(default=0.0, init=False, repr=False)

    @cached_property
    def _levels(self):
        """P(more than m in the system), m = 0 .. 63, and the ratio by which it falls to the last digit beyond.

        A level is crossed upwards as often as downwards. With A arrivals during a service, p[n+1] P(A = 0) =
        p[0] P(A > n) + the sum over i = 1 .. n of p[i] P(A > n + 1 - i).
        """
        from scipy.special import pdtrc

        rho = _one("arrival_rate", self.utilisation)
        more = pdtrc(np.arange(64), rho)  # P(A > m)
        p = np.zeros(64)
        p[0] = 1 - rho
        for n in range(63):
            p[n + 1] = (p[0] * more[n] + p[1 : n + 1] @ more[n:0:-1]) * math.exp(rho)
        ratio = p[63] / p[62] if p[62] > 0 else 0.0
        beyond = p[63] * ratio / (1 - ratio)
        return np.append(np.cumsum(p[:0:-1])[::-1] + beyond, beyond), ratio

    def wait_cdf(self, t):
        """P(waiting time <= t seconds), one rate (Franx 2001).

        With t in the k-th service time from 0, the wait is longer if the queue plus the Poisson arrivals in
        what is left of that service time exceed k. Positive terms only: the alternating sum of Erlang (1909)
        loses all digits beyond about 25 services.
        """
        from scipy.special import gammaln, xlogy

        tail, ratio = self._levels
        services = np.asarray(_time(t))[..., None] / self.service_mean
        k = np.floor(np.clip(services, 0, 1e15))
        left = np.clip(k + 1 - services, 0, 1) * self.utilisation
        j = np.arange(32)  # arrivals in the rest of a service: on average less than 1
        arrive = np.exp(xlogy(j, left) - left - gammaln(j + 1))
        in_system = k - j + 1
        table = tail[np.clip(in_system, 0, 63).astype(int)] * ratio ** np.maximum(in_system - 63, 0)
        longer = (arrive * np.where(in_system < 1, 1.0, table)).sum(axis=-1)
        return _plain(np.where(services[..., 0] < 0, 0.0, 1 - longer))

    def response_cdf(self, t):
        """P(response time <= t seconds)."""
        return self.wait_cdf(np.asarray(_time(t)) - self.service_mean)

    def response_quantile(self, p):
        """The response time (s) that a share p of the requests does not exceed."""
        return self.wait_quantile(p) + self.service_mean


@dataclass(frozen=True)
class MDc(_Open):
    """Poisson arrivals, constant service, `servers` servers and one queue.

    One `arrival_rate` in 1/s; `service_mean` in s.
    """

    arrival_rate: float
    service_mean: float
    servers: int

    @cached_property
    def mean_wait(self):
        """Mean waiting time, s: the sum over n of E[(n D - Gamma(n c))+] / n (Spitzer 1956).

        Every c-th request meets the same server, so their waits are a random walk that steps by D minus c
        interarrival times and is held at 0. 64 terms are added; what follows is so smooth in n that an integral
        stands for the sum (Gregory's formula), panel after panel until one no longer counts.
        """
        first, edge = self._spitzer(np.arange(1.0, 67.0)), 64.5
        total = first[:64].sum() + first[62:] @ [17, -291, 291, -17] / 5760
        x, weight = np.polynomial.legendre.leggauss(20)
        while True:
            panel = 0.5 * edge * (weight @ self._spitzer(edge * (1.5 + 0.5 * x)))
            total, edge = total + panel, 2 * edge
            if panel <= 1e-16 * total:
                return float(total * self.service_mean)

    def _spitzer(self, n):
        """E[(n D - Gamma(n c))+] / (n D), with m = n c: P(Poisson(m rho) = m) times the integral over y > 0 of
        m (1 - exp(-y)) exp(-m (y - rho (1 - exp(-y)))). The usual difference of gamma functions loses all digits
        near rho = 1; here no term is negative.
        """
        from scipy.special import gammaln

        rho = _one("arrival_rate", self.utilisation)
        idle, m = 1 - rho, n * self.servers
        stirling = np.log(2 * np.pi * m) / 2 + (1 / 12 - (1 / 360 - 1 / 1260 / m**2) / m**2) / m
        log_factorial = np.where(m < 50, gammaln(m + 1) - m * np.log(m) + m, stirling)  # of m! / (m / e)**m
        density = np.exp(m * (np.log(rho) + idle) - log_factorial)
        m = m[:, None]
        x, weight = np.polynomial.legendre.leggauss(16)
        edges = np.array([0.0, 3, 8, 20, 45, 90])[:, None]
        width = 1 / (m * idle + np.sqrt(m))  # the integrand's own scale
        y = width * (edges[:-1] + np.diff(edges, axis=0) * (1 + x) / 2).ravel()
        weight = (np.diff(edges, axis=0) * weight / 2).ravel()
        less = np.expm1(-y)
        return density * ((-less * np.exp(-m * (idle * y + rho * (y + less)))) @ weight) * (m * width)[:, 0]


@dataclass(frozen=True)
class GM1(_ExponentialResponse):
    """Independent interarrival times of any law, exponential service, one server (Kendall 1953).

    P(wait > t) = sigma exp(-(1 - sigma) mu t), mu = 1 / service_mean. `interarrival_law` is a law of
    `workload` (or anything with .mean in s, .scv and .lst(s) = E[exp(-s X)]); `service_mean` in s.
    """

    interarrival_law: Any
    service_mean: float

    def __post_init__(self):
        _law("interarrival_law", self.interarrival_law)
        _positive("interarrival_law.mean", self.interarrival_law.mean, SECONDS)
        self._check_service()

    @property
    def arrival_rate(self) -> float:
        """Requests per second: one over the mean interarrival time."""
        return 1 / self.interarrival_law.mean

    def at_rate(self, arrival_rate):
        """The same system with its interarrival times stretched to another arrival rate (1/s)."""
        rate = _one("arrival_rate", _positive("arrival_rate", arrival_rate, RATE))
        return replace(self, interarrival_law=self.interarrival_law.scaled(self.arrival_rate / rate))

    @cached_property
    def root(self) -> float:
        """sigma, the root inside (0, 1) of sigma = lst(mu (1 - sigma)); 1 is a root too, never the answer."""
        from scipy.optimize import brentq

        def excess(d):  # d = 1 - sigma: 0 at d = 0, then negative, and positive from the root sought on
            return d - 1 + float(self.interarrival_law.lst(d / self.service_mean))

        low = 0.5
        while excess(low) > 0:
            low /= 2
        d = brentq(excess, low, 1.0, xtol=1e-300, rtol=1e-15) if excess(1.0) > 0 else 1.0
        return float(self.interarrival_law.lst(d / self.service_mean))

    @property
    def wait_probability(self) -> float:
        """P(waiting time > 0) = sigma."""
        return self.root

    @property
    def _decay(self):
        return (1 - self.root) / self.service_mean


# An approximation and a bound ------------------------------------------------------------------------------


def vut_wait(utilisation, service_mean, arrival_scv, service_scv, servers=1):
    """Approximate mean waiting time (s) in G/G/c: variability times utilisation times time.

    (ca2 + cs2) / 2 * u**(sqrt(2 (c + 1)) - 1) / (c (1 - u)) * service_mean: Kingman (1961) for one server,
    Sakasegawa (1977) for c, the VUT equation of Hopp and Spearman's Factory Physics. Exact for M/G/1, and no
    bound. Arguments may be arrays and broadcast.
    """
    u, service, ca2, cs2 = _general(utilisation, service_mean, arrival_scv, service_scv)
    c = _counts("servers", servers, SERVERS)
    return (ca2 + cs2) / 2 * u ** ((2 * (c + 1)) ** 0.5 - 1) / (c * (1 - u)) * service


def kingman_bound(utilisation, service_mean, arrival_scv, service_scv):
    """Upper bound of the mean waiting time (s) in G/G/1 (Kingman 1962).

    lambda (var(interarrival time) + var(service time)) / (2 (1 - u)), which with lambda = u / service_mean is
    (ca2 / u + u cs2) / (2 (1 - u)) * service_mean. Arguments may be arrays and broadcast.
    """
    u, service, ca2, cs2 = _general(utilisation, service_mean, arrival_scv, service_scv)
    return (ca2 / u + u * cs2) / (2 * (1 - u)) * service


def _general(utilisation, service_mean, arrival_scv, service_scv):
    return (
        _share("utilisation", utilisation, BUSY),
        _positive("service_mean", service_mean, SECONDS),
        _not_negative("arrival_scv", arrival_scv, SCV),
        _not_negative("service_scv", service_scv, SCV),
    )


# Closed loops ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MachineRepairman:
    """`users` who think, send a request and wait for its answer; one exponential server (Palm 1947).

    Exact for any law of the think time with mean `think_mean` (s, may be 0). `service_mean` in s.
    """

    users: int
    think_mean: float
    service_mean: float

    def __post_init__(self):
        _set(
            self,
            users=_count("users", self.users, USERS),
            think_mean=_one("think_mean", _not_negative("think_mean", self.think_mean, SECONDS_OR_0)),
            service_mean=_one("service_mean", _positive("service_mean", self.service_mean, SECONDS)),
        )

    @property
    def utilisation(self) -> float:
        """Busy share of the server: 1 - ErlangB(users, think_mean / service_mean)."""
        return 1 - erlang_b(self.users, self.think_mean / self.service_mean) if self.think_mean else 1.0

    @property
    def throughput(self) -> float:
        """Requests per second."""
        return self.utilisation / self.service_mean

    @property
    def mean_response(self) -> float:
        """Mean response time, s: users / throughput - think_mean (interactive response-time law)."""
        return self.users / self.throughput - self.think_mean

    @property
    def mean_wait(self) -> float:
        """Mean waiting time, s."""
        return self.mean_response - self.service_mean

    @property
    def mean_in_system(self) -> float:
        """Mean number of requests waiting or in service (Little 1961)."""
        return self.throughput * self.mean_response

    @property
    def saturation_users(self) -> float:
        """N* = (think_mean + service_mean) / service_mean, where the asymptotes of the throughput cross."""
        return (self.think_mean + self.service_mean) / self.service_mean


class MeanValues(NamedTuple):
    """Means of a closed network with 1, 2, ... users: one row for each, one column for each station."""

    throughput: np.ndarray  # (users,) cycles per second
    response_s: np.ndarray  # (users,) all stations together, without the think time
    in_station: np.ndarray  # (users, stations) mean number of users waiting or in service
    utilisation: np.ndarray  # (users, stations)


def mva(users, think_mean_s, demands_s) -> MeanValues:
    """Exact mean-value analysis of a closed network, for every number of users up to `users`.

    `demands_s[k]` is the mean service (s) that one cycle needs at station k: visits times service time. Exact
    for exponential first-come-first-served stations and for processor sharing (Reiser and Lavenberg 1980):
    response[k] = demand[k] * (1 + the mean number at k with one user fewer).
    """
    users = _count("users", users, USERS)
    think = _one("think_mean_s", _not_negative("think_mean_s", think_mean_s, SECONDS_OR_0))
    demands = np.atleast_1d(_not_negative("demands_s", demands_s, "give seconds for each station"))
    if demands.ndim != 1 or not demands.any():
        raise ValueError(
            f"demands_s={demands_s!r:.60} holds no work; give one row of seconds, not all of them 0."
        )
    response = np.empty((users, len(demands)))
    number, throughput = np.zeros_like(response), np.empty(users)
    for n in range(users):
        response[n] = demands * (1 + (number[n - 1] if n else 0))
        throughput[n] = (n + 1) / (think + response[n].sum())
        number[n] = throughput[n] * response[n]
    return MeanValues(throughput, response.sum(axis=1), number, throughput[:, None] * demands)


# Batches ---------------------------------------------------------------------------------------------------


def batch_capacity(fixed_s, per_item_s, cap=math.inf) -> float:
    """Requests per second of a server with full batches only: cap / (fixed_s + per_item_s * cap).

    A batch of b takes fixed_s + per_item_s * b seconds. `cap` may be math.inf.
    """
    fixed, per_item = _batch_times(fixed_s, per_item_s)
    if cap == math.inf:
        return 1 / per_item if per_item else math.inf
    cap = _count("cap", cap, "give the largest batch, 1 or more")
    return cap / (fixed + per_item * cap)


def _batch_times(fixed_s, per_item_s) -> tuple[float, float]:
    fixed = _one("fixed_s", _not_negative("fixed_s", fixed_s, SECONDS_OR_0))
    per_item = _one("per_item_s", _not_negative("per_item_s", per_item_s, SECONDS_OR_0))
    if fixed + per_item == 0:
        raise ValueError("fixed_s=0 and per_item_s=0 make a service without time; give one of them above 0.")
    return fixed, per_item


@dataclass(frozen=True)
class DynamicBatching:
    """Poisson arrivals; a free server takes what is waiting, at most `cap` requests, and waits for no more.

    A batch of b takes fixed_s + per_item_s * b seconds. Exact, by the Markov chain of the number waiting when
    a batch ends (Neuts 1967; `batching_chain`). One `arrival_rate` in 1/s. The means take about 1 ms.
    """

    arrival_rate: float
    fixed_s: float
    per_item_s: float
    cap: int

    def __post_init__(self):
        rate = _one("arrival_rate", _positive("arrival_rate", self.arrival_rate, RATE))
        fixed, per_item = _batch_times(self.fixed_s, self.per_item_s)
        cap = _count("cap", self.cap, "give the largest batch, 1 or more")
        _set(self, arrival_rate=rate, fixed_s=fixed, per_item_s=per_item, cap=cap)
        if rate >= self.capacity:
            raise ValueError(
                f"arrival_rate={rate:g} reaches the capacity {self.capacity:g} of batches of {cap}, and the "
                "queue grows for ever; lower the arrival rate, raise cap or shorten the service."
            )

    def at_rate(self, arrival_rate):
        """The same system at another arrival rate (1/s)."""
        return replace(self, arrival_rate=arrival_rate)

    @property
    def capacity(self) -> float:
        """Requests per second with full batches only; the arrival rate stays below it."""
        return batch_capacity(self.fixed_s, self.per_item_s, self.cap)

    @cached_property
    def _service_s(self):
        return self.fixed_s + self.per_item_s * np.arange(1, self.cap + 1)

    @cached_property
    def _ends(self):
        return batching_chain.solve(self.arrival_rate, self._service_s)

    @cached_property
    def _means(self):
        return batching_chain.means(self.arrival_rate, self._service_s, self._ends)

    @property
    def mean_batch(self) -> float:
        """Mean number of requests in a batch, each batch counted once."""
        return self._means.batch

    @property
    def utilisation(self) -> float:
        """Busy share of the server; more than arrival_rate / capacity, as small batches use it badly."""
        return self._means.busy_s / self._means.cycle_s

    @property
    def mean_in_system(self) -> float:
        """Mean number of requests waiting or in service."""
        return self._means.in_system

    @property
    def mean_response(self) -> float:
        """Mean response time, s (Little 1961)."""
        return self.mean_in_system / self.arrival_rate

    @property
    def mean_wait(self) -> float:
        """Mean waiting time, s: the response time without the service of the batch one is in."""
        return self.mean_response - self._means.service_s

    def response_cdf(self, t):
        """P(response time <= t seconds): the attainment of a target. Takes 12 ms at cap 32, 0.2 s at 128."""

        def cdf(t):
            return batching_chain.within(t, self.arrival_rate, self._service_s, self._ends)

        return _plain(np.vectorize(cdf, otypes=[float])(_time(t)))

    def response_quantile(self, p):
        """The response time (s) that a share p of the requests does not exceed; the root of response_cdf."""
        alone = self._service_s[0]  # the least, and that of each request that finds the server idle
        return _quantile_above(alone, self.mean_response, self.response_cdf, p)


# The same questions turned round ---------------------------------------------------------------------------


def largest_rate(model, target_s, quantity="response", p=None) -> float:
    """The largest arrival rate (1/s) at which `model` keeps its mean or quantile within `target_s` seconds.

    `model` is an open queue of this module at any rate; what counts is the rest of it. `quantity` is
    "response" or "wait"; `p` is None for the mean, or 0.99 for P99. A bracketed root, to 1e-12 of the capacity.
    """
    from scipy.optimize import brentq

    if not hasattr(model, "at_rate"):
        raise TypeError(
            f"model={model!r:.60} has no arrival rate to vary; give an open queue, as MM1(1, 0.2)."
        )
    excess = _excess(target_s, quantity, p)

    def at_load(load):
        return excess(model.at_rate(load * model.capacity))

    low, high = 1e-9, 1 - 1e-12
    if at_load(low) > 0:
        raise ValueError(
            f"target_s={target_s:g} is not met even by an empty system; allow more time or "
            "shorten the service."
        )
    load = high if at_load(high) <= 0 else brentq(at_load, low, high, xtol=1e-13)
    return load * model.capacity


def smallest_servers(arrival_rate, service_mean, target_s, quantity="response", p=None) -> int:
    """The smallest number of servers with which M/M/c keeps its mean or quantile within `target_s` seconds.

    `arrival_rate` in 1/s, `service_mean` in s. `quantity` is "response" or "wait"; `p` is None for the mean,
    or 0.99 for P99. Exact, by doubling and bisection over `MMc`.
    """
    rate = _one("arrival_rate", _positive("arrival_rate", arrival_rate, RATE))
    service = _one("service_mean", _positive("service_mean", service_mean, SECONDS))
    excess = _excess(target_s, quantity, p)
    floor = 0.0 if quantity == "wait" else service * (1 if p is None else -math.log1p(-p))
    reached = quantity == "wait" and p is not None  # a finite number of servers lets 99% not wait at all
    if target_s < floor or target_s == floor and not reached:
        raise ValueError(
            f"target_s={target_s:g} is not met by any number of servers, as it must exceed {floor:g} s; "
            "allow more time or shorten the service."
        )

    def enough(servers):
        return rate * service < servers and excess(MMc(rate, service, servers)) <= 0

    too_few, servers = 0, max(1, int(rate * service))
    while not enough(servers):
        too_few, servers = servers, 2 * servers
    while servers - too_few > 1:
        middle = (too_few + servers) // 2
        too_few, servers = (too_few, middle) if enough(middle) else (middle, servers)
    return servers


def _excess(target_s, quantity, p) -> Callable:
    """A function of a model: positive, at most 1, where it breaks the promise, else 0 or negative."""
    target = _one("target_s", _not_negative("target_s", target_s, "give the longest time allowed in seconds"))
    if quantity not in ("response", "wait"):
        raise ValueError(f'quantity={quantity!r:.60} is unknown; give "response" or "wait".')
    share = None if p is None else _one("p", _share("p", p))

    def excess(model) -> float:
        if share is None:
            mean = getattr(model, f"mean_{quantity}")
            return (mean - target) / max(mean, target)
        if not hasattr(model, f"{quantity}_cdf"):
            raise TypeError(
                f"p={p:g} asks {type(model).__name__} for a quantile of the {quantity} time, which it does "
                "not know; leave p out for the mean, or choose another quantity or model."
            )
        return share - getattr(model, f"{quantity}_cdf")(target)

    return excess


# Runs of finite length -------------------------------------------------------------------------------------


def mm1_transient_wait(arrival_rate, service_mean, customers) -> np.ndarray:
    """E[waiting time] (s) of customers 1 .. `customers` of an M/M/1 queue that starts empty, at any load.

    E[W_n+1] is the sum over k = 1 .. n of E[(S_k)+] / k, with S_k = k services minus k interarrival times
    (Spitzer 1956). The ticks of service that come before the k-th arrival are negative binomial, which gives
    E[(S_k)+].
    """
    from scipy.special import betainc, betaln

    rate = _one("arrival_rate", _positive("arrival_rate", arrival_rate, RATE))
    service = _one("service_mean", _positive("service_mean", service_mean, SECONDS))
    rho = rate * service
    k = np.arange(1.0, _count("customers", customers, "give the number of customers, 1 or more"))
    tie = np.exp(k * np.log(rho) - (2 * k - 1) * np.log1p(rho) - np.log(k) - betaln(k, k))
    step = service / rho * (tie + (rho - 1) * betainc(k, k, rho / (1 + rho)))  # E[(S_k)+] / k
    return np.concatenate([[0.0], np.cumsum(step)])


def mm1_wait_autocorrelation_time(utilisation):
    """Integrated autocorrelation time, in requests, of the stationary waits of M/M/1; a number or an array.

    1 + 2 * the sum of all autocorrelations = (2 + 5 r - 4 r**2 + r**3) / ((2 - r) (1 - r)**2) (Blomqvist 1967,
    Daley 1968). The mean of n waits in a row is as uncertain as that of n over this many independent ones.
    """
    r = _share("utilisation", utilisation, BUSY)
    return (2 + 5 * r - 4 * r**2 + r**3) / ((2 - r) * (1 - r) ** 2)


# Fan-out: a request waits for the slowest of its independent tasks ------------------------------------------

TASKS = "give the number of tasks, 1 or more"


def fan_out_probability(tasks, p):
    """P(at least one of `tasks` does what one does with probability p): 1 - (1 - p)**tasks. Arrays broadcast.

    With p = 0.01: the share of requests that meet some task's P99 (Dean and Barroso 2013).
    """
    return _plain(-np.expm1(_counts("tasks", tasks, TASKS) * np.log1p(-np.asarray(_share("p", p)))))


def fan_out_quantile(task_quantile, tasks, p):
    """The p-quantile of the slowest of `tasks`: one task's quantile at p**(1 / tasks).

    `task_quantile` is a function of a share, such as `law.ppf` or `MM1(8, 0.1).response_quantile`.
    """
    if not callable(task_quantile):
        raise TypeError(
            f"task_quantile={task_quantile!r:.60} cannot be called; give a function such as law.ppf."
        )
    return task_quantile(_share("p", p) ** (1 / _counts("tasks", tasks, TASKS)))


def fan_out_tasks(p, share) -> int:
    """The smallest number of tasks with which a share of the requests meets an event of probability p."""
    p, share = _one("p", _share("p", p)), _one("share", _share("share", share))
    return math.ceil(math.log1p(-share) / math.log1p(-p) * (1 - 1e-12))  # a whole result stays what it is
