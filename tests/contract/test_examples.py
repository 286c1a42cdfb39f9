"""Commands, templates and queries that the documents show, used as a reader would use them."""

import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer
from botocore.session import Session
from botocore.validate import ParamValidator
from cfnlint.api import lint

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA, to_row, to_table
from dlq.cli.running import parse
from dlq_replay import __version__
from dlq_replay.aws.tagged_queues import TAG_KEY
from dlq_replay.wire.attributes import MessageAttribute
from tests.contract.cloudformation import Stack, load_template
from tests.contract.template import ALL_PARTS, ROOT, TEMPLATE
from tests.support.builders import message, queue_url

EXAMPLES = ROOT / "templates" / "examples"
FLEET = (ROOT / "docs" / "fleet.md").read_text("utf-8")
INSTALL = (ROOT / "docs" / "install.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
README_SAR = (ROOT / "README-SAR.md").read_text("utf-8")
REDRIVE = (ROOT / "docs" / "redrive.md").read_text("utf-8")
SCHEDULE = (ROOT / "docs" / "schedule.md").read_text("utf-8")


@pytest.mark.parametrize("service", ["logs.eu-west-1.amazonaws.com", "cloudwatch.amazonaws.com"])
def test_the_key_policy_admits_each_service(service: str) -> None:
    assert f'"{service}"' in (EXAMPLES / "key-policy.json").read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


# --- Installation


def deployed_by(page: str) -> Stack:
    """Return the stack of the first command of a page that deploys."""
    command = next(block for block in blocks(page, "sh") if "deploy" in block)
    command = command.replace("\\\n", " ").partition("--parameter-overrides")[2]
    words = command.partition("\n")[0].split()
    return Stack.of(TEMPLATE, dict(argument.split("=", 1) for argument in words))


@pytest.mark.parametrize(
    ("page", "folder"),
    # One is for readers with a checkout, the other for those with the files of a release.
    [(INSTALL, "./"), (README, "./dist/")],
    ids=["install.md", "README.md"],
)
def test_the_command_that_deploys_gives_values_that_the_template_takes(
    page: str, folder: str
) -> None:
    stack = deployed_by(page)

    assert stack.broken_rules == []
    assert not stack.of_type("AWS::SQS::Queue").keys() & {"MainQueue", "DeadLetterQueue"}
    assert {"ArchiveUri", "SparkJobName", "AlarmTopicArn"} <= stack.outputs.keys()
    assert f" {folder}sqs_dlq_replay-{__version__}-py3-none-any.whl" in page


def test_other_tools_give_parameters_of_the_template_and_read_its_outputs() -> None:
    terraform = (EXAMPLES / "orders.tf").read_text("utf-8")
    cdk = (EXAMPLES / "cdk_app.py").read_text("utf-8")
    serverless = (EXAMPLES / "serverless.yml").read_text("utf-8")
    compile(cdk, "cdk_app.py", "exec")
    [of_terraform] = re.findall(r"parameters = \{(.*?)\}", terraform, re.DOTALL)
    [of_cdk] = re.findall(r"parameters=\{(.*?)\}", cdk, re.DOTALL)
    resources = load_template(EXAMPLES / "serverless.yml")["resources"]["Resources"]

    for names in (
        set(re.findall(r"^\s+(\w+)\s+=", of_terraform, re.MULTILINE)),
        set(re.findall(r'"(\w+)":', of_cdk)),
        set(resources["Replay"]["Properties"]["Parameters"]),
    ):
        assert {"MainQueueURL", "DLQArn"} <= names <= TEMPLATE["Parameters"].keys()
    outputs = re.findall(r"utputs(?:\.|\[\")(\w+)", terraform + cdk + serverless)
    assert outputs
    assert set(outputs) <= TEMPLATE["Outputs"].keys()


def test_other_tools_make_a_fleet_and_tag_its_queues() -> None:
    terraform, cdk = ((EXAMPLES / n).read_text("utf-8") for n in ("fleet.tf", "fleet_app.py"))
    compile(cdk, "fleet_app.py", "exec")
    [of_terraform] = re.findall(r"parameters = \{(.*?)\}", terraform, re.DOTALL)
    [of_cdk] = re.findall(r"parameters=\{(.*?)\}", cdk, re.DOTALL)

    for names in (
        set(re.findall(r"^\s+(\w+)\s+=", of_terraform, re.MULTILINE)),
        set(re.findall(r'"(\w+)":', of_cdk)),
    ):
        assert {"QueueTag", "Sweep"} <= names <= TEMPLATE["Parameters"].keys()
    outputs = re.findall(r"utputs(?:\.|\[\")(\w+)", terraform + cdk)
    assert set(outputs) == {"ParkedQueueArn", "ReplayFunctionArn"} <= TEMPLATE["Outputs"].keys()
    # The main queue and the DLQ.
    assert terraform.count(f'tags = {{ "{TAG_KEY}" = local.tag }}') == 2
    assert f'Tags.of(member).add("{TAG_KEY}", TAG)' in cdk


def test_the_command_that_deploys_a_fleet_makes_one_with_a_sweep() -> None:
    stack = deployed_by(FLEET)

    assert stack.broken_rules == []
    assert {"QueueTag", "SweepFunctionArn", "ArchiveUri", "AlarmTopicArn"} <= stack.outputs.keys()
    assert stack.outputs["QueueTag"]["Value"] == "dlq-fleet"


def test_queues_join_by_the_tag_that_the_role_asks_for() -> None:
    assert FLEET.count(f" --tags {TAG_KEY}=dlq-fleet\n") == 2


def test_the_service_control_policy_guards_the_tag_in_all_calls_that_set_it() -> None:
    policy = json.loads((EXAMPLES / "tag-scp.json").read_text("utf-8"))
    [statement] = policy["Statement"]

    assert statement["Effect"] == "Deny"
    assert statement["Condition"]["ForAnyValue:StringEquals"]["aws:TagKeys"] == [TAG_KEY]
    for service in ("sqs", "kms"):
        model = Session().get_service_model(service)
        taking_tags = set()
        for name in model.operation_names:
            shape = model.operation_model(name).input_shape
            if shape and {"tags", "Tags", "TagKeys"} & shape.members.keys():
                taking_tags.add(f"{service}:{name}")
        denied = {action for action in statement["Action"] if action.startswith(f"{service}:")}
        # With tags that one asks for the right to call TagResource.
        assert denied == taking_tags - {"kms:ReplicateKey"}


def test_a_hot_queue_is_read_as_the_stack_reads_a_dlq_of_its_own() -> None:
    source = (EXAMPLES / "hot_queue.yaml").read_text("utf-8")
    mapping = load_template(EXAMPLES / "hot_queue.yaml")["Resources"]["HotQueue"]["Properties"]
    own = Stack.of(TEMPLATE).resources["ReplayFunctionDeadLetters"]["Properties"]
    terraform = (EXAMPLES / "fleet.tf").read_text("utf-8")
    cdk = (EXAMPLES / "fleet_app.py").read_text("utf-8")

    assert [str(match) for match in lint(source, regions=["us-east-1"])] == []
    assert mapping.keys() == own.keys() - {"Enabled"}
    for name in ("BatchSize", "MaximumBatchingWindowInSeconds", "FunctionResponseTypes"):
        value = json.dumps(mapping[name])
        assert str(mapping[name]) == str(own[name])
        argument = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
        assert re.search(rf"{argument} *= *{re.escape(value)}", terraform)
        assert f"{argument}={value}," in cdk


def test_the_attributes_of_the_dlq_are_json() -> None:
    [attributes] = re.findall(r"--attributes '(\{.*?\})'", INSTALL, re.DOTALL)

    assert json.loads(json.loads(attributes)["RedrivePolicy"])["maxReceiveCount"] == 1000


def test_the_page_of_the_repository_names_outputs_and_parameters_that_there_are() -> None:
    """Also each policy that the stack creates and attaches to nothing."""
    policies = Stack.of(TEMPLATE, ALL_PARTS).of_type("AWS::IAM::ManagedPolicy")
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+|DLQ\w+)`", README_SAR))

    assert named - TEMPLATE["Parameters"].keys() - TEMPLATE["Outputs"].keys() <= {"DlqReplay"}
    assert {f"{name}Arn" for name in policies} <= named


# --- The sample consumer


def references(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(references, node))
    if not isinstance(node, dict):
        return set()
    return {node["Ref"]} if "Ref" in node else references(list(node.values()))


def test_the_consumer_s_stack_fits_its_code_and_the_replay_s_stack() -> None:
    stack = load_template(EXAMPLES / "consumer.yaml")
    function, table = (stack[name]["Properties"] for name in stack)
    sample = ROOT / "functions" / "sample_consumer"
    code = (sample / "handler.py").read_text("utf-8")
    documented = set(re.findall(r"^``([A-Z_]+)``", code, re.MULTILINE))
    store = DynamoDBPersistenceLayer("processed")
    default_visibility_seconds = 30

    assert references(stack) <= stack.keys() | Stack.of(TEMPLATE).outputs.keys()
    assert function["Environment"]["Variables"].keys() == documented
    assert set(re.findall(r'environ\["([A-Z_]+)"\]', code)) == documented - {"FAILURE_TABLE"}
    assert (ROOT / function["CodeUri"], function["Handler"]) == (sample, "handler.lambda_handler")
    assert "build-SampleConsumerFunction:" in (sample / "Makefile").read_text("utf-8")
    assert function["Timeout"] <= default_visibility_seconds
    answers = function["Events"]["Orders"]["Properties"]["FunctionResponseTypes"]
    assert answers == ["ReportBatchItemFailures"]
    assert table["KeySchema"] == [{"AttributeName": store.key_attr, "KeyType": "HASH"}]
    assert table["TimeToLiveSpecification"]["AttributeName"] == store.expiry_attr


# --- "Other Spark": the job that `make spark-package` packs


def command(*first: str) -> list[str]:
    """Return the words of the only command that begins so, without these."""
    text = "\n".join(blocks(SCHEDULE.split("\n## Other Spark\n")[1].split("\n## ")[0], "sh"))
    lines = re.findall(r"(?:'[^']*'|[^'\n])+", text.replace("\\\n", " "))
    commands = (tuple(shlex.split(line)) for line in lines)
    [command_words] = [words for words in commands if words[: len(first)] == first]
    return list(command_words[len(first) :])


def test_spark_submit_starts_a_run() -> None:
    _, files, script, *arguments = command("spark-submit")

    assert (files, script) == ("dist/spark_reprocess.zip", "dist/spark_job.py")
    assert parse(arguments).name == "run"


def test_emr_serverless_takes_the_example_and_starts_the_same_run() -> None:
    words = command("aws", "emr-serverless", "start-job-run")
    given: dict[str, Any] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        name = re.sub(r"-(\w)", lambda match: match[1].upper(), option.removeprefix("--"))
        given[name] = value
    given["jobDriver"] = json.loads(given["jobDriver"])
    model = Session().get_service_model("emr-serverless").operation_model("StartJobRun")
    assert model.input_shape is not None
    submit = given["jobDriver"]["sparkSubmit"]

    report = ParamValidator().validate(given | {"clientToken": "token"}, model.input_shape)
    assert not report.generate_report()
    assert parse(submit["entryPointArguments"]).name == "run"
    assert submit["entryPoint"] == "s3://BUCKET/emr/spark_job.py"
    assert "--py-files s3://BUCKET/emr/spark_reprocess.zip " in submit["sparkSubmitParameters"]


# --- "With DuckDB, Athena or Spark": other tools read what a drain writes

DUCKDB, ATHENA = blocks(REDRIVE.split("\n### With DuckDB, Athena or Spark\n")[1], "sql")
TYPES = {"string": pa.string(), "timestamp": ARROW_SCHEMA.field("sent_at").type}


def test_duckdb_counts_each_message_once(tmp_path: Path) -> None:
    """Of two drains that hold one message twice, and one of another tenant."""
    acme = {"tenant": MessageAttribute("String", "acme")}
    ours = [message(f"m-{n}", '{"customer": {"region": "ap"}}', attributes=acme) for n in range(3)]
    for drain, messages in {"d1": ours[:2], "d2": [*ours[1:], message("m-9")]}.items():
        folder = tmp_path / "messages" / f"drain_id={drain}"
        folder.mkdir(parents=True)
        rows = [to_row(message, queue_url("parked"), datetime.now(UTC)) for message in messages]
        pq.write_table(to_table(rows), folder / "part.parquet")
    _, query = DUCKDB.split("\n", maxsplit=1)

    answer = duckdb.connect().execute(query.replace("s3://BUCKET/archive", str(tmp_path)))

    assert answer.fetchall() == [(None, "ap", 3)]


def test_the_columns_of_athena_s_table_are_those_of_the_archive() -> None:
    columns = dict(re.findall(r"(\w+) (string|timestamp)\b", ATHENA.partition("attributes")[0]))

    assert len(columns) > 5
    for name, kind in columns.items():
        assert ARROW_SCHEMA.field(name).type == TYPES[kind], name
    fields_of_attribute = ARROW_SCHEMA.field("attributes").type.item_type
    assert re.findall(r"(\w+): \w+", ATHENA) == [field.name for field in fields_of_attribute]
