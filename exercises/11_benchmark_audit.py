# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Exercises 11: five files, five flaws
#
# Each cell with `raise NotImplementedError` is yours. Replace that line, run the cell, then run the check below it.
# A check says what came back, and gives one more hint each time.
#
# The lesson: [11 Auditing a benchmark](../notebooks/11_benchmark_audit.ipynb).

# %%
import numpy as np
from labsupport import benchmark_audit
from labsupport.lab import exercise

check = exercise("11_benchmark_audit")
files = {letter: benchmark_audit.result_file(letter) for letter in "abcde"}

# %% [markdown] slideshow={"slide_type": "slide"}
# Five result files in the format of vLLM's `--save-detailed`, 4,000 requests each, with **one flaw each**. `files["a"].claims` is what the
# tool printed and was told: `rate` (throughput, 1/s), `mean["response"]` (s), `peak`, `offered_rate` (1/s), `scv` (of the gaps), `failed`,
# `quantiles["response", 0.99]` (s). `files["a"].log` has the records as arrays: `arrival`, `finish`, `response` (s), `ok`.
#
# You write five checks on arrays, then run them on all five files. (`benchmark_audit.save("a")` writes a file for `qlab audit`: later, please.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. L = X·W
#
# All requests ended well. From the records alone: how many were in flight on average, over the time from the first arrival to the last finish? A tool that printed
# `rate` × `mean["response"]` ought to have found the same.


# %%
def in_flight(arrival, finish):
    """Mean number of requests in flight."""
    # Your code here, in place of the next line.
    raise NotImplementedError("in_flight is still to be written")


# %%
check("in_flight")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. Exact peak
#
# What is the largest number in flight at one moment? A request that finishes at the moment another arrives has left. (Behind a cap of 8, a tool printed 23.)


# %%
def peak(arrival, finish):
    """Largest number of requests in flight at one moment."""
    # Your code here, in place of the next line.
    raise NotImplementedError("peak is still to be written")


# %%
check("peak")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. The rate that was really offered
#
# At what rate (1/s) were the requests sent, net of the drain? Count gaps: $n$ requests have $n - 1$. A generator that sleeps an exponential time *after* each send falls short
# of the rate it was told.


# %%
def sent_rate(arrival, finish):
    """Rate of sending in requests/s, from the first to the last send."""
    # Your code here, in place of the next line.
    raise NotImplementedError("sent_rate is still to be written")


# %%
check("sent_rate")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. Failures as misses
#
# A promise "`p` of all requests are answered within *t*": what is the smallest recorded *t* for which it is true? Where `ok` is False no answer came, however
# long the user waited. Return `np.inf` when no *t* will do. (Sort; then the value at place $\lceil p\,n \rceil$, counted from 1.)


# %%
def honest_quantile(response, ok, p):
    """The p-quantile of the response time in s, failures counted as infinite."""
    # Your code here, in place of the next line.
    raise NotImplementedError("honest_quantile is still to be written")


# %%
check("honest_quantile")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. Arrival pattern
#
# The squared coefficient of variation (SCV) of the gaps between arrivals: their variance (`np.var`) over their squared mean. Poisson arrivals have 1.


# %%
def arrival_scv(arrival):
    """SCV of the gaps between arrivals."""
    # Your code here, in place of the next line.
    raise NotImplementedError("arrival_scv is still to be written")


# %%
check("arrival_scv")

# %% [markdown]
# A tool was told `burstiness` *b*. What SCV should the gaps have, if *b* is the `"shape"` of a gamma distribution, and if it is the `"cv"`, the coefficient of variation?


# %%
def expected_scv(b, meaning):
    """SCV that the parameter b stands for; meaning is "shape" or "cv"."""
    # Your code here, in place of the next line.
    raise NotImplementedError("expected_scv is still to be written")


# %%
check("expected_scv")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. Name the flaws
#
# Run your checks, beside what was claimed:

# %%
# for letter, file in files.items():
#     told, ended = file.claims, np.isfinite(file.log.finish)
#     arrival, finish = file.log.arrival[ended], file.log.finish[ended]
#     print(letter, "L", in_flight(arrival, finish), told.rate * told.mean["response"], ...)

# %% [markdown]
# Which flaw has which file? Write one digit for each of the files a, b, c, d, e, in this order, such as `"12345"`:
#
# 1 the mean response time leaves a part out · 2 the peak is counted in bins of a second · 3 the generator falls behind its schedule ·
# 4 failures are left out of the percentiles · 5 the arrivals are burstier than claimed

# %%
# Your code here, in place of the dots.
flaws = ...

# %%
check("flaws")
