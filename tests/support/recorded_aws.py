"""moto's server with a record of every call that reached it, from whichever process it came."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.contract.permissions import Call
from tests.support.served import App, Environ, served_aws

_ACCOUNT = "us-east-1:123456789012"


@dataclass
class RecordedAws:
    """A running server: its address, and what was asked of it."""

    url: str = ""
    calls: list[Call] = field(default_factory=list)


@contextmanager
def serve_recorded_aws() -> Iterator[RecordedAws]:
    """Serve an empty account until the block ends."""
    recorded = RecordedAws()

    def record(app: App) -> App:
        def call(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            environ["wsgi.input"] = BytesIO(body)
            recorded.calls += _calls(environ, body)
            return app(environ, start_response)

        return call

    with served_aws(record) as recorded.url:
        yield recorded


def _calls(environ: Environ, body: bytes) -> list[Call]:
    """Return the call, or one for each object of a DeleteObjects."""
    if _service(environ) == "s3" and environ["REQUEST_METHOD"] == "POST":
        bucket = unquote(environ["PATH_INFO"]).strip("/")
        calls = []
        for deleted in re.findall(rb"<Object>(.*?)</Object>", body, re.DOTALL):
            is_version = b"<VersionId>" in deleted
            action = "s3:DeleteObjectVersion" if is_version else "s3:DeleteObject"
            calls.append(Call(action, _of(bucket, deleted)))
        return calls
    return [_call(environ, body)]


def _of(bucket: str, listed: bytes) -> str:
    [key] = re.findall(r"<Key>(.*?)</Key>", listed.decode())
    return f"arn:aws:s3:::{bucket}/{key}"


_LISTED = {
    "/2015-03-31/event-source-mappings": "lambda:ListEventSourceMappings",
    "/v1/pipes": "pipes:ListPipes",
}
"""By the paths of services without operations in their requests."""


_KINDS = {"events": "rule", "glue": "job"}
_PREFIXES = {"sts": "sts", "tagging": "tag"}
"""Of actions, by the service that a request is signed for: calls without a resource."""


def _call(environ: Environ, body: bytes) -> Call:  # noqa: PLR0911 - one for each service
    service = _service(environ)
    if service == "s3":
        return _s3_call(environ)
    if listed := _LISTED.get(environ["PATH_INFO"].rstrip("/")):
        return Call(listed, "*")

    operation = _operation(environ, body)
    match service:
        case "sqs":
            # A batch needs the permission of the single call: SQS Developer Guide, "Amazon SQS API
            # permissions".
            sent = json.loads(body)
            name = sent.get("QueueName") or sent["QueueUrl"].rpartition("/")[2]
            action = operation.removesuffix("Batch")
            return Call(f"sqs:{action}", f"arn:aws:sqs:{_ACCOUNT}:{name}")
        case "dynamodb":
            sent = json.loads(body)
            [table] = sent.get("RequestItems") or [sent["TableName"]]
            arn = f"arn:aws:dynamodb:{_ACCOUNT}:table/{table}"
            return Call(f"dynamodb:{operation}", arn, {"dynamodb:LeadingKeys": _keys(sent)})
        case "glue" | "events":
            sent = json.loads(body)
            name = sent.get("JobName") or sent.get("Name")
            arn = f"arn:aws:{service}:{_ACCOUNT}:{_KINDS[service]}/{name}" if name else "*"
            return Call(f"{service}:{operation}", arn)
        case "logs":
            group = json.loads(body)["logGroupName"]
            return Call(f"logs:{operation}", f"arn:aws:logs:{_ACCOUNT}:log-group:{group}:*")
        case "sns":
            sent = parse_qs(body.decode())
            return Call(f"sns:{operation}", sent.get("TopicArn", ["*"])[0])
        case "sts" | "tagging":
            return Call(f"{_PREFIXES[service]}:{operation}", "*")
        case "monitoring":
            named = re.search(rb"DlqReplay", body)
            context = {"cloudwatch:namespace": named[0].decode()} if named else {}
            return Call(f"cloudwatch:{operation}", "*", context)

    raise AssertionError(f"{service}: no test knows how this service spells its calls")


def _keys(sent: dict[str, Any]) -> tuple[str, ...]:
    """The partition keys that a call to DynamoDB names; all tables here have the same key."""
    keys = []
    for request in sent.get("RequestItems", {}).values():
        # A batch that writes has a list of requests instead.
        if "Keys" in request:
            keys += request["Keys"]
    if "Key" in sent:
        keys.append(sent["Key"])
    return tuple(key["message_id"]["S"] for key in keys)


def _service(environ: Environ) -> str:
    """Return the service that the request is signed for."""
    signed = re.search(
        r"Credential=[^/]+/\d+/[^/]+/([^/]+)/", environ.get("HTTP_AUTHORIZATION", "")
    )
    assert signed, environ["PATH_INFO"]
    return signed[1]


def _operation(environ: Environ, body: bytes) -> str:
    """Return the operation: in a header, in the path or in the form, by the service's protocol."""
    if target := environ.get("HTTP_X_AMZ_TARGET"):
        return str(target).rpartition(".")[2]
    if "/operation/" in environ["PATH_INFO"]:
        return str(environ["PATH_INFO"]).rpartition("/")[2]
    return parse_qs(body.decode())["Action"][0]


def _s3_call(environ: Environ) -> Call:
    bucket, _, key = unquote(environ["PATH_INFO"]).lstrip("/").partition("/")
    arn = f"arn:aws:s3:::{bucket}"
    if not key and environ["REQUEST_METHOD"] == "PUT":
        return Call("s3:CreateBucket", arn)
    query = parse_qs(environ["QUERY_STRING"], keep_blank_values=True)
    if not key:
        action = "ListBucketVersions" if "versions" in query else "ListBucket"
        return Call(f"s3:{action}", arn, {"s3:prefix": query.get("prefix", [""])[0]})
    # https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html: needs s3:GetObject.
    actions = {
        "GET": "GetObject",
        "HEAD": "GetObject",
        "PUT": "PutObject",
        "DELETE": "DeleteObject",
    }
    of_version = "Version" if "versionId" in query else ""
    return Call(f"s3:{actions[environ['REQUEST_METHOD']]}{of_version}", f"{arn}/{key}")
