# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 06 SLO attainment and goodput
#
# **The throughput went up. Is the service better?**
#
# *Before:* [05 Batches and the latency–throughput curve](05_batching.ipynb). *Time:* 45 minutes. *Words:* [glossary](glossary.md), English and Chinese.
# After this lesson you can
#
# - **compute** SLO attainment and goodput from a log, with failures as misses;
# - **tell** the two meanings of "goodput" apart, and say which one a report used;
# - **reject** a goodput that was measured with a fixed number of requests or on a coarse grid of rates.

# %% [markdown] slideshow={"slide_type": "notes"}
# Lecture: 28 minutes. Predict 2, three curves 7, why 4, check and grid 4, break 5, two promises 4, sizing 2.
# Ask first: who has seen a report with throughput but no latency?

# %% slideshow={"slide_type": "skip"}
from labsupport import goodput
from labsupport.lab import predict, progress, recall

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Predict
#
# Server A of lesson 05 takes batches of at most 32; a batch of *b* takes 5 + 0.5 *b* ms. Its ceiling is 1,524 requests/s.
# The promise, or **SLO** (service-level objective): a response within 50 ms.
#
# For one minute 2,000 requests/s come in. The server then completes 1,523 requests per second without a pause.

# %% slideshow={"slide_type": "fragment"}
predict(
    "06.attainment",
    "How many per cent of the requests are answered within 50 ms?",
    unit="%",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play: three curves
#
# **Throughput**: completed per second. **Attainment**: the share of the requests that meet the SLO. **Goodput (b)**: completed
# within the SLO, per second. **Goodput (a)**: the largest arrival rate at which attainment still reaches the target share.

# %% slideshow={"slide_type": "fragment"}
goodput.three_curves()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try four settings:
#
# 1. Move the rate from 1,000 to 2,200 per second. Which curve tells a user that something is wrong?
# 2. Change the SLO from 50 to 10 ms. Which of the three curves does not move?
# 3. Raise the target share from 90% to 99%. How much goodput (a) does it cost?
# 4. Set the run length to 1 s, and press *New sample* a few times. What happens right of the ceiling? Leave the warm-up out.
#
# **The surprise:** above the ceiling throughput stays at its best while goodput falls to nothing. The server is as busy as it
# can be, with answers that come too late.

# %% slideshow={"slide_type": "fragment"}
recall("06.attainment", goodput.minute_of_overload(), unit="%")

# %% [markdown] slideshow={"slide_type": "notes"}
# After the recall ask: who waits less if the server drops every request older than 50 ms? (Nearly all that it serves: lesson 10.)
# In setting 4 the points right of the ceiling rise: in one second the queue has not yet grown.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why
#
# Let $\lambda$ [requests/s] come in and the server complete at most $C$ [requests/s]. With $\lambda > C$ the backlog after $t$ seconds
# is $(\lambda - C)\,t$ requests. Who comes at $t$ waits until they are served:
#
# $$\text{response}(t) \approx \frac{(\lambda - C)\,t}{C}\ \text{[s]}, \qquad \text{in time only while } t \le \frac{C}{\lambda - C}\times\text{SLO}.$$
#
# At 2,000/s: $t \le 1{,}524 / 476 \times 0.05 = 0.16$ s. In a run of one minute that is 0.27% of the requests. The real share is smaller:
# a batch of 32 needs 21 ms of the 50 ms itself.

# %% [markdown] slideshow={"slide_type": "subslide"}
# In the long run the two definitions are tied to one curve, the attainment $A(\lambda)$ [share]:
#
# $$\text{goodput (b)} = \lambda\,A(\lambda) \qquad\qquad\; \text{[requests/s]}$$
# $$\text{goodput (a)} = \max\{\lambda : A(\lambda) \ge \text{target}\} \;\; \text{[requests/s]}$$
#
# - (a) is **one number**: the load that may be promised. DistServe and most capacity plans use it.
# - (b) is **a curve** over the load: it rises, peaks just before the ceiling, and collapses.
#
# A report that says "goodput 1,400/s" has to say which one, the SLO, and for (a) the target.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Check it
#
# Eight runs of one minute at six rates, beside the exact Markov chain of lesson 05.

# %% slideshow={"slide_type": "fragment"}
goodput.one_minute()

# %% [markdown] slideshow={"slide_type": "fragment"}
# From 1,450 to 1,500 per second throughput rises by 3% and goodput (b) falls by more than a quarter. The throughput went up; the service got worse.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### How fine must the grid be?
#
# Lecture notes report for this server: "goodput (a), 90% within 50 ms: about 1,450/s." Is that right? A load test visits a grid of
# rates and reports the last one that keeps the target.

# %% slideshow={"slide_type": "fragment"}
goodput.reading_the_grid()

# %% slideshow={"slide_type": "fragment"}
goodput.by_bisection()

# %% [markdown] slideshow={"slide_type": "subslide"}
# 1,450 is the last point of a grid with steps of 50; a step of 25 happens to give the same. The value is 1,473. A grid always errs downwards, by up to
# one step: attainment at its answer is 96.3%, not 90%, and that gap is the alarm.
#
# **Bisection** halves the bracket instead: 1,300 to 1,523 in 12 steps to a tenth of a request. But each point of the curve is an estimate, so
# the crossing is one too. Its interval: the rates at which the interval of attainment holds the target.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 1: overload has no latency
#
# One run at three rates: each request's response time against the moment it came.

# %% slideshow={"slide_type": "fragment"}
goodput.overload()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Below the ceiling a longer run shows more of the same. Above it every second adds to the response time. The mean, the P99 and
# the attainment of such a run tell how long the run was.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 2: a fixed number of requests
#
# Many tools send *n* requests, wait for the last answer and print the statistics. They always finish, also above the ceiling.

# %% slideshow={"slide_type": "fragment"}
goodput.fixed_count()

# %% [markdown] slideshow={"slide_type": "subslide"}
# - At 1,200/s the number of requests does not matter. At 2,000/s twice the requests give nearly twice the "mean response".
# - With 250 requests goodput (a) is reported at 1,800/s: **above the ceiling**. No server of this kind can complete that.
# - The interval does not help: the eight runs are all equally short. An interval shows noise, not bias.
#
# A faster server ends such a test sooner, and is so judged on an even shorter run.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### A fixed duration, and then twice as long
#
# Fix the duration, count those who come late in the run, let the load go on to the end. Then double the duration: does the answer stay?

# %% slideshow={"slide_type": "fragment"}
goodput.twice_as_long()

# %% [markdown] slideshow={"slide_type": "fragment"}
# At 1,400/s it stays. At 1,500/s, below the ceiling, nobody can tell how much of the change is chance: even a minute is too short.
# At 2,000/s nobody who comes late is in time: a fixed duration with a late window shows overload at once.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 3: failures that look fast
#
# A server under overload refuses: in 30 s it gives 160 good answers and 441 quick "too many requests". The tool prints a
# median of 0.17 s.

# %% slideshow={"slide_type": "fragment"}
goodput.failures()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: the tool prints a median of 0.17 s. Whose median is that? (That of a refusal: three quarters of the answers are refusals.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Three quarters of the users got nothing. Counted among the survivors attainment is perfect, and the more requests a server
# refuses the better it looks. **A failed request is a request that missed its SLO.** Its latency belongs in no average.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 4: adding percentiles
#
# A common budget: P99 end to end = P99 of the queue + P99 of prefill + P99 of decode + P99 of the network.
# Take two stages, independent, each exponential with mean 1 s. The P99 of each is ln(100) = 4.61 s.

# %% slideshow={"slide_type": "fragment"}
predict(
    "06.p99_of_sum",
    "What is the P99 of the sum of both stages?",
    unit="s",
)

# %% slideshow={"slide_type": "subslide"}
recall("06.p99_of_sum", goodput.p99_of_sum_exact(), unit="s")

# %% slideshow={"slide_type": "fragment"}
goodput.sums_of_p99()

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Means add. Percentiles do not.** The same request is seldom slow in both stages, so here the sum of the P99s is 39% too much: a
# budget on the safe side. When both are slow together it is exact. When each stage stalls in 0.9% of its requests, no stage shows it in its P99, yet 1.8%
# of the requests meet a stall: the sum is six times too *small*. It is no bound. Measure the whole.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In LLM serving: two promises
#
# - **TTFT**, time to first token: waiting time + prefill + overheads. A wait of 200 ms and a prefill of 100 ms make 300 ms.
# - **TPOT**, time per output token: (finish − first token) / (output tokens − 1). One mean per request; it hides stalls.
#
# A request meets the SLO when it keeps **both**. Below: one engine with continuous batching; each point is a request.

# %% slideshow={"slide_type": "subslide"}
goodput.two_promises()

# %% [markdown] slideshow={"slide_type": "subslide"}
# A decode step with *b* sequences takes 7.06 + 0.074 *b* ms, a prompt 0.1 ms per token; decode stands still while a prompt is read. Lengths
# are drawn with the medians of Azure's conversation trace (1,020 and 129 tokens); arrivals are Poisson.
#
# 1. Offer 6/s, more than the engine can complete: first with 16 slots, then with 256. Which promise breaks in each case?
# 2. Back at 4/s allow a TPOT of 100 ms, then of 20 ms. Which corners empty, and which fill?
# 3. At 4/s compare 64 and 256 slots. Why does nothing change but the ceiling?
#
# **Slots move the queue:** with few, requests wait outside and break TTFT; with many, they wait inside and break TPOT.
#
# The attainment of both does not follow from the two: it lies anywhere from $a + b - 1$ to the smaller one. At 5/s TTFT is kept by 58% and TPOT
# by 44% of this sample: both by anything from 2% to 44%. It is 34%, as a burst breaks both for the same requests.

# %% [markdown] slideshow={"slide_type": "notes"}
# Question to ask: which of the two would you rather break, in a chat and in a batch job? Chunked prefill and separate prefill engines
# change the trade: lesson 10. At 5/s the product of the shares would be 26%: "independent" is a guess, and here a wrong one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Two means of the same tokens
#
# One run, two lines in a report: "mean TPOT 77.9 ms, mean ITL 38.1 ms". Is one of them wrong? **ITL** (inter-token latency) is the
# time between two consecutive tokens. Take two requests: 2 tokens, 100 ms apart; and 200 tokens, 20 ms apart.

# %% slideshow={"slide_type": "fragment"}
goodput.two_means()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Neither: mean TPOT gives each **request** the same weight, mean ITL each **token**. Short answers that were slow per token count much in the first
# and little in the second: 60 ms against 20.4 ms. A ratio far from 1 says that short and long answers were served differently.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### How many GPUs?
#
# A chat service gets 40 requests/s. The promise: 90% of them with TTFT ≤ 1 s and TPOT ≤ 50 ms. A colleague raised the slots of the
# engine from 16 to 256, and the throughput benchmark went up by half.

# %% slideshow={"slide_type": "fragment"}
goodput.gpus(offered=40, ttft_s=1.0, tpot_ms=50, share=0.9)

# %% [markdown] slideshow={"slide_type": "subslide"}
# - By its throughput ceiling 7 GPUs carry 40/s. At 5.7/s each, the explorer shows few who keep both promises.
# - From 64 to 256 slots throughput rises by 10% and goodput not at all: at a load that keeps the promise 64 slots are never full.
# - Plan with the **lower** end of the interval: it is the estimate's own error that one pays for with a GPU.
#
# Put in your own rate, promise and share. Each GPU gets its own random share of the Poisson arrivals.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Think
#
# **1.** A tool sends 1,000 requests at 200/s to a server that completes 2.3/s, and prints "time to first token 434 s". What does this number say?
#
# <details><summary>Answer</summary>
#
# The length of the test. The last request comes after 1000/200 = 5 s and is served after 1000/2.3 = 435 s: it waits 430 s, the mean
# wait is half of that, 215 s. With 2,000 requests both double. An unstable system has no latency, only a run length.
#
# </details>
#
# **2.** A test offers 10,000 requests at 15/s. The report says 13.65/s "achieved", and a P99 TTFT of 233 ms. Is the server overloaded?
#
# <details><summary>Answer</summary>
#
# No. The requests come within 10,000 / 15 = 666.7 s; the last long answers end 65.8 s later, and 10,000 / 732.5 s = 13.65/s. The rate is
# diluted by the end of the run, where nothing comes in any more. A server that lacks 9% would have a TTFT that grows for minutes.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Takeaways
#
# - **Throughput counts what the server finishes, goodput what keeps the promise**: under overload the first is at its best and the second is gone.
# - Goodput (a) is one load, goodput (b) a curve. Say which, with SLO, target, run length, and failures as misses.
# - A fixed number of requests measures the length of the run; fix the duration, look at its end, double it.
# - Percentiles do not add, and two attainments do not give that of both: measure the whole request.
#
# **Now:** [the exercises](../exercises/06_goodput.ipynb). **Next:** [07 Open and closed loops](07_open_closed.ipynb), who decides when the next request is sent.

# %% slideshow={"slide_type": "skip"}
progress.table()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## References
#
# - Y. Zhong et al., *DistServe: disaggregating prefill and decoding for goodput-optimized LLM serving*, OSDI 2024: goodput (a), TTFT and TPOT.
# - J. Dean, L. A. Barroso, *The tail at scale*, Communications of the ACM 56, 2013: why a share of slow requests matters more than a mean.
# - B. Beyer et al. (eds.), *Site Reliability Engineering*, O'Reilly 2016, chapter 4: service-level objectives.
# - M. F. Neuts, *A general class of bulk queues with Poisson input*, Annals of Mathematical Statistics 38, 1967: the exact chain.
# - E. B. Wilson, *Probable inference, the law of succession, and statistical inference*, JASA 22, 1927: the interval of a share.
# - P. Patel et al., *Splitwise: efficient generative LLM inference using phase splitting*, ISCA 2024: the Azure traces.
