"""Program file of a core (.npc): instructions, small memories, weights, preset feature maps.

Sections: INFO (JSON: shape, core, functions, sizes); IM, instructions of 16 bytes; UM, micro-ops of
8 bytes; WM, weight words of rows x columns bytes; BM, parameter words of 16 x 4 bytes; XM, packet
headers of 8 bytes; FM, vectors that are set before the first frame, at the address runs listed in
INFO (preset: first, count).
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.npu.records import Program
from hw.npu.isa.encoding import decode, decode_micro_ops, decode_program
from hw.npu.isa.table import INSTRUCTION_BYTES, MICRO_OP_BYTES, Instruction
from mapper.compiler.program.sections import FileType, pack_sections, unpack_sections
from mapper.errors import MapperError
from mapper.monitoring.resources import default_memory
from storage.budget import require_room
from storage.jsontext import parse_json

MAGIC = b"NPUCORE"
HEADER_BYTES = 8
MOST_VECTORS = 1 << 32  # of external memory: addresses have 32 bits
PROGRAM = FileType(
    MAGIC, 1, "program of a core", ".npc", ("INFO", "IM", "UM", "WM", "BM", "XM", "FM")
)


class Image(NamedTuple):
    """Data that is loaded into a core.

    info : shape (fields of `NpuShape`), core (x, y), vectors of external memory, preset runs,
        words of the static weights, functions (first instruction and end of each)
    instructions, micro_ops, headers : encoded bytes
    weights : int8, shape (words, rows, columns)
    parameters : int32, shape (words, 16)
    maps : uint8, shape (vectors, columns), contents of the preset runs; all other memory is 0
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
        """Vectors of external memory, which is as large as the program needs; else 0."""
        return int(self.info.get("map_vectors", 0))

    @property
    def runs(self) -> list[tuple[int, int]]:
        """First address and length of each run of vectors that is set before the first frame."""
        return [(int(first), int(count)) for first, count in self.info.get("preset", [])]

    @property
    def preset(self) -> NDArray[np.int64]:
        """Addresses of the vectors that are set before the first frame."""
        runs = [np.arange(first, first + count) for first, count in self.runs]
        return np.concatenate([np.zeros(0, np.int64), *runs])

    @property
    def counts(self) -> dict[str, int]:
        """Contents of each memory, in its words; of the feature memory: vectors that are set."""
        return {
            "instructions": len(self.instructions) // INSTRUCTION_BYTES,
            "micro_ops": len(self.micro_ops) // MICRO_OP_BYTES,
            "weight_words": len(self.weights),
            "parameter_words": len(self.parameters),
            "headers": len(self.headers) // HEADER_BYTES,
            "preset_vectors": len(self.maps),
        }

    def decoded(self, where: str = "") -> list[Instruction]:
        """Return the instructions; where : prefix of the offset in errors"""
        data = self.instructions
        return [
            decode(data[at : at + INSTRUCTION_BYTES], f"{where}offset {at}")
            for at in range(0, len(data), INSTRUCTION_BYTES)
        ]

    def filled(self) -> NDArray[np.uint8]:
        """Return the memory up to the last preset vector, or the whole external memory.

        Raises `MemoryShortError` if it needs more than the memory budget.
        """
        places = self.preset
        size = max(int(places.max(initial=-1)) + 1, self.map_vectors)
        require_room(
            f"a feature memory of {size:,} vectors", size * self.maps.shape[1], default_memory()
        )
        found = np.zeros((size, self.maps.shape[1]), np.uint8)
        found[places] = self.maps
        return found


def pack_image(image: Image) -> bytes:
    """Return the bytes of a core's program file."""
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
    """Read the program from a file's bytes; where : file name for errors.

    Raises `MapperError` if the file is of another type or version, cut short or damaged.
    """
    parts = unpack_sections(PROGRAM, data, where)
    try:
        info = parse_json(parts["INFO"])
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
        count = len(made.maps)
        if made.map_vectors > MOST_VECTORS or len(parts["XM"]) % HEADER_BYTES:
            raise ValueError
        if any(first < 0 or size < 0 or first + size > MOST_VECTORS for first, size in made.runs):
            raise ValueError
        if sum(size for _, size in made.runs) != count:
            raise ValueError
        return made
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        raise MapperError(f"{where}: sections do not match the shape; compile again") from error


def program_of(image: Image, where: str) -> Program:
    """Return the decoded program of a core."""
    decoded = decode_program(image.instructions, where)
    headers = np.frombuffer(image.headers, "<u8").astype(np.uint64)
    return Program(
        op=decoded.op,
        kind=decoded.kind,
        wait=decoded.wait,
        signal=decoded.signal,
        fields=decoded.fields,
        micro_ops=decode_micro_ops(image.micro_ops, where),
        weights=image.weights,
        parameters=image.parameters,
        maps=image.filled(),
        headers=headers,
    )
