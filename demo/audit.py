"""Where every message ended, told from what can be seen outside the product."""

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from demo.identity import Content, from_archived, from_received
from demo.journal import Sighting
from demo.world import Queue, depth

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_HOLD_SECONDS = 300
_PAUSE_SECONDS = 0.3


class Fate(StrEnum):
    """How a message fared; every message has exactly one."""

    AT_ONCE = "processed at once"
    REPLAYED = "failed, then replayed"
    REDRIVEN = "parked, then redriven"
    IN_MAIN = "still in the main queue"
    IN_DLQ = "still in the DLQ"
    PARKED = "still in the parked queue"
    ARCHIVED = "only in the archive"
    LOST = "LOST"


PROCESSED = frozenset({Fate.AT_ONCE, Fate.REPLAYED, Fate.REDRIVEN})


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was found at the end: identities seen in each place, and the consumer's sightings.

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
    """The fate of each sent identity, and what follows from it; ``out_of_order`` as found."""

    fates: Mapping[str, Fate]
    replayed: frozenset[str]
    parked: frozenset[str]
    redriven: frozenset[str]
    altered: frozenset[str]
    duplicates: int
    out_of_order: Collection[str] | None

    def of_fate(self, fate: Fate) -> list[str]:
        """The identities that fared so, in the order they were sent."""
        return [identity for identity, its_fate in self.fates.items() if its_fate is fate]

    @property
    def is_all_well(self) -> bool:
        """Every message was processed, as it was sent, and no group's order was broken."""
        is_intact = not self.altered and not self.out_of_order
        return is_intact and PROCESSED.issuperset(self.fates.values())

    def summary(self) -> dict[str, int]:
        """Numbers of distinct messages; ``duplicates`` are processings beyond the first.

        ``out_of_order`` counts groups, and stands there only where there is an order to keep.
        """
        counts = Counter(self.fates.values())
        return {
            "sent": len(self.fates),
            "processed": sum(counts[fate] for fate in PROCESSED),
            "replayed": len(self.replayed),
            "parked": len(self.parked),
            "redriven": len(self.redriven),
            "lost": counts[Fate.LOST],
            "altered": len(self.altered),
            "duplicates": self.duplicates,
            **({} if self.out_of_order is None else {"out_of_order": len(self.out_of_order)}),
        }


def account(sent: Mapping[str, Content], evidence: Evidence) -> Account:
    """Find each sent message's fate. *sent* maps identities to what was sent.

    A message counts as processed wherever else a copy of it may lie; as lost only where no copy
    is anywhere.
    """
    seen = {identity: evidence.sightings.get(identity, Sighting()) for identity in sent}
    parked = (set(evidence.archived) | set(evidence.parked)) & sent.keys()
    redriven = {i for i, s in seen.items() if s.is_redriven and i in evidence.archived}
    altered = {i for i, s in seen.items() if s.is_altered} | set(evidence.strangers)
    replayed = {i for i, s in seen.items() if s.replay_count > sent[i].replay_count}
    ways = dict.fromkeys(replayed, Fate.REPLAYED) | dict.fromkeys(redriven, Fate.REDRIVEN)
    return Account(
        fates={
            i: ways.get(i, Fate.AT_ONCE) if s.processed_count else _resting_place(i, evidence)
            for i, s in seen.items()
        },
        replayed=frozenset(replayed),
        parked=frozenset(parked),
        redriven=frozenset(redriven),
        altered=frozenset(altered),
        duplicates=sum(max(0, s.processed_count - 1) for s in seen.values()),
        out_of_order=evidence.out_of_order,
    )


def _resting_place(identity: str, evidence: Evidence) -> Fate:
    places = (
        (evidence.main, Fate.IN_MAIN),
        (evidence.dlq, Fate.IN_DLQ),
        (evidence.parked, Fate.PARKED),
        (evidence.archived, Fate.ARCHIVED),
    )
    return next((fate for place, fate in places if identity in place), Fate.LOST)


def read_archive(archive: Path) -> Iterator[Content]:
    """Read every archived copy, without the product's reader."""
    for path in sorted(archive.glob("messages/drain_id=*/*.parquet")):
        table = pq.read_table(path, columns=["body", "attributes"], partitioning=None)
        yield from (from_archived(row) for row in table.to_pylist())


def read_queue(client: "SQSClient", queue: Queue, patience_seconds: float) -> Iterator[Content]:
    """Receive every message that *queue* holds, waiting for those that are hidden.

    On FIFO it deletes what it read, for a group gives out nothing more while a part is in flight;
    on standard queues nothing. Ends when only what was received here is left, or patience does.
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
