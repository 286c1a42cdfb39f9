"""What became of the messages of a plan: from the ledger, and from the counters of returns."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

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
from dlq.plan.ramp import LastCount, last_counts
from dlq_replay.errors import TableError
from dlq_replay.replaying.returns import Returns


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the messages of one group; docs/reference.md describes the fields.

    Each message counts once. *counts* also has what other plans sent. *sent_twice* are those of
    *sent* of which more than one copy was sent, by whichever plan. *failure_seconds* count from
    when the consumer can receive a message; None if they are not known, or it never comes back.
    *counted* is how many had come back when a ramp counted last, at *counted_at*; None where
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
        """Messages that need a decision now, in doubt and busy ones included."""
        return sum(count for state, count in self.counts.items() if state not in SETTLED)

    @property
    def known_returned(self) -> int | None:
        """How many came back, as far as the failure table or a ramp has said."""
        return self.counted if self.returned is None else self.returned

    @property
    def can_be_known(self) -> bool:
        """Whether what comes back is counted, and how long a failure takes."""
        return self.returned is not None and self.failure_seconds is not None

    def is_known(self, now_seconds: float, minute_seconds: float = 60) -> bool:
        """Whether nothing more is expected: each failure had a minute more than it takes."""
        if not self.sent or self.failure_seconds is None or self.last_sent_at is None:
            return True
        until = self.last_sent_at + self.failure_seconds + minute_seconds
        return now_seconds >= until or (self.returned or 0) >= self.sent

    def sentence(self, now_seconds: float) -> str:
        """Format what is known of what was sent."""
        twice = f" ({self.sent_twice:,} of them twice)" if self.sent_twice else ""
        sent = f"sent {self.sent:,}{twice}"
        if self.counted is not None and self.counted_at is not None:
            at = f"{datetime.fromtimestamp(self.counted_at, UTC):%Y-%m-%d %H:%M} UTC"
            return f"{sent}, came back {self.counted:,} by {at}, what came back since is not known"
        if self.returned is None or self.parked is None:
            return f"{sent}, what comes back is not known"
        parts = [sent, f"came back {self.returned:,}"]
        if self.returned:
            replayed = self.returned - self.parked
            parts[1] += f" ({replayed:,} being replayed, {self.parked:,} parked again)"
        silent = self.sent - self.returned
        if silent > 0 and self.last_sent_at is not None:
            passed = now_seconds - self.last_sent_at
            parts.append(f"nothing heard of {silent:,} for {duration(passed)}")
            if (takes := self.failure_seconds) is not None:
                verb = "would have returned" if passed >= takes else "returns"
                parts.append(f"of which a failure {verb} after {duration(takes)}")
        return ", ".join(parts)


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
    names = ["message_id", "sent_at", "is_twice"]
    columns = [last["message_id"], last["time_max"], is_in(last["message_id"], twice)]
    return pa.Table.from_arrays(columns, names=names)


def read_outcomes(
    archive: Archive,
    plan: Plan,
    failure_table: str | None = None,
    claimed: pa.Table | None = None,
    make_client: ClientFactory | None = None,
) -> dict[str, Outcome]:
    """Read what became of each group of a plan, by group id; empty if its table cannot be read.

    *failure_table* has the counters of returns; without it only what a ramp counted is known.
    *claimed*
    is ``claimed_of_plan``; None reads it now. With *make_client* the destinations are
    asked how long a failure takes.
    """
    try:
        members = shown_table(archive, plan.plan_id, plan.snapshot.table_sha256)
    except (ArchiveError, InputError):
        return {}
    if claimed is None:
        claimed = claimed_of_plan(archive, plan.plan_id)
    states = planned_states(archive, plan.plan_id, members["message_id"], claimed=claimed)
    rows = members.select(["message_id", "group_id"]).append_column("state", states)
    rows = rows.join(sends_of_plan(claimed, plan.plan_id), "message_id")
    sums = rows.group_by(["group_id", "state"]).aggregate(
        [([], "count_all"), ("sent_at", "count"), ("sent_at", "max"), ("is_twice", "sum")]
    )
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    sent, twice, last = Counter[str](), Counter[str](), dict[str, str]()
    for row in sums.to_pylist():
        group_id = row["group_id"]
        counts[group_id][row["state"]] = row["count_all"]
        if row["sent_at_count"]:
            sent[group_id] += row["sent_at_count"]
            twice[group_id] += row["is_twice_sum"]
            last[group_id] = max(row["sent_at_max"], last.get(group_id, ""))
    returns = read_returns(archive, plan.plan_id, sent, failure_table)
    counted = counts_of_ramps(archive, plan.plan_id) if sent.keys() - returns.keys() else {}
    takes = None
    if sent and failure_table and make_client:
        takes = _failure_seconds(archive, plan.plan_id, make_client)
    outcomes: dict[str, Outcome] = {}
    # Small groups are in the table, and not in the plan.
    for group_id in (one.group_id for one in plan.groups):
        at = datetime.fromisoformat(last[group_id]).timestamp() if group_id in last else None
        back = returns.get(group_id)
        before = counted.get(group_id) if back is None and sent[group_id] else None
        outcomes[group_id] = Outcome(
            *(group_id, counts[group_id], sent[group_id], at),
            returned=back.returned if back else None,
            parked=back.parked if back else None,
            failure_seconds=takes,
            sent_twice=twice[group_id],
            counted=before.returned[group_id] if before else None,
            counted_at=before.at if before else None,
        )
    return outcomes


def read_returns(
    archive: Archive, plan_id: str, group_ids: Collection[str], failure_table: str | None
) -> dict[str, Returns]:
    """Read what came back of these groups; one of which that is not known is missing."""
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
    return sorted({url for run in find_runs(archive, plan_id) for url in run.destinations})


def _failure_seconds(archive: Archive, plan_id: str, make_client: ClientFactory) -> int | None:
    """Return the longest time of all destinations; None if one of them does not say."""
    seconds = list[int]()
    for url in _destinations(archive, plan_id):
        try:
            of_queue = require_queue("destination", url, make_client)
        except InputError:
            return None
        if not of_queue.failure_seconds:
            return None
        seconds.append(of_queue.delay_seconds + of_queue.failure_seconds)
    return max(seconds, default=None)
