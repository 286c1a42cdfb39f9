"""Operations on queues, by their AWS names, with boto3's parameters and answers."""

from collections.abc import Mapping
from typing import Any

from local_sqs.errors import invalid_value, unknown_queue_attribute
from local_sqs.model import SqsModel
from local_sqs.queues import Queue
from local_sqs.settings import READABLE
from local_sqs.values import State

Request = Mapping[str, Any]
Answer = dict[str, Any]

MAX_PAGE = 1000
MAX_TASKS = 10


def create_queue(model: SqsModel, request: Request) -> Answer:
    queue = model.create_queue(request["QueueName"], request.get("Attributes"))
    queue.tags.update(request.get("tags", {}))
    return {"QueueUrl": model.url_of(queue)}


def delete_queue(model: SqsModel, request: Request) -> Answer:
    model.delete_queue(model.find(request["QueueUrl"]))
    return {}


def purge_queue(model: SqsModel, request: Request) -> Answer:
    model.purge_queue(model.find(request["QueueUrl"]))
    return {}


def get_queue_url(model: SqsModel, request: Request) -> Answer:
    return {"QueueUrl": model.url_of(model.find(request["QueueName"]))}


def list_queues(model: SqsModel, request: Request) -> Answer:
    prefix = request.get("QueueNamePrefix", "")
    urls = [model.url_of(q) for name, q in sorted(model.queues.items()) if name.startswith(prefix)]
    return _page("QueueUrls", urls, request)


def list_dead_letter_source_queues(model: SqsModel, request: Request) -> Answer:
    target = model.find(request["QueueUrl"])
    urls = [model.url_of(queue) for queue in _sources_of(model, target.arn)]
    return {"queueUrls": [], **_page("queueUrls", urls, request)}


def _sources_of(model: SqsModel, arn: str) -> list[Queue]:
    policies = [(queue, queue.settings.redrive) for queue in model.queues.values()]
    return [queue for queue, policy in policies if policy and policy.target_arn == arn]


def _page(name: str, urls: list[str], request: Request) -> Answer:
    size = request.get("MaxResults", MAX_PAGE)
    if not 1 <= size <= MAX_PAGE:
        raise invalid_value("MaxResults", size, "MaxResults must be an integer from 1 to 1000.")
    start = int(request.get("NextToken", 0))
    answer: Answer = {name: urls[start : start + size]} if urls else {}
    if "MaxResults" in request and start + size < len(urls):
        answer["NextToken"] = str(start + size)
    return answer


def get_queue_attributes(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])
    names = request.get("AttributeNames", [])
    for name in names:
        if name not in READABLE:
            raise unknown_queue_attribute(name)
    counts = model.counts(queue)
    values = {
        "QueueArn": queue.arn,
        "CreatedTimestamp": str(queue.created_ms // 1000),
        "LastModifiedTimestamp": str(queue.modified_ms // 1000),
        "ApproximateNumberOfMessages": str(counts[State.READY]),
        "ApproximateNumberOfMessagesNotVisible": str(counts[State.IN_FLIGHT]),
        "ApproximateNumberOfMessagesDelayed": str(counts[State.DELAYED]),
        **queue.settings.values,
    }
    chosen = {name: value for name, value in values.items() if "All" in names or name in names}
    return {"Attributes": chosen} if chosen else {}


def set_queue_attributes(model: SqsModel, request: Request) -> Answer:
    model.change_queue(model.find(request["QueueUrl"]), request["Attributes"])
    return {}


def tag_queue(model: SqsModel, request: Request) -> Answer:
    model.find(request["QueueUrl"]).tags.update(request["Tags"])
    return {}


def untag_queue(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])
    for key in request["TagKeys"]:
        queue.tags.pop(key, None)
    return {}


def list_queue_tags(model: SqsModel, request: Request) -> Answer:
    tags = model.find(request["QueueUrl"]).tags
    return {"Tags": dict(tags)} if tags else {}


def start_message_move_task(model: SqsModel, request: Request) -> Answer:
    task = model.move_tasks.start(
        request["SourceArn"],
        request.get("DestinationArn"),
        request.get("MaxNumberOfMessagesPerSecond"),
        sources=len(_sources_of(model, request["SourceArn"])),
    )
    return {"TaskHandle": task.handle}


def cancel_message_move_task(model: SqsModel, request: Request) -> Answer:
    task = model.move_tasks.cancel(request["TaskHandle"])
    return {"ApproximateNumberOfMessagesMoved": task.moved}


def list_message_move_tasks(model: SqsModel, request: Request) -> Answer:
    limit = request.get("MaxResults", 1)
    if not 1 <= limit <= MAX_TASKS:
        raise invalid_value("MaxResults", limit, "Must be between 1 and 10.")
    results = []
    for task in model.move_tasks.of(request["SourceArn"], limit):
        fields = {
            "TaskHandle": task.handle if task.status == "RUNNING" else None,
            "Status": task.status,
            "SourceArn": task.source.arn,
            "DestinationArn": task.destination_arn,
            "MaxNumberOfMessagesPerSecond": task.per_second,
            "ApproximateNumberOfMessagesMoved": task.moved,
            "ApproximateNumberOfMessagesToMove": task.to_move,
            "FailureReason": task.failure,
            "StartedTimestamp": task.started_ms,
        }
        results.append({name: value for name, value in fields.items() if value is not None})
    return {"Results": results}
