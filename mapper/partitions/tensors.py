"""Edge lists in one array or tensor of shape (2, edges), as graph neural networks have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import UsageError


def as_array(value: Any) -> NDArray[Any]:
    """Return a tensor or array as an array; no library of tensors is imported."""
    for name in ("detach", "cpu", "numpy"):  # of PyTorch, where each may be needed
        method = getattr(value, name, None)
        if callable(method) and not isinstance(value, np.ndarray):
            value = method()
    return np.asarray(value)


def as_edges(graph: Any) -> Any:
    """Return arrays (source, target[, weight]) for an edge list, and any other graph unchanged.

    graph : an array or tensor of shape (2, edges), alone or with weights of shape (edges,) in a
        tuple; or a tuple of two or three arrays or tensors
    """
    if isinstance(graph, tuple | list) and len(graph) in (2, 3):
        arrays = [None if one is None else as_array(one) for one in graph]
        if len(arrays) == 2 and arrays[0] is not None and arrays[0].ndim == 2:
            return (*_ends(arrays[0]), arrays[1])
        return tuple(arrays)
    if isinstance(graph, np.ndarray) or _is_tensor(graph):
        return _ends(as_array(graph))
    return graph


def _is_tensor(value: Any) -> bool:
    """Return whether an object looks like a tensor: numbers with a shape, and as an array."""
    return hasattr(value, "shape") and hasattr(value, "__array__") and not hasattr(value, "tocoo")


def _ends(edges: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise UsageError(
            f"graph is an array of shape {edges.shape}; give edges as shape (2, edges), or a "
            "scipy.sparse matrix"
        )
    return edges[0], edges[1]
