"""The verb ``rehearse`` against an endpoint with Lambda's Invoke, without Spark."""

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.storage.files import Archive
from dlq.cli.command import main
from tests.support.builders import context, message, queue_arn
from tests.support.ledgers import settle
from tests.support.parked_orders import archived, order, plan_of
from tests.support.served import served

Event = Mapping[str, Any]
Answer = Callable[[Event], tuple[int, Mapping[str, str], bytes | None]]
Capture = pytest.CaptureFixture[str]


def consumer(event: Event) -> tuple[int, Mapping[str, str], bytes]:
    """Fail, as Lambda reports it, on an order without its VAT."""
    (record,) = event["Records"]
    if "vat" in json.loads(record["body"]):
        return 200, {}, b"null"
    error = {"errorMessage": "'vat' of ann@example.com", "errorType": "KeyError"}
    return 200, {"X-Amz-Function-Error": "Unhandled"}, json.dumps(error).encode()


@dataclass
class Function:
    """A function behind Lambda's Invoke.

    Attributes:
        answer: returns status, headers and content; without content the connection is closed.
        events: that it was invoked with.
        paths: of the requests.
        signatures: the headers ``Authorization`` of the requests.
    """

    answer: Answer = consumer
    url: str = ""
    events: list[Event] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    signatures: list[str | None] = field(default_factory=list)

    def bodies(self) -> list[Any]:
        return [json.loads(event["Records"][0]["body"]) for event in self.events]


class Server(ThreadingHTTPServer):
    """The endpoint of Lambda's Invoke. It stays for all tests; its function does not."""

    function: Function


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        function = self.server.function
        content = self.rfile.read(int(self.headers["Content-Length"]))
        function.paths.append(self.path)
        function.signatures.append(self.headers["Authorization"])
        function.events.append(json.loads(content))
        status, headers, payload = function.answer(function.events[-1])
        if payload is None:
            return
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(payload))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(Server(("127.0.0.1", 0), Handler)) as server:
        yield server


@pytest.fixture
def function(server: Server) -> Function:
    server.function = Function(url=f"http://127.0.0.1:{server.server_port}")
    return server.function


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return archived(tmp_path, [order(n, vat=n != 1) for n in range(4)])


@pytest.fixture
def on_aws(function: Function, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Function:
    """The function, where boto3 finds it without ``--endpoint``."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", function.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", moto_endpoint)
    return function


def rehearse(archive: Archive, *words: str, group: str = "") -> int:
    """Run the verb on the only group of the newest plan, which is made if there is none."""
    if not group:
        (planned,) = plan_of(archive).groups
        group = planned.group_id
    return main(["rehearse", group, "--archive", archive.root, "--function", "orders", *words])


def test_new_copies_come_in_order_verdicts_are_counted_and_a_failure_is_exit_code_3(
    archive: Archive, function: Function, capsys: Capture
) -> None:
    before = set(archive.list(""))

    assert rehearse(archive, "--endpoint", function.url) == 3

    [group] = plan_of(archive).groups
    lines = [re.sub(" {2,}", "|", line.rstrip()) for line in capsys.readouterr().out.splitlines()]
    repeated = f"--archive {archive.root} --function orders --endpoint {function.url}"
    assert lines == [
        "verdict|messages|why|for example",
        "fail|1|KeyError: 'vat' of ***|m-001",
        "pass|3|m-000",
        "4 of 4 messages rehearsed: 3 passed, 1 failed",
        f"next, once it is fixed: dlq rehearse {group.group_id} {repeated}",
    ]
    assert set(function.paths) == {"/2015-03-31/functions/orders/invocations"}
    assert [body["id"] for body in function.bodies()] == [0, 1, 2, 3]
    records = [event["Records"][0] for event in function.events]
    assert len({record["messageId"] for record in records} - {f"m-00{n}" for n in range(4)}) == 4
    assert {record["eventSourceARN"] for record in records} == {queue_arn("orders")}
    assert [record["messageAttributes"] for record in records] == [{}] * 4
    # Unsigned, so that no endpoint of AWS takes it for a call that nobody was asked about.
    assert function.signatures == [None] * 4
    assert all(path.startswith("reports/") for path in set(archive.list("")) - set(before))


def test_json_has_what_failed_and_all_that_pass_are_exit_code_0(
    archive: Archive, function: Function, capsys: Capture
) -> None:
    function.answer = lambda _: (200, {}, b"null")

    assert rehearse(archive, "--endpoint", function.url, "--json", "--limit", "2") == 0

    answer = json.loads(capsys.readouterr().out)
    assert (answer["function"], answer["messages"], answer["stopped_by"]) == ("orders", 2, None)
    assert answer["outcomes"] == [
        {
            "verdict": "pass",
            "error_type": "",
            "error": "",
            "count": 2,
            "examples": ["m-000", "m-001"],
        }
    ]


def decided(archive: Archive, edit: str) -> str:
    """Decide on the only group with a JSON Patch; return its id."""
    (group,) = plan_of(archive).groups
    words = ["--archive", archive.root, group.group_id, "redrive", "--edit", edit]
    assert main(["decide", *words]) == 0
    return str(group.group_id)


def test_plan_s_edit_is_applied_and_a_message_that_it_does_not_fit_fails(
    archive: Archive, function: Function, capsys: Capture
) -> None:
    group = decided(archive, '[{"op": "replace", "path": "/vat", "value": 25}]')

    assert rehearse(archive, "--endpoint", function.url, group=group) == 3

    assert function.bodies() == [{"id": number, "vat": 25} for number in (0, 2, 3)]
    assert "EditFailed: operation 1 (replace /vat): the body has no such place  m-001" in (
        capsys.readouterr().out
    )


def test_set_attributes_are_refused(archive: Archive, function: Function, capsys: Capture) -> None:
    (group,) = plan_of(archive).groups
    (path,) = Path(archive.root).glob("reports/*/plan.yaml")
    plan = path.read_text()
    path.write_text(plan.replace("action: redrive", "action: redrive\n  set_attributes: {a: '1'}"))

    assert rehearse(archive, "--endpoint", function.url, group=group.group_id) == 2

    assert "its set_attributes are Spark SQL" in capsys.readouterr().err
    assert function.events == []


def settled(archive: Archive, outcomes: Mapping[str, Disposition]) -> str:
    """Write what a redrive of a plan did; return the id of the plan's only group."""
    plan = plan_of(archive)
    settle(archive, plan.plan_id, outcomes)
    return plan.groups[0].group_id


def test_what_is_decided_is_not_rehearsed(archive: Archive, function: Function) -> None:
    group = settled(archive, {"m-001": Disposition.DISCARDED, "m-002": Disposition.SENT})

    assert rehearse(archive, "--endpoint", function.url, group=group) == 0
    assert [body["id"] for body in function.bodies()] == [0, 3]


def test_group_without_a_pending_message_is_refused(
    archive: Archive, function: Function, capsys: Capture
) -> None:
    group = settled(archive, {f"m-00{number}": Disposition.SENT for number in range(4)})

    assert rehearse(archive, "--endpoint", function.url, group=group) == 2
    assert "no message is pending" in capsys.readouterr().err


def test_source_queue_that_nothing_names_has_to_be_given(
    tmp_path: Path, function: Function, capsys: Capture
) -> None:
    archive = archived(tmp_path, [message("m-1", '{"vat": 1}', context(reason="too_old"))])
    (group,) = plan_of(archive).groups
    words = ("--endpoint", function.url)

    assert rehearse(archive, *words, group=group.group_id) == 2
    assert "give --main-queue-url" in capsys.readouterr().err

    url = "https://sqs.eu-west-1.amazonaws.com/123456789012/bills"
    assert rehearse(archive, *words, "--main-queue-url", url, group=group.group_id) == 0
    (record,) = function.events[-1]["Records"]
    assert record["eventSourceARN"] == "arn:aws:sqs:eu-west-1:123456789012:bills"
    assert record["awsRegion"] == "eu-west-1"


@pytest.mark.parametrize(
    ("status", "code", "payload"),
    [
        pytest.param(429, "TooManyRequestsException", b"{}", id="throttled"),
        pytest.param(500, "ServiceException", b"{}", id="fault of Lambda's"),
        pytest.param(200, "", None, id="closed connection"),
    ],
)
def test_call_without_an_answer_is_no_verdict_and_is_not_repeated(
    archive: Archive,
    on_aws: Function,
    capsys: Capture,
    status: int,
    code: str,
    payload: bytes | None,
) -> None:
    def answer(event: Event) -> tuple[int, Mapping[str, str], bytes | None]:
        if json.loads(event["Records"][0]["body"])["id"] == 2:
            return status, {"X-Amzn-ErrorType": code}, payload
        return consumer(event)

    on_aws.answer = answer

    assert rehearse(archive, "--yes") == 2

    shown = capsys.readouterr()
    assert code in shown.err
    assert "it may have processed message m-002, which it knows as" in shown.err
    assert [body["id"] for body in on_aws.bodies()] == [0, 1, 2]
    assert "2 of 4 messages rehearsed: 1 passed, 1 failed" in shown.out


def test_ended_process_in_the_emulator_is_a_failure(
    archive: Archive, function: Function, capsys: Capture
) -> None:
    function.answer = lambda _: (502, {}, b"")

    assert rehearse(archive, "--endpoint", function.url) == 3
    assert "ProcessEnded" in capsys.readouterr().out


QUESTION = "invokes function orders as account 123456789012 in us-east-1 for 4 messages"


@pytest.mark.parametrize(
    ("typed", "calls", "shown"),
    [("y\n", 4, QUESTION), ("n\n", 0, QUESTION), ("", 0, QUESTION), (None, 0, "--yes")],
    ids=["yes", "no", "nothing", "nobody can be asked"],
)
def test_function_on_aws_is_invoked_after_a_question_alone(
    archive: Archive,
    on_aws: Function,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    typed: str | None,
    calls: int,
    shown: str,
) -> None:
    terminal = io.StringIO(typed or "")
    monkeypatch.setattr(terminal, "isatty", lambda: typed is not None)
    monkeypatch.setattr("sys.stdin", terminal)

    assert rehearse(archive) == (3 if calls else 2)

    assert shown in capsys.readouterr().err
    assert len(on_aws.events) == calls
