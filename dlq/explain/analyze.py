"""The verb ``analyze``: pending messages, grouped by failure; a report and a plan."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq.archive.group_records import assign_groups, read_memory, read_notes, write_seen
from dlq.archive.ledger.open_set import read_messages
from dlq.archive.lock import LockHolder, LockUse, archive_lock
from dlq.archive.messages.frames import FILE, read_some, tuned
from dlq.archive.messages.message_index import REPORTS, read_reasons, write_reasons
from dlq.archive.messages.message_store import drain_of, is_in, require_drains
from dlq.archive.storage.files import (
    Archive,
    clock_note,
    new_id,
    open_archive,
    open_folder,
    read_text,
)
from dlq.archive.storage.table_parts import parquet_bytes
from dlq.aws.actor import actor, text_of
from dlq.errors import InputError
from dlq.explain.findings import Findings, GroupFinding, in_rows, merged
from dlq.explain.group_findings import buckets_between, group_findings
from dlq.explain.grouping import OTHERS, Pattern
from dlq.explain.groups import (
    MOST_KEYS,
    SLIM_COLUMNS,
    different_messages,
    group_rows,
    picked,
    sampling_rates,
    tallies,
    with_groups,
    with_keys,
)
from dlq.explain.leads.feature_extraction import leads_among, with_features
from dlq.explain.log_search import search_logs
from dlq.explain.logs.events import LIMIT_MINUTES
from dlq.explain.message_table import TABLE_COLUMNS, write_message_table
from dlq.explain.outputs import GROUPS_SCHEMA, groups_table, plan_notes, summary_json
from dlq.explain.people import follow_messages, left_for_people, note_edits
from dlq.explain.signature.mask import Masks, compile_masks
from dlq.explain.signature.signature import Reasons
from dlq.explain.triage import GroupMemory, after_analysis
from dlq.figures import counted
from dlq.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text
from dlq.plan.policy import Policy, Rule, read_policy
from dlq.plan.yaml_text import Fault, refuse
from dlq.progress import Progress, silent
from dlq.report.page import render_page
from dlq.sql.allowed import check_sql
from spark_reprocess.allowed_sql import condition, matching
from spark_reprocess.evaluation import evaluated, to_arrow, where_option
from spark_reprocess.failures import explained
from spark_reprocess.session import under_our_settings

_GROUPS_WITH_ALL_SAMPLES = 100
"""Of smaller groups one message is shown: a report must not grow without bound."""


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    """What to analyse and where the report goes.

    Attributes:
        out: a folder for the report, None for ``<archive>/reports/<id>``.
        where: a Spark SQL condition over the archive's columns, None for all messages.
        since: only messages that were sent to the parked queue at this time or later, None for all.
        masks: see ``compile_masks``.
        policy: rules that fill in the plan's actions, checked; None leaves every group.
        stack: name of the stack, for the report; None without one.
        logs: log groups, or files of events, see ``search_logs``.
        logs_minutes: the limit of ``LogReading``.
        group_by: see ``grouping.captured``, checked; empty for none, None for the remembered one.
    """

    archive: str
    out: str | None = None
    where: str | None = None
    since: datetime | None = None
    masks: Sequence[str] = ()
    has_samples: bool = True
    policy: Policy | None = None
    stack: str | None = None
    logs: Sequence[str] = ()
    logs_minutes: int = LIMIT_MINUTES
    group_by: str | None = None

    @property
    def condition(self) -> str | None:
        """What the plan freezes: *where* and *since* as one condition, None for all messages."""
        if self.since is None:
            return self.where
        time = self.since.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")
        recent = f"sent_at >= timestamp '{time}Z'"
        if self.where is None:
            return recent
        end_of_comment = "\n" if "--" in self.where else ""
        return f"{recent} AND ({self.where}{end_of_comment})"


@under_our_settings
def analyze(
    spark: SparkSession, options: AnalyzeOptions, *, progress: Progress = silent
) -> Findings:
    """Group the messages that nobody has decided about yet; write report and plan.

    Raises:
        InputError: the archive has no messages, or the condition or a mask is wrong.
        BusyError: an erase is under way. Nothing was written.
    """
    archive = open_archive(options.archive)
    masks = compile_masks(options.masks, shows_values=options.has_samples)
    earlier = archive.list(REPORTS)
    plan_id = new_id(time.time(), earlier)
    reports = open_folder(options.out or f"{archive.root}/{REPORTS}/{plan_id}")
    reports.check_writable()
    # From before the first message is read until the report is written: an erase comes before, and
    # nothing is read, or after, and finds the report.
    holder = LockHolder(plan_id, LockUse.ANALYZE, "an analysis", actor())
    with archive_lock(archive, holder, progress=progress) as lock:
        drains = require_drains(archive)
        now = datetime.now(UTC)
        with progress("reading the archive", partial(counted, len(drains), "drain")):
            archived = read_messages(archive)
            archived.open_set.write(archive)
            archived.open_set.write_for_plan(archive, plan_id)
            pending = archived.pending()
        few = tuned(spark, set(map(str, pending["file"].unique().to_pylist())))
        analysis = _Analysis(spark, archive, options, masks, now, progress, pending, few)
        with explained():
            findings, snapshot, memory = analysis.run(drains, plan_id, f"{reports.root}/plan.yaml")
        findings = replace(findings, clock=clock_note(now.timestamp(), [*earlier, *drains]))
        rules: Mapping[str, Rule] = {}
        if options.policy:
            by_count = groups_table(_counted_by_family(findings))
            rules = rules_by_group(spark, options.policy, by_count)
            # Read now: somebody may have decided since this analysis began.
            left = left_for_people(findings, rules, read_memory(archive))
            findings = replace(findings, left_for_people=left)
        lock.require()
        _write(reports, findings, snapshot, rules)
        # Last: if the process dies before, the next analysis repeats what this one would have said.
        write_seen(archive, plan_id, memory)
    return findings


@dataclass(frozen=True, slots=True)
class _Analysis:
    spark: SparkSession
    archive: Archive
    options: AnalyzeOptions
    masks: Masks
    now: datetime
    progress: Progress
    pending: pa.Table
    is_few: bool

    def run(
        self, drains: Sequence[str], plan_id: str, plan_path: str
    ) -> tuple[Findings, Snapshot, GroupMemory]:
        with self.progress("reading what is pending", str):
            messages = self.pending
            if (where := self.options.condition) is not None:
                rows = read_some(self.spark, self.archive, messages)
                # On its own first: "a) OR (b" is a condition only within brackets.
                matching(rows, self.options.where, hidden=[FILE])
                rows = matching(rows, where, hidden=[FILE]).select("message_id", FILE)
                messages = evaluated(self.spark, partial(to_arrow, rows), *where_option(where))
        reasons, log_note = self._reasons(messages, plan_id)
        kept = tuple(dict.fromkeys((*SLIM_COLUMNS, *TABLE_COLUMNS)))
        known = read_memory(self.archive)
        kept_ids, group_by = known.groups.keys() | known.said, self.options.group_by
        assign = partial(assign_groups, self.archive, kept=kept_ids, group_by=group_by)
        with ExitStack() as stack:
            with self.progress("grouping", str):
                keyed = with_keys(self.spark, self.archive, messages, reasons, kept)
                keyed = self._kept(keyed, stack)
                slim, grouping = with_groups(keyed, kept, assign, is_few=self.is_few)
                listed = group_rows(slim)
                different = different_messages(slim)
                messages_in = sum(row["count"] for row in listed)
            with self.progress("remembering the groups", str):
                memory = read_memory(self.archive)
                note_edits(self.archive, memory)
                if self.options.condition is None:
                    follow_messages(slim, self.archive, plan_id, self.now)
            with self.progress("saving the groups", str):
                table_sha256 = write_message_table(slim, self.archive, plan_id, messages_in)
            is_whole = self.options.condition is None and len(grouping.ids) < MOST_KEYS
            after, gone = after_analysis(
                memory, plan_id, self.now, listed, grouping.unlisted, is_whole=is_whole
            )
            firsts = filter(None, (row["first_sent_at"] for row in listed))
            lasts = filter(None, (row["last_sent_at"] for row in listed))
            buckets = buckets_between(min(firsts, default=None), max(lasts, default=None))
            found, sampled = self._found(reasons, slim, listed, grouping.titles, buckets, after)
        findings = Findings(
            plan_id=plan_id,
            archive=self.archive.root,
            plan_path=plan_path,
            analyzed_at=self.now,
            messages=messages_in,
            different=different,
            bucket_starts=tuple(datetime.fromtimestamp(one, UTC) for one in buckets),
            bucket_seconds=float(buckets.step),
            groups=found,
            where=self.options.condition,
            sampled=sampled,
            gone=gone,
            unreadable=memory.unreadable,
            stack=self.options.stack,
            logs=log_note,
            families=grouping.families,
            similar=grouping.similar,
            group_by=grouping.group_by,
        )
        snapshot = Snapshot(
            tuple(drains),
            messages_in,
            table_sha256,
            self.options.condition,
            self.options.policy.sha256 if self.options.policy else None,
        )
        return findings, snapshot, after

    def _reasons(self, messages: pa.Table, plan_id: str) -> tuple[dict[str, Any], str]:
        """Return errors that logs have, now or from earlier, of messages without one."""
        files = map(str, self.pending["file"].unique().to_pylist())
        reasons, note = read_reasons(self.archive, set(map(drain_of, files))), ""
        if self.options.logs:
            rows, options = read_some(self.spark, self.archive, self.pending), self.options
            unknown = messages.filter(pc.invert(is_in(messages["message_id"], [*reasons])))
            unexplained = read_some(self.spark, self.archive, unknown)
            unexplained = unexplained.where("coalesce(error_type, error_message) IS NULL")
            with self.progress("reading the logs", str):
                found, note = search_logs(
                    *(rows, unexplained, options.logs, options.logs_minutes, self.masks),
                    is_few=self.is_few,
                )
            reasons.update((row["message_id"], row) for row in found)
            found_ids = [row["message_id"] for row in found]
            explained_now = self.pending.filter(is_in(self.pending["message_id"], found_ids))
            by_drain = defaultdict[str, list[Mapping[str, Any]]](list)
            for row in explained_now.to_pylist():
                by_drain[drain_of(row["file"])].append(reasons[row["message_id"]])
            for drain_id, rows_of_drain in by_drain.items():
                write_reasons(self.archive, plan_id, drain_id, rows_of_drain)
        return reasons, note

    def _found(
        self,
        reasons: Reasons,
        slim: DataFrame,
        listed: list[dict[str, Any]],
        titles: Mapping[str, Pattern | str],
        buckets: range,
        memory: GroupMemory,
    ) -> tuple[tuple[GroupFinding, ...], int]:
        """Return the findings of the groups, and the size of the sample."""
        if not listed:
            return (), 0
        counts = {row["group_id"]: row["count"] for row in listed}
        place = F.floor((F.unix_timestamp("sent_at") - buckets.start) / buckets.step)
        with self.progress("counting", str):
            tallied = tallies(slim, place).to_pylist()
        notes = read_notes(self.archive, memory, counts)
        for rank, row in enumerate(listed):
            row["note"] = notes.get(row["group_id"], "")
            row["shown"] = row["shown"][: None if rank < _GROUPS_WITH_ALL_SAMPLES else 1]
        body_bytes = sum(row["body_bytes_sum"] for row in listed)
        picks = picked(slim, sampling_rates(counts, body_bytes), [row["shown"] for row in listed])
        few = self.is_few
        rows, sampled = with_features(self.archive, picks, reasons, titles, self.masks, is_few=few)
        with self.progress("looking for leads", str), ExitStack() as stack:
            extracted = self._kept(rows, stack)
            leads = leads_among(extracted, counts, self.masks, is_few=few).toArrow()
            shown = extracted.where("title IS NOT NULL").drop("features", "shape").toArrow()
        found = group_findings(
            listed,
            tallied,
            shown.to_pylist(),
            leads.to_pylist(),
            buckets=buckets,
            now=self.now,
            memory=memory,
        )
        return found, sampled

    def _kept(self, frame: DataFrame, stack: ExitStack) -> DataFrame:
        """Evaluate *frame* once while *stack* is open. Few rows are quicker evaluated again."""
        if not self.is_few:
            stack.callback(frame.persist(StorageLevel.MEMORY_AND_DISK).unpersist)
        return frame


def _counted_by_family(findings: Findings) -> Findings:
    groups = []
    for family in in_rows(findings.groups, findings.families):
        whole = merged(family)
        groups += [replace(one, count=whole.count, share=whole.share) for one in family]
    return replace(findings, groups=tuple(groups))


def _write(
    reports: Archive, findings: Findings, snapshot: Snapshot, rules: Mapping[str, Rule]
) -> None:
    """Write the plan last: if it exists, the rest exists too."""
    reports.write("groups.parquet", parquet_bytes(groups_table(findings)))
    reports.write("summary.json", summary_json(findings).encode())
    reports.write("report.html", render_page(findings).encode())
    notes, groups = plan_notes(findings), []
    for group in findings.groups:
        rule = rules.get(group.group_id)
        if rule is not None and (word := findings.left_for_people.get(group.group_id)):
            notes[group.group_id].append(f"left for a person ({word}) against rule: {rule.name}")
            rule = None
        elif rule is not None:
            notes[group.group_id].append(f"by the policy's rule: {rule.name}")
        action = Action.LEAVE if rule is None else rule.action
        groups.append(PlannedGroup(group.group_id, group.title, group.count, action))
    plan = Plan(findings.plan_id, findings.archive, snapshot, tuple(groups))
    reports.write("plan.yaml", plan_text(plan, notes).encode())


def load_policy(spark: SparkSession | None, location: str, sha256: str | None = None) -> Policy:
    """Read a policy's file, on disk or on S3, and check all of it; *sha256* as ``read_policy``.

    Without *spark* of its conditions only what ``check_sql`` finds is found.

    Raises:
        InputError: there is no such file, or it has faults; all are named with their places.
    """
    try:
        text = read_text(location)
    except InputError as error:
        raise InputError(f"--policy {error}") from error
    policy = read_policy(text, sha256, location)
    check_conditions(spark, policy, location)
    return policy


def check_conditions(spark: SparkSession | None, policy: Policy, name: str = "the policy") -> None:
    """Raise InputError with the places of conditions that are no SQL over columns of groups."""
    empty = spark.createDataFrame(GROUPS_SCHEMA.empty_table()) if spark else None
    faults: list[Fault] = []
    for index, rule in enumerate(policy.rules):
        try:
            if empty is None:
                check_sql(rule.when, GROUPS_SCHEMA.names, "when")
            else:
                matching(empty, rule.when, "when")
        except InputError as error:
            faults.append((("rules", index, "when"), f"rule {rule.name!r}: {text_of(error)}"))
    refuse(name, faults)


def rules_by_group(spark: SparkSession, policy: Policy, groups: pa.Table) -> dict[str, Rule]:
    """Return the rule that decides about each group, if any; none decides about ``OTHERS``.

    *groups* are rows of ``groups.parquet``; the conditions must have been checked.

    Raises:
        InputError: a condition fails on a group (a bad cast, say).
    """
    if not groups.num_rows:
        return {}
    frame = spark.createDataFrame(groups)
    flags = [
        condition(frame, rule.when, "when").alias(f"rule_{n}")
        for n, rule in enumerate(policy.rules)
    ]
    decided = frame.select("group_id", *flags)
    rows = evaluated(spark, decided.collect, "a condition of the policy", row="group")
    # The first rule that matches comes last, and replaces the others.
    return {
        row["group_id"]: rule
        for row in rows
        for n, rule in reversed([*enumerate(policy.rules)])
        if row[f"rule_{n}"] and row["group_id"] != OTHERS
    }
