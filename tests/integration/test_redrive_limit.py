"""A redrive keeps to the limit that a circuit breaker set."""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from dlq.aws.clients import aws_client, breaker_table
from dlq.engine import Engine
from dlq.redrive.summary import RedriveSummary
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.rules.breaker import Update
from dlq_replay.wire.message import Message
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import archive_of, executed, parked, receive_all
from tests.support.approved_plan import planned
from tests.support.builders import context, counter, message
from tests.support.failure_table import create_failure_table
from tests.support.sqs_driver import name_of
from tests.support.stops import sentence_of

TABLE = "failures-of-a-redrive"

Run = Callable[..., RedriveSummary]


@pytest.fixture(autouse=True)
def run(engine: Engine, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Carry out a plan with the table of the limits."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto_endpoint)
    client = aws_client("dynamodb")
    create_failure_table(client, TABLE)
    # Only the driver reads it: Spark's workers were started without its address.
    yield partial(executed, engine, failure_table=TABLE)
    client.delete_table(TableName=TABLE)


def limit(queue: SqsQueue, per_minute: int | None) -> None:
    """Set the limit of a queue, as the replay function does; None ends it."""
    now = int(time.time())
    update = Update(put={"limit": per_minute or 0, "since": now, "silent_since": now - 1200})
    breaker_table(TABLE, queue.url).update(update)


def test_at_a_limit_of_one_nothing_is_sent_and_nobody_else_is_kept_waiting(
    run: Run, make_queue: MakeQueue, tmp_path: Path
) -> None:
    main = make_queue("main")
    archive = archive_of(tmp_path, [parked(n) for n in range(10)])
    plan = planned(archive)
    limit(main, 1)

    summary = run(archive, plan, main.url)

    assert summary.counts == {"not_reached": 10}
    sentence = sentence_of(summary.stopped_by)
    assert sentence.startswith("waiting for the breaker: limited to 1 replay a minute")
    assert sentence.endswith("the consumer has deleted nothing for 20 minutes")
    assert receive_all(main) == []
    # Another plan may go at once.
    other = planned(archive)
    elsewhere = make_queue("elsewhere")
    assert run(archive, other, elsewhere.url).count("sent") == 10


def test_a_limited_destination_holds_up_no_other_and_at_once_needs_no_table(
    run: Run, make_queue: MakeQueue, tmp_path: Path
) -> None:
    dlq = make_queue("dlq")
    orders, invoices = (make_queue(name, dlq) for name in ("orders", "invoices"))
    archive = archive_of(
        tmp_path, [letter_of(orders, n) for n in range(6)] + [letter_of(invoices, 9)]
    )
    limit(orders, 1)

    summary = run(archive, planned(archive), "", main_queue_url=orders.url)
    unlimited = partial(run, failure_table="no-such-table", main_queue_url=orders.url)

    assert summary.destinations == {orders.url: 0, invoices.url: 1}
    assert summary.counts == {"not_reached": 6, "sent": 1}
    assert sentence_of(summary.stopped_by).startswith("waiting for the breaker: ")
    at_once = unlimited(archive, planned(archive), "")
    assert at_once.counts == {"sent": 6, "sent_before": 1}
    assert "no limit of a circuit breaker is kept to: it cannot be read" in at_once.notes[-1]


def letter_of(queue: SqsQueue, number: int) -> Message:
    name = name_of(queue)
    ours = {**context(first_id=f"f-{number}", source_queue=name), **counter("3")}
    return message(f"{name}-{number}", f"{name} {number}", ours)


@pytest.mark.both_engines
def test_a_run_ends_when_a_limit_of_one_is_set_while_it_sends(
    run: Run, make_queue: MakeQueue, tmp_path: Path
) -> None:
    main = make_queue("main")
    archive = archive_of(tmp_path, [parked(n) for n in range(150)])
    plan = planned(archive)
    limit(main, 60)
    lowering = threading.Timer(3, lambda: limit(main, 1))
    lowering.start()

    summary = run(archive, plan, main.url)

    sentence = sentence_of(summary.stopped_by)
    assert sentence.startswith("waiting for the breaker: limited to 1 replay a minute")
    assert summary.count("unconfirmed", "failed") == 0
    assert summary.count("sent") == len(receive_all(main)) < 60
    limit(main, None)
    assert run(archive, plan, main.url).count("sent") > 90
