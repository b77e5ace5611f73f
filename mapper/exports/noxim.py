"""Traffic of a mapping as a table for the cycle-accurate simulator Noxim.

One line ``src dst pir`` per pair of cores with traffic: node ids y * width + x, and packets per
cycle of the pair. Comments start with ``%``. (Catania et al., ACM TOMACS 27, 2016; ``-traffic table
FILE``.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mapper.errors import MapperError
from mapper.evaluation.offered_load import Offered, offered_load
from mapper.exports.base import MappedRun
from storage.files import PartialFile

LINES = 1 << 16
"""Lines written at a time."""


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write the table at a load scale.

    options : load_scale, tick_cycles, packets; see `mapper.evaluation.offered_load`
    """
    offered = offered_load(
        run.folder,
        run.report,
        run.network,
        packets=options.get("packets"),
        tick_cycles=options.get("tick_cycles"),
    )
    scale = options.get("load_scale", 1.0)
    pairs = _write_table(offered, scale, destination)
    ticks = None if offered.tick_cycles is None else offered.tick_cycles / scale
    return {"pairs": pairs, "tick_cycles": ticks}


def _write_table(offered: Offered, scale: float, destination: Path) -> int:
    """Write the table at a load scale; return the number of pairs. The file appears when complete.

    Raises `MapperError` if a node would send more than one packet per cycle, if cores share
    routers, or on a torus; `WriteError` if the file cannot be written.
    """
    demand, mesh = offered.scaled(scale), offered.mesh
    if mesh.shared:
        raise MapperError(
            "the cores of a tile share a router, which Noxim does not support; "
            "use `mapper simulate`"
        )
    if mesh.torus:
        raise MapperError(
            "the chip is a torus, which Noxim does not support; use `mapper simulate`"
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
