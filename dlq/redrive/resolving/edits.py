"""A plan's edits, SQL and JSON Patch, on the messages of its groups; see ``editor``."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.messages.dead_letter_schema import (
    ARROW_SCHEMA,
    READ_COLUMNS,
    SENDING_COLUMNS,
    from_row,
)
from dlq.archive.messages.message_reading import DRAIN_ID, FILE, partition_count
from dlq.archive.storage.files import Archive
from dlq.engine import GROUP_ID, Engine, Work
from dlq.explain.signature.mask import Masks
from dlq.ids.columns import (
    arrow,
    have_disposition,
    in_order_of,
    numbered_values,
    values_among,
    with_column,
)
from dlq.ids.order import runs_of
from dlq.plan.edit import Edit
from dlq.redrive.resolving.archived_rows import read_beside
from dlq.redrive.resolving.editor import (
    FAULTS,
    Editor,
    EditSample,
    edit_sample,
)
from dlq.sql.allowed import named_columns

_PREVIEW_SAMPLES = 3
"""Messages shown of each group."""

_RANK = "rank"
"""A column: the place of a sample among those of its group, from 0."""

_SAMPLE_TYPES: dict[str, pa.DataType] = {
    GROUP_ID: pa.string(),
    _RANK: pa.int64(),
    "message_id": pa.string(),
    "lines": pa.list_(pa.string()),
}
_SAMPLES = pa.schema(_SAMPLE_TYPES)
"""An ``EditSample``, and its rank."""

_BATCH_ROWS = 1000


def columns_for(edits: Mapping[str, Edit]) -> list[str]:
    """Return the columns of the archive that make a message with these edits."""
    named = set(SENDING_COLUMNS)
    for edit in edits.values():
        for _, sql in edit.set_attributes:
            if sql is not None:
                named.update(named_columns(sql, READ_COLUMNS))
    return [name for name in ARROW_SCHEMA.names if name in named]


def edit_faults(engine: Engine, archive: Archive, edited: pa.Table, editor: Editor) -> pa.Table:
    """Edit messages as a test; return ``FAULTS`` of those that cannot be edited.

    *edited* has ``message_id``, ``FILE`` and ``group_id`` of each message whose group has an edit.
    """
    work = _work(archive, edited, columns_for(editor.edits), engine.slots)
    then = Work((), editor.faults, FAULTS)
    return engine.run_edited(work, editor.attribute_sql, then)


def edit_samples(
    engine: Engine, archive: Archive, dispositions: pa.Table, editor: Editor, masks: Masks
) -> tuple[EditSample, ...]:
    """Show what the edit of each group changes in the first messages that are to be sent."""
    chosen = _first_of_groups(dispositions, editor.edits)
    work = _work(archive, chosen, columns_for(editor.edits), engine.slots)
    then = Work((), partial(_sample_rows, editor, masks), _SAMPLES)
    samples = engine.run_edited(work, editor.attribute_sql, then)

    chosen_samples: list[EditSample] = []
    in_order = samples.sort_by([(GROUP_ID, "ascending"), (_RANK, "ascending")])
    for row in in_order.to_pylist():
        chosen_samples.append(EditSample(row[GROUP_ID], row["message_id"], tuple(row["lines"])))
    return tuple(chosen_samples)


def _sample_rows(
    editor: Editor, masks: Masks, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        samples = []
        for row in batch.to_pylist():
            sample = edit_sample(row[GROUP_ID], from_row(row), editor.message(row), masks)
            samples.append(
                {
                    GROUP_ID: sample.group_id,
                    _RANK: row[_RANK],
                    "message_id": sample.message_id,
                    "lines": sample.lines,
                }
            )
        yield pa.RecordBatch.from_pylist(samples, _SAMPLES)


def _work(archive: Archive, messages: pa.Table, columns: Collection[str], slots: int) -> Work:
    """Return the work of reading *columns* of messages, beside those that *messages* has.

    See ``read_beside``.
    """
    for name in (FILE, GROUP_ID):
        messages = with_column(messages, name, messages[name].cast(pa.string()))

    fields = [ARROW_SCHEMA.field(name) for name in columns]
    for field in messages.schema:
        if field.name not in columns and field.name != FILE:
            fields.append(field)
    fields.append(pa.field(DRAIN_ID, pa.string()))
    schema = pa.schema(fields)

    reader = _Reader(archive, tuple(columns), schema)
    return Work(_partitions(messages, slots), reader.read, schema)


def _partitions(messages: pa.Table, slots: int) -> list[pa.Table]:
    """Divide messages; those of one file stay together."""
    files = numbered_values(messages[FILE])
    count = partition_count(int(files.max(initial=-1)) + 1, slots)
    return [messages.filter(arrow(files % count == number)) for number in range(count)]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the messages that its batches name, beside the columns that these have."""

    archive: Archive
    columns: tuple[str, ...]
    schema: pa.Schema

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Raises ArchiveError."""
        for batch in batches:
            messages = pa.Table.from_batches([batch])
            for rows in read_beside(self.archive, messages, self.columns):
                in_schema = rows.select(self.schema.names).cast(self.schema)
                yield from in_schema.to_batches(_BATCH_ROWS)


def _first_of_groups(dispositions: pa.Table, group_ids: Collection[str]) -> pa.Table:
    """Return the first messages to send of each of these groups, with their ``_RANK`` in it."""
    is_sent = have_disposition(dispositions, [Disposition.SEND])
    is_edited = values_among(dispositions[GROUP_ID], group_ids)
    rows = dispositions.select(["message_id", FILE, GROUP_ID, "position"])
    rows = rows.filter(pa.array(is_sent & is_edited))

    groups = numbered_values(rows[GROUP_ID])
    order = in_order_of(
        {"group": arrow(groups), "position": rows["position"], "message_id": rows["message_id"]}
    )
    starts, lengths = runs_of(groups[order])
    ranks = np.arange(len(order)) - np.repeat(starts, lengths)
    is_first = ranks < _PREVIEW_SAMPLES
    first = rows.take(arrow(order[is_first])).drop_columns(["position"])
    return first.append_column(_RANK, arrow(ranks[is_first]))
