"""Behaviours of SQS, told in steps with what SQS answers: ``tests/golden/sqs.txt``.

After the page of AWS that describes a behaviour come its steps, each with its answer behind ``->``:

- ``queue NAME ATTRIBUTE=VALUE …``, ``set …``, ``delete-queue NAME``, ``find NAME``; a redrive
  policy is ``RedrivePolicy=TARGET:COUNT``; ``quota NAME N`` limits the messages in flight;
- ``send NAME BODY FIELD=VALUE …``, where ``a=String:v`` is an attribute and ``trace=`` X-Ray's
  header; on a FIFO queue the group is the body's first letter and the deduplication id the body;
- ``receive NAME FIELD=VALUE … shows a system`` answers bodies and handles, and what it shows;
- ``delete NAME HANDLE``, ``delete-batch``, ``change NAME HANDLE SECONDS``, ``counts NAME``;
- ``+N`` lets N seconds pass; ``next`` is when the next message is due.

Messages and handles have the names m1, h1, … in their order; times count from the start.
"""

import shlex
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from local_sqs.clock import VirtualClock
from local_sqs.model import SqsModel
from tests.support.sqs_driver import QueueDriver, redrive_policy, string

_NUMBERS = {"DelaySeconds", "MaxNumberOfMessages", "WaitTimeSeconds", "VisibilityTimeout"}
_SENT = {"DelaySeconds", "MessageGroupId", "MessageDeduplicationId"}


@dataclass
class Story:
    """The queues and what was received of them, by name."""

    client: Any
    model: SqsModel
    clock: VirtualClock
    queues: dict[str, QueueDriver] = field(default_factory=dict)
    handles: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._start_ms = self.clock.now_ms()

    def tell(self, text: str) -> str:
        """Return *text* with the answers that there are now."""
        source, *steps = text.splitlines()
        return "\n".join([source, *(self._line(step.split(" -> ")[0]) for step in steps)])

    def _line(self, step: str) -> str:
        if step.startswith("#"):
            return step
        if step.startswith("+"):
            self.clock.advance(float(step))
            return step
        name, *words = shlex.split(step)
        before_ms = self.clock.now_ms()
        try:
            answer = getattr(self, f"_{name.replace('-', '_')}")(*words)
        except ClientError as error:
            code, message = (str(error.response["Error"].get(key)) for key in ("Code", "Message"))
            for handle, handle_name in sorted(self.handles.items(), key=lambda pair: -len(pair[0])):
                message = message.replace(handle, handle_name)
            answer = f"{code.removeprefix('AWS.SimpleQueueService.')}: {message}"
        waited = (self.clock.now_ms() - before_ms) // 1000
        answer = f"{answer or ''}{f' after {waited} s' if waited else ''}"
        return f"{step} -> {answer}" if answer else step

    def _queue(self, name: str, *given: str) -> None:
        fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        url = self.client.create_queue(QueueName=name, Attributes={**fifo, **self._read(given)})
        self.queues[name] = QueueDriver(self.client, url["QueueUrl"])

    def _read(self, given: tuple[str, ...]) -> dict[str, str]:
        read = dict(pair.split("=", 1) for pair in given)
        if target := read.get("RedrivePolicy"):
            name, count = target.split(":")
            read["RedrivePolicy"] = redrive_policy(self.queues[name], int(count))
        return read

    def _set(self, name: str, *given: str) -> None:
        self.queues[name].set(**self._read(given))

    def _delete_queue(self, name: str) -> None:
        self.client.delete_queue(QueueUrl=self.queues[name].url)

    def _find(self, name: str) -> str:
        return str(self.client.get_queue_url(QueueName=name)["QueueUrl"])

    def _quota(self, name: str, count: str) -> None:
        self.model.queues[name].in_flight_quota = int(count)

    def _send(self, name: str, body: str, *given: str) -> str:
        name, _, account = name.partition("@")
        url = self.queues[name].url
        fields: dict[str, Any] = {"MessageAttributes": {}}
        if name.endswith(".fifo"):
            fields |= {"MessageGroupId": body[0], "MessageDeduplicationId": body}
        for key, value in (pair.split("=", 1) for pair in given):
            if key == "trace":
                fields["MessageSystemAttributes"] = {"AWSTraceHeader": string(value)}
            elif key in _SENT:
                fields[key] = int(value) if key in _NUMBERS else value
            else:
                data_type, _, text = value.partition(":")
                fields["MessageAttributes"][key] = string(text, data_type)
        fields = {key: value for key, value in fields.items() if value not in ("", {})}
        url = url.replace("123456789012", account) if account else url
        answer = self.client.send_message(QueueUrl=url, MessageBody=body, **fields)
        return self._message(answer["MessageId"])

    def _message(self, message_id: str) -> str:
        return self.messages.setdefault(message_id, f"m{len(self.messages) + 1}")

    def _receive(self, name: str, *words: str) -> str:
        given = [argument for argument in words if "=" in argument]
        shown = words[len(given) + 1 :]
        fields: dict[str, Any] = {"MaxNumberOfMessages": 10, "WaitTimeSeconds": 0}
        for key, value in (pair.split("=", 1) for pair in given):
            fields[key] = int(value) if key in _NUMBERS and value else value
        answer = self.client.receive_message(
            QueueUrl=self.queues[name].url,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
            **{key: value for key, value in fields.items() if value != ""},
        )
        return (
            " | ".join(self._shown(message, shown) for message in answer.get("Messages", ()))
            or "nothing"
        )

    def _shown(self, received: dict[str, Any], names: tuple[str, ...]) -> str:
        handle = received["ReceiptHandle"]
        handle_name = self.handles.setdefault(handle, f"h{len(self.handles) + 1}")
        values = {n: a["StringValue"] for n, a in received.get("MessageAttributes", {}).items()}
        types = {n: a["DataType"] for n, a in received.get("MessageAttributes", {}).items()}
        words = [received["Body"], handle_name]
        words += [f"{name}={types[name]}:{values[name]}" for name in names if name in values]
        if "system" in names:
            system = received["Attributes"]
            for name in sorted(system.keys() - {"SenderId", "SequenceNumber"}):
                words.append(f"{name}={self._system(name, system[name])}")
            words.append(self._message(received["MessageId"]))
        return " ".join(words)

    def _system(self, name: str, value: str) -> str:
        if name.endswith("Timestamp"):
            return f"{(int(value) - self._start_ms) / 1000:g}"
        return self.messages.get(value, value)

    def _handle(self, name: str) -> str:
        for handle, handle_name in self.handles.items():
            if handle_name == name:
                return handle
        return name

    def _delete(self, name: str, handle: str) -> None:
        self.queues[name].delete({"ReceiptHandle": self._handle(handle)})

    def _delete_batch(self, name: str, *handles: str) -> str:
        entries = [{"Id": handle, "ReceiptHandle": self._handle(handle)} for handle in handles]
        answer = self.client.delete_message_batch(QueueUrl=self.queues[name].url, Entries=entries)
        failures = answer.get("Failed", ())
        return " ".join(f"{failure['Id']}: {failure['Code']}" for failure in failures)

    def _change(self, name: str, handle: str, seconds: str) -> None:
        self.queues[name].change({"ReceiptHandle": self._handle(handle)}, int(seconds))

    def _counts(self, name: str) -> str:
        return "{} visible, {} in flight, {} delayed".format(*self.queues[name].counts())

    def _next(self) -> str:
        due_ms = self.model.next_event_ms()
        return "none" if due_ms is None else f"at {(due_ms - self._start_ms) / 1000:g} s"
