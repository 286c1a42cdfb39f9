"""The use case for many DLQs: a batch of one of them, replayed by the rules of its own sources.

A *fleet* is all queues that carry the stack's tag, its *members*: DLQs and their sources.
``rules.membership`` decides where messages may go; ``replay`` does the rest.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from dlq_replay.replaying.replay import BatchOutcome, Replayer
from dlq_replay.rules.membership import Admission, admit, leave_all, needs_listed_sources
from dlq_replay.rules.policy import Attributes, QueueLimits, ReplayPolicy
from dlq_replay.settings import FleetSettings
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message, UnreadableRecord

NO_PARKED_QUEUE = "there is no FIFO parked queue"


class Directory(Protocol):
    """Answers for the queues of a fleet; ``fleet_directory.FleetDirectory`` is one.

    Threads ask for different DLQs at once.
    """

    def members(self) -> frozenset[QueueAddress]:
        """Return the queues with the tag, as of the last few minutes.

        Raises QueueError where no list could ever be read.
        """

    def sources(self, dlq: QueueAddress) -> frozenset[QueueAddress] | None:
        """Return the queues whose dead letters go to *dlq*; None where SQS does not say."""

    def describe(
        self, queues: Collection[QueueAddress]
    ) -> tuple[Mapping[QueueAddress, Attributes], Mapping[QueueAddress, str]]:
        """Return the attributes of queues; and for each queue without an answer, why."""


class FleetBatch(NamedTuple):
    """A batch after it was replayed, and the policy that it was replayed by."""

    outcome: BatchOutcome
    policy: ReplayPolicy


@dataclass(frozen=True, slots=True)
class Fleet:
    """Replays batches of the member DLQs.

    Attributes:
        make_replayer: makes the use case between a DLQ, its parked queue's URL and the sources of a
            policy. What it keeps of a DLQ is not safe to share between threads, so only one thread
            at a time may replay a batch of one DLQ.
        visibility_seconds: how long a received message is hidden, where the receive says so; None
            where the DLQ's own timeout holds.
    """

    settings: FleetSettings
    directory: Directory
    make_replayer: Callable[[QueueAddress, str, ReplayPolicy], Replayer]
    visibility_seconds: int | None = None

    def replay(
        self,
        dlq: QueueAddress,
        records: Sequence[Message | UnreadableRecord],
        seconds_left: Callable[[], float],
    ) -> FleetBatch:
        """Decide and act on each record of a batch of *dlq*, as ``Replayer.replay`` does.

        Raises:
            QueueError: nobody could ever say which queues are members. Nothing was sent.
        """
        parked_queue_url = self.settings.parked_queue_url_for(dlq)
        if parked_queue_url is None:
            parked_queue_url = self.settings.parked_queue_url
            admission = leave_all(records, NO_PARKED_QUEUE)
        else:
            admission = self._admit(dlq, records)

        described = [*admission.sources, dlq, QueueAddress.from_url(parked_queue_url)]
        attributes, faults = self.directory.describe(described)
        admission = admission.without(faults)
        policy = self._policy(dlq, admission, attributes, parked_queue_url)

        replayer = self.make_replayer(dlq, parked_queue_url, policy)
        outcome = replayer.replay(admission.records, seconds_left, admission.left)
        return FleetBatch(outcome, policy)

    def _admit(self, dlq: QueueAddress, records: Sequence[Message | UnreadableRecord]) -> Admission:
        members = self.directory.members()
        listed_sources: frozenset[QueueAddress] | None = frozenset()
        if needs_listed_sources(records):
            listed_sources = self.directory.sources(dlq)
        return admit(records, dlq, members, listed_sources)

    def _policy(
        self,
        dlq: QueueAddress,
        admission: Admission,
        attributes: Mapping[QueueAddress, Attributes],
        parked_queue_url: str,
    ) -> ReplayPolicy:
        of_dlq = attributes.get(dlq, {})
        of_parked = attributes.get(QueueAddress.from_url(parked_queue_url), {})
        limits_of: dict[QueueAddress, QueueLimits] = {}
        for source in admission.sources:
            limits_of[source] = self._limits(attributes[source], of_dlq, of_parked)
        limits = self._limits({}, of_dlq, of_parked)
        return admission.policy(self.settings.policy, dlq, limits, limits_of)

    def _limits(self, main: Attributes, dlq: Attributes, parked: Attributes) -> QueueLimits:
        limits = QueueLimits.of(main, dlq, parked)
        if self.visibility_seconds is None:
            return limits
        return replace(limits, dlq_visibility_seconds=self.visibility_seconds)
