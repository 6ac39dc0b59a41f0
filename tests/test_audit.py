"""The audit: cases from practice, one known flaw at a time, clean runs, and what the reports show."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from labsupport import cli, course, records
from labsupport.audit import CHECKS, audit, audit_files, audit_records, flaws, report
from labsupport.loadtest.cli import write_csv
from labsupport.queueing import simulate, workload
from labsupport.queueing.requestlog import RequestLog
from labsupport.queueing.series import peak_in_system
from labsupport.records import Claims, Record

FOUND = ("broken", "doubtful")


def claimed(check, **claims):
    """The finding of one check on what a tool printed alone."""
    return audit(Record("tool", claims=Claims(**claims), name="run"))[check]


def value(finding, beginning):
    """The number of a finding whose name begins so."""
    return next(number for name, number in finding.numbers.items() if name.startswith(beginning))


# --- cases from practice --------------------------------------------------------------------------------------


def test_c1_a_cap_of_one_hides_the_wait():
    sent = 0.5 * np.arange(8)
    log = RequestLog(sent, sent, sent + 0.5, intended=0.1 * np.arange(8))
    finding = audit(log)["loop"]
    assert finding.verdict == "broken"
    assert value(finding, "hidden wait, mean") == pytest.approx(1.40)
    assert value(finding, "hidden wait, most") == pytest.approx(2.8)


def test_c2_and_c4_a_drain_is_not_an_overload():
    c4 = claimed("offered", requests=10_000, offered_rate=15, rate=13.65, quantiles={("ttft", 0.99): 0.233})
    assert c4.verdict == "holds" and "no overload" in c4.reason
    assert value(c4, "sending") == pytest.approx(666.7, abs=0.05) and value(c4, "drain") == pytest.approx(
        65.8, abs=0.3
    )
    c2 = claimed("offered", requests=1000, offered_rate=200, rate=2.3)
    assert c2.verdict == "broken"
    assert value(c2, "wait of the last") == pytest.approx(430, abs=1) and value(
        c2, "mean wait"
    ) == pytest.approx(215, abs=1)


def test_c5_peak_in_bins():
    told = {"rate": 6.16, "mean": {"response": 1.288}, "cap": 8, "peak": 23}
    finding = claimed("peak", **told)
    assert finding.verdict == "broken" and value(finding, "L = X·W") == pytest.approx(7.93, abs=0.005)
    assert value(claimed("little", **told), "X·W") == pytest.approx(7.93, abs=0.005)


def test_c7_two_means_and_no_bug():
    finding = claimed("tpot_itl", mean={"tpot": 0.0779, "itl": 0.0381})
    assert finding.verdict == "holds" and "no bug" in finding.reason
    quick = np.arange(1000) >= 684  # 684 short answers at 100 ms a token, 316 long ones at 30 ms
    gaps = np.where(quick, 1654, 100)
    begin = 10.0 * np.arange(1000)
    log = RequestLog(
        begin, begin, begin + gaps * np.where(quick, 0.03, 0.1), first_token=begin, output_tokens=gaps + 1
    )
    finding = audit(log)["tpot_itl"]
    assert finding.verdict == "holds"
    assert value(finding, "mean TPOT") == pytest.approx(0.0779, abs=5e-5)
    assert value(finding, "the same, over tokens") == pytest.approx(0.0381, abs=5e-5)


def test_c8_one_seed_for_every_run():
    runs = [
        Record("tool", claims=Claims(rate=rate, seed=0), name=name)
        for name, rate in (("a", 10.0), ("b", 23.0))
    ]
    first, second = (found["repeats"] for found in audit_records(runs))
    assert first.verdict == "can't be checked"
    assert second.verdict == "broken" and value(second, "throughput") == pytest.approx(2.3)
    assert "flush it, or change the seed" in second.reason
    rng = np.random.default_rng(0)
    log, _ = flaws.open_run(rng, 100)
    quicker = replace(log, finish=log.start + (log.finish - log.start) / 2, first_token=None)
    assert audit_records([Record("x", log), Record("x", quicker)])[1]["repeats"].verdict in FOUND
    other = replace(log, prompt_tokens=log.prompt_tokens + 1)
    assert audit_records([Record("x", log), Record("x", other)])[1]["repeats"].verdict == "can't be checked"


def test_c10_a_p99_of_ten():
    finding = claimed("quantile_size", requests=10, quantiles={("response", 0.99): 1.0})
    assert finding.verdict == "broken"
    assert value(finding, "chance") == pytest.approx(9.6, abs=0.05) and value(finding, "needed") == 368


def test_c11_quick_refusals():
    rng = np.random.default_rng(1)
    ok = rng.permutation(601) < 160
    arrival = np.sort(rng.uniform(0, 30, 601))
    log = RequestLog(
        arrival, arrival, arrival + np.where(ok, rng.uniform(1, 3, 601), rng.uniform(0.1, 0.2, 601)), ok=ok
    )
    finding = audit(log, Claims(duration_s=30))["failures"]
    assert finding.verdict == "broken"
    assert value(finding, "good answers per second") == pytest.approx(5.33, abs=0.005)
    assert value(finding, "quantile of all") == pytest.approx(0.87, abs=0.005)
    alone = claimed("failures", requests=601, failed=441, duration_s=30)
    assert alone.verdict == "broken" and value(alone, "quantile of all") == pytest.approx(0.87, abs=0.005)


@pytest.mark.parametrize(
    ("case", "users", "rate", "mean", "inside", "verdict"),
    [
        ("c12", 1, 19_026, 42e-6, 0.80, "doubtful"),
        ("c16", 4, 12.65, 0.209, 2.64, "broken"),
        ("c20", 50, 303, 0.1645, 49.8, "holds"),
    ],
)
def test_littles_law_between_counters(case, users, rate, mean, inside, verdict):
    finding = claimed("little", users=users, rate=rate, mean={"response": mean})
    assert finding.verdict == verdict and value(finding, "X·W") == pytest.approx(inside, abs=0.05)
    if case == "c16":
        assert value(finding, "throughput that these users") == pytest.approx(19.1, abs=0.05)


def behind_a_cap():
    """300 requests at 12/s through a cap of 8, as vLLM saves them; TTFTs laid out to give the numbers of c23."""
    rng = np.random.default_rng(23)
    intended = workload.poisson(rng, 12.0, 300)
    beyond = rng.exponential(1.0, 300)

    def wait(scale):
        return simulate.fcfs_servers(intended, 0.35 + scale * beyond, 8).wait

    scale = brentq(lambda x: np.quantile(wait(x), 0.99) - 1.159, 0.05, 1.0)
    hidden, response = wait(scale), 0.35 + scale * beyond
    # Of those that waited least, 49 break the SLO of 0.2 s by the tool's clock already, and the next 49 keep it by both.
    # All others break it by the schedule alone: they wait long, or take 0.2 s.
    short = np.argsort(hidden, kind="stable")
    ttft = np.where(hidden > 0.1, 0.1, 0.2)
    ttft[short[:49]], ttft[short[:4]], ttft[short[49:98]] = 0.3, 0.345, 0.05
    assert 0 < hidden[short[98]] and hidden[short[97]] <= 0.15  # or the case would be another
    duration = float((intended + hidden + response).max())
    return {
        "num_prompts": 300, "completed": 300, "failed": 0, "tokenizer_id": "toy", "request_rate": 12.0, "burstiness": 1.0,
        "max_concurrency": 8, "duration": duration, "request_throughput": 300 / duration, "request_goodput": 251 / duration,
        "p99_ttft_ms": 345.0, "start_times": list(intended + hidden), "queue_times": list(hidden), "ttfts": list(ttft),
        "itls": [[gap] for gap in response - ttft], "latencies": list(response), "errors": [""] * 300,
        "input_lens": [100] * 300, "output_lens": [2] * 300,
    }  # fmt: skip


def test_c23_two_clocks(tmp_path):
    """The tool's clock starts after the cap: P99 of TTFT 0.345 s and 0.837 kept; from the schedule 1.259 s and 0.163."""
    (tmp_path / "run.json").write_text(json.dumps(behind_a_cap()))
    (found,) = audit_files([tmp_path / "run.json"], {"ttft": 0.2})
    log, shares = found.record.log, found["goodput"]
    assert peak_in_system(log) == 8 and len(log) == 300  # the cap binds, and is kept
    assert np.quantile(log.ttft, 0.99) == pytest.approx(0.345)
    assert np.quantile(log.first_token - log.intended, 0.99) == pytest.approx(1.259)
    assert value(shares, "attainment of all sent, failures") == pytest.approx(0.837, abs=0.0005)
    assert value(shares, "claimed goodput over throughput") == pytest.approx(0.837, abs=0.0005)
    assert value(shares, "attainment of all sent, clock") == pytest.approx(0.163, abs=0.0005)
    assert shares.verdict == "doubtful" and "All are right" in shares.reason and "different moments" in shares.reason
    assert found["printed"].verdict == "holds" and "0.345 and 0.345" in found["printed"].numbers.values()
    assert found["loop"].verdict == "broken" and value(found["loop"], "hidden wait, P99") == pytest.approx(1.159)
    path = course.data("loadtools/vllm_bench_serve_detailed.json")
    if path is not None:  # what vLLM itself printed of that run
        claims = records.read(path).claims
        told = audit(Record("vLLM", claims=claims))
        assert value(told["goodput"], "claimed goodput over throughput") == pytest.approx(0.837, abs=0.0005)
        assert told["loop"].verdict == "broken" and told["peak"].verdict == "broken"
        assert claims.quantiles["ttft", 0.99] == pytest.approx(0.345, abs=0.0005)


def test_c24_sleeping_after_each_send():
    rng = np.random.default_rng(24)
    sent = np.cumsum(rng.exponential(0.1, 4000) + 0.01)  # 10/s asked for, 10 ms to send
    finding = audit(RequestLog(sent, sent, sent + 0.05), Claims(offered_rate=10))["offered"]
    assert finding.verdict == "broken" and "falls behind its schedule" in finding.reason
    error = 3 * 100 * (1 / 1.1) ** 2 / np.sqrt(4000)  # three standard deviations, in per cent
    assert value(finding, "short of the asked rate") == pytest.approx(100 * (1 - 1 / 1.1), abs=error)


@pytest.mark.parametrize("b", [0.25, 0.5, 3.0])
def test_c25_burstiness_means_two_things(b):
    rng = np.random.default_rng(25)
    for meant, other in ((1 / b, b * b), (b * b, 1 / b)):
        sent = workload.renewal(rng, workload.gamma(0.1, meant), 5000)
        log = RequestLog(sent, sent, sent + 0.05)
        right = audit(log, Claims(burstiness=b, scv=meant))["arrivals"]
        assert right.verdict == "holds"
        assert value(right, "SCV if b is a gamma") == 1 / b and value(right, "SCV if b is a coeff") == b * b
        assert audit(log, Claims(burstiness=b, scv=other))["arrivals"].verdict == "broken"


@pytest.mark.parametrize("scale", [100, 500, 1000])
def test_littles_law_of_a_real_load_test(scale):
    folder = "burstgpt_vllm_sweep"
    names = [
        f"{folder}/detail_log_scale{scale}_prompt500.json",
        f"{folder}/vllm_log_scale{scale}_prompt500.csv",
    ]
    paths = [course.data(name) for name in names]
    if None in paths:
        pytest.skip("the load tests are not here: set QLAB_DATA")
    (found,) = audit_files(paths)
    finding = found["little"]
    records_, gauge = {100: (20.7, 21.0), 500: (151.2, 151.5), 1000: (208.1, 208.1)}[scale]
    assert finding.verdict == "holds"
    assert value(finding, "λ·W") == pytest.approx(records_, abs=0.05)
    assert value(finding, "L of the gauge, running and") == pytest.approx(gauge, abs=0.05)
    assert value(finding, "plain mean") == pytest.approx(
        {100: 31.1, 500: 140.5, 1000: 169.9}[scale], abs=0.05
    )


# --- known flaws and clean runs (benchmarks/bench_audit.py does the same 100 times) ---------------------------


@pytest.mark.parametrize("flaw", flaws.FLAWS, ids=lambda flaw: flaw.__name__)
def test_a_known_flaw_is_found(flaw):
    check = flaws.FLAWS[flaw]
    for seed in range(5):
        assert audit(flaw(np.random.default_rng([seed, 1])))[check].verdict in FOUND


def test_every_check_has_a_flaw_that_it_must_find():
    assert set(flaws.FLAWS.values()) | {"printed"} == set(CHECKS)  # wrong_mean is found by `printed` too
    assert audit(flaws.wrong_mean(np.random.default_rng(0)))["printed"].verdict == "broken"


def test_clean_runs_raise_no_alarm():
    alarms = [
        finding.check
        for seed in range(6)
        for finding in audit(flaws.clean(np.random.default_rng([seed, 2])))
        if finding.verdict != "holds"
    ]
    assert alarms == []


def test_failures_without_an_end_do_not_stay_inside():
    """They break what counts failures, and nothing that counts who is inside."""
    for seed in range(4):
        found = audit(flaws.survivors(np.random.default_rng([seed, 9])))
        assert found["failures"].verdict == "broken"
        assert {found[check].verdict for check in ("little", "peak", "loop", "stability")} == {"holds"}


@pytest.mark.parametrize(("width", "verdict"), [(0.05, "broken"), (3.0, "holds")])
def test_a_burst_that_drains_is_no_time_out(width, verdict):
    """2% of the answers end within 50 ms of the longest, as time-outs do; or over 3 s, as the last of a burst do."""
    rng = np.random.default_rng(12)
    response = np.concatenate([rng.exponential(5.0, 980).clip(0.1, 50), 60.0 - width * rng.random(20)])
    sent = np.arange(1000.0)
    finding = audit(RequestLog(sent, sent, sent + rng.permutation(response)))["failures"]
    assert finding.verdict == verdict and ("time-out" in finding.reason) == (verdict == "broken")


def test_a_clean_run_without_claims():
    log, _ = flaws.open_run(np.random.default_rng(3), 5000)
    assert audit(log).worst == "holds"


# --- input, reports and the command ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"log": [1, 2]}, TypeError, "log is a list"),
        ({"claims": {"rate": 1}}, TypeError, "claims is a dict"),
        ({"slo": {"speed": 1}}, ValueError, "slo names 'speed'; choose from response"),
        ({"slo": {"ttft": -1}}, ValueError, "slo for ttft is -1"),
        ({"prompts": [1]}, ValueError, "prompts has 1 values but the log 3"),
    ],
)
def test_bad_input(given, kind, message):
    log = RequestLog([0, 1, 2], [0, 1, 2], [1, 2, 3])
    with pytest.raises(kind, match=message):
        audit(**{"log": log} | given)


@pytest.mark.parametrize(
    "log",
    [
        RequestLog([], [], []),
        RequestLog([0.0], [0.0], [0.0]),
        RequestLog([1.0, 1.0], [np.inf, np.inf], [np.inf, np.inf], ok=[0, 0], first_token=[np.inf, np.inf]),
        RequestLog(np.zeros(500), np.zeros(500), np.ones(500)),
        RequestLog(np.arange(500.0), np.arange(500.0), np.arange(500.0)),
    ],
    ids=["empty", "one", "none finished", "all at once", "no time"],
)
def test_strange_logs_are_judged_and_shown(log):
    found = audit(log, slo={"response": 1, "ttft": 1})
    assert len(found) == len(CHECKS)
    for finding in found:
        assert finding.reason.count(". ") >= 1 and finding.lesson
    assert json.loads(report.to_json([found]))["audits"][0]["findings"]
    assert "Result sheet" in report.sheet_text(found) and "</table>" in report.html([found])


def test_reasons_are_two_sentences():
    for flaw in (flaws.clean, *flaws.FLAWS):
        for finding in audit(flaw(np.random.default_rng(4))):
            assert len(re.findall(r"[.?](?= [A-Z]|$)", finding.reason)) == 2, finding.reason
            assert course.stem(finding.lesson[:2]) if finding.lesson in course.stems() else finding.lesson


def test_the_page_escapes_and_describes(tmp_path):
    record = replace(flaws.survivors(np.random.default_rng(5)), name="<script>alert(1)</script>")
    page = report.html([audit(record)])
    assert "<script>" not in page and "&lt;script&gt;" in page
    alts = re.findall(r'<img alt="([^"]+)"', page)
    assert len(alts) == 3 and "failed" in alts[1] and "P99 infinite" in alts[2]
    assert "http" not in page.replace("http-equiv", "")  # needs no other file
    assert 'name="viewport"' in page and "max-width: 50rem" in page  # rows become blocks on a phone
    rows = re.findall(r'<tr class="(\w+)"', page)
    assert rows == sorted(rows, key=["broken", "doubtful", "holds", "unknown"].index) and len(rows) == len(CHECKS)


def test_the_sheet_leaves_out_what_cannot_be_said():
    text = report.sheet_text(audit(flaws.overloaded(np.random.default_rng(6))))
    assert "depends on its length" in text and "P99 of the response" not in text
    text = report.sheet_text(audit(flaws.clean(np.random.default_rng(2), 2000)))
    assert "P99 of the response time (s)" in text and "95%" in text and "Do not quote" not in text


def test_the_command(tmp_path, capsys):
    record = flaws.clean(np.random.default_rng(7), 2000)
    write_csv(record.log, tmp_path / "good.csv")
    assert cli.main(["audit", str(tmp_path / "good.csv"), "--slo", "ttft=100"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("good.csv (CSV): ") and "lesson 01_little" in out and "attainment" in out
    write_csv(flaws.too_few(np.random.default_rng(8)).log, tmp_path / "few.csv")
    page = tmp_path / "page.html"
    assert cli.main(["audit", str(tmp_path / "few.csv"), "--json", "--html", str(page)]) == 1
    told = json.loads(capsys.readouterr().out)["audits"][0]
    assert told["verdict"] == "broken" and [f["check"] for f in told["findings"]] == list(CHECKS)
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert cli.main(["audit", "--sheet", str(tmp_path / "few.csv")]) == 1
    assert capsys.readouterr().out.startswith("Result sheet: few.csv")
    assert cli.main(["audit", str(tmp_path / "none.csv")]) == 2
    assert cli.main(["audit", str(page)]) == 2
    assert cli.main(["audit", str(tmp_path / "few.csv"), "--slo", "fast"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert (
        len(errors) == 3
        and "is no file" in errors[0]
        and "known are vLLM" in errors[1]
        and "ttft=0.5" in errors[2]
    )
