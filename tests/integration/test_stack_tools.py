"""The operator's tools on an installation in moto, and on answers of ours where moto has none."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from moto.server import ThreadedMotoServer

from dlq_cli.__main__ import main
from dlq_cli.stack.trigger import switch
from spark_reprocess.errors import InputError
from tests.contract.cloudformation import Stack
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import KEYS, TEMPLATE, statements_of

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
    make_stack(
        "replay-stack",
        ReplayFunctionArn=function["FunctionArn"],
        MainQueueUrl=main_queue,
        ParkedQueueArn=arn("parked"),
        ArchiveUri="s3://dead-letters/archive",
        FailureTableName="failures",
        SparkJobName="redrive",
    )
    return "replay-stack"


def make_stack(name: str, **outputs: str) -> None:
    topic = {"T": {"Type": "AWS::SNS::Topic", "Properties": {}}}
    values = {output: {"Value": value} for output, value in outputs.items()}
    template = json.dumps({"Resources": topic, "Outputs": values})
    client("cloudformation").create_stack(StackName=name, TemplateBody=template)


def run(*argv: str) -> int:
    return main([*argv, "--region", REGION])


Answer = Callable[[str], tuple[str, str]]
"""A content type and a text for a request's body."""


def session_answering(answers: Mapping[str, Answer], **options: Any) -> boto3.session.Session:
    """Make a session whose calls of some operations, ``service.Operation``, never leave it."""
    session = boto3.session.Session(**options)

    def respond(answer: Answer, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        body = request.body or ""
        kind, text = answer(body.decode() if isinstance(body, bytes) else str(body))
        raw = io.BytesIO(text.encode())
        raw.stream = lambda *_, **__: iter([raw.read()])  # type: ignore[attr-defined]
        return AWSResponse(request.url, 200, {"Content-Type": kind}, raw)  # type: ignore[arg-type]

    for operation, answer in answers.items():
        # What a handler of this event returns is the response; its type says None.
        handler: Any = partial(respond, answer)
        session.events.register(f"before-send.{operation}", handler)
    return session


def run_answering(answers: Mapping[str, Answer], *argv: str) -> int:
    return main([*argv, "--region", REGION], partial(session_answering, answers))


def simulating(statements: list[dict[str, Any]]) -> Answer:
    """IAM's simulator over a role's statements."""

    def answer(body: str) -> tuple[str, str]:
        asked = {name: values[0] for name, values in parse_qs(body).items()}
        entry = "ContextEntries.member.1.ContextKey"
        context = {asked[f"{entry}Name"]: asked[f"{entry}Values.member.1"]}
        resource = asked["ResourceArns.member.1"]
        actions = [name for key, name in asked.items() if key.startswith("ActionNames.")]
        results = "".join(
            f"<member><EvalActionName>{action}</EvalActionName><EvalDecision>"
            f"{'allowed' if is_allowed(Call(action, resource, context), statements) else 'denied'}"
            "</EvalDecision></member>"
            for action in actions
        )
        return "text/xml", (
            "<SimulatePrincipalPolicyResponse><SimulatePrincipalPolicyResult><EvaluationResults>"
            f"{results}</EvaluationResults></SimulatePrincipalPolicyResult>"
            "</SimulatePrincipalPolicyResponse>"
        )

    return answer


def test_the_doctor_finds_nothing_broken(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--stack", stack) == 0
    out = capsys.readouterr().out
    assert "replay: main, dlq, parked\n" in out
    assert "risk " not in out


def test_the_doctor_says_what_to_change(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    client("sqs").set_queue_attributes(
        QueueUrl=client("sqs").get_queue_url(QueueName="dlq")["QueueUrl"],
        Attributes={"VisibilityTimeout": "10"},
    )
    make_queue("invoices", arn("dlq"))

    assert run("doctor", "--stack", stack) == 1
    out = capsys.readouterr().out
    assert "broken   dlq: VisibilityTimeout is 10 s" in out
    assert "to do: set it to 180 s" in out
    assert "risk     dlq: also takes the dead letters of invoices" in out


def test_the_doctors_look_leaves_parked_messages_as_they_were(stack: str) -> None:
    sqs = client("sqs")
    url = sqs.get_queue_url(QueueName="parked")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="b")

    run("doctor", "--stack", stack)

    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert message["Body"] == "b"


@pytest.mark.parametrize("given", ["MainQueueKmsKeyArn", None])
def test_the_doctor_finds_a_key_that_the_template_s_role_may_not_use(
    stack: str, given: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    key = client("kms").create_key()["KeyMetadata"]["Arn"]
    client("sqs").set_queue_attributes(
        QueueUrl=client("sqs").get_queue_url(QueueName="main")["QueueUrl"],
        Attributes={"KmsMasterKeyId": key},
    )
    role = Stack.of(TEMPLATE, {given: key} if given else {"DLQKmsKeyArn": KEYS["DLQKmsKeyArn"]})
    answers = {"iam.SimulatePrincipalPolicy": simulating(statements_of(role))}

    exit_code = run_answering(answers, "doctor", "--stack", stack)

    out = capsys.readouterr().out
    assert (f"main: the function's role may not use its KMS key {key}" in out) is (given is None)
    assert exit_code == (0 if given else 1)
    assert "KMS permissions" not in out


def test_the_doctor_finds_recursion_protection_that_is_on(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: dict[str, Answer] = {
        "lambda.GetFunctionRecursionConfig": lambda _: (
            "application/json",
            '{"RecursiveLoop": "Terminate"}',
        )
    }

    assert run_answering(answers, "doctor", "--stack", stack) == 1
    assert "broken   replay: Lambda ends this loop" in capsys.readouterr().out


def make_pipe(name: str, target: str) -> None:
    client("pipes").create_pipe(
        Name=name, RoleArn="arn:aws:iam::123456789012:role/r", Source=arn("dlq"), Target=target
    )


def mapping_state() -> str:
    (mapping,) = client("lambda").list_event_source_mappings()["EventSourceMappings"]
    return str(mapping["State"])


def test_a_pipe_in_place_of_the_mapping_is_paused_and_resumed_and_no_fault(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    function = client("lambda").get_function(FunctionName="replay")["Configuration"]["FunctionArn"]
    make_pipe("ours", function)
    make_pipe("another-s", f"{function}-2")
    assert run("pause", "--stack", stack) == 0
    paused = capsys.readouterr().out
    assert run("resume", "--stack", stack) == 0
    resumed = capsys.readouterr().out
    assert run("doctor", "--stack", stack) == 0

    assert mapping_state() == "Disabled"
    assert "pipe ours: STOPPED\n" in paused
    assert resumed == "pipe ours: RUNNING\n"
    assert "paused" not in capsys.readouterr().out


def test_what_does_not_settle_in_time_is_no_success(stack: str) -> None:
    answers: dict[str, Answer] = {
        "lambda.GetEventSourceMapping": lambda _: ("application/json", '{"State": "Disabling"}')
    }
    session = session_answering(answers, region_name=REGION)

    with pytest.raises(InputError, match="is still Disabling; run the same command again"):
        switch(session, stack, on=False, sleep=lambda _: None)


def test_pause_and_resume(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pause", "--stack", stack) == 0
    assert mapping_state() == "Disabled"
    assert "retention goes on" in capsys.readouterr().out
    assert run("resume", "--stack", stack) == 0
    assert mapping_state() == "Enabled"


@pytest.mark.parametrize("verb", ["doctor", "pause", "resume"])
def test_a_stack_that_is_not_there_is_one_sentence(
    endpoint: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(verb, "--stack", "nobody") == 2
    assert "stack nobody" in capsys.readouterr().err
