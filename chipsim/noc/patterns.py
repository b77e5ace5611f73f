"""Synthetic loads for networks on chips (Dally and Towles, 2004, chapter 3)."""

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
    """Return a load to all routers with equal probability, including the source."""
    return Demand.to_one(mesh, np.arange(mesh.cores), rate, spread=1.0)


def transpose(mesh: Mesh, rate: float) -> Demand:
    """Return a load from (x, y) to (y, x); raises `ChipError` if the mesh is not square."""
    width, height = mesh.sides
    if width != height:
        raise ChipError(f"transpose: the mesh is {width}x{height}; it must be square")
    y, x = np.divmod(np.arange(mesh.cores), width)
    return permutation(mesh, rate, x * width + y)


def complement(mesh: Mesh, rate: float) -> Demand:
    """Return a load to the opposite point: with power-of-two sides, all bits are inverted."""
    return permutation(mesh, rate, np.arange(mesh.cores)[::-1])


def hotspot(mesh: Mesh, rate: float, share: float = HOT, node: int | None = None) -> Demand:
    """Return a load with a share to one core (default: the middle one), the rest uniform."""
    width, height = mesh.sides
    middle = height // 2 * width + width // 2
    hot = middle if node is None else node
    if not 0 <= hot < mesh.cores:
        raise ChipError(f"hotspot: node {hot} is outside the mesh; give 0 to {mesh.cores - 1}")
    if not 0 <= share <= 1:
        raise ChipError(f"hotspot: the share is {share}; give 0 to 1")
    return Demand.to_one(mesh, np.full(mesh.cores, hot), rate, spread=1.0 - share)


def neighbour(mesh: Mesh, rate: float) -> Demand:
    """Return a load to the two to four adjacent cores; a mesh of one core sends to itself."""
    if mesh.cores == 1:
        return permutation(mesh, rate, np.zeros(1, dtype=np.int64))
    width, height = mesh.sides
    cores = np.arange(mesh.cores)
    y, x = np.divmod(cores, width)
    ways = ((y > 0, -width), (x > 0, -1), (x < width - 1, 1), (y < height - 1, width))
    pairs = [np.stack([cores[there], cores[there] + step]) for there, step in ways]
    source, target = np.concatenate(pairs, axis=1)
    order = np.lexsort((target, source))
    ones = np.ones(len(order), dtype=np.int64)
    flows = (source[order].astype(np.int32), target[order].astype(np.int32), ones)
    found = Demand.from_flows(mesh, *flows, 1.0)
    return replace(found, rate=np.full(mesh.cores, float(rate)))


def permutation(mesh: Mesh, rate: float, target: npt.ArrayLike) -> Demand:
    """Return a load from core v to ``target[v]``, a permutation of the cores.

    target : integers, shape (cores,)
    """
    found = np.asarray(target)
    if found.shape != (mesh.cores,) or not np.array_equal(np.sort(found), np.arange(mesh.cores)):
        raise ChipError(f"permutation: must name each of the nodes 0 to {mesh.cores - 1} once")
    return Demand.to_one(mesh, found, rate)


PATTERNS: dict[str, Callable[[Mesh, float], Demand]] = {
    "uniform": uniform,
    "transpose": transpose,
    "complement": complement,
    "hotspot": hotspot,
    "neighbour": neighbour,
}
"""Patterns with the rate as only parameter: packets per core and cycle, 0 to 1."""
