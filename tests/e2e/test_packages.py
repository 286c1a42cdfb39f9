"""Each build and package holds all that it needs where it will run, and no more than is allowed.

``make build`` comes first for what ``sam build`` and ``sam package`` make.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
import yaml
from packaging.requirements import Requirement

from dlq.cli.running import VERBS
from tests.contract.cloudformation import load_template
from tests.support.needs import needs_build
from tests.support.served import served_aws

ROOT = Path(__file__).parents[2]
BUILD = ROOT / ".aws-sam" / "build"
LAYER = BUILD / "CoreLayer" / "python"

# https://github.com/awslabs/aws-glue-libs, base-requirements.txt, and Spark itself.
ON_THE_CLUSTER = ["boto3", "numpy", "pandas", "pyarrow", "pyspark"]

IMPORT = """
import importlib, json, pkgutil, sys

path, refused, names, left_out = map(json.loads, sys.argv[1:])
sys.path[1:1] = path

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, NotInstalled())
found = {}
for name in names:
    package = importlib.import_module(name)
    found[name] = package.__file__
    for module in pkgutil.walk_packages(getattr(package, "__path__", []), f"{name}."):
        if not any(f"{module.name}.".startswith(f"{one}.") for one in left_out):
            found[module.name] = importlib.import_module(module.name).__file__
print(json.dumps(found))
"""

NOT_ON_A_CLUSTER = {
    "dlq.__main__": "runs",
    "spark_reprocess.__main__": "runs",
    "dlq.cli.command": "the dlq command, on an operator's machine; the job has dlq.cli.running",
    "dlq.cli.job": "starts the dlq command as a job of the console",
    "dlq.console": "serves pages to an operator's browser",
    "dlq.local_engine": "the engine of a machine without Spark",
    "dlq.sql.duckdb_engine": "evaluates SQL for it",
}
"""Modules that a cluster need not import, and why."""

IN_TASKS = (
    "dlq.archive.messages.message_reading",
    "dlq.drain.drain",
    "dlq.explain.differences.features",
    "dlq.explain.signature.signature",
    "dlq.redrive.sending.send_task",
    "spark_reprocess.engine",
)
"""Modules that Spark's workers load: the functions of the engine's tasks, and what they call."""

NOT_IN_TASKS = ("duckdb", "jinja2", "multipart", "rich", "starlette", "uvicorn")


def installed_alone(folder: Path, names: Iterable[str]) -> Path:
    """Fill *folder* with links to these distributions and what they require; return it."""
    folder.mkdir()
    wanted = list(names)
    seen = set[str]()
    while wanted:
        name = wanted.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)

        package = distribution(name)
        for requirement in map(Requirement, package.requires or ()):
            if not requirement.marker or requirement.marker.evaluate():
                wanted.append(requirement.name)

        for top in {file.parts[0] for file in package.files or () if file.parts[0] != ".."}:
            link = folder / top
            if top != "__pycache__" and not link.exists():
                link.symlink_to(Path(str(package.locate_file(top))))

    return folder


def import_all(
    packages: Iterable[str],
    path: Iterable[Path],
    refused: Iterable[str] = (),
    left_out: Iterable[str] = (),
) -> dict[str, str]:
    """Import *packages*, with every module in them, from *path* alone; return where each lay.

    Python runs without environment, current folder and site-packages, as if what is *refused* were
    not installed. Modules that are *left_out* are not imported, nor what is in them.
    """
    words = [json.dumps([*map(str, each)]) for each in (path, refused, packages, left_out)]
    command = [sys.executable, "-I", "-S", "-c", IMPORT, *words]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    imported = json.loads(finished.stdout.splitlines()[-1])
    assert isinstance(imported, dict)
    return imported


# --- The functions and their layer


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the packages that Lambda's Python has."""
    return installed_alone(tmp_path_factory.mktemp("lambda") / "runtime", ["boto3"])


@needs_build
def test_every_module_of_the_layer_can_be_imported(runtime: Path) -> None:
    imported = import_all(["dlq_replay"], [LAYER, runtime])

    assert len(imported) > 20
    assert all(Path(place).is_relative_to(LAYER) for place in imported.values())


@needs_build
@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("ReplayFunction", "handler"),
        ("SweepFunction", "sweep"),
        ("ReminderFunction", "functions.reminder.handler"),
        ("PublishJobFunction", "handler"),
    ],
)
def test_every_function_can_be_imported(name: str, module: str, runtime: Path) -> None:
    imported = import_all([module], [BUILD / name, LAYER, runtime])

    assert Path(imported[module]) == BUILD / name / f"{module.replace('.', '/')}.py"


# --- The Spark job's zip


def package(folder: Path) -> Path:
    subprocess.run([sys.executable, ROOT / "scripts" / "package_job.py", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package(tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_alone(tmp_path_factory.mktemp("spark") / "cluster", ON_THE_CLUSTER)


def test_every_module_of_the_job_can_be_imported_from_the_zip(packed: Path, cluster: Path) -> None:
    archive = packed / "spark_reprocess.zip"

    packages = ["spark_reprocess", "dlq", "dlq_replay"]
    imported = import_all(packages, [archive, cluster], left_out=NOT_ON_A_CLUSTER)

    assert len(imported) > 150
    assert all(Path(place).is_relative_to(archive) for place in imported.values())


def test_tasks_do_without_what_is_for_people_and_for_one_machine(
    packed: Path, cluster: Path
) -> None:
    archive = packed / "spark_reprocess.zip"

    imported = import_all(IN_TASKS, [archive, cluster], NOT_IN_TASKS)

    assert {*IN_TASKS} <= imported.keys()


HELP_OF_EACH = """
import json, os, runpy, sys

def leave(code):
    raise SystemExit(code)

program, verbs = sys.argv[1], json.loads(sys.argv[2])
os._exit = leave
for verb in verbs:
    sys.argv = [program, verb, "--help"]
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        assert not end.code, (verb, end.code)
"""


def test_the_job_reads_its_command_line_from_the_zip(packed: Path, cluster: Path) -> None:
    """One process for all verbs: each would compile anew what it imports from the zip."""
    path = os.pathsep.join(map(str, (packed / "spark_reprocess.zip", cluster)))

    finished = subprocess.run(
        [sys.executable, "-S", "-c", HELP_OF_EACH, packed / "spark_job.py", json.dumps([*VERBS])],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.returncode == 0, finished.stderr
    for verb in VERBS:
        assert f"usage: python -m spark_reprocess {verb} " in finished.stdout, verb


def test_the_same_sources_give_the_same_bytes(packed: Path, tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in packed.iterdir()}
    again = {path.name: path.read_bytes() for path in package(tmp_path / "again").iterdir()}

    assert first.keys() == {"spark_reprocess.zip", "spark_job.py", "glue_job.py"}
    assert first == again


# --- What a deployment and the Serverless Application Repository get


def package_with_sam(target: Path, aws_url: str) -> None:
    """Write the packaged template to *target*; its files go to the bucket ``artefacts``.

    sam takes ``--no-resolve-s3`` only behind the bucket.
    """
    options = {
        "--template-file": BUILD / "template.yaml",
        "--s3-bucket": "artefacts",
        "--region": "us-east-1",
        "--output-template-file": target,
    }
    words = [str(word) for option in options.items() for word in option]
    subprocess.run(
        [ROOT / ".tools" / "sam" / "bin" / "sam", "package", *words, "--no-resolve-s3"],
        cwd=ROOT,
        env={**os.environ, "AWS_ENDPOINT_URL": aws_url, "SAM_CLI_TELEMETRY": "0"},
        check=True,
        capture_output=True,
    )


@needs_build
def test_every_local_file_is_in_the_bucket_and_all_are_small_enough(tmp_path: Path) -> None:
    target = tmp_path / "template.yaml"
    with served_aws() as url:
        s3 = boto3.client("s3", region_name="us-east-1", endpoint_url=url)
        s3.create_bucket(Bucket="artefacts")
        package_with_sam(target, url)
        objects = s3.list_objects_v2(Bucket="artefacts")["Contents"]
    packaged = load_template(target)
    application = packaged["Metadata"]["AWS::ServerlessRepo::Application"]
    properties = [resource["Properties"] for resource in packaged["Resources"].values()]
    uris = [application["LicenseUrl"], application["ReadmeUrl"]]
    uris += [resource["CodeUri"] for resource in properties if "CodeUri" in resource]
    uris += [resource["ContentUri"] for resource in properties if "ContentUri" in resource]

    assert len(uris) == 7
    sizes = {f"/{stored_object['Key']}": stored_object["Size"] for stored_object in objects}
    assert {urlsplit(uri).netloc for uri in uris} == {"artefacts"}
    assert all(sizes[urlsplit(uri).path] > 0 for uri in uris)
    assert sum(sizes.values()) < 50 * 2**20
    # CloudFormation's limit of a template in S3.
    assert len(yaml.safe_dump(packaged)) < 2**20
