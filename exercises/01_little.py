# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Exercises 01: Little's law
#
# Each cell with `raise NotImplementedError` is yours. Replace that line, run the cell, then run the check below it.
# A check says what came back, and gives one more hint each time.
#
# The lesson: [01 Little's law](../notebooks/01_little.ipynb).

# %%
import numpy as np
from labsupport.lab import exercise

check = exercise("01_little")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. From the monitor to the user
#
# A monitor shows how many requests are inside on average (`in_system`) and how many finish per second
# (`throughput`, requests/s). How long is a request inside on average, in seconds?

# %%
def time_in_system(in_system, throughput):
    """Mean time in system in s."""
    # Your code here, in place of the next line.
    raise NotImplementedError("time_in_system is still to be written")


# %%
check("time_in_system")

# %% [markdown]
# Decode writes `output_tokens` tokens, each in `tpot_s` seconds. How much of that mean time is *not* decode
# (queue and prefill), in seconds?

# %%
def queue_and_prefill(in_system, throughput, output_tokens, tpot_s):
    """Mean time in s that a request spends before decode."""
    # Your code here, in place of the next line.
    raise NotImplementedError("queue_and_prefill is still to be written")


# %%
check("queue_and_prefill")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. The average number in system
#
# `arrival[i]` and `finish[i]` (arrays, in seconds) belong to request `i`; nobody is inside before the first arrival.
# Return the average number inside, over the *time* from the first arrival to the last finish.

# %%
def time_average_in_system(arrival, finish):
    """Time average of N(t) in requests."""
    # Your code here, in place of the next line.
    raise NotImplementedError("time_average_in_system is still to be written")


# %%
check("time_average")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. The ceiling that memory sets
#
# A GPU has `memory_gb` GB (1 GB = 1e9 bytes) left for the KV cache. A token takes `bytes_per_token` bytes. A request
# holds `context_tokens` tokens and stays `response_s` seconds. What is the largest throughput in requests/s?

# %%
def throughput_ceiling(memory_gb, bytes_per_token, context_tokens, response_s):
    """Largest throughput in requests/s that the memory allows."""
    # Your code here, in place of the next line.
    raise NotImplementedError("throughput_ceiling is still to be written")


# %%
check("ceiling")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. Peak concurrency
#
# What is the largest number of requests inside at one moment? A request is inside from its arrival up to, but not
# including, its finish. Do not count by seconds: a benchmark tool that does so printed a peak of 23 behind a cap of 8.

# %%
def peak_in_system(arrival, finish):
    """Largest number of requests inside at one moment."""
    # Your code here, in place of the next line.
    raise NotImplementedError("peak_in_system is still to be written")


# %%
check("peak")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. Can these reports be true?
#
# Each report gives the number of clients (each waits for its answer, then sends the next request at once), the
# throughput (requests/s) and the mean response time (s). Return how many clients were busy on average
# as Little's law sees it.

# %%
def busy_clients(throughput, response_s):
    """Mean number of requests under way."""
    # Your code here, in place of the next line.
    raise NotImplementedError("busy_clients is still to be written")


# %%
check("busy_clients")

# %% [markdown]
# | report | clients | throughput | mean response |
# |---|---|---|---|
# | a | 50 | 303 /s | 0.1645 s |
# | b | 4 | 12.65 /s | 0.209 s |
# | c | 1 | 19,026 /s | 42 µs |
# | d | 8 | 6.16 /s | 1.288 s |
#
# For which reports does Little's law leave more than 10% of the clients without a request? Write the letters in
# order, such as `"ad"`.

# %%
# Your code here, in place of the dots.
reports = ...

# %%
check("reports")
