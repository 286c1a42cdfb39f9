import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace

import pytest

from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import CONTEXT_ATTRIBUTE, FailureError
from dlq_replay.decision import Hold, Park, ParkReason, Replay
from dlq_replay.events import UnreadableRecord
from dlq_replay.failures import Failure
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message
from dlq_replay.plan import Failed, Fate, Wait
from dlq_replay.policy import ReplayPolicy
from dlq_replay.replay import BatchOutcome, Replayer
from dlq_replay.sending import InDoubt, Refused, SendResult, forever
from tests.builders import (
    NOW,
    FakeQueue,
    context,
    context_of,
    counter,
    message,
    policy,
    queue_arn,
    queue_url,
    text,
)

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
def dlq() -> FakeQueue:
    return FakeQueue(queue_url("dlq"))


@pytest.fixture
def build(main: FakeQueue, dlq: FakeQueue, parked: FakeQueue, executor: Executor) -> Build:
    def make(rules: ReplayPolicy | None = None) -> Replayer:
        rules = rules or policy()
        return Replayer(rules, main, dlq, parked, lambda: NOW, lambda top: top, executor)

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


@pytest.mark.parametrize(
    ("count", "answer", "fate"),
    [
        ("0", Refused("InvalidMessageContents"), Failed("refused", "InvalidMessageContents")),
        ("0", InDoubt("ReadTimeoutError"), Failed("in_doubt", "ReadTimeoutError")),
        ("3", Refused("AccessDenied", "AccessDenied: no"), Failed("refused", "AccessDenied: no")),
    ],
    ids=["refused", "lost answer", "refused park"],
)
def test_letter_whose_send_is_not_confirmed_stays_and_the_others_go(
    build: Build, main: FakeQueue, parked: FakeQueue, count: str, answer: SendResult, fate: Fate
) -> None:
    main.refuses = parked.refuses = {"B": answer}
    letters = [message(i, body=i.upper(), attributes=counter(count)) for i in "abc"]
    outcome = build().replay(letters, forever)

    assert failures(outcome) == {"b"}
    assert fates(outcome)["b"] == fate


def test_unreadable_record_stays_and_says_why(build: Build) -> None:
    outcome = build().replay([UnreadableRecord("a", "body: missing"), message("b")], forever)

    assert fates(outcome) == {"a": Failed("unreadable", "body: missing"), "b": Replay(1, 4)}


def test_letter_that_stands_twice_in_a_batch_is_sent_once(build: Build, main: FakeQueue) -> None:
    outcome = build().replay([message("a"), message("a")], forever)

    assert len(main.sent) == 1
    assert len(outcome.outcomes) == 1


FITS = context(first_id="first", source_queue="main")
OF_MAIN = {"DeadLetterQueueSourceArn": queue_arn("main")}


@pytest.mark.parametrize(
    ("count", "ours", "system", "number", "first_id"),
    [
        ("2", FITS, OF_MAIN, 3, "first"),
        ("2", FITS, {}, 3, "first"),
        ("2", context("another body", first_id="first"), OF_MAIN, 1, "a"),
        ("2", context(first_id="first", body_digest=None), OF_MAIN, 1, "a"),
        ("2", context(first_id="first", source_queue="other"), OF_MAIN, 1, "a"),
        ("2", {CONTEXT_ATTRIBUTE: text("{}")}, OF_MAIN, 1, "a"),
        ("junk", context("another body"), OF_MAIN, 1, "a"),
        ("2", {}, OF_MAIN, 3, "a"),
        ("2", {CONTEXT_ATTRIBUTE: text("{")}, OF_MAIN, 3, "a"),
        ("2", {CONTEXT_ATTRIBUTE: text(f'{{"h":"{"0" * 2000}"}}')}, OF_MAIN, 3, "a"),
    ],
)
def test_history_counts_only_beside_its_own_body_and_in_its_own_queue(
    build: Build,
    main: FakeQueue,
    count: str,
    ours: dict[str, MessageAttribute],
    system: dict[str, str],
    number: int,
    first_id: str,
) -> None:
    build().replay([message("a", attributes={**counter(count), **ours}, **system)], forever)

    (entry,) = main.sent
    assert entry.attributes[REPLAY_COUNT_ATTRIBUTE].value == str(number)
    assert context_of(entry).first_id == first_id


def test_copy_that_waits_or_is_parked_takes_no_counter_of_another_message_along(
    build: Build, dlq: FakeQueue, parked: FakeQueue
) -> None:
    inherited = {**counter("2"), **context("another body", first_id="parent", plan_id="p")}
    letter = message("a", attributes=inherited)
    build(policy(rate_seconds=4000, cap_seconds=9000)).replay([letter], forever)
    build(policy(max_attempts=0)).replay([letter], forever)

    for entry in (*dlq.sent, *parked.sent):
        assert REPLAY_COUNT_ATTRIBUTE not in entry.attributes
        assert (context_of(entry).first_id, context_of(entry).plan_id) == ("a", None)
    assert len(dlq.sent) == len(parked.sent) == 1


def test_malformed_context_leaves_a_trace(build: Build) -> None:
    letter = message("a", attributes={"sqs-dlq-context": text("{")})
    (outcome,) = build().replay([letter], forever).outcomes

    assert outcome.fault == "sqs-dlq-context: not JSON"


FIFO = policy(main="main.fifo")


def grouped(name: str, **fields: object) -> Message:
    attributes = counter(str(fields["count"])) if "count" in fields else None
    return message(name, body=name.upper(), attributes=attributes, MessageGroupId=name[0])


def test_fifo_group_waits_behind_an_unconfirmed_send(build: Build, main: FakeQueue) -> None:
    """Or behind a record that cannot be read."""
    main.refuses = {"A2": InDoubt("lost")}
    unreadable = UnreadableRecord("c1", "bad", "c")
    letters = [grouped(n) for n in ("a1", "a2", "a3", "b1", "c2")]
    outcome = build(FIFO).replay([unreadable, *letters], forever)

    assert failures(outcome) == {"a2", "a3", "c1", "c2"}


def test_fifo_group_waits_behind_a_park_and_is_shown(
    build: Build, main: FakeQueue, dlq: FakeQueue
) -> None:
    letters = [grouped("a1", count=3), grouped("a2"), grouped("b1")]
    outcome = build(FIFO).replay(letters, forever)

    assert fates(outcome)["a1"] == Park(ParkReason.ATTEMPTS_EXHAUSTED)
    assert fates(outcome)["a2"] == Wait()
    assert ["B1"] == [entry.body for entry in main.sent]


def test_fifo_letter_without_a_group_stays_with_an_error(build: Build, main: FakeQueue) -> None:
    outcome = build(FIFO).replay([message("a"), grouped("b1")], forever)

    assert fates(outcome)["a"] == Failed("no_group", "a FIFO queue needs MessageGroupId")
    assert ["B1"] == [entry.body for entry in main.sent]


HOURS = policy(rate_seconds=7200, cap_seconds=86_400)


def test_long_wait_is_spent_in_the_dlq(build: Build, main: FakeQueue, dlq: FakeQueue) -> None:
    dlq.refuses = {"B": Refused("AccessDenied")}
    refused = build(HOURS).replay([message("b", body="B")], forever)
    assert fates(refused) == {"b": Failed("refused", "AccessDenied")}

    outcome = build(HOURS).replay([message("a", attributes=counter("1"))], forever)

    (copy,) = dlq.sent
    assert fates(outcome) == {"a": Hold(2, NOW + 28_800, 900)}
    assert failures(outcome) == set()
    assert main.sent == []
    assert copy.delay_seconds == 900
    assert context_of(copy).due_seconds == NOW + 28_800
    assert copy.attributes["sqs-dlq-replay-nb"].value == "1"


FIFO_HOURS = policy(main="main.fifo", rate_seconds=7200, cap_seconds=86_400)


def fresh(name: str) -> Message:
    return message(name, body=name.upper(), MessageGroupId=name[0], SentTimestamp=f"{NOW}000")


def due(name: str) -> Message:
    """A letter whose wait is over, whatever its draw was."""
    sent = NOW - 90_000
    return message(name, body=name.upper(), MessageGroupId=name[0], SentTimestamp=f"{sent}000")


def test_fifo_head_is_hidden_and_its_group_shown(
    build: Build, main: FakeQueue, dlq: FakeQueue
) -> None:
    outcome = build(FIFO_HOURS).replay([fresh(n) for n in ("a1", "a2", "a3")], forever)

    hold = fates(outcome)["a1"]
    assert isinstance(hold, Hold)
    assert dlq.visibility == [("a1", hold.wait_seconds), ("a2", 0), ("a3", 0)]
    assert failures(outcome) == {"a1", "a2", "a3"}
    assert main.sent == []
    assert dlq.sent == []


def test_fifo_group_is_not_shown_when_the_hold_is_not_confirmed(
    build: Build, dlq: FakeQueue
) -> None:
    dlq.stuck = frozenset({"a1"})
    outcome = build(FIFO_HOURS).replay([fresh("a1"), fresh("a2")], forever)

    assert fates(outcome)["a1"] == Failed("not_reached", "its hold was not confirmed")
    assert failures(outcome) == {"a1", "a2"}
    assert dlq.visibility == []


def test_fifo_head_is_held_once_what_went_before_is_sent(
    build: Build, main: FakeQueue, dlq: FakeQueue
) -> None:
    outcome = build(FIFO_HOURS).replay([due("a1"), fresh("a2")], forever)

    assert [entry.body for entry in main.sent] == ["A1"]
    assert [message_id for message_id, _ in dlq.visibility] == ["a2"]
    assert failures(outcome) == {"a2"}


def test_fifo_head_is_not_held_behind_an_unconfirmed_send(
    build: Build, main: FakeQueue, dlq: FakeQueue
) -> None:
    main.refuses = {"A1": InDoubt("lost")}
    outcome = build(FIFO_HOURS).replay([due("a1"), fresh("a2")], forever)

    assert failures(outcome) == {"a1", "a2"}
    assert dlq.visibility == []


class SilentQueue(FakeQueue):
    """Answers a change of visibility only when released."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.released = threading.Event()

    def change_visibility(self, changes: Sequence[tuple[Message, int]]) -> list[Message]:
        self.released.wait(30)
        return super().change_visibility(changes)


def test_hold_whose_answer_does_not_come_does_not_keep_the_batch(build: Build) -> None:
    silent = SilentQueue(queue_url("dlq"))
    outcome = replace(build(FIFO_HOURS), dlq=silent).replay([fresh("a1")], lambda: 0.05)
    silent.released.set()

    assert fates(outcome)["a1"] == Failed("not_reached", "its hold was not confirmed")
    assert failures(outcome) == {"a1"}


def test_fifo_head_is_not_held_when_time_is_up(build: Build, dlq: FakeQueue) -> None:
    outcome = build(FIFO_HOURS).replay([fresh("a1")], lambda: 0.0)

    assert failures(outcome) == {"a1"}
    assert dlq.visibility == []


def test_reasons_are_looked_up_once_and_travel_with_the_parked(
    build: Build, parked: FakeQueue, main: FakeQueue
) -> None:
    asked: list[Sequence[str]] = []

    def find(message_ids: Sequence[str]) -> dict[str, Failure]:
        asked.append(message_ids)
        late = Failure("c", "TimeoutError", "slow")
        return {"a": Failure("a", "orders.BadAddress", "no such street"), "c": late}

    rules = replace(policy(), non_retryable_errors=("BadAddress",))
    replayer = replace(build(rules), find_failures=find)
    letters = [message("a"), message("b"), message("c", attributes=counter("3"))]
    outcome = replayer.replay(letters, forever)

    assert asked == [["a", "b", "c"]]
    assert fates(outcome) == {
        "a": Park(ParkReason.NON_RETRYABLE),
        "b": Replay(1, 4),
        "c": Park(ParkReason.ATTEMPTS_EXHAUSTED),
    }
    copies = [context_of(copy) for copy in parked.sent]
    assert sorted((str(copy.reason), copy.error) for copy in copies) == [
        ("attempts_exhausted", FailureError("TimeoutError", "slow")),
        ("non_retryable", FailureError("orders.BadAddress", "no such street")),
    ]
