"""Lesson 05: its claims, and its own functions against the plain model and independent counts."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from claims import Claims
from hypothesis import given, settings
from hypothesis import strategies as st

from labsupport import batching, course
from labsupport.lab import progress
from labsupport.queueing import theory

claim = Claims("batching")


def plain(server, rate):
    """The model with the server's own cap, not lowered."""
    return theory.DynamicBatching(rate, server.fixed_ms / 1e3, server.per_item_ms / 1e3, server.cap)


def z_of(values, expected):
    values = np.asarray(values)
    return (values.mean() - expected) / (values.std(ddof=1) / math.sqrt(len(values)))


def runs(timeout_ms, rate, count=24, n=12_000):
    """Mean response (ms) and mean batch of independent runs of server A."""
    units = [batching._unit_arrivals(90_000 + k, n) for k in range(count)]
    logs = [batching._batches(batching.A, unit / rate, timeout_ms) for unit in units]
    late = slice(n // 10, None)
    batch = [1 / np.mean(1 / batching.batch_sizes_of(log)[late]) for log in logs]
    return np.array([log.response[late].mean() * 1e3 for log in logs]), np.array(batch)


@claim("T1")
def ceilings(row):
    table = batching.capacities(batches=(1, 32)).rows
    for (*_, ceiling, _), claimed in zip(table, row.numbers, strict=True):
        assert ceiling == pytest.approx(claimed, rel=5e-4)
    assert batching.A.ceiling == pytest.approx(32 / 0.021, rel=1e-12)


RATES = (100, 500, 1000, 1400, 1450, 1480)


@claim("T2")
def responses_and_batches(row):
    times, sizes = row.numbers[:6], row.numbers[6:]
    for rate, ms, size in zip(RATES, times, sizes, strict=True):
        assert batching.A.response_ms(rate) == pytest.approx(ms, rel=1e-6)
        assert batching.A.at(rate).mean_batch == pytest.approx(size, rel=1e-6)
        if rate <= 1450:
            response, batch = runs(0, rate)
            assert abs(z_of(response, ms)) < 4 and abs(z_of(batch, size)) < 4


@claim("T3")
def batch_of_a_busy_server(row):
    for rate in (1000, 1400, 1450, 1480):
        assert plain(batching.A, rate).mean_batch == pytest.approx(batching.A.mean_batch_if_busy(rate), rel=1e-4)
    assert plain(batching.A, 100).mean_batch > 2 * batching.A.mean_batch_if_busy(100)


@claim("T4")
def timeout_at_low_load(row):
    response, batch = runs(20, 100)
    # A batch is 1 + Poisson(2) requests; the first waits 20 ms, the others 10; no batch meets a busy server.
    exact = (20 + 2 * 10) / 3 + (5 * 3 + 0.5 * (2 + 9)) / 3
    assert exact == pytest.approx(row.numbers[0], abs=0.005) and row.numbers[1] == 3
    assert abs(z_of(response, exact)) < 4 and abs(z_of(batch, 3)) < 4


@claim("T5")
def price_of_waiting(row):
    for rate, claimed in zip((100, 1000, 1400, 1450), row.numbers, strict=True):
        ratios = runs(20, rate)[0] / runs(0, rate)[0]
        error = ratios.std(ddof=1) / math.sqrt(len(ratios))
        assert abs(ratios.mean() - claimed) < 4 * error + 0.005  # the claim has two decimals
    table = batching.waiting_on_purpose(rates=(100,), runs=5, n=5_000).rows[0]
    assert table[1] == pytest.approx(7.00953, rel=1e-5) and table[3].startswith("2.8")


@claim("T6")
def decode_step(row):
    fixed, per_item = batching.fit(*batching.REPORTED)
    assert [fixed, per_item] == pytest.approx(row.numbers[:2], rel=1e-6)
    shown = {line[0]: line[2] for line in batching.decode_steps().rows}
    assert [float(shown[b].replace(",", "")) for b in (16, 32)] == row.numbers[2:]


test_claim = claim.test()

servers = st.builds(
    batching.Server, st.floats(1, 40), st.floats(0.1, 5), st.sampled_from([1, 2, 5, 17, 32, 90])
)


@settings(max_examples=25, deadline=None)
@given(server=servers, load=st.floats(0.002, 0.98))
def test_lowered_cap_changes_nothing(server, load):
    rate = load * server.ceiling
    whole, lowered = plain(server, rate), server.at(rate)
    assert lowered.mean_response == pytest.approx(whole.mean_response, rel=1e-6)
    assert lowered.mean_batch == pytest.approx(whole.mean_batch, rel=1e-6)


@settings(max_examples=8, deadline=None)
@given(server=servers)
def test_drawn_curve_is_the_exact_one_within_two_per_cent(server):
    rates, ms = batching.curve_of(server)
    for k in range(1, len(rates), 23):
        assert ms[k] == pytest.approx(plain(server, rates[k]).mean_response * 1e3, rel=0.02)


@settings(max_examples=12, deadline=None)
@given(server=servers, factor=st.floats(1.01, 8))
def test_rate_within_a_target_meets_it(server, factor):
    target = factor * server.low_load_ms
    rate = server.rate_within(target)
    assert 0 < rate < server.ceiling
    assert server.response_ms(rate) == pytest.approx(target, rel=5e-3) or rate > 0.9994 * server.ceiling
    assert server.rate_within(server.low_load_ms) is None


@settings(max_examples=8, deadline=None)
@given(server=servers)
def test_no_rate_has_more_throughput_per_latency_than_the_knee(server):
    rate, ms = server.knee()
    for load in np.linspace(0.05, 0.95, 19):
        other = load * server.ceiling
        assert other / server.response_ms(other) <= rate / ms * 1.01


def test_knee_lies_at_half_of_the_last_ceiling_while_the_cap_is_far_away():
    for fixed, per_item in ((5, 0.5), (20, 0.25), (10, 0.5)):
        rate, ms = batching.Server(fixed, per_item, 128).knee()
        assert rate == pytest.approx(500 / per_item, rel=0.02)
        assert ms == pytest.approx(3 * fixed, rel=0.1)


def test_knee_of_batches_of_one_is_that_of_constant_service():
    """M/D/1: response S (2 - rho) / 2 (1 - rho), so throughput / response is largest at rho = 2 - sqrt(2)."""
    rate, ms = batching.Server(3, 2, 1).knee()
    assert [rate, ms] == pytest.approx([200 * (2 - math.sqrt(2)), 5 * (1 + math.sqrt(0.5))], rel=2e-3)


def test_low_load_latency_and_ceiling_are_limits_of_the_exact_model():
    s = batching.B
    assert plain(s, 1e-6).mean_response * 1e3 == pytest.approx(s.low_load_ms, rel=1e-4)
    with pytest.raises(ValueError, match="reaches the capacity"):
        plain(s, s.ceiling)


def test_lesson_says_what_the_functions_give():
    a, b = batching.A, batching.B
    assert a.rate_within(30) / b.rate_within(30) == pytest.approx(17, abs=0.5)
    assert b.ceiling / a.ceiling == pytest.approx(1.6, abs=0.05)
    assert b.rate_within(100) / a.rate_within(100) == pytest.approx(1.6, abs=0.05)
    assert a.rate_within(47) > b.rate_within(47) and a.rate_within(49) < b.rate_within(49)
    assert a.at(500).utilisation == pytest.approx(0.989, abs=5e-4)
    assert batching.largest_batch(20, *batching.fit(*batching.REPORTED)) == 175
    assert batching.largest_batch(5, 7, 0.1) == 0


def test_smallest_cap_keeps_the_promise_and_one_less_does_not():
    cap = batching.smallest_cap(1000, 50, 5, 0.5)
    kept = {row[0]: row[-1] for row in batching.which_batch().rows}
    assert cap == 12 and kept[12] == "yes" and kept[11] == "no" and kept[10] == "no"
    server = batching.Server(5, 0.5, 12)
    logs = [batching._batches(server, batching._unit_arrivals(300 + k, 20_000) / 1000) for k in range(8)]
    shares = [np.mean(log.response[2000:] <= 0.05) for log in logs]
    assert abs(z_of(shares, batching.share_within(server, 1000, 50))) < 4
    assert batching.smallest_cap(2500, 50, 5, 0.5, largest=40) is None
    assert batching.smallest_cap(1000, 5, 5, 0.5, largest=40) is None
    for wrong in (dict(share=99), dict(target_ms=0), dict(rate=-1), dict(fixed_ms=-5)):
        with pytest.raises(ValueError, match="="):
            batching.smallest_cap(**dict(rate=1000, target_ms=50, fixed_ms=5, per_item_ms=0.5) | wrong)
    with pytest.raises(ValueError, match="batch_1 and batch_2"):
        batching.fit(16, 8.24, 16, 9.42)


@pytest.mark.parametrize("rate", [10, 100])
def test_a_service_shorter_than_a_pixel_is_still_drawn(rate):
    """Every request in view has a blue bar that is at least a pixel long."""
    e = batching.timeline(rate=rate, cap=1, fixed=0.5, per_item=0.05)
    top = e._canvas._figure.axes[0]
    serves = top.collections[1].get_segments()
    assert len(serves) == 60
    assert min(s[1, 0] - s[0, 0] for s in serves) >= 0.0019 * top.get_xlim()[1]


def test_timeline_counts_its_batches():
    run = batching.timeline(rate=1000, cap=16).result
    sizes = np.unique(run.log.start, return_counts=True)[1]
    assert sizes.max() <= 16 and run.batch.covers(sizes.mean())
    assert run.response.covers(batching.Server(5, 0.5, 16).response_ms(1000))


def test_timeline_says_unstable_from_the_ceiling_on():
    assert "unstable" not in batching.timeline(rate=880, cap=8).alt
    assert "unstable" in batching.timeline(rate=889, cap=8).alt
    assert "no interval: load above 0.95" in batching.timeline(rate=880, cap=8).alt
    assert "longer by" in batching.timeline(rate=100, timeout=20).alt


def test_curve_names_the_better_server_at_the_target_not_by_the_ceiling():
    e = batching.curve()
    assert "Within the target: A carries 17 times as much as B; by their ceilings: B carries 1.6" in e.alt
    e.set(target=100)
    assert "Within the target: B carries 1.6 times as much as A" in e.alt
    assert "B cannot keep the target even when idle" in e.set(target=20).alt
    assert "A and B carry the same" in e.set(cap=32, fixed=5, per_item=0.5).alt


def test_marks_tell_how_far_off_the_reader_was():
    true = batching.true_marks()
    assert true["low_load"] == 12.8 and true["ceiling"] == pytest.approx(24 / 0.0312)
    assert [row[1] for row in batching.marks_table().rows] == ["none committed"] * 3
    progress.record_prediction("05.ceiling", 1.1 * true["ceiling"])
    progress.record_prediction("05.low_load", 12.8)
    assert [row[3] for row in batching.marks_table().rows] == ["+0.0%", "", "+10.0%"]
    assert "+10.0%" in batching.compare_marks().canvas.alt


def test_load_test_of_the_unknown_server_agrees_with_the_exact_curve():
    rates, measured = batching._measured()
    for rate, e in zip(rates[:-2], measured[:-2], strict=True):  # the last two are too near the ceiling
        exact = batching._UNKNOWN.response_ms(rate)
        assert abs(e.value - exact) < 2.5 * e.half_width


def test_exercise_answers_are_those_of_the_lesson():
    cases = json.loads((course.root() / "exercises" / "05_batching.json").read_text(encoding="utf-8"))["cases"]
    value = {case["q"]: case.get("value") for case in reversed(cases)}
    assert value["ceiling"] == pytest.approx(batching.A.ceiling)
    assert value["fit"] == pytest.approx(batching.fit(*batching.REPORTED))
    assert value["never_reached"] == pytest.approx(584.8, abs=0.05)
    assert replace(batching.A, cap=value["smallest_batch"]).ceiling > 1000
    assert replace(batching.A, cap=value["smallest_batch"] - 1).ceiling <= 1000
