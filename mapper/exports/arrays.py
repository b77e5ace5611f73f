"""Mappings as npz: arrays core, x, y, and width and height of the chip. `mapper score` reads it.

Includes `id` and `size` of the neurons, if the network has them. Relay neurons and synapses are
omitted; `mapping.npz` of the output folder has the relays.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from mapper.exports.base import MappedRun
from storage.files import write_file


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write the arrays."""
    table = run.columns()
    del table["neuron"]
    sides = {"width": np.int64(run.chip.width), "height": np.int64(run.chip.height)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **table, **sides)
    write_file(destination, buffer.getvalue())
    return {"neurons": run.core.size, "arrays": [*table, *sides]}
