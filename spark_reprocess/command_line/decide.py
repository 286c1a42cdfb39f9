"""``decide``: sets the action of a group in the plan."""

import argparse
from pathlib import Path

from spark_reprocess.archive.files import open_archive
from spark_reprocess.command_line.arguments import add_group, add_plan
from spark_reprocess.command_line.group_events import record_event
from spark_reprocess.command_line.terminal import print_answer, print_line
from spark_reprocess.command_line.verb import DONE, Verb, suggestion
from spark_reprocess.editing.edit import Patch, patch_faults
from spark_reprocess.editing.json_text import JsonTextError, read_json
from spark_reprocess.errors import BusyError, InputError
from spark_reprocess.plan.decision import decide, with_patch
from spark_reprocess.plan.plan import Action
from spark_reprocess.plan.plan_file import find_plan
from spark_reprocess.plan.reading import read_plan
from spark_reprocess.triage.events import EventKind, is_group_id

_ABOUT = """\
Writes a decision about one group into the plan of the newest report, on disk or on S3; everything
else in the file stays as it is. With --edit it also writes how a redrive changes the bodies of the
group. If somebody else changes the plan at the same moment, exactly one
of you succeeds. The archive remembers the decision with the group. Sends nothing: redrive carries
out the plan. Needs no Spark."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_group(parser)
    add("action", type=_action, metavar="ACTION", help=f"{', '.join(Action)}")
    add("--note", metavar="TEXT", help="why, for the next reader of the plan")
    add(
        "--edit",
        metavar="PATCH",
        help="change the bodies on their way: a JSON Patch (RFC 6902), as text that begins with [ "
        "or as a file; [] takes the group's patch away",
    )
    add_plan(parser)


def _action(text: str) -> Action:
    try:
        return Action(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: must be {', '.join(Action)}") from error


def _run(options: argparse.Namespace) -> int:
    archive = open_archive(options.archive)
    file = find_plan(archive, options.plan)
    text = file.read()
    changed = decide(text, [options.group_id], options.action, options.note)
    if options.edit is not None:
        changed = with_patch(changed, options.group_id, read_patch(options.edit))
    if not file.replace(text, changed):
        raise BusyError(
            f"{file.path}: somebody else has changed it at this moment; look at it with groups, "
            "then decide again"
        )
    before = read_plan(text).actions[options.group_id]
    plan = read_plan(changed)
    # After the plan, which alone decides: if this fails, the same command repeats both.
    if is_group_id(options.group_id):
        record_event(
            archive,
            options.group_id,
            EventKind.DECIDED,
            action=options.action.value,
            plan_id=plan.plan_id,
            text=options.note,
        )
    decision = {
        "group_id": options.group_id,
        "before": before,
        "action": options.action,
        "is_edited": any(one.edit for one in plan.groups if one.group_id == options.group_id),
    }

    def show() -> None:
        edited = ", edited" if decision["is_edited"] else ""
        change = f"{before} -> {options.action}{edited}"
        print_line(f"plan {plan.plan_id}, group {options.group_id}: {change}")
        print_line(f"next, a dry run: {suggestion('redrive', options.archive)}")

    print_answer({"plan_id": plan.plan_id, "plan": file.path, **decision}, show)
    return DONE


def read_patch(place: str) -> Patch | None:
    """Read a JSON Patch from text that begins with ``[``, or from a file.

    Returns:
        The patch; None for an empty list.

    Raises:
        InputError: the file cannot be read, or this is no JSON Patch.
    """
    is_text = place.lstrip().startswith("[")
    try:
        operations = read_json(place if is_text else Path(place).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--edit {place}: cannot be read: {error}") from error
    except JsonTextError as error:
        raise InputError(f"--edit: {error}") from error
    if operations == []:
        return None
    for index, fault in patch_faults(operations):
        where = "" if index is None else f"operation {index + 1}: "
        raise InputError(f"--edit: {where}{fault}")
    return Patch.of(operations)


VERB = Verb(_ABOUT, _add_arguments, argparse.Namespace, _run)
