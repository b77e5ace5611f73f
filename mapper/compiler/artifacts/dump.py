"""Write all stored maps of a compiled model's frames to files.

Each map is read from a core's memory by its base, sizes and strides, right after its layer has run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mapper.compiler.artifacts.simulate import Compared, Machine, Maps
from storage.errors import write_error
from storage.files import write_file

TENSORS, SCHEMA = "tensors.json", 1
TYPES = {1: np.int8, 8: np.int8, 16: np.int16, 32: np.int32}
"""By the bits of a map; one bit stands for +1 or -1."""


OF_ALL = ("name", "bits", "planes", "owner", "scale", "zero_point")
"""Fields that all parts of a map share."""


class Dump:
    """A folder of maps: N.npy, shape (frames, rows, columns, channels), and tensors.json.

    tensors.json describes each map, the memory places of its parts, and its comparison with the
    reference.
    """

    def __init__(self, folder: Path, machine: Machine, frames: int) -> None:
        """Create the files; raise `WriteError` if the folder cannot be written, like the other
        methods.
        """
        self.folder, self.machine = folder, machine
        names = [name for one in machine.functions for name in one["inputs"]]
        names += [layer["map"] for layer in machine.layers]
        self.files = {name: f"{at}.npy" for at, name in enumerate(dict.fromkeys(names))}
        self.arrays: dict[str, Any] = {}
        for name, file in self.files.items():
            one = machine.parts(name)[0]
            shape = (frames, *one["whole"][1:])
            try:
                self.arrays[name] = np.lib.format.open_memmap(
                    folder / file, "w+", np.dtype(TYPES[one["bits"]]), shape
                )
            except OSError as error:
                raise write_error(folder / file, error) from error

    def from_frame(self, first: int) -> Callable[[int, Maps], None]:
        """Return a function that stores the maps of a frame, given its number relative to
        `first`."""

        def take(number: int, maps: Maps) -> None:
            for name, data in maps.items():
                self.arrays[name][first + number] = data[0]

        return take

    def finish(self, compared: Sequence[Compared]) -> None:
        """Write tensors.json. compared : each layer, over all frames"""
        for array in self.arrays.values():
            array.flush()
        layers = {one.name: one for one in compared}
        nodes = {layer["map"]: layer["nodes"] for layer in self.machine.layers}
        tensors = []
        for name, file in self.files.items():
            parts, layer = self.machine.parts(name), layers.get(name)
            tensors.append(
                {
                    **{key: parts[0][key] for key in OF_ALL},
                    "shape": parts[0]["whole"],
                    "parts": [{key: one[key] for key in one if key not in OF_ALL} for one in parts],
                    "file": file,
                    "nodes": nodes.get(name, []),
                    "elements": layer.elements if layer else None,
                    "differences": layer.differences if layer else None,
                }
            )
        text = json.dumps({"schema": SCHEMA, "tensors": tensors}, indent=1)
        write_file(self.folder / TENSORS, (text + "\n").encode())
