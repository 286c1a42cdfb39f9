"""A Lambda invocation without Lambda: the event as JSON, the handler, the answer as JSON."""

import importlib.util
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

HANDLER = Path(__file__).parents[1] / "functions" / "replay" / "handler.py"

Handler = Callable[[Any, Any], Any]


class Context:
    """Lambda's context, with time enough."""

    def get_remaining_time_in_millis(self) -> int:
        """What the template gives the function."""
        return 30_000


def invoke(handler: Handler, payload: bytes) -> bytes:
    """Do what the runtime does for one invocation."""
    return json.dumps(handler(json.loads(payload), Context())).encode()


@contextmanager
def silence() -> Iterator[TextIO]:
    """Send logs and metrics where they cost a write and nothing more, as in a sandbox."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield nowhere


def load_replay_handler(variables: Mapping[str, str]) -> Handler:
    """Load the replay function as a cold start does, with *variables* in its environment.

    They stay set: the function reads them when it is first invoked. What it prints goes where
    ``sys.stdout`` leads now.
    """
    os.environ.update(variables)
    spec = importlib.util.spec_from_file_location("measured_replay_handler", HANDLER)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{HANDLER} could not be loaded")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    handler: Handler = module.lambda_handler
    return handler
