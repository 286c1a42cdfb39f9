"""Metrics of batches; ``tests/golden/measures.txt`` has the values of each."""

import json
from contextlib import redirect_stdout
from io import StringIO
from itertools import starmap
from typing import Any

import pytest

from dlq_replay.replaying.breaker_worker import BreakerReport
from dlq_replay.replaying.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    QUEUE_TAG_DIMENSION,
    Measured,
    measure_batch,
    measure_dlq,
    publish,
)
from dlq_replay.replaying.replay import BatchOutcome
from dlq_replay.rules.batch_plan import Failed, PlannedRecord, RecordDecision, Wait
from dlq_replay.rules.decision import Hold, Park, ParkReason, Replay
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.attributes import MAX_ATTRIBUTES
from dlq_replay.wire.message import Message, SendEntry
from tests.support.builders import NOW, context, counter, message, policy, queue_arn, text
from tests.support.golden import assert_stored, stored_rows

DAY = 86_400
HOLD = Hold(1, NOW + 1000, 900)
REPLAYED = {**counter("1"), **context(first_id="a")}
NINE = {f"of the producer {n}": text("x") for n in range(9)}
HELD_BEFORE = {**counter("1"), **context(first_id="a", due_seconds=NOW)}


def became(
    letter: Message, decision: RecordDecision, main: QueueAddress | None = None
) -> PlannedRecord:
    """As the function acts on it: where there is room, each copy that it sends has a context."""
    marked = {**letter.attributes, **context(first_id=letter.message_id)}
    attributes = marked if len(marked) <= MAX_ATTRIBUTES else letter.attributes
    entry = None if isinstance(decision, Failed | Wait) else SendEntry(letter.body, attributes)
    return PlannedRecord(
        letter, letter.message_id, main or policy().main_queue, decision, entry=entry
    )


def moved(name: str = "a", source: str = "main", **fields: object) -> Message:
    """A message that SQS moved to the DLQ, and did not send there."""
    arn = queue_arn(source)
    return message(name, DeadLetterQueueSourceArn=arn, **fields)  # type: ignore[arg-type]


def days_old(*days: int) -> list[tuple[Message, RecordDecision]]:
    batch: list[tuple[Message, RecordDecision]] = []
    for number, age in enumerate(days):
        letter = message(str(number), SentTimestamp=f"{NOW - age * DAY}000")
        batch.append((letter, Failed("refused")))
    return batch


BATCHES: dict[str, list[tuple[Message, RecordDecision]]] = {
    "empty": [],
    "each decision": [
        (message("a"), Replay(1, 7)),
        (message("b"), Park(ParkReason.TOO_OLD)),
        (message("c"), Park(ParkReason.TOO_OLD)),
        (message("d"), HOLD),
        (message("e"), Wait()),
        (message("f"), Failed("refused")),
    ],
    "replay counts": [
        (message("a"), Replay(1, 0)),
        (message("b", attributes=counter("2")), Replay(3, 0)),
        (message("c", attributes=counter("6")), Park(ParkReason.ATTEMPTS_EXHAUSTED)),
        (message("d", attributes=counter("junk")), Park(ParkReason.INVALID_COUNTER)),
    ],
    # A letter that waits has arrived once.
    "a letter that is held": [(message("a", attributes=REPLAYED), HOLD)],
    "a letter that was held": [(message("a", attributes=HELD_BEFORE), Replay(2, 0))],
    "a letter that was held and died again": [(moved(attributes=HELD_BEFORE), Replay(2, 0))],
    # One that stays is counted when it leaves.
    "a new letter that stays": [(moved("a"), Failed("unconfirmed")), (moved("b"), Wait())],
    "a new letter that is held": [(moved(), HOLD)],
    "a new letter": [(moved(), Replay(1, 0))],
    # Any producer can write a context, and a move task brings held copies to the main queue.
    "new letters with a context": [
        (moved("a", attributes=context(first_id="a")), Replay(1, 0)),
        (moved("b", attributes=context(due_seconds=NOW)), Replay(1, 0)),
        (moved("c", attributes=context(plan_id="p")), Replay(1, 0)),
    ],
    "letters that a consumer sent there itself": [
        (message("a"), Replay(1, 0)),
        (message("b", attributes=context(first_id="a")), HOLD),
        (message("c", attributes=REPLAYED), Replay(2, 0)),
        (message("d", attributes=context(first_id="d", due_seconds=NOW)), Replay(1, 0)),
    ],
    "a counter that the function did not write": [
        (moved("a", attributes=counter("1")), Replay(2, 0)),
        (moved("b", attributes={**counter("1"), "sqs-dlq-context": text("{")}), Replay(2, 0)),
        (moved("c", attributes=counter("junk")), Park(ParkReason.INVALID_COUNTER)),
        (moved("d", attributes=counter("20")), Park(ParkReason.ATTEMPTS_EXHAUSTED)),
    ],
    "a counter without room for a context": [
        (moved(attributes={**counter("1"), **NINE}), Replay(2, 0)),
    ],
    "a letter that was replayed": [(moved(attributes=REPLAYED), Replay(2, 0))],
    "a letter whose return waits to be counted": [
        (moved("a"), Failed("not_counted")),
        (moved("b"), Failed("refused")),
    ],
    "a copy of 13 days beside a young one": days_old(0, 13),
    "a copy beyond its retention": days_old(15),
}
INVOICES = QueueAddress.from_arn(queue_arn("invoices"))
OUTCOMES = {
    **{name: BatchOutcome(tuple(starmap(became, pairs))) for name, pairs in BATCHES.items()},
    # Totals are of all main queues.
    "two main queues": BatchOutcome(
        (
            became(moved("a"), Replay(1, 0)),
            became(moved("b", "invoices"), Replay(1, 0), INVOICES),
            became(moved("c", "invoices"), Failed("refused"), INVOICES),
        ),
        {
            policy().main_queue: BreakerReport(is_low=True),
            INVOICES: BreakerReport(is_low=True, fault="denied"),
        },
        uncounted_returns=2,
    ),
}


def values(measured: Measured) -> str:
    shown = {name: ", ".join(map(str, values)) for name, values in measured.items() if values}
    return "".join(f"{name} {values}\n" for name, values in shown.items())


@stored_rows("measures", OUTCOMES)
def test_batch_is_measured_as_it_is_stored(name: str) -> None:
    outcome = OUTCOMES[name]
    measured = measure_batch(outcome)
    of_dlq = values(measure_dlq(outcome, [measured], NOW, 14 * DAY))

    assert_stored("measures", name, f"{values(measured)}of the DLQ\n{of_dlq}")


@pytest.mark.parametrize(
    ("are_low", "limited"),
    [
        ([], []),
        ([False], [0]),
        ([True], [1]),
        ([True, False, True], [2]),
        # A 0 would end the alarm of a queue whose limit could not be read.
        ([None], []),
        ([False, None], []),
        ([True, None], [1]),
    ],
)
def test_limits_are_those_of_all_queues_that_share_the_dlq(
    are_low: list[bool | None], limited: list[int]
) -> None:
    reports = {}
    for number, is_low in enumerate(are_low):
        reports[QueueAddress.from_arn(queue_arn(f"q{number}"))] = BreakerReport(is_low)

    measured = measure_dlq(BatchOutcome((), reports), [], NOW, 14 * DAY)

    assert measured["CircuitBreakersOpen"] == limited


# The lines: CloudWatch's embedded metric format.

DIMENSIONS = {"MainQueue": "orders", "service": "sqs-dlq-replay"}


def lines_of(measured: Measured) -> list[dict[str, Any]]:
    with redirect_stdout(StringIO()) as printed:
        publish(measured, MAIN_QUEUE_DIMENSION, "orders", NOW)
    return [json.loads(line) for line in printed.getvalue().splitlines()]


def test_a_line_of_a_fleet_has_the_value_of_its_tag() -> None:
    with redirect_stdout(StringIO()) as printed:
        publish({"StuckQueues": [3]}, QUEUE_TAG_DIMENSION, "shop", NOW)

    line = json.loads(printed.getvalue())
    [directive] = line["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [["QueueTag", "service"]]
    assert (line["QueueTag"], line["service"]) == ("shop", "sqs-dlq-replay")


def test_a_line_names_what_it_measures() -> None:
    (line,) = lines_of({"Replayed": [2], "DelaySeconds": [7, 0]})

    assert line == {
        "_aws": {
            "Timestamp": NOW * 1000,
            "CloudWatchMetrics": [
                {
                    "Namespace": NAMESPACE,
                    "Dimensions": [["MainQueue", "service"]],
                    "Metrics": [
                        {"Name": "Replayed", "Unit": "Count"},
                        {"Name": "DelaySeconds", "Unit": "Seconds"},
                    ],
                }
            ],
        },
        **DIMENSIONS,
        "Replayed": [2],
        "DelaySeconds": [7, 0],
    }


def test_nothing_measured_is_nothing_written() -> None:
    assert lines_of({}) == lines_of({"DelaySeconds": []}) == []


def test_every_value_is_written_once_and_no_line_is_too_long() -> None:
    lines = lines_of({"DelaySeconds": [*range(250)], "ReplayCount": [1]})

    parts = [[*range(100)], [*range(100, 200)], [*range(200, 250)]]
    assert [line["DelaySeconds"] for line in lines] == parts
    assert [line.get("ReplayCount") for line in lines] == [[1], None, None]
    directives = [line["_aws"]["CloudWatchMetrics"][0] for line in lines[1:]]
    names = [metric["Name"] for directive in directives for metric in directive["Metrics"]]
    assert names == ["DelaySeconds"] * 2
