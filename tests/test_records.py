"""Readers of result files: each tool's sample field by field, recognition by content, and what broken files get."""

import csv
import dataclasses
import gc
import json
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labsupport import course, records
from labsupport.audit import audit
from labsupport.loadtest.cli import write_csv
from labsupport.queueing import statistics as qs
from labsupport.queueing.requestlog import RequestLog

SAMPLES = (
    "vllm_bench_serve_detailed.json", "sglang_bench_serving.jsonl", "guidellm_benchmarks.json",
    "aiperf_profile_export.jsonl", "aiperf_profile_export_aiperf.json", "genai_perf_profile_export.json",
    "llmperf_individual_responses.json", "k6_out.jsonl", "lo_stats.csv", "wrk.txt", "hey.csv", "oha.json",
    "vegeta.csv", "ycsb.txt",
)  # fmt: skip


def sample(name):
    path = course.data(f"loadtools/{name}")
    if path is None:
        pytest.skip(f"{name} is not here: set QLAB_DATA to a folder that has loadtools/{name}")
    return path


def read(name):
    return records.read(sample(name))


def written(path, content):
    """A file with text, bytes or an object as JSON."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def near(value):
    return pytest.approx(value, rel=1e-9, abs=1e-9)


# --- the samples, field by field ------------------------------------------------------------------------------


def test_vllm():
    record = read("vllm_bench_serve_detailed.json")
    log, claims = record.log, record.claims
    assert record.tool == "vLLM bench serve" and len(log) == 4
    zero = 1196.45344586 - 0.0002857310000763391  # the first intended moment
    starts = [1196.45344586, 1196.475738478, 1196.552092652, 1196.561933059]
    queues = [0.0002857310000763391, 8.975300011115905e-05, 0.00038935800012041, 0.0001875559999007237]
    np.testing.assert_allclose(log.arrival, np.array(starts) - zero, atol=1e-9)
    np.testing.assert_allclose(log.arrival - log.intended, queues, atol=1e-9)
    np.testing.assert_allclose(
        log.response[:3], [0.6339594829998987, 2.5368378650000523, 0.48491860399985853]
    )
    np.testing.assert_allclose(log.ttft[:3], [0.17619010899989007, 0.2536413610000636, 0.3420127719998618])
    assert (
        log.ok.tolist() == [True, True, True, False] and np.isinf([log.finish[3], log.first_token[3]]).all()
    )
    assert log.prompt_tokens.tolist() == [4000, 2394, 4000, 2333]
    assert log.output_tokens.tolist() == [37, 162, 12, 0]
    assert log.longest_gap.tolist() == near(
        [0.014869173000079172, 0.019395885999983875, 0.018801952000103483, 0]
    )
    assert (claims.requests, claims.failed, claims.cap, claims.offered_rate) == (4, 1, 8, 12)
    assert (claims.burstiness, claims.scv, claims.peak) == (1, 1, 25)
    assert claims.duration_s == 25.344483771000114 and claims.rate == 11.83689526725609
    assert claims.goodput == 9.903535706937594
    means = [118.74983016000594, 15.381558964206109, 15.077202167536587, 638.6117608966674]
    means += [456.2333455466713, 1094.8451064433386]
    names = ("ttft", "tpot", "itl", "response", "client_queue", "intended")
    assert [1000 * claims.mean[name] for name in names] == near(means)
    assert claims.quantiles["ttft", 0.99] == near(0.34510664644996945)
    assert claims.quantiles["response", 0.5] == near(0.5185874170000488)
    assert claims.quantiles["intended", 0.95] == near(2.1954260395000690)
    assert len(claims.quantiles) == 18


def test_vllm_plain_and_without_schedule(tmp_path):
    whole = json.loads(sample("vllm_bench_serve_detailed.json").read_text())
    lists = [key for key, value in whole.items() if isinstance(value, list)]
    plain = {key: value for key, value in whole.items() if key not in lists}
    record = records.read(written(tmp_path / "a", plain))
    assert record.log is None and record.claims.peak == 25 and record.claims.requests == 4
    assert "aggregates only" in record.unknown[0] and "aggregates only" in repr(record)
    older = {key: value for key, value in whole.items() if key not in ("queue_times", "latencies")}
    record = records.read(written(tmp_path / "b", older))
    assert record.log.intended is None and any("intended" in sentence for sentence in record.unknown)
    assert record.log.response[0] == near(whole["ttfts"][0] + sum(whole["itls"][0]))
    without = {key: value for key, value in older.items() if key != "start_times"}
    record = records.read(written(tmp_path / "c", without))
    assert record.log is None and record.summary.durations["ttft"][1] == whole["ttfts"][1]
    short = whole | {"ttfts": whole["ttfts"][:2]}
    with pytest.raises(ValueError, match="its lists differ in length"):
        records.read(written(tmp_path / "d", short))


def test_sglang(tmp_path):
    record = read("sglang_bench_serving.jsonl")
    claims, summary = record.claims, record.summary
    assert (
        record.tool == "SGLang bench_serving"
        and record.log is None
        and "when requests were sent" in record.unknown[0]
    )
    assert (claims.requests, claims.failed, claims.offered_rate, claims.cap) == (4, 1, 4, 16)
    assert (claims.duration_s, claims.rate, claims.inside, claims.peak) == (2.31, 1.2987, 0.864, 3)
    assert (claims.goodput, claims.attainment, claims.slo) == (0.8658, 0.5, {"ttft": 0.07})
    assert claims.mean == near({"ttft": 0.0613, "tpot": 0.0141, "itl": 0.0139, "response": 0.665})
    assert claims.quantiles == near({("ttft", 0.99): 0.0802, ("response", 0.99): 0.9001})
    assert summary.durations["ttft"].tolist() == [0.052, 0.08, 0.052, 0]
    assert summary.durations["response"][0] == near(0.052 + 0.0139 + 0.0141)
    assert summary.tokens["prompt"].tolist() == [400, 401, 400, 512]
    assert summary.tokens["output"].tolist() == [40, 51, 40, 0] and summary.ok.tolist() == [
        True,
        True,
        True,
        False,
    ]
    line = sample("sglang_bench_serving.jsonl").read_text().strip()
    two = written(tmp_path / "two.jsonl", f"{line}\n{line}\n")  # SGLang appends a line per run
    assert [record.name for record in records.read_all(two)] == ["two.jsonl, run 0", "two.jsonl, run 1"]
    assert records.read(two, run=1).claims.peak == 3
    with pytest.raises(ValueError, match="it holds 2 runs; choose run=0 to 1"):
        records.read(two)
    with pytest.raises(ValueError, match="run is 2"):
        records.read(two, run=2)


def test_limits_that_no_check_knows_are_left_out(tmp_path):
    line = json.loads(sample("sglang_bench_serving.jsonl").read_text())
    line["goodput_slos_ms"] = {"ttft": 70, "itl": 20, "e2el": 900}
    record = records.read(written(tmp_path / "s.jsonl", line))
    assert record.claims.slo == {"ttft": 0.07, "response": 0.9} and audit(record).slo == record.claims.slo


def test_guidellm():
    record = read("guidellm_benchmarks.json")
    log, claims = record.log, record.claims
    assert len(log) == 1 and "1 of 2 requests" in record.unknown[-1]
    assert log.arrival[0] - log.intended[0] == near(0.002) and log.ttft[0] == near(0.052)
    assert log.response[0] == near(0.611)
    assert (log.prompt_tokens[0], log.output_tokens[0]) == (400, 40)
    assert (claims.requests, claims.failed, claims.offered_rate, claims.scv) == (2, 0, 4, 1)
    assert claims.mean == near({"ttft": 0.061}) and claims.attainment == 0.5
    assert claims.quantiles == near(
        {("ttft", 0.5): 0.052, ("ttft", 0.95): 0.07, ("ttft", 0.99): 0.07, ("ttft", 0.999): 0.07}
    )


def test_guidellm_counts_what_was_cut_off(tmp_path):
    whole = json.loads(sample("guidellm_benchmarks.json").read_text())
    run = whole["benchmarks"][0]
    request = run["requests"]["successful"][0]
    never = json.loads(json.dumps(request))
    never["info"]["timings"] |= {"request_start": None}
    run["requests"] |= {"incomplete": [request, never], "errored": [request]}
    log = records.read(written(tmp_path / "a.json", whole)).log
    assert log.ok.tolist() == [True, False, False] and log.finish[0] < log.finish[1] == np.inf


def test_aiperf(tmp_path):
    record = read("aiperf_profile_export.jsonl")
    log = record.log
    assert record.tool == "AIPerf" and len(log) == 1
    assert log.arrival[0] - log.intended[0] == near(0.002) and log.response[0] == near(0.648)
    assert log.ttft[0] == near(0.0521) and (log.prompt_tokens[0], log.output_tokens[0]) == (400, 43)
    line = json.loads(sample("aiperf_profile_export.jsonl").read_text())
    warm, failed = json.loads(json.dumps(line)), json.loads(json.dumps(line))
    warm["metadata"]["benchmark_phase"], failed["error"], failed["metrics"] = "warmup", {"code": 500}, {}
    text = "\n".join(json.dumps(row) for row in (warm, line, failed))
    record = records.read(written(tmp_path / "a.jsonl", text))
    assert record.log.ok.tolist() == [True, False] and "1 warm-up" in record.unknown[-1]
    assert record.prompts.tolist() == [0, 0]  # the same turn of the same conversation


def test_aiperf_summary():
    claims = read("aiperf_profile_export_aiperf.json").claims
    assert (claims.rate, claims.goodput, claims.failed, claims.requests) == (3.96, 3.6, 4, 204)
    assert claims.mean == near({"ttft": 0.0613})
    assert claims.quantiles == near({("ttft", 0.5): 0.052, ("ttft", 0.99): 0.131})


def test_genai_perf():
    record = read("genai_perf_profile_export.json")
    log = record.log
    assert log.ttft[0] == near(0.052) and log.response[0] == near(0.066) and log.longest_gap[0] == near(0.014)
    assert log.output_tokens is None and record.claims.users == 4 and record.prompts.tolist() == [0]


def test_llmperf():
    record = read("llmperf_individual_responses.json")
    durations, tokens = record.summary.durations, record.summary.tokens
    assert record.log is None and record.claims.requests == 1 and record.claims.failed == 0
    assert (durations["response"][0], durations["ttft"][0], durations["itl"][0]) == (0.648, 0.052, 0.0142)
    assert durations["tpot"][0] == near((0.648 - 0.052) / 42)
    assert (tokens["prompt"][0], tokens["output"][0]) == (400, 43)


def test_k6(tmp_path):
    record = read("k6_out.jsonl")
    assert record.log.response.tolist() == near([0.0052]) and record.claims.dropped == 1
    text = sample("k6_out.jsonl").read_text()
    late = text.splitlines()[1].replace("00:00:00.01Z", "01:00:00.010000123+01:00").replace("5.2", "2.2")
    late = late.replace('"expected_response": "true"', '"expected_response": "false"')
    log = records.read(written(tmp_path / "k.jsonl", f"{text}{late}\n")).log
    assert (log.finish[1] - log.finish[0]) == near(123e-9) and log.ok.tolist() == [True, False]


def test_locust():
    claims = read("lo_stats.csv").claims
    assert (claims.requests, claims.failed) == (1573, 0) and claims.rate == near(82.41117665420606)
    assert claims.mean["response"] == near(0.01855712027209411)
    told = {p: value for (_, p), value in claims.quantiles.items()}
    expected = {
        0.5: 0.008,
        0.66: 0.01,
        0.75: 0.012,
        0.8: 0.013,
        0.9: 0.019,
        0.95: 0.031,
        0.98: 0.051,
        0.99: 0.09,
    }
    assert told == near(expected | {0.999: 1.5, 0.9999: 1.5})


def test_wrk():
    record = read("wrk.txt")
    claims = record.claims
    assert (claims.requests, claims.users, claims.duration_s, claims.rate) == (5458, 4, 20.05, 272.19)
    assert claims.mean == near({"response": 0.06724})
    assert [claims.quantiles["response", p] for p in (0.5, 0.75, 0.9, 0.99)] == near(
        [0.01147, 0.01364, 0.03376, 1.29]
    )
    assert any("fills in" in sentence for sentence in record.unknown)


def test_hey(tmp_path):
    log = read("hey.csv").log
    assert log.response.tolist() == near([0.0049, 0.0173, 0.0209, 0.0234])
    assert log.arrival.tolist() == near([0, 0.0004, 0.0004, 0.0005])
    printed = (
        "\nSummary:\n  Total:\t1.0 secs\n  Average:\t0.0050 secs\n  Requests/sec:\t199.5\n\n"
        "Latency distribution:\n  50% in 0.0040 secs\n  99% in 0.0200 secs\n\nStatus code distribution:\n"
        "  [200]\t190 responses\n  [503]\t10 responses\n"
    )
    claims = records.read(written(tmp_path / "hey.txt", printed)).claims
    assert (claims.requests, claims.failed, claims.rate) == (200, 10, 199.5)
    assert claims.quantiles == near({("response", 0.5): 0.004, ("response", 0.99): 0.02})


def test_oha():
    claims = read("oha.json").claims
    assert (claims.requests, claims.failed, claims.duration_s, claims.rate) == (1992, 0, 20, 99.6)
    assert claims.mean == {"response": 0.12}
    assert [claims.quantiles["response", p] for p in (0.5, 0.95, 0.99, 0.999)] == [0.009, 1.02, 1.41, 1.5]


def test_vegeta(tmp_path):
    log = read("vegeta.csv").log
    assert log.arrival.tolist() == near([0, 0.01]) and log.response.tolist() == near([0.005012345, 1.49])
    row = {
        "attack": "",
        "seq": 0,
        "code": 500,
        "timestamp": "2026-01-01T00:00:00.5Z",
        "latency": 7000000,
        "error": "x",
    }
    log = records.read(written(tmp_path / "v.json", row)).log
    assert log.response.tolist() == near([0.007]) and log.ok.tolist() == [False]


def test_ycsb(tmp_path):
    claims = read("ycsb.txt").claims
    assert (claims.requests, claims.duration_s, claims.rate) == (59922, 60, 998.7)
    assert claims.quantiles == near({("response", 0.99): 0.0046, ("intended", 0.99): 1.22})
    more = sample("ycsb.txt").read_text() + "[READ], AverageLatency(us), 1000\n[UPDATE], Operations, 59922\n"
    more += (
        "[UPDATE], AverageLatency(us), 3000\n[UPDATE], Return=ERROR, 7\n[CLEANUP], AverageLatency(us), 9e9\n"
    )
    claims = records.read(written(tmp_path / "y.txt", more)).claims
    assert claims.mean["response"] == near(0.002) and claims.failed == 7


# --- traces, gauges, load tests and plain CSV -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("azure_2023/AzureLLMInferenceTrace_code.csv", 8819),
        ("azure_2023/AzureLLMInferenceTrace_conv.csv", 19366),
        ("mooncake_fast25/conversation_trace.jsonl", 12031),
        ("mooncake_fast25/synthetic_trace.jsonl", 3993),
    ],
)
def test_traces_are_recognised(name, rows):
    path = course.data(name)
    if path is None:
        pytest.skip(f"{name} is not here: set QLAB_DATA")
    record = records.read(path)
    assert len(record.trace) == rows == record.claims.requests and record.log is None


@pytest.mark.parametrize("scale", [100, 500, 1000])
def test_load_tests_are_recognised(scale):
    folder = "burstgpt_vllm_sweep"
    paths = [course.data(f"{folder}/{name}_scale{scale}_prompt500.{end}") for name, end in
             (("detail_log", "json"), ("vllm_log", "csv"))]  # fmt: skip
    if None in paths:
        pytest.skip("the load tests are not here: set QLAB_DATA")
    detail, gauge = map(records.read, paths)
    assert len(detail.log) == 500 and abs(gauge.gauge.time[0] - detail.zero) < 1
    assert "gauge samples" in repr(gauge)


def test_burstgpt_trace(tmp_path):
    text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    text += "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,0,1087,API log\n"
    trace = records.read(written(tmp_path / "BurstGPT_1.csv", text)).trace
    assert trace.arrival.tolist() == [0, 40] and trace.output_tokens.tolist() == [18, 0]
    assert trace.name == "BurstGPT BurstGPT_1"


def test_plain_csv_is_what_qlab_load_writes(tmp_path):
    log = RequestLog(
        [1.0, 2.0, 4.0], [1.5, 2.5, np.inf], [2.0, 3.0, np.inf], intended=[1.0, 1.5, 4.0],
        first_token=[1.6, 2.5, np.inf], output_tokens=[3, 1, 0], ok=[True, True, False],
    )  # fmt: skip
    write_csv(log, tmp_path / "log.csv")
    back = records.read(tmp_path / "log.csv")
    for field in dataclasses.fields(log):
        a, b = getattr(log, field.name), getattr(back.log, field.name)
        if a is None:
            assert b is None
        else:
            shift = 0 if field.name in ("output_tokens", "ok") else 1  # zero is the first moment
            np.testing.assert_allclose(np.asarray(b, float), np.asarray(a, float) - shift)
    text = "id,prompt,arrival,finish\na,x,3,4\nb,y,1,2\nc,x,2,9\n"
    record = records.read(written(tmp_path / "b.csv", text))
    assert record.log.finish.tolist() == [1, 8, 3] and record.prompts.tolist() == [1, 0, 0]
    assert len(record.unknown) == 2


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"rate": "fast"}, "rate is 'fast'; give a number"),
        ({"mean": {"response": -1}}, "mean is -1; give 0 or more"),
        ({"quantiles": {("response", 99): 1}}, "the share 99; give one between 0 and 1"),
        ({"requests": 3, "failed": 4}, "failed is 4 of 3 requests"),
        ({"slo": {"ttft": 0}}, "slo limits ttft to 0; give seconds above 0"),
    ],
)
def test_claims_are_numbers(claims, message):
    with pytest.raises(ValueError, match=message):
        records.Claims(**claims)
    told = records.Claims(rate=np.float64("nan"), mean={"ttft": np.inf, "response": np.float64(2)})
    assert told.rate is None and told.mean == {"response": 2}


# --- broken, mixed and unknown files --------------------------------------------------------------------------

K6 = '{"metric":"http_req_duration","type":"Point","data":{"time":"2026-01-01T00:00:00Z","value":5.2,"tags":{}}}\n'
CSV = "arrival,finish\n1,2\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it is empty"),
        (" \n\n", "it is empty"),
        (b"\x1f\x8b\x08\0", "it is not text; unpack it"),
        ("hello\n", "of no kind that is known; known are vLLM"),
        ("{}", "its JSON is of no kind that is known"),
        ('{"a": [1,', "its JSON is cut short or damaged, and of no kind"),
        (K6 + K6[:40], "line 2 is no complete JSON: the file is cut short"),
        (K6 + '{"arrival": 1}\n', "line 2 is no k6 metric, so two kinds of files are mixed"),
        (K6.replace("5.2", '"slow"'), "looks like a result of k6, but a field is missing or odd"),
        (K6.replace("5.2", "-5.2"), "values are impossible"),
        (CSV + "3", "line 3 has 1 of 2 fields"),
        (CSV + CSV, "line 3 has 'arrival' as arrival, which is no number"),
        (CSV + "5,4\n", "its values are impossible"),
        ("arrival,finish\n", "a header but no rows"),
        ("arrival,finish,arrival\n1,2,3\n", "names a column twice"),
        ("arrival,finish,ok\n1,2,3\n", "ok holds something else"),
        ("1700000000000000000,200,5012345,0,2,,b\n17000000000", "line 2 is no vegeta result"),
        ("[OVERALL], RunTime(ms), 60000\n[READ], Operations, x\n", "line 2 holds no number"),
        ("[OVERALL], RunTime(ms), 60000\n", "looks like a result of YCSB, but a field is missing"),
        ("Running 2s test @ http://x\n  Latency 1ms 2ms\n", "holds no latency distribution"),
        ("Type,Name,Request Count,Failure Count\nGET,x,1,0\n", "no row Aggregated"),
        ({"experiments": [], "service_kind": ""}, "but holds no run"),
        ({"benchmarks": [{}], "metadata": {}}, "looks like a result of GuideLLM, but a field is missing"),
        ([{"end_to_end_latency_s": 1, "ttft_s": 1}, {"a": 1}], "two kinds of files are mixed"),
        (
            {"num_prompts": 3, "completed": 3},
            "looks like a result of vLLM bench serve, but a field is missing",
        ),
    ],
)
def test_broken_files_get_one_sentence(tmp_path, content, message):
    path = written(tmp_path / "file", content)
    with pytest.raises(ValueError, match=message) as caught:
        records.read(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match="is no file"):
        records.read(tmp_path / "none")


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n"
GAUGE = "timestamp,num_running,num_pending,gpu_kvcache_usage\n1,3,0,5\n2,4,0,6\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (AZURE + f"2023-11-16 18:15:47.{'9' * 99},1,1\n", "row 2 has '2023-11-16 18:15:47.999"),
        (AZURE + f"2023-11-16 18:15:47,{'a' * 5000},1\n", "holds something else than a number"),
        (GAUGE + "1.5,9,9,9\n", "row 3 goes back in time, so two logs are mixed"),
        (CSV + "1e200,1e201\n", "a moment lies 1e.201 s after the first, so the unit of the times is another"),
        (CSV + f"{'a' * 5000},1\n", "which is no number|…"),
        ("Type,Name,Request Count,Failure Count,x\n", "no row Aggregated"),
        ("arrival,finish,arrival\n1,2,3\n", "names a column twice"),
    ],
)
def test_what_fuzzing_found_gets_one_short_sentence(tmp_path, monkeypatch, content, message):
    """Each of these once ended in a warning, a page of text, a file left open or an audit that broke."""
    path, left = written(tmp_path / "file", content), []
    gc.collect()  # what earlier tests left open is not this one's
    monkeypatch.setattr(sys, "unraisablehook", left.append)  # how the warning about an open file arrives
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=message) as caught:
            records.read(path)
        problem = str(caught.value)
        del caught
        gc.collect()
    assert not left
    assert problem.startswith(str(path)) and len(problem) < len(str(path)) + 500


def test_of_several_gauge_samples_with_one_stamp_the_last_counts(tmp_path):
    gauge = records.read(written(tmp_path / "g.csv", GAUGE + "2,7,1,9\n3,0,0,0\n")).gauge
    assert gauge.time.tolist() == [1, 2, 3] and gauge.running.tolist() == [3, 7, 0]


@pytest.mark.parametrize("name", SAMPLES)
def test_cut_and_changed_files_never_fail_otherwise(name, tmp_path):
    """Any prefix, and any file with some bytes changed, is read or refused in one sentence."""
    raw = sample(name).read_bytes()
    path = tmp_path / "file"

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.integers(1, len(raw)),
        st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(1, 255)), max_size=3),
    )
    def attempt(cut, changes):
        data = bytearray(raw)
        for where, byte in changes:
            data[where] = byte
        path.write_bytes(data[:cut])
        try:
            records.read_all(path)
        except ValueError as problem:
            assert str(problem).startswith(str(path)) and "\n" not in str(problem)

    attempt()


def test_large_files_are_read_in_bounded_memory(tmp_path):
    """Of a file that is read line by line, only the numbers are kept: the peak grows by less than its size."""
    with open(tmp_path / "big.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["arrival", "finish", "comment"])
        rows.writerows([f"{i / 100:.2f}", f"{i / 100 + 1:.2f}", "x" * 180] for i in range(60_000))
    size = (tmp_path / "big.csv").stat().st_size
    tracemalloc.start()
    record = records.read(tmp_path / "big.csv")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(record.log) == 60_000 and peak < 0.8 * size
    assert qs.time_average_in_system(record.log) == pytest.approx(100, rel=0.01)
