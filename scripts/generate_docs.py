"""Writes the generated blocks of the documents: ``make docs``.

A block is between ``<!-- generated: NAME -->`` and ``<!-- /generated -->``. NAME is a function
of ``BLOCKS``, which returns the lines. CI runs this and fails where git then shows a difference.
"""

import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlq_replay import __version__
from dlq_replay.aws.breaker_table import read_deletions
from dlq_replay.aws.fleet_directory import SWEEPS_UNTIL_ASKED_AGAIN
from dlq_replay.replaying.measures import Metric
from dlq_replay.rules.breaker import BreakerRules
from dlq_replay.rules.decision import ParkReason
from tests.contract.cloudformation import Stack
from tests.contract.template import (
    ALL_OF_A_FLEET,
    ALL_PARTS,
    SPARK_JOB,
    SWEEP,
    TEMPLATE,
    as_list,
    statements_of,
)

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "README-SAR.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)

IS_PUBLISHED: bool = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"][
    "sqs-dlq-replay"
]["is-published"]
"""True once the project owns its name on PyPI. See ``pyproject.toml``."""

SQS_PER_REQUEST = 0.40e-6
LAMBDA_PER_INVOCATION = 0.20e-6
LAMBDA_ARM64_PER_GB_SECOND = 0.0000133334
ALARM_METRIC = 0.10
CUSTOM_METRIC = 0.30
DASHBOARD = 3.00
METRIC_READ = 0.01e-3
LOG_GB = 0.50
S3_PUT = 0.005e-3
S3_GB_MONTH = 0.023
DPU_HOUR = 0.308
"""List prices in dollars; docs/growth.md says where they come from."""

POLLS = 5 * 3 * 60 * 24 * 30
"""Of an empty queue in a month: five pollers, three long polls a minute."""

MINUTES = 60 * 24 * 30
"""Of a month."""

FREE_ALARM_METRICS = 10
MESSAGE_GB = 2048e-9
REQUESTS_PER_PARKED = 0.35
PUTS_PER_PARKED = 0.0205
PARKED_PER_SECOND = 1600
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

SWEEP_GB = 0.5
SWEEP_LEAST_SECONDS = 1.0
SWEPT_QUEUES_PER_SECOND = 50
"""Of a fleet: memory of the sweep function, the duration of a sweep of an empty DLQ, and how many
more DLQs each further second is enough for. The benchmark ``fleet`` measures a little less."""

SWEEP_LOG_BYTES = 400
BATCH_LOG_BYTES = 2500
"""Lambda's own lines about an invocation; the lines and metrics of a batch. An estimate."""

QUEUE_METRICS = 12
TOTAL_METRICS = 4
"""Of a main queue in an hour with dead letters, with four reasons to park; of all together."""

COMMANDS = (
    ("`look` of 10,000 messages, and `find --queue` of as many", 2_000, 0, 0),
    ("`find`, `show`, `groups`, `status` and `doctor` of one stack", 10, 10, 1),
    ("`status` of a fleet of 300 DLQs that all have dead letters", 602, 10, 1_200),
    ("`collect` of 1,000 messages", 211, 40, 0),
    ("`redrive` of 1,000 messages with `--at-once`", 109, 46, 0),
    ("a ramp besides, for each hour that it waits", 720, 300, 2_160),
)
"""Of a command: requests of SQS, files of S3 written or listed, metrics read.

Those of ``collect`` and ``redrive`` were counted on 1,000 messages, with moto. A ramp looks six
times a minute, reads six metrics and two queues, and renews the archive lock every 12 s."""

FLEETS = ((1, 0), (1, 1), (10, 0), (10, 3), (10, 10), (300, 0), (300, 3), (300, 300))
"""DLQs, and how many of them get dead letters in each minute."""

OUTAGE_DOLLARS = 0.94
HELD_OUTAGE_DOLLARS = 1.23
"""Of a million messages of an outage of an hour, without and with the circuit breaker.

Simulated with the rules of the function: replays, holds, and the consumer's requests."""

Lines = Iterable[str]

TESTED = "# the versions tested"

UNPUBLISHED = (
    "The project does not own the name `sqs-dlq-replay` on PyPI yet: install its wheel, never a "
    "package of that name."
)
"""Anybody could register the name: until the project has, no page shows a command with it."""


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table in Markdown."""
    yield _row(heading)
    yield _row(["---"] * len(heading))
    for cells in rows:
        yield _row(cells)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def dollars(amount: float) -> str:
    """Format an amount to the cent."""
    return f"${amount:,.2f}"


def lambda_dollars(invocations: float, messages: float) -> float:
    """Return the cost of *invocations* that have that number of *messages* together."""
    seconds = invocations * EVENT_SECONDS + messages * MESSAGE_SECONDS
    time_dollars = seconds * FUNCTION_GB * LAMBDA_ARM64_PER_GB_SECOND
    return invocations * LAMBDA_PER_INVOCATION + time_dollars


def million_replays(messages_per_request: int, messages_per_event: int) -> float:
    """Return the cost of a million replays: of SQS and Lambda."""
    requests = 3 * MILLION / messages_per_request
    return requests * SQS_PER_REQUEST + lambda_dollars(MILLION / messages_per_event, MILLION)


def million_parked() -> float:
    """Return the cost to drain, analyze and redrive a million messages, with a month of storage."""
    requests = MILLION * (REQUESTS_PER_PARKED * SQS_PER_REQUEST + PUTS_PER_PARKED * S3_PUT)
    storage = MILLION * MESSAGE_GB * S3_GB_MONTH
    glue = 2 * (60 + MILLION / PARKED_PER_SECOND) / 3600 * DPU_HOUR
    return requests + storage + glue


def watched_metrics(given: Mapping[str, str] = SPARK_JOB) -> int:
    """Return the number of metrics in the alarms of a stack with parameters."""
    alarms = Stack.of(TEMPLATE, given).of_type("AWS::CloudWatch::Alarm")
    count = 0
    for alarm in alarms.values():
        if "Metrics" in alarm:
            count += sum("MetricStat" in query for query in alarm["Metrics"])
        else:
            count += 1
    return count


def fleet_dollars(dlqs: int, in_use: int) -> dict[str, float]:
    """Return the costs of a month of a fleet that is swept, without replays and the Glue job."""
    members = 2 * dlqs
    requests = MINUTES * (dlqs + members / SWEEPS_UNTIL_ASKED_AGAIN)
    seconds = SWEEP_LEAST_SECONDS + dlqs / SWEPT_QUEUES_PER_SECOND
    sweep = LAMBDA_PER_INVOCATION + seconds * SWEEP_GB * LAMBDA_ARM64_PER_GB_SECOND
    # The nearest expiry is there for each queue, and for all.
    metrics = in_use * (QUEUE_METRICS + 1) + (TOTAL_METRICS if in_use else 0)
    log_bytes = MINUTES * (SWEEP_LOG_BYTES + in_use * BATCH_LOG_BYTES)
    return {
        "requests": requests * SQS_PER_REQUEST,
        "sweeps": MINUTES * sweep,
        "alarms, dashboard": watched_metrics(SPARK_JOB | SWEEP) * ALARM_METRIC + DASHBOARD,
        "metrics": metrics * CUSTOM_METRIC,
        "logs": log_bytes / 1e9 * LOG_GB,
    }


def stacks_dollars(stacks: int, in_use: int) -> float:
    """Return the costs of a month of stacks with one DLQ each, without the same."""
    at_rest = POLLS * SQS_PER_REQUEST + watched_metrics() * ALARM_METRIC + DASHBOARD
    log_bytes = MINUTES * (SWEEP_LOG_BYTES + BATCH_LOG_BYTES)
    used = (QUEUE_METRICS + TOTAL_METRICS) * CUSTOM_METRIC + log_bytes / 1e9 * LOG_GB
    return stacks * at_rest + in_use * used


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


def install(*, is_published: bool = IS_PUBLISHED) -> Lines:
    """Return the commands that install ``dlq``: README."""
    wheel = f"sqs_dlq_replay-{__version__}-py3-none-any.whl"
    if is_published:
        yield "```sh"
        yield "python3 -m venv ~/dlq && . ~/dlq/bin/activate"
        yield "pip install sqs-dlq-replay"
        yield "uvx --from sqs-dlq-replay dlq look orders-dlq   # or without an install"
        yield "```"
        return

    yield UNPUBLISHED
    yield ""
    yield "```sh"
    yield "python3 -m venv ~/dlq && . ~/dlq/bin/activate"
    yield f"make wheel && pip install ./dist/{wheel} -c requirements/constraints.txt   {TESTED}"
    yield "```"


def install_elsewhere(*, is_published: bool = IS_PUBLISHED) -> Lines:
    """Return the commands from a checkout, and those from a release: docs/install.md."""
    package = "sqs-dlq-replay"
    if not is_published:
        package = f"./sqs_dlq_replay-{__version__}-py3-none-any.whl"
        yield from install(is_published=False)
        yield ""
        yield "From a release, once there is one, without a checkout:"
        yield ""
    yield "```sh"
    yield TESTED
    yield f"pip install {package} -c constraints.txt"
    yield "```"
    yield ""
    yield f"or `pipx install {package}`; or without an install:"
    yield ""
    yield "```sh"
    yield f"uvx --from {package} dlq look orders-dlq"
    yield "```"
    yield ""
    yield f"Extras: `[spark]` for large work, see below, as in `pip install '{package}[spark]'`;"
    yield "`[mcp]` for [agents](agents.md)."


def costs() -> Lines:
    """Return the table of costs: README."""
    polling = POLLS * SQS_PER_REQUEST
    fleet = sum(fleet_dollars(300, 0).values())
    watched = watched_metrics()
    alarms = watched * ALARM_METRIC
    free = (watched - FREE_ALARM_METRICS) * ALARM_METRIC
    metrics = len(set(Metric) - {Metric.STUCK_QUEUES}) + len(ParkReason)
    reads = metrics_read()

    batched = million_replays(messages_per_request=10, messages_per_event=100)
    single = million_replays(messages_per_request=1, messages_per_event=1)

    # Of a message that never succeeds: the replay function receives it 21 times, the consumer five
    # times as often.
    returns = 21
    tries = returns * 5
    never = (3 * returns + tries) / SQS_BATCH_ENTRIES * SQS_PER_REQUEST * MILLION
    never += lambda_dollars(returns * MILLION / EVENT_MESSAGES, returns * MILLION)
    rules = BreakerRules()
    holds = 2 * rules.hold_limit_seconds[1] / sum(rules.hold_seconds)
    never_held = never + holds * batched

    parked = million_parked()
    return f"""\
| what | list price |
|---|---|
| at rest, a month | **{dollars(polling + alarms + DASHBOARD)}**: polling {dollars(polling)} \
({POLLS:,} requests), alarms {dollars(alarms)} ({watched} metrics), dashboard \
{dollars(DASHBOARD)}; or {dollars(free)} in all while the free tiers last |
| a fleet of 300 DLQs at rest, a month | **{dollars(fleet)}** by sweep; 300 \
stacks {dollars(stacks_dollars(300, 0))} |
| the Glue job each night, 10 minutes | **{dollars(30 * 2 / 6 * DPU_HOUR)}** a month more |
| metrics of a main queue | {QUEUE_METRICS + TOTAL_METRICS} as a rule, {metrics} at most, of \
${CUSTOM_METRIC:.2f} a month, for the hours in which they are written: nothing without dead \
letters |
| the circuit breaker of a main queue | at most **{dollars(MINUTES * reads * METRIC_READ)}** a \
month: {MINUTES:,} reads of its metrics, one in each minute of an hour in which \
{rules.least_returns} messages failed again, as where some always fail, or while there is a limit; \
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
    """Return the list prices: docs/growth.md."""
    return f"""\
| what | price |
|---|---|
| SQS | ${SQS_PER_REQUEST * MILLION:.2f} per million requests (FIFO $0.50); each 64 KB of a \
request count as one |
| Lambda | ${LAMBDA_PER_INVOCATION * MILLION:.2f} per million requests, \
${LAMBDA_ARM64_PER_GB_SECOND:.10f} per GB-second on arm64 |
| CloudWatch | ${CUSTOM_METRIC:.2f} per metric and month, ${ALARM_METRIC:.2f} per metric in an \
alarm, {dollars(DASHBOARD)} per dashboard, ${METRIC_READ * 1000:.2f} per 1,000 metrics read, \
{dollars(LOG_GB)} per GB of logs |
| DynamoDB, on demand | $0.625 per million write units of 1 KB, $0.125 per million read units of \
8 KB |
| Glue 6.0 | ${DPU_HOUR} per DPU-hour |
| S3 | ${S3_PUT * 1000:g} per 1,000 writing requests, ${S3_GB_MONTH} per GB and month |
""".splitlines()


def command_costs() -> Lines:
    """Return what commands cost: docs/growth.md."""
    rows: list[list[str]] = []
    for command, requests, files, metrics in COMMANDS:
        cost = requests * SQS_PER_REQUEST + files * S3_PUT + metrics * METRIC_READ
        rows.append([command, f"{requests:,}", f"{files:,}", f"{metrics:,}", f"${cost:.4f}"])
    minute = 2 * DPU_HOUR / 60
    rows.append(
        ["any verb with `--on-glue`, for each minute, besides", "", "", "", f"${minute:.4f}"]
    )
    heading = [
        "command",
        "requests of SQS",
        "files of S3 written or listed",
        "metrics read",
        "cost",
    ]
    return table(heading, rows)


def fleet_costs() -> Lines:
    """Return what fleets cost, and as many stacks: docs/growth.md."""
    rows = []
    for dlqs, in_use in FLEETS:
        parts = fleet_dollars(dlqs, in_use)
        total = f"**{dollars(sum(parts.values()))}**"
        stacks = dollars(stacks_dollars(dlqs, in_use))
        rows.append((str(dlqs), str(in_use), total, stacks, *map(dollars, parts.values())))
    return table(("DLQs", "in use", "a month", "as many stacks", *fleet_dollars(1, 0)), rows)


def _groups() -> Iterator[tuple[str, Sequence[str]]]:
    for group in TEMPLATE["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]:
        yield group["Label"]["default"], group["Parameters"]


def _default(name: str) -> str:
    value = TEMPLATE["Parameters"][name]["Default"]
    return "empty" if value == "" else f"`{value}`"


def parameter_names() -> Lines:
    """Return all parameters with their defaults: README-SAR.md."""
    rows = []
    for title, group in _groups():
        parameters = ", ".join(f"`{name}` ({_default(name)})" for name in group)
        rows.append((title, parameters))
    return table(("group", "parameters (defaults)"), rows)


ROLES = {
    "ReplayRole": "the replay function",
    "ReminderRole": "the daily notice",
    "PublishJobRole": "the publisher of the job's code",
    "SparkJobRole": "the Spark job",
    "ExpireRole": "the job of `ArchiveRetentionDays`",
}
JOBS = {"SparkJobRole", "ExpireRole"}
SHORTER = (
    (r"^arn:aws:sqs:[^:]*:[^:]*:\*$", "all queues"),
    (r"^arn:aws:[^:]*:[^:]*:[^:]*:|\.us-east-1\.amazonaws\.com$", ""),
    (r"^\w+LogGroup\.Arn$", "its log groups"),
    (r"^archivebucket", "archive bucket"),
    (r"^orders$", "main queue"),
    (r"^subnet/subnet.*", "subnet of `SubnetIds`"),
)
"""Names of resources and values on the page, each in place of a pattern."""


def roles() -> Lines:
    """Return the permissions of each role: README-SAR.md. Last those that a fleet alone has."""
    of_one = _roles_by_grant(Stack.of(TEMPLATE, ALL_PARTS))
    of_fleet = _roles_by_grant(Stack.of(TEMPLATE, ALL_OF_A_FLEET))
    rows = []
    for (resources, actions), described in of_one.items():
        rows.append((described, resources, actions))
    for grant, described in of_fleet.items():
        if grant not in of_one:
            resources, actions = grant
            rows.append((f"in a fleet: {described}", resources, actions))
    return table(("Role of", "On", "Actions"), rows)


def _roles_by_grant(stack: Stack) -> dict[tuple[str, str], str]:
    """Return the roles that have each grant: resources and actions."""
    roles_of: dict[tuple[str, str], list[str]] = {}
    for role, description in ROLES.items():
        for statement in statements_of(stack, role):
            resources = _named(statement["Resource"])
            actions = ", ".join(f"`{action}`" for action in as_list(statement["Action"]))
            grant = (resources, actions + _condition(statement))
            roles_of.setdefault(grant, []).append(description)
    return {grant: ", ".join(descriptions) for grant, descriptions in roles_of.items()}


GATEWAYS = {"dynamodb", "s3"}
ENDPOINTS = {"cloudwatch": "monitoring", "tag": "tagging"}
NOT_CALLED = {"kms", "xray"}
"""Services that other services call for a role."""

FOR_GLUE = {"logs", "sts"}
"""Services that AWS Glue itself calls from the subnet of a job. Its own API needs no endpoint."""


def endpoints() -> Lines:
    """Return the VPC endpoints and the roles that need them: docs/install.md."""
    stack = Stack.of(TEMPLATE, ALL_PARTS)
    fleet = Stack.of(TEMPLATE, ALL_OF_A_FLEET)
    users: dict[str, list[str]] = {}
    for role, description in ROLES.items():
        services = _called_services(stack, role)
        for service in sorted(services):
            users.setdefault(ENDPOINTS.get(service, service), []).append(description)
        for service in sorted(_called_services(fleet, role) - services):
            in_a_fleet = f"{description} (in a fleet)"
            users.setdefault(ENDPOINTS.get(service, service), []).append(in_a_fleet)

    rows = []
    for service, descriptions in sorted(users.items()):
        kind = "gateway" if service in GATEWAYS else "interface"
        rows.append((f"`{service}`", kind, ", ".join(descriptions)))
    return table(("endpoint", "type", "used by"), rows)


def _called_services(stack: Stack, role: str) -> set[str]:
    services = set()
    for statement in statements_of(stack, role):
        if "Null" in statement.get("Condition", {}):
            continue
        for action in as_list(statement["Action"]):
            services.add(action.partition(":")[0])

    services -= NOT_CALLED
    return services - {"glue", "ec2"} | FOR_GLUE if role in JOBS else services - {"logs"}


def _named(values: Any) -> str:  # noqa: ANN401 - text or a list, in a template
    parameter_of = {}
    for parameter, value in (ALL_OF_A_FLEET | ALL_PARTS).items():
        for part in value.split(","):
            parameter_of[part] = parameter
    # Many parameters have this value.
    parameter_of.pop("true", None)

    names = []
    for value in map(str, as_list(values)):
        name = f"`{parameter_of[value]}`" if value in parameter_of else value
        for pattern, shorter in SHORTER:
            name = re.sub(pattern, shorter, name)
        names.append(name.replace("*", r"\*"))
    return ", ".join(dict.fromkeys(names))


def _condition(statement: Mapping[str, Any]) -> str:
    conditions = []
    for operator, keys in statement.get("Condition", {}).items():
        for key, values in keys.items():
            named = _named(values)
            conditions.append(f"{operator} `{key}` {named}")
    return f"; condition: {' and '.join(conditions)}" if conditions else ""


BLOCKS: Mapping[str, Callable[[], Lines]] = {
    "command-costs": command_costs,
    "costs": costs,
    "endpoints": endpoints,
    "fleet-costs": fleet_costs,
    "install": install,
    "install-elsewhere": install_elsewhere,
    "prices": prices,
    "parameter-names": parameter_names,
    "roles": roles,
}


def main(pages: Iterable[Path] = PAGES) -> None:
    """Rewrite the blocks of all pages."""
    blocks: dict[str, str] = {}
    for page in pages:
        text = page.read_text("utf-8")
        for _, name, _ in BLOCK.findall(text):
            if name not in blocks:
                blocks[name] = "\n".join(BLOCKS[name]()).strip() + "\n"
        page.write_text(BLOCK.sub(lambda old: f"{old[1]}{blocks[old[2]]}{old[3]}", text), "utf-8")

    if unused := BLOCKS.keys() - blocks.keys():
        sys.exit(f"no page has the block {', '.join(sorted(unused))}")


if __name__ == "__main__":
    main()
