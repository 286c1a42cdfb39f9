"""Message move tasks: SQS's own redrive of a dead-letter queue.

Sources: SQSAPI, StartMessageMoveTask; SQSDeveloperGuide, dead-letter queue redrive; statuses and
failures as recorded from AWS in https://github.com/localstack/localstack
(tests/aws/services/sqs/test_sqs_move_task.snapshot.json).
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass

from local_sqs.errors import invalid_parameter, resource_not_found
from local_sqs.identity import Identity
from local_sqs.queues import Queue
from local_sqs.values import StoredMessage

Find = Callable[[str], Queue | None]

_NO_SOURCE = "The resource that you specified for the SourceArn parameter doesn't exist."
_NO_DESTINATION = "The resource that you specified for the DestinationArn parameter doesn't exist."
_IS_RUNNING = (
    "There is already a task running. Only one active task is allowed for a source queue arn at a "
    "given time."
)


@dataclass(slots=True)
class MoveTask:
    """One task. It moves visible messages at its rate until none is left."""

    task_id: str
    source: Queue
    destination_arn: str | None
    per_second: int | None
    started_ms: int
    to_move: int
    moved: int = 0
    status: str = "RUNNING"
    failure: str | None = None

    @property
    def handle(self) -> str:
        raw = json.dumps({"taskId": self.task_id, "sourceArn": self.source.arn})
        return base64.b64encode(raw.encode()).decode()


class MoveTasks:
    """All tasks. They advance when ``tick`` is called."""

    def __init__(self, find: Find, ids: Identity) -> None:
        self._find = find
        self._ids = ids
        self._tasks: list[MoveTask] = []

    def start(
        self, source_arn: str, destination_arn: str | None, per_second: int | None, sources: int
    ) -> MoveTask:
        """Start to move messages.

        Args:
            source_arn: the dead-letter queue.
            destination_arn: None moves each message to its source queue.
            per_second: 1 to 500; None: no limit.
            sources: how many queues have *source_arn* as their dead-letter queue.

        Raises:
            SqsError: no such queue, not a dead-letter queue, or a task of it is running.
        """
        source = self._find(source_arn)
        if source is None:
            raise resource_not_found(_NO_SOURCE)
        if not sources:
            raise invalid_parameter("Source queue must be configured as a Dead Letter Queue.")
        if destination_arn and self._find(destination_arn) is None:
            raise resource_not_found(_NO_DESTINATION)
        if any(t.source is source and t.status == "RUNNING" for t in self._tasks):
            raise invalid_parameter(_IS_RUNNING)
        if per_second is not None and not 1 <= per_second <= 500:
            raise invalid_parameter("Value for parameter MaxNumberOfMessagesPerSecond is invalid.")
        to_move = len(source.ready_messages())
        task_id = self._ids.new_id()
        task = MoveTask(task_id, source, destination_arn, per_second, source.tick(), to_move)
        self._tasks.insert(0, task)
        return task

    def of(self, source_arn: str, limit: int) -> list[MoveTask]:
        """Return the tasks of a queue, newest first.

        Raises:
            SqsError: no such queue.
        """
        if self._find(source_arn) is None:
            raise resource_not_found(_NO_SOURCE)
        return [task for task in self._tasks if task.source.arn == source_arn][:limit]

    def cancel(self, handle: str) -> MoveTask:
        """Stop a running task. Messages that it moved are not moved back.

        Raises:
            SqsError: an invalid handle, or no such queue or running task.
        """
        try:
            raw = json.loads(base64.b64decode(handle, validate=True))
            task_id, source_arn = raw["taskId"], raw["sourceArn"]
        except (ValueError, KeyError, TypeError) as error:
            raise invalid_parameter("Value for parameter TaskHandle is invalid.") from error
        for task in self.of(source_arn, len(self._tasks)):
            if task.task_id == task_id and task.status == "RUNNING":
                task.status = "CANCELLED"
                return task
        raise resource_not_found("Task does not exist.")

    def tick(self) -> None:
        """Move as many messages as the rate allows since the start."""
        for task in self._tasks:
            if task.status == "RUNNING":
                self._advance(task)

    def next_event_ms(self) -> int | None:
        """Return when the next message of a running task is due."""
        times = [
            task.started_ms + (task.moved + 1) * 1000 // task.per_second
            for task in self._tasks
            if task.status == "RUNNING" and task.per_second
        ]
        return min(times, default=None)

    def _advance(self, task: MoveTask) -> None:
        ready = task.source.ready_messages()
        allowed = len(ready)
        if task.per_second:
            elapsed_ms = task.source.tick() - task.started_ms
            allowed = min(allowed, elapsed_ms * task.per_second // 1000 - task.moved)
        for message in ready[: max(0, allowed)]:
            if not self._move(message, task):
                return
        if allowed == len(ready):
            task.status = "COMPLETED"

    def _move(self, message: StoredMessage, task: MoveTask) -> bool:
        arn = task.destination_arn or message.source_arn
        destination = self._find(arn) if arn else None
        if destination is None:
            task.status = "FAILED"
            task.failure = (
                "AWS.SimpleQueueService.NonExistentQueue"
                if arn
                else "CouldNotDetermineMessageSource"
            )
            return False
        task.source.take_out(message)
        destination.take_in(self._anew(message, task.source.tick()))
        task.moved += 1
        return True

    def _anew(self, message: StoredMessage, now_ms: int) -> StoredMessage:
        """Return a copy with a new id and a new time.

        Its receive count is 0: the guide calls the message new, but does not document the count.
        """
        return StoredMessage(
            message_id=self._ids.new_id(),
            body=message.body,
            attributes=message.attributes,
            sent_ms=now_ms,
            order=message.order,
            group_id=message.group_id,
            deduplication_id=message.deduplication_id,
            trace_header=message.trace_header,
        )
