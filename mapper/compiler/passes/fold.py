"""Pixels of few channels hold several columns, so that no rows and columns of the array are idle.

A layer of 8 outputs uses half of 16 rows, and the layer behind it half of the columns. So the first
one makes two columns of its result with one call, of a kernel that reaches over the windows of
both, and the second one takes two places of its kernel at once. A pixel of the map between holds
two columns in its channels; these are the same bytes in the same order, seen in another way.

Where columns are pooled between the layers, pixels hold the columns of a pooled pixel one behind
the other in blocks, each with the columns that go to other pooled pixels beside them. The second
layer makes a result for each of the columns in a pixel; each has blocks of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import (
    Clamp,
    Conv,
    Node,
    Operator,
    Pool,
    Quantise,
    Requantise,
    Unfold,
    Window,
    Windows,
)
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.integer.formulas import Multiplier, Requantisation
from mapper.compiler.passes.base import Context, Pass, Site, Taken
from mapper.compiler.passes.few_channels import make_windows
from mapper.compiler.passes.trial import part_of

NAME = "fold"


class Chain(NamedTuple):
    """Two convolutions, and what is between them and behind the second one.

    first, second : a convolution and what goes value by value behind it
    pool : between them, or None
    """

    first: list[Node]
    pool: Node | None
    second: list[Node]

    @property
    def nodes(self) -> list[Node]:
        return [*self.first, *([] if self.pool is None else [self.pool]), *self.second]

    @property
    def pooled(self) -> int:
        """Columns of a pooled pixel."""
        if self.pool is None:
            return 1
        assert isinstance(self.pool.operator, Pool)
        return self.pool.operator.window.size[1]

    @property
    def label(self) -> str:
        return f"{self.first[0].label} and {self.second[0].label}"


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Two convolutions with nothing but what goes value by value, and pooling, between."""
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
        return f"{taken.channels} channels go not several times into {shape.columns}"
    maps = (chain.first[0].inputs[0], made, chain.second[-1].output)
    if any(tensor.type != "int8" for tensor in maps):
        return "a map is not of bytes"
    if made.width % (count * chain.pooled):
        return "columns are left over"
    if not _pools_alike(chain):
        return "a column goes to several pooled pixels, or is averaged"
    for part in (chain.first, chain.second):
        operator, tensors = part[0].operator, part[0].inputs
        assert isinstance(operator, Conv)
        if operator.groups != 1 or operator.window.dilation[1] != 1:
            return "a kernel is dilated, or has groups"
        if len(tensors) != 3 or any(tensor.value is None for tensor in tensors[1:]):
            return "weights are not constant"
    if not _behind(graph, chain, count, shape):
        return "the second layer cannot make several columns"
    return None


def _count(chain: Chain, shape: NpuShape) -> int:
    """Columns of a pixel between the layers."""
    return shape.columns // chain.second[0].inputs[0].channels


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """By trials of both ways, with what pools the result; None if maps do not fit afterwards."""
    if (NAME, site) not in context.known:
        context.known[NAME, site] = _gain(graph, site[0], context)
    found: Taken | None = context.known[NAME, site]
    return found


def apply(graph: Graph, site: Site, context: Context) -> str:
    chain = chain_of(graph, site[0])
    assert chain is not None
    count = _count(chain, context.shape)
    _splice(graph, chain, folded(chain, count))
    return f"{chain.label}: {count} columns in a pixel"


def _splice(graph: Graph, chain: Chain, nodes: list[Node]) -> None:
    """Other nodes in place of a chain, where it ends."""
    at = graph.nodes.index(chain.nodes[-1]) + 1
    graph.nodes[at:at] = nodes
    graph.nodes = [one for one in graph.nodes if one not in chain.nodes]


def chain_of(graph: Graph, node: Node) -> Chain | None:
    """The chain that a convolution begins, if there is one: nobody else takes what is inside."""
    if not isinstance(node.operator, Conv):
        return None
    first, pool = _values(graph, node), None
    user = graph.only_user(first[-1].output)
    if user is not None and isinstance(user.operator, Pool):
        pool, user = user, graph.only_user(user.output)
    if user is None or not isinstance(user.operator, Conv):
        return None
    return Chain(first, pool, _values(graph, user))


def _values(graph: Graph, conv: Node) -> list[Node]:
    """A convolution and what goes value by value behind it."""
    found = [conv]
    while (user := graph.only_user(found[-1].output)) is not None:
        if not isinstance(user.operator, Requantise | Clamp):
            break
        found.append(user)
    return found


def _pools_alike(chain: Chain) -> bool:
    """Whether each column of a map goes to one pooled pixel."""
    if chain.pool is None:
        return True
    operator = chain.pool.operator
    assert isinstance(operator, Pool)
    window = operator.window
    return (
        operator.kind == "max"
        and window.size[1] == window.stride[1]
        and window.dilation[1] == 1
        and not (window.pad.left or window.pad.right)
        and chain.pool.output.width * window.size[1] == chain.first[-1].output.width
    )


def _behind(graph: Graph, chain: Chain, count: int, shape: NpuShape) -> bool:
    """Whether the second layer can make its result: as it is, or column by column in blocks."""
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
        and all(isinstance(node.operator, Conv | Pool) for node in users)
    )


class _Walk(NamedTuple):
    """How the second layer walks over a folded map.

    results : columns of its result that a step makes
    places : of each of them, where the kernel's columns lie: which pixel, and which column in it
    window : over the folded map
    """

    results: int
    places: list[list[tuple[int, int]]]
    window: Window

    @classmethod
    def of(cls, conv: Node, count: int) -> _Walk | None:
        """None if its steps and the columns of a pixel do not go together."""
        assert isinstance(conv.operator, Conv)
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
    """The nodes of a chain over a folded map, in their order; the result is that of the chain."""
    pooled = chain.pooled
    nodes = _made(chain.first, count, pooled)
    between = nodes[-1].output
    if chain.pool is not None:
        source = chain.pool
        if pooled > 1:
            between = _wide(nodes, between, pooled)
        shape = (*source.output.shape[:2], source.output.width // count, between.channels)
        result = _like(source.output, shape, stored=False)
        nodes.append(Node(source.operator, [between], [result], source.sources))
        between = result
    return nodes + _taken(chain.second, between, count)


def _wide(nodes: list[Node], tensor: Tensor, count: int) -> Tensor:
    """Add a node that makes pixels of the columns in a pixel; returns its result."""
    tensor.stored = True
    frames, rows, columns, channels = tensor.shape
    shape = (frames, rows, columns * count, channels // count)
    result = _like(tensor, shape, name=f"{tensor.name}.columns")
    nodes.append(Node(Unfold(count), [tensor], [result], ()))
    return result


def _made(part: list[Node], count: int, pooled: int) -> list[Node]:
    """The first layer: blocks of the columns of a pooled pixel, in each the same column of `count`
    pooled pixels side by side."""
    conv = part[0]
    operator = conv.operator
    assert isinstance(operator, Conv)
    window, data, whole = operator.window, conv.inputs[0], count * pooled
    (kh, kw), (sh, sw) = window.size, window.stride
    wide = kw + (whole - 1) * sw
    steps = conv.output.width // whole
    right = max(0, (steps - 1) * whole * sw + wide - data.width - window.pad.left)
    over = Window((kh, wide), (sh, whole * sw), window.pad._replace(right=right), window.dilation)
    weights = conv.inputs[1].value
    assert weights is not None
    kernels = np.zeros((pooled, count, len(weights), kh, wide, weights.shape[3]), weights.dtype)
    for block in range(pooled):
        for number in range(count):
            at = (number * pooled + block) * sw
            kernels[block, number, :, :, at : at + kw] = weights
    inputs = [data, *_constants(conv, kernels.reshape(-1, kh, wide, weights.shape[3]), whole)]
    return _values_of(part, Conv(over), inputs, whole, whole)


def _taken(part: list[Node], data: Tensor, count: int) -> list[Node]:
    """The second layer."""
    conv = part[0]
    taken = _Walk.of(conv, count)
    assert taken is not None
    weights = conv.inputs[1].value
    assert weights is not None
    outputs, kh, _, channels = weights.shape
    kernels = np.zeros(
        (taken.results, outputs, kh, taken.window.size[1], count, channels), weights.dtype
    )
    for number, row in enumerate(taken.places):
        for column, (pixel, inside) in enumerate(row):
            kernels[number, :, :, pixel, inside] = weights[:, :, column]
    size = (taken.results * outputs, kh, taken.window.size[1], count * channels)
    inputs = [data, *_constants(conv, kernels.reshape(size), taken.results)]
    nodes = _values_of(part, Conv(taken.window), inputs, taken.results, taken.results)
    result = part[-1].output
    if taken.results == 1:
        nodes[-1].outputs = [result]
    else:
        nodes[-1].output.stored = True
        nodes.append(Node(Unfold(taken.results), [nodes[-1].output], [result], ()))
    return nodes


def _values_of(
    part: list[Node], operator: Conv, inputs: list[Tensor], columns: int, times: int
) -> list[Node]:
    """A convolution and what goes value by value behind it, with `times` as many channels and a
    part of the columns."""
    nodes: list[Node] = []
    for source in part:
        changed: Operator = operator
        if source is not part[0]:
            inputs, changed = [nodes[-1].output], source.operator
            if isinstance(changed, Requantise):
                changed = Requantise(_repeated(changed.how, source.output.channels, times))
        frames, rows, wide, channels = source.output.shape
        made = _like(source.output, (frames, rows, wide // columns, channels * times))
        nodes.append(Node(changed, inputs, [made], source.sources))
    return nodes


def _constants(conv: Node, kernels: NDArray[Any], times: int) -> Iterator[Tensor]:
    """Weights, and the bias for each column."""
    weights, bias = conv.inputs[1:]
    assert bias.value is not None
    yield Tensor(weights.name, kernels.shape, weights.type, value=kernels)
    whole = np.tile(bias.value, times)
    yield Tensor(bias.name, whole.shape, bias.type, value=whole)


def _repeated(how: Requantisation, channels: int, times: int) -> Requantisation:
    """The same for each column; numbers for all channels stay as they are."""

    def each(values: Any) -> Any:
        return np.tile(values, times) if np.shape(values) == (channels,) else values

    def factors(one: Multiplier) -> Multiplier:
        return Multiplier(*map(each, one))

    negative = None if how.negative is None else factors(how.negative)
    return how._replace(factor=factors(how.factor), offset=each(how.offset), negative=negative)


def _like(tensor: Tensor, shape: tuple[int, ...], stored: bool = False, name: str = "") -> Tensor:
    """A map of the same numbers with another shape."""
    return Tensor(
        name or f"{tensor.name}.folded", shape, tensor.type, tensor.scale, tensor.zero_point,
        stored=stored,
    )  # fmt: skip


def _gain(graph: Graph, node: Node, context: Context) -> Taken | None:
    chain = chain_of(graph, node)
    assert chain is not None
    nodes, kept = folded(chain, _count(chain, context.shape)), list(graph.nodes)
    result, more = chain.second[-1].output, []
    user = graph.only_user(result)
    if user is not None and isinstance(user.operator, Pool):
        result, more = user.output, [user]
    before, after = (_trial(graph, [*one, *more], result, context) for one in (chain.nodes, nodes))
    if before is None or after is None:
        return None
    _splice(graph, chain, nodes)
    fits = context.fits(graph)
    graph.nodes = kept
    return Taken(before.cycles - after.cycles, before.bytes - after.bytes) if fits else None


def _trial(graph: Graph, nodes: list[Node], result: Tensor, context: Context) -> Taken | None:
    """What nodes take, the first one over windows if it can have them."""
    if context.trial is None:
        return None
    part = part_of(nodes, [result])
    conv, data = part.nodes[0], part.nodes[0].inputs[0]
    maker, kept = graph.maker(data), (data.stored, data.planes)
    if (maker is None or isinstance(maker.operator, Quantise)) and len(graph.users(data)) == 1:
        make_windows(part, conv, context)
    tried = [one for one in part.nodes if not isinstance(one.operator, Windows)]
    taken = context.trial(tried, [result])
    data.stored, data.planes = kept
    return taken


FOLD = Pass(
    NAME, sites, legal, gain, apply,
    what="a map of few channels between two convolutions, perhaps pooled, holds several columns in "
    "a pixel: 8 channels of two columns fill 16 rows of the first layer, and 16 columns of the "
    "second one",
    legal_if="maps of bytes; a whole number of columns fills a vector, pixels fill rows, and "
    "pooled pixels have columns of their own; results of the second layer fill blocks, for "
    "convolutions and pooling",
    applied_if="it fits, and cycles are saved",
    gains="cycles and bytes of both layers as programs of their own",
    weighed=True, measured=True,
)  # fmt: skip
