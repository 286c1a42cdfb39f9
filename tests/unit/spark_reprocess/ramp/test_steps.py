"""How far a group is, and the records that several runs share."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dlq_replay.returns import Returns
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.errors import ArchiveError
from spark_reprocess.ramp.rule import AllowedReturns, GroupRamp, Verdict
from spark_reprocess.redrive.steps import GroupStep, Step, Steps, group_ramp, of_group, sent_of

NONE = Returns()


def step(
    number: int,
    messages: int = 1,
    *,
    run_id: str = "run-1",
    is_last: bool = False,
    before: int = 0,
    stops: int = 0,
    sent: Mapping[str, int] | None = None,
) -> Step:
    groups = {"g": GroupStep(number, messages, is_last, before, stops)}
    record = Step(number, run_id, "me", 5.0, f"t/{number}", groups)
    return record if sent is None else replace(record, sent_at=9.0, sent=sent)


def judged(
    *own: Step,
    left: int = 7,
    returns: Returns | None = NONE,
    blocker: str = "",
    allowed: str | None = None,
    in_order: bool = False,
) -> GroupRamp:
    rule = AllowedReturns(allowed)
    return group_ramp("g", own, left, returns, rule, blocker, in_order=in_order)


ONE, TWO = step(1, 1, sent={"g": 1}), step(2, 2, sent={"g": 2})
LAST = step(3, 6, is_last=True, sent={"g": 6})


def test_group_is_good_where_nothing_came_back_and_nothing_is_unknown() -> None:
    assert judged(ONE, TWO) == GroupRamp("g", 2, 4, 3, 0, 0, Verdict.GOOD)
    assert judged(ONE, TWO, blocker="it rains") == GroupRamp(
        "g", 2, 4, 3, 0, 0, Verdict.UNKNOWN, "it rains"
    )


@pytest.mark.parametrize("blocker", ["", "nobody consumes"])
@pytest.mark.parametrize("last", [TWO, step(2, 2), replace(TWO, groups=LAST.groups)])
def test_too_many_returns_are_bad_whatever_else_is_known(last: Step, blocker: str) -> None:
    ramp = judged(ONE, last, returns=Returns(1), blocker=blocker)

    assert (ramp.verdict, ramp.why) == (Verdict.BAD, "1 of 3 messages came back, 0 may")


def test_what_came_back_before_the_first_step_does_not_count_and_later_steps_count_together() -> (
    None
):
    own = [step(3, 1, before=5, stops=1, sent={"g": 1}), step(4, 2, before=6, sent={"g": 2})]

    assert judged(*own, returns=Returns(5)).returned == 0
    assert judged(*own, returns=Returns(6)).verdict is Verdict.BAD
    assert judged(*own, returns=Returns(6), allowed="1").verdict is Verdict.GOOD
    # The counter was made anew after its 90 days.
    assert judged(*own, returns=Returns(2)).returned == 0


@pytest.mark.parametrize("last", [TWO, step(2, 2)])
def test_returns_that_nobody_counts_are_unknown(last: Step) -> None:
    ramp = judged(ONE, last, returns=None)

    assert (ramp.verdict, ramp.returned) == (Verdict.UNKNOWN, None)
    assert ramp.why == "it is not known what came back"


def test_last_step_needs_no_verdict_once_it_is_sent_unless_something_is_left() -> None:
    assert judged(ONE, TWO, LAST, left=0, blocker="it rains").verdict is Verdict.SENT
    assert judged(ONE, TWO, LAST, left=0, returns=None).verdict is Verdict.SENT
    unsent = replace(LAST, sent_at=None, sent=None)
    assert judged(ONE, TWO, unsent, left=0, blocker="it rains").verdict is Verdict.UNKNOWN
    # SQS refused some, or an option had chosen a part of the group.
    assert judged(ONE, TWO, LAST, left=2, blocker="it rains").verdict is Verdict.UNKNOWN
    assert judged(ONE, TWO, LAST, left=2).verdict is Verdict.GOOD


def test_on_fifo_a_return_that_may_come_still_goes_first() -> None:
    ramp = judged(ONE, TWO, returns=Returns(1), allowed="5", in_order=True)

    assert ramp.verdict is Verdict.UNKNOWN
    assert "must go first" in ramp.why
    assert judged(ONE, TWO, returns=Returns(1), allowed="5").verdict is Verdict.GOOD


def test_only_what_sqs_confirmed_is_sent_but_a_step_that_goes_on_counts_whole() -> None:
    refused = step(2, 2, sent={"other": 2})

    assert sent_of([ONE, refused, step(3, 6)], "g") == 7


def test_steps_before_a_stop_do_not_count() -> None:
    steps = [ONE, TWO, step(3, stops=1), replace(ONE, groups={})]

    assert [one.number for one in of_group(steps, "g", 0)] == [1, 2]
    assert [one.number for one in of_group(steps, "g", 1)] == [3]
    assert not list(of_group(steps, "g", 2))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path))


@pytest.fixture
def steps(archive: Archive) -> Steps:
    return Steps(archive, "p", "main")


FIRST, END = "ledger/plan_id=p/steps/main/00001.json", "ledger/plan_id=p/steps/main/00001.sent.json"


def test_of_two_runs_the_first_record_counts_for_both(steps: Steps) -> None:
    assert steps.create(step(1, run_id="run-a"))
    assert not steps.create(step(1, 9, run_id="run-b"))

    assert steps.read() == [step(1, run_id="run-a")]


def test_of_two_ends_the_first_counts_for_both(steps: Steps) -> None:
    steps.create(step(1))
    first = steps.end(step(1), 9.0, {"g": 1})

    assert steps.end(step(1), 11.0, {}) == first
    assert steps.read() == [first] == [step(1, sent={"g": 1})]


def test_step_of_a_run_that_was_killed_is_not_sent(steps: Steps) -> None:
    steps.create(step(1))
    steps.end(step(1), 9.0, {"g": 1})
    steps.create(step(2))

    assert [one.sent_at for one in steps.read()] == [9.0, None]
    assert steps.ended() == 1


def test_queues_and_plans_have_steps_of_their_own_and_tables_are_no_records(
    archive: Archive, steps: Steps
) -> None:
    steps.create(step(1))
    archive.write(f"{steps.table(2, 'run-1')}/part.parquet", b"")
    archive.write(f"{steps.table(3, 'run-1')}/part.parquet", b"")

    assert steps.read() == [step(1)]
    assert Steps(archive, "p", "other").read() == []
    assert Steps(archive, "q", "main").read() == []


@pytest.mark.parametrize(
    ("path", "content"),
    [(FIRST, b""), (FIRST, b"{}"), (FIRST, b"[]"), (FIRST, b'{"groups": {"g": {}}}'), (END, b"{")],
)
def test_damaged_record_is_named(archive: Archive, steps: Steps, path: str, content: bytes) -> None:
    steps.create(step(1))
    steps.end(step(1), 9.0, {"g": 1})
    archive.write(path, content)

    with pytest.raises(ArchiveError, match=path.replace(".", r"\.")):
        steps.read()
