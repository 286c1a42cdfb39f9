"""Errors of messages that analyses found in logs. Needs no Spark.

``reports/<plan id>/reasons.parquet`` is a part of a report, so that an erase removes it. A message
is in no file that is older than its drain.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_reprocess.archive.messages.message_index import REPORTS
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.archive.storage.records import damage_named
from spark_reprocess.archive.storage.table_parts import PARQUET_DAMAGE, parquet_bytes

_FILE = "reasons.parquet"
REASONS = pa.schema(
    [
        (name, pa.string())
        for name in ("message_id", "log_error_type", "log_error_message", "logged")
    ]
)
"""``logged`` says in lines how and where it was found, with a link and frames."""


def write_reasons(archive: Archive, plan_id: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Keep what an analysis found."""
    table = pa.Table.from_pylist(list(rows), schema=REASONS)
    archive.write(f"{REPORTS}/{plan_id}/{_FILE}", parquet_bytes(table))


def read_reasons(archive: Archive, oldest_drain: str) -> dict[str, dict[str, Any]]:
    """Return what was found last of messages of this drain or later ones, by their id."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(one for one in archive.list(REPORTS) if one.endswith(f"/{_FILE}")):
        if path.split("/")[1] < oldest_drain or (content := archive.read(path)) is None:
            continue
        with damage_named(archive, path, PARQUET_DAMAGE, "remove it"):
            rows = pq.read_table(pa.BufferReader(content)).select(REASONS.names).to_pylist()
        found.update((row["message_id"], row) for row in rows)
    return found
