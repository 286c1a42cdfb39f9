"""docs/real-account.md and scripts/try-in-account.sh: one list of checks, and commands that exist.

Each check runs as the page writes it. Commands on PATH stand in for ``aws``, ``sam`` and the
others: they record their arguments, and ``aws`` answers as the service would.
"""

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jmespath  # type: ignore[import-untyped]
import pytest
from botocore import xform_name
from botocore.session import Session

from dlq.cli import command as program
from tests.contract.cloudformation import Stack, load_template
from tests.contract.template import ROOT, TEMPLATE

PAGE = (ROOT / "docs" / "real-account.md").read_text("utf-8")
SCRIPT = ROOT / "scripts" / "try-in-account.sh"
ENTRIES = re.findall(r"^### (.+)\n\n((?:(?!^#).*\n)*)", PAGE, re.MULTILINE)
STARTS = [re.match(r"`([^`]+)`: ", body) for _, body in ENTRIES]
COMMANDS = [" ".join(match[1].split()) for match in STARTS if match]
"""With which the entries begin."""

OF_SCRIPT = re.compile(r"(?P<settings>(?:\w+=\S+ +)*)scripts/try-in-account\.sh (?P<check>[a-z-]+)")
ON_PAGE: dict[str, dict[str, str]] = {}
"""The settings that the page gives to each check."""

for command_of_page in COMMANDS:
    if match_of_check := OF_SCRIPT.fullmatch(command_of_page):
        settings = shlex.split(match_of_check["settings"])
        ON_PAGE[match_of_check["check"]] = dict(setting.split("=", 1) for setting in settings)

TEMPLATES = {"dlq-try-pipe": load_template(ROOT / "templates" / "pipe-trigger.yaml")}
"""Those of the stacks that are not of the application."""

SESSION = Session()
PREFIX = "dlq-try-"
SQS = "https://sqs.eu-central-1.amazonaws.com/123456789012/"
ARN = "arn:aws:{}:eu-central-1:123456789012:{}"
VALUES = {
    "ReplayFunctionArn": ARN.format("lambda", "function:replay"),
    "CoreLayerArn": ARN.format("lambda", "layer:CoreLayer:3"),
    "AlarmTopicArn": ARN.format("sns", "alarms"),
    **{f"{queue}QueueArn": ARN.format("sqs", queue) for queue in ("Main", "DeadLetter", "Parked")},
    **{f"{queue}QueueUrl": SQS + queue for queue in ("Main", "DeadLetter", "Parked")},
}
NAMES = [name for template in (TEMPLATE, *TEMPLATES.values()) for name in template["Outputs"]]
OUTPUTS = [{"OutputKey": name, "OutputValue": VALUES.get(name, name.lower())} for name in NAMES]
MINE = "dlq-try-one-consumer"
OTHERS = "orders-consumer"
ANSWERS: dict[str, Any] = json.loads((ROOT / "tests" / "e2e" / "account.json").read_text())
ANSWERS["cloudformation describe-stacks"]["Stacks"][0]["Outputs"] = OUTPUTS

STAND_IN = f"""#!{sys.executable} -ES
import json, os, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
with open(os.environ["RECORD"], "a", encoding="utf-8") as record:
    record.write(json.dumps([name, *words]) + "\\n")
world = json.load(open(os.environ["WORLD"], encoding="utf-8"))
line = " ".join([name, *words])
if any(one in line for one in world["failing"]):
    sys.exit(254)
if name == "aws" and words == ["--version"]:
    print(world["version"])
elif name == "aws":
    option = dict(zip(words, words[1:]))
    answer = world["answers"].get(" ".join(words[:2]), {{}})
    if words[1] == "create-queue":
        answer = {{"QueueUrl": "{SQS}" + option["--queue-name"]}}
    if words[1] == "get-queue-attributes":
        queue = option["--queue-url"].rpartition("/")[2]
        answer = {{"Attributes": {{"QueueArn": "{ARN.format("sqs", "")}" + queue}}}}
    if "--query" in option:
        sys.path.append("{Path(jmespath.__file__).parents[1]}")
        import jmespath
        answer = jmespath.search(option["--query"], answer)
    if option.get("--output") == "text":
        answer = "\\t".join(answer) if isinstance(answer, list) else answer
        print(answer)
    else:
        print(json.dumps(answer))
"""


@dataclass(frozen=True)
class Ran:
    """A check that ran, and the commands that it started."""

    check: str
    code: int
    errors: str
    commands: list[list[str]]

    def of(self, name: str) -> list[list[str]]:
        """Without the question for the version of the AWS CLI, with which each run starts."""
        calls = [words for program, *words in self.commands if program == name]
        return [words for words in calls if words != ["--version"]]

    @property
    def deployments(self) -> dict[str, dict[str, str]]:
        """The parameters by stack; each stack has them from its creation."""
        parameters_of: dict[str, dict[str, str]] = {}
        for words in [*self.of("sam"), *(words[1:] for words in self.of("aws"))]:
            if words[0] == "deploy":
                given = words[words.index("--parameter-overrides") + 1 :]
                parameters = dict(argument.split("=", 1) for argument in given)
                parameters = {n: value.strip('"') for n, value in parameters.items()}
                stack = words[words.index("--stack-name") + 1]
                assert parameters_of.setdefault(stack, parameters) == parameters
        return parameters_of

    def stack(self, name: str) -> Stack:
        return Stack.of(TEMPLATES.get(name, TEMPLATE), self.deployments[name])


@dataclass
class Account:
    """A stand-in for an account, in a copy of the script's checkout."""

    folder: Path
    answers: dict[str, Any] = field(default_factory=lambda: dict(ANSWERS))
    failing: list[str] = field(default_factory=list)
    version: str = "aws-cli/2.31.0 Python/3.13.7"
    region: dict[str, str] = field(default_factory=lambda: {"AWS_REGION": "eu-central-1"})

    def run(
        self,
        *words: str,
        settings: dict[str, str] | None = None,
        typed: str = "",
        on_terminal: bool = False,
    ) -> Ran:
        commands = self.folder / "commands"
        record = self.folder / "record.jsonl"
        script = self.folder / "scripts" / SCRIPT.name
        code = self.folder / "dlq/aws/actor.py"
        python = self.folder / ".venv/bin/python"
        for path in (commands / "aws", script, code, python):
            path.parent.mkdir(parents=True, exist_ok=True)

        shutil.copy(SCRIPT, script)
        code.write_text("as it was\n", "utf-8")
        for path in (*(commands / name for name in ("aws", "sam", "make", "sleep")), python):
            path.write_text(STAND_IN, "utf-8")
            path.chmod(0o755)

        record.write_text("", "utf-8")
        world = {"answers": self.answers, "failing": self.failing, "version": self.version}
        (self.folder / "world.json").write_text(json.dumps(world), "utf-8")
        files = {"RECORD": str(record), "WORLD": str(self.folder / "world.json")}

        writes, reads = pty.openpty() if on_terminal else reversed(os.pipe())
        os.write(writes, typed.encode())
        if not on_terminal:
            os.close(writes)

        done = subprocess.run(
            [script, *words],
            env={"PATH": f"{commands}:/usr/bin:/bin", **(settings or {}), **files, **self.region},
            stdin=reads,
            capture_output=True,
            text=True,
            check=False,
        )
        os.close(reads)
        if on_terminal:
            os.close(writes)

        started = [json.loads(line) for line in record.read_text("utf-8").splitlines()]
        return Ran(words[-1] if words else "", done.returncode, done.stderr, started)


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Account(tmp_path)


@pytest.fixture(scope="module", params=sorted(ON_PAGE))
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Every check, with the settings of the page."""
    account = Account(tmp_path_factory.mktemp("account"))
    return account.run("--yes", request.param, settings=ON_PAGE[request.param])


def test_page_help_and_script_have_the_same_checks() -> None:
    answer = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True, check=True)
    listed = re.findall(r"^  ([a-z-]+)  +\S", answer.stdout, re.MULTILINE)
    functions = re.findall(r"^check_(\w+)\(\) \{", SCRIPT.read_text("utf-8"), re.MULTILINE)

    assert listed == [name.replace("_", "-") for name in functions]
    assert set(listed) == ON_PAGE.keys()
    assert set(re.findall(r"\[([a-z-]+)\]\(#[a-z-]+\) \|", PAGE)) == {*ON_PAGE, "publish"}
    of_script = set(filter(OF_SCRIPT.fullmatch, COMMANDS))
    assert set(COMMANDS) - {"make publish"} == of_script
    assert len(COMMANDS) == len(ENTRIES) > 10
    for _, body in ENTRIES:
        assert body.count("try-in-account.sh") <= 1
        assert "expected" in body.lower()
        assert "if not" in body.lower()


def test_a_check_runs_to_its_end(ran: Ran) -> None:
    assert ran.code == 0, ran.errors
    assert len(ran.commands) > 5


def test_the_commands_of_aws_are_there(ran: Ran) -> None:
    """By botocore's models, from which the AWS CLI makes its commands and options."""
    for words in ran.of("aws"):
        assert problem_of(words) is None, words


def test_every_deployment_is_accepted(ran: Ran) -> None:
    for name in ran.deployments:
        assert name.startswith(PREFIX)
        assert ran.stack(name).broken_rules == []


def test_outputs_and_resources_are_those_of_the_stack(ran: Ran) -> None:
    if ran.check == "clean-up":
        return
    for words in ran.of("aws"):
        option = dict(pairwise(words))
        name = option.get("--stack-name", "")
        if words[1] == "describe-stacks":
            (output,) = re.findall(r"OutputKey=='(\w+)'", option["--query"])
            # Asked for each stack that is deleted; the others have none.
            assert output in ran.stack(name).outputs or (output, name in TEMPLATES) == (
                "CoreLayerArn",
                True,
            )
        if words[1] == "describe-stack-resource":
            assert option["--logical-resource-id"] in ran.stack(name).resources


def test_the_commands_of_dlq_are_there(ran: Ran) -> None:
    for words in ran.of("python"):
        if words[:2] == ["-m", "dlq"]:
            _, _, verb, *options = words
            parser, _ = program._parser_of(verb)  # noqa: SLF001 - the parser of a verb is not public
            assert parser.parse_args(options).stack in ran.deployments


def test_what_is_made_has_a_name_that_clean_up_finds(ran: Ran) -> None:
    for words in ran.of("aws"):
        if words[1].startswith("create-") and words[:2] not in (
            ["kms", "create-key"],
            ["lambda", "create-event-source-mapping"],
        ):
            (option,) = {"--queue-name", "--role-name", "--function-name", "--alias-name"} & {
                *words
            }
            name = words[words.index(option) + 1].removeprefix("alias/")
            assert name.startswith(PREFIX)
            assert option in {"--queue-name", "--alias-name"} or name.endswith("-consumer")


def test_clean_up_deletes_all_that_is_there_and_nothing_of_others(account: Account) -> None:
    ran = account.run("--yes", "clean-up")
    deleting = ("delete-", "detach-", "schedule-")
    deleted = [(words[1], words[-1]) for words in ran.of("aws") if words[1].startswith(deleting)]

    assert deleted == [
        ("delete-event-source-mapping", "1"),
        ("delete-event-source-mapping", "2"),
        ("delete-function", MINE),
        ("delete-layer-version", "3"),
        ("detach-role-policy", "arn:attached"),
        ("delete-role", MINE),
        ("delete-policy", f"arn:{MINE}"),
        ("delete-queue", SQS + MINE),
        ("delete-queue", f"{SQS}{MINE}-2"),
        ("delete-bucket", MINE),
        ("delete-log-group", f"/aws/lambda/{MINE}"),
        ("schedule-key-deletion", "7"),
        ("delete-alias", f"alias/{MINE}"),
    ]
    assert [words[:3] for words in ran.of("sam")] == [["delete", "--stack-name", MINE]]
    assert [words[-2:] for words in ran.of("python")] == [[MINE, "eu-central-1"]]
    listing = {"list-queues", "describe-log-groups"}
    listed = [words for words in ran.of("aws") if words[1] in listing]
    assert all(any(argument.endswith(PREFIX) for argument in words) for words in listed)


def test_clean_up_of_an_empty_account_deletes_nothing(account: Account) -> None:
    account.answers = {"sts get-caller-identity": {"Account": "123456789012"}}

    ran = account.run("--yes", "clean-up")

    assert ran.code == 0, ran.errors
    for command in ran.commands:
        assert not re.search(r"delete|detach|schedule", " ".join(command))


def test_a_list_that_fails_ends_the_clean_up(account: Account) -> None:
    account.failing = ["list-queues"]

    ran = account.run("--yes", "clean-up")

    assert ran.code == 254
    assert ran.of("aws")[-1][:2] == ["sqs", "list-queues"]


def test_the_code_is_as_before_when_a_build_of_other_code_fails(account: Account) -> None:
    account.failing = ["s3 ls --recursive s3://dlq-try-resource/code/"]

    ran = account.run("--yes", "spark-job")

    assert ran.code == 254
    assert ran.of("make") == [["build"], ["build"]]
    code = account.folder / "dlq/aws/actor.py"
    assert code.read_text("utf-8") == "as it was\n"


def test_the_values_of_an_alarm_are_those_of_its_own_expression(account: Account) -> None:
    """With those of every metric in it, which the alarm itself does not return."""
    ran = account.run("--yes", "alarms", settings=ON_PAGE["alarms"])
    asked = [dict(pairwise(words)) for words in ran.of("aws") if words[1] == "get-metric-data"]

    assert len(asked) == 2
    for options in asked:
        queries = json.loads(options["--metric-data-queries"])
        assert [query["Id"] for query in queries] == ["watched", "a"]
        assert all(query["ReturnData"] for query in queries)


@pytest.mark.parametrize(
    ("words", "changes", "refusal"),
    [
        (["deploy"], {}, "--yes"),
        (["--yes", "unknown"], {}, "there is no such check"),
        (["--yes", "--force", "deploy"], {}, "there is no such option"),
        (["--yes", "deploy", "replay"], {}, "one check at a time"),
        (["--yes", "alarms"], {}, "set EMAIL first"),
        ([], {}, "usage"),
        (["--yes", "deploy"], {"region": {}}, "AWS_REGION"),
        (["--yes", "deploy"], {"version": "aws-cli/1.45.11 Python/3.11.7"}, "CLI 2"),
    ],
)
def test_a_start_that_nobody_can_mean_is_refused(
    tmp_path: Path, words: list[str], changes: dict[str, Any], refusal: str
) -> None:
    # What comes through a pipe is not typed by a person.
    assert_refused(Account(tmp_path, **changes).run(*words, typed="dlq-try\n"), refusal)


def test_a_check_starts_only_for_a_person_who_types_the_word(account: Account) -> None:
    other = account.run("queues", typed="yes\n", on_terminal=True)
    accepted = account.run("failed-deployment", typed="dlq-try\n", on_terminal=True)

    assert_refused(other, "nothing was done")
    assert accepted.code == 0
    assert accepted.of("sam")


def assert_refused(ran: Ran, refusal: str) -> None:
    assert ran.code == 2
    assert {words[0] for words in ran.of("aws")} <= {"sts"}
    assert {command[0] for command in ran.commands} <= {"aws"}
    assert refusal in ran.errors


def problem_of(words: list[str]) -> str | None:
    """Return why the AWS CLI would not take the command, if so."""
    service, command, *rest = words
    given = {option for option in rest if option.startswith("--")}

    options = dict(pairwise(rest))
    if "--query" in options:
        jmespath.compile(options["--query"])
    given -= {"--query", "--output", "--max-items"}

    cli_options = OF_THE_CLI_ALONE.get((service, command))
    if cli_options is not None:
        return str(given - cli_options) if given - cli_options else None

    service = service.removesuffix("api")  # s3api
    if command == "wait":
        waiters = SESSION.get_waiter_model(service).waiter_names
        return None if rest[0] in {xform_name(waiter, "-") for waiter in waiters} else "waiter"

    cli_options, required = options_of(service).get(command, (None, set[str]()))
    if cli_options is None:
        return "operation"

    if "--zip-file" in given:  # the CLI's name for one part of --code
        given = given - {"--zip-file"} | {"--code"}
    if given - cli_options or required - given:
        return f"unknown: {given - cli_options}, missing: {required - given}"
    return None


@cache
def options_of(service: str) -> dict[str, tuple[set[str], set[str]]]:
    """By command: the options that it has, and those that it requires."""
    model = SESSION.get_service_model(service)
    options = {}
    for operation in model.operation_names:
        shape = model.operation_model(operation).input_shape
        members = map(option_of, shape.members if shape else ())
        required = map(option_of, shape.required_members if shape else ())
        options[xform_name(operation, "-")] = (set(members), set(required))
    return options


def option_of(member: str) -> str:
    return f"--{xform_name(member, '-')}"


OF_THE_CLI_ALONE = {
    ("s3", "ls"): {"--recursive"},
    ("s3", "sync"): set[str](),
    ("logs", "tail"): {"--since"},
    ("cloudformation", "deploy"): {
        "--stack-name",
        "--template-file",
        "--capabilities",
        "--no-fail-on-empty-changeset",
        "--parameter-overrides",
    },
}
"""Commands that are no operation of a service, with those of their options that are used."""
