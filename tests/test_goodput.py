"""Lesson 06: its claims, and its own functions against the exact chain and counts by hand."""

import json

import numpy as np
import pytest
from claims import Claims
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labsupport import course, goodput
from labsupport.queueing import engine, theory
from labsupport.queueing.requestlog import RequestLog
from labsupport.queueing.statistics import attainment, goodput_rate, meets

claim = Claims("goodput")


def z(values, truth):
    values = np.asarray(values)
    return (values.mean() - truth) / (values.std(ddof=1) / np.sqrt(len(values)))


def answer(q, number=0):
    """The right value of a case of the exercises."""
    path = course.root() / "exercises" / "06_goodput.json"
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [case["value"] for case in cases if case["q"] == q][number]


@claim("G1")
def share_of_a_thousand(row):
    ttft = np.repeat([0.3, 0.5, 0.8], [940, 10, 50])
    e = attainment(ttft, 0.5)
    assert e.value == row.numbers[0] == answer("attainment") and e.covers(0.95)


@claim("G2")
def first_token(row):
    """Two prompts come together: the second waits 200 ms for the first to be read, and takes 100 ms itself."""
    one = engine.Engine(goodput.STEP_S, per_prompt_token_s=goodput.PER_PROMPT_TOKEN_S)
    log = engine.serve(np.zeros(2), [2000, 1000], [1, 1], one)
    assert 1e3 * log.wait[1] == pytest.approx(200) and 1e3 * log.ttft[1] == pytest.approx(row.numbers[0])


@claim("G3")
def attainment_near_the_ceiling(row):
    assert round(goodput.exact_attainment(1450, 50), 3) == row.numbers[0]
    shares = [goodput.attainment_of(1450, 60, (101, run)) for run in range(20)]
    assert abs(z(shares, goodput.exact_attainment(1450, 50))) < 4


@claim("G4")
def largest_rate(row):
    exact = goodput.exact_largest_rate(50, 0.9)
    assert int(exact) == row.numbers[0]
    # What the source printed is a point of a coarse grid, not the crossing.
    by_step = {r[0]: int(r[1].replace(",", "")) for r in goodput.reading_the_grid(steps=(50, 10)).rows}
    assert by_step == {50: 1450, 10: 1470} and "1450" in row.note
    assert answer("largest_rate")[0] == pytest.approx(exact, abs=0.2)
    # The largest rate whose P90 is within the SLO is another road to the same number.
    model = theory.DynamicBatching(exact, goodput.FIXED_S, goodput.PER_ITEM_S, goodput.CAP)
    assert model.response_quantile(0.9) == pytest.approx(0.05, rel=1e-3)


@claim("G5")
def minute_of_overload(row):
    """The claim is one run's; ours are eight others, and a single run lies within their spread."""
    runs = [goodput._Run.of(2000, 60, (5, run)).numbers(0.05, False) for run in range(8)]
    for column, claimed, digit in zip(np.array(runs).T, row.numbers, (0.1, 1e-4), strict=False):
        assert abs(column.mean() - claimed) < 4 * column.std(ddof=1) + digit
    assert goodput.minute_of_overload().high < 0.3


@claim("G6")
def rise_and_fall(row):
    rates = np.array([100, 500, 900, 1300, 1400, 1450, 1500, 1600, 2000])
    runs = [[goodput._Run.of(rate, 30, (6, run)).numbers(0.05, False) for run in range(4)] for rate in rates]
    throughput, _, good = np.array(runs).mean(axis=1).T
    peak = rates[good.argmax()]
    assert (np.diff(good[: good.argmax() + 1]) > 0).all() and (np.diff(good[good.argmax() :]) < 0).all()
    assert 1300 < peak < goodput.CEILING and good[-1] < 0.02 * good.max()
    assert throughput[-1] > 0.99 * goodput.CEILING


@claim("G7")
def count_and_duration(row):
    *_, half, whole, _ = goodput.fixed_count(counts=(4000, 8000)).rows
    stable, unstable = zip(*[[float(text.split()[0]) for text in r[1:3]] for r in (half, whole)], strict=True)
    assert stable[1] / stable[0] == pytest.approx(1, abs=0.05)
    assert unstable[1] / unstable[0] == pytest.approx(2, abs=0.15)
    # A longer run continues a shorter one: at 2,000/s nobody in its last fifth is in time.
    assert goodput.twice_as_long(rates=(2000,), seconds=(5, 10), runs=3).rows[0][1:3] == ("0% (none)",) * 2


@claim("G8")
def percentiles_do_not_add(row):
    (one, total, both), together, stalls = ([float(x) for x in r[1:4]] for r in goodput.sums_of_p99().rows)
    assert [total, both] == row.numbers[1::2]
    assert goodput.p99_of_sum_exact() == pytest.approx(stats.gamma(2).ppf(0.99), rel=1e-12)
    assert together[1] == together[2] and stalls[1] < stalls[2]
    for a, b, p99, p99_both in goodput.two_stages().values():
        for sample, truth in ((a, p99), (b, p99), (a + b, p99_both)):
            # The share above the true quantile is 1%, or it lies on an atom that covers 1%.
            above, at_least = np.mean(sample > truth + 1e-9), np.mean(sample >= truth - 1e-9)
            slack = 4 * np.sqrt(0.01 * 0.99 / len(sample))
            assert above < 0.01 + slack and at_least > 0.01 - slack


@claim("G9")
def two_means(row):
    log = goodput.two_requests()
    gaps = np.concatenate([np.full(1, 0.1), np.full(199, 0.02)])
    assert goodput.mean_tpot(log) == pytest.approx((0.1 + 0.02) / 2)
    assert goodput.mean_itl(log) == pytest.approx(gaps.mean())
    assert answer("mean_tpot") == pytest.approx(0.06) and answer("mean_itl") == pytest.approx(gaps.mean())


test_claim = claim.test()


def test_mean_itl_is_the_mean_of_the_engines_gaps():
    unit, prompt, output = goodput.chats((1,), 400)
    run = engine.run(unit / 4, prompt, output, goodput.machine(64))
    gap, count = run.gaps()
    assert goodput.mean_itl(run.log) == pytest.approx(np.average(gap, weights=count), rel=1e-9)


@given(tokens=st.lists(st.integers(1, 50), min_size=1, max_size=20), tpot=st.floats(0.001, 1))
@settings(max_examples=50, deadline=None)
def test_both_means_agree_where_all_tokens_take_the_same(tokens, tpot):
    tokens = np.array([*tokens, 2])
    n = np.zeros(len(tokens))
    log = RequestLog(n, n, tpot * (tokens - 1), first_token=n, output_tokens=tokens)
    assert goodput.mean_tpot(log) == pytest.approx(tpot) and goodput.mean_itl(log) == pytest.approx(tpot)


@settings(max_examples=25, deadline=None)
@given(
    rate=st.floats(100, 2200), seconds=st.floats(0.5, 4), slo=st.floats(0.006, 0.3), seed=st.integers(0, 99)
)
def test_counts_of_a_run_agree_with_the_statistics_of_its_log(rate, seconds, slo, seed):
    log = goodput.served_for(rate, seconds, (seed,))
    run = goodput._Run.of(rate, seconds, (seed,))
    throughput, within, good = run.numbers(slo, False)
    assert good <= throughput + 1e-9 and within == pytest.approx(attainment(log, slo).value, abs=2 / len(log))
    for rate_of, limit in ((throughput, np.inf), (good, slo)):
        assert rate_of == pytest.approx(goodput_rate(log, limit, 0, seconds).value, abs=2 / seconds)
    _, late, _ = run.numbers(slo, True)
    assert late == pytest.approx(meets(log.between(seconds / 2, seconds), slo).mean(), abs=0.02)


def test_exact_curve_falls_and_ends_at_the_ceiling():
    for slo in (10, 50, 100):
        rates, shares = goodput.exact_curve(slo)
        assert (np.diff(shares) <= 1e-9).all() and shares[-1] == 0 and (np.diff(rates) > 0).all()
    assert goodput.exact_largest_rate(50, 0.99) < goodput.exact_largest_rate(50, 0.9) < goodput.CEILING


def test_crossing_reads_between_points_and_says_when_there_is_none():
    rates = np.array([1.0, 2.0, 3.0])
    assert goodput.crossing(rates, np.array([1.0, 0.95, 0.85]), 0.9) == pytest.approx(2.5)
    assert goodput.crossing(rates, np.array([0.5, 0.4, 0.3]), 0.9) == 0
    assert goodput.crossing(rates, np.ones(3), 0.9) == np.inf


def test_bisection_on_simulated_runs_covers_the_exact_rate():
    bisected, exact = (row[1] for row in goodput.by_bisection().rows)
    low, high = map(float, bisected.partition("[")[2].rstrip("]").split(", "))
    assert low <= float(exact.replace(",", "")) <= high


def test_short_tests_report_a_goodput_above_the_ceiling():
    short = goodput.fixed_count(counts=(250,)).rows[0]
    assert float(short[3].split("[")[1].split(",")[0]) > goodput.CEILING  # even the lower end


def test_few_slots_break_ttft_and_many_break_tpot():
    few, many = (goodput.two_promises(rate=6.0, slots=slots).result for slots in (16, 256))
    assert few.kept(0).value < 0.1 < 0.9 < few.kept(1).value
    assert many.kept(1).value < 0.1 and many.kept(0).value > few.kept(0).value
    for p in (few, many, goodput.two_promises().result):
        assert sum(p.share(a, b).value for a in (True, False) for b in (True, False)) == pytest.approx(1)


def test_unstable_settings_say_so():
    assert "unstable" in goodput.three_curves(rate=1600).alt
    assert "unstable" not in goodput.three_curves(rate=1450).alt
    assert "unstable" in goodput.two_promises(rate=6.0).alt
    assert "unstable" not in goodput.two_promises(rate=4.0).alt


def test_refusals_are_misses():
    values = dict(goodput.failures().rows)
    assert values["attainment, failures as misses"] == f"{100 * 160 / 601:.1f}%"
    assert values["goodput (b)"].startswith(f"{160 / 30:.2f} ")
    assert values["attainment among the good answers"] == "100%"


def test_gpus_follow_from_the_rates():
    (_, ceiling, good, by_ceiling, by_goodput), *_ = goodput.gpus(offered=40, slots=(64,)).rows
    low = float(good.partition("[")[2].split(",")[0])
    assert by_ceiling == np.ceil(40 / float(ceiling)) < by_goodput
    assert by_goodput == pytest.approx(40 / low, abs=1.2)


def test_gpus_answers_promises_that_none_or_all_keep():
    none, always, upper = (
        goodput.gpus(12, ttft_s, tpot_ms, share, slots=(16,)).rows[0]
        for ttft_s, tpot_ms, share in ((0.05, 50, 0.99), (5000, 1000, 0.5), (5, 100, 0.95))
    )
    assert none[2].startswith("0 (alone") and none[4] == "no number"
    assert "kept up to the ceiling" in always[2] and always[3] == always[4]
    assert upper[2].endswith(f"{upper[1]}]"), "the interval goes beyond what the engine can complete"
    for bad in (dict(offered=0), dict(share=90)):
        with pytest.raises(ValueError, match=f"^{list(bad)[0]} = "):
            goodput.gpus(**bad)
