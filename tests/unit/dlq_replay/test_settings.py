import shlex

import pytest

from dlq_replay.backoff import Backoff
from dlq_replay.errors import SettingsError
from dlq_replay.rules.policy import ReplayPolicy
from dlq_replay.settings import ReplaySettings
from tests.support.builders import ACCOUNT, environment, queue_address, queue_arn, queue_url
from tests.support.golden import assert_stored, stored_texts


def faults_of(**overrides: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        ReplaySettings.from_env(environment(**overrides))
    return caught.value.faults


def test_complete_environment_is_read() -> None:
    settings = ReplaySettings.from_env(
        environment(
            MAX_ATTEMPTS="0",
            BACKOFF_RATE="0.5",
            BACKOFF_CAP_SECONDS="0",
            MAX_AGE_SECONDS="3600",
            NON_RETRYABLE_ERRORS="KeyError, schemas.*,",
            FAILURE_TABLE="failures",
            BREAKER="off",
            LOG_LEVEL="debug",
        )
    )

    assert settings == ReplaySettings(
        main_queue_url=queue_url("main"),
        dlq_url=queue_url("dlq"),
        parked_queue_url=queue_url("parked"),
        policy=ReplayPolicy(
            queue_address("main"), 0, Backoff(0.5, 0), 3600, ("KeyError", "schemas.*")
        ),
        failure_table="failures",
        log_level="DEBUG",
    )


def test_empty_optional_variables_count_as_not_set() -> None:
    names = (
        "OTHER_MAIN_QUEUE_ARNS",
        "MAX_AGE_SECONDS",
        "NON_RETRYABLE_ERRORS",
        "FAILURE_TABLE",
        "BREAKER",
        "LOG_LEVEL",
    )
    given = environment(**dict.fromkeys(names, ""))
    assert ReplaySettings.from_env(given) == ReplaySettings.from_env(environment())


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


@pytest.mark.parametrize("variables", stored_texts("refused_settings"))
def test_fault_names_variable_value_and_rule(variables: str) -> None:
    given = dict(variable.split("=", 1) for variable in shlex.split(variables))

    assert_stored("refused_settings", variables, "\n".join(faults_of(**given)))


@pytest.mark.parametrize("base", ["https://sqs.us-east-1.amazonaws.com", "http://localhost:4566"])
def test_other_main_queues_are_read_with_their_urls(base: str) -> None:
    """The region is not compared where the URL does not name it."""
    names = {"MAIN_QUEUE_URL": "main", "DLQ_URL": "dlq", "PARKED_QUEUE_URL": "parked"}
    urls = {variable: f"{base}/{ACCOUNT}/{name}" for variable, name in names.items()}
    arns = f"{queue_arn('invoices')}, {queue_arn('refunds')},{queue_arn('invoices')}"
    settings = ReplaySettings.from_env(environment(OTHER_MAIN_QUEUE_ARNS=arns, **urls))

    assert settings.other_main_queue_urls == {
        queue_address("invoices"): f"{base}/{ACCOUNT}/invoices",
        queue_address("refunds"): f"{base}/{ACCOUNT}/refunds",
    }
    assert {*settings.policy.other_main_queues} == {*settings.other_main_queue_urls}


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
