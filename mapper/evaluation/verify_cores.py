"""Independent reader of the mapping in an output folder: an archive, or a folder of ranges."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import CheckFailedError
from mapper.evaluation.verify_split import require_arrays
from storage.errors import BadInputError
from storage.files import read_input, require_file

Int64 = NDArray[np.int64]

ARCHIVE, RANGED = "mapping.npz", "mapping.json"
MOST_JSON_BYTES = 1 << 24  # bytes of mapping.json


def read_cores(folder: Path, chip: dict[str, Any], most: int) -> tuple[Int64, Path | None]:
    """Return core ids of all neurons, and the path of the table of helpers, if there may be one.

    most : limit of numbers per array. Raises `CheckFailedError`.
    """
    path = folder / RANGED
    if path.exists():
        return _read_ranges(path, chip, most)
    path = folder / ARCHIVE
    require_arrays(path, most)
    try:
        with np.load(path, allow_pickle=False) as file:
            core, size = file["core"], (int(file["width"]), int(file["height"]))
    except Exception as error:  # numpy raises many kinds for a damaged archive
        raise CheckFailedError(f"{path}: cannot be read: {error}") from error
    _require_chip(path, size, chip)
    if core.ndim != 1 or core.dtype.kind not in "iu":
        raise CheckFailedError(
            f"{path}: core is {core.dtype} of shape {core.shape}, expected a list of ids"
        )
    return core.astype(np.int64), path


def _require_chip(path: Path, size: tuple[int, int], chip: dict[str, Any]) -> None:
    if size != (chip["width"], chip["height"]):
        raise CheckFailedError(f"{path}: belongs to another chip than report.json")


def _read_ranges(path: Path, chip: dict[str, Any], most: int) -> tuple[Int64, Path | None]:
    try:
        about = json.loads(read_input(path, MOST_JSON_BYTES))
        neurons, step, helpers = (int(about[name]) for name in ("neurons", "range", "helpers"))
        size = int(about["width"]), int(about["height"])
        listed = [(int(file["bytes"]), int(file["crc32"])) for file in about["files"]]
        if step < 1 or len(listed) != -(-neurons // step):
            raise ValueError(f"it lists {len(listed)} files for {neurons} neurons")
    except Exception as error:  # also if it is not an object
        raise CheckFailedError(f"{path}: cannot be read: {error}") from error
    _require_chip(path, size, chip)
    folder = path.parent / "core"
    parts = [
        _read_range(folder / f"{index:05d}.npy", min(step, neurons - index * step), *file)
        for index, file in enumerate(listed)
    ]
    if not helpers:
        return np.concatenate([np.empty(0, np.int64), *parts]), None
    table = folder / "helpers.npz"
    require_arrays(table, most)
    return np.concatenate(parts), table


def _read_range(path: Path, neurons: int, size: int, crc32: int) -> Int64:
    try:
        found = require_file(path)
        ids = np.load(path, mmap_mode="r", allow_pickle=False)
    except BadInputError as error:
        raise CheckFailedError(str(error).replace("cannot read", "cannot be read")) from error
    except Exception as error:  # numpy raises many kinds for a damaged file
        raise CheckFailedError(f"{path}: cannot be read: {error}") from error
    if ids.dtype != np.dtype("<i4") or ids.shape != (neurons,):
        raise CheckFailedError(
            f"{path}: holds {ids.dtype} of shape {ids.shape}, not {neurons} core ids of 4 bytes"
        )
    if found != size or zlib.crc32(np.ascontiguousarray(ids).data) != crc32:
        raise CheckFailedError(f"{path}: is not what {RANGED} lists: its size or checksum differs")
    return ids.astype(np.int64)
