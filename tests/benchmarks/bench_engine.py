"""How fast the engine is: run as a script, prints a table of rates and of ratios measured in one process.

Requests per second with plain Python loops (numba switched off), at 64 slots and 200 output tokens on average,
for several loads and settings. Beside each, the time of the token-by-token implementation of the tests over that
of the engine, for the same 1,000 requests served in turns. Seconds are those of the processor, so that other
programs disturb less; the best of several runs counts. Exits with 1 when an engine with all slots busy serves
fewer than 200,000 requests/s, or is less than 30 times faster than token by token.
"""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import token_by_token  # noqa: E402

from labsupport.queueing import workload  # noqa: E402
from labsupport.queueing.admission import Admission  # noqa: E402
from labsupport.queueing.engine import Engine, Pool, Split, serve  # noqa: E402

N, N_BY_TOKEN, ROUNDS = 50_000, 1_000, 3
WANTED_RATE, WANTED_RATIO = 200_000, 30

GPU = Engine(step_s=7.06e-3, per_sequence_s=7.4e-5, prefill_s=2e-3, per_prompt_token_s=2.15e-5, slots=64)
CASES = [  # name, system, engines, load, admission, whether the promise is for it
    ("all slots busy", GPU, 1, 1.2, None, True),
    ("load 0.9", GPU, 1, 0.9, None, False),
    ("load 0.5", GPU, 1, 0.5, None, False),
    ("+ cost of context", replace(GPU, per_context_token_s=1e-7), 1, 1.2, None, True),
    ("+ tight KV budget, preempting", replace(GPU, kv_tokens=45_000), 1, 1.2, None, False),
    ("+ chunked prefill", replace(GPU, chunk_tokens=512), 1, 1.2, None, False),
    ("four engines in turns", Pool(GPU, 4), 4, 1.2, None, False),
    ("four, least loaded", Pool(GPU, 4, "least_loaded"), 4, 0.9, None, False),
    ("four, with a door", Pool(GPU, 4), 4, 1.2, Admission(max_waiting=50, max_p99_ttft_s=5), False),
    ("two split pools", Split(GPU, Pool(GPU, 2)), 2, 0.9, None, False),
]


def seconds(*args, by=serve, **options):
    begin = time.process_time()
    by(*args, **options)
    return time.process_time() - begin


def main():
    os.environ["QLAB_NUMBA"] = "0"
    rng = np.random.default_rng(1)
    times = workload.poisson(rng, 1, N)
    prompt = np.clip(np.round(workload.lognormal(500, 1).sample(rng, N)), 1, 16_000).astype(int)
    output = rng.geometric(1 / 200, N)
    print(f"{'':32}{'requests/s':>12}{'token by token / engine':>26}")
    kept = True
    for name, system, engines, load, admission, promised in CASES:
        arrival = times / (load * engines * GPU.capacity(prompt, output))
        every = (arrival, prompt, output, system)
        few = (arrival[:N_BY_TOKEN], prompt[:N_BY_TOKEN], output[:N_BY_TOKEN], system)
        runs = [
            (
                seconds(*every, admission=admission),
                seconds(*few, admission=admission),
                seconds(*few, admission=admission, by=token_by_token.serve),
            )
            for _ in range(ROUNDS)
        ]
        whole, short, by_token = np.min(runs, axis=0)
        print(f"{name:32}{N / whole:12,.0f}{by_token / short:26.0f}")
        if promised and (N / whole < WANTED_RATE or by_token / short < WANTED_RATIO):
            kept = False
            print(f"  less than promised: {WANTED_RATE:,} requests/s and {WANTED_RATIO} times faster")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
