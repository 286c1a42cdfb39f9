"""The hooks of MkDocs: pages from outside docs/, links that leave it, and the page of messages.

The documents are written for GitHub, where a link is a path in the repository. On the site a link
leads to the page that has the file; to the file in the repository, if the project has a home page;
otherwise it becomes text.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from scripts import messages  # noqa: E402 - MkDocs loads a hook by its path

ELSEWHERE = {
    "README.md": "index.md",
    "README-SAR.md": "stack.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Pages of the site from outside docs/."""

HEADINGS = {"stack.md": "Parameters and permissions"}
"""Headings of pages that have another one where they come from."""

OF_PROJECT = (
    "archive.md",
    "architecture.md",
    "benchmarks.md",
    "changelog.md",
    "contributing.md",
    "decisions/",
    "real-account.md",
)
"""Beginnings of the addresses of pages for those who change or check the project."""

PROJECT_WEIGHT = 0.3
"""Weight in the search of a page of the project: who is on call looks for another one."""

WEIGHTS = {"reference.md": 0.6}
"""Weights of other pages. The reference has the words of all, and of no question the answer."""

_PLACES = {page: path for path, page in ELSEWHERE.items()}
_FENCE = re.compile(r"(^ *```.*?^ *```)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[(?P<words>[^\[\]]*)\]\((?P<target>[^)\s]+)\)")
_TARGET = re.compile(r"(?P<before>\]\()(?P<target>[^)\s]+)(?P<after>\))")
_ATTRIBUTE = re.compile(r'(?P<before>\b(?:src|srcset|href)=")(?P<target>[^"]+)(?P<after>")')


def home_page() -> str | None:
    """Return the address that the template names, or None."""
    template = (ROOT / "template.yaml").read_text("utf-8")
    address = re.search(r"^    HomePage:\n      Url: (https://\S+)$", template, re.MULTILINE)
    return address[1] if address else None


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for path, page in ELSEWHERE.items():
        content = (ROOT / path).read_text("utf-8")
        if page in HEADINGS:
            _, _, rest = content.partition("\n")
            content = f"# {HEADINGS[page]}\n{rest}"
        files.append(File.generated(config, page, content=content))
    files.append(File.generated(config, "messages.md", content=messages.page()))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:  # noqa: ANN401 - MkDocs's own
    """Return the page with links that the site knows; weigh it for the search."""
    uri = page.file.src_uri
    weight = PROJECT_WEIGHT if uri.startswith(OF_PROJECT) else WEIGHTS.get(uri)
    if weight:
        page.meta["search"] = {"boost": weight}

    parts = _FENCE.split(markdown)
    # Every second one is a block of code.
    parts[::2] = [with_links_of_site(part, uri, home_page()) for part in parts[::2]]
    return "".join(parts)


def with_links_of_site(text: str, page: str, home: str | None) -> str:
    """Return the *text* of a *page* of the site with its links changed."""

    def of_site(link: re.Match[str]) -> str:
        address = address_on_site(link["target"], page, home)
        return f"{link['before']}{address or link['target']}{link['after']}"

    def in_words_of_site(link: re.Match[str]) -> str:
        words = link["words"]
        target = link["target"]
        path = _path_in_repository(target, page)
        if address_on_site(target, page, home):
            is_file_name = words.endswith(".md") and path.endswith(words)
            return f"[{_heading(path)}]({target})" if is_file_name else link[0]
        return words if path.endswith(words.strip("`")) else f"{words} (`{path}`)"

    text = _LINK.sub(in_words_of_site, text)
    text = _TARGET.sub(of_site, text)
    return _ATTRIBUTE.sub(of_site, text)


def address_on_site(target: str, page: str, home: str | None) -> str | None:
    """Return what a link of a *page* says on the site; None if nothing is there."""
    if re.match(r"#|[a-z]+:", target):
        return target

    path = _path_in_repository(target, page)
    _, hash_sign, anchor = target.partition("#")
    if path in ELSEWHERE:
        address = ELSEWHERE[path]
    elif path.startswith("docs/"):
        address = path.removeprefix("docs/")
    else:
        return home and f"{home}/blob/main/{path}{hash_sign}{anchor}"
    return posixpath.relpath(address, posixpath.dirname(page) or ".") + hash_sign + anchor


def _heading(path: str) -> str:
    """Return the first heading of a page: on the site its name says more than the file's."""
    return (ROOT / path).read_text("utf-8").partition("\n")[0].removeprefix("# ")


def _path_in_repository(target: str, page: str) -> str:
    place = _PLACES.get(page, f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(place), target.partition("#")[0]))
