"""What ``dlq doctor --all`` says of a DLQ: ``tests/golden/fleet_rules.txt`` has it in words."""

from dataclasses import replace
from typing import Any

import pytest

from dlq.aws.clients import DescribedQueue
from dlq.stack.fleet_rules import (
    AccountFacts,
    DlqFacts,
    Fleet,
    KeyFacts,
    Membership,
    examine_dlq,
    examine_fleet,
)
from dlq.stack.rules import StackFinding, TriggerFacts
from dlq_replay.wire.addresses import QueueAddress
from tests.support.builders import queue_arn, queue_url, redrive_to
from tests.support.golden import assert_stored, stored_rows

LAMBDA = "arn:aws:lambda:us-east-1:123456789012:function"
SWEEP = TriggerFacts("rule sweep", "ENABLED", source_arn="", reports_batch_item_failures=True)
MAPPING = TriggerFacts(
    name="event source mapping 1",
    state="Enabled",
    source_arn=queue_arn("orders-dlq"),
    reports_batch_item_failures=True,
    target=f"{LAMBDA}:replay",
)
OTHER = replace(MAPPING, name="pipe p", state="RUNNING", target=f"{LAMBDA}:replay-2")
KEY = f"arn:aws:kms:us-east-1:123456789012:key/{'0' * 8}"


def address(name: str) -> QueueAddress:
    return QueueAddress.from_arn(queue_arn(name))


FLEET = Fleet(
    stack="shop",
    place=("--stack", "shop", "--region", "eu-west-1"),
    tag="shop",
    functions=(f"{LAMBDA}:replay", f"{LAMBDA}:sweep"),
    parked_queues=(address("parked"),),
    sweep=SWEEP,
    longest_wait_seconds=86_400,
)


def queue(name: str, **attributes: str) -> DescribedQueue:
    is_dlq = "-dlq" in name
    facts = {
        "QueueArn": queue_arn(name),
        "MessageRetentionPeriod": "1209600" if is_dlq else "345600",
        "VisibilityTimeout": "30",
        **attributes,
    }
    target, count = ("parked", 1000) if is_dlq else ("orders-dlq", 5)
    target += ".fifo" * name.endswith(".fifo")
    facts.setdefault("RedrivePolicy", redrive_to(target, count))
    return DescribedQueue(queue_url(name), facts)


def tagged(*names: str, tag: str = "shop") -> dict[QueueAddress, str]:
    return {address(name): tag for name in names}


def dlq(**changes: Any) -> DlqFacts:
    """A DLQ that has joined with its source, and has nothing to change."""
    sound = DlqFacts(
        dlq=queue("orders-dlq"),
        sources=(queue("orders"),),
        tags=tagged("orders", "orders-dlq"),
        fleet=FLEET,
    )
    return replace(sound, **changes)


def open_dlq(**changes: Any) -> DlqFacts:
    return dlq(**{"tags": {}, **changes})


def keyed(key: KeyFacts | None, **changes: Any) -> DlqFacts:
    keys = {} if key is None else {KEY: key}
    return dlq(sources=(queue("orders", KmsMasterKeyId=KEY),), keys=keys, **changes)


WITH_FIFO = replace(FLEET, parked_queues=(address("parked"), address("parked.fifo")))
FIFO = {
    "dlq": queue("orders-dlq.fifo"),
    "sources": (queue("orders.fifo"),),
    "tags": tagged("orders.fifo", "orders-dlq.fifo"),
}
TWO_SOURCES = (queue("orders"), queue("refunds"))
HELD = {"ApproximateNumberOfMessagesDelayed": "2", "ApproximateNumberOfMessagesNotVisible": "1"}
UNSWEPT = replace(FLEET, sweep=None)

CASES: dict[str, DlqFacts] = {
    "joined": dlq(),
    "joined, of some fleet": dlq(fleet=None),
    "joined, with a mapping of its own fleet, which is not chosen": dlq(
        fleet=None, triggers=(MAPPING,)
    ),
    "joined, with held messages": dlq(dlq=queue("orders-dlq", **HELD)),
    "a source is not tagged": dlq(sources=TWO_SOURCES),
    "the DLQ has lost its tag while messages are held": dlq(
        tags=tagged("orders"), dlq=queue("orders-dlq", **HELD)
    ),
    "a source of another fleet": dlq(tags=tagged("orders-dlq") | tagged("orders", tag="pay")),
    "tags of two fleets, none chosen": dlq(
        fleet=None, tags=tagged("orders-dlq") | tagged("orders", tag="pay")
    ),
    "could join": open_dlq(),
    "could join, none chosen": open_dlq(fleet=None),
    "tags not known": dlq(tags=None),
    "of another fleet": open_dlq(tags=tagged("orders", "orders-dlq", tag="pay")),
    "a source in another account": open_dlq(foreign_sources=("x of account 210987654321",)),
    "the DLQ of a DLQ": open_dlq(
        dlq=queue("second-dlq"),
        sources=(queue("orders-dlq"),),
        tags=tagged("orders-dlq"),
        dlqs_among_sources=("orders-dlq",),
    ),
    "FIFO without a FIFO parked queue": dlq(**FIFO),
    "FIFO with one": dlq(**FIFO, fleet=WITH_FIFO),
    "FIFO that keeps for a day": dlq(
        **FIFO | {"dlq": queue("orders-dlq.fifo", MessageRetentionPeriod="86400")},
        fleet=WITH_FIFO,
    ),
    "a key without the tag": keyed(KeyFacts(KEY, None)),
    "a key with another tag, not joined": keyed(KeyFacts(KEY, "pay"), tags={}),
    "a key with the tag": keyed(KeyFacts(KEY, "shop")),
    "a key of AWS, or one that could not be read": keyed(None),
    "another function reads it": dlq(triggers=(MAPPING, OTHER)),
    "another function reads it, not joined": open_dlq(triggers=(OTHER,)),
    "another function reads it, that of its own stack": open_dlq(
        triggers=(OTHER,), own_stack="orders"
    ),
    "a parked queue of a stack": open_dlq(
        dlq=queue("parked-dlq"),
        sources=(queue("orders-dlq"),),
        dlqs_among_sources=("orders-dlq",),
        own_stack="orders",
    ),
    "joined, and has a stack too": dlq(triggers=(OTHER,), own_stack="orders"),
    "another function does not read it now": dlq(triggers=(replace(OTHER, state="STOPPED"),)),
    "an alias of the own function": dlq(triggers=(replace(MAPPING, target=f"{LAMBDA}:sweep:a"),)),
    "a mapping that answers for whole batches": dlq(
        triggers=(replace(MAPPING, reports_batch_item_failures=False),)
    ),
    "nothing reads it": dlq(fleet=UNSWEPT),
    "keeps as long as its source": open_dlq(
        dlq=queue("orders-dlq", MessageRetentionPeriod="345600")
    ),
    "its source keeps as long as possible": open_dlq(
        sources=(queue("orders", MessageRetentionPeriod="1209600"),)
    ),
    "hides for 29 s": open_dlq(dlq=queue("orders-dlq", VisibilityTimeout="29")),
    "its source moves after one receive": open_dlq(
        sources=(queue("orders", RedrivePolicy=redrive_to("orders-dlq", 1)),)
    ),
    "no net": open_dlq(dlq=queue("orders-dlq", RedrivePolicy="")),
    "leads elsewhere after 3": dlq(
        dlq=queue("orders-dlq", RedrivePolicy=redrive_to("graveyard", 3))
    ),
    "leads elsewhere after 1000": dlq(
        dlq=queue("orders-dlq", RedrivePolicy=redrive_to("graveyard", 1000))
    ),
}


def shown(finding: StackFinding) -> str:
    return f"{finding.severity} {finding.subject}: {finding.fault}\n  to do: {finding.fix}\n"


@stored_rows("fleet_rules", CASES)
def test_a_dlq_is_as_it_is_stored(name: str) -> None:
    examined = examine_dlq(CASES[name])

    lacking = [url.rpartition("/")[2] for url in examined.untagged_urls]
    head = f"{examined.state}, tag {examined.tag}, held {examined.held}, to tag: {lacking}\n"
    assert_stored("fleet_rules", name, head + "".join(map(shown, examined.findings)))


def test_what_could_join_has_no_broken_finding_and_its_sources_are_tagged_first() -> None:
    examined = examine_dlq(open_dlq(sources=TWO_SOURCES))

    assert examined.state is Membership.OPEN
    assert examined.untagged_urls == tuple(map(queue_url, ("orders", "refunds", "orders-dlq")))


def account(**changes: Any) -> AccountFacts:
    facts = AccountFacts(queue_count=2, dlqs=(), tags={}, fleet=FLEET)
    return replace(facts, **changes)


@pytest.mark.parametrize(
    ("facts", "fault"),
    [
        (account(tags=tagged("parked")), "parked: is a parked queue of stack shop, and has the"),
        (
            account(fleet=replace(FLEET, sweep=replace(SWEEP, state="DISABLED"))),
            "shop: replay is paused: rule sweep is DISABLED",
        ),
        (account(unknown=("pipes: denied",)), "survey: pipes: denied"),
    ],
)
def test_what_is_of_no_single_dlq_is_found(facts: AccountFacts, fault: str) -> None:
    (finding,) = examine_fleet(facts)
    assert fault in shown(finding)


def test_a_sound_fleet_has_nothing_to_change() -> None:
    assert examine_fleet(account(tags=tagged("orders"))) == []
    assert examine_fleet(account(fleet=None)) == []
