"""Where the dead letters of a tagged DLQ may go: only to tagged queues that SQS names."""

from collections.abc import Collection

import pytest

from dlq_replay.rules.batch_plan import PlannedRecord, plan_batch
from dlq_replay.rules.membership import admit, leave_all, needs_listed_sources
from dlq_replay.rules.policy import QueueLimits
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message, UnreadableRecord
from tests.support.builders import NOW, context, message, policy, queue_address, queue_arn

DLQ = queue_address("orders-dlq")
ORDERS = queue_address("orders")
INVOICES = queue_address("invoices")
FORGED = queue_address("payments")
TAGGED = frozenset({DLQ, ORDERS, INVOICES, FORGED})


def moved(source: str) -> Message:
    return message(DeadLetterQueueSourceArn=queue_arn(source))


def sent_naming(source: str | None) -> Message:
    return message(attributes=context(source_queue=source) if source else None)


def decided(
    record: Message | UnreadableRecord,
    members: Collection[QueueAddress] = TAGGED,
    listed: Collection[QueueAddress] | None = (ORDERS,),
) -> str:
    """What becomes of a record: the queue that it goes to, ``parked``, or why it stays."""
    listed_sources = None if listed is None else frozenset(listed)
    admission = admit([record], DLQ, frozenset(members), listed_sources)
    limits_of = dict.fromkeys(admission.sources, QueueLimits())
    rules = admission.policy(policy(), DLQ, QueueLimits(), limits_of)
    (planned,) = plan_batch(
        admission.records, rules, NOW, lambda ceiling: ceiling, {}, left=admission.left
    )
    return in_words(planned)


def in_words(planned: PlannedRecord) -> str:
    decision = planned.decision
    match type(decision).__name__:
        case "Replay":
            return f"to {planned.main_queue.name}"
        case "Park":
            return f"parked: {decision.reason}"  # type: ignore[union-attr]
    return f"stays: {decision.detail}"  # type: ignore[union-attr]


WITHOUT_ORDERS = TAGGED - {ORDERS}


@pytest.mark.parametrize(
    ("record", "members", "listed", "expected"),
    [
        # SQS names the source of what it moved, whatever its list says.
        (moved("orders"), TAGGED, (ORDERS,), "to orders"),
        (moved("invoices"), TAGGED, (ORDERS,), "to invoices"),
        (moved("orders"), TAGGED, None, "to orders"),
        (moved("orders"), WITHOUT_ORDERS, (ORDERS,), "stays: its source orders has no tag"),
        # Anybody can write a name into what was sent here: SQS's list decides.
        (sent_naming("orders"), TAGGED, (ORDERS, INVOICES), "to orders"),
        (sent_naming("payments"), TAGGED, (ORDERS,), "parked: foreign_source"),
        (sent_naming("orders-dlq"), TAGGED, (ORDERS,), "parked: foreign_source"),
        (sent_naming("orders"), TAGGED, None, "stays: the sources of orders-dlq are not known"),
        (sent_naming("orders"), WITHOUT_ORDERS, (ORDERS,), "stays: its source orders has no tag"),
        # A message that names none belongs to the only source there is.
        (sent_naming(None), TAGGED, (ORDERS,), "to orders"),
        (sent_naming(None), WITHOUT_ORDERS, (ORDERS,), "stays: its source orders has no tag"),
        (sent_naming(None), TAGGED, (ORDERS, INVOICES), "parked: foreign_source"),
        # A queue without a source is no DLQ, and what is in it may be no dead letter.
        (sent_naming(None), TAGGED, (), "stays: SQS names no source of orders-dlq"),
        (sent_naming("orders"), TAGGED, (), "stays: SQS names no source of orders-dlq"),
        (moved("orders"), TAGGED, (), "to orders"),
        (sent_naming(None), {DLQ}, (ORDERS, INVOICES), "parked: foreign_source"),
        (sent_naming(None), TAGGED, None, "stays: the sources of orders-dlq are not known"),
        # A DLQ that lost its tag.
        (moved("orders"), TAGGED - {DLQ}, (ORDERS,), "stays: orders-dlq has no tag"),
        (UnreadableRecord("m", "no body"), TAGGED, (ORDERS,), "stays: no body"),
    ],
)
def test_message_goes_to_a_tagged_queue_that_sqs_names(
    record: Message | UnreadableRecord,
    members: Collection[QueueAddress],
    listed: Collection[QueueAddress] | None,
    expected: str,
) -> None:
    assert decided(record, members, listed) == expected


def test_message_stays_where_its_source_does_not_answer() -> None:
    first = moved("orders")
    second = message("m-2", DeadLetterQueueSourceArn=queue_arn("invoices"))
    admission = admit([first, second], DLQ, TAGGED, frozenset())
    refused = admission.without({ORDERS: "asking about orders: AccessDenied"})

    assert refused.sources == {INVOICES}
    assert refused.left["m-1"].detail == "asking about orders: AccessDenied"
    assert list(refused.records) == [first, second]


def test_only_messages_that_sqs_did_not_move_need_its_list() -> None:
    assert not needs_listed_sources([moved("orders"), UnreadableRecord("m", "no body")])
    assert needs_listed_sources([moved("orders"), sent_naming("orders")])


def test_a_batch_can_stay_whole() -> None:
    left = leave_all([moved("orders")], "there is no FIFO parked queue").left
    assert left["m-1"].detail == "there is no FIFO parked queue"
