"""``look``: a person sees what failed, and the queue has what it had."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest

from dlq.cli.command import main as dlq
from dlq.cli.verb import BAD_INPUT, INTERRUPTED
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import SendEntry
from local_sqs.faults import Effect, Fault
from local_sqs.server import RunningServer, serve_in_thread
from tests.integration.conftest import Capture, MakeQueue
from tests.support.builders import context
from tests.support.installation import FLEET, arn, fleet_outputs, make_stack
from tests.support.served import served_aws
from tests.support.sqs_driver import visible_count

MESSAGES = 60


@pytest.fixture(autouse=True)
def endpoint(sqs_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", sqs_endpoint)


def body_of(number: int) -> str:
    region = "eu" if number % 3 else "us"
    return json.dumps({"order": number, "customer": {"region": region}})


def entries_of(numbers: Sequence[int]) -> list[SendEntry]:
    """Return dead letters: two of three failed in one way, each third in another."""
    entries = []
    for number in numbers:
        error = "no answer" if number % 3 else "no currency"
        kind = "TimeoutError" if number % 3 else "KeyError"
        attributes = context(body_of(number), error=FailureError(kind, error))
        entries.append(SendEntry(body_of(number), attributes))
    return entries


@pytest.fixture
def dead_letters(make_queue: MakeQueue) -> SqsQueue:
    queue = make_queue("orders-dlq")
    for start in range(0, MESSAGES, 10):
        queue.send(entries_of(range(start, start + 10)))
    return queue


def answer_of(capsys: Capture, *words: str) -> dict[str, Any]:
    assert dlq(["look", *words, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def look(capsys: Capture, *words: str) -> dict[str, Any]:
    """Look at one queue; return the answer with the fields of its queue among them."""
    answer = answer_of(capsys, *words)
    (queue,) = answer.pop("queues")
    return {**answer, **queue}


def test_it_shows_groups_and_gives_everything_back(dead_letters: SqsQueue, capsys: Capture) -> None:
    assert dlq(["look", dead_letters.url]) == 0

    printed = capsys.readouterr().out
    assert f"about {MESSAGES} visible" in printed
    assert f"seen: {MESSAGES} messages, all given back" in printed
    assert "TimeoutError: no answer" in printed
    assert "KeyError: no currency" in printed
    assert visible_count(dead_letters) == MESSAGES


@pytest.mark.parametrize("form", ["url", "name", "arn"])
def test_queue_is_named_by_its_url_its_name_or_its_arn(
    dead_letters: SqsQueue, form: str, capsys: Capture
) -> None:
    arn = dead_letters.describe()["QueueArn"]
    name = {"url": dead_letters.url, "name": arn.rpartition(":")[2], "arn": arn}[form]

    answer = look(capsys, name)

    assert answer["queue_url"] == dead_letters.url
    assert [group["count"] for group in answer["groups"]] == [40, 20]
    assert answer["received"]["given_back"] == MESSAGES


def test_no_such_queue_is_named(capsys: Capture) -> None:
    assert dlq(["look", "no-such-queue"]) == BAD_INPUT

    error = capsys.readouterr().err
    assert "QUEUE no-such-queue: " in error
    assert "NonExistentQueue" in error


def test_limit_bounds_what_is_received(dead_letters: SqsQueue, capsys: Capture) -> None:
    answer = look(capsys, dead_letters.url, "--limit", "7")

    assert answer["received"]["messages"] == 7
    assert answer["received"]["end"] == "limit"


def test_report_and_messages_are_written_where_out_says(
    dead_letters: SqsQueue, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "look"
    assert dlq(["look", dead_letters.url, "--out", str(out)]) == 0

    lines = (out / "messages.jsonl").read_text().splitlines()
    bodies = [json.loads(line)["body"] for line in lines]
    assert sorted(bodies) == sorted(map(body_of, range(MESSAGES)))
    assert stat.S_IMODE((out / "messages.jsonl").stat().st_mode) == 0o600
    page = (out / "report.html").read_text()
    assert "TimeoutError: no answer" in page
    assert "dlq redrive" not in page

    assert dlq(["look", dead_letters.url, "--out", str(out)]) == BAD_INPUT
    assert "exists there" in capsys.readouterr().err


def test_no_file_is_written_without_out(
    dead_letters: SqsQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)

    look(capsys, dead_letters.url)

    assert list(tmp_path.rglob("*")) == []


def test_fifo_queue_shows_the_first_of_each_message_group(
    make_queue: MakeQueue, capsys: Capture
) -> None:
    queue = make_queue("orders-dlq.fifo")
    for number in range(60):
        group = f"g-{number % 2}"
        queue.send([SendEntry("{}", message_group_id=group, deduplication_id=str(number))])

    answer = look(capsys, queue.url)

    assert 0 < answer["received"]["messages"] < 60
    assert [group["trend"] for group in answer["groups"]] == [""]
    assert visible_count(queue) == 60


def test_queue_that_moves_messages_soon_is_refused(make_queue: MakeQueue, capsys: Capture) -> None:
    moved = make_queue("moved")
    queue = make_queue("orders", moved, receives=5)
    queue.send([SendEntry("{}")])

    assert dlq(["look", queue.url]) == BAD_INPUT
    assert "--receives-allowed 5" in capsys.readouterr().err
    assert look(capsys, queue.url, "--receives-allowed", "5")["received"]["messages"] == 1
    assert visible_count(queue) == 1
    assert visible_count(moved) == 0


def test_empty_queue_is_no_error(make_queue: MakeQueue, capsys: Capture) -> None:
    answer = look(capsys, make_queue("empty").url)

    assert answer["groups"] == []
    assert answer["next"] == []


def test_sources_of_a_dead_letter_queue_are_named(
    dead_letters: SqsQueue, make_queue: MakeQueue, capsys: Capture
) -> None:
    main = make_queue("orders", dead_letters, receives=5)

    answer = look(capsys, dead_letters.url)

    assert answer["sources"] == [main.url]
    assert f"--main-queue-url {main.url}" in answer["next"][-1]


def test_look_on_moto(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    with served_aws() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        client = boto3.client("sqs", endpoint_url=url, region_name=os.environ["AWS_REGION"])
        queue = SqsQueue(client, client.create_queue(QueueName="orders-dlq")["QueueUrl"])
        queue.send(entries_of(range(10)))

        answer = look(capsys, queue.url)

        assert answer["received"]["given_back"] == 10
        assert answer["unknown"] == []
        assert visible_count(queue) == 10


def test_queue_behind_a_path_is_found(dead_letters: SqsQueue, capsys: Capture) -> None:
    """A server such as LocalStack has the Region in the path."""
    host, _, name = dead_letters.url.rpartition("/123456789012/")

    answer = look(capsys, f"{host}/queue/eu-west-1/123456789012/{name}")

    assert answer["received"]["messages"] == MESSAGES


@pytest.fixture
def slow_server() -> Any:
    with serve_in_thread() as server:
        yield server


def test_refused_receive_is_an_error_and_leaves_no_report(
    slow_server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", slow_server.url)
    client = boto3.client("sqs", endpoint_url=slow_server.url, region_name=os.environ["AWS_REGION"])
    url = client.create_queue(QueueName="orders-dlq")["QueueUrl"]
    slow_server.front.faults.add(Fault(Effect.REFUSE, "ReceiveMessage", code="AccessDenied"))

    assert dlq(["look", url, "--out", str(tmp_path / "look")]) == BAD_INPUT

    error = capsys.readouterr().err
    assert "AccessDenied" in error
    assert "nothing was received" in error
    assert list((tmp_path / "look").iterdir()) == []


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGKILL, -9)])
def test_interrupted_look_gives_back_and_a_killed_one_leaves_a_time_out(
    slow_server: RunningServer, sent: signal.Signals, code: int
) -> None:
    client = boto3.client("sqs", endpoint_url=slow_server.url, region_name=os.environ["AWS_REGION"])
    queue = SqsQueue(client, client.create_queue(QueueName="orders-dlq")["QueueUrl"])
    for start in range(0, 100, 10):
        queue.send(entries_of(range(start, start + 10)))

    def press() -> None:
        process.send_signal(sent)

    fault = Fault(Effect.CALL, "ReceiveMessage", nth=4, after=True, callback=press)
    slow_server.front.faults.add(fault)
    process = subprocess.Popen(
        [sys.executable, "-m", "dlq", "look", queue.url, "--limit", "100"],
        env={**os.environ, "AWS_ENDPOINT_URL": slow_server.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    output, _ = process.communicate(timeout=60)

    assert process.returncode == code
    stored = slow_server.model.queues["orders-dlq"].messages()
    assert len(stored) == 100
    if sent is signal.SIGINT:
        assert "interrupted" in output
        assert visible_count(queue) == 100


def test_errors_are_taken_from_logs(make_queue: MakeQueue, tmp_path: Path, capsys: Capture) -> None:
    queue = make_queue("orders-dlq")
    queue.send([SendEntry(body_of(4711))])
    [message_id] = [stored["message_id"] for stored in look_at_messages(queue, tmp_path, capsys)]
    line = f"[ERROR] NoVatError: no VAT for HR {message_id}"
    event = {"logStreamName": "s", "timestamp": int(time.time() * 1000), "message": line}
    log = tmp_path / "log.jsonl"
    log.write_text(f"{json.dumps(event)}\n")

    answer = look(capsys, queue.url, "--logs", str(log))

    assert answer["logs"].endswith("an error in the logs, 1 by id")
    assert "NoVatError" in answer["groups"][0]["title"]


def look_at_messages(queue: SqsQueue, folder: Path, capsys: Capture) -> list[dict[str, Any]]:
    """Look once; return the messages as ``--out`` writes them."""
    out = folder / "messages"
    assert dlq(["look", queue.url, "--out", str(out)]) == 0
    capsys.readouterr()
    return [json.loads(line) for line in (out / "messages.jsonl").read_text().splitlines()]


@pytest.fixture
def parked(
    slow_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, SqsQueue]]:
    """The parked queues of a fleet of which nobody has drained them: 20 messages in each."""
    client = boto3.client("sqs", endpoint_url=slow_server.url, region_name=os.environ["AWS_REGION"])
    with served_aws() as aws:
        monkeypatch.setenv("AWS_ENDPOINT_URL", aws)
        make_stack(FLEET, **fleet_outputs(FifoParkedQueueArn=arn("parked.fifo")))
        monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", aws)
        monkeypatch.setenv("AWS_ENDPOINT_URL", slow_server.url)
        standard = client.create_queue(QueueName="parked")["QueueUrl"]
        fifo = client.create_queue(QueueName="parked.fifo", Attributes={"FifoQueue": "true"})
        queues = {
            "parked": SqsQueue(client, standard),
            "parked.fifo": SqsQueue(client, fifo["QueueUrl"]),
        }
        for start in (1, 11):
            standard_entries: list[SendEntry] = []
            fifo_entries: list[SendEntry] = []
            for number in range(start, start + 10):
                standard_entries.append(parked_entry("orders", number))
                in_group = {"message_group_id": f"g-{number}", "deduplication_id": str(number)}
                fifo_entries.append(parked_entry("stock.fifo", number, **in_group))
            queues["parked"].send(standard_entries)
            queues["parked.fifo"].send(fifo_entries)
        yield queues


def parked_entry(source: str, number: int, **fields: Any) -> SendEntry:
    body = body_of(number)
    error = FailureError("TimeoutError", "no answer")
    return SendEntry(body, context(body, error=error, source_queue=source), **fields)


def test_look_at_a_fleet_shows_both_parked_queues_in_one_answer(
    parked: dict[str, SqsQueue], capsys: Capture
) -> None:
    answer = answer_of(capsys, "--stack", FLEET)

    seen = {queue["queue"]: queue["received"]["messages"] for queue in answer["queues"]}
    assert seen == {"parked": 20, "parked.fifo": 20}
    assert [queue["received"]["given_back"] for queue in answer["queues"]] == [20, 20]
    groups = {group["queue"]: group for group in answer["groups"]}
    assert {name: group["count"] for name, group in groups.items()} == {
        "orders": 20,
        "stock.fifo": 20,
    }
    # A look sees the first of each message group of a FIFO queue, so it knows no arrivals.
    assert (sum(groups["orders"]["arrivals"]), sum(groups["stock.fifo"]["arrivals"])) == (20, 0)
    assert answer["next"][1:] == [
        f"  dlq collect --stack {FLEET}",
        f"  dlq redrive --stack {FLEET} --group GROUP",
    ]
    assert {name: visible_count(queue) for name, queue in parked.items()} == seen


def test_report_of_both_parked_queues_has_the_chart_of_one(
    parked: dict[str, SqsQueue], tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "look"
    assert dlq(["look", "--stack", FLEET, "--out", str(out)]) == 0

    assert "seen: 20 messages, all given back" in capsys.readouterr().out
    assert "parked and parked.fifo" in (out / "report.html").read_text()
    assert len((out / "messages.jsonl").read_text().splitlines()) == 40
    assert visible_count(parked["parked"]) == 20


def test_where_one_parked_queue_moves_messages_soon_neither_is_looked_at(
    parked: dict[str, SqsQueue], slow_server: RunningServer, capsys: Capture
) -> None:
    fifo = parked["parked.fifo"]
    moved = fifo.client.create_queue(QueueName="moved.fifo", Attributes={"FifoQueue": "true"})
    target = SqsQueue(fifo.client, moved["QueueUrl"]).describe()["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": 5})
    fifo.client.set_queue_attributes(QueueUrl=fifo.url, Attributes={"RedrivePolicy": policy})

    assert dlq(["look", "--stack", FLEET]) == BAD_INPUT

    assert "queue parked.fifo: each look counts as a receive" in capsys.readouterr().err
    for queue in slow_server.model.queues.values():
        assert {message.receive_count for message in queue.messages()} <= {0}
    answer = answer_of(capsys, "--stack", FLEET, "--receives-allowed", "5")
    assert [queue["received"]["given_back"] for queue in answer["queues"]] == [20, 20]


def test_refusal_of_one_parked_queue_is_named_and_the_other_is_shown(
    parked: dict[str, SqsQueue], slow_server: RunningServer, capsys: Capture
) -> None:
    refusal = Fault(Effect.REFUSE, "ReceiveMessage", queue="parked", code="AccessDenied")
    slow_server.front.faults.add(refusal)

    answer = answer_of(capsys, "--stack", FLEET)

    received = {queue["queue"]: queue["received"] for queue in answer["queues"]}
    assert (received["parked"]["end"], received["parked.fifo"]["messages"]) == ("error", 20)
    assert "AccessDenied" in received["parked"]["error"]
    assert [group["queue"] for group in answer["groups"]] == ["stock.fifo"]
    assert visible_count(parked["parked.fifo"]) == 20


def test_interrupted_look_at_the_first_queue_leaves_the_second_alone(
    parked: dict[str, SqsQueue], slow_server: RunningServer
) -> None:
    def press() -> None:
        process.send_signal(signal.SIGINT)

    fault = Fault(Effect.CALL, "ReceiveMessage", nth=2, after=True, callback=press)
    slow_server.front.faults.add(fault)
    process = subprocess.Popen(
        [sys.executable, "-m", "dlq", "look", "--stack", FLEET],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    output, _ = process.communicate(timeout=60)

    assert process.returncode == INTERRUPTED, output
    assert {name: visible_count(queue) for name, queue in parked.items()} == {
        "parked": 20,
        "parked.fifo": 20,
    }
    fifo = slow_server.model.queues["parked.fifo"]
    assert {message.receive_count for message in fifo.messages()} == {0}
