# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Exercises 05: Batches and the latency–throughput curve
#
# Each cell with `raise NotImplementedError` is yours. Replace that line, run the cell, then run the check below it.
# A check says what came back, and gives one more hint each time.
#
# A batch of *b* requests takes `fixed_ms + per_item_ms * b` milliseconds. The lesson: [05 Batches](../notebooks/05_batching.ipynb).

# %%
import numpy as np
from labsupport.lab import exercise

check = exercise("05_batching")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. What a batch size carries
#
# The server takes full batches of `batch` requests, one after the other. What is its ceiling in requests/s?

# %%
def ceiling(fixed_ms, per_item_ms, batch):
    """Largest throughput in requests/s."""
    # Your code here, in place of the next line.
    raise NotImplementedError("ceiling is still to be written")


# %%
check("ceiling")

# %% [markdown]
# A server for image models was measured: batches of 2 to 128 take 6.4 + 1.71 b ms. Which throughput in requests/s does it
# never reach, however large its batches are?

# %%
# Your code here, in place of the dots.
never_reached = ...

# %%
check("never_reached")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. The batch size for a rate
#
# `rate` requests/s arrive at random. Return the smallest largest batch (a whole number) with which the server is stable: its ceiling
# lies **above** the rate. Return `None` if no batch size does it.

# %%
def smallest_batch(rate, fixed_ms, per_item_ms):
    """Smallest stable cap on the batch, or None."""
    # Your code here, in place of the next line.
    raise NotImplementedError("smallest_batch is still to be written")


# %%
check("smallest_batch")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. Two points make a line
#
# A decode step was measured at two batch sizes: `ms_1` at `batch_1`, `ms_2` at `batch_2`. Return the fixed time of a step and the time
# per request, both in ms, as a tuple `(fixed_ms, per_item_ms)`.

# %%
def fit(batch_1, ms_1, batch_2, ms_2):
    """(fixed_ms, per_item_ms) of the line through the two points."""
    # Your code here, in place of the next line.
    raise NotImplementedError("fit is still to be written")


# %%
check("fit")

# %% [markdown]
# A step writes one token for each request of its batch. What is the throughput in tokens/s of the largest batch whose step
# takes at most `tpot_ms`?

# %%
def tokens_per_second(tpot_ms, fixed_ms, per_item_ms):
    """Throughput in tokens/s at the largest batch within the TPOT target."""
    # Your code here, in place of the next line.
    raise NotImplementedError("tokens_per_second is still to be written")


# %%
check("tokens_per_second")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. Is it worth waiting 20 ms?
#
# A server with a timeout starts a batch `timeout_ms` after the batch's first request came. At a low `rate` (requests/s, Poisson) it is
# always idle by then, and the batch is never full. How long does a request wait on average, in ms? Average over *requests*: a
# batch has its first request and those who come within the timeout.

# %%
def mean_wait(rate, timeout_ms):
    """Mean waiting time of a request in ms."""
    # Your code here, in place of the next line.
    raise NotImplementedError("mean_wait is still to be written")


# %%
check("mean_wait")

# %% [markdown]
# Server A (5 + 0.5 b ms, at most 32) could wait 20 ms for its batches. The lesson's table "wait on purpose" has the numbers.
#
# | case | rate | the server | the promise |
# |---|---|---|---|
# | a | 100 /s | serves nothing else | mean response within 15 ms |
# | b | 1,400 /s | serves nothing else | mean response within 30 ms |
# | c | 100 /s | a training job uses the idle time | mean response within 50 ms |
# | d | 1,600 /s | serves nothing else | carry the load |
#
# In which cases is the timeout worth it? Write the letters in order, such as `"ad"`; write `""` for none.

# %%
# Your code here, in place of the dots.
worth_it = ...

# %%
check("worth_it")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. Two systems at one target
#
# A load test gives the points of a curve: `throughput` (requests/s, rising) and `latency_ms` (rising). Which throughput belongs to
# `target_ms`? Between two points the curve is a straight line. Below the first point return 0.0, above the last point the last throughput.

# %%
def throughput_at(target_ms, throughput, latency_ms):
    """Throughput in requests/s at the latency target."""
    # Your code here, in place of the next line.
    raise NotImplementedError("throughput_at is still to be written")


# %%
check("throughput_at")

# %% [markdown]
# | throughput (requests/s) | 100 | 400 | 800 | 1,200 | 1,400 | 1,500 | 2,000 | 2,400 |
# |---|---|---|---|---|---|---|---|---|
# | system E, mean latency (ms) | 7 | 10 | 14 | 20 | 27 | 47 | – | – |
# | system F, mean latency (ms) | 30 | 34 | 38 | 43 | 46 | 48 | 60 | 87 |
#
# Users are promised a mean of 40 ms. How many times as much as the other one does the better system carry there?

# %%
# Your code here, in place of the dots.
times_as_much = ...

# %%
check("times_as_much")

# %% [markdown]
# The knee of measured points is the one with the largest throughput per unit of latency. Return its throughput.

# %%
def knee(throughput, latency_ms):
    """Throughput in requests/s of the measured point at the knee."""
    # Your code here, in place of the next line.
    raise NotImplementedError("knee is still to be written")


# %%
check("knee")
