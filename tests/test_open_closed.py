"""Lesson 07: its claims, its loops against exact theory, and its real run where the extra `load` is installed."""

import importlib.util
import os

import numpy as np
import pytest
from claims import Claims
from hypothesis import given, settings
from hypothesis import strategies as st

from labsupport import open_closed
from labsupport.lab.table import plus_minus
from labsupport.loadtest import server_process
from labsupport.queueing import simulate, theory
from labsupport.queueing.statistics import Estimate

claim = Claims("open_closed")


def z_score(values, truth):
    values = np.asarray(values)
    return (values.mean() - truth) / (values.std(ddof=1) / np.sqrt(len(values)))


def many(users, think, runs=60, n=600):
    return [open_closed.closed_run(users, think, 11, run, n) for run in range(runs)]


@claim("O1")
def open_at_99_percent(row):
    shown = open_closed.two_loops(users=100, share=0.99).result
    assert shown.open_exact == pytest.approx(row.numbers[0], rel=1e-9)
    # A run of 1,000 that starts empty shows far less, as the note says.
    rng = np.random.default_rng(0)
    gaps, service = rng.exponential(1 / 0.99, (40, 1000)), rng.exponential(1, (40, 1000))
    runs = [simulate.fcfs(np.cumsum(g), s).response.mean() for g, s in zip(gaps, service, strict=True)]
    assert np.mean(runs) + 4 * np.std(runs) / np.sqrt(40) < row.numbers[0] / 2


@claim("O2", "O3")
def throughput_and_response(row):
    users = {"O2": 100, "O3": 12}[row.id]
    shown = open_closed.two_loops(users=users, think=9.0).result
    expected_x, expected_r = row.numbers[:2]
    assert shown.closed.throughput == pytest.approx(expected_x, rel=1e-10)
    assert shown.closed.mean_response == pytest.approx(expected_r, rel=1e-10)
    logs = many(users, 9.0)
    assert abs(z_score([open_closed.throughput(log) for log in logs], expected_x)) < 4
    assert abs(z_score([log.response.mean() for log in logs], expected_r)) < 4
    if row.id == "O3":
        assert shown.open_exact == pytest.approx(12.04, abs=0.005)  # the note's "open at the same rate"


@claim("O4", "O5")
def interactive_law(row):
    users, throughput, think = {"O4": (50, 8, 5), "O5": (100, 8.3, 5)}[row.id]
    assert users / throughput - think == pytest.approx(row.numbers[0], abs=0.005)
    # The exact loop with that throughput has that response time: think time and service, scaled.
    service = theory_service(users, throughput, think)
    exact = theory.MachineRepairman(users, think, service)
    assert exact.mean_response == pytest.approx(row.numbers[0], abs=0.005)


def theory_service(users, throughput, think):
    """Service time at which the exact closed loop has this throughput, by bisection."""
    low, high = 1e-6, 10.0
    for _ in range(100):
        middle = (low + high) / 2
        faster = theory.MachineRepairman(users, think, middle).throughput > throughput
        low, high = (middle, high) if faster else (low, middle)
    return low


@claim("O6")
def one_service_time_per_user(row):
    for think in (0.0, 9.0, 50.0):
        _, r = open_closed.closed_curve(think)
        far = int(4 * (think + 1))
        assert np.diff(r[far:]) == pytest.approx(np.ones(499 - far), abs=1e-6)
        # simulated: 100 users more, 100 s more
        both = [np.array([log.response.mean() for log in many(n, think, 20)]) for n in (300, 400)]
        assert abs(z_score(both[1] - both[0], 100)) < 4


@claim("O7")
def never_overloaded(row):
    users = (10, 50, 100, 500)
    exact = [theory.MachineRepairman(n, 9.0, 1.0).throughput for n in users]
    assert exact == sorted(exact) and exact[-1] <= 1 and exact[-1] == pytest.approx(1, abs=1e-9)
    for n, x in zip(users, exact, strict=True):
        assert abs(z_score([open_closed.throughput(log) for log in many(n, 9.0, 30)], x)) < 4


test_claim = claim.test()


@settings(max_examples=40)
@given(st.integers(1, 500), st.floats(0, 50), st.integers(0, 1000))
def test_no_more_are_inside_than_there_are_users(users, think, seed):
    log = open_closed.closed_run(users, think, seed)
    assert len(log) >= users and (log.arrival > 0).all()
    assert log.in_system(log.arrival).max() <= users


@pytest.mark.parametrize("users, think", [(1, 9.0), (12, 9.0), (30, 20.0), (5, 0.0)])
def test_closed_runs_begin_in_the_steady_state(users, think):
    exact = theory.MachineRepairman(users, think, 1.0)
    early = [log.response[: max(1, users // 2)].mean() for log in many(users, think, 400, 20)]
    assert abs(z_score(early, exact.mean_response)) < 4


def test_open_runs_begin_in_the_steady_state():
    early = [open_closed.open_run(0.9, 5, run, 100).response[:5].mean() for run in range(600)]
    assert abs(z_score(early, 10.0)) < 4


def test_curve_is_the_machine_repairman():
    x, r = open_closed.closed_curve(9.0)
    for n in (1, 12, 100, 500):
        exact = theory.MachineRepairman(n, 9.0, 1.0)
        assert (x[n - 1], r[n - 1]) == (pytest.approx(exact.throughput), pytest.approx(exact.mean_response))


def test_open_and_closed_part_further_with_variable_service():
    ratios = [float(row[-1]) for row in open_closed.variability(replications=8).rows]
    assert ratios[-1] > 1.5 * ratios[0] > 3


# -- the cap ------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(0, 10**6), st.sampled_from(open_closed.RULES))
def test_cap_is_kept_and_nothing_is_lost(cap, seed, rule):
    rng = np.random.default_rng(seed)
    intended, answer = np.cumsum(rng.exponential(0.1, 80)), rng.exponential(0.6, 80)
    log = open_closed.through_cap(intended, answer, cap, rule)
    sent = np.isfinite(log.start)
    inside = (log.start[sent][:, None] <= log.start[sent]) & (
        log.start[sent] < log.finish[sent][:, None] - 1e-9
    )
    assert inside.sum(axis=0).max() <= cap
    assert len(log) == (sent.sum() if rule == "skip" else 80)
    if rule == "queue":
        assert sent.all()
    else:
        assert (log.start[sent] == log.intended[sent]).all()
        # what was not sent met `cap` in flight
        for t in np.setdiff1d(intended, log.intended[sent]):
            assert np.sum((log.start[sent] <= t) & (t < log.finish[sent])) == cap


def test_loss_of_the_cap_is_erlang_b():
    """Poisson arrivals and a cap without a queue: Erlang's loss formula, for any law of the answer."""
    lost = [np.mean(~open_closed.capped("drop", run, 4000).ok) for run in range(30)]
    assert abs(z_score(lost, theory.erlang_b(8, 12 * 0.6))) < 4


def test_cap_makes_two_tools_too_kind():
    queue, skip, drop = open_closed.caps().rows
    told, true = ([float(row[i].split()[0]) for row in (queue, skip, drop)] for i in (3, 4))
    assert min(told[:2]) > 95 and told[2] == true[2] < 85 and true[1] == true[2] and true[0] < 85


def test_unknown_rule_is_one_sentence():
    with pytest.raises(ValueError, match="^when_full = 'wait' is unknown; choose one of queue, skip, drop"):
        open_closed.through_cap(np.arange(3.0), np.ones(3), 1, "wait")


# -- the real server ----------------------------------------------------------------------------------


def needed(*names):
    for name in names:
        if importlib.util.find_spec(name) is None:
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{name} is not installed")


def test_real_run_shows_overload_only_when_open():
    needed("aiohttp", "httptools")
    measured = open_closed.live(2.5, progress=False)
    twelve, fifty, opened = measured.logs.values()
    halves = [np.array_split(log.response[log.ok], 3) for log in (fifty, opened)]
    closed_growth, open_growth = (np.median(parts[2]) / np.median(parts[1]) for parts in halves)
    assert open_growth > 1.25 and open_growth > closed_growth
    for log, users in ((twelve, 12), (fifty, 50)):
        # The law of the loop; what the generator was late is spent in the loop too.
        late = log.arrival > 0.5
        spent = log.response[late].mean() + open_closed.THINK_S + log.lateness[late].mean()
        assert open_closed.rate_after(log, 2.5) * spent == pytest.approx(users, rel=0.2)
        assert log.in_system(np.linspace(0, 2.5, 500)).max() <= users
    assert np.median(fifty.response) > 3 * np.median(twelve.response)
    assert len(opened) > len(fifty) and "150/s" in open_closed.live_picture(measured).canvas.alt
    assert len(open_closed.live_table(measured).rows) == 3


def test_lesson_runs_without_the_extra(monkeypatch):
    monkeypatch.setattr(server_process, "find_spec", lambda name: None)
    measured = open_closed.live()
    for shown in (measured, open_closed.live_picture(measured), open_closed.live_table(measured)):
        assert "pip install" in repr(shown) and "pip install" in shown._repr_html_()


@settings(max_examples=60)
@given(st.floats(-1e4, 1e4), st.floats(1e-6, 1e4))
def test_plus_minus_says_value_and_interval(value, half):
    text = plus_minus(Estimate(value, value - half, value + half))
    shown, width = (float(part.replace(",", "")) for part in text.split(" ± "))
    assert width == pytest.approx(half, rel=0.06) and abs(shown - value) <= 0.06 * half + 0.51 * (half >= 100)


# -- the practitioner's question ------------------------------------------------------------------------


def test_reports_that_agree_with_themselves():
    table = open_closed.do_they_agree((10, 6.29, 1.54), (30, 1.21, 23.2))
    assert [row[3] for row in table.rows] == ["9.69", "28.1"]
    exact = theory.MachineRepairman(12, 9.0, 1.0)
    told = open_closed.do_they_agree((12, exact.throughput, exact.mean_response), think_s=9.0)
    assert told.rows[0][4] == "100%"


@pytest.mark.parametrize("reports", [(), ((1, 2),), ((10, 0, 1.0),)])
def test_report_without_its_three_numbers_is_one_sentence(reports):
    with pytest.raises(ValueError, match="(no report given|must be).*requests/s"):
        open_closed.do_they_agree(*reports)


def test_interrupted_run_is_told_as_what_it_was(interrupt_load):
    needed("aiohttp", "httptools")
    interrupt_load(1.5)
    measured = open_closed.live(30, progress=False)
    assert 0.5 < measured.seconds < 6 and "kept and marked partial" in measured.said
    table = open_closed.live_table(measured)
    assert f"run of {measured.seconds:g} s" in table.caption and "interrupted after" in table.caption
    assert float(table.rows[1][1]) == pytest.approx(100, rel=0.4), "the throughput is over the whole time asked for"


def test_interrupted_before_the_server_is_ready_is_one_sentence(interrupt_load):
    needed("aiohttp", "httptools")
    interrupt_load(0)
    measured = open_closed.live(4, progress=False)
    for shown in (measured, open_closed.live_picture(measured), open_closed.live_table(measured)):
        assert str(shown) == server_process.TOO_EARLY
