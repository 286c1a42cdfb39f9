"""The operator: runs ``dlq`` commands and shows them."""

import json
from collections.abc import Callable, Sequence

from demo import DemoError
from demo.audit import read_archive
from demo.context import RunContext
from demo.screen import Screen
from demo.spark import Spark

CANARY_WAIT_SECONDS = 3
STOPPED_BY_CANARY = 3
_DECISIONS_SHOWN = 2
_CLOSING_LINES = 3
_HINTS = ("report: ", "next")
_ERROR_PREFIX = "dlq: "
Take = Callable[[str], object]


class Operator:
    """Runs verbs; shows their command lines and their output.

    Each method raises DemoError if a verb ends with an unexpected exit code.
    """

    def __init__(self, context: RunContext, screen: Screen, spark: Spark) -> None:
        self._context = context
        self._screen = screen
        self._spark = spark
        self._archive = ("--archive", str(context.archive))
        self._target = ("--main-queue-url", context.queues.main.url)

    def drain(self) -> None:
        """Move the parked messages to the archive."""
        if not self._spark.is_ready:
            self._context.phase = "waiting for Spark to start"
        parked = self._context.queues.parked.url
        # The local server answers short polls in full.
        words = ("--parked-queue-url", parked, *self._archive, "--wait-seconds", "0")
        self._run("drain", *words, take=_till_hints(self._quote))
        archived = read_archive(self._context.archive)
        self._context.archived = frozenset(content.identity for content in archived)

    def analyze(self) -> None:
        """Analyze the archive, which writes a plan; show the groups."""
        self._run("analyze", *self._archive, take=_till_hints(self._screen.quote))
        self._run("groups", *self._archive, take=_till_hints(self._screen.quote))
        page = self._context.report
        if page is not None:
            self._screen.say(f"open it in a browser: {page}", "green")

    def analyze_again(self) -> None:
        """Analyze again, to get a plan for the messages that are left."""
        lines: list[str] = []
        self._run("analyze", *self._archive, take=lines.append)
        for line in lines[:1]:
            self._quote(line)

    def approve(self, shown: int = _DECISIONS_SHOWN) -> None:
        """Decide to redrive every group; show only the first *shown* commands."""
        answer: list[str] = []
        self._spark.run(["groups", *self._archive, "--json"], answer.append)
        groups = json.loads("\n".join(answer))["groups"]
        left = [group["group_id"] for group in groups if group["action"] == "leave"]
        for group_id in left[:shown]:
            self._run("decide", *self._archive, group_id, "redrive", take=_till_hints(self._quote))
        for group_id in left[shown:]:
            self._spark.run(["decide", *self._archive, group_id, "redrive"], lambda _: None)
        if more := len(left[shown:]):
            groups_left = "1 more group" if more == 1 else f"{more} more groups"
            self._screen.say(f"and the same for {groups_left}", "green")

    def preview(self, *options: str) -> None:
        """Run a redrive as a dry run; show the end of its output."""
        lines: list[str] = []
        self._redrive(*options, remark=" (dry run)", take=lines.append)
        for line in lines[-_CLOSING_LINES:]:
            self._quote(line)

    def redrive(self, reason: str, *options: str, exit_codes: Sequence[int] = (0,)) -> int:
        """Redrive the plan; return the exit code, one of *exit_codes*."""
        self._context.journal.begin_redrive()
        words = (*options, "--reason", reason, "--execute")
        return self._redrive(*words, take=self._quote, exit_codes=exit_codes)

    def canary(self) -> tuple[str, ...]:
        """Return the options of a redrive with a canary.

        By default a canary waits a minute or more, because SQS may take that long to return a
        failed message. Here failures are faster, so the wait is set.
        """
        parked = ("--parked-queue-url", self._context.queues.parked.url)
        wait = ("--canary-wait", str(CANARY_WAIT_SECONDS), "--force-canary-wait")
        return ("--canary", "10%", *parked, *wait)

    def _quote(self, line: str) -> None:
        """Show an error completely, and other lines up to the width of the terminal."""
        is_error = line.startswith(_ERROR_PREFIX)
        quote = self._screen.quote if is_error else self._screen.quote_start
        quote(line)

    def _redrive(
        self, *options: str, take: Take, remark: str = "", exit_codes: Sequence[int] = (0,)
    ) -> int:
        words = (*self._archive, *self._target, *options)
        return self._run("redrive", *words, take=take, remark=remark, exit_codes=exit_codes)

    def _run(
        self,
        verb: str,
        *arguments: str,
        take: Take,
        remark: str = "",
        exit_codes: Sequence[int] = (0,),
    ) -> int:
        self._context.phase = f"dlq {verb}{remark}"
        self._screen.command(_shorten([verb, *arguments], str(self._context.work)))
        lines = [""]

        def keep_and_take(line: str) -> None:
            lines.append(line)
            take(line)

        code = self._spark.run([verb, *arguments], keep_and_take)
        if code not in exit_codes:
            raise DemoError(f"{verb} ended with exit code {code}: {lines[-1]}")
        return code


def _till_hints(take: Take) -> Take:
    """Omit the end of a verb's output, which names the next command."""
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
    return "dlq " + " ".join(f'"{word}"' if " " in word else word for word in shown)
