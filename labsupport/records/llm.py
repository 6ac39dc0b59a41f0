"""Result files of load tools for LLM servers.

vLLM bench serve, GuideLLM, genai-perf, llmperf and AIPerf's summary write one JSON document, loaded whole.
SGLang appends one line per run and AIPerf one line per request; those are read a line at a time.
"""

from array import array

import numpy as np

from labsupport.queueing.slo import QUANTITIES
from labsupport.records.files import json_lines, whole_json, wrong
from labsupport.records.record import (
    FROM_SEND,
    NO_INTENDED,
    NO_MOMENTS,
    NO_REQUESTS,
    NO_SERVICE,
    Claims,
    Record,
    Summary,
    distinct,
    request_log,
)

_NAMES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "response", "e2e_latency": "response"}
_NAMES |= {"client_queue_time": "client_queue", "e2el_including_client_queue": "intended"}


def _printed(result):
    """Means and quantiles in s from keys such as mean_ttft_ms, median_itl_ms, p99_e2el_ms."""
    mean, quantiles = {}, {}
    for key, value in result.items():
        which, _, rest = key.partition("_")
        name = _NAMES.get(rest.removesuffix("_ms"))
        if name is None or not rest.endswith("_ms") or not isinstance(value, (int, float)):
            continue
        if which == "mean":
            mean[name] = value / 1000
        elif which == "median":
            quantiles[name, 0.5] = value / 1000
        elif which[:1] == "p" and which[1:].replace(".", "").isdigit():
            quantiles[name, round(float(which[1:]) / 100, 6)] = value / 1000
    return mean, quantiles


def _rate(value):
    """A rate as a finite number; tools write inf, "inf" or null for "all at once"."""
    return float(value) if isinstance(value, (int, float)) and np.isfinite(value) else None


def _same_length(path, result, names):
    lengths = {name: len(result[name]) for name in names}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise wrong(path, f"its lists differ in length ({told}), so the file was edited or cut")
    return next(iter(lengths.values()))


def vllm(path):
    """vLLM `bench serve`: the plain result has aggregates, --save-detailed every request.

    `start_times` are taken after the concurrency cap let a request go; `queue_times`, in newer versions, are what
    it waited for that. A failed request has no usable times. Goodput divides the good successes by the duration.
    """
    result = whole_json(path)
    return [_vllm(path, result, "vLLM bench serve")]


def _vllm(path, result, tool):
    mean, quantiles = _printed(result)
    errors = result.get("errors")
    sent = len(errors) if errors is not None else result.get("num_prompts")
    if errors is None and result.get("failed") is not None:
        sent = result["completed"] + result["failed"]
    burstiness = _rate(result.get("burstiness"))
    claims = Claims(
        requests=sent,
        failed=result.get("failed") if "failed" in result else sent - result["completed"],
        duration_s=result["duration"],
        rate=result["request_throughput"],
        offered_rate=_rate(result.get("request_rate")),
        burstiness=burstiness,
        scv=1 / burstiness if burstiness else None,  # the shape of a gamma distribution
        cap=result.get("max_concurrency"),
        mean=mean,
        quantiles=quantiles,
        peak=result.get("max_concurrent_requests"),
        inside=result.get("concurrency"),
        goodput=result.get("request_goodput"),
        attainment=result.get("slo_attainment"),
        slo={_NAMES[k]: v / 1000 for k, v in (result.get("goodput_slos_ms") or {}).items() if _NAMES.get(k) in QUANTITIES},
        seed=result.get("seed"),
    )
    if "ttfts" not in result:
        return Record(tool, summary=Summary(), claims=claims, unknown=(NO_REQUESTS,))
    n = _same_length(path, result, ["ttfts", "itls", "output_lens", "input_lens", "errors"])
    ok = np.array([not error for error in errors], dtype=bool)
    ttft = np.array(result["ttfts"], dtype=float)
    decode = np.array([sum(gaps) for gaps in result["itls"]], dtype=float)
    response = np.array(result["latencies"], dtype=float) if "latencies" in result else ttft + decode
    tokens = {name: np.array(result[key], dtype=float) for name, key in
              (("prompt", "input_lens"), ("output", "output_lens"))}  # fmt: skip
    starts = result.get("start_times")
    if not starts:
        found = ok & (tokens["output"] > 1)
        durations = {"response": response, "ttft": ttft}
        durations["tpot"] = np.where(found, (response - ttft) / np.maximum(tokens["output"] - 1, 1), np.nan)
        return Record(
            tool, summary=Summary(durations, tokens, ok), claims=claims, unknown=(NO_MOMENTS, NO_SERVICE)
        )
    if len(starts) != n:
        raise wrong(path, f"it has {len(starts)} start_times for {n} requests, so the file was edited or cut")
    arrival = np.array(starts, dtype=float)
    columns, unknown = {}, [NO_SERVICE]
    if queue := result.get("queue_times"):
        columns["intended"] = arrival - np.array(queue, dtype=float)
    else:
        unknown += [FROM_SEND, NO_INTENDED]
    log, _ = request_log(
        arrival,
        np.where(ok, arrival + response, np.inf),
        ok,
        first_token=np.where(ok, arrival + ttft, np.inf),
        prompt_tokens=tokens["prompt"],
        output_tokens=tokens["output"],
        longest_gap=np.array([max(gaps, default=0.0) for gaps in result["itls"]], dtype=float),
        **columns,
    )
    return Record(tool, log, claims=claims, unknown=tuple(unknown))


def sglang(path):
    """SGLang `bench_serving`: one line per run. Its `concurrency` is the sum of response times over the duration."""
    return [_vllm(path, result, "SGLang bench_serving") for _, result in json_lines(path)]


def guidellm(path):
    """GuideLLM: each benchmark of the file is a run. `targeted_start` is the schedule, `request_start` the send."""
    records = []
    for run in whole_json(path)["benchmarks"]:
        groups = run["requests"]
        rows = [
            (row, status)
            for status in ("successful", "incomplete", "errored")
            for row in groups.get(status) or []
        ]
        metrics, strategy = run["metrics"], run["config"].get("strategy") or {}
        mean, quantiles = {}, {}
        known = {"time_to_first_token_ms": ("ttft", 1e-3), "time_per_output_token_ms": ("tpot", 1e-3)}
        known |= {"inter_token_latency_ms": ("itl", 1e-3), "request_latency": ("response", 1.0)}
        for key, (name, unit) in known.items():
            if told := (metrics.get(key) or {}).get("successful"):
                mean[name] = told["mean"] * unit
                for label, value in (told.get("percentiles") or {}).items():
                    if value is not None and label[1:].isdigit():
                        p = float(label[1:]) / 10 ** len(label[1:])  # p999 is 0.999
                        quantiles[name, p] = value * unit
        made = run["scheduler_metrics"]["requests_made"]
        kind = strategy.get("type_")
        claims = Claims(
            requests=made["total"],
            failed=made["errored"] + made["incomplete"],
            duration_s=run.get("duration"),
            rate=((metrics.get("requests_per_second") or {}).get("successful") or {}).get("mean"),
            offered_rate=_rate(strategy.get("rate")),
            scv={"poisson": 1.0, "constant": 0.0}.get(kind),
            cap=strategy.get("max_concurrency"),
            users=strategy.get("streams") if kind == "concurrent" else 1 if kind == "synchronous" else None,
            mean=mean,
            quantiles=quantiles,
            inside=((metrics.get("request_concurrency") or {}).get("successful") or {}).get("mean"),
            attainment=metrics.get("slo_attainment"),
            seed=strategy.get("random_seed"),
        )
        if not rows:
            records.append(Record("GuideLLM", summary=Summary(), claims=claims, unknown=(NO_REQUESTS,)))
            continue
        table = {
            name: array("d") for name in ("arrival", "finish", "ok", "intended", "first_token", "in", "out")
        }
        never = 0
        for row, status in rows:
            timing = row["info"]["timings"]
            if timing.get("request_start") is None:
                never += 1  # cut off before it was sent
                continue
            end = timing.get("request_end") if status != "incomplete" else None
            table["arrival"].append(timing["request_start"])
            table["finish"].append(np.inf if end is None else end)
            table["ok"].append(status == "successful")
            table["intended"].append(_number(timing.get("targeted_start")))
            table["first_token"].append(_number(timing.get("first_token_iteration")))
            table["in"].append(_number((row.get("input_metrics") or {}).get("text_tokens"), 0))
            table["out"].append(_number((row.get("output_metrics") or {}).get("text_tokens"), 0))
        columns = {"prompt_tokens": table["in"], "output_tokens": table["out"], "intended": table["intended"]}
        if np.isfinite(table["first_token"]).any():
            columns["first_token"] = table["first_token"]
        log, _ = request_log(table["arrival"], table["finish"], table["ok"], **columns)
        unknown = [NO_SERVICE]
        if len(log) + never < made["total"]:
            unknown.append(
                f"The file holds {len(log)} of {made['total']} requests: the others were not saved."
            )
        records.append(Record("GuideLLM", log, claims=claims, unknown=tuple(unknown)))
    return records


def _number(value, missing=np.nan):
    return missing if value is None else float(value)


def aiperf(path):
    """AIPerf, one line per request. The schedule's moment is `credit_issued_ns`; warm-up lines are left out."""
    names = ("arrival", "finish", "ok", "intended", "ttft", "in", "out")
    table = {name: array("d") for name in names}
    zero, warmup, turns = None, 0, []
    for number, row in json_lines(path):
        if "metadata" not in row or "request_start_ns" not in row["metadata"]:
            raise wrong(path, f"line {number} is no AIPerf record, so two kinds of files are mixed")
        about, metrics = row["metadata"], row.get("metrics") or {}
        if about.get("benchmark_phase") == "warmup":
            warmup += 1
            continue
        zero = (
            about["request_start_ns"] if zero is None else zero
        )  # whole ns: a float of the epoch is too coarse
        values = {name: (metrics.get(name) or {}) for name in
                  ("time_to_first_token", "input_sequence_length", "output_sequence_length")}  # fmt: skip
        ok = row.get("error") is None and not about.get("was_cancelled")
        credit = about.get("credit_issued_ns")
        table["arrival"].append((about["request_start_ns"] - zero) / 1e9)
        table["finish"].append((about["request_end_ns"] - zero) / 1e9 if ok else np.inf)
        table["ok"].append(ok)
        table["intended"].append(np.nan if credit is None else (credit - zero) / 1e9)
        ttft = values["time_to_first_token"]
        table["ttft"].append(
            _number(ttft.get("value")) * {"ms": 1e-3, "s": 1.0}.get(ttft.get("unit", "ms"), 1e-3)
        )
        table["in"].append(_number(values["input_sequence_length"].get("value"), 0))
        table["out"].append(_number(values["output_sequence_length"].get("value"), 0))
        turns.append((about.get("conversation_id"), about.get("turn_index")))
    if zero is None:
        raise wrong(path, "it holds warm-up requests only" if warmup else "it holds no request")
    columns = {"prompt_tokens": table["in"], "output_tokens": table["out"]}
    if not np.isnan(table["intended"]).all():
        columns["intended"] = table["intended"]
    ttft = np.array(table["ttft"])
    if not np.isnan(ttft).all():
        finish = np.array(table["finish"])
        columns["first_token"] = np.where(np.isnan(ttft), finish, np.array(table["arrival"]) + ttft)
    # The id names an entry of the data set, so the same turn of the same one is the same prompt again.
    known = all(isinstance(conversation, str) for conversation, _ in turns)
    prompts = distinct([(conversation, str(turn)) for conversation, turn in turns]) if known else None
    log, prompts = request_log(table["arrival"], table["finish"], table["ok"], prompts=prompts, **columns)
    unknown = [NO_SERVICE]
    if "intended" not in columns:
        unknown.append(NO_INTENDED)
    if warmup:
        unknown.append(f"{warmup} warm-up requests of the file are left out.")
    return [Record("AIPerf", log, prompts=prompts, unknown=tuple(unknown))]


def aiperf_summary(path):
    """AIPerf's summary (profile_export_aiperf.json): aggregates, each with its unit."""
    result = whole_json(path)
    units = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}
    known = {"time_to_first_token": "ttft", "inter_token_latency": "tpot", "request_latency": "response"}
    mean, quantiles = {}, {}
    for key, name in known.items():
        if told := result.get(key):
            unit = units[told["unit"]]
            mean[name] = told["avg"] * unit
            for label, value in told.items():
                if label[:1] == "p" and label[1:].isdigit():
                    quantiles[name, float(label[1:]) / 100] = value * unit

    def average(key):
        return (result.get(key) or {}).get("avg")

    good = average("request_count")
    if good is None:
        good = (
            max((told.get("count", 0) for told in (result.get(key) or {} for key in known)), default=0)
            or None
        )
    failed = average("error_request_count") or 0
    rate = result["request_throughput"]["avg"]
    claims = Claims(
        requests=None if good is None else int(good + failed),
        failed=int(failed),
        duration_s=average("benchmark_duration"),
        rate=rate,
        mean=mean,
        quantiles=quantiles,
        goodput=average("goodput"),
    )
    return [Record("AIPerf summary", summary=Summary(), claims=claims, unknown=(NO_REQUESTS,))]


def genai_perf(path):
    """genai-perf's profile export: each experiment is a run. It keeps when each chunk of an answer came.

    A chunk may hold several tokens, so there are no `output_tokens` and no TPOT.
    """
    records = []
    for run in whole_json(path)["experiments"]:
        if not (rows := run["requests"]):
            raise wrong(path, "one of its experiments holds no request")
        zero = rows[0]["timestamp"]
        arrival = [(row["timestamp"] - zero) / 1e9 for row in rows]
        chunks = [[(t - zero) / 1e9 for t in row["response_timestamps"]] for row in rows]
        ok = [bool(times) and row.get("success", True) for row, times in zip(rows, chunks, strict=True)]
        payloads = [str(inputs) if (inputs := row.get("request_inputs")) else None for row in rows]
        log, prompts = request_log(
            arrival,
            [times[-1] if times else np.inf for times in chunks],
            ok,
            first_token=[times[0] if times else np.inf for times in chunks],
            longest_gap=[max(np.diff(times), default=0.0) for times in chunks],
            prompts=distinct(payloads) if all(payloads) else None,
        )
        told = run.get("experiment") or {}
        mode, value = told.get("mode"), told.get("value")
        claims = Claims(
            requests=len(rows),
            failed=len(rows) - sum(ok),
            users=value if mode == "concurrency" else None,
            offered_rate=value if mode == "request_rate" else None,
        )
        unknown = (NO_SERVICE, NO_INTENDED, "Chunks are counted, not tokens: there is no TPOT.")
        records.append(Record("genai-perf", log, claims=claims, prompts=prompts, unknown=unknown))
    return records


def llmperf(path):
    """llmperf's individual responses. Its inter-token latency divides the whole response time, TTFT included."""
    rows = whole_json(path)
    if not all(isinstance(row, dict) and "end_to_end_latency_s" in row for row in rows):
        raise wrong(path, "some of its entries are no llmperf responses, so two kinds of files are mixed")
    ok = np.array([row.get("error_code") is None for row in rows], dtype=bool)
    response, ttft, itl = (
        np.array([_number(row.get(key)) for row in rows])
        for key in ("end_to_end_latency_s", "ttft_s", "inter_token_latency_s")
    )
    output, prompt = (
        np.array([_number(row.get(key), 0) for row in rows])
        for key in ("number_output_tokens", "number_input_tokens")
    )
    tpot = np.where(output > 1, (response - ttft) / np.maximum(output - 1, 1), np.nan)
    durations = {"response": response, "ttft": ttft, "tpot": tpot, "itl": itl}
    claims = Claims(requests=len(rows), failed=int((~ok).sum()))
    summary = Summary(durations, {"prompt": prompt, "output": output}, ok)
    return [Record("llmperf", summary=summary, claims=claims, unknown=(NO_MOMENTS, NO_SERVICE))]
