"""Findings of ``dlq doctor``: ``tests/golden/stack_rules.txt`` has them in words."""

import json
from dataclasses import replace
from typing import Any

import pytest

from dlq.aws.clients import DescribedQueue
from dlq.stack.rules import (
    Installation,
    Severity,
    StackFinding,
    TriggerFacts,
    examine,
    replay_time,
)
from dlq_replay.settings import ReplaySettings
from tests.contract.template import TEMPLATE
from tests.support.builders import environment, queue_arn, queue_url, redrive_to
from tests.support.golden import assert_stored, stored_rows

TRIGGER = TriggerFacts(
    name="event source mapping 1",
    state="Enabled",
    source_arn=queue_arn("dlq"),
    reports_batch_item_failures=True,
)
PIPE = replace(TRIGGER, name="pipe p", state="RUNNING")
OTHER = replace(PIPE, target="arn:aws:lambda:eu-west-1:123456789012:function:other")


def queue(role: str, **attributes: Any) -> DescribedQueue:
    name = attributes.pop("name", role)
    targets = {"main": ("dlq", 5), "dlq": ("parked", 1000)}
    policy = {}
    if role in targets:
        target, count = targets[role]
        policy = {"RedrivePolicy": redrive_to(target + ".fifo" * name.endswith(".fifo"), count)}
    facts = {
        "QueueArn": queue_arn(name),
        "MessageRetentionPeriod": "345600" if role == "main" else "1209600",
        "VisibilityTimeout": "180",
        **policy,
        **attributes,
    }
    return DescribedQueue(queue_url(name), facts)


def installation(**changes: Any) -> Installation:
    sound = Installation(
        function_name="replay",
        place=("--stack", "orders", "--region", "eu-west-1"),
        timeout_seconds=30,
        settings=settings(),
        main=queue("main"),
        dlq=queue("dlq"),
        parked=queue("parked"),
        triggers=(TRIGGER,),
        recursive_loop="Allow",
        dlq_source_arns=(queue_arn("main"),),
        denied_keys=(),
    )
    return replace(sound, **changes)


def settings(**variables: str) -> ReplaySettings:
    return ReplaySettings.from_env(environment(**variables))


def shared(*names: str, **changes: Any) -> Installation:
    """An installation with these other main queues configured; all of them use the DLQ."""
    arns = [queue_arn(name) for name in names]
    policy = redrive_to("dlq", 5)
    return installation(
        **{
            "settings": settings(OTHER_MAIN_QUEUE_ARNS=",".join(arns)),
            "other_main": tuple(queue("main", name=name, RedrivePolicy=policy) for name in names),
            "dlq_source_arns": (*arns, queue_arn("main")),
            **changes,
        }
    )


def with_invoices(**attributes: str) -> Installation:
    other = queue("main", name="invoices", **{"RedrivePolicy": redrive_to("dlq", 5), **attributes})
    return shared("invoices", other_main=(other,))


def fifo(**changes: Any) -> Installation:
    main = queue("main", name="main.fifo", FifoQueue="true")
    dlq = queue("dlq", name="dlq.fifo", FifoQueue="true")
    parked = queue("parked", name="parked.fifo", FifoQueue="true")
    trigger = replace(TRIGGER, source_arn=dlq.arn)
    queues = {"main": main, "dlq": dlq, "parked": parked}
    return installation(
        **queues | {"triggers": (trigger,), "dlq_source_arns": (main.arn,)} | changes
    )


def limiting(**changes: Any) -> Installation:
    """An installation with a circuit breaker, and another main queue."""
    variables = {"OTHER_MAIN_QUEUE_ARNS": queue_arn("invoices"), "FAILURE_TABLE": "failures"}
    facts = {"settings": settings(**variables), "account": "123456789012", **changes}
    return shared("invoices", **facts)


BACKOFF = {
    "MaxAttempts": "MAX_ATTEMPTS",
    "BackoffRate": "BACKOFF_RATE",
    "BackoffCapSeconds": "BACKOFF_CAP_SECONDS",
}
"""The parameters of the template, and the variables of its function."""

KEY = "arn:aws:kms:eu-west-1:123456789012:key/data"
OFF = replace(TRIGGER, state="Disabled")
ONLY_MAIN = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [queue_arn("main")]})

CHANGES: dict[str, dict[str, Any]] = {
    "main leads nowhere": {"main": queue("main", RedrivePolicy="")},
    "main leads elsewhere": {"main": queue("main", RedrivePolicy=redrive_to("other", 5))},
    "main moves after one receive": {"main": queue("main", RedrivePolicy=redrive_to("dlq", 1))},
    "main keeps as long as the DLQ": {"main": queue("main", MessageRetentionPeriod="1209600")},
    # The threshold on SQS's own age: what is left for the alarm, which rings 2 days before.
    "main keeps for 12 days": {"main": queue("main", MessageRetentionPeriod="1036800")},
    "main keeps a second longer": {"main": queue("main", MessageRetentionPeriod="345601")},
    "the alarm counts with 12 days": {"main_retention_seconds": 1_036_800},
    "dlq leads to main": {"dlq": queue("dlq", RedrivePolicy=redrive_to("main", 1000))},
    "dlq moves after 20 receives": {"dlq": queue("dlq", RedrivePolicy=redrive_to("parked", 20))},
    "dlq leads nowhere": {"dlq": queue("dlq", RedrivePolicy="")},
    "dlq admits nobody": {
        "dlq": queue("dlq", RedriveAllowPolicy='{"redrivePermission": "denyAll"}')
    },
    "dlq hides for less than the function runs": {"dlq": queue("dlq", VisibilityTimeout="29")},
    "dlq hides for less than six times": {"dlq": queue("dlq", VisibilityTimeout="30")},
    "dlq hides for as long as alarms wait": {"dlq": queue("dlq", VisibilityTimeout="1200")},
    "dlq hides for longer than alarms wait": {"dlq": queue("dlq", VisibilityTimeout="1201")},
    "dlq keeps for 4 days": {"dlq": queue("dlq", MessageRetentionPeriod="345600")},
    "dlq has another source": {"dlq_source_arns": (queue_arn("main"), queue_arn("invoices"))},
    "parked admits main alone": {"parked": queue("parked", RedriveAllowPolicy=ONLY_MAIN)},
    "parked keeps for 4 days": {"parked": queue("parked", MessageRetentionPeriod="345600")},
    "parked leads elsewhere": {"parked": queue("parked", RedrivePolicy=redrive_to("x", 3))},
    "parked is FIFO": {"parked": queue("parked", name="parked.fifo")},
    "another queue feeds the function": {
        "triggers": (replace(TRIGGER, source_arn=queue_arn("main")),)
    },
    "no partial answers": {"triggers": (replace(TRIGGER, reports_batch_item_failures=False),)},
    "nothing feeds the function": {"triggers": ()},
    "the mapping is off": {"triggers": (OFF,)},
    "mapping and pipe are off": {"triggers": (OFF, replace(PIPE, state="STOPPED"))},
    "Lambda ends the loop": {"recursive_loop": "Terminate"},
    "no concurrency, and something unknown": {
        "reserved_concurrency": 0,
        "unknown": ("recursion: AccessDenied",),
    },
    "another reader of dlq": {"other_readers": (replace(OTHER, source_arn=queue_arn("dlq")),)},
    "another reader of parked": {
        "other_readers": (replace(OTHER, source_arn=queue_arn("parked")),)
    },
    "no right to send": {"denied_sends": ("main",)},
    "a table or log group that is not there": {"missing": ("/shop/orders",)},
    "a key that the role may not use": {
        **{role: queue(role, KmsMasterKeyId=KEY) for role in ("main", "parked")},
        "denied_keys": (KEY,),
    },
    "a consumer that may run for 31 s": {"consumers": {"orders": 31}},
    "a consumer that may run for 181 s": {"consumers": {"orders": 181}},
}
FAULTY: dict[str, Installation] = {
    **{name: installation(**changes) for name, changes in CHANGES.items()},
    "a further source that is not configured": shared(
        "invoices", dlq_source_arns=tuple(map(queue_arn, ("main", "invoices", "refunds")))
    ),
    "a configured queue that does not use the DLQ, read": shared(
        "invoices",
        other_main=(queue("main", name="invoices", RedrivePolicy=redrive_to("other", 5)),),
        dlq_source_arns=(queue_arn("main"),),
    ),
    "a configured queue that does not use the DLQ, not read": shared(
        "invoices", other_main=(), dlq_source_arns=(queue_arn("main"),)
    ),
    "another main queue keeps for 14 days": with_invoices(MessageRetentionPeriod="1209600"),
    "another main queue moves after 2": with_invoices(RedrivePolicy=redrive_to("dlq", 2)),
    "no right to read the metric": limiting(denies_metrics=True, unjudged={"main": "is blind"}),
    "a metric that could not be read": limiting(unjudged={"main": "", "invoices": "is blind"}),
    "queues of another account": limiting(account="210987654321", unjudged={"main": "is blind"}),
    "a FIFO DLQ hides past the window": fifo(
        dlq=queue("dlq", name="dlq.fifo", VisibilityTimeout="300")
    ),
}


def shown(finding: StackFinding) -> str:
    return f"{finding.severity} {finding.subject}: {finding.fault}\n  to do: {finding.fix}"


@stored_rows("stack_rules", FAULTY)
def test_findings_are_those_that_are_stored(name: str) -> None:
    """Faults come first, and what could not be found out last."""
    findings = examine(FAULTY[name])

    assert all(finding.fix for finding in findings if finding.severity is not Severity.UNKNOWN)
    lines = [shown(finding) for finding in findings]
    assert_stored("stack_rules", name, "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    "sound",
    [
        installation(),
        fifo(),
        shared("invoices", "refunds"),
        installation(triggers=(OFF, replace(PIPE, state="RUNNING"))),
        installation(triggers=(OFF, replace(PIPE, state="STARTING"))),
        installation(triggers=(OFF, replace(PIPE, state="UPDATING"))),
        # What could not be listed may feed the function.
        installation(triggers=(), knows_triggers=False),
        installation(triggers=(OFF,), knows_triggers=False),
        installation(consumers={"orders": 30}),
        installation(other_readers=(replace(OTHER, state="STOPPED"),)),
        limiting(denies_metrics=False, unjudged={"main": "", "invoices": ""}),
        limiting(account="", denies_metrics=None),
        # Without a circuit breaker nobody needs the metric.
        installation(account="210987654321", denies_metrics=True, unjudged={"main": "is blind"}),
    ],
)
def test_a_sound_installation_has_nothing_to_change(sound: Installation) -> None:
    assert examine(sound) == []
    assert sound.is_fed


@pytest.mark.parametrize("key", [None, "", "alias/aws/sqs", "arn:aws:kms:r:1:alias/aws/sqs"])
def test_sqs_s_own_keys_need_no_permission(key: str | None) -> None:
    facts = queue("main") if key is None else queue("main", KmsMasterKeyId=key)

    assert facts.customer_key is None


@pytest.mark.parametrize(
    ("variables", "attributes", "seconds"),
    [
        # The template's defaults at SQS's: half of 20, 40, ..., 640 and 14 times 900 s, and 21
        # tries of 5 receives of 30 s.
        ({}, {"VisibilityTimeout": "30"}, 6_930 + 21 * 150),
        ({}, {"VisibilityTimeout": "0"}, 6_930),
        ({"MAX_ATTEMPTS": "0"}, {"VisibilityTimeout": "30"}, 150),
        ({"MAX_AGE_SECONDS": "3600"}, {"VisibilityTimeout": "30"}, 3_600),
        ({}, {"VisibilityTimeout": "30", "RedrivePolicy": ""}, 6_930 + 21 * 30),
    ],
)
def test_what_always_fails_is_parked_after_the_waits_and_its_tries(
    variables: dict[str, str], attributes: dict[str, str], seconds: int
) -> None:
    defaults = {}
    for parameter, variable in BACKOFF.items():
        defaults[variable] = str(TEMPLATE["Parameters"][parameter]["Default"])

    facts = installation(
        settings=settings(**defaults | variables), main=queue("main", **attributes)
    )

    assert replay_time(facts).total_seconds == seconds
