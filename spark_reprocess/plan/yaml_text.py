"""YAML that people edit: the place of each fault, JSON inside it, changes that keep the rest. Pure.

A place is written like ``groups[2].action``.
"""

import difflib
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from spark_reprocess.editing.json_text import Json, Number
from spark_reprocess.errors import InputError

Path = tuple[str | int, ...]
"""Keys, and indexes from 0, from the document's root to a value."""

Fault = tuple[Path, str]
"""A path, and what is wrong there."""

Keys = Mapping[str, tuple[Callable[[Any], bool], str] | None]
"""The keys of a mapping: the check of each value and its rule, None for a key that is not checked.

A check gets None where the key is missing.
"""

_FORMAT = 1
_MOST_CHARACTERS = 32 * 1024 * 1024
_TAG = "tag:yaml.org,2002:"
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_ADVICE = (
    "not read alike by YAML and JSON; quote it if it is text, else write it as both do: "
    "true, false, null, 12, 1.5, 1.0e+3"
)
_CONSTANTS: dict[str, Json] = {"true": True, "false": False, "null": None, "~": None, "": None}


def read_document(
    name: str, text: str, is_json: Callable[[Path], bool] = lambda _: False
) -> dict[str, Any]:
    """Read a document of format 1.

    Args:
        name: of the file, for the errors.
        text: its content.
        is_json: which parts are read as ``json_text.read_json`` would. What YAML reads otherwise is
            a fault there: ``no`` is false, ``010`` is 8, ``1e3`` is text, ``2026-11-21`` a date.

    Raises:
        InputError: the text is not YAML, or is no mapping with ``version: 1``, or it has an alias,
            a repeated key, a key that is not text, or a tag of its own.
    """
    root = compose(name, text)
    reader = _Reader(is_json)
    value = reader.read(root, ()) if root else None
    refuse(name, reader.faults)
    if not isinstance(value, dict):
        raise InputError(f"{name}: must be a mapping of keys to values")
    version = value.get("version")
    if type(version) is not int or version != _FORMAT:
        raise InputError(f"{name}: version: {version!r}: must be {_FORMAT}")
    return value


def refuse(name: str, faults: Iterable[Fault]) -> None:
    """Raise an InputError that names each fault's place in the file *name*, if there are any."""
    lines = [f"{name} has faults:"]
    for path, fault in faults:
        steps = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path)
        lines.append(f"  {steps.removeprefix('.') or 'the document'}: {fault}")
    if len(lines) > 1:
        raise InputError("\n".join(lines))


def key_faults(raw: object, path: Path, keys: Keys) -> Iterator[Fault]:
    """Find what is wrong with the keys and values of the mapping *raw* at *path*."""
    if not isinstance(raw, dict):
        yield path, f"must be a mapping with {', '.join(keys)}"
        return
    for key in raw:
        if key not in keys:
            close = difflib.get_close_matches(key, keys, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(keys)}"
            yield (*path, key), f"is not known; {hint}"
    for key, check in keys.items():
        if check and not check[0](raw.get(key)):
            yield (*path, key), f"{reprlib.repr(raw.get(key))}: must be {check[1]}"


def compose(name: str, text: str) -> yaml.Node | None:
    """Return a document's node, None for an empty document.

    PyYAML's own parser takes a third of a second for a plan of 1,000 groups. libyaml, which takes a
    tenth of that, ends the process where a text is nested too deeply.

    Raises:
        InputError: this is not YAML, or too long.
    """
    if len(text) > _MOST_CHARACTERS:
        raise InputError(f"{name}: has more than {_MOST_CHARACTERS:,} characters")
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise InputError(f"{name}: {where}is not YAML: {getattr(error, 'problem', '')}") from error
    except RecursionError as error:
        raise InputError(f"{name}: is nested too deeply") from error


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


def with_scalars(text: str, changes: Iterable[tuple[yaml.Node, str]]) -> str:
    """Replace nodes that ``compose`` returned for *text* by other YAML; all else stays."""
    parts = []
    for node, new in changes:
        start, end = node.start_mark.index, node.end_mark.index
        # A block scalar includes the line break at its end.
        line_end = "\n" if text[start:end].endswith("\n") else ""
        parts.append((start, end, f"{new}{line_end}"))
    return with_texts(text, parts)


def with_texts(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """Replace parts of *text*, each given by its start, its end and the new part."""
    parts, position = [], 0
    for start, end, new in sorted(changes):
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])


@dataclass(slots=True)
class _Reader:
    """Reads nodes as values.

    A node that is read twice is an alias. Aliases are refused: a few of them can stand for a
    billion values, or for a value within itself.
    """

    is_json: Callable[[Path], bool]
    faults: list[Fault] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def read(self, node: yaml.Node, path: Path) -> Any:  # noqa: ANN401 - whatever YAML holds
        if id(node) in self._seen:
            self.faults.append((path, "is an alias (*); write it out"))
            return None
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        constructor: Any = yaml.constructor.SafeConstructor()
        try:
            return _json_scalar(node) if self.is_json(path) else constructor.construct_object(node)
        except (ValueError, yaml.YAMLError) as error:
            self.faults.append((path, str(getattr(error, "problem", error))))
            return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in node.value:
            place = (*path, str(key.value))
            if key.tag != f"{_TAG}str":
                self.faults.append((path, f"{reprlib.repr(key.value)}: a key must be text"))
            elif key.value in values:
                self.faults.append((place, "is repeated; remove one"))
            else:
                values[key.value] = self.read(value, place)
        return values


def _json_scalar(node: Any) -> Json:  # noqa: ANN401 - a ScalarNode; the stubs of Node lack style
    text, is_plain, kind = str(node.value), not node.style, node.tag.removeprefix(_TAG)
    if is_plain and kind in ("bool", "null") and text in _CONSTANTS:
        return _CONSTANTS[text]
    looks_numeric = _JSON_NUMBER.fullmatch(text) is not None
    if is_plain and kind in ("int", "float") and looks_numeric:
        return Number(text)
    if kind != "str" or (is_plain and looks_numeric):
        raise ValueError(f"{text}: {_ADVICE}")
    return text
