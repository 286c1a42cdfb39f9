"""The page on which a person edits the messages of a group by a JSON Patch.

While the person types, the page shows what would change in twenty messages. A dry run counts over
the whole group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from dlq_cli.console.deciding import MeanwhileError, set_patch
from dlq_cli.console.members import files_of, group_members, ids_in_file
from dlq_cli.console.reading import entry_digest, read_plan_now
from dlq_cli.console.site import GROUPS, Visit, page_route
from spark_reprocess.archive.messages.dead_letter_schema import SENDING_COLUMNS, from_row
from spark_reprocess.archive.messages.message_store import rows_of_file
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.editing.edit import Edit, EditError, Patch, patch_faults
from spark_reprocess.editing.json_text import COMPACT, JsonTextError, read_json
from spark_reprocess.plan.plan import Plan, PlannedGroup
from spark_reprocess.redrive.resolving.editor import CHANGES, Editor, edit_sample

PREVIEW_MESSAGES = 20
PREVIEW_FILES = 4
"""Files that the twenty messages come from, at most."""


@dataclass(frozen=True, slots=True)
class TypedPatch:
    """A JSON Patch as it was typed.

    Attributes:
        text: as typed; empty for no edit.
        patch: None for no edit, or if there are faults.
        faults: what is wrong, as sentences.
    """

    text: str = ""
    patch: Patch | None = None
    faults: Sequence[str] = ()


def read_patch(text: str) -> TypedPatch:
    """Read a patch that was typed. No text and an empty list mean no edit."""
    try:
        operations = read_json(text.strip() or "[]")
    except JsonTextError as error:
        return TypedPatch(text, faults=[f"the text {error}"])
    if operations == []:
        return TypedPatch(text)
    faults = [
        fault if number is None else f"operation {number + 1}: {fault}"
        for number, fault in patch_faults(operations)
    ]
    return TypedPatch(text, None if faults else Patch.of(operations), faults)


def patch_lines(patch: Patch | None) -> str:
    """Format a patch with a line for each operation; empty for None."""
    if patch is None:
        return ""
    lines = ",\n".join(f"  {COMPACT.write(dict(one))}" for one in patch.operations)
    return f"[\n{lines}\n]"


def first_rows(archive: Archive, members: pa.Table, group_id: str) -> list[dict[str, Any]]:
    """Return twenty messages of a group, from at most four files."""
    rows: list[dict[str, Any]] = []
    for path in files_of(members)[:PREVIEW_FILES]:
        found = rows_of_file(archive, path, ids_in_file(members, path), SENDING_COLUMNS)
        rows += found.to_pylist()[: PREVIEW_MESSAGES - len(rows)] if found else []
        if len(rows) == PREVIEW_MESSAGES:
            break
    return [{**one, "group_id": group_id, CHANGES: None} for one in rows]


def _edit(visit: Visit) -> Response:
    group_id = visit.request.path_params["group_id"]
    plan = read_plan_now(visit.console.archive, visit.query.get("plan"))
    group = plan.groups[plan.index(group_id)]
    typed = read_patch(patch_lines(group.edit.patch if group.edit else None))
    return _page(visit, plan, group, typed, visit.query.get("plan", ""))


def _page(
    visit: Visit,
    plan: Plan,
    group: PlannedGroup,
    typed: TypedPatch,
    shown_plan: str,
    meanwhile: PlannedGroup | None = None,
) -> Response:
    archive = visit.console.archive
    members = group_members(archive, plan, group.group_id)
    now = meanwhile.edit if meanwhile else None
    return visit.page(
        "edit.html.jinja",
        HTTPStatus.CONFLICT if meanwhile else HTTPStatus.OK,
        plan=plan,
        group=group,
        typed=typed,
        seen=entry_digest(meanwhile or group),
        meanwhile=meanwhile,
        meanwhile_text=patch_lines(now.patch if now else None),
        shown_plan=shown_plan,
        attributes=group.edit.set_attributes if group.edit else (),
        total=members.num_rows,
        **_preview_values(visit, plan, group, typed, members),
        dry_run=visit.console.command("redrive", "--group", group.group_id),
    )


def _preview_values(
    visit: Visit, plan: Plan, group: PlannedGroup, typed: TypedPatch, members: pa.Table
) -> dict[str, Any]:
    archive, masks = visit.console.archive, visit.console.masks
    text = typed.patch.text if typed.patch else "[]"
    words = (group.group_id, group.action.value, "--edit", text)
    command = visit.console.command("decide", *words)
    if typed.patch is None:
        return {"samples": (), "misfits": (), "command": command}
    # A queue may have a lower limit, which the dry run knows.
    editor = Editor({group.group_id: Edit(typed.patch)}, plan.plan_id)
    samples, misfits = [], []
    for row in first_rows(archive, members, group.group_id):
        before = from_row(row)
        try:
            after = editor.message(row)
        except EditError as error:
            misfits.append((before.message_id, str(error)))
        else:
            samples.append(edit_sample(group.group_id, before, after, masks))
    return {"samples": samples, "misfits": misfits, "command": command}


def _form_context(visit: Visit) -> tuple[Plan, PlannedGroup, TypedPatch]:
    plan = read_plan_now(visit.console.archive, visit.field("plan"))
    group = plan.groups[plan.index(visit.request.path_params["group_id"])]
    return plan, group, read_patch(visit.field("patch"))


def _preview(visit: Visit) -> Response:
    """Show the changes that the form would make now; a fragment. Writes nothing."""
    plan, group, typed = _form_context(visit)
    members = group_members(visit.console.archive, plan, group.group_id)
    return visit.page(
        "edit_preview.html.jinja",
        group=group,
        typed=typed,
        total=members.num_rows,
        **_preview_values(visit, plan, group, typed, members),
    )


def _save(visit: Visit) -> Response:
    """Write the edit into the plan, as a person would write it."""
    plan, group, typed = _form_context(visit)
    shown_plan = visit.field("shown_plan")
    if typed.faults:
        return _page(visit, plan, group, typed, shown_plan)
    try:
        set_patch(visit.console, plan.plan_id, group.group_id, visit.field("seen"), typed.patch)
    except MeanwhileError as error:
        return _page(visit, error.plan, group, typed, shown_plan, error.groups[0])
    return visit.see_other(f"{GROUPS}{group.group_id}", plan=shown_plan, edited="1")


_PATH = f"{GROUPS}{{group_id}}/edit"
ROUTES = (
    page_route(_PATH, _edit),
    page_route(_PATH, _save, "POST"),
    page_route(f"{_PATH}/preview", _preview, "POST"),
)
