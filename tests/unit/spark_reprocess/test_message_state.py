"""The rules of a message's state; ``test_run_results`` compares the forms."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.archive.ledger.claims import (
    OUTCOMES,
    Attempt,
    AttemptName,
    Claim,
    Result,
    timestamp,
)
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.ledger.erasures import Erasure, record_erasure
from spark_reprocess.archive.ledger.message_state import STRENGTH, states_of
from spark_reprocess.archive.ledger.open_set import planned_states
from spark_reprocess.archive.storage.files import open_archive
from tests.support.ledgers import begin

NOW = 1_700_000_000.0
TTL = 900.0


def claim(*ids: str, age: float = 0.0) -> Claim:
    return Claim("run-1", "me@here", "why", "https://q", timestamp(NOW - age), ids)


def attempt(
    number: int, *ids: str, age: float = 0.0, results: dict[str, Disposition] | None = None
) -> Attempt:
    lines = None
    if results is not None:
        lines = tuple(Result(*pair, timestamp(NOW)) for pair in results.items())
    return Attempt(AttemptName("p-1", "g-1", 1, number), claim(*ids, age=age), lines)


def attempts_of(words: str) -> list[Attempt]:
    """Read ``claimed 900, sent``: a claim of that age without results, then one with this result.

    The result of ``nothing`` leaves the message out.
    """
    attempts = []
    for number, words_of_one in enumerate(filter(None, words.split(", ")), 1):
        word, _, age = words_of_one.partition(" ")
        results = {} if word == "nothing" else {"m": Disposition(word)} if not age else None
        attempts.append(attempt(number, "m", age=float(age or 0), results=results))
    return attempts


@pytest.mark.parametrize(
    ("attempts", "state"),
    [
        ("", None),
        ("claimed 899", "busy"),
        ("claimed 900", "in_doubt"),
        ("nothing", "in_doubt"),
        ("sent", "sent"),
        ("discarded", "discarded"),
        ("failed", None),
        ("in_doubt", "in_doubt"),
        ("claimed 900, sent", "sent"),
        ("claimed 900, failed", "in_doubt"),
        ("claimed 900, discarded", "discarded"),
        ("claimed 900, claimed 5", "busy"),
        ("failed, claimed 5", "busy"),
        ("discarded, claimed 5", "busy"),
        ("discarded, in_doubt", "in_doubt"),
        ("discarded, in_doubt, restored", "restored"),
        *((f"sent, {later}", "sent") for later in ("claimed 5", "in_doubt", "failed", "restored")),
        ("failed, failed", None),
    ],
)
def test_state_follows_from_all_attempts(attempts: str, state: str | None) -> None:
    found = states_of([*attempts_of(attempts), attempt(9, "other", age=5)], NOW, TTL)

    assert found.get("m") == state


@pytest.mark.parametrize(
    ("ttl_seconds", "age", "state"),
    [
        (2000, 1999, Disposition.BUSY),
        (2000, 2000, Disposition.IN_DOUBT),
        (60, 100, Disposition.BUSY),
    ],
)
def test_claim_counts_for_as_long_as_its_own_run_asked_or_the_reader_waits(
    ttl_seconds: float, age: float, state: Disposition
) -> None:
    """A slow run asks for more than a reader's 900 s, and may be sending still."""
    other = replace(claim("m", age=age), ttl_seconds=ttl_seconds)

    assert states_of([replace(attempt(1), claim=other)], NOW, TTL) == {"m": state}


outcomes = st.none() | st.dictionaries(st.just("m"), st.sampled_from(OUTCOMES))


@given(st.lists(st.tuples(outcomes, st.floats(0, 2000))), st.randoms())
def test_order_of_attempts_does_not_matter(
    tries: list[tuple[dict[str, Disposition] | None, float]], random: Random
) -> None:
    attempts = [attempt(1, "m", age=age, results=results) for results, age in tries]
    shuffled = list(attempts)
    random.shuffle(shuffled)

    assert states_of(attempts, NOW, TTL) == states_of(shuffled, NOW, TTL)


def test_every_outcome_has_a_rule() -> None:
    assert STRENGTH.keys() == {*OUTCOMES, Disposition.BUSY}


def test_erased_message_is_not_pending_and_a_sent_one_stays_sent(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    ids = ("m-sent", "m-in-doubt", "m-open")
    ledger = begin(archive, "p-1")
    ledger.claim("g-1", 1, 1, claim(*ids[:2], age=2000))
    ledger.record("g-1", 1, 1, [Result("m-sent", Disposition.SENT, timestamp(NOW))])

    def found() -> list[str]:
        states: list[str] = planned_states(archive, "p-1", pa.array(ids), NOW).to_pylist()
        return states

    assert found() == ["sent", "in_doubt", "pending"]
    record_erasure(archive, Erasure("e", "me", "why", timestamp(NOW), {one: ["d"] for one in ids}))
    assert found() == ["sent", "erased", "erased"]
