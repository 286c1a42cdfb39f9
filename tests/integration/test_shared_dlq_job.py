"""Messages of two main queues that share a DLQ, from the parked queue back to their own queues."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlq.archive.ledger.claims import find_runs
from dlq.archive.messages.message_store import message_files, rows_by_file
from dlq.archive.storage.files import Archive, open_archive
from dlq.drain.drain import DrainRequest, drain
from dlq.engine import Engine
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.backoff import Backoff
from dlq_replay.replaying.sending import Confirmed
from dlq_replay.rules.outgoing import parked_entry
from dlq_replay.rules.policy import QueueLimits, ReplayPolicy
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import SendEntry
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import analyzed, bodies, executed, receive_all, reported
from tests.support.builders import NOW, context, counter, message
from tests.support.sqs_driver import name_of

COUNT = 6
"""Messages of each queue, every second one a held copy."""


def parked_by_the_function(
    source: SqsQueue, other: SqsQueue, large: str, *, is_fifo: bool
) -> Iterator[SendEntry]:
    """Yield what the function sends to the parked queue, of messages of one of its two queues."""
    arn = source.describe()["QueueArn"]
    name = name_of(source)
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


@dataclass(frozen=True)
class SharedDlq:
    """Two main queues of one DLQ, and an archive with what the function parked of both."""

    orders: SqsQueue
    invoices: SqsQueue
    archive: Archive

    @property
    def names(self) -> list[str]:
        return [name_of(self.orders), name_of(self.invoices)]


@pytest.fixture(params=["", ".fifo"])
def shared(
    request: pytest.FixtureRequest, engine: Engine, make_queue: MakeQueue, tmp_path: Path
) -> SharedDlq:
    suffix = request.param
    parked = make_queue(f"parked{suffix}")
    dlq = make_queue(f"dlq{suffix}")
    orders = make_queue(f"orders{suffix}", dlq)
    invoices = make_queue(f"invoices{suffix}", dlq, MaximumMessageSize="2048")
    # Too large to have room for counter and context.
    for source, other, large in ((orders, invoices, ""), (invoices, orders, "x" * 1400)):
        for entry in parked_by_the_function(source, other, large, is_fifo=bool(suffix)):
            assert isinstance(parked.send([entry])[0], Confirmed)

    archive = open_archive(str(tmp_path))
    drain(engine, archive, DrainRequest(parked.url, tasks=1, wait_seconds=0))
    return SharedDlq(orders, invoices, archive)


def test_the_archive_knows_the_queue_of_each_message(shared: SharedDlq) -> None:
    archived = set[tuple[str, str]]()
    columns = ["body", "source_queue"]
    for _, rows in rows_by_file(shared.archive, message_files(shared.archive), columns):
        archived |= {(row["body"].split()[0], row["source_queue"]) for row in rows.to_pylist()}

    assert archived == {(name, name) for name in shared.names}


def test_each_group_is_of_one_queue(engine: Engine, shared: SharedDlq) -> None:
    sources = Counter[str]()
    for group in analyzed(engine, shared.archive).groups:
        sources.update(group.sources)
        assert list(group.sources) == [group.queue]

    assert sources == dict.fromkeys(shared.names, COUNT)


def test_each_parked_message_goes_back_to_its_own_queue(engine: Engine, shared: SharedDlq) -> None:
    is_fifo = shared.orders.url.endswith(".fifo")
    summary = executed(
        engine,
        shared.archive,
        reported(engine, shared.archive),
        url="",
        main_queue_url=shared.orders.url,
        max_rate=100.0,
        requires_room=True,
    )

    assert summary.count("no_room") == 1
    if is_fifo:
        # The large message keeps its message group waiting, and with it whatever came later.
        assert summary.count("waits") == COUNT - 1
        assert summary.destinations == {shared.orders.url: COUNT}
    else:
        assert summary.count("waits") == 0
        assert summary.destinations == {shared.orders.url: COUNT, shared.invoices.url: COUNT - 1}
    assert [*find_runs(shared.archive)[0].destinations] == [*summary.destinations]
    sent_home(shared.orders, range(COUNT))
    sent_home(shared.invoices, () if is_fifo else range(1, COUNT))


def sent_home(queue: SqsQueue, numbers: Iterable[int]) -> None:
    name = name_of(queue)
    copies = receive_all(queue)
    assert sorted(body.rstrip("x") for body in bodies(copies)) == [f"{name} {n}" for n in numbers]
    assert {copy.history.context.source_queue for copy in copies} <= {name}
