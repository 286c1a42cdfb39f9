"""Put each fault of ``tests/mutants.toml`` into a copy of the checkout: its tests must fail.

A fault that no test notices *survives*. The checkout itself does not change. Words on the command
line choose the faults whose description has them.

Exit code 1 where a fault survives, or its old text is not in its file exactly once.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_LIST = _ROOT / "tests" / "mutants.toml"
_TIMEOUT_SECONDS = 600
_NOTICED = 1
"""The exit code of pytest where a test failed. Others: it could not even begin."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: *new* instead of *old* in *file*. One of *tests* must fail."""

    fault: str
    file: str
    old: str
    new: str
    tests: str


def main() -> None:
    """Print a line for each fault; exit with 1 where one survives."""
    chosen = list(chosen_mutants(sys.argv[1:]))
    tests: set[str] = set()
    for mutant in chosen:
        tests.update(mutant.tests.split())

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder)
        copy_checkout(copy)
        if not tests or code_of(copy, sorted(tests)):
            sys.exit("no fault is chosen, or tests fail without any")
        survivors = [mutant.fault for mutant in chosen if not is_noticed(copy, mutant)]

    if survivors:
        listed = "\n- ".join(survivors)
        sys.exit(f"\n{len(survivors)} of {len(chosen)} not noticed:\n- {listed}")


def chosen_mutants(terms: Sequence[str]) -> Iterator[Mutant]:
    """Yield the faults whose description has all the terms."""
    for mutant in mutants():
        if all(term in mutant.fault for term in terms):
            yield mutant


def mutants() -> Iterator[Mutant]:
    """Yield the faults of the list. An entry with ``words`` is a fault for each of its words."""
    for entry in tomllib.loads(_LIST.read_text("utf-8"))["mutant"]:
        for term in entry.pop("words", "").split():
            new = re.sub(rf"(?<!\w){re.escape(term)}(?!\w)", "zqzqz", entry["old"], count=1)
            yield Mutant(**entry | {"fault": f"{entry['fault']}: {term}", "new": new})
        if "new" in entry:
            yield Mutant(**entry)


def copy_checkout(copy: Path) -> None:
    """Copy what git knows or would add, and link what is built beside it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - git is where PATH says
        cwd=_ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(_ROOT / name, target)
    (copy / ".tools").symlink_to(_ROOT / ".tools")


def is_noticed(copy: Path, mutant: Mutant) -> bool:
    """Put the fault in, run its tests, take it out; print and return whether they failed."""
    path = copy / mutant.file
    began = time.monotonic()
    text = path.read_text("utf-8")
    if text.count(mutant.old) != 1:
        result = f"IS {text.count(mutant.old)} TIMES IN {mutant.file}"
    else:
        path.write_text(text.replace(mutant.old, mutant.new), "utf-8")
        code = code_of(copy, mutant.tests.split())
        path.write_text(text, "utf-8")
        result = {_NOTICED: "noticed", 0: "SURVIVES"}.get(code, f"ENDS PYTEST WITH {code}")

    sys.stdout.write(f"{result:<10}{time.monotonic() - began:>6.1f} s  {mutant.fault}\n")
    sys.stdout.flush()
    return result == "noticed"


def code_of(copy: Path, tests: list[str]) -> int:
    """Run *tests*; return pytest's exit code, ``_NOTICED`` where they do not end in time."""
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *tests]
    # With CI=true, a test of properties repeats its examples instead of drawing new ones.
    environment = {**os.environ, "CI": "true", "PYTHONPATH": "layers/core"}
    try:
        return subprocess.run(
            command,
            cwd=copy,
            env=environment,
            check=False,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
        ).returncode
    except subprocess.TimeoutExpired:
        return _NOTICED


if __name__ == "__main__":
    main()
