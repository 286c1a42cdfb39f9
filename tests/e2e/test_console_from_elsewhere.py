"""What other web pages and other people's browsers can do to a console: nothing."""

import html
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console_world import console_of, plan_of
from tests.e2e.console_browser import ROOT
from tests.e2e.test_console_in_browser import Desk, desk, incident


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Serve a folder from another port; give the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def stolen_form(it: Desk) -> tuple[str, dict[str, str]]:
    """A decision about one group as the console's own page would send it, CSRF token included."""
    form = it.go("/groups/g-0000000001").locator("form").filter(has_text="Redrive").first
    action, fields = form.evaluate(
        "(form) => [form.action, Object.fromEntries(new FormData(form, form.elements.decision[0]))]"
    )
    assert fields["csrf"]
    assert fields["decision"] == "redrive"
    return action, fields


@pytest.mark.parametrize("host", ["127.0.0.1", "evil.test"])
def test_a_foreign_page_decides_nothing_and_reads_nothing(
    browser: Browser, tmp_path: Path, host: str
) -> None:
    """Another port of this machine is the same site, whose requests carry the session's cookie."""
    archive = incident(tmp_path / "archive")
    before = plan_of(archive).decisions_sha256
    site = tmp_path / "site"
    site.mkdir()
    with desk(browser, console_of(archive)) as it, serving(site) as port:
        action, fields = stolen_form(it)
        inputs = "".join(
            f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
            for name, value in fields.items()
        )
        target = f'<form method="post" action="{html.escape(action)}">'
        (site / "form.html").write_text(f"{target}{inputs}<button>Win</button></form>")
        page = it.page

        page.goto(f"http://{host}:{port}/form.html")
        with page.expect_response(action) as submitted:
            page.get_by_role("button").click()
        assert submitted.value.status == 403
        expect(page.locator("body")).to_contain_text("Another site asked for this.")

        page.goto(f"http://{host}:{port}/form.html")
        done = page.evaluate(
            """async ([action, fields, base]) => {
                const sent = {credentials: "include", mode: "no-cors"};
                const body = new URLSearchParams(fields);
                const said = (one) => one.then((answer) => answer.type, (error) => error.name);
                const frame = document.createElement("iframe");
                frame.src = base;
                document.body.append(frame);
                await new Promise((resolve) => { frame.onload = resolve; });
                let inside;
                try { inside = frame.contentDocument ? "read" : "closed"; }
                catch (error) { inside = "closed"; }
                return [
                    await said(fetch(action, {...sent, method: "POST", body})),
                    await said(fetch(base, {credentials: "include"})),
                    inside,
                ];
            }""",
            [action, fields, it.base],
        )
        assert done[1:] == ["TypeError", "closed"]
        assert plan_of(archive).decisions_sha256 == before

        it.go("/groups/g-0000000001")
        page.get_by_role("button", name="Redrive").click()
        expect(page.get_by_role("status").first).to_contain_text("Decided: redrive")
        assert plan_of(archive).decisions_sha256 != before


def test_the_browser_s_command_holds_no_token(browser: Browser, tmp_path: Path) -> None:
    """Every user of this machine reads the words of every command, while the browser starts."""
    words, end, program = (tmp_path / name for name in ("words", "end", "browser"))
    program.write_text(
        f'#!/bin/sh\necho "$@" > {words}.new && mv {words}.new {words}\n'
        f"while [ ! -e {end} ]; do sleep 0.1; done\n"
    )
    program.chmod(0o700)
    terminal, its_end = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "dlq_cli", "console", "--archive", incident(tmp_path).root],
        cwd=ROOT,
        env={
            **os.environ,
            "BROWSER": f"{program} %s",
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "layers" / "core"))),
        },
        stdout=its_end,
    )
    try:
        while not words.exists():
            assert process.poll() is None
            time.sleep(0.05)
        address = words.read_text().strip()
        assert re.fullmatch(r"file:///\S+/open\.html", address)
        file = Path(address.removeprefix("file://"))
        modes = [one.stat().st_mode & 0o777 for one in (file, file.parent)]
        assert modes == [0o600, 0o700]
        with browser.new_context() as profile:
            page = profile.new_page()
            page.goto(address)
            page.wait_for_url(re.compile(r"127\.0\.0\.1:\d+/[0-9a-f]{32}/$"))
            expect(page.locator("#groups-title")).to_be_visible()
        while file.parent.exists():
            time.sleep(0.05)
    finally:
        end.touch()
        process.send_signal(signal.SIGINT)
        process.wait()
        os.close(terminal)
        os.close(its_end)
