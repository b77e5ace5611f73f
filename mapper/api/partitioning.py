"""Python interface of partitions: `mapper.partition`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from mapper.api.arguments import Reading, check_arguments, effort_of, source_of
from mapper.distributed.start import ask_workers
from mapper.errors import UsageError, as_argument_errors, shown
from mapper.inputs.listener import ProgressListener
from mapper.inputs.source import Source
from mapper.monitoring.bars import GivenProgress, progress_of
from mapper.monitoring.monitor import Monitor
from mapper.partitions.request import PartitionRequest, partition_settings, require_parts
from mapper.partitions.result import GraphPartition
from mapper.partitions.run import run_partition
from mapper.partitions.tensors import as_array, as_edges
from mapper.session import Workspace
from storage.blobs.access import StoreAccess, store_access


def partition(
    graph: Any,
    parts: int,
    *,
    imbalance: float = 0.03,
    preset: Literal["fast", "default", "strong"] = "default",
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    vertices: int | None = None,
    sizes: ArrayLike | None = None,
    columns: Mapping[str, str] | None = None,
    progress: GivenProgress = None,
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
        networkx graph (edge attribute `weight`, default 1); a `Network` or open `NetworkFile`
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
        any thread, one call at a time; or True or False, see `mapper.map_network`
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
    check_arguments(seed=seed, threads=threads, memory=memory, progress=progress)
    with as_argument_errors():
        effort = effort_of(threads, memory)
        settings = partition_settings(
            preset, seed=seed, threads=effort.threads, memory_bytes=effort.memory
        )
        source = _source(graph, vertices, sizes, columns)
        asked = ask_workers(workers, settings.threads)
        request = PartitionRequest(source, int(parts), float(imbalance), settings, asked)
        with (
            store_access(StoreAccess()),
            tempfile.TemporaryDirectory(
                prefix="mapper-", dir=workdir, ignore_cleanup_errors=True
            ) as name,
            progress_of(progress) as on_progress,
            Monitor(on_progress=on_progress) as monitor,
        ):
            place = Workspace(Path(name), lasting=False)
            found = run_partition(request, place, monitor, ProgressListener(on_progress))
    score = found.score
    return GraphPartition(
        found.part, score.cut, score.imbalance, score.weights, found.capacity, settings, found.names
    )


def _source(
    graph: Any, vertices: int | None, sizes: ArrayLike | None, columns: Mapping[str, str] | None
) -> Source:
    """Return the graph as a `Source`; raise `UsageError` for misplaced arguments."""
    given = as_edges(graph)
    if vertices is not None:
        if not isinstance(given, tuple):
            raise UsageError("vertices is for edge lists only; leave it out")
        if not isinstance(vertices, Integral) or isinstance(vertices, bool):
            raise UsageError(f"vertices is {shown(vertices)}; give a whole number")
        vertices = int(vertices)
    weights = None if sizes is None else as_array(sizes)
    return source_of(given, Reading(vertices, weights, None, None, columns, None))
