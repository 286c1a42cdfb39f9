"""A plan as the text of plan.yaml, with comments that say what to do with it. Pure."""

from textwrap import indent
from typing import Any

import yaml

from spark_reprocess.plan.plan import PLAN_VERSION, Plan, PlannedGroup

_HEAD = """\
# What to do with the messages of an analysis, group by group. Edit the actions, then look at what
# would happen (a dry run; nothing is sent without --execute):
#
#   python -m spark_reprocess redrive --archive ARCHIVE --plan THIS_FILE --to-queue-url URL
#
# action: leave     do nothing; a later analysis shows the group again
#         redrive   send every message of the group to the queue, with a fresh replay counter
#         discard   record that nobody wants them back; they stay in the archive
#
# Only the actions are yours to edit. The snapshot freezes which messages the plan is about; titles
# and counts are for the reader. A group that is deleted here is left.
"""


def plan_text(plan: Plan) -> str:
    """Spell *plan* so that ``read_plan`` reads it back as it is.

    Every value goes through YAML's own writer: titles hold what strangers sent.
    """
    snapshot: dict[str, Any] = {
        "drain_ids": list(plan.snapshot.drain_ids),
        "messages": plan.snapshot.messages,
        "sha256": plan.snapshot.sha256,
    }
    if plan.snapshot.where is not None:
        snapshot["where"] = plan.snapshot.where
    head = {"version": PLAN_VERSION, "plan_id": plan.plan_id, "archive": plan.archive}
    parts = [_HEAD, _yaml(head), _yaml({"snapshot": snapshot})]
    groups = "\n".join(_group(group) for group in plan.groups)
    return "\n".join([*parts, f"groups:\n{groups}" if groups else "groups: []\n"])


def _group(group: PlannedGroup) -> str:
    values = {
        "id": group.group_id,
        "title": group.title,
        "count": group.count,
        "action": group.action.value,
    }
    lines = indent(_yaml(values), "    ")
    return f"  - {lines[4:]}"


def _yaml(values: dict[str, Any]) -> str:
    text = _dump(values, allow_unicode=True)
    # PyYAML writes some line separators as they are and then reads them as spaces.
    return text if yaml.safe_load(text) == values else _dump(values, allow_unicode=False)


def _dump(values: dict[str, Any], *, allow_unicode: bool) -> str:
    # One line per value, however long: a folded title would be hard to read between the groups.
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=allow_unicode, width=2**31)
