"""The demo, in order: fail and back off, explain, try too early, fix, account."""

import argparse
import json
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from demo import ROOT, DemoError, InputError
from demo.audit import Account, FinalState, Journal, account, read_archive, read_queue
from demo.functions import Functions
from demo.messages import DemoMessage, read_input
from demo.operator import CONSUMER_LOG, Operator, open_console
from demo.screen import FUNCTION_LOG, Screen, account_table, terminal_only
from demo.shop import BROKEN_SHARE, FIFO_BROKEN_SHARE, Shop, in_groups, invent, select_failures
from demo.world import (
    MAIN_MAX_RECEIVE_COUNT,
    MAX_ATTEMPTS,
    Handler,
    Queue,
    create_queues,
    local_aws,
    poll,
)
from dlq.cli.verb import FAILED_AGAIN
from dlq.figures import counted

# A heartbeat, a backoff and a visibility timeout end within this time.
_PATIENCE_SECONDS = 150

_SETTLED_CHECKS = 3


def play(options: argparse.Namespace, work: Path) -> int:
    """Run the demo in the folder *work* and return its exit code. It ends all its processes.

    Raises:
        DemoError: it cannot begin.
    """
    share = FIFO_BROKEN_SHARE if options.queue == "fifo" else BROKEN_SHARE
    if options.input is None:
        messages = invent(options.messages, options.seed, share)
    else:
        messages = select_failures(read_input(options.input, options.messages), share)
    if options.queue == "fifo":
        messages = in_groups(messages)

    with ExitStack() as stack:
        screen = Screen(stack.enter_context(terminal_only(work)))
        screen.note("Starting an SQS server on this machine ...")
        stack.enter_context(local_aws(work / FUNCTION_LOG))
        run = Run(options, messages, work, screen)
        stack.callback(run.stop)
        stack.enter_context(screen.watching(run.line))
        result = run.play()

    for fault in result.faults:
        sys.stderr.write(f"{fault}\n")
    counts = {**result.counts, "seconds": round(screen.elapsed_seconds, 1)}
    sys.stdout.write(json.dumps(counts) + "\n")
    sys.stdout.flush()
    return 1 if result.faults else 0


class Run:
    """One run: its queues and functions, and its steps; *sent* is what SQS confirmed."""

    def __init__(
        self,
        options: argparse.Namespace,
        messages: Sequence[DemoMessage],
        work: Path,
        screen: Screen,
    ) -> None:
        self.sent: dict[str, DemoMessage] = {}
        self._options = options
        self._messages = messages
        self._work = work
        self._screen = screen
        self._is_fifo = options.queue == "fifo"
        self._log = work / CONSUMER_LOG
        self._returned: list[int] = []

        self._queues = create_queues(is_fifo=self._is_fifo)
        self._operator = Operator(screen, work, self._queues)
        self._shop = Shop(screen.notify_once, is_own=options.input is not None)
        by_identity = {message.identity: message for message in messages}
        self._journal = Journal(by_identity)
        self._functions = Functions(
            messages=by_identity,
            log=self._log,
            shop=self._shop,
            journal=self._journal,
            notify=screen.notify_once,
            # While there is a limit the functions have little to do: their cores are free.
            on_breaker_opened=self._operator.start_spark,
        )

        self._stopping = threading.Event()
        self._pollers: list[threading.Thread] = []
        # Lambda starts more than one environment of a function; on FIFO one has all groups.
        consumer_count = 1 if self._is_fifo else 2
        for _ in range(consumer_count):
            self._add_poller(self._queues.main, self._functions.consumer())
        self._add_poller(self._queues.dlq, self._functions.replay())

    def _add_poller(self, queue: Queue, handler: Handler) -> None:
        arguments = (queue, handler, self._screen.notify_once, self._stopping)
        poller = threading.Thread(target=poll, args=arguments, daemon=True)
        self._pollers.append(poller)

    def play(self) -> Account:
        """Run all steps; return the account of every sent message.

        Raises:
            InputError: SQS took no message.
        """
        self._break_and_back_off()
        try:
            has_parked = self._queues.parked.depth().total > 0
            if has_parked:
                self._explain()
                self._try_too_early()

            if self._options.console:
                self._leave_to_viewer()
            elif has_parked:
                self._put_right()

            self._wait_until_settled(30)
        except DemoError as error:
            self._screen.say(str(error), "red")
        return self._account()

    def stop(self) -> None:
        """Request the end of the polling, and end Spark."""
        self._stopping.set()
        self._operator.stop_spark()

    def counts(self) -> dict[str, int]:
        """Return the current counts of messages."""
        main = self._queues.main.depth()
        dlq = self._queues.dlq.depth()
        parked = self._queues.parked.depth()
        # Messages wait for their replay delayed in main, or hidden in a FIFO DLQ.
        backing_off = main.delayed + dlq.delayed
        if self._is_fifo:
            backing_off += dlq.in_flight
        return {
            "main": main.total,
            "backing off": backing_off,
            "DLQ": dlq.total,
            "parked": parked.total,
            "replayed": len(self._journal.replayed),
            "processed": len(self._journal.processing_count),
        }

    def line(self) -> str:
        """Format the current counts."""
        counts = "  ".join(f"{name} {count:>4}" for name, count in self.counts().items())
        return f"{counts}/{len(self._messages)}"

    def _break_and_back_off(self) -> None:
        self._screen.title("1. Messages flow, and some fail")
        self._screen.note(
            f"functions/sample_consumer takes {len(self._messages)} messages from the main queue."
            " Its database is down at first,\nand some messages meet a bug;"
            f" it records why. After {MAIN_MAX_RECEIVE_COUNT} failed tries SQS moves a message to"
            " the\ndead-letter queue; the replay Lambda replays it after a random, growing delay,"
            f" {MAX_ATTEMPTS} times at\nmost, and then parks it. While the consumer gets nothing"
            " done, a circuit breaker holds messages\nand lets one replay a minute through. Its"
            " minutes are seconds here."
        )
        if self._is_fifo:
            customer_count = len({message.group for message in self._messages})
            self._screen.note(
                f"The queues are FIFO and {customer_count} customers are"
                " message groups: behind one that fails its group fails, too.\nA FIFO queue has no"
                " message timers: in the dead-letter queue the head of a group waits hidden,\nand"
                " its group waits with it, so that it comes back in the order in which it failed."
            )

        for poller in self._pollers:
            poller.start()
        self._send()
        self._wait_until_settled(120 + 0.25 * len(self._messages))

        # Where no limit was set.
        self._operator.start_spark()
        self._functions.stop_breaker()
        now = self.counts()
        self._screen.say(
            f"{now['processed']} of {len(self.sent)} are processed, {now['replayed']} were "
            f"replayed, {now['parked']} are parked",
            "yellow",
        )

    def _send(self) -> None:
        """Send the messages. Only those that SQS confirms count as sent."""
        main = self._queues.main
        for message in self._messages:
            try:
                main.client.send_message(QueueUrl=main.url, **message.to_api())
            except (ClientError, BotoCoreError) as error:
                self._screen.say(f"message {message.number} was refused by SQS: {error}", "red")
            else:
                self.sent[message.identity] = message
            time.sleep(0.03)  # so that the viewer can follow

        if not self.sent:
            raise InputError("SQS took none of the messages.")
        self._screen.say(f"{len(self.sent)} messages are sent")

    def _wait_until_settled(self, limit_seconds: float) -> None:
        """Wait until everything is processed or parked, or three checks find empty queues."""
        deadline = time.monotonic() + limit_seconds
        settled_checks = 0
        while time.monotonic() < deadline:
            counts = self.counts()
            is_empty = counts["main"] + counts["DLQ"] == 0
            settled_checks = settled_checks + 1 if is_empty else 0

            sent = len(self.sent)
            is_processed = counts["processed"] == sent
            is_complete = is_empty and counts["processed"] + counts["parked"] == sent
            if is_processed or is_complete or settled_checks >= _SETTLED_CHECKS:
                return
            time.sleep(0.5)
        self._screen.say(f"not settled after {limit_seconds:.0f} s: continuing", "red")

    def _explain(self) -> None:
        self._screen.title(
            "2. Spark takes the parked messages into an archive and groups them by what failed"
        )
        self._screen.note(
            f"To type these commands in a shell of yours: . {short(self._operator.environment)}"
        )
        self._operator.collect()
        self._operator.list_groups()

        if self._log.exists():
            self._screen.note("The payments' consumer records no errors; they are in its log:")
            self._operator.read_logs(self._log)
            self._operator.list_groups()
            self._screen.note(
                "Messages whose error came from the log are a group of that error now: the group"
                "\nwithout one is gone."
            )

        self._screen.say(f"open it in a browser: {short(self._newest_report())}", "green")

    def _try_too_early(self) -> None:
        self._screen.title(
            "3. The operator decides too early: a ramp sends 1 message of each group first"
        )
        self._screen.note(
            "A ramp sends the messages in steps: 1 of each group, then 2, 6, 18, ... The next step"
            " goes when\nevery failure of the last one has had the time to come back, and none did:"
            " here after a few seconds,\nin AWS after minutes."
        )
        self._operator.approve()
        self._operator.redrive()
        exit_code = self._ramp("perhaps it works now")

        sent = len(self._journal.redriven)
        left = len(self.sent) - len(self._journal.processing_count) - sent
        self._screen.say(
            f"exit code {exit_code}: {counted(sent, 'message')} went, and {self._returned[-1]}"
            f" failed again; {left} stay in the archive",
            "yellow",
        )
        if self._queues.parked.depth().total:
            self._operator.collect()

    def _ramp(self, reason: str) -> int:
        """Redrive; note how many of its messages failed again, and return the exit code."""
        before = self._journal.returned
        exit_code = self._operator.redrive(reason)
        self._wait_until_settled(60)
        self._returned.append(self._journal.returned - before)
        return exit_code

    def _put_right(self) -> None:
        self._screen.title("4. The bugs are fixed: the next ramp goes through all its steps")
        self._screen.say(self._shop.fix(), "green")
        # On a busy machine a message may be received too often, and come back without a bug.
        for _ in range(2):
            if self._queues.parked.depth().total:
                self._operator.collect()
            self._operator.approve()
            if self._ramp("bugs fixed") != FAILED_AGAIN:
                break

    def _leave_to_viewer(self) -> None:
        self._screen.title("4. The bugs are fixed: redrive the messages yourself, in the console")
        self._screen.say(self._shop.fix(), "green")
        open_console(self._work, self._queues, self._screen)

    def _account(self) -> Account:
        self._stopping.set()
        for poller in self._pollers:
            poller.join(10)

        left = {
            FinalState.IN_MAIN: read_queue(self._queues.main, _PATIENCE_SECONDS),
            FinalState.IN_DLQ: read_queue(self._queues.dlq, _PATIENCE_SECONDS),
            FinalState.PARKED: read_queue(self._queues.parked, _PATIENCE_SECONDS),
            FinalState.ARCHIVED: read_archive(self._work / "archive"),
        }
        result = account(self.sent, self._journal, left, is_viewers=self._options.console)
        self._show_account(result)
        return result

    def _show_account(self, result: Account) -> None:
        self._screen.title("5. Every message is accounted for")
        self._screen.console.print(account_table(result.states, self.sent))
        for when, count in zip(("before", "after"), self._returned, strict=False):
            text = f"Failed again in the ramp {when} the bugs were fixed: {count or 'nothing'}"
            self._screen.console.print(text)

        report = self._newest_report()
        if report.name:
            self._screen.note(
                f"The newest report: {short(report)}\n"
                f"The same in a browser, with more: . {short(self._operator.environment)} && "
                "dlq console --archive $ARCHIVE\n"
                "The local queues end with this demo; make demo CONSOLE=1 keeps them while you "
                "redrive the messages."
            )

        self._screen.note(f"Logs and metrics of the functions: {short(self._work / FUNCTION_LOG)}")

    def _newest_report(self) -> Path:
        return max(self._work.glob("archive/reports/*/report.html"), default=Path())


def short(path: Path) -> str:
    """Return a path below the repository from there, as a person types it; others whole."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
