"""Writes the generated blocks of the documents: ``make docs``.

A block stands between ``<!-- generated: NAME -->`` and ``<!-- /generated -->``. NAME is a function
of ``BLOCKS``, which returns the lines. CI runs this and fails where git then shows a difference.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlq_replay.aws.breaker_table import read_deletions
from dlq_replay.replaying.measures import Metric
from dlq_replay.rules.breaker import BreakerRules
from dlq_replay.rules.decision import ParkReason
from tests.contract.cloudformation import Stack
from tests.contract.template import ALL_PARTS, TEMPLATE, as_list, statements_of

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "README-SAR.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)

SQS_PER_REQUEST = 0.40e-6
LAMBDA_PER_INVOCATION = 0.20e-6
LAMBDA_ARM64_PER_GB_SECOND = 0.0000133334
ALARM_METRIC, CUSTOM_METRIC, DASHBOARD = 0.10, 0.30, 3.00
METRIC_READ = 0.01e-3
S3_PUT, S3_GB_MONTH, DPU_HOUR = 0.005e-3, 0.023, 0.308
"""List prices in dollars; docs/growth.md says where they come from."""

POLLS = 5 * 3 * 60 * 24 * 30
"""Of an empty queue in a month: five pollers, three long polls a minute."""

MINUTES = 60 * 24 * 30
"""Of a month."""

FREE_ALARM_METRICS = 10
MESSAGE_GB = 2048e-9
REQUESTS_PER_PARKED, PUTS_PER_PARKED, PARKED_PER_SECOND = 0.35, 0.0205, 1600
"""Of drain, analyze and redrive together; docs/growth.md has the formulas."""

MILLION = 1_000_000

SQS_BATCH_ENTRIES = 10
"""The most messages in one receive, send or delete."""

FUNCTION_GB = 0.25
EVENT_MESSAGES = 100
"""Of the template: memory of the function, and the most messages in one invocation."""

EVENT_SECONDS = 0.1
MESSAGE_SECONDS = 0.003
"""Duration of an invocation, and the part that each message adds: a conservative estimate.

``make bench`` measures 2 ms of CPU time for one message and about 25 ms for a hundred; a function
of 256 MB has a seventh of a CPU."""

OUTAGE_DOLLARS, HELD_OUTAGE_DOLLARS = 0.94, 1.23
"""Of a million messages of an outage of an hour, without and with the circuit breaker.

Simulated with the rules of the function: replays, holds, and the consumer's requests."""

Lines = Iterable[str]


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table in Markdown."""
    for cells in (heading, ["---"] * len(heading), *rows):
        yield f"| {' | '.join(cells)} |"


def dollars(amount: float) -> str:
    """Format an amount to the cent."""
    return f"${amount:,.2f}"


def lambda_dollars(invocations: float, messages: float) -> float:
    """Return the cost of *invocations* that have so many *messages* together."""
    seconds = invocations * EVENT_SECONDS + messages * MESSAGE_SECONDS
    time_dollars = seconds * FUNCTION_GB * LAMBDA_ARM64_PER_GB_SECOND
    return invocations * LAMBDA_PER_INVOCATION + time_dollars


def million_replays(messages_per_request: int, messages_per_event: int) -> tuple[float, float]:
    """Return the cost of a million replays: SQS, Lambda."""
    requests = 3 * MILLION / messages_per_request
    return requests * SQS_PER_REQUEST, lambda_dollars(MILLION / messages_per_event, MILLION)


def watched_metrics() -> int:
    """Return the number of metrics in the alarms of a stack with the Spark job."""
    alarms = Stack.of(TEMPLATE, {"CreateSparkJob": "true"}).of_type("AWS::CloudWatch::Alarm")
    return sum(
        sum("MetricStat" in query for query in alarm.get("Metrics", [{"MetricStat": ""}]))
        for alarm in alarms.values()
    )


def metrics_read() -> int:
    """Return how many metrics of a main queue the circuit breaker reads at once."""
    counts = []

    class Client:
        """Counts what is asked for, and has no answer."""

        def get_metric_statistics(self, **_: object) -> None:
            counts.append(1)
            raise RuntimeError

        def get_metric_data(self, **asked: Sequence[object]) -> None:
            counts.append(len(asked["MetricDataQueries"]))
            raise RuntimeError

    read_deletions(Client, "main", 0, 60)
    return sum(counts)


def costs() -> Lines:
    """What it costs: README."""
    polling, watched = POLLS * SQS_PER_REQUEST, watched_metrics()
    metrics = len(Metric) + len(ParkReason)
    alarms = watched * ALARM_METRIC
    free = (watched - FREE_ALARM_METRICS) * ALARM_METRIC
    batched, single = (sum(million_replays(*each)) for each in ((10, 100), (1, 1)))
    looks, tries = 21, 21 * 5
    never = (3 * looks + tries) / SQS_BATCH_ENTRIES * SQS_PER_REQUEST * MILLION
    never += lambda_dollars(looks * MILLION / EVENT_MESSAGES, looks * MILLION)
    rules, reads = BreakerRules(), metrics_read()
    holds = 2 * rules.hold_limit_seconds[1] / sum(rules.hold_seconds)
    never_held = never + holds * batched
    parked = MILLION * (REQUESTS_PER_PARKED * SQS_PER_REQUEST + PUTS_PER_PARKED * S3_PUT)
    parked += MILLION * MESSAGE_GB * S3_GB_MONTH
    parked += 2 * (60 + MILLION / PARKED_PER_SECOND) / 3600 * DPU_HOUR
    return f"""\
| | list price |
|---|---|
| at rest, a month | **{dollars(polling + alarms + DASHBOARD)}**: polling {dollars(polling)} \
({POLLS:,} requests), alarms {dollars(alarms)} ({watched} metrics), dashboard \
{dollars(DASHBOARD)}; or {dollars(free)} in all while the free tiers last |
| the Glue job each night, 10 minutes | **{dollars(30 * 2 / 6 * DPU_HOUR)}** a month more |
| metrics of a main queue | at most {metrics} of ${CUSTOM_METRIC:.2f} a month, \
for the hours in which they are written: nothing without dead letters |
| the circuit breaker of a main queue | at most **{dollars(MINUTES * reads * METRIC_READ)}** a \
month: {MINUTES:,} reads of its metrics, one in each minute of an hour in which \
{rules.least_returns} messages came back, as where some always fail, or while there is a limit; \
otherwise nothing |
| a million replays | **{dollars(batched)}** if messages arrive in full batches, \
**{dollars(single)}** if one by one |
| a million messages of an outage of an hour | **{dollars(OUTAGE_DOLLARS)}**, with the \
circuit breaker **{dollars(HELD_OUTAGE_DOLLARS)}**: replays, holds and your consumer's \
requests |
| a million messages that never succeed | **{dollars(never)}**: 20 replays each, then parked; \
**{dollars(never_held)}** if the circuit breaker first holds them, 12 hours each |
| a million parked messages drained, analyzed and redriven | **{dollars(parked)}**, with storage \
for a month |""".splitlines()


def prices() -> Lines:
    """The list prices: docs/growth.md."""
    return f"""\
| what | price |
|---|---|
| SQS | ${SQS_PER_REQUEST * MILLION:.2f} per million requests (FIFO $0.50); each 64 KB of a \
request count as one |
| Lambda | ${LAMBDA_PER_INVOCATION * MILLION:.2f} per million requests, \
${LAMBDA_ARM64_PER_GB_SECOND:.10f} per GB-second on arm64 |
| CloudWatch | ${CUSTOM_METRIC:.2f} per metric and month, ${ALARM_METRIC:.2f} per metric in an \
alarm, {dollars(DASHBOARD)} per dashboard, ${METRIC_READ * 1000:.2f} per 1,000 metrics read |
| DynamoDB, on demand | $0.625 per million write units of 1 KB, $0.125 per million read units of \
8 KB |
| Glue 6.0 | ${DPU_HOUR} per DPU-hour |
| S3 | ${S3_PUT * 1000:g} per 1,000 writing requests, ${S3_GB_MONTH} per GB and month |
""".splitlines()


def _groups() -> Iterator[tuple[str, Sequence[str]]]:
    for group in TEMPLATE["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]:
        yield group["Label"]["default"], group["Parameters"]


def _default(name: str) -> str:
    value = TEMPLATE["Parameters"][name]["Default"]
    return "empty" if value == "" else f"`{value}`"


def parameter_names() -> Lines:
    """All parameters with their defaults: README-SAR.md."""
    rows = (
        (title, ", ".join(f"`{name}` ({_default(name)})" for name in group))
        for title, group in _groups()
    )
    return table(("", "parameters (defaults)"), rows)


ROLES = {
    "ReplayRole": "the replay function",
    "ReminderRole": "the daily notice",
    "PublishJobRole": "the publisher of the job's code",
    "SparkJobRole": "the Spark job",
    "ExpireRole": "the job of `ArchiveRetentionDays`",
}
JOBS = {"SparkJobRole", "ExpireRole"}
SHORTER = (
    (r"^arn:aws:[^:]*:[^:]*:[^:]*:|\.us-east-1\.amazonaws\.com$", ""),
    (r"^\w+LogGroup\.Arn$", "its log groups"),
    (r"^archivebucket", "archive bucket"),
    (r"^orders$", "main queue"),
    (r"^subnet/subnet.*", "subnet of `SubnetIds`"),
)
"""What a resource or a value is called on the page, in place of a pattern."""


def roles() -> Lines:
    """What each role may do: README-SAR.md."""
    stack = Stack.of(TEMPLATE, ALL_PARTS)
    whose: dict[tuple[str, str], list[str]] = {}
    for role, words in ROLES.items():
        for statement in statements_of(stack, role):
            actions = ", ".join(f"`{action}`" for action in as_list(statement["Action"]))
            row = _named(statement["Resource"]), actions + _condition(statement)
            whose.setdefault(row, []).append(words)
    rows = ((", ".join(words), *row) for row, words in whose.items())
    return table(("Role of", "On", "Actions"), rows)


GATEWAYS = {"dynamodb", "s3"}
ENDPOINTS = {"cloudwatch": "monitoring"}
NOT_CALLED = {"kms", "xray"}
"""Services that other services call for a role."""

FOR_GLUE = {"logs", "sts"}
"""What AWS Glue itself calls from the subnet of a job, and its own API it reaches without."""


def endpoints() -> Lines:
    """The VPC endpoints by the roles that need them: docs/install.md."""
    stack = Stack.of(TEMPLATE, ALL_PARTS)
    users: dict[str, list[str]] = {}
    for role, words in ROLES.items():
        allowed = (
            as_list(one["Action"])
            for one in statements_of(stack, role)
            if "Null" not in one.get("Condition", {})
        )
        called = {
            action.partition(":")[0] for actions in allowed for action in actions
        } - NOT_CALLED
        is_job = role in JOBS
        called = called - {"glue", "ec2"} | FOR_GLUE if is_job else called - {"logs"}
        for service in sorted(called):
            users.setdefault(ENDPOINTS.get(service, service), []).append(words)
    rows = (
        (f"`{service}`", "gateway" if service in GATEWAYS else "interface", ", ".join(words))
        for service, words in sorted(users.items())
    )
    return table(("endpoint", "type", "used by"), rows)


def _named(values: Any) -> str:  # noqa: ANN401 - text or a list, in a template
    given = {arn: name for name, value in ALL_PARTS.items() for arn in value.split(",")}
    names = []
    for value in map(str, as_list(values)):
        name = f"`{given[value]}`" if value in given else value
        for pattern, shorter in SHORTER:
            name = re.sub(pattern, shorter, name)
        names.append(name.replace("*", r"\*"))
    return ", ".join(dict.fromkeys(names))


def _condition(statement: Mapping[str, Any]) -> str:
    conditions = [
        f"{operator} `{key}` {_named(values)}"
        for operator, keys in statement.get("Condition", {}).items()
        for key, values in keys.items()
    ]
    return f"; condition: {' and '.join(conditions)}" if conditions else ""


BLOCKS: Mapping[str, Callable[[], Lines]] = {
    "costs": costs,
    "endpoints": endpoints,
    "prices": prices,
    "parameter-names": parameter_names,
    "roles": roles,
}


def main(pages: Iterable[Path] = PAGES) -> None:
    """Rewrite the blocks of all pages."""
    made: dict[str, str] = {}
    for page in pages:
        text = page.read_text("utf-8")
        for _, name, _ in BLOCK.findall(text):
            made.setdefault(name, "\n".join(BLOCKS[name]()).strip() + "\n")
        page.write_text(BLOCK.sub(lambda one: f"{one[1]}{made[one[2]]}{one[3]}", text), "utf-8")
    if unused := BLOCKS.keys() - made.keys():
        sys.exit(f"no page has the block {', '.join(sorted(unused))}")


if __name__ == "__main__":
    main()
