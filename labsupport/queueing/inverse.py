"""The same questions turned round: how much load, or how many servers, a promise allows."""

import math
from collections.abc import Callable

from labsupport.queueing._theory_checks import RATE, SECONDS, as_inside, as_not_negative, as_one, as_positive
from labsupport.queueing.open_queues import MMc


def largest_rate(model, target_s, quantity="response", p=None) -> float:
    """The largest arrival rate (1/s) at which `model` keeps its mean or quantile within `target_s` seconds.

    `model` is an open queue of `theory` at any rate; what counts is the rest of it. `quantity` is
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
    rate = as_one("arrival_rate", as_positive("arrival_rate", arrival_rate, RATE))
    service = as_one("service_mean", as_positive("service_mean", service_mean, SECONDS))
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
    target = as_one(
        "target_s", as_not_negative("target_s", target_s, "give the longest time allowed in seconds")
    )
    if quantity not in ("response", "wait"):
        raise ValueError(f'quantity={quantity!r:.60} is unknown; give "response" or "wait".')
    share = None if p is None else as_one("p", as_inside("p", p))

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
