"""What of a redrive needs no engine: its options, plan and queues, and a plan that is stopped.

Everything that a person may have mistyped is found here, before an engine is started.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from dlq.archive.group_records import read_memory
from dlq.archive.ledger.claims import require_unsealed
from dlq.archive.ledger.disposition import BEFORE, Disposition
from dlq.archive.ledger.message_state import ERASED, PENDING
from dlq.archive.ledger.open_set import planned_states
from dlq.archive.messages.dead_letter_schema import READ_COLUMNS
from dlq.archive.messages.message_index import shown_table
from dlq.archive.storage.files import Archive, open_archive
from dlq.aws.actor import text_of
from dlq.aws.clients import ClientFactory, sqs_client
from dlq.errors import InputError
from dlq.explain.signature.mask import Masks, compile_masks
from dlq.ids.origins import Queues
from dlq.plan.plan import Action, Plan
from dlq.plan.plan_file import find_plan
from dlq.plan.reading import SqlCheck
from dlq.redrive.readings import Probe, find_probes
from dlq.redrive.redrive_values import GroupOutcome, RedriveOptions, RedriveSummary
from dlq.redrive.resolving.queues import find_queues
from dlq.sql.allowed import check_sql


@dataclass(frozen=True, slots=True)
class Preparation:
    """A redrive whose options, plan and queues fit together.

    Attributes:
        plan: only the group of the options, if they name one.
        probes, why_no_ramp: see ``find_probes``.
    """

    archive: Archive
    masks: Masks
    plan: Plan
    queues: Queues
    probes: Mapping[str, Probe]
    why_no_ramp: str


def sql_fault(sql: str) -> str | None:
    """Return what is wrong with an expression of ``set_attributes``, types apart, else None."""
    try:
        check_sql(sql, READ_COLUMNS, place=None)
    except InputError as error:
        return text_of(error)
    return None


def prepare(
    options: RedriveOptions,
    make_client: ClientFactory = sqs_client,
    sql_check: SqlCheck = sql_fault,
) -> Preparation:
    """Check the options, read the plan, find the queues, in the order of what that costs.

    *sql_check* checks the SQL of the plan's edits; by default without an engine, see ``check_sql``.

    Raises:
        InputError: something does not fit; the plan's faults are all named. Nothing was sent.
        ArchiveError: the archive cannot be used.
    """
    options.check()
    masks = compile_masks(options.masks)
    check_sql(options.where, READ_COLUMNS)
    archive = open_archive(options.archive)
    plan = find_plan(archive, options.plan).plan(sql_check)
    if options.group is not None:
        plan = plan.only(options.group)
    require_unsealed(archive, plan.plan_id)
    options.check_decisions(plan)
    queues, destinations = find_queues(options, make_client)
    probes, why_no_ramp = find_probes(options, destinations, make_client)
    return Preparation(archive, masks, plan, queues, probes, why_no_ramp)


def stopped_note(group_id: str, why: str) -> str:
    """Return the sentence of a group of which nothing is sent until somebody decides again."""
    return f"group {group_id} is stopped: {why}; decide again"


def stopped_summary(options: RedriveOptions, ready: Preparation) -> RedriveSummary | None:
    """Return what the redrive would do if nothing can be sent, because every group is stopped.

    None if something may be done: then each message must be resolved.
    """
    plan, stopped = ready.plan, read_memory(ready.archive).stopped
    acting = [group for group in plan.groups if group.action is not Action.LEAVE]
    are_stopped = all(
        group.action is Action.REDRIVE and group.group_id in stopped for group in acting
    )
    if not acting or not are_stopped:
        return None
    counts = _counts(ready.archive, plan)
    return RedriveSummary(
        plan_id=plan.plan_id,
        run_id="",
        destinations={options.destination: 0},
        groups=tuple(
            GroupOutcome(
                group_id=group.group_id,
                title=group.title,
                action=group.action,
                counts=dict(counts[group.group_id]) if group in acting else {},
                is_edited=group.edit is not None and group in acting,
            )
            for group in plan.groups
        ),
        problems=(),
        notes=tuple(stopped_note(group.group_id, stopped[group.group_id]) for group in acting),
        decisions_sha256=plan.decisions_sha256,
    )


def _counts(archive: Archive, plan: Plan) -> Mapping[str, Mapping[str, int]]:
    """Count the messages of each group by disposition; each that is pending is stopped."""
    members = shown_table(archive, plan.plan_id, plan.snapshot.table_sha256)
    states = planned_states(archive, plan.plan_id, members["message_id"])
    rows = members.select(["group_id"]).append_column("state", states)
    counts = defaultdict[str, Counter[str]](Counter)
    for row in rows.group_by(["group_id", "state"]).aggregate([([], "count_all")]).to_pylist():
        state = row["state"]
        if state == ERASED:
            continue
        word = Disposition.STOPPED if state == PENDING else BEFORE.get(state, state)
        counts[row["group_id"]][str(word)] += row["count_all"]
    return counts
