"""The tables of docs/growth.md: cost by traffic, and where each quota is reached. Pure.

Below the quotas everything is proportional to the rate, so one simulated outage is enough.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from dlq_cli.simulate.bill import EVENT_SECONDS, MESSAGE_SECONDS, bill_of
from dlq_cli.simulate.flow import MAX_IN_FLIGHT, simulate
from dlq_cli.simulate.prices import (
    EVENT_MESSAGES,
    GLUE_PER_DPU_HOUR,
    S3_PER_GB_MONTH,
    S3_PER_PUT,
    SQS_BATCH_ENTRIES,
    SQS_STANDARD_PER_REQUEST,
    format_dollars,
)
from dlq_cli.simulate.recovery import Recovery
from dlq_cli.simulate.scenario import DEFAULT_MESSAGE_BYTES, Scenario
from spark_reprocess.figures import duration, quantity

DAY_SECONDS = 86_400
OUTAGE_SECONDS = 3600
HEADROOM = 3
"""Capacity of the consumer, as a multiple of its normal rate."""

DAILY_MESSAGES = (1, 1000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
PARKED_MESSAGES = (1, 1000, 100_000, 1_000_000, 10_000_000, 100_000_000)

MAXIMUM_CONCURRENCY = 5
"""Concurrent invocations: the default of the template."""

LAMBDA_CONCURRENCY = 1000
"""Concurrent invocations of an account, and the maximum of an SQS event source: LDG,
services-sqs-scaling."""

FIFO_REQUESTS_PER_SECOND = 300
"""For each API action on a FIFO queue, without high throughput: SQSDG, quotas-messages."""

REQUESTS_PER_PARKED_MESSAGE = 0.35
"""Drain and redrive together: the limit that the benchmark checks."""

DRAINED_PER_FILE = 2000
REDRIVEN_PER_CHUNK = 100
PUTS_PER_CHUNK = 2
"""Messages per file of the archive, and files of the ledger: a claim and a result per chunk."""

GLUE_WORKERS = 2
CORES_PER_WORKER = 4
GLUE_START_SECONDS = 60
MESSAGES_PER_CORE_SECOND = 400
"""Drained, analyzed and redriven, one after the other. An assumption: Glue was not measured. It is
below what the benchmarks measure per core of their machine."""

Row = Sequence[str]


def tables() -> Iterator[str]:
    """Yield the tables of the page as Markdown, in the order of the page."""
    outages = [_outage(daily / DAY_SECONDS) for daily in DAILY_MESSAGES]
    yield _table(
        (
            *("messages a day", "in the outage", "failed tries", "replays", "SQS requests"),
            *("SQS", "invocations", "at once", "Lambda"),
        ),
        (_outage_row(daily, one) for daily, one in zip(DAILY_MESSAGES, outages, strict=True)),
    )
    yield _table(("quota", "met at, messages a second", "a day"), _quota_rows())
    yield _table(("never succeed", "tries each", "requests each", "a million"), _poison_rows())
    yield _table(
        ("parked messages", "SQS requests", "SQS", "S3 requests", "S3, a month", "Glue", "in"),
        map(_parked_row, PARKED_MESSAGES),
    )


def _outage(rate: float) -> Recovery:
    return simulate(Scenario(OUTAGE_SECONDS, rate, capacity_per_second=HEADROOM * rate))


def _outage_row(daily: int, recovery: Recovery) -> Row:
    bill = bill_of(recovery)
    return (
        f"{daily:,}",
        quantity(recovery.scenario.arrived_count),
        quantity(recovery.failed_tries),
        quantity(recovery.replays),
        quantity(bill.replay_requests + bill.consumer_requests),
        format_dollars(bill.sqs_dollars),
        quantity(bill.invocations),
        quantity(bill.peak_concurrency),
        format_dollars(bill.lambda_dollars),
    )


def _quota_rows() -> Iterator[Row]:
    """Scale an outage of one message a second up to each quota."""
    calm = _outage(1.0)
    receives = max(calm.steps.receives)
    tries = max(calm.steps.tries)
    seconds_per_message = EVENT_SECONDS / EVENT_MESSAGES + MESSAGE_SECONDS
    fifo_messages = FIFO_REQUESTS_PER_SECOND * SQS_BATCH_ENTRIES
    for quota, rate in (
        (f"main, {MAX_IN_FLIGHT:,} in flight", MAX_IN_FLIGHT / calm.peak_in_flight),
        (f"FIFO main, {fifo_messages:,} a second", fifo_messages / tries),
        (
            f"`MaximumConcurrency` {MAXIMUM_CONCURRENCY}",
            MAXIMUM_CONCURRENCY / seconds_per_message / receives,
        ),
        (
            f"Lambda, {LAMBDA_CONCURRENCY:,} at once",
            LAMBDA_CONCURRENCY / seconds_per_message / receives,
        ),
    ):
        yield quota, _rounded(rate), _rounded(rate * DAY_SECONDS)


def _poison_rows() -> Iterator[Row]:
    """The cost of messages that never succeed: an outage of a day is longer than all replays."""
    for count in (1, 100_000):
        one = simulate(Scenario(DAY_SECONDS, 0, burst_count=count))
        bill = bill_of(one)
        requests = (bill.replay_requests + bill.consumer_requests) / count
        yield (
            f"{count:,}",
            quantity(one.failed_tries / count),
            quantity(requests),
            format_dollars((bill.sqs_dollars + bill.lambda_dollars) / count * 1e6),
        )


def _parked_row(count: int) -> Row:
    requests = math.ceil(count * REQUESTS_PER_PARKED_MESSAGE)
    chunks = math.ceil(count / REDRIVEN_PER_CHUNK)
    puts = math.ceil(count / DRAINED_PER_FILE) + PUTS_PER_CHUNK * chunks
    gigabytes = count * DEFAULT_MESSAGE_BYTES / 1e9
    cores = (GLUE_WORKERS - 1) * CORES_PER_WORKER
    seconds = GLUE_START_SECONDS + count / (MESSAGES_PER_CORE_SECOND * cores)
    return (
        f"{count:,}",
        quantity(requests),
        format_dollars(requests * SQS_STANDARD_PER_REQUEST),
        quantity(puts),
        format_dollars(puts * S3_PER_PUT + gigabytes * S3_PER_GB_MONTH),
        format_dollars(GLUE_WORKERS * seconds / 3600 * GLUE_PER_DPU_HOUR),
        duration(round(seconds)),
    )


def _rounded(number: float) -> str:
    """Round to two digits: the value is approximate."""
    return f"{float(f'{number:.2g}'):,.0f}"


def _table(headings: Row, rows: Iterable[Row]) -> str:
    lines = [headings, ["---:"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
