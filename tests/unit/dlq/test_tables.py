"""The files of a table: what is written, named and read."""

from typing import Any

import pyarrow as pa
import pytest

from dlq.archive.storage.files import Archive
from dlq.archive.storage.table_parts import parts_of, read_whole, table_digest, write_whole
from dlq.errors import ArchiveError, InputError

FOLDER = "reports/r/messages.parquet"
FIELDS: "list[pa.Field[Any]]" = [
    pa.field("message_id", pa.string()),
    pa.field("position", pa.int64()),
]
SCHEMA = pa.schema(FIELDS)
NEW_FIELD: "pa.Field[Any]" = pa.field("new", pa.timestamp("us", "UTC"))


def table(*ids: str) -> pa.Table:
    return pa.table({"message_id": pa.array(ids, pa.string()), "position": [7] * len(ids)})


def written(archive: Archive, *tables: pa.Table) -> str:
    return write_whole(archive, FOLDER, tables)


def ids_of(archive: Archive, schema: pa.Schema = SCHEMA) -> list[Any]:
    return read_whole(archive, FOLDER, schema)["message_id"].to_pylist()


def test_a_table_is_read_as_it_was_written(archive: Archive) -> None:
    attribute: Any = pa.struct([("a", pa.string())])
    types: dict[str, pa.DataType] = {
        "tags": pa.list_(pa.string()),
        "attributes": pa.map_(pa.string(), attribute),
        "at": pa.timestamp("us", "UTC"),
        "group_id": pa.dictionary(pa.int32(), pa.string()),
    }
    rows: list[dict[str, Any]] = [
        {"tags": ["x", None], "attributes": [("k", {"a": "v"})], "at": 0, "group_id": "g-1"},
        {"tags": [], "attributes": [], "at": 1, "group_id": "g-1"},
        {"tags": None, "attributes": None, "at": None, "group_id": None},
    ]
    given = pa.Table.from_pylist(rows, pa.schema(types))

    digest = written(archive, given.slice(0, 2), given.slice(2))

    # The files are read in the order of their names, which are random.
    read = read_whole(archive, FOLDER, given.schema, digest)
    assert read.schema == given.schema
    assert sorted(map(str, read.to_pylist())) == sorted(map(str, given.to_pylist()))
    assert [part.rows for part in parts_of(archive, FOLDER)] in ([1, 2], [2, 1])
    texts = read_whole(archive, FOLDER, pa.schema([("group_id", pa.string())]))
    assert sorted(map(str, texts["group_id"].to_pylist())) == ["None", "g-1", "g-1"]


def test_a_table_without_rows_is_a_table_without_files(archive: Archive) -> None:
    digest = written(archive, table(), table())

    assert parts_of(archive, FOLDER, digest) == []
    assert read_whole(archive, FOLDER, SCHEMA, digest) == SCHEMA.empty_table()


def test_files_that_the_manifest_does_not_name_are_ignored(archive: Archive) -> None:
    archive.write(f"{FOLDER}/part-1-left-by-a-killed-writer.parquet", b"half a file")
    written(archive, table("a"))

    assert ids_of(archive) == ["a"]


def test_there_is_no_table_before_its_manifest(archive: Archive) -> None:
    archive.write(f"{FOLDER}/part-1-left-by-a-killed-writer.parquet", b"half a file")

    assert table_digest(archive, FOLDER) is None
    with pytest.raises(ArchiveError, match=r"manifest\.json is missing"):
        parts_of(archive, FOLDER)


def test_first_of_two_writers_wins_and_the_other_leaves_no_files(archive: Archive) -> None:
    first = written(archive, table("a"))
    second = written(archive, table("b"))

    assert first == second == table_digest(archive, FOLDER)
    assert ids_of(archive) == ["a"]
    assert len(archive.list(FOLDER)) == 2


def test_a_table_with_another_digest_is_refused(archive: Archive) -> None:
    digest = written(archive, table("a"))

    assert parts_of(archive, FOLDER, digest)
    with pytest.raises(InputError, match="not the table that the plan was made with"):
        parts_of(archive, FOLDER, "0" * 64)


def test_a_file_that_cannot_be_written_is_named(archive: Archive) -> None:
    archive.write("reports/r", b"")

    with pytest.raises(ArchiveError, match=rf"cannot write {FOLDER}/part"):
        written(archive, table("a"))


def remove(archive: Archive, path: str) -> None:
    archive.remove(path)


def empty(archive: Archive, path: str) -> None:
    archive.write(path, b"")


@pytest.mark.parametrize(
    ("damage", "schema", "fault"),
    [
        (remove, SCHEMA, "is missing; restore it"),
        (empty, SCHEMA, "was changed after it was written"),
        (lambda *_: None, SCHEMA.append(NEW_FIELD), "cannot be read"),
    ],
)
def test_a_file_that_is_missing_changed_or_of_other_columns_is_named(
    archive: Archive, damage: Any, schema: pa.Schema, fault: str
) -> None:
    written(archive, table("a"))
    (part,) = parts_of(archive, FOLDER)
    damage(archive, f"{FOLDER}/{part.name}")

    with pytest.raises(ArchiveError, match=f"{part.name} {fault}"):
        ids_of(archive, schema)


def test_a_manifest_that_is_no_manifest_is_named(archive: Archive) -> None:
    archive.write(f"{FOLDER}/manifest.json", b'{"parts": 1')

    with pytest.raises(ArchiveError, match=r"manifest\.json cannot be read"):
        parts_of(archive, FOLDER)
