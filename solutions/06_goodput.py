# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Exercises 06: SLO attainment and goodput
#
# Each cell with `raise NotImplementedError` is yours. Replace that line, run the cell, then run the check below it.
# A check says what came back, and gives one more hint each time.
#
# The lesson: [06 SLO attainment and goodput](../notebooks/06_goodput.ipynb).

# %%
import numpy as np
from labsupport.lab import exercise
from labsupport.queueing import simulate, theory

check = exercise("06_goodput")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. Attainment, with failures
#
# `response_s` (array, seconds) and `ok` (array of True and False) belong to the requests of one test. A request meets the
# SLO if it succeeded and took at most `slo_s`. What share of the requests met it?


# %%
def attainment(response_s, ok, slo_s):
    """Share of all requests that met the SLO, 0 to 1."""
    ### BEGIN SOLUTION
    return np.mean(ok & (response_s <= slo_s))
    ### END SOLUTION


# %%
check("attainment")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. Goodput (b)
#
# A test of `duration_s` seconds, from 0 on. `arrival` and `finish` (arrays, seconds) and `ok` belong to its requests.
# How many requests per second were completed within the test, each within the SLO?


# %%
def goodput(arrival, finish, ok, slo_s, duration_s):
    """Goodput (b) in requests/s."""
    ### BEGIN SOLUTION
    kept = ok & (finish - arrival <= slo_s) & (finish <= duration_s)
    return np.sum(kept) / duration_s
    ### END SOLUTION


# %%
check("goodput")

# %% [markdown]
# Now the curve: what does it look like for server A (a batch of *b* takes 5 + 0.5 *b* ms, at most 32)? `run(rate)` gives a log of
# 10 seconds of Poisson arrivals, the same unit random numbers at every rate. Return goodput (b) at each of `rates` as a list, with your
# function. In these logs all requests succeed.


# %%
def run(rate, duration_s=10.0):
    """The log of the requests that come within the duration; columns arrival, start and finish."""
    unit = np.random.default_rng(6).standard_exponential(int(rate * duration_s * 1.2) + 100).cumsum()
    return simulate.dynamic_batches(unit[unit < rate * duration_s] / rate, 0.005, 0.0005, 32)


def goodput_curve(rates, slo_s):
    """Goodput (b) in requests/s at each rate, a list."""
    ### BEGIN SOLUTION
    logs = [run(rate) for rate in rates]
    return [goodput(log.arrival, log.finish, np.ones(len(log), bool), slo_s, 10.0) for log in logs]
    ### END SOLUTION


# %%
check("goodput_curve")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. Goodput (a) by bisection, with an interval
#
# `measure(rate)` returns `(value, low, high)`: the attainment at that rate, and its 95% interval. All three fall as the rate
# grows, and between the rates `low` and `high` each falls through `target`. Return three rates, each to 0.1 requests/s:
# where the value, the lower end and the upper end fall through the target.


# %%
def largest_rate(measure, target, low, high):
    """Goodput (a) in requests/s as (value, lower end, upper end)."""
    ### BEGIN SOLUTION

    def falls(end):
        keeps, fails = low, high
        while fails - keeps > 0.01:
            middle = (keeps + fails) / 2
            if measure(middle)[end] >= target:
                keeps = middle
            else:
                fails = middle
        return keeps

    return falls(0), falls(1), falls(2)
    ### END SOLUTION


# %%
def measure_a(rate):
    """Exact attainment of 50 ms by server A, with an interval as from 1,000 independent requests."""
    value = float(theory.DynamicBatching(rate, 0.005, 0.0005, 32).response_cdf(0.05))
    half = 1.96 * np.sqrt(value * (1 - value) / 1000)
    return value, value - half, value + half


check("largest_rate")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. TPOT against ITL
#
# `first_token` and `finish` (arrays, seconds) and `tokens` (array, output tokens) belong to finished requests. The mean
# TPOT gives each request the same weight, the mean ITL each gap between two tokens. A request of one token has no gap.


# %%
def mean_tpot(first_token, finish, tokens):
    """Mean over requests of the time per output token, s."""
    ### BEGIN SOLUTION
    some = tokens >= 2
    return np.mean((finish - first_token)[some] / (tokens[some] - 1))
    ### END SOLUTION


# %%
check("mean_tpot")


# %%
def mean_itl(first_token, finish, tokens):
    """Mean over gaps of the time between two tokens, s."""
    ### BEGIN SOLUTION
    return np.sum(finish - first_token) / np.sum(tokens - 1)
    ### END SOLUTION


# %%
check("mean_itl")

# %% [markdown]
# A report says: mean TPOT 77.9 ms and mean ITL 38.1 ms, in one run. What explains it? Write one letter.
#
# - `"a"`: one of the two clocks is wrong.
# - `"b"`: requests with few output tokens were slower per token than those with many.
# - `"c"`: requests with many output tokens were slower per token than those with few.

# %%
### BEGIN SOLUTION
explanation = "b"
### END SOLUTION

# %%
check("explanation")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. Percentiles do not add
#
# `queue_s` and `decode_s` (arrays, seconds) are the times of two stages; element `i` of both belongs to request `i`. By how much
# is the sum of the two P99s larger than the P99 of the whole request? (Negative where it is smaller.) Take `np.quantile`.


# %%
def p99_gap(queue_s, decode_s):
    """Sum of the P99s minus P99 of the sum, s."""
    ### BEGIN SOLUTION
    apart = np.quantile(queue_s, 0.99) + np.quantile(decode_s, 0.99)
    return apart - np.quantile(queue_s + decode_s, 0.99)
    ### END SOLUTION


# %%
check("p99_gap")

# %% [markdown]
# Every stage keeps its P99 within its budget, and the budgets add up to the SLO. Does P99 of the whole request keep the SLO?
# Write `"always"`, `"never"` or `"not always"`.

# %%
### BEGIN SOLUTION
budget = "not always"
### END SOLUTION

# %%
check("budget")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. A fixed number of requests
#
# A tool sends `n` requests, evenly spaced at `rate` per second: number 1 after 1/rate seconds, number `n` after n/rate. The server completes
# `capacity` per second, fewer than come in: number `n` is served n/capacity seconds after the begin. Return the time from
# arrival to that moment for the last request, and the mean over all requests for large `n` (half of it), in seconds.


# %%
def reported_wait(n, rate, capacity):
    """(last, mean) in s."""
    ### BEGIN SOLUTION
    last = n / capacity - n / rate
    return last, last / 2
    ### END SOLUTION


# %%
check("reported_wait")

# %% [markdown]
# Another tool divides the number of requests by the time from the first arrival to the *last finish*. The requests come at
# `rate` per second, and the last one finishes `drain_s` seconds after the last arrival. Which rate does it report?


# %%
def achieved_rate(n, rate, drain_s):
    """Requests/s that the tool calls achieved."""
    ### BEGIN SOLUTION
    return n / (n / rate + drain_s)
    ### END SOLUTION


# %%
check("achieved_rate")

# %% [markdown]
# | report | requests | offered | achieved | what else it says |
# |---|---|---|---|---|
# | a | 1,000 | 200 /s | 2.3 /s | TTFT grows from the first request to the last, to 430 s |
# | b | 10,000 | 15 /s | 13.65 /s | P99 TTFT 233 ms; the last answer ends 65.8 s after the last arrival |
# | c | 2,000 | 2,000 /s | 1,511 /s | mean response 0.18 s; with 4,000 requests 0.34 s |
# | d | 601 | 20 /s | 20 /s | 441 refused at once; P99 TTFT of the others as at low load |
#
# Which servers got more than they could serve to the end? Write the letters in order, such as `"ab"`.

# %%
### BEGIN SOLUTION
overloaded = "acd"
### END SOLUTION

# %%
check("overloaded")
