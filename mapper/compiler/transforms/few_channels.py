"""Turn convolutions of few input channels into 1x1 convolutions over their windows (im2col).

A matrix call reads one input per array column. A first layer of 3 channels and 7x7 kernels takes 49
calls per pixel with 13 of 16 columns idle, but 10 calls over windows of 147 values. Windows include
padding. The host builds them, or the window unit of the core does while it loads: then the host
sends the map in planes, with channels padded to groups of four.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node, Window
from mapper.compiler.ir.tensor import Tensor, constant
from mapper.compiler.memory.layouts import WORD_VECTORS, plane_words
from mapper.compiler.memory.planner import blocks_of, pixel_vectors
from mapper.compiler.numerics.windows import GROUP, columns_of_kernels
from mapper.compiler.tiling.windows import headers_short, refusal
from mapper.compiler.transforms.base import Context, Pass, Site, Taken
from mapper.compiler.transforms.fuse import fuse
from mapper.errors import DoesNotFitError

NAME = "few-channels"
Way = Literal["core", "host", "off"]
"""Where the windows of a layer are built; off: nowhere."""
SAYS: dict[Way, str] = {"core": "by the window unit", "host": "by the host", "off": "off"}


class WindowCost(NamedTuple):
    """Cost of an option.

    cycles : cycles of the layer on a core; others : lower bound of the cycles of all other layers
    flits : flits of the map
    """

    cycles: int
    others: int
    flits: int

    def rank(self, cores: int) -> tuple[int, int, int]:
        """Return the sort key of an option, lower is better.

        The first element is the initiation interval of cores that share the layers. The host sends
        the map of the next frame while cores compute, one flit per cycle, so the slower of both
        counts.
        """
        return max((self.cycles + self.others) // cores, self.flits), self.cycles, self.flits


class WindowOptions(NamedTuple):
    """Options for a layer whose windows save calls.

    calls : matrix calls per pixel of each option
    why : reason why the window unit is not an option
    """

    calls: dict[Way, int]
    why: str = ""

    def said(self, way: Way) -> str:
        return f"windows {SAYS[way]}, {self.calls['off']} -> {self.calls[way]} calls per pixel"


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Yield convolutions that are the only user of a map from the host."""
    inputs = [view.tensor for view in graph.inputs.values()]
    inputs += [node.output for node in graph.nodes_of(op.Quantise)]
    for tensor in inputs:
        if (node := graph.only_user(tensor, op.Conv)) is not None:
            yield (node,)


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    (node,) = site
    window, bits = _window(node), node.inputs[0].type == "bits"
    assert isinstance(node.operator, op.Conv)
    if node.operator.groups != 1:
        return "it has groups"
    if window.size == (1, 1):
        return "its kernel is 1x1"
    if bits and any(window.pad):
        return "padding zeros have no binary value"
    ways = ways_of(node, context.shape)
    if ways.calls["host"] >= ways.calls["off"]:
        return "windows save no matrix calls"
    if context.few_channels == "off":
        return "windows are switched off"
    if context.few_channels == "core" and ways.why:
        if not context.is_marked(NAME, node):
            context.mark(NAME, node)
            context.refused.append(f"{node.label}: no windows by the window unit: {ways.why}")
        return ways.why
    return None


def ways_of(node: Node, shape: NpuShape) -> WindowOptions:
    """Return the options for a layer."""
    columns, tensor = shape.columns, node.inputs[0]
    _, kh, kw, inputs = node.inputs[1].shape
    size = 8 * columns if tensor.type == "bits" else columns
    calls: dict[Way, int] = {
        "off": kh * kw * blocks_of(inputs, size),
        "host": blocks_of(kh * kw * inputs, size),
    }
    by_core = blocks_of(kh * kw * GROUP * blocks_of(inputs, GROUP), size)
    why = refusal(_window(node), tensor, node.output, shape)
    if not why and by_core >= calls["off"]:
        why = f"{calls['off']} calls per pixel would become {by_core}"
    return WindowOptions(calls if why else {**calls, "core": by_core}, why)


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """Return the matrix calls saved; sent and loaded bytes may increase. None if no windows are
    best.
    """
    (node,) = site
    way, _, ways = _choice(graph, node, context)
    if way == "off":
        return None
    shape, made, data = context.shape, node.output, node.inputs[0]
    pixels = made.height * made.width
    calls = (ways.calls["off"] - ways.calls[way]) * pixels * blocks_of(made.channels, shape.rows)
    plain = data.height * data.width * pixel_vectors(data, shape.columns)
    sent = pixels * ways.calls[way] if way == "host" else _plane_vectors(data, shape)
    return Taken(calls, shape.columns * (plain - sent))


def _choice(graph: Graph, node: Node, context: Context) -> tuple[Way, str, WindowOptions]:
    """Select where the windows of a layer are built; return the reason, and all options."""
    key = NAME, node
    if key not in context.known:
        ways, choice = ways_of(node, context.shape), context.few_channels
        if choice == "auto":
            way, why = _fewest(graph, node, ways, context)
        else:
            way, why = choice, ""
        context.known[key] = way, why, ways
        if way == "off":
            context.refused.append(f"{node.label}: {ways.said(way)}{why}")
    found: tuple[Way, str, WindowOptions] = context.known[key]
    return found


def _fewest(graph: Graph, node: Node, ways: WindowOptions, context: Context) -> tuple[Way, str]:
    """Return the option with the fewest cycles, and the reason.

    Windows from the host need the fewest calls, and load no slower than they multiply. If they fit
    and arrive while cores compute, no option is faster.
    """
    shape, tensor, cores = context.shape, node.inputs[0], context.cores
    others = sum(_calls(one, shape) for one in graph.nodes if one is not node)
    found: dict[Way, WindowCost | None] = {}
    for way in ("host", "core", "off"):
        if way not in ways.calls or (way == "core" and headers_short(node.output, shape, cores)):
            continue
        with graph.unchanged():
            _make(graph, node, way)
            if not context.fits(graph):
                found[way] = None
                continue
            flits = _flits(tensor if way == "core" else node.inputs[0], shape, cores)
            if way == "host" and flits <= (others + _calls(node, shape)) // cores:
                return way, f", and their {flits:,} flits arrive while cores compute"
            found[way] = _cost(graph, node, flits, others, context)
    known = {way: cost for way, cost in found.items() if cost is not None}
    said = [
        f"{SAYS[way]}: {cost.cycles:,} cycles and {cost.flits:,} flits"
        if cost is not None
        else f"{SAYS[way]}: does not fit"
        for way, cost in found.items()
    ]
    best: Way = min(known, key=lambda way: known[way].rank(cores)) if known else "host"
    return best, f"; {', '.join(said)}"


def _cost(graph: Graph, node: Node, flits: int, others: int, context: Context) -> WindowCost | None:
    """Return the cost of a layer; None if it does not fit.

    others : matrix calls of all other layers
    """
    macro = next(one for one in fuse(graph) if one.conv is node)
    first = [macro.windows] if macro.windows is not None else []
    taken = context.trial([*first, *macro.nodes], [macro.output])
    if taken is None and context.cores > 1:  # it may be spread over several cores
        return WindowCost(_calls(node, context.shape), others, flits)
    return None if taken is None else WindowCost(taken.cycles, others, flits)


def _flits(tensor: Tensor, shape: NpuShape, cores: int) -> int:
    """Return the flits that the host sends for a map; several cores get only the existing
    planes."""
    pixels = tensor.height * tensor.width
    if tensor.planes and cores > 1:
        return -(-pixels * tensor.channels * 8 // shape.payload_bits)
    whole = pixels * pixel_vectors(tensor, shape.columns)
    vectors = _plane_vectors(tensor, shape) if tensor.planes else whole
    return -(-vectors * 8 * shape.columns // shape.payload_bits)


def _plane_vectors(tensor: Tensor, shape: NpuShape) -> int:
    """Return the vectors of a map in planes."""
    pixels = tensor.height * tensor.width
    return WORD_VECTORS * plane_words(tensor.channels, pixels, 2 * shape.columns)


def _calls(node: Node, shape: NpuShape) -> int:
    """Return the matrix calls of a convolution, a lower bound of its cycles."""
    if not isinstance(node.operator, op.Conv):
        return 0
    outputs, kh, kw, inputs = node.inputs[1].shape
    size = shape.columns * (8 if node.inputs[0].type == "bits" else 1)
    blocks = blocks_of(outputs, shape.rows) * blocks_of(inputs, size)
    return node.output.height * node.output.width * kh * kw * blocks


def apply(graph: Graph, site: Site, context: Context) -> str:
    """Build windows on the host or the core.

    Raises `DoesNotFitError` that names a layer if a core has too few packet headers for it.
    """
    (node,) = site
    way, why, ways = _choice(graph, node, context)
    if way == "core" and (short := headers_short(node.output, context.shape, context.cores)):
        raise DoesNotFitError(
            f"{node.label}: {short}; build windows on the host with --few-channels host, or "
            "use a core with more"
        )
    _make(graph, node, way)
    return f"{node.label}: {ways.said(way)}{why}"


def make_windows(graph: Graph, node: Node, context: Context) -> None:
    """Build windows where they save calls, as selected; `auto` selects the host."""
    ways, choice = ways_of(node, context.shape).calls, context.few_channels
    way: Way = "host" if choice == "auto" else choice
    if ways["host"] < ways["off"] and _window(node).size != (1, 1) and way in ways:
        _make(graph, node, way)


def _make(graph: Graph, node: Node, way: Way) -> None:
    """Insert windows by the host or the core before a convolution."""
    if way == "off":
        return
    tensor, weights, window = node.inputs[0], node.inputs[1], _window(node)
    made, flat = (
        (op.WindowColumns(window), columns_of_kernels(weights.numbers))
        if way == "core"
        else (op.Windows(window), weights.numbers.reshape(weights.shape[0], 1, 1, -1))
    )
    tensor.planes, tensor.stored = way == "core", way == "core"
    shape = (1, node.output.height, node.output.width, flat.shape[3])
    result = tensor.like(f"{tensor.name}.windows", shape, stored=way == "host")
    graph.nodes.insert(graph.nodes.index(node), Node(made, [tensor], [result], node.sources))
    node.operator = op.Conv(Window((1, 1)))
    node.inputs[:2] = [result, constant(weights.name, flat, weights.type)]


def _window(node: Node) -> Window:
    assert isinstance(node.operator, op.Conv)
    return node.operator.window


FEW_CHANNELS = Pass(NAME, sites, legal, gain, apply, weighed=True)
