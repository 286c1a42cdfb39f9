"""What is known of the queues of a fleet: kept for a while, and never forgotten for a refusal."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError

from dlq_replay.aws.fleet_directory import FleetDirectory
from dlq_replay.errors import QueueError, QueueGoneError
from dlq_replay.wire.addresses import QueueAddress
from tests.support.builders import InlineExecutor, queue_address, queue_arn


def refused() -> ClientError:
    return ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "Any")


@dataclass
class FakeAccount:
    """The answers of an account: an error is raised in place of an answer.

    Attributes:
        tagged: names of the queues with the tag.
        mappings: state by the name of the queue that a mapping reads.
        sources: names of the sources of each queue.
        asked: what was asked, in order.
    """

    tagged: list[str] | Exception = field(default_factory=list)
    mappings: Mapping[str, str] | Exception = field(default_factory=dict)
    sources: dict[str, list[str] | Exception] = field(default_factory=dict)
    attributes: dict[str, dict[str, str] | Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    now_seconds: float = 1000

    def directory(self) -> FleetDirectory:
        return FleetDirectory(
            "payments",
            lambda _: self,
            lambda address: FakeQueue(self, address.name),  # type: ignore[arg-type, return-value]
            InlineExecutor(),
            frozenset({queue_address("parked")}),
            lambda: self.now_seconds,
        )

    def get_resources(self, **_: object) -> dict[str, Any]:
        self.asked.append("tags")
        names = answered(self.tagged)
        return {"ResourceTagMappingList": [{"ResourceARN": queue_arn(name)} for name in names]}

    def get_paginator(self, _: str) -> "FakeAccount":
        return self

    def paginate(self) -> Iterator[dict[str, Any]]:
        self.asked.append("mappings")
        mappings = []
        for name, state in answered(self.mappings).items():
            mappings.append({"EventSourceArn": queue_arn(name), "State": state})
        stream = {"EventSourceArn": "arn:aws:kinesis:x:1:stream/s", "State": "Enabled"}
        yield {"EventSourceMappings": [*mappings, stream, {"State": "Enabled"}]}


@dataclass
class FakeQueue:
    account: FakeAccount
    name: str

    def sources(self) -> frozenset[QueueAddress]:
        self.account.asked.append(f"sources of {self.name}")
        return frozenset(map(queue_address, answered(self.account.sources.get(self.name, []))))

    def describe(self) -> Mapping[str, str]:
        self.account.asked.append(f"attributes of {self.name}")
        attributes: Mapping[str, str] = answered(self.account.attributes.get(self.name, {}))
        return attributes


def answered(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_unreadable_list_of_members_is_the_last_one_and_is_asked_for_again_after_a_minute() -> None:
    account = FakeAccount(tagged=["orders"])
    directory = account.directory()
    assert directory.members() == {queue_address("orders")}

    account.tagged = refused()
    for seconds in (299, 1, 59, 1):
        account.now_seconds += seconds
        assert directory.members() == {queue_address("orders")}
    assert account.asked == ["tags"] * 3

    account.tagged = ["orders", "invoices"]
    account.now_seconds += 60
    assert directory.members() == {queue_address("orders"), queue_address("invoices")}


def test_list_that_could_never_be_read_is_an_error_and_not_empty() -> None:
    directory = FakeAccount(tagged=refused()).directory()
    with pytest.raises(QueueError, match="dlq-replay=payments: AccessDenied"):
        directory.members()


def test_sweep_reads_members_that_are_dlqs_and_have_no_mapping() -> None:
    account = FakeAccount(
        tagged=["orders", "orders-dlq", "hot-dlq", "paused-dlq", "gone-dlq", "denied"],
        mappings={"hot-dlq": "Enabled", "paused-dlq": "Disabled"},
        sources={
            "orders-dlq": ["orders"],
            "hot-dlq": ["hot"],
            "paused-dlq": ["paused"],
            "gone-dlq": QueueGoneError("gone"),
            "denied": QueueError("asking for the sources of denied: AccessDenied"),
            "strangers-dlq": ["strangers"],
        },
    )

    swept = account.directory().swept_queues()

    assert swept.dlqs == [queue_address("orders-dlq"), queue_address("paused-dlq")]
    assert swept.faults == {
        queue_address("denied"): "asking for the sources of denied: AccessDenied"
    }


def test_parked_queue_with_the_tag_is_no_member() -> None:
    """As of a stack that is deployed with the tag: what was parked would be parked again."""
    account = FakeAccount(
        tagged=["orders", "orders-dlq", "parked"],
        sources={"orders-dlq": ["orders"], "parked": ["orders-dlq"]},
    )
    directory = account.directory()

    assert directory.swept_queues().dlqs == [queue_address("orders-dlq")]
    assert directory.members() == {queue_address("orders"), queue_address("orders-dlq")}


@pytest.mark.parametrize("name", ["tagged", "mappings"])
def test_no_queue_is_swept_where_nobody_could_ever_say_which(name: str) -> None:
    """A mapping that is not known may be of the queue's own consumer."""
    account = FakeAccount(tagged=["orders-dlq"], sources={"orders-dlq": ["orders"]})
    setattr(account, name, refused())
    with pytest.raises(QueueError):
        account.directory().swept_queues()
    assert "sources of orders-dlq" not in account.asked


def test_sources_are_asked_for_again_in_an_hour_of_sweeps_and_kept_where_that_fails() -> None:
    names = [f"dlq-{number:03d}" for number in range(120)]
    account = FakeAccount(tagged=names, sources={name: ["orders"] for name in names})
    directory = account.directory()
    directory.swept_queues()
    assert len(account.asked) == 2 + 120

    account.asked.clear()
    account.sources["dlq-007"] = QueueError("throttled")
    account.sources["dlq-008"] = []
    for _ in range(60):
        account.now_seconds += 60
        swept = directory.swept_queues()
        assert not swept.faults

    again = [question for question in account.asked if question.startswith("sources")]
    assert sorted(again) == [f"sources of {name}" for name in names]
    assert swept.dlqs == [queue_address(name) for name in names if name != "dlq-008"]


def test_sources_that_decide_about_messages_are_a_minute_old_at_most() -> None:
    account = FakeAccount(sources={"orders-dlq": ["orders"]})
    directory = account.directory()
    dlq = queue_address("orders-dlq")
    assert directory.sources(dlq) == frozenset({queue_address("orders")})

    account.sources["orders-dlq"] = ["orders", "invoices"]
    account.now_seconds += 59
    assert directory.sources(dlq) == frozenset({queue_address("orders")})
    account.now_seconds += 1
    assert directory.sources(dlq) == frozenset({queue_address("orders"), queue_address("invoices")})

    account.sources["orders-dlq"] = QueueError("throttled")
    account.now_seconds += 60
    assert directory.sources(dlq) is None


def test_attributes_are_kept_for_an_hour_and_a_refusal_for_a_minute() -> None:
    account = FakeAccount(attributes={"orders": {"A": "1"}, "denied": QueueError("denied: no")})
    directory = account.directory()
    both = [queue_address("orders"), queue_address("denied")]
    for _ in range(2):
        assert directory.describe(both) == (
            {queue_address("orders"): {"A": "1"}},
            {queue_address("denied"): "denied: no"},
        )
    assert account.asked == ["attributes of orders", "attributes of denied"]

    account.attributes = {"orders": QueueError("throttled"), "denied": {"A": "2"}}
    account.now_seconds += 60
    assert directory.describe(both) == (
        {queue_address("orders"): {"A": "1"}, queue_address("denied"): {"A": "2"}},
        {},
    )
    account.now_seconds += 3600
    assert directory.describe(both)[0][queue_address("orders")] == {"A": "1"}
