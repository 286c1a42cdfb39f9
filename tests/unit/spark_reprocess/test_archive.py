from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.errors import ArchiveError, InputError


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path / "archive"))


def test_written_file_is_read_back(archive: Archive) -> None:
    archive.write("a/b/c.txt", b"one")
    archive.write("a/b/c.txt", b"two")

    assert archive.read("a/b/c.txt") == b"two"


def test_missing_file_reads_as_none(archive: Archive) -> None:
    assert archive.read("a/b") is None


def test_only_the_first_create_wins(archive: Archive) -> None:
    assert archive.create("a/claim", b"first")
    assert not archive.create("a/claim", b"second")

    assert archive.read("a/claim") == b"first"


def test_one_of_many_concurrent_creates_wins(archive: Archive) -> None:
    with ThreadPoolExecutor(8) as executor:
        won = list(executor.map(lambda n: archive.create("claim", str(n).encode()), range(40)))

    assert won.count(True) == 1
    assert archive.read("claim") == str(won.index(True)).encode()


def test_list_names_files_below_a_folder_only(archive: Archive) -> None:
    archive.write("x/2", b"")
    archive.write("x/deep/1", b"")
    archive.write("y/3", b"")

    assert archive.list("x") == ["x/2", "x/deep/1"]
    assert archive.list("nowhere") == []


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


def test_archive_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    archive = open_archive(str(tmp_path / "file" / "below"))

    with pytest.raises(ArchiveError, match="cannot be written: Not a directory; give a folder"):
        archive.check_writable()
    with pytest.raises(ArchiveError, match="cannot write a: Not a directory"):
        archive.write("a", b"")
    with pytest.raises(ArchiveError, match="cannot write a: Not a directory"):
        archive.create("a", b"")


@pytest.mark.parametrize("location", ["s3://bucket/prefix", "hdfs://host/path"])
def test_other_kinds_of_places_are_refused(location: str) -> None:
    with pytest.raises(InputError, match="is not supported in this version; give a folder"):
        open_archive(location)


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InputError, match="is a file; give a folder"):
        open_archive(str(tmp_path / "file"))


def test_file_url_names_a_folder(tmp_path: Path) -> None:
    assert open_archive(f"file://{tmp_path}").root == str(tmp_path)


def test_signs_of_glob_patterns_are_escaped_for_spark(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path / "a[1] {b}*?"))

    assert archive.spark_path("x").endswith("a\\[1\\] \\{b\\}\\*\\?/x")
