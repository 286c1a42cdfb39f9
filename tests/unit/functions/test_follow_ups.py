"""Follow-ups to alarms and runs, and what each notice says of a redrive that has not ended."""

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from dlq.archive.ledger.claims import CLOSING, RunRecord, record_run, run_path, timestamp
from dlq.archive.lock import LOCK_SECONDS, ArchiveLock, LockHolder, LockUse
from dlq.archive.storage.files import Archive, open_archive
from dlq.redrive.ramping.step_records import LastCount, Step, Steps
from dlq.redrive.ramping.verdict_rules import PATIENCE_MINUTES
from dlq_replay.replaying.measures import MAIN_QUEUE_DIMENSION, QUEUE_TAG_DIMENSION
from functions.reminder import handler
from functions.reminder.notice import (
    LOCK_LIFE,
    LONGEST_WAIT,
    Redrive,
    RedriveState,
    Waiting,
    daily_notice,
    redrive_state,
)
from functions.reminder.readings import read_news, read_redrive
from tests.support.findings_builder import HOSTILE_TEXTS, a_difference
from tests.support.findings_builder import a_group as a_finding
from tests.support.golden import assert_stored, stored_rows
from tests.support.notices import (
    BUCKET,
    EARLIER_REPORT,
    LONG_AGO,
    MARKUP,
    REPORT,
    Account,
    a_group,
    analyzed,
    chat_of,
    is_one_block,
    of_a_fleet,
    regressed,
    remind,
    reported,
    seen,
)
from tests.support.ramp_steps import a_step

PLAN = "20261129T021000Z-00000abcdef"
RUN = "20261130T030500Z-00000123456"
ALARM = "shop-dlq-ArrivedAlarm-1A2B3C4D5E6F"

GROUP = "g-000000000b"


def upload(account: Account, folder: str) -> None:
    for path in Path(folder).rglob("*"):
        if path.is_file():
            key = f"archive/{path.relative_to(folder).as_posix()}"
            account.s3.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())


def some_steps(sent_at: float | None = None) -> list[Step]:
    """Three steps of 340 messages, of which the last is under way, or sent."""
    return [
        a_step(1, GROUP, 1, left=339),
        a_step(2, GROUP, 2, proven=1, left=337),
        a_step(3, GROUP, 6, proven=3, left=331, before=1, sent_at=sent_at),
    ]


@dataclass(frozen=True)
class RedriveFiles:
    """What a redrive has in the archive, written in its own order.

    Attributes:
        steps: by queue.
        is_recorded: whether it wrote a record of itself.
        returned: messages that had failed again when it counted last; 0 if it never counted.
    """

    steps: Mapping[str, Sequence[Step]]
    who: str = "ann@desk"
    use: LockUse = LockUse.SEND
    purpose: str = f"plan {PLAN}"
    is_recorded: bool = True
    is_released: bool = False
    has_ended: bool = False
    returned: int = 0

    def write(self, archive: Archive) -> None:
        lock = ArchiveLock(archive, LockHolder(RUN, self.use, self.purpose, self.who))
        if self.is_recorded:
            record = RunRecord(
                run_id=RUN,
                plan_id=PLAN,
                verb="redrive",
                actor=self.who,
                reason="secret",
                time=timestamp(0),
                destination="https://sqs.us-east-1.amazonaws.com/123456789012/orders",
            )
            record_run(archive, record)
        for queue, steps in self.steps.items():
            of_queue = Steps(archive, PLAN, queue)
            for step in steps:
                of_queue.create(step)
            if self.returned:
                of_queue.note_returns(LastCount(9.0, {GROUP: self.returned}))
        if self.has_ended:
            archive.create(run_path(PLAN, RUN, CLOSING), b"")
        if self.is_released:
            lock.release()


def redriving(
    account: Account, steps: Mapping[str, Sequence[Step]] | None = None, **details: Any
) -> None:
    """Leave what a redrive has in the archive; an analysis has taken the lock after it."""
    with tempfile.TemporaryDirectory() as folder:
        archive = open_archive(folder)
        RedriveFiles({"orders": some_steps()} if steps is None else steps, **details).write(archive)
        ArchiveLock(archive, LockHolder(PLAN, LockUse.ANALYZE, "an analysis", "eve")).release()
        upload(account, folder)


def a_group_of_a_report(account: Account) -> None:
    account.run(1_240, 3 * 86_400)
    analyzed(account, a_group("g-000000000a", 36), a_group(GROUP, 1_204))
    difference = a_difference("body.country", "HR", 0.91, 0.03)
    reported(
        account,
        a_finding(group_id="g-000000000a", title="TimeoutError: no answer after <n> ms"),
        a_finding(
            group_id=GROUP,
            title="ValidationError: the address service does not know <text>",
            differences=(difference,),
        ),
    )


def alarm_event(
    name: object = ALARM, value: str = "ALARM", kind: str = "CloudWatch Alarm State Change"
) -> dict[str, Any]:
    """Return an event of CloudWatch: docs, "Alarm events and EventBridge"."""
    return {
        "version": "0",
        "source": "aws.cloudwatch",
        "detail-type": kind,
        "resources": [f"arn:aws:cloudwatch:us-east-1:123456789012:alarm:{name}"],
        "detail": {
            "alarmName": name,
            "state": {"value": value, "reason": "secret", "timestamp": "2026-11-30T03:20:00Z"},
            "previousState": {"value": "OK"},
            "configuration": {"description": "New dead letters arrive."},
        },
    }


def ring(name: object = ALARM, value: str = "ALARM") -> None:
    handler.lambda_handler(alarm_event(name, value), None)


def run_job(account: Account, analyze: Callable[[Account], object], job: str = "redrive") -> None:
    """Run the job, which analyzes; then EventBridge tells of its end."""
    glue = boto3.client("glue")
    glue.create_job(Name="redrive", Role="r", Command={"Name": "glueetl"})
    os.environ["SPARK_JOB"] = "redrive"
    run_id = glue.start_job_run(JobName="redrive")["JobRunId"]
    analyze(account)
    end_job(run_id, job)


def end_job(run_id: str, job: str = "redrive", state: str = "SUCCEEDED") -> None:
    detail = {"jobName": job, "state": state, "jobRunId": run_id, "message": "Job run succeeded"}
    handler.lambda_handler({"detail-type": "Glue Job State Change", "detail": detail}, None)


def as_seen(**statuses: str) -> bytes:
    """Return the record of an analysis by which the groups have these statuses."""
    groups = {}
    for letter, status in statuses.items():
        group = json.loads(regressed(f"g-000000000{letter}"))["groups"][f"g-000000000{letter}"]
        groups[f"g-000000000{letter}"] = {**group, "status": status}
    return json.dumps({"groups": groups}).encode()


def two_records(account: Account, before: bytes | None, after: bytes) -> None:
    if before is not None:
        seen(account, before, EARLIER_REPORT)
    seen(account, after)


def a_day(account: Account) -> None:
    a_group_of_a_report(account)
    redriving(account, returned=2)
    remind()


def an_alarm(account: Account, **redrive: Any) -> None:
    account.park(40)
    a_group_of_a_report(account)
    redriving(account, **redrive)
    ring()


def an_alarm_of_a_fleet(account: Account) -> None:
    of_a_fleet(account)
    a_group_of_a_report(account)
    ring("shop-fleet-ParkedGrowingAlarm-1A2B3C4D5E6F")


def an_alarm_without_an_archive(account: Account) -> None:
    account.park(3)
    os.environ["ARCHIVE_BUCKET"] = ""
    ring()


def an_alarm_with_many_groups(account: Account) -> None:
    analyzed(account, *(a_group(f"g-{number:010x}") for number in range(100, 130)))
    ring()


def a_run(account: Account) -> None:
    def analyze(account: Account) -> None:
        a_group_of_a_report(account)
        before = as_seen(a="new", c="regressed")
        two_records(account, before, as_seen(a="halted", b="new", c="regressed", d="known"))

    run_job(account, analyze)


def a_redrive_of_a_fleet(account: Account) -> None:
    of_a_fleet(account)
    queues = {f"orders-{number}": some_steps() for number in range(7)}
    redriving(account, queues, who="deploy@ci", is_released=True)
    remind()


FOLLOW_UPS: dict[str, Callable[[Account], None]] = {
    "a day with a redrive": a_day,
    "an alarm during a redrive": partial(an_alarm, returned=2),
    "an alarm while a redrive waits": partial(
        an_alarm, is_released=True, steps={"orders": some_steps(sent_at=9.0)}
    ),
    "an alarm after a redrive": partial(an_alarm, is_released=True, has_ended=True),
    "an alarm with nothing parked": lambda _: ring(),
    "an alarm of a fleet": an_alarm_of_a_fleet,
    "an alarm without an archive": an_alarm_without_an_archive,
    "an alarm with many groups": an_alarm_with_many_groups,
    "a run that changed groups": a_run,
    "a redrive to many queues": a_redrive_of_a_fleet,
}


@stored_rows("follow_ups", FOLLOW_UPS)
def test_follow_up_reads_as_it_is_stored(account: Account, name: str) -> None:
    FOLLOW_UPS[name](account)

    [(subject, text)] = account.notices()
    assert "secret" not in text
    assert [line for line in text.splitlines() if len(line) > 80] == []
    stored = re.sub(
        f"(first seen:|last analysis,) (?!{LONG_AGO:%F %R})[-0-9: ]+ UTC", r"\1 NOW", text
    )
    assert_stored("follow_ups", name, f"{subject}\n\n{stored}")


# --- Events


@pytest.mark.parametrize("value", ["OK", "INSUFFICIENT_DATA"])
def test_an_alarm_that_ends_has_no_follow_up(account: Account, value: str) -> None:
    account.park(1)
    ring(value=value)

    assert account.notices() == []


def test_each_time_that_an_alarm_rings_it_has_a_follow_up(account: Account) -> None:
    """An event that comes twice, too: the function keeps no state."""
    ring()
    ring()

    first, second = account.notices()
    assert first == second


@pytest.mark.parametrize(
    "event",
    [
        {"detail-type": "CloudWatch Alarm State Change"},
        {"detail-type": "CloudWatch Alarm State Change", "detail": {}},
        {"detail-type": "CloudWatch Alarm State Change", "detail": {"alarmName": ALARM}},
        {"detail-type": "CloudWatch Alarm State Change", "detail": None},
        alarm_event(name=7),
        {"detail-type": "Glue Job State Change", "detail": {"state": "SUCCEEDED"}},
        {"detail-type": "EC2 Instance State-change Notification", "detail": {}},
        {"detail-type": "CloudWatch Alarm Configuration Change", "detail": {}},
    ],
)
def test_an_event_that_is_not_as_described_is_an_error_and_no_notice(
    account: Account, event: dict[str, Any]
) -> None:
    """Lambda then keeps it in the queue ReminderFailures, and an alarm rings."""
    account.park(1)
    with pytest.raises((KeyError, TypeError, ValueError)):
        handler.lambda_handler(event, None)

    assert account.notices() == []


@pytest.mark.parametrize("name", [*HOSTILE_TEXTS, *MARKUP, "x" * 5_000])
def test_the_name_of_an_alarm_is_neither_markup_nor_in_the_subject(
    account: Account, published: list[dict[str, Any]], name: str
) -> None:
    ring(name)

    (request,) = published
    title, description = chat_of(request)
    assert title == "Follow-up to an alarm: 0 parked"
    assert request["Subject"] == "Follow-up to an alarm: 0 parked, main queue orders"
    assert is_one_block(description)
    plain = json.loads(request["Message"])["default"]
    assert all(line.isprintable() and len(line) <= 80 for line in plain.splitlines())


def test_a_count_that_cannot_be_read_fails_the_follow_up_so_that_lambda_repeats_it(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARKED_QUEUE_URL", account.parked_url + "-gone")

    with pytest.raises(ClientError):
        ring()


# --- What a run changed


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (None, as_seen(a="new", b="halted", c="regressed"), "abc"),
        (None, as_seen(a="known", b="resolved", c="gone"), ""),
        (as_seen(a="new"), as_seen(a="known"), ""),
        (as_seen(a="known", b="new"), as_seen(a="regressed", b="halted"), "ab"),
        (as_seen(a="regressed", b="halted"), as_seen(a="regressed", b="halted"), ""),
        (as_seen(a="gone"), as_seen(a="regressed"), "a"),
        (as_seen(a="new"), as_seen(), ""),
        # What is unreadable counts as none.
        (b"{", as_seen(a="halted"), "a"),
        (b"[]", as_seen(a="known"), ""),
        (as_seen(a="new"), b"{", ""),
        (as_seen(a="new"), b'{"groups": {"g-000000000b": {"status": 7}}}', ""),
    ],
)
def test_a_follow_up_to_a_run_names_what_is_halted_regressed_or_new_and_was_not_before(
    account: Account, before: bytes | None, after: bytes, named: str
) -> None:
    run_job(account, partial(two_records, before=before, after=after))

    notices = account.notices()
    assert len(notices) == (1 if named else 0)
    commands = re.findall(r"dlq (?:redrive --group|decide) g-000000000(.)", str(notices))
    assert sorted(commands) == list(named)


def test_only_the_two_newest_analyses_are_compared(account: Account) -> None:
    def analyze(account: Account) -> None:
        seen(account, as_seen(a="regressed"), "20261030T000000Z-000000")
        two_records(account, as_seen(a="known"), as_seen(a="regressed"))

    run_job(account, analyze)

    [(subject, _)] = account.notices()
    assert subject == "1 regressed: groups of dead letters, main queue orders"


def test_a_run_without_an_analysis_repeats_no_news(account: Account) -> None:
    """Such as a redrive that a person started on AWS Glue."""
    run_job(account, partial(two_records, before=None, after=as_seen(a="new")))
    assert len(account.notices()) == 1
    now = datetime.now(UTC)
    later = now + timedelta(minutes=1)

    assert read_news(account.sqs, account.s3, os.environ, later, now) is None


@pytest.mark.parametrize(
    ("job", "state"),
    [("ExpireJob", "SUCCEEDED"), ("redrive", "STOPPED"), ("redrive", "RUNNING")],
)
def test_other_runs_have_no_notice(account: Account, job: str, state: str) -> None:
    account.park(1)
    os.environ["SPARK_JOB"] = "redrive"
    seen(account, as_seen(a="new"))
    end_job("jr_1", job, state)

    assert account.notices() == []


def test_a_run_that_glue_does_not_know_any_more_has_no_notice(account: Account) -> None:
    run_job(account, lambda _: None)
    seen(account, as_seen(a="new"))
    end_job("jr_other")

    assert account.notices() == []


def test_a_follow_up_to_a_run_has_no_values_that_the_stack_hides(account: Account) -> None:
    def analyze(account: Account) -> None:
        seen(account, as_seen(b="new"))
        finding = a_finding(group_id=GROUP, title="secret of mona")
        reported(account, finding, shows_values=True)

    run_job(account, analyze)

    [(_, text)] = account.notices()
    assert "secret" not in text
    assert f"new  1  {GROUP}\n" in text


# --- A redrive that has not ended


@pytest.mark.parametrize(
    ("is_released", "is_recorded", "has_ended", "quiet_minutes", "expected"),
    [
        (False, True, False, 0, RedriveState.SENDING),
        (False, False, False, 1, RedriveState.SENDING),
        (False, True, False, 3, RedriveState.STOPPED),
        # Another run has closed it, or it is about to give its lock back.
        (False, True, True, 0, None),
        (True, True, False, 14, RedriveState.WAITING),
        (True, True, False, 30, RedriveState.STOPPED),
        (True, False, False, 0, None),
        (True, True, True, 0, None),
    ],
)
def test_state_of_a_redrive_by_its_lock_and_its_files(
    *,
    is_released: bool,
    is_recorded: bool,
    has_ended: bool,
    quiet_minutes: int,
    expected: RedriveState | None,
) -> None:
    state = redrive_state(
        is_released=is_released,
        is_recorded=is_recorded,
        has_ended=has_ended,
        quiet=timedelta(minutes=quiet_minutes),
    )

    assert state is expected


def test_a_lock_and_a_wait_last_as_long_as_those_of_the_product() -> None:
    assert timedelta(seconds=LOCK_SECONDS) == LOCK_LIFE
    assert timedelta(minutes=PATIENCE_MINUTES) < LONGEST_WAIT


def redrive_of(account: Account, minutes: int = 0) -> Redrive | None:
    """Read the redrive, these minutes from now."""
    return read_redrive(account.s3, os.environ, datetime.now(UTC) + timedelta(minutes=minutes))


def test_a_redrive_that_stopped_without_an_end_is_told_with_the_time(account: Account) -> None:
    redriving(account)

    redrive = redrive_of(account, minutes=5)

    assert redrive
    assert redrive.state is RedriveState.STOPPED
    text = " ".join(redrive.text().split())
    assert text.startswith(
        f"A redrive stopped without an end, last heard of {redrive.heard_at:%F %R}"
    )
    assert "The next redrive goes on with what is left." in text


@pytest.mark.parametrize(
    "details",
    [
        {"has_ended": True},
        {"is_released": True, "is_recorded": False},
        {"use": LockUse.ERASE, "purpose": "an erase", "is_released": True},
        {"purpose": "plan restore-0123456789ab"},
        {"purpose": "plan ../../messages"},
        {"use": LockUse.ANALYZE, "purpose": f"plan {PLAN}"},
    ],
)
def test_what_is_no_redrive_or_has_ended_is_not_told(
    account: Account, details: dict[str, Any]
) -> None:
    redriving(account, **details)

    assert redrive_of(account) is None


def test_an_erase_after_it_has_closed_a_redrive(account: Account) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = open_archive(folder)
        RedriveFiles({}, is_released=True).write(archive)
        ArchiveLock(archive, LockHolder("e", LockUse.ERASE, "an erase", "eve")).close_others()
        upload(account, folder)

    assert redrive_of(account) is None


def test_without_a_ramp_a_redrive_has_no_steps(account: Account) -> None:
    redriving(account, {})

    redrive = redrive_of(account)

    assert redrive
    assert (redrive.steps, redrive.failed_again) == ([], 0)
    assert redrive.text().count("\n") == 1


def test_returns_of_a_group_count_once_and_as_they_were_counted_last(account: Account) -> None:
    """The queues of a plan share the counters; a step knows what was counted before it."""
    steps = {
        "orders": [a_step(1, GROUP, before=1)],
        "invoices": [a_step(1, GROUP, before=4), a_step(2, "g-000000000c", before=3)],
    }
    redriving(account, steps, returned=2)

    redrive = redrive_of(account)

    assert redrive
    assert redrive.failed_again == 2 + 3


DAMAGE = (b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"holder": 7}')


@pytest.mark.parametrize("content", DAMAGE)
def test_a_lock_that_cannot_be_read_leaves_the_redrive_out(
    account: Account, content: bytes
) -> None:
    account.park(1)
    redriving(account)
    account.s3.put_object(Bucket=BUCKET, Key="archive/locks/000009.json", Body=content)

    remind()

    [(_, text)] = account.notices()
    assert "redrive" not in text


@pytest.mark.parametrize(
    "content",
    [
        *DAMAGE,
        json.dumps({"number": 3, "messages": {GROUP: -1}, "proven": {}, "left": {}}).encode(),
        json.dumps({"number": 3, "messages": {GROUP: 10**400}, "proven": {}, "left": {}}).encode(),
        json.dumps({"number": "3", "messages": {}, "proven": {}, "left": {}}).encode(),
        json.dumps({"number": 3, "messages": [1], "proven": {}, "left": {}}).encode(),
        json.dumps({"number": 3, "messages": {GROUP: True}, "proven": {}, "left": {}}).encode(),
    ],
)
def test_a_step_that_cannot_be_read_leaves_the_steps_out(account: Account, content: bytes) -> None:
    redriving(account)
    key = f"archive/ledger/plan_id={PLAN}/steps/orders/00004.json"
    account.s3.put_object(Bucket=BUCKET, Key=key, Body=content)

    redrive = redrive_of(account)

    assert redrive
    assert (redrive.state, redrive.steps) == (RedriveState.SENDING, ())


def test_a_denied_listing_never_fails_a_notice(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    redriving(account)
    monkeypatch.setenv("ARCHIVE_BUCKET", "somewhere-else")

    assert redrive_of(account) is None


def test_too_many_locks_to_list_leave_the_redrive_out(account: Account) -> None:
    """The newest are listed last: an older one would name a redrive that ended."""

    class Pages:
        def get_paginator(self, _: str) -> "Pages":
            return self

        def paginate(self, **_: object) -> list[dict[str, Any]]:
            return [{}] * 21

    assert read_redrive(Pages(), os.environ, datetime.now(UTC)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("who", [*HOSTILE_TEXTS, *MARKUP, "x" * 5_000, ""])
def test_the_name_of_a_person_is_no_markup_and_no_line_of_its_own(
    account: Account, published: list[dict[str, Any]], who: str
) -> None:
    account.park(1)
    redriving(account, who=who)

    remind()

    _, description = chat_of(published[0])
    assert is_one_block(description)
    plain = json.loads(published[0]["Message"])["default"]
    assert all(line.isprintable() and len(line) <= 80 for line in plain.splitlines())
    paragraph = plain.split("\n\n")[1].splitlines()
    assert paragraph[0].startswith("A redrive is under way: ")
    assert all(line.startswith("    ") for line in paragraph[1:-2])


# --- Limits


@pytest.mark.parametrize("queues", ["Bücher-\U0001f4a5", "a\nb\tc\x7f", "q" * 500, "\u202eabc"])
def test_a_subject_is_short_ascii_in_one_line(queues: str) -> None:
    subject = daily_notice(Waiting(QUEUE_TAG_DIMENSION, queues, "shop-dlq", parked=1)).subject

    assert subject.isascii()
    assert subject.isprintable()
    assert len(subject) <= 100
    assert subject.startswith("1 dead letter waiting, queues with the tag ")


def test_a_redrive_to_many_queues_with_long_names_fits_into_chat(
    account: Account, published: list[dict[str, Any]]
) -> None:
    of_a_fleet(account)
    os.environ["STACK_NAME"] = "s" * 128
    names = [f"g-{number:010x}" for number in range(100, 140)]
    analyzed(account, *map(a_group, names))
    long = "&" * 5_000
    difference = a_difference(long, long, compared_with=long)
    findings = [
        a_finding(group_id=name, title=long, differences=(difference,), queue="q" * 80)
        for name in names
    ]
    reported(account, *findings)
    redriving(account, {f"{number:02}" + "q" * 78: some_steps() for number in range(30)})

    remind()
    ring()

    for request in published:
        assert len(request["Message"].encode()) < 256 * 1024
        _, description = chat_of(request)
        assert len(description) <= 8_000
        assert "step 3 (6 messages) has begun" in " ".join(description.split())
        assert "dlq console --stack" in description


def test_a_notice_without_an_archive_asks_for_a_folder() -> None:
    notice = daily_notice(Waiting(MAIN_QUEUE_DIMENSION, "orders", "shop-dlq", parked=1))

    assert "  dlq collect --archive FOLDER --stack shop-dlq\n" in notice.text
    assert "  dlq console --archive FOLDER --stack shop-dlq\n" in notice.text


def test_the_report_of_the_groups_is_that_of_the_newest_analysis(account: Account) -> None:
    two_records(account, as_seen(a="new"), as_seen(a="regressed"))

    ring()

    [(_, text)] = account.notices()
    assert "regressed  1  g-000000000a" in text
    assert REPORT > EARLIER_REPORT
