"""Approves a plan as an operator would: ``leave`` becomes ``redrive`` in every group."""

from pathlib import Path
from typing import Any

from spark_reprocess.plan.located_yaml import node_at, read_yaml, with_scalars

_TITLE_CHARACTERS = 50


def approve_all(plan: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Turn ``leave`` into ``redrive`` in every group; nothing else changes.

    Returns:
        The new plan, and a line for each group that was changed.
    """
    changed = [g for g in plan["groups"] if g["action"] == "leave"]
    groups = [{**g, "action": "redrive"} if g in changed else g for g in plan["groups"]]
    lines = [f"leave -> redrive: {g['count']} of {_title(g)}" for g in changed]
    return {**plan, "groups": groups}, lines


def _title(group: dict[str, Any]) -> str:
    title = str(group["title"])
    return title if len(title) <= _TITLE_CHARACTERS else f"{title[:_TITLE_CHARACTERS]}…"


def edit_plan(path: Path) -> list[str]:
    """Approve every group of the plan in *path*; return a line for each that was changed."""
    text = path.read_text(encoding="utf-8")
    located = read_yaml(text)
    plan, lines = approve_all(located.value)
    actions = [
        (node_at(located.root, ("groups", index, "action")), group["action"])
        for index, group in enumerate(plan["groups"])
    ]
    path.write_text(with_scalars(text, actions), encoding="utf-8")
    return lines
