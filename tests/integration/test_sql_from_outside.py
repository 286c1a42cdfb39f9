"""SQL of operators, plans and policies cannot run code, read files or change its meaning."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dlq.archive.messages.message_store import message_files, rows_by_file
from dlq.cli.running import exit_code_of, parse
from dlq.engine import Engine
from tests.integration.conftest import Capture, MakeQueue
from tests.integration.desk import MakeDesk
from tests.integration.spark_world import Spark, analyzed, archive_of, parked, receive_all
from tests.support.approved_plan import approve, planned
from tests.support.builders import message
from tests.support.small_jobs import ANALYZE

SET_PROPERTY = "java_method('java.lang.System', 'setProperty', 'dlq.test', 'was here')"
REFUSED = {
    SET_PROPERTY: ("java_method()", "is not allowed"),
    "(SELECT value FROM text.`/no/such/file`)": ("Subquery", "is not allowed"),
    "current_timestamp": ("current_timestamp", "gives the current time"),
}
"""Refused texts, with the parts of the sentence: what it is, and the rule or the fix."""


pytestmark = pytest.mark.both_engines


def as_condition(sql: str) -> str:
    return f"({sql}) IS NOT NULL"


def run_on(engine: Engine, argv: Sequence[str]) -> int:
    """Run a verb on that engine; return its exit code."""
    return exit_code_of(lambda: replace(parse([*argv]), engine=engine.name).run())


@pytest.fixture(autouse=True)
def nothing_was_called(started_spark: Spark) -> Iterator[None]:
    yield
    jvm = started_spark._jvm  # noqa: SLF001 - no public way
    assert jvm is not None
    system = jvm.java.lang.System
    value = system.getProperty("dlq.test")
    system.clearProperty("dlq.test")
    assert value is None


@pytest.mark.parametrize("verb", ["collect", "redrive", "restore", "erase"])
def test_every_verb_with_a_where_refuses(
    verb: str, engine: Engine, make_queue: MakeQueue, tmp_path: Path, capsys: Capture
) -> None:
    archive = archive_of(tmp_path, [parked(1)])
    queue = make_queue("queue")
    execute = ["--execute", "--reason", "a test"]
    options = {
        "collect": ["--only", "analyze"],
        "redrive": ["--plan", planned(archive), "--to-queue-url", queue.url, *execute],
        "restore": ["--parked-queue-url", queue.url, *execute],
        "erase": execute,
    }[verb]
    reports = archive.list("reports")

    for sql, error_message in REFUSED.items():
        argv = [verb, "--archive", archive.root, *options, "--where", as_condition(sql)]
        assert run_on(engine, argv) == 2
        sentence = capsys.readouterr().err
        assert all(part in sentence for part in ("--where", *error_message))
    assert receive_all(queue) == []
    assert archive.list("reports") == reports


def test_a_plan_with_a_refused_condition_does_not_keep_a_message_from_being_erased(
    engine: Engine, tmp_path: Path
) -> None:
    archive = archive_of(tmp_path, [parked(1), parked(2)])
    planned(archive, where=as_condition(SET_PROPERTY), chosen=("m-001", "m-002"))

    argv = ["erase", "--archive", archive.root, "--id", "m-001", "--execute", "--reason", "asked"]

    assert run_on(engine, argv) == 0
    [(_, rows)] = rows_by_file(archive, message_files(archive), ["message_id"])
    assert rows["message_id"].to_pylist() == ["m-002"]


def test_a_name_in_braces_is_text_and_no_variable_of_the_machine(make_desk: MakeDesk) -> None:
    """Spark by itself replaces ``${env:NAME}`` by the value that the environment has."""
    name = "${env:PATH}"
    desk = make_desk([message("m-1", name), message("m-2", "other")])
    findings = analyzed(desk.engine, desk.archive, where=f"body = '{name}'")
    plan = approve(Path(findings.plan_path))
    content = yaml.safe_load(plan.read_text())
    content["groups"][0]["set_attributes"] = {"given": f"'{name}'"}
    plan.write_text(yaml.safe_dump(content))

    desk.redrive(str(plan))

    [sent] = receive_all(desk.destination)
    assert (sent.body, sent.attributes["given"].value) == (name, name)


def test_a_condition_beside_since_must_be_one_by_itself(
    engine: Engine, tmp_path: Path, capsys: Capture
) -> None:
    archive = archive_of(tmp_path, [parked(1)])
    argv = [*ANALYZE, "--archive", archive.root, "--since", "7d", "--where", "1=1) OR (1=1"]

    assert run_on(engine, argv) == 2
    assert "--where '1=1) OR (1=1': cannot be read" in capsys.readouterr().err
