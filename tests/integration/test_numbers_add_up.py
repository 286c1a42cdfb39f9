"""Every screen says the same of the same messages, and what the world itself counted."""

import json
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.ledger.claims import Claim, Result, timestamp
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.erasures import Erasure, mark_done, record_erasure
from dlq.archive.ledger.open_set import read_messages
from dlq.archive.ledger.run_results import write_result_files
from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_store import remove_messages, write_messages
from dlq.archive.storage.files import Archive
from dlq.cli.command import main
from tests.integration.conftest import Capture
from tests.support.builders import queue_url
from tests.support.console_world import (
    DRAIN,
    a_dead_letter,
    archive_with,
    console_of,
    opened,
    plan_of,
)
from tests.support.ledgers import begin

DAY = 86_400
RUN_A = "20251120T110000Z-0000000aaaa"
RUN_B = "20251121T110000Z-0000000aaaa"
RUN_LATE = "20251122T110000Z-0000000aaaa"
RUN_OTHER = "20251123T110000Z-0000000aaaa"
RUN_RESTORE = "20251124T110000Z-0000000aaaa"
RUN_NOW = "20251125T110000Z-0000000aaaa"
SENT = Disposition.SENT
FAILED = Disposition.FAILED
UNCONFIRMED = Disposition.UNCONFIRMED
DISCARDED = Disposition.DISCARDED
RESTORED = Disposition.RESTORED


@dataclass(frozen=True)
class Letter:
    """The past of one message, and the state that must be printed for it.

    Attributes:
        done: what each run did, in order; None for a claim without a result.
        late: what the first run wrote as its result after all others.
        state: what it is now.
        by_plan: whether the plan sent it.
    """

    done: Mapping[str, Disposition | None]
    state: str
    by_plan: bool = False
    is_twice: bool = False
    late: Disposition | None = None


LETTERS = {
    "nobody touched it": Letter({}, "pending"),
    "sent": Letter({RUN_A: SENT}, "sent", by_plan=True),
    "sent again unconfirmed, then its late result came": Letter(
        {RUN_A: None, RUN_B: SENT}, "sent", by_plan=True, is_twice=True, late=SENT
    ),
    "unconfirmed, then written off": Letter({RUN_A: UNCONFIRMED, RUN_B: DISCARDED}, "discarded"),
    "refused": Letter({RUN_A: FAILED}, "pending"),
    "refused, then sent": Letter({RUN_A: FAILED, RUN_B: SENT}, "sent", by_plan=True),
    "unconfirmed": Letter({RUN_A: UNCONFIRMED}, "unconfirmed"),
    "sent by another plan": Letter({RUN_OTHER: SENT}, "sent"),
    "sent by another plan, too": Letter(
        {RUN_A: None, RUN_OTHER: SENT}, "sent", by_plan=True, is_twice=True, late=SENT
    ),
    "claimed by a run that was closed": Letter({RUN_LATE: None}, "pending"),
    "restored": Letter({RUN_RESTORE: RESTORED}, "restored"),
    "erased": Letter({}, "erased"),
    "delivered again after it was sent": Letter({RUN_A: SENT}, "sent", by_plan=True),
    "on its way": Letter({RUN_NOW: None}, "in_progress"),
}
IDS = {name: f"m-{number:04}" for number, name in enumerate(LETTERS)}


@dataclass
class World:
    """An archive with all of it, as runs on machines with such clocks leave it."""

    archive: Archive
    ahead: Mapping[str, float]
    locks: dict[str, int] = field(default_factory=dict)

    @property
    def plan_id(self) -> str:
        return plan_of(self.archive).plan_id

    def plan_of_run(self, run_id: str) -> str:
        others = {RUN_OTHER: "20251119T100000Z-4f2a00", RUN_RESTORE: "restore-0123456789ab"}
        return others.get(run_id, self.plan_id)

    def happen(self) -> None:
        pending = read_messages(self.archive)
        pending.open_set.write_for_plan(self.archive, self.plan_id)
        begin(self.archive, self.plan_id, RUN_LATE)
        self.close(RUN_LATE)
        for lock, run_id in enumerate((RUN_A, RUN_B, RUN_LATE, RUN_OTHER, RUN_RESTORE, RUN_NOW)):
            self.locks[run_id] = lock
            for name, letter in LETTERS.items():
                if run_id in letter.done:
                    self.claim(run_id, name, letter.done[run_id])
        for name, letter in LETTERS.items():
            if letter.late:
                self.record(next(iter(letter.done)), name, letter.late)
        self.deliver_again("delivered again after it was sent")
        self.erase("erased")

    def claim(self, run_id: str, name: str, outcome: Disposition | None) -> None:
        ledger = begin(self.archive, self.plan_of_run(run_id), run_id)
        at = timestamp(time.time() + self.ahead.get(run_id, 0))
        claim = Claim(
            who="me@here",
            reason="why",
            destination="https://q",
            time=at,
            message_ids=(IDS[name],),
            lock=self.locks[run_id],
            drain_ids=(DRAIN,),
        )
        assert ledger.claim(IDS[name], 0, claim)
        if outcome:
            self.record(run_id, name, outcome)

    def record(self, run_id: str, name: str, outcome: Disposition) -> None:
        at = timestamp(time.time() + self.ahead.get(run_id, 0))
        ledger = begin(self.archive, self.plan_of_run(run_id), run_id)
        results = [Result(IDS[name], outcome, at)]
        ledger.record(IDS[name], 0, results)

    def deliver_again(self, name: str) -> None:
        made = a_dead_letter(int(IDS[name][2:]))
        at = datetime.fromtimestamp(time.time() - 2 * DAY, UTC)
        rows = [to_row(made, queue_url("parked"), at)]
        write_messages(self.archive, "20991231T000000Z-000001", 0, rows)

    def erase(self, name: str) -> None:
        record = Erasure("e-1", "me", "why", timestamp(time.time()), {IDS[name]: [DRAIN]})
        record_erasure(self.archive, record)
        remove_messages(self.archive, DRAIN, [IDS[name]], lambda: None)
        mark_done(self.archive, "e-1")

    def close(self, run_id: str) -> None:
        assert write_result_files(self.archive, (self.plan_of_run(run_id), run_id)) == ()


@pytest.fixture(params=["open", "closed", "closed, with a stored open set"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    errors = [{"type": error_type, "message": "x"} for error_type in ("KeyError", "TypeError")]
    letters = [a_dead_letter(n, error=errors[n % 2]) for n in range(len(LETTERS))]
    archive = archive_with(tmp_path, letters)
    world = World(archive, {RUN_A: 3 * DAY, RUN_B: -5 * 3600, RUN_OTHER: -40 * DAY})
    world.happen()
    if request.param != "open":
        for run_id in (RUN_A, RUN_B, RUN_OTHER, RUN_RESTORE):
            world.close(run_id)
    if "stored" in request.param:
        read_messages(archive).open_set.write(archive)
    return world


OWN = Counter(letter.state for letter in LETTERS.values())
"""Numbers of messages by state."""

PENDING = sum(OWN[state] for state in ("pending", "unconfirmed", "in_progress"))


def answer_of(capsys: Capture, world: World, verb: str, *words: str) -> Any:
    assert main([verb, "--archive", world.archive.root, *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_status_counts_what_happened(world: World, capsys: Capture) -> None:
    answer = answer_of(capsys, world, "status")

    own = {state: count for state, count in OWN.items() if state != "erased"}
    assert answer["counts"] == {**own, "pending": PENDING}
    assert answer["messages"] == sum(own.values())
    assert sum(drain["messages"] for drain in answer["drains"]) == answer["messages"]
    assert sum(drain["pending"] for drain in answer["drains"]) == PENDING
    of_plans = Counter[str]()
    for plan in answer["plans"]:
        of_plans.update(plan["counts"])
    assert of_plans == Counter({state: own[state] for state in own.keys() - {"pending"}})


def test_groups_count_what_happened(world: World, capsys: Capture) -> None:
    groups = answer_of(capsys, world, "groups")["groups"]

    counts = Counter[str]()
    for group in groups:
        counts.update(group["states"])
        assert sum(group["states"].values()) == group["count"]
    assert counts == OWN
    assert sum(group["pending"] for group in groups) == PENDING
    assert main(["groups", "--archive", world.archive.root]) == 0
    printed = capsys.readouterr().out
    assert f"messages: {PENDING} pending, {OWN['sent']} sent" in printed


@pytest.mark.parametrize("run_id", [RUN_A, RUN_B])
def test_a_run_is_shown_with_what_happened(world: World, capsys: Capture, run_id: str) -> None:
    outcomes = answer_of(capsys, world, "show", run_id)["outcomes"]

    counts = Counter[str]()
    for outcome in outcomes:
        counts.update(outcome["counts"])
    assert counts == OWN
    by_plan = [letter for letter in LETTERS.values() if letter.by_plan]
    assert sum(outcome["sent"] for outcome in outcomes) == len(by_plan)
    twice = sum(letter.is_twice for letter in by_plan)
    assert sum(outcome["sent_twice"] for outcome in outcomes) == twice


def test_each_message_is_shown_as_it_is(world: World, capsys: Capture) -> None:
    shown = {}
    for name, message_id in IDS.items():
        if LETTERS[name].state != "erased":
            [copy] = answer_of(capsys, world, "show", message_id)["copies"]
            shown[name] = copy["state"]

    assert main(["show", "--archive", world.archive.root, IDS["erased"]]) == 2
    assert {**shown, "erased": "erased"} == {name: letter.state for name, letter in LETTERS.items()}


def test_the_console_counts_what_happened(world: World) -> None:
    console = replace(console_of(world.archive), now=lambda: datetime.now(UTC))
    browser = opened(console)

    groups = browser.get("/").text
    of_rows = re.findall(r"<small>(\d+) pending(?:, (\d+) sent)?", groups)
    assert sum(int(pending) for pending, _ in of_rows) == PENDING
    assert sum(int(sent or 0) for _, sent in of_rows) == OWN["sent"]

    figures = dict(
        re.findall(r"<dt>([a-z ]+)</dt><dd>(\d+)</dd>", browser.get("/jobs/counts").text)
    )
    assert figures.pop("in the archive") == str(len(LETTERS) - OWN["erased"])
    own = {state.replace("_", " "): str(OWN[state]) for state in OWN if state != "erased"}
    assert figures == {**own, "pending": str(PENDING)}

    for group in plan_of(world.archive).groups:
        page = browser.get(f"/groups/{group.group_id}").text
        [pending] = re.findall(r"<dt>Pending</dt><dd>(\d+)</dd>", page)
        assert f"<small>{pending} pending" in groups
