"""Serves the model over HTTP: ``python -m local_sqs`` prints its URL and serves.

It ends when its standard input closes, and so when the process that started it ends.

==========================  ======================================================
``GET /_control``           number of requests by operation, processor time
``POST /_control/latency``  ``{"ms": 20}``: milliseconds, added to every answer
==========================  ======================================================
"""

import argparse
import gc
import json
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from local_sqs.client import Reply, reply_to
from local_sqs.clock import Clock
from local_sqs.front import AnswerLostError, Front
from local_sqs.model import SqsModel

LOOPBACK = "127.0.0.1"


class RunningServer(ThreadingHTTPServer):
    """Serves one front, with a thread for each connection.

    Attributes:
        front: log, faults and model.
        url: its address, for ``AWS_ENDPOINT_URL``.
        latency_ms: added to every answer; may be changed at any time.
    """

    request_queue_size = 512

    def __init__(self, front: Front, host: str = LOOPBACK) -> None:
        super().__init__((host, 0), _Handler)
        self.front = front
        self.latency_ms = 0.0
        self.url = front.model.base_url = f"http://{host}:{self.server_port}"
        self._connections: set[Any] = set()

    @property
    def model(self) -> SqsModel:
        return self.front.model

    def wait_for_disconnects(self, seconds: float = 60) -> None:
        """Wait until no client is connected. Then all requests of a dead client are carried out.

        Raises:
            TimeoutError: a client is still connected after *seconds*.
        """
        deadline = time.monotonic() + seconds
        while self._connections:
            if time.monotonic() > deadline:
                raise TimeoutError(f"still connected after {seconds} s")
            time.sleep(0.01)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._connections.discard(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Print no error if a client went away.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        super().server_close()
        for connection in self._connections.copy():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1_048_576  # Send an answer at once.
    server: RunningServer

    def do_GET(self) -> None:
        counts = Counter(record.operation for record in self.server.front.log.records())
        self._write_control({"counts": counts, "cpu_seconds": time.process_time()})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
        elif self.path.startswith("/_control"):
            self.server.latency_ms = float(json.loads(body)["ms"])
            self._write_control({})
        else:
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        target = self.headers.get("X-Amz-Target", "")
        try:
            reply = reply_to(self.server.front, target, body, self._is_gone)
        except AnswerLostError as lost:
            if lost.is_timeout:
                self.rfile.read()
            self.close_connection = True
            return

        if self.server.latency_ms:
            time.sleep(self.server.latency_ms / 1000)
        self._write(reply)

    def _is_gone(self) -> bool:
        """Return whether the client closed the connection."""
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _write_control(self, answer: object) -> None:
        headers = {"Content-Type": "application/json"}
        self._write(Reply(200, headers, json.dumps(answer).encode()))

    def _write(self, reply: Reply) -> None:
        self.send_response_only(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)


@contextmanager
def serve_in_thread(model: SqsModel | Front | None = None) -> Iterator[RunningServer]:
    """Serve *model*, or a new one with the system clock, until the block ends."""
    front = Front.of(model or SqsModel(Clock()))
    with RunningServer(front) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()


def main(argv: list[str] | None = None) -> None:
    """Serve a new model with the system clock; print its URL in one line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--host", default=LOOPBACK, help="default: %(default)s")
    options = parser.parse_args(argv)

    # A garbage collection would visit all messages, possibly hundreds of thousands, for nothing.
    gc.disable()

    with RunningServer(Front(SqsModel(Clock())), options.host) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.url, flush=True)  # noqa: T201 - the parent process reads it
        sys.stdin.buffer.read()
        server.shutdown()
