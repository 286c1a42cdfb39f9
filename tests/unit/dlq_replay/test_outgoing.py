"""Contents of each copy of a message; ``tests/golden/copies.txt`` has them on the wire."""

import itertools
import json
from dataclasses import replace

import pytest

from dlq_replay.rules.decision import ParkReason
from dlq_replay.rules.outgoing import (
    has_room_for_redrive,
    has_room_to_hold,
    held_entry,
    parked_entry,
    redriven_entry,
    replay_entry,
)
from dlq_replay.text.places import PLACE_CHARACTERS
from dlq_replay.wire.context import (
    CONTEXT_ATTRIBUTE,
    KEPT_ERROR_BYTES,
    SECONDS_MAX,
    FailureError,
    body_digest,
)
from dlq_replay.wire.message import Message, SendEntry
from tests.support.builders import (
    BODY,
    MAIN,
    MAIN_FIFO,
    NOW,
    context,
    context_of,
    counter,
    filler,
    message,
    policy,
    queue_address,
    queue_arn,
    text,
)
from tests.support.golden import assert_stored, stored_rows

ERROR = FailureError("E", "m")
PAST = context(
    first_id="m-0",
    first_seen_seconds=7,
    due_seconds=9,
    reason="too_old",
    error=ERROR,
    plan_id="old-plan",
    group_id="old-group",
    is_back=True,
    held_seconds=NOW - 5,
    last_id="m-6",
)
SYSTEM = {"MessageGroupId": "tenant", "AWSTraceHeader": "Root=1;Lineage=a:1"}


def from_queue(arn: str | None, carried: str | None) -> Message:
    system = {} if arn is None else {"DeadLetterQueueSourceArn": arn}
    return message(attributes=context(source_queue=carried), **system)


LETTERS = {
    "a first copy": message("m-1"),
    "a later copy": message("m-7", attributes={**PAST, **counter("5"), **filler(2)}),
    "a body, a group and a trace": message("m-1", "späť", filler(3), **SYSTEM),
    "nine attributes": message(attributes=filler(9)),
    "ten attributes": message(attributes=filler(10)),
    "no valid counter": message(attributes=counter("junk")),
    "no valid context": message("m", attributes={CONTEXT_ATTRIBUTE: text("{")}),
    "a copy of a redrive by ramp": message(
        "m-1", attributes=context(plan_id="p", group_id="g", is_back=True, in_step=True)
    ),
    # What SQS says of the source counts first, then what the copy carries.
    "from main": from_queue(queue_arn("main"), None),
    "from main, as other": from_queue(queue_arn("main"), "other"),
    "of other": from_queue(None, "other"),
    "from other": from_queue(queue_arn("other"), None),
    "from other, as main": from_queue(queue_arn("other"), "main"),
    "from no queue, as other": from_queue("?", "other"),
    "from no queue": from_queue(queue_arn("no name"), None),
}


def copies_of(letter: Message) -> dict[str, SendEntry]:
    rules = policy()
    fifo = policy(main="main.fifo")
    return {
        "replay": replay_entry(letter, 1, 30, NOW, rules),
        # A timer of 0 overrides the queue's own.
        "replay at once": replay_entry(letter, 1, 0, NOW, rules),
        "replay to FIFO": replay_entry(letter, 2, 0, NOW, fifo),
        "hold": held_entry(letter, NOW + 5000, 900, NOW, rules),
        "park": parked_entry(letter, "attempts_exhausted", NOW, rules, ERROR),
        "park, one of two main queues": parked_entry(
            letter, "foreign_source", NOW, policy(others={"other": {}})
        ),
        "redrive": redriven_entry(letter, "p-2", MAIN),
        "redrive to FIFO": redriven_entry(letter, "p-2", MAIN_FIFO),
        "redrive of a step": redriven_entry(letter, "p-2", MAIN, group_id="g-2", in_step=True),
    }


def on_the_wire(entry: SendEntry) -> str:
    """Format everything that goes to SQS, and check that the context is one for the body."""
    request = entry.to_api("0")
    if CONTEXT_ATTRIBUTE in entry.attributes:
        context_of(entry)
    rest = {name: v for name, v in request.items() if name not in ("Id", "MessageAttributes")}
    attributes = (f"  {n}: {a.data_type} {a.value!s}" for n, a in entry.attributes.items())
    return "\n".join([json.dumps(rest, ensure_ascii=False), *attributes])


@stored_rows("copies", LETTERS)
def test_copies_carry_what_is_stored(name: str) -> None:
    copies = copies_of(LETTERS[name])

    assert_stored("copies", name, "\n".join(f"{n} {on_the_wire(c)}" for n, c in copies.items()))


def test_context_gives_way_where_it_would_pass_the_size_limit() -> None:
    entry = replay_entry(message(body="x" * 100), 1, 0, NOW, policy(max_message_bytes=150))

    assert set(entry.attributes) == {"sqs-dlq-replay-nb"}


def test_room_for_the_context_counts_what_it_carries() -> None:
    bare = message("m-1", attributes=context(first_id="m-0"))
    far = SECONDS_MAX
    held = held_entry(bare, far, 900, far, policy(), by_breaker=True)
    size = held.size_bytes + len("sqs-dlq-replay-nbNumber1")
    more = message("m-1", attributes=context(first_id="m-01"))
    elsewhere = replace(bare, system={"DeadLetterQueueSourceArn": queue_arn("longer")})

    assert has_room_to_hold(bare, 1, policy(max_message_bytes=size))
    assert not has_room_to_hold(more, 1, policy(max_message_bytes=size))
    assert not has_room_to_hold(elsewhere, 1, policy(max_message_bytes=size))


@pytest.mark.parametrize(("own", "has_room"), [(0, True), (8, True), (9, False), (10, False)])
def test_a_redrive_with_steps_needs_two_attributes(own: int, has_room: bool) -> None:
    assert has_room_for_redrive(message("m-1", "x", filler(own)), "p", 2**20, "g") is has_room


@pytest.mark.parametrize("source", [None, "orders"])
def test_a_message_with_room_for_a_redrive_keeps_its_context_in_every_copy(
    source: str | None,
) -> None:
    letter = message("m-1", "x" * 99, context(source_queue=source))
    size = next(n for n in range(2000) if has_room_for_redrive(letter, "p", n, "g"))
    main = source or "q" * 80
    to = queue_address(main)
    sent = redriven_entry(letter, "p", to, group_id="g", in_step=True)
    back = message(
        "m-2",
        "x" * 99,
        {**sent.attributes, **counter("999")},
        DeadLetterQueueSourceArn=queue_arn(main),
    )
    rules = policy(main, max_message_bytes=size)

    assert has_room_to_hold(back, 1000, rules)
    copies = (
        redriven_entry(letter, "p", to, group_id="g", max_message_bytes=size),
        replay_entry(back, 1000, 0, NOW, rules, NOW),
        parked_entry(back, "redrive_step", NOW, rules),
    )
    assert [context_of(copy).group_id for copy in copies] == ["g"] * 3


@pytest.mark.parametrize(("plan", "is_hashed"), [("p" * 124, False), ("p" * 125, True)])
def test_redrive_deduplication_id_is_hashed_above_128_characters(
    plan: str, is_hashed: bool
) -> None:
    entry = redriven_entry(message("m-1"), plan, MAIN_FIFO)

    assert entry.deduplication_id is not None
    assert len(entry.deduplication_id) <= 128
    assert is_hashed == (entry.deduplication_id != f"m-1:{plan}")


def test_no_context_of_a_copy_is_larger_than_1024_bytes() -> None:
    """Whatever a producer wrote there; in JSON a quote has two bytes."""
    quotes = '"' * 128
    ids = "i" * 128
    moment = SECONDS_MAX
    wide = {"v": 1, "id": ids, "plan": ids, "src": "q" * 80, "t0": moment, "held": moment}
    marks = {"h": body_digest(BODY), "g": ids, "back": 1, "step": 1}
    made = json.dumps({**wide, **marks}, separators=(",", ":"))
    moved = {"DeadLetterQueueSourceArn": queue_arn("q" * 80)}
    dead = message("m" * 100, attributes={CONTEXT_ATTRIBUTE: text(made)}, **moved)
    assert dead.history.fault is None
    longest = max(ParkReason, key=len)
    parked = parked_entry(dead, longest, moment, policy(), FailureError(quotes, quotes))
    copies = [
        parked,
        replay_entry(dead, 1, 0, moment, policy(), moment),
        held_entry(dead, moment, 0, moment, policy(), by_breaker=True),
        redriven_entry(dead, ids, MAIN, group_id=ids, in_step=True),
    ]

    assert max(len(str(copy.attributes[CONTEXT_ATTRIBUTE].value)) for copy in copies) <= 1024
    assert {context_of(copy).first_id for copy in copies} == {ids}
    assert {context_of(copy).group_id for copy in copies} == {ids}
    error = context_of(parked).error
    assert error is not None
    assert error.type == quotes
    assert 0 < len(error.message) < 128


def test_a_code_and_a_place_outlive_the_text_of_their_error() -> None:
    """Beside fields as wide as we and SQS make them."""
    ids = "m" * 100
    moment = SECONDS_MAX
    carried = context(
        first_id=ids,
        first_seen_seconds=moment,
        plan_id="20261121T000001Z-ab12cdef012",
        group_id="g-0123456789",
        is_back=True,
    )
    moved = {"DeadLetterQueueSourceArn": queue_arn("q" * 80)}
    names = ({"code": "c" * 64}, {"place": "p" * PLACE_CHARACTERS})
    for kind, name in itertools.product(("E" * 128, '"' * 128), names):
        error = FailureError(kind, "\\" * 200, **name)
        dead = message(ids, attributes=carried, **moved)
        parked = parked_entry(dead, max(ParkReason, key=len), moment, policy(), error)
        arrived = context_of(parked)

        assert arrived.error is not None
        expected = replace(error, message=arrived.error.message)
        assert arrived.error == expected
        # In JSON a backslash has two bytes; the analysis reads 40 fewer.
        assert KEPT_ERROR_BYTES - 40 <= 2 * len(arrived.error.message) < 400
        assert arrived.last_id == ids
