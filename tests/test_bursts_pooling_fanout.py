"""Lesson 04: its claims, and its own functions against formulas, independent counts and other simulations."""

import math

import numpy as np
import pytest
from claims import Claims

from labsupport import bursts_pooling_fanout as lesson
from labsupport import course
from labsupport.queueing import simulate, statistics, theory, workload

claim = Claims("bursts_pooling_fanout")
SCVS = (0.25, 0.5, 1, 2, 4, 9)


def z(values, truth):
    """How many standard errors the mean of independent replications is away from the truth."""
    return (np.mean(values) - truth) / (np.std(values, ddof=1) / math.sqrt(len(values)))


def real_traces():
    names = ("azure_2023/AzureLLMInferenceTrace_code.csv", "azure_2023/AzureLLMInferenceTrace_conv.csv")
    for name in (*names, "mooncake_fast25/conversation_trace.jsonl"):
        if course.data(name) is None:
            pytest.skip(f"{name} is not here: set QLAB_DATA to the folder of the real traces, or run `qlab data`")
    return lesson.real_traces()


@claim("B1")
def gamma_arrivals(row):
    for scv, claimed in zip(SCVS, row.numbers, strict=True):
        assert theory.GM1(workload.gamma(1 / 0.7, scv), 1).mean_wait == pytest.approx(claimed, rel=1e-6)
        runs = np.concatenate([lesson.bursty_runs(scv, 0.7, seed)[1].mean(axis=1) for seed in (11, 12, 13)])
        assert abs(z(runs, claimed)) < 4


@claim("B2")
def approximation(row):
    ratios = [float(cells[4]) for cells in lesson.bursty_waits(scvs=SCVS).rows]
    assert ratios == row.numbers
    for scv in SCVS:  # the bound is one, also where the approximation is too low
        exact = theory.GM1(workload.gamma(1 / 0.7, scv), 1).mean_wait
        assert theory.kingman_bound(0.7, 1, scv, 1) > exact


@claim("B3")
def erlang(row):
    b, c, wait = row.numbers
    assert theory.erlang_b(8, 6.4) == pytest.approx(b, rel=1e-11)
    assert theory.erlang_c(8, 6.4) == pytest.approx(c, rel=1e-11)
    assert theory.MMc(6.4, 1, 8).mean_wait == pytest.approx(wait, rel=1e-11)


def textbook_erlang_c(servers, load):
    """The formula with powers and factorials."""
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(load**n / math.factorial(n) for n in range(servers)) + last)


@claim("B4")
def erlang_at_scale(row):
    for (servers, load), claimed in zip(((1000, 999.0), (10_000, 9990.0)), row.numbers, strict=True):
        assert theory.erlang_c(servers, load) == pytest.approx(claimed, rel=1e-11)
        with pytest.raises(OverflowError):
            textbook_erlang_c(servers, load)
    assert textbook_erlang_c(145, 0.9 * 145) == pytest.approx(theory.erlang_c(145, 0.9 * 145), rel=1e-9)
    with pytest.raises(OverflowError):
        textbook_erlang_c(146, 0.9 * 146)


@claim("B5")
def pooled_against_separate(row):
    shared, separate, ratio = row.numbers
    assert lesson.long_run_wait("shared", 8, 0.8) == pytest.approx(shared, rel=1e-5)
    assert lesson.long_run_wait("random", 8, 0.8) == pytest.approx(separate, rel=1e-12)
    assert round(separate / lesson.long_run_wait("shared", 8, 0.8)) == ratio


@claim("B6")
def two_servers(row):
    separate, shared, waits = row.numbers
    assert lesson.long_run_wait("random", 2, 0.9) == pytest.approx(separate, rel=1e-12)
    assert lesson.long_run_wait("shared", 2, 0.9) == pytest.approx(shared, rel=1e-6)
    assert theory.erlang_c(2, 1.8) == pytest.approx(waits, rel=1e-6)


@claim("B7")
def routing_order(row):
    waits = {policy: [] for policy in simulate.POLICIES}
    for seed in range(100, 112):
        for policy, log in lesson.routed_runs(8, 0.8, 1.0, seed, 8_000).items():
            waits[policy].append(log.wait[1_600:].mean())
    order = ("random", "round_robin", "power_of_two", "jsq", "shared")
    for worse, better in zip(order, order[1:], strict=False):
        assert z(np.subtract(waits[better], waits[worse]), 0) < -4, f"{better} is not better than {worse}"
    for policy in ("random", "round_robin", "shared"):
        assert abs(z(waits[policy], lesson.long_run_wait(policy, 8, 0.8))) < 4


@claim("B8")
def any_task_late(row):
    assert [theory.fan_out_probability(k, 0.01) for k in (10, 100)] == pytest.approx(row.numbers, rel=1e-5)
    assert lesson.fan_out(tasks=10).result.over == pytest.approx(row.numbers[0], rel=1e-5)


@claim("B9")
def median_of_hundred(row):
    task = lesson.Task(10.0)
    assert round(task.quantile(0.5, 100), 2) == row.numbers[0] > task.quantile(0.99)
    assert (task.quantile(0.5), task.quantile(0.99)) == pytest.approx((10, 100), rel=1e-9)


@claim("B10")
def tasks_for_half(row):
    assert theory.fan_out_tasks(0.001, 0.5) == row.numbers[0]
    assert theory.fan_out_probability(693, 0.001) >= 0.5 > theory.fan_out_probability(692, 0.001)


@claim("B11")
def diminishing_returns(row):
    rows = lesson.adding_servers().rows
    assert [cells[0] for cells in rows] == list(range(7, 17))
    for servers, _, waits, wait, _ in rows:
        assert waits == pytest.approx(textbook_erlang_c(servers, 6.4), rel=1e-12)
        assert wait == pytest.approx(waits / (servers - 6.4), rel=1e-12)
    saved = [cells[4] for cells in rows[1:]]
    assert all(first > second > 0 for first, second in zip(saved, saved[1:], strict=False))


@claim("B12")
def real_arrivals(row):
    traces = real_traces()
    code_scv, window, code_idc, chat_scv, _, chat_idc = row.numbers
    found = [
        (statistics.scv(trace.gaps), statistics.index_of_dispersion(trace.arrival, window))
        for trace in (traces.code, traces.conversation)
    ]
    assert found == [pytest.approx((code_scv, code_idc), rel=0.05), pytest.approx((chat_scv, chat_idc), rel=0.05)]


test_claim = claim.test()


# -- pooling ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scv", [0.0, 1.0, 10.0])
def test_formulas_of_the_routings_agree_with_simulation(scv):
    waits = {policy: [] for policy in simulate.POLICIES}
    for seed in range(200, 230):
        for policy, log in lesson.routed_runs(3, 0.6, scv, seed, 3_000).items():
            waits[policy].append(log.wait[600:].mean())
    exact = {policy: lesson.long_run_wait(policy, 3, 0.6, scv) for policy in waits}
    known = [policy for policy, wait in exact.items() if wait is not None]
    assert known == (["random"] if scv == 10 else ["random", "round_robin", "shared"])
    for policy in known:
        assert abs(z(waits[policy], exact[policy])) < 4, policy


def test_with_constant_service_round_robin_is_the_shared_queue():
    logs = lesson.routed_runs(5, 0.9, 0.0, 1, 2_000)
    assert np.allclose(logs["round_robin"].wait, logs["shared"].wait, atol=1e-9)


def test_one_server_needs_no_routing():
    logs = lesson.routed_runs(1, 0.7, 1.0, 1, 500)
    assert all(np.allclose(log.wait, logs["shared"].wait, atol=1e-9) for log in logs.values())
    assert lesson.long_run_wait("jsq", 1, 0.5, 4.0) == theory.MG1(0.5, 1, 4.0).mean_wait


def test_idle_while_waiting_counts_what_a_fine_grid_counts():
    log = lesson.routed_runs(4, 0.7, 1.0, 3, 400)["random"]
    t = np.linspace(log.arrival[0], log.finish.max(), 400_001)[:-1]
    waiting = np.searchsorted(log.arrival, t, "right") - np.searchsorted(np.sort(log.start), t, "right")
    busy = log.in_system(t) - waiting
    by_grid = np.mean((waiting > 0) & (busy < 4))
    assert statistics.idle_while_waiting(log, 4) == pytest.approx(by_grid, abs=1e-3)
    assert statistics.idle_while_waiting(log, 4, 10, 20) != statistics.idle_while_waiting(log, 4)


def test_shared_queue_wastes_nothing_and_a_window_without_length_is_refused():
    logs = lesson.routed_runs(4, 0.9, 1.0, 3, 2_000)
    assert statistics.idle_while_waiting(logs["shared"], 4) == 0 < statistics.idle_while_waiting(logs["jsq"], 4)
    with pytest.raises(ValueError, match="give t0 < t1 in seconds"):
        statistics.idle_while_waiting(logs["jsq"], 4, 5, 5)
    with pytest.raises(ValueError, match="holds no request"):
        statistics.idle_while_waiting(logs["jsq"].between(0, 0), 4)


def test_pooling_explorer_says_when_its_run_is_too_short():
    assert "too short" not in lesson.pooling(utilisation=0.6).alt
    assert "too short" in lesson.pooling(utilisation=0.95).alt
    assert "is idle never" in lesson.pooling(routing="shared").alt


@pytest.mark.parametrize("p", [0.99, 0.9, None])
def test_servers_needed_are_enough_and_one_fewer_is_not(p):
    rate, service, target = 40, 0.15, 0.4
    needed = lesson.servers_needed(rate, service, target, p)

    def wait(queue):
        return queue.mean_wait if p is None else queue.wait_quantile(p)

    queues = {
        "shared": lambda n: theory.MMc(rate, service, n),
        "round_robin": lambda n: theory.GM1(workload.gamma(n / rate, 1 / n), service),
        "random": lambda n: theory.MM1(rate / n, service),
    }
    assert list(needed) == list(queues) and sorted(needed.values()) == list(needed.values())
    for name, queue in queues.items():
        n = needed[name]
        assert wait(queue(n)) <= target * (1 + 1e-9)
        assert (n - 1) <= rate * service or wait(queue(n - 1)) > target


# -- bursts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scv", [0.1, 1.0, 16.0])
def test_interpolated_gaps_follow_the_gamma_law(scv):
    u = np.random.default_rng([4, 2]).random((lesson._RUNS, lesson._REQUESTS))[:2]
    gaps, exact = lesson._unit_gaps(scv, 2)[:2], workload.gamma(1, scv).ppf(u)
    assert abs(gaps - exact).max() < 0.02 * exact.max()
    assert gaps.mean() == pytest.approx(exact.mean(), rel=1e-3)
    assert gaps.var() == pytest.approx(exact.var(), rel=1e-3)


def test_runs_begin_in_the_steady_state():
    """The first waits alone, over many runs, have the long-run mean."""
    first = np.concatenate([lesson.bursty_runs(4.0, 0.7, seed)[1][:, 0] for seed in range(20, 40)])
    assert abs(z(first, theory.GM1(workload.gamma(1 / 0.7, 4.0), 1).mean_wait)) < 4


def conclusions(traces):
    """What the lesson says about the traces, the stand-ins included."""
    chat, shuffled, code, cut, ticks, moved = lesson.replays(traces, replications=5)
    assert shuffled.scv == pytest.approx(chat.scv, rel=1e-9)
    assert chat.wait.value > 2.5 * chat.forecast and shuffled.wait.value == pytest.approx(shuffled.forecast, rel=0.1)
    assert chat.dispersion > 8 * shuffled.dispersion
    assert cut.scv < code.scv / 10 and cut.wait.value == pytest.approx(code.wait.value, rel=1e-9)
    assert ticks.scv > 8 * moved.scv and ticks.wait.value > 2 * moved.wait.value


def test_what_the_scv_misses_in_the_real_traces():
    traces = real_traces()
    conclusions(traces)
    assert "SYNTHETIC" not in str(lesson.what_scv_misses(traces, replications=2))


def test_no_wait_changes_where_the_silences_of_the_code_trace_are_cut():
    trace = real_traces().code
    service = workload.exponential(0.1 / trace.rate).sample(np.random.default_rng(1), len(trace))
    cut = lesson._cut_silences(trace, 5.0)
    assert np.allclose(simulate.fcfs(trace.arrival, service).wait, simulate.fcfs(cut, service).wait, atol=1e-8)


def test_lesson_runs_without_the_real_files(monkeypatch):
    monkeypatch.setattr(course, "data", lambda name: None)
    traces = lesson.real_traces()
    assert all("SYNTHETIC" in trace.name for trace in traces)
    named = "SYNTHETIC STAND-IN for conversation, code, Mooncake"
    assert lesson.what_scv_misses(traces, replications=2).caption.startswith(named)
    conclusions(traces)
    assert named in lesson.dispersion(traces).canvas.alt


# -- fan-out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("hedge", [None, 0.5, 0.95])
def test_hedged_task_agrees_with_draws(hedge):
    task, rng, n = lesson.Task(10.0, hedge), np.random.default_rng(5), 200_000
    latency, copied = simulate.hedged_latency(task.law.sample(rng, n), task.law.sample(rng, n), min(task.delay_ms, 1e9))
    for t in (5.0, 20.0, 60.0, 150.0):
        p = float(task.tail(t))
        assert abs(np.mean(latency > t) - p) < 4 * math.sqrt(p * (1 - p) / n)
    if hedge:
        assert abs(copied.mean() - (1 - hedge)) < 4 * math.sqrt(hedge * (1 - hedge) / n)


@pytest.mark.parametrize("tasks", [1, 7, 1000])
@pytest.mark.parametrize("hedge", [None, 0.8])
def test_quantile_of_a_request_is_where_its_tasks_are_all_done(tasks, hedge):
    task = lesson.Task(5.0, hedge)
    for p in (0.5, 0.99):
        assert (1 - task.tail(task.quantile(p, tasks))) ** tasks == pytest.approx(p, rel=1e-6)


def test_hedging_tips_over_where_both_copies_run_at_high_load():
    rows = lesson.hedging(loads=(0.2, 0.8), replications=4, n=8_000).rows
    light, heavy = ([row[2] for row in rows if row[0] == load] for load in ("20%", "80%"))
    assert "†" not in "".join(light)
    assert ["†" in cell for cell in heavy] == [False, False, True, False]
    none, called_off, both_run, as_long = (float(cell.split()[0]) for cell in light)
    assert called_off < both_run < as_long < none
