"""docs/reference.md names the verbs, exit codes and JSON fields that there are."""

import re
from dataclasses import fields
from typing import Any

import pytest

from dlq_cli.__main__ import ALL_VERBS
from dlq_cli.stack.rules import Finding, Severity
from dlq_cli.stack.trial import Check
from dlq_cli.stack_values import StackValues, stack_options
from dlq_cli.verbs.rehearse import Outcome, Rehearsal
from spark_reprocess.archive.ledger.claims import RunRecord
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.clients import QueueCounts
from spark_reprocess.command_line import verb
from spark_reprocess.command_line.cli import VERBS
from spark_reprocess.command_line.verbs.groups import ListedGroup
from spark_reprocess.drain.drain import DrainSummary
from spark_reprocess.erase.erase import EraseSummary
from spark_reprocess.inspect.outcomes import Outcome as OfGroup
from spark_reprocess.inspect.show import ArchivedCopy, DeadLetterHistory, LedgerEntry, RunHistory
from spark_reprocess.inspect.status import ArchiveStatus, Blocker, DrainCount, PlanCount
from spark_reprocess.ramp.rule import Forecast, GroupRamp
from spark_reprocess.redrive.redrive_values import RedriveSummary, Tally
from spark_reprocess.redrive.resolving.editor import EditSample
from spark_reprocess.run import Pending, RunSummary
from tests.contract.template import ROOT

PAGE = (ROOT / "docs" / "reference.md").read_text("utf-8")


def section(heading: str) -> str:
    text = re.split(rf"^##+ {re.escape(heading)}$", PAGE, flags=re.MULTILINE)[1]
    return re.split(r"^##+ ", text, flags=re.MULTILINE)[0]


def test_every_verb_has_a_row() -> None:
    cells = re.findall(r"^\| (`[a-z].*?) \|", section("Verbs"), re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`([a-z]+)", cell)}

    assert named == set(ALL_VERBS)


def test_the_options_that_a_stack_fills_in_are_named() -> None:
    row = next(item for item in section("Verbs").split("\n- ") if "DLQ_STACK" in item)

    filled_in = {option for verb in VERBS for option in stack_options(verb)}
    assert filled_in == set(re.findall(r"--[a-z-]+", row)) - {"--stack"}


def test_every_exit_code_has_a_row() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)}
    there = {getattr(verb, name) for name in dir(verb) if name.isupper()}

    assert codes == {one for one in there if isinstance(one, int)}


@pytest.mark.parametrize(
    ("heading", "values"),
    [
        ("groups", [ListedGroup]),
        ("status", [ArchiveStatus, QueueCounts, DrainCount, PlanCount, Blocker]),
        ("show", [DeadLetterHistory, ArchivedCopy, LedgerEntry, RunHistory, RunRecord, OfGroup]),
        ("status without a stack", [StackValues]),
        ("doctor", [Finding, Check]),
        ("collect", [DrainSummary, QueueCounts]),
        ("rehearse", [Rehearsal, Outcome]),
        ("redrive", [RedriveSummary, Tally, EditSample, Forecast, GroupRamp]),
        ("erase", [EraseSummary]),
        ("run", [RunSummary, Pending]),
    ],
)
def test_every_field_of_a_json_answer_is_named(heading: str, values: list[Any]) -> None:
    named = set(re.findall(r"`(\w+)`", section(heading)))

    assert {field.name for value in values for field in fields(value)} <= named


def test_every_state_of_a_message_is_named() -> None:
    assert set(re.findall(r"`(\w+)`", section("States of a message"))) == set(Disposition)


def test_every_severity_of_a_finding_is_named() -> None:
    assert set(Severity) <= set(re.findall(r"`(\w+)`", section("doctor")))
