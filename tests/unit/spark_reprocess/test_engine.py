"""The engine of many machines tells a session on one machine from a cluster."""

import pytest

from spark_reprocess.engine import is_one_machine


@pytest.mark.parametrize(
    ("master", "is_local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,4]", True),
        ("local-cluster[2,1,1024]", False),
        ("yarn", False),
        ("spark://host:7077", False),
        (None, False),
    ],
)
def test_one_machine_has_the_cores_that_it_has(master: str | None, *, is_local: bool) -> None:
    assert is_one_machine(master) is is_local
