import pytest

from dlq_replay.attributes import Attributes
from dlq_replay.decision import Park, decide
from dlq_replay.message import Message
from dlq_replay.outgoing import (
    canary_entry,
    has_room_for_canary,
    held_entry,
    parked_entry,
    redriven_entry,
    replay_entry,
    restored_entry,
)
from tests.builders import (
    NOW,
    context,
    context_of,
    counter,
    filler,
    lambda_record,
    message,
    policy,
)


def test_canary_carries_plan_origin_and_a_counter_above_all() -> None:
    source = message("m-1", "body", {**filler(2), **counter("5"), **context(first_id="f-1")})

    entry = canary_entry(source, "p-1", to_fifo=False)

    assert entry.attributes["sqs-dlq-replay-nb"].value == "1000000"
    assert (context_of(entry).first_id, context_of(entry).plan_id) == ("f-1", "p-1")
    assert {n: a for n, a in entry.attributes.items() if n.startswith("own-")} == filler(2)
    assert entry.deduplication_id is None
    assert canary_entry(source, "p-1", to_fifo=True).deduplication_id == "m-1:p-1"


@pytest.mark.parametrize(
    ("ours", "kept"),
    [
        ({}, 0),
        (counter("5"), 5),
        (counter("junk"), 0),
        ({**counter("1000000"), **context(replay_count=5)}, 5),
        ({**counter("7"), **context(replay_count=5)}, 7),
        (counter("1000000"), 1_000_000),
    ],
)
def test_canary_keeps_the_true_replay_count(ours: Attributes, kept: int) -> None:
    entry = canary_entry(message(attributes=ours), "p-1", to_fifo=False)

    assert context_of(entry).replay_count == kept


@pytest.mark.parametrize(("count", "kept"), [("5", {**counter("5")}), ("0", {}), (None, {})])
def test_canary_that_came_back_is_redriven_with_its_true_count(
    count: str | None, kept: Attributes
) -> None:
    sent = canary_entry(
        message("m-1", attributes=counter(count) if count else {}), "p", to_fifo=False
    )
    back = parked_entry(message("m-2", sent.body, sent.attributes), "too_old", NOW, policy())
    archived = message("m-3", back.body, back.attributes)

    again = redriven_entry(archived, "p-2", to_fifo=False, keep_counter=True)
    afresh = redriven_entry(archived, "p-2", to_fifo=False)

    assert back.attributes["sqs-dlq-replay-nb"].value == "1000000"
    assert _without_context(again.attributes) == kept
    assert _without_context(afresh.attributes) == {}
    assert context_of(again).replay_count is context_of(afresh).replay_count is None


def test_restored_canary_keeps_counter_and_true_count() -> None:
    ours = {**counter("1000000"), **context(replay_count=5)}

    assert restored_entry(message(attributes=ours), "p", to_fifo=False).attributes == ours


def test_true_count_of_what_is_no_canary_is_dropped() -> None:
    letter = message(attributes={**counter("1"), **context(replay_count=5)})
    entries = (
        replay_entry(letter, 2, 0, NOW, policy()),
        held_entry(letter, NOW + 5000, 900, NOW, policy()),
        parked_entry(letter, "too_old", NOW, policy()),
    )

    assert [context_of(entry).replay_count for entry in entries] == [None] * 3


def _without_context(attributes: Attributes) -> Attributes:
    return {name: value for name, value in attributes.items() if name != "sqs-dlq-context"}


@pytest.mark.parametrize("max_attempts", [0, 1, 20, 1000])
def test_failing_canary_is_parked_at_once(max_attempts: int) -> None:
    entry = canary_entry(message("m-1"), "p-1", to_fifo=False)
    failed = Message.from_lambda_record(
        lambda_record(message("m-2", entry.body, entry.attributes), "dlq")
    )

    decision = decide(failed, policy(max_attempts=max_attempts), NOW, lambda _: 0)

    assert isinstance(decision, Park)


@pytest.mark.parametrize(("own", "has_room"), [(0, True), (8, True), (9, False), (10, False)])
def test_canary_needs_two_attributes(own: int, has_room: bool) -> None:
    assert has_room_for_canary(message("m-1", "x", filler(own)), "p-1", 1_048_576) is has_room


def test_canary_must_fit_the_queue() -> None:
    ours = {**counter("3"), **context(source_queue="orders")}
    source = message("m-1", "x" * 1000, ours)
    size = canary_entry(source, "p-1", to_fifo=False).size_bytes

    assert has_room_for_canary(source, "p-1", size)
    assert not has_room_for_canary(source, "p-1", size - 1)
