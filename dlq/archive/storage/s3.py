"""An archive below a prefix of an S3 bucket, through boto3; endpoint and credentials are boto3's.

S3 keeps both promises of an archive: a PUT that was answered is durable and complete, and of
several with ``If-None-Match: *`` one wins. If an answer is lost, botocore sends the PUT again and
S3 answers that the object exists. So each create marks its object, and one that is refused reads
the mark to find out whether it won.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

import io
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    IncompleteReadError,
    NoCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from dlq.aws.clients import aws_client
from dlq.errors import ArchiveError, InputError
from dlq_replay.aws.answers import ForeignAnswerError
from dlq_replay.aws.sqs import describe
from dlq_replay.retry import Retry

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_LOCATION = re.compile(r"(s3a?)://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?")
"""https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"""

_WRITER = "writer"
"""Metadata of an object that ``create`` made: a mark that no other call has."""

_PROBE = ".writable"
_CONCURRENT_CALLS = 16
_END_BYTES = 64 * 1024
"""pyarrow reads so much of a Parquet file first."""

_PUT = Retry(max_attempts=5)
_READ = Retry(max_attempts=3)


@dataclass(slots=True, unsafe_hash=True)
class S3Archive:
    """An archive in a bucket. Each process makes its own client, when it first needs it.

    Attributes:
        root: ``s3://bucket/prefix`` or ``s3a://…``, as Spark is to call it; no slash at the end.
        prefix: what every key starts with: empty, or a path that ends with a slash.
    """

    root: str
    bucket: str
    prefix: str
    _client: "S3Client | None" = field(default=None, repr=False, compare=False)

    @classmethod
    def at(cls, location: str) -> Self:
        """Return the archive at *location*; raise InputError if that names no possible bucket."""
        if (match := _LOCATION.fullmatch(location)) is None:
            raise InputError(
                f"archive {location}: names no bucket; give s3://BUCKET/PREFIX, with a bucket name "
                "of 3 to 63 lower-case letters, digits, dots and hyphens"
            )
        scheme, bucket, path = match.groups("")
        prefix = "/".join(filter(None, path.split("/")))
        root = f"{scheme}://{bucket}" + (f"/{prefix}" if prefix else "")
        return cls(root, bucket, f"{prefix}/" if prefix else "")

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        return type(self), (self.root, self.bucket, self.prefix)

    def check_writable(self) -> None:
        """Leaves an empty object, ``.writable``: we need no right to delete.

        A store that writes it again, although the PUT says not to, gives one claim to two runs.
        """
        self.write(_PROBE, b"")
        if self.create(_PROBE, b""):
            raise ArchiveError(
                f"archive {self.root}: this store ignores If-None-Match, so that two runs could "
                "claim and send the same messages; use Amazon S3, or a store that knows "
                "conditional writes"
            )

    def create(self, path: str, content: bytes) -> bool:
        with self._explained("write", path):
            return self._put_if(path, content, IfNoneMatch="*")

    def replace(self, path: str, old: bytes, new: bytes) -> bool:
        """A PUT on condition that the object is still the version that was read."""
        with self._explained("write", path):
            found = self._get(path)
            if found is None or found[0] != old:
                return False
            return self._put_if(path, new, IfMatch=found[1]["ETag"])

    def _put_if(self, path: str, content: bytes, **condition: Any) -> bool:  # noqa: ANN401 - boto3's
        """Write on a condition; return whether this call did.

        botocore may repeat a PUT whose answer was lost: the mark shows that the first one won.
        """
        mark = secrets.token_hex(16)
        place: Any = {"Bucket": self.bucket, "Key": self._key(path)}
        put = partial(
            self._s3().put_object, **place, Body=content, Metadata={_WRITER: mark}, **condition
        )
        try:
            _PUT.call(put, _is_conflict)
        except ClientError as error:
            if _status(error) != HTTPStatus.PRECONDITION_FAILED:
                raise
            head = self._s3().head_object(**place)
            return head["Metadata"].get(_WRITER) == mark
        return True

    def write(self, path: str, content: bytes) -> None:
        with self._explained("write", path):
            self._s3().put_object(Bucket=self.bucket, Key=self._key(path), Body=content)

    def read(self, path: str) -> bytes | None:
        with self._explained("read", path):
            found = _READ.call(lambda: self._get(path), _is_broken_off)
        return None if found is None else found[0]

    def open(self, path: str) -> BinaryIO | None:
        """Each read is a GET of a range. The first one fetches the end of the object."""

        def fetch(span: str) -> tuple[bytes, int]:
            with self._explained("read", path):
                found = _READ.call(lambda: self._get(path, Range=f"bytes={span}"), _is_broken_off)
            if found is None:
                raise FileNotFoundError(path)
            content, answer = found
            return content, int(answer.get("ContentRange", f"/{len(content)}").rpartition("/")[2])

        try:
            return cast("BinaryIO", _Ranges(fetch))
        except FileNotFoundError:
            return None

    def remove(self, path: str, *, keeps_current: bool = False) -> None:
        """A versioned bucket keeps what is deleted without naming a version."""
        with self._explained("remove", path):
            for one in self._versions_of(path):
                if not (keeps_current and one["IsLatest"]):
                    self._s3().delete_object(
                        Bucket=self.bucket, Key=one["Key"], VersionId=one["VersionId"]
                    )

    def outdated(self, folder: str) -> "list[str]":
        with self._explained("list the versions of", folder):
            keys = {one["Key"] for one in self._versions(f"{folder}/") if not one["IsLatest"]}
        return sorted(key.removeprefix(self.prefix) for key in keys)

    def outdated_contents(self, path: str) -> Iterator[bytes]:
        with self._explained("read a version of", path):
            for one in self._versions_of(path):
                if not one["IsLatest"] and "ETag" in one:
                    answer = self._s3().get_object(
                        Bucket=self.bucket, Key=one["Key"], VersionId=one["VersionId"]
                    )
                    yield answer["Body"].read()

    def _versions_of(self, path: str) -> "list[dict[str, Any]]":
        """List the versions of one object: other paths may start with the same letters."""
        return [one for one in self._versions(path) if one["Key"] == self._key(path)]

    def _versions(self, start: str) -> "Iterator[dict[str, Any]]":
        """List the versions of every object whose path starts so, and the marks of deletions.

        A mark has no ``ETag``, and is never the latest.
        """
        pages = self._s3().get_paginator("list_object_versions")
        for page in pages.paginate(Bucket=self.bucket, Prefix=self._key(start)):
            yield from map(dict, page.get("Versions", []))
            yield from ({**mark, "IsLatest": False} for mark in page.get("DeleteMarkers", []))

    def discard(self, path: str) -> None:
        """Needs ``s3:DeleteObject`` for that path alone."""
        with suppress(ClientError, BotoCoreError):
            self._s3().delete_object(Bucket=self.bucket, Key=self._key(path))

    def sweep(self, folder: str) -> None:
        """An object is there whole or not at all, so there is nothing to do."""

    def list(self, folder: str) -> "list[str]":
        """The markers that consoles and Hadoop make for folders are left out."""
        start = f"{self.prefix}{folder}/" if folder else self.prefix
        with self._explained("list", folder):
            pages = self._s3().get_paginator("list_objects_v2")
            keys = [
                item["Key"]
                for page in pages.paginate(Bucket=self.bucket, Prefix=start)
                for item in page.get("Contents", [])
            ]
        files = (key for key in keys if key[-1] != "/" and key.rpartition("/")[2][0] != ".")
        return sorted(key.removeprefix(self.prefix) for key in files)

    def _get(self, path: str, **part: Any) -> tuple[bytes, Any] | None:  # noqa: ANN401 - boto3's
        client = self._s3()
        try:
            answer = client.get_object(Bucket=self.bucket, Key=self._key(path), **part)
        except client.exceptions.NoSuchKey:
            return None
        return answer["Body"].read(), answer

    def _key(self, path: str) -> str:
        return f"{self.prefix}{path}"

    def _s3(self) -> "S3Client":
        if self._client is None:
            config = Config(
                connect_timeout=3,
                read_timeout=60,
                retries={"mode": "standard", "total_max_attempts": 5},
                max_pool_connections=_CONCURRENT_CALLS,
            )
            self._client = aws_client("s3", config)
        return self._client

    @contextmanager
    def _explained(self, act: str, path: str) -> Iterator[None]:
        try:
            yield
        except (ClientError, BotoCoreError) as error:
            fault = f"cannot {act} {path or 'it'}: {describe(error)}; {_fix(error)}"
            raise ArchiveError(f"archive {self.root}: {fault}") from error


class _Ranges(io.RawIOBase):
    """An object of which *fetch* returns a span of bytes and the size of all."""

    def __init__(self, fetch: Callable[[str], tuple[bytes, int]]) -> None:
        self._fetch = fetch
        self._position = 0
        self._end, self._size = fetch(f"-{_END_BYTES}")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        start, end_starts = self._position, self._size - len(self._end)
        stop = self._size if size < 0 else min(self._size, start + size)
        if start >= stop:
            return b""
        self._position = stop
        if start >= end_starts:
            return self._end[start - end_starts : stop - end_starts]
        return self._fetch(f"{start}-{stop - 1}")[0]


def _is_conflict(error: Exception) -> bool:
    """Two writers at once: S3 does not say who won, the next attempt does."""
    return isinstance(error, ClientError) and _status(error) == HTTPStatus.CONFLICT


def _is_broken_off(error: Exception) -> bool:
    """A body breaks off: botocore repeats a request that fails, but not this.

    Of an error the rest, or nothing, is no answer of S3, and then nobody knows whether the object
    is missing. It stays an error after the last try: who took the 404 of a proxy for a missing
    claim would send messages twice.
    """
    if isinstance(error, ClientError):
        # botocore's code for an error without a body.
        return error.response["Error"].get("Code") == str(HTTPStatus.NOT_FOUND.value)
    return isinstance(
        error, ForeignAnswerError | IncompleteReadError | ReadTimeoutError | ResponseStreamingError
    )


def _status(error: ClientError) -> int:
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def _fix(error: ClientError | BotoCoreError) -> str:
    if isinstance(error, NoCredentialsError):
        return "set AWS_PROFILE, or give the job a role"
    if isinstance(error, ClientError):
        if error.response["Error"].get("Code") == "NoSuchBucket":
            return "make the bucket, or correct the archive's place"
        if _status(error) in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return (
                "allow s3:GetObject and s3:PutObject below it and s3:ListBucket on the bucket; to "
                "erase also s3:DeleteObject, s3:DeleteObjectVersion, s3:GetObjectVersion and "
                "s3:ListBucketVersions"
            )
    return "check the network, the Region and AWS_ENDPOINT_URL, then run again"
