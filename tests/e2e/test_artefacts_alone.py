"""What ``sam build`` made: everything imports with the layer and the runtime's boto3 alone."""

from pathlib import Path

import pytest

from tests.support.isolation import import_all, installed_alone
from tests.support.needs import needs_build

BUILD = Path(__file__).parents[2] / ".aws-sam" / "build"
LAYER = BUILD / "CoreLayer" / "python"

pytestmark = needs_build


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_alone(tmp_path_factory.mktemp("lambda") / "runtime", ["boto3"])


def test_every_module_of_the_layer_can_be_imported(runtime: Path) -> None:
    found = import_all(["dlq_replay"], [LAYER, runtime])

    assert len(found) > 20
    assert all(Path(place).is_relative_to(LAYER) for place in found.values())


@pytest.mark.parametrize(
    ("artefact", "layers"),
    [
        (BUILD / "ReplayFunction", [LAYER]),
        (BUILD / "ReminderFunction", [LAYER]),
        (BUILD / "PublishJobFunction", []),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_every_function_can_be_imported(artefact: Path, layers: list[Path], runtime: Path) -> None:
    found = import_all(["handler"], [artefact, *layers, runtime])

    assert Path(found["handler"]) == artefact / "handler.py"


def test_the_publisher_carries_the_job() -> None:
    job = BUILD / "PublishJobFunction" / "job"

    assert {"spark_reprocess.zip", "glue_job.py"} <= {path.name for path in job.iterdir()}
