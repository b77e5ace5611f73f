"""Join convolutions on one map: each input is loaded once, and output blocks are filled.

A small kernel is padded with zeros to the size of the larger one, kernels are stacked, and the
results share memory. Sums are equal, because a zero weight adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node, Window
from mapper.compiler.ir.requantisation import Multiplier, Requantisation
from mapper.compiler.ir.tensor import Pad, Tensor, constant
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.transforms.base import Context, Pass, Site, Taken, saved

WORTH_A_TRIAL = 4.0
"""Matrix calls that may be added per vector that is not loaded; above this, joining gains
nothing."""
RUN_BEHIND = (
    op.TWO_MAPS | op.Clamp | op.Lookup | op.Pool | op.Sign | op.Threshold | op.Upsample
)  # fmt: skip


class Sibling(NamedTuple):
    """A convolution and its requantisation."""

    conv: Node
    requantise: Node

    @property
    def window(self) -> Window:
        assert isinstance(self.conv.operator, op.Conv)
        return self.conv.operator.window

    @property
    def how(self) -> Requantisation:
        assert isinstance(self.requantise.operator, op.Requantise)
        return self.requantise.operator.how

    @property
    def result(self) -> Tensor:
        return self.requantise.output


class Joined(NamedTuple):
    """One convolution in place of several, its requantisation, and the slices after it."""

    nodes: list[Node]
    slices: list[Node]


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Yield the convolutions on each map that has several."""
    maps = [node.output for node in graph.nodes] + [view.tensor for view in graph.inputs.values()]
    for tensor in maps:
        found = tuple(one.conv for one in _siblings(graph, tensor))
        if len(found) > 1:
            yield found


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    """Return None if any two may be joined, else the reason for the first two."""
    whys = [apart(graph, pair, context.shape.columns) for pair in _pairs(graph, site)]
    return None if None in whys else whys[0]


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """Return the largest gain of two convolutions."""
    return _best(graph, site, context)[0]


def apply(graph: Graph, site: Site, context: Context) -> str:
    """Join the two convolutions with the largest gain, at the place of the first one."""
    _, order = _best(graph, site, context)
    _put(graph, order, join(graph, order))
    names = ", ".join(one.conv.label for one in order)
    return f"{names}: one of {'x'.join(map(str, _kernel(order)))}"


def _pairs(graph: Graph, site: Site) -> Iterator[tuple[Sibling, Sibling]]:
    """Yield all pairs, each convolution with its requantisation."""
    both = [Sibling(conv, graph.users(conv.output)[0]) for conv in site]
    yield from combinations(both, 2)


def _best(graph: Graph, site: Site, context: Context) -> tuple[Taken | None, list[Sibling]]:
    """Return the largest gain, and its two convolutions on a map in order; None if none fit.

    Each pair is tried once; pairs that do not fit the feature memory are logged and not tried
    again.
    """
    found = []
    for pair in _pairs(graph, site):
        key = (frozenset(one.requantise for one in pair), beside(graph, in_order(graph, pair)))
        if key not in context.known:
            known = not _promising(pair, context.shape.columns)
            illegal = known or apart(graph, pair, context.shape.columns) is not None
            context.known[key] = None if illegal else weighed(graph, pair, context)
        taken = context.known[key]
        if taken is not None:
            found.append((taken, key, in_order(graph, pair)))
    found.sort(key=lambda one: one[0], reverse=True)
    for taken, key, order in found:
        with graph.unchanged():
            _put(graph, order, join(graph, order))
            fits = context.fits(graph)
        if fits:
            return taken, order
        context.known[key] = None
        names = ", ".join(one.conv.label for one in order)
        context.refused.append(f"{names}: not joined, because the feature memory is too small")
    return None, []


def weighed(graph: Graph, pair: Sequence[Sibling], context: Context) -> Taken | None:
    """Return the savings of joining two convolutions; None if they save no cycles."""
    order = in_order(graph, pair)
    made = join(graph, order)
    before = context.trial([node for one in order for node in one], [one.result for one in order])
    results = [node.output for node in made.slices] or [made.nodes[-1].output]
    after = context.trial([*made.nodes, *made.slices], results)
    gain = saved(before, after)
    return gain if gain is not None and gain.cycles > 0 else None


def _siblings(graph: Graph, tensor: Tensor) -> Iterator[Sibling]:
    """Yield ungrouped convolutions of 8 or 16 bits on a map, with their requantisation."""
    for node in graph.users(tensor):
        if not isinstance(node.operator, op.Conv) or node.operator.groups != 1:
            continue
        user = graph.only_user(node.output, op.Requantise)
        whole = user is not None and tensor.type in ("int8", "int16")
        if user is not None and whole and not _runs_behind(graph, user.output):
            yield Sibling(node, user)


def _runs_behind(graph: Graph, tensor: Tensor) -> bool:
    """Return whether an operator would run on the same tiles, but not after a slice."""
    user = graph.only_user(tensor, RUN_BEHIND)
    return user is not None and (user.is_max_pool or not isinstance(user.operator, op.Pool))


def apart(graph: Graph, pair: Sequence[Sibling], columns: int) -> str | None:
    """Return why two convolutions cannot be joined, None if they can.

    They need equal strides and dilations, paddings that differ by half of the kernel difference,
    and one kind of requantisation; parts begin at blocks, or stay adjacent.
    """
    a, b = pair
    size, dilation = _kernel(pair), _dilation(pair)
    if dilation is None:
        return "their dilations differ"
    windows = {_grown(one.window, size, dilation) for one in pair}
    if None in windows:
        return "the smaller kernel is not at the centre of the larger one"
    if len(windows) > 1:
        return "their strides or paddings differ"
    kinds = {(*one.how[1:6], one.how.negative is None, one.result.type) for one in pair}
    if len(kinds) > 1:
        return "zero points, bounds or rounding of their results differ"
    if a.result.shape[1:3] != b.result.shape[1:3]:
        return "their results have different sizes"
    if beside(graph, in_order(graph, pair)):
        return None
    if any(
        isinstance(user.operator, op.Concat | op.Interleave)
        for one in pair
        for user in graph.users(one.result)
    ):
        return "their results are parts of another map"
    if all(one.result.channels % columns for one in pair):
        return "neither ends at a block boundary"
    return None


def _kernel(pair: Sequence[Sibling]) -> tuple[int, int]:
    sizes = [one.window.size for one in pair]
    return max(size[0] for size in sizes), max(size[1] for size in sizes)


def _dilation(pair: Sequence[Sibling]) -> tuple[int, int] | None:
    """Return the dilation of rows and columns; None if they differ. A size of 1 matches any
    dilation.
    """
    found = []
    for axis in (0, 1):
        steps = {one.window.dilation[axis] for one in pair if one.window.size[axis] > 1}
        if len(steps) > 1:
            return None
        found.append(min(steps, default=1))
    return found[0], found[1]


def _grown(window: Window, size: tuple[int, int], dilation: tuple[int, int]) -> Window | None:
    """Return the window of a kernel padded evenly with zeros; None if the sizes do not permit
    it."""
    more = [large - small for large, small in zip(size, window.size, strict=True)]
    if any(one % 2 for one in more):
        return None
    rows, columns = (one // 2 * step for one, step in zip(more, dilation, strict=True))
    pad = window.pad
    grown = Pad(pad.top + rows, pad.bottom + rows, pad.left + columns, pad.right + columns)
    return Window(size, window.stride, grown, dilation)


def in_order(graph: Graph, pair: Sequence[Sibling]) -> list[Sibling]:
    """Return the order in a concatenation, else the largest power of two of channels first."""
    for user in graph.users(pair[0].result):
        joined = isinstance(user.operator, op.Concat)
        if joined and all(one.result in user.inputs for one in pair):
            inputs = user.inputs
            return sorted(pair, key=lambda one: inputs.index(one.result))
    return sorted(pair, key=lambda one: one.result.channels & -one.result.channels, reverse=True)


def beside(graph: Graph, order: Sequence[Sibling]) -> Node | None:
    """Return the concatenation that is the only user of adjacent results, None if there is none.

    It reads the whole result, so no slices are needed.
    """
    users = {id(user): user for one in order for user in graph.users(one.result)}
    if len(users) != 1 or any(graph.is_output(one.result) for one in order):
        return None
    (user,) = users.values()
    if user.operator != op.Concat(3) or len({*user.inputs}) != len(user.inputs):
        return None
    at = user.inputs.index(order[0].result)
    same = user.inputs[at : at + len(order)] == [one.result for one in order]
    return user if same else None


def _promising(pair: Sequence[Sibling], columns: int) -> bool:
    """Return whether enough loads are saved to make up for additional matrix calls."""
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
    """Return stacked kernels, biases and factors as new nodes; the graph is unchanged."""
    size, first, dilation = _kernel(order), order[0], _dilation(order)
    assert dilation is not None
    window = _grown(first.window, size, dilation)
    assert window is not None
    weights = np.concatenate([_padded(one.conv.inputs[1].numbers, size) for one in order])
    bias = np.concatenate([_channels(one.conv.inputs[2].value, one) for one in order])
    sources = tuple(dict.fromkeys(name for one in order for name in one.conv.sources))
    data, result = first.conv.inputs[0], first.result
    shape = (1, *result.shape[1:3], len(bias))
    constants = [
        constant(one.name, value, one.type)
        for one, value in zip(first.conv.inputs[1:], (weights, bias), strict=True)
    ]
    name = "+".join(one.result.name for one in order)
    sums = Tensor(f"{name}.sums", shape, first.conv.output.type)
    whole = result.like(name, shape)
    nodes = [
        Node(op.Conv(window), [data, *constants], [sums], sources),
        Node(op.Requantise(_stacked(order)), [sums], [whole], sources),
    ]
    slices, at = [], 0
    for one in order if beside(graph, order) is None else ():
        slices.append(Node(op.Slice(3, at), [whole], [one.result], one.requantise.sources))
        at += one.result.channels
    return Joined(nodes, slices)


def _padded(weights: NDArray[np.int64], size: tuple[int, int]) -> NDArray[np.int64]:
    rows, columns = (
        (large - small) // 2 for large, small in zip(size, weights.shape[1:3], strict=True)
    )
    return np.pad(weights, ((0, 0), (rows, rows), (columns, columns), (0, 0)))


def _channels(value: object, one: Sibling) -> NDArray[np.int64]:
    """Return one number per channel."""
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


def _put(graph: Graph, order: Sequence[Sibling], made: Joined) -> None:
    """Insert the joined convolution at the place of the first one."""
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


SIBLINGS = Pass("siblings", sites, legal, gain, apply, weighed=True, measured=True)
