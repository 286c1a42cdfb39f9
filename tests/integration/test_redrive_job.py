"""``redrive`` in a real Spark session, against an SQS server over HTTP."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_reprocess.archive.messages import frames
from spark_reprocess.command_line.cli import main
from spark_reprocess.plan.reading import read_plan
from tests.integration.conftest import MakeQueue
from tests.integration.desk import MakeDesk
from tests.integration.spark_world import archive_of, parked, receive_all
from tests.support.approved_plan import planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=[100, 100_000], ids=["many", "few"])
def driver_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many rows the driver holds; what are more, stay with Spark's tasks."""
    monkeypatch.setattr(frames, "DRIVER_ROWS", request.param)


@pytest.mark.usefixtures("driver_rows")
def test_fifo_redrive_follows_the_sequence_numbers(make_desk: MakeDesk) -> None:
    # The numbers grow in length, and the chunks are cut across both signature groups.
    sequence = {n: str(10**19 - 60 + n) for n in range(120)}
    messages = [
        parked(n, MessageGroupId=f"g-{n % 3}", SequenceNumber=sequence[n]) for n in sequence
    ]
    desk = make_desk(messages, "main.fifo")

    assert desk.redrive().count("sent") == 120

    arrived: dict[str, list[int]] = {}
    for one in receive_all(desk.destination):
        arrived.setdefault(one.message_group_id or "", []).append(json.loads(one.body)["id"])
    assert arrived == {f"g-{g}": list(range(g, 120, 3)) for g in range(3)}


def test_message_without_group_is_left_by_a_fifo_queue(make_desk: MakeDesk) -> None:
    summary = make_desk([parked(0), parked(2, MessageGroupId="g")], "main.fifo").redrive()

    assert (summary.count("sent"), summary.count("no_group")) == (1, 1)
    assert [(p.word, p.examples) for p in summary.problems] == [("no_group", ("m-000",))]


@pytest.mark.usefixtures("driver_rows")
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
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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

    sent = {one.body for one in receive_all(destination)}
    of_chosen = [{one.body for one in messages[start::2]} for start in (0, 1)]
    assert sent in of_chosen
    assert chosen in dry_run
    assert other not in dry_run
    assert f"to do it, add --plan {plan.plan_id} --execute" in dry_run
    assert main([*command, "--group", "g-none"]) == 2
    assert f"plan {plan.plan_id} has no group g-none" in capsys.readouterr().err
