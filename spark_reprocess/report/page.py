"""The report as one HTML file. No I/O: findings in, text out.

Two measures stop content of messages from running in the page; each suffices alone. The template
engine escapes every value. The Content Security Policy allows only the scripts and the style sheet
whose hashes it names, and no request. The scripts set text and never parse it as markup, which the
policy forbids, too.
"""

import base64
import hashlib
from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from spark_reprocess.findings import Findings
from spark_reprocess.report.rendering import REPORT, make_environment
from spark_reprocess.report.views import page_view

_SCRIPTS = (
    "basics.js",
    "page.js",
    "theme.js",
    "filters.js",
    "groups.js",
    "chart_layers.js",
    "chart.js",
    "marks.js",
    "copying.js",
    "commands.js",
    "start.js",
)
_EARLY = "early.js"
"""Runs before the page is drawn."""

_LIBRARY = "uplot/uPlot.iife.min.js"
_STYLES = ("uplot/uPlot.min.css", "report.css")


def render_page(findings: Findings) -> str:
    """Render the page.

    The result has no surrogates, whatever the findings contain: it can be written as UTF-8.
    """
    early = _read("assets", _EARLY)
    policy = (
        "default-src 'none'",
        f"script-src {_csp_hash(early)} {_csp_hash(script())}",
        f"style-src {_csp_hash(style())}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    parts = {"early_script": early, "script": script(), "style": style()}
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            view=page_view(findings),
            policy="; ".join(policy),
            **{name: Markup(text) for name, text in parts.items()},  # noqa: S704 - the package's own
        )
    )


@cache
def _environment() -> Environment:
    return make_environment()


def script() -> str:
    """Return the page's script: the chart library and ours, in one scope without global names."""
    parts = [_read("assets", name) for name in (_LIBRARY, *_SCRIPTS)]
    return "\n".join(['(() => {"use strict";', *parts, "})();"])


def style() -> str:
    """Return the page's only style sheet."""
    return "\n".join(_read("assets", name) for name in _STYLES)


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _read(folder: str, name: str) -> str:
    return REPORT.joinpath(folder, *name.split("/")).read_text(encoding="utf-8")
