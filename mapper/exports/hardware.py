"""Mappings as tables of the hardware's cores (docs/core.md): readable, and as words to load.

The file is one JSON object::

    {"schema": 2, "width": 4, "height": 4, "shape": {fields of hw.core.shape.CoreShape},
     "load_port": {"table": [0, 3], "address": [3, 9], "data": [12, 40]},
     "weights": "as stored", "left_out": {},
     "cores": [{"core": 0, "x": 0, "y": 0, "neurons": [...], "axons": [...], "fields": {...},
                "profiles": [...], "parameters": [...], "states": [...], "route_indptr": [...],
                "routes": [...], "lists": [...], "synapses": [...], "load": "0a3 1f0 ..."}, ...]}

`weights` and `left_out` describe the weights of the synapses, see `mapper.exports.synaptic`. The
lists are the fields of `hw.tables.CoreTables`, core by core in order of their ids. `load` has the
words for the load port in hexadecimal, in write order; `load_port` has the first bit and the width
of each field of such a word.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import to_builtins
from numpy.typing import NDArray

from hw.core.shape import CoreShape, DestinationTable
from hw.errors import HwError
from hw.tables import COLUMNS, ChipTables, CoreTables
from mapper.errors import MapperError
from mapper.exports.base import NEURON_OPTIONS, MappedRun
from mapper.exports.core_shape import core_shape, describe_mesh
from mapper.exports.hardware_network import core_network, tables_of
from mapper.exports.synaptic import synaptic_weights
from mapper.exports.tables_file import CoreTable, TableFields, TablesHead
from storage.files import PartialFile
from storage.store.populations import called

_LISTS = ("neurons", "axons", "profiles", "parameters", "states", "route_indptr", "routes",
          "lists", "synapses")  # fmt: skip


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write the tables of all cores.

    options : `NEURON_OPTIONS`, see `core_network`; axon_bits and fields of `CoreShape`, default: as
        `mapper hw` for the chip
    """
    given = dict(options)
    neuron = {name: given.pop(name) for name in NEURON_OPTIONS if name in given}
    axon_bits = describe_mesh(run.chip, 1, given.pop("axon_bits", None))["axon_bits"]
    shape = core_shape(run.chip, axon_bits, given)
    try:
        numbers = core_network(run.network, shape, neuron)
        tables = tables_of(run.folder, numbers.network, shape)
    except HwError as error:
        raise MapperError(f"{run.folder}: {error}") from error
    except MapperError as error:
        cause = error.__cause__
        if not isinstance(cause, HwError) or cause.neuron is None:
            raise
        name = called(run.network, cause.neuron)
        raise MapperError(str(error).replace(f"neuron {cause.neuron} ", f"{name} ")) from error
    weights = synaptic_weights(run.network, bool(neuron.get("magnitudes"))).weights
    words = write_tables(
        destination,
        tables,
        {
            "weights": weights,
            "left_out": {loss.kind: loss.count for loss in numbers.losses},
            "inputs": np.flatnonzero(numbers.inputs).tolist(),
        },
        lambda part: {"exponents": numbers.exponent[part.neurons].tolist()},
    )
    found = {"neurons": tables.neurons, "cores": len(tables.cores), "words": words}
    return found | {"weights": weights, "losses": list(numbers.losses)}


def write_tables(
    destination: Path,
    tables: ChipTables,
    about: dict[str, Any],
    scales: Callable[[CoreTables], dict[str, Any]],
) -> int:
    """Write the tables of all cores; return the number of words for their load ports.

    about : the fields of `TablesHead` that tables do not have
    scales : function from a core to its `exponents` or `scales`
    """
    shape = tables.shape
    head = TablesHead(
        schema=2,
        width=tables.width,
        height=tables.height,
        shape=asdict(shape),
        load_port={name: (field.offset, field.width) for name, field in shape.load},
        fields=TableFields(**{name: list(columns) for name, columns in COLUMNS.items()}),
        **about,
    )
    words = 0
    with PartialFile(destination) as file:
        file.write((json.dumps(to_builtins(head))[:-1] + ', "cores": [').encode())
        for core, part in enumerate(tables.cores):
            load = load_words(part, shape)
            words += load.size
            entry = CoreTable(
                core=core,
                x=core % tables.width,
                y=core // tables.width,
                **{name: getattr(part, name).tolist() for name in _LISTS},
                **scales(part),
                load=_hex(load, shape.load.size),
            )
            text = json.dumps(to_builtins(entry))
            file.write((",\n" if core else "\n").encode() + text.encode())
        file.write(b"\n]}\n")
        file.commit()
    return words


def load_words(tables: CoreTables, shape: CoreShape) -> NDArray[Any]:
    """Return the words for the load port of a core, in write order, shape (words,).

    ndarray of uint64, or of Python integers if they are wider.
    """
    kind: Any = np.uint64 if shape.load.size <= 64 else object

    def written(table: DestinationTable, address: Any, data: Any, rows: int) -> NDArray[Any]:
        word = {"table": int(table), "address": address, "data": data}
        return _pack(shape.load, word, rows, kind)

    parts = [written(DestinationTable.USED, 0, tables.used, 1)]
    for table, (layout, _) in shape.memories.items():
        if table == DestinationTable.SUMS:
            cleared = np.array(shape.sum_addresses(tables.used), np.int64)
            parts.append(written(table, cleared, 0, cleared.size))
        else:
            columns = tables.columns(table)
            rows = len(next(iter(columns.values())))
            data = _pack(layout, columns, rows, kind)
            parts.append(written(table, np.arange(rows), data, rows))
    return np.concatenate(parts)


def _pack(layout: Any, columns: dict[str, Any], rows: int, kind: Any) -> NDArray[Any]:
    """Pack values of fields into words of a layout, shape (rows,)."""
    words = np.zeros(rows, kind)
    for name, field in layout:
        values = np.broadcast_to(np.asarray(columns[name]), rows)
        words = words | _pack_one(values, field.offset, field.width, kind)
    return words


def _pack_one(values: NDArray[Any], offset: int, width: int, kind: Any) -> NDArray[Any]:
    """Return the lowest `width` bits of values, in two's complement, shifted by `offset`."""
    if kind is object:
        return (values.astype(object) & ((1 << width) - 1)) << offset
    mask = np.uint64((1 << width) - 1)
    return (values.astype(np.uint64) & mask) << np.uint64(offset)


def _hex(words: NDArray[Any], bits: int) -> str:
    """Format words in hexadecimal, padded to the digits of the layout, separated by spaces."""
    digits = -(-bits // 4)
    if words.dtype == object:
        return " ".join(f"{word:0{digits}x}" for word in words)
    raw = words.astype(">u8").tobytes().hex().encode()
    rows = np.frombuffer(raw, np.uint8).reshape(-1, 16)[:, 16 - digits :]
    spaced = np.column_stack([rows, np.full(len(rows), ord(" "), np.uint8)])
    return spaced.tobytes().decode().rstrip()
