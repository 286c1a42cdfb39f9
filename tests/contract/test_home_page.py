"""A user sees no address that is not there, and nothing is published before there is one."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from spark_reprocess.command_line.verb import SPARK_INSTALL
from tests.contract.cloudformation import Stack, load_template
from tests.contract.template import ROOT, SPARK_JOB, TEMPLATE

SCRIPT = ROOT / "scripts" / "require_home_page.py"
SOURCE = (ROOT / "template.yaml").read_text("utf-8")
HOME_PAGE = "https://git.aperture.dev/queues/sqs-dlq-replay"
VERSION = "    SemanticVersion:"

SEEN = [
    *(ROOT / "README.md", ROOT / "README-SAR.md", ROOT / "template.yaml"),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "templates").glob("*.yaml"),
    *(ROOT / "functions").rglob("*.py"),
    *(ROOT / "layers").rglob("*.py"),
    *(ROOT / "dlq_cli").rglob("*.py"),
    *(ROOT / "spark_reprocess").rglob("*.py"),
]


def complaints(path: Path, text: str) -> tuple[int, str]:
    path.write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path)], check=False, capture_output=True, text=True
    )
    return done.returncode, done.stderr


def with_home_page(address: str) -> str:
    named = SOURCE.replace("      Url: none\n", f"      Url: {address}\n")
    lines = f"    HomePageUrl: {address}\n    SourceCodeUrl: {address}\n{VERSION}"
    return named.replace(VERSION, lines)


def test_publishing_is_refused_until_the_template_names_a_home_page(tmp_path: Path) -> None:
    # When there is one, this line goes, and the placeholder can never come back.
    code, said = complaints(tmp_path / "template.yaml", SOURCE)

    assert code == 1
    assert all(one in said for one in ("Project.HomePage.Url", "HomePageUrl", "SourceCodeUrl"))


def test_it_is_accepted_with_one(tmp_path: Path) -> None:
    assert complaints(tmp_path / "template.yaml", with_home_page(HOME_PAGE)) == (0, "")


@pytest.mark.parametrize(
    "address", ["https://github.com/example/it", "https://github.com/OWNER/REPO", "http://a.dev/b"]
)
def test_a_placeholder_is_no_home_page(address: str, tmp_path: Path) -> None:
    assert complaints(tmp_path / "template.yaml", with_home_page(address))[0] == 1


def test_make_publish_asks_first() -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\npublish:")[2].partition("\n\n")[0]

    assert recipe.index("require_home_page.py template.yaml") < recipe.index(" publish --template")


@pytest.mark.parametrize("path", SEEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_placeholder_address_is_left_in_what_a_user_sees(path: Path) -> None:
    found = re.findall(
        r"https?://(?:www\.)?example\.\w+|\w+\.com/(?:example|OWNER|USER)/\S*|\bOWNER/REPO\b",
        path.read_text("utf-8"),
    )

    assert found == []


def test_the_dashboard_links_to_the_home_page_if_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text(with_home_page(HOME_PAGE), "utf-8")
    named = Stack.of(load_template(tmp_path / "template.yaml"), SPARK_JOB)

    assert f"({HOME_PAGE}/blob/main/docs/alarms.md)" in dashboard_text(named)
    assert "docs/" not in dashboard_text(Stack.of(TEMPLATE, SPARK_JOB))


def dashboard_text(stack: Stack) -> str:
    [dashboard] = stack.of_type("AWS::CloudWatch::Dashboard").values()
    return str(dashboard["DashboardBody"])


def test_the_advice_for_spark_names_the_packages_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    packages = project["optional-dependencies"]["spark"]

    assert shlex.split(SPARK_INSTALL) == [sys.executable, "-m", "pip", "install", *packages]


@pytest.mark.parametrize("path", SEEN, ids=lambda path: path.name)
def test_no_advice_installs_a_name_that_nobody_has_published(path: Path) -> None:
    assert not re.search(r"install\b[^\n]* ['\"]?sqs[-_]dlq[-_]replay", path.read_text("utf-8"))
