# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 07 Open and closed loops
#
# **Who decides when the next request is sent?**
#
# *Before:* lessons [01](01_little.ipynb) and [02](02_hockey_stick.ipynb). *Time:* 45 minutes. *Words:* [glossary](glossary.md), English and Chinese.
# After this lesson you can
#
# - **tell** from a tool's options whether it offers a load or only keeps a number of users busy;
# - **compute** response time, throughput and saturation of a closed loop from users, think time and service time;
# - **choose** the loop that your users are, and say what a report of the other kind hides.
#
# *In a year you should still know:* a closed loop never shows overload, because its users wait.

# %% [markdown] slideshow={"slide_type": "notes"}
# Lecture: 25 minutes. Predict 3, play 6, why 5, check 3, break 5, serving 3. Ask who has used a tool with a number of
# users or connections as its only load option, and which throughput they had asked for (none: it is an outcome).

# %% slideshow={"slide_type": "skip"}
from labsupport import open_closed
from labsupport.lab import predict, progress, recall

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Predict
#
# A server needs 1 s per request on average (exponential). A test tool keeps 12 users: each sends, waits for the answer,
# thinks 9 s, sends again. It reports **0.917 requests/s** and a mean response time of **4.09 s**.
#
# Then the service opens to the public: 0.917 requests/s again, from people who do not know of each other (Poisson).

# %% slideshow={"slide_type": "fragment"}
predict(
    "07.open_response",
    "What mean response time do the people see?",
    unit="s",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play: two loops around one server
#
# - **Closed:** *N* users. Each one's next request comes after an answer and a think time *Z*.
# - **Open:** requests come at a rate λ, whatever the server does.
#
# Mean service time *S* = 1 s, so the capacity is 1 request/s. The open loop starts at the rate that the closed one reaches.

# %% slideshow={"slide_type": "subslide"}
open_closed.two_loops()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try three settings:
#
# 1. Leave the start values. Same server, same throughput: compare the two response times.
# 2. Raise the users to 50, to 100, to 500. What does *X* do, and how much does *R* grow per user?
# 3. Leave 100 users and raise the open rate to 1.2 times *X*. Can you find *N* and *Z* that offer the server as much?
#
# **The surprise:** you can't. No number of users makes *X* exceed the capacity, and *R* stays finite for each. The closed
# loop shows a slow server, never one that is asked for more than it can do.

# %% slideshow={"slide_type": "fragment"}
start = open_closed.two_loops().result
recall("07.open_response", start.open_exact, unit="s")

# %% [markdown] slideshow={"slide_type": "notes"}
# The two curves are the same server. At 0.9/s open users wait longer because nothing holds them back when a queue
# has formed; in the closed loop each request in the queue is one user fewer who could send.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why
#
# Draw a line around the **whole loop**, users and server. Inside are always *N* users; each round takes *R + Z* seconds;
# *X* rounds are finished per second. Little's law, *L = λW*, reads
#
# $$N = X\,(R + Z) \qquad\Longrightarrow\qquad R = \frac{N}{X} - Z$$
#
# the **interactive response-time law**. It assumes no distribution and no order of service. *N* and *Z* are yours to set.
# *X* is not: it is what comes out.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Two bounds follow (Denning and Buzen, 1978). Nobody waits at best: $R \ge S$, so $X \le N/(Z+S)$. And the server does
# one thing at a time: $X \le 1/S$. They cross at
#
# $$N^* = \frac{Z+S}{S} \quad\text{users.}$$
#
# Well below *N\** the users set the pace. Well above it the server does: $X = 1/S$, and $R = N S - Z$ grows by one
# service time with each further user. All they add is queue.
#
# The reason why *R* is smaller than in the open loop is **feedback**: the longer the queue, the fewer users are left to
# send. The open loop has none.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Check it
#
# Exponential service and any think time: this closed loop has an exact solution (Palm, 1947, the *machine repairman*).

# %% slideshow={"slide_type": "fragment"}
open_closed.population()

# %% [markdown] slideshow={"slide_type": "fragment"}
# From 50 to 100 to 500 users *X* does not move, and *R* grows by 50 and by 400 seconds: one each per user. The last column
# asks an open loop for the same throughput: three times the response time at 12 users, none at all from 50 on.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 1: service that varies
#
# Lesson 03 showed what an occasional long request does to an open queue. Does a closed test show it?

# %% slideshow={"slide_type": "fragment"}
open_closed.variability()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: which of the two loops can have 100 requests behind a long one? (Only the open one: the closed one has 12 users.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Behind a long request at most *N* − 1 others can queue; in the open loop the queue has no such limit. So a closed test
# understates exactly what hurts users most: variable service (Schroeder, Wierman and Harchol-Balter, 2006).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 2: an open loop with a cap
#
# Many tools send at a rate but keep at most so many requests in flight. When the cap is reached they **queue** the
# request inside the tool, **skip** it, or **drop** it and say so. Then the answers decide again when the next is sent.

# %% slideshow={"slide_type": "fragment"}
open_closed.caps()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask the room to vote: which of the three tools would you believe? Then read the last column.

# %% [markdown] slideshow={"slide_type": "subslide"}
# One server, one load, one promise: within 1 s. Two of the tools report 97% kept, one 79%. Of all that was intended it is
# 79% at most.
#
# - **queue** starts its clock when it sends: the wait in its own queue is in no number it prints;
# - **skip** leaves no line for what it did not send: the remaining lines look well;
# - **drop** leaves a line that is not ok. Only this one agrees with the count over all that was intended.
#
# Ask of every report: how many requests were intended, sent, answered? And when did the clock start?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In LLM serving: which loop is your tool, which is your user?
#
# | part | closed: an answer lets the next go | open: a schedule does |
# |---|---|---|
# | tools | wrk, hey, ab; k6 `constant-vus`; Locust users; any `--concurrency` | wrk2 `-R`, vegeta, k6 `constant-arrival-rate`; any `--request-rate` without a cap |
# | users | an agent between tool calls; a batch job; an evaluation harness | the public; API keys of many customers |
# | asks | how fast can it go with *N* at work? | does the promise hold at λ? |
#
# A chat is in between: people arrive whatever happens, and within a conversation each waits for the answer.
# `--request-rate` *with* `--max-concurrency` is the capped loop of the slide before.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### A real server
#
# HTTP on loopback, service exponential with mean 10 ms, one request at a time: capacity 100/s. At the same moment, each
# against a server of its own: 12 users and 50 users who think 90 ms, and an open loop at 150/s.

# %% slideshow={"slide_type": "fragment"}
measured = open_closed.live()

# %% slideshow={"slide_type": "fragment"}
open_closed.live_picture(measured)

# %% slideshow={"slide_type": "subslide"}
open_closed.live_table(measured)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The interactive law holds on the real server: *X (R + Z)* gives back the users. The 50 users and the open loop both keep
# the server busy all the time; only the open one shows that half as much again was wanted. If the
# generator itself was late, the caption says so: other programs had the processor.

# %% [markdown] slideshow={"slide_type": "notes"}
# `qlab serve --mean 0.01` and `qlab load URL --users 50 --think 0.09` or `--rate 150` do the same from a shell.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### A practitioner's question
#
# *"With 10 concurrent users we get 6.29 requests/s and 1.54 s; with 30 users 1.21 requests/s and 23.2 s. Is the tool broken?"*
#
# Users who do not think have *Z* = 0, so *X R* must give back *N*. Put in your own reports:

# %% slideshow={"slide_type": "fragment"}
open_closed.do_they_agree(
    (10, 6.29, 1.54), (30, 1.21, 23.2), think_s=0
)  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# 9.7 of 10 and 28.1 of 30: **the numbers agree, so the slowdown is real.** And it is no queue: past *N\** a healthy server keeps *X* at
# its capacity. Here *X* fell by four fifths: with 30 inside each request costs five times as much, 0.83 s instead of 0.16 s. Look for
# preemption and recomputation when the KV cache is full, for swapping, for a lock.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Think
#
# **1.** A tool with one virtual user is told to send 1 request/s. Each takes 1.9 s. It reports "dropped" for 15 of 30. Is the server
# overloaded?
#
# <details><summary>Answer</summary>
#
# The server was never asked. The one user is busy for 1.9 s, so every second start finds nobody free: the *tool* dropped
# 15. By Little's law 1/s × 1.9 s = 1.9 users are busy on average, so at least 2 are needed, and with constant times 2 carry it.
#
# </details>
#
# **2.** A "Poisson" generator sleeps an exponential time of mean 10 ms, sends (2 ms of work), sleeps again. Which rate does it offer?
#
# <details><summary>Answer</summary>
#
# One request per 12 ms: 83/s, not 100/s, and the gaps are no longer exponential. If it also waits for the answer, it is a closed loop
# with one user who thinks 10 ms. Draw the whole schedule first, and send by the clock.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Takeaways
#
# - **A closed loop never shows overload**: its users wait, so *X* ends at the capacity and *R* grows by one service time per user.
# - *N = X (R + Z)*, in every closed test. If a report breaks it, something was not counted.
# - At the same throughput an open load waits longer, and far longer where service varies.
# - A cap turns an open loop into a closed one. Ask what became of the requests above it.
#
# **Now:** [the exercises](../exercises/07_open_closed.ipynb). **Next:** [08 Coordinated omission](08_coordinated_omission.ipynb), what a waiting tool leaves out.

# %% slideshow={"slide_type": "skip"}
progress.table()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## References
#
# - B. Schroeder, A. Wierman, M. Harchol-Balter, *Open versus closed: a cautionary tale*, NSDI 2006.
# - P. J. Denning, J. P. Buzen, *The operational analysis of queueing network models*, ACM Computing Surveys 10, 1978.
# - M. Reiser, S. S. Lavenberg, *Mean-value analysis of closed multichain queuing networks*, Journal of the ACM 27, 1980.
# - C. Palm, *The distribution of repairmen in servicing automatic machines* (in Swedish), 1947: the machine repairman.
# - M. Harchol-Balter, *Performance Modeling and Design of Computer Systems*, Cambridge 2013, chapters 2, 6 and 7.
