"""Open queues with Poisson arrivals and exponential service: M/M/1, M/M/c, Erlang, and runs of finite length.

`labsupport.queueing.theory` is the way in; the units and the errors are described there.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from labsupport.queueing._theory_checks import (
    BUSY,
    LOAD,
    RATE,
    SECONDS,
    SERVERS,
    as_count,
    as_inside,
    as_one,
    as_positive,
    as_time,
    boundary,
    check_stable,
    plain,
    set_fields,
)


class OpenQueue:
    """What every open queue shares: its load and Little's law."""

    servers = 1

    def __post_init__(self):
        set_fields(self, arrival_rate=as_positive("arrival_rate", self.arrival_rate, RATE))
        self._check_service()

    def _check_service(self):
        set_fields(
            self, service_mean=as_one("service_mean", as_positive("service_mean", self.service_mean, SECONDS))
        )
        rate, service, servers = self.arrival_rate, self.service_mean, self.servers
        if servers != 1 or type(servers) is not int:
            servers = as_count("servers", servers, SERVERS)
            set_fields(self, servers=servers)
        check_stable(
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


class ExponentialWait(OpenQueue):
    """A wait that is 0 or exponential: P(wait > t) = wait_probability * exp(-_decay * t)."""

    @property
    def mean_wait(self):
        """Mean waiting time, s, over all requests."""
        return self.wait_probability / self._decay

    def wait_cdf(self, t):
        """P(waiting time <= t seconds)."""
        t = np.asarray(as_time(t))
        waiting = self.wait_probability * np.exp(-self._decay * np.maximum(t, 0))
        return plain(np.where(t < 0, 0.0, 1 - waiting))

    def wait_quantile(self, p):
        """The waiting time (s) that a share p of the requests does not exceed; 0 where enough do not wait."""
        over = self.wait_probability / (1 - np.asarray(as_inside("p", p)))
        return plain(np.log(np.maximum(over, 1)) / self._decay)


class ExponentialResponse(ExponentialWait):
    """A wait as above and one exponential server: the response time is exponential with the same decay."""

    def response_cdf(self, t):
        """P(response time <= t seconds)."""
        return plain(-np.expm1(-self._decay * np.maximum(as_time(t), 0)))

    def response_quantile(self, p):
        """The response time (s) that a share p of the requests does not exceed."""
        return plain(-np.log1p(-np.asarray(as_inside("p", p))) / self._decay)


@dataclass(frozen=True)
class MM1(ExponentialResponse):
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
class MMc(ExponentialWait):
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
        t = np.clip(as_time(t), 0, 1e290)
        wait, serve = self._decay, 1 / self.service_mean
        # (exp(-serve t) - exp(-wait t)) / (wait - serve), written so that wait = serve is no special case
        gap = np.maximum(np.abs(wait - serve) * t, 1e-300)
        both = t * np.exp(-np.minimum(wait, serve) * t) * -np.expm1(-gap) / gap
        return plain(-np.expm1(-serve * t) - self.wait_probability * serve * both)

    def response_quantile(self, p):
        """The response time (s) that a share p of the requests does not exceed; the root of response_cdf."""
        p = np.asarray(as_inside("p", p))
        high = self.mean_response / (1 - p)  # Markov: P(T > t) <= E[T] / t
        return boundary(lambda t: self.response_cdf(t) >= p, 0.0, high)


def erlang_b(servers, offered_load):
    """P(a request is lost) with `servers` servers and no queue, for any service law (Erlang 1917).

    `offered_load` = arrival_rate * service_mean, a number or an array; it may exceed `servers`.
    """
    load = as_positive("offered_load", offered_load, LOAD)
    return 1 / _one_over_b(as_count("servers", servers, SERVERS), load)


def erlang_c(servers, offered_load):
    """P(a request waits) in M/M/c: B / (1 - rho (1 - B)) with Erlang's B (Erlang 1917).

    `offered_load` = arrival_rate * service_mean below `servers`, a number or an array.
    """
    servers = as_count("servers", servers, SERVERS)
    load = as_positive("offered_load", offered_load, LOAD)
    rho = load / servers
    check_stable(rho, f"offered_load={np.max(load):g} and servers={servers}")
    return 1 / (rho + (1 - rho) * _one_over_b(servers, load))


def _one_over_b(servers: int, load):
    """1/B_k = 1 + (k / load) / B_k-1: no factorial to overflow, only positive terms, so no digits lost."""
    inverse = 1.0
    with np.errstate(over="ignore"):  # 1/B beyond 1e308 means that B is 0 in floating point
        for k in range(1, servers + 1):
            inverse = 1.0 + k / load * inverse
    return inverse


# Runs of finite length -------------------------------------------------------------------------------------


def mm1_transient_wait(arrival_rate, service_mean, customers) -> np.ndarray:
    """E[waiting time] (s) of customers 1 .. `customers` of an M/M/1 queue that starts empty, at any load.

    E[W_n+1] is the sum over k = 1 .. n of E[(S_k)+] / k, with S_k = k services minus k interarrival times
    (Spitzer 1956). The ticks of service that come before the k-th arrival are negative binomial, which gives
    E[(S_k)+].
    """
    from scipy.special import betainc, betaln

    rate = as_one("arrival_rate", as_positive("arrival_rate", arrival_rate, RATE))
    service = as_one("service_mean", as_positive("service_mean", service_mean, SECONDS))
    rho = rate * service
    k = np.arange(1.0, as_count("customers", customers, "give the number of customers, 1 or more"))
    tie = np.exp(k * np.log(rho) - (2 * k - 1) * np.log1p(rho) - np.log(k) - betaln(k, k))
    step = service / rho * (tie + (rho - 1) * betainc(k, k, rho / (1 + rho)))  # E[(S_k)+] / k
    return np.concatenate([[0.0], np.cumsum(step)])


def mm1_wait_autocorrelation_time(utilisation):
    """Integrated autocorrelation time, in requests, of the stationary waits of M/M/1; a number or an array.

    1 + 2 * the sum of all autocorrelations = (2 + 5 r - 4 r**2 + r**3) / ((2 - r) (1 - r)**2) (Blomqvist 1967,
    Daley 1968). The mean of n waits in a row is as uncertain as that of n over this many independent ones.
    """
    r = as_inside("utilisation", utilisation, BUSY)
    return (2 + 5 * r - 4 * r**2 + r**3) / ((2 - r) * (1 - r) ** 2)
