"""Refuses answers that are not AWS's: the page of a proxy, or of another server at the endpoint.

botocore takes such a page for an empty answer: a queue seems empty, a write seems done. Or it
raises what no caller expects: ResponseParserError, KeyError, UnicodeDecodeError.
"""

from typing import TYPE_CHECKING, Any, TypeVar
from xml.etree.ElementTree import ParseError, fromstring

from botocore.exceptions import BotoCoreError

if TYPE_CHECKING:
    from botocore.model import OperationModel

Session = TypeVar("Session")

_JSON = {"json", "rest-json"}
_XML = {"ec2", "query", "rest-xml"}


class ForeignAnswerError(BotoCoreError):
    """The answer is not one of AWS. Nobody knows whether the call was carried out."""

    fmt = "HTTP {status}, and not an answer of AWS; look for a proxy, and at AWS_ENDPOINT_URL"


def with_checked_answers(session: Session) -> Session:
    """Let every client of a session of boto3, or of botocore, check what it is answered.

    All sessions of the product come from here. Calls of their clients may raise
    ``ForeignAnswerError``: nobody knows whether the call was carried out.
    """
    # A session of botocore registers by itself.
    events: Any = getattr(session, "events", session)
    events.register("before-parse", require_answer_of_aws)
    return session


def require_answer_of_aws(
    operation_model: "OperationModel", response_dict: dict[str, Any], **_: object
) -> None:
    """Check an answer before botocore reads it. A handler of botocore's event ``before-parse``.

    Raises:
        ForeignAnswerError: it is not one of AWS. botocore makes no other try. A server's error,
            such as 502, is left to botocore, which makes one, and then raises ClientError.
    """
    status = response_dict["status_code"]
    is_error = status >= 300  # noqa: PLR2004 - HTTP's classes
    if not is_error and _has_raw_body(operation_model):
        return

    protocol = str(operation_model.service_model.resolved_protocol)
    # S3 answers HEAD without a body, errors included.
    may_be_empty = protocol == "rest-xml" if is_error else not _has_fields(operation_model)
    if not is_foreign(protocol, response_dict["body"], may_be_empty=may_be_empty):
        return
    if status < 500:  # noqa: PLR2004 - as above
        raise ForeignAnswerError(status=status)
    # For botocore: an error whose status is all that is known.
    response_dict["body"] = b""


def is_foreign(protocol: str, body: bytes, *, may_be_empty: bool) -> bool:
    """Return whether a service with this *protocol* of botocore's never sends such a *body*.

    JSON is not read to its end, because bodies of messages are long. Other protocols than those of
    JSON and XML are not known here: their answers are never foreign.
    """
    content = body.strip()
    if not content:
        return not may_be_empty
    if protocol in _JSON:
        return not (content.startswith(b"{") and content.endswith(b"}"))
    if protocol not in _XML:
        return False
    try:
        root = fromstring(content)  # noqa: S314 - botocore reads the same with the same parser
    except ParseError:
        return True
    return root.tag.rpartition("}")[2].lower() == "html"


def _has_raw_body(operation: "OperationModel") -> bool:
    """Return whether the body of an answer is a value itself: an object, a policy, a stream."""
    if operation.has_streaming_output or operation.has_event_stream_output:
        return True
    shape = operation.output_shape
    payload = shape.serialization.get("payload") if shape else None
    return bool(shape and payload and shape.members[payload].type_name in ("blob", "string"))


def _has_fields(operation: "OperationModel") -> bool:
    """Return whether an answer has fields that are not headers."""
    shape = operation.output_shape
    members = shape.members.values() if shape else ()
    return any("location" not in member.serialization for member in members)
