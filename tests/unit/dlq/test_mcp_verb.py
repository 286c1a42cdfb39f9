"""``mcp``: the commands of its tools, and the bounds and marks of its answers."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.mcpserver.exceptions import ToolError

from dlq.cli import command
from dlq.cli.verbs import mcp
from dlq.cli.verbs.mcp import BEGIN, END, MCP_INSTALL, MOST_CHARACTERS, WARNING, Tools

ROOT = Path(__file__).parents[3]
GROUP = "g-53cb1ad25b"
DANGEROUS = {
    "--execute",
    "--unmasked",
    "--receives-allowed=1",
    "--on-glue",
    "--out=/tmp/x",
    "--json",
    "--help",
    "-h",
}
TEXTS = st.one_of(st.text(max_size=20), st.sampled_from([*DANGEROUS, "orders", GROUP, "g-"]))


class RecordedTools(Tools):
    """Tools that record each command instead of running it."""

    commands: list[list[str]]

    def _run(self, verb: str, *words: str) -> dict[str, Any]:
        self.commands.append([verb, *words])
        return {"exit_code": 0, "answer": {"groups": []}}


def recorded(call: Callable[[RecordedTools], object]) -> list[list[str]]:
    """Return the commands of a call; none of one that was refused."""
    RecordedTools.commands = []
    tools = RecordedTools(archive=("--archive", "/archive"), masks=("--mask=body.name",))
    try:
        call(tools)
    except ToolError:
        return []
    return RecordedTools.commands


CALLS: list[Callable[[Tools, str, str], object]] = [
    lambda tools, first, _: tools.status(first),
    lambda tools, first, _: tools.groups(first),
    lambda tools, first, _: tools.show(first, with_body=True),
    lambda tools, first, second: tools.find(first, second),
    lambda tools, first, _: tools.look(first),
    lambda tools, first, _: tools.redrive_dry_run(first),
    lambda tools, first, second: tools.propose_decision(first, "redrive", second),
    lambda tools, _, second: tools.propose_decision(GROUP, "discard", second),
]


HARMLESS: dict[str, Any] = {
    "execute": False,
    "is_unmasked": False,
    "receives_allowed": None,
    "out": None,
    "on_glue": False,
    "logs": [],
    "plan": None,
    "edit": None,
    "is_resolved": None,
}
"""Values of options that change or show nothing more; a note alone changes no plan and no halt."""


@given(number=st.integers(0, len(CALLS) - 1), first=TEXTS, second=TEXTS)
def test_whatever_an_agent_asks_for_no_command_sends_moves_or_unmasks(
    number: int, first: str, second: str
) -> None:
    for verb, *words in recorded(lambda tools: CALLS[number](tools, first, second)):
        assert not DANGEROUS & set(words)
        parser, _ = command._parser_of(verb)  # noqa: SLF001 - as the program reads them
        values = vars(parser.parse_args(words))

        chosen = {name: values[name] for name in HARMLESS if name in values}
        assert chosen == {name: HARMLESS[name] for name in chosen}
        if verb == "decide":
            assert values["action"] is None
        if "masks" in values:
            assert values["masks"] == ["body.name"]
        assert values.get("archive", "/archive") == "/archive"
        assert values["stack"] is None


def test_the_tools_are_these_and_their_descriptions_say_when_to_use_them() -> None:
    server = mcp.make_server(Tools())
    tools = {tool.name: tool for tool in anyio.run(server.list_tools)}

    assert sorted(tools) == [
        "find",
        "groups",
        "look",
        "propose_decision",
        "redrive_dry_run",
        "show",
        "status",
    ]
    for name, tool in tools.items():
        assert tool.annotations
        assert tool.annotations.destructive_hint is not True
        description = tool.description or ""
        assert "Use it" in description or "Begin here" in description, name
        for argument in tool.input_schema["properties"]:
            assert f"\n    {argument}: " in description, (name, argument)


def test_an_agent_cannot_choose_stack_archive_or_the_receives_that_are_allowed() -> None:
    server = mcp.make_server(Tools())
    arguments: set[str] = set()
    for tool in anyio.run(server.list_tools):
        arguments |= tool.input_schema["properties"].keys()

    assert arguments == {
        "action",
        "cause",
        "group_id",
        "limit",
        "message_or_group_id",
        "queue",
        "value",
        "with_body",
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
)


@given(fields=st.dictionaries(st.text(), JSON, max_size=5))
def test_no_data_can_write_a_mark_and_short_data_is_whole(fields: dict[str, Any]) -> None:
    lines = mcp.marked(fields).split("\n")

    assert [lines[0], lines[1], lines[3]] == [WARNING, BEGIN, END]
    assert "<" not in lines[2]
    assert lines[2].isascii()
    assert json.loads(lines[2]) == fields


@pytest.mark.parametrize(
    "fields",
    [
        {"groups": [{"title": "t" * 10_000, "samples": ["<" * 5_000] * 9}] * 1_000},
        {"values": {f"word {number}": number for number in range(100_000)}},
        {"text": "\U0001f984" * 100_000},
    ],
)
def test_long_answers_are_cut_where_it_can_be_seen(fields: dict[str, Any]) -> None:
    _, _, data, _ = mcp.marked(fields).split("\n")

    assert len(data) <= MOST_CHARACTERS
    assert " more" in data
    json.loads(data)


def test_an_answer_without_end_is_cut_all_the_same() -> None:
    fields: dict[str, Any] = {"text": "x" * 100}
    for _ in range(3):
        fields = {f"{'name' * 20} {number}": fields for number in range(50)}

    assert len(mcp.marked(fields)) < MOST_CHARACTERS + 500


def test_a_command_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "_COMMAND_SECONDS", 0.001)

    with pytest.raises(ToolError, match=r"dlq status was ended after 0\.001 s; ask for less"):
        Tools(archive=("--archive", "/nowhere")).status()


def test_the_command_that_installs_names_the_packages_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    [package] = project["optional-dependencies"]["mcp"]
    assert MCP_INSTALL.endswith(f" -m pip install '{package}'")
