"""Messages are found by the tables of plans, and exactly those that reading every file finds.

No body is read to count messages, or to find one by its id.
"""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import pytest

from dlq.archive.ledger.open_set import read_messages
from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_index import (
    REASONS,
    files_with,
    find_rows,
    read_members,
    read_reasons,
    write_reasons,
)
from dlq.archive.messages.message_store import (
    message_files,
    remove_messages,
    rows_by_file,
    write_messages,
)
from dlq.archive.storage.files import Archive, open_archive
from dlq.archive.storage.local import LocalArchive
from dlq.erase.erase import EraseRequest, erase
from dlq.errors import InputError
from dlq.inspect.status import count
from tests.support.approved_plan import planned
from tests.support.builders import NOW, context, message, queue_url
from tests.support.console_world import NOW as DRAINED_AT


def test_members_are_those_of_the_table_that_the_plan_was_made_with(archive: Archive) -> None:
    drain(archive, "d-1", 1)
    plan_id = Path(planned(archive)).parent.name

    with pytest.raises(InputError, match="is not the table that the plan was made with"):
        read_members(archive, plan_id, "0" * 64, "g-1")


def test_reasons_of_a_drain_are_found_whatever_the_times_in_ids(archive: Archive) -> None:
    """The clock of the machine that began the drain was ahead of the analysis'."""
    ahead = "20991231T000000Z-aaaaaa"
    rest = dict.fromkeys(REASONS.names, "x")
    for plan_id, drain_id, logged in (
        ("20231115T000000Z-bbbbbb", ahead, "earlier"),
        ("20231116T000000Z-bbbbbb", ahead, "later"),
        ("20231117T000000Z-bbbbbb", "d-other", "of another drain"),
    ):
        row = {**rest, "message_id": f"m-{drain_id}", "logged": logged}
        write_reasons(archive, plan_id, drain_id, [row])

    reasons = read_reasons(archive, {ahead})

    assert list(reasons) == [f"m-{ahead}"]
    assert reasons[f"m-{ahead}"]["logged"] == "later"


def drain(archive: Archive, drain_id: str, *numbers: int) -> str:
    """Messages of which two in a row are copies of one dead letter."""
    rows = []
    for number in numbers:
        attributes = context(first_id=f"first-{number // 2}")
        source = message(f"m-{number}", f"body {number}", attributes)
        rows.append(to_row(source, queue_url("parked"), DRAINED_AT))
    return write_messages(archive, drain_id, 0, rows)


def looked_at(archive: Archive, *ids: str) -> list[str]:
    """The files that the tables name, after a check that no other file has any of the rows."""
    files = files_with(archive, ids)
    keys = ("message_id", "first_id")
    for path, rows in rows_by_file(archive, message_files(archive), keys, ids, keys):
        assert path in files or not rows.num_rows
    return files


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["0 1", "2 3", "plan"], {"m-1": [0], "first-1": [1], "m-99": []}),
        # A plan has what is pending; the last of these has a part of each file.
        (["0 1", "plan", "2 3", "plan m-1 m-2 m-3", "plan m-1 m-3"], {"m-0": [0], "m-2": [1]}),
        (["0 1", "plan", "2 3"], {"m-2": [1]}),
        (["0 1", "1 2", "6", "plan"], {"m-1": [0, 1]}),
    ],
    ids=["one of many", "decided since", "drained since", "of two drains"],
)
def test_files_with_an_id(
    archive: Archive, steps: list[str], expected: dict[str, list[int]]
) -> None:
    """A step drains these numbers into a file, or makes a plan of the chosen messages."""
    files: list[str] = []
    for step in steps:
        match step.split():
            case ["plan", *chosen]:
                planned(archive, chosen=chosen or None)
            case numbers:
                files.append(drain(archive, f"d-{len(files)}", *map(int, numbers)))

    for message_id, indexes in expected.items():
        assert looked_at(archive, message_id) == [files[index] for index in indexes]


def test_a_file_that_an_erase_replaced_is_read(archive: Archive) -> None:
    drain(archive, "d-1", 0, 1)
    planned(archive)
    remove_messages(archive, "d-1", {"m-0"}, lambda: None)

    assert looked_at(archive, "m-0") == message_files(archive)
    assert looked_at(archive, "m-1") == message_files(archive)


@pytest.mark.parametrize("damage", ["part gone", "manifest"])
def test_without_a_usable_table_every_file_is_read(archive: Archive, damage: str) -> None:
    files = [drain(archive, "d-1", 0, 1), drain(archive, "d-2", 2, 3)]
    folder = Path(planned(archive)).parent / "messages.parquet"
    (part,) = folder.glob("part-*")
    if damage == "part gone":
        part.unlink()
    if damage == "manifest":
        (folder / "manifest.json").write_text("{")

    assert looked_at(archive, "m-1") == files


DRAINS = [f"20231005T00000{n}Z-aaaaaa" for n in range(5)]
YOUNG = "20231114T000001Z-cccccc"


@dataclass(frozen=True)
class Counted(LocalArchive):
    """An archive that counts the bytes that are read of files of messages."""

    spans: list[int] = field(default_factory=list)

    def open(self, path: str) -> BinaryIO | None:
        spans = self.spans
        content = super().read(path)

        class File(BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                part = super().read(size)
                spans.append(len(part))
                return part

        return None if content is None else File(content)

    def read(self, path: str) -> bytes | None:
        assert not path.startswith("messages/")
        return super().read(path)


def test_counts_and_ids_cost_a_tenth(tmp_path: Path) -> None:
    """Of twenty messages of 100 KB in each of six drains, one of them young."""
    bytes_of = random.Random(1).randbytes
    written = open_archive(str(tmp_path), creates=True)
    for drain_id in (*DRAINS, YOUNG):
        ids = [f"{drain_id}-{n}" for n in range(20)]
        at = datetime.fromtimestamp(NOW if drain_id == YOUNG else NOW - 40 * 86_400, UTC)
        messages = [message(message_id, bytes_of(50_000).hex()) for message_id in ids]
        rows = [to_row(source, queue_url("p"), at) for source in messages]
        write_messages(written, drain_id, 0, rows)
    archive = Counted(written.root)
    size = sum(path.stat().st_size for path in Path(archive.root).rglob("*.parquet"))

    def spent() -> int:
        total = sum(archive.spans)
        archive.spans.clear()
        return total

    read_messages(archive).open_set.write(archive)
    assert spent() < size / 10
    counts = count(archive)
    assert counts.messages == 120
    assert [drained.messages for drained in counts.drains] == [20] * 6
    assert spent() < size / 10
    assert find_rows(archive, ["nobody"]) == []
    assert spent() < size / 10
    summary = erase(None, archive, EraseRequest(older_than_days=30), now_seconds=lambda: NOW)
    assert (summary.younger, summary.pending) == (20, 100)
    assert spent() < size / 10
    assert len(find_rows(archive, [f"{YOUNG}-3"])) == 1
    assert spent() < size / 3
