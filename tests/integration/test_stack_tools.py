"""The operator's tools on an installation in moto: as much of it as moto has."""

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from dlq_replay.stack.__main__ import main

REGION = "us-east-1"
DAY = 86_400


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    boto3.client("sqs", region_name=REGION).list_queues()
    _reset(host, port)
    yield f"http://{host}:{port}"
    server.stop()


def _reset(host: str, port: int) -> None:
    from urllib.request import Request, urlopen  # noqa: PLC0415 - once

    urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST"))


def client(name: str) -> Any:
    return boto3.client(name, region_name=REGION)  # type: ignore[call-overload]


def make_queue(name: str, target_arn: str | None = None, count: int = 5, **more: str) -> str:
    policy = {"deadLetterTargetArn": target_arn, "maxReceiveCount": count}
    redrive = {"RedrivePolicy": json.dumps(policy)} if target_arn else {}
    attributes = {"MessageRetentionPeriod": str(14 * DAY), "VisibilityTimeout": "180", **more}
    made = client("sqs").create_queue(QueueName=name, Attributes={**attributes, **redrive})
    return str(made["QueueUrl"])


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:123456789012:{name}"


def code() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("handler.py", "")
    return content.getvalue()


@pytest.fixture
def stack(endpoint: str) -> str:
    parked = make_queue("parked")
    dlq = make_queue("dlq", arn("parked"), 1000)
    main_queue = make_queue("main", arn("dlq"), MessageRetentionPeriod=str(4 * DAY))
    trust = {"Version": "2012-10-17", "Statement": []}
    role = client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(trust))
    function = client("lambda").create_function(
        FunctionName="replay",
        Runtime="python3.13",
        Role=role["Role"]["Arn"],
        Handler="handler.lambda_handler",
        Code={"ZipFile": code()},
        Timeout=30,
        Environment={
            "Variables": {
                "MAIN_QUEUE_URL": main_queue,
                "DLQ_URL": dlq,
                "PARKED_QUEUE_URL": parked,
                "MAX_ATTEMPTS": "5",
                "BACKOFF_RATE": "10",
                "BACKOFF_CAP_SECONDS": "900",
            }
        },
    )
    client("lambda").create_event_source_mapping(
        FunctionName="replay",
        EventSourceArn=arn("dlq"),
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )
    output = {"ReplayFunctionArn": {"Value": function["FunctionArn"]}}
    topic = {"T": {"Type": "AWS::SNS::Topic", "Properties": {}}}
    template = json.dumps({"Resources": topic, "Outputs": output})
    client("cloudformation").create_stack(StackName="replay-stack", TemplateBody=template)
    return "replay-stack"


def run(*argv: str) -> int:
    return main([*argv, "--region", REGION])


def test_the_doctor_finds_nothing_broken(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", stack) == 0
    out = capsys.readouterr().out
    assert "replay: main, dlq, parked\n" in out
    assert "risk " not in out


def test_the_doctor_says_what_to_change(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    client("sqs").set_queue_attributes(
        QueueUrl=client("sqs").get_queue_url(QueueName="dlq")["QueueUrl"],
        Attributes={"VisibilityTimeout": "10"},
    )
    make_queue("invoices", arn("dlq"))

    assert run("doctor", stack) == 1
    out = capsys.readouterr().out
    assert "broken   dlq: VisibilityTimeout is 10 s" in out
    assert "to do: set it to 180 s" in out
    assert "risk     dlq: also takes the dead letters of invoices" in out


def test_the_doctors_look_leaves_parked_messages_as_they_were(stack: str) -> None:
    sqs = client("sqs")
    url = sqs.get_queue_url(QueueName="parked")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="b")

    run("doctor", stack)

    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert message["Body"] == "b"


def test_pause_and_resume(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    def state() -> str:
        (mapping,) = client("lambda").list_event_source_mappings()["EventSourceMappings"]
        return str(mapping["State"])

    assert run("pause", stack) == 0
    assert state() == "Disabled"
    assert "retention goes on" in capsys.readouterr().out
    assert run("resume", stack) == 0
    assert state() == "Enabled"


@pytest.mark.parametrize("verb", ["doctor", "pause", "resume"])
def test_a_stack_that_is_not_there_is_one_sentence(
    endpoint: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(verb, "nobody") == 2
    assert "stack nobody" in capsys.readouterr().err
