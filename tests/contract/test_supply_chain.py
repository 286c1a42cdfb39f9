"""Tools that build and release the project are named by their content: others can move a name."""

import re
import tomllib

import pytest
import yaml

from tests.contract.template import ROOT

WORKFLOW_FILES = (ROOT / ".github" / "workflows").glob("*.yml")
WORKFLOWS = {path.name: path.read_text("utf-8") for path in WORKFLOW_FILES}


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


def test_a_wheel_is_built_without_the_set_up_of_the_tests() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    [rule] = re.findall(r"^wheel: (.+?) ##.*\n((?:\t.+\n)+)", makefile, re.MULTILINE)

    assert rule[0] == "$(WHEEL_TOOLS)/.created"
    assert "$(BIN)" not in rule[1]
    assert "--no-build-isolation" in rule[1]


def test_the_tool_that_builds_the_wheel_is_locked_at_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    locked = (ROOT / "requirements" / "build.txt").read_text("utf-8")

    [tool] = project["build-system"]["requires"]
    assert f"\n{tool} " in locked


@pytest.mark.parametrize("name", ["build.txt", "command.txt"])
def test_what_is_built_and_installed_has_the_versions_of_the_tests(name: str) -> None:
    locked = locked_versions(name)

    assert locked
    assert locked <= locked_versions("dev.txt")


def locked_versions(file_name: str) -> set[str]:
    requirements = (ROOT / "requirements" / file_name).read_text()
    return set(re.findall(r"^([\w.-]+==\S+)", requirements, re.MULTILINE))


RELEASE = yaml.safe_load(WORKFLOWS["release.yml"])
JOBS = RELEASE["jobs"]


def steps_of(job: str) -> str:
    """Return what the job runs and uses, a line for each."""
    return "\n".join(step.get("run") or step["uses"] for step in JOBS[job]["steps"])


def test_a_release_has_the_version_of_the_code_and_passes_all_checks_first() -> None:
    steps = steps_of("build").splitlines()
    order = [
        'test "$GITHUB_REF_NAME" = "v$(make --silent version)"',
        ".ci/run",
        "make release",
    ]

    assert [step for step in steps if step in order] == order
    # YAML 1.1 reads the key "on" as true.
    assert RELEASE[True] == {"push": {"tags": ["v*.*.*"]}}
    assert all("build" in JOBS[job]["needs"] for job in JOBS if job != "build")


def test_each_job_of_a_release_may_do_only_what_it_is_there_for() -> None:
    rights = {name: job["permissions"] for name, job in JOBS.items()}

    assert RELEASE["permissions"] == {"contents": "read"}
    assert rights == {
        "build": {"contents": "read", "id-token": "write", "attestations": "write"},
        "image": {"contents": "read", "packages": "write"},
        "pypi": {"id-token": "write"},
        "release": {"contents": "write"},
    }


def test_the_wheel_alone_goes_to_pypi_and_by_trusted_publishing() -> None:
    publish = JOBS["pypi"]["steps"][-1]

    assert publish["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert publish["with"] == {"packages-dir": "wheel"}
    assert "mv dist/*.whl wheel/" in steps_of("pypi")
    assert JOBS["pypi"]["environment"] == "pypi"
    assert "secrets." not in WORKFLOWS["release.yml"]


def test_the_image_of_a_release_is_run_before_it_is_pushed() -> None:
    steps = steps_of("image")

    assert steps.index("make image") < steps.index("docker run") < steps.index("docker push")
    assert "ghcr.io/${GITHUB_REPOSITORY,,}:${GITHUB_REF_NAME#v}" in steps
    assert "latest" not in steps


def test_the_release_has_the_application_and_every_file_that_was_built() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")

    assert "../dist/application.zip build" in makefile.partition("\nrelease:")[2]
    assert steps_of("release").endswith("dist/*")
