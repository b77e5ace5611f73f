"""Export to ParHIP binary graphs (`parhip`), in three passes over the network.

All numbers are unsigned words: weights are in stored units, the two directions of a pair are added,
and weights are omitted if all are 1. The attribute `size` becomes the vertex weights. Other
attributes and ids are lost.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.files import PartialFile
from storage.formats.columnar.parhip import HEADER_BYTES, NO_EDGE_WEIGHTS, NO_VERTEX_WEIGHTS
from storage.formats.losses import Loss
from storage.store.network import SIZE, NetworkFile

WORD = "<u8"


def save(net: NetworkFile, destination: Path) -> list[Loss]:
    """Write the undirected view of the network."""
    degrees, weighted = _survey(net)
    sized = SIZE in net.meta.attributes
    version = (0 if weighted else NO_EDGE_WEIGHTS) | (0 if sized else NO_VERTEX_WEIGHTS)
    lists = HEADER_BYTES + 8 * (net.vertices + 1)
    starts = lists + 8 * np.append(0, np.cumsum(degrees))
    with PartialFile(destination) as file:
        file.write(_words(np.array([version, net.vertices, degrees.sum()])))
        file.write(_words(starts))
        for _, (_, ids, _) in net.undirected_blocks():
            file.write(_words(ids))
        if sized:
            file.write(_words(net.vertex_sizes()))
        if weighted:
            for _, (_, _, weights) in net.undirected_blocks():
                file.write(_words(weights))
        file.commit()
    return []


def _survey(net: NetworkFile) -> tuple[NDArray[np.int64], bool]:
    """Return the degree of each vertex, and whether any edge weight differs from 1."""
    degrees, weighted = np.zeros(net.vertices, np.int64), False
    for first, (indptr, _, weights) in net.undirected_blocks():
        degrees[first : first + indptr.size - 1] = np.diff(indptr)
        weighted = weighted or bool((weights != 1).any())
    return degrees, weighted


def _words(values: NDArray[np.integer]) -> bytes:
    return values.astype(WORD).tobytes()
