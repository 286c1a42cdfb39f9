"""The template engine of the report and of the console, and their own files. No other I/O.

Every printed value is escaped, and passes through ``visible``. Templates have no scripts and no
styles of their own.
"""

import re
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from spark_reprocess import figures
from spark_reprocess.findings import format_statuses, state_of
from spark_reprocess.report.texts import visible

REPORT = files("spark_reprocess.report")
"""The package's files: ``templates/`` and ``assets/``."""


def make_environment(packages: Sequence[Traversable] = (REPORT,)) -> Environment:
    """Make an engine that looks for a template in each of these packages, in this order."""

    def source(name: str) -> str | None:
        for package in packages:
            found = package.joinpath("templates", *name.split("/"))
            if found.is_file():
                return _unindented(found.read_text(encoding="utf-8"))
        return None

    environment = Environment(
        loader=FunctionLoader(source),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    named = (
        *(figures.counted, figures.cut, figures.duration, figures.epoch, figures.iso),
        *(figures.minute, figures.moment, figures.percent, figures.second, figures.size),
        figures.spoken,
    )
    environment.filters.update({one.__name__: one for one in named})
    environment.filters.update(state=state_of, statuses=format_statuses)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment


def _shown(value: object) -> object:
    """Pass every printed value through ``visible``; the engine escapes the result."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _unindented(template: str) -> str:
    """Return a template without indentation and without line breaks between two tags.

    With them a page of 1,000 groups would have a hundred thousand empty text nodes.
    """
    unindented = re.sub(r"^[ \t]+", "", template, flags=re.MULTILINE)
    return re.sub(r">\n+<", "><", unindented)
