"""FIFO deduplication ids, by AWS's rule: an id is known for 5 minutes, deleted message or not.

SQSAPI, SendMessage, MessageDeduplicationId.
"""

from collections.abc import Sequence

from dlq_replay.message import Message, SendEntry
from dlq_replay.outgoing import redriven_entry
from dlq_replay.sending import InDoubt
from local_sqs.faults import Effect, Fault
from tests.builders import message
from tests.simulation.event_source import EventSource, run
from tests.simulation.stack import Stack


def stack_of(*entries: SendEntry) -> tuple[Stack, list[str], list[EventSource]]:
    stack = Stack(is_fifo=True, cap_seconds=0)
    for entry in entries:
        stack.dlq.send([entry])
    taken: list[str] = []

    def consume(batch: Sequence[Message]) -> set[str]:
        taken.extend(one.body for one in batch)
        return set()

    return stack, taken, [stack.replay_source(), EventSource(stack.main, consume)]


def entry(body: str, group: str = "g", deduplication_id: str = "d") -> SendEntry:
    return SendEntry(body, message_group_id=group, deduplication_id=deduplication_id)


def test_repeated_send_of_a_copy_is_removed_though_the_first_is_deleted() -> None:
    stack, taken, sources = stack_of(entry("a"))
    stack.front.faults.add(Fault(Effect.LOSE, "SendMessageBatch", "main.fifo", nth=1))
    run(stack.model, sources)

    assert stack.front.log.count("SendMessageBatch", "main.fifo") == 2
    assert taken == ["a"]
    assert not stack.dlq.queue.messages()


def test_every_replay_of_a_message_arrives_within_the_window() -> None:
    """Each replay is a copy of its own, with an id of its own."""
    stack, taken, sources = stack_of(entry("a"))
    for _ in range(3):
        run(stack.model, sources)
        stack.dlq.send([entry("a", deduplication_id=f"again-{len(taken)}")])
    run(stack.model, sources)

    assert taken == ["a"] * 4


def test_redrive_is_repeated_by_another_plan_only() -> None:
    stack, taken, sources = stack_of()
    archived = message("m-1", body="a", MessageGroupId="g")
    for plan in ("plan-1", "plan-1", "plan-2"):
        results = stack.main.send([redriven_entry(archived, plan, to_fifo=True)])
        assert not isinstance(results[0], InDoubt)
        run(stack.model, sources)

    assert taken == ["a", "a"]
