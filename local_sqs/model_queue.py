"""The product's ``SqsQueue`` on the model without botocore: for simulations of many messages."""

from collections.abc import Callable
from functools import partialmethod
from typing import Any, cast

from botocore.exceptions import ClientError

from dlq_replay.aws.sqs import SqsQueue
from local_sqs.client import as_botocore
from local_sqs.errors import SqsError
from local_sqs.front import AnswerLostError, Front
from local_sqs.model import SqsModel
from local_sqs.queues import Queue


class DirectClient:
    """The calls of boto3's client, with its exceptions, in a tenth of its time.

    Attributes:
        front: answers them.
    """

    def __init__(self, front: Front) -> None:
        self.front = front

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        operation = "".join(part.capitalize() for part in name.split("_"))

        def call(**request: Any) -> dict[str, Any]:
            try:
                return self.front.handle(operation, request)
            except SqsError as error:
                answer: Any = {
                    "Error": {"Code": error.code, "Message": error.message},
                    "ResponseMetadata": {"HTTPStatusCode": error.status},
                }
                raise ClientError(answer, operation) from error
            except AnswerLostError as error:
                raise as_botocore(error, self.front) from error

        return call


class ModelQueue(SqsQueue):
    """One queue of a model, created if it does not exist."""

    def __init__(self, source: SqsModel | Front, name: str, **attributes: str) -> None:
        front = Front.of(source)
        model = front.model
        queue = model.queues.get(name) or model.create_queue(name, attributes)
        super().__init__(cast("Any", DirectClient(front)), model.url_of(queue))

    @property
    def front(self) -> Front:
        """Log and faults of its requests."""
        return cast("DirectClient", self.client).front

    @property
    def queue(self) -> Queue:
        """The queue in the model."""
        return self.front.model.find(self.url)

    @property
    def arn(self) -> str:
        return self.queue.arn

    # Without a wait by default: a wait advances a virtual clock.
    receive = partialmethod(SqsQueue.receive, wait_seconds=0)
