"""A console whose jobs are noted and not run, and jobs as they are after their end."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dlq.archive.storage.files import Archive
from dlq.cli.verbs.redrive import redrive_fields
from dlq.console.jobs import Job, Jobs
from dlq.console.site import Console
from dlq.redrive.summary import GroupResult, RedriveSummary
from tests.support.console_world import NOW, Browser, plan_of

MAIN = "http://localhost/123456789012/main"
PARKED = "http://localhost/123456789012/parked"
QUEUES = {"main-queue-url": MAIN, "parked-queue-url": PARKED}


@dataclass
class DeadJobs:
    """A console whose commands are noted and not run: each has died at once."""

    archive: Archive
    console: Console
    browser: Browser

    @property
    def jobs(self) -> Jobs:
        return self.console.jobs

    @property
    def plan_id(self) -> str:
        return plan_of(self.archive).plan_id

    @property
    def group_id(self) -> str:
        return plan_of(self.archive).groups[0].group_id

    def post(self, path: str, **fields: str) -> Any:
        return self.browser.post(path, {"start_id": self.jobs.make_id(), **fields})

    def started(self, path: str, **fields: str) -> list[str]:
        """Send a form; return the words of the command that it started."""
        answer = self.post(path, **fields)
        assert answer.status_code == 303, answer.text
        job = self.jobs.get(answer.headers["location"].rpartition("/")[2])
        assert job
        return list(job.command)

    def refused(self, path: str, **fields: str) -> str:
        """Send a form that starts nothing; return why."""
        before = len(self.jobs.all())
        answer = self.post(path, **fields)
        assert answer.status_code == 422, answer.text
        assert len(self.jobs.all()) == before
        return str(re.sub(r"\s+", " ", answer.text))

    def ended(
        self, words: list[str], answer: Any = None, exit_code: int | None = 0, errors: str = ""
    ) -> Job:
        """Write down a job that has ended; without an exit code, one that has died."""
        job = self.jobs.start(self.jobs.make_id(), words)
        if exit_code is not None:
            end = {"exit_code": exit_code, "ended_at": NOW.timestamp() + 60}
            job.folder.joinpath("end.json").write_text(json.dumps(end))
        if answer is not None:
            job.folder.joinpath("answer").write_text(json.dumps(answer))
        job.folder.joinpath("errors").write_text(errors)
        while (current := self.jobs.get(job.job_id)) and current.is_running:
            time.sleep(0.01)
        assert current
        return current

    def page(self, job: Job) -> str:
        answer = self.browser.get(f"/jobs/{job.job_id}")
        assert answer.status_code == 200
        return str(answer.text)

    def dry_run(self, *more: str, **changes: Any) -> Job:
        sha256 = plan_of(self.archive).only(self.group_id).decisions_sha256
        answer = redrive_answer(self, decisions_sha256=sha256, **changes)
        return self.ended([*self.preview_words, *more], answer)

    @property
    def preview_words(self) -> list[str]:
        place = ["--archive", self.archive.root, "--main-queue-url", MAIN]
        what = ["--plan", self.plan_id, "--group", self.group_id]
        return ["redrive", *place, "--parked-queue-url", PARKED, *what]


def a_problem(text: str, disposition: str = "edit_failed") -> dict[str, Any]:
    return {
        "group_id": "",
        "disposition": disposition,
        "count": 2,
        "detail": text,
        "examples": [text],
    }


def redrive_answer(world: DeadJobs, counts: Mapping[str, int] | None = None, **more: Any) -> Any:
    group = GroupResult(world.group_id, "", "redrive", counts or {"send": 20})
    summary = RedriveSummary(world.plan_id, "", {MAIN: 20}, (group,), ())
    return {"version": 1, **redrive_fields(summary), **more}
