"""Sweeps: the same numbers on every pool, common random numbers, agreement with theory, and what a failure says."""

from __future__ import annotations

import importlib.util
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsupport import sizing
from labsupport.queueing import engine, simulate, theory, workload
from labsupport.queueing.slo import largest_rate_meeting
from labsupport.queueing.sweep import run_all, sweep

RATES, SEEDS, N = (5.0, 8.0, 9.0), 6, 4000


def waits(rate, rng):
    """Mean and P99 of the waiting time (s) in M/M/1 with 0.1 s of service."""
    arrival, service = workload.poisson(rng, rate, N), workload.exponential(0.1).sample(rng, N)
    wait = simulate.fcfs(arrival, service).wait[N // 5 :]
    return wait.mean(), np.quantile(wait, 0.99)


def mean_wait(rate, rng):
    return waits(rate, rng)[0]


def plan(executor=None):
    return sizing.plan(
        engine.Engine(7e-3, 7e-5, per_prompt_token_s=1e-4, slots=64), {"ttft": 1.0}, 0.9, rate=12.0,
        prompt_tokens=[400, 900, 2000], output_tokens=[50, 300, 120], seconds=20, runs=3, router="random", executor=executor,
    )  # fmt: skip


@contextmanager
def threads():
    with ThreadPoolExecutor(3) as pool:
        yield pool


@contextmanager
def processes():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


@contextmanager
def dask():
    if importlib.util.find_spec("distributed") is None:
        pytest.skip('distributed is not installed; it comes with: pip install "queueing-lab[cluster]"')
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        client.get_executor() as pool,
    ):
        yield pool


@pytest.mark.parametrize("pool", [threads, processes, dask], ids=lambda pool: pool.__name__)
def test_every_pool_gives_the_numbers_of_none(pool):
    here, planned = sweep(waits, RATES, SEEDS), plan()
    assert len(np.unique(here.values)) == here.values.size  # no two runs are one
    with pool() as executor:
        there = sweep(waits, RATES, SEEDS, executor)
        assert isinstance(executor, Executor)
        assert there.values.tobytes() == here.values.tobytes() and str(there) == str(here)
        again = plan(executor)
        assert again.engines == planned.engines and again.attainment == planned.attainment
        with pytest.raises(ValueError, match=r"^the run at rate = -1\.0, seed = 0 failed \(ValueError: rate = -1"):
            sweep(waits, [5.0, -1.0], 2, executor)


def test_means_agree_with_theory():
    found = sweep(mean_wait, RATES[:2], 40)
    for rate, estimate in zip(found.rates, found.estimates(), strict=True):
        error = estimate.half_width / 2.02  # t quantile of 40 runs
        assert abs(estimate.value - theory.MM1(rate, 0.1).mean_wait) < 4 * error
        assert estimate.n == 40 and estimate == found.at(rate)


def test_seeds_share_their_random_numbers_at_all_rates():
    found = sweep(lambda rate, rng: rng.random(), [1, 2, 30], [4, (5, 6)])
    assert (found.values == found.values[0]).all() and found.values[0, 0] != found.values[0, 1]
    assert found.values[0, 1] == np.random.default_rng((5, 6)).random()
    near = sweep(waits, [8.0, 8.1], 10)
    change = near.difference(8.0, 8.1, 0)
    apart = np.hypot(near.at(8.0, 0).half_width, near.at(8.1, 0).half_width)
    assert change.value > 0 and change.half_width < apart / 5  # the noise is common, so it cancels


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=4), st.integers(1, 4))
def test_values_stand_at_their_rate_and_seed(rates, seeds):
    found = sweep(lambda rate, rng: (rate, rng.random()), rates, range(seeds))
    assert found.values.shape == (len(rates), seeds, 2)
    assert (found.values[:, :, 0] == np.array(rates)[:, None]).all()
    assert found.at(rates[0], 1).value == pytest.approx(np.mean([np.random.default_rng(s).random() for s in range(seeds)]))
    assert len(found.estimates(0)) == len(rates) == str(found).count("\n") + 1


def kept(rate, rng):
    """Share of the requests of M/M/1 with 0.1 s of service that wait at most 0.5 s."""
    arrival, service = workload.poisson(rng, rate, N), workload.exponential(0.1).sample(rng, N)
    return np.mean(simulate.fcfs(arrival, service).wait[N // 5 :] <= 0.5)


def test_goodput_by_bisection_on_a_pool():
    with threads() as pool:
        found = [
            largest_rate_meeting(lambda rate, on=on: sweep(kept, [rate], 8, on).at(rate), 0.9, 5.0, 9.5, rtol=1e-2)
            for on in (None, pool)
        ]
    assert found[0] == found[1] and found[0].low < found[0].value < found[0].high
    exact = theory.largest_rate(theory.MM1(1.0, 0.1), 0.5, "wait", 0.9)
    error = (found[0].high - found[0].low) / 2 / 2.36  # t quantile of 8 runs
    assert abs(found[0].value - exact) < 4 * error


def test_progress_is_told_after_each_run_in_order():
    seen = []
    with threads() as pool:
        sweep(mean_wait, [5.0, 6.0], 2, pool, progress=lambda *at: seen.append(at))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


class Lazy(Executor):
    """Begins a task only when its result is asked for, and keeps count."""

    def __init__(self):
        self.began, self.futures = [], []

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        wait = future.result

        def result(timeout=None):
            self.began.append(kwargs)
            future.set_running_or_notify_cancel()
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)
            return wait(timeout)

        future.result = result
        self.futures.append(future)
        return future


def test_a_failure_names_its_run_and_ends_the_rest():
    def fails(rate, rng):
        return 1 / (rate - 2)

    for executor in (None, Lazy()):
        with pytest.raises(RuntimeError, match=r"^the run at rate = 2, seed = 0 failed \(ZeroDivisionError: .*\)\.$"):
            sweep(fails, [1, 2, 3], 2, executor)
    assert len(executor.began) == 3 and [future.cancelled() for future in executor.futures[3:]] == [True] * 3


def test_what_cannot_be_sent_to_another_process_says_so():
    with processes() as pool, pytest.raises((RuntimeError, TypeError), match="need a function that a module defines"):
        sweep(lambda rate, rng: 1.0, [1.0], 1, pool)


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ((3, [1.0]), TypeError, "function=3 cannot be called"),
        ((mean_wait, []), ValueError, "rates is empty"),
        ((mean_wait, [1.0], 0), ValueError, "seeds=0 leaves nothing to run"),
        ((mean_wait, [1.0], 2.5), TypeError, "seeds=2.5 is no number of replications"),
        ((mean_wait, [1.0], [3, 3]), ValueError, "names a seed twice"),
        ((mean_wait, [1.0], 2, 7), TypeError, "executor=7 has no submit"),
        ((lambda rate, rng: "x", [1.0]), TypeError, "let it return one number"),
        ((lambda rate, rng: range(int(rate)), [1.0, 2.0]), TypeError, "at rate = 2.0, seed = 0; let it return"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, error, words):
    with pytest.raises(error, match=words) as caught:
        sweep(*arguments)
    assert "\n" not in str(caught.value)


def test_a_rate_or_number_that_is_not_there():
    found = sweep(waits, [5.0], 2)
    with pytest.raises(ValueError, match="rate=6.0 was not run; choose from 5.0"):
        found.at(6.0, 0)
    with pytest.raises(ValueError, match="k=None but the function returned 2 numbers"):
        found.at(5.0)
    assert run_all(lambda **task: task["a"], [{"a": 1}, {"a": 2}]) == [1, 2]
