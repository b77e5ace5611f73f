"""Generated code of a core, with the data that it was generated from, and its image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from chipsim.npu.arrivals import HostLink
from chipsim.npu.cycles import Timeline
from hw.errors import HwError
from hw.npu.isa.encoding import (
    encode,
    encode_micro_op,
    encode_micro_ops,
    encode_program,
)
from hw.npu.isa.table import Instruction
from mapper.compiler.codegen.macros.encode import Layers
from mapper.compiler.codegen.macros.file import require_canonical, unpack_layers
from mapper.compiler.codegen.program import Emitted, Tiling, host_words, linked_cores, steps_of
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import Region, pixel_vectors
from mapper.compiler.program.image import Image
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import NO_LINKS, CoreLinks, Place
from mapper.compiler.program.presets import Preloaded, Preset
from mapper.compiler.program.sections import split_files
from mapper.compiler.program.steps import Step
from mapper.compiler.program.tables import Tables
from mapper.compiler.tiling.units import timeline_of_functions
from mapper.errors import MapperError


class Lying(NamedTuple):
    """A feature map of the model, or a part of it, in the memory of a core.

    tensor : tensor of the graph
    region : its memory region, whose tensor has the size of the part
    rows, channels : extent of the part
    least : columns that a ring needs; 0 for a whole map
    """

    tensor: Tensor
    region: Region
    rows: Span
    channels: Span
    least: int = 0

    @classmethod
    def whole(cls, region: Region) -> Lying:
        tensor = region.tensor
        return cls(tensor, region, Span(0, tensor.height), Span(0, tensor.channels))

    def cells(self, columns: int) -> NDArray[np.int64]:
        """Return the addresses of its vectors. columns : bytes per vector"""
        region, tensor = self.region, self.region.tensor
        if tensor.planes:
            return np.arange(region.first, region.first + region.vectors)
        rows, pixels = np.arange(tensor.height)[:, None, None], np.arange(tensor.width)[:, None]
        each = pixel_vectors(tensor, columns) // (2 if region.high else 1)
        low = region.vector(rows, pixels, np.arange(each)).ravel()
        return np.concatenate([low, low + region.high]) if region.high else low


@dataclass(slots=True)
class CoreCode:
    """A core's program.

    numbers : index in the model of the macro node of each layer; macros : its layers
    maps : feature maps in its memory; used : vectors that they occupy
    steps, program : one instruction per step; records : file of the macro records they come from
    ends : number of instructions up to the end of each layer
    spans : first instruction and end of each function, END included
    link : timing of the host's weights
    in_order : tiles of different layers alternate; all layers end with the program
    tiling : result of the search for tiles, if there was one
    """

    place: Place
    numbers: list[int]
    macros: list[Macro]
    maps: list[Lying]
    used: int
    static_words: int
    tables: Tables
    preset: Preset
    steps: list[Step]
    program: list[Instruction]
    records: bytes
    ends: list[int]
    spans: list[tuple[int, int]]
    links: CoreLinks = field(default_factory=lambda: NO_LINKS)
    link: HostLink | None = None
    in_order: bool = False
    tiling: Tiling | None = None
    _timeline: Timeline | None = None

    @classmethod
    def of(
        cls, place: Place, layers: tuple[list[int], list[Macro]], maps: tuple[list[Lying], int],
        static_words: int, made: Emitted, code: tuple[list[Instruction], list[tuple[int, int]]],
        links: CoreLinks = NO_LINKS, link: HostLink | None = None,
    ) -> CoreCode:  # fmt: skip
        """layers : numbers and macro nodes; maps : feature maps and the vectors they occupy
        code : program and spans of its functions; link : timing of the host's weights"""
        return cls(
            place, *layers, *maps, static_words, made.emitter.tables, made.preset,
            made.emitter.steps, code[0], made.records, made.ends, code[1], links, link,
            made.in_order, made.tiling,
        )  # fmt: skip

    @property
    def timeline(self) -> Timeline:
        """Timing of a frame if nothing from other cores delays it."""
        if self._timeline is None:
            before = Preloaded.of(self.tables, self.preset)
            code = self.program, self.spans
            self._timeline = timeline_of_functions(*code, self.tables.shape, before, self.link)
        return self._timeline

    @property
    def regions(self) -> dict[Tensor, Region]:
        """Regions by tensor of the model; split tensors have several, of which one is returned."""
        return {one.tensor: one.region for one in self.maps}

    def image(self) -> Image:
        """Return the image that is loaded into the core before its first frame."""
        code, sizes = (self.program, self.spans), (self.used, self.static_words)
        return _image(self.place, code, self.tables, self.preset, sizes)


DAMAGE = (
    KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError, AssertionError,
    HwError,
)  # fmt: skip
"""Exceptions that inconsistent records may raise during code generation."""


def _image(
    core: Place, code: tuple[list[Instruction], list[tuple[int, int]]], tables: Tables,
    preset: Preset, sizes: tuple[int, int],
) -> Image:  # fmt: skip
    """Return the image of a core.

    code : program, and first instruction and end of each function, END included
    sizes : vectors of the feature maps, without the data stored after them; static weight words
    """
    (program, spans), (used, static_words), shape = code, sizes, tables.shape
    external = max(used, preset.stop)
    info = {
        "shape": asdict(shape),
        "core": list(core),
        "functions": [list(span) for span in spans],
        "map_vectors": external if shape.map_vectors == 0 else 0,
        "preset": [list(one) for one in preset.runs],
        "static_words": static_words,
    }
    return Image(
        info,
        _encoded(_instruction_bytes, program, encode_program),
        _encoded(_micro_op_bytes, tables.micro_ops, encode_micro_ops),
        np.array(tables.weights, np.int8).reshape(-1, shape.rows, shape.columns),
        np.array(tables.parameters, np.int64).astype(np.int32).reshape(-1, 16),
        np.array(tables.headers, "<u8").tobytes(),
        preset.vectors(shape.columns),
    )


T = TypeVar("T")


def _encoded(
    encode_one: Callable[[T], bytes], parts: Sequence[T], encode_all: Callable[[Sequence[T]], bytes]
) -> bytes:
    """Return the bytes of instructions or micro-ops; most of them were encoded before, for other
    cuts."""
    try:
        return b"".join(map(encode_one, parts))
    except HwError:
        return encode_all(parts)  # its error has the number


def _instruction_bytes(one: Instruction) -> bytes:
    return _bytes_of_fields(*one[:4], tuple(one.fields.items()))


@lru_cache(1 << 16)
def _bytes_of_fields(
    op: str, kind: str, wait: int, signal: int, fields: tuple[tuple[str, int], ...]
) -> bytes:
    return encode(Instruction(op, kind, wait, signal, dict(fields)))


_micro_op_bytes = lru_cache(1 << 16)(encode_micro_op)


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
        code = made.program(spans), spans
        sizes = emitter.area.first, one.memory.weights.static
        images.append(_image(one.core, code, emitter.tables, made.preset, sizes))
    return Remade(layers, images, host_words(words, layers[0].shape).tobytes())
