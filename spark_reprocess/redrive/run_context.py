"""What is the same for every message of a run. Each task carries it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dlq_replay.message import Message, SendEntry
from dlq_replay.outgoing import canary_entry, has_room_for_canary, redriven_entry, restored_entry
from dlq_replay.policy import MAX_MESSAGE_BYTES
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import Probe
from spark_reprocess.archive.plan_lock import LOCK_SECONDS, LockHolder, LockView
from spark_reprocess.editing.edit import Edit
from spark_reprocess.redrive.editor import Editor


@dataclass(frozen=True, slots=True)
class RunContext:
    """What is the same for every chunk of a run; goes into each claim.

    Attributes:
        claim_ttl_seconds: how long a claim counts as busy.
        send_in_doubt: whether messages in doubt are sent again.
        max_message_bytes: the destination's limit.
        room_bytes: the smallest limit of the queues that a copy passes before it is parked again:
            what does not fit there loses its context on the way.
        edits: how messages are changed on their way, by group id.
        max_rate: messages a second over all tasks, None for no limit.
        is_canary: whether messages go ahead, to come back at once where they fail.
        requires_room: whether a message that cannot carry the plan's id is left.
        is_restore: whether messages go back to the parked queue, as they are.
        cut_from: a digest of what the chunks are cut from. Claims that mean other chunks by the
            same numbers are none of each other's.
        policy_sha256: of the policy that filled in the plan's actions, in hex; None without one.
        probe: each task checks it before its first claim; None in a dry run.
        lock: the plan lock, which each task observes; None in a dry run.
        pace: path of the file in which the driver says how fast tasks may send; None for no limit.
    """

    run_id: str
    plan_id: str
    who: str
    reason: str
    destination: str
    to_fifo: bool
    claim_ttl_seconds: float
    send_in_doubt: bool
    keep_counter: bool
    max_message_bytes: int
    edits: Mapping[str, Edit] = field(default_factory=dict)
    max_rate: float | None = None
    room_bytes: int = MAX_MESSAGE_BYTES
    is_canary: bool = False
    requires_room: bool = False
    is_restore: bool = False
    cut_from: str = ""
    policy_sha256: str | None = None
    probe: Probe | None = None
    lock: LockView | None = None
    pace: str | None = None

    @property
    def lock_seconds(self) -> float:
        """The life of the plan lock: no longer than that of a claim."""
        return min(LOCK_SECONDS, self.claim_ttl_seconds)

    @property
    def editor(self) -> Editor:
        """What makes messages of rows."""
        return Editor(self.edits, self.plan_id, self.keep_counter, self.max_message_bytes)

    def entry(self, message: Message) -> SendEntry:
        """The copy of *message* to send; ask ``has_room`` first."""
        if self.is_restore:
            return restored_entry(message, self.plan_id, to_fifo=self.to_fifo)
        if self.is_canary:
            return canary_entry(message, self.plan_id, to_fifo=self.to_fifo)
        return redriven_entry(
            message,
            self.plan_id,
            to_fifo=self.to_fifo,
            keep_counter=self.keep_counter,
            max_message_bytes=self.max_message_bytes,
        )

    @property
    def lock_holder(self) -> LockHolder:
        """Who holds the plan lock for this run."""
        claims = f"{self.plan_id} {self.cut_from}"
        return LockHolder(self.run_id, claims, f"plan {self.plan_id}", self.who)

    @property
    def confirmed(self) -> Disposition:
        """What the ledger calls a message that SQS confirmed."""
        return Disposition.RESTORED if self.is_restore else Disposition.SENT

    def has_room(self, message: Message) -> bool:
        """Whether the copy can carry what it must; others can do without our attributes."""
        if not self.is_canary and not self.requires_room:
            return True
        return has_room_for_canary(message, self.plan_id, self.room_bytes)
