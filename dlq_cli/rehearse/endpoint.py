"""The AWS endpoint of a rehearsal: decides what each call of the handler is answered with.

Nothing is sent anywhere, but for reads that the operator allowed: those are made with the
operator's own credentials, and only those.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from dlq_cli.rehearse.aws_answers import Answer, empty_success, failure, success
from dlq_cli.rehearse.aws_requests import Call, Request, call_of, operation_named
from dlq_cli.rehearse.stubs import Stub
from spark_reprocess.errors import InputError

_WRITES = (
    *("Put", "Create", "Update", "Delete", "Send", "Publish", "Start", "Stop", "Add", "Remove"),
    *("Tag", "Untag", "Set", "Change", "Copy", "Upload", "Complete", "Abort", "Write", "Register"),
    *("BatchPut", "BatchWrite", "BatchDelete", "BatchUpdate", "TransactWrite", "Deregister"),
    *("Enable", "Disable", "Attach", "Detach", "Associate", "Disassociate", "Cancel", "Record"),
    *("Restore", "Purge", "Modify", "Notify", "Signal", "Report", "Reset", "Replace", "Terminate"),
)
"""How the names of operations begin that change something. Any other operation is a read."""

_ANSWERING = ("StartSyncExecution",)
"""Named like a write, but its answer is what the caller wants."""

_ALLOWED = (
    *("Get", "List", "Describe", "Query", "Scan", "Head", "BatchGet", "TransactGet", "Search"),
    *("Lookup", "Decrypt", "Verify"),
)
"""How the names of operations begin that change nothing."""

_NOT_STUBBED = "RehearsalNotStubbed"
_FORBIDDEN = 403
_NOT_UNDERSTOOD = Answer(501, {"Content-Type": "text/plain"}, b"not an AWS call that is known here")

Forward = Callable[[Request, Call], Answer]
"""Makes a read at AWS and returns its answer."""


@dataclass(slots=True)
class Traffic:
    """What the handler called during one message.

    Attributes:
        written: how often each operation was recorded, by ``service:Operation``.
        missing: why calls could not be answered; each once.
    """

    written: Counter[str] = field(default_factory=Counter)
    missing: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class Endpoint:
    """Answers calls.

    Attributes:
        stubs: the first that matches a call answers it.
        allowed: names of the reads that *forward* makes.
    """

    stubs: Sequence[Stub]
    allowed: Collection[str]
    forward: Forward
    traffic: Traffic = field(default_factory=Traffic)

    def answer(self, request: Request) -> Answer:
        """Return the answer to *request*, and note it in the traffic of the current message."""
        call = call_of(request)
        if call is None:
            self.traffic.missing[f"{request.method} request that is no known AWS call"] = None
            return _NOT_UNDERSTOOD
        stub = next((one for one in self.stubs if one.takes(call)), None)
        wants_data = is_read(call)
        if not wants_data:
            self.traffic.written[call.name] += 1
        if stub is not None:
            return stub.to_answer(call)
        if not wants_data:
            return success(call, empty_success(call))
        if call.name in self.allowed:
            try:
                return self.forward(request, call)
            except InputError as error:
                self.traffic.missing[f"{call.name}: {error}"] = None
        else:
            self.traffic.missing[f"{call.name} is not stubbed"] = None
        text = f"{call.name} has no answer in this rehearsal"
        # S3 clients take 400 for the wrong Region, and others are repeated.
        return failure(call, _NOT_STUBBED, text, _FORBIDDEN)

    def take_traffic(self) -> Traffic:
        """Return what was noted since the last call."""
        traffic, self.traffic = self.traffic, Traffic()
        return traffic


def is_read(call: Call) -> bool:
    """Whether the caller wants data that only the service has."""
    name, wanted = call.operation.name, call.parameters
    if not name.startswith(_WRITES) or name in _ANSWERING:
        # An event starts a function; nothing of its result comes back.
        return not (call.name == "lambda:Invoke" and wanted.get("InvocationType") == "Event")
    return bool(wanted.get("ReturnValues", "NONE") != "NONE")


def require_allowed(name: str) -> str:
    """Return ``service:Operation`` if a rehearsal may be allowed to make that call.

    Raises:
        ValueError: there is no such operation, or it may change something.
    """
    operation = operation_named(name)
    if not operation.name.startswith(_ALLOWED):
        raise ValueError(
            f"{name}: may change something, and a rehearsal changes nothing; answer it with --stub"
        )
    return name
