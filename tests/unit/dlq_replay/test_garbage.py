import gc
from collections.abc import Iterator

import pytest

from dlq_replay.garbage import YOUNG_OBJECTS, search_rarely


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)


def test_garbage_is_still_searched_for_but_rarely() -> None:
    search_rarely()

    assert gc.isenabled()
    assert gc.get_threshold()[0] == YOUNG_OBJECTS
