"""Requests that meet a fault, the log of requests, and the room that a queue takes."""

from collections.abc import Callable, Iterator

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.errors import QueueError
from dlq_replay.replaying.sending import Confirmed, Refused, SendResult, Unconfirmed
from dlq_replay.wire.message import SendEntry
from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault
from local_sqs.front import Front
from local_sqs.messages import StoredMessage
from local_sqs.model import SqsModel
from local_sqs.model_queue import ModelQueue
from local_sqs.server import serve_in_thread
from tests.support.sqs_driver import Driver, QueueDriver, refusal_code

BATCH = [SendEntry("a"), SendEntry("b")]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def front(clock: VirtualClock) -> Front:
    return Front(SqsModel(clock, seed=1))


@pytest.fixture
def main(front: Front) -> QueueDriver:
    return Driver(client_for(front)).queue("main")


@pytest.fixture(params=["direct", "boto3", "http"])
def queue(request: pytest.FixtureRequest, front: Front, main: QueueDriver) -> Iterator[SqsQueue]:
    """The same queue through each client that tests use."""
    if request.param == "direct":
        yield ModelQueue(front, main.name)
    elif request.param == "boto3":
        yield SqsQueue(main.client, main.url)
    else:
        with serve_in_thread(front) as served:
            config = Config(retries={"total_max_attempts": 1}, read_timeout=0.2)
            client = boto3.client("sqs", endpoint_url=served.url, config=config)
            yield SqsQueue(client, main.url)


@pytest.mark.parametrize(
    ("effect", "result", "arrived"),
    [
        (Effect.THROTTLE, Refused, 0),
        (Effect.REFUSE, Refused, 0),
        (Effect.ERROR, Unconfirmed, 0),
        (Effect.UNAVAILABLE, Unconfirmed, 0),
        (Effect.CLOSE, Unconfirmed, 0),
        (Effect.LOSE, Unconfirmed, 2),
        (Effect.HANG, Unconfirmed, 2),
        (Effect.DELAY, Confirmed, 2),
    ],
)
def test_effect_on_the_answer_and_on_the_queue(
    queue: SqsQueue, front: Front, effect: Effect, result: type[SendResult], arrived: int
) -> None:
    front.faults.add(Fault(effect, "SendMessageBatch", seconds=5, code="ExpiredToken"))

    assert [type(result) for result in queue.send(BATCH)] == [result, result]
    assert len(front.model.queues["main"].messages()) == arrived


@pytest.mark.parametrize(("entries", "sent"), [((1, 9), ["0"]), ((), [])])
def test_chosen_entries_fail_and_the_rest_is_done(
    queue: SqsQueue, front: Front, entries: tuple[int, ...], sent: list[str]
) -> None:
    front.faults.add(Fault(Effect.FAIL_ENTRIES, "SendMessageBatch", entries=entries))
    results = queue.send(BATCH)

    confirmed = [str(i) for i, result in enumerate(results) if isinstance(result, Confirmed)]
    assert confirmed == sent
    assert {result.code for result in results if isinstance(result, Refused)} == {"InternalError"}
    assert len(front.model.queues["main"].messages()) == len(sent)


@pytest.mark.parametrize("name", ["KmsDisabled", "KMS.DisabledException"])
def test_error_of_kms_has_the_code_that_boto3_shows(
    queue: SqsQueue, front: Front, name: str
) -> None:
    front.faults.add(
        Fault(Effect.REFUSE, "SendMessageBatch", code=name, nth=1),
        Fault(Effect.FAIL_ENTRIES, "SendMessageBatch", code=name, nth=2),
        Fault(Effect.REFUSE, "ReceiveMessage", code=name),
    )
    results = [*queue.send(BATCH), *queue.send(BATCH)]
    with pytest.raises(QueueError) as refused:
        queue.receive(wait_seconds=0)

    codes = {result.code for result in results if isinstance(result, Refused)}
    assert codes == {refused.value.code} == {"KMS.DisabledException"}
    assert [type(result) for result in results] == [Refused] * 4


@pytest.mark.parametrize("after", [False, True])
def test_callback_and_delay_come_before_or_after_the_act(
    main: QueueDriver, front: Front, clock: VirtualClock, *, after: bool
) -> None:
    seen: list[int] = []
    stored: Callable[[], None] = lambda: seen.append(len(front.model.queues["main"].messages()))  # noqa: E731 - with its type
    front.faults.add(
        Fault(Effect.CALL, "SendMessage", after=after, callback=stored),
        Fault(Effect.DELAY, "SendMessage", after=after, seconds=5),
    )
    started_ms = clock.now_ms()
    main.send()
    (message,) = front.model.queues["main"].messages()

    assert seen == [int(after)]
    assert message.sent_ms == started_ms + (0 if after else 5000)
    assert clock.now_ms() == started_ms + 5000


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(Effect.ERROR, "SendMessage", nth=3), [3]),
        (Fault(Effect.ERROR, "SendMessage", every=2), [2, 4, 6]),
        (Fault(Effect.ERROR, "SendMessage", every=2, times=1), [2]),
        (Fault(Effect.ERROR, "SendMessage", queue="another"), []),
        (Fault(Effect.ERROR, "*", times=2), [1, 2]),
        (Fault(Effect.ERROR, probability=0.5, seed=1), [1, 4, 5, 6]),
        (Fault(Effect.ERROR, probability=0.5, seed=2), [3, 4]),
    ],
)
def test_rule_meets_the_requests_it_names(
    main: QueueDriver, front: Front, fault: Fault, expected: list[int]
) -> None:
    front.faults.add(fault)

    assert [number for number in range(1, 7) if refusal_code(main.send)] == expected


def test_log_has_what_arrived_and_when(
    main: QueueDriver, front: Front, clock: VirtualClock
) -> None:
    clock.advance(7)
    front.faults.add(Fault(Effect.THROTTLE, "SendMessageBatch"))
    with pytest.raises(ClientError):
        main.send_batch({"MessageBody": "a"}, {"MessageBody": "b"})
    (record,) = front.log.records("SendMessageBatch", "main")

    assert (record.entry_count, record.at_ms) == (2, clock.now_ms())
    assert record.effects == ("throttle",)
    assert front.log.count() == 2


def test_due_times_of_deleted_messages_do_not_pile_up() -> None:
    queue = SqsModel().create_queue("q")
    for _ in range(1000):
        queue.send(StoredMessage("x"))
        (message,) = queue.receive(1)
        queue.delete(message.handle)

    assert len(queue._timers._heap) + len(queue._expiries._heap) < 300  # noqa: SLF001 - the size is the point
