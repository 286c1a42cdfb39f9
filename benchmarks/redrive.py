"""Measures the verb ``redrive`` against the classical loop and SQS's own redrive."""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import boto3

from benchmarks.findings import Finding, Side, at_least, at_most
from benchmarks.parked import archive
from benchmarks.redrive_loop import LoopRates, move_task_seconds
from benchmarks.rig import Rig, Watch, by_turns
from benchmarks.verbs import TimedVerb, analyzed, timed_verb

MESSAGES = 100_000
TURNS = 3

RATE_TARGET = at_least(10)
REQUESTS_TARGET = at_most(0.12)
MEMORY_TARGET = at_most(1.25)


@dataclass
class _Redrives:
    """Repeated redrives of one plan. The ledger is deleted before each."""

    rig: Rig
    folder: str
    count: int
    watches: list[Watch] = field(default_factory=list)
    timed: list[TimedVerb] = field(default_factory=list)

    def __post_init__(self) -> None:
        archive(self.folder, self.count)
        self._plan = analyzed(self.folder)

    def run(self) -> float:
        """Return messages a second, without the start of the session."""
        shutil.rmtree(Path(self.folder, "ledger"), ignore_errors=True)
        client = boto3.client("sqs")
        # A new name each time: SQS refuses the name of a deleted queue for a minute.
        name = f"main-{self.count}-{len(self.timed)}"
        url = client.create_queue(QueueName=name)["QueueUrl"]
        with self.rig.server.watched() as watch:
            self.timed.append(
                timed_verb(
                    *("redrive", "--archive", self.folder, "--plan", self._plan),
                    *("--to-queue-url", url, "--execute", "--reason", "benchmark"),
                )
            )
        arrived = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        if int(arrived["ApproximateNumberOfMessages"]) != self.count:
            raise RuntimeError(f"{self.count} messages were sent, and main has {arrived}")
        client.delete_queue(QueueUrl=url)
        self.watches.append(watch)
        return self.count / self.timed[-1].seconds


def measure(rig: Rig) -> list[Finding]:
    """Redrive a quarter for its memory, then all messages alternately with the loop."""
    count = rig.sized(MESSAGES)
    rig.notify(f"redrive of {count:,} messages, against the classical loop")
    with (
        tempfile.TemporaryDirectory(prefix="bench-archive-") as few,
        tempfile.TemporaryDirectory(prefix="bench-archive-") as all_of_them,
    ):
        quarter, whole = _Redrives(rig, few, count // 4), _Redrives(rig, all_of_them, count)
        quarter.run()
        rates, loop_rates = by_turns(whole.run, LoopRates(rig).run, rig.turns(TURNS))
    return _findings(rig, quarter, whole, rates, loop_rates)


def _findings(
    rig: Rig, quarter: _Redrives, whole: _Redrives, rates: list[float], loop_rates: list[float]
) -> list[Finding]:
    few_mb = quarter.timed[0].worker_peak_mb
    return [
        Finding.of_ratio(
            f"redrive, {whole.count:,} messages",
            Side("messages a second", rates),
            Side("messages a second, the loop", loop_rates),
            RATE_TARGET,
        ),
        Finding(
            "redrive, against SQS's own at 500 a second",
            [move_task_seconds(whole.count) / one.seconds for one in whole.timed],
            "times",
        ),
        Finding("redrive, start of the session", [o.session_seconds for o in whole.timed], "s"),
        Finding(
            "redrive, requests a message",
            [sum(watch.requests.values()) / whole.count for watch in whole.watches],
            "requests",
            REQUESTS_TARGET,
        ),
        Finding(
            "redrive, memory against a quarter of the messages",
            [one.worker_peak_mb / few_mb for one in whole.timed],
            "times",
            MEMORY_TARGET,
        ),
        rig.server_finding("redrive", whole.watches[-1], whole.timed[-1].seconds),
    ]
