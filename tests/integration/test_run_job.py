"""The verb ``run``: all steps, one after the other, as a schedule starts them."""

import json
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dlq.archive.lock import LockHolder, LockUse, archive_lock
from dlq.archive.messages.message_store import drain_ids
from dlq.archive.storage.files import open_archive
from dlq.aws.actor import JOB_RUN_ID
from dlq.cli import running
from dlq.cli.command import main
from dlq.engine import Engine
from dlq.errors import InputError
from dlq.plan.plan_reading import read_plan
from dlq.redrive.sending.stop_signals import Clock
from dlq.scheduled_run import Pending, run
from dlq.stack.glue_runs import RunResult, read_result
from dlq_replay.wire.context import FailureError
from tests.integration.conftest import MakeQueue
from tests.integration.desk import ScheduledRuns
from tests.integration.spark_world import archive_of, bodies, parked, receive_all
from tests.support.archive_files import unnamed_files
from tests.support.builders import context, message
from tests.support.glue_run import run_on_glue
from tests.support.small_jobs import ANALYZE

POLICY = """\
version: 1
rules:
  - name: orders timed out
    when: title LIKE 'TimeoutError%'
    action: redrive
"""


class Installation(ScheduledRuns):
    """Runs as a schedule starts them."""

    @property
    def argv(self) -> list[str]:
        """The command line that a schedule starts."""
        return [
            "run",
            "--archive",
            self.archive,
            "--parked-queue-url",
            self.parked.url,
            "--to-queue-url",
            self.main.url,
            "--policy",
            str(self.policy),
            "--execute",
            "--reason",
            "every night",
        ]


@pytest.fixture
def installation(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path, quick_drains: None
) -> Installation:
    return Installation(engine, make_queue, tmp_path, POLICY)


def test_run_whose_failure_table_cannot_be_read_drains_and_reports_and_sends_nothing(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    installation.park(parked(1), parked(2))

    assert main([*installation.argv, "--failure-table", "no-such-table"]) == 2

    printed = capsys.readouterr()
    assert "2 archived" in printed.out
    assert "dlq: nothing was redriven: table no-such-table cannot be read: " in printed.err
    assert "--at-once sends everything" in printed.err
    assert receive_all(installation.parked) == receive_all(installation.main) == []
    assert main([*installation.argv, "--failure-table", "no-such-table", "--at-once"]) == 0
    assert bodies(receive_all(installation.main)) == bodies([parked(1)])


@pytest.mark.both_engines
def test_the_policys_groups_go_back_and_the_rest_waits_for_a_human(
    installation: Installation,
) -> None:
    installation.park(parked(1), parked(2), parked(3), parked(4))
    digest = sha256(installation.policy.read_bytes()).hexdigest()

    summary = installation.run(policy_sha256=digest)

    assert sorted(bodies(receive_all(installation.main))) == sorted(bodies([parked(1), parked(3)]))
    assert receive_all(installation.parked) == []
    assert summary.drained[0].archived == 4
    assert summary.redriven is not None
    assert summary.redriven.count("sent") == 2
    assert summary.pending.messages == 2
    assert summary.findings is not None
    plan = Path(summary.findings.plan_path).read_text()
    assert "# by the policy's rule: orders timed out" in plan
    assert plan.count("action: redrive\n") == 1
    archive = open_archive(installation.archive)
    assert unnamed_files(Path(archive.root)) == []
    [path] = [path for path in archive.list("ledger/runs") if path.endswith(".json")]
    assert json.loads(archive.read(path) or b"")["policy_sha256"] == digest


@pytest.mark.parametrize("has_policy", [True, False])
def test_without_execute_nothing_is_sent(installation: Installation, *, has_policy: bool) -> None:
    installation.park(parked(1), parked(2))

    summary = installation.run(execute=False, **({} if has_policy else {"policy": None}))

    assert receive_all(installation.main) == []
    assert summary.findings is not None
    assert (summary.redriven and summary.redriven.count("send")) == (1 if has_policy else None)
    assert summary.pending.messages == 2


def test_the_log_of_a_scheduled_run_has_no_words_of_messages(
    installation: Installation, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = [message(f"t-{n}", f"dear Mona Lisa, order {n} is late") for n in range(2)]
    error = FailureError("TimeoutError", "no answer for Mona Lisa")
    body = json.dumps({"who": "Mona Lisa"})
    letters = [message(f"m-{n}", body, context(error=error)) for n in range(12)]
    others = [message(f"o-{n}", json.dumps({"who": f"n{n}"})) for n in range(12)]
    for batch in (texts, letters[:10], letters[10:], others[:10], others[10:]):
        installation.park(*batch)
    argv = [argument for argument in installation.argv if argument != "--execute"]
    assert main(argv) == 0

    shown = capfd.readouterr()
    (report,) = Path(installation.archive, "reports").iterdir()
    assert f"report: {report}/report.html" in shown.out
    assert "Mona Lisa" in (report / "summary.json").read_text()
    assert shown.out.count("g-") >= 3
    assert "Mona" not in shown.out + shown.err


def test_an_empty_queue_and_archive_are_fine(installation: Installation) -> None:
    summary = installation.run()

    assert summary.findings is None
    assert summary.pending == Pending(0, 0)


@pytest.mark.parametrize("again", [False, True])
def test_what_came_back_from_a_redrive_waits_for_a_human_unless_the_policy_says_otherwise(
    installation: Installation, *, again: bool
) -> None:
    error = FailureError("TimeoutError", "order 5 after 3 s")
    ours = context(first_id="first-5", reason="attempts_exhausted", error=error, plan_id="p-1")
    installation.policy.write_text(POLICY + "redrive_again: true\n" * again)
    installation.park(parked(1))
    installation.park(message("m-5", "failed again", ours))

    summary = installation.run()

    assert summary.redriven is not None
    counts = [summary.redriven.count(disposition) for disposition in ("sent", "not_selected")]
    assert [*counts, summary.pending.messages] == ([2, 0, 0] if again else [1, 1, 1])
    assert ("failed again" in bodies(receive_all(installation.main))) is again


DECIDED = {"leave": "leave", "discard": "discard", "edit": "edit", "by hand": "edit"}
"""What people said of four of the groups below."""


@dataclass
class NamedGroups:
    """Groups with a parked message each, by the names of their errors; a rule redrives all.

    Attributes:
        ids: by the name; after ``decide_all``.
    """

    installation: Installation
    ids: dict[str, str] = field(default_factory=dict)

    def park(self, body: str, name: str) -> None:
        error = FailureError(name.title(), "it was so")
        self.installation.park(message("m", body, context(reason="too_old", error=error)))

    def decide(self, name: str, *words: str) -> None:
        archive = ["--archive", self.installation.archive]
        assert main(["decide", *archive, self.ids[name], *words]) == 0

    def decide_all(self) -> None:
        """Park a message of each; analyze; say ``DECIDED`` by verbs, and one edit in the file."""
        for name in (*DECIDED, "free"):
            self.park(f'{{"of": "{name}"}}', name)
        findings = self.installation.run(execute=False).findings
        assert findings
        for group in findings.groups:
            self.ids[group.title.split(":")[0].lower()] = group.group_id

        self.decide("leave", "leave", "--note", "never send")
        self.decide("discard", "discard")
        self.decide("edit", "redrive", "--edit", '[{"op": "remove", "path": "/of"}]')
        plan = Path(findings.plan_path)
        head, entry, tail = plan.read_text().partition(f"- id: {self.ids['by hand']}\n")
        plan.write_text(f"{head}{entry}    set_attributes: {{of: body}}\n{tail}")

    def run(self) -> tuple[list[str], dict[str, str]]:
        """Return the bodies that a run sends, and by the group's name what it leaves for people."""
        findings = self.installation.run().findings
        assert findings
        names = {group_id: name for name, group_id in self.ids.items()}
        left = {names[key]: action for key, action in findings.left_for_people.items()}
        return sorted(bodies(receive_all(self.installation.main))), left


@pytest.fixture
def decided(installation: Installation) -> NamedGroups:
    open_archive(installation.archive, creates=True)
    installation.policy.write_text(POLICY.replace("TimeoutError", ""))
    groups = NamedGroups(installation)
    groups.decide_all()
    return groups


def test_what_people_said_of_a_group_beats_every_rule(decided: NamedGroups) -> None:
    assert decided.run() == (['{"of": "free"}'], DECIDED)


def test_what_people_said_of_a_group_follows_its_messages_into_another(
    decided: NamedGroups, installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    decided.run()
    move_message(installation.archive, "Leave", "Free")
    decided.park("new", "free")
    capsys.readouterr()

    assert main(installation.argv) == 0
    shown = capsys.readouterr().out
    decided.decide("free", "redrive")
    sent, left = decided.run()

    assert "left for a person, who last said otherwise than the policy: 4 groups: g-" in shown
    assert f"{decided.ids['free']} (leave)" in shown
    assert sent == ["new", '{"of": "leave"}']
    assert left == {"discard": "discard", "edit": "edit", "by hand": "edit"}


def move_message(archive: str, error: str, other_error: str) -> None:
    """Change the error of one message, as a later grouping puts it into another group."""
    files = Path(archive, "messages").rglob("*.parquet")
    [file] = [path for path in files if error in pq.read_table(path)["error_type"].to_pylist()]
    rows = pq.read_table(file)
    index = rows.schema.get_field_index("error_type")

    errors = rows["error_type"].to_pylist()
    errors[errors.index(error)] = other_error
    pq.write_table(rows.set_column(index, rows.schema.field(index), pa.array(errors)), file)


def test_a_rule_that_overrides_people_beats_what_they_said(
    decided: NamedGroups, installation: Installation
) -> None:
    installation.policy.write_text(installation.policy.read_text() + "    overrides_people: true\n")

    all_bodies = sorted(f'{{"of": "{name}"}}' for name in (*DECIDED, "free"))
    assert decided.run() == (all_bodies, {})


def test_two_runs_at_the_same_time_send_each_message_once(installation: Installation) -> None:
    installation.park(*map(parked, range(1, 9)))

    with ThreadPoolExecutor(2) as executor:
        runs = [executor.submit(installation.run) for _ in range(2)]
    summaries = [run.result() for run in runs]
    last = installation.run()

    odd = [parked(number) for number in range(1, 9, 2)]
    assert sorted(bodies(receive_all(installation.main))) == sorted(bodies(odd))
    assert receive_all(installation.parked) == []
    assert sum(summary.drained[0].archived for summary in summaries) == 8
    assert (last.pending.messages, last.postponed) == (4, "")
    status = json.loads(Path(installation.archive, "status.json").read_text())
    assert (status["run_id"], status["pending"]["messages"]) == (last.run_id, 4)


def test_only_a_run_that_emptied_the_parked_queue_says_when(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The age of what is parked counts from it. A drain has a share of the time budget alone."""
    monkeypatch.setattr("dlq.scheduled_run._DRAIN_SHARE", 1e-5)

    def drained_at(**changes: Any) -> str:
        installation.run(policy=None, execute=False, **changes)
        status = json.loads(Path(installation.archive, "status.json").read_text())
        return str(status["drained_at"])

    installation.park(parked(1))
    first = drained_at()
    installation.park(parked(2))

    assert drained_at(time_budget_seconds=60) == first
    assert drained_at() > first


def test_a_run_that_meets_another_drain_leaves_its_messages(installation: Installation) -> None:
    """The drain goes on after the analysis has read what the plan freezes."""
    installation.park(parked(1), parked(2))
    archived: list[str] = []

    @contextmanager
    def drain_meanwhile(label: str, status: Callable[[], str]) -> Iterator[None]:
        del status
        yield
        if label == "looking for differences":
            archive = open_archive(installation.archive)
            archived.extend(drain_ids(archive))
            archive_of(Path(archive.root), [parked(3)], archived[0], installation.parked.url)

    summary = run(
        installation.engine,
        open_archive(installation.archive),
        installation.options(),
        progress=drain_meanwhile,
    )

    assert len(archived) == 1
    assert (summary.postponed, summary.pending.messages) == ("", 2)
    assert len(receive_all(installation.main)) == 1
    assert installation.run().pending.messages == 1


def test_a_run_waits_for_an_operators_redrive_as_long_as_its_time_budget_allows(
    installation: Installation,
) -> None:
    installation.park(parked(1), parked(2))
    operator = LockHolder("run-0", LockUse.SEND, "plan p-1", "somebody")

    with ExitStack() as operators_redrive:
        archive = open_archive(installation.archive)
        operators_redrive.enter_context(archive_lock(archive, operator, lock_seconds=1))
        clock = Clock(wait=lambda *_: operators_redrive.close())
        options = installation.options(time_budget_seconds=3600)
        summary = run(installation.engine, archive, options, clock=clock)

    assert (summary.postponed, summary.is_locked_out) == ("", False)
    assert summary.redriven is not None
    assert len(receive_all(installation.main)) == 1


@pytest.mark.usefixtures("quick_locks")
def test_a_run_that_meets_an_operators_redrive_does_the_rest_and_says_so(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    installation.park(parked(1), parked(2))
    archive = open_archive(installation.archive)
    operator = LockHolder("run-0", LockUse.SEND, "plan p-1", "somebody")

    with archive_lock(archive, operator):
        summary = installation.run()
        exit_code = main(installation.argv)

    assert summary.redriven is None
    assert summary.postponed.startswith("plan p-1 is being carried out by somebody")
    assert (summary.drained[0].archived, summary.pending.messages) == (2, 2)
    assert receive_all(installation.main) == []
    assert exit_code == 2
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-2].startswith("run ")
    assert (
        "nothing was redriven, the next run does it: plan p-1 is being carried out" in printed.err
    )

    assert installation.run().pending.messages == 1


@pytest.mark.parametrize(
    ("changes", "policy", "fault"),
    [
        ({"to_queue_url": None}, POLICY, "no destination: give --main-queue-url"),
        ({"reason": " "}, POLICY, "--execute needs --reason"),
        ({"policy": None}, POLICY, "--execute needs --policy"),
        ({"policy": "/nowhere/policy.yaml"}, "", "--policy /nowhere/policy.yaml: No such file"),
        ({}, POLICY.replace("title", "heading"), r"rules\[0\].when: rule 'orders timed out'"),
        ({}, f"{POLICY}run: {{max_rate: 0.05}}", "--max-rate 0.05: must be at least 0.1"),
    ],
)
def test_a_bad_start_or_policy_touches_nothing(
    installation: Installation, changes: dict[str, Any], policy: str, fault: str
) -> None:
    installation.policy.write_text(policy)
    installation.park(parked(1))

    with pytest.raises(InputError, match=fault):
        installation.run(**changes)
    assert len(receive_all(installation.parked)) == 1


@pytest.mark.on_spark
def test_on_glue_the_policy_sets_options_of_the_run_and_reports_name_the_stack(
    installation: Installation,
) -> None:
    """Glue gives a run of the schedule no arguments of its own."""
    installation.park(*map(parked, range(10)))
    archive = open_archive(installation.archive)
    argv = [argument for argument in installation.argv if argument != "--execute"]

    def run_with(settings: str, job_run_id: str) -> RunResult:
        installation.policy.write_text(f"{POLICY}run: {settings}\n")
        words = ["--command-line", shlex.join(argv), f"--{JOB_RUN_ID}", job_run_id]
        words += ["--stack", "shop"]
        with suppress(SystemExit):
            run_on_glue(words, running.main)
        result = read_result(archive, job_run_id)
        assert result
        return result

    planned = run_with("{max_rate: 2.5}", "jr_1")
    assert planned.exit_code == 0
    assert "at 2.5 a second" in planned.answer
    argv = [*ANALYZE, "--archive", archive.root]
    assert run_with("{}", "jr_2").exit_code == 0
    pages = [path for path in archive.list("reports") if "report.html" in path]
    assert len(pages) == 2
    for path in pages:
        assert b"stack shop: 10 messages pending</title>" in (archive.read(path) or b"")


def test_the_command_line_ends_with_one_summary_and_names_the_policy(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    # As sha256sum does, of a file from Windows too.
    installation.policy.write_bytes(POLICY.replace("\n", "\r\n").encode())
    used = sha256(installation.policy.read_bytes()).hexdigest()
    installation.park(parked(1), parked(2))

    log = installation.policy.with_name("log.jsonl")
    log.touch()

    exit_code = main([*installation.argv, "--policy-sha256", used, "--logs", str(log)])

    lines = capsys.readouterr().out.splitlines()
    assert exit_code == 0
    assert lines[-2].startswith("run ")
    assert "2 archived, 1 sent, 0 discarded; 1 are pending, the oldest for" in lines[-2]
    assert lines[-1].startswith("next: dlq groups --archive ")
    assert f"policy: SHA-256 {used}" in lines
    assert "0 of 1 messages have an error in the logs" in lines
    [plan] = Path(installation.archive).glob("reports/*/plan.yaml")
    assert read_plan(plan.read_text()).snapshot.policy_sha256 == used
