"""The queues of this account and Region that carry a tag. An adapter.

A queue joins a stack by the tag ``dlq-replay``, whose value is the stack's parameter ``QueueTag``;
dead-letter queues and their sources carry it alike. SQS sees a new tag only some minutes later.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.aws.sqs import describe
from dlq_replay.errors import QueueError
from dlq_replay.wire.addresses import QueueAddress, is_queue_name

TAG_KEY = "dlq-replay"

_PAGE_RESOURCES = 100
"""The most that GetResources takes. A page may have fewer, or none, and yet not be the last."""


def list_tagged_queues(client: Any, tag: str) -> frozenset[QueueAddress]:  # noqa: ANN401 - boto3's
    """Return the queues whose tag ``dlq-replay`` is *tag*; *client* is of the tagging API.

    The list may name a queue that was deleted a moment ago, and miss one that was just tagged.

    Raises:
        QueueError: a page was refused or not answered. A part of the list is never returned.
    """
    return frozenset(iterate_tagged_queues(client, tag))


def iterate_tagged_queues(client: Any, tag: str) -> Iterator[QueueAddress]:  # noqa: ANN401 - boto3's
    """Yield the queues of ``list_tagged_queues`` as they are listed, for who needs no whole list.

    Raises:
        QueueError: a page was refused or not answered, maybe after some queues.
    """
    for queue, _ in _resources(client, tag):
        yield queue


def read_queue_tags(client: Any) -> Mapping[QueueAddress, str]:  # noqa: ANN401 - boto3's
    """Return the value of the tag ``dlq-replay`` of each queue that has it.

    Raises:
        QueueError: as ``list_tagged_queues``.
    """
    values: dict[QueueAddress, str] = {}
    for queue, tags in _resources(client):
        values[queue] = tags[TAG_KEY]
    return values


def _resources(client: Any, *values: str) -> Iterator[tuple[QueueAddress, Mapping[str, str]]]:  # noqa: ANN401 - boto3's
    """List the queues whose tag has one of *values*, any without, and their tags by key."""
    request: dict[str, Any] = {
        "ResourceTypeFilters": ["sqs"],
        "TagFilters": [{"Key": TAG_KEY, "Values": list(values)}],
        "ResourcesPerPage": _PAGE_RESOURCES,
    }
    while True:
        try:
            answer = client.get_resources(**request)
        except (ClientError, BotoCoreError) as error:
            tag = "=".join([TAG_KEY, *values])
            raise QueueError(f"the queues with the tag {tag}: {describe(error)}") from error

        for resource in answer["ResourceTagMappingList"]:
            queue = QueueAddress.from_arn(resource["ResourceARN"])
            if is_queue_name(queue.name):
                yield queue, {tag["Key"]: tag["Value"] for tag in resource.get("Tags", [])}

        token = answer.get("PaginationToken")
        if not token:
            return
        request["PaginationToken"] = token
