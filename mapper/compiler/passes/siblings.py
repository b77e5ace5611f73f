"""Convolutions on one map become one: each input is loaded once, and output blocks are filled.

A small kernel is padded with zeros to the size of the larger one, kernels are stacked, and the
result is parted by sharing memory. Sums are the same, for a zero weight adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import (
    Add,
    Clamp,
    Concat,
    Conv,
    Node,
    Pool,
    Requantise,
    Sign,
    Slice,
    Threshold,
    Upsample,
    Window,
)
from mapper.compiler.graph.tensor import Pad, Tensor
from mapper.compiler.integer.formulas import Multiplier, Requantisation
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.passes.trial import Trial

WORTH_A_TRIAL = 4.0
"""Matrix calls that may be added for each vector that is not loaded: beyond, nothing is gained."""


class Sibling(NamedTuple):
    """A convolution and its requantisation."""

    conv: Node
    requantise: Node

    @property
    def window(self) -> Window:
        assert isinstance(self.conv.operator, Conv)
        return self.conv.operator.window

    @property
    def how(self) -> Requantisation:
        assert isinstance(self.requantise.operator, Requantise)
        return self.requantise.operator.how

    @property
    def result(self) -> Tensor:
        return self.requantise.output


class Joined(NamedTuple):
    """One convolution instead of some, its requantisation, and the slices behind it."""

    nodes: list[Node]
    slices: list[Node]


class Weighing(NamedTuple):
    """What decides whether convolutions are joined.

    columns : channels of a vector; trial : what nodes take on a core
    fits : whether all maps of a graph fit the feature memory
    """

    columns: int
    trial: Trial
    fits: Callable[[Graph], bool]


def join_siblings(graph: Graph, how: Weighing) -> list[str]:
    """Join the convolutions on each map, two at a time, while cycles are gained."""
    told = []
    for tensor in [node.output for node in graph.nodes] + [v.tensor for v in graph.inputs.values()]:
        refused: set[frozenset[Tensor]] = set()
        while (best := _best(graph, tensor, how, refused)) is not None:
            names = ", ".join(one.conv.label for one in best.order)
            before = [(node, list(node.inputs)) for node in graph.nodes]
            apply(graph, best.order, best.made)
            if not how.fits(graph):
                graph.nodes = [node for node, _ in before]
                for node, inputs in before:
                    node.inputs = inputs
                refused.add(_key(best.order))
                told.append(f"{names}: not joined, as the feature memory is too small for it")
                continue
            kernel = "x".join(map(str, _kernel(best.order)))
            told.append(
                f"{names}: one of {kernel}; {best.cycles:,} cycles and {best.bytes:,} bytes less"
            )
    return told


class Gain(NamedTuple):
    """What joining two convolutions saves; made : what comes in their place."""

    cycles: int
    bytes: int
    order: list[Sibling]
    made: Joined


def _best(
    graph: Graph, tensor: Tensor, how: Weighing, refused: set[frozenset[Tensor]]
) -> Gain | None:
    """The two convolutions on a map that gain most; None if none do.

    refused : pairs that need no trial any more
    """
    found = []
    for pair in combinations(list(_siblings(graph, tensor)), 2):
        known = _key(pair) in refused or not _promising(pair, how.columns)
        if known or not legal(graph, pair, how.columns):
            continue
        one = gain(graph, pair, how.trial)
        if one is None:
            refused.add(_key(pair))
        else:
            found.append(one)
    return max(found, key=lambda one: (one.cycles, one.bytes), default=None)


def _key(pair: Sequence[Sibling]) -> frozenset[Tensor]:
    return frozenset(one.result for one in pair)


def gain(graph: Graph, pair: Sequence[Sibling], trial: Trial) -> Gain | None:
    """What it saves to join two convolutions; None if it saves no cycles."""
    order = in_order(graph, pair)
    made = join(graph, order)
    before = trial([node for one in order for node in one], [one.result for one in order])
    results = [node.output for node in made.slices] or [made.nodes[-1].output]
    after = trial([*made.nodes, *made.slices], results)
    if before is None or after is None or after.cycles >= before.cycles:
        return None
    return Gain(before.cycles - after.cycles, before.bytes - after.bytes, order, made)


def _siblings(graph: Graph, tensor: Tensor) -> Iterator[Sibling]:
    """Ordinary convolutions of bytes, or 16 bits, on a map, whose sums nobody else takes."""
    for node in graph.users(tensor):
        if not isinstance(node.operator, Conv) or node.operator.groups != 1:
            continue
        user = graph.only_user(node.output)
        if user is None or not isinstance(user.operator, Requantise):
            continue
        if tensor.type in ("int8", "int16") and not _runs_behind(graph, user.output):
            yield Sibling(node, user)


def _runs_behind(graph: Graph, tensor: Tensor) -> bool:
    """Whether more would run on the same tiles, and not any more behind a slice."""
    user = graph.only_user(tensor)
    if user is None:
        return False
    largest = isinstance(user.operator, Pool) and user.operator.kind == "max"
    return largest or isinstance(user.operator, Add | Clamp | Sign | Threshold | Upsample)


def legal(graph: Graph, pair: Sequence[Sibling], columns: int) -> bool:
    """Equal strides and dilations, paddings that differ by half of the kernels' difference, one
    kind of requantisation; parts begin at blocks, or stay beside each other."""
    a, b = pair
    size, dilation = _kernel(pair), _dilation(pair)
    if dilation is None:
        return False
    windows = {_grown(one.window, size, dilation) for one in pair}
    kinds = {(*one.how[1:6], one.how.negative is None, one.result.type) for one in pair}
    if None in windows or len(windows) > 1 or len(kinds) > 1:
        return False
    if a.result.shape[1:3] != b.result.shape[1:3]:
        return False
    if beside(graph, in_order(graph, pair)):
        return True
    joins = [
        user
        for one in pair
        for user in graph.users(one.result)
        if isinstance(user.operator, Concat)
    ]
    return not joins and any(one.result.channels % columns == 0 for one in pair)


def _kernel(pair: Sequence[Sibling]) -> tuple[int, int]:
    sizes = [one.window.size for one in pair]
    return max(size[0] for size in sizes), max(size[1] for size in sizes)


def _dilation(pair: Sequence[Sibling]) -> tuple[int, int] | None:
    """Of rows and columns; None if they differ. A kernel of one pixel has any."""
    found = []
    for axis in (0, 1):
        steps = {one.window.dilation[axis] for one in pair if one.window.size[axis] > 1}
        if len(steps) > 1:
            return None
        found.append(min(steps, default=1))
    return found[0], found[1]


def _grown(window: Window, size: tuple[int, int], dilation: tuple[int, int]) -> Window | None:
    """The window of a kernel that is padded with zeros on all sides alike; None if it cannot be."""
    more = [large - small for large, small in zip(size, window.size, strict=True)]
    if any(one % 2 for one in more):
        return None
    rows, columns = (one // 2 * step for one, step in zip(more, dilation, strict=True))
    pad = window.pad
    grown = Pad(pad.top + rows, pad.bottom + rows, pad.left + columns, pad.right + columns)
    return Window(size, window.stride, grown, dilation)


def in_order(graph: Graph, pair: Sequence[Sibling]) -> list[Sibling]:
    """As a concatenation has them; else first those that end at whole blocks."""
    for user in graph.users(pair[0].result):
        places = [_place(user, one.result) for one in pair]
        if isinstance(user.operator, Concat) and None not in places:
            order = sorted(range(len(pair)), key=lambda at: places[at] or 0)
            return [pair[at] for at in order]
    return sorted(pair, key=lambda one: one.result.channels & -one.result.channels, reverse=True)


def _place(user: Node, tensor: Tensor) -> int | None:
    return user.inputs.index(tensor) if tensor in user.inputs else None


def beside(graph: Graph, order: Sequence[Sibling]) -> Node | None:
    """The concatenation of channels that alone takes them, one behind the other, if there is one:
    it takes the whole, and nothing is parted."""
    users = {id(user): user for one in order for user in graph.users(one.result)}
    if len(users) != 1 or any(graph.is_output(one.result) for one in order):
        return None
    (user,) = users.values()
    if user.operator != Concat(3) or len({*user.inputs}) != len(user.inputs):
        return None
    at = user.inputs.index(order[0].result)
    same = user.inputs[at : at + len(order)] == [one.result for one in order]
    return user if same else None


def _promising(pair: Sequence[Sibling], columns: int) -> bool:
    """Whether so many loads are saved that more matrix calls may be worth it."""
    size, data = _kernel(pair), pair[0].conv.inputs[0]
    blocks, pixels = blocks_of(data.channels, columns), pair[0].result.shape[1:3]
    outputs = sum(one.result.channels for one in pair)
    after = size[0] * size[1] * blocks_of(outputs, columns)
    before = sum(
        one.window.size[0] * one.window.size[1] * blocks_of(one.result.channels, columns)
        for one in pair
    )
    calls = (after - before) * pixels[0] * pixels[1] * blocks
    return calls <= WORTH_A_TRIAL * data.height * data.width * blocks


def join(graph: Graph, order: Sequence[Sibling]) -> Joined:
    """Their stacked kernels, biases and factors; the graph stays as it is."""
    size, first, dilation = _kernel(order), order[0], _dilation(order)
    assert dilation is not None
    window = _grown(first.window, size, dilation)
    assert window is not None
    weights = np.concatenate([_padded(one.conv.inputs[1].value, size) for one in order])
    bias = np.concatenate([_channels(one.conv.inputs[2].value, one) for one in order])
    sources = tuple(dict.fromkeys(name for one in order for name in one.conv.sources))
    data, result = first.conv.inputs[0], first.result
    shape = (1, *result.shape[1:3], len(bias))
    constants = [
        Tensor(first.conv.inputs[1].name, weights.shape, first.conv.inputs[1].type, value=weights),
        Tensor(first.conv.inputs[2].name, bias.shape, first.conv.inputs[2].type, value=bias),
    ]
    name = "+".join(one.result.name for one in order)
    sums = Tensor(f"{name}.sums", shape, first.conv.output.type)
    whole = Tensor(name, shape, result.type, result.scale, result.zero_point, stored=True)
    nodes = [
        Node(Conv(window), [data, *constants], [sums], sources),
        Node(Requantise(_stacked(order)), [sums], [whole], sources),
    ]
    slices, at = [], 0
    for one in order if beside(graph, order) is None else ():
        slices.append(Node(Slice(3, at), [whole], [one.result], one.requantise.sources))
        at += one.result.channels
    return Joined(nodes, slices)


def _padded(weights: NDArray[np.int64] | None, size: tuple[int, int]) -> NDArray[np.int64]:
    assert weights is not None
    rows, columns = (
        (large - small) // 2 for large, small in zip(size, weights.shape[1:3], strict=True)
    )
    return np.pad(weights, ((0, 0), (rows, rows), (columns, columns), (0, 0)))


def _channels(value: object, one: Sibling) -> NDArray[np.int64]:
    """A number for each channel."""
    return np.broadcast_to(np.asarray(value, np.int64), one.result.channels)


def _stacked(order: Sequence[Sibling]) -> Requantisation:
    hows = [one.how for one in order]

    def stack(values: Sequence[object]) -> NDArray[np.int64]:
        pairs = zip(values, order, strict=True)
        return np.concatenate([_channels(value, one) for value, one in pairs])

    def factors(parts: Sequence[Multiplier]) -> Multiplier:
        return Multiplier(stack([one.m0 for one in parts]), stack([one.n for one in parts]))

    negative = [how.negative for how in hows if how.negative is not None]
    offsets = stack([how.offset for how in hows])
    return hows[0]._replace(
        factor=factors([how.factor for how in hows]),
        offset=offsets if offsets.any() else 0,
        negative=factors(negative) if negative else None,
    )


def apply(graph: Graph, order: Sequence[Sibling], made: Joined) -> None:
    """Put one convolution at the place of the first of them."""
    join_of = beside(graph, order)
    if not made.slices:
        assert join_of is not None
        at = join_of.inputs.index(order[0].result)
        join_of.inputs[at : at + len(order)] = [made.nodes[-1].output]
    old = [node for one in order for node in one]
    at = min(map(graph.nodes.index, old))
    gone = set(map(id, old))
    graph.nodes = [
        *graph.nodes[:at], *made.nodes, *made.slices,
        *(node for node in graph.nodes[at:] if id(node) not in gone),
    ]  # fmt: skip
