from typing import Any

from demo.consumer import OUTAGE_SECONDS, Consumer
from demo.event_source import Handler
from demo.follow import tell_of_waiting_and_parking
from demo.identity import COUNTER, Attribute, Content
from demo.journal import Journal, Sighting
from demo.lambda_events import to_event
from demo.workload import DemoMessage, Trait

ARN = "arn:aws:sqs:us-east-1:1:main"
FIFO_ARN = f"{ARN}.fifo"
PLAIN = DemoMessage.of(1, Content("plain"), Trait.PLAIN)
PAYMENT = DemoMessage.of(2, Content("payment"), Trait.NEEDS_PAYMENTS)
BROKEN = DemoMessage.of(3, Content("broken"), Trait.BROKEN)
MESSAGES = {m.identity: m for m in (PLAIN, PAYMENT, BROKEN)}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def event(*messages: DemoMessage, replay_count: int = 0, body: str | None = None) -> dict[str, Any]:
    attributes = {COUNTER: Attribute("Number", str(replay_count))} if replay_count else {}
    received = [
        {
            "MessageId": f"copy-of-{m.number}",
            "ReceiptHandle": "handle",
            "Body": body or m.content.body,
            "Attributes": {
                "ApproximateReceiveCount": "1",
                "SentTimestamp": "1000",
                "ApproximateFirstReceiveTimestamp": "4000",
            },
            "MessageAttributes": {
                name: {"DataType": a.data_type, "StringValue": a.value}
                for name, a in {**m.content.attributes, **attributes}.items()
            },
        }
        for m in messages
    ]
    return to_event(received, ARN, None)


def fifo_event(*messages: DemoMessage, groups: str, replay_count: int = 0) -> dict[str, Any]:
    """The same from a FIFO queue; *groups* holds a letter for each message."""
    standard = event(*messages, replay_count=replay_count)
    for record, group in zip(standard["Records"], groups, strict=True):
        record["eventSourceARN"] = FIFO_ARN
        record["attributes"] = {**record["attributes"], "MessageGroupId": group}
    return standard


def consumer(told: list[str] | None = None, **settings: Any) -> Consumer:
    journal = Journal({i: m.content.fingerprint for i, m in MESSAGES.items()})
    tell = (told if told is not None else []).append
    return Consumer(journal, MESSAGES, tell, **settings)


def failed(answer: dict[str, Any]) -> list[str]:
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def test_only_the_messages_with_a_fault_fail() -> None:
    assert failed(consumer()(event(PLAIN, PAYMENT, BROKEN), None)) == ["copy-of-2", "copy-of-3"]


def test_payments_recover_by_themselves_and_the_bug_by_its_fix() -> None:
    clock, told = Clock(), list[str]()
    function = consumer(told, clock=clock)
    function(event(PAYMENT), None)

    clock.now += OUTAGE_SECONDS
    assert failed(function(event(PAYMENT, BROKEN), None)) == ["copy-of-3"]
    function.is_bug_fixed = True
    assert failed(function(event(BROKEN), None)) == []
    assert told == ["payments is down: every message that needs it fails", "payments is back"]


def test_group_stops_at_its_first_failure_on_fifo() -> None:
    function = consumer()

    answer = function(fifo_event(BROKEN, PLAIN, groups="gg"), None)

    assert failed(answer) == ["copy-of-3", "copy-of-1"]
    assert function.journal.sightings()[PLAIN.identity] == Sighting()


def test_other_groups_go_on_and_so_does_what_stands_before_the_failure() -> None:
    function = consumer()

    assert failed(function(fifo_event(BROKEN, PLAIN, groups="gh"), None)) == ["copy-of-3"]
    assert failed(function(fifo_event(PLAIN, BROKEN, groups="gg"), None)) == ["copy-of-3"]


def test_groups_of_a_standard_queue_stop_nothing() -> None:
    fair = fifo_event(BROKEN, PLAIN, groups="gg")
    for record in fair["Records"]:
        record["eventSourceARN"] = ARN

    assert failed(consumer()(fair, None)) == ["copy-of-3"]


def test_followed_message_that_is_stopped_tells_so() -> None:
    told: list[str] = []
    function = consumer(told, followed=frozenset({PLAIN.identity}))
    function(fifo_event(BROKEN, PLAIN, groups="gg", replay_count=1), None)

    assert told == ["message 1 is back, replay 1, and waits behind one of its group that failed"]


def test_journal_knows_what_was_processed_and_how_often() -> None:
    function = consumer()
    function(event(PLAIN, BROKEN), None)
    function(event(PLAIN, replay_count=2), None)

    seen = function.journal.sightings()

    assert seen[PLAIN.identity] == Sighting(processed_count=2, replay_count=2)
    assert seen[BROKEN.identity].processed_count == 0


def test_altered_copy_is_noticed() -> None:
    function = consumer()
    function(event(PLAIN, body="changed"), None)

    assert function.journal.sightings()[PLAIN.identity].is_altered


def test_unknown_message_is_processed_but_noted_as_a_stranger() -> None:
    function = consumer()
    stranger = DemoMessage.of(99, Content("who?"))

    assert failed(function(event(stranger), None)) == []
    assert function.journal.strangers() == {stranger.identity}


def test_followed_message_tells_its_story() -> None:
    told: list[str] = []
    function = consumer(told, followed=frozenset({BROKEN.identity}))
    function(event(PLAIN, BROKEN), None)
    function(event(BROKEN, replay_count=2), None)

    assert told == [
        "message 3 arrives, and fails: a bug in the consumer",
        "message 3 is back, replay 2, after 3 s, and fails: a bug in the consumer",
    ]


def test_copy_after_the_redrive_began_counts_as_redriven() -> None:
    function = consumer()
    function.journal.begin_redrive()
    function(event(PLAIN), None)

    assert function.journal.sightings()[PLAIN.identity].is_redriven


def test_parking_is_told_of_followed_messages_without_replays_left() -> None:
    told: list[str] = []
    handler = tell_of_waiting_and_parking(
        lambda _event, _context: {}, {BROKEN.identity: 3}, told.append
    )

    assert handler(event(BROKEN, replay_count=2), None) == {}
    assert told == []
    handler(event(PLAIN, BROKEN, replay_count=3), None)
    assert told == ["message 3 has failed after 3 replays: it is parked for a human"]


def answering(*failed_ids: str) -> Handler:
    items = [{"itemIdentifier": message_id} for message_id in failed_ids]
    return lambda _event, _context: {"batchItemFailures": items}


def test_waiting_is_told_of_a_head_and_of_what_stands_behind_it() -> None:
    told: list[str] = []
    numbers = {BROKEN.identity: 3, PLAIN.identity: 1}
    function = tell_of_waiting_and_parking(
        answering("copy-of-3", "copy-of-1"), numbers, told.append
    )

    function(fifo_event(BROKEN, PLAIN, groups="gg"), None)

    assert told == [
        "message 3 waits for replay 1, hidden in the DLQ, the head of g, and 1 behind it",
        "message 1 waits in the DLQ behind the head of its group, g",
    ]


def test_message_behind_a_parked_one_is_not_called_parked() -> None:
    told: list[str] = []
    function = tell_of_waiting_and_parking(
        answering("copy-of-1"), {BROKEN.identity: 3}, told.append
    )

    function(fifo_event(BROKEN, PLAIN, groups="gg", replay_count=3), None)

    assert told == ["message 3 has failed after 3 replays: it is parked for a human"]


def test_message_that_stays_in_a_standard_dlq_is_no_story() -> None:
    told: list[str] = []
    tell_of_waiting_and_parking(answering("copy-of-3"), {BROKEN.identity: 3}, told.append)(
        event(BROKEN), None
    )

    assert told == []
