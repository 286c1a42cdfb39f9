"""The verb ``show``: the whole history of one message, without Spark."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from spark_reprocess.analysis.mask import compile_masks
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.lookup import FoundRow, find_attempts, find_rows, find_sender
from spark_reprocess.archive.message_store import drain_ids
from spark_reprocess.archive.run_records import run_records
from spark_reprocess.errors import InputError
from spark_reprocess.upkeep.history import ArchivedCopy, DeadLetterHistory, history_of


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """Which message, and how much of it.

    Attributes:
        message_id: of an archived copy, of the first copy, or of the copy that a redrive sent.
        has_body: whether bodies and the values of attributes are wanted, masked.
        is_unmasked: the same, as they are.
        claim_ttl_seconds: how long a claim without a result counts as busy.
        as_json: whether the command line answers with JSON.
    """

    archive: str
    message_id: str
    has_body: bool = False
    is_unmasked: bool = False
    claim_ttl_seconds: float = 900
    as_json: bool = False


def show(options: ShowOptions) -> DeadLetterHistory:
    """Find every archived copy of a dead letter, and every run that touched one.

    Recorded error messages are masked unless *is_unmasked*: consumers put payloads into them.

    Raises:
        InputError: the archive does not know the id.
        ArchiveError: the archive cannot be read.
    """
    archive = open_archive(options.archive)
    rows = _rows_of_dead_letter(archive, options.message_id)
    attempts = find_attempts(archive, {found.row["message_id"] for found in rows})
    runs = run_records(archive, {(one.name.plan_id, one.attempt.claim.run_id) for one in attempts})
    now, ttl = time.time(), options.claim_ttl_seconds
    history = history_of(options.message_id, rows, attempts, runs, now, ttl)
    mask = str if options.is_unmasked else compile_masks(()).text
    shows_body = options.has_body or options.is_unmasked
    copies = tuple(_shown(copy, mask, shows_body) for copy in history.copies)
    return replace(history, copies=copies)


def _rows_of_dead_letter(archive: Archive, asked_id: str) -> list[FoundRow]:
    rows = find_rows(archive, [asked_id])
    if not rows and (sender := find_sender(archive, asked_id)):
        rows = find_rows(archive, [sender])
    if not rows:
        raise InputError(
            f"message {asked_id}: none of the {len(drain_ids(archive)):,} drains in archive "
            f"{archive.root} brought it, under this id or as first id, and no redrive sent it; it "
            "may still be in a queue: drain the parked queue, then ask again"
        )
    first_ids = {found.row["first_id"] for found in rows}
    # The other copies of the same dead letter name the first one, too.
    return find_rows(archive, first_ids | {found.row["message_id"] for found in rows})


def _shown(copy: ArchivedCopy, mask: Callable[[str], str], shows_body: bool) -> ArchivedCopy:
    error = copy.error_message
    return replace(
        copy,
        error_message=None if error is None else mask(error),
        body=mask(copy.body or "") if shows_body else None,
        values={name: mask(value) for name, value in (copy.values or {}).items()}
        if shows_body
        else None,
    )
