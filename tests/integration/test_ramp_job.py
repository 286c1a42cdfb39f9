"""A ramp in a real Spark session, with a consumer and the replay function behind the queue.

Only the ramp's waits pass time, on a virtual clock.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import yaml

from dlq_replay.aws.returns_table import ReturnsTable
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import Message
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault
from local_sqs.model import SqsModel
from local_sqs.server import serve_in_thread
from spark_reprocess.archive.group_records import add_statement
from spark_reprocess.archive.ledger.claims import Claim, Ledger, timestamp
from spark_reprocess.archive.plan_lock import LockHolder, plan_lock
from spark_reprocess.archive.storage.files import Archive, new_id, open_archive
from spark_reprocess.aws.clients import aws_client
from spark_reprocess.command_line.verb import NOT_ALL_SENT
from spark_reprocess.command_line.verbs.redrive import exit_code_of
from spark_reprocess.errors import BusyError, InputError
from spark_reprocess.groups.triage import Statement
from spark_reprocess.ramp import Forecast, Step, Steps, Verdict
from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.redrive.redrive_values import RedriveOptions, RedriveSummary
from spark_reprocess.run import RunOptions
from spark_reprocess.run import run as scheduled_run
from tests.integration.client_at import client_at
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import archive_of, entry_of, receive_all
from tests.simulation.ramp_world import RampWorld
from tests.support.approved_plan import planned
from tests.support.builders import context, counter, filler, message
from tests.support.failure_table import create_failure_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "returns-of-a-ramp"

Run = Callable[..., RedriveSummary]


@pytest.fixture
def suffix() -> str:
    """Of the queues' names."""
    return ""


@pytest.fixture
def world(moto_endpoint: str, suffix: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RampWorld]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto_endpoint)
    client = aws_client("dynamodb")
    create_failure_table(client, TABLE)
    clock = VirtualClock(time.time_ns() // 1_000_000)
    counters = ReturnsTable(client, TABLE, lambda: int(clock.time()))
    with serve_in_thread(SqsModel(clock)) as served:
        monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", served.url)
        yield RampWorld(counters.add, served.front, is_fifo=bool(suffix))
    client.delete_table(TableName=TABLE)


@pytest.fixture
def run(spark: "SparkSession", world: RampWorld) -> Run:
    def redrive_by_ramp(archive: Archive, plan: str, **options: Any) -> RedriveSummary:
        usual = RedriveOptions(
            archive.root,
            plan=plan,
            main_queue_url=world.main.url,
            parked_queue_url=world.parked.url,
            failure_table=TABLE,
            ramp=True,
            minute_seconds=1,
            reason="it is fixed",
            execute=True,
            tasks=2,
        )
        clock: dict[str, Any] = {
            "now_seconds": world.clock.time,
            "wait": lambda _, seconds: world.pass_time(seconds),
        }
        wanted = replace(usual, **options)
        return redrive(spark, wanted, make_client=client_at, make_sender=client_at, **clock)

    return redrive_by_ramp


def parked(
    number: int,
    error: str = "TimeoutError",
    attributes: Mapping[str, MessageAttribute] | None = None,
    **fields: Any,
) -> Message:
    failure = FailureError(error, "it was so")
    ours = context(first_id=f"first-{number}", reason="attempts_exhausted", error=failure)
    return message(
        f"m-{number:03d}",
        json.dumps({"n": number}),
        {**ours, **counter("5"), **(attributes or {})},
        **fields,
    )


def two_groups(folder: Path, world: RampWorld) -> Archive:
    """Odd numbers time out, even ones lack a field."""
    messages = [parked(n, "TimeoutError" if n % 2 else "KeyError") for n in range(20)]
    return archive_of(folder, messages, drained_from=world.parked.url)


def in_lanes(lanes: str, error_of: Callable[[int], str]) -> list[Message]:
    """A message of each of these message groups."""
    return [
        parked(n, error_of(n), MessageGroupId=lane, SequenceNumber=str(10**19 + n))
        for n, lane in enumerate(lanes)
    ]


def assert_order(world: RampWorld, lanes: str) -> None:
    for lane in {*lanes}:
        of_lane = [number(one) for one in world.handled if lanes[number(one)] == lane]
        assert of_lane == sorted(of_lane)


def number(one: Message) -> int:
    return int(json.loads(one.body)["n"])


def verdicts(summary: RedriveSummary) -> dict[str, Verdict]:
    titles = {group.group_id: group.title for group in summary.groups}
    return {titles[one.group_id].split(":")[0]: one.verdict for one in summary.ramp}


def groups_of(plan: str) -> dict[str, str]:
    """By their errors, the ids of the groups."""
    raw = yaml.safe_load(Path(plan).read_text())
    return {one["title"].split(":")[0]: one["id"] for one in raw["groups"]}


def steps_of(archive: Archive, summary: RedriveSummary) -> list[Step]:
    return Steps(archive, summary.plan_id, "main").read()


def sizes(archive: Archive, summary: RedriveSummary, group_id: str) -> list[int]:
    sizes = (one.messages.get(group_id) for one in steps_of(archive, summary))
    return [size for size in sizes if size]


def handled(world: RampWorld) -> list[int]:
    """The numbers of what the consumer handled, sorted; the last step is not waited for."""
    world.pass_time(1)
    return sorted(map(number, world.handled))


def test_bad_step_stops_its_group_until_somebody_decides_and_the_other_goes_on(
    run: Run, world: RampWorld, tmp_path: Path
) -> None:
    archive = two_groups(tmp_path, world)
    plan = planned(archive)
    world.fails = lambda one: number(one) % 2 == 0

    summary = run(archive, plan)

    assert verdicts(summary) == {"TimeoutError": Verdict.SENT, "KeyError": Verdict.BAD}
    assert summary.is_stopped
    assert summary.counts == {"sent": 11, "stopped": 9}
    assert handled(world) == list(range(1, 20, 2))
    [returned] = world.parked.receive()
    assert isinstance(returned, Message)
    assert returned.history.context.reason == "redrive_step"

    again = run(archive, plan)

    assert again.is_stopped
    assert again.counts == {"sent_before": 11, "stopped": 9}
    [note] = again.notes
    assert "is stopped: 1 of 1 message came back, 0 may; decide again" in note

    bad = groups_of(plan)["KeyError"]
    decided = Statement(datetime.now(UTC), "me", "redrive", summary.plan_id)
    add_statement(archive, bad, decided)
    world.fails = lambda _: False
    last = run(archive, plan)

    assert verdicts(last) == {"KeyError": Verdict.SENT}
    assert last.counts == {"sent_before": 11, "sent": 9}
    assert sizes(archive, last, bad) == [1, 1, 2, 6]
    assert len(handled(world)) == len({*handled(world)}) == 19


def test_run_that_is_killed_goes_on_at_its_step_and_sends_nothing_twice(
    run: Run, world: RampWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [parked(n, "KeyError" if n in (3, 7, 9) else "TimeoutError") for n in range(15)]
    messages.append(parked(15, attributes=filler(9)))
    archive = archive_of(tmp_path, messages, drained_from=world.parked.url)
    plan = planned(archive)
    edited = yaml.safe_load(Path(plan).read_text())
    edited["groups"][1]["action"] = "discard"
    Path(plan).write_text(yaml.safe_dump(edited))
    begun: list[tuple[int, int]] = []

    def at_step(step: Step) -> None:
        begun.append((step.number, len(world.handled)))
        if step.number == 1:
            _die()

    after_each_step(monkeypatch, at_step)
    with pytest.raises(KilledError):
        run(archive, plan)
    assert handled(world) == []

    # Another run has a claim of the step, so this one cannot know when all of it is sent.
    claim = Claim("run-0", "me", "why", world.main.url, timestamp(time.time()), ("m-000",), 900)
    Ledger(archive, _plan_id(plan)).claim("of-1.main.00001", 0, 1, claim)
    waiting = run(archive, plan)
    assert waiting.stopped_by == (
        "waiting for the ramp: another run has messages of step 1 to send"
    )
    assert [one.sent_at for one in steps_of(archive, waiting)] == [None]
    for path in archive.list(f"ledger/plan_id={waiting.plan_id}/of-1.main.00001"):
        archive.remove(path)

    # Killed when it is sent, before that is written down.
    with monkeypatch.context() as patch:
        patch.setattr(Steps, "create", lambda _, step: step.sent_at and _die())
        with pytest.raises(KilledError):
            run(archive, plan)
    assert len(handled(world)) == 1

    # Killed while it waits for the verdict on step 3.
    world.last = lambda: _die() if begun[-1][0] == 3 and len(world.handled) == 9 else None
    with pytest.raises(KilledError):
        run(archive, plan)
    world.last = lambda: None
    last = run(archive, plan)

    assert verdicts(last) == {"TimeoutError": Verdict.SENT}
    assert last.counts == {"sent_before": 9, "sent": 3, "discarded_before": 3, "no_room": 1}
    assert [one.number for one in steps_of(archive, last)] == [1, 2, 3, 4]
    # A step begins when all before it are handled.
    assert dict(begun) == {1: 0, 2: 1, 3: 3, 4: 9}
    assert handled(world) == [n for n in range(15) if n not in (3, 7, 9)]
    canaries = [one.history.context.is_canary or False for one in world.handled]
    assert canaries == [True] * 9 + [False] * 3


def test_nobody_consumes_so_the_run_ends_and_a_later_one_goes_on(
    run: Run, world: RampWorld, tmp_path: Path
) -> None:
    archive = two_groups(tmp_path, world)
    plan = planned(archive)
    one, other = groups_of(plan).values()
    world.is_consuming, world.step_seconds = False, 0.1

    summary = run(archive, plan)

    assert "step 1 can be judged after" in summary.stopped_by
    assert "may still be in the main queue, where 2 messages are" in summary.stopped_by
    assert exit_code_of(summary) == NOT_ALL_SENT
    assert {*verdicts(summary).values()} == {Verdict.UNKNOWN}
    assert summary.counts == {"sent": 2, "not_reached": 18}
    with plan_lock(archive, LockHolder("another", "another", "another plan", "me")):
        pass

    # Three days later: more minutes than CloudWatch has points in an answer.
    world.clock.advance(3 * 86_400)
    world.is_consuming = True
    part = run(archive, plan, group=one)

    assert part.count("sent", "sent_before") == 10
    assert not part.stopped_by
    last = run(archive, plan)

    assert last.counts == {"sent_before": 11, "sent": 9}
    assert sizes(archive, last, other) == [1, 2, 6, 1]
    assert handled(world) == list(range(20))


def test_ramp_whose_returns_nobody_sees_is_refused_and_is_no_default(
    run: Run, world: RampWorld, tmp_path: Path
) -> None:
    archive = two_groups(tmp_path, world)
    plan = planned(archive)
    for changes, why in (
        ({"failure_table": None}, "no --failure-table counts what comes back"),
        ({"failure_table": "no-such-table"}, "table no-such-table cannot be read"),
        ({"parked_queue_url": world.dlq.url}, "do not go to parked queue dlq"),
    ):
        with pytest.raises(InputError, match=f"--ramp: .*{why}.*; --at-once sends"):
            run(archive, plan, **changes)
        dry = run(archive, plan, ramp=None, execute=False, **changes)
        assert dry.forecast is None
        assert [why in one for one in dry.notes if "everything goes at once" in one] == [True]
    assert not world.main.queue.messages()

    dry = run(archive, plan, ramp=None, execute=False)
    assert dry.forecast == Forecast((1, 2, 6, 1), 12)
    assert run(archive, plan, ramp=False).counts == {"sent": 20}
    assert handled(world) == list(range(20))


def test_two_operators_share_the_steps_and_one_who_sends_at_once_is_refused(
    run: Run, world: RampWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = two_groups(tmp_path, world)
    plan = planned(archive)
    others: list[RedriveSummary] = []

    def at_step(step: Step) -> None:
        # One of them sends a part of it; the next all, and goes on until its time is over.
        if step.number == 2 and not others:
            with pytest.raises(BusyError, match="is being carried out"):
                run(archive, plan, ramp=False)
            others.append(run(archive, plan, group=next(iter(step.messages))))
            others.append(run(archive, plan, time_budget_seconds=6))

    after_each_step(monkeypatch, at_step)
    first = run(archive, plan)
    last = run(archive, plan)

    part, other = others
    assert part.stopped_by.endswith("another run has messages of step 2 to send")
    assert first.stopped_by.endswith("another run goes on with it")
    assert {*verdicts(last).values()} == {Verdict.SENT}
    sent = [one.count("sent") for one in (part, other, first, last)]
    assert (sent[0], sent[2], sum(sent)) == (2, 2, 20)
    assert [one.number for one in steps_of(archive, last)] == [1, 2, 3, 4]
    assert handled(world) == list(range(20))


def test_return_after_a_verdict_stops_its_group_within_the_last_step(
    run: Run, world: RampWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = ["TimeoutError"] * 300 + ["KeyError"] * 30
    messages = [parked(n, error) for n, error in enumerate(errors)]
    archive = archive_of(tmp_path, messages, drained_from=world.parked.url)
    plan = planned(archive)
    late = groups_of(plan)["TimeoutError"]
    # Two steps, of which the second takes long.
    monkeypatch.setattr("spark_reprocess.redrive.ramp.step_size", lambda sent, n: n if sent else 1)
    monkeypatch.setattr("spark_reprocess.redrive.execution._TROUBLE_SECONDS", 0.05)

    def slowly() -> None:
        if len(world.handled) == 2:
            add_returns(world, plan, late, *map(str, range(9)))
            time.sleep(0.5)

    world.main.front.faults.add(
        Fault(Effect.CALL, "SendMessageBatch", probability=1.0, callback=slowly)
    )
    first = run(archive, plan, tasks=1)
    last = run(archive, plan, tasks=1)

    assert first.stopped_by.endswith("more messages came back than may")
    assert verdicts(first)["TimeoutError"] is Verdict.BAD
    counts = {one.group_id: one.counts for one in last.groups}
    stopped = counts.pop(late)
    assert stopped["stopped"] == 300 - stopped["sent_before"] > 0
    # The rest of the other group's step goes with the next run.
    assert verdicts(last) == {"KeyError": Verdict.SENT}
    [others] = counts.values()
    assert sum(others.values()) == others.get("sent", 0) + others["sent_before"] == 30
    numbers = handled(world)
    assert len(numbers) == len({*numbers}) == first.count("sent") + last.count("sent")


def test_next_scheduled_run_goes_on_unless_somebody_decided_since(
    spark: "SparkSession", world: RampWorld, make_queue: MakeQueue, tmp_path: Path
) -> None:
    queues = [make_queue("parked")]
    for name in ("dlq", "main"):
        target = queues[-1].describe()["QueueArn"]
        policy = {"deadLetterTargetArn": target, "maxReceiveCount": 3}
        queues.append(make_queue(name, RedrivePolicy=json.dumps(policy), VisibilityTimeout="600"))
    parked_queue, _, main = queues
    rules = tmp_path / "policy.yaml"
    rules.write_text("version: 1\nrules: [{name: all, when: 'true', action: redrive}]\n")
    options = RunOptions(
        str(tmp_path / "archive"),
        main_queue_url=main.url,
        parked_queue_url=parked_queue.url,
        policy=str(rules),
        failure_table=TABLE,
        minute_seconds=1,
        reason="every night",
        execute=True,
    )

    def next_run() -> RedriveSummary:
        redriven = scheduled_run(spark, options).redriven
        assert redriven is not None
        return redriven

    parked_queue.send([entry_of(parked(n)) for n in range(3)])
    first = next_run()
    parked_queue.send([entry_of(parked(3, "KeyError"))])
    second = next_run()

    assert "step 1 can be judged after" in first.stopped_by
    assert second.plan_id == first.plan_id
    assert second.counts == {"sent_before": 1, "not_reached": 2}
    [group] = second.groups
    archive = open_archive(options.archive)
    decided = Statement(datetime.now(UTC), "me", "leave", new_id(time.time()))
    add_statement(archive, group.group_id, decided)
    third = next_run()

    assert third.plan_id > first.plan_id
    assert third.counts == {"leave": 2, "sent": 1}
    assert len(receive_all(main)) == 2


@pytest.mark.parametrize("suffix", [".fifo"])
def test_heads_of_message_groups_go_first_and_nothing_overtakes(
    run: Run, world: RampWorld, tmp_path: Path
) -> None:
    # Failures of both kinds stand behind each other in each message group.
    lanes = "AAAAAABBBCDA"
    messages = in_lanes(lanes, lambda n: "KeyError" if n % 3 == 1 else "TimeoutError")
    archive = archive_of(tmp_path, messages, drained_from=world.parked.url)
    plan = planned(archive)
    world.fails = lambda one: number(one) == 1

    summary = run(archive, plan, tasks=1)

    assert_order(world, lanes)
    assert verdicts(summary)["KeyError"] is Verdict.BAD
    # The second step has no two messages of a message group that could be of two.
    assert sorted(map(number, world.handled[2:5])) == [6, 7, 9]
    # What stands behind an unsent message of the stopped group stays.
    assert sorted(map(number, world.handled)) == [0, 2, 3, 6, 7, 8, 9, 10]
    assert "stands behind messages that stay" in summary.stopped_by


@pytest.mark.parametrize("suffix", ["", ".fifo"])
@pytest.mark.parametrize("is_decided", [False, True])
def test_step_of_a_killed_run_sends_nothing_of_a_group_that_was_stopped_since(
    run: Run,
    world: RampWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    *,
    is_decided: bool,
) -> None:
    errors, lanes = ["TimeoutError" if n % 3 else "KeyError" for n in range(18)], "AB" * 9
    messages = in_lanes(lanes, errors.__getitem__)
    archive = archive_of(tmp_path, messages, drained_from=world.parked.url)
    plan = planned(archive)
    stopped = groups_of(plan)["KeyError"]
    after_each_step(monkeypatch, lambda step: step.number == 2 and _die())
    with pytest.raises(KilledError):
        run(archive, plan)
    if is_decided:
        # Decided again: its next step must be one message.
        add_statement(archive, stopped, Statement(datetime.now(UTC), "me", stopped="it was bad"))
        decided = Statement(datetime.now(UTC), "me", "redrive", _plan_id(plan))
        add_statement(archive, stopped, decided)
    else:
        add_returns(world, plan, stopped, "a")

    runs = [run(archive, plan, tasks=1)]
    while runs[-1].is_unfinished and len(runs) < 4:
        runs.append(run(archive, plan, tasks=1))

    numbers = handled(world)
    of_group = [n for n in numbers if errors[n] == "KeyError"]
    assert len(numbers) == len({*numbers})
    if suffix:
        assert_order(world, lanes)
    if is_decided:
        assert numbers == list(range(18))
        steps = Steps(archive, _plan_id(plan), f"main{suffix}").read()
        assert [one.messages[stopped] for one in steps[:3]] == [1, 0, 1]
    else:
        assert runs[0].is_stopped
        assert len(of_group) == 1
        assert suffix or len(numbers) == 13


def add_returns(world: RampWorld, plan: str, group_id: str, *first_ids: str) -> None:
    """Count what did not come back."""
    assert world.add_returns(_plan_id(plan), group_id, "returned", frozenset(first_ids))


def _plan_id(plan: str) -> str:
    return Path(plan).parent.name


def after_each_step(monkeypatch: pytest.MonkeyPatch, act: Callable[[Step], object]) -> None:
    """Act whenever a run has made the record of a step."""
    original = Steps.create

    def create(steps: Steps, step: Step) -> bool:
        is_made = original(steps, step)
        if step.sent_at is None:
            act(step)
        return is_made

    monkeypatch.setattr(Steps, "create", create)


class KilledError(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


def _die(*_: object) -> NoReturn:
    raise KilledError
