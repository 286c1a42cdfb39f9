"""Whatever fails during a look, the queue has every message afterwards, and each once.

A real client, the model of SQS on a virtual clock; the look dies where a fault says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from dlq.look.receiver import CALL_SECONDS, HIDDEN_SECONDS, End, LookRules, Receiver, Seen
from dlq_replay.aws.sqs import SqsQueue
from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault
from local_sqs.front import Front
from local_sqs.model import SqsModel
from local_sqs.model_queue import ModelQueue
from tests.property.strategies import faults_of
from tests.support.builders import InlineExecutor, entry
from tests.support.processes import Died

RECEIVE = "ReceiveMessage"
GIVE_BACK = "ChangeMessageVisibilityBatch"


@dataclass(frozen=True)
class Scenario:
    """What is in the queue, and what goes wrong.

    Attributes:
        groups: the message group of each message.
        receives: the receive count that every message has before the look.
        max_receive_count: of the redrive policy, None without one.
    """

    groups: Sequence[int]
    is_fifo: bool = False
    faults: Sequence[Fault] = ()
    limit: int = 1000
    receives: int = 0
    max_receive_count: int | None = None


scenarios = st.builds(
    Scenario,
    groups=st.lists(st.integers(0, 3), max_size=70),
    is_fifo=st.booleans(),
    faults=st.lists(faults_of(RECEIVE, GIVE_BACK), max_size=3),
    limit=st.sampled_from([1, 15, 1000]),
    receives=st.integers(0, 4),
    max_receive_count=st.sampled_from([None, 3, 5, 100]),
)


@dataclass
class LookedAtQueue:
    """One queue with a DLQ of its own."""

    scenario: Scenario
    clock: VirtualClock = field(default_factory=VirtualClock)

    def __post_init__(self) -> None:
        model = SqsModel(self.clock)
        self.front = Front(model)
        suffix = ""
        attributes = {}
        if self.scenario.is_fifo:
            suffix = ".fifo"
            attributes["FifoQueue"] = "true"
        self.moved = ModelQueue(model, f"moved{suffix}", **attributes)
        most = self.scenario.max_receive_count
        if most is not None:
            policy = f'{{"deadLetterTargetArn": "{self.moved.arn}", "maxReceiveCount": {most}}}'
            attributes["RedrivePolicy"] = policy
        queue = ModelQueue(model, f"dlq{suffix}", **attributes)
        for number, group in enumerate(self.scenario.groups):
            queue.send([entry(str(number), suffix and str(group))])

        self.stored = queue.queue
        for _ in range(self.scenario.receives):
            while queue.receive(visibility_timeout_seconds=1):
                pass
            self.clock.advance(1)
        self.before = self.bodies
        self.moved_before = self.moved_bodies
        self.queue = SqsQueue(client_for(self.front), queue.url, tries_once=True)
        self.front.faults.add(*self.scenario.faults)

    def look(self) -> Seen | None:
        """Look to the end, or until the look dies."""
        receiver = Receiver(
            queue=self.queue,
            rules=LookRules(
                self.scenario.limit, self.scenario.is_fifo, self.scenario.max_receive_count
            ),
            executor=InlineExecutor(),
            clock_seconds=self.clock.time,
            now_seconds=self.clock.time,
            sleep=self.clock.advance,
        )
        try:
            return receiver.run()
        except Died:
            return None

    @property
    def bodies(self) -> list[str]:
        return sorted(message.body for message in self.stored.messages())

    @property
    def moved_bodies(self) -> list[str]:
        return sorted(message.body for message in self.moved.queue.messages())

    @property
    def has_policy_moved(self) -> bool:
        """Whether a receive moves messages, because they had all of their receives before."""
        most = self.scenario.max_receive_count
        return most is not None and self.scenario.receives >= most

    def visible(self) -> int:
        attributes = self.queue.describe()
        return int(attributes["ApproximateNumberOfMessages"])


@given(scenarios)
@example(Scenario([0] * 12, faults=[Fault(Effect.LOSE, GIVE_BACK, nth=1)]))
def test_every_message_stays_in_its_queue(scenario: Scenario) -> None:
    world = LookedAtQueue(scenario)

    seen = world.look()

    assert sorted(world.bodies + world.moved_bodies) == sorted(world.before + world.moved_before)
    if not world.has_policy_moved:
        assert world.moved_bodies == world.moved_before
    if seen:
        assert {row["body"] for row in seen.rows.values()} <= set(world.before)
        assert len(seen.rows) <= scenario.limit
    world.front.faults.clear()
    world.clock.advance(HIDDEN_SECONDS + 1)
    assert world.visible() == len(world.bodies)


@given(scenarios)
def test_what_is_said_to_be_given_back_is_visible_at_once(scenario: Scenario) -> None:
    world = LookedAtQueue(scenario)
    seen = world.look()
    if seen is None:
        return

    world.front.faults.clear()
    lost = sum(fault.operation == RECEIVE for fault in scenario.faults)
    hidden = len(world.bodies) - world.visible()
    # An answer of a receive that was lost, on a standard queue, hides its messages from us, too.
    assert hidden <= len(seen.hidden) + 10 * 12 * lost
    if not lost:
        assert hidden <= len(seen.hidden)


def test_all_are_seen_once_and_given_back() -> None:
    world = LookedAtQueue(Scenario([0] * 95))

    seen = world.look()

    assert seen is not None
    assert (len(seen.rows), seen.end, seen.hidden) == (95, End.EMPTY, [])
    assert world.visible() == 95


def test_lost_receive_of_a_fifo_queue_is_repeated_before_anything_is_changed() -> None:
    faults = [Fault(Effect.LOSE, RECEIVE, nth=2)]
    world = LookedAtQueue(Scenario([0, 1, 2] * 10, is_fifo=True, faults=faults))

    seen = world.look()

    assert seen is not None
    assert (len(seen.rows), seen.hidden, world.visible()) == (30, [], 30)


def test_look_ends_at_a_message_with_two_receives_left() -> None:
    world = LookedAtQueue(Scenario([0] * 30, receives=2, max_receive_count=5))

    seen = world.look()

    assert seen is not None
    assert seen.end is End.RECEIVE_COUNT
    assert len(seen.rows) == 10
    assert world.moved_bodies == []


def test_old_handle_is_not_used() -> None:
    """SQS may let it act on another reader's receive."""
    world = LookedAtQueue(Scenario([0] * 15))

    def suspend() -> None:
        world.clock.advance(HIDDEN_SECONDS - CALL_SECONDS)

    world.front.faults.add(Fault(Effect.CALL, RECEIVE, nth=2, callback=suspend))

    seen = world.look()

    assert seen is not None
    assert len(seen.hidden) == 15
    assert world.front.log.count(GIVE_BACK) == 0


def test_refused_entries_are_named() -> None:
    faults = [Fault(Effect.FAIL_ENTRIES, GIVE_BACK, nth=1, entries=(0, 3))]
    world = LookedAtQueue(Scenario([0] * 10, faults=faults))

    seen = world.look()

    assert seen is not None
    assert len(seen.hidden) == 2
    assert world.front.log.count(GIVE_BACK) == 1


def test_refused_receive_ends_the_look_and_all_are_given_back() -> None:
    world = LookedAtQueue(Scenario([0] * 40))
    refused = Fault(Effect.REFUSE, RECEIVE, every=3, code="AccessDenied")
    world.front.faults.add(refused)

    seen = world.look()

    assert seen is not None
    assert seen.end is End.ERROR
    assert "AccessDenied" in seen.error
    assert len(seen.rows) == 20
    assert seen.hidden == []
    assert world.visible() == 40
