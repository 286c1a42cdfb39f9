"""The digest by which a plan knows its messages again: the same for the same set of message ids.

Every id goes into one of 4,096 buckets: the first three hex digits of its SHA-256. A bucket's
digest is the SHA-256 of its ids, sorted and one per line. The set's digest is the SHA-256 of the
lines ``<bucket> <bucket's digest>``, sorted, without buckets that are empty. So the ids are hashed
where they are, and only the buckets' digests travel.
"""

from collections import defaultdict
from collections.abc import Iterable
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


def count_and_digest(messages: DataFrame) -> tuple[int, str]:
    """Return how many messages there are and the digest of their ids, whatever their number.

    Args:
        messages: has ``message_id``, each id once.
    """
    bucket = F.substring(F.sha2("message_id", 256), 1, _BUCKET_DIGITS)
    lines = F.concat_ws("\n", F.sort_array(F.collect_list("message_id")))
    of_bucket = messages.groupBy(bucket.alias("bucket")).agg(
        F.count("*").alias("messages"), F.sha2(lines, 256).alias("digest")
    )
    buckets = of_bucket.toArrow().to_pydict()
    pairs = zip(buckets["bucket"], buckets["digest"], strict=True)
    return sum(buckets["messages"]), _of_buckets(pairs)


def _of_buckets(digests: Iterable[tuple[str, str]]) -> str:
    return _sha256("\n".join(f"{bucket} {digest}" for bucket, digest in sorted(digests)))


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()
