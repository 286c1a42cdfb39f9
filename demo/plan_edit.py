"""What a human would do with the plan: read it, and put every group back. Pure but for the file."""

from pathlib import Path
from typing import Any

import yaml

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
    plan, lines = approve_all(yaml.safe_load(path.read_text(encoding="utf-8")))
    path.write_text(yaml.safe_dump(plan, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return lines
