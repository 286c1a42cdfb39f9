from itertools import islice
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.audit import Account, Evidence, FinalState, Sighting, account, read_archive, read_queue
from demo.environment import Queue
from demo.identity import COUNTER, Attribute, Content
from demo.workload import DemoMessage, Trait

SENT = {identity: Content(identity) for identity in ("a", "b", "c", "d")}
DONE = Sighting(processed_count=1)


def of(**evidence: Any) -> Account:
    sightings = evidence.pop("sightings", {})
    return account(SENT, Evidence(sightings, **evidence))


def test_each_message_has_the_fate_that_was_seen() -> None:
    result = of(
        sightings={
            "a": DONE,
            "b": Sighting(processed_count=1, replay_count=2),
            "c": Sighting(processed_count=1, replay_count=3, is_redriven=True),
        },
        archived={"c"},
    )

    assert result.states == {
        "a": FinalState.AT_ONCE,
        "b": FinalState.REPLAYED,
        "c": FinalState.REDRIVEN,
        "d": FinalState.LOST,
    }
    assert result.summary() == {
        "sent": 4,
        "processed": 3,
        "replayed": 2,
        "parked": 1,
        "redriven": 1,
        "lost": 1,
        "altered": 0,
        "duplicates": 0,
    }
    assert not result.is_all_well


@pytest.mark.parametrize(
    ("place", "state"),
    [
        ("main", FinalState.IN_MAIN),
        ("dlq", FinalState.IN_DLQ),
        ("parked", FinalState.PARKED),
        ("archived", FinalState.ARCHIVED),
    ],
)
def test_message_that_lies_somewhere_is_not_lost(place: str, state: FinalState) -> None:
    result = of(sightings=dict.fromkeys("bcd", DONE), **{place: {"a"}})

    assert result.states["a"] is state
    assert result.summary()["lost"] == 0
    assert not result.is_all_well


def test_processed_message_is_processed_wherever_a_copy_lies() -> None:
    result = of(sightings=dict.fromkeys("abcd", DONE), dlq={"a"})

    assert result.states["a"] is FinalState.AT_ONCE
    assert result.is_all_well


def test_copies_after_the_redrive_count_only_where_it_was_archived() -> None:
    late = Sighting(processed_count=1, replay_count=1, is_redriven=True)

    result = of(sightings=dict.fromkeys("abcd", late), archived={"a"})

    assert result.redriven == {"a"}
    assert result.states["b"] is FinalState.REPLAYED


def test_duplicates_are_processings_beyond_the_first() -> None:
    result = of(sightings={**dict.fromkeys("abc", DONE), "d": Sighting(processed_count=3)})

    assert result.duplicates == 2
    assert result.is_all_well


def test_altered_and_strange_messages_spoil_the_run() -> None:
    sightings = {**dict.fromkeys("abc", DONE), "d": Sighting(processed_count=1, is_altered=True)}

    result = of(sightings=sightings, strangers={"x"})

    assert result.altered == {"d", "x"}
    assert not result.is_all_well


def test_broken_order_spoils_the_run_and_counts_only_where_there_is_an_order() -> None:
    kept, broken = (of(sightings=dict.fromkeys("abcd", DONE), out_of_order=g) for g in ([], ["g"]))

    assert kept.is_all_well
    assert kept.summary()["out_of_order"] == 0
    assert not broken.is_all_well
    assert broken.summary()["out_of_order"] == 1
    assert "out_of_order" not in of().summary()


def test_counter_that_a_message_was_sent_with_is_no_replay() -> None:
    sent = {"a": Content("a", {COUNTER: Attribute("Number", "2")})}
    seen = {"a": Sighting(processed_count=1, replay_count=2)}

    result = account(sent, Evidence(seen))

    assert result.replayed == frozenset()
    assert result.states["a"] is FinalState.AT_ONCE


def test_archive_is_read_without_the_product(tmp_path: Path) -> None:
    message = DemoMessage.of(1, Content("b", {"x": Attribute("Binary", b"\x00")}), Trait.PLAIN)
    folder = tmp_path / "messages" / "drain_id=d1"
    folder.mkdir(parents=True)
    pq.write_table(_table(message.content), folder / "part-00000.parquet")

    assert list(read_archive(tmp_path)) == [message.content]
    assert list(read_archive(tmp_path / "nothing")) == []


def test_queue_is_read_until_only_what_is_held_is_left() -> None:
    queue = Queue("main", "http://127.0.0.1/1/main", "arn")
    client = _FakeClient(count=12, hidden_looks=2)

    contents = list(read_queue(cast("Any", client), queue, patience_seconds=5))

    assert [c.body for c in contents] == [f"b{n}" for n in range(12)]


def test_fifo_queue_is_read_by_deleting_for_a_group_would_stay_locked() -> None:
    queue = Queue("main.fifo", "http://127.0.0.1/1/main.fifo", "arn")
    client = _FakeClient(count=12, hidden_looks=2)

    contents = list(read_queue(cast("Any", client), queue, patience_seconds=5))

    assert [c.body for c in contents] == [f"b{n}" for n in range(12)]
    assert client.deleted == [f"handle of b{n}" for n in range(12)]


def test_reading_a_queue_ends_when_patience_does() -> None:
    queue = Queue("main", "http://127.0.0.1/1/main", "arn")
    client = _FakeClient(count=1, hidden_looks=1000)

    assert list(read_queue(cast("Any", client), queue, patience_seconds=0.1)) == []


class _FakeClient:
    """A queue whose messages stay hidden for the first looks."""

    def __init__(self, count: int, hidden_looks: int) -> None:
        self._bodies = (f"b{n}" for n in range(count))
        self._count = count
        self._hidden_looks = hidden_looks
        self.deleted: list[str] = []

    def get_queue_attributes(self, **_request: Any) -> dict[str, Any]:
        return {
            "Attributes": {
                "ApproximateNumberOfMessages": str(self._count - len(self.deleted)),
                "ApproximateNumberOfMessagesNotVisible": "0",
                "ApproximateNumberOfMessagesDelayed": "0",
            }
        }

    def receive_message(self, **_request: Any) -> dict[str, Any]:
        if self._hidden_looks:
            self._hidden_looks -= 1
            return {}
        bodies = islice(self._bodies, 10)
        return {"Messages": [{"Body": b, "ReceiptHandle": f"handle of {b}"} for b in bodies]}

    def delete_message(self, **request: Any) -> None:
        self.deleted.append(request["ReceiptHandle"])


def _table(content: Content) -> pa.Table:
    struct = pa.struct(
        [("data_type", pa.string()), ("string_value", pa.string()), ("binary_value", pa.binary())]
    )
    attributes = [
        (
            name,
            {
                "data_type": a.data_type,
                "string_value": a.value if isinstance(a.value, str) else None,
                "binary_value": a.value if isinstance(a.value, bytes) else None,
            },
        )
        for name, a in content.attributes.items()
    ]
    return pa.table(
        {
            "message_id": ["m1"],
            "body": [content.body],
            "attributes": pa.array([attributes], pa.map_(pa.string(), struct)),
        }
    )
