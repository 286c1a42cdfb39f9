from collections.abc import Sequence
from dataclasses import replace

import pytest

from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.message import Message, SendEntry
from local_sqs.clock import VirtualClock
from local_sqs.model import SqsModel
from local_sqs.model_queue import ModelQueue
from spark_reprocess.sql.options import PeekOptions
from spark_reprocess.sql.source import Peek


def options(**changes: int | bool) -> PeekOptions:
    return PeekOptions("https://host/1/parked", **{"wait_seconds": 0, **changes})  # type: ignore[arg-type]


def filled(count: int, name: str = "parked", **attributes: str) -> ModelQueue:
    queue = ModelQueue(SqsModel(VirtualClock()), name, **attributes)
    is_fifo = name.endswith(".fifo")
    for number in range(count):
        entry = SendEntry(f"body {number}")
        if is_fifo:
            entry = replace(entry, message_group_id="g", deduplication_id=str(number))
        queue.send([entry])
    return queue


def bodies(look: Peek) -> list[str]:
    return [one.body for batch in look.batches() for one in batch]


def count(queue: ModelQueue, name: str) -> int:
    return int(queue.describe()[f"ApproximateNumberOf{name}"])


def test_it_sees_every_message_once_and_deletes_none() -> None:
    queue = filled(25)

    assert sorted(bodies(Peek(queue, options()))) == sorted(f"body {n}" for n in range(25))
    assert count(queue, "Messages") == 25


def test_it_stops_at_the_limit() -> None:
    queue = filled(25)

    assert len(bodies(Peek(queue, options(limit=12)))) == 12


def test_what_was_seen_is_visible_again_afterwards() -> None:
    queue = filled(5)

    bodies(Peek(queue, options()))

    assert count(queue, "MessagesNotVisible") == 0


def test_unless_the_options_keep_it_hidden() -> None:
    queue = filled(5)

    bodies(Peek(queue, options(gives_back=False)))

    assert count(queue, "MessagesNotVisible") == 5


def test_a_look_that_is_broken_off_gives_back_what_it_received() -> None:
    queue = filled(25)
    batches = Peek(queue, options()).batches()

    next(batches)
    batches.close()  # type: ignore[attr-defined]

    assert count(queue, "MessagesNotVisible") == 0


def test_of_a_fifo_group_the_first_ten_are_seen_in_order() -> None:
    queue = filled(25, "parked.fifo", FifoQueue="true")

    assert bodies(Peek(queue, options())) == [f"body {n}" for n in range(10)]


class Scripted:
    """Answers each receive with the next of a list, then nothing."""

    def __init__(self, *answers: list[Message | MalformedMessageError] | QueueError) -> None:
        self.answers = list(answers)
        self.given_back: list[str] = []

    def receive(self, **_: object) -> list[Message | MalformedMessageError]:
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, QueueError):
            raise answer
        return answer

    def change_visibility(self, changes: Sequence[tuple[Message, int]]) -> list[Message]:
        self.given_back += [f"{one.receipt_handle}:{seconds}" for one, seconds in changes]
        return []


def received(number: int, receipt: str = "r") -> Message:
    return Message(f"m-{number}", "body", receipt_handle=f"{receipt}-{number}")


def test_an_empty_answer_is_not_an_empty_queue() -> None:
    queue = Scripted([received(1)], [], [received(2)])

    assert len(bodies(Peek(queue, options()))) == 2


def test_a_message_that_comes_again_is_seen_once_and_given_back_by_its_latest_receipt() -> None:
    queue = Scripted([received(1)], [received(1, "later"), received(2)])

    assert len(bodies(Peek(queue, options()))) == 2
    assert queue.given_back == ["later-1:0", "r-2:0"]


def test_a_queue_that_only_repeats_itself_does_not_hold_the_look_forever() -> None:
    again: list[Message | MalformedMessageError] = [received(1)]
    queue = Scripted(*[again] * 50)

    assert len(bodies(Peek(queue, options()))) == 1
    assert len(queue.answers) == 47


def test_an_unreadable_message_stops_nobody_and_leaves_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = Scripted([MalformedMessageError("message m-9: Body is missing"), received(1)])

    assert len(bodies(Peek(queue, options()))) == 1
    assert "m-9" in caplog.text


def test_an_error_gives_back_what_came_before_it() -> None:
    queue = Scripted([received(1)], QueueError("receiving: AccessDenied"))

    with pytest.raises(QueueError, match="AccessDenied"):
        bodies(Peek(queue, options()))
    assert queue.given_back == ["r-1:0"]
