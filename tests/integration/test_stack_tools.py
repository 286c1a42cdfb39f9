"""The operator's tools on an installation in moto, and on answers of ours where moto has none."""

import argparse
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import pytest

from dlq.archive.storage.files import open_archive
from dlq.archive.storage.local import LocalArchive
from dlq.aws.clients import aws_client, aws_session, sqs_client
from dlq.cli.command import main
from dlq.cli.on_glue import STOP_SECONDS, run_job
from dlq.cli.suggested import execution_command, suggested_command
from dlq.cli.verbs.console import VERB as CONSOLE
from dlq.cli.verbs.console import console_of
from dlq.cli.verbs.trigger import ResumedQueue, pause, resume
from dlq.errors import ArchiveError, InputError
from dlq.stack.outputs import read_stack
from dlq.stack.user_files import kept_stack_names
from dlq_replay.aws.breaker_table import DynamoDbBreaker
from dlq_replay.rules.breaker import Update
from tests.contract.cloudformation import Stack
from tests.contract.template import KEYS, TEMPLATE, statements_of
from tests.integration.conftest import Capture
from tests.support.answered_calls import (
    Answer,
    allowing_everything,
    session_answering,
    simulating,
)
from tests.support.failure_table import create_failure_table
from tests.support.glue_run import run_on_glue
from tests.support.golden import assert_stored
from tests.support.installation import (
    FLEET,
    QUEUE_TAG,
    REGION,
    arn,
    client,
    fleet_outputs,
    make_consumer,
    make_installation,
    make_queue,
    make_stack,
    url_of,
)


@pytest.fixture
def stack(endpoint: str) -> str:
    return make_installation()


def run(*argv: str) -> int:
    return run_answering({}, *argv)


def run_answering(answers: Mapping[str, Answer], *argv: str) -> int:
    make_session = partial(session_answering, {**allowing_everything(), **answers})
    return main([*argv, "--region", REGION], make_session)


QUEUES = {
    "MainQueueURL": f"https://sqs.{REGION}.amazonaws.com/123456789012/main",
    "DLQArn": arn("dlq"),
    "ParkedQueueArn": arn("parked"),
}
"""Those of the installation, as parameters of the template."""


UNREAD = {"unread_since": 1_739_998_200, "judged": 29_000_000}
"""Of a circuit breaker that could not read its metric on 2025-02-19 from 20:50 to 21:20."""


def role_of(**parameters: str) -> dict[str, Answer]:
    """IAM's simulator for the role of the template with these parameters."""
    role = Stack.of(TEMPLATE, {**QUEUES, **parameters})
    return {"iam.SimulatePrincipalPolicy": simulating(statements_of(role))}


def with_a_consumer_that_is_slow() -> dict[str, Answer]:
    make_consumer("orders", 60)
    return {}


def with_a_log_group(*, is_there: bool) -> dict[str, Answer]:
    cloudformation = client("cloudformation")
    template = cloudformation.get_template(StackName=STACK)["TemplateBody"]
    group = "arn:aws:logs:us-east-1:123456789012:log-group:/shop/a:*"
    given = {"MessageRetentionPeriod": "86400", "ConsumerLogGroupArns": group}
    parameters = {name: {"Type": "String"} for name in given}
    cloudformation.update_stack(
        StackName=STACK,
        TemplateBody=json.dumps({**template, "Parameters": parameters}),
        Parameters=[{"ParameterKey": n, "ParameterValue": v} for n, v in given.items()],
    )
    if is_there:
        client("logs").create_log_group(logGroupName="/shop/a")
    return {}


def with_several_faults() -> dict[str, Answer]:
    client("sqs").set_queue_attributes(
        QueueUrl=url_of("dlq"), Attributes={"VisibilityTimeout": "10"}
    )
    make_queue("invoices", arn("dlq"))
    loop = '{"RecursiveLoop": "Terminate"}'
    return {
        **role_of(ParkedQueueArn=arn("before")),
        "lambda.GetFunctionRecursionConfig": lambda _: ("application/json", loop),
    }


def with_sources_on_two_pages() -> dict[str, Answer]:
    """SQS gives a token for more only to a request that names the size of a page."""
    first, second = ("https://sqs.us-east-1.amazonaws.com/123456789012/" + n for n in "ab")

    def page(body: str) -> tuple[str, str]:
        asked = json.loads(body)
        more = {"NextToken": "2"} if "MaxResults" in asked and "NextToken" not in asked else {}
        urls = [second] if "NextToken" in asked else [first]
        return "application/x-amz-json-1.0", json.dumps({"queueUrls": urls, **more})

    return {"sqs.ListDeadLetterSourceQueues": page}


def with_a_key_of_a_queue(*, is_given: bool) -> dict[str, Answer]:
    key = client("kms").create_key()["KeyMetadata"]["Arn"]
    client("sqs").set_queue_attributes(QueueUrl=url_of("main"), Attributes={"KmsMasterKeyId": key})
    return role_of(**{"QueueKmsKeyArns": key} if is_given else KEYS)


def with_a_breaker(*, may_read: bool = True, numbers: Mapping[str, int]) -> dict[str, Answer]:
    create_failure_table(client("dynamodb"), "failures")
    let_gather(0, **WITH_BREAKER)
    breaker_of("main").update(Update(put=numbers))
    return role_of(CircuitBreaker="true" if may_read else "false")


STACK = "replay-stack"
DOCTORED: dict[str, Callable[[], dict[str, Answer]]] = {
    "sound": dict,
    "a consumer that is slow": with_a_consumer_that_is_slow,
    "a log group that is not there": partial(with_a_log_group, is_there=False),
    "a log group that is there": partial(with_a_log_group, is_there=True),
    "several faults": with_several_faults,
    "sources on two pages": with_sources_on_two_pages,
    "the key of a queue, given": partial(with_a_key_of_a_queue, is_given=True),
    "the key of a queue, not given": partial(with_a_key_of_a_queue, is_given=False),
    "a circuit breaker that sees its consumer": partial(
        with_a_breaker, numbers={"judged": 29_000_000}
    ),
    "a circuit breaker that may not read the metric": partial(
        with_a_breaker, may_read=False, numbers=UNREAD
    ),
    "a circuit breaker that could not read the metric": partial(with_a_breaker, numbers=UNREAD),
}


@pytest.mark.parametrize("name", DOCTORED)
def test_the_doctor_finds_what_is_stored_and_leaves_parked_messages_as_they_were(
    stack: str, name: str, capsys: Capture
) -> None:
    sqs = client("sqs")
    url = url_of("parked")
    sqs.send_message(QueueUrl=url, MessageBody="b")

    code = run_answering(DOCTORED[name](), "doctor", "--stack", stack)

    assert_stored("doctor", name, f"{without_ids(capsys.readouterr().out)}exit code {code}\n")
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert message["Body"] == "b"


def without_ids(text: str) -> str:
    return re.sub(r"\b(key/|vpc-|127.0.0.1:)[0-9a-f-]+", r"\1ID", text)


def test_the_doctor_knows_the_other_main_queues(endpoint: str, capsys: Capture) -> None:
    stack = make_installation("invoices", "gone")
    make_queue("invoices", arn("dlq"), MessageRetentionPeriod="345600")

    assert run("doctor", "--stack", stack) == 1
    assert_stored("doctor", "other main queues", without_ids(capsys.readouterr().out))


def test_the_doctor_never_moves_a_parked_message_on_and_finds_who_else_takes_it(
    stack: str, capsys: Capture
) -> None:
    sqs = client("sqs")
    url = sqs.get_queue_url(QueueName="parked")["QueueUrl"]
    elsewhere = make_queue("elsewhere")
    redrive = {"deadLetterTargetArn": arn("elsewhere"), "maxReceiveCount": 1}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(redrive)})
    sqs.send_message(QueueUrl=url, MessageBody="b")
    make_consumer("reader", 30, queue="parked")
    make_pipe("copies", "arn:aws:lambda:us-east-1:123456789012:function:copies")

    for _ in range(2):
        assert run("doctor", "--stack", stack) == 1

    out = capsys.readouterr().out
    assert "risk     parked: has a redrive policy" in out
    assert "broken   dlq: pipe copies takes messages out too" in out
    assert "function:reader: these are neither" in out
    assert out.count("broken ") == 2 * 2
    assert "Messages" not in sqs.receive_message(QueueUrl=elsewhere)
    assert "Messages" in sqs.receive_message(QueueUrl=url)


def make_pipe(name: str, target: str, source: str = "dlq") -> None:
    client("pipes").create_pipe(
        Name=name, RoleArn="arn:aws:iam::123456789012:role/r", Source=arn(source), Target=target
    )


def mapping_state() -> str:
    (mapping,) = client("lambda").list_event_source_mappings()["EventSourceMappings"]
    return str(mapping["State"])


def test_installations_are_listed(
    stack: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["use", "other"]) == 0
    capsys.readouterr()
    make_stack("another-s", Url="https://example.com")
    make_stack(
        "no-job",
        ReplayFunctionArn="arn:f",
        MainQueueUrl="https://q/1/m",
        DeadLetterQueueArn=arn("d"),
        ParkedQueueArn=arn("p"),
    )

    # None is named, not even the chosen one.
    assert run("status", "--stack", "") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "next: dlq use STACK, or give one of these names as --stack"
    assert kept_stack_names(os.environ) == ["no-job", "replay-stack"]
    assert main(["use", "--none"]) == 0
    capsys.readouterr()
    assert [line.split()[:3] for line in lines[1:3]] == [
        ["no-job", "m", "none"],
        ["replay-stack", "main", "s3://dead-letters/archive"],
    ]
    assert run("status", "--region", "eu-west-1", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["version"] == 1
    assert [stack["spark_job"] for stack in answer["stacks"]] == [None, "redrive"]
    assert run("groups", "--stack", "no-job") == 2
    assert "deploy it with CreateSparkJob=true, or give --archive" in capsys.readouterr().err


@pytest.mark.usefixtures("endpoint")
def test_a_fleet_has_a_tag_in_place_of_queues_of_its_own(capsys: Capture) -> None:
    make_stack(FLEET, **fleet_outputs(FifoParkedQueueArn=arn("parked.fifo")))

    values = read_stack(session_answering({}), FLEET)
    parked = values.parked_queue_url
    assert parked.endswith("/123456789012/parked")
    assert parked.startswith(os.environ["AWS_ENDPOINT_URL"])
    assert values.fifo_parked_queue_url == f"{parked}.fifo"
    assert (values.main_queue_url, values.dlq_url, values.queue_tag) == (None, None, QUEUE_TAG)
    assert (values.sweep_rule, values.function_arn[-7:]) == ("sweep-rule", ":replay")

    assert run("status", "--stack", "") == 0
    _, row, *_ = capsys.readouterr().out.splitlines()
    assert row.split()[:4] == [
        FLEET,
        "fleet",
        f"dlq-replay={QUEUE_TAG}",
        "s3://dead-letters/archive",
    ]
    assert run("status", "--stack", "", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)["stacks"]
    assert (listed["queue_tag"], listed["main_queue_url"]) == (QUEUE_TAG, None)


def make_stack_without_a_job() -> str:
    """Make a second stack of the same queues, which has no archive; return its name."""
    make_stack(
        "no-job",
        ReplayFunctionArn="arn:f",
        MainQueueUrl=url_of("main"),
        DeadLetterQueueArn=arn("dlq"),
        ParkedQueueArn=arn("parked"),
    )
    return "no-job"


@pytest.mark.usefixtures("stack")
def test_the_environment_names_the_archive_of_a_stack_without_one(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_stack_without_a_job()
    monkeypatch.setenv("DLQ_ARCHIVE", str(tmp_path))

    assert run("groups", "--stack", "no-job") == 2
    assert f"archive {tmp_path}: has no report" in capsys.readouterr().err

    parser = argparse.ArgumentParser()
    CONSOLE.add_arguments(parser)
    options = parser.parse_args([])
    options.stack = "no-job"
    options.session = session_answering({})
    console = console_of(options)
    # Its commands name the archive: the environment of who copies them may name none.
    assert console.command("groups") == f"dlq groups --stack no-job --archive {tmp_path}"


def test_find_looks_in_a_queue_also_where_the_stack_has_no_archive(
    endpoint: str, capsys: Capture
) -> None:
    for role in ("main", "dlq", "parked"):
        make_queue(role)
    make_stack_without_a_job()
    make_queue("letters")
    client("sqs").send_message(QueueUrl=url_of("letters"), MessageBody='{"order": 4711}')

    assert run("find", "4711", "--stack", "no-job") == 2
    assert "has no archive" in capsys.readouterr().err

    assert run("find", "4711", "--stack", "no-job", "--queue", "letters", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["queued_matching"], answer["archived"]) == (1, None)


@pytest.mark.usefixtures("endpoint")
def test_the_status_of_a_stack_without_an_archive_counts_its_queues(capsys: Capture) -> None:
    for role, number in {"main": 0, "parked": 3, "dlq": 2}.items():
        url = make_queue(role)
        for _ in range(number):
            client("sqs").send_message(QueueUrl=url, MessageBody="{}")
    stack = make_stack_without_a_job()

    assert run("status", "--stack", stack) == 0

    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith(f"stack {stack} at ")
    assert lines == [
        "DLQ: about 2 visible, 0 in flight, 0 delayed",
        "parked queue: about 3 visible, 0 in flight, 0 delayed",
        (
            "no archive, because the stack has no Spark job: deploy it with CreateSparkJob=true, "
            "or keep the archive in a folder:"
        ),
        f"  dlq collect --stack {stack} --region {REGION} --archive ./dead-letters",
    ]

    assert run("status", "--stack", stack, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["archive"], answer["messages"], answer["report"]) == ("", 0, None)
    assert (answer["queue"]["visible"], answer["dead_letters"]["visible"]) == (3, 2)

    # No run of a job can count them.
    assert run("status", "--stack", stack, "--on-glue") == 2
    assert "has no AWS Glue job" in capsys.readouterr().err


def test_options_that_are_given_win_over_the_stack_s(
    stack: str, tmp_path: Path, capsys: Capture
) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()

    assert run("groups", "--stack", stack, "--archive", str(archive)) == 2
    assert f"archive {archive}: has no report" in capsys.readouterr().err


class Glue:
    """AWS Glue with one job, whose runs are over when they have started."""

    def __init__(self, main: Callable[[Sequence[str]], int], defaults: str = "run") -> None:
        self.main = main
        self.arguments: list[dict[str, str]] = []
        self.stopped = False
        self._defaults = defaults
        self._state = "RUNNING"

    def answers(self) -> dict[str, Answer]:
        kind = "application/x-amz-json-1.1"
        job = {"Name": "redrive", "DefaultArguments": {"--command-line": self._defaults}}
        return {
            "glue.StartJobRun": lambda body: (kind, self._start(json.loads(body))),
            "glue.GetJobRun": lambda _: (kind, json.dumps({"JobRun": self._run()})),
            "glue.GetJob": lambda _: (kind, json.dumps({"Job": job})),
            "glue.BatchStopJobRun": lambda _: (kind, self._stop()),
        }

    def _start(self, request: Mapping[str, Any]) -> str:
        self.arguments.append(request["Arguments"])
        words = [argument for pair in request["Arguments"].items() for argument in pair]
        try:
            run_on_glue([*words, "--stack", STACK, "--JOB_RUN_ID", "jr_1"], self.main)
            self._state = "SUCCEEDED"
        except SystemExit:
            self._state = "FAILED"
        except InterruptedError:  # it goes on, and is still running
            pass
        return json.dumps({"JobRunId": "jr_1"})

    def _run(self) -> dict[str, str]:
        return {"Id": "jr_1", "JobRunState": self._state, "ErrorMessage": "Glue's words"}

    def _stop(self) -> str:
        self.stopped = True
        self._state = "STOPPED"
        return "{}"


def test_a_verb_on_glue_answers_with_its_own_words_and_exit_code(
    stack: str, capfd: Capture
) -> None:
    client("s3").create_bucket(Bucket="dead-letters")
    commands: list[Sequence[str]] = []

    def job(command: Sequence[str]) -> int:
        commands.append(command)
        # Whatever becomes of it, its command is gone.
        assert left_commands() == []
        sys.stdout.write("sent 5\n")
        sys.stderr.write("dlq: 2 were not sent\n")
        return 4

    glue = Glue(job, "run --archive x --mask body.iban --no-samples -- --mask=T-[0-9]+")
    words = ("redrive", "--stack", stack, "--plan", "r-1", "--execute", "--reason", "it works")

    assert run_answering(glue.answers(), *words, "--on-glue") == 4

    out, err = capfd.readouterr()
    # Once in the log of the run, and once as the answer.
    assert out.count("sent 5\n") == 2
    assert err.count("dlq: 2 were not sent\n") == 2
    # Glue keeps the arguments of its runs; conditions may name a person.
    [[argument]] = [arguments.values() for arguments in glue.arguments]
    assert re.fullmatch(r"stored s3://dead-letters/archive [0-9a-f]{64}", argument)
    [command] = commands
    assert command[0] == "redrive"
    given = dict(pairwise(command))
    assert given["--archive"] == "s3://dead-letters/archive"
    assert given["--main-queue-url"].endswith("/main")
    assert (given["--reason"], given["--mask"]) == ("it works", "body.iban")
    assert {"--execute", "--mask=T-[0-9]+"} <= set(command)
    # One is the stack's; a run adds the other to each redrive.
    assert command.count("--no-samples") == 2
    assert not {"--stack", "--on-glue", "--region"} & set(command)


def test_a_run_on_glue_suggests_commands_for_who_typed_it_and_keeps_no_condition(
    stack: str, capfd: Capture
) -> None:
    archive = "s3://dead-letters/archive"
    client("s3").create_bucket(Bucket="dead-letters")

    def job(_: Sequence[str]) -> int:
        sys.stdout.write(f"next: {suggested_command('groups', archive)}\n")
        sys.stdout.write(f"to do it: {execution_command(needs_reason=True)}\n")
        return 0

    words = ("redrive", "--stack", stack, "--region", "us-east-1", "--where", "body LIKE '%anna%'")
    assert run_answering(Glue(job).answers(), *words, "--on-glue") == 0

    of_run, answer = capfd.readouterr().out.split("next: ")[1:]
    groups = f"dlq groups --stack {stack} --region us-east-1\n"
    redrive = (
        f"to do it: dlq redrive --stack {stack} --region us-east-1 {{}} --execute --reason WHY\n"
    )
    # Glue keeps the log of the run, and no erase reaches it.
    assert of_run == groups + redrive.format("OPTIONS...")
    assert answer == groups + redrive.format(shlex.join([*words[5:], "--on-glue"]))


@pytest.mark.parametrize("has_archive", [True, False])
def test_what_a_look_at_the_parked_queue_of_a_stack_proposes_is_of_the_stack(
    stack: str, capsys: Capture, *, has_archive: bool
) -> None:
    if not has_archive:
        stack = make_stack_without_a_job()
    client("sqs").send_message(QueueUrl=url_of("parked"), MessageBody="{}")

    assert run("look", "--stack", stack) == 0

    place = f"--stack {stack} --region {REGION}"
    place += "" if has_archive else " --archive ./dead-letters"
    *_, collect, redrive = capsys.readouterr().out.splitlines()
    assert collect == f"  dlq collect {place}"
    assert redrive == f"  dlq redrive {place} --group GROUP"


@pytest.mark.usefixtures("endpoint")
def test_the_status_of_a_fleet_on_glue_is_that_of_its_archive() -> None:
    make_stack(FLEET, **fleet_outputs(SparkJobName="redrive"))
    client("s3").create_bucket(Bucket="dead-letters")
    commands: list[Sequence[str]] = []

    def job(command: Sequence[str]) -> int:
        commands.append(command)
        return 0

    assert run_answering(Glue(job).answers(), "status", "--stack", FLEET, "--on-glue") == 0

    [command] = commands
    assert dict(pairwise(command))["--archive"] == "s3://dead-letters/archive"
    # The role of the job may not read the members.
    assert "--queue-tag" not in command


@pytest.mark.usefixtures("endpoint")
def test_a_redrive_gets_the_tag_and_both_parked_queues_of_a_fleet() -> None:
    make_stack(
        FLEET,
        **fleet_outputs(SparkJobName="redrive", FifoParkedQueueArn=arn("parked.fifo")),
    )
    client("s3").create_bucket(Bucket="dead-letters")
    commands: list[Sequence[str]] = []

    def job(command: Sequence[str]) -> int:
        commands.append(command)
        return 0

    assert run_answering(Glue(job).answers(), "redrive", "--stack", FLEET, "--on-glue") == 0

    pairs = [*pairwise(commands[0])]
    assert ("--queue-tag", QUEUE_TAG) in pairs
    urls = [value for option, value in pairs if option == "--parked-queue-url"]
    assert [url.rpartition("/")[2] for url in urls] == ["parked", "parked.fifo"]
    assert ("--sweep-function-arn", fleet_outputs()["SweepFunctionArn"]) in pairs
    assert "--main-queue-url" not in commands[0]


def left_commands() -> list[str]:
    """The stored commands, with all versions."""
    answer = client("s3").list_object_versions(Bucket="dead-letters", Prefix="archive/commands/")
    versions = [*answer.get("Versions", []), *answer.get("DeleteMarkers", [])]
    return [version["Key"] for version in versions]


ON_GLUE = ("collect", "--where", "body LIKE '%anna%'", "--on-glue", "--stack")


def test_a_run_that_is_under_way_is_no_fault_of_the_command(stack: str, capsys: Capture) -> None:
    client("s3").create_bucket(Bucket="dead-letters")
    kind = "application/x-amz-json-1.1"
    busy = {"__type": "ConcurrentRunsExceededException", "Message": "one is enough"}
    answers = {
        **Glue(lambda _: 0).answers(),
        "glue.StartJobRun": lambda _: (kind, json.dumps(busy), 400),
    }

    assert run_answering(answers, *ON_GLUE, stack) == 2
    assert left_commands() == []
    assert "a run is in progress; wait for its end" in capsys.readouterr().err


class Full(LocalArchive):
    def write(self, path: str, content: bytes) -> None:
        if path.endswith("/stop"):
            raise ArchiveError(f"{path}: no room, {len(content)} bytes")
        super().write(path, content)


@pytest.mark.parametrize("is_full", [False, True])
def test_ctrl_c_asks_the_run_to_stop_and_then_stops_it(
    tmp_path: Path, capsys: Capture, *, is_full: bool
) -> None:
    """Even where the run cannot be asked."""

    def going_on(_: Sequence[str]) -> int:
        raise InterruptedError

    glue = Glue(going_on)
    session = session_answering(glue.answers(), region_name=REGION)
    archive = (Full if is_full else LocalArchive)(str(tmp_path))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            raise KeyboardInterrupt

    assert run_job(session.client("glue"), "redrive", archive, ["collect"], sleep) == 1
    assert (archive.read("runs/jr_1/stop") is None) is is_full
    assert glue.stopped
    assert sum(slept) >= STOP_SECONDS
    err = capsys.readouterr().err
    assert "stopping the run" in err
    assert "ended as STOPPED without an answer: Glue's words" in err


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["show", "g-1", "--out", "f"], "show does not run on AWS Glue"),
        (
            ["erase", "--id", "m-1", "--execute", "--reason", "r"],
            "the role of the job may not delete what is archived, so that no run of it can",
        ),
        (["restore"], "restore does not run on AWS Glue: the role of the job may not send to the"),
        (["redrive", "--plan", "./plan.yaml"], "--plan ./plan.yaml: is on this machine"),
        (["collect", "--out=report"], "--out report: is on this machine"),
        (["collect", "--archive", "./a"], "--archive ./a: is on this machine"),
    ],
)
def test_what_glue_cannot_do_is_refused_before_it_starts(
    stack: str, words: list[str], fault: str, capsys: Capture
) -> None:
    assert run(*words, "--stack", stack, "--on-glue") == 2
    assert fault in capsys.readouterr().err


def test_a_pipe_in_place_of_the_mapping_is_paused_and_resumed_and_no_fault(
    stack: str, capsys: Capture
) -> None:
    function = client("lambda").get_function(FunctionName="replay")["Configuration"]["FunctionArn"]
    make_pipe("ours", function)
    make_pipe("another-s", f"{function}-2", "dlq-2")
    leave_replay_to_a_pipe()
    assert run("pause", "--stack", stack) == 0
    paused = capsys.readouterr().out
    assert run("resume", "--stack", stack) == 0
    resumed = capsys.readouterr().out
    assert run("doctor", "--stack", stack) == 0

    assert mapping_state() == "Disabled"
    assert "pipe ours: STOPPED\n" in paused
    assert resumed == (
        "pipe ours: RUNNING\nmain: no limit (the circuit breaker is off); what gathered in the DLQ "
        "is replayed at once, after the backoff of each message\n"
    )
    doctored = capsys.readouterr().out
    assert "0 broken, 0 at risk" in doctored
    assert "paused" not in doctored


def leave_replay_to_a_pipe() -> None:
    """Update the stack with ``ReplayEnabled=false``."""
    cloudformation = client("cloudformation")
    template = cloudformation.get_template(StackName=STACK)["TemplateBody"]
    cloudformation.update_stack(
        StackName=STACK,
        TemplateBody=json.dumps({**template, "Parameters": {"ReplayEnabled": {"Type": "String"}}}),
        Parameters=[{"ParameterKey": "ReplayEnabled", "ParameterValue": "false"}],
    )


def test_a_region_without_pipes_can_pause_a_mapping_and_is_named_where_a_pipe_matters(
    stack: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_PIPES", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert run("pause", "--stack", stack) == 0
    assert run("resume", "--stack", stack) == 0
    assert mapping_state() == "Enabled"

    leave_replay_to_a_pipe()
    capsys.readouterr()
    assert run("pause", "--stack", stack) == 2

    (mapping,) = client("lambda").list_event_source_mappings()["EventSourceMappings"]
    error = capsys.readouterr().err
    assert f"stack {stack}: EventBridge Pipes does not say whether a pipe feeds its" in error
    assert "Could not connect to the endpoint URL" in error
    assert f"update-event-source-mapping --uuid {mapping['UUID']} --enabled or --no-" in error
    # Nothing is half turned off.
    assert mapping_state() == "Enabled"


def test_a_mapping_is_paused_and_no_test_message_sent_until_it_is_resumed(
    stack: str, capsys: Capture
) -> None:
    assert run("pause", "--stack", stack) == 0
    assert mapping_state() == "Disabled"
    paused = capsys.readouterr().out
    assert "until their retention ends" in paused
    assert "It lasts until dlq resume, or until a deployment" in paused

    assert run("doctor", "--stack", stack, "--send-test-message", "--json") == 1
    (check,) = json.loads(capsys.readouterr().out)["test_message"]
    assert check["works"] is False
    assert "replay is paused" in check["causes"][0]["fault"]

    assert run("resume", "--stack", stack) == 0
    assert mapping_state() == "Enabled"


def test_what_does_not_settle_in_time_is_no_success(stack: str) -> None:
    (mapping,) = client("lambda").list_event_source_mappings()["EventSourceMappings"]
    listed = {"EventSourceMappings": [{"UUID": mapping["UUID"], "State": "Disabling"}]}
    answers: dict[str, Answer] = {
        "lambda.ListEventSourceMappings": lambda _: ("application/json", json.dumps(listed))
    }
    session = session_answering(answers, region_name=REGION)

    with pytest.raises(InputError, match="is still Disabling; run the same command again"):
        pause(session, stack, sleep=lambda _: None)


def let_gather(messages: int, **variables: str) -> None:
    """Let the function of the installation have *variables*, and dead letters wait."""
    function = client("lambda")
    settings = function.get_function_configuration(FunctionName="replay")["Environment"]
    settings["Variables"] |= variables
    function.update_function_configuration(FunctionName="replay", Environment=settings)
    for _ in range(messages):
        client("sqs").send_message(QueueUrl=url_of("dlq"), MessageBody="gathered")


def breaker_of(name: str, now_seconds: float = 0) -> DynamoDbBreaker:
    return DynamoDbBreaker(client("dynamodb"), "failures", name, lambda: int(now_seconds))


WITH_BREAKER = {"FAILURE_TABLE": "failures", "BREAKER": "on"}


@pytest.mark.usefixtures("endpoint")
def test_what_gathered_in_a_pause_gets_a_limit_before_the_trigger_is_on() -> None:
    """For each main queue, three times what came in a minute of the pause."""
    stack = make_installation("invoices")
    create_failure_table(client("dynamodb"), "failures")
    let_gather(90, **WITH_BREAKER)
    session = session_answering({}, region_name=REGION)
    pause(session, stack)
    (mapping,) = client("lambda").list_event_source_mappings()["EventSourceMappings"]
    now = int(mapping["LastModified"].timestamp()) + 180
    at_start: list[Mapping[str, int]] = []

    def answer(_: str) -> tuple[str, str]:
        at_start.append(breaker_of("main").read())
        return "application/json", "{}"

    turning_on = session_answering({"lambda.UpdateEventSourceMapping": answer}, region_name=REGION)
    with pytest.raises(InputError, match="is still Disabled"):
        resume(turning_on, stack, sleep=lambda _: None, now_seconds=lambda: now)
    _, queues = resume(session, stack, now_seconds=lambda: now)

    limited = {"limit": 90, "full": 90, "since": now, "resumed": now}
    assert limited.items() <= at_start[0].items()
    assert queues == [ResumedQueue("main", 90), ResumedQueue("invoices", 90)]
    for queue in queues:
        assert limited.items() <= breaker_of(queue.main_queue).read().items()


def test_a_trigger_that_came_on_late_gets_its_limit_with_the_next_resume(stack: str) -> None:
    create_failure_table(client("dynamodb"), "failures")
    let_gather(90, **WITH_BREAKER)
    session = session_answering({}, region_name=REGION)
    pause(session, stack)
    resume(session, stack)
    (mapping,) = client("lambda").list_event_source_mappings()["EventSourceMappings"]
    states = iter(["Enabling", "Enabled"])

    def listed(_: str) -> tuple[str, str]:
        state = {"UUID": mapping["UUID"], "State": next(states)}
        return "application/json", json.dumps({"EventSourceMappings": [state]})

    late = session_answering({"lambda.ListEventSourceMappings": listed}, region_name=REGION)
    later = time.time() + 150
    _, queues = resume(late, stack, now_seconds=lambda: later)

    assert queues == [ResumedQueue("main", 270)]
    assert breaker_of("main").read()["since"] == int(later)


@pytest.mark.parametrize(
    ("variables", "fault"),
    [
        ({}, "the circuit breaker is off"),
        (WITH_BREAKER | {"BREAKER": "off"}, "the circuit breaker is off"),
        (WITH_BREAKER, "ResourceNotFoundException: "),
        ({"MAX_ATTEMPTS": "x"}, "MAX_ATTEMPTS"),
    ],
)
def test_a_limit_that_cannot_be_set_is_told_and_keeps_nobody_from_a_resume(
    stack: str, variables: dict[str, str], fault: str, capsys: Capture
) -> None:
    let_gather(1, **variables)
    assert run("pause", "--stack", stack) == 0
    capsys.readouterr()

    assert run("resume", "--stack", stack) == 0
    printed = capsys.readouterr().out
    assert mapping_state() == "Enabled"
    (reason,) = re.findall(r"main: no limit \((.*)\); what gathered in the DLQ is", printed)
    assert fault in reason


def test_a_resume_of_what_is_on_limits_nothing(stack: str, capsys: Capture) -> None:
    create_failure_table(client("dynamodb"), "failures")
    let_gather(90, **WITH_BREAKER)

    assert run("resume", "--stack", stack, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert [trigger["state"] for trigger in answer["triggers"]] == ["Enabled"]
    assert answer["limits"] == []
    assert breaker_of("main").read() == {}


CONFIG = """\
[default]
region = eu-north-1
[profile second]
region = eu-central-1
aws_access_key_id = of-second
aws_secret_access_key = of-second
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Region in the environment, and another one than the stack's in the configuration."""
    (tmp_path / "config").write_text(CONFIG, "utf-8")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("words", "settings", "region", "key"),
    [
        ("--region eu-west-1 --profile second", {"AWS_REGION": "x"}, "eu-west-1", "of-second"),
        ("--profile second", {}, "eu-central-1", "of-second"),
        ("--profile second", {"AWS_DEFAULT_PROFILE": "default"}, "eu-central-1", "of-second"),
        ("--region eu-west-1", {"AWS_DEFAULT_REGION": "x"}, "eu-west-1", "testing"),
        ("", {"AWS_REGION": "eu-west-2", "AWS_DEFAULT_REGION": "x"}, "eu-west-2", "testing"),
        ("", {"AWS_DEFAULT_REGION": "eu-west-3", "AWS_PROFILE": "second"}, "eu-west-3", "testing"),
        ("", {}, "eu-north-1", "testing"),
    ],
)
def test_options_come_before_the_environment_and_that_before_the_profile(
    monkeypatch: pytest.MonkeyPatch, words: str, settings: dict[str, str], region: str, key: str
) -> None:
    made = []

    def make() -> boto3.session.Session:
        session = aws_session()
        credentials = session.get_credentials()
        made.append((session.region_name, credentials and credentials.access_key))
        # Clients of the Spark job, which are made where they are used.
        for made_client in (sqs_client("http://127.0.0.1:1/123456789012/q"), aws_client("s3")):
            assert made_client.meta.region_name == region
        raise InputError("enough")

    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)

    assert main(["status", *words.split()], make) == 2
    assert made == [(region, key)]
    assert dict(os.environ) == before


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("words", [("--region", REGION), ()])
def test_a_stack_is_asked_for_in_the_region_that_is_given(
    stack: str, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    assert main(["pause", "--stack", stack]) == 2
    if not words:
        monkeypatch.setenv("AWS_REGION", REGION)
    assert main(["pause", "--stack", stack, *words]) == 0


@pytest.mark.usefixtures("elsewhere", "stack")
def test_stacks_of_several_places_are_listed_though_one_cannot_be_read(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["use", "chosen"]) == 0
    capsys.readouterr()
    places = ["--region", f"eu-west-1,{REGION},", "--profile", "second, nosuch"]
    before = dict(os.environ)

    assert main(["status", *places]) == 1
    headings, *rows, hint = capsys.readouterr().out.splitlines()
    assert headings.split()[:3] == ["Region", "profile", "stack"]
    assert [row.split()[:3] for row in rows] == [
        [REGION, "second", "replay-stack"],
        ["eu-west-1", "nosuch", "unread"],
        [REGION, "nosuch", "unread"],
    ]
    assert "profile nosuch: the AWS configuration has no such profile" in rows[1]
    assert hint.startswith("next: dlq use STACK")

    assert main(["status", *places, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    (listed,) = answer["stacks"]
    assert (listed["stack"], listed["region"], listed["profile"]) == (
        "replay-stack",
        REGION,
        "second",
    )
    assert [(pair["region"], pair["profile"]) for pair in answer["unread"]] == [
        ("eu-west-1", "nosuch"),
        (REGION, "nosuch"),
    ]

    # A column with the same value everywhere says nothing.
    assert main(["status", "--region", f"eu-west-1,{REGION}"]) == 0
    assert capsys.readouterr().out.split()[:3] == ["Region", "stack", "main"]
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    "words", ["pause --stack s", "status --stack s", "status --archive /a", "use s", "groups"]
)
@pytest.mark.parametrize("places", ["--region=eu-west-1,eu-west-2", "--profile=a,b"])
def test_only_the_list_of_stacks_takes_several_places(
    words: str, places: str, capsys: Capture
) -> None:
    assert main([*words.split(), places]) == 2
    assert "only the list of stacks, `dlq status --stack ''`" in capsys.readouterr().err


@pytest.mark.usefixtures("elsewhere")
def test_an_unknown_profile_is_one_sentence(capsys: Capture) -> None:
    assert main(["status", "--profile", "nosuch"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(
        "dlq: profile nosuch: the AWS configuration has no such profile; "
    )
    assert (printed.out, printed.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("words", [[], ["pause"]])
def test_help_is_a_verb_as_well_as_an_option(words: list[str], capsys: Capture) -> None:
    assert main([*words, "--help"]) == 0
    shown = capsys.readouterr().out

    assert main(["help", *words]) == 0
    assert capsys.readouterr().out == shown
    assert main(["help", "paus"]) == 2


@pytest.mark.usefixtures("endpoint")
def test_a_stack_that_is_not_there_is_one_sentence(capsys: Capture) -> None:
    assert run("doctor", "--stack", "nobody") == 2
    assert "stack nobody" in capsys.readouterr().err


@pytest.fixture
def with_archive(stack: str) -> str:
    """The stack, with an empty archive and an empty failure table."""
    client("s3").create_bucket(Bucket="dead-letters")
    open_archive("s3://dead-letters/archive", creates=True)
    create_failure_table(client("dynamodb"), "failures")
    return stack


def breaker_of_main(seconds: int) -> DynamoDbBreaker:
    return DynamoDbBreaker(client("dynamodb"), "failures", "main", lambda: seconds)


def status_of(stack: str, capsys: Capture) -> str:
    """What status prints, in one line."""
    capsys.readouterr()
    assert run("status", "--stack", stack) == 0
    return " ".join(capsys.readouterr().out.split())


def test_status_names_the_stack_that_was_chosen(
    with_archive: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["use", with_archive]) == 0
    file = tmp_path / "dlq" / "stack.json"
    capsys.readouterr()

    assert run("status") == 0
    printed = capsys.readouterr()
    assert run("status", "--json") == 0
    printed_json = capsys.readouterr()

    lines = f"stack {with_archive} (dlq use: {file})\narchive s3://dead-letters/archive"
    assert printed.out.startswith(lines)
    assert printed.err == f"dlq: stack {with_archive}, Region {REGION} (dlq use: {file})\n"
    answer = json.loads(printed_json.out)
    assert (answer["stack"], answer["stack_file"]) == (with_archive, str(file))
    assert printed_json.err == ""


def test_status_says_the_limit_and_what_waits(with_archive: str, capsys: Capture) -> None:
    for _ in range(3):
        client("sqs").send_message(QueueUrl=url_of("dlq"), MessageBody="held", DelaySeconds=900)
    without_limit = status_of(with_archive, capsys)
    seconds = int(datetime.now(UTC).timestamp())
    limited = {"limit": 1, "since": seconds - 720, "silent_since": seconds - 1230}
    breaker_of_main(seconds).update(Update(put=limited))
    with_limit = status_of(with_archive, capsys)

    assert "archive s3://dead-letters/archive at " in without_limit
    assert "circuit breaker" not in without_limit
    since = f"{datetime.fromtimestamp(seconds - 720, UTC):%Y-%m-%d %H:%M} UTC"
    assert "circuit breaker: limited to 1 replay a minute since " in with_limit
    assert f"{since}; the consumer has deleted nothing for 20 minutes" in with_limit
    assert "DLQ: about 0 visible, 0 in flight, 3 delayed" in with_limit


def test_status_says_why_a_breaker_is_not_known_or_cannot_judge(
    with_archive: str, capsys: Capture
) -> None:
    breaker_of_main(int(datetime.now(UTC).timestamp())).update(Update(put=UNREAD))
    without_metric = status_of(with_archive, capsys)
    client("dynamodb").delete_table(TableName="failures")
    without_table = status_of(with_archive, capsys)

    cannot_judge = "circuit breaker: cannot judge the consumer, and sets no limit: the metric "
    assert cannot_judge in without_metric
    assert "from 2025-02-19 20:50 to 2025-02-19 21:20 UTC, and could not be read" in without_metric
    assert "dlq doctor says what to change" in without_metric
    assert "circuit breaker: not known (ResourceNotFoundException" in without_table
