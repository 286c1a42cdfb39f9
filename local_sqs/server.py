"""Serves the model over HTTP: ``python -m local_sqs`` prints its URL and serves.

It ends when its standard input closes, and so when the process that started it ends.
"""

import argparse
import asyncio
import gc
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from local_sqs.api import wait_seconds
from local_sqs.clock import SystemClock
from local_sqs.control import ROOT, Tuning, control
from local_sqs.errors import SqsError
from local_sqs.front import AnswerLostError, Front, Visit
from local_sqs.http11 import HttpRequest, read_request, render
from local_sqs.model import SqsModel
from local_sqs.wire import Reply, decode, encode, encode_error, operation_of

LOOPBACK = "127.0.0.1"
_NEW_OBJECTS_PER_COLLECTION = 50_000


class SqsServer:
    """Serves one front in one event loop.

    Attributes:
        front: log, faults and model.
        tuning: latency; may be changed at any time.
        url: its address.
    """

    def __init__(self, front: Front, tuning: Tuning | None = None) -> None:
        self.front = front
        self.tuning = tuning or Tuning()
        self.url = ""
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._thread = threading.get_ident()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def is_connected(self) -> bool:
        """Whether any connection is open. Thread-safe."""
        return bool(self._connections)

    async def start(self, host: str = LOOPBACK, port: int = 0) -> None:
        """Listen at an address of this machine; port 0 means any free port."""
        self._server = await asyncio.start_server(self._connected, host, port, backlog=512)
        bound = self._server.sockets[0].getsockname()[1]
        self.url = self.front.model.base_url = f"http://{host}:{bound}"
        self.front.model.listeners.append(self._on_change)

    async def stop(self) -> None:
        """Close all connections and stop listening."""
        self.front.model.listeners.remove(self._on_change)
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _on_change(self) -> None:
        if threading.get_ident() == self._thread:
            self._wake()
        else:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        with suppress(asyncio.CancelledError, ConnectionError):
            await self._converse(reader, writer)
        writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader, writer)) is not None:
            try:
                reply = await self._reply(request, reader)
            except AnswerLostError as lost:
                if lost.is_timeout:
                    await reader.read()
                return
            if self.tuning.latency_ms:
                await asyncio.sleep(self.tuning.latency_ms / 1000)
            writer.write(render(reply, keep_alive=request.keeps_alive))
            await writer.drain()
            if not request.keeps_alive:
                return

    async def _reply(self, request: HttpRequest, reader: asyncio.StreamReader) -> Reply:
        if request.path.startswith(ROOT):
            return control(self.front, self.tuning, request)
        try:
            operation = operation_of(request.headers.get("x-amz-target", ""))
            answer = await self._handle(operation, decode(request.body), reader)
        except SqsError as error:
            return encode_error(error)
        return encode(answer)

    async def _handle(
        self, operation: str, request: Mapping[str, Any], reader: asyncio.StreamReader
    ) -> dict[str, Any]:
        visit = self.front.admit(operation, request)
        await self._apply_faults(visit, after=False)
        visit.refuse()
        answer = await self._act_waiting(visit, reader)
        await self._apply_faults(visit, after=True)
        visit.lose()
        return answer

    async def _apply_faults(self, visit: Visit, *, after: bool) -> None:
        if visit.faults:
            await asyncio.sleep(visit.seconds(after=after))
            await asyncio.to_thread(visit.trigger, after=after)

    async def _act_waiting(self, visit: Visit, reader: asyncio.StreamReader) -> dict[str, Any]:
        model = self.front.model
        wait = wait_seconds(model, visit.operation, visit.request)
        deadline = self._loop.time() + wait
        while True:
            news = self._news
            answer = self.front.act(visit)
            left = deadline - self._loop.time()
            if answer or left <= 0:
                return answer
            with suppress(TimeoutError):
                # Not wait_for: up to Python 3.11 it may lose a cancellation.
                async with asyncio.timeout(min(left, self._seconds_to_event(visit))):
                    await news.wait()
            if reader.at_eof():
                raise AnswerLostError(is_timeout=False)

    def _seconds_to_event(self, visit: Visit) -> float:
        """Return the seconds until a delay or timeout in the polled queue ends."""
        model = self.front.model
        with model.changed:
            queue = model.find(visit.request["QueueUrl"])
            times = [queue.next_event_ms(), model.move_tasks.next_event_ms()]
            now_ms = model.clock.now_ms()
        return min(((at - now_ms + 1) / 1000 for at in times if at is not None), default=60.0)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server in a thread of this process.

    Attributes:
        url: its address, for ``AWS_ENDPOINT_URL``.
        front: its log, faults and model.
        tuning: its latency.
    """

    url: str
    front: Front
    tuning: Tuning
    _server: SqsServer

    def wait_for_disconnects(self, seconds: float = 60) -> None:
        """Wait until no client is connected. Then all requests of a dead client are carried out.

        Raises:
            TimeoutError: a client is still connected after *seconds*.
        """
        deadline = time.monotonic() + seconds
        while self._server.is_connected:
            if time.monotonic() > deadline:
                raise TimeoutError(f"still connected after {seconds} s")
            time.sleep(0.01)

    @property
    def model(self) -> SqsModel:
        return self.front.model


@contextmanager
def serve_in_thread(
    model: SqsModel | Front | None = None, *, latency_ms: float = 0.0
) -> Iterator[RunningServer]:
    """Serve *model*, or a new one with the system clock, until the block ends."""
    front = Front.of(model or SqsModel(SystemClock()))
    tuning = Tuning(latency_ms)
    started = threading.Event()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Event, SqsServer]] = []

    async def serve() -> None:
        server, stop = SqsServer(front, tuning), asyncio.Event()
        await server.start()
        running.append((asyncio.get_running_loop(), stop, server))
        started.set()
        await stop.wait()
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="local-sqs", daemon=True)
    thread.start()
    if not started.wait(10):
        raise RuntimeError("the server did not start")
    try:
        yield RunningServer(front.model.base_url, front, tuning, running[0][2])
    finally:
        loop, stop, _ = running[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


async def serve_until_stdin_closes(host: str, port: int, latency_ms: float) -> None:
    """Serve a new model with the system clock; print its URL in one line."""
    server = SqsServer(Front(SqsModel(SystemClock())), Tuning(latency_ms))
    await server.start(host, port)
    print(server.url, flush=True)  # noqa: T201 - the parent process reads it
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def wait_for_end() -> None:
        sys.stdin.buffer.read()
        loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=wait_for_end, daemon=True).start()
    await stop.wait()
    await server.stop()


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default=LOOPBACK, help="default: %(default)s")
    parser.add_argument("--port", type=int, default=0, help="0 means any free port")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="added to every answer")
    arguments = parser.parse_args(argv)
    # A garbage collection visits all messages, possibly hundreds of thousands.
    gc.set_threshold(_NEW_OBJECTS_PER_COLLECTION)
    asyncio.run(serve_until_stdin_closes(arguments.host, arguments.port, arguments.latency_ms))
