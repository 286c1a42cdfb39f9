"""Asks AWS for the facts of an installation. Reads only."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from dlq_cli.stack.facts import Installation, QueueFacts, TriggerFacts, as_list
from dlq_cli.stack_values import (
    StackValues,
    aws_errors,
    clients_of,
    read_stack,
)
from dlq_replay.errors import QueueError, SettingsError
from dlq_replay.settings import ReplaySettings
from dlq_replay.sqs import SqsQueue, describe
from spark_reprocess.clients import SOURCES_PAGE
from spark_reprocess.errors import InputError

if TYPE_CHECKING:
    from boto3.session import Session

_KEY_ACTIONS = ("kms:Decrypt", "kms:GenerateDataKey")

Fact = TypeVar("Fact")
P = ParamSpec("P")


def survey(session: "Session", stack: str) -> Installation:
    """Gather what can be had; what cannot is in ``unknown``.

    Args:
        session: whose credentials and Region are used.
        stack: the stack's name.

    Raises:
        InputError: the stack, its function, its settings or one of its queues cannot be read.
    """
    values = read_stack(session, stack)
    function = values.function_arn
    client = clients_of(session)
    with aws_errors(f"function {function}"):
        configuration = client("lambda").get_function_configuration(FunctionName=function)
    variables = configuration.get("Environment", {}).get("Variables", {})
    try:
        settings = ReplaySettings.from_env(variables)
    except SettingsError as error:
        raise InputError(f"function {function}: {error}") from error
    return _Survey(client, values, configuration, settings).installation()


def list_mappings(client: Callable[[str], Any], **selection: str) -> list[TriggerFacts]:
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
            last_result=mapping.get("LastProcessingResult", ""),
        )
        for page in pages
        for mapping in page["EventSourceMappings"]
    ]


def list_pipes(client: Callable[[str], Any], **selection: str) -> list[TriggerFacts]:
    """List pipes, by ``TargetPrefix`` or ``SourcePrefix``: orders-2 begins with orders, too."""
    pages = client("pipes").get_paginator("list_pipes").paginate(**selection)
    return [
        TriggerFacts(
            name=f"pipe {pipe['Name']}",
            state=pipe["CurrentState"],
            source_arn=pipe["Source"],
            reports_batch_item_failures=True,
            target=pipe.get("Target", ""),
        )
        for page in pages
        for pipe in page["Pipes"]
    ]


@dataclass(slots=True)
class _Survey:
    _client: Callable[[str], Any]
    values: StackValues
    configuration: Mapping[str, Any]
    settings: ReplaySettings
    unknown: list[str] = field(default_factory=list)

    @property
    def function(self) -> str:
        return self.values.function_arn

    def installation(self) -> Installation:
        settings, configuration, ask = self.settings, self.configuration, self._ask
        try:
            main = self._queue("main", settings.main_queue_url)
            dlq = self._queue("dlq", settings.dlq_url)
            parked = self._queue("parked", settings.parked_queue_url)
        except QueueError as error:
            raise InputError(str(error)) from error
        others = [
            ask(f"main queue {url.rpartition('/')[2]}", self._queue, "main", url)
            for url in settings.other_main_queue_urls.values()
        ]
        other_main = tuple(queue for queue in others if queue is not None)
        queues = (main, *other_main, dlq, parked)
        name = self.function.rpartition(":")[2]
        functions, of = self._client("lambda"), {"FunctionName": self.function}
        recursion = ask("recursion", functions.get_function_recursion_config, **of) or {}
        concurrency = ask("concurrency", functions.get_function_concurrency, **of) or {}
        mappings = ask("event source mappings", list_mappings, self._client, FunctionName=name)
        pipes = ask("pipes", list_pipes, self._client, TargetPrefix=self.function)
        return Installation(
            function_name=configuration["FunctionName"],
            timeout_seconds=configuration["Timeout"],
            settings=settings,
            main=main,
            dlq=dlq,
            parked=parked,
            other_main=other_main,
            triggers=(
                *(mappings or ()),
                *(pipe for pipe in pipes or () if pipe.target == self.function),
            ),
            knows_triggers=mappings is not None and pipes is not None,
            other_readers=ask("other consumers", self._other_readers, dlq, parked) or (),
            consumers=ask("the main queue's consumers", self._consumers, main) or {},
            recursive_loop=recursion.get("RecursiveLoop"),
            reserved_concurrency=concurrency.get("ReservedConcurrentExecutions"),
            dlq_source_arns=ask("the DLQ's sources", self._sources, dlq),
            denied_keys=ask("KMS permissions", self._denied_keys, queues),
            data_key_admits_alarms=ask("the policy of the data key", self._data_key_admits_alarms),
            has_failure_table=ask("the failure table", self._has_failure_table),
            denied_sends=ask("permissions to send", self._denied_sends, queues),
            unknown=tuple(self.unknown),
            replay_enabled=self.values.replay_enabled,
            main_retention_seconds=self.values.main_retention_seconds,
        )

    def _ask(
        self, what: str, call: Callable[P, Fact], *args: P.args, **kwargs: P.kwargs
    ) -> Fact | None:
        """Return what *call* returns; None where AWS refuses, and ``unknown`` says why."""
        try:
            return call(*args, **kwargs)
        except (ClientError, BotoCoreError, QueueError) as error:
            text = str(error) if isinstance(error, QueueError) else describe(error)
        except ResponseParserError:
            # A proxy or an emulator that does not know the call.
            text = "the answer is not one of AWS"
        self.unknown.append(f"{what}: {text}")
        return None

    def _pages(self, service: str, operation: str, **request: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - boto3's own
        yield from self._client(service).get_paginator(operation).paginate(**request)

    def _queue(self, role: str, url: str) -> QueueFacts:
        return QueueFacts(role, url, SqsQueue(self._client("sqs"), url).describe())

    def _other_readers(self, *queues: QueueFacts) -> tuple[TriggerFacts, ...]:
        return tuple(
            one
            for queue in queues
            for one in (
                *list_mappings(self._client, EventSourceArn=queue.arn),
                *list_pipes(self._client, SourcePrefix=queue.arn),
            )
            # A mapping may name a version or an alias of the function.
            if one.source_arn == queue.arn and not f"{one.target}:".startswith(f"{self.function}:")
        )

    def _consumers(self, main: QueueFacts) -> dict[str, int]:
        read = self._client("lambda").get_function_configuration
        mappings = list_mappings(self._client, EventSourceArn=main.arn)
        functions = [read(FunctionName=mapping.target) for mapping in mappings]
        return {function["FunctionName"]: function["Timeout"] for function in functions}

    def _sources(self, dlq: QueueFacts) -> tuple[str, ...]:
        account = dlq.arn.rpartition(":")[0]
        request = {"QueueUrl": dlq.url, "PaginationConfig": SOURCES_PAGE}
        pages = self._pages("sqs", "list_dead_letter_source_queues", **request)
        urls = [url for page in pages for url in page.get("queueUrls", [])]
        return tuple(f"{account}:{url.rpartition('/')[2]}" for url in urls)

    def _denied(
        self, actions: Sequence[str], resource: str, context: tuple[str, Any, str]
    ) -> tuple[str, ...]:
        """Ask IAM which of *actions* the role may not do. IAM looks at the role's policies alone.

        Args:
            actions: such as ``sqs:SendMessage``.
            resource: its ARN.
            context: name, type and value of a condition key of the calls. A simulation without a
                key that a policy asks for denies what AWS would allow.
        """
        name, kind, value = context
        answer = self._client("iam").simulate_principal_policy(
            PolicySourceArn=self.configuration["Role"],
            ActionNames=list(actions),
            ResourceArns=[resource],
            ContextEntries=[
                {"ContextKeyName": name, "ContextKeyType": kind, "ContextKeyValues": [value]}
            ],
        )
        results = answer["EvaluationResults"]
        return tuple(one["EvalActionName"] for one in results if one["EvalDecision"] != "allowed")

    def _denied_keys(self, queues: Sequence[QueueFacts]) -> tuple[str, ...]:
        denied = []
        for key in sorted({queue.customer_key for queue in queues if queue.customer_key}):
            arn = self._client("kms").describe_key(KeyId=key)["KeyMetadata"]["Arn"]
            # The role may use keys through SQS alone.
            _, partition, _, region, *_ = arn.split(":")
            service = f"sqs.{region}.amazonaws.com{'.cn' if partition == 'aws-cn' else ''}"
            through = ("kms:ViaService", "string", service)
            denied += [key] if self._denied(_KEY_ACTIONS, arn, through) else []
        return tuple(denied)

    def _data_key_admits_alarms(self) -> bool | None:
        answer = self._client("cloudformation").describe_stacks(StackName=self.values.stack)
        [stack] = answer["Stacks"]
        given = {
            parameter["ParameterKey"]: parameter.get("ParameterValue", "")
            for parameter in stack.get("Parameters", [])
        }
        key_arn = given.get("DataKmsKeyArn")
        # Alarms go to a topic with this key only if the stack has created it.
        if not key_arn or given.get("CreateAlarms") != "true" or given.get("AlarmTopicArn"):
            return None
        answer = self._client("kms").get_key_policy(KeyId=key_arn, PolicyName="default")
        return names_service(answer["Policy"], "cloudwatch.amazonaws.com")

    def _denied_sends(self, queues: Sequence[QueueFacts]) -> tuple[str, ...]:
        # Every call has this key, and policies often ask for it.
        over_tls = ("aws:SecureTransport", "boolean", "true")
        return tuple(
            queue.name
            for queue in queues
            # On FIFO a message waits in the DLQ by its visibility; nothing is sent there.
            if not (queue.role == "dlq" and queue.is_fifo)
            and self._denied(["sqs:SendMessage"], queue.arn, over_tls)
        )

    def _has_failure_table(self) -> bool | None:
        if self.settings.failure_table is None:
            return None
        client = self._client("dynamodb")
        try:
            client.describe_table(TableName=self.settings.failure_table)
        except client.exceptions.ResourceNotFoundException:
            return False
        return True


def names_service(policy: str, service: str) -> bool:
    """Return whether a key policy, a JSON document, allows anything to a service.

    Actions and conditions are not read, and denials neither: False means that the service cannot
    use the key, True that it may.
    """
    statements = as_list(json.loads(policy).get("Statement", []))
    # A statement without Principal has NotPrincipal, and allows nearly everybody.
    allowed = [one.get("Principal", "*") for one in statements if one.get("Effect") == "Allow"]
    return any(
        one == "*" or "*" in one.get("AWS", ()) or service in one.get("Service", ())
        for one in allowed
    )
