"""The page on which a person edits the messages of a group: rows of a form, or JSON Patch itself.

While the person types, the page shows what would change in twenty messages. A dry run counts over
the whole group.
"""

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from dlq_cli.console.deciding import MeanwhileError, set_patch
from dlq_cli.console.members import files_of, group_members, ids_in_file
from dlq_cli.console.reading import entry_digest, read_plan_now
from dlq_cli.console.site import GROUPS, Visit, page_route
from dlq_replay.policy import MAX_MESSAGE_BYTES
from spark_reprocess.archive.dead_letter_schema import SENDING_COLUMNS, from_row
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_store import rows_of_file
from spark_reprocess.editing.edit import Edit, EditError, Patch, patch_faults
from spark_reprocess.editing.json_text import COMPACT, INDENTED, Json, JsonTextError, read_json
from spark_reprocess.plan.plan import Plan, PlannedGroup
from spark_reprocess.redrive.editor import CHANGES, Editor, edit_sample

PREVIEW_MESSAGES = 20
PREVIEW_FILES = 4
"""Files that the twenty messages come from, at most."""

MOST_OPERATIONS = 50

_OPERATIONS = ("replace", "add", "remove", "test", "move", "copy")


@dataclass(slots=True)
class Rows:
    """What a form says, and the patch that it means.

    Attributes:
        operations: the rows, each with ``op``, ``path`` and ``value`` as they were typed.
        text: the patch as JSON; empty for none.
        faults: what is wrong, as sentences; with any, there is no patch.
        patch: None for no edit.
    """

    operations: list[dict[str, str]] = field(default_factory=list)
    text: str = ""
    faults: list[str] = field(default_factory=list)
    patch: Patch | None = None


def rows_of(patch: Patch | None) -> Rows:
    """Return the form of a patch that the plan has."""
    if patch is None:
        return Rows()
    rows = []
    for one in patch.operations:
        value = INDENTED.write(one["value"]) if "value" in one else str(one.get("from", ""))
        rows.append({"op": str(one["op"]), "path": str(one["path"]), "value": value})
    lines = ",\n".join(f"  {COMPACT.write(dict(one))}" for one in patch.operations)
    return Rows(rows, f"[\n{lines}\n]", patch=patch)


def read_form(visit: Visit) -> Rows:
    """Read the form: the JSON if the person works on that, else the rows."""
    if visit.field("as") == "json":
        return _from_text(visit.field("json").strip())
    columns = [visit.fields(name) for name in ("op", "path", "value")]
    typed = [
        dict(zip(("op", "path", "value"), row, strict=True))
        for row in zip(*columns, strict=False)
        if row[1].strip() or row[2].strip()
    ]
    operations: list[Json] = []
    faults: list[str] = []
    for number, row in enumerate(typed[:MOST_OPERATIONS], start=1):
        operation: dict[str, Json] = {"op": row["op"], "path": row["path"].strip()}
        if row["op"] in ("move", "copy"):
            operation["from"] = row["value"].strip()
        elif row["op"] != "remove":
            try:
                operation["value"] = read_json(row["value"])
            except JsonTextError:
                faults.append(
                    f"change {number}: the value {row['value']!r} is not JSON; text needs "
                    f"quotation marks: {json.dumps(row['value'], ensure_ascii=False)}"
                )
        operations.append(operation)
    made = _checked(operations, faults)
    return Rows(typed, made.text, made.faults, made.patch)


def _from_text(text: str) -> Rows:
    if not text:
        return Rows()
    try:
        made = _checked(read_json(text), [])
    except JsonTextError as error:
        return Rows(text=text, faults=[f"the text {error}"])
    return Rows(rows_of(made.patch).operations, text, made.faults, made.patch)


def _checked(operations: Json, faults: list[str]) -> Rows:
    if operations == [] and not faults:
        return Rows()
    for number, fault in patch_faults(operations):
        faults.append(fault if number is None else f"change {number + 1}: {fault}")
    if faults:
        return Rows(faults=faults)
    patch = Patch.of(operations)
    return Rows(text=rows_of(patch).text, patch=patch)


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
    rows = rows_of(group.edit.patch if group.edit else None)
    return _page(visit, plan, group, rows, visit.query.get("plan", ""))


def _page(
    visit: Visit,
    plan: Plan,
    group: PlannedGroup,
    rows: Rows,
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
        rows=rows,
        seen=entry_digest(meanwhile or group),
        meanwhile=meanwhile,
        meanwhile_text=rows_of(now.patch if now else None).text,
        shown_plan=shown_plan,
        kinds=_OPERATIONS,
        attributes=group.edit.set_attributes if group.edit else (),
        total=members.num_rows,
        **_preview_values(visit, plan, group, rows, members),
        dry_run=visit.console.command("redrive", "--group", group.group_id),
    )


def _preview_values(
    visit: Visit, plan: Plan, group: PlannedGroup, rows: Rows, members: pa.Table
) -> dict[str, Any]:
    archive, masks = visit.console.archive, visit.console.masks
    words = (group.group_id, group.action.value, "--edit", rows.patch.text if rows.patch else "[]")
    command = visit.console.command("decide", *words)
    if rows.patch is None:
        return {"samples": (), "misfits": (), "command": command}
    edits = {group.group_id: Edit(rows.patch)}
    # A queue may have a lower limit, which the dry run knows.
    limit = MAX_MESSAGE_BYTES
    editor = Editor(edits, plan.plan_id, keep_counter=False, max_message_bytes=limit)
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


def _form_context(visit: Visit) -> tuple[Plan, PlannedGroup, Rows]:
    plan = read_plan_now(visit.console.archive, visit.field("plan"))
    group = plan.groups[plan.index(visit.request.path_params["group_id"])]
    return plan, group, read_form(visit)


def _preview(visit: Visit) -> Response:
    """What the form as it is now would change; a fragment. Writes nothing."""
    plan, group, rows = _form_context(visit)
    members = group_members(visit.console.archive, plan, group.group_id)
    return visit.page(
        "edit_preview.html.jinja",
        group=group,
        rows=rows,
        total=members.num_rows,
        **_preview_values(visit, plan, group, rows, members),
    )


def _save(visit: Visit) -> Response:
    """Write the edit into the plan, as a person would write it."""
    plan, group, rows = _form_context(visit)
    shown_plan = visit.field("shown_plan")
    if rows.faults:
        return _page(visit, plan, group, rows, shown_plan)
    try:
        set_patch(visit.console, plan.plan_id, group.group_id, visit.field("seen"), rows.patch)
    except MeanwhileError as error:
        return _page(visit, error.plan, group, rows, shown_plan, error.groups[0])
    return visit.see_other(f"{GROUPS}{group.group_id}", plan=shown_plan, edited="1")


_PATH = f"{GROUPS}{{group_id}}/edit"
ROUTES = (
    page_route(_PATH, _edit),
    page_route(_PATH, _save, "POST"),
    page_route(f"{_PATH}/preview", _preview, "POST"),
)
