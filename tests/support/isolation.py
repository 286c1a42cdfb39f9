"""A Python that sees only what a program declares, as a cluster or a Lambda would."""

import json
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

IMPORT_ALL = """
import importlib, json, pkgutil, sys
sys.path[1:1] = json.loads(sys.argv[1])
found = {}
for name in json.loads(sys.argv[2]):
    package = importlib.import_module(name)
    found[name] = package.__file__
    for module in pkgutil.walk_packages(getattr(package, "__path__", []), f"{name}."):
        if not module.name.endswith("__main__"):
            found[module.name] = importlib.import_module(module.name).__file__
print(json.dumps(found))
"""


def installed_alone(folder: Path, names: Iterable[str]) -> Path:
    """Fill *folder* with links to these distributions and what they require; return it."""
    folder.mkdir()
    wanted, seen = list(names), set[str]()
    while wanted:
        name = wanted.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        found = distribution(name)
        requirements = (Requirement(text) for text in found.requires or ())
        wanted += [one.name for one in requirements if not one.marker or one.marker.evaluate()]
        for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
            link = folder / top
            if top != "__pycache__" and not link.exists():
                link.symlink_to(Path(str(found.locate_file(top))))
    return folder


def import_all(packages: Iterable[str], path: Iterable[Path]) -> dict[str, str]:
    """Import *packages*, with every module in them, from *path* alone; return where each lay.

    Raises:
        AssertionError: one cannot be imported; the text is Python's traceback.
    """
    finished = subprocess.run(
        # -I: no environment, no current folder; -S: no site-packages.
        [
            *(sys.executable, "-I", "-S", "-c", IMPORT_ALL),
            json.dumps([str(one) for one in path]),
            json.dumps(list(packages)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found
