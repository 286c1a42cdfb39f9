"""One event: the function is invoked with it, and the queues tell what it did."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from demo import ROOT
from demo.sam_local.engines import Answer, Engine
from demo.sam_local.local_queues import Arrival, LocalQueues
from demo.sam_local.local_template import FUNCTION

EVENTS = ROOT / "events"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an event did: the function's answer, and what arrived in which queue."""

    event: str
    answer: Answer
    arrivals: tuple[Arrival, ...]

    def arrived_in(self, queue: str) -> list[Arrival]:
        """What arrived in ``main``, ``dlq`` or ``parked``."""
        return [one for one in self.arrivals if one.queue == queue]


def event_names() -> list[str]:
    """The events there are, by their files' names without ``.json``."""
    return sorted(path.stem for path in EVENTS.glob("*.json") if not path.stem.startswith("env"))


def try_event(name: str, engine: Engine, server: str) -> Outcome:
    """Invoke the function with an event, on empty queues of the server at the URL *server*.

    No replay waits: a cap of 0 s lets everything arrive at once.

    Raises:
        DemoError: the function did not answer, or with an error.
    """
    environment = _environment(name)
    queues = LocalQueues(server, environment)
    queues.take()
    endpoint = {"AWS_ENDPOINT_URL": server.replace(engine.server_host, engine.host_seen)}
    variables = {**environment, **endpoint, "BACKOFF_CAP_SECONDS": "0"}
    answer = engine.invoke(EVENTS / f"{name}.json", variables)
    return Outcome(name, answer, tuple(queues.take()))


def _environment(name: str) -> Mapping[str, str]:
    is_fifo = name.startswith("fifo")
    text = (EVENTS / ("env-fifo.json" if is_fifo else "env.json")).read_text(encoding="utf-8")
    variables: Mapping[str, str] = json.loads(text)[FUNCTION]
    return variables
