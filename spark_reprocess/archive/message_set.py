"""A set of messages and the digest by which a plan knows it again: the same for the same ids.

Every id goes into one of 4,096 buckets: the first three hex digits of its SHA-256. A bucket's
digest is the SHA-256 of its ids, sorted and one per line. The set's digest is the SHA-256 of the
lines ``<bucket> <bucket's digest>``, sorted, without buckets that are empty. So the ids are hashed
where they are, and only the buckets' digests travel.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

_BUCKET_DIGITS = 3


def digest(message_ids: Iterable[str]) -> str:
    """Return the digest of a set of ids, as the module says; each id is to come once."""
    buckets: defaultdict[str, list[str]] = defaultdict(list)
    for message_id in message_ids:
        buckets[_sha256(message_id)[:_BUCKET_DIGITS]].append(message_id)
    return _of_buckets((bucket, _sha256("\n".join(sorted(ids)))) for bucket, ids in buckets.items())


@dataclass(frozen=True, slots=True)
class MessageSet:
    """What is to be known of a set of messages, whatever their number.

    Attributes:
        rows: in how many rows they stand; a message may have several.
        messages: how many there are.
        sha256: the digest of their ids.
    """

    rows: int
    messages: int
    sha256: str


def message_set(rows: DataFrame) -> MessageSet:
    """Count and digest the ids in the column ``message_id`` of *rows*, in one pass over it."""
    bucket = F.substring(F.sha2("message_id", 256), 1, _BUCKET_DIGITS)
    ids = F.collect_set("message_id")
    of_bucket = rows.groupBy(bucket.alias("bucket")).agg(
        F.count("*").alias("rows"),
        F.size(ids).alias("messages"),
        F.sha2(F.concat_ws("\n", F.sort_array(ids)), 256).alias("digest"),
    )
    found = of_bucket.toArrow().to_pydict()
    pairs = zip(found["bucket"], found["digest"], strict=True)
    return MessageSet(sum(found["rows"]), sum(found["messages"]), _of_buckets(pairs))


def _of_buckets(digests: Iterable[tuple[str, str]]) -> str:
    return _sha256("\n".join(f"{bucket} {digest}" for bucket, digest in sorted(digests)))


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()
