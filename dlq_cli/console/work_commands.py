"""The ``dlq`` commands that the forms of the console start. No I/O.

Each function takes the fields of a form, and returns the command's words without ``dlq``. What a
person may get wrong is refused here, before a process is started.
"""

from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from dlq_cli.console.reading import read_plan_now
from dlq_cli.console.site import Console, RefusalError
from dlq_cli.console.work import Work, value_of, without_json
from spark_reprocess.command_line.arguments import positive_number, since, whole_number
from spark_reprocess.command_line.verb import option
from spark_reprocess.errors import InputError
from spark_reprocess.plan.reading import ID
from spark_reprocess.ramp.rule import read_allowed

Fields = Callable[[str], str]
"""Returns a field of a form by its name; empty where it is missing."""

WHOLE_PLAN = "plan"
"""The value of the field ``what`` that means every group that the plan redrives."""


def collect(console: Console, fields: Fields) -> list[str]:
    """Make the command that drains, analyzes, or does both."""
    only = fields("only")
    words = [
        *_queue(console, fields, "parked-queue-url", is_needed=only != "analyze"),
        *(["--only", only] if only in {"drain", "analyze"} else []),
        *([] if only == "analyze" else _options(fields, "limit")),
        *([] if only == "drain" else _options(fields, "since")),
        *console.mask_words,
    ]
    return _here(console, "collect", words)


def preview(console: Console, fields: Fields) -> list[str]:
    """Make the dry run of a redrive. It names its plan: a newer report may come.

    Raises:
        InputError: a field is wrong, or nothing is chosen: there is no redrive of everything.
    """
    what, plan = fields("what"), fields("plan")
    if not what:
        raise InputError("choose what to redrive: one group, or every group of this action")
    if not ID.fullmatch(plan):
        raise InputError("this form names no plan; open it again")
    other = _queue(console, fields, "to-queue-url", is_needed=False)
    words = [
        *option("--plan", plan),
        *([] if what == WHOLE_PLAN else option("--group", what)),
        *_queue(console, fields, "main-queue-url", is_needed=not other),
        *other,
        *_options(fields, "where", "limit", "include_foreign", "allow_reordering"),
        *console.mask_words,
    ]
    return _here(console, "redrive", words)


def redrive(console: Console, dry_run: Work, fields: Fields) -> list[str]:
    """Make the command that does what a dry run has shown.

    It has the words of the dry run, and names the decisions that this has read: a plan that was
    decided otherwise meanwhile is refused by the command itself, too.

    Raises:
        InputError: a field is wrong, or the dry run did not end well.
        RefusalError: somebody has decided something else since the dry run.
    """
    answer = _answer_of(dry_run)
    decided = str(answer.get("decisions_sha256", ""))
    plan = read_plan_now(console.archive, value_of(dry_run.words, "--plan"))
    group = value_of(dry_run.words, "--group")
    if decided != (plan.only(group) if group else plan).decisions_sha256:
        why = "somebody has decided something else since this dry run: make a dry run again"
        raise RefusalError(why, HTTPStatus.CONFLICT)
    if fields("how") not in {"ramp", "all"}:
        raise InputError("choose: by ramp, or all at once")
    how = ["--at-once"]
    if fields("how") == "ramp":
        how = ["--ramp", *_options(fields, "allow_returns")]
    reason = _options(fields, "reason")
    if not reason:
        raise InputError("reason: say in one sentence why; the ledger keeps it")
    return [
        *without_json(dry_run.words),
        *option("--decisions-sha256", decided),
        *how,
        *_options(fields, "max_rate", "claim_ttl"),
        *(["--in-doubt", "send"] if fields("in_doubt") else []),
        *["--execute", *reason],
    ]


def again(work: Work, fields: Fields) -> list[str]:
    """Make the same command again; with the field ``in_doubt`` it also sends what is in doubt."""
    words = without_json(work.words)
    if fields("in_doubt") and not value_of(words, "--in-doubt"):
        words += ["--in-doubt", "send"]
    return words


def _here(console: Console, verb: str, words: Sequence[str]) -> list[str]:
    """Add what the verb gets of the console, and where it runs."""
    _, *rest = console.words(verb, *words)
    return [*rest, *(["--on-glue"] if console.on_glue else [])]


def _answer_of(dry_run: Work) -> dict[str, Any]:
    answer = dry_run.answer()
    if dry_run.verb != "redrive" or "--execute" in dry_run.words:
        raise InputError(f"work {dry_run.work_id} is no dry run of a redrive")
    if dry_run.exit_code != 0 or answer is None:
        raise InputError("this dry run did not end well: make it again")
    return dict(answer)


def _queue(console: Console, fields: Fields, name: str, *, is_needed: bool = True) -> list[str]:
    """Return the words of a queue that only the form names. Raises InputError if none does."""
    if name in console.values:
        return []
    words = _options(fields, name.replace("-", "_"))
    if is_needed and not words:
        raise InputError(f"{name.replace('-', ' ')}: give the address of the queue")
    return words


_FLAGS = {"include_foreign", "allow_reordering"}
_READERS: Mapping[str, Callable[[str], object]] = {
    "limit": whole_number(1),
    "since": since,
    "allow_returns": read_allowed,
    "max_rate": positive_number,
    "claim_ttl": whole_number(60, 43_200),
}
"""Checks of values, as in the command."""


def _options(fields: Fields, *names: str) -> list[str]:
    """Return the words of the options that these fields fill in.

    Raises:
        InputError: a value is wrong.
    """
    words: list[str] = []
    for name in names:
        value, label = fields(name).strip(), name.replace("_", " ")
        if not value:
            continue
        if "\0" in value:
            raise InputError(f"{label}: must not contain a NUL")
        try:
            _READERS.get(name, str)(value)
        except (ArgumentTypeError, ValueError) as error:
            raise InputError(f"{label}: {error}") from error
        word = f"--{name.replace('_', '-')}"
        words += [word] if name in _FLAGS else option(word, value)
    return words
