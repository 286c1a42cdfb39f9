"""The verb ``rehearse``, from the command line to the archive, without Spark."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from dlq_cli.__main__ import main
from dlq_cli.rehearse.aws_answers import Answer
from dlq_cli.rehearse.aws_requests import Call, Request
from dlq_cli.rehearse.rehearsal import RehearsalOptions
from dlq_cli.rehearse.rehearsal import rehearse as run_rehearsal
from dlq_cli.rehearse.sandbox import Code
from spark_reprocess.analysis.mask import compile_masks
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.erasures import Erasure, mark_done, record_erasure
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import Claim, Result, timestamp
from spark_reprocess.archive.rehearsals import newest_rehearsal, read_verdicts, write_rehearsal
from spark_reprocess.editing.edit import Edit
from spark_reprocess.errors import InputError
from tests.builders import NOW, message, text
from tests.ledgers import Try, write
from tests.needs import needs_namespaces
from tests.rehearsals import archived, order, plan_of, rehearse, write_app

pytestmark = needs_namespaces

APP = """
import json
import boto3

table = boto3.client("dynamodb")

def lambda_handler(event, context):
    for record in event["Records"]:
        body = json.loads(record["body"])
        if body["id"] == 3:
            table.get_item(TableName="rates", Key={"id": {"S": "3"}})
        body["vat"]
        table.put_item(TableName="orders", Item={"id": {"N": str(body["id"])}})
"""


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return archived(tmp_path, [order(n, vat=n != 1) for n in range(5)])


def only_group(archive: Archive) -> tuple[str, str]:
    plan = plan_of(archive)
    (group,) = plan.groups
    return plan.plan_id, group.group_id


def settle(archive: Archive, plan_id: str, outcomes: Mapping[str, Disposition]) -> None:
    """Write what a redrive of the plan did."""
    time = timestamp(NOW)
    claim = Claim("run", "me@here", "fixed", "https://q", time, tuple(outcomes))
    results = tuple(Result(one, outcome, time) for one, outcome in outcomes.items())
    write(archive, [Try(plan_id, claim, results)])


def verdicts(archive: Archive, plan_id: str, group_id: str) -> dict[str, str]:
    rehearsal = newest_rehearsal(archive, plan_id, group_id)
    assert rehearsal is not None
    rows = read_verdicts(archive, rehearsal).to_pylist()
    return {row["message_id"]: row["verdict"] for row in rows}


def test_verdicts_are_printed_and_stored(
    archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_id, group_id = only_group(archive)

    assert rehearse(archive, group_id, write_app(tmp_path, APP)) == 1

    lines = capsys.readouterr().out.splitlines()
    assert (
        "5 messages: 3 would pass, 1 fail with KeyError: 'vat' (a new kind), "
        "1 unknown (dynamodb:GetItem is not stubbed) · recorded: 3 dynamodb:PutItem"
    ) in lines
    assert lines[-1].endswith(f"--plan {plan_id} --group {group_id} --rehearsed")
    assert verdicts(archive, plan_id, group_id) == {
        "m-000": "pass",
        "m-001": "fail",
        "m-002": "pass",
        "m-003": "unknown",
        "m-004": "pass",
    }
    rehearsal = newest_rehearsal(archive, plan_id, group_id)
    assert rehearsal is not None
    assert rehearsal.counts == {"pass": 3, "fail": 1, "unknown": 1}
    assert not [path for path in archive.list("ledger") if "claim" in path]


def test_last_rehearsal_is_the_newest_also_where_another_machine_s_clock_is_ahead(
    archive: Archive, tmp_path: Path
) -> None:
    plan_id, group_id = only_group(archive)
    code = write_app(tmp_path, APP)
    rehearse(archive, group_id, code)
    first = newest_rehearsal(archive, plan_id, group_id)
    assert first is not None
    ahead = replace(first, rehearsal_id="20991231T000000Z-00000abcdef", who="ann@fast")
    write_rehearsal(archive, ahead, [])

    rehearse(archive, group_id, code)

    last = newest_rehearsal(archive, plan_id, group_id)
    assert last is not None
    assert (last.who, last.counts) == (first.who, first.counts)
    assert last.rehearsal_id != first.rehearsal_id


def test_what_is_redriven_already_is_not_rehearsed(archive: Archive, tmp_path: Path) -> None:
    plan_id, group_id = only_group(archive)
    code = write_app(tmp_path, APP)
    settle(archive, plan_id, {"m-000": Disposition.SENT, "m-001": Disposition.DISCARDED})

    rehearse(archive, group_id, code)

    assert list(verdicts(archive, plan_id, group_id)) == ["m-002", "m-003", "m-004"]


def test_group_of_which_all_is_decided_is_refused(
    archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_id, group_id = only_group(archive)
    settle(archive, plan_id, {f"m-{n:03d}": Disposition.SENT for n in range(5)})

    assert rehearse(archive, group_id, write_app(tmp_path, APP)) == 2
    assert f"group {group_id}: each of its messages is redriven" in capsys.readouterr().err


def test_stub_makes_the_unknown_known(archive: Archive, tmp_path: Path) -> None:
    plan_id, group_id = only_group(archive)
    stub = tmp_path / "stubs.json"
    stub.write_text(json.dumps([{"call": "dynamodb:GetItem", "answer": {}}]))

    assert rehearse(archive, group_id, write_app(tmp_path, APP), "--stub", str(stub)) == 1

    assert verdicts(archive, plan_id, group_id)["m-003"] == "pass"


def test_failure_of_the_group_s_own_kind_is_not_new(
    archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, group_id = only_group(archive)
    code = write_app(
        tmp_path,
        """
        def lambda_handler(event, context):
            raise TimeoutError("no answer after 5 s")
        """,
    )

    assert rehearse(archive, group_id, code) == 1

    said = capsys.readouterr().out
    assert "5 messages: 0 would pass, 5 fail with TimeoutError: no answer after 5 s\n" in said


def test_all_pass_is_exit_code_0_and_json_says_what_was_rehearsed(
    archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_id, group_id = only_group(archive)
    code = write_app(tmp_path, "def lambda_handler(event, context):\n    print('to stdout')\n")

    assert rehearse(archive, group_id, code, "--json", "--limit", "2") == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["version"] == 1
    assert (answer["plan_id"], answer["group_id"]) == (plan_id, group_id)
    assert answer["counts"] == {"pass": 2, "fail": 0, "unknown": 0}
    assert answer["kinds"][0]["examples"] == ["m-000", "m-001"]
    assert answer["code"].startswith("sha256 ")


def test_swallowed_error_of_a_read_is_unknown(archive: Archive, tmp_path: Path) -> None:
    plan_id, group_id = only_group(archive)
    code = write_app(
        tmp_path,
        """
        import boto3

        def lambda_handler(event, context):
            try:
                boto3.client("ssm").get_parameter(Name="/rate")
            except Exception:
                pass
        """,
    )

    assert rehearse(archive, group_id, code) == 1

    assert set(verdicts(archive, plan_id, group_id).values()) == {"unknown"}


def test_read_at_import_concerns_every_message(archive: Archive, tmp_path: Path) -> None:
    plan_id, group_id = only_group(archive)
    code = write_app(
        tmp_path,
        """
        import boto3

        try:
            boto3.client("ssm").get_parameter(Name="/rate")
        except Exception:
            pass

        def lambda_handler(event, context):
            return None
        """,
    )

    assert rehearse(archive, group_id, code) == 1

    assert set(verdicts(archive, plan_id, group_id).values()) == {"unknown"}


def test_failures_are_masked(
    archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_id, group_id = only_group(archive)
    code = write_app(
        tmp_path,
        """
        def lambda_handler(event, context):
            raise ValueError("jane@example.org of Elm Street")
        """,
    )
    junit = tmp_path / "junit.xml"

    assert rehearse(archive, group_id, code, "--mask", "Elm", "--junit", str(junit)) == 1

    printed = capsys.readouterr().out
    stored = [archive.read(path) for path in archive.list("rehearsals")]
    rehearsal = newest_rehearsal(archive, plan_id, group_id)
    assert rehearsal is not None
    reasons = read_verdicts(archive, rehearsal)["reason"].to_pylist()
    assert set(reasons) == {"ValueError: *** of *** Street"}
    for shown in (printed, junit.read_text(), str(stored)):
        assert "jane" not in shown
        assert "Elm" not in shown


def test_junit_has_a_case_for_each_message(archive: Archive, tmp_path: Path) -> None:
    _, group_id = only_group(archive)
    app = APP.replace('body["vat"]', 'raise KeyError("\\x00<&\\ud800" + record["body"])')
    junit = tmp_path / "junit.xml"

    assert rehearse(archive, group_id, write_app(tmp_path, app), "--junit", str(junit)) == 1

    (suite,) = ET.parse(junit).getroot()  # noqa: S314 - our own
    assert suite.attrib["tests"] == "5"
    assert (suite.attrib["failures"], suite.attrib["errors"]) == ("4", "1")
    assert [case.attrib["name"] for case in suite] == [f"m-{n:03d}" for n in range(5)]
    assert {case[0].tag for case in suite} == {"failure", "error"}


def test_plan_s_edit_is_applied(tmp_path: Path) -> None:
    archive = archived(tmp_path, [order(n, vat=False) for n in range(2)])
    plan = plan_of(archive)
    (group,) = plan.groups
    path = Path(archive.root, "reports", plan.plan_id, "plan.yaml")
    edit = "  edit:\n  - {op: add, path: /vat, value: 19}\n"
    path.write_text(path.read_text().replace("  title:", f"{edit}  title:"))
    code = write_app(
        tmp_path,
        """
        import json

        def lambda_handler(event, context):
            (record,) = event["Records"]
            assert json.loads(record["body"])["vat"] == 19
            assert "sqs-dlq-context" in record["messageAttributes"]
            assert record["eventSourceARN"] == "arn:aws:sqs:us-east-1:123456789012:orders"
        """,
    )

    assert rehearse(archive, group.group_id, code) == 0

    rehearsal = newest_rehearsal(archive, plan.plan_id, group.group_id)
    assert rehearsal is not None
    assert len(rehearsal.edit) == 16
    assert newest_rehearsal(archive, plan.plan_id, group.group_id, edit="") is None


def test_message_that_the_edit_does_not_fit_fails(tmp_path: Path) -> None:
    archive = archived(tmp_path, [order(0), message("m-text", "no JSON", {"a": text("b")})])
    plan = plan_of(archive)
    group = next(one for one in plan.groups if "Timeout" not in one.title)
    path = Path(archive.root, "reports", plan.plan_id, "plan.yaml")
    edit = "  edit:\n  - {op: add, path: /vat, value: 19}\n"
    path.write_text(path.read_text().replace("  title:", f"{edit}  title:"))
    code = write_app(tmp_path, "def lambda_handler(event, context):\n    return None\n")

    place = ("--main-queue-url", "https://sqs.us-east-1.amazonaws.com/123456789012/orders")
    assert rehearse(archive, group.group_id, code, *place) == 1

    assert verdicts(archive, plan.plan_id, group.group_id) == {"m-text": "fail"}


def test_interrupted_rehearsal_stores_nothing(archive: Archive, tmp_path: Path) -> None:
    plan_id, group_id = only_group(archive)
    log = tmp_path / "handler.log"
    code = write_app(
        tmp_path,
        """
        import time

        def lambda_handler(event, context):
            print("begun", flush=True)
            time.sleep(600)
        """,
    )
    words = ["--archive", archive.root, "--group", group_id, "--path", str(code)]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "dlq_cli", "rehearse", *words),
            *("--handler", "app:lambda_handler", "--log", str(log), "--timeout-seconds", "600"),
        ],
        env={**os.environ, "PYTHONPATH": ".:layers/core"},
        stderr=subprocess.PIPE,
    )
    waited = threading.Event()
    while not (log.exists() and log.read_text()) and process.poll() is None:
        waited.wait(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()

    assert process.returncode == 130
    assert b"no verdict was stored" in stderr
    assert newest_rehearsal(archive, plan_id, group_id) is None


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--handler", "app"], "write MODULE:FUNCTION"),
        (["--path", "/nowhere"], "is no folder"),
        (["--allow", "dynamodb:PutItem"], "may change something"),
        (["--allow", "dynamodb:Nothing"], "has no operation"),
        (["--stub", "/nowhere.yaml"], "No such file"),
        (["--env", "secret"], "write NAME=VALUE"),
        (["--group", "g-none"], "has no group g-none"),
        (["--python", "/nowhere"], "is no program"),
    ],
)
def test_bad_input_is_exit_code_2(
    archive: Archive,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    fault: str,
) -> None:
    _, group_id = only_group(archive)
    code = write_app(tmp_path, "def lambda_handler(event, context):\n    return None\n")

    assert rehearse(archive, group_id, code, *words) == 2

    assert fault in capsys.readouterr().err


def test_variables_reach_the_handler(archive: Archive, tmp_path: Path) -> None:
    _, group_id = only_group(archive)
    file = tmp_path / "variables"
    file.write_text("# of the function\nexport TABLE=orders\nMODE=old\n")
    code = write_app(
        tmp_path,
        """
        import os

        def lambda_handler(event, context):
            assert (os.environ["TABLE"], os.environ["MODE"]) == ("orders", "new=1")
        """,
    )

    words = ("--env-file", str(file), "--env", "MODE=new=1")
    assert rehearse(archive, group_id, code, *words) == 0


def test_without_isolation_it_runs_only_if_told(
    archive: Archive,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan_id, group_id = only_group(archive)
    code = write_app(tmp_path, "def lambda_handler(event, context):\n    return None\n")
    inside = Path("dlq_cli/rehearse/inside.py").read_text()
    refusing = inside.replace('    if sys.platform != "linux":', "    if True:")
    monkeypatch.setattr("dlq_cli.rehearse.sandbox.program_text", lambda: refusing)

    assert rehearse(archive, group_id, code) == 2
    assert "--image, which needs docker or podman, or --allow-network" in capsys.readouterr().err
    assert rehearse(archive, group_id, code, "--allow-network") == 0

    rehearsal = newest_rehearsal(archive, plan_id, group_id)
    assert rehearsal is not None
    assert not rehearsal.is_isolated
    assert "was not isolated" in capsys.readouterr().out


def test_fifo_message_comes_with_its_group_and_a_redrive_s_deduplication_id(
    tmp_path: Path,
) -> None:
    fields: dict[str, Any] = {"MessageGroupId": "g", "SequenceNumber": "18893244870612992256"}
    archive = archived(tmp_path, [order(0, source="orders.fifo", **fields)], "parked.fifo")
    plan = plan_of(archive)
    code = write_app(
        tmp_path,
        f"""
        def lambda_handler(event, context):
            system = event["Records"][0]["attributes"]
            assert system["MessageGroupId"] == "g"
            assert system["MessageDeduplicationId"] == "m-000:{plan.plan_id}"
            assert len(system["SequenceNumber"]) == 20
            assert system["ApproximateReceiveCount"] == "1"
        """,
    )

    assert rehearse(archive, plan.groups[0].group_id, code) == 0


def test_help_names_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rehearse", "--help"]) == 0
    assert "docs/rehearse.md" in capsys.readouterr().out


def test_message_without_a_known_source_is_unknown_and_stops_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = message("m-bare", '{"id": 9}', {})
    archive = archived(tmp_path, [bare])
    plan = plan_of(archive)
    code = write_app(tmp_path, "def lambda_handler(event, context):\n    return None\n")

    assert rehearse(archive, plan.groups[0].group_id, code) == 1

    assert "its source queue is not recorded: give --main-queue-url" in capsys.readouterr().out


ERASURE = Erasure("20261122T000000Z-ab12cd", "jo", "asked for", "", {"m-002": ["d"]}, {}, ())


@pytest.mark.parametrize("is_under_way", [False, True])
def test_messages_that_are_erased_meanwhile_leave_no_verdict(
    archive: Archive, tmp_path: Path, *, is_under_way: bool
) -> None:
    """Also where the erase had begun before: it may look for verdicts before there are any."""
    plan_id, group_id = only_group(archive)
    code = write_app(tmp_path, "def lambda_handler(event, context):\n    return None\n")
    if is_under_way:
        record_erasure(archive, ERASURE)

    @contextmanager
    def erasing(label: str, status: Callable[[], str]) -> Iterator[None]:
        if not is_under_way:
            record_erasure(archive, ERASURE)
        yield
        mark_done(archive, ERASURE.erase_id)

    options = RehearsalOptions(
        archive=archive.root,
        plan=None,
        group=group_id,
        main_queue_url=None,
        code=Code("app:lambda_handler", code, None, sys.executable, {}, "eu-west-1", 10.0, 1024),
    )

    with pytest.raises(InputError, match="erased meanwhile"):
        run_rehearsal(options, no_forward, no_changes, compile_masks(()), erasing)

    assert newest_rehearsal(archive, plan_id, group_id) is None
    assert archive.list("rehearsals") == []


def test_messages_that_came_back_after_they_were_erased_are_rehearsed(
    archive: Archive, tmp_path: Path
) -> None:
    record_erasure(archive, ERASURE)
    mark_done(archive, ERASURE.erase_id)
    plan_id, group_id = only_group(archive)
    code = write_app(tmp_path, "def lambda_handler(event, context):\n    return None\n")

    assert rehearse(archive, group_id, code) == 0
    assert newest_rehearsal(archive, plan_id, group_id) is not None


def no_forward(request: Request, call: Call) -> Answer:
    raise AssertionError(call.name)


def no_changes(rows: Sequence[Any], edit: Edit) -> dict[str, list[Any]]:
    raise AssertionError(edit)
