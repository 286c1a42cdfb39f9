"""The dlq commands in the documents name verbs and options that there are."""

import re
import shlex

import pytest

from dlq_cli import __main__ as program
from dlq_cli.__main__ import ALL_VERBS
from tests.contract.template import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[tuple[str, str]]:
    """Lines of shell blocks, and words in the text that begin with dlq and name a verb."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
        plain = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        quoted = re.findall(r"`(dlq [^`]+)`", plain)
        found += [
            (page.name, one)
            for one in [*lines, *quoted]
            if re.match(r"dlq [a-z]", one) and "…" not in one
        ]
    return found


COMMANDS = commands()


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_documented_command_has_a_verb_and_options_that_there_are(
    page: str, command: str
) -> None:
    del page
    _, name, *words = shlex.split(command, comments=True)
    parser, _ = program._parser_of(name)  # noqa: SLF001 - the parser of a verb is not public
    known = set(parser._option_string_actions)  # noqa: SLF001 - argparse has no other list

    assert name in ALL_VERBS
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 30
