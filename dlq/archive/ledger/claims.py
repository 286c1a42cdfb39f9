"""The ledger of a plan: its runs, their claims, and the result of each message.

A task writes ``ledger/plan_id=<plan>/runs/<run>/claims/<unit>/chunk-00003.from-00000.claim.json``
before it sends the first message of the claim: the file names the messages. It writes
``....result.jsonl`` afterwards: the outcome of each.

*Within a run* no two tasks have the same claim, although Spark starts a task again, or twice. Run,
unit, chunk and first position name a claim. The dispositions that the run wrote before its first
claim decide which messages are in a chunk, and in which order. Claims are made by create-if-absent,
so of several tasks exactly one gets each. A claim covers the messages from its first position to
its end. The task that makes it chooses the end by its rate. The next claim of the chunk begins
there.

*Of several runs* one may act: the one that has the archive lock. The marker ``closing`` stops a run
that has lost the lock and has not noticed yet:

* A run that takes the lock to act writes ``ledger/runs/<plan>/<run>.closing`` for each run that has
  not ended, and lists claims after that.
* A task looks for the marker of its run after it has made a claim, and before it sends. If it is
  there, the task sends nothing.

So a claim that may send was made before the marker, and is in that list. No clock decides.

A claim without a result is *in progress* until its run is closed, and *unconfirmed* from then on.
It is never free: a task may have been frozen before its call, and wake hours later. An unconfirmed
message is sent again only if a person decides so.

``ledger/runs/<plan>/`` lists the runs, so that no reader lists claims to find them. A run looks for
``sealed`` after it has written its record. The process that seals the plan lists the runs after
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
from dlq.archive.storage.files import Archive, ArchiveProof
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
"""A chunk has about this many messages."""

_UNIT_MESSAGES = 1000
_MOST_UNITS = 64

CHUNK_END = 2**31 - 1
"""The end of a claim that covers all the rest of its chunk."""

POSITION = ("unit", "chunk", "position")
"""Columns: the chunk of a message, and its place there; messages of one position go by id."""

_PLAN = "plan_id="
_CLAIM_FILE = re.compile(
    rf"{LEDGER}/{_PLAN}(?P<plan_id>[^/]+)/runs/(?P<run_id>[^/]+)/claims/(?P<unit>[^/]+)"
    r"/chunk-(?P<chunk>\d+)\.from-(?P<first>\d+)\.claim\.json"
)
_RUN_FILE = re.compile(rf"{RUNS}/(?P<plan_id>[^/]+)/(?P<run_id>[^/]+)\.(?P<kind>[a-z]+)")
RECORD = "json"
CLOSING = "closing"
RESULTS = "parquet"
SEALED = "sealed"
CLEARED = "cleared"

RunName = tuple[str, str]
"""The plan's id, and the run's."""


class RunState(IntEnum):
    """State of a run, by its files."""

    OPEN = auto()  # it may claim and send, or it was killed and no run has taken the lock since
    CLOSING = auto()  # marked: it sends nothing of what it claims from now on
    CLOSED = auto()  # its result file is there: readers need not list its claims


_STATE_BY_KIND = {CLOSING: RunState.CLOSING, RESULTS: RunState.CLOSED}

OUTCOMES = (*DECIDED, Disposition.FAILED, Disposition.UNCONFIRMED)
"""The possible outcomes of one attempt in a result."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Messages that a task is about to act on; written before it sends the first.

    Attributes:
        time: ISO 8601, UTC; for people, and for the order of a run's own claims.
        edits: by id of each message that is edited, the digest of its edit.
        step: the step of a ramp that they belong to, from 1; 0 outside a ramp.
        end: the first position in the chunk behind those that it covers, or ``CHUNK_END``.
        lock: the number of its run's archive lock, see ``archive_lock``: the later one of two runs
            has the greater number.
        drain_ids: the drain of each message, in their order; empty where they are not known.
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
    """Outcome of one message in one attempt.

    Attributes:
        new_message_id: SQS's id of the copy that was sent; empty if none was.
        detail: SQS's error code, or why there is no answer; never a part of the message.
    """

    message_id: str
    outcome: Disposition
    time: str
    new_message_id: str = ""
    detail: str = ""

    def __post_init__(self) -> None:
        """Refuse a disposition that is not the outcome of an attempt."""
        if self.outcome not in OUTCOMES:
            raise ValueError(self.outcome)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run that may send. It is written before the run's first claim and never changed.

    Paths of claims name the run; this record has its AWS identity. It is also the run's proof.

    Attributes:
        verb: ``redrive`` or ``restore``.
        actor: ``user@host`` by the environment.
        caller: the owner of the credentials that it acted with.
        time: when it began; ISO 8601, UTC.
        destination: the URL of the queue that the operator named; empty if a tag names the queues.
        destinations: the URLs of all queues that it sends to.
        policy_sha256: digest of the policy that decided, None without one.
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
    """Name of a claim: of a run, at a chunk, from position *first* on.

    Attributes:
        unit: the share of the run's messages that has the chunk; each counts its own chunks.
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
    """A claim and its results.

    Attributes:
        results: None while no result is written.
        is_closed: whether its run was closed when this was read.
    """

    name: AttemptName
    claim: Claim
    results: tuple[Result, ...] | None
    is_closed: bool = True

    @property
    def is_in_progress(self) -> bool:
        """True if its run may still be sending: it has not ended, or it was killed."""
        return self.results is None and not self.is_closed


def chunk_count(messages: int) -> int:
    """Return the number of chunks of this many messages without an order, at least 1."""
    return max(1, -(-messages // CHUNK_MESSAGES))


def in_order_units(messages: int) -> int:
    """Return the number of units for the message groups of this many messages: 1 to 64."""
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
        """Write the results of a claim, durably."""
        lines = [f"{json.dumps(values_of(result))}\n" for result in results]
        path = _result_path(self.name(unit, chunk, first))
        self.archive.write(path, "".join(lines).encode())

    def is_closing(self) -> bool:
        """Return whether another run closes this one: it must not send what it claims now."""
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
    """Read the results of a claim, None while there are none."""
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
    names = []
    for path in archive.list(folder):
        match = _CLAIM_FILE.fullmatch(path)
        if match:
            name = AttemptName(
                plan_id=match["plan_id"],
                run_id=match["run_id"],
                unit=match["unit"],
                chunk=int(match["chunk"]),
                first=int(match["first"]),
            )
            names.append(name)
    return names


def _claim_path(name: AttemptName) -> str:
    return f"{_stem(name)}.claim.json"


def _result_path(name: AttemptName) -> str:
    return f"{_stem(name)}.result.jsonl"


def _stem(name: AttemptName) -> str:
    folder = f"{run_folder(*name.run)}/claims/{name.unit}"
    return f"{folder}/chunk-{name.chunk:05d}.from-{name.first:05d}"


def plan_folder(plan_id: str) -> str:
    """Return the folder of the ledger of a plan."""
    return f"{LEDGER}/{_PLAN}{plan_id}"


def timestamp(now_seconds: float) -> str:
    """Format a time for the ledger: ISO 8601, UTC, to the millisecond."""
    return datetime.fromtimestamp(now_seconds, UTC).isoformat(timespec="milliseconds")


def sent_text(sent_at: datetime) -> str:
    """Format a SentTimestamp of SQS for the ledger, so that texts sort as times do."""
    return sent_at.astimezone(UTC).isoformat(timespec="milliseconds")


def record_run(archive: Archive, record: RunRecord) -> ArchiveProof:
    """Write the record durably; return it as the proof by which a task knows the same archive.

    Raises:
        InputError: the plan is sealed; nothing may be claimed.
        ArchiveError: it cannot be written; nothing may be claimed then.
    """
    path = run_path(record.plan_id, record.run_id)
    content = record_bytes(record)
    if not archive.create(path, content):
        raise ArchiveError(f"archive {archive.root}: {path} is there already; run again")
    require_unsealed(archive, record.plan_id)
    return ArchiveProof(path, content)


def require_unsealed(archive: Archive, plan_id: str) -> None:
    """Raise InputError if the plan is sealed."""
    if archive.read(f"{RUNS}/{plan_id}/{SEALED}") is not None:
        raise InputError(
            f"plan {plan_id}: is too old to be carried out: its claims have expired; make "
            "another one: collect --only analyze"
        )


def run_records(archive: Archive, runs: Collection[RunName]) -> dict[RunName, RunRecord]:
    """Read the records of these runs."""
    records = {}
    for run in runs:
        record = read_record(archive, run_path(*run), RunRecord)
        if record is not None:
            records[run] = record
    return records


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

    A run calls this when it has taken the archive lock, before it reads any claim. The other runs
    do not send what they claim from now on. The run *own_run_id* stays open.

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
    """Return a sentence for each run that is not closed, for readers without the lock.

    What such a run claimed without a result is in progress. These readers cannot tell whether it
    was killed.
    """
    states = list_runs(archive)
    open_runs = sorted(run for run, state in states.items() if state is RunState.OPEN)
    return [_open_run_note(run) for run in run_records(archive, open_runs).values()]


def _open_run_note(run: RunRecord) -> str:
    return (
        f"run {run.run_id} of plan {run.plan_id} by {run.actor} has not ended, or was killed: the "
        "next run closes it"
    )


def run_folder(plan_id: str, run_id: str) -> str:
    """Return the folder of the files that a run itself writes: dispositions and progress."""
    return f"{plan_folder(plan_id)}/runs/{run_id}"


def run_path(plan_id: str, run_id: str, kind: str = RECORD) -> str:
    """Return the path of the record of a run, or of its file of another kind."""
    return f"{RUNS}/{plan_id}/{run_id}.{kind}"
