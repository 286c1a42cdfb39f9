"""Stopping an application: runs first, then the application, then a wait until it is at rest."""

import json
from typing import Any

import pytest

from functions.custom_resource import answer_to
from functions.stop_application import handler
from functions.stop_application.handler import NotStoppedError, stop


class Application:
    """An EMR Serverless application: runs take a look to be cancelled, stopping takes another."""

    def __init__(self, state: str, **runs: str) -> None:
        self.state = state
        self.runs = runs
        self.asked: list[str] = []

    def get_paginator(self, name: str) -> "Application":
        assert name == "list_job_runs"
        return self

    def paginate(self, applicationId: str, states: list[str]) -> list[dict[str, Any]]:  # noqa: N803
        live = [{"id": i, "state": state} for i, state in self.runs.items() if state in states]
        self.runs = {i: "CANCELLED" if s == "CANCELLING" else s for i, s in self.runs.items()}
        return [{"jobRuns": [run]} for run in live]

    def cancel_job_run(self, applicationId: str, jobRunId: str) -> None:  # noqa: N803
        self.asked.append(f"cancel {jobRunId}")
        self.runs[jobRunId] = "CANCELLING"

    def get_application(self, applicationId: str) -> dict[str, Any]:  # noqa: N803
        state = self.state
        self.state = {"STOPPING": "STOPPED", "STARTING": "STARTED"}.get(state, state)
        return {"application": {"state": state}}

    def stop_application(self, applicationId: str) -> None:  # noqa: N803
        assert not {"RUNNING", "CANCELLING"} & set(self.runs.values())
        self.asked.append("stop")
        self.state = "STOPPING"


def stopped(application: Application, looks: int = 20) -> Application:
    left = iter(range(looks, -1, -1))
    stop(application, "a-1", lambda: next(left), sleep=lambda _: None)
    return application


@pytest.mark.parametrize("state", ["CREATED", "STOPPED", "TERMINATED"])
def test_an_application_at_rest_is_left_alone(state: str) -> None:
    assert stopped(Application(state)).asked == []


def test_runs_are_cancelled_before_the_application_is_stopped() -> None:
    application = stopped(Application("STARTED", done="SUCCESS", one="RUNNING", two="PENDING"))

    assert application.asked == ["cancel one", "cancel two", "stop"]
    assert application.state == "STOPPED"


def test_an_application_that_is_starting_is_stopped_once_it_has() -> None:
    assert stopped(Application("STARTING")).asked == ["stop"]


def test_one_that_does_not_stop_in_time_is_named() -> None:
    with pytest.raises(NotStoppedError, match="a-1 did not stop in time"):
        stopped(Application("STARTED", one="RUNNING"), looks=1)


def event(kind: str) -> dict[str, Any]:
    return {
        "RequestType": kind,
        "RequestId": "r",
        "StackId": "s",
        "LogicalResourceId": "StopBeforeDelete",
        "ResponseURL": "https://cloudformation.example",
        "ResourceProperties": {"ApplicationId": "a-1"},
    }


@pytest.mark.parametrize(("kind", "asked"), [("Create", []), ("Update", []), ("Delete", ["stop"])])
def test_only_a_delete_stops_it(
    kind: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    application = Application("STARTED")
    monkeypatch.setattr(handler, "_client", lambda: application)
    monkeypatch.setattr(handler, "CHECK_SECONDS", 0)
    sent: list[bytes] = []

    answer_to(
        event(kind),
        lambda event: handler._act(event, lambda: 1.0),  # noqa: SLF001 - what the handler does
        lambda _, content: sent.append(content),
    )

    assert application.asked == asked
    assert [json.loads(one)["Status"] for one in sent] == ["SUCCESS"]
