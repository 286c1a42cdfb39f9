"""A plan of which nothing can be sent, because each of its groups is halted. Needs no engine."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from dlq.archive.group_records import read_memory
from dlq.archive.ledger.disposition import BEFORE, Disposition
from dlq.archive.ledger.message_state import ERASED, PENDING
from dlq.archive.ledger.open_set import planned_states
from dlq.archive.messages.message_index import shown_table
from dlq.archive.storage.files import Archive
from dlq.plan.plan import Action, Plan, PlannedGroup
from dlq.redrive.send_run import RedriveRun
from dlq.redrive.summary import GroupResult, RedriveSummary


def halted_note(group_id: str, why: str) -> str:
    """Return the sentence of a group of which nothing is sent until somebody decides again."""
    return f"group {group_id} is halted: {why}; decide again"


def halted_summary(run: RedriveRun) -> RedriveSummary | None:
    """Return what the redrive would do if nothing can be sent, because every group is halted.

    None if something may be done: then each message must be resolved.
    """
    plan = run.plan
    halted = read_memory(run.archive).halted
    acting: list[PlannedGroup] = []
    for group in plan.groups:
        if group.action is Action.LEAVE:
            continue
        is_halted = group.action is Action.REDRIVE and group.group_id in halted
        if not is_halted:
            return None
        acting.append(group)
    if not acting:
        return None

    counts = _counts(run.archive, plan)
    notes = [halted_note(group.group_id, halted[group.group_id]) for group in acting]
    outcomes: list[GroupResult] = []
    for group in plan.groups:
        is_acting = group in acting
        outcomes.append(
            GroupResult(
                group_id=group.group_id,
                title=group.title,
                action=group.action,
                counts=dict(counts[group.group_id]) if is_acting else {},
                is_edited=is_acting and group.edit is not None,
            )
        )
    return RedriveSummary(
        plan_id=plan.plan_id,
        run_id="",
        destinations={run.destination: 0} if run.destination else {},
        groups=tuple(outcomes),
        problems=(),
        notes=tuple(notes),
        decisions_sha256=plan.decisions_sha256,
    )


def _counts(archive: Archive, plan: Plan) -> Mapping[str, Mapping[str, int]]:
    """Count the messages of each group by disposition; each that is pending is halted."""
    members = shown_table(archive, plan.plan_id, plan.snapshot.table_sha256)
    states = planned_states(archive, plan.plan_id, members["message_id"])
    rows = members.select(["group_id"]).append_column("state", states)

    counts = defaultdict[str, Counter[str]](Counter)
    for row in rows.group_by(["group_id", "state"]).aggregate([([], "count_all")]).to_pylist():
        state = row["state"]
        if state == ERASED:
            continue
        disposition = Disposition.HALTED if state == PENDING else BEFORE.get(state, state)
        counts[row["group_id"]][str(disposition)] += row["count_all"]
    return counts
