"""A part of a YAML file read as JSON; numbers keep their digits. Pure.

YAML reads some texts differently from JSON: ``no`` is false, ``010`` is 8, ``1e3`` is text,
``2026-11-21`` is a date. Each of them is a fault here.
"""

import re
from dataclasses import dataclass, field

import yaml

from spark_reprocess.editing.json_text import Json, Number
from spark_reprocess.plan.located_yaml import Path, node_at

Fault = tuple[Path, str]
"""Its path, and what is wrong, as a sentence."""

_TAG = "tag:yaml.org,2002:"
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_ADVICE = (
    "not read alike by YAML and JSON; quote it if it is text, else write it as both do: "
    "true, false, null, 12, 1.5, 1.0e+3"
)
_CONSTANTS: dict[str, Json] = {"true": True, "false": False, "null": None, "~": None, "": None}


def json_at(root: yaml.Node | None, path: Path) -> tuple[Json, list[Fault]]:
    """Read the value at *path* as ``json_text.read_json`` would return it.

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
