"""Sends the messages in batches. Only messages that SQS confirms count as sent."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from demo.identity import to_entry
from demo.workload import DemoMessage

BATCH_ENTRIES = 10
BATCH_BYTES = 1_048_576
_ROUNDS = 3
_PAUSE_SECONDS = 0.3

SendBatch = Callable[[list[dict[str, Any]]], dict[str, Any]]
"""Takes the entries of SendMessageBatch, returns its answer."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that SQS refused, and the error code."""

    message: DemoMessage
    code: str


def pack(messages: Sequence[DemoMessage]) -> Iterator[list[DemoMessage]]:
    """Split into runs of at most 10 messages and 1 MiB, in order."""
    run: list[DemoMessage] = []
    for message in messages:
        size = sum(m.content.size_bytes for m in [*run, message])
        if run and (len(run) == BATCH_ENTRIES or size > BATCH_BYTES):
            yield run
            run = []
        run.append(message)
    if run:
        yield run


def produce(
    messages: Sequence[DemoMessage],
    send_batch: SendBatch,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[list[DemoMessage] | Refusal]:
    """Send *messages*, at most ten batches in three seconds.

    Yields:
        The confirmed messages of each batch, and a Refusal for each message that SQS refused three
        times.
    """
    for run in pack(messages):
        waiting, codes = list(run), dict[str, str]()
        for _ in range(_ROUNDS):
            codes = _failed(send_batch([_entry(m) for m in waiting]))
            yield [m for m in waiting if str(m.number) not in codes]
            waiting = [m for m in waiting if str(m.number) in codes]
            if not waiting:
                break
        yield from (Refusal(m, codes[str(m.number)]) for m in waiting)
        pause(_PAUSE_SECONDS)


def _entry(message: DemoMessage) -> dict[str, Any]:
    entry = to_entry(message.content, str(message.number))
    if message.group is None:
        return entry
    fifo = {"MessageGroupId": message.group, "MessageDeduplicationId": message.identity}
    return {**entry, **fifo}


def _failed(answer: dict[str, Any]) -> dict[str, str]:
    return {entry["Id"]: entry.get("Code", "unknown") for entry in answer.get("Failed", [])}
