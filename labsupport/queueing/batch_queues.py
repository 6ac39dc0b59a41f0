"""A server that takes what is waiting as one batch."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from labsupport.queueing import batching_chain
from labsupport.queueing._theory_checks import (
    RATE,
    SECONDS_OR_0,
    as_count,
    as_not_negative,
    as_one,
    as_positive,
    as_time,
    plain,
    quantile_above,
    set_fields,
)


def batch_capacity(fixed_s, per_item_s, cap=math.inf) -> float:
    """Requests per second of a server with full batches only: cap / (fixed_s + per_item_s * cap).

    A batch of b takes fixed_s + per_item_s * b seconds. `cap` may be math.inf.
    """
    fixed, per_item = _batch_times(fixed_s, per_item_s)
    if cap == math.inf:
        return 1 / per_item if per_item else math.inf
    cap = as_count("cap", cap, "give the largest batch, 1 or more")
    return cap / (fixed + per_item * cap)


def _batch_times(fixed_s, per_item_s) -> tuple[float, float]:
    fixed = as_one("fixed_s", as_not_negative("fixed_s", fixed_s, SECONDS_OR_0))
    per_item = as_one("per_item_s", as_not_negative("per_item_s", per_item_s, SECONDS_OR_0))
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
        rate = as_one("arrival_rate", as_positive("arrival_rate", self.arrival_rate, RATE))
        fixed, per_item = _batch_times(self.fixed_s, self.per_item_s)
        cap = as_count("cap", self.cap, "give the largest batch, 1 or more")
        set_fields(self, arrival_rate=rate, fixed_s=fixed, per_item_s=per_item, cap=cap)
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

        return plain(np.vectorize(cdf, otypes=[float])(as_time(t)))

    def response_quantile(self, p):
        """The response time (s) that a share p of the requests does not exceed; the root of response_cdf."""
        alone = self._service_s[0]  # the least, and that of each request that finds the server idle
        return quantile_above(alone, self.mean_response, self.response_cdf, p)
