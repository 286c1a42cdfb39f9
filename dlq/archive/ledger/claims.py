"""What happened to each message of a plan: claims and results, a pair of files per claim; runs.

``ledger/plan_id=<plan>/runs/<run>/claims/<unit>/chunk-00003.from-00000.claim.json`` names the
messages that a task is about to send, before it sends the first; ``....result.jsonl`` says what
became of each.

*Within a run* claims keep apart the tasks that Spark starts again, or twice. Run, unit, chunk and
first position name a claim. Which messages are in a chunk, and in which order, follows from the
dispositions that the run wrote before its first claim. Claims are made by create-if-absent, so of
several tasks exactly one gets each. A claim covers the messages from its first position to its end,
which whoever makes it chooses by its rate. The next claim of the chunk begins there.

*Between runs* the archive lock keeps them apart, and the marker ``closing`` those that do not know
yet that they have lost it:

* Whoever takes the lock to act writes ``ledger/runs/<plan>/<run>.closing`` for each run that has
  not ended, and lists claims after that.
* A task looks for the marker of its run after it has made a claim, and before it sends. If it is
  there, the task sends nothing.

So a claim that may send was made before the marker, and is in that list. No clock decides.

A claim without a result is *busy* until its run is closed, and *in doubt* from then on. It is never
free: a task may have been frozen before its call, and wake hours later. What is in doubt is sent
again only if a person says so.

``ledger/runs/<plan>/`` says which runs there are, so that nobody has to list claims for that. A run
looks for ``sealed`` after it has written its record; whoever seals the plan lists the runs after
that, and closes each.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum, auto
from typing import NamedTuple

from dlq.archive.ledger.disposition import DECIDED, Disposition
from dlq.archive.storage.files import Archive, Probe
from dlq.archive.storage.records import (
    damage_named,
    read_record,
    record_bytes,
    record_of,
    values_of,
)
from dlq.aws.actor import Caller
from dlq.errors import ArchiveError, InputError

LEDGER = "ledger"
RUNS = f"{LEDGER}/runs"
CHUNK_MESSAGES = 100
"""About so many messages are in a chunk."""

_UNIT_MESSAGES = 1000
_MOST_UNITS = 64

CHUNK_END = 2**31 - 1
"""The end of a claim that covers all that is left of its chunk."""

POSITION = ("unit", "chunk", "position")
"""Columns: the chunk of a message, and what it is sorted by there, before its id."""

_PLAN = "plan_id="
_CLAIM_FILE = re.compile(
    rf"{LEDGER}/{_PLAN}(?P<plan_id>[^/]+)/runs/(?P<run_id>[^/]+)/claims/(?P<unit>[^/]+)"
    r"/chunk-(?P<chunk>\d+)\.from-(?P<first>\d+)\.claim\.json"
)
_RUN_FILE = re.compile(rf"{RUNS}/(?P<plan_id>[^/]+)/(?P<run_id>[^/]+)\.(?P<kind>[a-z]+)")
RECORD, CLOSING, RESULTS = "json", "closing", "parquet"
SEALED, CLEARED = "sealed", "cleared"

RunName = tuple[str, str]
"""The plan's id, and the run's."""


class RunState(IntEnum):
    """How far a run is, by its files."""

    OPEN = auto()  # it may claim and send, or it was killed and nobody has taken the lock since
    CLOSING = auto()  # marked: it sends nothing of what it claims from now on
    CLOSED = auto()  # its result file is there: readers need not list its claims


_STATE_BY_KIND = {CLOSING: RunState.CLOSING, RESULTS: RunState.CLOSED}

OUTCOMES = (*DECIDED, Disposition.FAILED, Disposition.IN_DOUBT)
"""What a result says of a message in one attempt."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Who is about to do what; written before the first message is sent.

    Attributes:
        time: ISO 8601, UTC; for people, and for the order of a run's own claims.
        edits: by id of each message that is edited, the digest of its edit.
        step: of which step of a ramp they are, from 1; 0 outside a ramp.
        end: the first position in the chunk behind those that it covers, or ``CHUNK_END``.
        lock: the number of its run's archive lock, see ``archive_lock``: the later one of two runs
            has the greater number.
        drain_ids: of each message, in their order; empty where nobody knows.
        first_sent_at: the smallest SentTimestamp of the messages, as ``sent_text`` writes it; empty
            if that of one of them is not known.
        last_sent_at: the greatest one, in the same way.
    """

    who: str
    reason: str
    destination: str
    time: str
    message_ids: tuple[str, ...]
    edits: Mapping[str, str] = field(default_factory=dict)
    step: int = 0
    end: int = CHUNK_END
    lock: int = 0
    drain_ids: tuple[str, ...] = ()
    first_sent_at: str = ""
    last_sent_at: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one message.

    Attributes:
        new_message_id: SQS's id of the copy that was sent; empty unless it was.
        detail: SQS's error code, or what hid the answer; never a part of the message.
    """

    message_id: str
    outcome: Disposition
    time: str
    new_message_id: str = ""
    detail: str = ""

    def __post_init__(self) -> None:
        """Refuse a word that says nothing of an attempt."""
        if self.outcome not in OUTCOMES:
            raise ValueError(self.outcome)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run that may send. It is written before the run's first claim and never changed.

    Paths of claims name the run; this record has the AWS identity behind it. It is the run's probe,
    too.

    Attributes:
        verb: ``redrive`` or ``restore``.
        actor: ``user@host``, as the environment said it.
        caller: whose credentials it acted with.
        time: when it began; ISO 8601, UTC.
        destinations: the URLs of all queues that it sends to; *destination* is the one that the
            operator named.
        policy_sha256: of the policy that decided, None without one.
    """

    run_id: str
    plan_id: str
    verb: str
    actor: str
    reason: str
    time: str
    destination: str
    destinations: Sequence[str] = ()
    policy_sha256: str | None = None
    caller: Caller = field(default_factory=Caller)


class AttemptName(NamedTuple):
    """Which claim: of a run, at a chunk, from position *first* on.

    Attributes:
        unit: which share of the run's messages; chunks are counted in each of them.
    """

    plan_id: str
    run_id: str
    unit: str
    chunk: int
    first: int = 0

    @property
    def run(self) -> RunName:
        """The run that made the claim."""
        return self.plan_id, self.run_id


@dataclass(frozen=True, slots=True)
class Attempt:
    """A claim, and what became of its messages.

    Attributes:
        results: None while there are none.
        is_closed: whether its run was closed when this was read.
    """

    name: AttemptName
    claim: Claim
    results: tuple[Result, ...] | None
    is_closed: bool = True

    @property
    def is_busy(self) -> bool:
        """Whether its run may still be sending: it has not ended, or was killed just now."""
        return self.results is None and not self.is_closed


def chunk_count(messages: int) -> int:
    """Return how many chunks so many messages without an order have, at least 1."""
    return max(1, -(-messages // CHUNK_MESSAGES))


def in_order_units(messages: int) -> int:
    """Return how many units the message groups of so many messages have: 1 to 64."""
    return max(1, min(_MOST_UNITS, messages // _UNIT_MESSAGES))


@dataclass(frozen=True, slots=True)
class Ledger:
    """The claims and results of one run."""

    archive: Archive
    plan_id: str
    run_id: str

    def name(self, unit: str, chunk: int, first: int = 0) -> AttemptName:
        """Name a claim of this run."""
        return AttemptName(self.plan_id, self.run_id, unit, chunk, first)

    def claim(self, unit: str, chunk: int, claim: Claim, first: int = 0) -> bool:
        """Make a claim durably; return False where another task of this run has made it."""
        path = _claim_path(self.name(unit, chunk, first))
        return self.archive.create(path, record_bytes(claim))

    def record(self, unit: str, chunk: int, results: Sequence[Result], first: int = 0) -> None:
        """Write what became of the messages of a claim, durably."""
        lines = "".join([json.dumps(values_of(result)) + "\n" for result in results])
        self.archive.write(_result_path(self.name(unit, chunk, first)), lines.encode())

    def is_closing(self) -> bool:
        """Whether somebody closes this run, so that a claim that was made now is not to send."""
        return self.archive.read(run_path(self.plan_id, self.run_id, CLOSING)) is not None


def read_attempt(archive: Archive, name: AttemptName, *, is_closed: bool = True) -> Attempt | None:
    """Read a claim and its results, None where there is no claim; *is_closed*: as ``Attempt``."""
    path = _claim_path(name)
    claim = read_record(archive, path, Claim)
    if claim is None:
        return None
    with damage_named(archive, path):
        datetime.fromisoformat(claim.time)
        if not name.first < claim.end <= CHUNK_END:
            raise ValueError(claim.end)
    return Attempt(name, claim, read_claim_results(archive, name), is_closed)


def read_claim_results(archive: Archive, name: AttemptName) -> tuple[Result, ...] | None:
    """Read the results of a claim, None while nobody has written them."""
    path = _result_path(name)
    if (content := archive.read(path)) is None:
        return None
    with damage_named(archive, path):
        lines = ",".join(content.decode().splitlines())
        return record_of(tuple[Result, ...], json.loads(f"[{lines}]"))


def discard_claim(archive: Archive, name: AttemptName) -> None:
    """Remove a claim and its results, which a result file has. Never raises."""
    archive.discard(_claim_path(name))
    archive.discard(_result_path(name))


def attempt_names(archive: Archive, run: RunName | None = None) -> list[AttemptName]:
    """List the claims of a run, None for all runs. Opens no file."""
    folder = LEDGER if run is None else f"{run_folder(*run)}/claims"
    return [
        AttemptName(
            match["plan_id"],
            match["run_id"],
            match["unit"],
            int(match["chunk"]),
            int(match["first"]),
        )
        for path in archive.list(folder)
        if (match := _CLAIM_FILE.fullmatch(path))
    ]


def _claim_path(name: AttemptName) -> str:
    return f"{_stem(name)}.claim.json"


def _result_path(name: AttemptName) -> str:
    return f"{_stem(name)}.result.jsonl"


def _stem(name: AttemptName) -> str:
    folder = f"{run_folder(*name.run)}/claims/{name.unit}"
    return f"{folder}/chunk-{name.chunk:05d}.from-{name.first:05d}"


def plan_folder(plan_id: str) -> str:
    """Where the ledger of a plan lies."""
    return f"{LEDGER}/{_PLAN}{plan_id}"


def timestamp(now_seconds: float) -> str:
    """Format a time for the ledger: ISO 8601, UTC, to the millisecond."""
    return datetime.fromtimestamp(now_seconds, UTC).isoformat(timespec="milliseconds")


def sent_text(sent_at: datetime) -> str:
    """Format a SentTimestamp of SQS for the ledger, so that texts sort as times do."""
    return sent_at.astimezone(UTC).isoformat(timespec="milliseconds")


def record_run(archive: Archive, record: RunRecord) -> Probe:
    """Write the record durably; return what proves to a task that it sees the same archive.

    Raises:
        InputError: the plan is sealed; nothing may be claimed.
        ArchiveError: it cannot be written; nothing may be claimed then.
    """
    path = run_path(record.plan_id, record.run_id)
    content = record_bytes(record)
    if not archive.create(path, content):
        raise ArchiveError(f"archive {archive.root}: {path} is there already; run again")
    require_unsealed(archive, record.plan_id)
    return Probe(path, content)


def require_unsealed(archive: Archive, plan_id: str) -> None:
    """Raise InputError if the plan is sealed."""
    if archive.read(f"{RUNS}/{plan_id}/{SEALED}") is not None:
        raise InputError(
            f"plan {plan_id}: is too old to be carried out: its claims have expired; make "
            "another one: collect --only analyze"
        )


def run_records(archive: Archive, runs: Collection[RunName]) -> dict[RunName, RunRecord]:
    """Read the records of these runs."""
    found = {run: read_record(archive, run_path(*run), RunRecord) for run in runs}
    return {run: record for run, record in found.items() if record is not None}


def list_runs(archive: Archive, plan_id: str = "") -> dict[RunName, RunState]:
    """List the runs of a plan, or of all, with their states."""
    paths = archive.list(f"{RUNS}/{plan_id}".rstrip("/"))
    states: dict[RunName, RunState] = {}
    for match in filter(None, map(_RUN_FILE.fullmatch, paths)):
        run = (match["plan_id"], match["run_id"])
        state = _STATE_BY_KIND.get(match["kind"], RunState.OPEN)
        states[run] = max(state, states.get(run, RunState.OPEN))
    return states


def close_open_runs(archive: Archive, own_run_id: str = "") -> None:
    """Write the marker ``closing`` of every run that has neither this nor its result file.

    For a run that has just taken the archive lock, before it reads any claim: what those runs claim
    from now on, they do not send. Its own run stays open.

    Raises:
        ArchiveError: a marker cannot be written. Nothing may be sent then.
    """
    for run, state in list_runs(archive).items():
        if state is RunState.OPEN and run[1] != own_run_id:
            archive.create(run_path(*run, CLOSING), b"")


def find_runs(archive: Archive, plan_id: str = "", run_id: str | None = None) -> list[RunRecord]:
    """Return the records of the runs of a plan, or of the run of this id, the oldest first."""
    runs = [run for run in list_runs(archive, plan_id) if run_id in (None, run[1])]
    return [*run_records(archive, sorted(runs)).values()]


def open_run_notes(archive: Archive) -> list[str]:
    """Return a sentence for each run that nobody has closed, for those who do not hold the lock.

    What such a run claimed without a result is busy. Whether it was killed nobody can tell them.
    """
    states = list_runs(archive)
    runs = sorted(run for run, state in states.items() if state is RunState.OPEN)
    return [
        f"run {one.run_id} of plan {one.plan_id} by {one.actor} has not ended, or was killed: the "
        "next run closes it"
        for one in run_records(archive, runs).values()
    ]


def run_folder(plan_id: str, run_id: str) -> str:
    """Return the folder of what a run itself writes: dispositions and progress."""
    return f"{plan_folder(plan_id)}/runs/{run_id}"


def run_path(plan_id: str, run_id: str, kind: str = RECORD) -> str:
    """Return the path of the record of a run, or of its file of another kind."""
    return f"{RUNS}/{plan_id}/{run_id}.{kind}"
