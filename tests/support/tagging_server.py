"""The Resource Groups Tagging API, as far as the product calls it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.served import served


@dataclass
class TaggedQueues:
    """The ARNs of the queues with each value of the tag; refuses calls while *is_refused*."""

    arns: dict[str, list[str]] = field(default_factory=dict)
    is_refused: bool = False
    url: str = ""

    def answer(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.is_refused:
            return 400, {"__type": "AccessDeniedException", "message": "no tag:GetResources"}
        [wanted] = request["TagFilters"]
        assert wanted["Key"] == "dlq-replay"
        arns = [arn for value in wanted["Values"] for arn in self.arns.get(value, [])]
        resources = [{"ResourceARN": arn, "Tags": []} for arn in arns]
        return 200, {"PaginationToken": "", "ResourceTagMappingList": resources}


@contextmanager
def serving_tags() -> Iterator[TaggedQueues]:
    """Serve until the block ends, at the *url* of what this yields."""
    tagged = TaggedQueues()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            status, answer = tagged.answer(json.loads(self.rfile.read(length)))
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        tagged.url = f"http://127.0.0.1:{server.server_port}"
        yield tagged
