"""The costs that the documents state, counted from the list prices."""

import re

from dlq_cli.simulate.bill import EVENT_SECONDS, MESSAGE_SECONDS, bill_of
from dlq_cli.simulate.flow import simulate
from dlq_cli.simulate.growth import tables
from dlq_cli.simulate.prices import (
    EVENT_MESSAGES,
    FUNCTION_GB,
    GLUE_PER_DPU_HOUR,
    LAMBDA_ARM64_PER_GB_SECOND,
    LAMBDA_PER_INVOCATION,
    S3_PER_GB_MONTH,
    S3_PER_PUT,
    SQS_BATCH_ENTRIES,
    SQS_STANDARD_PER_REQUEST,
)
from dlq_cli.simulate.scenario import Scenario, policy_of
from dlq_replay.decision import ParkReason
from dlq_replay.measures import Metric
from tests.contract.cloudformation import Stack
from tests.contract.template import ROOT, TEMPLATE

MILLION = 1_000_000
REQUESTS_PER_REPLAY = 3
"""Receive, send, delete."""


def cost_of_a_million(messages_per_request: int, messages_per_event: int) -> str:
    events = MILLION / messages_per_event
    seconds = EVENT_SECONDS + MESSAGE_SECONDS * messages_per_event
    dollars = (
        REQUESTS_PER_REPLAY * MILLION / messages_per_request * SQS_STANDARD_PER_REQUEST
        + events * LAMBDA_PER_INVOCATION
        + events * seconds * FUNCTION_GB * LAMBDA_ARM64_PER_GB_SECOND
    )
    return f"${dollars:.2f}"


def test_a_million_replays_cost_what_the_documents_say() -> None:
    in_batches = cost_of_a_million(SQS_BATCH_ENTRIES, EVENT_MESSAGES)
    one_by_one = cost_of_a_million(1, 1)
    guide = (ROOT / "docs/growth.md").read_text("utf-8")
    shop_window = " ".join((ROOT / "README-SAR.md").read_text("utf-8").split())

    assert f"| together | **{in_batches}** | **{one_by_one}** |" in guide
    assert f"between {in_batches}, in full batches, and {one_by_one}, one at a time" in shop_window


def test_the_guide_names_the_prices_that_the_simulator_counts_with() -> None:
    guide = (ROOT / "docs/growth.md").read_text("utf-8")
    _, _, section = guide.partition("### Where the prices come from")
    prices = section.partition("\n## ")[0]

    assert f"${SQS_STANDARD_PER_REQUEST * MILLION:.2f} per million requests, FIFO" in prices
    assert f"${LAMBDA_PER_INVOCATION * MILLION:.2f} per million requests" in prices
    assert f"${LAMBDA_ARM64_PER_GB_SECOND:.10f} per GB-second on arm64" in prices
    assert f"${GLUE_PER_DPU_HOUR} per DPU-hour" in prices
    assert f"${S3_PER_PUT * 1000:.3f} per 1,000 writing requests" in prices
    assert f"${S3_PER_GB_MONTH} per GB and month" in prices


def test_the_arithmetic_of_the_guide_adds_up() -> None:
    times = " \N{MULTIPLICATION SIGN} "
    guide = (ROOT / "docs/growth.md").read_text("utf-8").replace(",", "")
    products = re.findall(rf"((?:[\d.$]+(?:/M)?(?: \w+)*{times})+[$\d./M]+) = \$([\d.]+)", guide)

    assert len(products) >= 8
    for text, result in products:
        value = 1.0
        for factor in text.split(times):
            number = re.match(r"\$?([\d.]+)", factor)
            assert number
            value *= float(number[1]) / (MILLION if "/M" in factor else 1)
        places = len(result.rstrip(".").partition(".")[2])
        assert round(value, places) == float(result.rstrip(".")), text


def test_the_documents_count_the_metrics_and_the_alarms_metrics() -> None:
    guide = (ROOT / "docs/growth.md").read_text("utf-8")
    shop_window = " ".join((ROOT / "README-SAR.md").read_text("utf-8").split())
    published = len(Metric) + len(ParkReason)
    alarms = Stack.of(TEMPLATE, {"CreateSparkJob": "true"}).of_type("AWS::CloudWatch::Alarm")
    watched = sum(
        sum("MetricStat" in one for one in alarm["Metrics"]) if "Metrics" in alarm else 1
        for alarm in alarms.values()
    )

    assert f"metrics: at most {published} " in guide
    assert f"alarms: {watched} metrics " in guide
    assert f"at most {published}; alarms with {watched} metrics in all" in shop_window


README = (ROOT / "README.md").read_text("utf-8")
FREE_ALARM_METRICS = 10
"""Of an account: https://aws.amazon.com/cloudwatch/pricing/."""


def test_the_readme_adds_up_what_the_guide_says_of_a_month_at_rest() -> None:
    guide = (ROOT / "docs/growth.md").read_text("utf-8")
    rest = guide.partition("**At rest, a month: ")[2].partition("**The Spark job**")[0]
    [polling] = re.findall(r"648,000 requests, \$([\d.]+);", rest)
    [(watched, alarms)] = re.findall(
        r"alarms: (\d+) metrics \N{MULTIPLICATION SIGN} \$0\.10 = \$([\d.]+)", rest
    )
    total = f"${float(polling) + float(alarms) + 3:.2f}"
    with_free_tiers = f"${(int(watched) - FREE_ALARM_METRICS) * 0.10:.2f}"

    assert rest.startswith(f"{total}**, or {with_free_tiers}")
    parts = f"polling ${polling}, alarms ${alarms} ({watched} metrics), dashboard $3.00"
    assert f"**{total}**: {parts}; or {with_free_tiers}" in README


def test_the_readme_says_what_a_million_costs() -> None:
    bill = bill_of(simulate(Scenario(3600, 277.778, policy=policy_of(20, 10, 900))))
    made = list(tables())
    shared = [line for table in made for line in table.splitlines() if "| 1,000,000 |" in line]
    back = [cell.strip() for cell in shared[-1].split("|")]
    parts = [float(back[index].removeprefix("$")) for index in (3, 5, 6)]
    never = next(table for table in made if "never succeed" in table).splitlines()[-1]
    in_batches = f"**{cost_of_a_million(SQS_BATCH_ENTRIES, EVENT_MESSAGES)}**"
    one_by_one = f"**{cost_of_a_million(1, 1)}**"
    rows = {
        "a million replays": f"{in_batches} if messages arrive in full batches, {one_by_one} if",
        "dead letters of an outage": f"**${bill.sqs_dollars + bill.lambda_dollars:.2f}**",
        "that never succeed": f"**{never.split('|')[-2].strip()}**",
        "drained, analyzed and redriven": f"**${sum(parts):.2f}**",
    }

    for what, cost in rows.items():
        assert re.search(rf"^\| [^|]*{what}[^|]* \| {re.escape(cost)}", README, re.MULTILINE), what
