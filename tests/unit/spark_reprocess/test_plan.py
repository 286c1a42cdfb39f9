from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Action, Plan, PlannedGroup, Snapshot, digest, read_plan
from spark_reprocess.plan.plan_text import plan_text

SNAPSHOT = Snapshot(("20261121T031502Z-ab12cd",), 3, digest(["c", "a", "b"]))

hostile = st.text(max_size=80) | st.sampled_from(
    [
        "a\n    action: redrive",
        "x'\n  - id: g-2",
        '" # no',
        "{a: [b, &c *d !e %f @g `h",
        "null",
        "1.5e3",
        "2026-11-21",
        "\x85\u2028\ufeff\x00",
        ": - ? | >",
    ]
)


def plan(*groups: PlannedGroup, where: str | None = None) -> Plan:
    snapshot = Snapshot(SNAPSHOT.drain_ids, SNAPSHOT.messages, SNAPSHOT.sha256, where)
    return Plan("20261121T040000Z-00ff00", "/archive of mine", snapshot, groups)


def group(
    group_id: str = "g-1", title: str = "a title", action: Action = Action.LEAVE
) -> PlannedGroup:
    return PlannedGroup(group_id, title, 2, action)


def raw(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = yaml.safe_load(plan_text(plan(group("g-1"), group("g-2"))))
    return {**whole, **changes}


def faults_of(content: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_plan(yaml.safe_dump(content))
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


@given(hostile, hostile, st.sampled_from(list(Action)))
@example("a\nb", "c\n\nd", Action.REDRIVE)
@example("\x85", "\u2028 \u2029 \ufeff", Action.DISCARD)
def test_plan_is_read_back_as_written(title: str, where: str, action: Action) -> None:
    original = plan(group("g-1", title, action), group("g-2"), where=where)

    assert read_plan(plan_text(original)) == original


def test_plan_without_groups_is_read_back() -> None:
    assert read_plan(plan_text(plan())) == plan()


def test_written_plan_teaches_every_action() -> None:
    comments = [line for line in plan_text(plan(group())).splitlines() if line.startswith("#")]

    assert all(any(action in line for line in comments) for action in Action)


def test_group_that_is_not_named_has_no_action() -> None:
    assert plan(group("g-1", action=Action.DISCARD)).actions == {"g-1": Action.DISCARD}


def test_digest_ignores_the_order() -> None:
    assert digest(["b", "a"]) == digest(["a", "b"]) != digest(["ab"])


def test_every_fault_is_named_at_once() -> None:
    groups = [
        {"id": "g-1", "action": "redrvie"},
        {"id": "g-1", "action": "leave", "aktion": "redrive"},
        {"action": "leave"},
    ]
    snapshot = {"drain_ids": [], "messages": -1, "sha256": "abc"}

    faults = faults_of({"version": 2, "plan_id": "../x", "snapshot": snapshot, "groups": groups})

    assert faults == [
        "version: 2: must be 1",
        "plan_id: '../x': must be 1 to 64 letters, digits, - and _",
        "snapshot.drain_ids: must be a list of at least one drain id",
        "snapshot.messages: -1: must be a whole number of at least 0",
        "snapshot.sha256: must be 64 hex digits, as analyze wrote them",
        "group g-1: action 'redrvie': must be leave, redrive, discard",
        "group g-1: 'aktion' is not known in this version; remove it",
        "group g-1: stands in the plan twice",
        "groups: entry 3: must be a mapping with id and action",
    ]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ([], "must be a mapping with version"),
        (raw(canary=5), "plan: 'canary' is not known in this version"),
        (raw(snapshot=None), "snapshot: must be a mapping"),
        (raw(groups={}), "groups: must be a list"),
        (raw(groups=[{"id": "g-1", "action": "redrive", "edit": []}]), "group g-1: 'edit' is not"),
        (raw(groups=[{"id": "g-1"}]), "group g-1: action None: must be leave"),
        (raw(groups=[{"id": "g-1", "action": True}]), "group g-1: action True: must be leave"),
        (raw(groups=[{"id": "g-1", "action": ["leave"]}]), "group g-1: action ['leave']: must"),
        (raw(groups=[{"id": ["g"], "action": "leave"}]), "groups: entry 1: must be a mapping"),
        (raw(plan_id=7), "plan_id: 7: must be"),
    ],
)
def test_what_is_not_understood_is_a_fault(content: object, fault: str) -> None:
    assert any(line.startswith(fault) for line in faults_of(content))


def test_text_that_is_no_yaml_names_the_line() -> None:
    with pytest.raises(InputError, match="the plan is no YAML in line 2"):
        read_plan("version: 1\n\tx: {")


def test_long_title_stays_on_one_line() -> None:
    title = "word " * 40

    assert f"    title: '{title}'" in plan_text(plan(group(title=title))).splitlines()
