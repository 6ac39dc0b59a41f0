# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Exercises 07: Open and closed loops
#
# Each cell with `raise NotImplementedError` is yours. Replace that line, run the cell, then run the check below it.
# A check says what came back, and gives one more hint each time.
#
# The lesson: [07 Open and closed loops](../notebooks/07_open_closed.ipynb).

# %%
import math
from heapq import heappop, heappush

import numpy as np
from labsupport.lab import exercise

check = exercise("07_open_closed")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. The interactive response-time law
#
# A closed test has `users` users who think `think_s` seconds. It measured `throughput` requests/s. What was the mean
# response time, in seconds?

# %%
def response_time(users, throughput, think_s):
    """Mean response time in s."""
    ### BEGIN SOLUTION
    return users / throughput - think_s
    ### END SOLUTION


# %%
check("response_time")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. Exact mean-value analysis, in a loop
#
# One exponential server of mean `service_s`, and users who think `think_s`. A request that arrives finds the server as
# the loop *with one user fewer* has it on average. So, for n = 1, 2, …, `users`, with q = 0 to begin with:
#
# 1. the response time is `service_s` times (1 + q);
# 2. the throughput is n divided by (response time + `think_s`);
# 3. the new q, the mean number at the server, is throughput times response time.
#
# Return the throughput (requests/s) and the mean response time (s) for `users` users.

# %%
def closed_loop(users, think_s, service_s):
    """Throughput in requests/s and mean response time in s."""
    ### BEGIN SOLUTION
    q = 0.0
    for n in range(1, users + 1):
        response = service_s * (1 + q)
        throughput = n / (response + think_s)
        q = throughput * response
    return throughput, response
    ### END SOLUTION


# %%
check("closed_loop")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. Where the server takes over
#
# From which number of users N* on (not rounded) does the server, not the users, set the throughput?

# %%
def saturation_users(think_s, service_s):
    """N*, where the two bounds of the throughput cross."""
    ### BEGIN SOLUTION
    return (think_s + service_s) / service_s
    ### END SOLUTION


# %%
check("saturation_users")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. A tool that runs out of users
#
# A tool offers one request every `1 / rate` seconds, at 0, 1/rate, 2/rate, …, as long as the time is below `duration_s`. Each
# request keeps one of its `users` virtual users busy for `service_s`. A user whose request ends at the very moment of the
# next start is free again. If nobody is free, the tool drops the request. How many does it drop?

# %%
def dropped(rate, service_s, users, duration_s):
    """Number of requests that found no free user."""
    ### BEGIN SOLUTION
    count, busy = 0, []
    for k in range(math.ceil(duration_s * rate - 1e-9)):
        while busy and busy[0] <= k / rate + 1e-9:
            heappop(busy)
        if len(busy) == users:
            count += 1
        else:
            heappush(busy, k / rate + service_s)
    return count
    ### END SOLUTION


# %%
check("dropped")

# %% [markdown]
# How many users does it need to drop none, in a long run with these constant times? (Round away from the noise of
# floating point: 0.1 × 30 is 3, not a little more.)

# %%
def users_needed(rate, service_s):
    """Smallest number of users that carries the rate."""
    ### BEGIN SOLUTION
    return math.ceil(round(rate * service_s, 9))
    ### END SOLUTION


# %%
check("users_needed")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. One run, three reports
#
# A tool intended `intended` requests and sent `sent` of them; the others met the cap. Of those it sent, `good` were within
# the promise. Which share does its report call good, if the cap makes it `"skip"` (no line for what was not sent) or
# `"drop"` (a line that is not ok)?

# %%
def reported(intended, sent, good, when_full):
    """Share of good requests in the tool's report, 0 to 1."""
    ### BEGIN SOLUTION
    return good / (sent if when_full == "skip" else intended)
    ### END SOLUTION


# %%
check("reported")

# %% [markdown]
# A third tool **queues** what meets the cap. Requests are intended at `intended` (array, s, sorted). At most `cap` are in flight;
# each is in flight for `answer_s` seconds (array), first come first served. Return when each is sent (array, s).

# %%
def send_times(intended, answer_s, cap):
    """Moment of sending of each request, in s."""
    ### BEGIN SOLUTION
    flights, sent = [], []
    for t, answer in zip(intended, answer_s, strict=True):
        begin = max(t, heappop(flights)) if len(flights) == cap else t
        heappush(flights, begin + answer)
        sent.append(begin)
    return np.array(sent)
    ### END SOLUTION


# %%
check("send_times")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. The rate that was offered
#
# A generator sleeps an exponential time of mean `1 / rate`, then spends `send_s` seconds on sending, and so on. Which rate
# does it offer, in requests/s?

# %%
def offered_rate(rate, send_s):
    """Requests sent per second in the long run."""
    ### BEGIN SOLUTION
    return 1 / (1 / rate + send_s)
    ### END SOLUTION


# %%
check("offered_rate")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. Open or closed?
#
# | | who sends the next request, and when |
# |---|---|
# | a | 64 connections; each sends the next request when its answer is there |
# | b | one request every 10 ms by the clock, however many are under way |
# | c | `--request-rate 20 --max-concurrency 4`, the server needs 1 s per answer |
# | d | an agent: model, tool call, model, tool call, … |
# | e | the replay of a public trace by its time stamps |
#
# Which of them send less when the server gets slower? Letters in order, such as `"be"`.

# %%
### BEGIN SOLUTION
sends_less = "acd"
### END SOLUTION

# %%
check("sends_less")
