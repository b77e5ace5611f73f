"""Synthetic loads that networks on chips are measured by (Dally and Towles, 2004, chapter 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from chipsim.errors import ChipError
from chipsim.noc.demand import Demand
from chipsim.noc.mesh import Mesh

HOT = 0.1
"""Share of the packets that go to the hot node."""


def uniform(mesh: Mesh, rate: float) -> Demand:
    """To all nodes alike, the own one among them."""
    return Demand.to_one(np.arange(mesh.nodes, dtype=np.int32), rate, spread=1.0)


def transpose(mesh: Mesh, rate: float) -> Demand:
    """From (x, y) to (y, x); raises `ChipError` if the mesh is not square."""
    if mesh.width != mesh.height:
        raise ChipError(
            f"transpose: the mesh is {mesh.width}x{mesh.height}; it must be as wide as high"
        )
    y, x = np.divmod(np.arange(mesh.nodes), mesh.width)
    return permutation(mesh, rate, x * mesh.width + y)


def complement(mesh: Mesh, rate: float) -> Demand:
    """From (x, y) to the point opposite: where sides are powers of two, all bits are inverted."""
    return permutation(mesh, rate, np.arange(mesh.nodes)[::-1])


def hotspot(mesh: Mesh, rate: float, share: float = HOT, node: int | None = None) -> Demand:
    """A share of the packets to one node, the middle one by default, the others to all alike."""
    middle = mesh.height // 2 * mesh.width + mesh.width // 2
    hot = middle if node is None else node
    if not 0 <= hot < mesh.nodes:
        raise ChipError(f"hotspot: node {hot} is outside of the mesh; it runs to {mesh.nodes - 1}")
    if not 0 <= share <= 1:
        raise ChipError(f"hotspot: the share is {share}; give 0 to 1")
    return Demand.to_one(np.full(mesh.nodes, hot, dtype=np.int32), rate, spread=1.0 - share)


def neighbour(mesh: Mesh, rate: float) -> Demand:
    """To one of the two to four nodes next to it; a mesh of one node sends to itself."""
    if mesh.nodes == 1:
        return permutation(mesh, rate, np.zeros(1, dtype=np.int64))
    nodes = np.arange(mesh.nodes)
    y, x = np.divmod(nodes, mesh.width)
    pairs = [
        np.stack([nodes[there], nodes[there] + step])
        for there, step in (
            (y > 0, -mesh.width),
            (x > 0, -1),
            (x < mesh.width - 1, 1),
            (y < mesh.height - 1, mesh.width),
        )
    ]
    source, target = np.concatenate(pairs, axis=1)
    order = np.lexsort((target, source))
    ones = np.ones(len(order), dtype=np.int64)
    flows = (source[order].astype(np.int32), target[order].astype(np.int32), ones)
    found = Demand.from_flows(mesh, *flows, 1.0)
    return replace(found, rate=np.full(mesh.nodes, float(rate)))


def permutation(mesh: Mesh, rate: float, target: npt.ArrayLike) -> Demand:
    """From node v to ``target[v]``, which names every node once.

    target : whole numbers, shape (nodes,)
    """
    found = np.asarray(target)
    if found.shape != (mesh.nodes,) or not np.array_equal(np.sort(found), np.arange(mesh.nodes)):
        raise ChipError(f"permutation: does not name each of the nodes 0 to {mesh.nodes - 1} once")
    return Demand.to_one(found.astype(np.int32), rate)


PATTERNS: dict[str, Callable[[Mesh, float], Demand]] = {
    "uniform": uniform,
    "transpose": transpose,
    "complement": complement,
    "hotspot": hotspot,
    "neighbour": neighbour,
}
"""Patterns that need nothing but a rate: packets of each node in a cycle, 0 to 1."""
