"""Whatever fails while a parked queue is drained, nothing is lost and groups keep their order.

A real client, the model of SQS on a virtual clock, an archive in memory; the task dies where a
fault says so, and a second one comes after its messages are visible again.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dlq.archive.messages.dead_letter_schema import Row
from dlq.aws.clients import QueueCounts
from dlq.drain.drain_task import DrainCounts, DrainRules, DrainTask
from dlq.errors import ArchiveError
from dlq_replay.aws.sqs import SqsQueue
from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault
from local_sqs.front import Front
from local_sqs.model import SqsModel
from local_sqs.model_queue import ModelQueue
from tests.property.strategies import faults_of
from tests.support.builders import InlineExecutor, entry
from tests.support.ledgers import CLOCKS
from tests.support.processes import Died

HIDDEN_SECONDS = 60


@dataclass(frozen=True)
class Scenario:
    """The messages in the queue, and the faults.

    Attributes:
        groups: the group of each message.
        writes: how many files the disk takes before it is full; None for all.
        ahead: by how many seconds the clocks of the two tasks' machines are ahead of that of SQS.
    """

    groups: Sequence[int]
    is_fifo: bool = False
    faults: Sequence[Fault] = ()
    chunk_messages: int = 2000
    receives: int = 1
    writes: int | None = None
    limit: int | None = None
    ahead: tuple[float, float] = (0, 0)


scenarios = st.builds(
    Scenario,
    groups=st.lists(st.integers(0, 3), max_size=70),
    is_fifo=st.booleans(),
    faults=st.lists(faults_of("ReceiveMessage", "DeleteMessageBatch"), max_size=3),
    chunk_messages=st.sampled_from([1, 15, 2000]),
    receives=st.integers(1, 4),
    writes=st.none() | st.integers(0, 3),
    ahead=st.tuples(st.sampled_from(CLOCKS), st.sampled_from(CLOCKS)),
)


@dataclass
class DrainedQueue:
    """One queue and one archive."""

    scenario: Scenario
    clock: VirtualClock = field(default_factory=VirtualClock)
    files: list[list[Row]] = field(default_factory=list)
    writes_left: float = math.inf

    def __post_init__(self) -> None:
        model = SqsModel(self.clock)
        self.front = Front(model)
        suffix, attributes = (".fifo", {"FifoQueue": "true"}) if self.scenario.is_fifo else ("", {})
        parked = ModelQueue(model, f"parked{suffix}", **attributes)
        self.stored = parked.queue
        self.queue = SqsQueue(client_for(self.front), parked.url)
        for number, group in enumerate(self.scenario.groups):
            parked.send([entry(str(number), suffix and str(group))])
        if self.scenario.writes is not None:
            self.writes_left = self.scenario.writes
        self.sent = self.waiting_ids
        self.front.faults.add(*self.scenario.faults)

    def drain(
        self,
        kind: type[DrainTask] = DrainTask,
        queue: SqsQueue | None = None,
        executor: Executor | None = None,
        ahead: float = 0,
    ) -> DrainCounts | None:
        """Run a task to its end, or to its death, on a machine whose clock is so much ahead."""
        rules = DrainRules(
            is_fifo=self.scenario.is_fifo,
            visibility_timeout_seconds=HIDDEN_SECONDS,
            chunk_messages=self.scenario.chunk_messages,
            receives=1 if self.scenario.is_fifo else self.scenario.receives,
            limit=self.scenario.limit,
        )

        task = kind(
            queue or self.queue,
            self._write,
            rules,
            executor or InlineExecutor(),
            lambda: QueueCounts.of(self.queue.describe()).visible,
            lambda: self.clock.time() + ahead,
            self.clock.advance,
        )

        try:
            return task.run()
        except Died:
            return None

    def heal(self) -> None:
        """Nothing goes wrong any more, and what was received is visible again."""
        self.front.faults.clear()
        self.writes_left = math.inf
        self.clock.advance(HIDDEN_SECONDS + 1)

    def _write(self, rows: list[Row]) -> None:
        if self.writes_left == 0:
            raise ArchiveError("no room")
        self.writes_left -= 1
        self.files.append(rows)

    @property
    def archived(self) -> list[Row]:
        return [row for file in self.files for row in file]

    @property
    def archived_ids(self) -> set[str]:
        return {row["message_id"] for row in self.archived}

    @property
    def waiting_ids(self) -> set[str]:
        return {message.message_id for message in self.stored.messages()}


def nothing_is_lost(world: DrainedQueue) -> None:
    assert world.archived_ids | world.waiting_ids == world.sent


def nothing_is_deleted_that_is_counted_as_not_deleted(
    world: DrainedQueue, counts: DrainCounts
) -> None:
    assert counts.archived == counts.deleted + counts.not_deleted
    assert counts.deleted <= len(world.archived_ids - world.waiting_ids)


def groups_keep_their_order(world: DrainedQueue) -> None:
    """By first appearance: what a lost delete brings back is archived once more, later."""
    first: dict[str, Row] = {}
    for row in world.archived:
        first.setdefault(row["message_id"], row)
    seen: dict[str, list[int]] = defaultdict(list)
    for row in first.values():
        seen[row["message_group_id"]].append(int(row["sequence_number"]))
    for numbers in seen.values():
        assert numbers == sorted(numbers)


def play(scenario: Scenario, kind: type[DrainTask] = DrainTask) -> DrainedQueue:
    world = DrainedQueue(scenario)
    first, second = scenario.ahead
    counts = world.drain(kind, ahead=first)
    nothing_is_lost(world)
    if counts:
        nothing_is_deleted_that_is_counted_as_not_deleted(world, counts)
    world.heal()
    world.drain(kind, ahead=second)
    nothing_is_lost(world)
    return world


@given(scenarios)
@example(
    Scenario(
        [0, 0],
        is_fifo=True,
        faults=[
            Fault(Effect.CLOSE, "DeleteMessageBatch", nth=1),
            Fault(Effect.FAIL_ENTRIES, "DeleteMessageBatch", nth=2, entries=(0, 3)),
        ],
    )
)
def test_second_run_completes_what_the_first_left(scenario: Scenario) -> None:
    world = play(scenario)

    assert world.archived_ids == world.sent
    assert world.waiting_ids == set()
    if scenario.is_fifo:
        groups_keep_their_order(world)


def test_threads_share_the_limit_and_every_message_is_settled_once() -> None:
    world = DrainedQueue(Scenario([0] * 500, chunk_messages=50, receives=4, limit=333))

    with ThreadPoolExecutor(8) as executor:
        counts = world.drain(executor=executor)

    assert counts == DrainCounts(received=333, archived=333, deleted=333)
    assert len(world.archived) == len(world.archived_ids) == 333
    nothing_is_lost(world)


@pytest.mark.parametrize(("times", "deleted"), [(1, 24), (2, 24), (3, 10)])
def test_lost_receive_on_a_fifo_queue_is_repeated_not_waited_for(times: int, deleted: int) -> None:
    """The third in a row ends the task with what it has."""
    faults = [Fault(Effect.LOSE, "ReceiveMessage", nth=2 + n) for n in range(times)]
    world = DrainedQueue(Scenario([0, 1] * 12, is_fifo=True, faults=faults))

    counts = world.drain()

    assert counts is not None
    assert (counts.stopped_by is None) is (deleted == 24)
    assert len(world.archived_ids) == counts.archived == counts.deleted == deleted
    bodies = [row["body"] for row in world.archived if row["message_group_id"] == "0"]
    assert bodies == [str(number) for number in range(0, 24, 2)][: len(bodies)]
    assert {row["receive_count"] for row in world.archived} == {1}
