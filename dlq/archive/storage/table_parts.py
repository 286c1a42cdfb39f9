"""The files of a table in the archive: Parquet files and a manifest.

``<folder>/manifest.json`` names the files of the table. It is written last, by create-if-absent: a
table is complete, or it does not exist. Readers ignore files that the manifest does not name: a
writer that was killed left them.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, is_dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import (
    damage_named,
    missing,
    record_bytes,
    record_of,
)
from dlq.errors import ArchiveError, InputError

PARQUET_DAMAGE = (pa.ArrowException, OSError, KeyError)
"""Exceptions of pyarrow for a damaged file: OSError if it cannot decompress a page, KeyError if a
column is missing."""

_MANIFEST = "manifest.json"
_CONCURRENT_FILES = 8

_ARROW_TYPES: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    datetime: pa.timestamp("us", tz="UTC"),
}


def arrow_fields(record: Any) -> dict[str, pa.DataType]:  # noqa: ANN401 - a type
    """Return the Arrow types of a record's fields by name."""
    return {name: arrow_type(kind) for name, kind in get_type_hints(record).items()}


def arrow_type(kind: Any) -> pa.DataType:  # noqa: ANN401 - a type
    """Return the Arrow type of a field's type; a dataclass is a struct of its fields."""
    if kind in _ARROW_TYPES:
        return _ARROW_TYPES[kind]
    if is_dataclass(kind):
        return pa.struct([*arrow_fields(kind).items()])
    if isinstance(kind, type) and issubclass(kind, str):
        return pa.string()

    arguments = get_args(kind)
    if get_origin(kind) is Mapping:
        return pa.map_(arrow_type(arguments[0]), arrow_type(arguments[1]))
    inside = arrow_type(arguments[0])
    return pa.list_(inside) if get_origin(kind) is tuple else inside


@dataclass(frozen=True, slots=True)
class TablePart:
    """One Parquet file of a table: its path below the table's folder, and the digest in hex."""

    name: str
    rows: int
    sha256: str


PARTS = pa.schema(arrow_fields(TablePart))


def table_digest(archive: Archive, folder: str) -> str | None:
    """Return the digest of the table *folder*, None where there is no table."""
    content = archive.read(f"{folder}/{_MANIFEST}")
    return None if content is None else sha256(content).hexdigest()


def commit(archive: Archive, folder: str, parts: Sequence[TablePart]) -> str:
    """Write the manifest that names *parts*; return the digest of the table.

    If another writer was first, its table stays: the files of *parts* are removed.
    """
    content = record_bytes(sorted(parts, key=lambda part: part.name))
    if archive.create(f"{folder}/{_MANIFEST}", content):
        return sha256(content).hexdigest()

    for part in parts:
        archive.discard(f"{folder}/{part.name}")
    digest = table_digest(archive, folder)
    if digest is None:
        raise ArchiveError(f"archive {archive.root}: {folder} was removed while it was written")
    return digest


def parts_of(archive: Archive, folder: str, digest: str | None = None) -> list[TablePart]:
    """Read the names of a table's files; raise InputError if there is none with this *digest*."""
    path = f"{folder}/{_MANIFEST}"
    content = archive.read(path)
    if digest is not None and sha256(content or b"").hexdigest() != digest:
        raise InputError(
            f"archive {archive.root}: {folder} is not there, or is not the table that the plan was "
            "made with; if this is the plan's archive, collect again"
        )
    if content is None:
        raise missing(archive, path)
    with damage_named(archive, path):
        return record_of(list[TablePart], json.loads(content))


def write_whole(archive: Archive, folder: str, tables: Sequence[pa.Table]) -> str:
    """Write the table *folder*, a file for each of *tables* that has rows, several at once.

    A table is written once. If another writer was first, its table stays.

    Returns:
        The digest of the table that exists now.
    """
    write = partial(_write_part, archive, folder)
    with ThreadPoolExecutor(_CONCURRENT_FILES, thread_name_prefix="table") as executor:
        parts = list(executor.map(write, [table for table in tables if table.num_rows]))
    return commit(archive, folder, parts)


def read_whole(
    archive: Archive, folder: str, schema: pa.Schema, digest: str | None = None
) -> pa.Table:
    """Read the columns of *schema* of the table *folder*, several files at once.

    Raises:
        InputError: the table has another *digest*.
    """
    read = partial(read_part, archive, folder, schema)
    with ThreadPoolExecutor(_CONCURRENT_FILES, thread_name_prefix="table") as executor:
        tables = list(executor.map(read, parts_of(archive, folder, digest)))
    return pa.concat_tables(tables).unify_dictionaries() if tables else schema.empty_table()


def _write_part(archive: Archive, folder: str, table: pa.Table) -> TablePart:
    content = parquet_bytes(table)
    name = f"part-{table.num_rows}-{secrets.token_hex(12)}.parquet"
    archive.write(f"{folder}/{name}", content)
    return TablePart(name, table.num_rows, sha256(content).hexdigest())


def parquet_bytes(table: pa.Table) -> bytes:
    """Serialize a table as a Parquet file, with checksums."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue().to_pybytes()


def read_part(archive: Archive, folder: str, schema: pa.Schema, part: TablePart) -> pa.Table:
    """Read the columns of *schema* of one file."""
    path = f"{folder}/{part.name}"
    content = archive.read(path)
    if content is None:
        raise missing(archive, path)
    if sha256(content).hexdigest() != part.sha256:
        raise ArchiveError(
            f"archive {archive.root}: {path} was changed after it was written; restore it from a "
            "backup"
        )
    dictionaries = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    with damage_named(archive, path, PARQUET_DAMAGE):
        file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=dictionaries)
        return file.read(columns=schema.names).select(schema.names).cast(schema)
