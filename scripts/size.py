"""Print the statements of each part and the words of the documents beside ``size.toml``.

A statement is one node of Python's syntax tree (``ast.stmt``): blank lines, comments and line
breaks cost nothing. A number that is exceeded is a warning, never a failure: the exit code is 0.
"""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def main() -> None:
    """Print the table, and a warning where a number is exceeded."""
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
        sizes = {part: _total(f"{part}/*.py", _statements) for part in parts}

        for part, limit in parts.items():
            row(part, sizes[part], limit)
        row(f"{kind}: statements", sum(sizes.values()), total)

    for pattern, limit in words.items():
        row(f"{pattern}: words", _total(pattern, _words), limit)

    if exceeded:
        sys.stdout.write(
            f"\nwarning: larger than size.toml says: {', '.join(exceeded)}. Look for a concept,"
            " an option or a page that nobody would miss.\n"
        )


def _statements(source: str) -> int:
    nodes = ast.walk(ast.parse(source))
    return sum(isinstance(node, ast.stmt) for node in nodes)


def _words(text: str) -> int:
    return len(text.split())


def _total(pattern: str, count: Callable[[str], int]) -> int:
    """Add up *count* of each file that git knows, or would add, under *pattern*."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", pattern],  # noqa: S607 - git is where PATH says
        cwd=_ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    files = {_ROOT / name for name in listed.split("\0") if name}
    return sum(count(file.read_text(encoding="utf-8")) for file in files if file.is_file())


if __name__ == "__main__":
    main()
