"""Placement of the parts of a network on the mesh, for few hops of packets per tick.

Parts are placed by the placement of group graphs that `mapper run` uses. The placement is then
mirrored and shifted to the place where packets from and to the host have the fewest hops.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import coo_array

from chipsim.chip.model import Chip
from mapper.graph.csr import Subgraph
from mapper.placement.placers import place_by
from mapper.placement.portfolio import place
from mapper.placement.region import choose_region
from mapper.populations.usage import Links
from mapper.settings import PORTFOLIO
from storage.arrays import Float64, Int64

TRAFFIC = 1 << 40  # total packets of a placement, which counts in integers


def routes_of(network: Links, part: Int64) -> tuple[Int64, Int64]:
    """Return source and destination part of each route, each shape (routes,), by source.

    part : part of each neuron, shape (neurons,)
    """
    parts = int(part.max()) + 1
    pair = np.unique(network.source * parts + part[network.target])
    return pair // parts, pair % parts


def place_parts(
    network: Links, part: Int64, rate: Float64, watched: Int64, chip: Chip, seed: int,
    placer: str = PORTFOLIO,
) -> Int64:  # fmt: skip
    """Return the core of each part, shape (parts,).

    rate : spikes per tick of each neuron and input, shape (neurons + inputs,)
    watched : neurons whose spikes go to the host
    placer : see `mapper.settings`

    Raises `DoesNotFitError` if there are more parts than usable cores.
    """
    parts = int(part.max()) + 1
    source, target = routes_of(network, part)
    inner = source < network.neurons
    packets = coo_array(
        (rate[source[inner]], (part[source[inner]], target[inner])), shape=(parts, parts)
    )
    usable = chip.usable.reshape(chip.height, chip.width)
    region = choose_region(usable, parts, chip.axes)
    groups = _groups(packets, np.bincount(part))
    rng = np.random.default_rng(seed)
    if placer == PORTFOLIO:
        x, y = place(groups, region, "default", rng)
    else:
        x, y = place_by(placer, groups, region, rng)
    core = y.astype(np.int64) * chip.width + x
    if not chip.axes.flat:
        return core
    entering = np.bincount(target[~inner], rate[source[~inner]], parts).astype(np.float64)
    leaving = np.bincount(part[watched], rate[watched], parts).astype(np.float64)
    return _near_host(core, entering, leaving, chip)


def _groups(packets: coo_array, sizes: Int64) -> Subgraph:
    """Return the packets between parts in both directions, as whole numbers."""
    matrix = (packets + packets.T).tocsr()
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    scale = TRAFFIC / max(float(matrix.sum()), 1e-300)
    return Subgraph(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        np.maximum(np.rint(matrix.data * scale), 1).astype(np.int64),
        sizes,
        np.arange(sizes.size),
    )


def _near_host(core: Int64, entering: Float64, leaving: Float64, chip: Chip) -> Int64:
    """Return the symmetric and shifted placement with the fewest hops from and to the host.

    entering, leaving : packets of inputs per tick to each part, and of outputs from it
    """
    ports = np.array(chip.host_ports)
    rows, columns = np.divmod(np.arange(chip.cores), chip.width)
    hops = np.min(
        [abs(columns - port % chip.width) + abs(rows - port // chip.width) for port in ports],
        axis=0,
    )
    exits = columns + chip.height - rows  # the host receives below column 0

    def cost_of(place: Int64) -> float:
        return float(hops[place] @ entering + exits[place] @ leaving)

    best, least = core, cost_of(core)
    for found in _moved(core, chip):
        cost = cost_of(found)
        if cost < least and chip.usable[found].all():
            best, least = found, cost
    return best


def _moved(core: Int64, chip: Chip) -> Iterator[Int64]:
    """Yield placements with the same distances between all parts."""
    y, x = np.divmod(core, chip.width)
    x, y = x - x.min(), y - y.min()
    for across, down in ((x, y), (y, x)):
        wide, tall = int(across.max()), int(down.max())
        for column in (across, wide - across):
            for row in (down, tall - down):
                for top in range(chip.height - tall):
                    for left in range(chip.width - wide):
                        yield (row + top) * chip.width + column + left
