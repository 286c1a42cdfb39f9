"""YAML that people edit: lines, JSON inside it, changes that keep the rest, and versions. Pure.

PyYAML's nodes hold the position and the text of each scalar, which its values do not.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import yaml

from dlq_replay import __version__
from spark_reprocess.editing.json_text import Json, Number

Path = tuple[str | int, ...]
"""Keys, and indexes from 0, from the document's root to a value."""

Fault = tuple[Path, str]
"""A path, and what is wrong there, as a sentence."""

_UNUSUAL_SPACE = re.compile("[\t\r\x85\u2028\u2029\ufeff]")
_TAG = "tag:yaml.org,2002:"
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_ADVICE = (
    "not read alike by YAML and JSON; quote it if it is text, else write it as both do: "
    "true, false, null, 12, 1.5, 1.0e+3"
)
_CONSTANTS: dict[str, Json] = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True, slots=True)
class LocatedYaml:
    """A document's value, and the line of each part of it.

    Attributes:
        value: what ``yaml.safe_load`` returns.
        root: the document's node, None for an empty document.
        lines: the line, from 1, of every value by its path; in a mapping, the line of the key.
        repeated: the paths of keys that are repeated in their mapping, with the line of the later
            one, whose value YAML keeps.
    """

    value: Any
    root: yaml.Node | None
    lines: dict[Path, int]
    repeated: tuple[tuple[Path, int], ...]

    def line(self, *path: str | int) -> int:
        """Return the line of *path*, or of the closest parent that exists."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(text: str) -> LocatedYaml:
    """Read one document.

    Raises:
        ValueError: it is not YAML, or has tags of Python objects; the message names the line.
    """
    try:
        root, value = _parsed(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"{where}is not YAML: {getattr(error, 'problem', None)}") from error
    except (ValueError, RecursionError) as error:  # e.g. an impossible date, or too many levels
        raise ValueError(f"cannot be read as YAML: {error}") from error
    lines: dict[Path, int] = {}
    repeated: list[tuple[Path, int]] = []
    for path, line in _walk(root, (), set()):
        if path in lines:
            repeated.append((path, line))
        lines[path] = line
    return LocatedYaml(value, root, lines, tuple(repeated))


def _parsed(text: str) -> tuple[yaml.Node | None, Any]:
    """Return a document's node and its value.

    A plan of 1,000 groups takes PyYAML's own parser a second, and libyaml a tenth of it. The two
    differ in how they take some white space, so libyaml gets no text that has it. What libyaml
    refuses is left to the other: it takes half a surrogate pair, and its errors name the line.
    """
    fast = None if _UNUSUAL_SPACE.search(text) else getattr(yaml, "CSafeLoader", None)
    if fast is not None:
        with suppress(yaml.YAMLError, UnicodeError):
            # Twice: making values out of nodes changes the nodes.
            return yaml.compose(text, Loader=fast), yaml.load(text, Loader=fast)  # noqa: S506 - safe
    return yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)


def node_at(node: yaml.Node | None, path: Path) -> yaml.Node:
    """Return the node at *path* below *node*.

    Raises:
        KeyError: there is none.
    """
    for step in path:
        if isinstance(node, yaml.MappingNode):
            node = {key.value: value for key, value in node.value}[step]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
        else:
            raise KeyError(path)
    if node is None:
        raise KeyError(path)
    return node


def json_at(root: yaml.Node | None, path: Path) -> tuple[Json, list[Fault]]:
    """Read the value at *path* as JSON, as ``json_text.read_json`` would return it.

    YAML reads some texts differently from JSON: ``no`` is false, ``010`` is 8, ``1e3`` is text,
    ``2026-11-21`` is a date. Each of them is a fault here.

    Returns:
        The value, and its faults; where there are faults, the value must not be used.

    Raises:
        KeyError: nothing is at *path*.
    """
    reader = _Reader()
    return reader.read(node_at(root, path), path), reader.faults


@dataclass(slots=True)
class _Reader:
    faults: list[Fault] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def read(self, node: yaml.Node, path: Path) -> Json:
        if id(node) in self._seen:
            self.faults.append((path, "is an alias (*); write it out"))
            return None
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return {
                self._key(key, path): self.read(value, (*path, str(key.value)))
                for key, value in node.value
            }
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path) if isinstance(node, yaml.ScalarNode) else None

    def _key(self, key: yaml.Node, path: Path) -> str:
        if not isinstance(key, yaml.ScalarNode) or key.tag == f"{_TAG}merge":
            self.faults.append((path, "a key must be text"))
        return str(key.value)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Json:
        text, is_plain, kind = str(node.value), not node.style, node.tag.removeprefix(_TAG)
        if is_plain and kind in ("bool", "null") and text in _CONSTANTS:
            return _CONSTANTS[text]
        looks_numeric = _JSON_NUMBER.fullmatch(text) is not None
        if is_plain and kind in ("int", "float") and looks_numeric:
            return Number(text)
        if kind != "str" or (is_plain and looks_numeric):
            self.faults.append((path, f"{text}: {_ADVICE}"))
        return text


def with_scalars(text: str, changes: Iterable[tuple[yaml.Node, str]]) -> str:
    """Replace nodes of *text* by other scalars; every other character stays.

    Args:
        text: a YAML document.
        changes: nodes that ``yaml.compose`` returned for *text*, and the YAML for each.
    """
    places = []
    for node, new in changes:
        start, end = node.start_mark.index, node.end_mark.index
        # A block scalar includes the line break at its end.
        line_end = "\n" if text[start:end].endswith("\n") else ""
        places.append((start, end, f"{new}{line_end}"))
    return with_texts(text, places)


def with_texts(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """Replace parts of *text*, each given by its start, its end and the new part."""
    parts, place = [], 0
    for start, end, new in sorted(changes):
        parts += [text[place:start], new]
        place = end
    return "".join([*parts, text[place:]])


def _walk(node: yaml.Node | None, path: Path, seen: set[int]) -> Iterator[tuple[Path, int]]:
    # An alias may refer to a parent of its own, and a few of them to a billion values.
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
    """Whether a file's version is later than the newest version that this program reads."""
    return type(found) is int and found > known


def faults_text(of: str, faults: Iterable[tuple[int, str]]) -> str:
    """Format the faults of a file with their lines, from 1; 0 for a fault without a line."""
    return f"{of} has faults:\n" + "\n".join(
        f"  line {line}: {text}" if line else f"  {text}" for line, text in sorted(faults)
    )


def version_fault(found: object, known: int) -> str | None:
    """Return what is wrong with a file's version and what to do, None where nothing is.

    *known* is the newest version that this program reads.
    """
    if is_newer(found, known):
        return (
            f"version: {found} is newer than version {known}, the newest that this program "
            f"({__version__}) reads; update the program"
        )
    if type(found) is int and found >= 1:
        return None
    return f"version: {found!r}: must be {' or '.join(map(str, range(1, known + 1)))}"
