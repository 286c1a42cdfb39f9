import pytest

from benchmarks.findings import Finding, Side, Target, at_least, at_most


@pytest.mark.parametrize(
    ("target", "figure", "is_met"),
    [
        (at_least(25), 25, True),
        (at_least(25), 24.99, False),
        (at_most(0.11), 0.11, True),
        (at_most(0.11), 0.12, False),
    ],
)
def test_a_target_is_met_on_its_bound(target: Target, figure: float, is_met: bool) -> None:
    assert is_met == target.is_met_by(figure)


def test_ratios_are_taken_turn_by_turn() -> None:
    """What slows a whole turn leaves its ratio alone; the ratio of medians would not tell."""
    product, baseline = Side("a second", [100, 10, 30]), Side("a second", [10, 1, 2])
    finding = Finding.of_ratio("it", product, baseline, at_least(10))

    assert finding.values == [10, 10, 15]
    assert finding.figure == 10
    assert finding.is_met


def test_what_has_no_target_is_never_missed() -> None:
    assert Finding("time", [9e9], "ms").is_met


def test_targets_read_like_formulas() -> None:
    assert ["≥ 25", "≤ 0.11"] == [str(at_least(25)), str(at_most(0.11))]
