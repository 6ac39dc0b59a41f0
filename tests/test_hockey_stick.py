"""Lesson 02: its claims, and its own functions against independent computations."""

import json
import math

import numpy as np
import pytest
from claims import Claims

from labsupport import course, hockey_stick
from labsupport.queueing import simulate, theory

claim = Claims("hockey_stick")
LOADS = (0.5, 0.7, 0.9)


def reached(value, claimed):
    """`value` rounds to a number that the table prints with so many digits."""
    return value == pytest.approx(claimed, abs=0.51 * 10.0 ** -len(f"{claimed}".partition(".")[2]))


def z_score(utilisation, statistic, quantity, n=60_000, runs=30):
    """How many standard errors the simulated statistic is from the formula; runs of its own seeds."""
    runs = [hockey_stick.steady_run(utilisation, n, 77, run, quantity) for run in range(runs)]
    values = np.array([hockey_stick.measured(run, statistic) for run in runs])
    error = values.std(ddof=1) / math.sqrt(len(values))
    return (values.mean() - hockey_stick.exact(utilisation, statistic, quantity)) / error


def public_values(question):
    text = (course.root() / "exercises" / "02_hockey_stick.json").read_text(encoding="utf-8")
    return [case["value"] for case in json.loads(text)["cases"] if case["q"] == question]


@claim("H1")
def means(row):
    response, wait, inside, waiting = row.numbers
    table = {name: (mean, requests) for name, mean, *_, requests in hockey_stick.two_times(8, 0.1).rows}
    assert table["response time"] == pytest.approx((response, inside), rel=1e-12)
    assert table["waiting time"] == pytest.approx((wait, waiting), rel=1e-12)


@claim("H2")
def amplification(row):
    for rho, claimed in zip((0.5, 0.7, 0.8, 0.9, 0.95), row.numbers, strict=True):
        assert hockey_stick.exact(rho, "mean", "response") == pytest.approx(claimed, rel=2e-5)
        assert abs(z_score(rho, "mean", "response", n=20_000)) < 4


@claim("H3")
def tail_over_mean(row):
    for rho in np.linspace(0.05, 0.99, 9):
        ratio = hockey_stick.exact(rho, "P99", "response") / hockey_stick.exact(rho, "mean", "response")
        assert ratio == pytest.approx(math.log(100), rel=1e-12) and reached(ratio, row.numbers[0])


@claim("H4")
def quantiles_of_wait(row):
    for statistic, claimed in zip(("P50", "P95", "P99"), row.numbers, strict=True):
        value = hockey_stick.exact(0.9, statistic, "wait")
        assert reached(value, claimed)
        # The tail of the waiting time, rho exp(-(mu - lambda) t), is 1 - p there.
        assert 0.9 * math.exp(-0.1 * value) == pytest.approx(1 - hockey_stick.STATISTICS[statistic], rel=1e-9)
        assert abs(z_score(0.9, statistic, "wait")) < 4
    assert public_values("wait_quantile")[1] == pytest.approx(row.numbers, rel=1e-6)


@claim("H5")
def wrong_cells(row):
    values = [hockey_stick.exact(rho, "P99", "wait") for rho in LOADS]
    assert all(map(reached, values, row.numbers))
    assert max(abs(z_score(rho, "P99", "wait")) for rho in LOADS) < 4
    assert public_values("right_values") == [pytest.approx(row.numbers, rel=1e-6)]
    wrong = [letter for letter, value, printed in zip("abc", values, (7.8, 13.4, 46.1), strict=True)
             if round(value, 1) != printed]  # fmt: skip
    assert public_values("wrong_cells") == ["".join(wrong)] == ["bc"]
    assert round(hockey_stick.exact(0.9, "P99", "response"), 1) == 46.1
    # The middle one is neither.
    assert all(round(hockey_stick.exact(0.7, "P99", q), 1) != 13.4 for q in ("wait", "response"))


@claim("H6")
def tail_of_response(row):
    assert all(map(reached, (hockey_stick.exact(rho, "P99", "response") for rho in LOADS), row.numbers))
    assert max(abs(z_score(rho, "P99", "response")) for rho in LOADS) < 4


@claim("H7")
def one_more_point(row):
    grown = [line[-1] for line in hockey_stick.one_more_point((0.5, 0.95, 0.98)).rows]
    assert grown == ["+2.04%", "+25%", "+100%"]
    assert [float(text.strip("+%")) for text in grown] == row.numbers
    assert [public_values("growth")[0], public_values("growth")[1][1]] == pytest.approx([0.25, 1.0])


@claim("H8")
def rate_for_a_mean(row):
    row_of = hockey_stick.promise(target=1.0, service=0.2).result["mean"]
    assert (row_of.rate, 100 * row_of.utilisation) == pytest.approx(tuple(row.numbers[:2]), rel=1e-9)
    assert public_values("rate_for_mean") == pytest.approx([4.0])


@claim("H9")
def rate_for_a_tail(row):
    row_of = hockey_stick.promise(target=2.0, service=0.2).result["P99"]
    assert reached(row_of.rate, row.numbers[0]) and round(100 * row_of.utilisation) == row.numbers[1]
    # The promise is met at that rate and broken above it.
    assert theory.MM1(row_of.rate, 0.2).response_quantile(0.99) == pytest.approx(2, rel=1e-9)
    assert public_values("rate_for_quantile")[0] == pytest.approx(row_of.rate, rel=1e-9)


test_claim = claim.test()


# -- the runs -------------------------------------------------------------------------------------------


def test_runs_are_common_random_numbers():
    short, long = (hockey_stick.steady_run(0.8, n, 5, 3) for n in (300, 60_000))
    assert np.array_equal(short, long[:300])
    higher = hockey_stick.steady_run(0.85, 300, 5, 3, "wait")
    assert (higher >= hockey_stick.steady_run(0.8, 300, 5, 3, "wait")).all()
    assert not np.array_equal(short, hockey_stick.steady_run(0.8, 300, 5, 4))


@pytest.mark.parametrize("rho", [0.3, 0.9])
def test_runs_begin_in_the_steady_state(rho):
    """The very first request of many runs waits like any other: some not at all, others exponentially."""
    first = np.array([hockey_stick.steady_run(rho, 1, 11, run, "wait")[0] for run in range(2000)])
    no_wait = np.mean(first == 0)
    assert abs(no_wait - (1 - rho)) < 4 * math.sqrt(rho * (1 - rho) / 2000)
    for t in (0.5, 3.0):
        tail = rho * math.exp(-(1 - rho) * t)
        assert abs(np.mean(first > t) - tail) < 4 * math.sqrt(tail * (1 - tail) / 2000)


def test_curve_shows_what_a_request_log_says():
    """One run of the explorer, rebuilt as a RequestLog by the general simulator."""
    rho, n = 0.7, 2000
    gaps, services, u = hockey_stick._units(1, 0, 20_000)
    services = services[: n + 1].copy()
    services[0] = -math.log1p(-u) / 0.3
    log = simulate.fcfs(np.cumsum(gaps[: n + 1] / rho), services)
    point = hockey_stick.curve(utilisation=rho, requests=n, statistic="P95", quantity="wait").result
    assert point.runs[0] == pytest.approx(np.quantile(log.wait[1:], 0.95), rel=1e-9)
    assert point.estimate.value == pytest.approx(point.runs.mean()) and len(point.runs) == 10


def test_one_long_run_has_a_better_mean_than_p99_and_naive_intervals_fail():
    """The lesson's surprise, from other runs than those it shows."""
    rows = {row[0]: row[1:] for row in hockey_stick.one_run(runs=20, seed=9).rows}
    mean, p99 = (float(text.split()[0]) for text in rows["one run is off by, on average"])
    assert 2 < mean < 9 and p99 > 1.3 * mean
    assert all(int(text.split()[0]) <= 7 for text in rows["which holds in, runs"])


def test_short_runs_are_called_biased_where_they_are():
    rho, n = 0.9, 4000
    e = hockey_stick.curve(utilisation=rho, requests=n, statistic="P99")
    assert e.result.biased and "biased" in e.alt
    values = [hockey_stick.measured(hockey_stick.steady_run(rho, n, 21, run), "P99") for run in range(300)]
    assert np.mean(values) < 0.93 * e.result.exact
    assert not e.set(statistic="mean").result.biased and "biased" not in e.alt
    assert not e.set(statistic="P99", utilisation=0.5).result.biased


# -- the promise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantity", ["response", "wait"])
@pytest.mark.parametrize("statistic", ["mean", "P95", "P99"])
def test_promise_is_kept_by_that_many_servers_and_broken_by_one_fewer(quantity, statistic):
    target, service, load = 1.5, 0.2, 90.0
    row = hockey_stick.allowed(target, service, load, statistic, quantity)

    def kept(servers):
        return load / servers * service < 1 and (
            service * hockey_stick.exact(load / servers * service, statistic, quantity) <= target
        )

    assert kept(row.servers) and not kept(row.servers - 1)
    assert row.hours == 24 * row.servers


def test_whole_number_of_servers_is_not_rounded_up():
    assert hockey_stick.allowed(1.0, 0.2, 120.0, "mean").servers == 30


def test_promise_that_an_idle_server_breaks_is_said():
    e = hockey_stick.promise(target=0.5, service=0.2)
    assert e.result["P99"].rate is None and e.result["P99"].idle_s == pytest.approx(0.2 * math.log(100))
    assert "P99: not kept even by an idle server, which takes 0.921 s" in e.alt
    rows = hockey_stick.bill(target_s=0.5).rows
    assert [type(row[2]) for row in rows] == [int, int, str, str, str]  # the work alone and the mean can be bought


@pytest.mark.parametrize(
    "asked",
    [(-1, 0.2, 5, "P99"), (1, 0, 5, "P99"), (1, 0.2, math.inf, "P99"), (1, 0.2, 5, "P100"), (1, 0.2, 5, "p99"),
     (1, 0.2, 5, 0.99), (1, 0.2, 5, "mean", "reponse")],
)  # fmt: skip
def test_allowed_says_what_it_was_given(asked):
    with pytest.raises(ValueError, match="="):
        hockey_stick.allowed(*asked)


def test_allowed_takes_any_percentile():
    queue = theory.MM1(hockey_stick.allowed(3, 0.35, 7.5, "P99.9").rate, 0.35)
    assert queue.response_quantile(0.999) == pytest.approx(3, rel=1e-9)


def test_bill_ends_with_the_shared_queue():
    rows = {row[0]: row[2] for row in hockey_stick.bill(2.0, 0.2, 120).rows}
    assert rows["none: always busy"] == 24 and rows["P99"] == 45
    shared = rows["P99, one shared queue"]
    assert theory.MMc(120, 0.2, shared).response_quantile(0.99) <= 2
    assert shared == 25  # the work fills 24, and with 24 the queue grows for ever


# -- break it -------------------------------------------------------------------------------------------


def test_uneven_halves_against_the_sum_of_both_queues():
    mean, p99 = hockey_stick.half_by_half((0.55, 0.95))
    share = np.array([0.55, 0.95]) / 1.5
    assert mean == pytest.approx(share @ (1 / (1 - np.array([0.55, 0.95]))))
    assert share @ np.exp(-np.array([0.45, 0.05]) * p99) == pytest.approx(0.01)
    rng = np.random.default_rng(1)
    values = np.array([hockey_stick._two_halves((0.5, 0.8), 50_000, rng) for _ in range(20)])
    z = (values.mean(axis=0) - hockey_stick.half_by_half((0.5, 0.8))) / (values.std(axis=0, ddof=1) / 20**0.5)
    assert np.abs(z).max() < 4


def test_overload_grows_with_the_run():
    alt = hockey_stick.overload(loads=(0.5, 1.2), n=400, runs=200).canvas.alt
    low, high = (float(part.split()[0]) for part in alt.partition("it is ")[2].split(", ")[::2][:2])
    assert low == pytest.approx(1, abs=0.5) and high > 30


# -- the trace ------------------------------------------------------------------------------------------


def test_replay_keeps_the_promise_up_to_its_utilisation():
    trace = hockey_stick.conversation()
    u, offered = hockey_stick.replay_utilisation(trace, 2.0), hockey_stick.offered_tokens(trace)
    for factor, kept in ((0.999, True), (1.001, False)):
        log = hockey_stick.prefill(trace, offered / (u * factor))
        assert (np.quantile(log.response, 0.99) <= 2.0) == kept
    assert u < hockey_stick.formula_utilisation(len(trace.arrival) / trace.arrival[-1], 2.0)


def test_formula_utilisation_inverts_the_quantile():
    u = hockey_stick.formula_utilisation(5.53, 2.0)
    assert theory.MM1(5.53, u / 5.53).response_quantile(0.99) == pytest.approx(2.0, rel=1e-12)


def test_real_hour_allows_less_than_the_formula():
    if course.data("azure_2023/AzureLLMInferenceTrace_conv.csv") is None:
        pytest.skip(
            "the Azure trace is not here: set QLAB_DATA to the folder of the real traces, or run `qlab data`"
        )
    rows = hockey_stick.prefill_speed(hockey_stick.conversation()).rows
    average, busiest, replay = (float(row[3].replace(",", "")) for row in rows)
    assert average < 0.75 * replay and busiest == pytest.approx(replay, rel=0.1)


def test_lesson_runs_without_the_real_file(monkeypatch):
    monkeypatch.setattr(course, "data", lambda name: None)
    trace = hockey_stick.conversation()
    assert len(trace.arrival) == len(trace.prompt_tokens) and (np.diff(trace.arrival) >= 0).all()
    assert "SYNTHETIC" in hockey_stick.busy_minutes(trace).canvas.alt
    assert "SYNTHETIC" in hockey_stick.prefill_speed(trace).caption
