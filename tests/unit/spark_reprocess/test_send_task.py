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

from dlq_replay.replaying.sending import InDoubt, Refused, SendResult
from dlq_replay.wire.message import Message
from local_sqs.client import client_for
from local_sqs.clock import Clock
from local_sqs.model import SqsModel
from spark_reprocess.archive.ledger.claims import CHUNK_MESSAGES, Claim, Ledger, timestamp
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.ledger.message_state import states_of, strongest
from spark_reprocess.archive.ledger.open_set import claimed_table
from spark_reprocess.archive.ledger.run_results import write_result_files
from spark_reprocess.archive.ledger.stop import Stop, StopCause
from spark_reprocess.archive.messages.dead_letter_schema import (
    ARROW_SCHEMA,
    SENDING_COLUMNS,
    to_row,
)
from spark_reprocess.archive.plan_lock import LockUse, LockView
from spark_reprocess.archive.storage.files import Archive, open_archive
from spark_reprocess.errors import ArchiveError, BusyError
from spark_reprocess.redrive.redrive_values import RedriveOptions
from spark_reprocess.redrive.resolving.editor import CHANGES
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.redrive.sending.send_task import (
    TASK,
    TASK_COLUMNS,
    ChunkSender,
    Item,
    SendTask,
    Settled,
)
from tests.support.builders import NOW, FakeQueue, context, context_of, counter, message, queue_url
from tests.support.fake_limits import FakeSignals
from tests.support.ledgers import attempts_of, begin

REQUEST = RedriveOptions("a", reason="it is fixed")
CONTEXT = RunContext(REQUEST, "p-1", queue_url("main"), run_id="run-1", who="me@here")
REFUSED = Refused("InvalidMessageContents")
FIFO = replace(CONTEXT, destination=queue_url("main.fifo"))


def test_copy_is_one_of_the_queue_that_it_goes_to() -> None:
    """Else the dead letter of another queue than its first one would lose plan and group."""
    parked = message(attributes=context(first_id="first", source_queue="another"))

    proven, unproven = (
        context_of(replace(CONTEXT, unproven_groups=groups).entry(parked, "g-1"))
        for groups in (frozenset({"g-2"}), frozenset({"g-1"}))
    )

    assert proven.source_queue == unproven.source_queue == "main"
    assert proven.group_id == unproven.group_id == "g-1"
    assert (proven.is_canary, unproven.is_canary) == (False, True)


@dataclass
class Bench:
    """Makes senders over one archive, each with a queue of its own."""

    archive: Archive
    executor: ThreadPoolExecutor

    def sender(
        self, queue: FakeQueue, context: RunContext = CONTEXT, ledger: Ledger | None = None
    ) -> ChunkSender:
        return ChunkSender(
            queue_until=lambda _: queue,
            claim_messages=lambda: math.inf,
            executor=self.executor,
            ledger=ledger or Ledger(self.archive, "p-1"),
            context=context,
            signals=FakeSignals(),
            now_seconds=time.time,
        )

    def settle(
        self, queue: FakeQueue, items: Sequence[Item], context: RunContext = CONTEXT
    ) -> list[str]:
        return words(self.sender(queue, context).settle("g-1", 1, items))

    def leave_claim(self, *ids: str, age: float) -> None:
        claim = Claim("run-0", "you", "", "", timestamp(time.time() - age), ids)
        assert Ledger(self.archive, "p-1").claim("g-1", 1, 1, claim)

    def states(self, in_seconds: float = 0) -> dict[str, Disposition]:
        attempts = attempts_of(self.archive, "p-1")
        return states_of(attempts, time.time() + in_seconds, REQUEST.claim_ttl_seconds)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with ThreadPoolExecutor(4) as executor:
        yield Bench(open_archive(str(tmp_path)), executor)


def item(
    message_id: str,
    group: str | None = None,
    disposition: Disposition = Disposition.SEND,
    place: int = 0,
) -> Item:
    system = {} if group is None else {"MessageGroupId": group}
    source = message(message_id, f"body of {message_id}", counter("5"), **system)
    return Item("g-1", place, disposition, source)


def words(settled: Iterable[Sequence[Settled]]) -> list[str]:
    return [str(one.word) for part in settled for one in part]


def refusing(message_id: str, answer: SendResult = REFUSED) -> FakeQueue:
    return FakeQueue(refuses={f"body of {message_id}": answer})


def test_open_messages_are_sent_and_recorded(bench: Bench) -> None:
    queue, locked = FakeQueue(), replace(CONTEXT, lock=LockView(7, LockUse.SEND, 120))

    assert bench.settle(queue, [item("m-1"), item("m-2")], locked) == ["sent", "sent"]
    assert sorted(entry.body for entry in queue.sent) == ["body of m-1", "body of m-2"]
    (attempt,) = Ledger(bench.archive, "p-1").attempts("g-1", 1)
    assert attempt.claim.message_ids == ("m-1", "m-2")
    assert attempt.claim.lock == 7
    assert (attempt.claim.who, attempt.claim.reason) == ("me@here", "it is fixed")
    assert attempt.claim.ttl_seconds == REQUEST.claim_ttl_seconds
    assert [r.new_message_id for r in attempt.results or ()] == ["copy-1", "copy-2"]


def test_claim_says_between_which_times_its_messages_were_sent(bench: Bench) -> None:
    """Of a later drain's messages it tells whether this claim may be about them."""
    first, last = (datetime.fromtimestamp(NOW + seconds, UTC) for seconds in (0, 0.123))
    known = [item("m-1")._replace(sent_at=last), item("m-2")._replace(sent_at=first)]
    bench.settle(FakeQueue(), known)
    unknown = item("m-3")._replace(sent_at=last), item("m-4")
    list(bench.sender(FakeQueue()).settle("g-2", 1, unknown))

    spans = [
        (attempt.claim.first_sent_at, attempt.claim.last_sent_at)
        for unit in ("g-1", "g-2")
        for attempt in Ledger(bench.archive, "p-1").attempts(unit, 1)
    ]

    assert spans == [("2023-11-14T22:13:20.000+00:00", "2023-11-14T22:13:20.123+00:00"), ("", "")]


def test_task_that_runs_again_finds_its_own_work(bench: Bench) -> None:
    items = [item("m-1"), item("m-2", disposition=Disposition.DISCARD)]
    first, queue = FakeQueue(), FakeQueue()
    bench.settle(first, items)
    assert [entry.body for entry in first.sent] == ["body of m-1"]
    assert bench.states() == {"m-1": Disposition.SENT, "m-2": Disposition.DISCARDED}

    assert bench.settle(queue, items) == ["sent", "discarded"]
    assert queue.calls == []


def test_refused_message_fails_and_is_sent_by_the_next_run(bench: Bench) -> None:
    assert bench.settle(refusing("m-2"), [item("m-1"), item("m-2")]) == ["sent", "failed"]
    queue = FakeQueue()

    again = replace(CONTEXT, run_id="run-2")
    assert bench.settle(queue, [item("m-1"), item("m-2")], again) == ["sent_before", "sent"]
    assert [entry.body for entry in queue.sent] == ["body of m-2"]


@pytest.mark.parametrize(("in_doubt", "word"), [("leave", "in_doubt"), ("send", "sent")])
def test_lost_answer_is_in_doubt_and_sent_again_only_when_told_so(
    bench: Bench, in_doubt: str, word: str
) -> None:
    assert bench.settle(refusing("m-1", InDoubt("lost")), [item("m-1")]) == ["in_doubt"]
    queue = FakeQueue()

    again = replace(CONTEXT, request=replace(REQUEST, in_doubt=in_doubt))
    assert bench.settle(queue, [item("m-1")], again) == [word]
    assert len(queue.calls) == (word == "sent")


@pytest.mark.parametrize(
    ("age", "words", "sent"),
    [(10, ["busy", "busy"], []), (901, ["in_doubt", "sent"], ["body of m-2"])],
)
def test_claim_without_result_is_busy_and_when_it_is_old_its_messages_are_in_doubt(
    bench: Bench, age: float, words: list[str], sent: list[str]
) -> None:
    bench.leave_claim("m-1", age=age)
    queue = FakeQueue()

    assert bench.settle(queue, [item("m-1"), item("m-2")]) == words
    assert [entry.body for entry in queue.sent] == sent


@pytest.mark.parametrize("age", [10, 901, 3 * 86_400, -3 * 86_400])
def test_task_that_runs_again_leaves_what_its_first_attempt_may_be_sending(
    bench: Bench, age: float
) -> None:
    """An executor that seems lost may go on, and its clock may be days off."""
    claim = Claim("run-1", "me", "", "", timestamp(time.time() - age), ("m-1",))
    assert Ledger(bench.archive, "p-1").claim("g-1", 1, 1, claim)
    queue, again = FakeQueue(), replace(CONTEXT, request=replace(REQUEST, in_doubt="send"))

    assert bench.settle(queue, [item("m-1"), item("m-2")], again) == ["busy", "busy"]
    assert queue.sent == []


@pytest.mark.parametrize(
    ("is_late", "in_doubt", "words"),
    [
        (True, "leave", ["sent", "sent"]),
        (True, "arrived", ["sent", "sent"]),
        (False, "leave", ["in_doubt", "sent"]),
    ],
)
def test_claim_that_a_closed_run_made_too_late_counts_for_tasks_as_for_readers(
    bench: Bench, in_doubt: str, words: list[str], *, is_late: bool
) -> None:
    """Its run died before it wrote that nothing was sent."""
    begin(bench.archive, "p-1", "run-0")
    if not is_late:
        bench.leave_claim("m-1", age=901)
    assert write_result_files(bench.archive, ("p-1", "run-0")) == ()
    if is_late:
        bench.leave_claim("m-1", age=901)
    read = strongest(claimed_table(bench.archive), "message_id").to_pylist()
    assert [row["state"] for row in read] == ([] if is_late else ["in_doubt"])

    context = replace(CONTEXT, request=replace(REQUEST, in_doubt=in_doubt))

    assert bench.settle(FakeQueue(), [item("m-1"), item("m-2")], context) == words


@pytest.mark.parametrize("is_one_chunk", [True, False])
def test_no_claim_is_made_and_no_chunk_begins_once_the_run_is_stopped(
    bench: Bench, *, is_one_chunk: bool
) -> None:
    sender = replace(bench.sender(FakeQueue()), claim_messages=lambda: 1)
    items = [item(f"m-{n}", place=n) for n in range(3)]
    chunks = [("g-1", 1, items)] if is_one_chunk else [("g-1", n, [items[n]]) for n in range(3)]
    settled = sender.settle_all(chunks)

    assert [one.word for one in next(settled)] == ["sent"]
    sender.signals.stop(Stop(StopCause.TIME_OVER))
    assert list(settled) == []
    assert len(bench.archive.list("ledger")) == 2


def test_unwritable_ledger_stops_before_anything_is_sent(bench: Bench) -> None:
    class Full(Ledger):
        def claim(self, unit: str, chunk: int, number: int, claim: Claim, first: int = 0) -> bool:
            raise ArchiveError(f"no room for {unit} {chunk} {number} {claim.run_id} {first}")

    queue = FakeQueue()
    sender = bench.sender(queue, ledger=Full(bench.archive, "p-1"))

    assert list(sender.settle_all([("g", 1, [item("a")]), ("g", 2, [item("b")])])) == []
    assert queue.calls == []
    assert sender.signals.stopped_by == Stop(StopCause.ARCHIVE, "no room for g 1 1 run-1 0")


def test_lost_result_leaves_the_chunk_in_doubt(bench: Bench) -> None:
    class Forgetful(Ledger):
        def record(self, *_: object, **__: object) -> None:
            raise ArchiveError("no room")

    queue = FakeQueue()
    sender = bench.sender(queue, ledger=Forgetful(bench.archive, "p-1"))

    chunks = [("g", 1, [item("a")]), ("g", 2, [item("b")])]

    assert words(sender.settle_all(chunks)) == ["in_doubt"]
    assert sender.signals.stopped_by == Stop(StopCause.ARCHIVE, "no room")
    assert [entry.body for entry in queue.sent] == ["body of a"]
    assert bench.states(in_seconds=901) == {"a": Disposition.IN_DOUBT}


def test_fifo_group_stops_at_its_first_unconfirmed_message(bench: Bench) -> None:
    items = [item("a-1", "a"), item("a-2", "a"), item("b-1", "b")]
    queue = refusing("a-1")
    sender = bench.sender(queue, FIFO)

    first = words(sender.settle("in-order", 1, items))
    later = words(sender.settle("in-order", 2, [item("a-3", "a"), item("b-2", "b")]))

    assert first == ["failed", "not_reached", "sent"]
    assert later == ["waits", "sent"]
    assert [entry.body for entry in queue.sent] == ["body of b-1", "body of b-2"]


@pytest.mark.parametrize(
    ("age", "disposition", "first", "next_of_group"),
    [
        (10, Disposition.SEND, ["busy", "busy"], "waits"),
        (901, Disposition.SEND, ["in_doubt", "waits"], "waits"),
        (10, Disposition.DISCARD, ["busy", "busy"], "sent"),
    ],
)
def test_fifo_group_behind_a_busy_chunk_or_a_message_in_doubt_waits_but_not_behind_discards(
    bench: Bench, age: float, disposition: Disposition, first: list[str], next_of_group: str
) -> None:
    bench.leave_claim("a-1", age=age)
    sender = bench.sender(FakeQueue(), FIFO)

    chunk = [item(one, "a", disposition) for one in ("a-1", "a-2")]
    assert words(sender.settle("g-1", 1, chunk)) == first
    second = [item("a-3", "a"), item("b-1", "b")]
    assert words(sender.settle("g-1", 2, second)) == [next_of_group, "sent"]


def test_calls_may_begin_only_in_the_first_part_of_a_claims_life(bench: Bench) -> None:
    """It counts from before the claim's write, which may take long, and so do others."""
    asked: list[float] = []
    began = now = time.time()

    class Slow(Ledger):
        def claim(self, *name_and_claim: Any) -> bool:
            nonlocal now
            now += REQUEST.claim_ttl_seconds
            return Ledger.claim(self, *name_and_claim)

    def queue_until(until_seconds: float) -> FakeQueue:
        asked.append(until_seconds)
        return FakeQueue()

    sender = bench.sender(FakeQueue(), ledger=Slow(bench.archive, "p-1"))
    sender = replace(sender, queue_until=queue_until, now_seconds=lambda: now)
    list(sender.settle("g-1", 1, [item("m-1")]))

    assert asked == [began + 0.7 * REQUEST.claim_ttl_seconds]


def test_a_second_run_is_refused_whatever_its_plan_and_hears_of_the_first(
    archive: Archive,
) -> None:
    request = replace(REQUEST, execute=True)
    with replace(CONTEXT, request=request).locked(archive):
        for plan_id in ("p-1", "p-2"):
            second = replace(CONTEXT, request=request, plan_id=plan_id, run_id="run-2")
            with (
                pytest.raises(BusyError, match=r"plan p-1 is .* by me@here since 20.*run run-1"),
                second.locked(archive),
            ):
                raise AssertionError("two runs at once")


CHUNKS = 4


def rows_of(chunk: int) -> pa.RecordBatch:
    """One chunk's rows with what a task gets of each, and nothing else."""
    drained_at, source = datetime.fromtimestamp(NOW, UTC), queue_url("parked")
    of_plan = {"drain_id": "d", "group_id": "g", "disposition": "send", "unit": "g", "chunk": chunk}
    added: dict[str, Any] = {**of_plan, "place": 0, CHANGES: None, TASK: 0}
    rows = [
        {**to_row(message(f"m-{chunk}-{n}", "x" * 1000), source, drained_at), **added, "place": n}
        for n in range(CHUNK_MESSAGES)
    ]
    fields = (pa.field(name, pa.scalar(value).type) for name, value in added.items())
    schema = pa.schema([*map(ARROW_SCHEMA.field, [*SENDING_COLUMNS, "sent_at"]), *fields])
    assert sorted(schema.names) == sorted(TASK_COLUMNS)
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def live_messages() -> int:
    return sum(isinstance(one, Message) for one in gc.get_objects())


def test_a_task_holds_no_more_than_its_chunk_however_many_follow(tmp_path: Path) -> None:
    model = SqsModel(Clock())
    main = model.url_of(model.create_queue("main", {}))
    client = client_for(model)
    context = RunContext(RedriveOptions("a"), "p-1", main)
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
