"""What the attempts of all plans say of their messages, read without Spark.

``ledger.states_of`` says what a state is, and the columns here say the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.archive.compaction import CompactedFile, ledger_files, read_attempts
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import (
    OUTCOMES,
    STRENGTH,
    Attempt,
    AttemptName,
    state_after,
    states_of,
)
from spark_reprocess.errors import ArchiveError

_TYPES: dict[str, pa.DataType] = {
    "message_id": pa.string(),
    "plan_id": pa.string(),
    "state": pa.string(),
    "strength": pa.int32(),
    "time": pa.string(),
}
CLAIMED = pa.schema(_TYPES)
"""A row per attempt and message that it leaves in a state: of several, the strongest holds.

*time* is that of the result, or of the claim where there is none: ISO 8601, UTC.
"""

_ATTEMPTS_PER_BATCH = 50

_OUTCOMES = pa.array([str(one) for one in OUTCOMES])
_STRENGTHS = pa.array(
    [STRENGTH.index(state) if (state := state_after(one)) else None for one in OUTCOMES], pa.int32()
)
"""By index in ``_OUTCOMES``; null for an outcome that leaves a message in the state it had."""


def claimed_table(archive: Archive, now_seconds: float, claim_ttl_seconds: float) -> pa.Table:
    """Read ``CLAIMED`` of every attempt; see ``ledger_states`` for the arguments.

    Raises:
        ArchiveError: a file of the ledger cannot be read.
    """
    files, reader = ledger_files(archive), ClaimReader(archive, now_seconds, claim_ttl_seconds)
    paths = [{"path": files.compacted.path}] if files.compacted else []
    names = [name._asdict() for name in files.others]
    compacted = reader.compacted([pa.RecordBatch.from_pylist(paths)] if paths else [])
    attempts = reader.attempts([pa.RecordBatch.from_pylist(names)] if names else [])
    return pa.Table.from_batches([*compacted, *attempts], CLAIMED)


@dataclass(frozen=True, slots=True)
class ClaimReader:
    """Reads ``CLAIMED`` of attempts; tasks of Spark take it along."""

    archive: Archive
    now_seconds: float
    claim_ttl_seconds: float

    def compacted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the compacted files at these paths, of which there is one."""
        for row in (row for batch in batches for row in batch.to_pylist()):
            file = CompactedFile.open(self.archive, row["path"])
            yield from map(self._states_of_rows, file.batches(["plan_id", "time", "messages"]))

    def _states_of_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        messages = batch.column("messages")
        each = pc.list_flatten(messages)
        outcomes = pc.fill_null(pc.struct_field(each, "outcome"), str(Disposition.IN_DOUBT))
        known = pc.index_in(outcomes, value_set=_OUTCOMES)
        if known.null_count:
            # To leave the message out would be to call it open, and to send it again.
            raise ArchiveError(
                f"archive {self.archive.root}: the compacted ledger has an outcome that this "
                "version of the program does not know; update the program"
            )
        strengths = _STRENGTHS.take(known)
        claims = batch.select(["plan_id", "time"]).take(pc.list_parent_indices(messages))
        columns = [
            pc.struct_field(each, "message_id"),
            claims.column("plan_id"),
            pa.array(STRENGTH, pa.string()).take(strengths),
            strengths,
            pc.coalesce(pc.struct_field(each, "time"), claims.column("time")),
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=CLAIMED)
        return rows.filter(strengths.is_valid())

    def attempts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the claims and results of these attempts."""
        for batch in batches:
            for start in range(0, batch.num_rows, _ATTEMPTS_PER_BATCH):
                rows = batch.slice(start, _ATTEMPTS_PER_BATCH).to_pylist()
                found = read_attempts(self.archive, [AttemptName(**row) for row in rows])
                states = [row for name, attempt in found for row in self._rows(name, attempt)]
                yield pa.RecordBatch.from_pylist(states, schema=CLAIMED)

    def _rows(self, name: AttemptName, attempt: Attempt) -> Iterator[dict[str, object]]:
        times = {result.message_id: result.time for result in attempt.results or ()}
        states = states_of([attempt], self.now_seconds, self.claim_ttl_seconds)
        for message_id, state in states.items():
            yield {
                "message_id": message_id,
                "plan_id": name.plan_id,
                "state": state.value,
                "strength": STRENGTH.index(state),
                "time": times.get(message_id, attempt.claim.time),
            }
