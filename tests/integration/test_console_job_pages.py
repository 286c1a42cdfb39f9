"""The pages of jobs: what they start, what they show of it, and what they refuse."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from dlq.archive.group_records import add_statement, read_memory
from dlq.console.jobs import Jobs
from dlq.console.ramp_steps import shown_steps
from dlq.explain.triage import Statement
from dlq.inspect.status import DlqStatus, StatusOptions, status
from dlq.redrive.ramping.step_records import Step, Steps
from local_sqs.server import serve_in_thread
from tests.support.console_jobs import PARKED, QUEUES, DeadJobs, a_problem, redrive_answer
from tests.support.console_world import (
    BASE,
    NOW,
    a_dead_letter,
    archive_with,
    assert_page,
    console_of,
    opened,
)


@pytest.fixture
def world(tmp_path: Path) -> DeadJobs:
    archive = archive_with(tmp_path, [a_dead_letter(n) for n in range(20)])
    jobs = Jobs(tmp_path / "state" / "jobs", process=("true",))
    console = console_of(archive, values=QUEUES, jobs=jobs)
    return DeadJobs(archive, console, opened(console))


def test_buttons_start_the_commands_that_they_show(world: DeadJobs) -> None:
    page = world.browser.get("/jobs").text

    place = ["--archive", world.archive.root]
    collect = ["collect", *place, "--parked-queue-url", PARKED]
    path = "/jobs/collect"
    both = {"limit": " 10 ", "since": "7d"}
    assert world.started(path, **both) == [*collect, "--limit", "10", "--since", "7d"]
    drain = world.started(path, **both, only="drain")
    assert drain == [*collect, "--only", "drain", "--limit", "10"]
    analyze = world.started(path, **both, only="analyze")
    assert analyze == [*collect, "--only", "analyze", "--since", "7d"]
    assert_page("jobs", page, world.archive)


def test_console_of_a_stack_leaves_to_the_command_what_the_stack_says(world: DeadJobs) -> None:
    console = replace(
        world.console, stack="orders", given={"main-queue-url": "http://other"}, on_glue=True
    )
    of_stack = DeadJobs(world.archive, console, opened(console))

    assert of_stack.started("/jobs/collect") == ["collect", "--stack", "orders", "--on-glue"]
    words = of_stack.started("/redrive", plan="p-1", what="g-1")
    assert words == [
        "redrive",
        "--stack",
        "orders",
        "--main-queue-url",
        "http://other",
        "--plan",
        "p-1",
        "--group",
        "g-1",
        "--on-glue",
    ]


FLEET = {
    "queue-tag": "team-a",
    "parked-queue-url": PARKED,
    "fifo-parked-queue-url": f"{PARKED}.fifo",
}


def test_fleet_is_redriven_by_its_tag_and_may_be_by_one_queue(world: DeadJobs) -> None:
    console = replace(world.console, values=FLEET)
    fleet = DeadJobs(world.archive, console, opened(console))

    page = fleet.browser.get("/redrive").text
    words = fleet.started("/redrive", plan="p-1", what="plan", queue="orders", main_queue_url="x")

    place = ["--archive", world.archive.root, "--queue-tag", "team-a"]
    parked = ["--parked-queue-url", PARKED, "--parked-queue-url", f"{PARKED}.fifo"]
    assert sorted(words) == sorted(
        ["redrive", *place, *parked, "--plan", "p-1", "--queue", "orders"]
    )
    assert "main_queue_url" not in page
    assert 'name="queue"' in page
    header = page.partition("</header>")[0]
    assert "fleet dlq-replay=team-a" in header
    assert "parked.fifo" in header
    assert fleet.started("/jobs/collect") == ["collect", *place[:2], *parked]


def test_fleet_of_a_stack_leaves_tag_and_queues_to_the_stack(world: DeadJobs) -> None:
    console = replace(world.console, values=FLEET, stack="team-a-dlq")
    fleet = DeadJobs(world.archive, console, opened(console))

    words = fleet.started("/redrive", plan="p-1", what="plan", queue="orders")

    assert words == [
        "redrive", "--stack", "team-a-dlq", "--plan", "p-1", "--queue", "orders",
    ]  # fmt: skip


def test_counts_of_a_fleet_name_both_parked_queues(
    world: DeadJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_in_thread() as sqs:
        monkeypatch.setenv("AWS_ENDPOINT_URL", sqs.url)
        client = boto3.client("sqs", region_name="us-east-1")
        standard = client.create_queue(QueueName="parked")["QueueUrl"]
        client.send_message(QueueUrl=standard, MessageBody="{}")
        values = {**FLEET, "parked-queue-url": standard}
        values["fifo-parked-queue-url"] = standard.replace("parked", "missing")
        console = replace(world.console, values=values)

        page = opened(console).get("/jobs/counts").text

    assert "<dt>in the parked queue</dt><dd>1 " in page
    assert "missing" in page
    assert f'<a href="{BASE}/fleet">Each queue of the fleet</a>' in page


def test_masks_of_the_console_are_those_of_its_commands(world: DeadJobs) -> None:
    masked = replace(world.console, mask_words=("--mask", "body.name"))
    other = DeadJobs(world.archive, masked, opened(masked))

    assert other.started("/jobs/collect")[-2:] == ["--mask", "body.name"]
    assert other.started("/redrive", plan="p-1", what="plan")[-2:] == ["--mask", "body.name"]


def test_what_a_person_may_get_wrong_starts_nothing(world: DeadJobs) -> None:
    assert "choose what to redrive" in world.refused("/redrive", plan="p-1", what="")
    assert "names no plan" in world.refused("/redrive", plan="", what="plan")


def test_value_that_looks_like_an_option_stays_a_value(world: DeadJobs) -> None:
    words = world.started("/redrive", plan="p-1", what="--execute", where="-1 < 0")

    assert "--execute" not in words
    assert words[-2:] == ["--group=--execute", "--where=-1 < 0"]


def test_execution_has_the_words_of_its_dry_run_and_its_decisions(world: DeadJobs) -> None:
    dry_run = world.dry_run("--limit", "5")
    answer = dry_run.answer()
    assert answer

    words = world.started(
        "/redrive/execute", after=dry_run.job_id, how="all", reason="-it is fixed", max_rate="5"
    )

    assert words == [
        *world.preview_words,
        "--limit",
        "5",
        "--decisions-sha256",
        answer["decisions_sha256"],
        "--at-once",
        "--max-rate",
        "5",
        "--execute",
        "--reason=-it is fixed",
    ]


@pytest.mark.parametrize(
    ("allowed", "words"), [("", ["--ramp"]), (" 2.5% ", ["--ramp", "--allow-returns", "2.5%"])]
)
def test_ramp_has_what_may_come_back(world: DeadJobs, allowed: str, words: list[str]) -> None:
    fields = {"how": "ramp", "allow_returns": allowed, "reason": "x"}

    started = world.started("/redrive/execute", after=world.dry_run().job_id, **fields)

    assert started[started.index("--ramp") :] == [*words, "--execute", "--reason", "x"]
    assert started.count("--parked-queue-url") == 1


def test_nothing_is_sent_without_a_dry_run_that_ended_well(world: DeadJobs) -> None:
    how = {"how": "all", "reason": "x"}
    failed = world.ended(world.preview_words, exit_code=2)
    died = world.ended(world.preview_words, exit_code=None)
    done = world.ended([*world.preview_words, "--execute"], redrive_answer(world))
    other = world.ended(["collect"], {"version": 1})

    assert "no such job" in world.refused("/redrive/execute", after="", **how)
    assert "did not end well" in world.refused("/redrive/execute", after=failed.job_id, **how)
    assert "did not end well" in world.refused("/redrive/execute", after=died.job_id, **how)
    assert "no dry run" in world.refused("/redrive/execute", after=done.job_id, **how)
    assert "no dry run" in world.refused("/redrive/execute", after=other.job_id, **how)


def halt(world: DeadJobs) -> None:
    why = "1 of 3 messages failed again, 0 allowed"
    add_statement(world.archive, world.group_id, Statement(NOW, "ada@desk", halted=why))


def test_job_that_died_says_what_is_known_and_goes_on_with_the_same_command(
    world: DeadJobs,
) -> None:
    words = [*world.preview_words, "--execute", "--reason", "x"]
    died = world.ended(words, exit_code=None)
    died.folder.joinpath("progress.jsonl").write_text(
        '{"label": "redriving", "seconds": 9, "text": "300 of 1,000 messages, 30/s"}\n'
    )

    page = world.page(died)

    assert_page("a job that died", page, world.archive)
    assert world.started(f"/jobs/{died.job_id}/again") == words
    unconfirmed = world.started(f"/jobs/{died.job_id}/again", unconfirmed="1")
    assert unconfirmed == [*words, "--unconfirmed", "send"]


@pytest.mark.parametrize(
    ("exit_code", "offers"), [(0, False), (2, False), (3, True), (4, True), (130, True)]
)
def test_only_what_is_not_done_goes_on(world: DeadJobs, exit_code: int, offers: bool) -> None:
    words = [*world.preview_words, "--execute", "--reason", "x"]
    answer = redrive_answer(world, {"sent": 12, "unconfirmed": 8}, run_id="r-1")

    page = world.page(world.ended(words, answer, exit_code))

    assert ("/again" in page) is offers


def test_nothing_goes_on_where_all_that_is_left_is_halted(world: DeadJobs) -> None:
    words = [*world.preview_words, "--execute", "--reason", "x"]
    answer = redrive_answer(world, {"sent": 3, "halted": 17}, run_id="r-1")

    assert "/again" not in world.page(world.ended(words, answer, 3, "dlq: halted: too many\n"))


def test_halted_group_is_decided_again_on_the_page_of_its_job(world: DeadJobs) -> None:
    words = [*world.preview_words, "--execute", "--reason", "x"]
    answer = redrive_answer(world, {"sent": 3, "halted": 17}, run_id="r-1")
    job = world.ended(words, answer, 3)
    halt(world)

    button = re.search('<form[^>]*action="[^"]*/decide".*?</form>', world.page(job), re.DOTALL)
    assert button
    fields = dict(re.findall('name="(group|seen|plan|decision)" value="([^"]*)"', button[0]))
    decided = world.browser.post("/decide", {**fields, "back": "1"})

    assert decided.headers["location"].startswith(f"{BASE}/groups/{world.group_id}")
    assert not read_memory(world.archive).halted
    after = world.page(job)
    assert "It was halted: KeyError" in after
    assert "Somebody has decided again since" in after
    assert "/decide" not in after


def test_a_dry_run_of_a_halted_group_leads_to_a_decision_and_to_no_execution(
    world: DeadJobs,
) -> None:
    why = f"group {world.group_id} is halted: 1 of 1 message failed again, 0 allowed; decide again"
    answer = redrive_answer(world, {"halted": 20}, notes=[why], decisions_sha256="0" * 64)
    halt(world)

    page = world.page(world.ended(world.preview_words, answer))

    assert "/redrive/execute" not in page
    assert_page("a dry run of a halted group", page, world.archive)


def test_dry_run_leads_to_its_form(world: DeadJobs) -> None:
    forecast = {"sizes": [1, 2, 6, 11], "seconds": 360}
    problem = {**a_problem("m-1"), "detail": "no such path"}
    sample = {"group_id": world.group_id, "message_id": "m-2", "lines": ["-a", "+<b>"]}

    page = world.page(world.dry_run(forecast=forecast, problems=[problem], samples=[sample]))

    assert_page("a dry run", page, world.archive)


def test_dry_run_without_a_ramp_says_why_and_sends_at_once(world: DeadJobs) -> None:
    page = world.page(world.dry_run(notes=["everything goes at once: no --failure-table"]))

    assert_page("a dry run without a ramp", page, world.archive)


def ramp_of(group_id: str, verdict: str, **fields: Any) -> dict[str, Any]:
    numbers = {"step": 2, "steps": 4, "sent": 3, "returned": 0, "allowed": 0}
    return {"group_id": group_id, "verdict": verdict, "reason": "", **numbers, **fields}


def test_ramp_shows_how_far_each_group_is_and_what_to_do_about_a_halted_one(
    world: DeadJobs,
) -> None:
    why = "1 of 3 messages failed again, 0 allowed"
    groups = [
        ramp_of("g-sent", "sent", step=4, sent=20),
        ramp_of("g-unknown", "unknown", returned=None, reason="a failure may <still> return"),
        ramp_of(world.group_id, "bad", returned=1, reason=why),
    ]
    counts = {"sent": 3, "halted": 17}
    words = [*world.preview_words, "--execute", "--reason", "x"]
    answer = redrive_answer(world, counts, run_id="r-1", ramp=groups)
    halt(world)

    page = world.page(world.ended(words, answer, 3, "dlq: halted: too many\nWARN x\n"))

    assert_page("a ramp", page, world.archive)


def a_step(
    number: int, began_at: float, messages: int, left: int, group: str = "g-1", **more: Any
) -> Step:
    values: dict[str, Any] = {
        "messages": {group: messages},
        "left": {group: left},
        "proven": {group: 0},
        "returned_before": {group: 0},
        "halts": {group: 0},
        "sent_at": began_at + 1,
        **more,
    }
    return Step(number, "r-1", began_at, **values)


def test_steps_of_a_ramp_are_a_row_with_a_forecast_of_the_rest() -> None:
    first = a_step(1, 100, 1, 17)
    second = a_step(2, 200, 2, 15, proven={"g-1": 1}, sent_at=None)

    begun = shown_steps([first, second], "g-1")
    waiting = shown_steps([first], None)
    done = shown_steps([a_step(1, 100, 1, 0)], None)

    assert [step.messages for step in begun] == [1, 2, 6, 9]
    assert [step.is_current for step in begun] == [False, True, False, False]
    assert [bool(step.sent_at) for step in begun] == [True, False, False, False]
    assert [step.messages for step in waiting] == [1, 2, 6, 9]
    assert [step.is_current for step in waiting] == [True, False, False, False]
    assert [step.is_current for step in done] == [False]
    assert shown_steps([first], "g-2") == ()


def test_steps_before_the_halt_of_a_group_are_not_of_its_ramp_now() -> None:
    before = a_step(1, 100, 1, 17)
    after = a_step(2, 200, 1, 16, halts={"g-1": 1})

    assert [step.messages for step in shown_steps([before, after], "g-1")] == [1, 2, 6, 8]


def test_job_shows_the_steps_that_began_in_it_and_none_of_an_earlier_run(world: DeadJobs) -> None:
    words = [*world.preview_words, "--ramp", "--execute", "--reason", "x"]
    job = world.ended(words, exit_code=None)
    first = a_step(1, job.started_at.timestamp() - 60, 1, 19, world.group_id)
    second = replace(first, number=2, began_at=job.started_at.timestamp() + 1)
    steps = Steps(world.archive, world.plan_id, "main")

    steps.create(replace(first, sent_at=None))
    steps.create(first)
    earlier = world.page(job)
    steps.create(replace(second, sent_at=None))
    steps.create(second)
    now = world.page(job)

    assert "step-row" not in earlier
    assert "2 of 21 messages sent" in now
    assert "step-row" in now


def test_stop_is_counted_by_what_the_page_showed(world: DeadJobs, tmp_path: Path) -> None:
    died = world.ended(["collect"], exit_code=None)

    answer = world.post(f"/jobs/{died.job_id}/stop", number="x")

    assert answer.status_code == 303
    assert not list(died.folder.glob("stop*"))


def test_pages_that_are_not_there(world: DeadJobs) -> None:
    assert world.browser.get("/jobs/none").status_code == 422
    assert world.browser.get("/jobs/..%2f..%2fetc").status_code == 404


def test_counts_name_the_queue_that_cannot_be_asked_and_still_count_the_archive(
    world: DeadJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    page = world.browser.get("/jobs/counts").text

    assert "fault" in page
    assert "<dt>pending</dt><dd>20</dd>" in page


@pytest.mark.parametrize(
    ("dlq", "shown", "hidden"),
    [
        (DlqStatus(), "No limit: ", "cannot judge"),
        (
            DlqStatus(unjudged="cannot judge"),
            "It cannot judge. <code>dlq doctor</code>",
            "No limit",
        ),
        (DlqStatus(1, "limited to 1", waiting=3), "<b>limited to 1</b>", "No limit"),
        (DlqStatus(fault="denied"), "Not known: denied", "No limit"),
    ],
)
def test_counts_say_what_is_known_of_the_circuit_breaker(
    world: DeadJobs, monkeypatch: pytest.MonkeyPatch, dlq: DlqStatus, shown: str, hidden: str
) -> None:
    counted = replace(status(StatusOptions(world.archive.root)), dlq=dlq)
    monkeypatch.setattr("dlq.console.pages.job_pages.status", lambda _: counted)

    page = opened(replace(world.console, values={})).get("/jobs/counts").text

    assert shown in page
    assert hidden not in page


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1) hx-get=/x>'


def test_texts_of_commands_answers_and_errors_are_data(world: DeadJobs) -> None:
    stopped_by = {"cause": "archive", "detail": HOSTILE}
    answer = redrive_answer(world, run_id="", notes=[HOSTILE], stopped_by=stopped_by)
    problem = a_problem(HOSTILE, HOSTILE)
    sample = {"group_id": HOSTILE, "message_id": HOSTILE, "lines": [f"-{HOSTILE}"]}
    answer = {**answer, "problems": [problem], "samples": [sample], "destinations": {HOSTILE: 2}}
    job = world.ended(["redrive", HOSTILE], answer, 0, f"dlq: {HOSTILE}\n{HOSTILE}\n")
    job.folder.joinpath("progress.jsonl").write_text(
        json.dumps({"label": HOSTILE, "seconds": 1, "text": HOSTILE}) + "\n"
    )

    escaped = HOSTILE.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&#34;")
    jobs = world.browser.get("/jobs").text
    assert f'/jobs/{job.job_id}"' in jobs
    assert escaped in world.page(job)
    for page in (world.page(job), jobs):
        assert "<script>alert" not in page
        assert "<img" not in page
