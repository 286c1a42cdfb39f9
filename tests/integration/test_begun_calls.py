"""Calls in two halves against the whole ones, on one server: same results, same messages."""

import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from dlq_replay.attributes import MessageAttribute
from dlq_replay.message import Message, SendEntry
from dlq_replay.sending import CallResult, Confirmed, Refused, Spoiled
from dlq_replay.sqs import SqsQueue
from tests.direct_clients import both, once
from tests.sqs_world.faults import Effect, Fault
from tests.sqs_world.server import ServedWorld, serve_in_thread

BLOB = bytes(range(256))


@pytest.fixture
def world() -> Iterator[ServedWorld]:
    with serve_in_thread() as served:
        yield served


@pytest.fixture
def url(world: ServedWorld) -> str:
    client, _ = both(world.url)
    return client.create_queue(QueueName="main")["QueueUrl"]


ENTRIES = [SendEntry("first", {"blob": MessageAttribute("Binary", BLOB)}), SendEntry("second")]


@pytest.mark.parametrize(
    "fault",
    [
        None,
        Fault(Effect.FAIL_ENTRIES, entries=(1,), code="InternalError"),
        Fault(Effect.REFUSE, code="AccessDenied"),
        Fault(Effect.REFUSE, code="InvalidMessageContents"),
        Fault(Effect.THROTTLE),
        Fault(Effect.UNAVAILABLE),
        Fault(Effect.CLOSE),
        Fault(Effect.LOSE),
        Fault(Effect.HANG),
    ],
    ids=lambda fault: f"{fault.effect}-{fault.code}" if fault else "none",
)
def test_call_in_two_halves_ends_as_the_whole_one(
    world: ServedWorld, url: str, fault: Fault | None
) -> None:
    if fault:
        world.front.faults.add(fault)
    queue = SqsQueue(once(world.url, read_timeout=0.2)[1], url, tries_once=True)

    results = [queue.send_once(ENTRIES), queue.begin_once(ENTRIES)()]

    assert queue.can_begin
    assert without_ids(results[0]) == without_ids(results[1])
    world.front.faults.clear()
    found = SqsQueue(both(world.url)[0], url).receive(wait_seconds=0)
    arrived = Counter(m.body for m in found if isinstance(m, Message))
    assert set(arrived.values()) <= {2}


def without_ids(sent: CallResult) -> object:
    if isinstance(sent, Spoiled):
        return sent
    return ["confirmed" if isinstance(one, Confirmed) else one for one in sent]


def test_call_in_two_halves_where_nobody_is_has_sent_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
    queue = SqsQueue(once(nowhere)[1], "q", tries_once=True)

    first, second = queue.begin_once(ENTRIES)()  # type: ignore[misc]

    assert isinstance(first, Refused)
    assert (first.code, second) == ("EndpointConnectionError", first)


@pytest.mark.parametrize("tries", [1, 3])
def test_other_clients_begin_when_they_are_waited_for(
    world: ServedWorld, url: str, tries: int
) -> None:
    plain, direct = both(world.url, retries={"mode": "standard", "total_max_attempts": tries})
    queue = SqsQueue(plain if tries == 1 else direct, url, tries_once=tries == 1)

    end = queue.begin_once(ENTRIES)

    assert not queue.can_begin
    assert world.front.log.count("SendMessageBatch") == 0
    assert len(end()) == 2  # type: ignore[arg-type]
