"""Checks where every message ended, from outside the product.

The journal records what the functions received. The account adds the contents of queues and archive
at the end.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from demo.messages import DEMO_ID, Content, DemoMessage, from_record
from demo.world import Queue


class Journal:
    """Notes what the functions received, by identity. Thread-safe.

    On FIFO queues it also checks the order of dead letters. The first receive of a copy is its
    position in the message group. Replays must come back in the order in which the copies reached
    the DLQ, and so must redriven messages. There is no order between replays and redriven messages.

    Attributes:
        processing_count: how often each message was processed; above 1 means duplicates.
        replayed: what came back with a higher replay count than it was sent with.
        redriven: what came back by a redrive.
        returned: copies of a redrive that came to the replay function, each counted once.
        altered: what differed from what was sent, or was never sent.
        broken_groups: message groups in which a dead letter overtook another, or changed its group.
    """

    def __init__(self, sent: Mapping[str, DemoMessage]) -> None:
        self.processing_count = Counter[str]()
        self.replayed = set[str]()
        self.redriven = set[str]()
        self.altered = set[str]()
        self.broken_groups = set[str]()
        self.returned = 0
        self._sent = sent
        self._lock = threading.Lock()
        self._copies: set[tuple[str, str]] = set()
        self._dead: dict[str, tuple[int, str]] = {}
        self._last_positions: dict[tuple[str, bool], int] = {}

    def received(self, record: Mapping[str, Any]) -> None:
        """Note a copy that the consumer received."""
        content = from_record(record)
        identity = content.identity
        message = self._sent.get(identity)
        with self._lock:
            if message is None or content.own != message.content.own:
                self.altered.add(identity)
            if message is None:
                return

            if content.replay_count > message.content.replay_count:
                self.replayed.add(identity)
            if content.has_plan:
                self.redriven.add(identity)
            if self._is_first_receive(record):
                self._check_order(identity, _group(record), is_replay=content.replay_count > 0)

    def processed(self, content: Content) -> None:
        """Note that the consumer processed a copy."""
        if content.identity in self._sent:
            with self._lock:
                self.processing_count[content.identity] += 1

    def dead_lettered(self, record: Mapping[str, Any]) -> None:
        """Note a copy that the replay function received."""
        content = from_record(record)
        with self._lock:
            if self._is_first_receive(record):
                # Never the same number twice, because this copy was not counted before.
                self._dead[content.identity] = (len(self._copies), _group(record))
                if content.has_plan and not content.replay_count:
                    self.returned += 1

    def _is_first_receive(self, record: Mapping[str, Any]) -> bool:
        copy = (record["eventSourceARN"], record["messageId"])
        is_first = copy not in self._copies
        self._copies.add(copy)
        return is_first

    def _check_order(self, identity: str, group: str, *, is_replay: bool) -> None:
        if identity not in self._dead:
            return  # its first copy, or a duplicate

        position, group_of_dead_letter = self._dead.pop(identity)
        path = (group_of_dead_letter, is_replay)
        last_position = self._last_positions.get(path, 0)
        self._last_positions[path] = max(position, last_position)

        has_overtaken = position < last_position
        has_changed_group = group != group_of_dead_letter
        if group_of_dead_letter and (has_overtaken or has_changed_group):
            self.broken_groups.add(group_of_dead_letter)


def _group(record: Mapping[str, Any]) -> str:
    return str(record["attributes"].get("MessageGroupId", ""))


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
class Account:
    """The result of the audit: what became of the messages.

    Attributes:
        states: the final state of each sent identity.
        counts: numbers of distinct messages. ``duplicates`` counts processings after the first.
            ``out_of_order`` counts groups, and is there only on FIFO queues.
        faults: a sentence for each promise that does not hold.
    """

    states: Mapping[str, FinalState]
    counts: Mapping[str, int]
    faults: Sequence[str]


def account(
    sent: Mapping[str, DemoMessage],
    journal: Journal,
    left: Mapping[FinalState, Collection[str]],
    *,
    is_viewers: bool = False,
) -> Account:
    """Find the final state of each sent message.

    A message counts as processed even if another copy of it is elsewhere, and as lost only if no
    copy is anywhere.

    *sent* are the messages that SQS confirmed, *left* the identities in queues and archive. What a
    viewer who redrove the messages (*is_viewers*) leaves in the archive, or edits, is no fault.
    """
    states: dict[str, FinalState] = {}
    numbers: dict[FinalState, list[int]] = defaultdict(list)
    for identity, message in sent.items():
        state = _final_state(identity, journal, left)
        states[identity] = state
        numbers[state].append(message.number)

    faults = []
    for state, message_numbers in numbers.items():
        is_unfinished = state not in PROCESSED and not is_viewers
        if state is FinalState.LOST or is_unfinished:
            faults.append(f"{state.value}: message {', '.join(map(str, message_numbers))}.")
    if journal.altered and not is_viewers:
        faults.append(f"altered on the way: {', '.join(sorted(journal.altered))}.")
    if journal.broken_groups:
        groups = ", ".join(sorted(journal.broken_groups))
        faults.append(f"dead letters came back out of order in: {groups}.")

    archived = left[FinalState.ARCHIVED]
    processing_count = journal.processing_count
    counts = {
        "sent": len(states),
        "processed": sum(len(numbers[state]) for state in PROCESSED),
        "replayed": len(journal.replayed),
        "parked": len(sent.keys() & {*archived, *left[FinalState.PARKED]}),
        "redriven": len(journal.redriven.intersection(archived)),
        "lost": len(numbers[FinalState.LOST]),
        "altered": len(journal.altered),
        "duplicates": processing_count.total() - len(processing_count),
    }
    if any(message.group for message in sent.values()):
        counts["out_of_order"] = len(journal.broken_groups)
    return Account(states, counts, faults)


def _final_state(
    identity: str, journal: Journal, left: Mapping[FinalState, Collection[str]]
) -> FinalState:
    if journal.processing_count[identity]:
        if identity in journal.redriven and identity in left[FinalState.ARCHIVED]:
            return FinalState.REDRIVEN
        return FinalState.REPLAYED if identity in journal.replayed else FinalState.AT_ONCE

    for state, identities in left.items():
        if identity in identities:
            return state
    return FinalState.LOST


def read_archive(archive: Path) -> frozenset[str]:
    """Return the identity of every archived copy, without the product's reader."""
    identities = set[str]()
    for path in archive.glob("messages/drain_id=*/*.parquet"):
        table = pq.read_table(path, columns=["attributes"], partitioning=None)
        for entries in table["attributes"].to_pylist():
            attributes = dict(entries or ())
            if DEMO_ID in attributes:
                identities.add(attributes[DEMO_ID]["string_value"])
    return frozenset(identities)


def read_queue(queue: Queue, patience_seconds: float) -> frozenset[str]:
    """Empty *queue*; return the identities of its messages.

    Waits for those that are hidden, at most *patience_seconds*.
    """
    deadline = time.monotonic() + patience_seconds
    identities = set[str]()
    while queue.depth().total and time.monotonic() < deadline:
        for record in queue.receive(WaitTimeSeconds=1):
            identities.add(from_record(record).identity)
            queue.delete(record)
    return frozenset(identities)
