"""Mapping files: one core id per neuron, as npz, as csv, or in ranges for very many neurons.

`mapper.results.mapping_ranges` has the format in ranges.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from mapper.errors import MapperError
from mapper.limits.split_neurons import RelayNeurons
from mapper.results import mapping_ranges
from mapper.results.leading import leading_pairs
from mapper.results.mapping_ranges import (
    RANGED,
    helpers_path,
    load_ranges,
    read_index,
    save_ranges,
)
from storage.errors import BadInputError, reason_of
from storage.files import open_input, write_file
from storage.formats.text.reader import TextReader
from storage.formats.text.table import table_rows
from storage.npz import npz_bytes, open_arrays
from storage.printable import plain

MAPPING = "mapping.npz"
MANY = 1 << 16  # core ids that are read even if the network has fewer neurons
CSV = "csv"
NAMES = "population_name"  # a column of text, after the numbers
NAME_IT = ", or name another --format"  # advice of network readers; mappings have no --format


def save_mapping(
    path: Path, core: NDArray[np.int32], chip: Chip, relays: RelayNeurons | None = None
) -> None:
    """Write `mapping.npz`: `core`, `width`, `height`. Equal mappings give equal bytes.

    core : cores of the neurons, then of the relays. With relays, four more arrays of shape
        (relays,) are written: `helper_core`; `helper_neuron`, the neuron that the relay serves;
        `helper_first` and `helper_last`, the range of its source ids.
    """
    of_neurons, helpers = _parts(core, relays)
    size = {"width": np.int64(chip.width), "height": np.int64(chip.height)}
    write_file(path, npz_bytes({"core": of_neurons.astype(np.int32), **size, **helpers}))


def save_mapping_in(
    folder: Path, core: NDArray[np.int32], chip: Chip, relays: RelayNeurons | None = None
) -> None:
    """Write the mapping of an output folder; arguments as for `save_mapping`.

    Writes mapping.npz, or ranges if there are more neurons than `MOST_IN_ONE` of
    `mapper.results.mapping_ranges`.
    """
    of_neurons, helpers = _parts(core, relays)
    if of_neurons.size > mapping_ranges.MOST_IN_ONE:
        save_ranges(folder, of_neurons, (chip.width, chip.height), helpers)
        (folder / MAPPING).unlink(missing_ok=True)
    else:
        save_mapping(folder / MAPPING, core, chip, relays)
        (folder / RANGED).unlink(missing_ok=True)


def mapping_in(folder: Path) -> Path:
    """Return the mapping file of an output folder: mapping.json if it exists, else mapping.npz."""
    return folder / RANGED if (folder / RANGED).exists() else folder / MAPPING


def _parts(
    core: NDArray[np.int32], relays: RelayNeurons | None
) -> tuple[NDArray[np.int32], dict[str, NDArray[Any]]]:
    """Return the core ids of the neurons, and the table of relays, empty if there are none."""
    if relays is None or not relays.count:
        return core, {}
    neurons = core.size - relays.count
    return core[:neurons], {
        "helper_core": core[neurons:].astype(np.int32),
        "helper_neuron": relays.neuron,
        "helper_first": relays.first,
        "helper_last": relays.last,
    }


def load_relays(
    path: Path, chip: Chip, neurons: int, synapses: int
) -> tuple[RelayNeurons, NDArray[np.int32]] | None:
    """Return the relay neurons of a mapping and their cores, shape (relays,); None without relays.

    synapses : number of synapses of the network; each relay has at least one
    """
    form = _form(path)
    if form == CSV:
        return None
    if form == RANGED:
        if not read_index(path).helpers:
            return None
        path = helpers_path(path)
    try:
        with open_arrays(path, max(neurons, synapses)) as file:
            if "helper_core" not in file:
                return None
            names = ("neuron", "first", "last", "core")
            table = np.stack([file[f"helper_{name}"].astype(np.int64) for name in names])
    except Exception as error:  # numpy raises many kinds for a damaged archive
        raise MapperError(
            f"{path}: the table of relay neurons is damaged: {_reason(error)}"
        ) from error
    bounds = np.array([neurons, neurons, neurons, chip.cores])
    if table.ndim != 2 or (table < 0).any() or (table >= bounds[:, None]).any():
        raise MapperError(
            f"{path}: the table of relay neurons does not match this network and chip"
        )
    return RelayNeurons(*table[:3]), table[3].astype(np.int32)


def save_csv(path: Path, core: NDArray[np.int32]) -> None:
    """Write a header line and one line `neuron,core` per neuron."""
    buffer = io.BytesIO()
    table = np.column_stack([np.arange(core.size), core])
    np.savetxt(buffer, table, fmt="%d", delimiter=",", header="neuron,core", comments="")
    write_file(path, buffer.getvalue())


def load_mapping(
    path: Path, neurons: int, chip: Chip, called: Callable[[int], str] | None = None
) -> NDArray[np.int32]:
    """Read core ids, shape (neurons,), from npz, mapping.json or csv.

    called : function that returns the name of a neuron in messages

    Raises `MapperError` if they do not match the network and the chip.

    A csv file has one core id per line, in the order of the network, or lines `neuron,core` in any
    order; a header line is skipped.
    """
    form = _form(path)
    core = (
        _load_npz(path, chip, neurons) if form == MAPPING
        else _load_ranged(path, chip, neurons) if form == RANGED
        else _load_csv(path, neurons)
    )  # fmt: skip
    if core.shape != (neurons,):
        raise _of_another_network(path, core.size, neurons)
    wrong = np.flatnonzero((core < 0) | (core >= chip.cores))
    if wrong.size:
        name = f"neuron {wrong[0]}" if called is None else called(int(wrong[0]))
        raise MapperError(
            f"{path}: {name} is on core {core[wrong[0]]}, chip {chip.name} has cores "
            f"0..{chip.cores - 1}"
        )
    return core.astype(np.int32)


def _form(path: Path) -> str:
    """Return the format of a file by its first bytes; the file may be truncated."""
    try:
        with open_input(path) as file:
            start = file.read(2)
        return MAPPING if start == b"PK" else RANGED if start[:1] == b"{" else CSV
    except BadInputError as error:
        raise MapperError(f"{error}; name a mapping (npz, mapping.json or csv)") from error
    except OSError as error:
        raise MapperError(f"{path}: cannot read: {error.strerror or error}") from error


def _of_another_network(path: Path, found: int, neurons: int) -> MapperError:
    return MapperError(
        f"{path}: maps {found} neurons, the network has {neurons}; use the mapping of this network"
    )


def _require_chip(path: Path, size: tuple[int, ...], chip: Chip) -> None:
    if size and size != (chip.width, chip.height):
        raise MapperError(
            f"{path}: made for a {size[0]}x{size[1]} chip, not for {chip.width}x{chip.height}; "
            "give the chip that it was made for"
        )


def _load_ranged(path: Path, chip: Chip, neurons: int) -> NDArray[np.int32]:
    index = read_index(path)
    if index.neurons != neurons:
        raise _of_another_network(path, index.neurons, neurons)
    _require_chip(path, (index.width, index.height), chip)
    return load_ranges(path, index)


def _reason(error: Exception) -> str:
    """Return a numpy error as one short line."""
    return plain(reason_of(error))


def _load_npz(path: Path, chip: Chip, neurons: int) -> NDArray[np.integer]:
    try:
        # Read larger arrays as well, to report the number of neurons of another network.
        with open_arrays(path, max(MANY, 2 * neurons)) as file:
            core = file["core"]
            size = tuple(int(file[side]) for side in ("width", "height") if side in file)
    except Exception as error:  # numpy raises many kinds for a damaged archive
        raise MapperError(f"{path}: not a mapping: {_reason(error)}") from error
    if not np.issubdtype(core.dtype, np.integer):
        raise MapperError(f"{path}: core ids are {core.dtype}; they must be whole numbers")
    if len(size) == 1:
        raise MapperError(f"{path}: has only one of width and height; give both, or neither")
    _require_chip(path, size, chip)
    return core


def _load_csv(path: Path, neurons: int) -> NDArray[np.integer]:
    try:
        table = _read_csv(path, 2 * neurons + MANY)
    except BadInputError as error:
        reason = plain(str(error).removeprefix(f"{path}: ").removesuffix(NAME_IT))
        raise MapperError(f"{path}: not a csv of whole numbers: {reason}") from error
    if not table.size:
        raise MapperError(f"{path}: contains no core ids; give one per line, or lines neuron,core")
    if table.shape[1] == 1:
        return table[:, 0]
    neuron, core = table[:, 0], table[:, 1]
    if neuron.size != neurons or not np.array_equal(np.sort(neuron), np.arange(neurons)):
        raise MapperError(f"{path}: does not list each of the neurons 0..{neurons - 1} once")
    ordered = np.empty(neurons, np.int64)
    ordered[neuron] = core
    return ordered


def _read_csv(path: Path, most: int) -> NDArray[np.int64]:
    """Read the first one or two columns of whole numbers, shape (lines, 1 or 2).

    Raises `BadInputError` for other content, or more than `most` lines.
    """
    with TextReader(path, commas=b",", comments=b"#") as reader:
        line = reader.peek()
        if line is not None and NAMES in line.strip().split(","):
            return np.concatenate([np.empty((0, 2), np.int64), *leading_pairs(path, most)])
        if line is not None and not line[:1].isdigit() and line[:1] not in "+-":
            reader.next_line()  # the names of the columns
            line = reader.peek()
        columns = 1 if line is None else line.count(",") + 1
        parts, count = [np.empty((0, min(columns, 2)), np.int64)], 0
        for rows in table_rows(reader, columns):
            whole = [rows.whole(column) for column in range(min(columns, 2))]
            parts.append(np.column_stack(whole))
            count += rows.lines.size
            if count > most:
                raise BadInputError(f"{reader.where()}: more lines than the network has neurons")
        return np.concatenate(parts)
