"""What is the same for every message of a run; and what a run writes before it sends."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from dlq_replay.message import Message, SendEntry
from dlq_replay.outgoing import canary_entry, has_room_for_canary, redriven_entry, restored_entry
from dlq_replay.policy import MAX_MESSAGE_BYTES
from spark_reprocess.actor import caller
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import Archive, Probe
from spark_reprocess.archive.frames import DRIVER_ROWS, read_table, write_table
from spark_reprocess.archive.ledger import RunRecord, plan_folder, record_run, run_folder, timestamp
from spark_reprocess.archive.plan_lock import LOCK_SECONDS, LockHolder, LockView
from spark_reprocess.clients import region_of
from spark_reprocess.editing.edit import Edit
from spark_reprocess.errors import ArchiveError
from spark_reprocess.plan.plan import Plan
from spark_reprocess.redrive.editor import Editor
from spark_reprocess.redrive.redrive_values import Tally


@dataclass(frozen=True, slots=True)
class RunContext:
    """What is the same for every chunk of a run; goes into each claim.

    Attributes:
        claim_ttl_seconds: how long a claim counts as busy.
        send_in_doubt: whether messages in doubt are sent again.
        max_message_bytes: the destination's limit.
        room_bytes: the smallest limit of the queues that a copy passes before it is parked again:
            what does not fit there loses its context on the way.
        edits: how messages are changed on their way, by group id.
        max_rate: messages a second over all tasks, None for no limit.
        is_canary: whether messages go ahead, to come back at once where they fail.
        requires_room: whether a message that cannot carry the plan's id is left.
        is_restore: whether messages go back to the parked queue, as they are.
        cut_from: a digest of what the chunks are cut from. Claims that mean other chunks by the
            same numbers are none of each other's.
        policy_sha256: of the policy that filled in the plan's actions, in hex; None without one.
        probe: each task checks it before its first claim; None in a dry run.
        lock: the plan lock, which each task observes; None in a dry run.
        pace: path of the file in which the driver says how fast tasks may send; None for no limit.
    """

    run_id: str
    plan_id: str
    who: str
    reason: str
    destination: str
    to_fifo: bool
    claim_ttl_seconds: float
    send_in_doubt: bool
    keep_counter: bool
    max_message_bytes: int
    edits: Mapping[str, Edit] = field(default_factory=dict)
    max_rate: float | None = None
    room_bytes: int = MAX_MESSAGE_BYTES
    is_canary: bool = False
    requires_room: bool = False
    is_restore: bool = False
    cut_from: str = ""
    policy_sha256: str | None = None
    probe: Probe | None = None
    lock: LockView | None = None
    pace: str | None = None

    @property
    def lock_seconds(self) -> float:
        """The life of the plan lock: no longer than that of a claim."""
        return min(LOCK_SECONDS, self.claim_ttl_seconds)

    @property
    def editor(self) -> Editor:
        """What makes messages of rows."""
        return Editor(self.edits, self.plan_id, self.keep_counter, self.max_message_bytes)

    def entry(self, message: Message) -> SendEntry:
        """The copy of *message* to send; ask ``has_room`` first."""
        if self.is_restore:
            return restored_entry(message, self.plan_id, to_fifo=self.to_fifo)
        if self.is_canary:
            return canary_entry(message, self.plan_id, to_fifo=self.to_fifo)
        return redriven_entry(
            message,
            self.plan_id,
            to_fifo=self.to_fifo,
            keep_counter=self.keep_counter,
            max_message_bytes=self.max_message_bytes,
        )

    @property
    def lock_holder(self) -> LockHolder:
        """Who holds the plan lock for this run."""
        claims = f"{self.plan_id} {self.cut_from}"
        return LockHolder(self.run_id, claims, f"plan {self.plan_id}", self.who)

    @property
    def confirmed(self) -> Disposition:
        """What the ledger calls a message that SQS confirmed."""
        return Disposition.RESTORED if self.is_restore else Disposition.SENT

    def has_room(self, message: Message) -> bool:
        """Whether the copy can carry what it must; others can do without our attributes."""
        if not self.is_canary and not self.requires_room:
            return True
        return has_room_for_canary(message, self.plan_id, self.room_bytes)


def with_run_record(
    archive: Archive,
    context: RunContext,
    verb: str,
    spark: SparkSession,
    destinations: Sequence[str],
) -> RunContext:
    """Write the record of a run; return its context with what proves to tasks that they see it.

    Raises:
        ArchiveError: it cannot be written; nothing may be claimed then.
    """
    region = region_of(context.destination, "us-east-1")
    record = RunRecord(
        run_id=context.run_id,
        plan_id=context.plan_id,
        verb=verb,
        actor=context.who,
        **asdict(caller(spark.sparkContext.applicationId, region)),
        reason=context.reason,
        time=timestamp(time.time()),
        destination=context.destination,
        destinations=destinations,
        policy_sha256=context.policy_sha256,
    )
    return replace(context, probe=record_run(archive, record))


def write_dispositions(
    archive: Archive, dispositions: DataFrame, planned: Iterable[Tally], context: RunContext
) -> DataFrame:
    """Write what the run does with each message, durably; return it as it is read from there.

    Spark computes a lost partition again. From the ledger alone it would then decide anew.
    """
    folder = f"{run_folder(context.plan_id, context.run_id)}/dispositions"
    rows = sum(tally.count for tally in planned)
    write_table(dispositions, archive, folder, rows)
    spark, columns = dispositions.sparkSession, dispositions.schema.toDDL()
    written = read_table(spark, archive, folder, columns)
    # The driver has read few rows. In one partition they need no shuffle.
    return written.coalesce(1) if rows <= DRIVER_ROWS else written


def record_edits(archive: Archive, context: RunContext, now_seconds: float) -> None:
    """Write down the edits of a run before its first message is sent.

    ``ledger/plan_id=<id>/edits/<group>.<digest>.json`` holds an edit, and the run that first used
    it. Each claim names the digests of its groups.

    Raises:
        ArchiveError: they cannot be written; nothing may be sent then.
    """
    head = {
        "version": 1,
        "run_id": context.run_id,
        "who": context.who,
        "time": timestamp(now_seconds),
    }
    for group_id, edit in context.edits.items():
        content = json.dumps({**head, **json.loads(edit.text)}, indent=1)
        path = f"{_edits_folder(context.plan_id)}/{group_id}.{edit.digest}.json"
        archive.create(path, content.encode())


def other_edits(archive: Archive, plan: Plan, planned: Iterable[Tally]) -> Iterator[str]:
    """Name the groups of which earlier runs sent messages with another edit than the plan's.

    Args:
        archive: where the ledger is.
        plan: as it reads now.
        planned: how many messages of each group have which disposition.
    """
    records = list(_edit_records(archive, plan.plan_id))
    for tally in planned:
        if tally.word != Disposition.SENT_BEFORE:
            continue
        group_id = tally.group_id
        now = plan.edits[group_id].digest if group_id in plan.edits else None
        of_group = [(digest, run) for of, digest, run in records if of == group_id]
        others = [f"edit {digest} ({run})" for digest, run in of_group if digest != now]
        if now is not None and not of_group:
            others = ["no edit"]
        if others:
            yield (
                f"group {group_id}: {tally.count:,} messages were sent before, by runs with "
                f"{', '.join(others)}; the rest goes with {f'edit {now}' if now else 'no edit'}"
            )


def _edit_records(archive: Archive, plan_id: str) -> Iterator[tuple[str, str, str]]:
    """Read which edits this plan's runs have used: group, digest, and the run with its operator.

    Raises:
        ArchiveError: one cannot be read, or somebody changed it.
    """
    for path in archive.list(_edits_folder(plan_id)):
        group_id, digest, _ = path.rsplit("/", 1)[1].split(".")
        try:
            raw = json.loads(archive.read(path) or b"")
            yield group_id, digest, f"run {raw['run_id']}, {raw['who']}"
        except (ValueError, KeyError, TypeError) as error:
            raise ArchiveError(
                f"archive {archive.root}: {path} cannot be read ({type(error).__name__}); "
                "somebody changed it: restore it, do not delete it"
            ) from error


def _edits_folder(plan_id: str) -> str:
    return f"{plan_folder(plan_id)}/edits"
