"""Checks that a template has a home page: ``require_home_page.py template.yaml``.

``make publish`` runs it first, because users of the application find its documents there.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

_ADDRESS = re.compile(r"https://[a-z0-9.-]+\.[a-z]+/\S+")
_RESERVED = re.compile(r"\bexample\b|OWNER|REPO", re.IGNORECASE)


class _Loader(yaml.SafeLoader):
    """Reads CloudFormation's short forms as null: a home page is never one."""


_Loader.add_multi_constructor("!", lambda *_: None)


def faults(template: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each address that is missing or a placeholder."""
    application = template["Metadata"]["AWS::ServerlessRepo::Application"]
    home_page = template["Mappings"]["Project"]["HomePage"]["Url"]
    addresses = {
        "Mappings, Project.HomePage.Url": home_page,
        "Metadata, HomePageUrl": application.get("HomePageUrl"),
        "Metadata, SourceCodeUrl": application.get("SourceCodeUrl"),
    }
    for name, address in addresses.items():
        text = str(address or "")
        if not _ADDRESS.fullmatch(text) or _RESERVED.search(text):
            yield f"{name}: must be the address of the project, https://HOST/PATH, not {text!r}"

    if application.get("HomePageUrl") not in (None, home_page):
        yield "Metadata, HomePageUrl: must be that of Mappings, Project.HomePage.Url"


def main(path: str) -> int:
    """Print the faults; return 1 if there are any."""
    template = yaml.load(Path(path).read_text("utf-8"), Loader=_Loader)  # noqa: S506
    sentences = list(faults(template))
    for sentence in sentences:
        sys.stderr.write(f"{path}: {sentence}\n")
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
