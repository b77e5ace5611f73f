"""An export of mappings: the number of neurons on each core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mapper.extend import MappedRun, PartialFile


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write a line per core of the chip; return facts for the terminal and `--json`."""
    neurons = np.bincount(run.core, minlength=run.chip.cores)
    y, x = np.divmod(np.arange(run.chip.cores), run.chip.width)
    rows = "".join(f"{a},{b},{n}\n" for a, b, n in zip(x, y, neurons, strict=True))
    with PartialFile(destination) as file:
        file.write(f"x,y,neurons\n{rows}".encode())
        file.commit()
    return {"cores": run.chip.cores, "used": int(np.count_nonzero(neurons))}
