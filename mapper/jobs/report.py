"""Write the report page of a mapping or of a compiled model, or of several mappings to compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from chipsim.chip.model import Chip
from mapper.compiler.artifacts.manifest import is_compiled
from mapper.errors import MapperError, UsageError
from mapper.evaluation.mapped import open_mapped
from mapper.inputs.listener import Listener
from mapper.inputs.source import Effort
from mapper.jobs.locking import lock_output
from mapper.reporting.make import PAGE, require_same_network, view_folder, write_page
from mapper.results.loads import TRAFFIC, Loads
from mapper.results.mapping_file import mapping_in
from mapper.results.output import network_of
from mapper.results.output_folder import read_folder, writing_into
from mapper.scoring.measure import measure_network
from mapper.spiking.artifacts.folder import is_spiking
from storage.files import real_path, write_file
from storage.store.network import NetworkFile

COMPARISON = Path("comparison.html")


class ReportRequest(NamedTuple):
    """Output folders to show on a page.

    folders : one, or several mappings to compare
    page : the file to write; None: in the folder, or `COMPARISON`
    network : network of the mappings, if it was moved
    """

    folders: Sequence[Path]
    page: Path | None
    network: Path | None
    effort: Effort


class Reported(NamedTuple):
    """A written page. measured : folders whose traffic was measured, as they had none"""

    path: Path
    bytes: int
    mappings: list[Path]
    measured: list[Path]


def write_report(request: ReportRequest, listener: Listener) -> Reported:
    """Write the page; see `mapper report`.

    Raises `MapperError` for other folders, and for mappings that cannot be compared.
    """
    first = request.folders[0]
    _require_different(request.folders)
    render = _renderer(first)
    if render is not None:
        return _write_compiled(request, render)
    folders, measured = list(request.folders), list[Path]()

    def view(folder: Path, label: str | None) -> Any:
        def measure(report: dict[str, Any], chip: Chip) -> Loads:
            measured.append(folder)
            return measure_folder(request._replace(folders=[folder]), report, chip, listener)

        return view_folder(folder, measure, label)

    page = request.page or (first / PAGE if len(folders) == 1 else COMPARISON)
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
        require_same_network(views)
        return Reported(page, write_page(page, views), folders, measured)


def rewrite_page(request: ReportRequest, listener: Listener) -> None:
    """Write the report page in the folder of a mapping again."""
    (folder,) = request.folders

    def measure(report: dict[str, Any], chip: Chip) -> Loads:
        return measure_folder(request, report, chip, listener)

    write_page(folder / PAGE, [view_folder(folder, measure)])


def measure_folder(
    request: ReportRequest, report: dict[str, Any], chip: Chip, listener: Listener
) -> Loads:
    """Return the loads of a folder without stored traffic, measured on its network."""
    (folder,), effort = request.folders, request.effort
    path = network_of(folder, request.network, report)
    if not path.is_file():
        raise MapperError(
            f"{folder}: has no {TRAFFIC}, and its network {path} is missing; "
            "give the network with --network"
        )
    listener.compile(["score"], effort.threads)
    listener.note(f"note: {folder} has no {TRAFFIC}: measuring traffic, once")
    memory, threads = effort.memory // 4, effort.threads
    with (
        NetworkFile(path) as network,
        open_mapped(network, mapping_in(folder), chip, memory, threads) as (whole, core),
    ):
        return Loads.of(measure_network(whole, chip, core, threads))


def _renderer(folder: Path) -> Callable[[], bytes] | None:
    """Return the renderer of the page of a compiled model, None for other folders."""
    if is_spiking(folder):
        from mapper.reporting.spiking.page import render_spiking
        from mapper.spiking.artifacts.report import read_report as read_spiking

        return lambda: render_spiking(read_spiking(folder))
    if is_compiled(folder):
        from mapper.compiler.artifacts.report import read_report
        from mapper.reporting.compiled.page import render_compiled

        return lambda: render_compiled(read_report(folder))
    return None


def _write_compiled(request: ReportRequest, render: Callable[[], bytes]) -> Reported:
    """Write the report page of a compiled model; render : its page."""
    folder, *others = request.folders
    if others:
        raise UsageError(f"{folder}: is a compiled model; give one folder")
    page = request.page or folder / PAGE
    with writing_into(folder):
        data = render()
        write_file(page, data)
    return Reported(page, len(data), [], [])


def _require_different(folders: Sequence[Path]) -> None:
    """Raise `UsageError` for a folder that is given twice."""
    seen: set[Path] = set()
    for folder in folders:
        if real_path(folder) in seen:
            raise UsageError(f"{folder}: is given twice; a comparison needs different folders")
        seen.add(real_path(folder))


def _labels(folders: list[Path]) -> list[str | None]:
    """Return labels of the folders: full paths if two names are equal, else None."""
    if len({folder.resolve().name for folder in folders}) == len(folders):
        return [None] * len(folders)
    return [str(folder) for folder in folders]
