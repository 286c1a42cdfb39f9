"""What becomes of a message in a run: in the ledger, in tables and in answers.

The values are stored, in ledgers and in tables of runs: they never change.
"""

from enum import Enum, StrEnum, auto
from typing import Self


class Kind(Enum):
    """What a disposition means for the run."""

    WORK = auto()
    """The run acts on it."""

    DONE = auto()
    """Confirmed, and recorded in the ledger: the message needs no decision any more."""

    BEFORE = auto()
    """Done by an earlier run."""

    LEFT = auto()
    """Left, as the plan or the operator said."""

    REFUSED = auto()
    """Left although the plan wants it: a rule forbids it. A person must see it."""

    UNFINISHED = auto()
    """The run should have done it and could not. Another run may."""

    STOPPED = auto()
    """Left because the canary of its group did not pass."""


class Disposition(StrEnum):
    """What a run does with a message, what it did, or why it did nothing."""

    SEND = "send"
    DISCARD = "discard"
    SENT = "sent"
    DISCARDED = "discarded"
    RESTORED = "restored"
    SENT_BEFORE = "sent_before"
    DISCARDED_BEFORE = "discarded_before"
    RESTORED_BEFORE = "restored_before"
    LEAVE = "leave"
    NOT_SELECTED = "not_selected"
    OVER_LIMIT = "over_limit"
    OTHER_PARKED_QUEUE = "other_parked_queue"
    FOREIGN = "foreign_source"
    UNKNOWN_SOURCE = "unknown_source"
    NO_ROOM = "no_room"
    NO_GROUP = "no_group"
    SPLIT_GROUP = "split_group"
    EDIT_FAILED = "edit_failed"
    NOT_REHEARSED = "not_rehearsed"
    WOULD_FAIL = "would_fail"
    REHEARSAL_UNKNOWN = "rehearsal_unknown"
    IN_DOUBT = "in_doubt"
    BUSY = "busy"
    WAITS = "waits"
    FAILED = "failed"
    NOT_REACHED = "not_reached"
    STOPPED = "stopped_by_canary"

    @classmethod
    def of(cls, *kinds: Kind) -> tuple[Self, ...]:
        """Return the members of these kinds, in their order here."""
        return tuple(one for one in cls if one.kind in kinds)

    @property
    def kind(self) -> Kind:
        """What it means for the run."""
        return _KINDS[self]

    @property
    def is_problem(self) -> bool:
        """Whether it stands in the way of a message that the plan wants settled."""
        return self.kind in (Kind.REFUSED, Kind.UNFINISHED)

    @property
    def is_unfinished(self) -> bool:
        """Whether a run that ends with it is not done: exit code 4."""
        return self.kind is Kind.UNFINISHED or self is Disposition.EDIT_FAILED

    @property
    def blocks_group(self) -> bool:
        """Whether later messages of the same FIFO message group wait behind it."""
        return self.kind not in (Kind.WORK, Kind.DONE, Kind.BEFORE)


_KINDS = {
    Disposition.SEND: Kind.WORK,
    Disposition.DISCARD: Kind.WORK,
    Disposition.SENT: Kind.DONE,
    Disposition.DISCARDED: Kind.DONE,
    Disposition.RESTORED: Kind.DONE,
    Disposition.SENT_BEFORE: Kind.BEFORE,
    Disposition.DISCARDED_BEFORE: Kind.BEFORE,
    Disposition.RESTORED_BEFORE: Kind.BEFORE,
    Disposition.LEAVE: Kind.LEFT,
    Disposition.NOT_SELECTED: Kind.LEFT,
    Disposition.OVER_LIMIT: Kind.LEFT,
    Disposition.OTHER_PARKED_QUEUE: Kind.REFUSED,
    Disposition.FOREIGN: Kind.REFUSED,
    Disposition.UNKNOWN_SOURCE: Kind.REFUSED,
    Disposition.NO_ROOM: Kind.REFUSED,
    Disposition.NO_GROUP: Kind.REFUSED,
    Disposition.SPLIT_GROUP: Kind.REFUSED,
    Disposition.EDIT_FAILED: Kind.REFUSED,
    Disposition.NOT_REHEARSED: Kind.REFUSED,
    Disposition.WOULD_FAIL: Kind.REFUSED,
    Disposition.REHEARSAL_UNKNOWN: Kind.REFUSED,
    Disposition.IN_DOUBT: Kind.UNFINISHED,
    Disposition.BUSY: Kind.UNFINISHED,
    Disposition.WAITS: Kind.UNFINISHED,
    Disposition.FAILED: Kind.UNFINISHED,
    Disposition.NOT_REACHED: Kind.UNFINISHED,
    Disposition.STOPPED: Kind.STOPPED,
}

WORK = Disposition.of(Kind.WORK)
DECIDED = Disposition.of(Kind.DONE)
"""A message whose ledger says this needs no decision any more."""

BEFORE = {
    Disposition.SENT: Disposition.SENT_BEFORE,
    Disposition.DISCARDED: Disposition.DISCARDED_BEFORE,
    Disposition.RESTORED: Disposition.RESTORED_BEFORE,
}
"""What an earlier run's outcome is called in a later run."""
