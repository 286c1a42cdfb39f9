from collections.abc import Mapping
from typing import Any

from demo.environment import MAX_ATTEMPTS
from demo.event_source import Handler
from demo.functions import delivering_twice, notify_of_waiting_and_parking
from tests.unit.demo.records import BROKEN, PAYMENT, PLAIN, event, fifo_event


def test_parking_is_told_of_followed_messages_without_replays_left() -> None:
    told: list[str] = []
    handler = notify_of_waiting_and_parking(
        lambda _event, _context: {}, {BROKEN.identity: 3}, told.append
    )

    assert handler(event(BROKEN, replay_count=MAX_ATTEMPTS - 1), None) == {}
    assert told == []
    handler(event(PLAIN, BROKEN, replay_count=MAX_ATTEMPTS), None)
    assert told == [f"message 3 has failed after {MAX_ATTEMPTS} replays: it is parked"]


def test_parking_of_a_canary_is_told() -> None:
    told: list[str] = []
    handler = notify_of_waiting_and_parking(
        lambda _event, _context: {}, {BROKEN.identity: 3}, told.append
    )

    handler(event(BROKEN, replay_count=1_000_000), None)

    assert told == ["message 3 is a canary that failed: it is parked at once"]


def answering(*failed_ids: str) -> Handler:
    items = [{"itemIdentifier": message_id} for message_id in failed_ids]
    return lambda _event, _context: {"batchItemFailures": items}


def test_waiting_is_told_of_a_head_and_of_what_stands_behind_it() -> None:
    told: list[str] = []
    numbers = {BROKEN.identity: 3, PLAIN.identity: 1}
    function = notify_of_waiting_and_parking(
        answering("copy-of-3", "copy-of-1"), numbers, told.append
    )

    function(fifo_event(BROKEN, PLAIN, groups="gg"), None)

    assert told == [
        "message 3 waits for replay 1, hidden in the DLQ, the head of g, and 1 behind it",
        "message 1 waits in the DLQ behind the head of its group, g",
    ]


def test_message_behind_a_parked_one_is_not_called_parked() -> None:
    told: list[str] = []
    function = notify_of_waiting_and_parking(
        answering("copy-of-1"), {BROKEN.identity: 3}, told.append
    )

    function(fifo_event(BROKEN, PLAIN, groups="gg", replay_count=MAX_ATTEMPTS), None)

    assert told == [f"message 3 has failed after {MAX_ATTEMPTS} replays: it is parked"]


def test_message_that_stays_in_a_standard_dlq_is_no_story() -> None:
    told: list[str] = []
    notify_of_waiting_and_parking(answering("copy-of-3"), {BROKEN.identity: 3}, told.append)(
        event(BROKEN), None
    )

    assert told == []


def test_one_message_comes_once_more_and_no_other() -> None:
    told: list[str] = []
    handled: list[list[str]] = []

    def handler(event: Mapping[str, Any], _context: object) -> str:
        handled.append([record["messageId"] for record in event["Records"]])
        return f"answer {len(handled)}"

    function = delivering_twice(handler, PAYMENT, told.append)

    assert function(event(PLAIN), None) == "answer 1"
    assert function(event(BROKEN, PAYMENT), None) == "answer 2"
    assert function(event(PAYMENT), None) == "answer 4"
    assert handled == [["copy-of-1"], ["copy-of-3", "copy-of-2"], ["copy-of-2"], ["copy-of-2"]]
    assert told == ["SQS delivers message 2 to the replay Lambda twice, as it may"]
