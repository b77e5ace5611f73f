"""Mappings as csv: a header, then one line per neuron. `mapper score` reads it.

Columns are neuron, core, x, y, and if the network has them id (in its source file) and size. Relay
neurons of split neurons, synapses and the chip are omitted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mapper.exports.base import MappedRun
from storage.files import PartialFile

LINES = 1 << 16
"""Lines written at a time."""


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write the table."""
    table = run.columns()
    line = ",".join(["%d"] * len(table)) + "\n"
    with PartialFile(destination) as file:
        file.write(f"{','.join(table)}\n".encode())
        for start in range(0, run.core.size, LINES):
            part = slice(start, start + LINES)
            rows = zip(*(column[part].tolist() for column in table.values()), strict=True)
            file.write("".join(line % row for row in rows).encode())
        file.commit()
    return {"neurons": run.core.size, "columns": list(table)}
