"""A user sees no address that is not there, and nothing is published before there is one."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dlq.cli.verb import SPARK_INSTALL
from scripts import generate_docs
from tests.contract.cloudformation import Stack, load_template
from tests.contract.template import ROOT, SPARK_JOB

SOURCE = (ROOT / "template.yaml").read_text("utf-8")
HOME_PAGE = "https://git.aperture.dev/queues/sqs-dlq-replay"
VERSION = "    SemanticVersion:"


def with_home_page(address: str) -> str:
    named = SOURCE.replace("      Url: none\n", f"      Url: {address}\n")
    lines = f"    HomePageUrl: {address}\n    SourceCodeUrl: {address}\n{VERSION}"
    return named.replace(VERSION, lines)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # When there is one, this line goes, and the placeholder can never come back.
        (SOURCE, 1),
        (with_home_page(HOME_PAGE), 0),
        (with_home_page("https://github.com/example/it"), 1),
        (with_home_page("https://github.com/OWNER/REPO"), 1),
        (with_home_page("http://a.dev/b"), 1),
    ],
    ids=["none", "one", "example", "placeholder", "http"],
)
def test_publishing_is_refused_until_the_template_names_a_home_page(
    text: str, code: int, tmp_path: Path
) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(text, "utf-8")
    script = ROOT / "scripts" / "require_home_page.py"
    done = subprocess.run([sys.executable, script, path], check=False, capture_output=True)

    assert done.returncode == code
    named = (b"Project.HomePage.Url", b"HomePageUrl", b"SourceCodeUrl")
    assert all((address in done.stderr) is bool(code) for address in named)


def test_make_publish_asks_first() -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\npublish:")[2].partition("\n\n")[0]

    assert recipe.index("require_home_page.py template.yaml") < recipe.index(" publish --template")


def test_nothing_that_a_user_sees_names_a_placeholder_or_a_package_that_nobody_published() -> None:
    folders = ("docs", "templates", "functions", "layers", "dlq", "spark_reprocess")
    seen = [*ROOT.glob("README*.md"), ROOT / "template.yaml"]
    seen += [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    wrong = re.compile(
        r"https?://(?:www\.)?example\.\w+|\w+\.com/(?:example|OWNER|USER)/\S*|\bOWNER/REPO\b"
    )
    by_name = re.compile(r"(?:install\b[^\n]* |--from[ =])['\"]?sqs[-_]dlq[-_]replay\b")

    placeholders = {}
    for path in seen:
        if path.suffix not in (".md", ".yaml", ".py"):
            continue
        text = path.read_text("utf-8")
        placeholders[str(path)] = wrong.findall(text)
        if not generate_docs.IS_PUBLISHED:
            placeholders[str(path)] += by_name.findall(text)
    assert len(placeholders) > 100
    assert {name: words for name, words in placeholders.items() if words} == {}


@pytest.mark.parametrize("block", ["install", "install-elsewhere"])
def test_pages_install_the_package_by_its_name_once_the_project_owns_it(block: str) -> None:
    lines: Any = generate_docs.BLOCKS[block]
    published = "\n".join(lines(is_published=True))
    unpublished = "\n".join(lines(is_published=False))

    assert "pip install sqs-dlq-replay" in published
    assert "uvx --from sqs-dlq-replay dlq look orders-dlq" in published
    assert generate_docs.UNPUBLISHED not in published
    assert generate_docs.UNPUBLISHED in unpublished
    assert ".whl" in unpublished


def test_the_dashboard_links_to_the_home_page_if_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text(with_home_page(HOME_PAGE), "utf-8")
    links = []
    for folder in (ROOT, tmp_path):
        stack = Stack.of(load_template(folder / "template.yaml"), SPARK_JOB)
        [dashboard] = stack.of_type("AWS::CloudWatch::Dashboard").values()
        links.append(re.findall(r"\((\S*docs/\S*)\)", dashboard["DashboardBody"]))

    assert links == [[], [f"{HOME_PAGE}/blob/main/docs/alarms.md"]]


def test_the_advice_for_spark_names_the_packages_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    packages = project["optional-dependencies"]["spark"]

    assert shlex.split(SPARK_INSTALL) == [sys.executable, "-m", "pip", "install", *packages]
