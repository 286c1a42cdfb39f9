"""The list of queues that carry a stack's tag: whole, or an error."""

from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from dlq_replay.aws.tagged_queues import list_tagged_queues, read_queue_tags
from dlq_replay.errors import QueueError
from dlq_replay.wire.addresses import QueueAddress

ARN = "arn:aws:sqs:us-east-1:123456789012:"


class TagClient:
    """Answers the pages in turn, and notes what it was asked; raises a page that is an error."""

    def __init__(self, pages: Sequence[Sequence[str] | Exception], value: str = "") -> None:
        self.pages = pages
        self.tags = [{"Key": "owner", "Value": "x"}, {"Key": "dlq-replay", "Value": value}]
        self.requests: list[dict[str, Any]] = []

    def get_resources(self, **request: Any) -> dict[str, Any]:
        number = int(request.get("PaginationToken", "0"))
        self.requests.append(request)
        page = self.pages[number]
        if isinstance(page, Exception):
            raise page
        is_last = number + 1 == len(self.pages)
        resources = [{"ResourceARN": ARN + name, "Tags": self.tags} for name in page]
        return {
            "ResourceTagMappingList": resources,
            "PaginationToken": "" if is_last else str(number + 1),
        }


def test_every_page_is_read_until_the_token_is_empty() -> None:
    """A page without a queue is not the last one."""
    client = TagClient([["orders"], [], ["orders-dlq.fifo"]])
    account = "123456789012"
    assert list_tagged_queues(client, "payments") == {
        QueueAddress(account, "orders"),
        QueueAddress(account, "orders-dlq.fifo"),
    }
    first = client.requests[0]
    assert first["TagFilters"] == [{"Key": "dlq-replay", "Values": ["payments"]}]
    assert first["ResourceTypeFilters"] == ["sqs"]


def test_the_value_of_each_queue_that_has_the_tag_is_read() -> None:
    client = TagClient([["orders"], ["orders-dlq"]], value="payments")
    account = "123456789012"
    assert read_queue_tags(client) == {
        QueueAddress(account, "orders"): "payments",
        QueueAddress(account, "orders-dlq"): "payments",
    }
    assert client.requests[0]["TagFilters"] == [{"Key": "dlq-replay", "Values": []}]


def test_a_list_of_which_a_page_is_refused_is_no_list() -> None:
    denied = ClientError(
        {"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetResources"
    )
    client = TagClient([["orders"], denied])
    with pytest.raises(QueueError, match="dlq-replay=payments: AccessDeniedException: no"):
        list_tagged_queues(client, "payments")
