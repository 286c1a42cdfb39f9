"""The laws under faults, over the real adapter; and that each of them catches a broken variant."""

import base64
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import body_digest
from dlq_replay.history import History
from dlq_replay.message import SendEntry
from dlq_replay.replay import Replayer
from dlq_replay.sending import Confirmed, SendResult, Shipment
from dlq_replay.sqs import SqsQueue
from tests.builders import BODY
from tests.property.broken_variants import assert_caught
from tests.property.fault_world import (
    LAWS,
    Ending,
    Scenario,
    children_are_messages_of_their_own,
    groups_keep_their_order,
    no_try_begins_after_its_invocation,
    nothing_is_lost,
    only_lost_answers_duplicate,
    partial_failures,
    play,
    repeated_calls,
    scenarios,
    what_arrives_is_what_was_sent,
)

EXAMPLES_FACTOR = 8
"""A scenario covers four laws at once, on more messages than an example of a single value."""


@settings(max_examples=settings().max_examples * EXAMPLES_FACTOR)
@given(scenarios)
def test_laws_hold_whatever_fails(scenario: Scenario) -> None:
    ending = play(scenario)

    for law in LAWS:
        law(ending)


class IgnoresRefusals(SqsQueue):
    """Takes every answer for a success."""

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        super().send(entries)
        return [Confirmed("taken for granted")] * len(entries)


class EncodesBinaryTwice(SqsQueue):
    """Sends the base64 text of a binary value as its bytes."""

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        return super().send([_twice_encoded(entry) for entry in entries])


def _twice_encoded(entry: SendEntry) -> SendEntry:
    attributes = {
        name: MessageAttribute(a.data_type, base64.b64encode(a.value))
        if isinstance(a.value, bytes)
        else a
        for name, a in entry.attributes.items()
    }
    return SendEntry(
        entry.body,
        attributes,
        entry.message_group_id,
        entry.deduplication_id,
        entry.trace_header,
        entry.delay_seconds,
    )


class RepeatsWholeBatches(SqsQueue):
    """Sends everything again where a part was refused."""

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        results = super().send(entries)
        if all(isinstance(result, Confirmed) for result in results):
            return results
        return super().send(entries)


class ForgetsLanes(Replayer):
    """Sends each message of a group without waiting for the one before it."""

    def _groups(self, steps: Any) -> list[list[Shipment[str]]]:
        return [[shipment] for group in super()._groups(steps) for shipment in group]


class TakesAnyContext(Replayer):
    """Believes the context of any body."""

    def replay(self, records: Any, seconds_left: Any) -> Any:
        parents = body_digest(BODY)
        believed = [m.with_history(History.of(m.attributes, lambda: parents)) for m in records]
        return super().replay(believed, seconds_left)


def forgets_deadlines(**_: object) -> None:
    """Lets botocore repeat a call whenever it likes."""


@pytest.mark.parametrize(
    ("law", "broken", "among"),
    [
        (nothing_is_lost, {"make_queue": IgnoresRefusals}, partial_failures),
        (what_arrives_is_what_was_sent, {"make_queue": EncodesBinaryTwice}, scenarios),
        (groups_keep_their_order, {"make_replayer": ForgetsLanes}, partial_failures),
        (children_are_messages_of_their_own, {"make_replayer": TakesAnyContext}, scenarios),
        (only_lost_answers_duplicate, {"make_queue": RepeatsWholeBatches}, partial_failures),
        (no_try_begins_after_its_invocation, {"check_deadline": forgets_deadlines}, repeated_calls),
    ],
    ids=["law 1", "law 2", "law 4", "children", "law 5", "no late try"],
)
def test_law_catches_a_broken_variant(
    law: Callable[[Ending], None], broken: dict[str, Any], among: SearchStrategy[Scenario]
) -> None:
    assert_caught(law, lambda scenario: play(scenario, **broken), among)
