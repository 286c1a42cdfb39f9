import json
from dataclasses import replace
from typing import Any

import pytest

from dlq_cli.stack.facts import Installation, QueueFacts, TriggerFacts
from dlq_cli.stack.rules import Finding, Severity, examine
from dlq_replay.settings import ReplaySettings
from tests.builders import environment, queue_arn, queue_url

TRIGGER = TriggerFacts(
    name="event source mapping 1",
    state="Enabled",
    source_arn=queue_arn("dlq"),
    reports_batch_item_failures=True,
)
PIPE = replace(TRIGGER, name="pipe p", state="RUNNING")
OTHER = replace(PIPE, target="arn:aws:lambda:eu-west-1:123456789012:function:other")


def queue(role: str, **attributes: Any) -> QueueFacts:
    name = attributes.pop("name", role)
    targets = {"main": ("dlq", 5), "dlq": ("parked", 1000)}
    policy = {}
    if role in targets:
        target, count = targets[role]
        arn = queue_arn(target + ".fifo" * name.endswith(".fifo"))
        policy = {
            "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": count})
        }
    facts = {
        "QueueArn": queue_arn(name),
        "MessageRetentionPeriod": "345600" if role == "main" else "1209600",
        "VisibilityTimeout": "180",
        "MaximumMessageSize": "1048576",
        **policy,
        **attributes,
    }
    return QueueFacts(role, queue_url(name), facts)


def installation(**changes: Any) -> Installation:
    sound = Installation(
        function_name="replay",
        timeout_seconds=30,
        settings=ReplaySettings.from_env(environment()),
        main=queue("main"),
        dlq=queue("dlq"),
        parked=queue("parked"),
        triggers=(TRIGGER,),
        recursive_loop="Allow",
        dlq_source_arns=(queue_arn("main"),),
        denied_keys=(),
    )
    return replace(sound, **changes)


def redrive(target: str, count: int) -> str:
    return json.dumps({"deadLetterTargetArn": queue_arn(target), "maxReceiveCount": count})


def only(**changes: Any) -> Finding:
    (finding,) = examine(installation(**changes))
    return finding


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"main": queue("main", RedrivePolicy="")}, "its redrive policy leads to nowhere"),
        (
            {"main": queue("main", RedrivePolicy=redrive("other", 5))},
            f"its redrive policy leads to {queue_arn('other')}",
        ),
        ({"dlq": queue("dlq", RedrivePolicy=redrive("main", 1000))}, "not to the parked queue"),
        ({"dlq": queue("dlq", RedrivePolicy=redrive("parked", 20))}, "maxReceiveCount is 20"),
        (
            {"dlq": queue("dlq", RedriveAllowPolicy='{"redrivePermission": "denyAll"}')},
            "does not admit main",
        ),
        (
            {
                "parked": queue(
                    "parked",
                    RedriveAllowPolicy=json.dumps(
                        {"redrivePermission": "byQueue", "sourceQueueArns": [queue_arn("main")]}
                    ),
                )
            },
            "does not admit dlq",
        ),
        ({"dlq": queue("dlq", VisibilityTimeout="29")}, "Lambda refuses such an event source"),
        ({"triggers": (replace(TRIGGER, source_arn=queue_arn("main")),)}, "not by dlq"),
        (
            {"triggers": (replace(TRIGGER, reports_batch_item_failures=False),)},
            "lacks ReportBatchItemFailures",
        ),
        ({"recursive_loop": "Terminate"}, "Lambda ends this loop"),
        ({"reserved_concurrency": 0}, "it never runs"),
        *(
            ({"other_readers": (replace(OTHER, source_arn=queue_arn(of)),)}, "p takes messages out")
            for of in ("dlq", "parked")
        ),
        ({"denied_sends": ("main",)}, "role may not send to it"),
    ],
)
def test_what_is_broken(changes: dict[str, Any], fault: str) -> None:
    finding = only(**changes)

    assert finding.severity is Severity.BROKEN
    assert fault in finding.fault
    assert finding.fix


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"main": queue("main", RedrivePolicy=redrive("dlq", 1))}, "maxReceiveCount is 1"),
        ({"dlq": queue("dlq", RedrivePolicy="")}, "has no redrive policy"),
        ({"parked": queue("parked", MessageRetentionPeriod="345600")}, "for 4 days; then SQS"),
        ({"parked": queue("parked", RedrivePolicy=redrive("x", 3))}, "was received 3 times to"),
        ({"main": queue("main", MessageRetentionPeriod="1209600")}, "expires on arrival"),
        # The threshold on SQS's own age: what is left for the alarm, which rings 2 days before.
        ({"main": queue("main", MessageRetentionPeriod="1036800")}, "rings for each that stays"),
        ({"main": queue("main", MessageRetentionPeriod="345601")}, "NearestExpiryAlarm rings too"),
        ({"main_retention_seconds": 1_036_800}, "NearestExpiryAlarm rings for each dead letter"),
        ({"dlq": queue("dlq", VisibilityTimeout="30")}, "below six times"),
        ({"triggers": ()}, "has no event source mapping and no pipe"),
        ({"replay_enabled": False}, "mapping 1 is on, but ReplayEnabled is false"),
        (
            {"triggers": (replace(TRIGGER, state="Disabled"),)},
            "replay is paused: event source mapping 1 is Disabled",
        ),
        (
            {"triggers": (replace(TRIGGER, state="Disabled"), replace(PIPE, state="STOPPED"))},
            "replay is paused: event source mapping 1 is Disabled, pipe p is STOPPED",
        ),
        ({"dlq_source_arns": (queue_arn("main"), queue_arn("invoices"))}, "letters of invoices"),
        ({"parked": queue("parked", MaximumMessageSize="262144")}, "takes 262,144 bytes"),
        (
            {
                "settings": ReplaySettings.from_env(environment(FAILURE_TABLE="reasons")),
                "has_failure_table": False,
            },
            "does not exist",
        ),
    ],
)
def test_what_is_a_risk(changes: dict[str, Any], fault: str) -> None:
    finding = only(**changes)

    assert finding.severity is Severity.RISK
    assert fault in finding.fault
    assert finding.fix


def shared(*names: str, **changes: Any) -> Installation:
    """An installation with these other main queues configured; all of them use the DLQ."""
    arns = [queue_arn(name) for name in names]
    policy = redrive("dlq", 5)
    return installation(
        **{
            "settings": ReplaySettings.from_env(environment(OTHER_MAIN_QUEUE_ARNS=",".join(arns))),
            "other_main": tuple(queue("main", name=name, RedrivePolicy=policy) for name in names),
            "dlq_source_arns": (*arns, queue_arn("main")),
            **changes,
        }
    )


def test_a_source_that_is_not_configured_is_named_with_the_parameter_to_set() -> None:
    arns = tuple(queue_arn(name) for name in ("main", "invoices", "refunds"))
    (finding,) = examine(shared("invoices", dlq_source_arns=arns))

    assert finding.severity is Severity.RISK
    assert "also takes the dead letters of refunds, which are not" in finding.fault
    value = f"{queue_arn('invoices')},{queue_arn('refunds')}"
    assert finding.fix == f"set OtherMainQueueArns={value}"


@pytest.mark.parametrize("can_be_read", [True, False])
def test_a_configured_queue_that_does_not_use_the_dlq_is_broken(*, can_be_read: bool) -> None:
    elsewhere = queue("main", name="invoices", RedrivePolicy=redrive("other", 5))
    changes = {"dlq_source_arns": (queue_arn("main"),)}
    others = (elsewhere,) if can_be_read else ()
    (finding,) = examine(shared("invoices", other_main=others, **changes))

    assert (finding.severity, finding.subject) == (Severity.BROKEN, "invoices")
    assert "take " in finding.fix


@pytest.mark.parametrize(
    ("attributes", "subjects", "fault"),
    [
        ({"MessageRetentionPeriod": "1209600"}, ["dlq"], "and invoices for 14 days"),
        ({"RedrivePolicy": redrive("dlq", 2)}, ["invoices"], "maxReceiveCount is 2"),
        ({"MaximumMessageSize": "2097152"}, ["dlq", "parked"], "invoices 2,097,152"),
    ],
)
def test_each_main_queue_is_examined(
    attributes: dict[str, str], subjects: list[str], fault: str
) -> None:
    usual = {"RedrivePolicy": redrive("dlq", 5)}
    other = queue("main", name="invoices", **{**usual, **attributes})
    found = examine(shared("invoices", other_main=(other,)))

    assert [one.subject for one in found if fault in one.fault] == subjects


@pytest.mark.parametrize("triggers", [(), (replace(TRIGGER, state="Disabled"),)])
def test_triggers_that_could_not_be_listed_may_feed_the_function(triggers: Any) -> None:
    of = installation(triggers=triggers, knows_triggers=False)

    assert examine(of) == []
    assert of.is_fed


def test_a_dead_letter_that_may_expire_on_arrival_is_broken_where_it_can_be_mended() -> None:
    found = examine(installation(dlq=queue("dlq", MessageRetentionPeriod="345600")))

    assert [one.severity for one in found] == [Severity.BROKEN, Severity.RISK]
    assert "expires on arrival" in found[0].fault


def fifo(**changes: Any) -> Installation:
    main, dlq, parked = (
        queue(role, name=f"{role}.fifo", FifoQueue="true") for role in ("main", "dlq", "parked")
    )
    trigger = replace(TRIGGER, source_arn=dlq.arn)
    queues = {"main": main, "dlq": dlq, "parked": parked}
    return installation(
        **queues | {"triggers": (trigger,), "dlq_source_arns": (main.arn,)} | changes
    )


def test_a_fifo_dlq_hides_messages_for_less_than_the_deduplication_window() -> None:
    (finding,) = examine(fifo(dlq=queue("dlq", name="dlq.fifo", VisibilityTimeout="300")))

    assert "VisibilityTimeout is 300 s" in finding.fault


KEY = "arn:aws:kms:eu-west-1:123456789012:key/data"


@pytest.mark.parametrize(
    "sound",
    [
        installation(),
        fifo(),
        shared("invoices", "refunds"),
        *(
            installation(triggers=(replace(TRIGGER, state="Disabled"), replace(PIPE, state=state)))
            for state in ("RUNNING", "STARTING", "UPDATING")
        ),
        installation(consumers={"orders": 30}),
        installation(other_readers=(replace(OTHER, state="STOPPED"),)),
    ],
)
def test_a_sound_installation_has_nothing_to_change(sound: Installation) -> None:
    assert examine(sound) == []


@pytest.mark.parametrize(
    ("changes", "severity", "subject", "fault"),
    [
        (
            {"data_key_admits_alarms": False},
            Severity.BROKEN,
            "DataKmsKeyArn",
            "no alarm reaches the topic",
        ),
        ({"missing_logs": ("/shop",)}, Severity.RISK, "/shop", "no such log group"),
        (
            {
                **{role: queue(role, KmsMasterKeyId=KEY) for role in ("main", "parked")},
                "denied_keys": (KEY,),
            },
            Severity.BROKEN,
            "main, parked",
            "may not use its KMS key",
        ),
    ],
)
def test_a_finding_names_what_it_is_about(
    changes: dict[str, Any], severity: Severity, subject: str, fault: str
) -> None:
    finding = only(**changes)

    assert (finding.severity, finding.subject) == (severity, subject)
    assert fault in finding.fault


def test_what_could_not_be_found_out_comes_last() -> None:
    found = examine(installation(unknown=("recursion: AccessDenied",), reserved_concurrency=0))

    assert [one.severity for one in found] == [Severity.BROKEN, Severity.UNKNOWN]


@pytest.mark.parametrize("key", [None, "", "alias/aws/sqs", "arn:aws:kms:r:1:alias/aws/sqs"])
def test_sqs_s_own_keys_need_no_permission(key: str | None) -> None:
    facts = queue("main") if key is None else queue("main", KmsMasterKeyId=key)

    assert facts.customer_key is None


@pytest.mark.parametrize(
    ("timeout_seconds", "severity", "parts"),
    [
        (31, Severity.RISK, ["may run for 31 s: a throttled consumer", "set it to 186 s"]),
        (181, Severity.BROKEN, ["Lambda refuses such an event source", "set it to 1086 s"]),
    ],
)
def test_a_consumer_that_may_outlast_the_visibility_timeout_is_found(
    timeout_seconds: int, severity: Severity, parts: list[str]
) -> None:
    finding = only(consumers={"orders": timeout_seconds})

    assert (finding.severity, finding.subject) == (severity, "main")
    assert all(part in f"{finding.fault}; {finding.fix}" for part in parts)
