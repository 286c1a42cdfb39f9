from pathlib import Path

import pytest

from dlq.archive.storage.files import Archive, open_archive


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path))
