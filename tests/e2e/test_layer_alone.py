"""The layer that ``sam build`` made: every module imports with the Lambda runtime's boto3 alone."""

from pathlib import Path

import pytest

from tests.isolation import import_all, installed_alone

LAYER = Path(__file__).parents[2] / ".aws-sam" / "build" / "CoreLayer" / "python"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not LAYER.is_dir(), reason="not built: run make build first"),
]


def test_every_module_of_the_layer_can_be_imported(tmp_path: Path) -> None:
    runtime = installed_alone(tmp_path / "runtime", ["boto3"])

    found = import_all(["dlq_replay"], [LAYER, runtime])

    assert len(found) > 20
    assert all(Path(place).is_relative_to(LAYER) for place in found.values())
