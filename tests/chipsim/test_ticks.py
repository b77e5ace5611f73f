"""Ticks of a chip: kernel against reference, with packets to cores and with trees."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from chipsim.chip.machine import Torus
from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from chipsim.errors import ChipError
from chipsim.noc.mesh import Mesh
from chipsim.ticks.routes import core_routes, tree_routes
from chipsim.ticks.run import TickSimulator
from tests.chipsim.faulty_chips import faulty_chip, ports_of_routes, reaches_host
from tests.chipsim.noc_cases import random_links, slow_links, torus_of
from tests.reference.ticks import TwinChip

TICKS = 6


def ragged(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([one for each in lists for one in each], np.int64)
    return values, np.cumsum([0, *map(len, lists)]).astype(np.int64)


@pytest.mark.heavy
@pytest.mark.sample(9)
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("tree", [False, True])
def test_kernel_matches_reference(seed: int, tree: bool) -> None:
    rng = np.random.default_rng([seed, tree])
    mesh = Mesh(*(int(n) for n in rng.integers(1, 5, 2)), depth=int(rng.integers(1, 5)))
    torus = ""
    if seed % 4 == 2:
        torus = ("xy", "x", "y")[seed % 3]
        sides, tile = (int(rng.integers(1, 7)), int(rng.integers(1, 5))), (1 + seed % 8 // 4, 1)
        mesh = torus_of(*sides, cast(Torus, torus), tile, mesh.depth + 1)
    if seed % 4 == 1:  # cores that share routers
        mesh = replace(mesh, width=mesh.width // 2 + 1, tile=(1 + seed % 3, 1 + seed % 2))
    slow: dict[tuple[int, int], tuple[int, float]] = {}
    if seed % 3 == 0:  # unequal links
        mesh = replace(mesh, links=random_links(rng, mesh))
        slow = {((y * mesh.width + x), port): one for (x, y, port), one in slow_links(mesh).items()}
    require_equal_ticks(rng, mesh, tree, slow, torus=torus)


@pytest.mark.heavy
@pytest.mark.sample(6)
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("tree", [False, True])
def test_kernel_matches_reference_around_broken_links(seed: int, tree: bool) -> None:
    rng = np.random.default_rng([seed, tree, 3])
    chip = faulty_chip(seed)
    mesh = Mesh.of(chip, int(rng.integers(1, 4)))
    slow: dict[tuple[int, int], tuple[int, float]] = {}
    if mesh.links is not None:
        slow = {((y * mesh.width + x), port): one for (x, y, port), one in slow_links(mesh).items()}
    torus = "" if chip.machine is None else chip.machine.torus
    require_equal_ticks(rng, mesh, tree, slow, torus=torus, chip=chip)


def require_equal_ticks(
    rng: np.random.Generator, mesh: Mesh, tree: bool,
    slow: dict[tuple[int, int], tuple[int, float]], torus: str = "", chip: Chip | None = None,
) -> None:  # fmt: skip
    """Compare random ticks of random neurons with the reference.

    chip : a chip with broken links, whose routes packets follow
    """
    usable, routes = np.ones(mesh.cores + 1, np.bool_), None
    if chip is not None:
        routes = ports_of_routes(chip)
        usable[:-1] = chip.usable
        usable[-1] = reaches_host(chip)
    hardware = rng.random() < 0.4
    time = ChipTime() if hardware else ChipTime(
        *(float(rng.choice([0, 0.25, 1, 1.5, 3])) for _ in range(6)), spike=float(rng.integers(12)),
        barrier=float(rng.integers(1, 6)),
    )  # fmt: skip
    used = rng.integers(0, 7, mesh.cores) * usable[:-1]
    used[rng.random(mesh.cores) < 0.2] = 0
    slots, inputs = int(used.sum()), int(rng.integers(0, 3)) * int(usable[0])
    origin = np.r_[np.repeat(np.arange(mesh.cores), used), np.zeros(inputs, np.int64)]
    # The last target is the host.
    reach = rng.random((slots + inputs, mesh.cores + 1)) < rng.random((slots + inputs, 1)) * 0.8
    reach &= usable
    slot, target = (found.astype(np.int64) for found in np.nonzero(reach))
    events = rng.integers(0, 5, slot.size)
    first = np.r_[0, np.cumsum(used)].astype(np.int64)
    make = tree_routes if tree else core_routes
    simulator = TickSimulator(mesh, time, make(mesh, origin, first, slot, target, events))

    goes: list[dict[int, int]] = [{} for _ in origin]
    for s, c, n in zip(slot.tolist(), target.tolist(), events.tolist(), strict=True):
        goes[s][c] = n
    lists = [[one] * bool(one) if tree else [{c: n} for c, n in one.items()] for one in goes]
    cores = {c: lists[first[c] : first[c + 1]] for c in range(mesh.cores)}
    lists_of = {**cores, None: lists[slots:]}
    twin = TwinChip(
        mesh.width, mesh.height, mesh.depth, time, lists_of, slow, mesh.tile, torus, routes
    )  # fmt: skip

    spikes = [np.flatnonzero(rng.random(slots) < rng.random()).tolist() for _ in range(TICKS)]
    host = [rng.integers(0, inputs, rng.integers(0, 4)).tolist() if inputs else [] for _ in spikes]
    found = simulator.run(
        *ragged(spikes), *ragged([[slots + one for one in told] for told in host])
    )
    for tick, (now, told) in enumerate(zip(spikes, host, strict=True)):
        by_core = [[s - first[c] for s in now if origin[s] == c] for c in range(mesh.cores)]
        assert found.cycles[tick] == twin.tick(by_core, told), tick
    links = np.zeros_like(found.links)
    for (v, output), flits in twin.passed.items():
        if output < 4:
            links[[3, 0, 2, 1][output], v // mesh.width, v % mesh.width] = flits
    assert np.array_equal(found.links, links)
    all_spikes = np.bincount(np.concatenate([*spikes, *[[slots + o for o in t] for t in host]])
                             .astype(np.int64), minlength=len(origin))  # fmt: skip
    expected = np.bincount(target, events * all_spikes[slot], mesh.cores + 1)[:-1]
    assert np.array_equal(found.events, expected)
    taken = np.bincount(target, all_spikes[slot], mesh.cores + 1)
    assert np.array_equal([*found.taken, found.heard], taken)
    assert found.heard == twin.heard


def test_runs_continue_where_they_stopped() -> None:
    """The arbiters keep their turns: two runs of a tick equal one of two."""
    mesh = Mesh(2, 2)
    origin = np.arange(4)
    pairs = np.divmod(np.arange(16), 4)
    routes = core_routes(mesh, origin, np.arange(5), *pairs, np.full(16, 2))
    told = np.r_[origin, origin], np.array([0, 4, 8])
    nobody = np.zeros(0, np.int64), np.zeros(3, np.int64)
    whole = TickSimulator(mesh, ChipTime(), routes).run(*told, *nobody)
    parts = TickSimulator(mesh, ChipTime(), routes)
    one = [parts.run(origin, told[1][:2], nobody[0], nobody[1][:2]).cycles[0] for _ in range(2)]
    assert whole.cycles.tolist() == one


def test_another_mesh_is_refused() -> None:
    routes = core_routes(Mesh(1, 1), np.zeros(1, np.int64), np.arange(2), *np.zeros((3, 0), int))
    with pytest.raises(ChipError, match="neurons of 1 cores for a mesh of 4"):
        TickSimulator(Mesh(2, 2), ChipTime(), routes)
