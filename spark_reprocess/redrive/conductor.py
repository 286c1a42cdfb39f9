"""The driver's end of the line to its tasks: who may send and when, how far they are, and stop.

Each task holds one connection for its whole life and sends nothing without it. So a task whose
driver is gone stops; a rate holds over all tasks together, wherever they run and however uneven
their work is; and one task that learns that the queue is gone stops them all.

Both sides write lines of JSON, ``[word, ...]``::

    task      hello token     the first line
              ask n messages  ask number n, for a call of so many messages
              end messages    a call that was permitted is over
              report counts   what became of a chunk's messages, by word
              stop why        what concerns all tasks
    driver    go n messages   ask number n is granted
              stop why        nothing more may be sent
              beat            every second: the driver is alive
"""

import asyncio
import hmac
import json
import math
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from spark_reprocess.errors import InputError
from spark_reprocess.redrive.conducted import Address
from spark_reprocess.redrive.pace import Pace, Permits

BEAT_SECONDS = 1.0
_HELLO_SECONDS = 10.0
_LOST = (ValueError, TypeError, OSError, EOFError, asyncio.LimitOverrunError)
"""What ends a line: the task is gone, or speaks otherwise."""


@dataclass(eq=False, slots=True)
class _Line:
    """A task's connection, and how many messages it was permitted and has not ended."""

    writer: asyncio.StreamWriter
    on_their_way: int = 0

    def say(self, *words: object) -> None:
        if not self.writer.is_closing():
            self.writer.write(json.dumps(words).encode() + b"\n")


@dataclass(frozen=True, slots=True)
class _Ask:
    line: _Line
    number: int
    messages: int


class Conductor:
    """Answers tasks while the block of ``conducting`` lasts."""

    def __init__(self, pace: Pace | None, trouble: Callable[[], str]) -> None:
        """Keep to *pace*, None for none; stop once *trouble* says why."""
        self._pace = pace
        self._trouble = trouble
        self._permits = Permits[_Ask](pace)
        self._token = secrets.token_hex(16)
        self._writers: set[asyncio.StreamWriter] = set()
        self._lines: set[_Line] = set()
        self._counts = Counter[str]()
        self._stopped_by = ""
        self._alarm: asyncio.TimerHandle | None = None
        self._loop = asyncio.new_event_loop()
        self._is_over = asyncio.Event()

    @property
    def stopped_by(self) -> str:
        """Why the run was stopped; empty while it was not."""
        return self._stopped_by

    @property
    def counts(self) -> Mapping[str, int]:
        """What became of messages so far, by word."""
        return dict(self._counts)

    def address(self, host: str, port: int) -> Address:
        """What tasks need to know in order to find us there."""
        if self._pace is None:
            return Address(host, port, self._token)
        return Address(host, port, self._token, self._pace.call_messages, is_paced=True)

    def stop(self, why: str) -> None:
        """Let nobody send any more; calls that are open come to their end. For any thread."""
        self._loop.call_soon_threadsafe(self._stop, why)

    def end(self) -> None:
        """Break all connections and return from ``run``. For any thread."""
        self._loop.call_soon_threadsafe(self._is_over.set)

    def run(self, listener: socket.socket) -> None:
        """Answer whoever calls at *listener* until ``end``: the body of a thread of its own."""
        self._loop.run_until_complete(self._serve(listener))
        self._loop.close()

    async def _serve(self, listener: socket.socket) -> None:
        server = await asyncio.start_server(self._meet, sock=listener)
        while not self._is_over.is_set():
            self._heed_trouble()
            for line in self._lines:
                line.say("beat")
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._is_over.wait()
        # Meetings are not cancelled: up to Python 3.11 asyncio complains of that on the operator's
        # terminal, and forgets it where a task says hello at this very moment.
        for writer in self._writers:
            writer.transport.abort()
        # Whoever is being let in now is sent away at once; only then the door can be closed.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.gather(*others)
        server.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._is_over.is_set():
                return
            async with asyncio.timeout(_HELLO_SECONDS):
                word, token = await _read(reader)
            if word == "hello" and hmac.compare_digest(str(token), self._token):
                await self._listen(reader, _Line(writer))
        except _LOST:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            with suppress(*_LOST):
                await writer.wait_closed()

    async def _listen(self, reader: asyncio.StreamReader, line: _Line) -> None:
        self._lines.add(line)
        if self._stopped_by:
            line.say("stop", self._stopped_by)
        try:
            while True:
                self._heed(line, *await _read(reader))
        finally:
            self._lines.discard(line)
            self._permits.withdraw(lambda ask: ask.line is line)
            # What it had under way when it died may have been sent this very moment.
            self._end(line, line.on_their_way)

    def _heed(self, line: _Line, word: str, *details: Any) -> None:  # noqa: ANN401 - JSON
        match word:
            case "ask":
                number, messages = details
                self._permits.ask(_Ask(line, number, messages), messages)
                self._grant()
            case "end":
                self._end(line, *details)
            case "report":
                self._counts.update(*details)
            case "stop":
                self._stop(*details)

    def _end(self, line: _Line, messages: int) -> None:
        line.on_their_way -= messages
        self._permits.end(messages, self._loop.time())
        self._grant()

    def _grant(self) -> None:
        self._heed_trouble()
        now = self._loop.time()
        for ask in () if self._stopped_by else self._permits.grant(now):
            ask.line.on_their_way += ask.messages
            ask.line.say("go", ask.number, ask.messages)
        if self._alarm is not None:
            self._alarm.cancel()
        wait = self._permits.seconds_until_next(now)
        self._alarm = None if math.isinf(wait) else self._loop.call_later(wait, self._grant)

    def _heed_trouble(self) -> None:
        if why := self._trouble():
            self._stop(why)

    def _stop(self, why: str) -> None:
        if not self._stopped_by:
            self._stopped_by = why
            for line in self._lines:
                line.say("stop", why)


async def _read(reader: asyncio.StreamReader) -> list[Any]:
    words = json.loads(await reader.readuntil(b"\n"))
    if not isinstance(words, list):
        raise TypeError("a line is a list")
    return words


@contextmanager
def conducting(
    messages_per_second: float | None,
    host: str = "127.0.0.1",
    trouble: Callable[[], str] = lambda: "",
) -> Iterator[tuple[Conductor, Address]]:
    """Answer tasks until the block ends, or stop them before.

    Args:
        messages_per_second: over all tasks together; None for no limit.
        host: how tasks know this machine.
        trouble: asked every second and before each permit, at once answered with why the run must
            stop, or nothing.

    Raises:
        InputError: *host* is no address of this machine.
    """
    try:
        listener = socket.create_server((host, 0), backlog=512)
    except OSError as error:
        raise InputError(
            f"spark.driver.host {host}: cannot be listened to: {error.strerror or error}; set it "
            "to an address of this machine that the executors reach"
        ) from error
    conductor = Conductor(Pace(messages_per_second) if messages_per_second else None, trouble)
    port = listener.getsockname()[1]
    thread = threading.Thread(target=conductor.run, args=(listener,), name="conductor", daemon=True)
    thread.start()
    try:
        yield conductor, conductor.address(host, port)
    finally:
        conductor.end()
        thread.join()
