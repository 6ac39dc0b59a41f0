"""Lesson 01: its claims, and its own functions against independent counts."""

import json

import numpy as np
import pytest
from claims import Claims
from hypothesis import given, settings
from hypothesis import strategies as st

from labsupport import course, little

claim = Claims("little")


def reached(value, claimed, digits=3):
    """`value` agrees with a number that the table prints with so many significant digits."""
    return float(f"{value:.{digits}g}") == claimed


def real(name):
    path = course.data(name)
    if path is None:
        pytest.skip(f"{name} is not here: set QLAB_DATA to the folder of the real traces, or run `qlab data`")
    return path


@claim("L1")
def identity(row):
    @settings(max_examples=60, deadline=None)
    @given(
        system=st.sampled_from(list(little.SYSTEMS.values())),
        rate=st.floats(0.05, 5),
        service=st.floats(0.01, 5),
        seed=st.integers(0, 2**32),
        n=st.integers(1, 300),
    )
    def holds(system, rate, service, seed, n):
        s = little.sides(little.run(system, rate, service, np.random.default_rng(seed), n))
        assert s.in_system == pytest.approx(s.product, rel=1e-9)

    holds()


@claim("L2")
def five_systems(row):
    assert len(little._CASES) == 5
    for system, rate in little._CASES:
        runs = [
            little.sides(little.run(system, rate, 1, np.random.default_rng([7, seed]), 10_000))
            for seed in range(30)
        ]
        assert all(s.in_system == pytest.approx(s.product, rel=1e-9) for s in runs)
        values = np.array([s.in_system for s in runs])
        z = (values.mean() - little._theory(system, rate)) / (values.std(ddof=1) / np.sqrt(len(values)))
        assert abs(z) < 4, f"{system}: z = {z:.1f}"


@claim("L3")
def concurrent_requests(row):
    assert little.memory(rate=20, response=8).result.inside == row.numbers[0]


@claim("L4")
def cache_of_160_requests(row):
    model = little.MODELS["Llama-3-8B"]
    assert model.bytes_per_token == 131072 == row.numbers[1]
    assert reached(model.cache_gb(160, 2048), row.numbers[0])


@claim("L5")
def cache_of_long_answers(row):
    m = little.memory(rate=20, response=60).result
    assert m.inside == row.numbers[0] and reached(m.gb, row.numbers[1])


@claim("L6")
def ceiling(row):
    model = little.MODELS["Llama-3-8B"]
    room = 64e9 / (2048 * model.bytes_per_token)  # L_max, requests
    assert little.largest_rate(model, 8, 2048, 64) == pytest.approx(room / 8, rel=1e-12)
    # At the ceiling the memory is exactly full.
    assert model.cache_gb(little.largest_rate(model, 8, 2048, 64) * 8, 2048) == pytest.approx(64, rel=1e-12)


@claim("L7")
def time_in_system(row):
    cases = json.loads((course.root() / "exercises" / "01_little.json").read_text(encoding="utf-8"))["cases"]
    first = {
        q: next(c["value"] for c in cases if c["q"] == q) for q in ("time_in_system", "queue_and_prefill")
    }
    assert [first["time_in_system"], pytest.approx(first["queue_and_prefill"])] == [
        row.numbers[0],
        row.numbers[1],
    ]


@claim("L8")
def azure_trace(row):
    real("azure_2023/AzureLLMInferenceTrace_conv.csv")
    log = little.assumed_log(little.conversation())
    s = little.sides(log)
    assert len(log) == 19_366
    assert s.in_system == pytest.approx(s.product, rel=1e-9)
    # A third count, by brute force: the mean of N(t) on a fine grid.
    grid = np.linspace(0, s.span, 500_001)
    assert log.in_system(grid).mean() == pytest.approx(s.in_system, rel=1e-3)


test_claim = claim.test()


def test_vllm_sweep_three_ways_to_count():
    real("burstgpt_vllm_sweep/detail_log_scale100_prompt500.json")
    light, *heavy = little.vllm_sweep().rows
    records, _, running, plain = (round(value, 1) for value in light[1:])
    assert [records, running, plain] == [20.7, 21.0, 31.1]
    for _, records, everybody, running, _ in heavy:  # what waits is inside too
        assert everybody == pytest.approx(records, rel=0.01) and running < 0.95 * records


def test_lesson_runs_without_the_real_files(monkeypatch):
    monkeypatch.setattr(course, "data", lambda name: None)
    trace = little.conversation()
    assert "SYNTHETIC" in trace.name and "SYNTHETIC" in little.real_trace(trace).canvas.alt
    table = little.vllm_sweep()
    assert "SYNTHETIC" in table.caption
    for _, records, everybody, running, plain in table.rows:
        assert everybody == pytest.approx(records, rel=0.1) and everybody >= running and plain > running


def test_memory_weighs_long_requests_twice():
    """Tokens times time of each request, against the KV cache summed on a fine grid."""
    log = little.assumed_log(little.conversation()).between(0, 300)
    t = np.arange(0, log.finish.max(), 0.05)
    tokens = log.prompt_tokens + log.output_tokens
    inside = (log.arrival[:, None] <= t) & (t < log.finish[:, None])
    held = (inside * tokens[:, None]).sum(axis=0).mean() * t[-1] / little.sides(log).span
    assert float(np.sum(log.response * tokens)) / little.sides(log).span == pytest.approx(held, rel=0.01)


def test_gauge_taken_while_busy_is_too_high_by_one_over_the_load():
    for load, true, busy, _ in little.gauges(loads=(0.3,), replications=10, n=3000).rows:
        true, busy = (float(text.split()[0]) for text in (true, busy))
        assert busy / true == pytest.approx(1 / float(load), rel=0.1)


def test_sides_part_for_good_only_above_a_load_of_one():
    t = np.array([100.0, 400.0])
    stable = little._unfinished(0.6, 20, t, seed=3).mean(axis=1)
    unstable = little._unfinished(1.3, 20, t, seed=3).mean(axis=1)
    assert stable[1, 1] / stable[0, 1] > 0.95
    assert unstable[1, 1] / unstable[0, 1] < 0.8


def test_area_explorer_says_unstable_from_a_load_of_one_on():
    assert "unstable" not in little.area(rate=1.0, service=0.9).alt
    assert "unstable" in little.area(rate=1.0, service=1.0).alt
    assert "unstable" not in little.area(rate=2.0, service=1.0, system="shared").alt
    assert "unstable" not in little.area(rate=2.0, service=2.0, system="closed").alt
