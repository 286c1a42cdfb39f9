"""``analyze``, on both engines."""

import base64
import gzip
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dlq import memory
from dlq.archive.ledger.open_set import first_rows_of
from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.archive.messages.message_reading import read_messages_work
from dlq.archive.messages.message_store import drain_ids
from dlq.cli.command import main
from dlq.engine import Engine
from dlq.errors import InputError
from dlq.explain import analyze, groups
from dlq.explain.findings import Findings, ReplayCount, format_predicate
from dlq.explain.outputs import GROUPS_SCHEMA
from dlq.plan.plan_file import find_plan
from dlq.plan.plan_reading import read_plan
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import Message
from tests.integration.spark_world import analyzed, archive_of, parked
from tests.support.builders import NOW, context, message, text
from tests.support.event_faults import FAULTS, dead_letters
from tests.support.findings_builder import HOSTILE_TEXTS
from tests.support.page_outline import PageOutline
from tests.support.small_jobs import ANALYZE


@pytest.mark.both_engines
def test_report_says_what_failed_and_why(engine: Engine, tmp_path: Path) -> None:
    secret = message("m-x", "mail bob@example.com", SentTimestamp="1700000000123")
    archive = archive_of(tmp_path, [*(parked(n) for n in range(4)), parked(5, "too_old"), secret])

    findings = analyzed(engine, archive, masks=("Order",))

    groups = {group.title: group for group in findings.groups}
    assert list(groups) == [
        "TimeoutError: order <n> after <n>",
        "attempts_exhausted: JSON type=*** {id:number, type:string}",
        "parked_by_sqs: text mail <email>",
    ]
    errors = groups["TimeoutError: order <n> after <n>"]
    assert (errors.count, errors.share) == (3, 0.5)
    assert errors.reasons == {"attempts_exhausted": 2, "too_old": 1}
    assert errors.replay_counts == (ReplayCount(5, 3),)
    assert all('"type": "***"' in sample.body for sample in errors.samples)
    assert [sample.body for sample in groups["parked_by_sqs: text mail <email>"].samples] == [
        "mail ***"
    ]
    folder = Path(findings.plan_path).parent
    assert pq.read_table(folder / "groups.parquet").schema.equals(GROUPS_SCHEMA)
    assert pq.read_table(folder / "groups.parquet").num_rows == 3
    written = json.loads((folder / "summary.json").read_text())
    assert [group["count"] for group in written["groups"]] == [3, 2, 1]
    assert written["groups"][2]["first_parked_at"] == "2023-11-14T22:13:20.123000+00:00"
    texts = {path.name: path.read_text() for path in folder.glob("*.[yjh]*")}
    assert {name for name, text in texts.items() if "mail &lt;email&gt;" in text} == {"report.html"}
    assert {name for name, text in texts.items() if "mail <email>" in text} >= {"summary.json"}
    assert "bob@example.com" not in "".join(texts.values())
    plan = Path(findings.plan_path).read_text()
    assert "# action: leave     do nothing" in plan
    assert "  # 50% of 6 pending messages\n" in plan
    assert plan.count("action: leave\n") == 3


@pytest.mark.both_engines
def test_a_condition_and_a_time_narrow_what_is_analysed_and_planned(
    engine: Engine, tmp_path: Path
) -> None:
    old, new = ({"SentTimestamp": str(1000 * (NOW + seconds))} for seconds in (0, 60))
    letters = [parked(n, **new) for n in range(4)]
    letters += [parked(5, "too_old", **old), parked(7, "too_old", **new)]
    archive = archive_of(tmp_path, letters)
    given = "parked_reason = 'too_old' AND attributes['own-text'].string_value = 'grüße' -- ours"
    since = datetime.fromtimestamp(NOW + 60, UTC)

    findings = analyzed(engine, archive, where=given, since=since)

    condition = f"sent_at >= timestamp '{since:%Y-%m-%d %H:%M:%S}Z' AND ({given}\n)"
    assert (findings.messages, findings.where) == (1, condition)
    assert [group.reasons for group in findings.groups] == [{"too_old": 1}]
    snapshot = read_plan(Path(findings.plan_path).read_text()).snapshot
    assert (snapshot.messages, snapshot.where) == (1, condition)


def test_an_analysis_in_parts_is_the_same(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(tmp_path, [parked(n, ("too_old", "x")[n % 2]) for n in range(40)])
    whole = analyzed(engine, archive, out=str(tmp_path / "whole"))
    monkeypatch.setattr(groups, "_MESSAGES_AT_ONCE", 7)

    in_parts = analyzed(engine, archive, out=str(tmp_path / "parts"))

    def numbers_of(findings: Findings) -> list[object]:
        fields = attrgetter("group_id", "count", "body_bytes", "arrivals", "reasons", "samples")
        return list(map(fields, findings.groups))

    assert numbers_of(in_parts) == numbers_of(whole)
    assert (in_parts.different, in_parts.sampled) == (whole.different, whole.sampled) == (40, 40)


def test_messages_whose_ids_do_not_fit_into_memory_are_refused(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(tmp_path, [parked(n) for n in range(4)])
    monkeypatch.setattr(memory, "ALWAYS_FIT", 1)
    monkeypatch.setattr(analyze, "available_bytes", lambda _: 2 * memory.BYTES_PER_MESSAGE)

    with pytest.raises(InputError, match=r"the ids of 4 messages need .* make a smaller plan"):
        analyzed(engine, archive)

    # What a condition takes fits.
    assert analyzed(engine, archive, where="message_id < 'm-002'").messages == 2


def test_last_plan_is_the_newest_also_where_a_clock_is_ahead_with_the_same_samples(
    engine: Engine, tmp_path: Path
) -> None:
    archive = archive_of(tmp_path, [parked(n, ("too_old", "x")[n % 2]) for n in range(40)])
    first = analyzed(engine, archive)
    archive.write("reports/20991231T000000Z-00000abcdef/plan.yaml", b"")

    newest = analyzed(engine, archive)

    assert find_plan(archive, None).path == newest.plan_path
    assert [group.samples for group in newest.groups] == [group.samples for group in first.groups]


def letters_about_mona_lisa() -> list[Message]:
    """Messages that have the name in bodies of each kind, in errors, attributes and groups."""
    bodies = [
        "dear mona lisa",
        '"a letter from mona lisa"',
        base64.b64encode(b"ask mona lisa").decode(),
        "<letter to='mona'>lisa</letter>",
        '{"id": 1, "who": "mona lisa',
        '["mona lisa"]',
        json.dumps({"type": "mona, lisa"}),
        json.dumps({"type": "mona lisa" * 8}),
        json.dumps({"who": {"is": json.dumps({"name": "mona lisa"})}}),
    ]
    bodies += [json.dumps({"id": n % 7, "who": "mona lisa"}) for n in range(24)]
    letters = [message(f"m-{n}", body) for n, body in enumerate(bodies)]

    error = context(error=FailureError("TimeoutError", "no answer for 'mona lisa'"))
    attributes = {**error, "who": text("mona lisa")}
    for number in range(24):
        letters.append(message(f"e-{number}", "{}", attributes, MessageGroupId="mona-lisa"))
    return letters


def test_nothing_of_a_body_is_shown_without_samples(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [parked(1), *map(parked, range(2, 30, 2))]
    archive = archive_of(tmp_path / "archive", [*letters_about_mona_lisa(), *others])
    out = tmp_path / "out"

    assert main([*ANALYZE, "--archive", archive.root, "--no-samples", "--out", str(out)]) == 0

    table = pq.read_table(out / "groups.parquet").to_pylist()
    assert "parked_by_sqs: text <hidden>" in {group["title"] for group in table}
    assert all(group["samples"] == [] for group in table)
    differences = [difference for group in table for difference in group["differences"]]
    parts = [part for difference in differences for part in difference["parts"]]
    assert "message_group_id" in {part["field"] for part in parts}
    files = sorted(path.name for path in out.iterdir())
    assert files == ["groups.parquet", "plan.yaml", "report.html", "summary.json"]
    [notice_path] = Path(archive.root).glob("reports/*/notice.json")
    notice = json.loads(notice_path.read_text())
    assert notice["shows_values"] is False
    titles_of_notice = {group["title"] for group in notice["groups"].values()}
    assert titles_of_notice == {group["title"] for group in table}
    assert any(" = ***" in group["difference"] for group in notice["groups"].values())

    shown = capsys.readouterr()
    texts = [str(table), shown.out, shown.err, notice_path.read_text()]
    texts += [path.read_text() for path in out.iterdir() if path.suffix != ".parquet"]
    for seen in texts:
        assert "mona" not in seen
        assert "lisa" not in seen


def bodies_of(hostile: str) -> Iterator[str]:
    """A hostile text as a body, and in all that a body may be."""
    inside = json.dumps({"note": hostile, "type": "x", "nested": {hostile: [hostile]}})
    yield hostile
    yield inside
    yield json.dumps({hostile[:200]: 1, "action": hostile[:60]})
    yield json.dumps({"TopicArn": f"arn:aws:sns:{hostile}", "Message": inside})
    yield json.dumps({"detail-type": hostile, "source": hostile, "detail": {"a": hostile}})
    yield base64.b64encode(hostile.encode()).decode()
    yield base64.b64encode(gzip.compress(inside.encode())).decode()


ODD_BODIES = (
    '{"cut": "emoji \\ud83d"}',
    '{"\\udc00": {"\\ud83d": "\\ud83d\\ude00"}}',
    '["\\ud800"]',
    '{"a": 1, "a": 2}',
    '{"n": 1e999, "m": 12345678901234567890123, "l": -0.0}',
    "[" * 100_000,
    "\x1f\x8b\x08 not gzip",
    "NaN",
    "x" * 900_000,
    json.dumps({"rows": [{"n": n} for n in range(50_000)]}),
    base64.b64encode(os.urandom(100_000)).decode(),
)


def test_every_message_is_in_a_group_whatever_a_stranger_sent(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # SQS takes no half characters, and no empty body.
    hostile = [text for text in HOSTILE_TEXTS if text and "\ud800" not in text]
    letters = []
    for number, body in enumerate(ODD_BODIES):
        letters.append(message(f"odd-{number}", body, context(reason="too_old")))
    for place, hostile_text in enumerate(hostile):
        ours = context(reason="too_old", error=FailureError(hostile_text[:60], hostile_text[:200]))
        for n in range(12):
            body = json.dumps({"note": hostile_text})
            letters.append(
                message(f"{place}-{n}", body, {**ours, "tenant": text(hostile_text[:2000])})
            )
        for number, body in enumerate(bodies_of(hostile_text)):
            letters.append(message(f"{place}-body-{number}", body))
    archive = archive_of(tmp_path / "archive", letters)
    out = tmp_path / "out"

    assert main([*ANALYZE, "--archive", archive.root, "--out", str(out)]) == 0

    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())
    groups = pq.read_table(out / "groups.parquet").to_pylist()
    assert sum(group["count"] for group in groups) == len(letters)
    assert all(group["title"].isprintable() and group["title"] for group in groups)
    assert all(1 <= len(group["samples"]) <= 5 for group in groups)
    titles = {group["title"] for group in groups}
    assert {"too_old: JSON {cut:string}", "too_old: JSON array of string"} <= titles
    assert {"too_old: JSON {rows:array}", "too_old: base64 of bytes, up to 256 KiB"} <= titles
    page = PageOutline((out / "report.html").read_text("utf-8"))
    tags = [tag for tag, _ in page.attributes]
    assert tags.count("script") == 3
    assert {"img", "iframe", "object", "embed"}.isdisjoint(tags)


HALF_A_TOKEN = "eyJ-"
MEGABYTE = 1024 * 1024


def test_one_message_does_not_stall_the_analysis(engine: Engine, tmp_path: Path) -> None:
    slow = HALF_A_TOKEN * (MEGABYTE // len(HALF_A_TOKEN))
    note = f"{'note ' * 30}bob@example.com {'note ' * 300_000}"
    attributes = {"a-note": text(slow), "b-note": text(note)}
    comments = message("m-2", "<!---->" * (MEGABYTE // 7))
    archive = archive_of(tmp_path, [message("m-1", "{}", attributes), comments])

    findings = analyzed(engine, archive, masks=("C-[0-9]+",))

    samples = [sample for group in findings.groups for sample in group.samples]
    shown = next(sample for sample in samples if sample.message_id == "m-1").attributes
    assert shown["a-note"].startswith('base64 of {"')
    assert len(shown["a-note"]) == 200
    assert shown["b-note"].startswith(f"{'note ' * 30}*** note")
    assert len(shown["b-note"]) == 200


@pytest.mark.both_engines
def test_first_difference_is_the_cause_and_its_condition_selects_it(
    engine: Engine, tmp_path: Path
) -> None:
    by_name = {fault.name: fault for fault in FAULTS}
    faults = [by_name["field missing inside"], by_name["dependency"]]
    letters = dead_letters(2, healthy=250, faults=faults, of_each=50)
    parked_letters = []
    for place, letter in enumerate(letters):
        attributes = {name: text(value) for name, value in letter.attributes.items()}
        parked_letters.append(message(f"m-{place:04d}", json.dumps(letter.body), attributes))
    archive = archive_of(tmp_path, parked_letters)

    groups = analyzed(engine, archive).groups[:2]

    claims = {}
    for group in groups:
        claims[format_predicate(group.differences[0])] = group.differences[0]
    assert set(claims) == {"body.shop.owner.url is missing", "body.region = ap"}
    missing = claims["body.shop.owner.url is missing"]
    messages = first_rows_of(archive, drain_ids(archive))
    work = read_messages_work(archive, messages, ARROW_SCHEMA.names, engine.slots)
    rows = engine.run_where(work, missing.condition, ["message_id"])
    assert rows.num_rows == sum(letter.fault == faults[0].name for letter in letters)


@pytest.mark.on_spark
@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("nosuch = 1", "--where 'nosuch = 1': nosuch: is no column here"),
        ("body = ", "--where 'body = ': cannot be read"),
        ("cast(body as int) = 1", "fails on a message: CAST_INVALID_INPUT; use forms"),
    ],
)
def test_wrong_condition_is_one_sentence_without_a_body(
    engine: Engine, tmp_path: Path, where: str, sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    archive = archive_of(tmp_path, [message("m-1", "very secret")])

    words = ["--archive", archive.root, "--where", where, "--engine", engine.name]
    assert main([*ANALYZE, *words]) == 2
    shown = capfd.readouterr()
    assert sentence in shown.err
    assert "secret" not in shown.err + shown.out
    assert "Traceback" not in shown.err
