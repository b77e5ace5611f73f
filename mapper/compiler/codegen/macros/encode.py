"""Layers of a core, and their encoding as macro records and their pool."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.shape import PARAMETER_LANES
from mapper.compiler.codegen.builder import Choices, MemoryPlan
from mapper.compiler.codegen.kernels import kernel_words, stored_bias
from mapper.compiler.codegen.macros.layout import BEHIND, NOWHERE, OPS, encode_record, flags_of
from mapper.compiler.codegen.macros.operators import TYPES, add_item, items_of, op_of, window_fields
from mapper.compiler.codegen.macros.pool import Item, Sort, encode_items, filled, halves
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import TWO_MAPS, Add, Conv, Node, Pool, Requantise, Upsample
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.program.inputs import constants_of
from mapper.compiler.program.links import KINDS, NO_LINKS, CoreLinks
from mapper.compiler.program.presets import Preset
from mapper.compiler.tiling.tiles import Cut, headers_of_cut

EDGES = ("", "rows", "all")


class Encoded(NamedTuple):
    """Encoded layers.

    records : 64 bytes each; pool : int32
    words : weight words in canonical order, int8, shape (words, rows, columns)
    """

    records: bytes
    pool: NDArray[np.int32]
    words: NDArray[np.int8]
    names: list[str]


def encode_layers(layers: Layers) -> Encoded:
    """Encode layers; raises `MapperError` that names the layer of a number that is too large."""
    writer = _Writer(layers)
    for number, (macro, cut) in enumerate(zip(layers.macros, layers.cuts, strict=True)):
        writer.add(number, macro, cut)
    rows, columns = layers.shape.rows, layers.shape.columns
    empty = np.zeros((0, rows, columns), np.int8)
    return Encoded(
        b"".join(writer.records),
        np.array(writer.pool, np.int64).astype(np.int32),
        np.concatenate([empty, *writer.words]),
        list(writer.names),
    )


class _Writer:
    """Collects records; words : weight words of each output block."""

    def __init__(self, layers: Layers) -> None:
        self.layers = layers
        self.records: list[bytes] = []
        self.pool: list[int] = []
        self.words: list[NDArray[np.int8]] = []
        self.names: dict[str, int] = {}
        self._taken = self._headers = 0

    def add(self, number: int, macro: Macro, cut: Cut) -> None:
        """Add the records of a layer: its nodes, and the side node that packs bits."""
        for at, node in enumerate(macro.nodes):
            values, items = self._node(macro, node)
            values["layer"] = number
            if at == 0:
                items.append(_cut_item(cut))
                if macro.words is not None:
                    items.append(Item(Sort.WORDS, (macro.words,)))
                self._first(macro, cut, number, values, items)
            if node is macro.nodes[-1]:
                self._last(macro, values, items)
            self._write(node, values, items)
        if macro.sign is not None:
            values, items = self._node(macro, macro.sign)
            values["layer"] = number
            items.append(Item(Sort.SIDE))
            self._target(macro.sign.output, values, items)
            self._write(macro.sign, values, items)

    def _node(self, macro: Macro, node: Node) -> tuple[dict[str, int], list[Item]]:
        """Return the fields and items that every record has."""
        operator, made = node.operator, node.output
        conv = isinstance(operator, Conv)
        source = macro.windows if conv and macro.windows is not None else node
        data = source.inputs[0]
        if isinstance(operator, TWO_MAPS):
            data = self._operands(macro, node)[0]
        window = getattr(source.operator, "window", None)
        dense = window is not None and not any(window.pad) and (
            window.size == (data.height, data.width)
        )  # fmt: skip
        how = operator.how if isinstance(operator, Requantise) else None
        first = node is macro.nodes[0]
        stop = [type(one.operator) for one in macro.nodes[1:]] if first else []
        pooling = [one.operator for one in macro.nodes[1:] if isinstance(one.operator, Pool)]
        flags = {
            "relu": how is not None and how.low == how.zero_point,
            "leaky": how is not None and how.negative is not None,
            "binary_in": data.type == "bits",
            "sign_out": made.type == "bits" or (node is macro.nodes[-1] and macro.sign is not None),
            "pooled": Pool in stop,
            "added": Add in stop,
            "wide": data.type == "int16",
        }
        values = {
            "op": OPS.index(op_of(operator, dense)),
            "flags": flags_of(flags),
            "x": self.layers.core[0],
            "y": self.layers.core[1],
            "input": NOWHERE,
            "second_input": NOWHERE,
            "output": NOWHERE,
            "second_output": NOWHERE,
            "height": data.height,
            "width": data.width,
            "input_channels": data.channels,
            "output_channels": made.channels,
            "input_zero": data.zero_point,
            "output_zero": made.zero_point,
        }
        if first and pooling:
            values |= {
                "pool": pooling[0].window.size[0],
                "pool_stride": pooling[0].window.stride[0],
            }
        if window is not None:
            values |= window_fields(window)
        if isinstance(operator, Upsample):
            values |= {"kernel_height": operator.rows, "kernel_width": operator.columns}
        items = items_of(operator)
        if node.sources:
            items.insert(0, Item(Sort.NAME, (self._name(node.sources[0]),)))
        result = (made.height, made.width, TYPES.index(made.type), self._name(made.name))
        items.append(Item(Sort.RESULT, result))
        if isinstance(operator, TWO_MAPS):
            self._beside(macro, node, values, items)
        return values, items

    def _operands(self, macro: Macro, node: Node) -> tuple[Tensor, Tensor]:
        """Return the operand in the accumulators, and the one that is loaded."""
        at = macro.nodes.index(node)
        here = macro.nodes[at - 1].output if at else node.inputs[0]
        return here, next((tensor for tensor in node.inputs if tensor is not here), here)

    def _beside(self, macro: Macro, node: Node, values: dict[str, int], items: list[Item]) -> None:
        """Add the second map of an addition or a product."""
        operator = node.operator
        here, other = self._operands(macro, node)
        first = 2 if here is other else int(node.inputs[0] is other)
        multiply = Item(Sort.MULTIPLY, (first,))
        items.append(add_item(operator, first) if isinstance(operator, Add) else multiply)
        region = self.layers.regions[other]
        values["second_input"] = region.first
        size = other.height, other.width, self._name(other.name)
        kind = TYPES.index(other.type)
        beside = (region.pixel, other.zero_point, kind, *size, *_lies(region))
        items.append(Item(Sort.BESIDE, beside))

    def _first(
        self, macro: Macro, cut: Cut, number: int, values: dict[str, int], items: list[Item]
    ) -> None:
        """Add the input of a layer, its weights and its packet headers."""
        data = macro.inputs[0]
        region = self.layers.regions[data]
        values |= {"input": region.first, "input_stride": region.pixel}
        source = (TYPES.index(data.type), self._name(data.name), *_lies(region))
        items.append(Item(Sort.SOURCE, source))
        if macro.windows is not None:
            count = headers_of_cut(macro, cut, self.layers.shape)
            values |= {"first_header": self._headers, "headers": count}
            self._headers += count
        if macro.conv is not None:
            words = kernel_words(macro.conv, self.layers.shape)[1]
            values["weights"] = self._taken
            values["weight_words"] = sum(map(len, words))
            self._taken += values["weight_words"]
            self.words += [one.astype(np.int8) for one in words]
            if number in self.layers.memory.weights.dynamic:
                values["flags"] |= flags_of({"dynamic_weights": True})
            shift, _ = stored_bias(constants_of(macro.conv)[1])
            if shift:
                items.append(Item(Sort.SHIFT, (shift,)))

    def _last(self, macro: Macro, values: dict[str, int], items: list[Item]) -> None:
        """Add the destinations of the result, its copies, and its packed bits."""
        self._target(macro.output, values, items)
        for number, tensor in enumerate(macro.copies, 1):
            region = self._region(tensor)
            self._sends(number, tensor, items)
            address = halves([region.first])[0]
            words = (address, region.pixel, self._name(tensor.name), *_lies(region))
            items.append(Item(Sort.COPY, words))
        if len(macro.outputs) > 1:
            values["second_output"] = self._region(macro.outputs[1]).first & 0xFFFFFFFF

    def _target(self, tensor: Tensor, values: dict[str, int], items: list[Item]) -> None:
        region = self._region(tensor)
        values |= {"output": region.first & 0xFFFFFFFF, "output_stride": region.pixel}
        items.append(Item(Sort.TARGET, _lies(region)))
        self._sends(0, tensor, items)

    def _region(self, tensor: Tensor) -> Region:
        """Return the region of a result, or of the destination of its first part."""
        targets = self.layers.memory.targets.get(tensor)
        return targets[0].region if targets else self.layers.regions[tensor]

    def _sends(self, number: int, tensor: Tensor, items: list[Item]) -> None:
        """Add the destinations of parts of a result; number : 0, or the number of the copy."""
        for one in self.layers.memory.targets.get(tensor, ()):
            region = one.region
            items.append(Item(Sort.SEND, (
                number, KINDS.index(one.kind), region.first, region.pixel, *one.rows, *one.blocks,
                *one.core, one.stream, one.credit, *_lies(region),
            )))  # fmt: skip

    def _name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def _write(self, node: Node, values: dict[str, int], items: list[Item]) -> None:
        """Write a record and its words in the pool."""
        values["record"] = min(len(self.pool) // PARAMETER_LANES, BEHIND)
        _, longer = encode_record(values, node.label)
        for number, value in longer:
            items.append(Item(Sort.LONG, (number, *halves([value]))))
        self.pool += encode_items(items, node.label)
        if isinstance(node.operator, Conv):
            values["bias"] = min(len(self.pool) // PARAMETER_LANES, BEHIND)
            self.pool += filled(stored_bias(constants_of(node)[1])[1].tolist())
        self.records.append(encode_record(values, node.label)[0])


def _cut_item(cut: Cut) -> Item:
    sizes = (cut.rows, cut.columns, cut.blocks, cut.inputs, *cut.kernel)
    return Item(Sort.CUT, (*sizes, EDGES.index(cut.edges)))


def _lies(region: Region) -> tuple[int, ...]:
    """Return row stride, vectors to the high bytes, planes, slots, border and border value; then
    the ring, if there is one."""
    pad, value = region.border
    return (
        region.row, region.high, int(region.tensor.planes), region.slots, pad.top, pad.bottom,
        pad.left, pad.right, value, *(region.ring or ()),
    )  # fmt: skip


class Layers(NamedTuple):
    """The layers of a core.

    cuts : one per macro node
    functions : first macro node and end of each function
    regions : regions of the inputs and outputs of macro nodes
    options : options, with `dual` resolved (not "auto")
    borders : contents around feature maps before the first frame
    links : links with other cores
    order : macro node of each tile, if tiles of different macro nodes alternate; else empty
    """

    shape: NpuShape
    macros: list[Macro]
    cuts: list[Cut]
    functions: list[tuple[int, int]]
    regions: dict[Tensor, Region]
    options: Choices
    memory: MemoryPlan
    borders: Preset
    core: tuple[int, int] = (0, 0)
    links: CoreLinks = NO_LINKS
    order: tuple[int, ...] = ()
