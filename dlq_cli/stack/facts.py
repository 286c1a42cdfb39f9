"""Facts of an installation. Pure; None stands for an unknown fact."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dlq_replay.settings import ReplaySettings
from spark_reprocess.aws.clients import Queue

_LIVE = {"ENABLED", "ENABLING", "UPDATING", "CREATING", "RUNNING", "STARTING"}
"""States of event source mappings and of pipes, which AWS spells differently."""


@dataclass(frozen=True, slots=True)
class TriggerFacts:
    """The trigger of a function: an event source mapping, or a pipe.

    Attributes:
        name: what it is, and which: ``event source mapping UUID``, ``pipe NAME``.
        state: as AWS spells it.
        reports_batch_item_failures: whether what the function wants to keep stays in the DLQ.
            That of a pipe that waits for the answer always does.
        target: the ARN of what gets the messages.
        last_result: of the last batch, as AWS words it; empty for a pipe.
    """

    name: str
    state: str
    source_arn: str
    reports_batch_item_failures: bool
    target: str = ""
    last_result: str = ""

    @property
    def is_pipe(self) -> bool:
        """True for an EventBridge Pipe."""
        return self.name.startswith("pipe ")

    @property
    def is_live(self) -> bool:
        """True if it receives messages, or is about to."""
        return self.state.upper() in _LIVE


@dataclass(frozen=True, slots=True)
class Installation:
    """Everything that the rules look at.

    Attributes:
        recursive_loop: ``Allow`` or ``Terminate``.
        triggers: the function's event source mappings and pipes.
        other_readers: those of other functions and targets, on the DLQ and the parked queue.
        consumers: the time-out in seconds of each function that event source mappings feed from
            the main queue, by its name.
        other_main: the other main queues that are configured, as far as they could be read.
        dlq_source_arns: the queues whose redrive policy names the DLQ.
        denied_keys: customer keys that the function's role may not decrypt with.
        denied_sends: names of queues to which the function's role may not send.
        missing: names of the failure table and the consumers' log groups that do not exist.
        knows_triggers: whether ``triggers`` are all.
        unknown: what could not be found out, and why.
    """

    function_name: str
    timeout_seconds: int
    settings: ReplaySettings
    main: Queue
    dlq: Queue
    parked: Queue
    other_main: tuple[Queue, ...] = ()
    triggers: tuple[TriggerFacts, ...] = ()
    other_readers: tuple[TriggerFacts, ...] = ()
    consumers: Mapping[str, int] = field(default_factory=dict)
    recursive_loop: str | None = None
    reserved_concurrency: int | None = None
    dlq_source_arns: tuple[str, ...] | None = None
    denied_keys: tuple[str, ...] | None = None
    unknown: tuple[str, ...] = ()
    denied_sends: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()
    knows_triggers: bool = True
    replay_enabled: bool = True
    main_retention_seconds: int = 345_600

    @property
    def is_fed(self) -> bool:
        """True if a trigger brings messages of the DLQ to the function, and it may run.

        True also where that could not be found out.
        """
        feeds = (feed.is_live and feed.source_arn == self.dlq.arn for feed in self.triggers)
        return (any(feeds) or not self.knows_triggers) and self.reserved_concurrency != 0

    @property
    def main_queues(self) -> tuple[Queue, ...]:
        """The main queue, and the others."""
        return (self.main, *self.other_main)

    @property
    def queues(self) -> tuple[Queue, ...]:
        """All of them."""
        return (*self.main_queues, self.dlq, self.parked)
