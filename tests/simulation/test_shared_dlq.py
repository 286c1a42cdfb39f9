"""A DLQ that several main queues share: no message changes its queue, whatever is configured when.

The replay function's own code, on the model of SQS. While a stack is updated, several
configurations of the function run side by side.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dlq_replay.backoff import Backoff
from dlq_replay.replaying.replay import Replayer
from dlq_replay.rules.decision import Hold
from dlq_replay.rules.policy import QueueLimits
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message, SendEntry
from local_sqs.faults import Effect, Fault
from local_sqs.model_queue import ModelQueue
from tests.simulation.event_source import EventSource, collect, run
from tests.simulation.stack import FOURTEEN_DAYS, Stack
from tests.support.builders import context
from tests.support.sqs_driver import redrive_policy

MAX_ATTEMPTS = 3
ALONE = "one main queue configured"
SHARED = "the queue of invoices configured, too"

MAIN, INVOICES, PAYMENTS = "main", "invoices", "payments"
"""Three queues that share the DLQ. The last one is never configured."""


@dataclass(frozen=True)
class Letter:
    """One message of a producer.

    Attributes:
        failures: so often its consumer fails on it.
        carried: the source queue that its context names when it is produced; a consumer may have
            copied the attributes of another message.
    """

    source: str
    failures: int = 99
    group: str = "a"
    carried: str | None = None


@dataclass
class SharedDlq:
    """The queues, their consumers, and a function; each batch may meet another configuration.

    Attributes:
        versions: configurations, by batch; the last one handles all further batches.
        handled: what each consumer succeeded with.
    """

    letters: Sequence[Letter]
    versions: Sequence[str] = (SHARED,)
    is_fifo: bool = False
    faults: Sequence[Fault] = ()

    def __post_init__(self) -> None:
        suffix, fifo = (".fifo", {"FifoQueue": "true"}) if self.is_fifo else ("", {})
        self.stack = Stack(
            is_fifo=self.is_fifo,
            backoff=Backoff(600, 6000),
            max_attempts=MAX_ATTEMPTS,
            max_receive_count=1,
        )
        redrive = redrive_policy(self.stack.dlq, 1)
        front = self.stack.front
        self.queues = {MAIN: self.stack.main} | {
            name: ModelQueue(front, f"{name}{suffix}", RedrivePolicy=redrive, **fifo)
            for name in (INVOICES, PAYMENTS)
        }
        self.tries = [0] * len(self.letters)
        self.handled: dict[str, list[str]] = {name: [] for name in self.queues}
        self.parked: list[Message] = []
        self.holds = 0
        self.replayers = {one: self._replayer(one) for one in (ALONE, SHARED)}

    def play(self) -> "SharedDlq":
        for number, letter in enumerate(self.letters):
            self.queues[letter.source].send([self._entry(number, letter)])
        self.stack.front.faults.add(*self.faults)
        consumers = [
            EventSource(queue, self._consumer(name)) for name, queue in self.queues.items()
        ]
        parked = EventSource(self.stack.parked, collect(self.parked))
        run(self.stack.model, [*consumers, parked, EventSource(self.stack.dlq, self._replay)])
        assert not self.stack.dlq.queue.messages()
        return self

    def _entry(self, number: int, letter: Letter) -> SendEntry:
        body = f"{number} {letter.source}"
        return SendEntry(
            body,
            context(body, source_queue=letter.carried) if letter.carried else {},
            message_group_id=letter.group if self.is_fifo else None,
            deduplication_id=str(number) if self.is_fifo else None,
        )

    def _replayer(self, version: str) -> Replayer:
        others: dict[QueueAddress, ModelQueue] = {}
        if version == SHARED:
            others = {QueueAddress.from_arn(self.queues[INVOICES].arn): self.queues[INVOICES]}
        limits = QueueLimits(dlq_retention_seconds=FOURTEEN_DAYS)
        wired, randomness = self.stack.replayer, random.Random(version)
        return replace(
            wired,
            policy=replace(wired.policy, other_main_queues=dict.fromkeys(others, limits)),
            dlq=ModelQueue(self.stack.front, self.stack.dlq.queue.name),
            draw_up_to=lambda top: randomness.randint(0, top),
            other_main_queues=others,
        )

    def _replay(self, batch: Sequence[Message]) -> set[str]:
        versions = [*self.versions]
        version = versions.pop(0)
        self.versions = versions or [version]
        self.stack.replayer = self.replayers[version]
        left = self.stack.replay(batch)
        fates = [one.fate for one in self.stack.outcomes[-1].outcomes]
        self.holds += sum(isinstance(fate, Hold) for fate in fates)
        return left

    def _consumer(self, name: str) -> Callable[[Sequence[Message]], set[str]]:
        def consume(batch: Sequence[Message]) -> set[str]:
            failed = set()
            for one in batch:
                number, source = one.body.split()
                assert source == name, f"a message of {source} was sent to {name}"
                self.tries[int(number)] += 1
                if self.tries[int(number)] <= self.letters[int(number)].failures:
                    failed.add(one.message_id)
                else:
                    self.handled[name].append(one.body)
            return failed

        return consume

    def parked_for(self, reason: str) -> list[str]:
        return [one.body for one in self.parked if one.history.context.reason == reason]


def nothing_is_lost(world: SharedDlq) -> None:
    ended = {body for bodies in world.handled.values() for body in bodies}
    ended |= {one.body for one in world.parked}
    assert ended == {f"{number} {one.source}" for number, one in enumerate(world.letters)}


def parked_copies_name_no_other_source(world: SharedDlq) -> None:
    for one in world.parked:
        _, source = one.body.split()
        name = one.history.context.source_queue
        assert name in (None, f"{source}{'.fifo' if world.is_fifo else ''}"), one.body


letters = st.builds(
    Letter,
    source=st.sampled_from([MAIN, INVOICES, PAYMENTS]),
    failures=st.sampled_from([0, 1, 2, 99]),
    group=st.sampled_from("ab"),
)
confused = st.builds(replace, letters, carried=st.sampled_from([MAIN, INVOICES, PAYMENTS]))
faults = st.builds(
    Fault,
    effect=st.sampled_from([Effect.ERROR, Effect.LOSE, Effect.FAIL_ENTRIES]),
    operation=st.sampled_from(["SendMessageBatch", "ChangeMessageVisibilityBatch"]),
    nth=st.integers(1, 12),
    entries=st.lists(st.integers(0, 9), max_size=3, unique=True).map(tuple),
)


@settings(max_examples=settings().max_examples * 2)
@given(
    st.lists(letters | confused, min_size=1, max_size=9),
    st.lists(st.sampled_from([ALONE, SHARED]), min_size=1, max_size=9),
    st.booleans(),
    st.lists(faults, max_size=2),
)
def test_what_sqs_says_counts_and_not_what_a_producer_wrote(
    letters: list[Letter], versions: list[str], is_fifo: bool, faults: list[Fault]
) -> None:
    world = SharedDlq(letters, versions, is_fifo, faults).play()

    nothing_is_lost(world)
    parked_copies_name_no_other_source(world)


@settings(max_examples=settings().max_examples * 2)
@given(st.lists(letters | confused, min_size=1, max_size=9), st.booleans())
def test_only_messages_of_queues_that_are_not_configured_are_foreign(
    letters: list[Letter], is_fifo: bool
) -> None:
    world = SharedDlq(letters, is_fifo=is_fifo).play()

    foreign = [f"{n} {one.source}" for n, one in enumerate(letters) if one.source == PAYMENTS]
    failing = {f"{n} {one.source}" for n, one in enumerate(letters) if one.failures > 0}
    assert sorted(world.parked_for("foreign_source")) == sorted(failing & {*foreign})
    exhausted = {
        f"{n} {one.source}" for n, one in enumerate(letters) if one.failures > MAX_ATTEMPTS
    }
    assert {*world.parked_for("attempts_exhausted")} == exhausted - {*foreign}


def held_once_by(version: str, source: str, then: str) -> SharedDlq:
    """A message whose first wait is a hold by *version*; *then* handles the rest."""
    world = SharedDlq([Letter(source, failures=1)], [version, then])
    world.replayers = {
        name: replace(one, draw_up_to=lambda top: top) for name, one in world.replayers.items()
    }
    world.play()
    assert world.holds > 0
    return world


def test_a_copy_that_was_held_before_the_update_goes_back() -> None:
    world = held_once_by(ALONE, MAIN, then=SHARED)

    assert world.handled[MAIN] == ["0 main"]


def test_a_held_copy_of_a_queue_that_was_taken_out_again_is_parked_under_its_name() -> None:
    world = held_once_by(SHARED, INVOICES, then=ALONE)

    assert [one.history.context.source_queue for one in world.parked] == [INVOICES]
    assert world.parked_for("foreign_source") == ["0 invoices"]
