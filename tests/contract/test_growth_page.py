"""docs/growth.md says what the simulator says."""

from dlq_replay.simulate.growth import HEADROOM, MAXIMUM_CONCURRENCY, tables
from tests.contract.template import ROOT, TEMPLATE

PAGE = (ROOT / "docs" / "growth.md").read_text("utf-8")


def test_every_table_of_the_page_is_computed() -> None:
    for table in tables():
        assert table in PAGE


def test_the_tables_start_from_the_template() -> None:
    assert TEMPLATE["Parameters"]["MaximumConcurrency"]["Default"] == MAXIMUM_CONCURRENCY
    assert HEADROOM == 3
    assert "three times its normal work" in PAGE


def test_polls_of_an_empty_queue_are_counted_right() -> None:
    polls = 5 * 30 * 86_400 // 20
    dollars = polls * 0.40e-6

    assert f"{polls:,} requests a month, ${dollars:.2f}" in PAGE
