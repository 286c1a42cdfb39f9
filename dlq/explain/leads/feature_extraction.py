"""Extract the features of sampled messages by an engine, and find the leads among all of them.

What an engine returns is masked and cut, or features only. The search runs in this process: each
group is compared with all others. The sample takes about 300 MB.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

import numpy as np
import pyarrow as pa

from dlq.archive.messages.message_store import combined
from dlq.archive.messages.reading import read_messages_work
from dlq.archive.storage.files import Archive
from dlq.engine import Engine, Work
from dlq.explain.findings import Lead
from dlq.explain.grouping import OTHERS, OTHERS_TITLE, Pattern, hidden
from dlq.explain.leads.comparison import Sample, SampledGroup
from dlq.explain.leads.features import COLUMNS, OUR_ATTRIBUTES, features_of
from dlq.explain.leads.leads import find_leads
from dlq.explain.leads.predicates import feature_table
from dlq.explain.signature.mask import SAMPLE_CHARACTERS, Masks
from dlq.explain.signature.signature import (
    TITLE_CHARACTERS,
    Reasons,
    Signature,
    has_error,
    reason_of,
    shape_of,
    short_title,
    signature_of,
)
from dlq_replay.text.masks import mask_start

_TIMES = ("sent_at", "first_seen_at")
INPUT_COLUMNS = (
    "message_id",
    "body",
    "body_bytes",
    "attributes",
    *COLUMNS,
    *_TIMES,
    "parked_reason",
    "error_type",
    "error_message",
    "error_code",
    "stated_kind",
    "error_place",
)

_ATTRIBUTE_CHARACTERS = 200
_SAMPLED: dict[str, pa.DataType] = {
    "group_id": pa.string(),
    "chance": pa.float64(),
    "is_by_shape": pa.bool_(),
    "features": pa.string(),
    "failed_at": pa.float64(),
    "shape": pa.string(),
}
_SHOWN: dict[str, pa.DataType] = {
    "title": pa.string(),
    "message_id": pa.string(),
    "sent_at": pa.timestamp("us", tz="UTC"),
    "body": pa.string(),
    "logged": pa.string(),
    "attributes": pa.map_(pa.string(), pa.string()),
}
_EXTRACTED = pa.schema(_SAMPLED | _SHOWN)


def read_features(
    engine: Engine,
    archive: Archive,
    picks: pa.Table,
    reasons: Reasons,
    titles: Mapping[str, Pattern | str],
    masks: Masks,
) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Extract the features of each sampled message, and the masked excerpt of each shown one.

    Args:
        engine: reads the bodies.
        archive: where the messages are.
        picks: what ``groups.picked`` returned.
        reasons: as for ``signature.reason_of``.
        titles: those of ``grouping.Grouping``.
        masks: what is hidden in excerpts.

    Returns:
        A table for ``leads_among``, and the rows of the messages to show for ``group_findings``.
    """
    picked_ids = map(str, picks["message_id"].to_pylist())
    logged = {message_id: reasons[message_id] for message_id in picked_ids if message_id in reasons}
    extractor = _Extractor(picks, logged, titles, masks)
    then = Work((), extractor.extract, _EXTRACTED)

    rows = engine.run(read_messages_work(archive, picks, INPUT_COLUMNS, engine.slots, then))
    sampled = rows.filter(rows["features"].is_valid()).select([*_SAMPLED])
    shown = rows.filter(rows["title"].is_valid()).select(["group_id", *_SHOWN])
    return sampled, shown.to_pylist()


@dataclass(frozen=True, slots=True)
class _Extractor:
    """State that is sent to each task; an engine calls ``extract``."""

    picks: pa.Table
    reasons: Reasons
    titles: Mapping[str, Pattern | str]
    masks: Masks

    def extract(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        picks = {pick["message_id"]: pick for pick in self.picks.to_pylist()}
        for batch in batches:
            # Python makes numbers far more quickly than times.
            columns: dict[str, Any] = {name: batch[name] for name in INPUT_COLUMNS}
            columns |= {name: batch[name].cast(pa.int64()) for name in _TIMES}
            rows = pa.table(columns).to_pylist()
            extracted = [self._row(row | picks[row["message_id"]]) for row in rows]
            yield pa.RecordBatch.from_pylist(extracted, schema=_EXTRACTED)

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        body = row["body"]
        recorded = row["error_type"], row["error_message"], row["error_place"]
        reason = reason_of(self.reasons, row["message_id"], *recorded)
        extracted: dict[str, Any] = {
            "group_id": row["group_id"],
            "chance": row["chance"],
            "is_by_shape": not has_error(reason.type, reason.message),
        }
        attributes = row["attributes"] or ()
        if row["is_sampled"]:
            columns = {name: row[name] for name in COLUMNS}
            times = [row[name] for name in _TIMES if row[name] is not None]
            extracted["failed_at"] = min(times) / 1e6 if times else None
            extracted["features"] = features_of(body, row["body_bytes"], attributes, columns)
            shape = shape_of(body).key.encode("utf-8", "replace")
            extracted["shape"] = sha256(shape).hexdigest()[:16]
        if row["is_shown"]:
            error = reason.type, reason.message, row["error_code"]
            kind, place = row["stated_kind"], reason.place
            signature = signature_of(body, row["parked_reason"], *error, kind, place)
            text = self._title(row["group_id"], signature)
            masked, is_cut = mask_start(text, TITLE_CHARACTERS, self.masks.text)
            extracted["title"] = short_title(f"{masked}…" if is_cut else masked)
            extracted["message_id"] = row["message_id"]
            extracted["sent_at"] = row["sent_at"]
            extracted["logged"] = reason.logged
            shows_values = self.masks.shows_values
            shown = self.masks.value("body", body, SAMPLE_CHARACTERS) if shows_values else None
            extracted["body"] = shown
            extracted["attributes"] = {
                name: self._attribute_text(name, value)
                for name, value in (sorted(attributes) if shows_values else ())
                if name not in OUR_ATTRIBUTES
            }
        return extracted

    def _title(self, group_id: str, signature: Signature) -> str:
        if group_id == OTHERS:
            return OTHERS_TITLE
        if title := self.titles.get(group_id):
            return title if isinstance(title, str) else hidden(signature.text, title)
        return signature.text if self.masks.shows_values else signature.textless

    def _attribute_text(self, name: str, value: dict[str, Any]) -> str:
        text = value["string_value"]
        held = (value["binary_value"] or b"") if text is None else text
        return self.masks.value(f"attribute.{name}", held, _ATTRIBUTE_CHARACTERS)


def leads_among(
    sampled: pa.Table, counts: Mapping[str, int], masks: Masks
) -> dict[str, tuple[Lead, ...]]:
    """Return the leads of the groups in *counts* (messages by group), by id.

    *sampled* is what ``read_features`` returned.
    """
    if not sampled.num_rows:
        return {}
    rows = sampled.sort_by([("group_id", "ascending"), ("chance", "ascending")])
    shapes = np.unique(rows["shape"].to_numpy(), return_inverse=True)[1]
    ids, is_by_shape = (rows[name].to_numpy() for name in ("group_id", "is_by_shape"))
    starts = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    groups = [
        SampledGroup(ids[some[0]], some, counts[ids[some[0]]], bool(is_by_shape[some[0]]))
        for some in np.split(np.arange(len(ids)), starts)
    ]
    lines = cast("pa.StringArray", combined(rows["features"]))
    times = rows["failed_at"].to_numpy().astype(np.float64)
    sample = Sample(feature_table(lines), groups, shapes.astype(np.int64), times)
    return find_leads(sample, list(counts), masks)
