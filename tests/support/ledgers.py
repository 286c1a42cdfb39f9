"""Random ledgers: what runs of three plans may have left, and how to write it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import BinaryIO, ClassVar

from hypothesis import strategies as st

from dlq.archive.ledger.claims import (
    CHUNK_END,
    OUTCOMES,
    Attempt,
    Claim,
    Ledger,
    Result,
    RunRecord,
    RunState,
    attempt_names,
    list_runs,
    record_run,
    timestamp,
)
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.run_results import read_attempts
from dlq.archive.storage.files import Archive
from dlq.archive.storage.local import LocalArchive

NOW = 1_700_000_000.0

CLOCKS = (0.0, 0.0, 0.5, -3600.0, 5 * 3600.0, -2 * 86_400.0, 3 * 86_400.0, 40 * 86_400.0)
"""By how many seconds the clocks of machines are ahead, in the laws' worlds."""


@dataclass(frozen=True)
class Try:
    """One attempt at a chunk of its own.

    Attributes:
        results: None where its task was killed, or is slow.
        later: those that a slow task writes when the run seems dead.
    """

    plan_id: str
    run_id: str
    claim: Claim
    results: tuple[Result, ...] | None
    later: tuple[Result, ...] | None = None


RUNS = [(plan_id, run_id) for plan_id in ("p-1", "p-2", "p-3") for run_id in ("r-1", "r-2")]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


AGES = (0, 1, 500, 899, 900, 901, 2000)
"""In seconds: few, so that attempts at a message are equally old."""


@st.composite
def tries(draw: st.DrawFn) -> Try:
    plan_id, run_id = draw(st.sampled_from(RUNS))
    ids = draw(st.lists(st.integers(0, 12).map("m-{}".format), unique=True, max_size=8))
    age = draw(st.sampled_from(AGES))

    claim = Claim(
        who=draw(texts),
        reason=draw(texts),
        destination="https://q",
        time=timestamp(NOW - age),
        message_ids=tuple(ids),
        edits=draw(st.dictionaries(texts, texts, max_size=2)),
        step=draw(st.integers(0, 9)),
        end=draw(st.integers(1, CHUNK_END)),
        lock=draw(st.sampled_from((0, 1, 2, 10, 123_456))),
        drain_ids=tuple(draw(texts) for _ in ids),
    )

    settled_age = draw(st.sampled_from([known_age for known_age in AGES if known_age <= age]))
    settled_at = timestamp(NOW - settled_age)
    results = []
    for message_id in ids:
        # One of five messages has no result.
        if draw(st.integers(0, 4)):
            outcome = draw(st.sampled_from(OUTCOMES))
            results.append(Result(message_id, outcome, settled_at, draw(texts), draw(texts)))

    maybe = st.sampled_from([tuple(results), None])
    return Try(plan_id, run_id, claim, draw(maybe), draw(maybe))


class MemoryArchive(LocalArchive):
    """Files in memory, by their paths: a disk is slow where a law writes hundreds."""

    files: ClassVar[dict[str, bytes]]
    opened: ClassVar[set[str]]

    def __init__(self) -> None:
        LocalArchive.__init__(self, "memory")
        object.__setattr__(self, "files", {})
        object.__setattr__(self, "opened", set())

    def create(self, path: str, content: bytes) -> bool:
        return self.files.setdefault(path, content) is content

    def write(self, path: str, content: bytes) -> None:
        self.files[path] = content

    def read(self, path: str) -> bytes | None:
        self.opened.add(path)
        return self.files.get(path)

    def open(self, path: str) -> BinaryIO | None:
        content = self.read(path)
        return None if content is None else BytesIO(content)

    def discard(self, path: str) -> None:
        self.files.pop(path, None)

    def remove(self, path: str, *, keeps_current: bool = False) -> None:
        assert not keeps_current
        self.discard(path)

    def list(self, folder: str) -> list[str]:
        return sorted(path for path in self.files if path.startswith(f"{folder}/"))


@dataclass(frozen=True)
class DisturbedArchive(LocalArchive):
    """Others act right before each of its next creates of a path with this ending.

    Attributes:
        before_create: what they do, the last one first.
    """

    before_create: list[Callable[[], object]] = field(default_factory=list)
    ending: str = ""

    def create(self, path: str, content: bytes) -> bool:
        if self.before_create and path.endswith(self.ending):
            self.before_create.pop()()
        return super().create(path, content)


def begin(
    archive: Archive,
    plan_id: str,
    run_id: str = "run-1",
    verb: str = "redrive",
    seconds: float = NOW,
) -> Ledger:
    """Write the record of a run, unless there is one."""
    if (plan_id, run_id) not in list_runs(archive, plan_id):
        who = ("me@here", "why")
        run = RunRecord(run_id, plan_id, verb, *who, timestamp(seconds), "https://q")
        record_run(archive, run)
    return Ledger(archive, plan_id, run_id)


def settle(
    archive: Archive,
    plan_id: str,
    outcomes: Mapping[str, Disposition],
    run_id: str = "run-1",
    seconds: float = NOW,
    lock: int = 0,
    **more: str,
) -> None:
    """Write what a run did with these messages, as a chunk of its own; *more* is of the results."""
    ledger = begin(archive, plan_id, run_id, seconds=seconds)
    at = timestamp(seconds)
    unit = f"unit-{len(archive.list('ledger'))}"
    claim = Claim("me@here", "why", "https://q", at, tuple(outcomes), lock=lock)
    assert ledger.claim(unit, 0, claim)
    results = [Result(message_id, outcome, at, **more) for message_id, outcome in outcomes.items()]
    ledger.record(unit, 0, results)


def write(archive: Archive, made: Sequence[Try], first_chunk: int = 1) -> None:
    for chunk, claim in enumerate(made, first_chunk):
        ledger = begin(archive, claim.plan_id, claim.run_id)
        assert ledger.claim("g-1", chunk, claim.claim)
        if claim.results is not None:
            ledger.record("g-1", chunk, claim.results)


def attempts_of(archive: Archive, plan_id: str | None = None) -> list[Attempt]:
    """Return attempts by the claims and results of a plan, or of all, whatever result files say."""
    states = list_runs(archive)
    names = [name for name in attempt_names(archive) if plan_id in (None, name.plan_id)]
    attempts: list[Attempt] = []
    for run in dict.fromkeys(name.run for name in names):
        is_closed = states.get(run, RunState.OPEN) is not RunState.OPEN
        attempts += read_attempts(archive, run, is_closed=is_closed)
    return attempts
