"""Concatenation and splitting by sharing memory, without copying data.

The largest feature map owns the region: the result of a concatenation, the input of a split. The
others have a place inside it and use its strides, or multiples of them if they provide every n-th
row or column. Parts are written in place; readers of the whole read all parts at once. Regions
nest: a part may be a concatenation with its own parts. Columns stored in the channels of a pixel
become pixels in the same way if each starts at a vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import JOINS, Concat, Copy, Interleave, Node, Operator, Slice, Unfold
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.log import CompileLog
from mapper.errors import MapperError


class Place(NamedTuple):
    """Place of a map inside the owner of its region: row, column, and channel.

    columns : columns stored in the channels of an owner's pixel; such owners are not nested
    row_step, column_step : rows and columns of the owner per row and column of the map
    """

    owner: Tensor
    row: int = 0
    column: int = 0
    channel: int = 0
    columns: int = 1
    row_step: int = 1
    column_step: int = 1

    def inside(self, other: Place) -> Place:
        """Return the place in the region of the owner's owner."""
        return Place(
            other.owner,
            self.row * other.row_step + other.row,
            self.column * other.column_step + other.column,
            self.channel + other.channel,
            row_step=self.row_step * other.row_step,
            column_step=self.column_step * other.column_step,
        )


Places = Mapping[Tensor, Place]


def share(graph: Graph, lanes: Mapping[str, int], log: CompileLog) -> dict[Tensor, Place]:
    """Return the places of the parts of concatenations and splits.

    lanes : channels per vector, by type of feature map
    Adds copy nodes where a map belongs to two unrelated regions.
    Raises `MapperError` that names a concatenation whose parts do not start at vectors, or have
    different scales.
    """
    _nest(graph, log)
    graph.nodes = [node for node in graph.nodes if _wanted(graph, node)]
    homes: dict[Tensor, Place] = {}
    for node in graph.nodes:
        if isinstance(node.operator, Slice):
            homes[node.output] = _place(node.inputs[0], node.operator.axis, node.operator.first)
        elif isinstance(node.operator, Unfold):
            homes[node.output] = Place(node.inputs[0], columns=node.operator.count)
    for node in reversed(graph.nodes_of(JOINS)):
        _share_parts(graph, node, homes, log)
    for tensor, place in homes.items():
        _require_whole_vectors(graph, tensor, place, lanes)
    places = {}
    for tensor, place in homes.items():
        while place.owner in homes:
            place = place.inside(homes[place.owner])
        places[tensor] = place
    return places


def _wanted(graph: Graph, node: Node) -> bool:
    """Return whether a node is needed; unused slices are not."""
    used = graph.users(node.output) or graph.is_output(node.output)
    return bool(used) or not isinstance(node.operator, Slice)


def _nest(graph: Graph, log: CompileLog) -> None:
    """Let a concatenation that contains all parts of another one, in order, use its result instead,
    so that they share a region."""
    parts: list[tuple[Node, list[Tensor]]] = []  # concatenations with their original inputs
    for node in graph.nodes_of(Concat):
        mine = list(node.inputs)
        parts.append((node, mine))
        for inner, its in sorted(parts[:-1], key=lambda one: -len(one[1])):
            size = len(its)
            places = [at for at in range(len(mine) - size + 1) if mine[at : at + size] == its]
            if inner.operator == node.operator and places and size > 1:
                node.inputs[places[0] : places[0] + size] = [inner.output]
                log.add(f"{node.label}: uses {inner.label} instead of its parts")
                break


def _share_parts(graph: Graph, node: Node, homes: dict[Tensor, Place], log: CompileLog) -> None:
    """Set the places of a concatenation's parts; parts that have one elsewhere are copied."""
    known = {node.output}
    parts: list[Tensor] = []
    for tensor in node.inputs:
        taken = tensor in homes or tensor in known
        parts += _loose(graph, tensor, node.operator) if taken else [tensor]
        known.add(tensor)
    node.inputs = parts
    for number, tensor in enumerate(parts):
        if not tensor.same_scale(node.output):
            raise MapperError(
                f"{node.label}: inputs have different scales or types; keep it on the host with "
                f"--keep {node.sources[0]}"
            )
        place = _place_of_part(node, number)
        if tensor in homes:
            name = f"{tensor.name}.copy{sum(one.kind == 'copy' for one in graph.nodes) + 1}"
            copy = tensor.like(name, tensor.shape)
            copy.of_model = tensor.of_model
            maker = graph.maker(tensor)
            where = 0 if maker is None else graph.nodes.index(maker) + 1
            graph.nodes.insert(where, Node(Copy(), [tensor], [copy], node.sources))
            node.inputs[number] = tensor = copy
            log.add(f"{node.label}: copies {tensor.name}, which also belongs to another region")
        homes[tensor] = place


def _place_of_part(node: Node, number: int) -> Place:
    """Return the place of an input of a concatenation, or of interleaved maps."""
    if isinstance(node.operator, Interleave):
        row, column = node.operator.phase(number)
        steps = node.operator.rows, node.operator.columns
        return Place(node.output, row, column, row_step=steps[0], column_step=steps[1])
    assert isinstance(node.operator, Concat)
    axis = node.operator.axis
    return _place(node.output, axis, sum(one.shape[axis] for one in node.inputs[:number]))


def _loose(graph: Graph, tensor: Tensor, operator: Operator) -> list[Tensor]:
    """Return the tensors to copy for a map: the parts of a concatenation, as the nodes that compute
    them can store them twice, while a concatenation has no instructions."""
    maker = graph.maker(tensor)
    if maker is None or not isinstance(operator, Concat) or maker.operator != operator:
        return [tensor]
    return [one for part in maker.inputs for one in _loose(graph, part, operator)]


def _place(owner: Tensor, axis: int, at: int) -> Place:
    return Place(owner, *(at if axis == one else 0 for one in (1, 2, 3)))


def _require_whole_vectors(
    graph: Graph, tensor: Tensor, place: Place, lanes: Mapping[str, int]
) -> None:
    if place.channel % lanes.get(tensor.type, lanes["int8"]):
        node = graph.maker(tensor)
        name = tensor.name if node is None else node.label
        raise MapperError(
            f"{name}: starts at channel {place.channel} of {place.owner.name}, which is not a "
            f"multiple of the {lanes.get(tensor.type, lanes['int8'])} channels of a vector"
        )


def have_common(a: Tensor, b: Tensor, places: Places) -> bool:
    """Return whether two feature maps share elements."""
    first, second = (places.get(one, Place(one)) for one in (a, b))
    if first.owner is not second.owner:
        return False
    if first.columns > 1 or second.columns > 1:
        return True  # pixels of the owner have several columns
    return all(
        at < other + size and other < at + length
        for at, length, other, size in zip(
            (first.row, first.column, first.channel), a.shape[1:],
            (second.row, second.column, second.channel), b.shape[1:], strict=True,
        )
    )  # fmt: skip


def lanes_of(shape: NpuShape) -> dict[str, int]:
    """Return the channels per vector, by the type of a map."""
    return {"int8": shape.columns, "bits": 8 * shape.columns}
