"""What people said of groups, where an analysis fills in a plan by a policy.

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
from dlq.explain.triage import EDIT, STOPPED, WORDS, GroupMemory, Statement, Status
from dlq.plan.plan import Action
from dlq.plan.plan_file import find_plan
from dlq.plan.policy import Rule

_UNREADABLE = "unreadable"


def note_edits(archive: Archive, memory: GroupMemory) -> None:
    """Write down which groups have an edit in the newest plan, where nobody said so.

    Edits may be written into a plan by hand. The next plan does not have them.
    """
    try:
        plan = find_plan(archive, None).plan()
    except InputError:
        return
    for group in plan.groups:
        seen, state = memory.groups.get(group.group_id), memory.state(group.group_id)
        is_said = (state.plan_id or "", state.edited_at is not None) >= (plan.plan_id, True)
        if group.edit and seen and not is_said:
            who = f"plan {plan.plan_id}"
            said = Statement(seen.last_seen_at, who, plan_id=plan.plan_id, is_edited=True)
            add_statement(archive, group.group_id, said)


def follow_messages(pending: pa.Table, archive: Archive, plan_id: str, now: datetime) -> None:
    """Say of a group what people said of the one that its *pending* messages were in before.

    The strictest word holds, but not for a group that somebody decided in a plan that has these
    messages in it already. *pending* has ``message_id`` and ``group_id``. *plan_id* and *now* are
    those of this analysis.
    """
    memory = read_memory(archive)
    strengths, said_in = dict[str, int](), defaultdict[str, list[str]](list)
    for group_id, seen in memory.groups.items():
        if seen.status is not Status.GONE and (word := memory.state(group_id).word()):
            strengths[group_id] = WORDS.index(word)
            said_in[seen.report_id].append(group_id)
    words = defaultdict[str, list[tuple[int, str]]](list)
    for report_id, group_ids in said_in.items():
        if table_digest(archive, table_folder(report_id)) is None:
            continue
        before = read_table_columns(archive, report_id, ("message_id", "group_id"))
        for source, group_id in _moves(
            before.filter(is_in(before["group_id"], group_ids)), pending
        ):
            if (memory.state(group_id).plan_id or "") <= report_id:
                words[group_id].append((strengths[source], source))
    for group_id, heard in words.items():
        own = memory.state(group_id).word()
        strictest, source = max(heard)
        if own is None or strictest > WORDS.index(own):
            who = f"analysis, as said of {source}"
            said = {
                EDIT: Statement(now, who, plan_id=plan_id, is_edited=True),
                STOPPED: Statement(now, who, stopped=memory.state(source).stopped),
            }
            word = WORDS[strictest]
            add_statement(archive, group_id, said.get(word, Statement(now, who, word, plan_id)))


def _moves(before: pa.Table, after: pa.Table) -> set[tuple[str, str]]:
    """Return from which group into which other one messages came; both tables name their groups."""
    now = after.filter(is_in(after["message_id"], before["message_id"]))
    places = pc.index_in(now["message_id"], value_set=combined(before["message_id"]))
    columns: list[Any] = [before["group_id"].take(places), now["group_id"]]
    pairs = pa.table(columns, names=["source", "group_id"]).group_by(["source", "group_id"])
    moves = {(row["source"], row["group_id"]) for row in pairs.aggregate([]).to_pylist()}
    return {(source, group_id) for source, group_id in moves if source != group_id}


def left_for_people(
    findings: Findings, rules: Mapping[str, Rule], memory: GroupMemory
) -> dict[str, str]:
    """Return the groups that their rule must not decide, and why; see ``Findings``.

    What people said of a group counts for its whole family.
    """
    damaged = {path.split("/")[1] for path in memory.unreadable}
    first_sent = {group.group_id: group.first_sent_at for group in findings.groups}
    ids = {*first_sent, *findings.families, *findings.families.values()}
    oldest = {one: findings.families.get(one, one) for one in ids}
    words = defaultdict[str, list[str]](list)
    for one, family in oldest.items():
        # What is not listed has no message of its own that a rule could send.
        word = memory.state(one).word(first_sent.get(one, findings.analyzed_at))
        if one in damaged:
            word = _UNREADABLE
        words[family] += [word] if word else []
    left = {}
    for group in findings.groups:
        rule = rules.get(group.group_id)
        if rule is None or rule.overrides_people or rule.action is Action.LEAVE:
            continue
        heard = words[oldest[group.group_id]]
        word = max(heard, key=[*WORDS, _UNREADABLE].index, default=rule.action)
        if word != rule.action:
            left[group.group_id] = word
    return left
