"""What the formulas ask of their input, and the two ways in which they search for a root."""

import math
from collections.abc import Callable

import numpy as np

RATE, SECONDS = "give requests per second above 0", "give seconds above 0"
SECONDS_OR_0 = "give seconds, 0 or more"
SERVERS = "give the number of servers, 1 or more"
USERS = "give the number of users, 1 or more"
LOAD = "give arrival_rate * service_mean"
BUSY = "give the busy share of the servers, such as 0.8"
PERCENTILE = "give a share between 0 and 1, such as 0.99 for P99"
SCV = "give variance over squared mean: 0 for constant, 1 for exponential"


def as_real(name: str, value, remedy: str, good: Callable, what: str):
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


def as_positive(name: str, value, remedy: str):
    if isinstance(value, float) and 0 < value < math.inf:  # the usual case, quickly
        return float(value)
    return as_real(name, value, remedy, lambda x: (x > 0) & (x < np.inf), "a positive finite number")


def as_not_negative(name: str, value, remedy: str):
    return as_real(name, value, remedy, lambda x: (x >= 0) & (x < np.inf), "a finite number from 0 up")


def as_inside(name: str, value, remedy: str = PERCENTILE):
    return as_real(name, value, remedy, lambda x: (x > 0) & (x < 1), "inside (0, 1)")


def as_counts(name: str, value, remedy: str):
    return as_real(name, value, remedy, lambda x: (x >= 1) & (x % 1 == 0), "a whole number from 1 up")


def as_time(value):
    return as_real("t", value, "give seconds", lambda x: ~np.isnan(x), "a time")


def as_one(name: str, value):
    if np.ndim(value):
        raise TypeError(f"{name} has {np.size(value)} values where one is needed; make one call for each.")
    return value


def as_count(name: str, value, remedy: str) -> int:
    if type(value) is int and value > 0:
        return value
    return int(as_one(name, as_counts(name, value, remedy)))


def check_stable(utilisation, loaded: str) -> None:
    if np.any(utilisation >= 1):
        raise ValueError(
            f"{loaded} give a utilisation of {np.max(utilisation):g}, and from 1 on the queue grows for "
            "ever; lower the arrival rate, shorten the service or add servers."
        )


def as_law(name: str, law):
    if not (callable(getattr(law, "lst", None)) and hasattr(law, "mean") and hasattr(law, "scv")):
        raise TypeError(
            f"{name}={law!r:.60} has no .mean, .scv and .lst(s); give a law such as workload.gamma(mean, scv)."
        )
    return law


def set_fields(model, **values) -> None:
    for name, value in values.items():
        object.__setattr__(model, name, value)


def plain(value):
    return value if np.ndim(value) else float(value)


def boundary(above: Callable, low, high):
    """The point of [low, high] from which the condition `above` holds, elementwise, to the last digit."""
    low, high = np.broadcast_arrays(np.asarray(low, dtype=float), high)
    high = np.where(above(low), low, high)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.all((middle <= low) | (middle >= high)):
            break
        is_above = above(middle)
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    return plain(high)


def quantile_above(least: float, step: float, cdf: Callable, p):
    """The p-quantile of a costly distribution without jumps above `least`: doubled steps, then Brent's method."""
    from scipy.optimize import brentq

    def quantile(p):
        if cdf(least) >= p:
            return least
        low, high = least, least + step
        while cdf(high) < p:
            low, high = high, 2 * high
        return brentq(lambda t: cdf(t) - p, low, high, xtol=1e-11 * step, rtol=1e-11)

    return plain(np.vectorize(quantile, otypes=[float])(as_inside("p", p)))
