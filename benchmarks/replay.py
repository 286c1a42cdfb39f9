"""Measures the replay function against the public app's algorithm, with the same invocations."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import boto3

from benchmarks.baselines import PublicApp
from benchmarks.findings import Finding, Side
from benchmarks.invocation import MAIN_QUEUE, Handler, event, invoke, load_replay_handler, silence
from benchmarks.rig import Rig, by_turns

BATCH = 100
MESSAGES = 2000
MESSAGES_ONE_BY_ONE = 300
TURNS = 9

BATCH_TARGET = 20
ONE_TARGET = 0.9
SENDS_TARGET = 0.11

_QUEUES = {"main_queue": MAIN_QUEUE, "dlq": "dlq", "parked_queue": "parked"}
_POLICY = {"MAX_ATTEMPTS": "20", "BACKOFF_RATE": "10", "BACKOFF_CAP_SECONDS": "900"}


@dataclass(frozen=True, slots=True)
class _Load:
    """A handler and its events, which are invoked one after the other."""

    handler: Handler
    events: Sequence[bytes]
    message_count: int

    def messages_per_second(self) -> float:
        began = time.perf_counter()
        for payload in self.events:
            invoke(self.handler, payload)
        return self.message_count / (time.perf_counter() - began)


def measure(rig: Rig) -> list[Finding]:
    """Measure events of 100 and of 1 message; count the sends of the large ones."""
    client = boto3.client("sqs")
    urls = {
        f"{name.upper()}_URL": client.create_queue(QueueName=queue_name)["QueueUrl"]
        for name, queue_name in _QUEUES.items()
    }
    count, count_one = max(BATCH, rig.sized(MESSAGES)), rig.sized(MESSAGES_ONE_BY_ONE)
    batches = [event(range(first, first + BATCH)) for first in range(0, count, BATCH)]
    ones = [event(range(number, number + 1)) for number in range(count_one)]
    with silence() as nowhere:
        app = PublicApp(client, urls["MAIN_QUEUE_URL"], 10, 345_600, nowhere)
        replay = load_replay_handler({**urls, **_POLICY})
        baseline = _Load(app, ones, count_one)
        findings = _batches(rig, _Load(replay, batches, count), baseline)
        rig.notify("replay, events of 1, against the same")
        one = _Load(replay, ones, count_one)
        return [*findings, _ratio(rig, "replay, events of 1", one, baseline, ONE_TARGET)]


def _batches(rig: Rig, product: _Load, baseline: _Load) -> list[Finding]:
    rig.notify(f"replay, events of {BATCH}, against one message an invocation")
    with rig.server.watched() as watch:
        product.messages_per_second()
    sends = sum(watch.requests.get(name, 0) for name in ("SendMessage", "SendMessageBatch"))
    each = [sends / product.message_count]
    return [
        _ratio(rig, f"replay, events of {BATCH}", product, baseline, BATCH_TARGET),
        Finding("replay, send requests a message", each, "requests", at_most=SENDS_TARGET),
        rig.server_finding("replay", watch, watch.seconds),
    ]


def _ratio(rig: Rig, what: str, product: _Load, baseline: _Load, target: float) -> Finding:
    for load in (product, baseline):
        invoke(load.handler, load.events[0])
    rates, baseline_rates = by_turns(
        product.messages_per_second, baseline.messages_per_second, rig.turns(TURNS)
    )
    return Finding.of_ratio(
        what,
        Side("messages a second", rates),
        Side("messages a second, public app's way", baseline_rates),
        at_least=target,
    )
