"""The template makes of some sets of parameters the stacks of stacks.yaml beside this file.

``make snapshot`` writes the file again: read its difference then, line by line. Of the first stack
it has everything but texts and ``CreatedAfter``, of which ``test_translation.py`` has the rule; of
each other one what differs from the first, but for the dashboard; of fleets what differs from the
first fleet; at the end ``templates/pipe-trigger.yaml``.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.contract.cloudformation import Stack, load_template
from tests.contract.template import (
    ALL_OF_A_FLEET,
    ALL_PARTS,
    DATA_KEY,
    FIFO,
    FLEET,
    KEYS,
    NETWORK,
    NO_ALARMS,
    OTHER_MAIN_QUEUES,
    OWN_FIFO_QUEUES,
    OWN_PARKED_QUEUE,
    OWN_QUEUES,
    ROOT,
    SPARK_JOB,
    SWEEP,
    TEMPLATE,
)

FILE = Path(__file__).with_name("stacks.yaml")
POLICY = "s3://rules/dlq/(orders)!policy.yaml"
LOGS = "arn:aws:logs:us-east-1:123456789012:log-group:/shop/orders:*"
FIRST = "with the Spark job"
OWN_URLS = OWN_QUEUES.items()
OF_THIS_ACCOUNT = {name: url.replace("210987654321", "123456789012") for name, url in OWN_URLS}
STACKS: Mapping[str, Mapping[str, str]] = {
    FIRST: SPARK_JOB,
    "by default": {},
    "FIFO": SPARK_JOB | FIFO,
    "your queues": SPARK_JOB | OWN_QUEUES,
    "your queues of this account": SPARK_JOB | OF_THIS_ACCOUNT,
    "your main queue elsewhere": SPARK_JOB | {**OWN_QUEUES, "DLQArn": OF_THIS_ACCOUNT["DLQArn"]},
    "your DLQ elsewhere": SPARK_JOB | {**OF_THIS_ACCOUNT, "DLQArn": OWN_QUEUES["DLQArn"]},
    "your FIFO queues": SPARK_JOB | OWN_FIFO_QUEUES,
    "your parked queue": SPARK_JOB | OWN_PARKED_QUEUE,
    "all queues yours": SPARK_JOB | OWN_QUEUES | OWN_PARKED_QUEUE,
    "other main queues": SPARK_JOB | OTHER_MAIN_QUEUES,
    "no circuit breaker": SPARK_JOB | {"CircuitBreaker": "false"},
    "no failure table": SPARK_JOB | {"CreateFailureTable": "false"},
    "no alarms": SPARK_JOB | NO_ALARMS | {"CreateDashboard": "false"},
    "no function": {"ReplayEnabled": "false"},
    "your topic": {"AlarmTopicArn": "arn:aws:sns:us-east-1:123456789012:on-call"},
    "an address": {"AlarmEmail": "team@example.com"},
    "network": SPARK_JOB | NETWORK,
    "data key": SPARK_JOB | DATA_KEY,
    "keys of queues": SPARK_JOB | KEYS,
    "policy": SPARK_JOB | {"SparkJobPolicyUri": POLICY},
    "policy that is executed": SPARK_JOB | {"SparkJobPolicyUri": POLICY, "SparkJobExecute": "true"},
    "other numbers": SPARK_JOB
    | {"SparkJobWorkers": "7", "SparkJobTimeoutMinutes": "30", "LogRetentionDays": "7"}
    | {"MessageRetentionPeriod": "86400", "BackoffCapSeconds": "", "AlarmParkedMessages": "3"}
    | {"SparkJobSchedule": "cron(30 2 ? * MON-FRI *)"},
    "days without an archive": {"ArchiveRetentionDays": "90"},
    "samples": SPARK_JOB | {"SparkJobSamples": "true"},
    "logs of consumers": SPARK_JOB | {"ConsumerLogGroupArns": LOGS},
    "bodies in S3": SPARK_JOB | {"PointerBucketName": "payloads"},
    "retention": SPARK_JOB | {"ArchiveRetentionDays": "90"},
    "all parts": ALL_PARTS,
}
FIRST_FLEET = "fleet"
FLEETS: Mapping[str, Mapping[str, str]] = {
    FIRST_FLEET: SPARK_JOB | FLEET,
    "fleet without the Spark job": FLEET,
    "fleet with a sweep": SPARK_JOB | SWEEP,
    "fleet with a sweep that is off": SPARK_JOB | SWEEP | {"ReplayEnabled": "false"},
    "fleet with a FIFO parked queue": SPARK_JOB | FLEET | {"FifoParkedQueue": "true"},
    "fleet with your parked queue": SPARK_JOB | FLEET | OWN_PARKED_QUEUE,
    "fleet without a failure table": SPARK_JOB | FLEET | {"CreateFailureTable": "false"},
    "fleet without alarms": SPARK_JOB | SWEEP | NO_ALARMS | {"CreateDashboard": "false"},
    "fleet with keys of parked queues": SPARK_JOB | FLEET | DATA_KEY | KEYS,
    "all parts of a fleet": ALL_OF_A_FLEET,
}
DLQ = OWN_QUEUES["DLQArn"]
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:replay"
PIPES = {
    "pipe": {"ReplayFunctionArn": FUNCTION, "DLQArn": DLQ},
    "pipe of a FIFO queue with keys": {"ReplayFunctionArn": FUNCTION, "DLQArn": f"{DLQ}.fifo"}
    | {"KmsKeyArns": KEYS["QueueKmsKeyArns"]},
}
LEFT_OUT = {"AlarmDescription", "CreatedAfter", "DashboardBody", "Description"}
KEYS_OF_LISTS = ("Sid", "Id", "PolicyName")


def stacks() -> dict[str, Any]:
    made = {name: _stack(given) for name, given in STACKS.items()}
    first = made[FIRST]
    differences = {name: _difference(first, stack) for name, stack in made.items() if name != FIRST}

    fleets = {name: _stack(given) for name, given in FLEETS.items()}
    for name, stack in fleets.items():
        base = first if name == FIRST_FLEET else fleets[FIRST_FLEET]
        differences[name] = _difference(base, stack)
    differences["dashboard of a fleet"] = _widgets(ALL_OF_A_FLEET)

    pipe = load_template(ROOT / "templates" / "pipe-trigger.yaml")
    pipes = {name: _stack(given, pipe) for name, given in PIPES.items()}
    return {FIRST: first, "its dashboard": _widgets(SPARK_JOB)} | differences | pipes


def _widgets(given: Mapping[str, str]) -> Any:
    [dashboard] = Stack.of(TEMPLATE, given).of_type("AWS::CloudWatch::Dashboard").values()
    widgets = json.loads(dashboard["DashboardBody"])["widgets"]
    for widget in widgets:
        lines = widget["properties"].get("metrics", ())
        widget["properties"]["metrics"] = [json.dumps(line) for line in lines]
    return widgets


def _stack(given: Mapping[str, str], template: Mapping[str, Any] = TEMPLATE) -> Any:
    stack = Stack.of(template, given)
    return {"Outputs": _without(stack.outputs), **_without(stack.resources)}


def _without(node: Any) -> Any:
    """Leave that out, and let what has a name in a list have it for a key."""
    if isinstance(node, dict):
        return {key: _without(value) for key, value in node.items() if key not in LEFT_OUT}
    if not isinstance(node, list):
        return node
    without = [_without(child) for child in node]
    for key in KEYS_OF_LISTS:
        if node and all(isinstance(child, dict) and key in child for child in node):
            keyed = {child.pop(key): child for child in without}
            assert len(keyed) == len(node), keyed.keys()
            return keyed
    return without


def _difference(first: Any, other: Any) -> Any:
    """Return the values that *other* has instead: None for those that it lacks."""
    if not (isinstance(first, dict) and isinstance(other, dict)):
        return other
    changed = [key for key in first | other if first.get(key) != other.get(key)]
    return {key: _difference(first.get(key), other.get(key)) for key in changed}


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _: Any) -> bool:
        return True


def test_the_template_makes_the_stacks_that_are_stored() -> None:
    made = stacks()
    if os.environ.get("SNAPSHOT"):
        text = yaml.dump(made, Dumper=_Dumper, width=100, sort_keys=False, default_flow_style=None)
        FILE.write_text(text, encoding="utf-8")

    assert made == yaml.load(FILE.read_text("utf-8"), Loader=yaml.CSafeLoader)
