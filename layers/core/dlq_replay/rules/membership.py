"""Decides where the dead letters of a tagged DLQ may go, and which stay in it. Pure.

A message goes to a queue that SQS names as its source, and that has the tag. A copy that SQS moved
names its source itself. For any other copy SQS's list of the DLQ's sources decides, because any
producer can write a queue's name into a message. What is not known yet, such as a tag that SQS has
not seen, or may not be known again, such as a list that was refused, parks no message: it stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from dlq_replay.rules.batch_plan import Failed
from dlq_replay.rules.policy import QueueLimits, ReplayPolicy
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message, UnreadableRecord

NOT_A_MEMBER = "not_a_member"
"""The cause of messages that stay because a queue has no tag, or SQS did not answer for it."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The records of a batch, the source queue of each message, and the messages that stay.

    A message is neither in *source_of* nor in *left* where it is certain that it has no source: it
    names a queue that is none of the DLQ's, or none where the DLQ has several. It will be parked.

    Attributes:
        records: all of them, in order; a message of which the DLQ's only source is known names it.
        source_of: tagged queues, by the id of the message that came from there.
        left: decisions about messages that stay, by their ids.
    """

    records: Sequence[Message | UnreadableRecord]
    source_of: Mapping[str, QueueAddress] = field(default_factory=dict)
    left: Mapping[str, Failed] = field(default_factory=dict)

    @property
    def sources(self) -> frozenset[QueueAddress]:
        """The queues that a message may go to."""
        return frozenset(self.source_of.values())

    def without(self, faults: Mapping[QueueAddress, str]) -> Self:
        """Leave the messages of queues that SQS did not describe, too; *faults* says why not."""
        left = dict(self.left)
        source_of: dict[str, QueueAddress] = {}
        for message_id, source in self.source_of.items():
            if source in faults:
                left[message_id] = Failed(NOT_A_MEMBER, faults[source])
            else:
                source_of[message_id] = source
        return replace(self, source_of=source_of, left=left)

    def policy(
        self,
        rules: ReplayPolicy,
        dlq: QueueAddress,
        limits: QueueLimits,
        limits_of: Mapping[QueueAddress, QueueLimits],
    ) -> ReplayPolicy:
        """Return the policy of the batch: *rules*, and each source with its limits.

        *limits* are those of the DLQ and the parked queue, for messages without a source.
        """
        no_queue = QueueAddress(dlq.account_id, ".fifo" if dlq.is_fifo else "")
        return replace(
            rules,
            main_queue=no_queue,
            takes_unnamed=False,
            limits=limits,
            other_main_queues={source: limits_of[source] for source in self.sources},
        )


def needs_listed_sources(records: Iterable[Message | UnreadableRecord]) -> bool:
    """Return whether SQS did not move a message of *records* here: its list has to be asked."""
    return any(isinstance(record, Message) and not record.source_arn for record in records)


def admit(
    records: Iterable[Message | UnreadableRecord],
    dlq: QueueAddress,
    members: frozenset[QueueAddress],
    listed_sources: frozenset[QueueAddress] | None,
) -> Admission:
    """Find the source of each message, and leave those whose source is no member.

    Args:
        records: a batch of *dlq*.
        dlq: the queue that they came from.
        members: the queues with the tag.
        listed_sources: the sources of *dlq* by SQS's list; None where it is not known.
    """
    if dlq not in members:
        return leave_all(records, f"{dlq.name} has no tag")

    named: list[Message | UnreadableRecord] = []
    source_of: dict[str, QueueAddress] = {}
    left: dict[str, Failed] = {}
    for record in records:
        if not isinstance(record, Message):
            named.append(record)
            continue
        if not record.source_arn and not listed_sources:
            named.append(record)
            left[record.message_id] = Failed(NOT_A_MEMBER, _why_no_source(dlq, listed_sources))
            continue

        message = _naming_only_source(record, listed_sources or frozenset())
        named.append(message)
        source = _source(message, dlq, listed_sources or frozenset())
        if source is None:
            continue
        if source in members:
            source_of[message.message_id] = source
        else:
            reason = f"its source {source.name} has no tag"
            left[message.message_id] = Failed(NOT_A_MEMBER, reason)

    return Admission(named, source_of, left)


def _why_no_source(dlq: QueueAddress, listed_sources: frozenset[QueueAddress] | None) -> str:
    if listed_sources is None:
        return f"the sources of {dlq.name} are not known"
    # It may be a queue with a consumer by now, and then its messages are no dead letters.
    return f"SQS names no source of {dlq.name}"


def leave_all(records: Iterable[Message | UnreadableRecord], reason: str) -> Admission:
    """Leave every record in the DLQ."""
    records = list(records)
    decision = Failed(NOT_A_MEMBER, reason)
    return Admission(records, left={record.message_id: decision for record in records})


def _naming_only_source(message: Message, listed_sources: frozenset[QueueAddress]) -> Message:
    """Let a message that names no source, because it was sent here, name the only one there is."""
    context = message.history.context
    if message.source_arn or context.source_queue is not None or len(listed_sources) != 1:
        return message
    (source,) = listed_sources
    context = context._replace(source_queue=source.name)
    return message.with_history(message.history._replace(context=context))


def _source(
    message: Message, dlq: QueueAddress, listed_sources: frozenset[QueueAddress]
) -> QueueAddress | None:
    """Return the queue of which SQS says that *message* came from it; None if there is none."""
    arn = message.source_arn
    if arn:
        try:
            return QueueAddress.from_arn(arn)
        except ValueError:
            return None

    name = message.history.context.source_queue
    if name is None:
        return None
    # A DLQ and its sources share account and Region.
    source = QueueAddress(dlq.account_id, name)
    return source if source in listed_sources else None
