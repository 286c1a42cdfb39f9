"""The console's server, as browsers and other programs of this machine reach it."""

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from queue import Queue
from urllib.parse import urlencode, urlsplit

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dlq.archive.storage.files import Archive
from dlq.cli.verbs.console import open_in_browser
from dlq.console import app
from dlq.console.app import MOST_CONNECTIONS, PromptProtocol
from dlq.console.security import Session
from tests.support.console_world import (
    a_dead_letter,
    archive_with,
    console_of,
    plan_of,
    running,
    serving,
)

Answer = tuple[int, dict[str, str], str]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return archive_with(tmp_path_factory.mktemp("console"), [a_dead_letter(n) for n in range(3)])


@pytest.fixture
def session(archive: Archive) -> Iterator[Session]:
    with running(console_of(archive)) as session:
        yield session


def ask(session: Session, path: str, method: str = "GET", body: str = "", **more: str) -> Answer:
    connection = HTTPConnection("127.0.0.1", session.port, timeout=60)
    try:
        connection.request(method, path, body or None, more)
        answer = connection.getresponse()
        headers = {name: value for name, value in answer.getheaders() if name != "date"}
        return answer.status, headers, answer.read().decode()
    finally:
        connection.close()


def follow(session: Session, address: str) -> Answer:
    return ask(session, address.partition(str(session.port))[2])


def target(page: str) -> str:
    """The address that a page leads to by itself."""
    return str(re.findall(r'url=([^"]+)', page)[0])


def enter(session: Session) -> str:
    """Open a printed address; return the cookie."""
    _, headers, page = follow(session, session.address)
    assert target(page) == f"{session.base}/"
    return headers["set-cookie"].partition(";")[0]


def test_a_file_for_a_browser_that_does_not_read_it_goes_and_the_printed_address_works(
    session: Session,
) -> None:
    started: Queue[str] = Queue()
    waits: list[float] = []
    pages: list[str] = []

    def wait(seconds: float) -> bool:
        file = Path(urlsplit(started.get()).path)
        started.put(file.as_uri())
        waits.append(seconds)
        pages.append(file.read_text())
        return False

    open_in_browser(session, started.put, wait)

    assert waits == [60]
    assert not Path(urlsplit(started.get()).path).parent.exists()
    assert target(pages[0]) == session.address
    assert follow(session, session.address)[0] == 200


def test_outside_of_its_path_there_is_nothing(session: Session) -> None:
    cookie = enter(session)
    assert len(session.base) == 1 + 128 // 4
    assert ask(session, f"{session.base}/", cookie=cookie)[0] == 200
    paths = ["/", "/jobs", "/assets/console.js", "/x/open", "/open/", f"/{'0' * 32}/"]
    paths += (session.base, f"{session.base}0/", f"/..{session.base}/", f"/{session.base}/")
    answers = [ask(session, path, cookie=cookie) for path in paths]
    for method in ("GET", "POST", "TRACE"):
        answers.append(ask(session, "/", method, "x=y"))
        answers.append(ask(session, "/", method, "x=y", **{"sec-fetch-site": "cross-site"}))

    assert answers[0][0] == 404
    assert all(answer == answers[0] for answer in answers)


def test_no_console_has_the_path_or_the_cookie_of_another() -> None:
    consoles = [Session(port=1) for _ in range(3)]

    for names in ({console.base for console in consoles}, {console.cookie for console in consoles}):
        assert len(names) == len(consoles)


def test_two_cookies_of_its_name_are_refused(session: Session) -> None:
    cookie = enter(session)
    page = f"{session.base}/"
    for given in (f"{cookie}; {cookie}", f"{session.cookie}=x; {cookie}", f"{cookie};{cookie}x"):
        assert ask(session, page, cookie=given)[0] == 403
    assert ask(session, page, cookie=f"a=b; {cookie}; {session.cookie}x=y")[0] == 200


def test_looking_at_the_address_does_not_use_it_up(session: Session) -> None:
    path = session.address.partition(str(session.port))[2]

    assert ask(session, path, "HEAD")[0] == 405
    assert ask(session, path, **{"sec-fetch-mode": "no-cors"})[0] == 405
    assert ask(session, path, **{"sec-fetch-mode": "navigate"})[0] == 200


def test_connections_have_a_bound(session: Session) -> None:
    with ExitStack() as held:
        for _ in range(MOST_CONNECTIONS):
            held.enter_context(socket.create_connection(("127.0.0.1", session.port)))
        assert ask(session, "/")[0] == 503
    status = 0
    while status != 404:
        with suppress(OSError):
            status = ask(session, "/")[0]


HALF = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n"


def read_to_end(connection: socket.socket) -> bytes:
    """Read what the server sends until it closes the connection; TimeoutError if it does not."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("sent", [b"", HALF])
def test_connection_without_a_whole_request_is_closed(
    session: Session, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(app, "HEAD_SECONDS", 0.05)
    with ExitStack() as held:
        address = ("127.0.0.1", session.port)
        connections = []
        for _ in range(MOST_CONNECTIONS):
            connection = socket.create_connection(address, timeout=60)
            connections.append(held.enter_context(connection))
        for connection in connections:
            connection.sendall(sent)
        assert {read_to_end(connection) for connection in connections} == {b""}

        assert ask(session, "/")[0] == 404


def test_answer_may_take_longer_than_a_request_and_the_next_request_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "HEAD_SECONDS", 3600.0)
    made: list[PromptProtocol] = []

    class Noted(PromptProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            made.append(self)

    async def answer(_: Request) -> Response:
        made[0].close_without_request()
        monkeypatch.setattr(app, "HEAD_SECONDS", 0.05)
        return PlainTextResponse("late")

    config = uvicorn.Config(Starlette(routes=[Route("/", answer)]), http=Noted, lifespan="off")
    with serving(uvicorn.Server(config)) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"late"

        # It may be closed already: then that is the end, too.
        with suppress(ConnectionError):
            connection.sock.sendall(HALF)
            read_to_end(connection.sock)
        connection.close()


def test_a_plan_is_one_of_the_archive_s_reports(
    archive: Archive, session: Session, tmp_path: Path
) -> None:
    plan = plan_of(archive)
    other = tmp_path / "plan.yaml"
    content = archive.read(f"reports/{plan.plan_id}/plan.yaml")
    assert content
    other.write_bytes(content)
    cookie = enter(session)
    group = plan.groups[0].group_id
    gets = ("/", "/redrive", *(f"/groups/{group}{rest}" for rest in ("", "/messages", "/edit")))
    posts = ("/decide", f"/groups/{group}/edit", f"/groups/{group}/edit/preview", "/redrive")

    for name, status in ((plan.plan_id, 200), (str(other), 422), (f"{plan.plan_id}/../x", 422)):
        for path in gets:
            query = urlencode({"plan": name})
            assert ask(session, f"{session.base}{path}?{query}", cookie=cookie)[0] == status
    headers = {
        "cookie": cookie,
        "origin": f"http://127.0.0.1:{session.port}",
        "content-type": "application/x-www-form-urlencoded",
        "x-csrf-token": session.csrf,
    }
    fields = {"plan": other, "group": group, "what": group, "decision": "discard"}
    for path in posts:
        assert ask(session, session.base + path, "POST", urlencode(fields), **headers)[0] == 422
    assert other.read_bytes() == content
