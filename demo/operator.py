"""The operator: runs the verbs of the Spark job one after another and edits the plan, visibly."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from demo import DemoError
from demo.audit import read_archive
from demo.context import RunContext
from demo.screen import Screen
from demo.spark import Spark
from spark_reprocess.findings import Synonym, format_predicate
from spark_reprocess.plan.located_yaml import node_at, read_yaml, with_scalars

_TITLE_CHARACTERS = 50

CANARY_WAIT_SECONDS = 8
STOPPED_BY_CANARY = 3
_CHANGES_SHOWN = 4
_CLOSING_LINES = 3
_HINTS = ("report: ", "next: ")
_COMPLAINT = "dlq: "
Take = Callable[[str], object]


def approve_all(plan: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Turn ``leave`` into ``redrive`` in every group; nothing else changes.

    Returns:
        The new plan, and a line for each group that was changed.
    """
    changed = [g for g in plan["groups"] if g["action"] == "leave"]
    groups = [{**g, "action": "redrive"} if g in changed else g for g in plan["groups"]]
    lines = [f"leave -> redrive: {g['count']} of {_title(g)}" for g in changed]
    return {**plan, "groups": groups}, lines


def _title(group: dict[str, Any]) -> str:
    title = str(group["title"])
    return title if len(title) <= _TITLE_CHARACTERS else f"{title[:_TITLE_CHARACTERS]}…"


def edit_plan(path: Path) -> list[str]:
    """Approve every group of the plan in *path*; return a line for each that was changed."""
    text = path.read_text(encoding="utf-8")
    located = read_yaml(text)
    plan, lines = approve_all(located.value)
    actions = [
        (node_at(located.root, ("groups", index, "action")), group["action"])
        for index, group in enumerate(plan["groups"])
    ]
    path.write_text(with_scalars(text, actions), encoding="utf-8")
    return lines


class Operator:
    """Runs each verb and shows its command line and what it prints.

    Each method raises DemoError where a verb ends with another exit code than was expected of it.
    """

    def __init__(self, context: RunContext, screen: Screen, spark: Spark) -> None:
        self._context = context
        self._screen = screen
        self._spark = spark
        self._archive = ("--archive", str(context.archive))
        self._target = ("--main-queue-url", context.queues.main.url)
        self._report = context.report

    def drain(self) -> None:
        """Take the parked messages into the archive."""
        if not self._spark.is_ready:
            self._context.phase = "waiting for Spark to start"
        parked = self._context.queues.parked.url
        self._run(
            "drain", "--parked-queue-url", parked, *self._archive, take=_till_hints(self._quote)
        )
        archived = read_archive(self._context.archive)
        self._context.archived = frozenset(content.identity for content in archived)

    def analyze(self) -> None:
        """Have explained what failed, and a plan written."""
        # What failed is told in full once; after that its beginning will do.
        take = _till_hints(self._screen.quote)
        self._run("analyze", *self._archive, "--out", str(self._report), take=take)
        for line in _words_of(self._report / "summary.json"):
            self._screen.quote(line)
        page = self._report / "report.html"
        if page.exists():
            self._screen.say(f"open it in a browser: {page}", "green")

    def analyze_again(self) -> None:
        """Have a plan written for what is left now, beside the first report."""
        self._report = self._context.work / "report-again"
        lines: list[str] = []
        self._run("analyze", *self._archive, "--out", str(self._report), take=lines.append)
        for line in lines[:1]:
            self._quote(line)

    def approve_plan(self, changes_shown: int = _CHANGES_SHOWN) -> None:
        """Edit the plan: every group is to be put back."""
        changes = edit_plan(self._plan)
        for change in changes[:changes_shown]:
            self._screen.say(f"plan.yaml: {change}", "green")
        if (more := len(changes) - changes_shown) > 0:
            groups = "group" if more == 1 else "groups"
            rest = (
                f"and {more} more {groups}"
                if changes_shown
                else f"leave -> redrive: {more} {groups}"
            )
            self._screen.say(f"plan.yaml: {rest}", "green")

    def preview(self, *options: str) -> None:
        """Ask what a redrive would do; show how its answer ends."""
        lines: list[str] = []
        self._redrive(*options, remark=" (dry run)", take=lines.append)
        for line in lines[-_CLOSING_LINES:]:
            self._quote(line)

    def redrive(self, reason: str, *options: str, exit_codes: Sequence[int] = (0,)) -> int:
        """Put back what the plan says; return which of *exit_codes* it ended with."""
        self._context.journal.begin_redrive()
        words = (*options, "--reason", reason, "--execute")
        return self._redrive(*words, take=self._quote, exit_codes=exit_codes)

    def canary(self) -> tuple[str, ...]:
        """The options of a redrive that sends a few messages ahead.

        SQS may take a minute and more to give a failed message back, and that is what a canary
        waits for unless it is told otherwise. Here failures are quicker.
        """
        parked = ("--parked-queue-url", self._context.queues.parked.url)
        wait = ("--canary-wait", str(CANARY_WAIT_SECONDS), "--force-canary-wait")
        return ("--canary", "10%", *parked, *wait)

    @property
    def _plan(self) -> Path:
        return self._report / "plan.yaml"

    def _quote(self, line: str) -> None:
        """A complaint is shown whole, all else as far as the terminal is wide."""
        is_complaint = line.startswith(_COMPLAINT)
        quote = self._screen.quote if is_complaint else self._screen.quote_start
        quote(line)

    def _redrive(
        self, *options: str, take: Take, remark: str = "", exit_codes: Sequence[int] = (0,)
    ) -> int:
        words = (*self._archive, "--plan", str(self._plan), *self._target, *options)
        return self._run("redrive", *words, take=take, remark=remark, exit_codes=exit_codes)

    def _run(
        self,
        verb: str,
        *arguments: str,
        take: Take,
        remark: str = "",
        exit_codes: Sequence[int] = (0,),
    ) -> int:
        self._context.phase = f"Spark: {verb}{remark}"
        self._screen.command(_shorten([verb, *arguments], str(self._context.work)))
        lines = [""]

        def keep_and_take(line: str) -> None:
            lines.append(line)
            take(line)

        code = self._spark.run([verb, *arguments], keep_and_take)
        if code not in exit_codes:
            raise DemoError(f"{verb} ended with exit code {code}: {lines[-1]}")
        return code


def _words_of(summary: Path) -> Iterator[str]:
    """What the report says of each group: off a terminal ``analyze`` itself prints none of it."""
    if not summary.exists():
        return
    for group in json.loads(summary.read_text(encoding="utf-8"))["groups"]:
        yield f"{group['group_id']}  {group['title']}"
        for lead in group["leads"][:1]:
            yield f"  ↳ {format_predicate(Synonym(lead['field'], lead['value']))}"


def _till_hints(take: Take) -> Take:
    """Leave out where a verb's answer says what to type next: the operator is about to."""
    is_over = False

    def taking(line: str) -> None:
        nonlocal is_over
        is_over = is_over or line.startswith(_HINTS)
        if not is_over:
            take(line)

    return taking


def _shorten(words: Sequence[str], work: str) -> str:
    shown = (
        word.rsplit("/", 1)[-1] if "://" in word else word.replace(f"{work}/", "") for word in words
    )
    return "python -m spark_reprocess " + " ".join(
        f'"{word}"' if " " in word else word for word in shown
    )
