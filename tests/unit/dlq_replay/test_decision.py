from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from dlq_replay.rules.breaker import BreakerView, rules_for
from dlq_replay.rules.decision import (
    Decision,
    Hold,
    Park,
    ParkReason,
    Replay,
    decide,
    hold_by_breaker,
)
from dlq_replay.rules.failures import Failure
from dlq_replay.rules.policy import QueueLimits, ReplayPolicy
from dlq_replay.wire.attributes import Attributes, MessageAttribute
from dlq_replay.wire.message import Message
from tests.support.builders import (
    NOW,
    context,
    counter,
    filler,
    message,
    policy,
    queue_address,
    queue_arn,
    text,
)


def decide_with_highest_draw(letter: Message, rules: ReplayPolicy) -> Decision:
    return decide(letter, rules, NOW, lambda ceiling: ceiling)


def moved_from(source_arn: str, **fields: Any) -> Message:
    return message(DeadLetterQueueSourceArn=source_arn, **fields)


def half(ceiling: int) -> int:
    return ceiling // 2


def held(due_seconds: int) -> Message:
    return message(attributes={**counter("1"), **context(first_id="a", due_seconds=due_seconds)})


HOURS: dict[str, Any] = {"rate_seconds": 43_200, "cap_seconds": 86_400}


@pytest.mark.parametrize(
    ("letter", "limits", "drawn", "decision"),
    [
        # A wait above the message timer is held.
        (message(), {}, 900, Replay(1, 900)),
        (message(), {}, 901, Hold(1, NOW + 901, 900)),
        (message(), {}, 86_400, Hold(1, NOW + 86_400, 900)),
        # What was held goes on with its due, and draws nothing.
        (held(NOW + 5000), {}, None, Hold(2, NOW + 5000, 900)),
        (held(NOW + 901), {}, None, Hold(2, NOW + 901, 900)),
        (held(NOW + 900), {}, None, Replay(2, 900)),
        (held(NOW - 9), {}, None, Replay(2, 0)),
        # Without room for the context, or in a DLQ that can hold nothing, the ceiling is clamped.
        (message(attributes=filler(9)), {}, half, Replay(1, 450)),
        (message(), {"dlq_retention_seconds": 300}, half, Replay(1, 450)),
        # The copy outlives its timer in a short-lived queue.
        (message(), {"main_retention_seconds": 600}, 300, Replay(1, 300)),
        (message(), {"main_retention_seconds": 600}, 301, Hold(1, NOW + 301, 301)),
        (message(), {"dlq_retention_seconds": 500}, 5000, Hold(1, NOW + 5000, 200)),
    ],
)
def test_waits_on_standard_queues(
    letter: Message,
    limits: dict[str, Any],
    drawn: int | Callable[[int], int] | None,
    decision: Decision,
) -> None:
    def draw(ceiling: int) -> int:
        assert drawn is not None, "drew again"
        return drawn if isinstance(drawn, int) else drawn(ceiling)

    assert decide(letter, policy(**HOURS, **limits), NOW, draw) == decision


def test_each_queue_has_its_own_limits() -> None:
    late = message(attributes=counter("8"), DeadLetterQueueSourceArn=queue_arn("invoices"))
    patient = replace(INVOICES, max_attempts=20)

    assert decide_with_highest_draw(late, patient) == Hold(9, NOW + 900, 900)
    large = message(body="x" * 190, DeadLetterQueueSourceArn=queue_arn("invoices"))
    assert Park(ParkReason.NO_ROOM) == decide_with_highest_draw(large, INVOICES)
    ours = message(body="x" * 190, DeadLetterQueueSourceArn=queue_arn("main"))
    assert isinstance(decide_with_highest_draw(ours, SHARED), Replay)


def test_the_policy_of_each_queue_knows_all_the_others() -> None:
    main = SHARED.main_queue

    assert INVOICES.of(main) == SHARED
    assert SHARED.of(main) == SHARED
    assert SHARED.of(None) == SHARED
    assert SHARED.of(queue_address("payments")) == SHARED


@pytest.mark.parametrize(
    ("patterns", "error_type", "is_parked"),
    [
        (("ValidationError",), "ValidationError", True),
        (("ValidationError",), "TimeoutError", False),
        ((), "ValidationError", False),
    ],
)
def test_recorded_error_that_no_retry_can_resolve_is_parked(
    *, patterns: tuple[str, ...], error_type: str, is_parked: bool
) -> None:
    rules = replace(policy(), non_retryable_errors=patterns)
    decision = decide(message(), rules, NOW, lambda top: top, Failure("m-1", error_type))

    assert is_parked == (decision == Park(ParkReason.NON_RETRYABLE))


FIFO = policy(main="main.fifo", max_attempts=9, rate_seconds=7200, cap_seconds=172_800)


def look(letter: Message, seconds_later: int = 0, rules: ReplayPolicy = FIFO) -> Decision:
    return decide(letter, rules, NOW + seconds_later, lambda _: pytest.fail("not reproducible"))


def entered(message_id: str = "m-1", count: str = "4") -> Message:
    return message(
        message_id, attributes=counter(count), MessageGroupId="g", SentTimestamp=f"{NOW}000"
    )


def test_every_look_at_a_fifo_letter_computes_the_same_due() -> None:
    first = look(entered())

    assert isinstance(first, Hold)
    wait = first.due_seconds - NOW
    assert look(entered(), wait - 1) == Hold(5, first.due_seconds, 1)
    assert look(entered(), wait) == Replay(5, 0)
    assert look(entered(), wait + 999) == Replay(5, 0)


def test_fifo_draw_differs_by_copy_and_by_number() -> None:
    copies = [entered(message_id, count) for message_id in ("m-1", "m-2") for count in "45"]
    looks = [look(copy) for copy in copies]

    assert len({held.due_seconds for held in looks if isinstance(held, Hold)}) == 4


def test_fifo_hold_is_cut_into_looks_of_eleven_hours() -> None:
    looks = [look(entered(f"m-{n}")) for n in range(50)]

    assert max(held.wait_seconds for held in looks if isinstance(held, Hold)) == 39_600


def test_fifo_letter_that_would_expire_goes_on_as_if_due() -> None:
    first = look(entered())
    assert isinstance(first, Hold)
    wait = first.due_seconds - NOW

    def with_retention(seconds: int) -> ReplayPolicy:
        return replace(FIFO, limits=QueueLimits(dlq_retention_seconds=seconds))

    # Its retention began when it entered, however late the look.
    for seconds_later in (0, wait - 1):
        look_then = partial(look, entered(), seconds_later)
        assert isinstance(look_then(with_retention(wait + 300)), Hold)
        assert look_then(with_retention(wait + 299)) == Replay(5, 0)


HOUR = 3600
LIMITED = {"limit": 1, "since": NOW - 2 * HOUR, "began": NOW - 20 * HOUR, f"x{NOW // 60}": 1}


def hold(letter: Message, main: str = "main", **limits: Any) -> Hold | None:
    """Return what a limit of 1 makes of a replay that is due, with the longest draw."""
    rules = policy(main, **limits)
    view = BreakerView(LIMITED, NOW, rules_for(rules.main_queue, 5))
    return hold_by_breaker(letter, Replay(1, 0), rules, lambda top: top, view)


@pytest.mark.parametrize(
    ("hours", "is_held"), [(0, True), (10.99, True), (12, False), (300, False)]
)
def test_limits_touch_a_message_for_11_to_12_hours(hours: float, *, is_held: bool) -> None:
    """Then it goes on, and is not held again."""
    touched = message(attributes=context(held_seconds=NOW - int(hours * HOUR)))

    assert (hold(touched) is not None) is is_held


def test_a_time_of_the_future_holds_a_message_for_no_longer() -> None:
    """Any producer can write one."""
    forged = message(attributes=context(held_seconds=NOW + 99 * HOUR))

    assert hold(forged) == Hold(1, NOW + 900, 900, by_breaker=True)


@pytest.mark.parametrize(("seconds_left", "is_held"), [(1200, True), (1199, False)])
def test_on_fifo_what_would_expire_while_it_is_hidden_is_not_held(
    seconds_left: int, *, is_held: bool
) -> None:
    """A message that is days old: a hold hides it for 15 minutes, and a poller needs five more."""
    retention = 1_209_600
    sent = NOW - retention + seconds_left
    letter = message(
        attributes=context(held_seconds=NOW - HOUR),
        SentTimestamp=f"{sent}000",
        ApproximateReceiveCount="9",
        MessageGroupId="g",
    )

    assert (hold(letter, "main.fifo", dlq_retention_seconds=retention) is not None) is is_held


@pytest.mark.parametrize("system", [{}, {"SentTimestamp": "soon"}, {"SentTimestamp": "9" * 19}])
def test_fifo_letter_without_a_readable_time_goes_on(system: dict[str, str]) -> None:
    assert look(Message("m", "x", system=system)) == Replay(1, 0)


def test_fifo_letter_needs_no_room_for_the_context() -> None:
    letter = message(
        attributes={**filler(8), **counter("4")}, MessageGroupId="g", SentTimestamp=f"{NOW}000"
    )

    assert isinstance(look(letter), Hold)


SHARED = policy(others={"invoices": {"main_retention_seconds": 700, "main_max_bytes": 200}})
INVOICES = SHARED.of(queue_address("invoices"))
OF_INVOICES = [
    message(DeadLetterQueueSourceArn=queue_arn("invoices")),
    message(attributes=context(source_queue="invoices")),
    message(
        attributes=context(source_queue="main"), DeadLetterQueueSourceArn=queue_arn("invoices")
    ),
]
FIRST = Replay(1, 4)
FOREIGN = Park(ParkReason.FOREIGN_SOURCE)
EXHAUSTED = Park(ParkReason.ATTEMPTS_EXHAUSTED)
INVALID = Park(ParkReason.INVALID_COUNTER)
TOO_OLD = Park(ParkReason.TOO_OLD)
NO_ROOM = Park(ParkReason.NO_ROOM)
STEP = Park(ParkReason.REDRIVE_STEP)
CANARY = message(
    attributes=context(plan_id="p", in_step=True), DeadLetterQueueSourceArn=queue_arn("main")
)
LIMIT_BYTES = 100 + len("sqs-dlq-replay-nb" + "Number" + "1")


@pytest.mark.parametrize(
    ("attributes", "rules", "decision"),
    [
        ({}, policy(rate_seconds=2), FIRST),
        (counter("2"), policy(), Replay(3, 16)),
        ({"sqs-dlq-context": text("{")}, policy(max_age_seconds=1), FIRST),
        (counter("-1"), policy(), INVALID),
        (counter("1.5"), policy(), INVALID),
        (counter("one"), policy(), INVALID),
        (counter(""), policy(), INVALID),
        (counter("1e3"), policy(), INVALID),
        (counter(" 1"), policy(), INVALID),
        (counter("٣"), policy(), INVALID),
        (counter("9" * 39), policy(), INVALID),
        ({"sqs-dlq-replay-nb": MessageAttribute("Binary", b"1")}, policy(), INVALID),
        (counter("3"), policy(), EXHAUSTED),
        (counter("4"), policy(), EXHAUSTED),
        (counter("1000000"), policy(), EXHAUSTED),
        (counter("9" * 38), policy(), EXHAUSTED),
        ({}, policy(max_attempts=0), EXHAUSTED),
        (context(first_seen_seconds=NOW - 100), policy(max_age_seconds=100), FIRST),
        (context(first_seen_seconds=NOW - 101), policy(max_age_seconds=100), TOO_OLD),
        (context(first_seen_seconds=NOW + 50), policy(max_age_seconds=100), FIRST),
        (filler(9), policy(), FIRST),
        (filler(10), policy(), NO_ROOM),
        ({**filler(9), **context(first_id="a")}, policy(), FIRST),
        # What is due is kept within the ceiling; beyond it, it is drawn again.
        (context(due_seconds=NOW + 3), policy(), Replay(1, 3)),
        (context(due_seconds=NOW - 60), policy(), Replay(1, 0)),
        (context(due_seconds=NOW + 4), policy(), Replay(1, 4)),
        (context(due_seconds=NOW + 5), policy(), Replay(1, 4)),
        # A held copy of a queue that is no longer configured is not one of the main queue.
        (context(source_queue="other"), policy(), FOREIGN),
        ({}, SHARED, FOREIGN),
        ({}, INVOICES, FOREIGN),
        (context(source_queue="payments"), SHARED, FOREIGN),
        (context(source_queue="payments"), INVOICES, FOREIGN),
    ],
)
def test_decision_follows_from_the_attributes(
    attributes: Attributes, rules: ReplayPolicy, decision: Decision
) -> None:
    assert decide_with_highest_draw(message(attributes=attributes), rules) == decision


@pytest.mark.parametrize(
    ("letter", "rules", "decision"),
    [
        (moved_from(queue_arn("main")), policy(), FIRST),
        (moved_from(queue_arn("other")), policy(), FOREIGN),
        (moved_from("arn:aws:sqs:us-east-1:999999999999:main"), policy(), FOREIGN),
        (moved_from("arn:aws:sns:r:1:main"), policy(), FOREIGN),
        (moved_from("nonsense"), policy(), FOREIGN),
        (moved_from(""), policy(), FOREIGN),
        # Only a held copy, which SQS did not move, has a wait that began before.
        (moved_from(queue_arn("main"), attributes=context(due_seconds=NOW)), policy(), FIRST),
        *((letter, INVOICES, FIRST) for letter in OF_INVOICES),
        *((letter, SHARED, FOREIGN) for letter in OF_INVOICES),
        # Seen for the first time, it is never too old.
        (message(SentTimestamp="0"), policy(max_age_seconds=1), FIRST),
        (message(body="x" * 100), policy(max_message_bytes=LIMIT_BYTES), FIRST),
        (message(body="x" * 100), policy(max_message_bytes=LIMIT_BYTES - 1), NO_ROOM),
        # A replay goes to the main queue, whatever the DLQ and the parked queue take.
        (message(body="x" * 100), policy(max_message_bytes=1, main_max_bytes=LIMIT_BYTES), FIRST),
        # A copy of an unproven step goes no further; only SQS says that it came back.
        (CANARY, policy(max_attempts=0), STEP),
        (replace(CANARY, attributes={**CANARY.attributes, **counter("x")}), policy(), INVALID),
        (replace(CANARY, system={}), policy(), FIRST),
        (message(attributes=context(in_step=True), **CANARY.system), policy(), FIRST),
        # The rules apply in their order.
        (
            moved_from(queue_arn("other"), attributes={**filler(10), **counter("x")}),
            policy(max_attempts=0, max_age_seconds=1),
            FOREIGN,
        ),
    ],
)
def test_decision_follows_from_the_source_and_the_size(
    letter: Message, rules: ReplayPolicy, decision: Decision
) -> None:
    assert decide_with_highest_draw(letter, rules) == decision
