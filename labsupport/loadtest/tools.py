"""Two load testing tools that many people use, run: hey and wrk. `records.printed` reads what they print."""

import asyncio
import math
import shutil
import signal
from dataclasses import replace

from labsupport.loadtest.clock import until
from labsupport.records.printed import ToolReport, parse_hey, parse_wrk


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
