"""Engines with continuous batching, against a token-by-token implementation, queues with known answers, and bounds."""

import math
from dataclasses import replace

import numpy as np
import pytest
import token_by_token
from hypothesis import given, settings
from hypothesis import strategies as st

from labsupport.queueing import RequestLog, simulate, workload
from labsupport.queueing.admission import Admission
from labsupport.queueing.engine import Engine, Pool, Split, run, serve
from labsupport.queueing.slo import attainment
from labsupport.queueing.statistics import time_average_in_system

# About what an 8B model does on one GPU: a step of 7.06 + 0.074 b ms, 46,000 prompt tokens per second.
GPU = Engine(step_s=7.06e-3, per_sequence_s=7.4e-5, prefill_s=2e-3, per_prompt_token_s=2.15e-5)


def requests(n, seed=1, prompt=300, output=60, longest=3000):
    """Times in units of the mean interarrival time, prompt tokens, output tokens."""
    rng = np.random.default_rng(seed)
    times = workload.poisson(rng, 1, n)
    lengths = [workload.lognormal_from_median(m, 0.9).sample(rng, n) for m in (prompt, output)]
    return times, *(np.clip(np.round(x), 1, longest).astype(int) for x in lengths)


def check_against_tokens(arrival, prompt, output, system, **options):
    ours = run(arrival, prompt, output, system, **options)
    theirs = token_by_token.serve(arrival, prompt, output, system, **options)
    log = ours.log
    assert ours.engine.tolist() == [r.engine for r in theirs]
    assert ours.preemptions.tolist() == [r.preemptions for r in theirs]
    gaps = []
    for i, request in enumerate(theirs):
        if request.engine < 0:
            assert not log.ok[i] and log.finish[i] == arrival[i] and math.isinf(log.first_token[i])
            assert log.output_tokens[i] == log.longest_gap[i] == 0
            continue
        times = (log.start[i], log.first_token[i], log.finish[i])
        assert times == pytest.approx((request.start, request.tokens[0], request.tokens[-1]), abs=1e-9, rel=0)
        assert log.longest_gap[i] == pytest.approx(max(np.diff(request.tokens), default=0), abs=1e-9, rel=0)
        gaps.extend(np.diff(request.tokens))
    gap_s, count = ours.gaps()
    assert (count > 0).all()
    np.testing.assert_allclose(np.sort(np.repeat(gap_s, count)), np.sort(gaps), rtol=0, atol=1e-9)
    return ours


# --- the same as token by token ------------------------------------------------------------------------------

# Times are multiples of 1/4096 s, so sums of them are exact and events do coincide.


def ticks(low, high, per_s=1024):
    return st.integers(low, high).map(lambda k: k / per_s)


@st.composite
def loads(draw, most=30):
    n = draw(st.integers(0, most))
    row = lambda numbers: np.array(draw(st.lists(numbers, min_size=n, max_size=n)), int)  # noqa: E731
    arrival = np.sort(row(st.integers(0, draw(st.sampled_from([50, 500, 3000]))))) / 64
    prompt = row(st.integers(1, draw(st.sampled_from([3, 40]))))
    output = row(st.integers(1, draw(st.sampled_from([2, 15, 40]))))
    return arrival, prompt, output


@st.composite
def engines(draw, load, **fixed):
    _, prompt, output = load
    largest = int((prompt + output).max(initial=2))
    slots = draw(st.integers(1, 8))
    engine = Engine(
        step_s=draw(ticks(1, 50)),
        per_sequence_s=draw(ticks(0, 5)),
        per_context_token_s=draw(st.sampled_from([0, 1 / 4096])),
        prefill_s=draw(ticks(0, 50)),
        per_prompt_token_s=draw(ticks(0, 5)),
        slots=slots,
        kv_tokens=draw(st.sampled_from([math.inf, largest, largest + 3, 2 * largest, 3 * largest + 1])),
        kv_policy=draw(st.sampled_from(["preempt", "reserve"])),
        chunk_tokens=draw(st.sampled_from([None, 1, 3, 10, 1000])),
        token_budget=draw(st.sampled_from([None, slots, slots + 7, slots + 20])),
        order=draw(st.sampled_from(["fcfs", "shortest_prompt"])),
    )
    return replace(engine, **fixed)


@st.composite
def pools(draw, load):
    engine = draw(engines(load))
    if draw(st.booleans()):
        return engine
    return Pool(
        engine, draw(st.integers(1, 4)), draw(st.sampled_from(["round_robin", "random", "least_loaded"]))
    )


@st.composite
def systems(draw, load):
    if draw(st.integers(0, 2)):
        return draw(pools(load))
    return Split(draw(pools(load)), draw(pools(load)), draw(ticks(0, 50)), draw(ticks(0, 5)))


DOORS = st.none() | st.builds(
    Admission,
    max_waiting=st.sampled_from([1, 2, 5, math.inf]),
    max_kv_share=st.sampled_from([0.5, 0.9, math.inf]),
    max_p99_ttft_s=st.sampled_from([0.25, 1, math.inf]),
    recent_s=st.sampled_from([0.5, 2, 10]),
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_is_what_single_steps_and_tokens_give(data):
    load = data.draw(loads())
    n = len(load[0])
    masks = st.none() | st.lists(st.booleans(), min_size=n, max_size=n).map(lambda x: np.array(x, bool))
    check_against_tokens(
        *load,
        data.draw(systems(load)),
        u=np.array(data.draw(st.lists(ticks(0, 1023), min_size=n, max_size=n))),
        admission=data.draw(DOORS),
        admitted=data.draw(masks),
    )


TIGHT = dict(kv_tokens=8000, per_context_token_s=1.3e-7)


@pytest.mark.parametrize(
    "system, load, admission",
    [
        (replace(GPU, per_context_token_s=1.3e-7), 0.9, None),
        (replace(GPU, **TIGHT), 1.5, None),
        (replace(GPU, **TIGHT, kv_policy="reserve", order="shortest_prompt"), 1, None),
        (replace(GPU, **TIGHT, chunk_tokens=200), 1, None),
        (replace(GPU, chunk_tokens=300, token_budget=256, slots=32, order="shortest_prompt"), 1.2, None),
        (Pool(replace(GPU, **TIGHT), 3, "least_loaded"), 2.5, Admission(20, 0.97, 1.5)),
        (Split(GPU, Pool(replace(GPU, **TIGHT), 2), 5e-3, 1e-6), 1.5, None),
    ],
)
def test_long_runs_stay_within_a_nanosecond(system, load, admission):
    times, prompt, output = requests(500)
    result = check_against_tokens(
        times / (load * GPU.capacity(prompt, output)), prompt, output, system, admission=admission
    )
    assert (result.engine >= 0).sum() > 100
    if system == replace(GPU, **TIGHT):
        assert result.preemptions.max() > 1


def test_compiled_engines_give_the_same_bits(monkeypatch):
    pytest.importorskip("numba", reason="numba is not installed: nothing is compiled")
    times, prompt, output = requests(400)
    arrival = times / (3 * GPU.capacity(prompt, output))
    system = Pool(replace(GPU, **TIGHT, chunk_tokens=200, order="shortest_prompt"), 2, "least_loaded")
    plain = run(arrival, prompt, output, system, admission=Admission(50, 0.99, 5))
    monkeypatch.setattr(simulate, "_COMPILE_ABOVE", 100)
    monkeypatch.delenv("QLAB_NUMBA", raising=False)
    compiled = run(arrival, prompt, output, system, admission=Admission(50, 0.99, 5))
    assert simulate._compiled.cache_info().currsize
    assert compiled.preemptions.any() and not plain.log.ok.all()
    for name in ("start", "first_token", "finish", "longest_gap", "ok"):
        assert np.array_equal(getattr(plain.log, name), getattr(compiled.log, name)), name
    assert np.array_equal(plain.stretches, compiled.stretches)
    assert np.array_equal(plain.engine, compiled.engine)


# --- queues with known answers -------------------------------------------------------------------------------


def test_prompts_alone_are_one_fcfs_queue():
    times, prompt, _ = requests(3000)
    work = GPU.prefill_s + GPU.per_prompt_token_s * prompt
    arrival = times * work.mean() / 0.9
    log = serve(arrival, prompt, 1, GPU)
    queue = simulate.fcfs(arrival, work)
    np.testing.assert_allclose(log.start, queue.start, rtol=0, atol=1e-9)
    np.testing.assert_allclose(log.first_token, queue.finish, rtol=0, atol=1e-9)
    assert np.array_equal(log.finish, log.first_token)

    u = np.random.default_rng(2).random(3000)
    for router in ("round_robin", "random"):
        log = serve(arrival / 3, prompt, 1, Pool(GPU, 3, router), u=u)
        queue = simulate.routed(arrival / 3, work, 3, router, u)
        np.testing.assert_allclose(log.finish, queue.finish, rtol=0, atol=1e-9)


@pytest.mark.parametrize("chunk", [None, 10**6])
def test_one_slot_is_one_fcfs_queue(chunk):
    times, prompt, output = requests(2000)
    engine = replace(GPU, slots=1, chunk_tokens=chunk)
    work = engine.prefill_s + engine.per_prompt_token_s * prompt + (output - 1) * engine.step_time(1)
    assert engine.capacity(prompt, output) == pytest.approx(1 / work.mean())
    arrival = times * work.mean() / 0.8
    np.testing.assert_allclose(
        serve(arrival, prompt, output, engine).finish, simulate.fcfs(arrival, work).finish, rtol=0, atol=1e-9
    )


def test_short_steps_that_cost_by_the_sequence_share_the_processor():
    times, _, output = requests(400)
    arrival, errors = times / 0.8, []
    for finer in (1, 8):
        engine = Engine(step_s=0, per_sequence_s=1 / (output.mean() * finer), slots=400)
        log = serve(arrival, 1, output * finer + 1, engine)
        sharing = simulate.processor_sharing(arrival, output / output.mean())
        errors.append(np.abs(log.finish - sharing.finish).max())
    assert errors[1] < errors[0] / 4 < 0.1


@pytest.mark.parametrize(
    "changes", [{}, dict(per_context_token_s=1e-6), dict(chunk_tokens=1000, prefill_s=0)]
)
def test_a_full_engine_works_at_its_capacity(changes):
    engine = replace(GPU, **changes)
    _, prompt, output = requests(5000)
    output = np.minimum(output, 200)
    log = serve(np.zeros(5000), prompt, output, engine)
    # Longer than at capacity only because the last requests leave slots empty.
    assert 1 <= log.finish.max() * engine.capacity(prompt, output) / 5000 < 1.03


def long_stream(rate, seed):
    """The gaps of one long answer, 15 ms a token, while prompts of half a second each come at `rate`."""
    engine = Engine(step_s=0.015, per_prompt_token_s=0.5e-3)
    steps = 40_000
    arrival = np.append(0, workload.poisson(np.random.default_rng(seed), rate, 2000))
    output = np.append(steps + 1, np.ones(2000, int))
    result = run(arrival, np.append(1, np.full(2000, 1000)), output, engine)
    assert arrival[-1] > result.log.finish[0]  # the prompts come until the end
    return result, steps


@pytest.mark.parametrize("rate, p99", [(1.0, 0.515), (0.5, 0.015)])
def test_whole_prompts_freeze_decoding(rate, p99):
    # Case c19. Prompts are read until none waits; so a gap is hit if one arrived within the step before it.
    result, steps = long_stream(rate, seed=3)
    gap_s, count = result.gaps()
    assert count.sum() == steps
    hit = count[gap_s > 0.1].sum()
    share = -math.expm1(-rate * 0.015)
    assert abs(hit - steps * share) < 4 * math.sqrt(steps * share * (1 - share))
    assert result.gap_quantile(0.99) >= p99 - 1e-9
    assert result.gap_quantile(0.99) < p99 + (0.001 if rate == 0.5 else math.inf)
    assert result.log.longest_gap[0] > 1  # two prompts in a row
    assert result.gap_quantile(1) == pytest.approx(result.log.longest_gap[0])


def test_a_long_prompt_stalls_decoding_on_a_shared_engine_and_not_on_its_own():
    # Claim A5: two engines either way, the same requests.
    times, prompt, output = requests(4000, prompt=1000, output=130, longest=20_000)
    arrival = times / (2 * 0.7 * GPU.capacity(prompt, output))
    shared = serve(arrival, prompt, output, Pool(GPU, 2))
    chunked = serve(arrival, prompt, output, Pool(replace(GPU, chunk_tokens=512), 2))
    split = serve(arrival, prompt, output, Split(GPU, GPU, transfer_s=0.005, transfer_per_token_s=1e-6))
    longest_prompt = GPU.step_time(0, 0, prompt.max())
    assert shared.longest_gap.max() > longest_prompt
    assert split.longest_gap.max() < longest_prompt / 4
    assert chunked.longest_gap.max() <= GPU.step_time(64, 0, 512) + 1e-9
    assert np.median(shared.longest_gap) > 3 * np.median(split.longest_gap)
    assert np.quantile(shared.ttft, 0.99) < np.quantile(chunked.ttft, 0.99)  # what chunks cost


# --- what holds for all inputs -------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_books_balance(data):
    load = data.draw(loads(60))
    arrival, prompt, output = load
    engine = data.draw(engines(load))
    result = run(*load, engine)
    log, rows = result.log, result.stretches
    assert np.isfinite(log.finish).all() and log.ok is None
    assert result.gaps()[1].sum() == (output - 1).sum()  # every token was written, once
    assert (rows["sequences"] <= engine.slots).all() and (rows["stall_s"] >= 0).all()
    grown = rows["sequences"] * rows["steps"] if engine.kv_policy == "preempt" else 0
    assert (rows["kv_tokens"] + grown <= engine.kv_tokens).all()
    if engine.order == "fcfs":
        assert (np.diff(log.start) >= 0).all() and (np.diff(log.first_token) >= 0).all()
    if not result.preemptions.any():
        # The number of sequences summed over time is the time that requests spent after their first tokens.
        later = rows["steps"] - 1
        spans = rows["steps"] * rows["step_s"] + rows["growth_s"] * (rows["steps"] * later / 2)
        gaps, count = result.gaps()
        assert (gaps * count).sum() == pytest.approx((log.finish - log.first_token).sum())
        assert (rows["sequences"] * spans).sum() <= (log.finish - log.first_token).sum() + 1e-9
    if engine.kv_policy == "reserve" or engine.kv_tokens == math.inf:
        assert not result.preemptions.any()
    if len(log) and log.finish.max() > arrival[0]:
        inside = time_average_in_system(log, arrival[0], log.finish.max())
        assert inside * (log.finish.max() - arrival[0]) == pytest.approx(log.response.sum())


def same(one, other):
    for name in ("start", "first_token", "finish", "longest_gap"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=1e-9, err_msg=name)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_limits_that_do_not_bind_change_nothing(data):
    load = data.draw(loads())
    _, prompt, output = load
    engine = data.draw(engines(load, kv_tokens=math.inf))
    plain = serve(*load, engine)
    enough = int((prompt + output).sum()) + 2
    for policy in ("preempt", "reserve"):
        same(plain, serve(*load, replace(engine, kv_tokens=enough, kv_policy=policy)))
    same(plain, serve(*load, Pool(engine, 1, "least_loaded")))
    same(plain, serve(*load, engine, admission=Admission()))
    whole = replace(engine, chunk_tokens=None, token_budget=None)
    same(serve(*load, replace(whole, slots=1)), serve(*load, replace(whole, slots=1, chunk_tokens=10**6)))
    if len(prompt):
        alike = (load[0], np.full_like(prompt, 5), output)
        same(
            serve(*alike, replace(engine, order="fcfs")),
            serve(*alike, replace(engine, order="shortest_prompt")),
        )


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_engines_behind_a_router_are_engines(data):
    load = data.draw(loads())
    engine = data.draw(engines(load))
    log = serve(*load, Pool(engine, 3, "round_robin"))
    for e in range(3):
        mine = serve(*(column[e::3] for column in load), engine)
        assert np.array_equal(mine.finish, log.finish[e::3])
        assert np.array_equal(mine.longest_gap, log.longest_gap[e::3])
    u = np.random.default_rng(len(load[0])).random(len(load[0]))
    result = run(*load, Pool(engine, 4, "random"), u=u)
    assert result.engine.tolist() == np.floor(4 * u).tolist()


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_prefill_and_decode_apart(data):
    load = data.draw(loads())
    arrival, prompt, output = load
    engine = data.draw(engines(load, kv_tokens=math.inf))
    transfer, per_token = data.draw(ticks(0, 50)), data.draw(ticks(0, 5))
    split = Split(
        engine, replace(engine, slots=40, token_budget=None, per_context_token_s=0), transfer, per_token
    )
    log = serve(*load, split)
    same(serve(arrival, prompt, 1, engine), serve(arrival, prompt, 1, split))
    assert np.array_equal(log.first_token, serve(arrival, prompt, 1, engine).first_token)
    # Without queues for a slot a gap is at most a transfer, the rest of one step, and one step.
    longest = np.maximum(transfer + per_token * prompt, 0) + 2 * split.decode.step_time(len(prompt))
    assert (log.longest_gap <= longest + 1e-9).all()
    # Requests that never meet notice no difference where the transfer is free.
    alone = (10_000.0 * np.arange(len(prompt)), prompt, output)
    same(serve(*alone, engine), serve(*alone, Split(engine, engine)))
    later = serve(*alone, Split(engine, engine, transfer, per_token)).finish - serve(*alone, engine).finish
    np.testing.assert_allclose(later, (transfer + per_token * prompt) * (output > 1), rtol=0, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_chunks_bound_the_gap(data):
    load = data.draw(loads())
    chunk = data.draw(st.integers(1, 20))
    engine = data.draw(
        engines(load, chunk_tokens=chunk, token_budget=None, kv_tokens=math.inf, per_context_token_s=0)
    )
    assert (serve(*load, engine).longest_gap <= engine.step_time(engine.slots, 0, chunk) + 1e-9).all()


def test_a_tight_budget_throws_out_or_lets_wait():
    times, prompt, output = requests(2000)
    arrival = times / (0.9 * GPU.capacity(prompt, output))
    results = {
        policy: run(arrival, prompt, output, replace(GPU, kv_tokens=8000, kv_policy=policy))
        for policy in ("preempt", "reserve")
    }
    busy = {
        name: np.average(r.stretches["sequences"], weights=r.stretches["steps"])
        for name, r in results.items()
    }
    assert results["preempt"].preemptions.any() and not results["reserve"].preemptions.any()
    assert busy["preempt"] > busy["reserve"]  # who reserves room for tokens to come leaves it empty meanwhile
    thrown = results["preempt"].preemptions > 0
    gaps = results["preempt"].log.longest_gap
    assert np.median(gaps[thrown]) > np.median(gaps[~thrown])


def test_shortest_prompt_first_helps_the_median_and_hurts_the_longest():
    times, prompt, output = requests(3000)
    arrival = times / (1.1 * GPU.capacity(prompt, output))
    fcfs, shortest = (
        serve(arrival, prompt, output, replace(GPU, order=o)) for o in ("fcfs", "shortest_prompt")
    )
    assert np.median(shortest.ttft) < np.median(fcfs.ttft) / 3
    assert shortest.ttft[prompt > np.quantile(prompt, 0.95)].mean() > fcfs.ttft.mean()


# --- the log and its reading ---------------------------------------------------------------------------------


def test_the_log_knows_the_longest_gap():
    times, prompt, output = requests(50)
    log = serve(times, prompt, output, GPU)
    assert isinstance(log, RequestLog)
    assert (log.longest_gap[output > 1] >= log.tpot[output > 1] - 1e-12).all()
    assert (log.longest_gap[output == 1] == 0).all()
    part = log.between(times[10], times[20])
    assert np.array_equal(part.longest_gap, log.longest_gap[10:20])
    with pytest.raises(ValueError, match="'longest_gap' has -1 s in row 1; give 0 or more"):
        RequestLog([0, 1], [0, 1], [1, 2], longest_gap=[0.5, -1])
    assert 0 <= attainment(log, {"ttft": 0.1, "tpot": 0.01}).value <= 1


def test_prints_and_small_cases():
    result = run([0.0], [10], [3], GPU)
    assert "1 requests" in repr(result) and "stretches" in repr(result)
    assert math.isnan(run([0.0], 10, 1, GPU).gap_quantile(0.5))
    assert len(serve([], 10, 10, GPU)) == 0
    assert len(serve([], [], [], Split(GPU, Pool(GPU, 2, "least_loaded")))) == 0
    assert GPU.step_time(0) == 0
    assert GPU.step_time(32) == pytest.approx(9.428e-3)
    assert result.stretches["step_s"] == pytest.approx(GPU.step_time(1))


# --- what is refused -----------------------------------------------------------------------------------------

OK = ([0.0, 1.0], [5, 5], [5, 5])


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: Engine(step_s="fast"), TypeError, "step_s must be a number of seconds, not 'fast'"),
        (lambda: Engine(step_s=-1), ValueError, "step_s = -1 must be finite and 0 or more"),
        (lambda: Engine(step_s=0), ValueError, "step_s and per_sequence_s are both 0"),
        (lambda: replace(GPU, slots=0), ValueError, "slots = 0 must be a whole number of at least 1"),
        (
            lambda: replace(GPU, kv_tokens=1.5),
            ValueError,
            "kv_tokens = 1.5 must be .*; math.inf means no limit",
        ),
        (
            lambda: replace(GPU, chunk_tokens=0),
            ValueError,
            "chunk_tokens = 0 must be .*None reads whole prompts",
        ),
        (lambda: replace(GPU, token_budget=63), ValueError, "token_budget = 63 must be .* at least 64"),
        (
            lambda: replace(GPU, kv_policy="swap"),
            ValueError,
            "kv_policy is 'swap'; choose from preempt, reserve",
        ),
        (
            lambda: replace(GPU, order="lifo"),
            ValueError,
            "order is 'lifo'; choose from fcfs, shortest_prompt",
        ),
        (lambda: Pool(GPU, 0), ValueError, "engines = 0 must be"),
        (lambda: Pool("gpu", 2), TypeError, "engine must be an Engine, not 'gpu'"),
        (
            lambda: Pool(GPU, 2, "jsq"),
            ValueError,
            "router is 'jsq'; choose from round_robin, random, least_loaded",
        ),
        (lambda: Split(GPU, None), TypeError, "decode must be an Engine or a Pool, not None"),
        (lambda: Split(GPU, GPU, -1), ValueError, "transfer_s = -1 must be finite and 0 or more"),
        (lambda: serve(*OK, "gpu"), TypeError, "system must be an Engine, a Pool or a Split, not 'gpu'"),
        (lambda: serve([1.0, 0.0], 5, 5, GPU), ValueError, "arrival is not sorted at row 1"),
        (lambda: serve([0.0, 1.0], [5, 0], 5, GPU), ValueError, "prompt_tokens holds 0 in row 1; give whole"),
        (
            lambda: serve([0.0, 1.0], 5, [5, 2.5], GPU),
            ValueError,
            "output_tokens holds 2.5 in row 1; give whole",
        ),
        (
            lambda: serve([0.0, 1.0], 5, np.nan, GPU),
            ValueError,
            "output_tokens holds nan in row 0; give whole",
        ),
        (lambda: serve([0.0, 1.0], "ab", 5, GPU), TypeError, "prompt_tokens must hold numbers, not 'ab'"),
        (lambda: serve([0.0, 1.0], [5] * 3, 5, GPU), ValueError, r"shapes \(3,\) and \(\); .* the 2 rows"),
        (
            lambda: serve(*OK, replace(GPU, kv_tokens=9)),
            ValueError,
            "kv_tokens = 9 has no room for the 10 tokens",
        ),
        (lambda: serve(*OK, Split(GPU, replace(GPU, kv_tokens=9))), ValueError, "no room .* of row 0; give"),
        (lambda: serve(*OK, Pool(GPU, 2, "random")), ValueError, "router 'random' chooses at random; give u"),
        (lambda: serve(*OK, GPU, u=[0.5]), ValueError, "u must hold uniform numbers"),
        (lambda: serve(*OK, GPU, admission=[True, False]), TypeError, "give a mask as admitted="),
        (lambda: serve(*OK, GPU, admitted=[True]), ValueError, "admitted must hold 2 times True or False"),
        (lambda: run(*OK, GPU).gap_quantile(99), ValueError, "p is 99; give a share"),
        (lambda: GPU.capacity([], []), ValueError, "prompt_tokens is empty"),
        (lambda: GPU.capacity([1, 2], [1, 2, 3]), ValueError, "give columns of the same length"),
    ],
)
def test_refuses_in_one_sentence(make, error, words):
    with pytest.raises(error, match=words) as caught:
        make()
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
