"""`mapper docs`: every page can be read on a terminal, by its name in the list."""

from __future__ import annotations

import io
import pydoc
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mapper.cli import manual
from mapper.cli.main import COMMANDS, main
from tests.mapper.conftest import Run

Fails = Callable[..., str]
DOCS = Path(__file__).resolve().parents[3] / "docs"
NAMES = list(manual.pages())


def test_every_page_is_listed(run: Run) -> None:
    listed = run("docs", "--json").json()["pages"]
    assert [page["page"] for page in listed] == NAMES
    assert len(NAMES) == len(list(DOCS.rglob("*.md"))) - 1  # all except the index
    assert NAMES[0] == "tutorial"
    for page in listed:
        heading = (DOCS / f"{page['page']}.md").read_text(encoding="utf-8").partition("\n")[0]
        assert heading.replace("`", "") == f"# {page['title']}"
    table = run("docs").out
    assert all(f"  {name} " in table for name in NAMES)


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", NAMES)
def test_every_page_is_plain(name: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No markup of the site remains, and no line is too long."""
    text = run("docs", name, "--json").json()["text"]
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for left in ("{code-block}", ":caption:", "{toctree}", "<!--", "]("):
        assert left not in outside, left
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("docs", name).out
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    assert manual.title(name) in " ".join(shown.split())


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", [None, *NAMES])
def test_pages_on_a_terminal_without_unicode(
    name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the locale C: bullets and lines become ASCII, and nothing fails."""
    printed = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, "ascii"))
    assert main(["docs", *([] if name is None else [name])]) == 0
    text = printed.getvalue().decode("ascii")
    assert len(text.splitlines()) > 5
    assert text.count("?") < 20


def test_generated_parts_are_filled_in(run: Run) -> None:
    commands = run("docs", "commands", "--json").json()["text"]
    assert all(f"## mapper {name}\n" in commands for name in COMMANDS)


def test_a_page_by_a_part_of_its_name(run: Run, fails: Fails) -> None:
    whole = run("docs", "howto/shell").out
    assert run("docs", "shell").out == whole
    assert run("docs", "docs/howto/shell.md").out == whole
    several = fails("docs", "report", code=2)
    assert "'report' is ambiguous; give one of howto/report, reference/report" in several
    told = fails("docs", "metrix", code=2)
    assert "unknown page 'metrix'; did you mean reference/metrics? `mapper docs` lists all" in told
    assert "did you mean" not in fails("docs", "wibble", code=2)


@pytest.mark.parametrize("colours", [True, False])
def test_a_terminal_gets_a_pager(colours: bool, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(pydoc, "pager", shown.append)
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich treat any stream as a terminal
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("LESS", "-R")
    if not colours:
        monkeypatch.setenv("NO_COLOR", "1")
    assert run("docs", "exit-codes").out == ""
    assert "Exit codes" in shown[0]
    assert ("\x1b[" in shown[0]) == colours


def test_pages_of_an_installed_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch, run: Run, fails: Fails
) -> None:
    """They are next to the module, as installed by the wheel."""
    installed = folder / "site-packages" / "mapper"
    installed.mkdir(parents=True)
    monkeypatch.setattr(manual, "__file__", str(installed / "cli" / "manual.py"))
    assert "reinstall mapper" in fails("docs")
    shutil.copytree(DOCS, installed / "pages", ignore=shutil.ignore_patterns("__pycache__"))
    assert [page["page"] for page in run("docs", "--json").json()["pages"]] == NAMES
