import math
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dlq_replay.replaying.sending import Confirmed, InDoubt, Refused, SendResult
from spark_reprocess.archive.ledger.claims import Claim, Ledger, timestamp
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.ledger.message_state import states_of
from spark_reprocess.archive.storage.files import Archive, open_archive
from spark_reprocess.errors import ArchiveError
from spark_reprocess.redrive.redrive_values import RedriveOptions
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.redrive.sending.send_task import ChunkSender, Item, Settled
from tests.support.builders import FakeQueue, context, context_of, counter, message, queue_url
from tests.support.fake_limits import FakeSignals
from tests.support.ledgers import attempts_of

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
    queue = FakeQueue()

    assert bench.settle(queue, [item("m-1"), item("m-2")]) == ["sent", "sent"]
    assert sorted(entry.body for entry in queue.sent) == ["body of m-1", "body of m-2"]
    (attempt,) = Ledger(bench.archive, "p-1").attempts("g-1", 1)
    assert attempt.claim.message_ids == ("m-1", "m-2")
    assert (attempt.claim.who, attempt.claim.reason) == ("me@here", "it is fixed")
    assert attempt.claim.ttl_seconds == REQUEST.claim_ttl_seconds
    assert [r.new_message_id for r in attempt.results or ()] == ["copy-1", "copy-2"]


def test_task_that_runs_again_finds_its_own_work(bench: Bench) -> None:
    items = [item("m-1"), item("m-2", disposition=Disposition.DISCARD)]
    bench.settle(FakeQueue(), items)
    queue = FakeQueue()

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


def test_discarded_message_is_recorded_and_never_sent(bench: Bench) -> None:
    queue = FakeQueue()

    assert bench.settle(queue, [item("m-1", disposition=Disposition.DISCARD)]) == ["discarded"]
    assert queue.calls == []
    assert bench.states() == {"m-1": Disposition.DISCARDED}


def test_claim_stands_before_anything_is_sent(bench: Bench) -> None:
    seen: list[list[str]] = []

    class Looking(FakeQueue):
        def send(self, entries: Sequence[object]) -> list[SendResult]:
            seen.append(bench.archive.list("ledger"))
            return [Confirmed("copy")] * len(entries)

    bench.settle(Looking(), [item("m-1")])

    assert seen == [["ledger/plan_id=p-1/g-1/chunk-00001.attempt-1.from-00000.claim.json"]]


def test_no_claim_is_made_once_the_run_is_stopped(bench: Bench) -> None:
    sender = replace(bench.sender(FakeQueue()), claim_messages=lambda: 1)
    settled = sender.settle("g-1", 1, [item(f"m-{n}", place=n) for n in range(3)])

    assert [one.word for one in next(settled)] == ["sent"]
    sender.signals.stop("its time budget is over")
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
    assert sender.signals.stopped_by == "no room for g 1 1 run-1 0"


def test_lost_result_leaves_the_chunk_in_doubt(bench: Bench) -> None:
    class Forgetful(Ledger):
        def record(self, *_: object, **__: object) -> None:
            raise ArchiveError("no room")

    queue = FakeQueue()
    sender = bench.sender(queue, ledger=Forgetful(bench.archive, "p-1"))

    chunks = [("g", 1, [item("a")]), ("g", 2, [item("b")])]

    assert words(sender.settle_all(chunks)) == ["in_doubt"]
    assert sender.signals.stopped_by == "no room"
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


def test_no_chunk_begins_once_the_run_is_stopped(bench: Bench) -> None:
    sender = bench.sender(FakeQueue())
    settled = sender.settle_all([("g", n, [item("abc"[n])]) for n in range(3)])

    assert [one.word for one in next(settled)] == ["sent"]
    sender.signals.stop("there is no such queue")
    assert list(settled) == []


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


def test_runs_of_one_plan_share_the_lock_whatever_kind_of_queue_they_send_to() -> None:
    claims = [
        replace(context, cut=cut, run_id=run_id).lock_holder.claims
        for context, cut, run_id in (
            *((CONTEXT, "of-2", "run-1"), (FIFO, "of-2", "run-2"), (CONTEXT, "of-3", "run-3")),
            *((CONTEXT, "", "run-4"), (CONTEXT, "", "run-5")),
        )
    ]
    assert claims[0] == claims[1]
    assert len(set(claims)) == 4
