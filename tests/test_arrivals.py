"""Lesson 00: its claims, and its own functions against scipy and brute force."""

import numpy as np
import pytest
from claims import Claims
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from labsupport import arrivals, course
from labsupport.queueing import theory, workload

claim = Claims("arrivals")


@claim("P1")
def poisson_probability(row):
    assert arrivals.probability(10, 10.0) == pytest.approx(row.numbers[0], abs=5e-7)


@claim("P2")
def mean_and_variance(row):
    mean, variance, sd = row.numbers
    k = np.arange(400)
    p = arrivals.probability(k, 100.0)
    assert p @ k == pytest.approx(mean) and p @ (k - mean) ** 2 == pytest.approx(variance) == pytest.approx(
        sd**2
    )
    # And by simulation: 40,000 windows of the explorer's own process.
    simulated = arrivals.counts(100, 1.0, seed=5, windows=40_000)
    assert abs(simulated.mean() - mean) < 4 * sd / 200
    assert abs(simulated.var() - variance) < 4 * variance * np.sqrt(2 / 40_000)


@claim("P3")
def interarrival(row):
    gaps = np.diff(workload.poisson(np.random.default_rng(1), 10, 100_000))
    assert abs(gaps.mean() - row.numbers[0]) < 4 * row.numbers[0] / np.sqrt(len(gaps))


@claim("P4")
def tail_of_counts(row):
    assert float(f"{arrivals.tail(120, 100):.3g}") == row.numbers[0]


@claim("P5")
def five_requests(row):
    spaced, together = ([float(r[k]) for r in arrivals.five_requests().rows] for k in (1, 2))
    assert together == row.numbers and spaced == [0] * 5


@claim("P6")
def md1_mean(row):
    for rate, wait in zip((5, 8, 9, 9.5, 9.9), row.numbers, strict=True):
        assert theory.MD1(rate, 0.1).mean_wait == pytest.approx(wait, rel=1e-6)


@claim("P7")
def md1_p99(row):
    for load, wait in zip((0.5, 0.7, 0.8, 0.9, 0.95), row.numbers, strict=True):
        assert theory.MD1(load, 1).wait_quantile(0.99) == pytest.approx(wait, abs=5e-7)


test_claim = claim.test()


@given(st.floats(0.01, 2000), st.integers(0, 2500))
def test_probabilities_agree_with_scipy(expected, k):
    assert arrivals.probability(k, expected) == pytest.approx(
        stats.poisson.pmf(k, expected), rel=1e-9, abs=1e-300
    )
    assert arrivals.tail(k, expected) == pytest.approx(stats.poisson.sf(k, expected), rel=1e-9, abs=1e-300)


@given(st.floats(0.01, 2000), st.floats(1e-60, 0.5))
def test_smallest_threshold_is_enough_and_no_larger(expected, share):
    c = arrivals.smallest_threshold(expected, share)
    assert arrivals.tail(c, expected) <= share
    assert c == 0 or arrivals.tail(c - 1, expected) > share


@pytest.mark.parametrize("expected, share", [(-1, 0.01), (np.inf, 0.01), (np.nan, 0.01), (100, 0), (100, 1)])
def test_smallest_threshold_refuses_what_has_no_answer(expected, share):
    with pytest.raises(ValueError, match="expected must|share must"):
        arrivals.smallest_threshold(expected, share)


def test_explorer_counts_at_the_lessons_numbers():
    assert arrivals.smallest_threshold(100, 0.01) == 124
    assert "More than 120 come with probability 0.0227" in arrivals.count().alt


def test_another_rate_stretches_the_same_pattern():
    assert np.array_equal(arrivals.counts(10, 2.0, 3), arrivals.counts(20, 1.0, 3))


def test_same_uniform_numbers_make_all_gaps():
    regular, bursty = (np.argsort(arrivals._unit_gaps(c, 1)) for c in (0.1, 10.0))
    assert np.array_equal(regular, bursty)


def test_waits_grow_with_clumping_and_poisson_agrees_with_theory():
    means = [arrivals.clumping(scv=c).result.mean_wait for c in (0.0, 0.1, 1.0, 4.0, 16.0)]
    assert means[0].value == 0
    assert all(a.value < b.value for a, b in zip(means, means[1:], strict=False))
    assert abs(means[2].value - theory.MD1(8, 0.1).mean_wait) < 2 * means[2].half_width


def test_real_seconds_exceed_a_poisson_budget():
    if course.data("azure_2023/AzureLLMInferenceTrace_code.csv") is None:
        pytest.skip("the Azure traces are not here: set QLAB_DATA, or run `qlab data`")
    conversation, code = arrivals.against_poisson().rows
    assert conversation[2:4] == (pytest.approx(1.4, rel=0.05), pytest.approx(16, rel=0.05))
    assert code[2:4] == (pytest.approx(13, rel=0.05), pytest.approx(167, rel=0.05))


def test_lesson_runs_without_the_real_files(monkeypatch):
    monkeypatch.setattr(course, "data", lambda name: None)
    assert "SYNTHETIC STAND-IN for conversation, code" in arrivals.against_poisson().caption
