"""Measures an analysis of 1,000,000 messages of a large incident, on two cores.

Their archive is written first, with a seed: the same in every run. The start of the session does
not count. There are eight kinds of events of about 1 KB, with unique ids, common values and text.
70% have a recorded error, of thousands of kinds, a few of them frequent. The rest differ by their
payload, which has optional fields. Most messages of a frequent error come from one tenant of its
own.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate, combinations, islice
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import ROOT
from benchmarks.findings import Finding
from benchmarks.replay import ACCOUNT
from benchmarks.rig import REGION, Rig
from benchmarks.verbs import ANALYZE, timed_verb
from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.archive.messages.message_store import drain_folder
from dlq.archive.storage.files import open_archive

MESSAGES = 1_000_000
TIME_TARGET = 45

ROWS_PER_FILE = 2500

_BEGIN = datetime(2026, 11, 21, tzinfo=UTC)
_DURATION = timedelta(days=2)
END = _BEGIN + _DURATION
"""When the messages were drained."""

_SEED = 20261121
_DRAIN_ID = "20261122T000000Z-bench0"
_FREQUENT_ERRORS = 100
# Probabilities.
_HAS_ERROR = 0.7
_HAS_TENANT_OF_ERROR = 0.85
_HAS_FIELD = 0.3

_KINDS = ("OrderPlaced", "OrderChanged", "PaymentFailed", "ShipmentLost", "StockCounted")
_WORDS = (
    "address",
    "card",
    "carrier",
    "customer",
    "delivery",
    "discount",
    "invoice",
    "item",
    "ledger",
    "order",
    "parcel",
    "payment",
    "price",
    "quantity",
    "refill",
    "refund",
    "shelf",
    "stock",
    "street",
    "supplier",
    "tax",
    "ticket",
    "total",
    "voucher",
)
_OPTIONAL_FIELDS = ("coupon", "gift", "campaign", "warehouse", "approvedBy", "parentId", "priority")
_TYPES = ("ValueError", "KeyError", "TimeoutError", "HTTPError", "LookupError")
_ERRORS = [" ".join(words) for words in islice(combinations(_WORDS, 4), 4000)]
_CUMULATIVE = list(accumulate(1 / (number + 5) for number in range(len(_ERRORS))))
_NOTES = [" ".join(random.Random(_SEED + n).choices(_WORDS, k=84)) for n in range(1000)]


def measure(rig: Rig) -> list[Finding]:
    """Analyze the archive of an incident."""
    count = rig.sized(MESSAGES)
    with tempfile.TemporaryDirectory(prefix="bench-analysis-") as folder:
        archive = Path(folder, "archive")
        rig.notify(f"analysis of {count:,} messages")
        write_archive(archive, count)
        took = timed_verb(*ANALYZE, "--archive", str(archive), driver_memory="4g")

        (groups,) = archive.glob("reports/*/groups.parquet")
        grouped = sum(map(int, pq.read_table(groups)["count"].to_numpy()))
        if grouped != count:
            raise RuntimeError(f"{count:,} messages were written, and {grouped:,} are in groups")

        find_seconds = [_find_seconds(archive) for _ in range(3)]

    return [
        Finding(f"analysis of {count:,} messages", [took.seconds], "s", at_most=TIME_TARGET),
        Finding(f"dlq find in {count:,} messages", find_seconds, "s"),
    ]


def _find_seconds(archive: Path) -> float:
    """Search the archive for a tenant that two messages of a thousand have."""
    command = (sys.executable, "-m", "dlq", "find", "tenant-042-test", "--archive", str(archive))
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - our own
    return time.perf_counter() - began


def write_archive(root: Path, messages: int) -> None:
    """Write messages as one drain does."""
    open_archive(str(root), creates=True)
    folder = root / drain_folder(_DRAIN_ID)
    folder.mkdir(parents=True)
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        firsts = range(0, messages, ROWS_PER_FILE)
        list(executor.map(partial(_write_file, folder, messages), firsts))


def _write_file(folder: Path, messages: int, first: int) -> None:
    chance = random.Random(_SEED + first)
    count = min(ROWS_PER_FILE, messages - first)
    rows = [_row(chance) for _ in range(count)]
    name = f"part-{first // ROWS_PER_FILE:05d}-{len(rows)}-bench.parquet"
    table = pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)
    pq.write_table(table, folder / name, compression="zstd")


def _row(chance: random.Random) -> dict[str, Any]:
    """Draw a row of the archive; columns that it leaves out are null."""
    message_id = str(UUID(int=chance.getrandbits(128), version=4))
    sent_at = _BEGIN + chance.betavariate(2, 4) * _DURATION

    error = None
    tenant = f"tenant-{int(200 * chance.random() ** 3):03d}"
    if chance.random() < _HAS_ERROR:
        error = chance.choices(range(len(_ERRORS)), cum_weights=_CUMULATIVE)[0]
        if error < _FREQUENT_ERRORS and chance.random() < _HAS_TENANT_OF_ERROR:
            tenant = f"tenant-{error:03d}-test"

    body = json.dumps(_event(chance, sent_at, tenant))
    attributes = [
        _attribute("tenant", tenant),
        _attribute("trace", f"{chance.getrandbits(48):012x}"),
        _attribute("schema", _skewed(chance, "3", "4")),
        _attribute("sqs-dlq-replay-nb", "6"),
    ]
    detail = f"{chance.randrange(10**6)} in '{chance.choice(_WORDS)}'"

    return {
        "message_id": message_id,
        "first_id": message_id,
        "body": body,
        "attributes": attributes,
        "source_arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders-dlq",
        "sender_id": "AROAEXAMPLE:orders",
        "sent_at": sent_at,
        "first_received_at": sent_at,
        "receive_count": 1,
        "replay_count": chance.randrange(7),
        "first_seen_at": sent_at - timedelta(seconds=chance.randrange(7200)),
        "parked_reason": _skewed(chance, "attempts_exhausted", "too_old"),
        "error_type": None if error is None else _TYPES[error % len(_TYPES)],
        "error_message": None if error is None else f"{_ERRORS[error]} {detail}",
        "body_bytes": len(body),
        "queue_url": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/orders-parked",
        "drained_at": END,
    }


def _event(chance: random.Random, sent_at: datetime, tenant: str) -> dict[str, Any]:
    """Draw the body of a message."""
    event: dict[str, Any] = {
        "type": chance.choice(_KINDS),
        "id": str(UUID(int=chance.getrandbits(128), version=4)),
        "time": int(sent_at.timestamp()),
        "tenant": tenant,
        "currency": _skewed(chance, "EUR", "USD", "GBP", "PLN"),
        "total": round(chance.lognormvariate(3, 1), 2),
        "customer": {
            "id": chance.randrange(10**9),
            "email": f"{chance.choice(_WORDS)}.{chance.randrange(10**9)}@example.com",
            "country": _skewed(chance, "DE", "FR", "PL", "GB"),
        },
        "items": [_line(chance) for _ in range(chance.randint(1, 3))],
    }
    for name in _OPTIONAL_FIELDS:
        if chance.random() < _HAS_FIELD:
            event[name] = chance.choice(_WORDS)
    event["note"] = chance.choice(_NOTES)
    return event


def _line(chance: random.Random) -> dict[str, Any]:
    return {"sku": f"SKU-{chance.randrange(5000):05d}", "price": chance.randrange(9999) / 100}


def _attribute(name: str, value: str) -> tuple[str, dict[str, str]]:
    return name, {"data_type": "String", "string_value": value}


def _skewed(chance: random.Random, common: str, *others: str) -> str:
    """Draw a value; in 7 of 10 cases the common one."""
    return common if chance.random() < 0.7 else chance.choice(others)  # noqa: PLR2004
