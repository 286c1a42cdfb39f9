"""Real boto3 clients of each protocol against the endpoint of a rehearsal."""

import base64
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from dlq_cli.rehearse.aws_answers import Answer
from dlq_cli.rehearse.aws_requests import Call, Request, _metadata, service_model
from dlq_cli.rehearse.endpoint import Endpoint, require_allowed
from dlq_cli.rehearse.inside import Front
from dlq_cli.rehearse.stubs import Stub, read_stubs
from spark_reprocess.errors import InputError


class Direct:
    """A channel without a sandbox between front and endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def ask(self, call: dict[str, Any]) -> dict[str, Any]:
        headers = {name.lower(): value for name, value in call["headers"]}
        body = base64.b64decode(call["body"])
        request = Request(call["method"], call["path"], headers, body)
        return self._endpoint.answer(request).to_line()


def no_forward(request: Request, call: Call) -> Answer:
    raise AssertionError(call.name)


Clients = Callable[..., Any]


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint((), (), no_forward)


@pytest.fixture
def client(endpoint: Endpoint) -> Iterator[Clients]:
    front = Front(Direct(endpoint))  # type: ignore[arg-type]
    thread = threading.Thread(target=partial(front.serve_forever, poll_interval=0.01))
    thread.start()
    url = f"http://127.0.0.1:{front.server_address[1]}"

    def make(service: str) -> Any:
        config = Config(retries={"total_max_attempts": 1})
        make_client: Any = boto3.client
        return make_client(service, endpoint_url=url, region_name="eu-west-1", config=config)

    yield make
    front.shutdown()
    thread.join()
    front.server_close()


def written(endpoint: Endpoint) -> dict[str, int]:
    traffic = endpoint.take_traffic()
    assert not traffic.missing
    return dict(traffic.written)


def test_writes_of_each_protocol_succeed_and_are_recorded(
    client: Clients, endpoint: Endpoint
) -> None:
    client("dynamodb").put_item(TableName="t", Item={"id": {"S": "1"}})
    client("dynamodb").update_item(TableName="t", Key={"id": {"S": "1"}})
    client("sqs").send_message(QueueUrl="https://sqs/1/q", MessageBody="x")
    client("sns").publish(TopicArn="arn:aws:sns:eu-west-1:1:t", Message="x")
    client("s3").put_object(Bucket="b", Key="a/b c", Body=b"x" * 10_000)
    client("s3").upload_part(Bucket="b", Key="k", PartNumber=1, UploadId="u", Body=b"x")
    client("lambda").invoke(FunctionName="f", InvocationType="Event", Payload=b"{}")
    client("cloudwatch").put_metric_data(
        Namespace="n", MetricData=[{"MetricName": "m", "Value": 1.5}]
    )
    client("ec2").create_tags(Resources=["i-1"], Tags=[{"Key": "k", "Value": "v"}])
    client("events").put_events(Entries=[{"Source": "s", "DetailType": "d", "Detail": "{}"}])
    client("stepfunctions").start_execution(stateMachineArn="arn:aws:states:eu-west-1:1:x:y")
    client("kinesis").put_record(StreamName="s", Data=b"x", PartitionKey="1")

    assert written(endpoint) == dict.fromkeys(
        (
            *("dynamodb:PutItem", "dynamodb:UpdateItem", "sqs:SendMessage", "sns:Publish"),
            *("s3:PutObject", "s3:UploadPart", "lambda:Invoke", "cloudwatch:PutMetricData"),
            *("ec2:CreateTags", "events:PutEvents", "stepfunctions:StartExecution"),
            "kinesis:PutRecord",
        ),
        1,
    )


def test_empty_success_has_what_callers_look_at(client: Clients, endpoint: Endpoint) -> None:
    sent = client("sqs").send_message(QueueUrl="https://sqs/1/q", MessageBody="x")
    entries = [{"Id": one, "MessageBody": "x"} for one in "ab"]
    batch = client("sqs").send_message_batch(QueueUrl="https://sqs/1/q", Entries=entries)
    topic = [{"Id": one, "Message": "x"} for one in "ab"]
    published = client("sns").publish_batch(
        TopicArn="arn:aws:sns:eu-west-1:1:t", PublishBatchRequestEntries=topic
    )
    items = client("dynamodb").batch_write_item(
        RequestItems={"t": [{"DeleteRequest": {"Key": {"id": {"S": "1"}}}}]}
    )
    events = client("events").put_events(
        Entries=[{"Source": "s", "DetailType": "d", "Detail": "{}"}]
    )
    invoked = client("lambda").invoke(FunctionName="f", InvocationType="Event")

    assert sent["MessageId"] == "rehearsal-MessageId"
    assert [one["Id"] for one in batch["Successful"]] == ["a", "b"]
    assert batch["Failed"] == []
    assert published.get("Failed", []) == []
    assert items["UnprocessedItems"] == {}
    assert events["FailedEntryCount"] == 0
    assert invoked["StatusCode"] // 100 == 2
    assert "FunctionError" not in invoked


@pytest.mark.parametrize(
    ("service", "method", "parameters", "name"),
    [
        ("dynamodb", "get_item", {"TableName": "t", "Key": {"id": {"S": "1"}}}, "GetItem"),
        ("sqs", "receive_message", {"QueueUrl": "https://sqs/1/q"}, "ReceiveMessage"),
        ("sts", "get_caller_identity", {}, "GetCallerIdentity"),
        ("s3", "get_object", {"Bucket": "b", "Key": "k"}, "GetObject"),
        ("s3", "list_objects_v2", {"Bucket": "b"}, "ListObjectsV2"),
        ("s3", "head_object", {"Bucket": "b", "Key": "k"}, "HeadObject"),
        ("lambda", "invoke", {"FunctionName": "f"}, "Invoke"),
        ("cloudwatch", "list_metrics", {}, "ListMetrics"),
        ("ec2", "describe_instances", {}, "DescribeInstances"),
        ("ssm", "get_parameter", {"Name": "/a"}, "GetParameter"),
        ("kms", "decrypt", {"CiphertextBlob": b"x"}, "Decrypt"),
        ("sns", "list_topics", {}, "ListTopics"),
    ],
)
def test_read_that_is_not_stubbed_fails_and_is_missing(
    client: Clients,
    endpoint: Endpoint,
    service: str,
    method: str,
    parameters: dict[str, Any],
    name: str,
) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(client(service), method)(**parameters)

    # HEAD has no body that could say more.
    assert caught.value.response["Error"]["Code"] in ("RehearsalNotStubbed", "403")
    traffic = endpoint.take_traffic()
    assert list(traffic.missing) == [f"{service}:{name} is not stubbed"]
    assert not traffic.written


def test_write_that_asks_for_data_is_a_read(client: Clients, endpoint: Endpoint) -> None:
    with pytest.raises(ClientError):
        client("dynamodb").update_item(
            TableName="t", Key={"id": {"S": "1"}}, ReturnValues="ALL_NEW"
        )

    assert list(endpoint.take_traffic().missing) == ["dynamodb:UpdateItem is not stubbed"]


STUBS = """\
- call: dynamodb:GetItem
  match: {Key: {id: {S: a}}}
  answer: {Item: {id: {S: a}, n: {N: "1"}}}
- call: dynamodb:GetItem
  answer: {}
- call: dynamodb:PutItem
  match: {TableName: locks}
  error: {code: ConditionalCheckFailedException, message: is there}
- call: s3:GetObject
  match: {Bucket: b, Key: a/b}
  answer: {Body: "hello", ContentType: text/plain, Metadata: {k: v}}
- call: s3:ListObjectsV2
  answer: {KeyCount: 1, Contents: [{Key: a, Size: 3, LastModified: 2026-01-01T00:00:00Z}]}
- call: sts:GetCallerIdentity
  answer: {Account: "123456789012", Arn: "arn:x", UserId: u}
- call: sns:ListTopics
  answer: {Topics: [{TopicArn: one}, {TopicArn: two}]}
- call: sqs:ReceiveMessage
  answer: {Messages: [{MessageId: m, Body: b, Attributes: {SentTimestamp: "1"}}]}
- call: lambda:Invoke
  match: {FunctionName: f}
  answer: {StatusCode: 200, Payload: '{"ok": true}'}
- call: cloudwatch:ListMetrics
  answer: {Metrics: [{Namespace: n, MetricName: m}]}
- call: ec2:DescribeInstances
  match: {InstanceIds: [i-1]}
  answer: {Reservations: [{ReservationId: r, Instances: [{InstanceId: i-1}]}]}
- call: secretsmanager:GetSecretValue
  match: {SecretId: s}
  answer: {SecretString: hush, CreatedDate: 2026-01-01T00:00:00Z}
- call: cloudwatch:DescribeAlarms
  error: {code: InternalServiceFault, message: no, status: 500}
- call: sns:GetTopicAttributes
  error: {code: NotFound, message: none, status: 404}
- call: ec2:DescribeVolumes
  error: {code: InvalidVolume.NotFound, message: none}
- call: s3:GetBucketTagging
  error: {code: NoSuchTagSet, message: none, status: 404}
"""


def test_stubs_answer_in_each_protocol(client: Clients, endpoint: Endpoint) -> None:
    endpoint.stubs = read_stubs(STUBS, "stubs.yaml")
    table = client("dynamodb")

    assert table.get_item(TableName="t", Key={"id": {"S": "a"}})["Item"]["n"] == {"N": "1"}
    assert "Item" not in table.get_item(TableName="t", Key={"id": {"S": "b"}})
    found = client("s3").get_object(Bucket="b", Key="a/b")
    assert (found["Body"].read(), found["Metadata"]) == (b"hello", {"k": "v"})
    assert client("s3").list_objects_v2(Bucket="b")["Contents"][0]["Size"] == 3
    assert client("sts").get_caller_identity()["Account"] == "123456789012"
    topics = client("sns").list_topics()["Topics"]
    assert [one["TopicArn"] for one in topics] == ["one", "two"]
    received = client("sqs").receive_message(QueueUrl="https://sqs/1/q")["Messages"]
    assert received[0]["Attributes"] == {"SentTimestamp": "1"}
    assert client("lambda").invoke(FunctionName="f")["Payload"].read() == b'{"ok": true}'
    assert client("cloudwatch").list_metrics()["Metrics"][0]["MetricName"] == "m"
    instances = client("ec2").describe_instances(InstanceIds=["i-1"])["Reservations"]
    assert instances[0]["Instances"][0]["InstanceId"] == "i-1"
    secret = client("secretsmanager").get_secret_value(SecretId="s")
    assert (secret["SecretString"], secret["CreatedDate"].year) == ("hush", 2026)
    assert not endpoint.take_traffic().missing


@pytest.mark.parametrize(
    ("service", "method", "parameters", "code"),
    [
        (
            *("dynamodb", "put_item", {"TableName": "locks", "Item": {"id": {"S": "1"}}}),
            "ConditionalCheckFailedException",
        ),
        ("cloudwatch", "describe_alarms", {}, "InternalServiceFault"),
        ("sns", "get_topic_attributes", {"TopicArn": "t"}, "NotFound"),
        ("ec2", "describe_volumes", {}, "InvalidVolume.NotFound"),
        ("s3", "get_bucket_tagging", {"Bucket": "b"}, "NoSuchTagSet"),
    ],
)
def test_stubs_answer_with_errors_in_each_protocol(
    client: Clients,
    endpoint: Endpoint,
    service: str,
    method: str,
    parameters: dict[str, Any],
    code: str,
) -> None:
    endpoint.stubs = read_stubs(STUBS, "stubs.yaml")

    with pytest.raises(ClientError) as caught:
        getattr(client(service), method)(**parameters)

    assert caught.value.response["Error"]["Code"] == code
    assert not endpoint.take_traffic().missing


def test_stub_that_matches_other_parameters_does_not_answer(
    client: Clients, endpoint: Endpoint
) -> None:
    endpoint.stubs = (Stub("s3:GetObject", {"Key": "k"}, {"Body": "x"}),)

    with pytest.raises(ClientError):
        client("s3").get_object(Bucket="b", Key="other")

    assert list(endpoint.take_traffic().missing) == ["s3:GetObject is not stubbed"]


def test_faults_of_a_stub_file_are_all_named() -> None:
    text = """\
- call: dynamodb:GetItem
  answer: {Items: []}
- call: dynamo:GetItem
  answer: {}
- call: dynamodb:GetThing
  answer: {}
- call: dynamodb:GetItem
- call: sqs:ReceiveMessage
  answer: {Messages: 1}
- call: sqs:ReceiveMessage
  error: {message: x}
- call: sqs:ReceiveMessage
  answers: {}
- 1
"""
    with pytest.raises(InputError) as caught:
        read_stubs(text, "stubs.yaml")

    lines = str(caught.value).splitlines()
    assert lines[0] == "--stub stubs.yaml: has faults"
    assert [line.split(":")[0].strip() for line in lines[1:]] == [f"stub {n}" for n in range(1, 9)]
    assert "no field Items" in lines[1]
    assert "Invalid type" in lines[5]


def test_request_of_no_model_is_missing(client: Clients, endpoint: Endpoint) -> None:
    answer = endpoint.answer(Request("POST", "/nothing", {}, b"body"))

    assert answer.status == 501
    assert list(endpoint.take_traffic().missing) == ["POST request that is no known AWS call"]


def test_allowed_read_is_forwarded_and_no_other(client: Clients, endpoint: Endpoint) -> None:
    forwarded: list[str] = []

    def forward(request: Request, call: Call) -> Answer:
        forwarded.append(call.name)
        headers = {"Content-Type": "application/x-amz-json-1.0"}
        return Answer(200, headers, b'{"Item": {"id": {"S": "real"}}}')

    endpoint.allowed, endpoint.forward = ["dynamodb:GetItem"], forward
    table = client("dynamodb")

    assert table.get_item(TableName="t", Key={})["Item"] == {"id": {"S": "real"}}
    table.put_item(TableName="t", Item={})
    with pytest.raises(ClientError):
        table.query(TableName="t")

    assert forwarded == ["dynamodb:GetItem"]


@pytest.mark.parametrize(
    "name",
    [
        *("dynamodb:PutItem", "sqs:SendMessage", "sqs:ReceiveMessage", "lambda:Invoke"),
        *("sts:AssumeRole", "dynamodb:ExecuteStatement", "s3:DeleteObject"),
    ],
)
def test_what_may_change_something_cannot_be_allowed(name: str) -> None:
    with pytest.raises(ValueError, match="may change something"):
        require_allowed(name)


def test_the_head_of_each_model_says_what_the_model_says() -> None:
    for name in ("dynamodb", "ec2", "s3", "sqs", "stepfunctions"):
        assert _metadata(name) == service_model(name).metadata
