"""A run that loses the lock at any step: nothing is sent twice, nothing is lost, states agree.

Another run takes the lock right before or after one call of the first run to the archive or to SQS.
The first one sees nothing of it, as if it were frozen meanwhile; it goes on later, or never.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import count
from typing import Any, BinaryIO

import pytest

from dlq.archive.ledger.claims import Ledger
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.message_state import strongest
from dlq.archive.ledger.open_set import claimed_table
from dlq.archive.ledger.run_results import write_result_files
from dlq.archive.lock import (
    LockClock,
    LockHolder,
    LockUse,
    archive_lock,
    require_newest,
)
from dlq.errors import ArchiveError
from dlq.redrive.request import RedriveRequest
from dlq.redrive.sending.send_task import ChunkSender, OutgoingMessage
from dlq.redrive.sending.task_context import TaskContext
from dlq_replay.replaying.sending import Confirmed, SendResult
from dlq_replay.wire.message import SendEntry
from local_sqs.clock import VirtualClock
from tests.support.builders import InlineExecutor, message, queue_url
from tests.support.claim_runs import resolved
from tests.support.fake_limits import FakeSignals
from tests.support.ledgers import MemoryArchive, begin
from tests.support.processes import Died, die

PLAN = "p-1"
GROUPS = {"a-1": "a", "b-1": "b", "a-2": "a", "c-1": "c", "a-3": "a"}
CLAIM_MESSAGES = 2


@dataclass
class World:
    """The archive, the queue and the time of all runs.

    Attributes:
        arrived: the ids of messages, in order.
        doubted: ids of messages that were unconfirmed when a run was told to send those.
    """

    is_fifo: bool
    files: dict[str, bytes] = field(default_factory=dict)
    arrived: list[str] = field(default_factory=list)
    doubted: set[str] = field(default_factory=set)
    clock: VirtualClock = field(default_factory=VirtualClock)

    def archive(self) -> MemoryArchive:
        archive = MemoryArchive()
        object.__setattr__(archive, "files", self.files)
        return archive

    def states(self) -> dict[str, str]:
        rows = strongest(claimed_table(self.archive()), "message_id").to_pylist()
        return {row["message_id"]: row["state"] for row in rows}

    def run(self, run_id: str, unconfirmed: str = "leave", frozen: "Frozen | None" = None) -> None:
        """A whole run: lock, states, record, claims and sends, result file."""
        archive: Any = frozen or self.archive()
        if unconfirmed == "send":
            states = self.states()
            for message_id, state in states.items():
                if state == Disposition.UNCONFIRMED:
                    self.doubted.add(message_id)
        clock = LockClock(self.clock.time, self.clock.advance, self.clock.time)
        holder = LockHolder(run_id, LockUse.SEND, "plan p-1", "me")
        with suppress(ArchiveError), archive_lock(archive, holder, clock=clock) as lock:
            rows = strongest(claimed_table(archive), "message_id").to_pylist()
            states = {row["message_id"]: row["state"] for row in rows}
            begin(archive, PLAN, run_id)
            require_newest(archive, lock.view)
            work = resolved([("u", 1, items())], states, unconfirmed, is_fifo=self.is_fifo)
            list(self._sender(archive, run_id, frozen).settle_all(work))
            assert write_result_files(archive, (PLAN, run_id)) == ()

    def _sender(self, archive: Any, run_id: str, frozen: "Frozen | None") -> ChunkSender:
        url = queue_url("main.fifo" if self.is_fifo else "main")
        options = RedriveRequest(reason="it is fixed")
        return ChunkSender(
            queue_until=lambda _: Queue(self, url, frozen),
            claim_messages=lambda: CLAIM_MESSAGES,
            executor=InlineExecutor(),
            ledger=Ledger(archive, PLAN, run_id),
            context=TaskContext(options, PLAN, url, run_id=run_id, who="me"),
            signals=FakeSignals(),
            now_seconds=self.clock.time,
        )


@dataclass
class Queue:
    """Takes everything."""

    world: World
    url: str
    frozen: "Frozen | None"

    def send(self, entries: Sequence[SendEntry]) -> list[SendResult]:
        if self.frozen:
            self.frozen.step()
        self.world.arrived += [entry.body for entry in entries]
        if self.frozen:
            self.frozen.step()
        return [Confirmed("copy") for _ in entries]


class Frozen(MemoryArchive):
    """The archive as the first run sees it. It freezes at one of its steps, while others act."""

    def __init__(self, world: World, at: int, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        object.__setattr__(self, "files", world.files)
        object.__setattr__(self, "hooks", {at: meanwhile})
        object.__setattr__(self, "steps", count())

    def step(self) -> None:
        hooks: Any = vars(self)["hooks"]
        hooks.pop(next(vars(self)["steps"]), lambda: None)()

    @property
    def has_frozen(self) -> bool:
        return not vars(self)["hooks"]

    def create(self, path: str, content: bytes) -> bool:
        self.step()
        is_first = super().create(path, content)
        self.step()
        return is_first

    def write(self, path: str, content: bytes) -> None:
        self.step()
        super().write(path, content)
        self.step()

    def read(self, path: str) -> bytes | None:
        self.step()
        content = super().read(path)
        self.step()
        return content

    def open(self, path: str) -> BinaryIO | None:
        content = self.read(path)
        return None if content is None else BytesIO(content)

    def list(self, folder: str) -> "list[str]":
        self.step()
        paths = super().list(folder)
        self.step()
        return paths


def items() -> list[OutgoingMessage]:
    outgoing = []
    for message_id, message_group in GROUPS.items():
        sent = message(message_id, message_id, MessageGroupId=message_group)
        outgoing.append(OutgoingMessage("g-1", Disposition.SEND, sent))
    return outgoing


@pytest.mark.parametrize("is_fifo", [False, True])
@pytest.mark.parametrize(
    ("meanwhile", "wakes"), [("leave", True), ("leave", False), ("leave send", True)]
)
def test_run_that_loses_the_lock_at_any_step_sends_nothing_that_another_run_sends(
    meanwhile: str, *, wakes: bool, is_fifo: bool
) -> None:
    for at in count():
        world = World(is_fifo)

        def others(world: World = world) -> None:
            for number, unconfirmed in enumerate(meanwhile.split()):
                world.run(f"other-{number}", unconfirmed)
            if not wakes:
                die()

        first = Frozen(world, at, others)
        with suppress(Died):
            world.run("first", frozen=first)
        check(world)
        world.run("next")
        check(world)
        assert {*world.states().values()} <= {Disposition.SENT, Disposition.UNCONFIRMED}
        world.run("last", "send")
        check(world)
        assert world.states() == dict.fromkeys(GROUPS, Disposition.SENT)
        assert set(world.arrived) == set(GROUPS)
        if not first.has_frozen:
            break
    assert at > 40


def check(world: World) -> None:
    twice = Counter(world.arrived) - Counter(set(world.arrived))
    assert twice.keys() <= world.doubted
    assert set(twice.values()) <= {1}
    states = world.states()
    # What may have arrived is never pending, and what counts as sent has arrived.
    for message_id in GROUPS:
        has_arrived = message_id in world.arrived
        state = states.get(message_id)
        assert state in (
            (Disposition.SENT, Disposition.UNCONFIRMED) if has_arrived else (None, "unconfirmed")
        )
    if world.is_fifo:
        first_arrivals = dict.fromkeys(world.arrived)
        of_group_a = [message_id for message_id in first_arrivals if GROUPS[message_id] == "a"]
        assert of_group_a == sorted(of_group_a)
