"""The actor of a run: by AWS's word, beside the name that the environment gives."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.ledger.claims import attempt_names
from dlq.archive.ledger.erasures import erasures
from dlq.archive.storage.files import Archive
from dlq.cli.running import main
from dlq.engine import Engine
from tests.integration.conftest import Capture, MakeQueue
from tests.integration.spark_world import archive_of, executed, parked
from tests.support.approved_plan import planned
from tests.support.glue_run import run_on_glue

MOTO_S_CALLER = "arn:aws:sts::123456789012:user/moto"


@pytest.fixture(autouse=True)
def sts(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", moto_endpoint)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return archive_of(tmp_path, [parked(2 * n) for n in range(3)])


def records(archive: Archive) -> list[dict[str, Any]]:
    paths = [path for path in archive.list("ledger/runs") if path.endswith(".json")]
    run_records = [json.loads(archive.read(path) or b"") for path in paths]
    for path, record in zip(paths, run_records, strict=True):
        assert path == f"ledger/runs/{record['plan_id']}/{record['run_id']}.json"
    return run_records


@pytest.mark.on_spark
def test_a_redrive_records_whose_credentials_it_had_and_which_job_run_it_was(
    engine: Engine,
    make_queue: MakeQueue,
    archive: Archive,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    queue = make_queue("main")
    plan = planned(archive)
    monkeypatch.setenv("LOGNAME", "somebody-else")
    place = f"--archive {archive.root} --plan {plan} --to-queue-url {queue.url}"
    command = f"redrive {place} --execute --reason 'it is fixed'"

    run_on_glue(["--JOB_RUN_ID", "jr_17", "--command-line", command], main)

    (record,) = records(archive)
    actor = record.pop("actor")
    assert actor.startswith("somebody-else@")
    assert record.pop("time").endswith("+00:00")
    assert {name.plan_id for name in attempt_names(archive)} == {record["plan_id"]}
    assert record == {
        "run_id": record["run_id"],
        "plan_id": record["plan_id"],
        "verb": "redrive",
        "caller": {"caller_arn": MOTO_S_CALLER, "caller_fault": "", "job_run_id": "jr_17"},
        "reason": "it is fixed",
        "destination": queue.url,
        "destinations": [queue.url],
        "policy_sha256": None,
    }
    capsys.readouterr()
    assert main(["show", "--archive", archive.root, "m-000"]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {f"who {actor}", f"caller {MOTO_S_CALLER}, job run jr_17"} < set(shown)


def test_a_redrive_goes_on_where_sts_cannot_be_reached_and_says_so(
    engine: Engine,
    make_queue: MakeQueue,
    archive: Archive,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")

    sent = executed(engine, archive, planned(archive), make_queue("main").url)

    assert sent.count("sent") == 3
    (record,) = records(archive)
    assert record["caller"]["caller_arn"] is None
    assert "EndpointConnectionError" in record["caller"]["caller_fault"]
    main(["show", "--archive", archive.root, "m-000"])
    assert "    caller       unknown (EndpointConnectionError" in capsys.readouterr().out


def test_a_restore_is_recorded(engine: Engine, make_queue: MakeQueue, archive: Archive) -> None:
    queue = make_queue("parked")
    place = ["--archive", archive.root, "--parked-queue-url", queue.url]

    assert main(["restore", *place, "--execute", "--reason", "look again"]) == 0

    (record,) = records(archive)
    assert (record["verb"], record["caller"]["caller_arn"]) == ("restore", MOTO_S_CALLER)
    assert record["plan_id"].startswith("restore-")


def test_an_erasure_records_whose_credentials_it_had(archive: Archive) -> None:
    erase = ["erase", "--archive", archive.root, "--id", "m-000"]

    assert main([*erase, "--execute", "--reason", "request 17"]) == 0

    (erasure,) = erasures(archive)
    assert erasure.caller.caller_arn == MOTO_S_CALLER
