"""No body is read to count messages, or to find one by its id; a plan has its own table."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import pytest

from spark_reprocess.archive.ledger.open_set import read_messages
from spark_reprocess.archive.messages.dead_letter_schema import to_row
from spark_reprocess.archive.messages.message_index import find_rows, read_members
from spark_reprocess.archive.messages.message_store import write_messages
from spark_reprocess.archive.storage.files import Archive, open_archive
from spark_reprocess.archive.storage.local import LocalArchive
from spark_reprocess.erase.erase import EraseOptions, erase
from spark_reprocess.errors import InputError
from spark_reprocess.inspect.status import count
from tests.support.approved_plan import planned
from tests.support.builders import NOW, message, queue_url
from tests.support.console_world import NOW as DRAINED_AT


def test_members_are_those_of_the_table_that_the_plan_was_made_with(archive: Archive) -> None:
    write_messages(archive, "d-1", 0, [to_row(message("m-1"), queue_url("p"), DRAINED_AT)])
    plan_id = Path(planned(archive)).parent.name

    with pytest.raises(InputError, match="is not the table that the plan was made with"):
        read_members(archive, plan_id, "0" * 64, "g-1")


DRAINS = [f"20231005T00000{n}Z-aaaaaa" for n in range(5)]
YOUNG = "20231114T000001Z-cccccc"


@dataclass(frozen=True)
class Counted(LocalArchive):
    """An archive that counts the bytes that are read of files of messages."""

    spans: list[int] = field(default_factory=list)

    def open(self, path: str) -> BinaryIO | None:
        spans, content = self.spans, super().read(path)

        class File(BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                part = super().read(size)
                spans.append(len(part))
                return part

        return None if content is None else File(content)

    def read(self, path: str) -> bytes | None:
        assert not path.startswith("messages/")
        return super().read(path)


def test_counts_and_ids_cost_a_tenth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of twenty messages of 100 KB in each of six drains, one of them young."""
    bytes_of = random.Random(1).randbytes
    written = open_archive(str(tmp_path), creates=True)
    for drain_id in (*DRAINS, YOUNG):
        ids = [f"{drain_id}-{n}" for n in range(20)]
        at = datetime.fromtimestamp(NOW if drain_id == YOUNG else NOW - 40 * 86_400, UTC)
        rows = [to_row(message(one, bytes_of(50_000).hex()), queue_url("p"), at) for one in ids]
        write_messages(written, drain_id, 0, rows)
    archive = Counted(written.root)
    size = sum(one.stat().st_size for one in Path(archive.root).rglob("*.parquet"))
    monkeypatch.setattr("spark_reprocess.erase.erase.open_archive", lambda _: archive)

    def spent() -> int:
        total = sum(archive.spans)
        archive.spans.clear()
        return total

    read_messages(archive, NOW).open_set.write(archive)
    assert spent() < size / 10
    found = count(archive, 900)
    assert (found.messages, [one.messages for one in found.drains]) == (120, [20] * 6)
    assert spent() < size / 10
    assert find_rows(archive, ["nobody"]) == []
    assert spent() < size / 10
    summary = erase(None, EraseOptions(archive.root, older_than_days=30), now_seconds=lambda: NOW)
    assert (summary.younger, summary.pending) == (20, 100)
    assert spent() < size / 10
    assert len(find_rows(archive, [f"{YOUNG}-3"])) == 1
    assert spent() < size / 3
