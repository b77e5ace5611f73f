"""`mapper plugins`: list what other packages add."""

from __future__ import annotations

import argparse

from mapper.cli import terminal

EPILOG = """\
examples:
  mapper plugins
  mapper plugins --json

Packages add formats (`mapper import`, `mapper export`), placers (--set
placer=NAME), chips (--chip NAME) and exports of mappings. The list has the
package of each, and the fault of one that cannot be used. `mapper docs extend`
explains how to write a package.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments: the command has only common options."""


def run(options: argparse.Namespace) -> int:
    from rich.text import Text

    from mapper.jobs.plugins import installed_plugins
    from mapper.results.fitted import FittedTable, Head

    found = installed_plugins()
    heads = tuple(Head(name, left=True) for name in ("kind", "name", "package", "content"))
    rows = [(one.kind, one.name, one.package, one.fault or one.about) for one in found]
    table = FittedTable("plugins of other packages", heads, rows)
    none = None if rows else Text("no other package adds a plugin")
    options.details = False
    terminal.emit(options, {"plugins": [one._asdict() for one in found]}, [table], none)
    return 0
