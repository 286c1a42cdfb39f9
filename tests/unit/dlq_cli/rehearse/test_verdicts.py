from typing import Any

import pytest

from dlq_cli.rehearse.verdicts import (
    Failure,
    doubt_of,
    failure_of,
    junit,
    kinds_of,
    sentence,
    verdict_of,
)
from spark_reprocess.analysis.mask import compile_masks
from spark_reprocess.archive.rehearsals import MessageVerdict, Verdict

MASKS = compile_masks(())


def failure(answer: Any) -> Failure | None:
    return failure_of({"kind": "returned", "answer": answer}, "m-1", 30)


@pytest.mark.parametrize(
    "answer",
    [
        *(None, "", {}, {"batchItemFailures": None}, {"batchItemFailures": []}),
        {"statusCode": 200},
    ],
)
def test_answers_with_which_lambda_deletes_the_message(answer: Any) -> None:
    assert failure(answer) is None
    assert doubt_of({"kind": "returned", "answer": answer}) == ""


@pytest.mark.parametrize(
    "items",
    [
        [{"itemIdentifier": "m-1"}],
        [{"itemIdentifier": ""}],
        [{"itemIdentifier": None}],
        [{"itemIdentifier": "m-2"}],
        [{"itemIdentifier": "m-1"}, {"itemIdentifier": ["m-1"]}],
        [{"identifier": "m-1"}],
        ["m-1"],
        "m-1",
        {"itemIdentifier": "m-1"},
    ],
)
def test_answers_with_which_the_message_comes_back(items: Any) -> None:
    assert failure({"batchItemFailures": items}) is not None


@pytest.mark.parametrize("answer", ["done", True, 0, ["m-1"]])
def test_answer_that_is_no_object_is_in_doubt(answer: Any) -> None:
    assert doubt_of({"kind": "returned", "answer": answer})


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ({"kind": "raised", "type": "KeyError", "text": "'vat'"}, "KeyError: 'vat'"),
        ({"kind": "timeout"}, "Timeout: no answer after 30 s"),
        ({"kind": "ended", "code": 3}, "ProcessEnded: exit code 3"),
        ({"kind": "ended", "code": -11}, "ProcessEnded: killed by SIGSEGV"),
        ({"kind": "ended", "code": -99}, "ProcessEnded: killed by signal 99"),
        ({"kind": "ended", "code": None}, "ProcessEnded: it closed its connection"),
        ({"kind": "refused", "type": "OSError", "text": "x"}, "ImportFailed: OSError: x"),
    ],
)
def test_reason_of_each_failure(outcome: dict[str, Any], reason: str) -> None:
    found = failure_of(outcome, "m-1", 30.0)

    assert found is not None
    assert found.reason(MASKS) == reason


def test_what_is_missing_counts_more_than_what_the_handler_did() -> None:
    failed = Failure("KeyError", "'vat'")
    for found in (None, failed):
        verdict = verdict_of("m-1", "{}", found, ["s3:GetObject is not stubbed"], None, MASKS)

        assert verdict == MessageVerdict("m-1", Verdict.UNKNOWN, "s3:GetObject is not stubbed")


def test_failure_is_new_if_its_signature_is_not_the_group_s() -> None:
    known = Failure("TimeoutError", "no answer after 3 s").signature("{}").group_id
    own_kinds = frozenset([known])

    def is_new(kind: str, text: str, own: frozenset[str] | None = own_kinds) -> bool:
        return verdict_of("m", "{}", Failure(kind, text), (), own, MASKS).is_new_kind

    assert not is_new("TimeoutError", "no answer after 5 s")
    assert is_new("KeyError", "'vat'")
    # Where no failure was recorded, and where none is known now, nothing can be compared.
    assert not is_new("KeyError", "'vat'", None)
    assert not is_new("", "unknown")


def test_sentence_counts_by_reason_and_what_would_be_written() -> None:
    verdicts = [
        *(MessageVerdict(f"p{n}", Verdict.PASS) for n in range(1120)),
        *(
            MessageVerdict(f"f{n}", Verdict.FAIL, "KeyError: 'vat'", is_new_kind=True)
            for n in range(13)
        ),
        *(
            MessageVerdict(f"u{n}", Verdict.UNKNOWN, "dynamodb:GetItem is not stubbed")
            for n in range(12)
        ),
    ]

    assert sentence(kinds_of(verdicts), {"dynamodb:PutItem": 1120}) == (
        "1,145 messages: 1,120 would pass, 13 fail with KeyError: 'vat' (a new kind), "
        "12 unknown (dynamodb:GetItem is not stubbed) · recorded: 1,120 dynamodb:PutItem"
    )


def test_junit_of_nothing_is_valid() -> None:
    assert b'tests="0"' in junit([], "g-1", "app:handler")
