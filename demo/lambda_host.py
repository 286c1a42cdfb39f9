"""Loads the real Lambda functions, as a cold start does."""

import importlib.util
import logging
from typing import Any, TextIO

from demo import ROOT
from demo.errors import DemoError


def cold_start(function: str) -> Any:  # noqa: ANN401 - a module is what it defines
    """Load ``functions/<function>/handler.py`` anew and return it as a module.

    It finds its settings in ``os.environ``, as they are now.
    """
    path = ROOT / "functions" / function / "handler.py"
    spec = importlib.util.spec_from_file_location(f"demo_{function}_handler", path)
    if spec is None or spec.loader is None:
        raise DemoError(f"{path} could not be loaded.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def send_log(module: Any, log: TextIO) -> None:  # noqa: ANN401 - as above
    """Let the Powertools logger of a function write to *log*.

    Its metrics are printed, so they go wherever ``sys.stdout`` of the polling thread leads.
    """
    for handler in module.logger.handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(log)
