from pathlib import Path

import yaml

from demo.operator import approve_all, edit_plan

PLAN = {
    "version": 1,
    "plan_id": "p1",
    "snapshot": {"messages": 9, "sha256": "ab" * 32},
    "groups": [
        {"id": "g1", "title": "größe: '7' | ü", "count": 7, "action": "leave"},
        {"id": "g2", "title": "known", "count": 2, "action": "discard"},
    ],
}


def test_only_groups_that_were_left_are_approved() -> None:
    plan, lines = approve_all(PLAN)

    assert [group["action"] for group in plan["groups"]] == ["redrive", "discard"]
    assert lines == ["leave -> redrive: 7 of größe: '7' | ü"]
    assert PLAN["groups"][0]["action"] == "leave"  # type: ignore[index]


def test_a_long_title_is_cut_where_it_is_told() -> None:
    group = {**PLAN["groups"][0], "title": "x" * 500}  # type: ignore[index]

    _, (line,) = approve_all({**PLAN, "groups": [group]})

    assert len(line) < 80


def test_edited_file_differs_in_the_actions_alone(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    text = "# a comment\n" + yaml.safe_dump(PLAN, allow_unicode=True)
    path.write_text(text, encoding="utf-8")

    edit_plan(path)

    edited = path.read_text(encoding="utf-8")
    assert edited == text.replace("action: leave", "action: redrive")
    assert yaml.safe_load(edited) == approve_all(PLAN)[0]
