from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from dlq_replay.decision import Park, ParkReason, Replay
from dlq_replay.events import UnreadableRecord
from dlq_replay.message import Message
from dlq_replay.policy import ReplayPolicy
from dlq_replay.replay import BatchOutcome, Failed, Fate, Replayer
from dlq_replay.sending import InDoubt, Refused, forever
from tests.builders import NOW, FakeQueue, counter, message, policy, queue_url, text

Build = Callable[..., Replayer]


@pytest.fixture
def main() -> FakeQueue:
    return FakeQueue(queue_url("main"))


@pytest.fixture
def parked() -> FakeQueue:
    return FakeQueue(queue_url("parked"))


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def build(main: FakeQueue, parked: FakeQueue, executor: Executor) -> Build:
    def make(rules: ReplayPolicy | None = None) -> Replayer:
        return Replayer(rules or policy(), main, parked, lambda: NOW, lambda top: top, executor)

    return make


def fates(outcome: BatchOutcome) -> dict[str, Fate]:
    return {one.message_id: one.fate for one in outcome.outcomes}


def failures(outcome: BatchOutcome) -> set[str]:
    response = outcome.to_partial_batch_response()
    return {item["itemIdentifier"] for item in response["batchItemFailures"]}


def test_fresh_letter_goes_to_main_and_exhausted_one_is_parked(
    build: Build, main: FakeQueue, parked: FakeQueue
) -> None:
    letters = [message("a", body="A"), message("b", body="B", attributes=counter("3"))]
    outcome = build().replay(letters, forever)

    assert fates(outcome) == {"a": Replay(1, 4), "b": Park(ParkReason.ATTEMPTS_EXHAUSTED)}
    assert ["A"] == [entry.body for entry in main.sent]
    assert ["B"] == [entry.body for entry in parked.sent]
    assert failures(outcome) == set()


def test_refused_letter_stays_and_the_others_go(build: Build, main: FakeQueue) -> None:
    main.refuses = {"B": Refused("InvalidMessageContents")}
    outcome = build().replay([message(i, body=i.upper()) for i in "abc"], forever)

    assert failures(outcome) == {"b"}
    assert fates(outcome)["b"] == Failed("refused", "InvalidMessageContents")


def test_lost_answer_leaves_the_letter_in_the_queue(build: Build, main: FakeQueue) -> None:
    main.refuses = {"A": InDoubt("ReadTimeoutError")}
    outcome = build().replay([message("a", body="A")], forever)

    assert fates(outcome) == {"a": Failed("in_doubt", "ReadTimeoutError")}


def test_park_that_is_refused_is_no_park(build: Build, parked: FakeQueue) -> None:
    parked.refuses = {"A": Refused("AccessDenied", "AccessDenied: no")}
    outcome = build(policy(max_attempts=0)).replay([message("a", body="A")], forever)

    assert fates(outcome) == {"a": Failed("refused", "AccessDenied: AccessDenied: no")}


def test_what_time_does_not_reach_stays(build: Build, main: FakeQueue) -> None:
    outcome = build().replay([message("a"), message("b")], lambda: 0.0)

    assert fates(outcome) == {"a": Failed("not_reached"), "b": Failed("not_reached")}
    assert main.calls == []


def test_unreadable_record_stays_and_says_why(build: Build) -> None:
    outcome = build().replay([UnreadableRecord("a", "body: missing"), message("b")], forever)

    assert fates(outcome) == {"a": Failed("unreadable", "body: missing"), "b": Replay(1, 4)}


def test_letter_that_stands_twice_in_a_batch_is_sent_once(build: Build, main: FakeQueue) -> None:
    outcome = build().replay([message("a"), message("a")], forever)

    assert len(main.sent) == 1
    assert len(outcome.outcomes) == 1


def test_empty_batch_is_done(build: Build) -> None:
    assert build().replay([], forever).to_partial_batch_response() == {"batchItemFailures": []}


def test_malformed_context_leaves_a_trace(build: Build) -> None:
    letter = message("a", attributes={"sqs-dlq-context": text("{")})
    (outcome,) = build().replay([letter], forever).outcomes

    assert outcome.fault == "sqs-dlq-context: not JSON"


def test_big_batch_travels_in_calls_of_ten(build: Build, main: FakeQueue) -> None:
    build().replay([message(f"m-{n}") for n in range(95)], forever)

    assert sorted(len(call) for call in main.calls) == [5, *[10] * 9]


FIFO = policy(main="main.fifo")


def grouped(name: str, **fields: object) -> Message:
    attributes = counter(str(fields["count"])) if "count" in fields else None
    return message(name, body=name.upper(), attributes=attributes, MessageGroupId=name[0])


def test_fifo_group_is_replayed_in_order(build: Build, main: FakeQueue) -> None:
    build(FIFO).replay([grouped(name) for name in ("a1", "b1", "a2", "a3")], forever)

    assert ["A1", "A2", "A3"] == [e.body for e in main.sent if e.message_group_id == "a"]
    assert all(len({e.message_group_id for e in call}) == len(call) for call in main.calls)


def test_fifo_group_waits_behind_an_unconfirmed_send(build: Build, main: FakeQueue) -> None:
    main.refuses = {"A2": InDoubt("lost")}
    outcome = build(FIFO).replay([grouped(n) for n in ("a1", "a2", "a3", "b1")], forever)

    assert failures(outcome) == {"a2", "a3"}


def test_fifo_group_waits_behind_a_park(build: Build, main: FakeQueue) -> None:
    letters = [grouped("a1", count=3), grouped("a2"), grouped("b1")]
    outcome = build(FIFO).replay(letters, forever)

    assert fates(outcome)["a1"] == Park(ParkReason.ATTEMPTS_EXHAUSTED)
    assert fates(outcome)["a2"] == Failed("group_waits")
    assert ["B1"] == [entry.body for entry in main.sent]


def test_fifo_group_waits_behind_an_unreadable_record(build: Build) -> None:
    records: list[Message | UnreadableRecord] = [
        UnreadableRecord("a1", "bad", "a"),
        grouped("a2"),
        grouped("b1"),
    ]
    outcome = build(FIFO).replay(records, forever)

    assert failures(outcome) == {"a1", "a2"}


def test_fifo_letter_without_a_group_stays_with_an_error(build: Build, main: FakeQueue) -> None:
    outcome = build(FIFO).replay([message("a"), grouped("b1")], forever)

    assert fates(outcome)["a"] == Failed("no_group", "a FIFO queue needs MessageGroupId")
    assert ["B1"] == [entry.body for entry in main.sent]
