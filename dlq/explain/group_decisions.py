"""Decisions of people about groups, where an analysis fills in a plan by a policy.

A decision is remembered by group. Where messages come into another group, the decision goes with
them: where other rules of grouping hold, and in and out of ``grouping.OTHERS``.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.group_records import add_statement, read_memory
from dlq.archive.messages.message_index import read_table_columns, table_folder
from dlq.archive.messages.message_store import combined, is_in
from dlq.archive.storage.files import Archive
from dlq.archive.storage.table_parts import table_digest
from dlq.errors import InputError
from dlq.explain.findings import Findings
from dlq.explain.triage import BINDING_DISPOSITIONS, EDIT, HALTED, GroupMemory, Statement, Status
from dlq.plan.action_policy import Rule
from dlq.plan.plan import Action
from dlq.plan.plan_file import find_plan

_UNREADABLE = "unreadable"


def note_edits(archive: Archive, memory: GroupMemory) -> None:
    """Record which groups have an edit in the newest plan, where no statement says so.

    Edits may be written into a plan by hand. The next plan does not have them.
    """
    try:
        plan = find_plan(archive, None).plan()
    except InputError:
        return
    for group in plan.groups:
        seen = memory.groups.get(group.group_id)
        state = memory.state(group.group_id)
        decided_in = state.plan_id or ""
        is_recorded = decided_in == plan.plan_id and state.edited_at is not None
        is_newer = decided_in > plan.plan_id

        if group.edit and seen and not (is_recorded or is_newer):
            who = f"plan {plan.plan_id}"
            edit = Statement(seen.last_seen_at, who, plan_id=plan.plan_id, is_edited=True)
            add_statement(archive, group.group_id, edit)


def follow_messages(pending: pa.Table, archive: Archive, plan_id: str, now: datetime) -> None:
    """Give a group the decision about the group that its *pending* messages were in before.

    The strictest decision holds, but not for a group that somebody decided in a plan that has these
    messages in it already. *pending* has ``message_id`` and ``group_id``. *plan_id* and *now* are
    those of this analysis.
    """
    memory = read_memory(archive)
    strengths = dict[str, int]()
    decided_in = defaultdict[str, list[str]](list)
    for group_id, seen in memory.groups.items():
        disposition = memory.state(group_id).disposition()
        if disposition and seen.status is not Status.GONE:
            strengths[group_id] = BINDING_DISPOSITIONS.index(disposition)
            decided_in[seen.report_id].append(group_id)

    sources = defaultdict[str, list[tuple[int, str]]](list)
    for report_id, group_ids in decided_in.items():
        if table_digest(archive, table_folder(report_id)) is None:
            continue
        table = read_table_columns(archive, report_id, ("message_id", "group_id"))
        before = table.filter(is_in(table["group_id"], group_ids))
        for source_id, group_id in _moves(before, pending):
            if (memory.state(group_id).plan_id or "") <= report_id:
                sources[group_id].append((strengths[source_id], source_id))

    for group_id, sources_of_group in sources.items():
        own_disposition = memory.state(group_id).disposition()
        strength, source_id = max(sources_of_group)
        if own_disposition is None or strength > BINDING_DISPOSITIONS.index(own_disposition):
            statement = _statement_as_of(
                source_id, BINDING_DISPOSITIONS[strength], memory, plan_id, now
            )
            add_statement(archive, group_id, statement)


def _statement_as_of(
    source_id: str, disposition: str, memory: GroupMemory, plan_id: str, now: datetime
) -> Statement:
    """Return the statement that repeats the decision about the group *source_id*."""
    who = f"analysis, as said of {source_id}"
    if disposition == EDIT:
        return Statement(now, who, plan_id=plan_id, is_edited=True)
    if disposition == HALTED:
        return Statement(now, who, halted=memory.state(source_id).halted)
    return Statement(now, who, action=disposition, plan_id=plan_id)


def _moves(before: pa.Table, after: pa.Table) -> set[tuple[str, str]]:
    """Return from which group into which other one messages came; both tables name their groups."""
    now = after.filter(is_in(after["message_id"], before["message_id"]))
    rows_before = pc.index_in(now["message_id"], value_set=combined(before["message_id"]))
    columns: list[Any] = [before["group_id"].take(rows_before), now["group_id"]]
    pairs = pa.table(columns, names=["source", "group_id"]).group_by(["source", "group_id"])

    moves = set()
    for pair in pairs.aggregate([]).to_pylist():
        if pair["source"] != pair["group_id"]:
            moves.add((pair["source"], pair["group_id"]))
    return moves


def left_for_people(
    findings: Findings, rules: Mapping[str, Rule], memory: GroupMemory
) -> dict[str, str]:
    """Return the groups that their rule must not decide, and why; see ``Findings``.

    A decision about a group counts for all groups of the same failure.
    """
    damaged_ids = {path.split("/")[1] for path in memory.unreadable}
    first_parked = {group.group_id: group.first_parked_at for group in findings.groups}
    same_failure = findings.same_failure

    dispositions = defaultdict[str, list[str]](list)
    for group_id in {*first_parked, *same_failure, *same_failure.values()}:
        # A group that is not listed has no message of its own that a rule could send.
        first_parked_at = first_parked.get(group_id, findings.analyzed_at)
        disposition = memory.state(group_id).disposition(first_parked_at)
        if group_id in damaged_ids:
            disposition = _UNREADABLE
        if disposition:
            dispositions[same_failure.get(group_id, group_id)].append(disposition)

    strictness = [*BINDING_DISPOSITIONS, _UNREADABLE]
    left = {}
    for group in findings.groups:
        rule = rules.get(group.group_id)
        if rule is None or rule.overrides_people or rule.action is Action.LEAVE:
            continue
        of_failure = dispositions[same_failure.get(group.group_id, group.group_id)]
        strictest = max(of_failure, key=strictness.index, default=rule.action)
        if strictest != rule.action:
            left[group.group_id] = strictest
    return left
