"""Promises of an archive, on local disk and on S3 alike."""

import multiprocessing
import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path

import pytest

from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_store import (
    FILE_MESSAGES,
    rows_of_file,
    write_messages,
)
from dlq.archive.storage.files import Archive, open_archive, open_folder
from dlq.archive.storage.s3 import S3Archive
from dlq.errors import ArchiveError, InputError
from tests.support.aws_models import parse_once
from tests.support.builders import message
from tests.support.s3_server import CONFLICT, NOT_FOUND, UNAVAILABLE, S3Fault, S3Server, serve_s3

_numbers = count(1)

CALLS_OF_A_CLIENT = 5
"""In a process: an archive that arrives there makes a client first, which takes longest."""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with serve_s3() as server:
        yield server


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
    server.requests.clear()
    server.faults.clear()
    return server.make_bucket(f"bucket-{next(_numbers)}")


@pytest.fixture
def s3(bucket: str) -> Archive:
    return open_archive(f"s3://{bucket}/dead/letters")


@pytest.fixture(params=["local", "s3", "bucket"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    if request.param == "local":
        return open_archive(str(tmp_path / "archive"))
    bucket = request.getfixturevalue("bucket")
    return open_archive(f"s3://{bucket}/a/b" if request.param == "s3" else f"s3a://{bucket}")


@pytest.fixture(scope="module")
def processes(server: S3Server) -> Iterator[Executor]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(3, mp_context=spawn, initializer=parse_once) as pool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL_S3", server.url)
            # Each starts when a call finds none idle, and has the environment of then.
            list(pool.map(int, range(3)))
        yield pool


@pytest.fixture(params=["threads", "processes"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "processes":
        yield request.getfixturevalue("processes")
        return
    with ThreadPoolExecutor(8) as pool:
        yield pool


def test_store_that_ignores_conditions_is_refused(
    s3: Archive, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.check_writable()
    monkeypatch.setattr(server, "ignores_conditions", True)

    with pytest.raises(ArchiveError, match="this store ignores If-None-Match"):
        s3.check_writable()


class TestEveryArchive:
    def test_a_file_is_written_read_replaced_and_removed(self, archive: Archive) -> None:
        assert (archive.read("a/b"), archive.open("a/b")) == (None, None)
        archive.sweep("a")
        archive.write("a/b", b"one")
        archive.write("a/b", b"two")
        archive.write("a/bc", b"another")
        assert archive.read("a/b") == b"two"
        assert not archive.create("a/b", b"two")
        assert not archive.replace("a/b", b"one", b"three")
        assert not archive.replace("a/none", b"one", b"three")
        assert archive.replace("a/b", b"two", b"three")
        archive.check_writable()
        archive.sweep("a")
        assert (archive.read("a/b"), archive.list("")) == (b"three", ["a/b", "a/bc"])

        for remove in (archive.remove, archive.remove, archive.discard, archive.discard):
            remove("a/b")
        archive.discard("a/bc")

        assert (archive.read("a/b"), archive.list("")) == (None, [])

    @pytest.mark.parametrize("size", [10, 1000, 300_000])
    def test_a_part_of_a_file_is_read(self, archive: Archive, size: int) -> None:
        content = bytes(n % 251 for n in range(size))
        archive.write("file", content)
        with archive.open("file") or BytesIO() as file:
            assert file.seek(0, os.SEEK_END) == size
            assert file.read(1) == b""
            for start, length in ((0, 7), (3, 2), (size - 5, 5), (size // 2, size), (0, -1)):
                file.seek(start)
                end = size if length < 0 else start + length
                assert file.read(length) == content[start:end]

    @pytest.mark.parametrize("old", [b"", b"old"], ids=["create", "replace"])
    def test_one_of_many_concurrent_calls_wins(
        self, archive: Archive, executor: Executor, old: bytes
    ) -> None:
        act = partial(archive.create, "file")
        if old:
            archive.write("file", old)
            act = partial(archive.replace, "file", old)

        contents = [str(number).encode() for number in range(40)]
        won = list(executor.map(act, contents, chunksize=CALLS_OF_A_CLIENT))

        assert won.count(True) == 1
        assert archive.read("file") == contents[won.index(True)]

    def test_reader_sees_all_of_a_file_or_none(self, archive: Archive) -> None:
        versions = {letter * 300_000 for letter in (b"a", b"b")}
        done = threading.Event()

        def write() -> None:
            for version in [*versions] * 10:
                archive.write("file", version)
            done.set()

        with ThreadPoolExecutor(1) as writer:
            writer.submit(write)
            seen = {archive.read("file")}
            while not done.is_set():
                seen.add(archive.read("file"))

        assert seen <= {None, *versions}

    def test_list_names_files_below_a_folder_only(self, archive: Archive) -> None:
        for path in ("x/2", "x/deep/1", "xy/1", "y/3", "x/ü {*}"):
            archive.write(path, b"")

        assert archive.list("x") == ["x/2", "x/deep/1", "x/ü {*}"]
        assert archive.list("") == ["x/2", "x/deep/1", "x/ü {*}", "xy/1", "y/3"]
        assert archive.list("nowhere") == []


@pytest.mark.usefixtures("quick_retries")
class TestS3:
    def test_prefix_keeps_archives_apart(self, bucket: str) -> None:
        first = open_archive(f"s3://{bucket}/one")
        two = open_archive(f"s3://{bucket}//one/two/")
        first.write("file", b"1")
        two.write("file", b"2")

        assert two.root == f"s3://{bucket}/one/two"
        assert first.list("") == ["file", "two/file"]
        assert two.list("") == ["file"]

    def test_more_files_than_a_page_are_listed(
        self, s3: Archive, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
        paths = [f"messages/{number:04d}" for number in range(21)]
        for path in paths:
            s3.write(path, b"")

        assert s3.list("messages") == paths

    def test_markers_of_folders_are_no_files(self, s3: Archive) -> None:
        s3.write("messages/", b"")
        s3.write("messages/file", b"")

        assert s3.list("messages") == ["messages/file"]

    @pytest.mark.parametrize(
        ("status", "is_done"), [(UNAVAILABLE, True), (None, True), (CONFLICT, False)]
    )
    def test_replacement_whose_answer_is_lost_or_that_meets_another_writer_has_won(
        self, s3: Archive, server: S3Server, status: str | None, *, is_done: bool
    ) -> None:
        s3.write("plan", b"old")
        server.faults.append(S3Fault("PUT", "/plan", status, is_done))

        assert s3.replace("plan", b"old", b"new")
        assert s3.read("plan") == b"new"

    @pytest.mark.parametrize("status", [UNAVAILABLE, None])
    def test_create_whose_answer_was_lost_is_won(
        self, s3: Archive, server: S3Server, status: str | None
    ) -> None:
        server.faults.append(S3Fault("PUT", "/claim", status, is_done=True))

        assert s3.create("claim", b"same")
        assert not s3.create("claim", b"same")
        methods = [line.split()[0] for line in server.requests if line.endswith("/claim")]
        assert methods == ["PUT", "PUT", "HEAD", "PUT", "HEAD"]

    def test_conflict_is_settled_by_another_try(self, s3: Archive, server: S3Server) -> None:
        server.faults.append(S3Fault("PUT", "/one", CONFLICT, is_done=False, times=2))
        server.faults.append(S3Fault("PUT", "/two", CONFLICT, is_done=False))
        assert s3.create("two", b"theirs") is True

        server.faults.append(S3Fault("PUT", "/two", CONFLICT, is_done=False))
        assert s3.create("one", b"ours") is True
        assert s3.create("two", b"ours") is False

    def test_endless_conflict_is_an_error(self, s3: Archive, server: S3Server) -> None:
        server.faults.append(S3Fault("PUT", "/claim", CONFLICT, is_done=False, times=99))

        with pytest.raises(ArchiveError, match="cannot write claim: "):
            s3.create("claim", b"")

    def test_body_that_breaks_off_is_read_again(self, s3: Archive, server: S3Server) -> None:
        s3.write("file", b"0123456789" * 1000)
        server.faults.append(S3Fault("GET", "/file", None, is_done=True, times=2))

        assert s3.read("file") == b"0123456789" * 1000

    @pytest.mark.parametrize("status", [None, NOT_FOUND])
    def test_missing_object_is_none_also_where_the_answer_breaks_off(
        self, s3: Archive, server: S3Server, status: str | None
    ) -> None:
        fault = partial(S3Fault, "GET", "/missing", status, is_done=False, times=2)

        server.faults.append(fault())
        assert s3.read("missing") is None
        server.faults.append(fault())
        assert s3.open("missing") is None

    @pytest.mark.parametrize("status", [None, NOT_FOUND])
    def test_answer_that_always_breaks_off_does_not_say_that_an_object_is_missing(
        self, s3: Archive, server: S3Server, status: str | None
    ) -> None:
        server.faults.append(S3Fault("GET", "/missing", status, is_done=False, times=99))

        with pytest.raises(ArchiveError, match="cannot read missing: "):
            s3.read("missing")

    def test_a_part_that_breaks_off_is_read_again_and_one_that_is_gone_is_no_file(
        self, s3: Archive, server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        large = message("m-001", random.Random(1).randbytes(200_000).hex())
        path = write_messages(s3, "d-1", 0, [to_row(large, "u", datetime(2026, 11, 1, tzinfo=UTC))])
        server.faults.append(S3Fault("GET", path, None, is_done=True))
        server.requests.clear()

        rows = rows_of_file(s3, path, columns=["message_id"])

        assert rows
        assert rows["message_id"].to_pylist() == ["m-001"]
        assert len(server.requests) == 3
        file = s3.open(path)
        s3.remove(path)
        monkeypatch.setattr(S3Archive, "open", lambda *_: file)
        assert rows_of_file(s3, path, columns=["message_id"]) is None

    def test_a_full_file_without_a_wanted_message_costs_two_requests(
        self, s3: Archive, server: S3Server
    ) -> None:
        chance = random.Random(1)
        at = datetime(2026, 11, 1, tzinfo=UTC)
        ids = [chance.randbytes(16).hex() for _ in range(FILE_MESSAGES)]
        path = write_messages(
            s3, "d-1", 0, [to_row(message(message_id), "u", at) for message_id in ids]
        )
        server.requests.clear()

        rows = rows_of_file(s3, path, ["nobody"], keys=("message_id", "first_id"))

        assert rows is not None
        assert (len(rows), len(server.requests)) == (0, 2)

    def test_body_that_always_breaks_off_is_an_error(self, s3: Archive, server: S3Server) -> None:
        s3.write("file", b"secret" * 1000)
        server.faults.append(S3Fault("GET", "/file", None, is_done=True, times=99))

        with pytest.raises(ArchiveError, match=r"cannot read file: .*then run again") as raised:
            s3.read("file")
        assert "secret" not in str(raised.value)

    def test_bucket_that_is_not_there_is_named(self, bucket: str) -> None:
        archive = open_folder("s3://no-such-bucket/prefix")
        place = "archive s3://no-such-bucket/prefix: cannot "

        for act in (
            archive.check_writable,
            partial(archive.create, "a", b""),
            partial(archive.write, "a", b""),
            partial(archive.read, "a"),
            partial(archive.list, "a"),
        ):
            with pytest.raises(ArchiveError, match=f"^{place}.*NoSuchBucket.*make the bucket"):
                act()

    def test_server_that_is_not_there_is_an_error(
        self, bucket: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")

        with pytest.raises(ArchiveError, match=r"EndpointConnectionError.*AWS_ENDPOINT_URL"):
            open_archive(f"s3://{bucket}").check_writable()

    @pytest.mark.parametrize("location", ["s3://", "s3:///prefix", "s3://Bucket/x", "s3a://a/b"])
    def test_place_without_a_bucket_is_refused(self, location: str) -> None:
        with pytest.raises(InputError, match="names no bucket; give s3://BUCKET/PREFIX"):
            open_archive(location)
