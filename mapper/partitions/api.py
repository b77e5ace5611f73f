"""Python interface of partitions: `mapper.partition`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from mapper.distributed.start import ask_workers
from mapper.errors import UsageError, as_argument_errors, shown
from mapper.inputs.listener import ProgressListener
from mapper.inputs.source import Source
from mapper.monitoring.callbacks import OnProgress, ignore
from mapper.monitoring.monitor import Monitor
from mapper.monitoring.resources import all_cores, default_memory, parse_bytes
from mapper.partitions.request import PartitionRequest, partition_settings, require_parts
from mapper.partitions.result import GraphPartition
from mapper.partitions.run import run_partition
from mapper.partitions.tensors import as_array, as_edges
from mapper.session import Workspace
from mapper.settings import Settings
from storage.address import path_of
from storage.blobs.access import StoreAccess, store_access
from storage.formats.columns import name_columns
from storage.store.network import is_network_name


def partition(
    graph: Any,
    parts: int,
    *,
    imbalance: float = 0.03,
    preset: str = "default",
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    vertices: int | None = None,
    sizes: ArrayLike | None = None,
    columns: Mapping[str, str] | None = None,
    progress: OnProgress | None = None,
    workdir: str | os.PathLike[str] | None = None,
    workers: Any = None,
) -> GraphPartition:
    """Divide a graph into parts of equal weight with few edges between them.

    The same as `mapper partition`, with the same result. The weight of a part is at most
    floor((1 + imbalance) * ceil(weight of all vertices / parts)), as in METIS and KaHIP. The
    direction of edges is ignored: weights of repeated edges, and of both directions, add.

    Parameters
    ----------
    graph : path of a graph file that `mapper import` reads, or of a network file; a square
        scipy.sparse matrix; an array or tensor of shape (2, edges), also in a tuple with weights
        of shape (edges,); a tuple (source, target) or (source, target, weight) of arrays; a
        networkx graph (edge attribute `weight`, default 1); an open `NetworkFile`
    parts : number of parts, 1 to the number of vertices
    imbalance : share by which the heaviest part may exceed the mean weight
    preset : "fast", "default" or "strong"
    seed : the same seed gives the same partition for any number of threads
    threads : number of threads; default: all cores of the processor
    memory : bytes, or a text such as "1GiB"; default: three quarters of the free memory
    vertices : number of vertices, for edge lists; default: the largest id + 1
    sizes : weight of each vertex, whole numbers, shape (vertices,); for a graph without a file
    columns : names of the columns to use of a table in a file, as in `mapper run --columns`
    progress : called with the name of a stage and the fraction 0 .. 1 of its present pass, from
        any thread, one call at a time
    workdir : folder for temporary files; default: the system's
    workers : processes that scan a graph that exceeds the memory, as in `mapper.map_network`

    Raises
    ------
    DoesNotFitError
        If a vertex is heavier than a part, or memory is too small.
    UsageError
        If an argument is invalid.
    MapperError
        Base of both, for all other invalid input. A message is one line.
    """
    require_parts(parts, imbalance)
    with as_argument_errors():
        settings = _settings(preset, seed, threads, memory)
        source = _source(graph, vertices, sizes, columns)
        asked = ask_workers(workers, settings.threads)
        request = PartitionRequest(source, int(parts), float(imbalance), settings, asked)
        _require_callable(progress)
        with (
            store_access(StoreAccess()),
            tempfile.TemporaryDirectory(
                prefix="mapper-", dir=workdir, ignore_cleanup_errors=True
            ) as name,
            Monitor(on_progress=progress) as monitor,
        ):
            place = Workspace(Path(name), lasting=False)
            found = run_partition(request, place, monitor, ProgressListener(progress or ignore))
    score = found.score
    return GraphPartition(
        found.part, score.cut, score.imbalance, score.weights, found.capacity, settings, found.names
    )


def _settings(preset: str, seed: int, threads: int | None, memory: int | str | None) -> Settings:
    """Return the settings of a call, with the defaults of this machine."""
    if not isinstance(seed, Integral) or isinstance(seed, bool):
        raise UsageError(f"seed is {shown(seed)}; give a whole number")
    if memory is not None and not isinstance(memory, str | Real):
        raise UsageError(f'memory is {shown(memory)}; give bytes, or a text such as "1GiB"')
    try:
        budget = default_memory() if memory is None else parse_bytes(str(memory))
    except ValueError as error:
        raise UsageError(f"memory: {error}") from error
    number = all_cores() if threads is None else threads
    return partition_settings(preset, seed=seed, threads=number, memory_bytes=budget)


def _source(
    graph: Any,
    vertices: int | None,
    sizes: ArrayLike | None,
    columns: Mapping[str, str] | None,
) -> Source:
    """Return the graph as a `Source`; raise `UsageError` for misplaced arguments."""
    chosen = None
    if isinstance(graph, str | os.PathLike):
        graph = path_of(graph)
        if columns is not None and is_network_name(graph):
            raise UsageError(f"{graph}: is a network file, not a table; leave out columns")
        try:
            chosen = None if columns is None else name_columns(columns)
        except ValueError as error:
            raise UsageError(f"columns: {error}") from error
    elif columns is not None:
        raise UsageError("columns are for a table in a file; leave them out")
    graph = as_edges(graph)
    if vertices is not None:
        if not isinstance(graph, tuple):
            raise UsageError("vertices is for edge lists only; leave it out")
        if not isinstance(vertices, Integral) or isinstance(vertices, bool):
            raise UsageError(f"vertices is {shown(vertices)}; give a whole number")
        vertices = int(vertices)
    weights = None if sizes is None else as_array(sizes)
    source = Source(graph, chosen, neurons=vertices, sizes=weights)
    if sizes is not None and not source.is_object:
        raise UsageError("sizes are for a graph without a file; leave them out")
    return source


def _require_callable(progress: Any) -> None:
    if progress is not None and not callable(progress):
        raise UsageError(f"progress is {shown(progress)}; give a function (stage, fraction)")
