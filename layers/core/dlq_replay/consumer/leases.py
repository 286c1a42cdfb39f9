"""The leases of all messages of one heartbeat: what to extend now, what is lost. No I/O.

Not safe to share between threads by itself; its owner has a lock.
"""

from collections.abc import Iterable, Sequence

from dlq_replay.consumer.lease import Extension, Lease
from dlq_replay.consumer.rhythm import Rhythm
from dlq_replay.consumer.visibility import Change, Verdict

_EARLY_SHARE_OF_INTERVAL = 0.1
"""What is due this soon goes along, so that the messages of a batch stay together."""

_LOOKS_PER_INTERVAL = 4
"""A look finds out after a sleep of the machine that time has passed; it costs no request."""


class Leases:
    """The messages that are hidden, by id; only the latest receive of each counts.

    Most are *watched*: their loss is reported. Of those that are finished nobody wants to know
    more; they are only kept hidden, and a loss ends that.
    """

    def __init__(self, rhythm: Rhythm) -> None:
        self.rhythm = rhythm
        self._watched: dict[str, Lease] = {}
        self._finished: dict[str, Lease] = {}
        self._unreported: list[Lease] = []

    def __len__(self) -> int:
        return len(self._watched)

    def get(self, message_id: str) -> Lease | None:
        """The lease of a watched message."""
        return self._watched.get(message_id)

    def all(self) -> Sequence[Lease]:
        """Every watched message's lease, in the order in which they were added."""
        return list(self._watched.values())

    def add(self, message_id: str, receipt_handle: str, received_at: float) -> None:
        """Watch a receive, in place of an earlier one of the same message."""
        self._watched[message_id] = Lease.received(
            message_id, receipt_handle, self.rhythm, received_at
        )

    def remove(self, message_id: str) -> Lease | None:
        """Hide a watched message no longer."""
        return self._watched.pop(message_id, None)

    def finish(self, message_id: str) -> None:
        """Go on hiding a watched message, but watch it no longer."""
        lease = self._watched.pop(message_id, None)
        if lease and not lease.loss:
            self._finished[message_id] = lease

    def due(self, now: float) -> list[str]:
        """Ids of what is to be extended now, the most urgent first."""
        horizon = now + self.rhythm.interval_seconds * _EARLY_SHARE_OF_INTERVAL
        due = [one for one in self._alive() if one.extend_at <= horizon]
        return [one.message_id for one in sorted(due, key=lambda one: one.hidden_until)]

    def extensions(self, message_ids: Iterable[str], now: float) -> list[Extension]:
        """What to ask of SQS for these, as far as they are still hidden by us."""
        leases = (self._find(message_id) for message_id in message_ids)
        asked = (lease.extension(now) for lease in leases if lease)
        return [extension for extension in asked if extension]

    def settle(self, extension: Extension, change: Change, answered_at: float) -> None:
        """Take in SQS's answer; one for an older receive changes nothing."""
        lease = self._find(extension.message_id)
        if lease is None or lease.receipt_handle != extension.receipt_handle:
            return
        match change.verdict:
            case Verdict.CONFIRMED:
                self._put(lease.confirmed(extension, answered_at))
            case Verdict.REFUSED:
                self._put(lease.refused(change.code))
            case Verdict.FAILED:
                self._put(lease.failed(extension, answered_at, change.code))

    def expire(self, now: float) -> None:
        """Mark as lost what its time has run out on."""
        for lease in [*self._watched.values(), *self._finished.values()]:
            self._put(lease.aged(now))

    def take_unreported(self) -> list[Lease]:
        """What was lost since the last call."""
        unreported, self._unreported = self._unreported, []
        return unreported

    def seconds_to_next_look(self, now: float) -> float:
        """How long nothing has to be done."""
        moments = (min(one.extend_at, one.hidden_until) for one in self._alive())
        longest = self.rhythm.interval_seconds / _LOOKS_PER_INTERVAL
        return max(0.0, min(min(moments, default=now + longest) - now, longest))

    def _find(self, message_id: str) -> Lease | None:
        return self._watched.get(message_id) or self._finished.get(message_id)

    def _alive(self) -> list[Lease]:
        watched = [one for one in self._watched.values() if not one.loss]
        return [*watched, *self._finished.values()]

    def _put(self, lease: Lease) -> None:
        before = self._watched.get(lease.message_id)
        if before is not None:
            self._watched[lease.message_id] = lease
            if lease.loss and not before.loss:
                self._unreported.append(lease)
        elif lease.loss:
            del self._finished[lease.message_id]
        else:
            self._finished[lease.message_id] = lease
