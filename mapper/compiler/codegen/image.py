"""The program of a core as a file (.npc): instructions, small memories, weights, preset maps.

Sections: INFO (JSON: shape, core, functions, sizes), IM instructions of 16 bytes, UM micro-ops of
8, WM weight words of rows x columns bytes, BM parameter words of 16 x 4 bytes, XM packet headers of
8, FM vectors that are set before the first frame, at the runs of addresses that INFO names (preset:
first, number).
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.codegen.sections import Sort, pack_sections, unpack_sections
from mapper.errors import MapperError

MAGIC = b"NPUCORE"
PROGRAM = Sort(MAGIC, 1, "program of a core", ".npc", ("INFO", "IM", "UM", "WM", "BM", "XM", "FM"))


class Image(NamedTuple):
    """What is loaded into a core.

    info : shape (fields of `NpuShape`), core (x, y), vectors of external memory, runs that are
        preset, words of the static weights, functions (of each the first instruction and the one
        behind the last)
    instructions, micro_ops, headers : as encoded
    weights : int8, shape (words, rows, columns)
    parameters : int32, shape (words, 16)
    maps : uint8, shape (vectors, columns), of the runs of addresses that info names; the rest of
        the memory is 0
    """

    info: dict[str, Any]
    instructions: bytes
    micro_ops: bytes
    weights: NDArray[np.int8]
    parameters: NDArray[np.int32]
    headers: bytes
    maps: NDArray[np.uint8]

    @property
    def map_vectors(self) -> int:
        """Of external memory, which is as large as the program needs."""
        return int(self.info.get("map_vectors", 0))

    @property
    def runs(self) -> list[tuple[int, int]]:
        """First address and number of the vectors that are set before the first frame."""
        return [(int(first), int(count)) for first, count in self.info.get("preset", [])]

    @property
    def preset(self) -> NDArray[np.int64]:
        """Addresses of the vectors that are set before the first frame."""
        runs = [np.arange(first, first + count) for first, count in self.runs]
        return np.concatenate([np.zeros(0, np.int64), *runs])

    def filled(self) -> NDArray[np.uint8]:
        """The memory up to the last vector that is set, or that external memory has."""
        places = self.preset
        size = max(int(places.max(initial=-1)) + 1, self.map_vectors)
        found = np.zeros((size, self.maps.shape[1]), np.uint8)
        found[places] = self.maps
        return found


def pack_image(image: Image) -> bytes:
    """The file of a core's program."""
    parts = {
        "INFO": json.dumps(image.info, sort_keys=True).encode(),
        "IM": image.instructions,
        "UM": image.micro_ops,
        "WM": image.weights.astype("<i1").tobytes(),
        "BM": image.parameters.astype("<i4").tobytes(),
        "XM": image.headers,
        "FM": image.maps.tobytes(),
    }
    return pack_sections(PROGRAM, parts)


def unpack_image(data: bytes, where: str) -> Image:
    """The program in a file's bytes; where : the file, for errors.

    Raises `MapperError` if it is no such file, of another version, cut short or damaged.
    """
    parts = unpack_sections(PROGRAM, data, where)
    try:
        info = json.loads(parts["INFO"])
        rows, columns = int(info["shape"]["rows"]), int(info["shape"]["columns"])
        made = Image(
            info,
            parts["IM"],
            parts["UM"],
            np.frombuffer(parts["WM"], np.int8).reshape(-1, rows, columns),
            np.frombuffer(parts["BM"], "<i4").reshape(-1, 16).astype(np.int32),
            parts["XM"],
            np.frombuffer(parts["FM"], np.uint8).reshape(-1, columns),
        )
        if len(made.preset) != len(made.maps):
            raise ValueError
        return made
    except (KeyError, TypeError, ValueError) as error:
        raise MapperError(f"{where}: its sections do not fit its shape; compile again") from error
