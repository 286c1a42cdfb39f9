"""Asks AWS for the facts of an installation. Reads only."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from dlq.aws.clients import SOURCES_PAGE, Queue
from dlq.errors import InputError
from dlq.stack.outputs import aws_errors, clients_of, read_stack
from dlq.stack.rules import Installation, TriggerFacts
from dlq_replay.aws.breaker_table import DynamoDbBreaker
from dlq_replay.aws.sqs import SqsQueue, describe
from dlq_replay.errors import QueueError, SettingsError, TableError
from dlq_replay.rules.breaker import BreakerView
from dlq_replay.settings import ReplaySettings

if TYPE_CHECKING:
    from boto3.session import Session

_KEY_ACTIONS = ("kms:Decrypt", "kms:GenerateDataKey")

_OVER_TLS = ("aws:SecureTransport", "boolean", "true")
"""Every call has this key, and policies often ask for it."""

Client = Callable[[str], Any]
"""Makes the client of a service; see ``clients_of``."""

Fact = TypeVar("Fact")


def survey(session: "Session", stack: str) -> Installation:
    """Gather what can be had; what cannot is in ``unknown``.

    Raises:
        InputError: the stack, its function, its settings or one of its queues cannot be read.
    """
    values = read_stack(session, stack)
    function = values.function_arn
    client = clients_of(session)
    configuration, settings = read_function(client, function)
    unknown: list[str] = []

    def ask(what: str, call: Callable[..., Fact], *args: Any, **kwargs: Any) -> Fact | None:  # noqa: ANN401 - the call's own
        """Return what *call* returns; None where AWS refuses, and *unknown* says why."""
        try:
            return call(*args, **kwargs)
        except (ClientError, BotoCoreError) as error:
            why = describe(error)
        except (QueueError, TableError) as error:
            why = str(error)
        except ResponseParserError:
            # A proxy or an emulator that does not know the call.
            why = "the answer is not one of AWS"
        unknown.append(f"{what}: {why}")
        return None

    def queue(url: str) -> Queue:
        return Queue(url, SqsQueue(client("sqs"), url).describe())

    try:
        main = queue(settings.main_queue_url)
        dlq, parked = queue(settings.dlq_url), queue(settings.parked_queue_url)
    except QueueError as error:
        raise InputError(str(error)) from error
    others = [
        ask(f"main queue {url.rpartition('/')[2]}", queue, url)
        for url in settings.other_main_queue_urls.values()
    ]
    other_main = tuple(other for other in others if other is not None)
    queues = (main, *other_main, dlq, parked)
    functions, of = client("lambda"), {"FunctionName": function}
    recursion = ask("recursion", functions.get_function_recursion_config, **of) or {}
    concurrency = ask("concurrency", functions.get_function_concurrency, **of) or {}
    name = function.rpartition(":")[2]
    mappings = ask("event source mappings", list_mappings, client, FunctionName=name)
    pipes = ask("pipes", list_pipes, client, TargetPrefix=function)
    role = configuration["Role"]
    calls: dict[str, Callable[[], object]] = {
        # As ``collect --logs`` asks, which also shows whether it is allowed.
        name: partial(client("logs").filter_log_events, logGroupName=name, limit=1, endTime=1)
        for name in values.log_groups
    }
    if table := settings.failure_table:
        calls[table] = partial(client("dynamodb").describe_table, TableName=table)
    missing = tuple(name for name, call in calls.items() if ask(name, _is_missing, call))
    denies_metrics, unjudged = None, dict[str, str]()
    if table and settings.has_breaker and table not in missing:
        denies_metrics = ask("permission to read metrics", _denies_metrics, client, role)
        for queue_name in (one.name for one in (main, *other_main)):
            breaker = f"circuit breaker of {queue_name}"
            unjudged[queue_name] = ask(breaker, _why_unjudged, client, table, queue_name) or ""
    return Installation(
        function_name=configuration["FunctionName"],
        timeout_seconds=configuration["Timeout"],
        settings=settings,
        main=main,
        dlq=dlq,
        parked=parked,
        other_main=other_main,
        triggers=(*(mappings or ()), *(pipe for pipe in pipes or () if pipe.target == function)),
        knows_triggers=mappings is not None and pipes is not None,
        other_readers=ask("other consumers", _other_readers, client, function, dlq, parked) or (),
        consumers=ask("the main queue's consumers", _consumers, client, main) or {},
        recursive_loop=recursion.get("RecursiveLoop"),
        reserved_concurrency=concurrency.get("ReservedConcurrentExecutions"),
        dlq_source_arns=ask("the DLQ's sources", _sources, client, dlq),
        denied_keys=ask("KMS permissions", _denied_keys, client, role, queues),
        denied_sends=ask("permissions to send", _denied_sends, client, role, queues, dlq),
        missing=missing,
        account=function.split(":")[4],
        denies_metrics=denies_metrics,
        unjudged=unjudged,
        unknown=tuple(unknown),
        main_retention_seconds=values.main_retention_seconds,
    )


def read_function(client: Client, function: str) -> tuple[Mapping[str, Any], ReplaySettings]:
    """Read a replay function's configuration, and the settings in it; may raise InputError."""
    with aws_errors(f"function {function}"):
        configuration = client("lambda").get_function_configuration(FunctionName=function)
    try:
        settings = ReplaySettings.from_env(
            configuration.get("Environment", {}).get("Variables", {})
        )
    except SettingsError as error:
        raise InputError(f"function {function}: {error}") from error
    return configuration, settings


def list_mappings(client: Client, **selection: str) -> list[TriggerFacts]:
    """List event source mappings, by ``FunctionName`` or ``EventSourceArn``."""
    pages = client("lambda").get_paginator("list_event_source_mappings").paginate(**selection)
    return [
        TriggerFacts(
            name=f"event source mapping {mapping['UUID']}",
            state=mapping["State"],
            source_arn=mapping.get("EventSourceArn", ""),
            reports_batch_item_failures="ReportBatchItemFailures"
            in mapping.get("FunctionResponseTypes", []),
            target=mapping.get("FunctionArn", ""),
            changed_at_seconds=_seconds(mapping.get("LastModified")),
        )
        for page in pages
        for mapping in page["EventSourceMappings"]
    ]


def list_pipes(client: Client, **selection: str) -> list[TriggerFacts]:
    """List pipes, by ``TargetPrefix`` or ``SourcePrefix``: orders-2 begins with orders, too."""
    pages = client("pipes").get_paginator("list_pipes").paginate(**selection)
    return [
        TriggerFacts(
            name=f"pipe {pipe['Name']}",
            state=pipe["CurrentState"],
            source_arn=pipe["Source"],
            reports_batch_item_failures=True,
            target=pipe.get("Target", ""),
            changed_at_seconds=_seconds(pipe.get("LastModifiedTime")),
        )
        for page in pages
        for pipe in page["Pipes"]
    ]


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _other_readers(client: Client, function: str, *queues: Queue) -> tuple[TriggerFacts, ...]:
    return tuple(
        one
        for queue in queues
        for one in (
            *list_mappings(client, EventSourceArn=queue.arn),
            *list_pipes(client, SourcePrefix=queue.arn),
        )
        # A mapping may name a version or an alias of the function.
        if one.source_arn == queue.arn and not f"{one.target}:".startswith(f"{function}:")
    )


def _consumers(client: Client, main: Queue) -> dict[str, int]:
    read = client("lambda").get_function_configuration
    mappings = list_mappings(client, EventSourceArn=main.arn)
    functions = [read(FunctionName=mapping.target) for mapping in mappings]
    return {function["FunctionName"]: function["Timeout"] for function in functions}


def _sources(client: Client, dlq: Queue) -> tuple[str, ...]:
    account = dlq.arn.rpartition(":")[0]
    paginator = client("sqs").get_paginator("list_dead_letter_source_queues")
    pages = paginator.paginate(QueueUrl=dlq.url, PaginationConfig=SOURCES_PAGE)
    urls = [url for page in pages for url in page.get("queueUrls", [])]
    return tuple(f"{account}:{url.rpartition('/')[2]}" for url in urls)


def _is_denied(
    client: Client, role: str, actions: Sequence[str], resource: str, context: tuple[str, str, str]
) -> bool:
    """Ask IAM whether a role may not do one of *actions*. IAM looks at the role's policies alone.

    *context* is name, type and value of a condition key of the calls. A simulation without a key
    that a policy asks for denies what AWS would allow.
    """
    name, kind, value = context
    answer = client("iam").simulate_principal_policy(
        PolicySourceArn=role,
        ActionNames=list(actions),
        ResourceArns=[resource],
        ContextEntries=[
            {"ContextKeyName": name, "ContextKeyType": kind, "ContextKeyValues": [value]}
        ],
    )
    return any(one["EvalDecision"] != "allowed" for one in answer["EvaluationResults"])


def _denied_keys(client: Client, role: str, queues: Sequence[Queue]) -> tuple[str, ...]:
    denied = []
    for key in sorted({queue.customer_key for queue in queues if queue.customer_key}):
        arn = client("kms").describe_key(KeyId=key)["KeyMetadata"]["Arn"]
        # The role may use keys through SQS alone.
        _, partition, _, region, *_ = arn.split(":")
        service = f"sqs.{region}.amazonaws.com{'.cn' if partition == 'aws-cn' else ''}"
        through = ("kms:ViaService", "string", service)
        denied += [key] if _is_denied(client, role, _KEY_ACTIONS, arn, through) else []
    return tuple(denied)


def _denied_sends(
    client: Client, role: str, queues: Sequence[Queue], dlq: Queue
) -> tuple[str, ...]:
    return tuple(
        queue.name
        for queue in queues
        # On FIFO a message waits in the DLQ by its visibility; nothing is sent there.
        if not (queue is dlq and queue.is_fifo)
        and _is_denied(client, role, ["sqs:SendMessage"], queue.arn, _OVER_TLS)
    )


def _denies_metrics(client: Client, role: str) -> bool:
    return _is_denied(client, role, ["cloudwatch:GetMetricData"], "*", _OVER_TLS)


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
