"""Pointers of the SQS extended client: bodies that are in S3, where they may be gone."""

from collections.abc import Collection, Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.aws.sqs import describe
from spark_reprocess.analysis.groups.payload import parse_container, pointer_of
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.messages.frames import FILE
from spark_reprocess.aws.clients import aws_client
from spark_reprocess.figures import counted

_SAMPLED = 100


def pointer_notes(
    messages: DataFrame, dispositions: DataFrame, bucket: str | None
) -> Iterator[str]:
    """Yield what a sample of the messages that are to be sent points to, if it does.

    *bucket* is the one whose objects are looked up; None for none.
    """
    to_send = dispositions.where(F.col("disposition") == Disposition.SEND)
    sampled = to_send.orderBy(F.xxhash64("message_id")).limit(_SAMPLED).select("message_id", FILE)
    rows = messages.join(F.broadcast(sampled), ["message_id", FILE]).select("body").toArrow()
    bodies = map(str, rows["body"].to_pylist())
    pointers = [found for body in bodies if (found := pointer_of(parse_container(body)))]
    if not pointers:
        return
    keys = [key for of_bucket, _, key in pointers if of_bucket == bucket]
    note = f"{len(pointers)} of {counted(rows.num_rows, 'sampled message')} are pointers to S3"
    try:
        gone = gone_objects(aws_client("s3"), bucket or "", keys) if keys else 0
    except (ClientError, BotoCoreError) as error:
        yield f"{note}, not checked: {describe(error)}"
        return
    parts = [f"the objects of {gone} are gone"] * bool(keys)
    if left := len(pointers) - len(keys):
        parts.append(f"{left} not checked, their bucket is not that of --pointer-bucket")
    yield f"{note}: {'; '.join(parts)}"


def gone_objects(client: Any, bucket: str, keys: Collection[str]) -> int:  # noqa: ANN401 - S3's
    """Count the *keys* that have no object; raise what else S3 answers."""
    gone = 0
    for key in keys:
        try:
            client.head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:  # noqa: PLR2004
                raise
            gone += 1
    return gone
