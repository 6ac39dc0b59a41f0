"""Starting the server in a process of its own, and making sure that it ends."""

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec

import numpy as np

from labsupport.loadtest.virtual import Behaviour
from labsupport.queueing.workload import Law

# What a lesson says of a KeyboardInterrupt that comes before its run has begun.
TOO_EARLY = "Interrupted before the servers were ready: nothing was measured. Run the cell again."
DRAWS = 1 << 15  # service times drawn from a law before they are used again


def need_packages():
    """Raises ImportError in one sentence when the extra `load` is not installed."""
    missing = [name for name in ("aiohttp", "httptools") if find_spec(name) is None]
    if missing:
        raise ImportError(
            f'load tests need {" and ".join(missing)}; install with: pip install "queueing-lab[load]"'
        )


def behaviour(service=0.0, concurrency=1, *, token_s=0.0, stalls=None, seed=0):
    """The `Behaviour` that the arguments of `serving` describe."""
    if isinstance(service, Law):
        service = service.sample(np.random.default_rng(seed), DRAWS)
    try:
        times = np.atleast_1d(np.asarray(service, dtype=np.float64))
    except (TypeError, ValueError):
        raise TypeError(
            f"service must be seconds, a Law or an array of seconds, not {service!r:.40}."
        ) from None
    if times.ndim != 1:
        raise ValueError(f"service has {times.ndim} dimensions; give one row of seconds.")
    return Behaviour(tuple(times.tolist()), concurrency, token_s, stalls)


@contextmanager
def serving(service=0.0, concurrency=1, *, port=0, **options):
    """A real HTTP server on loopback in a process of its own; yields its URL and ends with the block.

    service      service time of each request in s: a number, a Law (drawn with `seed`), or an array whose
                 values the requests get one after another, from the first again at the end; 0 answers at once
    concurrency  number of requests served at the same time; the others wait, first come first served
    port         0 takes a free one
    token_s      s per further token of a completion: its first token comes after the service time
    stalls       Stalls(length_s, period_s) of the simulators: meanwhile no request makes progress. Its time
                 begins with the first request.
    seed         of the service times

    GET / answers after the service time. POST /v1/completions speaks OpenAI's protocol, `"stream": true` and
    `stream_options` included; `max_tokens` (default 16) tokens come, word by word. Each answer says in the
    header `Server-Timing: queue;dur=...` how long it waited for a slot, in ms. A request whose client goes
    away gives its place back.

    The server ends with the block, also after an error or an interrupt in it, and when this process is killed.
    Raises OSError in one sentence when the port is taken, ImportError when the extra `load` is missing.
    """
    need_packages()
    told = asdict(behaviour(service, concurrency, **options)) | {"port": port}
    process = subprocess.Popen(
        [sys.executable, "-m", "labsupport.loadtest.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # an interrupt is for this process, which then ends the server in order
    )
    try:
        yield _address(process, told)
    finally:
        _end(process)


def _address(process, told):
    """Tell the new process what to do and wait until it does it."""
    try:
        process.stdin.write(json.dumps(told).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # it has died; that it says nothing tells so
    said = process.stdout.readline()
    if not said:
        raise OSError(f"the server's process ended with code {process.wait()} before it was ready.")
    said = json.loads(said)
    if "error" in said:
        raise OSError(said["error"])
    return said["url"]


def _end(process):
    """End the server: politely by closing its standard input, by force when it does not listen."""
    try:
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        process.wait(timeout=2)
    except BaseException as problem:  # an interrupt while waiting must not leave it running either
        process.kill()
        process.wait()
        if not isinstance(problem, subprocess.TimeoutExpired):
            raise
    finally:
        process.stdout.close()
