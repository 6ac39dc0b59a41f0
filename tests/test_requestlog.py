"""RequestLog: what it derives, and what it refuses at the door."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsupport.queueing import RequestLog

COLUMNS = dict(arrival=[0.0, 1.0, 1.0], start=[0.0, 2.0, 3.0], finish=[2.0, 3.0, 7.0])
TOKENS = dict(first_token=[0.5, 2.5, 4.0], prompt_tokens=[10, 20, 30], output_tokens=[4, 1, 2])


def test_derives_times_from_columns():
    log = RequestLog(**COLUMNS, **TOKENS)
    assert len(log) == 3
    assert log.wait.tolist() == [0, 1, 2]
    assert log.response.tolist() == [2, 2, 6]
    assert log.service.tolist() == [2, 1, 4]
    assert log.ttft.tolist() == [0.5, 1.5, 3]
    np.testing.assert_array_equal(log.tpot, [0.5, np.nan, 3])  # nothing follows the only token of row 1


def test_prints_what_it_holds():
    log = RequestLog(**COLUMNS, ok=[True, True, False])
    text = "RequestLog(3 requests arriving from 0 s to 1 s, 1 not ok; columns arrival, start, finish, ok)"
    assert repr(log) == text
    assert repr(RequestLog([], [], [])) == "RequestLog(0 requests, 0 not ok; columns arrival, start, finish)"


def test_failed_requests_may_lack_times():
    never = np.inf
    log = RequestLog(  # answered; cut off in the middle; refused; lost without an answer
        arrival=[0, 1, 2, 3],
        start=[0, 1, never, never],
        finish=[5, never, 2.5, never],
        first_token=[1, 2, never, never],
        output_tokens=[5, 9, 0, 0],
        ok=[True, False, False, False],
    )
    assert log.wait.tolist() == [0, 0, never, never]
    assert log.response.tolist() == [5, never, 0.5, never]
    np.testing.assert_array_equal(log.service, [5, never, np.nan, np.nan])
    np.testing.assert_array_equal(log.tpot, [1, never, np.nan, np.nan])
    assert log.ttft.tolist() == [1, 1, never, never]
    assert log.in_system([2.2, 2.7, 100.0]).tolist() == [3, 2, 2]


@pytest.mark.parametrize(
    "change, error, words",
    [
        (dict(start=[0, 2]), ValueError, "'start' has 2 rows but arrival has 3; give"),
        (dict(ok=[True]), ValueError, "'ok' has 1 rows but arrival has 3; give"),
        (dict(finish=[2, np.nan, 7]), ValueError, "'finish' has nan s in row 1; give inf, and ok=False"),
        (dict(arrival=[0, 1, np.nan]), ValueError, "'arrival' has nan s in row 2; drop"),
        (dict(arrival=[-0.5, 1, 1]), ValueError, "'arrival' has -0.5 s in row 0; count seconds from"),
        (dict(intended=[0, -3, 1]), ValueError, "'intended' has -3 s in row 1; count seconds from"),
        (dict(finish=[2, 3, np.inf]), ValueError, "'finish' has inf s in row 2; mark"),
        (
            dict(finish=[2, 3, np.inf], ok=[False, True, True]),
            ValueError,
            "'finish' has inf s in row 2; mark",
        ),
        (
            dict(arrival=[0, 1, np.inf], ok=[True, True, False]),
            ValueError,
            "'arrival' has inf s in row 2; drop",
        ),
        (
            dict(arrival=[0, 1, 0.5]),
            ValueError,
            "arrival is not sorted: row 2 .0.5 s. .* use RequestLog.from",
        ),
        (dict(start=[0, 0.5, 3]), ValueError, "'start' in row 1 is 0.5 s, before 'arrival' at 1 s; check"),
        (dict(finish=[2, 3, 2.5]), ValueError, "'finish' in row 2 is 2.5 s, before 'start' at 3 s; check"),
        (dict(first_token=[0, 1.5, 3]), ValueError, "'first_token' in row 1 is 1.5 s, before 'start' at 2 s"),
        (dict(first_token=[0, 2, 8]), ValueError, "'finish' in row 2 is 7 s, before 'first_token' at 8 s"),
        (dict(output_tokens=[1, -2, 3]), ValueError, "'output_tokens' has -2 in row 1; give 0 or more"),
        (dict(prompt_tokens=[1, np.inf, 3]), ValueError, "'prompt_tokens' has inf in row 1; drop"),
        (dict(ok=[0, 1, 0.5]), ValueError, "'ok' has 0.5 in row 2; give True or False"),
        (dict(start=[[0, 2, 3]]), ValueError, "'start' has 2 dimensions; give one value per request"),
        (dict(start=["a", 2, 3]), TypeError, "'start' must hold numbers, not "),
        (dict(finish=None), TypeError, "'finish' is missing"),
    ],
)
def test_refuses_an_impossible_column_in_one_sentence(change, error, words):
    with pytest.raises(error, match=words) as refusal:
        RequestLog(**(COLUMNS | change))
    assert str(refusal.value).endswith(".") and "\n" not in str(refusal.value)


awkward = st.sampled_from([0.0, 1.0, 2.0, -1.0, np.nan, np.inf])


@given(st.lists(st.tuples(awkward, awkward, awkward), max_size=3))
def test_accepts_exactly_the_finite_sorted_ordered_rows(rows):
    arrival, start, finish = np.array(rows, dtype=float).reshape(-1, 3).T
    good = all(0 <= a <= s <= f < np.inf for a, s, f in rows) and sorted(arrival) == list(arrival)
    for more in ({}, {"prompt_tokens": np.ones(len(rows))}):  # the quick check, and the thorough one
        if good:
            assert len(RequestLog(arrival, start, finish, **more)) == len(rows)
        else:
            with pytest.raises(ValueError):
                RequestLog(arrival, start, finish, **more)


def test_is_frozen_and_leaves_the_callers_arrays_alone():
    arrival = np.array([0.0, 1.0])
    log = RequestLog(arrival, arrival, arrival)
    arrival[0] = 0.5
    assert log.arrival.tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        log.arrival[0] = 3
    with pytest.raises(AttributeError):
        log.arrival = arrival
    assert {c.dtype.str[1:] for c in (log.arrival, log.start, log.finish)} == {"f8"}


times = st.lists(st.tuples(*[st.integers(0, 20)] * 3), max_size=12)


@given(times, st.lists(st.integers(-1, 70), min_size=1, max_size=5))
def test_in_system_and_between_agree_with_counting(rows, moments):
    rows = [(a, a + wait, a + wait + service) for a, wait, service in rows]
    log = RequestLog.from_unsorted(**dict(zip(COLUMNS, np.array(rows).reshape(-1, 3).T, strict=True)))
    assert log.in_system(moments).tolist() == [sum(a <= t < f for a, _, f in rows) for t in moments]
    assert log.in_system(moments[0]) == log.in_system(moments)[0]
    t0, t1 = min(moments), max(moments)
    inside = log.between(t0, t1)
    assert sorted(zip(inside.arrival, inside.start, inside.finish, strict=True)) == sorted(
        row for row in rows if t0 <= row[0] < t1
    )


@given(st.permutations(range(6)))
def test_from_unsorted_keeps_rows_together_and_ties_in_order(order):
    arrival = np.array([3, 1, 1, 0, 2, 1])[order]
    log = RequestLog.from_unsorted(
        arrival=arrival, start=arrival + 1, finish=arrival + 2, output_tokens=np.arange(6)
    )
    rows = sorted(zip(arrival, range(6), strict=True))  # by arrival, then by place in the input
    assert log.arrival.tolist() == [a for a, _ in rows]
    assert log.output_tokens.tolist() == [i for _, i in rows]
    assert (log.response == 2).all()


def test_between_carries_every_column():
    log = RequestLog(**COLUMNS, **TOKENS, longest_gap=[0, 1, 2], intended=[0, 1, 1], ok=[1, 1, 0]).between(
        0.5, 9
    )
    assert len(log) == 2
    assert log.output_tokens.tolist() == [1, 2] and log.ok.tolist() == [True, False]
    assert log.longest_gap.tolist() == [1, 2] and log.prompt_tokens.tolist() == [20, 30]
    assert log.intended.tolist() == [1, 1] and log.first_token.tolist() == [2.5, 4]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda log: log.ttft, ValueError, "no column 'first_token'"),
        (lambda log: log.tpot, ValueError, "no column 'first_token'"),
        (lambda log: log.between(3, 1), ValueError, "no window"),
        (lambda log: log.in_system([0, np.nan]), ValueError, "NaN"),
        (lambda log: RequestLog.from_unsorted(arrival=[1], begin=[1]), TypeError, "no column 'begin'"),
        (lambda log: RequestLog.from_unsorted(arrival=[1], finish=[1]), TypeError, "'start' is missing"),
    ],
)
def test_says_what_is_missing(call, error, words):
    with pytest.raises(error, match=words):
        call(RequestLog(**COLUMNS))


def test_importing_it_stays_light():
    heavy = "{'scipy', 'numba', 'matplotlib', 'ipywidgets', 'pandas'}"
    code = f"import sys; from labsupport.queueing import RequestLog; print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
