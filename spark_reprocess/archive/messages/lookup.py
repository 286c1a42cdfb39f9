"""Find messages in an archive, without Spark: single ones by their ids, and those of a group.

Message ids are random, so the files' statistics exclude none: the tables of plans say which files
to open. Of a file that does not have the message only two columns are read.
"""

import pickle
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from spark_reprocess.archive.ledger.claims import Attempt
from spark_reprocess.archive.ledger.open_set import stored_open_set, time_before
from spark_reprocess.archive.ledger.run_results import ResultFile, ledger_files, read_results
from spark_reprocess.archive.messages.dead_letter_schema import Row
from spark_reprocess.archive.messages.message_index import Member, files_with
from spark_reprocess.archive.messages.message_store import drain_of, rows_by_file
from spark_reprocess.archive.storage.files import Archive


def find_rows(archive: Archive, ids: Collection[str]) -> list[Row]:
    """Return every row whose message id or first id is one of *ids*, with its ``drain_id``.

    The oldest drain comes first. Values are as Arrow returns them.
    """
    keys = ("message_id", "first_id")
    found = rows_by_file(archive, files_with(archive, ids), ids=ids, keys=keys)
    return [{**row, "drain_id": drain_of(path)} for path, rows in found for row in rows.to_pylist()]


def member_rows(archive: Archive, members: Sequence[Member]) -> Iterator[Row]:
    """Yield the row of each of *members*, in their order. Of what was erased there is none.

    Each file is read once, and one at a time. An unnamed temporary file holds the rows until it is
    their turn, so memory does not grow with the number of messages.
    """
    wanted = defaultdict[str, list[str]](list)
    for member in members:
        wanted[member.file].append(member.message_id)
    places = dict[str, int]()
    with tempfile.TemporaryFile() as held:
        for file, ids in wanted.items():
            for _, rows in rows_by_file(archive, [file], ids=ids):
                for row in rows.to_pylist():
                    if row["message_id"] not in places:
                        places[row["message_id"]] = held.tell()
                        pickle.dump(row, held)
        for member in members:
            if (place := places.get(member.message_id)) is not None:
                held.seek(place)
                yield pickle.load(held)  # noqa: S301 - this function wrote it


def find_attempts(
    archive: Archive, message_ids: Collection[str], drain_ids: Collection[str] = ()
) -> list[Attempt]:
    """Return every attempt of any plan that claimed one of these messages, the oldest first.

    *drain_ids* are the drains that brought them, if they are known: older results are not read.
    """
    wanted = set(message_ids)
    found = [
        attempt
        for attempt in _attempts(archive, "message_id", wanted, time_before(*drain_ids))
        if not wanted.isdisjoint(attempt.claim.message_ids)
    ]
    return sorted(found, key=lambda one: one.claim.time)


def _attempts(
    archive: Archive, field: str, ids: Collection[str], since: str = ""
) -> Iterator[Attempt]:
    """Yield those of the attempts with such a *field* that result files have, and all others."""
    paths, attempts = ledger_files(archive)
    if since:
        paths = stored_open_set(archive).newer(paths, since)

    def read(file: ResultFile) -> list[Attempt]:
        return list(file.attempts_with(field, ids))

    for found in read_results(archive, paths, read):
        yield from found
    yield from attempts


def find_sender(archive: Archive, new_message_id: str) -> str | None:
    """Return the id of the archived message that a redrive sent as that copy, None if none did."""
    attempts = _attempts(archive, "new_message_id", [new_message_id])
    results = (result for attempt in attempts for result in attempt.results or ())
    return next((one.message_id for one in results if one.new_message_id == new_message_id), None)


def sent_copies(archive: Archive, message_ids: Collection[str]) -> set[str]:
    """Return the ids of the copies that redrives and restores sent of these messages."""
    wanted = set(message_ids)
    found = find_attempts(archive, wanted)
    results = (result for one in found for result in one.results or ())
    return {r.new_message_id for r in results if r.message_id in wanted and r.new_message_id}
