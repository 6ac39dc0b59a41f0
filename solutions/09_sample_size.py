# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Exercises 09: sample size
#
# Each cell with `raise NotImplementedError` is yours. Replace that line, run the cell, then run the check below it.
# A check says what came back, and gives one more hint each time.
#
# Write your own formulas; do not call `labsupport.queueing.statistics`.
# The lesson: [09 Sample size](../notebooks/09_sample_size.ipynb).

# %%
import math

import numpy as np
from labsupport.lab import exercise
from scipy import stats

check = exercise("09_sample_size")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. How long must the test run?
#
# You want `above` requests above the `p`-quantile on average (100 above P99.9: `p` = 0.999). How many requests must the test
# have? Return a whole number: the nearest.

# %%
def requests_needed(p, above):
    """Number of requests of which `above` lie above the p-quantile on average."""
    ### BEGIN SOLUTION
    return round(above / (1 - p))
    ### END SOLUTION


# %%
check("requests_needed")

# %% [markdown]
# They come at `rate` requests/s, after a warm-up of `warmup_s` seconds that does not count. How long does the whole test
# take, in seconds?

# %%
def duration(p, above, rate, warmup_s):
    """Length of the test in s, warm-up included."""
    ### BEGIN SOLUTION
    return warmup_s + requests_needed(p, above) / rate
    ### END SOLUTION


# %%
check("duration")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. The smallest test
#
# What is the smallest number n of independent values for which the *largest* is below the true `p`-quantile with
# probability at most `risk`? (For P99: 0.05 for an upper bound at 95%, 0.025 for an interval with two ends.)

# %%
def smallest_n(p, risk):
    """Smallest number of values whose largest is an upper bound of the p-quantile at this risk."""
    ### BEGIN SOLUTION
    return math.ceil(math.log(risk) / math.log(p))
    ### END SOLUTION


# %%
check("smallest_n")

# %% [markdown]
# A benchmark has `n` iterations and reports a P99. With what probability did it see *anything* above the true P99?
# (`p` is 0.99 then; iterations are independent.)

# %%
def saw_the_tail(n, p):
    """Probability that at least one of n values lies above the p-quantile."""
    ### BEGIN SOLUTION
    return 1 - p**n
    ### END SOLUTION


# %%
check("saw_the_tail")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. An interval for a quantile
#
# The number of values below the true `p`-quantile is binomial(n, p). Return the 95% interval with equal tails: the values
# with the ranks (from 1) `low = stats.binom.ppf(0.025, n, p)` and `high = stats.binom.isf(0.025, n, p) + 1` among the sorted
# values, as a pair; or `None` where one of these ranks does not exist.

# %%
def quantile_interval(values, p):
    """Distribution-free 95% interval (low, high) of the p-quantile, or None."""
    ### BEGIN SOLUTION
    x = np.sort(values)
    n = len(x)
    low = int(stats.binom.ppf(0.025, n, p))
    high = int(stats.binom.isf(0.025, n, p)) + 1
    if low < 1 or high > n:
        return None
    return x[low - 1], x[high - 1]
    ### END SOLUTION


# %%
check("quantile_interval")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. Batch means
#
# `waits` are successive waiting times of one run. Cut them into `batches` batches of equal length (if that does not come out
# even, leave out values at the *start*). Return the half-width of the 95% interval for the mean from the batch means: Student's t with
# `batches − 1` degrees of freedom, `stats.t.ppf(0.975, batches - 1)`.

# %%
def batch_half_width(waits, batches):
    """Half-width of the 95% interval for the mean wait, in the unit of the waits."""
    ### BEGIN SOLUTION
    length = len(waits) // batches
    means = waits[len(waits) - length * batches :].reshape(batches, length).mean(axis=1)
    return stats.t.ppf(0.975, batches - 1) * means.std(ddof=1) / math.sqrt(batches)
    ### END SOLUTION


# %%
check("batch_half_width")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. A against B
#
# `a[i]` and `b[i]` are mean response times in s of run i, with the same requests in both. Return the 95% interval of the mean
# change from A to B (negative: B is faster) as a pair (low, high), with Student's t.

# %%
def change(a, b):
    """95% interval (low, high) of the mean change from a to b, in s."""
    ### BEGIN SOLUTION
    d = b - a
    half = stats.t.ppf(0.975, len(d) - 1) * d.std(ddof=1) / math.sqrt(len(d))
    return d.mean() - half, d.mean() + half
    ### END SOLUTION


# %%
check("change")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. MLPerf's query counts
#
# MLPerf wants the share of late queries known to ± (1 − p)/20 at 99% confidence: z² p (1 − p) / margin² queries to the nearest
# whole one, with z = `stats.norm.ppf(0.995)`; then rounded *up* to a multiple of 8,192.

# %%
def mlperf(p):
    """Number of queries for the p-quantile of latency."""
    ### BEGIN SOLUTION
    margin = (1 - p) / 20
    queries = round(stats.norm.ppf(0.995) ** 2 * p * (1 - p) / margin**2)
    return 8192 * math.ceil(queries / 8192)
    ### END SOLUTION


# %%
check("mlperf")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. A latency that is none
#
# `n` requests are sent at `rate` requests/s into a server that completes only `capacity` per second, one after the other.
# About how long does the *last* one wait, in seconds: how long after it was sent is the work before it done?
# (Count all n services.)

# %%
def last_wait(n, rate, capacity):
    """About the wait of the last request in s, from the moment it was sent."""
    ### BEGIN SOLUTION
    return n / capacity - n / rate
    ### END SOLUTION


# %%
check("last_wait")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8. Before and after the warm-up
#
# `throughput` holds one value per run (tokens/s). Return the coefficient of variation in per cent: the standard deviation (which
# divides by n − 1) over the mean. A public report had 25,232 ± 17,263 before the engine was warm and 42,935 ± 240 after.

# %%
def variation(throughput):
    """Coefficient of variation in per cent."""
    ### BEGIN SOLUTION
    return 100 * np.std(throughput, ddof=1) / np.mean(throughput)
    ### END SOLUTION


# %%
check("variation")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9. Which conclusions follow?
#
# | | what was measured | conclusion |
# |---|---|---|
# | a | P99 of ten iterations: 212 ms, before it was 240 ms | the tail got shorter |
# | b | five runs each after warm-up, other prompts in each: 42,935 ± 240 and 39,800 ± 260 tok/s (mean and sd) | the first is faster |
# | c | one seed for all five runs; runs 2 to 5 have 2.3 times the throughput of run 1 | the engine needs one run to warm up |
# | d | bootstrap of 33,000 waits in a row at ρ = 0.9: 9.64 [9.53, 9.75] | the long-run mean wait is not 9.0 |
# | e | same 40 request streams for A and B: change −4.8% [−5.2, −4.4], paired | B is faster |
# | f | 1,000 requests at 200/s, 2.3/s completed: TTFT 434 s; after a change, 800 requests: 347 s | TTFT fell by a fifth |
#
# Write the letters of the conclusions that follow from what was measured, in order, such as `"ad"`.

# %%
### BEGIN SOLUTION
follow = "be"
### END SOLUTION

# %%
check("follow")
