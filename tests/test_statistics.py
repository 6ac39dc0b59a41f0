"""Statistics of request logs against theory, brute force and independent implementations."""

import math
import subprocess
import sys
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labsupport.queueing import statistics as qs
from labsupport.queueing.requestlog import RequestLog


def mm1_waits(rng, rho, runs, customers, stationary=True):
    """Waits shaped (runs, customers) by Lindley's recursion, service mean 1, from equilibrium or empty."""
    gap = rng.exponential(1 / rho, (customers, runs))
    service = rng.exponential(1, (customers, runs))
    wait = np.zeros((customers, runs))
    if stationary:
        wait[0] = np.where(rng.random(runs) < rho, rng.exponential(1 / (1 - rho), runs), 0)
    for i in range(1, customers):
        np.maximum(wait[i - 1] + service[i - 1] - gap[i], 0, out=wait[i])
    return wait.T


def close(value, truth, standard_error, z=4):
    return abs(value - truth) < z * standard_error


def share_close(hits, n, truth, z=4):
    return close(hits / n, truth, math.sqrt(truth * (1 - truth) / n), z)


whole_times = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=30)


def log_of(pairs):
    arrival, stay = np.array(pairs, dtype=float).T
    return RequestLog.from_unsorted(arrival=arrival, start=arrival, finish=arrival + stay)


# --- how much is inside -------------------------------------------------------------------------------------


@given(whole_times, st.integers(-3, 20), st.integers(1, 40))
def test_time_average_equals_counting_second_by_second(pairs, t0, length):
    log = log_of(pairs)
    seconds = t0 + np.arange(length) + 0.5  # N(t) only changes at whole seconds
    inside = [sum(a <= t < a + s for a, s in pairs) for t in seconds]
    assert qs.time_average_in_system(log, t0, t0 + length) == pytest.approx(np.mean(inside), abs=1e-12)
    assert qs.peak_in_system(log) == max(sum(a <= t < a + s for a, s in pairs) for t in range(43))


@given(whole_times)
def test_steps_are_the_number_in_system_at_every_event(pairs):
    log = log_of(pairs)
    times, counts = qs.number_in_system_steps(log)
    assert (np.diff(times) > 0).all() and set(times) == set(log.arrival) | set(log.finish)
    np.testing.assert_array_equal(counts, log.in_system(times))
    assert counts[-1] == 0


# claim L1
def test_littles_law_is_an_identity_over_a_million_requests():
    rng = np.random.default_rng(1)
    arrival = 1e6 * np.sort(rng.random(1_000_000))
    log = RequestLog(arrival, arrival, arrival + rng.lognormal(2, 1.5, 1_000_000))
    rate = len(log) / (log.finish.max() - log.arrival[0])
    assert qs.time_average_in_system(log) == pytest.approx(rate * log.response.mean(), rel=1e-9)


def test_unfinished_requests_stay_inside_until_the_end_of_the_window():
    log = RequestLog([0, 1], [0, np.inf], [2, np.inf], ok=[True, False])
    assert qs.time_average_in_system(log, 0, 4) == (2 + 3) / 4
    with pytest.raises(ValueError, match="1 requests never finish; give the window's end"):
        qs.time_average_in_system(log)


def test_jobs_one_after_another_are_never_two():
    """Ten 10 ms jobs within 100 ms: some tools show ten concurrent, since they count per bin."""
    start = np.arange(10) / 100
    log = RequestLog(start, start, np.append(start[1:], 0.1))
    assert qs.peak_in_system(log) == 1
    assert qs.time_average_in_system(log) == pytest.approx(1, rel=1e-12)


def test_gauge_that_logs_only_while_busy():
    times, running = [0, 1, 2, 3, 103, 104], [4, 4, 4, 0, 4, 0]
    assert qs.time_weighted_mean(times, running) == pytest.approx(4 * 4 / 104)


# --- intervals of means -------------------------------------------------------------------------------------


def test_mean_intervals_agree_with_scipy():
    rng = np.random.default_rng(2)
    a, b = rng.normal(3, 1, 12), rng.normal(2.5, 2, 12)
    c = rng.normal(2, 3, 17)
    for ours, theirs in (
        (qs.mean_replications(a, 0.9), stats.ttest_1samp(a, 0).confidence_interval(0.9)),
        (qs.paired(a, b), stats.ttest_rel(b, a).confidence_interval(0.95)),
        (qs.unpaired(a, c), stats.ttest_ind(c, a, equal_var=False).confidence_interval(0.95)),
    ):
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), rel=1e-12)
    batches = qs.mean_batches(c, batches=5)  # 17 = 2 left out + 5 * 3
    np.testing.assert_allclose(batches.value, c[2:].mean())
    expected = qs.mean_replications([c[2:][3 * i : 3 * i + 3].mean() for i in range(5)])
    assert (batches.low, batches.high) == pytest.approx((expected.low, expected.high))


def test_no_interval_says_why():
    one, short = qs.mean_replications([4.2]), qs.mean_batches(np.arange(7.0), batches=20)
    for estimate in (one, short, qs.unpaired([1, 2], [3]), qs.quantile(np.arange(99.0), 0.99)):
        assert estimate.low is estimate.high is estimate.half_width is None and estimate.reason
        assert estimate.reason in str(estimate) and not estimate.covers(estimate.value)


def test_estimate_prints_to_two_digits_of_its_half_width():
    text = "4.07 [3.95, 4.19] (95%, 20 batch means)"
    estimate = qs.Estimate(4.0712, 3.9511, 4.1931, 0.95, "batch means", 20)
    assert str(estimate) == text and repr(estimate) == f"Estimate({text})"
    assert estimate.covers(4) and not estimate.covers(5)
    assert str(qs.Estimate(1234.56, 1200.1, 1269, 0.9)) == "1235 [1200, 1269] (90%)"
    assert str(qs.Estimate(3e-7, 2e-7, 4e-7)) == "3e-07 [2e-07, 4e-07] (95%)"
    assert str(qs.Estimate(2.0, -math.inf, 2.5)) == "2.00 [-inf, 2.50] (95%)"
    assert str(qs.Estimate(2.0, 2.0, 2.0)) == "2.000 [2.000, 2.000] (95%)"


# claim S6
def test_mean_of_a_run_from_empty_is_below_steady_state():
    means = mm1_waits(np.random.default_rng(3), 0.95, 4000, 1000, stationary=False).mean(axis=1)
    estimate = qs.mean_replications(means, confidence=0.9999)
    assert estimate.covers(13.320549)
    assert not estimate.covers(14.9) and not estimate.covers(19)


@pytest.fixture(scope="module")
def waits():
    """400 runs of 33,000 waits at utilisation 0.9 in equilibrium; the true mean is 9."""
    return mm1_waits(np.random.default_rng(4), 0.9, 400, 33_000)


# claim S5
def test_coverage_of_intervals_for_dependent_waits(waits):
    naive = sum(qs.mean_replications(run).covers(9) for run in waits)  # takes waits for replications
    assert share_close(naive, len(waits), 0.10)
    for batches in (10, 20, 50):
        covered = sum(qs.mean_batches(run, batches).covers(9) for run in waits) / len(waits)
        error = math.sqrt(0.89 * 0.11 / len(waits))
        assert 0.87 - 3 * error < covered < 0.91 + 3 * error
    means = waits.mean(axis=1)
    groups = np.random.default_rng(5).permuted(np.tile(means, (200, 1)), axis=1).reshape(-1, 10)
    covered = np.mean([qs.mean_replications(group).covers(9) for group in groups])
    assert covered > 0.93 - 3 * math.sqrt(0.93 * 0.07 / 40)  # 40 disjoint groups of ten runs


def test_naive_bootstrap_is_as_short_as_the_naive_t_interval(waits):
    boot = qs.bootstrap(waits[0], np.mean, np.random.default_rng(6), resamples=400)
    assert boot.half_width == pytest.approx(qs.mean_replications(waits[0]).half_width, rel=0.15)


# claim S4
def test_autocorrelation_of_waits(waits):
    first = [qs.autocorrelation(run, 1)[1] for run in waits[:100]]
    assert np.mean(first) == pytest.approx(0.99, abs=0.003)
    # Groups of ten runs end to end: 330,000 waits are enough to estimate a time of 362.6.
    times = [qs.integrated_autocorrelation_time(group.ravel()) for group in np.split(waits[:200], 20)]
    assert close(np.mean(times), 362.636, np.std(times, ddof=1) / math.sqrt(len(times)))


# claim S7
def test_common_random_numbers_tell_a_one_per_cent_speed_up():
    rho, runs, customers = 0.8, 400, 5000
    rng = np.random.default_rng(7)
    gap, service = rng.exponential(1 / rho, (customers, runs)), rng.exponential(1, (customers, runs))
    other_gap, other_service = rng.exponential(1 / rho, gap.shape), rng.exponential(1, gap.shape)

    def mean_response(gap, service):
        wait, total = np.zeros(runs), service.sum(axis=0)
        for i in range(1, customers):
            wait = np.maximum(wait + service[i - 1] - gap[i], 0)
            total += wait
        return total / customers

    slow, fast = mean_response(gap, service), mean_response(gap, 0.99 * service)
    independent = mean_response(other_gap, 0.99 * other_service)
    assert (fast < slow).all()
    assert share_close(np.sum(independent < slow), runs, 24 / 40)
    common, separate = qs.paired(slow[:40], fast[:40]), qs.unpaired(slow[:40], independent[:40])
    assert common.half_width < separate.half_width / 5
    assert common.high < 0 and separate.covers(0)
    whole = qs.paired(slow, fast, confidence=0.9999)
    assert whole.covers(0.99 / 0.208 - 5)  # theory: -4.8%


# --- quantiles ----------------------------------------------------------------------------------------------


@lru_cache
def exact_binomial(n, p):
    """P(B <= k) for k = 0..n as fractions."""
    a, b = p.numerator, p.denominator
    terms = (math.comb(n, i) * a**i * (b - a) ** (n - i) for i in range(n + 1))
    return [Fraction(total, b**n) for total in accumulate(terms)]


@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(9, 10), Fraction(99, 100), Fraction(1, 20)])
@pytest.mark.parametrize("n", [6, 59, 400])
@pytest.mark.parametrize("sided", ["two", "upper", "lower"])
def test_quantile_interval_is_the_tightest_with_its_tails(p, n, sided):
    ranks = np.arange(1.0, n + 1)  # the values are their own ranks
    estimate = qs.quantile(ranks, float(p), sided=sided)
    assert estimate.value == pytest.approx(np.quantile(ranks, float(p)), rel=1e-14)
    tail = Fraction(1, 40) if sided == "two" else Fraction(1, 20)
    below = exact_binomial(n, p)
    lows = [r for r in range(1, n + 1) if below[r - 1] <= tail]
    highs = [r for r in range(1, n + 1) if 1 - below[r - 1] <= tail]
    wanted = ([lows] if sided != "upper" else []) + ([highs] if sided != "lower" else [])
    if not all(wanted):
        assert estimate.low is None and f"{n} values" in estimate.reason
        return
    assert estimate.low == (-math.inf if sided == "upper" else max(lows))
    assert estimate.high == (math.inf if sided == "lower" else min(highs))


# claim S2
def test_smallest_n():
    assert qs.smallest_n_for_quantile(0.99) == 368
    assert qs.smallest_n_for_quantile(0.99, sided="upper") == 299
    assert qs.quantile(np.arange(367.0), 0.99).low is None
    assert qs.quantile(np.arange(368.0), 0.99).high == 367


@given(st.integers(1, 999), st.integers(500, 999), st.sampled_from(["two", "upper", "lower"]))
@settings(max_examples=60, deadline=None)
def test_smallest_n_by_exact_powers(p, confidence, sided):
    n = qs.smallest_n_for_quantile(p / 1000, confidence / 1000, sided)
    p, tail = Fraction(p, 1000), 1 - Fraction(confidence, 1000)
    tail /= 2 if sided == "two" else 1

    def exists(n):
        return (sided == "lower" or p**n <= tail) and (sided == "upper" or (1 - p) ** n <= tail)

    # Where a power equals the tail exactly, rounding decides: allow one more.
    assert exists(n) and not (n > 2 and exists(n - 2))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_quantile_as_numpy_and_inside_its_interval(values, p):
    estimate = qs.quantile(values, p)
    assert estimate.value == pytest.approx(np.quantile(values, p), rel=1e-9, abs=1e-9)
    assert estimate.low is None or estimate.low <= estimate.value <= estimate.high


def test_quantile_counts_what_never_finished_as_slowest():
    latencies = np.append(np.linspace(0, 1, 950), np.full(50, np.inf))
    assert qs.quantile(latencies, 0.9).high < 1 and qs.quantile(latencies, 0.99).value == math.inf


def test_quantile_interval_covers_as_often_as_its_ranks_say():
    rng, n, runs = np.random.default_rng(8), 500, 2000
    truth = stats.lognorm.ppf(0.99, 1.2)
    covered = sum(qs.quantile(run, 0.99).covers(truth) for run in rng.lognormal(0, 1.2, (runs, n)))
    ranks = qs.quantile(np.arange(1.0, n + 1), 0.99)
    exact = stats.binom.cdf(ranks.high - 1, n, 0.99) - stats.binom.cdf(ranks.low - 1, n, 0.99)
    assert exact >= 0.95 and share_close(covered, runs, exact)


SIGMA = math.sqrt(math.log(5))  # lognormal of mean 1 and coefficient of variation 2


# claim S1
@pytest.mark.parametrize(("n", "spread"), [(100, 0.396), (500, 0.204), (1000, 0.148), (10_000, 0.0468)])
def test_spread_of_the_p99_estimate(n, spread):
    runs = 4000 if n < 5000 else 400
    rng = np.random.default_rng(n)
    values = [qs.quantile(rng.lognormal(-(SIGMA**2) / 2, SIGMA, n), 0.99).value for _ in range(runs)]
    relative = np.array(values) / 8.555465
    error = relative.std() * math.sqrt((stats.kurtosis(relative, fisher=False) - 1) / (4 * runs))
    assert close(relative.std(ddof=1), spread, error + 0.0002)


def test_quantile_of_replications_covers_the_p99_of_waits(waits):
    truth = 44.998097  # P99 of M/M/1 waits at 0.9
    estimate = qs.quantile_replications(waits, 0.99, confidence=0.999)
    np.testing.assert_allclose(estimate.value, np.mean([np.quantile(run, 0.99) for run in waits]))
    assert abs(estimate.value / truth - 1) < 0.02 and estimate.half_width / truth < 0.05
    independent = np.mean([qs.quantile(run, 0.99).covers(truth) for run in waits[:100]])
    assert independent < 0.5  # what the order-statistic interval is worth on dependent waits


# claim S8
def test_bootstrap_of_p99():
    rng, runs = np.random.default_rng(9), 200

    def p99(values, axis=-1):
        return np.quantile(values, 0.99, axis=axis)

    samples = rng.lognormal(-(SIGMA**2) / 2, SIGMA, (runs, 2000))
    found = [qs.bootstrap(sample, p99, rng, resamples=300) for sample in samples]
    assert share_close(sum(e.covers(8.555465) for e in found), runs, 0.93)
    widths = [2 * e.half_width / 8.555465 for e in found]
    assert np.mean(widths) == pytest.approx(0.4, abs=0.05)


# --- how much is enough -------------------------------------------------------------------------------------


# claim S9
def test_mlperf_counts():
    shares = (0.90, 0.95, 0.97, 0.99)
    assert [qs.mlperf_query_count(p, multiple=1) for p in shares] == [23886, 50425, 85811, 262742]
    assert [qs.mlperf_query_count(p) for p in shares] == [24576, 57344, 90112, 270336]


def test_mlperf_early_stopping():
    assert [qs.mlperf_early_stopping(late) for late in (0, 1, 10, 100)] == [459, 662, 2010, 12571]
    risk, miss = Fraction(1, 20), Fraction(1, 10)
    for late in range(6):
        n = qs.mlperf_early_stopping(late, p=0.9, confidence=0.95)
        assert exact_binomial(n, miss)[late] <= risk < exact_binomial(n - 1, miss)[late]


# --- dependence, warm-up, variability -----------------------------------------------------------------------


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40).filter(lambda x: np.ptp(x) > 1e-3))
def test_autocorrelation_by_its_definition(values):
    x = np.array(values) - np.mean(values)
    expected = [x[: len(x) - k] @ x[k:] / (x @ x) for k in range(len(x))]
    np.testing.assert_allclose(qs.autocorrelation(values), expected, atol=1e-9)


@pytest.mark.parametrize("phi", [0.9, 0.5, 0.0, -0.5])
def test_effective_size_of_autoregressive_series(phi):
    rng, n = np.random.default_rng(10), 20_000
    found = []
    for _ in range(10):
        noise = rng.normal(size=n)
        series = np.zeros(n)
        for i in range(1, n):
            series[i] = phi * series[i - 1] + noise[i]
        found.append(n / qs.effective_size(series))
    error = max(np.std(found, ddof=1) / math.sqrt(10), 0.01)
    assert close(np.mean(found), (1 + phi) / (1 - phi), error)


def test_mser5_finds_the_warm_up():
    rng = np.random.default_rng(11)
    series = 10 * np.exp(-np.arange(4000) / 50) + rng.normal(0, 1, 4000)
    cut = qs.mser5(series)
    assert cut % 5 == 0 and 80 < cut < 500
    assert abs(series[cut:].mean()) < 4 / math.sqrt(3500) < abs(series.mean())
    assert qs.mser5(np.ones(100)) == 0
    assert qs.mser5(np.arange(4000.0)) is None  # no steady state
    assert qs.mser5(series[:40]) is None


@given(st.lists(st.integers(-20, 20), min_size=50, max_size=120))
def test_mser5_by_its_definition(values):
    means = np.array(values[: len(values) // 5 * 5], dtype=float).reshape(-1, 5).mean(axis=1)
    score = [np.sum((m := means[d:]) ** 2 - m.mean() ** 2) / len(m) ** 2 for d in range(len(means) - 5)]
    cut = qs.mser5(values)
    if cut is None:
        assert min(score[: len(means) // 2 + 1]) >= min(score) - 1e-9
    else:
        assert score[cut // 5] == pytest.approx(min(score), abs=1e-9)


# claim K4
@given(st.lists(st.floats(0.01, 1e4), min_size=1, max_size=50), st.floats(1e-3, 1e3))
def test_scv_gives_the_second_moment_and_ignores_the_unit(values, factor):
    x = np.array(values)
    assert (1 + qs.scv(x)) * x.mean() ** 2 == pytest.approx((x**2).mean(), rel=1e-9)
    assert qs.scv(factor * x) == pytest.approx(qs.scv(x), rel=1e-6, abs=1e-9)


def test_index_of_dispersion():
    rng = np.random.default_rng(12)
    poisson = np.cumsum(rng.exponential(0.1, 200_000))
    for window in (0.5, 5):
        windows = poisson[-1] // window
        assert close(qs.index_of_dispersion(poisson, window), 1, math.sqrt(2 / windows) * 1.1)
    assert qs.index_of_dispersion(np.arange(1000) / 4, 1.0) == 0
    fives = np.repeat(np.cumsum(rng.exponential(1, 50_000)), 5)  # arrivals in fives: variance / mean is 5
    assert close(qs.index_of_dispersion(fives, 10.0), 5, 5 * math.sqrt(2 / 5000) * 1.2)


@given(st.lists(st.integers(0, 400), min_size=2, max_size=80), st.integers(1, 20))
def test_index_of_dispersion_counts_complete_windows(ticks, window):
    ticks = np.sort(ticks) - min(ticks)
    windows = ticks[-1] // window
    if windows < 2:
        with pytest.raises(ValueError, match="give a shorter window"):
            qs.index_of_dispersion(ticks, window)
        return
    counts = [sum(i * window <= t < (i + 1) * window for t in ticks) for i in range(windows)]
    expected = np.var(counts, ddof=1) / np.mean(counts)
    assert qs.index_of_dispersion(ticks / 8 + 3, window / 8) == pytest.approx(expected)


# --- promises -----------------------------------------------------------------------------------------------


# claim G1
def test_attainment():
    latencies = np.append(np.full(950, 0.5), np.full(50, 0.6))
    estimate = qs.attainment(latencies, 0.5)
    assert estimate.value == 0.95
    z, n = stats.norm.ppf(0.975), 1000
    middle, half = (0.95 + z**2 / 2 / n), z * math.sqrt(0.95 * 0.05 / n + z**2 / 4 / n**2)
    assert estimate.low == pytest.approx((middle - half) / (1 + z**2 / n))
    assert estimate.high == pytest.approx((middle + half) / (1 + z**2 / n))
    exact = qs.attainment(latencies, 0.5, method="exact")
    assert exact.low == pytest.approx(stats.beta.ppf(0.025, 950, 51))
    assert exact.high == pytest.approx(stats.beta.ppf(0.975, 951, 50))


def test_failures_are_misses():
    """441 quick refusals and 160 good answers: the refusals are quick and kept no promise."""
    n, ok = 601, np.arange(601) < 160
    arrival = np.linspace(0, 30, n)
    log = RequestLog(arrival, np.where(ok, arrival, np.inf), arrival + np.where(ok, 0.8, 0.1), ok=ok)
    assert qs.attainment(log, 1.0).value == 160 / 601
    assert qs.attainment(log.response, 1.0).value == 1  # what survivors' latencies alone would say
    assert qs.goodput_rate(log, 1.0, 0, 31).value == pytest.approx(160 / 31)
    assert qs.attainment([0.1, np.inf, np.nan, 0.1], 1.0).value == 0.5


def test_two_promises():
    arrival, finish = [0, 1, 2, 3], [5, 4, 9, 3.5]
    log = RequestLog(arrival, arrival, finish, first_token=[0.1, 3, 2.1, 3.5], output_tokens=[50, 50, 8, 1])
    assert qs.meets(log, {"ttft": 0.5, "tpot": 0.2}).tolist() == [True, False, False, True]
    assert qs.meets(log, {"ttft": 0.5}).tolist() == [True, False, True, True]
    assert qs.meets(log, {"tpot": 0.2}).tolist() == [True, True, False, True]
    assert qs.meets(log, 5).tolist() == [True, True, False, True]


def test_goodput_rate_and_throughput():
    """One server, 1 s each, 2/s offered: one completion per second, the first five within 3 s."""
    arrival = np.arange(200) / 2
    finish = 1.0 + np.arange(200)
    log = RequestLog(arrival, finish - 1, finish)
    throughput = qs.goodput_rate(log, math.inf)
    assert (throughput.value, throughput.low, throughput.high) == pytest.approx((1, 1, 1))
    assert qs.goodput_rate(log, 3.0).value == pytest.approx(5 / 200)
    assert qs.goodput_rate(log, 3.0, 0, 10).value == pytest.approx(5 / 10)


# claim H9
def test_largest_rate_for_an_exact_attainment():
    found = qs.largest_rate_meeting(lambda rate: 1 - math.exp(-(5 - rate) * 2), 0.99, 0.1, 4.9, rtol=1e-6)
    assert found.value == pytest.approx(2.697415, rel=2e-6) and "without intervals" in found.reason
    band = qs.largest_rate_meeting(
        lambda rate: qs.Estimate(p := 1 - math.exp(-(5 - rate) * 2), p - 0.002, p + 0.002), 0.99, 0.1, 4.9
    )
    # the ends solve 1 - exp(-2 (5 - rate)) = 0.992 and 0.988
    assert band.low == pytest.approx(5 + math.log(0.008) / 2, rel=2e-3)
    assert band.high == pytest.approx(5 + math.log(0.012) / 2, rel=2e-3)


def test_largest_rate_by_simulation_covers_the_truth():
    rng = np.random.default_rng(13)
    gap, service = rng.exponential(1, (8000, 40)), rng.exponential(0.2, (8000, 40))

    def attainment(rate):  # the same random numbers at every rate
        wait, kept = np.zeros(40), np.zeros(40)
        for i in range(8000):
            kept += wait + service[i] <= 2.0
            wait = np.maximum(wait + service[i] - gap[i] / rate, 0)
        return qs.mean_replications(kept / 8000, confidence=0.999)

    found = qs.largest_rate_meeting(attainment, 0.99, 1.0, 4.5, rtol=0.005)
    assert found.covers(2.697415) and found.half_width < 0.15


# claim C4
def test_backfill_of_stalled_connections():
    """Ten connections at 200/s in all, one stall of 2 s: ten slow samples where users would see 400."""
    assert len(qs.backfill(np.full(10, 2.0), 0.05)) == 400
    np.testing.assert_allclose(qs.backfill([0.01, 1.0, 0.3], 0.3), [0.01, 1.0, 0.3, 0.7, 0.4])


@given(st.lists(st.integers(0, 500), min_size=1, max_size=30), st.integers(1, 60))
def test_backfill_as_hdrhistogram_does(values, interval):
    expected = []
    for value in values:
        missing = value - interval
        while missing >= interval:
            expected.append(missing)
            missing -= interval
    filled = qs.backfill(np.array(values) / 1000, interval / 1000)
    np.testing.assert_allclose(filled, np.array(values + expected) / 1000, atol=1e-12)


# --- input --------------------------------------------------------------------------------------------------

LOG = RequestLog([0, 1], [0, 1], [1, 2])
NAN = np.array([1, np.nan])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qs.mean_replications(LOG), "of a RequestLog give one quantity, such as log.wait"),
        (lambda: qs.mean_replications(NAN), "values holds nan in row 1"),
        (lambda: qs.mean_replications([]), r"values has shape \(0,\)"),
        (lambda: qs.mean_replications(np.ones((2, 2))), "give one row"),
        (lambda: qs.mean_replications([1, 2], confidence=95), "confidence is 95; give a share"),
        (lambda: qs.mean_batches([1, 2], batches=1), "batches is 1"),
        (lambda: qs.quantile([1, 2], 99), "p is 99; give a share"),
        (lambda: qs.quantile([1, 2], 0.5, sided="left"), "sided is 'left'"),
        (lambda: qs.quantile_replications([[1, 2], [1, np.inf]], 0.5), "run 1 of runs holds inf in row 1"),
        (lambda: qs.paired([1, 2], [1]), "a has 2 values and b has 1"),
        (lambda: qs.autocorrelation([3, 3]), "which has no autocorrelation"),
        (lambda: qs.autocorrelation([3, 4], 2), "lags is 2"),
        (lambda: qs.scv([0, 0]), "SCV is not defined"),
        (lambda: qs.index_of_dispersion([0, 2, 1], 1), "not sorted"),
        (lambda: qs.index_of_dispersion([0, 2], 0), "window_s is 0"),
        (lambda: qs.time_average_in_system(LOG, 2, 1), "has no length"),
        (lambda: qs.time_average_in_system(LOG.between(5, 6)), "holds no request"),
        (lambda: qs.time_weighted_mean([0, 0], [1, 2]), "does not increase"),
        (lambda: qs.time_weighted_mean([0, 1, 2], [1, 2]), "3 times and 2 values"),
        (lambda: qs.attainment([1.0], {"ttft": 1}), "only a RequestLog has"),
        (lambda: qs.attainment(LOG, {"latency": 1}), "slo names 'latency'; choose from response"),
        (lambda: qs.attainment(LOG, {"ttft": 1}), "no column 'first_token'"),
        (lambda: qs.attainment(LOG, -1), "slo for response is -1"),
        (lambda: qs.attainment(LOG, 1, method="wald"), "method is 'wald'"),
        (lambda: qs.attainment([], 1), "holds no request"),
        (lambda: qs.goodput_rate(LOG, 1, 5, 5), "has no length"),
        (lambda: qs.largest_rate_meeting(lambda r: 0.5, 0.9, 1, 2), "at low=1/s it is only 0.5"),
        (lambda: qs.largest_rate_meeting(lambda r: 0.95, 0.9, 1, 2), "at high=2/s it still is 0.95"),
        (lambda: qs.largest_rate_meeting(lambda r: 0.95, 0.9, 2, 1), "no range of rates"),
        (lambda: qs.backfill([1, 2], 0), "expected_interval is 0"),
        (lambda: qs.backfill([1, 2], 1e-9), "in the same unit"),
        (lambda: qs.backfill([-1, 2], 1), "recorded holds -1"),
        (lambda: qs.mlperf_early_stopping(-1), "late is -1"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        call()
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_import_stays_light():
    code = "import sys, labsupport.queueing.statistics; assert 'scipy.stats' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
