"""Export of mappings to other formats: writes the output folder of a run to a file.

::

    with open_run(Path("result")) as run:
        export_mapping(run, Path("mapping.csv"))
"""

from __future__ import annotations

from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.errors import UsageError
from mapper.exports.added import added_exports, find_export
from mapper.exports.base import (
    CORE_OPTIONS,
    NEURON_OPTIONS,
    WIDTHS,
    MappedRun,
    MappingExporter,
    open_run,
)
from storage.plugins import EXPORTS as ADDED
from storage.plugins import known_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mapper.spiking.artifacts.folder import SpikingFolder

_TABLES = "mapper.exports.neuron_tables"
EXPORTS: dict[str, MappingExporter] = {
    exporter.name: exporter
    for exporter in (
        MappingExporter(
            "csv", "table with a row neuron,core,x,y per neuron", (".csv",), f"{_TABLES}:save_csv"
        ),
        MappingExporter(
            "parquet", "the same table as Parquet (needs pyarrow)", (".parquet", ".pq"),
            f"{_TABLES}:save_parquet",
        ),
        MappingExporter(
            "tables", "memory contents of the hardware's cores, as JSON", (".tables.json",),
            "mapper.exports.hardware:save", (*NEURON_OPTIONS, *CORE_OPTIONS),
            routers="routers of the hardware",
        ),
        MappingExporter(
            "json", "cores with their coordinates and neurons", (".json",), f"{_TABLES}:save_cores"
        ),
        MappingExporter(
            "npz", "NumPy arrays core, x, y", (".npz",), f"{_TABLES}:save_arrays"
        ),
        MappingExporter(
            "metis", "METIS graph, and its partition in NAME.part.K",
            (".graph", ".mgraph", ".metis"), f"{_TABLES}:save_partition",
        ),
        MappingExporter(
            "sanafe", "network and mapping for SANA-FE, and its chip in NAME.arch.yaml",
            (".yaml", ".yml"), "mapper.exports.sanafe:save", (*NEURON_OPTIONS, *WIDTHS),
        ),
        MappingExporter(
            "nir", "NIR graph: the mapped one, or one node per core (needs nir)", (".nir",),
            "mapper.exports.nir_graph:save", ("threshold", "graph", "magnitudes"),
        ),
        MappingExporter(
            "noxim", "traffic table of the simulator Noxim", (".noxim",),
            "mapper.exports.noxim:save", ("load_scale", "tick_cycles", "packets"), relays=True,
            routers="routers of Noxim",
        ),
    )
}  # fmt: skip
"""Formats by name; the first one with a matching extension is used."""

SPIKING_EXPORTS = {
    "tables": "mapper.exports.spiking_tables:save_spiking",
    "sanafe": "mapper.exports.spiking_sanafe:save_sanafe",
    "nir": "mapper.exports.spiking_nir:save_nir",
}
"""Formats of compiled spiking models, with module and function(folder, destination)."""


def choose_exporter(destination: Path, name: str | None = None) -> MappingExporter:
    """Return the exporter called `name`, or the one for the extension of the destination.

    Raises `UsageError` if there is none.
    """
    if name is not None:
        found = EXPORTS.get(name) or find_export(name)
        if found is None:
            raise UsageError(
                f"unknown mapping format {name!r}; choose one of {known_names(ADDED, EXPORTS)}"
            )
        return found
    for exporter in chain(EXPORTS.values(), added_mappings()):
        if destination.name.lower().endswith(exporter.extensions):
            return exporter
    known = known_names(ADDED, EXPORTS)
    raise UsageError(
        f"{destination}: unknown format for mappings; choose one with --format ({known})"
    )


def added_mappings() -> Iterator[MappingExporter]:
    """Yield the exporters of other packages; broken packages are reported as warnings."""
    return (each for each in added_exports() if each.name not in EXPORTS)


def export_mapping(
    run: MappedRun,
    destination: Path,
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a mapping in a format, a key of `EXPORTS`; None: chosen by the extension.

    options : by name, as in `mapper export`; None stands for an omitted option

    Returns facts about the written file. Raises `UsageError` for an option that the format does not
    have, `MapperError` or `StorageError` if the format cannot represent the mapping or the file
    cannot be written; no partial file remains then.
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
    exporter.require_routes(run.chip)
    return exporter.save(run, destination, given)


def export_spiking(folder: SpikingFolder, destination: Path, format: str) -> dict[str, Any]:
    """Write a compiled spiking model as `export_mapping` does; format : of `SPIKING_EXPORTS`."""
    EXPORTS[format].require_routes(folder.chip)
    module, _, name = SPIKING_EXPORTS[format].partition(":")
    facts: dict[str, Any] = getattr(import_module(module), name)(folder, destination)
    return facts


__all__ = [
    "CORE_OPTIONS",
    "EXPORTS",
    "SPIKING_EXPORTS",
    "MappedRun",
    "MappingExporter",
    "added_mappings",
    "choose_exporter",
    "export_mapping",
    "export_spiking",
    "open_run",
]
