"""Faults of which nothing was recorded: the first lead names the cause."""

import random
from collections import Counter

import pytest

from spark_reprocess.groups.findings import format_predicate
from tests.support.event_faults import FAULTS, Delivery, dead_letters
from tests.support.lead_search import Letter, SearchedGroup, searched

ENOUGH = 30
MOST = 0.5

CLAIMS = {fault.name: fault.claims for fault in FAULTS}


def struck_most(found: SearchedGroup, letters: list[Delivery]) -> str:
    """The fault that struck most of a group and enough of it to be seen, else nothing."""
    faults = Counter(letters[place].fault for place in found.members)
    name, count = faults.most_common(1)[0]
    return name if count >= max(ENOUGH, MOST * len(found.members)) else ""


@pytest.mark.parametrize("seed", range(3))
def test_the_first_lead_names_the_cause(seed: int) -> None:
    letters = dead_letters(seed, healthy=600, faults=FAULTS, of_each=45)
    seen = set()
    for found in searched([Letter(one.body, one.attributes) for one in letters]):
        if fault := struck_most(found, letters):
            seen.add(fault)
            first = format_predicate(found.leads[0]) if found.leads else "nothing"
            assert first in CLAIMS[fault], (fault, found.title)
    assert len(seen) >= len(CLAIMS) - 1


@pytest.mark.parametrize(("seed", "split"), [(0, "even"), (1, "skewed"), (2, "reason")])
def test_a_random_split_shows_no_lead(seed: int, split: str) -> None:
    chance = random.Random(seed)
    letters = []
    for one in dead_letters(seed, healthy=700):
        if split == "reason":
            reason = chance.choice(("attempts_exhausted", "too_old"))
            letters.append(Letter(one.body, one.attributes, reason=reason))
        else:
            error = chance.choices("ABCD", (70, 20, 8, 2) if split == "skewed" else (1, 1, 0, 0))
            letters.append(Letter(one.body, one.attributes, error_type=error[0]))
    assert [found for found in searched(letters) if found.leads] == []
