# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Exercises 00: arrivals
#
# Each cell with `raise NotImplementedError` is yours. Replace that line, run the cell, then run the check below it.
# A check says what came back, and gives one more hint each time.
#
# The lesson: [00 Arrivals](../notebooks/00_arrivals.ipynb).

# %%
import numpy as np
from scipy.special import pdtrc  # pdtrc(k, m) is P(N > k) for a Poisson count with mean m
from labsupport.lab import exercise

check = exercise("00_arrivals")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. How often is the budget exceeded?
#
# Poisson arrivals at `rate` requests/s. What is the probability that **more than** `budget` requests come in a window
# of `window_s` seconds?

# %%
def exceeded(rate, window_s, budget):
    """P(N > budget) in one window."""
    ### BEGIN SOLUTION
    return pdtrc(budget, rate * window_s)
    ### END SOLUTION


# %%
check("exceeded")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. The smallest budget
#
# Return the smallest whole number of requests per window that is exceeded with probability at most `share`.

# %%
def smallest_budget(rate, window_s, share):
    """Smallest whole C with P(N > C) <= share."""
    ### BEGIN SOLUTION
    budget = 0
    while pdtrc(budget, rate * window_s) > share:
        budget += 1
    return budget
    ### END SOLUTION


# %%
check("smallest_budget")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. The Lindley recursion
#
# One server, first come first served. Request `i` arrives at `arrival[i]` and needs `service[i]` seconds. Return the waiting
# time of each request (s), as an array. The first one does not wait.

# %%
def waiting_times(arrival, service):
    """Waiting time of each request in s (Lindley, 1952)."""
    ### BEGIN SOLUTION
    wait = np.zeros(len(arrival))
    for i in range(1, len(arrival)):
        wait[i] = max(0.0, wait[i - 1] + service[i - 1] - (arrival[i] - arrival[i - 1]))
    return wait
    ### END SOLUTION


# %%
check("waiting_times")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. The mean wait with fixed service
#
# Poisson arrivals at `rate` requests/s, one server with capacity `capacity` requests/s, every request takes the same time.
# Return the mean **waiting** time in seconds.

# %%
def mean_wait(rate, capacity):
    """Mean waiting time of M/D/1 in s."""
    ### BEGIN SOLUTION
    load = rate / capacity
    return load / (2 * capacity * (1 - load))
    ### END SOLUTION


# %%
check("mean_wait")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. Is it the queue?
#
# A server does 120 requests per second, one after the other; Poisson arrivals at 100/s. P(N > 120) in one second is 2.3%.
# What share of the requests waits? Choose:
#
# - `"a"`: about 2.3%, since only in those seconds too many come;
# - `"b"`: about 17%, the share of time in which the server is idle;
# - `"c"`: about 83%, the share of time in which the server is busy.

# %%
### BEGIN SOLUTION
who_waits = "c"
### END SOLUTION

# %%
check("who_waits")
