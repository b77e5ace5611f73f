"""A format, a placer, a chip and an export for mapper.

Importing this module reads no file and computes nothing: mapper does it to list the plugins. The
modules that do the work are named as texts, and imported on first use.
"""

from __future__ import annotations

from pathlib import Path

from mapper.extend import Exporter, FileFormat, Importer, MappingExporter

PAIRS = FileFormat(
    reader=Importer(
        "pairs",
        "binary records of source, target and weight",
        (".pairs",),
        "mapper_example.pairs",
        magic=b"PAIRS01\n",
    ),
    writer=Exporter(
        "pairs",
        "binary records of source, target and weight",
        (".pairs",),
        "mapper_example.pairs",
        holds=("directions", "fractions"),
    ),
)

EXAMPLE16 = Path(__file__).with_name("example16.toml")

OCCUPANCY = MappingExporter(
    "occupancy",
    "table with a row x,y,neurons per core",
    (".occupancy",),
    "mapper_example.occupancy:save",
)
