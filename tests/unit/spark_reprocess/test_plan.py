from dataclasses import replace
from textwrap import indent
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from spark_reprocess.editing.edit import Edit, Patch
from spark_reprocess.editing.json_text import Number
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text
from spark_reprocess.plan.reading import read_plan

SNAPSHOT = Snapshot(("20261121T031502Z-ab12cd",), 3, table_sha256="0" * 64)

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


documents = st.recursive(
    st.none()
    | st.booleans()
    | hostile
    | st.from_regex(r"-?[1-9][0-9]*\.[0-9]{2}", fullmatch=True).map(Number),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hostile, inner, max_size=3),
    max_leaves=5,
)


def plan(*groups: PlannedGroup, where: str | None = None, policy_sha256: str | None = None) -> Plan:
    snapshot = replace(SNAPSHOT, where=where, policy_sha256=policy_sha256)
    return Plan("20261121T040000Z-00ff00", "/archive of mine", snapshot, groups)


def group(
    group_id: str = "g-1", title: str = "a title", action: Action = Action.LEAVE
) -> PlannedGroup:
    return PlannedGroup(group_id, title, 2, action)


def raw(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = yaml.safe_load(plan_text(plan(group("g-1"), group("g-2"))))
    return {**whole, **changes}


def faults_of(content: object) -> list[str]:
    return faults_in(yaml.safe_dump(content, sort_keys=False))


def _no_sql(sql: str) -> str | None:
    return "is no SQL" if "(" in sql else None


def faults_in(content: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_plan(content, _no_sql)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


@given(hostile, hostile, st.sampled_from(list(Action)))
@example("a\nb", "c\n\nd", Action.REDRIVE)
@example("\x85", "\u2028 \u2029 \ufeff", Action.DISCARD)
def test_plan_is_read_back_as_written(title: str, where: str, action: Action) -> None:
    original = plan(group("g-1", title, action), group("g-2"), where=where)

    assert read_plan(plan_text(original)) == original


@pytest.mark.parametrize("original", [plan(), plan(group(), policy_sha256="2" * 64)])
def test_plan_without_groups_and_the_hash_of_the_policy_are_read_back(original: Plan) -> None:
    assert read_plan(plan_text(original)) == original


def test_written_plan_teaches_every_action() -> None:
    comments = [line for line in plan_text(plan(group())).splitlines() if line.startswith("#")]

    assert all(any(action in line for line in comments) for action in Action)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("g-12", "g-12"),
        ("g-13", "g-1345"),
        ("g-1", "has several groups g-1; its groups are g-12, g-1345"),
        ("g-9", "has no group g-9; its groups are g-12, g-1345, g-2377"),
    ],
)
def test_the_beginning_of_an_id_is_enough(given: str, found: str) -> None:
    three = plan(group("g-12"), group("g-1345"), group("g-2377"))
    if found.startswith("g-"):
        assert three.full_id(given) == found
        return
    with pytest.raises(InputError, match=found):
        three.full_id(given)


def test_group_that_is_not_named_has_no_action() -> None:
    assert plan(group("g-1", action=Action.DISCARD)).actions == {"g-1": Action.DISCARD}


def test_every_fault_is_named_at_once() -> None:
    groups = [
        {"id": "g-1", "action": "redrvie"},
        {"id": "g-1", "action": "leave", "aktion": "redrive"},
        {"action": "leave"},
    ]
    snapshot = {
        "drain_ids": [],
        "messages": -1,
        "policy_sha256": 7,
        "table_sha256": "abc",
    }

    faults = faults_of({"version": 1, "plan_id": "../x", "snapshot": snapshot, "groups": groups})

    digits = "must be 64 hex digits, as the analysis wrote them"
    assert faults == [
        "plan_id: '../x': must be 1 to 64 letters, digits, - and _",
        "archive: None: must be the archive's path or address",
        "snapshot.drain_ids: []: must be a list of at least one drain id",
        "snapshot.messages: -1: must be a whole number of at least 0",
        f"snapshot.table_sha256: 'abc': {digits}",
        f"snapshot.policy_sha256: 7: {digits}",
        "groups[0].action: group g-1: 'redrvie': must be leave, redrive, discard",
        "groups[1]: group g-1: is in the plan twice",
        "groups[1].aktion: group g-1: is not known; did you mean action?",
        "groups[2]: must be a mapping with id and action",
    ]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (raw(limit=5), "limit: is not known"),
        (raw(snapshot=None), "snapshot: must be a mapping"),
        (raw(groups={}), "groups: {}: must be a list"),
        (raw(groups=[{"id": "g-1", "action": "leave", "edits": []}]), "groups[0].edits: group g-1"),
        (raw(groups=[{"id": "g-1"}]), "groups[0].action: group g-1: None: must be leave"),
        (raw(groups=[{"id": "g-1", "action": True}]), "groups[0].action: group g-1: True: must be"),
        (raw(groups=[{"id": "g-1", "action": ["leave"]}]), "groups[0].action: group g-1: ['leave'"),
        (raw(groups=[{"id": ["g"], "action": "leave"}]), "groups[0]: must be a mapping"),
        (raw(plan_id=7), "plan_id: 7: must be"),
        (plan_text(plan(group("g-1"))) + "    action: redrive\n", "groups[0].action: is repeated"),
        (plan_text(plan()).replace("[]", "[{id: g-1, action: !!set {}}]"), "groups[0].action: gro"),
    ],
)
def test_what_is_not_understood_is_a_fault(content: object, fault: str) -> None:
    faults = faults_in(content) if isinstance(content, str) else faults_of(content)
    assert any(line.startswith(fault) for line in faults), faults


def test_a_fault_names_the_file() -> None:
    with pytest.raises(InputError, match=r"^a/plan\.yaml: version: 2: must be 1$"):
        read_plan("version: 2", name="a/plan.yaml")


WITH_EDITS = """
  - id: g-2
    action: redrive
    edit:
      - op: replace
        path: /price
        value: 1.10
      - {"op": "add", "path": "/far", "value": [1.0e+3, true, null, "yes", 12345678901234567890]}
    set_attributes:
      tenant: get_json_object(body, '$.tenant')
      debug: null
"""


def test_edit_is_read_digit_by_digit() -> None:
    read = read_plan(plan_text(plan(group("g-1"))) + WITH_EDITS).groups[1].edit

    assert read == Edit(
        Patch(
            '[{"op":"replace","path":"/price","value":1.10},'
            '{"op":"add","path":"/far","value":[1.0e+3,true,null,"yes",12345678901234567890]}]'
        ),
        (("tenant", "get_json_object(body, '$.tenant')"), ("debug", None)),
    )


@given(documents, hostile)
@example(['\x7f\x85\u2028\ufeff\ufffe😀\ud800/"\\'], "a: b")
def test_edit_is_read_back_as_written(value: Any, expression: str) -> None:
    edit = Edit(
        Patch.of([{"op": "add", "path": "/a~1b", "value": value}]),
        (("tenant", expression), ("debug", None)),
    )
    original = plan(replace(group("g-1"), edit=edit), replace(group("g-2"), edit=Edit(edit.patch)))

    assert read_plan(plan_text(original)) == original


NO_POINTER = "path: 'a' is not a JSON Pointer: it begins with / (and ~ is ~0, / in a name ~1)"
OPS = "op must be one of add, replace, test, remove, move, copy"
OURS = "names that begin with sqs-dlq- are this product's own"
UNLIKE = (
    "not read alike by YAML and JSON; quote it if it is text, else write it as both do: "
    "true, false, null, 12, 1.5, 1.0e+3"
)


EDIT_FAULTS = [
    ("edit: []", [(".edit", "must be a list of JSON Patch operations (RFC 6902)")]),
    ("edit:", [(".edit", "must be a list of JSON Patch operations (RFC 6902)")]),
    (
        "edit:\n  - op: add\n    path: a\n  - {op: rename, path: /a}",
        [
            (".edit[0]", "add needs value"),
            (".edit[0]", NO_POINTER),
            (".edit[1]", OPS),
        ],
    ),
    (
        "set_attributes: {}",
        [(".set_attributes", "must be a mapping of names to Spark SQL expressions")],
    ),
    (
        "set_attributes:\n  sqs-dlq-x: \"'x'\"\n  n: 7\n  m: f(\n  k: null",
        [
            (".set_attributes.sqs-dlq-x", OURS),
            (".set_attributes.n", "7: must be Spark SQL as text, e.g. \"'7'\", or null"),
            (".set_attributes.m", "is no SQL"),
        ],
    ),
]


@pytest.mark.parametrize(("keys", "faults"), EDIT_FAULTS)
def test_faults_of_an_edit_have_their_places(keys: str, faults: list[tuple[str, str]]) -> None:
    assert faults_in(with_entry(keys)) == [
        f"groups[1]{place}: group g: {fault}" for place, fault in faults
    ]


def test_what_yaml_and_json_read_differently_is_a_fault_in_an_edit() -> None:
    texts = ("no", "1e3", "010", "2026-11-21", "1_000", ".5")
    patch = f"edit:\n  - op: add\n    path: /a\n    value: [{', '.join(texts)}]"

    assert faults_in(with_entry(patch)) == [
        f"groups[1].edit[0].value[{index}]: {text}: {UNLIKE}" for index, text in enumerate(texts)
    ]


def with_entry(keys: str) -> str:
    entry = indent(f"id: g\n{keys}\naction: redrive", "    ")
    return f"{plan_text(plan(group('g-1')))}  - {entry[4:]}\n"


def test_long_title_stays_on_one_line() -> None:
    title = "word " * 40

    assert f"    title: '{title}'" in plan_text(plan(group(title=title))).splitlines()


def test_digest_of_decisions_is_that_of_what_the_plan_does() -> None:
    one = plan(group("g-1", action=Action.REDRIVE), group("g-2"))
    edit = Edit(Patch.of([{"op": "remove", "path": "/a"}]))

    same = [
        plan(group("g-2", title="another"), group("g-1", "title", action=Action.REDRIVE)),
        plan(replace(group("g-1", action=Action.REDRIVE), note="a note", count=7)),
    ]
    others = [
        plan(group("g-1", action=Action.DISCARD)),
        plan(group("g-1", action=Action.REDRIVE), group("g-2", action=Action.REDRIVE)),
        plan(replace(group("g-1", action=Action.REDRIVE), edit=edit)),
        replace(one, plan_id="20261121T040000Z-00ff01"),
        replace(one, snapshot=replace(one.snapshot, table_sha256="1" * 64)),
    ]

    assert {each.decisions_sha256 for each in same} == {one.decisions_sha256}
    assert one.decisions_sha256 not in {each.decisions_sha256 for each in others}
