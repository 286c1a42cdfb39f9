"""``dlq doctor --all`` on queues in moto; the tagging API, which moto lacks for SQS, is ours."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from dlq.cli.command import main
from tests.integration.conftest import Capture
from tests.support.answered_calls import Answer, session_answering
from tests.support.golden import assert_stored
from tests.support.installation import (
    FLEET,
    QUEUE_TAG,
    REGION,
    arn,
    client,
    fleet_outputs,
    make_queue,
    make_stack,
)
from tests.support.served import empty, served_aws

JSON = "application/x-amz-json-1.1"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served_aws() as url:
        yield url


@pytest.fixture
def endpoint(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    empty()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    return server


@pytest.fixture
def fleet(endpoint: str) -> str:
    """A fleet that reads by schedule, with the queues of three teams. Nobody has joined."""
    client("events").put_rule(Name="sweep-rule", ScheduleExpression="rate(1 minute)")
    make_stack(FLEET, **fleet_outputs())
    make_queue("parked")
    for name in ("orders", "refunds", "mails"):
        make_queue(f"{name}-dlq")
        make_queue(name, arn(f"{name}-dlq"), MessageRetentionPeriod="345600")
    return FLEET


def url_of(name: str) -> str:
    return str(client("sqs").get_queue_url(QueueName=name)["QueueUrl"])


def tags_of(name: str) -> Mapping[str, str]:
    return client("sqs").list_queue_tags(QueueUrl=url_of(name)).get("Tags", {})  # type: ignore[no-any-return]


def join(*names: str) -> None:
    for name in names:
        client("sqs").tag_queue(QueueUrl=url_of(name), Tags={"dlq-replay": QUEUE_TAG})


def tagged_resources(_: str) -> tuple[str, str]:
    """GetResources, for queues with the tag ``dlq-replay``."""
    resources: list[Any] = []
    for url in client("sqs").list_queues().get("QueueUrls", []):
        name = url.rpartition("/")[2]
        tags = [{"Key": key, "Value": value} for key, value in tags_of(name).items()]
        if any(tag["Key"] == "dlq-replay" for tag in tags):
            resources.append({"ResourceARN": arn(name), "Tags": tags})
    return JSON, json.dumps({"PaginationToken": "", "ResourceTagMappingList": resources})


def refusing(code: str) -> Answer:
    return lambda _: (JSON, json.dumps({"__type": code, "message": "no"}), 400)


ANSWERS: dict[str, Answer] = {"resource-groups-tagging-api.GetResources": tagged_resources}
NO_TAGS: dict[str, Answer] = {
    "resource-groups-tagging-api.GetResources": refusing("AccessDeniedException")
}


def doctor(*words: str, answers: Mapping[str, Answer] = ANSWERS) -> int:
    return main(
        ["doctor", "--all", *words, "--region", REGION], partial(session_answering, answers)
    )


def without_ports(text: str) -> str:
    return re.sub(r"127.0.0.1:\d+", "127.0.0.1:PORT", text)


def test_members_and_those_that_could_be_are_listed_with_the_commands(
    fleet: str, capsys: Capture
) -> None:
    join("orders", "orders-dlq", "mails-dlq", "parked")
    client("sqs").send_message(QueueUrl=url_of("orders-dlq"), MessageBody="b", DelaySeconds=900)
    client("sqs").set_queue_attributes(
        QueueUrl=url_of("refunds-dlq"), Attributes={"MessageRetentionPeriod": "345600"}
    )

    code = doctor("--stack", fleet)

    out = without_ports(capsys.readouterr().out)
    assert_stored("doctor", "all, of a fleet", f"{out}exit code {code}\n")


@pytest.mark.usefixtures("fleet")
def test_without_a_fleet_it_says_which_could_join(capsys: Capture) -> None:
    code = doctor()

    out = without_ports(capsys.readouterr().out)
    assert_stored("doctor", "all, without a fleet", f"{out}exit code {code}\n")


@pytest.mark.usefixtures("endpoint")
def test_an_empty_account_and_one_without_a_dlq_are_sentences(capsys: Capture) -> None:
    assert doctor() == 0
    assert "note: no queue in this account and Region" in capsys.readouterr().out

    make_queue("alone")
    assert doctor() == 0
    assert "note: 1 queue, and none is a DLQ: set the RedrivePolicy" in capsys.readouterr().out


def test_without_tags_nobody_is_said_to_have_joined(fleet: str, capsys: Capture) -> None:
    assert doctor("--stack", fleet, answers=NO_TAGS) == 0
    out = capsys.readouterr().out
    assert "note: tags cannot be read (tag:GetResources), so nobody can say which" in out
    assert "3 unknown" in out
    assert "aws sqs tag-queue" not in out


def test_a_paused_sweep_is_a_finding(fleet: str, capsys: Capture) -> None:
    client("events").disable_rule(Name="sweep-rule")

    assert doctor("--stack", fleet) == 0
    assert "replay is paused: rule sweep-rule is DISABLED" in capsys.readouterr().out


def test_tag_tags_the_sources_and_the_dlq_of_each_that_could_join(
    fleet: str, capsys: Capture
) -> None:
    join("mails")
    client("sqs").tag_queue(QueueUrl=url_of("refunds"), Tags={"dlq-replay": "pay"})

    assert doctor("--stack", fleet, "--tag") == 2
    assert "add --yes" in capsys.readouterr().err
    assert tags_of("orders") == {}

    assert doctor("--stack", fleet, "--tag", "--yes", "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    tagged = ["mails-dlq", "orders", "orders-dlq"]
    assert [entry["queue_url"].rpartition("/")[2] for entry in answer["tagged"]] == tagged
    for name in tagged:
        assert tags_of(name) == {"dlq-replay": QUEUE_TAG}
    # They belong to another fleet.
    assert tags_of("refunds") == {"dlq-replay": "pay"}
    assert tags_of("refunds-dlq") == {}


def test_a_queue_that_cannot_be_tagged_does_not_stop_the_others(
    fleet: str, capsys: Capture
) -> None:
    refused: list[str] = []

    def tag(body: str) -> tuple[Any, ...]:
        request = json.loads(body)
        if not refused:
            refused.append(request["QueueUrl"])
            return JSON, '{"__type": "com.amazonaws.sqs#AccessDenied", "message": "no"}', 400
        client("sqs").tag_queue(**request)
        return JSON, "{}"

    code = doctor("--stack", fleet, "--tag", "--yes", answers={**ANSWERS, "sqs.TagQueue": tag})

    out = capsys.readouterr().out
    assert code == 1
    assert f"not tagged: {refused[0]}: " in out
    assert out.count("\ntagged: ") == 5


def test_a_tag_needs_a_fleet(fleet: str, capsys: Capture) -> None:
    assert doctor("--tag") == 2
    assert "--tag: give --stack NAME of a fleet" in capsys.readouterr().err
    assert main(["doctor", "--tag", "--stack", fleet]) == 2
    assert "--tag: add --all" in capsys.readouterr().err
    assert doctor("--send-test-message", "--stack", fleet) == 2
    assert "leave --all out" in capsys.readouterr().err
