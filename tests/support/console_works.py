"""A console whose long work is noted and not run, and works as they are after their end."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dlq.archive.storage.files import Archive
from dlq.cli.verbs.redrive import redrive_fields
from dlq.console.site import Console
from dlq.console.work import Work, Works
from dlq.redrive.redrive_values import GroupOutcome, RedriveSummary
from tests.support.console_world import NOW, Browser, plan_of

MAIN = "http://localhost/123456789012/main"
PARKED = "http://localhost/123456789012/parked"
QUEUES = {"main-queue-url": MAIN, "parked-queue-url": PARKED}


@dataclass
class DeadWorks:
    """A console whose commands are noted and not run: each has died at once."""

    archive: Archive
    console: Console
    browser: Browser

    @property
    def works(self) -> Works:
        return self.console.works

    @property
    def plan_id(self) -> str:
        return plan_of(self.archive).plan_id

    @property
    def group_id(self) -> str:
        return plan_of(self.archive).groups[0].group_id

    def post(self, path: str, **fields: str) -> Any:
        return self.browser.post(path, {"start_id": self.works.make_id(), **fields})

    def started(self, path: str, **fields: str) -> list[str]:
        """Send a form; return the words of the command that it started."""
        answer = self.post(path, **fields)
        assert answer.status_code == 303, answer.text
        work = self.works.get(answer.headers["location"].rpartition("/")[2])
        assert work
        return list(work.words)

    def refused(self, path: str, **fields: str) -> str:
        """Send a form that starts nothing; return why."""
        before = len(self.works.all())
        answer = self.post(path, **fields)
        assert answer.status_code == 422, answer.text
        assert len(self.works.all()) == before
        return str(re.sub(r"\s+", " ", answer.text))

    def ended(
        self, words: list[str], answer: Any = None, exit_code: int | None = 0, errors: str = ""
    ) -> Work:
        """Write down a work that has ended; without an exit code, one that has died."""
        work = self.works.start(self.works.make_id(), words)
        if exit_code is not None:
            end = {"exit_code": exit_code, "ended_at": NOW.timestamp() + 60}
            work.folder.joinpath("end.json").write_text(json.dumps(end))
        if answer is not None:
            work.folder.joinpath("answer").write_text(json.dumps(answer))
        work.folder.joinpath("errors").write_text(errors)
        while (found := self.works.get(work.work_id)) and found.is_running:
            time.sleep(0.01)
        assert found
        return found

    def page(self, work: Work) -> str:
        answer = self.browser.get(f"/works/{work.work_id}")
        assert answer.status_code == 200
        return str(answer.text)

    def dry_run(self, *more: str, **changes: Any) -> Work:
        sha256 = plan_of(self.archive).only(self.group_id).decisions_sha256
        answer = redrive_answer(self, decisions_sha256=sha256, **changes)
        return self.ended([*self.preview_words, *more], answer)

    @property
    def preview_words(self) -> list[str]:
        place = ["--archive", self.archive.root, "--main-queue-url", MAIN]
        what = ["--plan", self.plan_id, "--group", self.group_id]
        return ["redrive", *place, "--parked-queue-url", PARKED, *what]


def a_problem(text: str, word: str = "edit_failed") -> dict[str, Any]:
    return {"group_id": "", "word": word, "count": 2, "detail": text, "examples": [text]}


def redrive_answer(world: DeadWorks, counts: Mapping[str, int] | None = None, **more: Any) -> Any:
    group = GroupOutcome(world.group_id, "", "redrive", counts or {"send": 20})
    summary = RedriveSummary(world.plan_id, "", {MAIN: 20}, (group,), ())
    return {"version": 1, **redrive_fields(summary), **more}
