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
from dlq.explain.findings import Findings, format_statuses, state_of
from dlq.report.views import COLOURS, outline, page_view, quoted, tally

REPORT = files("dlq.report")
"""The package's files: ``templates/`` and ``assets/``."""

SCRIPTS = (
    *("uplot/uPlot.iife.min.js", "basics.js", "page.js", "theme.js", "filters.js", "groups.js"),
    *("chart_layers.js", "chart.js", "marks.js", "copying.js", "commands.js", "start.js"),
)
STYLES = ("uplot/uPlot.min.css", "report.css")


def render_page(findings: Findings) -> str:
    """Render the page.

    The result has no surrogates, whatever the findings contain: it can be written as UTF-8.
    """
    # The first one runs before the page is drawn.
    early, script, style = asset("early.js"), bundled(SCRIPTS), joined(STYLES)
    policy = (
        "default-src 'none'",
        f"script-src {_csp_hash(early)} {_csp_hash(script)}",
        f"style-src {_csp_hash(style)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    parts = {"early_script": early, "script": script, "style": style}
    template = make_environment().get_template("page.html.jinja")
    own = {name: Markup(text) for name, text in parts.items()}  # noqa: S704 - the package's own
    return template.render(view=page_view(findings), policy="; ".join(policy), **own)


def bundled(names: Sequence[str], packages: Sequence[Traversable] = (REPORT,)) -> str:
    """Return scripts in one scope without global names; see ``asset``."""
    return f'(() => {{"use strict";\n{joined(names, packages)}\n}})();'


def joined(names: Sequence[str], packages: Sequence[Traversable] = (REPORT,)) -> str:
    """Return assets in one text."""
    return "\n".join(asset(name, packages) for name in names)


def asset(name: str, packages: Sequence[Traversable] = (REPORT,)) -> str:
    """Return a file of the first of these packages that has it among its assets."""
    paths = (package.joinpath("assets", *name.split("/")) for package in packages)
    return next(path for path in paths if path.is_file()).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def make_environment(packages: tuple[Traversable, ...] = (REPORT,)) -> Environment:
    """Make an engine that looks for a template in each of these packages, in this order."""

    def source(name: str) -> str | None:
        for package in packages:
            found = package.joinpath("templates", *name.split("/"))
            if found.is_file():
                # Without line breaks between tags: else a page of 1,000 groups would have a hundred
                # thousand empty text nodes.
                template = found.read_text(encoding="utf-8")
                unindented = re.sub(r"^[ \t]+", "", template, flags=re.MULTILINE)
                return re.sub(r">\n+<", "><", unindented)
        return None

    environment = Environment(
        loader=FunctionLoader(source),
        autoescape=True,
        undefined=StrictUndefined,
        # Every printed value goes through ``visible``; the engine escapes the result.
        finalize=lambda value: (
            figures.visible(value)
            if isinstance(value, str) and not isinstance(value, Markup)
            else value
        ),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    named = (
        *(figures.counted, figures.cut, figures.duration, figures.epoch, figures.iso),
        *(figures.minute, figures.moment, figures.percent, figures.second, figures.size),
    )
    environment.filters.update({one.__name__: one for one in named})
    environment.filters.update(state=state_of, statuses=format_statuses)
    environment.filters.update(outline=outline, quoted=quoted, tally=tally)
    environment.globals["COLOURS"] = COLOURS
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment
