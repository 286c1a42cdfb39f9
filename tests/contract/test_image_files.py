"""The container image's recipe, where no engine can build it."""

import re
from fnmatch import fnmatchcase

from tests.contract.template import ROOT

LINES = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
INSTRUCTIONS = [line for line in LINES if line.strip() and not line.startswith("#")]
STEPS = [tuple(line.split(maxsplit=1)) for line in INSTRUCTIONS]
LAST_STAGE = STEPS[max(at for at, step in enumerate(STEPS) if step[0] == "FROM") :]


def arguments(name: str) -> list[str]:
    return [step[1] for step in STEPS if step[0] == name]


def test_every_stage_begins_with_the_same_slim_image_of_a_version_and_a_digest() -> None:
    bases = {base.split()[0] for base in arguments("FROM")}

    [base] = bases
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", base)
    assert "latest" not in base


def test_the_command_runs_as_a_user_with_a_number_that_is_not_root() -> None:
    """Kubernetes' runAsNonRoot reads numbers only."""
    users = [text for name, text in LAST_STAGE if name == "USER"]
    entry = [text for name, text in LAST_STAGE if name == "ENTRYPOINT"]

    assert users == ["65532:65532"]
    assert entry == ['["dlq"]']
    assert [name for name, _ in LAST_STAGE].index("USER") > [name for name, _ in LAST_STAGE].index(
        "RUN"
    )


def test_what_comes_from_an_index_is_locked_and_what_does_not_asks_none() -> None:
    commands = re.findall(r"-m pip (?:--python \S+ )?(?:install|wheel)\b[^&\n]*", "\n".join(LINES))

    assert len(commands) == 5
    for command in commands:
        words = command.split()
        assert ("--require-hashes" in words) != ({"--no-index", "--no-deps"} <= {*words}), command


def test_the_last_stage_installs_nothing_and_adds_no_address() -> None:
    assert "pip" not in " ".join(text for name, text in LAST_STAGE if name == "RUN")
    assert not arguments("ADD")


def test_the_build_sees_each_file_that_it_copies_and_not_the_whole_checkout() -> None:
    patterns = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    allowed = [pattern.removeprefix("!") for pattern in patterns if pattern.startswith("!")]
    copied = []
    for words in arguments("COPY"):
        if not words.startswith("--from"):
            copied += words.split()[:-1]

    assert patterns[1] == "*"
    assert copied
    for path in copied:
        assert (ROOT / path).exists()
        assert any(fnmatchcase(path, pattern) for pattern in allowed), path
