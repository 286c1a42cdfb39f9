"""The messages that an engine is given to read, and which parts of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dlq.archive.ledger.open_set import first_rows_of
from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_reading import FILE, WANTED, read_files_work, read_messages_work
from dlq.archive.messages.message_store import (
    drain_folder,
    drain_ids,
    message_files,
    write_messages,
)
from dlq.archive.storage.files import Archive, open_archive
from dlq.engine import Work
from dlq.errors import ArchiveError
from tests.support.builders import message, queue_url

DRAINED_AT = datetime(2026, 11, 21, tzinfo=UTC)
FIRST, SECOND, THIRD = (f"20261121T03150{number}Z-abcdef" for number in range(3))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Each drain has messages that the one before it had, too."""
    archive = open_archive(str(tmp_path), creates=True)
    for start, drain_id in enumerate((FIRST, SECOND, THIRD)):
        drain(archive, drain_id, range(start, start + 4))
    return archive


def drain(archive: Archive, drain_id: str, numbers: Iterable[int]) -> None:
    messages = [message(f"m-{number:03d}", "{}") for number in numbers]
    rows = [to_row(letter, queue_url("parked"), DRAINED_AT) for letter in messages]
    write_messages(archive, drain_id, 0, rows)


def rows_of(work: Work) -> list[dict[str, Any]]:
    """Return the rows that the work makes, one partition after the other."""
    rows = []
    for partition in work.partitions:
        table = pa.Table.from_batches(work.function(partition.to_batches()), work.schema)
        rows += table.to_pylist()
    return rows


def test_each_message_is_read_once_from_the_file_that_is_named(archive: Archive) -> None:
    messages = first_rows_of(archive, drain_ids(archive))

    work = read_messages_work(archive, messages, ("message_id", FILE, "sent_at"), slots=2)

    rows = rows_of(work)
    assert work.schema.names == ["message_id", FILE, "sent_at", "drain_id"]
    assert Counter(row["message_id"] for row in rows) == {f"m-{n:03d}": 1 for n in range(6)}
    drains = {row["message_id"]: row["drain_id"] for row in rows}
    assert drains == {
        **dict.fromkeys(("m-000", "m-001", "m-002", "m-003"), FIRST),
        "m-004": SECOND,
        "m-005": THIRD,
    }
    assert all(row[FILE].startswith(f"{drain_folder(row['drain_id'])}/") for row in rows)


def test_a_drain_that_goes_on_changes_nothing(archive: Archive) -> None:
    messages = first_rows_of(archive, [FIRST])
    work = read_messages_work(archive, messages, ("message_id",), slots=1)
    drain(archive, FIRST, [90])

    assert [row["message_id"] for row in rows_of(work)] == ["m-000", "m-001", "m-002", "m-003"]


def test_of_whole_files_no_ids_are_named(archive: Archive) -> None:
    messages = first_rows_of(archive, drain_ids(archive))

    work = read_messages_work(archive, messages, ("message_id",), slots=1)

    (partition,) = work.partitions
    assert partition.schema == WANTED
    first, second, third = message_files(archive)
    assert partition.to_pylist() == [
        {FILE: first, "message_ids": None},
        {FILE: second, "message_ids": ["m-004"]},
        {FILE: third, "message_ids": ["m-005"]},
    ]


@pytest.mark.parametrize(
    ("files", "slots", "partitions"),
    [(0, 2, []), (1, 2, [1]), (5, 2, [3, 2]), (150, 2, [38, 38, 37, 37]), (120, 3, [40, 40, 40])],
)
def test_all_slots_get_as_many_partitions_of_about_as_many_files(
    archive: Archive, files: int, slots: int, partitions: Sequence[int]
) -> None:
    paths = [f"{drain_folder(FIRST)}/part-{number}.parquet" for number in range(files)]

    work = read_files_work(archive, paths, ("message_id",), slots)

    assert [partition.num_rows for partition in work.partitions] == partitions


def test_a_function_makes_other_rows_of_what_is_read(archive: Archive) -> None:
    def doubled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = batch["message_id"].to_pylist()
            yield pa.RecordBatch.from_pydict(
                {"twice": [f"{message_id}{message_id}" for message_id in ids]}
            )

    messages = first_rows_of(archive, [FIRST])
    then = Work((), doubled, pa.schema([("twice", pa.string())]))

    rows = rows_of(read_messages_work(archive, messages, ("message_id",), 1, then))

    assert rows[0] == {"twice": "m-000m-000"}
    assert len(rows) == 4


def test_a_file_that_is_gone_is_named(archive: Archive) -> None:
    (path,) = message_files(archive, [FIRST])
    work = read_files_work(archive, [path], ("message_id",), 1)
    archive.remove(path)

    with pytest.raises(ArchiveError, match=f"{path} is missing"):
        rows_of(work)
