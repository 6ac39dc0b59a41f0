# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 02 The hockey stick
#
# **Why does nobody run a server at 100%?**
#
# *Before:* 01 Little's law. *Time:* 45 minutes. *Words:* [glossary](glossary.md), English and Chinese.
# After this lesson you can
#
# - **read** a latency curve: waiting or response time, mean or percentile, at which utilisation;
# - **turn** a promise such as "P99 below 2 s" into the utilisation it allows and the GPUs it costs;
# - **doubt** a percentile that was measured once near saturation.

# %% [markdown] slideshow={"slide_type": "notes"}
# Lecture: 30 minutes. Predict 3, play 6, why 6, check 4, break 4, serving 7. The one sentence to repeat: the mean
# response time is the service time divided by the idle share.

# %% slideshow={"slide_type": "skip"}
from labsupport import hockey_stick
from labsupport.lab import predict, progress, recall

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Predict
#
# A server takes 0.2 s per request on average, so it can do 5 requests per second. You promise that 99% of the requests
# are answered within 2 s, ten times the mean service time.

# %% slideshow={"slide_type": "fragment"}
predict(
    "02.promise",
    "How many requests per second may you let in?",
    unit="requests/s",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play: one server, two times
#
# Requests come at random moments (Poisson) and need exponential service times, one server: **M/M/1**. The *utilisation*
# ρ is the share of time that it is busy. The **waiting time** ends where service starts, the **response time** where it ends.

# %% slideshow={"slide_type": "fragment"}
hockey_stick.curve()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try three settings:
#
# 1. Mean response time at ρ = 0.5, 0.8, 0.9, 0.95. How does it follow the *idle* share 0.5, 0.2, 0.1, 0.05?
# 2. P50 at ρ = 0.4, response, then waiting. More than half of the requests do not wait at all: two times, two names.
# 3. ρ = 0.95 and 400,000 requests per run: first the mean, then P99. Look at the grey lines; draw new samples.
#
# **The surprise:** a single run of 400,000 requests has the mean right within 5% in every second case, and nearly always
# within 10%. Its P99 is off by more than 10% almost every second time, and by more than 20% one time in ten. (The black
# interval is for the mean of the ten runs.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask before setting 1: from 50% to 95%, how many times longer? (Ten.) At ρ = 0.99 even 400,000 requests are too few:
# the picture says that their P99 is biased. More runs do not cure a bias, longer runs do.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why: the mean
#
# $S$ is the mean service time [s], $\lambda$ the arrival rate [requests/s], $\rho = \lambda S$ the utilisation.
#
# - An arrival finds $L$ requests inside on average: random arrivals see what a clock sees.
# - Each of them still needs $S$ on average, the one in service too: an exponential service has no memory.
# - Then comes the arrival's own service: $W = L\,S + S$.
# - Little's law says $L = \lambda W$. So $W = \rho W + S$:
#
# $$W = \frac{S}{1-\rho} \qquad \text{mean response time = service time / idle share}$$

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## Why: the tail
#
# The response time is not only on average but in its whole law exponential with mean $W$. A share $\rho$ of the requests
# waits at all. For $t \ge 0$:
#
# $$P(\text{response} > t) = e^{-t/W} \qquad P(\text{waiting} > t) = \rho\,e^{-t/W}$$
#
# Set these to 0.01: **P99 of the response time** is $\ln(100)\,W = 4.6\,W$, **P99 of the waiting time** is
# $\ln(100\rho)\,W$, or 0 where fewer than 1% wait. The factor ρ is the whole difference, and often forgotten.

# %% slideshow={"slide_type": "fragment"}
hockey_stick.two_times(arrival_rate=8, service_s=0.1)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The price of one more point

# %% slideshow={"slide_type": "fragment"}
hockey_stick.one_more_point()

# %% [markdown] slideshow={"slide_type": "fragment"}
# The same point of utilisation, the same extra income: 2% more latency at one end, double at the other. Mean, P50, P95
# and P99 of the response time all grow by the same factor, since each is a multiple of $W$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Check it
#
# The formulas beside twenty simulated runs.

# %% slideshow={"slide_type": "fragment"}
hockey_stick.check_formulas()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How good is one run?
#
# Lecture notes report one run of 400,000 requests at ρ = 0.95: mean 1% off, P99 16% off. Here are forty such runs.

# %% slideshow={"slide_type": "fragment"}
hockey_stick.one_run()

# %% [markdown] slideshow={"slide_type": "fragment"}
# So 1% was luck, and 16% is ordinary: one run in five has P99 that far off. Neighbours wait for the same reason, a long queue, so they are not independent
# witnesses. At ρ = 0.95 it takes 1,523 waits in a row to know as much about the mean as one independent wait tells:
# 400,000 requests are worth 263. An interval that ignores this is almost always wrong (lesson 09).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 1: at 100% and above

# %% slideshow={"slide_type": "fragment"}
hockey_stick.overload()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Below 1 the wait settles, near 1 slowly. At exactly 1 it never does: the server has no time left to work off an
# accident. **From 1 on there is no latency, only the length of the run.** A benchmark that overloads a server can print any
# number: it only has to last longer.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 2: an average utilisation
#
# The formula needs a load that stays as it is. Here the average is always 75%, where it says 4 service times on average
# and 18.4 for P99; but the two halves of the run differ.

# %% slideshow={"slide_type": "fragment"}
hockey_stick.uneven_load()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: 55% in one half and 95% in the other, 75% on average. Is the mean as at 75% all the time? (No: 13 instead of 4.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The curve bends upwards, so the busy half costs more than the quiet half gives back, and it has more requests, too. Use
# the formula hour by hour, never on the average of a day.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In LLM serving: a prefill server
#
# In disaggregated serving, one GPU runs prefill, one prompt after the other; decode runs elsewhere. At 10,000 tokens/s a
# prompt of 2,000 tokens takes 0.2 s. The response time of this server is the **time to first token (TTFT)**.

# %% slideshow={"slide_type": "fragment"}
hockey_stick.promise()

# %% slideshow={"slide_type": "fragment"}
allowed = hockey_stick.promise(target=2.0, service=0.2).result["P99"]
recall("02.promise", allowed.rate, unit="requests/s")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try: promise 1 s. The mean now allows 80%, P99 only 8%: at 4.6 × 0.2 s = 0.92 s even an idle server has used it up.
# To promise a short tail, first shorten the service; no number of servers helps.
#
# Promise 2 s on the *waiting* time instead: P99 allows 59% instead of 54%. Say which of the two you promise.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### A question from practice
#
# *"120 prompts per second in the busy hour, 0.2 s of prefill each, P99 of TTFT at most 2 s. How many GPUs, and what does
# the promise cost?"*

# %% slideshow={"slide_type": "fragment"}
hockey_stick.bill(target_s=2.0, service_s=0.2, load=120)

# %% [markdown] slideshow={"slide_type": "fragment"}
# 45 GPUs for work that fills 24: the promise costs 504 GPU-hours a day. Who plans with the mean buys 27, and the P99
# users see is then 8.3 s. In the last row all GPUs take from one queue: 25 are enough. Why, says lesson 04.
#
# Your own numbers: change the line above, or ask `hockey_stick.allowed(2.0, 0.2, 120, "P99")` for `.utilisation` and `.servers`.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### A real trace
#
# The prompts of an hour of Azure's conversation service, 5.53 per second (Patel et al., 2024), at one prefill server. Their
# lengths vary about as much as exponential ones. We vary the speed of the server, and with it the average utilisation.
# (Where the file is not here, a labelled stand-in is shown; the numbers in the text are those of the real hour.)

# %% slideshow={"slide_type": "fragment"}
conversation = hockey_stick.conversation()
hockey_stick.busy_minutes(conversation)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Up to about 20% the formula fits. It would allow 71% for P99 ≤ 2 s; this hour allows 48%, since some ten of its minutes
# bring far more than the average. Give the formula what those ten minutes bring:

# %% slideshow={"slide_type": "fragment"}
hockey_stick.prefill_speed(conversation)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With the rate of the busiest ten minutes the formula asks for 3% more than the replay needs; with the hour's average, for
# a third too little. **Size for the busy minutes.** How arrivals cluster is the subject of lesson 04.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: is the formula wrong? No: its assumption, one constant rate, is. "Break it 2" was the same effect with two halves. All
# speeds replay the same recorded hour.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Think
#
# **1.** A dashboard shows "GPU utilisation 98%", yet users are happy. Is the server at the steep end of the curve?
#
# <details><summary>Answer</summary>
#
# Not necessarily. That gauge is the share of time in which at least one kernel ran. An engine that batches keeps the GPU
# busy with one request inside as well as with thirty. The utilisation of this lesson is the arrival rate divided by the
# largest rate that the server can sustain (for a batching engine: with full batches, lesson 05).
#
# </details>
#
# **2.** You replace two GPUs, each with its own queue at 80%, by one that is twice as fast. It gets all requests. What happens to
# utilisation and response time?
#
# <details><summary>Answer</summary>
#
# The utilisation stays 80%: twice the arrivals, half the service time. W = S / (1 − ρ) halves, and so does every
# percentile of the response time. Latency depends on utilisation *and* on the service time; fast servers may run hotter.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Takeaways
#
# - **The mean response time is the service time divided by the idle share**; its P99 is 4.6 times that.
# - Waiting time and response time are two curves. Say which one you measure, plot and promise.
# - The promise sets the utilisation, the utilisation sets the bill: here 54% and 45 GPUs instead of 24.
# - Near saturation one long run is a small sample, and an average utilisation hides the minutes that hurt.
#
# **Now:** [the exercises](../exercises/02_hockey_stick.ipynb). **Next:** [03 Head-of-line blocking](03_head_of_line.ipynb), why P99 is 25 seconds at 36% utilisation.

# %% slideshow={"slide_type": "skip"}
progress.table()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## References
#
# - L. Kleinrock, *Queueing Systems, volume 1: Theory*, Wiley 1975: M/M/1.
# - M. Harchol-Balter, *Performance Modeling and Design of Computer Systems*, Cambridge 2013, chapter 13.
# - D. J. Daley, *The serial correlation coefficients of waiting times in a stationary single server queue*, J. Austral.
#   Math. Soc. 8, 1968.
# - Y. Zhong et al., *DistServe: disaggregating prefill and decoding for goodput-optimized LLM serving*, OSDI 2024.
# - P. Patel et al., *Splitwise: efficient generative LLM inference using phase splitting*, ISCA 2024: the Azure traces (CC BY 4.0).
