"""Checks where every message ended, from outside the product.

The journal records what the consumer received. The account adds the contents of queues and archive
at the end.
"""

import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from demo.environment import Queue, depth
from demo.identity import Content, from_archived, from_received

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_HOLD_SECONDS = 300
_PAUSE_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Sighting:
    """The record of one message, from the copies that the consumer received.

    Attributes:
        processed_count: how often it was processed; above 1 means duplicates.
        replay_count: the highest of a copy.
        is_redriven: whether it came back after the operator started a redrive.
        is_altered: whether a copy differed from what was sent.
    """

    processed_count: int = 0
    replay_count: int = 0
    is_redriven: bool = False
    is_altered: bool = False


class Journal:
    """Sightings by identity. Thread-safe.

    *sent* maps each identity to the fingerprint of the sent message.
    """

    def __init__(self, sent: Mapping[str, str]) -> None:
        self._sent = sent
        self._lock = threading.Lock()
        self._sightings: dict[str, Sighting] = {}
        self._strangers: set[str] = set()
        self._redrive_has_begun = False

    def begin_redrive(self) -> None:
        """Note that from now on parked messages may come back."""
        self._redrive_has_begun = True

    def arrived(self, content: Content) -> None:
        """Note a copy that the consumer received."""
        if content.identity not in self._sent:
            with self._lock:
                self._strangers.add(content.identity)
            return
        with self._lock:
            seen = self._sightings.get(content.identity, Sighting())
            self._sightings[content.identity] = replace(
                seen,
                replay_count=max(seen.replay_count, content.replay_count),
                is_redriven=seen.is_redriven
                or content.plan_id is not None
                or self._redrive_has_begun,
                is_altered=seen.is_altered or content.fingerprint != self._sent[content.identity],
            )

    def processed(self, content: Content) -> None:
        """Note that the consumer processed a copy."""
        with self._lock:
            if seen := self._sightings.get(content.identity):
                self._sightings[content.identity] = replace(
                    seen, processed_count=seen.processed_count + 1
                )

    def sightings(self) -> dict[str, Sighting]:
        """Return a copy of the current sightings."""
        with self._lock:
            return dict(self._sightings)

    def strangers(self) -> set[str]:
        """Return identities that were not sent: their messages were altered."""
        with self._lock:
            return set(self._strangers)


class FinalState(StrEnum):
    """The final state of a message; every message has exactly one."""

    AT_ONCE = "processed at once"
    REPLAYED = "failed, then replayed"
    REDRIVEN = "parked, then redriven"
    IN_MAIN = "still in the main queue"
    IN_DLQ = "still in the DLQ"
    PARKED = "still in the parked queue"
    ARCHIVED = "only in the archive"
    LOST = "LOST"


PROCESSED = frozenset({FinalState.AT_ONCE, FinalState.REPLAYED, FinalState.REDRIVEN})


@dataclass(frozen=True, slots=True)
class Evidence:
    """The findings at the end: identities in each place, and the consumer's sightings.

    Attributes:
        out_of_order: message groups whose order was broken; None on standard queues.
    """

    sightings: Mapping[str, Sighting]
    main: Collection[str] = frozenset()
    dlq: Collection[str] = frozenset()
    parked: Collection[str] = frozenset()
    archived: Collection[str] = frozenset()
    strangers: Collection[str] = frozenset()
    out_of_order: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """The final state of each sent identity, and the sets that result from them."""

    states: Mapping[str, FinalState]
    replayed: frozenset[str]
    parked: frozenset[str]
    redriven: frozenset[str]
    altered: frozenset[str]
    duplicates: int
    out_of_order: Collection[str] | None

    def in_state(self, state: FinalState) -> list[str]:
        """Return the identities in *state*, in the order they were sent."""
        return [identity for identity, its_state in self.states.items() if its_state is state]

    @property
    def is_all_well(self) -> bool:
        """Every message was processed, as it was sent, and no group's order was broken."""
        is_intact = not self.altered and not self.out_of_order
        return is_intact and PROCESSED.issuperset(self.states.values())

    def summary(self) -> dict[str, int]:
        """Return numbers of distinct messages.

        ``duplicates`` counts processings after the first. ``out_of_order`` counts groups, and is
        there only on FIFO queues.
        """
        counts = Counter(self.states.values())
        return {
            "sent": len(self.states),
            "processed": sum(counts[state] for state in PROCESSED),
            "replayed": len(self.replayed),
            "parked": len(self.parked),
            "redriven": len(self.redriven),
            "lost": counts[FinalState.LOST],
            "altered": len(self.altered),
            "duplicates": self.duplicates,
            **({} if self.out_of_order is None else {"out_of_order": len(self.out_of_order)}),
        }


def account(sent: Mapping[str, Content], evidence: Evidence) -> Account:
    """Find the final state of each sent message. *sent* maps identities to contents.

    A message counts as processed even if another copy of it is elsewhere, and as lost only if no
    copy is anywhere.
    """
    seen = {identity: evidence.sightings.get(identity, Sighting()) for identity in sent}
    parked = (set(evidence.archived) | set(evidence.parked)) & sent.keys()
    redriven = {i for i, s in seen.items() if s.is_redriven and i in evidence.archived}
    altered = {i for i, s in seen.items() if s.is_altered} | set(evidence.strangers)
    replayed = {i for i, s in seen.items() if s.replay_count > sent[i].replay_count}
    ways = dict.fromkeys(replayed, FinalState.REPLAYED) | dict.fromkeys(
        redriven, FinalState.REDRIVEN
    )
    return Account(
        states={
            i: ways.get(i, FinalState.AT_ONCE) if s.processed_count else _place_of(i, evidence)
            for i, s in seen.items()
        },
        replayed=frozenset(replayed),
        parked=frozenset(parked),
        redriven=frozenset(redriven),
        altered=frozenset(altered),
        duplicates=sum(max(0, s.processed_count - 1) for s in seen.values()),
        out_of_order=evidence.out_of_order,
    )


def _place_of(identity: str, evidence: Evidence) -> FinalState:
    places = (
        (evidence.main, FinalState.IN_MAIN),
        (evidence.dlq, FinalState.IN_DLQ),
        (evidence.parked, FinalState.PARKED),
        (evidence.archived, FinalState.ARCHIVED),
    )
    return next((state for place, state in places if identity in place), FinalState.LOST)


def read_archive(archive: Path) -> Iterator[Content]:
    """Read every archived copy, without the product's reader."""
    for path in sorted(archive.glob("messages/drain_id=*/*.parquet")):
        table = pq.read_table(path, columns=["body", "attributes"], partitioning=None)
        yield from (from_archived(row) for row in table.to_pylist())


def read_queue(client: "SQSClient", queue: Queue, patience_seconds: float) -> Iterator[Content]:
    """Receive every message of *queue*; wait for those that are hidden.

    On FIFO it deletes each message, because a group with a message in flight is blocked. On
    standard queues it deletes nothing. Ends when only messages that it received are left, or after
    *patience_seconds*.
    """
    deadline = time.monotonic() + patience_seconds
    held = 0
    while depth(client, queue).total > held and time.monotonic() < deadline:
        answer = client.receive_message(
            QueueUrl=queue.url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=_HOLD_SECONDS,
            MessageAttributeNames=["All"],
        )
        messages = answer.get("Messages", [])
        if queue.is_fifo:
            for message in messages:
                client.delete_message(QueueUrl=queue.url, ReceiptHandle=message["ReceiptHandle"])
        else:
            held += len(messages)
        yield from (from_received(message) for message in messages)
        if not messages:
            time.sleep(_PAUSE_SECONDS)
