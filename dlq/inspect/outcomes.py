"""Outcomes of the messages of a plan: from the ledger, and from the counters of returns."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.ledger.claims import find_runs
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.message_state import SETTLED
from dlq.archive.ledger.open_set import claimed_of_plan, planned_states
from dlq.archive.messages.message_index import shown_table
from dlq.archive.messages.message_store import is_in
from dlq.archive.storage.files import Archive
from dlq.aws.clients import ClientFactory, require_queue, returns_table
from dlq.errors import ArchiveError, InputError
from dlq.figures import duration
from dlq.plan.plan import Plan
from dlq.redrive.ramping.step_records import LastCount, last_counts
from dlq_replay.errors import TableError
from dlq_replay.replaying.returns import Returns


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcomes of the messages of one group; docs/reference.md describes the fields.

    Each message counts once. *counts* also has what other plans sent. *sent_twice* are those of
    *sent* of which more than one copy was sent, by whichever plan. *failure_seconds* count from
    when the consumer can receive a message; None if they are not known, or it never fails again.
    *counted* is how many had failed again when a ramp counted last, at *counted_at*; None where
    *returned* is known, or no ramp has counted.
    """

    group_id: str
    counts: Mapping[str, int]
    sent: int = 0
    last_sent_at: float | None = None
    returned: int | None = None
    parked: int | None = None
    failure_seconds: int | None = None
    sent_twice: int = 0
    counted: int | None = None
    counted_at: float | None = None

    @property
    def pending(self) -> int:
        """Messages that need a decision now, unconfirmed and in progress ones included."""
        return sum(count for state, count in self.counts.items() if state not in SETTLED)

    @property
    def known_returned(self) -> int | None:
        """The number of returned messages that the failure table or else a ramp has counted."""
        return self.counted if self.returned is None else self.returned

    @property
    def can_be_known(self) -> bool:
        """True if returns are counted, and it is known how long a failure takes."""
        return self.returned is not None and self.failure_seconds is not None

    def is_known(self, now_seconds: float, minute_seconds: float = 60) -> bool:
        """Return whether nothing more is expected: each failure had a minute more than it takes."""
        if not self.sent or self.failure_seconds is None or self.last_sent_at is None:
            return True
        until = self.last_sent_at + self.failure_seconds + minute_seconds
        return now_seconds >= until or (self.returned or 0) >= self.sent

    def sentence(self, now_seconds: float) -> str:
        """Format what is known of the messages that were sent."""
        twice = f" ({self.sent_twice:,} of them twice)" if self.sent_twice else ""
        sent = f"sent {self.sent:,}{twice}"
        if self.counted is not None and self.counted_at is not None:
            at = f"{datetime.fromtimestamp(self.counted_at, UTC):%Y-%m-%d %H:%M} UTC"
            return f"{sent}, {self.counted:,} failed again by {at}, how many since is not known"
        if self.returned is None or self.parked is None:
            return f"{sent}, how many failed again is not known"

        parts = [sent]
        if self.returned:
            replayed = self.returned - self.parked
            details = f"{replayed:,} being replayed, {self.parked:,} parked again"
            parts.append(f"{self.returned:,} failed again ({details})")

        silent = self.sent - self.returned
        if silent <= 0 or self.last_sent_at is None:
            return ", ".join(parts)
        if self.failure_seconds and self.is_known(now_seconds) and len(parts) == 1:
            good = f"{silent:,} of {self.sent:,} did not fail again{twice}"
            return f"{good}; a failure takes {duration(self.failure_seconds)}"
        passed = duration(now_seconds - self.last_sent_at)
        parts.append(f"{silent:,} of {self.sent:,} have not failed again in {passed}")
        if self.failure_seconds is None:
            return ", ".join(parts)
        return f"{', '.join(parts)}; a failure takes {duration(self.failure_seconds)}"


def sends_of_plan(claimed: pa.Table, plan_id: str) -> pa.Table:
    """Return a row for each message of which the plan sent a copy, or of which that was recorded.

    Its columns are ``message_id``; ``sent_at``: the time of the plan's last result; ``is_twice``:
    whether the attempts of all plans sent more than one copy. *claimed* has a row for each attempt,
    as ``CLAIMED`` says.
    """
    is_sent = pc.field("state") == str(Disposition.SENT)
    of_plan = claimed.filter(is_sent & (pc.field("plan_id") == plan_id))
    last = of_plan.group_by("message_id").aggregate([("time", "max")])

    copies = claimed.filter(is_sent).group_by("message_id").aggregate([([], "count_all")])
    twice = copies.filter(pc.field("count_all") > 1)["message_id"]

    sends = last.select(["message_id", "time_max"]).rename_columns(["message_id", "sent_at"])
    return sends.append_column("is_twice", is_in(sends["message_id"], twice))


@dataclass(slots=True)
class _Sends:
    """Messages of one group of which its plan sent a copy."""

    messages: int = 0
    twice: int = 0
    last_at: str = ""

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the messages of one state, as ``_sums_by_state`` counts them."""
        self.messages += row["sent_at_count"]
        self.twice += row["is_twice_sum"]
        self.last_at = max(self.last_at, row["sent_at_max"])

    @property
    def last_sent_at(self) -> float | None:
        """The time of the last result, in epoch seconds; None if nothing was sent."""
        return datetime.fromisoformat(self.last_at).timestamp() if self.last_at else None


def read_outcomes(
    archive: Archive,
    plan: Plan,
    failure_table: str | None = None,
    claimed: pa.Table | None = None,
    make_client: ClientFactory | None = None,
) -> dict[str, Outcome]:
    """Read the outcome of each group of a plan, by group id; empty if its table cannot be read.

    Args:
        archive: the archive of the plan.
        plan: the plan.
        failure_table: has the counters of returns; without it only counts of ramps are known.
        claimed: ``claimed_of_plan``; None reads it now.
        make_client: if given, SQS is asked how long a failure takes at the destinations.
    """
    try:
        members = shown_table(archive, plan.plan_id, plan.snapshot.table_sha256)
    except (ArchiveError, InputError):
        return {}
    if claimed is None:
        claimed = claimed_of_plan(archive, plan.plan_id)

    counts = defaultdict[str, dict[str, int]](dict)
    sends_by_group: dict[str, _Sends] = {}
    for row in _sums_by_state(archive, plan.plan_id, members, claimed):
        group_id = row["group_id"]
        counts[group_id][row["state"]] = row["count_all"]
        if row["sent_at_count"]:
            sends_by_group.setdefault(group_id, _Sends()).add(row)

    returns = read_returns(archive, plan.plan_id, sends_by_group, failure_table)
    ramp_counts: Mapping[str, LastCount] = {}
    if sends_by_group.keys() - returns.keys():
        ramp_counts = counts_of_ramps(archive, plan.plan_id)
    failure_seconds = None
    if sends_by_group and failure_table and make_client:
        failure_seconds = _failure_seconds(archive, plan.plan_id, make_client)

    outcomes: dict[str, Outcome] = {}
    # Small groups are in the table, and not in the plan.
    for group in plan.groups:
        group_id = group.group_id
        sends = sends_by_group.get(group_id, _Sends())
        back = returns.get(group_id)
        last_count = ramp_counts.get(group_id) if back is None and sends.messages else None
        outcomes[group_id] = Outcome(
            group_id=group_id,
            counts=counts[group_id],
            sent=sends.messages,
            last_sent_at=sends.last_sent_at,
            returned=back.returned if back else None,
            parked=back.parked if back else None,
            failure_seconds=failure_seconds,
            sent_twice=sends.twice,
            counted=last_count.returned[group_id] if last_count else None,
            counted_at=last_count.at if last_count else None,
        )
    return outcomes


def _sums_by_state(
    archive: Archive, plan_id: str, members: pa.Table, claimed: pa.Table
) -> list[dict[str, Any]]:
    """Count the messages of each group and state, and the sends of the plan among them."""
    states = planned_states(archive, plan_id, members["message_id"], claimed=claimed)
    rows = members.select(["message_id", "group_id"]).append_column("state", states)
    rows = rows.join(sends_of_plan(claimed, plan_id), "message_id")
    sums = rows.group_by(["group_id", "state"]).aggregate(
        [([], "count_all"), ("sent_at", "count"), ("sent_at", "max"), ("is_twice", "sum")]
    )
    return sums.to_pylist()


def read_returns(
    archive: Archive, plan_id: str, group_ids: Collection[str], failure_table: str | None
) -> dict[str, Returns]:
    """Read what failed again of these groups; a group of which this is not known is missing."""
    if not group_ids or not failure_table:
        return {}
    try:
        url = next(iter(_destinations(archive, plan_id)), "")
        return returns_table(failure_table, url).read(plan_id, group_ids)
    except (TableError, InputError):
        return {}


def counts_of_ramps(archive: Archive, plan_id: str) -> dict[str, LastCount]:
    """Return what ``last_counts`` does; nothing where it cannot be read. For people alone."""
    try:
        return last_counts(archive, plan_id)
    except ArchiveError:
        return {}


def _destinations(archive: Archive, plan_id: str) -> list[str]:
    urls = set[str]()
    for run in find_runs(archive, plan_id):
        urls.update(run.destinations)
    return sorted(urls)


def _failure_seconds(archive: Archive, plan_id: str, make_client: ClientFactory) -> int | None:
    """Return the longest time of all destinations; None if one of them does not say."""
    all_seconds = list[int]()
    for url in _destinations(archive, plan_id):
        try:
            queue = require_queue("destination", url, make_client)
        except InputError:
            return None
        if not queue.failure_seconds:
            return None
        all_seconds.append(queue.delay_seconds + queue.failure_seconds)
    return max(all_seconds, default=None)
