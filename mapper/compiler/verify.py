"""Checks a compiled folder: hashes, checksums, and the addresses and tokens of every program, and
those of its listing of loops, if it has one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.loops.check import check_listing
from mapper.compiler.manifest import LOOPS, MOST_JSON, CompiledFolder
from mapper.compiler.memory.checker import check_image
from mapper.errors import CheckFailedError
from storage.files import read_input


def vectors_in(one: dict[str, Any]) -> NDArray[np.int64]:
    """The addresses of a map of the manifest."""
    if one["planes"]:
        return np.arange(one["address"], one["address"] + int(one["vectors"]))
    _, rows, columns, _ = one["shape"]
    row, pixel = one["strides"]
    blocks = one["vectors"] // (rows * columns)
    found = np.arange(rows)[:, None, None] * row + np.arange(columns)[:, None] * pixel
    return (one["address"] + found + np.arange(blocks)).ravel()


def _presets(folder: CompiledFolder, place: tuple[int, int]) -> list[NDArray[np.int64]]:
    """The addresses of a core that the host writes before each function."""
    maps = {one["name"]: one for one in folder.manifest["maps"] if tuple(one["core"]) == place}
    return [
        np.concatenate(
            [np.zeros(0, np.int64)]
            + [vectors_in(maps[name]) for name in one["inputs"] if name in maps]
        )
        for one in folder.manifest["functions"]
    ]


def verify_compiled(folder: CompiledFolder) -> dict[str, Any]:
    """What was checked; raises `CheckFailedError` that names program and instruction."""
    shape = NpuShape(**folder.manifest["shape"])
    instructions = 0
    for place, image in folder.images.items():
        where = str(folder.path / f"core_{place[0]}_{place[1]}.npc")
        if image.info["shape"] != folder.manifest["shape"]:
            raise CheckFailedError(f"{where}: made for another shape than that of the manifest")
        instructions += check_image(image, shape, _presets(folder, place), where)
        listing = folder.path / LOOPS / f"core_{place[0]}_{place[1]}.txt"
        if listing.is_file():
            text = read_input(listing, MOST_JSON).decode("ascii", "replace")
            check_listing(text, image, str(listing))
    return {
        "cores": len(folder.images),
        "instructions": instructions,
        "maps": len(folder.manifest["maps"]),
    }
