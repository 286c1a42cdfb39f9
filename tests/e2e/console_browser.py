"""A console in a process of its own, and a page of a real browser that has opened it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.e2e.processes import Family, Process, send_signal
from tests.small_jobs import QUICK_SPARK

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/open\?token=\S+")
WORK_MS = 600_000
"""How long a command may take on a busy machine."""


@dataclass
class Desk:
    """Where somebody works: an archive, queues, and the state of this user's consoles.

    Attributes:
        options: of ``dlq console``.
        state: the folder in which work survives the console.
        environment: of the console, and so of its work.
    """

    options: tuple[str, ...]
    state: Path
    environment: dict[str, str] = field(default_factory=dict)
    family: Family = field(default_factory=Family)

    @contextmanager
    def console(self, browser: Browser, **context: object) -> Iterator[tuple[Page, int]]:
        """Start a console and open it; yield the page and the console's process id."""
        process = subprocess.Popen(
            [sys.executable, "-m", "dlq_cli", "console", "--no-browser", *self.options],
            cwd=ROOT,
            env={
                **os.environ,
                **QUICK_SPARK,
                **self.environment,
                **self.family.environment,
                "XDG_STATE_HOME": str(self.state),
                "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "layers" / "core"))),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout
            lines = iter(process.stdout.readline, "")
            address = next(found[0] for line in lines if (found := ADDRESS.search(line)))
            with browser.new_context(viewport={"width": 1280, "height": 900}, **context) as profile:  # type: ignore[arg-type]
                page = profile.new_page()
                page.goto(address)
                page.wait_for_url(re.compile(r"/$"))
                yield page, process.pid
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()

    def workers(self) -> list[Process]:
        """Every process of the work that runs: its own, the JVM's, Spark's."""
        alive = self.family.alive()
        return [
            one for one in alive if "dlq_cli" not in one.command or "console" not in one.command
        ]

    def kill_work(self) -> None:
        send_signal(signal.SIGKILL, self.workers())

    def kill_everything(self) -> None:
        send_signal(signal.SIGKILL, self.family.alive())


def wait_for_state(page: Page, state: str) -> None:
    """Wait until the page of a work says so."""
    expect(page.locator(".state .badge")).to_have_text(state, timeout=WORK_MS)


def wait_for_step(page: Page, text: str) -> None:
    """Wait until a work is at a step, and says how far it is."""
    expect(page.locator("#now")).to_contain_text(re.compile(text), timeout=WORK_MS)
