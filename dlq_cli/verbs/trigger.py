"""``pause`` and ``resume``: what feeds the replay function, off and on again."""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from dlq_cli.stack.facts import TriggerFacts
from dlq_cli.stack.survey import list_mappings, list_pipes
from dlq_cli.stack_values import aws_errors, clients_of, read_stack, required
from spark_reprocess.command_line.terminal import print_answer, print_line
from spark_reprocess.command_line.verb import DONE, Verb
from spark_reprocess.errors import InputError

if TYPE_CHECKING:
    from boto3.session import Session

_CHECKS = 60
_CHECK_EVERY_SECONDS = 2.0
_ON = {"Enabled", "RUNNING"}
_OFF = {"Disabled", "STOPPED"}


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
    client = clients_of(session)
    with aws_errors(f"stack {stack}"):
        mappings = list_mappings(client, FunctionName=arn.rpartition(":")[2])
        pipes = [pipe for pipe in list_pipes(client, TargetPrefix=arn) if pipe.target == arn]
        triggers = (pipes or mappings) if on else [*mappings, *pipes]
        if not triggers:
            raise InputError(f"stack {stack}: nothing feeds its function; deploy it again")
        for trigger in triggers:
            _turn(client, trigger, on=on)
        return {one.name: _settled(client, one, _ON if on else _OFF, sleep) for one in triggers}


def _turn(client: Callable[[str], Any], trigger: TriggerFacts, *, on: bool) -> None:
    name = trigger.name.rpartition(" ")[2]
    if trigger.is_pipe:
        pipes = client("pipes")
        (pipes.start_pipe if on else pipes.stop_pipe)(Name=name)
    else:
        client("lambda").update_event_source_mapping(UUID=name, Enabled=on)


def _settled(
    client: Callable[[str], Any],
    trigger: TriggerFacts,
    wanted: set[str],
    sleep: Callable[[float], object],
) -> str:
    name = trigger.name.rpartition(" ")[2]
    for _ in range(_CHECKS):
        if trigger.is_pipe:
            state = str(client("pipes").describe_pipe(Name=name)["CurrentState"])
        else:
            state = str(client("lambda").get_event_source_mapping(UUID=name)["State"])
        if state in wanted:
            return state
        sleep(_CHECK_EVERY_SECONDS)
    raise InputError(f"{trigger.name} is still {state}; run the same command again to wait on")


def _run(options: argparse.Namespace, *, on: bool) -> int:
    states = switch(options.session, required(options.stack), on=on)

    def show() -> None:
        for name, state in states.items():
            print_line(f"{name}: {state}")
        if not on:
            print_line(_STAY)
            print_line(_LASTS)

    triggers = [{"name": name, "state": state} for name, state in states.items()]
    print_answer({"triggers": triggers}, show)
    return DONE


_STAY = "Dead letters now stay in the DLQ until their retention ends: resume in time."
_LASTS = """\
It lasts until dlq resume, or until a deployment that changes the trigger while ReplayEnabled is
true. To keep it, update the stack with ReplayEnabled=false."""

_ABOUT_PAUSE = f"""\
Turns off the trigger of the replay function, an event source mapping or a pipe, and waits until it
is off. {_STAY} {_LASTS}"""

_ABOUT_RESUME = """\
Turns on the trigger of the replay function, and waits until it is on. If the trigger is a pipe, the
event source mapping stays off. In a stack with ReplayEnabled=false a deployment that changes the
trigger turns it off again: update the stack with ReplayEnabled=true."""

VERBS = {
    "pause": Verb(_ABOUT_PAUSE, lambda _: None, argparse.Namespace, partial(_run, on=False)),
    "resume": Verb(_ABOUT_RESUME, lambda _: None, argparse.Namespace, partial(_run, on=True)),
}
