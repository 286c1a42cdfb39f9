"""Needs of some tests that not every machine meets; such a test is skipped, with the reason."""

import platform
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]

needs_build = pytest.mark.skipif(
    not (_ROOT / ".aws-sam" / "build" / "template.yaml").is_file(),
    reason="not built: run make build first",
)
_RAPID = "lib/python3.*/site-packages/samcli/local/rapid"
_ARCHITECTURE = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
EMULATORS = sorted((_ROOT / ".tools" / "sam").glob(f"{_RAPID}/aws-lambda-rie-{_ARCHITECTURE}"))
"""The emulator that is in every Lambda base image, from the SAM CLI; none without it."""

needs_emulator = pytest.mark.skipif(
    not EMULATORS or platform.system() != "Linux", reason="not built: run make build first"
)
needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
