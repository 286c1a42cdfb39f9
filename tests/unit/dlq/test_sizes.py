"""The size of what a verb will read, before its engine is chosen."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.storage.files import Archive
from dlq.inspect import sizes
from dlq.inspect.sizes import Size, size_of_archive, size_of_pending, size_of_plan
from dlq.plan.plan import Action
from tests.support.archived_rows import archived_rows
from tests.support.ledgers import settle
from tests.support.parked_orders import archived, order, plan_of


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return archived(tmp_path, [order(number) for number in range(6)])


def bytes_in(archive: Archive) -> int:
    return sum(len(row["body"].encode()) for row in archived_rows(archive))


def test_an_archive_has_the_messages_of_its_files_and_the_bytes_of_their_bodies(
    archive: Archive,
) -> None:
    assert size_of_archive(archive) == Size(6, bytes_in(archive))


def test_what_waits_in_the_queue_counts_too(archive: Archive) -> None:
    assert size_of_archive(archive).plus(4).messages == 10


def test_of_too_many_messages_no_size_of_a_body_is_read(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "_FEW", 5)

    assert size_of_archive(archive) == Size(6, 0)
    assert size_of_pending(archive) == Size(6, 0)


def test_only_pending_messages_count_where_all_are_too_many(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "_FEW", 5)
    settle(archive, "p-0", {"m-000": Disposition.SENT, "m-001": Disposition.SENT}, "run-0", 1.0)

    assert size_of_pending(archive).messages == 4


def test_a_plan_has_the_messages_of_the_groups_that_it_acts_on(archive: Archive) -> None:
    plan = plan_of(archive)
    (group,) = plan.groups
    left = replace(plan, groups=(replace(group, action=Action.LEAVE),))

    assert group.action is Action.REDRIVE
    assert size_of_plan(archive, plan) == Size(6, bytes_in(archive))
    assert size_of_plan(archive, left) == Size(0, 0)
