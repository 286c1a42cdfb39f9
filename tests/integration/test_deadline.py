"""No try of a call begins after its invocation's deadline, whatever the execution environment does.

The invocations run on a clock that the test moves: a jump is what a thread sees that slept in a
frozen environment.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from dlq_replay.aws import wiring
from dlq_replay.wire.message import Message
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault
from local_sqs.server import RunningServer, serve_in_thread
from tests.support.builders import entry
from tests.support.replay_stack import ReplayStack, invoke
from tests.support.served import served
from tests.support.sqs_driver import name_of

pytestmark = pytest.mark.usefixtures("quick_retries")

FROZEN_SECONDS = 600
SEND = "SendMessageBatch"


class Function:
    """The replay function between three queues of a served world, on a clock of its own."""

    def __init__(self, world: RunningServer, stack: ReplayStack) -> None:
        self.clock = VirtualClock()
        self.world = world
        self.stack = stack

    def letters(self, count: int) -> list[Message]:
        is_fifo = self.stack.dlq.url.endswith(".fifo")
        numbers = map(str, range(count))
        letters = self.stack.put_in_dlq(*(entry(n, f"group-{n}" * is_fifo) for n in numbers))
        self.world.front.log.clear()
        return letters

    def invoke(self, *letters: Message, seconds: float = 30.0) -> set[str]:
        """Handle a batch; the ids that stay in the DLQ."""
        ends = self.clock.time() + seconds
        context = SimpleNamespace(
            get_remaining_time_in_millis=lambda: max(0, int((ends - self.clock.time()) * 1000))
        )
        return invoke(*letters, context=context)

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
def wired() -> Iterator[Callable[..., Function]]:
    """Make a function, which this process is until the test ends."""
    with serve_in_thread() as world, ExitStack() as until_the_end:

        def make(suffix: str, **variables: str) -> Function:
            stack = ReplayStack.at(world.url, suffix, **variables)
            return Function(world, until_the_end.enter_context(stack.wired()))

        yield make


@pytest.fixture(params=["", ".fifo"], ids=["standard", "fifo"])
def function(wired: Callable[..., Function], request: pytest.FixtureRequest) -> Function:
    return wired(request.param)


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
    executor = wiring.wiring().current_replayer().executor
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


def test_questions_at_the_start_are_not_repeated_after_the_deadline(function: Function) -> None:
    letters = function.letters(1)
    question = "GetQueueAttributes"
    jump = Fault(Effect.CALL, question, callback=lambda: function.clock.advance(FROZEN_SECONDS))
    function.world.front.faults.add(jump, Fault(Effect.THROTTLE, question))

    assert function.invoke(*letters) == {letters[0].message_id}
    assert function.count(question) <= 3
    assert function.count(SEND) == 0


def test_limits_that_could_not_be_read_are_asked_for_again_after_a_minute(
    wired: Callable[..., Function], monkeypatch: pytest.MonkeyPatch
) -> None:
    function = wired("", MAX_ATTEMPTS="0")
    main = function.stack.main
    monkeypatch.setattr(wiring, "awake_seconds", function.clock.time)
    main.client.set_queue_attributes(QueueUrl=main.url, Attributes={"MaximumMessageSize": "1024"})
    question = "GetQueueAttributes"
    name = name_of(main)
    denied = Fault(Effect.REFUSE, question, queue=name, times=1, code="AccessDenied")
    letters = function.letters(3)
    function.world.front.faults.add(denied)

    sizes = []
    for letter, seconds in zip(letters, (0, 59, 1), strict=True):
        function.clock.advance(seconds)
        function.invoke(letter)
        sizes.append(wiring.wiring().current_replayer().policy.limits.main_max_bytes)
    function.clock.advance(3600)
    function.invoke()

    assert sizes == [1024 * 1024, 1024 * 1024, 1024]
    # Each of the three queues once, and the one that was denied once more.
    assert function.count(question) == 4


def test_queue_that_never_says_its_limits_is_asked_ever_less_and_nothing_is_made_again(
    wired: Callable[..., Function], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is with a parked queue of another account: a new replayer would forget its breakers."""
    function = wired("", MAX_ATTEMPTS="0")
    monkeypatch.setattr(wiring, "awake_seconds", function.clock.time)
    question = "GetQueueAttributes"
    name = name_of(function.stack.parked)
    denied = Fault(Effect.REFUSE, question, queue=name, code="AccessDenied")
    function.world.front.faults.add(denied)

    first = wiring.wiring().current_replayer()
    asked = []
    for _ in range(6 * 60):
        function.invoke()
        assert wiring.wiring().current_replayer() is first
        asked.append(function.count(question))
        function.clock.advance(60)

    asked_at = [minute for minute in range(1, len(asked)) if asked[minute] > asked[minute - 1]]
    assert asked_at == [1, 3, 7, 15, 31, 63, 123, 183, 243, 303]
    assert asked[-1] == 3 + len(asked_at)


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
