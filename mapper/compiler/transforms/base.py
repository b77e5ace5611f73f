"""Interface of graph passes: candidate sites, legality, gain and application.

A site is a node, or several nodes that change together. Each applied change adds a line to the log.

Where a trial would take too long, savings are estimated. Cycles count the unit with the most
removed work: one cycle per matrix call, and one per vector stored or written by the ALU. Bytes
count vectors that are no longer loaded and stored. Overlap with other units is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Conv, Dense, Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.log import CompileLog
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.settings import FewChannels
from mapper.compiler.transforms.switches import SWITCHES, PassTexts

Site = tuple[Node, ...]
"""Nodes that a pass changes together; the log names the first one."""


class Taken(NamedTuple):
    """Cycles from the first to the last instruction; bytes loaded and stored."""

    cycles: int
    bytes: int


Trial = Callable[[Sequence[Node], Sequence[Tensor]], Taken | None]
"""Returns the cost of nodes that compute some results; None if they do not fit."""


def saved(before: Taken | None, after: Taken | None) -> Taken | None:
    """Return the savings of a change; None if a cost is unknown."""
    if before is None or after is None:
        return None
    return Taken(before.cycles - after.cycles, before.bytes - after.bytes)


@dataclass(slots=True)
class Context:
    """State shared by passes.

    shape : shape of the core
    trial : returns the cost of nodes on the core; without it, costs are unknown, and passes that
        compare them change nothing
    fits : whether all maps of a graph fit the feature memory
    few_channels : where windows are built; auto selects the option with the fewest cycles per layer
    marked : by pass name, nodes that the pass must not change again
    stored : maps in memory when the macro node under construction runs
    known : results of earlier trials
    refused : log texts about changes that the running pass did not apply
    cores : number of cores that share the layers
    """

    shape: NpuShape = field(default_factory=NpuShape)
    trial: Trial = lambda _, __: None
    fits: Callable[[Graph], bool] = lambda _: True
    few_channels: FewChannels = "auto"
    marked: dict[str, set[Node]] = field(default_factory=dict)
    stored: set[Tensor] = field(default_factory=set)
    known: dict[Any, Any] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    cores: int = 1
    log: CompileLog = field(default_factory=CompileLog)

    def mark(self, name: str, node: Node) -> None:
        self.marked.setdefault(name, set()).add(node)

    def is_marked(self, name: str, node: Node) -> bool:
        return node in self.marked.get(name, ())


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass; ``--disable NAME`` switches it off.

    sites : returns candidate sites of a graph
    legal : returns the reason why a site cannot be changed, None if it can
    gain : returns the savings, estimated unless `measured` by trials; None if unknown
    apply : changes a site, and returns its log text
    weighed : whether it is applied only where it saves cycles
    """

    name: str
    sites: Callable[[Graph, Context], Iterable[Site]]
    legal: Callable[[Graph, Site, Context], str | None]
    gain: Callable[[Graph, Site, Context], Taken | None]
    apply: Callable[[Graph, Site, Context], str]
    weighed: bool = False
    measured: bool = False

    @property
    def texts(self) -> PassTexts:
        return SWITCHES[self.name]

    def line(self, what: str, gain: Taken | None) -> str:
        """Return the log line of a site."""
        return f"{self.name}: {what}{'' if gain is None else said(gain, self.measured)}"


def sweep(one: Pass, graph: Graph, context: Context) -> bool:
    """Apply a pass wherever it is legal and profitable, until nothing changes; return whether
    anything changed."""
    before, changed = len(context.log.lines), True
    while changed:
        changed = False
        for site in list(one.sites(graph, context)):
            here = set(graph.nodes)
            if not here.issuperset(site) or one.legal(graph, site, context) is not None:
                continue
            gain = one.gain(graph, site, context)
            if one.weighed and (gain is None or gain.cycles <= 0):
                continue
            context.log.add(one.line(one.apply(graph, site, context), gain))
            changed = True
    applied = len(context.log.lines) > before
    context.log.lines += [f"{one.name}: {line}" for line in context.refused]
    context.refused.clear()
    return applied


def said(gain: Taken, measured: bool) -> str:
    """Return cycles and bytes as text; estimates start with "about"."""
    about = "" if measured else "about "
    words = [
        f"{abs(one):,} {what}{'s' * (abs(one) != 1)}"
        for one, what in zip(gain, ("cycle", "byte"), strict=True)
    ]
    if min(gain) >= 0:
        return f"; {about}{' and '.join(words)} less"
    ends = ["more" if one < 0 else "less" for one in gain]
    return f"; {about}{', '.join(map(' '.join, zip(words, ends, strict=True)))}"


def vectors(tensor: Tensor, shape: NpuShape) -> int:
    """Return the vectors of a map stored in 8 bits, or in 16 or 1 according to its type."""
    bits = 8 if tensor.type == "float32" else min(tensor.bits, 16)
    lanes = max(1, 8 * shape.columns // bits)
    return tensor.height * tensor.width * blocks_of(tensor.channels, lanes)


def calls(node: Node, shape: NpuShape) -> int:
    """Return the matrix calls of a layer; for depthwise layers, the calls of the depthwise unit."""
    outputs, kh, kw, taken = node.inputs[1].shape
    data, made = node.inputs[0], node.output
    pixels = made.height * made.width * kh * kw * blocks_of(outputs, shape.rows)
    groups = node.operator.groups if isinstance(node.operator, Conv) else 1
    if groups == data.channels == made.channels and groups > 1:
        return pixels
    return pixels * blocks_of(taken * groups, shape.columns)


def added_by_16_bits(node: Node, shape: NpuShape) -> float:
    """Return the cycles that 16 bits add to a layer of 8 bits on a dual core: matrix calls that are
    no pairs, or a second vector of each part of its maps."""
    maps = [one for one in (*node.inputs, node.output) if one.value is None]
    moved = max(vectors(one, shape) for one in maps)
    return max(moved, calls(node, shape) / 2 if isinstance(node.operator, Conv | Dense) else 0)


def of_each_channel(tensor: Tensor, made: Tensor, shape: NpuShape) -> Taken:
    """Return the cost of a node as a depthwise 1x1 convolution.

    It takes one call per vector of its result, and keeps both maps in memory.
    """
    written = vectors(made, shape)
    return Taken(written, shape.columns * (vectors(tensor, shape) + written))


def round_trip(tensor: Tensor, shape: NpuShape) -> Taken:
    """Return the cost of storing a map and loading it again."""
    count = vectors(tensor, shape)
    return Taken(count, 2 * shape.columns * count)


def flattened(node: Node, shape: NpuShape) -> Taken:
    """Return the cost of a dense layer whose map the host flattens into one vector.

    These are additional matrix calls, and the flits of the map from the core and back.
    """
    assert isinstance(node.operator, Dense | Conv)
    outputs, kh, kw, taken = node.inputs[1].shape
    if kh * kw == 1:
        return Taken(0, 0)
    size = shape.columns * vectors(node.inputs[0], shape)
    again = blocks_of(outputs, shape.rows) * blocks_of(kh * kw * taken, shape.columns)
    flits = math.ceil(2 * size / max(1, shape.payload_bits // 8))
    return Taken(again - calls(node, shape) + flits, 2 * size)
