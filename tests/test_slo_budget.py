"""Lesson 10: its claims, and its own functions against formulas, brute force and counts by hand."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from claims import Claims
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labsupport import course, slo_budget
from labsupport.queueing import engine, theory
from labsupport.queueing.admission import Admission, token_bucket
from labsupport.queueing.statistics import Estimate

claim = Claims("slo_budget")


def z(values, truth):
    values = np.asarray(values)
    return (values.mean() - truth) / (values.std(ddof=1) / np.sqrt(len(values)))


def answers(q):
    """The right values of a question of the exercises."""
    path = course.root() / "exercises" / "10_slo_budget.json"
    return [case["value"] for case in json.loads(path.read_text(encoding="utf-8"))["cases"] if case["q"] == q]


@claim("A1")
def sizing(row):
    for target, quantity in ((3.0, "response"), (2.5, "response"), (0.5, "wait"), (0.1, "wait")):
        c = theory.smallest_servers(40, 0.5, target, quantity, 0.99)
        p99 = [getattr(theory.MMc(40, 0.5, n), f"{quantity}_quantile")(0.99) for n in (c, c - 1)]
        assert p99[0] <= target < p99[1]
    # Simulated, fresh seeds: the share within the target is the formula's.
    c = theory.smallest_servers(40, 0.5, 0.5, "wait", 0.99)
    kept = []
    for run in range(20):
        unit, u = slo_budget._service_units((91, run), 10_000)
        kept.append(slo_budget.kept_by_servers(unit / 40, -0.5 * np.log1p(-u), c, 0.5, "wait"))
    assert abs(z(kept, theory.MMc(40, 0.5, c).wait_cdf(0.5))) < 4
    assert answers("servers")[0] == theory.smallest_servers(39, 0.5, 2.5, "response", 0.99)


@claim("A2")
def bucket_bound(row):
    @settings(max_examples=60, deadline=None)
    @given(
        gaps=st.lists(st.floats(0, 5), min_size=1, max_size=60),
        rate=st.floats(0.05, 5),
        burst=st.integers(1, 20),
    )
    def holds(gaps, rate, burst):
        arrival = np.cumsum(gaps)
        inside = token_bucket(arrival, rate, burst)
        times = arrival[inside]
        for i, t in enumerate(times):  # the window that begins with this one
            assert (np.arange(1, len(times) - i + 1) <= burst + rate * (times[i:] - t) + 1e-6).all()
        # The level drawn in the explorer tells the same: who finds a token gets in.
        at, level = slo_budget.bucket_level(arrival, inside, rate, burst)
        assert level.min() > -1e-6 and level.max() <= burst and (np.diff(at) >= 0).all()
        before = level[np.flatnonzero(np.isin(at, arrival))]
        assert len(before) >= len(arrival)

    holds()


@claim("A3")
def first_hour(row):
    *_, (window, admitted, bound) = slo_budget.bucket_hour().rows
    assert window == "first 3,600 s" and admitted == row.numbers[0] == answers("bucket")[0]
    assert float(bound) == pytest.approx(answers("bound")[0], abs=0.05)


@claim("A4")
def door_under_overload(row):
    load, c = 1.3, slo_budget.capacity()
    shut = slo_budget.through(load, 77, Admission(3, 0.9, 0.8 * slo_budget.TTFT_S), runs=8)
    depth = slo_budget.through(load, 77, Admission(max_waiting=3), runs=8)
    free = slo_budget.through(load, 77, None, runs=8)
    for outcome in (shut, depth):
        assert outcome.mean("p99").high < slo_budget.TTFT_S
        assert outcome.mean("good").low > 0.8 * c
        assert outcome.admitted.mean() < 0.85 * outcome.offered.mean()
    assert depth.mean("good").low > 0.88 * c
    assert free.mean("good").high < 0.1 * c and free.mean("p99").low > 10
    # The P99 alone sees the harm when it is done.
    late = slo_budget.through(load, 77, Admission(max_p99_ttft_s=0.8 * slo_budget.TTFT_S), runs=8)
    assert late.mean("good").high < 0.75 * c and late.p99.mean() > slo_budget.TTFT_S


@claim("A5")
def longest_stall(row):
    whole, chunked, split = (slo_budget._two_gpus(k, 5.0, 1020, 129, 512, 77)[:, 2] for k in range(3))  # ms
    assert (split < whole / 10).all() and (chunked < whole / 10).all()
    systems = slo_budget.three_systems(512).values()
    assert [getattr(s, "engines", 2) for s in systems] == [2, 2, 2]  # GPUs
    # A step of a chunk and a full batch bounds every gap of the second system.
    bound = 1e3 * slo_budget._FREE.step_time(64, 0, 512)
    assert (chunked <= bound + 1e-6).all()
    assert (split <= 2e3 * slo_budget._FREE.step_time(64) + 5 + 20 + 1e-6).all()  # two steps and the transfer


test_claim = claim.test()


def test_c19_share_of_gaps_hit():
    rows = slo_budget.freezes(steps=20_000, runs=3).rows
    assert [r[1] for r in rows] == ["0.75%", "1.49%"]
    assert [float(r[3].split()[0]) for r in rows] == [15.0, 515.0]
    assert answers("p99_of_gaps")[0] == pytest.approx([0.515, 0.015])
    assert answers("hit")[0] == pytest.approx(-math.expm1(-0.015))


def test_c11_refusals():
    answered = np.append(np.zeros(441), np.linspace(1, 2, 160))  # refusals first
    assert np.mean(answered < np.median(answered[441:])) == pytest.approx(
        answers("median_of_good")[0], abs=1e-9
    )


# -- the budget ------------------------------------------------------------------------------------------------


def test_exact_p99_of_a_stage():
    assert slo_budget.stage_p99(2.0, None, 0.0) == pytest.approx(stats.expon(scale=2).ppf(0.99))
    law = stats.lognorm(0.7, scale=0.3 * math.exp(-(0.7**2) / 2))
    assert law.mean() == pytest.approx(0.3)
    assert slo_budget.stage_p99(0.3, 0.7, 0.0) == pytest.approx(law.ppf(0.99))
    for stall in (0.005, 0.012, 0.02):
        t = slo_budget.stage_p99(0.3, 0.7, stall)
        assert (1 - stall) * law.cdf(t) + stall * law.cdf(t - slo_budget.STALL_S) == pytest.approx(0.99)


@pytest.mark.parametrize("dependence, stall", [(0.0, 0.0), (0.6, 0.009), (1.0, 0.0)])
def test_simulated_stages_have_the_exact_p99(dependence, stall):
    means = np.array([0.3, 0.2, 1.0, 0.05])
    times = slo_budget.stages(means, dependence, stall, seed=9)
    for row, mean, sigma in zip(times, means, slo_budget._SIGMAS, strict=True):
        t = slo_budget.stage_p99(mean, sigma, stall)
        assert abs(np.mean(row > t) - 0.01) < 4 * math.sqrt(0.01 * 0.99 / len(row))
        assert abs(z(row, mean + stall * slo_budget.STALL_S)) < 4


def test_budget_errs_in_both_directions_and_its_split_adds_up():
    apart, together, stalls = (
        slo_budget.budget(**setting).result for setting in ({}, {"dependence": 1.0}, {"stall": 0.9})
    )
    assert apart.sum_of_p99s > apart.p99.high
    assert together.p99.covers(together.sum_of_p99s)
    assert stalls.sum_of_p99s < stalls.p99.low
    for b in (apart, together, stalls):
        assert b.parts.sum() == pytest.approx(b.p99.value)


# -- how many --------------------------------------------------------------------------------------------------


@given(
    values=st.lists(st.floats(0, 1), min_size=3, max_size=40),
    half=st.floats(0, 0.2),
    share=st.floats(0.01, 0.99),
    least=st.integers(1, 5),
)
@settings(max_examples=100, deadline=None)
def test_smallest_is_what_trying_all_finds(values, half, share, least):
    values = sorted(values)
    most = least + len(values) - 1
    table = {least + k: Estimate(v, v - half, v + half) for k, v in enumerate(values)}

    def brute(end):
        return next((n for n, e in table.items() if getattr(e, end) >= share), math.inf)

    if brute("value") == math.inf:
        with pytest.raises(ValueError, match="raise `most`"):
            slo_budget.smallest(table.__getitem__, share, least, most)
        return
    found, seen = slo_budget.smallest(table.__getitem__, share, least, most)
    assert (found.value, found.low, found.high) == (brute("value"), brute("high"), brute("low"))
    assert set(seen) <= set(table)


ONE = engine.Engine(
    step_s=1e-3, per_prompt_token_s=1e-3, slots=1
)  # a prompt of k tokens takes k ms, nothing else


def test_plan_of_one_engine_is_a_queue_with_constant_service():
    # Prompts of 100 tokens, one output token: M/D/1 with 0.1 s of service.
    queue = theory.MD1(6.0, 0.1)
    t = queue.wait_quantile(0.97)
    found = slo_budget.plan(ONE, {"wait": t}, 0.95, rate=6.0, prompt_tokens=100, output_tokens=1, seconds=400)
    assert found.engines.value == 1 == found.floor and found.load == pytest.approx(0.6)
    e = found.attainment[1]
    assert abs(e.value - 0.97) < 4 * e.half_width / 2.36 + 1e-9  # t quantile of 8 runs
    stricter = slo_budget.plan(
        ONE, {"wait": t}, 0.995, rate=6.0, prompt_tokens=100, output_tokens=1, seconds=400
    )
    assert stricter.engines.value == 2 and stricter.attainment[1].value < 0.995


def test_plan_tries_neighbours_and_brackets_the_answer():
    found = slo_budget.plan(
        slo_budget.MACHINE,
        {"ttft": 1.0},
        0.95,
        rate=20.0,
        prompt_tokens=1000,
        output_tokens=[50, 300],
        seconds=20,
        runs=4,
    )
    n, tried = found.engines.value, found.attainment
    assert found.floor <= found.engines.low <= n <= found.engines.high
    assert tried[n].value >= 0.95 and (n == found.floor or tried[n - 1].value < 0.95)
    assert tried[found.engines.high].low >= 0.95
    assert f"{n} engines [" in str(found) and "engines" in found._repr_html_()
    assert found.rate / n / slo_budget.MACHINE.capacity(1000, [50, 300]) == pytest.approx(found.load, rel=0.1)


def test_plan_of_a_trace_counts_every_request():
    rng = np.random.default_rng(5)
    arrival = rng.standard_exponential(2000).cumsum() / 5
    log = engine.serve(arrival, 1000, 100, slo_budget.MACHINE)
    found = slo_budget.plan(slo_budget.MACHINE, {"ttft": 1.0}, 0.9, trace=log, speed=3)
    n = found.engines.value
    again = engine.serve(
        (arrival - arrival[0]) / 3, 1000, 100, engine.Pool(slo_budget.MACHINE, n, "least_loaded")
    )
    assert found.attainment[n].value == pytest.approx(np.mean(again.ttft <= 1.0))
    assert found.rate == pytest.approx(1999 / (arrival[-1] - arrival[0]) * 3)
    assert "3 times faster" in str(found)


LENGTHS = {"prompt_tokens": 800, "output_tokens": 120}


def test_a_looser_promise_never_needs_more_engines():
    numbers = [
        slo_budget.plan(
            slo_budget.MACHINE, {"ttft": t}, 0.95, rate=12.0, **LENGTHS, seconds=30, runs=3
        ).engines.value
        for t in (0.3, 0.6, 3.0)
    ]
    assert numbers == sorted(numbers, reverse=True)


MODEL = dict(rate=5.0, prompt_tokens=500, output_tokens=50)


@pytest.mark.parametrize(
    "kw, error, words",
    [
        ({"machine": 3, **MODEL}, TypeError, "machine must be an Engine"),
        ({"share": 1.0, **MODEL}, ValueError, "share = 1.0 must lie between 0 and 1"),
        ({}, ValueError, "give either rate"),
        ({"rate": 5.0}, ValueError, "prompt_tokens and output_tokens are missing"),
        ({**MODEL, "rate": -1}, ValueError, "rate = -1 must be"),
        ({**MODEL, "runs": 1}, ValueError, "runs = 1 must be a whole number of at least 2"),
        ({**MODEL, "seconds": 2.0}, ValueError, "give at least 20"),
        ({**MODEL, "slo": {"ttft": 0.01}}, ValueError, "no number of engines keeps the promise"),
        ({**MODEL, "slo": {"itl": 0.01}}, ValueError, "slo names 'itl'"),
    ],
)
def test_plan_refuses_in_one_sentence(kw, error, words):
    kw = {"machine": slo_budget.MACHINE, "slo": {"ttft": 1.0}, **kw}
    with pytest.raises(error, match=words) as caught:
        slo_budget.plan(kw.pop("machine"), kw.pop("slo"), **kw)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_bursts_need_more_servers_than_erlang_says():
    calm, *_, bursts = slo_budget.beyond_erlang(runs=5, n=4000).rows
    assert calm[1] == bursts[1] and int(bursts[3].split()[0]) > 1.3 * calm[1]


def test_lesson_runs_without_the_real_trace(monkeypatch):
    monkeypatch.setattr(course, "data", lambda name: None)
    assert "SYNTHETIC" in slo_budget.conversation().name


def test_explorers_say_when_a_load_is_unstable():
    assert (
        "unstable" in slo_budget.admission(load=1.3).alt
        and "unstable" not in slo_budget.admission(load=0.8).alt
    )
    assert (
        "unstable" in slo_budget.one_or_two(rate=12.0).alt
        and "unstable" not in slo_budget.one_or_two(rate=2.0).alt
    )


def test_other_doors_meet_the_same_requests():
    a = slo_budget.through(1.3, 2, None, runs=1).log
    b = slo_budget.through(1.3, 2, Admission(max_waiting=2), runs=1).log
    c = slo_budget.through(0.65, 2, None, runs=1).log
    assert np.array_equal(a.arrival, b.arrival) and np.array_equal(a.prompt_tokens, b.prompt_tokens)
    assert np.allclose(a.arrival[: len(c)] * 2, c.arrival)


def test_split_is_loaded_by_its_fuller_half():
    shared, _, split = slo_budget.loads_of(5.0, 4000, 20)
    prompt = slo_budget._tokens(slo_budget._units((0,), 20_000)[1][0], 4000, 0.9, 20_000)
    assert split == pytest.approx(5 * 1e-4 * prompt.mean()) and split > shared
    assert replace(slo_budget._FREE, kv_tokens=100_000) == slo_budget.MACHINE


def test_sizing_explorer_shows_the_plan_or_why_there_is_none():
    shown = slo_budget.engines(rate=20.0, share=90)
    found = shown.result.plan
    assert (
        found.attainment[found.engines.value].value >= 0.9 and f"{found.engines.value} engines [" in shown.alt
    )
    twice = slo_budget.engines(rate=20.0, share=90, cost=2.0).result.plan
    assert twice.floor in (2 * found.floor - 1, 2 * found.floor) and twice.engines.value > found.engines.value
    none = slo_budget.engines(ttft=0.2, lengths="documents")
    assert none.result.plan is None and "no number of engines keeps the promise" in none.alt
