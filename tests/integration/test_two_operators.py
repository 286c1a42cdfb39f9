"""Two operators at one archive: with one plan they share the work, with two one of them waits."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from local_sqs.faults import Effect
from spark_reprocess.errors import BusyError
from spark_reprocess.redrive.redrive_values import RedriveSummary
from tests.approved_plan import planned
from tests.integration.desk import Desk, MakeDesk, standard

MESSAGES = 600


def both(
    desk: Desk, executor: ThreadPoolExecutor, second: Callable[[], RedriveSummary]
) -> tuple["Future[RedriveSummary]", "Future[RedriveSummary]"]:
    """Redrive; when the fifth call comes, the other operator starts *second*."""
    begun: Future[Future[RedriveSummary]] = Future()
    desk.meet(Effect.DELAY, probability=1.0, seconds=0.1)
    desk.at_send(5, lambda: begun.set_result(executor.submit(second)))
    first = executor.submit(desk.redrive, tasks=1)
    return first, begun.result(600)


def test_operators_with_one_plan_share_the_work(make_desk: MakeDesk) -> None:
    desk = make_desk(standard(MESSAGES))

    with ThreadPoolExecutor(2) as executor:
        first, second = both(desk, executor, partial(desk.redrive, tasks=1))
    one, other = first.result(), second.result()
    desk.world.front.faults.clear()
    last = desk.redrive()

    assert desk.arrived() == Counter({message.message_id: 1 for message in desk.sent})
    assert one.count("sent") + other.count("sent") == MESSAGES
    assert one.count("sent") > 0
    assert other.count("sent", "busy", "sent_before") == MESSAGES
    assert one.run_id != other.run_id
    assert last.count("sent_before") == MESSAGES


def test_operator_with_another_plan_is_told_whose_plan_holds_the_lock(make_desk: MakeDesk) -> None:
    desk = make_desk(standard(MESSAGES))
    another = planned(desk.archive)

    with ThreadPoolExecutor(2) as executor:
        first, second = both(desk, executor, partial(desk.redrive, another, tasks=1))
    summary = first.result()
    desk.world.front.faults.clear()

    with pytest.raises(BusyError, match=f"plan {summary.plan_id} is being carried out by"):
        second.result()
    assert summary.count("sent") == MESSAGES
    assert desk.redrive(another).count("sent_before") == MESSAGES
    assert desk.arrived() == Counter({message.message_id: 1 for message in desk.sent})
