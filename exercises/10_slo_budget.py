# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Exercises 10: budgets, doors and the number of engines
#
# Each cell with `raise NotImplementedError` is yours. Replace that line, run the cell, then run the check below it.
# A check says what came back, and gives one more hint each time.
#
# The lesson: [10 Budgets, doors and the number of engines](../notebooks/10_slo_budget.ipynb).

# %%
import numpy as np
from labsupport.lab import exercise
from labsupport.queueing import engine, theory
from labsupport.queueing.admission import Admission

check = exercise("10_slo_budget")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. Servers for a P99 target
#
# Requests come at `rate` per second (Poisson), a service takes `service_s` seconds on average (exponential), and all servers take
# from one queue. `theory.MMc(rate, service_s, servers)` has `.response_cdf(t)`, the share of responses within `t` seconds; it raises
# ValueError when the servers cannot keep up. What is the smallest number of servers with P99 of the *response* within `target_s`?


# %%
def servers_needed(rate, service_s, target_s):
    """Smallest number of servers, a whole number."""
    # Your code here, in place of the next line.
    raise NotImplementedError("servers_needed is still to be written")


# %%
check("servers")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. A token bucket
#
# Finish the class. The bucket holds at most `burst` tokens and is full at time 0. `rate` tokens flow in per second.
# `admit(t)` is called for requests in the order of time: a request that finds at least one token takes one and is let in (True); another
# is refused (False) and takes none.


# %%
class TokenBucket:
    def __init__(self, rate, burst):
        self.rate, self.burst = rate, burst
        self.tokens, self.last = float(burst), 0.0

    def admit(self, t):
        """Whether the request at time t [s] is let in."""
        # Your code here, in place of the next line.
        raise NotImplementedError("TokenBucket.admit is still to be written")


def admitted(times, rate, burst):
    """How many of the requests at `times` [s] a fresh bucket lets in."""
    bucket = TokenBucket(rate, burst)
    return sum(bool(bucket.admit(t)) for t in times)


# %%
check("bucket")

# %% [markdown]
# Without a simulation: at most how many requests does any bucket let in within `window_s` seconds? Give the bound, not rounded.


# %%
def most_admitted(rate, burst, window_s):
    """Upper bound on the requests let in within any window of that length."""
    # Your code here, in place of the next line.
    raise NotImplementedError("most_admitted is still to be written")


# %%
check("bound")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. A door that keeps the promise
#
# A rule from practice lets a request in while the queue holds fewer than 8 requests, less than 90% of the KV cache is in
# use, *and* the recent P99 is below 0.8 times the SLO. Write it.


# %%
def admit(waiting, kv_share, p99_s, slo_s):
    """Whether the request is let in."""
    # Your code here, in place of the next line.
    raise NotImplementedError("admit is still to be written")


# %%
check("admit")

# %% [markdown]
# Is 8 a good number? `run(depth)` simulates an overloaded engine that lets in while fewer than `depth` requests wait. It returns the
# TTFT [s] of every request that came, with `np.inf` for those it refused. Return the largest depth from 1 to 20 for which P99
# of the *admitted* requests' TTFT (`np.quantile`) is within `slo_s`; 0 if there is none.


# %%
def deepest_queue(run, slo_s):
    """Largest depth from 1 to 20 that keeps the promise to those who are let in."""
    # Your code here, in place of the next line.
    raise NotImplementedError("deepest_queue is still to be written")


# %%
def overloaded(depth, load=1.3):
    """TTFT [s] of 2,000 chats at 1.3 times the capacity of one engine behind a door; inf where refused."""
    rng = np.random.default_rng(10)
    prompt, output = (np.ceil(m * np.exp(0.7 * rng.standard_normal(2000))).clip(1, 8000) for m in (1020, 129))
    machine = engine.Engine(0.00706, 0.0000737, per_prompt_token_s=0.0001)
    arrival = rng.standard_exponential(2000).cumsum() / (load * machine.capacity(prompt, output))
    log = engine.serve(arrival, prompt, output, machine, admission=Admission(max_waiting=depth))
    return np.where(log.ok, log.ttft, np.inf)


check("deepest")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. Four dashboards
#
# `measured` and `budget` are dicts: the P99 of each stage in seconds, and what the stage may take. Return the name of the stage
# that exceeds its budget by the largest *factor*, or `"none"` if none does.


# %%
def first_to_look_at(measured, budget):
    """Name of the stage."""
    # Your code here, in place of the next line.
    raise NotImplementedError("first_to_look_at is still to be written")


# %%
check("stage")

# %% [markdown]
# | dashboard | waiting | KV in use | prompt tokens, P99 | TTFT P99 | TPOT P99 | client − server, P99 |
# |---|---|---|---|---|---|---|
# | normal | 0 | 55% | 4,000 | 0.6 s | 25 ms | 0.05 s |
# | 1 | 0 | 97% | 4,100 | 0.7 s | 90 ms | 0.05 s |
# | 2 | 85 | 60% | 3,900 | 14 s | 26 ms | 0.05 s |
# | 3 | 0 | 56% | 4,000 | 0.6 s | 25 ms | 1.90 s |
# | 4 | 1 | 62% | 31,000 | 3.4 s | 30 ms | 0.06 s |
#
# Which stage breaks on each? Write one letter for each of the dashboards 1 to 4, such as `"qqpp"`: `q` queue, `p` prefill, `d` decode, `n` network.

# %%
# Your code here, in place of the dots.
broken = ...

# %%
check("dashboards")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. One engine: when does P99 see the freeze?
#
# One long answer gets a token every `step_s` seconds. Prompts come at `rate` per second (Poisson). Each is read at once and freezes
# decoding for `prefill_s` seconds. A gap between two tokens is hit if at least one prompt comes within the step before it. What share of the gaps is hit?


# %%
def share_hit(rate, step_s, prefill_s):
    """Share of the gaps between tokens, 0 to 1."""
    # Your code here, in place of the next line.
    raise NotImplementedError("share_hit is still to be written")


# %%
check("hit")

# %% [markdown]
# Take a gap that is hit as `step_s + prefill_s`, and all others as `step_s`. What is P99 of the gaps, in seconds?


# %%
def p99_of_gaps(rate, step_s, prefill_s):
    """P99 of the gaps in s."""
    # Your code here, in place of the next line.
    raise NotImplementedError("p99_of_gaps is still to be written")


# %%
check("p99_of_gaps")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. A budget that adds up
#
# `times` (array, stages × requests, seconds): column `i` belongs to one request. Take the requests whose total is at or above the P99
# of the totals (`np.quantile`). How long do they spend in each stage, on average? Return one number per stage.


# %%
def where_slow_requests_are(times):
    """Mean time in s of each stage among the slowest 1% of the requests."""
    # Your code here, in place of the next line.
    raise NotImplementedError("where_slow_requests_are is still to be written")


# %%
check("slow")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. A door that looks fast
#
# A door refuses `refused` requests at once; `good` requests get an answer, each later than any refusal. Where among *all* answers, as a
# quantile from 0 to 1, lies the median of the good ones? (Half of the good ones lie below it.)


# %%
def median_of_good(refused, good):
    """Quantile among all answers, 0 to 1."""
    # Your code here, in place of the next line.
    raise NotImplementedError("median_of_good is still to be written")


# %%
check("median_of_good")
