"""Requests that meet a fault, through boto3 and without a socket."""

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from local_sqs.clock import VirtualClock
from local_sqs.driver import Driver, refusal_code
from local_sqs.faults import Effect, Fault
from local_sqs.front import Front


@pytest.mark.parametrize(
    ("effect", "code"),
    [
        (Effect.THROTTLE, "RequestThrottled"),
        (Effect.ERROR, "InternalError"),
        (Effect.UNAVAILABLE, "ServiceUnavailable"),
    ],
)
def test_refused_request_changes_nothing(
    sqs: Driver, front: Front, effect: Effect, code: str
) -> None:
    queue = sqs.queue()
    front.faults.add(Fault(effect, "SendMessage"))

    assert refusal_code(queue.send) == code
    assert queue.counts() == (0, 0, 0)


def test_refusal_can_have_any_code(sqs: Driver, front: Front) -> None:
    queue = sqs.queue()
    front.faults.add(Fault(Effect.REFUSE, "SendMessage", code="ExpiredToken"))

    assert refusal_code(queue.send) == "ExpiredToken"
    assert queue.counts() == (0, 0, 0)


def test_broken_connection_changes_nothing(sqs: Driver, front: Front) -> None:
    queue = sqs.queue()
    front.faults.add(Fault(Effect.CLOSE, "SendMessage"))
    with pytest.raises(ConnectionClosedError):
        queue.send()

    assert queue.counts() == (0, 0, 0)


def test_lost_answer_hides_what_was_done(sqs: Driver, front: Front) -> None:
    queue = sqs.queue()
    front.faults.add(Fault(Effect.LOSE, "SendMessage"))
    with pytest.raises(ConnectionClosedError):
        queue.send()

    assert queue.counts() == (1, 0, 0)


def test_hanging_answer_costs_the_read_timeout(
    sqs: Driver, front: Front, clock: VirtualClock
) -> None:
    queue = sqs.queue()
    front.faults.add(Fault(Effect.HANG, "SendMessage"))
    started = clock.time()
    with pytest.raises(ReadTimeoutError):
        queue.send()

    assert clock.time() - started == 60
    assert queue.counts() == (1, 0, 0)


def test_chosen_entries_fail_and_the_rest_is_done(sqs: Driver, front: Front) -> None:
    queue = sqs.queue()
    front.faults.add(Fault(Effect.FAIL_ENTRIES, "SendMessageBatch", entries=(0, 2, 9)))
    sent, failed = queue.send_batch(*({"MessageBody": body} for body in "abc"))

    assert list(sent) == ["1"]
    assert failed == {"0": "InternalError", "2": "InternalError"}
    assert queue.bodies() == ["b"]


def test_all_entries_of_a_batch_can_fail(sqs: Driver, front: Front) -> None:
    queue = sqs.queue()
    front.faults.add(Fault(Effect.FAIL_ENTRIES, "SendMessageBatch", code="InvalidParameterValue"))
    sent, failed = queue.send_batch({"MessageBody": "a"}, {"MessageBody": "b"})

    assert sent == {}
    assert failed == {"0": "InvalidParameterValue", "1": "InvalidParameterValue"}


@pytest.mark.parametrize("after", [False, True])
def test_callback_runs_before_or_after_the_act(sqs: Driver, front: Front, *, after: bool) -> None:
    queue = sqs.queue()
    seen: list[int] = []
    look = Fault(
        Effect.CALL,
        "SendMessage",
        after=after,
        callback=lambda: seen.append(len(front.model.queues[queue.name].messages())),
    )
    front.faults.add(look)
    queue.send()

    assert seen == [int(after)]


def test_delay_lets_time_pass(sqs: Driver, front: Front, clock: VirtualClock) -> None:
    queue = sqs.queue()
    front.faults.add(Fault(Effect.DELAY, "SendMessage", seconds=5, after=True))
    started_ms = clock.now_ms()
    queue.send()

    (message,) = front.model.queues[queue.name].messages()
    assert message.sent_ms == started_ms
    assert clock.now_ms() == started_ms + 5000


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(Effect.ERROR, "SendMessage", nth=3), [3]),
        (Fault(Effect.ERROR, "SendMessage", every=2), [2, 4, 6]),
        (Fault(Effect.ERROR, "SendMessage", every=2, times=1), [2]),
        (Fault(Effect.ERROR, "SendMessage", queue="another"), []),
        (Fault(Effect.ERROR, "*", times=2), [1, 2]),
    ],
)
def test_rule_meets_the_requests_it_names(
    sqs: Driver, front: Front, fault: Fault, expected: list[int]
) -> None:
    queue = sqs.queue("chosen")
    front.faults.add(fault)
    met = [number for number in range(1, 7) if refusal_code(queue.send)]

    assert met == expected


def test_probability_is_repeatable_by_its_seed(sqs: Driver, front: Front) -> None:
    queue = sqs.queue()

    def draw(seed: int) -> list[str]:
        front.faults.clear()
        front.faults.add(Fault(Effect.ERROR, "SendMessage", probability=0.5, seed=seed))
        return [refusal_code(queue.send) for _ in range(40)]

    assert draw(1) == draw(1) != draw(2)
    assert 5 < draw(1).count("InternalError") < 35


def test_rule_can_come_as_json() -> None:
    raw = {"effect": "fail_entries", "operation": "SendMessageBatch", "nth": 2, "entries": [1]}
    expected = Fault(Effect.FAIL_ENTRIES, "SendMessageBatch", nth=2, entries=(1,))

    assert Fault.from_json(raw) == expected
    with pytest.raises(ValueError, match="unknown fields"):
        Fault.from_json({"effect": "lose", "callback": "x"})


def test_log_tells_what_arrived_and_when(sqs: Driver, front: Front, clock: VirtualClock) -> None:
    queue = sqs.queue("main")
    clock.advance(7)
    front.faults.add(Fault(Effect.THROTTLE, "SendMessageBatch"))
    with pytest.raises(ClientError):
        queue.send_batch({"MessageBody": "a"}, {"MessageBody": "b"})
    (record,) = front.log.records("SendMessageBatch", "main")

    assert (record.entry_count, record.at_ms) == (2, clock.now_ms())
    assert record.effects == ("throttle",)
    assert front.log.count() == 2
