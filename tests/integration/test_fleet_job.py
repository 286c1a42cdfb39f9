"""Redrives of a fleet: each message goes to its own source, which must have the tag, or stays."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dlq.archive.storage.files import Archive, open_archive
from dlq.cli.running import parse
from dlq.engine import Engine
from dlq.redrive.redrive import redrive
from dlq.redrive.request import RedriveRequest, RestoreRequest
from dlq.redrive.restore import restore
from dlq.redrive.send_run import prepare
from dlq.redrive.summary import RedriveSummary
from dlq.scheduled_run import (
    RunRequest,
    RunSummary,
    run,
)
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE
from dlq_replay.wire.message import Message
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import analyzed, archive_of, bodies, entry_of, receive_all
from tests.support.approved_plan import planned
from tests.support.builders import context, counter, filler, message
from tests.support.small_jobs import REDRIVE_ALL
from tests.support.sqs_driver import name_of


def arn_of(queue: SqsQueue) -> str:
    return queue.describe()["QueueArn"]


@dataclass
class Fleet:
    """Three DLQs with the tag and their sources, and queues that look like members and are none."""

    engine: Engine
    make_queue: MakeQueue
    folder: Path
    queues: dict[str, SqsQueue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parked = self.make_queue("parked")
        self.parked_fifo = self.make_queue("parked.fifo")
        for source, dlq in (
            ("orders", "dlq-1"),
            ("invoices", "dlq-1"),
            ("refunds", "dlq-2"),
            ("stock.fifo", "dlq-3.fifo"),
            ("prices.fifo", "dlq-3.fifo"),
            ("left", "dlq-1"),
            ("untagged", "dlq-4"),
            ("deleted", "dlq-1"),
        ):
            if dlq not in self.queues:
                # The owner of one lets SQS park, too.
                target = self.parked if dlq == "dlq-2" else None
                self.queues[dlq] = self.make_queue(dlq, target)
            self.queues[source] = self.make_queue(source, self.queues[dlq])
        # A tag on a parked queue makes it no member.
        for queue in (self.parked, *self.queues.values()):
            queue.client.tag_queue(QueueUrl=queue.url, Tags={"dlq-replay": self.tag})
        # The tag of one source is gone, and so is another one; one DLQ has another tag.
        self.untag("left")
        other = {"dlq-replay": f"{self.tag}-of-others"}
        self.queues["dlq-4"].client.tag_queue(QueueUrl=self.queues["dlq-4"].url, Tags=other)
        deleted = self.queues["deleted"]
        deleted.client.delete_queue(QueueUrl=deleted.url)

    @property
    def tag(self) -> str:
        """The value of the tag: of no other test."""
        return name_of(self.parked)

    def untag(self, name: str) -> None:
        queue = self.queues[name]
        queue.client.untag_queue(QueueUrl=queue.url, TagKeys=["dlq-replay"])

    def arn(self, name: str) -> str:
        return arn_of(self.queues[name])

    def of(self, source: str | None, number: int, **fields: Any) -> Message:
        """Message *number* as the function parks one whose context names that queue."""
        name = name_of(self.queues[source]) if source else None
        ours = context(first_id=f"f-{number}", reason="attempts_exhausted", source_queue=name)
        own = fields.pop("attributes", {})
        body = f"{source} {number}{fields.pop('more', '')}"
        return message(f"m-{number:03d}", body, {**ours, **counter("5"), **own}, **fields)

    def in_group(self, source: str | None, number: int, group: str, **fields: Any) -> Message:
        order = {"MessageGroupId": group, "SequenceNumber": str(10**19 + number)}
        return self.of(source, number, **order, **fields)

    def archived(self, standard: list[Message], fifo: list[Message] | None = None) -> Archive:
        """An archive as drains of both parked queues leave it."""
        archive = archive_of(self.folder, standard, drained_from=self.parked.url)
        if fifo:
            second = "20231121T031503Z-ab12ce"
            archive_of(self.folder, fifo, second, self.parked_fifo.url)
        return archive

    def request(self, plan: str, **changes: Any) -> RedriveRequest:
        usual = RedriveRequest(
            plan=plan,
            queue_tag=self.tag,
            parked_queue_urls=(self.parked.url, self.parked_fifo.url),
            execute=True,
            reason="it is fixed",
            tasks=2,
            ramp=False,
        )
        return replace(usual, **changes)

    def redrive(self, archive: Archive, action: str = "redrive", **changes: Any) -> RedriveSummary:
        request = self.request(planned(archive, action), **changes)
        return redrive(self.engine, prepare(archive, request))

    def arrived(self) -> dict[str, list[str]]:
        """The bodies that came to each queue, without those to which none did."""
        arrived: dict[str, list[str]] = {}
        for name, queue in self.queues.items():
            if name != "deleted" and (received := bodies(receive_all(queue))):
                arrived[name] = received if name.endswith(".fifo") else sorted(received)
        return arrived


@pytest.fixture
def fleet(
    engine: Engine,
    make_queue: MakeQueue,
    tmp_path: Path,
    quick_drains: None,
) -> Fleet:
    return Fleet(engine, make_queue, tmp_path / "archive")


@pytest.mark.parametrize("seed", range(4))
def test_no_message_of_a_fleet_goes_to_a_queue_that_it_did_not_come_from(
    fleet: Fleet, seed: int
) -> None:
    random = Random(seed)
    dlqs = {"orders": "dlq-1", "invoices": "dlq-1", "refunds": "dlq-2"}
    standard: list[Message] = []
    fifo: list[Message] = []
    wanted: dict[str, list[str]] = {}
    for number in range(60):
        source = random.choice([*fleet.queues, None])
        if random.random() < 0.3:
            # In the FIFO parked queue, each in a message group of its own.
            letter = fleet.in_group(source, number, f"g-{number}")
            fifo.append(letter)
            goes = source in ("stock.fifo", "prices.fifo")
        else:
            # What SQS says of the move must not contradict the name in the message.
            moved_from = random.choice([None, None, "dlq-1", "dlq-2", "dlq-4", "orders"])
            moved = (
                {} if moved_from is None else {"DeadLetterQueueSourceArn": fleet.arn(moved_from)}
            )
            letter = fleet.of(source, number, **moved)
            standard.append(letter)
            goes = source in dlqs and moved_from in (None, source, dlqs[source])
        if goes:
            wanted.setdefault(str(source), []).append(letter.body)
    archive = fleet.archived(standard, fifo)

    summary = fleet.redrive(archive)

    arrived = {name: sorted(received) for name, received in fleet.arrived().items()}
    assert arrived == {name: sorted(sent) for name, sent in wanted.items()}
    sent = sum(map(len, wanted.values()))
    assert summary.count("sent") == sent
    assert summary.count("foreign_source", "unknown_source") == 60 - sent
    assert fleet.redrive(archive, "discard").count("discarded") == 0
    assert fleet.arrived() == {}


def test_messages_without_a_destination_are_named(fleet: Fleet) -> None:
    archive = fleet.archived([fleet.of("orders", 1), fleet.of("deleted", 2), fleet.of(None, 3)])

    summary = fleet.redrive(archive)

    assert fleet.arrived() == {"orders": ["orders 1"]}
    problems = {problem.disposition: problem for problem in summary.problems}
    assert problems["foreign_source"].detail == name_of(fleet.queues["deleted"])
    assert problems["unknown_source"].examples == ("m-003",)


def test_a_source_that_leaves_between_two_runs_gets_no_more(fleet: Fleet) -> None:
    archive = fleet.archived([fleet.of("orders", 1), fleet.of("invoices", 2)])
    assert fleet.redrive(archive, limit=1).count("sent") == 1
    [(name, _)] = fleet.arrived().items()
    fleet.untag("invoices" if name == "orders" else "orders")

    assert fleet.redrive(archive).count("sent", "foreign_source") == 1
    assert fleet.arrived() == {}


def test_messages_of_one_message_group_wait_for_those_of_their_own_source(fleet: Fleet) -> None:
    crowded = {"attributes": filler(9)}
    fifo = [
        fleet.in_group("stock.fifo", 1, "a", **crowded),
        fleet.in_group("prices.fifo", 2, "a"),
        fleet.in_group("stock.fifo", 3, "a"),
        # It may be of either of them.
        fleet.in_group(None, 4, "b"),
        fleet.in_group("prices.fifo", 5, "b"),
        fleet.in_group("stock.fifo", 6, "c"),
        fleet.in_group("stock.fifo", 7, "c"),
    ]
    # A standard queue may have message groups, too; they have no order.
    standard = [
        fleet.of("orders", 11, MessageGroupId="a", **crowded),
        fleet.of("orders", 12, MessageGroupId="a"),
    ]
    archive = fleet.archived(standard, fifo)

    summary = fleet.redrive(archive, requires_room=True)

    assert fleet.arrived() == {
        "orders": ["orders 12"],
        "prices.fifo": ["prices.fifo 2"],
        "stock.fifo": ["stock.fifo 6", "stock.fifo 7"],
    }
    assert summary.counts == {"sent": 4, "no_room": 2, "waits": 2, "unknown_source": 1}


def test_a_small_queue_says_nothing_of_the_size_of_others(fleet: Fleet) -> None:
    refunds = fleet.queues["refunds"]
    attributes = {"MaximumMessageSize": "2048"}
    refunds.client.set_queue_attributes(QueueUrl=refunds.url, Attributes=attributes)  # type: ignore[arg-type]
    large = "x" * 2000
    letters = [
        fleet.of("orders", 1, more=large),
        fleet.of("refunds", 2, more=large),
        fleet.of("refunds", 3),
    ]
    archive = fleet.archived(letters)

    summary = fleet.redrive(archive, requires_room=True)

    assert summary.count("no_room") == 1
    [copy] = receive_all(fleet.queues["orders"])
    assert copy.body == f"orders 1{large}"
    assert copy.history.context.source_queue == name_of(fleet.queues["orders"])
    assert fleet.arrived() == {"refunds": ["refunds 3"]}


def test_a_queue_that_is_gone_keeps_no_other_from_its_messages(fleet: Fleet) -> None:
    archive = fleet.archived([fleet.of(name, n) for n, name in enumerate(["orders", "refunds"])])
    request = fleet.request(planned(archive))
    prepared = prepare(archive, request)
    orders = fleet.queues["orders"]
    orders.client.delete_queue(QueueUrl=orders.url)
    del fleet.queues["orders"]

    summary = redrive(fleet.engine, prepared)

    assert fleet.arrived() == {"refunds": ["refunds 1"]}
    assert summary.stopped_by is not None
    assert summary.stopped_by.cause.value == "queue"


def test_a_redrive_of_one_source_leaves_the_others(fleet: Fleet) -> None:
    names = ["orders", "invoices", "left", None, "orders"]
    archive = fleet.archived([fleet.of(name, number) for number, name in enumerate(names)])
    wanted = name_of(fleet.queues["orders"])

    dry_run = fleet.redrive(archive, queue=wanted, execute=False)
    assert dry_run.counts == {"send": 2, "not_selected": 3}
    assert f"only messages of queue {wanted} count in this run" in dry_run.notes

    assert fleet.redrive(archive, queue=wanted).count("sent") == 2
    assert fleet.arrived() == {"orders": ["orders 0", "orders 4"]}


def test_a_report_of_one_source_has_its_messages_alone(fleet: Fleet) -> None:
    moved = {"DeadLetterQueueSourceArn": fleet.arn("orders")}
    names = ["orders", "invoices", "left", None]
    letters = [fleet.of(name, number) for number, name in enumerate(names)]
    archive = fleet.archived([*letters, message("m-9", "no context", None, **moved)])
    name = name_of(fleet.queues["orders"])
    words = ["collect", "--archive", "a", "--only", "analyze", "--queue", name]

    findings = analyzed(fleet.engine, archive, where=parse(words).options["where"])

    assert findings.messages == 2


@dataclass
class Nights:
    """Scheduled runs over both parked queues of a fleet."""

    fleet: Fleet
    policy: str

    def run(self, **changes: Any) -> RunSummary:
        urls = (self.fleet.parked.url, self.fleet.parked_fifo.url)
        usual = RunRequest(
            parked_queue_urls=urls,
            queue_tag=self.fleet.tag,
            policy=self.policy,
            execute=True,
            reason="night",
        )
        return run(self.fleet.engine, self.archive, replace(usual, **changes))

    @property
    def archive(self) -> Archive:
        return open_archive(str(self.fleet.folder))

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.archive.read("status.json") or "{}"))


@pytest.fixture
def nights(fleet: Fleet, tmp_path: Path) -> Nights:
    policy = tmp_path / "policy.yaml"
    policy.write_text(REDRIVE_ALL)
    return Nights(fleet, str(policy))


def test_one_run_drains_both_parked_queues_and_redrives_both_kinds(
    fleet: Fleet, nights: Nights
) -> None:
    fleet.parked.send([entry_of(fleet.of("orders", 1)), entry_of(fleet.of("left", 2))])
    fifo_entry = entry_of(fleet.of("stock.fifo", 3), message_group_id="g", deduplication_id="3")
    fleet.parked_fifo.send([fifo_entry])

    summary = nights.run()

    assert [drained.archived for drained in summary.drained] == [2, 1]
    assert fleet.arrived() == {"orders": ["orders 1"], "stock.fifo": ["stock.fifo 3"]}
    assert summary.pending.messages == 1


def test_others_of_its_message_group_wait_for_a_message_and_not_those_of_another_source(
    fleet: Fleet, nights: Nights
) -> None:
    for number, source in enumerate(["stock.fifo", "stock.fifo", "prices.fifo"], 10):
        letter = fleet.of(source, number)
        # With a counter it would have more attributes than SQS takes.
        crowded = {CONTEXT_ATTRIBUTE: letter.attributes[CONTEXT_ATTRIBUTE], **filler(9)}
        letter = replace(letter, attributes=crowded)
        queued = entry_of(letter, message_group_id="h", deduplication_id=str(number))
        fleet.parked_fifo.send([queued])

    nights.run()

    status = nights.status()
    assert (status["waiting"], len(status["blockers"])) == (1, 1)


def test_a_parked_queue_that_is_gone_does_not_keep_the_other_one_from_being_drained(
    fleet: Fleet, nights: Nights
) -> None:
    nights.run()
    emptied_at = nights.status()["drained_at"]
    fleet.parked.send([entry_of(fleet.of("refunds", 4))])
    nowhere = f"{fleet.parked_fifo.url[:-5]}-gone.fifo"

    summary = nights.run(parked_queue_urls=(nowhere, fleet.parked.url))

    assert nights.status()["drained_at"] == emptied_at
    first, second = summary.drained
    assert "-gone.fifo" in first.stopped_by[0]
    assert (second.archived, second.stopped_by) == (1, ())
    assert fleet.arrived() == {"refunds": ["refunds 4"]}


def test_restore_sends_each_message_to_its_own_parked_queue(fleet: Fleet) -> None:
    archive = fleet.archived(
        [fleet.of("orders", 1), fleet.of("left", 2, MessageGroupId="a")],
        [fleet.in_group("stock.fifo", n, "a") for n in range(3, 6)],
    )
    other = fleet.make_queue("parked-of-others")
    of_others = [fleet.of("orders", number) for number in range(20, 25)]
    archive_of(fleet.folder, of_others, "20231121T031504Z-ab12cf", other.url)
    urls = (fleet.parked.url, fleet.parked_fifo.url, other.url)
    request = RestoreRequest(urls, execute=True, reason="look again")

    summary = restore(fleet.engine, archive, request)

    assert summary.destinations == {urls[0]: 2, urls[1]: 3, urls[2]: 5}
    assert sorted(bodies(receive_all(other))) == [m.body for m in of_others]
    assert sorted(bodies(receive_all(fleet.parked))) == ["left 2", "orders 1"]
    in_order = [f"stock.fifo {n}" for n in range(3, 6)]
    assert bodies(receive_all(fleet.parked_fifo)) == in_order
    assert restore(fleet.engine, archive, request).count("restored") == 0
