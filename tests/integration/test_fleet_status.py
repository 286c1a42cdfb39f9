"""``dlq status`` of a fleet, and its page of the console: queues, tags and metrics in moto."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.storage.files import open_archive
from dlq.cli.command import main
from dlq_replay.aws.breaker_table import DynamoDbBreaker
from dlq_replay.rules.breaker import Update
from tests.integration.conftest import Capture
from tests.support.builders import queue_address
from tests.support.console_world import console_of, opened
from tests.support.failure_table import create_failure_table
from tests.support.installation import (
    FLEET,
    QUEUE_TAG,
    arn,
    client,
    fleet_outputs,
    make_queue,
    make_stack,
)
from tests.support.parked_orders import archived, order
from tests.support.served import App, empty, served_aws

DAY = 86_400

calls: list[str] = []
"""The names of the operations that moto was asked for, of the newest test."""

denied: set[str] = set()
"""The operations that answer that access is denied."""


def watched(app: App) -> App:
    def answer(environ: dict[str, Any], start: Any) -> Any:
        operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        calls.append(operation)
        if operation in denied:
            start("400 Bad Request", [("Content-Type", "application/x-amz-json-1.1")])
            return [b'{"__type": "AccessDeniedException", "message": "not you"}']
        return app(environ, start)

    return answer


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served_aws(watched) as url:
        yield url


@pytest.fixture
def fleet(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fleet of three DLQs, one of which has two main queues; its archive is at *tmp_path*."""
    empty()
    denied.clear()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_queue("parked")
    make_queue("parked.fifo", FifoQueue="true")
    make_queue("stranger")
    for name in ("orders-dlq", "mails-dlq", "refunds-dlq"):
        join(make_queue(name, arn("parked"), 1000))
    for name, dlq in (
        ("orders", "orders-dlq"),
        ("orders-bulk", "orders-dlq"),
        ("mails", "mails-dlq"),
        ("refunds", "refunds-dlq"),
    ):
        join(make_queue(name, arn(dlq)))

    create_failure_table(client("dynamodb"), "failures")
    client("events").put_rule(Name="sweep-rule", ScheduleExpression="rate(1 minute)")
    make_fleet(str(tmp_path / "archive"))
    calls.clear()
    return FLEET


def make_fleet(archive: str | None) -> None:
    outputs = fleet_outputs(FailureTableName="failures", FifoParkedQueueArn=arn("parked.fifo"))
    del outputs["ArchiveUri"]
    make_stack(FLEET, **outputs, **({"ArchiveUri": archive} if archive else {}))


def join(url: str) -> None:
    client("sqs").tag_queue(QueueUrl=url, Tags={"dlq-replay": QUEUE_TAG})


def send(queue: str, count: int, delay_seconds: int = 0) -> None:
    sqs = client("sqs")
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    for _ in range(count):
        sqs.send_message(QueueUrl=url, MessageBody="b", DelaySeconds=delay_seconds)


def publish(namespace: str, metric: str, value: float, minutes_ago: int = 7, **names: str) -> None:
    datum = {
        "MetricName": metric,
        "Dimensions": [{"Name": name, "Value": value} for name, value in names.items()],
        "Timestamp": datetime.now(UTC) - timedelta(minutes=minutes_ago),
        "Value": value,
    }
    client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=[datum])


def answer_of(capsys: Capture, *words: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["status", "--stack", FLEET, "--json", *words]) == code
    return dict(json.loads(capsys.readouterr().out))


def rows_of(answer: dict[str, Any], *fields: str) -> dict[str, tuple[Any, ...]]:
    return {row["queue"]: tuple(row[field] for field in fields) for row in answer["queues"]}


def fill_queues() -> None:
    send("mails-dlq", 2)
    send("refunds-dlq", 1)
    send("refunds-dlq", 3, delay_seconds=900)
    send("parked", 1)


def publish_metrics() -> None:
    # The newest age counts, and sums of both main queues.
    publish("AWS/SQS", "ApproximateAgeOfOldestMessage", 13 * DAY, 40, QueueName="refunds-dlq")
    publish("AWS/SQS", "ApproximateAgeOfOldestMessage", 300, 4, QueueName="refunds-dlq")
    for queue, replayed, failed in (("orders", 5, 0), ("orders-bulk", 7, 2), ("stranger", 99, 99)):
        publish("DlqReplay", "Replayed", replayed, service="sqs-dlq-replay", MainQueue=queue)
        publish("DlqReplay", "Failed", failed, service="sqs-dlq-replay", MainQueue=queue)
    publish("DlqReplay", "Replayed", 50, 90, service="sqs-dlq-replay", MainQueue="orders")
    of_refunds = {"service": "sqs-dlq-replay", "MainQueue": "refunds"}
    publish("DlqReplay", "NearestExpirySeconds", 13 * DAY, 4, **of_refunds)
    publish("DlqReplay", "NearestExpirySeconds", DAY, 40, **of_refunds)


def limit_mails() -> None:
    now = int(datetime.now(UTC).timestamp())
    breaker = DynamoDbBreaker(client("dynamodb"), "failures", "mails", lambda: now)
    breaker.update(Update(put={"limit": 1, "since": now - 60, "began": now - 60, "full": 40}))


@pytest.mark.usefixtures("fleet")
def test_each_dlq_has_what_is_known_of_its_queues(capsys: Capture) -> None:
    fill_queues()
    publish_metrics()
    limit_mails()

    answer = answer_of(capsys)

    assert rows_of(answer, "sources", "waiting", "held", "limit", "oldest_seconds") == {
        "orders-dlq": (["orders", "orders-bulk"], 0, 0, None, None),
        "mails-dlq": (["mails"], 2, 0, 1, None),
        "refunds-dlq": (["refunds"], 1, 3, None, 300),
    }
    assert rows_of(answer, "need", "replayed", "failed", "retention_seconds", "pending") == {
        "orders-dlq": ("failures", 12, 2, 14 * DAY, 0),
        "mails-dlq": ("limit", 0, 0, 14 * DAY, 0),
        "refunds-dlq": ("waiting", 0, 0, 14 * DAY, 0),
    }
    assert (answer["members"], answer["queue_tag"], answer["sweep"]) == (7, QUEUE_TAG, "enabled")
    assert {name: counts["visible"] for name, counts in answer["parked"].items()} == {
        "parked": 1,
        "parked.fifo": 0,
    }
    assert rows_of(answer, "expires_seconds")["refunds-dlq"] == (13 * DAY,)
    # Two ages, two expiries, and two metrics of each main queue.
    assert (answer["metrics"], answer["unknown"], answer["stack"]) == (12, [], FLEET)


@pytest.mark.usefixtures("fleet")
def test_status_has_a_line_for_each_dlq_the_most_urgent_first(capsys: Capture) -> None:
    fill_queues()
    publish_metrics()
    limit_mails()

    assert main(["status", "--stack", FLEET]) == 0

    out = capsys.readouterr().out
    assert out.startswith(f"fleet dlq-replay={QUEUE_TAG} at ")
    names = [line.split()[0] for line in out.splitlines() if "-dlq " in line]
    assert names == ["orders-dlq", "mails-dlq", "refunds-dlq"]
    assert "sweep: enabled\n" in out
    assert out.endswith(f"next: dlq collect --stack {FLEET}\n")


@pytest.mark.usefixtures("fleet")
def test_groups_and_pending_messages_are_of_the_dlq_of_their_source(
    tmp_path: Path, capsys: Capture
) -> None:
    messages = [order(number) for number in range(12)]
    messages += [order(number, source="mails", vat=False) for number in range(12, 15)]
    # SQS itself parked this one, by the redrive policy of the DLQ.
    messages.append(order(15, source="", DeadLetterQueueSourceArn=arn("refunds-dlq")))
    archived(tmp_path, messages)
    before = answer_of(capsys)
    assert main(["collect", "--only", "analyze", "--stack", FLEET]) == 0

    after = answer_of(capsys)

    assert rows_of(before, "pending", "new_groups", "need")["orders-dlq"] == (12, 0, "pending")
    assert rows_of(after, "pending", "new_groups", "need") == {
        "orders-dlq": (12, 1, "new groups"),
        "mails-dlq": (3, 1, "new groups"),
        "refunds-dlq": (1, 1, "new groups"),
    }
    assert (after["archive"]["messages"], after["archive"]["counts"]["pending"]) == (16, 16)
    assert main(["status", "--stack", FLEET]) == 0
    assert capsys.readouterr().out.endswith(f"next: dlq groups --stack {FLEET}\n")


@pytest.mark.usefixtures("fleet")
def test_metrics_are_kept_for_a_minute_and_only_missing_ones_are_read(capsys: Capture) -> None:
    first = answer_of(capsys)
    calls.clear()
    send("mails-dlq", 1)
    second = answer_of(capsys)
    third = answer_of(capsys)

    # One DLQ has an age and an expiry now. Counts are always read anew.
    assert [answer["metrics"] for answer in (first, second, third)] == [8, 2, 0]
    assert calls.count("GetMetricData") == 1
    assert rows_of(third, "waiting")["mails-dlq"] == (1,)
    assert first["figures_at"] == third["figures_at"]


@pytest.mark.usefixtures("fleet")
def test_answers_of_several_pages_are_one(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for queue, replayed in (("orders", 5), ("orders-bulk", 7), ("refunds", 9)):
        publish("DlqReplay", "Replayed", replayed, service="sqs-dlq-replay", MainQueue=queue)
    for name in ("_QUERIES", "MAX_READS"):
        monkeypatch.setattr(f"dlq.stack.fleet.{name}", 3)

    answer = answer_of(capsys)

    assert (calls.count("GetMetricData"), calls.count("BatchGetItem")) == (3, 2)
    assert rows_of(answer, "replayed", "failed") == {
        "orders-dlq": (12, 0),
        "mails-dlq": (0, 0),
        "refunds-dlq": (9, 0),
    }


@pytest.mark.usefixtures("fleet")
def test_a_parked_queue_with_the_tag_is_no_dlq(capsys: Capture) -> None:
    join(client("sqs").get_queue_url(QueueName="parked")["QueueUrl"])

    answer = answer_of(capsys)

    assert (answer["members"], sorted(rows_of(answer))) == (
        7,
        ["mails-dlq", "orders-dlq", "refunds-dlq"],
    )


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("queue", ["orders-dlq", "orders-bulk"])
def test_one_queue_is_shown_alone_and_costs_only_its_metrics(queue: str, capsys: Capture) -> None:
    answer = answer_of(capsys, "--queue", queue)

    assert (list(rows_of(answer)), answer["metrics"]) == (["orders-dlq"], 4)
    assert main(["status", "--stack", FLEET, "--queue", queue]) == 0
    assert "main queues of orders-dlq: orders, orders-bulk\n" in capsys.readouterr().out


@pytest.mark.usefixtures("fleet")
def test_a_queue_that_is_no_member_is_refused(capsys: Capture) -> None:
    assert main(["status", "--stack", FLEET, "--queue", "stranger"]) == 2
    assert "--queue stranger: the fleet has no queue of this name" in capsys.readouterr().err
    assert main(["status", "--archive", "/nowhere", "--queue", "orders"]) == 2
    assert "--queue: is only for a fleet" in capsys.readouterr().err


@pytest.mark.usefixtures("fleet")
def test_a_fleet_without_an_archive_and_without_a_sweep(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DLQ_ARCHIVE", raising=False)
    client("cloudformation").delete_stack(StackName=FLEET)
    outputs = fleet_outputs()
    for name in ("ArchiveUri", "SweepFunctionArn", "SweepRuleName"):
        del outputs[name]
    make_stack(FLEET, **outputs)

    answer = answer_of(capsys)

    assert (answer["archive"], answer["sweep"]) == (None, "none")
    assert rows_of(answer, "pending", "new_groups", "limit")["mails-dlq"] == (None, None, None)
    assert list(answer["parked"]) == ["parked"]
    assert main(["status", "--stack", FLEET]) == 0
    # What needs the archive still asks for one.
    assert main(["groups", "--stack", FLEET]) == 2


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    ("operation", "subject", "field"),
    [
        ("GetMetricData", "metrics: AccessDenied", "replayed"),
        ("BatchGetItem", "circuit breakers: AccessDenied", "limit"),
        ("DescribeRule", "sweep: AccessDenied", ""),
    ],
)
def test_what_is_denied_is_named_and_the_rest_is_shown(
    operation: str, subject: str, field: str, capsys: Capture
) -> None:
    send("mails-dlq", 1)
    denied.add(operation)

    answer = answer_of(capsys, code=1)

    (reason,) = answer["unknown"]
    assert reason.startswith(subject)
    assert rows_of(answer, "waiting")["mails-dlq"] == (1,)
    assert (answer["sweep"] is None) == (operation == "DescribeRule")
    if field:
        assert rows_of(answer, field)["mails-dlq"] == (None,)
    assert main(["status", "--stack", FLEET]) == 1
    assert f"not known: {subject}" in capsys.readouterr().out

    # Nothing was kept of what could not be read.
    denied.clear()
    assert rows_of(answer_of(capsys), "replayed")["mails-dlq"] == (0,)


@pytest.mark.usefixtures("fleet")
def test_a_queue_that_cannot_be_described_does_not_hide_the_others(capsys: Capture) -> None:
    denied.add("GetQueueAttributes")
    answer = answer_of(capsys, code=1)
    assert len(answer["unknown"]) == 9

    denied.clear()
    denied.add("GetResources")
    assert main(["status", "--stack", FLEET]) == 2
    assert f"the queues with the tag dlq-replay={QUEUE_TAG}: " in capsys.readouterr().err


@pytest.mark.usefixtures("fleet")
def test_a_queue_that_was_deleted_a_moment_ago_is_skipped(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqs = client("sqs")
    for name in ("mails", "mails-dlq"):
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
        sqs.delete_queue(QueueUrl=url)

    names = ("mails", "mails-dlq", "orders", "orders-dlq")
    monkeypatch.setattr(
        "dlq.stack.fleet.iterate_tagged_queues", lambda *_: iter(map(queue_address, names))
    )

    answer = answer_of(capsys)
    assert (list(rows_of(answer)), answer["members"], answer["unknown"]) == (["orders-dlq"], 2, [])


@pytest.mark.usefixtures("fleet")
def test_the_archive_may_be_unreadable(tmp_path: Path, capsys: Capture) -> None:
    archived(tmp_path, [order(1)])
    (tmp_path / "archive" / "format").write_text("9", "utf-8")

    answer = answer_of(capsys, code=1)

    assert answer["archive"] is None
    assert len(answer["unknown"]) == 1


def test_page_of_the_console_reads_as_status_does_and_keeps_it_for_a_minute(
    fleet: str, tmp_path: Path
) -> None:
    send("mails-dlq", 2)
    times = [datetime.now(UTC)]
    values = {
        "queue-tag": QUEUE_TAG,
        "parked-queue-url": client("sqs").get_queue_url(QueueName="parked")["QueueUrl"],
        "failure-table": "failures",
        "sweep-rule": "sweep-rule",
    }
    archive = open_archive(str(tmp_path / "archive"), creates=True)
    browser = opened(console_of(archive, stack=fleet, values=values, now=lambda: times[-1]))

    def fragment(query: str = "") -> str:
        answer = browser.get(f"/fleet{query}", headers={"hx-request": "true"})
        return f"{answer.status_code} {answer.text}"

    denied.add("GetResources")
    refused = fragment()
    denied.clear()
    calls.clear()
    page = fragment()
    asked = len(calls)
    fragment("?q=mails")

    assert refused.startswith("422")
    assert "the members cannot be listed" in refused
    assert page.startswith("200")
    for text in ("<b>mails-dlq</b>", "<b>orders-dlq</b>", "3 DLQs", "enabled"):
        assert text in page
    assert (asked > 0, len(calls)) == (True, asked)

    times.append(times[-1] + timedelta(seconds=60))
    denied.add("BatchGetItem")
    assert "circuit breakers: AccessDenied" in fragment()
