"""The traffic of a mapping as a table for Noxim, the field's cycle-accurate simulator.

A line ``src dst pir`` for every pair of cores with traffic: node ids y * width + x, and packets of
the pair a cycle. Comments start with ``%``. (Catania et al., ACM TOMACS 27, 2016;
``-traffic table FILE``.)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mapper.errors import MapperError
from mapper.evaluation.offered_load import Offered
from storage.files import PartialFile

LINES = 1 << 16
"""Lines that are made at a time."""


def save_noxim(offered: Offered, scale: float, destination: Path) -> int:
    """Write the table at a load scale; returns the number of pairs. It appears when complete.

    Raises `MapperError` if a node would send more than a packet a cycle, or cores share routers or
    are on a torus, `WriteError` if the file can't be written.
    """
    demand, mesh = offered.scaled(scale), offered.mesh
    if mesh.shared:
        raise MapperError(
            "the cores of a tile share a router; a Noxim table has one for each core: "
            "`mapper simulate` runs this machine"
        )
    if mesh.torus:
        raise MapperError(
            "the chip is a torus; Noxim has routers in a mesh: `mapper simulate` runs this machine"
        )
    ticks = "-" if offered.tick_cycles is None else f"{offered.tick_cycles / scale:.9g}"
    with PartialFile(destination) as file:
        file.write(
            f"% traffic of a mapping: {mesh.width}x{mesh.height} nodes, id = y * {mesh.width} + x\n"
            f"% one flit a packet, {ticks} cycles per unit of time\n"
            "% src dst pir\n".encode()
        )
        pairs = len(demand.choice)
        flow = demand.flows()
        source = np.repeat(np.arange(mesh.nodes), np.diff(demand.indptr))
        for start in range(0, pairs, LINES):
            part = slice(start, start + LINES)
            rows = zip(
                source[part].tolist(),
                demand.choice[part].tolist(),
                flow[part].tolist(),
                strict=True,
            )
            file.write("".join(f"{s} {t} {p:.9g}\n" for s, t, p in rows).encode())
        file.commit()
    return pairs
