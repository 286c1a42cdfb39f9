"""Outcomes of what a plan sent: the ledger and DynamoDB's counters, on every screen."""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.ledger.claims import RunRecord, record_run
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.run_results import write_result_files
from dlq.archive.ledger.stop import Stop, StopCause, record_stop
from dlq.archive.storage.files import Archive
from dlq.cli.command import main
from dlq.cli.terminal import print_line
from dlq.cli.verbs.redrive import exit_code_of_watch, print_watched
from dlq.console.jobs import Jobs
from dlq.console.pages.job_pages import STOP_POLLING
from dlq.console.site import Console
from dlq.engine import Engine
from dlq.inspect.outcomes import Outcome
from dlq.redrive.ramping.step_records import LastCount, Steps
from dlq.redrive.request import RedriveRequest
from dlq.redrive.sending.stop_signals import Clock
from dlq.redrive.watch import Watch
from dlq_replay.aws.returns_table import ReturnsTable
from local_sqs.clock import VirtualClock
from tests.integration.conftest import Capture, MakeQueue
from tests.support.console_jobs import DeadJobs, redrive_answer
from tests.support.console_world import (
    BASE,
    NOW,
    a_dead_letter,
    archive_with,
    console_of,
    opened,
    plan_of,
)
from tests.support.ledgers import settle

RUN = "20251120T110000Z-0000000aaaa"
SENT_AT = NOW - timedelta(minutes=6)


@dataclass
class Sending:
    """Seven messages in two groups, and what a run did with them."""

    archive: Archive
    destination: str
    table: ReturnsTable

    @property
    def plan_id(self) -> str:
        return plan_of(self.archive).plan_id

    @property
    def groups(self) -> list[str]:
        return [group.group_id for group in plan_of(self.archive).groups]

    def settle(self, numbers: Sequence[int], disposition: Disposition, plan_id: str = "") -> None:
        """Write into the ledger what a run did."""
        plan_of_run, run_id = (plan_id, "run-0") if plan_id else (self.plan_id, RUN)
        outcomes = {f"m-{n:04d}": disposition for n in numbers}
        settle(self.archive, plan_of_run, outcomes, run_id, SENT_AT.timestamp())

    def words(self, verb: str, *words: str) -> list[str]:
        table = self.table.table_name
        return [verb, "--archive", self.archive.root, "--failure-table", table, *words]


@pytest.fixture
def sending(
    dynamodb: Any,
    failure_table: str,
    sqs_endpoint: str,
    make_queue: MakeQueue,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Sending:
    monkeypatch.setenv("AWS_ENDPOINT_URL", sqs_endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb.meta.endpoint_url)
    main_queue = make_queue("main", make_queue("dlq"), 2, VisibilityTimeout="75")
    errors = [{"type": error_type, "message": "x"} for error_type in ("KeyError", "TypeError")]
    archive = archive_with(tmp_path, [a_dead_letter(n, error=errors[n % 2]) for n in range(7)])
    table = ReturnsTable(dynamodb, failure_table, lambda: int(NOW.timestamp()))
    sending = Sending(archive, main_queue.url, table)
    record = RunRecord(
        run_id=RUN,
        plan_id=sending.plan_id,
        verb="redrive",
        actor="ann@desk",
        reason="VAT table has HR",
        time=SENT_AT.isoformat(),
        destination=main_queue.url,
        destinations=[main_queue.url],
    )
    record_run(archive, record)
    return sending


def console_at(sending: Sending, **more: Any) -> Console:
    values = {"failure-table": sending.table.table_name}
    return console_of(sending.archive, values=values, **more)


SENTENCE = (
    "sent 4, 2 failed again (1 being replayed, 1 parked again), 2 of 4 have not failed again in "
    "6 min; a failure takes 2 min 30 s"
)


@pytest.fixture
def returned(sending: Sending) -> Sending:
    """Of the first group all four are sent, and two failed again; of the other one is discarded."""
    group, _ = sending.groups
    sending.settle([0, 2, 4, 6], Disposition.SENT)
    sending.settle([1], Disposition.DISCARDED)
    sending.table.begin(sending.plan_id, [group])
    sending.table.add(sending.plan_id, group, "returned", {"first-0", "first-2"})
    sending.table.add(sending.plan_id, group, "parked", {"first-2"})
    return sending


def test_pages_say_what_came_back(returned: Sending) -> None:
    browser = opened(console_at(returned))
    group, other = returned.groups

    assert "4 sent, <b>2 failed again</b>" in browser.get("/").text
    page = browser.get(f"/groups/{group}").text
    assert "failed again</dt><dd>2" in page
    assert f"/outcomes?group={group}" in page
    of_other = browser.get(f"/groups/{other}").text
    assert f"group={other}" in of_other
    assert "/outcomes?" not in of_other
    messages = browser.get(f"/groups/{group}/messages").text
    assert [messages.count(f"<td>{outcome}</td>") for outcome in ("failed again", "sent")] == [1, 2]
    assert messages.count("<td>failed again, parked again</td>") == 1


def test_page_of_a_job_goes_on_until_every_failure_would_have_come_back(
    returned: Sending, tmp_path: Path
) -> None:
    jobs = Jobs(tmp_path / "state" / "jobs", process=("true",))
    console = console_at(returned, jobs=jobs)
    world = DeadJobs(returned.archive, console, opened(console))
    answer = redrive_answer(world, run_id=RUN, ramp=[], forecast=None)
    job = world.ended([*world.preview_words, "--execute"], answer)
    earlier = replace(console, now=lambda: SENT_AT + timedelta(seconds=209))
    address = f"/outcomes?plan={returned.plan_id}"

    page = world.page(job)
    late = world.browser.get(address)
    early = opened(earlier).get(address)

    assert "Did it work?" in page
    assert f'hx-get="{BASE}{address}&amp;group={world.group_id}"' in page
    assert "Did it work?" not in world.page(world.dry_run())
    assert (late.status_code, early.status_code) == (STOP_POLLING, 200)
    assert f"<code>{world.group_id}</code>: {SENTENCE}" in late.text
    assert SENTENCE in world.browser.get(f"{address}&group={world.group_id}").text
    other = world.browser.get(f"{address}&group={returned.groups[1]}").text
    assert "Nothing of it was sent" in other


def test_verbs_say_what_came_back(returned: Sending, capsys: Capture) -> None:
    group, _ = returned.groups

    assert main(returned.words("groups")) == 0
    printed = capsys.readouterr().out
    assert "messages: 2 pending, 4 sent, 2 failed again" in printed
    [row] = [line.split() for line in printed.splitlines() if line.startswith(group)]
    assert row[1:5] == ["4", "0", "4", "2"]
    assert main(returned.words("groups", "--json")) == 0
    listed = json.loads(capsys.readouterr().out)["groups"]
    assert [row["returned"] for row in listed] == [2, None]

    assert main(returned.words("status")) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[-1] for line in lines if line[:1] == [returned.plan_id]] == ["2"]
    assert main(returned.words("status", "--json")) == 0
    [plan] = json.loads(capsys.readouterr().out)["plans"]
    assert plan["returned"] == 2


def test_verbs_without_a_failure_table_say_what_a_ramp_counted_last(
    returned: Sending, capsys: Capture
) -> None:
    group = returned.groups[0]
    archive = returned.archive
    Steps(archive, returned.plan_id, "main").note_returns(LastCount(1_800_000_000, {group: 1}))
    as_of = "failed again: as ramps counted it, the oldest 2027-01-15 08:00 UTC; not now"
    place = ["--archive", archive.root]

    assert main(["groups", *place]) == 0
    printed = capsys.readouterr().out
    assert as_of in printed
    [row] = [line.split() for line in printed.splitlines() if line.startswith(group)]
    assert row[1:5] == ["4", "0", "4", "1"]
    assert main(["status", *place]) == 0
    printed = capsys.readouterr().out
    assert as_of in printed
    [row] = [line.split() for line in printed.splitlines() if line.startswith(returned.plan_id)]
    assert row[-1] == "1"
    assert main(["show", *place, RUN]) == 0
    shown = capsys.readouterr().out
    assert f"{group}: sent 4, 1 failed again by 2027-01-15 08:00 UTC, how many since" in shown
    # What the table says now comes first.
    assert main(returned.words("groups")) == 0
    printed = capsys.readouterr().out
    assert group in printed
    assert "failed again: as" not in printed
    returned.settle([3], Disposition.SENT)
    counts = dict.fromkeys(returned.groups, 1)
    Steps(archive, returned.plan_id, "main").note_returns(LastCount(1_800_000_000, counts))
    assert main(returned.words("groups", "--json")) == 0
    listed = json.loads(capsys.readouterr().out)["groups"]
    assert [row["returned"] for row in listed] == [2, 1]
    assert [row["returned_at"] for row in listed] == [None, "2027-01-15T08:00:00+00:00"]


@pytest.mark.parametrize("is_closed", [False, True])
def test_run_is_shown_with_its_reason_and_what_came_back(
    returned: Sending, capsys: Capture, *, is_closed: bool
) -> None:
    group, other = returned.groups
    if is_closed:
        assert write_result_files(returned.archive, (returned.plan_id, RUN)) == ()
    assert main(returned.words("show", RUN)) == 0
    shown = capsys.readouterr().out
    lines = {" ".join(line.split()) for line in shown.splitlines()}
    assert {f"redrive, run {RUN}", "actor ann@desk", "reason VAT table has HR"} < lines
    assert {f"destination {returned.destination}", f"plan id {returned.plan_id}"} < lines
    assert f"{group}: sent 4, 2 failed again (1 being replayed, 1 parked again), 2 of 4" in shown
    assert f"{other}: " not in shown

    assert main(returned.words("show", RUN, "--json")) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["run"]["reason"] == "VAT table has HR"
    first = Outcome(group, {"sent": 4}, 4, SENT_AT.timestamp(), 2, 1, 150)
    assert answer["outcomes"][0] == asdict(first)
    assert answer["stopped_by"] is None

    assert main(["show", "--archive", returned.archive.root, RUN]) == 0
    assert "what fails again cannot be known: no --failure-table" in capsys.readouterr().out
    assert main(returned.words("show", RUN[:-1] + "b")) == 2
    assert "not in the 1 drain of" in capsys.readouterr().err


def test_run_that_ended_early_is_shown_with_its_cause(sending: Sending, capsys: Capture) -> None:
    sending.settle([0], Disposition.SENT)
    stop = Stop(StopCause.QUEUE, "AccessDenied")
    record_stop(sending.archive, sending.plan_id, RUN, stop)

    assert main(sending.words("show", RUN)) == 0
    lines = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    assert "stopped early the queue takes no messages: AccessDenied" in lines

    assert main(sending.words("show", RUN, "--json")) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["stopped_by"] == {"cause": "queue", "detail": "AccessDenied"}


def test_group_without_counters_is_unknown_and_not_good(sending: Sending, capsys: Capture) -> None:
    sending.settle([0, 1], Disposition.SENT)
    sending.table.begin(sending.plan_id, sending.groups[:1])
    unknown = "sent 1, how many failed again is not known"

    assert main(sending.words("show", RUN)) == 0
    shown = capsys.readouterr().out
    assert f"{sending.groups[0]}: 1 of 1 did not fail again" in shown
    assert f"{sending.groups[1]}: {unknown}" in shown
    assert unknown in opened(console_at(sending)).get(f"/outcomes?group={sending.groups[1]}").text
    assert main(sending.words("status", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["plans"][0]["returned"] is None

    sending.table.client.delete_table(TableName=sending.table.table_name)
    assert main(sending.words("show", RUN)) == 0
    assert capsys.readouterr().out.count(unknown) == 2


def test_what_another_plan_sent_does_not_count_as_good_here(
    sending: Sending, capsys: Capture
) -> None:
    sending.settle([0], Disposition.SENT)
    sending.settle([2], Disposition.SENT, "of-another-plan")
    sending.settle([4], Disposition.RESTORED, "of-another-plan")
    sending.table.begin(sending.plan_id, sending.groups)

    assert main(sending.words("show", RUN, "--json")) == 0

    first, _ = json.loads(capsys.readouterr().out)["outcomes"]
    assert first["counts"] == {"sent": 2, "restored": 1, "pending": 1}
    assert (first["sent"], first["returned"]) == (1, 0)


def watch_of(sending: Sending, wait: Any, exit_code: int = 0, **options: Any) -> tuple[Watch, int]:
    """A watch on a clock that goes on with each wait, of a run that has sent some already.

    Prints its progress as it is in the end. Returns also the exit code.
    """
    clock = VirtualClock(round(SENT_AT.timestamp() * 1000))

    def waited(event: threading.Event, seconds: float) -> None:
        clock.advance(seconds)
        wait(event)

    table = sending.table.table_name
    wanted = RedriveRequest(failure_table=table, **options)
    watch = Watch(sending.archive, wanted, Clock(clock.time, waited))

    @contextmanager
    def progress(label: str, status: Callable[[], str]) -> Iterator[None]:
        yield
        print_line(f"{label}: {status()}")

    watched = watch.run(sending.plan_id, progress)
    print_watched(watched)
    return watch, exit_code_of_watch(watched, exit_code)


@pytest.mark.parametrize(
    ("new", "allowed", "exit_code"), [(0, None, 0), (1, None, 3), (1, "1", 0), (4, None, 3)]
)
def test_watch_ends_with_3_if_more_came_back_since_the_run_began_than_may(
    returned: Sending, capsys: Capture, new: int, allowed: str | None, exit_code: int
) -> None:
    waits = list[bool]()
    group = returned.groups[0]
    ids = [f"first-{n}" for n in (4, 6, 8, 10)][:new]

    def wait(_: threading.Event) -> None:
        waits.append(bool(ids) and returned.table.add(returned.plan_id, group, "returned", ids))

    watch, ended_with = watch_of(returned, wait, allow_returns=allowed)

    assert ended_with == exit_code
    assert [outcome.returned for outcome in watch.outcomes] == [2 + new]
    assert f"watching: {group}: sent 4, {2 + new} failed again (" in capsys.readouterr().out
    # 150 s and a minute, a look each 10 s; or until nothing more can fail again.
    assert len(waits) == (1 if new == 4 else 21)


def test_watch_ends_early_with_its_time_budget_or_a_signal(
    returned: Sending, capsys: Capture
) -> None:
    waits: list[object] = []
    _, budget = watch_of(returned, waits.append, 4, time_budget_seconds=20.0)
    _, stopped = watch_of(returned, lambda _: signal.raise_signal(signal.SIGINT))

    assert (len(waits), budget, stopped) == (2, 4, 130)
    shown = capsys.readouterr().err
    assert "the watch ended early: its time budget is over" in shown
    assert "the watch ended early: interrupted" in shown


def test_watch_that_cannot_say_what_came_back_is_exit_code_1(
    returned: Sending, capsys: Capture
) -> None:
    group = returned.groups[0]

    def nobody(_: object) -> None:
        return None

    _, budget = watch_of(returned, nobody, time_budget_seconds=20.0)
    returned.table.client.delete_table(TableName=returned.table.table_name)
    codes = [watch_of(returned, nobody, exit_code)[1] for exit_code in (0, 3, 4)]

    assert (budget, codes) == (1, [1, 3, 4])
    assert capsys.readouterr().err.count(f"{group}: what failed again is not known") == 3


def test_redrive_goes_on_after_the_send_until_it_is_known_what_came_back(
    engine: Engine, sending: Sending, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLQ_MINUTE_SECONDS", "0.6")
    group = sending.groups[0]
    ids = [f"first-{n}" for n in (0, 2, 4, 6)]
    is_over = threading.Event()

    def fail() -> None:
        # Once the run has made the counters.
        while not sending.table.add(sending.plan_id, group, "returned", ids):
            if is_over.wait(0.02):
                break

    consumer = threading.Thread(target=fail)
    to = ["--to-queue-url", sending.destination, "--include-foreign", "--group", group]
    words = [*to, "--at-once", "--watch", "--execute", "--reason", "fixed"]

    consumer.start()
    try:
        assert main(sending.words("redrive", *words)) == 3
    finally:
        is_over.set()
        consumer.join()
    answer = capsys.readouterr()
    assert f"{group}: sent 4, 4 failed again (4 being replayed, 0 parked again)\n" in answer.out
    assert f"{group}: more failed again than allowed" in answer.err
    # Nothing new failed again of a run that finds nothing to do.
    assert main(sending.words("redrive", *words, "--json")) == 0
    [outcome] = json.loads(capsys.readouterr().out)["outcomes"]
    assert (outcome["group_id"], outcome["sent"], outcome["returned"]) == (group, 4, 4)
