from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.archive.messages.dead_letter_schema import Row, from_row, to_row, to_table
from dlq_replay.errors import MalformedMessageError
from dlq_replay.rules.decision import ParkReason
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE, FailureError, ReplayContext, body_digest
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message
from tests.property.strategies import messages
from tests.support.builders import BODY, context, counter, message, queue_arn, queue_url, text

URL = queue_url("parked")
DRAINED_AT = datetime(2026, 11, 21, 3, 15, 2, tzinfo=UTC)

all_system_attributes = st.fixed_dictionaries(
    {},
    optional={
        "MessageGroupId": st.text("abc", min_size=1),
        "MessageDeduplicationId": st.text("abc", min_size=1),
        "SequenceNumber": st.integers(0, 10**20 - 1).map(str),
        "AWSTraceHeader": st.text("Rot=1-;", min_size=1),
        "DeadLetterQueueSourceArn": st.text("arn:", min_size=1),
        "SenderId": st.text("AIDA", min_size=1),
        "SentTimestamp": st.integers(0, 253_402_300_799_999).map(str),
        "ApproximateFirstReceiveTimestamp": st.integers(0, 2_000_000_000_000).map(str),
        "ApproximateReceiveCount": st.integers(0, 2**31 - 1).map(str),
    },
)


def row_of(dead_letter: Message) -> Row:
    return to_row(dead_letter, URL, DRAINED_AT)


def through_parquet(row: Row) -> dict[str, Any]:
    file = BytesIO()
    pq.write_table(to_table([row]), file)
    file.seek(0)
    (read,) = pq.read_table(file).to_pylist()
    return dict(read)


@given(messages(), all_system_attributes)
def test_message_survives_the_archive_unchanged(source: Message, system: dict[str, str]) -> None:
    original = Message(source.message_id, source.body, source.attributes, system)

    assert from_row(through_parquet(row_of(original))) == original


OURS = context(
    first_id="first",
    first_seen_seconds=1_700_000_000,
    reason="too_old",
    error=FailureError("Timeout", "after 3 s", "slow"),
    plan_id="p-1",
    source_queue="orders.fifo",
)
BEYOND_THE_CALENDAR = {CONTEXT_ATTRIBUTE: text(ReplayContext(first_seen_seconds=10**15).to_json())}
NOTHING = dict.fromkeys(
    ["parked_reason", "error_code", "error_place", "source_queue", "first_seen_at"]
)


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        (
            message(attributes={**OURS, **counter("7")}, body="hällo"),
            {
                "first_id": "first",
                "first_seen_at": datetime.fromtimestamp(1_700_000_000, UTC),
                "parked_reason": "too_old",
                "error_type": "Timeout",
                "error_code": "slow",
                "error_message": "after 3 s",
                "plan_id": "p-1",
                "source_queue": "orders.fifo",
                "replay_count": 7,
                "body_bytes": 6,
                "queue_url": URL,
                "drained_at": DRAINED_AT,
            },
        ),
        (
            message(
                attributes=context(error=FailureError("Timeout", "", place="task/tax.py#rate"))
            ),
            {"error_code": None, "error_message": "", "error_place": "task/tax.py#rate"},
        ),
        (message("m-9"), {**NOTHING, "first_id": "m-9", "replay_count": 0}),
        # The source queue is only what the context says.
        (
            message(DeadLetterQueueSourceArn=queue_arn("orders")),
            {"source_arn": queue_arn("orders"), "source_queue": None},
        ),
        (
            message(attributes=BEYOND_THE_CALENDAR, SentTimestamp="9" * 18),
            {"first_seen_at": None, "sent_at": None},
        ),
    ],
)
def test_columns_repeat_what_a_message_says(source: Message, columns: dict[str, Any]) -> None:
    row = row_of(source)

    assert {name: row[name] for name in columns} == columns


@pytest.mark.parametrize(
    ("count", "column"),
    [
        ("many", None),
        ("-1", None),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        ("9" * 38, None),
    ],
)
def test_counter_beyond_the_column_is_null_but_kept(count: str, column: int | None) -> None:
    row = through_parquet(row_of(message(attributes=counter(count))))

    assert row["replay_count"] == column
    assert dict(row["attributes"])[REPLAY_COUNT_ATTRIBUTE]["string_value"] == count


@pytest.mark.parametrize("spelled", ["{", "[]", '{"v":2}', '{"v":1,"t0":"soon"}'])
def test_malformed_context_is_null_but_kept(spelled: str) -> None:
    row = row_of(message(attributes={CONTEXT_ATTRIBUTE: text(spelled)}))

    assert row["first_id"] == "m-1"
    assert row["parked_reason"] is None
    assert row["attributes"][CONTEXT_ATTRIBUTE]["string_value"] == spelled


def test_error_that_is_no_unicode_is_made_storable() -> None:
    spelled = (
        f'{{"v":1,"h":"{body_digest(BODY)}","error":{{"type":"E","message":"\\ud800 broke"}}}}'
    )

    row = through_parquet(row_of(message(attributes={CONTEXT_ATTRIBUTE: text(spelled)})))

    assert row["error_message"] == "? broke"


@pytest.mark.parametrize(
    "source",
    [
        message(body="\ud800"),
        message(attributes={"own": text("\ud800")}),
        message(attributes={"\ud800": text("x")}),
        message(MessageGroupId="\ud800"),
    ],
    ids=["body", "value", "name", "system"],
)
def test_message_that_is_no_unicode_is_malformed(source: Message) -> None:
    with pytest.raises(MalformedMessageError, match="message m-1: holds text that is no Unicode"):
        row_of(source)


@pytest.mark.parametrize(
    ("attributes", "source_arn", "reason"),
    [
        ({REPLAY_COUNT_ATTRIBUTE: "20"}, None, "unknown"),
        ({REPLAY_COUNT_ATTRIBUTE: "20"}, queue_arn("dlq"), None),
        ({}, None, None),
        ({}, queue_arn("dlq"), None),
    ],
)
def test_what_the_function_parked_without_a_reason_is_not_said_to_be_parked_by_sqs(
    attributes: dict[str, str], source_arn: str | None, reason: str | None
) -> None:
    typed = {name: MessageAttribute("Number", text) for name, text in attributes.items()}
    system = {"DeadLetterQueueSourceArn": source_arn} if source_arn else {}
    parked_copy = Message("m-1", "{}", typed, system)

    assert row_of(parked_copy)["parked_reason"] == reason


@pytest.mark.parametrize("reason", [*ParkReason, "said anna@example.com", "Anna Muster", "unknown"])
def test_a_reason_is_one_of_ours_or_unknown(reason: str) -> None:
    parked_copy = message("m-1", attributes=context(reason=reason))

    assert row_of(parked_copy)["parked_reason"] == (
        reason if reason in list(ParkReason) else "unknown"
    )


def test_what_a_message_says_of_itself_becomes_columns() -> None:
    attributes = {
        "RequestID": MessageAttribute("String", "r-1"),
        "ErrorMessage": MessageAttribute("String", "no rate"),
        "JavaType": MessageAttribute("String", "shop.Placed"),
    }

    row = row_of(Message("m-1", "{}", attributes, {}))

    assert (row["error_type"], row["error_message"]) == (None, "no rate")
    assert row["stated_kind"] == "JavaType=shop.Placed"
