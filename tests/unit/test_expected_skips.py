import pytest

from tests.support.expected_skips import SkipCheck, parse

EXPECTED = """
# a comment
tests/e2e/test_a.py::test_event?docker-* | no image *
tests/* | the file is not here
"""


@pytest.mark.parametrize(
    ("node_id", "reason", "is_expected"),
    [
        ("tests/e2e/test_a.py::test_event[docker-fifo]", "no image x: denied\nby y", True),
        ("tests/e2e/test_a.py::test_event[emulator-fifo]", "no image x", False),
        ("tests/e2e/test_a.py::test_event[docker-fifo]", "something else", False),
        ("tests/unit/b/test_c.py::test_d", "the file is not here", True),
    ],
)
def test_a_skip_is_expected_for_its_reason(node_id: str, reason: str, is_expected: bool) -> None:
    check = SkipCheck(parse(EXPECTED))

    check.note(node_id, reason)

    assert list(check.lines()) == ([] if is_expected else [f"{node_id}: {reason}"])
