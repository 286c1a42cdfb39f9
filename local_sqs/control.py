"""The control interface of a server in another process, under ``/_control``.

=======================  ===========================================================
``GET /_control``          latency, number of requests by operation, processor time
``GET …/requests``       every received request; ``?operation=…&queue=…`` filters
``DELETE …/requests``    clear the log of requests
``POST …/faults``        a list of rules, fields as in ``faults.Fault``
``DELETE …/faults``      remove all rules
``POST …/latency``       ``{"ms": 20}``: added to every answer
``POST …/advance``       ``{"seconds": 60}``: advances a virtual clock
=======================  ===========================================================
"""

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from local_sqs.clock import VirtualClock
from local_sqs.faults import Fault
from local_sqs.front import Front
from local_sqs.http11 import HttpRequest
from local_sqs.wire import Reply

ROOT = "/_control"


@dataclass
class Tuning:
    """Settings that may be changed while a server runs.

    Attributes:
        latency_ms: added to every answer.
    """

    latency_ms: float = 0.0


def control(front: Front, tuning: Tuning, request: HttpRequest) -> Reply:
    """Answer one request under ``/_control``: 404 for an unknown path, 400 for a bad request."""
    try:
        answer = _act(front, tuning, request)
    except (ValueError, TypeError, KeyError) as error:
        return _json(400, {"error": str(error)})
    return _json(404, {"error": "no such path"}) if answer is None else _json(200, answer)


def _act(front: Front, tuning: Tuning, request: HttpRequest) -> object:
    parts = urlsplit(request.path)
    route = f"{request.method} {parts.path.removeprefix(ROOT).strip('/')}".strip()
    if route == "GET":
        counts = Counter(record.operation for record in front.log.records())
        cpu_seconds = time.process_time()
        return {"latency_ms": tuning.latency_ms, "counts": counts, "cpu_seconds": cpu_seconds}
    if route == "GET requests":
        chosen = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return [asdict(record) for record in front.log.records(**chosen)]
    if route == "DELETE requests":
        front.log.clear()
        return {}
    if route == "DELETE faults":
        front.faults.clear()
        return {}
    return _post(front, tuning, route, json.loads(request.body or b"{}"))


def _post(front: Front, tuning: Tuning, route: str, given: Any) -> object:
    clock = front.model.clock
    if route == "POST faults":
        front.faults.add(*(Fault.from_json(raw) for raw in given))
    elif route == "POST latency":
        tuning.latency_ms = float(given["ms"])
    elif route == "POST advance" and isinstance(clock, VirtualClock):
        clock.advance(given["seconds"])
        with front.model.changed:
            front.model.announce()
    else:
        return None
    return {}


def _json(status: int, content: object) -> Reply:
    return Reply(status, {"Content-Type": "application/json"}, json.dumps(content).encode())
