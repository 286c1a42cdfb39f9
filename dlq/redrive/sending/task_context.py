"""The values that are the same for every message that a task sends. Each task carries them."""

from dataclasses import dataclass, field

from dlq.archive.lock import LockView
from dlq.archive.storage.files import ArchiveProof
from dlq.aws.clients import Limit
from dlq.redrive.request import RestoreRequest, SendRequest
from dlq.redrive.resolving.editor import Editor
from dlq_replay.rules.outgoing import redriven_entry, restored_entry
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message, SendEntry


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The facts about a run that the tasks of one step need; they go into each claim.

    Attributes:
        request: what the operator asked for.
        destination: URL of the queue that messages go to.
        editor: makes messages of rows; the copy that it finds too large has no context.
        step: of which step of a ramp the messages are, from 1; 0 outside a ramp.
        unproven_groups: ids of the groups whose messages are parked at their first return.
        proof: each task checks it before its first claim; None in tests.
        lock: the archive lock, which each task observes; None in tests.
        limit: what the circuit breaker allowed when sending to *destination* began.
    """

    request: SendRequest
    plan_id: str
    destination: str
    run_id: str
    who: str
    editor: Editor = field(default_factory=Editor)
    step: int = 0
    unproven_groups: frozenset[str] = frozenset()
    proof: ArchiveProof | None = None
    lock: LockView | None = None
    limit: Limit = field(default_factory=Limit)

    @property
    def is_restore(self) -> bool:
        """True if messages go back to the parked queue, as they were."""
        return isinstance(self.request, RestoreRequest)

    @property
    def to_fifo(self) -> bool:
        """True if the destination keeps the order of message groups."""
        return QueueAddress.from_url(self.destination).is_fifo

    def entry(self, message: Message, group_id: str) -> SendEntry:
        """The copy of *message* to send: a message of the destination, whose dead letter it is."""
        if self.is_restore:
            return restored_entry(message, self.plan_id, to_fifo=self.to_fifo)
        return redriven_entry(
            message,
            self.plan_id,
            QueueAddress.from_url(self.destination),
            group_id=group_id,
            in_step=group_id in self.unproven_groups,
            max_message_bytes=self.editor.max_message_bytes,
        )
