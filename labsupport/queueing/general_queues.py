"""Open queues with other laws: M/G/1, M/D/1, M/D/c, G/M/1, an approximation and a bound for G/G.

`labsupport.queueing.theory` is the way in; the units and the errors are described there.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from labsupport.queueing._theory_checks import (
    BUSY,
    RATE,
    SCV,
    SECONDS,
    SERVERS,
    as_counts,
    as_inside,
    as_law,
    as_not_negative,
    as_one,
    as_positive,
    as_time,
    plain,
    quantile_above,
    set_fields,
)
from labsupport.queueing.open_queues import ExponentialResponse, OpenQueue


@dataclass(frozen=True)
class MG1(OpenQueue):
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
        set_fields(
            self, service_scv=as_one("service_scv", as_not_negative("service_scv", self.service_scv, SCV))
        )

    @staticmethod
    def of_law(arrival_rate, service_law) -> "MG1":
        """M/G/1 with a service law of `workload` (or anything with .mean, .scv and .lst(s) for complex s)."""
        law = as_law("service_law", service_law)
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
        rate, rho, law = as_one("arrival_rate", self.arrival_rate), self.utilisation, self.service_law
        if law is None:
            raise TypeError("service_law=None leaves the wait's law open; use MG1.of_law(arrival_rate, law).")

        def tail_transform(s):
            return (1 - (1 - rho) * s / (s - rate * (1 - law.lst(s)))) / s

        def cdf(t):
            if t <= 0 or t == math.inf:
                return 0.0 if t < 0 else 1.0 if t > 0 else 1 - rho
            return 1 - _euler(tail_transform, t)

        return plain(np.vectorize(cdf, otypes=[float])(as_time(t)))

    def wait_quantile(self, p):
        """The waiting time (s) that a share p of the requests does not exceed; the root of wait_cdf."""
        return quantile_above(0.0, self.mean_residual, self.wait_cdf, p)


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

        rho = as_one("arrival_rate", self.utilisation)
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
        services = np.asarray(as_time(t))[..., None] / self.service_mean
        k = np.floor(np.clip(services, 0, 1e15))
        left = np.clip(k + 1 - services, 0, 1) * self.utilisation
        j = np.arange(32)  # arrivals in the rest of a service: on average less than 1
        arrive = np.exp(xlogy(j, left) - left - gammaln(j + 1))
        in_system = k - j + 1
        table = tail[np.clip(in_system, 0, 63).astype(int)] * ratio ** np.maximum(in_system - 63, 0)
        longer = (arrive * np.where(in_system < 1, 1.0, table)).sum(axis=-1)
        return plain(np.where(services[..., 0] < 0, 0.0, 1 - longer))

    def response_cdf(self, t):
        """P(response time <= t seconds)."""
        return self.wait_cdf(np.asarray(as_time(t)) - self.service_mean)

    def response_quantile(self, p):
        """The response time (s) that a share p of the requests does not exceed."""
        return self.wait_quantile(p) + self.service_mean


@dataclass(frozen=True)
class MDc(OpenQueue):
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

        rho = as_one("arrival_rate", self.utilisation)
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
class GM1(ExponentialResponse):
    """Independent interarrival times of any law, exponential service, one server (Kendall 1953).

    P(wait > t) = sigma exp(-(1 - sigma) mu t), mu = 1 / service_mean. `interarrival_law` is a law of
    `workload` (or anything with .mean in s, .scv and .lst(s) = E[exp(-s X)]); `service_mean` in s.
    """

    interarrival_law: Any
    service_mean: float

    def __post_init__(self):
        as_law("interarrival_law", self.interarrival_law)
        as_positive("interarrival_law.mean", self.interarrival_law.mean, SECONDS)
        self._check_service()

    @property
    def arrival_rate(self) -> float:
        """Requests per second: one over the mean interarrival time."""
        return 1 / self.interarrival_law.mean

    def at_rate(self, arrival_rate):
        """The same system with its interarrival times stretched to another arrival rate (1/s)."""
        rate = as_one("arrival_rate", as_positive("arrival_rate", arrival_rate, RATE))
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
    c = as_counts("servers", servers, SERVERS)
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
        as_inside("utilisation", utilisation, BUSY),
        as_positive("service_mean", service_mean, SECONDS),
        as_not_negative("arrival_scv", arrival_scv, SCV),
        as_not_negative("service_scv", service_scv, SCV),
    )
