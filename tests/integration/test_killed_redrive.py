"""SIGKILL to a redrive, driver or workers, at a request that SQS chooses; then the rest.

One point; ``make soak`` tries more, and more victims.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.ledger.claims import Attempt
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.stop import StopCause
from dlq.redrive.summary import RedriveSummary
from local_sqs.faults import Effect, Fault
from tests.integration.conftest import Capture
from tests.integration.desk import SEND, Desk, MakeDesk, standard
from tests.support.ledgers import attempts_of
from tests.support.needs import needs_proc
from tests.support.processes import Family, Process, send_signal, wait_until
from tests.support.small_jobs import QUICK_SPARK

pytestmark = needs_proc

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = 1000
TASKS = 2
LOCK_SECONDS = 5
"""The life of a lock: short, so that the next run need not wait long."""

Choice = Callable[[list[Process]], list[Process]]


def driver(family: list[Process]) -> list[Process]:
    return [process for process in family if "tests.integration.redrive_process" in process.command]


def jvm(family: list[Process]) -> list[Process]:
    return [process for process in family if process.command[0].endswith("java")]


def workers(family: list[Process]) -> list[Process]:
    forks = [process for process in family if "pyspark.daemon" in process.command]
    return [process for process in forks if process.parent in {parent.pid for parent in forks}]


def everybody(family: list[Process]) -> list[Process]:
    return family


@dataclass(frozen=True)
class Point:
    """The process to kill, the request at which to do it, before or after SQS has carried it out.

    The local engine has one process, which is killed in any case.
    """

    victims: Choice
    request: int
    after: bool

    def __str__(self) -> str:
        when = "after" if self.after else "before"
        return f"{self.victims.__name__} {when} request {self.request}"


def points(count: int) -> list[Point]:
    """The first five are fixed: each victim once, then the driver late; before and after."""
    fixed = [
        Point(driver, 1, after=True),
        Point(everybody, 60, after=True),
        Point(jvm, 30, after=False),
        Point(workers, 45, after=True),
        Point(driver, 85, after=False),
    ]
    draw = random.Random(20)
    kinds = (driver, jvm, workers, everybody)
    points = [*fixed]
    for number in range(count):
        points.append(Point(kinds[number % 4], draw.randint(1, 95), after=draw.random() < 0.5))
    return points[:count]


@dataclass(frozen=True)
class Job(Desk):
    """A plan over a thousand messages, and what may be known of its runs from outside."""

    family: Family = field(default_factory=Family)

    def start(
        self, engine: str | None = None, *, in_own_group: bool = False, **options: Any
    ) -> "subprocess.Popen[str]":
        """Start it, by default on the test's engine.

        Start it as a shell does where it is to have a group of its own, to which Ctrl-C goes. A
        group without its leader is woken by the system: no place for a JVM that is frozen.
        """
        given = {
            "plan": self.plan,
            "to_queue_url": self.destination.url,
            "lock_seconds": LOCK_SECONDS,
            "execute": True,
            "reason": "it is fixed",
            "tasks": TASKS,
            **options,
        }

        environment = {
            **os.environ,
            **self.family.environment,
            "AWS_ENDPOINT_URL": self.world.url,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "layers" / "core"))),
            **QUICK_SPARK,
            # A task that fails is tried three times more, as on a cluster.
            "PYSPARK_SUBMIT_ARGS": f"--master local[{TASKS},4] "
            + QUICK_SPARK["PYSPARK_SUBMIT_ARGS"],
        }

        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.integration.redrive_process",
                engine or self.engine.name,
                self.archive.root,
                json.dumps(given),
            ],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0 if in_own_group else None,
        )

    def run_again(self) -> RedriveSummary:
        """Send the rest, and what is unconfirmed, to a server that is well."""
        self.world.front.faults.clear()
        return self.redrive(lock_seconds=LOCK_SECONDS, unconfirmed="send")

    def abandoned(self) -> list[Attempt]:
        """Claims without a result: their task was killed."""
        return [attempt for attempt in attempts_of(self.archive) if attempt.results is None]

    def unconfirmed(self) -> Counter[str]:
        """Return the number of times that each message was left unconfirmed."""
        lost = Counter(m for attempt in self.abandoned() for m in attempt.claim.message_ids)
        results = [r for attempt in attempts_of(self.archive) for r in attempt.results or ()]
        return lost + Counter(r.message_id for r in results if r.outcome is Disposition.UNCONFIRMED)

    def is_quiet_for(self, seconds: float) -> bool:
        """Return whether SQS gets no request to send for so long."""
        calls = self.world.front.log.count(SEND)
        time.sleep(seconds)
        return self.world.front.log.count(SEND) == calls

    def strike(self, victims: Choice) -> None:
        family = self.family.alive()
        has_one_process = family == driver(family)
        send_signal(signal.SIGKILL, family if has_one_process else victims(family))

    def kill_and_end(self, point: Point, engine: str | None = None) -> None:
        """Kill a run, by default on the test's engine; end it on the test's engine."""
        self.world.front.faults.add(
            Fault(Effect.LOSE, SEND, probability=0.03, seed=1),
            Fault(Effect.THROTTLE, SEND, probability=0.05, seed=2),
            Fault(Effect.FAIL_ENTRIES, SEND, probability=0.05, seed=3, entries=(1, 7)),
            Fault(
                Effect.CALL,
                SEND,
                nth=point.request,
                after=point.after,
                callback=lambda: self.strike(point.victims),
            ),
        )
        self.start(engine).communicate()
        wait_until(lambda: not self.family.alive())
        arrived = self.arrived()
        abandoned = self.abandoned()
        sent = self.recorded(Disposition.SENT)

        assert len(abandoned) <= TASKS
        assert sent <= set(arrived) <= sent | set(self.unconfirmed())
        assert set(arrived.values()) == {1}

        again = self.run_again()
        arrived += self.arrived()

        assert again.count("sent") + again.count("sent_before") == MESSAGES
        assert set(arrived) == {message.message_id for message in self.sent}
        twice = arrived - Counter(dict.fromkeys(arrived, 1))
        assert twice <= self.unconfirmed()


@pytest.fixture
def job(make_desk: MakeDesk) -> Iterator[Job]:
    job = Job(**vars(make_desk(standard(MESSAGES))))
    job.world.latency_ms = 5
    yield job
    job.strike(everybody)


@pytest.mark.both_engines
@pytest.mark.parametrize("point", points(int(os.environ.get("KILL_POINTS", "1"))), ids=str)
def test_killed_redrive_loses_nothing_and_names_what_may_arrive_twice(
    job: Job, point: Point
) -> None:
    job.kill_and_end(point)


@pytest.mark.both_engines
def test_redrive_that_was_killed_on_one_engine_ends_on_the_other(job: Job) -> None:
    other = {"local": "spark", "spark": "local"}[job.engine.name]

    job.kill_and_end(Point(everybody, 45, after=True), other)


@pytest.mark.on_spark
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_worker_whose_driver_is_dead_or_frozen_stops_in_good_order(
    job: Job, number: signal.Signals
) -> None:
    """The JVM is frozen, so that nothing but the archive lock can tell the workers."""

    def orphan() -> None:
        family = job.family.alive()
        send_signal(signal.SIGSTOP, jvm(family))
        send_signal(number, driver(family))

    job.world.front.faults.add(Fault(Effect.CALL, SEND, nth=20, callback=orphan))
    # Its output stays open: the frozen JVM has it, too.
    process = job.start(max_rate=100.0)
    wait_until(lambda: job.world.front.log.count(SEND) >= 20 or process.poll() is not None)
    wait_until(lambda: not job.abandoned() and job.is_quiet_for(LOCK_SECONDS))
    calls = job.world.front.log.count(SEND)
    orphans = workers(job.family.alive())
    job.strike(everybody)
    process.wait()

    # Half the life of a lock, at 10 calls a second.
    assert calls <= 20 + 10 * (LOCK_SECONDS / 2 + 5) < MESSAGES / 10
    assert len(orphans) >= TASKS
    assert job.recorded(Disposition.SENT) == set(job.arrived())


@pytest.mark.both_engines
def test_ctrl_c_stops_in_good_order_and_the_next_run_goes_on(job: Job, capfd: Capture) -> None:
    def press() -> None:
        [process] = driver(job.family.alive())
        os.killpg(process.pid, signal.SIGINT)

    job.world.front.faults.add(Fault(Effect.CALL, SEND, nth=20, callback=press))
    with job.start(in_own_group=True, max_rate=200.0) as process:
        output, _ = process.communicate()
    stopped = json.loads(output.splitlines()[-1])
    before = job.arrived()

    assert process.returncode == 0
    assert "Traceback" not in capfd.readouterr().err
    assert stopped["stopped_by"] == StopCause.INTERRUPTED
    assert (job.abandoned(), job.unconfirmed()) == ([], Counter())
    assert 0 < stopped["counts"]["sent"] == len(before) < MESSAGES

    again = job.run_again()

    assert again.count("sent") + again.count("sent_before") == MESSAGES
    assert before + job.arrived() == Counter(message.message_id for message in job.sent)


@pytest.mark.both_engines
def test_second_ctrl_c_ends_the_run_at_once(job: Job, capfd: Capture) -> None:
    """Messages that are unconfirmed then are named; they go again only if somebody says so."""

    def press() -> None:
        [process] = driver(job.family.alive())
        os.killpg(process.pid, signal.SIGINT)

    def press_twice() -> None:
        press()
        time.sleep(0.5)
        press()

    # The calls that are open last for longer than the second press takes.
    job.world.front.faults.add(
        Fault(Effect.CALL, SEND, nth=20, callback=press_twice),
        Fault(Effect.DELAY, SEND, seconds=3.0),
    )
    with job.start(in_own_group=True, max_rate=200.0) as process:
        output, _ = process.communicate()
    wait_until(lambda: not job.family.alive())
    before = job.arrived()
    unconfirmed = job.unconfirmed()

    assert process.returncode == 130
    assert json.loads(output.splitlines()[-1]) == {"interrupted": True}
    assert "Traceback" not in capfd.readouterr().err
    assert set(before) <= job.recorded(Disposition.SENT) | set(unconfirmed)

    again = job.run_again()

    assert again.count("sent") + again.count("sent_before") == MESSAGES
    twice = before + job.arrived() - Counter(message.message_id for message in job.sent)
    assert twice <= unconfirmed
