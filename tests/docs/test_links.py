"""Links between pages, and from README.md, lead to files and headings that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCES = PROJECT["urls"]["Homepage"] + "/blob/main/"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
TOP = ("mapper", "storage", "chipsim", "hw", "tests", "docs", "scripts")
PATH = re.compile(rf"(?<![\w./~-])(?:{'|'.join(TOP)})/[\w./-]*\w")
WITHIN = re.compile(r"`((?:\w+/)*\w+\.py)`|`(\w+/)` \|$", re.MULTILINE)
LINK = re.compile(
    r"!?\[[^\]\[]*\]\(([^()\s]+)\)|^\[[^\]]+\]: (\S+)$|(?:src|srcset)=\"([^\"]+)\"", re.MULTILINE
)
REFERENCE = re.compile(r"\]\[([^\]]+)\]")
DEFINITION = re.compile(r"^\[([^\]]+)\]: ", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)
FENCED = re.compile(r"^ *```.*?^ *```\s*$", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub makes them."""
    found = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(prose(page)))
    return {title.strip().replace(" ", "-") for title in found}


def links(page: Path) -> list[str]:
    return ["".join(parts) for parts in LINK.findall(prose(page))]


def faults(page: Path) -> list[str]:
    text = prose(page)
    wrong = sorted(set(REFERENCE.findall(text)) - set(DEFINITION.findall(text)))
    for link in links(page):
        inside = link.removeprefix(SOURCES)
        if re.match(r"[a-z]+:", inside):
            continue
        name, _, anchor = inside.partition("#")
        folder = page.parent if inside == link else ROOT
        target = (folder / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert faults(page) == []


def test_the_readme_is_whole_on_the_package_index() -> None:
    """It is shown there without the files beside it."""
    found = links(ROOT / "README.md")
    assert found
    assert [link for link in found if not link.startswith("https://")] == []
    assert {url.startswith("https://") for url in PROJECT["urls"].values()} == {True}


def test_faults_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `--b` c\n[x](page.md#a---b-c) [x](none.md) ![x](#none) [](https://a.b/c)\n"
        f"[x]({SOURCES}README.md) [x][y] [x][z]\n\n[y]: {SOURCES}none2.md\n"
        "```sh\n[x](fenced.md)\n```\n"
    )
    assert faults(page) == ["z", "none.md", "#none", f"{SOURCES}none2.md"]
    assert len(PAGES) > 15


def missing(text: str) -> list[str]:
    """Paths of ours in a text that are not there; modules of `mapper` may be named from within."""
    found = {path for path in PATH.findall(text) if not (ROOT / path).exists()}
    for path in map("".join, WITHIN.findall(text)):
        if not any((folder / path).exists() for folder in (ROOT, ROOT / "mapper")):
            found.add(path)
    return sorted(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8")) == []


def test_missing_files_are_found() -> None:
    text = (
        "python scripts/none.py `placement/force.py` `placement/none.py` mapper/pipeline.py a.b/hw"
        "\n| kept in | `pipeline.py`, `deep.py`, `placement/` |\n| moved to | `nowhere/` |\n"
    )
    assert missing(text) == ["deep.py", "nowhere/", "placement/none.py", "scripts/none.py"]
