# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 01 Little's law
#
# **How many requests are inside, and how much memory is that?**
#
# *Before:* nothing. *Time:* 45 minutes. *Words:* [glossary](glossary.md), English and Chinese.
# After this lesson you can
#
# - **convert** between arrival rate, time in system and requests inside, for any system;
# - **size** the KV cache of a service from its arrival rate;
# - **notice** when a gauge, a log and a benchmark report contradict each other.

# %% [markdown] slideshow={"slide_type": "notes"}
# Lecture: 25 minutes. Predict 3, play 6, why 5, check 3, break 5, serving 3. Ask for hands before each plot.

# %% slideshow={"slide_type": "skip"}
from labsupport import little
from labsupport.lab import predict, progress, recall

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Predict
#
# A chat service gets 20 requests per second. A request stays 8 seconds. It holds 2,048 tokens of context.
# The model is Llama-3-8B: 131,072 bytes of KV cache per token.

# %% slideshow={"slide_type": "fragment"}
predict("01.kv_cache", "How many GB does the KV cache of all requests inside take, on average?", unit="GB")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Play: one area, counted twice
#
# Requests come for 30 seconds; then the run goes on until it is empty. Above, *N(t)*: how many are inside.
# Below, one bar per request: how long it is inside.

# %% slideshow={"slide_type": "fragment"}
little.area()

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try three settings, and read the two headings each time:
#
# 1. Raise the arrival rate from 0.4 to 1.0 per second. Which of λ, W and L moves most?
# 2. Choose heavy-tailed service. One long request holds up the others; do the two numbers still agree?
# 3. Choose the closed loop and raise the rate. Why does L stop at 6?
#
# **The surprise:** the two numbers agree to the last digit, in every system and at every setting, overload included.
# They carry no interval, because nothing is estimated: both count the same finished run.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the audience choose a system that should break the law. None does: the run is finished and starts empty.
# Keep overload for "Break it". Question to ask: what did we assume about the order of service? (Nothing.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why
#
# Look at the area under *N(t)* during a run of length *T* that starts and ends empty.
#
# - Added **by time** it is $\int_0^T N(t)\,dt = L\,T$, with $L$ the average number inside.
# - Added **by request** each of the $n$ requests adds its own time inside: together $n\,W$, with $W$ the mean.
#
# It is one area, so $L\,T = n\,W$. Divide by $T$; the arrival rate is $\lambda = n/T$:
#
# $$L = \lambda\,W \qquad \text{[requests]} = \text{[requests/s]} \times \text{[s]}$$

# %% [markdown] slideshow={"slide_type": "subslide"}
# Nothing was assumed about arrivals, service times, the number of servers or the order. For a system that never
# empties, the law holds in the long run if the averages settle: what comes in also goes out (Little, 1961; Stidham, 1974).
#
# It holds for any part you can draw a line around: the queue alone ($L_q = \lambda W_q$, with the *waiting* time),
# the servers alone, one model in a router, the requests that hold KV cache.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Check it
#
# Five systems, the two sides computed apart: *L* from the steps of *N(t)*, *λW* from the records of the requests.

# %% slideshow={"slide_type": "fragment"}
little.five_systems()

# %% [markdown] slideshow={"slide_type": "fragment"}
# The gap within one run is rounding. The interval says something else: how far one run's *L* may lie from the
# long-run value in the last column. Little's law is exact; an estimate of *L* is not.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 1: a system that does not keep up
#
# Cut the run at *T* and use only the requests that have finished: that is what most logs hold.

# %% slideshow={"slide_type": "fragment"}
little.unfinished_runs()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: cut a test while requests are still inside, and keep only the finished ones. Is λW too small or too large? (Too small.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# At load 0.8 the two sides meet: what is still inside at the cut matters less and less. At load 1.1 they never meet,
# and neither settles. The requests that wait longest are the ones that are not in the log yet.
#
# **Use it as an alarm:** if *λW* from finished requests stays below the gauge, work is piling up.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it 2: a gauge that looks only while the server is busy
#
# An engine writes a line of statistics at each step, but makes no steps when it is idle.

# %% slideshow={"slide_type": "fragment"}
little.gauges()

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask before the table: at a load of 20%, by how much is this gauge wrong, and in which direction? (Five times too high.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The plain mean of such samples leaves out the zeros. In M/M/1 it is too high by 1/ρ: five times at 20% load,
# and almost right near saturation. An error that goes away under stress is hard to find. Weigh each sample with the
# time until the next one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In LLM serving: requests inside are memory
#
# A request holds its KV cache as long as it is inside. So memory follows from the arrival rate.

# %% slideshow={"slide_type": "fragment"}
little.memory()

# %% slideshow={"slide_type": "fragment"}
chat = little.memory().result
recall("01.kv_cache", chat.gb, unit="GB")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Try: set the time in system to 60 s, as for a model that reasons before it answers. 1,200 requests are inside and hold
# 322 GB. Long answers are expensive twice: they are more work, and they keep their memory longer.
#
# Read backwards it is a ceiling: with room for $L_{max}$ requests, throughput is at most $L_{max}/W$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### A real trace
#
# An hour of Azure's conversation service, 19,366 requests (Patel et al., 2024). The trace has arrivals and tokens, but no
# response times: we *assume* 0.2 s, plus 0.2 ms per prompt token, plus 30 ms per output token.

# %% slideshow={"slide_type": "fragment"}
conversation = little.conversation()
little.real_trace(conversation)

# %% slideshow={"slide_type": "subslide"}
little.trace_memory(conversation)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The law is exact on real input too. But the last line is not *L* × mean context: a long request is inside longer
# *and* holds more, so memory weighs it twice. For memory, average what each request holds **times** how long it holds it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### A real load test
#
# vLLM under three loads, 500 prompts each (BurstGPT authors' public logs). Four ways to say how many requests were
# inside: one from the client's records, three from the engine's own gauges.

# %% slideshow={"slide_type": "fragment"}
little.vllm_sweep()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Weighted by time, *running + waiting* agrees with the records within 2% at every load. Two short cuts fail:
#
# - the **plain mean** is half too high at the lightest load: this engine writes a line only while it works;
# - **running** alone is 15% too low at the heaviest load: what waits is inside too. Draw one line, count both sides of it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Think
#
# **1.** A tool with 4 threads, each sending its next request when the last answer is there, reports 12.65 requests/s and a
# mean response of 209 ms. What is wrong?
#
# <details><summary>Answer</summary>
#
# 12.65/s × 0.209 s = 2.64 requests under way, not 4. Either a third of the threads' time goes to the client itself, or the
# clock starts after a queue inside the client. With all four busy it would be 4 / 0.209 s = 19.1 requests/s.
#
# </details>
#
# **2.** After an update the GPU's batch is fuller: 40 requests instead of 30, at the same arrival rate. Good news?
#
# <details><summary>Answer</summary>
#
# By Little's law each request now stays a third longer (W = L/λ). A fuller batch at the same arrival rate means that
# requests got slower, unless the batch was fed from a queue that is now shorter: draw the line around both and count again.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Takeaways
#
# - **L = λW needs no model**: only that the averages settle, and that all three are measured around the same line.
# - Requests inside are memory: 20/s × 8 s × 2,048 tokens × 128 KiB = 42.9 GB.
# - Two counters that break the law are not measuring the same thing, or the system does not keep up.
#
# **Now:** [the exercises](../exercises/01_little.ipynb). **Next:** [02 The hockey stick](02_hockey_stick.ipynb), why nobody runs a server at 100%.

# %% slideshow={"slide_type": "skip"}
progress.table()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## References
#
# - J. D. C. Little, *A proof for the queuing formula: L = λW*, Operations Research 9, 1961.
# - S. Stidham, *A last word on L = λW*, Operations Research 22, 1974: the argument by area.
# - M. Harchol-Balter, *Performance Modeling and Design of Computer Systems*, Cambridge 2013, chapter 6.
# - W. Kwon et al., *Efficient memory management for large language model serving with PagedAttention*, SOSP 2023.
# - P. Patel et al., *Splitwise: efficient generative LLM inference using phase splitting*, ISCA 2024: the Azure traces (CC BY 4.0).
# - Y. Wang et al., *BurstGPT: a real-world workload dataset to optimize LLM serving systems*, 2024; logs from their test repository (MIT).
