# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 05 Batches and the latency–throughput curve
#
# **How does one read a latency–throughput curve?**
#
# *Before:* [01 Little's law](01_little.ipynb), [02 The hockey stick](02_hockey_stick.ipynb). *Time:* 45 minutes. *Words:* [glossary](glossary.md), English and Chinese.
# After this lesson you can
#
# - **compute** what a batch size carries, and choose the batch size for a rate and a latency target;
# - **read** three marks off a latency–throughput curve: low-load latency, knee, ceiling;
# - **compare** two systems at the same latency target, never by their ceilings.

# %% [markdown] slideshow={"slide_type": "notes"}
# Lecture: 28 minutes. Predict 3, timeline 5, curve 5, marks 4, why 4, check 2, break 3, serving 2. Let the room vote on A or B
# before anything is drawn.

# %% slideshow={"slide_type": "skip"}
from labsupport import batching
from labsupport.lab import predict, progress, recall

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Predict
#
# A batch of *b* requests takes a fixed time (read the weights, start the kernels) plus a time per request.
#
# | server | a batch of b takes | largest batch | ceiling | a request alone takes |
# |---|---|---|---|---|
# | A | 5 + 0.5 b ms | 32 | 1,524 requests/s | 5.5 ms |
# | B | 20 + 0.25 b ms | 128 | 2,462 requests/s | 20.25 ms |
#
# Your users want a mean response time of 30 ms. Within it, A carries 1,442 requests/s.

# %% slideshow={"slide_type": "fragment"}
predict(
    "05.server_b",
    "How many requests/s does B carry with a mean response time of 30 ms?",
    unit="requests/s",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play 1: batches grow by themselves
#
# A free server takes all who wait, up to *B*. That is *dynamic batching*: nobody waits for a batch to fill.

# %% slideshow={"slide_type": "fragment"}
batching.timeline()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try three settings:
#
# 1. Raise the rate from 100 to 1,400 per second. What happens to the size of the boxes, and to the mean response?
# 2. At 100 per second set the timeout to 20 ms: a batch now waits until it is full or its first request is 20 ms old.
# 3. At 1,000 per second lower the largest batch to 10, then try 11 and 12.
#
# **The surprise:** at 500 per second, a third of the ceiling, the server is busy 98.9% of the time. "GPU busy: 99%" says
# nothing about the room that is left: small batches keep a server as busy as large ones.

# %% [markdown] slideshow={"slide_type": "notes"}
# Question to ask: where does the room come from, if the server is never idle? (From larger batches: the grey part of
# a box does not grow.) Setting 2: the answer is in Break it 1. Setting 3: at 10 the ceiling is exactly 1,000 per second, so the queue grows for ever.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play 2: two servers, one target
#
# Each point of a curve is one arrival rate. Below the ceiling throughput equals the arrival rate.

# %% slideshow={"slide_type": "fragment"}
batching.curve()

# %% slideshow={"slide_type": "fragment"}
recall("05.server_b", batching.B.rate_within(30), unit="requests/s")

# %% [markdown] slideshow={"slide_type": "subslide"}
# B's ceiling is 1.6 times A's, and yet within 30 ms A carries 17 times as much. Try:
#
# 1. Raise the target. Above which target is B the better server?
# 2. Lower B's largest batch to 64. Which of the marks move, and which don't?
# 3. Make B equal to A (32, 5, 0.5); then raise only its largest batch. What does a larger batch cost here?
#
# **Compare at the latency that you promise.** Latencies near a ceiling cannot be promised, so nobody can use that throughput.

# %% [markdown] slideshow={"slide_type": "notes"}
# Answers: 1. above 48 ms. 2. knee and ceiling move; low-load latency and the rate at 30 ms don't. 3. nothing: the ceiling rises
# and the rest stays, because the larger batch is seldom needed.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How to read the curve: three marks
#
# - **Low-load latency**: where the curve starts. The best that a request can get: a batch of one.
# - **Knee**: where throughput per unit of latency is largest. Lay a ruler through the origin and turn it up from
#   below: it touches the curve there (Kleinrock, 1979). Before the knee, 1% more throughput costs less than 1% more
#   latency; after it, more.
# - **Ceiling**: where the curve becomes vertical. Full batches, one after the other.
#
# A knee "where it bends" depends on how the axes are stretched. The ruler's knee does not.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Mark it yourself
#
# A load test of a server that you don't know.

# %% slideshow={"slide_type": "fragment"}
batching.unknown_server()

# %% slideshow={"slide_type": "fragment"}
batching.ask_marks()

# %% slideshow={"slide_type": "subslide"}
batching.compare_marks()

# %% slideshow={"slide_type": "fragment"}
batching.marks_table()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Run the two cells above again after you commit other readings. The lowest measured point is at 20 requests/s, where
# it already takes 14.5 ms: a test that starts at a moderate load never shows the low-load latency.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why: what a batch size carries
#
# A batch of *b* requests takes $a + b\,\beta$: a fixed time $a$ and a time $\beta$ per request, both in seconds. With full batches of
# $B$, one after the other,
#
# $$\text{ceiling}(B) = \frac{B}{a + \beta B} \;\left[\frac{\text{requests}}{\text{s}}\right], \qquad \text{at most } \frac{1}{\beta}.$$

# %% slideshow={"slide_type": "fragment"}
batching.capacities()

# %% [markdown] slideshow={"slide_type": "fragment"}
# From 1 to 32 the ceiling rises 8.4 times. All that is left above 32 is a factor of 1.3: the fixed time is paid by many already.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why: how long it takes
#
# Let $c$ be the mean time from one batch to the next, with a server that never idles. In $c$ come $\lambda c$ requests, and
# they are the next batch. So
#
# $$c = a + \beta\,\lambda c \;\;\Rightarrow\;\; c = \frac{a}{1 - \beta\lambda}, \qquad \text{mean batch} = \lambda c = \frac{a\lambda}{1 - \beta\lambda}.$$
#
# A request comes somewhere within a batch: it waits about $c/2$ for its end, and then takes $c$ itself. **Response ≈ 1.5 c.**
# It holds while the server is busy and the cap is far away. At 1,000/s: $c$ = 5 / (1 − 0.5) = 10 ms, about 15 ms; exact 15.83 ms.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Where is the knee?** Throughput over response is about $\lambda (1 - \beta\lambda) / 1.5a$. That is largest at
#
# $$\lambda_{knee} = \frac{1}{2\beta} = \text{half of the last ceiling } 1/\beta.$$
#
# For A that is 1,000/s (exact: 1,003), for B 2,000/s (exact: 2,001). The response there is about $1.5 \cdot 2a = 3a$, and the mean
# batch is $a/\beta$: 10 for A, 80 for B. The rule holds if that is well above 1 (no idling) and below the cap.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Check it
#
# Server A at six rates. The exact values come from the Markov chain of the number that waits when a batch ends.

# %% slideshow={"slide_type": "fragment"}
batching.exact_and_simulated()

# %% [markdown] slideshow={"slide_type": "fragment"}
# The rule of the last column needs a server that never idles: at 100/s it gives less than half of the mean batch. From 1,000/s on it holds to four
# digits. At 1,480/s, 97% of the ceiling, ten runs of 20,000 requests still leave a wide interval.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 1: wait on purpose
#
# "Larger batches are cheaper, so let us wait until they are large." Server A with a timeout of 20 ms:

# %% slideshow={"slide_type": "fragment"}
batching.waiting_on_purpose()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for a vote before the table: does a timeout of 20 ms help at 100/s? (No: 2.9 times as long.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# - At 100/s the mean response is 2.9 times as long (20.2 instead of 7.0 ms), and not one request more is served.
# - Close to the ceiling batches are large anyway, and the price fades to 11%.
# - The ceiling does not move: there the batches are full, with or without a timeout.
#
# What waiting does buy is **idle time**: at 100/s the server is busy 22% of the time instead of 49%. That is worth
# something if another job can use the server meanwhile, or if you pay for energy. Otherwise take what is there.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 2: measure beyond the ceiling
#
# A load test offers more than server A carries, for 1, 10 or 60 seconds.

# %% slideshow={"slide_type": "fragment"}
batching.run_lengths()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Below the ceiling a longer test gives a better estimate of the same number. Above it there is no such number: the queue
# grows as long as the test runs. **A point beyond the ceiling measures the length of the test.**

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 3: bursts
#
# The same server and the same rates, but the gaps between arrivals have a larger SCV (variance over squared mean).

# %% slideshow={"slide_type": "fragment"}
batching.bursts()

# %% [markdown] slideshow={"slide_type": "fragment"}
# The ceiling stays, and even the knee stays near 1,000/s; but the whole curve rises. At a target of 30 ms bursts with SCV 16 cost
# about a quarter of the throughput. A curve belongs to a server **and** its arrivals: ask which arrivals a load test used.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In LLM serving: which batch size do I need?
#
# An embedding service gets 1,000 requests/s. A batch takes 5 + 0.5 b ms. The promise: 99% of the responses within 50 ms.

# %% slideshow={"slide_type": "fragment"}
batching.which_batch(rate=1000, target_ms=50)

# %% slideshow={"slide_type": "fragment"}
batching.smallest_cap(
    rate=1000, target_ms=50, fixed_ms=5, per_item_ms=0.5, share=0.99
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# - **10 is not enough**: its ceiling is exactly 1,000/s, and the queue grows for ever. 11 is stable but misses the promise.
# - **12 keeps it.** From 16 on nothing changes: the mean batch is 10, so a larger cap is seldom reached.
# - A larger cap costs nothing here but memory. It is not a target: dynamic batching never fills it without need.
#
# Put your own four numbers in. `smallest_cap` gives None where no batch size keeps the promise.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Decode: two points make a line
#
# A public serving report: at batch 16 a token takes 8.24 ms, at batch 32 it takes 9.42 ms. Per extra request that is
# (9.42 − 8.24) / 16 = 0.074 ms; the rest, 7.06 ms, is fixed: the weights are read once for the whole batch.

# %% slideshow={"slide_type": "fragment"}
batching.decode_steps()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Twice the batch gives 75% more tokens per second (1,942 → 3,397) for 14% more time per token. With a TPOT target of 20 ms the line
# allows a batch of 175 and 8,765 tokens/s.
#
# Two points fit *every* line exactly. They cannot tell whether it is one: at larger batches compute takes over from memory reads, and
# the KV cache has to be read for each request. **Measure a third point before you extrapolate.**

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Continuous batching
#
# A decode batch that is fixed until its longest answer ends makes newcomers wait for seconds. If the batch is made up anew at
# every step (Yu et al., 2022), a newcomer waits for one step, some 10 ms, as in Play 1. The batch then follows the load by itself,
# and the latency–throughput curve has the same three marks: TPOT at batch 1, a knee, and a ceiling set by the KV cache.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Think
#
# **1.** A colleague shows a benchmark: system C 2,400 requests/s, system D 1,500 requests/s, both "at maximum load". She wants to buy
# C. What do you ask for?
#
# <details><summary>Answer</summary>
#
# The throughput of both at the latency that the users are promised, with the same arrivals. Servers A and B of this lesson have
# just these ceilings: at 30 ms A carries 17 times as much, at 100 ms B carries 1.6 times as much. One number cannot hold both.
#
# </details>
#
# **2.** A dashboard says that a GPU has been busy 99% of the time for a week. Is it time to buy a second one?
#
# <details><summary>Answer</summary>
#
# It cannot be said from this number. With dynamic batching server A is busy 98.9% of the time at a third of its ceiling. Look at
# the mean batch against its cap, or at the arrival rate against the ceiling.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Takeaways
#
# - **Compare two systems at the same latency target, never by their ceilings.**
# - Three marks: low-load latency $a + \beta$, knee at about $1/(2\beta)$, ceiling $B/(a + \beta B)$.
# - A busy server takes larger batches by itself. Waiting for a larger batch buys idle time, not throughput.
#
# **Now:** [the exercises](../exercises/05_batching.ipynb). **Next:** [06 Goodput](06_goodput.ipynb): the throughput went up; is the service better?

# %% slideshow={"slide_type": "skip"}
progress.table()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## References
#
# - M. F. Neuts, *A general class of bulk queues with Poisson input*, Annals of Mathematical Statistics 38, 1967: the Markov chain.
# - L. Kleinrock, *Power and deterministic rules of thumb for probabilistic problems in computer communications*, ICC 1979: the knee.
# - D. Crankshaw et al., *Clipper: a low-latency online prediction serving system*, NSDI 2017: adaptive batch sizes and timeouts.
# - G.-I. Yu et al., *Orca: a distributed serving system for transformer-based generative models*, OSDI 2022: batches made up at every step.
# - Y. Inoue, *Queueing analysis of GPU-based inference servers with dynamic batching*, Performance Evaluation 147, 2021: a closed-form bound.
