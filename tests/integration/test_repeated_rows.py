"""``redrive`` where a crash left a message in two files: two rows, and still one message."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from dlq_replay.wire.message import Message
from tests.integration.desk import Desk, MakeDesk, standard
from tests.integration.spark_world import analyzed, archive_of
from tests.support.approved_plan import approve


def leave_again(desk: Desk, *, received: int) -> None:
    """Write the first five into another file of their drain, as received so often."""
    again = [with_receives(one, received) for one in desk.sent[:5]]
    archive_of(Path(desk.archive.root), again)


def with_receives(one: Message, count: int) -> Message:
    return replace(one, system={**one.system, "ApproximateReceiveCount": str(count)})


def test_message_with_several_rows_is_sent_once(make_desk: MakeDesk) -> None:
    desk = make_desk(standard(30))
    leave_again(desk, received=2)

    assert desk.redrive().count("sent") == 30
    assert desk.arrived() == Counter({one.message_id: 1 for one in desk.sent})


def test_condition_of_the_plan_chooses_among_messages_not_rows(make_desk: MakeDesk) -> None:
    """The first row of a message stands for it; its other row, which fits, does not count."""
    messages = [with_receives(one, 3 if n < 5 else 9) for n, one in enumerate(standard(30))]
    desk = make_desk(messages)
    leave_again(desk, received=4)
    findings = analyzed(desk.spark, desk.archive, where="receive_count >= 4")
    plan = str(approve(Path(findings.plan_path)))

    assert desk.redrive(plan).count("sent") == 25
    assert set(desk.arrived()) == {one.message_id for one in messages[5:]}
