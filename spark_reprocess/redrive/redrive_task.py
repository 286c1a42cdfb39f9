"""One redrive task: rows in the plan's order become chunks, chunks go to the ``ChunkSender``."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa

from dlq_replay.garbage import search_rarely
from dlq_replay.sending import SendResult, send_lanes
from dlq_replay.sqs import SqsQueue
from spark_reprocess.archive.dead_letter_schema import SENDING_COLUMNS, from_row
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import Ledger
from spark_reprocess.clients import CONCURRENT_CALLS, ClientFactory
from spark_reprocess.editing.errors import EditError
from spark_reprocess.errors import ArchiveError
from spark_reprocess.redrive.chunk_sender import (
    ChunkSender,
    Item,
    Lanes,
    SendLanes,
    Settled,
    settle_all,
)
from spark_reprocess.redrive.conducted import Address, DriverUnreachableError, conducted
from spark_reprocess.redrive.editor import CHANGES, Editor
from spark_reprocess.redrive.gated_queue import Gate, GatedQueue
from spark_reprocess.redrive.refusals import Outlook
from spark_reprocess.redrive.run_facts import RunFacts
from spark_reprocess.redrive.selection import POSITION, Fate

SETTLED_SCHEMA = "group_id string, word string, detail string, count long, examples array<string>"
_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("group_id", pa.string()),
    pa.field("word", pa.string()),
    pa.field("detail", pa.string()),
    pa.field("count", pa.int64()),
    pa.field("examples", pa.list_(pa.string())),
]
_ARROW = pa.schema(_FIELDS)
TASK_COLUMNS = (*SENDING_COLUMNS, CHANGES, "group_id", "fate", *POSITION)
"""What ``RedriveTask.run`` needs of a row; the others stay where they are."""

_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class RedriveTask:
    """What each task takes along; ``run`` is what Spark calls."""

    archive: Archive
    facts: RunFacts
    address: Address
    make_sender: ClientFactory

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Settle the rows of one partition, sorted by unit, chunk and place; yield the tally.

        What is not in it was not reached. Sends nothing without a line to the driver.
        """
        search_rarely()
        try:
            with conducted(self.address) as gate:
                tally = self._settled(gate, batches)
        except DriverUnreachableError as error:
            tally = [{"word": Fate.NOT_REACHED, "detail": str(error), "count": 0}]
        yield pa.RecordBatch.from_pylist(tally, schema=_ARROW)

    def _settled(self, gate: Gate, batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
        if self.facts.probe:
            try:
                self.facts.probe.check(self.archive)
            except ArchiveError as error:
                # A claim on this machine's own disk would keep nobody else from sending.
                gate.stop(str(error))
                return []
        url = self.facts.destination
        queue = SqsQueue(self.make_sender(url), url, tries_once=True)
        with ThreadPoolExecutor(CONCURRENT_CALLS, thread_name_prefix="send") as executor:
            sender = self._sender(gate, queue, partial(_send_by_threads, executor))
            return _tally(settle_all(sender, self._chunks(batches)))

    def _sender(
        self, gate: Gate, queue: SqsQueue, send_all: SendLanes[GatedQueue]
    ) -> ChunkSender[GatedQueue]:
        outlook, is_fifo = Outlook(), self.facts.to_fifo
        return ChunkSender(
            queue_until=lambda until: GatedQueue(
                queue, gate, outlook, until, time.time, random.uniform, is_fifo=is_fifo
            ),
            send_lanes=send_all,
            ledger=Ledger(self.archive, self.facts.plan_id),
            facts=self.facts,
            gate=gate,
            now_seconds=time.time,
        )

    def _chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, int, list[Item]]]:
        editor = self.facts.editor
        rows = (row for batch in batches for row in batch.to_pylist())
        for (unit, chunk), of_chunk in groupby(rows, key=lambda row: (row["unit"], row["chunk"])):
            yield unit, chunk, [_item(row, self.facts, editor) for row in of_chunk]


def _send_by_threads(
    executor: Executor, lanes: Lanes, _: GatedQueue, seconds_left: Callable[[], float]
) -> Mapping[str, SendResult]:
    return send_lanes(lanes, executor, seconds_left)


def _item(row: dict[str, Any], facts: RunFacts, editor: Editor) -> Item:
    if row["fate"] != Fate.SEND:
        return Item(row["group_id"], row["fate"], from_row(row))
    try:
        message = editor.message(row)
    except EditError:
        # Weighing found no fault, so an expression gave another value now: leave it.
        return Item(row["group_id"], Fate.EDIT_FAILED, from_row(row))
    if not facts.has_room(message):
        return Item(row["group_id"], Fate.NO_ROOM, message)
    return Item(row["group_id"], Fate.SEND, message, facts.entry(message))


def _tally(settled: Iterable[Settled]) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    examples: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for one in settled:
        key = (one.item.group_id, one.word, one.detail)
        counts[key] += 1
        if len(examples[key]) < _EXAMPLES:
            examples[key].append(one.item.message_id)
    return [
        {
            "group_id": group_id,
            "word": word,
            "detail": detail,
            "count": count,
            "examples": examples[group_id, word, detail],
        }
        for (group_id, word, detail), count in counts.items()
    ]
