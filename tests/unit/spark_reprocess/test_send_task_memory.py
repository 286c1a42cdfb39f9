"""One task, without Spark: rows in, counts out."""

import gc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from dlq_replay.wire.message import Message
from local_sqs.client import client_for
from local_sqs.clock import Clock
from local_sqs.model import SqsModel
from spark_reprocess.archive.ledger.claims import CHUNK_MESSAGES
from spark_reprocess.archive.messages.dead_letter_schema import (
    ARROW_SCHEMA,
    SENDING_COLUMNS,
    to_row,
)
from spark_reprocess.archive.storage.files import open_archive
from spark_reprocess.redrive.redrive_values import RedriveOptions
from spark_reprocess.redrive.resolving.editor import CHANGES
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.redrive.sending.send_task import TASK, TASK_COLUMNS, SendTask
from tests.support.builders import NOW, message, queue_url

CHUNKS = 4


def rows_of(chunk: int) -> pa.RecordBatch:
    """One chunk's rows with what a task gets of each, and nothing else."""
    drained_at = datetime.fromtimestamp(NOW, UTC)
    rows = [
        {
            **to_row(message(f"m-{chunk}-{n}", "x" * 1000), queue_url("parked"), drained_at),
            "drain_id": "d",
            "group_id": "g",
            "disposition": "send",
            "unit": "g",
            "chunk": chunk,
            "place": n,
            CHANGES: None,
            TASK: 0,
        }
        for n in range(CHUNK_MESSAGES)
    ]
    plan: list[pa.Field[Any]] = [
        *(pa.field(name, pa.string()) for name in ("drain_id", "group_id", "disposition", "unit")),
        *(pa.field(name, pa.int64()) for name in ("chunk", "place")),
        pa.field(CHANGES, pa.null()),
        pa.field(TASK, pa.int32()),
    ]
    sending = [ARROW_SCHEMA.field(name) for name in SENDING_COLUMNS]
    schema = pa.schema([*sending, *plan])
    assert sorted(schema.names) == sorted(TASK_COLUMNS)
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def live_messages() -> int:
    return sum(isinstance(one, Message) for one in gc.get_objects())


def test_a_task_holds_no_more_than_its_chunk_however_many_follow(tmp_path: Path) -> None:
    model = SqsModel(Clock())
    main = model.url_of(model.create_queue("main", {}))
    client = client_for(model)
    context = RunContext(RedriveOptions("a"), "p-1", main)
    held: list[int] = []
    before = live_messages()

    def batches() -> Iterator[pa.RecordBatch]:
        for chunk in range(1, CHUNKS + 1):
            held.append(live_messages() - before)
            yield rows_of(chunk)

    task = SendTask(open_archive(str(tmp_path)), context, lambda _: client, "progress")
    (tally,) = task.run(batches())

    assert tally.to_pylist()[0]["count"] == CHUNKS * CHUNK_MESSAGES
    assert max(held) <= 2 * CHUNK_MESSAGES
