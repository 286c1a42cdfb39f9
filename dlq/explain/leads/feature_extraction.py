"""Extract features of sampled messages on Spark's workers, and find the leads in two tasks.

What leaves the workers is masked and cut, or features only. Each of the two tasks has the features
of the whole sample, because each group is compared with all others.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq.archive.messages.frames import FILE, map_files, map_rows
from dlq.archive.storage.files import Archive
from dlq.archive.storage.table_parts import arrow_type
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
    FILE,
)

_ATTRIBUTE_CHARACTERS = 200
SEARCHES = 2
"""Tasks that look for leads. The sample takes each about 300 MB."""

_COLUMNS: dict[str, pa.DataType] = {
    "group_id": pa.string(),
    "chance": pa.float64(),
    "is_by_shape": pa.bool_(),
    "features": pa.string(),
    "failed_at": pa.float64(),
    "shape": pa.string(),
    "title": pa.string(),
    "message_id": pa.string(),
    "sent_at": pa.timestamp("us", tz="UTC"),
    "body": pa.string(),
    "logged": pa.string(),
    "attributes": pa.map_(pa.string(), pa.string()),
}
_EXTRACTED = pa.schema(_COLUMNS)
_LEADS = pa.schema([("group_id", pa.string()), ("leads", arrow_type(tuple[Lead, ...]))])


def with_features(
    archive: Archive,
    picks: DataFrame,
    reasons: Reasons,
    titles: Mapping[str, Pattern | str],
    masks: Masks,
    *,
    is_few: bool,
) -> tuple[DataFrame, int]:
    """Extract the features of each sampled message, and the masked excerpt of each shown one.

    *picks* is what ``groups.picked`` returned; *reasons* are as for ``signature.reason_of``;
    *titles* are those of ``grouping.Grouping``. Returns them, and how many are sampled.
    """
    picked = picks.toArrow().combine_chunks()
    ids = map(str, picked["message_id"].to_pylist())
    logged = {one: reasons[one] for one in ids if one in reasons}
    read, files = _Extractor(picked, logged, titles, masks).read, picked[FILE].unique().to_pylist()
    spark, paths = picks.sparkSession, sorted(map(str, files))
    rows = map_files(spark, archive, paths, INPUT_COLUMNS, read, _EXTRACTED, is_few=is_few)
    return rows, picked["is_sampled"].to_pylist().count(True)


@dataclass(frozen=True, slots=True)
class _Extractor:
    """State that is sent to each task; Spark calls ``read``."""

    picks: pa.Table
    reasons: Reasons
    titles: Mapping[str, Pattern | str]
    masks: Masks

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # A message may have a row in another file, too.
        for file, of_file in groupby(batches, lambda batch: batch[FILE][0]):
            picks = self.picks.filter(pc.equal(self.picks[FILE], file))
            ids = picks["message_id"]
            rows = pa.Table.from_batches(
                [batch.filter(pc.is_in(batch["message_id"], ids)) for batch in of_file]
            )
            picks = picks.take(pc.index_in(rows["message_id"], ids))
            # Python makes numbers far more quickly than times.
            columns: dict[str, Any] = {name: rows[name] for name in rows.column_names}
            columns |= {name: rows[name].cast(pa.int64()) for name in _TIMES}
            columns |= {name: picks[name] for name in picks.column_names}
            made = [self._row(row) for row in pa.table(columns).to_pylist()]
            yield pa.RecordBatch.from_pylist(made, schema=_EXTRACTED)

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
    extracted: DataFrame,
    counts: Mapping[str, int],
    masks: Masks,
    *,
    is_few: bool,
) -> DataFrame:
    """Find the leads of the groups in *counts* (messages by group) in what was *extracted*.

    Returns:
        ``group_id``, and ``leads`` as in ``findings.GroupFinding``.
    """
    sampled = extracted.where("features IS NOT NULL").select(
        "group_id", "chance", "is_by_shape", "features", "failed_at", "shape"
    )
    if not is_few:
        search = F.explode(F.sequence(F.lit(0), F.lit(SEARCHES - 1)))
        sampled = sampled.withColumn("search", search).repartitionById(SEARCHES, F.col("search"))
    find = partial(find_leads_in, dict(counts), masks)
    return map_rows(sampled, find, _LEADS, is_few=is_few)


def find_leads_in(
    counts: Mapping[str, int], masks: Masks, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Find the leads in all *batches* together; see ``leads_among``.

    If they have a column ``search``, a number from 0, then those of a part of the groups.
    """
    arrived = [one for one in batches if one.num_rows]
    if not arrived:
        return
    rows = pa.Table.from_batches(arrived).sort_by(
        [("group_id", "ascending"), ("chance", "ascending")]
    )
    shapes = np.unique(rows.column("shape").to_numpy(), return_inverse=True)[1]
    lines = cast("pa.StringArray", rows.combine_chunks().column("features").chunk(0))
    ids, is_by_shape = (rows.column(name).to_numpy() for name in ("group_id", "is_by_shape"))
    starts = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    groups = [
        SampledGroup(ids[some[0]], some, counts[ids[some[0]]], bool(is_by_shape[some[0]]))
        for some in np.split(np.arange(len(ids)), starts)
    ]
    times = rows.column("failed_at").to_numpy().astype(np.float64)
    sample = Sample(feature_table(lines), groups, shapes.astype(np.int64), times)
    wanted = list(counts)
    if "search" in rows.column_names:
        wanted = wanted[rows["search"][0].as_py() :: SEARCHES]
    leads = [
        {"group_id": group_id, "leads": list(map(asdict, found))}
        for group_id, found in find_leads(sample, wanted, masks).items()
    ]
    yield pa.RecordBatch.from_pylist(leads, schema=_LEADS)
