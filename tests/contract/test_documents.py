"""The documents name what is there: files, headings, verbs, options, fields, codes."""

import json
import re
import shlex
from collections.abc import Collection, Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from dlq.archive.ledger.claims import RunRecord
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.stop import Stop, StopCause
from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.aws.clients import QueueCounts
from dlq.cli import command as program
from dlq.cli import verb
from dlq.cli.command import ALL_VERBS
from dlq.cli.running import VERBS, load
from dlq.cli.verbs.rehearse import Rehearsal, RehearsalOutcome
from dlq.drain.drain import DrainSummary
from dlq.erase.erase import EraseSummary
from dlq.explain.grouping import grouped
from dlq.explain.signature.signature import signature_of
from dlq.inspect.find import ArchivedMatch, ArchiveMatches
from dlq.inspect.groups import GroupsOfReport, ListedGroup
from dlq.inspect.outcomes import Outcome
from dlq.inspect.show import (
    ArchivedCopy,
    DeadLetterHistory,
    DifferingWord,
    GroupPlaces,
    LedgerEntry,
    RunHistory,
)
from dlq.inspect.status import (
    ArchiveStatus,
    BlockingMessage,
    DrainCount,
    NewestReport,
    PlanCount,
)
from dlq.look.look import HiddenMessage, Received
from dlq.look.queue_facts import QueueFacts
from dlq.look.receiver import End
from dlq.redrive.ramping.step_records import Forecast
from dlq.redrive.ramping.verdict_rules import GroupRamp
from dlq.redrive.resolving.editor import EditSample
from dlq.redrive.summary import RedriveSummary, Tally
from dlq.scheduled_run import Pending, RunSummary
from dlq.stack.fleet_rules import ExaminedDlq
from dlq.stack.outputs import StackValues, stack_options
from dlq.stack.rules import Severity, StackFinding
from dlq.stack.trial import Check
from dlq_replay.wire.context import FailureError, ReplayContext
from scripts import generate_docs
from tests.contract.template import ROOT

PATHS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "benchmarks" / "README.md"]
PAGES = {page: page.read_text("utf-8") for page in sorted(PATHS)}
REFERENCE = PAGES[ROOT / "docs" / "reference.md"]
LINK = re.compile(r"\]\(([^)\s]+)\)")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Those that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", without_code(PAGES[page]), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_no_link_is_dead(page: Path) -> None:
    for link in LINK.findall(without_code(PAGES[page])):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: no such file"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


@each_page
def test_every_picture_has_words_for_those_who_do_not_see_it(page: Path) -> None:
    texts = re.findall(r"!\[(.*?)\]\(", PAGES[page])

    assert all(len(text.split()) >= 3 for text in texts)


def test_every_page_is_linked_from_another() -> None:
    linked = set()
    for page, text in PAGES.items():
        for link in LINK.findall(text):
            linked.add((page.parent / link.partition("#")[0]).resolve())

    assert set((ROOT / "docs").glob("*.md")) <= linked


def test_paths_that_code_names_are_there() -> None:
    folders = ("dlq", "spark_reprocess", "functions", "layers")
    sources = [
        ROOT / "template.yaml",
        *(p for folder in folders for p in (ROOT / folder).rglob("*.py")),
    ]
    named: set[str] = set()
    for path in sources:
        named.update(re.findall(r"docs/[\w/-]+\.md", path.read_text("utf-8")))

    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def commands(text: str) -> Iterator[str]:
    """Lines of shell blocks, and words in the text that begin with dlq and name a verb."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    for command in [*lines, *re.findall(r"`(dlq [^`]+)`", without_code(text))]:
        if re.match(r"dlq [a-z]", command) and "…" not in command:
            yield command


OF_USERS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = sorted({command for page in OF_USERS for command in commands(PAGES[page])})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_documented_command_has_a_verb_and_options_that_there_are(command: str) -> None:
    assert len(COMMANDS) > 30
    _, name, *words = shlex.split(command, comments=True)
    parser, _ = program._parser_of(name)  # noqa: SLF001 - the parser of a verb is not public
    options = set(parser._option_string_actions)  # noqa: SLF001 - argparse has no other list

    used = {argument.partition("=")[0] for argument in words if argument.startswith("--")}

    assert name in ALL_VERBS
    assert used <= options


def test_a_deployment_that_is_documented_as_one_command_asks_no_question() -> None:
    """``samconfig.toml`` lets a deployment ask, and in a pipeline it would fail."""
    pages = "\n".join(PAGES[page] for page in OF_USERS)
    deployments = re.findall(r"^make build && \S+sam deploy (?:.*\\\n)*.*", pages, re.MULTILINE)

    assert len(deployments) > 2
    assert all("--no-confirm-changeset" in command.split() for command in deployments)


def test_make_pictures_draws_every_picture_and_a_page_shows_it() -> None:
    pages = "\n".join(PAGES.values())
    makefile = (ROOT / "Makefile").read_text("utf-8")
    scripts = ""
    for script in re.findall(r"scripts/draw_\w+\.py", makefile):
        scripts += (ROOT / script).read_text("utf-8")

    pictures = sorted(path.name for path in (ROOT / "docs" / "images").iterdir())
    assert pictures
    for picture in pictures:
        assert f"images/{picture})" in pages, picture
        assert f'"{picture}"' in scripts, picture


def test_what_the_circuit_breaker_reads_is_in_the_costs() -> None:
    """Once a minute, for as long as some messages come back in each hour."""
    a_month = 43_200 * generate_docs.metrics_read() * 0.01 / 1_000
    page = PAGES[ROOT / "docs" / "growth.md"]
    (row,) = re.findall(r"^\| the circuit breaker of a main queue .*", page, re.MULTILINE)

    assert generate_docs.metrics_read() > 0
    assert f"${a_month:.2f}" in row


def first_column(text: str, start: str) -> set[str]:
    """Names in the first column of the table behind *start*."""
    table = re.search(r"\n(\|.*?)\n\n", text[text.index(start) :], re.DOTALL)
    assert table, f"no table behind {start!r}"
    rows = table[1].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_every_column_of_the_archive_is_documented() -> None:
    documented = first_column(PAGES[ROOT / "docs" / "analysis.md"], "The columns:")

    assert documented == {*ARROW_SCHEMA.names, "drain_id"}


def test_every_key_of_the_context_is_documented() -> None:
    full = ReplayContext(
        first_id="i",
        body_digest="0123abcd",
        first_seen_seconds=1,
        due_seconds=2,
        reason="r",
        error=FailureError("E", "m"),
        plan_id="p",
        source_queue="q",
        held_seconds=4,
        group_id="g",
        is_back=True,
        in_step=True,
        last_id="l",
    )

    assert None not in full
    keys = json.loads(full.to_json()).keys()
    assert first_column(REFERENCE, "Keys of `sqs-dlq-context`") == keys


def section(heading: str) -> str:
    section = re.split(rf"^##+ {re.escape(heading)}$", REFERENCE, flags=re.MULTILINE)[1]
    return re.split(r"^##+ ", section, flags=re.MULTILINE)[0]


EXAMPLES = re.findall(
    r"^\| `(.+?)`, `(.+?)` \| (\d) \| ", PAGES[ROOT / "docs" / "analysis.md"], re.MULTILINE
)


def test_the_examples_of_what_makes_a_group_are_true() -> None:
    assert len(EXAMPLES) == 10
    for first, second, groups in EXAMPLES:
        keys = [signature_of("", None, "Error", text).group_key for text in (first, second)]
        _, grouping = grouped((), dict.fromkeys(keys, 10))

        assert len(set(grouping.ids.values())) == int(groups), first


def test_every_verb_has_a_row() -> None:
    cells = re.findall(r"^\| (`[a-z].*?) \|", section("Verbs"), re.MULTILINE)

    assert {name for cell in cells for name in re.findall(r"`([a-z]+)", cell)} == set(ALL_VERBS)


def test_the_options_that_a_stack_fills_in_are_named() -> None:
    row = next(entry for entry in section("Verbs").split("\n- ") if "DLQ_STACK" in entry)

    filled_in = {option for verb in VERBS for option in stack_options(load(verb))}
    assert filled_in == set(re.findall(r"--[a-z-]+", row)) - {"--stack"}


def test_every_exit_code_has_a_row() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)}
    there = {getattr(verb, name) for name in dir(verb) if name.isupper()}

    assert codes == {code for code in there if isinstance(code, int)}


def test_every_cause_of_a_stop_has_a_row() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (.+?) \| (\d+) \| (.+?) \|$", section("Why a run stopped"), re.MULTILINE
    )
    documented = {cause: (sentence, int(code), reach) for cause, sentence, code, reach in rows}
    reaches = {True: {"one destination"}, False: {"the run", "a rehearsal"}}

    assert set(documented) == set(StopCause)
    for cause in StopCause:
        sentence, exit_code, reach = documented[cause]
        assert (sentence, exit_code) == (cause.sentence, cause.exit_code)
        assert reach in reaches[cause.stops_one_destination]


def test_every_state_of_a_message_is_named() -> None:
    assert set(re.findall(r"`(\w+)`", section("States of a message"))) == set(Disposition)


def names(*values: type) -> set[str]:
    return {field.name for value in values for field in fields(value)}


@pytest.mark.parametrize(
    ("heading", "there_are"),
    [
        ("groups", names(ListedGroup, GroupsOfReport)),
        (
            "status",
            names(ArchiveStatus, QueueCounts, DrainCount, PlanCount, BlockingMessage, NewestReport),
        ),
        ("show", names(DeadLetterHistory, ArchivedCopy, LedgerEntry)),
        ("show", names(RunHistory, RunRecord, Outcome, GroupPlaces, DifferingWord)),
        ("status without a stack", names(StackValues)),
        ("doctor", names(StackFinding, Check, ExaminedDlq) | set(Severity)),
        ("collect", names(DrainSummary, QueueCounts)),
        ("rehearse", names(Rehearsal, RehearsalOutcome, Stop)),
        ("redrive", names(RedriveSummary, Tally, EditSample, Forecast, GroupRamp, Stop)),
        ("erase", names(EraseSummary)),
        ("look", names(QueueFacts, QueueCounts, Received, HiddenMessage) | set(End)),
        ("find", names(ArchiveMatches, ArchivedMatch)),
        ("run", names(RunSummary, Pending)),
    ],
)
def test_every_field_of_a_json_answer_is_named(heading: str, there_are: Collection[str]) -> None:
    assert set(there_are) <= set(re.findall(r"`(\w+)`", section(heading)))
