"""Lesson 03: its claims, and its own functions against independent counts."""

import json

import numpy as np
import pytest
from claims import Claims
from hypothesis import given, settings
from hypothesis import strategies as st

from labsupport import course, head_of_line
from labsupport.queueing import simulate, theory, workload

claim = Claims("head_of_line")


def reached(value, claimed, digits):
    """`value` agrees with a number that the table prints with so many significant digits."""
    return float(f"{value:.{digits}g}") == claimed


def z_score(values, expected):
    values = np.asarray(values)
    return (values.mean() - expected) / (values.std(ddof=1) / np.sqrt(len(values)))


def answers():
    """The right values of the exercises' public cases, by their expression."""
    cases = json.loads((course.root() / "exercises" / "03_head_of_line.json").read_text(encoding="utf-8"))
    return {case["expr"]: case.get("value") for case in cases["cases"]}


@claim("K1")
def worked_mean_waits(row):
    assert [theory.MG1(0.9, 1, scv).mean_wait for scv in (0, 1, 9)] == pytest.approx(row.numbers, rel=1e-9)
    known = answers()
    told = [known["mean_wait(0.9, 1.0, 0.0)"], known["mean_wait(0.9, 1.0, 1.0)"]]
    assert [*told, known["mean_wait(0.9, 1.5, 3.0)"] / 1.5] == pytest.approx(row.numbers, rel=1e-9)


@claim("K2")
def mean_waits_by_scv(row):
    laws = [
        workload.deterministic(1.0),
        workload.exponential(1.0),
        head_of_line.law("lognormal", 4),
        head_of_line.law("two", 25),
    ]
    rng = np.random.default_rng(11)
    gap, u = rng.standard_exponential((30, 50_000)) / 0.7, rng.random((30, 50_000))
    for law, expected in zip(laws, row.numbers, strict=True):
        exact = theory.MG1(0.7, 1, law.scv).mean_wait
        assert exact == pytest.approx(expected, rel=1e-6)
        z = z_score(simulate.fcfs_waits(gap, law.ppf(u))[:, 5_000:].mean(axis=1), exact)
        assert abs(z) < 4, f"{law.name}, SCV {law.scv:g}: z = {z:.1f}"


@claim("K3")
def rest_of_the_service_found(row):
    rests = np.array([head_of_line.arrivals_find(4.0, 10_000, seed).rest.mean() for seed in range(30)])
    assert abs(z_score(rests, 2.5)) < 4 < abs(z_score(rests, 0.5))
    # A second count, in a queue: what Poisson arrivals find in service, whatever waits beside it.
    found, law = [], workload.hyperexponential(1.0, 4)
    for seed in range(30):
        rng = np.random.default_rng([3, seed])
        log = simulate.fcfs(workload.poisson(rng, 0.5, 20_000), law.sample(rng, 20_000))
        at = np.searchsorted(log.start, log.arrival[1:], side="left") - 1  # began before it came
        left = log.finish[at] - log.arrival[1:]
        found.append(left[left > 0].mean())
    exact = theory.MG1(0.5, 1, 4).mean_residual
    assert exact == 2.5 and abs(z_score(found, exact)) < 4


@claim("K4")
def second_moment(row):
    @settings(max_examples=80, deadline=None)
    @given(values=st.lists(st.floats(0.01, 1e4), min_size=1, max_size=50))
    def holds(values):
        law = workload.empirical(values)
        assert np.mean(np.square(values)) == pytest.approx((1 + law.scv) * law.mean**2, rel=1e-9)

    holds()


@claim("K5")
def output_lengths(row):
    tokens = workload.lognormal_from_median(120, 1.2)
    # The source cut the decimals off: 1956.885.
    assert int(tokens.ppf(0.99)) == row.numbers[-2] and reached(tokens.mean, row.numbers[-1], 4)


@claim("K6")
def mean_wait_of_the_lesson(row):
    q = head_of_line.one_at_a_time()
    assert q.utilisation == pytest.approx(0.36, rel=1e-5)
    assert reached(q.mean_wait, row.numbers[0], 6) or q.mean_wait == pytest.approx(row.numbers[0], rel=1e-6)


@claim("K7")
def p99_wait_of_the_lesson(row):
    exact = head_of_line.one_at_a_time().wait_quantile(0.99)
    assert reached(exact, row.numbers[0], 3)
    assert abs(z_score(head_of_line.p99_of_runs(200_000, 30), exact)) < 4
    short = head_of_line.p99_of_runs(20_000, 200)
    assert 0.13 < short.std(ddof=1) / short.mean() < 0.22  # 15-20%, known to a tenth from 200 runs


@claim("K8")
def most_do_not_wait(row):
    q = head_of_line.one_at_a_time()
    assert q.wait_probability == pytest.approx(row.numbers[0], rel=1e-5)
    shares = [np.mean(head_of_line._lost("fcfs", 1.2, 0.36, seed) > 0, axis=1) for seed in range(5)]
    assert abs(z_score(np.concatenate(shares), row.numbers[0])) < 4


@claim("K9")
def narrower_lengths(row):
    mean_s = 0.120 * 6 * np.exp(0.5)
    q = head_of_line.one_at_a_time(arrival_rate=0.36 / mean_s, sigma=1.0)
    assert reached(q.mean_wait, row.numbers[0], 6) and reached(q.wait_quantile(0.99), row.numbers[-1], 3)
    rng = np.random.default_rng(9)
    gap = rng.standard_exponential((30, 100_000)) / q.arrival_rate
    p99 = np.quantile(simulate.fcfs_waits(gap, q.service_law.sample(rng, gap.shape)), 0.99, axis=1)
    assert abs(z_score(p99, q.wait_quantile(0.99))) < 4


@claim("K10")
def order_of_service(row):
    rng = np.random.default_rng(10)
    arrival = np.cumsum(rng.standard_exponential((20, 6_000)), axis=1) / 0.6
    u = rng.random(arrival.shape)
    by_order = {"fcfs": simulate.fcfs, "sjf": simulate.shortest_first, "ps": simulate.processor_sharing}
    for law in (workload.deterministic(1.0), workload.exponential(1.0), head_of_line.law("two", 25)):
        size = law.ppf(u)
        mean = {
            order: np.array([serve(a, s).response[500:].mean() for a, s in zip(arrival, size, strict=True)])
            for order, serve in by_order.items()
        }
        assert abs(z_score(mean["ps"], 1 / (1 - 0.6))) < 4, law.name
        assert abs(z_score(mean["fcfs"], theory.MG1(0.6, 1, law.scv).mean_response)) < 4, law.name
        assert np.all(mean["sjf"] <= mean["fcfs"] * (1 + 1e-12))


test_claim = claim.test()


@pytest.mark.parametrize("order", ["fcfs", "sjf", "ps"])
@pytest.mark.parametrize(("sigma", "utilisation"), [(0.4, 0.8), (1.2, 0.36), (1.2, 0.6)])
def test_mean_time_lost_agrees_with_simulation(order, sigma, utilisation):
    means = [head_of_line._lost(order, sigma, utilisation, seed).mean(axis=1) for seed in (1, 2)]
    assert abs(z_score(np.concatenate(means), head_of_line.mean_lost(order, sigma, utilisation))) < 4


def test_mean_wait_under_shortest_first_against_many_priority_classes():
    """The integral of Phipps (1956) against Cobham's sum (1954) over 200,000 classes of equal probability."""
    sigma, rho, n = 1.0, 0.7, 200_000
    x = workload.lognormal(1.0, np.expm1(sigma**2)).ppf((np.arange(n) + 0.5) / n)
    shorter = rho * (np.cumsum(x) - x / 2) / x.sum()
    expected = np.mean(rho * np.exp(sigma**2) / 2 / (1 - shorter) ** 2)
    assert head_of_line.mean_lost("sjf", sigma, rho) == pytest.approx(expected, rel=1e-3)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 60), load=st.floats(0.1, 2), k=st.integers(0, 59))
def test_busy_period_and_what_its_block_causes(seed, n, load, k):
    rng, k = np.random.default_rng(seed), min(k, n - 1)
    gap, service = rng.standard_exponential(n) / load, rng.exponential(1, n)
    wait = simulate.fcfs_waits(gap, service)
    b = head_of_line.busy_period(gap, service, wait, k)
    assert b.wait[0] == 0 and np.all(b.wait[1:] > 0)
    assert (b.service[b.index], b.wait[b.index]) == (service[k], wait[k])
    # By brute force over the whole run: all others, with the block and with a block of length 0.
    smaller = service.copy()
    smaller[k] = 0
    others = np.arange(n) != k
    without = simulate.fcfs(np.cumsum(gap), smaller).wait
    assert b.caused == pytest.approx((wait - without)[others].sum(), abs=1e-6)
    start = np.cumsum(gap)[k] + wait[k]
    assert b.behind == np.sum((np.cumsum(gap) > start) & (np.cumsum(gap) <= start + service[k]))


@pytest.mark.parametrize("family", head_of_line.FAMILIES.values())
@pytest.mark.parametrize("scv", [0.0, 0.5, 4.0, 25.0])
def test_families_have_the_mean_and_the_scv_they_are_asked_for(family, scv):
    law = head_of_line.law(family, scv, 2.0)
    u = (np.arange(400_000) + 0.5) / 400_000
    x = law.ppf(u)
    assert (law.mean, law.scv) == pytest.approx((2.0, scv), abs=1e-9)
    assert x.mean() == pytest.approx(2.0, rel=2e-3) and x.min() >= 0
    if family == "two" and scv:
        assert np.mean(x > 2.0) == pytest.approx(head_of_line.LONG_SHARE, rel=1e-3)


@pytest.mark.parametrize(
    ("sigma", "utilisation"), [(0.4, 0.84), (1.2, 0.36), (1.2, 0.7)], ids=["narrow", "lesson", "limit"]
)
def test_p99_on_the_screen_is_covered_by_its_interval(sigma, utilisation):
    law = workload.lognormal(1.0, np.expm1(sigma**2))
    exact = theory.MG1.of_law(utilisation, law).wait_quantile(0.99)
    seen = [
        head_of_line._p99(head_of_line._lost("fcfs", sigma, utilisation, seed), utilisation, sigma)
        for seed in range(30)
    ]
    runs = head_of_line._lost("fcfs", sigma, utilisation, 7)
    assert seen[7].value == pytest.approx(np.quantile(runs, 0.99, axis=1).mean(), rel=1e-12)
    assert sum(e.covers(exact) for e in seen) >= 24  # 28.5 expected; fewer than 24 at 95% once in 1000


def test_no_interval_where_the_runs_are_too_short():
    e = head_of_line.tokens(utilisation=0.9)
    assert e.result.p99.low is None and "too short here" in e.alt
    e = head_of_line.variance(scv=25.0)
    assert e.result.simulated.low is None and "100,000 requests are too few here" in e.alt
    assert "no intervals below 1,000 arrivals" in head_of_line.inspection(arrivals=999).alt
    assert "no interval" not in head_of_line.inspection(arrivals=1000).alt


def test_time_per_token_changes_nothing_but_the_scale():
    a, b = (head_of_line.tokens(ms_per_token=ms).result for ms in (5.0, 50.0))
    assert np.allclose(10 * a.lost, b.lost, rtol=1e-12)
    assert b.mean == pytest.approx(10 * a.mean)


def test_what_the_lesson_says_of_half_the_load_and_half_the_variance():
    rows = {name: row for name, *row in head_of_line.remedies().rows}
    today, load, variance, _, narrow, cut = rows.values()
    assert variance[2] == pytest.approx(today[2] / 2)
    assert (round(load[-1], 1), round(variance[-1], 1)) == (13.5, 13.5) and load[-2] < variance[-2]
    assert round(today[-1]) == 25 and round(cut[-1]) == 7
    share_cut = 1 - np.mean(
        workload.lognormal_from_median(120, 1.2).ppf(np.linspace(0, 1, 10_001)[:-1]) < 1000
    )
    assert share_cut == pytest.approx(0.04, abs=0.002)
    # The cut-off law, built from quantiles, against its moments by simulation of lengths.
    tokens = np.minimum(
        workload.lognormal_from_median(120, 1.2).sample(np.random.default_rng(1), 10**6), 1000
    )
    assert cut[1] == pytest.approx(tokens.mean() * 0.006, rel=5e-3)
    assert narrow[0] < today[0]


def test_remedies_answer_other_numbers():
    rows = {name: row for name, *row in head_of_line.remedies(0.2, 150, 1.0, 8, narrower=0.6, longest_tokens=500).rows}
    today = head_of_line.one_at_a_time(0.2, 150, 1.0, 8)
    assert rows["today: σ = 1"][-2:] == pytest.approx([today.mean_wait, today.wait_quantile(0.99)])
    narrow = head_of_line.one_at_a_time(0.2, 150, 0.6, 8)
    assert rows["σ = 0.6, same median"][-1] == pytest.approx(narrow.wait_quantile(0.99))
    assert rows["answers cut at 500 tokens"][1] < today.service_mean
    for wrong in (dict(narrower=1.3), dict(narrower=0), dict(longest_tokens=0), dict(arrival_rate=3)):
        with pytest.raises(ValueError, match="="):
            head_of_line.remedies(**wrong)


def test_dropping_an_assumption_moves_the_mean_the_way_the_lesson_says():
    _, clock, bursts, together = head_of_line.assumptions(runs=10).rows
    change = [float(row[2].split()[0]) for row in (clock, bursts, together)]
    assert change[0] < 0 < change[2] < change[1]


def test_lesson_runs_without_the_real_files(monkeypatch):
    monkeypatch.setattr(course, "data", lambda name: None)
    assert head_of_line.real_lengths(runs=4, n=2_000).caption.startswith("SYNTHETIC STAND-IN for conversation, code")


def test_real_lengths():
    if course.data("azure_2023/AzureLLMInferenceTrace_code.csv") is None:
        pytest.skip("the Azure traces are not here: set QLAB_DATA, or run `qlab data`")
    conversation, code = (trace().output_tokens for trace in (head_of_line.conversation, head_of_line.code))
    assert (conversation.max(), np.median(code), code.max()) == (1000, 13, 1899)
    relative = [row[4] / row[1] for row in head_of_line.real_lengths(runs=4, n=2_000).rows]
    assert relative[1] / relative[0] == pytest.approx(3.5, abs=0.05)
