# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 03 Head-of-line blocking
#
# **Why is P99 25 seconds at 36% utilisation?**
#
# *Before:* lesson 02. *Time:* 45 minutes. *Words:* [glossary](glossary.md), English and Chinese.
# After this lesson you can
#
# - **predict** the mean wait from the utilisation and the variance of the service times (Pollaczek–Khinchin);
# - **explain** why an arrival is more likely to find a long service than a short one;
# - **decide** what helps a tail more: less load, less variance, or another order of service.

# %% [markdown] slideshow={"slide_type": "notes"}
# Lecture: 28 minutes. Predict 2, play 6, why 7, check 3, break 4, serving 6. One sentence to take home:
# the load says how often a request waits, the variance says how long.

# %% slideshow={"slide_type": "skip"}
from labsupport import head_of_line
from labsupport.lab import predict, progress, recall

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Predict
#
# A server writes one answer at a time, 6 ms per token. Half of the answers have fewer than 120 tokens, the mean is 247,
# and one in a hundred has more than 1,957 (lognormal, σ = 1.2). Requests arrive as a Poisson process, 0.243 per
# second. So the server is busy 36% of the time.

# %% slideshow={"slide_type": "fragment"}
predict(
    "03.p99_wait",
    "What is the P99 of the waiting time, before an answer begins?",
    unit="s",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play: one long request
#
# Left, a *busy period*: the server works without a pause, first come, first served. Each bar is a request. It is cut
# out around the longest of 200 requests. Right, the mean wait of 100,000 requests. *SCV* is the squared coefficient of
# variation of the service time: variance / mean².

# %% slideshow={"slide_type": "fragment"}
head_of_line.variance()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try three settings. Utilisation and mean service (1 s) stay as they are.
#
# 1. Set the SCV to 0. All requests are alike: how long are the orange bars now?
# 2. Raise the SCV from 0 to 25. Who waits for whom? Read the second line of the heading.
# 3. Choose *short or long*, then *gamma*. The left picture changes. What about the theory on the right?
#
# **The surprise:** from SCV 0 to 25 the mean wait grows from 1.17 to 30.3 s, 26-fold, at the same load of 70%. And it
# depends on the service times through their mean and their SCV alone. Every setting uses the same random numbers.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask before setting 2: the load stays at 70%, will the wait change? Most people say no. Then "New sample" a few times.
# All behind the red bar wait for one request that none of them sent: the word is head-of-line blocking.
# At SCV above 9 the lognormal shows no interval: its longest requests are too rare for 100,000 (lesson 09).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why 1: what does an arrival find?
#
# The server is always busy here; services of mean 1 s follow each other. The height is what is left of the service in
# progress. You draw the arrivals (dots). The services they fall into turn orange.

# %% slideshow={"slide_type": "fragment"}
head_of_line.inspection()

# %% [markdown] slideshow={"slide_type": "subslide"}
# 1. Draw 1 arrival, and press *New sample* ten times. Does it more often hit a wide triangle or a narrow one?
# 2. Draw 10,000. A service lasts 1 s on average; with SCV 4, those that were hit last 5 s.
# 3. Set the SCV to 1. What is left when you arrive is as long as a whole service. Set it to 0: now it is half of one.
#
# A service of length *S* is hit in proportion to *S*, and is on average half over. This is the *inspection paradox*:
#
# $$R = \frac{E[S^2]}{2\,E[S]} = E[S]\,\frac{1 + \mathrm{SCV}}{2} \quad\text{[s]}, \qquad\text{not } \frac{E[S]}{2}$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# The same from the picture: each triangle has the area $S^2/2$, and there is one in every $E[S]$ seconds. So the mean
# height is $E[S^2] / (2 E[S])$. And $E[S^2] = E[S]^2 + \text{variance} = (1 + \mathrm{SCV})\,E[S]^2$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why 2: the mean wait
#
# λ is the arrival rate [1/s], $E[S]$ the mean service time [s], $\rho = \lambda E[S]$ the utilisation. An arrival waits for
#
# - the rest of the service in progress: $R$ if the server is busy, which has probability $\rho$: together $\rho R$;
# - the services of all who wait already: $L_q$ of them. By Little's law $L_q = \lambda W_q$, so this takes
#   $\lambda W_q E[S] = \rho W_q$.
#
# So $W_q = \rho R + \rho W_q$, or
#
# $$W_q = \frac{\rho}{1-\rho}\;\cdot\;\frac{1 + \mathrm{SCV}}{2}\;\cdot\;E[S] \qquad \text{[s]}$$
#
# (Pollaczek, 1930; Khinchin, 1932). Load × variability × time.

# %% [markdown] slideshow={"slide_type": "subslide"}
# What was assumed: Poisson arrivals (they see the server as it is on average), service times independent of each other
# and of the arrivals, one server, and an order that does not look at the lengths.
#
# Constant service (SCV 0) waits half as long as exponential service (SCV 1). A coefficient of variation of 3 (SCV 9)
# waits five times as long: at ρ = 0.9 and E[S] = 1 s these are 4.5, 9 and 45 s.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Check it

# %% slideshow={"slide_type": "fragment"}
head_of_line.mean_waits()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Three very different families, one mean. Look at the last line: even 100,000 requests leave a mean with an interval of
# ±17%. With the lognormal there is no interval that one could trust. What blocks the queue is rare, so it is also hard to measure.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 1: the assumptions
#
# The same service times; each line drops one assumption.

# %% slideshow={"slide_type": "fragment"}
head_of_line.assumptions()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Bursts nearly double the wait (lesson 04). The last line is easily overlooked: a user who sends fifty long documents in a
# row leaves load, mean and SCV as they are, and still everybody waits a third longer.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 2: a short run
#
# P99 of the wait at the server of the prediction, as one load test would report it. Each dot is a run.

# %% slideshow={"slide_type": "fragment"}
head_of_line.short_runs()

# %% [markdown] slideshow={"slide_type": "fragment"}
# 500 requests say 10 s or 50 s. A test of 20,000 requests still differs by a sixth from the next one. The dots are the spread
# itself, so they carry no interval.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In LLM serving: the tail of the wait
#
# An answer's service time is its length × the time per token, and lengths differ widely. Time lost is the response time
# less the request's own service time: with *first come, first served* and *shortest first* it is the waiting time.

# %% slideshow={"slide_type": "fragment"}
head_of_line.tokens()

# %% slideshow={"slide_type": "fragment"}
service = head_of_line.one_at_a_time()
recall("03.p99_wait", service.wait_quantile(0.99), unit="s")

# %% [markdown] slideshow={"slide_type": "subslide"}
# 64% of the requests do not wait at all: whoever comes is served at once with probability 1 − ρ. The median wait is 0,
# the mean 1.76 s, and P99 is 25 s. **The load says how often a request waits; the variance says how long.**
#
# 1. Lower σ from 1.2 to 0.8. The share that waits stays, P99 falls to a quarter.
# 2. Set 50 ms per token. What changes besides the scale? (Nothing.)
# 3. Back to 6 ms, choose *shortest first*, then *processor sharing*. Set the utilisation to 0.7 and compare again.
#
# The dashed line is always the same requests in their order of arrival: common random numbers.

# %% [markdown] slideshow={"slide_type": "notes"}
# P99 from theory is 24.83 s (numerical inversion of the Pollaczek-Khinchin transform); the explorer simulates 10 runs of
# 10,000 and shows the interval. Where runs of that length are too short for P99 it shows no interval and says so.
# Question to ask: which requests pay under processor sharing? (All, in proportion to their own length.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ### The order of service
#
# *Shortest first* must know the lengths, and cannot take back what has begun. *Processor sharing* lets all who are inside
# advance together, each at an equal share of the server's speed. This is the limit of continuous batching (Orca, 2022), where
# each step writes one token of every request, for steps that cost in proportion to their requests. Real steps grow more
# slowly, so an engine does better than this (lesson 05).

# %% slideshow={"slide_type": "fragment"}
head_of_line.orders()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Under processor sharing the mean response time is $E[S]/(1-\rho)$, whatever the SCV; a request that needs $x$ seconds alone
# takes $x/(1-\rho)$ on average. At 36% a token takes 9.4 ms instead of 6. The block is gone: its cost is spread over all answers,
# as TPOT.
#
# It is no free lunch: for constant service, first come, first served is better. Sharing pays as soon as SCV > 1.
#
# Blocks come back inside a batch. A prefill of 0.5 s between decode steps of 15 ms freezes *all* answers for 33 steps.
# At one such prefill per second 1.5% of the gaps between tokens are hit, and P99 shows it; at 0.5 per second 0.75% are hit,
# and P99 shows nothing. Lesson 10 cuts the prefill into chunks.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Worked once: halve the load, or the variance?
#
# You run the server of the prediction: 0.243 requests/s, 6 ms per token. A second one halves the load of each. What would less
# variance buy instead?

# %% slideshow={"slide_type": "fragment"}
head_of_line.remedies()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask the room to vote before the table: a second server, or half the variance? (For P99 the same.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# - For P99, **half the variance is worth a second server**: 13.5 s either way. For the mean wait the server does more.
# - A limit of 1,000 tokens cuts 4% of the answers short, and P99 falls from 25 to 7 s. No hardware is bought.
# - Other ways to less variance: a server of their own for long jobs, or a prefill cut into chunks.
#
# Your own numbers: `head_of_line.remedies(arrival_rate=0.2, median_tokens=150, sigma=1.0, ms_per_token=8)` makes the table for
# them, and `head_of_line.one_at_a_time(...)` has `.mean_wait`, `.wait_quantile(0.99)` and `.utilisation`.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Real lengths
#
# Answer lengths of two Azure services (Patel et al., 2024). We *assume* 6 ms per token and one answer at a time. (Where the
# files are not here, labelled stand-ins are shown; the numbers in the text are those of the real services.)

# %% slideshow={"slide_type": "fragment"}
head_of_line.real_lengths()

# %% [markdown] slideshow={"slide_type": "fragment"}
# No answer of the conversation service is longer than 1,000 tokens: it looks like a limit that somebody set, and the SCV is 0.6. Code
# completion has answers of 13 tokens (median) and of 1,899. Measured in its own mean service times it waits 3.5 times
# longer at the same load.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Think
#
# **1.** A team makes the shortest half of the answers twice as fast. Mean service time and utilisation fall a little. P99 of
# the wait hardly moves. Why?
#
# <details><summary>Answer</summary>
#
# $W_q = \lambda E[S^2] / (2(1-\rho))$, and $E[S^2]$ comes from the long answers: at σ = 1.2 the shorter half of them brings less
# than 1% of it. The longest 1% alone bring 53%. Here P99 falls by 2%.
#
# </details>
#
# **2.** A dashboard shows 36% utilisation and a median wait of 0. Users complain about the wait. Who is right?
#
# <details><summary>Answer</summary>
#
# Both. 64% of the requests find the server idle, so the median is 0 at any variance. One request in a hundred waits 25 s or
# more: a user who sends 20 requests a day meets that every fifth day. Neither a mean load nor a median can show it.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Takeaways
#
# - **The load says how often a request waits, the variance says how long**: $W_q = \frac{\rho}{1-\rho}\cdot\frac{1+\mathrm{SCV}}{2}\cdot E[S]$.
# - An arrival hits long services more often than short ones; their rest is $E[S^2]/(2E[S])$, not half a mean service.
# - Against a long tail: limit it, separate it, or share the server. Processor sharing does not feel the SCV at all.
#
# **Now:** [the exercises](../exercises/03_head_of_line.ipynb). **Next:** [04 Bursts, pooling and fan-out](04_bursts_pooling_fanout.ipynb), why the same load waits 14 times longer elsewhere.

# %% slideshow={"slide_type": "skip"}
progress.table()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## References
#
# - F. Pollaczek, *Über eine Aufgabe der Wahrscheinlichkeitstheorie*, Mathematische Zeitschrift 32, 1930.
# - A. Y. Khinchin, *Mathematical theory of a stationary queue*, Matematicheskii Sbornik 39, 1932 (in Russian).
# - T. E. Phipps, *Machine repair as a priority waiting-line problem*, Operations Research 4, 1956: shortest first.
# - M. Sakata, S. Noguchi, J. Oizumi, *An analysis of the M/G/1 queue under round-robin scheduling*, Operations Research 19, 1971.
# - M. Harchol-Balter, *Performance Modeling and Design of Computer Systems*, Cambridge 2013, chapters 23, 30 and 31.
# - G.-I. Yu et al., *Orca: a distributed serving system for transformer-based generative models*, OSDI 2022: continuous batching.
# - P. Patel et al., *Splitwise: efficient generative LLM inference using phase splitting*, ISCA 2024: the Azure traces (CC BY 4.0).
