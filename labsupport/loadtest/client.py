"""One request over HTTP/1.1, stamped when it is written and when its answer comes.

httptools parses; what is done here is to read the clock at the moments that matter, in as little Python as
possible: at a thousand requests per second a general client would spend most of a processor.
"""

import asyncio
import errno
import json
import math
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

NO_SOCKETS = {errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS}


class Stopped(Exception):
    """The run cannot go on; the message, which follows "because", says why."""


class NoServer(Stopped):
    """Nobody listens at the address."""


@dataclass(slots=True)
class Row:
    """What happened to one request; moments on the clock of the event loop, inf: never."""

    intended: float  # when the schedule wanted it
    due: float  # when it could be sent: `intended`, or later if a cap or the answer before held it back
    sent: float = math.inf
    first_token: float = math.inf
    finish: float = math.inf
    queue_s: float = 0.0  # how long the server says it waited
    tokens: int = 0
    ok: bool = False


class Client:
    """Sends equal requests to one URL, over as many connections as there are requests at the same time."""

    def __init__(self, url, timeout_s, prompt_tokens, model):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"url = {url!r:.80} is no address of a server; give one like http://127.0.0.1:8080."
            )
        self.url = url
        self.timeout_s = timeout_s
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._netloc = parts.netloc.rpartition("@")[2]
        self._path = parts.path + (f"?{parts.query}" if parts.query else "")
        self._prompt = " ".join(["word"] * prompt_tokens)
        self._model = model
        self._idle = []
        self._open = set()

    def message(self, tokens=None):
        """The bytes of a GET, or of a streamed completion of so many tokens."""
        if tokens is None:
            return self._head("GET", self._path or "/") + b"\r\n"
        asked = {
            "model": self._model,
            "prompt": self._prompt,
            "max_tokens": tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "ignore_eos": True,  # vLLM and SGLang: write all of them
        }
        body = json.dumps(asked).encode()
        path = self._path if self._path.strip("/") else "/v1/completions"
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return self._head("POST", path) + length.encode() + body

    def _head(self, method, path):
        return f"{method} {path} HTTP/1.1\r\nHost: {self._netloc}\r\nAccept: */*\r\n".encode()

    async def send(self, row, message, streamed):
        """Send one request and wait for its answer; fills in `row`, also when it is cut short.

        Raises Stopped when there is no server, or no socket left.
        """
        loop = asyncio.get_running_loop()
        row.sent = loop.time()
        try:
            async with asyncio.timeout(self.timeout_s):
                await self._exchange(row, message, streamed)
        except TimeoutError:
            pass  # given up: it never finished
        except (OSError, httptools.HttpParserError):
            row.finish = loop.time()  # the connection broke

    async def _exchange(self, row, message, streamed):
        connection = self._idle.pop() if self._idle else await self._connect()
        try:
            await connection.exchange(row, message, streamed)
        finally:
            if connection.reusable:
                self._idle.append(connection)
            else:
                connection.abort()

    async def _connect(self):
        loop = asyncio.get_running_loop()
        try:
            transport, connection = await loop.create_connection(
                lambda: Connection(self), self._host, self._port, ssl=self._ssl
            )
        except (ConnectionResetError, ConnectionAbortedError, TimeoutError):
            raise
        except OSError as error:
            if error.errno in NO_SOCKETS:
                raise Stopped(
                    f"this computer gives no socket beyond the {len(self._open)} that are open ({error.strerror}); allow "
                    "more with ulimit -n, or have fewer requests in flight, for example with a cap"
                ) from None
            raise NoServer(f"no server answers at {self.url} ({_reason(error)})") from None
        return connection

    async def close(self):
        """Close all connections."""
        for connection in list(self._open):
            connection.abort()
        while self._open:
            await asyncio.sleep(0)


def _reason(error):
    return "connection refused" if isinstance(error, ConnectionRefusedError) else error.strerror or error


class Connection(asyncio.Protocol):
    """One connection, one request at a time; httptools calls the methods that begin with `on_`."""

    def __init__(self, client):
        self.client = client
        self.loop = asyncio.get_running_loop()
        self.done = None
        self.reusable = False

    def connection_made(self, transport):
        self.transport = transport
        self.client._open.add(self)

    async def exchange(self, row, message, streamed):
        """Write the request and wait for the end of its answer."""
        self.row, self.streamed = row, streamed
        self.parser = httptools.HttpResponseParser(self)
        self.answered = self.reusable = self.framed = self.last = False
        self.rest = b""
        self.done = self.loop.create_future()
        self.transport.write(message)
        await self.done

    def data_received(self, data):
        self.answered = True
        self.moment = self.loop.time()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(error)

    def eof_received(self):
        self._not_idle()  # at once, before another request takes it

    def _not_idle(self):
        self.reusable = False
        if self in self.client._idle:
            self.client._idle.remove(self)

    def connection_lost(self, error):
        self.client._open.discard(self)
        self._not_idle()
        if self.done is None or self.done.done():
            return
        if (
            self.answered and not self.framed and not error
        ):  # an answer without length ends with its connection
            self.moment = self.loop.time()
            self.on_message_complete()
        self._end(error if isinstance(error, OSError) else ConnectionResetError())

    def abort(self):
        self.transport.abort()

    def on_header(self, name, value):
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self.framed = True
        elif name == b"server-timing":
            self.row.queue_s = _queue_s(value)

    def on_body(self, body):
        if not self.streamed:
            return
        *lines, self.rest = (self.rest + body).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip())

    def _event(self, data):
        if data == b"[DONE]":
            self.last = True
            return
        try:
            event = json.loads(data)
        except ValueError:
            return  # no event of a completion: it leaves no token
        if any(choice.get("text") for choice in event.get("choices") or ()):
            self.row.tokens += 1
            self.row.first_token = min(self.row.first_token, self.moment)
        if usage := event.get("usage"):  # a server may put several tokens into an event
            self.row.tokens = usage.get("completion_tokens", self.row.tokens)

    def on_message_complete(self):
        status = self.parser.get_status_code()
        if status < 200:
            return  # "continue" and the like: the answer itself follows
        self.row.finish = self.moment
        said = not self.streamed or (self.last and self.row.first_token < math.inf)
        self.row.ok = status < 300 and said
        self.reusable = self.framed and self.parser.should_keep_alive()
        self._end()

    def _end(self, error=None):
        if self.done.done():
            return
        if error:
            self.done.set_exception(error)
        else:
            self.done.set_result(None)


def _queue_s(header):
    """Seconds of the entry `queue;dur=12.3` in a Server-Timing header, which counts ms; 0 without one."""
    for entry in header.split(b","):
        name, *parameters = (part.strip() for part in entry.split(b";"))
        for parameter in parameters:
            if name == b"queue" and parameter.startswith(b"dur="):
                try:
                    return max(0.0, float(parameter[4:]) / 1e3)
                except ValueError:
                    return 0.0
    return 0.0
