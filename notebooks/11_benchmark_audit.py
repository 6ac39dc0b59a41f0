# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 11 Auditing a benchmark
#
# **Can this benchmark be believed?**
#
# *Before:* lessons [01](01_little.ipynb) to [10](10_slo_budget.ipynb); each check leads back to one of them. *Time:* 45 minutes. *Words:* [glossary](glossary.md), English and Chinese.
# After this lesson you can
#
# - **load** the result file of a real tool and say what may be concluded from it;
# - **find** the flaw in a file with a few lines of code;
# - **name** what a file cannot tell, and what to record next time.
#
# **In one sentence:** a result is a number together with the checks that it has passed.

# %% [markdown] slideshow={"slide_type": "notes"}
# Lecture: 22 minutes. Predict 2, play 7, why 4, check 2, break 4, files of tools 3.
# Ask first: who has changed a decision because of a benchmark? Who had seen its raw records?

# %% slideshow={"slide_type": "skip"}
from labsupport import benchmark_audit
from labsupport.lab import predict, progress, recall

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Predict
#
# Users come at 12 requests/s. A service takes 0.62 s on average, and the load tool has at most 8 requests in flight; others wait *in the tool*.
# Its file says: **P99 of the response time 1.16 s**. The tool starts its clock when it sends.

# %% slideshow={"slide_type": "fragment"}
predict(
    "11.p99",
    "What is P99 in seconds, counted from the moment the user came?",
    unit="s",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play: one flaw in each file
#
# Each file comes from the course's own simulators and has one known flaw, or none. Choose a file and look at the list; then choose a check to read
# its reason and its numbers.

# %% slideshow={"slide_type": "fragment"}
benchmark_audit.checks()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Four verdicts: **holds**; **doubtful**; **broken**; **can't be checked**, which is a verdict on the file, not on the system. Try three settings:
#
# 1. Take *waiting hidden behind a cap*. Which check finds it? Choose *attainment* and compare the two clocks in its numbers.
# 2. Take *generator sleeps after each send* and lower *requests* to 100. Why is the flaw gone?
# 3. Take *a mystery* and press *New sample*. Name the flaw from the verdicts; several checks may answer to one flaw.
#
# **The surprise:** go back to *clean* and set *requests* to 100. Nothing is wrong with this file, and still it cannot carry a P99: *enough requests* is
# broken. A benchmark need not lie to be worthless.

# %% slideshow={"slide_type": "fragment"}
recall("11.p99", benchmark_audit.two_clocks()[1], unit="s")

# %% slideshow={"slide_type": "fragment"}
benchmark_audit.two_clocks_table()

# %% [markdown] slideshow={"slide_type": "notes"}
# Both rows are true; the first describes the server, the second the service. In setting 2: the rate of 100 gaps is uncertain by 10%, the shortfall is 6 to 23%.
# Let the audience vote on the mystery before you open a check.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why these checks
#
# **1. Do the numbers fit together?** Throughput $X$ [requests/s] and mean response time $W$ [s] fix the mean number in flight: $L = X\,W$. No peak exceeds the cap.
#
# **2. Who sent, and when?** $n$ requests have $n-1$ gaps, so they were sent at $(n-1)/(t_n - t_1)$ [1/s], where $t_i$ [s] is the moment of send $i$. Over the *whole* run, drain $D$ [s]
# included, less comes out: $n/(t_n - t_1 + D)$. Case: 10,000 requests offered at 15/s and 65.8 s of drain give
# $10\,000/(666.7 + 65.8) = 13.65$/s. That is not overload.
#
# **3. Is there enough evidence?** An interval for P99 needs $1 - 0.99^n \ge 0.975$: $n \ge 368$ *independent* values for an upper end at all.
#
# **4. What was counted?** With a share $f$ of failures, the $p$-quantile of all requests is infinite as soon as $f > 1 - p$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Check it: does the audit find what it should?

# %% slideshow={"slide_type": "fragment"}
benchmark_audit.detection()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Counters that disagree show in 100 requests; a rate needs thousands. The last row is the price of 14 checks: *doubtful* also meets honest files. It
# means "look again", not "throw away".

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 1: the audit's own assumption
#
# Each check trusts that the file holds *every* request. Somebody deletes the slowest 5% and computes all numbers anew.

# %% slideshow={"slide_type": "fragment"}
benchmark_audit.deleted()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask before the table: somebody deletes the slowest 5% of the lines. Which check finds it? (None: only the engine's gauge.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# No alarm: a consistent file is not a true one. Only an **independent witness**, the engine's own gauge, contradicts it: $L = \lambda W$ holds for
# all requests or not at all. Save the server's gauge with each test.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 2: one word, two meanings
#
# Two tools take a *burstiness* $b$. In one it is the shape of a gamma distribution, so the gaps have SCV $1/b$; in another it is their
# coefficient of variation, SCV $b^2$. The same command line, the same server:

# %% slideshow={"slide_type": "fragment"}
benchmark_audit.burstiness()

# %% [markdown] slideshow={"slide_type": "fragment"}
# At $b = 0.25$ the mean wait differs sixfold, and at $b = 2$ the other tool is the bursty one. Do not trust the name: compute the SCV from the moments of sending.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In LLM serving: what each tool saves
#
# One run with a hidden queue, written by three tools and read back:

# %% slideshow={"slide_type": "fragment"}
benchmark_audit.same_run()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Aggregates leave most questions open, and no later work can close them. **Always save the records of each request** (`--save-detailed` in
# vLLM), with the intended moment of sending where the tool has one.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A real load test
#
# BurstGPT's authors sent 500 prompts at three speeds to a vLLM server, and kept the client's records *and* the engine's log.

# %% slideshow={"slide_type": "fragment"}
benchmark_audit.real_sweep()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Two clocks and two programs agree on $L$: these records are complete. That is rare, and worth much.
#
# What may *not* be concluded: a latency "of the server". Look at *stable?* and *enough evidence* for the load you care about: where the queue grows until the sending
# ends, twice the run gives twice the number, and 500 dependent values are worth a few independent ones.
#
# *May be concluded:* what this engine did with this very minute of traffic. Do so in these words.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Your own file
#
# In a terminal, with any number of files from one series (the engine's gauge may be one of them):
#
# ```
# qlab audit result.json
# qlab audit --slo ttft=0.5 result.json
# qlab audit --sheet result.json
# ```
#
# They give the findings, worst first; attainment by each definition; and one page that can be defended.
#
# Or here: `audit_files(["result.json"])` from `labsupport.audit`.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The list to write *before* the test
#
# | part | decide and note |
# |---|---|
# | load | open loop; arrival process (Poisson, and one burstier); lengths from a trace; shared prefixes, prompts not repeated |
# | run | fixed duration; warm-up left out; twice the length gives the same answer; "unstable" where it is |
# | measures | TTFT, TPOT, longest gap, attainment, goodput *with its definition*; failures as misses |
# | evidence | enough requests for the percentile; several seeds; the same trace for both systems; intervals |
# | result | a curve over rates, not a point; raw records and the engine's gauge kept |

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Think
#
# **1.** A team runs each setting with the same seed. From the second run on the throughput is 2.3 times that of the first. What happened, and which check sees it?
#
# <details><summary>Answer</summary>
#
# The same seed draws the same prompts, and the prefix cache answers them. Given the files together, *repeated prompts* is broken where the prompts or the seed can
# be told. Flush the cache or change the seed, and throw the first comparison away.
#
# </details>
#
# **2.** A colleague wants to publish only files whose fourteen checks all hold. What would the published results have in common?
#
# <details><summary>Answer</summary>
#
# They would be long runs at moderate load: near saturation *enough evidence* is hardly ever met. Selecting by the verdict also favours lucky runs. Publish all of them, with their verdicts,
# and fix the plan before the first run.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Takeaways
#
# - **A result is a number together with the checks that it has passed.**
# - Begin with what costs nothing: $L = X\,W$, the sent rate net of the drain, failures as misses.
# - "Can't be checked" is a finding: record more next time.
# - A consistent file may still be incomplete: keep an independent witness.
#
# **The course in five lines:** arrivals clump (00, 04); $L = \lambda W$ counts what is inside (01); waiting explodes with load and with variability (02, 03, 05);
# a promise is judged by goodput, and kept by a door (06, 10); and who sends, which clock runs and how many values there are decide what a measurement means (07–09, 11).
#
# **Now:** [the exercises](../exercises/11_benchmark_audit.ipynb): five result files, five flaws. Then a file of your own.

# %% slideshow={"slide_type": "skip"}
progress.table()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## References
#
# - J. D. C. Little, *A proof for the queuing formula L = λW*, Operations Research 9, 1961.
# - B. Schroeder, A. Wierman, M. Harchol-Balter, *Open versus closed: a cautionary tale*, NSDI 2006.
# - E. B. Wilson, *Probable inference, the law of succession, and statistical inference*, JASA 22, 1927: the intervals of the shares.
# - Y. Wang et al., *BurstGPT: a real-world workload dataset to optimize LLM serving systems*, KDD 2025: the load test.
# - P. Patel et al., *Splitwise: efficient generative LLM inference using phase splitting*, ISCA 2024: traces to take lengths and arrivals from.
