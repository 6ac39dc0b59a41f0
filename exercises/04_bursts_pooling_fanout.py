# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Exercises 04: bursts, pooling and fan-out
#
# Each cell with `raise NotImplementedError` is yours. Replace that line, run the cell, then run the check below it.
# A check says what came back, and gives one more hint each time.
#
# The lesson: [04 Bursts, pooling and fan-out](../notebooks/04_bursts_pooling_fanout.ipynb).

# %%
import math

import numpy as np
from labsupport.lab import exercise

check = exercise("04_bursts_pooling_fanout")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. Bursts, exactly
#
# One server, exponential service with mean `service_s` [s], independent gaps $A$ between arrivals. `lst` is a function:
# `lst(s)` is $E[e^{-sA}]$. Return $\sigma$, the solution inside (0, 1) of $\sigma = E[e^{-\mu(1-\sigma)A}]$, $\mu = 1/S$.
# The utilisation is below 1. (`scipy.optimize.brentq` is welcome, and so is a loop.)

# %%
def gm1_root(lst, service_s):
    """Probability that an arrival finds the server busy."""
    # Your code here, in place of the next line.
    raise NotImplementedError("gm1_root is still to be written")


# %%
check("root")

# %% [markdown]
# Given $\sigma$, how long does a request wait on average, in seconds?

# %%
def gm1_wait(sigma, service_s):
    """Mean waiting time in s."""
    # Your code here, in place of the next line.
    raise NotImplementedError("gm1_wait is still to be written")


# %%
check("gm1_wait")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. Erlang C for a thousand servers
#
# The probability that a request has to wait in M/M/c. `offered_load` is arrival rate × mean service time, below `servers`.
# It has to work for 8 servers and for 1,000.

# %%
def erlang_c(servers, offered_load):
    """Probability that a request waits."""
    # Your code here, in place of the next line.
    raise NotImplementedError("erlang_c is still to be written")


# %%
check("erlang_c")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. One queue or many
#
# `servers` servers with one shared queue, M/M/c, each `utilisation` busy, mean service time `service_s`. What is the mean
# waiting time in seconds? (Use your `erlang_c`.)

# %%
def shared_wait(servers, utilisation, service_s):
    """Mean waiting time in s with one shared queue."""
    # Your code here, in place of the next line.
    raise NotImplementedError("shared_wait is still to be written")


# %%
check("shared_wait")

# %% [markdown]
# The same servers with a queue each and a router that picks one at random: how many times longer is the mean **wait** than
# with the shared queue?

# %%
def pooling_gain(servers, utilisation):
    """Mean wait with separate queues, divided by the mean wait with one shared queue."""
    # Your code here, in place of the next line.
    raise NotImplementedError("pooling_gain is still to be written")


# %%
check("pooling_gain")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. How many tasks until half the requests are late?
#
# A task is late with probability `p`, independently. A request is late when at least one of its tasks is. What is the
# smallest number of tasks with which at least a share `share` of the requests is late?

# %%
def tasks_until(p, share):
    """Smallest number of tasks, a whole number."""
    # Your code here, in place of the next line.
    raise NotImplementedError("tasks_until is still to be written")


# %%
check("tasks_until")

# %% [markdown]
# Now each task is hedged: when it has not answered after `delay_s`, a copy is sent, and the first answer counts. `tail(t)` is
# the probability that one task takes longer than `t` seconds; it is 1 for `t <= 0`. Task and copy are independent. With what
# probability does a request of `tasks` tasks take longer than `t_s`?

# %%
def share_late(tail, tasks, delay_s, t_s):
    """Probability that the slowest of the hedged tasks takes longer than t_s."""
    # Your code here, in place of the next line.
    raise NotImplementedError("share_late is still to be written")


# %%
check("share_late")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. Index of dispersion
#
# `arrival`: sorted times in seconds. Divide the time into windows of `window_s` seconds, starting at the first arrival
# (an arrival on a border belongs to the window that begins there), and leave out the incomplete last window. Return the
# variance of the counts, with one less than the number of windows in the denominator, divided by their mean.

# %%
def index_of_dispersion(arrival, window_s):
    """Variance / mean of the number of arrivals per window."""
    # Your code here, in place of the next line.
    raise NotImplementedError("index_of_dispersion is still to be written")


# %%
check("dispersion")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. Two tools, one word
#
# Both tools draw gamma gaps and call their parameter `b` "burstiness". In one it is the *shape* of the gamma law, in the
# other the *coefficient of variation* of the gaps. Return the SCV of the gaps; `meaning` is `"shape"` or `"cv"`.

# %%
def arrival_scv(meaning, b):
    """Squared coefficient of variation of the gaps."""
    # Your code here, in place of the next line.
    raise NotImplementedError("arrival_scv is still to be written")


# %%
check("arrival_scv")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. A queue at 20% load
#
# 100 requests/s, 2 ms of work each. The monitor reports a mean wait that Poisson arrivals do not explain. Suppose that
# requests come in bursts of $b$ at one instant, and that each burst is served before the next one comes. Which $b$ gives this
# mean wait? (Return a number; it need not be whole.)

# %%
def burst_size(wait_s, service_s):
    """Requests per burst."""
    # Your code here, in place of the next line.
    raise NotImplementedError("burst_size is still to be written")


# %%
check("burst_size")
