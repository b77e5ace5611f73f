"""Unprofitable islands: groups of nodes whose transfer costs more than a core saves.

An island is a connected set of nodes that cores run without host nodes between them. Its feature
maps are sent to the core and back: the host quantises and packs each element, and the host port
accepts one flit per cycle. If this takes longer than the computation on the host, the island stays
on the host.

This is decided before quantisation, from the constants below only: neither the shape of the core
nor options that must not affect results change it, as the host computes real numbers and cores
integers. (Partially) quantised models have no such islands: their integer nodes are computed as
integers. Neither have signs, which cores compute exactly. If all islands of a model are
unprofitable, the best one still runs on cores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.partition.hostwork import exchange_cycles, operations, taps

FLIT, BLOCK = 8, 16
"""Bytes per cycle of the host port, and channels per vector, of the default core."""


@dataclass(eq=False)
class Island:
    """Nodes that cores run without host nodes between them.

    taken, given : feature maps that the host writes and reads
    """

    nodes: list[Node] = field(default_factory=list)
    taken: list[Tensor] = field(default_factory=list)
    given: list[Tensor] = field(default_factory=list)

    @property
    def packing(self) -> int:
        """Cycles to convert and transfer its feature maps; the latency counts once."""
        maps = [*self.taken, *self.given]
        vectors = [_pixels(one) * blocks_of(one.channels, BLOCK) for one in maps]
        flits = sum(-(-count * BLOCK // FLIT) for count in vectors)
        return exchange_cycles(maps) + flits

    @property
    def saved(self) -> int:
        """Host cycles minus core cycles of its work; nodes from the same model node count only
        once on the host."""
        host: dict[tuple[str, ...], int] = {}
        for node in self.nodes:
            host[node.sources] = max(host.get(node.sources, 0), operations(node))
        return sum(host.values()) - sum(_on_core(node) for node in self.nodes)

    @property
    def gain(self) -> int:
        return self.saved - self.packing

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for node in self.nodes for name in node.sources))


def _pixels(tensor: Tensor) -> int:
    return tensor.height * tensor.width


def _on_core(node: Node) -> int:
    """Return the core cycles of a node: one matrix call per block pair; else one per vector."""
    if isinstance(node.operator, op.MOVES):
        return 0
    made, blocks = node.output, 1
    if isinstance(node.operator, op.Conv | op.Dense):
        blocks = blocks_of(node.inputs[1].shape[-1], BLOCK)
    return _pixels(made) * blocks_of(made.channels, BLOCK) * taps(node) * blocks


def islands(graph: Graph) -> list[Island]:
    """Return the islands of a floating-point graph, in the order of their first nodes."""
    parent: dict[Tensor | str, Tensor | str] = {}

    def root(one: Tensor | str) -> Tensor | str:
        while (above := parent.setdefault(one, one)) is not one:
            one = above
        return one

    own = [node for node in graph.nodes if not isinstance(node.operator, op.Host)]
    made = {tensor for node in own for tensor in node.outputs}
    for node in own:  # nodes from the same model node belong together
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
    """Return whether the host or the user reads a feature map."""
    users = graph.users(tensor)
    return graph.is_output(tensor) or any(isinstance(node.operator, op.Host) for node in users)


def lonely(graph: Graph, names: Collection[str]) -> dict[str, str]:
    """Return the model nodes that stay on the host because of the cost of packing, with reasons.

    graph : floating-point graph after all passes; names : all nodes of the model
    """
    all_ = islands(graph)
    losing = [
        one
        for one in all_
        if one.gain < 0
        and not any(isinstance(node.operator, op.Sign | op.Levels) for node in one.nodes)
    ]
    if len(losing) == len(all_) and losing:
        losing.remove(max(losing, key=lambda one: one.gain))
    return {name: _why(one) for one in losing for name in one.names if name in names}


def _why(island: Island) -> str:
    count = len(island.names)
    what = "it is" if count == 1 else f"it and {count - 1} other{'s' * (count > 2)} are"
    return (
        f"{what} isolated between host nodes: packing takes {island.packing:,} cycles, a core "
        f"saves {max(0, island.saved):,}"
    )
