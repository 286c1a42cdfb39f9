"""Records of erased messages: ids, time, actor, reason. They never contain content.

``ledger/erasures/<id>.json`` is written before the first file is changed, so that the next erasure
can complete one that died. When nothing is left of what it names, ``ledger/erasures/<id>.done`` is
written. An expiry needs neither: the next one finds by itself what is left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dlq.archive.ledger.claims import LEDGER
from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import read_record, record_bytes
from dlq.aws.actor import Caller
from dlq.errors import ArchiveError

_FOLDER = f"{LEDGER}/erasures"


@dataclass(frozen=True, slots=True)
class Erasure:
    """One erasure. Its time is ISO 8601, UTC.

    Attributes:
        messages: of each erased message, by id, the drains that had brought it.
        other_ids: of copies that the archive does not hold: the first ones, those that a redrive
            sent, and those that were asked for.
        failure_table: from which the failures of all these copies go; None for none.
    """

    erase_id: str
    who: str
    reason: str
    time: str
    messages: Mapping[str, Sequence[str]]
    caller: Caller = field(default_factory=Caller)
    other_ids: Sequence[str] = ()
    failure_table: str | None = None

    @property
    def ids(self) -> set[str]:
        """The ids of all copies."""
        return {*self.messages, *self.other_ids}

    @property
    def drains(self) -> set[str]:
        """The drains of its messages."""
        return set().union(*self.messages.values())


def record_erasure(archive: Archive, erasure: Erasure) -> None:
    """Write down durably what is about to be erased."""
    path = f"{_FOLDER}/{erasure.erase_id}.json"
    if not archive.create(path, record_bytes(erasure)):
        raise ArchiveError(f"archive {archive.root}: {path} is there already; run again")


def mark_done(archive: Archive, erase_id: str) -> None:
    """Write down that nothing is left of what an erasure named, durably."""
    archive.write(f"{_FOLDER}/{erase_id}.done", b"")


def erasures(archive: Archive, *, unfinished: bool = False) -> list[Erasure]:
    """Read every erasure, the oldest first; with *unfinished* those alone that have not ended."""
    paths = archive.list(_FOLDER)
    existing_paths = set(paths)

    records = []
    for path in paths:
        stem, _, kind = path.rpartition(".")
        if kind != "json" or (unfinished and f"{stem}.done" in existing_paths):
            continue
        erasure = read_record(archive, path, Erasure)
        if erasure is not None:
            records.append(erasure)
    return records
