"""docs/growth.md and docs/breaker.md say what the simulator says."""

import re

from dlq_cli.simulate.growth import (
    CORES_PER_WORKER,
    GLUE_WORKERS,
    HEADROOM,
    MAXIMUM_CONCURRENCY,
    MESSAGES_PER_CORE_SECOND,
    tables,
)
from tests.contract.template import ROOT, TEMPLATE

PAGE = (ROOT / "docs" / "growth.md").read_text("utf-8")
BREAKER_PAGE = (ROOT / "docs" / "breaker.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
MEASURED = (ROOT / "benchmarks" / "README.md").read_text("utf-8")

VERBS = ("drain", "redrive")
BENCH_CORES = 2
"""Of the machine of the table of measurements."""


def test_every_table_of_the_page_is_computed() -> None:
    for table in tables():
        assert table in PAGE


def test_the_readme_quotes_the_page_of_the_breaker() -> None:
    peaks = [
        row.split("|")[4].strip() for row in re.findall(r"^\| 1 h, .*", BREAKER_PAGE, re.MULTILINE)
    ]
    text = " ".join(README.split())

    assert f"is at most {peaks[1]} instead of {peaks[0]} messages a second" in text


def test_the_tables_start_from_the_template() -> None:
    assert TEMPLATE["Parameters"]["MaximumConcurrency"]["Default"] == MAXIMUM_CONCURRENCY
    assert HEADROOM == 3


def test_polls_of_an_empty_queue_are_counted_right() -> None:
    polls = 5 * 30 * 86_400 // 20
    dollars = polls * 0.40e-6

    assert f"{polls:,} requests a month, ${dollars:.2f}" in PAGE


def test_the_rate_assumed_on_glue_is_below_what_was_measured() -> None:
    per_second = {verb: measured(f"{verb}, 100,000 messages", column=2) for verb in VERBS}
    cores = {verb: BENCH_CORES - measured(f"server, {verb}", column=0) for verb in VERBS}
    analysis = BENCH_CORES * measured("analysis of 1,000,000 messages", column=0) / 1_000_000
    core_seconds = analysis + sum(cores[verb] / per_second[verb] for verb in VERBS)

    assert core_seconds * MESSAGES_PER_CORE_SECOND < 1
    assert GLUE_WORKERS == TEMPLATE["Parameters"]["SparkJobWorkers"]["Default"]
    assert CORES_PER_WORKER == 4


def measured(row: str, column: int) -> float:
    """A number of the table of measurements: of its column *measured*, *target*, ..."""
    [cells] = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", MEASURED, re.MULTILINE)
    number = re.match(r"[\d,.]+", cells.split("|")[column].strip())
    assert number, row
    return float(number[0].replace(",", ""))
