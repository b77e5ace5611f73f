"""`export` writes a network, a mapping or a compiled spiking model in another format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mapper.api.arguments import effort_of, path_of_network, path_of_source
from mapper.errors import UsageError, as_argument_errors
from mapper.inputs.listener import NotesListener

if TYPE_CHECKING:
    from mapper.api.network import Network
    from mapper.result import NetworkMapping
    from mapper.spiking.artifacts.compiled_model import CompiledModel


class Exported(NamedTuple):
    """A written file, returned by `mapper.export`.

    path : of the file
    format : its format
    facts : its contents by name, as `mapper export --json` prints them
    notes : a line for each kind of data that the format cannot hold
    """

    path: Path
    format: str
    facts: dict[str, Any]
    notes: tuple[str, ...]


def export(
    source: str | os.PathLike[str] | Network | NetworkMapping | CompiledModel,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    network: str | os.PathLike[str] | Network | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
    **options: Any,
) -> Exported:
    """Write a network or a mapping in another format, as `mapper export` does.

    Parameters
    ----------
    source : a network, a mapping or a compiled spiking model, or the path of one
    path : the file to write; an existing file is replaced
    format : default: by the extension of the path
    network : network of an output folder, if it was moved
    threads : number of threads; default: all cores of the processor
    memory : bytes, or a text such as "1GiB"; default: three quarters of the free memory
    options : of single formats, such as `threshold` or `graph`; `mapper export --help` lists them

    Raises
    ------
    UsageError
        If the format is unknown, or does not have an option.
    MapperError
        If the source cannot be read or represented, or the file cannot be written.
    """
    from mapper.exports import EXPORTS, choose_exporter
    from mapper.jobs.export import ExportRequest
    from mapper.jobs.export import export as write
    from mapper.monitoring.resources import memory_budget

    known = dict.fromkeys(name for each in EXPORTS.values() for name in each.options)
    for name in options:
        if name not in known:
            raise UsageError(f"{name} is not an option of a format; there are {', '.join(known)}")
    moved = None if network is None else path_of_network(network, "network")
    effort, listener = effort_of(threads, memory), NotesListener()
    with as_argument_errors(), memory_budget(effort.memory), path_of_source(source) as found:
        facts = write(ExportRequest(found, Path(path), format, options, moved, effort), listener)
    chosen = facts.get("format") or choose_exporter(Path(path), format).name
    return Exported(Path(path), chosen, facts, tuple(listener.notes))
