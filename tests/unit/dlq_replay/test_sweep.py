"""A sweep: turns of DLQs that fail, are full, or come too late."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from dlq_replay.errors import QueueError, QueueGoneError
from dlq_replay.replaying.fleet import Fleet
from dlq_replay.replaying.replay import Replayer
from dlq_replay.replaying.sending import Refused, Unconfirmed
from dlq_replay.replaying.sweep import (
    LAST_TURN_SECONDS,
    UNDELETED,
    UNDELETED_PAUSE_SECONDS,
    Sweeper,
    Turn,
)
from dlq_replay.rules.policy import Attributes, ReplayPolicy
from dlq_replay.settings import FleetSettings
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message, UnreadableRecord
from tests.support.builders import (
    NOW,
    FakeQueue,
    InlineExecutor,
    message,
    policy,
    queue_address,
    queue_arn,
    queue_url,
)


@dataclass
class FakeDlq:
    """A DLQ that gives its batches in turn, and raises those that are errors.

    Attributes:
        undeletable: how often each message is not deleted, by its id.
    """

    batches: list[list[Message | UnreadableRecord] | Exception] = field(default_factory=list)
    undeletable: dict[str, int] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)

    def receive_records(self, **request: Any) -> list[Message | UnreadableRecord]:
        self.requests.append(request)
        batch = self.batches.pop(0) if self.batches else []
        if isinstance(batch, Exception):
            raise batch
        return batch

    def delete(self, messages: Sequence[Message]) -> list[Message]:
        left: list[Message] = []
        for received in messages:
            if self.undeletable.get(received.message_id, 0) > 0:
                self.undeletable[received.message_id] -= 1
                left.append(received)
            else:
                self.deleted.append(received.message_id)
        return left


@dataclass
class FakeDirectory:
    """Knows every queue, and that all have the tag."""

    names: Sequence[str]

    def members(self) -> frozenset[QueueAddress]:
        return frozenset(map(queue_address, self.names))

    def sources(self, dlq: QueueAddress) -> frozenset[QueueAddress]:
        return frozenset({queue_address(dlq.name.replace("-dlq", ""))})

    def describe(
        self, queues: Collection[QueueAddress]
    ) -> tuple[Mapping[QueueAddress, Attributes], Mapping[QueueAddress, str]]:
        return {address: {} for address in queues}, {}


@dataclass
class World:
    """DLQs by name, each with a main queue whose name lacks ``-dlq``, and what was sent there."""

    dlqs: dict[str, FakeDlq]
    refuses: dict[str, Any] = field(default_factory=dict)
    mains: dict[str, FakeQueue] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    fifo_parked: str | None = queue_url("parked.fifo")

    def sweeper(self, executor: Any = None) -> Sweeper:
        settings = FleetSettings("all", queue_url("parked"), self.fifo_parked, policy())
        members = [*self.dlqs, *(name.replace("-dlq", "") for name in self.dlqs)]
        return Sweeper(
            Fleet(settings, FakeDirectory(members), self.replayer, 120),
            lambda dlq: self.dlqs[dlq.name],
            executor or InlineExecutor(),
            self.turns.append,
            lambda: 0.0,
        )

    def replayer(self, dlq: QueueAddress, parked_url: str, rules: ReplayPolicy) -> Replayer:
        mains: dict[QueueAddress, FakeQueue] = {}
        for source in rules.other_main_queues:
            mains[source] = self.mains.setdefault(
                source.name, FakeQueue(queue_url(source.name), self.refuses)
            )
        return Replayer(
            rules,
            mains,
            FakeQueue(queue_url(dlq.name)),
            FakeQueue(parked_url),
            lambda: NOW,
            lambda _: 0,
            InlineExecutor(),
        )

    def sweep(self, *names: str, seconds_left: Callable[[], float] = lambda: 60.0) -> Any:
        return self.sweeper().sweep(list(map(queue_address, names or self.dlqs)), seconds_left)


def letter(message_id: str, source: str = "orders") -> Message:
    return message(message_id, message_id, DeadLetterQueueSourceArn=queue_arn(source))


def letters(prefix: str, count: int, source: str = "orders") -> list[Message | UnreadableRecord]:
    return [letter(f"{prefix}{number}", source) for number in range(count)]


def test_exactly_what_is_settled_is_deleted() -> None:
    dlq = FakeDlq([[letter("a"), letter("b"), letter("c"), UnreadableRecord("d", "no body")]])
    world = World({"orders-dlq": dlq}, {"b": Refused("TooBig"), "c": Unconfirmed("lost")})
    summary = world.sweep()

    assert dlq.deleted == ["a"]
    assert (summary.turns, summary.received, summary.stuck) == (1, 4, {})
    assert dlq.requests[0] == {
        "wait_seconds": 1,
        "visibility_timeout_seconds": 120,
        "attempt_id": None,
    }


def test_failed_deletes_are_repeated_once_and_then_reported() -> None:
    dlq = FakeDlq([letters("m", 3)], {"m0": 1, "m1": 2})
    world = World({"orders-dlq": dlq})
    summary = world.sweep()

    assert sorted(dlq.deleted) == ["m0", "m2"]
    assert [left.message_id for left in world.turns[0].not_deleted] == ["m1"]
    assert summary.stuck == {queue_address("orders-dlq"): UNDELETED}


@pytest.mark.parametrize(("suffix", "turns_after"), [("", [1, 1, 2]), (".fifo", [2, 3, 4])])
def test_what_cannot_be_deleted_is_not_sent_again_and_again(
    suffix: str, turns_after: list[int]
) -> None:
    """A FIFO DLQ goes on: SQS removes the second copy if it comes soon."""
    name = f"orders-dlq{suffix}"
    dlq = FakeDlq([letters("m", 10, f"orders{suffix}")], {f"m{number}": 9 for number in range(10)})
    now = 0.0
    world = World({name: dlq})
    sweeper = replace(world.sweeper(), clock_seconds=lambda: now)

    turns: list[int] = []
    for seconds in (0, UNDELETED_PAUSE_SECONDS - 1, 1):
        now += seconds
        summary = sweeper.sweep([queue_address(name)], lambda: 60.0)
        turns.append(len(dlq.requests))
    assert turns == turns_after
    assert not summary.stuck


def test_a_full_queue_goes_round_again_behind_the_others() -> None:
    order: list[str] = []

    @dataclass
    class Noted(FakeDlq):
        name: str = ""

        def receive_records(self, **request: Any) -> list[Message | UnreadableRecord]:
            order.append(self.name)
            return super().receive_records(**request)

    hot = Noted(
        [letters("h", 10, "hot"), letters("i", 10, "hot"), letters("j", 9, "hot")], name="hot"
    )
    world = World({"hot-dlq": hot, "cold-dlq": Noted(name="cold"), "warm-dlq": Noted(name="warm")})
    with ThreadPoolExecutor(1) as executor:
        summary = world.sweeper(executor).sweep(list(map(queue_address, world.dlqs)), lambda: 60.0)

    assert order == ["hot", "cold", "warm", "hot", "hot"]
    assert (summary.turns, summary.received) == (5, 29)
    assert len(hot.deleted) == 29


@pytest.mark.parametrize(
    ("error", "stuck"),
    [
        (
            QueueError("receiving from orders-dlq: AccessDenied"),
            "receiving from orders-dlq: AccessDenied",
        ),
        (ZeroDivisionError("may quote a message"), "ZeroDivisionError"),
        (QueueGoneError("no such queue"), None),
    ],
)
def test_a_queue_that_fails_stops_no_other(error: Exception, stuck: str | None) -> None:
    other = FakeDlq([letters("m", 1, "other")])
    world = World({"orders-dlq": FakeDlq([error]), "other-dlq": other})
    summary = world.sweep()

    assert other.deleted == ["m0"]
    assert summary.stuck == ({queue_address("orders-dlq"): stuck} if stuck else {})


def test_no_turn_begins_in_the_last_ten_seconds_and_what_had_none_is_named() -> None:
    world = World({"orders-dlq": FakeDlq([letters("m", 1)]), "other-dlq": FakeDlq()})
    left = iter([60.0, LAST_TURN_SECONDS + 0.1])
    summary = world.sweep(seconds_left=lambda: next(left, LAST_TURN_SECONDS))

    assert not world.dlqs["other-dlq"].requests
    assert summary.turns == 1
    assert list(summary.stuck) == [queue_address("other-dlq")]


def test_fifo_dlq_is_not_read_where_there_is_no_fifo_parked_queue() -> None:
    dlq = FakeDlq([[letter("a", "orders.fifo")]])
    summary = World({"orders-dlq.fifo": dlq}, fifo_parked=None).sweep()

    assert not dlq.requests
    assert summary.stuck == {queue_address("orders-dlq.fifo"): "there is no FIFO parked queue"}


def test_a_fifo_receive_has_an_attempt_id_so_that_a_lost_answer_is_given_again() -> None:
    dlq = FakeDlq()
    World({"orders-dlq.fifo": dlq}).sweep()
    assert len(dlq.requests[0]["attempt_id"]) == 32


def test_no_send_begins_that_could_not_be_deleted_while_the_message_is_hidden() -> None:
    dlq = FakeDlq([letters("m", 1)])
    world = World({"orders-dlq": dlq})
    # The receive takes so long that others may have the message by now.
    times = iter([0.0, 0.0])
    sweeper = replace(world.sweeper(), clock_seconds=lambda: next(times, 118.0))
    sweeper.sweep([queue_address("orders-dlq")], lambda: 60.0)

    assert dlq.deleted == []
    assert not world.mains["orders"].sent
