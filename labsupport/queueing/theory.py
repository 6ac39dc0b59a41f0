"""Closed forms and exact numerics of queues: the values a simulator has to agree with.

Rates are requests per second and times are seconds. The waiting time ends where the service starts; the
response time is the waiting time plus the service time. Requests are served in order of arrival.

An open queue is a frozen dataclass, such as `MM1(arrival_rate=8, service_mean=0.1)`: its properties are the
stationary means, its methods the distributions. Bad input raises a ValueError or TypeError that names the
argument, its value and the remedy; a utilisation of 1 or more is bad input, as no stationary state exists.

`arrival_rate` of MM1, MMc and MG1 may be an array, and then every answer has one value per rate: the cheap
way to draw a curve. The other models take one rate. `t` and `p` may be arrays in all of them.
"""

from labsupport.queueing.batch_queues import DynamicBatching, batch_capacity
from labsupport.queueing.closed_queues import MachineRepairman, MeanValues, mva
from labsupport.queueing.fan_out import fan_out_probability, fan_out_quantile, fan_out_tasks
from labsupport.queueing.general_queues import GM1, MD1, MG1, MDc, kingman_bound, vut_wait
from labsupport.queueing.inverse import largest_rate, smallest_servers
from labsupport.queueing.open_queues import (
    MM1,
    MMc,
    erlang_b,
    erlang_c,
    mm1_transient_wait,
    mm1_wait_autocorrelation_time,
)

__all__ = [
    "DynamicBatching",
    "GM1",
    "MD1",
    "MDc",
    "MG1",
    "MM1",
    "MMc",
    "MachineRepairman",
    "MeanValues",
    "batch_capacity",
    "erlang_b",
    "erlang_c",
    "fan_out_probability",
    "fan_out_quantile",
    "fan_out_tasks",
    "kingman_bound",
    "largest_rate",
    "mm1_transient_wait",
    "mm1_wait_autocorrelation_time",
    "mva",
    "smallest_servers",
    "vut_wait",
]
