"""The layers of BiRealNet-18 with random weights, in bits and in bytes.

Liu et al., Bi-Real Net, ECCV 2018: each 3x3 layer reads the signs of its map, is normalised, and
has its own shortcut, which is not binary. The first layer, the 1x1 layers of shortcuts that halve
the map, and the last layer are not binary either.
"""

from __future__ import annotations

from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.compiled import Compiled
from mapper.compiler.ir.graph import View
from mapper.compiler.ir.node import Add, Pool, Window
from mapper.compiler.ir.tensor import Pad
from tests.compiler.binary_networks import BinaryBuilder
from tests.compiler.programs import compiled

CORE = NpuShape(
    "roomy", map_vectors=1 << 16, weight_words=4096, parameter_words=1024, instructions=1 << 16
)
"""An `npu` with memory for whole layers; its throughput is unchanged."""
MOST_OPS = 600  # micro-ops per layer: a core has 1,024, for both halves of its buffers


class Layer(NamedTuple):
    """A 3x3 layer: channels, map size, and number of such layers."""

    inputs: int
    outputs: int
    size: int
    count: int

    @property
    def stride(self) -> int:
        return 1 if self.inputs == self.outputs else 2


LAYERS = [
    Layer(64, 64, 56, 4), Layer(64, 128, 56, 1), Layer(128, 128, 28, 3), Layer(128, 256, 28, 1),
    Layer(256, 256, 14, 3), Layer(256, 512, 14, 1), Layer(512, 512, 7, 3),
]  # fmt: skip


def parts_of(layer: Layer, vectors: int, most: int = MOST_OPS) -> int:
    """Return into how many parts by output channels a layer is split, so that its micro-ops fit.

    vectors : vectors per pixel of its map; most : micro-ops
    """
    return -(-layer.outputs // 16 * 9 * vectors // most)


def binary_layer(layer: Layer) -> tuple[int, Compiled]:
    """Return the cycles of a binary layer, from the end of the node that packs its map.

    Layers that do not halve the map add it in bytes, and pack the signs of the sum. Split layers
    add nothing.
    """
    parts = parts_of(layer, -(-layer.inputs // 128), MOST_OPS // 2)
    outputs = layer.outputs // parts
    whole = layer.stride == 1 and parts == 1
    build = BinaryBuilder(layer.size, layer.size, layer.inputs)
    window = Window((3, 3), (layer.stride,) * 2, Pad(1, 1, 1, 1))
    tensor = build.input
    for _ in range(2 if whole else 1):
        made = build.normalised(build.binary(build.sign(tensor), outputs, window), 1.0)
        tensor = build.like(Add(), made, tensor) if whole else made
    build.end(build.binary(build.sign(tensor), 16, Window((1, 1)), alpha=False))
    if layer.stride == 1:  # sums are also stored in bytes, for the next addition
        shape = (1, tensor.channels, tensor.height, tensor.width)
        build.graph.outputs["z"] = View(tensor, shape=shape)
    found = compiled(build, CORE).compiled
    return parts * _cycles(found, len(found.macros) - 2), found


def byte_layer(layer: Layer) -> int:
    """Return the cycles of the same layer in bytes; it adds like the binary layer, split layers do
    not.
    """
    parts = parts_of(layer, layer.inputs // 16)
    window = Window((3, 3), (layer.stride,) * 2, Pad(1, 1, 1, 1))
    build = BinaryBuilder(layer.size, layer.size, layer.inputs)
    made = build.normalised(build.conv(build.input, layer.outputs // parts, window), 1.0)
    whole = layer.stride == 1 and parts == 1
    build.end(build.like(Add(), made, build.input) if whole else made)
    found = compiled(build, CORE).compiled
    return parts * _cycles(found, len(found.macros) - 1)


def other_layers() -> int:
    """Return the cycles of layers that are equal in both: first layer, pooling, shortcuts, last
    layer.

    The first and the last layer run as four quarters, as they exceed the memories.
    """
    first = BinaryBuilder(112, 112, 3)
    tensor = first.relu(first.conv(first.input, 64, Window((7, 7), (2, 2), Pad(3, 3, 3, 3))))
    first.end(first.pool(tensor, Pool("max", Window((3, 3), (2, 2), Pad(1, 1, 1, 1)))))
    # separate pooling: overlapping windows in the same tile would be computed twice
    first.graph.outputs["z"] = View(tensor, shape=(1, 64, 56, 56))
    total = 4 * compiled(first, CORE).compiled.code.timeline.cycles
    two, whole = Window((2, 2), (2, 2)), Window((7, 7))
    for size, inputs, outputs, window in [
        *((layer.size, layer.inputs, layer.outputs, two) for layer in LAYERS if layer.stride == 2),
        (7, 512, 1000, whole),
    ]:
        parts = max(1, outputs // 128 if window is two else 4)
        build = BinaryBuilder(size, size, inputs)
        pooled = build.pool(build.input, Pool("average", window))
        build.end(build.conv(pooled, outputs // parts, Window((1, 1))))
        found = compiled(build, CORE).compiled
        total += _cycles(found, 0) + parts * _cycles(found, 1)
    return total


def _cycles(found: Compiled, number: int) -> int:
    """Return the cycles from the end of the previous macro node to the end of this one."""
    ends = [0, *found.code.ends]
    before = int(found.code.timeline.end[: ends[number]].max(initial=0))
    return int(found.code.timeline.end[: ends[number + 1]].max()) - before
