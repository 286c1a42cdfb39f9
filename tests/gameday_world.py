"""An installation as the template makes it, in memory, on a virtual clock.

SQS is ``local_sqs``; the function is the real handler behind a simulated event source mapping. The
other services are as much of AWS as a game day asks for. Clients are boto3's own, so parameters are
checked against AWS's models.
"""

import contextlib
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ConnectionClosedError

from demo.event_source import interpret, to_event
from dlq_cli.gameday.joints import Joint, Name, Report, Verdict
from dlq_cli.gameday.run import Clock, prepare
from dlq_cli.stack.policies import ServiceCall
from functions.replay import handler
from local_sqs.clock import VirtualClock
from local_sqs.errors import SqsError
from local_sqs.front import AnswerLostError, Front
from local_sqs.model import SqsModel
from local_sqs.queues import Queue
from tests.contract.cloudformation import Stack
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import TEMPLATE, environment_of, event_of, statements_of
from tests.inline_executor import InlineExecutor

ACCOUNT = "123456789012"
REGION = "us-east-1"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:AlarmTopic"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
ROLES = {
    f"arn:aws:iam::{ACCOUNT}:role/replay": "ReplayRole",
    f"arn:aws:iam::{ACCOUNT}:role/job": "SparkJobRole",
}
FUNCTION_ARN = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:ReplayFunction"
METRIC_LAG_SECONDS = 75.0
LOG_LAG_SECONDS = 3.0
STARTED_MS = 1_795_000_000_000

DEFAULT_TOPIC_POLICY = {
    "Version": "2008-10-17",
    "Statement": [
        {
            "Sid": "__default_statement_ID",
            "Effect": "Allow",
            "Principal": {"AWS": "*"},
            "Action": ["SNS:GetTopicAttributes", "SNS:Publish", "SNS:Subscribe"],
            "Resource": TOPIC,
            "Condition": {"StringEquals": {"AWS:SourceOwner": ACCOUNT}},
        }
    ],
}
"""What SNS gives a topic that nobody gave a policy."""

ROOT_KEY_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
    ],
}
CLOUDWATCH_MAY_USE_KEY = {
    "Effect": "Allow",
    "Principal": {"Service": "cloudwatch.amazonaws.com"},
    "Action": ["kms:Decrypt", "kms:GenerateDataKey*"],
    "Resource": "*",
}

Parameters = Mapping[str, Any]


class Died(BaseException):
    """SIGKILL: nothing of the program runs any more."""


class RefusedError(Exception):
    """AWS refuses a call."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(code)
        self.code, self.text = code, text


class Wire:
    """Clients of one identity; what they ask is answered by the world of the running test."""

    def __init__(self) -> None:
        self.answer: Callable[[str, Parameters], Mapping[str, Any]] = lambda *_: {}
        self._session = boto3.Session(
            aws_access_key_id="testing", aws_secret_access_key="testing", region_name=REGION
        )
        self._session.events.register("before-parameter-build", self._keep)
        # What a handler of this event returns is the answer; its type says None.
        handle: Any = self._respond
        self._session.events.register("before-call", handle)
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._session.client(service)  # type: ignore[call-overload]
        return self._clients[service]

    @staticmethod
    def _keep(params: Parameters, context: dict[str, Any], **_: Any) -> None:
        context["asked"] = params

    def _respond(self, model: Any, context: Mapping[str, Any], **_: Any) -> tuple[Any, Any]:
        service = model.service_model.service_name
        try:
            answer = self.answer(f"{service}.{model.name}", context["asked"])
        except SqsError as error:
            return _http(error.status), _error(error.code, error.message)
        except RefusedError as error:
            return _http(400), _error(error.code, error.text)
        except AnswerLostError as error:
            raise ConnectionClosedError(endpoint_url="https://aws") from error
        return _http(200), {"ResponseMetadata": {"HTTPStatusCode": 200}, **answer}


def _http(status: int) -> Any:
    return SimpleNamespace(status_code=status)


def _error(code: str, text: str) -> dict[str, Any]:
    return {
        "Error": {"Code": code, "Message": text},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }


OPERATOR = Wire()
FUNCTION = Wire()


@dataclass(frozen=True)
class Made:
    """What the template makes of parameters."""

    resources: dict[str, dict[str, Any]]
    outputs: dict[str, dict[str, Any]]
    environment: dict[str, str]
    event: dict[str, Any]
    statements: dict[str, list[dict[str, Any]]]


@cache
def make(parameters: tuple[tuple[str, str], ...]) -> Made:
    """Resolve the template. It takes longer than a game day."""
    stack = Stack.of(TEMPLATE, dict(parameters))
    return Made(
        stack.resources,
        stack.outputs,
        environment_of(stack),
        event_of(stack),
        {role: statements_of(stack, role) for role in ROLES.values() if role in stack.resources},
    )


@dataclass
class Alarm:
    """An alarm of the template, and its state."""

    properties: dict[str, Any]
    state: str = "OK"
    reason: str = "no datapoints were received and missing data are treated as not breaching"
    history: list[tuple[float, dict[str, Any]]] = field(default_factory=list)


class World:
    """One installation.

    Attributes:
        front: the operator's way to SQS; ``function_front`` is the function's.
        consumer: what consumes the main queue: nobody, or a function that fails or handles.
        denied: what a role may not do, whatever the template says: role, action and resource.
        crashes: whether the function raises.
        calls: how many calls of the operator came so far; ``operations`` are their names.
        die_at: the call at which the operator's program is killed; None for never.
        dies_after: whether that call is carried out first.
        fail_at: the call that gets an error for an answer, and is or is not carried out.
        ahead_seconds: how much faster the operator's clock is than AWS's.
    """

    def __init__(self, *, is_fifo: bool = False, **parameters: str) -> None:
        given = {"CreateFailureTable": "false", "CreateSparkJob": "true", "CircuitBreaker": "false"}
        if is_fifo:
            given["QueueType"] = "fifo"
        self.made = make(tuple(sorted({**given, **parameters}.items())))
        self.clock = VirtualClock(STARTED_MS)
        self.model = SqsModel(self.clock, seed=1)
        self.front, self.function_front = Front(self.model), Front(self.model)
        resources = self.made.resources
        for name in ("ParkedQueue", "DeadLetterQueue", "MainQueue"):
            self._create(name, resources[name]["Properties"])
        self.parked, self.dlq, self.main = (
            self.queue(name) for name in ("ParkedQueue", "DeadLetterQueue", "MainQueue")
        )
        self.environment = dict(self.made.environment)
        self.timeout_seconds = int(resources["ReplayFunction"]["Properties"]["Timeout"])
        event = self.made.event
        self.mappings: list[dict[str, Any]] = [
            {
                "UUID": "mapping-1",
                "State": "Enabled" if event["Enabled"] else "Disabled",
                "EventSourceArn": self.dlq.arn,
                "FunctionArn": FUNCTION_ARN,
                "FunctionResponseTypes": list(event["FunctionResponseTypes"]),
                "LastProcessingResult": "No records processed",
            }
        ]
        self.recursive_loop = "Allow"
        self.concurrency: int | None = None
        self.alarms = {
            name: Alarm(dict(one["Properties"]))
            for name, one in resources.items()
            if one["Type"] == "AWS::CloudWatch::Alarm"
        }
        policies = [
            one["Properties"]["PolicyDocument"]
            for one in resources.values()
            if one["Type"] == "AWS::SNS::TopicPolicy"
        ]
        self.topic_policy: dict[str, Any] = policies[0] if policies else DEFAULT_TOPIC_POLICY
        self.topic_key = ""
        self.key_policy: dict[str, Any] = ROOT_KEY_POLICY
        self.subscribed, self.pending = 1, 0
        self.published: list[str] = []
        self.trigger_state = "ACTIVATED"
        self.runs: list[dict[str, Any]] = [{"Id": "jr_1", "JobRunState": "SUCCEEDED"}]
        self.consumer: str | None = None
        self.denied: set[tuple[str, str, str]] = set()
        self.crashes = False
        self.writes_log = True
        self.makes_metrics = True
        self.log: list[tuple[float, str]] = []
        self.metrics: list[tuple[float, str, str, float]] = []
        self.ahead_seconds = 0
        self.calls = 0
        self.operations: set[str] = set()
        self.die_at: int | None = None
        self.dies_after = False
        self.fail_at: int | None = None
        self.operator_denied: set[str] = set()

    # --- queues

    def _create(self, name: str, properties: Mapping[str, Any]) -> None:
        suffix = ".fifo" if properties.get("FifoQueue") else ""
        attributes = {
            key: json.dumps(value) if isinstance(value, dict) else str(value)
            for key, value in properties.items()
            if key not in {"FifoQueue", "SqsManagedSseEnabled"}
        }
        if suffix:
            attributes["FifoQueue"] = "true"
        self.model.create_queue(f"{name}{suffix}", attributes)

    def queue(self, name: str) -> Queue:
        return next(q for q in self.model.queues.values() if q.name.removesuffix(".fifo") == name)

    def set_queue(self, queue: Queue, **attributes: str) -> None:
        request = {"QueueUrl": self.model.url_of(queue), "Attributes": attributes}
        self.front.handle("SetQueueAttributes", request)

    def put(self, queue: Queue, *bodies: str, **more: Any) -> None:
        """Send real messages."""
        for body in bodies:
            request = {"QueueUrl": self.model.url_of(queue), "MessageBody": body, **more}
            if queue.name.endswith(".fifo"):
                group = hashlib.sha256(body.encode()).hexdigest()
                request |= {"MessageGroupId": group, "MessageDeduplicationId": group}
            self.front.handle("SendMessage", request)

    def bodies(self, queue: Queue) -> list[str]:
        """All that is in a queue, hidden or not."""
        return sorted(message.body for message in queue.messages())

    # --- time

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.time(), UTC)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, second by second; event sources poll meanwhile."""
        ends = self.clock.time() + seconds
        while self.clock.time() < ends:
            self.clock.advance(min(1.0, ends - self.clock.time()))
            self.deliver()

    def deliver(self) -> None:
        """Let each event source poll once."""
        for mapping in self.mappings:
            if mapping["State"] == "Enabled" and self.concurrency != 0:
                self._poll(mapping)
        if self.consumer:
            self._consume()

    def _poll(self, mapping: dict[str, Any]) -> None:
        name = mapping["EventSourceArn"].rpartition(":")[2]
        if name not in self.model.queues:
            return
        url = self.model.url_of(self.model.queues[name])
        try:
            messages = self._received(self.function_front, url)
        except SqsError as error:
            mapping["LastProcessingResult"] = f"PROBLEM: {error.code}"
            return
        if not messages:
            return
        ids = [one["MessageId"] for one in messages]
        try:
            answer = self._invoke(to_event(messages, mapping["EventSourceArn"]))
            left = interpret(answer, ids).failed
            mapping["LastProcessingResult"] = "OK"
        except Exception as error:  # noqa: BLE001 - a function may raise anything
            self._log_lines(f"[ERROR] {type(error).__name__}")
            left = frozenset(ids)
            mapping["LastProcessingResult"] = "PROBLEM: Function call failed"
        if not mapping["FunctionResponseTypes"]:
            left = frozenset()
        self._delete(self.function_front, url, messages, left)

    def _received(self, front: Front, url: str) -> Sequence[Mapping[str, Any]]:
        request = {
            "QueueUrl": url,
            "MaxNumberOfMessages": 10,
            "MessageAttributeNames": ["All"],
            "MessageSystemAttributeNames": ["All"],
        }
        return list(front.handle("ReceiveMessage", request).get("Messages", []))

    def _delete(
        self, front: Front, url: str, messages: Sequence[Mapping[str, Any]], left: frozenset[str]
    ) -> None:
        for one in messages:
            if one["MessageId"] not in left:
                request = {"QueueUrl": url, "ReceiptHandle": one["ReceiptHandle"]}
                front.handle("DeleteMessage", request)

    def _invoke(self, event: Mapping[str, Any]) -> object:
        context: Any = SimpleNamespace(get_remaining_time_in_millis=lambda: 30_000)
        if self.crashes:
            raise RuntimeError("no memory")
        log = io.StringIO()
        handler.logger.registered_handler.setStream(log)  # type: ignore[attr-defined]
        metrics = io.StringIO()
        try:
            with contextlib.redirect_stdout(metrics):
                return handler.lambda_handler(event, context)
        finally:
            if self.writes_log:
                self._log_lines(*log.getvalue().splitlines())
                self._make_metrics(metrics.getvalue().splitlines())

    def _log_lines(self, *lines: str) -> None:
        self.log += [(self.clock.time() + LOG_LAG_SECONDS, line) for line in lines]

    def _make_metrics(self, lines: Sequence[str]) -> None:
        """What CloudWatch makes of lines in the embedded metric format."""
        for line in map(json.loads, lines) if self.makes_metrics else ():
            for metric in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]:
                values = line[metric["Name"]]
                row = (metric["Name"], line["MainQueue"], float(sum(values)))
                self.metrics.append((self.clock.time(), *row))

    def _consume(self) -> None:
        url = self.model.url_of(self.main)
        messages = self._received(self.front, url)
        failed = {one["MessageId"] for one in messages if self.consumer == "fails"}
        self._delete(self.front, url, messages, frozenset(failed))

    # --- what clients ask

    def of_operator(self, operation: str, asked: Parameters) -> Mapping[str, Any]:
        self.calls += 1
        self.operations.add(operation)
        is_last = self.die_at is not None and self.calls >= self.die_at
        carries_on = is_last and self.dies_after and self.calls == self.die_at
        if is_last and not carries_on:
            raise Died
        if operation in self.operator_denied:
            raise RefusedError("AccessDenied", "you may not")
        if self.calls == self.fail_at and not self.dies_after:
            raise AnswerLostError(is_timeout=False)
        answer = self._answer(operation, asked)
        if is_last:
            raise Died
        if self.calls == self.fail_at:
            raise AnswerLostError(is_timeout=False)
        return answer

    def _answer(self, operation: str, asked: Parameters) -> Mapping[str, Any]:
        service, _, name = operation.partition(".")
        if service == "sqs":
            return self.front.handle(name, asked)
        answer: Callable[[Parameters], Mapping[str, Any]] = getattr(self, f"{service}_{name}")
        return answer(asked)

    def of_function(self, operation: str, asked: Parameters) -> Mapping[str, Any]:
        return self.function_front.handle(operation.partition(".")[2], asked)

    def cloudformation_DescribeStacks(self, asked: Parameters) -> Mapping[str, Any]:  # noqa: N802
        given = {name: one["Value"] for name, one in self.made.outputs.items()}
        outputs = {
            **given,
            "ReplayFunctionArn": FUNCTION_ARN,
            "MainQueueUrl": self.environment["MAIN_QUEUE_URL"],
        }
        pairs = [{"OutputKey": key, "OutputValue": str(one)} for key, one in outputs.items()]
        stack = {"StackName": asked["StackName"], "StackStatus": "CREATE_COMPLETE"}
        return {"Stacks": [{**stack, "Outputs": pairs}]}

    def cloudformation_ListStackResources(self, _: Parameters) -> Mapping[str, Any]:  # noqa: N802
        kind = "AWS::CloudWatch::Alarm"
        rows = [{"ResourceType": kind, "PhysicalResourceId": name} for name in self.alarms]
        return {"StackResourceSummaries": rows}

    def lambda_GetFunctionConfiguration(self, _: Parameters) -> Mapping[str, Any]:  # noqa: N802
        return {
            "FunctionName": "ReplayFunction",
            "Timeout": self.timeout_seconds,
            "Role": next(iter(ROLES)),
            "Environment": {"Variables": self.environment},
            "LoggingConfig": {"LogGroup": "ReplayLogGroup"},
        }

    def lambda_ListEventSourceMappings(self, asked: Parameters) -> Mapping[str, Any]:  # noqa: N802
        return {"EventSourceMappings": [] if "EventSourceArn" in asked else self.mappings}

    def lambda_GetFunctionRecursionConfig(self, _: Parameters) -> Mapping[str, Any]:  # noqa: N802
        return {"RecursiveLoop": self.recursive_loop}

    def lambda_GetFunctionConcurrency(self, _: Parameters) -> Mapping[str, Any]:  # noqa: N802
        return {} if self.concurrency is None else {"ReservedConcurrentExecutions": 0}

    def pipes_ListPipes(self, _: Parameters) -> Mapping[str, Any]:  # noqa: N802
        return {"Pipes": []}

    def kms_DescribeKey(self, asked: Parameters) -> Mapping[str, Any]:  # noqa: N802
        return {"KeyMetadata": {"Arn": asked["KeyId"], "KeyId": asked["KeyId"]}}

    def kms_GetKeyPolicy(self, _: Parameters) -> Mapping[str, Any]:  # noqa: N802
        return {"Policy": json.dumps(self.key_policy)}

    def iam_SimulatePrincipalPolicy(self, asked: Parameters) -> Mapping[str, Any]:  # noqa: N802
        role = ROLES[asked["PolicySourceArn"]]
        statements = self.made.statements[role]
        context = {
            one["ContextKeyName"]: one["ContextKeyValues"][0] for one in asked["ContextEntries"]
        }
        [resource] = asked["ResourceArns"]
        results = []
        for action in asked["ActionNames"]:
            may = (role, action, resource) not in self.denied
            may = may and is_allowed(Call(action, resource, context), statements)
            decision = "allowed" if may else "implicitDeny"
            results.append({"EvalActionName": action, "EvalDecision": decision})
        return {"EvaluationResults": results}

    def logs_FilterLogEvents(self, asked: Parameters) -> Mapping[str, Any]:  # noqa: N802
        assert asked["logGroupName"] == "ReplayLogGroup"
        term = asked["filterPattern"].strip('"')
        events = [
            {"message": line, "timestamp": int(at * 1000)}
            for at, line in self.log
            if term in line and at <= self.clock.time() and at * 1000 >= asked["startTime"]
        ]
        return {"events": events}

    def cloudwatch_GetMetricStatistics(self, asked: Parameters) -> Mapping[str, Any]:  # noqa: N802
        dimensions = {one["Name"]: one["Value"] for one in asked["Dimensions"]}
        since = asked["StartTime"].timestamp()
        # A datapoint has the time at which its minute begins.
        values = [
            value
            for at, name, main, value in self.metrics
            if (name, main) == (asked["MetricName"], dimensions.get("MainQueue"))
            and since <= at - at % 60
            and at + METRIC_LAG_SECONDS <= self.clock.time()
        ]
        return {"Datapoints": [{"Sum": sum(values), "Timestamp": self.now}] if values else []}

    def cloudwatch_DescribeAlarms(self, asked: Parameters) -> Mapping[str, Any]:  # noqa: N802
        names = asked.get("AlarmNames", self.alarms)
        rows = []
        for name in names:
            alarm = self.alarms[name]
            start = (self.now - timedelta(minutes=5)).isoformat()
            rows.append(
                {
                    "AlarmName": name,
                    "AlarmArn": f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{name}",
                    "StateValue": alarm.state,
                    "StateReason": alarm.reason,
                    "StateReasonData": json.dumps({"startDate": start}),
                    "ActionsEnabled": True,
                    **alarm.properties,
                }
            )
        return {"MetricAlarms": rows}

    def cloudwatch_DescribeAlarmHistory(self, asked: Parameters) -> Mapping[str, Any]:  # noqa: N802
        assert asked["HistoryItemType"] == "Action"
        history = self.alarms[asked["AlarmName"]].history
        return {
            "AlarmHistoryItems": [
                {"Timestamp": datetime.fromtimestamp(at, UTC), "HistoryData": json.dumps(data)}
                for at, data in reversed(history)
                if asked["StartDate"].timestamp() <= at <= asked["EndDate"].timestamp()
            ]
        }

    def cloudwatch_SetAlarmState(self, asked: Parameters) -> Mapping[str, Any]:  # noqa: N802
        self.change_state(asked["AlarmName"], asked["StateValue"], asked["StateReason"])
        return {}

    def change_state(self, name: str, state: str, reason: str) -> None:
        alarm = self.alarms[name]
        is_ringing = state == "ALARM" != alarm.state
        alarm.state, alarm.reason = state, reason
        if is_ringing and alarm.properties.get("ActionsEnabled", True):
            arn = f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{name}"
            publish = ServiceCall("cloudwatch.amazonaws.com", "sns:Publish", ACCOUNT, arn)
            data = {"actionState": "Succeeded", "notificationResource": TOPIC}
            if publish.is_allowed(json.dumps(self.topic_policy)):
                self.published.append(name)
            else:
                data |= {"actionState": "Failed", "error": "not authorized: SNS:Publish"}
            alarm.history.append((self.clock.time(), data))

    def sns_GetTopicAttributes(self, _: Parameters) -> Mapping[str, Any]:  # noqa: N802
        key = {"KmsMasterKeyId": self.topic_key} if self.topic_key else {}
        return {
            "Attributes": {
                "Policy": json.dumps(self.topic_policy),
                "SubscriptionsConfirmed": str(self.subscribed),
                "SubscriptionsPending": str(self.pending),
                **key,
            }
        }

    def glue_GetJob(self, asked: Parameters) -> Mapping[str, Any]:  # noqa: N802
        return {"Job": {"Name": asked["JobName"], "Role": list(ROLES)[1]}}

    def glue_GetTriggers(self, _: Parameters) -> Mapping[str, Any]:  # noqa: N802
        trigger = {"Name": "SparkJobTrigger", "Type": "SCHEDULED", "State": self.trigger_state}
        return {"Triggers": [trigger]}

    def glue_GetJobRuns(self, _: Parameters) -> Mapping[str, Any]:  # noqa: N802
        return {"JobRuns": self.runs}

    # --- what a test does

    def game_day(self, *, through_consumer: bool = False, ring: bool = False) -> Report:
        """Run one, as the verb does."""
        session: Any = OPERATOR
        ahead = timedelta(seconds=self.ahead_seconds)
        clock = Clock(lambda: self.now + ahead, self.pass_time)
        day = prepare(session, "stack", clock, through_consumer=through_consumer, ring=ring)
        self.joints: list[Joint] = []
        return day.run(self.joints.append)

    def dies(self, at: int, *, after: bool = False) -> None:
        """Have the operator's program killed at its *at*-th call from now on."""
        self.die_at, self.dies_after = self.calls + at, after

    def lives(self) -> None:
        """Nothing is killed and nothing fails any more."""
        self.die_at = self.fail_at = None
        self.dies_after = False


@contextlib.contextmanager
def running(world: World) -> Iterator[World]:
    """Have all clients and the function work in *world* until the block ends."""
    OPERATOR.answer, FUNCTION.answer = world.of_operator, world.of_function
    with pytest.MonkeyPatch.context() as patch:
        for name, value in world.environment.items():
            patch.setenv(name, value)
        patch.setattr(handler, "sqs_client", lambda _: FUNCTION.client("sqs"))
        patch.setattr(handler, "_now_seconds", lambda: int(world.clock.time()))
        patch.setattr(handler, "DeadlineExecutor", lambda *_, **__: InlineExecutor())
        stream = handler.logger.registered_handler.stream  # type: ignore[attr-defined]
        handler.wired_replayer.cache_clear()
        try:
            yield world
        finally:
            handler.logger.registered_handler.setStream(stream)  # type: ignore[attr-defined]
            handler.wired_replayer.cache_clear()


REAL_PARKED = ["order 1", "order 2", '{"gameday": "20261122T203000Z-0123abcd"}']
REAL_WAITING = ["order 3", "order 4"]
REAL_DEAD = ["order 5", "order 6"]


def busy(*, is_fifo: bool = False, **parameters: str) -> contextlib.AbstractContextManager[World]:
    """An installation with real messages in its queues."""
    world = World(is_fifo=is_fifo, **parameters)
    world.put(world.parked, *REAL_PARKED)
    world.put(world.main, *REAL_WAITING)
    return running(world)


def real_messages_are_untouched(world: World) -> None:
    """They are all there; those that were received are visible again after the 10 s."""
    world.lives()
    world.clock.advance(11)
    assert set(REAL_PARKED) <= set(world.bodies(world.parked))
    assert set(REAL_WAITING) <= set(world.bodies(world.main))
    assert hidden_in(world, world.parked) == 0


def hidden_in(world: World, queue: Queue) -> int:
    request = {"QueueUrl": world.model.url_of(queue), "AttributeNames": ["All"]}
    counts = world.front.handle("GetQueueAttributes", request)["Attributes"]
    return int(counts["ApproximateNumberOfMessagesNotVisible"])


def where_tests_are(world: World) -> list[str]:
    """Where test messages are: the name of the queue of each."""
    queues = (world.parked, world.dlq, world.main)
    real = {*REAL_PARKED, *REAL_WAITING, *REAL_DEAD}
    return [queue.name for queue in queues for body in world.bodies(queue) if body not in real]


def verdicts(report: Report) -> dict[Name, Verdict]:
    return {joint.name: joint.verdict for joint in report.joints}


def nothing_failed(report: Report) -> None:
    assert [one for one in report.joints if one.verdict is not Verdict.PASSED] == []


# --- healthy
