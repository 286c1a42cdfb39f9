"""The operator's tools on a fleet in moto. Of the tagging API, moto has nothing for queues."""

import json
import re
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from dlq.cli.command import main
from dlq.cli.verbs.trigger import ResumedQueue, pause, resume
from dlq.errors import InputError
from dlq_replay.aws.breaker_table import DynamoDbBreaker
from tests.contract.cloudformation import Stack
from tests.contract.template import TEMPLATE, statements_of
from tests.integration.conftest import Capture
from tests.support.answered_calls import Answer, session_answering, simulating
from tests.support.failure_table import create_failure_table
from tests.support.golden import assert_stored
from tests.support.installation import (
    FLEET,
    QUEUE_TAG,
    REGION,
    SWEEP_RULE,
    arn,
    client,
    fleet_outputs,
    join,
    make_fleet,
    make_mapping,
    make_queue,
    make_stack,
    tagged_resources,
    tags_of,
    url_of,
)

JSON = "application/x-amz-json-1.1"


@pytest.fixture
def fleet(endpoint: str) -> str:
    """A fleet that reads by schedule, with the queues of three teams. Nobody has joined."""
    stack = make_fleet()
    for name in ("orders", "refunds", "mails"):
        make_queue(f"{name}-dlq")
        make_queue(name, arn(f"{name}-dlq"), MessageRetentionPeriod="345600")
    return stack


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


def test_the_queues_of_a_stack_of_one_queue_are_left_to_it(fleet: str, capsys: Capture) -> None:
    make_queue("team-parked")
    make_queue("team-dlq", arn("team-parked"))
    make_queue("team", arn("team-dlq"))
    make_stack(
        "team",
        ReplayFunctionArn=f"arn:aws:lambda:{REGION}:123456789012:function:team",
        MainQueueUrl=url_of("team"),
        DeadLetterQueueArn=arn("team-dlq"),
        ParkedQueueArn=arn("team-parked"),
    )

    doctor("--json", "--stack", fleet)

    answer = json.loads(capsys.readouterr().out)
    of_team = [dlq for dlq in answer["dlqs"] if dlq["queue"].startswith("team")]
    assert [(dlq["queue"], dlq["state"], dlq["findings"]) for dlq in of_team] == [
        ("team-dlq", "has its own stack", []),
        ("team-parked", "has its own stack", []),
    ]
    assert "team" not in " ".join(answer["commands"])


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
    client("events").disable_rule(Name=SWEEP_RULE)

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


@pytest.fixture
def breaking_fleet(endpoint: str) -> str:
    """A fleet with a circuit breaker, of which two teams are members."""
    create_failure_table(client("dynamodb"), "failures")
    stack = make_fleet(FAILURE_TABLE="failures", BREAKER="on")
    for name in ("orders", "refunds"):
        make_queue(f"{name}-dlq")
        make_queue(name, arn(f"{name}-dlq"))
        join(name, f"{name}-dlq")
    return stack


def rule_state() -> str:
    return str(client("events").describe_rule(Name=SWEEP_RULE)["State"])


def let_gather(queue: str, messages: int) -> None:
    for _ in range(messages):
        client("sqs").send_message(QueueUrl=url_of(queue), MessageBody="gathered")


def limit_of(queue: str) -> int | None:
    now = int(time.time())
    breaker = DynamoDbBreaker(client("dynamodb"), "failures", queue, lambda: now)
    return breaker.read().get("limit")


def test_a_fleet_is_paused_and_resumed_by_its_rule_and_its_mappings(
    breaking_fleet: str, capsys: Capture
) -> None:
    make_mapping("replay", "refunds-dlq")
    session = session_answering(ANSWERS)
    let_gather("refunds-dlq", 90)

    states = pause(session, breaking_fleet)
    assert rule_state() == "DISABLED"
    assert list(states.values()) == ["DISABLED", "Disabled"]
    assert limit_of("refunds") is None

    assert main(["resume", "--stack", breaking_fleet], lambda: session) == 0
    printed = capsys.readouterr().out
    assert rule_state() == "ENABLED"
    assert f"rule {SWEEP_RULE}: ENABLED\nevent source mapping " in printed
    assert "refunds: at most 270 replays a minute, until what gathered is through\n" in printed
    # Nothing waits in its DLQ.
    assert "orders" not in printed
    assert (limit_of("refunds"), limit_of("orders")) == (270, None)


def test_where_nobody_knows_since_when_it_is_paused_the_limit_is_the_least(
    breaking_fleet: str,
) -> None:
    session = session_answering(ANSWERS)
    pause(session, breaking_fleet)
    let_gather("orders-dlq", 90)

    states, queues = resume(session, breaking_fleet)

    assert states == {f"rule {SWEEP_RULE}": "ENABLED"}
    assert queues == [ResumedQueue("orders", 20)]


def test_members_that_cannot_be_listed_or_asked_keep_nobody_from_a_resume(
    breaking_fleet: str,
) -> None:
    session = session_answering(NO_TAGS)
    pause(session, breaking_fleet)
    _, (queue,) = resume(session, breaking_fleet)
    assert queue.main_queue == f"fleet dlq-replay={QUEUE_TAG}"
    assert "AccessDenied" in queue.fault
    assert rule_state() == "ENABLED"

    refused = {"sqs.ListDeadLetterSourceQueues": refusing("AccessDenied")}
    session = session_answering({**ANSWERS, **refused})
    pause(session, breaking_fleet)
    _, queues = resume(session, breaking_fleet)
    assert {queue.fault for queue in queues} == {"SQS refuses: AccessDenied"}
    assert rule_state() == "ENABLED"


def test_a_fleet_that_nothing_feeds_is_told_what_to_do(endpoint: str) -> None:
    make_fleet()
    outputs = fleet_outputs()
    del outputs["SweepRuleName"]
    make_stack("unswept", **outputs)

    with pytest.raises(InputError, match="update it with Sweep=true, or create an event source"):
        pause(session_answering(ANSWERS), "unswept")


def role_of(**parameters: str) -> dict[str, Answer]:
    """Return IAM's simulator for the role of the template with these parameters."""
    role = Stack.of(TEMPLATE, parameters)
    loop = '{"RecursiveLoop": "Allow"}'
    return {
        "iam.SimulatePrincipalPolicy": simulating(statements_of(role)),
        "lambda.GetFunctionRecursionConfig": lambda _: ("application/json", loop),
    }


def sound() -> dict[str, Answer]:
    return {}


def with_faults() -> dict[str, Answer]:
    """A paused sweep, a role for another tag, a mapping that answers for whole batches."""
    client("events").disable_rule(Name=SWEEP_RULE)
    make_queue("orders-dlq")
    client("lambda").create_event_source_mapping(
        FunctionName="replay", EventSourceArn=arn("orders-dlq")
    )
    client("sqs").set_queue_attributes(
        QueueUrl=url_of("parked"), Attributes={"MessageRetentionPeriod": "345600"}
    )
    return role_of(QueueTag="pay", ParkedQueueArn=arn("before"))


def with_a_key_without_the_tag() -> dict[str, Answer]:
    key = client("kms").create_key()["KeyMetadata"]["Arn"]
    client("sqs").set_queue_attributes(
        QueueUrl=url_of("parked"), Attributes={"KmsMasterKeyId": key}
    )
    return {}


DOCTORED = {
    "a fleet": sound,
    "a fleet with several faults": with_faults,
    "a fleet whose key lacks the tag": with_a_key_without_the_tag,
}


@pytest.mark.parametrize("name", DOCTORED)
def test_the_doctor_examines_a_fleet_without_its_members(
    endpoint: str, name: str, capsys: Capture
) -> None:
    make_fleet()
    answers = role_of(QueueTag=QUEUE_TAG, ParkedQueueArn=arn("parked"), Sweep="true")
    answers |= DOCTORED[name]()

    code = main(["doctor", "--stack", FLEET], partial(session_answering, answers))

    out = re.sub(r"(key/|mapping )[0-9a-f-]+", r"\1ID", capsys.readouterr().out)
    assert_stored("doctor", name, f"{out}exit code {code}\n")


def test_a_test_message_needs_a_dlq(fleet: str, capsys: Capture) -> None:
    assert main(["doctor", "--send-test-message", "--stack", fleet]) == 2
    assert "has no main queue, because it is a fleet" in capsys.readouterr().err
