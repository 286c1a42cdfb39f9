import errno
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.archive.storage.files import (
    Archive,
    clock_note,
    new_id,
    open_archive,
    open_folder,
)
from dlq.errors import ArchiveError, InputError
from tests.support.builders import NOW


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path / "archive"))


@given(
    seconds=st.integers(1_700_000_000, 4_000_000_000),
    microseconds=st.lists(st.integers(0, 999_999), min_size=2, max_size=5, unique=True),
)
def test_ids_sort_by_time_within_a_second_too(seconds: int, microseconds: list[int]) -> None:
    times = [seconds + number / 1_000_000 for number in sorted(microseconds)]

    ids = [new_id(time) for time in times]

    assert ids == sorted(ids)


MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2999, 12, 31)).map(  # noqa: DTZ001
    lambda time: time.replace(tzinfo=UTC).timestamp()
)


@given(now=MOMENTS, others=st.lists(MOMENTS, max_size=5))
def test_ids_sort_after_those_that_faster_clocks_made(now: float, others: list[float]) -> None:
    ids = list(map(new_id, others))

    own_id = new_id(now, [f"reports/{other_id}/plan.yaml" for other_id in ids])

    assert own_id > max(ids, default="")
    assert own_id[:-6] >= new_id(now)[:-6]


@pytest.mark.parametrize("taken", ["20991231T235959Z-f423fabcdef", "20991231T235959Z-ffffff"])
def test_ids_sort_after_those_at_the_end_of_a_second(taken: str) -> None:
    first = new_id(0, [f"groups/g-1/{taken}.json"])
    second = new_id(0, [first])

    assert taken < first < second


@pytest.mark.parametrize(
    ("ahead", "note"),
    [
        (-86_400, ""),
        (0, ""),
        (59, ""),
        (61, " behind an id of the archive, of 2023-11-14 22:14:21"),
        (3 * 86_400, "is 3 d behind an id of the archive, of 2023-11-17 22:13:20 UTC: this"),
    ],
)
def test_clock_behind_an_id_of_the_archive_is_named(ahead: float, note: str) -> None:
    ids = [new_id(NOW - 1000), new_id(NOW + ahead)]

    sentence = clock_note(NOW, [f"reports/{ids[0]}/plan.yaml", ids[1], "reports/no-id/plan.yaml"])

    assert note in sentence
    assert bool(note) is bool(sentence)
    assert clock_note(NOW, []) == ""


def test_unfinished_file_is_listed_nowhere(archive: Archive, tmp_path: Path) -> None:
    archive.write("x/1", b"")
    (tmp_path / "archive" / "x" / ".writing-abc").write_bytes(b"half")

    assert archive.list("x") == ["x/1"]


def test_nothing_but_the_file_is_left_behind(archive: Archive, tmp_path: Path) -> None:
    archive.write("x/1", b"")
    archive.create("x/2", b"")
    archive.create("x/2", b"")
    archive.check_writable()

    assert sorted(p.name for p in (tmp_path / "archive").rglob("*")) == ["1", "2", "x"]


def test_file_in_place_of_the_folder_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; give a folder"):
        open_archive(str(tmp_path / "file"))

    archive = open_folder(str(tmp_path / "file" / "below"))

    with pytest.raises(ArchiveError, match="cannot be written: File exists; give a folder"):
        archive.check_writable()
    with pytest.raises(ArchiveError, match="cannot write a: File exists"):
        archive.write("a", b"")
    with pytest.raises(ArchiveError, match="cannot write a: File exists"):
        archive.create("a", b"")


def test_full_disk_is_named_and_leaves_what_was_there(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a disk is full shows at the latest when what was written is to be durable."""

    def fill(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    archive.write("x/1", b"before")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fill)
        for write in (archive.write, archive.create):
            with pytest.raises(ArchiveError, match=r"cannot write x/\d: No space left on device"):
                write("x/1" if write == archive.write else "x/2", b"after")

    assert archive.read("x/1") == b"before"
    assert archive.read("x/2") is None
    assert sorted(p.name for p in (tmp_path / "archive").rglob("*")) == ["1", "x"]
    assert archive.create("x/2", b"after")


@pytest.mark.parametrize(
    "location",
    [
        "FILE:///data",
        "file://data/archive",
        "file:/data/archive",
        "a:b/c",
        "s3:",
        "S3://bucket/prefix",
        "s3:/bucket/prefix",
        "s3:bucket/prefix",
        "s3a:/bucket",
        "s3n://bucket/prefix",
        "arn:aws:s3:::bucket/x",
        "gs://bucket/prefix",
        "hdfs://host/path",
    ],
)
def test_slip_in_a_url_is_refused_and_no_folder_of_that_name_is_made(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InputError, match=r"give a folder on local disk .* or s3://BUCKET/PREFIX"):
        open_archive(location)
    assert list(tmp_path.iterdir()) == []


def test_colon_further_on_is_a_part_of_the_name_and_a_file_url_names_a_folder(
    tmp_path: Path,
) -> None:
    assert open_archive(f"{tmp_path}/a:b").root == f"{tmp_path}/a:b"
    assert open_archive(f"file://{tmp_path}").root == str(tmp_path)


def test_folders_that_several_make_at_once_are_no_fault(tmp_path: Path) -> None:
    former = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as executor:
            for number in range(60):
                archive = open_archive(str(tmp_path / str(number) / "a" / "b"))
                won = list(executor.map(archive.create, ["claim"] * 8, [b""] * 8))
                assert won.count(True) == 1
    finally:
        sys.setswitchinterval(former)


def test_the_first_writer_names_the_format_and_no_other_changes_it(tmp_path: Path) -> None:
    assert open_archive(str(tmp_path)).list("") == []

    for _ in range(2):
        archive = open_archive(str(tmp_path), creates=True)
        archive.write("messages/a.parquet", b"")

    assert archive.read("format") == b"1\n"
    assert open_archive(str(tmp_path)) == archive


@pytest.mark.parametrize(
    ("content", "shown"),
    [(b"2\n", r"'2\n'"), (b"1", "'1'"), (b"", "''"), (b"\xff" * 99, "'\ufffd"), (None, "no file")],
)
@pytest.mark.parametrize("creates", [False, True])
def test_an_archive_of_another_format_is_refused(
    tmp_path: Path, content: bytes | None, shown: str, *, creates: bool
) -> None:
    archive = open_folder(str(tmp_path))
    archive.write("messages/a.parquet", b"")
    if content is not None:
        archive.write("format", content)

    with pytest.raises(InputError, match=re.escape(f"says 1, and this one has {shown}")):
        open_archive(str(tmp_path), creates=creates)
    assert archive.read("format") == content
