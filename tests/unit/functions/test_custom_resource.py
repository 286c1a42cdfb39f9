"""The answer's way to CloudFormation, over HTTP."""

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from urllib3.exceptions import HTTPError

from functions.publish_job.handler import put_answer
from tests.support.served import served


class CloudFormation(HTTPServer):
    refusals = 0
    requests: list[tuple[str, str | None, bytes]]


class Handler(BaseHTTPRequestHandler):
    server: CloudFormation

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, self.headers["Content-Type"], body))
        is_refused = len(self.server.requests) <= self.server.refusals
        self.send_response(503 if is_refused else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def cloudformation(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudFormation]:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    server = CloudFormation(("127.0.0.1", 0), Handler)
    server.requests = []
    with served(server):
        yield server


def url(server: CloudFormation) -> str:
    return f"http://127.0.0.1:{server.server_port}/answer?signature=x"


def test_an_answer_is_put_without_a_content_type(cloudformation: CloudFormation) -> None:
    """The address is signed for none, and S3 refuses what was not signed."""
    put_answer(url(cloudformation), b"{}")

    assert cloudformation.requests == [("/answer?signature=x", "", b"{}")]


def test_an_answer_that_is_refused_is_sent_again(cloudformation: CloudFormation) -> None:
    cloudformation.refusals = 2
    put_answer(url(cloudformation), b"{}")

    assert len(cloudformation.requests) == 3


def test_an_answer_that_never_arrives_is_an_error(cloudformation: CloudFormation) -> None:
    cloudformation.refusals = 9
    with pytest.raises(HTTPError, match="503"):
        put_answer(url(cloudformation), b"{}")
