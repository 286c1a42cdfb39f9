"""YAML that people edit: what it says, what is wrong with it and where. Pure.

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
"""A path, and what is wrong there."""

Keys = Mapping[str, tuple[Callable[[Any], bool], str] | None]
"""The keys of a mapping: the check of each value and its rule, None for a key that is not checked.

A check gets None where the key is missing.
"""

_FORMAT = 1
_TAG = "tag:yaml.org,2002:"
_EDIT = "edit"


class _Loader(yaml.SafeLoader):
    """Refuses aliases: a few can stand for a billion values, or for a value within itself."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event: Any = self.get_event()  # type: ignore[no-untyped-call]
            raise ConstructorError(None, None, "is an alias (*); write it out", event.start_mark)
        return super().compose_node(parent, index)


def read_document(name: str, text: str) -> dict[str, Any]:
    """Read a document of format 1.

    What is below a key ``edit`` is read as ``json_text.read_json`` would. What YAML reads otherwise
    is refused there: ``no`` is false, ``010`` is 8, ``1e3`` is text, ``2026-11-21`` a date.

    Raises:
        InputError: the text is not YAML, or is no mapping with ``version: 1``, or it has an alias,
            a repeated key, a key that is not text, or a tag of its own.
    """
    try:
        # Not with libyaml, which ends the process where a text is nested too deeply.
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
    """Raise an InputError that names each fault's place in the file *name*, if there are any."""
    lines = [f"{name} has faults:"]
    for path, fault in faults:
        steps = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path)
        lines.append(f"  {steps.removeprefix('.')}: {fault}")
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


def _value(node: Any, *, is_json: bool = False) -> Any:  # noqa: ANN401 - whatever YAML holds
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, is_json=is_json) for item in node.value]
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
    value: Json = node.value
    text, is_text = str(value), node.tag == f"{_TAG}str"
    is_json = False
    if not node.style:
        with suppress(JsonTextError):
            value, is_json = read_json(text or "null"), True
    if is_json == is_text:
        raise ValueError(
            f"{text}: not read alike by YAML and JSON; quote it if it is text, else write it as "
            "both do: true, false, null, 12, 1.5, 1.0e+3"
        )
    return value
