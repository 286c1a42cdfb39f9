"""Why messages failed, as a consumer's log has it: what analyses found and keep. Needs no Spark.

``reports/<plan id>/reasons.parquet`` has a row for each message. It is a part of the report, so
that an erase removes it. A message's reason is in no file that is older than its drain.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_index import REPORTS
from spark_reprocess.archive.table_parts import PARQUET_DAMAGE, parquet_bytes
from spark_reprocess.errors import ArchiveError

_FILE = "reasons.parquet"
_COLUMNS = ("message_id", "log_error_type", "log_error_message", "logged")
REASONS = pa.schema([pa.field(name, pa.string()) for name in _COLUMNS])
"""``logged`` says how it was found and where, in lines: that, a link, and frames."""


def write_reasons(archive: Archive, plan_id: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep what an analysis found.

    Raises:
        ArchiveError: it cannot be written.
    """
    table = pa.Table.from_pylist(list(rows), schema=REASONS)
    archive.write(f"{REPORTS}/{plan_id}/{_FILE}", parquet_bytes(table))


def read_reasons(
    archive: Archive, oldest_drain: str, message_ids: Collection[str] | None = None
) -> pa.Table:
    """Return the reasons of messages of this drain and later ones; of *message_ids*, or of all.

    A message has one row, what was found last.

    Raises:
        ArchiveError: a file cannot be read.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(one for one in archive.list(REPORTS) if one.endswith(f"/{_FILE}")):
        if path.split("/")[1] < oldest_drain or (content := archive.read(path)) is None:
            continue
        try:
            table = pq.read_table(pa.BufferReader(content)).select(REASONS.names)
        except PARQUET_DAMAGE as error:
            raise ArchiveError(f"archive {archive.root}: {path} is damaged; remove it") from error
        if message_ids is not None:
            wanted = pa.array(message_ids, pa.string())
            table = table.filter(pc.is_in(table["message_id"], value_set=wanted))
        found.update((row["message_id"], row) for row in table.to_pylist())
    return pa.Table.from_pylist(list(found.values()), schema=REASONS)


def log_link(region: str | None, group: str, stream: str, time_ms: int) -> str:
    """Return the address of an event in the console of CloudWatch Logs; empty without a Region."""
    if not region:
        return ""
    names = [quote(quote(one, safe=""), safe="").replace("%", "$") for one in (group, stream)]
    home = f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#logsV2:"
    return f"{home}log-groups/log-group/{names[0]}/log-events/{names[1]}$3Fstart$3D{time_ms}"
