# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Exercises 03: Head-of-line blocking
#
# Each cell with `raise NotImplementedError` is yours. Replace that line, run the cell, then run the check below it.
# A check says what came back, and gives one more hint each time.
#
# The lesson: [03 Head-of-line blocking](../notebooks/03_head_of_line.ipynb).

# %%
import numpy as np
from labsupport.lab import exercise
from labsupport.queueing import simulate

check = exercise("03_head_of_line")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. The mean wait
#
# One server, Poisson arrivals, first come, first served. You know the utilisation, the mean service time in s, and the
# *coefficient of variation* of the service time (standard deviation / mean, not squared). How long is the mean waiting
# time in s?

# %%
def mean_wait(utilisation, service_mean, service_cv):
    """Mean waiting time in s."""
    ### BEGIN SOLUTION
    return utilisation / (1 - utilisation) * (1 + service_cv**2) / 2 * service_mean
    ### END SOLUTION


# %%
check("mean_wait")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. The mean wait from a log
#
# `service` holds the service times of a log (array, s). Requests arrive as a Poisson process with `arrival_rate`
# (requests/s). How long will the mean waiting time be, in s? Take the averages over the log as they are. Raise a
# `ValueError` if the server cannot keep up.

# %%
def wait_from_sample(arrival_rate, service):
    """Mean waiting time in s."""
    ### BEGIN SOLUTION
    utilisation = arrival_rate * np.mean(service)
    if utilisation >= 1:
        raise ValueError(f"the utilisation is {utilisation:g}; lower the arrival rate")
    return arrival_rate * np.mean(service**2) / (2 * (1 - utilisation))
    ### END SOLUTION


# %%
check("wait_from_sample")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. What an arrival finds
#
# An arrival finds the server busy. How many seconds of the service in progress are left, on average?

# %%
def mean_rest(service):
    """Mean rest in s of the service that an arrival finds in progress."""
    ### BEGIN SOLUTION
    return np.mean(service**2) / (2 * np.mean(service))
    ### END SOLUTION


# %%
check("mean_rest")

# %% [markdown]
# What share of the arrivals that find the server busy find a service longer than `longer_than` seconds (its whole length)?

# %%
def share_behind(service, longer_than):
    """Share, from 0 to 1, of the busy time that belongs to services longer than `longer_than` s."""
    ### BEGIN SOLUTION
    return np.sum(service[service > longer_than]) / np.sum(service)
    ### END SOLUTION


# %%
check("share_behind")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. Half the load, or less variance?
#
# The server of the lesson: median 120 tokens, 6 ms per token. `gap` and `z` are unit random numbers for 20 runs of 10,000
# requests: interarrival times of mean 1, and standard normals. A lognormal length is `median * np.exp(sigma * z)`.
# Return the P99 of the waiting time in s: the mean over the runs of each run's P99. Use `simulate.fcfs_waits(gaps, services)`,
# which takes interarrival times and service times in s and returns waiting times, all shaped (runs, requests).

# %%
rng = np.random.default_rng(3)
gap = rng.standard_exponential((20, 10_000))
z = rng.standard_normal((20, 10_000))


# %%
def p99_wait(arrival_rate, sigma, median_tokens=120, ms_per_token=6):
    """P99 of the waiting time in s: the mean over all runs."""
    ### BEGIN SOLUTION
    service = median_tokens * np.exp(sigma * z) * ms_per_token / 1000
    wait = simulate.fcfs_waits(gap / arrival_rate, service)
    return np.mean(np.quantile(wait, 0.99, axis=1))
    ### END SOLUTION


# %%
check("p99_wait")

# %% [markdown]
# Requests come at 0.243376 per second, and σ = 1.2. Which helps P99 more: halving the arrival rate (`"load"`), or cutting
# σ to 0.8 at the same median and arrival rate (`"sigma"`)? Or are they worth the same, within 10% (`"same"`)? Let your function answer.

# %%
### BEGIN SOLUTION
half, narrow = p99_wait(0.243376 / 2, 1.2), p99_wait(0.243376, 0.8)
helps_more = "same" if abs(half / narrow - 1) < 0.1 else "load" if half < narrow else "sigma"
### END SOLUTION

# %%
check("helps_more")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. Processor sharing
#
# All requests inside share the server equally. A request would take `alone_s` seconds alone. How long does it take on
# average, in s, at this utilisation? Whatever the SCV of the others.

# %%
def shared_response(alone_s, utilisation):
    """Mean response time in s, under processor sharing, of a request that takes alone_s alone."""
    ### BEGIN SOLUTION
    return alone_s / (1 - utilisation)
    ### END SOLUTION


# %%
check("shared_response")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. Shortest first (stretch)
#
# One server. Whenever it falls free, it takes the shortest request that has arrived, and finishes it. Among equally short
# ones the earlier goes first. `arrival` is sorted; both arrays are in s. Return the waiting time of each request in s, in the
# order of arrival. `heapq` is at hand.

# %%
import heapq


def shortest_first_waits(arrival, service):
    """Waiting time in s of each request."""
    ### BEGIN SOLUTION
    wait, waiting, now, i = np.zeros(len(arrival)), [], 0.0, 0
    while i < len(arrival) or waiting:
        if not waiting:
            now = max(now, arrival[i])
        while i < len(arrival) and arrival[i] <= now:
            heapq.heappush(waiting, (service[i], i))
            i += 1
        _, k = heapq.heappop(waiting)
        wait[k] = now - arrival[k]
        now += service[k]
    return wait
    ### END SOLUTION


# %%
check("shortest_first")
