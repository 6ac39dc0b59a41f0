# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 08 Coordinated omission
#
# **The tool says P99 is 5 ms. Why do users wait a second?**
#
# *Before:* lesson [07](07_open_closed.ipynb). *Time:* 45 minutes. *Words:* [glossary](glossary.md), English and Chinese.
# After this lesson you can
#
# - **explain** how a tool that waits for answers leaves out the worst of what it should measure;
# - **compute** P99 and mean that users see from the length and the period of a stall;
# - **judge** whether a report was made with the right clock, with a correction, or with neither.
#
# *In a year you should still know:* start the clock when the request was meant to be sent.

# %% [markdown] slideshow={"slide_type": "notes"}
# Lecture: 25 minutes. Predict 3, play 5, why 5, check 3, break 4, real run 5. Start the real run's cell before you explain it:
# it takes ten seconds.

# %% slideshow={"slide_type": "skip"}
from labsupport import coordinated_omission
from labsupport.lab import predict, progress, recall

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Predict
#
# A server answers in 1 ms. Every 10 s it stalls for 1 s: a garbage collection, new weights, a full disk. 100 users come
# per second.
#
# A test tool with one connection sends, waits for the answer, sends again. It reports **P99 = 4.6 ms**.

# %% slideshow={"slide_type": "fragment"}
predict(
    "08.true_p99",
    "What is the P99 of the users' response time?",
    unit="ms",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play: nines
#
# The axis below gives each further nine of the percentile the same room: P90, P99, P99.9.

# %% slideshow={"slide_type": "fragment"}
coordinated_omission.stall()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try three settings:
#
# 1. Raise the length of the stall to 5 s. Whose P99 moves?
# 2. Let the tool send every 100 ms. Why does it come nearer to the users, though it sends less?
# 3. Switch the correction on, for the tool that sends every 10 ms.
#
# **The surprise:** the tool that sends *most* sees *least*. Back to back it collects thousands of fast values, and one slow
# one per stall: at the start values one in 9,000, far above the 99th percentile.

# %% slideshow={"slide_type": "fragment"}
start = coordinated_omission.stall().result
recall("08.true_p99", start.true_p99, unit="ms")

# %% [markdown] slideshow={"slide_type": "notes"}
# Gil Tene gave it the name. The tool and the server coordinate: when the server stops, the tool stops too, and the worst
# time is omitted. Question to ask: would a longer test help? (No: the share of slow values stays the same.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why
#
# A stall of length *L* begins. Users go on coming, at rate λ. Who comes *t* seconds later waits for the rest of the stall,
# $L - t$, and then for those who came before him, $\rho t$ with utilisation $\rho = \lambda S$:
#
# $$\text{response} \approx L - (1-\rho)\,t$$
#
# It exceeds *x* for those who come in the first $(L-x)/(1-\rho)$ seconds. With a stall every *T* seconds that is the share
#
# $$P(R > x) = \frac{L-x}{(1-\rho)\,T}, \qquad\text{so}\qquad R_p = L - (1-p)(1-\rho)\,T .$$

# %% [markdown] slideshow={"slide_type": "subslide"}
# With $L = 1$ s, $T = 10$ s, $\rho = 0.1$: P99 = 1 − 0.01 × 0.9 × 10 = **0.91 s**, P95 = **0.55 s**. The mean is
# $L^2/(2(1-\rho)T) + S$ = **57 ms**.
#
# A tool with *c* connections that wait has at most *c* requests in the stall, whatever the rate. Users have $\lambda L$.
#
# *Example:* 10 connections, 200 requests/s, a stall of 2 s. Users: **400** slow requests. Tool: **10**. It is off by a factor of **40**.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Check it

# %% slideshow={"slide_type": "fragment"}
coordinated_omission.formula()

# %% [markdown] slideshow={"slide_type": "fragment"}
# The formula leaves the service time out of P99: it is good where the stall is long against the service.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two ways to put it back
#
# A tool that *wants* to send every 10 ms has a schedule, and with it two remedies:
#
# - **the right clock:** start it at the **intended** send. A request that the stall held back in the tool has waited too;
# - **back-filling:** after a value *v* above the interval *i*, add *v − i*, *v − 2i*, … down to *i*: what the requests not sent would have
#   seen (HdrHistogram).

# %% slideshow={"slide_type": "fragment"}
coordinated_omission.clocks()

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Back to back* has no schedule; *shared* means on the users' own server. The last three rows are one tool: the clock makes a
# factor of 200. The rows of the actual send are not wrong. They answer
# another question: how fast is the server when nobody is waiting?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 1: more connections
#
# Does a tool with more connections see the stall?

# %% slideshow={"slide_type": "fragment"}
coordinated_omission.connections()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask before the table: how many connections until the tool sees what users see? (As many as requests in the stall.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# One slow value per connection. It takes as many connections as there are requests in the stall, here 200/s × 2 s = 400,
# until none has to wait for another. Then it *is* an open generator.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 2: slow, but no stall
#
# Now the server never stalls. One request in 200 takes 1 s by itself, such as a long answer, and nobody else waits for it.

# %% slideshow={"slide_type": "fragment"}
coordinated_omission.slow_alone()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for a vote: is the correction right here too? (No: nobody waited behind the slow request.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Now the *uncorrected* tool is right, and both remedies invent a second that no user waits. Each assumes that a slow
# answer held up everybody. A tool that waits can't know. **Only the open generator is right in both worlds**: it asks.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In LLM serving: a real server, five clocks
#
# HTTP on loopback, 2 ms of service, three stalls of 1 s. At the same moment, with a slot at the server for each:
#
# - our **open** generator, 100/s: clock from the intended send;
# - our **closed** generator, one connection back to back: clock from the actual send; and the same values **back-filled** for the mean
#   interval between its sends;
# - **hey**, one connection: records what it waited for;
# - **wrk**, one connection: records the same, then fills in after the run, without being asked and without a word in its report.

# %% slideshow={"slide_type": "fragment"}
measured = coordinated_omission.live(seconds=9)

# %% slideshow={"slide_type": "subslide"}
coordinated_omission.live_table(measured)

# %% slideshow={"slide_type": "fragment"}
coordinated_omission.live_picture(measured)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Two tools that people trust, one server, the same moment, one connection each: and their P99 differ far more than tenfold. hey lies
# with the closed generator; wrk, by its correction, near the open one. In another world (Break it 2) wrk would be the one that
# is wrong.
#
# `live(seconds=30)` is the run with a stall every 10 s. From a shell: `qlab serve --mean 0.002 --law deterministic --concurrency 4 --stall 1`
# and `hey -z 30s -c 1 URL`, `wrk -t1 -c1 -d30s --latency URL`, `qlab load URL --rate 100`.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### The clock behind the cap
#
# `--max-concurrency 1`, 8 requests at 10/s, 0.5 s each; the tool starts its clock when the cap lets a request go.

# %% slideshow={"slide_type": "fragment"}
coordinated_omission.hidden_waits()

# %% [markdown] slideshow={"slide_type": "subslide"}
# A larger case from practice: 12 requests/s through a cap of 8. The tool reports a P99 TTFT of **0.345 s**; counted from the intended
# send it is **1.259 s**. Of the users, 84% have their first token in time by one clock and 16% by the other.
#
# Both are true. The first says how long the *server* took, with at most 8 inside; the second how long the *user* waited.
# For a promise to users only the second counts. `RequestLog` keeps both: `arrival` and `intended`.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### A practitioner's question
#
# *"I stopped the server for 15 s in a test of 30 s. The tool reports a mean of 86 ms; I had expected 7.5 s. Who is right?"*
#
# Neither. In the stall users wait 7.5 s on average, and half of them come in the stall; the others take 50 ms. Over the run the mean is
#
# $$\frac{15^2}{2 \times 30} + 0.05 = 3.8\ \text{s}.$$
#
# Put in your own stall, period, and response time without a stall:

# %% slideshow={"slide_type": "fragment"}
coordinated_omission.after_a_stall(
    length_s=15, period_s=30, service_s=0.05
)  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# The tool has one slow value among 301, so its mean is 0.1 s, like the 86 ms reported: it sent nothing while it waited.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Think
#
# **1.** A tool offers a fixed 100/s for 20 s; the server stalls once for 1.4 s. One column says P99 = 1.27 s, another 6 ms. Which is corrected,
# and is it plausible?
#
# <details><summary>Answer</summary>
#
# The formula says 1.4 s − 0.01 × 20 s = 1.2 s and a little more for those who queue behind (1.22 s with the exact times of that run): 1.27 s
# is the corrected one. 6 ms is what the waiting tool recorded: one slow value per connection.
#
# </details>
#
# **2.** An agent calls the model, waits, calls again. Its author measures with a closed tool. Is that coordinated omission?
#
# <details><summary>Answer</summary>
#
# No. This user *does* wait: he never meant to send during the stall, so nothing is omitted. The closed tool is his load.
# It becomes wrong when the numbers are quoted for users who come by themselves.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Takeaways
#
# - **Start the clock when the request was meant to be sent**, and send it then: an open generator omits nothing.
# - A tool with *c* connections that wait records *c* slow values per stall; users meet λL.
# - P99 of the users ≈ L − 0.01 (1 − ρ) T. Compare it with your report whenever you know of a stall.
# - A correction is a guess about the server. Know whether your tool makes it.
#
# **Now:** [the exercises](../exercises/08_coordinated_omission.ipynb). **Next:** [09 Sample size](09_sample_size.ipynb), whether a difference is real.

# %% slideshow={"slide_type": "skip"}
progress.table()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## References
#
# - G. Tene, *How NOT to measure latency*, talk, 2013–2015: the name, and HdrHistogram's correction.
# - HdrHistogram, `recordValueWithExpectedInterval`; wrk, `stats_correct` in its source; wrk2, which measures from the intended send.
# - B. Schroeder, A. Wierman, M. Harchol-Balter, *Open versus closed: a cautionary tale*, NSDI 2006.
# - S. Friedrich, W. Wingerath, N. Ritter, *Coordinated omission in NoSQL database benchmarking*, BTW workshops 2017.
