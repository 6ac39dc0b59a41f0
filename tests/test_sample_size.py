"""Lesson 09: its claims, and its own functions against brute force and other methods."""

import json
import math

import numpy as np
import pytest
from claims import Claims

from labsupport import course, sample_size
from labsupport.queueing import simulate, statistics, theory, workload

claim = Claims("sample_size")
P99_OF_CV_2 = 8.555465  # oracle: lognormal with mean 1


def public_values(question):
    text = (course.root() / "exercises" / "09_sample_size.json").read_text(encoding="utf-8")
    return [case["value"] for case in json.loads(text)["cases"] if case["q"] == question]


def binomial_z(hits, n, p):
    return (hits - n * p) / math.sqrt(n * p * (1 - p))


@claim("S1")
def spread(row):
    simulated, formula = row.numbers[:5], row.numbers[5:]
    u = np.random.default_rng(91).random((4, 20_000))
    for n, mc, asymptotic in zip((100, 500, 1000, 10_000, 100_000), simulated, formula, strict=True):
        t = sample_size.repeat_test(n, 0.99, 2.0, u)
        assert t.truth == pytest.approx(P99_OF_CV_2, rel=1e-6)
        assert t.formula == pytest.approx(
            asymptotic, abs=0.51 * 10.0 ** -len(f"{asymptotic}".partition(".")[2])
        )
        sd = t.spread
        # The claim's own simulation had an error too: some 2% of an sd from a few thousand repetitions.
        assert abs(sd.value - mc) < 4 * math.hypot(sd.half_width / 1.96, 0.02 * mc)
    # An independent route: numpy draws all values and takes their quantile.
    x = np.random.default_rng(92).lognormal(-0.5 * math.log(5), math.sqrt(math.log(5)), (4000, 500))
    brute = np.quantile(x, 0.99, axis=1) / P99_OF_CV_2
    t = sample_size.repeat_test(500, 0.99, 2.0, u)
    error = math.hypot(brute.std(ddof=1) / math.sqrt(4000), t.bias.half_width / 1.96)
    assert abs(brute.mean() - t.estimates.mean()) < 4 * error
    assert t.spread.value == pytest.approx(brute.std(ddof=1), rel=0.08)


@claim("S2")
def least_n(row):
    upper, both = (int(x) for x in row.numbers)
    for sided, needed in (("upper", upper), ("two", both)):
        assert statistics.smallest_n_for_quantile(0.99, sided=sided) == needed
        values = np.arange(1.0, needed + 1)
        assert statistics.quantile(values[:-1], 0.99, sided=sided).low is None
        assert statistics.quantile(values, 0.99, sided=sided).high == needed
    assert 0.99**upper <= 0.05 < 0.99 ** (upper - 1) and 0.99**both <= 0.025 < 0.99 ** (both - 1)
    assert public_values("smallest_n")[:2] == [upper, both]
    for n, said in ((367, True), (368, False)):
        assert ("fewer than 368" in sample_size.p99(n=n).alt) == said


@claim("S3")
def requests_above(row):
    requests, seconds = (public_values(q)[0] for q in ("requests_needed", "duration"))
    assert [requests, seconds] == row.numbers
    assert requests * (1 - 0.999) == pytest.approx(100) and requests / 50 == seconds


@claim("S4")
def neighbours(row):
    r = sample_size.correlated(utilisation=0.9).result
    runs = sample_size.steady_waits(0.9, sample_size._units(17, 0, 30, 40_000), 40_000)
    lag_one = [statistics.autocorrelation(run, 1)[1] for run in runs]
    # A run's own estimate is low by about tau / n of the distance from 1 to the truth.
    error = np.std(lag_one, ddof=1) / math.sqrt(len(lag_one))
    assert abs(np.mean(lag_one) - row.numbers[0]) < 4 * error + 0.001
    assert r.lags[0] == 1 and r.autocorrelation[0] == pytest.approx(row.numbers[0], abs=0.005)
    assert r.time == pytest.approx(362.636, abs=0.001) and round(33_000 / r.time) == 91
    # The variance of a mean of n waits is variance * tau / n: from the runs themselves.
    means = runs.mean(axis=1)
    worth = (0.9 * 1.1 / 0.1**2) / means.var(ddof=1)  # variance of a wait over that of a mean
    assert 40_000 / 362.636 / 2.2 < worth < 2.2 * 40_000 / 362.636


@claim("S5")
def coverage_of_four_methods(row):
    truth, n, runs = 9.0, 33_000, 200
    hits = dict.fromkeys(["naive", 10, 20, 50, "replications"], 0)
    for run in range(runs):
        gaps, services = np.random.default_rng([55, run]).standard_exponential((2, 10, n))
        waits = simulate.fcfs_waits(gaps / 0.9, services)
        # With this many values a bootstrap of the mean is the normal interval; see the test below.
        hits["naive"] += sample_size.as_if_independent(waits[0]).covers(truth)
        for batches in (10, 20, 50):
            hits[batches] += statistics.mean_batches(waits[0], batches).covers(truth)
        hits["replications"] += sample_size.cover(sample_size.METHODS[3], waits, None, None).covers(truth)
    naive, low, high, replications = (row.numbers[i] for i in (0, -3, -2, -1))
    low, high = abs(low), abs(high)  # the table writes a range with a dash
    assert abs(binomial_z(hits["naive"], runs, naive)) < 4
    for batches in (10, 20, 50):
        assert binomial_z(hits[batches], runs, low) > -4 and binomial_z(hits[batches], runs, high) < 4
    assert binomial_z(hits["replications"], runs, replications) > -4


@claim("S6")
def short_run(row):
    (exact,) = row.numbers
    assert sample_size.mean_of_first(0.95, 1000)[-1] == pytest.approx(exact, abs=5e-7)
    gaps, services = np.random.default_rng(66).standard_exponential((2, 2000, 1000))
    means = simulate.fcfs_waits(gaps / 0.95, services).mean(axis=1)
    error = means.std(ddof=1) / math.sqrt(2000)
    assert abs(means.mean() - exact) < 4 * error
    assert abs(14.9 - means.mean()) > 4 * error  # what the source prints is not the expected value ...
    assert abs(14.9 - exact) < 2 * means.std() / math.sqrt(10)  # ... but ten runs may well average that
    said = sample_size.short_runs(lengths=(300, 1000), runs=100).canvas.alt
    assert "1,000 requests: exactly 13.32" in said


@claim("S7")
def sign_of_one_per_cent(row):
    all_of, runs, _, _ = row.numbers
    assert (all_of, runs) == (40, 40)
    assert 100 * sample_size.true_change(0.8, 0.01) == pytest.approx(-4.81, abs=0.005)
    faster = {"common": [], "independent": []}
    for seed in range(71, 76):
        c = sample_size.compare(0.01, 5000, 0.8, seed, pairs=40)
        for way, found in faster.items():
            found.append((getattr(c, way) < 0).sum())
        for e in (c.common_change, c.independent_change):
            assert abs(e.value - c.truth) < 4 * e.half_width / 2
    assert faster["common"] == [40] * 5
    assert abs(binomial_z(sum(faster["independent"]), 200, 24 / 40)) < 4


@claim("S8")
def bootstrap_of_p99(row):
    covered, width = row.numbers
    rng, law = np.random.default_rng(88), workload.lognormal(1.0, 4.0)
    made = [
        statistics.bootstrap(law.sample(rng, 2000), sample_size._p99_along, rng, resamples=200)
        for _ in range(150)
    ]
    assert abs(binomial_z(sum(e.covers(P99_OF_CV_2) for e in made), 150, covered)) < 4
    assert np.mean([e.high - e.low for e in made]) / P99_OF_CV_2 == pytest.approx(width, abs=0.05)


@claim("S9")
def mlperf_counts(row):
    shares = (0.9, 0.95, 0.97, 0.99)
    exact, rounded = row.numbers[-8:-4], row.numbers[-4:]
    assert [statistics.mlperf_query_count(p, multiple=1) for p in shares] == exact
    assert [statistics.mlperf_query_count(p) for p in shares] == rounded
    assert public_values("mlperf")[0] == rounded
    assert [line[2] for line in sample_size.mlperf().rows] == [f"{n:,.0f}" for n in rounded]


test_claim = claim.test()


# -- order statistics ---------------------------------------------------------------------------------------


def test_order_statistics_drawn_directly_are_those_of_sorted_uniforms():
    rng, ranks, n = np.random.default_rng(1), [3, 8, 9, 20], 20
    drawn = sample_size._uniform_order_statistics(n, ranks, rng.random((4, 4000)))
    sorted_ones = np.sort(rng.random((4000, n)), axis=1)
    drawn = np.array([drawn[rank] for rank in ranks])
    assert (np.diff(drawn, axis=0) >= 0).all()
    for values, rank in zip(drawn, ranks, strict=True):
        exact, sd = rank / (n + 1), math.sqrt(rank * (n + 1 - rank) / ((n + 1) ** 2 * (n + 2)))
        assert abs(values.mean() - exact) < 4 * sd / math.sqrt(4000)
        assert values.std() == pytest.approx(sorted_ones[:, rank - 1].std(), rel=0.08)
    ours, theirs = np.corrcoef(drawn), np.corrcoef(sorted_ones[:, [r - 1 for r in ranks]].T)
    assert np.abs(ours - theirs).max() < 0.08


@pytest.mark.parametrize(("n", "p"), [(368, 0.99), (2000, 0.99), (50, 0.5), (5000, 0.999)])
def test_intervals_hold_the_truth_as_often_as_the_binomial_says(n, p):
    from scipy.stats import binom

    t = sample_size.repeat_test(n, p, 1.5, np.random.default_rng(n).random((4, 4000)))
    ranks = statistics.quantile(np.arange(1.0, n + 1), p)
    exact = binom.cdf(ranks.high - 1, n, p) - binom.cdf(ranks.low - 1, n, p)
    assert exact >= 0.95 and abs(binomial_z(t.covered.sum(), 4000, exact)) < 4


def test_tail_moves_the_picture_and_not_the_noise():
    u = np.random.default_rng(3).random((4, 200))
    short, long = (sample_size.repeat_test(1000, 0.99, cv, u) for cv in (1.0, 3.0))
    assert np.corrcoef(np.log(short.estimates), np.log(long.estimates))[0, 1] > 0.999
    assert np.array_equal(short.covered, long.covered)  # distribution-free
    assert long.spread.value > short.spread.value


def test_mean_interval_around_a_p99_is_worthless():
    rows = {row[0]: row[1:] for row in sample_size.intervals_for_p99(repetitions=60, resamples=50).rows}
    share = {name: int(row[0].split("%")[0]) for name, row in rows.items()}
    assert share["order statistics"] >= 85 and share["P99 ± 1.96 s/√n (wrong)"] <= 30


# -- waits in a row -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rho", "service"), [(0.3, 1.0), (0.8, 0.95)])
def test_runs_begin_in_their_steady_state(rho, service):
    first = sample_size.steady_waits(rho, sample_size._units(5, 9, 4000, 1), 1, service)[:, 0]
    queue = theory.MM1(rho, service)
    for t in (0.0, 0.5, 3.0):
        assert abs(binomial_z((first <= t).sum(), 4000, float(queue.wait_cdf(t)))) < 4


def test_bootstrap_of_a_long_run_is_the_interval_for_independent_values():
    waits = sample_size.steady_waits(0.9, sample_size._units(8, 0, 1, 33_000), 33_000)
    ours = sample_size.as_if_independent(waits[0])
    other = sample_size.cover(sample_size.METHODS[0], waits, None, np.random.default_rng(1), resamples=400)
    assert other.half_width == pytest.approx(ours.half_width, rel=0.15)


def test_intervals_of_a_quantile_are_those_of_the_statistics():
    waits = np.random.default_rng(2).exponential(1, (3, 1003))
    naive, ten, _, runs = (sample_size.cover(method, waits, 0.9, None) for method in sample_size.METHODS)
    assert (naive.low, naive.high) == (
        statistics.quantile(waits[0], 0.9).low,
        statistics.quantile(waits[0], 0.9).high,
    )
    batches = [np.quantile(waits[0, i * 100 + 3 : i * 100 + 103], 0.9) for i in range(10)]
    assert ten.value == pytest.approx(np.quantile(waits[0], 0.9)) and ten.n == 10
    assert ten.half_width == pytest.approx(2.262157 * np.std(batches, ddof=1) / math.sqrt(10))
    assert runs.value == pytest.approx(np.quantile(waits, 0.9, axis=1).mean()) and runs.n == 3


def test_coverage_counts_and_stops_in_the_middle(monkeypatch):
    table = sample_size.coverage(n=2000, repetitions=4)
    assert [row[0] for row in table.rows] == list(sample_size.METHODS)
    assert "Shares of 4 repetitions" in table.caption and "STOPPED" not in table.caption
    calls = []

    def interrupted(method, waits, p, rng):
        calls.append(method)
        if len(calls) > 2 * 2 * len(sample_size.METHODS) + 3:
            raise KeyboardInterrupt
        return statistics.Estimate(9.0, 8.9, 9.1)

    monkeypatch.setattr(sample_size, "cover", interrupted)
    table = sample_size.coverage(n=500, repetitions=5)
    assert "STOPPED after 2 of 5" in table.caption
    assert all(row[1].startswith("100%") and row[3].startswith("0%") for row in table.rows)


def test_second_half_of_a_run_is_less_biased():
    exact = sample_size.mean_of_first(0.9, 2000)
    second = 2 * exact[1999] - exact[999]
    gaps, services = np.random.default_rng(6).standard_exponential((2, 1500, 2000))
    means = simulate.fcfs_waits(gaps / 0.9, services)[:, 1000:].mean(axis=1)
    assert abs(means.mean() - second) < 4 * means.std() / math.sqrt(1500)
    assert exact[1999] < second < 9


def test_unstable_waits_grow_with_the_number_sent():
    rows = sample_size.no_latency(sent=(500, 1000)).rows
    mean, last = (int(rows[1][i].split()[0]) for i in (2, 4))
    assert last == pytest.approx(1000 / 2.3 - 5, abs=1) and mean == pytest.approx(last / 2, abs=1)
    assert int(rows[0][4].split()[0]) == pytest.approx(last / 2, abs=1)


# -- A against B ----------------------------------------------------------------------------------------------


def test_same_requests_and_no_speed_up_differ_by_exactly_nothing():
    c = sample_size.a_against_b(speed_up=0.0, common=True)
    assert not c.result.common.any() and c.result.independent.any()
    assert "mean change 0% each time" in c.alt


def test_comparison_is_what_request_logs_say():
    n, rho = 600, 0.8
    c = sample_size.compare(0.03, n, rho, seed=4, pairs=3)
    gaps, services, u = sample_size._units(4, 1, 3, sample_size._MOST)
    means = []
    for service in (1.0, 0.97):
        mine = services[1, : n + 1] * service
        mine[0] = -math.log1p(-u[1]) / (1 / service - rho)
        log = simulate.fcfs(np.cumsum(gaps[1, : n + 1]) / rho, mine)
        means.append(log.response[1:].mean())
    assert c.common[1] == pytest.approx((means[1] - means[0]) * (1 - rho), rel=1e-9)


def test_pairing_shortens_the_interval_and_mispairing_loses_it():
    unpaired, wrong, paired = (row[3] for row in sample_size.one_per_cent(seed=9).rows)

    def width(text):
        low, high = text.partition("[")[2].rstrip("]").split(", ")
        return float(high) - float(low)

    assert width(paired) < width(wrong) / 5 and width(wrong) == pytest.approx(width(unpaired), rel=0.6)


# -- the trace ------------------------------------------------------------------------------------------------


def test_sections_are_the_trace_cut_in_pieces():
    trace = sample_size.conversation()
    whole = sample_size.mean_ttft(trace, 1e4, 1)
    log = simulate.fcfs(trace.arrival, trace.prompt_tokens / 1e4)
    assert whole == pytest.approx([log.response.mean()], rel=1e-9)
    assert len(sample_size.mean_ttft(trace, 1e4, 12)) == 12


def test_only_the_paired_comparison_sees_two_per_cent(monkeypatch):
    for missing in (False, True):
        if missing:
            monkeypatch.setattr(course, "data", lambda name: None)
        table = sample_size.before_and_after(sample_size.conversation())
        assert ("SYNTHETIC" in table.caption) or not missing
        ends = [[float(x) for x in row[2].partition("[")[2].rstrip("]").split(", ")] for row in table.rows]
        assert ends[3][1] < 0
        if "SYNTHETIC" not in table.caption:
            assert all(low < 0 < high for low, high in ends[:3])


def test_how_long_a_test_must_run():
    least, hundred = sample_size.how_long(p=0.999, rate=50).rows
    assert hundred[1:] == ("100,000", "100,000", "2,000 s = 33.3 min")
    assert least[1] == f"{statistics.smallest_n_for_quantile(0.999):,}"
    assert sample_size.how_long(p=0.99, rate=50, tau=363).rows[1][2] == "3,630,000"
    with pytest.raises(ValueError, match="p = 99 must lie between 0 and 1"):
        sample_size.how_long(p=99)
