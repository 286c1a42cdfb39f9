"""What the pages show of a work: its command, what it said, its answer in tables and sentences.

An answer may be one of another version of this program, or damaged: then only its text is shown.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dlq_cli.console.work import State, Work, value_of, without_json
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import RECORD_DAMAGE
from spark_reprocess.command_line.outcomes import columns, problem_sentence
from spark_reprocess.command_line.verb import INTERRUPTED, NOT_ALL_SENT, PROGRAM, STOPPED_BY_CANARY
from spark_reprocess.report.texts import quoted

_OURS = (f"{PROGRAM}: ", f"{PROGRAM} ")
_UNFINISHED = {NOT_ALL_SENT, STOPPED_BY_CANARY, INTERRUPTED}
"""Exit codes after which the same command goes on with what is left."""

_REPEATABLE = {"drain", "analyze", "redrive", "restore", "erase"}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of an answer.

    Attributes:
        rows: an id, a word beside it (may be empty), and a number for each of *columns*.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Sending:
    """The answer of a redrive or a restore.

    Attributes:
        planned: how many messages a dry run would send.
        destinations: number of messages by queue URL.
        problems: why messages were left, a sentence each.
        has_doubt: whether messages may have been sent.
        canary: the verdict as answered; None without one.
        drawn: the sample that would go first, or is recommended; None without one.
        samples: messages before and after an edit, masked: ``group_id``, ``message_id``, ``lines``.
    """

    is_executed: bool
    plan_id: str
    run_id: str
    table: Table
    planned: int
    done: int
    destinations: Mapping[str, int]
    problems: tuple[str, ...]
    has_doubt: bool
    notes: tuple[str, ...]
    stopped_by: str
    canary: Mapping[str, Any] | None
    drawn: Mapping[str, Any] | None
    samples: tuple[Mapping[str, Any], ...]
    max_rate: float | None

    @property
    def drawn_messages(self) -> int:
        """How many messages the sample has."""
        return sum(self.drawn["counts"].values()) if self.drawn else 0


@dataclass(frozen=True, slots=True)
class View:
    """One work, as its page shows it.

    Attributes:
        command: to copy.
        sentences: what it said for people on standard error.
        log: the rest of standard error.
        answer: as JSON; None if there is none.
        sending: the answer of a redrive or a restore; None for other verbs.
        is_dry_run: whether it only looked, at what ``--execute`` would do.
        goes_on: whether the same command would go on with what is left.
    """

    work: Work
    command: str
    sentences: tuple[str, ...]
    log: str
    answer: Mapping[str, Any] | None
    sending: Sending | None
    is_dry_run: bool
    goes_on: bool
    groups: tuple[str, ...] = field(default=())


def view_of(work: Work) -> View:
    """Return what the page of a work shows."""
    errors = work.errors()
    answer = work.answer() if work.state is State.ENDED else None
    sending = None
    if answer is not None and work.verb in {"redrive", "restore"}:
        try:
            sending = _sending(answer, restores=work.verb == "restore")
        except RECORD_DAMAGE:
            answer = None
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
        groups=tuple(filter(None, [value_of(work.words, "--group")])),
    )


def _sending(answer: Mapping[str, Any], *, restores: bool) -> Sending:
    is_executed = bool(answer["run_id"])
    groups: Sequence[Mapping[str, Any]] = answer["groups"]
    counts = sum((Counter[str](group["counts"]) for group in groups), Counter[str]())
    named = columns(counts, executed=is_executed, restores=restores)
    rows = tuple(
        (
            str(group["group_id"]),
            f"{group['action']}, edited" if group["is_edited"] else str(group["action"]),
            tuple(sum(group["counts"].get(word, 0) for word in of) for of in named.values()),
        )
        for group in groups
        # A plan of a thousand groups acts on a few.
        if group["action"] != "leave" or any(group["counts"].get(one) for one in _ACTED_ON)
    )
    problems = answer["problems"]
    done = Disposition.RESTORED if restores else Disposition.SENT
    return Sending(
        is_executed=is_executed,
        plan_id=str(answer["plan_id"]),
        run_id=str(answer["run_id"]),
        table=Table(tuple(named), rows),
        planned=counts[Disposition.SEND],
        done=counts[done],
        destinations={str(url): int(count) for url, count in answer["destinations"].items()},
        problems=tuple(
            problem_sentence(
                str(one["word"]),
                int(one["count"]),
                str(one["detail"]),
                [str(example) for example in one["examples"]],
                restores=restores,
            )
            for one in problems
        ),
        has_doubt=any(one["word"] == Disposition.IN_DOUBT for one in problems),
        notes=tuple(str(note) for note in answer["notes"]),
        stopped_by=str(answer["stopped_by"]),
        canary=answer["canary"],
        drawn=answer["drawn"],
        samples=tuple(answer["samples"]),
        max_rate=answer["max_rate"],
    )


_ACTED_ON = (Disposition.SEND, Disposition.SENT, Disposition.RESTORED, Disposition.DISCARDED)
