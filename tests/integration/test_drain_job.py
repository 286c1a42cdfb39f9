"""``drain`` in a real Spark session, against an SQS server over HTTP."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dlq.archive.messages.message_store import FILE_MESSAGES
from dlq.archive.storage.files import open_archive
from dlq.cli.command import main
from dlq.drain.drain import DrainRequest, drain, rules_by_task
from dlq.engine import Engine
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import entry_of, parked, receive_all
from tests.support.small_jobs import DRAIN


@pytest.mark.parametrize("url", ["parked", "http://127.0.0.1:1/123456789012/parked"])
def test_queue_that_is_not_there_exits_with_two(
    engine: Engine, tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*DRAIN, "--archive", str(tmp_path), "--parked-queue-url", url]) == 2
    assert capsys.readouterr().err.startswith("dlq: --parked-queue-url")


def test_tasks_share_a_limit_and_progress_says_how_far_how_fast_and_what_is_left(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(n)) for n in range(10)])
    seen: list[str] = []

    @contextmanager
    def watched(label: str, status: Callable[[], str]) -> Iterator[None]:
        seen.extend((label, status()))
        yield
        seen.append(status())

    options = DrainRequest(source.url, tasks=2, limit=7, wait_seconds=0)
    drain(engine, open_archive(str(tmp_path)), options, progress=watched)

    assert seen[:2] == ["draining", "0 of 7 messages, 0/s"]
    assert re.fullmatch(r"7 of 7 messages, [\d,.]+/s", seen[2])
    assert len(receive_all(source)) == 3


@pytest.mark.parametrize(
    ("expected", "slots", "options", "tasks", "chunk_messages"),
    [
        (0, 99, {}, 1, FILE_MESSAGES),
        (100, 99, {}, 1, FILE_MESSAGES),
        (2 * FILE_MESSAGES - 1, 99, {}, 1, FILE_MESSAGES),
        (2 * FILE_MESSAGES, 99, {}, 2, FILE_MESSAGES),
        (10_000_000, 99, {}, 30, FILE_MESSAGES),
        (10_000_000, 2, {}, 2, FILE_MESSAGES),
        (100, 99, {"tasks": 4}, 4, FILE_MESSAGES),
        (10_000_000, 2, {"tasks": 60}, 60, FILE_MESSAGES // 2),
    ],
)
def test_as_many_tasks_as_files_are_filled(
    expected: int, slots: int, options: dict[str, int], tasks: int, chunk_messages: int
) -> None:
    drains = DrainRequest("u", **options)
    rules = rules_by_task(drains, expected, slots, 0, is_fifo=False)

    assert (len(rules), rules[0].chunk_messages) == (tasks, chunk_messages)
    assert len(rules_by_task(drains, expected, slots, 0, is_fifo=True)) == 1
