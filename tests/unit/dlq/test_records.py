"""Records of the archive: what is written is read, and nothing else is."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.storage.records import DAMAGE, record_of, values_of


@dataclass(frozen=True)
class Record:
    name: str
    time: datetime
    count: int = 0
    share: float = 0.0
    is_done: bool = False
    note: str | None = None
    ids: tuple[str, ...] = ()
    disposition: Disposition = Disposition.SEND


WRITTEN = Record(
    name="a",
    time=datetime(2026, 1, 2, tzinfo=UTC),
    count=3,
    share=0.5,
    is_done=True,
    note="why",
    ids=("m-1", "m-2"),
    disposition=Disposition.SENT,
)
VALUES = values_of(WRITTEN)


def test_record_that_was_written_is_read() -> None:
    assert record_of(Record, VALUES) == WRITTEN


@pytest.mark.parametrize(
    "changed",
    [
        {"name": None},
        {"name": 1},
        {"count": "3"},
        {"count": 0.5},
        {"share": "0.5"},
        {"is_done": "no"},
        {"is_done": 1},
        {"note": 7},
        {"ids": ["m-1", None]},
        {"time": "2026-01-02T00:00:00"},
        {"disposition": "gone"},
        {"disposition": None},
        {"unknown": 1},
    ],
)
def test_value_of_another_kind_shows_that_somebody_changed_the_file(
    changed: dict[str, object],
) -> None:
    with pytest.raises(DAMAGE):
        record_of(Record, {**VALUES, **changed})
