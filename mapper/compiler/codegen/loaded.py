"""Image of a core, from the output of code generation."""

from __future__ import annotations

from dataclasses import asdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.errors import HwError
from hw.npu.isa.encoding import encode_micro_ops, encode_program
from hw.npu.isa.table import Instruction
from mapper.compiler.codegen.macros.encode import Layers
from mapper.compiler.codegen.macros.file import require_canonical, unpack_layers
from mapper.compiler.codegen.program import host_words, linked_cores, steps_of
from mapper.compiler.program.image import Image
from mapper.compiler.program.links import NO_LINKS
from mapper.compiler.program.presets import Preset
from mapper.compiler.program.sections import split_files
from mapper.compiler.program.tables import Tables
from mapper.errors import MapperError

DAMAGE = (
    KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError, AssertionError,
    HwError,
)  # fmt: skip
"""Exceptions that inconsistent records may raise during code generation."""


class Loaded(NamedTuple):
    """spans : first instruction and end of each function, END included
    used : vectors of the feature maps, without the data stored after them
    """

    shape: NpuShape
    program: list[Instruction]
    spans: list[tuple[int, int]]
    tables: Tables
    preset: Preset
    used: int
    static_words: int

    def image(self, core: tuple[int, int]) -> Image:
        """Return the image of core (x, y)."""
        tables, shape = self.tables, self.shape
        external = max(self.used, self.preset.stop)
        info = {
            "shape": asdict(shape),
            "core": list(core),
            "functions": [list(span) for span in self.spans],
            "map_vectors": external if shape.map_vectors == 0 else 0,
            "preset": [list(one) for one in self.preset.runs],
            "static_words": self.static_words,
        }
        return Image(
            info,
            encode_program(self.program),
            encode_micro_ops(tables.micro_ops),
            np.array(tables.weights, np.int8).reshape(-1, shape.rows, shape.columns),
            np.array(tables.parameters, np.int64).astype(np.int32).reshape(-1, 16),
            np.array(tables.headers, "<u8").tobytes(),
            self.preset.vectors(shape.columns),
        )


class Remade(NamedTuple):
    """Result of compiling files of macro records.

    layers : contents of each file; images : images of the cores, in the same order
    words : weights that the host stores for them (weights.bin)
    """

    layers: list[Layers]
    images: list[Image]
    words: bytes


def images_of_records(data: bytes, where: str) -> Remade:
    """Generate the programs of concatenated files of macro records; where : file name for errors.

    Raises `MapperError` if the data is damaged or is not a valid program.
    """
    parts = split_files(data, where)
    layers = [unpack_layers(part, where) for part in parts]
    try:
        for one, part in zip(layers, parts, strict=True):
            require_canonical(part, one, where)
        return _made(layers, parts)
    except DAMAGE as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:80]
        raise MapperError(
            f"{where}: records are not a valid program ({said}); compile the model again"
        ) from error


def _made(layers: list[Layers], parts: list[bytes]) -> Remade:
    all_ = [steps_of(one, part) for one, part in zip(layers, parts, strict=True)]
    if len(layers) > 1 or layers[0].links != NO_LINKS:
        cores = [(one.core, made, one.links) for one, made in zip(layers, all_, strict=True)]
        all_ = [made for made, _ in linked_cores(cores)]
    images = []
    words: list[NDArray[np.int64]] = []
    for one, made in zip(layers, all_, strict=True):
        words += made.emitter.streams.words
        whole = [0, *made.ends]
        spans = [(whole[first], whole[stop]) for first, stop in one.functions]
        emitter = made.emitter
        loaded = Loaded(
            one.shape, made.program(spans), spans, emitter.tables, made.preset,
            emitter.area.first, one.memory.weights.static,
        )  # fmt: skip
        images.append(loaded.image(one.core))
    return Remade(layers, images, host_words(words, layers[0].shape).tobytes())
