"""``erase`` in a real Spark session, and what other verbs do after messages have expired."""

import itertools
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from dlq.archive.ledger.erasures import erasures
from dlq.archive.storage.files import Archive, open_archive
from dlq.aws.clients import aws_client
from dlq.cli.command import main
from dlq.engine import Engine
from dlq.erase import erase as erase_module
from dlq.erase.erase import EraseRequest, EraseSummary, erase
from dlq.errors import ArchiveError, BusyError, InputError
from dlq.explain.analyze import AnalysisRequest, analyze
from dlq.redrive.request import RestoreRequest
from dlq.redrive.restore import restore
from dlq.stack.glue_runs import read_result
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import SendEntry
from tests.contract.template import ROOT
from tests.integration.conftest import Capture, MakeQueue
from tests.integration.spark_world import (
    analyzed,
    archive_of,
    bodies,
    executed,
    parked,
    receive_all,
    recorded_as_sent,
    reported,
)
from tests.support.approved_plan import approve, planned
from tests.support.archive_files import unnamed_files
from tests.support.archived_rows import archived_ids
from tests.support.builders import NOW, context, message, text
from tests.support.glue_run import run_on_glue
from tests.support.small_jobs import ANALYZE, DRAIN

LATER = "20261122T000000Z-000000"


def erased(engine: Engine, archive: Archive, *ids: str, **options: object) -> EraseSummary:
    fixed: dict[str, object] = {"execute": True, "reason": "asked to", **options}
    return erase(engine, archive, EraseRequest(ids, **fixed))  # type: ignore[arg-type]


def everything(archive: Archive) -> bytes:
    return b"".join(path.read_bytes() for path in Path(archive.root).rglob("*") if path.is_file())


def test_every_copy_of_a_dead_letter_goes_and_plans_go_on_with_the_rest(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    jane = message("m-jane", '{"name":"Jane"}', context(first_id="f-jane"))
    archive = archive_of(tmp_path, [parked(0), jane])
    archive_of(tmp_path, [parked(2), jane, parked(4)])
    plan = reported(engine, archive)
    again = message("m-jane-2", '{"name":"Jane"}', context(first_id="f-jane", plan_id="p-0"))
    archive_of(tmp_path, [again, parked(6)], drain_id=LATER)
    assert b"Jane" in everything(archive)

    summary = erased(engine, archive, "m-jane", "m-nobody")

    assert (summary.messages, summary.rows, summary.unknown_ids) == (2, 3, ("m-nobody",))
    assert archived_ids(archive) == ["m-000", "m-002", "m-004", "m-006"]
    assert b"Jane" not in everything(archive)
    left = {path.split("/")[2] for path in archive.list("reports")}
    assert left == {"plan.yaml", "messages.parquet"}
    assert erasures(archive, unfinished=True) == []

    sent = executed(engine, archive, plan, destination.url)

    assert sent.count("sent") == 3
    assert sorted(bodies(receive_all(destination))) == [parked(n).body for n in (0, 2, 4)]
    assert "1 message of the plan is gone: erased or expired" in sent.notes
    assert erased(engine, archive, "m-jane").messages == 0
    assert unnamed_files(tmp_path / "archive") == []


def test_condition_of_the_document_takes_whole_words(engine: Engine, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "erase.md").read_text(encoding="utf-8")
    condition = re.findall('--where "(.+)"', page)[0]
    of_anna = ('{"to": "Anna@example.com"}', "anna@example.com", "write to anna@example.com.")
    of_others = ("joanna@example.com", "x.anna@example.com", "anna@example.com.au")
    letters = [message(body=body, message_id=body) for body in (*of_anna, *of_others)]
    archive = archive_of(tmp_path, letters)

    erase(engine, archive, EraseRequest(where=condition, execute=True, reason="asked to"))

    assert archived_ids(archive) == sorted(of_others)


def test_condition_is_not_written_down(engine: Engine, tmp_path: Path, capsys: Capture) -> None:
    archive = archive_of(tmp_path, [parked(n) for n in range(4)])
    argv = ["erase", "--archive", archive.root, "--where", "body like '%\"id\": 3}%'"]

    assert main(argv) == 0
    assert "dry run: nothing was erased" in capsys.readouterr().out
    assert len(archived_ids(archive)) == 4
    assert main([*argv, "--execute", "--reason", "asked to"]) == 0
    assert "erased 1 rows" in capsys.readouterr().out
    assert archived_ids(archive) == ["m-000", "m-001", "m-002"]
    assert b"like" not in everything(archive)
    assert main(argv[:3]) == 2
    assert "needs --id or --where or --older-than-days" in capsys.readouterr().err


NAME = "Rosenweg"
"""A text by which a person could be found; in bodies, attributes, errors and conditions."""

BY_NAME = f"body LIKE '%{NAME}%'"
REFUSED = [
    f"nosuch('{NAME}')",
    f"{NAME} = 1",
    f"body LIKE '%{NAME}",
    f"body = '{NAME}' '{NAME}' x",
    f"body > array('{NAME}')",
    f"body IN (SELECT '{NAME}')",
    f"cast(body AS int) = 5 OR {BY_NAME}",
    f"element_at(map('{NAME}', 1), body) / 0 = 1 AND {BY_NAME}",
]


def texts(archive: Archive) -> dict[Path, str]:
    """Return the readable content of each file; of Parquet, its rows."""
    files = [path for path in Path(archive.root).rglob("*") if path.is_file()]
    tables = {path: pq.read_table(path).to_pylist() for path in files if path.suffix == ".parquet"}
    return {path: f"{path} {tables.get(path) or path.read_bytes()!r}" for path in files}


def letters_with_the_name() -> list[SendEntry]:
    """Two messages with the name at every place, and one without it."""
    error = FailureError("TimeoutError", f"{NAME} is closed")
    without = '{"id": 5}'
    letters = [SendEntry(without, context(without, source_queue="main"))]
    for body in (f'{{"type": "Order", "street": "{NAME}"}}', f"{NAME}, without JSON"):
        ours = context(body, source_queue="main", reason="attempts_exhausted", error=error)
        letters.append(SendEntry(body, {**ours, "street": text(NAME)}))
    return letters


@dataclass
class OnGlue:
    """Runs verbs as AWS Glue does; what they answer is a file of the archive."""

    archive: Archive
    run_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def run(self, verb: str, *words: str) -> int:
        """Return the exit code of a run whose answer must not have the name."""
        run_id = f"jr_{next(self.run_numbers)}"
        command = shlex.join([verb, "--archive", self.archive.root, *words])
        with suppress(SystemExit):
            run_on_glue(["--JOB_RUN_ID", run_id, "--command-line", command], main)

        result = read_result(self.archive, run_id)
        assert result
        answer = result.answer + result.errors
        assert answer, words
        assert NAME not in answer, words
        return result.exit_code


def edit_each_group(plan: Path) -> None:
    edited = yaml.safe_load(plan.read_text())
    for group in edited["groups"]:
        group["edit"] = [{"op": "replace", "path": "/street", "value": "x"}]
    plan.write_text(yaml.safe_dump(edited))


def test_no_file_of_the_archive_quotes_an_erased_message_or_a_condition(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path, capfd: Capture
) -> None:
    """Results of runs on AWS Glue stay, and so does the log."""
    main_queue = make_queue("main")
    parked_queue = make_queue("parked")
    parked_queue.send(letters_with_the_name())
    archive = open_archive(str(tmp_path))
    glue = OnGlue(archive)
    to_main = ("--main-queue-url", main_queue.url)

    assert glue.run(*DRAIN, "--parked-queue-url", parked_queue.url) == 0
    for condition in REFUSED:
        assert glue.run(*ANALYZE, "--where", condition) == 2
    assert glue.run(*ANALYZE, "--where", BY_NAME) == 0
    assert glue.run(*ANALYZE) == 0
    plan = max(Path(archive.root).glob("reports/*/plan.yaml"))
    approve(plan)
    edit_each_group(plan)
    for condition in REFUSED:
        assert glue.run("redrive", *to_main, "--where", condition) == 2
    sending = ("redrive", *to_main, "--execute", "--reason", "it works", "--where", BY_NAME)
    assert glue.run(*sending) == 0
    assert any(NAME in text for text in texts(archive).values())

    erase_words = ("--where", BY_NAME, "--execute", "--reason", "request 17")
    assert main(["erase", "--archive", archive.root, *erase_words]) == 0

    assert len(archived_ids(archive)) == 1
    assert [path for path, text in texts(archive).items() if NAME in text] == []
    logged = capfd.readouterr()
    assert NAME not in logged.out + logged.err


def test_half_written_file_of_a_killed_drain_goes_too(engine: Engine, tmp_path: Path) -> None:
    archive = archive_of(tmp_path, [parked(0), message("m-jane", "Jane")])
    assert b"Jane" in everything(archive)
    half_written = tmp_path / "messages" / f"drain={LATER}" / ".writing-x"
    half_written.parent.mkdir()
    half_written.write_text("Jane")

    with pytest.raises(ArchiveError, match="is being written"):
        erased(engine, archive, "m-jane")
    os.utime(half_written, (NOW, NOW))
    erased(engine, archive, "m-000")

    assert b"Jane" not in everything(archive)


def test_a_plan_s_condition_that_names_the_person_goes_and_the_plan_goes_on(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    jane = message("m-jane", '{"name":"Jane"}', context(first_id="f-jane"))
    archive = archive_of(tmp_path, [parked(0), jane, parked(2), parked(4)])
    others = "body NOT LIKE '%Jane%' AND message_id < 'm-004'"
    of_others = planned(archive, where=others, chosen=("m-000", "m-002"))
    of_jane = planned(archive, where="body LIKE '%Jane%'", chosen=("m-jane",))
    for path in (of_others, of_jane):
        assert "Jane" in Path(path).read_text()

    erased(engine, archive, "m-jane")

    assert b"Jane" not in everything(archive)
    sent = executed(engine, archive, of_others, destination.url)
    assert sent.count("sent") == 2
    assert sorted(bodies(receive_all(destination))) == [parked(n).body for n in (0, 2)]
    nothing = executed(engine, archive, of_jane, destination.url, execute=False)
    assert [group.counts for group in nothing.groups] == [{}]


@pytest.mark.usefixtures("quick_locks")
def test_an_analysis_that_goes_on_keeps_an_erase_away_and_its_report_is_found_later(
    engine: Engine, tmp_path: Path
) -> None:
    archive = archive_of(tmp_path, [parked(0), message("m-jane", "Jane was here")])
    refusals: list[str] = []

    @contextmanager
    def erase_meanwhile(label: str, status: Callable[[], str]) -> Iterator[None]:
        del status
        yield
        if label == "looking for differences":
            try:
                erased(engine, archive, "m-jane")
            except BusyError as error:
                refusals.append(str(error))

    analyze(engine, archive, AnalysisRequest(), progress=erase_meanwhile)
    assert b"Jane" in everything(archive)
    erased(engine, archive, "m-jane")

    assert b"Jane" not in everything(archive)
    assert len(refusals) == 1
    assert refusals[0].startswith("an analysis is being carried out by ")


@pytest.fixture
def table(failure_table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A failure table with what consumers recorded of three copies."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto_endpoint)
    for key in ("f-jane", "m-jane", "somebody-else"):
        record_failure(failure_table, key)
    return failure_table


def record_failure(table: str, message_id: str) -> None:
    item = {"message_id": {"S": message_id}, "error_message": {"S": "Jane is unknown"}}
    aws_client("dynamodb").put_item(TableName=table, Item=item)


def recorded_failures(table: str) -> list[str]:
    answer = aws_client("dynamodb").scan(TableName=table)
    return sorted(item["message_id"]["S"] for item in answer["Items"])


def test_recorded_failures_go_by_every_id_that_is_known(
    engine: Engine, table: str, tmp_path: Path, capsys: Capture
) -> None:
    jane = message("m-jane", "Jane", context(first_id="f-jane", last_id="l-jane"))
    archive = archive_of(tmp_path, [parked(0), jane])
    recorded_as_sent(archive, "m-jane", "m-sent-again")
    record_failure(table, "m-sent-again")
    record_failure(table, "l-jane")
    argv = ["erase", "--archive", archive.root, "--id", "m-jane", "--reason", "asked to"]

    assert main([*argv, "--failure-table", "no-such-table", "--execute"]) == 2
    assert "--failure-table no-such-table: ResourceNotFound" in capsys.readouterr().err
    assert len(archived_ids(archive)) == 2
    assert main([*argv, "--failure-table", table]) == 0
    printed = capsys.readouterr().out
    assert "4 recorded failures in the failure table\ndry run: nothing was erased" in printed
    assert len(recorded_failures(table)) == 5
    assert main([*argv, "--failure-table", table, "--execute"]) == 0
    assert "erased 1 rows" in capsys.readouterr().out

    assert recorded_failures(table) == ["somebody-else"]
    assert erasures(archive, unfinished=True) == []


def test_recorded_failures_of_an_erasure_that_died_go_with_the_next(
    engine: Engine, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jane = message("m-jane", "Jane", context(first_id="f-jane"))
    archive = archive_of(tmp_path, [parked(0), parked(2), jane])

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(erase_module, "_delete_recorded", die)
        with pytest.raises(KeyboardInterrupt):
            erased(engine, archive, "m-jane", failure_table=table)
    assert len(recorded_failures(table)) == 3

    erased(engine, archive, "m-000")

    assert recorded_failures(table) == ["somebody-else"]
    assert erasures(archive, unfinished=True) == []


NEXT_DRAIN = "20231122T000000Z-000000"
"""Of messages as old as those of ``archive_of``."""
MONTH_SECONDS = 31 * 86_400


def expired_a_month_later(archive: Archive) -> EraseSummary:
    request = EraseRequest(older_than_days=30, execute=True)
    return erase(None, archive, request, now_seconds=lambda: time.time() + MONTH_SECONDS)


def test_archive_of_which_all_expired_can_be_analyzed_restored_and_filled_again(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    back = make_queue("parked")
    archive = archive_of(tmp_path, [parked(0), parked(2)])
    for message_id in ("m-000", "m-002"):
        recorded_as_sent(archive, message_id)
    expired_a_month_later(archive)

    # A drain that was killed had archived a message without deleting it: it comes again.
    archive_of(tmp_path, [parked(0)], drain_id=NEXT_DRAIN)
    plan = analyzed(engine, archive).plan_path
    again = executed(engine, archive, plan, destination.url)
    restored = restore(
        engine,
        archive,
        RestoreRequest((back.url,), include_foreign=True, execute=True, reason="try again"),
    )

    assert (again.count("sent"), receive_all(destination)) == (0, [])
    assert (restored.count("restored"), receive_all(back)) == (0, [])


def test_erase_finds_the_reports_that_quote_a_message_that_expired(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path
) -> None:
    """Asked for by its own id, by its first id, and by the id of a copy that came later."""
    destination = make_queue("main")
    jane = message("m-jane", "Jane was here", context(first_id="f-jane"))
    joan = message("m-joan", "Joan was here", context(first_id="f-joan"))
    judy = message("m-judy", "Judy was here", context(first_id="f-judy"))
    archive = archive_of(tmp_path, [parked(0), jane, joan, judy])
    plan = analyzed(engine, archive).plan_path
    approve(Path(plan))
    where = "message_id IN ('m-jane', 'm-joan', 'm-judy')"
    assert executed(engine, archive, plan, destination.url, where=where).count("sent") == 3
    expired_a_month_later(archive)
    again = message("m-judy-2", "Judy", context(first_id="f-judy", plan_id="p-0"))
    archive_of(tmp_path, [again], drain_id=NEXT_DRAIN)
    for name in (b"Jane", b"Joan", b"Judy"):
        assert name in everything(archive)

    asked = ("m-jane", "f-joan", "m-judy-2")
    request = EraseRequest(asked, execute=True, reason="asked to")
    summary = erase(engine, archive, request)

    assert (summary.expired, summary.unknown_ids) == (3, ())
    for name in (b"Jane", b"Joan", b"Judy"):
        assert name not in everything(archive)
    assert erase(engine, archive, request).is_empty
    with pytest.raises(InputError, match="collect --only analyze"):
        executed(engine, archive, plan, destination.url)
