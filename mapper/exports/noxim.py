"""Traffic of mappings for Noxim; see `mapper.exports.noxim_table`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mapper.evaluation.offered_load import offered_load
from mapper.exports.base import MappedRun
from mapper.exports.noxim_table import save_noxim


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
    pairs = save_noxim(offered, scale, destination)
    ticks = None if offered.tick_cycles is None else offered.tick_cycles / scale
    return {"pairs": pairs, "tick_cycles": ticks}
