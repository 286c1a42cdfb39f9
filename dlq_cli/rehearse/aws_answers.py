"""Writes the answers of AWS services, with botocore's own models and serializers. Pure.

botocore serializes requests. An answer is what a request would be whose input is the operation's
output, so the same serializers write it.
"""

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

from botocore.model import OperationModel, Shape
from botocore.serialize import (
    JSONSerializer,
    RestJSONSerializer,
    RestXMLSerializer,
    RpcV2CBORSerializer,
)
from botocore.validate import ParamValidator

from dlq_cli.rehearse.aws_requests import CBOR, Call

REQUEST_ID = "00000000-0000-4000-8000-000000000000"
_BAD_REQUEST = 400
_OK = 200
_IDENTIFIERS = ("id", "arn", "etag", "handle")
"""Ends of the names of the texts in an answer that say which thing was written."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def to_line(self) -> dict[str, Any]:
        """Return it in the form in which the sandbox takes it."""
        return {
            "status": self.status,
            "headers": list(self.headers.items()),
            "body": base64.b64encode(self.body).decode(),
        }


def success(call: Call, values: Mapping[str, Any]) -> Answer:
    """Return the answer to *call* with *values*, which have the shape that boto3 returns.

    Values must fit: see ``value_faults``.
    """
    shape = call.operation.output_shape
    http: Any = call.operation.http
    status = int(http.get("responseCode", _OK))
    members: Mapping[str, Shape] = getattr(shape, "members", {})
    sent = {}
    for name, value in values.items():
        if members[name].serialization.get("location") == "statusCode":
            status = int(value)
        else:
            sent[name] = value
    if call.protocol in ("query", "ec2"):
        return Answer(status, _XML, _query_body(call, shape, sent))
    written = _serialized(call, shape, sent)
    headers = {str(name): str(value) for name, value in written.get("headers", {}).items()}
    headers.pop("X-Amz-Target", None)
    headers["x-amzn-RequestId"] = REQUEST_ID
    body = written.get("body") or b""
    return Answer(status, headers, body.encode() if isinstance(body, str) else bytes(body))


def failure(call: Call, code: str, text: str, status: int = _BAD_REQUEST) -> Answer:
    """Return an error of the service as the answer to *call*."""
    if call.protocol == CBOR:
        body = b"\xa2" + b"".join(map(_cbor_text, ("__type", code, "message", text)))
        headers = {"smithy-protocol": "rpc-v2-cbor", "Content-Type": "application/cbor"}
        return Answer(status, headers, body)
    if call.protocol in ("json", "rest-json"):
        headers = {"x-amzn-errortype": code, "Content-Type": "application/json"}
        return Answer(status, headers, json.dumps({"__type": code, "message": text}).encode())
    error = ET.Element("Error")
    ET.SubElement(error, "Code").text = code
    ET.SubElement(error, "Message").text = text
    if call.protocol == "ec2":
        root = ET.Element("Response")
        ET.SubElement(root, "Errors").append(error)
        ET.SubElement(root, "RequestID").text = REQUEST_ID
    elif call.service == "s3":
        root = error
    else:
        root = ET.Element("ErrorResponse")
        root.append(error)
        ET.SubElement(root, "RequestId").text = REQUEST_ID
    return Answer(status, _XML, ET.tostring(root))


def value_faults(operation: OperationModel, values: object) -> str:
    """Return why *values* are no answer of the operation; empty where they are one."""
    if operation.has_event_stream_output:
        return "answers with a stream of events, which no stub can hold"
    if not isinstance(values, dict):
        return "the answer must be a mapping, in the shape that boto3 returns"
    shape = operation.output_shape
    if shape is None:
        return "answers with nothing: write {}" if values else ""
    unknown = sorted(values.keys() - getattr(shape, "members", {}).keys())
    if unknown:
        return f"its answer has no field {', '.join(map(str, unknown))}"
    found = ParamValidator().validate(_optional(values), shape)
    # An answer may leave out and shorten what a request may not.
    faults = found.generate_report().split("\n")
    return "; ".join(one for one in faults if one.startswith(("Invalid type", "Unknown param")))


def empty_success(call: Call) -> dict[str, Any]:
    """Return what a successful write answers, as far as the model alone can say it.

    Of the fields of the answer's first level: numbers are 0, and lists and mappings empty; texts
    that identify something have an invented id; others are left out, but for those that the model
    requires. The entries of a batch with ids come back as ``Successful``.
    """
    shape = call.operation.output_shape
    if shape is None:
        return {}
    required = set(getattr(shape, "required_members", []))
    found = {}
    members: Mapping[str, Shape] = getattr(shape, "members", {})
    for name, member in members.items():
        if member.serialization.get("location") == "statusCode":
            continue
        value = _neutral(name, member, is_required=name in required)
        if value is not None:
            found[name] = value
    entries = call.parameters.get("Entries")
    if "Successful" in found and isinstance(entries, list):
        inner: Any = members["Successful"]
        found["Successful"] = [
            {**_required_of(inner.member), "Id": str(one.get("Id", ""))} for one in entries
        ]
    return found


_EMPTY: Mapping[str, Any] = {
    "list": [],
    "map": {},
    **dict.fromkeys(("integer", "long", "float", "double"), 0),
    "boolean": False,
}
_EMPTY_IF_REQUIRED: Mapping[str, Any] = {"timestamp": 0, "blob": b""}


def _neutral(name: str, shape: Shape, *, is_required: bool) -> Any:  # noqa: ANN401 - JSON
    if shape.type_name in _EMPTY:
        return _EMPTY[shape.type_name]
    if shape.type_name == "string" and name.lower().endswith(_IDENTIFIERS):
        return f"rehearsal-{name}"
    if not is_required:
        return None
    if shape.type_name == "structure":
        return _required_of(shape)
    enum = shape.metadata.get("enum", [])
    return _EMPTY_IF_REQUIRED.get(shape.type_name, enum[0] if enum else "rehearsal")


def _required_of(shape: Shape) -> dict[str, Any]:
    members: Mapping[str, Shape] = getattr(shape, "members", {})
    names = getattr(shape, "required_members", [])
    return {name: _neutral(name, members[name], is_required=True) for name in names}


def _optional(values: dict[str, Any]) -> dict[str, Any]:
    """Return *values* without what boto3 adds to every answer."""
    return {name: value for name, value in values.items() if name != "ResponseMetadata"}


def _serialized(call: Call, shape: Shape | None, values: Mapping[str, Any]) -> dict[str, Any]:
    serializers: Mapping[str, Any] = {
        "json": JSONSerializer,
        "rest-json": RestJSONSerializer,
        "rest-xml": _XmlSerializer,
        CBOR: RpcV2CBORSerializer,
    }
    operation = call.operation
    as_request = SimpleNamespace(
        name=operation.name,
        metadata=operation.metadata,
        service_model=operation.service_model,
        http={"method": "POST", "requestUri": "/"},
        input_shape=shape,
        endpoint=None,
        has_event_stream_input=False,
        has_event_stream_output=False,
        is_query_compatible=False,
    )
    written: dict[str, Any] = serializers[call.protocol]().serialize_to_request(values, as_request)
    return written


class _XmlSerializer(RestXMLSerializer):
    """Also of outputs, whose root needs no name: readers ignore it."""

    def _serialize_body_params(self, params: Any, shape: Any) -> Any:  # noqa: ANN401 - botocore's
        name = shape.serialization.get("name") or shape.name
        return ET.tostring(self.tree(params, shape, name))

    def tree(self, params: Any, shape: Any, name: str) -> ET.Element:  # noqa: ANN401 - botocore's
        """Return the element *name* with *params*."""
        root = ET.Element("")
        serializer: Any = self
        serializer._serialize(shape, params, root, name)  # noqa: SLF001 - of the same object
        return root[0]


def _query_body(call: Call, shape: Shape | None, values: Mapping[str, Any]) -> bytes:
    root = ET.Element(f"{call.operation.name}Response")
    place = root
    wrapper = shape and shape.serialization.get("resultWrapper")
    if wrapper:
        place = ET.SubElement(root, wrapper)
    if shape is not None:
        place.extend(list(_XmlSerializer().tree(values, shape, "answer")))
    if call.protocol == "ec2":
        ET.SubElement(root, "requestId").text = REQUEST_ID
    else:
        metadata = ET.SubElement(root, "ResponseMetadata")
        ET.SubElement(metadata, "RequestId").text = REQUEST_ID
    return ET.tostring(root)


_XML = {"Content-Type": "text/xml", "x-amzn-RequestId": REQUEST_ID}


def _cbor_text(text: str) -> bytes:
    content = text.encode()
    # A text whose length stands in four bytes.
    return b"\x7a" + struct.pack(">I", len(content)) + content
