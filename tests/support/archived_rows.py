"""The messages of an archive, as rows; without an engine."""

from typing import Any

from dlq.archive.messages.message_store import message_files, rows_by_file
from dlq.archive.storage.files import Archive


def archived_rows(archive: Archive) -> list[dict[str, Any]]:
    """Return one row of each message, by its id: of several that of the file that comes first."""
    rows: dict[str, dict[str, Any]] = {}
    for _, table in rows_by_file(archive, message_files(archive)):
        for row in table.to_pylist():
            rows.setdefault(row["message_id"], row)
    return [rows[message_id] for message_id in sorted(rows)]


def archived_ids(archive: Archive) -> list[str]:
    """Return the ids of all messages, sorted."""
    return [row["message_id"] for row in archived_rows(archive)]
