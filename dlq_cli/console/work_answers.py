"""What the pages show of a work: its command, what it said, its answer in tables and sentences.

An answer may be one of another version of this program, or damaged. Templates show what it says
as it is: where that fails, the page is shown without the answer.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlq_cli.console.work import State, Work, without_json
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.command_line.outcomes import columns, problem_sentence
from spark_reprocess.command_line.verb import INTERRUPTED, NOT_ALL_SENT, PROGRAM, STOPPED_BY_CANARY
from spark_reprocess.report.texts import quoted

_OURS = (f"{PROGRAM}: ", f"{PROGRAM} ")
_UNFINISHED = {NOT_ALL_SENT, STOPPED_BY_CANARY, INTERRUPTED}
"""Exit codes after which the same command goes on with what is left."""

_REPEATABLE = {"drain", "analyze", "redrive", "restore", "erase"}


@dataclass(frozen=True, slots=True)
class View:
    """One work, as its page shows it.

    Attributes:
        command: to copy.
        sentences: what it said for people on standard error.
        log: the rest of standard error.
        answer: as JSON; None if there is none.
        sending: the answer of a redrive or a restore, with its table (``columns``, ``rows``: an id,
            its action, and a number for each column), ``planned`` and ``done`` messages, its
            problems as sentences, and ``has_doubt``; None for other verbs.
        is_dry_run: whether it only looked, at what ``--execute`` would do.
        goes_on: whether the same command would go on with what is left.
    """

    work: Work
    command: str
    sentences: tuple[str, ...]
    log: str
    answer: Mapping[str, Any] | None
    sending: Mapping[str, Any] | None
    is_dry_run: bool
    goes_on: bool


def view_of(work: Work, *, has_answer: bool = True) -> View:
    """Return what the page of a work shows, without its answer if it has none that can be shown.

    Raises one of ``RECORD_DAMAGE`` for an answer of another shape.
    """
    errors = work.errors()
    answer = work.answer() if has_answer and work.state is State.ENDED else None
    sending = None
    if answer and work.verb in {"redrive", "restore"}:
        sending = _sending(answer, restores=work.verb == "restore")
    has_stopped = work.state is State.DIED or work.exit_code in _UNFINISHED
    is_dry_run = work.verb in {"redrive", "restore", "erase"} and "--execute" not in work.words
    return View(
        work=work,
        command=" ".join(map(quoted, [PROGRAM, *without_json(work.words)])),
        sentences=tuple(
            line.removeprefix(f"{PROGRAM}: ")
            for line in errors.splitlines()
            if line.startswith(_OURS)
        ),
        log="\n".join(line for line in errors.splitlines() if not line.startswith(_OURS)),
        answer=answer,
        sending=sending,
        is_dry_run=is_dry_run,
        goes_on=has_stopped and work.verb in _REPEATABLE,
    )


def _sending(answer: Mapping[str, Any], *, restores: bool) -> dict[str, Any]:
    groups: Sequence[Mapping[str, Any]] = answer["groups"]
    counts = sum((Counter[str](group["counts"]) for group in groups), Counter[str]())
    named = columns(counts, executed=bool(answer["run_id"]), restores=restores)
    problems = answer["problems"]
    return {
        **answer,
        "columns": list(named),
        "rows": [
            (
                group["group_id"],
                f"{group['action']}, edited" if group["is_edited"] else group["action"],
                [sum(group["counts"].get(word, 0) for word in of) for of in named.values()],
            )
            for group in groups
            # A plan of a thousand groups acts on a few.
            if group["action"] != "leave" or any(group["counts"].get(one) for one in _ACTED_ON)
        ],
        "planned": counts[Disposition.SEND],
        "done": counts[Disposition.RESTORED if restores else Disposition.SENT],
        "problems": [
            problem_sentence(
                one["word"], one["count"], one["detail"], one["examples"], restores=restores
            )
            for one in problems
        ],
        "has_doubt": any(one["word"] == Disposition.IN_DOUBT for one in problems),
    }


_ACTED_ON = (Disposition.SEND, Disposition.SENT, Disposition.RESTORED, Disposition.DISCARDED)
