"""A run acts only on messages of its own parked queue that came from its destination."""

from pathlib import Path
from typing import Any

import pytest

from dlq.archive.storage.files import Archive, open_archive
from dlq.drain.drain import DrainRequest, drain
from dlq.engine import Engine
from dlq.errors import InputError
from dlq.redrive.request import RestoreRequest
from dlq.redrive.restore import restore
from dlq.redrive.summary import RedriveSummary
from dlq.scheduled_run import RunRequest, RunSummary
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import Message
from tests.integration.conftest import MakeQueue
from tests.integration.desk import ScheduledRuns
from tests.integration.spark_world import (
    archive_of,
    bodies,
    entry_of,
    executed,
    parked,
    receive_all,
)
from tests.support.approved_plan import planned
from tests.support.builders import context, counter, filler, message
from tests.support.small_jobs import REDRIVE_ALL
from tests.support.sqs_driver import name_of

DISCARD_ALL = REDRIVE_ALL.replace("action: redrive", "action: discard")


class Stack(ScheduledRuns):
    """A main queue, its DLQ and its parked queue, and runs and redrives over an archive."""

    def __init__(self, engine: Engine, make_queue: MakeQueue, folder: Path) -> None:
        super().__init__(engine, make_queue, folder)
        self.dlq = make_queue("dlq")
        self.main = self.make_source()

    def make_source(self, name: str = "main") -> SqsQueue:
        """A queue whose dead letters go to the DLQ."""
        return self.make_queue(name, self.dlq)

    def options(self, **changes: Any) -> RunRequest:
        own = {"to_queue_url": None, "main_queue_url": self.main.url}
        return super().options(**{**own, **changes})

    def archived(self, *messages: Message) -> Archive:
        """Return the archive that a drain of the parked queue leaves, if those are in it."""
        return archive_of(Path(self.archive), messages, drained_from=self.parked.url)

    def redrive(self, archive: Archive, action: str = "redrive") -> RedriveSummary:
        """Carry out a plan that does that with each message, as ``run`` does."""
        return executed(
            self.engine,
            archive,
            plan=planned(archive, action),
            url="",
            main_queue_url=self.main.url,
            parked_queue_urls=(self.parked.url,),
            requires_room=True,
        )

    def sent(self) -> list[str]:
        return sorted(bodies(receive_all(self.main)))


@pytest.fixture
def stack(engine: Engine, make_queue: MakeQueue, tmp_path: Path, quick_drains: None) -> Stack:
    return Stack(engine, make_queue, tmp_path)


def counts(summary: RunSummary | RedriveSummary, *words: str) -> list[int]:
    redriven = summary.redriven if isinstance(summary, RunSummary) else summary
    assert redriven is not None
    return [redriven.count(disposition) for disposition in words]


@pytest.mark.parametrize("policy", [REDRIVE_ALL, DISCARD_ALL])
def test_a_run_leaves_and_names_what_another_parked_queue_brought(
    stack: Stack, make_queue: MakeQueue, policy: str
) -> None:
    other = make_queue("parked-of-another-stack")
    other.send([entry_of(parked(2))])
    drain(
        stack.engine,
        open_archive(stack.archive),
        DrainRequest(other.url, tasks=1, wait_seconds=0),
    )
    stack.park(parked(4))
    stack.policy.write_text(policy)

    summary = stack.run()

    assert summary.redriven is not None
    assert stack.sent() == ([parked(4).body] if policy is REDRIVE_ALL else [])
    assert summary.pending.messages == 1
    (problem,) = summary.redriven.problems
    assert (problem.disposition, problem.count) == ("other_parked_queue", 1)
    assert problem.detail.endswith(f"/{other.url.rpartition('/')[2]}")


def test_queues_are_compared_by_account_and_name(stack: Stack) -> None:
    port = stack.parked.url.replace("127.0.0.1", "localhost")
    archive = archive_of(Path(stack.archive), [parked(2)], drained_from=port.rstrip("/") + "/")

    assert counts(stack.redrive(archive), "sent", "other_parked_queue") == [1, 0]


def two_parked_queues(stack: Stack, tmp_path: Path, other: SqsQueue) -> Archive:
    folder = tmp_path / "both"
    archive_of(folder, [parked(0)], drained_from=stack.parked.url)
    return archive_of(folder, [parked(2)], "20261121T041502Z-cd34ef", other.url)


def test_a_redrive_asks_whose_messages_are_meant(
    stack: Stack, make_queue: MakeQueue, tmp_path: Path
) -> None:
    archive = two_parked_queues(stack, tmp_path, make_queue("parked"))
    plan = planned(archive)

    with pytest.raises(InputError, match=r"messages of 2 parked queues: .*--parked-queue-url"):
        executed(stack.engine, archive, plan, stack.main.url)
    assert stack.sent() == []

    ours = (stack.parked.url,)
    named = executed(stack.engine, archive, plan, stack.main.url, parked_queue_urls=ours)
    assert [named.count(disposition) for disposition in ("sent", "other_parked_queue")] == [1, 1]
    assert stack.sent() == [parked(0).body]


def test_restore_leaves_what_another_parked_queue_brought(
    stack: Stack, make_queue: MakeQueue, tmp_path: Path
) -> None:
    archive = two_parked_queues(stack, tmp_path, make_queue("parked"))
    options = RestoreRequest((stack.parked.url,), reason="look again", execute=True)

    summary = restore(stack.engine, archive, options)

    assert [summary.count(disposition) for disposition in ("restored", "other_parked_queue")] == [
        1,
        1,
    ]
    assert bodies(receive_all(stack.parked)) == [parked(0).body]


ERROR = FailureError("TimeoutError", "payments did not answer")


def test_a_run_never_redrives_what_cannot_carry_its_plan(stack: Stack) -> None:
    """It would fail again without the plan's id and be sent again every night."""
    crowded = message("m-1", "crowded", {**filler(9), **counter("5")})
    large = message("m-2", "x" * (2048 - 600), counter("5"))
    stack.parked = stack.make_queue("parked", MaximumMessageSize="2048")
    stack.park(parked(0), crowded, large)

    first = stack.run()
    second = stack.run()

    assert counts(first, "sent", "no_room") == [1, 2]
    assert counts(second, "sent", "no_room") == [0, 2]
    assert stack.sent() == [parked(0).body]
    assert second.pending.messages == 2
    (problem,) = second.redriven.problems if second.redriven else ()
    assert (problem.disposition, problem.count, len(problem.examples)) == ("no_room", 2, 2)


def test_a_message_without_a_record_is_left_where_the_dlq_is_shared(stack: Stack) -> None:
    """Where it had no room for the reason, nothing says that it was parked as foreign."""
    archive = stack.archived(parked(0), message("m-9", "whose is it?", filler(2)))
    stack.make_source("invoices")

    for action in ("redrive", "discard"):
        assert counts(stack.redrive(archive, action), "unknown_source", "discarded") == [1, 0]

    assert stack.sent() == [parked(0).body]


def test_a_message_without_a_record_is_sent_where_the_dlq_is_not_shared(stack: Stack) -> None:
    archive = stack.archived(message("m-9", "it must be ours", filler(2)))

    assert counts(stack.redrive(archive), "sent") == [1]


def of_source(name: str, number: int) -> Message:
    """Message *number* as the function parks what came from another queue than its own."""
    foreign = context(first_id=f"f-{number}", reason="foreign_source", source_queue=name)
    return message(f"m-{number}", f"{name} {number}", foreign)


def test_a_queue_whose_dead_letters_go_elsewhere_is_no_source(stack: Stack) -> None:
    """Any producer can write a queue's name into a message."""
    payments = stack.make_queue("payments")
    archive = stack.archived(of_source(name_of(payments), 1))

    for action in ("redrive", "discard"):
        summary = stack.redrive(archive, action)
        assert counts(summary, "foreign_source", "sent", "discarded") == [1, 0, 0]

    assert receive_all(payments) == []
    assert stack.sent() == []


def test_a_dlq_of_another_stack_that_feeds_the_parked_queue_has_sources_too(stack: Stack) -> None:
    stack.dlq = stack.make_queue("dlq-of-invoices", stack.parked, 1000)
    invoices = stack.make_source("invoices")
    archive = stack.archived(of_source(name_of(invoices), 1))

    assert counts(stack.redrive(archive), "sent") == [1]
    assert len(receive_all(invoices)) == 1
    assert stack.sent() == []


def test_a_named_destination_takes_what_it_is_told_to(stack: Stack) -> None:
    invoices = stack.make_source("invoices")
    archive = stack.archived(of_source("no-such-queue", 1))
    assert counts(stack.redrive(archive), "foreign_source") == [1]

    plan = planned(archive)
    theirs = executed(stack.engine, archive, plan, invoices.url, include_foreign=True)
    assert theirs.count("sent") == 1
    assert bodies(receive_all(invoices)) == ["no-such-queue 1"]
    assert stack.sent() == []
