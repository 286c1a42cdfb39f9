"""Compacted or not, a ledger says the same; and the files before the last one stay as they were."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledger import (
    Attempt,
    AttemptName,
    Claim,
    Ledger,
    Result,
    timestamp,
)
from spark_reprocess.archive.ledgers import compact_ledger, ledger_files
from spark_reprocess.archive.local import LocalArchive
from spark_reprocess.archive.lookup import find_attempts
from spark_reprocess.archive.message_state import (
    claimed_table,
    entries_of,
    states_of,
    strongest,
)
from spark_reprocess.errors import ArchiveError
from tests.ledgers import NOW, Try, everything, tries, uncompacted, write

TTL = 900.0
FIRST = "ledger/compacted/00000001.parquet"
SECOND = "ledger/compacted/00000002.parquet"


def claim(*ids: str) -> Claim:
    return Claim("run-1", "me@here", "why", "https://q", timestamp(NOW), ids)


def sent(message_id: str) -> Result:
    return Result(message_id, Disposition.SENT, timestamp(NOW), f"copy of {message_id}")


def run_of(archive: Archive, chunk: int, *ids: str) -> None:
    """What a run leaves that has sent one chunk."""
    ledger = Ledger(archive, "p-1")
    assert ledger.claim("g-1", chunk, 1, claim(*ids))
    ledger.record("g-1", chunk, 1, [sent(one) for one in ids])


def contents(archive: Archive) -> dict[str, bytes | None]:
    return {path: archive.read(path) for path in archive.list("")}


def others(archive: Archive) -> list[int]:
    """The chunks whose claims readers open."""
    return [name.chunk for name in ledger_files(archive).others]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path))


@given(st.lists(tries(), max_size=12), st.lists(tries(), max_size=12))
def test_ledger_says_the_same_after_each_compaction(first: list[Try], then: list[Try]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = open_archive(folder)
        for made, first_chunk in ((first, 1), (then, len(first) + 1)):
            write(archive, made, first_chunk)
            assert compact_ledger(archive) == ()
            ids = {one for each in (first + then) for one in each.claim.message_ids}

            found = everything(archive, ids)

            expected = {
                name: attempt
                for name, attempt in uncompacted(archive).items()
                # Without a message an attempt says nothing.
                if attempt.claim.message_ids or attempt.results is None
            }
            assert found == expected
            entries = entries_of(expected.values(), NOW, TTL)
            assert entries_of(found.values(), NOW, TTL) == entries
            rows = strongest(claimed_table(archive, NOW, TTL), "message_id").to_pylist()
            told = {row["message_id"]: row["state"] for row in rows}
            assert told == {message_id: entry.state for message_id, entry in entries.items()}


def test_attempt_is_read_back_with_all_its_fields(archive: Archive) -> None:
    whole = replace(
        claim("m-1", "m-2", "m-3"),
        ttl_seconds=1234.5,
        edits={"g-1": "abc", "g-2": "def"},
        step=3,
    )
    refused = Result("m-3", Disposition.FAILED, timestamp(NOW + 1), detail="InternalError")
    ledger = Ledger(archive, "p-1")
    ledger.claim("in-order-07", 12, 3, whole)
    ledger.record("in-order-07", 12, 3, [sent("m-1"), refused])

    compact_ledger(archive)

    assert others(archive) == []
    (found,) = find_attempts(archive, ["m-2"])
    name = AttemptName("p-1", "in-order-07", 12, 3)
    assert found == Attempt(name, whole, (sent("m-1"), refused))


def test_claims_and_results_stay_as_they_are(archive: Archive) -> None:
    """They are the records; a compacted file is a copy."""
    run_of(archive, 1, "m-1")
    Ledger(archive, "p-2").claim("g-1", 1, 1, claim("m-2"))
    before = contents(archive)

    compact_ledger(archive)

    after = contents(archive)
    assert after.pop(FIRST)
    assert after == before


def test_attempt_without_a_result_waits_for_it_outside(archive: Archive) -> None:
    slow = Ledger(archive, "p-1")
    slow.claim("g-1", 1, 1, claim("m-1"))
    run_of(archive, 2, "m-2")
    compact_ledger(archive)
    assert others(archive) == [1]

    slow.record("g-1", 1, 1, [sent("m-1")])

    assert states_of(everything(archive, ["m-2"]).values(), NOW, TTL) == {
        "m-1": Disposition.SENT,
        "m-2": Disposition.SENT,
    }
    compact_ledger(archive)
    assert others(archive) == []


def test_nothing_is_written_where_nothing_has_finished(archive: Archive) -> None:
    compact_ledger(archive)
    Ledger(archive, "p-1").claim("g-1", 1, 1, claim("m-1"))
    compact_ledger(archive)
    assert not any("compacted" in path for path in archive.list("ledger"))

    run_of(archive, 2, "m-2")
    compact_ledger(archive)
    compact_ledger(archive)

    assert [path for path in archive.list("ledger") if "compacted" in path] == [FIRST]


def test_claims_outlive_their_compacted_files_and_states_the_claims(archive: Archive) -> None:
    run_of(archive, 1, "m-1")
    compact_ledger(archive)
    compacted = archive.read(FIRST) or b""
    archive.remove(FIRST)
    assert others(archive) == [1]

    archive.write(FIRST, compacted)
    for path in archive.list("ledger/plan_id=p-1"):
        archive.remove(path)
    assert states_of(everything(archive, ["m-1"]).values(), NOW, TTL) == {"m-1": Disposition.SENT}


@dataclass(frozen=True, slots=True)
class DisturbedArchive(LocalArchive):
    """Does something before it creates a compacted file."""

    before: Callable[[], None] = field(default=lambda: None)

    def create(self, path: str, content: bytes) -> bool:
        self.before()
        return LocalArchive.create(self, path, content)


@pytest.mark.parametrize("is_late", [False, True])
def test_of_two_that_compact_at_once_one_wins_and_nothing_is_lost(
    archive: Archive, *, is_late: bool
) -> None:
    """The next run adds what ended after the winner had listed the ledger."""
    run_of(archive, 1, "m-1")

    def other_operator() -> None:
        if not is_late:
            run_of(archive, 2, "m-2")
        assert compact_ledger(archive) == ()
        if is_late:
            run_of(archive, 2, "m-2")

    assert compact_ledger(DisturbedArchive(archive.root, other_operator)) == ()

    assert archive.list("ledger/compacted") == [FIRST]
    assert others(archive) == ([2] if is_late else [])
    run_of(archive, 3, "m-3")
    compact_ledger(archive)
    assert archive.list("ledger/compacted") == [FIRST, SECOND]
    assert set(everything(archive, ["m-1", "m-2", "m-3"])) == set(uncompacted(archive))


def test_compaction_that_fails_is_noted_and_made_up_for(archive: Archive) -> None:
    def full() -> None:
        raise ArchiveError("archive: no space left on device")

    run_of(archive, 1, "m-1")

    (note,) = compact_ledger(DisturbedArchive(archive.root, full))

    assert note == (
        "the ledger was not compacted, so later commands open more files: archive: no space left "
        "on device"
    )
    assert others(archive) == [1]
    assert compact_ledger(archive) == ()
    assert others(archive) == []


def rewrite(archive: Archive, change: Callable[[pa.Table], pa.Table]) -> None:
    path = Path(archive.root, FIRST)
    pq.write_table(change(pq.ParquetFile(path).read()), path)


@pytest.mark.parametrize("columns", [None, ["plan_id"], ["plan_id", "unit", "chunk", "number"]])
def test_file_that_is_no_parquet_or_lacks_columns_is_named(
    archive: Archive, columns: list[str] | None
) -> None:
    run_of(archive, 1, "m-1")
    compact_ledger(archive)
    if columns:
        rewrite(archive, lambda table: table.select(columns))
    else:
        archive.write(FIRST, b"no Parquet")

    with pytest.raises(ArchiveError, match=rf"{FIRST} cannot be read .*; somebody changed it"):
        ledger_files(archive)


def test_damaged_page_is_named(archive: Archive) -> None:
    run_of(archive, 1, *(f"m-{n}" for n in range(100)))
    compact_ledger(archive)
    path = Path(archive.root, FIRST)
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = b"\xff" * (len(content) // 2 - 4)
    path.write_bytes(content)

    with pytest.raises(ArchiveError, match=rf"{FIRST} cannot be read"):
        everything(archive, ["m-1"])


def test_value_that_parquet_cannot_hold_is_noted(archive: Archive) -> None:
    """A terminal with another encoding gives a reason like this one."""
    Ledger(archive, "p-1").claim("g-1", 1, 1, replace(claim("m-1"), reason="caf\udce9"))
    Ledger(archive, "p-1").record("g-1", 1, 1, [sent("m-1")])

    (note,) = compact_ledger(archive)

    assert "the ledger was not compacted" in note
    assert others(archive) == [1]
