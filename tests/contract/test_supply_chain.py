"""Tools that build and release the project are named by their content: others can move a name."""

import re

import pytest

from tests.contract.template import ROOT

WORKFLOWS = {
    path.name: path.read_text("utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")
}


@pytest.mark.parametrize("name", sorted(WORKFLOWS))
def test_an_action_is_named_by_its_commit_beside_its_version(name: str) -> None:
    """Dependabot reads the version behind it, and changes both."""
    actions = re.findall(r"uses: (.+)", WORKFLOWS[name])

    assert actions
    for action in actions:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_an_action_has_one_commit_in_all_workflows() -> None:
    actions = re.findall(r"uses: ([\w/-]+)@(\w+)", "\n".join(WORKFLOWS.values()))

    assert len(dict(actions)) == len(set(actions))


def test_what_locks_the_dependencies_is_locked_with_hashes_itself() -> None:
    script = (ROOT / "scripts" / "lock.sh").read_text("utf-8")
    installed = re.findall(r"-m pip install (.+)", script)
    files = [command.split()[-1] for command in installed]

    assert files == ["requirements/pip.txt", "requirements/lock.txt"]
    assert all("--require-hashes" in command.split() for command in installed)
    for file in files:
        assert f"{file.removesuffix('.txt')}.in" in script, file
        assert "--hash=sha256:" in (ROOT / file).read_text("utf-8")
