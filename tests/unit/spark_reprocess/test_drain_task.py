import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.message import Message
from dlq_replay.trial import trial_entry
from spark_reprocess.archive.dead_letter_schema import Row
from spark_reprocess.drain.drain_task import (
    CHUNK_SECONDS,
    EMPTY_POLLS,
    LAST_POLL,
    DrainCounts,
    DrainRules,
    DrainTask,
    EmptyQueueDetector,
    Receipt,
)
from spark_reprocess.errors import ArchiveError
from tests.builders import message, policy, text
from tests.inline_executor import InlineExecutor

Received = Message | MalformedMessageError


@dataclass
class Shelf:
    """A parked queue: what was received is in flight; what was deleted is gone.

    It confirms a deletion by the handle of an earlier receive, and deletes nothing, as SQS may.
    """

    waiting: list[Received]
    empty_polls_between: int = 0
    stuck: frozenset[str] = frozenset()
    breaks_after: int | None = None
    url: str = "https://sqs.example/1/parked"
    receives: int = 0
    waits: list[int] = field(default_factory=list)
    deletes: int = 0
    deleted: list[str] = field(default_factory=list)
    _skipped: int = 0
    _handles: dict[str, str] = field(default_factory=dict)

    def receive(
        self,
        *,
        max_messages: int,
        wait_seconds: int,
        visibility_timeout_seconds: int | None,
        attempt_id: str | None,
    ) -> list[Received]:
        assert 1 <= max_messages <= 10
        self.receives += 1
        self.waits.append(wait_seconds)
        if self.breaks_after is not None and self.receives > self.breaks_after:
            raise QueueError("receiving: gone")
        if self._skipped < self.empty_polls_between:
            self._skipped += 1
            return []
        self._skipped = 0
        taken, self.waiting = self.waiting[:max_messages], self.waiting[max_messages:]
        return [self._handed_out(one, place) for place, one in enumerate(taken)]

    def _handed_out(self, one: Received, place: int) -> Received:
        if not isinstance(one, Message):
            return one
        self._handles[one.message_id] = f"{self.receives}-{place}"
        return replace(one, receipt_handle=self._handles[one.message_id])

    def delete(self, messages: Sequence[Receipt]) -> list[Receipt]:
        assert 1 <= len(messages) <= 10
        self.deletes += 1
        newest = [m for m in messages if m.receipt_handle == self._handles[m.message_id]]
        self.deleted += [m.message_id for m in newest if m.message_id not in self.stuck]
        return [m for m in messages if m.message_id in self.stuck]

    def count_visible(self) -> int | None:
        return len(self.waiting)


@dataclass
class Disk:
    files: list[list[str]] = field(default_factory=list)
    room: int = 1_000_000

    def write(self, rows: list[Row]) -> None:
        if self.room == 0:
            raise ArchiveError("archive: no room")
        self.room -= 1
        self.files.append([row["message_id"] for row in rows])

    @property
    def ids(self) -> list[str]:
        return [one for file in self.files for one in file]


def parked(count: int) -> list[Received]:
    return [message(f"m-{index}") for index in range(count)]


def run(
    shelf: Shelf,
    disk: Disk,
    rules: DrainRules | None = None,
    now_seconds: Callable[[], float] = lambda: 0.0,
) -> DrainCounts:
    return DrainTask(
        queue=shelf,
        write=disk.write,
        rules=rules or DrainRules(),
        executor=InlineExecutor(),
        count_visible=shelf.count_visible,
        now_seconds=now_seconds,
        sleep=lambda _: None,
    ).run()


def test_every_message_is_archived_then_deleted() -> None:
    shelf, disk = Shelf(parked(25)), Disk()

    counts = run(shelf, disk)

    assert counts == DrainCounts(received=25, archived=25, deleted=25)
    assert shelf.deleted == disk.ids == [f"m-{index}" for index in range(25)]


@pytest.mark.parametrize("empty_polls", [1, EMPTY_POLLS, LAST_POLL - 1])
def test_empty_polls_do_not_end_it_while_sqs_counts_messages(empty_polls: int) -> None:
    shelf = Shelf(parked(25), empty_polls_between=empty_polls)

    assert run(shelf, Disk()).archived == 25


@pytest.mark.parametrize(("waiting", "receives"), [(0, EMPTY_POLLS), (25, LAST_POLL)])
def test_empty_polls_end_it_once_sqs_counts_none_and_many_whatever_sqs_counts(
    waiting: int, receives: int
) -> None:
    shelf = Shelf(parked(waiting), empty_polls_between=LAST_POLL)

    assert run(shelf, Disk()).archived == 0
    assert shelf.receives == receives


@pytest.mark.parametrize(("last", "is_empty"), [(0, True), (1, False)])
def test_message_after_empty_answers_makes_it_go_on_and_one_more_empty_answer_does_not(
    last: int, *, is_empty: bool
) -> None:
    detector = EmptyQueueDetector()

    for received in (*[0] * EMPTY_POLLS, last):
        detector.record(received, lambda: 0)

    assert detector.is_empty is is_empty


def test_doubtful_polls_wait_long_enough_to_ask_all_servers() -> None:
    shelf = Shelf(parked(1), empty_polls_between=5)

    run(shelf, Disk(), DrainRules(wait_seconds=0))

    assert shelf.waits[:6] == [0, 0, 0, 1, 1, 1]


def test_nothing_is_deleted_when_the_write_fails() -> None:
    shelf, disk = Shelf(parked(25)), Disk(room=0)

    counts = run(shelf, disk)

    assert counts == DrainCounts(received=25, stopped_by="archive: no room")
    assert shelf.deleted == []


def test_unconfirmed_deletions_are_tried_twice_and_counted_as_left() -> None:
    shelf = Shelf(parked(5), stuck=frozenset({"m-1", "m-3"}))

    counts = run(shelf, Disk())

    assert (counts.archived, counts.deleted, counts.left) == (5, 3, 2)
    assert shelf.deletes == 2


def test_unreadable_messages_stay_and_are_named() -> None:
    waiting = [*parked(2), MalformedMessageError("message x: Body"), message("bad", body="\ud800")]
    shelf, disk = Shelf(waiting), Disk()

    counts = run(shelf, disk)

    assert counts.unreadable == 2
    assert counts.faults == ["message x: Body", "message bad: holds text that is no Unicode"]
    assert shelf.deleted == disk.ids == ["m-0", "m-1"]


def test_queue_of_unreadable_messages_only_is_drained() -> None:
    shelf = Shelf([MalformedMessageError("message x: Body")] * 30)

    counts = run(shelf, Disk())

    assert counts.unreadable == 30
    assert len(counts.faults) == 10
    assert counts.stopped_by is None


def sent_by_doctor(number: int) -> Message:
    """A test message of ``dlq doctor``."""
    entry = trial_entry(f"{number:016x}", policy())
    return Message(f"test-{number}", entry.body, entry.attributes, receipt_handle="r")


@pytest.mark.parametrize(
    ("waiting", "stuck", "counts", "archived"),
    [
        (
            [sent_by_doctor(0), *parked(3), sent_by_doctor(1)],
            "",
            DrainCounts(received=3, archived=3, deleted=3, tests=2),
            ["m-0", "m-1", "m-2"],
        ),
        ([sent_by_doctor(n) for n in range(25)], "", DrainCounts(tests=25), []),
        ([sent_by_doctor(0)], "test-0", DrainCounts(), []),
        # A consumer copies the attributes of what it receives to what it sends.
        (
            [replace(message("m-0"), attributes=sent_by_doctor(0).attributes)],
            "",
            DrainCounts(received=1, archived=1, deleted=1),
            ["m-0"],
        ),
    ],
    ids=["among real ones", "alone", "not deleted", "a real message with the marker"],
)
def test_test_messages_of_the_doctor_are_deleted_and_not_archived(
    waiting: list[Received], stuck: str, counts: DrainCounts, archived: list[str]
) -> None:
    """One that cannot be deleted comes again, and is no fault."""
    shelf, disk = Shelf([*waiting], stuck=frozenset({stuck})), Disk(room=len(archived))
    ids = {one.message_id for one in waiting if isinstance(one, Message)}

    assert run(shelf, disk) == counts
    assert disk.ids == archived
    assert {*shelf.deleted} == ids - {stuck}


@pytest.mark.parametrize("rules", [DrainRules(until_seconds=0.0), DrainRules(limit=0)])
def test_without_time_or_a_share_of_the_limit_nothing_is_received(rules: DrainRules) -> None:
    shelf = Shelf(parked(5))

    assert run(shelf, Disk(), rules) == DrainCounts()
    assert shelf.receives == 0


def test_time_budget_still_settles_what_was_received() -> None:
    clock = iter(range(1000))
    shelf, disk = Shelf(parked(100)), Disk()

    run(shelf, disk, DrainRules(until_seconds=12.0), lambda: float(next(clock)))

    assert shelf.deleted == disk.ids
    assert 0 < len(disk.ids) < 100


def test_message_that_comes_twice_fills_one_row_and_is_deleted_by_its_later_receipt() -> None:
    shelf, disk = Shelf([message("m-1"), message("m-1")]), Disk()

    counts = run(shelf, disk)

    assert disk.ids == shelf.deleted == ["m-1"]
    assert (counts.received, counts.archived) == (2, 1)


@pytest.mark.parametrize(
    ("empty_polls", "files", "waits"),
    [(0, [25], [2, 0, 0, 0, 2, 2]), (1, [10, 10, 5], [2, 2, 0, 2, 0, 2, 0, 2, 2])],
)
def test_fifo_chunk_goes_on_while_messages_come_at_once(
    empty_polls: int, files: list[int], waits: list[int]
) -> None:
    shelf, disk = Shelf(parked(25), empty_polls_between=empty_polls), Disk()

    run(shelf, disk, DrainRules(is_fifo=True))

    assert [len(file) for file in disk.files] == files
    assert shelf.waits == waits


def test_chunk_is_written_when_its_bytes_are_many() -> None:
    large = [message(f"m-{n}", "x" * 900, {"more": text("y" * 95)}) for n in range(50)]
    shelf, disk = Shelf([*large]), Disk()

    run(shelf, disk, DrainRules(chunk_bytes=15_000))

    assert [len(file) for file in disk.files] == [20, 20, 10]


def test_receives_at_once_leave_room_for_each_other() -> None:
    large = [message(f"m-{n}", "x" * 1000) for n in range(200)]
    shelf, disk = Shelf([*large]), Disk()

    run(shelf, disk, DrainRules(chunk_bytes=50_000, receives=4))

    assert max(len(file) for file in disk.files) <= 50


def test_old_chunk_is_written_before_it_is_full() -> None:
    clock = itertools.count(step=CHUNK_SECONDS / 4)
    shelf, disk = Shelf(parked(30)), Disk()

    run(shelf, disk, now_seconds=lambda: next(clock))

    assert len(disk.files) > 1
    assert len(disk.ids) == 30
