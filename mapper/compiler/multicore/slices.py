"""A part of a macro node as a separate macro node, over parts of its inputs and outputs.

Parts by rows repeat the weights and the overlap of their windows; parts by output blocks repeat the
input. Everything else treats a part like a whole layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir import node as op
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.requantisation import Multiplier, Requantisation
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.program.inputs import Span, conv_of, needed
from mapper.compiler.tiling.tiles import window_of


class Held(NamedTuple):
    """A part of a feature map: rows, and channels of its pixels."""

    rows: Span
    channels: Span


class Sliced(NamedTuple):
    """whole : feature map of the graph; part : feature map of the slice; held : its extent"""

    whole: Tensor
    part: Tensor
    held: Held


class Slice(NamedTuple):
    """A part of a macro node, and the parts of feature maps that it reads and writes."""

    macro: Macro
    inputs: list[Sliced]
    outputs: list[Sliced]


def can_split_blocks(macro: Macro) -> bool:
    """Return whether output blocks may be on different cores. Groups with several inputs or outputs
    stay together, as the inputs of their blocks start inside vectors."""
    conv = macro.conv
    if conv is None:
        return True
    groups = conv_of(conv).groups
    return groups == 1 or groups == conv.inputs[0].channels == conv.output.channels


def slice_macro(macro: Macro, rows: Span, blocks: Span, lanes: int) -> Slice:
    """Return a part of a macro node.

    rows, blocks : rows of its result before upsampling, and output blocks
    lanes : channels per block
    """
    return _Slicer(macro, rows, blocks, lanes).made()


def some_row_is_padding(macro: Macro, rows: Span) -> bool:
    """Return whether the windows of some row of a result contain only padding: such a row alone
    would have no input."""
    for row in {rows.first, rows.stop - 1}:
        taken = Span(row, row + 1)
        for node in reversed(macro.nodes):
            if isinstance(node.operator, op.Upsample):
                continue
            taken = _inside(needed(taken, window_of(node), 0), node.inputs[0].height)
            if taken.stop <= taken.first:
                return True
    return False


class _Slicer:
    def __init__(self, macro: Macro, rows: Span, blocks: Span, lanes: int) -> None:
        self.macro = macro
        self.channels = Span(blocks.first * lanes, min(blocks.stop * lanes, macro.output.channels))
        self.whole = blocks == Span(0, blocks_of(macro.output.channels, lanes))
        self.rows = self._rows(rows)
        self.parts: dict[Tensor, Tensor] = {}  # results inside the slice
        self.inputs: list[Sliced] = []

    def _rows(self, rows: Span) -> list[Span]:
        """Return the rows of the first node's input, and of each node's result; all are inside the
        feature maps except the first, which may include padding."""
        found = [rows]
        for at in range(len(self.macro.nodes) - 1, -1, -1):
            node = self.macro.nodes[at]
            if isinstance(node.operator, op.Upsample):
                found.insert(0, found[0])
                found[1] = Span(
                    found[1].first * node.operator.rows, found[1].stop * node.operator.rows
                )
                continue
            taken = needed(found[0], window_of(node), 0)
            found.insert(0, taken if at == 0 else _inside(taken, node.inputs[0].height))
        return found

    def made(self) -> Slice:
        macro, rows = self.macro, self.rows
        windows = None if macro.windows is None else self._windows(macro.windows, rows[0])
        spans = zip(macro.nodes, rows[:-1], rows[1:], strict=True)
        nodes = [self._node(node, before, after) for node, before, after in spans]
        last = Held(self.rows[-1], self.channels)
        outputs = [Sliced(macro.output, nodes[-1].output, last)]
        copies = []
        for tensor in macro.copies:
            copies.append(part_of(tensor, last))
            outputs.append(Sliced(tensor, copies[-1], last))
        sign = None
        if macro.sign is not None:
            sign = self._node(macro.sign, last.rows, last.rows)
            outputs.append(Sliced(macro.sign.output, sign.output, last))
        made = Macro(nodes, sign, copies, None, windows)
        return Slice(made, self.inputs, outputs)

    def _windows(self, node: Node, rows: Span) -> Node:
        """Return the im2col node of a slice, for all channels of its rows."""
        operator = node.operator
        assert isinstance(operator, op.WindowColumns)
        taken = needed(rows, operator.window, 0)
        data = self._input(node.inputs[0], taken, Span(0, node.inputs[0].channels))
        made = part_of(node.output, Held(rows, Span(0, node.output.channels)))
        self.parts[node.output] = made
        window = _cut(operator.window, taken, node.inputs[0].height)
        return Node(op.WindowColumns(window), [data], [made], node.sources)

    def _node(self, node: Node, taken: Span, rows: Span) -> Node:
        operator: op.Operator = node.operator
        channels = self._taken(node)
        inputs = []
        for tensor in node.inputs:
            if tensor.value is not None:
                value = tensor.value if self.whole else tensor.value[slice(*self.channels)]
                shape = (value.shape[0], *tensor.shape[1:])
                inputs.append(replace(tensor, value=value, shape=shape))
            elif tensor in self.parts:
                inputs.append(self.parts[tensor])
            else:
                scales = isinstance(operator, op.Product) and tensor.height < node.output.height
                inputs.append(self._input(tensor, Span(0, 1) if scales else taken, channels))
        window = window_of(node)
        if window is not None and isinstance(operator, op.Conv | op.Pool):
            operator = replace(operator, window=_cut(window, taken, node.inputs[0].height))
        if isinstance(operator, op.Conv) and operator.groups > 1 and not self.whole:
            operator = replace(operator, groups=self.channels.size)
        made = part_of(node.output, Held(rows, self.channels))
        self.parts[node.output] = made
        return Node(self._operator(operator, rows), inputs, [made], node.sources)

    def _taken(self, node: Node) -> Span:
        """Return the input channels: all for a convolution, unless it is depthwise."""
        data = node.inputs[0]
        if isinstance(node.operator, op.Conv) and (node.operator.groups == 1 or self.whole):
            return Span(0, data.channels)
        return self.channels

    def _input(self, tensor: Tensor, rows: Span, channels: Span) -> Tensor:
        held = Held(_inside(rows, tensor.height), channels)
        for one in self.inputs:
            if one.whole is tensor and one.held == held:
                return one.part
        part = part_of(tensor, held)
        self.inputs.append(Sliced(tensor, part, held))
        return part

    def _operator(self, operator: op.Operator, rows: Span) -> op.Operator:
        """Return the operator with its constants for these channels and rows."""
        if isinstance(operator, op.Requantise):
            return op.Requantise(self._how(operator.how, rows))
        if isinstance(operator, op.Threshold) and not self.whole:
            least, flip = (one[slice(*self.channels)] for one in (operator.least, operator.flip))
            return op.Threshold(least, flip)
        return operator

    def _how(self, how: Requantisation, rows: Span) -> Requantisation:
        def cut(value: NDArray[np.int64]) -> NDArray[np.int64]:
            found = np.asarray(value)
            if found.ndim == 3:
                found = found[slice(*rows)]
            if found.ndim and found.shape[-1] > 1:
                found = found[..., slice(*self.channels)]
            return found

        def factor(one: Multiplier) -> Multiplier:
            return Multiplier(cut(one.m0), cut(one.n))

        offset = how.offset if isinstance(how.offset, int) else cut(how.offset)
        return how._replace(
            factor=factor(how.factor),
            negative=None if how.negative is None else factor(how.negative),
            offset=offset,
        )


def _inside(rows: Span, height: int) -> Span:
    return rows.meet(Span(0, height))


def _cut(window: op.Window, rows: Span, height: int) -> op.Window:
    """Return a window for some rows of a feature map: padding only at the rows outside it."""
    pad = window.pad._replace(top=max(0, -rows.first), bottom=max(0, rows.stop - height))
    return replace(window, pad=pad)


def part_of(tensor: Tensor, held: Held) -> Tensor:
    """Return a part of a feature map as a separate tensor."""
    frames, _, width, _ = tensor.shape
    return replace(tensor, shape=(frames, held.rows.size, width, held.channels.size), address=None)
