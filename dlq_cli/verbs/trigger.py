"""``pause`` and ``resume``: what feeds the replay function, off and on again."""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from dlq_cli.stack.rules import TriggerFacts
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
    ``ReplayEnabled=false`` is there all the same. What was received before is still handled.

    Returns:
        The state of each trigger, as AWS writes it, by the trigger's name.

    Raises:
        InputError: the stack cannot be found, nothing feeds its function, AWS refuses, or it takes
            longer than two minutes; then a repeat waits on.
    """
    arn = read_stack(session, stack).function_arn
    client = clients_of(session)
    with aws_errors(f"stack {stack}"):
        triggers = _feeds(client, arn)
        if on:
            triggers = [one for one in triggers if one.is_pipe] or triggers
        if not triggers:
            raise InputError(f"stack {stack}: nothing feeds its function; deploy it again")
        for trigger in triggers:
            name = trigger.name.rpartition(" ")[2]
            if trigger.is_pipe:
                pipes = client("pipes")
                (pipes.start_pipe if on else pipes.stop_pipe)(Name=name)
            else:
                client("lambda").update_event_source_mapping(UUID=name, Enabled=on)
        names, wanted = {one.name for one in triggers}, _ON if on else _OFF
        for _ in range(_CHECKS):
            states = {one.name: one.state for one in _feeds(client, arn) if one.name in names}
            late = [name for name, state in states.items() if state not in wanted]
            if not late:
                return states
            sleep(_CHECK_EVERY_SECONDS)
    raise InputError(f"{late[0]} is still {states[late[0]]}; run the same command again to wait on")


def _feeds(client: Callable[[str], Any], function_arn: str) -> list[TriggerFacts]:
    pipes = list_pipes(client, TargetPrefix=function_arn)
    return [
        *list_mappings(client, FunctionName=function_arn.rpartition(":")[2]),
        *(pipe for pipe in pipes if pipe.target == function_arn),
    ]


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
