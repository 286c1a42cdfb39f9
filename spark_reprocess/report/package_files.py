"""The page's parts, read from the package: from a folder or from inside a zip."""

import base64
import hashlib
import re
from importlib.resources import files

_HERE = files("spark_reprocess.report")

_SCRIPTS = (
    "page.js",
    "theme.js",
    "filters.js",
    "groups.js",
    "chart_layers.js",
    "chart.js",
    "marks.js",
    "commands.js",
    "start.js",
)
_EARLY = "early.js"
_LIBRARY = "uplot/uPlot.iife.min.js"
_STYLES = ("uplot/uPlot.min.css", "report.css")


def template_source(name: str) -> str:
    """Read a template, without the white space that is only for its reader.

    Indentation goes, and so do line breaks between two tags: a page of 1,000 groups would have a
    hundred thousand empty text nodes.
    """
    unindented = re.sub(r"^[ \t]+", "", _read("templates", name), flags=re.MULTILINE)
    return re.sub(r">\n+<", "><", unindented)


def early_script() -> str:
    """What has to run before anything is drawn."""
    return _read("assets", _EARLY)


def script() -> str:
    """The page's script: the chart library and ours, in one scope that leaves no global name."""
    parts = [_read("assets", name) for name in (_LIBRARY, *_SCRIPTS)]
    return "\n".join(['(() => {"use strict";', *parts, "})();"])


def style() -> str:
    """The page's only style sheet."""
    return "\n".join(_read("assets", name) for name in _STYLES)


def csp_hash(text: str) -> str:
    """Return the Content Security Policy's word for an inline script or style of this text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _read(folder: str, name: str) -> str:
    return _HERE.joinpath(folder, *name.split("/")).read_text(encoding="utf-8")
