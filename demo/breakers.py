"""The circuit breakers of a run: the product's own, with rules in seconds, and shown to the user.

Their state is in the failure table, which moto serves.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import boto3
from botocore.config import Config

from demo.environment import FAILURE_TABLE, MAIN_MAX_RECEIVE_COUNT
from demo.workload import DemoMessage, Trait
from dlq_replay.breaker import BreakerRules, BreakerState, Update
from dlq_replay.breaker_table import DynamoDbBreakers
from dlq_replay.breaker_worker import BreakerTable, BreakerWorker
from dlq_replay.replay import Replayer

Notify = Callable[[str], object]
"""Shows an event to the user."""

_MORE_THAN_A_BUG = 4
_FASTER = 4
"""So many times as often as in the product breakers are read and written."""


def rules(messages: Sequence[DemoMessage]) -> BreakerRules:
    """Return rules in seconds for a run of *messages*.

    At most half of the generated messages with a bug fail with the same type of error. That is not
    enough to open a breaker: the outage opens one, and bugs are replayed and parked as without it.
    In the user's own messages a bug may open one, which then holds its messages for 60 s in total.
    """
    bugs = sum(message.trait is Trait.BROKEN for message in messages)
    return BreakerRules(
        slot_seconds=1,
        # On a slow machine first replays take half a minute to return.
        window_slots=60,
        kept_slots=60,
        open_count=bugs // 2 + _MORE_THAN_A_BUG,
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


def with_demo_breakers(
    replayer: Replayer,
    messages: Sequence[DemoMessage],
    notify: Notify,
    on_opened: Callable[[], object],
    on_probe_returned: Callable[[str], object],
) -> Replayer:
    """Return *replayer* with the breakers of a run instead of its own.

    Args:
        replayer: as the replay function wires it.
        messages: those of the run.
        notify: shows an event to the user.
        on_opened: called each time that a breaker opens.
        on_probe_returned: called with the error type of each probe that came back.
    """
    main_queue = replayer.policy.main_queue
    config = Config(
        connect_timeout=2,
        # moto on a busy machine is slower than the 0.3 s that the product waits for DynamoDB.
        read_timeout=5,
        # As in the product: a repeated call would count twice.
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    client = boto3.client("dynamodb", config=config)
    table = DynamoDbBreakers(client, FAILURE_TABLE, main_queue.name, lambda: int(time.time()))
    worker = BreakerWorker(
        NotifyingBreakers(table, notify, on_opened, on_probe_returned),
        rules(messages),
        # There is no CloudWatch here, so the breaker `unknown` stays closed, and on FIFO the
        # probes alone close the others: the rules say so.
        read_deletions=lambda _start, _end: {},
        max_receive_count=MAIN_MAX_RECEIVE_COUNT if main_queue.is_fifo else None,
        # Where a slot is a second, once a second would be seldom.
        clock_seconds=lambda: _FASTER * time.monotonic(),
    )
    return replace(replayer, breakers={main_queue: worker})


@dataclass(frozen=True, slots=True)
class NotifyingBreakers:
    """A table of breakers that shows each change which a user wants to see.

    Attributes:
        table: does the work.
        notify: shows a sentence to the user.
        on_opened: called each time that a breaker opens.
        on_probe_returned: called with the error type of each probe that came back.
    """

    table: BreakerTable
    notify: Notify
    on_opened: Callable[[], object]
    on_probe_returned: Callable[[str], object]

    def read(
        self, names: Iterable[str], *, is_consistent: bool = False
    ) -> tuple[frozenset[str], Mapping[str, BreakerState]]:
        """Read, as the table does."""
        return self.table.read(names, is_consistent=is_consistent)

    def register(self, types: Sequence[str], room: int) -> frozenset[str]:
        """Register, as the table does."""
        return self.table.register(types, room)

    def update(self, name: str, update: Update) -> tuple[bool, BreakerState]:
        """Update, as the table does, and show what was done."""
        is_done, state = self.table.update(name, update)
        if is_done:
            self._report(name, update, state)
        return is_done, state

    def _report(self, name: str, update: Update, state: BreakerState) -> None:
        shown = name.rpartition(".")[2]
        if "opened_at" in update.put:
            sent, returned = state.numbers["judged_sent"], state.numbers["judged_returned"]
            self.notify(
                f"circuit breaker opened for {shown}: {100 * returned // sent} % of {sent} first "
                "replays returned; it holds messages in the DLQ"
            )
            self.on_opened()
        elif "closed_at" in update.put:
            self.notify(
                f"circuit breaker closed for {shown}: its probes stayed away; what was held goes "
                f"back, {state.numbers['ramp']} a second at first"
            )
        elif "returned_at" in update.put:
            self.notify(f"a probe for {shown} came back: the breaker stays open")
            self.on_probe_returned(name)
        elif any(isinstance(value, str) for value in update.put.values()):
            self.notify(f"the breaker sends probes for {shown}, one a second")
