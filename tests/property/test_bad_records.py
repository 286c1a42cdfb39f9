"""Law 7: one bad record never stops the others, and always says what was wrong."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dlq_replay.events import UnreadableRecord, read_event
from dlq_replay.message import Message
from dlq_replay.plan import Failed
from dlq_replay.replay import BatchOutcome, Replayer
from dlq_replay.sending import forever
from tests.builders import NOW, FakeQueue, lambda_record, message, policy, queue_url
from tests.property.strategies import messages
from tests.simulation.event_source import InlineExecutor

Record = dict[str, Any]
Read = Callable[[object], Sequence[Message | UnreadableRecord]]

junk = st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.just({"a": "b"})
broken_fields = st.fixed_dictionaries(
    {},
    optional={
        "body": st.none() | st.integers() | st.just("") | st.just({"a": 1}),
        "messageAttributes": st.dictionaries(
            st.text(), junk.filter(lambda v: v is not None), min_size=1
        ),
        "attributes": st.integers() | st.text(min_size=1),
    },
).filter(bool)


@st.composite
def events(draw: st.DrawFn) -> tuple[list[Record], set[str]]:
    """Records in any order, and the ids of the bad ones."""
    records: list[Record] = []
    bad: set[str] = set()
    for index in range(draw(st.integers(1, 10))):
        record = lambda_record(draw(messages(f"m-{index}")))
        if draw(st.booleans()):
            record |= draw(broken_fields)
            bad.add(f"m-{index}")
        records.append(record)
    return records, bad


def replay(records: list[Record], read: Read) -> BatchOutcome:
    queues = [FakeQueue(queue_url(name)) for name in ("main", "dlq", "parked")]
    main, dlq, parked = queues
    replayer = Replayer(policy(), main, dlq, parked, lambda: NOW, lambda top: top, InlineExecutor())
    return replayer.replay(read({"Records": records}), forever)


def check(records: list[Record], bad: set[str], read: Read = read_event) -> None:
    outcome = replay(records, read)

    failed = {one.message_id: one.fate for one in outcome.failed}
    assert set(failed) == bad
    for fate in failed.values():
        assert isinstance(fate, Failed)
        assert fate.cause == "unreadable"
        assert fate.detail


@given(events())
def test_bad_records_stay_and_say_why_and_the_others_go(
    event: tuple[list[Record], set[str]],
) -> None:
    check(*event)


def stops_at_the_first_bad_record(event: object) -> list[Message | UnreadableRecord]:
    """What a reader does that raises: the rest of the batch fails with the bad one."""
    records = read_event(event)
    is_bad = any(isinstance(record, UnreadableRecord) for record in records)
    return (
        [UnreadableRecord(r.message_id, "failed together") for r in records] if is_bad else records
    )


def drops_bad_records(event: object) -> list[Message | UnreadableRecord]:
    """What a reader does that skips: the platform deletes what is not named."""
    return [record for record in read_event(event) if isinstance(record, Message)]


@pytest.mark.parametrize("read", [stops_at_the_first_bad_record, drops_bad_records])
def test_law_catches_a_broken_reader(read: Read) -> None:
    @settings(
        max_examples=200,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(events())
    def law(event: tuple[list[Record], set[str]]) -> None:
        check(*event, read=read)

    with pytest.raises(AssertionError):
        law()


def test_example_of_a_bad_record_is_bad() -> None:
    records = [lambda_record(message("a")), {**lambda_record(message("b")), "body": None}]

    check(records, {"b"})
