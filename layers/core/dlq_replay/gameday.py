"""The test message of ``dlq gameday``: what it looks like, and how it is recognised. Pure.

Whoever recognises one may delete it without keeping it. So the marker alone proves nothing: a
consumer may copy it to a real message, and anybody may write it. A message counts as a test message
only if this module could have written all of it. Then there is nothing in it that could be lost.
"""

import json
import re
from datetime import UTC, datetime

from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import CONTEXT_ATTRIBUTE, ReplayContext
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message, SendEntry
from dlq_replay.policy import ReplayPolicy

GAMEDAY_ATTRIBUTE = "sqs-dlq-gameday"
"""String; its value is the id of the game day. Consumers that take part must fail on it."""

_RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")
_OURS = {GAMEDAY_ATTRIBUTE, REPLAY_COUNT_ATTRIBUTE, CONTEXT_ATTRIBUTE}


def new_run_id(now: datetime, token: str) -> str:
    """Return the id of a game day, which begins with its time.

    Args:
        now: with a time zone.
        token: 8 random hex digits in lower case.
    """
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{token}"


def gameday_entry(run_id: str, policy: ReplayPolicy) -> SendEntry:
    """Return the test message, for the DLQ or the main queue.

    Its counter is at ``MaxAttempts``, so that the function parks it and never replays it. It is at
    least 1, because a counter of 0 would count as a new dead letter. It names the main queue as
    its source, because SQS names none on a copy that is sent to the DLQ. On FIFO it has a message
    group of its own.
    """
    source = ReplayContext(source_queue=policy.main_queue.name)
    is_fifo = policy.main_queue.is_fifo
    return SendEntry(
        body=_body(run_id),
        attributes={
            GAMEDAY_ATTRIBUTE: MessageAttribute("String", run_id),
            REPLAY_COUNT_ATTRIBUTE: MessageAttribute("Number", str(max(1, policy.max_attempts))),
            CONTEXT_ATTRIBUTE: MessageAttribute("String", source.to_json()),
        },
        message_group_id=_group(run_id) if is_fifo else None,
        deduplication_id=_group(run_id) if is_fifo else None,
    )


def gameday_of(message: Message) -> str | None:
    """Return the id of the game day that sent *message*; None for every other message.

    It is None for a message that has the marker and anything else that no game day writes: another
    body, another attribute, another message group, or a redrive plan. Such a message is real.
    """
    marker = message.attributes.get(GAMEDAY_ATTRIBUTE)
    if marker is None or marker.data_type != "String" or not isinstance(marker.value, str):
        return None
    run_id = marker.value
    is_whole = (
        _RUN_ID.fullmatch(run_id) is not None
        and message.body == _body(run_id)
        and message.attributes.keys() <= _OURS
        and message.message_group_id in {None, _group(run_id)}
        and message.history.fault is None
        and message.history.context.plan_id is None
    )
    return run_id if is_whole else None


def _group(run_id: str) -> str:
    return f"dlq-gameday-{run_id}"


def _body(run_id: str) -> str:
    text = "A test message of dlq gameday. Nothing has to be done for it."
    return json.dumps({"gameday": run_id, "text": text})
