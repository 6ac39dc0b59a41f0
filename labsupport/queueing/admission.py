"""Who is let in: token buckets and thresholds, the gate before a server that could not serve everybody in time."""

import math
from dataclasses import dataclass

import numpy as np

from labsupport.queueing import engine_kernel, simulate


def token_bucket(arrival, rate, burst, cost=1.0):
    """Which requests a token bucket lets through, as a bool array (n,).

    arrival  (n,) times in s, sorted
    rate     tokens that flow in per second, above 0
    burst    tokens that the bucket holds at most, and holds at first; at least the largest cost
    cost     tokens that a request takes out: one number, or one per request (such as its LLM tokens)

    A request that finds fewer tokens than its cost is refused and takes none. So what is let through in any time
    t costs at most burst + rate * t (Turner 1986; the conforming traffic of ITU-T I.371).
    """
    arrival, cost = simulate._inputs(arrival, 0.0)[0], np.asarray(cost, dtype=np.float64)
    for name, value in (("rate", rate), ("burst", burst)):
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float, np.number))
            or not 0 < value < math.inf
        ):
            raise ValueError(f"{name} = {value!r:.40} must be a finite number of tokens above 0.")
    cost = simulate._like("cost", cost, arrival)
    if len(cost) and cost.max() > burst:
        raise ValueError(
            f"cost = {cost.max():g} in row {cost.argmax()} is more than burst = {burst:g}, so that request could "
            "never pass; give a larger burst."
        )
    return simulate._run(
        engine_kernel.token_bucket, len(arrival), [arrival, cost, float(rate), float(burst)], [bool]
    )[0]


@dataclass(frozen=True)
class Admission:
    """Lets a request in while everything is below its threshold, at the engine where it would go.

    max_waiting     requests waiting there
    max_kv_share    share of its KV budget that is held
    max_p99_ttft_s  the 99th percentile of the TTFTs, in s, of the first tokens it wrote in the last `recent_s`
                    seconds (0 if it wrote none); a common setting is 0.8 of the promise

    A threshold that is reached refuses. Judged at the moment of arrival; who is in stays in.
    """

    max_waiting: float = math.inf
    max_kv_share: float = math.inf
    max_p99_ttft_s: float = math.inf
    recent_s: float = 10.0

    def __post_init__(self):
        for name in ("max_waiting", "max_kv_share", "max_p99_ttft_s", "recent_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
                raise TypeError(f"{name} must be a number, not {value!r:.40}.")
            if not value > 0:
                raise ValueError(f"{name} = {value!r} lets nobody in; give a number above 0, or math.inf.")
