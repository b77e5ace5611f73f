"""Mappings as tables of neurons: csv, Parquet, npz, JSON by core, and a partition for METIS.

Columns are neuron, core, x, y, and if the network has them id (in its source file), size, and the
number and name of the population. Relay neurons of split neurons and synapses are omitted
(`mapping.npz` of the output folder has relays). `mapper score` reads csv and npz.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.exports.base import MappedRun
from mapper.results.mapping_file import NAMES
from storage.csvcells import guarded
from storage.extras import require
from storage.files import PartialFile, commit_together, write_file
from storage.formats import EXPORTS
from storage.formats.sinks import TextSink
from storage.formats.text.export_metis import write
from storage.npz import npz_bytes
from storage.printable import plain

LINES = 1 << 16
"""Lines written at a time."""
ROWS = 1 << 20
"""Rows per row group of Parquet."""


def _write_lines(file: PartialFile, line: str, columns: Iterable[NDArray[Any]], rows: int) -> None:
    """Write a line per row; line : format of a row of the columns."""
    columns = list(columns)
    for start in range(0, rows, LINES):
        part = slice(start, start + LINES)
        found = zip(*(column[part].tolist() for column in columns), strict=True)
        file.write("".join(line % row for row in found).encode())


def save_csv(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write a header, then one line per neuron; the name of the population comes last."""
    table = run.columns()
    form = ["%d"] * len(table)
    if run.populations is not None:
        names = np.array([_cell(name) for name in run.populations.names], object)
        table[NAMES] = names[run.populations.of]
        form.append("%s")
    with PartialFile(destination) as file:
        file.write(f"{','.join(table)}\n".encode())
        _write_lines(file, ",".join(form) + "\n", table.values(), run.core.size)
        file.commit()
    return {"neurons": run.core.size, "columns": list(table)}


def _cell(name: str) -> str:
    """Return a name as a cell of a csv file, in one line."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow([guarded(plain(name))])
    return buffer.getvalue()


def save_parquet(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write the columns of the csv: neuron, id and size as int64; core, x and y as int32.

    Names of populations are a dictionary. The metadata `mapper.chip` has the fields of the chip as
    JSON. Needs pyarrow.
    """
    parquet = require("pyarrow.parquet", "formats", destination, "Parquet files")
    arrow = import_module("pyarrow")
    columns = run.columns()
    about = {"mapper.chip": json.dumps(run.chip.to_json())}
    if run.populations is not None:
        names = arrow.array(run.populations.names, arrow.string())
        columns[NAMES] = arrow.DictionaryArray.from_arrays(run.populations.of, names)
    table = arrow.table(columns).replace_schema_metadata(about)
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, row_group_size=ROWS)
    write_file(destination, buffer.getvalue())
    return {"neurons": run.core.size, "columns": list(columns)}


def save_arrays(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write the columns but the neuron as npz, the names of all populations, and width and height
    of the chip."""
    table = run.columns()
    del table["neuron"]
    if run.populations is not None:
        table["population_names"] = np.array(run.populations.names)
    sides = {"width": np.int64(run.chip.width), "height": np.int64(run.chip.height)}
    write_file(destination, npz_bytes({**table, **sides}))
    return {"neurons": run.core.size, "arrays": [*table, *sides]}


def save_cores(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write JSON: the chip, and the coordinates and neurons of every used core, one core per line.

    ::

        {"schema": 1, "chip": {...}, "network": {"path", "neurons", ...},
         "cores": [{"core": 5, "x": 1, "y": 1, "neurons": [0, 7]}, ...]}

    A core also has `ids` (in the source file of the network), `sizes` and `populations` of its
    neurons, numbers of the names in the list `populations` of the file.
    """
    order, ends = run.by_core()
    table = run.columns()
    named = ("id", "size", "population")
    extras = {f"{name}s": table[name] for name in named if name in table}
    used = np.flatnonzero(np.diff(ends)).tolist()
    head = {"schema": 1, "chip": run.chip.to_json(), "network": run.report["network"]}
    if run.populations is not None:
        head["populations"] = run.populations.names
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


def save_partition(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write the network as a METIS graph, and NAME.part.K with the core of each vertex.

    K is the number of cores of the chip, and parts are core ids: one line per vertex, the partition
    format of METIS. Unused cores are empty parts. Losses of the graph format, which
    `storage.formats.text.export_metis` lists, are returned as `losses`.
    """
    name = destination.name.removesuffix(".gz") + f".part.{run.chip.cores}"
    partition = destination.with_name(name)
    with TextSink(destination) as graph, PartialFile(partition) as file:
        losses = [*EXPORTS["metis"].losses(run.network), *write(run.network, graph)]
        _write_lines(file, "%d\n", [run.core], run.core.size)
        commit_together(file, graph)
    return {"partition": str(partition), "parts": run.chip.cores, "losses": losses}
