import pytest

from dlq_replay.decision import Park, decide
from dlq_replay.message import Message
from dlq_replay.outgoing import canary_entry, has_room_for_canary
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
    source = message("m-1", "x" * 1000)
    size = canary_entry(source, "p-1", to_fifo=False).size_bytes

    assert has_room_for_canary(source, "p-1", size)
    assert not has_room_for_canary(source, "p-1", size - 1)
