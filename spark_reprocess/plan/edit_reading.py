"""A plan's ``edit`` and ``set_attributes``, read and checked. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from spark_reprocess.editing.attributes import name_fault
from spark_reprocess.editing.edit import Edit
from spark_reprocess.editing.patch import Patch, patch_faults
from spark_reprocess.plan.json_in_yaml import Fault, json_at
from spark_reprocess.plan.located_yaml import Path

MAX_SET_ATTRIBUTES = 10
"""SQS's limit for a message, so more could never be set."""


@dataclass(frozen=True, slots=True)
class EditReader:
    """Reads the edits of a plan's groups.

    Attributes:
        root: the plan's YAML.
        expression_fault: see ``SqlFaults.in_expression``.
    """

    root: yaml.Node | None
    expression_fault: Callable[[str], str | None] | None

    def faults(self, group: Mapping[Any, Any], path: Path) -> Iterator[Fault]:
        """Say what is wrong with the edit of the *group* at *path*."""
        if "edit" in group:
            yield from self._patch_faults((*path, "edit"))
        if "set_attributes" in group:
            yield from self._attribute_faults((*path, "set_attributes"), group["set_attributes"])

    def edit(self, group: Mapping[Any, Any], path: Path) -> Edit | None:
        """Return the edit of a group that has no faults, None where there is none."""
        patch = None
        if "edit" in group:
            patch = Patch.of(json_at(self.root, (*path, "edit"))[0])
        expressions = group.get("set_attributes", {})
        return Edit(patch, tuple(expressions.items())) if patch or expressions else None

    def _patch_faults(self, path: Path) -> Iterator[Fault]:
        operations, found = json_at(self.root, path)
        if found:
            yield from ((place, f"edit: {fault}") for place, fault in found)
            return
        for index, fault in patch_faults(operations):
            if index is None:
                yield path, f"edit {fault}"
            else:
                yield (*path, index), f"edit, operation {index + 1}: {fault}"

    def _attribute_faults(self, path: Path, raw: object) -> Iterator[Fault]:
        if not isinstance(raw, dict) or not raw:
            yield path, "set_attributes: must be a mapping of names to Spark SQL expressions"
            return
        if len(raw) > MAX_SET_ATTRIBUTES:
            yield path, f"set_attributes: SQS takes {MAX_SET_ATTRIBUTES} attributes, these are more"
        for name, expression in raw.items():
            fault = name_fault(name) or self._expression_fault(expression)
            if fault:
                yield (*path, str(name)), f"set_attributes: {name}: {fault}"

    def _expression_fault(self, expression: object) -> str | None:
        if expression is None:
            return None
        if not isinstance(expression, str):
            return f"{expression!r}: must be Spark SQL as text, e.g. \"'{expression}'\", or null"
        return self.expression_fault and self.expression_fault(expression)
