"""`mapper report`: write the report page of a mapping, or compare several."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.stores import add_timeout
from storage.address import path_of

EPILOG = """\
examples:
  mapper report result
  mapper report result other third -o comparison.html
  mapper report --runs 3f9a 81c0
  mapper report old-result --network moved/net.bin

DIR is the output folder of a run. `mapper run` writes report.html; this command
writes it again, e.g. after an update, or shows several mappings on one page
with one colour scale. The page needs no internet connection. Folders of older
versions have no traffic.npz: traffic is measured on their network, and stored
there.

Mappings are compared with the first one in percent and must have the same
network and traffic (equal --rates); the chips may differ.
"""
COMPARISON = "comparison.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [DIR ...] [options]"
    parser.add_argument(
        "paths", type=Path, nargs="*", metavar="DIR", help="output folders of runs to compare"
    )
    parser.add_argument("--runs", nargs="+", metavar="ID", help="runs of `mapper runs`, not DIR")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help=f"page (default: DIR/report.html, or {COMPARISON})",
    )
    parser.add_argument(
        "--network", type=path_of, metavar="NET", help="network of DIR, if it was moved"
    )
    add_timeout(parser)
    common.add_effort(parser, seed=False)


def run(options: argparse.Namespace) -> int:
    from mapper.jobs.report import ReportRequest, write_report
    from mapper.results.tables import facts, size

    folders = _folders(options)
    request = ReportRequest(folders, options.output, options.network, common.effort_of(options))
    found = write_report(request, common.listener(options))
    result: dict[str, Any] = {"path": str(found.path), "bytes": found.bytes}
    if found.mappings:
        result["mappings"] = list(map(str, found.mappings))
        result["measured"] = list(map(str, found.measured))
    rows = [("page", str(found.path)), ("size", size(found.bytes))]
    terminal.emit(options, result, [facts("report", rows)])
    return 0


def _folders(options: argparse.Namespace) -> list[Path]:
    """Return the folders to show, of the command line or of runs of the catalogue."""
    from mapper.cache.catalogue import Catalogue
    from mapper.errors import UsageError

    folders: list[Path] = options.paths
    if options.runs is None:
        if not folders:
            raise UsageError("name the output folder of a run, or --runs with ids of `mapper runs`")
        return folders
    if folders:
        raise UsageError("--runs: give ids, and no folders")
    return list(map(Catalogue.of_user().folder_of, options.runs))
