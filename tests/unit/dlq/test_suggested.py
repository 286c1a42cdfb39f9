"""Commands that answers suggest: each works where the command that suggests it works."""

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from dlq.cli import command
from dlq.cli.command import main
from dlq.cli.suggested import execution_command, suggested_command
from dlq.cli.verb import STACK, TYPED
from dlq.redrive.request import RedriveRequest
from dlq.stack.outputs import stack_options

ARCHIVE = "s3://of-the-answer/archive"
"""The archive that an answer is about: as typed, or that of the stack."""

OF_STACK = {"--archive": ARCHIVE, "--parked-queue-url": "parked", "--main-queue-url": "main"}

AT = f"--archive {ARCHIVE}"
HERE = "--region eu-west-1 --profile prod"
BOTH = "--parked-queue-url u1 --parked-queue-url u2"


@dataclass(frozen=True, slots=True)
class Case:
    """A command that a user typed, and verb and words of what follows."""

    typed: str
    following: str
    suggested: str
    report_stack: str = ""
    environment: dict[str, str] = field(default_factory=dict)


CASES = [
    # The stack says where the archive and the queues are.
    Case("collect --stack s", "groups", "dlq groups --stack s"),
    Case(f"collect --stack s {HERE}", "groups", f"dlq groups --stack s {HERE}"),
    Case("status --stack s --json", "collect", "dlq collect --stack s"),
    Case("groups --stack s", "redrive --group g-1", "dlq redrive --stack s --group g-1"),
    Case("find 4711 --stack s", "show m-1", "dlq show --stack s m-1"),
    Case("rehearse g-1 --function f --stack s", "redrive", "dlq redrive --stack s"),
    # What was typed beside the stack is needed again.
    Case(f"collect --stack s {AT}", "groups", f"dlq groups --stack s {AT}"),
    Case(f"groups --stack s {AT}", "redrive --group g", f"dlq redrive --stack s {AT} --group g"),
    Case(f"find 4711 --stack s {AT}", "show m-1", f"dlq show --stack s {AT} m-1"),
    Case(f"status --stack s --archive={ARCHIVE}", "collect", f"dlq collect --stack s {AT}"),
    Case(f"decide g-1 redrive --stack s {AT}", "redrive", f"dlq redrive --stack s {AT}"),
    Case(
        "redrive --stack s --failure-table t",
        "show r-1",
        "dlq show --stack s --failure-table t r-1",
    ),
    # Without a stack a command names the archive, and the queues and tables that it takes.
    Case(f"groups {AT}", "decide g-1 discard", f"dlq decide {AT} g-1 discard"),
    Case(f"groups {AT} {HERE}", "decide g-1 discard", f"dlq decide {HERE} {AT} g-1 discard"),
    Case(f"status {AT} --parked-queue-url u", "collect", f"dlq collect {AT} --parked-queue-url u"),
    Case(f"run {AT} {BOTH}", "collect", f"dlq collect {AT} {BOTH}"),
    Case(
        f"rehearse g-1 --function f {AT} --main-queue-url m",
        "redrive --group g-1",
        f"dlq redrive {AT} --main-queue-url m --group g-1",
    ),
    Case(
        f"redrive {AT} --queue-tag v --parked-queue-url u",
        "redrive",
        f"dlq redrive {AT} --queue-tag v --parked-queue-url u",
    ),
    # The reader has to fill in a queue that nothing names.
    Case(f"status {AT}", "collect", f"dlq collect {AT} --parked-queue-url URL"),
    Case(f"status {AT}", "collect --only analyze", f"dlq collect {AT} --only analyze"),
    Case(f"decide g-1 redrive {AT}", "redrive", f"dlq redrive {AT} --main-queue-url URL"),
    # A report knows the stack that it was made with.
    Case(f"groups {AT}", "redrive", f"dlq redrive --stack s {AT}", report_stack="s"),
    Case("groups --stack t", "redrive", "dlq redrive --stack t", report_stack="s"),
    # The stack of the environment is as little wanted the next time.
    Case(f"groups --stack= {AT}", "show m", f"dlq show --stack '' {AT} m", "", {"DLQ_STACK": "e"}),
    Case("groups", "show m", "dlq show --stack e m", "", {"DLQ_STACK": "e"}),
    # Whatever a text has, the shell takes it as one word.
    Case("groups --stack s --archive=-a", "show 'a b'", "dlq show --stack s --archive=-a 'a b'"),
]

DRY_RUNS = [
    (
        "redrive --stack s --group g-1 --where 'it = \"1\"'",
        "dlq redrive --stack s --group g-1 --where 'it = \"1\"'",
    ),
    (f"redrive {AT} --main-queue-url m {HERE}", f"dlq redrive {HERE} {AT} --main-queue-url m"),
    (f"redrive --on-glue --stack s {HERE}", f"dlq redrive --stack s {HERE} --on-glue"),
    (f"erase --id m-1 --stack s {AT}", f"dlq erase --stack s --id m-1 {AT}"),
    ("restore --stack s --limit 5", "dlq restore --stack s --limit 5"),
]


class Ran:
    """Takes the place of running a verb. Notes what *suggest* returns, and what was read."""

    def __init__(self, suggest: Callable[[], str]) -> None:
        self._suggest = suggest
        self.suggested = ""
        self.place: tuple[str | None, ...] = ()
        self.verb = ""
        self.options: object = None

    def run_verb(self, name: str, words: Sequence[str], stack: str | None, _: object) -> int:
        environment = map(os.environ.get, ("AWS_REGION", "AWS_PROFILE"))
        self.place = (STACK.get(), *environment)
        self.suggested = self._suggest()

        given = {word.partition("=")[0] for word in words}
        of_stack: list[str] = []
        for option in stack_options(command.load(name)) if stack else ():
            if option in OF_STACK and option not in given:
                of_stack += [option, OF_STACK[option]]

        parser, verb = command._parser_of(name, words)  # noqa: SLF001 - the product's own parser
        values = vars(parser.parse_args([*of_stack, *words]))
        for name_of_place in ("stack", "region", "profile", "on_glue", "as_json", "engine"):
            values.pop(name_of_place, None)
        self.verb = name
        self.options = verb.make_options(**values)
        return 0


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that types a line: it is read, and suggests in place of acting."""

    def run_line(line: str, suggest: Callable[[], str] = str) -> Ran:
        ran = Ran(suggest)
        monkeypatch.setattr(command, "_run_verb", ran.run_verb)
        assert main(shlex.split(line)) == 0
        return ran

    return run_line


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.typed}, {case.following}")
def test_a_suggested_command_works_in_the_same_place(
    case: Case, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in case.environment.items():
        monkeypatch.setenv(name, value)
    verb, *words = shlex.split(case.following)
    archive = "-a" if "=-a" in case.typed else ARCHIVE

    typed = run(
        case.typed,
        lambda: suggested_command(verb, archive, *words, report_stack=case.report_stack),
    )

    assert typed.suggested == case.suggested
    pasted = run(case.suggested.removeprefix("dlq "))
    assert pasted.verb == verb
    assert pasted.place == (typed.place[0] or case.report_stack or None, *typed.place[1:])
    if isinstance(pasted.options, tuple) and isinstance(pasted.options[1], RedriveRequest):
        pasted.options[1].check()


@pytest.mark.parametrize(("typed", "repeated"), DRY_RUNS)
def test_what_a_dry_run_has_shown_is_done_by_a_whole_command(
    typed: str, repeated: str, run: Run
) -> None:
    ran = run(typed, lambda: execution_command(needs_reason=True))

    assert ran.suggested == f"{repeated} --execute --reason WHY"
    pasted = run(ran.suggested.removeprefix("dlq "))
    assert pasted.place == ran.place
    assert isinstance(pasted.options, tuple)
    assert (pasted.options[1].execute, pasted.options[1].reason) == (True, "WHY")


def test_a_dry_run_adds_what_it_has_shown_and_no_second_reason(run: Run) -> None:
    ran = run(
        "redrive --stack s --reason fixed",
        lambda: execution_command("--plan", "p-1", "--ramp", needs_reason=False),
    )

    assert ran.suggested == "dlq redrive --stack s --reason fixed --plan p-1 --ramp --execute"


def test_what_was_typed_is_forgotten_when_the_command_ends(run: Run) -> None:
    run("groups --stack s")

    assert TYPED.get() == ()
