"""A run writes its decisions for its tasks, and each task reads its part of them."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_reading import FILE
from dlq.archive.messages.message_store import write_messages
from dlq.archive.storage.records import values_of
from dlq.archive.storage.table_parts import PARTS, parts_of
from dlq.errors import ArchiveError
from dlq.ids.columns import DESTINATION, DISPOSITION
from dlq.redrive.sending.send_task import TASK
from dlq.redrive.sending.written_rows import MessageReader, write_rows
from tests.support.builders import message, queue_url
from tests.support.id_rows import rows_of
from tests.support.ledgers import MemoryArchive

FOLDER = "dispositions"
TASKS = {("u", 0): 3}


def row(message_id: str, path: str, disposition: str = "send", to: str = "main") -> dict[str, Any]:
    return {
        "message_id": message_id,
        DISPOSITION: disposition,
        DESTINATION: to,
        "unit": "u",
        "chunk": 0,
        "position": 0,
        FILE: path,
    }


def table_of(*rows: dict[str, Any]) -> pa.Table:
    paths = pa.array([each.pop(FILE) for each in rows], pa.string())
    return rows_of(*rows).append_column(FILE, paths.dictionary_encode())


def archived(archive: MemoryArchive, *ids: str) -> str:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    messages = [message(message_id, f"body of {message_id}") for message_id in ids]
    rows = [to_row(source, queue_url("parked"), now) for source in messages]
    return write_messages(archive, "d-1", 1, rows)


def read_by_a_task(archive: MemoryArchive, dispositions: frozenset[str]) -> list[dict[str, Any]]:
    types: dict[str, pa.DataType] = {
        **dict.fromkeys(("message_id", "body", "drain_id", "group_id", "disposition"), pa.string()),
        "unit": pa.string(),
        "chunk": pa.int64(),
        "position": pa.int64(),
        TASK: pa.int32(),
    }

    work = MessageReader(
        archive=archive,
        proof=None,
        folder=FOLDER,
        destination="main",
        dispositions=dispositions,
        tasks=TASKS,
        schema=pa.schema(types),
    )
    listed = pa.RecordBatch.from_pylist(values_of(parts_of(archive, FOLDER)), schema=PARTS)

    rows = list[dict[str, Any]]()
    for batch in work.read([listed]):
        rows += batch.to_pylist()
    return rows


def test_messages_of_one_archived_file_are_written_into_one_file() -> None:
    archive = MemoryArchive()
    sizes = {"a": 1500, "b": 1500, "c": 900, "d": 2500, "e": 10}
    rows = [row(f"{path}-{n}", path) for path, size in sizes.items() for n in range(size)]

    write_rows(archive, table_of(*rows), FOLDER)

    assert sorted(part.rows for part in parts_of(archive, FOLDER)) == [10, 3000, 3400]


def test_a_task_reads_the_messages_that_go_there_with_what_was_decided() -> None:
    archive = MemoryArchive()
    first = archived(archive, "a", "b", "c")
    second = archived(archive, "d")
    rows = table_of(
        row("c", first),
        row("a", first, "discard"),
        row("b", first, to="elsewhere"),
        row("d", second),
    )
    write_rows(archive, rows, FOLDER)

    read = read_by_a_task(archive, frozenset({"send"}))

    assert [read_row["message_id"] for read_row in read] == ["c", "d"]
    assert [read_row["body"] for read_row in read] == ["body of c", "body of d"]
    for read_row in read:
        assert read_row["drain_id"] == "d-1"
        assert read_row[TASK] == 3
        assert read_row["disposition"] == "send"
    (discarded,) = read_by_a_task(archive, frozenset({"discard"}))
    assert discarded["message_id"] == "a"


def test_a_file_that_is_gone_ends_the_task() -> None:
    archive = MemoryArchive()
    path = archived(archive, "a")
    write_rows(archive, table_of(row("a", path)), FOLDER)
    archive.discard(path)

    with pytest.raises(ArchiveError, match="is missing; restore it"):
        read_by_a_task(archive, frozenset({"send"}))


def test_a_run_without_messages_has_a_table_too() -> None:
    archive = MemoryArchive()
    empty = table_of(row("a", "path")).slice(0, 0)

    write_rows(archive, empty, FOLDER)

    assert parts_of(archive, FOLDER) == []
