# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Exercises 08: Coordinated omission
#
# Each cell with `raise NotImplementedError` is yours. Replace that line, run the cell, then run the check below it.
# A check says what came back, and gives one more hint each time.
#
# The lesson: [08 Coordinated omission](../notebooks/08_coordinated_omission.ipynb).

# %%
import numpy as np
from labsupport.lab import exercise

check = exercise("08_coordinated_omission")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. What a stall leaves in the record
#
# A tool has `connections` connections; each sends its next request when the last answer is there. Users come at `rate`
# per second, whatever happens. The server stalls for `stall_s` seconds. How many slow requests does the tool record, how many do
# the users meet, and how many times more is that?

# %%
def slow_requests(connections, rate, stall_s):
    """(recorded by the tool, met by users, users / tool)."""
    ### BEGIN SOLUTION
    users = rate * stall_s
    return connections, users, users / connections
    ### END SOLUTION


# %%
check("slow_requests")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. The right clock
#
# A tool with one connection wants to send at the times `intended` (array, s, sorted). It sends a request when its time has come
# **and** the last answer is there. Request *i* takes `service_s[i]` seconds at the server (array). Return each request's response time
# from its **intended** send, in seconds.

# %%
def from_intended(intended, service_s):
    """Response time of each request in s, counted from its intended send."""
    ### BEGIN SOLUTION
    response, free = [], 0.0
    for due, service in zip(intended, service_s, strict=True):
        free = max(due, free) + service
        response.append(free - due)
    return np.array(response)
    ### END SOLUTION


# %%
check("from_intended")

# %% [markdown]
# Eight requests are intended at 10/s, from 0 s on. Each takes 0.5 s, one at a time, and the tool starts its clock when
# it sends. How long is the wait, on average, that its report does not show, in seconds?

# %%
### BEGIN SOLUTION
hidden_s = float(np.mean(from_intended(np.arange(8) / 10, np.full(8, 0.5))) - 0.5)
### END SOLUTION

# %%
check("hidden")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. Back-filling
#
# `recorded` (array, s) are the latencies of a tool that wanted to send every `interval_s` seconds. After each value *v* add
# *v − i*, *v − 2i*, …, as long as what is added is at least *i* (a hair below *i* counts as *i*: allow 1e-9). Return all values, recorded and added, sorted.

# %%
def back_filled(recorded, interval_s):
    """Recorded and added latencies in s, sorted."""
    ### BEGIN SOLUTION
    values = []
    for v in recorded:
        values.append(v)
        v = v - interval_s
        while v >= interval_s - 1e-9:
            values.append(v)
            v = v - interval_s
    return np.sort(values)
    ### END SOLUTION


# %%
check("back_filled")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. The mean over a run
#
# A run lasts `run_s` seconds. In it the server stalls once, for `stall_s` seconds, and then answers all who came meanwhile at once. Otherwise a
# request takes `base_s`. Users come evenly. What is the mean response time of the run, in seconds?

# %%
def mean_response(stall_s, run_s, base_s):
    """Mean response time in s: base_s, and what is left of the stall for those who come in it."""
    ### BEGIN SOLUTION
    return stall_s**2 / 2 / run_s + base_s
    ### END SOLUTION


# %%
check("mean_response")

# %% [markdown]
# And which response time do only a share of `1 - p` of the users exceed? Leave `base_s` on top, as before. A share
# `1 - stall_s / run_s` comes outside the stall.

# %%
def quantile_response(p, stall_s, run_s, base_s):
    """The p-quantile of the response time in s."""
    ### BEGIN SOLUTION
    return max(stall_s - (1 - p) * run_s, 0.0) + base_s
    ### END SOLUTION


# %%
check("quantile_response")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. Which number does the user see?
#
# | report | |
# |---|---|
# | a | one connection back to back, clock from the actual send, raw values |
# | b | open, 100/s, clock from the intended send |
# | c | 12 requests/s through a cap of 8, clock from when the cap lets go |
# | d | 12 requests/s through a cap of 8, clock from the intended send |
# | e | one connection that wants to send every 10 ms, raw values from the actual send |
#
# The server stalls now and then; users come by themselves. Which reports count the whole wait of a request that was meant to be sent during a
# stall? Letters in order, such as `"ac"`.

# %%
### BEGIN SOLUTION
whole_wait = "bd"
### END SOLUTION

# %%
check("whole_wait")
