# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 10 Budgets, doors and the number of engines
#
# **How do we keep the promise when the load exceeds us?**
#
# *Before:* [06 SLO attainment and goodput](06_goodput.ipynb). *Time:* 45 minutes. *Words:* [glossary](glossary.md), English and Chinese.
# After this lesson you can
#
# - **split** a promise on P99 into a budget for each stage that adds up;
# - **choose** a door (thresholds or a token bucket) that keeps the promise under overload;
# - **size** a service for a P99 target, with an interval, and say when Erlang C is not enough.
#
# **In one sentence:** under overload either a few hear "no" at the door, or everybody is late.

# %% [markdown] slideshow={"slide_type": "notes"}
# Lecture: 30 minutes. Predict 2, the door 7, why 3, bucket 4, budget 5, Erlang C 3, one engine or two 3, sizing 3.
# Ask first: who runs a service that refuses requests? Who decided which ones?

# %% slideshow={"slide_type": "skip"}
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from labsupport import slo_budget
from labsupport.lab import predict, progress, recall

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Predict
#
# The engine of lesson 06 reads a prompt at 0.1 ms per token and decodes in steps of 7.06 + 0.074 *b* ms; at most 64 requests
# are in its batch. It completes 5.3 chats per second. The promise, or **SLO**: the first token within 2 s.
#
# For two minutes 30% more requests come in than it can complete. Nobody is refused.

# %% slideshow={"slide_type": "fragment"}
predict(
    "10.good",
    "How many per cent of the requests that come after the first 20 s "
    "get their first token within 2 s?",
    unit="%",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play: a door
#
# **Admission**: a request is let in while everything is below its threshold; else it is refused at once. Three signals: requests
# *waiting*, the share of the *KV* cache in use, and the *P99* of the TTFTs of the last 10 s, as a share of the SLO.

# %% slideshow={"slide_type": "fragment"}
slo_budget.admission()

# %% [markdown] slideshow={"slide_type": "subslide"}
# *Good*: first token within 2 s. *Capacity*: what the engine completes with every slot taken. Try three settings:
#
# 1. At 1.3 × capacity raise *max waiting* from 3 to 100. Where does the promise break, and what happens to *good*?
# 2. Set *max waiting* to 100 (off) and *max P99 / SLO* to 80%, a rule often seen. Look at the blue points.
# 3. Set *max waiting* back to 3 and the load to 2. How many more requests per second are good than at load 1.3?
#
# **The surprise:** the P99 rule alone opens and shuts like a barn door. It sees the harm only when it is done, refuses everybody until the
# bad memories are 10 s old, and then lets the next crowd in.

# %% slideshow={"slide_type": "fragment"}
recall("10.good", slo_budget.good_share(), unit="%")

# %% [markdown] slideshow={"slide_type": "notes"}
# In setting 1 P99 breaks at 4 or 5 waiting, and at 12 half of the admitted are late. Ask: who is helped by a longer queue? (Nobody: the engine is
# as busy at 3 waiting.) Let the audience find a KV threshold that keeps the promise.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why
#
# Let $C$ [requests/s] be what the engine completes. Who finds $q$ requests waiting gets the first token after about
#
# $$\text{TTFT} \approx \frac{q + 1}{C}\ \text{[s]} + \text{own prefill [s]}.$$
#
# The door keeps $q$ below a threshold $\theta$. So the promise fixes the threshold: $\theta \lesssim C \times (\text{SLO} - \text{prefill})$, here
# $5.3 \times (2 - 0.15) \approx 10$ requests for a *mean*. P99 needs fewer: the requests ahead may be long ones. A search finds 3.
#
# A queue any longer adds waiting and no throughput. One shorter leaves the engine idle now and then.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Check it: the same requests, five doors

# %% slideshow={"slide_type": "fragment"}
slo_budget.three_doors()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From half the capacity to twice the capacity

# %% slideshow={"slide_type": "fragment"}
slo_budget.doors()

# %% [markdown] slideshow={"slide_type": "fragment"}
# With an open door goodput (b) collapses at the capacity. Fewer than 3 waiting keeps it near nine tenths of the capacity under every overload
# shown. The price: below capacity the same threshold refuses some whom the engine could have served in time.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A door that does not look: the token bucket
#
# A bucket holds at most $B$ [tokens], and $r$ [tokens/s] flow in. A request takes one, or is refused. So in **any** window of $t$ seconds
#
# $$\text{admitted} \le B + r\,t.$$
#
# The bucket does not know the engine: it is a promise that the *client* can be held to.

# %% slideshow={"slide_type": "subslide"}
slo_budget.bucket()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Above, the tokens; a red stroke is a refusal. Try three settings:
#
# 1. Raise *r* to 110% of the capacity. Does the bucket still help?
# 2. Set *r* back to 90% and raise *B* to 500. The bucket is full at the start; what does it let in?
# 3. Let arrivals come in bursts, with *B* = 3 and with *B* = 30. What does a small bucket refuse without need?
#
# *r* guards the long run, *B* the first seconds. *r* must lie below the capacity, and capacity moves when prompts get longer.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How many in the first hour?
#
# $r = 0.0167$/s, $B = 20$, a request every second. "The limit is 20 per hour", says the operator. Is it?

# %% slideshow={"slide_type": "fragment"}
slo_budget.bucket_hour()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 1: a budget of percentiles
#
# A common budget: P99 of the whole = P99 of queue + P99 of prefill + P99 of decode + P99 of network. Is it a sum?

# %% slideshow={"slide_type": "fragment"}
slo_budget.budget()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Queue times are exponential, the others lognormal; the network takes 0.05 s on average. Try:
#
# 1. Raise the *dependence* to 1: a request that is slow in one stage is slow in all.
# 2. Back at 0, let each stage stall in 0.9% of the requests. Then 1.2%.
# 3. Raise the mean of the queue until it takes half of the lowest bar. By how much did its own P99 grow?
#
# **Means add, percentiles do not.** Independent stages: the sum is too large. Slow together: exact. Rare stalls at 0.9%: too *small*, since no
# stage shows them in its P99 while 3.6% of the requests meet one.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **A budget that adds up:** take the requests around the P99 of the *whole*, and see how long they spent in each stage (lowest bar). That is where
# a second can be saved. If the *queue* breaks its part, look at the door and the number of engines; *prefill*: prompt lengths, chunks; *decode*: batch size, KV, output
# lengths; *network*: gateway and clients.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How many servers? Erlang C, turned around
#
# M/M/c (lesson 04): $c$ servers, one queue. The smallest $c$ whose P99 is within the target is a search over exact formulas.

# %% slideshow={"slide_type": "fragment"}
slo_budget.erlang()

# %% [markdown] slideshow={"slide_type": "fragment"}
# One server fewer breaks each promise. And simulation agrees, as long as the world is M/M/c.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 2: the world is not M/M/c

# %% slideshow={"slide_type": "fragment"}
slo_budget.beyond_erlang()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Service times change the answer by a server or two: with many servers others go on while one is held up. **Bursts that last longer than a
# service change everything:** what counts is the rate *during* the burst, here 80/s, which alone needs 40 servers.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In LLM serving: one engine or two
#
# Prefill and decode share an engine, and a long prompt freezes all who are being written to. Two cures: read prompts in **chunks** between
# decode steps, or give prefill and decode a GPU each (**split**; DistServe, Splitwise).

# %% slideshow={"slide_type": "fragment"}
slo_budget.one_or_two()

# %% [markdown] slideshow={"slide_type": "subslide"}
# 1. At the start setting compare the longest stalls: seconds, 59 ms, 33 ms. Who pays, and with what?
# 2. Set the chunk to 64, then to 4096. What do small chunks cost?
# 3. Raise the prompts to 4,000 tokens, then shorten them to 100 and raise the outputs to 1,000. Which half of the split fills up first?
#
# Chunks bound the stall without moving hardware. The split takes it away, but each half can only do its half of the work: with the wrong mix one GPU is
# full while the other sleeps.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why did P99 jump?
#
# A prompt of 0.5 s freezes decode steps of 15 ms. At 0.5 prompts per second P99 of the gaps is 15 ms. At 1 per second it is half a second.

# %% slideshow={"slide_type": "fragment"}
slo_budget.freezes()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: prompts come twice as often, and P99 is 34 times as long. What broke? (Nothing: 0.75% and 1.5% lie on two sides of 1%.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Nothing broke between the two. 0.75% of the gaps are hit in one case, 1.5% in the other: one lies above the 99th percentile, the other below.
# A percentile hides what is rarer than it. Watch the longest stall too.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How many GPUs, with an interval
#
# A chat service expects 44 requests/s with the lengths of Azure's conversations. The promise: 99% with TTFT ≤ 2 s and TPOT ≤ 100 ms.
# First as a model, with Poisson arrivals:

# %% slideshow={"slide_type": "fragment"}
trace = slo_budget.conversation()
promise = {"ttft": 2.0, "tpot": 0.1}
slo_budget.plan(
    slo_budget.MACHINE, promise, share=0.99, rate=44.2,
    prompt_tokens=trace.prompt_tokens,
    output_tokens=trace.output_tokens,
)  # fmt: skip

# %% [markdown] slideshow={"slide_type": "subslide"}
# At a load of 0.97 the queue has not settled within 3 minutes. Runs of 5 minutes, side by side on all cores (`executor=` takes any pool of threads,
# processes or a Dask cluster; the numbers stay the same):

# %% slideshow={"slide_type": "fragment"}
with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
    longer = slo_budget.plan(
        slo_budget.MACHINE, promise, share=0.99, rate=44.2,
        seconds=300, executor=pool,
        prompt_tokens=trace.prompt_tokens,
        output_tokens=trace.output_tokens,
    )  # fmt: skip
longer

# %% [markdown] slideshow={"slide_type": "fragment"}
# With Azure's lengths: 8 instead of 7. Lesson 09 again: a short run is biased, and its interval does not show it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Now the trace as it came, replayed eight times faster to reach the same rate:

# %% slideshow={"slide_type": "fragment"}
slo_budget.plan(
    slo_budget.MACHINE, promise, share=0.99, trace=trace, speed=8
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Same rate, same lengths, same promise, and with Azure's trace 11 GPUs instead of 8. The average of an hour is not what comes in its busiest minutes. Buy the **upper end** of the
# interval. It covers chance within this hour, not tomorrow, and a speed-up keeps the bursts of a small service: eight times
# as many *users* would be smoother.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### With your own numbers

# %% slideshow={"slide_type": "fragment"}
slo_budget.engines()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Shaded: the interval; left of the dotted line the engines cannot complete what comes. TPOT ≤ 100 ms. The runs are short enough for a slider: for a decision call `plan` with
# longer ones, with the costs of a step (measured as in lesson 05), slots and KV of your engine, and your trace. It refuses a promise that no number of engines can keep.
#
# With fewer GPUs than this the door decides. With more, it is there for the day that is not in the trace.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Think
#
# **1.** A load test of 30 s ends with 160 good answers and 441 times "too many requests". The tool prints a median of 0.17 s, and the team is proud of it.
# What is the goodput, and where do the good answers stand?
#
# <details><summary>Answer</summary>
#
# Goodput (b) is 160 / 30 s = 5.33 requests/s. 0.17 s is the median of the refusals. Sorted by time the refusals come first, so the median of the good answers
# lies at (441 + 80) / 601 = the 0.87 quantile of all. A door must be counted: refused requests missed their SLO.
#
# </details>
#
# **2.** A client whose request was refused tries again at once, up to five times. What does this do to the door?
#
# <details><summary>Answer</summary>
#
# The offered load rises with each refusal: at 1.3 × capacity a quarter is refused and comes back. The door on the queue's depth still holds, since it looks at the engine;
# but refusing costs work as well, and lucky retries push out first tries. Answer with the time after which to come back, and let clients wait longer each time, with some randomness.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Takeaways
#
# - **Under overload either a few hear "no" at the door, or everybody is late.** A short queue keeps the promise to those let in.
# - A door needs a signal that is early: requests waiting now, not the P99 of those already served.
# - A token bucket lets in at most *B + r t*; it does not look at the engine.
# - Percentiles do not add. Budget with what the requests around the P99 spend in each stage.
# - Erlang C sizes for Poisson arrivals; replay a trace to see what bursts cost.
#
# **Now:** [the exercises](../exercises/10_slo_budget.ipynb). Then [11 Can this benchmark be believed?](11_benchmark_audit.ipynb).

# %% slideshow={"slide_type": "skip"}
progress.table()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## References
#
# - A. K. Erlang, *Solution of some problems in the theory of probabilities of significance in automatic telephone exchanges*, 1917.
# - J. S. Turner, *New directions in communications (or which way to the information age?)*, IEEE Communications Magazine 24, 1986: the bucket.
# - B. Beyer et al. (eds.), *Site Reliability Engineering*, O'Reilly 2016, chapters 21 and 22: overload and cascading failures.
# - Y. Zhong et al., *DistServe: disaggregating prefill and decoding for goodput-optimized LLM serving*, OSDI 2024.
# - P. Patel et al., *Splitwise: efficient generative LLM inference using phase splitting*, ISCA 2024: the split, and the Azure traces.
# - A. Agrawal et al., *SARATHI: efficient LLM inference by piggybacking decodes with chunked prefills*, 2023.
# - W. Kwon et al., *Efficient memory management for large language model serving with PagedAttention*, SOSP 2023.
