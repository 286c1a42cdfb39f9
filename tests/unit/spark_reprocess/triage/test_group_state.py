"""What the events of a group say together."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.triage.events import EventKind, GroupEvent, GroupState, fold

START = datetime(2026, 11, 1, tzinfo=UTC)


def event(number: int, kind: EventKind, **values: Any) -> GroupEvent:
    time = START + timedelta(minutes=number)
    values = {"has_text": values.get("text") is not None, **values}
    return GroupEvent("g-0123456789", kind, time, "ada@desk", f"{number:06d}-x", **values)


def test_nothing_is_said_of_a_group_without_events() -> None:
    assert fold(()) == GroupState()


def test_the_last_event_of_each_kind_counts_and_no_other_kind_changes_it() -> None:
    first_note = event(2, EventKind.NOTED, text="why", owner="ada", ticket="T-1")
    state = fold(
        [
            event(1, EventKind.DECIDED, action="redrive", plan_id="p-1", text="fixed"),
            first_note,
            event(3, EventKind.RESOLVED, version="7"),
            event(4, EventKind.DECIDED, action="discard", plan_id="p-2"),
            event(5, EventKind.NOTED, owner="bob"),
            event(6, EventKind.RESOLVED, version="9"),
            event(7, EventKind.SNOOZED, until=START + timedelta(days=3)),
        ]
    )

    assert (state.action, state.decided_at) == ("discard", START + timedelta(minutes=4))
    assert (state.note, state.note_event) == ("why", first_note)
    assert (state.owner, state.ticket) == ("bob", "T-1")
    assert (state.resolved_in, state.resolved_at) == ("9", START + timedelta(minutes=6))
    assert state.is_snoozed(START + timedelta(days=2))
    assert not state.is_snoozed(START + timedelta(days=3))


def test_an_empty_text_takes_an_earlier_one_away() -> None:
    said = event(1, EventKind.NOTED, text="why", owner="ada", ticket="T-1")

    state = fold([said, event(2, EventKind.NOTED, text="", owner="", ticket="")])

    assert (state.note, state.owner, state.ticket) == ("", "", "")


def test_a_snooze_ends_when_it_is_ended_and_when_the_group_is_resolved_later() -> None:
    snoozed = event(2, EventKind.SNOOZED, until=START + timedelta(days=3))

    assert fold([snoozed, event(3, EventKind.SNOOZED)]).snoozed_until is None
    assert fold([snoozed, event(3, EventKind.RESOLVED, version="7")]).snoozed_until is None
    assert fold([event(1, EventKind.RESOLVED, version="7"), snoozed]).snoozed_until is not None


events = st.builds(
    event,
    st.integers(0, 20),
    st.sampled_from(EventKind),
    text=st.none() | st.text(max_size=3),
    owner=st.none() | st.text(max_size=3),
    until=st.none() | st.just(START),
    version=st.none() | st.sampled_from(["1", "2"]),
)


@given(st.lists(events, unique_by=lambda one: one.event_id), st.randoms())
def test_the_order_in_which_events_are_read_does_not_matter(
    said: list[GroupEvent], chance: Any
) -> None:
    shuffled = [replace(one) for one in said]
    chance.shuffle(shuffled)

    assert fold(shuffled) == fold(said)
