"""Lonely islands: nodes among work of the host that cost more in packing than a core saves.

An island is what cores run of a model without work of the host between. Its maps go to the core and
back: the host quantises and packs each element, and the host port takes a flit a cycle. Where that
is longer than the host needs for the work itself, the island stays on the host.

This is decided before anything is quantised, with the numbers below and nothing else: neither the
shape of the core nor an option that leaves results alone changes it, since the numbers of the host
are real where those of cores are integers. Models that are quantised already, if only in part, have
no such islands: what they say is integer is computed so. Nor have signs, which a core makes exactly
as a model wants them. If all islands of a model cost more, the one that costs least stays.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.frontend.model import IDLE, Model, built, idle
from mapper.compiler.frontend.onnx import ASKED
from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import (
    Concat,
    Conv,
    Dense,
    Host,
    Levels,
    Node,
    Pool,
    Sign,
    Slice,
    Upsample,
)
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.passes.base import Context
from mapper.compiler.passes.constants import CONSTANTS
from mapper.compiler.passes.registry import optimise
from mapper.compiler.quantise.rest import is_in_part
from mapper.compiler.schedule.packing import HOST_LATENCY
from mapper.compiler.stages import stage

HOST_OPERATION = 1
"""Cycles of a core that the host takes for a product with its sum, for a comparison, or to store or
read an element as an integer: a processor of the same clock that does one thing at a time."""
FLIT, BLOCK = 8, 16
"""Bytes of the host port in a cycle, and channels of a vector, of the default core."""
DEFAULT_SHAPE = NpuShape()
MOVES = (Concat, Slice, Upsample)


@dataclass(eq=False)
class Island:
    """Nodes that cores run without work of the host between.

    taken, given : maps that the host writes and reads
    """

    nodes: list[Node] = field(default_factory=list)
    taken: list[Tensor] = field(default_factory=list)
    given: list[Tensor] = field(default_factory=list)

    @property
    def packing(self) -> int:
        """Cycles to store its maps as integers, and to send them: once around for all of them."""
        maps = [*self.taken, *self.given]
        vectors = [_pixels(one) * blocks_of(one.channels, BLOCK) for one in maps]
        elements = sum(_pixels(one) * one.channels for one in maps)
        flits = sum(-(-count * BLOCK // FLIT) for count in vectors)
        return 2 * HOST_LATENCY + flits + elements * HOST_OPERATION

    @property
    def saved(self) -> int:
        """Cycles that the host needs for its work, less those of a core: several nodes may do the
        work of one of the model, which the host does at one go."""
        host: dict[tuple[str, ...], int] = {}
        for node in self.nodes:
            host[node.sources] = max(host.get(node.sources, 0), _on_host(node))
        return sum(host.values()) - sum(_on_core(node) for node in self.nodes)

    @property
    def gain(self) -> int:
        return self.saved - self.packing

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for node in self.nodes for name in node.sources))


def _pixels(tensor: Tensor) -> int:
    return tensor.height * tensor.width


def _taps(node: Node) -> int:
    """Pixels that an element of the result is made from, of each channel that it is made from."""
    operator = node.operator
    if isinstance(operator, Dense):
        return _pixels(node.inputs[0])
    return math.prod(operator.window.size) if isinstance(operator, Conv | Pool) else 1


def _on_host(node: Node) -> int:
    made = node.output
    channels = node.inputs[1].shape[-1] if isinstance(node.operator, Conv | Dense) else 1
    return _pixels(made) * made.channels * _taps(node) * channels * HOST_OPERATION


def _on_core(node: Node) -> int:
    """A matrix call of each block of results and block of inputs; of others a cycle per vector."""
    if isinstance(node.operator, MOVES):
        return 0
    made, blocks = node.output, 1
    if isinstance(node.operator, Conv | Dense):
        blocks = blocks_of(node.inputs[1].shape[-1], BLOCK)
    return _pixels(made) * blocks_of(made.channels, BLOCK) * _taps(node) * blocks


def islands(graph: Graph) -> list[Island]:
    """The islands of a graph of floats, in the order of their first nodes."""
    parent: dict[Tensor | str, Tensor | str] = {}

    def root(one: Tensor | str) -> Tensor | str:
        while (above := parent.setdefault(one, one)) is not one:
            one = above
        return one

    own = [node for node in graph.nodes if not isinstance(node.operator, Host)]
    made = {tensor for node in own for tensor in node.outputs}
    for node in own:  # nodes of one source are one thing
        near: Iterable[Tensor | str] = (
            *node.sources, *node.outputs, *(one for one in node.inputs if one in made),
        )  # fmt: skip
        roots = [root(one) for one in near]
        for one in roots[1:]:
            parent[root(one)] = root(roots[0])
    found: dict[Tensor | str, Island] = {}
    for node in own:
        island = found.setdefault(root(node.output), Island())
        island.nodes.append(node)
        island.taken += [
            one
            for one in dict.fromkeys(node.inputs)
            if one.value is None and one not in made and one not in island.taken
        ]
        island.given += [one for one in node.outputs if _is_read(graph, one)]
    return list(found.values())


def _is_read(graph: Graph, tensor: Tensor) -> bool:
    """Whether the host takes a map, or the user."""
    users = graph.users(tensor)
    return graph.is_output(tensor) or any(isinstance(node.operator, Host) for node in users)


def lonely(graph: Graph, names: Collection[str]) -> dict[str, str]:
    """The nodes of the model that stay on the host because of what packing costs, and why.

    graph : of floats, passes done; names : of all nodes of the model
    """
    all_ = islands(graph)
    losing = [
        one
        for one in all_
        if one.gain < 0 and not any(isinstance(node.operator, Sign | Levels) for node in one.nodes)
    ]
    if len(losing) == len(all_) and losing:
        losing.remove(max(losing, key=lambda one: one.gain))
    return {name: _why(one) for one in losing for name in one.names if name in names}


def _why(island: Island) -> str:
    count = len(island.names)
    what = "it is" if count == 1 else f"it and {count - 1} other{'s' * (count > 2)} are"
    return (
        f"{what} alone among nodes of the host: packing takes {island.packing:,} cycles, and a "
        f"core saves {max(0, island.saved):,}"
    )


def optimised(
    model: Model, kept: Collection[str], off: Collection[str] = (), shape: NpuShape = DEFAULT_SHAPE
) -> tuple[Graph, list[str]]:
    """The graph of floats of a model, passes done, lonely islands on the host; and the log.

    kept : ONNX nodes on the host; off : passes that are not applied
    shape : of the core, for what the log says that they save
    """
    fold = CONSTANTS.name not in off
    with stage("read"):
        graph = built(model, kept, fold)
    with stage("optimise"):
        told = optimise(graph, off, Context(shape))
    if is_in_part(graph):
        return graph, told
    judged = graph
    if off and len(islands(graph)) > 1:
        judged = model.build(kept)
        optimise(judged)
    found = lonely(judged, {part.name for part in model.parts})
    found |= dict.fromkeys(idle(judged) - set(kept), IDLE)
    if found:
        with stage("read"):
            graph = built(model, {**dict.fromkeys(kept, ASKED), **found}, fold)
        with stage("optimise"):
            told = optimise(graph, off, Context(shape))
    graph.notes += [f"{name}: stays on the host: {why}" for name, why in found.items()]
    return graph, told
