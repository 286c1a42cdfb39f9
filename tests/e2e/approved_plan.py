"""A plan that redrives every message of an archive, without the analysis that would write it."""

from collections.abc import Sequence
from pathlib import Path

from dlq_replay.message import Message
from spark_reprocess.analysis.signature import signature_of
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_store import digest
from spark_reprocess.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text
from tests.integration.spark_world import DRAIN_ID

PLAN_ID = "p-1"


def write_plan(path: Path, archive: Archive, messages: Sequence[Message]) -> None:
    """Approve *messages*, which are all of one group and were parked after their last attempt."""
    group_id = signature_of(messages[0].body, "attempts_exhausted", None, None).group_id
    plan = Plan(
        PLAN_ID,
        archive.root,
        Snapshot((DRAIN_ID,), len(messages), digest(one.message_id for one in messages)),
        (PlannedGroup(group_id, "", len(messages), Action.REDRIVE),),
    )
    path.write_text(plan_text(plan))
