"""`mapper runs`: list finished runs, compilations and sweeps."""

from __future__ import annotations

import argparse
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.errors import UsageError

if TYPE_CHECKING:
    from mapper.cache.catalogue import Row

LAST = 20
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
    from mapper.cache.catalogue import Catalogue
    from mapper.results.tables import columns

    rows = [row for row in Catalogue.of_user().rows() if _is_wanted(row, options)]
    if options.best is None:
        found = rows[-options.last :]
    else:
        found = _best(rows, options.best)[: options.last]
    shown = options.best or ("cycles" if options.kind == "compile" else "hops")
    heads = ("id", "when", "command", "input", "chip", shown, "seconds", "folder")
    table = [
        (
            row.id, _time(row.when), row.kind, Path(row.input).name, row.chip,
            _figure(row, shown), f"{row.seconds:.1f}", _folder(row),
        )
        for row in found
    ]  # fmt: skip
    result = {"runs": [_json(row) for row in found], "count": len(rows)}
    title = f"{len(found)} of {len(rows)} runs" if len(found) < len(rows) else "runs"
    terminal.emit(options, result, [columns(title, heads, table)])
    return 0


def _is_wanted(row: Row, options: argparse.Namespace) -> bool:
    network, chip = options.network, options.chip
    return (
        (network is None or fnmatch(row.input, network) or fnmatch(Path(row.input).name, network))
        and (chip is None or fnmatch(row.chip, chip))
        and (options.kind is None or row.kind == options.kind)
    )


def _best(rows: list[Row], figure: str) -> list[Row]:
    """Return the rows that have a figure, in its order; raise `UsageError` if none has it."""
    found = [row for row in rows if figure in row.figures]
    if rows and not found:
        names = ", ".join(sorted({name for row in rows for name in row.figures}))
        raise UsageError(f"--best {figure}: is not a figure of these runs; give one of {names}")
    return sorted(found, key=lambda row: (row.figures[figure], row.when))


def _figure(row: Row, name: str) -> str:
    value = row.figures.get(name)
    return "" if value is None else f"{value:,.6g}" if value % 1 else f"{value:,.0f}"


def _time(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))


def _folder(row: Row) -> str:
    return row.folder if Path(row.folder).is_dir() else f"{row.folder} (gone)"


def _json(row: Row) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(row)
    return found | {"exists": Path(row.folder).is_dir()}
