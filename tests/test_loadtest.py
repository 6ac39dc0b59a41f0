"""The load generators and the server: against the simulators, the operational laws, other clocks and real tools.

Other programs compete for the processors while tests run. So these run first in line where they may, a band around
a measured time widens with what a plain program got at the same moment, and is measured again before it fails.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import csv
import gc
import http.client
import importlib.util
import json
import os
import re
import select
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labsupport.loadtest import (
    ClosedLoop,
    Hey,
    LoadLog,
    OpenLoop,
    Wrk,
    parse_hey,
    parse_wrk,
    run,
    server_process,
    serving,
)
from labsupport.loadtest import cli as commands
from labsupport.loadtest.client import Row
from labsupport.loadtest.loadlog import load_log
from labsupport.loadtest.virtual import Behaviour, VirtualServer
from labsupport.queueing.requestlog import RequestLog
from labsupport.queueing.simulate import Stalls, fcfs_servers, stalled
from labsupport.queueing.statistics import attainment, backfill
from labsupport.queueing.workload import deterministic, exponential, poisson

URL = "http://127.0.0.1:1"  # where nobody listens


def needed(missing):
    """Skip the test for want of something, but fail for it in CI."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(missing)


@pytest.fixture(autouse=True)
def packages():
    for name in ("aiohttp", "httptools"):
        if importlib.util.find_spec(name) is None:
            needed(f"{name} is not installed; pip install '.[load]'")


@pytest.fixture(scope="module", autouse=True)
def first_in_line():
    """Where it is allowed, run before other programs: what is judged here is this one, not its neighbours."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    yield
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, before)


def twice(measure, judge):
    """Judge a measurement by a list of complaints, and one of double length if there are any."""
    if complaints := judge(measure(1)):
        print("again, because of:", *complaints, sep="\n")
        complaints = judge(measure(2))
        assert not complaints, "; ".join(complaints)


@pytest.fixture(scope="module")
def null_server():
    """A server that answers at once, for tests that change nothing about it."""
    with serving() as url:
        yield url


def interrupt_after(seconds):
    """Ctrl-C in this process, or the interrupt button of a notebook."""
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


def listening(url):
    host, port = url.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def gone(url, within_s=5):
    end = time.monotonic() + within_s
    while listening(url):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def open_files():
    return len(os.listdir("/proc/self/fd"))


def server_pid(url):
    """The process that listens at `url`, found by its socket."""
    port = f":{int(url.rpartition(':')[2]):04X}"
    with open("/proc/net/tcp") as table:
        inode = next(f[9] for line in table if (f := line.split())[1].endswith(port) and f[3] == "0A")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        if f"socket:[{inode}]" in links:
            return int(pid)
    raise AssertionError(f"nobody listens at {url}")


def script(code, **options):
    """A Python program in a process and a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


# -- the server serves as the simulators say ---------------------------------------------------------


def spaced(rng, n, mean, least):
    """Send times in s no closer than `least`, so that requests arrive in the order of sending."""
    return np.cumsum(least + rng.exponential(mean - least, n))


def differs(log, simulated):
    """Complaints: where the real response times are other than the simulated, beyond delays of a few ms."""
    late = log.response - simulated.response
    complaints = [] if log.ok.all() else [f"{len(log) - log.answers} failed"]
    quick, median = np.quantile(late, (0.1, 0.5))
    if not -0.001 < quick < 0.003 or not median < 0.015:
        complaints.append(f"answers are {quick * 1e3:.2f} and {median * 1e3:.2f} ms late at P10, P50")
    if not np.median(np.abs(log.wait - simulated.wait)) < 0.004:
        complaints.append(f"waits are {np.median(np.abs(log.wait - simulated.wait)) * 1e3:.2f} ms off")
    return complaints


def test_two_slots_serve_in_order_as_simulated():
    rng = np.random.default_rng(5)

    def measure(longer):
        n = 90 * longer
        service = exponential(0.027).sample(rng, n)
        with serving(service, concurrency=2) as url:
            log = run(OpenLoop(url, spaced(rng, n, 0.015, 0.006)))
        return log, fcfs_servers(log.arrival, service, 2)

    def judge(measured):
        log, simulated = measured
        assert 0.008 < simulated.wait.mean(), "too few wait for this to say anything"
        return differs(log, simulated)

    twice(measure, judge)


def test_stalls_of_the_server_are_those_of_the_simulator():
    rng = np.random.default_rng(6)
    stalls = Stalls(0.2, 0.6, 0.2)

    def measure(longer):
        n = 120 * longer
        with serving(0.004, stalls=stalls) as url:
            log = run(OpenLoop(url, spaced(rng, n, 0.011, 0.006)))
        # the server's time begins with the first request
        return log, stalled(log.arrival - log.arrival[0], np.full(n, 0.004), stalls)

    def judge(measured):
        log, simulated = measured
        assert np.quantile(simulated.response, 0.9) > 0.05
        return differs(log, simulated)

    twice(measure, judge)


def test_nothing_begins_in_a_stall():
    """Who comes in a stall to an idle server waits for its end, and says so."""

    async def visit(server):
        loop = asyncio.get_running_loop()
        async with server.slot() as (turn, service_s):
            came = loop.time() - server.began
            await turn.work(service_s)
        return came, turn.queue_s, loop.time() - server.began

    async def visits():
        server = VirtualServer(Behaviour((0.001,), stalls=Stalls(0.3, 10, 0.05)))
        first = await visit(server)
        await asyncio.sleep(0.1)
        return first, await visit(server)

    with ThreadPoolExecutor(1) as other:  # the browser tests leave a loop running in this thread
        (_, no_wait, _), (came, wait, left) = other.submit(asyncio.run, visits()).result()
    assert no_wait == 0 and 0.1 < came < 0.35
    assert came + wait == pytest.approx(0.35, abs=0.02) and left >= 0.351


def test_a_law_is_drawn_with_its_seed():
    first = server_process.behaviour(exponential(0.1), seed=1).service_s
    assert first == server_process.behaviour(exponential(0.1), seed=1).service_s
    assert first != server_process.behaviour(exponential(0.1), seed=2).service_s
    assert np.mean(first) == pytest.approx(0.1, rel=5 / len(first) ** 0.5)


def test_a_client_that_goes_away_gives_its_place_back():
    with serving(0.4) as url:
        host = url.removeprefix("http://")
        gone_away = [http.client.HTTPConnection(host) for _ in range(5)]
        for connection in gone_away:
            connection.request("GET", "/")
        time.sleep(0.1)
        for connection in gone_away:
            connection.close()
        log = run(OpenLoop(url, [0.0]))
    assert log.ok.all() and log.response[0] < 1.2, "it waited for those who had left (2.4 s)"


def test_tokens_come_at_their_time():
    """A slot is held until the last token: TTFT counts service and queue, TPOT is the time per token."""
    tokens = [1, 4, 9]

    def measure(longer):
        with serving(0.03, concurrency=3, token_s=0.02) as url:
            return run(OpenLoop(url, np.arange(6 * longer) * 0.15, output_tokens=tokens, prompt_tokens=5))

    def judge(log):
        assert log.ok.all()
        assert (log.output_tokens == np.resize(tokens, len(log))).all() and (log.prompt_tokens == 5).all()
        assert (np.isnan(log.tpot) == (log.output_tokens == 1)).all()
        complaints = []
        if not 0.02 < np.nanmedian(log.tpot) + 1e-3 < 0.023:
            complaints.append(f"TPOT is {np.nanmedian(log.tpot)}")
        if not 0.03 <= np.median(log.ttft) < 0.04:
            complaints.append(f"TTFT is {np.median(log.ttft)}")
        return complaints

    twice(measure, judge)


# -- the protocol, seen by another client ------------------------------------------------------------


@pytest.fixture
def completions(null_server):
    """Posts to /v1/completions by http.client: (status, headers, body)."""

    def post(body, path="/v1/completions"):
        connection = http.client.HTTPConnection(null_server.removeprefix("http://"), timeout=10)
        content = body if isinstance(body, bytes) else json.dumps(body)
        connection.request("POST", path, content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        result = answer.status, dict(answer.getheaders()), answer.read().decode()
        connection.close()
        return result

    return post


def test_streamed_completion_is_what_openai_clients_read(completions):
    asked = {"model": "m", "prompt": "one two three", "max_tokens": 3, "stream": True}
    status, headers, body = completions(asked | {"stream_options": {"include_usage": True}})
    assert status == 200 and headers["Content-Type"].startswith("text/event-stream")
    assert re.fullmatch(r"queue;dur=[\d.]+", headers["Server-Timing"])
    events = body.split("\n\n")
    assert events.pop() == "" and all(event.startswith("data: ") for event in events)
    assert events.pop() == "data: [DONE]"
    *chunks, usage = [json.loads(event.removeprefix("data: ")) for event in events]
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert {chunk["model"] for chunk in chunks} == {"m"} and len({chunk["id"] for chunk in chunks}) == 1
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "length"]
    assert len("".join(chunk["choices"][0]["text"] for chunk in chunks).split()) == 3
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}
    assert len(completions(asked)[2].split("\n\n")) == len(events) + 1, "no usage unless asked for"


def test_whole_completion_has_default_length(completions):
    status, _, body = completions({"model": "m", "prompt": "one two"})
    answer = json.loads(body)
    assert status == 200 and answer["choices"][0]["finish_reason"] == "length"
    assert len(answer["choices"][0]["text"].split()) == answer["usage"]["completion_tokens"] == 16


@pytest.mark.parametrize(
    "body, word",
    [
        (b"{", "JSON"),
        (b"[1]", "object"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"max_tokens": "many"}, "max_tokens is 'many'"),
    ],
)
def test_senseless_completions_are_refused_with_the_reason(completions, body, word):
    status, _, text = completions(body)
    assert status == 400 and word in json.loads(text)["error"]["message"]


def test_other_paths_are_not_found(completions):
    assert completions({}, "/v1/embeddings")[0] == 404


# -- the server ends ---------------------------------------------------------------------------------


def test_server_ends_after_an_error_in_the_block():
    with pytest.raises(KeyboardInterrupt), serving() as url:
        assert listening(url)
        raise KeyboardInterrupt
    assert not listening(url)


WITH_SERVER = """
    import time
    from labsupport.loadtest import serving
    with serving(1.0) as url:
        print(url, flush=True)
        time.sleep(60)
"""


def test_server_ends_when_its_parent_is_killed():
    parent = script(WITH_SERVER)
    url = parent.stdout.readline().strip()
    assert listening(url)
    parent.kill()
    parent.communicate(timeout=10)
    assert gone(url)


def test_server_ends_when_its_terminal_sends_an_interrupt_to_all():
    parent = script(WITH_SERVER)
    url = parent.stdout.readline().strip()
    os.killpg(parent.pid, signal.SIGINT)
    _, error = parent.communicate(timeout=10)
    assert gone(url)
    assert error.count("Traceback") == 1 and error.rstrip().endswith("KeyboardInterrupt"), (
        "only the block's own"
    )


def test_port_that_cannot_be_had_is_one_sentence(null_server):
    taken = int(null_server.rpartition(":")[2])
    with pytest.raises(OSError, match=rf"^port {taken} is taken by another program; choose another"):
        serving(port=taken).__enter__()
    with pytest.raises(OSError, match="^port 70000 cannot be used"):
        serving(port=70000).__enter__()
    assert listening(null_server)


# -- the open generator sends on time ----------------------------------------------------------------

# A program that does nothing but sleep until the same moments and work as long as one sending takes.
PLAIN = """
    import sys, time
    due = [float(word) for word in sys.stdin.read().split()]
    begin, late = time.monotonic(), []
    for moment in due:
        time.sleep(max(0, begin + moment - time.monotonic()))
        late.append(time.monotonic() - begin - moment)
        end = time.monotonic() + 1e-4
        while time.monotonic() < end:
            pass
    print(*late)
"""


@contextlib.contextmanager
def plain_program(times):
    """Runs beside the block; afterwards the list it yields holds how late a plain program was, in s."""
    process, late = script(PLAIN, stdin=subprocess.PIPE), []
    try:
        process.stdin.write(" ".join(map(str, times)))
        process.stdin.close()
        process.stdin = None
        yield late
        late.extend(map(float, process.communicate(timeout=60)[0].split()))
    finally:
        process.kill()
        process.wait()


def test_a_thousand_requests_per_second_leave_within_3_ms(null_server):
    rng = np.random.default_rng(7)

    def measure(longer):
        times = poisson(rng, 1000, 1500 * longer)
        with plain_program(times) as plain:
            return run(OpenLoop(null_server, times)), plain

    def judge(measured):
        log, plain = measured
        assert log.ok.all() and len(log) >= 1500
        assert (log.lateness >= 0).all() and log.lateness == pytest.approx(log.arrival - log.intended)
        allowed = max(0.003, 2.5 * np.quantile(plain, 0.99))
        late = np.quantile(log.lateness, 0.99)
        assert late == log.lateness_p99
        return [] if late < allowed else [f"P99 of lateness is {late * 1e3:.2f} ms, not {allowed * 1e3:.2f}"]

    twice(measure, judge)


# A server that answers at once and only writes down when requests came, on the clock all processes share.
STAMPS = """
    import asyncio, sys, time
    stamps = []
    class Stamp(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport
        def data_received(self, data):
            stamps.append(time.monotonic())
            self.transport.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
    async def main():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Stamp, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await loop.run_in_executor(None, sys.stdin.read)
        print(*stamps)
    asyncio.run(main())
"""


def test_what_the_generator_says_of_its_lateness_is_what_the_server_sees():
    """Half of the requests are intended for moments that the generator is made to miss by up to 150 ms."""
    times = np.arange(200) * 0.005

    def measure(longer):
        server = script(STAMPS, stdin=subprocess.PIPE)
        try:
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            load = OpenLoop(url, times)
            send, count = load._send, 0

            async def held_up(row, number):
                nonlocal count
                count += 1
                if count % 60 == 0:
                    time.sleep(0.15)  # the event loop stands still, as it would for any long computation
                await send(row, number)

            load._send = held_up
            log = run(load)
            came = np.array(server.communicate("", timeout=20)[0].split(), dtype=float)
        finally:
            server.kill()
            server.wait()
        return log, came

    def judge(measured):
        log, came = measured
        assert log.ok.all() and len(came) == len(log) == 200
        assert log.lateness_max > 0.14 and log.spoiled
        seen = np.sort(came) - log.intended
        off = np.abs(seen - seen.min() - (log.lateness - log.lateness.min()))
        off = np.quantile(off, 0.75)
        assert np.quantile(seen - seen.min(), 0.75) > 0.03, "too few are late for this to say anything"
        return [] if off < 0.02 else [f"a quarter of what it says is off by more than {off * 1e3:.1f} ms"]

    twice(measure, judge)


def test_an_overburdened_generator_says_so(null_server, capsys):
    log = run(OpenLoop(null_server, np.arange(3000) / 60_000))
    assert log.spoiled and log.lateness_max > 0.05 and not log.partial
    assert "which spoils the result" in capsys.readouterr().err
    assert any("spoils the result" in problem for problem in log.problems)


def test_what_a_notebook_holds_is_not_searched_for_garbage_meanwhile(null_server):
    """A collection of all objects stops every thread, and with them the generator."""
    held = [[i] for i in range(200_000)]

    def collect(seconds):
        begin = time.perf_counter()
        gc.collect()
        seconds.append(time.perf_counter() - begin)

    before, during, after = [], [], []
    collect(before)
    threading.Timer(0.2, collect, [during]).start()
    run(OpenLoop(null_server, [0.0, 0.4]))
    collect(after)
    assert during[0] < min(before[0], after[0]) / 3 and len(held)


def test_lateness_spoils_only_what_it_is_a_large_part_of():
    def log(late, response):
        return load_log([Row(i, i, i + late, finish=i + late + response, ok=True) for i in range(100)], 0.0)

    assert log(0.02, 0.1).spoiled and log(0.0015, 0.001).spoiled
    assert not log(0.02, 1.0).spoiled and not log(0.0005, 0.001).spoiled


# -- the closed generator ----------------------------------------------------------------------------


def test_closed_loop_keeps_the_interactive_response_time_law():
    """R = N/X - Z (Denning and Buzen, 1978), over the window in which all users are in the loop."""
    users, think = 20, 0.05

    def measure(longer):
        with serving(exponential(0.005)) as url:
            return run(ClosedLoop(url, users, 2.2 * longer, think))

    def judge(log):
        assert log.ok.all() and log.in_system(log.arrival).max() <= users
        end = log.arrival[-1] - 0.2
        inside = log.between(0.3, end)
        throughput = np.count_nonzero((log.finish >= 0.3) & (log.finish < end)) / (end - 0.3)
        law = users / throughput - think
        measured = (inside.finish - inside.intended).mean()  # a late send is part of the user's cycle too
        return [] if abs(measured / law - 1) < 0.02 else [f"R is {measured:.4f} s, the law says {law:.4f} s"]

    twice(measure, judge)


def test_think_times_are_drawn_with_the_seed(null_server):
    def thought(seed):
        return next(ClosedLoop(null_server, 1, 1, exponential(2.0))._thinking(np.random.SeedSequence(seed)))

    assert thought(1) == thought(1) != thought(2)
    drawn, constant = run(
        ClosedLoop(null_server, 5, 0.6, exponential(0.03)),
        ClosedLoop(null_server, 5, 0.6, deterministic(0.1)),
    )
    assert 20 < len(drawn) < 150 and 10 <= len(constant) <= 25
    user = constant.arrival[constant.arrival.argsort()][::5]  # the five go in step
    assert np.median(np.diff(user)) == pytest.approx(0.1, abs=0.03)


def test_one_user_never_has_two_requests_in_flight(null_server):
    log = run(ClosedLoop(null_server, 1, 0.3))
    assert len(log) > 5
    assert (log.arrival[1:] >= log.finish[:-1]).all()
    assert log.intended[1:] == pytest.approx(log.finish[:-1], abs=1e-9), (
        "without thinking, when the answer came"
    )


# -- the cap -----------------------------------------------------------------------------------------


def test_cap_that_queues_hides_waits_from_a_clock_started_at_sending():
    """Case c1 (8 requests at 10/s through a cap of 1, 0.5 s each: hidden waits 0 to 2.8 s), four times faster."""

    def measure(longer):
        with serving(0.125) as url:
            return run(OpenLoop(url, np.arange(8) / 40, cap=1))

    def judge(log):
        assert log.in_system(log.arrival).max() == 1
        assert (log.response_from_intended >= 0.125 * np.arange(1, 9) - np.arange(8) / 40 - 0.001).all()
        hidden = log.arrival - log.intended
        checks = {
            f"hidden waits are {hidden}": np.allclose(hidden, 0.1 * np.arange(8), atol=0.06),
            f"their mean is {hidden.mean()}": abs(hidden.mean() - 1.40 / 4) < 0.04,
            f"response times are {log.response}": abs(np.median(log.response) - 0.125) < 0.02,
            f"the last user waits {log.response_from_intended[-1]}": log.response_from_intended[-1]
            < 3.3 / 4 + 0.06,
            f"waiting for the cap counts as lateness: {log.lateness}": np.median(log.lateness) < 0.02,
        }
        return [complaint for complaint, holds in checks.items() if not holds]

    twice(measure, judge)


def test_cap_that_drops_or_skips():
    """Case c15, 18 times faster: 1 arrival/s, 1.9 s each: one virtual user drops 15 of 30, two carry it."""
    times = np.arange(30) / 18
    kinds = [(when_full, cap) for when_full in ("drop", "skip") for cap in (1, 2)]
    with serving(0.085, concurrency=9) as url:
        logs = run(*[OpenLoop(url, times, cap=cap, when_full=when_full) for when_full, cap in kinds])
    for (when_full, cap), log in zip(kinds, logs, strict=True):
        lost = 30 - log.answers
        assert abs(lost - {1: 15, 2: 0}[cap]) <= 2, "an answer that is held up costs another request or two"
        assert len(log) + log.skipped == 30
        if when_full == "skip":
            assert log.skipped == lost and log.ok.all()
            assert attainment(log, 1.0).value == 1.0, "whoever is skipped is gone from the statistics"
        else:
            assert np.isinf(log.start[~log.ok]).all() and np.isnan(log.lateness[~log.ok]).all()
            assert (log.finish[~log.ok] == log.arrival[~log.ok]).all()
            assert attainment(log, 1.0).value == (30 - lost) / 30


def test_open_without_a_cap_waits_for_nobody():
    """Overload: all are sent at their time, and wait in the server."""
    with serving(0.02) as url:
        log = run(OpenLoop(url, np.arange(30) * 0.005))
    assert np.median(log.lateness) < 0.1
    assert log.in_system(0.145) > 12
    assert 30 * 0.02 - 0.145 - 0.001 < log.response_from_intended[-1] < 1.0


def test_run_is_bounded_and_what_is_unanswered_is_kept():
    begin = time.monotonic()
    with serving(0.3) as url:
        log = run(OpenLoop(url, np.arange(20) * 0.01, cap=2, timeout_s=0.6))
    assert time.monotonic() - begin < 3.5
    assert len(log) == 20 and log.answers in (1, 2) and not log.partial
    assert np.isinf(log.finish[~log.ok]).all() and np.isinf(log.start[~log.ok]).all()
    assert np.isnan(log.lateness).sum() >= 15, "never sent"
    assert attainment(log, 10.0).value == log.answers / 20


def test_request_is_given_up_after_its_timeout():
    with serving(5.0, concurrency=9) as url:
        log = run(ClosedLoop(url, 2, 0.45, timeout_s=0.2))
    assert len(log) in (4, 6) and not log.ok.any() and np.isinf(log.finish).all()
    assert np.diff(log.arrival[::2]) == pytest.approx(0.2, abs=0.15)


# -- what answers may look like ----------------------------------------------------------------------


@contextlib.contextmanager
def answering(*pieces, close=False, times=99):
    """A server that answers each request with these bytes, a moment apart; yields its URL."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            for _ in range(times):
                if not self.request.recv(65536):
                    return
                for piece in pieces:
                    self.request.sendall(piece)
                    time.sleep(0.002)
                if close:
                    return

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nword\r\n0\r\n\r\n"
PLAINLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    "pieces, close, fine, finishes",
    [
        ([PLAINLY], False, True, True),
        ([PLAINLY[i : i + 1] for i in range(len(PLAINLY))], False, True, True),
        ([CHUNKED[i : i + 3] for i in range(0, len(CHUNKED), 3)], False, True, True),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", PLAINLY], False, True, True),
        ([b"HTTP/1.0 200 OK\r\n\r\nuntil it closes"], True, True, True),
        ([PLAINLY.replace(b"200 OK", b"503 Busy")], False, False, True),
        ([PLAINLY.replace(b"200 OK", b"429 Too Many")], True, False, True),
        ([b"this is no HTTP\r\n\r\n"], False, False, True),
        ([PLAINLY[:-1]], True, False, True),
        ([b""], True, False, True),
        ([PLAINLY[:-1]], False, False, False),
    ],
    ids=[
        "plain",
        "bytewise",
        "chunked",
        "100",
        "to the end",
        "503",
        "429",
        "nonsense",
        "cut",
        "shut",
        "never",
    ],
)
def test_answers_of_all_kinds(pieces, close, fine, finishes):
    with answering(*pieces, close=close) as url:
        log = run(OpenLoop(url, [0.0, 0.1], timeout_s=9.0 if finishes else 0.3))
    assert log.ok.tolist() == [fine, fine] and not log.partial
    assert np.isfinite(log.finish).tolist() == [finishes, finishes]
    assert np.isfinite(log.start).tolist() == [fine, fine]


def events(*contents, done=True):
    lines = [b"data: " + json.dumps(c).encode() + b"\n\n" for c in contents] + [b"data: [DONE]\n\n"] * done
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + b"".join(lines)


TOKEN = {"choices": [{"index": 0, "text": " a"}]}
EMPTY = {"choices": [{"index": 0, "text": ""}]}
USAGE = {"choices": [], "usage": {"completion_tokens": 7}}


@pytest.mark.parametrize(
    "content, fine, tokens",
    [
        (events(EMPTY, TOKEN, TOKEN), True, 2),
        (events(TOKEN, USAGE), True, 7),
        (events(TOKEN, TOKEN, done=False), False, 2),
        (b"HTTP/1.1 200 OK\r\n\r\n: a comment\n\ndata: nothing\n\ndata: [DONE]\n\n", False, 0),
    ],
    ids=["empty first", "usage counts", "cut off", "no token"],
)
def test_streams_of_other_servers(content, fine, tokens):
    half = content.index(b"\r\n\r\n") + 25
    with answering(content[:half], content[half:], close=True) as url:
        log = run(OpenLoop(url, [0.0], output_tokens=5, timeout_s=0.5))
    assert log.ok[0] == fine and log.output_tokens[0] == tokens
    assert np.isfinite(log.first_token[0]) == (tokens > 0)


def test_wait_is_what_the_server_says():
    said = b"HTTP/1.1 200 OK\r\nServer-Timing: db;dur=9, queue;dur=%s;desc=x\r\nContent-Length: 0\r\n\r\n"
    for text, wait in ((b"4", 0.004), (b"many", 0.0), (b"9999", None)):
        with answering(b"", b"", b"", b"", said % text) as url:
            log = run(OpenLoop(url, [0.0]))
        assert log.wait[0] == pytest.approx(log.response[0] if wait is None else wait), (
            "never beyond the finish"
        )


# -- stopped in the middle ---------------------------------------------------------------------------


def test_interrupt_keeps_what_was_measured(capsys):
    files, threads = open_files(), threading.active_count()
    with serving(0.02, concurrency=9) as url:
        interrupt_after(0.7)
        begin = time.monotonic()
        log, other = run(OpenLoop(url, np.arange(6000) * 0.01), ClosedLoop(url, 2, 60))
        assert time.monotonic() - begin < 3
    error = capsys.readouterr().err
    for part in (log, other):
        assert part.partial and 5 < part.answers < len(part)
        assert np.isinf(part.finish[~part.ok]).all()
        assert (
            part.problems[0].startswith("interrupted after ")
            and "kept and marked partial" in part.problems[0]
        )
        assert part.problems[0] in error and "partial" in repr(part)
    assert "Traceback" not in error
    assert threading.active_count() <= threads + 1 and open_files() <= files  # the timer may still be there


def test_interrupt_button_of_a_notebook(tmp_path):
    """In a kernel, whose own event loop is running: the cell ends well, the next one works, nothing is left."""
    jupyter_client = importlib.import_module("jupyter_client")
    manager, client = jupyter_client.manager.start_new_kernel(cwd=str(tmp_path))
    try:

        def cell(code, interrupt_s=None):
            shown = {"text": "", "bars": []}
            timer = threading.Timer(interrupt_s or 0, manager.interrupt_kernel)

            def output(message):
                content = message["content"]
                if message["msg_type"] == "stream":
                    shown["text"] += content["text"]
                    if interrupt_s and "ready" in content["text"]:
                        timer.start()
                elif message["msg_type"] in ("display_data", "update_display_data"):
                    shown["bars"].append(content["data"]["text/html"])

            reply = client.execute_interactive(code, output_hook=output, timeout=60)
            return reply["content"]["status"], shown

        cell("import numpy as np\nfrom labsupport.loadtest import ClosedLoop, OpenLoop, run, serving")
        status, shown = cell(
            "with serving(0.01) as url:\n"
            "    print('ready', flush=True)\n"
            "    log = run(OpenLoop(url, np.arange(6000) * 0.01))",
            interrupt_s=1.0,
        )
        assert status == "ok", shown
        assert re.search(r"interrupted after \d\.\d s of 60 s", shown["text"])
        assert any("<progress" in bar for bar in shown["bars"]) and "partial" in shown["bars"][-1]
        status, shown = cell(
            "import threading, urllib.request\n"
            "print(log.partial, log.answers > 5, threading.enumerate())\n"
            "try: urllib.request.urlopen(url)\n"
            "except OSError: print('gone')\n"
        )
        assert status == "ok" and shown["text"].startswith("True True") and "gone" in shown["text"]
        assert "load test" not in shown["text"], "its thread is still there"
        status, shown = cell("with serving() as url: print(run(ClosedLoop(url, 1, 0.3)).partial)")
        assert status == "ok" and "False" in shown["text"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_server_killed_in_the_middle(capsys):
    files = open_files()
    with serving(0.02, concurrency=9) as url:
        threading.Timer(0.7, os.kill, (server_pid(url), signal.SIGKILL)).start()
        begin = time.monotonic()
        logs = run(OpenLoop(url, np.arange(6000) * 0.01), ClosedLoop(url, 2, 60))
        assert time.monotonic() - begin < 5
    for log in logs:
        assert log.partial and 5 < log.answers < len(log)
        assert re.fullmatch(
            rf"stopped after [\d.]+ s of 60 s because no server answers at {url} \(connection refused\); "
            rf"the {len(log)} requests until then are kept and marked partial\.",
            log.problems[0],
        )
        assert log.problems[0] in capsys.readouterr().err or log is logs[1]
    assert open_files() <= files


def test_no_server_at_all_is_one_sentence():
    with pytest.raises(
        ConnectionError, match=rf"^no server answers at {URL} \(connection refused\); start one"
    ):
        run(OpenLoop(URL, [0.0]), ClosedLoop(URL, 2, 1))


def test_out_of_sockets_is_one_sentence_and_keeps_what_was_measured():
    code = """
        import resource
        import numpy as np
        from labsupport.loadtest import OpenLoop, run, serving
        with serving(np.array([0.1] * 20 + [9.0] * 200), concurrency=999) as url:
            resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
            log = run(OpenLoop(url, np.arange(2000) * 0.01))
            print(log.partial, log.answers, len(log))
    """
    process = script(code)
    out, error = process.communicate(timeout=30)
    assert process.returncode == 0, error
    partial, answers, n = out.split()
    assert partial == "True" and int(answers) >= 20 and int(n) > 40
    problem = error.splitlines()[0]
    assert re.search(
        r"because this computer gives no socket beyond the \d+ that are open \(Too many open", problem
    )
    assert problem.endswith("kept and marked partial.") and "Traceback" not in error


def test_an_error_inside_leaves_nothing_running(null_server):
    load = ClosedLoop(null_server, 3, 60)

    async def broken(row, number):
        raise ZeroDivisionError

    load._send = broken
    files = open_files()
    with pytest.raises(BaseExceptionGroup) as caught:
        run(load, OpenLoop(null_server, np.arange(6000) * 0.01))
    assert caught.group_contains(ZeroDivisionError)
    assert not [t for t in threading.enumerate() if t.name == "load test"] and open_files() <= files


def test_load_can_be_run_again(null_server):
    load = OpenLoop(null_server, [0.0, 0.01])
    assert len(run(load)) == len(log := run(load)) == 2
    assert isinstance(log, LoadLog) and not log.partial and log.skipped == 0
    with pytest.raises(ValueError, match="read-only"):
        log.lateness[0] = 0


# -- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: OpenLoop("localhost:80", [0.0]), "url = 'localhost:80' is no address of a server; give"),
        (lambda: OpenLoop(URL, []), "intended must be one row of at least one finite time"),
        (lambda: OpenLoop(URL, [-1.0]), "intended must be .* none below 0"),
        (lambda: OpenLoop(URL, [1.0, 0.5]), "intended is not sorted at row 1; sort it"),
        (lambda: OpenLoop(URL, [0.0], cap=0), "cap = 0 must be a whole number, 1 or more"),
        (
            lambda: OpenLoop(URL, [0.0], cap=1, when_full="wait"),
            "when_full = 'wait' is unknown; choose one of queue",
        ),
        (lambda: OpenLoop(URL, [0.0], timeout_s=0), "timeout_s = 0 must be a number of seconds above 0"),
        (lambda: OpenLoop(URL, [0.0], output_tokens=[3, 0]), "output_tokens = 0 must be a whole number"),
        (lambda: ClosedLoop(URL, 1.5, 1), "users = 1.5 must be a whole number"),
        (lambda: ClosedLoop(URL, 1, 0), "duration_s = 0 must be a number of seconds above 0"),
        (
            lambda: ClosedLoop(URL, 1, 1, think=-1),
            "think = -1 must be a think time in s, 0 or more, or a Law",
        ),
        (lambda: server_process.behaviour(-1.0), "service must hold at least one time in s"),
        (lambda: server_process.behaviour("fast"), "service must be seconds, a Law or an array"),
        (lambda: server_process.behaviour([[1.0]]), "service has 2 dimensions"),
        (lambda: server_process.behaviour(1.0, 0), "concurrency = 0 must be a whole number of slots"),
        (lambda: server_process.behaviour(1.0, token_s=-1), "token_s = -1 must be a time in s"),
        (
            lambda: server_process.behaviour(1.0, stalls=(1, 10)),
            r"stalls must be Stalls\(length_s, period_s\)",
        ),
        (lambda: run(), "run needs loads such as"),
        (lambda: run("http://127.0.0.1"), "run needs loads such as"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_missing_packages_are_one_sentence(monkeypatch):
    monkeypatch.setattr(server_process, "find_spec", lambda name: None)
    for call in (lambda: serving().__enter__(), lambda: run(OpenLoop(URL, [0.0]))):
        with pytest.raises(
            ImportError, match=r"^load tests need aiohttp and httptools; install with: pip install"
        ):
            call()


def test_package_is_light_and_names_what_it_has():
    code = "import sys, labsupport.loadtest, labsupport.loadtest.cli as c; print('numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from labsupport.loadtest import nothing  # noqa: F401


@given(
    st.lists(
        st.tuples(*[st.floats(0, 9)] * 4, st.booleans(), st.integers(0, 9), st.booleans()),
        min_size=1,
        max_size=9,
    )
)
@settings(max_examples=50, deadline=None)
def test_any_rows_make_a_log(rows):
    """Whatever happened to the requests, in whatever order: a valid log that keeps all of them."""
    begin = 100.0
    made = []
    for intended, late, first, rest, ended, tokens, never in rows:
        row = Row(begin + intended, begin + intended, begin + intended + late, tokens=tokens)
        if tokens:
            row.first_token = row.sent + first
        if ended:
            row.finish = row.sent + first + rest
            row.ok = bool(tokens)
        elif never and not tokens:
            row.due = np.inf
        row.queue_s = rest
        made.append(row)
    log = load_log(made, begin, prompt_tokens=3)
    assert isinstance(log, RequestLog) and len(log) == len(rows)
    assert log.answers == sum(row.ok for row in made)
    assert np.isnan(log.lateness).sum() == sum(row.due == np.inf for row in made)
    assert sorted(log.output_tokens) == sorted(row.tokens for row in made)
    assert type(log.between(0, 5)) is RequestLog and "LoadLog" in repr(log)


# -- other tools, and how each starts its clock ------------------------------------------------------

HEY = """
Summary:
  Total:	4.0012 secs
  Slowest:	1.0031 secs
  Fastest:	0.0011 secs
  Average:	0.0123 secs
  Requests/sec:	81.2300

Latency distribution:
  10% in 0.0012 secs
  50% in 0.0015 secs
  90% in 0.0021 secs
  99% in 0.0104 secs

Status code distribution:
  [200]	300 responses
  [503]	20 responses

Error distribution:
  [5]	Get "http://127.0.0.1:1": dial tcp 127.0.0.1:1: connect: connection refused
"""
WRK = """Running 4s test @ http://127.0.0.1:1
  1 threads and 1 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   135.46ms   64.42ms   1.01s    60.00%
    Req/Sec     8.00      2.74    10.00     60.00%
  Latency Distribution
     50%  850.00us
     75%    1.20ms
     90%    0.90s
     99%    1.50m
  1234 requests in 4.00s, 0.94KB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 5
Requests/sec:    308.50
Transfer/sec:     50.00KB
"""


def test_output_of_hey_is_read():
    report = parse_hey(HEY)
    assert (report.requests, report.errors, report.throughput, report.mean_s) == (320, 25, 81.23, 0.0123)
    assert (
        report.quantiles_s == {0.1: 0.0012, 0.5: 0.0015, 0.9: 0.0021, 0.99: 0.0104} and report.p99 == 0.0104
    )
    short = HEY.replace("  99% in 0.0104", "  0% in 0.0000")  # what it prints below 100 requests
    assert np.isnan(parse_hey(short).p99) and parse_hey(short).quantiles_s[0.9] == 0.0021


def test_output_of_wrk_is_read():
    report = parse_wrk(WRK)
    assert (report.requests, report.errors, report.throughput) == (1234, 15, 308.5)
    assert report.mean_s == pytest.approx(0.13546)
    assert report.quantiles_s == pytest.approx({0.5: 850e-6, 0.75: 1.2e-3, 0.9: 0.9, 0.99: 90.0})
    clean = "\n".join(line for line in WRK.splitlines() if "errors" not in line and "Non-2xx" not in line)
    assert parse_wrk(clean).errors == 0


@pytest.mark.parametrize("parse", [parse_hey, parse_wrk])
@pytest.mark.parametrize("text", ["", "unable to connect to 127.0.0.1:1 Connection refused\n"])
def test_output_without_a_measurement_is_one_sentence(parse, text):
    with pytest.raises(
        ValueError, match="holds no latency distribution; it says: (nothing|unable to connect)"
    ):
        parse(text)


def test_missing_tool_is_one_sentence(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        FileNotFoundError, match="^wrk is not installed; on Debian or Ubuntu: apt-get install wrk"
    ):
        Wrk(URL, 2)


@pytest.fixture
def tools():
    for name in ("hey", "wrk"):
        if shutil.which(name) is None:
            needed(f"{name} is not installed; apt-get install {name}")


def test_tools_are_interrupted_and_told_of(tools, capsys):
    with serving(0.005, concurrency=9) as url:
        interrupt_after(0.7)
        begin = time.monotonic()
        reports = run(Hey(url, 60), Wrk(url, 60, connections=2))
        assert time.monotonic() - begin < 5
    for report in reports:
        assert report.partial and report.requests > 10 and report.quantiles_s[0.9] < 0.5
        assert f"{report.tool} was interrupted after" in capsys.readouterr().err or report.tool == "wrk"


def test_tool_without_server_tells_of_it():
    if shutil.which("wrk") is None:
        needed("wrk is not installed; apt-get install wrk")
    report = run(Wrk(URL, 1))
    assert report.requests == 0 and np.isnan(report.p99)
    assert "unable to connect" in report.problems[0]


def five_clocks(seconds, service_s=0.002):
    """P99 in s of five clocks on one server that stalls for 1 s three times in `seconds`, all at once.

    Open: 100 users/s. Closed, hey and wrk: one connection each, back to back. There is a slot for each, so
    they share the stalls and little else.
    """
    stalls = Stalls(1.0, seconds / 3)
    rng = np.random.default_rng(8)
    intended = np.sort(rng.uniform(0, seconds, 100 * seconds))
    with serving(service_s, concurrency=4, stalls=stalls) as url, plain_program(intended) as plain:
        loads = OpenLoop(url, intended), ClosedLoop(url, 1, seconds), Hey(url, seconds), Wrk(url, seconds)
        users, tool, hey, wrk = run(*loads)
    assert users.ok.all() and tool.ok.all() and hey.errors == wrk.errors == 0
    return {
        "open": np.quantile(users.response_from_intended, 0.99),
        "closed": np.quantile(tool.response, 0.99),
        "corrected": np.quantile(backfill(tool.response, seconds / len(tool)), 0.99),
        "hey": hey.p99,
        "wrk": wrk.p99,
        "plain": np.quantile(plain, 0.99),  # how late a program without any server was
    }


def test_hey_lies_with_the_closed_loop_and_wrk_with_the_corrected_one(tools):
    """Claim C5 in 12 s, and where two tools that people trust stand in it."""

    def judge(p99):
        checks = {
            "closed P99 < 20 ms": p99["closed"] < max(0.020, 4 * p99["plain"]),
            "closed far below open": p99["closed"] < p99["open"] / 8,
            "open P99 > 500 ms": p99["open"] > 0.5,
            "corrected within 25% of open": abs(p99["corrected"] / p99["open"] - 1) < 0.25,
            "hey with closed": 1 / 5 < p99["hey"] / p99["closed"] < 5,
            "hey far below open": p99["hey"] < p99["open"] / 8,
            "wrk with corrected": abs(p99["wrk"] / p99["corrected"] - 1) < 0.25,
        }
        return [f"not: {what} ({p99})" for what, holds in checks.items() if not holds]

    twice(lambda longer: five_clocks(12 * longer), judge)


# -- from a shell ------------------------------------------------------------------------------------


def parsed(kind, *arguments):
    parser = argparse.ArgumentParser()
    getattr(commands, f"add_{kind}_arguments")(parser)
    return parser.parse_args(arguments)


SHELL = """
    import argparse, sys
    from labsupport.loadtest import cli
    parser = argparse.ArgumentParser()
    cli.add_serve_arguments(parser)
    cli.serve(parser.parse_args(sys.argv[1:]))
"""


@contextlib.contextmanager
def serve(*arguments):
    """`qlab serve` in a process; yields its URL, ends it as Ctrl-C does."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SHELL), "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert select.select([process.stdout], [], [], 20)[0]
        yield process.stdout.readline().split()[0]
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=10)
        assert process.returncode == 0 and error == ""
    finally:
        process.kill()
        process.wait()


def test_serve_and_load_from_a_shell(tmp_path, capsys):
    file = tmp_path / "log.csv"
    with serve(
        "--mean", "0.01", "--law", "gamma", "--scv", "0.5", "--concurrency", "3", "--token", "0.005"
    ) as url:
        assert (
            commands.load(parsed("load", url, "--rate", "100", "--duration", "0.7", "--csv", str(file))) == 0
        )
        text = capsys.readouterr().out
        assert commands.load(parsed("load", url, "--users", "2", "--duration", "0.3", "--tokens", "4")) == 0
        tokens = capsys.readouterr().out
    assert not listening(url)
    with file.open(newline="") as rows:
        columns = {k: [row[k] for row in csv.DictReader(rows)] for k in ("arrival",)}
    with file.open(newline="") as rows:
        columns = {
            k: np.array(v, dtype=float) for k, v in zip(*_columns(csv.reader(rows)), strict=True) if k != "ok"
        }
    log = RequestLog(**columns)
    assert 40 < len(log) < 100 and f"{len(log)} requests, 0 not ok" in text
    assert re.search(r"from the intended send\n  mean  [\d.]+ \[[\d., ]+\] \(95%, 20 batch means\)", text)
    assert "no interval: " in text, "P99 of a hundred values has none, and says why"
    assert re.search(r"TPOT in ms\n  mean  [45]\.", tokens) and "TTFT" in tokens


def _columns(rows):
    names = next(rows)
    return names, list(zip(*rows, strict=True))


def test_load_without_server_or_answers(capsys):
    with pytest.raises(ConnectionError, match="^no server answers at"):
        commands.load(parsed("load", URL, "--users", "1", "--duration", "1"))
    with answering(PLAINLY.replace(b"200 OK", b"503 Busy")) as url:
        assert commands.load(parsed("load", url, "--rate", "20", "--duration", "0.3", "--clockwork")) == 0
    assert "6 requests, 6 not ok" in capsys.readouterr().out


@pytest.mark.parametrize(
    "kind, arguments, words",
    [
        ("serve", ["--mean", "1", "--scv", "2"], "--scv is fixed for the exponential law"),
        ("serve", ["--mean", "1", "--law", "gamma"], "the gamma law needs --scv"),
        ("serve", ["--mean", "1", "--stall", "5", "--stall-every", "4"], "length_s = 5 must be below"),
        ("load", [URL, "--rate", "1", "--think", "1"], "--think belongs to --users"),
        ("load", [URL, "--rate", "1", "--when-full", "drop"], "--when-full needs --cap"),
        ("load", [URL, "--rate", "1", "--duration", "0.1"], "sends no request; give more"),
        ("load", [URL, "--users", "1", "--cap", "1"], "--cap belongs to --rate"),
        ("load", [URL, "--users", "1", "--clockwork"], "--clockwork belongs to --rate"),
    ],
)
def test_arguments_that_do_not_fit_are_one_sentence(kind, arguments, words):
    with pytest.raises(ValueError, match=words):
        getattr(commands, kind)(parsed(kind, *arguments))
