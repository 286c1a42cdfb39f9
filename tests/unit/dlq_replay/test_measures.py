from typing import Any

import pytest

from dlq_replay.addresses import QueueAddress
from dlq_replay.breaker_worker import BreakerReport
from dlq_replay.decision import Hold, Park, ParkReason, Replay
from dlq_replay.measures import measure_batch, measure_dlq, parked_metric
from dlq_replay.message import Message, SendEntry
from dlq_replay.plan import Failed, Fate, Step, Wait
from dlq_replay.replay import BatchOutcome
from tests.builders import NOW, context, counter, message, policy, queue_arn

DAY = 86_400


def became(letter: Message, fate: Fate, main: QueueAddress | None = None) -> Step:
    entry = None if isinstance(fate, Failed | Wait) else SendEntry(letter.body)
    return Step(letter, letter.message_id, main or policy().main_queue, fate, entry=entry)


def measured(*pairs: tuple[Message, Fate]) -> dict[str, tuple[int, ...]]:
    measurements = measure_batch(BatchOutcome(tuple(became(*pair) for pair in pairs)))
    return {one.name: one.values for one in measurements}


def nearest_expiry(*letters: Message) -> list[tuple[str, tuple[int, ...]]]:
    outcomes = tuple(became(letter, Failed("refused")) for letter in letters)
    measured = measure_dlq(BatchOutcome(outcomes), NOW, 14 * DAY)
    return [(one.name, one.values) for one in measured if one.name == "NearestExpirySeconds"]


def test_an_empty_batch_counts_nothing_and_measures_nothing() -> None:
    assert measured() == dict.fromkeys(("Replayed", "Parked", "Held", "Failed", "Arrived"), (0,))


def test_each_fate_is_counted_and_parks_also_by_reason() -> None:
    values = measured(
        (message("a"), Replay(1, 7)),
        (message("b"), Park(ParkReason.TOO_OLD)),
        (message("c"), Park(ParkReason.TOO_OLD)),
        (message("d"), Hold(1, NOW + 1000, 900)),
        (message("e"), Wait()),
        (message("f"), Failed("refused")),
    )

    assert values["Replayed"] == (1,)
    assert values["Parked"] == values["Parked_too_old"] == (2,)
    assert values["Held"] == (2,)
    assert values["Failed"] == (1,)
    assert values["DelaySeconds"] == (7,)


def test_a_dead_letter_arrives_with_its_replay_count() -> None:
    values = measured(
        (message("a"), Replay(1, 0)),
        (message("b", attributes=counter("2")), Replay(3, 0)),
        (message("c", attributes=counter("6")), Park(ParkReason.ATTEMPTS_EXHAUSTED)),
    )

    assert values["ReplayCount"] == (0, 2, 6)


def test_a_letter_that_waits_is_counted_as_arrived_once() -> None:
    letter = message("a", attributes=counter("1"))
    back_from_hold = message("b", attributes={**counter("1"), **context(due_seconds=NOW)})

    moved = message("c", attributes=back_from_hold.attributes, **MOVED)

    assert measured((letter, Hold(2, NOW + 1000, 900)))["ReplayCount"] == (1,)
    assert measured((moved, Replay(2, 0)))["ReplayCount"] == (1,)
    assert "ReplayCount" not in measured((back_from_hold, Replay(2, 0)))


def test_a_letter_that_stays_in_the_dlq_has_not_been_counted_yet() -> None:
    values = measured((message("a"), Failed("in_doubt")), (message("b"), Wait()))

    assert "ReplayCount" not in values


def test_a_counter_that_cannot_be_read_is_no_replay_count() -> None:
    letter = message("a", attributes=counter("junk"))

    assert "ReplayCount" not in measured((letter, Park(ParkReason.INVALID_COUNTER)))


def test_the_nearest_expiry_is_that_of_the_oldest_copy() -> None:
    young = message("a", SentTimestamp=f"{NOW - 60}000")
    old = message("b", SentTimestamp=f"{NOW - 13 * DAY}000")

    assert nearest_expiry(young, old) == [("NearestExpirySeconds", (DAY,))]


def test_a_copy_beyond_its_retention_expires_now() -> None:
    letter = message("a", SentTimestamp=f"{NOW - 15 * DAY}000")

    assert nearest_expiry(letter) == [("NearestExpirySeconds", (0,))]


def test_a_copy_without_a_time_has_no_expiry() -> None:
    assert nearest_expiry(message("a")) == []


def test_parked_metrics_are_named_by_reason() -> None:
    assert parked_metric(ParkReason.NO_ROOM) == "Parked_no_room"


MOVED: dict[str, Any] = {"DeadLetterQueueSourceArn": queue_arn("main")}


@pytest.mark.parametrize(
    ("letter", "is_new"),
    [
        (message("a", **MOVED), True),
        (message("a", attributes=context(first_id="a"), **MOVED), True),
        # Sent to the DLQ: a hold, a person, a tool.
        (message("a"), False),
        (message("a", attributes=counter("1"), **MOVED), False),
        # Any producer can write a context, and a move task brings held copies to the main queue.
        (message("a", attributes=context(due_seconds=NOW), **MOVED), True),
        (message("a", attributes=context(plan_id="p-1"), **MOVED), True),
    ],
)
def test_a_new_dead_letter_is_one_that_sqs_moved_for_the_first_time(
    letter: Message, is_new: bool
) -> None:
    assert measured((letter, Replay(1, 0)))["Arrived"] == (int(is_new),)


def test_a_new_dead_letter_is_counted_once_when_it_leaves_the_dlq() -> None:
    letter = message("a", **MOVED)

    assert measured((letter, Failed("refused")))["Arrived"] == (0,)
    assert measured((letter, Wait()))["Arrived"] == (0,)
    assert measured((letter, Hold(1, NOW + 1000, 900)))["Arrived"] == (1,)


def test_totals_are_of_all_main_queues() -> None:
    main, invoices = policy().main_queue, QueueAddress.from_arn(queue_arn("invoices"))
    of_invoices: dict[str, Any] = {"DeadLetterQueueSourceArn": queue_arn("invoices")}
    outcomes = (
        became(message("a", **MOVED), Replay(1, 0)),
        became(message("b", **of_invoices), Replay(1, 0), invoices),
        became(message("c", **of_invoices), Failed("refused"), invoices),
    )
    reports = {
        main: BreakerReport(is_low=True),
        invoices: BreakerReport(is_low=True, fault="denied"),
    }

    found = measure_dlq(BatchOutcome(outcomes, reports, uncounted_returns=2), NOW, DAY)

    values = {one.name: one.values for one in found}
    assert values == {
        "ArrivedTotal": (2,),
        "FailedTotal": (1,),
        "CircuitBreakersOpen": (2,),
        "BreakerFaults": (1,),
        "ReturnsNotCounted": (2,),
    }
