"""Public traces and load tests of LLM services, read from their own files: arrivals, tokens, gauges."""

import csv
import json
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from labsupport.queueing.requestlog import RequestLog
from labsupport.records.files import wrong

_STAMP = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,18})?)(?:\+00:00)?", re.ASCII)


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """Who came when and with how much work; nothing is known of how long it took.

    arrival        sorted times in s from the first request (float64)
    prompt_tokens  tokens to read, output_tokens: tokens that were written (float64)
    name           what it is, for titles
    """

    arrival: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    name: str

    def __len__(self):
        return len(self.arrival)

    def __repr__(self):
        return f"Trace({self.name}: {len(self)} requests in {self.arrival[-1]:.6g} s, {self.rate:.3g}/s)"

    @property
    def gaps(self):
        """Times between arrivals in s, one fewer than requests."""
        return np.diff(self.arrival)

    @property
    def rate(self):
        """Mean arrival rate in 1/s, the inverse of the mean gap; NaN for a single request."""
        span = self.arrival[-1]
        return (len(self) - 1) / span if span > 0 else float("nan")

    def without_ticks(self, tick_s, rng):
        """The trace with every arrival moved by a uniform random part of a tick, and sorted again.

        For timestamps that were rounded down to a clock of `tick_s` seconds: many requests at one instant and
        none until the next look like extreme bursts (the SCV of the gaps in the Mooncake conversation trace
        falls from 9.2 to 1.02). What happened within a tick is not recovered but assumed to be Poisson.
        """
        if not tick_s > 0:
            raise ValueError(
                f"tick_s is {tick_s!r}; give the length of the clock's tick in seconds, above 0."
            )
        moved = self.arrival + tick_s * rng.random(len(self))
        return _trace(moved, self.prompt_tokens, self.output_tokens, f"{self.name}, without ticks")


@dataclass(frozen=True, eq=False)
class Gauge:
    """What a vLLM engine said about itself, sample by sample; times on the clock of the request log.

    time      when each sample was taken, in s; not evenly spaced: this engine writes only while it works
    running   requests in the batch, waiting: requests in its queue
    kv_usage  share of the KV cache in use, 0 to 1
    """

    time: np.ndarray
    running: np.ndarray
    waiting: np.ndarray
    kv_usage: np.ndarray


def azure(path):
    """A trace of the Azure LLM inference services (2023; Patel et al., Splitwise, ISCA 2024) from its CSV.

    Raises FileNotFoundError, or ValueError for a file that is empty, cut short or something else, in one
    sentence.
    """
    columns = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
    stamps, tokens = [], []
    for first, rows in _parts(_csv(path, columns, "an Azure LLM inference trace")):
        stamps.append(_stamps(path, [row[0] for row in rows], first))
        tokens.append(_numbers(path, columns[1:], [row[1:] for row in rows], first))
    stamps, (prompt, output) = np.concatenate(stamps), np.concatenate(tokens, axis=1)
    seconds = (stamps - stamps.min()).astype(np.int64) / 1e9
    kind = {"conv": "conversation", "code": "code"}.get(Path(path).stem.rpartition("_")[2], Path(path).stem)
    return _trace(seconds, prompt, output, f"Azure 2023 {kind}")


def burstgpt(path):
    """A trace of ChatGPT and GPT-4 use at a university (BurstGPT; Wang et al., KDD 2025) from its CSV.

    Timestamps are whole seconds. A request with 0 response tokens failed; it is kept, since it arrived.
    Raises as `azure`.
    """
    columns = ("Timestamp", "Request tokens", "Response tokens")
    parts = [
        _numbers(path, columns, rows, first)
        for first, rows in _parts(_csv(path, columns, "a BurstGPT trace"))
    ]
    seconds, prompt, output = np.concatenate(parts, axis=1)
    return _trace(seconds - seconds.min(), prompt, output, f"BurstGPT {Path(path).stem}")


def mooncake(path):
    """A trace of Kimi's service (Qin et al., Mooncake, FAST 2025) from its JSON lines.

    The timestamps of the conversation trace stand on ticks of 3 s, give or take some milliseconds. They are
    returned as they are; see `Trace.without_ticks`. Raises as `azure`.
    """
    keys = ("timestamp", "input_length", "output_length")

    def rows():
        for number, line in _lines(path):
            try:
                row = json.loads(line)
                yield [float(row[key]) for key in keys]
            except (KeyError, TypeError, ValueError, RecursionError):
                raise _wrong(path, f"line {number} is not a request with {', '.join(keys)}") from None

    parts = [_numbers(path, keys, part, first) for first, part in _parts(rows())]
    ms, prompt, output = np.concatenate(parts, axis=1)
    return _trace(
        (ms - ms.min()) / 1000, prompt, output, f"Mooncake {Path(path).stem.removesuffix('_trace')}"
    )


def burstgpt_sweep(detail_json, gauge_csv):
    """One load test of a vLLM server (BurstGPT; Wang et al., KDD 2025): (RequestLog, Gauge) on one clock.

    detail_json  the client's record of 500 requests, gauge_csv: the engine's own log of the same test

    Time 0 is the first arrival. The client knows when it sent (record_time - total_chunk_time) and when the
    last byte came, not when the engine took the request up: `start` equals `arrival`, so `service` is the
    whole response time. The record counts the output in characters, not tokens, so there are no
    `output_tokens` and no TPOT.

    Requests in the system, by three definitions that ought to agree, at load scales 100 / 500 / 1000:

    number of requests / (last finish - first arrival) * mean response    20.7   151.2   208.1
    running, each sample weighted with the time until the next            21.0   137.2   176.5
    running, plain mean of the samples                                    31.1   140.5   169.9

    The plain mean is too high at 100, where the engine idles and then writes nothing. At 500 and 1000 the
    gauge misses the requests that wait: running + waiting, weighted by time, are 151.5 and 208.1.

    Raises as `azure`.
    """
    log, zero = burstgpt_detail(detail_json)
    return log, vllm_gauge(gauge_csv, zero)


def burstgpt_detail(path):
    """The client's record of one BurstGPT load test alone: (RequestLog, moment of its zero on the file's clock)."""
    keys = ("record_time", "total_chunk_time", "first_chunk_time", "in_len")
    try:
        requests = json.loads(_text(path))
        rows = [[float(request[key]) for key in keys] for request in requests.values()]
    except json.JSONDecodeError as problem:
        raise _wrong(path, f"the JSON breaks off or is damaged at line {problem.lineno}") from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _wrong(path, f"it is not a record of requests with {', '.join(keys)}") from None
    if not rows:
        raise _wrong(path, "it holds no request")
    finish, response, ttft, prompt = _numbers(path, keys, rows)
    arrival = finish - response
    zero = arrival.min()
    log = RequestLog.from_unsorted(
        arrival=arrival - zero,
        start=arrival - zero,
        # Rounding may place the first token of a request of one chunk after its end.
        first_token=np.minimum(arrival + ttft, finish) - zero,
        finish=finish - zero,
        prompt_tokens=prompt,
    )
    return log, zero


def vllm_gauge(path, zero=0.0):
    """The `Gauge` of a vLLM engine's own log (CSV), its times counted from `zero`."""
    columns = ("timestamp", "num_running", "num_pending", "gpu_kvcache_usage")
    rows = list(_csv(path, columns, "a vLLM gauge log"))
    time, running, waiting, kv_percent = _numbers(path, columns, rows)
    steps = np.diff(time, append=np.inf)
    if (steps < 0).any():
        raise _wrong(path, f"row {steps.argmin() + 2} goes back in time, so two logs are mixed")
    last = steps > 0  # of several samples with one stamp
    return Gauge(time[last] - zero, running[last], waiting[last], kv_percent[last] / 100)


def _trace(arrival, prompt_tokens, output_tokens, name):
    order = np.argsort(arrival, kind="stable")
    columns = [arrival[order] - arrival[order[0]], prompt_tokens[order], output_tokens[order]]
    for column in columns:
        column.flags.writeable = False
    return Trace(*columns, name)


def _csv(path, columns, kind):
    """The named columns of the rows of a CSV file as text, one row at a time."""
    reader = csv.reader(line for _, line in _lines(path))
    header = next(reader)
    missing = [name for name in columns if name not in header]
    if missing:
        raise _wrong(path, f"its first line has no column {missing[0]!r}, so it is not {kind}")
    where = [header.index(name) for name in columns]
    number = 1
    for number, row in enumerate(reader, start=2):
        if len(row) != len(header):
            raise _wrong(path, f"line {number} has {len(row)} of {len(header)} fields")
        yield [row[i] for i in where]
    if number == 1:
        raise _wrong(path, "it holds a header but no rows")


def _parts(rows, size=1 << 16):
    """(number of the first, list of rows) for part after part, so that a large file is never in memory as text."""
    rows, first = iter(rows), 0
    while part := list(islice(rows, size)):
        yield first, part
        first += len(part)


def _stamps(path, texts, first=0):
    """Times as datetime64: their seven decimals are too many for datetime and for one float of the epoch."""
    try:
        plain = [_STAMP.fullmatch(text) for text in texts]  # numpy would take half a date, and an empty one
        if None in plain:
            row = plain.index(None)
            raise ValueError(f"row {first + row + 1} has {texts[row]!r:.60}")
        return np.array([stamp[1] for stamp in plain], dtype="datetime64[ns]")
    except ValueError as problem:
        raise _wrong(path, f"a timestamp cannot be read ({problem})") from None


def _numbers(path, names, rows, first=0):
    """The columns of the rows as float arrays, all finite and 0 or more."""
    try:
        numbers = np.array(rows, dtype=float)
    except ValueError as problem:
        raise _wrong(path, f"{' or '.join(names)} holds something else than a number ({problem})") from None
    good = np.isfinite(numbers) & (numbers >= 0)
    if not good.all():
        row, column = np.argwhere(~good)[0]
        raise _wrong(path, f"{names[column]} of row {first + row + 1} is {numbers[row, column]:g}")
    return numbers.T


def _lines(path):
    """(number, line) of the lines of a file that hold anything, one at a time."""
    empty = True
    try:
        with open(_need_file(path), encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    empty = False
                    yield number, line
    except UnicodeDecodeError:
        raise _wrong(path, "it is not text") from None
    if empty:
        raise _wrong(path, "it is empty")


def _text(path):
    return "".join(line for _, line in _lines(path))


def _need_file(path):
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"{path} is no file; check the path, or get a public one with labsupport.records.download.fetch."
        )
    return path


def _wrong(path, problem):
    return wrong(path, problem, "get the file again, for instance with labsupport.records.download.fetch")
