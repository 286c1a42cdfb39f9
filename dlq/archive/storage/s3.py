"""An archive below a prefix of an S3 bucket, through boto3; endpoint and credentials are boto3's.

S3 keeps both promises of an archive: a PUT that was answered is durable and complete, and of
several with ``If-None-Match: *`` one wins. If an answer is lost, botocore sends the PUT again and
S3 answers that the object exists. So each create marks its object. If S3 refuses the create, it
reads the mark: its own mark means that its first PUT won.

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
"""Metadata of an object from ``create``: a mark that no other call has."""

_WRITE_TEST = ".writable"
_CONCURRENT_CALLS = 16
_END_BYTES = 64 * 1024
"""pyarrow reads this much of the end of a Parquet file first."""

_PUT = Retry(max_attempts=5)
_READ = Retry(max_attempts=3)


@dataclass(slots=True, unsafe_hash=True)
class S3Archive:
    """An archive in a bucket. Each process makes its own client, when it first needs it.

    Attributes:
        root: ``s3://bucket/prefix`` or ``s3a://…``, the URL for Spark; no slash at the end.
        prefix: the start of every key: empty, or a path that ends with a slash.
    """

    root: str
    bucket: str
    prefix: str
    _client: "S3Client | None" = field(default=None, repr=False, compare=False)

    @classmethod
    def at(cls, location: str) -> Self:
        """Return the archive at *location*; raise InputError if its bucket has no valid name."""
        match = _LOCATION.fullmatch(location)
        if match is None:
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
        """Leaves an empty object, ``.writable``: this needs no permission to delete.

        A store that writes it again, in spite of the condition, would give one claim to two runs.
        """
        self.write(_WRITE_TEST, b"")
        if self.create(_WRITE_TEST, b""):
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
            current = self._get(path)
            if current is None:
                return False
            content, answer = current
            if content != old:
                return False
            return self._put_if(path, new, IfMatch=answer["ETag"])

    def _put_if(self, path: str, content: bytes, **condition: Any) -> bool:  # noqa: ANN401 - boto3's
        """Write on a condition; return whether this call did.

        botocore may repeat a PUT whose answer was lost: the mark shows that the first one won.
        """
        mark = secrets.token_hex(16)
        key = self._key(path)
        put = partial(
            self._s3().put_object,
            Bucket=self.bucket,
            Key=key,
            Body=content,
            Metadata={_WRITER: mark},
            **condition,
        )
        try:
            _PUT.call(put, _is_conflict)
        except ClientError as error:
            if _status(error) != HTTPStatus.PRECONDITION_FAILED:
                raise
            head = self._s3().head_object(Bucket=self.bucket, Key=key)
            return head["Metadata"].get(_WRITER) == mark
        return True

    def write(self, path: str, content: bytes) -> None:
        with self._explained("write", path):
            self._s3().put_object(Bucket=self.bucket, Key=self._key(path), Body=content)

    def read(self, path: str) -> bytes | None:
        with self._explained("read", path):
            current = _READ.call(lambda: self._get(path), _is_broken_off)
        return None if current is None else current[0]

    def open(self, path: str) -> BinaryIO | None:
        """Each read is a GET of a range. The first one fetches the end of the object."""

        def fetch(span: str) -> tuple[bytes, int]:
            with self._explained("read", path):
                part = _READ.call(lambda: self._get(path, Range=f"bytes={span}"), _is_broken_off)
            if part is None:
                raise FileNotFoundError(path)
            content, answer = part
            _, _, size = answer.get("ContentRange", f"/{len(content)}").rpartition("/")
            return content, int(size)

        try:
            return cast("BinaryIO", _Ranges(fetch))
        except FileNotFoundError:
            return None

    def remove(self, path: str, *, keeps_current: bool = False) -> None:
        """Each version is named: otherwise a versioned bucket would keep it."""
        with self._explained("remove", path):
            for version in self._versions_of(path):
                if keeps_current and version["IsLatest"]:
                    continue
                self._s3().delete_object(
                    Bucket=self.bucket, Key=version["Key"], VersionId=version["VersionId"]
                )

    def outdated(self, folder: str) -> "list[str]":
        with self._explained("list the versions of", folder):
            paths = set()
            for version in self._versions(f"{folder}/"):
                if not version["IsLatest"]:
                    paths.add(version["Key"].removeprefix(self.prefix))
        return sorted(paths)

    def outdated_contents(self, path: str) -> Iterator[bytes]:
        with self._explained("read a version of", path):
            for version in self._versions_of(path):
                if not version["IsLatest"] and "ETag" in version:
                    answer = self._s3().get_object(
                        Bucket=self.bucket, Key=version["Key"], VersionId=version["VersionId"]
                    )
                    yield answer["Body"].read()

    def _versions_of(self, path: str) -> "list[dict[str, Any]]":
        """List the versions of one object: other paths may start with the same letters."""
        key = self._key(path)
        return [version for version in self._versions(path) if version["Key"] == key]

    def _versions(self, start: str) -> "Iterator[dict[str, Any]]":
        """Yield the versions of every object whose path has this start, and the marks of deletions.

        A mark has no ``ETag``, and ``IsLatest`` is always false.
        """
        pages = self._s3().get_paginator("list_object_versions")
        for page in pages.paginate(Bucket=self.bucket, Prefix=self._key(start)):
            yield from map(dict, page.get("Versions", []))
            for mark in page.get("DeleteMarkers", []):
                yield {**mark, "IsLatest": False}

    def discard(self, path: str) -> None:
        """Only needs ``s3:DeleteObject`` for that path."""
        with suppress(ClientError, BotoCoreError):
            self._s3().delete_object(Bucket=self.bucket, Key=self._key(path))

    def sweep(self, folder: str) -> None:
        """Does nothing: S3 has no incomplete objects."""

    def list(self, folder: str) -> "list[str]":
        """The markers that consoles and Hadoop make for folders are left out."""
        start = f"{self.prefix}{folder}/" if folder else self.prefix
        with self._explained("list", folder):
            paths = set()
            pages = self._s3().get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self.bucket, Prefix=start):
                for entry in page.get("Contents", []):
                    _, _, name = entry["Key"].rpartition("/")
                    if name and not name.startswith("."):
                        paths.add(entry["Key"].removeprefix(self.prefix))
        return sorted(paths)

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
    """An object of which *fetch* returns a span of bytes, and the size of the object."""

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
        start = self._position
        stop = self._size if size < 0 else min(self._size, start + size)
        if start >= stop:
            return b""

        self._position = stop
        end_start = self._size - len(self._end)
        if start >= end_start:
            return self._end[start - end_start : stop - end_start]
        content, _ = self._fetch(f"{start}-{stop - 1}")
        return content


def _is_conflict(error: Exception) -> bool:
    """Return whether two wrote at once: S3 does not tell who won, the next attempt does."""
    return isinstance(error, ClientError) and _status(error) == HTTPStatus.CONFLICT


def _is_broken_off(error: Exception) -> bool:
    """Return whether an answer is incomplete. botocore does not repeat such a request.

    An incomplete error, or one without a body, may not be from S3: the object may exist. It stays
    an error after the last try: if the 404 of a proxy counted as a missing claim, messages would be
    sent twice.
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
