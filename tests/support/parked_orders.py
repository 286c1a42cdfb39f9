"""An archive of parked orders and a plan over it, written without Spark."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_store import write_messages
from dlq.archive.storage.files import Archive, open_archive
from dlq.plan.plan import Plan
from dlq.plan.plan_reading import read_plan
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import Message
from tests.support.approved_plan import planned
from tests.support.builders import NOW, context, message, queue_url

DRAIN_ID = "20261121T031502Z-ab12cd"


def order(number: int, *, vat: bool = True, source: str = "orders", **fields: Any) -> Message:
    """A parked order; without its VAT the consumer fails."""
    error = FailureError("TimeoutError", "no answer after 3 s")
    ours = context(
        first_id=f"first-{number}", reason="attempts_exhausted", error=error, source_queue=source
    )
    body = {"id": number, **({"vat": 19} if vat else {})}
    return message(f"m-{number:03d}", json.dumps(body), ours, **fields)


def archived(folder: Path, messages: Sequence[Message], parked: str = "parked") -> Archive:
    """Write messages as a drain of the queue *parked* would have left them."""
    archive = open_archive(str(folder / "archive"), creates=True)
    drained_at = datetime.fromtimestamp(NOW, UTC)
    rows = [to_row(message, queue_url(parked), drained_at) for message in messages]
    # Of two files, so that the order of a plan is not that of one file.
    for part in (rows[::2], rows[1::2]):
        if part:
            write_messages(archive, DRAIN_ID, 0, part)
    return archive


def plan_of(archive: Archive) -> Plan:
    """Write a plan over all of it and read it."""
    return read_plan(Path(planned(archive)).read_text())
