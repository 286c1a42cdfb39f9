"""The files of an archive that docs/archive.md does not name."""

import re
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "archive.md"


def unnamed_files(root: Path) -> list[str]:
    """Return the paths below *root* that no row of the page names; capitals stand for any part."""
    rows = [line.split("|")[1] for line in _PAGE.read_text().splitlines() if line[:3] == "| `"]
    named = [re.escape(path) for row in rows for path in re.findall(r"`([^`]+)`", row)]
    pattern = re.compile("|".join(re.sub(r"\b[A-Z]+\b", "[^/]+", path) for path in named))
    paths = (str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())
    return sorted(path for path in paths if not pattern.fullmatch(path))
