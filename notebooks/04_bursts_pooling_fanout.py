# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 04 Bursts, pooling and fan-out
#
# **Same load, same servers: why are some systems 14 times slower?**
#
# Waiting is idle capacity at the wrong time or in the wrong place.
#
# *Before:* lessons 02 and 03. *Time:* 45 minutes. *Words:* [glossary](glossary.md), English and Chinese.
# After this lesson you can
#
# - **compute** how many servers a promise about the waiting time needs, and what one shared queue saves;
# - **judge** from a log of arrivals whether a Poisson test load is like the real one;
# - **predict** the latency of a request that waits for many tasks, and what hedging it costs.

# %% [markdown] slideshow={"slide_type": "notes"}
# Lecture: 29 minutes. Predict 2, pooling 6, why 4, check 3, bursts 5, real arrivals 3, servers 2, fan-out and hedging 4.
# The sentence under the question is the one to remember: bursts leave idle capacity behind in time, separate queues leave
# it in another place, and a request with many tasks meets the worst place. Come back to it each time.

# %% slideshow={"slide_type": "skip"}
from labsupport import bursts_pooling_fanout as lesson
from labsupport.lab import predict, progress, recall

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Predict
#
# Eight replicas of a model, each 80% busy. Requests come at random (Poisson), service times are exponential. A router
# picks a replica at random: then each is an M/M/1 queue, and a request waits 4 service times on average (lesson 02).
# Now all requests stand in **one** queue, and a replica that falls free takes the next.

# %% slideshow={"slide_type": "fragment"}
predict(
    "04.shared_queue",
    "How long does a request wait on average now?",
    unit="service times",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play: the same requests, five ways to their server
#
# Above: how many requests wait, and how many servers are idle at that time. Below: the mean waiting time under each
# routing. All five get the same arrivals and the same service times: *common random numbers*.

# %% slideshow={"slide_type": "fragment"}
lesson.pooling()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try three settings:
#
# 1. Go through the five routings. Watch the first heading: how often does a request wait while a server is idle?
# 2. With the shared queue, raise the servers from 1 to 32 at the same utilisation. Why does the wait vanish?
# 3. Choose constant service times. Which two routings are now the same, and why?
#
# **The surprise:** looking at *two* random queues instead of one takes away most of the wait. A router need not know
# everything; it must not be blind.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask before each routing: better or worse, by how much? Setting 3: with constant service times the servers of a shared
# queue fall free in turn, so round robin sends each request where the shared queue would. With heavy-tailed service times
# round robin is hardly better than random: it spreads the requests evenly, but not the work. JSQ still comes close.
# The run is short (a few thousand requests), so its waits lie beside the long-run marks; "New sample" shows by how much.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why
#
# $c$ servers, arrival rate $\lambda$ [1/s], mean service time $S$ [s], utilisation $\rho = \lambda S / c$.
#
# - **Separate queues:** a request waits behind its own server only: $W_q = \dfrac{\rho}{1-\rho}\,S$, here 4 S.
# - **One queue:** a request waits only if *all* servers are busy. Call that probability $C$. It is then served by whoever
#   is free first: departures come at rate $c/S$, arrivals at $\lambda$, so who waits, waits $S / (c(1-\rho))$ on average:
#
# $$W_q = \frac{C\,S}{c\,(1-\rho)} \qquad\qquad \frac{\text{separate}}{\text{shared}} = \frac{c\,\rho}{C}
# = \frac{8 \times 0.8}{0.4576} = 14.0$$

# %% [markdown] slideshow={"slide_type": "subslide"}
# $C$ is **Erlang C** (Erlang, 1917). The textbook has powers and factorials of $c$, which overflow from about 150 servers on.
# A recursion over the servers, with the offered load $a = \lambda S$, has only small positive terms and no limit:
#
# $$\frac{1}{B_0} = 1, \qquad \frac{1}{B_k} = 1 + \frac{k}{a}\,\frac{1}{B_{k-1}}, \qquad C = \frac{B_c}{1 - \rho\,(1 - B_c)}$$
#
# $B_c$ is Erlang B: the share of requests that find all servers busy when nobody may wait.

# %% slideshow={"slide_type": "fragment"}
from labsupport.queueing import theory

shared = theory.MMc(arrival_rate=6.4, service_mean=1.0, servers=8)
recall("04.shared_queue", shared.mean_wait, unit="service times")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Check it
#
# Simulation against formula, and each routing against the one above it: every run of one routing has a run of the next
# with the same requests, so the differences are sharper than the waits themselves.

# %% slideshow={"slide_type": "fragment"}
lesson.routing()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### More servers: each buys less than the one before
#
# The load stays at 6.4 servers' worth of work.

# %% slideshow={"slide_type": "fragment"}
lesson.adding_servers()

# %% [markdown] slideshow={"slide_type": "fragment"}
# The eighth server saves one service time, the ninth a fifth of that. And servers shorten the wait only, never the
# service: a long request stays long, however many servers there are.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 1: arrivals in bursts
#
# All so far had Poisson arrivals. Now the *gaps* between arrivals get another variability at the same mean: their squared
# coefficient of variation (SCV) $c_a^2$ is 0 for clockwork, 1 for Poisson, more for bursts.

# %% slideshow={"slide_type": "fragment"}
lesson.bursts()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try: lower the SCV to 0.1, then raise it to 16. Then lower the utilisation to 0.3. What happens to the dashed line?
#
# The dashed line is the **VUT** approximation: *variability × utilisation × time* (Kingman, 1961), for one server
#
# $$W_q \approx \frac{c_a^2 + c_s^2}{2} \times \frac{\rho}{1-\rho} \times S$$
#
# with $c_s^2$ the SCV of the service times. With Poisson arrivals it is exact: Pollaczek–Khinchin, lesson 03. In the limit
# of high load it is exact too. In between it gives size and trend; with these arrivals it is low for bursts, high for
# regular arrivals, and it is no bound.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The solid line is exact, for exponential service and independent gaps of any law (G/M/1; Kendall, 1953). An arrival
# finds the server busy with probability $\sigma$, the root **inside (0, 1)** of
#
# $$\sigma = E\!\left[e^{-\mu(1-\sigma)A}\right], \qquad W_q = \frac{\sigma}{\mu\,(1-\sigma)}$$
#
# $A$ [s] is a gap, $\mu = 1/S$ [1/s]. $\sigma = 1$ is always a root and never the answer.

# %% slideshow={"slide_type": "fragment"}
lesson.bursty_waits()

# %% [markdown] slideshow={"slide_type": "notes"}
# All rows use the same random numbers, so their errors point the same way: one unlucky sample is unlucky in each row.
# Load tools call burstiness by different names. A gamma *shape* b means SCV = 1/b (smaller is burstier); a *coefficient of
# variation* b means SCV = b² (larger is burstier). At b = 1 both are Poisson, which is why nobody notices. Exercise 6.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 2: the SCV of the gaps does not know their order
#
# Three public traces of LLM services. The *index of dispersion* counts arrivals in windows: variance / mean of the counts.
# It is 1 for Poisson at every window, and for independent gaps it levels off at their SCV. (Where the files are not here,
# labelled stand-ins are shown; the numbers in the text are those of the real traces.)

# %% slideshow={"slide_type": "fragment"}
three = lesson.real_traces()
lesson.dispersion(three)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Look at the two blue lines. The gaps have the same SCV, 1.2: almost Poisson. But in the real trace busy minutes follow busy
# minutes, and the variance of the counts per minute is 16 times that of Poisson counts.
#
# Look at the two lines of Mooncake. This log's clock ticks every 3 seconds. Requests of one tick share a timestamp, which
# looks like a burst and then silence. The SCV of 9.2 was made by the clock.

# %% [markdown] slideshow={"slide_type": "notes"}
# Question to ask: which window matters? About as long as the queue needs to drain: slower swings are a change of load.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### What happens to them at a server
#
# Each pair of rows has the same requests and service times. Forecast the wait from the SCV, then replay the trace.

# %% slideshow={"slide_type": "fragment"}
lesson.what_scv_misses(three)

# %% [markdown] slideshow={"slide_type": "subslide"}
# - **Too low:** the conversation trace waits three times as long as its SCV says. Shuffle its gaps and the forecast is
#   right: the order of the gaps made the queue.
# - **Not about waiting:** cut the silences of the code trace to 5 s. The SCV falls from 173 to 10.5, and not one wait
#   changes. A few long silences make the SCV, and in a silence nobody waits.
# - **Not real:** the ticks more than double the wait of a replay.
#
# Before you trust a "burstiness" number: plot counts per window, at several windows. Better still: replay the trace.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In LLM serving: how many GPUs for a promise?
#
# A pool of GPUs does prefills, 0.15 s each. Promise: 99% of the requests **wait** at most 0.5 s. The work is
# 0.15 GPU × arrival rate; what comes on top depends on the queue in front.

# %% slideshow={"slide_type": "fragment"}
lesson.fleet(rates=(10, 40, 160), service_s=0.15, target_s=0.5, p=0.99)

# %% [markdown] slideshow={"slide_type": "fragment"}
# At 40/s: 8 GPUs with one queue, 37 with blind routing. The larger the pool, the busier it may be. A router that looks at the
# queues comes near the shared queue; one that also looks for cached prefixes trades some of that for less prefill work.
#
# Your own numbers: change the line above, or ask `theory.smallest_servers(40, 0.15, 0.5, "wait", 0.99)`.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Fan-out: a request waits for its slowest task
#
# Each step of tensor or expert parallelism waits for the slowest GPU; an agent waits for all its parallel tool calls.
# If one task is late with probability $p$, a request of $k$ independent tasks is late with probability $1 - (1-p)^k$.

# %% slideshow={"slide_type": "fragment"}
lesson.fan_out()

# %% [markdown] slideshow={"slide_type": "subslide"}
# No simulation here: the curves are exact, for independent tasks that need not queue.
#
# 1. Set 10 tasks: 9.56% of the requests are over one task's P99. With 100 tasks it is 63.4%, and the *median* request,
#    114 ms, is slower than one task's P99 (Dean and Barroso, 2013).
# 2. Send a copy after P95, and take the first answer: 5% more tasks, and the P99 of the request falls from 396 to 127 ms.
# 3. Send the copy after P50 instead. How much more does the tenfold cost buy?

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Hedging is not free: copies queue too
#
# Now with queues, one task per request. Each copy is more work for the same servers.

# %% slideshow={"slide_type": "fragment"}
lesson.hedging()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask before the table: at 80% utilisation, does a second copy of slow requests help? (Only if the loser is called off.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# - **Call off the loser.** Then the copies cost next to nothing: the slow task that is stopped saves more than the copy takes.
# - If **both run to the end**, the copies add 5% at light load. At 80% load they make queues, queues make copies, and the
#   system tips over.
# - If the *request* is slow and not the server, its copy is just as long (last rows). It may escape a long queue, but
#   not its own work: hedging a long answer buys less and costs more.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Think
#
# **1.** 100 requests/s, 2 ms of work each, one server: utilisation 20%. The monitor reports 8 ms of queueing on average.
# Is the monitor wrong?
#
# <details><summary>Answer</summary>
#
# Poisson arrivals would wait 0.2/0.8 × 2 ms / 2 = 0.25 ms. But if requests come in bursts of <i>b</i> at one instant, the last
# waits for <i>b</i> − 1 others, on average (<i>b</i> − 1)/2 × 2 ms. That is 8 ms for <i>b</i> = 9: one burst of nine every
# 90 ms. (If bursts themselves come at random they also meet, and seven are enough.) VUT says it with c<sub>a</sub>² = 32.
#
# </details>
#
# **2.** Eight replicas at 80%. To use a cached prefix, a router sends 20% of all requests to one of them. What happens?
#
# <details><summary>Answer</summary>
#
# That replica gets 0.2 × 6.4 = 1.28 servers' worth of work: its queue grows without end, while the other seven are 73%
# busy. Unless the cache saves it more than 22% of the work, stickiness must give way when a queue is long.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Takeaways
#
# - **Waiting is idle capacity at the wrong time (bursts) or in the wrong place (separate queues).**
# - 8 servers at 80%: one shared queue waits 0.286 service times, separate ones 4. Two looks get most of the gain.
# - The SCV of the gaps alone misleads: look at counts per window, or replay the trace.
# - With k tasks the rare becomes common: 100 tasks, 1% each, 63% late. Hedge late, and call off the loser.
#
# **Now:** [the exercises](../exercises/04_bursts_pooling_fanout.ipynb). **Next:** [05 Batching](05_batching.ipynb), how to read a latency–throughput curve.

# %% slideshow={"slide_type": "skip"}
progress.table()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## References
#
# - A. K. Erlang, *Solution of some problems in the theory of probabilities of significance in automatic telephone exchanges*, 1917.
# - J. F. C. Kingman, *The single server queue in heavy traffic*, Proc. Cambridge Phil. Soc. 57, 1961; and his bound, 1962.
# - D. G. Kendall, *Stochastic processes occurring in the theory of queues*, Annals of Mathematical Statistics 24, 1953: G/M/1.
# - M. Mitzenmacher, *The power of two choices in randomized load balancing*, IEEE TPDS 12, 2001.
# - R. Gusella, *Characterizing the variability of arrival processes with indexes of dispersion*, IEEE JSAC 9, 1991.
# - J. Dean, L. A. Barroso, *The tail at scale*, Communications of the ACM 56, 2013.
# - M. Harchol-Balter, *Performance Modeling and Design of Computer Systems*, Cambridge 2013, chapters 14, 15 and 24.
# - P. Patel et al., *Splitwise*, ISCA 2024: the Azure traces (CC BY 4.0). Y. Wang et al., *BurstGPT*, 2024: gamma bursts in Azure's GPT
#   traffic over 213 days. R. Qin et al., *Mooncake*, FAST 2025: the traces of Kimi (Apache 2.0).
