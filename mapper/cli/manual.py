"""Pages of the documentation for the terminal.

They are in `docs` of a checkout, and in `pages` of an installed `mapper`. The name of a page is
its path without ``.md``, or the last part of the path if it is unique.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

from mapper.errors import MapperError, UsageError

INDEX = "index"
COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
TREE = re.compile(r"^```\{toctree\}\n.*?^```\n", re.MULTILINE | re.DOTALL)
CAPTIONED = re.compile(r"^```\{code-block\} (\w+)\n:caption: (\S+)\n\n", re.MULTILINE)
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]*)\)")


def folder() -> Path:
    """Return the folder of the pages; raise `MapperError` if there is none."""
    here = Path(__file__).resolve().parents[1]
    for place in (here.parent / "docs", here / "pages"):
        if (place / f"{INDEX}.md").is_file():
            return place
    raise MapperError(f"{here / 'pages'}: documentation is missing; reinstall mapper")


def pages() -> dict[str, Path]:
    """Return all pages by name, in the order tutorial, how-to, reference, explanation."""
    root = folder()
    found = {path.relative_to(root).with_suffix("").as_posix(): path for path in root.rglob("*.md")}
    del found[INDEX]
    order = ("tutorial", "howto", "reference")
    return dict(sorted(found.items(), key=lambda item: _rank(item[0], order)))


def _rank(name: str, order: tuple[str, ...]) -> tuple[int, str]:
    first = name.partition("/")[0]
    return (order.index(first) if first in order else len(order)), name


def find(name: str) -> str:
    """Return the full name of a page; raise `UsageError` if it is unknown or ambiguous."""
    known = pages()
    wanted = name.removesuffix(".md").removeprefix("docs/")
    if wanted in known:
        return wanted
    found = [page for page in known if page.rpartition("/")[2] == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{name!r} is ambiguous; give one of {', '.join(found)}")
    last = {page.rpartition("/")[2]: page for page in known}
    near = [last[word] for word in difflib.get_close_matches(wanted, last, 3)]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise UsageError(f"unknown page {name!r}; {hint}`mapper docs` lists all")


def title(name: str) -> str:
    """Return the heading of a page as plain text."""
    with pages()[name].open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip().replace("`", "")


def markdown(name: str) -> str:
    """Return a page as plain Markdown, with generated parts and without directives of the site.

    Links become text, as a terminal cannot follow them.
    """
    text = _generated().fill(pages()[name].read_text(encoding="utf-8"))
    text = COMMENT.sub("", TREE.sub("", text))
    text = CAPTIONED.sub(r"`\2`:\n\n```\1\n", text)
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(_linked, part) for part in parts)


def _linked(found: re.Match[str]) -> str:
    text, target = found.groups()
    if found[0].startswith("!"):
        return f"(picture: {text})" if text else ""
    if target.startswith(("http://", "https://")):
        return f"{text} <{target}>" if text else f"<{target}>"
    page = target.partition("#")[0].removesuffix(".md").rpartition("/")[2]
    return text or f"`mapper docs {page}`"


@cache
def _generated() -> ModuleType:
    """Return the module that generates parts of pages from the code."""
    spec = importlib.util.spec_from_file_location("mapper_generated", folder() / "generated.py")
    if spec is None or spec.loader is None:
        raise MapperError(f"{folder()}: generated.py is missing; reinstall mapper")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
