"""The laws, on any batch, whatever SQS answers."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.replaying.replay import BatchOutcome
from dlq_replay.replaying.sending import NotSent, Refused, SendResult, Unconfirmed, forever
from dlq_replay.rules.batch_plan import Failed
from dlq_replay.rules.decision import Hold, Park, Replay, decide
from dlq_replay.rules.outgoing import held_entry, parked_entry, redriven_entry, replay_entry
from dlq_replay.rules.policy import ReplayPolicy
from dlq_replay.wire.attributes import MAX_ATTRIBUTES
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message, SendEntry
from tests.property.strategies import batches, messages
from tests.support.builders import (
    MAIN_FIFO,
    NOW,
    FakeQueue,
    policy,
    queue_address,
    queue_arn,
    queue_url,
    replayer,
    three_queues,
)

OURS = {REPLAY_COUNT_ATTRIBUTE, CONTEXT_ATTRIBUTE}

policies = st.builds(
    policy,
    main=st.sampled_from(["main", "main.fifo"]),
    max_attempts=st.integers(0, 6),
    max_age_seconds=st.none() | st.integers(1, 9999),
    cap_seconds=st.integers(0, 172_800),
    rate_seconds=st.floats(0.001, 43_200),
    main_max_bytes=st.integers(60, 4096),
    dlq_max_bytes=st.integers(60, 4096),
    parked_max_bytes=st.integers(60, 4096),
    main_retention_seconds=st.integers(60, 1_209_600),
    dlq_retention_seconds=st.integers(60, 1_209_600),
)
answers = st.sampled_from([None, Refused("Code"), Unconfirmed("lost"), NotSent()])


@given(messages(), policies, st.integers(0, 172_800))
def test_decision_keeps_every_limit_of_sqs(
    message: Message, rules: ReplayPolicy, draw: int
) -> None:
    decision = decide(message, rules, NOW, lambda top: min(draw, top))

    match decision:
        case Replay(number, delay_seconds):
            assert 1 <= number <= rules.max_attempts
            assert 0 <= delay_seconds <= (0 if rules.main_queue.is_fifo else 900)
            assert delay_seconds < rules.limits.main_retention_seconds
        case Hold(number, due_seconds, wait_seconds):
            assert 1 <= number <= rules.max_attempts
            assert 1 <= wait_seconds <= (39_600 if rules.main_queue.is_fifo else 900)
            assert wait_seconds < rules.limits.dlq_retention_seconds
            assert due_seconds >= NOW + wait_seconds
        case Park():
            pass


@given(messages(), policies)
def test_copy_is_what_was_sent_but_for_our_two_attributes(
    message: Message, rules: ReplayPolicy
) -> None:
    for entry in (
        replay_entry(message, 1, 0, NOW, rules),
        parked_entry(message, "too_old", NOW, rules),
        held_entry(message, NOW + 5000, 900, NOW, rules),
        redriven_entry(message, "plan", MAIN_FIFO),
    ):
        assert entry.body == message.body
        assert _own(entry) == _own(message)
        assert entry.message_group_id == message.message_group_id
        assert "Lineage" not in (entry.trace_header or "")


@given(batches(), policies)
def test_each_copy_fits_its_queue(batch: list[Message], rules: ReplayPolicy) -> None:
    """A message that does not fit the parked queue is sent there as it came."""
    main, dlq, parked = three_queues()
    _replay(batch, rules, main, dlq, parked)

    of_body = {message.body: message for message in batch}
    for queue, max_bytes in (
        (main, rules.limits.main_max_bytes),
        (dlq, rules.limits.dlq_max_bytes),
        (parked, rules.limits.parked_max_bytes),
    ):
        for entry in queue.sent:
            message = of_body[entry.body]
            named = message.history.context.source_queue
            arn = message.source_arn
            is_foreign = bool(named and arn) and not str(arn).endswith(f":{named}")
            is_inherited = message.history.is_inherited or is_foreign
            inherited = OURS if is_inherited else {CONTEXT_ATTRIBUTE}
            as_it_came = {n: a for n, a in message.attributes.items() if n not in inherited}
            fits = entry.size_bytes <= max_bytes and len(entry.attributes) <= MAX_ATTRIBUTES
            assert fits or (queue is parked and entry.attributes == as_it_came)


@given(batches(), policies, st.lists(answers, min_size=12, max_size=12))
def test_every_message_ends_in_exactly_one_place(
    batch: list[Message], rules: ReplayPolicy, answers_by_index: list[SendResult | None]
) -> None:
    refuses = {m.body: a for m, a in zip(batch, answers_by_index, strict=False) if a is not None}
    main, dlq, parked = three_queues(refuses)
    outcome = _replay(batch, rules, main, dlq, parked)

    held = [planned for planned in outcome.outcomes if isinstance(planned.decision, Hold)]
    replayed = [planned for planned in outcome.outcomes if isinstance(planned.decision, Replay)]
    put_aside = [planned for planned in outcome.outcomes if isinstance(planned.decision, Park)]
    response = outcome.to_partial_batch_response()
    left = {failure["itemIdentifier"] for failure in response["batchItemFailures"]}
    assert [m.message_id for m in batch] == [planned.message_id for planned in outcome.outcomes]
    assert len(main.sent) == len(replayed)
    assert len(parked.sent) == len(put_aside)
    assert len(dlq.sent) == len([planned for planned in held if not planned.is_left])
    assert left == {planned.message_id for planned in outcome.outcomes if planned.is_left}
    for planned in outcome.outcomes:
        if isinstance(planned.decision, Failed):
            assert planned.message_id in left
    if rules.main_queue.is_fifo:
        assert_unbroken_groups(batch, [*main.sent, *parked.sent])


def assert_unbroken_groups(batch: list[Message], sent: list[SendEntry]) -> None:
    """Of each message group an unbroken prefix arrived."""
    for group in {message.message_group_id for message in batch}:
        if group is not None:
            bodies = [message.body for message in batch if message.message_group_id == group]
            sent_bodies = [entry.body for entry in sent if entry.message_group_id == group]
            assert sent_bodies == bodies[: len(sent_bodies)]


@given(batches(), policies, st.booleans(), st.lists(answers, min_size=12, max_size=12))
def test_no_message_changes_its_queue(
    batch: list[Message],
    rules: ReplayPolicy,
    is_shared: bool,
    answers_by_index: list[SendResult | None],
) -> None:
    """SQS's own word on the source counts first, then the context; a queue not configured is none.

    The copies that are sent elsewhere name that queue, for when they fail again.
    """
    source_of = {m.body: _source(m, is_shared=is_shared) for m in batch}
    refuses = {m.body: a for m, a in zip(batch, answers_by_index, strict=False) if a is not None}
    names = ("main", "other", "dlq", "parked")
    main, other, dlq, parked = (FakeQueue(queue_url(name), refuses) for name in names)
    others = {queue_address("other"): rules.limits} if is_shared else {}
    rules = replace(rules, main_queue=queue_address("main"), other_main_queues=others)
    _replay(batch, rules, main, dlq, parked, other)

    assert {source_of[entry.body] for entry in main.sent} <= {"main"}
    assert {source_of[entry.body] for entry in other.sent} <= ({"other"} if is_shared else set())
    assert all(CONTEXT_ATTRIBUTE in entry.attributes for entry in dlq.sent)
    for entry in (*main.sent, *other.sent, *dlq.sent, *parked.sent):
        history = Message("copy", entry.body, entry.attributes).history
        if history.context.first_seen_seconds is not None and history.fault is None:
            assert history.context.source_queue == source_of[entry.body]


def _source(message: Message, *, is_shared: bool) -> str | None:
    if message.source_arn is not None:
        return {queue_arn("main"): "main", queue_arn("other"): "other"}.get(message.source_arn)
    return message.history.context.source_queue or (None if is_shared else "main")


def _replay(
    batch: list[Message],
    rules: ReplayPolicy,
    main: FakeQueue,
    dlq: FakeQueue,
    parked: FakeQueue,
    other: FakeQueue | None = None,
) -> BatchOutcome:
    others = {queue_address("other"): other} if other else {}
    return replayer(rules, main, dlq, parked, others=others).replay(batch, forever)


def _own(value: Message | SendEntry) -> dict[str, object]:
    return {name: a for name, a in value.attributes.items() if name not in OURS}
