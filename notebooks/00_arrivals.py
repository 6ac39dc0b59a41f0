# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 00 Arrivals
#
# **The average is 10 requests a second. What does one second look like?**
#
# *Before:* nothing. *Time:* 45 minutes. *Words:* [glossary](glossary.md), English and Chinese.
# After this lesson you can
#
# - **say** how far the number of requests in a window strays from its mean;
# - **choose** a budget per window that is exceeded as seldom as you want;
# - **explain** why a server that is fast enough on average still has a queue.

# %% [markdown] slideshow={"slide_type": "notes"}
# Lecture: 29 minutes. Predict 2, five requests 3, counts 6, why 5, clumping 4, check 2, break 5, serving 2.
# Remember in a year: an average rate says nothing about one second; randomness alone makes a queue.

# %% slideshow={"slide_type": "skip"}
from labsupport import arrivals
from labsupport.lab import predict, progress, recall

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Predict
#
# A service gets 100 requests per second on average, at random times. You give it room for 120 in each second:
# a fifth more than the mean.

# %% slideshow={"slide_type": "fragment"}
predict(
    "00.seconds",
    "In how many of 1000 seconds do more than 120 requests come?",
    unit="seconds",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Five requests
#
# One server, 100 ms for each request. Five requests come: one every 100 ms, or all at once.

# %% slideshow={"slide_type": "fragment"}
arrivals.five_requests()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask before the table: same server, same work, so who waits, and for how long? (Nobody; and 0 to 400 ms.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Same requests, same server, same work. The second column waits 200 ms on average, the first one not at all.
# What counts is *when* they come.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play: how many come in one window?

# %% slideshow={"slide_type": "fragment"}
arrivals.count()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try three settings:
#
# 1. Window 1 s, and the rate from 10 to 200/s. The width grows, but more slowly than the mean.
# 2. Rate 100/s, and the window from 0.1 to 10 s. Which window hides the bursts best?
# 3. Rate 100/s, window 1 s: raise the threshold until P(N > C) is below 1%.
#
# **The surprise:** mean and variance are one number, λt. At 20 requests per window the usual stray is ±4.5, or 22% of the mean;
# at 2,000 it is ±45, or 2%. A hundred times more requests are ten times calmer.

# %% slideshow={"slide_type": "fragment"}
recall("00.seconds", 1000 * arrivals.tail(120, 100), unit="seconds")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why
#
# Many users, each seldom and on her own: then arrivals form a *Poisson process* of rate λ (requests/s).
#
# - The count $N(t)$ in a window of $t$ seconds has mean $\lambda t$ (a pure number, not λ) and
#   $P(N(t)=k) = e^{-\lambda t}(\lambda t)^k/k!$
# - Its variance is $\lambda t$ too, so its standard deviation is $\sqrt{\lambda t}$.
# - The gaps between arrivals are exponential with mean $1/\lambda$: at 10/s, 100 ms.
#
# Counts and gaps are two views of one process.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Exponential gaps are mostly short: 63% are shorter than the mean, a few are long. So arrivals look clumped,
# although nothing makes them clump.
#
# A server cannot store idle time. In a long gap it loses capacity; in a clump it falls behind. With fixed service time
# $S$ (s) and utilisation $\rho = \lambda S$ the mean **waiting** time is (M/D/1; Pollaczek, 1930; Khinchin, 1932)
#
# $$W_q = \frac{\rho}{1-\rho}\cdot\frac{S}{2}$$

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play: the same rate, more or less clumped

# %% slideshow={"slide_type": "fragment"}
arrivals.clumping()

# %% [markdown] slideshow={"slide_type": "fragment"}
# SCV is the *squared coefficient of variation* of the gaps: variance over squared mean. 0 is clockwork, 1 is Poisson, more is
# bursts. Each orange bar is one request's wait. The same uniform random numbers make the gaps at every setting.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: at SCV 0 and utilisation 0.95, why does nobody wait? Then move to SCV 0.1 and ask who waits now.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Check it
#
# Capacity 10 requests/s, Poisson arrivals, fixed service: simulation against the exact values.

# %% slideshow={"slide_type": "fragment"}
arrivals.md1_check()

# %% [markdown] slideshow={"slide_type": "fragment"}
# From 50% to 90% utilisation the load does not even double; the mean wait grows nine times. The mean is not the tail: P99 is
# about five to seven times the mean, and it comes from the whole distribution of the wait, not from the counts.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 1: are real arrivals Poisson?

# %% slideshow={"slide_type": "fragment"}
arrivals.against_poisson()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Variance over mean is 1 for Poisson, at every window. The conversation trace is close in one second and far off in one minute;
# the code trace is far off in both. C is the budget that Poisson arrivals exceed in at most 1% of the seconds; the real ones exceed
# it in more, bursty ones in many more. Even a variance equal to the mean does not prove a Poisson process: check several windows.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 2: P(N > C) is not the queue

# %% slideshow={"slide_type": "fragment"}
arrivals.not_the_queue()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: at C = 124 the budget is exceeded in less than 1% of the seconds. What share of the requests waits? Take three guesses first.

# %% [markdown] slideshow={"slide_type": "fragment"}
# At C = 124 fewer than 1% of the seconds bring more than the server can do in a second, yet 80% of the requests wait. A queue
# depends on the moments within the second, on the service times, and on what the last second left behind.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In LLM serving: waiting is part of the first token
#
# *TTFT*, the time to first token, is waiting time + prefill (+ transport). Prefill 100 ms, one prompt after the other:

# %% slideshow={"slide_type": "fragment"}
arrivals.first_token()

# %% [markdown] slideshow={"slide_type": "fragment"}
# At 8 requests/s the GPU does nothing slower than at 1/s, but TTFT is almost three times as long: 200 ms wait + 100 ms prefill. Behind the prefill,
# arrivals at the decode stage are no longer Poisson: they have been through a queue (DistServe; Zhong et al., 2024).

# %% [markdown] slideshow={"slide_type": "slide"}
# ### A practitioner's question
#
# *Poisson arrivals at 100/s. Which budget per second is exceeded in at most 1% of the seconds? And per 100 ms?*

# %% slideshow={"slide_type": "fragment"}
rate, share = 100, 0.01
[arrivals.smallest_threshold(rate * window_s, share) for window_s in (1.0, 0.1)]

# %% [markdown] slideshow={"slide_type": "fragment"}
# 124 per second: 24% above the mean. 18 per 100 ms: 80% above the mean. The shorter the window in which a limit counts, the more
# headroom the same traffic needs. A rate limit of "100/s" means little until its window is named.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Think
#
# **1.** Over an hour, the counts per second have mean 10 and variance 10. Are the arrivals Poisson?
#
# <details><summary>Answer</summary>
#
# Perhaps not. Take a rate that drifts slowly, or gaps that depend on each other: the variance per second can still be near the mean,
# while the variance per minute is far above it. Look at several windows, and at the gaps.
#
# </details>
#
# **2.** Two independent Poisson streams of 60/s and 40/s go to one server. What does the server see?
#
# <details><summary>Answer</summary>
#
# A Poisson process of 100/s. Its standard deviation per second is 10, not √60 + √40 = 14.1: independent randomness adds in variance.
# This is why one large service is calmer than many small ones.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Takeaways
#
# - **An average rate says nothing about one second**: a Poisson count strays by √(λt), and its variance is λt.
# - Randomness alone makes a queue, at any utilisation above 0.
# - P(N > C) prices a budget per window. It is not the chance that a queue overflows, or that a request waits.
#
# **Now:** [the exercises](../exercises/00_arrivals.ipynb). **Next:** [01 Little's law](01_little.ipynb).

# %% slideshow={"slide_type": "skip"}
progress.table()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## References
#
# - L. Kleinrock, *Queueing Systems, Volume 1: Theory*, Wiley 1975, chapters 2 and 5.
# - M. Harchol-Balter, *Performance Modeling and Design of Computer Systems*, Cambridge 2013, chapters 11 and 23.
# - P. Patel et al., *Splitwise: efficient generative LLM inference using phase splitting*, ISCA 2024: the Azure traces (CC BY 4.0).
# - Y. Zhong et al., *DistServe: disaggregating prefill and decoding for goodput-optimized LLM serving*, OSDI 2024.
