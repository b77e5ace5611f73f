"""`mapper docs`: show the pages of the documentation on the terminal."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, ClassVar

from mapper.cli import terminal

if TYPE_CHECKING:
    from rich.console import Console

EPILOG = """\
examples:
  mapper docs
  mapper docs tutorial
  mapper docs howto/chip
  mapper docs metrics | grep -i latency

On a terminal, a page opens in $PAGER (default: less); press q to quit. `mapper
COMMAND --help` lists the options of a command.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "page", nargs="?", metavar="PAGE", help="name of a page (default: list all pages)"
    )


def run(options: argparse.Namespace) -> int:
    if options.page is None:
        _list(options)
    else:
        _show(options)
    return 0


def _list(options: argparse.Namespace) -> None:
    from mapper.cli.manual import pages, title
    from mapper.results.fitted import FittedTable, Head

    titles = {name: title(name) for name in pages()}
    result = {"pages": [{"page": name, "title": text} for name, text in titles.items()]}
    heads = (Head("page", left=True), Head("title", left=True))
    told = "documentation pages (read one with: mapper docs PAGE)"
    table = FittedTable(told, heads, list(titles.items()))
    terminal.emit(options, result, [table])


def _show(options: argparse.Namespace) -> None:
    from mapper.cli.manual import find, markdown, title

    name = find(options.page)
    text = markdown(name)
    if options.json:
        terminal.emit(options, {"page": name, "title": title(name), "text": text}, [])
        return

    console = terminal.stdout_console()
    if not console.is_terminal:
        _print(console, text)
        return
    os.environ.setdefault("LESS", "-FRX")  # colours; no paging of text that fits the screen
    with console.pager(styles="NO_COLOR" not in os.environ):
        _print(console, text)


def _print(console: Console, text: str) -> None:
    from rich.markdown import Markdown, TableElement
    from rich.table import Table

    class Whole(TableElement):
        """Table that folds long cells instead of truncating them."""

        def __rich_console__(self, console: Any, options: Any) -> Any:
            for part in super().__rich_console__(console, options):
                if isinstance(part, Table):
                    for column in part.columns:
                        column.overflow = "fold"
                yield part

    class Page(Markdown):
        elements: ClassVar[dict[str, Any]] = {**Markdown.elements, "table_open": Whole}

    width = min(console.width, 100)
    console.print(Page(text, hyperlinks=False, code_theme="ansi_light"), width=width)
