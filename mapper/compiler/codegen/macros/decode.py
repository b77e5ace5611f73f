"""Decoding of macro records and their pool to layers, with the weights from their words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.shape import PARAMETER_LANES
from mapper.compiler.codegen.kernels import taps_of
from mapper.compiler.codegen.macros.encode import EDGES, Encoded
from mapper.compiler.codegen.macros.layout import (
    BEHIND,
    FLAGS,
    LAYOUT,
    OPS,
    RECORD_BYTES,
    decode_record,
)
from mapper.compiler.codegen.macros.operators import TYPES, operator_of, window_of
from mapper.compiler.codegen.macros.pool import Sort, decode_items, wholes
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Conv, Node, Operator, Pool, Upsample, Window, WindowColumns
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.memory.padding import Border
from mapper.compiler.memory.planner import Region, Ring, blocks_of
from mapper.compiler.numerics.binary import unpacked
from mapper.compiler.numerics.windows import GROUP
from mapper.compiler.program.inputs import Span, conv_of, is_depthwise, taken_blocks
from mapper.compiler.program.links import KINDS, Target
from mapper.compiler.tiling.tiles import Cut
from mapper.errors import MapperError

_DAMAGE = (KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError)


class Record(NamedTuple):
    """A record with its items from the pool.

    values : all fields, including those stored in the pool; items : last item of each sort
    copies, sends : words of these items; bias : lanes of the pool
    """

    where: str
    values: dict[str, int]
    items: dict[Sort, tuple[int, ...]]
    copies: list[tuple[int, ...]]
    sends: list[tuple[int, ...]]
    bias: NDArray[np.int32]

    @property
    def op(self) -> str:
        return OPS[self.values["op"]]

    def flag(self, name: str) -> bool:
        return bool(self.values["flags"] >> FLAGS.index(name) & 1)


class Decoded(NamedTuple):
    """Decoded records.

    dynamic : indices of the layers whose weights come from the host
    targets : destinations of results that are not simply stored in this core
    """

    macros: list[Macro]
    cuts: list[Cut]
    regions: dict[Tensor, Region]
    dynamic: frozenset[int]
    targets: dict[Tensor, tuple[Target, ...]]


def records_of(encoded: Encoded, where: str) -> list[Record]:
    """Decode a list of records; where : file name for errors.

    Raises `MapperError` that names the record.
    """
    if len(encoded.records) % RECORD_BYTES:
        raise MapperError(f"{where}: its last macro record is cut short; compile the model again")
    found, stop = [], 0
    for number in range(len(encoded.records) // RECORD_BYTES):
        here = f"{where}: macro record {number}"
        data = encoded.records[number * RECORD_BYTES : (number + 1) * RECORD_BYTES]
        values = decode_record(data, here)
        first = values["record"] * PARAMETER_LANES if values["record"] != BEHIND else stop
        items, stop = decode_items(encoded.pool, first, here)
        for item in items:
            if item.sort is Sort.LONG:
                number_, *pair = item.words or [-1]
                if number_ not in range(len(LAYOUT)) or len(pair) != len(("low", "high")):
                    raise MapperError(f"{here}: refers to an unknown field; compile again")
                (values[LAYOUT[number_].name],) = wholes(pair)
        bias = encoded.pool[:0]
        if OPS[values["op"]] in ("CONV", "FC"):
            if values["bias"] != BEHIND:
                stop = values["bias"] * PARAMETER_LANES
            bias = encoded.pool[stop : stop + values["output_channels"]]
            stop += blocks_of(len(bias), PARAMETER_LANES) * PARAMETER_LANES
        copies, sends = (
            [item.words for item in items if item.sort is sort] for sort in (Sort.COPY, Sort.SEND)
        )
        said = {one.sort: one.words for one in items}
        found.append(Record(here, values, said, copies, sends, bias))
    return found


def decode_layers(encoded: Encoded, shape: NpuShape, where: str) -> Decoded:
    """Decode records to macro nodes that instructions are generated from; where : file for errors.

    Raises `MapperError` that names an inconsistent record.
    """
    reader = _Reader(encoded, shape)
    macros, cuts, dynamic = [], [], set()
    records = records_of(encoded, where)
    layers = [list(group) for _, group in groupby(records, lambda one: one.values["layer"])]
    for number, group in enumerate(layers):
        first = group[0]
        try:
            if first.values["layer"] != number:
                raise ValueError(f"layer {first.values['layer']}")
            macro = reader.macro(group)
            cuts.append(_cut(first.items[Sort.CUT]))
        except _DAMAGE as error:
            raise MapperError(f"{first.where}: is inconsistent; compile the model again") from error
        macros.append(macro)
        if first.flag("dynamic_weights"):
            dynamic.add(number)
    return Decoded(macros, cuts, reader.regions, frozenset(dynamic), reader.targets)


class _Reader:
    """Builds macro nodes and the regions of their feature maps."""

    def __init__(self, encoded: Encoded, shape: NpuShape) -> None:
        self.encoded, self.shape = encoded, shape
        self.regions: dict[Tensor, Region] = {}
        self.targets: dict[Tensor, tuple[Target, ...]] = {}

    def macro(self, group: list[Record]) -> Macro:
        """Return the layer of some records; the first record has the source feature map."""
        macro = Macro([])
        made: Tensor | None = None
        for record in group:
            side = Sort.SIDE in record.items
            node = self._node(record, macro.output if side else made, macro)
            if side:
                macro.sign = node
            else:
                macro.nodes.append(node)
                made = node.output
            if Sort.TARGET in record.items:
                values, lies = record.values, record.items[Sort.TARGET]
                self._place(node.output, values["output"], values["output_stride"], lies)
                copies = list(self._copies(record, node.output))
                macro.copies += copies
                self._send(record, [node.output, *copies])
        if Sort.WORDS in group[0].items:
            (macro.words,) = group[0].items[Sort.WORDS]
        return macro

    def _node(self, record: Record, made: Tensor | None, macro: Macro) -> Node:
        """Return an operator with its tensors. made : tensor in the accumulators"""
        values, items = record.values, record.items
        operator = operator_of(record.op, values, items)
        name = items.get(Sort.NAME)
        sources = () if name is None else (self._name(name[0]),)
        rows, columns, kind, result = items[Sort.RESULT]
        data = self._source(record) if made is None else made
        output = Tensor(
            self._name(result), (1, rows, columns, values["output_channels"]), TYPES[kind],
            zero_point=values["output_zero"],
        )  # fmt: skip
        node = Node(operator, [data], [output], sources)
        _require_size(operator, data, output)
        if isinstance(operator, Conv):
            if values["headers"]:
                macro.windows = self._windows(record, node)
                operator = node.operator = Conv(Window((1, 1)))
                node.inputs = [macro.windows.output]
            node.inputs += self._constants(record, node)
        elif record.op in ("ADD", "MUL"):
            node.inputs = self._operands(record, data, output)
        return node

    def _source(self, record: Record) -> Tensor:
        """Return the feature map that a layer loads from memory."""
        values = record.values
        kind, name, *lies = record.items[Sort.SOURCE]
        shape = (1, values["height"], values["width"], values["input_channels"])
        data = Tensor(self._name(name), shape, TYPES[kind], zero_point=values["input_zero"])
        self._place(data, values["input"], values["input_stride"], tuple(lies))
        return data

    def _windows(self, record: Record, conv: Node) -> Node:
        """Return the im2col node of a convolution, computed by the window unit."""
        data, window = conv.inputs[0], window_of(record.values)
        kh, kw = window.size
        channels = blocks_of(data.channels, GROUP) * GROUP * kh * kw
        made = Tensor(
            f"{data.name}.windows", (1, conv.output.height, conv.output.width, channels),
            data.type, zero_point=data.zero_point,
        )  # fmt: skip
        return Node(WindowColumns(window), [data], [made], conv.sources)

    def _constants(self, record: Record, conv: Node) -> list[Tensor]:
        """Return weights and bias."""
        values = record.values
        words = self.encoded.words[values["weights"] :][: values["weight_words"]]
        weights = weights_of(words, conv, self.shape)
        (shift,) = record.items.get(Sort.SHIFT, (0,))
        bias = record.bias.astype(np.int64) << shift
        if len(bias) != conv.output.channels:
            raise ValueError("bias is cut short")
        return [
            Tensor("weights", weights.shape, "int32", value=weights),
            Tensor("bias", bias.shape, "int64", value=bias),
        ]

    def _operands(self, record: Record, here: Tensor, made: Tensor) -> list[Tensor]:
        """Return the inputs of an addition or a product in order."""
        first = record.items[Sort.ADD if record.op == "ADD" else Sort.MULTIPLY][-1]
        pixel, zero, kind, rows, columns, name, *lies = record.items[Sort.BESIDE]
        if first == len(("here", "other")):
            return [here, here]
        shape = (1, rows, columns, made.channels)
        if shape not in (made.shape, (1, 1, 1, made.channels)):
            raise ValueError(f"second operand of {rows}x{columns}")
        other = Tensor(self._name(name), shape, TYPES[kind], zero_point=zero)
        self._place(other, record.values["second_input"], pixel, tuple(lies))
        return [other, here] if first else [here, other]

    def _copies(self, record: Record, made: Tensor) -> Iterator[Tensor]:
        for address, pixel, name, *lies in record.copies:
            copy = Tensor(self._name(name), made.shape, made.type, zero_point=made.zero_point)
            self._place(copy, address & 0xFFFFFFFF, pixel, tuple(lies))
            yield copy

    def _send(self, record: Record, results: list[Tensor]) -> None:
        """Set the targets of a result and its copies that are not simply stored in this core."""
        for words in record.sends:
            number, kind, first, pixel, *rest = words
            spans, core, lies = rest[:4], rest[4:6], tuple(rest[8:])
            tensor = results[number]
            self._place(tensor, first, pixel, lies)
            one = Target(
                KINDS[kind], self.regions.pop(tensor), Span(*spans[:2]), Span(*spans[2:]),
                (core[0], core[1]), *rest[6:8],
            )  # fmt: skip
            self.targets[tensor] = (*self.targets.get(tensor, ()), one)

    def _place(self, tensor: Tensor, first: int, pixel: int, lies: tuple[int, ...]) -> None:
        """Set the region of a feature map; its lifetime is irrelevant, as its address is fixed."""
        row, high, planes, slots, top, bottom, left, right, value, *ring = lies
        tensor.planes, tensor.stored = bool(planes), True
        tensor.address, tensor.pad = first, Pad(top, bottom, left, right)
        border = Border(tensor.pad, value)
        vectors = tensor.height * tensor.width * pixel
        self.regions[tensor] = Region(
            tensor,
            first,
            vectors,
            0,
            0,
            pixel,
            row,
            high,
            border=border,
            slots=slots,
            ring=Ring(*ring) if ring else None,
        )

    def _name(self, number: int) -> str:
        return self.encoded.names[number]


def _require_size(operator: Operator, data: Tensor, made: Tensor) -> None:
    """Raise `ValueError` if the size of a result does not match its operator and input."""
    size, sizes = (made.height, made.width), [(data.height, data.width)]
    if isinstance(operator, Conv | Pool):
        window = operator.window
        sizes = [window.results(data.height, data.width, ceil=ceil) for ceil in (False, True)]
    elif isinstance(operator, Upsample):
        sizes = [(data.height * operator.rows, data.width * operator.columns)]
    if any(one not in axis for one, axis in zip(size, zip(*sizes, strict=True), strict=True)):
        raise ValueError(f"result size {size[0]}x{size[1]}")
    if not isinstance(operator, Conv) and made.channels != data.channels:
        raise ValueError(f"result with {made.channels} channels")


def _cut(words: tuple[int, ...]) -> Cut:
    rows, columns, blocks, inputs, high, wide, edges = words
    return Cut(rows, columns, blocks, inputs, (high, wide), EDGES[edges])  # type: ignore[arg-type]


Int64 = NDArray[np.int64]


def weights_of(words: NDArray[np.int8], conv: Node, shape: NpuShape) -> Int64:
    """Return the weights, shape (outputs, kernel rows, kernel columns, inputs / groups).

    words : words of all output blocks, shape (words, rows, columns)
    conv : convolution with input and output; raises `ValueError` if the words do not match it
    """
    operator = conv_of(conv)
    channels, size = conv.output.channels, operator.window.size
    taken = conv.inputs[0].channels // operator.groups
    if is_depthwise(conv):
        return _depthwise(words, channels, size, shape)
    bits, wide = conv.inputs[0].type == "bits", conv.inputs[0].bits == 16
    groups, lanes = operator.groups, taken
    if bits:
        groups, lanes = 1, blocks_of(taken, 8 * shape.columns) * shape.columns
    found = np.zeros((channels, *size, lanes), np.int64)
    at = 0
    for block in range(blocks_of(channels, shape.rows)):
        span = taken_blocks(conv, Span(block, block + 1), shape.rows)
        count = prod(size) * span.size * (2 if wide else 1)
        some = words[at : at + count].astype(np.int64)
        at += count
        if wide:
            pairs = some.reshape(-1, 2, shape.rows, shape.columns)
            some = pairs[:, 1] << 8 | pairs[:, 0] & 255
        made = some.reshape(*size, span.size, shape.rows, shape.columns)
        made = made.transpose(3, 0, 1, 2, 4).reshape(shape.rows, *size, -1)
        for row, channel in enumerate(
            range(block * shape.rows, min((block + 1) * shape.rows, channels))
        ):
            begin = channel // (channels // groups) * lanes - span.first * shape.columns
            found[channel] = made[row, :, :, begin : begin + lanes]
    if at != len(words):
        raise ValueError("weight words do not match the layer")
    if bits:
        vectors = found.astype(np.int8).reshape(channels, *size, -1, shape.columns)
        return unpacked(vectors, taken)
    return found


def _depthwise(
    words: NDArray[np.int8], channels: int, size: tuple[int, int], shape: NpuShape
) -> Int64:
    taps, places = taps_of(shape), prod(size)
    blocks = blocks_of(channels, shape.columns)
    made = words.reshape(blocks, -1, shape.rows, shape.columns)[:, :, :taps].astype(np.int64)
    whole = made.transpose(1, 2, 0, 3).reshape(-1, blocks * shape.columns)
    return whole[:places, :channels].T.reshape(channels, *size, 1)
