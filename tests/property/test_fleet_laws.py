"""The laws of a fleet: twenty DLQs, forged names, queues that leave, sweeps that fail and die.

Nothing is lost, nothing goes to a queue that it did not come from, and a message is there twice
only where an answer was lost or a sweep died.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dlq_replay.wire.message import SendEntry
from local_sqs.faults import Effect, Fault
from tests.property.strategies import fault
from tests.simulation.fleet_world import FleetWorld, Member
from tests.support.builders import context, counter
from tests.support.sqs_driver import name_of

SHAPES = [*[(False, 1)] * 11, *[(False, 2)] * 3, *[(True, 1)] * 4, *[(True, 2)] * 2]
"""Of each DLQ: whether it is FIFO, and how many sources it has."""

MINUTES = 25
"""Of faults and of queues that leave. Then all is well again."""

CALM_MINUTES = 25
DIRECT = "sent to the DLQ"


@dataclass(frozen=True)
class Letter:
    """A message that a producer sends to a main queue.

    Attributes:
        fails: how often the consumer fails on it; more than three replays park it.
        minute: when it is sent.
    """

    member: int
    source: int
    fails: int
    group: str
    minute: int


@dataclass(frozen=True)
class Forgery:
    """A message that somebody sends to a DLQ, with a context of his own.

    Attributes:
        named: whose first main queue the context names; -1 for the DLQ itself, None for none.
    """

    member: int
    named: int | None
    count: int
    minute: int


@dataclass(frozen=True)
class Absence:
    """Queues of a member that have no tag for some minutes: its DLQ, or its main queues."""

    member: int
    of_dlq: bool
    minute: int
    minutes: int


@dataclass(frozen=True)
class Scenario:
    """What happens to a fleet.

    Attributes:
        deleted: members whose main queues are deleted, by the minute.
        nested: whether a second sweep begins in the middle of the first.
    """

    letters: Sequence[Letter]
    forgeries: Sequence[Forgery]
    absences: Sequence[Absence]
    faults: Sequence[Fault]
    deleted: dict[int, int]
    nested: bool


places = st.integers(0, len(SHAPES) - 1)
minutes = st.integers(0, MINUTES - 1)


faults = st.builds(
    fault,
    effect=st.sampled_from(
        [
            Effect.THROTTLE,
            Effect.ERROR,
            Effect.CLOSE,
            Effect.LOSE,
            Effect.HANG,
            Effect.FAIL_ENTRIES,
            Effect.CALL,
        ]
    ),
    operation=st.sampled_from(
        [
            "SendMessageBatch",
            "SendMessageBatch",
            "DeleteMessageBatch",
            "DeleteMessageBatch",
            "ReceiveMessage",
            "GetQueueAttributes",
            "ListDeadLetterSourceQueues",
            "GetResources",
        ]
    ),
    nth=st.integers(1, 6),
    times=st.sampled_from([1, 1, 2, 30]),
    after=st.booleans(),
    entries=st.lists(st.integers(0, 9), max_size=3, unique=True).map(tuple),
)
scenarios = st.builds(
    Scenario,
    letters=st.lists(
        st.builds(
            Letter,
            member=places,
            source=st.integers(0, 1),
            fails=st.integers(0, 5),
            group=st.sampled_from("abc"),
            minute=minutes,
        ),
        min_size=1,
        max_size=30,
    ),
    forgeries=st.lists(
        st.builds(
            Forgery,
            member=places,
            named=st.none() | places | st.just(-1),
            count=st.integers(0, 4),
            minute=minutes,
        ),
        max_size=6,
    ),
    absences=st.lists(
        st.builds(Absence, places, st.booleans(), minutes, st.integers(1, 40)), max_size=4
    ),
    faults=st.lists(faults, max_size=4),
    deleted=st.dictionaries(places, minutes, max_size=1),
    nested=st.booleans(),
)


@dataclass
class Ending:
    """A fleet in which nothing moves any more.

    Attributes:
        homes: names of the main queues that may get a body; empty where it has to be parked.
        gone: bodies of members whose main queues were deleted.
    """

    scenario: Scenario
    world: FleetWorld
    homes: dict[str, set[str]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    in_dlq_when_deleted: set[str] = field(default_factory=set)

    def act(self, minute: int) -> None:
        """Send, untag, tag and delete what the scenario says for a minute."""
        for number, letter in enumerate(self.scenario.letters):
            if letter.minute == minute:
                self._send(number, letter)
        for number, forgery in enumerate(self.scenario.forgeries):
            if forgery.minute == minute:
                self._forge(number, forgery)

        for absence in self.scenario.absences:
            self._untag_or_tag(absence, minute)
        for place, when in self.scenario.deleted.items():
            if when == minute:
                self._delete(self.world.members[place])

    def _untag_or_tag(self, absence: Absence, minute: int) -> None:
        member = self.world.members[absence.member]
        for queue in [member.dlq] if absence.of_dlq else member.mains:
            if not self.world.exists(queue):
                continue
            if minute == absence.minute:
                self.world.untag(queue)
            if minute == absence.minute + absence.minutes:
                self.world.tag(queue)

    def _send(self, number: int, letter: Letter) -> None:
        member = self.world.members[letter.member]
        main = member.mains[letter.source % len(member.mains)]
        if not self.world.exists(main):
            return
        name = name_of(main)
        body = f"{letter.fails} letter {number}"
        main.send([_entry(body, member, letter.group)])
        self.homes[body] = {name}

    def _forge(self, number: int, forgery: Forgery) -> None:
        member = self.world.members[forgery.member]
        own = [name_of(main) for main in member.mains]
        name = None
        if forgery.named == -1:
            name = member.name
        elif forgery.named is not None:
            name = name_of(self.world.members[forgery.named].mains[0])

        body = f"0 {DIRECT} {number}"
        attributes = context(body, source_queue=name) if name else {}
        if forgery.count:
            attributes = {**attributes, **counter(str(forgery.count))}
        member.dlq.send([_entry(body, member, "z", attributes)])

        if name in own:
            self.homes[body] = {str(name)}
        elif name is None and len(own) == 1:
            self.homes[body] = set(own)
        else:
            self.homes[body] = set()
        if not all(map(self.world.exists, member.mains)):
            self.gone.add(body)

    def _delete(self, member: Member) -> None:
        names = set(map(name_of, member.mains))
        self.in_dlq_when_deleted |= set(self.world.bodies(member.dlq))
        for body, homes in self.homes.items():
            if homes & names or body in self.in_dlq_when_deleted:
                self.gone.add(body)
        for name in names:
            del self.world.model.queues[name]

    def copies(self) -> Counter[str]:
        """How often each body was consumed, is parked, or is still in its DLQ."""
        copies = self.world.parked_bodies()
        for consumed in self.world.consumed.values():
            copies.update(consumed.done)
        for member in self.world.members:
            copies += self.world.bodies(member.dlq)
        return copies


def _entry(body: str, member: Member, group: str, attributes: Any = None) -> SendEntry:
    entry = SendEntry(body, attributes or {})
    if not member.is_fifo:
        return entry
    return entry._replace(message_group_id=group, deduplication_id=body.replace(" ", "-"))


def play(scenario: Scenario) -> Ending:
    """Run a scenario, then let all be well until nothing moves any more."""
    world = FleetWorld(SHAPES)
    ending = Ending(scenario, world)
    world.front.log.clear()
    world.front.faults.add(*scenario.faults)
    if scenario.nested:
        world.front.faults.add(
            Fault(Effect.CALL, "SendMessageBatch", nth=2, callback=world.sweep_again)
        )

    world.run(MINUTES, ending.act)
    world.front.faults.clear()
    for member in world.members:
        for queue in member.queues:
            if world.exists(queue):
                world.tag(queue)
    world.run(CALM_MINUTES)
    return ending


# The laws. Each takes an ending and asserts.


def nothing_is_lost(ending: Ending) -> None:
    copies = ending.copies()
    for body in ending.homes:
        if body not in ending.gone:
            assert copies[body], body
    # What is in a queue when it is deleted is gone. What is in its DLQ is not.
    for body in ending.in_dlq_when_deleted:
        assert copies[body], body


def nothing_goes_where_it_did_not_come_from(ending: Ending) -> None:
    for name, consumed in ending.world.consumed.items():
        for body in consumed.tries:
            assert name in ending.homes[body]


def what_is_good_again_leaves_the_dlq(ending: Ending) -> None:
    deleted = {ending.world.members[place].name for place in ending.scenario.deleted}
    for member in ending.world.members:
        if member.name not in deleted:
            assert not ending.world.bodies(member.dlq)


def only_lost_answers_and_deaths_duplicate(ending: Ending) -> None:
    world = ending.world
    extra = ending.copies().total() - len(+ending.copies())
    deletes = world.front.log.records("DeleteMessageBatch")
    undeleted = sum(record.entry_count for record in deletes if record.effects)
    assert extra <= world.lost_answers() + undeleted + 10 * world.deaths


LAWS = (
    nothing_is_lost,
    nothing_goes_where_it_did_not_come_from,
    what_is_good_again_leaves_the_dlq,
    only_lost_answers_and_deaths_duplicate,
)


@settings(max_examples=max(10, settings().max_examples // 2))
@given(scenarios)
def test_laws_of_a_fleet_hold_whatever_fails(scenario: Scenario) -> None:
    ending = play(scenario)

    for law in LAWS:
        law(ending)
