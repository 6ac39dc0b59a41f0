"""Token buckets and thresholds at the door."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labsupport.queueing import workload
from labsupport.queueing.admission import Admission, token_bucket
from labsupport.queueing.engine import Engine, serve
from labsupport.queueing.slo import goodput_rate

TICKS = st.lists(st.integers(0, 400), max_size=60).map(lambda k: np.sort(k) / 16)


@settings(max_examples=100, deadline=None)
@given(TICKS, st.integers(1, 64), st.integers(1, 20), st.data())
def test_bucket_lets_no_window_through_with_more_than_burst_and_rate(arrival, rate, burst, data):
    # Claim A2, and the converse: nobody is refused whom an exact bucket would let through.
    rate, n = rate / 16, len(arrival)
    cost = np.array(data.draw(st.lists(st.integers(0, burst), min_size=n, max_size=n)), float)
    admitted = token_bucket(arrival, rate, burst, cost)
    assert admitted.dtype == bool and admitted.shape == (n,)
    passed = np.concatenate([[0], np.cumsum(np.where(admitted, cost, 0))])
    for i in range(n):
        assert (passed[i + 1 :] - passed[i] <= burst + rate * (arrival[i:] - arrival[i]) + 1e-9).all()
    level, last = Fraction(burst), Fraction(0)
    for i, t in enumerate(map(Fraction, arrival)):
        level = min(Fraction(burst), level + Fraction(rate) * (t - last))
        last = t
        assert admitted[i] == (level >= Fraction(cost[i]))
        level -= Fraction(cost[i]) if admitted[i] else 0


def test_bucket_of_the_first_hour():
    # Claim A3, case c22: 20 at once and then one a minute.
    assert token_bucket(np.arange(1, 3601), 0.0167, 20).sum() == 80


def test_rounding_refuses_nobody():
    assert token_bucket(0.1 * np.arange(100_000), 10, 1).all()


def test_large_traces_are_compiled_to_the_same(monkeypatch):
    pytest.importorskip("numba", reason="numba is not installed: nothing is compiled")
    arrival = workload.poisson(np.random.default_rng(1), 100, 200_001)
    compiled = token_bucket(arrival, 80, 20)
    monkeypatch.setenv("QLAB_NUMBA", "0")
    assert np.array_equal(compiled, token_bucket(arrival, 80, 20))
    assert 0.79 < compiled.mean() < 0.81


def test_a_door_keeps_the_promise_under_overload():
    # Claim A4: without a door, goodput collapses beyond capacity; with one it stays near it.
    engine = Engine(step_s=7e-3, per_sequence_s=7e-5, prefill_s=4e-3, per_prompt_token_s=2e-5)
    rng, n = np.random.default_rng(4), 8000
    prompt, output = (
        np.maximum(1, np.round(workload.lognormal_from_median(median, 0.8).sample(rng, n)))
        for median in (1000, 130)
    )
    capacity = engine.capacity(prompt, output)
    times = workload.poisson(rng, 1, n)

    def outcome(load, **door):
        log = serve(times / (load * capacity), prompt, output, engine, **door)
        inside = np.ones(n, bool) if log.ok is None else log.ok
        good = goodput_rate(log, {"ttft": 1.0}, log.arrival[0], log.arrival[-1]).value
        return good / capacity, np.quantile(log.ttft[inside], 0.99), inside.mean()

    assert outcome(0.8)[0] == pytest.approx(0.8, abs=0.02)
    good, p99, _ = outcome(1.3)
    assert good < 0.1 and p99 > 10
    good, p99, share = outcome(1.3, admission=Admission(max_waiting=5))
    assert good > 0.85 and p99 < 1.0 and 0.6 < share < 0.85
    good, p99, _ = outcome(1.3, admission=Admission(max_p99_ttft_s=0.8, recent_s=5))
    assert 0.2 < good < 0.9 and p99 < 5  # it sees the harm only when it is done, and then lets nobody in


def inside(arrival, prompt, **thresholds):
    """Who got in at an engine that takes 1/16 s for each prompt token and writes one token."""
    engine = Engine(step_s=1, per_prompt_token_s=1 / 16)
    return serve(arrival, prompt, 1, engine, admission=Admission(**thresholds)).ok.tolist()


def test_the_99th_percentile_at_the_door():
    # The TTFT is 1/4 s. It counts from the moment of the first token on, and up to recent_s later.
    door = dict(max_p99_ttft_s=0.25, recent_s=1)
    assert inside([0, 0.2], 4, **door) == [True, True]
    assert inside([0, 0.25, 1.2, 1.25, 1.5, 2.6], 4, **door) == [True, False, False, True, False, True]
    # Of 100 the 99th smallest, of 99 or 101 the largest or the last but one.
    door = dict(max_p99_ttft_s=0.25, recent_s=1000)
    for short, refused in ((98, True), (99, False)):
        prompt = [1] * short + [4, 1]
        assert inside(np.arange(short + 2), prompt, **door) == [True] * (short + 1) + [not refused]
    assert inside(np.arange(102), [1] * 99 + [4, 4, 1], **door) == [True] * 101 + [False]


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: token_bucket([1.0, 0.0], 1, 1), ValueError, "arrival is not sorted at row 1"),
        (lambda: token_bucket([0.0], 0, 1), ValueError, "rate = 0 must be a finite number of tokens above 0"),
        (lambda: token_bucket([0.0], 1, math.inf), ValueError, "burst = inf must be"),
        (
            lambda: token_bucket([0.0, 1.0], 1, 2, [1, 3]),
            ValueError,
            "cost = 3 in row 1 is more than burst = 2",
        ),
        (lambda: token_bucket([0.0, 1.0], 1, 2, [1, 1, 1]), ValueError, "cost has shape"),
        (
            lambda: Admission(max_waiting=0),
            ValueError,
            "max_waiting = 0 lets nobody in; give a number above 0",
        ),
        (lambda: Admission(recent_s="10"), TypeError, "recent_s must be a number, not '10'"),
        (lambda: Admission(max_kv_share=math.nan), ValueError, "max_kv_share = nan lets nobody in"),
    ],
)
def test_refuses_in_one_sentence(make, error, words):
    with pytest.raises(error, match=words) as caught:
        make()
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
