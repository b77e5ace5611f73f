"""Mappings on disk: one core id per neuron, as npz (our own form) or csv (anyone's)."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chipsim.chip import Chip
from mapper.errors import MapperError
from storage.files import write_file


def save_mapping(path: Path, core: NDArray[np.int32], chip: Chip) -> None:
    """Write `mapping.npz`: `core`, `width`, `height`. Equal mappings give equal bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        core=core.astype(np.int32),
        width=np.int64(chip.width),
        height=np.int64(chip.height),
    )
    write_file(path, buffer.getvalue())


def save_csv(path: Path, core: NDArray[np.int32]) -> None:
    """Write one line `neuron,core` for each neuron, under a header."""
    buffer = io.BytesIO()
    table = np.column_stack([np.arange(core.size), core])
    np.savetxt(buffer, table, fmt="%d", delimiter=",", header="neuron,core", comments="")
    write_file(path, buffer.getvalue())


def load_mapping(path: Path, neurons: int, chip: Chip) -> NDArray[np.int32]:
    """Core ids, shape (neurons,), from npz or csv; raises `MapperError` if they do not belong.

    A csv file has one core id a line, in the order of the network, or lines `neuron,core` in any
    order; a header line is skipped.
    """
    if not path.is_file():
        raise MapperError(f"{path}: no such file; name a mapping (npz or csv)")
    core = _load_npz(path, chip) if zipfile.is_zipfile(path) else _load_csv(path, neurons)
    if core.shape != (neurons,):
        raise MapperError(
            f"{path}: maps {core.size} neurons, the network has {neurons}; "
            "use the mapping of this network"
        )
    wrong = np.flatnonzero((core < 0) | (core >= chip.cores))
    if wrong.size:
        raise MapperError(
            f"{path}: neuron {wrong[0]} is on core {core[wrong[0]]}, chip {chip.name} has cores "
            f"0..{chip.cores - 1}"
        )
    return core.astype(np.int32)


def _load_npz(path: Path, chip: Chip) -> NDArray[np.integer]:
    try:
        with np.load(path, allow_pickle=False) as file:
            core = file["core"]
            size = tuple(int(file[side]) for side in ("width", "height") if side in file)
    except Exception as error:  # numpy raises many kinds for a damaged archive
        raise MapperError(f"{path}: not a mapping: {error}") from error
    if not np.issubdtype(core.dtype, np.integer):
        raise MapperError(f"{path}: core ids are {core.dtype}; they must be whole numbers")
    if size and size != (chip.width, chip.height):
        raise MapperError(
            f"{path}: made for a {size[0]}x{size[1]} chip, not for {chip.width}x{chip.height}; "
            "give the chip it was made for"
        )
    return core


def _load_csv(path: Path, neurons: int) -> NDArray[np.integer]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise MapperError(f"{path}: cannot read: {error}") from error
    if not any(line.strip() for line in lines[1:]) and not lines[0].strip()[:1].isdigit():
        raise MapperError(f"{path}: holds no core ids; give one a line, or lines neuron,core")
    skip = 1 if lines[0].strip() and not lines[0].strip()[0].isdigit() else 0
    try:
        table = np.loadtxt(lines[skip:], dtype=np.int64, delimiter=",", ndmin=2)
    except ValueError as error:
        raise MapperError(f"{path}: not a csv of whole numbers: {error}") from error
    if table.shape[1] == 1:
        return table[:, 0]
    neuron, core = table[:, 0], table[:, 1]
    if neuron.size != neurons or not np.array_equal(np.sort(neuron), np.arange(neurons)):
        raise MapperError(f"{path}: does not name each of the neurons 0..{neurons - 1} once")
    ordered = np.empty(neurons, np.int64)
    ordered[neuron] = core
    return ordered
