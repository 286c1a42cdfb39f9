"""Measures drain and redrive against the classical loop, which writes no file."""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import boto3

from benchmarks.baselines import LoopRates, fill
from benchmarks.findings import Finding, Side
from benchmarks.rig import Rig, Watch, by_turns
from benchmarks.verbs import ANALYZE, DRAIN, TimedVerb, approved, timed_verb

MESSAGES = 100_000
DRAIN_TURNS = 2
REDRIVE_TURNS = 3

DRAIN_TARGET = 5
REDRIVE_TARGET = 10
DRAIN_REQUESTS_TARGET = 0.23
REDRIVE_REQUESTS_TARGET = 0.12
MEMORY_TARGET = 1.25


@dataclass
class _Runs:
    """Runs of one verb: how long each took, and what the server did.

    Every request counts, also empty polls and GetQueueAttributes.
    """

    rig: Rig
    watches: list[Watch] = field(default_factory=list)
    timed: list[TimedVerb] = field(default_factory=list)

    def run(self, count: int, *arguments: str) -> float:
        """Return messages a second, without the start of the session."""
        with self.rig.server.watched() as watch:
            self.timed.append(timed_verb(*arguments))
        self.watches.append(watch)
        return count / self.timed[-1].seconds


class _Drains(_Runs):
    """Drains of a queue, which is filled before each."""

    def drain(self, count: int, folder: Path) -> float:
        """Drain *count* messages into a new archive in *folder*."""
        shutil.rmtree(folder, ignore_errors=True)
        url = boto3.client("sqs").create_queue(QueueName="parked")["QueueUrl"]
        fill(self.rig.server, url, count)
        return self.run(count, *DRAIN, "--archive", str(folder), "--parked-queue-url", url)


class _Redrives(_Runs):
    """Redrives of one plan. The ledger is deleted before each."""

    def prepare(self, folder: Path, count: int) -> None:
        """Analyze the archive of a drain."""
        timed_verb(*ANALYZE, "--archive", str(folder))
        self.folder, self.count, self.plan = str(folder), count, approved(folder)

    def redrive(self) -> float:
        """Send all messages.

        Raises:
            RuntimeError: not all arrived.
        """
        shutil.rmtree(Path(self.folder, "ledger"), ignore_errors=True)
        client = boto3.client("sqs")
        url = client.create_queue(QueueName="redriven")["QueueUrl"]
        rate = self.run(
            self.count,
            *("redrive", "--archive", self.folder, "--plan", self.plan, "--to-queue-url", url),
            *("--execute", "--reason", "benchmark"),
        )
        arrived = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        if int(arrived["ApproximateNumberOfMessages"]) != self.count:
            raise RuntimeError(f"{self.count} messages were sent, and main has {arrived}")
        client.delete_queue(QueueUrl=url)
        return rate


def measure(rig: Rig) -> list[Finding]:
    """Run each verb on a quarter for its memory, then on all, alternately with the loop."""
    count, loop = rig.sized(MESSAGES), LoopRates(rig)
    with tempfile.TemporaryDirectory(prefix="bench-archives-") as folder:
        few, whole = Path(folder, "few"), Path(folder, "whole")
        rig.notify(f"drain of {count:,} messages, against the classical loop")
        drains = _Drains(rig)
        drains.drain(count // 4, few)
        sides = by_turns(lambda: drains.drain(count, whole), loop.run, rig.turns(DRAIN_TURNS))
        found = _findings(f"drain, {count:,} messages", count, drains, sides)
        rig.notify(f"redrive of {count:,} messages, against the same")
        redrives = _Redrives(rig)
        redrives.prepare(few, count // 4)
        redrives.redrive()
        redrives.prepare(whole, count)
        sides = by_turns(redrives.redrive, loop.run, rig.turns(REDRIVE_TURNS))
    return [*found, *_findings(f"redrive, {count:,} messages", count, redrives, sides)]


def _findings(
    what: str, count: int, runs: _Runs, sides: tuple[list[float], list[float]]
) -> list[Finding]:
    verb = what.partition(",")[0]
    quarter, *whole = runs.timed
    requests = [sum(watch.requests.values()) / count for watch in runs.watches[1:]]
    is_drain = verb == "drain"
    requests_target = DRAIN_REQUESTS_TARGET if is_drain else REDRIVE_REQUESTS_TARGET
    memory = [one.peak_mb / quarter.peak_mb for one in whole]
    return [
        Finding.of_ratio(
            what,
            Side("messages a second", sides[0]),
            Side("messages a second, the loop", sides[1]),
            at_least=DRAIN_TARGET if is_drain else REDRIVE_TARGET,
        ),
        Finding(f"{verb}, requests a message", requests, "requests", at_most=requests_target),
        Finding(f"{verb}, memory against a quarter", memory, "times", at_most=MEMORY_TARGET),
        runs.rig.server_finding(verb, runs.watches[-1], whole[-1].seconds),
    ]
