"""The operator's desk: the verbs of the Spark job, typed one after another, for all to see."""

from collections.abc import Sequence

from demo.audit import read_archive
from demo.errors import DemoError
from demo.plan_edit import edit_plan
from demo.screen import Screen
from demo.spark import Spark
from demo.stage import Stage

_CHANGES_SHOWN = 4


class Desk:
    """Runs each verb and shows its command line and what it prints.

    Each method raises DemoError where a verb ends with another exit code than was expected of it.
    """

    def __init__(self, stage: Stage, screen: Screen, spark: Spark) -> None:
        self._stage = stage
        self._screen = screen
        self._spark = spark
        self._archive = ("--archive", str(stage.archive))
        self._plan = stage.report / "plan.yaml"

    def drain(self) -> None:
        """Take the parked messages into the archive."""
        if not self._spark.is_ready:
            self._stage.phase = "waiting for Spark to start"
        self._run("drain", "--parked-queue-url", self._stage.queues.parked.url, *self._archive)
        archived = read_archive(self._stage.archive)
        self._stage.archived = frozenset(content.identity for content in archived)

    def analyze(self) -> None:
        """Have explained what failed, and a plan written."""
        self._run("analyze", *self._archive, "--out", str(self._stage.report))

    def approve_plan(self) -> None:
        """Edit the plan: every group is to be put back."""
        changes = edit_plan(self._plan)
        for change in changes[:_CHANGES_SHOWN]:
            self._screen.say(f"plan.yaml: {change}", "green")
        if (more := len(changes) - _CHANGES_SHOWN) > 0:
            self._screen.say(f"plan.yaml: and {more} more groups", "green")

    def redrive(self, *options: str, exit_code: int = 0) -> None:
        """Put back what the plan says; without ``--execute`` among *options* only show it."""
        is_real = "--execute" in options
        if is_real:
            self._stage.journal.begin_redrive()
        target = ("--to-queue-url", self._stage.queues.main.url)
        arguments = (*self._archive, "--plan", str(self._plan), *target, *options)
        remark = "" if is_real else " (dry run)"
        self._run("redrive", *arguments, remark=remark, exit_code=exit_code)

    def _run(self, verb: str, *arguments: str, remark: str = "", exit_code: int = 0) -> None:
        self._stage.phase = f"Spark: {verb}{remark}"
        self._screen.command(_shorten([verb, *arguments], str(self._stage.work)))
        # What failed is told in full once; after that its beginning will do.
        quote = self._screen.quote if verb == "analyze" else self._screen.quote_start
        code = self._spark.run([verb, *arguments], quote)
        if code != exit_code:
            raise DemoError(f"{verb} ended with exit code {code}")


def _shorten(words: Sequence[str], work: str) -> str:
    shown = (
        word.rsplit("/", 1)[-1] if "://" in word else word.replace(f"{work}/", "") for word in words
    )
    return "python -m spark_reprocess " + " ".join(
        f'"{word}"' if " " in word else word for word in shown
    )
