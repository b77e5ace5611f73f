"""`mapper report`: write the report page of a mapping, or compare two."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.locking import lock_output
from mapper.cli.stores import add_timeout
from storage.address import path_of

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.results.loads import Loads

EPILOG = """\
examples:
  mapper report result
  mapper report result other -o comparison.html
  mapper report --runs 3f9a 81c0
  mapper report old-result --network moved/net.bin

DIR is the output folder of a run. `mapper run` writes report.html; this command
writes it again, e.g. after an update, or shows two mappings on one page with
one colour scale. The page needs no internet connection. Folders of older
versions have no traffic.npz: traffic is measured on their network, and stored
there.

Two mappings are compared in percent and must have the same network and traffic
(equal --rates); the chips may differ.
"""
COMPARISON = Path("comparison.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [DIR [DIR2]] [options]"
    parser.add_argument("path", type=Path, nargs="?", metavar="DIR", help="output folder of a run")
    parser.add_argument(
        "other", type=Path, nargs="?", metavar="DIR2", help="second output folder, to compare with"
    )
    parser.add_argument(
        "--runs", nargs="+", metavar="ID", help="runs of `mapper runs`, instead of DIR and DIR2"
    )
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
    from mapper.compiler.artifacts.manifest import is_compiled
    from mapper.report.make import PAGE, require_same_network, view_folder, write_page
    from mapper.results.loads import TRAFFIC
    from mapper.results.output_folder import read_folder, writing_into
    from mapper.results.tables import facts, size
    from mapper.spiking.artifacts.folder import is_spiking
    from storage.files import real_path

    _find_runs(options)
    if is_spiking(options.path):
        from mapper.report.spiking.page import render_spiking
        from mapper.spiking.artifacts.report import read_report as read_spiking

        return _report_compiled(options, lambda: render_spiking(read_spiking(options.path)))
    if is_compiled(options.path):
        from mapper.compiler.artifacts.report import read_report
        from mapper.report.compiled.page import render_compiled

        return _report_compiled(options, lambda: render_compiled(read_report(options.path)))
    folders = [options.path] + ([] if options.other is None else [options.other])
    measured: list[str] = []

    def view(folder: Path, label: str | None) -> Any:
        def measure(report: dict[str, Any], chip: Chip) -> Loads:
            measured.append(str(folder))
            return measure_folder(options, folder, report, chip)

        return view_folder(folder, measure, label)

    page = options.output or (options.path / PAGE if len(folders) == 1 else COMPARISON)
    with ExitStack() as stack:
        for folder in folders:
            inside = real_path(folder) in real_path(page).parents
            if folder.is_dir() and (inside or not (folder / TRAFFIC).exists()):
                stack.enter_context(writing_into(folder))
        stack.enter_context(lock_output(page))
        views = [
            read_folder(folder, partial(view, folder, label))
            for folder, label in zip(folders, _labels(folders), strict=True)
        ]
        if len(views) == 2:
            require_same_network(views)
        count = write_page(page, views)
    result = {"path": str(page), "bytes": count, "mappings": list(map(str, folders))}
    rows = [("page", str(page)), ("size", size(count))]
    terminal.emit(options, result | {"measured": measured}, [facts("report", rows)])
    return 0


def _find_runs(options: argparse.Namespace) -> None:
    """Replace runs of the catalogue by their folders."""
    from mapper.cache.catalogue import Catalogue
    from mapper.errors import UsageError

    if options.runs is None:
        if options.path is None:
            raise UsageError("name the output folder of a run, or --runs with ids of `mapper runs`")
        return
    if options.path is not None or len(options.runs) > 2:
        raise UsageError("--runs: give one or two ids, and no folders")
    catalogue = Catalogue.of_user()
    options.path, options.other, *_ = [*map(catalogue.folder_of, options.runs), None]


def _report_compiled(options: argparse.Namespace, render: Callable[[], bytes]) -> int:
    """Write the report page of a compiled model; render : its page."""
    from mapper.errors import UsageError
    from mapper.report.make import PAGE
    from mapper.results.output_folder import writing_into
    from mapper.results.tables import facts, size
    from storage.files import write_file

    if options.other is not None:
        raise UsageError(f"{options.path}: is a compiled model; give one folder")
    page = options.output or options.path / PAGE
    with writing_into(options.path):
        data = render()
        write_file(page, data)
    rows = [("page", str(page)), ("size", size(len(data)))]
    terminal.emit(options, {"path": str(page), "bytes": len(data)}, [facts("report", rows)])
    return 0


def _labels(folders: list[Path]) -> list[str | None]:
    """Return labels of the folders: full paths if two names are equal, else None."""
    if len({folder.resolve().name for folder in folders}) == len(folders):
        return [None] * len(folders)
    return [str(folder) for folder in folders]


def rewrite_page(options: argparse.Namespace) -> None:
    """Write the report page of a mapping again."""
    from mapper.report.make import PAGE, view_folder, write_page

    measure = partial(measure_folder, options, options.path)
    write_page(options.path / PAGE, [view_folder(options.path, measure)])


def measure_folder(
    options: argparse.Namespace, folder: Path, report: dict[str, Any], chip: Chip
) -> Loads:
    """Return the loads of a folder without stored traffic, measured on its network."""
    from mapper.errors import MapperError
    from mapper.evaluation.mapped import open_mapped
    from mapper.results.loads import TRAFFIC, Loads
    from mapper.results.mapping_file import mapping_in
    from mapper.results.output import network_of
    from mapper.scoring.measure import measure_network
    from storage.store.network import NetworkFile

    path = network_of(folder, options.network, report)
    if not path.is_file():
        raise MapperError(
            f"{folder}: has no {TRAFFIC}, and its network {path} is missing; "
            "give the network with --network"
        )
    common.compile_kernels(options, "score")
    terminal.say(options, f"note: {folder} has no {TRAFFIC}: measuring traffic, once")
    threads = common.threads_of(options)
    with (
        NetworkFile(path) as network,
        open_mapped(network, mapping_in(folder), chip, common.memory_of(options) // 4, threads) as (
            whole,
            core,
        ),
    ):
        return Loads.of(measure_network(whole, chip, core, threads))
