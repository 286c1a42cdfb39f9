"""The JSON that a part of a YAML file means, number by number as it was written. Pure.

YAML reads some texts in a way that JSON does not: ``no`` is false, ``010`` is 8, ``1e3`` is text,
``2026-11-21`` a date. Nobody should have to know those, so here each is a fault.
"""

import re
from dataclasses import dataclass, field

import yaml

from spark_reprocess.editing.json_text import Json, Number
from spark_reprocess.plan.located_yaml import Path

Fault = tuple[Path, str]
"""Where, and what is wrong there, as a sentence."""

_TAG = "tag:yaml.org,2002:"
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_ADVICE = (
    "not read alike by YAML and JSON; quote it if it is text, else write it as both do: "
    "true, false, null, 12, 1.5, 1.0e+3"
)
_CONSTANTS: dict[str, Json] = {"true": True, "false": False, "null": None, "~": None, "": None}


def json_at(root: yaml.Node | None, path: Path) -> tuple[Json, list[Fault]]:
    """Read what is at *path*, which must exist, as ``json_text.read_json`` would give it.

    Returns:
        The value, and its faults; with any, the value means nothing.
    """
    reader = _Reader()
    return reader.read(_node_at(root, path), path), reader.faults


def _node_at(node: yaml.Node | None, path: Path) -> yaml.Node | None:
    for step in path:
        if isinstance(node, yaml.MappingNode):
            node = [value for key, value in node.value if key.value == step][-1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
    return node


@dataclass(slots=True)
class _Reader:
    faults: list[Fault] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def read(self, node: yaml.Node | None, path: Path) -> Json:
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
