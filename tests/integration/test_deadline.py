"""No try of a call begins after its invocation's deadline, whatever the execution environment does.

The invocations run on a clock that the test moves: a jump is what a thread sees that slept in a
frozen environment.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest

from dlq_replay.message import Message, SendEntry
from functions.replay import handler
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault
from local_sqs.server import RunningServer, serve_in_thread
from tests.support.function_world import function_world, invoke
from tests.support.served import served

pytestmark = pytest.mark.usefixtures("quick_retries")

FROZEN_SECONDS = 600
SEND = "SendMessageBatch"
HIDE = "ChangeMessageVisibilityBatch"


@dataclass(frozen=True)
class Invocation:
    """Lambda's context object."""

    clock: VirtualClock
    deadline_seconds: float

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.deadline_seconds - self.clock.time()) * 1000))


class Function:
    """The replay function between three queues of a served world."""

    def __init__(
        self, world: RunningServer, suffix: str, monkeypatch: pytest.MonkeyPatch, **variables: str
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", world.url)
        self.dlq = function_world(boto3.client("sqs"), monkeypatch, suffix, **variables).dlq
        self.clock = VirtualClock()
        self.world = world
        self.suffix = suffix

    def letters(self, count: int) -> list[Message]:
        self.dlq.send([self._entry(number) for number in range(count)])
        received = [one for one in self.dlq.receive(wait_seconds=0) if isinstance(one, Message)]
        self.world.front.log.clear()
        return received

    def _entry(self, number: int) -> SendEntry:
        if not self.suffix:
            return SendEntry(f"body {number}")
        group, known_as = f"group-{number}", f"id-{number}"
        return SendEntry(f"body {number}", message_group_id=group, deduplication_id=known_as)

    def invoke(self, *letters: Message, seconds: float = 30.0) -> set[str]:
        """Handle a batch; the ids that stay in the DLQ."""
        return invoke(*letters, context=Invocation(self.clock, self.clock.time() + seconds))

    def meet(self, operation: str, effect: Effect, act: Callable[[], object], code: str) -> None:
        """Have the first such request do *act* and then meet *effect*."""

        def callback() -> None:
            act()

        call = Fault(Effect.CALL, operation, nth=1, callback=callback)
        self.world.front.faults.add(call, Fault(effect, operation, nth=1, code=code))

    def freeze(self, operation: str, effect: Effect, code: str = "AccessDenied") -> None:
        """Have the first such request fail, and the environment sleep before it is repeated."""
        self.meet(operation, effect, lambda: self.clock.advance(FROZEN_SECONDS), code)

    def count(self, operation: str) -> int:
        return self.world.front.log.count(operation)


@pytest.fixture
def world() -> Iterator[RunningServer]:
    with serve_in_thread() as running:
        yield running
    handler.wiring.cache_clear()


@pytest.fixture(params=["", ".fifo"], ids=["standard", "fifo"])
def function(
    world: RunningServer, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Function:
    return Function(world, request.param, monkeypatch)


@pytest.mark.parametrize("effect", [Effect.THROTTLE, Effect.UNAVAILABLE, Effect.CLOSE, Effect.LOSE])
def test_failed_send_is_not_repeated_after_the_deadline(function: Function, effect: Effect) -> None:
    (letter,) = function.letters(1)
    function.freeze(SEND, effect)

    assert function.invoke(letter) == {letter.message_id}
    assert function.count(SEND) == 1


@pytest.mark.parametrize("effect", [Effect.THROTTLE, Effect.LOSE])
def test_failed_send_is_repeated_before_the_deadline(function: Function, effect: Effect) -> None:
    (letter,) = function.letters(1)
    function.meet(SEND, effect, lambda: None, "")

    assert function.invoke(letter) == set()
    assert function.count(SEND) == 2


@pytest.mark.parametrize("effect", [Effect.THROTTLE, Effect.LOSE])
def test_call_that_is_answered_late_is_not_repeated_in_the_next_invocation(
    function: Function, effect: Effect
) -> None:
    (letter,) = function.letters(1)
    thawed = threading.Event()
    function.meet(SEND, effect, lambda: thawed.wait(60), "")

    assert function.invoke(letter, seconds=2.2) == {letter.message_id}
    executor = handler.wired_replayer().executor
    function.clock.advance(FROZEN_SECONDS)
    thawed.set()
    assert function.invoke(letter) == set()

    executor.shutdown(wait=True)
    assert function.count(SEND) == 2


def test_letters_of_a_spoiled_call_are_not_sent_apart_after_the_deadline(
    function: Function,
) -> None:
    letters = function.letters(3)
    function.freeze(SEND, Effect.REFUSE, code="InvalidMessageContents")

    assert function.invoke(*letters) == {letter.message_id for letter in letters}
    assert function.count(SEND) == 1


@pytest.mark.parametrize("effect", [Effect.THROTTLE, Effect.LOSE])
def test_hold_is_not_repeated_after_the_deadline(
    world: RunningServer, monkeypatch: pytest.MonkeyPatch, effect: Effect
) -> None:
    long = {"BACKOFF_RATE": "43200", "BACKOFF_CAP_SECONDS": "1209600"}
    function = Function(world, ".fifo", monkeypatch, **long)
    letters = function.letters(3)
    function.freeze(HIDE, effect)

    assert function.invoke(*letters) == {letter.message_id for letter in letters}
    assert function.count(HIDE) == 1


def test_questions_at_the_start_are_not_repeated_after_the_deadline(function: Function) -> None:
    letters = function.letters(1)
    question = "GetQueueAttributes"
    jump = Fault(Effect.CALL, question, callback=lambda: function.clock.advance(FROZEN_SECONDS))
    function.world.front.faults.add(jump, Fault(Effect.THROTTLE, question))

    assert function.invoke(*letters) == {letters[0].message_id}
    assert function.count(question) <= 3
    assert function.count(SEND) == 0


def test_limits_that_could_not_be_read_are_asked_for_again_after_a_minute(
    world: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = Function(world, "", monkeypatch, MAX_ATTEMPTS="0")
    monkeypatch.setattr(handler, "awake_seconds", function.clock.time)
    function.dlq.client.set_queue_attributes(
        QueueUrl=function.dlq.url.replace("dlq", "main"), Attributes={"MaximumMessageSize": "1024"}
    )
    question = "GetQueueAttributes"
    denied = Fault(Effect.REFUSE, question, queue="main", times=1, code="AccessDenied")
    letters = function.letters(3)
    function.world.front.faults.add(denied)

    sizes = []
    for letter, seconds in zip(letters, (0, 59, 1), strict=True):
        function.clock.advance(seconds)
        function.invoke(letter)
        sizes.append(handler.wired_replayer().policy.limits.main_max_bytes)
    function.clock.advance(3600)
    function.invoke()

    assert sizes == [1024 * 1024, 1024 * 1024, 1024]
    assert function.count(question) == 6


def test_question_to_the_failure_table_is_not_repeated_after_the_deadline(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Table(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.headers["x-amz-target"])
            function.clock.advance(FROZEN_SECONDS)
            self.send_response(500)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    (letter,) = function.letters(1)
    with served(ThreadingHTTPServer(("127.0.0.1", 0), Table)) as table:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", f"http://127.0.0.1:{table.server_port}")
        monkeypatch.setenv("FAILURE_TABLE", "failures")

        assert function.invoke(letter) == {letter.message_id}

    assert asked == ["DynamoDB_20120810.BatchGetItem"]
    assert function.count(SEND) == 0
