"""What hey and wrk print on the screen, read."""

import math
import re
from dataclasses import dataclass, field

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class ToolReport:
    """What a tool printed, in s and requests per second.

    quantiles_s  latency by probability: those the tool prints; below 100 requests hey prints no P99
    errors       requests that the tool counted as failed
    text         all of what it printed
    """

    tool: str
    requests: int
    throughput: float
    mean_s: float
    quantiles_s: dict[float, float]
    errors: int
    text: str = field(repr=False)
    partial: bool = False
    problems: tuple[str, ...] = ()

    @property
    def p99(self):
        """99th percentile of the latency in s, as the tool says it; NaN if it measured nothing."""
        return self.quantiles_s.get(0.99, math.nan)

    @property
    def answers(self):
        """Number of requests that were answered."""
        return self.requests

    def summary(self):
        return (
            f"{self.tool}: {self.requests} requests, {self.errors} not ok, P99 {self.p99 * 1e3:.3g} ms"
            f"{'; partial' if self.partial else ''}"
        )


def parse_hey(text):
    """The `ToolReport` of the summary that hey prints."""
    quantiles = {int(p) / 100: float(s) for p, s in re.findall(r"^ +([1-9]\d)% in ([\d.]+) secs", text, re.M)}
    answers = {int(code): int(n) for code, n in re.findall(r"^ +\[(\d{3})\]\s+(\d+) responses", text, re.M)}
    failed = sum(int(n) for n in re.findall(r"^ +\[(\d+)\]\s+(?!\d+ responses)\S", text, re.M))
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    mean = re.search(r"Average:\s+([\d.]+) secs", text)
    if not (rate and mean and quantiles):
        raise ValueError(_unreadable("hey", text))
    failed += sum(n for code, n in answers.items() if code >= 400)
    total = sum(answers.values())
    return ToolReport("hey", total, float(rate[1]), float(mean[1]), quantiles, failed, text)


def parse_wrk(text):
    """The `ToolReport` of what `wrk --latency` prints."""
    quantiles = {
        float(p) / 100: float(n) * UNITS[unit]
        for p, n, unit in re.findall(r"^ +([\d.]+)% +([\d.]+)(us|ms|s|m|h) *$", text, re.M)
    }
    requests = re.search(r"(\d+) requests in", text)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    mean = re.search(r"Latency +([\d.]+)(us|ms|s|m|h) ", text)
    if not (requests and rate and mean and 0.99 in quantiles):
        raise ValueError(_unreadable("wrk", text))
    broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    failed = sum(map(int, broken.groups()) if broken else ()) + int(refused[1] if refused else 0)
    return ToolReport(
        "wrk", int(requests[1]), float(rate[1]), float(mean[1]) * UNITS[mean[2]], quantiles, failed, text
    )


def _unreadable(tool, text):
    lines = [line for line in text.splitlines() if line.strip()]
    return f"the output of {tool} holds no latency distribution; it says: {lines[-1].strip() if lines else 'nothing'}"
