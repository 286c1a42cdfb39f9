"""Pages about one group and about one message.

Of a group: what the analysis found, its messages, and what people say about it. Of a message: every
archived copy, and what runs did with each.
"""

from typing import Any

from starlette.responses import Response

from dlq_cli.console.members import WantedMessages, group_messages
from dlq_cli.console.reading import read_plan_now, read_report
from dlq_cli.console.site import GROUPS, Console, Visit, done_of, page_route
from dlq_replay.returns import Returns
from spark_reprocess.analysis.groups.mask import excerpt
from spark_reprocess.archive.group_records import add_statement, read_notes, read_statements
from spark_reprocess.editing.json_text import INDENTED
from spark_reprocess.errors import InputError
from spark_reprocess.findings import Sample
from spark_reprocess.inspect.outcomes import read_returns
from spark_reprocess.inspect.show import ArchivedCopy, ShowOptions, show
from spark_reprocess.plan.plan import Action
from spark_reprocess.report.views import View, group_view, shown_sample
from spark_reprocess.triage import Statement, is_group_id, note_of

_MOST_STATEMENTS = 50
"""Of a group's history, the newest."""

BODY_CHARACTERS = 8_000
"""Of a body at most; ``dlq show`` has all of it."""


def _sample(console: Console, copy: ArchivedCopy) -> View:
    """Return body and attributes of a copy, read as they are, as a reader may see them."""
    masks, is_unmasked = console.masks, console.is_unmasked
    body = copy.body or ""
    attributes = {
        f"{name} ({copy.attributes[name]})": (
            value if is_unmasked else masks.value(f"attribute.{name}", value)
        )
        for name, value in (copy.values or {}).items()
    }
    body = body if is_unmasked else excerpt(body, masks, BODY_CHARACTERS)
    return shown_sample(Sample(copy.message_id, copy.sent_at, body, attributes))


def _error(console: Console, copy: ArchivedCopy) -> str:
    """Return the recorded error of a copy, as a reader may see it."""
    message = copy.error_message or ""
    shown = message if console.is_unmasked else console.masks.text(message)
    return ": ".join(filter(None, (copy.error_type, shown)))


def _group(visit: Visit) -> Response:
    console = visit.console
    group_id = visit.request.path_params["group_id"]
    report = read_report(
        console.archive, visit.query.get("plan"), console.now(), console.failure_table
    )
    group = report.group(group_id)
    state = report.memory.state(group_id)
    notes = read_notes(console.archive, report.memory, [group_id])
    found, findings = group.found, report.findings
    view = None
    if found is not None and findings is not None:
        view = group_view(findings, found, group.rank)
    edit = group.planned.edit
    patch = edit.patch if edit else None
    return visit.page(
        "one_group.html.jinja",
        report=report,
        group=group,
        place=report.place,
        view=view,
        findings=findings,
        state=state,
        history=read_statements(console.archive, group_id, _MOST_STATEMENTS),
        note=notes.get(group_id, ""),
        edit_digest=edit.digest if edit else "",
        done=done_of(visit),
        actions=[one.value for one in Action],
        operations=[INDENTED.write(dict(one)) for one in patch.operations] if patch else [],
        edited=visit.query.get("edited") == "1",
    )


def _messages(visit: Visit) -> Response:
    """A page of the group's messages, as a fragment or on a page of its own."""
    console = visit.console
    group_id = visit.request.path_params["group_id"]
    plan = read_plan_now(console.archive, visit.query.get("plan"))
    group = plan.groups[plan.index(group_id)]
    wanted = WantedMessages.of(visit.query)
    page = group_messages(console.archive, plan, group_id, wanted, console.now())
    values: dict[str, Any] = {"group_id": group_id, "wanted": wanted, "page": page}
    values |= {"place": visit.query.get("plan", ""), "planned": group}
    returns = read_returns(console.archive, plan.plan_id, [group_id], console.failure_table)
    values["returns"] = returns.get(group_id, Returns())
    name = "messages_list.html.jinja" if visit.is_fragment else "messages.html.jinja"
    return visit.page(name, **values)


def _say(visit: Visit) -> Response:
    """Write down what a person says about a group: a note, or that it is resolved or is not."""
    console = visit.console
    group_id = visit.request.path_params["group_id"]
    plan = read_plan_now(console.archive, visit.field("shown_plan") or None)
    plan.index(group_id)
    if not is_group_id(group_id):
        raise InputError(f"{group_id}: is no id of a group as analyses make it")
    text: str | None = note_of(visit.field("text").strip())
    if text == visit.field("text_before"):
        # What the page showed is not said again: it may be another person's by now.
        text = None
    is_resolved = {"yes": True, "no": False}.get(visit.field("resolved"))
    if text is None and is_resolved is None:
        raise InputError("change the note")
    said = Statement(console.now(), console.who, text=text, is_resolved=is_resolved)
    add_statement(console.archive, group_id, said)
    return visit.see_other(f"{GROUPS}{group_id}", plan=visit.field("shown_plan"))


def _message(visit: Visit) -> Response:
    console, message_id = visit.console, visit.request.path_params["message_id"]
    # Read as it is, and masked here as samples are: fields by their names, too.
    options = ShowOptions(console.archive.root, message_id, is_unmasked=True)
    history = show(options, console.archive)
    copies = [
        {
            "archived": one,
            "sample": _sample(console, one),
            "error": _error(console, one),
        }
        for one in history.copies
    ]
    words = ["--unmasked"] if console.is_unmasked else ["--body"]
    return visit.page(
        "message.html.jinja",
        history=history,
        copies=copies,
        group_id=visit.query.get("group", ""),
        shown_plan=visit.query.get("plan", ""),
        command=console.command("show", message_id, *words),
    )


def _find(visit: Visit) -> Response:
    """Open the page of the message whose id is in a form of the address."""
    message_id = visit.query.get("id", "").strip()
    if not message_id:
        raise InputError("give the id of a message")
    return visit.see_other(f"/messages/{message_id}")


ROUTES = (
    page_route(f"{GROUPS}{{group_id}}", _group),
    page_route(f"{GROUPS}{{group_id}}/messages", _messages),
    page_route(f"{GROUPS}{{group_id}}/say", _say, "POST"),
    page_route("/messages", _find),
    page_route("/messages/{message_id:path}", _message),
)
