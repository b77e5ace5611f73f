"""Links between pages, and from README.md, lead to files and headings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, ROOT

PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"!?\[[^\]\[]*\]\(([^()\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)
FENCED = re.compile(r"^ *```.*?^ *```\s*$", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub makes them."""
    found = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(prose(page)))
    return {title.strip().replace(" ", "-") for title in found}


def faults(page: Path) -> list[str]:
    wrong = []
    for link in (first or second for first, second in LINK.findall(prose(page))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert faults(page) == []


def test_faults_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `--b` c\n[x](page.md#a---b-c) [x](none.md) ![x](#none) [](https://a.b/c)\n"
        "```sh\n[x](fenced.md)\n```\n"
    )
    assert faults(page) == ["none.md", "#none"]
    assert len(PAGES) > 15
