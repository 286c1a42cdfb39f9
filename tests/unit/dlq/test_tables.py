"""The files of a table, without a Spark session: what a task writes, names and reads."""

from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pytest

from dlq.archive.storage.files import Archive
from dlq.archive.storage.table_parts import (
    Part,
    commit,
    parts_of,
    read_parts,
    table_digest,
    write_parts,
)
from dlq.errors import ArchiveError, InputError

FOLDER = "reports/r/messages.parquet"
FIELDS: "list[pa.Field[Any]]" = [
    pa.field("message_id", pa.string()),
    pa.field("position", pa.int64()),
]
SCHEMA = pa.schema(FIELDS)
NEW_FIELD: "pa.Field[Any]" = pa.field("new", pa.timestamp("us", "UTC"))


def batches(*ids: str) -> list[pa.RecordBatch]:
    """One batch for each id, as Spark may cut a partition."""
    return [pa.RecordBatch.from_pydict({"message_id": [one], "position": [7]}) for one in ids]


def write_part(archive: Archive, *ids: str, part_bytes: int = 1_000_000) -> list[Part]:
    written = write_parts(archive, FOLDER, batches(*ids), part_bytes)
    return [Part(**row) for batch in written for row in batch.to_pylist()]


def rows_of(archive: Archive, schema: pa.Schema = SCHEMA) -> list[dict[str, Any]]:
    listed = [asdict(one) for one in parts_of(archive, FOLDER)]
    found = read_parts(archive, FOLDER, schema, [pa.RecordBatch.from_pylist(listed)])
    return [row for batch in found for row in batch.to_pylist()]


def test_a_task_without_rows_writes_no_file(archive: Archive) -> None:
    assert write_part(archive) == []
    assert archive.list("reports") == []


def test_a_task_starts_a_new_file_when_it_holds_enough(archive: Archive) -> None:
    parts = write_part(archive, "a", "b", "c", part_bytes=1)

    assert [one.rows for one in parts] == [1, 1, 1]


def test_files_of_a_repeated_attempt_are_ignored(archive: Archive) -> None:
    write_part(archive, "a")
    commit(archive, FOLDER, write_part(archive, "a"))

    assert [row["message_id"] for row in rows_of(archive)] == ["a"]


def test_there_is_no_table_before_its_manifest(archive: Archive) -> None:
    write_part(archive, "a")

    assert table_digest(archive, FOLDER) is None
    with pytest.raises(ArchiveError, match=r"manifest\.json is missing"):
        parts_of(archive, FOLDER)


def test_first_of_two_writers_wins_and_the_other_leaves_no_files(archive: Archive) -> None:
    first = commit(archive, FOLDER, write_part(archive, "a"))
    second = commit(archive, FOLDER, write_part(archive, "b"))

    assert first == second == table_digest(archive, FOLDER)
    assert [row["message_id"] for row in rows_of(archive)] == ["a"]
    assert len(archive.list(FOLDER)) == 2


def test_a_table_with_another_digest_is_refused(archive: Archive) -> None:
    digest = commit(archive, FOLDER, write_part(archive, "a"))

    assert parts_of(archive, FOLDER, digest)
    with pytest.raises(InputError, match="not the table that the plan was made with"):
        parts_of(archive, FOLDER, "0" * 64)


@pytest.mark.parametrize(
    ("damage", "schema", "fault"),
    [
        (lambda one, path: one.remove(path), SCHEMA, "is missing; restore it"),
        (lambda one, path: one.write(path, b""), SCHEMA, "was changed after it was written"),
        (lambda *_: None, SCHEMA.append(NEW_FIELD), "cannot be read"),
    ],
)
def test_a_file_that_is_missing_changed_or_of_other_columns_is_named(
    archive: Archive, damage: Any, schema: pa.Schema, fault: str
) -> None:
    (part,) = write_part(archive, "a")
    commit(archive, FOLDER, [part])
    damage(archive, f"{FOLDER}/{part.name}")

    with pytest.raises(ArchiveError, match=f"{part.name} {fault}"):
        rows_of(archive, schema)


def test_a_manifest_that_is_no_manifest_is_named(archive: Archive) -> None:
    archive.write(f"{FOLDER}/manifest.json", b'{"parts": 1')

    with pytest.raises(ArchiveError, match=r"manifest\.json cannot be read"):
        parts_of(archive, FOLDER)
