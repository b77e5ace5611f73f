"""Cycle-accurate simulation of programs on the NPU cores of a chip, with mesh and hosts.

    chip = MeshChip(shape, Mesh(4, 4), programs, streams, [HostPort((0, 0), inputs, 2)])
    times = run_mesh(chip, frames=100)

Cores interact only through flits; timing is independent of data. All cores start frame 0 in cycle
0. docs/npu.md has the rules; the hardware agrees with them in every cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.errors import ChipError
from chipsim.noc.mesh import Mesh, link_flits, new_routers
from chipsim.noc.moves import EAST, NORTH, SOUTH, WEST
from chipsim.npu.cycles import DONE, UNITS
from chipsim.npu.mesh.chip import MeshChip, Place, say
from chipsim.npu.mesh.kernel import _advance_chip
from chipsim.npu.mesh.setup import MeshState, new_state
from chipsim.npu.mesh.state import (
    CYCLE,
    FAULT,
    FAULT_CORE,
    FAULT_FROM,
    FAULT_TO,
    FINISHED,
    FLITS,
    MOST_REQUESTS,
    REQUESTS,
    TOP,
    Seen,
)
from chipsim.npu.mesh.steps import CREDITS, REQUEST, Steps
from chipsim.npu.mesh.waits import say_waits

CHUNK = 1 << 16
"""Cycles per kernel call; between calls Ctrl-C and progress are handled."""

Advance = Callable[[int], None]
"""Callback with the number of completed frames."""


class Deliveries(NamedTuple):
    """All n flits by cycle, unordered within a cycle; each array int64 of shape (n,).

    cycle : cycle in which it left the mesh
    source, target : nodes
    kind, stream : as in hardware
    value : address of a part, token count, or number of requested weight words; for a credit, its
        count
    """

    cycle: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    kind: NDArray[np.int64]
    stream: NDArray[np.int64]
    value: NDArray[np.int64]


class CoreWork(NamedTuple):
    """Timing of one core.

    start, end : int64, shape (kept frames, instructions up to END)
    ended : int64, shape (frames,), the first cycle with nothing left of a frame
    busy : busy cycles of each unit, int64, shape (4,)
    waits : idle cycles of each unit by cause, int64, shape (4, len(CAUSES))
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    ended: NDArray[np.int64]
    busy: NDArray[np.int64]
    waits: NDArray[np.int64]


class MeshTimes(NamedTuple):
    """Result of a run.

    cycles : cycles until all cores have ended all frames and the last flit is delivered
    completed : int64, shape (frames,), the cycle after the one in which the host had all results of
        a frame; without results, in which all cores had ended it
    links : int64, shape (4, height, width), in the form of `chipsim.traffic.links`
    entered, left : int64, shape (nodes,), flits that entered and left the mesh at a node
    steps : instructions of all cores
    deliveries : all flits, if requested
    """

    cycles: int
    completed: NDArray[np.int64]
    cores: dict[Place, CoreWork]
    links: NDArray[np.int64]
    entered: NDArray[np.int64]
    left: NDArray[np.int64]
    steps: Steps
    deliveries: Deliveries | None


def run_mesh(
    chip: MeshChip, frames: int = 1, *, keep: Collection[int] = (), flits: bool = False,
    advance: Advance | None = None,
) -> MeshTimes:  # fmt: skip
    """Run a number of frames on all cores.

    keep : frames whose instruction times are returned
    flits : True to return deliveries

    Raises `ChipError` at a deadlock, naming the waiting units; if a token counter overflows; if two
    results go to one address of the host; and if the parts of the chip do not fit together.
    """
    run = new_state(chip, frames, sorted(set(keep)), flits)
    routers = new_routers(chip.mesh)
    scalars = run.seen.scalars
    goes_on = True
    while goes_on:
        pause = int(scalars[CYCLE]) + CHUNK
        goes_on = _advance_chip(
            run.steps, run.cores, run.hosts, run.nodes, routers, run.seen, run.sizes, pause
        )
        if advance is not None:
            advance(int(run.cores.frame.min(initial=frames)))
    places = list(chip.programs)
    if scalars[FAULT]:
        raise ChipError(_say_fault(places, run))
    if scalars[FINISHED] < len(places):
        raise ChipError(f"deadlock: {say_waits(chip, run.steps, run.cores, run.hosts)}")
    if run.sizes.results and run.seen.completed.min() < 0:
        lost = int(run.seen.completed.argmin())
        raise ChipError(
            f"frame {lost}: {run.seen.came[lost]:,} of {run.sizes.results:,} flits at the host; "
            "several stores of a frame write the same host address"
        )
    return _times(chip, run)


def _say_fault(places: list[Place], run: MeshState) -> str:
    scalars = run.seen.scalars
    if scalars[FAULT] == REQUESTS:
        return f"host: more than {MOST_REQUESTS:,} requests for weights wait at a port"
    core, one, other = (int(scalars[at]) for at in (FAULT_CORE, FAULT_FROM, FAULT_TO))
    return (
        f"core {say(places[core])}: {run.sizes.tokens + 1} tokens of {UNITS[one]} wait for "
        f"{UNITS[other]}, whose counter holds {run.sizes.tokens}"
    )


def _times(chip: MeshChip, run: MeshState) -> MeshTimes:
    steps, cores, seen, mesh = run.steps, run.cores, run.seen, chip.mesh
    completed = seen.completed
    if not run.sizes.results:
        completed = seen.ended.max(axis=0)
    cycles = int(max(seen.ended.max(initial=0), completed.max(initial=0)))
    found = {}
    for number, place in enumerate(chip.programs):
        low, high = int(steps.first[number]), int(steps.first[number + 1])
        waits = seen.waits[number]
        waits[:, DONE] += cycles - cores.free[number]
        found[place] = CoreWork(
            seen.starts[:, low:high], seen.ends[:, low:high], seen.ended[number],
            seen.busy[number], waits,
        )  # fmt: skip
    passed = run.nodes.passed
    links = link_flits(mesh, passed)
    outputs = passed.reshape(-1, 5)
    return MeshTimes(
        cycles, completed, found, links, _entered(mesh, passed), outputs[:, 4].copy(), steps,
        _deliveries(mesh, seen, run.sizes.bits) if seen.cycle.size else None,
    )  # fmt: skip


def _entered(mesh: Mesh, passed: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return flits that left a node minus flits from its neighbours; all flits are delivered."""
    outputs = passed.reshape(mesh.height, mesh.width, 5)
    found = outputs.sum(axis=2)
    north, east, south, west = (outputs[:, :, port] for port in (NORTH, EAST, SOUTH, WEST))
    found[:-1] -= north[1:]
    found[1:] -= south[:-1]
    found[:, 1:] -= east[:, :-1]
    found[:, :-1] -= west[:, 1:]
    return found.reshape(-1)


def _deliveries(mesh: Mesh, seen: Seen, bits: int) -> Deliveries:
    count = min(int(seen.scalars[FLITS]), len(seen.cycle))
    flit, mask = seen.flit[:count], (1 << bits) - 1
    kind = flit >> (2 * bits) & 15
    return Deliveries(
        seen.cycle[:count], flit >> bits & mask, flit & mask,
        np.where(kind == CREDITS, REQUEST, kind), flit >> (2 * bits + 4) & 15, flit // TOP,
    )  # fmt: skip
