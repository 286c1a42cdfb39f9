import pytest

from dlq_replay.addresses import QueueAddress
from dlq_replay.backoff import Backoff
from dlq_replay.errors import SettingsError
from dlq_replay.policy import ReplayPolicy
from dlq_replay.settings import ReplaySettings
from tests.builders import ACCOUNT, environment, queue_arn, queue_url


def faults_of(**overrides: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        ReplaySettings.from_env(environment(**overrides))
    return caught.value.faults


def test_complete_environment_is_read() -> None:
    settings = ReplaySettings.from_env(
        environment(BACKOFF_RATE="0.5", MAX_AGE_SECONDS="3600", LOG_LEVEL="debug")
    )

    assert settings == ReplaySettings(
        main_queue_url=queue_url("main"),
        dlq_url=queue_url("dlq"),
        parked_queue_url=queue_url("parked"),
        policy=ReplayPolicy(QueueAddress(ACCOUNT, "main"), 3, Backoff(0.5, 900), 3600),
        log_level="DEBUG",
    )


@pytest.mark.parametrize(
    "name",
    [
        "OTHER_MAIN_QUEUE_ARNS",
        "MAX_AGE_SECONDS",
        "NON_RETRYABLE_ERRORS",
        "FAILURE_TABLE",
        "BREAKER",
        "LOG_LEVEL",
    ],
)
def test_empty_optional_variable_counts_as_not_set(name: str) -> None:
    assert ReplaySettings.from_env(environment()) == ReplaySettings.from_env(
        environment(**{name: ""})
    )


def test_zero_cap_and_zero_attempts_are_allowed() -> None:
    settings = ReplaySettings.from_env(environment(BACKOFF_CAP_SECONDS="0", MAX_ATTEMPTS="0"))

    assert (0, 0) == (settings.policy.backoff.cap_seconds, settings.policy.max_attempts)


def test_empty_environment_names_every_missing_variable() -> None:
    with pytest.raises(SettingsError) as caught:
        ReplaySettings.from_env({})

    assert [fault.split()[0] for fault in caught.value.faults] == [
        "MAIN_QUEUE_URL",
        "DLQ_URL",
        "PARKED_QUEUE_URL",
        "MAX_ATTEMPTS",
        "BACKOFF_RATE",
        "BACKOFF_CAP_SECONDS",
    ]


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("MAIN_QUEUE_URL", "main", "must be a queue URL"),
        ("MAIN_QUEUE_URL", "https://host/only-a-name", "must be a queue URL"),
        ("DLQ_URL", "arn:aws:sqs:us-east-1:123456789012:dlq", "must be a queue URL"),
        ("MAX_ATTEMPTS", "-1", "must be a whole number from 0 to 1000"),
        ("MAX_ATTEMPTS", "1001", "must be a whole number from 0 to 1000"),
        ("MAX_ATTEMPTS", "three", "must be a whole number from 0 to 1000"),
        ("MAX_ATTEMPTS", "9" * 5000, "must be a whole number from 0 to 1000"),
        ("BACKOFF_RATE", "0", "must be a number of seconds from 0.001 to 43200"),
        ("BACKOFF_RATE", "nan", "must be a number of seconds from 0.001 to 43200"),
        ("BACKOFF_RATE", "fast", "must be a number of seconds from 0.001 to 43200"),
        ("BACKOFF_CAP_SECONDS", "1.5", "must be a whole number from 0 to 1209600"),
        ("MAX_AGE_SECONDS", "0", "must be a whole number from 1 to 31536000"),
        ("OTHER_MAIN_QUEUE_ARNS", "invoices", "must be a queue ARN"),
        ("OTHER_MAIN_QUEUE_ARNS", queue_arn("invoices") + ",", "must be a queue ARN"),
        ("OTHER_MAIN_QUEUE_ARNS", queue_arn("no name"), "must be queue ARNs"),
        ("FAILURE_TABLE", "a b", "must be the name or the ARN of a DynamoDB table"),
        ("BREAKER", "yes", "must be on or off"),
        ("LOG_LEVEL", "LOUD", "must be one of DEBUG, INFO, WARNING, ERROR, CRITICAL"),
    ],
)
def test_fault_names_variable_value_and_rule(name: str, value: str, rule: str) -> None:
    (fault,) = faults_of(**{name: value})

    assert fault.startswith(f"{name}={value}: {rule}")


PATTERNS = "must be error names separated by commas; * and ? stand for any characters"
URLS = "MAIN_QUEUE_URL, DLQ_URL, PARKED_QUEUE_URL"


def other(arn: str, rule: str) -> tuple[dict[str, str], str]:
    return {"OTHER_MAIN_QUEUE_ARNS": arn}, f"OTHER_MAIN_QUEUE_ARNS, {arn}: {rule}"


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (
            {"PARKED_QUEUE_URL": queue_url("dlq")},
            f"{URLS}: must be different queues, or messages would circle",
        ),
        (
            {"MAIN_QUEUE_URL": queue_url("main.fifo")},
            f"{URLS}: must all be standard or all be FIFO (.fifo)",
        ),
        other(queue_arn("main"), "is MAIN_QUEUE_URL"),
        other(queue_arn("dlq"), "is DLQ_URL"),
        other(queue_arn("parked"), "is PARKED_QUEUE_URL"),
        other(queue_arn("invoices.fifo"), "must be standard"),
        other(
            "arn:aws:sqs:us-east-1:999999999999:invoices",
            "must be in the account of the DLQ, 123456789012",
        ),
        other(
            "arn:aws:sqs:eu-west-1:123456789012:invoices",
            "must be in the Region of the DLQ, us-east-1",
        ),
        (
            {"NON_RETRYABLE_ERRORS": "KeyError"},
            "NON_RETRYABLE_ERRORS is set and FAILURE_TABLE is not: it needs both",
        ),
        ({"BREAKER": "on"}, "BREAKER is on and FAILURE_TABLE is not set: it needs both"),
        *(
            (
                {"NON_RETRYABLE_ERRORS": names, "FAILURE_TABLE": "failures"},
                f"NON_RETRYABLE_ERRORS={names}: {PATTERNS}",
            )
            for names in ("a b", "KeyError,", "%")
        ),
    ],
)
def test_settings_that_contradict_each_other_are_one_fault(
    given: dict[str, str], fault: str
) -> None:
    assert faults_of(**given) == (fault,)


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(SettingsError, match=r"MAX_ATTEMPTS=x: must be a whole number") as caught:
        ReplaySettings.from_env(environment(MAX_ATTEMPTS="x", BACKOFF_RATE="", LOG_LEVEL="LOUD"))

    assert [f.split("=")[0].split()[0] for f in caught.value.faults] == [
        "MAX_ATTEMPTS",
        "BACKOFF_RATE",
        "LOG_LEVEL",
    ]


def test_other_main_queues_are_read_with_their_urls() -> None:
    arns = f"{queue_arn('invoices')}, {queue_arn('refunds')},{queue_arn('invoices')}"
    settings = ReplaySettings.from_env(environment(OTHER_MAIN_QUEUE_ARNS=arns))

    assert settings.other_main_queue_urls == {
        QueueAddress(ACCOUNT, name): queue_url(name) for name in ("invoices", "refunds")
    }
    assert {*settings.policy.other_main_queues} == {*settings.other_main_queue_urls}


def test_the_region_is_not_compared_where_the_url_does_not_name_it() -> None:
    local = {name: f"http://localhost:4566/{ACCOUNT}/{name}" for name in ("main", "dlq", "parked")}
    urls = {
        "MAIN_QUEUE_URL": local["main"],
        "DLQ_URL": local["dlq"],
        "PARKED_QUEUE_URL": local["parked"],
    }
    settings = ReplaySettings.from_env(
        environment(OTHER_MAIN_QUEUE_ARNS=queue_arn("invoices"), **urls)
    )

    assert [*settings.other_main_queue_urls.values()] == [
        f"http://localhost:4566/{ACCOUNT}/invoices"
    ]


def test_non_retryable_errors_are_read_with_their_table() -> None:
    settings = ReplaySettings.from_env(
        environment(NON_RETRYABLE_ERRORS="KeyError, schemas.*", FAILURE_TABLE="failures")
    )

    assert settings.policy.non_retryable_errors == ("KeyError", "schemas.*")
    assert settings.failure_table == "failures"


@pytest.mark.parametrize(
    ("given", "has_breaker"),
    [
        ({}, False),
        ({"BREAKER": "off"}, False),
        ({"FAILURE_TABLE": "failures"}, True),
        ({"FAILURE_TABLE": "failures", "BREAKER": "on"}, True),
        ({"FAILURE_TABLE": "failures", "BREAKER": "off"}, False),
    ],
)
def test_the_breaker_is_on_where_its_table_is(given: dict[str, str], *, has_breaker: bool) -> None:
    assert ReplaySettings.from_env(environment(**given)).has_breaker is has_breaker
