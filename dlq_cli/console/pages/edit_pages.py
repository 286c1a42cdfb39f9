"""The page on which a person edits the messages of a group by a JSON Patch.

While the person types, the page shows what would change in twenty messages. A dry run counts over
the whole group.
"""

from http import HTTPStatus
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.responses import Response

from dlq_cli.console.deciding import MeanwhileError, set_patch
from dlq_cli.console.reading import entry_digest, find_report
from dlq_cli.console.site import GROUPS, Visit, page_route
from spark_reprocess.archive.messages.dead_letter_schema import from_row
from spark_reprocess.archive.messages.message_index import Member, member_rows
from spark_reprocess.editing.edit import Edit, EditError, read_patch
from spark_reprocess.editing.json_text import write_json
from spark_reprocess.inspect.show import group_members
from spark_reprocess.plan.plan import Plan, PlannedGroup
from spark_reprocess.redrive.resolving.editor import CHANGES, Editor, edit_sample

PREVIEW_MESSAGES = 20


def patch_lines(edit: Edit | None) -> str:
    """Format the patch of an edit with a line for each operation; empty without one."""
    if edit is None or edit.patch is None:
        return ""
    lines = ",\n".join(f"  {write_json(dict(one))}" for one in edit.patch.operations)
    return f"[\n{lines}\n]"


def _edit(visit: Visit) -> Response:
    plan = find_report(visit.console.archive, visit.query.get("plan")).plan()
    group = plan.groups[plan.index(visit.request.path_params["group_id"])]
    return _page(visit, plan, group, patch_lines(group.edit))


def _page(
    visit: Visit,
    plan: Plan,
    group: PlannedGroup,
    text: str,
    meanwhile: PlannedGroup | None = None,
) -> Response:
    return visit.page(
        "edit.html.jinja",
        HTTPStatus.CONFLICT if meanwhile else HTTPStatus.OK,
        plan=plan,
        seen=entry_digest(meanwhile or group),
        meanwhile=meanwhile,
        meanwhile_text=patch_lines(meanwhile.edit) if meanwhile else "",
        shown_plan=visit.query.get("plan", visit.field("shown_plan")),
        attributes=group.edit.set_attributes if group.edit else (),
        **_preview_values(visit, plan, group, text),
        dry_run=visit.console.command("redrive", "--group", group.group_id),
    )


def _preview_values(visit: Visit, plan: Plan, group: PlannedGroup, text: str) -> dict[str, Any]:
    archive, group_id = visit.console.archive, group.group_id
    patch, faults = read_patch(text)
    members = group_members(archive, plan, group_id)
    edits = {group_id: Edit(patch)} if patch else {}
    # A queue may have a lower limit, which the dry run knows.
    editor = Editor(edits, plan.plan_id)
    by_file = pc.sort_indices(members["file"].cast(pa.string()))
    rows = members.take(by_file[:PREVIEW_MESSAGES]).sort_by("sent_at").to_pylist()
    first = [Member(row["message_id"], row["file"]) for row in rows]
    samples, misfits = [], []
    for row in member_rows(archive, first) if edits else ():
        before = from_row(row)
        try:
            after = editor.message({**row, "group_id": group_id, CHANGES: None})
        except EditError as error:
            misfits.append((before.message_id, str(error)))
        else:
            samples.append(edit_sample(group_id, before, after, visit.console.masks))
    words = (group.action.value, "--edit", patch.text if patch else "[]")
    return {
        "group": group,
        "text": text,
        "patch": patch,
        "faults": faults,
        "total": members.num_rows,
        "samples": samples,
        "misfits": misfits,
        "command": visit.console.command("decide", group_id, *words),
    }


def _form_context(visit: Visit) -> tuple[Plan, PlannedGroup, str]:
    plan = find_report(visit.console.archive, visit.field("plan")).plan()
    group = plan.groups[plan.index(visit.request.path_params["group_id"])]
    return plan, group, visit.field("patch")


def _preview(visit: Visit) -> Response:
    """Show the changes that the form would make now; a fragment. Writes nothing."""
    return visit.page("edit_preview.html.jinja", **_preview_values(visit, *_form_context(visit)))


def _save(visit: Visit) -> Response:
    plan, group, text = _form_context(visit)
    patch, faults = read_patch(text)
    if faults:
        return _page(visit, plan, group, text)
    try:
        set_patch(visit.console, plan.plan_id, group.group_id, visit.field("seen"), patch)
    except MeanwhileError as error:
        return _page(visit, error.plan, group, text, error.groups[0])
    shown_plan = visit.field("shown_plan")
    return visit.see_other(f"{GROUPS}{group.group_id}", plan=shown_plan, edited="1")


_PATH = f"{GROUPS}{{group_id}}/edit"
ROUTES = (
    page_route(_PATH, _edit),
    page_route(_PATH, _save, "POST"),
    page_route(f"{_PATH}/preview", _preview, "POST"),
)
