from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e.watched_browser import launched


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser
