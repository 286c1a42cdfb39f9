"""The two functions, loaded as a cold start does, with what the viewer sees of them.

The sample consumer gets the work of this run. Beside it one without a failure recorder takes the
payments. The log of both is a file. The replay function gets a circuit breaker with rules in
seconds, and delivers one message twice.
"""

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from demo import ROOT
from demo.audit import Journal
from demo.messages import DemoMessage, Trait, from_record
from demo.shop import Shop
from demo.world import FAILURE_TABLE, MAIN_MAX_RECEIVE_COUNT, MAX_ATTEMPTS, Handler, failed_ids
from dlq.figures import counted
from dlq_replay.aws.breaker_table import DynamoDbBreaker, read_deletions
from dlq_replay.aws.returns_table import ReturnsTable
from dlq_replay.aws.wiring import wiring
from dlq_replay.replaying.breaker_worker import BreakerWorker
from dlq_replay.replaying.replay import Replayer
from dlq_replay.replaying.returns import ReturnsCounter
from dlq_replay.rules.breaker import Update, rules_for

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    from dlq_replay.wire.addresses import QueueAddress


def cold_start(function: str) -> Any:  # noqa: ANN401 - a module is what it defines
    """Load ``functions/<function>/handler.py`` again and return the module."""
    wiring.cache_clear()
    path = ROOT / "functions" / function / "handler.py"
    loader = SourceFileLoader(f"demo_{function}_handler", str(path))
    module = ModuleType(loader.name)
    loader.exec_module(module)
    return module


@dataclass
class Functions:
    """Loads the functions of a run, and notes and shows what they do.

    Attributes:
        messages: by identity.
        log: of the consumers, an event in each line.
        notify: shows an event to the user.
        on_breaker_opened: called each time that the circuit breaker sets a limit of 1.
    """

    messages: Mapping[str, DemoMessage]
    log: Path
    shop: Shop
    journal: Journal
    notify: Callable[[str], object]
    on_breaker_opened: Callable[[], object]

    def __post_init__(self) -> None:
        """Select the first message without a bug and the first with one; their steps are shown."""
        self._breakers: dict[QueueAddress, BreakerWorker] = {}

        firsts: dict[Trait, DemoMessage] = {}
        for message in self.messages.values():
            firsts.setdefault(message.trait, message)
        self._followed = {message.identity: message.number for message in firsts.values()}

        plain = firsts.get(Trait.PLAIN)
        # On FIFO queues SQS would remove the second copy.
        self._to_deliver_twice = plain.identity if plain and not plain.group else None

    def consumer(self) -> Handler:
        """Load the sample consumers, as new environments, with the shop's work."""
        sample = cold_start("sample_consumer")
        of_payments = cold_start("sample_consumer")
        of_payments.recorder.write = None
        results: dict[str, str] = {}

        def work(record: "SQSRecord") -> None:
            content = from_record(record.raw_event)
            try:
                if message := self.messages.get(content.identity):
                    self.shop.process(message, content.replay_count)
            except Exception as error:
                results[record.message_id] = f"fails: {type(error).__name__}: {error}"
                self._log_error(record.message_id)
                raise

            results[record.message_id] = "is processed"
            self.journal.processed(content)

        def consume(event: Mapping[str, Any], context: object) -> object:
            results.clear()
            records = event["Records"]
            for record in records:
                self.journal.received(record)

            payments = [record for record in records if _is_payment(record)]
            others = [record for record in records if not _is_payment(record)]
            failed = frozenset[str]()
            for consumer, batch in ((sample, others), (of_payments, payments)):
                if batch:
                    failed |= failed_ids(consumer.lambda_handler({"Records": batch}, context))

            for record in records:
                self._show_arrival(record, results, failed)
            return {"batchItemFailures": [{"itemIdentifier": failed_id} for failed_id in failed]}

        sample.work = of_payments.work = work
        return consume

    def _show_arrival(
        self, record: Mapping[str, Any], results: Mapping[str, str], failed: frozenset[str]
    ) -> None:
        """Show the first receive of a followed message, and its result."""
        number = self._followed.get(from_record(record).identity)
        if not number or record["attributes"]["ApproximateReceiveCount"] != "1":
            return

        message_id = record["messageId"]
        # Without a result the work was not called for it.
        skipped = "has to wait" if message_id in failed else "is skipped: processed before"
        result = results.get(message_id, skipped)
        self.notify(f"message {number} {_arrival(record)}, and {result}")

    def _log_error(self, message_id: str) -> None:
        text = f"[ERROR]\tfailed {message_id}\n{traceback.format_exc()}"
        event = {"logStreamName": "1", "timestamp": time.time_ns() // 10**6, "message": text}
        with self.log.open("a") as log:
            log.write(f"{json.dumps(event)}\n")

    def replay(self) -> Handler:
        """Load the replay function with a circuit breaker in seconds. It gets one message twice."""
        function = cold_start("replay")
        for log_handler in function.logger.handlers:
            if isinstance(log_handler, logging.StreamHandler):
                log_handler.setStream(sys.stdout)

        wire = function.wired_replayer
        function.wired_replayer = cache(lambda: self._with_breaker(wire()))

        def replay(event: Mapping[str, Any], context: object) -> object:
            for record in event["Records"]:
                self.journal.dead_lettered(record)

            answer: object = function.lambda_handler(event, context)
            failed = failed_ids(answer)

            for record in event["Records"]:
                content = from_record(record)
                number = self._followed.get(content.identity)
                if content.identity == self._to_deliver_twice:
                    self._to_deliver_twice = None
                    self.notify(
                        f"SQS delivers message {number} to the replay Lambda twice, as it may"
                    )
                    function.lambda_handler({"Records": [record]}, context)

                state = _state(record, is_left=record["messageId"] in failed)
                if number and state:
                    self.notify(f"message {number} {state}")

            return answer

        return replay

    def _with_breaker(self, replayer: Replayer) -> Replayer:
        """Return *replayer* with the product's circuit breaker, whose minutes are seconds."""
        queue = replayer.policy.main_queue
        rules = replace(
            rules_for(queue, MAIN_MAX_RECEIVE_COUNT),
            minute_seconds=1,
            lag=1,
            least_known=0,
            recovered=3,
            full_least=12,
            quiet=5,
            hold_seconds=(2, 4),
            full_hold_seconds=(2, 2) if queue.is_fifo else (0, 2),
            hold_limit_seconds=(60, 61),
        )

        # moto on a busy machine is slower than the 0.3 s that the product waits for DynamoDB. As in
        # the product, a call is not repeated, because it would count twice.
        retries: Any = {"mode": "standard", "total_max_attempts": 1}
        client = boto3.client("dynamodb", config=Config(read_timeout=5, retries=retries))
        metrics: Any = boto3.client("cloudwatch")

        worker = BreakerWorker(
            _Breaker(client, FAILURE_TABLE, queue.name, _now_seconds, self._show),
            rules,
            partial(read_deletions, lambda: metrics, queue.name, minute_seconds=1),
            # Where a minute is a second, the breaker is read and written four times as often.
            clock_seconds=lambda: 4 * time.monotonic(),
        )
        self._breakers[queue] = worker
        returns = ReturnsCounter(ReturnsTable(client, FAILURE_TABLE, _now_seconds).add)
        return replace(replayer, breakers=self._breakers, returns=returns)

    def stop_breaker(self) -> None:
        """End the circuit breaker and its limit: later, bugs alone would be an outage for it."""
        while self._breakers:
            queue, _ = self._breakers.popitem()
            key = {"message_id": {"S": f"breaker#{queue.name}"}}
            boto3.client("dynamodb").delete_item(TableName=FAILURE_TABLE, Key=key)

    def _show(self, update: Update) -> None:
        """Show a change of the limit that a user wants to see."""
        limit = update.put.get("limit")
        if limit == 1:
            self.notify(
                "circuit breaker: the consumer deletes nothing, and replays come back: limited to "
                "1 replay a minute (a second here); it holds the others in the DLQ"
            )
            self.shop.end_outage_soon()
            self.on_breaker_opened()
        elif limit and "since" in update.put:
            self.notify(
                f"circuit breaker: the consumer works again: up to {limit} replays a minute go"
            )
        elif "since" in update.put:
            self.notify("circuit breaker: no message is turned away: no limit any more")


@dataclass(frozen=True, slots=True)
class _Breaker(DynamoDbBreaker):
    """The product's item of the circuit breaker; *show* is called with each change."""

    show: Callable[[Update], object]

    def update(self, update: Update) -> tuple[bool, Mapping[str, int]]:
        """Update, as the product does, and show what was done."""
        is_done, numbers = DynamoDbBreaker.update(self, update)
        if is_done:
            self.show(update)
        return is_done, numbers


def _is_payment(record: Mapping[str, Any]) -> bool:
    """Return whether the payments' consumer takes a message.

    It takes none of FIFO queues, because groups must stay in order.
    """
    kind = record["messageAttributes"].get("event-type", {}).get("stringValue")
    return kind == "payment.captured" and "MessageGroupId" not in record["attributes"]


def _now_seconds() -> int:
    return int(time.time())


def _arrival(record: Mapping[str, Any]) -> str:
    """Describe how a message came to the consumer."""
    content = from_record(record)
    if content.has_plan:
        return "is back, redriven"
    if not content.replay_count:
        return "arrives"

    arrival = f"is back, replay {content.replay_count}"
    system = record["attributes"]
    if "MessageGroupId" in system:
        return arrival  # On FIFO its wait was in the DLQ.
    wait_ms = int(system["ApproximateFirstReceiveTimestamp"]) - int(system["SentTimestamp"])
    return f"{arrival}, after {wait_ms / 1000:.0f} s"


def _state(record: Mapping[str, Any], *, is_left: bool) -> str | None:
    """Describe a message that was parked, or that waits in the DLQ; None if it was replayed."""
    content = from_record(record)
    if is_left:
        group = record["attributes"].get("MessageGroupId")
        if not group:
            return None
        replays = counted(content.replay_count, "replay")
        return f"waits in the DLQ after {replays}, in order with its group, {group}"

    if content.is_unproven:
        return "came back from a step of the ramp: it is parked at once"
    if content.replay_count < MAX_ATTEMPTS:
        return None
    return f"has failed after {content.replay_count} replays: it is parked"
