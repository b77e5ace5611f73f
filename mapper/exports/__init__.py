"""Mappings in other people's formats: the output folder of a run, written to a file.

::

    with open_run(Path("result")) as run:
        export_mapping(run, Path("mapping.csv"))
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.errors import UsageError
from mapper.exports.base import (
    CORE_OPTIONS,
    NEURON_OPTIONS,
    WIDTHS,
    MappedRun,
    MappingExporter,
    open_run,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

EXPORTS: dict[str, MappingExporter] = {
    exporter.name: exporter
    for exporter in (
        MappingExporter(
            "csv",
            "table with a line neuron,core,x,y for every neuron",
            (".csv",),
            "mapper.exports.table",
        ),
        MappingExporter(
            "parquet",
            "the same table as Parquet (needs pyarrow)",
            (".parquet", ".pq"),
            "mapper.exports.parquet",
        ),
        MappingExporter(
            "tables",
            "what the memories of the hardware's cores hold, as JSON",
            (".tables.json",),
            "mapper.exports.hardware",
            (*NEURON_OPTIONS, *CORE_OPTIONS),
        ),
        MappingExporter(
            "json",
            "every core with its place and its neurons",
            (".json",),
            "mapper.exports.cores",
        ),
        MappingExporter("npz", "NumPy arrays core, x, y", (".npz",), "mapper.exports.arrays"),
        MappingExporter(
            "metis",
            "METIS graph, and its partition in NAME.part.K",
            (".graph", ".mgraph", ".metis"),
            "mapper.exports.partition",
        ),
        MappingExporter(
            "sanafe",
            "network and mapping for SANA-FE, and its chip in NAME.arch.yaml",
            (".yaml", ".yml"),
            "mapper.exports.sanafe",
            (*NEURON_OPTIONS, *WIDTHS),
        ),
        MappingExporter(
            "nir",
            "NIR graph, the one that was mapped or one with a node for every core (needs nir)",
            (".nir",),
            "mapper.exports.nir_graph",
            ("threshold", "graph", "magnitudes"),
        ),
        MappingExporter(
            "noxim",
            "traffic table of the simulator Noxim",
            (".noxim",),
            "mapper.exports.noxim",
            ("load_scale", "tick_cycles", "packets"),
            relays=True,
        ),
    )
}
"""Formats by name; the first whose ending a name has is taken."""


def choose_exporter(destination: Path, name: str | None = None) -> MappingExporter:
    """The exporter called `name`, else the one for the destination's name.

    Raises `UsageError` if there is none.
    """
    if name is not None:
        if name not in EXPORTS:
            raise UsageError(
                f"no format of mappings is called {name!r}; there are {', '.join(EXPORTS)}"
            )
        return EXPORTS[name]
    for exporter in EXPORTS.values():
        if destination.name.lower().endswith(exporter.extensions):
            return exporter
    raise UsageError(
        f"{destination}: unknown format for mappings; "
        f"choose one with --format ({', '.join(EXPORTS)})"
    )


def export_mapping(
    run: MappedRun,
    destination: Path,
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a mapping in a format, a key of `EXPORTS`; by the name's ending if None.

    options : by name, as `mapper export` has them; None stands for one that is not given

    Returns what the format has to say of what was written. Raises `UsageError` for an option that
    the format does not take, `MapperError` or `StorageError` if it can't hold the mapping or the
    file can't be written; nothing is left behind then.
    """
    exporter = choose_exporter(destination, format)
    given = {name: value for name, value in (options or {}).items() if value is not None}
    for option in given:
        if option not in exporter.options:
            takers = [each.name for each in EXPORTS.values() if option in each.options]
            raise UsageError(
                f"--{option.replace('_', '-')} is for the formats {', '.join(takers)}, not for "
                f"{exporter.name}; leave it out"
            )
    return exporter.save(run, destination, given)


__all__ = [
    "CORE_OPTIONS",
    "EXPORTS",
    "MappedRun",
    "MappingExporter",
    "choose_exporter",
    "export_mapping",
    "open_run",
]
