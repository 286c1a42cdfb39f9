"""The two functions, loaded as a cold start does, with what the viewer sees of them.

The sample consumer gets the work of this run. The replay function gets circuit breakers with rules
in seconds, and delivers one message twice. Events and answers pass through untouched.
"""

import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from demo import ROOT
from demo.audit import Journal
from demo.messages import DemoMessage, Trait, from_record
from demo.shop import Shop
from demo.world import FAILURE_TABLE, MAIN_MAX_RECEIVE_COUNT, MAX_ATTEMPTS, Handler, failed_ids
from dlq_replay.breaker import BreakerRules, BreakerState, Update
from dlq_replay.breaker_table import DynamoDbBreakers
from dlq_replay.breaker_worker import BreakerWorker
from dlq_replay.replay import Replayer

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord


def cold_start(function: str) -> Any:  # noqa: ANN401 - a module is what it defines
    """Load ``functions/<function>/handler.py`` again and return the module.

    It reads its settings from the current ``os.environ``.
    """
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
        notify: shows an event to the user.
        on_breaker_opened: called each time that a circuit breaker opens.
    """

    messages: Mapping[str, DemoMessage]
    shop: Shop
    journal: Journal
    notify: Callable[[str], object]
    on_breaker_opened: Callable[[], object]

    def __post_init__(self) -> None:
        """Select a message that needs payments and one with a bug, whose steps are shown."""
        firsts = {m.trait: m for m in reversed([*self.messages.values()])}
        firsts.pop(Trait.PLAIN, None)
        self._followed = {m.identity: m.number for m in firsts.values()}
        payment = firsts.get(Trait.NEEDS_PAYMENTS)
        # On FIFO queues SQS would remove the second copy.
        self._to_deliver_twice = payment.identity if payment and not payment.group else None

    def consumer(self) -> Handler:
        """Load the sample consumer, as a new environment of the function, with the shop's work.

        Heartbeat, idempotency, failure records and partial batch responses are those of the sample.
        """
        sample = cold_start("sample_consumer")
        results: dict[str, str] = {}

        def work(record: "SQSRecord") -> None:
            content = from_record(record.raw_event)
            try:
                if message := self.messages.get(content.identity):
                    self.shop.process(message, content.replay_count)
            except Exception as error:
                results[record.message_id] = f"fails: {type(error).__name__}: {error}"
                raise
            results[record.message_id] = "is processed"
            self.journal.processed(content)

        def consume(event: Mapping[str, Any], context: object) -> object:
            results.clear()
            for record in event["Records"]:
                self.journal.received(record)
            answer: object = sample.lambda_handler(event, context)
            failed = failed_ids(answer)
            for record in event["Records"]:
                number = self._followed.get(from_record(record).identity)
                if number and record["attributes"]["ApproximateReceiveCount"] == "1":
                    message_id = record["messageId"]
                    skipped = (
                        "has to wait" if message_id in failed else "is skipped: processed before"
                    )
                    result = results.get(message_id, skipped)
                    self.notify(f"message {number} {_arrival(record)}, and {result}")
            return answer

        sample.work = work
        return consume

    def replay(self) -> Handler:
        """Load the replay function, with circuit breakers in seconds. It gets one message twice."""
        function = cold_start("replay")
        for log_handler in function.logger.handlers:
            if isinstance(log_handler, logging.StreamHandler):
                log_handler.setStream(sys.stdout)
        wire = function.wired_replayer
        function.wired_replayer = cache(lambda: self._with_breakers(wire()))

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
                if number and (state := _state(record, is_left=record["messageId"] in failed)):
                    self.notify(f"message {number} {state}")
            return answer

        return replay

    def _with_breakers(self, replayer: Replayer) -> Replayer:
        """Return *replayer* with the product's circuit breakers, whose rules are in seconds.

        At most half of the generated messages with a bug fail with the same type of error. That is
        not enough to open a breaker: the outage opens one, and bugs are replayed and parked as
        without it. In the user's own messages a bug may open one, which then holds its messages for
        60 s in total.
        """
        rules = BreakerRules(
            slot_seconds=1,
            # On a slow machine first replays take half a minute to return.
            window_slots=60,
            kept_slots=60,
            open_count=sum(m.trait is Trait.BROKEN for m in self.messages.values()) // 2 + 4,
            metric_lag_seconds=1,
            hold_min_seconds=2,
            hold_max_seconds=4,
            fifo_hold_min_seconds=1,
            hold_limit_seconds=60,
            probe_seconds=1,
            return_seconds=6,
            ramp_min_count=12,
            ramp_growth_seconds=5,
        )
        queue = replayer.policy.main_queue
        # moto on a busy machine is slower than the 0.3 s that the product waits for DynamoDB. As in
        # the product, a call is not repeated, because it would count twice.
        retries: Any = {"mode": "standard", "total_max_attempts": 1}
        client = boto3.client("dynamodb", config=Config(read_timeout=5, retries=retries))
        worker = BreakerWorker(
            _Breakers(client, FAILURE_TABLE, queue.name, lambda: int(time.time()), self._show),
            rules,
            # There is no CloudWatch here, so the breaker `unknown` stays closed, and on FIFO the
            # probes alone close the others: the rules say so.
            read_deletions=lambda _start, _end: {},
            max_receive_count=MAIN_MAX_RECEIVE_COUNT if queue.is_fifo else None,
            # Where a slot is a second, breakers are read and written four times as often.
            clock_seconds=lambda: 4 * time.monotonic(),
        )
        return replace(replayer, breakers={queue: worker})

    def _show(self, name: str, update: Update, state: BreakerState) -> None:
        """Show a change of the breaker *name* that a user wants to see."""
        error_type = name.rpartition(".")[2]
        if "opened_at" in update.put:
            sent, returned = state.numbers["judged_sent"], state.numbers["judged_returned"]
            self.notify(
                f"circuit breaker opened for {error_type}: {100 * returned // sent} % of {sent} "
                "first replays returned; it holds messages in the DLQ"
            )
            self.on_breaker_opened()
        elif "closed_at" in update.put:
            self.notify(
                f"circuit breaker closed for {error_type}: its probes stayed away; what was held "
                f"goes back, {state.numbers['ramp']} a second at first"
            )
        elif "returned_at" in update.put:
            self.notify(f"a probe for {error_type} came back: the breaker stays open")
            self.shop.note_probe_return(error_type)
        elif any(isinstance(value, str) for value in update.put.values()):
            self.notify(f"the breaker sends probes for {error_type}, one a second")


@dataclass(frozen=True, slots=True)
class _Breakers(DynamoDbBreakers):
    """The product's table of circuit breakers; *show* is called with each change."""

    show: Callable[[str, Update, BreakerState], object]

    def update(self, name: str, update: Update) -> tuple[bool, BreakerState]:
        """Update, as the product does, and show what was done."""
        is_done, state = DynamoDbBreakers.update(self, name, update)
        if is_done:
            self.show(name, update, state)
        return is_done, state


def _arrival(record: Mapping[str, Any]) -> str:
    """Describe how a message came to the consumer."""
    content, system = from_record(record), record["attributes"]
    if content.has_plan:
        return "is back, redriven"
    if not content.replay_count:
        return "arrives"
    wait_ms = int(system["ApproximateFirstReceiveTimestamp"]) - int(system["SentTimestamp"])
    # On FIFO its wait was in the DLQ.
    wait = "" if "MessageGroupId" in system else f", after {wait_ms / 1000:.0f} s"
    return f"is back, replay {content.replay_count}{wait}"


def _state(record: Mapping[str, Any], *, is_left: bool) -> str | None:
    """Describe a message that was parked, or that waits in the DLQ; None if it was replayed."""
    content = from_record(record)
    if is_left:
        group = record["attributes"].get("MessageGroupId")
        wait = f"waits in the DLQ for replay {content.replay_count + 1}, in order with its group"
        return f"{wait}, {group}" if group else None
    if content.is_canary:
        return "is a canary that failed: it is parked at once"
    if content.replay_count < MAX_ATTEMPTS:
        return None
    return f"has failed after {content.replay_count} replays: it is parked"
