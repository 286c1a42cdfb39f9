"""Law 7: one bad record never stops the others, and always says what was wrong."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.replaying.replay import BatchOutcome
from dlq_replay.replaying.sending import forever
from dlq_replay.rules.plan import Failed
from dlq_replay.wire.events import read_event
from tests.property.strategies import messages
from tests.support.builders import lambda_record, policy, replayer, three_queues

Record = dict[str, Any]

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


def replay(records: list[Record]) -> BatchOutcome:
    return replayer(policy(), *three_queues()).replay(read_event({"Records": records}), forever)


@given(events())
def test_bad_records_stay_and_say_why_and_the_others_go(
    event: tuple[list[Record], set[str]],
) -> None:
    records, bad = event
    failed = {one.message_id: one.fate for one in replay(records).failed}

    assert set(failed) == bad
    for fate in failed.values():
        assert isinstance(fate, Failed)
        assert fate.cause == "unreadable"
        assert fate.detail
