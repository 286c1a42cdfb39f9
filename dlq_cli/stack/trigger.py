"""What feeds the function, off and on: its event source mappings and EventBridge Pipes."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from dlq_cli.stack.survey import pipes_to
from dlq_cli.stack_values import read_stack
from dlq_replay.sqs import describe
from spark_reprocess.errors import InputError

if TYPE_CHECKING:
    from boto3.session import Session

_CHECKS = 60
_CHECK_EVERY_SECONDS = 2.0
_ON = {"Enabled", "RUNNING"}
_OFF = {"Disabled", "STOPPED"}


class Trigger(Protocol):
    """One thing that feeds the function."""

    @property
    def name(self) -> str:
        """What AWS calls it."""

    def turn(self, *, on: bool) -> None:
        """Ask AWS to turn it on or off."""

    def state(self) -> str:
        """Ask AWS for its state."""


@dataclass(frozen=True, slots=True)
class _Mapping:
    client: Any
    uuid: str

    @property
    def name(self) -> str:
        return f"event source mapping {self.uuid}"

    def turn(self, *, on: bool) -> None:
        self.client.update_event_source_mapping(UUID=self.uuid, Enabled=on)

    def state(self) -> str:
        return str(self.client.get_event_source_mapping(UUID=self.uuid)["State"])


@dataclass(frozen=True, slots=True)
class _Pipe:
    client: Any
    pipe: str

    @property
    def name(self) -> str:
        return f"pipe {self.pipe}"

    def turn(self, *, on: bool) -> None:
        (self.client.start_pipe if on else self.client.stop_pipe)(Name=self.pipe)

    def state(self) -> str:
        return str(self.client.describe_pipe(Name=self.pipe)["CurrentState"])


def switch(
    session: "Session", stack: str, *, on: bool, sleep: Callable[[float], object] = time.sleep
) -> dict[str, str]:
    """Turn off all that feeds the stack's function, or turn on what should; wait until it is so.

    Where a pipe feeds the function, the event source mapping stays off: that of a stack with
    ``ReplayEnabled=false`` is there all the same. Dead letters stay in the DLQ meanwhile, where
    their retention goes on; what was received before is still handled. A later deployment that
    changes a trigger turns it as its parameters say.

    Returns:
        The state of each trigger, as AWS writes it, by the trigger's name.

    Raises:
        InputError: the stack cannot be found, nothing feeds its function, AWS refuses, or it takes
            longer than two minutes; then a repeat waits on.
    """
    arn = read_stack(session, stack).function_arn
    try:
        mappings, pipes = list(_mappings(session, arn)), list(_pipes(session, arn))
        triggers = (pipes or mappings) if on else [*mappings, *pipes]
        if not triggers:
            raise InputError(f"stack {stack}: nothing feeds its function; deploy it again")
        for trigger in triggers:
            trigger.turn(on=on)
        return {one.name: _settled(one, _ON if on else _OFF, sleep) for one in triggers}
    except (ClientError, BotoCoreError) as error:
        raise InputError(f"stack {stack}: {describe(error)}") from error


def _mappings(session: "Session", arn: str) -> Iterator[Trigger]:
    client = session.client("lambda")
    name = arn.rpartition(":")[2]
    for page in client.get_paginator("list_event_source_mappings").paginate(FunctionName=name):
        yield from (_Mapping(client, one["UUID"]) for one in page["EventSourceMappings"])


def _pipes(session: "Session", arn: str) -> Iterator[Trigger]:
    client = session.client("pipes")
    yield from (_Pipe(client, one["Name"]) for one in pipes_to(session, arn))


def _settled(trigger: Trigger, wanted: set[str], sleep: Callable[[float], object]) -> str:
    for _ in range(_CHECKS):
        if (state := trigger.state()) in wanted:
            return state
        sleep(_CHECK_EVERY_SECONDS)
    raise InputError(f"{trigger.name} is still {state}; run the same command again to wait on")
