"""``decide``: sets the action of a group in the plan, and remembers what you say about it."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dlq.archive.group_records import add_statement, read_memory
from dlq.archive.storage.files import Archive, open_archive
from dlq.aws.actor import actor
from dlq.cli.arguments import add_shared
from dlq.cli.suggested import suggested_command
from dlq.cli.terminal import print_answer, print_line
from dlq.cli.verb import DONE, Verb
from dlq.errors import BusyError, InputError
from dlq.explain.triage import Statement, is_group_id, note_of
from dlq.figures import second
from dlq.plan.changes import decide, with_patch
from dlq.plan.edit import Patch, read_patch
from dlq.plan.plan import Action
from dlq.plan.plan_file import find_plan
from dlq.plan.plan_reading import read_plan

_ABOUT = """\
Writes a decision about one group into the plan of the newest report, on disk or on S3. Everything
else in the file stays, but comments within the group's entry. With --edit it also writes how a
redrive changes the bodies of the group. If somebody else changes the plan at the same moment,
exactly one of you succeeds.

The archive remembers the decision, the note, and since when the group is resolved: later reports
show them. Without an ACTION the plan stays as it is. A note is not masked: put no person's data
into it. Sends nothing: redrive carries out the plan. Needs no Spark."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_shared(parser, "group_id")
    actions = [action.value for action in Action]
    add("action", nargs="?", choices=actions, metavar="ACTION", help=", ".join(actions))
    add("--note", metavar="TEXT", help="why, for the next reader; '' takes the last note away")
    add(
        "--resolved",
        dest="is_resolved",
        action=argparse.BooleanOptionalAction,
        help="the failure is fixed from now on; with --no-resolved it is not",
    )
    add(
        "--edit",
        metavar="PATCH",
        help="change the bodies on their way: a JSON Patch (RFC 6902), as text that begins with [ "
        "or as a file; [] takes the group's patch away",
    )
    add_shared(parser, "--plan")


def _run(options: argparse.Namespace) -> int:
    archive = open_archive(options.archive)
    action = options.action
    note = None if options.note is None else note_of(options.note)
    says_nothing = action is None and note is None and options.is_resolved is None
    if says_nothing or (action is None and options.edit is not None):
        raise InputError("say something: ACTION, --note or --resolved; --edit needs an ACTION")

    group_id = _full_id(archive, options)
    answer: dict[str, Any] = dict.fromkeys(("plan_id", "plan", "before", "action", "is_edited"))
    if action is not None:
        answer = _decide(archive, options, group_id, note)

    resolved_at = None
    if is_group_id(group_id):
        # After the plan, which alone decides: if this fails, the same command repeats both.
        statement = Statement(
            time=datetime.now(UTC),
            who=actor(),
            action=action,
            plan_id=answer["plan_id"],
            text=note,
            is_resolved=options.is_resolved,
            is_edited=bool(answer["is_edited"]),
        )
        resolved_at = add_statement(archive, group_id, statement).resolved_at

    def show() -> None:
        if action is not None:
            edited = ", edited" if answer["is_edited"] else ""
            change = f"{answer['before']} -> {action}{edited}"
            print_line(f"plan {answer['plan_id']}, group {group_id}: {change}")
        if note is not None:
            print_line(f"group {group_id}: noted")
        if options.is_resolved is not None:
            since = f"resolved since {second(resolved_at)} UTC" if resolved_at else "not resolved"
            print_line(f"group {group_id}: {since}")
        if action is not None:
            plan = ("--plan", options.plan) if options.plan else ()
            if action == Action.LEAVE:
                print_line(f"next: {suggested_command('groups', options.archive, *plan)}")
            else:
                dry_run = suggested_command("redrive", options.archive, *plan)
                print_line(f"next, a dry run: {dry_run}")

    print_answer({"group_id": group_id, **answer, "resolved_at": resolved_at}, show)
    return DONE


def _full_id(archive: Archive, options: argparse.Namespace) -> str:
    """Return the id of the group: one that is remembered, or one of the plan by its beginning."""
    group_id: str = options.group_id
    if options.action is None and is_group_id(group_id):
        memory = read_memory(archive)
        if group_id in memory.groups or group_id in memory.states:
            return group_id
    return find_plan(archive, options.plan).plan().full_id(group_id)


def _decide(
    archive: Archive, options: argparse.Namespace, group_id: str, note: str | None
) -> dict[str, Any]:
    """Write the decision into the plan; return what changed, for the answer."""
    file = find_plan(archive, options.plan)
    text = file.read()
    before = read_plan(text, name=file.path)

    changed = decide(text, [group_id], Action(options.action), note)
    if options.edit is not None:
        changed = with_patch(changed, group_id, _patch(options.edit))
    if not file.replace(text, changed):
        raise BusyError(
            f"{file.path}: somebody else has changed it at this moment; look at it with groups, "
            "then decide again"
        )

    after = read_plan(changed)
    return {
        "plan_id": after.plan_id,
        "plan": file.path,
        "before": before.actions[group_id],
        "action": options.action,
        "is_edited": after.groups[after.index(group_id)].edit is not None,
    }


def _patch(place: str) -> Patch | None:
    """Read a JSON Patch from text that begins with ``[``, or from a file; raise InputError."""
    is_text = place.lstrip().startswith("[")
    try:
        patch, faults = read_patch(place if is_text else Path(place).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--edit {place}: cannot be read: {error}") from error
    if faults:
        raise InputError(f"--edit: {'; '.join(faults)}")
    return patch


VERB = Verb(
    about=_ABOUT,
    add_arguments=_add_arguments,
    make_options=argparse.Namespace,
    run=_run,
)
