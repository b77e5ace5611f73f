"""Mappings for METIS: the network as a graph, and NAME.part.K with the core of each vertex.

K is the number of cores of the chip, and parts are core ids: one line per vertex, the partition
format of METIS. Unused cores are empty parts. `storage.formats.text.export_metis` lists the losses
of the graph format; relays of split neurons are omitted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mapper.exports.base import MappedRun
from storage.files import PartialFile, commit_together
from storage.formats import EXPORTS
from storage.formats.sinks import TextSink
from storage.formats.text.export_metis import write

LINES = 1 << 16
"""Lines written at a time."""


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write both files; losses of the graph format are returned as `losses`."""
    name = destination.name.removesuffix(".gz") + f".part.{run.chip.cores}"
    partition = destination.with_name(name)
    with TextSink(destination) as graph, PartialFile(partition) as file:
        losses = [*EXPORTS["metis"].losses(run.network), *write(run.network, graph)]
        for start in range(0, run.core.size, LINES):
            rows = run.core[start : start + LINES].tolist()
            file.write("".join(f"{core}\n" for core in rows).encode())
        commit_together(file, graph)
    return {"partition": str(partition), "parts": run.chip.cores, "losses": losses}
