"""One task, without Spark: chunks and rows in, claims, sends and counts out."""

import gc
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dlq.archive.ledger.claims import (
    CHUNK_MESSAGES,
    Attempt,
    Claim,
    Ledger,
    close_open_runs,
    timestamp,
)
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.message_state import states_of
from dlq.archive.ledger.stop import Stop, StopCause
from dlq.archive.lock import LockUse, LockView
from dlq.archive.messages.dead_letter_schema import (
    ARROW_SCHEMA,
    SENDING_COLUMNS,
    to_row,
)
from dlq.archive.storage.files import Archive, open_archive
from dlq.engine import CHANGES, STOPPED
from dlq.errors import ArchiveError
from dlq.redrive.request import RedriveRequest
from dlq.redrive.sending.send_task import (
    TASK,
    ChunkSender,
    OutgoingMessage,
    SendTask,
    SettledMessage,
)
from dlq.redrive.sending.task_context import TaskContext
from dlq_replay.replaying.sending import Refused, SendResult, Unconfirmed
from dlq_replay.wire.message import Message
from local_sqs.client import client_for
from local_sqs.clock import Clock
from local_sqs.model import SqsModel
from tests.support.builders import NOW, FakeQueue, context, context_of, counter, message, queue_url
from tests.support.fake_limits import FakeSignals
from tests.support.ledgers import attempts_of, begin

REQUEST = RedriveRequest(reason="it is fixed")
CONTEXT = TaskContext(REQUEST, "p-1", queue_url("main"), run_id="run-1", who="me@here")
REFUSED = Refused("InvalidMessageContents")
FIFO = replace(CONTEXT, destination=queue_url("main.fifo"))


def test_copy_is_one_of_the_queue_that_it_goes_to() -> None:
    """Else the dead letter of another queue than its first one would lose plan and group."""
    parked = message(attributes=context(first_id="first", source_queue="another"))

    proven = context_of(replace(CONTEXT, unproven_groups=frozenset({"g-2"})).entry(parked, "g-1"))
    unproven = context_of(replace(CONTEXT, unproven_groups=frozenset({"g-1"})).entry(parked, "g-1"))

    assert proven.source_queue == unproven.source_queue == "main"
    assert proven.group_id == unproven.group_id == "g-1"
    assert (proven.in_step, unproven.in_step) == (False, True)


@dataclass
class Bench:
    """Makes senders over one archive, each with a queue of its own."""

    archive: Archive
    executor: ThreadPoolExecutor

    def sender(
        self, queue: FakeQueue, context: TaskContext = CONTEXT, ledger: Ledger | None = None
    ) -> ChunkSender:
        return ChunkSender(
            queue_until=lambda _: queue,
            claim_messages=lambda: math.inf,
            executor=self.executor,
            ledger=ledger or Ledger(self.archive, "p-1", context.run_id),
            context=context,
            signals=FakeSignals(),
            now_seconds=time.time,
        )

    def settle(
        self, queue: FakeQueue, messages: Sequence[OutgoingMessage], context: TaskContext = CONTEXT
    ) -> list[str]:
        return words(self.sender(queue, context).settle("g-1", 1, messages))

    def leave_claim(self, *ids: str) -> None:
        """Leave a claim as an earlier start of the task does that was killed, or goes on."""
        claim = Claim("me", "", "", timestamp(time.time()), ids)
        assert Ledger(self.archive, "p-1", "run-1").claim("g-1", 1, claim)

    def attempts(self) -> list[Attempt]:
        return attempts_of(self.archive, "p-1")

    def states(self) -> dict[str, Disposition]:
        return states_of(self.attempts())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with ThreadPoolExecutor(4) as executor:
        yield Bench(open_archive(str(tmp_path)), executor)


def outgoing(
    message_id: str,
    group: str | None = None,
    disposition: Disposition = Disposition.SEND,
) -> OutgoingMessage:
    system = {} if group is None else {"MessageGroupId": group}
    source = message(message_id, f"body of {message_id}", counter("5"), **system)
    return OutgoingMessage("g-1", disposition, source)


def words(settled: Iterable[Sequence[SettledMessage]]) -> list[str]:
    dispositions = []
    for part in settled:
        dispositions += [str(settled_message.disposition) for settled_message in part]
    return dispositions


def test_a_message_without_an_answer_never_counts_as_decided(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlq.redrive.sending.send_task.send_groups", lambda *_: {})
    messages = [outgoing("m-1"), outgoing("m-2", disposition=Disposition.DISCARD)]

    assert bench.settle(FakeQueue(), messages) == ["unconfirmed", "discarded"]


def refusing(message_id: str, answer: SendResult = REFUSED) -> FakeQueue:
    return FakeQueue(refuses={f"body of {message_id}": answer})


def test_open_messages_are_sent_and_recorded(bench: Bench) -> None:
    queue = FakeQueue()
    locked = replace(CONTEXT, lock=LockView(7, LockUse.SEND, 120))

    assert bench.settle(queue, [outgoing("m-1"), outgoing("m-2")], locked) == ["sent", "sent"]
    assert sorted(entry.body for entry in queue.sent) == ["body of m-1", "body of m-2"]
    (attempt,) = bench.attempts()
    assert attempt.claim.message_ids == ("m-1", "m-2")
    assert attempt.claim.lock == 7
    assert (attempt.claim.who, attempt.claim.reason) == ("me@here", "it is fixed")
    assert attempt.name.run == ("p-1", "run-1")
    assert [r.new_message_id for r in attempt.results or ()] == ["copy-1", "copy-2"]


def test_claim_says_between_which_times_its_messages_were_sent(bench: Bench) -> None:
    """Of a later drain's messages it tells whether this claim may be about them."""
    first = datetime.fromtimestamp(NOW, UTC)
    last = datetime.fromtimestamp(NOW + 0.123, UTC)
    with_times = [outgoing("m-1")._replace(sent_at=last), outgoing("m-2")._replace(sent_at=first)]
    bench.settle(FakeQueue(), with_times)
    one_without = outgoing("m-3")._replace(sent_at=last), outgoing("m-4")
    list(bench.sender(FakeQueue()).settle("g-2", 1, one_without))

    timed, untimed = [attempt.claim for attempt in bench.attempts()]

    assert timed.first_sent_at == "2023-11-14T22:13:20.000+00:00"
    assert timed.last_sent_at == "2023-11-14T22:13:20.123+00:00"
    assert (untimed.first_sent_at, untimed.last_sent_at) == ("", "")


def test_task_that_runs_again_finds_its_own_work(bench: Bench) -> None:
    messages = [outgoing("m-1"), outgoing("m-2", disposition=Disposition.DISCARD)]
    first = FakeQueue()
    bench.settle(first, messages)
    assert [entry.body for entry in first.sent] == ["body of m-1"]
    assert bench.states() == {"m-1": Disposition.SENT, "m-2": Disposition.DISCARDED}

    again = FakeQueue()
    assert bench.settle(again, messages) == ["sent", "discarded"]
    assert again.calls == []


@pytest.mark.parametrize("disposition", [Disposition.SEND, Disposition.DISCARD])
@pytest.mark.parametrize("is_readable", [True, False])
def test_closed_run_neither_sends_nor_discards_what_it_claims(
    bench: Bench, disposition: Disposition, *, is_readable: bool
) -> None:
    """Whoever closed it may not have seen the claim. It is so, too, if nobody can tell."""

    class Unreadable(Ledger):
        def is_closing(self) -> bool:
            raise ArchiveError("no answer")

    begin(bench.archive, "p-1", "run-1")
    if is_readable:
        close_open_runs(bench.archive)
    queue = FakeQueue()
    ledger = Ledger if is_readable else Unreadable
    sender = bench.sender(queue, ledger=ledger(bench.archive, "p-1", "run-1"))
    chunks = [("g", number, [outgoing(f"m-{number}", None, disposition)]) for number in (1, 2)]

    assert words(sender.settle_all(chunks)) == ["not_reached"]
    assert queue.calls == []
    assert sender.signals.stopped_by
    assert bench.states() == {}


def test_message_that_failed_is_not_sent_again_by_its_run_but_by_the_next(bench: Bench) -> None:
    assert bench.settle(refusing("m-2"), [outgoing("m-1"), outgoing("m-2")]) == ["sent", "failed"]
    queue = FakeQueue()

    assert bench.settle(queue, [outgoing("m-1"), outgoing("m-2")]) == ["sent", "failed"]
    assert queue.calls == []
    again = replace(CONTEXT, run_id="run-2")
    assert bench.settle(queue, [outgoing("m-2")], again) == ["sent"]
    assert [entry.body for entry in queue.sent] == ["body of m-2"]


def test_lost_answer_is_unconfirmed_also_for_a_task_that_runs_again(bench: Bench) -> None:
    queue = FakeQueue()

    assert bench.settle(refusing("m-1", Unconfirmed("lost")), [outgoing("m-1")]) == ["unconfirmed"]
    assert bench.settle(queue, [outgoing("m-1")]) == ["unconfirmed"]
    assert queue.calls == []
    assert bench.states() == {"m-1": Disposition.UNCONFIRMED}


def test_task_that_runs_again_leaves_what_its_first_start_may_be_sending(bench: Bench) -> None:
    """An executor that seems lost may go on: with this chunk, too."""
    bench.leave_claim("m-1")
    queue = FakeQueue()

    assert bench.settle(queue, [outgoing("m-1"), outgoing("m-2")]) == ["in_progress", "in_progress"]
    assert queue.sent == []


def test_task_that_runs_again_goes_on_behind_the_claims_of_its_first_start(bench: Bench) -> None:
    """Claims are as large as the rate allows at their moment."""
    messages = [outgoing(f"m-{n}") for n in range(6)]
    first = FakeQueue()
    second = FakeQueue()
    sender = replace(bench.sender(first), claim_messages=lambda: 2)
    settled = sender.settle("g-1", 1, messages)
    assert words([next(settled), next(settled)]) == ["sent"] * 4
    del settled

    assert bench.settle(second, messages) == ["sent"] * 6
    assert [entry.body for entry in second.sent] == ["body of m-4", "body of m-5"]
    assert sorted(attempt.name.first for attempt in bench.attempts()) == [0, 2, 4]


@pytest.mark.parametrize("is_one_chunk", [True, False])
def test_no_claim_is_made_and_no_chunk_begins_once_the_run_is_stopped(
    bench: Bench, *, is_one_chunk: bool
) -> None:
    sender = replace(bench.sender(FakeQueue()), claim_messages=lambda: 1)
    messages = [outgoing(f"m-{n}") for n in range(3)]
    chunks = (
        [("g-1", 1, messages)] if is_one_chunk else [("g-1", n, [messages[n]]) for n in range(3)]
    )
    settled = sender.settle_all(chunks)

    assert words([next(settled)]) == ["sent"]
    sender.signals.stop(Stop(StopCause.TIME_OVER))
    assert list(settled) == []
    assert len(bench.archive.list("ledger")) == 2


def test_unwritable_ledger_stops_before_anything_is_sent(bench: Bench) -> None:
    class Full(Ledger):
        def claim(self, unit: str, chunk: int, claim: Claim, first: int = 0) -> bool:
            raise ArchiveError(f"no room for {unit} {chunk} {claim.who} {first}")

    queue = FakeQueue()
    sender = bench.sender(queue, ledger=Full(bench.archive, "p-1", "run-1"))

    assert list(sender.settle_all([("g", 1, [outgoing("a")]), ("g", 2, [outgoing("b")])])) == []
    assert queue.calls == []
    assert sender.signals.stopped_by == Stop(StopCause.ARCHIVE, "no room for g 1 me@here 0")


def test_lost_result_leaves_the_chunk_unconfirmed(bench: Bench) -> None:
    class Forgetful(Ledger):
        def record(self, *_: object, **__: object) -> None:
            raise ArchiveError("no room")

    begin(bench.archive, "p-1", "run-1")
    queue = FakeQueue()
    sender = bench.sender(queue, ledger=Forgetful(bench.archive, "p-1", "run-1"))

    chunks = [("g", 1, [outgoing("a")]), ("g", 2, [outgoing("b")])]

    assert words(sender.settle_all(chunks)) == ["unconfirmed"]
    assert sender.signals.stopped_by == Stop(StopCause.ARCHIVE, "no room")
    assert [entry.body for entry in queue.sent] == ["body of a"]
    close_open_runs(bench.archive)
    assert bench.states() == {"a": Disposition.UNCONFIRMED}


def test_fifo_group_stops_at_its_first_unconfirmed_message(bench: Bench) -> None:
    messages = [outgoing("a-1", "a"), outgoing("a-2", "a"), outgoing("b-1", "b")]
    queue = refusing("a-1")
    sender = bench.sender(queue, FIFO)

    first = words(sender.settle("in-order", 1, messages))
    later = words(sender.settle("in-order", 2, [outgoing("a-3", "a"), outgoing("b-2", "b")]))

    assert first == ["failed", "not_reached", "sent"]
    assert later == ["waits", "sent"]
    assert [entry.body for entry in queue.sent] == ["body of b-1", "body of b-2"]


@pytest.mark.parametrize(
    ("disposition", "next_of_group"),
    [(Disposition.SEND, "waits"), (Disposition.DISCARD, "sent")],
)
def test_fifo_group_behind_a_busy_chunk_waits_but_not_behind_discards(
    bench: Bench, disposition: Disposition, next_of_group: str
) -> None:
    bench.leave_claim("a-1")
    sender = bench.sender(FakeQueue(), FIFO)

    first = [outgoing("a-1", "a", disposition), outgoing("a-2", "a", disposition)]
    assert words(sender.settle("g-1", 1, first)) == ["in_progress", "in_progress"]
    second = [outgoing("a-3", "a"), outgoing("b-1", "b")]
    assert words(sender.settle("g-1", 2, second)) == [next_of_group, "sent"]


def test_fifo_group_waits_behind_what_an_earlier_start_could_not_send(bench: Bench) -> None:
    messages = [outgoing("a-1", "a"), outgoing("a-2", "a"), outgoing("b-1", "b")]
    bench.settle(refusing("a-1"), messages, FIFO)
    sender = bench.sender(FakeQueue(), FIFO)

    assert words(sender.settle("g-1", 1, messages)) == ["failed", "not_reached", "sent"]
    assert words(sender.settle("g-1", 2, [outgoing("a-3", "a"), outgoing("b-2", "b")])) == [
        "waits",
        "sent",
    ]


def test_item_that_cannot_be_edited_blocks_its_fifo_group_in_the_same_claim(bench: Bench) -> None:
    messages = [
        outgoing("a-1", "a", Disposition.EDIT_FAILED),
        outgoing("a-2", "a"),
        outgoing("b-1", "b"),
    ]

    assert bench.settle(FakeQueue(), messages, FIFO) == ["edit_failed", "waits", "sent"]


CHUNKS = 4


def rows_of(chunk: int) -> pa.RecordBatch:
    """One chunk's rows with what a task gets of each, and nothing else."""
    drained_at = datetime.fromtimestamp(NOW, UTC)
    source = queue_url("parked")
    of_plan = {"drain_id": "d", "group_id": "g", "disposition": "send", "unit": "g", "chunk": chunk}
    added: dict[str, Any] = {**of_plan, "position": 0, CHANGES: None, TASK: 0}

    rows = []
    for position in range(CHUNK_MESSAGES):
        row = to_row(message(f"m-{chunk}-{position}", "x" * 1000), source, drained_at)
        rows.append({**row, **added, "position": position})

    fields = (pa.field(name, pa.scalar(value).type) for name, value in added.items())
    schema = pa.schema([*map(ARROW_SCHEMA.field, [*SENDING_COLUMNS, "sent_at"]), *fields])
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def live_messages() -> int:
    return sum(isinstance(live, Message) for live in gc.get_objects())


def test_a_task_holds_no_more_than_its_chunk_however_many_follow(tmp_path: Path) -> None:
    model = SqsModel(Clock())
    main = model.url_of(model.create_queue("main", {}))
    client = client_for(model)
    context = TaskContext(RedriveRequest(), "p-1", main, run_id="run-1", who="me@here")
    held: list[int] = []
    before = live_messages()

    def batches() -> Iterator[pa.RecordBatch]:
        for chunk in range(1, CHUNKS + 1):
            held.append(live_messages() - before)
            yield rows_of(chunk)

    task = SendTask(open_archive(str(tmp_path)), context, lambda _: client, "progress")
    (tally,) = task.run(batches())

    assert tally.to_pylist()[0]["count"] == CHUNKS * CHUNK_MESSAGES
    assert max(held) <= 2 * CHUNK_MESSAGES


def test_a_task_that_its_engine_has_given_up_sends_nothing_more(tmp_path: Path) -> None:
    model = SqsModel(Clock())
    main = model.url_of(model.create_queue("main", {}))
    client = client_for(model)
    context = TaskContext(RedriveRequest(), "p-1", main, run_id="run-1", who="me@here")
    task = SendTask(open_archive(str(tmp_path)), context, lambda _: client, "stage")
    is_stopped = iter([False, True])
    token = STOPPED.set(lambda: next(is_stopped, True))
    try:
        (settled,) = task.run([rows_of(1), rows_of(2)])
    finally:
        STOPPED.reset(token)

    rows = settled.to_pylist()
    assert [(row["disposition"], row["count"]) for row in rows if row["count"]] == [
        ("sent", CHUNK_MESSAGES)
    ]
    assert [row["stop_cause"] for row in rows if row["stop_cause"]] == ["interrupted"]
