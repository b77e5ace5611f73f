"""Concatenation and splitting by sharing memory: no instruction copies data for them.

The largest map owns the region: the result of a concatenation, the input of a split. The others
have a place inside it, and its strides. Who makes a part writes it there; who takes the whole reads
all parts at once. Regions nest: a part may be a concatenation, and own parts of its own. Columns in
the channels of a pixel become pixels in the same way, where each begins at a vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Concat, Copy, Node, Operator, Slice, Unfold
from mapper.compiler.graph.tensor import Tensor
from mapper.errors import MapperError

SHARES: tuple[type[Operator], ...] = (Concat, Slice, Unfold)
"""Operators that own no work."""


class Place(NamedTuple):
    """Where a map lies in the one that owns its region: row, column, and channel.

    columns : that a pixel of the owner holds in its channels; it has no other owner then
    """

    owner: Tensor
    row: int = 0
    column: int = 0
    channel: int = 0
    columns: int = 1

    def inside(self, other: Place) -> Place:
        """The same map in the region that its owner lies in."""
        return Place(
            other.owner,
            self.row + other.row,
            self.column + other.column,
            self.channel + other.channel,
        )


Places = Mapping[Tensor, Place]


def share(graph: Graph, lanes: Mapping[str, int]) -> tuple[dict[Tensor, Place], list[str]]:
    """Where the parts of concatenations and splits lie, and the log.

    lanes : channels of a vector, by the type of a map
    Adds nodes that copy, where a map is in two regions that have nothing to do with each other.
    Raises `MapperError` that names a concatenation whose parts do not begin at vectors, or have
    different scales.
    """
    told = _nest(graph)
    graph.nodes = [node for node in graph.nodes if _wanted(graph, node)]
    homes: dict[Tensor, Place] = {}
    for node in graph.nodes:
        if isinstance(node.operator, Slice):
            homes[node.output] = _place(node.inputs[0], node.operator.axis, node.operator.first)
        elif isinstance(node.operator, Unfold):
            homes[node.output] = Place(node.inputs[0], columns=node.operator.count)
    for node in reversed([one for one in graph.nodes if isinstance(one.operator, Concat)]):
        told += _share_parts(graph, node, homes)
    for tensor, place in homes.items():
        _require_whole_vectors(graph, tensor, place, lanes)
    places = {}
    for tensor, place in homes.items():
        while place.owner in homes:
            place = place.inside(homes[place.owner])
        places[tensor] = place
    return places, told


def _wanted(graph: Graph, node: Node) -> bool:
    """Whether somebody takes what a node makes, if all that it does is to take a part."""
    used = graph.users(node.output) or graph.is_output(node.output)
    return bool(used) or not isinstance(node.operator, Slice)


def _nest(graph: Graph) -> list[str]:
    """A concatenation of the parts of another one, in their order, and more takes that one: so they
    share a region."""
    told = []
    parts: list[tuple[Node, list[Tensor]]] = []  # of concatenations, as the model has them
    for node in [node for node in graph.nodes if isinstance(node.operator, Concat)]:
        mine = list(node.inputs)
        parts.append((node, mine))
        for inner, its in sorted(parts[:-1], key=lambda one: -len(one[1])):
            size = len(its)
            places = [at for at in range(len(mine) - size + 1) if mine[at : at + size] == its]
            if inner.operator == node.operator and places and size > 1:
                node.inputs[places[0] : places[0] + size] = [inner.output]
                told.append(f"{node.label}: takes {inner.label} in place of its parts")
                break
    return told


def _share_parts(graph: Graph, node: Node, homes: dict[Tensor, Place]) -> list[str]:
    """Give the parts of a concatenation their places; parts that have one elsewhere are copied."""
    told = []
    assert isinstance(node.operator, Concat)
    axis, at, known = node.operator.axis, 0, {node.output}
    parts: list[Tensor] = []
    for tensor in node.inputs:
        parts += _loose(graph, tensor, axis) if tensor in homes or tensor in known else [tensor]
        known.add(tensor)
    node.inputs = parts
    for number, tensor in enumerate(parts):
        if (tensor.scale, tensor.zero_point, tensor.type) != (
            node.output.scale, node.output.zero_point, node.output.type,
        ):  # fmt: skip
            raise MapperError(
                f"{node.label}: joins numbers of different scales, such as signs and others; keep "
                f"it on the host with --keep {node.sources[0]}"
            )
        place = _place(node.output, axis, at)
        at += tensor.shape[axis]
        if tensor in homes:
            name = f"{tensor.name}.copy{sum(one.kind == 'copy' for one in graph.nodes) + 1}"
            copy = Tensor(
                name, tensor.shape, tensor.type, tensor.scale, tensor.zero_point, stored=True
            )
            maker = graph.maker(tensor)
            where = 0 if maker is None else graph.nodes.index(maker) + 1
            graph.nodes.insert(where, Node(Copy(), [tensor], [copy], node.sources))
            node.inputs[number] = tensor = copy
            told.append(
                f"{node.label}: a copy of {tensor.name}, which is in another region as well"
            )
        homes[tensor] = place
    return told


def _loose(graph: Graph, tensor: Tensor, axis: int) -> list[Tensor]:
    """A map that must be copied: the parts that it is made of, for their makers store them twice,
    while a concatenation has no maker."""
    maker = graph.maker(tensor)
    if maker is None or not isinstance(maker.operator, Concat) or maker.operator.axis != axis:
        return [tensor]
    return [one for part in maker.inputs for one in _loose(graph, part, axis)]


def _place(owner: Tensor, axis: int, at: int) -> Place:
    return Place(owner, *(at if axis == one else 0 for one in (1, 2, 3)))


def _require_whole_vectors(
    graph: Graph, tensor: Tensor, place: Place, lanes: Mapping[str, int]
) -> None:
    if place.channel % lanes.get(tensor.type, lanes["int8"]):
        node = graph.maker(tensor)
        name = tensor.name if node is None else node.label
        raise MapperError(
            f"{name}: begins at channel {place.channel} of {place.owner.name}, inside of a vector "
            f"of {lanes.get(tensor.type, lanes['int8'])} channels"
        )
