"""The site of the documents, built as ``make docs-site`` does."""

import os
import subprocess
import sys
from pathlib import Path

from tests.contract.template import ROOT


def build_site(folder: Path) -> None:
    """Build it into *folder*. Raises CalledProcessError if a link leads nowhere."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    without_notice = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run([*command, str(folder)], cwd=ROOT, check=True, env=without_notice)
