"""``pause`` and ``resume``: turn the triggers of the replay function off, and on again."""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from dlq.cli.terminal import print_answer, print_line
from dlq.cli.verb import DONE, Verb
from dlq.errors import InputError
from dlq.figures import counted
from dlq.stack.fleet_survey import ask_about
from dlq.stack.outputs import StackValues, aws_errors, clients_of, read_stack, required
from dlq.stack.rules import TriggerFacts
from dlq.stack.survey import (
    Client,
    list_mappings,
    list_pipes,
    read_fleet_function,
    read_function,
    read_sweep_rule,
)
from dlq_replay.aws.breaker_table import DynamoDbBreaker
from dlq_replay.aws.sqs import SqsQueue, describe
from dlq_replay.aws.tagged_queues import list_tagged_queues
from dlq_replay.errors import QueueError, TableError
from dlq_replay.rules.breaker import BreakerView, Update, rules_for
from dlq_replay.rules.failures import one_line
from dlq_replay.settings import FleetSettings, ReplaySettings
from dlq_replay.wire.addresses import QueueAddress

if TYPE_CHECKING:
    from boto3.session import Session

_CHECKS = 60
_CHECK_EVERY_SECONDS = 2.0
_ON = {"Enabled", "RUNNING", "ENABLED"}
_OFF = {"Disabled", "STOPPED", "DISABLED"}
"""The states of event source mappings, pipes and rules."""


@dataclass(frozen=True, slots=True)
class ResumedQueue:
    """The result of a resume for one main queue.

    Attributes:
        main_queue: its name.
        per_minute: the most replays a minute that it gets, until what gathered is through; None
            where all goes at once.
        fault: why there is no limit; empty with one.
    """

    main_queue: str
    per_minute: int | None = None
    fault: str = ""


def pause(
    session: "Session", stack: str, *, sleep: Callable[[float], object] = time.sleep
) -> dict[str, str]:
    """Turn off all that feeds the stack's function, and wait until it is off.

    What was received before is still handled; a sweep that has begun ends within a minute.

    Returns:
        The state of each trigger, as AWS writes it, by the trigger's name.

    Raises:
        InputError: the stack cannot be found, nothing feeds its function, AWS refuses, or it takes
            longer than two minutes; then a repeat waits on.
    """
    values = read_stack(session, stack)
    client = clients_of(session)
    with aws_errors(f"stack {stack}"):
        return _switch(client, values, _feeding(client, values), on=False, sleep=sleep)


def resume(
    session: "Session",
    stack: str,
    *,
    sleep: Callable[[float], object] = time.sleep,
    now_seconds: Callable[[], float] = time.time,
) -> tuple[dict[str, str], list[ResumedQueue]]:
    """Limit what gathered in the DLQ, turn on what should feed the stack's function, and wait.

    Where a pipe feeds the function, the event source mapping stays off: that of a stack with
    ``ReplayEnabled=false`` is there all the same. In a fleet everything is turned on, because each
    mapping and pipe has a DLQ of its own.

    A limit that cannot be set does not prevent a resume. It is renewed once the trigger is on: a
    limit that turns no message away for some minutes ends, and the trigger may take as long.

    Returns:
        The states as of ``pause``; and each main queue, none where nothing was paused. In a fleet
        only those with messages in their DLQ.

    Raises:
        InputError: as ``pause``.
    """
    values = read_stack(session, stack)
    client = clients_of(session)
    limits = _Limits(client=client, stack=values, now_seconds=lambda: int(now_seconds()))

    with aws_errors(f"stack {stack}"):
        feeding = _feeding(client, values)
        pipes = [trigger for trigger in feeding if trigger.is_pipe]
        triggers = feeding if values.queue_tag else pipes or feeding
        was_on = all(trigger.state in _ON for trigger in triggers)
        was_off = all(trigger.state in _OFF for trigger in triggers)

        faults: dict[str, str] = {}
        # What an earlier resume turned on, and waited for in vain, has its limit.
        if was_off:
            paused_at = max(trigger.changed_at_seconds or 0 for trigger in triggers)
            for queue in limits.begin(paused_at):
                faults[queue.main_queue] = queue.fault

        states = _switch(client, values, triggers, on=True, sleep=sleep)

    if was_on:
        return states, []

    queues = []
    for queue in limits.renew():
        fault = queue.fault or faults.get(queue.main_queue, "")
        queues.append(replace(queue, fault=fault))
    return states, queues


def _feeding(client: Client, stack: StackValues) -> list[TriggerFacts]:
    """List what feeds the stack's function; raise InputError if nothing does."""
    triggers = _feeds(client, stack)
    if not triggers:
        fix = "deploy it again"
        if stack.queue_tag:
            fix = "update it with Sweep=true, or create an event source mapping of a member DLQ"
        raise InputError(f"stack {stack.stack}: nothing feeds its function; {fix}")
    return triggers


def _switch(
    client: Client,
    stack: StackValues,
    triggers: Sequence[TriggerFacts],
    *,
    on: bool,
    sleep: Callable[[float], object],
) -> dict[str, str]:
    """Turn triggers on or off, and wait until AWS says so; return their states by name."""
    for trigger in triggers:
        name = trigger.name.rpartition(" ")[2]
        if trigger.is_pipe:
            pipes = client("pipes")
            (pipes.start_pipe if on else pipes.stop_pipe)(Name=name)
        elif trigger.is_rule:
            events = client("events")
            (events.enable_rule if on else events.disable_rule)(Name=name)
        else:
            client("lambda").update_event_source_mapping(UUID=name, Enabled=on)

    switched = {trigger.name for trigger in triggers}
    expected = _ON if on else _OFF
    for _ in range(_CHECKS):
        current = [trigger for trigger in _feeds(client, stack) if trigger.name in switched]
        late = [trigger for trigger in current if trigger.state not in expected]
        if not late:
            return {trigger.name: trigger.state for trigger in current}
        sleep(_CHECK_EVERY_SECONDS)

    raise InputError(
        f"{late[0].name} is still {late[0].state}; run the same command again to wait on"
    )


@dataclass(frozen=True, slots=True)
class _Gathered:
    """A main queue and its DLQ, where messages may have gathered.

    *fault* is why the sources of the DLQ are not known, which *main_queue* is then.
    """

    main_queue: QueueAddress
    dlq_url: str
    fault: str = ""


_Change = Callable[[BreakerView, str], Update | None]
"""Returns the change of a breaker, by its view and the URL of the DLQ."""


@dataclass(frozen=True)
class _Limits:
    """The circuit breakers of a stack's main queues, as a resume changes them.

    Nothing here raises: what cannot be limited is replayed at once, and the fault says why.
    """

    client: Client
    stack: StackValues
    now_seconds: Callable[[], int]

    def begin(self, paused_at_seconds: float) -> list[ResumedQueue]:
        """Set the limit of each main queue, by what gathered since the pause.

        AWS does not say when a rule was turned off. Then *paused_at_seconds* is 0, and the limit is
        the least that there is.
        """
        paused_seconds = max(0, self.now_seconds() - int(paused_at_seconds))

        def change(view: BreakerView, dlq_url: str) -> Update:
            dlq = SqsQueue(self.client("sqs"), dlq_url).describe()
            return view.after_pause(int(dlq["ApproximateNumberOfMessages"]), paused_seconds)

        return self._change(change)

    def renew(self) -> list[ResumedQueue]:
        """Let the limits that a resume set begin now."""
        return self._change(lambda view, _: view.renewed_after_pause())

    def _change(self, change: _Change) -> list[ResumedQueue]:
        try:
            settings, queues = self._queues
        except (InputError, QueueError) as error:
            return [ResumedQueue(self.stack.queues_in_words, fault=one_line(str(error)))]
        return [self._changed(queue, settings, change) for queue in queues]

    @cached_property
    def _queues(self) -> tuple[ReplaySettings | FleetSettings, list[_Gathered]]:
        """The function's settings, and its main queues as they are at the first use."""
        if self.stack.queue_tag:
            _, fleet_settings = read_fleet_function(self.client, self.stack.function_arn)
            return fleet_settings, list(self._gathered_of_members(self.stack.queue_tag))

        _, settings = read_function(self.client, self.stack.function_arn)
        main_queues = [settings.policy.main_queue, *settings.other_main_queue_urls]
        return settings, [_Gathered(queue, settings.dlq_url) for queue in main_queues]

    def _gathered_of_members(self, tag: str) -> Iterator[_Gathered]:
        """Find the member source queues of each member DLQ with messages. May raise QueueError."""
        members = list_tagged_queues(self.client("resourcegroupstaggingapi"), tag)
        urls = [queue.url_beside(self.stack.parked_queue_url) for queue in sorted(members)]
        for answers in ask_about(self.client, urls):
            if answers.sources is None:
                yield _Gathered(answers.address, "", f"SQS refuses: {answers.refusal}")
            elif answers.queue and answers.queue.counts.visible:
                for source in sorted(answers.sources & members):
                    yield _Gathered(source, answers.queue.url)

    def _changed(
        self, queue: _Gathered, settings: ReplaySettings | FleetSettings, change: _Change
    ) -> ResumedQueue:
        main_queue = queue.main_queue
        name = main_queue.name
        if not settings.has_breaker or settings.failure_table is None:
            return ResumedQueue(name, fault="the circuit breaker is off")
        if queue.fault:
            return ResumedQueue(name, fault=queue.fault)

        table = DynamoDbBreaker(
            self.client("dynamodb"), settings.failure_table, name, self.now_seconds
        )
        try:
            numbers = table.read()
            view = BreakerView(numbers, self.now_seconds(), rules_for(main_queue))
            update = change(view, queue.dlq_url)
            if update is not None:
                _, numbers = table.update(update)
        except (TableError, QueueError) as error:
            return ResumedQueue(name, fault=str(error))

        view = BreakerView(numbers, self.now_seconds(), rules_for(main_queue))
        return ResumedQueue(name, view.limit)


def _feeds(client: Client, stack: StackValues) -> list[TriggerFacts]:
    """List the rule of a stack's sweep, then event source mappings and pipes of its function.

    The rule is turned off first: a sweep reads what no mapping reads. Pipes are asked for only
    where the stack leaves its DLQ to something else (``ReplayEnabled=false``), or nothing feeds it:
    not every Region has EventBridge Pipes.

    Raises:
        InputError: AWS does not say which pipes there are.
    """
    triggers: list[TriggerFacts] = []
    if stack.sweep_rule:
        triggers.append(read_sweep_rule(client, stack.sweep_rule))

    function_arn = stack.function_arn
    triggers += list_mappings(client, FunctionName=function_arn.rpartition(":")[2])
    if triggers and stack.replay_enabled:
        return triggers

    try:
        pipes = list_pipes(client, TargetPrefix=function_arn)
    except (ClientError, BotoCoreError) as error:
        raise _pipes_not_known(stack, triggers, error) from error
    # The prefix is also that of functions with a longer name.
    for pipe in pipes:
        if pipe.target == function_arn:
            triggers.append(pipe)
    return triggers


def _pipes_not_known(
    stack: StackValues, triggers: Sequence[TriggerFacts], error: Exception
) -> InputError:
    """Return the error that says what AWS refuses, and how a person turns *triggers* on or off."""
    by_hand = []
    for trigger in triggers:
        name = trigger.name.rpartition(" ")[2]
        command = f"aws lambda update-event-source-mapping --uuid {name} --enabled or --no-enabled"
        if trigger.is_rule:
            command = f"aws events enable-rule or disable-rule --name {name}"
        by_hand.append(command)
    return InputError(
        f"stack {stack.stack}: EventBridge Pipes does not say whether a pipe feeds its function: "
        f"{describe(error)}; allow pipes:ListPipes; in a Region that has no Pipes turn the others "
        f"on or off yourself: {'; '.join(by_hand) or 'there are none'}"
    )


def _pause(options: argparse.Namespace) -> int:
    states = pause(options.session, required(options.stack))

    def show() -> None:
        _print_states(states)
        print_line(_STAY)
        print_line(_LASTS)

    print_answer({"triggers": _as_answer(states)}, show)
    return DONE


def _resume(options: argparse.Namespace) -> int:
    states, queues = resume(options.session, required(options.stack))

    def show() -> None:
        _print_states(states)
        for queue in queues:
            if queue.per_minute is not None:
                print_line(
                    f"{queue.main_queue}: at most {counted(queue.per_minute, 'replay')} a minute, "
                    "until what gathered is through"
                )
            elif queue.fault:
                print_line(f"{queue.main_queue}: no limit ({queue.fault}); {_AT_ONCE}")

    limits = list(map(asdict, queues))
    print_answer({"triggers": _as_answer(states), "limits": limits}, show)
    return DONE


def _print_states(states: Mapping[str, str]) -> None:
    for name, state in states.items():
        print_line(f"{name}: {state}")


def _as_answer(states: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "state": state} for name, state in states.items()]


_AT_ONCE = "what gathered in the DLQ is replayed at once, after the backoff of each message"
_STAY = "Dead letters now stay in the DLQ until their retention ends: resume in time."
_LASTS = """\
It lasts until dlq resume, or until a deployment that changes the trigger while ReplayEnabled is
true. To keep it, update the stack with ReplayEnabled=false."""

_ABOUT_PAUSE = f"""\
Turns off the trigger of the replay function, an event source mapping or a pipe, and waits until it
is off. {_STAY} {_LASTS}

A pipe is looked for in a stack with ReplayEnabled=false alone.

In a fleet the triggers are the rule of the sweep and the mappings; a sweep that has begun ends
within a minute."""

_ABOUT_RESUME = """\
Turns on the trigger of the replay function, and waits until it is on. If the trigger is a pipe, the
event source mapping stays off. In a stack with ReplayEnabled=false a deployment that changes the
trigger turns it off again: update the stack with ReplayEnabled=true.

Before that it limits what gathered in the DLQ: for each main queue to three times as many replays a
minute as dead letters came in a minute of the pause, at least 20, or to the limit of the circuit
breaker that there was. The circuit breaker goes on from there, and ends the limit when it turns
no message away. Without the circuit breaker, or where its table cannot be written, it says so, and
what gathered is replayed at once.

In a fleet it turns on the rule of the sweep and all mappings, and limits each member whose DLQ has
messages. AWS does not say when a rule was turned off: without a mapping the limit is 20 replays a
minute, or that of the circuit breaker."""

VERBS = {
    "pause": Verb(
        about=_ABOUT_PAUSE,
        add_arguments=lambda _: None,
        make_options=argparse.Namespace,
        run=_pause,
    ),
    "resume": Verb(
        about=_ABOUT_RESUME,
        add_arguments=lambda _: None,
        make_options=argparse.Namespace,
        run=_resume,
    ),
}
