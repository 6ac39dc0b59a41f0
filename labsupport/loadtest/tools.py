"""Two load testing tools that many people use, run and read: hey and wrk."""

import asyncio
import math
import re
import shutil
import signal
from dataclasses import dataclass, field, replace

from labsupport.loadtest.clock import until

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
        for p, n, unit in re.findall(r"^ +([\d.]+)% +([\d.]+)(us|ms|s|m|h)$", text, re.M)
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


class _Tool:
    """A tool run against a URL for a whole number of seconds; one of the loads of `run`."""

    def __init__(self, url, duration_s, connections=1):
        if not (isinstance(duration_s, int) and duration_s >= 1):
            raise ValueError(
                f"duration_s = {duration_s!r} must be whole seconds, 1 or more, for {self.name}."
            )
        if not (isinstance(connections, int) and connections >= 1):
            raise ValueError(f"connections = {connections!r} must be a whole number, 1 or more.")
        if shutil.which(self.name) is None:
            raise FileNotFoundError(
                f"{self.name} is not installed; on Debian or Ubuntu: apt-get install {self.name}"
            )
        self.url, self.span_s, self.connections = url, duration_s, connections
        self.sent = 0
        self._text = ""

    async def drive(self, begin):
        await until(begin)
        process = await asyncio.create_subprocess_exec(
            *self.command(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # an interrupt comes from here, in order
        )
        reading = asyncio.create_task(process.communicate())
        try:
            await asyncio.shield(reading)
        except asyncio.CancelledError:
            process.send_signal(signal.SIGINT)  # both then print what they have
            if not (await asyncio.wait([reading], timeout=2))[0]:
                process.kill()
            raise
        finally:
            self._text = (await reading)[0].decode(errors="replace")

    def result(self, begin, reason):
        problems = (f"{self.name} was {reason}.",) if reason else ()
        try:
            report = self.parse(self._text)
        except ValueError as error:
            report = ToolReport(self.name, 0, math.nan, math.nan, {}, 0, self._text)
            problems += (f"{error}.",)
        return replace(report, partial=bool(reason), problems=problems)


class Hey(_Tool):
    """hey: `connections` workers, each of whom sends the next request when the answer is there.

    Its latencies are those it waited for, clock started at sending: what it did not send while it waited
    does not count.
    """

    name = "hey"
    parse = staticmethod(parse_hey)

    def command(self):
        return ["hey", "-z", f"{self.span_s}s", "-c", str(self.connections), self.url]


class Wrk(_Tool):
    """wrk: `connections` connections on one thread, each of which sends the next when the answer is there.

    It also starts its clock at sending, but after the run fills in what it thinks it did not send: with
    i = run time / requests per connection, each latency v is followed by v - i, v - 2i, ..., as in `backfill`.
    """

    name = "wrk"
    parse = staticmethod(parse_wrk)

    def command(self):
        return ["wrk", "-t1", f"-c{self.connections}", f"-d{self.span_s}s", "--latency", self.url]
