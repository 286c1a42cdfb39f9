"""A canary in a real Spark session, with a consumer and the replay function behind the queue.

Only the canary's wait passes time, on a virtual clock.
"""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from spark_reprocess.canary.options import CanaryOptions, Share
from spark_reprocess.canary.watch import Verdict

from dlq_replay.context import FailureError
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message, SendEntry
from local_sqs.clock import VirtualClock
from spark_reprocess.archive import frames
from spark_reprocess.archive.dead_letter_schema import to_row
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.frames import read_archive
from spark_reprocess.archive.message_store import write_messages
from spark_reprocess.command_line.cli import main
from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.redrive.redrive_values import RedriveOptions, RedriveSummary
from tests.approved_plan import planned
from tests.builders import context, counter, filler, message
from tests.integration.canary_world import CanaryWorld, canary_world
from tests.integration.client_at import client_at
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import archive_of, reported
from tests.ledgers import attempts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(time.time_ns() // 1_000_000)


@pytest.fixture
def world(clock: VirtualClock) -> Iterator[CanaryWorld]:
    with canary_world(clock=clock) as running:
        yield running


def parked(number: int, error: str = "TimeoutError", **fields: Any) -> Message:
    failure = FailureError(error, "it was so")
    ours = context(first_id=f"first-{number}", reason="attempts_exhausted", error=failure)
    return message(f"m-{number:03d}", json.dumps({"n": number}), {**ours, **counter("5")}, **fields)


def two_groups(folder: Path, **fields: str) -> Archive:
    """Odd numbers time out, even ones lack a field."""
    messages = [parked(n, "TimeoutError" if n % 2 else "KeyError") for n in range(20)]
    return archive_of(folder, messages, **fields)


def run(
    spark: "SparkSession", archive: Archive, plan: str, world: CanaryWorld, **options: Any
) -> RedriveSummary:
    fields: dict[str, Any] = {
        "size": Share.of("4"),
        "parked_queue_url": world.parked.url,
        "wait_seconds": 6.0,
        "is_wait_forced": True,
        "grace_seconds": 20.0,
        **options,
    }
    redrive_options = RedriveOptions(
        archive.root,
        plan,
        world.main.url,
        reason="it is fixed",
        execute=True,
        tasks=2,
        canary=CanaryOptions(**fields),
    )
    return redrive(spark, redrive_options, make_client=client_at, make_sender=client_at)


def number(one: Message) -> int:
    return int(json.loads(one.body)["n"])


def verdicts(summary: RedriveSummary) -> dict[str, Verdict]:
    assert summary.canary is not None
    titles = {group.group_id: group.title for group in summary.groups}
    return {titles[one.group_id].split(":")[0]: one.verdict for one in summary.canary.groups}


def test_group_whose_canaries_fail_is_stopped_and_the_other_goes_on(
    spark: "SparkSession", world: CanaryWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = two_groups(tmp_path)
    plan = planned(archive)
    world.fails = lambda one: number(one) % 2 == 0
    set_clock_of_driver(monkeypatch, ahead_seconds=600)

    summary = run(spark, archive, plan, world)

    assert verdicts(summary) == {"TimeoutError": Verdict.PASSED, "KeyError": Verdict.FAILED}
    assert summary.canary is not None
    came_back = [first_id for one in summary.canary.groups for first_id in one.failures]
    assert len(came_back) == 2
    assert set(came_back) <= {f"first-{n}" for n in range(0, 20, 2)}
    assert [summary.count(word) for word in ("sent", "stopped_by_canary")] == [12, 8]
    world.pass_time(1)
    assert sorted(map(number, world.handled)) == list(range(1, 20, 2))
    counts = [one.attributes.get(REPLAY_COUNT_ATTRIBUTE) for one in world.handled]
    assert [c.value for c in counts if c] == ["1000000"] * 2
    assert all(one.history.context.plan_id == summary.plan_id for one in world.handled)

    # The failures have been archived; fixed, a new canary and the rest of the group get through.
    world.fails = lambda _: False
    again = run(spark, archive, plan, world)

    assert verdicts(again) == {"KeyError": Verdict.PASSED}
    assert [again.count(word) for word in ("sent", "sent_before")] == [8, 12]
    world.pass_time(1)
    assert len(world.handled) == 18
    assert len(archive.list(f"ledger/plan_id={summary.plan_id}/canary")) == 2
    claims = [one.claim for one in attempts_of(archive, summary.plan_id)]
    assert {claim.is_canary for claim in claims} == {True, False}


def test_canary_that_comes_back_keeps_its_replay_count(
    spark: "SparkSession", world: CanaryWorld, tmp_path: Path
) -> None:
    archive = two_groups(tmp_path)
    world.fails = lambda _: True

    summary = run(spark, archive, planned(archive), world)

    assert set(verdicts(summary).values()) == {Verdict.FAILED}
    rows = read_archive(spark, archive).select("plan_id", "replay_count").collect()
    assert [row["plan_id"] for row in rows].count(summary.plan_id) == 4
    assert {row["replay_count"] for row in rows} == {5}

    world.fails = lambda _: False
    plan = reported(spark, archive)
    options = RedriveOptions(
        archive.root, plan, world.main.url, reason="fixed", execute=True, keep_counter=True
    )
    redrive(spark, options, make_client=client_at, make_sender=client_at)

    world.pass_time(1)
    assert len(world.handled) == 20
    assert {one.attributes[REPLAY_COUNT_ATTRIBUTE].value for one in world.handled} == {"5"}


def set_clock_of_driver(monkeypatch: pytest.MonkeyPatch, ahead_seconds: int) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + ahead_seconds)


def test_canary_that_another_operator_drained_is_seen_whatever_the_clocks_say(
    spark: "SparkSession", world: CanaryWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = two_groups(tmp_path)
    plan = planned(archive)
    set_clock_of_driver(monkeypatch, ahead_seconds=-600)
    world.parks_in = world.add_queue("drained-by-another")
    world.fails = lambda one: number(one) % 2 == 0

    def drain_there() -> None:
        taken = [one for one in world.parks_in.receive() if isinstance(one, Message)]
        world.parks_in.delete(taken)
        rows = [to_row(one, world.parked.url, datetime(2020, 1, 1, tzinfo=UTC)) for one in taken]
        if rows:
            write_messages(archive, "20200101T000000Z-abcdef", 0, rows)

    world.last = drain_there

    summary = run(spark, archive, plan, world)

    assert verdicts(summary) == {"TimeoutError": Verdict.PASSED, "KeyError": Verdict.FAILED}


def test_what_was_parked_before_is_kept_and_not_counted(
    spark: "SparkSession", world: CanaryWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = two_groups(tmp_path)
    plan = planned(archive)
    plan_id = yaml.safe_load(Path(plan).read_text())["plan_id"]
    earlier_returns = [
        message(
            f"r-{n:03d}",
            json.dumps({"n": n}),
            {**context(first_id=f"first-{n}", plan_id=plan_id), **counter("1000000")},
            SentTimestamp=str(int(time.time() * 1000)),
        )
        for n in range(20)
    ]
    archive_of(tmp_path, earlier_returns[:10], drain_id="20261122T031502Z-ab12cd")
    world.parked.send([SendEntry(one.body, one.attributes) for one in earlier_returns[10:]])
    world.parked.send([SendEntry("parked by another way", parked(99).attributes)])
    set_clock_of_driver(monkeypatch, ahead_seconds=-600)

    summary = run(spark, archive, plan, world, wait_seconds=2.0)

    assert set(verdicts(summary).values()) == {Verdict.PASSED}
    assert summary.count("sent") == 20
    assert summary.canary is not None
    assert summary.canary.archived == 11


@pytest.mark.parametrize("driver_rows", [0, frames.DRIVER_ROWS])
def test_fifo_canary_takes_whole_message_groups(
    spark: "SparkSession",
    clock: VirtualClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver_rows: int,
) -> None:
    monkeypatch.setattr(frames, "DRIVER_ROWS", driver_rows)
    archive = archive_of(
        tmp_path,
        [
            parked(n, "TimeoutError", MessageGroupId=f"g-{n // 3}", SequenceNumber=str(100 + n))
            for n in range(18)
        ],
    )
    plan = planned(archive)
    with canary_world(".fifo", clock=clock) as world:
        world.fails = lambda one: number(one) == 16

        summary = run(spark, archive, plan, world, size=Share.of("1"))

        assert summary.canary is not None
        (verdict,) = summary.canary.groups
        assert verdict.sent == 3
        assert summary.count("sent") in (3, 18)
        canaries = [one for one in world.handled if REPLAY_COUNT_ATTRIBUTE in one.attributes]
        assert len({one.message_group_id for one in canaries}) <= 1
        order: dict[str | None, list[int]] = {}
        for one in world.handled:
            order.setdefault(one.message_group_id, []).append(number(one))
        assert all(numbers == sorted(numbers) for numbers in order.values())
    # No erase reaches the ledger, and message groups are customers.
    in_ledger = b"".join(archive.read(path) or b"" for path in archive.list("ledger"))
    assert b"disposition" in in_ledger
    assert b"message_group_id" not in in_ledger


def test_group_without_room_for_a_canary_is_unknown(
    spark: "SparkSession", world: CanaryWorld, tmp_path: Path
) -> None:
    archive = archive_of(
        tmp_path, [parked(1), message("m-full", "x", filler(9)), message("m-room", "y", filler(8))]
    )
    plan = planned(archive)

    summary = run(spark, archive, plan, world, wait_seconds=2.0)

    assert summary.canary is not None
    (why,) = (one.why for one in summary.canary.groups if one.why)
    assert why == "none of its messages can go ahead and carry what tells its failure"
    assert [summary.count(word) for word in ("sent", "stopped_by_canary")] == [2, 1]


def test_wait_that_is_too_short_is_refused(
    spark: "SparkSession",
    make_queue: MakeQueue,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dlq, parked_queue = make_queue("dlq"), make_queue("parked")
    archive = two_groups(tmp_path, drained_from=parked_queue.url)
    plan = planned(archive)
    policy = {"deadLetterTargetArn": dlq.describe()["QueueArn"], "maxReceiveCount": 3}
    destination = make_queue("main", RedrivePolicy=json.dumps(policy), VisibilityTimeout="30")
    argv = ["redrive", "--archive", archive.root, "--plan", plan, "--to-queue-url", destination.url]
    canary = ["--canary", "4", "--parked-queue-url", parked_queue.url]

    assert main([*argv, *canary, "--canary-wait", "149", "--execute", "--reason", "x"]) == 2
    assert "30 s x maxReceiveCount 3 + 60 s = 150 s" in capsys.readouterr().err
    longer = ["--consumer-max-seconds", "100"]
    assert main([*argv, *canary, *longer, "--canary-wait", "359"]) == 2
    assert "--consumer-max-seconds 100 s x maxReceiveCount 3 + 60 s" in capsys.readouterr().err
    assert main([*argv, *canary, *longer]) == 0
    assert "its verdict takes 6 min" in capsys.readouterr().out
    assert main([*argv, *canary, "--canary-wait", "150"]) == 0
    assert "canary: 4 messages would be sent first" in capsys.readouterr().out
    assert main(argv) == 0
    assert "recommended: --canary 2 --parked-queue-url URL" in capsys.readouterr().out
    assert archive.list("ledger") == []
