"""YAML that people edit: read its values, and find its faults and their places. Pure.

A place is written like ``groups[2].action``.
"""

import difflib
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

from dlq.errors import InputError
from dlq.plan.json_text import Json, JsonTextError, read_json

Path = tuple[str | int, ...]
"""Keys, and indexes from 0, from the document's root to a value."""

Fault = tuple[Path, str]
"""A path, and the fault there."""

Keys = Mapping[str, tuple[Callable[[Any], bool], str] | None]
"""The keys of a mapping: the check of each value and its rule, None for a key that is not checked.

A check gets None if the key is missing.
"""

_FORMAT = 1
_TAG = "tag:yaml.org,2002:"
_EDIT = "edit"


class _Loader(yaml.SafeLoader):
    """Refuses aliases: a few can mean a billion values, or a value within itself."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event: Any = self.get_event()  # type: ignore[no-untyped-call]
            raise ConstructorError(None, None, "is an alias (*); write it out", event.start_mark)
        return super().compose_node(parent, index)


def read_document(name: str, text: str) -> dict[str, Any]:
    """Read a document of format 1.

    Values below a key ``edit`` are read like ``json_text.read_json`` reads them. Values that YAML
    reads in another way are refused there: ``no`` is false, ``010`` is 8, ``1e3`` is text,
    ``2026-11-21`` is a date.

    Raises:
        InputError: the text is not YAML, or is not a mapping with ``version: 1``, or it has an
            alias, a repeated key, a key that is not text, or a tag of its own.
    """
    try:
        # Not with libyaml: it ends the process if a text is nested too deeply.
        root = yaml.compose(text, Loader=_Loader)
        value = _value(root) if root else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        what = "" if isinstance(error, ConstructorError) else "is not YAML: "
        raise InputError(f"{name}: {where}{what}{getattr(error, 'problem', '')}") from error
    except RecursionError as error:
        raise InputError(f"{name}: is nested too deeply") from error

    if not isinstance(value, dict):
        raise InputError(f"{name}: must be a mapping of keys to values")
    version = value.get("version")
    if type(version) is not int or version != _FORMAT:
        raise InputError(f"{name}: version: {version!r}: must be {_FORMAT}")
    return value


def refuse(name: str, faults: Iterable[Fault]) -> None:
    """If there are faults, raise an InputError that names the place of each in the file *name*."""
    lines = [f"{name} has faults:"]
    for path, fault in faults:
        lines.append(f"  {_place(path)}: {fault}")
    if len(lines) > 1:
        raise InputError("\n".join(lines))


def _place(path: Path) -> str:
    """Write a path like ``groups[2].action``."""
    place = ""
    for step in path:
        place += f"[{step}]" if isinstance(step, int) else f".{step}"
    return place.removeprefix(".")


def key_faults(raw: object, path: Path, keys: Keys) -> Iterator[Fault]:
    """Find the faults of the keys and values of the mapping *raw* at *path*."""
    if not isinstance(raw, dict):
        yield path, f"must be a mapping with {', '.join(keys)}"
        return
    for key in raw:
        if key not in keys:
            close = difflib.get_close_matches(key, keys, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(keys)}"
            yield (*path, key), f"is not known; {hint}"

    for key, checked in keys.items():
        if checked is None:
            continue
        is_valid, rule = checked
        if not is_valid(raw.get(key)):
            yield (*path, key), f"{reprlib.repr(raw.get(key))}: must be {rule}"


def _value(node: Any, *, is_json: bool = False) -> Any:  # noqa: ANN401 - any value of YAML
    """Return the value of a node; *is_json* below a key ``edit``."""
    if isinstance(node, yaml.SequenceNode):
        return [_value(element, is_json=is_json) for element in node.value]

    if isinstance(node, yaml.MappingNode):
        values: dict[str, Any] = {}
        for key, value in node.value:
            is_text = key.tag == f"{_TAG}str"
            if not is_text or key.value in values:
                fault = "is repeated; remove one" if is_text else "a key must be text"
                fault = f"{reprlib.repr(key.value)}: {fault}"
                raise ConstructorError(None, None, fault, key.start_mark)
            values[key.value] = _value(value, is_json=is_json or key.value == _EDIT)
        return values

    try:
        return _json_scalar(node) if is_json else SafeConstructor().construct_object(node)
    except ValueError as error:
        raise ConstructorError(None, None, str(error), node.start_mark) from error


def _json_scalar(node: yaml.ScalarNode) -> Json:
    """Return the value of a scalar that YAML and JSON read alike."""
    text = str(node.value)
    value: Json = node.value
    is_text_in_json = True
    if not node.style:
        with suppress(JsonTextError):
            value = read_json(text or "null")
            is_text_in_json = False

    is_text_in_yaml = node.tag == f"{_TAG}str"
    if is_text_in_json != is_text_in_yaml:
        raise ValueError(
            f"{text}: not read alike by YAML and JSON; quote it if it is text, else write it as "
            "both do: true, false, null, 12, 1.5, 1.0e+3"
        )
    return value
