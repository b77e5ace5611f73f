"""After placement: single vertices move and change places between cores, to save hops.

First every vertex may move to the core where it is best off, streamed, a few passes; then pairs of
cores near each other exchange vertices, which needs their rows in memory; then, if the network is
held there, V-cycles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mapper.checkpoint import Arrays, Steps
from mapper.mapping.annealing import Cooling
from mapper.mapping.batches import batches
from mapper.mapping.cycle import refine_by_chains, refine_by_cycle
from mapper.mapping.hops import SeekHops
from mapper.mapping.pairs import DIAGONAL, NEAR, Mesh, exchange_round
from mapper.monitor import Monitor
from mapper.partition.kway import refine_round
from mapper.partition.rows import HeldRows, Rows
from mapper.settings import Settings
from mapper.team import Team

WORTH_A_CORNER = 3  # exchanges from which those across corners take part
CHAINS = 2  # annealings side by side in a V-cycle, whatever the number of threads
SETTLED = 20  # exchanges end when one saves less than one in so many hops that the first saved


@dataclass(frozen=True, slots=True)
class MappedRows:
    """A network whose vertices have cores.

    core : ndarray[int32], shape (vertices,), core id; mesh : with what each core may hold
    fixed : ndarray[bool], shape (vertices,), those that stay where they are, of size 0; None if
        all may move
    """

    rows: Rows
    core: NDArray[np.int32]
    mesh: Mesh
    fixed: NDArray[np.bool_] | None = None


def refine_by_hops(
    mapped: MappedRows, settings: Settings, memory: int, steps: Steps, monitor: Monitor, team: Team
) -> NDArray[np.int32]:
    """The core of every vertex, with fewer hops; no core holds more than it may.

    memory : bytes for rows
    """
    rows, mesh, fixed = mapped.rows, mapped.mesh, mapped.fixed
    core = mapped.core.copy()

    def step(name: str, work: Callable[[NDArray[np.int32]], tuple[NDArray[np.int32], int]]) -> int:
        """Do what changes `core` and returns it with a number, once."""
        nonlocal core

        def once() -> Arrays:
            found, number = work(core.copy())
            return {"core": found, "number": np.array([number], np.int64)}

        arrays = steps.once(name, once)
        core = arrays["core"]
        return int(arrays["number"][0])

    most = settings.hop_budget // max(1, rows.entries)
    passes, rounds = min(settings.hop_passes, most), min(settings.exchanges, most)
    monitor.expect((passes + rounds) * rows.entries)
    for index in range(passes):

        def move(core: NDArray[np.int32], index: int = index) -> tuple[NDArray[np.int32], int]:
            seeker = SeekHops(mesh.width, mesh.height, rows.sizes, mesh.room, fixed)
            found = refine_round(
                rows, core, mesh.room, np.zeros_like(mesh.room), settings.seed_of(8), index, team,
                monitor.advance, seeker,
            )  # fmt: skip
            mean = found.outside / max(1, found.everything)
            monitor.note(f"pass {index + 1}: {found.moves:,} moves, hops a spike were {mean:.3f}")
            return core, found.moves

        step(f"hops {index}", move)
    first = 0
    for index in range(rounds):

        def exchange(core: NDArray[np.int32], index: int = index) -> tuple[NDArray[np.int32], int]:
            rng = np.random.default_rng([settings.seed_of(9), index])
            near = (*NEAR, *DIAGONAL) if rounds >= WORTH_A_CORNER else NEAR
            moved = saved = 0
            for batch in batches(rows, core, mesh, memory, index % 2 == 1, team, monitor.advance):
                found = exchange_round(batch, mesh, core, rows.sizes, near, 1, rng, team, fixed)
                moved, saved = moved + found[0], saved + found[1]
            monitor.note(f"exchange {index + 1}: {moved:,} moves")
            return core, saved

        saved = step(f"exchange {index}", exchange)
        first = first or saved
        if saved * SETTLED <= first:
            break
    for index in range(settings.cycles if isinstance(rows, HeldRows) else 0):

        def cycle(core: NDArray[np.int32], index: int = index) -> tuple[NDArray[np.int32], int]:
            assert isinstance(rows, HeldRows)
            seed = settings.seed_of(10 + index)
            if settings.proposals == 0:
                return refine_by_cycle(rows, core, mesh, seed, team, fixed=fixed), 0
            cooling = Cooling(settings.proposals)
            return refine_by_chains(rows, core, mesh, seed, team, cooling, CHAINS, fixed), 0

        step(f"cycle {index}", cycle)
    return core
