"""Networks from Python objects in memory, and the original names of their neurons."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from mapper.errors import UsageError, shown
from mapper.inputs.source import Effort, Source
from storage.errors import BadInputError
from storage.formats.base import kept_weights
from storage.formats.objects import (
    NeuronProperties,
    write_edges,
    write_igraph,
    write_matrix,
    write_networkx,
)
from storage.store.network import ID, POPULATION, NetworkFile


def write_object(source: Source, path: Path, effort: Effort) -> None:
    """Write edge arrays, a matrix or a graph of networkx or igraph as a network file.

    Raises `UsageError` for other objects, or if the object is not a valid network.
    """
    network = source.network
    rates: Any = None if source.word is not None else source.rates  # files of rates are read later
    weights, _ = kept_weights(source.weights_are or "rate", True, source.word)
    given: dict[str, Any] = {
        "neurons": NeuronProperties(source.sizes, rates, weights=weights),
        "memory": effort.memory // 4,
        "threads": effort.threads,
    }
    sparse = sys.modules.get("scipy.sparse")
    try:
        if _is_networkx(network):
            write_networkx(path, network, **given)
            return
        if _is_igraph(network):
            write_igraph(path, network, **given)
            return
        square = isinstance(network, np.ndarray) and network.ndim == 2
        if square or (sparse is not None and sparse.issparse(network)):
            write_matrix(path, network, **given)
            return
        if isinstance(network, tuple | list) and len(network) in (2, 3):
            ends, targets, weights = (*network, None)[:3]
            write_edges(path, ends, targets, weights, source.neurons, **given)
            return
    except BadInputError as error:
        raise UsageError(str(error)) from error
    raise UsageError(
        f"network is {shown(network)}; give a path, a Network, a square matrix, a tuple (source, "
        "target[, weight]) of arrays, a graph of networkx, igraph or NIR, or a table of edges"
    )


def _is_networkx(network: Any) -> bool:
    nx = sys.modules.get("networkx")
    return nx is not None and isinstance(network, nx.Graph)


def _is_igraph(network: Any) -> bool:
    return all(hasattr(network, name) for name in ("get_edgelist", "vcount", "vs", "es"))


def write_table(network: Any, path: Path) -> None:
    """Write a data frame of edges as a csv file."""
    if hasattr(network, "write_csv"):
        network.write_csv(path)
    else:
        network.to_csv(path, index=False)


def names_of(network: Any, opened: NetworkFile) -> Any:
    """Return the names of the neurons in the input, shape (neurons,); None without names.

    Names are the nodes of a networkx graph, or the ids of a file whose ids have gaps. Ids that are
    not unique come with their populations, as pairs (population, id).
    """
    if _is_networkx(network):
        return list(network.nodes)
    if ID not in opened.meta.attributes:
        return None
    ids = opened.attribute(ID)
    called = ids.stored if ids.labels is None else [ids.labels[i] for i in ids.stored.tolist()]
    if POPULATION not in opened.meta.attributes or np.unique(ids.stored).size == ids.stored.size:
        return called
    population = opened.attribute(POPULATION)
    labels = population.labels or []
    own = called if isinstance(called, list) else called.tolist()
    return [(labels[i], name) for i, name in zip(population.stored.tolist(), own, strict=True)]
