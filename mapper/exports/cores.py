"""Mappings as JSON: the chip, and the coordinates and neurons of every used core.

::

    {"schema": 1, "chip": {...}, "network": {"path", "neurons", ...},
     "cores": [{"core": 5, "x": 1, "y": 1, "neurons": [0, 7]}, ...]}

A core also has `ids` (in the source file of the network) and `sizes` of its neurons, if the network
has them. Relay neurons of split neurons and synapses are omitted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from mapper.exports.base import MappedRun
from storage.files import PartialFile


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write one line per core."""
    order, ends = run.by_core()
    table = run.columns()
    extras = {f"{name}s": table[name] for name in ("id", "size") if name in table}
    used = np.flatnonzero(np.diff(ends)).tolist()
    head = {"schema": 1, "chip": run.chip.to_json(), "network": run.report["network"]}
    with PartialFile(destination) as file:
        file.write((json.dumps(head)[:-1] + ', "cores": [').encode())
        for index, core in enumerate(used):
            neurons = order[ends[core] : ends[core + 1]]
            entry = {"core": core, "x": core % run.chip.width, "y": core // run.chip.width}
            lists = {"neurons": neurons.tolist()}
            lists |= {name: values[neurons].tolist() for name, values in extras.items()}
            file.write((",\n" if index else "\n").encode() + json.dumps(entry | lists).encode())
        file.write(b"\n]}\n")
        file.commit()
    return {"neurons": run.core.size, "cores": len(used)}
