"""A record of each run that may send: ``ledger/plan_id=<id>/runs/<run_id>.json``.

It is written before the run's first claim and never changed. Claims name the run; who stood behind
it, by AWS's word, is here. It is the run's probe, too: each task reads it back before it claims.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields

from spark_reprocess.actor import Caller
from spark_reprocess.archive.files import Archive, damage_named, read_json
from spark_reprocess.archive.ledger import plan_folder
from spark_reprocess.archive.probe import Probe
from spark_reprocess.errors import ArchiveError


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run.

    Attributes:
        verb: ``redrive`` or ``restore``.
        actor: ``user@host``, as the environment said it.
        caller_arn: see ``Caller``, as for the next two.
        time: when it began; ISO 8601, UTC.
        destinations: the URLs of all queues that it sends to; *destination* is the one that the
            operator named.
        policy_sha256: of the policy that decided, None without one.
        note: what else is to be known of it.
    """

    run_id: str
    plan_id: str
    verb: str
    actor: str
    caller_arn: str | None
    caller_fault: str
    job_run_id: str
    reason: str
    time: str
    destination: str
    destinations: Sequence[str] = ()
    policy_sha256: str | None = None
    note: str = ""

    @property
    def caller(self) -> Caller:
        """Whose credentials it acted with."""
        return Caller(self.caller_arn, self.caller_fault, self.job_run_id)


_NAMES = {one.name for one in fields(RunRecord)}


def record_run(archive: Archive, record: RunRecord) -> Probe:
    """Write the record durably; return what proves to a task that it sees the same archive.

    Raises:
        ArchiveError: it cannot be written; nothing may be claimed then.
    """
    path = _path(record.plan_id, record.run_id)
    content = json.dumps({"version": 1, **asdict(record)}, indent=1).encode()
    if not archive.create(path, content):
        raise ArchiveError(f"archive {archive.root}: {path} is there already; run again")
    return Probe(path, content)


def run_records(
    archive: Archive, runs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], RunRecord]:
    """Read the records of these runs, each given by plan id and run id.

    A run of a version that wrote no records is not in the answer.

    Raises:
        ArchiveError: one cannot be read, or somebody changed it.
    """
    return dict(_existing(archive, runs))


def _existing(
    archive: Archive, runs: Iterable[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], RunRecord]]:
    for run in runs:
        if (content := archive.read(_path(*run))) is not None:
            yield run, _read(archive, _path(*run), content)


def _read(archive: Archive, path: str, content: bytes) -> RunRecord:
    with damage_named(archive, path):
        raw = read_json(archive, path, content)
        return RunRecord(**{name: raw[name] for name in _NAMES & raw.keys()})


def run_folder(plan_id: str, run_id: str) -> str:
    """Return the folder of what a run itself writes: dispositions and progress."""
    return f"{plan_folder(plan_id)}/runs/{run_id}"


def _path(plan_id: str, run_id: str) -> str:
    return f"{run_folder(plan_id, run_id)}.json"
