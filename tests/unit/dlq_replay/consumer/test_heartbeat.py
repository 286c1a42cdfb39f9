"""On the model's virtual clock, with real botocore and no waiting; at the end, with its thread."""

import asyncio
import threading
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from botocore.exceptions import ClientError, EndpointConnectionError

from dlq_replay.consumer.heartbeat import Heartbeat
from dlq_replay.errors import MalformedMessageError, SettingsError, VisibilityLostError
from dlq_replay.wire.message import Message
from local_sqs.faults import Effect
from tests.simulation.beating import Work
from tests.support.builders import lambda_record
from tests.support.failure_table import PlainRecord
from tests.support.golden import assert_stored, stored_rows

HOUR = 3600
PATIENCE_SECONDS = 30


ERRORS: dict[str, Exception] = {
    "denied": ClientError({"Error": {"Code": "AccessDenied"}}, "x"),
    "unreachable": EndpointConnectionError(endpoint_url="http://secret"),
    "shut down": RuntimeError("cannot schedule new futures after shutdown"),
}


@dataclass
class Story:
    """The story of received messages m0, m1, … while a heartbeat hides them, told in steps.

    ``work N`` receives N messages; ``enter`` enters the block. In ``pass N`` the heartbeat ticks
    at its times, in ``+N`` the machine is suspended. ``answer`` is that to the next call: an error,
    or a code for m0, or ``-`` for an answer without it.
    """

    lines: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    answer: str = ""

    def tell(self, steps: str) -> str:
        with ExitStack() as self.block:
            for step in steps.split("; "):
                try:
                    result = self._do(*step.split())
                except Exception as error:  # noqa: BLE001 - it is told
                    result = f"{type(error).__name__}: {error}"
                self.lines.append(f"{step}: {result}" if result else step)
        return self.named("\n".join([*self.lines, f"calls: {len(self.calls)}", *self.calls[-6:]]))

    def named(self, text: str) -> str:
        """Return the text with m0, m1, … instead of the ids of messages."""
        for number, message_id in enumerate(self.work.ids):
            text = text.replace(message_id, f"m{number}")
        return text

    def _do(self, name: str, *words: str) -> str | None:  # noqa: C901, PLR0912 - one for each kind of step
        options = dict(option.split("=") for option in words if "=" in option)
        match name:
            case "work":
                self.work = Work(int(words[0]), **options)
                self._started = self.work.clock.time()
                self._send = self.work.client.change_message_visibility_batch
                self.work.client.change_message_visibility_batch = self._change  # type: ignore[method-assign]
            case "enter":
                numbers: Any = {key: int(value) for key, value in options.items()}
                self.beat = self.block.enter_context(self.work.beat(**numbers))
            case "pass":
                self.work.pass_time(self.beat, float(words[0]))
            case "check":
                for number in words or [None]:
                    self.beat.check(self.work.ids[int(number)] if number else None)
                return "hidden"
            case "done":
                self.beat.done(self.work.ids[int(words[0])])
            case "give-up":
                self.beat.give_up()
            case "receive":
                bodies = [message["Body"] for message in self.work.queue.receive()]
                return " ".join(bodies) or "nothing"
            case "delete":
                self.work.queue.delete(self.work.received[int(words[0])])
            case "fail":
                rule: Any = {key: int(value) for key, value in options.items()}
                if "entries" in rule:
                    rule["entries"] = (rule["entries"],)
                self.work.fail(Effect[words[0]], **rule)
            case "answer":
                self.answer = " ".join(words)
            case "raise":
                error = {"KeyboardInterrupt": KeyboardInterrupt}.get(words[0], ZeroDivisionError)
                with suppress(error), self.block:
                    raise error
            case "leave":
                self.block.close()
            case "counts":
                return "{} visible, {} in flight".format(*self.work.queue.counts())
            case "ends":
                return f"{max(self.ends) - self._started:.0f} s after the receive at most"
            case _:
                self.work.clock.advance(float(name))
        return None

    def _change(self, **request: Any) -> Any:
        entries = request["Entries"]
        answer = self.answer
        self.answer = ""
        seconds = entries[0]["VisibilityTimeout"]
        numbers = {message["ReceiptHandle"]: n for n, message in enumerate(self.work.received)}
        names = (f"m{numbers[entry['ReceiptHandle']]}" for entry in entries)
        self.calls.append(f"call: {' '.join(names)} for {seconds} s")
        self.ends.append(self.work.clock.time() + seconds)
        if answer in ERRORS:
            raise ERRORS[answer]
        if answer:
            refused = [] if answer == "-" else [{"Id": "0", "Code": answer}]
            return {"Failed": refused, "Successful": [{"Id": "1"}]}
        return self._send(**request)


HIDDEN = "enter; pass 3000; receive; check; leave; receive; +120; receive"

STORIES = {
    "a message stays hidden for as long as the block runs, q": f"work 1 queue_name=q; {HIDDEN}",
    "a message stays hidden for as long as the block runs, q.fifo": "work 1 queue_name=q.fifo; "
    f"{HIDDEN}",
    "ZeroDivisionError leaves the block: what is not done is visible": "work 25; enter; pass 90; "
    "done 0; raise ZeroDivisionError; counts",
    "KeyboardInterrupt leaves the block: what is not done is visible": "work 25; enter; pass 90; "
    "done 0; raise KeyboardInterrupt; counts",
    "giving up shows what is not done": "work 4; enter; done 3; fail FAIL_ENTRIES entries=1 nth=1; "
    "give-up; counts; check 3; check 0; give-up; leave",
    "a done message stays hidden until the block ends": "work 2; enter; done 0; pass 600; "
    "receive; delete 0; pass 600; check; leave",
    # An entry that is not confirmed is tried again alone.
    "the entry of m0 is answered by AWS.SimpleQueueService.MessageNotInflight": "work 2; "
    "answer AWS.SimpleQueueService.MessageNotInflight; enter; pass 29; check",
    "the entry of m0 is answered by -": "work 2; answer -; enter; pass 29; check",
    "a call that raises, denied": "work 2; answer denied; enter; pass 29; check",
    "a call that raises, unreachable": "work 2; answer unreachable; enter; pass 29; check",
    "a call that raises, shut down": "work 2; answer shut down; enter; pass 29; check",
    "an extension without confirmation, LOSE, first": "work 1; fail LOSE times=3; enter; "
    "pass 600; check; receive",
    "an extension without confirmation, LOSE, later": "work 1; enter; fail LOSE times=3; "
    "pass 600; check; receive",
    "an extension without confirmation, CLOSE, first": "work 1; fail CLOSE times=3; enter; "
    "pass 600; check; receive",
    "an extension without confirmation, CLOSE, later": "work 1; enter; fail CLOSE times=3; "
    "pass 600; check; receive",
    "an extension without confirmation, THROTTLE, first": "work 1; fail THROTTLE times=3; enter; "
    "pass 600; check; receive",
    "an extension without confirmation, THROTTLE, later": "work 1; enter; fail THROTTLE times=3; "
    "pass 600; check; receive",
    # A first extension that is not confirmed leaves the earlier end.
    "the receive's timeout ends": "work 1 VisibilityTimeout=30; fail CLOSE; "
    "enter received_timeout_seconds=30; +29; check; +1; check",
    "the shorter of two ends, after a lost answer": "work 1 VisibilityTimeout=5400; fail LOSE; "
    "enter received_timeout_seconds=5400; +119; check; +1; check",
    "an answer after the end of the timeout": "work 1; enter; fail DELAY seconds=61 nth=1; "
    "pass 60; check",
    "an extension counts from when it was sent": "work 1; fail DELAY seconds=5; enter; +114; "
    "check; +1; check",
    "a deleted message is lost by itself": "work 12; enter; delete 3; pass 600; check 3; "
    "check 0 1 2 4 5 6 7 8 9 10 11",
    "a machine that wakes in time extends at once": "work 1; enter; +100; receive; pass 0; +100; "
    "check",
    # It is another consumer's.
    "a machine that wakes late leaves the message": "work 1; enter; +3600; receive; pass 0; check",
    "twelve hours end while the message is hidden": "work 1; enter timeout_seconds=600; "
    f"pass {12 * HOUR - 1}; check; pass 1; check; receive; ends",
    "a receive whose timeout is over": "work 1; +31; enter received_timeout_seconds=-1; check",
}


@stored_rows("heartbeats", STORIES)
def test_messages_are_hidden_as_it_is_stored(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each story ends with the number of calls to SQS, the last ones, and with what was logged."""
    story = Story()
    story_text = story.tell(STORIES[name])

    logged = [f"log: {story.named(log_message)}" for log_message in caplog.messages]
    assert_stored("heartbeats", name, "\n".join([story_text, *logged]))
    handles = [message["ReceiptHandle"] for message in story.work.received]
    assert not [handle for handle in handles if handle in caplog.text]


@pytest.mark.parametrize("number", [0, 3601, float("nan")])
def test_number_out_of_range_is_refused(number: Any) -> None:
    with pytest.raises(SettingsError, match=r"timeout_seconds=\S+: must be from 1 to 3,600"):
        Work(count=0).beat(timeout_seconds=number)


@pytest.mark.parametrize(
    "received", [{}, {"MessageId": "m"}, {"ReceiptHandle": "r"}, Message("m", "body")]
)
def test_message_without_id_or_handle_is_refused(received: Any) -> None:
    with pytest.raises(MalformedMessageError, match="receipt handle"):
        Heartbeat(Work(count=0).client, "url", [received])


def test_core_messages_and_lambda_records_are_taken_too() -> None:
    work = Work(count=2)
    core = Message.from_received(work.received[0])
    work.received = [core, lambda_record(Message.from_received(work.received[1]))]  # type: ignore[list-item]
    with work.beat() as beat:
        work.pass_time(beat, 60)
        beat.check()


@pytest.mark.parametrize("options", [{}, {"model": PlainRecord}])
def test_batch_processor_shows_what_failed_and_hides_what_is_done(options: dict[str, Any]) -> None:
    work = Work(count=12)

    def handler(record: Any) -> None:
        # Longer than a timeout for all of them: what is done first waits for the last.
        work.pass_time(beat, 30)
        assert work.queue.receive() == []
        if record.body in ("3", "7"):
            raise ZeroDivisionError

    no_context: Any = None
    with work.beat() as beat:
        answer = process_partial_response(
            {"Records": [lambda_record(Message.from_received(raw)) for raw in work.received]},
            beat.guarded(handler),
            BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False, **options),
            no_context,
        )
        beat.give_up()

    failed_ids = [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]
    assert failed_ids == [work.ids[3], work.ids[7]]
    assert sorted(received["Body"] for received in work.queue.receive()) == ["3", "7"]


def test_handler_does_not_begin_on_a_message_that_was_lost() -> None:
    work = Work()
    with work.beat() as beat:
        work.clock.advance(HOUR)
        with pytest.raises(VisibilityLostError):
            beat.guarded(lambda record: pytest.fail(str(record)))(work.received[0])


def test_async_handler_is_done_when_it_ends_and_not_when_it_is_called() -> None:
    work = Work()

    async def run(beat: Heartbeat) -> None:
        async def handler(record: Any) -> str:
            await asyncio.sleep(0)
            beat.check(record["MessageId"])
            return "result"

        assert await beat.guarded(handler)(work.received[0]) == "result"
        work.clock.advance(HOUR)
        beat.check()

    with work.beat() as beat:
        asyncio.run(run(beat))


class SlowClient:
    """Confirms everything; from the second extension on, only after it was let through.

    Attributes:
        done: the timeouts that it set, in order.
    """

    def __init__(self) -> None:
        self.done: list[int] = []
        self.is_second_call = threading.Event()
        self.may_answer = threading.Event()

    def change_message_visibility_batch(self, **request: Any) -> Any:
        seconds = request["Entries"][0]["VisibilityTimeout"]
        if seconds and self.done:
            self.is_second_call.set()
            assert self.may_answer.wait(PATIENCE_SECONDS)
        self.done.append(seconds)
        return {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]]}


def beating(client: Any) -> Heartbeat:
    """Return a heartbeat with its thread, that extends as often as it can."""
    message = {"MessageId": "m", "ReceiptHandle": "r"}
    return Heartbeat(client, "url", [message], timeout_seconds=1, received_timeout_seconds=600)


@pytest.mark.parametrize("outcome", [nullcontext(), pytest.raises(ZeroDivisionError)])
def test_extension_on_its_way_does_not_hide_again_what_was_given_up(
    outcome: AbstractContextManager[object],
) -> None:
    client: Any = SlowClient()
    with outcome, beating(client) as beat:
        assert client.is_second_call.wait(PATIENCE_SECONDS)
        beat.check()
        threading.Timer(0.05, client.may_answer.set).start()
        if not isinstance(outcome, nullcontext):
            raise ZeroDivisionError
        beat.give_up()

    assert client.done[-1] == 0
    assert client.done.count(0) == 1


def test_thread_ends_with_the_block() -> None:
    client: Any = SlowClient()
    client.may_answer.set()
    others = {*threading.enumerate()}
    with beating(client):
        [thread] = {*threading.enumerate()} - others

    assert not thread.is_alive()
