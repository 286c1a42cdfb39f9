"""Dispositions: the outcome of a message in a run, in the ledger, in tables and in answers.

The values are stored, in ledgers and in tables of runs: they never change.
"""

from enum import Enum, StrEnum, auto
from typing import Self


class Kind(Enum):
    """Meaning of a disposition for the run."""

    WORK = auto()  # the run acts on it
    DONE = auto()  # confirmed, and recorded in the ledger: the message needs no decision any more
    BEFORE = auto()  # done by an earlier run
    LEFT = auto()  # left, as the plan or the operator said
    REFUSED = auto()  # left although the plan wants it: a rule forbids it; a person must see it
    UNFINISHED = auto()  # the run should have done it and could not; another run may
    HALTED = auto()  # left because its group is halted: too much of a step failed again


class Disposition(StrEnum):
    """The outcome of a message: the action, or the reason why a run did nothing."""

    kind: Kind

    def __new__(cls, value: str, *kind: Kind) -> Self:
        """Make a member with exactly one kind.

        A tuple, so that mypy takes ``Disposition(value)``, the member of a stored value.
        """
        member = str.__new__(cls, value)
        member._value_ = value
        (member.kind,) = kind
        return member

    SEND = "send", Kind.WORK
    DISCARD = "discard", Kind.WORK
    SENT = "sent", Kind.DONE
    DISCARDED = "discarded", Kind.DONE
    RESTORED = "restored", Kind.DONE
    SENT_BEFORE = "sent_before", Kind.BEFORE
    DISCARDED_BEFORE = "discarded_before", Kind.BEFORE
    RESTORED_BEFORE = "restored_before", Kind.BEFORE
    LEAVE = "leave", Kind.LEFT
    NOT_SELECTED = "not_selected", Kind.LEFT
    OVER_LIMIT = "over_limit", Kind.LEFT
    OTHER_PARKED_QUEUE = "other_parked_queue", Kind.REFUSED
    FOREIGN = "foreign_source", Kind.REFUSED
    UNKNOWN_SOURCE = "unknown_source", Kind.REFUSED
    NO_ROOM = "no_room", Kind.REFUSED
    NO_GROUP = "no_group", Kind.REFUSED
    SPLIT_GROUP = "split_group", Kind.REFUSED
    EDIT_FAILED = "edit_failed", Kind.REFUSED
    UNCONFIRMED = "unconfirmed", Kind.UNFINISHED
    IN_PROGRESS = "in_progress", Kind.UNFINISHED
    WAITS = "waits", Kind.UNFINISHED
    FAILED = "failed", Kind.UNFINISHED
    NOT_REACHED = "not_reached", Kind.UNFINISHED
    HALTED = "halted", Kind.HALTED

    @classmethod
    def of(cls, *kinds: Kind) -> tuple[Self, ...]:
        """Return the members of these kinds, in their order here."""
        return tuple(disposition for disposition in cls if disposition.kind in kinds)

    @property
    def is_problem(self) -> bool:
        """True if the plan wants the message settled, and the run did not settle it."""
        return self.kind in (Kind.REFUSED, Kind.UNFINISHED)

    @property
    def is_unfinished(self) -> bool:
        """True if a run that ends with it is incomplete: exit code 4."""
        return self.kind is Kind.UNFINISHED or self is Disposition.EDIT_FAILED

    @property
    def blocks_group(self) -> bool:
        """True if later messages of the same FIFO message group wait behind it."""
        return self.kind not in (Kind.WORK, Kind.DONE, Kind.BEFORE)


WORK = Disposition.of(Kind.WORK)
DECIDED = Disposition.of(Kind.DONE)
"""A message with one of these in the ledger needs no decision any more."""

BEFORE = {
    Disposition.SENT: Disposition.SENT_BEFORE,
    Disposition.DISCARDED: Disposition.DISCARDED_BEFORE,
    Disposition.RESTORED: Disposition.RESTORED_BEFORE,
}
"""The name of an earlier run's outcome in a later run."""
