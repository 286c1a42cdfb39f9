"""S3 over HTTP for tests: moto's, made strict where S3 is, and with faults at chosen requests.

moto looks whether an object exists and then writes it, in two steps; S3 does both in one. A lock
around each request makes them one here.
"""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3

from tests.support.served import App, Environ, served_aws

StartResponse = Callable[..., Any]

UNAVAILABLE = "503 Slow Down"
CONFLICT = "409 Conflict"
NOT_FOUND = "404 Not Found"
"""Without a body, which breaks off before its first byte."""

_CODES = {UNAVAILABLE: "SlowDown", CONFLICT: "ConditionalRequestConflict"}


@dataclass
class S3Fault:
    """The next *times* requests of a method whose path ends so get another answer.

    Attributes:
        status: instead of what S3 would say; None breaks the connection, in the middle of the
            answer if there is one to be had.
        is_done: whether S3 does what was asked for all the same.
    """

    method: str
    suffix: str
    status: str | None
    is_done: bool
    times: int = 1

    def meets(self, environ: Environ) -> bool:
        if self.times == 0 or environ["REQUEST_METHOD"] != self.method:
            return False
        if not environ["PATH_INFO"].endswith(self.suffix):
            return False
        self.times -= 1
        return True


@dataclass
class S3Server:
    """A running server.

    Attributes:
        url: what goes into ``AWS_ENDPOINT_URL``, or ``AWS_ENDPOINT_URL_S3`` for S3 alone.
        requests: every request that came, as ``METHOD path``.
        ignores_conditions: whether a PUT is done although it says ``If-None-Match``.
    """

    url: str = ""
    faults: list[S3Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    ignores_conditions: bool = False

    def make_bucket(self, name: str) -> str:
        client = boto3.client("s3", region_name="us-east-1", endpoint_url=self.url)
        client.create_bucket(Bucket=name)
        return name


@contextmanager
def serve_s3() -> Iterator[S3Server]:
    """Serve until the block ends."""
    server = S3Server()
    with served_aws(lambda app: _faulty(_one_at_a_time(app), server)) as server.url:
        yield server


def _one_at_a_time(app: App) -> App:
    lock = threading.Lock()

    def call(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        with lock:
            return list(app(environ, start_response))

    return call


def _faulty(app: App, server: S3Server) -> App:
    def call(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        server.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        if server.ignores_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)

        fault = next((fault for fault in server.faults if fault.meets(environ)), None)
        if fault is None:
            return app(environ, start_response)

        if fault.status is None and environ["REQUEST_METHOD"] == "GET":
            return _first_half(app, environ, start_response)

        if fault.is_done:
            list(app(environ, lambda *_: None))
        else:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if fault.status is None:
            _break(environ)
            return []

        start_response(fault.status, [("Content-Type", "application/xml")])
        if fault.status == NOT_FOUND:
            return []

        code = _CODES[fault.status]
        return [f"<Error><Code>{code}</Code><Message>Invented.</Message></Error>".encode()]

    return call


def _first_half(app: App, environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
    content = b"".join(app(environ, start_response))
    yield content[: len(content) // 2]
    _break(environ)


def _break(environ: Environ) -> None:
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionError("the connection broke")
