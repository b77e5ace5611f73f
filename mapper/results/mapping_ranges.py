"""Mappings of very many neurons, as a folder of ranges::

    mapping.json      what there is; it is written last
    core/00000.npy    core ids of the first `RANGE` neurons, int32 of shape (neurons,)
    core/00001.npy    ...
    core/helpers.npz  the table of relay neurons, if there are any

One array of all neurons would have to be packed and unpacked in one piece: more memory than the
rest of a run has left, and one thread for many minutes.
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
from storage.errors import BadInputError
from storage.files import PartialFile, open_input, read_input, require_file, write_file, writing
from storage.formats.base import plain
from storage.jsontext import parse_json
from storage.typed import Whole, convert

RANGED = "mapping.json"
FOLDER = "core"
HELPERS = "helpers.npz"
MOST_IN_ONE = 1 << 28
"""Neurons of a mapping in one file, at most."""
RANGE = 1 << 26
"""Neurons of a range: 256 MiB."""
LARGEST = 1 << 24  # bytes of mapping.json
PIECE = 1 << 22  # neurons that are written at a time


Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class RangeFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of core ids. bytes : of the file; crc32 : of the ids, little-endian"""

    bytes: Whole
    crc32: Whole


class RangedMapping(Struct, frozen=True):
    """What mapping.json says of the files in `core/`.

    width, height : of the chip; neurons : without relay neurons, of which there are `helpers`
    range : neurons of each file but the last
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

    core : of the neurons alone; size : width and height of the chip
    helpers : arrays of the table of relay neurons, each shape (helpers,); empty if there are none
    """
    ranges = folder / FOLDER
    (folder / RANGED).unlink(missing_ok=True)  # what is there is no longer what it says
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
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **helpers)
        write_file(ranges / HELPERS, buffer.getvalue())
    index = RangedMapping(1, *size, core.size, count, step, files)
    write_file(folder / RANGED, (json.dumps(to_builtins(index), indent=1) + "\n").encode())


def range_path(folder: Path, index: int) -> Path:
    """The file of a range."""
    return folder / FOLDER / f"{index:05d}.npy"


def helpers_path(path: Path) -> Path:
    """The table of relay neurons beside a mapping.json."""
    return path.parent / FOLDER / HELPERS


def _save_range(path: Path, core: NDArray[np.int32]) -> RangeFile:
    head = io.BytesIO()
    about = {"descr": "<i4", "fortran_order": False, "shape": core.shape}
    np.lib.format.write_array_header_1_0(head, about)
    crc = 0
    with PartialFile(path) as file:
        file.write(head.getvalue())
        for first in range(0, core.size, PIECE):
            ids = core[first : first + PIECE].astype("<i4").tobytes()
            crc = zlib.crc32(ids, crc)
            file.write(ids)
        found = RangeFile(file.position, crc)
        file.commit()
    return found


def read_index(path: Path) -> RangedMapping:
    """What mapping.json says; raises `MapperError`."""
    try:
        index = convert(parse_json(read_input(path, LARGEST)), RangedMapping)
        count = -(-index.neurons // index.range)
        if len(index.files) != count:
            raise ValueError(
                f"lists {len(index.files)} files, {index.neurons} neurons have {count}"
            )
    except BadInputError as error:
        raise MapperError(f"{error}; name a mapping (npz, {RANGED} or csv)") from error
    except ValueError as error:
        raise MapperError(f"{path}: not a mapping: {plain(str(error))}") from error
    return index


def load_ranges(path: Path, index: RangedMapping) -> NDArray[np.int32]:
    """Core ids of all neurons, shape (neurons,).

    Raises `MapperError` for a range that is missing, or is not what mapping.json says of it.
    """
    paths = [range_path(path.parent, number) for number in range(len(index.files))]
    for one, file in zip(paths, index.files, strict=True):
        _require_size(one, file)
    if sum(file.bytes for file in index.files) < 4 * index.neurons:  # before there is room for all
        raise MapperError(f"{path}: not a mapping: its files are too short for its neurons")
    core = np.empty(index.neurons, "<i4")
    for number, (one, file) in enumerate(zip(paths, index.files, strict=True)):
        _load_range(one, file, core[number * index.range : (number + 1) * index.range])
    return core.astype(np.int32, copy=False)


def _require_size(path: Path, listed: RangeFile) -> None:
    try:
        size = require_file(path)
    except BadInputError as error:
        raise MapperError(f"{error}; {RANGED} lists it: copy the whole folder") from error
    if size != listed.bytes:
        raise _damaged(path, f"has {size} bytes, {RANGED} says {listed.bytes}")


def _load_range(path: Path, listed: RangeFile, core: NDArray[np.int32]) -> None:
    """Fill ``core`` from a file."""
    crc = 0
    try:
        with open_input(path) as file:
            if np.lib.format.read_magic(file) != (1, 0):
                raise ValueError("it is not of version 1.0")
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if shape != core.shape or dtype != core.dtype:
                raise ValueError(
                    f"it is {dtype} of shape {shape}, not {core.dtype} of {core.shape}"
                )
            for first in range(0, core.size, PIECE):
                piece = core[first : first + PIECE]
                ids = file.read(piece.nbytes)
                piece[:] = np.frombuffer(ids, core.dtype)
                crc = zlib.crc32(ids, crc)
    except BadInputError as error:
        raise MapperError(str(error)) from error
    except OSError as error:
        raise MapperError(f"{path}: cannot read: {error.strerror or error}") from error
    except ValueError as error:
        raise _damaged(path, plain(" ".join(str(error).split())[:120])) from error
    if crc != listed.crc32:
        raise _damaged(path, f"its checksum is not that of {RANGED}")


def _damaged(path: Path, reason: str) -> MapperError:
    return MapperError(f"{path}: damaged: {reason}; copy the folder again, or map again")
