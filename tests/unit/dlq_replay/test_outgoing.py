import json
from dataclasses import replace

import pytest

from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import CONTEXT_ATTRIBUTE, FailureError, ReplayContext, body_digest
from dlq_replay.decision import ParkReason
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.outgoing import (
    has_room_for_context,
    has_room_for_redrive,
    has_room_to_hold,
    held_entry,
    parked_entry,
    redriven_entry,
    replay_entry,
)
from tests.builders import (
    BODY,
    NOW,
    context,
    context_of,
    counter,
    filler,
    message,
    policy,
    queue_arn,
    text,
)


def test_first_replay_remembers_the_first_copy_and_the_time() -> None:
    entry = replay_entry(message("m-1"), 1, 30, NOW, policy())

    assert context_of(entry) == ReplayContext("m-1", NOW, source_queue="main")
    assert entry.attributes[REPLAY_COUNT_ATTRIBUTE] == MessageAttribute("Number", "1")
    assert entry.delay_seconds == 30


def test_later_replay_keeps_the_first_copy_and_drops_due() -> None:
    known = context(first_id="m-0", first_seen_seconds=7, due_seconds=9, plan_id="p")
    entry = replay_entry(message("m-1", attributes={**known, **counter("1")}), 2, 0, NOW, policy())

    assert context_of(entry) == ReplayContext("m-0", 7, plan_id="p", source_queue="main")
    assert entry.attributes[REPLAY_COUNT_ATTRIBUTE].value == "2"


def test_replay_keeps_body_attributes_group_and_trace() -> None:
    original = message(
        body="späť",
        attributes=filler(3),
        MessageGroupId="tenant",
        AWSTraceHeader="Root=1;Lineage=a:1",
    )
    entry = replay_entry(original, 1, 5, NOW, policy())

    assert entry.body == "späť"
    assert original.attributes.items() <= entry.attributes.items()
    assert entry.message_group_id == "tenant"
    assert entry.trace_header == "Root=1"
    assert entry.deduplication_id is None


def test_fifo_replay_is_deduplicated_by_the_copy_and_has_no_timer() -> None:
    original = message("m-7", attributes=context(first_id="m-0"), MessageGroupId="g")
    entry = replay_entry(original, 1, 0, NOW, policy(main="main.fifo"))

    assert entry.deduplication_id == "m-7"
    assert entry.delay_seconds is None
    assert entry.message_group_id == "g"


def test_context_gives_way_where_a_tenth_attribute_would_be_an_eleventh() -> None:
    entry = replay_entry(message(attributes=filler(9)), 1, 0, NOW, policy())

    assert len(entry.attributes) == 10
    assert CONTEXT_ATTRIBUTE not in entry.attributes


def test_context_gives_way_where_it_would_pass_the_size_limit() -> None:
    entry = replay_entry(message(body="x" * 100), 1, 0, NOW, policy(max_message_bytes=150))

    assert set(entry.attributes) == {REPLAY_COUNT_ATTRIBUTE}


def test_parked_copy_says_why_and_keeps_its_counter() -> None:
    entry = parked_entry(
        message("m-1", attributes=counter("3")), "attempts_exhausted", NOW, policy()
    )

    assert context_of(entry) == ReplayContext(
        "m-1", NOW, reason="attempts_exhausted", source_queue="main"
    )
    assert entry.attributes[REPLAY_COUNT_ATTRIBUTE] == MessageAttribute("Number", "3")
    assert entry.delay_seconds is None


@pytest.mark.parametrize(
    ("arn", "carried", "written"),
    [
        (None, None, "main"),
        (queue_arn("main"), None, "main"),
        (queue_arn("main"), "other", "main"),
        (None, "other", "other"),
        (queue_arn("other"), None, "other"),
        (queue_arn("other"), "main", "other"),
        ("?", "other", None),
        (queue_arn("no name"), None, None),
    ],
)
def test_every_copy_of_the_function_names_its_source_queue(
    arn: str | None, carried: str | None, written: str | None
) -> None:
    system = {} if arn is None else {"DeadLetterQueueSourceArn": arn}
    letter = message(attributes=context(source_queue=carried), **system)
    copies = (
        replay_entry(letter, 1, 0, NOW, policy()),
        held_entry(letter, NOW + 5000, 900, NOW, policy()),
        parked_entry(letter, "too_old", NOW, policy()),
    )

    assert [context_of(one).source_queue for one in copies] == [written] * 3


@pytest.mark.parametrize(
    ("moved_by_sqs", "carried", "written"),
    [(True, "m-8", "m-9"), (True, None, "m-9"), (False, "m-8", "m-8"), (False, None, None)],
)
def test_held_and_parked_copies_name_the_copy_that_the_consumer_saw_last(
    moved_by_sqs: bool, carried: str | None, written: str | None
) -> None:
    system = {"DeadLetterQueueSourceArn": queue_arn("main")} if moved_by_sqs else {}
    letter = message("m-9", attributes=context(first_id="m-1", last_id=carried), **system)
    copies = (
        replay_entry(letter, 1, 0, NOW, policy()),
        held_entry(letter, NOW + 5000, 900, NOW, policy()),
        parked_entry(letter, "too_old", NOW, policy()),
        redriven_entry(letter, "p", to_fifo=False),
    )

    assert [context_of(one).last_id for one in copies] == [None, written, written, None]


def test_a_message_of_no_queue_is_of_none_where_several_are_configured() -> None:
    entry = parked_entry(message(), "foreign_source", NOW, policy(others={"other": {}}))

    assert context_of(entry).source_queue is None


def test_every_copy_keeps_a_source_queue_that_it_carries() -> None:
    letter = message(attributes=context(source_queue="other"))
    entries = (
        replay_entry(letter, 1, 0, NOW, policy()),
        held_entry(letter, NOW + 5000, 900, NOW, policy()),
        redriven_entry(letter, "p", to_fifo=False),
    )

    assert [context_of(entry).source_queue for entry in entries] == ["other"] * 3


def test_room_for_the_context_counts_what_it_carries() -> None:
    bare = message("m-1", attributes=context(first_id="m-0"))
    size = held_entry(bare, 10**11 - 1, 900, 10**11 - 1, policy()).size_bytes + len(
        "sqs-dlq-replay-nbNumber1"
    )
    more = message("m-1", attributes=context(first_id="m-0!"))
    elsewhere = replace(bare, system={"DeadLetterQueueSourceArn": queue_arn("longer")})

    assert has_room_for_context(bare, 1, policy(max_message_bytes=size))
    assert not has_room_for_context(more, 1, policy(max_message_bytes=size))
    assert not has_room_for_context(elsewhere, 1, policy(max_message_bytes=size))


def test_invalid_counter_is_parked_as_it_came() -> None:
    entry = parked_entry(message(attributes=counter("junk")), "invalid_counter", NOW, policy())

    assert entry.attributes[REPLAY_COUNT_ATTRIBUTE].value == "junk"


def test_message_without_room_is_parked_untouched() -> None:
    original = message(attributes=filler(10))
    entry = parked_entry(original, "no_room", NOW, policy())

    assert entry.attributes == original.attributes


def test_malformed_context_is_replaced() -> None:
    entry = replay_entry(
        message("m", attributes={CONTEXT_ATTRIBUTE: text("{")}), 1, 0, NOW, policy()
    )

    assert context_of(entry) == ReplayContext("m", NOW, source_queue="main")


def test_redriven_copy_starts_afresh_but_knows_its_origin() -> None:
    past = context(
        first_id="m-0",
        reason="too_old",
        error=FailureError("E", "m"),
        plan_id="old-plan",
        group_id="old-group",
        is_back=True,
    )
    parked = message("m-9", attributes={**past, **counter("5"), **filler(2)})
    entry = redriven_entry(parked, "plan-2", to_fifo=False)

    assert context_of(entry) == ReplayContext(first_id="m-0", plan_id="plan-2")
    assert REPLAY_COUNT_ATTRIBUTE not in entry.attributes
    assert filler(2).items() <= entry.attributes.items()
    entry = redriven_entry(parked, "plan-2", to_fifo=False, group_id="g-2", is_canary=True)
    expected = ReplayContext("m-0", plan_id="plan-2", group_id="g-2", is_canary=True)
    assert context_of(entry) == expected


def test_what_a_redrive_wrote_stays_until_the_copy_is_parked() -> None:
    redriven = context(plan_id="p", group_id="g", is_back=True, is_canary=True)
    letter = message("m-1", attributes=redriven)
    sent_on = (
        replay_entry(letter, 1, 0, NOW, policy()),
        held_entry(letter, NOW + 5000, 900, NOW, policy()),
        parked_entry(letter, "redrive_step", NOW, policy()),
    )

    kept = [context_of(entry) for entry in sent_on]
    assert [(one.plan_id, one.group_id, one.is_back) for one in kept] == [("p", "g", True)] * 3
    assert [one.is_canary for one in kept] == [True, True, False]


@pytest.mark.parametrize(("own", "has_room"), [(0, True), (8, True), (9, False), (10, False)])
def test_a_redrive_with_steps_needs_two_attributes(own: int, has_room: bool) -> None:
    assert has_room_for_redrive(message("m-1", "x", filler(own)), "p", 2**20, "g") is has_room


@pytest.mark.parametrize("source", [None, "orders"])
def test_a_message_with_room_for_a_redrive_keeps_its_context_in_every_copy(
    source: str | None,
) -> None:
    letter = message("m-1", "x" * 99, context(source_queue=source))
    size = next(n for n in range(2000) if has_room_for_redrive(letter, "p", n, "g"))
    sent = redriven_entry(letter, "p", to_fifo=False, group_id="g", is_canary=True)
    main = source or "q" * 80
    back = message(
        "m-2",
        "x" * 99,
        {**sent.attributes, **counter("999")},
        DeadLetterQueueSourceArn=queue_arn(main),
    )
    rules = policy(main, max_message_bytes=size)

    assert has_room_to_hold(back, 1000, rules)
    copies = (
        redriven_entry(letter, "p", to_fifo=False, group_id="g", max_message_bytes=size),
        replay_entry(back, 1000, 0, NOW, rules, NOW),
        parked_entry(back, "redrive_step", NOW, rules),
    )
    assert [context_of(copy).group_id for copy in copies] == ["g"] * 3


def test_redriven_copy_can_keep_its_counter() -> None:
    entry = redriven_entry(message(attributes=counter("5")), "p", to_fifo=False, keep_counter=True)

    assert entry.attributes[REPLAY_COUNT_ATTRIBUTE].value == "5"


@pytest.mark.parametrize(("plan", "is_hashed"), [("p" * 124, False), ("p" * 125, True)])
def test_redrive_deduplication_id_is_hashed_above_128_characters(
    plan: str, is_hashed: bool
) -> None:
    entry = redriven_entry(message("m-1"), plan, to_fifo=True)

    assert entry.deduplication_id is not None
    assert len(entry.deduplication_id) <= 128
    assert is_hashed == (entry.deduplication_id != f"m-1:{plan}")


def test_held_copy_keeps_its_counter_and_says_when_it_is_due() -> None:
    known = context(first_id="m-0", first_seen_seconds=7, plan_id="p")
    original = message("m-1", attributes={**known, **counter("2")}, MessageGroupId="tenant")
    entry = held_entry(original, NOW + 5000, 900, NOW, policy())

    expected = ReplayContext("m-0", 7, NOW + 5000, plan_id="p", source_queue="main")
    assert context_of(entry) == expected
    assert entry.attributes[REPLAY_COUNT_ATTRIBUTE].value == "2"
    assert (entry.delay_seconds, entry.deduplication_id) == (900, None)
    assert entry.message_group_id == "tenant"


def test_first_hold_adds_no_counter() -> None:
    entry = held_entry(message(), NOW + 5000, 900, NOW, policy())

    assert set(entry.attributes) == {CONTEXT_ATTRIBUTE}


def test_a_new_life_begins_without_what_the_breaker_knew() -> None:
    known = context(held_seconds=NOW - 5)
    letter = message(attributes={**counter("1"), **known})
    for entry in (
        redriven_entry(letter, "p", to_fifo=False),
        parked_entry(letter, "too_old", NOW, policy()),
    ):
        assert context_of(entry).held_seconds is None


def test_no_context_of_a_copy_is_larger_than_1024_bytes() -> None:
    """Whatever a producer wrote there; in JSON a quote has two bytes."""
    quotes, moment = '"' * 128, 2**63 - 1
    wide = {"v": 1, "id": quotes, "plan": quotes, "src": "q" * 80, "t0": moment, "held": moment}
    marks = {"h": body_digest(BODY), "g": quotes, "back": 1, "canary": 1}
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
        redriven_entry(dead, quotes, to_fifo=False, group_id=quotes, is_canary=True),
    ]

    assert max(len(str(copy.attributes[CONTEXT_ATTRIBUTE].value)) for copy in copies) <= 1024
    assert {context_of(copy).first_id for copy in copies} == {quotes}
    assert {context_of(copy).group_id for copy in copies} == {quotes}
    assert context_of(parked).error is None
