"""Messages of two main queues that share a DLQ, from the parked queue back to their own queues."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dlq.archive.ledger.claims import find_runs
from dlq.archive.messages.message_store import message_files, rows_by_file
from dlq.archive.storage.files import open_archive
from dlq.drain.drain import DrainRequest, drain
from dlq.engine import Engine
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.backoff import Backoff
from dlq_replay.replaying.sending import Confirmed
from dlq_replay.rules.outgoing import parked_entry
from dlq_replay.rules.policy import QueueLimits, ReplayPolicy
from dlq_replay.wire.addresses import QueueAddress
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import analyzed, bodies, executed, receive_all
from tests.support.approved_plan import approve
from tests.support.builders import NOW, context, counter, message

if TYPE_CHECKING:
    from dlq_replay.wire.message import Message

COUNT = 6
"""Messages of each queue, every second one a held copy."""


def parked_by_the_function(source: SqsQueue, other: SqsQueue, large: str, *, is_fifo: bool) -> Any:
    """Yield what the function sends to the parked queue, of messages of one of its two queues."""
    arn = source.describe()["QueueArn"]
    name = source.url.rpartition("/")[2]
    policy = ReplayPolicy(
        QueueAddress.from_url(other.url),
        3,
        Backoff(1, 1),
        other_main_queues={QueueAddress.from_arn(arn): QueueLimits()},
    )
    group = {"MessageGroupId": "one-group"} if is_fifo else {}
    for number in range(COUNT):
        body = f"{name} {number}"
        message_id = f"{name}-{number}"
        if number % 2:
            attributes = context(first_id=message_id, source_queue=name, due_seconds=7)
            letter = message(message_id, body, {**attributes, **counter("3")}, **group)
        else:
            moved = {"DeadLetterQueueSourceArn": arn, **group}
            letter = message(message_id, body + large * (number == 0), counter("3"), **moved)
        yield parked_entry(letter, "attempts_exhausted", NOW, policy.of(QueueAddress.from_arn(arn)))


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_each_parked_message_goes_back_to_its_own_queue(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path, suffix: str
) -> None:
    parked = make_queue(f"parked{suffix}")
    dlq = make_queue(f"dlq{suffix}")
    orders = make_queue(f"orders{suffix}", dlq)
    invoices = make_queue(f"invoices{suffix}", dlq, MaximumMessageSize="2048")
    names = [queue.url.rpartition("/")[2] for queue in (orders, invoices)]
    # Too large to have room for counter and context.
    for source, other, large in ((orders, invoices, ""), (invoices, orders, "x" * 1400)):
        for entry in parked_by_the_function(source, other, large, is_fifo=bool(suffix)):
            assert isinstance(parked.send([entry])[0], Confirmed)

    drain(
        engine,
        open_archive(str(tmp_path)),
        DrainRequest(parked.url, tasks=1, wait_seconds=0),
    )
    archive = open_archive(str(tmp_path))
    archived = set[tuple[str, str]]()
    for _, rows in rows_by_file(archive, message_files(archive), ["body", "source_queue"]):
        archived |= {(row["body"].split()[0], row["source_queue"]) for row in rows.to_pylist()}
    assert archived == {(name, name) for name in names}
    findings = analyzed(engine, archive)
    sources = Counter[str]()
    for group in findings.groups:
        sources.update(group.sources)
        assert list(group.sources) == [group.queue]
    assert sources == dict.fromkeys(names, COUNT)
    plan = str(approve(Path(findings.plan_path)))

    summary = executed(
        engine,
        archive,
        plan,
        url="",
        main_queue_url=orders.url,
        max_rate=100.0,
        requires_room=True,
    )

    # On FIFO the large message keeps its message group waiting, and with it whatever came later.
    waiting = COUNT - 1 if suffix else 0
    assert summary.count("no_room") == 1
    assert summary.count("waits") == waiting
    assert summary.destinations == {orders.url: COUNT} | (
        {} if suffix else {invoices.url: COUNT - 1}
    )
    assert [*find_runs(archive)[0].destinations] == [*summary.destinations]
    sent_home(orders, names[0], range(COUNT))
    sent_home(invoices, names[1], () if suffix else range(1, COUNT))


def sent_home(queue: SqsQueue, name: str, numbers: Any) -> None:
    copies: list[Message] = receive_all(queue)
    assert sorted(body.rstrip("x") for body in bodies(copies)) == [f"{name} {n}" for n in numbers]
    assert {copy.history.context.source_queue for copy in copies} <= {name}
