"""The search for leads over traffic that differs: more seeds than the unit tests take."""

import pytest

from tests.needs import needs_webhooks
from tests.unit.spark_reprocess.analysis.test_leads_on_webhooks import (
    assert_causes_come_first,
    assert_nothing_is_found,
)

pytestmark = needs_webhooks


@pytest.mark.parametrize("seed", range(2, 4))
def test_the_first_lead_names_the_cause_whatever_the_traffic(seed: int) -> None:
    assert_causes_come_first(seed)


@pytest.mark.parametrize("split", ["even", "skewed", "reason"])
@pytest.mark.parametrize("seed", range(3, 5))
def test_a_random_split_shows_no_lead_whatever_the_traffic(seed: int, split: str) -> None:
    assert_nothing_is_found(seed, split)
