"""Split the layer before DepthToSpace into one layer per phase, whose results are interleaved.

Phase (y, x) computes the pixels of the result whose row is y and whose column is x modulo the size
of a block. Cores store them in place, with larger strides, so no data moves. A phase of a
transposed convolution drops the kernel rows and columns that are zero for all of its outputs.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.moves import insert_move
from mapper.errors import MapperError

EACH = (
    op.Activation | op.Affine | op.Clamp | op.Function | op.Lookup | op.Requantise | op.Sign
    | op.Threshold
)  # fmt: skip
"""Operators that work per channel, and may run between the layer and DepthToSpace."""
MOVABLE = ("float32", "int8", "int16")
"""Types of maps that a convolution can copy."""
Channels = NDArray[np.int64]


def split_phases(graph: Graph, context: Context) -> None:
    """Split the layers; a map that no layer computes alone is read by a layer that only moves it.

    Raises `MapperError` that names a node whose map holds bits or sums and has other users.
    """
    for node in graph.nodes_of(op.DepthToSpace):
        chain = _chain(graph, node)
        if chain is None:
            data = node.inputs[0]
            if data.type not in MOVABLE:
                raise MapperError(
                    f"{node.label}: moves bits or sums that other nodes read; keep it on the host "
                    f"with --keep {node.sources[0]}"
                )
            at = graph.nodes.index(node)
            node.inputs = [insert_move(graph, data, at, node.sources)]
            chain = _chain(graph, node)
            assert chain is not None
        _split(graph, node, chain)
        context.log.add(f"{node.label}: {chain[0].label} stores its phases in place")


def _chain(graph: Graph, node: Node) -> list[Node] | None:
    """Return the layer before a node and the nodes between them; None if others read their
    results, or if a phase has different numbers of channels in the groups of the layer."""
    found, user = list[Node](), node
    while (maker := graph.maker(user.inputs[0])) is not None:
        if graph.only_user(user.inputs[0]) is not user:
            return None
        found.insert(0, maker)
        if isinstance(maker.operator, op.Conv):
            return found if _is_even(maker, node) else None
        if not isinstance(maker.operator, EACH):
            return None
        user = maker
    return None


def _is_even(conv: Node, node: Node) -> bool:
    assert isinstance(conv.operator, op.Conv)
    each = conv.output.channels // conv.operator.groups
    counts = (np.bincount(one // each, minlength=conv.operator.groups) for one in _channels(node))
    return all(np.unique(count).size == 1 for count in counts)


def _channels(node: Node) -> list[Channels]:
    """Return the channels of each phase."""
    operator = node.operator
    assert isinstance(operator, op.DepthToSpace)
    numbers = np.arange(node.inputs[0].channels)
    split = numbers.reshape(operator.groups, operator.rows, operator.columns, -1)
    return [
        split[:, row, column].ravel()
        for row in range(operator.rows)
        for column in range(operator.columns)
    ]


def _split(graph: Graph, node: Node, chain: list[Node]) -> None:
    """Replace a chain and DepthToSpace by the nodes of all phases."""
    operator, result = node.operator, node.output
    assert isinstance(operator, op.DepthToSpace)
    made, parts = list[Node](), list[Tensor]()
    for number, channels in enumerate(_channels(node)):
        row, column = divmod(number, operator.columns)
        height = -(-(result.height - row) // operator.rows)
        width = -(-(result.width - column) // operator.columns)
        shape = (1, height, width, channels.size)
        for one in chain:
            data = one.inputs[0] if one is chain[0] else made[-1].output
            name = result.name if one is chain[-1] else one.output.name
            part = replace(one.output, name=f"{name}.phase{number}", shape=shape)
            made.append(_part(one, data, part, channels))
        parts.append(made[-1].output)
    how = op.Interleave(operator.rows, operator.columns)
    at = graph.nodes.index(node)
    graph.nodes[at : at + 1] = [*made, Node(how, parts, [result], node.sources)]
    for one in chain:
        graph.nodes.remove(one)


def _part(node: Node, data: Tensor, part: Tensor, channels: Channels) -> Node:
    """Return a node for some of its channels."""
    operator = node.operator
    count = node.output.channels
    constants = [
        replace(one, value=one.numbers[channels], shape=(channels.size, *one.shape[1:]))
        if one.shape[:1] == (count,)
        else one
        for one in node.inputs[1:]
    ]
    if isinstance(operator, op.Conv):
        operator, weights = _trimmed(operator, constants[0].numbers, node.output, part)
        constants[0] = replace(constants[0], value=weights, shape=weights.shape)
    elif isinstance(operator, op.Requantise):
        operator = op.Requantise(operator.how.chosen(channels))
    elif isinstance(operator, op.Threshold):
        operator = op.Threshold(operator.least[channels], operator.flip[channels])
    return Node(operator, [data, *constants], [part], node.sources)


def _trimmed(
    conv: op.Conv, weights: NDArray[np.int64], whole: Tensor, part: Tensor
) -> tuple[op.Conv, NDArray[np.int64]]:
    """Return a convolution without the zeros at the edges of its kernels, and without the last
    rows and columns of its result that the part lacks."""
    window = conv.window
    used = weights != 0
    (top, bottom, rows), (left, right, columns) = (
        _used(used.any(others), pads, window.dilation[axis], window.stride[axis] * missing)
        for axis, others, pads, missing in (
            (0, (0, 2, 3), window.pad[:2], whole.height - part.height),
            (1, (0, 1, 3), window.pad[2:], whole.width - part.width),
        )
    )
    padded = np.pad(weights, ((0, 0), *((0, int(one[-1]) + 1) for one in (rows, columns)), (0, 0)))
    kept = padded[:, rows][:, :, columns]
    steps = [int(one[1] - one[0]) if one.size > 1 else 1 for one in (rows, columns)]
    dilation = window.dilation[0] * steps[0], window.dilation[1] * steps[1]
    size = rows.size, columns.size
    made = replace(window, size=size, pad=Pad(top, bottom, left, right), dilation=dilation)
    return replace(conv, window=made), np.ascontiguousarray(kept)


def _used(
    used: NDArray[np.bool_], pads: tuple[int, ...], dilation: int, missing: int
) -> tuple[int, int, NDArray[np.int64]]:
    """Return the paddings and the positions of a kernel axis that are needed; positions after the
    last one are zeros.

    missing : positions that the windows no longer reach at the end
    """
    before, after = pads
    first, last = 0, used.size - 1
    while first < last and not used[first] and before >= dilation:
        first, before = first + 1, before - dilation
    after -= missing
    while last > first and not used[last] and after >= dilation:
        last, after = last - 1, after - dilation
    while after < 0:  # the last pixels of the map are multiplied by zeros
        last, after = last + 1, after + dilation
    places = np.flatnonzero(used[first : last + 1])
    step = gcd(last - first, *places.tolist()) or 1
    return before, after, np.arange(first, last + 1, step)
