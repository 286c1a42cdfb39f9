"""A mistake is found, and a halted group is answered, before any engine starts."""

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest
import yaml

from dlq.archive.group_records import add_statement
from dlq.archive.storage.files import Archive
from dlq.cli import engines
from dlq.cli.command import main
from dlq.explain.triage import Statement
from dlq_replay.aws.sqs import SqsQueue
from tests.integration.conftest import Capture, MakeQueue
from tests.support.parked_orders import archived, order, plan_of

POLICY = """\
version: 1
rules:
  - name: all of it
    when: nonsense > 0
    action: redrive
"""


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> NoReturn:
        pytest.fail("an engine is started")

    monkeypatch.setattr(engines, "engine_for", start)


@pytest.fixture
def main_queue(
    make_queue: MakeQueue, sqs_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> SqsQueue:
    monkeypatch.setenv("AWS_ENDPOINT_URL", sqs_endpoint)
    return make_queue("orders")


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return archived(tmp_path, [order(number) for number in range(3)])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("redrive --group g-nope --main-queue-url URL", "has no group g-nope; its groups are g-"),
        ("redrive", "no destination: give --main-queue-url"),
        ("redrive --main-queue-url URLx", "--main-queue-url: asking about .*NonExistentQueue"),
        ("redrive --main-queue-url orders", "--main-queue-url orders: must be a queue URL"),
        ("redrive --main-queue-url URL --where nope=1", "--where 'nope=1': nope: is no column"),
        ("redrive --main-queue-url URL --where rand()<1", r"rand\(\): is not allowed"),
        ("redrive --main-queue-url URL --where (", "--where '\\(': cannot be read"),
        ("redrive --main-queue-url URL --mask (", "--mask .*no regular expression"),
        ("redrive --main-queue-url URL --plan p-1", "p-1: No such file"),
        ("redrive --main-queue-url URL --decisions-sha256 a", "somebody has decided something"),
        ("redrive --main-queue-url URL --ramp", "--ramp: no --failure-table counts"),
        ("redrive --main-queue-url URL --execute", "--execute needs --reason"),
        ("collect --parked-queue-url URLx", "--parked-queue-url: asking about .*NonExistent"),
        ("collect --parked-queue-url URL --where nope=1", "nope: is no column"),
        ("collect --only analyze --where parked_reson=1", "did you mean parked_reason"),
        ("collect --only analyze --policy no.yaml", "--policy no.yaml: No such file"),
        ("collect --only analyze --policy POLICY", "rule 'all of it': when .*nonsense: is no col"),
        ("collect --only analyze --archive EMPTY", "EMPTY: holds no messages"),
        ("restore --parked-queue-url URLx", "--parked-queue-url: asking about .*NonExistent"),
        ("restore --parked-queue-url URL --where nope=1", "nope: is no column"),
        ("restore --parked-queue-url URL --archive EMPTY", "EMPTY: holds no messages"),
        ("erase --where nope=1", "nope: is no column"),
        ("erase --where true --id m-001", "erase needs --id or --where"),
        ("erase --where true --archive EMPTY", "EMPTY: holds no messages"),
        ("run --parked-queue-url URLx", "--parked-queue-url: asking about .*NonExistent"),
        (
            "run --parked-queue-url URL --main-queue-url URL --policy POLICY",
            "rule 'all of it': when .*nonsense: is no column",
        ),
    ],
)
def test_a_mistake_is_named(
    archive: Archive, main_queue: SqsQueue, tmp_path: Path, capsys: Capture, line: str, why: str
) -> None:
    plan_of(archive)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    named = {"URL": main_queue.url, "POLICY": str(policy), "EMPTY": str(tmp_path / "EMPTY")}
    for option, value in named.items():
        line = line.replace(option, value)
    verb, *words = line.split()
    place = [] if "--archive" in words else ["--archive", archive.root]

    assert main([verb, *place, *words]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("dlq: ")
    assert re.search(why, printed.err)


def test_a_region_that_nothing_names_is_asked_for(
    archive: Archive, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_of(archive)
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    url = "http://127.0.0.1:1/123456789012/orders"

    assert main(["redrive", "--archive", archive.root, "--main-queue-url", url]) == 2

    assert "its host names no Region; set AWS_REGION" in capsys.readouterr().err


def test_a_column_of_an_edit_that_is_mistyped_is_named(
    archive: Archive, main_queue: SqsQueue, tmp_path: Path, capsys: Capture
) -> None:
    plan_of(archive)
    [path] = Path(archive.root, "reports").glob("*/plan.yaml")
    content = yaml.safe_load(path.read_text())
    content["groups"][0]["set_attributes"] = {"tenant": "tennant"}
    path.write_text(yaml.safe_dump(content))

    assert main(["redrive", "--archive", archive.root, "--main-queue-url", main_queue.url]) == 2

    assert "tennant: is no column" in capsys.readouterr().err


@pytest.fixture
def halted(archive: Archive) -> str:
    """The id of the plan's only group, of which too much failed again."""
    [group] = plan_of(archive).groups
    why = "1 of 1 message failed again, 0 allowed"
    statement = Statement(datetime.now(UTC), "ann@desk", halted=why)
    add_statement(archive, group.group_id, statement)
    return group.group_id


def test_a_halted_group_is_answered_with_what_lets_it_go_on(
    archive: Archive, main_queue: SqsQueue, halted: str, capsys: Capture
) -> None:
    words = ["redrive", "--archive", archive.root, "--main-queue-url", main_queue.url]
    words += ["--group", halted[:5]]

    assert main(words) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "group         action   halted",
        f"{halted}  redrive       3",
        f"note: group {halted} is halted: 1 of 1 message failed again, 0 allowed; decide again",
        f"dry run: nothing would be sent to {main_queue.url}",
        f"once it is fixed: dlq decide --archive {archive.root} {halted} redrive",
    ]

    assert main([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["groups"][0]["counts"] == {"halted": 3}
    assert (answer["run_id"], answer["decisions_sha256"] != "") == ("", True)

    assert main([*words, "--execute", "--reason", "try"]) == 3
    errors = capsys.readouterr().err
    assert errors.startswith(f"dlq: halted: {halted}: more failed again than allowed")
    assert errors.endswith(f"dlq decide --archive {archive.root} {halted} redrive\n")
    assert archive.list("runs") == []


def test_what_is_decided_again_needs_an_engine(
    archive: Archive, main_queue: SqsQueue, halted: str, capsys: Capture
) -> None:
    assert main(["decide", "--archive", archive.root, halted, "redrive"]) == 0

    with pytest.raises(pytest.fail.Exception, match="an engine is started"):
        main(["redrive", "--archive", archive.root, "--main-queue-url", main_queue.url])
