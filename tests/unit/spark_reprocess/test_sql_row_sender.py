from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from dlq_replay.message import SendEntry
from dlq_replay.retry import Retry
from dlq_replay.sending import Confirmed, InDoubt, Refused, SendResult
from spark_reprocess.sql.writer import BACKOFF, BEHIND, RowSender
from tests.builders import queue_url


@dataclass
class Moody:
    """Answers each body with its next mood, and confirms when there is none left."""

    moods: dict[str, list[SendResult]] = field(default_factory=dict)
    url: str = queue_url("main")
    arrived: list[str] = field(default_factory=list)

    def send(self, entries: Sequence[SendEntry]) -> list[SendResult]:
        return [self._answer(entry.body) for entry in entries]

    def _answer(self, body: str) -> SendResult:
        moods = self.moods.get(body, [])
        answer = moods.pop(0) if moods else Confirmed("copy")
        if not isinstance(answer, Refused):
            self.arrived.append(body)
        return answer


@dataclass
class Bench:
    executor: ThreadPoolExecutor
    pauses: list[float] = field(default_factory=list)

    def sender(self, queue: Moody, *, is_fifo: bool = False, attempts: int = 3) -> RowSender:
        retry = Retry(attempts, BACKOFF, self.pauses.append, lambda: 1.0)
        return RowSender(queue, self.executor, is_fifo, retry)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with ThreadPoolExecutor(4) as executor:
        yield Bench(executor)


def rows(*bodies: str, group: str | None = None) -> list[dict[str, Any]]:
    return [{"body": body, "message_group_id": group} for body in bodies]


THROTTLED = Refused("ThrottlingException")
LOST = InDoubt("ReadTimeoutError")


def test_every_row_is_sent(bench: Bench) -> None:
    queue = Moody()
    bodies = [f"body {number}" for number in range(250)]

    counts = bench.sender(queue).send_all(rows(*bodies))

    assert (counts.sent, counts.faults.total(), counts.in_doubt) == (250, 0, 0)
    assert sorted(queue.arrived) == sorted(bodies)
    assert bench.pauses == []


def test_what_is_refused_is_sent_again_after_longer_and_longer_pauses(bench: Bench) -> None:
    queue = Moody({"a": [THROTTLED, THROTTLED]})

    counts = bench.sender(queue).send_all(rows("a", "b"))

    assert (counts.sent, counts.faults.total()) == (2, 0)
    assert queue.arrived.count("b") == 1
    assert bench.pauses == pytest.approx([0.4, 0.8])


def test_what_stays_refused_fails_alone(bench: Bench) -> None:
    queue = Moody({"a": [THROTTLED] * 3})

    counts = bench.sender(queue).send_all(rows("a", "b"))

    assert (counts.sent, dict(counts.faults)) == (1, {"ThrottlingException": 1})
    assert counts.in_doubt == 0


def test_a_lost_answer_is_sent_again_because_it_must_arrive(bench: Bench) -> None:
    queue = Moody({"a": [LOST]})

    counts = bench.sender(queue).send_all(rows("a"))

    assert (counts.sent, counts.in_doubt) == (1, 0)
    assert queue.arrived == ["a", "a"]


def test_answers_that_stay_lost_are_in_doubt(bench: Bench) -> None:
    queue = Moody({"a": [THROTTLED, LOST, THROTTLED]})

    counts = bench.sender(queue).send_all(rows("a"))

    assert (counts.sent, counts.faults.total(), counts.in_doubt) == (0, 1, 1)


def test_a_bad_row_stops_nobody(bench: Bench) -> None:
    queue = Moody()

    counts = bench.sender(queue).send_all([{"body": ""}, *rows("a")])

    assert queue.arrived == ["a"]
    assert dict(counts.faults) == {"body: is null or empty; SQS takes 1 character or more": 1}


def test_a_fifo_group_stops_behind_what_failed_and_others_go_on(bench: Bench) -> None:
    queue = Moody({"a2": [THROTTLED] * 3})
    many = [f"a{number}" for number in range(3, 150)]

    sender = bench.sender(queue, is_fifo=True)
    counts = sender.send_all([*rows("a1", "a2", *many, group="a"), *rows("b1", "b2", group="b")])

    assert queue.arrived == ["a1", "b1", "b2"]
    assert counts.faults == {"ThrottlingException": 1, BEHIND: 147}


def test_a_fifo_group_keeps_its_order_through_retries(bench: Bench) -> None:
    queue = Moody({"a2": [THROTTLED], "a3": [THROTTLED]})

    bench.sender(queue, is_fifo=True).send_all(rows("a1", "a2", "a3", "a4", group="a"))

    assert queue.arrived == ["a1", "a2", "a3", "a4"]


def test_a_bad_row_stops_its_fifo_group_too(bench: Bench) -> None:
    queue = Moody()

    counts = bench.sender(queue, is_fifo=True).send_all(rows("a1", "", "a3", group="a"))

    assert queue.arrived == ["a1"]
    assert counts.faults.total() == 2
