"""The report as one HTML file; its template engine, which the console uses too. No other I/O.

Two measures stop content of messages from running in the page; each suffices alone. The template
engine escapes every value, and passes it through ``visible``. The Content Security Policy allows
only the scripts and the style sheet whose hashes it names, and no request. The scripts set text and
never parse it as markup, which the policy forbids, too.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from dlq import figures
from dlq.explain.findings import NO_QUEUE, Findings, format_statuses, state_of
from dlq.report.views import COLOURS, outline, page_view, quoted, tally

REPORT = files("dlq.report")
"""The package's files: ``templates/`` and ``assets/``."""

SCRIPTS = (
    "uplot/uPlot.iife.min.js",
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
STYLES = ("uplot/uPlot.min.css", "report.css")


def render_page(findings: Findings) -> str:
    """Render the page.

    The result has no surrogates, whatever the findings contain: it can be written as UTF-8.
    """
    # Runs before the page is drawn.
    early_script = asset("early.js")
    script = bundled(SCRIPTS)
    style = joined(STYLES)

    policy = (
        "default-src 'none'",
        f"script-src {_csp_hash(early_script)} {_csp_hash(script)}",
        f"style-src {_csp_hash(style)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )

    template = make_environment().get_template("page.html.jinja")
    return template.render(
        view=page_view(findings),
        policy="; ".join(policy),
        early_script=_unescaped(early_script),
        script=_unescaped(script),
        style=_unescaped(style),
    )


def _unescaped(own_text: str) -> Markup:
    return Markup(own_text)  # noqa: S704 - the package's own


def bundled(names: Sequence[str], packages: Sequence[Traversable] = (REPORT,)) -> str:
    """Return scripts in one scope without global names; see ``asset``."""
    return f'(() => {{"use strict";\n{joined(names, packages)}\n}})();'


def joined(names: Sequence[str], packages: Sequence[Traversable] = (REPORT,)) -> str:
    """Return assets in one text."""
    return "\n".join(asset(name, packages) for name in names)


def asset(name: str, packages: Sequence[Traversable] = (REPORT,)) -> str:
    """Return a file of the first of these packages that has it among its assets."""
    text = _text_of("assets", name, packages)
    if text is None:
        raise FileNotFoundError(name)
    return text


def _text_of(folder: str, name: str, packages: Sequence[Traversable]) -> str | None:
    """Return a file of the first package that has it; None if no package has it."""
    for package in packages:
        path = package.joinpath(folder, *name.split("/"))
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def make_environment(packages: tuple[Traversable, ...] = (REPORT,)) -> Environment:
    """Make an engine that looks for a template in each of these packages, in this order."""

    def source(name: str) -> str | None:
        template = _text_of("templates", name, packages)
        if template is None:
            return None
        # Without line breaks between tags: else a page of 1,000 groups would have a hundred
        # thousand empty text nodes.
        unindented = re.sub(r"^[ \t]+", "", template, flags=re.MULTILINE)
        return re.sub(r">\n+<", "><", unindented)

    environment = Environment(
        loader=FunctionLoader(source),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        counted=figures.counted,
        truncated=figures.truncate,
        duration=figures.duration,
        epoch=figures.epoch,
        iso=figures.iso,
        minute=figures.minute,
        moment=figures.moment,
        percent=figures.percent,
        second=figures.second,
        size=figures.size,
        state=state_of,
        statuses=format_statuses,
        outline=outline,
        quoted=quoted,
        tally=tally,
    )
    environment.globals["COLOURS"] = COLOURS
    environment.globals["NO_QUEUE"] = NO_QUEUE
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment


def _finalized(value: object) -> object:
    """Pass each text that a template prints through ``visible``; the engine escapes the result."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return figures.visible(value)
    return value
