"""Measure how densely the code is written, by part: product, tools, tests.

Each measure is defined beside its name in ``MEASURES``. ``--list MEASURE`` names the places of one,
so that they can be rewritten; paths after it select files or folders.
"""

import argparse
import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

_ROOT = Path(__file__).parents[1]

PARTS = {
    "product": ("layers", "functions", "dlq", "spark_reprocess"),
    "tools": ("demo", "local_sqs", "benchmarks", "scripts"),
    "tests": ("tests",),
}

MEASURES = {
    "splats": "a literal tuple, list or set behind a star, in a call or a display",
    "unbroken": "functions of 20 or more lines of code without a blank line among them",
    "comprehensions": "comprehensions and generator expressions",
    "wide": "of these, the ones that need more than two lines",
    "parallel": "assignments of several literal values to several names at once",
    "flag-arithmetic": "a list, tuple or text multiplied by a flag, or indexed by bool(…)",
    "walrus": "`:=` outside the condition of an if, a while or a comprehension",
    "vague": "bindings of a name that says nothing: see VAGUE_NAMES",
}

VAGUE_NAMES = frozenset(
    {
        "one",
        "found",
        "said",
        "kept",
        "known",
        "told",
        "of",
        "fate",
        "word",
        "elem",
        "item",
        "x",
    }
)

UNBROKEN_LINES = 20
_WIDE_LINES = 2

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DISPLAYS = (ast.Tuple, ast.List, ast.Set)


@dataclass(frozen=True, slots=True)
class Place:
    """One occurrence of a measure; lines are counted from 1."""

    measure: str
    path: str
    line: int
    text: str


def places(path: str, source: str) -> Iterator[Place]:
    """Yield each occurrence of each measure in a Python file."""
    tree = ast.parse(source)
    lines = source.splitlines()

    in_conditions: set[int] = set()
    for parent in ast.walk(tree):
        for condition in _conditions(parent):
            in_conditions.update(map(id, ast.walk(condition)))

    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        for measure, text in _measures(node, lines):
            yield Place(measure, path, line, text)

        if isinstance(node, ast.NamedExpr) and id(node) not in in_conditions:
            yield Place("walrus", path, line, ast.unparse(node.target))


def _measures(node: ast.AST, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the measures that this node alone decides, each with a word about it."""
    if is_literal_splat(node):
        yield "splats", ast.unparse(node)

    if isinstance(node, _Function) and _is_unbroken(node, lines):
        yield "unbroken", node.name

    if isinstance(node, _COMPREHENSIONS):
        yield "comprehensions", ""
        if _height(node) > _WIDE_LINES:
            yield "wide", f"{_height(node)} lines"

    if isinstance(node, ast.Assign) and _is_parallel(node):
        yield "parallel", ast.unparse(node.targets[0])

    if _is_flag_arithmetic(node):
        yield "flag-arithmetic", ast.unparse(node)

    name = _bound_name(node)
    if name in VAGUE_NAMES:
        yield "vague", name


def is_literal_splat(node: ast.AST) -> bool:
    """Return whether it is ``*(a, b)`` in a call or a display: its items fit there without it."""
    return isinstance(node, ast.Starred) and isinstance(node.value, _DISPLAYS)


def _conditions(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield node.test
    elif isinstance(node, ast.comprehension):
        yield from node.ifs


def _is_unbroken(function: _Function, lines: list[str]) -> bool:
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    if not body:
        return False

    begin = body[0].lineno
    end = function.end_lineno or 0
    height = end - begin + 1
    return height >= UNBROKEN_LINES and all(map(str.strip, lines[begin - 1 : end]))


def _height(node: ast.expr) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _is_parallel(assignment: ast.Assign) -> bool:
    return isinstance(assignment.targets[0], ast.Tuple) and isinstance(assignment.value, ast.Tuple)


def _is_flag_arithmetic(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return any(map(_is_bool_call, ast.walk(node.slice)))
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return False

    has_flag = _is_flag(node.left) or _is_flag(node.right)
    pair = {type(node.left), type(node.right)}
    return has_flag and not pair.isdisjoint({ast.List, ast.Tuple, ast.Constant, ast.JoinedStr})


def _is_flag(node: ast.expr) -> bool:
    return isinstance(node, ast.Compare | ast.BoolOp) or _is_bool_call(node)


def _is_bool_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool"


def _bound_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    return None


def python_files(folders: tuple[str, ...]) -> list[str]:
    """Return the paths of the Python files that git knows, or would add, in these folders."""
    patterns = [f"{folder}/**.py" for folder in folders]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],  # noqa: S607 - git is where PATH says
        cwd=_ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = set(filter(None, listed.split("\0")))
    return sorted(name for name in names if (_ROOT / name).is_file())


def main() -> None:
    """Print the table of the measures, or the places of one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", choices=MEASURES, help="name the places of this measure")
    parser.add_argument("paths", nargs="*", help="only what is below these, for --list")
    arguments = parser.parse_args()
    if arguments.list:
        _list_places(arguments.list, tuple(arguments.paths))
    else:
        _print_table()


def _list_places(measure: str, below: tuple[str, ...]) -> None:
    folders = tuple(chain.from_iterable(PARTS.values()))
    for path in python_files(folders):
        if below and not path.startswith(below):
            continue
        for place in places(path, (_ROOT / path).read_text(encoding="utf-8")):
            if place.measure == measure:
                sys.stdout.write(f"{path}:{place.line}: {place.text}\n")


def _print_table() -> None:
    counts = Counter[tuple[str, str]]()
    line_counts = Counter[str]()
    for part, folders in PARTS.items():
        for path in python_files(folders):
            source = (_ROOT / path).read_text(encoding="utf-8")
            line_counts[part] += len(list(filter(str.strip, source.splitlines())))
            for place in places(path, source):
                counts[place.measure, part] += 1

    _print_row("", PARTS)
    for measure in MEASURES:
        _print_row(measure, [f"{counts[measure, part]:,}" for part in PARTS])

    rates = []
    for part in PARTS:
        rate = 1000 * counts["comprehensions", part] / line_counts[part]
        rates.append(f"{rate:.1f}")
    _print_row("comprehensions per 1,000 lines", rates)
    _print_row("lines that are not empty", [f"{line_counts[part]:,}" for part in PARTS])


def _print_row(label: str, cells: Iterable[str]) -> None:
    row = "".join(f"{cell:>10}" for cell in cells)
    sys.stdout.write(f"{label:<34}{row}\n")


if __name__ == "__main__":
    main()
