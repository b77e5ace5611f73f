"""Convolutions of few input channels become 1x1 convolutions over their windows.

A matrix call takes as many inputs as the array has columns. A first layer of 3 channels and 7x7
kernels takes 49 calls for a pixel, 13 of 16 columns idle; of its windows of 147 values it takes 10.
The host makes the windows, padding included, or the window unit of the core does while it loads:
then the host sends the map itself, in planes, with channels filled up to groups of four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import (
    Conv,
    Node,
    Operator,
    Quantise,
    Window,
    WindowColumns,
    Windows,
)
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.integer.windows import GROUP, columns_of_kernels
from mapper.compiler.memory.layouts import WORD_VECTORS, plane_words
from mapper.compiler.memory.planner import blocks_of, pixel_vectors
from mapper.compiler.passes.fuse import fuse
from mapper.compiler.passes.trial import Trial
from mapper.compiler.schedule.windows import headers_short, refusal
from mapper.errors import DoesNotFitError

FewChannels = Literal["auto", "core", "host", "off"]
Way = Literal["core", "host", "off"]
"""Who makes the windows of a layer, if somebody does."""
SAYS: dict[Way, str] = {"core": "by the window unit", "host": "by the host", "off": "not at all"}


class Cost(NamedTuple):
    """What a way takes.

    cycles : of the layer on a core; others : of all other layers, at least; flits : of the map
    """

    cycles: int
    others: int
    flits: int

    @property
    def rank(self) -> tuple[int, int, int]:
        """What decides, smaller first: cycles from a frame to the next. The host sends the map of
        the next frame while cores work, a flit a cycle: whatever takes longer counts."""
        return max(self.cycles + self.others, self.flits), self.cycles, self.flits


class Ways(NamedTuple):
    """The ways that there are for a layer, if windows save calls; calls : of each, for a pixel

    why : the window unit is not among them
    """

    calls: dict[Way, int]
    why: str = ""

    def said(self, way: Way) -> str:
        return f"windows {SAYS[way]}, {self.calls['off']} -> {self.calls[way]} calls a pixel"


class Weighing(NamedTuple):
    """What decides who makes windows.

    trial : what nodes take on a core
    fits : whether all maps of a graph fit the feature memory
    """

    shape: NpuShape
    trial: Trial
    fits: Callable[[Graph], bool]


def window_inputs(graph: Graph, wish: FewChannels, how: Weighing) -> list[str]:
    """Replace convolutions on maps of the host where that saves calls; returns the log.

    wish : who makes windows; auto takes the way of the fewest cycles for each layer
    Raises `DoesNotFitError` that names a layer for whose packets a core has too few headers.
    """
    told = []
    for tensor, node in _first_layers(graph):
        ways = legal(tensor, node, how.shape)
        if not ways.calls or wish == "off":
            continue
        if wish == "auto":
            way, why = _fewest(graph, tensor, node, ways, how)
        elif wish == "core" and "core" not in ways.calls:
            told.append(f"{node.label}: no windows by the window unit: {ways.why}")
            continue
        else:
            way, why = wish, ""
        if way == "core" and (short := headers_short(node.output, how.shape)):
            raise DoesNotFitError(
                f"{node.label}: {short}; let the host make windows with --few-channels host, or "
                "take a core with more"
            )
        apply(graph, tensor, node, way)
        told.append(f"{node.label}: {ways.said(way)}{why}")
    return told


def _fewest(graph: Graph, tensor: Tensor, node: Node, ways: Ways, how: Weighing) -> tuple[Way, str]:
    """The way of the fewest cycles, and why.

    The host's windows take the fewest calls, and no longer to load than to multiply. So nothing is
    faster if they fit, and come while cores work.
    """
    others = sum(_calls(one, how.shape) for one in graph.nodes if one is not node)
    found: dict[Way, Cost | None] = {}
    for way in ("host", "core", "off"):
        if way not in ways.calls or (way == "core" and headers_short(node.output, how.shape)):
            continue
        with _applied(graph, tensor, node, way):
            if not how.fits(graph):
                found[way] = None
                continue
            flits = _flits(tensor if way == "core" else node.inputs[0], how.shape)
            if way == "host" and flits <= others + _calls(node, how.shape):
                return way, f", and their {flits:,} flits come while cores work"
            found[way] = gain(graph, node, flits, others, how)
    known = {way: cost for way, cost in found.items() if cost is not None}
    said = [
        f"{SAYS[way]} {cost.cycles:,} cycles and {cost.flits:,} flits"
        if cost is not None
        else f"{SAYS[way]} it does not fit"
        for way, cost in found.items()
    ]
    best: Way = min(known, key=lambda way: known[way].rank) if known else "host"
    return best, f"; {', '.join(said)}"


def _first_layers(graph: Graph) -> Iterator[tuple[Tensor, Node]]:
    """Maps that the host makes, and the one convolution that takes them."""
    inputs = [view.tensor for view in graph.inputs.values()]
    inputs += [node.output for node in graph.nodes if isinstance(node.operator, Quantise)]
    for tensor in inputs:
        node = graph.only_user(tensor)
        if node is not None and isinstance(node.operator, Conv) and node.operator.groups == 1:
            yield tensor, node


def legal(tensor: Tensor, node: Node, shape: NpuShape) -> Ways:
    """The ways to make a layer, none if windows save no calls."""
    operator, columns = node.operator, shape.columns
    assert isinstance(operator, Conv)
    window, (_, kh, kw, inputs) = operator.window, node.inputs[1].shape
    bits = tensor.type == "bits"
    size = 8 * columns if bits else columns
    calls: dict[Way, int] = {
        "off": kh * kw * blocks_of(inputs, size),
        "host": blocks_of(kh * kw * inputs, size),
    }
    if calls["host"] >= calls["off"] or (kh, kw) == (1, 1) or (bits and any(window.pad)):
        return Ways({})  # there is no bit for the zeros around a map
    by_core = blocks_of(kh * kw * GROUP * blocks_of(inputs, GROUP), size)
    why = refusal(window, tensor, node.output, shape)
    if not why and by_core >= calls["off"]:
        why = f"{calls['off']} calls a pixel would be {by_core}"
    return Ways(calls if why else {**calls, "core": by_core}, why)


def gain(graph: Graph, node: Node, flits: int, others: int, how: Weighing) -> Cost | None:
    """What a layer costs as it is; None if it does not fit. others : calls of all other layers"""
    macro = next(one for one in fuse(graph) if one.conv is node)
    first = [macro.windows] if macro.windows is not None else []
    taken = how.trial([*first, *macro.nodes], [macro.output])
    if taken is None:
        return None
    return Cost(taken.cycles, others, flits)


@contextmanager
def _applied(graph: Graph, tensor: Tensor, node: Node, way: Way) -> Iterator[None]:
    """The graph with a layer made one way, and afterwards as it was."""
    operator, inputs, nodes = node.operator, list(node.inputs), list(graph.nodes)
    kept = [(one, one.stored, one.planes) for one in graph.tensors()]
    apply(graph, tensor, node, way)
    try:
        yield
    finally:
        node.operator, node.inputs, graph.nodes = operator, inputs, nodes
        for one, stored, planes in kept:
            one.stored, one.planes = stored, planes


def _flits(tensor: Tensor, shape: NpuShape) -> int:
    """That the host sends of a map."""
    pixels = tensor.height * tensor.width
    if tensor.planes:
        vectors = WORD_VECTORS * plane_words(tensor.channels, pixels, 2 * shape.columns)
    else:
        vectors = pixels * pixel_vectors(tensor, shape.columns)
    return -(-vectors * 8 * shape.columns // shape.payload_bits)


def _calls(node: Node, shape: NpuShape) -> int:
    """Matrix calls of a convolution: less than the cycles that it takes."""
    if not isinstance(node.operator, Conv):
        return 0
    outputs, kh, kw, inputs = node.inputs[1].shape
    size = shape.columns * (8 if node.inputs[0].type == "bits" else 1)
    blocks = blocks_of(outputs, shape.rows) * blocks_of(inputs, size)
    return node.output.height * node.output.width * kh * kw * blocks


def apply(graph: Graph, tensor: Tensor, node: Node, way: Way) -> None:
    """Let the host or the core make the windows of a convolution."""
    if way == "off":
        return
    operator, weights = node.operator, node.inputs[1]
    assert isinstance(operator, Conv)
    assert weights.value is not None
    window = operator.window
    made, flat = (
        (WindowColumns(window), columns_of_kernels(weights.value))
        if way == "core"
        else (Windows(window), weights.value.reshape(len(weights.value), 1, 1, -1))
    )
    tensor.planes, tensor.stored = way == "core", way == "core"
    result = Tensor(
        f"{tensor.name}.windows", (1, node.output.height, node.output.width, flat.shape[3]),
        tensor.type, tensor.scale, tensor.zero_point, stored=way == "host",
    )  # fmt: skip
    _insert(graph, node, made, tensor, result)
    node.operator = Conv(Window((1, 1)))
    node.inputs[:2] = [result, Tensor(weights.name, flat.shape, weights.type, value=flat)]


def _insert(graph: Graph, node: Node, made: Operator, tensor: Tensor, result: Tensor) -> None:
    """A node that makes windows, before the convolution that takes them."""
    at = graph.nodes.index(node)
    graph.nodes.insert(at, Node(made, [tensor], [result], node.sources))
