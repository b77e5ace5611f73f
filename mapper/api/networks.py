"""`load`, `import_network` and `generate` return networks, mappings and compiled models."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from mapper.api.arguments import Reading, check_arguments, effort_of, source_of
from mapper.errors import MapperError, UsageError, as_argument_errors, shown
from mapper.inputs.listener import NotesListener
from mapper.monitoring.bars import GivenProgress, progress_of

if TYPE_CHECKING:
    from mapper.api.network import Network
    from mapper.api.types import NetworkLike, PathLike, Rates
    from mapper.compiler.artifacts.compiled_network import CompiledNetwork
    from mapper.result import NetworkMapping
    from mapper.spiking.artifacts.compiled_model import CompiledModel

MEMORY = 1 << 30  # bytes; more memory hardly speeds up the sort of a generated network


def load(path: PathLike) -> Network | NetworkMapping | CompiledModel | CompiledNetwork:
    """Open a network, the mapping of an output folder, or a compiled model.

    Parameters
    ----------
    path : a network file, or its address; the output folder of `mapper run` or `mapper compile`

    Raises
    ------
    MapperError
        If there is nothing of the kind, or it is damaged. A message is one line.
    """
    from mapper.api.loading import mapping_of_folder
    from mapper.api.network import Network
    from mapper.compiler.artifacts.compiled_network import open_network
    from mapper.compiler.artifacts.manifest import is_compiled
    from mapper.results.output_folder import find_folder, read_folder
    from mapper.spiking.artifacts.compiled_model import open_model
    from mapper.spiking.artifacts.folder import is_spiking
    from storage.address import path_of
    from storage.formats import recognise
    from storage.store.network import is_network_name

    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"path is {shown(path)}; give the path of a network or of a folder")
    where = path_of(path)
    with as_argument_errors():
        if not find_folder(where).exists():
            raise MapperError(f"{where}: does not exist")
        if is_network_name(where):
            return Network(where)
        if not where.is_dir():
            raise MapperError(
                f"{where}: is a file of the format {recognise(where).name}; "
                "mapper.import_network reads it"
            )
        if is_spiking(where):
            return open_model(where)
        if is_compiled(where):
            return open_network(where)
        return read_folder(where, lambda: mapping_of_folder(where))


def import_network(
    source: NetworkLike,
    path: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    rates: Rates | None = None,
    rates_duration: float | None = None,
    weights_are: str | None = None,
    nodes: str | os.PathLike[str] | None = None,
    neurons: int | None = None,
    sizes: ArrayLike | None = None,
    files: int | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
    progress: GivenProgress = None,
) -> Network:
    """Convert a file or an object to a network file, as `mapper import` does.

    Parameters
    ----------
    source : the path of a file, or arrays, a matrix or a graph; see `mapper.map_network`
    path : network file to write; default: a temporary file that lasts as long as the network
    format : of the file; default: by its content and name
    columns : names of the columns to use of a table in a file
    rates : spikes of each neuron per unit of time, shape (neurons,); the path of a file of rates
        or spikes; "uniform" or "weights"
    rates_duration : length of a file of spikes in seconds; default: until the last spike
    weights_are : meaning of the number of a synapse: "rate" or "synapse"
    nodes : SONATA file of the nodes, if the source is one of edges
    neurons, sizes : for arrays; see `mapper.map_network`
    files : write a folder of so many files
    threads : number of threads; default: all cores of the processor
    memory : bytes, or a text such as "1GiB"; default: three quarters of the free memory
    progress : called with the name of the stage and its fraction 0 .. 1, or True or False; see
        `mapper.map_network`

    Raises
    ------
    UsageError
        If an argument is invalid.
    MapperError
        If the file cannot be read or the network cannot be written. A message is one line.
    """
    from mapper.jobs.import_network import ImportRequest, require_format, write_network

    check_arguments(
        threads=threads, memory=memory, neurons=neurons, columns=columns, progress=progress,
        files=files,
    )  # fmt: skip
    _require_path(path, files)
    with as_argument_errors(), progress_of(progress) as on_progress:
        require_format(format)
        reading = Reading(neurons, sizes, rates, rates_duration, columns, weights_are)
        given = source_of(source, reading)
        extra = {"nodes": None if nodes is None else Path(nodes)}
        listener = NotesListener(on_progress)
        request = ImportRequest(given, effort_of(threads, memory), format, extra)
        return _written(
            path, listener, lambda target: write_network(request, target, listener, files)
        )


def generate(
    kind: str,
    path: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    shuffle: bool = False,
    draws: int | None = None,
    files: int | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
    progress: GivenProgress = None,
    **settings: Any,
) -> Network:
    """Generate a synthetic network, as `mapper generate` does.

    Parameters
    ----------
    kind : "cortex", "layered", "microcircuit", "group-dnn" or "group-cnn"
    path : network file to write; default: a temporary file that lasts as long as the network
    seed : the same seed gives the same network for any number of threads
    shuffle : permute the ids of the neurons at random
    draws : version of the random streams: 2 (default), or 1 for the networks of older versions
    files : write a folder of so many files
    threads : number of threads; default: all cores of the processor
    memory : bytes, or a text such as "1GiB"; default: at most 1 GiB
    progress : called with the name of the stage and its fraction 0 .. 1, or True or False; see
        `mapper.map_network`
    settings : of the kind, such as `side` or `layers`; `mapper generate KIND --help` lists them

    Raises
    ------
    UsageError
        If an argument is invalid.
    MapperError
        If the network cannot be written.
    """
    from mapper.inputs.opening import losses_of
    from storage.errors import BadInputError
    from storage.generate import KINDS, VERSIONS, Folder
    from storage.generate import generate as write

    check_arguments(seed=seed, threads=threads, memory=memory, progress=progress, files=files)
    _require_path(path, files)
    if kind not in KINDS:
        raise UsageError(f"kind is {shown(kind)}; give one of {', '.join(KINDS)}")
    known = {field.name: field.default is MISSING for field in fields(KINDS[kind])}
    for name in settings:
        if name not in known:
            raise UsageError(f"{name} is not a setting of {kind}; there are {', '.join(known)}")
    for name, needed in known.items():
        if needed and name not in settings:
            raise UsageError(f"{kind} needs the setting {name}")
    if draws is not None and draws not in VERSIONS:
        raise UsageError(f"draws is {shown(draws)}; give {' or '.join(map(str, VERSIONS))}")
    effort = effort_of(threads, memory)
    budget = effort.memory if memory is not None else min(effort.memory, MEMORY)
    with as_argument_errors(), progress_of(progress) as on_progress:
        listener = NotesListener(on_progress)
        try:
            spec = KINDS[kind](**settings)
        except (BadInputError, TypeError) as error:
            raise UsageError(str(error)) from error

        def write_to(target: Path) -> None:
            listener.compile(["generate"], effort.threads)
            with listener.task(f"generating {kind}") as told:
                meta = write(
                    spec, Folder(target, files) if files else target, seed, shuffle,
                    draws=draws or max(VERSIONS), memory=budget // 2, threads=effort.threads,
                    progress=told,
                )  # fmt: skip
            for line in losses_of(meta, asked=False):
                listener.note(line)

        return _written(path, listener, write_to)


def _require_path(path: object, files: int | None) -> None:
    """Raise `UsageError` for several files without a path: temporary networks are one file."""
    if files is not None and path is None:
        raise UsageError("files: give the path of the folder to write")


def _written(
    path: str | os.PathLike[str] | None, listener: NotesListener, write: Callable[[Path], object]
) -> Network:
    """Write a network to a path, or to a temporary file, and return it."""
    from mapper.api.network import NAME, Network, temporary

    if path is not None:
        write(Path(path))
        return Network(Path(path), tuple(listener.notes))
    folder = temporary()
    try:
        write(folder / NAME)
        return Network(folder / NAME, tuple(listener.notes), folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
