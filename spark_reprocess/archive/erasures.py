"""What was erased from the archive or expired: by whom, when, why, the ids; never what it was.

``ledger/erasures/<id>.json`` is written before the first file is touched, and
``ledger/erasures/<id>.done`` when nothing of it is left. With the ids a plan can still be checked:
what it froze is what the archive holds and what was erased.
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

from spark_reprocess.actor import Caller
from spark_reprocess.archive.files import Archive, damage_named, new_id
from spark_reprocess.archive.ledger import LEDGER

_FOLDER = f"{LEDGER}/erasures"


@dataclass(frozen=True, slots=True)
class Erasure:
    """One erasure.

    Attributes:
        time: ISO 8601, UTC.
        drains: of each erased message, by id, the drains that had brought it.
        plans: of plans with a condition, by id, the erased messages that they had frozen.
        groups: which analyses put them into.
        other_ids: of copies that the archive does not hold: the first ones, those that a redrive
            sent, and those that were asked for.
        failure_table: from which what was recorded of all these copies goes; None for none.
        expired_days: of an expiry, after how many days what is decided went; None for an erasure.
        first_ids: of an expiry, the first id of each message that has another one.
        caller: whose credentials it was.
    """

    erase_id: str
    who: str
    reason: str
    time: str
    drains: Mapping[str, Sequence[str]]
    plans: Mapping[str, Sequence[str]]
    groups: Sequence[str]
    caller: Caller = field(default_factory=Caller)
    other_ids: Sequence[str] = ()
    failure_table: str | None = None
    expired_days: int | None = None
    first_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def ids(self) -> set[str]:
        """The ids of every copy that is known."""
        return {*self.drains, *self.other_ids}


class ErasedOfPlan(NamedTuple):
    """The messages of one plan that one erasure took."""

    sentence: str
    message_ids: tuple[str, ...]


def record_erasure(archive: Archive, erasure: Erasure) -> Erasure:
    """Write down what is about to be erased, durably.

    Returns:
        What was written; with another id if a record had this one already.
    """
    content = {
        "who": erasure.who,
        **asdict(erasure.caller),
        "reason": erasure.reason,
        "time": erasure.time,
        "messages": {one: list(drains) for one, drains in erasure.drains.items()},
        "plans": {one: list(ids) for one, ids in erasure.plans.items()},
        "groups": list(erasure.groups),
        "other_ids": list(erasure.other_ids),
        "failure_table": erasure.failure_table,
        "expired_days": erasure.expired_days,
        "first_ids": dict(erasure.first_ids),
    }
    written = json.dumps(content, indent=1).encode()
    while not archive.create(f"{_FOLDER}/{erasure.erase_id}.json", written):
        erasure = replace(erasure, erase_id=new_id(time.time()))
    return erasure


def mark_done(archive: Archive, erase_id: str) -> None:
    """Write down that nothing is left of what an erasure named, durably."""
    archive.write(f"{_FOLDER}/{erase_id}.done", b"")


def erasures(archive: Archive) -> list[Erasure]:
    """Read every erasure, the oldest first.

    Raises:
        ArchiveError: one cannot be read, or somebody changed it.
    """
    paths = [path for path in archive.list(_FOLDER) if path.endswith(".json")]
    return [_read(archive, path) for path in paths]


def unfinished(archive: Archive, *, expiries: bool = False) -> list[Erasure]:
    """Read the erasures, or else the expiries, that were begun and not ended."""
    paths = archive.list(_FOLDER)
    done = {path.removesuffix(".done") for path in paths if path.endswith(".done")}
    begun = [path for path in paths if path.endswith(".json") and path[:-5] not in done]
    found = (_read(archive, path) for path in begun)
    return [one for one in found if (one.expired_days is not None) is expiries]


def expired_copies(archive: Archive, ids: Collection[str]) -> dict[str, Erasure]:
    """Find the expired messages with one of these message ids or first ids, but erased ones.

    Returns:
        The expiry of each, by message id.
    """
    wanted, found = set(ids), dict[str, Erasure]()
    all_of_them = erasures(archive)
    for one in (one for one in all_of_them if one.expired_days is not None):
        for message_id in one.drains:
            if not wanted.isdisjoint((message_id, one.first_ids.get(message_id))):
                found[message_id] = one
    for one in (one for one in all_of_them if one.expired_days is None):
        for message_id in found.keys() & one.drains.keys():
            del found[message_id]
    return found


def erased_of(
    archive: Archive,
    plan_id: str,
    drain_ids: Collection[str],
    where: str | None,
    found: Collection[str],
    frozen: Collection[str] | None,
) -> list[ErasedOfPlan]:
    """Return which messages of a plan have been erased, by erasure.

    Args:
        archive: where the plan's messages are.
        plan_id: of the plan.
        drain_ids: which it froze.
        where: its condition; whether an erased message met it is known only of plans that lay in
            the archive when it was erased.
        found: the ids of its messages that are still there.
        frozen: which of all erased messages its table names; None for a plan of version 1, where
            *drain_ids* and *where* have to say it.
    """
    seen, named, drained = set(found), set(frozen or ()), set(drain_ids)
    result: list[ErasedOfPlan] = []
    for one in erasures(archive):
        if frozen is not None:
            of_plan = [message_id for message_id in one.drains if message_id in named]
        elif where is not None and plan_id in one.plans:
            of_plan = list(one.plans[plan_id])
        else:
            of_plan = [m for m, drains in one.drains.items() if not drained.isdisjoint(drains)]
        ids = [message_id for message_id in of_plan if message_id not in seen]
        seen.update(ids)
        if ids:
            arn = f" ({one.caller.caller_arn})" if one.caller.caller_arn else ""
            what = "were erased since" if one.expired_days is None else _expired(one.expired_days)
            sentence = f"{len(ids):,} messages {what}, by {one.who}{arn} at {one.time}"
            result.append(ErasedOfPlan(f"{sentence} ({one.erase_id})", tuple(ids)))
    return result


def _expired(days: int) -> str:
    return f"expired since, {days} days after they were decided"


def _read(archive: Archive, path: str) -> Erasure:
    with damage_named(archive, path):
        raw = json.loads(archive.read(path) or b"")
        erase_id = path.rsplit("/", 1)[1].removesuffix(".json")
        return Erasure(
            erase_id=erase_id,
            who=raw["who"],
            reason=raw["reason"],
            time=raw["time"],
            drains=raw["messages"],
            plans=raw["plans"],
            groups=raw["groups"],
            caller=Caller(
                raw.get("caller_arn"), raw.get("caller_fault", ""), raw.get("job_run_id", "")
            ),
            other_ids=tuple(raw.get("other_ids", ())),
            failure_table=raw.get("failure_table"),
            expired_days=raw.get("expired_days"),
            first_ids=raw.get("first_ids", {}),
        )
