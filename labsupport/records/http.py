"""Result files of general load tools: k6, Locust, wrk, hey, oha, vegeta and YCSB.

k6 and vegeta and hey's CSV are read a line at a time; the others are a screenful.
"""

import re
from array import array
from datetime import datetime
from pathlib import Path

import numpy as np

from labsupport.records.files import csv_rows, json_lines, lines, whole_json, wrong
from labsupport.records.printed import parse_hey, parse_wrk
from labsupport.records.record import (
    FROM_SEND,
    NO_INTENDED,
    NO_REQUESTS,
    NO_SERVICE,
    Claims,
    Record,
    Summary,
    request_log,
)

_FRACTION = re.compile(r"\.(\d+)")


def _ns(text):
    """Nanoseconds since the epoch, as a whole number, of an ISO 8601 time (datetime keeps only microseconds)."""
    found = _FRACTION.search(text)
    whole = datetime.fromisoformat(text[: found.start()] + text[found.end() :] if found else text)
    return round(whole.timestamp()) * 10**9 + (int(f"{found[1]:0<9.9}") if found else 0)


def k6(path):
    """k6 `--out json`: a point is written when its request ends; its value is sending + waiting + receiving.

    What a request waited for a free connection is not in it. Iterations that no user was free for are dropped.
    """
    finish, duration, ok = array("d"), array("d"), array("d")
    zero, dropped, users = None, 0, 0
    for number, row in json_lines(path):
        if row.get("type") not in ("Metric", "Point") or "metric" not in row:
            raise wrong(path, f"line {number} is no k6 metric, so two kinds of files are mixed")
        if row["type"] == "Metric":
            continue
        data = row["data"]
        if row["metric"] == "dropped_iterations":
            dropped += int(data["value"])
        elif row["metric"] == "vus":
            users = max(users, data["value"])
        elif row["metric"] == "http_req_duration":
            moment = _ns(data["time"])
            zero = moment if zero is None else zero
            tags = data.get("tags") or {}
            finish.append((moment - zero) / 1e9)
            duration.append(data["value"] / 1000)
            ok.append(tags.get("expected_response") != "false" and not tags.get("error_code"))
    if zero is None:
        raise wrong(path, "it holds no http_req_duration", "write it with: k6 run --out json=FILE")
    finish = np.array(finish)
    log, _ = request_log(finish - np.array(duration), finish, ok)
    claims = Claims(requests=len(log), failed=len(log) - int(sum(ok)), users=users or None, dropped=dropped)
    return [Record("k6", log, claims=claims, unknown=(NO_SERVICE, FROM_SEND, NO_INTENDED))]


def vegeta(path):
    """vegeta `encode --to csv`: moment of sending in ns, status code, latency in ns, ..."""
    arrival, latency, ok = array("d"), array("d"), array("d")
    zero = None
    for number, line in lines(path):
        fields = line.split(",", 6)
        if len(fields) < 6 or not fields[0].isdigit() or not fields[2].isdigit():
            raise wrong(path, f"line {number} is no vegeta result: the file is cut short, damaged or mixed")
        moment = int(fields[0])
        zero = moment if zero is None else zero
        arrival.append((moment - zero) / 1e9)
        latency.append(int(fields[2]) / 1e9)
        ok.append(200 <= int(fields[1]) < 400 and not fields[5])
    arrival = np.array(arrival)
    log, _ = request_log(arrival, arrival + np.array(latency), ok)
    return [Record("vegeta", log, unknown=(NO_SERVICE, NO_INTENDED))]


def vegeta_json(path):
    """vegeta `encode --to json`: the same, one object per line."""
    arrival, latency, ok = array("d"), array("d"), array("d")
    zero = None
    for _, row in json_lines(path):
        moment = _ns(row["timestamp"])
        zero = moment if zero is None else zero
        arrival.append((moment - zero) / 1e9)
        latency.append(row["latency"] / 1e9)
        ok.append(200 <= row["code"] < 400 and not row.get("error"))
    arrival = np.array(arrival)
    log, _ = request_log(arrival, arrival + np.array(latency), ok)
    return [Record("vegeta", log, unknown=(NO_SERVICE, NO_INTENDED))]


def hey_csv(path):
    """hey `-o csv`: times to 0.1 ms; `offset` is when a request was sent. Requests without an answer are left out."""
    header, rows = csv_rows(path)
    at, took, code = (header.index(name) for name in ("offset", "response-time", "status-code"))
    arrival, latency, ok = array("d"), array("d"), array("d")
    for _, row in rows:
        arrival.append(float(row[at]))
        latency.append(float(row[took]))
        ok.append(int(row[code]) < 400)
    if not arrival:
        raise wrong(path, "it holds a header but no rows")
    arrival = np.array(arrival)
    log, _ = request_log(arrival, arrival + np.array(latency), ok)
    lost = "hey leaves requests that got no answer out of this file: failures are not counted."
    return [Record("hey", log, unknown=(NO_SERVICE, FROM_SEND, NO_INTENDED, lost))]


def hey_text(path):
    """What hey prints."""
    report = parse_hey(Path(path).read_text(encoding="utf-8", errors="replace"))
    return [_from_report(report, None)]


def wrk(path):
    """What `wrk --latency` prints. Its mean and percentiles include values that it filled in after the run."""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    report = parse_wrk(text)
    users = re.search(r"(\d+) connections", text)
    seconds = re.search(r"requests in ([\d.]+)s", text)
    back = "wrk fills in latencies of requests it did not send: its mean and percentiles are not of real requests."
    return [_from_report(report, users and int(users[1]), seconds and float(seconds[1]), (back,))]


def _from_report(report, users, seconds=None, unknown=()):
    claims = Claims(
        requests=report.requests,
        failed=report.errors,
        duration_s=seconds,
        rate=report.throughput,
        users=users,
        mean={"response": report.mean_s},
        quantiles={("response", p): value for p, value in report.quantiles_s.items()},
    )
    return Record(report.tool, summary=Summary(), claims=claims, unknown=(NO_REQUESTS, FROM_SEND, *unknown))


def oha(path):
    """oha `--output-format json`."""
    result = whole_json(path)
    told, codes = result["summary"], result.get("statusCodeDistribution") or {}
    errors = sum((result.get("errorDistribution") or {}).values())
    answers = sum(codes.values())
    quantiles = {
        ("response", round(float(name[1:]) / 100, 6)): value
        for name, value in (result.get("latencyPercentiles") or {}).items()
        if value is not None
    }
    claims = Claims(
        requests=answers + errors,
        failed=errors + sum(n for code, n in codes.items() if int(code) >= 400),
        duration_s=told["total"],
        rate=told["requestsPerSec"],
        mean={"response": told["average"]},
        quantiles=quantiles,
    )
    return [Record("oha", summary=Summary(), claims=claims, unknown=(NO_REQUESTS,))]


def locust(path):
    """Locust's _stats.csv, the row Aggregated. Percentiles are rounded, to two digits above 100 ms."""
    header, rows = csv_rows(path)
    row = next((fields for _, fields in rows if fields[header.index("Name")] == "Aggregated"), None)
    if row is None:
        raise wrong(path, "it has no row Aggregated: the file is cut short")
    told = dict(zip(header, row, strict=True))
    quantiles = {
        ("response", round(float(name[:-1]) / 100, 8)): float(value) / 1000
        for name, value in told.items()
        if name.endswith("%") and name != "100%" and value not in ("", "N/A")
    }
    claims = Claims(
        requests=int(told["Request Count"]),
        failed=int(told["Failure Count"]),
        rate=float(told["Requests/s"]),
        mean={"response": float(told["Average Response Time"]) / 1000},
        quantiles=quantiles,
    )
    users = "The number of users is not in this file, so Little's law cannot be checked against it."
    return [Record("Locust", summary=Summary(), claims=claims, unknown=(NO_REQUESTS, FROM_SEND, users))]


def ycsb(path):
    """What YCSB prints. Intended-READ and its like start the clock at the intended moment, READ at the real one."""
    told = {}
    for number, line in lines(path):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < 3 or not fields[0].startswith("["):
            continue  # YCSB prints other things between
        try:
            told[fields[0].strip("[]"), fields[1]] = float(fields[2])
        except ValueError:
            raise wrong(path, f"line {number} holds no number: the file is cut short or damaged") from None
    mean, quantiles, requests, failed = {}, {}, 0, 0
    weights = {}
    for (group, name), value in told.items():
        operation = group.removeprefix("Intended-")
        if (
            operation in ("OVERALL", "CLEANUP")
            or operation.startswith("TOTAL_GCS")
            or operation.endswith("-FAILED")
        ):
            continue
        key = "intended" if group.startswith("Intended-") else "response"
        if name == "Operations" and key == "response":
            requests += int(value)
        elif name.startswith("Return=") and key == "response" and name != "Return=OK":
            failed += int(value)
        elif name == "AverageLatency(us)":
            count = told.get((operation, "Operations"), 1)
            weights[key] = weights.get(key, 0) + count
            mean[key] = mean.get(key, 0) + count * value / 1e6
        elif found := re.fullmatch(r"([\d.]+)(?:st|nd|rd|th)?PercentileLatency\(us\)", name):
            p = round(float(found[1]) / 100, 6)
            quantiles[key, p] = max(
                quantiles.get((key, p), 0), value / 1e6
            )  # of several operations the slowest
    claims = Claims(
        requests=requests or None,
        failed=failed,
        duration_s=told["OVERALL", "RunTime(ms)"] / 1000,
        rate=told["OVERALL", "Throughput(ops/sec)"],
        mean={key: value / weights[key] for key, value in mean.items()},
        quantiles=quantiles,
    )
    return [Record("YCSB", summary=Summary(), claims=claims, unknown=(NO_REQUESTS,))]
