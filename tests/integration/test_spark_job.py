"""The job's verbs in a real Spark session, against an SQS server over HTTP."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
import yaml

from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import CONTEXT_ATTRIBUTE, FailureError
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message, SendEntry
from spark_reprocess.analyze import AnalysisSummary, AnalyzeOptions, analyze
from spark_reprocess.archive import Archive, open_archive
from spark_reprocess.cli import main
from spark_reprocess.drain import DrainOptions, drain
from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.ledger import Claim, Ledger, timestamp
from spark_reprocess.message_store import drain_ids, read_archive
from spark_reprocess.redrive import redrive
from spark_reprocess.redrive_values import RedriveOptions, RedriveSummary
from spark_reprocess.spark_failures import SPARK_FAILURES
from tests.builders import context, counter, message, text
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import (
    archive_of,
    bodies,
    dying_before_delete,
    losing_deletes,
    receive_all,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OWN = {
    "own-text": text("grüße"),
    "own-number": text("1.0E2", "Number.float"),
    "own-bytes": MessageAttribute("Binary.png", b"\x00\xff\x89PNG"),
}


def parked(number: int, reason: str = "attempts_exhausted", **fields: Any) -> Message:
    """A parked copy, the odd ones with a recorded error."""
    error = FailureError("TimeoutError", f"order {number} after 3 s") if number % 2 else None
    ours = {**context(first_id=f"first-{number}", reason=reason, error=error), **counter("5")}
    body = json.dumps({"type": "Order", "id": number})
    return message(f"m-{number:03d}", body, {**OWN, **ours}, **fields)


def entry_of(source: Message, **fields: Any) -> SendEntry:
    return SendEntry(source.body, source.attributes, **fields)


def approve(plan: Path, action: str = "redrive") -> Path:
    content = yaml.safe_load(plan.read_text())
    for group in content["groups"]:
        group["action"] = action
    plan.write_text(yaml.safe_dump(content))
    return plan


def analyzed(spark: "SparkSession", archive: Archive, **options: Any) -> AnalysisSummary:
    return analyze(spark, AnalyzeOptions(archive.root, **options))


def planned(spark: "SparkSession", archive: Archive, action: str = "redrive") -> str:
    return str(approve(Path(analyzed(spark, archive).plan_path), action))


def executed(
    spark: "SparkSession", archive: Archive, plan: str, url: str, **options: Any
) -> RedriveSummary:
    fixed = {"execute": True, "reason": "it is fixed", "tasks": 2}
    return redrive(spark, RedriveOptions(archive.root, plan, url, **{**fixed, **options}))


def test_three_commands_lose_nothing(
    spark: "SparkSession",
    make_queue: MakeQueue,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, destination = make_queue("parked"), make_queue("main")
    sent = [parked(number) for number in range(30)]
    for start in range(0, 30, 10):
        source.send([entry_of(one) for one in sent[start : start + 10]])
    archive = ["--archive", str(tmp_path / "my archive [1]")]
    to_main = ["--to-queue-url", destination.url, "--execute", "--reason", "fixed"]

    drained = main(["drain", *archive, "--parked-queue-url", source.url, "--wait-seconds", "0"])
    analysed = main(["analyze", *archive])
    plan = re.findall(r"edit the actions in (.*), then", capsys.readouterr().out)[0]
    redriven = main(["redrive", *archive, "--plan", str(approve(Path(plan))), *to_main])
    again = main(["redrive", *archive, "--plan", plan, *to_main])

    assert (drained, analysed, redriven, again) == (0, 0, 0, 0)
    assert receive_all(source) == []
    arrived = receive_all(destination)
    assert sorted(bodies(arrived)) == sorted(bodies(sent))
    for one in arrived:
        assert {n: a for n, a in one.attributes.items() if n != CONTEXT_ATTRIBUTE} == OWN
        assert REPLAY_COUNT_ATTRIBUTE not in one.attributes
    assert spark.sparkContext.applicationId


def test_command_line_needs_no_setup(
    sqs_endpoint: str, make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(1))])
    repository = Path(__file__).parents[2]
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    argv = ["drain", "--archive", str(tmp_path), "--parked-queue-url", source.url]

    ended = subprocess.run(
        [sys.executable, "-m", "spark_reprocess", *argv, "--wait-seconds", "0", "--tasks", "1"],
        cwd=repository,
        env={**env, "AWS_ENDPOINT_URL": sqs_endpoint},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[:2] == [
        "received  archived  deleted  left",
        "       1         1        1     0",
    ]


def test_nothing_is_deleted_when_the_write_fails(
    spark: "SparkSession",
    make_queue: MakeQueue,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = make_queue("parked", VisibilityTimeout="0")
    source.send([entry_of(parked(n)) for n in range(5)])
    (tmp_path / "messages").write_text("a file where a folder should be")
    options = DrainOptions(
        source.url, str(tmp_path), tasks=1, wait_seconds=0, visibility_timeout_seconds=1
    )

    summary = drain(spark, options)
    time.sleep(1.1)

    assert (summary.received, summary.archived, summary.deleted) == (5, 0, 0)
    assert "cannot write messages/drain_id=" in summary.stopped_by[0]
    assert len(receive_all(source)) == 5
    assert main(["analyze", "--archive", str(tmp_path)]) == 2
    assert "holds no messages; run drain first" in capsys.readouterr().err


def test_unwritable_archive_is_noticed_before_a_receive(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(1))])
    (tmp_path / "file").write_text("")

    with pytest.raises(ArchiveError, match="cannot be written: Not a directory"):
        drain(spark, DrainOptions(source.url, str(tmp_path / "file" / "archive")))
    assert [one.system["ApproximateReceiveCount"] for one in receive_all(source)] == ["1"]


@pytest.mark.parametrize("url", ["parked", "http://127.0.0.1:1/123456789012/parked"])
def test_queue_that_is_not_there_exits_with_two(
    spark: "SparkSession",
    tmp_path: Path,
    url: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["drain", "--archive", str(tmp_path), "--parked-queue-url", url]) == 2
    assert capsys.readouterr().err.startswith("spark_reprocess: --parked-queue-url")


def test_killed_drain_leaves_duplicates_that_a_read_removes(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    sent = [parked(n) for n in range(7)]
    source.send([entry_of(one) for one in sent])
    options = DrainOptions(
        source.url, str(tmp_path), tasks=1, wait_seconds=0, visibility_timeout_seconds=1
    )

    with pytest.raises(SPARK_FAILURES, match="worker exited unexpectedly"):
        drain(spark, options, make_client=dying_before_delete)
    time.sleep(1.1)
    summary = drain(spark, options)

    assert (summary.archived, summary.deleted) == (7, 7)
    rows = pq.read_table(tmp_path / "messages").num_rows
    archive = open_archive(str(tmp_path))
    assert rows == 14
    assert len(drain_ids(archive)) == 2
    read = read_archive(spark, archive).select("body", "drain_id").collect()
    assert sorted(row["body"] for row in read) == sorted(bodies(sent))
    assert {row["drain_id"] for row in read} == {drain_ids(archive)[0]}


def test_unconfirmed_deletes_are_counted_as_left(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(n)) for n in range(3)])

    summary = drain(
        spark,
        DrainOptions(source.url, str(tmp_path), tasks=1, wait_seconds=0),
        make_client=losing_deletes,
    )

    assert (summary.archived, summary.deleted, summary.left) == (3, 0, 3)


def test_limit_is_shared_by_all_tasks(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(n)) for n in range(10)])

    summary = drain(spark, DrainOptions(source.url, str(tmp_path), 2, limit=5, wait_seconds=0))

    assert summary.archived == 5
    assert len(receive_all(source)) == 5


def test_fifo_queue_is_drained_whole_with_its_groups(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked.fifo")
    for n in range(24):
        fields = {"message_group_id": f"group-{n % 3}", "deduplication_id": str(n)}
        source.send([entry_of(parked(n), **fields)])

    summary = drain(spark, DrainOptions(source.url, str(tmp_path), tasks=2, wait_seconds=0))

    assert (summary.archived, summary.deleted) == (24, 24)
    rows = read_archive(spark, open_archive(str(tmp_path))).collect()
    assert sorted((row["message_group_id"], row["deduplication_id"]) for row in rows) == sorted(
        (f"group-{n % 3}", str(n)) for n in range(24)
    )


def test_fifo_redrive_follows_the_sequence_numbers(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main.fifo")
    # The numbers grow in length, and the chunks are cut across both signature groups.
    sequence = {n: str(10**19 - 60 + n) for n in range(120)}
    archive = archive_of(
        tmp_path,
        [parked(n, MessageGroupId=f"g-{n % 3}", SequenceNumber=sequence[n]) for n in sequence],
    )

    summary = executed(spark, archive, planned(spark, archive), destination.url)

    assert summary.count("sent") == 120
    arrived: dict[str, list[int]] = {}
    for one in receive_all(destination):
        arrived.setdefault(one.message_group_id or "", []).append(json.loads(one.body)["id"])
    assert arrived == {f"g-{g}": list(range(g, 120, 3)) for g in range(3)}


def test_fifo_group_waits_behind_a_message_in_doubt(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main.fifo")
    groups = {0: "a", 1: "a", 2: "b"}
    archive = archive_of(
        tmp_path, [parked(n, MessageGroupId=g, SequenceNumber=str(n)) for n, g in groups.items()]
    )
    plan = planned(spark, archive)
    dead = Claim("run-0", "you", "", "", timestamp(time.time() - 901), ("m-000",))
    Ledger(archive, yaml.safe_load(Path(plan).read_text())["plan_id"]).claim("in-order", 1, 1, dead)

    summary = executed(spark, archive, plan, destination.url)

    assert [summary.count(word) for word in ("in_doubt", "waits", "sent")] == [1, 1, 1]
    assert bodies(receive_all(destination)) == [parked(2).body]


def test_message_without_group_is_left_by_a_fifo_queue(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main.fifo")
    archive = archive_of(tmp_path, [parked(0), parked(2, MessageGroupId="g")])

    summary = executed(spark, archive, planned(spark, archive), destination.url)

    assert (summary.count("sent"), summary.count("no_group")) == (1, 1)
    assert [(p.word, p.examples) for p in summary.problems] == [("no_group", ("m-000",))]


def test_refused_message_fails_and_exits_with_four(
    spark: "SparkSession",
    make_queue: MakeQueue,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    destination = make_queue("main", MaximumMessageSize="1024")
    archive = archive_of(tmp_path, [parked(0), message("m-big", "x" * 2000)])
    plan = planned(spark, archive)
    argv = ["redrive", "--archive", archive.root, "--plan", plan, "--to-queue-url", destination.url]

    assert main([*argv, "--execute", "--reason", "fixed"]) == 4
    assert re.search(
        r"1 failed: not sent.*\[.*InvalidParameterValue\]: m-big", capsys.readouterr().out
    )
    assert bodies(receive_all(destination)) == [parked(0).body]


def test_dry_run_sends_and_writes_nothing(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(n) for n in range(4)])

    summary = executed(spark, archive, planned(spark, archive), destination.url, execute=False)

    assert (summary.count("send"), summary.executed) == (4, False)
    assert archive.list("ledger") == []
    assert receive_all(destination) == []


def test_claim_without_result_is_in_doubt_until_told(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(n) for n in (0, 2, 4)])
    plan = planned(spark, archive)
    content = yaml.safe_load(Path(plan).read_text())
    dead = Claim("run-0", "you", "", "", timestamp(time.time() - 901), ("m-000", "m-002"))
    Ledger(archive, content["plan_id"]).claim(content["groups"][0]["id"], 1, 1, dead)

    reported = executed(spark, archive, plan, destination.url)
    first = bodies(receive_all(destination))
    told = executed(spark, archive, plan, destination.url, send_in_doubt=True)

    assert (reported.count("in_doubt"), reported.count("sent")) == (2, 1)
    assert reported.is_unfinished
    assert first == [parked(4).body]
    assert (told.count("sent"), told.count("sent_before"), told.is_unfinished) == (2, 1, False)


def test_young_claim_of_another_run_is_busy(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(0)])
    plan = planned(spark, archive)
    content = yaml.safe_load(Path(plan).read_text())
    young = Claim("run-0", "you", "", "", timestamp(time.time()), ("m-000",))
    Ledger(archive, content["plan_id"]).claim(content["groups"][0]["id"], 1, 1, young)

    summary = executed(spark, archive, plan, destination.url)

    assert (summary.count("busy"), summary.is_unfinished) == (1, True)
    assert receive_all(destination) == []


def test_foreign_messages_are_left_unless_included(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(0), parked(2, reason="foreign_source")])
    plan = planned(spark, archive)

    without = executed(spark, archive, plan, destination.url)
    including = executed(spark, archive, plan, destination.url, include_foreign=True)

    assert (without.count("sent"), without.count("foreign_source")) == (1, 1)
    assert (including.count("sent"), including.count("sent_before")) == (1, 1)


def test_where_and_limit_leave_the_rest_open(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(n) for n in range(6)])
    plan = planned(spark, archive)

    some = executed(spark, archive, plan, destination.url, where="message_id < 'm-004'", limit=3)
    rest = executed(spark, archive, plan, destination.url)

    assert (some.count("sent"), some.count("over_limit"), some.count("not_selected")) == (3, 1, 2)
    assert (rest.count("sent"), rest.count("sent_before")) == (3, 3)
    assert len(receive_all(destination)) == 6


def test_large_group_is_sent_in_chunks_at_a_rate(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(2 * n) for n in range(130)])

    summary = executed(spark, archive, planned(spark, archive), destination.url, max_rate=500.0)

    assert summary.count("sent") == 130
    assert len([p for p in archive.list("ledger") if p.endswith("result.jsonl")]) == 2


def test_discarded_and_sent_messages_leave_the_analysis(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(n) for n in range(4)])
    executed(spark, archive, planned(spark, archive), destination.url, where="message_id < 'm-002'")
    executed(spark, archive, planned(spark, archive, "discard"), destination.url)

    summary = analyzed(spark, archive)

    assert len(receive_all(destination)) == 2
    assert (summary.messages, summary.decided, summary.groups) == (4, 4, ())


def test_plan_does_not_send_what_another_plan_sent(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(n) for n in range(4)])
    first, second = planned(spark, archive), planned(spark, archive)

    executed(spark, archive, first, destination.url)
    summary = executed(spark, archive, second, destination.url)

    assert (summary.count("sent"), summary.count("sent_before")) == (0, 4)


def test_archive_that_changed_since_is_refused(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(0)])
    plan = planned(spark, archive)
    archive_of(tmp_path, [parked(2)])

    with pytest.raises(InputError, match="hold 2 messages, not the 1 that it froze"):
        executed(spark, archive, plan, destination.url)


def test_group_that_the_plan_invents_is_refused(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    archive = archive_of(tmp_path, [parked(0)])
    plan = Path(planned(spark, archive))
    plan.write_text(plan.read_text().replace("id: g-", "id: x-"))

    with pytest.raises(InputError, match="is not in the plan's snapshot"):
        executed(spark, archive, str(plan), make_queue("main").url)


def test_later_drain_does_not_disturb_an_older_plan(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    archive = archive_of(tmp_path, [parked(0)])
    plan = planned(spark, archive)
    archive_of(tmp_path, [parked(2)], drain_id="20261122T000000Z-000000")

    assert executed(spark, archive, plan, make_queue("main").url).count("sent") == 1


def test_report_says_what_failed_and_why(spark: "SparkSession", tmp_path: Path) -> None:
    secret = message("m-x", "mail bob@example.com", SentTimestamp="1700000000123")
    archive = archive_of(tmp_path, [*(parked(n) for n in range(4)), parked(5, "too_old"), secret])

    summary = analyzed(spark, archive, masks=("Order",))

    groups = {group.title: group for group in summary.groups}
    assert list(groups) == [
        "TimeoutError: order <n> after <n> s",
        "attempts_exhausted: JSON type=*** {id:number, type:string}",
        "parked_by_sqs: text mail ***",
    ]
    errors = groups["TimeoutError: order <n> after <n> s"]
    assert (errors.count, errors.share) == (3, 0.5)
    assert errors.reasons == (("attempts_exhausted", 2), ("too_old", 1))
    assert (errors.replay_count_min, errors.replay_count_max) == (5, 5)
    assert all('"type": "***"' in sample for sample in errors.samples)
    assert groups["parked_by_sqs: text mail ***"].samples == ("mail ***",)
    folder = Path(summary.folder)
    assert pq.read_table(folder / "groups.parquet").num_rows == 3
    written = json.loads((folder / "summary.json").read_text())
    assert [group["count"] for group in written["groups"]] == [3, 2, 1]
    assert written["groups"][2]["first_sent_at"] == "2023-11-14T22:13:20.123000+00:00"
    assert "bob@example.com" not in "".join(p.read_text() for p in folder.glob("*.[yj]*"))


def test_report_without_samples_shows_no_body(spark: "SparkSession", tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "archive", [parked(1)])

    summary = analyzed(spark, archive, has_samples=False, out=str(tmp_path / "out"))

    assert summary.groups[0].samples == ()
    assert (tmp_path / "out" / "plan.yaml").exists()


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("nosuch = 1", "--where 'nosuch = 1': [UNRESOLVED_COLUMN"),
        ("body = ", "--where 'body = ': [PARSE_SYNTAX_ERROR"),
        ("cast(body as int) = 1", "fails on a message: CAST_INVALID_INPUT; use forms"),
    ],
)
def test_wrong_condition_is_one_sentence_without_a_body(
    spark: "SparkSession",
    tmp_path: Path,
    where: str,
    sentence: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    archive = archive_of(tmp_path, [message("m-1", "very secret")])

    assert main(["analyze", "--archive", archive.root, "--where", where]) == 2
    shown = capfd.readouterr()
    assert sentence in shown.err
    assert "secret" not in shown.err + shown.out
    assert "Traceback" not in shown.err


def test_broken_file_in_the_archive_is_named(
    spark: "SparkSession",
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    archive = archive_of(tmp_path, [parked(1)])
    (tmp_path / "messages" / "drain_id=x").mkdir()
    (tmp_path / "messages" / "drain_id=x" / "part-1.parquet").write_bytes(b"PAR1 no PAR1")

    assert main(["analyze", "--archive", archive.root]) == 2
    assert re.search(
        r"the archive has a file that Spark cannot read: .*part-1.parquet", capsys.readouterr().err
    )
