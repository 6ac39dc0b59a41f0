"""The HTTP server: GET / and OpenAI-compatible POST /v1/completions, served by a `VirtualServer`.

Run as a program it is the process that `serving` starts: it reads its behaviour from one line of standard
input, answers with one line that holds its address, and ends when standard input is closed, as the system
does for it when the other process dies.
"""

import asyncio
import contextlib
import errno
import json
import os
import signal
import sys
import threading

from aiohttp import web

from labsupport.loadtest.clock import new_event_loop
from labsupport.loadtest.virtual import Behaviour, VirtualServer
from labsupport.queueing.simulate import Stalls

HOST = "127.0.0.1"
MODEL = "queueing-lab"


class BadRequest(Exception):
    """What the client asked for makes no sense; the message says why."""


class Site:
    """The two resources of the server."""

    def __init__(self, behaviour):
        self.server = VirtualServer(behaviour)
        self.token_s = behaviour.token_s
        self.count = 0

    def application(self):
        app = web.Application()
        app.router.add_get("/", self.plain)
        app.router.add_post("/v1/completions", self.completions)
        return app

    async def plain(self, request):
        async with self.server.slot() as (turn, service_s):
            await turn.work(service_s)
        return web.Response(text="ok\n", headers=_timing(turn))

    async def completions(self, request):
        """max_tokens tokens of text, streamed as server-sent events if `stream` is true."""
        try:
            asked = _checked(await request.read())
        except BadRequest as problem:
            error = {"message": str(problem), "type": "invalid_request_error", "param": None, "code": None}
            return web.json_response({"error": error}, status=400)
        self.count += 1
        answer = Completion(f"cmpl-{self.count}", asked)
        async with self.server.slot() as (turn, service_s):
            await turn.work(service_s)
            if not asked["stream"]:
                await turn.work(self.token_s * (asked["max_tokens"] - 1))
            else:
                return await self.stream(request, answer, turn)
        return web.json_response(answer.whole(), headers=_timing(turn))

    async def stream(self, request, answer, turn):
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"} | _timing(turn)
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        for k in range(answer.tokens):
            if k:
                await turn.work(self.token_s)
            await response.write(answer.event(k))
        await response.write(answer.end())
        return response


class Completion:
    """One answer in the format of OpenAI's completions: its text is one word per token."""

    def __init__(self, name, asked):
        self.tokens = asked["max_tokens"]
        self.usage = {
            "prompt_tokens": asked["prompt_tokens"],
            "completion_tokens": self.tokens,
            "total_tokens": asked["prompt_tokens"] + self.tokens,
        }
        self.include_usage = asked["include_usage"]
        self.base = {"id": name, "object": "text_completion", "created": 0, "model": asked["model"]}

    def _choice(self, text, last):
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": "length" if last else None}

    def whole(self):
        text = " word" * self.tokens
        return self.base | {"choices": [self._choice(text, True)], "usage": self.usage}

    def event(self, k):
        return _event(self.base | {"choices": [self._choice(" word", k == self.tokens - 1)]})

    def end(self):
        usage = _event(self.base | {"choices": [], "usage": self.usage}) if self.include_usage else b""
        return usage + b"data: [DONE]\n\n"


def _event(content):
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def _timing(turn):
    """How long the request waited for a slot, in ms, as the standard header for such things says it."""
    return {"Server-Timing": f"queue;dur={turn.queue_s * 1e3:.6f}"}


def _checked(body):
    """What a completion request asks for, with defaults; a token of the prompt is a word."""
    try:
        given = json.loads(body)
    except ValueError:
        raise BadRequest("the body is not JSON") from None
    if not isinstance(given, dict):
        raise BadRequest("the body must be a JSON object")
    tokens = given.get("max_tokens", 16)
    if not isinstance(tokens, int) or isinstance(tokens, bool) or not 1 <= tokens <= 1_000_000:
        raise BadRequest(f"max_tokens is {tokens!r:.40}; give a whole number from 1 to 1000000")
    prompt = given.get("prompt", "")
    options = given.get("stream_options")
    return {
        "max_tokens": tokens,
        "prompt_tokens": len(prompt.split()) if isinstance(prompt, str) else len(prompt or ()),
        "stream": given.get("stream") is True,
        "include_usage": isinstance(options, dict) and options.get("include_usage") is True,
        "model": str(given.get("model", MODEL)),
    }


async def serve(behaviour, port, ready, stop):
    """Serve on loopback until the event `stop` is set; calls ready(url) when requests are accepted.

    Raises OSError in one sentence when the port cannot be had.
    """
    _allow_many_sockets()
    # A client that gives up gives its place back; connections stay open however long a stall lasts.
    runner = web.AppRunner(
        Site(behaviour).application(),
        access_log=None,
        handler_cancellation=True,
        keepalive_timeout=3600,
        shutdown_timeout=0.2,
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, HOST, port, backlog=1024).start()
        except (OSError, OverflowError) as error:
            raise OSError(_why_not(port, error)) from None
        ready(f"http://{HOST}:{runner.addresses[0][1]}")
        await stop.wait()
    finally:
        await runner.cleanup()


def _why_not(port, error):
    if getattr(error, "errno", None) == errno.EADDRINUSE:
        return f"port {port} is taken by another program; choose another, or 0 for any free one."
    reason = getattr(error, "strerror", None) or error
    return f"port {port} cannot be used ({reason}); choose 1024 to 65535, or 0 for any free one."


def _allow_many_sockets():
    """Raise this process's limit of open files as far as it may: each connection needs one."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run(behaviour, port, ready):
    """Serve in this process until SIGINT or SIGTERM."""

    async def main():
        stop = asyncio.Event()
        for name in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        await serve(behaviour, port, ready, stop)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())


def _child():
    """The process that `serving` starts."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return  # whoever started this was interrupted or killed while saying what to do
    said = json.loads(line)
    port, stalls = said.pop("port"), said["stalls"] and Stalls(**said["stalls"])

    def tell(**message):
        print(json.dumps(message), flush=True)

    async def main():
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def watch():
            while os.read(0, 1024):
                pass
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended anyway
                loop.call_soon_threadsafe(stop.set)

        threading.Thread(target=watch, daemon=True).start()
        await serve(Behaviour(**said | {"stalls": stalls}), port, lambda url: tell(url=url), stop)

    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(main())
    except OSError as error:
        tell(error=str(error))


if __name__ == "__main__":
    _child()
