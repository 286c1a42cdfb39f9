"""The daily notice: what waits, what failed, where to look, and silence when nothing does."""

import html
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from dlq.archive.group_records import write_seen
from dlq.archive.storage.files import open_archive
from dlq.explain.triage import GroupMemory, after_analysis
from dlq_replay.replaying.measures import MAIN_QUEUE_DIMENSION, QUEUE_TAG_DIMENSION
from functions.reminder import handler
from functions.reminder.notice import Group, Waiting, daily_notice
from functions.reminder.readings import last_scheduled_start, read_waiting
from tests.support.findings_builder import (
    HOSTILE_TEXTS,
    a_difference,
)
from tests.support.findings_builder import a_group as a_finding
from tests.support.golden import assert_stored, stored_rows
from tests.support.notices import (
    BUCKET,
    EARLIER_REPORT,
    LONG_AGO,
    MARKUP,
    REPORT,
    STATUS,
    Account,
    a_group,
    analyzed,
    chat_of,
    described,
    is_one_block,
    of_a_fleet,
    regressed,
    remind,
    reported,
    seen,
)


def test_a_subject_is_never_longer_than_sns_takes() -> None:
    waiting = Waiting(MAIN_QUEUE_DIMENSION, "q" * 80, "shop-dlq", parked=10**9)

    subject = daily_notice(waiting).subject

    assert len(subject) <= 100
    assert f"{10**9:,}" in subject


JOB_MADE = datetime(2026, 11, 1, tzinfo=UTC)
RUNS = [
    {"Id": "jr_3", "StartedOn": JOB_MADE + timedelta(days=3)},
    {"Id": "jr_2", "StartedOn": JOB_MADE + timedelta(days=2), "TriggerName": "daily"},
    {"Id": "jr_1", "StartedOn": JOB_MADE + timedelta(days=1), "TriggerName": "daily"},
]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        # The newest was started by hand.
        (RUNS, JOB_MADE + timedelta(days=2)),
        (RUNS[:1], JOB_MADE),
        ([], JOB_MADE),
    ],
)
def test_only_runs_that_the_schedule_started_count(
    runs: list[dict[str, object]], expected: datetime
) -> None:
    glue = boto3.client("glue", region_name="us-east-1")
    with Stubber(glue) as answers:
        answers.add_response("get_job_runs", {"JobRuns": runs}, {"JobName": "redrive"})
        answers.add_response("get_job", {"Job": {"CreatedOn": JOB_MADE}}, {"JobName": "redrive"})

        assert last_scheduled_start(glue, "redrive") == expected


def test_the_age_of_the_last_run_is_published_before_anything_can_fail(
    account: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    boto3.client("glue").create_job(Name="redrive", Role="r", Command={"Name": "glueetl"})
    monkeypatch.setenv("SPARK_JOB", "redrive")
    monkeypatch.setenv("PARKED_QUEUE_URL", account.parked_url + "-gone")

    with pytest.raises(ClientError):
        remind()

    line = json.loads(capsys.readouterr().out)
    assert line["MainQueue"] == "orders"
    assert 0 <= line["LastRunAgeSeconds"][0] < 60
    assert line["_aws"]["CloudWatchMetrics"][0]["Metrics"] == [
        {"Name": "LastRunAgeSeconds", "Unit": "Seconds"}
    ]


def count_as_sqs_does(
    account: Account, name: str, counts: Mapping[int, int], queue: str = "parked"
) -> None:
    """Publish numbers of a parked queue's messages, by the minutes that have gone by since."""
    now = datetime.now(UTC)
    data: list[Any] = []
    for ago, count in counts.items():
        datum = {
            "MetricName": f"ApproximateNumberOfMessages{name}",
            "Dimensions": [{"Name": "QueueName", "Value": queue}],
            "Timestamp": now - timedelta(minutes=ago),
            "Value": count,
        }
        data.append(datum)
    account.cloudwatch.put_metric_data(Namespace="AWS/SQS", MetricData=data)


def oldest_parked_minutes(capsys: pytest.CaptureFixture[str]) -> int | None:
    remind()
    if not (out := capsys.readouterr().out):
        return None
    line = json.loads(out)
    assert line["MainQueue"] == "orders"
    [seconds] = line["OldestParkedSeconds"]
    return round(float(seconds) / 60)


def test_a_parked_message_is_as_old_as_the_time_since_the_queue_was_empty(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQS's own age leaves out what drains have received three times without an end."""
    count_as_sqs_does(account, "Visible", dict.fromkeys(range(121, 300), 0))
    assert oldest_parked_minutes(capsys) is None

    account.park(1)
    # From minute 60 to 55 a drain had the message, in between SQS counted it nowhere.
    visible = dict.fromkeys([*range(3, 54), *range(61, 121)], 1)
    count_as_sqs_does(account, "Visible", visible | dict.fromkeys(range(54, 61), 0))
    count_as_sqs_does(account, "NotVisible", dict.fromkeys(range(55, 60), 1))
    # What was there before was taken out; from minute 300 on SQS says nothing of an empty queue.
    count_as_sqs_does(account, "Visible", dict.fromkeys(range(400, 430), 9))

    assert oldest_parked_minutes(capsys) in (120, 121)


@pytest.mark.parametrize(
    ("drained_at", "expected"),
    [("{:%Y-%m-%dT%H:%M:%S+00:00}", (30,)), (7, (120, 121)), (None, (120, 121))],
)
def test_a_run_that_emptied_the_parked_queue_counts_where_more_came_at_once(
    account: Account,
    capsys: pytest.CaptureFixture[str],
    drained_at: object,
    expected: tuple[int, ...],
) -> None:
    account.park(1)
    count_as_sqs_does(account, "Visible", dict.fromkeys(range(121), 40))
    if isinstance(drained_at, str):
        drained_at = drained_at.format(datetime.now(UTC) - timedelta(minutes=30))
    account.run(0, drained_at=drained_at)

    assert oldest_parked_minutes(capsys) in expected


def test_a_fleet_s_oldest_parked_message_is_that_of_either_parked_queue(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    of_a_fleet(account)
    count_as_sqs_does(account, "Visible", dict.fromkeys(range(31), 1))
    count_as_sqs_does(account, "Visible", dict.fromkeys(range(61), 1), "parked.fifo")

    remind()

    line = json.loads(capsys.readouterr().out)
    assert line["QueueTag"] == "shop"
    assert round(line["OldestParkedSeconds"][0] / 60) in (60, 61)


def several_groups(account: Account) -> None:
    account.run(40)
    analyzed(
        account,
        a_group("g-000000000a", 0),
        a_group("g-000000000b", 1),
        a_group("g-000000000c", 2),
        a_group("g-000000000d", 3, sent_days_ago=2),
        resolved=["g-000000000c", "g-000000000d"],
    )


def a_halted_group(account: Account) -> None:
    groups = [a_group(f"g-000000000{letter}") for letter in "abc"]
    analyzed(account, *groups, resolved=["g-000000000b"], halted=["g-000000000a"])


def two_analyses(account: Account) -> None:
    seen(account, regressed("g-000000000b", count=2), "20261101T000000Z-bbbbbb")
    seen(account, regressed("g-000000000b"), EARLIER_REPORT)


COUNTRY = a_difference("body.country", "HR", 0.91, 0.03)
VERSION = a_difference("body.version", "7.2.0", 0.91, 0.03)
LONG_DIFFERENCE = replace(COUNTRY, parts=COUNTRY.parts + VERSION.parts, compared_with="all others")
LONG_TITLE = (
    "ValidationError: the address service does not know <text>, and the order has no other "
    "address to which it could be sent"
)


def groups_of_a_report(account: Account) -> None:
    """One new group and one that came back, each with its texts; of a known one there are some."""
    account.run(40)
    analyzed(
        account,
        a_group("g-000000000a", 30),
        a_group("g-000000000b", 1204),
        a_group("g-000000000c", 2),
        resolved=["g-000000000c"],
    )
    reported(
        account,
        a_finding(group_id="g-000000000a", title="secret", queue="orders"),
        a_finding(
            group_id="g-000000000b",
            title=LONG_TITLE,
            differences=(LONG_DIFFERENCE,),
            queue="orders",
        ),
        a_finding(group_id="g-000000000c", differences=(), queue="orders"),
    )


def values_that_the_stack_hides(account: Account) -> None:
    """Somebody analyzed with samples: the notice of the stack has none of its texts."""
    analyzed(account, a_group("g-000000000b", 1204))
    group = a_finding(
        group_id="g-000000000b",
        title="text secret of mona",
        differences=(a_difference("body.name", "mona"),),
    )
    reported(account, group, shows_values=True)


def values_that_the_stack_shows(account: Account) -> None:
    os.environ["SHOWS_SAMPLES"] = "true"
    analyzed(account, a_group("g-000000000b", 1204))
    group = a_finding(group_id="g-000000000b", title="text order <number>", differences=(COUNTRY,))
    reported(account, group, shows_values=True)


def an_analysis_of_some(account: Account) -> None:
    """A group keeps the texts of its last report about all messages; a new one has its own."""
    now = datetime.now(UTC)
    before, _ = after_analysis(GroupMemory(), EARLIER_REPORT, now, [a_group("g-000000000a")])
    after, _ = after_analysis(before, REPORT, now, [a_group("g-000000000b")], is_whole=False)
    with tempfile.TemporaryDirectory() as folder:
        archive = open_archive(folder)
        write_seen(archive, REPORT, after)
        seen(account, archive.read(f"groups/seen/{REPORT}.json") or b"")
    reported(account, a_finding(group_id="g-000000000a"), report_id=EARLIER_REPORT)
    reported(account, a_finding(group_id="g-000000000b", title="KeyError: sku"))


def groups_of_a_fleet(account: Account) -> None:
    of_a_fleet(account)
    numbers = {"a": 30, "b": 1204, "c": 12, "d": 5, "e": 1}
    analyzed(account, *(a_group(f"g-000000000{name}", numbers[name]) for name in numbers))
    queues = {"a": "orders", "b": "invoices", "c": "orders", "d": "mails.fifo", "e": ""}
    findings = []
    for name, queue in queues.items():
        finding = a_finding(
            group_id=f"g-000000000{name}", title=f"Error{name.upper()}: no answer", queue=queue
        )
        findings.append(finding)
    reported(account, *findings)


def known_groups(account: Account) -> None:
    account.run(7)
    analyzed(account, a_group("g-000000000a"))


def known_groups_and_a_drain(account: Account) -> None:
    """Messages in the parked queue wait for an analysis, also while a run has received them."""
    known_groups(account)
    account.park(2)
    account.sqs.receive_message(QueueUrl=account.parked_url, MaxNumberOfMessages=10)


def blocked(account: Account, message_id: object) -> None:
    account.park(1)
    account.run(9, waiting=7, blockers=[{"message_id": message_id, "waiting": 7}])


def a_status(account: Account, content: bytes) -> None:
    account.park(1)
    account.s3.put_object(Bucket=BUCKET, Key=STATUS, Body=content)


def a_record(account: Account, content: bytes) -> None:
    account.run(7)
    seen(account, content)


def parked_yesterday(account: Account) -> None:
    account.park(3)
    remind()


def without_a_job(account: Account) -> None:
    account.park(1)
    account.run(7)
    os.environ["ARCHIVE_BUCKET"] = ""


def failed_run(_: Account, exit_code: int) -> None:
    """Nothing of what its error says gets into a notice."""
    text = f"SystemExit: run ended with exit code {exit_code}; secret of mona@example.com"
    detail = {"jobName": "SparkJob", "state": "FAILED", "jobRunId": "jr_1a/b", "message": text}
    handler.lambda_handler({"detail-type": "Glue Job State Change", "detail": detail}, None)


NOTICES: dict[str, Callable[[Account], None]] = {
    "nothing": lambda _: None,
    "parked messages on two days": parked_yesterday,
    "a parked message without a job": without_a_job,
    "parked messages of a fleet": of_a_fleet,
    "a run of which too much failed again": partial(failed_run, exit_code=3),
    "a run that failed with an unknown exit code": partial(failed_run, exit_code=77),
    "pending messages": lambda account: account.run(7, 3 * 86_400),
    "messages behind another": partial(blocked, message_id="0a-1"),
    # Only ids of messages and of groups get into a notice.
    "messages behind a body": partial(blocked, message_id="a body, perhaps"),
    "messages behind a number": partial(blocked, message_id=5),
    "a card number among groups": partial(seen, content=regressed("card 4111", "g-000000000b")),
    **{
        f"a status that is {content.decode()}": partial(a_status, content=content)
        for content in (b"no JSON", b"[]", b'{"pending": null, "blockers": []}')
    },
    "new and regressed groups": several_groups,
    "a halted group": a_halted_group,
    "two analyses": two_analyses,
    "groups of a report": groups_of_a_report,
    "groups of a fleet": groups_of_a_fleet,
    "an analysis of some messages": an_analysis_of_some,
    "values that the stack hides": values_that_the_stack_hides,
    "values that the stack shows": values_that_the_stack_shows,
    "known groups": known_groups,
    "known groups and a drain": known_groups_and_a_drain,
    "thirty groups": lambda account: analyzed(
        account, *(a_group(f"g-{number:010x}") for number in range(100, 130))
    ),
    **{
        f"a record that is {content.decode()}": partial(a_record, content=content)
        for content in (
            b"{",
            b"[]",
            b'{"groups": {"g-000000000b": {}}}',
            b'{"groups": {"g-000000000b": null}}',
            b'{"groups": {"g-000000000b": {"status": "new", "first_seen_at": 7, "count": 1}}}',
            b'{"groups": {"g-000000000b": {"status": "new", "first_seen_at": "0001-01-01T00+14"}}}',
        )
    },
}


@stored_rows("notices", NOTICES)
def test_notice_reads_as_it_is_stored(account: Account, name: str) -> None:
    NOTICES[name](account)
    remind()

    notices = [f"{subject}\n\n{text}" for subject, text in account.notices()]
    assert not re.search("secret|mona", str(notices))
    for notice in notices:
        # A command is not broken.
        prose = [line for line in notice.splitlines()[1:] if not line.startswith("  dlq ")]
        assert [line for line in prose if len(line) > 80] == []
    stored = "\n---\n".join(notices)
    # What an analysis of now saw first has the time of now.
    stored = re.sub(f"first seen: (?!{LONG_AGO:%F %R})[-0-9: ]+ UTC", "first seen: NOW", stored)
    assert_stored("notices", name, stored)


@pytest.mark.parametrize("text", [*HOSTILE_TEXTS, *MARKUP])
def test_no_text_of_a_message_is_markup_in_chat_or_a_line_of_its_own(
    account: Account, published: list[dict[str, Any]], text: str
) -> None:
    analyzed(account, a_group("g-000000000b"))
    finding = a_finding(
        group_id="g-000000000b",
        title=text,
        queue=text,
        differences=(a_difference(text, text, compared_with=text),),
    )
    of_a_fleet(account)
    reported(account, finding)

    remind()

    (request,) = published
    title, description = chat_of(request)
    assert title == "1 new: groups of dead letters"
    assert is_one_block(description)

    plain = json.loads(request["Message"])["default"]
    assert all(line.isprintable() for line in plain.splitlines())
    headings = ["new  3  ", "  queue: ", "  differs: ", "  first seen: ", "  dlq redrive --group "]
    block = plain.split("\n\n")[3]
    begins = [line for line in block.splitlines() if not line.startswith("    ")]
    for line, heading in zip(begins, headings, strict=True):
        assert line.startswith(heading)


def test_chat_shows_what_mail_says(account: Account, published: list[dict[str, Any]]) -> None:
    groups_of_a_report(account)

    remind()

    _, description = chat_of(published[0])
    plain = json.loads(published[0]["Message"])["default"]
    assert html.unescape(description) == f"```\n{plain}\n```"
    assert "&lt;text&gt;" in description


def test_chat_hears_of_a_failed_run(account: Account, published: list[dict[str, Any]]) -> None:
    failed_run(account, exit_code=3)

    title, description = chat_of(published[0])

    assert title == "The scheduled run over the parked queue ended as FAILED"
    assert is_one_block(description)
    assert "too much of a redrive failed again" in description


@pytest.mark.parametrize("character", ["&", "\U0001f4a5", "x", "word "])
def test_a_thousand_groups_fit_into_a_notice(
    account: Account, published: list[dict[str, Any]], character: str
) -> None:
    of_a_fleet(account)
    os.environ["STACK_NAME"] = "s" * 128
    names = [f"g-{number:010x}" for number in range(100, 1_100)]
    analyzed(account, *map(a_group, names))
    long = character * 5_000
    findings = []
    for number, name in enumerate(names):
        difference = a_difference(long, long, compared_with=long)
        queue = f"{number:04}" + "q" * 76
        finding = a_finding(group_id=name, title=long, differences=(difference,), queue=queue)
        findings.append(finding)
    reported(account, *findings)

    remind()

    (request,) = published
    assert len(request["Message"].encode()) < 256 * 1024
    assert len(request["Subject"]) <= 100
    _, description = chat_of(request)
    assert len(description) <= 8_000
    assert description.count("dlq redrive --group g-") >= 2
    plain = json.loads(request["Message"])["default"]
    assert plain.count("dlq redrive --group g-") == 20
    assert "\n\nand 980 more: see dlq groups\n\n" in plain
    assert "\n  and 980 more: see dlq groups\n\n" in plain


def texts_of_a_group(**changes: object) -> bytes:
    texts = {"title": "KeyError: sku", "queue": "orders", "difference": "", **changes}
    return json.dumps({"shows_values": False, "groups": {"g-000000000b": texts}}).encode()


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"{",
        b"[" * 100_000,
        b"\xff",
        b"[]",
        b'{"groups": {}}',
        b'{"shows_values": false, "groups": {"g-000000000b": "KeyError"}}',
        texts_of_a_group(title=7),
        texts_of_a_group(title=["KeyError"]),
        texts_of_a_group(difference=None),
        texts_of_a_group(queue={"orders": 1}),
    ],
)
def test_a_group_whose_texts_cannot_be_read_is_named_by_its_id(
    account: Account, content: bytes | None
) -> None:
    analyzed(account, a_group("g-000000000b"))
    if content is not None:
        described(account, content)

    remind()

    [(_, notice)] = account.notices()
    assert "\nnew  3  g-000000000b\n  first seen: " in notice
    assert "KeyError" not in notice


def test_texts_of_a_report_that_does_not_say_whether_it_has_values_are_left_out(
    account: Account,
) -> None:
    analyzed(account, a_group("g-000000000b"))
    described(account, texts_of_a_group().replace(b"false", b"0"))

    remind()

    [(_, notice)] = account.notices()
    assert "KeyError" not in notice


def test_no_key_of_another_place_is_read(account: Account) -> None:
    place = "../messages"
    seen(account, regressed("g-000000000b").replace(REPORT.encode(), place.encode()))
    account.run(7)

    waiting = read_waiting(account.sqs, account.s3, os.environ, datetime.now(UTC))

    assert waiting.groups == []


def test_the_queues_with_most_groups_to_decide_come_first() -> None:
    groups = []
    for number, (queue, status, count) in enumerate(
        [("a", "known", 900), ("b", "known", 5), ("b", "new", 1), ("c", "resolved", 950)]
    ):
        group = Group(status, f"g-{number:010x}", count, LONG_AGO, REPORT, queue=queue)
        groups.append(group)
    waiting = Waiting(QUEUE_TAG_DIMENSION, "shop", "shop-dlq", 0, groups)

    notice = daily_notice(waiting)

    assert list(waiting.by_queue) == ["b", "c", "a"]
    assert "  b: 2 groups, 6 messages, 1 new\n  c: 1 group, 950 messages, 0 new\n" in notice.text
    assert notice.subject == "1 new: groups of dead letters, 1 queue with the tag shop"


def test_a_stack_with_several_source_queues_has_a_line_for_each() -> None:
    groups = [
        Group("new", "g-000000000a", 1, LONG_AGO, REPORT, queue="orders"),
        Group("new", "g-000000000b", 1, LONG_AGO, REPORT, queue="invoices"),
    ]

    several = Waiting(MAIN_QUEUE_DIMENSION, "orders", "shop-dlq", 0, groups)
    single = Waiting(MAIN_QUEUE_DIMENSION, "orders", "shop-dlq", 0, groups[:1])

    assert "  queue: invoices\n" in daily_notice(several).text
    text = daily_notice(single).text
    assert "queue: " not in text.replace("Main queue: ", "").replace("parked queue: ", "")
