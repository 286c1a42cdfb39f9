import pytest

from tests.support.failure_table import FakeFailureTable


@pytest.fixture
def table() -> FakeFailureTable:
    return FakeFailureTable()
