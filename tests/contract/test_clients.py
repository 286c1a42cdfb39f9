"""Every client of AWS in the product refuses what is no answer of AWS."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("layers", "functions", "spark_reprocess", "dlq", "templates", "scripts")

CHECK = "with_checked_answers"
MAKES_SESSIONS = {
    "boto3.Session",
    "boto3.session.Session",
    "botocore.session.Session",
    "botocore.session.get_session",
}
MAKES_CLIENTS = {"boto3.client", "boto3.resource", "boto3.setup_default_session"}
MAKES_ITS_OWN = {"DynamoDBPersistenceLayer": "boto3_client"}
"""Makers of clients in other libraries, and the argument by which they take one of ours."""


def unchecked(source: str) -> list[str]:
    """The calls in a module that make a session or a client whose answers nobody checks."""
    tree = ast.parse(source)
    names = dict(imported(tree))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    checked: set[int] = set()
    for call in calls:
        if name_of(call.func, {}) == CHECK:
            checked.update(map(id, call.args))
    return [ast.unparse(call) for call in calls if id(call) not in checked and makes(call, names)]


def makes(call: ast.Call, names: dict[str, str]) -> bool:
    name = name_of(call.func, names)
    if argument := MAKES_ITS_OWN.get(name.rpartition(".")[2]):
        return argument not in {keyword.arg for keyword in call.keywords}
    return name in MAKES_SESSIONS | MAKES_CLIENTS


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that a module imports, and what they are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    yield alias.asname, alias.name


def name_of(function: ast.expr, names: dict[str, str]) -> str:
    """The dotted name of what is called, with what its first part was imported as."""
    first, *rest = ast.unparse(function).split(".")
    return ".".join([names.get(first, first), *rest])


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("boto3.client('sqs')", 1),
        ("boto3.resource('s3')", 1),
        ("from boto3 import client\nclient('sqs')", 1),
        ("import boto3 as b\nb.session.Session()", 1),
        ("boto3.session.Session().client('sqs')", 1),
        ("with_checked_answers(boto3.session.Session()).client('sqs')", 0),
        ("from botocore.session import get_session as get\nget()", 1),
        ("from botocore.session import get_session\nwith_checked_answers(get_session())", 0),
        ("from dlq.console.security import Session\nSession(port=1)", 0),
        ("DynamoDBPersistenceLayer('t')", 1),
        ("DynamoDBPersistenceLayer('t', boto3_client=client)", 0),
        ("session.client('sqs')", 0),
    ],
)
def test_a_session_that_nobody_checks_is_found(source: str, calls: int) -> None:
    assert len(unchecked(source)) == calls


def test_every_session_of_the_product_checks_its_answers() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    sources = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}
    makers = {path for path, source in sources.items() if f"{CHECK}(" in source}

    assert makers >= {
        "functions/publish_job/handler.py",
        "functions/reminder/handler.py",
        "layers/core/dlq_replay/aws/wiring.py",
        "dlq/aws/clients.py",
    }
    assert {path: calls for path, source in sources.items() if (calls := unchecked(source))} == {}
