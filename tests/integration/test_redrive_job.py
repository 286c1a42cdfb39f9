"""``redrive`` against an SQS server over HTTP."""

import json
import shlex
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import boto3
import pytest

from dlq import memory
from dlq.archive.ledger.claims import Claim, close_open_runs, timestamp
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.open_set import read_messages
from dlq.archive.messages.message_index import read_table_columns
from dlq.cli.command import main
from dlq.engine import Engine
from dlq.errors import InputError
from dlq.plan.plan_file import find_plan
from dlq.plan.plan_reading import read_plan
from dlq.redrive import run_record
from dlq.redrive.resolving import resolve
from dlq_replay.wire.message import Message
from tests.integration.conftest import MakeQueue
from tests.integration.desk import Desk, MakeDesk, standard
from tests.integration.spark_world import (
    LoggedReads,
    analyzed,
    archive_of,
    parked,
    receive_all,
    reported,
)
from tests.support.approved_plan import approve, planned
from tests.support.builders import message, queue_url
from tests.support.ledgers import begin


@pytest.mark.both_engines
def test_fifo_redrive_follows_the_sequence_numbers(make_desk: MakeDesk) -> None:
    # The numbers grow in length, and the chunks are cut across both signature groups.
    messages = []
    for n in range(120):
        sequence = str(10**19 - 60 + n)
        messages.append(parked(n, MessageGroupId=f"g-{n % 3}", SequenceNumber=sequence))
    desk = make_desk(messages, "main.fifo")

    assert desk.redrive().count("sent") == 120

    arrived: dict[str, list[int]] = {}
    for copy in receive_all(desk.destination):
        number = json.loads(copy.body)["id"]
        arrived.setdefault(copy.message_group_id or "", []).append(number)
    assert arrived == {f"g-{g}": list(range(g, 120, 3)) for g in range(3)}


def test_message_without_group_is_left_by_a_fifo_queue(make_desk: MakeDesk) -> None:
    summary = make_desk([parked(0), parked(2, MessageGroupId="g")], "main.fifo").redrive()

    assert (summary.count("sent"), summary.count("no_group")) == (1, 1)
    assert [(p.disposition, p.examples) for p in summary.problems] == [("no_group", ("m-000",))]


@pytest.mark.both_engines
def test_where_and_limit_leave_the_rest_open(make_desk: MakeDesk) -> None:
    desk = make_desk([parked(n) for n in range(250)])

    some = desk.redrive(where="message_id < 'm-204'", limit=203)
    rest = desk.redrive()

    assert (some.count("sent"), some.count("over_limit"), some.count("not_selected")) == (
        203,
        1,
        46,
    )
    assert (rest.count("sent"), rest.count("sent_before")) == (47, 203)
    assert set(desk.arrived().values()) == {1}


def test_one_group_of_the_newest_report_is_redriven_whatever_its_action(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    destination = make_queue("main")
    messages = [parked(n) for n in range(6)]
    archive = archive_of(tmp_path, messages)
    planned(archive, "leave")
    plan = read_plan(Path(planned(archive, "discard")).read_text("utf-8"))
    chosen, other = (group.group_id for group in plan.groups)
    command = ["redrive", "--archive", archive.root, "--main-queue-url", destination.url]

    assert main([*command, "--group", chosen]) == 0
    dry_run = capsys.readouterr().out
    assert receive_all(destination) == []
    assert main([*command, "--group", chosen, "--execute", "--reason", "fixed"]) == 0

    sent = {message.body for message in receive_all(destination)}
    of_chosen = [{message.body for message in messages[start::2]} for start in (0, 1)]
    assert sent in of_chosen
    assert chosen in dry_run
    assert other not in dry_run
    suggested = shlex.join(["dlq", *command, "--group", chosen, "--plan", plan.plan_id])
    assert f"to do it: {suggested} --execute --reason WHY\n" in dry_run
    assert main([*command, "--plan", f"{archive.root}/x.yaml"]) == 2
    assert f"--plan {archive.root}/x.yaml: No such file" in capsys.readouterr().err
    assert main([*command, "--group", "g-none"]) == 2
    assert f"plan {plan.plan_id} has no group g-none" in capsys.readouterr().err


def test_a_plan_has_what_is_pending_and_nothing_else(make_desk: MakeDesk) -> None:
    desk = make_desk([parked(n) for n in range(6)])
    desk.redrive(where="message_id = 'm-000'")
    discards = planned(desk.archive, "discard")
    desk.redrive(discards, where="message_id = 'm-001'")
    for number in (2, 3):
        claim = Claim("me", "", queue_url("main"), timestamp(time.time()), (f"m-00{number}",))
        assert begin(desk.archive, "p-dead", f"r-{number}").claim("g-1", 1, claim)
        if number == 2:
            close_open_runs(desk.archive)

    left = analyzed(desk.engine, desk.archive)

    table = read_table_columns(desk.archive, left.plan_id, ("message_id", "group_id"))
    # Unconfirmed, busy, and claimed by nobody.
    assert sorted(map(str, table["message_id"].to_pylist())) == ["m-002", "m-003", "m-004", "m-005"]
    assert left.messages == find_plan(desk.archive, left.plan_id).plan().snapshot.messages == 4
    desk.redrive(str(approve(Path(left.plan_path))), unconfirmed="send", lock_seconds=1)
    # The run that was busy is closed by this one.
    assert desk.arrived() == Counter(["m-000", "m-002", "m-003", "m-004", "m-005"])
    assert read_messages(desk.archive).pending().num_rows == 0


def test_plan_of_another_archive_is_refused(make_desk: MakeDesk, tmp_path: Path) -> None:
    desk = make_desk([parked(0)])
    other = archive_of(tmp_path / "other", [parked(0)], drain_id="20261122T000000Z-000000")

    with pytest.raises(InputError, match=f"{other.root}: .* is not there"):
        replace(desk, archive=other).redrive()
    assert other.list("ledger") == []
    assert not desk.arrived()


def leave_again(desk: Desk, *, received: int) -> None:
    """Write the first five into another file of their drain, as a crash does, received so often."""
    again = [with_receives(message, received) for message in desk.sent[:5]]
    archive_of(Path(desk.archive.root), again)


def with_receives(original: Message, count: int) -> Message:
    return replace(original, system={**original.system, "ApproximateReceiveCount": str(count)})


@pytest.mark.both_engines
def test_message_with_several_rows_is_sent_once(make_desk: MakeDesk) -> None:
    desk = make_desk(standard(30))
    leave_again(desk, received=2)

    assert desk.redrive().count("sent") == 30
    assert desk.arrived() == Counter({message.message_id: 1 for message in desk.sent})


def test_condition_of_the_plan_chooses_among_messages_not_rows(make_desk: MakeDesk) -> None:
    """The first row of a message stands for it; its other row, which fits, does not count."""
    originals = standard(30)
    messages = [with_receives(original, 3) for original in originals[:5]]
    messages += [with_receives(original, 9) for original in originals[5:]]
    desk = make_desk(messages)
    leave_again(desk, received=4)
    findings = analyzed(desk.engine, desk.archive, where="receive_count >= 4")
    plan = str(approve(Path(findings.plan_path)))

    assert desk.redrive(plan).count("sent") == 25
    assert set(desk.arrived()) == {message.message_id for message in messages[5:]}


_CLASS = "software.amazon.payloadoffloading.PayloadS3Pointer"


@pytest.mark.parametrize(
    ("bucket", "notes"),
    [
        (None, ["3 not checked, their bucket is not that of --pointer-bucket"]),
        ("payloads", ["the objects of 1 are gone; 1 not checked, their bucket is not that of"]),
        ("no-bucket", ["3 not checked"]),
    ],
)
def test_a_dry_run_says_whether_bodies_in_s3_are_gone(
    make_desk: MakeDesk,
    moto_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    bucket: str | None,
    notes: list[str],
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto_endpoint)
    s3 = boto3.client("s3", region_name="us-east-1")
    s3.create_bucket(Bucket="payloads")
    s3.put_object(Bucket="payloads", Key="orders/1", Body=b"{}")
    pointers = [("payloads", "orders/1"), ("payloads", "orders/2"), ("others", "orders/3")]
    letters = []
    for bucket_name, key in pointers:
        body = json.dumps([_CLASS, {"s3BucketName": bucket_name, "s3Key": key}])
        letters.append(message(f"m-{key}", body))
    desk = make_desk([parked(1), *letters])
    plan = reported(desk.engine, desk.archive)

    summary = desk.redrive(plan, execute=False, pointer_bucket=bucket)

    [note] = [note for note in summary.notes if "S3" in note]
    assert note.startswith("3 of 4 sampled messages are pointers to S3: ")
    assert all(part in note for part in notes)


@pytest.mark.both_engines
def test_messages_that_do_not_fit_where_they_are_held_are_refused_before_the_first_claim(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk([message(f"m-{n}", str(n) * 1000) for n in range(5)])
    monkeypatch.setattr(memory, "ALWAYS_SENT_BYTES", 0)
    monkeypatch.setattr(run_record, "available_bytes", lambda _: 6500)

    assert desk.redrive(limit=2).count("sent") == 2
    if desk.engine.name == "spark":
        assert desk.redrive().count("sent") == 3
        return
    with pytest.raises(InputError, match="MiB of messages to send need about"):
        desk.redrive()

    assert desk.redrive(execute=False).count("send") == 3
    assert len(desk.recorded(Disposition.SENT)) == len(desk.arrived()) == 2


def test_messages_that_may_hold_back_those_of_the_plan_count_for_memory(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "ALWAYS_FIT", 2)
    monkeypatch.setattr(resolve, "available_bytes", lambda _: 100)
    desk = make_desk([parked(2 * n, MessageGroupId="g") for n in range(5)], "main.fifo")
    plan = planned(desk.archive, where="chosen", chosen=("m-000", "m-002"))

    with pytest.raises(InputError, match="the ids of 3 messages need about"):
        desk.redrive(plan)

    assert desk.redrive(plan, allow_reordering=True).count("sent") == 2


def test_a_run_of_one_group_reads_no_message_of_another(
    make_desk: MakeDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk([parked(2 * n) for n in range(5)])
    archive_of(Path(desk.archive.root), [parked(1), parked(3)], "20261122T000000Z-000000")
    plan = planned(desk.archive)
    groups = read_plan(Path(plan).read_text("utf-8")).groups
    [other] = [group for group in groups if group.count == 2]
    monkeypatch.setattr(memory, "ALWAYS_FIT", 2)
    monkeypatch.setattr(resolve, "available_bytes", lambda _: 100)
    log = tmp_path / "read"
    logged = replace(desk, archive=LoggedReads(desk.archive.root, str(log)))

    summary = logged.redrive(plan, group=other.group_id)

    assert summary.counts == {"sent": 2}
    of_drains = {path.split("/")[1] for path in log.read_text().split() if "messages/" in path}
    assert of_drains == {"drain_id=20261122T000000Z-000000"}


def test_messages_that_do_not_fit_beside_a_local_engine_are_refused_before_the_first_claim(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk(standard(3))
    monkeypatch.setattr(memory, "ALWAYS_SENT_BYTES", 0)
    monkeypatch.setattr(run_record, "available_bytes", lambda _: 10)

    with pytest.raises(InputError, match="of messages to send need about"):
        desk.redrive()

    assert desk.archive.list("ledger/runs") == []
    assert receive_all(desk.destination) == []


def test_a_plan_whose_ids_do_not_fit_into_memory_is_refused_before_the_first_claim(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = make_desk(standard(3))
    monkeypatch.setattr(memory, "ALWAYS_FIT", 2)
    monkeypatch.setattr(resolve, "available_bytes", lambda _: 100)
    argv = ["redrive", "--archive", desk.archive.root, "--plan", desk.plan]
    to_main = ["--to-queue-url", desk.destination.url, "--execute", "--reason", "tried"]

    assert main([*argv, *to_main]) == 2

    assert "the ids of 3 messages need about" in capsys.readouterr().err
    assert desk.archive.list("ledger/runs") == []
    assert receive_all(desk.destination) == []
