import pytest

from dlq_replay.attributes import MessageAttribute
from dlq_replay.decision import Decision, Park, ParkReason, Replay, decide
from dlq_replay.message import Message
from dlq_replay.policy import ReplayPolicy
from tests.builders import NOW, context, counter, filler, message, policy, queue_arn, text


def decide_with_highest_draw(letter: Message, rules: ReplayPolicy) -> Decision:
    return decide(letter, rules, NOW, lambda ceiling: ceiling)


def test_first_replay_waits_up_to_twice_the_rate() -> None:
    assert Replay(1, 4) == decide_with_highest_draw(message(), policy(rate_seconds=2))


def test_replay_number_is_one_above_the_counter() -> None:
    letter = message(attributes=counter("2"))

    assert Replay(3, 16) == decide_with_highest_draw(letter, policy())


def test_ceiling_is_clamped_to_the_message_timer_before_the_draw() -> None:
    letter = message(attributes=counter("20"))
    rules = policy(max_attempts=30, cap_seconds=86_400)

    assert Replay(21, 450) == decide(letter, rules, NOW, lambda ceiling: ceiling // 2)


@pytest.mark.parametrize("source", ["main", None])
def test_message_of_the_main_queue_or_of_no_queue_is_replayed(source: str | None) -> None:
    letter = message(DeadLetterQueueSourceArn=queue_arn(source)) if source else message()

    assert isinstance(decide_with_highest_draw(letter, policy()), Replay)


@pytest.mark.parametrize("arn", [queue_arn("other"), "arn:aws:sns:r:1:main", "nonsense", ""])
def test_message_of_another_source_is_parked(arn: str) -> None:
    letter = message(DeadLetterQueueSourceArn=arn)

    assert Park(ParkReason.FOREIGN_SOURCE) == decide_with_highest_draw(letter, policy())


def test_queue_of_the_same_name_in_another_account_is_foreign() -> None:
    letter = message(DeadLetterQueueSourceArn="arn:aws:sqs:us-east-1:999999999999:main")

    assert Park(ParkReason.FOREIGN_SOURCE) == decide_with_highest_draw(letter, policy())


@pytest.mark.parametrize("value", ["-1", "1.5", "one", "", "1e3", " 1", "٣", "9" * 39])
def test_counter_that_is_no_whole_number_is_parked(value: str) -> None:
    letter = message(attributes=counter(value))

    assert Park(ParkReason.INVALID_COUNTER) == decide_with_highest_draw(letter, policy())


def test_binary_counter_is_parked() -> None:
    letter = message(attributes={"sqs-dlq-replay-nb": MessageAttribute("Binary", b"1")})

    assert Park(ParkReason.INVALID_COUNTER) == decide_with_highest_draw(letter, policy())


@pytest.mark.parametrize("count", ["3", "4", "1000000", "9" * 38])
def test_exhausted_message_is_parked(count: str) -> None:
    letter = message(attributes=counter(count))

    assert Park(ParkReason.ATTEMPTS_EXHAUSTED) == decide_with_highest_draw(letter, policy())


def test_max_attempts_of_zero_parks_at_once() -> None:
    rules = policy(max_attempts=0)

    assert Park(ParkReason.ATTEMPTS_EXHAUSTED) == decide_with_highest_draw(message(), rules)


@pytest.mark.parametrize(("age", "is_parked"), [(100, False), (101, True), (-50, False)])
def test_age_above_the_limit_is_parked(age: int, is_parked: bool) -> None:
    letter = message(attributes=context(first_seen_seconds=NOW - age))
    decision = decide_with_highest_draw(letter, policy(max_age_seconds=100))

    assert is_parked == (decision == Park(ParkReason.TOO_OLD))


def test_message_seen_for_the_first_time_is_never_too_old() -> None:
    rules = policy(max_age_seconds=1)

    assert isinstance(decide_with_highest_draw(message(SentTimestamp="0"), rules), Replay)


@pytest.mark.parametrize(("own", "is_parked"), [(9, False), (10, True)])
def test_message_with_ten_own_attributes_has_no_room(own: int, is_parked: bool) -> None:
    decision = decide_with_highest_draw(message(attributes=filler(own)), policy())

    assert is_parked == (decision == Park(ParkReason.NO_ROOM))


def test_context_gives_way_to_the_counter() -> None:
    letter = message(attributes={**filler(9), **context(first_id="a")})

    assert isinstance(decide_with_highest_draw(letter, policy()), Replay)


@pytest.mark.parametrize(("spare", "is_parked"), [(0, False), (-1, True)])
def test_message_at_the_size_limit_has_no_room(spare: int, is_parked: bool) -> None:
    counter_bytes = len("sqs-dlq-replay-nb" + "Number" + "1")
    rules = policy(max_message_bytes=100 + counter_bytes + spare)
    decision = decide_with_highest_draw(message(body="x" * 100), rules)

    assert is_parked == (decision == Park(ParkReason.NO_ROOM))


@pytest.mark.parametrize(
    ("due", "delay"),
    [(NOW + 3, 3), (NOW - 60, 0), (NOW + 4, 4), (NOW + 5, 4)],
    ids=["kept", "passed", "at the ceiling", "beyond the ceiling is drawn anew"],
)
def test_stored_due_is_kept_within_the_ceiling(due: int, delay: int) -> None:
    letter = message(attributes=context(due_seconds=due))

    assert Replay(1, delay) == decide_with_highest_draw(letter, policy())


def test_malformed_context_counts_as_none() -> None:
    letter = message(attributes={"sqs-dlq-context": text("{")})

    assert Replay(1, 4) == decide_with_highest_draw(letter, policy(max_age_seconds=1))


def test_fifo_replay_carries_no_delay() -> None:
    letter = message(MessageGroupId="g")

    assert Replay(1, 0) == decide_with_highest_draw(letter, policy(main="main.fifo"))


def test_rules_apply_in_their_order() -> None:
    everything_wrong = message(
        attributes={**filler(10), **counter("x")}, DeadLetterQueueSourceArn=queue_arn("other")
    )
    rules = policy(max_attempts=0, max_age_seconds=1)

    assert Park(ParkReason.FOREIGN_SOURCE) == decide_with_highest_draw(everything_wrong, rules)
