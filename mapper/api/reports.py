"""`report` writes the page of a mapping or a compiled model."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from mapper.api.arguments import check_arguments, effort_of, path_of_network, path_of_source
from mapper.errors import as_argument_errors
from mapper.inputs.listener import NotesListener

if TYPE_CHECKING:
    from mapper.api.network import Network
    from mapper.result import NetworkMapping
    from mapper.spiking.artifacts.compiled_model import CompiledModel


def report(
    folder: str | os.PathLike[str] | NetworkMapping | CompiledModel,
    *others: str | os.PathLike[str] | NetworkMapping,
    path: str | os.PathLike[str] | None = None,
    network: str | os.PathLike[str] | Network | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
) -> Path:
    """Write the report page of a mapping or compiled model, or of several mappings to compare.

    Parameters
    ----------
    folder, others : output folders, or the objects
    path : the page; default: report.html in the folder, or comparison.html
    network : network of the folders, if it was moved
    threads, memory : as for `mapper.map_network`

    Returns the path of the page, one file that opens offline in any browser.

    Raises
    ------
    UsageError
        If an argument is invalid.
    MapperError
        If a folder is not an output, or the mappings are of different networks.
    """
    from mapper.jobs.report import ReportRequest, write_report
    from mapper.reporting.make import PAGE

    check_arguments(threads=threads, memory=memory)
    moved = None if network is None else path_of_network(network, "network")
    with as_argument_errors(), ExitStack() as stack:
        folders = [stack.enter_context(path_of_source(one)) for one in (folder, *others)]
        page = None if path is None else Path(path)
        if page is None and not others and not isinstance(folder, str | os.PathLike):
            page = Path(PAGE)
        request = ReportRequest(folders, page, moved, effort_of(threads, memory))
        return write_report(request, NotesListener()).path
