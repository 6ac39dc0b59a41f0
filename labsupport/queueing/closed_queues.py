"""Closed loops: a fixed number of users who wait for their answers."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from labsupport.queueing._theory_checks import (
    SECONDS,
    SECONDS_OR_0,
    USERS,
    as_count,
    as_not_negative,
    as_one,
    as_positive,
    set_fields,
)
from labsupport.queueing.open_queues import erlang_b


@dataclass(frozen=True)
class MachineRepairman:
    """`users` who think, send a request and wait for its answer; one exponential server (Palm 1947).

    Exact for any law of the think time with mean `think_mean` (s, may be 0). `service_mean` in s.
    """

    users: int
    think_mean: float
    service_mean: float

    def __post_init__(self):
        set_fields(
            self,
            users=as_count("users", self.users, USERS),
            think_mean=as_one("think_mean", as_not_negative("think_mean", self.think_mean, SECONDS_OR_0)),
            service_mean=as_one("service_mean", as_positive("service_mean", self.service_mean, SECONDS)),
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
    users = as_count("users", users, USERS)
    think = as_one("think_mean_s", as_not_negative("think_mean_s", think_mean_s, SECONDS_OR_0))
    demands = np.atleast_1d(as_not_negative("demands_s", demands_s, "give seconds for each station"))
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
