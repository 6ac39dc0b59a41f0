"""Reading a result file of any known tool: the format is recognised by what is in the file, not by its name."""

import json
import re
from array import array
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from labsupport.queueing.requestlog import RequestLog
from labsupport.records import http, llm, traces
from labsupport.records.files import csv_rows, head, one_sentence, wrong
from labsupport.records.record import (
    NO_INTENDED,
    NO_MOMENTS,
    NO_SERVICE,
    Claims,
    Record,
    Summary,
    request_log,
)

KNOWN = (
    "vLLM bench serve, SGLang bench_serving, GuideLLM, AIPerf, genai-perf, llmperf, k6, Locust, wrk, hey, oha, "
    "vegeta, YCSB, Azure, BurstGPT and Mooncake traces, and CSV with columns arrival and finish in s"
)
_NOTHING_FINISHED = (
    "A trace holds arrivals and sizes: how long requests took, and whether they failed, is not in it."
)


def read(path, run=None):
    """The `Record` of a result file (see `KNOWN` for the tools).

    run  which one, from 0, where a file holds several runs

    Files of one line per request are read in bounded memory; those that are one JSON document (vLLM, GuideLLM,
    genai-perf, llmperf, AIPerf's summary, oha, BurstGPT's load tests) must be loaded whole, up to 1 GB.
    Raises FileNotFoundError, or ValueError in one sentence, for a file that is missing, unknown, cut short or mixed.
    """
    records = read_all(path)
    if run is None and len(records) > 1:
        raise wrong(
            path, f"it holds {len(records)} runs", f"choose run=0 to {len(records) - 1}, or use read_all"
        )
    if not 0 <= (run or 0) < len(records):
        raise ValueError(f"run is {run!r} but {path} holds {len(records)}; give 0 to {len(records) - 1}.")
    return records[run or 0]


def read_all(path):
    """All runs of a result file, as a list of `Record`; raises as `read`."""
    tool, reader = _recognise(path, head(path))
    with one_sentence(path, tool):
        records = reader(path)
    if not records:
        raise wrong(path, f"it looks like a result of {tool}, but holds no run")
    name = Path(path).name
    if len(records) == 1:
        return [replace(records[0], name=name)]
    return [replace(record, name=f"{name}, run {number}") for number, record in enumerate(records)]


def _recognise(path, text):
    """(tool, reader) by the first characters of a file."""
    first = text.partition("\n")[0].strip()
    if re.match(r"Running .* test @", first):
        return "wrk", http.wrk
    if re.match(r"\[\w[\w-]*\], ", first) or "[OVERALL], " in text:
        return "YCSB", http.ycsb
    if text[0] in "{[":
        return _recognise_json(path, text, first)
    if "Status code distribution:" in text and "Requests/sec:" in text:
        return "hey", http.hey_text
    columns = {name.strip() for name in first.split(",")}
    for needed, tool, reader in (
        ({"response-time", "status-code", "offset"}, "hey", http.hey_csv),
        ({"Type", "Name", "Request Count", "Failure Count"}, "Locust", http.locust),
        ({"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, "an Azure trace", _as_trace(traces.azure)),
        ({"Timestamp", "Request tokens", "Response tokens"}, "a BurstGPT trace", _as_trace(traces.burstgpt)),
        ({"timestamp", "num_running", "num_pending"}, "a vLLM gauge log", _gauge),
        ({"arrival", "finish"}, "a CSV of requests", plain_csv),
    ):
        if needed <= columns:
            return tool, reader
    if re.match(r"\d{16,20},\d+,\d+,", first):
        return "vegeta", http.vegeta
    raise wrong(path, "it is of no kind that is known", f"known are {KNOWN}")


def _recognise_json(path, text, first):
    keys = _first_keys(text)
    for needed, tool, reader in (
        ({"start_times", "ttfts"}, "vLLM bench serve", llm.vllm),
        ({"metric", "type"}, "k6", http.k6),
        ({"metadata", "metrics", "error"}, "AIPerf", llm.aiperf),
        ({"credit_issued_ns", "request_start_ns"}, "AIPerf", llm.aiperf),
        ({"sharegpt_output_len", "request_throughput"}, "SGLang bench_serving", llm.sglang),
        ({"mean_e2e_latency_ms", "request_throughput"}, "SGLang bench_serving", llm.sglang),
        ({"tokenizer_id", "request_throughput"}, "vLLM bench serve", llm.vllm),
        ({"num_prompts", "completed"}, "vLLM bench serve", llm.vllm),
        ({"timestamp", "input_length", "output_length"}, "a Mooncake trace", _as_trace(traces.mooncake)),
        ({"latency", "timestamp", "code"}, "vegeta", http.vegeta_json),
        ({"end_to_end_latency_s", "ttft_s"}, "llmperf", llm.llmperf),
        ({"record_time", "total_chunk_time"}, "a BurstGPT load test", _sweep),
        ({"successRate", "requestsPerSec"}, "oha", http.oha),
        ({"experiments", "service_kind"}, "genai-perf", llm.genai_perf),
        ({"experiment", "response_timestamps"}, "genai-perf", llm.genai_perf),
        ({"benchmarks", "type_"}, "GuideLLM", llm.guidellm),
        ({"benchmarks", "metadata"}, "GuideLLM", llm.guidellm),
        ({"request_throughput", "unit"}, "AIPerf", llm.aiperf_summary),
    ):
        if needed <= keys:
            return tool, reader
    try:
        json.loads(first if first.startswith("{") and text.count("\n") > 1 and first.endswith("}") else text)
    except (json.JSONDecodeError, RecursionError):
        raise wrong(path, "its JSON is cut short or damaged, and of no kind that is known") from None
    raise wrong(path, "its JSON is of no kind that is known", f"known are {KNOWN}")


def _first_keys(text):
    """Names of keys that occur early in a JSON text, which may break off."""
    return set(re.findall(r'"([A-Za-z_]\w*)"\s*:', text))


def _as_trace(reader):
    def record(path):
        trace = reader(path)
        claims = Claims(requests=len(trace))
        return [
            Record(trace.name, trace=trace, summary=Summary(), claims=claims, unknown=(_NOTHING_FINISHED,))
        ]

    return record


def _sweep(path):
    log, zero = traces.burstgpt_detail(path)
    told = "The output is counted in characters, not in tokens: there is no TPOT."
    return [Record("BurstGPT load test", log, zero=zero, unknown=(NO_SERVICE, NO_INTENDED, told))]


def _gauge(path):
    told = "The file holds an engine's samples: what happened to single requests is not in it."
    return [
        Record("vLLM gauge log", summary=Summary(), gauge=traces.vllm_gauge(path), unknown=(told, NO_MOMENTS))
    ]


def plain_csv(path):
    """A CSV with a header of RequestLog's column names, times in s; arrival and finish are needed.

    `start` may be left out. `prompt` may name the prompt of a request: equal text means equal prompts.
    """
    header, rows = csv_rows(path)
    known = {field.name for field in fields(RequestLog)}
    used = [(i, name) for i, name in enumerate(header) if name in known]
    names = [name for _, name in used]
    if len(set(names)) < len(names):
        raise wrong(path, "its header names a column twice")
    table = {name: array("d") for name in names}
    where = header.index("prompt") if "prompt" in header else None
    prompts, seen = array("q"), {}
    for number, row in rows:
        try:
            for i, name in used:
                text = row[i].strip()
                table[name].append(
                    _TRUTH[text.lower()] if name == "ok" and text.lower() in _TRUTH else float(text)
                )
        except ValueError:
            raise wrong(path, f"line {number} has {row[i]!r} as {name}, which is no number") from None
        if where is not None:
            prompts.append(seen.setdefault(row[where], len(seen)))
    if not table["arrival"]:
        raise wrong(path, "it holds a header but no rows")
    columns = {name: column for name, column in table.items() if name not in ("arrival", "finish", "ok")}
    ok = table.get("ok")
    if ok is not None and not set(ok) <= {0.0, 1.0}:
        raise wrong(path, "its column ok holds something else than true and false")
    log, ids = request_log(
        table["arrival"], table["finish"], ok, prompts=None if where is None else np.array(prompts), **columns
    )
    unknown = [] if "start" in names else [NO_SERVICE]
    if "intended" not in names:
        unknown.append(NO_INTENDED)
    return [Record("CSV", log, prompts=ids, unknown=tuple(unknown))]


_TRUTH = {"true": 1.0, "false": 0.0}
