"""Store several columns in pixels of few channels, so that no rows and columns of the array are
idle.

A layer of 8 outputs uses half of 16 rows, and the layer after it half of the columns. The first one
computes two columns of its result in one call, with a kernel that covers the windows of both, and
the second one reads two kernel columns at once. A pixel of the map between them holds two columns
in its channels: the same bytes in the same order.

Where columns are pooled between the layers, the columns of a pooled pixel are in consecutive
blocks; each block holds the same column of several pooled pixels. The second layer computes a
result for each of the columns in a pixel, in separate blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph, part_of
from mapper.compiler.ir.node import Node, Operator, Window
from mapper.compiler.ir.requantisation import Requantisation
from mapper.compiler.ir.tensor import Tensor, constant
from mapper.compiler.transforms.base import Context, Pass, Site, Taken, saved
from mapper.compiler.transforms.few_channels import make_windows

NAME = "fold"


class Chain(NamedTuple):
    """Two convolutions with the nodes between and after them.

    first, second : a convolution and the elementwise nodes after it
    pool : pooling between them, or None
    """

    first: list[Node]
    pool: Node | None
    second: list[Node]

    @property
    def nodes(self) -> list[Node]:
        return [*self.first, *([] if self.pool is None else [self.pool]), *self.second]

    @property
    def pooled(self) -> int:
        """Columns per pooled pixel."""
        if self.pool is None:
            return 1
        assert isinstance(self.pool.operator, op.Pool)
        return self.pool.operator.window.size[1]

    @property
    def label(self) -> str:
        return f"{self.first[0].label} and {self.second[0].label}"


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Yield pairs of convolutions with only elementwise nodes and pooling between them."""
    for node in graph.nodes:
        chain = chain_of(graph, node)
        if chain is not None:
            yield node, chain.second[0]


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    chain = chain_of(graph, site[0])
    assert chain is not None
    made, taken = chain.first[-1].output, chain.second[0].inputs[0]
    shape, count = context.shape, _count(chain, context.shape)
    if count < 2 or count * taken.channels != shape.columns or shape.rows != shape.columns:
        return f"{taken.channels} channels do not fit several times into {shape.columns}"
    maps = (chain.first[0].inputs[0], made, chain.second[-1].output)
    if any(tensor.type != "int8" for tensor in maps):
        return "a map is not stored in bytes"
    if made.width % (count * chain.pooled):
        return "the width is not a multiple of the columns per pixel"
    if not _pools_alike(chain):
        return "a column is used by several pooled pixels, or is averaged"
    for part in (chain.first, chain.second):
        operator, tensors = part[0].operator, part[0].inputs
        assert isinstance(operator, op.Conv)
        if operator.groups != 1 or operator.window.dilation[1] != 1:
            return "a kernel is dilated, or has groups"
        if len(tensors) != 3 or any(tensor.value is None for tensor in tensors[1:]):
            return "weights are not constant"
    if not _behind(graph, chain, count, shape):
        return "the second layer cannot compute several columns"
    return None


def _count(chain: Chain, shape: NpuShape) -> int:
    """Return the columns per pixel between the layers."""
    return shape.columns // chain.second[0].inputs[0].channels


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """Return the gain by trials of both forms, with pooling of the result; None if maps do not
    fit."""
    if (NAME, site) not in context.known:
        context.known[NAME, site] = _gain(graph, site[0], context)
    found: Taken | None = context.known[NAME, site]
    return found


def apply(graph: Graph, site: Site, context: Context) -> str:
    chain = chain_of(graph, site[0])
    assert chain is not None
    count = _count(chain, context.shape)
    _splice(graph, chain, folded(chain, count))
    return f"{chain.label}: {count} columns per pixel"


def _splice(graph: Graph, chain: Chain, nodes: list[Node]) -> None:
    """Replace a chain by other nodes, at its end."""
    at = graph.nodes.index(chain.nodes[-1]) + 1
    graph.nodes[at:at] = nodes
    graph.nodes = [one for one in graph.nodes if one not in chain.nodes]


def chain_of(graph: Graph, node: Node) -> Chain | None:
    """Return the chain that begins at a convolution, None if its inner maps have other users."""
    if not isinstance(node.operator, op.Conv):
        return None
    first = _values(graph, node)
    pool = graph.only_user(first[-1].output, op.Pool)
    user = graph.only_user((pool or first[-1]).output, op.Conv)
    return None if user is None else Chain(first, pool, _values(graph, user))


def _values(graph: Graph, conv: Node) -> list[Node]:
    """Return a convolution and the elementwise nodes after it."""
    found = [conv]
    while (
        user := graph.only_user(found[-1].output, op.Requantise | op.Clamp | op.Lookup)
    ) is not None:
        found.append(user)
    return found


def _pools_alike(chain: Chain) -> bool:
    """Return whether each column of a map is used by one pooled pixel."""
    if chain.pool is None:
        return True
    operator = chain.pool.operator
    assert isinstance(operator, op.Pool)
    window = operator.window
    return (
        operator.kind == "max"
        and window.size[1] == window.stride[1]
        and window.dilation[1] == 1
        and not (window.pad.left or window.pad.right)
        and chain.pool.output.width * window.size[1] == chain.first[-1].output.width
    )


def _behind(graph: Graph, chain: Chain, count: int, shape: NpuShape) -> bool:
    """Return whether the second layer can compute its result unchanged, or by columns in blocks."""
    conv, made = chain.second[0], chain.second[-1].output
    taken = _Walk.of(conv, count)
    if taken is None:
        return False
    if taken.results == 1:
        return True
    users = graph.users(made)
    return (
        made.channels % shape.columns == 0
        and made.width % count == 0
        and bool(users)
        and not graph.is_output(made)
        and all(isinstance(node.operator, op.Conv | op.Pool) for node in users)
    )


class _Walk(NamedTuple):
    """Window of the second layer over a folded map.

    results : columns of its result per step
    places : for each of these, the pixel of each kernel column, and the column within it
    window : window over the folded map
    """

    results: int
    places: list[list[tuple[int, int]]]
    window: Window

    @classmethod
    def of(cls, conv: Node, count: int) -> _Walk | None:
        """Return the window; None if its steps do not match the columns of a pixel."""
        assert isinstance(conv.operator, op.Conv)
        window, data, made = conv.operator.window, conv.inputs[0], conv.output
        stride, left, columns = window.stride[1], window.pad.left, window.size[1]
        if made.width == 1:
            results, step = 1, 1
        elif stride % count == 0:
            results, step = 1, stride // count
        elif stride == 1 and made.width % count == 0:
            results, step = count, 1
        else:
            return None
        at = np.arange(results)[:, None] * stride - left + np.arange(columns)
        pixels, inside = at // count, at % count
        before = max(0, -int(pixels.min()))
        wide = int(pixels.max()) + before + 1
        steps = made.width // results
        stop = (steps - 1) * step + wide - before - data.width // count
        if int(pixels.min()) > 0:
            return None
        places = [
            [(int(p) + before, int(i)) for p, i in zip(*row, strict=True)]
            for row in zip(pixels, inside, strict=True)
        ]
        pad = window.pad._replace(left=before, right=max(0, stop))
        size, strides = (window.size[0], wide), (window.stride[0], step)
        return cls(results, places, Window(size, strides, pad, window.dilation))


def folded(chain: Chain, count: int) -> list[Node]:
    """Return the nodes of a chain over a folded map, in order, with the same result."""
    pooled = chain.pooled
    nodes = _made(chain.first, count, pooled)
    between = nodes[-1].output
    if chain.pool is not None:
        source = chain.pool
        if pooled > 1:
            between = _wide(nodes, between, pooled)
        width = source.output.width // count
        result = _folded(source.output, *source.output.shape[:2], width, between.channels)
        nodes.append(Node(source.operator, [between], [result], source.sources))
        between = result
    return nodes + _taken(chain.second, between, count)


def _wide(nodes: list[Node], tensor: Tensor, count: int) -> Tensor:
    """Add a node that unfolds the columns of a pixel into pixels; return its result."""
    tensor.stored = True
    frames, rows, columns, channels = tensor.shape
    shape = (frames, rows, columns * count, channels // count)
    result = tensor.like(f"{tensor.name}.columns", shape, stored=False)
    nodes.append(Node(op.Unfold(count), [tensor], [result], ()))
    return result


def _made(part: list[Node], count: int, pooled: int) -> list[Node]:
    """Return the first layer: one block per column of a pooled pixel.

    Each block holds the same column of `count` adjacent pooled pixels.
    """
    conv = part[0]
    operator = conv.operator
    assert isinstance(operator, op.Conv)
    window, data, whole = operator.window, conv.inputs[0], count * pooled
    (kh, kw), (sh, sw) = window.size, window.stride
    wide = kw + (whole - 1) * sw
    steps = conv.output.width // whole
    right = max(0, (steps - 1) * whole * sw + wide - data.width - window.pad.left)
    over = Window((kh, wide), (sh, whole * sw), window.pad._replace(right=right), window.dilation)
    weights = conv.inputs[1].numbers
    kernels = np.zeros((pooled, count, len(weights), kh, wide, weights.shape[3]), weights.dtype)
    for block in range(pooled):
        for number in range(count):
            at = (number * pooled + block) * sw
            kernels[block, number, :, :, at : at + kw] = weights
    inputs = [data, *_constants(conv, kernels.reshape(-1, kh, wide, weights.shape[3]), whole)]
    return _values_of(part, op.Conv(over), inputs, whole, whole)


def _taken(part: list[Node], data: Tensor, count: int) -> list[Node]:
    """Return the second layer."""
    conv = part[0]
    taken = _Walk.of(conv, count)
    assert taken is not None
    weights = conv.inputs[1].numbers
    outputs, kh, _, channels = weights.shape
    kernels = np.zeros(
        (taken.results, outputs, kh, taken.window.size[1], count, channels), weights.dtype
    )
    for number, row in enumerate(taken.places):
        for column, (pixel, inside) in enumerate(row):
            kernels[number, :, :, pixel, inside] = weights[:, :, column]
    size = (taken.results * outputs, kh, taken.window.size[1], count * channels)
    inputs = [data, *_constants(conv, kernels.reshape(size), taken.results)]
    nodes = _values_of(part, op.Conv(taken.window), inputs, taken.results, taken.results)
    result = part[-1].output
    if taken.results == 1:
        nodes[-1].outputs = [result]
    else:
        nodes[-1].output.stored = True
        nodes.append(Node(op.Unfold(taken.results), [nodes[-1].output], [result], ()))
    return nodes


def _values_of(
    part: list[Node], operator: op.Conv, inputs: list[Tensor], columns: int, times: int
) -> list[Node]:
    """Return a convolution and the elementwise nodes after it with `times` the channels, fewer
    columns.
    """
    nodes: list[Node] = []
    for source in part:
        changed: Operator = operator
        if source is not part[0]:
            inputs, changed = [nodes[-1].output], source.operator
            if isinstance(changed, op.Requantise):
                changed = op.Requantise(_repeated(changed.how, source.output.channels, times))
        frames, rows, wide, channels = source.output.shape
        made = _folded(source.output, frames, rows, wide // columns, channels * times)
        nodes.append(Node(changed, inputs, [made], source.sources))
    return nodes


def _constants(conv: Node, kernels: NDArray[Any], times: int) -> Iterator[Tensor]:
    """Yield the weights, and the bias repeated for each column."""
    weights, bias = conv.inputs[1:]
    yield constant(weights.name, kernels, weights.type)
    yield constant(bias.name, np.tile(bias.numbers, times), bias.type)


def _repeated(how: Requantisation, channels: int, times: int) -> Requantisation:
    """Return a requantisation repeated for each column; numbers for all channels are unchanged."""

    def each(values: Any) -> Any:
        return np.tile(values, times) if np.shape(values) == (channels,) else values

    return how.changed(each)


def _folded(tensor: Tensor, *shape: int) -> Tensor:
    """Return a map with the same numbers in another shape."""
    return tensor.like(f"{tensor.name}.folded", shape, stored=False)


def _gain(graph: Graph, node: Node, context: Context) -> Taken | None:
    chain = chain_of(graph, node)
    assert chain is not None
    nodes = folded(chain, _count(chain, context.shape))
    result, more = chain.second[-1].output, []
    if (user := graph.only_user(result, op.Pool)) is not None:
        result, more = user.output, [user]
    before, after = (_trial(graph, [*one, *more], result, context) for one in (chain.nodes, nodes))
    if before is None or after is None:
        return None
    with graph.unchanged():
        _splice(graph, chain, nodes)
        fits = context.fits(graph)
    return saved(before, after) if fits else None


def _trial(graph: Graph, nodes: list[Node], result: Tensor, context: Context) -> Taken | None:
    """Return the cost of nodes, with windows for the first one if possible."""
    part = part_of(nodes, [result])
    conv, data = part.nodes[0], part.nodes[0].inputs[0]
    by_host = graph.maker(data) is graph.maker(data, op.Quantise)
    with part.unchanged():
        if by_host and len(graph.users(data)) == 1:
            make_windows(part, conv, context)
        tried = [one for one in part.nodes if not isinstance(one.operator, op.Windows)]
        return context.trial(tried, [result])


FOLD = Pass(NAME, sites, legal, gain, apply, weighed=True, measured=True)
