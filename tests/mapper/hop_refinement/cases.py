"""Cases of a network on a mesh, or in parts without places."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from chipsim.chip.machine import STRAIGHT
from mapper.graph.rows import Rows
from mapper.hop_refinement.mesh import CUT, CoreMesh
from mapper.hop_refinement.multilevel import RefinementEffort
from mapper.limits.domains import FIXED, Domains
from storage.store.memory import MemoryGraph
from tests.mapper.helpers import random_graph
from tests.reference.machine import Line, Plane, random_plane

SEEDS = range(30)
FAR = ((2, 0), (0, 2))
EFFORT = RefinementEffort(1000, 1 << 20, 4)


def random_case(
    seed: int, *, slack: int = 2, sizes: int = 3, faulty: bool = True
) -> tuple[MemoryGraph, np.ndarray, CoreMesh]:
    """Return a graph on random cores of a small mesh, some of which are unavailable."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 70))
    graph = random_graph(rng, n, largest=9, sizes=sizes, block_size=8)
    width, height = (int(number) for number in rng.integers(1, 5, 2))
    usable = rng.random(width * height) < (0.8 if faulty else 1.1)
    usable[rng.integers(usable.size)] = True
    core = rng.choice(np.flatnonzero(usable), n).astype(np.int32)
    load = np.bincount(core, weights=graph.vertex_sizes(), minlength=usable.size).astype(np.int64)
    room = np.where(usable, load + rng.integers(0, slack + 1, usable.size), 0)
    room[usable & (room == 0)] = 1
    axes = random_plane(seed, width, height).axes
    return graph, core, CoreMesh(width, height, room, coordinates=axes)


def flat_case(seed: int, slack: int = 2) -> tuple[MemoryGraph, np.ndarray, CoreMesh]:
    """Return the same without places."""
    graph, core, mesh = random_case(seed, slack=slack)
    return graph, core, CoreMesh.flat(mesh.capacities)


CASES = pytest.mark.parametrize("case", [random_case, flat_case], ids=["mesh", "flat"])
Case = Callable[..., tuple[MemoryGraph, np.ndarray, CoreMesh]]


def plane_of(mesh: CoreMesh) -> Plane:
    """Return the axes in the form of the reference implementations."""
    lines = []
    for at, around in (
        (mesh.axes.x, mesh.axes.round_x),
        (mesh.axes.y, mesh.axes.round_y),
    ):
        torus = around != STRAIGHT
        steps = [*np.diff(at).tolist(), around - int(at[-1]) if torus else 0]
        lines.append(Line(tuple(steps), torus))
    return Plane(*lines)


def width_of(mesh: CoreMesh) -> int:
    """Return the width in the form of the reference implementations."""
    return 0 if mesh.most == CUT else mesh.width


def some_fixed(seed: int, rows: Rows, mesh: CoreMesh) -> tuple[np.ndarray, Rows]:
    """Return fixed vertices: none, or on a mesh about a quarter; they have size 0 in the rows."""
    share = 0.25 * (seed % 2) * (mesh.most != CUT)
    fixed = np.random.default_rng([seed, 1]).random(rows.vertices) < share
    return fixed, rows.with_sizes(np.where(fixed, 0, rows.sizes))


def some_domains(seed: int, fixed: np.ndarray, core: np.ndarray, mesh: CoreMesh) -> Domains:
    """Return domains of three kinds, or of one, that contain the present cores."""
    cores, rng = mesh.capacities.size, np.random.default_rng([seed, 2])
    if seed % 3 == 0 or mesh.most == CUT:
        return Domains.of_fixed(fixed, cores)
    kind = rng.integers(0, 3, core.size).astype(np.int32)
    table = rng.random((3, cores)) < 0.6
    table[kind, core] = True
    return Domains(np.where(fixed, FIXED, kind).astype(np.int32), table)


def within(domains: Domains, core: np.ndarray) -> bool:
    """Return whether all vertices that may move are in their domains."""
    free = np.flatnonzero(~domains.fixed)
    return bool(domains.allows(free, core[free]).all())


def load_of(rows: Rows, core: np.ndarray, mesh: CoreMesh) -> np.ndarray:
    return np.bincount(core, weights=rows.sizes, minlength=mesh.capacities.size).astype(np.int64)
