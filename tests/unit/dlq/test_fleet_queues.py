"""The queues of a fleet's redrive: asked for by name, and accepted by what SQS says of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ClientError

from dlq.errors import InputError
from dlq.redrive.request import RedriveRequest
from dlq.redrive.resolving.queues import find_members
from tests.support.builders import queue_arn, queue_url

if TYPE_CHECKING:
    from dlq.aws.clients import ClientFactory

REQUEST = RedriveRequest(
    queue_tag="payments",
    parked_queue_urls=(queue_url("parked"), queue_url("parked.fifo")),
)
UNTAGGED = ("parked", "parked.fifo", "other-dlq")


@dataclass
class FakeAws:
    """One client for SQS and the tagging API: by queue, the DLQ that its redrive policy names."""

    dead_letter_queues: Mapping[str, str | None]
    asked: list[str] = field(default_factory=list)
    is_refused: bool = False

    def __call__(self, _: str) -> "FakeAws":
        return self

    def get_resources(self, **_: Any) -> Mapping[str, Any]:
        if self.is_refused:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetResources")
        arns = [queue_arn(name) for name in self.dead_letter_queues if name not in UNTAGGED]
        return {"ResourceTagMappingList": [{"ResourceARN": arn} for arn in arns]}

    def get_queue_attributes(self, QueueUrl: str, **_: Any) -> Mapping[str, Any]:  # noqa: N803
        name = QueueUrl.rpartition("/")[2]
        self.asked.append(name)
        if name.startswith("deleted"):
            error: Any = {"Error": {"Code": "QueueDoesNotExist", "Message": name}}
            raise ClientError(error, "GetQueueAttributes")
        attributes = {"QueueArn": queue_arn(name), "MaximumMessageSize": str(1000 + len(name))}
        if dlq := self.dead_letter_queues.get(name):
            policy = {"deadLetterTargetArn": queue_arn(dlq), "maxReceiveCount": 3}
            attributes["RedrivePolicy"] = json.dumps(policy)
        return {"Attributes": attributes}


def test_only_queues_that_messages_name_are_asked_for_however_many_have_the_tag() -> None:
    others = {f"source-{number}": "dlq" for number in range(300)}
    aws = FakeAws({"dlq": None, "orders": "dlq", "deleted": "dlq", "loose": "other-dlq", **others})
    names = {"orders", "deleted", "loose", "dlq", "untagged"}
    client = cast("ClientFactory", aws)

    queues, destinations, notes = find_members(REQUEST, names, client, client)

    assert [*destinations] == [queue_url("orders")]
    assert queues.sources == {"orders": queue_url("orders")}
    assert queues.dead_letter_queues == {"orders": "dlq"}
    # The smallest of the queue, its DLQ and the parked queues.
    assert queues.max_message_bytes == {queue_url("orders"): 1003}
    assert sorted(aws.asked) == ["deleted", "dlq", "dlq", "loose", "orders", *UNTAGGED[:2]]
    [note] = notes
    assert "deleted" in note


def test_a_list_of_tags_that_cannot_be_read_is_an_error() -> None:
    """The part of it that can be read is not taken for the fleet."""
    client = cast("ClientFactory", FakeAws({"dlq": None, "orders": "dlq"}, is_refused=True))

    with pytest.raises(InputError, match=r"^--queue-tag: .*dlq-replay=payments: AccessDenied: no"):
        find_members(REQUEST, {"orders"}, client, client)


def test_a_queue_without_a_redrive_policy_is_no_source() -> None:
    aws = FakeAws({"dlq": None, "orders": None})
    client = cast("ClientFactory", aws)

    assert find_members(REQUEST, {"orders"}, client, client)[1] == {}
