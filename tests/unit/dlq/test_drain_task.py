import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pytest

from dlq.archive.messages.dead_letter_schema import Row
from dlq.drain.drain_task import (
    CHUNK_SECONDS,
    EMPTY_POLLS,
    LAST_POLL,
    DrainCounts,
    DrainRules,
    DrainTask,
    Receipt,
)
from dlq.errors import ArchiveError
from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.replaying.trial_message import trial_entry
from dlq_replay.wire.message import Message
from tests.support.builders import InlineExecutor, message, policy, text
from tests.support.golden import assert_stored, stored_rows

if TYPE_CHECKING:
    from dlq_replay.aws.sqs import SqsQueue

Received = Message | MalformedMessageError


@dataclass
class Shelf:
    """A parked queue: what was received is in flight; what was deleted is gone.

    It confirms a deletion by the handle of an earlier receive, and deletes nothing, as SQS may.
    """

    waiting: list[Received]
    empty_polls_between: int = 0
    stuck: frozenset[str] = frozenset()
    url: str = "https://sqs.example/1/parked"
    receives: int = 0
    waits: list[int] = field(default_factory=list)
    deletes: int = 0
    deleted: list[str] = field(default_factory=list)
    failures: list[QueueError] = field(default_factory=list)
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
        if self.failures:
            raise self.failures.pop(0)
        if self._skipped < self.empty_polls_between:
            self._skipped += 1
            return []
        self._skipped = 0
        taken = self.waiting[:max_messages]
        self.waiting = self.waiting[max_messages:]
        return [self._handed_out(received, number) for number, received in enumerate(taken)]

    def _handed_out(self, received: Received, number: int) -> Received:
        if not isinstance(received, Message):
            return received
        handle = f"{self.receives}-{number}"
        self._handles[received.message_id] = handle
        return replace(received, receipt_handle=handle)

    def delete(self, messages: Sequence[Receipt]) -> list[Receipt]:
        assert 1 <= len(messages) <= 10
        self.deletes += 1
        left = []
        for receipt in messages:
            if receipt.message_id in self.stuck:
                left.append(receipt)
            elif receipt.receipt_handle == self._handles[receipt.message_id]:
                self.deleted.append(receipt.message_id)
        return left

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


def parked(count: int) -> list[Received]:
    return [message(f"m-{index}") for index in range(count)]


def run(
    shelf: Shelf,
    disk: Disk,
    rules: DrainRules | None = None,
    now_seconds: Callable[[], float] = lambda: 0.0,
    is_stopped: Callable[[], bool] = lambda: False,
) -> DrainCounts:
    return DrainTask(
        queue=cast("SqsQueue", shelf),
        write=disk.write,
        rules=rules or DrainRules(),
        executor=InlineExecutor(),
        count_visible=shelf.count_visible,
        now_seconds=now_seconds,
        sleep=lambda _: None,
        is_stopped=is_stopped,
    ).run()


def sent_by_doctor(number: int) -> Message:
    """A test message of ``dlq doctor``."""
    entry = trial_entry(f"{number:016x}", policy())
    return Message(f"test-{number}", entry.body, entry.attributes, receipt_handle="r")


def large(count: int) -> list[Received]:
    attributes = {"more": text("y" * 95)}
    return [message(f"m-{n}", "x" * 900, attributes) for n in range(count)]


UNREADABLE = MalformedMessageError("message x: Body")


@dataclass(frozen=True)
class Case:
    """A queue, a disk, and a task.

    Attributes:
        room: the number of files that the disk can hold.
        step_seconds: the time that passes with each look at the clock.
    """

    waiting: Sequence[Received]
    rules: DrainRules = field(default_factory=DrainRules)
    empty_polls_between: int = 0
    stuck: frozenset[str] = frozenset()
    room: int = 1_000_000
    step_seconds: float = 0.0


CASES: dict[str, Case] = {
    "25 messages": Case(parked(25)),
    # Empty polls do not end it while SQS counts messages.
    "1 empty polls in between": Case(parked(25), empty_polls_between=1),
    "3 empty polls in between": Case(parked(25), empty_polls_between=EMPTY_POLLS),
    "11 empty polls in between": Case(parked(25), empty_polls_between=LAST_POLL - 1),
    "an empty queue": Case([]),
    # No more polls at once than the next question to SQS needs.
    "an empty queue, several receives at once": Case([], DrainRules(receives=5)),
    "no message in any poll": Case(parked(25), empty_polls_between=LAST_POLL),
    # Doubtful polls wait long enough to ask all servers.
    "short polls": Case(parked(1), DrainRules(wait_seconds=0), empty_polls_between=5),
    "a full disk": Case(parked(25), room=0),
    "deletions that are not confirmed": Case(parked(5), stuck=frozenset({"m-1", "m-3"})),
    "unreadable messages": Case([*parked(2), UNREADABLE, message("bad", body="\ud800")]),
    "unreadable messages alone": Case([UNREADABLE] * 30),
    # Test messages are deleted and not archived; one that cannot be deleted is no fault.
    "test messages among real ones": Case([sent_by_doctor(0), *parked(3), sent_by_doctor(1)]),
    "test messages alone": Case(list(map(sent_by_doctor, range(25)))),
    "a test message that is not deleted": Case([sent_by_doctor(0)], stuck=frozenset({"test-0"})),
    # A consumer copies the attributes of what it receives to what it sends.
    "a real message with the marker": Case(
        [replace(message("m-0"), attributes=sent_by_doctor(0).attributes)]
    ),
    "no time": Case(parked(5), DrainRules(until_seconds=0.0)),
    "no share of the limit": Case(parked(5), DrainRules(limit=0)),
    # What was received is settled.
    "time for some": Case(parked(100), DrainRules(until_seconds=12.0), step_seconds=1.0),
    # One row, deleted by the later receipt.
    "a message that comes twice": Case([message("m-1"), message("m-1")]),
    "FIFO, 0 empty polls in between": Case(parked(25), DrainRules(is_fifo=True)),
    "FIFO, 1 empty polls in between": Case(
        parked(25), DrainRules(is_fifo=True), empty_polls_between=1
    ),
    "many bytes": Case(large(50), DrainRules(chunk_bytes=15_000)),
    "a chunk that grows old": Case(parked(30), step_seconds=CHUNK_SECONDS / 4),
}


@stored_rows("drains", CASES)
def test_drain_ends_as_it_is_stored(name: str) -> None:
    case = CASES[name]
    shelf = Shelf([*case.waiting], case.empty_polls_between, case.stuck)
    disk = Disk(room=case.room)
    clock = itertools.count(step=case.step_seconds)

    counts = run(shelf, disk, case.rules, lambda: float(next(clock)))

    deleted = set(shelf.deleted)
    tests = {message_id for message_id in deleted if message_id.startswith("test-")}
    archived = set(itertools.chain(*disk.files))
    assert deleted == (archived | tests) - case.stuck

    lines = [in_words(counts)]
    for fault, times in Counter(counts.faults).items():
        lines.append(f"{times} x fault: {fault}")
    if counts.stopped_by:
        lines.append(f"stopped by: {counts.stopped_by}")

    files = [f"{file[0]} to {file[-1]}, {len(file)}" for file in disk.files]
    lines.append(f"files: {'; '.join(files)}")
    lines.append(f"deleted: {len(shelf.deleted)} in {shelf.deletes} calls")
    lines.append(f"receives: {shelf.receives}, waits: {' '.join(map(str, shelf.waits))}")

    assert_stored("drains", name, "\n".join(lines))


def in_words(counts: DrainCounts) -> str:
    """Format the counts for the stored text: those that are not 0."""
    by_name = {
        "received": counts.received,
        "archived": counts.archived,
        "deleted": counts.deleted,
        "not deleted": counts.not_deleted,
        "unreadable": counts.unreadable,
        "tests": counts.tests,
    }
    return "counts: " + ", ".join(f"{count} {name}" for name, count in by_name.items() if count)


@pytest.mark.parametrize(
    ("code", "failures", "receives", "drained"),
    [
        # A key that is disabled stays so: no second call.
        ("KMS.DisabledException", 1, 1, 0),
        ("AWS.SimpleQueueService.NonExistentQueue", 1, 1, 0),
        # What ends by itself is waited for; botocore does not repeat a throttled key.
        ("KMS.ThrottlingException", 5, 5 + 1 + EMPTY_POLLS, 7),
        ("KMS.ThrottlingException", 6, 6, 0),
        ("ReadTimeoutError", 2, 2 + 1 + EMPTY_POLLS, 7),
        ("ReadTimeoutError", 3, 3, 0),
    ],
)
def test_failed_receive_is_repeated_as_often_as_its_code_is_worth(
    code: str, failures: int, receives: int, drained: int
) -> None:
    failure = QueueError(f"receiving: {code}", code)
    shelf = Shelf(parked(7), failures=[failure] * failures)

    counts = run(shelf, Disk())

    assert (shelf.receives, counts.deleted) == (receives, drained)
    assert counts.stopped_by == (None if drained else f"receiving: {code}")


def test_receives_at_once_leave_room_for_each_other() -> None:
    disk = Disk()

    run(Shelf(large(200)), disk, DrainRules(chunk_bytes=50_000, receives=4))

    assert max(map(len, disk.files)) <= 50


def test_stopped_task_receives_no_more_and_settles_what_it_has() -> None:
    shelf = Shelf(parked(50))

    counts = run(shelf, Disk(), is_stopped=lambda: shelf.receives == 2)

    assert (shelf.receives, counts.archived, counts.deleted) == (2, 20, 20)
    assert len(shelf.waiting) == 30
