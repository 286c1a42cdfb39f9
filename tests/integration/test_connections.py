"""Connections that are kept: what they read, to a server that closes them, and over TLS."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError, SSLError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dlq_replay.connections import Connections
from tests.served import served


class Talker(BaseHTTPRequestHandler):
    """Answers once for each connection."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"hm")
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


class Listener(HTTPServer):
    """Says when it has closed a connection."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Talker)
        self.closed = threading.Semaphore(0)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed.release()


@pytest.fixture
def talker() -> Iterator[Listener]:
    Talker.protocol_version = "HTTP/1.1"
    with served(Listener()) as server:
        yield server


def test_connection_that_was_closed_meanwhile_is_not_used_again(talker: Listener) -> None:
    connections = Connections(f"http://127.0.0.1:{talker.server_port}", 3, 3)

    for _ in range(3):
        assert connections.post(b"{}", {}).body == b"hm"
        assert talker.closed.acquire(timeout=10)


def test_tls_trusts_the_given_bundle_and_nothing_else(talker: Listener, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    talker.socket = context.wrap_socket(talker.socket, server_side=True)
    url = f"https://127.0.0.1:{talker.server_port}"

    assert Connections(url, 3, 3, str(certificate)).post(b"{}", {}).body == b"hm"
    with pytest.raises(SSLError):
        Connections(url, 3, 3).post(b"{}", {})


HEADS: dict[str, tuple[bytes, bytes]] = {
    "a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhm", b"hm"),
    "a first answer to go on": (
        b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhm",
        b"hm",
    ),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\nh\r\n1\r\nm\r\n0\r\n\r\n",
        b"hm",
    ),
    "up to the end": (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhm", b"hm"),
    "the protocol before": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhm", b"hm"),
    "bare line feeds": (b"HTTP/1.1 200 OK\ncontent-length:2\n\nhm", b"hm"),
    "a hint, and then the answer": (
        b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhm",
        b"hm",
    ),
    "nothing": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
}
BROKEN = {
    "no answer": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh",
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nh",
    "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhm",
    "a length beyond measure": b"HTTP/1.1 200 OK\r\nContent-Length: 1%s\r\n\r\nhm" % (b"0" * 30),
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "an endless line": b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70_000 + b"\r\n\r\n",
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"A: a\r\n" * 200 + b"\r\n",
}


@contextmanager
def saying(answer: bytes, *, closes: bool = True) -> Iterator[str]:
    """Serve one connection: take what comes first, say *answer*, close then or at the end."""
    is_over = threading.Event()

    def talk() -> None:
        line, _ = listener.accept()
        with line:
            line.recv(65_536)
            line.sendall(answer)
            if not closes:
                is_over.wait(10)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        is_over.set()
        thread.join(10)


@pytest.mark.parametrize(("answer", "body"), HEADS.values(), ids=HEADS)
def test_every_kind_of_answer_is_read(answer: bytes, body: bytes) -> None:
    with saying(answer) as url:
        read = Connections(url, 3, 3).post(b"{}", {})

    assert (read.status, read.body) == (200, body)


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
def test_an_answer_that_breaks_off_may_hide_a_send(answer: bytes) -> None:
    with saying(answer) as url, pytest.raises(ConnectionClosedError):
        Connections(url, 3, 3).post(b"{}", {})


def test_names_of_fields_are_in_lower_case() -> None:
    answer = (
        b"HTTP/1.1 400 Bad Request\r\nX-Amzn-Query-Error: a:b;c \r\nContent-Length: 2\r\n\r\n{}"
    )
    with saying(answer) as url:
        read = Connections(url, 3, 3).post(b"{}", {})

    assert read.status == 400
    assert read.headers["x-amzn-query-error"] == "a:b;c"


def test_an_answer_without_a_body_is_not_waited_for() -> None:
    with saying(b"HTTP/1.1 204 No Content\r\n\r\n", closes=False) as url:
        read = Connections(url, 3, 60).post(b"{}", {})

    assert (read.status, read.body) == (204, b"")


def self_signed(folder: Path) -> Path:
    """A key and a certificate for 127.0.0.1, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    path = folder / "here.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


def test_begun_calls_are_read_in_any_order(talker: Listener) -> None:
    connections = Connections(f"http://127.0.0.1:{talker.server_port}", 3, 3)

    first, second = connections.begin(b"{}", {}), connections.begin(b"{}", {})

    assert [second().body, first().body] == [b"hm", b"hm"]


def test_answer_that_came_in_time_is_read_however_late() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections = Connections(f"http://127.0.0.1:{server.getsockname()[1]}", 3, 0.05)
        end = connections.begin(b"{}", {})
        peer, _ = server.accept()
        with peer:
            peer.recv(65_536)
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhm")
            time.sleep(0.2)

            assert end().body == b"hm"
            again = connections.begin(b"{}", {})
            peer.recv(65_536)
            with pytest.raises(ReadTimeoutError):
                again()


def test_begun_call_whose_connection_breaks_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections = Connections(f"http://127.0.0.1:{server.getsockname()[1]}", 3, 3)
        end = connections.begin(b"{}", {})
        server.accept()[0].close()

        with pytest.raises(ConnectionClosedError):
            end()
