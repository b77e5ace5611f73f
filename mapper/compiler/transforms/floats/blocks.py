"""Align parts of concatenations and splits to blocks, so that they can share memory.

Where a part ends inside a block, padding channels fill the block: they hold the zero point, and
have zero weights in every layer that reads the map. Channelwise operators keep the padding. The
host sees maps without padding: a convolution that only moves channels is inserted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph, take_instead
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.requantisation import Requantisation
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.moves import insert_move
from mapper.compiler.transforms.split_groups import block_diagonal
from mapper.errors import MapperError

ALIKE = (
    op.Add, op.Clamp, op.Copy, op.Lookup, op.Pool, op.Product, op.Requantise, op.Upsample,
)  # fmt: skip
"""Operators whose result channels correspond to their input channels."""
Cuts = dict[Tensor, set[int]]
"""Channels before which a block is filled up; may include the end of the map."""


def whole_blocks(graph: Graph, context: Context) -> None:
    """Align all parts to blocks.

    Raises `MapperError` that names a layer which cannot read maps with padding channels.
    """
    size, log = context.shape.columns, context.log
    if not any(_loose(node, size) for node in graph.nodes):
        return
    log.lines += _between_host_and_parts(graph, size)
    log.lines += _without_gaps_for_the_host(graph, _cuts(graph, size), size)
    cuts = _cuts(graph, size)
    for node in graph.nodes:
        _fill(node, cuts, size)
    for tensor in [one for one in cuts if cuts[one]]:
        channels = tensor.channels
        tensor.of_model = tuple(_slots(channels, cuts[tensor], size).tolist())
        tensor.shape = (*tensor.shape[:3], _width(channels, cuts[tensor], size))
        log.add(f"{tensor.name}: {channels} -> {tensor.channels} channels, aligned to blocks")


def _loose(node: Node, size: int) -> bool:
    """Return whether a part begins inside a block."""
    if any(tensor.type == "bits" for tensor in node.inputs):
        return False
    return any(at % size for at, _ in _parts(node))


def _parts(node: Node) -> list[tuple[int, Tensor]]:
    """Return the parts of a node that joins or splits channels, with their begins."""
    if isinstance(node.operator, op.Slice) and node.operator.axis == 3:
        return [(node.operator.first, node.output)]
    if isinstance(node.operator, op.Concat) and node.operator.axis == 3:
        sizes = [tensor.channels for tensor in node.inputs]
        begins = np.cumsum([0, *sizes[:-1]]).tolist()
        return list(zip(begins, node.inputs, strict=True))
    return []


def _whole(node: Node) -> Tensor:
    return node.inputs[0] if isinstance(node.operator, op.Slice) else node.output


def _is_depthwise(node: Node) -> bool:
    operator = node.operator
    channels = node.inputs[0].channels
    return isinstance(operator, op.Conv) and 1 < operator.groups == channels == node.output.channels


def _alike(node: Node) -> list[Tensor]:
    """Return the maps of a node whose channels must have the same positions."""
    maps = [tensor for tensor in node.inputs if tensor.value is None]
    moves = isinstance(node.operator, op.Concat | op.Slice) and node.operator.axis != 3
    moves |= isinstance(node.operator, op.Interleave)
    if isinstance(node.operator, ALIKE) or moves:
        return [*maps, *node.outputs]
    return [maps[0], node.output] if _is_depthwise(node) else []


def _cuts(graph: Graph, size: int) -> Cuts:
    """Return the least set of cuts that is consistent over the graph."""
    cuts: Cuts = {tensor: set() for tensor in graph.tensors() if tensor.value is None}
    for node in graph.nodes:
        for at, _ in _parts(node):
            if at % size or cuts[_whole(node)]:
                cuts[_whole(node)].add(at)
    changed = True
    while changed:
        before = sum(len(some) for some in cuts.values())
        for node in graph.nodes:
            alike = _alike(node)
            union = set[int]().union(*(cuts[tensor] for tensor in alike))
            for tensor in alike:
                cuts[tensor] |= union
            whole = _whole(node) if _parts(node) else None
            for at, tensor in _parts(node):
                assert whole is not None
                if cuts[whole]:
                    cuts[whole].add(at)
                inside = {one - at for one in cuts[whole] if at < one <= at + tensor.channels}
                cuts[tensor] |= inside
                cuts[whole] |= {one + at for one in cuts[tensor]}
        for some in cuts.values():
            some.discard(0)
        changed = sum(len(some) for some in cuts.values()) != before
    return cuts


def _slots(channels: int, cuts: set[int], size: int) -> NDArray[np.int64]:
    """Return the padded position of each channel of a map."""
    found, at = np.zeros(channels, np.int64), 0
    ends = sorted(cuts | {channels})
    begin = 0
    for end in ends:
        found[begin:end] = at + np.arange(end - begin)
        at += -(-(end - begin) // size) * size
        begin = end
    return found


def _width(channels: int, cuts: set[int], size: int) -> int:
    last = int(_slots(channels, cuts, size)[-1]) + 1
    return -(-last // size) * size if channels in cuts else last


def _hosted(graph: Graph) -> set[Tensor]:
    """Return the maps that the host computes."""
    made = {view.tensor for view in graph.inputs.values()}
    return made.union(*(node.outputs for node in graph.nodes_of(op.BY_HOST)))


def _between_host_and_parts(graph: Graph, size: int) -> Iterator[str]:
    """Insert moves after maps of the host that need padding channels."""
    hosted, cuts = _hosted(graph), _cuts(graph, size)
    for tensor in [one for one in cuts if one in hosted and cuts[one]]:
        users = [node for node in graph.users(tensor) if not isinstance(node.operator, op.BY_HOST)]
        made = insert_move(graph, tensor, min(graph.nodes.index(node) for node in users))
        for node in users:
            node.inputs = [made if one is tensor else one for one in node.inputs]
        yield f"{tensor.name}: moved by a convolution to fill its blocks"


def _without_gaps_for_the_host(graph: Graph, cuts: Cuts, size: int) -> Iterator[str]:
    """Insert moves that remove padding channels from maps that the host reads."""
    for tensor in [one for one in cuts if cuts[one]]:
        hosts = [node for node in graph.users(tensor) if isinstance(node.operator, op.Host)]
        if not hosts and not graph.is_output(tensor):
            continue
        maker = graph.maker(tensor)
        if maker is not None and tensor.bits > 16:  # cores do not multiply sums
            raise _refusal(maker, size)
        made = insert_move(graph, tensor, 0 if maker is None else graph.nodes.index(maker) + 1)
        for node in hosts:
            take_instead(node, tensor, made)
        graph.outputs = {
            name: view._replace(tensor=made) if view.tensor is tensor else view
            for name, view in graph.outputs.items()
        }
        yield f"{tensor.name}: moved by a convolution to remove padding channels"


def _fill(node: Node, cuts: Cuts, size: int) -> None:
    """Adapt a node to padding channels; the shapes of its maps are still unpadded."""
    operator = node.operator
    if isinstance(operator, op.Conv):
        _fill_layer(node, operator, cuts, size)
    elif isinstance(operator, op.Requantise) and cuts[node.output]:
        node.operator = op.Requantise(_filled(operator.how, node.output, cuts[node.output], size))
    elif isinstance(operator, op.Slice) and operator.axis == 3 and cuts[node.inputs[0]]:
        whole = node.inputs[0]
        slots = _slots(whole.channels, cuts[whole], size)
        node.operator = replace(operator, first=int(slots[operator.first]))
    elif any(cuts.get(tensor) for tensor in (*node.inputs, *node.outputs)):
        known = isinstance(operator, (*ALIKE, op.Concat, op.Interleave, op.Slice))
        if not known:
            raise _refusal(node, size)


def _refusal(node: Node, size: int) -> MapperError:
    return MapperError(
        f"{node.label}: parts that are joined or split before or after it are not a multiple "
        f"of {size} channels; keep it on the host with --keep {node.sources[0]}"
    )


def _fill_layer(node: Node, operator: op.Conv, cuts: Cuts, size: int) -> None:
    data, made = node.inputs[0], node.output
    if not cuts[data] and not cuts[made]:
        return
    taken, results = (_slots(one.channels, cuts[one], size) for one in (data, made))
    wide, high = (_width(one.channels, cuts[one], size) for one in (data, made))
    weights = node.inputs[1].numbers
    if _is_depthwise(node):
        whole = np.zeros((high, *weights.shape[1:]), weights.dtype)
        whole[results] = weights
        node.operator = replace(operator, groups=high)
    else:
        weights = block_diagonal(weights, operator.groups)  # groups need not begin at blocks
        whole = np.zeros((high, *weights.shape[1:3], wide), weights.dtype)
        whole[np.ix_(results, *(np.arange(n) for n in weights.shape[1:3]), taken)] = weights
        node.operator = replace(operator, groups=1)
    node.inputs[1] = replace(node.inputs[1], shape=whole.shape, value=whole)
    if len(node.inputs) > 2:
        bias = node.inputs[2]
        value = _spread(bias.numbers, results, high, 0)
        node.inputs[2] = replace(bias, shape=(high,), value=value)


def _filled(how: Requantisation, made: Tensor, cuts: set[int], size: int) -> Requantisation:
    """Return factors with padding channels, whose values are arbitrary because their sums are 0."""
    slots, width = _slots(made.channels, cuts, size), _width(made.channels, cuts, size)

    def spread(values: Any) -> NDArray[Any]:
        return _spread(np.asarray(values), slots, width, np.asarray(values).flat[0])

    offset = _spread(np.asarray(how.offset), slots, width, 0)
    return how.changed(spread)._replace(offset=offset)


def _spread(values: NDArray[Any], slots: NDArray[np.int64], width: int, rest: Any) -> NDArray[Any]:
    """Return per-channel numbers at their padded positions; one number for all channels is
    unchanged.
    """
    if values.shape != slots.shape or values.ndim != 1:
        return values
    whole = np.full(width, rest, values.dtype)
    whole[slots] = values
    return whole
