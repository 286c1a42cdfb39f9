"""A ramp, with a consumer and the replay function behind the queue.

Only the ramp's waits pass time, on a virtual clock.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
import yaml

from dlq.archive import lock
from dlq.archive.group_records import add_statement
from dlq.archive.ledger.stop import Stop, StopCause
from dlq.archive.lock import ArchiveLock, Life, LockHolder, LockUse, archive_lock
from dlq.archive.storage.files import new_id, open_archive
from dlq.cli.verb import NOT_ALL_SENT
from dlq.cli.verbs.redrive import exit_code_of
from dlq.engine import Engine
from dlq.errors import BusyError, InputError
from dlq.explain.triage import Statement
from dlq.redrive.ramping.step_records import Forecast, Step, Steps, last_counts
from dlq.redrive.ramping.verdict_rules import Verdict
from dlq.redrive.redrive import redrive
from dlq.redrive.request import RedriveRequest
from dlq.redrive.send_run import prepare
from dlq.redrive.sending.stop_signals import Clock
from dlq.redrive.summary import RedriveSummary
from dlq.scheduled_run import NOT_REDRIVEN_BEFORE, RunRequest
from dlq.scheduled_run import run as scheduled_run
from dlq_replay.aws.returns_table import ReturnsTable
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import Message
from functions.reminder.notice import Redrive, RedriveState
from functions.reminder.readings import read_redrive
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault
from local_sqs.model import SqsModel
from local_sqs.model_queue import ModelQueue
from local_sqs.server import serve_in_thread
from tests.integration.client_at import client_at
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import DRAIN_ID, archive_of, entry_of, receive_all
from tests.simulation.event_source import EventSource, collect
from tests.simulation.ramp_world import RampWorld
from tests.support.approved_plan import planned
from tests.support.builders import context, counter, filler, message
from tests.support.folder_s3 import FolderS3
from tests.support.processes import Died, die
from tests.support.sqs_driver import redrive_policy
from tests.support.stops import sentence_of


@pytest.fixture
def suffix() -> str:
    """Of the queues' names."""
    return ""


@pytest.fixture
def world(
    dynamodb: Any, failure_table: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RampWorld]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb.meta.endpoint_url)
    clock = VirtualClock(time.time_ns() // 1_000_000)
    counters = ReturnsTable(dynamodb, failure_table, lambda: int(clock.time()))
    with serve_in_thread(SqsModel(clock)) as served:
        monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", served.url)
        yield RampWorld(counters.add, served.front, is_fifo=bool(suffix))


@dataclass
class Job:
    """A plan of parked messages in an archive, and the runs that redrive it by ramp."""

    engine: Engine
    world: RampWorld
    folder: Path
    table: str

    def begin(self, messages: Sequence[Message], drain_id: str = DRAIN_ID) -> None:
        """Drain these messages, and plan all that the archive has."""
        parked_url = self.world.parked.url
        self.archive = archive_of(self.folder, messages, drain_id, parked_url)
        self.plan = planned(self.archive)
        self.plan_id = Path(self.plan).parent.name
        raw = yaml.safe_load(Path(self.plan).read_text())
        # By their errors, the ids of the groups.
        self.groups = {group["title"].split(":")[0]: group["id"] for group in raw["groups"]}

    def run(self, announce: Callable[[str], object] = str, **options: Any) -> RedriveSummary:
        usual = RedriveRequest(
            plan=self.plan,
            main_queue_url=self.world.main.url,
            parked_queue_urls=(self.world.parked.url,),
            failure_table=self.table,
            ramp=True,
            minute_seconds=1,
            reason="it is fixed",
            execute=True,
            tasks=2,
        )
        request = replace(usual, **options)
        run = prepare(self.archive, request, client_at, self.engine.attribute_fault)

        return redrive(
            self.engine,
            run,
            make_sender=client_at,
            clock=Clock(self.world.clock.time, lambda _, seconds: self.world.pass_time(seconds)),
            announce=announce,
        )

    def verdicts(self, summary: RedriveSummary) -> dict[str, Verdict]:
        errors = {group_id: error for error, group_id in self.groups.items()}
        return {errors[ramp.group_id]: ramp.verdict for ramp in summary.ramp}

    def say(self, group_id: str, **fields: Any) -> None:
        add_statement(self.archive, group_id, Statement(datetime.now(UTC), "me", **fields))

    def steps(self) -> list[Step]:
        name = self.world.main.url.rpartition("/")[2]
        return Steps(self.archive, self.plan_id, name).read()

    def sizes(self, group_id: str) -> list[int]:
        return [size for step in self.steps() if (size := step.messages.get(group_id))]

    def add_returns(self, group_id: str, *first_ids: str) -> None:
        """Count what did not fail again."""
        assert self.world.add_returns(self.plan_id, group_id, "returned", frozenset(first_ids))

    def handled(self) -> list[int]:
        """The numbers of what the consumer handled, sorted; the last step is not waited for."""
        self.world.pass_time(1)
        return sorted(map(number, self.world.handled))

    def assert_order(self, lanes: str) -> None:
        for lane in {*lanes}:
            of_lane = [n for n in map(number, self.world.handled) if lanes[n] == lane]
            assert of_lane == sorted(of_lane)


@pytest.fixture
def job(engine: Engine, world: RampWorld, tmp_path: Path, failure_table: str) -> Job:
    return Job(engine, world, tmp_path, failure_table)


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


def two_groups() -> list[Message]:
    """Odd numbers time out, even ones lack a field."""
    return [parked(n, "TimeoutError" if n % 2 else "KeyError") for n in range(20)]


def in_lanes(lanes: str, error_of: Callable[[int], str]) -> list[Message]:
    """A message of each of these message groups."""
    letters = []
    for n, lane in enumerate(lanes):
        sequence = str(10**19 + n)
        letters.append(parked(n, error_of(n), MessageGroupId=lane, SequenceNumber=sequence))
    return letters


def number(message: Message) -> int:
    return int(json.loads(message.body)["n"])


def test_bad_step_halts_its_group_until_somebody_decides_and_the_other_goes_on(
    job: Job, world: RampWorld
) -> None:
    job.begin(two_groups())
    world.fails = lambda message: number(message) % 2 == 0

    summary = job.run()

    assert job.verdicts(summary) == {"TimeoutError": Verdict.SENT, "KeyError": Verdict.BAD}
    assert summary.has_halted_groups
    assert summary.counts == {"sent": 11, "halted": 9}
    assert job.handled() == list(range(1, 20, 2))
    [returned] = world.parked.receive()
    assert isinstance(returned, Message)
    assert returned.history.context.reason == "redrive_step"
    bad, good = (job.groups[error] for error in ("KeyError", "TimeoutError"))
    counts = last_counts(job.archive, job.plan_id)
    assert {group_id: counts[group_id].returned[group_id] for group_id in (bad, good)} == {
        bad: 1,
        good: 0,
    }

    again = job.run()

    assert again.has_halted_groups
    assert again.counts == {"sent_before": 11, "halted": 9}
    [note] = again.notes
    assert "is halted: 1 of 1 message failed again, 0 allowed; decide again" in note

    job.say(bad, action="redrive", plan_id=job.plan_id)
    world.fails = lambda _: False
    last = job.run()

    assert job.verdicts(last) == {"KeyError": Verdict.SENT}
    assert last.counts == {"sent_before": 11, "sent": 9}
    assert job.sizes(bad) == [1, 1, 2, 6]
    assert len(job.handled()) == len({*job.handled()}) == 19


@dataclass
class SecondQueue:
    """A second queue of a fleet, beside the world's own, with a consumer that may stop.

    Attributes:
        order: of each step of both queues that was sent: queue and number, in order.
    """

    job: Job
    world: RampWorld
    queue: ModelQueue
    is_consuming: bool = True
    order: list[tuple[str, int]] = field(default_factory=list)

    def begin(self, errors: Mapping[str, str], each: int = 7) -> None:
        """Plan messages of both queues that failed with these errors, by the queue's name."""
        letters: list[Message] = []
        for name, error in errors.items():
            for _ in range(each):
                n = len(letters)
                failure = FailureError(error, "it was so")
                ours = context(first_id=f"first-{n}", error=failure, source_queue=name)
                letters.append(parked(n, attributes=ours))
        self.job.begin(letters)

    def consume(self) -> None:
        if self.is_consuming:
            EventSource(self.queue, collect(self.world.handled)).poll()

    def run(self, **options: Any) -> RedriveSummary:
        return self.job.run(main_queue_url=None, queue_tag="payments", **options)

    def sent(self, summary: RedriveSummary) -> dict[str, int]:
        """How many messages went to each queue, by its name."""
        return {url.rpartition("/")[2]: n for url, n in summary.destinations.items()}


@pytest.fixture
def second(job: Job, world: RampWorld, monkeypatch: pytest.MonkeyPatch) -> SecondQueue:
    """The owners of DLQs need not let them feed the parked queue."""
    dlq = ModelQueue(world.front, "second-dlq")
    queue = ModelQueue(
        world.front, "second", VisibilityTimeout="1", RedrivePolicy=redrive_policy(dlq, 2)
    )
    world.dlq.client.set_queue_attributes(QueueUrl=world.dlq.url, Attributes={"RedrivePolicy": ""})
    for member in (world.main, world.dlq, queue, dlq):
        member.client.tag_queue(QueueUrl=member.url, Tags={"dlq-replay": "payments"})
    server = urljoin(world.main.url, "/")
    monkeypatch.setenv("AWS_ENDPOINT_URL_RESOURCE_GROUPS_TAGGING_API", server)

    second = SecondQueue(job, world, queue)
    world.last = second.consume
    create = Steps.create

    def create_and_note(steps: Steps, step: Step) -> bool:
        if step.sent_at is not None:
            second.order.append((steps.queue, step.number))
        return create(steps, step)

    monkeypatch.setattr(Steps, "create", create_and_note)
    return second


OWN_GROUPS = {"main": "TimeoutError", "second": "KeyError"}


def test_ramps_of_several_queues_wait_together(job: Job, second: SecondQueue) -> None:
    second.begin(OWN_GROUPS)

    dry_run = second.run(execute=False)
    summary = second.run()

    # As long as the longest of them: twice two minutes and twice the time of a failure.
    assert dry_run.forecast == Forecast((1, 2, 4), 2 * 4)
    assert second.sent(summary) == {"main": 7, "second": 7}
    assert {*job.verdicts(summary).values()} == {Verdict.SENT}
    assert second.order == [
        ("main", 1),
        ("second", 1),
        ("main", 2),
        ("second", 2),
        ("main", 3),
        ("second", 3),
    ]
    assert job.handled() == list(range(14))


def test_queue_that_nobody_consumes_keeps_no_other_from_its_steps(
    job: Job, second: SecondQueue
) -> None:
    second.begin(OWN_GROUPS)
    second.is_consuming = False

    summary = second.run()

    assert second.sent(summary) == {"main": 7, "second": 1}
    assert summary.counts == {"sent": 8, "not_reached": 6}
    assert summary.stopped_by is not None
    assert summary.stopped_by.cause is StopCause.RAMP
    assert job.handled() == list(range(7))
    assert job.sizes(job.groups["TimeoutError"]) == [1, 2, 4]

    second.is_consuming = True
    assert second.run().counts == {"sent_before": 8, "sent": 6}
    assert job.handled() == list(range(14))


def test_bad_step_of_one_queue_halts_its_group_alone(
    job: Job, world: RampWorld, second: SecondQueue
) -> None:
    second.begin(OWN_GROUPS)

    def fail_once() -> None:
        second.consume()
        if ("second", 1) in second.order and ("second", 2) not in second.order:
            job.add_returns(job.groups["KeyError"], "first-7")

    world.last = fail_once
    summary = second.run()

    assert job.verdicts(summary) == {"TimeoutError": Verdict.SENT, "KeyError": Verdict.BAD}
    assert summary.counts == {"sent": 8, "halted": 6}
    assert second.sent(summary) == {"main": 7, "second": 1}
    assert summary.has_halted_groups


def test_while_ramps_wait_together_another_run_may_act_and_ends_them_all(
    job: Job, world: RampWorld, second: SecondQueue
) -> None:
    second.begin(OWN_GROUPS)
    others: list[ArchiveLock] = []
    holder = LockHolder("another", LockUse.SEND, "plan p-2", "you")

    def act() -> None:
        second.consume()
        if len(world.handled) == 2 and not others:
            with archive_lock(job.archive, holder) as lock:
                others.append(lock)

    world.last = act
    first = second.run()

    assert len(others) == 1
    assert first.stopped_by is not None
    assert first.stopped_by.cause is StopCause.LOCK_LOST
    assert first.counts == {"sent": 2, "not_reached": 12}
    assert second.order == [("main", 1), ("second", 1)]

    assert second.run().counts == {"sent_before": 2, "sent": 12}
    assert job.handled() == list(range(14))


def test_an_interrupt_ends_all_ramps_that_wait(
    job: Job, world: RampWorld, second: SecondQueue
) -> None:
    second.begin(OWN_GROUPS)

    def press() -> None:
        second.consume()
        if len(world.handled) == 2:
            # A second one would end the run at once.
            world.last = second.consume
            signal.raise_signal(signal.SIGINT)

    world.last = press
    first = second.run()
    last = second.run()

    assert first.stopped_by is not None
    assert first.stopped_by.cause is StopCause.INTERRUPTED
    assert first.counts == {"sent": 2, "not_reached": 12}
    assert last.counts == {"sent_before": 2, "sent": 12}
    assert job.handled() == list(range(14))


def test_queues_of_one_group_wait_for_each_other(job: Job, second: SecondQueue) -> None:
    """What fails again is counted by group, not by queue."""
    second.begin({"main": "TimeoutError", "second": "TimeoutError"})

    summary = second.run()

    assert summary.counts == {"sent": 14}
    assert second.order == [
        ("main", 1),
        ("main", 2),
        ("main", 3),
        ("second", 1),
        ("second", 2),
        ("second", 3),
    ]
    assert job.handled() == list(range(14))


def test_run_that_is_killed_goes_on_at_its_step_and_sends_nothing_twice(
    job: Job, world: RampWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [parked(n, "KeyError" if n in (3, 7, 9) else "TimeoutError") for n in range(15)]
    messages.append(parked(15, attributes=filler(9)))
    job.begin(messages)
    edited = yaml.safe_load(Path(job.plan).read_text())
    edited["groups"][1]["action"] = "discard"
    Path(job.plan).write_text(yaml.safe_dump(edited))
    begun: list[tuple[int, int]] = []

    def at_step(step: Step) -> None:
        begun.append((step.number, len(world.handled)))
        if step.number == 1:
            die()

    after_each_step(monkeypatch, at_step)
    with pytest.raises(Died):
        job.run()
    assert job.handled() == []

    # Killed when it is sent, before that is written down.
    with monkeypatch.context() as patch:
        patch.setattr(Steps, "create", lambda _, step: step.sent_at and die())
        with pytest.raises(Died):
            job.run()
    assert len(job.handled()) == 1

    # Killed while it waits for the verdict on step 3.
    world.last = lambda: die() if begun[-1][0] == 3 and len(world.handled) == 9 else None
    with pytest.raises(Died):
        job.run()
    world.last = lambda: None
    last = job.run()

    assert job.verdicts(last) == {"TimeoutError": Verdict.SENT}
    assert last.counts == {"sent_before": 9, "sent": 3, "discarded_before": 3, "no_room": 1}
    assert [step.number for step in job.steps()] == [1, 2, 3, 4]
    # A step begins when all before it are handled.
    assert dict(begun) == {1: 0, 2: 1, 3: 3, 4: 9}
    assert job.handled() == [n for n in range(15) if n not in (3, 7, 9)]
    in_steps = [message.history.context.in_step or False for message in world.handled]
    assert in_steps == [True] * 9 + [False] * 3


def test_nobody_consumes_so_the_run_ends_and_a_later_one_goes_on(
    job: Job, world: RampWorld
) -> None:
    job.begin(two_groups())
    first, other = job.groups.values()
    world.is_consuming = False
    world.step_seconds = 0.1

    summary = job.run()

    assert sentence_of(summary.stopped_by) == (
        "waiting for the ramp: step 1 cannot be judged yet: the step may still be in the main "
        "queue, where 2 messages are"
    )
    assert exit_code_of(summary) == NOT_ALL_SENT
    assert {*job.verdicts(summary).values()} == {Verdict.UNKNOWN}
    assert summary.counts == {"sent": 2, "not_reached": 18}
    with archive_lock(job.archive, LockHolder("another", LockUse.SEND, "another plan", "me")):
        pass

    # Three days later: more minutes than CloudWatch has points in an answer.
    world.clock.advance(3 * 86_400)
    world.is_consuming = True
    part = job.run(group=first)

    assert part.count("sent", "sent_before") == 10
    assert not part.stopped_by
    last = job.run()

    assert last.counts == {"sent_before": 11, "sent": 9}
    assert job.sizes(other) == [1, 2, 6, 1]
    assert job.handled() == list(range(20))


def test_redrive_whose_returns_nobody_sees_sends_nothing(job: Job, world: RampWorld) -> None:
    job.begin(two_groups())
    unread: dict[str, Any] = {"failure_table": "no-such-table"}
    elsewhere: dict[str, Any] = {"parked_queue_urls": (world.dlq.url,)}
    for changes in (unread, elsewhere, {**unread, "execute": False}, {"failure_table": None}):
        ramp = None if "failure_table" not in changes or changes["failure_table"] else True
        with pytest.raises(InputError, match="nothing was sent: --at-once sends everything"):
            job.run(ramp=ramp, **changes)
    assert not world.main.queue.messages()
    assert not job.archive.list("ledger")

    dry = job.run(ramp=None, execute=False)
    assert dry.forecast == Forecast((1, 2, 6, 1), 12)
    assert job.run(ramp=None, execute=False, **elsewhere).forecast is None
    at_once = job.run(ramp=False, **unread)
    assert at_once.counts == {"sent": 20}
    assert len(at_once.notes) == 2
    assert job.handled() == list(range(20))


def test_table_that_nobody_can_read_any_more_ends_the_run_and_a_later_one_goes_on(
    job: Job, world: RampWorld, dynamodb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.begin(two_groups())
    address = dynamodb.meta.endpoint_url

    def lose_the_way(step: Step) -> None:
        if step.number == 2:
            monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1")

    after_each_step(monkeypatch, lose_the_way)
    first = job.run()

    assert sentence_of(first.stopped_by).startswith(
        "waiting for the failure table: it could not be read for "
    )
    assert first.counts == {"sent": 2, "not_reached": 18}
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", address)
    assert job.run().counts == {"sent_before": 2, "sent": 18}
    assert job.handled() == list(range(20))


def test_that_nobody_watches_is_said_before_the_first_message(job: Job, world: RampWorld) -> None:
    job.begin(two_groups())
    announced: list[tuple[str, int]] = []

    def announce(note: str) -> None:
        announced.append((note, len(world.main.queue.messages())))

    summary = job.run(ramp=None, failure_table=None, announce=announce)

    note = "everything at once: no --failure-table counts what fails again"
    assert announced == [(note, 0)]
    assert summary.notes == (note,)
    assert summary.counts == {"sent": 20}


@pytest.mark.usefixtures("quick_locks")
def test_a_second_operator_is_refused_while_a_ramp_sends(
    job: Job, world: RampWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.begin(two_groups())
    refused: list[BusyError] = []

    def at_step(step: Step) -> None:
        if step.number == 2:
            for ramp in (False, None):
                with pytest.raises(BusyError, match="is being carried out") as raised:
                    job.run(ramp=ramp)
                refused.append(raised.value)

    after_each_step(monkeypatch, at_step)
    summary = job.run()

    assert len(refused) == 2
    assert {*job.verdicts(summary).values()} == {Verdict.SENT}
    assert summary.count("sent") == 20
    assert job.handled() == list(range(20))


@pytest.mark.parametrize("use", [LockUse.SEND, LockUse.ANALYZE])
def test_a_run_that_waits_for_a_verdict_gives_the_lock_back_and_ends_if_another_run_acts(
    job: Job, world: RampWorld, use: LockUse
) -> None:
    job.begin(two_groups())
    others: list[ArchiveLock] = []

    def act() -> None:
        if len(world.handled) == 2 and not others:
            with archive_lock(job.archive, LockHolder("another", use, "plan p-2", "you")) as lock:
                others.append(lock)

    world.last = act
    first = job.run()

    assert len(others) == 1
    is_over = first.stopped_by is None
    assert is_over is (use is LockUse.ANALYZE)
    if first.stopped_by:
        # It ends before its next step: its tasks would stop, too, but each after a claim.
        assert first.stopped_by.cause is StopCause.LOCK_LOST
        assert "while this one waited for a verdict" in first.stopped_by.detail
        assert (first.count("sent"), first.count("not_reached")) == (2, 18)
    last = first if is_over else job.run()
    assert {*job.verdicts(last).values()} == {Verdict.SENT}
    assert job.handled() == list(range(20))


def test_a_notice_says_how_a_ramp_goes(
    job: Job, world: RampWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function that notifies reads the files of the archive by code of its own."""
    job.begin(two_groups())
    states: list[tuple[RedriveState, list[int]]] = []

    def look() -> Redrive | None:
        s3: Any = FolderS3(Path(job.archive.root))
        environment = {"ARCHIVE_BUCKET": "archive", "ARCHIVE_PREFIX": ""}
        going_on = read_redrive(s3, environment, datetime.now(UTC))
        if going_on:
            assert going_on.plan_id == job.plan_id
            sizes = [step.messages + step.proven + step.left for step in going_on.steps]
            states.append((going_on.state, sizes))
        return going_on

    after_each_step(monkeypatch, lambda _: look())
    world.last = look
    job.run()

    assert states[0] == (RedriveState.SENDING, [20])
    assert RedriveState.WAITING in {state for state, _ in states}
    assert look() is None


def test_a_run_that_lost_the_lock_without_knowing_begins_no_other_step(
    job: Job, world: RampWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process was frozen, for one, so that another run took the lock for dead."""
    job.begin(two_groups())
    create = Steps.create
    another = LockHolder("another", LockUse.SEND, "plan p-2", "you")

    def create_and_lose_the_lock(steps: Steps, step: Step) -> bool:
        is_made = create(steps, step)
        if step.number == 2 and step.sent_at is not None:
            with monkeypatch.context() as patch:
                patch.setattr(lock, "life_of", lambda *_: Life.DEAD)
                ArchiveLock(job.archive, another).release()
        return is_made

    with monkeypatch.context() as patch:
        patch.setattr(Steps, "create", create_and_lose_the_lock)
        first = job.run()

    assert first.stopped_by
    assert first.stopped_by.cause is StopCause.LOCK_LOST
    assert len(job.steps()) == 2
    assert job.run().count("sent", "sent_before") == 20
    assert job.handled() == list(range(20))


def test_return_after_a_verdict_stops_its_group_within_the_last_step(
    job: Job, world: RampWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = ["TimeoutError"] * 300 + ["KeyError"] * 30
    messages = [parked(n, error) for n, error in enumerate(errors)]
    job.begin(messages)
    late = job.groups["TimeoutError"]
    # Two steps, of which the second takes long.
    monkeypatch.setattr("dlq.redrive.ramping.verdicts.step_size", lambda sent, n: n if sent else 1)
    monkeypatch.setattr("dlq.redrive.sending.task_runner._TROUBLE_SECONDS", 0.05)

    def slowly() -> None:
        if len(world.handled) == 2:
            job.add_returns(late, *map(str, range(9)))
            time.sleep(0.5)

    world.main.front.faults.add(
        Fault(Effect.CALL, "SendMessageBatch", probability=1.0, callback=slowly)
    )
    first = job.run(tasks=1)
    last = job.run(tasks=1)

    assert first.stopped_by == Stop(StopCause.BAD_STEP)
    assert job.verdicts(first)["TimeoutError"] is Verdict.BAD
    counts = {group.group_id: group.counts for group in last.groups}
    halted = counts.pop(late)
    assert halted["halted"] == 300 - halted["sent_before"] > 0
    # The rest of the other group's step goes with the next run.
    assert job.verdicts(last) == {"KeyError": Verdict.SENT}
    [others] = counts.values()
    assert sum(others.values()) == others.get("sent", 0) + others["sent_before"] == 30
    numbers = job.handled()
    assert len(numbers) == len({*numbers}) == first.count("sent") + last.count("sent")


class Nights:
    """Scheduled runs with a ramp, on queues of their own, two hours after one another."""

    def __init__(self, job: Job, make_queue: MakeQueue, folder: Path) -> None:
        self.engine = job.engine
        self.parked = make_queue("parked")
        dlq = make_queue("dlq", self.parked, VisibilityTimeout="600")
        self.main = make_queue("main", dlq, VisibilityTimeout="600")
        self.archive = open_archive(str(folder / "archive"))
        rules = folder / "policy.yaml"
        rules.write_text("version: 1\nrules: [{name: all, when: 'true', action: redrive}]\n")
        self.options = RunRequest(
            main_queue_url=self.main.url,
            parked_queue_urls=(self.parked.url,),
            policy=str(rules),
            failure_table=job.table,
            minute_seconds=1,
            reason="every night",
            execute=True,
        )

    def park(self, *letters: Message) -> None:
        self.parked.send([entry_of(letter) for letter in letters])

    def run(self, number: int) -> RedriveSummary:
        """The run of the night with this number; the first one is 0."""
        clock = Clock(lambda: time.time() + number * 7200)
        redriven = scheduled_run(self.engine, self.archive, self.options, clock=clock).redriven
        assert redriven is not None
        return redriven


@pytest.fixture
def nights(
    job: Job,
    make_queue: MakeQueue,
    tmp_path: Path,
    sqs_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    quick_drains: None,
) -> Nights:
    nights = Nights(job, make_queue, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", sqs_endpoint)
    return nights


def test_scheduled_runs_go_on_with_a_ramp_and_each_says_what_it_sent(nights: Nights) -> None:
    nights.park(*map(parked, range(4)))
    first = nights.run(0)
    nights.park(parked(4, "KeyError"))
    second = nights.run(1)

    # Nobody has received the first message. The new group does not wait for that.
    assert "step 1 can be judged after" in sentence_of(first.stopped_by)
    assert first.counts == {"sent": 1, "not_reached": 3}
    assert second.plan_id > first.plan_id
    assert second.counts == {"sent": 1, "not_reached": 3}
    why = sentence_of(second.stopped_by)
    assert "step 1 cannot be judged yet: the step may still be in the main" in why
    assert len(receive_all(nights.main)) == 2

    third = nights.run(2)

    # It goes on where it was, and says what it sent.
    assert third.counts == {"sent": 2, "not_reached": 1}
    [ramp] = third.ramp
    assert (ramp.step, ramp.steps) == (2, 3)
    decided = Statement(datetime.now(UTC), "me", "leave", new_id(time.time()))
    add_statement(nights.archive, ramp.group_id, decided)
    assert nights.run(3).counts == {"leave": 1}
    assert len(receive_all(nights.main)) == 2


@pytest.mark.parametrize("suffix", [".fifo"])
def test_on_fifo_a_return_that_was_allowed_holds_up_its_group_until_the_next_plan_alone(
    job: Job, world: RampWorld
) -> None:
    lanes = "ABCDEFGHIJ" * 3 + "KLMN"
    messages = in_lanes(lanes, lambda n: "TimeoutError" if n < 30 else "KeyError")
    job.begin(messages)
    world.fails = lambda message: number(message) == 1

    first = job.run(allow_returns="1")

    assert sentence_of(first.stopped_by).endswith("what failed again must go first: collect again")
    assert job.verdicts(first) == {"TimeoutError": Verdict.RETURNED, "KeyError": Verdict.SENT}
    assert job.handled() == [0, 2, 30, 31, 32, 33]

    world.fails = lambda _: False
    [returned] = world.parked.receive()
    assert isinstance(returned, Message)
    job.begin([returned], "20261122T040000Z-0000052f1aa")
    second = job.run(allow_returns="1", where=NOT_REDRIVEN_BEFORE)

    # Only what shares a message group with what failed again is left, for a person.
    left = [n for n in range(30) if lanes[n] == "B"]
    assert second.stopped_by is None
    assert second.count("sent") == 25
    assert job.handled() == [n for n in range(34) if n not in left]
    job.assert_order(lanes)
    assert job.sizes(job.groups["TimeoutError"]) == [6, 18, 1]


@pytest.mark.parametrize("suffix", [".fifo"])
def test_heads_of_message_groups_go_first_and_nothing_overtakes(job: Job, world: RampWorld) -> None:
    # Failures of both kinds stand behind each other in each message group.
    lanes = "AAAAAABBBCDA"
    messages = in_lanes(lanes, lambda n: "KeyError" if n % 3 == 1 else "TimeoutError")
    job.begin(messages)
    world.fails = lambda message: number(message) == 1

    summary = job.run(tasks=1)

    job.assert_order(lanes)
    assert job.verdicts(summary)["KeyError"] is Verdict.BAD
    # The second step has no two messages of a message group that could be of two.
    assert sorted(map(number, world.handled[2:5])) == [6, 7, 9]
    # What waits behind an unsent message of the halted group stays.
    assert sorted(map(number, world.handled)) == [0, 2, 3, 6, 7, 8, 9, 10]
    assert "waits behind messages that stay" in sentence_of(summary.stopped_by)


@pytest.mark.parametrize("suffix", ["", ".fifo"])
@pytest.mark.parametrize("is_decided", [False, True])
def test_step_of_a_killed_run_sends_nothing_of_a_group_that_was_halted_since(
    job: Job,
    world: RampWorld,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    *,
    is_decided: bool,
) -> None:
    errors = ["TimeoutError" if n % 3 else "KeyError" for n in range(18)]
    lanes = "AB" * 9
    messages = in_lanes(lanes, errors.__getitem__)
    job.begin(messages)
    halted = job.groups["KeyError"]
    after_each_step(monkeypatch, lambda step: step.number == 2 and die())
    with pytest.raises(Died):
        job.run()
    if is_decided:
        # Decided again: its next step must be one message.
        job.say(halted, halted="it was bad")
        job.say(halted, action="redrive", plan_id=job.plan_id)
    else:
        job.add_returns(halted, "a")

    runs = [job.run(tasks=1)]
    while runs[-1].is_unfinished and len(runs) < 4:
        runs.append(job.run(tasks=1))

    numbers = job.handled()
    of_group = [n for n in numbers if errors[n] == "KeyError"]
    assert len(numbers) == len({*numbers})
    if suffix:
        job.assert_order(lanes)
    if is_decided:
        assert numbers == list(range(18))
        assert [step.messages[halted] for step in job.steps()[:3]] == [1, 0, 1]
    else:
        assert runs[0].has_halted_groups
        assert len(of_group) == 1
        assert suffix or len(numbers) == 13


def after_each_step(monkeypatch: pytest.MonkeyPatch, act: Callable[[Step], object]) -> None:
    """Act whenever a run has made the record of a step."""
    original = Steps.create

    def create(steps: Steps, step: Step) -> bool:
        is_made = original(steps, step)
        if step.sent_at is None:
            act(step)
        return is_made

    monkeypatch.setattr(Steps, "create", create)
