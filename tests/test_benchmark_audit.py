"""Lesson 11 (no claim of the table is its own): its files, its tables and the five files of its exercises."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from labsupport import audit as auditor
from labsupport import benchmark_audit, course, records
from labsupport.audit import CHECKS, audit, flaws

FIVE = ("little", "peak", "offered", "failures", "arrivals")


def answers(q):
    """The right values of a question of the exercises."""
    path = course.root() / "exercises" / "11_benchmark_audit.json"
    return [case["value"] for case in json.loads(path.read_text(encoding="utf-8"))["cases"] if case["q"] == q]


def test_audit_is_the_courses():
    assert benchmark_audit.audit is auditor.audit


@pytest.mark.parametrize("letter", benchmark_audit.FLAW_OF)
def test_each_result_file_has_its_flaw_and_no_other_of_the_five(letter):
    flaw = getattr(flaws, benchmark_audit.FLAW_OF[letter])
    found = audit(benchmark_audit.result_file(letter))
    assert [check for check in FIVE if found[check].verdict in ("broken", "doubtful")] == [flaws.FLAWS[flaw]]
    assert found[flaws.FLAWS[flaw]].verdict == "broken"


def test_the_answer_names_the_flaws():
    order = ("wrong_mean", "binned_peak", "behind_schedule", "survivors", "bursty")
    right = "".join(str(1 + order.index(flaw)) for flaw in benchmark_audit.FLAW_OF.values())
    assert answers("flaws") == [right]


def test_answers_on_the_files_by_another_count():
    c, e, b = (benchmark_audit.result_file(letter).log for letter in "ceb")
    grid = np.linspace(c.arrival[0], c.finish.max(), 200_001)[:-1]
    assert answers("in_flight")[0] == pytest.approx(c.in_system(grid).mean(), rel=0.01)
    assert answers("peak")[0] == e.in_system(e.arrival).max()  # a maximum is reached at an arrival
    t = answers("honest_quantile")[0]
    within = np.sum(b.ok & (b.response <= t * (1 + 1e-6))), np.sum(b.ok & (b.response < t * (1 - 1e-6)))
    assert within[1] < 0.8 * len(b) <= within[0]


def test_a_result_file_is_one_of_vllm_and_can_be_saved(tmp_path):
    path = benchmark_audit.save("b", tmp_path)
    saved, kept = records.read(path), benchmark_audit.result_file("b")
    assert saved.tool == "vLLM bench serve" and saved.claims == kept.claims
    assert (
        np.array_equal(saved.log.finish, kept.log.finish) and saved.claims.failed == np.sum(~saved.log.ok) > 0
    )
    with pytest.raises(ValueError, match="letter is 'f'; choose one of a, b, c, d, e"):
        benchmark_audit.save("f", tmp_path)


def test_what_is_written_comes_back():
    made = flaws.hidden_queue(np.random.default_rng(1))
    back = benchmark_audit._through_file("x.json", benchmark_audit.vllm_text(made))
    for column in ("arrival", "finish", "first_token", "output_tokens"):
        own, read = getattr(made.log, column), getattr(back.log, column)
        zero = made.log.arrival[0] if column != "output_tokens" else 0
        assert read == pytest.approx(own - zero, abs=1e-9)
    wrk = benchmark_audit._through_file("x.txt", benchmark_audit.wrk_text(made))
    assert wrk.tool == "wrk" and wrk.claims.mean["response"] == pytest.approx(
        made.log.response.mean(), rel=0.01
    )
    assert wrk.claims.rate == pytest.approx(made.claims.rate, rel=0.01)


def test_explorer_shows_the_verdicts_of_the_audit():
    for file, make in benchmark_audit.FILES.items():
        if make in flaws.FLAWS:
            check = flaws.FLAWS[make]
            e = benchmark_audit.checks(file=file, check=check, requests=4000)
            assert e.result.finding.verdict in ("broken", "doubtful") and e.result.finding.reason in e.alt
    assert set(benchmark_audit.NAMES) == set(CHECKS)
    assert {make for make in benchmark_audit.FILES.values() if make} <= {flaws.clean, *flaws.FLAWS}


def test_clean_file_of_100_requests_carries_no_p99():
    for seed in range(1, 21):
        assert benchmark_audit.audited("clean", 100, seed)["quantile_size"].verdict == "broken"


def test_two_clocks():
    sent, came = benchmark_audit.two_clocks()
    assert sent == pytest.approx(1.16, abs=0.005)  # what the notebook says that the file says
    assert came > 1.5 * sent
    assert audit(benchmark_audit.capped())["loop"].verdict == "broken"


def test_deleting_requests_is_seen_by_the_gauge_alone():
    whole, cut = benchmark_audit.edited()
    assert audit(whole)["little"].verdict == "holds"
    assert audit(cut)["little"].verdict in ("doubtful", "broken") and "gauge" in audit(cut)["little"].reason
    (_, *first), (_, *second) = benchmark_audit.deleted().rows
    assert first[1] == second[1] == "none" and second[0] < first[0]
    assert first[2] == pytest.approx(first[3], rel=0.01) and second[2] < 0.9 * second[3]


def test_share_is_wilsons():
    for hits in (0, 7, 20):
        ci = stats.binomtest(hits, 20).proportion_ci(0.95, "wilson")
        own = benchmark_audit.share(hits, 20)
        assert (own.low, own.high) == (pytest.approx(ci.low, abs=1e-6), pytest.approx(ci.high, abs=1e-6))


def test_burstiness_by_both_meanings():
    for b, meaning, squared, found, wait in benchmark_audit.burstiness().rows:
        b = float(b)
        assert squared == (1 / b if "shape" in meaning else b * b)
        error = math.sqrt((2 * squared**2 + 2 * squared) / 20_000)  # asymptotic, gamma gaps
        assert abs(found - squared) < 4 * error
        if b == 1:
            assert float(wait) == 320  # M/M/1: 0.8 / 0.2 × 80 ms
    assert answers("expected_scv")[0] == [4.0, 0.0625]


def test_same_run_in_three_files():
    rows = benchmark_audit.same_run().rows
    assert all(sum(row[1:5]) == len(CHECKS) for row in rows)
    assert rows[0][4] < rows[1][4] == rows[2][4]  # can't be checked


def test_sweep_is_real_or_says_so(monkeypatch):
    monkeypatch.setattr(course, "data", lambda name: None)
    benchmark_audit.sweep.cache_clear()
    table = benchmark_audit.real_sweep()
    assert "SYNTHETIC STAND-IN" in table.caption and table.head[1:] == (
        "scale 100",
        "scale 500",
        "scale 1000",
    )
    assert all(audit["little"].verdict == "holds" for audit in benchmark_audit.sweep()[0])
    monkeypatch.undo()
    benchmark_audit.sweep.cache_clear()
    if course.data("burstgpt_vllm_sweep/detail_log_scale100_prompt500.json"):
        assert "BurstGPT" in benchmark_audit.real_sweep().caption
