"""Compiled spiking models as tables of the hardware's cores, as mappings are exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import to_builtins

from mapper.exports.hardware import write_tables
from mapper.exports.synaptic import SYNAPTIC
from mapper.exports.tables_file import HostTable
from mapper.spiking.artifacts.folder import SpikingFolder


def save_spiking(folder: SpikingFolder, destination: Path) -> dict[str, Any]:
    """Write the tables of all cores, and the packets of the inputs; return facts for the user."""
    tables, scale = folder.tables(), folder.integers.scale
    counts = to_builtins(folder.manifest.counts)
    del counts["synapses"]  # all of them, not a loss
    words = write_tables(
        destination,
        tables,
        {
            "weights": SYNAPTIC,
            "left_out": {name: count for name, count in counts.items() if count},
            "inputs": [],
            "input_packets": [list(packets) for packets in tables.input_packets],
            "host": HostTable(x=0, y=tables.height, axons=folder.model.watched.tolist()),
        },
        lambda part: {"scales": scale[part.neurons].tolist()},
    )
    return {"neurons": tables.neurons, "cores": len(tables.cores), "words": words}
