"""What some tests need and not every machine has; such a test is skipped, with the reason."""

from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]

needs_build = pytest.mark.skipif(
    not (_ROOT / ".aws-sam" / "build" / "template.yaml").is_file(),
    reason="not built: run make build first",
)
needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
