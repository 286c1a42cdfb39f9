"""A console to ask, without a socket: an archive that was written without Spark, and a client."""

import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvicorn
from starlette.testclient import TestClient

from dlq.archive.group_records import add_statement
from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_store import write_messages
from dlq.archive.storage.files import Archive, open_archive
from dlq.archive.storage.table_parts import parquet_bytes
from dlq.aws.actor import actor
from dlq.cli.verbs.console import listen
from dlq.console.app import make_app, make_server
from dlq.console.jobs import Jobs
from dlq.console.security import Session
from dlq.console.site import Console
from dlq.explain.findings import Findings, GroupFinding
from dlq.explain.outputs import groups_table, summary_json
from dlq.explain.triage import Statement, is_group_id
from dlq.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text
from dlq.plan.plan_file import find_plan
from dlq.plan.plan_reading import read_plan
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE, body_digest
from dlq_replay.wire.message import Message
from tests.support.approved_plan import planned, write_plan_table
from tests.support.builders import counter, message, queue_url, text
from tests.support.findings_builder import HOSTILE_TEXTS, a_group, hostile_findings, some_findings
from tests.support.golden import assert_stored
from tests.support.page_outline import PageOutline

PORT = 8765
HERE = f"http://127.0.0.1:{PORT}"
BASE = f"/{'0123456789abcdef' * 2}"
NOW = datetime(2025, 11, 20, 12, 0, tzinfo=UTC)
_ticks = itertools.count()
DRAIN = "20251120T100000Z-000001"


def a_dead_letter(number: int, body: str | None = None, **context: Any) -> Message:
    """One parked copy; *context* goes into its ``sqs-dlq-context``."""
    fields = {"v": 1, "id": f"first-{number}", "t0": 1_763_600_000 + number, "src": "orders"}
    failure = {"reason": "attempts_exhausted", "error": {"type": "KeyError", "message": "'vat'"}}
    body = json.dumps({"order": {"id": number, "zip": "1011"}}) if body is None else body
    ours = text(json.dumps({**fields, "h": body_digest(body), **failure, **context}))
    made = message(
        f"m-{number:04}",
        body,
        {CONTEXT_ATTRIBUTE: ours, **counter("6"), "tenant": text("acme")},
        SentTimestamp=str(1_763_630_000_000 + number * 1000),
        ApproximateReceiveCount=str(1 + number % 3),
    )
    return replace(made, receipt_handle="")


def archive_with(folder: Path, messages: Sequence[Message], files: int = 1) -> Archive:
    """Write one drain of these messages, and the plan that leaves them all, with its report."""
    archive = open_archive(str(folder / "archive"), creates=True)
    rows = [to_row(message, queue_url("parked"), NOW) for message in messages]
    for number in range(files):
        write_messages(archive, DRAIN, number, rows[number::files])
    plan_path = Path(planned(archive, "leave"))
    plan = read_plan(plan_path.read_text())
    groups = []
    for planned_group in plan.groups:
        group_id = planned_group.group_id
        title = planned_group.title
        groups.append(a_group(group_id=group_id, title=title, count=planned_group.count))
    write_report(archive, plan.plan_id, groups)
    return archive


def archive_from(
    folder: Path, findings: Findings, bodies: Callable[[int, int], str], each: int = 3
) -> Archive:
    """Write an archive, plan and report in which each group of *findings* has *each* messages.

    Args:
        folder: gets the archive.
        findings: what the report says; ids of groups are made valid, and counts are kept.
        bodies: of the message with this number in the group at this place.
        each: messages of a group.
    """
    archive = open_archive(str(folder / "archive"), creates=True)
    groups = []
    letters = []
    for place, group in enumerate(findings.groups):
        is_valid = is_group_id(group.group_id)
        groups.append(group if is_valid else replace(group, group_id=f"g-{place:010x}"))
        for number in range(each):
            letters.append(a_dead_letter(place * each + number, bodies(place, number)))

    rows = [to_row(letter, queue_url("parked"), NOW) for letter in letters]
    path = write_messages(archive, DRAIN, 0, rows)

    plan_id = "20251120T103000Z-4f2a00"
    report = f"reports/{plan_id}"
    of_plan = []
    for place, row in enumerate(rows):
        of_plan.append({**row, "file": path, "group_id": groups[place // each].group_id})
    table = write_plan_table(archive, f"{report}/messages.parquet", of_plan)

    left = []
    for group in groups:
        left.append(PlannedGroup(group.group_id, group.title, group.count, Action.LEAVE))
    plan = Plan(plan_id, archive.root, Snapshot((DRAIN,), len(rows), table), tuple(left))
    archive.write(f"{report}/plan.yaml", plan_text(plan).encode())

    ours: dict[str, Any] = {"plan_id": plan_id, "archive": archive.root, "where": None}
    findings = replace(findings, groups=tuple(groups), **ours)
    archive.write(f"{report}/summary.json", summary_json(findings).encode())

    return archive


def hostile_archive(folder: Path) -> Archive:
    """22 groups in whose report, bodies and notes every hostile text stands; 220 hostile bodies."""
    texts = HOSTILE_TEXTS

    def body(place: int, number: int) -> str:
        return texts[(place + number) % len(texts)].encode("utf-8", "replace").decode() or "x"

    archive = archive_from(folder, hostile_findings(), body, each=10)
    for place, group in enumerate(plan_of(archive).groups):
        text = texts[place].encode("utf-8", "replace").decode()
        statement = Statement(NOW, text[:80], action=text[:80], plan_id=text[:80], text=text)
        add_statement(archive, group.group_id, statement)
    return archive


def write_report(archive: Archive, plan_id: str, groups: Sequence[GroupFinding]) -> Findings:
    """Write what an analysis writes beside a plan."""
    findings = some_findings(*groups, plan_id=plan_id, archive=archive.root)
    archive.write(f"reports/{plan_id}/summary.json", summary_json(findings).encode())
    archive.write(f"reports/{plan_id}/groups.parquet", parquet_bytes(groups_table(findings)))
    return findings


def plan_of(archive: Archive) -> Plan:
    """The plan of the newest report, as it is now."""
    return read_plan(find_plan(archive, None).read())


def assert_page(name: str, page: str, archive: Archive) -> None:
    """Assert that the main part of *page* reads as ``tests/golden/console.txt`` has it.

    Ids, tokens and times that differ from run to run stand there as words.
    """
    main = re.search("<main.*</main>", page, re.DOTALL)
    text = "\n".join(PageOutline(main[0] if main else page).lines)
    for pattern, description in (
        (re.escape(actor()), "ME"),
        (r"(?<= after )\d+ s\b", "N s"),
        (re.escape(archive.root), "ARCHIVE"),
        (re.escape(BASE), ""),
        (r"\b\d{8}T\d{6}Z-[0-9a-f]+", "ID"),
        (r"(name=csrf value=)[^\]\s]+", r"\1TOKEN"),
        (r"\b20\d\d-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?", "TIME"),
        (r"\b[0-9a-f]{64}\b", "SHA256"),
    ):
        text = re.sub(pattern, description, text)
    assert_stored("console", name, text)


@dataclass
class Browser:
    """A client that has the session of one console."""

    client: TestClient
    session: Session

    def get(self, path: str, **values: Any) -> Any:
        return self.client.get(path, **values)

    def post(self, path: str, fields: Any, **values: Any) -> Any:
        """Send a form as a page of the console does; redirects are not followed."""
        values.setdefault("headers", {"origin": HERE})
        fields = {"csrf": self.session.csrf, **fields}
        return self.client.post(path, data=fields, follow_redirects=False, **values)


def console_of(archive: Archive, **changes: Any) -> Console:
    """A console whose clock, shared by all consoles, goes on with each look."""
    jobs = Jobs(Path(archive.root).parent / "state" / "jobs", NOW.timestamp)
    return replace(Console(archive, _tick, "ann@desk", jobs), **changes)


def _tick() -> datetime:
    return NOW + timedelta(microseconds=next(_ticks))


def visitor(console: Console, port: int = PORT) -> tuple[TestClient, Session]:
    """A browser that has not opened the printed address."""
    session = Session(port, BASE)
    client = TestClient(make_app(console, session), base_url=f"http://127.0.0.1:{port}{BASE}")
    return client, session


@contextmanager
def running(console: Console) -> Iterator[Session]:
    """A console that listens, in a thread of this process."""
    listener = listen(0)
    session = Session(listener.getsockname()[1])
    with serving(make_server(console, session), listener):
        yield session


@contextmanager
def serving(server: uvicorn.Server, listener: socket.socket | None = None) -> Iterator[int]:
    """Run *server* in a thread of this process; yield its port."""
    listener = listener or listen(0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


def opened(console: Console) -> Browser:
    """A browser that has opened the printed address."""
    client, session = visitor(console)
    assert client.get(session.address).status_code == 200
    return Browser(client, session)
