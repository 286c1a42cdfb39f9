"""The Spark job's zip: the same bytes each time, and nothing missing that a cluster lacks."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.isolation import import_all, installed_alone

ROOT = Path(__file__).parents[2]


# https://github.com/awslabs/aws-glue-libs, base-requirements.txt, and Spark itself.
ON_THE_CLUSTER = ["boto3", "numpy", "pandas", "pyarrow", "pyspark"]
CARRIED = [
    "jinja2",
    "jsonpatch",
    "jsonpointer",
    "markupsafe",
    "rich",
    "simplejson",
    "sqlglot",
    "yaml",
]


def package(folder: Path) -> Path:
    subprocess.run([sys.executable, ROOT / "scripts" / "package_job.py", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package(tmp_path_factory.mktemp("first"))


def test_every_module_of_the_job_can_be_imported_from_the_zip(packed: Path, tmp_path: Path) -> None:
    archive = packed / "spark_reprocess.zip"
    cluster = installed_alone(tmp_path / "cluster", ON_THE_CLUSTER)

    found = import_all(["spark_reprocess", "dlq_replay"], [archive, cluster])

    assert len(found) > 50
    assert all(Path(place).is_relative_to(archive) for place in found.values())


def test_what_the_cluster_lacks_is_in_the_zip(packed: Path) -> None:
    archive = packed / "spark_reprocess.zip"
    script = f"import sys; sys.path[:] = [{str(archive)!r}, *sys.path]\n" + "\n".join(
        f"import {name}; print({name}.__file__)" for name in CARRIED
    )

    places = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()

    assert all(Path(place).is_relative_to(archive) for place in places)


def test_the_scripts_start_with_nothing_but_the_zip_and_the_cluster(
    packed: Path, tmp_path: Path
) -> None:
    cluster = installed_alone(tmp_path / "cluster", ON_THE_CLUSTER)
    path = [str(packed / "spark_reprocess.zip"), str(cluster)]
    start = (
        f"import runpy, sys; sys.path[1:1] = {path!r}\n"
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    for script, arguments in {
        "spark_job.py": ["--help"],
        "glue_job.py": ["--JOB_NAME", "job", "--command-line", "--help"],
    }.items():
        finished = subprocess.run(
            [sys.executable, "-I", "-S", "-c", start, str(packed / script), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        assert "collect" in finished.stdout


def test_the_same_sources_give_the_same_bytes(packed: Path, tmp_path: Path) -> None:
    again = package(tmp_path / "again")

    names = {one.name for one in packed.iterdir()}
    assert names == {"spark_reprocess.zip", "spark_job.py", "glue_job.py"}
    for name in names:
        assert (packed / name).read_bytes() == (again / name).read_bytes()
