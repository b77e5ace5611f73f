"""Functions: sequences of macro nodes without host nodes between them.

Each value has a level. Host results of level n depend on values of level n: they are computed
before function n runs. Core results of values of level n are computed in function n; the host reads
them at level n + 1. Parts and concatenations of host results alone do not come from cores. The
number of functions is thus the minimum given by the longest chain of alternations between cores and
host.
"""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import NamedTuple

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Host, Node, Quantise, Windows
from mapper.compiler.ir.tensor import Tensor

ON_HOST = (Host, Quantise, Windows)


class Function(NamedTuple):
    """Macro nodes that run in sequence.

    first, stop : first macro node and end
    inputs : feature maps that the host writes before; results : maps that it reads afterwards
    host : nodes that the host runs before
    """

    first: int
    stop: int
    inputs: list[Tensor]
    results: list[Tensor]
    host: list[Node]


class Partition(NamedTuple):
    """A model divided into functions.

    macros : macro nodes in order of execution; host : nodes that run after the last function
    outputs : feature maps and values that the user receives, or of which the host reads parts
    """

    macros: list[Macro]
    functions: list[Function]
    host: list[Node]
    outputs: list[Tensor]

    def names(self) -> list[str]:
        """Return names of the functions: target, index, and first layer."""
        return [
            f"npu_{number}_{self.macros[one.first].sources[0]}"
            for number, one in enumerate(self.functions)
        ]

    def spans(self, ends: list[int]) -> list[tuple[int, int]]:
        """Return the first instruction and end of each function; ends : ends of the macro nodes"""
        whole = [0, *ends]
        return [(whole[one.first], whole[one.stop]) for one in self.functions]

    def written(self) -> dict[Tensor, int]:
        """Return the feature maps that the host writes, with the macro node before which it does
        so: -1 for the first one."""
        return {
            tensor: one.first if one.first else -1
            for one in self.functions
            for tensor in one.inputs
        }

    def read(self) -> dict[Tensor, int]:
        """Return the feature maps that the host reads, with the last macro node before that; maps
        read after the last function are kept until the end of the frame."""
        return {
            tensor: one.stop if one is self.functions[-1] else one.stop - 1
            for one in self.functions
            for tensor in one.results
        }


class _Unit(NamedTuple):
    """A macro node, a host node, or a node that only concatenates or splits feature maps."""

    inputs: list[Tensor]
    outputs: list[Tensor]
    hosted: bool


def divide(graph: Graph, macros: list[Macro]) -> Partition:
    """Divide an integer graph into functions, in order.

    macros : its macro nodes, which cores run
    """
    units = _units(graph, macros)
    on_cores = _on_cores(units, len(macros))
    levels = _levels(units, on_cores)
    order = sorted(range(len(macros)), key=lambda at: levels[at])
    count = 1 + max((levels[at] for at in range(len(macros))), default=-1)
    maker = {tensor: at for at, unit in enumerate(units) for tensor in unit.outputs}
    inputs = _written(graph, units, levels)
    made = {tensor: levels[at] for tensor, at in maker.items() if on_cores[at]}
    results = {tensor: made[tensor] for tensor in _read(graph, units) if tensor in made}
    nodes = _hosted(graph)
    work: list[list[Node]] = [[] for _ in range(count + 1)]
    for node in nodes:
        work[min(levels[maker[node.output]], count)].append(node)
    functions, first = [], 0
    for number in range(count):
        stop = first + sum(levels[at] == number for at in range(len(macros)))
        taken = [tensor for tensor, level in inputs.items() if level == number]
        given = [tensor for tensor, level in results.items() if level == number]
        functions.append(Function(first, stop, taken, given, work[number]))
        first = stop
    parts = [
        one for one in _read(graph, units)
        if one in maker and one not in made and not units[maker[one]].hosted
    ]  # fmt: skip
    outputs = [view.tensor for view in graph.outputs.values()] + _wholes(units, maker, parts)
    return Partition([macros[at] for at in order], functions, work[count], outputs)


def _wholes(units: list[_Unit], maker: dict[Tensor, int], parts: list[Tensor]) -> list[Tensor]:
    """Return the maps of the host that these maps are parts or concatenations of."""
    found = []
    for tensor in parts:
        unit = units[maker[tensor]] if tensor in maker else None
        if unit is None or unit.hosted:
            found.append(tensor)
        else:
            found += _wholes(units, maker, unit.inputs)
    return found


def _hosted(graph: Graph) -> list[Node]:
    """Return the nodes that the host runs, in order."""
    return [node for node in graph.nodes if isinstance(node.operator, ON_HOST)]


def _units(graph: Graph, macros: list[Macro]) -> list[_Unit]:
    """Return the macro nodes, in order, followed by all other nodes."""
    units = [_Unit(macro.inputs, macro.outputs, hosted=False) for macro in macros]
    taken = {tensor for unit in units for tensor in unit.outputs}
    taken |= {tensor for macro in macros for node in macro.nodes for tensor in node.outputs}
    taken |= {macro.windows.output for macro in macros if macro.windows is not None}
    units += [
        _Unit(
            [tensor for tensor in node.inputs if tensor.value is None],
            node.outputs,
            isinstance(node.operator, ON_HOST),
        )
        for node in graph.nodes
        if node.output not in taken
    ]
    return units


def _before(units: list[_Unit]) -> dict[int, list[int]]:
    """Return the nodes that each node depends on, in the order of execution."""
    maker = {tensor: at for at, unit in enumerate(units) for tensor in unit.outputs}
    before = {
        at: [maker[tensor] for tensor in unit.inputs if tensor in maker]
        for at, unit in enumerate(units)
    }
    return {at: before[at] for at in TopologicalSorter(before).static_order()}


def _on_cores(units: list[_Unit], macros: int) -> list[bool]:
    """Return whether cores compute a node, or some of the maps that it concatenates or splits."""
    found = [at < macros for at in range(len(units))]
    for at, before in _before(units).items():
        found[at] |= not units[at].hosted and any(found[other] for other in before)
    return found


def _levels(units: list[_Unit], on_cores: list[bool]) -> list[int]:
    """Return the function that each macro node runs in, or that each other node belongs to."""
    levels = [0] * len(units)
    for at, before in _before(units).items():
        crosses = units[at].hosted
        levels[at] = max(
            (levels[other] + (crosses and on_cores[other]) for other in before), default=0
        )
    return levels


def _written(graph: Graph, units: list[_Unit], levels: list[int]) -> dict[Tensor, int]:
    """Return the feature maps that the host writes, and the first function that reads them."""
    made = [view.tensor for view in graph.inputs.values()]
    made += [tensor for unit in units if unit.hosted for tensor in unit.outputs]
    users: dict[Tensor, list[int]] = {}
    for unit, level in zip(units, levels, strict=True):
        for tensor in unit.inputs if not unit.hosted else ():
            users.setdefault(tensor, []).append(level)
    return {tensor: min(users[tensor]) for tensor in made if tensor in users}


def _read(graph: Graph, units: list[_Unit]) -> list[Tensor]:
    """Return the feature maps that the host or the user reads."""
    taken = [tensor for unit in units if unit.hosted for tensor in unit.inputs]
    taken += [view.tensor for view in graph.outputs.values()]
    return list(dict.fromkeys(taken))
