"""Loads the real replay handler, with its logs and metrics going to a file."""

import importlib.util
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from demo import ROOT
from demo.errors import DemoError

if TYPE_CHECKING:
    from demo.event_source import Handler

_HANDLER_PATH = ROOT / "functions" / "replay" / "handler.py"


def load_replay_handler(environment: Mapping[str, str], log: TextIO) -> "Handler":
    """Load ``functions/replay/handler.py`` anew, as a cold start does.

    Its logger writes to *log*. Its metrics are printed, so they go wherever ``sys.stdout`` of the
    polling thread leads.
    """
    os.environ.update(environment)
    spec = importlib.util.spec_from_file_location("demo_replay_handler", _HANDLER_PATH)
    if spec is None or spec.loader is None:
        raise DemoError(f"{_HANDLER_PATH} could not be loaded.")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for handler in module.logger.handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(log)
    loaded: Handler = module.lambda_handler
    return loaded
