"""Random ledgers: what many runs of three plans may have left, and how to write it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import (
    OUTCOMES,
    PLACES,
    Attempt,
    AttemptName,
    Claim,
    Ledger,
    Result,
    attempt_names,
    timestamp,
)
from spark_reprocess.archive.ledgers import ledger_files, read_attempts

NOW = 1_700_000_000.0


@dataclass(frozen=True)
class Try:
    """One attempt at a chunk of its own; *results* is None where its task was killed."""

    plan_id: str
    claim: Claim
    results: tuple[Result, ...] | None


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


AGES = (0, 1, 500, 899, 900, 901, 2000)
"""In seconds: few, so that attempts at a message are equally old."""


@st.composite
def tries(draw: st.DrawFn) -> Try:
    ids = draw(st.lists(st.integers(0, 12).map("m-{}".format), unique=True, max_size=8))
    age = draw(st.sampled_from(AGES))
    claim = Claim(
        run_id=draw(texts),
        who=draw(texts),
        reason=draw(texts),
        destination="https://q",
        time=timestamp(NOW - age),
        message_ids=tuple(ids),
        ttl_seconds=draw(st.sampled_from((0, 60, 900, 3000))),
        edits=draw(st.dictionaries(texts, texts, max_size=2)),
        step=draw(st.integers(0, 9)),
        end=draw(st.integers(1, PLACES)),
    )
    settled_at = timestamp(NOW - draw(st.sampled_from([one for one in AGES if one <= age])))
    results = tuple(
        Result(one, draw(st.sampled_from(OUTCOMES)), settled_at, draw(texts), draw(texts))
        for one in ids
        if draw(st.integers(0, 4))
    )
    plan_id = draw(st.sampled_from(["p-1", "p-2", "p-3"]))
    return Try(plan_id, claim, draw(st.sampled_from([results, None])))


def write(archive: Archive, made: Sequence[Try], first_chunk: int = 1) -> None:
    for chunk, one in enumerate(made, first_chunk):
        ledger = Ledger(archive, one.plan_id)
        assert ledger.claim("g-1", chunk, 1, one.claim)
        if one.results is not None:
            ledger.record("g-1", chunk, 1, one.results)


def attempts_of(archive: Archive, plan_id: str) -> list[Attempt]:
    """Every attempt of a plan, compacted or not."""
    names = [one for one in attempt_names(archive) if one.plan_id == plan_id]
    return list(read_attempts(archive, names))


def uncompacted(archive: Archive) -> dict[AttemptName, Attempt]:
    """What the claims and results say, whatever has been compacted."""
    return {one.name: one for one in read_attempts(archive, attempt_names(archive))}


def everything(archive: Archive, message_ids: Iterable[str]) -> dict[AttemptName, Attempt]:
    """What readers find of these messages: in the compacted file, and beside it."""
    files = ledger_files(archive)
    compacted = files.compacted
    found = compacted.attempts_with("message_id", set(message_ids)) if compacted else ()
    return {one.name: one for one in (*found, *read_attempts(archive, files.others))}
