"""YAML that people edit: its version, and its lines, so that a fault can name the one to look at.

Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from dlq_replay import __version__

Path = tuple[str | int, ...]
"""The way from the document's root to a value: keys, and indexes from 0."""


@dataclass(frozen=True, slots=True)
class LocatedYaml:
    """A document's value, and where each part of it stands.

    Attributes:
        value: what ``yaml.safe_load`` would give.
        lines: the line, from 1, of every value by its path; a mapping's value stands where its
            key does.
        repeated: the paths of keys that stand twice in their mapping, of which YAML keeps the
            last, with the second one's line.
    """

    value: Any
    lines: dict[Path, int]
    repeated: tuple[tuple[Path, int], ...]

    def line(self, *path: str | int) -> int:
        """Return the line of *path*, or of the nearest part above it that exists."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(text: str) -> LocatedYaml:
    """Read one document.

    Raises:
        ValueError: it is no YAML, or more than plain values; the message names the line.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"{where}is no YAML: {getattr(error, 'problem', None)}") from error
    except (ValueError, RecursionError) as error:  # an impossible date, say, or a bottomless nest
        raise ValueError(f"is no YAML that can be read: {error}") from error
    lines: dict[Path, int] = {}
    repeated: list[tuple[Path, int]] = []
    for path, line in _walk(root, (), set()):
        if path in lines:
            repeated.append((path, line))
        lines[path] = line
    return LocatedYaml(value, lines, tuple(repeated))


def _walk(node: yaml.Node | None, path: Path, seen: set[int]) -> Iterator[tuple[Path, int]]:
    # An alias may point at what contains it, and a few of them may stand for a billion values.
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if not path:
        yield path, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*path, str(key.value)), key.start_mark.line + 1
            yield from _walk(value, (*path, str(key.value)), seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*path, index), value.start_mark.line + 1
            yield from _walk(value, (*path, index), seen)


def is_newer(found: object, known: int) -> bool:
    """Whether a file's version is a later one than the newest that this program reads."""
    return type(found) is int and found > known


def version_fault(found: object, known: int) -> str | None:
    """Say what is wrong with a file's version and what to do; None where nothing is.

    Args:
        found: what the file says.
        known: the newest that this program reads.
    """
    if is_newer(found, known):
        return (
            f"version: {found} is newer than version {known}, the newest that this program "
            f"({__version__}) reads; update the program"
        )
    is_known = type(found) is int and found == known
    return None if is_known else f"version: {found!r}: must be {known}"
