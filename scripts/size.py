"""Print the lines of each part and the words of the documents against ``size.toml``.

Exit code 1 where a part has more than its number. Every line of a ``.py`` file counts.
"""

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def main() -> None:
    """Print the table; exit with 1 where a number is exceeded."""
    budget = tomllib.loads((_ROOT / "size.toml").read_text(encoding="utf-8"))
    words = budget.pop("words")
    exceeded = []

    def row(name: str, size: int, limit: int) -> None:
        exceeds = "" if size <= limit else "  exceeded"
        sys.stdout.write(f"{name:<22}{size:>8,} of {limit:>7,}{exceeds}\n")
        if size > limit:
            exceeded.append(name)

    for kind, parts in budget.items():
        total = parts.pop("total")
        sizes = {part: _count(f"{part}/*.py", str.splitlines) for part in parts}
        for part, limit in parts.items():
            row(part, sizes[part], limit)
        row(f"{kind}: lines", sum(sizes.values()), total)
    for pattern, limit in words.items():
        row(f"{pattern}: words", _count(pattern, str.split), limit)
    if exceeded:
        sys.exit(
            f"\nToo large: {', '.join(exceeded)}. Take out what nobody would miss; or raise the"
            " number in size.toml and say why in docs/decisions/."
        )


def _count(pattern: str, split: Callable[[str], list[str]]) -> int:
    """Count what *split* makes of each file that git knows, or would add, under *pattern*."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", pattern],  # noqa: S607 - git is where PATH says
        cwd=_ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    files = {_ROOT / name for name in listed.split("\0") if name}
    return sum(len(split(file.read_text(encoding="utf-8"))) for file in files if file.is_file())


if __name__ == "__main__":
    main()
