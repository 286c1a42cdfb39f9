"""Asks AWS for the facts of an installation. Reads only."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from dlq.aws.clients import DescribedQueue
from dlq.cli.verb import PLACE_WORDS
from dlq.errors import InputError
from dlq.stack.outputs import StackValues, aws_errors, clients_of
from dlq.stack.rules import FleetInstallation, Installation, TriggerFacts
from dlq_replay.aws.breaker_table import DynamoDbBreaker
from dlq_replay.aws.sqs import SqsQueue, describe
from dlq_replay.aws.tagged_queues import TAG_KEY
from dlq_replay.errors import QueueError, SettingsError, TableError
from dlq_replay.rules.breaker import BreakerView
from dlq_replay.rules.failures import one_line
from dlq_replay.settings import FleetSettings, ReplaySettings

if TYPE_CHECKING:
    from boto3.session import Session

_KEY_ACTIONS = ("kms:Decrypt", "kms:GenerateDataKey")
_MEMBER_ACTIONS = (
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
    "sqs:SendMessage",
    "sqs:ListDeadLetterSourceQueues",
)
_FINDS_MEMBERS = "tag:GetResources"
_FINDS_MAPPINGS = "lambda:ListEventSourceMappings"
"""Only a sweep needs it: it leaves to a mapping what that reads."""

_OVER_TLS = ("aws:SecureTransport", "boolean", "true")
"""Every call has this key, and policies often ask for it."""

Client = Callable[[str], Any]
"""Makes the client of a service; see ``clients_of``."""

Fact = TypeVar("Fact")
Settings = TypeVar("Settings")
_Args = ParamSpec("_Args")


def survey(session: "Session", stack: StackValues) -> Installation:
    """Gather the facts of a stack with one main queue; ``unknown`` names those that AWS refuses.

    Raises:
        InputError: its function, its settings or one of its queues cannot be read; or it is a
            fleet.
    """
    stack.require_one_main_queue()
    client = clients_of(session)
    configuration, settings = read_function(client, stack.function_arn)
    main, dlq, parked = _describe_all(
        client, settings.main_queue_url, settings.dlq_url, settings.parked_queue_url
    )

    questions = Questions()
    ask = questions.ask
    main_queues = [main]
    for url in settings.other_main_queue_urls.values():
        other = ask(f"main queue {url.rpartition('/')[2]}", _describe_queue, client, url)
        if other is not None:
            main_queues.append(other)
    queues = (*main_queues, dlq, parked)

    # On FIFO a message waits in the DLQ by its visibility; nothing is sent there.
    sent_to = [queue for queue in queues if queue is not dlq or not queue.is_fifo]
    shared = _shared_facts(questions, client, stack, configuration, settings, queues, sent_to)
    unjudged: dict[str, str] = {}
    table = settings.failure_table
    if table and settings.has_breaker and table not in shared["missing"]:
        for queue in main_queues:
            breaker = f"circuit breaker of {queue.name}"
            unjudged[queue.name] = ask(breaker, _why_unjudged, client, table, queue.name) or ""

    function = stack.function_arn
    readers = f"other consumers of {dlq.name} and {parked.name}"
    return Installation(
        **shared,
        settings=settings,
        timeout_seconds=configuration["Timeout"],
        main=main,
        dlq=dlq,
        parked=parked,
        other_main=tuple(main_queues[1:]),
        other_readers=ask(readers, _other_readers, client, function, dlq, parked) or (),
        consumers=ask(f"consumers of {main.name}", _consumers, client, main) or {},
        dlq_source_arns=ask(f"sources of {dlq.name}", _sources, client, dlq),
        unjudged=unjudged,
        main_retention_seconds=stack.main_retention_seconds,
        unknown=tuple(questions.unknown),
    )


def survey_fleet(session: "Session", stack: StackValues) -> FleetInstallation:
    """Gather the facts of a fleet, without its members; ``unknown`` names those that AWS refuses.

    Raises:
        InputError: its function, its settings or a parked queue cannot be read.
    """
    client = clients_of(session)
    configuration, settings = read_fleet_function(client, stack.function_arn)
    urls = filter(None, (settings.parked_queue_url, settings.fifo_parked_queue_url))
    parked = _describe_all(client, *urls)

    questions = Questions()
    ask = questions.ask
    shared = _shared_facts(questions, client, stack, configuration, settings, parked, parked)
    if stack.sweep_rule:
        rule = ask(f"rule {stack.sweep_rule}", read_sweep_rule, client, stack.sweep_rule)
        shared["triggers"] = (rule, *shared["triggers"]) if rule else shared["triggers"]
        shared["knows_triggers"] = shared["knows_triggers"] and rule is not None

    role = configuration["Role"]
    account = parked[0].arn.rpartition(":")[0]
    tag = _tag_context(TAG_KEY, settings.queue_tag)
    lists = [_FINDS_MEMBERS, _FINDS_MAPPINGS] if stack.sweep_rule else [_FINDS_MEMBERS]
    denied = ask("permissions", _denied_actions, client, role, f"{account}:member", tag, lists)
    return FleetInstallation(
        **shared,
        settings=settings,
        parked=parked,
        denied_actions=denied,
        unknown=tuple(questions.unknown),
    )


def _shared_facts(
    questions: "Questions",
    client: Client,
    stack: StackValues,
    configuration: Mapping[str, Any],
    settings: ReplaySettings | FleetSettings,
    queues: Sequence[DescribedQueue],
    sent_to: Sequence[DescribedQueue],
) -> dict[str, Any]:
    """Ask for the facts that ``StackFacts`` has; the function sends to the queues of *sent_to*."""
    ask = questions.ask
    function = stack.function_arn
    is_fleet = isinstance(settings, FleetSettings)
    role = configuration["Role"]
    functions = client("lambda")
    recursion = ask("recursion", functions.get_function_recursion_config, FunctionName=function)
    concurrency = ask("concurrency", functions.get_function_concurrency, FunctionName=function)
    name = function.rpartition(":")[2]
    mappings = ask("event source mappings", list_mappings, client, FunctionName=name)
    pipes = ask("pipes", list_pipes, client, TargetPrefix=function)
    own_pipes = [pipe for pipe in pipes or () if pipe.target == function]

    missing: list[str] = []
    for log_group in dict.fromkeys(stack.log_groups):
        # As ``collect --logs`` asks, which also shows whether it is allowed.
        search = partial(
            client("logs").filter_log_events, logGroupName=log_group, limit=1, endTime=1
        )
        if ask(log_group, _is_missing, search):
            missing.append(log_group)

    table = settings.failure_table
    if table:
        describe_table = partial(client("dynamodb").describe_table, TableName=table)
        if ask(table, _is_missing, describe_table):
            missing.append(table)

    denies_metrics = None
    if table and settings.has_breaker and table not in missing:
        denies_metrics = ask("permission to read metrics", _denies_metrics, client, role)

    return {
        "function_name": configuration["FunctionName"],
        "place": ("--stack", stack.stack, *PLACE_WORDS.get()),
        "account": function.split(":")[4],
        "triggers": (*(mappings or ()), *own_pipes),
        "knows_triggers": mappings is not None and pipes is not None,
        "recursive_loop": (recursion or {}).get("RecursiveLoop"),
        "reserved_concurrency": (concurrency or {}).get("ReservedConcurrentExecutions"),
        "denied_keys": ask(
            "KMS permissions", _denied_keys, client, role, queues, is_by_tag=is_fleet
        ),
        "denied_sends": ask("permissions to send", _denied_sends, client, role, sent_to),
        "denies_metrics": denies_metrics,
        "missing": tuple(missing),
    }


class Questions:
    """Calls AWS, and notes in *unknown* each call that AWS refuses."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def ask(
        self, subject: str, call: Callable[_Args, Fact], *args: _Args.args, **kwargs: _Args.kwargs
    ) -> Fact | None:
        """Return what *call* returns; None where AWS refuses."""
        try:
            return call(*args, **kwargs)
        except (ClientError, BotoCoreError) as error:
            reason = describe(error)
        except (QueueError, TableError, InputError) as error:
            reason = one_line(str(error))
        except (ResponseParserError, LookupError):
            # A proxy or an emulator that does not know the call.
            reason = "the answer is not one of AWS"
        self.unknown.append(f"{subject}: {reason}")
        return None


def _describe_all(client: Client, *urls: str) -> tuple[DescribedQueue, ...]:
    """Describe the queues without which nothing can be checked; may raise InputError."""
    try:
        return tuple(_describe_queue(client, url) for url in urls)
    except QueueError as error:
        raise InputError(str(error)) from error


def _describe_queue(client: Client, url: str) -> DescribedQueue:
    return DescribedQueue(url, SqsQueue(client("sqs"), url).describe())


def read_function(client: Client, function: str) -> tuple[Mapping[str, Any], ReplaySettings]:
    """Read a replay function's configuration, and the settings in it; may raise InputError."""
    return _read_function(client, function, ReplaySettings.from_env)


def read_fleet_function(client: Client, function: str) -> tuple[Mapping[str, Any], FleetSettings]:
    """Do the same with a function of a fleet."""
    return _read_function(client, function, FleetSettings.from_env)


def _read_function(
    client: Client, function: str, from_env: Callable[[Mapping[str, str]], Settings]
) -> tuple[Mapping[str, Any], Settings]:
    with aws_errors(f"function {function}"):
        configuration = client("lambda").get_function_configuration(FunctionName=function)
    try:
        settings = from_env(configuration.get("Environment", {}).get("Variables", {}))
    except SettingsError as error:
        raise InputError(f"function {function}: {error}") from error
    return configuration, settings


def list_mappings(client: Client, **selection: str) -> list[TriggerFacts]:
    """List event source mappings, by ``FunctionName`` or ``EventSourceArn``."""
    mappings: list[TriggerFacts] = []
    paginator = client("lambda").get_paginator("list_event_source_mappings")
    for page in paginator.paginate(**selection):
        mappings += map(_mapping_facts, page["EventSourceMappings"])
    return mappings


def _mapping_facts(mapping: Mapping[str, Any]) -> TriggerFacts:
    response_types = mapping.get("FunctionResponseTypes", [])
    return TriggerFacts(
        name=f"event source mapping {mapping['UUID']}",
        state=mapping["State"],
        source_arn=mapping.get("EventSourceArn", ""),
        reports_batch_item_failures="ReportBatchItemFailures" in response_types,
        target=mapping.get("FunctionArn", ""),
        changed_at_seconds=_seconds(mapping.get("LastModified")),
    )


def list_pipes(client: Client, **selection: str) -> list[TriggerFacts]:
    """List pipes, by ``TargetPrefix`` or ``SourcePrefix``: orders-2 begins with orders, too."""
    pipes: list[TriggerFacts] = []
    for page in client("pipes").get_paginator("list_pipes").paginate(**selection):
        pipes += map(_pipe_facts, page["Pipes"])
    return pipes


def _pipe_facts(pipe: Mapping[str, Any]) -> TriggerFacts:
    return TriggerFacts(
        name=f"pipe {pipe['Name']}",
        state=pipe["CurrentState"],
        source_arn=pipe["Source"],
        reports_batch_item_failures=True,
        target=pipe.get("Target", ""),
        changed_at_seconds=_seconds(pipe.get("LastModifiedTime")),
    )


def read_sweep_rule(client: Client, name: str) -> TriggerFacts:
    """Read the EventBridge rule by which a fleet reads its members; AWS says no time of a change.

    Such a function receives and deletes by itself, and so reports nothing to a trigger.
    """
    rule = client("events").describe_rule(Name=name)
    return TriggerFacts(
        name=f"rule {name}",
        state=rule["State"],
        source_arn="",
        reports_batch_item_failures=True,
    )


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _other_readers(
    client: Client, function: str, *queues: DescribedQueue
) -> tuple[TriggerFacts, ...]:
    readers: list[TriggerFacts] = []
    for queue in queues:
        triggers = list_mappings(client, EventSourceArn=queue.arn)
        triggers += list_pipes(client, SourcePrefix=queue.arn)
        for trigger in triggers:
            # A mapping may name a version or an alias of the function.
            is_own = f"{trigger.target}:".startswith(f"{function}:")
            if trigger.source_arn == queue.arn and not is_own:
                readers.append(trigger)
    return tuple(readers)


def _consumers(client: Client, main: DescribedQueue) -> dict[str, int]:
    timeouts: dict[str, int] = {}
    for mapping in list_mappings(client, EventSourceArn=main.arn):
        function = client("lambda").get_function_configuration(FunctionName=mapping.target)
        timeouts[function["FunctionName"]] = function["Timeout"]
    return timeouts


def _sources(client: Client, dlq: DescribedQueue) -> tuple[str, ...]:
    account = dlq.arn.rpartition(":")[0]
    sources = SqsQueue(client("sqs"), dlq.url).sources()
    return tuple(f"{account}:{source.name}" for source in sorted(sources))


def _denied(
    client: Client,
    role: str,
    actions: Sequence[str],
    resource: str,
    *context: tuple[str, str, str],
) -> tuple[str, ...]:
    """Ask IAM which of *actions* a role may not do. IAM looks at the role's policies alone.

    *context* has name, type and value of condition keys of the calls. A simulation without a key
    that a policy asks for denies what AWS would allow.
    """
    entries: list[dict[str, Any]] = []
    for name, kind, value in context:
        entries.append(
            {"ContextKeyName": name, "ContextKeyType": kind, "ContextKeyValues": [value]}
        )
    answer = client("iam").simulate_principal_policy(
        PolicySourceArn=role,
        ActionNames=list(actions),
        ResourceArns=[resource],
        ContextEntries=entries,
    )
    results = answer["EvaluationResults"]
    denied = [result for result in results if result["EvalDecision"] != "allowed"]
    return tuple(result["EvalActionName"] for result in denied)


def _tag_context(key: str, value: str) -> tuple[str, str, str]:
    return f"aws:ResourceTag/{key}", "string", value


def _denied_keys(
    client: Client, role: str, queues: Sequence[DescribedQueue], *, is_by_tag: bool
) -> tuple[str, ...]:
    """Return the keys of queues that a role may not use; *is_by_tag*: it may by the keys' tags."""
    kms = client("kms")
    denied: list[str] = []
    for key in sorted({queue.customer_key for queue in queues if queue.customer_key}):
        arn = kms.describe_key(KeyId=key)["KeyMetadata"]["Arn"]
        # The role may use keys through SQS alone.
        _, partition, _, region, *_ = arn.split(":")
        domain = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
        context = [("kms:ViaService", "string", f"sqs.{region}.{domain}")]
        for tag in kms.list_resource_tags(KeyId=arn)["Tags"] if is_by_tag else ():
            context.append(_tag_context(tag["TagKey"], tag["TagValue"]))
        if _denied(client, role, _KEY_ACTIONS, arn, *context):
            denied.append(key)
    return tuple(denied)


def _denied_sends(client: Client, role: str, queues: Sequence[DescribedQueue]) -> tuple[str, ...]:
    denied: list[str] = []
    for queue in queues:
        if _denied(client, role, ["sqs:SendMessage"], queue.arn, _OVER_TLS):
            denied.append(queue.name)
    return tuple(denied)


def _denied_actions(
    client: Client,
    role: str,
    member_arn: str,
    tag: tuple[str, str, str],
    lists: Sequence[str],
) -> tuple[str, ...]:
    """Return what a role may not do with the queues that have a tag, and which *lists* not read."""
    on_members = _denied(client, role, _MEMBER_ACTIONS, member_arn, tag, _OVER_TLS)
    return (*on_members, *_denied(client, role, lists, "*", _OVER_TLS))


def _denies_metrics(client: Client, role: str) -> bool:
    return bool(_denied(client, role, ["cloudwatch:GetMetricData"], "*", _OVER_TLS))


def _why_unjudged(client: Client, table: str, queue: str) -> str:
    now_seconds = int(time.time())
    breaker = DynamoDbBreaker(client("dynamodb"), table, queue, lambda: now_seconds)
    return BreakerView(breaker.read(), now_seconds).unjudged_in_words


def _is_missing(call: Callable[[], object]) -> bool:
    try:
        call()
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        return True
    return False
