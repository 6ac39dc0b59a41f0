# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Exercises 02: the hockey stick
#
# Each cell with `raise NotImplementedError` is yours. Replace that line, run the cell, then run the check below it.
# A check says what came back, and gives one more hint each time.
#
# Everywhere: one server, Poisson arrivals, exponential service times (M/M/1). Write your own formulas; do not call
# `labsupport.queueing.theory`. The lesson: [02 The hockey stick](../notebooks/02_hockey_stick.ipynb).

# %%
import math

import numpy as np
from labsupport.lab import exercise
from labsupport.queueing import simulate, workload

check = exercise("02_hockey_stick")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. From a promise to an arrival rate
#
# The mean service time is `service_mean` seconds. What is the largest arrival rate (requests/s) at which the *mean*
# response time is at most `target_s` seconds?

# %%
def rate_for_mean(service_mean, target_s):
    """Largest arrival rate in requests/s that keeps the mean response time."""
    # Your code here, in place of the next line.
    raise NotImplementedError("rate_for_mean is still to be written")


# %%
check("rate_for_mean")

# %% [markdown]
# Now a share `p` of the requests (0.99 for P99) must have its *response* within `target_s` seconds. Return 0 where not
# even an idle server keeps that promise.

# %%
def rate_for_quantile(service_mean, target_s, p):
    """Largest arrival rate in requests/s at which a share p has its response in time."""
    # Your code here, in place of the next line.
    raise NotImplementedError("rate_for_quantile is still to be written")


# %%
check("rate_for_quantile")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. Two times, two formulas
#
# The quantile `p` (0.5 for the median, 0.99 for P99) of the waiting time and of the response time, in seconds, at
# utilisation `rho` with mean service time `service_mean` (seconds).

# %%
def wait_quantile(rho, service_mean, p):
    """The waiting time in s that a share p does not exceed."""
    # Your code here, in place of the next line.
    raise NotImplementedError("wait_quantile is still to be written")


# %%
check("wait_quantile")

# %%
def response_quantile(rho, service_mean, p):
    """The response time in s that a share p does not exceed."""
    # Your code here, in place of the next line.
    raise NotImplementedError("response_quantile is still to be written")


# %%
check("response_quantile")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. Find the wrong cells
#
# Lecture notes on serving print this table, with the formula ln(100ρ) / (μ(1 − ρ)) above it:
#
# | cell | utilisation | P99 of the **waiting** time, in mean service times |
# |---|---|---|
# | a | 0.5 | 7.8 |
# | b | 0.7 | 13.4 |
# | c | 0.9 | 46.1 |
#
# Put the right values into a list, in the order a, b, c, to at least three digits.

# %%
# Your code here, in place of the dots.
right_values = ...
rho = ...

# %%
check("right_values")

# %% [markdown]
# Which cells are wrong? Write the letters in order, such as `"ab"`. Then: one of the wrong values is right for another
# quantity at the same utilisation. Which one: `"mean wait"`, `"P95 wait"`, `"mean response"`, `"P95 response"` or
# `"P99 response"`?

# %%
# Your code here, in place of the dots.
wrong_cells = ...
true_name = ...

# %%
check("wrong_cells")

# %%
check("true_name")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. The price of one more point
#
# The utilisation rises from `rho` to `rho + 0.01`; the service stays as it is. By which fraction does the mean response
# time grow? Return 0.05 for 5%.

# %%
def growth(rho):
    """Relative growth of the mean response time for one more point of utilisation."""
    # Your code here, in place of the next line.
    raise NotImplementedError("growth is still to be written")


# %%
check("growth")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. How many GPUs?
#
# `load` requests/s arrive. They are split at random over GPUs that each have their own queue and need `service_mean`
# seconds per request on average. How many GPUs keep the promise "99% of responses within `target_s` seconds"?

# %%
def gpus_needed(load, service_mean, target_s):
    """Smallest number of GPUs whose P99 of the response time is at most target_s."""
    # Your code here, in place of the next line.
    raise NotImplementedError("gpus_needed is still to be written")


# %%
check("gpus_needed")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. The same from a log
#
# A log has arrays `arrival`, `start` (of service) and `finish`, in seconds. No formula here: the log may come from any
# system. Return a list of two numbers, P99 of the waiting time and P99 of the response time, by `np.quantile`.

# %%
rng = np.random.default_rng(2)
quiet = simulate.fcfs(workload.poisson(rng, 1.0, 5000), workload.exponential(0.5).sample(rng, 5000))
busy = simulate.fcfs(workload.poisson(rng, 1.8, 5000), workload.exponential(0.5).sample(rng, 5000))


def both_p99(arrival, start, finish):
    """[P99 of the waiting time, P99 of the response time] in s."""
    # Your code here, in place of the next line.
    raise NotImplementedError("both_p99 is still to be written")


# %%
check("both_p99")
