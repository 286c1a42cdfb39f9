"""A fleet is collected and redriven by the console: its forms, real jobs, real queues."""

import json
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from dlq.aws.clients import aws_session
from dlq.cli.verbs import console as console_verb
from dlq.console.jobs import Job
from dlq.console.site import Console
from dlq.inspect.status import StatusOptions, status
from dlq.plan.plan import PlannedGroup
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import SendEntry
from local_sqs.server import serve_in_thread
from tests.contract.template import ROOT
from tests.support.builders import context, counter
from tests.support.console_world import Browser, opened, plan_of
from tests.support.installation import FLEET, QUEUE_TAG, fleet_outputs, make_stack
from tests.support.served import served_aws
from tests.support.sqs_driver import receive_all

MEMBERS = ("orders", "mails")
EACH = 5
"""Parked messages of each member."""


@dataclass
class FleetDesk:
    """An operator at the console of a fleet."""

    console: Console
    browser: Browser
    queues: dict[str, SqsQueue]

    def started(self, path: str, **fields: str) -> Job:
        """Send a form, and wait for the end of the job that it starts."""
        jobs = self.console.jobs
        answer = self.browser.post(path, {"start_id": jobs.make_id(), **fields})
        assert answer.status_code == 303, answer.text
        job_id = answer.headers["location"].rpartition("/")[2]
        deadline = time.monotonic() + 120
        while True:
            job = jobs.get(job_id)
            assert job
            if not job.is_running:
                return job
            assert time.monotonic() < deadline, job
            time.sleep(0.1)

    def group_of(self, queue: str) -> PlannedGroup:
        """The group of the plan whose messages came from that queue."""
        rows = self.browser.get(f"/?queue={queue}", headers={"hx-request": "true"}).text
        groups = plan_of(self.console.archive).groups
        (group,) = [group for group in groups if f"/groups/{group.group_id}" in rows]
        return group

    def dry_run(self, group: PlannedGroup) -> Job:
        plan = plan_of(self.console.archive)
        return self.started("/redrive", plan=plan.plan_id, what=group.group_id)

    def execution(self, dry_run: Job) -> Job:
        return self.started(
            "/redrive/execute", after=dry_run.job_id, how="all", reason="it is fixed"
        )

    def arrived(self) -> dict[str, list[str]]:
        """The bodies that came to each queue, without those to which none did."""
        arrived = {}
        for name, queue in self.queues.items():
            bodies = sorted(message.body for message in receive_all(queue))
            if bodies:
                arrived[name] = bodies
        return arrived

    def counts(self) -> dict[str, int]:
        """The states of the messages in the archive."""
        return dict(status(StatusOptions(self.console.archive.root)).counts)


def parked_message(source: str, number: int) -> SendEntry:
    error = FailureError(f"{source.title()}Error", "no answer after 3 s")
    body = body_of(source, number)
    ours = context(
        body,
        first_id=f"{source}-{number}",
        reason="attempts_exhausted",
        error=error,
        source_queue=source,
    )
    return SendEntry(body, {**ours, **counter("5")})


def body_of(source: str, number: int) -> str:
    return json.dumps({"of": source, "id": number})


def bodies_of(source: str) -> list[str]:
    return [body_of(source, number) for number in range(EACH)]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetDesk]:
    """A fleet of two DLQs with parked messages of both, and the console of its stack."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), str(ROOT / "layers" / "core"))))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with serve_in_thread() as sqs_server, served_aws() as aws:
        monkeypatch.setenv("AWS_ENDPOINT_URL", sqs_server.url)
        monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", aws)
        queues = make_queues()
        queues["parked"].send([parked_message(name, n) for name in MEMBERS for n in range(EACH)])

        outputs = fleet_outputs(
            ArchiveUri=str(tmp_path / "archive"),
            ParkedQueueArn=queues["parked"].describe()["QueueArn"],
        )
        # Without a table nobody can count what fails again, so all goes at once.
        del outputs["FailureTableName"]
        with monkeypatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", aws)
            make_stack(FLEET, **outputs)

        console = console_verb.console_of(console_options())
        yield FleetDesk(console, opened(console), queues)


def make_queues() -> dict[str, SqsQueue]:
    client = boto3.client("sqs")
    queues: dict[str, SqsQueue] = {}

    def make(name: str, target: str = "") -> None:
        attributes = {}
        if target:
            policy = {
                "deadLetterTargetArn": queues[target].describe()["QueueArn"],
                "maxReceiveCount": 5,
            }
            attributes["RedrivePolicy"] = json.dumps(policy)
        url = client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]  # type: ignore[arg-type]
        queues[name] = SqsQueue(client, url)

    make("parked")
    for name in MEMBERS:
        make(f"{name}-dlq", "parked")
        make(name, f"{name}-dlq")
        for member in (name, f"{name}-dlq"):
            client.tag_queue(QueueUrl=queues[member].url, Tags={"dlq-replay": QUEUE_TAG})
    return queues


def console_options() -> Namespace:
    parser = ArgumentParser()
    console_verb.VERB.add_arguments(parser)
    options: dict[str, Any] = vars(parser.parse_args([]))
    return Namespace(**{**options, "stack": FLEET, "session": aws_session()})


def test_each_message_of_a_fleet_goes_to_its_own_queue(desk: FleetDesk) -> None:
    assert desk.started("/jobs/collect").exit_code == 0
    orders = desk.group_of("orders")

    dry_run = desk.dry_run(orders)
    assert dry_run.exit_code == 0, dry_run.errors()
    assert desk.arrived() == {}
    execution = desk.execution(dry_run)

    assert execution.exit_code == 0, execution.errors()
    assert desk.arrived() == {"orders": bodies_of("orders")}
    assert desk.counts() == {"pending": EACH, "sent": EACH}

    assert desk.execution(desk.dry_run(desk.group_of("mails"))).exit_code == 0
    assert desk.arrived() == {"mails": bodies_of("mails")}
    assert desk.counts() == {"pending": 0, "sent": 2 * EACH}
    # The same again sends nothing: the ledger has it all.
    desk.execution(desk.dry_run(orders))
    assert desk.arrived() == {}


def test_a_queue_that_left_the_fleet_gets_nothing_and_the_page_says_so(desk: FleetDesk) -> None:
    assert desk.started("/jobs/collect").exit_code == 0
    mails = desk.group_of("mails")
    dry_run = desk.dry_run(mails)
    # It leaves between the dry run and the form that executes it.
    boto3.client("sqs").untag_queue(QueueUrl=desk.queues["mails"].url, TagKeys=["dlq-replay"])

    execution = desk.execution(dry_run)

    assert desk.arrived() == {}
    assert desk.counts() == {"pending": 2 * EACH}
    page = desk.browser.get(f"/jobs/{execution.job_id}").text
    assert "0 messages sent." in page
    assert "5 left: they came from another main queue" in page
    assert "it or its dead-letter queue does not have the tag" in page
    assert "[mails]" in page
