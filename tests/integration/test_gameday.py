"""``dlq gameday`` in an installation that the template makes: healthy, and sabotaged."""

import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from dlq_cli.__main__ import main
from dlq_cli.gameday.joints import Joint, Name, Verdict
from dlq_cli.gameday.run import Clock
from dlq_cli.gameday.watch import Watch
from dlq_cli.stack.rules import Severity, examine
from dlq_cli.stack.survey import survey
from dlq_cli.stack_values import read_stack
from functions.replay import handler
from local_sqs.faults import Effect, Fault
from spark_reprocess.errors import InputError
from tests.contract.template import ROOT
from tests.gameday_world import (
    ACCOUNT,
    CLOUDWATCH_MAY_USE_KEY,
    KEY,
    OPERATOR,
    REAL_PARKED,
    REGION,
    ROOT_KEY_POLICY,
    TOPIC,
    RefusedError,
    World,
    busy,
    hidden_in,
    nothing_failed,
    real_messages_are_untouched,
    verdicts,
    where_tests_are,
)

Sabotage = Callable[[World], object]


@pytest.fixture(params=[False, True], ids=["standard", "fifo"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with busy(is_fifo=request.param) as one:
        yield one


@pytest.mark.parametrize("is_fifo", [False, True], ids=["standard", "fifo"])
def test_a_healthy_installation_passes_time_after_time(*, is_fifo: bool) -> None:
    """``make soak-gameday`` lets it pass fifty times."""
    for _ in range(int(os.environ.get("GAMEDAYS", "5"))):
        with busy(is_fifo=is_fifo) as world:
            report = world.game_day()

            nothing_failed(report)
            assert not report.has_failed
            assert where_tests_are(world) == []
            assert hidden_in(world, world.parked) == 0
            assert world.front.log.count("ReceiveMessage", world.main.name) == 0
            real_messages_are_untouched(world)


def test_a_game_day_repeats_on_the_same_installation(world: World) -> None:
    first, second = world.game_day(), world.game_day(ring=True)

    nothing_failed(first)
    nothing_failed(second)
    assert first.run_id != second.run_id
    assert where_tests_are(world) == []


@pytest.mark.parametrize("ahead_seconds", [-20, 20])
def test_a_clock_that_differs_from_that_of_aws_fails_nothing(ahead_seconds: int) -> None:
    """The world begins 20 s before a minute does, so the fast clock is in the next minute."""
    with busy() as world:
        world.ahead_seconds = ahead_seconds
        nothing_failed(world.game_day(ring=True))


def test_no_consumer_sees_the_message_by_default(world: World) -> None:
    world.consumer = "handles"

    nothing_failed(world.game_day())
    assert world.front.log.count("SendMessageBatch", world.main.name) == 0


def test_a_sweep_gives_real_messages_back_at_once(world: World) -> None:
    session: Any = OPERATOR
    installation = survey(session, "stack", peek=False)
    watch = Watch(session.client, read_stack(session, "stack"), lambda: world.now)

    assert watch.sweep(installation.parked).tests == ()

    assert hidden_in(world, world.parked) == 0
    assert world.bodies(world.parked) == sorted(REAL_PARKED)


def test_the_message_does_not_count_as_an_arrival(world: World) -> None:
    world.game_day()
    sums: dict[str, float] = {}
    for _, name, _, value in world.metrics:
        sums[name] = sums.get(name, 0) + value

    assert sums["Parked_attempts_exhausted"] == 1
    assert sums["Arrived"] == sums["ArrivedTotal"] == 0
    assert "ReplayCount" not in sums


def test_an_alarm_rings_once_and_falls_silent(world: World) -> None:
    report = world.game_day(ring=True)

    nothing_failed(report)
    assert len(world.published) == 1
    assert {alarm.state for alarm in world.alarms.values()} == {"OK"}


def test_through_a_consumer_that_fails_the_message_is_parked(world: World) -> None:
    world.consumer = "fails"
    report = world.game_day(through_consumer=True)

    assert verdicts(report)[Name.CONSUMER] is Verdict.PASSED
    assert Name.FUNCTION not in verdicts(report)
    assert not report.has_failed
    world.pass_time(60)
    assert not {"MainQueue", "MainQueue.fifo"} & set(where_tests_are(world))


def test_with_many_parked_messages_none_is_received(world: World) -> None:
    world.put(world.parked, *(f"more {number}" for number in range(120)))
    received = world.front.log.count("ReceiveMessage", world.parked.name)
    report = world.game_day()

    nothing_failed(report)
    assert world.front.log.count("ReceiveMessage", world.parked.name) == received
    by_name = {joint.name: joint for joint in report.joints}
    assert "the next drain deletes the test message" in by_name[Name.CLEAN_UP].observed


def test_a_parked_queue_that_moves_what_is_received_is_left_alone(world: World) -> None:
    policy = {"deadLetterTargetArn": world.dlq.arn, "maxReceiveCount": 3}
    world.set_queue(world.parked, RedrivePolicy=json.dumps(policy))
    before = world.front.log.count("ReceiveMessage", world.parked.name)

    assert not world.game_day().has_failed
    assert world.front.log.count("ReceiveMessage", world.parked.name) == before


def test_without_alarms_and_job_there_is_less_to_watch() -> None:
    with busy(CreateAlarms="false", CreateSparkJob="false") as world:
        report = world.game_day()

    assert not report.has_failed
    skipped = {name for name, one in verdicts(report).items() if one is Verdict.SKIPPED}
    assert skipped == {Name.ALARMS, Name.TOPIC, Name.DRAIN}


def test_a_log_level_without_parked_lines_leaves_the_copy_as_proof() -> None:
    with busy(LogLevel="ERROR") as world:
        report = world.game_day()

        assert not report.has_failed
        assert where_tests_are(world) == []


@pytest.mark.parametrize(
    ("operation", "unseen"),
    [
        ("logs.FilterLogEvents", set()),
        ("sqs.ReceiveMessage", set()),
        ("cloudwatch.GetMetricStatistics", {Name.METRIC}),
        ("cloudwatch.DescribeAlarms", {Name.ALARMS, Name.TOPIC}),
        ("cloudwatch.DescribeAlarmHistory", {Name.TOPIC}),
        ("sns.GetTopicAttributes", {Name.TOPIC}),
        ("glue.GetJob", {Name.DRAIN}),
        ("iam.SimulatePrincipalPolicy", set()),
        ("sqs.ChangeMessageVisibilityBatch", set()),
        ("sqs.DeleteMessageBatch", set()),
        ("lambda.ListEventSourceMappings", set()),
        ("pipes.ListPipes", set()),
    ],
)
def test_what_the_operator_may_not_ask_is_unknown_and_no_failure(
    world: World, operation: str, unseen: set[Name]
) -> None:
    world.operator_denied = {operation}
    report = world.game_day()

    assert not report.has_failed
    unknown = {name for name, one in verdicts(report).items() if one is Verdict.UNKNOWN}
    assert unknown == unseen
    world.operator_denied = set()
    world.clock.advance(11)
    nothing_failed(world.game_day())
    assert where_tests_are(world) == []
    real_messages_are_untouched(world)


def test_throttled_looks_do_not_end_a_game_day() -> None:
    with busy() as world:
        world.put(world.parked, *(f"more {number}" for number in range(120)))
        refuse, looks = world.logs_FilterLogEvents, []

        def throttled(asked: Mapping[str, Any]) -> Mapping[str, Any]:
            looks.append(asked)
            if len(looks) < 4:
                raise RefusedError("ThrottlingException")
            return refuse(asked)

        world.logs_FilterLogEvents = throttled  # type: ignore[method-assign]

        nothing_failed(world.game_day())


def test_a_game_day_that_sees_neither_log_nor_queue_says_so() -> None:
    with busy() as world:
        world.put(world.parked, *(f"more {number}" for number in range(120)))
        world.operator_denied = {"logs.FilterLogEvents"}
        report = world.game_day()

    assert not report.has_failed
    assert verdicts(report)[Name.FUNCTION] is Verdict.UNKNOWN
    assert report.seconds < 120


def test_when_all_its_time_is_over_it_waits_for_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each joint has a limit of its own, and even these limits hardly add up to 15 minutes.
    monkeypatch.setattr("dlq_cli.gameday.run.TOTAL_SECONDS", 60.0)
    with busy() as world:
        world.makes_metrics = False
        report = world.game_day()

    assert not report.has_failed
    assert verdicts(report)[Name.METRIC] is Verdict.UNKNOWN
    assert verdicts(report)[Name.CLEAN_UP] is Verdict.PASSED


# --- sabotaged


@dataclass(frozen=True)
class Case:
    """A sabotage, and what a game day has to say of it.

    Attributes:
        subject: the resource that is at fault.
        fault: a part of what is said of it.
        failed: the joints that fail.
    """

    name: str
    sabotage: Sabotage
    subject: str
    fault: str
    failed: tuple[Name, ...]
    through_consumer: bool = False
    ring: bool = False


def mapping(**changes: Any) -> Sabotage:
    return lambda world: world.mappings[0].update(changes)


def attributes(queue: str, **values: str) -> Sabotage:
    return lambda world: world.set_queue(world.queue(queue), **values)


def redrive(source: str, target: str, count: int = 5) -> Sabotage:
    def apply(world: World) -> None:
        if target == "Elsewhere":
            world.model.create_queue(target, {})
        target_arn = world.queue(target).arn
        policy = {"deadLetterTargetArn": target_arn, "maxReceiveCount": count}
        world.set_queue(world.queue(source), RedrivePolicy=json.dumps(policy))

    return apply


def set_to(**values: Any) -> Sabotage:
    def apply(world: World) -> None:
        for name, value in values.items():
            assert hasattr(world, name)
            setattr(world, name, value)

    return apply


def denied(role: str, action: str, queue: str) -> Sabotage:
    return lambda world: world.denied.add((role, action, world.queue(queue).arn))


def refused(operation: str, queue: str, code: str) -> Sabotage:
    """The function's calls are refused, by a resource policy or a key."""
    return lambda world: world.function_front.faults.add(
        Fault(Effect.REFUSE, operation, queue, code=code)
    )


def together(*all_of: Sabotage) -> Sabotage:
    def apply(world: World) -> None:
        for one in all_of:
            one(world)

    return apply


def alarm(name: str, **changes: Any) -> Sabotage:
    return lambda world: world.alarms[name].properties.update(changes)


def past_failure(world: World) -> None:
    data = {"actionState": "Failed", "notificationResource": TOPIC, "error": "no such endpoint"}
    world.alarms["ReplayErrorsAlarm"].history.append((world.clock.time() - 3600, data))


def topic_policy(principal: Mapping[str, str]) -> Sabotage:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sns:Publish"}
    return set_to(topic_policy={"Statement": [{**statement, "Resource": TOPIC}]})


F, P, S = (Name.FUNCTION,), (Name.PARKED,), (Name.SETTINGS,)

CASES = [
    Case("mapping off", mapping(State="Disabled"), "ReplayFunction", "replay is paused", F),
    Case("no mapping", set_to(mappings=[]), "ReplayFunction", "has no event source mapping", F),
    Case(
        "mapping of another queue",
        mapping(EventSourceArn=f"arn:aws:sqs:{REGION}:{ACCOUNT}:other"),
        "ReplayFunction",
        "is fed by",
        (*S, *F),
    ),
    Case(
        "no partial responses",
        mapping(FunctionResponseTypes=[]),
        "ReplayFunction",
        "lacks ReportBatchItemFailures",
        S,
    ),
    Case("no concurrency", set_to(concurrency=0), "ReplayFunction", "concurrency is 0", (*S, *F)),
    Case("recursion", set_to(recursive_loop="Terminate"), "ReplayFunction", "ends this loop", S),
    Case("function crashes", set_to(crashes=True), "ReplayFunction", "Function call failed", F),
    Case(
        "visibility below the timeout",
        attributes("DeadLetterQueue", VisibilityTimeout="10"),
        "DeadLetterQueue",
        "below the function's timeout of 30 s",
        S,
    ),
    Case(
        "retention shorter than a hold",
        attributes("DeadLetterQueue", MessageRetentionPeriod="3600"),
        "DeadLetterQueue",
        "expires on arrival",
        S,
    ),
    Case(
        "no redrive policy",
        attributes("MainQueue", RedrivePolicy=""),
        "MainQueue",
        "leads to nowhere",
        S,
    ),
    Case(
        "redrive to another queue",
        redrive("MainQueue", "Elsewhere"),
        "MainQueue",
        "leads to arn:aws:sqs:us-east-1:123456789012:Elsewhere",
        S,
    ),
    Case(
        "DLQ's net leads elsewhere",
        redrive("DeadLetterQueue", "Elsewhere", 1000),
        "DeadLetterQueue",
        "not to the parked queue",
        S,
    ),
    Case(
        "DLQ's net is too near",
        redrive("DeadLetterQueue", "ParkedQueue", 3),
        "DeadLetterQueue",
        "SQS parks messages while they still wait",
        S,
    ),
    Case(
        "DLQ does not admit the main queue",
        attributes(
            "DeadLetterQueue",
            RedriveAllowPolicy=json.dumps(
                {
                    "redrivePermission": "byQueue",
                    "sourceQueueArns": [f"arn:aws:sqs:{REGION}:{ACCOUNT}:other"],
                }
            ),
        ),
        "DeadLetterQueue",
        "does not admit MainQueue",
        S,
    ),
    Case(
        "the queue's policy denies the send",
        refused("SendMessageBatch", "ParkedQueue", "AccessDenied"),
        "ParkedQueue",
        "the function could not send to it: refused: AccessDenied",
        P,
    ),
    Case(
        "the role may not park",
        together(
            refused("SendMessageBatch", "ParkedQueue", "AccessDenied"),
            denied("ReplayRole", "sqs:SendMessage", "ParkedQueue"),
        ),
        "ParkedQueue",
        "role may not send to it",
        (*S, *P),
    ),
    Case(
        "the role may not replay",
        denied("ReplayRole", "sqs:SendMessage", "MainQueue"),
        "MainQueue",
        "role may not send to it",
        S,
    ),
    Case(
        "KMS denies the DLQ",
        together(
            attributes("DeadLetterQueue", KmsMasterKeyId=KEY),
            refused("ReceiveMessage", "DeadLetterQueue", "KMS.AccessDeniedException"),
        ),
        "DeadLetterQueue",
        f"may not use its KMS key {KEY}",
        (*S, *F),
    ),
    Case(
        "KMS denies the parked queue",
        together(
            attributes("ParkedQueue", KmsMasterKeyId=KEY),
            refused("SendMessageBatch", "ParkedQueue", "KMS.AccessDeniedException"),
        ),
        "ParkedQueue",
        f"may not use its KMS key {KEY}",
        (*S, *P),
    ),
    Case(
        "poller is refused",
        refused("ReceiveMessage", "DeadLetterQueue", "AccessDenied"),
        "ReplayFunction",
        "reports: PROBLEM: AccessDenied",
        F,
    ),
    Case("log denied", set_to(writes_log=False), "ReplayLogGroup", "has no line of the message", F),
    Case(
        "no metrics",
        set_to(makes_metrics=False),
        "ReplayLogGroup",
        "no value of Parked_attempts_exhausted",
        (Name.METRIC,),
    ),
    Case(
        "topic deaf",
        topic_policy({"Service": "events.amazonaws.com"}),
        "AlarmTopic",
        "its policy does not let cloudwatch.amazonaws.com publish",
        (Name.TOPIC,),
    ),
    Case(
        "topic deaf, and it shows",
        topic_policy({"AWS": f"arn:aws:iam::{ACCOUNT}:root"}),
        "AlarmTopic",
        "its policy does not let cloudwatch.amazonaws.com publish",
        (Name.TOPIC,),
    ),
    Case(
        "topic with SNS's own key",
        set_to(topic_key="alias/aws/sns"),
        "AlarmTopic",
        "SNS's own key",
        (Name.TOPIC,),
    ),
    Case("the topic's key is closed", set_to(topic_key=KEY), KEY, "does not let", (Name.TOPIC,)),
    Case(
        "nobody is subscribed",
        set_to(subscribed=0, pending=2),
        "AlarmTopic",
        "nobody is subscribed; 2 wait for confirmation",
        (Name.TOPIC,),
    ),
    Case(
        "a notice failed before",
        past_failure,
        "AlarmTopic",
        "no such endpoint",
        (Name.TOPIC,),
    ),
    Case(
        "alarm is muted",
        alarm("FailedSendsAlarm", ActionsEnabled=False),
        "FailedSendsAlarm",
        "switched off",
        (Name.ALARMS,),
    ),
    Case(
        "alarm has no topic",
        alarm("FailedSendsAlarm", AlarmActions=[]),
        "FailedSendsAlarm",
        "no topic",
        (Name.ALARMS,),
    ),
    Case(
        "alarm watches another queue",
        alarm("FailedSendsAlarm", Dimensions=[{"Name": "MainQueue", "Value": "old"}]),
        "FailedSendsAlarm",
        "watches MainQueue=old",
        (Name.ALARMS,),
    ),
    Case(
        "the job's role may not receive",
        denied("SparkJobRole", "sqs:ReceiveMessage", "ParkedQueue"),
        f"arn:aws:iam::{ACCOUNT}:role/job",
        "may not do sqs:ReceiveMessage on arn:aws:sqs",
        (Name.DRAIN,),
    ),
    Case(
        "the schedule is off",
        set_to(trigger_state="DEACTIVATED"),
        "SparkJobTrigger",
        "DEACTIVATED",
        (Name.DRAIN,),
    ),
    Case(
        "the job fails",
        set_to(runs=[{"Id": "r", "JobRunState": "FAILED", "ErrorMessage": "exit code 2"}]),
        "SparkJob",
        "ended as FAILED: exit code 2",
        (Name.DRAIN,),
    ),
    Case(
        "a consumer that does not fail",
        set_to(consumer="handles"),
        "MainQueue",
        "did not become a dead letter",
        (Name.CONSUMER,),
        through_consumer=True,
    ),
    Case(
        "no consumer",
        set_to(consumer=None),
        "MainQueue",
        "did not become a dead letter",
        (Name.CONSUMER,),
        through_consumer=True,
    ),
    Case(
        "a consumer, and no redrive policy",
        together(set_to(consumer="fails"), attributes("MainQueue", RedrivePolicy="")),
        "MainQueue",
        "leads to nowhere",
        (*S, Name.CONSUMER),
        through_consumer=True,
    ),
    Case(
        "topic open to another service only",
        topic_policy({"Service": "s3.amazonaws.com"}),
        "AlarmTopic",
        "its policy does not let cloudwatch.amazonaws.com publish",
        (Name.TOPIC,),
    ),
]


def causes(joints: list[Joint]) -> set[tuple[str, str]]:
    return {(cause.subject, cause.fault) for joint in joints for cause in joint.causes}


def broken_by_doctor() -> set[tuple[str, str]]:
    session: Any = OPERATOR
    found = examine(survey(session, "stack", peek=False))
    return {(one.subject, one.fault) for one in found if one.severity is Severity.BROKEN}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_sabotage_is_named_with_its_resource_and_nothing_else_is(case: Case) -> None:
    with busy() as world:
        case.sabotage(world)
        report = world.game_day(through_consumer=case.through_consumer, ring=case.ring)

        named = causes(list(report.joints)) | broken_by_doctor()
        [(subject, fault)] = named
        assert (subject, case.fault in fault) == (case.subject, True)
        assert report.has_failed
        failed = tuple(one.name for one in report.joints if one.verdict is Verdict.FAILED)
        assert failed == case.failed
        if case.through_consumer:
            return
        real_messages_are_untouched(world)
        assert set(where_tests_are(world)) <= {"DeadLetterQueue"}


def test_there_are_enough_sabotages() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 15


@pytest.mark.parametrize("account", ["123456789012", "999999999999"])
def test_a_parked_queue_that_is_missing_or_elsewhere_is_named_before_anything_is_sent(
    account: str,
) -> None:
    with busy() as world:
        url = f"https://sqs.us-east-1.amazonaws.com/{account}/gone"
        world.environment["PARKED_QUEUE_URL"] = url

        with pytest.raises(InputError, match=f"parked queue: asking about {url}: .*NonExistent"):
            world.game_day()
        assert world.front.log.count("SendMessageBatch") == 0


def test_a_key_that_lets_cloudwatch_in_is_fine() -> None:
    with busy() as world:
        world.topic_key = KEY
        world.key_policy = {"Statement": [*ROOT_KEY_POLICY["Statement"], CLOUDWATCH_MAY_USE_KEY]}

        nothing_failed(world.game_day())


def test_an_alarm_that_rings_and_cannot_notify_fails() -> None:
    with busy() as world:
        topic_policy({"Service": "s3.amazonaws.com"})(world)
        report = world.game_day(ring=True)

    assert verdicts(report)[Name.RING] is Verdict.FAILED
    assert {subject for subject, _ in causes(list(report.joints))} == {"AlarmTopic"}
    assert {one.state for one in world.alarms.values()} == {"OK"}


def test_a_refused_send_of_the_operator_leaves_nothing() -> None:
    with busy() as world:
        world.front.faults.add(Fault(Effect.REFUSE, "SendMessageBatch", code="AccessDenied"))
        report = world.game_day()

    assert causes(list(report.joints)) == {
        (
            "DeadLetterQueue",
            "it does not take your message: AccessDenied: Invented by a fault.",
        )
    }
    assert report.joints[-1].observed == "nothing was sent"
    assert verdicts(report)[Name.FUNCTION] is Verdict.SKIPPED
    assert where_tests_are(world) == []


def test_a_function_that_changes_the_copy_is_named() -> None:
    with busy() as world:
        real = handler.lambda_handler

        def forgets(event: Mapping[str, Any], context: Any) -> object:
            for record in event["Records"]:
                record["messageAttributes"]["sqs-dlq-replay-nb"]["stringValue"] = "999"
            return real(event, context)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(handler, "lambda_handler", forgets)
            report = world.game_day()

        [(subject, fault)] = causes(list(report.joints))
        assert subject == "ReplayFunction"
        assert fault == "changed the message on its way: replay count is 999, not 20"
        assert where_tests_are(world) == []


def test_a_function_with_other_settings_than_the_doctor_reads_is_named() -> None:
    with busy() as world:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MAIN_QUEUE_URL", world.environment["MAIN_QUEUE_URL"].replace("Main", "M"))
            report = world.game_day()

        assert [one.name for one in report.joints if one.causes] == [Name.PARKED]
        [(subject, fault)] = causes(list(report.joints))
        assert subject == "ReplayFunction"
        assert "foreign_source" in fault


def test_a_main_queue_that_takes_too_long_is_refused_before() -> None:
    with busy() as world:
        world.set_queue(world.main, VisibilityTimeout="3600")

        with pytest.raises(InputError, match="may take 18060 s"):
            world.game_day(through_consumer=True)


def test_an_alarm_that_would_keep_its_state_is_not_rung() -> None:
    with busy() as world:
        for one in world.alarms.values():
            one.properties["TreatMissingData"] = "ignore"

        with pytest.raises(InputError, match="no alarm of the stack is quiet"):
            world.game_day(ring=True)


def test_ctrl_c_cleans_up() -> None:
    with busy() as world:
        sleep = world.pass_time

        def interrupted(seconds: float) -> None:
            sleep(seconds)
            if where_tests_are(world) == ["ParkedQueue"]:
                raise KeyboardInterrupt

        world.pass_time = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            world.game_day()

        assert where_tests_are(world) == []
        real_messages_are_untouched(world)


# --- the verb


class Terminal(io.StringIO):
    """A person at a terminal, who types these lines."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def dlq(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    clock = Clock(lambda: world.now, world.pass_time)
    # The one thing that a verb takes from its module: a process has one clock.
    monkeypatch.setattr("dlq_cli.verbs.gameday.CLOCK", clock)
    session: Any = OPERATOR
    return lambda *words: main(["gameday", "--stack", "s", *words], lambda: session)


def test_the_verb_says_before_what_it_does_and_prints_each_joint(
    world: World, dlq: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert dlq("--yes") == 0

    out, err = capsys.readouterr()
    assert f"A test message goes to {world.dlq.name} and ends in {world.parked.name}." in err
    assert "(about 3) are received, hidden for some seconds and given back" in err
    assert "below 1 US cent" in err
    assert "✓      DLQ → function 4.0 s: its log names the message" in out
    last = out.splitlines()[-1]
    assert last.startswith("settings ✓ · message sent 0.0 s ✓ · DLQ → function 4.0 s ✓ · parked")
    assert last.endswith("cleaned up ✓")


def test_the_verb_fails_with_the_cause(
    world: World, dlq: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    topic_policy({"Service": "events.amazonaws.com"})(world)

    assert dlq("--yes") == 1
    out = capsys.readouterr().out
    fault = "AlarmTopic: its policy does not let cloudwatch.amazonaws.com publish"
    assert f"✗      topic: AlarmTopic\n       {fault}\n       to do: allow" in out
    assert f" · topic ✗ {fault} · drain ✓" in out.splitlines()[-1]


def test_the_transcript_is_one_object(
    world: World, dlq: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    world.mappings[0]["State"] = "Disabled"

    assert dlq("--yes", "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    joints = {joint["name"]: joint for joint in answer["joints"]}
    assert (answer["version"], answer["has_failed"], answer["message_id"]) == (1, True, None)
    assert joints["function"]["causes"][0]["subject"] == "ReplayFunction"
    assert joints["sent"]["verdict"] == "skipped"


def test_without_a_terminal_somebody_must_say_yes(
    world: World, dlq: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert dlq() == 2
    assert "this is no terminal: add --yes" in capsys.readouterr().err
    assert world.calls == 0


@pytest.mark.parametrize(
    ("words", "typed", "expected"),
    [
        ((), "y\n", (True, 1)),
        ((), "\n", (False, 1)),
        ((), "n\n", (False, 1)),
        ((), "", (False, 1)),
        (("--ring",), "yes\ny\n", (True, 2)),
        (("--ring",), "yes\nn\n", (False, 2)),
        (("--ring", "--yes"), "", (True, 0)),
    ],
)
def test_at_a_terminal_it_asks(
    world: World,
    dlq: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    typed: str,
    expected: tuple[bool, int],
) -> None:
    is_done, questions = expected
    monkeypatch.setattr("sys.stdin", Terminal(typed))

    assert dlq(*words) == (0 if is_done else 2)

    err = capsys.readouterr().err
    assert err.count("[y/N]") == questions
    assert ("this notifies 1 subscriber." in err) is ("--ring" in words)
    assert (world.front.log.count("SendMessageBatch", world.dlq.name) == 1) is is_done
    assert len(world.published) == (is_done and "--ring" in words)
    real_messages_are_untouched(world)


def test_a_terminal_without_unicode_gets_words(
    dlq: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=True))

    assert dlq("--yes") == 0
    assert b"\nok     DLQ to function 4.0 s" in raw.getvalue()


def test_every_right_that_a_game_day_needs_beyond_the_doctor_is_documented() -> None:
    with busy() as world:
        session: Any = OPERATOR
        survey(session, "stack", peek=False)
        of_doctor = set(world.operations)
        world.topic_key = KEY
        world.game_day(ring=True)

    needed = {one.replace(".", ":").removesuffix("Batch") for one in world.operations - of_doctor}
    page = (ROOT / "docs" / "gameday.md").read_text("utf-8")
    documented = set(re.findall(r"`([a-z]+:[A-Za-z]+)`", page.partition("## Rights")[2]))
    assert needed <= documented


def test_a_stack_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    session: Any = OPERATOR
    assert main(["gameday", "--yes"], lambda: session) == 2
    assert "no stack is given" in capsys.readouterr().err
