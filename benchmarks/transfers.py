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

    def redrive(self, count: int, folder: Path, plan: str) -> float:
        """Send all messages.

        Raises:
            RuntimeError: not all arrived.
        """
        shutil.rmtree(folder / "ledger", ignore_errors=True)
        client = boto3.client("sqs")
        url = client.create_queue(QueueName="redriven")["QueueUrl"]
        rate = self.run(
            count,
            *("redrive", "--archive", str(folder), "--plan", plan, "--to-queue-url", url),
            *("--execute", "--reason", "benchmark"),
        )
        arrived = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        if int(arrived["ApproximateNumberOfMessages"]) != count:
            raise RuntimeError(f"{count} messages were sent, and main has {arrived}")
        client.delete_queue(QueueUrl=url)
        return rate


def measure(rig: Rig) -> list[Finding]:
    """Run each verb alternately with the loop, after a run of a tenth as a warm-up."""
    count, loop = rig.sized(MESSAGES), LoopRates(rig)
    with tempfile.TemporaryDirectory(prefix="bench-archives-") as name:
        folder = Path(name, "archive")
        rig.notify(f"drain of {count:,} messages, against the classical loop")
        drains = _Drains(rig)
        drains.drain(count // 10, folder)
        sides = by_turns(lambda: drains.drain(count, folder), loop.run, rig.turns(DRAIN_TURNS))
        found = _findings(f"drain, {count:,} messages", count, drains, sides)
        rig.notify(f"redrive of {count:,} messages, against the same")
        timed_verb(*ANALYZE, "--archive", str(folder))
        redrives, plan = _Redrives(rig), approved(folder)
        redrives.redrive(count, folder, plan)
        sides = by_turns(
            lambda: redrives.redrive(count, folder, plan), loop.run, rig.turns(REDRIVE_TURNS)
        )
    return [*found, *_findings(f"redrive, {count:,} messages", count, redrives, sides)]


def _findings(
    what: str, count: int, runs: _Runs, sides: tuple[list[float], list[float]]
) -> list[Finding]:
    verb = what.partition(",")[0]
    requests = [sum(watch.requests.values()) / count for watch in runs.watches[1:]]
    is_drain = verb == "drain"
    requests_target = DRAIN_REQUESTS_TARGET if is_drain else REDRIVE_REQUESTS_TARGET
    return [
        Finding.of_ratio(
            what,
            Side("messages a second", sides[0]),
            Side("messages a second, the loop", sides[1]),
            at_least=DRAIN_TARGET if is_drain else REDRIVE_TARGET,
        ),
        Finding(f"{verb}, requests a message", requests, "requests", at_most=requests_target),
        runs.rig.server_finding(verb, runs.watches[-1], runs.timed[-1].seconds),
    ]
