"""The neurons on the page: the populations on each core, and the links that they load.

The constants below bound the part that a page holds.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from mapper.results.population_table import population_columns
from mapper.scoring.populations import PopulationTraffic

COLOURED = 48
"""Maximum number of populations with a colour: the ones with most neurons."""
LISTED = 2000
"""Maximum number of populations, and of pairs of populations."""
ON_A_CELL = 12
"""Maximum number of populations listed for a cell; fewer on large chips."""
CELL_ENTRIES = 1 << 15
"""Maximum number of populations listed for all cells, beyond one for each."""
LINK_ENTRIES = 1 << 16
"""Maximum number of pairs of populations listed for all links, beyond one for each."""
SEARCHED = 1 << 18
"""Maximum number of neurons whose cores are on the page."""
RANGES = 4096
"""Maximum number of ranges of neurons of a population on the page."""

Grid = NDArray[Any]


class PageNeurons(NamedTuple):
    """The neurons of a mapping.

    core : ndarray[int32], shape (neurons,), cores of the neurons, then of relay neurons
    neurons : number of neurons without relay neurons
    populations : their traffic, None without populations
    """

    core: NDArray[np.int32]
    neurons: int
    populations: PopulationTraffic | None


@dataclass(frozen=True, slots=True)
class PopulationView:
    """Populations on the cells of a page, in real units.

    colour : of each population, -1 for the ones without
    largest : population with most neurons in each cell, -1 for empty ones
    start, population, neurons : populations of cell i from start[i] on, most neurons first
    pairs : source, target, traffic and hops of pairs, most hops first
    link_pair, link_traffic : shape (4, rows, columns, kept); empty if cells are tiles
    """

    traffic: PopulationTraffic
    table: dict[str, Grid]
    colour: list[int]
    largest: Grid
    start: Grid
    population: Grid
    neurons: Grid
    pairs: tuple[Grid, Grid, Grid, Grid]
    link_pair: Grid
    link_traffic: Grid

    @property
    def colours(self) -> int:
        """Return the number of colours."""
        return max(self.colour, default=-1) + 1


def view_populations(
    chip: Chip, traffic: PopulationTraffic, tile: int, links: tuple[Grid, Grid]
) -> PopulationView:
    """Return the populations on the cells of a page.

    tile : width of a cell in cores
    links : strongest pairs of each link of cells and their traffic, (4, rows, columns, kept)
    """
    rows, columns = -(-chip.height // tile), -(-chip.width // tile)
    y, x = np.divmod(traffic.slices.core.astype(np.int64), chip.width)
    cell = y // tile * columns + x // tile
    count = len(traffic.names)
    key, place = np.unique(cell * count + traffic.slices.population, return_inverse=True)
    neurons = np.zeros(key.size, np.int64)
    np.add.at(neurons, place, traffic.slices.neurons)
    order = np.lexsort((key % count, -neurons, key // count))
    key, neurons = key[order], neurons[order]
    first = np.searchsorted(key // count, np.arange(rows * columns + 1))
    rank = np.arange(key.size) - first[key // count]
    cells = max(1, np.unique(key // count).size)
    kept = rank < min(ON_A_CELL, 1 + CELL_ENTRIES // cells)
    key, neurons, rank = key[kept], neurons[kept], rank[kept]
    largest = np.full(rows * columns, -1, np.int64)
    largest[key[rank == 0] // count] = key[rank == 0] % count
    used = traffic.link_pair[..., 0] >= 0
    most = 1 + LINK_ENTRIES // max(1, int(used.sum()))
    pair, load = (each[..., :most] for each in links)
    pairs = [each[:LISTED] for each in (traffic.pair_source, traffic.pair_target)]
    pairs += [
        _real(each[:LISTED], traffic.unit) for each in (traffic.pair_traffic, traffic.pair_hops)
    ]
    return PopulationView(
        traffic, population_columns(traffic), _colours(traffic.neurons), largest,
        np.searchsorted(key // count, np.arange(rows * columns + 1)), key % count, neurons,
        (pairs[0], pairs[1], pairs[2], pairs[3]),
        np.where(pair < LISTED, pair, -1), _real(load, traffic.unit),
    )  # fmt: skip


def _colours(neurons: Grid) -> list[int]:
    """Return a colour for each population, in order, -1 for the smallest of very many."""
    chosen = np.sort(np.argsort(-neurons, kind="stable")[:COLOURED])
    found = np.full(neurons.size, -1)
    found[chosen] = np.arange(chosen.size)
    listed: list[int] = found.tolist()
    return listed


def _real(stored: Grid, unit: float) -> Grid:
    return stored if unit == 1 else stored * unit


def packed_cores(members: PageNeurons | None) -> dict[str, Any]:
    """Return the core of every neuron, deflated, for the search of the page; none for very many."""
    if members is None:
        return {"neurons": 0}
    if members.neurons > SEARCHED:
        return {"neurons": members.neurons}
    core = members.core[: members.neurons]
    wide = int(core.max(initial=0)) > 0xFFFF
    raw = core.astype("<u4" if wide else "<u2").tobytes()
    return {
        "bytes": 4 if wide else 2,
        "neurons": members.neurons,
        "cores": base64.b64encode(zlib.compress(raw, 9)).decode(),
    }


def plain_populations(view: PopulationView) -> dict[str, Any]:
    """Return the populations as lists for the script."""
    traffic, shown = view.traffic, min(LISTED, len(view.traffic.names))
    ranges = traffic.range_first.size <= RANGES
    return {
        "kind": traffic.kind,
        "names": traffic.names[:shown],
        "colour": view.colour[:shown],
        "rows": {name: short(view.table[name][:shown]) for name in view.table if name != "name"},
        "start": view.start.tolist(),
        "population": view.population.tolist(),
        "neurons": view.neurons.tolist(),
        "pairs": [short(each) for each in view.pairs],
        "linkPairs": [_flat(view.link_pair[d]) for d in range(len(view.link_pair))],
        "linkTraffic": [_loads(view, d) for d in range(len(view.link_pair))],
        "first": traffic.range_first.tolist() if ranges else [],
        "of": traffic.range_population.tolist() if ranges else [],
    }


def _flat(pairs: Grid) -> list[list[int]]:
    """Return the pairs of each cell without missing ones."""
    found = pairs.reshape(-1, pairs.shape[-1])
    return [[pair for pair in row if pair >= 0] for row in found.tolist()]


def _loads(view: PopulationView, direction: int) -> list[list[float]]:
    pairs = view.link_pair[direction].reshape(-1, view.link_pair.shape[-1])
    loads = view.link_traffic[direction].reshape(pairs.shape)
    return [
        [rounded(load) for pair, load in zip(row, amounts, strict=True) if pair >= 0]
        for row, amounts in zip(pairs.tolist(), loads.tolist(), strict=True)
    ]


def short(array: Grid) -> list[float]:
    """Convert to a list: integers exactly, others with seven digits, more than the page shows."""
    if np.issubdtype(array.dtype, np.integer):
        listed: list[float] = array.ravel().tolist()
        return listed
    return [rounded(value) for value in array.ravel().tolist()]


def rounded(value: float) -> float:
    """Return a number with seven digits, whole if it is whole."""
    found = float(f"{value:.7g}")
    return int(found) if found.is_integer() else found
