"""Small random sets of packets for tests of the mesh."""

from __future__ import annotations

import numpy as np

from chipsim.chip.machine import Block, Machine, Torus
from chipsim.chip.model import Chip
from chipsim.noc.mesh import LinkTiming, Mesh
from tests.reference.noc import EAST, NORTH, SOUTH, WEST, Link, Packet

SHAPES = ("uniform", "hotspot", "transpose", "complement", "neighbour", "self", "burst")


def random_packets(
    rng: np.random.Generator, mesh: Mesh, shape: str, count: int, cycles: int
) -> list[Packet]:
    """Return `count` packets of one shape, created at random in `cycles` cycles, unordered."""
    nodes, (width, height) = mesh.cores, mesh.sides
    created = rng.integers(0, cycles, count)
    source = rng.integers(0, nodes, count)
    y, x = np.divmod(source, width)
    if shape == "hotspot":
        target = np.where(rng.random(count) < 0.5, nodes // 2, rng.integers(0, nodes, count))
    elif shape == "transpose":  # cropped if the mesh is not square
        target = np.minimum(x, height - 1) * width + np.minimum(y, width - 1)
    elif shape == "complement":
        target = nodes - 1 - source
    elif shape == "neighbour":
        target = y * width + np.minimum(x + 1, width - 1)
    elif shape == "self":
        target = source
    else:
        target = rng.integers(0, nodes, count)
    if shape == "burst":
        created[:] = created[:1]
    return [(int(t), int(a), int(b)) for t, a, b in zip(created, source, target, strict=True)]


def random_links(rng: np.random.Generator, mesh: Mesh) -> LinkTiming:
    """Return random links: long and narrow among short and wide ones."""
    shape = 4, mesh.height, mesh.width
    latency = np.where(rng.random(shape) < 0.5, 1, rng.integers(1, 12, shape))
    return LinkTiming(latency.astype(np.int64), rng.choice([1.0, 1.0, 1.0, 1.5, 2.25, 4.0], shape))


def torus_of(width: int, height: int, torus: Torus, tile: tuple[int, int], depth: int) -> Mesh:
    """Return routers with rings, optionally with tiles, with equal step costs."""
    sides = width * tile[0], height * tile[1]
    machine = Machine(*sides, torus, tile=Block(*tile, 0.0))
    return Mesh.of(Chip("torus", *sides, machine=machine), depth)


def slow_links(mesh: Mesh) -> dict[Link, tuple[int, float]]:
    """Return latency and cycles per flit of every link, for the reference implementations."""
    assert mesh.links is not None
    return {
        (x, y, port): (int(mesh.links.latency[d, y, x]), float(mesh.links.cycles[d, y, x]))
        for d, port in enumerate((EAST, WEST, SOUTH, NORTH))
        for y in range(mesh.height)
        for x in range(mesh.width)
    }
