# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 09 Sample size
#
# **Is the difference real?**
#
# A number is known as well as independent repetitions of the whole test agree on it, and no better.
#
# *Before:* lesson 02. *Time:* 45 minutes. *Words:* [glossary](glossary.md), English and Chinese.
# After this lesson you can
#
# - **choose** how many requests a percentile needs, and say when no interval for it exists;
# - **give** an interval for the mean of waits that depend on each other;
# - **compare** two systems on the same requests, and see a difference of 1% that independent tests miss.

# %% [markdown] slideshow={"slide_type": "notes"}
# Lecture: 29 minutes. Predict 2, P99 of n 5, why 4, check 3, waits in a row 5, short and unstable runs 4, A against B 4,
# serving 2. The sentence under the question is the one to remember: each picture shows a test repeated, and how far the
# repetitions lie apart.

# %% slideshow={"slide_type": "skip"}
from labsupport import sample_size as lesson
from labsupport.lab import predict, progress, recall

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Predict
#
# You load a service with 500 requests and report the P99 of the response time. The requests do not disturb each other;
# the response times have a long tail (lognormal, standard deviation twice the mean). Then you do the same test again and
# again. By how much do the reported P99s scatter?

# %% slideshow={"slide_type": "fragment"}
predict(
    "09.scatter",
    "What is their standard deviation, in per cent of the true P99?",
    unit="%",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play: one test, repeated 1,000 times
#
# Above: how far the reported percentile lies from the true one. Below: 30 of these tests, each with the 95% interval that
# it would report from its own data alone. Vermillion: the interval misses the true value.

# %% slideshow={"slide_type": "fragment"}
lesson.p99()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try three settings:
#
# 1. Lower n to 300, then to 50. What happens to the intervals? Which way are the tests wrong?
# 2. Raise n until the standard deviation is below 5%. How many requests lie above the P99 then?
# 3. Choose P50, then P99.9, at n = 10,000. Which percentile can such a test report?
#
# **The surprise:** below 368 requests no 95% interval for P99 exists without assumptions about the tail. And a short test is not only
# uncertain: it is usually too optimistic.

# %% [markdown] slideshow={"slide_type": "notes"}
# The horizontal axis changes in steps: read it aloud. Setting 1: the intervals vanish, and most points lie left of the
# line. At n = 50 even the largest of all response times is below the true P99 in 60% of the tests (0.99 to the 50).
# Setting 2: n = 10,000 gives 4.7% with 100 requests above P99. Setting 3: P99.9 of 10,000 has ten requests above it.
# Question to ask: what would you need to know to give an interval for P99 from 100 requests? (The shape of the tail.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why
#
# **The count above.** Of $n$ independent requests about $m = n(1-p)$ lie above the $p$-quantile $q$. The count scatters like
# a binomial, by about $\sqrt{m}$: only these few requests know the tail. With $f$ [1/s] the density of the response time at
# $q$ [s], the reported quantile $\hat q$ scatters by
#
# $$\frac{\mathrm{sd}(\hat q)}{q} \approx \frac{1}{q\,f(q)}\sqrt{\frac{p(1-p)}{n}} \approx \frac{h}{\sqrt{m}}, \qquad
# h = \frac{1-p}{q\,f(q)}$$
#
# For this tail $h$ = 0.48: five requests above P99 give 21%, a hundred give 5%. A longer tail has a larger $h$.

# %% slideshow={"slide_type": "fragment"}
test = lesson.p99(n=500, cv=2.0).result.tests
recall("09.scatter", test.spread_percent, unit="%")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **An interval without a formula for the tail.** Sort the values: $x_{(1)} \le \dots \le x_{(n)}$. How many lie below the true
# $q$ is binomial($n, p$), whatever the distribution. So $[x_{(l)}, x_{(u)}]$ holds $q$ in 95% of the tests if the binomial
# count falls between the ranks $l$ and $u$ in 95%.
#
# **When none exists.** All $n$ values lie below $q$ with probability $p^n$. Then even the largest is no upper end. For P99:
#
# - upper bound alone, 5% risk: $0.99^n \le 0.05$, so $n \ge 299$;
# - two ends, 2.5% risk each: $0.99^n \le 0.025$, so $n \ge 368$.
#
# That is the least for *any* interval. For a short one you need a hundred requests above the percentile: 10,000 for P99,
# 100,000 for P99.9.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Check it
#
# The formula is for large n. Where does it begin to hold?

# %% slideshow={"slide_type": "fragment"}
lesson.spread_of_p99()

# %% [markdown] slideshow={"slide_type": "fragment"}
# From five requests above the percentile on, the formula is right within a few per cent. With one, the largest value *is* about
# all that is known, and the estimate is 12% too low on average.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three intervals from the same data
#
# The **bootstrap** draws n values from the n measured ones, with replacement, many times, and takes the middle 95% of the
# resulting P99s (Efron, 1979). It assumes that the values are independent.

# %% slideshow={"slide_type": "fragment"}
lesson.intervals_for_p99()

# %% [markdown] slideshow={"slide_type": "fragment"}
# The first two hold what they promise, nearly. Both say: from 2,000 requests the P99 is known to ± 20 or 25%. The third puts
# the formula for the *mean* around a P99. It is 20 times shorter and almost always wrong.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 1: the values are not independent
#
# So far each request was alone. In a queue, whoever stands behind a long wait also waits long. One server, Poisson
# arrivals, exponential service (M/M/1); *waiting* times in the order of arrival. The runs begin in their steady state.

# %% slideshow={"slide_type": "fragment"}
lesson.correlated()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try: lower the utilisation to 0.5, then to 0.1. Back at 0.9, press "New sample" ten times and count how often the first
# interval misses. Set 0.95 and 1,000 waits: which intervals notice that they know nothing?
#
# **Autocorrelation** at lag $k$: the correlation of waits $k$ requests apart, 0.99 for neighbours at ρ = 0.9. Summed up it gives
# the *integrated autocorrelation time* $\tau = 1 + 2\sum_k r_k$ [requests], here 363. For the mean, $n$ waits in a row are
# worth $n/\tau$ independent ones: 33,000 are worth 91 (Daley, 1968).
#
# **Two cures.** *Batch means*: cut the run into some 10 long stretches; their means are nearly independent if each is many
# τ long. *Replications*: repeat the whole test with other random numbers, and take the interval from the results.

# %% [markdown] slideshow={"slide_type": "notes"}
# The last interval uses ten times as many waits, so it is shorter; that is not its merit. Its merit is that nothing has to
# be assumed about the order within a run. At 0.95 and 1,000 waits one run lies within a single busy spell: its own estimate
# of τ is far too small, because it has never seen the end of a correlation.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How often is a 95% interval right?
#
# 60 times: make the test, make four intervals for the mean and four for P99, and look whether the truth lies inside. For
# P99 the batches say how much it varies; the whole run gives its value.

# %% slideshow={"slide_type": "fragment"}
lesson.coverage()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Taken as 33,000 facts, the waits give an excellent interval, ± 1%, which is right in one test of ten. Batches rescue the
# *mean*, nearly. They do not rescue the *P99*: a short batch has no tail of its own to show. Whole runs, each long enough, come
# close; even they need to be longer for P99 than for the mean.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 2: the run is too short
#
# Now the run starts **empty**, as every load test does, at utilisation 0.95. What does it say about the long run?

# %% slideshow={"slide_type": "fragment"}
lesson.short_runs()

# %% [markdown] slideshow={"slide_type": "fragment"}
# A lecture note gives 14.9 as the mean wait over the first 1,000 requests, from a few runs. The exact value is 13.32. Was the
# note wrong? One run's mean scatters by 8.2; the average of ten runs by 8.2/√10 = 2.6. 14.9 lies within that noise: not wrong,
# but two of its three digits mean nothing.

# %% [markdown] slideshow={"slide_type": "subslide"}
# - **Bias:** a run from empty is too optimistic by 30% here, and more such runs do not help: they agree on the wrong value.
# - **Warm-up removed:** the second half alone is nearer. It cannot cure a run that is too short as a whole.
# - **Length:** at 0.95 the autocorrelation time is 1,523 requests. Ten runs of 10,000 still lie between 10 and 31.
#
# Rule of the practitioner: fixed duration, warm-up left out, then *double the length*. If the conclusion changes, it was
# none.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 3: there is nothing to estimate
#
# A public report: 1,000 requests sent at 200/s, 2.3/s completed, "time to first token 434 s". How many requests must the
# tester send for a precise value?

# %% slideshow={"slide_type": "fragment"}
lesson.no_latency()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Twice the requests, twice the latency. The last request waits 1000/2.3 − 1000/200 = 430 s because the tester stopped at 1,000. An
# unstable system has no latency, only a run length. Report the capacity, 2.3/s, and nothing else.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A against B
#
# B's service times are 1% shorter. At utilisation 0.8 its mean *response* time is 4.8% shorter (lesson 02: $S/(1-\rho)$, and
# both $S$ and ρ fall). Each test of A and of B has 5,000 requests.

# %% slideshow={"slide_type": "fragment"}
lesson.a_against_b()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try: give A and B the same requests. Then set the speed-up to 0. Then, with different requests again, look for the
# speed-up from which on B wins at least 95 of 100 tests.
#
# **Common random numbers:** both systems get the same arrivals, and the same random numbers make their service times. A hard
# sample is hard for both, and its hardness cancels in the difference:
#
# $$\mathrm{Var}(B - A) = \mathrm{Var}(A) + \mathrm{Var}(B) - 2\,\mathrm{Cov}(A, B)$$
#
# Run by run, *then* the mean and its interval: a **paired** comparison.

# %% slideshow={"slide_type": "fragment"}
lesson.one_per_cent()

# %% [markdown] slideshow={"slide_type": "notes"}
# Setting 2: with the same requests and no speed-up every difference is exactly 0. Good as a test of the tester: compare A
# with A first. The middle row has the right runs and the wrong formula: it throws the pairing away. The last column says
# what the pairing saves: runs of the whole test.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In LLM serving: the same hour, three comparisons
#
# Azure's conversation trace (Patel et al., 2024) through one prefill server; B's prefills are 2% shorter. Common practice is
# the second row: measure, deploy, measure again.

# %% slideshow={"slide_type": "fragment"}
trace = lesson.conversation()
lesson.before_and_after(trace)

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: "we measured for an hour before and an hour after". What else changed between the two hours? (The load.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The first row compares A with itself: the load of the two half hours differs far more than A and B do. Taking turns does not help
# enough. Replaying the *same* requests shows the 2%, which the queue makes larger. It is one hour of one service: repeat it
# with other traces before you generalise.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### How long must the test run?
#
# Promise: P99.9 at 50 requests/s. A hundred requests above P99.9 need 100/0.001 = **100,000 requests**, so 100,000 / (50/s) =
# **2,000 s**, 33 minutes, after the warm-up. And these must be worth 100,000 independent ones. Put in your own:

# %% slideshow={"slide_type": "fragment"}
lesson.how_long(p=0.999, rate=50, above=100, tau=1)

# %% [markdown] slideshow={"slide_type": "subslide"}
# MLPerf Inference fixes the count beforehand (Reddi et al., 2020):

# %% slideshow={"slide_type": "fragment"}
lesson.mlperf()

# %% [markdown] slideshow={"slide_type": "notes"}
# MLPerf asks about the share of late queries, not about the percentile itself: is P(late) at most 1%? z² p(1 − p)/margin², with
# z = 2.576 for 99%. It takes queries as independent. Question to ask: where would that be right? (One query at a time, on an idle
# system; not in a queue at high load.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Think
#
# **1.** A benchmark of ten iterations reports a P99. What is it?
#
# <details><summary>Answer</summary>
#
# The chance that any of ten values lies above the true P99 is 1 − 0.99<sup>10</sup> = 9.6%. In nine of ten benchmarks the tool reports
# something like the largest value, below the true P99. Report the median and all ten values instead.
#
# </details>
#
# **2.** A tool sends prompts made from one fixed seed. Throughput of five runs: 1.0, 2.3, 2.3, 2.3, 2.3. The last four agree to three
# digits. What is the right number?
#
# <details><summary>Answer</summary>
#
# Same seed, same prompts: from the second run on the prefix cache answers. The four runs repeat one experiment on a warm cache, and
# their agreement says nothing about other prompts. New prompts for each run, or a flushed cache; common random numbers belong
# <i>between</i> A and B, not between repetitions.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Takeaways
#
# - **A number is known as well as independent repetitions of the whole test agree on it, and no better.**
# - P99: no interval below 368 requests; with this tail 20% off with 500, 5% with 10,000. Count the requests above.
# - Waits in a row are not independent: 33,000 at ρ = 0.9 are worth 91. Repeat the test, or use long batches.
# - Short runs from empty are too optimistic; unstable ones have no latency.
# - Compare on the same requests, pair by pair: 1% shows in every run.
#
# **Now:** [the exercises](../exercises/09_sample_size.ipynb). **Next:** [10 The SLO budget](10_slo_budget.ipynb), how to keep a promise when the load exceeds you.

# %% slideshow={"slide_type": "skip"}
progress.table()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## References
#
# - H. A. David, H. N. Nagaraja, *Order Statistics*, Wiley 2003: intervals for quantiles without assumptions.
# - B. Efron, *Bootstrap methods: another look at the jackknife*, Annals of Statistics 7, 1979.
# - D. J. Daley, *The serial correlation coefficients of waiting times in a stationary single server queue*, J. Australian Math. Soc. 8, 1968.
# - B. Schmeiser, *Batch size effects in the analysis of simulation output*, Operations Research 30, 1982.
# - A. M. Law, *Simulation Modeling and Analysis*, McGraw-Hill 2015, chapters 9 (output analysis) and 11 (common random numbers).
# - V. J. Reddi et al., *MLPerf Inference benchmark*, ISCA 2020: query counts.
# - T. Hoefler, R. Belli, *Scientific benchmarking of parallel computing systems*, SC 2015: twelve rules.
# - P. Patel et al., *Splitwise: efficient generative LLM inference using phase splitting*, ISCA 2024: the Azure traces (CC BY 4.0).
