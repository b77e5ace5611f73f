"""Pieces of layers as vertices of a network, with the traffic between them per frame.

Pieces that share a core form a group, which fills it. The weight of an edge is the number of flits
per frame from one piece to another, including credits. The host's port is a vertex of size 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.program import UNLIMITED
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import map_capacity
from mapper.compiler.multicore.areas import Box, Homes
from mapper.compiler.multicore.job import MacroPiece, Whole
from mapper.compiler.multicore.known_costs import PartCost
from mapper.compiler.multicore.slices import slice_macro

WHOLE = 1 << 20
"""Size of a core in units of vertex size."""
SHARES = (
    "cycles", "feature memory", "weight memory", "parameter memory", "micro-op memory",
    "instruction memory", "header memory",
)  # fmt: skip
"""Resources of a core, in the order of `PartCost`."""
CREDIT = 1
"""Flits per credit."""


class Vertices(NamedTuple):
    """A network of pieces.

    sizes : int64, shape (pieces + 1,), in units of 1 / `WHOLE` of a core; the last one is the
        host's port; there may be several ports (`with_ports`)
    source, target, flits : int64, shape (edges,)
    groups : int64, shape (pieces,); pieces of a group share a core
    """

    sizes: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    flits: NDArray[np.int64]
    groups: NDArray[np.int64]


def shares(cost: PartCost, shape: NpuShape, period: int) -> list[float]:
    """Return the fractions of a core that a piece uses: of the period, then of each memory."""
    most = (
        period, map_capacity(shape), shape.weight_words, shape.parameter_words, shape.micro_ops,
        shape.instructions or UNLIMITED, shape.headers,
    )  # fmt: skip
    return [
        taken / limit if limit else float(taken > 0)
        for taken, limit in zip(cost, most, strict=True)
    ]


def vertices_of(
    whole: Whole, pieces: Sequence[MacroPiece], costs: Sequence[PartCost], groups: Sequence[int],
    shape: NpuShape,
) -> Vertices:  # fmt: skip
    """Return the network of pieces.

    costs : cost of each piece; groups : group of each piece. A group has its own core, which its
        pieces share in proportion to their cycles
    """
    cycles = np.array([max(1, one.cycles) for one in costs], np.float64)
    all_ = np.bincount(groups, weights=cycles)
    sizes = np.floor(cycles / all_[np.array(groups)] * WHOLE).astype(np.int64)
    first = np.unique(np.array(groups), return_index=True)[1]
    sizes[first] += WHOLE - np.bincount(groups, weights=sizes).astype(np.int64)
    flows = flows_of(whole, pieces, shape)
    pairs = sorted(flows)
    return Vertices(
        np.append(sizes, 0),
        np.array([source for source, _ in pairs], np.int64),
        np.array([target for _, target in pairs], np.int64),
        np.array([flows[pair] for pair in pairs], np.int64),
        np.array(groups, np.int64),
    )


def with_own_nodes(vertices: Vertices) -> Vertices:
    """Return vertices whose host ports take whole nodes, so that no core sends from there."""
    host = vertices.groups.size
    return vertices._replace(sizes=np.append(vertices.sizes[:host], WHOLE))


def with_ports(vertices: Vertices, port_of: NDArray[np.int64], ports: int) -> Vertices:
    """Replace the single host vertex by several ports at the end.

    port_of : int64, shape (pieces,), index of the port of each piece
    """
    host = vertices.groups.size
    ends = vertices.source, vertices.target
    source, target = (
        np.where(one == host, host + port_of[np.where(one == host, other, 0)], one)
        for one, other in (ends, ends[::-1])
    )
    sizes = np.append(vertices.sizes[:host], np.full(ports, vertices.sizes[host]))
    return vertices._replace(sizes=sizes, source=source, target=target)


def flows_of(
    whole: Whole, pieces: Sequence[MacroPiece], shape: NpuShape
) -> Counter[tuple[int, int]]:
    """Return the flits per frame from piece to piece, by index; the host follows the last piece."""
    homes, host = Homes(whole.places, shape.columns), len(pieces)
    parts = -(-8 * shape.columns // shape.payload_bits)
    made: dict[Tensor, list[tuple[int, Box, int]]] = {}  # piece, box, and one in how many pixels
    taken: dict[Tensor, list[tuple[int, Box, int]]] = {}
    for number, piece in enumerate(pieces):
        macro = whole.macros[piece.macro]
        part = slice_macro(macro, piece.rows, piece.blocks, shape.columns)
        for side, found in ((part.outputs, made), (part.inputs, taken)):
            for one in side:
                owner, box = homes.kept(one)
                place = homes.of(one.whole)
                share = place.row_step * place.column_step
                found.setdefault(owner, []).append((number, box, share))
    for tensors, found in ((whole.written, made), (whole.read, taken)):
        for tensor in tensors:
            found.setdefault(homes.of(tensor).owner, []).append((host, homes.whole(tensor), 1))
    flows: Counter[tuple[int, int]] = Counter()
    for owner, sources in made.items():
        each = owner.width * (2 if owner.type == "int16" else 1) * parts
        for source, box, share in sources:
            for target, other, _ in taken.get(owner, []):
                some = box.meet(other)
                if some is not None and source != target:
                    vectors = some.rows.size * some.blocks.size
                    if owner.planes:  # channels in groups of four
                        vectors = -(
                            -some.rows.size * owner.channels // shape.columns
                        )  # divided by the width, which `each` includes
                    flows[source, target] += vectors * each // share
                    if target != host:
                        flows[target, source] += CREDIT
    return flows
