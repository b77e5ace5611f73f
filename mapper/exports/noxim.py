"""Traffic of mappings for Noxim; see `mapper.noxim`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mapper.exports.base import MappedRun
from mapper.noxim import save_noxim
from mapper.offered import offered_load


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write the table at a load scale.

    options : load_scale, tick_cycles, packets; see `mapper.offered`
    """
    offered = offered_load(
        run.folder,
        run.report,
        run.network,
        packets=options.get("packets", "synapse"),
        tick_cycles=options.get("tick_cycles"),
    )
    scale = options.get("load_scale", 1.0)
    pairs = save_noxim(offered, scale, destination)
    ticks = None if offered.tick_cycles is None else offered.tick_cycles / scale
    return {"pairs": pairs, "tick_cycles": ticks}
