"""The messages with which ``dlq`` ends, read from the code: the site's page "Messages of dlq".

A message is what a ``raise`` or a helper of it says in a literal; what a variable fills in is "…".
Texts of others, such as AWS's, are not in the code: they come behind a colon of such a message.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAMS = ("dlq", "spark_reprocess")

SPEAKERS = frozenset(
    {
        "ArchiveError",
        "ArgumentTypeError",
        "BusyError",
        "EditError",
        "InputError",
        "JsonTextError",
        "NoReportError",
        "QueueError",
        "Refusal",
        "SqlError",
        "SystemExit",
        "_refused",
        "missing",
        "refusal",
        "refused",
        "sql_error",
        "too_slow",
    }
)
"""Errors and functions whose first text is for people."""

UNSEEN = {
    "dlq/console/security.py": "the console says it in the browser, and no command ends with it",
    "dlq/stack/glue_runs.py": "the job on AWS Glue says it to whoever starts it without dlq",
}
"""Files whose messages nobody meets who types ``dlq``, and why."""

GAP = "…"

TOPICS: tuple[tuple[str, str, str], ...] = (
    ("dlq/redrive/", "Redrive", "redrive.md"),
    ("dlq/plan/", "Plans, policies, edits", "redrive.md"),
    ("dlq/sql/", "Conditions in SQL", "redrive.md"),
    ("dlq/look/", "Look and find", "look.md"),
    ("dlq/inspect/", "Show, find, groups", "redrive.md"),
    ("dlq/explain/", "Analysis and logs", "analysis.md"),
    ("dlq/erase/", "Erase", "erase.md"),
    ("dlq/archive/", "The archive", "archive.md"),
    ("dlq/aws/", "Queues, Regions, credentials", "install.md"),
    ("dlq/stack/", "Stacks and fleets", "install.md"),
    ("dlq/console/", "The console", "console.md"),
    ("dlq/cli/", "Options of the command", "reference.md"),
    ("spark_reprocess/", "Spark", "redrive.md"),
    ("dlq/", "Memory, engines, the nightly run", "redrive.md"),
)
"""Beginning of a path, heading, page to read; the first that fits a file counts."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message, and the file that says it."""

    path: str
    text: str

    @property
    def longest_part(self) -> str:
        """The longest part without a gap."""
        parts = [part.strip(" ,.:;()`") for part in self.text.split(GAP)]
        return max(parts, key=len)


def messages() -> list[Message]:
    """Return those that have two words of their own, in the order of files and lines."""
    listed: dict[Message, None] = {}
    for program in PROGRAMS:
        for file in sorted((ROOT / program).rglob("*.py")):
            path = str(file.relative_to(ROOT))
            if path in UNSEEN:
                continue
            for text in texts_of(file.read_text("utf-8")):
                with_single_gaps = re.sub(f"{GAP}{{2,}}", GAP, text)
                message = Message(path, " ".join(with_single_gaps.split()))
                if len(message.longest_part.split()) > 1:
                    listed[message] = None
    return list(listed)


def texts_of(source: str) -> Iterator[str]:
    """Yield the text of each call of a speaker in the *source*, with gaps."""
    tree = ast.parse(source)
    constants = _constants(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in SPEAKERS:
            texts = [_text(argument, constants) for argument in node.args]
            yield next((text for text in texts if text.strip(f"{GAP} :")), GAP)


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Return what the module's names stand for."""
    values = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values[node.targets[0].id] = node.value
    return values


def _text(node: ast.expr, constants: dict[str, ast.expr]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            parts = [text]
        case ast.JoinedStr(values=values):
            parts = [_text(value, constants) for value in values]
        case ast.FormattedValue(value=value):
            parts = [_text(value, constants)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [_text(left, constants), _text(right, constants)]
        case ast.IfExp(body=body):
            parts = [_text(body, constants)]
        case ast.Name(id=name) if name in constants:
            parts = [_text(constants[name], {})]
        case _:
            parts = [GAP]
    return "".join(parts)


def page() -> str:
    """Return the page in Markdown: a heading for each topic, and one for each message.

    A search finds headings first, and a message of many words would drown in a long section.
    """
    of_topic: dict[str, list[str]] = {heading: [] for _, heading, _ in TOPICS}
    pages = {heading: target for _, heading, target in TOPICS}
    for message in messages():
        topic = next(heading for start, heading, _ in TOPICS if message.path.startswith(start))
        of_topic[topic].append(message.text)

    lines = [
        "---",
        # A table of contents would be the page once more.
        "hide: [toc]",
        "---",
        "",
        "# Messages of dlq",
        "",
        "A command that ends with one of these messages has exit code 2. The page is made from the",
        f"code; `{GAP}` is a value of yours, or an error of AWS. It is safe to",
        "[run the same command again](faq.md#is-it-safe-to-run-twice).",
        "[Troubleshooting](troubleshooting.md) begins with what you see.",
    ]
    for heading, texts in of_topic.items():
        if texts:
            lines += ["", f"## {heading}", "", f"More: [{pages[heading]}]({pages[heading]})", ""]
            for text in sorted(set(texts), key=str.lower):
                lines += [f"### {_code(text)}", ""]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"
