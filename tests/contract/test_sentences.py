"""No code decides by the words of a sentence that is for people: it has a cause for that."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("layers", "functions", "spark_reprocess", "dlq")

TEXTS = {"stopped_by", "sentence", "detail", "postponed", "refused", "why"}
"""Names of values that hold a text for people, or a ``Stop`` with one."""

LOOKS = {"startswith", "endswith", "find", "index", "count", "partition", "rpartition", "split"}
MATCHES = {"match", "search", "fullmatch", "findall", "finditer"}

FOREIGN = {
    "spark_reprocess/spark_errors.py": "Spark's and Java's texts; some of these have no class",
    "layers/core/dlq_replay/aws/sqs.py": "botocore raises a RuntimeError without a code",
    "dlq/sql/duckdb_engine.py": "DuckDB puts our own error into the text of its own",
}
"""Files that look into the text of an error of somebody else, and why they must."""


def holds_text(node: ast.AST) -> bool:
    """Return whether it is a text for people: by its name, or made of an error."""
    if isinstance(node, ast.Attribute):
        return node.attr in TEXTS
    if isinstance(node, ast.Name):
        return node.id in TEXTS
    is_str = isinstance(node, ast.Call) and ast.unparse(node.func) == "str"
    return is_str and ast.unparse(node) == "str(error)"


def is_a_value(node: ast.AST) -> bool:
    """Return whether it is a member of an enumeration, several of them, or None."""
    if isinstance(node, ast.Tuple | ast.Set | ast.List):
        return all(map(is_a_value, node.elts))
    is_member = isinstance(node, ast.Attribute) and node.attr.isupper()
    return is_member or (isinstance(node, ast.Constant) and node.value is None)


def decisions_by_text(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and code of each place that looks for words in a text for people."""
    for node in ast.walk(ast.parse(source)):
        looked_at: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            is_identity = all(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
            if not is_identity and not any(map(is_a_value, operands)):
                looked_at = operands
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in LOOKS:
                looked_at = [node.func.value]
            elif node.func.attr in MATCHES:
                looked_at = node.args
        elif isinstance(node, ast.Match):
            looked_at = [node.subject]
        if any(map(holds_text, looked_at)):
            yield getattr(node, "lineno", 0), ast.unparse(node).partition("\n")[0]


@pytest.mark.parametrize(
    "code",
    [
        'summary.stopped_by == "interrupted"',
        'stopped_by.startswith("waiting")',
        '"waiting" in stop.sentence',
        'stop.detail in ("a", "b")',
        'str(error).endswith("gone")',
        "re.search(WAITING, stop.sentence)",
        "PATTERN.match(stop.detail)",
        "stop.detail != WORDS",
        "match stop.sentence:\n    case 'interrupted': pass",
    ],
)
def test_check_finds(code: str) -> None:
    assert list(decisions_by_text(code))


@pytest.mark.parametrize(
    "code",
    [
        "stop.cause is StopCause.INTERRUPTED",
        "stopped_by is None",
        "result.detail in (Disposition.NOT_REACHED, Disposition.WAITS)",
        "if summary.stopped_by: print(summary.stopped_by.sentence)",
    ],
)
def test_check_allows(code: str) -> None:
    assert not list(decisions_by_text(code))


def test_no_code_of_the_product_decides_by_a_sentence() -> None:
    files = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 100
    faults = []
    for path in files:
        name = str(path.relative_to(ROOT))
        if name not in FOREIGN:
            for line, code in decisions_by_text(path.read_text(encoding="utf-8")):
                faults.append(f"{name}:{line}: {code}")

    assert faults == []
