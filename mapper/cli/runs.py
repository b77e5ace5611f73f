"""`mapper runs`: list finished runs, compilations and sweeps."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.jobs.runs import LAST

if TYPE_CHECKING:
    from mapper.cache.catalogue import Row

EPILOG = """\
examples:
  mapper runs
  mapper runs --network net.bin --best hops
  mapper runs --kind compile --chip 8x8 --last 5
  mapper report --runs 3f9a 81c0

Every command that ends with an output folder adds a row, also from the
processes of a sweep. NET and C are names or patterns such as *cortex*; NET
matches the file's name or its path. A folder that no longer exists is marked.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--network", metavar="NET", help="only of this network or model")
    parser.add_argument("--chip", metavar="C", help="only on this chip")
    parser.add_argument("--kind", choices=("run", "compile", "sweep"), help="only of this command")
    parser.add_argument(
        "--best", metavar="FIGURE", help="lowest FIGURE first, e.g. hops, cut_weight or cycles"
    )
    parser.add_argument(
        "--last", type=common.positive, default=LAST, metavar="N",
        help=f"at most N rows (default: {LAST})",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    from mapper.jobs.runs import RunsQuery, find_runs
    from mapper.results.tables import columns

    found = find_runs(
        RunsQuery(options.network, options.chip, options.kind, options.best, options.last)
    )
    shown = options.best or ("cycles" if options.kind == "compile" else "hops")
    heads = ("id", "when", "command", "input", "chip", shown, "seconds", "folder")
    table = [
        (
            row.id, _time(row.when), row.kind, Path(row.input).name, row.chip,
            _figure(row, shown), f"{row.seconds:.1f}", _folder(row),
        )
        for row in found.entries
    ]  # fmt: skip
    listed, matching = len(found.entries), found.matching
    title = f"{listed} of {matching} runs" if listed < matching else "runs"
    terminal.emit(options, found.to_json(), [columns(title, heads, table)])
    return 0


def _figure(row: Row, name: str) -> str:
    value = row.figures.get(name)
    return "" if value is None else f"{value:,.6g}" if value % 1 else f"{value:,.0f}"


def _time(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))


def _folder(row: Row) -> str:
    return row.folder if Path(row.folder).is_dir() else f"{row.folder} (gone)"
