"""Asks AWS for the facts of an installation. Reads only, but for a peek at parked messages."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from dlq_cli.stack.facts import (
    AlarmFacts,
    ConsumerFacts,
    DataKeyFacts,
    Installation,
    QueueFacts,
    TriggerFacts,
    metrics_of,
)
from dlq_cli.stack.policies import may_use_key
from dlq_cli.stack_values import aws_errors, clients_of, read_stack, stack_resources
from dlq_replay.context import CONTEXT_ATTRIBUTE
from dlq_replay.errors import QueueError, SettingsError
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message
from dlq_replay.settings import ReplaySettings
from dlq_replay.sqs import SqsQueue, describe
from spark_reprocess.clients import SOURCES_PAGE
from spark_reprocess.errors import InputError

if TYPE_CHECKING:
    from boto3.session import Session

_KEY_ACTIONS = ["kms:Decrypt", "kms:GenerateDataKey"]
_BREAKER_ACTIONS = ["dynamodb:BatchGetItem", "dynamodb:UpdateItem"]
PEEK_MESSAGES = 10
_MEASURED = timedelta(days=7)

Fact = TypeVar("Fact")


def pipes_to(client: Callable[[str], Any], function: str) -> Iterator[dict[str, Any]]:
    """Yield the EventBridge Pipes whose target is *function*, as ListPipes tells of them."""
    for page in client("pipes").get_paginator("list_pipes").paginate(TargetPrefix=function):
        # A prefix: the function orders-replay-2 begins with orders-replay.
        yield from (dict(one) for one in page["Pipes"] if one.get("Target") == function)


def denied_actions(
    client: Callable[[str], Any],
    role_arn: str,
    actions: Sequence[str],
    resource: str,
    context: tuple[str, Any, str],
) -> tuple[str, ...]:
    """Ask IAM which of *actions* a role may not do. IAM looks at the role's policies alone.

    Args:
        client: makes the client of a service.
        role_arn: the role.
        actions: such as ``sqs:SendMessage``.
        resource: its ARN.
        context: name, type and value of a condition key of the calls.

    Raises:
        ClientError, BotoCoreError: IAM refuses or does not answer.
    """
    name, kind, value = context
    answer = client("iam").simulate_principal_policy(
        PolicySourceArn=role_arn,
        ActionNames=list(actions),
        ResourceArns=[resource],
        ContextEntries=[
            {"ContextKeyName": name, "ContextKeyType": kind, "ContextKeyValues": [value]}
        ],
    )
    return tuple(
        one["EvalActionName"]
        for one in answer["EvaluationResults"]
        if one["EvalDecision"] != "allowed"
    )


def survey(session: "Session", stack: str, *, peek: bool) -> Installation:
    """Gather what can be had; what cannot is in ``unknown``.

    Args:
        session: whose credentials and Region are used.
        stack: the stack's name.
        peek: whether to receive up to 10 messages of the parked queue, and give them back at once,
            to see how many attributes they have.

    Raises:
        InputError: the stack, its function, its settings or one of its queues cannot be read.
    """
    function = read_stack(session, stack).function_arn
    return _Survey(clients_of(session), stack, function).installation(peek=peek)


@dataclass(slots=True)
class _Survey:
    _client: Callable[[str], Any]
    stack: str
    function: str
    unknown: list[str] = field(default_factory=list)

    def installation(self, *, peek: bool) -> Installation:
        configuration = self._configuration()
        settings = self._settings(configuration)
        main, dlq, parked = (
            self._queue(role, url)
            for role, url in (
                ("main", settings.main_queue_url),
                ("dlq", settings.dlq_url),
                ("parked", settings.parked_queue_url),
            )
        )
        others = tuple(filter(None, map(self._other, settings.other_main_queue_urls.values())))
        queues = (main, *others, dlq, parked)
        keys = sorted({queue.customer_key for queue in queues if queue.customer_key})
        table = settings.failure_table
        mappings = self._try("event source mappings", self._mappings, None)
        pipes = self._try("pipes", self._pipes, None)
        return Installation(
            function_name=configuration["FunctionName"],
            timeout_seconds=configuration["Timeout"],
            settings=settings,
            main=main,
            dlq=dlq,
            parked=parked,
            other_main=others,
            triggers=(*(mappings or ()), *(pipes or ())),
            knows_triggers=mappings is not None and pipes is not None,
            consumers=self._try("the main queue's consumers", lambda: self._consumers(main), ()),
            dlq_alarms=self._try("alarms on the DLQ", lambda: self._alarms(dlq), ()),
            recursive_loop=self._try("recursion", self._recursive_loop, None),
            reserved_concurrency=self._try("concurrency", self._concurrency, None),
            dlq_source_arns=self._try("the DLQ's sources", lambda: self._sources(dlq), None),
            denied_keys=self._try(
                "KMS permissions", lambda: self._denied(configuration["Role"], keys), None
            ),
            data_key=self._try("the policy of the data key", self._data_key, None),
            denied_to_breaker=self._try(
                "the circuit breaker's permissions",
                lambda: self._denied_to_breaker(configuration["Role"], settings),
                None,
            ),
            has_failure_table=self._try("the failure table", lambda: self._has_table(table), None),
            most_attributes=self._try("a peek", lambda: self._peek(parked), None) if peek else None,
            denied_sends=self._try(
                "permissions to send",
                lambda: self._denied_sends(configuration["Role"], queues),
                None,
            ),
            unknown=tuple(self.unknown),
            log_group=configuration.get("LoggingConfig", {}).get("LogGroup")
            or f"/aws/lambda/{configuration['FunctionName']}",
        )

    def _try(self, what: str, ask: Callable[[], Fact], otherwise: Fact) -> Fact:
        try:
            return ask()
        except (ClientError, BotoCoreError, QueueError) as error:
            text = str(error) if isinstance(error, QueueError) else describe(error)
        except ResponseParserError:
            # A proxy or an emulator that does not know the call.
            text = "the answer is not one of AWS"
        self.unknown.append(f"{what}: {text}")
        return otherwise

    def _configuration(self) -> dict[str, Any]:
        with aws_errors(f"function {self.function}"):
            client = self._client("lambda")
            return dict(client.get_function_configuration(FunctionName=self.function))

    def _settings(self, configuration: dict[str, Any]) -> ReplaySettings:
        try:
            return ReplaySettings.from_env(_variables(configuration))
        except SettingsError as error:
            raise InputError(f"function {self.function}: {error}") from error

    def _queue(self, role: str, url: str) -> QueueFacts:
        try:
            return QueueFacts(role, url, SqsQueue(self._client("sqs"), url).describe())
        except QueueError as error:
            raise InputError(f"{role} queue: {error}") from error

    def _other(self, url: str) -> QueueFacts | None:
        def describe_it() -> QueueFacts | None:
            return QueueFacts("main", url, SqsQueue(self._client("sqs"), url).describe())

        return self._try(f"main queue {url.rpartition('/')[2]}", describe_it, None)

    def _mappings(self) -> tuple[TriggerFacts, ...]:
        pages = self._client("lambda").get_paginator("list_event_source_mappings")
        return tuple(
            TriggerFacts(
                name=f"event source mapping {one['UUID']}",
                state=one["State"],
                source_arn=one.get("EventSourceArn", ""),
                reports_batch_item_failures="ReportBatchItemFailures"
                in one.get("FunctionResponseTypes", []),
                last_result=one.get("LastProcessingResult", ""),
            )
            for page in pages.paginate(FunctionName=self.function.rpartition(":")[2])
            for one in page["EventSourceMappings"]
        )

    def _consumers(self, main: QueueFacts) -> tuple[ConsumerFacts, ...]:
        client = self._client("lambda")
        pages = client.get_paginator("list_event_source_mappings")
        arns = {
            mapping["FunctionArn"]
            for page in pages.paginate(EventSourceArn=main.arn)
            for mapping in page["EventSourceMappings"]
        }
        return tuple(self._consumer(arn) for arn in sorted(arns))

    def _consumer(self, arn: str) -> ConsumerFacts:
        found = self._client("lambda").get_function_configuration(FunctionName=arn)
        now = datetime.now(UTC)
        durations = self._client("cloudwatch").get_metric_statistics(
            Namespace="AWS/Lambda",
            MetricName="Duration",
            Dimensions=[{"Name": "FunctionName", "Value": found["FunctionName"]}],
            StartTime=now - _MEASURED,
            EndTime=now,
            Period=int(_MEASURED.total_seconds()),
            ExtendedStatistics=["p99"],
        )
        p99_ms = [
            one["ExtendedStatistics"]["p99"]
            for one in durations["Datapoints"]
            if one.get("ExtendedStatistics")
        ]
        return ConsumerFacts(
            found["FunctionName"], found["Timeout"], max(p99_ms) / 1000 if p99_ms else None
        )

    def _alarms(self, dlq: QueueFacts) -> tuple[AlarmFacts, ...]:
        """Find the alarms on the DLQ, those of metric math too."""
        client = self._client("cloudwatch")
        own = {
            resource.get("PhysicalResourceId")
            for resource in stack_resources(self._client, self.stack)
        }
        return tuple(
            AlarmFacts(alarm["AlarmName"], metric["MetricName"])
            for page in client.get_paginator("describe_alarms").paginate(AlarmTypes=["MetricAlarm"])
            for alarm in page["MetricAlarms"]
            if alarm["AlarmName"] not in own
            for metric in metrics_of(alarm)
            if metric.get("Namespace") == "AWS/SQS"
            and {"Name": "QueueName", "Value": dlq.name} in metric.get("Dimensions", [])
        )

    def _pipes(self) -> tuple[TriggerFacts, ...]:
        return tuple(
            TriggerFacts(
                name=f"pipe {one['Name']}",
                state=one["CurrentState"],
                source_arn=one["Source"],
                reports_batch_item_failures=True,
            )
            for one in pipes_to(self._client, self.function)
        )

    def _recursive_loop(self) -> str | None:
        client = self._client("lambda")
        answer = client.get_function_recursion_config(FunctionName=self.function)
        return str(answer["RecursiveLoop"])

    def _concurrency(self) -> int | None:
        client = self._client("lambda")
        answer = client.get_function_concurrency(FunctionName=self.function)
        reserved = answer.get("ReservedConcurrentExecutions")
        return None if reserved is None else int(reserved)

    def _sources(self, dlq: QueueFacts) -> tuple[str, ...]:
        client = self._client("sqs")
        paginator = client.get_paginator("list_dead_letter_source_queues")
        pages = paginator.paginate(QueueUrl=dlq.url, PaginationConfig=SOURCES_PAGE)
        account = dlq.arn.rpartition(":")[0]
        urls = [url for page in pages for url in page.get("queueUrls", [])]
        return tuple(f"{account}:{url.rpartition('/')[2]}" for url in urls)

    def _denied(self, role_arn: str, keys: list[str]) -> tuple[str, ...]:
        return tuple(key for key in keys if not self._may_use(role_arn, key))

    def _may_use(self, role_arn: str, key: str) -> bool:
        described = self._client("kms").describe_key(KeyId=key)
        key_arn = described["KeyMetadata"]["Arn"]
        # The role may use keys through SQS alone. A simulation that does not say through what it
        # comes denies what AWS would allow.
        through = ("kms:ViaService", "string", _sqs_of(key_arn))
        return not denied_actions(self._client, role_arn, _KEY_ACTIONS, key_arn, through)

    def _data_key(self) -> DataKeyFacts | None:
        [found] = self._client("cloudformation").describe_stacks(StackName=self.stack)["Stacks"]
        given = {
            one["ParameterKey"]: one.get("ParameterValue", "")
            for one in found.get("Parameters", [])
        }
        key_arn = given.get("DataKmsKeyArn")
        if not key_arn:
            return None
        answer = self._client("kms").get_key_policy(KeyId=key_arn, PolicyName="default")
        # Alarms go to a topic with this key only if the stack has created it.
        has_topic = given.get("CreateAlarms") == "true" and not given.get("AlarmTopicArn")
        services = [_logs_of(key_arn), *(["cloudwatch.amazonaws.com"] if has_topic else [])]
        account = key_arn.split(":")[4]
        closed_to = [one for one in services if not may_use_key(answer["Policy"], one, account)]
        return DataKeyFacts(key_arn, tuple(closed_to))

    def _denied_to_breaker(self, role_arn: str, settings: ReplaySettings) -> tuple[str, ...]:
        if not (settings.has_breaker and settings.failure_table):
            return ()
        client = self._client("dynamodb")
        table = client.describe_table(TableName=settings.failure_table)["Table"]["TableArn"]
        items = ("dynamodb:LeadingKeys", "stringList", f"breaker#{settings.policy.main_queue.name}")
        return (
            *denied_actions(self._client, role_arn, _BREAKER_ACTIONS, table, items),
            *denied_actions(self._client, role_arn, ["cloudwatch:GetMetricStatistics"], "*", items),
        )

    def _denied_sends(self, role_arn: str, queues: Sequence[QueueFacts]) -> tuple[str, ...]:
        # Every call has this key, and policies often ask for it.
        over_tls = ("aws:SecureTransport", "boolean", "true")
        return tuple(
            queue.name
            for queue in queues
            # On FIFO a message waits in the DLQ by its visibility; nothing is sent there.
            if not (queue.role == "dlq" and queue.is_fifo)
            and denied_actions(self._client, role_arn, ["sqs:SendMessage"], queue.arn, over_tls)
        )

    def _has_table(self, name: str | None) -> bool | None:
        if name is None:
            return None
        client = self._client("dynamodb")
        try:
            client.describe_table(TableName=name)
        except client.exceptions.ResourceNotFoundException:
            return False
        return True

    def _peek(self, parked: QueueFacts) -> int | None:
        queue = SqsQueue(self._client("sqs"), parked.url)
        received = queue.receive(
            max_messages=PEEK_MESSAGES, wait_seconds=1, visibility_timeout_seconds=10
        )
        messages = [one for one in received if isinstance(one, Message)]
        queue.change_visibility([(one, 0) for one in messages])
        ours = {REPLAY_COUNT_ATTRIBUTE, CONTEXT_ATTRIBUTE}
        return max((len(one.attributes.keys() - ours) for one in messages), default=None)


def _variables(configuration: dict[str, Any]) -> dict[str, str]:
    return dict(configuration.get("Environment", {}).get("Variables", {}))


def _logs_of(key_arn: str) -> str:
    """Return the principal of CloudWatch Logs in a key's Region."""
    return _sqs_of(key_arn).replace("sqs.", "logs.", 1)


def _sqs_of(key_arn: str) -> str:
    """Return how KMS calls the SQS of a key's Region."""
    _, partition, _, region, *_ = key_arn.split(":")
    return f"sqs.{region}.amazonaws.com{'.cn' if partition == 'aws-cn' else ''}"
