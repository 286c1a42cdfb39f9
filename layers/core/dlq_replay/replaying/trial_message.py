"""The test message of ``dlq doctor``: its form, and how it is recognised. Pure.

Whoever recognises one may delete it without keeping it. So the marker alone proves nothing: a
consumer may copy it to a real message, and anybody may write it. A message counts as a test message
only if this module could have written all of it. Then there is nothing in it that could be lost.
"""

import json
import re

from dlq_replay.rules.policy import ReplayPolicy
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE, ReplayContext, body_digest
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message, SendEntry

TRIAL_ATTRIBUTE = "sqs-dlq-test-message"
"""String; its value is the id of the test. A consumer that gets the message must fail on it."""

_TRIAL_ID = re.compile(r"[0-9a-f]{16}")
_OURS = {TRIAL_ATTRIBUTE, REPLAY_COUNT_ATTRIBUTE, CONTEXT_ATTRIBUTE}


def trial_entry(trial_id: str, policy: ReplayPolicy) -> SendEntry:
    """Return the test message, for the DLQ or the main queue. *trial_id* is 16 hexadecimal digits.

    Its counter is at ``MaxAttempts``, so that the function parks it and never replays it. It is at
    least 1, because a counter of 0 would count as a new dead letter. It names the main queue as
    its source, because SQS names none on a copy that is sent to the DLQ. On FIFO it has a message
    group of its own.
    """
    body = _body(trial_id)
    source = ReplayContext(source_queue=policy.main_queue.name, body_digest=body_digest(body))
    is_fifo = policy.main_queue.is_fifo
    return SendEntry(
        body=body,
        attributes={
            TRIAL_ATTRIBUTE: MessageAttribute("String", trial_id),
            REPLAY_COUNT_ATTRIBUTE: MessageAttribute("Number", str(max(1, policy.max_attempts))),
            CONTEXT_ATTRIBUTE: MessageAttribute("String", source.to_json()),
        },
        message_group_id=_group(trial_id) if is_fifo else None,
        deduplication_id=_group(trial_id) if is_fifo else None,
    )


def trial_id_of(message: Message) -> str | None:
    """Return the id of the test that sent *message*; None for every other message.

    A message with the marker and anything else that no test writes is real.
    """
    marker = message.attributes.get(TRIAL_ATTRIBUTE)
    if marker is None or marker.data_type != "String" or not isinstance(marker.value, str):
        return None
    trial_id = marker.value
    is_whole = (
        _TRIAL_ID.fullmatch(trial_id) is not None
        and message.body == _body(trial_id)
        and message.attributes.keys() <= _OURS
        and message.message_group_id in {None, _group(trial_id)}
        and message.history.fault is None
        and message.history.context.plan_id is None
    )
    return trial_id if is_whole else None


def _group(trial_id: str) -> str:
    return f"dlq-test-message-{trial_id}"


def _body(trial_id: str) -> str:
    text = "A test message of dlq doctor. Nothing has to be done for it."
    return json.dumps({"test": trial_id, "text": text})
