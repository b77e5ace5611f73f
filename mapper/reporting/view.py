"""One mapping as the page shows it: in real units, with a bounded number of cells.

A chip of more than `CELLS` cores is shown in tiles of t x t cores; a tile shows the highest value
of its cores, so that hot spots remain visible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.faults import working_links
from chipsim.chip.limits import uses
from chipsim.chip.model import Chip
from chipsim.chip.presets import from_fields
from chipsim.traffic.profile import Profile
from chipsim.traffic.routes import Routes
from chipsim.traffic.ticks import tick_bounds
from chipsim.traffic.turns import entering, of_routers
from mapper.reporting.cells import Series
from mapper.reporting.core_limits import fullest, limit_of, limit_shown, peaks
from mapper.reporting.machine import End, ends
from mapper.reporting.members import (
    PageNeurons,
    PopulationView,
    packed_cores,
    plain_populations,
    rounded,
    short,
    view_populations,
)
from mapper.results.loads import Loads
from mapper.scoring.populations import PopulationTraffic

CELLS = 1 << 14
"""Maximum number of cells of a chip on the page."""
SVG_CELLS = 64 * 64
"""Chips of more cells are drawn on a canvas: the layout of more shapes would be slow."""
DESTINATIONS = 1 << 14
"""Maximum number of destinations on the page, over all cores, beyond 16 per core."""

CYCLES = "cycles"
"""Layer of cores and links for chips with timing."""
POPULATION, HOPS = "population", "hops"
"""Layers of networks with populations, and of chips whose strongest destinations are kept."""
LAYERS = {
    POPULATION: ("Population", "the populations of the neurons in a core, by their share"),
    "fill": ("Core fill", "size of the neurons in a core, over its capacity"),
    "outgoing": ("Outgoing traffic", "traffic from a core to other cores, per unit of time"),
    "incoming": ("Incoming traffic", "traffic to a core from other cores, per unit of time"),
    HOPS: (
        "Mean hops",
        "hops of the traffic from a core to its strongest destinations, weighted by traffic",
    ),
    "router": (
        "Router load",
        "traffic through a router, one packet per synapse, per unit of time",
    ),
    CYCLES: (
        "Cycles per tick",
        "cycles of a core for its neurons, its packets or its synaptic events, whichever is "
        "largest, at mean rates; link cycles are on the same scale",
    ),
}
"""Layers of the cells of the chip: title and meaning."""
LINKS = {
    "unicast": "one packet per synapse, XY routing",
    "core-cast": "one packet per neuron and core that it reaches, XY routing",
    "multicast": "one packet per neuron, which branches on its way to the cores that it reaches",
    CYCLES: "cycles of a link for the flits of a tick, on the scale of the cores",
}
"""Layers of the links, with their meaning."""
SENT = {"synapse": "unicast", "core": "core-cast", "tree": "multicast"}
"""The layer of `LINKS` that a chip sends, by its delivery."""
EMPTY, USED, UNAVAILABLE = 0, 1, 2
SERIES = 8
"""Number of colours of mappings."""

Grid = NDArray[Any]


@dataclass(frozen=True, slots=True)
class View:
    """Numbers of one mapping, ready to draw.

    label : name of the mapping on the page
    report : report.json
    chip, tile : the chip, and the width of a cell in cores
    layers : by name of `LAYERS`, shape (rows, columns)
    links : by name of `LINKS`, shape (4, rows, columns), in the form of `chipsim.traffic.links`
    state : shape (rows, columns), `EMPTY`, `USED` or `UNAVAILABLE`
    usage : by core limit, shape (rows, columns)
    limits : by core limit: of all cores, or shape (rows, columns) if cores differ; None: no limit
    fullest : largest use of each limit, as a share of the limit of the same core
    within : traffic within the core, shape (rows, columns)
    distances : traffic per number of hops, from 0 to the longest route
    loads : every existing link, strongest first, by name of `LINKS`
    peaks : largest and mean use of each limit, over the cores in use
    ends : traffic that leaves each chip of a machine, by the chip's delivery
    populations : of the neurons, None without any
    members : cores of single neurons, None if they are unknown
    destination, share : as in `chipsim.traffic.profile.Profile`, in real units; None with tiles
    """

    label: str
    report: dict[str, Any]
    chip: Chip
    tile: int
    layers: dict[str, Grid]
    links: dict[str, Grid]
    state: Grid
    usage: dict[str, Grid]
    limits: dict[str, Grid | int | None]
    fullest: dict[str, float]
    within: Grid
    distances: Grid
    loads: dict[str, Grid]
    peaks: dict[str, tuple[int, float]]
    destination: Grid | None
    share: Grid | None
    ends: list[End]
    populations: PopulationView | None = None
    members: PageNeurons | None = None

    @property
    def first(self) -> str:
        """Return the layer that is shown first: populations, if there are several."""
        found = self.populations
        return POPULATION if found is not None and len(found.traffic.names) > 1 else "fill"

    @property
    def window(self) -> tuple[int, int, int, int]:
        """Return column, row, columns and rows of the part with neurons, if it is small."""
        ys, xs = np.nonzero(self.state == USED)
        if not ys.size:
            return 0, 0, self.columns, self.rows
        left, top = max(0, int(xs.min()) - 1), max(0, int(ys.min()) - 1)
        right, low = min(self.columns, int(xs.max()) + 2), min(self.rows, int(ys.max()) + 2)
        if (right - left) * (low - top) * 2 > self.columns * self.rows:
            return 0, 0, self.columns, self.rows
        return left, top, right - left, low - top

    @property
    def rows(self) -> int:
        return int(self.state.shape[0])

    @property
    def columns(self) -> int:
        return int(self.state.shape[1])

    @property
    def sent(self) -> str:
        """Return the layer of `LINKS` that the chip sends."""
        return SENT[self.chip.delivery]

    @property
    def is_canvas(self) -> bool:
        return self.rows * self.columns > SVG_CELLS

    @property
    def network(self) -> str:
        """Return the file name of the network, or of its import source."""
        facts = self.report["network"]
        path = facts.get("imported_from") or facts["path"]
        if path is None:  # mapped from Python, network without a file
            return "network"
        return str(path).replace("\\", "/").rsplit("/", 1)[-1]


def make_view(
    label: str, report: dict[str, Any], loads: Loads, members: PageNeurons | None = None
) -> View:
    """Return the view of a mapping; raises `ChipError` if the report's chip is damaged.

    members : its neurons, if they are known
    """
    chip = from_fields(report["chip"], f"{label}: chip of the report")
    tile = 1
    while -(-chip.width // tile) * -(-chip.height // tile) > CELLS:
        tile += 1
    use, profile = loads.usage, loads.profile
    filled = uses(chip, use)
    unit, rate = loads.weight_unit, loads.rate_unit
    used = use.count > 0
    state = np.where(used, USED, EMPTY).reshape(chip.height, chip.width)
    state.flat[list(chip.unavailable)] = UNAVAILABLE

    def cells(array: Grid) -> Grid:
        return _tiled(array.reshape(*array.shape[:-2], chip.height, chip.width), tile)

    def per_core(array: Grid, by: float = 1.0) -> Grid:
        return cells(_real(array, by).reshape(chip.height, chip.width))

    kept = min(profile.share.shape[1], max(16, DESTINATIONS // chip.cores)) if tile == 1 else 0
    links = {
        "unicast": _real(loads.unicast_links, unit),
        "core-cast": _real(loads.core_links, rate),
        "multicast": _real(loads.multicast_links, rate),
    }
    bounds = None if chip.time is None else tick_bounds(chip, loads, chip.time)
    idle, works = np.zeros(chip.cores), working_links(chip)
    share = _real(profile.share[:, :kept], unit) if kept else None
    populations = None if members is None else members.populations
    drawn = links | {CYCLES: np.zeros_like(links["unicast"]) if bounds is None else bounds.links}
    return View(
        label=label,
        report=report,
        chip=chip,
        tile=tile,
        layers={
            POPULATION: np.zeros_like(cells(state)),
            "fill": per_core(use.neurons / limit_of(chip, "neurons")),
            "outgoing": per_core(profile.outgoing, unit),
            "incoming": per_core(profile.incoming, unit),
            HOPS: cells(_mean_hops(chip, profile)),
            "router": cells(_of_routers(_passing(loads, chip) * unit, chip)),
            CYCLES: per_core(idle if bounds is None else bounds.cores),
        },
        links={name: cells(_at_ends(array, chip)) for name, array in drawn.items()},
        # A tile is unavailable only if all of its cores are.
        state=np.where(
            cells(state == USED), USED, np.where(cells(state == EMPTY), EMPTY, UNAVAILABLE)
        ),
        usage={name: per_core(values) for name, values in filled.items()},
        limits={name: limit_shown(chip, name, per_core) for name in filled},
        fullest=fullest(chip, filled),
        within=per_core(profile.within, unit),
        distances=_real(profile.distances, unit),
        loads={name: np.sort(array[works])[::-1] for name, array in links.items()},
        peaks=peaks(filled, used),
        destination=profile.destination[:, :kept] if kept else None,
        share=share,
        ends=ends(chip, links[SENT[chip.delivery]]),
        populations=None
        if populations is None
        else view_populations(chip, populations, tile, _cell_pairs(chip, populations, tile)),
        members=members,
    )


def by_series(views: list[View]) -> list[tuple[Series | None, View]]:
    """Return each mapping with its colour; None for a single mapping."""
    several = len(views) > 1
    return [
        (Series(i % SERIES, view.label) if several else None, view) for i, view in enumerate(views)
    ]


def heads_of(first: str, views: list[View]) -> list[str]:
    """Return the heads of a table with a column per mapping."""
    return [first, *(view.label if len(views) > 1 else "Value" for view in views)]


def shown(names: Iterable[str], views: list[View]) -> list[str]:
    """Return the names of `LAYERS` or `LINKS` that any of the mappings has."""
    has = {
        CYCLES: any(view.chip.time is not None for view in views),
        POPULATION: all(view.populations is not None for view in views),
        HOPS: any(view.layers[HOPS].any() for view in views),
    }
    return [name for name in names if has.get(name, True)]


def scales(views: list[View]) -> dict[str, float]:
    """Return the value of the strongest colour per layer, the same for all mappings of a page."""
    found = {}
    for name in LAYERS:
        found[name] = max(float(view.layers[name].max(initial=0)) for view in views)
    found["fill"] = max(found["fill"], 1.0)  # a full core; more only above limits
    for name in LINKS:
        found[f"links {name}"] = max(float(view.links[name].max(initial=0)) for view in views)
    found[CYCLES] = found[f"links {CYCLES}"] = max(found[CYCLES], found[f"links {CYCLES}"])
    return found


def steps(values: Grid, scale: float, count: int) -> Grid:
    """Return the colour, 0 to count - 1, of every value; page.js has the same formula."""
    if scale <= 0:
        return np.zeros(values.shape, np.int64)
    return np.minimum((values / scale * count).astype(np.int64), count - 1)


def page_data(views: list[View]) -> dict[str, Any]:
    """Return the data of page.js: plain lists, cell by cell in the order of core ids."""
    layers, links = shown(LAYERS, views), shown(LINKS, views)
    mappings = [_plain(view, layers, links) for view in views]
    return {"scales": _plain_scales(views), "mappings": mappings}


def _plain_scales(views: list[View]) -> dict[str, float]:
    return {name: rounded(value) for name, value in scales(views).items()}


def _plain(view: View, layers: list[str], links: list[str]) -> dict[str, Any]:
    chip = view.chip
    out: dict[str, Any] = {
        "label": view.label,
        "columns": view.columns,
        "rows": view.rows,
        "width": chip.width,
        "height": chip.height,
        "tile": view.tile,
        "limits": {
            name: short(one) if isinstance(one, np.ndarray) else one
            for name, one in view.limits.items()
        },
        "state": view.state.ravel().tolist(),
        "window": list(view.window),
        "layers": {
            name: short(view.layers[name]) for name in layers if name not in ("fill", POPULATION)
        },
        "links": {n: [short(direction) for direction in view.links[n]] for n in links},
        "usage": {name: short(values) for name, values in view.usage.items()},
        "within": short(view.within),
        "linkMean": float(view.loads[view.sent].mean()) if view.loads[view.sent].size else 0.0,
    }
    if view.destination is not None and view.share is not None:
        out["kept"] = int(view.destination.shape[1])
        out["destination"] = view.destination.ravel().tolist()
        out["share"] = short(view.share)
    if view.populations is not None:
        out["people"] = plain_populations(view.populations)
    return out | {"packed": packed_cores(view.members)}


def _mean_hops(chip: Chip, profile: Profile) -> Grid:
    """Return mean hops to the kept destinations of each core, shape (height, width)."""
    destination, share = profile.destination, profile.share
    if not destination.size:
        return np.zeros((chip.height, chip.width))
    routes = Routes.of(chip)
    source = np.arange(chip.cores)[:, None]
    hops = np.zeros(destination.shape)
    for at, place, around in (
        (routes.column, chip.width, (routes.x, routes.round_x)),
        (routes.row, 0, (routes.y, routes.round_y)),
    ):
        one, two = (each % place if place else each // chip.width for each in (source, destination))
        one, two = at[one], at[two]
        steps = np.abs(two - one)
        coordinates, turn = around
        longer = 2 * np.abs(coordinates[two].astype(np.int64) - coordinates[one]) > turn
        hops += np.where(longer, coordinates.size - steps, steps)
    total = share.sum(axis=1)
    mean = np.divide((hops * share).sum(axis=1), total, out=np.zeros(chip.cores), where=total > 0)
    return mean.reshape(chip.height, chip.width)


def _cell_pairs(chip: Chip, traffic: PopulationTraffic, tile: int) -> tuple[Grid, Grid]:
    """Return the strongest pairs of the links of cells; none if a cell is a tile of cores."""
    kept = traffic.link_pair.shape[-1]
    if tile > 1:
        return np.zeros((0, 0, 0, kept), np.int64), np.zeros((0, 0, 0, kept), np.int64)
    pairs = [_at_ends(traffic.link_pair[..., k] + 1, chip) - 1 for k in range(kept)]
    loads = [_at_ends(traffic.link_traffic[..., k], chip) for k in range(kept)]
    return np.stack(pairs, axis=-1), np.stack(loads, axis=-1)


def _passing(loads: Loads, chip: Chip) -> Grid:
    """Return unicast traffic through each router, shape (rows, columns of routers)."""
    passing: Grid = entering(loads.unicast_links).sum(axis=0)
    return passing + of_routers(chip, loads.profile.outgoing)


def _of_routers(array: Grid, chip: Chip) -> Grid:
    """Expand values of routers, shape (rows, columns of routers), to all cores of each."""
    columns, rows = chip.routers
    return array.repeat(chip.height // rows, axis=0).repeat(chip.width // columns, axis=1)


def _at_ends(links: Grid, chip: Chip) -> Grid:
    """Assign links of routers, shape (4, rows, columns), to the core at the side they leave."""
    columns, rows = chip.routers
    wide, tall = chip.width // columns, chip.height // rows
    found = np.zeros((4, chip.height, chip.width), links.dtype)
    middle = (tall - 1) // 2, (wide - 1) // 2
    for direction, (y, x) in enumerate(
        ((middle[0], wide - 1), (middle[0], 0), (tall - 1, middle[1]), (0, middle[1]))
    ):
        found[direction, y::tall, x::wide] = links[direction]
    return found


def _real(stored: Grid, unit: float) -> Grid:
    return stored if unit == 1 else stored * unit


def _tiled(array: Grid, tile: int) -> Grid:
    """Return the highest value of each tile in the last two axes."""
    if tile == 1:
        return array
    *front, height, width = array.shape
    rows, columns = -(-height // tile), -(-width // tile)
    padded = np.zeros((*front, rows * tile, columns * tile), array.dtype)
    padded[..., :height, :width] = array
    return padded.reshape(*front, rows, tile, columns, tile).max(axis=(-3, -1))
