import pytest

from dlq_replay.consumer.failures import FailureRecorder
from tests.support.builders import NOW
from tests.support.failure_table import FakeFailureTable


@pytest.fixture
def table() -> FakeFailureTable:
    return FakeFailureTable()


@pytest.fixture
def recorder(table: FakeFailureTable) -> FailureRecorder:
    return FailureRecorder(table.record, now_seconds=lambda: NOW)
