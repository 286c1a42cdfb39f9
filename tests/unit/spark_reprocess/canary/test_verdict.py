import pytest
from hypothesis import given
from hypothesis import strategies as st
from spark_reprocess.canary.options import NONE, Share
from spark_reprocess.canary.watch import CanaryReport, Verdict, judge


def came_back(counts: dict[str, int]) -> dict[str, dict[str, str]]:
    return {one: {f"{one}-{n}": "" for n in range(count)} for one, count in counts.items()}


@pytest.mark.parametrize(
    ("sent", "returned", "max_return", "unknown", "verdict"),
    [
        (5, 0, "0", "", Verdict.PASSED),
        (5, 1, "0", "", Verdict.FAILED),
        (5, 1, "1", "", Verdict.PASSED),
        (5, 2, "1", "", Verdict.FAILED),
        (5, 1, "20%", "", Verdict.PASSED),
        (5, 1, "19%", "", Verdict.FAILED),
        (5, 0, "0", "backlog", Verdict.UNKNOWN),
        (5, 1, "0", "backlog", Verdict.FAILED),
        (5, 1, "2", "backlog", Verdict.UNKNOWN),
        (0, 0, "0", "", Verdict.UNKNOWN),
        (0, 1, "0", "", Verdict.FAILED),
        (5, 5, "100%", "", Verdict.PASSED),
    ],
)
def test_verdict_on_a_group(
    sent: int, returned: int, max_return: str, unknown: str, verdict: Verdict
) -> None:
    (one,) = judge({"g": sent}, came_back({"g": returned}), Share.of(max_return), unknown)

    assert one.verdict == verdict
    assert bool(one.why) == (verdict is Verdict.UNKNOWN)


def test_group_without_a_canary_is_unknown() -> None:
    groups = judge({"g": 1}, {}, NONE, never_sent=[("h", "no room")])

    assert [(one.group_id, one.verdict, one.why) for one in groups] == [
        ("g", Verdict.PASSED, ""),
        ("h", Verdict.UNKNOWN, "no room"),
    ]
    assert CanaryReport(groups, 1.0).stopped_groups == ("h",)


counts = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 20))


@given(counts, counts, st.integers(0, 20), st.sampled_from(["", "why"]))
def test_groups_are_judged_each_by_itself(
    sent: dict[str, int], returned: dict[str, int], most: int, unknown: str
) -> None:
    together = judge(sent, came_back(returned), Share.of(str(most)), unknown)

    assert together == tuple(
        judge({one: sent[one]}, came_back(returned), Share.of(str(most)), unknown)[0]
        for one in sent
    )


@given(counts, counts, st.integers(0, 20))
def test_nothing_passes_while_anything_is_unknown(
    sent: dict[str, int], returned: dict[str, int], most: int
) -> None:
    groups = judge(sent, came_back(returned), Share.of(str(most)), "backlog")

    assert CanaryReport(groups, 1.0).stopped_groups == tuple(sent)
