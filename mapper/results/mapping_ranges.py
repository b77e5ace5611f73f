"""Mappings of very many neurons, as a folder of ranges::

    mapping.json      the index; it is written last
    core/00000.npy    core ids of the first `RANGE` neurons, int32 of shape (neurons,)
    core/00001.npy    ...
    core/helpers.npz  the table of relay neurons, if there are any

A single array would have to be compressed and decompressed as a whole: this needs more memory than
the rest of a run leaves, and many minutes of one thread.
"""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct, to_builtins
from numpy.typing import NDArray

from mapper.errors import MapperError
from storage.errors import BadInputError, reason_of
from storage.files import PartialFile, open_input, read_input, require_file, write_file, writing
from storage.jsontext import parse_json
from storage.npz import DAMAGE, npz_bytes
from storage.printable import plain
from storage.typed import Whole, convert

RANGED = "mapping.json"
FOLDER = "core"
HELPERS = "helpers.npz"
MOST_IN_ONE = 1 << 28
"""Maximum number of neurons of a mapping in one file."""
RANGE = 1 << 26
"""Neurons per range: 256 MiB."""
MOST_JSON_BYTES = 1 << 24  # bytes of mapping.json
WRITTEN_NEURONS = 1 << 22  # neurons per write


Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class RangeFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of core ids.

    bytes : size of the file
    crc32 : checksum of the ids, little-endian
    """

    bytes: Whole
    crc32: Whole


class RangedMapping(Struct, frozen=True):
    """The content of mapping.json: an index of the files in `core/`.

    width, height : size of the chip
    neurons : number of neurons without relay neurons
    helpers : number of relay neurons
    range : neurons per file, except the last
    """

    schema: Literal[1]
    width: Positive
    height: Positive
    neurons: Whole
    helpers: Whole
    range: Positive
    files: list[RangeFile]


def save_ranges(
    folder: Path, core: NDArray[np.int32], size: tuple[int, int],
    helpers: dict[str, NDArray[Any]],
) -> None:  # fmt: skip
    """Write the ranges, and then mapping.json, into the folder. Equal mappings give equal bytes.

    core : cores of the neurons, without relays
    size : width and height of the chip
    helpers : arrays of the table of relay neurons, each shape (helpers,); empty if there are none
    """
    ranges = folder / FOLDER
    (folder / RANGED).unlink(missing_ok=True)  # the index is now invalid
    with writing(ranges):
        ranges.mkdir(exist_ok=True)
    step = RANGE
    files = [
        _save_range(range_path(folder, index), core[first : first + step])
        for index, first in enumerate(range(0, core.size, step))
    ]
    count = 0
    if helpers:
        count = len(helpers["helper_core"])
        write_file(ranges / HELPERS, npz_bytes(helpers))
    index = RangedMapping(1, *size, core.size, count, step, files)
    write_file(folder / RANGED, (json.dumps(to_builtins(index), indent=1) + "\n").encode())


def range_path(folder: Path, index: int) -> Path:
    """Return the path of a range."""
    return folder / FOLDER / f"{index:05d}.npy"


def helpers_path(path: Path) -> Path:
    """Return the path of the table of relay neurons that belongs to a mapping.json."""
    return path.parent / FOLDER / HELPERS


def _save_range(path: Path, core: NDArray[np.int32]) -> RangeFile:
    head = io.BytesIO()
    about = {"descr": "<i4", "fortran_order": False, "shape": core.shape}
    np.lib.format.write_array_header_1_0(head, about)
    crc = 0
    with PartialFile(path) as file:
        file.write(head.getvalue())
        for first in range(0, core.size, WRITTEN_NEURONS):
            ids = core[first : first + WRITTEN_NEURONS].astype("<i4").tobytes()
            crc = zlib.crc32(ids, crc)
            file.write(ids)
        found = RangeFile(file.position, crc)
        file.commit()
    return found


def read_index(path: Path) -> RangedMapping:
    """Read mapping.json; raises `MapperError`."""
    try:
        index = convert(parse_json(read_input(path, MOST_JSON_BYTES)), RangedMapping)
        count = -(-index.neurons // index.range)
        if len(index.files) != count:
            raise ValueError(
                f"lists {len(index.files)} files, but {index.neurons} neurons need {count}"
            )
    except BadInputError as error:
        raise MapperError(f"{error}; name a mapping (npz, {RANGED} or csv)") from error
    except ValueError as error:
        raise MapperError(f"{path}: not a mapping: {plain(str(error))}") from error
    return index


def load_ranges(path: Path, index: RangedMapping) -> NDArray[np.int32]:
    """Read the core ids of all neurons, shape (neurons,).

    Raises `MapperError` for a range that is missing or differs from its entry in mapping.json.
    """
    paths = [range_path(path.parent, number) for number in range(len(index.files))]
    for one, file in zip(paths, index.files, strict=True):
        _require_size(one, file)
    if sum(file.bytes for file in index.files) < 4 * index.neurons:  # before allocating the array
        raise MapperError(f"{path}: not a mapping: its files are too short for all neurons")
    core = np.empty(index.neurons, "<i4")
    for number, (one, file) in enumerate(zip(paths, index.files, strict=True)):
        _load_range(one, file, core[number * index.range : (number + 1) * index.range])
    return core.astype(np.int32, copy=False)


def _require_size(path: Path, listed: RangeFile) -> None:
    try:
        size = require_file(path)
    except BadInputError as error:
        raise MapperError(f"{error}; it is listed in {RANGED}: copy the whole folder") from error
    if size != listed.bytes:
        raise _damaged(path, f"has {size} bytes, but {listed.bytes} in {RANGED}")


def _load_range(path: Path, listed: RangeFile, core: NDArray[np.int32]) -> None:
    """Fill ``core`` from a file, checking its shape, type and checksum."""
    crc = 0
    try:
        with open_input(path) as file:
            if np.lib.format.read_magic(file) != (1, 0):
                raise ValueError("the npy version is not 1.0")
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if shape != core.shape or dtype != core.dtype:
                raise ValueError(
                    f"the array is {dtype} of shape {shape}, not {core.dtype} of {core.shape}"
                )
            for first in range(0, core.size, WRITTEN_NEURONS):
                piece = core[first : first + WRITTEN_NEURONS]
                ids = file.read(piece.nbytes)
                piece[:] = np.frombuffer(ids, core.dtype)
                crc = zlib.crc32(ids, crc)
    except BadInputError as error:
        raise MapperError(str(error)) from error
    except OSError as error:
        raise MapperError(f"{path}: cannot read: {error.strerror or error}") from error
    except DAMAGE as error:
        raise _damaged(path, plain(reason_of(error))) from error
    if crc != listed.crc32:
        raise _damaged(path, f"its checksum differs from {RANGED}")


def _damaged(path: Path, reason: str) -> MapperError:
    return MapperError(f"{path}: damaged: {reason}; copy the folder again, or map again")
