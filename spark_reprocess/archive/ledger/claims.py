"""What happened to each message of a plan: claims and results, a pair of files per claim; runs.

``ledger/plan_id=<id>/<unit>/chunk-00003.attempt-1.from-00000.claim.json`` names the messages that
somebody is about to send, before the first is sent; ``....result.jsonl`` says what became of each.
Claims are made by create-if-absent, so of several runs, tasks or retries exactly one gets each. A
claim without a result is busy while young; after that its messages are in doubt. The clocks of
machines may be days off, so a claim may look old while its run is sending. So what is in doubt is
sent again, or counted as arrived, only by a run that shares the plan lock with no other run: then
the run that made the claim has ended, or is dead.

Each message has a place in its chunk. It depends on the plan alone, and messages may share one. A
claim covers the places from the one in its name to its end, which whoever makes it chooses by its
rate. The next claim of the attempt begins there. So claims of one attempt cover no
place twice, whatever the rates are. An attempt covers only places that the attempt before it
covers, and that nobody is sending any more.

``ledger/runs/<plan id>/`` says which runs there are, so that nobody has to list chunks for that.
Whoever closes a run writes ``<run id>.closing`` first, and lists its claims after that. A task
looks for it after it has made a claim, and before it sends. So each claim that sends is listed. In
the same way a run looks for ``sealed`` after it has written its record; whoever seals the plan
lists the runs after that, and closes each.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum, auto
from typing import NamedTuple

from spark_reprocess.archive.ledger.disposition import DECIDED, Disposition
from spark_reprocess.archive.storage.files import Archive, Probe
from spark_reprocess.archive.storage.records import (
    damage_named,
    read_record,
    record_bytes,
    record_of,
    values_of,
)
from spark_reprocess.aws.actor import Caller
from spark_reprocess.errors import ArchiveError, InputError

LEDGER = "ledger"
RUNS = f"{LEDGER}/runs"
CHUNK_MESSAGES = 100
"""About so many messages are in a chunk."""

PLACES = 65_536
"""A place in a chunk is below this."""

POSITION = ("unit", "chunk", "place")
"""Columns: the chunk of a message, and its place in it."""

_PLAN = "plan_id="
_CLAIM_FILE = re.compile(
    rf"{LEDGER}/{_PLAN}(?P<plan_id>[^/]+)/(?P<unit>[^/]+)"
    r"/chunk-(?P<chunk>\d+)\.attempt-(?P<number>\d+)\.from-(?P<first>\d+)\.claim\.json"
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
        time: ISO 8601, UTC; the claim's age counts from here.
        ttl_seconds: how long its run may act on it; readers wait at least as long.
        edits: by id of each message that is edited, the digest of its edit.
        step: of which step of a ramp they are, from 1; 0 outside a ramp.
        end: the first place of the chunk behind those that it covers, 1 to ``PLACES``.
        lock: the number of its run's plan lock, see ``plan_lock``: of two runs that did not share
            the lock, the later one has the greater number.
        drain_ids: of each message, in their order; empty where nobody knows.
        first_sent_at: the smallest SentTimestamp of the messages, as ``sent_text`` writes it; empty
            if that of one of them is not known.
        last_sent_at: the greatest one, in the same way.
    """

    run_id: str
    who: str
    reason: str
    destination: str
    time: str
    message_ids: tuple[str, ...]
    ttl_seconds: float = 0
    edits: Mapping[str, str] = field(default_factory=dict)
    step: int = 0
    end: int = PLACES
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

    @property
    def is_copy(self) -> bool:
        """Whether a copy was sent to a main queue, and no person said that one had arrived."""
        return self.outcome is Disposition.SENT and self.detail != Disposition.ARRIVED


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run that may send. It is written before the run's first claim and never changed.

    Claims name the run; this record has the AWS identity behind it. It is the run's probe, too.

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
    """Which claim: of attempt *number*, from 1, at a plan's chunk, from place *first* on."""

    plan_id: str
    unit: str
    chunk: int
    number: int
    first: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a chunk, or of a part of it; *results* is None while there are none."""

    name: AttemptName
    claim: Claim
    results: tuple[Result, ...] | None

    def is_busy(self, now_seconds: float, claim_ttl_seconds: float) -> bool:
        """Whether its run may still be sending; *claim_ttl_seconds* is the reader's own limit.

        A claim that is so far in the future is of a clock that was ahead: nobody waits for that.
        """
        claimed = datetime.fromisoformat(self.claim.time).timestamp()
        busy_seconds = max(self.claim.ttl_seconds, claim_ttl_seconds)
        return self.results is None and abs(now_seconds - claimed) < busy_seconds


def chunk_count(messages: int) -> int:
    """Return how many chunks so many messages without an order have, at least 1."""
    return max(1, -(-messages // CHUNK_MESSAGES))


def open_ranges(attempts: Iterable[Attempt]) -> list[tuple[int, int, int]]:
    """Return what can be claimed of a chunk with these attempts: every place once, in order.

    Each is the number of an attempt, the place at which its next claim begins, and its end.
    Other runs may add claims while a run reads. So an attempt is never to cover a place of which
    this run has not seen the claim of each attempt before it.
    """
    covered: dict[int, int] = {}
    for attempt in attempts:
        covered[attempt.name.number] = max(attempt.claim.end, covered.get(attempt.name.number, 0))
    ranges, end = [], PLACES
    for number in range(1, len(covered) + 2):
        first = covered.get(number, 0)
        if first < end:
            ranges.append((number, first, end))
        end = min(end, first)
    return ranges[::-1]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of one plan."""

    archive: Archive
    plan_id: str

    def attempts(self, unit: str, chunk: int) -> list[Attempt]:
        """Read every claim at one chunk, in order. Costs two reads per claim, no listing."""
        found: list[Attempt] = []
        name = AttemptName(self.plan_id, unit, chunk, 1)
        while True:
            while name.first < PLACES and (attempt := self.attempt(name)) is not None:
                found.append(attempt)
                name = name._replace(first=attempt.claim.end)
            if not name.first:
                return found
            name = name._replace(number=name.number + 1, first=0)

    def attempt(self, name: AttemptName) -> Attempt | None:
        """Read one attempt of this plan, None where there is none."""
        path = f"{self._path(*name[1:])}.claim.json"
        claim = read_record(self.archive, path, Claim)
        if claim is None:
            return None
        with damage_named(self.archive, path):
            datetime.fromisoformat(claim.time)
            if not name.first < claim.end <= PLACES:
                raise ValueError(claim.end)
        return Attempt(name, claim, self.results(name))

    def results(self, name: AttemptName) -> tuple[Result, ...] | None:
        """Read the results of one attempt of this plan, None while nobody has written them."""
        path = f"{self._path(*name[1:])}.result.jsonl"
        if (content := self.archive.read(path)) is None:
            return None
        with damage_named(self.archive, path):
            lines = ",".join(content.decode().splitlines())
            return record_of(tuple[Result, ...], json.loads(f"[{lines}]"))

    def discard(self, name: AttemptName) -> None:
        """Remove the claim and the results of an attempt that a result file has. Never raises."""
        for suffix in ("claim.json", "result.jsonl"):
            self.archive.discard(f"{self._path(*name[1:])}.{suffix}")

    def is_closing(self, run_id: str) -> bool:
        """Whether somebody closes this run, so that a claim that was made now is not to send."""
        return self.archive.read(run_path(self.plan_id, run_id, CLOSING)) is not None

    def claim(self, unit: str, chunk: int, number: int, claim: Claim, first: int = 0) -> bool:
        """Make attempt *number*'s claim from place *first* on, durably; False if another has."""
        path = f"{self._path(unit, chunk, number, first)}.claim.json"
        return self.archive.create(path, record_bytes(claim))

    def record(
        self, unit: str, chunk: int, number: int, results: Sequence[Result], first: int = 0
    ) -> None:
        """Write what became of the messages of a claim, durably."""
        lines = "".join([json.dumps(values_of(result)) + "\n" for result in results])
        self.archive.write(f"{self._path(unit, chunk, number, first)}.result.jsonl", lines.encode())

    def _path(self, unit: str, chunk: int, number: int, first: int) -> str:
        claim = f"chunk-{chunk:05d}.attempt-{number}.from-{first:05d}"
        return f"{plan_folder(self.plan_id)}/{unit}/{claim}"


def attempt_names(archive: Archive, plan_id: str | None = None) -> list[AttemptName]:
    """List the claims of a plan, None for all plans. Opens no file."""
    folder = LEDGER if plan_id is None else plan_folder(plan_id)
    return [
        AttemptName(
            *(match["plan_id"], match["unit"]),
            *(int(match[group]) for group in ("chunk", "number", "first")),
        )
        for path in archive.list(folder)
        if (match := _CLAIM_FILE.fullmatch(path))
    ]


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

    For a run that has just taken the plan lock, before it reads any claim: what those runs claim
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


def run_folder(plan_id: str, run_id: str) -> str:
    """Return the folder of what a run itself writes: dispositions and progress."""
    return f"{plan_folder(plan_id)}/runs/{run_id}"


def run_path(plan_id: str, run_id: str, kind: str = RECORD) -> str:
    """Return the path of the record of a run, or of its file of another kind."""
    return f"{RUNS}/{plan_id}/{run_id}.{kind}"
