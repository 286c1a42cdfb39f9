"""What rehearsals found: ``rehearsals/<plan id>/<group id>/<rehearsal id>.json`` and ``.parquet``.

The Parquet file has one row for each message: its id, the verdict, and why. The JSON file says what
was rehearsed, when and by whom. It is written last, by create-if-absent, so a rehearsal is there as
a whole or not at all; neither file is changed. Texts are masked, and no body is kept.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_reprocess.archive.files import (
    RECORD_DAMAGE,
    Archive,
    damage_named,
    known_values,
    new_id,
    read_json,
)
from spark_reprocess.archive.table_parts import PARQUET_DAMAGE
from spark_reprocess.errors import ArchiveError

REHEARSALS = "rehearsals"
_VERSION = 1
_ADVICE = "take it away, and rehearse again"


class Verdict(StrEnum):
    """What a rehearsal says of one message. The values are stored: they never change."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MessageVerdict:
    """The verdict on one message.

    Attributes:
        reason: why it is not ``pass``, masked; empty where it is.
        is_new_kind: whether it fails with another failure than the one of its group.
    """

    message_id: str
    verdict: Verdict
    reason: str = ""
    is_new_kind: bool = False


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A finished rehearsal of a group.

    Attributes:
        handler: as the operator named it.
        code: digest of the folder with the code, or the image's id.
        edit: digest of the plan's edit of the group; empty without one.
        time: when it ended; ISO 8601, UTC.
        counts: messages by verdict.
        recorded: how often each operation would have been called that writes.
        is_isolated: whether the handler could reach no network.
        python: the version that ran the handler.
        sha256: of the Parquet file, in hex.
    """

    rehearsal_id: str
    plan_id: str
    group_id: str
    handler: str
    code: str
    edit: str
    who: str
    time: str
    counts: Mapping[str, int]
    recorded: Mapping[str, int] = field(default_factory=dict)
    is_isolated: bool = True
    python: str = ""
    sha256: str = ""


def new_rehearsal_id(archive: Archive, plan_id: str, group_id: str, now_seconds: float) -> str:
    """Make the id of a rehearsal that is newer than all others of the group in the plan."""
    return new_id(now_seconds, archive.list(_folder(plan_id, group_id)))


def write_rehearsal(
    archive: Archive, rehearsal: Rehearsal, verdicts: Sequence[MessageVerdict]
) -> Rehearsal:
    """Write a finished rehearsal durably; return it as it is stored.

    Raises:
        ArchiveError: it cannot be written. To rehearse again is harmless.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([_row(one) for one in verdicts], _SCHEMA), sink)
    content = sink.getvalue().to_pybytes()
    stored = replace(rehearsal, sha256=sha256(content).hexdigest())
    stem = _stem(stored)
    fields = {name: value for name, value in asdict(stored).items() if name not in _IN_PATH}
    head = json.dumps({"version": _VERSION, **fields}, indent=1).encode()
    # In this order: what has a head is finished.
    for path, written in ((f"{stem}.parquet", content), (f"{stem}.json", head)):
        if not archive.create(path, written):
            raise ArchiveError(f"archive {archive.root}: {path} was there; rehearse again")
    return stored


def newest_rehearsal(
    archive: Archive, plan_id: str, group_id: str, edit: str | None = None
) -> Rehearsal | None:
    """Return the last finished rehearsal of a group in a plan, None where there is none.

    Args:
        archive: where it is.
        plan_id: of the plan.
        group_id: of the group.
        edit: digest of the edit that it must have been made with, empty for none; None for any.

    Raises:
        ArchiveError: one cannot be read, or a newer version of this program wrote it.
    """
    for path in _heads(archive, _folder(plan_id, group_id)):
        found = _read(archive, path)
        if edit is None or found.edit == edit:
            return found
    return None


def read_verdicts(archive: Archive, rehearsal: Rehearsal) -> pa.Table:
    """Return the columns ``message_id, verdict, reason, is_new_kind``, one row a message.

    Raises:
        ArchiveError: the file is missing, or somebody changed it.
    """
    path = f"{_stem(rehearsal)}.parquet"
    content = archive.read(path)
    if content is None or sha256(content).hexdigest() != rehearsal.sha256:
        raise ArchiveError(f"archive {archive.root}: {path} is missing or was changed: {_ADVICE}")
    with damage_named(archive, path, PARQUET_DAMAGE, _ADVICE):
        return pq.read_table(pa.BufferReader(content), columns=_SCHEMA.names)


def remove_verdicts(archive: Archive, message_ids: Collection[str]) -> int:
    """Remove every rehearsal that has a verdict on one of these messages; return how many.

    A failure's text may quote its message. The rest of such a rehearsal is made again in minutes.

    Raises:
        ArchiveError: one of them is still there.
    """
    if not message_ids:
        return 0
    wanted, stems = pa.array(sorted(message_ids), pa.string()), set[str]()
    files = {*archive.list(REHEARSALS), *archive.outdated(REHEARSALS)}
    for path in sorted(one for one in files if one.endswith(".parquet")):
        contents = [archive.read(path), *archive.outdated_contents(path)]
        if any(one is not None and _names(one, wanted) for one in contents):
            stems.add(path.removesuffix(".parquet"))
    for stem in sorted(stems):
        # A head without its verdicts would stop every redrive that wants them.
        archive.remove(f"{stem}.json")
        archive.remove(f"{stem}.parquet")
    return len(stems)


_TYPES: dict[str, pa.DataType] = {
    "message_id": pa.string(),
    "verdict": pa.string(),
    "reason": pa.string(),
    "is_new_kind": pa.bool_(),
}
_SCHEMA = pa.schema(_TYPES)
_IN_PATH = ("rehearsal_id", "plan_id", "group_id")


def _row(one: MessageVerdict) -> dict[str, object]:
    return {**asdict(one), "verdict": one.verdict.value}


def _folder(plan_id: str, group_id: str) -> str:
    return f"{REHEARSALS}/{plan_id}/{group_id}"


def _stem(one: Rehearsal) -> str:
    return f"{_folder(one.plan_id, one.group_id)}/{one.rehearsal_id}"


def _heads(archive: Archive, folder: str) -> Iterator[str]:
    """Yield the heads of finished rehearsals, the newest first: its id is the greatest."""
    yield from sorted((p for p in archive.list(folder) if p.endswith(".json")), reverse=True)


def _read(archive: Archive, path: str) -> Rehearsal:
    plan_id, group_id, name = path.split("/")[1:]
    with damage_named(archive, path, RECORD_DAMAGE, _ADVICE):
        raw = read_json(archive, path, archive.read(path))
        in_path = dict(zip(_IN_PATH, (name.removesuffix(".json"), plan_id, group_id), strict=True))
        return Rehearsal(**{**known_values(Rehearsal, raw), **in_path})


def _names(content: bytes, message_ids: "pa.Array[Any]") -> bool:
    """Whether a file of verdicts has one of these messages, or cannot be read."""
    try:
        found = pq.read_table(pa.BufferReader(content), columns=["message_id"])["message_id"]
    except PARQUET_DAMAGE:
        return True
    return bool(pc.any(pc.is_in(found, value_set=message_ids)).as_py())
