"""Runs the tasks that send what a run sends to one destination, and follows them."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from dlq.archive.ledger.claims import POSITION
from dlq.archive.ledger.disposition import WORK
from dlq.archive.ledger.stop import Stop, StopCause, foremost
from dlq.archive.lock import ArchiveLock
from dlq.archive.storage.files import ArchiveProof
from dlq.aws.clients import ClientFactory, Limit
from dlq.engine import Engine, Exchange, Work
from dlq.ids.counts import counted_by
from dlq.interrupts import asking_to_stop
from dlq.progress import Progress, ProgressLine, repeating
from dlq.redrive.send_run import SendRun
from dlq.redrive.sending.rate_limiter import share_window, window_messages
from dlq.redrive.sending.send_task import SETTLED, TASK, SendTask, progress_folder, read_settled
from dlq.redrive.sending.stop_signals import Deadline, StopSignals, stop_marker
from dlq.redrive.sending.task_context import TaskContext
from dlq.redrive.sending.task_division import divide, task_count
from dlq.redrive.sending.written_rows import WrittenRows, reading_work, rows_here
from dlq.redrive.summary import Sent, Tally
from dlq.redrive.totals import not_reached

_NO_LIMIT = Limit()

_TIME_SECONDS = 2.0

_TROUBLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class TaskRunner:
    """Runs the sends of one run, which ``begin_run`` has recorded.

    Attributes:
        written: what the run does with each message.
        lock: the archive lock; None in tests.
        proof: what each task looks for before it sends.
        deadline: after it nothing more is sent.
    """

    engine: Engine
    run: SendRun
    written: WrittenRows
    lock: ArchiveLock | None
    proof: ArchiveProof
    make_sender: ClientFactory
    progress: Progress
    deadline: Deadline

    def context(
        self,
        destination: str,
        limit: Limit = _NO_LIMIT,
        *,
        step: int = 0,
        unproven_groups: Collection[str] = (),
    ) -> TaskContext:
        """Return what the tasks must know that send to *destination* now; see ``TaskContext``."""
        return TaskContext(
            request=self.run.request,
            plan_id=self.run.plan_id,
            destination=destination,
            run_id=self.run.run_id,
            who=self.run.who,
            editor=self.run.editor_for(destination),
            step=step,
            unproven_groups=frozenset(unproven_groups),
            proof=self.proof,
            # A ramp may have given it back, and taken it again.
            lock=self.lock.view if self.lock else None,
            limit=limit,
        )

    def execute(
        self,
        dispositions: WrittenRows,
        planned: Sequence[Tally],
        context: TaskContext,
        stage: str,
        trouble: Callable[[], Stop | None] = lambda: None,
    ) -> Sent:
        """Settle the rows of *dispositions* that *planned* counts, each chunk whole in one task.

        Ctrl-C, the deadline, a queue that is gone, a disk that is full, an archive lock that is not
        renewed: open calls come to their end, results are written, and the rest is counted as not
        reached.

        *dispositions* has one row per message; *planned* counts what goes here, and what it does
        not count is left. *stage* names this call among those of the run; it is part of a path.
        *trouble* is asked every ten seconds, and returns why nothing more may be sent; None if all
        is well. So tasks need no way to its answer.
        """
        work = [tally for tally in planned if tally.disposition in WORK]
        total = sum(tally.count for tally in work)
        if not total:
            return Sent(())
        if self.deadline.seconds_left <= 0:
            return Sent(tuple(not_reached(work)), Stop(StopCause.TIME_OVER))

        archive = self.run.archive
        folder = progress_folder(context, stage)
        progress_line = ProgressLine(total)

        def status() -> str:
            # A task that is started again counts again what its first attempt did.
            settled = sum(int(archive.read(path) or 0) for path in archive.list(folder))
            line = progress_line.text(min(settled, total))
            if context.limit.sentence:
                return f"{line}; {context.limit.sentence}"
            return line

        marker = stop_marker(context.plan_id, context.run_id, stage)
        signals = StopSignals(archive, marker, None)

        def stop_all(stop: Stop) -> None:
            # In a thread: a signal handler must not wait for S3.
            threading.Thread(target=signals.stop, args=(stop,), name="stop", daemon=True).start()

        def look_at_time() -> None:
            if self.deadline.seconds_left <= 0:
                # And again until the tasks have ended: to write a marker may fail.
                stop_all(Stop(StopCause.TIME_OVER))

        def look_for_trouble() -> None:
            if stop := trouble():
                stop_all(stop)

        with (
            asking_to_stop(partial(stop_all, Stop(StopCause.INTERRUPTED))),
            repeating(look_at_time, _TIME_SECONDS, "deadline"),
            repeating(look_for_trouble, _TROUBLE_SECONDS, "trouble"),
            self.progress("redriving", status),
        ):
            to_settle = {tally.disposition for tally in work}
            settled = self._send(dispositions, to_settle, context, stage)

        outcomes, stops = read_settled(settled.to_pylist())
        return Sent((*outcomes, *not_reached(work, outcomes)), foremost(stops))

    def _send(
        self,
        dispositions: WrittenRows,
        to_settle: Collection[str],
        context: TaskContext,
        stage: str,
    ) -> pa.Table:
        """Send in tasks; return ``SETTLED``.

        Each chunk is whole and in order in one task; for a FIFO destination each unit is, so that
        its chunks follow each other. So bodies are moved once, from where their file is read to the
        task that sends them.
        """
        work = rows_here(dispositions.rows, context.destination, to_settle)
        counts = counted_by(work, "unit", "chunk")
        sizes = {(row["unit"], row["chunk"]): row["count"] for row in counts}
        rate = context.limit.least_rate(context.request.max_rate)
        most = task_count(
            work.num_rows,
            self.engine.slots,
            asked=context.request.tasks,
            rate=rate,
            may_grow=self.engine.may_grow,
        )
        tasks = divide(sizes, most, in_order=context.to_fifo)

        messages_by_task = Counter[int]()
        for chunk, task in tasks.items():
            messages_by_task[task] += sizes[chunk]

        windows = None
        if rate is not None:
            messages = [count for _, count in sorted(messages_by_task.items())]
            windows = share_window(window_messages(rate), messages)

        send_task = SendTask(
            archive=self.run.archive,
            context=context,
            make_sender=self.make_sender,
            stage=stage,
            windows=windows,
        )
        reading = reading_work(
            self.run.archive,
            dispositions,
            to_settle,
            context,
            tasks,
            most_readers=self.engine.slots,
        )
        return self.engine.run_edited(
            reading,
            context.editor.attribute_sql,
            Work((), send_task.run, SETTLED),
            Exchange(len(messages_by_task), TASK, [*POSITION, "message_id"]),
        )
