"""HTTP connections that are kept, over the standard library's; failures are botocore's.

What botocore sends through, urllib3 and connection classes of its own, takes much of a call's time:
docs/decisions/0003-direct-calls.md.
"""

import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.util.wait import wait_for_read

_LONGEST_LINE = 65_536
_MOST_FIELDS = 100
_LEAST_READ_SECONDS = 0.1
_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")


class _Response(HTTPResponse):
    """Reads the head itself; the standard library has its parser of e-mails do that.

    That takes several times as long, for kinds of heads that no service of AWS sends.
    """

    headers: Any
    """A dict, names in lower case."""

    _read_status: Any

    def begin(self) -> None:
        status: int = HTTPStatus.CONTINUE
        while status // 100 == 1:
            version, status, reason = self._read_status()
            fields = dict(self._fields())
        self.status, self.reason, self.headers = status, reason.strip(), fields
        self.chunked = fields.get("transfer-encoding", "").lower() == "chunked"
        self.chunk_left = None
        self.length = None if self.chunked else _length(status, fields.get("content-length"))
        is_endless = self.length is None and not self.chunked
        asks_to_close = "close" in fields.get("connection", "").lower()
        self.will_close = is_endless or asks_to_close or version != "HTTP/1.1"

    def _fields(self) -> Iterator[tuple[str, str]]:
        """Each field, its name in lower case, up to the line that ends the head."""
        for _ in range(_MOST_FIELDS):
            line = self.fp.readline(_LONGEST_LINE + 1)
            if len(line) > _LONGEST_LINE:
                raise HTTPException("a line of the head is too long")
            if line in (b"\r\n", b"\n"):
                return
            if not line:
                raise HTTPException("the head broke off")
            name, _, value = line.decode("latin-1").partition(":")
            yield name.lower(), value.strip()
        raise HTTPException("the head has too many lines")


def _length(status: int, text: str | None) -> int | None:
    """How many bytes follow the head; None for all until the end."""
    if status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
        return 0
    if text is None:
        return None
    if not _WHOLE_NUMBER.fullmatch(text):
        raise HTTPException("Content-Length is no number of bytes")
    return int(text)


class _InOneWrite(HTTPConnection):
    """Sends head and body together: one system call, one packet where they fit into one."""

    response_class = _Response
    _parts: tuple[bytes, ...] = ()

    def send(self, data: Any) -> None:  # noqa: ANN401 - its parent's
        self._parts = (*self._parts, data)

    def flush(self) -> None:
        data, self._parts = b"".join(self._parts), ()
        super().send(data)


class _InOneWriteTls(_InOneWrite, HTTPSConnection):
    """The same over TLS."""


class Answer(NamedTuple):
    """What came back; the names of headers in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connections:
    """Connections to one endpoint, as many as threads use at once. Thread-safe."""

    def __init__(
        self, url: str, connect_seconds: float, read_seconds: float, ca_bundle: str | None = None
    ) -> None:
        """Connect later, when there is something to send.

        Args:
            url: the endpoint.
            connect_seconds: how long to wait for a connection.
            read_seconds: how long a request may take to be sent and its answer to begin, and how
                long to wait for more of it where the time has not passed by then.
            ca_bundle: the file of certificates to trust; None for the system's.
        """
        self._url = url
        self._place = urlsplit(url)
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        is_tls = self._place.scheme == "https"
        self._trust = ssl.create_default_context(cafile=ca_bundle) if is_tls else None
        # Its append and pop are atomic. The last one in is the most likely to be open still.
        self._idle: list[_InOneWrite] = []

    def post(self, body: bytes, headers: dict[str, str]) -> Answer:
        """Send *body* to the endpoint and read the answer. Repeats nothing.

        Raises:
            EndpointConnectionError, ConnectTimeoutError, SSLError: there was no connection, so
                nothing was sent.
            ConnectionClosedError, ReadTimeoutError: it may have been sent.
        """
        return self.begin(body, headers)()

    def begin(self, body: bytes, headers: dict[str, str]) -> Callable[[], Answer]:
        """Send *body* to the endpoint; return what reads the answer, to be called once.

        Several calls that one thread has begun are under way side by side. However many they are
        and in whatever order they are read, each has its time from here on; an answer that is
        there when it is looked for is taken, however late that is.

        Raises:
            As ``post``; what is returned raises ConnectionClosedError or ReadTimeoutError.
        """
        connection = self._idle_one() or self._new_one()
        patience_ends = time.monotonic() + self._read_seconds
        with self._failing_as_botocore(connection):
            connection.request("POST", self._place.path or "/", body, headers)
            connection.flush()
        return lambda: self._answer(connection, patience_ends)

    def _idle_one(self) -> _InOneWrite | None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            if not _is_over(connection):
                return connection
            connection.close()
        return None

    def _new_one(self) -> _InOneWrite:
        connection = self._unconnected()
        try:
            connection.connect()
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=self._url, error=error) from error
        except ssl.SSLError as error:
            raise SSLError(endpoint_url=self._url, error=error) from error
        except OSError as error:
            raise EndpointConnectionError(endpoint_url=self._url, error=error) from error
        connection.sock.settimeout(self._read_seconds)
        return connection

    def _unconnected(self) -> _InOneWrite:
        host, port, timeout = self._place.hostname or "", self._place.port, self._connect_seconds
        if self._trust is None:
            return _InOneWrite(host, port, timeout=timeout)
        return _InOneWriteTls(host, port, timeout=timeout, context=self._trust)

    def _answer(self, connection: _InOneWrite, patience_ends: float) -> Answer:
        with self._failing_as_botocore(connection):
            # What came while nobody looked is there at once, however late it is.
            left = max(_LEAST_READ_SECONDS, patience_ends - time.monotonic())
            connection.sock.settimeout(left)
            response: Any = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        if connection.sock is not None:
            connection.sock.settimeout(self._read_seconds)
            self._idle.append(connection)
        return answer

    @contextmanager
    def _failing_as_botocore(self, connection: _InOneWrite) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            connection.close()
            raise ReadTimeoutError(endpoint_url=self._url, error=error) from error
        except (HTTPException, OSError) as error:
            connection.close()
            raise ConnectionClosedError(endpoint_url=self._url, error=error) from error
        except BaseException:
            connection.close()
            raise


def _is_over(connection: _InOneWrite) -> bool:
    """Whether the other side has closed it: nobody sends unasked, so what is to be read is that."""
    return wait_for_read(connection.sock, timeout=0)
