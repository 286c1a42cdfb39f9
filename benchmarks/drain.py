"""Measures the verb ``drain`` against the classical loop, which writes no file."""

import tempfile
from dataclasses import dataclass, field

import boto3

from benchmarks.findings import Finding, Side, at_least, at_most
from benchmarks.parked import fill
from benchmarks.redrive_loop import LoopRates
from benchmarks.rig import Rig, Watch, by_turns
from benchmarks.verbs import TimedVerb, timed_verb

MESSAGES = 100_000
TURNS = 2

RATE_TARGET = at_least(5)
MEMORY_TARGET = at_most(1.25)


@dataclass
class _Drains:
    """Drains of a queue, which is filled before each."""

    rig: Rig
    url: str
    watches: list[Watch] = field(default_factory=list)
    timed: list[TimedVerb] = field(default_factory=list)

    def run(self, count: int) -> float:
        """Return messages a second, without the start of the session."""
        fill(self.rig.server, self.url, count)
        with (
            tempfile.TemporaryDirectory(prefix="bench-archive-") as archive,
            self.rig.server.watched() as watch,
        ):
            self.timed.append(
                timed_verb("drain", "--archive", archive, "--parked-queue-url", self.url)
            )
        self.watches.append(watch)
        return count / self.timed[-1].seconds


def measure(rig: Rig) -> list[Finding]:
    """Drain a quarter for its memory, then all messages alternately with the loop."""
    count = rig.sized(MESSAGES)
    rig.notify(f"drain of {count:,} messages, against the classical loop")
    url = boto3.client("sqs").create_queue(QueueName="parked")["QueueUrl"]
    drains, loop = _Drains(rig, url), LoopRates(rig)
    drains.run(count // 4)
    rates, loop_rates = by_turns(lambda: drains.run(count), loop.run, rig.turns(TURNS))
    quarter, *whole = drains.timed
    requests = [sum(watch.requests.values()) / count for watch in drains.watches[1:]]
    return [
        Finding.of_ratio(
            f"drain, {count:,} messages",
            Side("messages a second", rates),
            Side("messages a second, the loop", loop_rates),
            RATE_TARGET,
        ),
        Finding("drain, start of the session", [one.session_seconds for one in whole], "s"),
        Finding("drain, requests a message", requests, "requests"),
        Finding(
            "drain, memory against a quarter of the messages",
            [one.worker_peak_mb / quarter.worker_peak_mb for one in whole],
            "times",
            MEMORY_TARGET,
        ),
        rig.server_finding("drain", drains.watches[-1], whole[-1].seconds),
    ]
