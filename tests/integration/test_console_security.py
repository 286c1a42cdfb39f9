"""The console answers its own user alone, and every answer carries the headers of security."""

from typing import Any

import pytest

from dlq.archive.storage.files import Archive
from dlq.console.security import HEADERS
from tests.support.console_world import (
    BASE,
    HERE,
    PORT,
    Browser,
    a_dead_letter,
    archive_with,
    console_of,
    opened,
    plan_of,
    visitor,
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return archive_with(tmp_path_factory.mktemp("console"), [a_dead_letter(n) for n in range(3)])


@pytest.fixture
def browser(archive: Archive) -> Browser:
    return opened(console_of(archive))


def decision(archive: Archive) -> dict[str, str]:
    """A form that would be carried out, if it were let in."""
    group = plan_of(archive).groups[0]
    return {"plan": plan_of(archive).plan_id, "group": group.group_id, "decision": "redrive"}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        f"127.0.0.1:{PORT + 1}",
        f"127.0.0.1.evil.example:{PORT}",
        f"localhost.:{PORT}",
        f"[::1]:{PORT}",
        f"user@127.0.0.1:{PORT}",
        "",
    ],
)
def test_a_rebound_host_gets_nothing(archive: Archive, browser: Browser, host: str) -> None:
    """The page of a name that turns to 127.0.0.1 has the console's port as its own origin."""
    for path in ("/", f"{HERE}/open?token=x", f"{HERE}/x", "/assets/console.js"):
        answer = browser.get(path, headers={"host": host})
        assert answer.status_code == 421
        assert "KeyError" not in answer.text
    answer = browser.post(
        "/decide", decision(archive), headers={"host": host, "origin": f"http://{host}"}
    )
    assert answer.status_code == 421
    assert plan_of(archive).groups[0].action == "leave"


def test_the_address_works_once(archive: Archive) -> None:
    client, session = visitor(console_of(archive))
    for wrong in ("", "x", f"{session.address}x", "%00", "é"):
        assert client.get(f"{HERE}/open?token={wrong}").status_code == 403

    # By the other name of this machine.
    first = client.get(session.address, headers={"host": f"localhost:{PORT}"})

    assert (first.status_code, client.get(session.address).status_code) == (200, 403)
    cookie = first.headers["set-cookie"]
    attributes = {part.strip() for part in cookie.split(";")}
    assert {"HttpOnly", "SameSite=Strict", f"Path={BASE}"} <= attributes
    assert "Domain" not in cookie
    assert "</html>" in first.text
    assert "token" not in first.text
    assert first.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/", "/groups/g-0123456789", "/messages/m-1", "/nothing"])
@pytest.mark.parametrize(
    "cookie", [None, "x=y", "dlq-console=", "dlq-console=x", "=;;\x7f", "a=\udce9"]
)
def test_without_a_session_there_is_nothing(
    archive: Archive, path: str, cookie: str | None
) -> None:
    client, session = visitor(console_of(archive))
    named = (cookie or "").replace("dlq-console", session.cookie)
    headers = {} if cookie is None else {b"cookie": named.encode("utf-8", "surrogateescape")}

    answer = client.get(path, headers=headers)

    assert answer.status_code == 403
    assert "Open the address" in answer.text


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"origin": "http://evil.example"}, "did not come from a page"),
        ({"origin": f"http://localhost:{PORT}"}, "did not come from a page"),
        ({"origin": f"https://127.0.0.1:{PORT}"}, "did not come from a page"),
        ({"origin": "null"}, "did not come from a page"),
        ({}, "did not come from a page"),
        ({"origin": HERE, "sec-fetch-site": "cross-site"}, "Another site"),
        ({"origin": HERE, "sec-fetch-site": "same-site"}, "Another site"),
    ],
)
def test_a_foreign_origin_changes_nothing(
    archive: Archive, browser: Browser, headers: dict[str, str], why: str
) -> None:
    answer = browser.post("/decide", decision(archive), headers=headers)

    assert answer.status_code == 403
    assert why in answer.text
    assert plan_of(archive).groups[0].action == "leave"


@pytest.mark.parametrize("token", [None, "", "x", "é", "of another console"])
def test_without_the_csrf_token_nothing_changes(
    archive: Archive, browser: Browser, token: str | None
) -> None:
    if token == "of another console":
        token = opened(console_of(archive)).session.csrf
    form = {**decision(archive), **({} if token is None else {"csrf": token})}
    headers = {"origin": HERE}

    answer = browser.client.post("/decide", data=form, headers=headers)

    assert answer.status_code == 403
    assert "not of this session" in answer.text
    assert plan_of(archive).groups[0].action == "leave"


def test_the_csrf_token_may_come_as_a_header(archive: Archive, browser: Browser) -> None:
    headers = {"origin": HERE, "x-csrf-token": browser.session.csrf}
    answer = browser.client.post("/decide", data={"plan": "x"}, headers=headers)

    assert answer.status_code == 422


def test_a_form_has_not_any_number_of_fields(browser: Browser) -> None:
    many = {f"f{n}": "x" for n in range(10_001)}
    assert browser.post("/decide", many).status_code == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/decide"),
        ("POST", "/"),
        ("PUT", "/"),
        ("DELETE", "/groups/g-0123456789"),
        ("PATCH", "/decide"),
        ("OPTIONS", "/"),
        ("TRACE", "/"),
    ],
)
def test_another_method_is_refused(browser: Browser, method: str, path: str) -> None:
    headers = {"origin": HERE, "x-csrf-token": browser.session.csrf}
    headers["content-type"] = "application/x-www-form-urlencoded"
    assert browser.client.request(method, path, headers=headers).status_code == 405


def test_links_of_other_sites_are_followed_and_nothing_else(browser: Browser) -> None:
    cross: dict[str, str] = {"sec-fetch-site": "cross-site"}
    assert browser.get("/", headers={**cross, "sec-fetch-mode": "navigate"}).status_code == 200
    for mode in ("cors", "no-cors", "same-origin", "websocket"):
        assert browser.get("/", headers={**cross, "sec-fetch-mode": mode}).status_code == 403
        assert (
            browser.get("/assets/console.js", headers={**cross, "sec-fetch-mode": mode}).status_code
            == 403
        )


def test_every_answer_carries_the_same_protection(archive: Archive, browser: Browser) -> None:
    client, _ = visitor(console_of(archive))
    answers: list[Any] = [
        browser.get("/"),
        browser.get("/nothing"),
        browser.get("/messages/unknown"),
        browser.get("/assets/console.css"),
        browser.post("/decide", {}),
        browser.get("/", headers={"host": "evil.example"}),
        client.get("/"),
        client.get(f"{HERE}/open?token=x"),
    ]

    for answer in answers:
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS

        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert {"frame-ancestors 'none'", "form-action 'self'"} <= set(policy.split("; "))

        assert not [name for name in answer.headers if name.startswith("access-control-")]
        assert answer.headers["referrer-policy"] in ("same-origin", "no-referrer")

    assert {answer.headers["cache-control"] for answer in answers} == {
        "no-store",
        "private, max-age=31536000, immutable",
    }


def test_assets_are_the_package_s_own_files_alone(archive: Archive, browser: Browser) -> None:
    page = browser.get("/").text
    for name in ("early.js", "console.js", "console.css"):
        address = page.split(f"/assets/{name}?")[1].split('"')[0]
        assert browser.get(f"/assets/{name}?{address}").status_code == 200
    assert "htmx" in browser.get("/assets/console.js").text
    for name in ("../security.py", "%2e%2e/security.py", "htmx/vendored.json", "x"):
        assert browser.get(f"/assets/{name}").status_code == 404


def test_a_fault_of_ours_ends_one_request_alone(
    archive: Archive, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("secret of a message")

    with monkeypatch.context() as patched:
        patched.setattr("dlq.console.reports.read_report", fail)
        answer = browser.get("/")

    assert answer.status_code == 500
    assert "That did not work." in answer.text
    assert "secret" not in answer.text
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert browser.get("/").status_code == 200


def test_a_browser_gets_pages_where_it_is_refused(archive: Archive, browser: Browser) -> None:
    accepts = {"accept": "text/html,application/xhtml+xml"}
    stranger, session = visitor(console_of(archive))

    no_session = stranger.get("/", headers=accepts)
    elsewhere = stranger.get(f"{HERE}/x", headers=accepts)
    used = browser.get(browser.session.address, headers=accepts)
    missing = browser.get("/nothing", headers=accepts)
    of_htmx = stranger.get("/", headers={**accepts, "hx-request": "true"})

    assert [no_session.status_code, elsewhere.status_code, used.status_code] == [403, 404, 403]
    assert "No session." in no_session.text
    assert "/assets/console.css" in no_session.text
    assert session.base not in elsewhere.text
    assert session.base not in used.text
    assert "was used already" in used.text
    assert missing.status_code == 404
    assert "Back to the groups" in missing.text
    assert of_htmx.headers["content-type"].startswith("text/plain")
    for answer in (no_session, elsewhere, used, missing):
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]
