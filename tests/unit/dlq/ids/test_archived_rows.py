"""The rules' columns of archived messages are read by file, whatever an erase has moved."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_reading import FILE
from dlq.archive.messages.message_store import remove_messages, write_messages
from dlq.redrive.resolving.archived_rows import read_archived
from tests.support.builders import message, queue_url
from tests.support.ledgers import MemoryArchive

COLUMNS = ("message_id", "queue_url", "body_bytes")


def written(archive: MemoryArchive, drain_id: str, *ids: str) -> str:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    messages = [message(message_id, body=message_id * 3) for message_id in ids]
    rows = [to_row(source, queue_url("parked"), now) for source in messages]
    return write_messages(archive, drain_id, 1, rows)


def wanted(**files: str) -> pa.Table:
    """A row for each message, with the file that had it."""
    table = pa.table({"message_id": list(files), FILE: list(files.values())})
    table = table.append_column("group_id", pa.array([f"s-{message_id}" for message_id in files]))
    return table.set_column(1, FILE, table[FILE].dictionary_encode())


def found_rows(archive: MemoryArchive, table: pa.Table) -> dict[str, tuple[Any, ...]]:
    rows = read_archived(archive, table, COLUMNS, lambda rows: rows.drop_columns(["queue_url"]))
    assert rows.schema.names == ["message_id", FILE, "group_id", "body_bytes"]
    values = {}
    for row in rows.to_pylist():
        values[row["message_id"]] = (row[FILE], row["group_id"], row["body_bytes"])
    return values


def test_the_wanted_messages_are_read_each_with_its_columns() -> None:
    archive = MemoryArchive()
    first = written(archive, "d-1", "a", "bb", "ccc")
    second = written(archive, "d-2", "dddd")

    rows = found_rows(archive, wanted(dddd=second, a=first, ccc=first))

    assert rows == {
        "a": (first, "s-a", 3),
        "ccc": (first, "s-ccc", 9),
        "dddd": (second, "s-dddd", 12),
    }


def test_of_a_message_in_two_files_the_named_row_counts() -> None:
    archive = MemoryArchive()
    first = written(archive, "d-1", "a", "b")
    second = written(archive, "d-1", "b", "c")

    assert found_rows(archive, wanted(a=first, b=second, c=second))["b"][0] == second


def test_what_an_erase_has_moved_is_found_and_what_it_erased_is_not() -> None:
    archive = MemoryArchive()
    first = written(archive, "d-1", "a", "b", "c")
    other = written(archive, "d-1", "x")
    table = wanted(a=first, b=first, c=first, x=other)
    remove_messages(archive, "d-1", ["b"], lambda: None)

    rows = found_rows(archive, table)

    assert set(rows) == {"a", "c", "x"}
    assert rows["x"][0] == other
    assert rows["a"][0] == rows["c"][0] != first


def test_files_that_are_replaced_while_they_are_read_are_found() -> None:
    archive = MemoryArchive()
    first = written(archive, "d-1", "a", "b")
    table = wanted(a=first, b=first)
    listed = archive.list
    moves = iter([True])

    def list_then_erase(folder: str) -> list[str]:
        paths = listed(folder)
        if next(moves, False):
            remove_messages(archive, "d-1", ["b"], lambda: None)
        return paths

    object.__setattr__(archive, "list", list_then_erase)

    assert set(found_rows(archive, table)) == {"a"}


def test_nothing_is_left_of_an_archive_that_expired() -> None:
    archive = MemoryArchive()
    table = wanted(a="messages/drain_id=d-1/part-00001-1-x.parquet")

    assert found_rows(archive, table) == {}
