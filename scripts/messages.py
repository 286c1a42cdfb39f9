"""What ``dlq`` and the functions say: the site's page "Messages of dlq".

Messages with which a command ends are read from the code. One is what a ``raise`` or a helper of it
says in a literal; what a variable fills in is "…". Texts of others, such as AWS's, are not in the
code: they come behind a colon of such a message.

Lines that a run or a function prints are those of the tables in docs/, which also say what to do
about some messages: a *saying* is a row of a table whose first column is "it says".
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
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


_SAYINGS = re.compile(
    r"^\| it says \|(?P<names>.*)\|\n\|[-|]+\|\n(?P<rows>(?:\|.*\|\n)+)", re.MULTILINE
)
_CODE = re.compile(r"`([^`]+)`")
_CELLS = re.compile(r"(?<!\\)\|")
_NUMBER = re.compile(r"\d[\d,]*")


@dataclass(frozen=True, slots=True)
class Saying:
    """A row of a table of what is said.

    Attributes:
        page: the name of the page in docs/.
        text: with gaps.
        advice: the other cells, each behind the name of its column; Markdown.
    """

    page: str
    text: str
    advice: str

    def is_of(self, message: str) -> bool:
        """Return whether it is about a message, which may say more before and behind it.

        One word is about none: it is the name of a state.
        """
        if len(self.text.split()) == 1:
            return False
        parts = [re.escape(part) for part in _with_gaps(self.text).split(GAP)]
        return re.search(".*".join(parts), _with_gaps(message)) is not None


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


@cache
def sayings() -> tuple[Saying, ...]:
    """Return the sayings of all pages of docs/."""
    rows: list[Saying] = []
    for file in sorted((ROOT / "docs").glob("*.md")):
        for table in _SAYINGS.finditer(file.read_text("utf-8")):
            names = [name.strip() for name in table["names"].split("|")]
            for row in table["rows"].splitlines():
                first, *cells = [cell.strip() for cell in _CELLS.split(row)[1:-1]]
                advice = _advice(names, cells, file.name)
                rows.extend(Saying(file.name, text, advice) for text in _CODE.findall(first))
    return tuple(rows)


def _advice(names: list[str], cells: list[str], page: str) -> str:
    sentences: list[str] = []
    for name, cell in zip(names, cells, strict=True):
        with_page = re.sub(r"\]\((?=#)", f"]({page}", cell)
        sentences.append(f"{name.capitalize()}: {with_page}.")
    return " ".join(sentences)


def _with_gaps(text: str) -> str:
    """Return the *text* with a gap for each number: the code may have a variable there."""
    return _NUMBER.sub(GAP, text)


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
        "A command that ends with one of these messages has exit code 2; lines of a run and of the",
        "functions come last. The page is made from the code and the documents;",
        f"`{GAP}` is a value of yours, or an error of AWS. It is safe to",
        "[run the same command again](faq.md#is-it-safe-to-run-twice).",
        "[Troubleshooting](troubleshooting.md) begins with what you see.",
    ]
    all_texts: list[str] = []
    for heading, texts in of_topic.items():
        all_texts += texts
        if texts:
            lines += ["", f"## {heading}", "", f"More: [{pages[heading]}]({pages[heading]})", ""]
            for text in sorted(set(texts), key=str.lower):
                lines += [f"### {_code(text)}", ""]
                lines += [saying.advice + "\n" for saying in sayings() if saying.is_of(text)]

    lines += ["", "## Lines of a run and of the functions", ""]
    of_no_message = {saying for saying in sayings() if not any(map(saying.is_of, all_texts))}
    for saying in sorted(of_no_message, key=lambda saying: saying.text.lower()):
        lines += [f"### {_code(saying.text)}", "", saying.advice, ""]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"
